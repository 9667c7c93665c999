"""Results of iperf3 and flent, laid beside those of a scenario: a table of both, and a line in a plot.

Called by ``lasthop show``, ``plot`` and ``compare`` with ``--beside FILE``. What a tool did not measure stays
empty.
"""

from __future__ import annotations

import bz2
import gzip
import json
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import stats
from lasthop.errors import OutputError
from lasthop.files import read_at_most
from lasthop.quantities import estimate_texts
from lasthop.shape import NUMBER_MAX
from lasthop.syntax import slip
from lasthop.tables import TableColumn, Wide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from lasthop.stats import Estimate

#: Most bytes of a file, packed and unpacked: an hour of iperf3 with eight streams has ten million, and a
#: wrong file of as many is refused within two seconds.
LONGEST_FILE = 16 << 20
#: Units of flent in those of the tables.
UNITS = {"Mbits/s": ("bit/s", 1e6), "Kbits/s": ("bit/s", 1e3), "Kbps": ("bit/s", 1e3), "ms": ("s", 1e-3)}
#: How each line of ``iperf3 --json-stream`` begins, and within how many bytes.
EVENT, EVENT_WITHIN = b'"event"', 20
#: What Python's parser says of more behind an object.
SEVERAL = "Extra data"
#: Ends of the names of iperf3's sums: of one way, and with --bidir of the other.
WAYS = ("", "_bidir_reverse")
#: Ends of the names of what flent works out from other series. Files of version 3 and later say so as well.
DERIVED = (" avg", " sum", " totals", " fairness")


@dataclass(frozen=True)
class Series:
    """What a tool measured over time, in units of the SI.

    Attributes
    ----------
    name, unit : str
        The tool's name of it; ``bit/s`` or ``s``.
    times_s, values : list
        Ends of the intervals, and the means in them.
    """

    name: str
    unit: str
    times_s: list[float]
    values: list[float]


@dataclass
class Measured:
    """A file of iperf3 or flent.

    Attributes
    ----------
    label : str
        The name of the file.
    figures : dict
        By the names of metrics: ``goodput_bit_s`` (all flows together), ``rtt_mean_s``, ``rtt_p95_s``,
        ``retransmitted_packets``, ``lost_share``, ``jitter_s``.
    series : list of Series
        Over time.
    windows : list of tuple
        Ends of intervals in s and congestion windows in segments, where the tool says them.
    """

    label: str
    figures: dict[str, float] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    windows: list[tuple[float, float]] = field(default_factory=list)

    def table(self) -> pl.DataFrame:
        """Return the series as the series of a run has them: time, flow, window, throughput, RTT."""
        from lasthop.extras import pl

        columns: dict[str, list[Any]] = {
            name: [] for name in ("time_s", "flow", "cwnd_segments", "throughput_bit_s", "rtt_s")
        }

        def add(flow: str, time_s: float, **values: float) -> None:
            columns["time_s"].append(time_s)
            columns["flow"].append(flow)
            for name in ("cwnd_segments", "throughput_bit_s", "rtt_s"):
                columns[name].append(values.get(name))

        for series in self.series:
            name = "throughput_bit_s" if series.unit == "bit/s" else "rtt_s"
            for time_s, value in zip(series.times_s, series.values, strict=True):
                add(series.name, time_s, **{name: value})
        for time_s, window in self.windows:
            add("window", time_s, cwnd_segments=window)
        kinds = {name: pl.String if name == "flow" else pl.Float64 for name in columns}
        return pl.DataFrame(columns, schema=kinds)


