"""A capture of real packets as input: what is in it, a first estimate of its path, and a scenario of that.

The capture is read in Rust. Called by ``lasthop from-capture``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from lasthop import _native
from lasthop.errors import ArgumentError, OutputError
from lasthop.quantities import quantity
from lasthop.tables import simple_table

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Connections that the table and the scenario name.
FLOWS_SHOWN = 20
#: A run of the scenario is no longer than this, in seconds.
LONGEST_RUN_S = 600.0
#: A mean number of losses in a row above this is a sign of bursts.
BURSTS = 1.5
#: Losses in a row that must be seen before bursts are believed.
RUNS_MIN = 10


class Captured:
    """A capture and what it says of the path.

    Parameters
    ----------
    path : str or Path
        A pcap or pcapng file, taken at either end or on the way.
    interface : int, optional
        Only the packets of this interface of a pcapng, counted from 0.

    Raises
    ------
    OutputError
        If it cannot be read.
    ArgumentError
        If the same packets are on several interfaces; the text names them.
    """

    def __init__(self, path: str | Path, interface: int | None = None) -> None:
        self.path = Path(path)
        try:
            #: All that was found: lengths in seconds, rates in bit/s.
            self.found: dict[str, Any] = json.loads(_native.read_capture(self.path, interface))
        except ValueError as error:
            raise OutputError(f"cannot read the capture '{self.path}': {error}") from None
        several = self.found["seen_twice_on"]
        if several:
            raise ArgumentError(
                f"'{self.path}' has the same packets on the interfaces {', '.join(map(str, several))}: "
                f"choose one, such as --interface {several[0]}"
            )

    def table(self) -> RenderableType:
        """Return the connections and the estimate, for a terminal."""
        found = self.found
        others = f", {found['others']:,} of other protocols" if found["others"] else ""
        parts: list[RenderableType] = [
            Text.assemble(
                (self.path.name, "bold"),
                f"  {found['packets']:,} packets of TCP and UDP{others}, {found['length_s']:.4g} s",
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
        if one_sided := self._one_sided():
            parts.append(Text(one_sided, style="dim"))
        if found["truncated"]:
            parts.append(Text("the file ends within a packet: it was cut while it was written", style="dim"))
        return Group(*parts)

    def _one_sided(self) -> str:
        """Say what is missing of a capture of one direction of TCP, if it is one."""
        found = self.found
        ends = {found["from"], found["to"]}
        flows = [one for one in found["flows"] if one["transport"] == "tcp"]
        of_path = [one for one in flows if {one["from"], one["to"]} == ends]
        ways = [sum(one["packets"][way] for one in of_path) for way in (0, 1)]
        if not of_path or all(ways):
            return ""
        has_data = any(sum(one["payload"]) for one in of_path)
        what = "no acknowledgements are" if has_data else "no data are"
        return f"{what} in the capture: take one where both directions pass"

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
        if len(flows) > FLOWS_SHOWN:
            table.caption = f"and {len(flows) - FLOWS_SHOWN:,} more"
        return table

    def figures(self) -> list[tuple[str, str, str]]:
        """Return name, value and how sure each figure of the path is."""
        path = self.found["path"]
        rows = [
            ("rate", *_figure(path["rate_bit_s"], "bit/s")),
            ("RTT without queues", *_figure(path["base_rtt_s"], "s")),
        ]
        loaded = path["loaded_rtt_s"]
        if loaded:
            texts = [f"{name} {quantity(loaded[key], 's')}" for key, name in LOADED]
            rows.append(("RTT under load", ", ".join(texts), "as measured"))
        rows.append(("queue", *_figure(path["queue_bytes"], "B")))
        rows.append(("loss by chance", *_figure(path["loss"], "share")))
        if path["loss"]:
            full = f", {path['lost_at_full_queue']:,} of them at a full queue" if path["lost"] else ""
            text = f"{path['lost']:,} of {path['data_packets']:,} packets{full}"
            rows.append(
                ("lost", text, f"else {path['loss_runs']:,} times, at most {path['longest_run']:,} in a row")
            )
        if path["reordered"]:
            rows.append(("reordered", _packets(path["reordered"]), ""))
        if path["repeated_in_vain"]:
            perhaps = path["of_these_perhaps"]
            surely = f"{perhaps:,} of them as far as one can tell" if perhaps else ""
            rows.append(("repeated in vain", _packets(path["repeated_in_vain"]), surely))
        return rows

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
        length = min(max(self.found["length_s"], 1.0), LONGEST_RUN_S)
        lines = [
            f"# A first estimate of the path in the capture {self.path.name}, by lasthop from-capture.",
            "# Each figure has its interval behind it. What a capture cannot show is named; check it.",
            f'duration = "{length:.6g} s"',
            "",
            "[topology]",
            'kind = "graph"',
            'nodes = ["server", "client"]',
            "",
            "[[topology.links]]",
            'from = "server"',
            'to = "client"',
            *self._link(),
            "",
            *self._traffic(),
        ]
        return "\n".join(lines) + "\n"

    def _link(self) -> list[str]:
        path = self.found["path"]
        rate, base, queue = path["rate_bit_s"], path["base_rtt_s"], path["queue_bytes"]
        lines = []
        if rate is None:
            lines.append('rate = "10 Mbit/s"  # NOT MEASURED: too few packets came in a row')
        else:
            lines.append(f'rate = "{rate["value"] / 1e6:.4g} Mbit/s"  # {_figure(rate, "bit/s")[1]}')
        if base is None:
            lines.append('delay = "20 ms"  # NOT MEASURED: no round trip is in the capture')
        else:
            lines.append(
                f'delay = "{base["value"] / 2 * 1e3:.4g} ms"  # half of the RTT without queues, '
                f"{_figure(base, 's')[1]}; how it divides between both ways is not seen"
            )
        if queue is None:
            lines.append("# The queue was never seen to fill: its length is the default.")
        else:
            packets = max(round(queue["value"] / max(path["packet_bytes"], 1)), 1)
            lines.append(
                f'queue = {{ kind = "drop-tail", limit = "{packets} packets" }}  # {_figure(queue, "B")[1]}'
            )
        return [*lines, *self._error()]

    def _error(self) -> list[str]:
        path = self.found["path"]
        loss = path["loss"]
        if loss is None:
            return ["# Losses cannot be seen in these packets."]
        if loss["value"] == 0:
            return [f"# No loss is by chance for certain; their share is at most {loss['high']:.3g}."]
        mean_run = (path["lost"] - path["lost_at_full_queue"]) / max(path["loss_runs"], 1)
        said = f"{_figure(loss, 'share')[1]}; {path['lost']} of {path['data_packets']} packets were lost"
        if mean_run > BURSTS and path["loss_runs"] >= RUNS_MIN:
            model = f'kind = "gilbert-elliott", packet_error_rate = {loss["value"]:.4g}'
            return [f"error = {{ {model}, mean_burst = {mean_run:.3g} }}  # {said}"]
        return [f'error = {{ kind = "bernoulli", packet_error_rate = {loss["value"]:.4g} }}  # {said}']

    def _traffic(self) -> list[str]:
        found = self.found
        lines = []
        flows = sorted(found["flows"], key=lambda one: -sum(one["payload"]))
        for one in flows[:FLOWS_SHOWN]:
            way = 0 if one["data_forward"] else 1
            payload = one["payload"][way]
            sender = one["from"] if one["data_forward"] else one["to"]
            ends = ("server", "client") if sender == found["from"] else ("client", "server")
            if payload == 0 or {one["from"], one["to"]} != {found["from"], found["to"]}:
                continue
            lines += [
                "[[flows]]",
                f'source = "{ends[0]}"',
                f'sink = "{ends[1]}"',
                f'start = "{one["start_s"]:.6g} s"',
            ]
            if one["transport"] == "tcp":
                lines += [
                    'transport = "cubic"  # which law it was is not seen',
                    f'traffic = {{ kind = "ftp", bytes = "{payload} B" }}',
                ]
            else:
                rate = payload * 8 / max(one["length_s"], 1e-3)
                size = max(round(payload / one["packets"][way]), 1)
                sent = f'kind = "cbr", rate = "{rate:.6g} bit/s", packet = "{size} B"'
                lines += [
                    'transport = "udp"',
                    f"traffic = {{ {sent} }}  # means; the times between packets are not kept",
                ]
            lines.append("")
        return lines


LOADED = (("p50", "median"), ("p95", "p95"), ("max", "most"))


def _figure(figure: dict[str, Any] | None, unit: str) -> tuple[str, str]:
    """Return the value and the interval of a figure."""
    if figure is None:
        return "-", "not to be seen in these packets"
    low = quantity(figure["low"], unit)
    if figure["high"] is None:
        return quantity(figure["value"], unit), f"at least {low}"
    return quantity(figure["value"], unit), f"between {low} and {quantity(figure['high'], unit)}"


def _packets(count: int) -> str:
    """Say how many packets.

    Examples
    --------
    >>> _packets(1), _packets(1200)
    ('1 packet', '1,200 packets')
    """
    return f"{count:,} packet{'s' if count != 1 else ''}"
