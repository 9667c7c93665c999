"""What scripts of packetdrill say of the machine around a connection: settings, sockets, what a kernel tells.

For each there is a list here: what it becomes in a transport of ours, what is without effect on a connection
as it is modelled, and everything else is refused by its name.
"""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.situations import PRESETS

if TYPE_CHECKING:
    from lasthop.packetdrill.syntax import Call

#: Options at the top that change addresses or what packetdrill itself does.
OPTIONS = frozenset(
    {"mss", "local_ip", "remote_ip", "tcp_ts_tick_usecs", "tcp_ts_ecr_scaled", "gateway_ip", "netmask_ip"}
)
#: Calls that write data.
WRITES = frozenset({"write", "send", "sendto", "writev", "sendmsg"})
#: Options of segments; what is filled with `nop` and `eol` we pad ourselves.
SEGMENT_OPTION = re.compile(
    r"mss \d{1,5}|wscale \d{1,2}|sackOK|TS val \d{1,10} ecr \d{1,10}|sack( \d{1,10}:\d{1,10}){1,4}"
    r"|nop|eol|\.\.\."
)
#: Settings without effect on a connection as it is modelled: buffers that are large enough, how often an
#: opening is tried, how segments are gathered for a device, Fast Open, which no segment here uses.
NO_EFFECT = frozenset(
    {
        *("tcp_rmem", "tcp_wmem", "tcp_syn_retries", "tcp_synack_retries", "tcp_fack", "tcp_syncookies"),
        *("tcp_tso_win_divisor", "tcp_min_tso_segs", "tcp_pacing_ss_ratio", "tcp_pacing_ca_ratio"),
        *("tcp_fastopen", "tcp_fastopen_key", "tcp_ecn_option", "tcp_no_metrics_save", "tcp_max_syn_backlog"),
    }
)
#: Options of sockets without effect.
SOCKET_OPTIONS = frozenset({"SO_REUSEADDR", "TCP_NODELAY", "SO_SNDBUF", "SO_ZEROCOPY", "SO_TIMESTAMPING"})
#: Calls without effect on what is sent.
IDLE_CALLS = frozenset(
    {
        "socket",
        "bind",
        "listen",
        "accept",
        "connect",
        "setsockopt",
        "getsockopt",
        "fcntl",
        "close",
        "shutdown",
    }
)
#: Calls of an application that reads: ours reads everything at once.
READS = frozenset({"read", "recv", "recvfrom"})
#: What the kernel tells that a script of ours can claim.
TOLD = {"tcpi_snd_cwnd": "cwnd", "tcpi_snd_ssthresh": "ssthresh"}


@dataclass(slots=True)
class Settings:
    """What the settings of the machine and of its sockets make of a transport."""

    law: str = "cubic"
    timestamps: bool = True
    sack: bool = True
    dsack: bool = True
    frto: bool = True
    tlp: bool = True
    ecn: bool = False
    mss: int | None = None
    idle_restart: bool = True

    def transport(self) -> dict[str, object]:
        """Return the transport of the examined end."""
        return {
            "preset": PRESETS[self.law] if self.sack else "newreno",
            "profile": "linux",
            "packet_size": f"{self.largest() + 40} B",
            "timestamps": self.timestamps,
            "dsack": self.dsack,
            "frto": self.frto,
            **({"tlp": self.tlp} if self.sack else {}),
            "ecn": self.ecn,
            "idle_restart": self.idle_restart,
        }

    def largest(self) -> int:
        """Return the bytes of the largest segment that this end sends."""
        return self.mss or 1460

    def set(self, command: list[str]) -> str | None:
        """Heed a command of a shell; return why it is not understood, or `None`."""
        program = command[0].rpartition("/")[2]
        # CUBIC's own default.
        scans_delays = command[:2] == ["echo", "3"] and command[-1].endswith("hystart_detect")
        known = program == "defaults.sh" or restores(command)
        # Production settings of packetdrill's authors; of those that matter one is not the kernel's own.
        self.idle_restart &= program != "defaults.sh"
        if known or scans_delays or command[:3] == ["ip", "tcp_metrics", "flush"]:
            return None
        if program == "tc":
            limited = "limit" in command
            return "tc with a limit: losses within the host are not modelled" if limited else None
        if program not in ("sysctl", "set_sysctls.py"):
            return f"command {program!r}: there is no use for it here"
        pairs = [word.partition("=") for word in command[1:]]
        reasons = (self._sysctl(re.split(r"[./]", key)[-1], value) for key, equals, value in pairs if equals)
        return next((reason for reason in reasons if reason is not None), None)

    def _sysctl(self, key: str, value: str) -> str | None:
        if key in NO_EFFECT:
            return None
        if key == "tcp_congestion_control":
            self.law = value if value in PRESETS else self.law
            refused = f"{key}={value}: scripts of packetdrill are asked of {', '.join(PRESETS)}"
            return None if value in PRESETS else refused
        switches = {
            "tcp_timestamps": ("timestamps", ("0", "1")),
            "tcp_sack": ("sack", ("0", "1")),
            "tcp_dsack": ("dsack", ("0", "1")),
            "tcp_frto": ("frto", ("0", "2")),
            "tcp_early_retrans": ("tlp", ("0", "3", "4")),
            "tcp_ecn": ("ecn", ("0", "1", "2")),
            "tcp_slow_start_after_idle": ("idle_restart", ("0", "1")),
        }
        if key in switches:
            name, values = switches[key]
            setattr(self, name, value != "0")
            return None if value in values else f"{key}={value}: understood are {', '.join(values)}"
        usual = {
            "tcp_recovery": "1",
            "tcp_reordering": "3",
            "tcp_notsent_lowat": "4294967295",
        }
        return None if usual.get(key) == value else f"{key}={value}: not understood"

    def set_socket(self, arguments: list[str]) -> str | None:
        """Heed an option of a socket; return why it is not understood, or `None`."""
        name = arguments[2] if len(arguments) > 3 else "?"  # noqa: PLR2004 (socket, level, name, value)
        if name == "TCP_MAXSEG" and re.fullmatch(r"\[\d{2,5}\]", arguments[3]):
            self.mss = int(arguments[3].strip("[]"))
            return None
        return None if name in SOCKET_OPTIONS else f"setsockopt {name}: there is no use for it here"


