"""A network in simulated time for programs that speak a transport protocol of their own.

The same as the crate ``lasthop`` for Rust. Times are integers of nanoseconds since the start of the run.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lasthop import _native
from lasthop.errors import ArgumentError, ScenarioError, native_errors
from lasthop.scenario import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address, IPv6Address
    from os import PathLike


class Event(NamedTuple):
    """Why :meth:`Network.next_event` returned."""

    #: ``arrivals``, ``timer``, ``until`` (nothing has happened until then) or ``end`` (the run is over).
    kind: Literal["arrivals", "timer", "until", "end"]
    #: Of a timer: its host.
    host: int
    #: Of a timer: which one.
    token: int


class Arrival(NamedTuple):
    """A datagram that has arrived."""

    #: When, in nanoseconds.
    at: int
    #: At which host.
    host: int
    #: From which address and port.
    source: tuple[str, int]
    #: To which address and port.
    to: tuple[str, int]
    #: The two ECN bits of the IP header: 0, 1 (ECT(1)), 2 (ECT(0)) or 3 (CE).
    ecn: int
    #: The number that :meth:`Network.send` returned.
    datagram: int
    #: How often it had arrived before: not 0 for what the path has doubled.
    copy: int
    #: What it carries.
    data: bytes


class Fate(NamedTuple):
    """What became of a datagram."""

    #: ``under-way``, ``delivered`` or ``lost``.
    kind: Literal["under-way", "delivered", "lost"]
    #: When, in nanoseconds.
    at: int | None
    #: Its ECN bits when it arrived.
    ecn: int | None
    #: How often it arrived.
    copies: int
    #: Why it was lost.
    cause: str | None
    #: On which link it was lost.
    link: str | None


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the native network refuses into errors of this package, text unchanged."""
    try:
        with native_errors():
            yield
    except ScenarioError:
        raise
    except OverflowError:
        raise ArgumentError(
            "a number is out of range: times, hosts, ports and seeds are not negative, a port is below 65536"
        ) from None
    except ValueError as error:
        raise ArgumentError(str(error)) from None


class Network:
    """A network in simulated time; no thread, no socket, no clock.

    Parameters
    ----------
    scenario : mapping
        The same structure as a scenario file. It needs no flows; those that it has run beside yours.
        `Network.load` opens a file, and `Network.read` reads TOML.
    seed : int
        A run is a function of scenario, seed, and what is sent.

    Raises
    ------
    ScenarioError
        If the scenario is wrong.
    ArgumentError
        By every method, for an argument that makes no sense.

    Examples
    --------
    >>> import lasthop as lh
    >>> link = {"from": "server", "to": "phone", "rate": "10 Mbit/s", "delay": "20 ms"}
    >>> graph = {"kind": "graph", "nodes": ["server", "phone"], "links": [link]}
    >>> network = lh.Network({"duration": "10 s", "topology": graph})
    >>> server = network.attach("server", "10.0.0.1")
    >>> phone = network.attach("phone", "10.0.0.2")
    >>> network.send(server, 443, ("10.0.0.2", 1000), b"hello")
    0
    >>> network.next_event().kind
    'arrivals'
    >>> arrival = network.recv()
    >>> arrival.data, arrival.at
    (b'hello', 20026400)
    """

    def __init__(self, scenario: Mapping[str, Any], seed: int = 1) -> None:
        text = json_of(scenario, "Network")
        with refusals():
            self._network = _native.Network.from_json(text, seed)

    @classmethod
    def load(cls, path: str | PathLike[str], seed: int = 1) -> Network:
        """Return the network of a scenario's file, TOML or JSON."""
        with refusals():
            return cls._of(_native.Network.open(path, seed))

    @classmethod
    def read(cls, text: str, seed: int = 1) -> Network:
        """Return the network of a scenario in TOML; its files are relative to the current folder."""
        with refusals():
            return cls._of(_native.Network.from_toml(text, seed))

    @classmethod
    def _of(cls, network: _native.Network) -> Network:
        made = cls.__new__(cls)
        made._network = network  # noqa: SLF001 - of its own class
        return made

    @property
    def now(self) -> int:
        """The time in nanoseconds."""
        with refusals():
            return self._network.now

    def attach(self, node: str, address: str | IPv4Address | IPv6Address) -> int:
        """Put a host with this address of IPv4 or IPv6 at a node of the scenario, and return its number."""
        with refusals():
            return self._network.attach(node, str(address))

    def send(
        self,
        host: int,
        port: int,
        to: tuple[str | IPv4Address | IPv6Address, int],
        data: bytes | bytearray | memoryview,
        *,
        ecn: int = 0,
        launch: int | None = None,
    ) -> int:
        """Send a datagram from a port of a host, now or at the time ``launch``, and return its number.

        Raises
        ------
        ArgumentError
            If no host has the address, no path leads there, or the datagram is longer than the path takes.
        """
        # Stacks build datagrams in buffers that they use again.
        payload = data if isinstance(data, bytes) else memoryview(data).tobytes()
        with refusals():
            return self._network.send(host, port, (str(to[0]), to[1]), payload, ecn, launch)

    def set_timer(self, host: int, token: int, at: int | None) -> None:
        """Set the timer ``token`` of a host, in place of what it was set to; ``None`` takes it away."""
        with refusals():
            self._network.set_timer(host, token, at)

    def next_event(self, until: int | None = None) -> Event:
        """Move time to the next instant at which something happens outside, or to ``until``.

        Of one instant arrivals come first, in the order of the network, then timers in the order in which
        they were set.
        """
        with refusals():
            return Event(*self._network.next_event(until))

    def recv(self) -> Arrival | None:
        """Take the next datagram that has arrived at this instant; ``None`` when there is no more."""
        with refusals():
            arrival = self._network.recv()
        return None if arrival is None else Arrival(*arrival)

    def damage(self, cut: float, flip: float) -> None:
        """From now on, cut what arrives short with one probability, and flip a bit with the other."""
        for name, value in (("cut", cut), ("flip", flip)):
            if not 0 <= value <= 1:
                raise ArgumentError(f"{name} is {value}: a probability lies between 0 and 1")
        with refusals():
            self._network.damage(cut, flip)

    def keep_fates(self) -> None:
        """Keep what becomes of each datagram from now on, for `fate`."""
        with refusals():
            self._network.keep_fates()

    def fate(self, datagram: int) -> Fate | None:
        """Return what has become of a datagram; ``None`` if it was sent before `keep_fates`."""
        with refusals():
            fate = self._network.fate(datagram)
        return None if fate is None else Fate(*fate)

    def entropy(self, host: int, name: str, count: int) -> bytes:
        """Return the first ``count`` bytes of the random stream called ``name`` of a host in this run."""
        with refusals():
            return self._network.entropy(host, name, count)

    def finish(self) -> dict[str, Any]:
        """End the run and return what it measured: totals, flows and links, as in ``lasthop run --json``."""
        with refusals():
            results: dict[str, Any] = json.loads(self._network.finish())
        return results