def read(path: str | Path) -> Measured:
    """Read a file of iperf3 (``--json``, ``--json-stream``) or flent (``.flent``, packed or not).

    Raises
    ------
    OutputError
        If it cannot be read, is of neither, or holds an error of the tool instead of results. A test that
        Ctrl-C ended has results; its label says so.
    """
    path = Path(path)
    content = _content(path)
    is_cut_short = _is_cut_short(content)
    if content.get("error") and not is_cut_short:
        raise OutputError(f"'{path}' holds no results: iperf3 says {str(content['error'])[:200]!r}")
    reader: Callable[[Measured, dict[str, Any]], None]
    if {"start", "intervals", "end"} <= content.keys():
        reader = _read_iperf3
    elif {"metadata", "results", "x_values"} <= content.keys():
        reader = _read_flent
    else:
        raise OutputError(f"'{path}' is of neither iperf3 (--json) nor flent")
    measured = Measured(f"{path.name}, interrupted" if is_cut_short else path.name)
    try:
        reader(measured, content)
        _check_numbers(measured)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        what = f"{type(error).__name__.removesuffix('Error').lower()}: {str(error)[:100]}"
        raise OutputError(f"'{path}' is damaged, or of another version of its tool ({what})") from None
    if not measured.figures:
        raise OutputError(f"'{path}' holds no rate and no round trip")
    return measured


def _is_cut_short(content: Mapping[str, Any]) -> bool:
    """Return whether a test of iperf3 ended by Ctrl-C on either side, after it had measured something."""
    return bool(content.get("intervals")) and "terminated" in str(content.get("error"))


def _check_numbers(measured: Measured) -> None:
    """Raise `ValueError` if there is a number that nothing has."""
    windows = [window for _, window in measured.windows]
    for values in (measured.figures.values(), windows, *(one.values for one in measured.series)):
        for value in values:
            # What is not a number fails this, too.
            if not 0 <= value <= NUMBER_MAX:
                raise ValueError(f"{value!r:.20} is {'less' if value < 0 else 'more'} than anything can be")
    for series in measured.series:
        if not all(abs(time) <= NUMBER_MAX for time in series.times_s):
            raise ValueError(f"{series.name!r} has times that cannot be")


