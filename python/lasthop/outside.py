"""The way out of an emulated network, by choice: a pair of interfaces and NAT, with what the machine has.

Called by `lasthop.live` and by its clean-up. The host at which the way out is gets one end of a pair of
interfaces; the machine keeps the other and translates addresses (nftables, or iptables). What is changed on
the machine is noted in the journal beforehand and undone afterwards, by the run or by the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.errors import ArgumentError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Pairs of addresses between the machine and a host: from a block that no network has (RFC 2544).
BLOCK = "198.18"
MOST = 256
#: Where administrators' programs are that PATH may not name.
ADMINISTRATORS = ("/usr/sbin", "/sbin", "/usr/local/sbin")
#: Where programs are looked for: never in the current folder, which may be anybody's.
PLACES = os.pathsep.join(
    [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(one).is_absolute()]
    + list(ADMINISTRATORS)
)
#: Where name servers are noted. The second has those behind a resolver of the machine itself.
RESOLVERS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
#: The settings of an interface of IPv4.
SETTINGS = "/proc/sys/net/ipv4/conf"


@dataclass(frozen=True, slots=True)
class WayOut:
    """What is made on the machine for one run, and what was there before.

    Attributes
    ----------
    interface : str
        The interface of the machine that leads to the world.
    tool : str
        What translates addresses: ``nft`` or ``iptables``.
    name : str
        Begins the names of what is made.
    number : int
        Which pair of addresses it has.
    forwarding : str
        Whether the interface passed packets on before: ``0`` or ``1``.
    """

    interface: str
    tool: str
    name: str
    number: int
    forwarding: str

    @property
    def near(self) -> str:
        """The interface of the machine that leads to the host."""
        return f"{self.name}m"

    @property
    def far(self) -> str:
        """The interface of the host that leads to the machine."""
        return f"{self.name}h"

    def address(self, end: int) -> str:
        """Return the address of the machine (1) or of the host (2)."""
        return f"{BLOCK}.{self.number}.{end}"

    def connect(self, namespace: str) -> None:
        """Connect the host whose network namespace has this path with the world."""
        _call("ip", "link", "add", "name", self.near, "type", "veth", "peer", "name", self.far)
        _call("ip", "link", "set", self.far, "netns", namespace)
        _call("ip", "address", "add", f"{self.address(1)}/30", "dev", self.near)
        _call("ip", "link", "set", self.near, "up")
        inside = ["nsenter", f"--net={namespace}"]
        _call(*inside, "ip", "address", "add", f"{self.address(2)}/30", "dev", self.far)
        _call(*inside, "ip", "link", "set", self.far, "up")
        _call(*inside, "ip", "route", "add", "default", "via", self.address(1))
        # The machine does not hear of 10.0.0.0/8, which it may have itself.
        self._translate(inside, self.far, "0.0.0.0/0")
        self._translate([], self.interface, f"{self.address(2)}/32")
        for interface in (self.near, self.interface):
            _set_forwarding(interface, "1")

    def _translate(self, inside: list[str], interface: str, source: str) -> None:
        if self.tool == "iptables":
            _call(*inside, "iptables", *self._rule("-A", interface, source))
            return
        rules = (
            f"table ip {self.name} {{ chain out {{ type nat hook postrouting priority srcnat; "
            f'ip saddr {source} oifname "{interface}" masquerade; }}\n}}\n'
        )
        _call(*inside, "nft", "-f", "-", text=rules)

    @staticmethod
    def _rule(action: str, interface: str, source: str) -> list[str]:
        return ["-t", "nat", action, "POSTROUTING", "-s", source, "-o", interface, "-j", "MASQUERADE"]

    def undo(self, others: Iterable[WayOut]) -> None:
        """Take away what was made; `others` are those of runs that go on."""
        with suppress(RunError):
            _call("ip", "link", "delete", self.near)
        with suppress(RunError):
            if self.tool == "iptables":
                _call("iptables", *self._rule("-D", self.interface, f"{self.address(2)}/32"))
            else:
                _call("nft", "delete", "table", "ip", self.name)
        if self.forwarding == "0" and not any(other.interface == self.interface for other in others):
            with suppress(OSError):
                _set_forwarding(self.interface, "0")

    def to_dict(self) -> dict[str, Any]:
        """Return it as the journal has it."""
        return asdict(self)


def check(interface: str) -> str:
    """Refuse an interface that is none; return what translates addresses on this machine."""
    known = sorted(name for _, name in socket.if_nameindex() if name != "lo")
    if interface not in known:
        raise ArgumentError(
            f"--out-through {interface}: no such interface; this machine has {', '.join(known) or 'none'}"
        )
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program, path=PLACES) is None:
            raise RunError(
                f"no way out of the emulated network: {program} is not installed; apt-get install {package}"
            )
    for tool in ("nft", "iptables"):
        if shutil.which(tool, path=PLACES) is not None:
            return tool
    raise RunError(
        "no way out of the emulated network: neither nft nor iptables is installed, which translate "
        "addresses; apt-get install nftables"
    )


def choose(interface: str, tool: str, mark: str, others: Sequence[WayOut]) -> WayOut:
    """Return a way out for the run with this mark, beside those of `others`; `check` has found the tool."""
    taken = {other.number for other in others}
    used = _call("ip", "-4", "-o", "address")
    free = (number for number in range(MOST) if number not in taken and f" {BLOCK}.{number}." not in used)
    number = next(free, None)
    if number is None:
        raise RunError(
            f"{MOST} runs have a way out already; 'lasthop emulate --clean' ends what killed ones left"
        )
    forwarding = Path(SETTINGS, interface, "forwarding").read_text(encoding="utf-8").strip()
    # What another run has switched on goes off with the last of them.
    forwarding = next((other.forwarding for other in others if other.interface == interface), forwarding)
    return WayOut(interface, tool, f"lasthop{mark[:6]}", number, forwarding)


def noted(folder: Path) -> dict[str, WayOut]:
    """Return the ways out that the journal has, by the marks of their runs."""
    found = {}
    for place in folder.glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            entry = json.loads(place.read_text(encoding="utf-8"))
            found[str(entry["mark"])] = WayOut(**entry["outside"])
    return found


def name_servers(chosen: Sequence[str]) -> list[IPv4Address]:
    """Return the name servers to ask: those that were chosen, or the machine's."""
    if chosen:
        try:
            return [IPv4Address(text) for text in chosen]
        except AddressValueError as error:
            raise ArgumentError(f"--dns: {error}; give an address of IPv4") from None
    for place in RESOLVERS:
        found = []
        with suppress(OSError):
            for line in Path(place).read_text(encoding="utf-8").splitlines():
                words = line.split()
                with suppress(AddressValueError):
                    if words[:1] == ["nameserver"] and words[1:]:
                        found.append(IPv4Address(words[1]))
        # A resolver of the machine itself does not answer elsewhere.
        found = [server for server in found if not server.is_loopback]
        if found:
            return found
    raise RunError("the machine names no server for names that a host could ask: give one with --dns ADDRESS")


def _set_forwarding(interface: str, value: str) -> None:
    try:
        Path(SETTINGS, interface, "forwarding").write_text(value, encoding="utf-8")
    except OSError as error:
        raise RunError(
            f"no way out of the emulated network: forwarding at {interface}: {error.strerror}"
        ) from None


def _call(*words: str, text: str | None = None) -> str:
    """Run a command of the system; its error is ours."""
    path = os.environ | {"PATH": PLACES}
    done = subprocess.run(  # noqa: S603 - words of ours
        words, input=text, capture_output=True, text=True, check=False, env=path
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().split("\n")[0]
        raise RunError(
            f"no way out of the emulated network: '{' '.join(words)}' says {said!r}; "
            "it needs root of the machine"
        )
    return done.stdout
