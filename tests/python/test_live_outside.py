"""The way from an emulated network to the outside and back; needs root and /dev/net/tun."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.python.real_packets import needs_kernel, path, scenario_file, until

from lasthop import live, outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer.testing import Result

#: The world: a web server, and a name server that knows one name.
WORLD = """
import http.server, socket, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"the world")
    def log_message(self, *_):
        pass
names = socket.socket(type=socket.SOCK_DGRAM)
names.bind(("203.0.113.1", 53))
web = http.server.HTTPServer(("203.0.113.1", 80), Answer)
threading.Thread(target=web.serve_forever, daemon=True).start()
print("ready", flush=True)
while True:
    question, peer = names.recvfrom(512)
    end = question.index(b"\\0", 12) + 5
    is_address = question[end - 4 : end - 2] == b"\\0\\1" and b"example" in question
    code = b"\\x81\\x80" if is_address else b"\\x81\\x83"
    head = question[:2] + code + b"\\0\\1" + bytes([0, is_address])
    answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4" + bytes([203, 0, 113, 1])
    answer = answer if is_address else b""
    names.sendto(head + bytes(4) + question[12:end] + answer, peer)
"""
NEEDED = ("ip", "nsenter", "unshare", "curl")
_means = [name for name in NEEDED if shutil.which(name, path=outside.PLACES) is None]
_tools = [name for name in ("nft", "iptables") if shutil.which(name, path=outside.PLACES)]


@contextmanager
def machine_and_world(folder: Path) -> Iterator[list[str]]:
    """Make a namespace that stands for a machine, and behind its interface one that stands for the world.

    Yields what runs a command on that machine.
    """
    holders = [subprocess.Popen(["unshare", "--net", "sleep", "300"]) for _ in range(2)]  # noqa: S607
    inside = [["nsenter", f"--net=/proc/{holder.pid}/ns/net"] for holder in holders]
    served = None
    try:
        own = Path("/proc/self/ns/net").readlink()
        until(lambda: all(Path(f"/proc/{one.pid}/ns/net").readlink() != own for one in holders))
        lines = [
            (0, f"ip link add name uplink type veth peer name world netns {holders[1].pid}"),
            (0, "ip address add 203.0.113.2/24 dev uplink"),
            (0, "ip link set uplink up"),
            (0, "ip link set lo up"),
            (1, "ip address add 203.0.113.1/24 dev world"),
            (1, "ip link set world up"),
        ]
        for which, line in lines:
            subprocess.run([*inside[which], *line.split()], check=True)
        world = folder / "world.py"
        world.write_text(WORLD, encoding="utf-8")
        served = subprocess.Popen([*inside[1], sys.executable, world], stdout=subprocess.PIPE, text=True)
        assert served.stdout is not None
        assert served.stdout.readline() == "ready\n"
        yield inside[0]
    finally:
        for process in (*holders, *([served] if served else [])):
            process.kill()
            process.communicate()


@needs_kernel
@pytest.mark.skipif(bool(_means), reason=f"not installed: {', '.join(_means)}")
@pytest.mark.parametrize("tool", ["nft", "iptables"])
def test_the_way_out_leads_through_the_emulated_path(tmp_path: Path, tool: str) -> None:
    """By name, over the links of the scenario, through the interface; and nothing is left on the machine."""
    if tool not in _tools:
        pytest.skip(f"{tool} is not installed")
    only = tmp_path / "bin"
    only.mkdir()
    for name in ("ip", "nsenter", tool, "curl", "cat", "sh"):
        (only / name).symlink_to(str(shutil.which(name, path=outside.PLACES)))
    file = scenario_file(tmp_path, path("5 Mbit/s", "60 ms", duration="30 s"))
    results = tmp_path / "run.json"
    words = ["lasthop", "emulate", "--budget", "50", "--json", results, "--out-through", "uplink"]
    command = [*map(str, words), "--dns", "203.0.113.1", str(file), "--"]
    # As on a machine that has one of the tools alone.
    start = f"from lasthop import __main__, outside; outside.PLACES = {str(only)!r}; __main__.main()"
    fetch = ["curl", "-sS", "-w", "\n%{time_connect}\n", "http://www.example/"]
    with machine_and_world(tmp_path) as inside:
        done = subprocess.run(
            [*inside, sys.executable, "-c", start, *command[1:], *fetch],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, 123), done.stderr
        text, connected = done.stdout.split("\n")[:2]
        assert text == "the world"
        # Twice there and back, for the name and for the connection, over 65 ms.
        assert float(connected) >= 0.26
        state = ["sh", "-c", "ip -br link; cat /proc/sys/net/ipv4/conf/uplink/forwarding; " + LISTED[tool]]
        left = subprocess.run([*inside, *state], capture_output=True, text=True, check=True).stdout
    assert "lasthop" not in left
    assert "198.18" not in left
    assert "\n0\n" in left
    told = json.loads(results.read_text(encoding="utf-8"))["runs"][0]
    assert any(flow["name"].startswith("tcp 203.0.113.1:80 - 10.0.0.3:") for flow in told["flows"])


#: Shows what a machine translates.
LISTED = {"nft": "nft list ruleset", "iptables": "iptables -t nat -S"}


def test_a_way_out_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found out before anything is changed is what is done."""
    asked: list[str] = []
    monkeypatch.setattr(outside, "check", lambda interface: asked.append(interface) or "nft")
    monkeypatch.setattr(outside, "_call", lambda *_, **__: "")
    monkeypatch.setattr(outside, "SETTINGS", str(tmp_path))
    monkeypatch.setattr(live, "journal_folder", lambda: tmp_path / "journal")
    (tmp_path / "uplink").mkdir()
    (tmp_path / "uplink" / "forwarding").write_text("1", encoding="utf-8")
    found, _ = live.check_outside("uplink", ["10.9.8.7"], nested=False)
    with live.journal("0123", [], cleans=False, out_through=found) as (_, way):
        assert way is not None
        assert (way.interface, way.tool) == ("uplink", "nft")
    assert asked == ["uplink"]


def test_a_way_out_that_cannot_be_is_refused(command: Callable[..., Result], tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    said = command("emulate", file, "--out-through", "moon0", "--", "true")
    assert said.exit_code == 2, said.stderr
    assert "--out-through moon0: no such interface; this machine has" in said.stderr
    said = command("emulate", file, "--dns", "192.0.2.1", "--", "true")
    assert said.exit_code == 2
    assert "--dns names servers outside: say by which interface with --out-through" in said.stderr
