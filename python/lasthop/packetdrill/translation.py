"""From statements of packetdrill to a script of our own, which the engine and a kernel can be asked.

Our scripts examine the end that sends data, which opens the connection, or the end that gets them, which
waits for it. Where a script of packetdrill examines a server that sends or a client that gets, the opening is
changed over: the round trip, the options and the windows of the peer stay what they are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lasthop.errors import ScenarioError
from lasthop.packetdrill import machine
from lasthop.packetdrill.syntax import Call, Code, Option, Segment, Shell, When, parse

if TYPE_CHECKING:
    from lasthop.packetdrill.syntax import Statement

#: By how many milliseconds times may differ: a script's are those of a kernel whose timers count ticks of up
#: to 10 ms and wait for one at least. When a time is not looked at, in seconds.
TOLERANCE_MS, ANY_S = 15.0, 60.0
#: Bytes of the segments of a stack that has heard of no smaller ones, and what timestamps take of them.
OWN_MSS, TIMESTAMPS = 1460, 12
#: Flags that a segment may have here.
FLAGS = frozenset("SFP.EW")


class Refused(Exception):  # noqa: N818 (no error: the reader is told which line is not understood)
    """A statement that is not understood, with the reason."""

    def __init__(self, statement: Statement, reason: str) -> None:
        super().__init__(reason)
        self.line = statement.line


@dataclass(frozen=True, slots=True)
class Translated:
    """A script of packetdrill in our own language.

    Attributes
    ----------
    text : str
        The script.
    notes : tuple of str
        What is not looked at, each with its line.
    """

    text: str
    notes: tuple[str, ...]


def translate(text: str, name: str) -> Translated:
    """Turn a script of packetdrill into one of our own.

    Parameters
    ----------
    text, name : str
        The script, and what it is called in messages.

    Raises
    ------
    ScenarioError
        If a statement is not understood; with its line and what it is.
    """
    statements = parse(text, name)
    try:
        return _Translation(statements, name).done()
    except Refused as refused:
        raise ScenarioError(f"{name}, line {refused.line}: {refused}") from None


@dataclass(slots=True)
class _Peer:
    """What the SYNs have agreed."""

    mss: int = 536
    shift: int = 0
    timestamps: bool = False
    refuses: bool = False


@dataclass(slots=True)
class _Translation:
    statements: list[Statement]
    name: str
    settings: machine.Settings = field(default_factory=machine.Settings)
    tolerance_ms: float = TOLERANCE_MS
    lines: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    peer: _Peer = field(default_factory=_Peer)
    #: Of the socket that listens, and of the connection.
    listener: str | None = None
    connection: str | None = None
    #: Whether the examined end sends data, and whether the opening is changed over.
    sends: bool = True
    changed: bool = False
    opened: bool = False
    #: Timestamps by their value: of the stack and of its peer, with their labels.
    stamps: tuple[dict[int, str], dict[int, str]] = field(default_factory=lambda: ({}, {}))
    newest: int = 0
    #: Segments of a changed opening that are out.
    opening: list[Segment] = field(default_factory=list)
    #: Time of events that were left out, in seconds.
    skipped: float = 0.0

    def done(self) -> Translated:
        self._choose_sides()
        for place, statement in enumerate(self.statements):
            match statement:
                case Option():
                    self._option(statement)
                case Shell():
                    self._shell(statement)
                case Call():
                    self._call(statement, place)
                case Code():
                    self._code(statement)
                case Segment():
                    self._segment(statement, place)
        if not self.lines:
            raise Refused(self.statements[-1] if self.statements else Code(1, When(), ""), "nothing happens")
        head = {
            "title": self.name.rpartition("/")[2],
            "sources": ["packetdrill"],
            "end": "sender" if self.sends else "receiver",
            "transport": self.settings.transport(),
            "kernel": self.settings.law,
            "tolerance_ms": self.tolerance_ms,
            "unnamed_wait": True,
            "origin_lines": [line for _, line in self.lines],
        }
        written = "".join(f"{key} = {_toml(value)}\n" for key, value in head.items())
        events = "".join(f"{event}\n" for event, _ in self.lines)
        return Translated(f"{written}---\n{events}", tuple(self.notes))

    def _choose_sides(self) -> None:
        calls = [one for one in self.statements if isinstance(one, Call)]
        listens = next((call for call in calls if call.name == "listen"), None)
        connects = next((call for call in calls if call.name == "connect"), None)
        if listens is not None and connects is not None:
            raise Refused(connects, "connect: the same script listens, and one connection is examined")
        if listens is None and connects is None:
            first = self.statements[0] if self.statements else Code(1, When(), "")
            raise Refused(first, "no connection: neither listen nor connect")
        segments = [one for one in self.statements if isinstance(one, Segment)]
        sent: Statement | None = next((one for one in segments if not one.inbound and one.length), None)
        sent = sent or next((call for call in calls if call.name in machine.WRITES), None)
        got: Statement | None = next((one for one in segments if one.inbound and one.length), None)
        if sent is not None and got is not None:
            later = max(sent, got, key=lambda one: one.line)
            raise Refused(
                later, "data in both directions: scripts examine an end that sends or one that gets"
            )
        self.sends = got is None
        self.changed = self.sends == (listens is not None)

    def _option(self, option: Option) -> None:
        if option.name == "tolerance_usecs" and re.fullmatch(r"\d{1,9}", option.value):
            self.tolerance_ms = max(TOLERANCE_MS, int(option.value) / 1e3)
            return
        if option.name not in machine.OPTIONS:
            raise Refused(option, f"option --{option.name}: there is no use for it here")

    def _shell(self, shell: Shell) -> None:
        commands = machine.commands(shell.text)
        if self.opened and not all(machine.restores(command) for command in commands):
            raise Refused(shell, "a command amid the connection: settings are made before it opens")
        for command in commands:
            reason = self.settings.set(command)
            if reason is not None:
                raise Refused(shell, reason)

    def _code(self, code: Code) -> None:
        claims, unseen = machine.claims(code.text)
        self.notes += [f"line {code.line}: {what} is not looked at" for what in unseen]
        if not self.sends and claims:
            self.notes.append(f"line {code.line}: windows of an end that gets data are not looked at")
            claims = []
        if not claims:
            self._skip(code.when)
            return
        self._event(code.when, f"= {', '.join(claims)}", code)

    def _call(self, call: Call, place: int) -> None:  # noqa: C901 (one case for each call)
        reason = machine.refusal(call)
        if reason is not None:
            raise Refused(call, reason)
        match call.name:
            case "socket" if self.listener is None and self.connection is None:
                self._skip(call.when)
            case "connect":
                self.connection = call.arguments[0]
                self.opened = True
                if self.changed:
                    self._skip(call.when)
                else:
                    self._event(call.when, "connect", call)
            case "listen":
                self.listener = call.arguments[0]
                self._skip(call.when)
            case "accept":
                self.connection = str(call.result)
                self._skip(call.when)
            case "setsockopt":
                reason = self.settings.set_socket(call.arguments)
                if reason is not None:
                    raise Refused(call, reason)
                self._skip(call.when)
            case name if name in machine.WRITES:
                self._write(call)
            case "close" | "shutdown":
                self._close(call, place)
            case _:
                self._skip(call.when)

    def _write(self, call: Call) -> None:
        if call.result is None or call.result < 0:
            raise Refused(call, f"{call.name} that fails: those of our scripts do not")
        self._event(call.when, f"write {call.result}", call)

    def _close(self, call: Call, place: int) -> None:
        half = call.name == "shutdown" and call.arguments[-1] == "SHUT_RD"
        if call.arguments[0] != self.connection or half:
            self._skip(call.when)
            return
        later = [one for one in self.statements[place + 1 :] if isinstance(one, Segment)]
        if not self.sends:
            if any(not one.inbound for one in later):
                raise Refused(call, f"{call.name}: the end that gets data is not closed first")
            self._skip(call.when)
            return
        self._event(call.when, "close", call)

    def _segment(self, segment: Segment, place: int) -> None:
        if "R" in segment.flags and segment.inbound:
            if any(isinstance(one, Segment) for one in self.statements[place + 1 :]):
                raise Refused(segment, "a RST amid the connection")
            return
        odd = [letter for letter in segment.flags if letter not in FLAGS]
        if odd:
            raise Refused(segment, f"flags {segment.flags!r}: {odd[0]!r} is not modelled")
        for option in segment.options:
            if not machine.SEGMENT_OPTION.fullmatch(" ".join(option)):
                raise Refused(segment, f"option {' '.join(option)!r}: not modelled")
        if not self.opened and not (segment.inbound and "S" in segment.flags):
            raise Refused(segment, "a segment before the connection opens")
        self.opened = True
        if "S" in segment.flags:
            self._agree(segment)
        if self.changed and len(self.opening) < 3:  # noqa: PLR2004 (a handshake has three segments)
            self._open_changed(segment)
        elif segment.inbound:
            self._event(segment.when, f"< {self._got(segment)}", segment)
        else:
            self._sent(segment)

    def _agree(self, syn: Segment) -> None:
        if syn.length:
            raise Refused(syn, "data on a SYN (TCP Fast Open)")
        names = {option[0] for option in syn.options}
        if not syn.inbound:
            self.peer.timestamps |= "TS" in names
            return
        values = {option[0]: option for option in syn.options}
        self.peer.mss = int(values["mss"][1]) if "mss" in values else 536
        self.peer.shift = int(values["wscale"][1]) if "wscale" in values else 0
        self.peer.refuses = "TS" not in names
        if self.changed and self.sends:
            # A server does not offer what the client has not.
            self.settings.timestamps &= "TS" in names

    def _open_changed(self, segment: Segment) -> None:
        """Take the next segment of an opening whose ends are changed over."""
        self.opening.append(segment)
        count = len(self.opening)
        # The side that opens in packetdrill's script sends the first and the third.
        expected = (count % 2 == 1) == self.sends, count <= 2  # noqa: PLR2004
        if (segment.inbound, "S" in segment.flags) != expected:
            raise Refused(segment, "an opening that is not SYN, SYN-ACK, ACK: it has to be changed over")
        first, *rest = self.opening
        if count == 1:
            word = "connect" if self.sends else ""
            self._event(first.when, word, first) if word else self._skip(first.when)
            return
        second = rest[0]
        if count == 2:  # noqa: PLR2004
            if self.sends:
                self._add(0.0, f"> {_flags(first)} 0:0(0){_presence(second)}", first)
                self._skip(second.when)
                return
            # What packetdrill's peer answers, ours opens with, at the time of the stack's own SYN.
            window = second.window if second.window is not None else 65535
            self._add(0.0, f"< {_flags(first)} 0:0(0) win {window}{self._options(second)}", second)
            self._add(0.0, f"> {_flags(second)} 0:0(0) ack 1{_presence(first, second)}", second)
            self._skip(second.when)
            return
        third = segment
        if self.sends:
            window = first.window if first.window is not None else 65535
            self._event(
                third.when, f"< {_flags(second)} 0:0(0) ack 1 win {window}{self._options(first)}", third
            )
            self._add(0.0, "> . 1:1(0) ack 1", third)
            if third.window is not None:
                self._add(0.0, f"< . 1:1(0) ack 1 win {third.window}", third)
            return
        self._event(third.when, "< . 1:1(0) ack 1", third)

    def _got(self, segment: Segment) -> str:
        words = [f"[{segment.ecn}]"] if segment.ecn and segment.ecn != "noecn" else []
        words += [_flags(segment), f"{segment.seq}:{segment.end}({segment.length})"]
        if segment.ack is not None:
            words.append(f"ack {segment.ack}")
        if segment.window is not None:
            words.append(f"win {segment.window}")
        return " ".join(words) + self._options(segment) + self._label(segment, 1)

    def _sent(self, segment: Segment) -> None:
        """Assert a segment; what is longer than the MSS was several when it left."""
        ecn = {None: "[any] " if self.settings.ecn else "", "noecn": ""}.get(segment.ecn, f"[{segment.ecn}] ")
        ack = f" ack {segment.ack}" if segment.ack is not None else ""
        if segment.seq is None or segment.end is None:
            raise Refused(segment, "a segment without numbers")
        options = _presence(segment) if "S" in segment.flags else self._options(segment)
        label = self._label(segment, 0)
        agreed = self.peer.timestamps and not self.peer.refuses
        mss = min(self.settings.largest(), self.peer.mss) - TIMESTAMPS * agreed
        whole, rest = divmod(segment.length, max(mss, 1))
        last = _flags(segment)
        flags = last.replace("F", "")
        if rest == 0 and whole:
            whole, rest = whole - 1, mss
        begin, when = segment.seq, segment.when
        if whole:
            end = begin + whole * mss
            self._event(when, f"> {ecn}{flags} {begin}:{end}({whole}x{mss}){ack}{options}", segment)
            begin, when = end, When(0.0, None, relative=True)
        self._event(when, f"> {ecn}{last} {begin}:{begin + rest}({rest}){ack}{options}{label}", segment)

    def _options(self, segment: Segment) -> str:
        """Return the options of a segment in our language."""
        words = []
        for name, *values in segment.options:
            if name in ("mss", "wscale", "sackOK", "sack"):
                words.append(" ".join([name, *values]))
            elif name == "TS":
                words.append(self._timestamp(segment, int(values[1]), int(values[3])))
        return f" <{','.join(word for word in words if word)}>" if any(words) else ""

    def _timestamp(self, segment: Segment, value: int, echo: int) -> str:
        if segment.inbound:
            if value < self.newest:
                raise Refused(segment, f"timestamp {value} after {self.newest}: ours follow the clock")
            self.newest = value
        label = self.stamps[0 if segment.inbound else 1].get(echo)
        return f"TS ecr @{label}" if label and "S" not in segment.flags else "TS"

    def _label(self, segment: Segment, side: int) -> str:
        """Name a segment whose timestamp is echoed."""
        stamp = next((option for option in segment.options if option[0] == "TS"), None)
        if stamp is None or "S" in segment.flags:
            return ""
        label = f"line{segment.line}"
        self.stamps[side][int(stamp[2])] = label
        return f" @{label}"

    def _skip(self, when: When) -> None:
        """Leave an event out; what comes after it keeps its time."""
        if when.relative:
            self.skipped += when.at
        elif not when.any:
            self.skipped = when.at if not self.lines else self.skipped

    def _event(self, when: When, what: str, of: Statement) -> None:
        asserted = what.startswith(">")
        skipped, self.skipped = self.skipped, 0.0
        if when.any:
            time = f"+0~{ANY_S:g}" if asserted else "+0"
        elif not when.relative:
            time = _seconds(when.at)
        else:
            time = f"+{_seconds(when.at + skipped)}"
            if when.until is not None and asserted:
                time += f"~{_seconds(when.until + skipped)}"
        self.lines.append((f"{time} {what}", of.line))

    def _add(self, after: float, what: str, of: Statement) -> None:
        """Add an event that stands for part of another."""
        self.lines.append((f"+{_seconds(after)} {what}", of.line))


def _flags(segment: Segment) -> str:
    return segment.flags.replace("P", "") or "."


def _presence(*segments: Segment) -> str:
    """Return which options all of these SYNs have, without their values."""
    names = set.intersection(*({option[0] for option in segment.options} for segment in segments))
    words = [word for word in ("sackOK", "TS") if word in names]
    return f" <{','.join(words)}>" if words else ""


def _seconds(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".") or "0"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)
