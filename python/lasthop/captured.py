"""A capture of real packets as input: what is in it, a first estimate of its path, and a scenario of that.

The capture is read in Rust, which also says what it found. Called by ``lasthop from-capture`` and
``lasthop view``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from lasthop import _native
from lasthop.errors import ArgumentError, OutputError
from lasthop.quantities import quantity, time_text
from lasthop.tables import simple_table

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Connections that the table names.
FLOWS_SHOWN = 20
#: How a capture begins (pcapng; pcap with either order of bytes and either unit of time).
MAGIC = ("0a0d0d0a", "d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d")
#: Names of files that are taken for captures, whatever is in them.
SUFFIXES = (".pcap", ".pcapng", ".cap")


def is_capture(path: Path) -> bool:
    """Say whether a file is a capture, by its name or its first bytes."""
    if not path.is_file():
        return False
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        with path.open("rb") as file:
            return file.read(4).hex() in MAGIC
    except OSError:
        return False


class Captured:
    """A capture and what it says of the path.

    Parameters
    ----------
    path : str or Path
        A pcap or pcapng file, taken at either end or on the way.
    interface : int or str, optional
        Only the packets of this interface of a pcapng: its number, counted from 0, or its name.

    Raises
    ------
    OutputError
        If it cannot be read.
    ArgumentError
        If the same packets are there more than once, such as on several interfaces, which the text names.
    """

    def __init__(self, path: str | Path, interface: int | str | None = None) -> None:
        self.path = Path(path)
        only = None if interface is None else str(interface)
        try:
            self._said: dict[str, Any] = json.loads(_native.read_capture(self.path, only))
        except ValueError as error:
            raise OutputError(f"cannot read the capture '{self.path}': {error}") from None
        #: All that was found: lengths in seconds, rates in bit/s.
        self.found: dict[str, Any] = self._said["found"]
        several = self.found["seen_twice_on"]
        if len(several) == 1:
            raise ArgumentError(
                f"'{self.path}' has the same packets twice, as of two places in one file, "
                "or of tcpdump -i any: take the capture of one place"
            )
        if several:
            raise ArgumentError(
                f"'{self.path}' has the same packets on the interfaces {', '.join(map(str, several))}: "
                f"choose one, such as --interface {several[0]}"
            )

    def table(self) -> RenderableType:
        """Return the connections and the estimate, for a terminal."""
        found = self.found
        repeats, encrypted = found["repeated_frames"], found["encrypted_frames"]
        passed = {
            "of other protocols": found["others"] - repeats - encrypted,
            "repeated by 802.11": repeats,
            "encrypted": encrypted,
        }
        others = "".join(f", {number:,} {what}" for what, number in passed.items() if number)
        parts: list[RenderableType] = [
            Text.assemble(
                (self.path.name, "bold"),
                f"  {found['packets']:,} packets of TCP and UDP{others}, {time_text(found['length_s'], 4)}",
            ),
            self._flows(),
            Text.assemble(("the path ", "bold"), f"from {found['from']} to {found['to']}"),
        ]
        rows = simple_table("what")
        rows.show_header, rows.box = False, None
        rows.add_column("value")
        for name, value, surely in self.figures():
            rows.add_row(name, value, surely)
        parts.append(rows)
        if one_sided := self._said["scenario"]["lacks"]:
            parts.append(Text(one_sided, style="dim"))
        if found["truncated"]:
            parts.append(Text("the file ends within a packet: it was cut while it was written", style="dim"))
        return Group(*parts)

    def _flows(self) -> RenderableType:
        table = simple_table("connection")
        for heading in ("start", "length", "packets", "payload", "back"):
            table.add_column(heading, justify="right")
        flows = sorted(self.found["flows"], key=lambda one: -sum(one["payload"]))
        for number, one in enumerate(flows[:FLOWS_SHOWN], 1):
            ends = f"{one['from']}:{one['from_port']} - {one['to']}:{one['to_port']}"
            table.add_row(
                f"{number}  {ends} {one['transport']}",
                quantity(one["start_s"], "s"),
                quantity(one["length_s"], "s"),
                f"{one['packets'][0]:,} + {one['packets'][1]:,}",
                quantity(float(one["payload"][0]), "B"),
                quantity(float(one["payload"][1]), "B"),
            )
        # Of very many, only the largest are told one by one.
        if (more := self.found["connections"] - FLOWS_SHOWN) > 0:
            table.caption = f"and {more:,} more"
        return table

    def figures(self) -> list[tuple[str, str, str]]:
        """Return name, value and how sure each figure of the path is."""
        return [(one["name"], one["value"], one["surely"]) for one in self._said["figures"]]

    def scenario(self) -> str:
        """Return the path and its connections as a scenario, with comments that say how sure it is.

        Raises
        ------
        ArgumentError
            If no connection carries data: a scenario has at least one flow.
        """
        if not any(sum(one["payload"]) for one in self.found["flows"]):
            raise ArgumentError(
                f"'{self.path}' has no packet with data, so that no scenario can be made of it: "
                "take a capture where both directions pass"
            )
        text: str = self._said["scenario"]["text"]
        return text