def commands(text: str) -> list[list[str]]:
    r"""Return the commands of a shell's text, as words.

    Examples
    --------
    >>> commands("../defaults.sh\nsysctl -q net.ipv4.tcp_sack=0 # none\n")
    [['../defaults.sh'], ['sysctl', '-q', 'net.ipv4.tcp_sack=0']]
    """
    joined = text.replace("\\\n", " ")
    found = []
    for line in re.split(r"[\n;]|&&", joined):
        bare = re.sub(r"\d?>\s*(/dev/null|&1)|&>\s*/dev/null", "", line)
        try:
            words = shlex.split(bare, comments=True)
        except ValueError:
            words = [line.strip()]
        if words:
            found.append(words)
    return found


def restores(command: list[str]) -> bool:
    """Return whether a command only puts settings back that an earlier one has saved."""
    return command[0].rpartition("/")[2].startswith("sysctl_restore")


def refusal(call: Call) -> str | None:
    """Return why a system call is not understood, or `None`."""
    if call.name in WRITES:
        given = call.arguments[3:4] if call.name in ("send", "sendto") else []
        flags = [flag.strip() for flag in given[0].split("|")] if given else []
        odd = [flag for flag in flags if flag not in ("0", "MSG_ZEROCOPY", "MSG_NOSIGNAL")]
        if odd:
            return f"{call.name} with {odd[0]}: there is no use for it here"
        return f"{call.name}: there is no use for it here" if call.name in ("sendmsg", "writev") else None
    return None if call.name in IDLE_CALLS | READS else f"{call.name}: there is no use for it here"


def claims(code: str) -> tuple[list[str], list[str]]:
    """Return what Python of a script asserts, as claims of ours, and the names of what is not looked at.

    Examples
    --------
    >>> claims("assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd; assert tcpi_lost == 0")
    (['cwnd 10'], ['tcpi_lost == 0'])
    """
    try:
        tree = ast.parse("\n".join(line.strip() for line in code.strip().split("\n")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [], ["Python"]
    claimed, unseen = [], []
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.Assert):
            continue
        found = _claim(statement.test)
        if found is None:
            unseen.append(ast.unparse(statement.test))
        else:
            claimed.append(found)
    return claimed, unseen


def _claim(test: ast.expr) -> str | None:
    match test:
        case ast.Compare(ast.Name(name), [ast.Eq()], [ast.Constant(int(value))]) if name in TOLD:
            return f"{TOLD[name]} {'infinite' if value == 0x7FFFFFFF else value}"  # noqa: PLR2004 (the kernel's sign)
        case ast.Compare(ast.Name(name), [ast.Eq()], [ast.Name("TCP_INFINITE_SSTHRESH")]) if name in TOLD:
            return f"{TOLD[name]} infinite"
        case _:
            return None