def _content(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file, packed or not."""
    try:
        raw = read_at_most(path, LONGEST_FILE)
        if raw is not None and raw[:2] == b"\x1f\x8b":
            unpacked = zlib.decompressobj(wbits=31)
            raw = unpacked.decompress(raw, LONGEST_FILE)
            raw = None if unpacked.unconsumed_tail else raw
        elif raw is not None and raw[:3] == b"BZh":
            packed = bz2.BZ2Decompressor()
            raw = packed.decompress(raw, LONGEST_FILE)
            raw = raw if packed.eof or packed.needs_input else None
    except (OSError, gzip.BadGzipFile, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot read '{path}': {why.lower()}") from None
    if raw is None:
        raise OutputError(
            f"cannot read '{path}': it has more than {LONGEST_FILE} bytes; measure with longer intervals "
            "(iperf3 -i 1, flent -s 1)"
        )
    try:
        content = _of_events(raw) if EVENT in raw[:EVENT_WITHIN] else json.loads(raw)
    except (ValueError, RecursionError) as error:
        text = raw.decode("utf-8", errors="replace")
        if isinstance(error, json.JSONDecodeError) and error.msg == SEVERAL and text[error.pos] == "{":
            why = "holds several measurements, one after another: give a file of one"
            raise OutputError(f"'{path}' {why}") from None
        hint = (
            "" if text.lstrip()[:1] == "{" else "\n     measure with iperf3 --json, or give a file of flent"
        )
        raise OutputError(f"'{path}' is {slip(text, 'json', path, error)}{hint}") from None
    if not isinstance(content, dict):
        raise OutputError(f"'{path}' is of neither iperf3 (--json) nor flent")
    if content.keys() == {"start", "intervals"}:
        raise OutputError(f"'{path}' was cut off: it has no end of the measurement")
    return content


def _of_events(raw: bytes) -> dict[str, Any]:
    """Return what ``iperf3 --json-stream`` wrote, an event a line, as ``--json`` would have it."""
    content: dict[str, Any] = {"intervals": []}
    for line in raw.splitlines():
        event = json.loads(line) if line.strip() else {}
        name, data = (event.get("event"), event.get("data")) if isinstance(event, dict) else (None, None)
        if name == "interval":
            content["intervals"].append(data)
        elif name in content:
            raise json.JSONDecodeError(SEVERAL, "", 0)
        elif name:
            content[name] = data
    return content


def _read_iperf3(measured: Measured, content: Mapping[str, Any]) -> None:
    """Rates of every interval, and the totals of the receiver; times count from the start of the test."""
    end = content["end"]
    mss = float(content["start"].get("tcp_mss_default") or 0)
    counted = [one for one in content["intervals"] if not one["sum"].get("omitted")]
    rtts: list[float] = []
    by_stream: dict[int, Series] = {}
    delays = Series("RTT", "s", [], [])
    for interval in counted:
        for stream in interval["streams"]:
            name = f"stream {stream['socket']}"
            series = by_stream.setdefault(stream["socket"], Series(name, "bit/s", [], []))
            series.times_s.append(float(stream["end"]))
            series.values.append(float(stream["bits_per_second"]))
            if stream.get("rtt"):
                rtts.append(stream["rtt"] / 1e6)
                delays.times_s.append(float(stream["end"]))
                delays.values.append(stream["rtt"] / 1e6)
            if mss and stream.get("snd_cwnd"):
                measured.windows.append((float(stream["end"]), stream["snd_cwnd"] / mss))
    measured.series = [*by_stream.values(), *([delays] if rtts else [])]
    figures = measured.figures
    received = [end[f"sum_received{way}"] for way in WAYS if f"sum_received{way}" in end]
    # Of UDP, older versions have one sum for both sides.
    received = received or [end["sum"]]
    # A server that sends is not told what arrived, and writes 0; so does a client that was cut short.
    sent = [end.get(f"sum_sent{way}", {}).get("bits_per_second", 0) for way in WAYS]
    is_told = all(
        one["bits_per_second"] or not sent_bit_s for one, sent_bit_s in zip(received, sent, strict=False)
    )
    if _is_cut_short(content):
        is_told = any(one["bits_per_second"] for one in received)
    if is_told:
        figures["goodput_bit_s"] = math.fsum(float(one["bits_per_second"]) for one in received)
    _add_rtts(figures, rtts)
    repeated = [
        end[f"sum_sent{way}"]["retransmits"] for way in WAYS if "retransmits" in end.get(f"sum_sent{way}", {})
    ]
    if repeated:
        figures["retransmitted_packets"] = float(sum(repeated))
    datagrams = [one for way in WAYS if (one := end.get(f"sum{way}", {})).get("packets")]
    if is_told and datagrams:
        packets = sum(one["packets"] for one in datagrams)
        figures["lost_share"] = sum(one["lost_packets"] for one in datagrams) / packets
        figures["jitter_s"] = math.fsum(one["jitter_ms"] for one in datagrams) / len(datagrams) / 1e3


def _add_rtts(figures: dict[str, float], rtts: Sequence[float]) -> None:
    if rtts:
        ordered = sorted(rtts)
        figures["rtt_mean_s"] = math.fsum(ordered) / len(ordered)
        figures["rtt_p95_s"] = ordered[round((len(ordered) - 1) * 0.95)]


def _read_flent(measured: Measured, content: Mapping[str, Any]) -> None:
    """Series in Mbit/s and ms, without those that flent works out from others; pings are round trips."""
    described = content["metadata"].get("SERIES_META") or {}
    times = [float(time) for time in content["x_values"]]
    rates: list[float] = []
    rtts: list[float] = []
    for name, values in content["results"].items():
        about = described.get(name, {})
        is_ping = name.startswith("Ping")
        units = about.get("UNITS") or ("ms" if is_ping else "")
        if units not in UNITS or name.endswith(DERIVED) or "COMPUTED_LATE" in about:
            continue
        # The latency of a page, or of one way, is no round trip.
        if units == "ms" and not is_ping:
            continue
        unit, factor = UNITS[units]
        pairs = [
            (time, value * factor) for time, value in zip(times, values, strict=True) if value is not None
        ]
        if not pairs:
            continue
        series = Series(name, unit, [time for time, _ in pairs], [value for _, value in pairs])
        measured.series.append(series)
        if unit == "bit/s":
            # The tool's own mean is over the whole flow; the series may have holes.
            mean = about.get("MEAN_VALUE")
            whole = isinstance(mean, int | float) and mean > 0
            rates.append(mean * factor if whole else math.fsum(series.values) / len(series.values))
        else:
            rtts += series.values
    if rates:
        measured.figures["goodput_bit_s"] = math.fsum(rates)
    _add_rtts(measured.figures, rtts)


def _flows(record: Mapping[str, Any], name: str) -> list[float]:
    return [flow[name] for flow in record["flows"] if flow.get(name) is not None]


def _sum_of(record: Mapping[str, Any], name: str) -> float | None:
    values = _flows(record, name)
    return math.fsum(values) if values else None


def _mean_of(record: Mapping[str, Any], name: str) -> float | None:
    return stats.mean(_flows(record, name))


def _lost_share(record: Mapping[str, Any]) -> float | None:
    """Lost packets of the datagram flows, by those that were sent."""
    datagrams = [flow for flow in record["flows"] if flow["transport"] == "udp" and flow["packets_sent"]]
    sent = sum(flow["packets_sent"] for flow in datagrams)
    return sum(sum(flow["packets_lost"].values()) for flow in datagrams) / sent if sent else None


#: Name, unit, label, and how a record of a run has it.
ROWS: tuple[tuple[str, str, str, Callable[[Mapping[str, Any]], float | None]], ...] = (
    ("goodput_bit_s", "bit/s", "goodput, all flows", lambda record: _sum_of(record, "goodput_bit_s")),
    ("rtt_mean_s", "s", "RTT, mean", lambda record: _mean_of(record, "rtt_mean_s")),
    ("rtt_p95_s", "s", "RTT, p95", lambda record: _mean_of(record, "rtt_p95_s")),
    (
        "retransmitted_packets",
        "",
        "retransmitted packets",
        lambda record: _sum_of(record, "retransmitted_packets"),
    ),
    ("lost_share", "share", "lost, datagrams", _lost_share),
    ("jitter_s", "s", "jitter (RFC 3550)", lambda record: _mean_of(record, "jitter_rfc3550_s")),
)


def beside_table(simulated: Mapping[str, Sequence[Mapping[str, Any]]], files: Sequence[Measured]) -> Wide:
    """Return a table of what was simulated beside what was measured.

    Parameters
    ----------
    simulated : mapping
        Records of runs, by what their column is called.
    files : sequence of Measured
        A column each.
    """
    labels, units = [], []
    columns: dict[str, list[str]] = {name: [] for name in (*simulated, *(one.label for one in files))}
    for name, unit, label, of in ROWS:
        if all(name not in one.figures for one in files):
            continue
        values: list[Estimate | None] = [
            stats.estimate(of(record) for record in records) for records in simulated.values()
        ]
        values += [stats.estimate([one.figures[name]]) if name in one.figures else None for one in files]
        texts, prefixed = estimate_texts(values, unit)
        labels.append(label)
        units.append(prefixed)
        for column, text in zip(columns.values(), texts, strict=True):
            column.append(text)
    parts = [
        TableColumn("", labels),
        *(TableColumn(name, texts, "right") for name, texts in columns.items()),
        TableColumn("", units),
    ]
    table = Wide(parts, title="beside what was measured")
    table.caption = "measured RTTs are of the tool: TCP's own in iperf3, pings in flent"
    return table
