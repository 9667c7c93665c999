"""Scripts of packetdrill: what is understood holds in the engine, anything else is refused with its line.

Those in the folder ``packetdrill`` are ours. The running kernel is asked as well: what is translated is what
was written.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import lasthop as lh
from lasthop import live
from lasthop.cli import app
from lasthop.packetdrill import translate
from lasthop.scripts import run_script

FOLDER = Path(__file__).parent / "packetdrill"
PATHS = sorted(FOLDER.glob("*.pkt"))
#: A late machine gets another try.
TRIES = 4
OPEN = """0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 connect(3, ..., ...) = 0
+0 > S 0:0(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 8>
+.1 < S. 0:0(0) ack 1 win 5792 <mss 1000,nop,nop,sackOK>
+0 > . 1:1(0) ack 1
"""


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_our_scripts_hold(path: Path) -> None:
    """Either end may send, as a client or as a server."""
    outcome = run_script(path)
    assert outcome.holds, f"{outcome.failure}\n" + "\n".join(outcome.log)


@pytest.mark.skipif(bool(live.lacking()), reason="; ".join(need.text for need in live.lacking()))
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_packetdrill_on_the_kernel(path: Path) -> None:
    """The kernel does what they say."""
    for _ in range(TRIES):
        outcome = run_script(path, kernel=True)
        if outcome.holds:
            return
    pytest.fail(f"{outcome.failure}\n" + "\n".join(outcome.log))


def test_the_line_is_that_of_the_file(tmp_path: Path) -> None:
    """A parting names the line of the script of packetdrill, and what is not looked at is told."""
    path = tmp_path / "wrong.pkt"
    text = (FOLDER / "server-recovers.pkt").read_text(encoding="utf-8")
    path.write_text(text.replace("> . 1:1001(1000) ack 1", "> . 2001:3001(1000) ack 1"), encoding="utf-8")
    line = text.split("\n").index("   +0 > . 1:1001(1000) ack 1") + 1
    result = CliRunner().invoke(app, ["script", str(path)])
    assert result.exit_code == 1, result.output
    assert f"wrong.pkt, line {line}: +0 > . 2001:3001(1000) ack 1: another sequence" in " ".join(
        result.stdout.split()
    )
    assert f"line {line + 1}: tcpi_lost == 1 is not looked at" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ("+0 sendfile(3, 4, [0], 5) = 5\n", "line 6: sendfile: there is no use for it here"),
        ("+0 < icmp unreachable\n", "line 6: not understood: '+0 < icmp unreachable'"),
        ("+0 setsockopt(3, SOL_TCP, TCP_CORK, [1], 4) = 0\n", "line 6: setsockopt TCP_CORK"),
        ("+0 `tc qdisc add dev tun0 root pfifo limit 0`\n", "line 6: a command amid the connection"),
        ("+0 write(3, ..., 1000) = -1 EPIPE (Broken pipe)\n", "line 6: write that fails"),
        ("+0 < . 1:1(0) ack 1 win 10 <md5 00>\n", "line 6: option 'md5 00': not modelled"),
        ("+0 < R. 1:1(0) ack 1\n+0 > . 1:1(0) ack 1\n", "line 6: a RST amid the connection"),
        ("+0 write(3, ..., 9) = 9\n+0 < . 1:11(10) ack 1 win 9\n", "line 7: data in both directions"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, events: str, told: str) -> None:
    """By its name and line; the command exits with 2."""
    path = tmp_path / "odd.pkt"
    path.write_text(OPEN + events, encoding="utf-8")
    with pytest.raises(lh.ScenarioError) as caught:
        run_script(path)
    assert f"odd.pkt, {told}" in str(caught.value)
    result = CliRunner().invoke(app, ["script", str(path)])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("sysctl -q net.ipv4.tcp_reordering=9", "tcp_reordering=9: not understood"),
        ("sysctl -q net.ipv4.tcp_congestion_control=bbr", "scripts of packetdrill are asked of reno, cubic"),
        ("ip route change 1.2.3.4", "command 'ip'"),
        ("tc qdisc add dev tun0 root pfifo limit 0", "tc with a limit"),
    ],
)
def test_settings_that_are_not_understood(settings: str, told: str) -> None:
    """What would change the connection and is not modelled is refused; what would not is passed over."""
    with pytest.raises(lh.ScenarioError) as caught:
        translate(f"// one\n`../common/defaults.sh\n{settings}`\n{OPEN}", "odd.pkt")
    assert told in str(caught.value)
    assert "odd.pkt, line 2:" in str(caught.value)


def test_settings_become_the_transport() -> None:
    """Those that matter are those of the transport."""
    settings = "sysctl -q net.ipv4.tcp_sack=1 net.ipv4.tcp_timestamps=0 net.ipv4.tcp_early_retrans=0"
    text = translate(f"`../common/defaults.sh\n{settings}`\n{OPEN}", "odd.pkt").text
    for told in ("timestamps = false", "tlp = false", "idle_restart = false", 'preset = "cubic"'):
        assert told in text


def test_settings_are_put_back_at_the_end() -> None:
    """What restores settings may stand anywhere: packetdrill's scripts end with it."""
    assert "connect" in translate(OPEN + "+0 `/tmp/sysctl_restore_${PPID}.sh`\n", "odd.pkt").text


#: Lines that do not belong.
ODD = [
    *("+0 < . 1:1(0) ack 1 win 9 <TS val>", "+0 < . 1:1(0) ack 1 <mss>", "+0 < S 0:0(0) win 9 <wscale 99>"),
    *(
        "+0 close() = 010",
        "--tolerance_usecs=x",
        "`sysctl`",
        "%{",
        "}%",
        "+0 %{ assert ( }%",
        "<",
        "(",
        "*",
        "\x00",
    ),
    *("+0 setsockopt(3, SOL_TCP, TCP_MAXSEG, [x], 4) = 0", "+0 > . 1:99999999999(1) ack 1"),
    *("+0 write(3, ..., 99999999999) = 99999999999", "+0 close(3) = 0", "+0 < . 1:1(0) ack 99 win 9"),
]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from([path.read_text(encoding="utf-8").split("\n") for path in PATHS]),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(ODD)), max_size=3),
    st.sets(st.integers(0, 30), max_size=4),
)
def test_whatever_it_is_it_runs_or_is_refused(
    lines: list[str], added: list[tuple[int, str]], left_out: set[int]
) -> None:
    """In words, with a line: never by another exception."""
    lines = [line for place, line in enumerate(lines) if place not in left_out]
    for place, line in added:
        lines.insert(place, line)
    told = "line 1"
    try:
        run_script(translate("\n".join(lines), "odd.pkt").text)
    except lh.ScenarioError as error:
        told = str(error)
    assert "line " in told
