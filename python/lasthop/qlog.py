"""A flow as qlog (draft-ietf-quic-qlog-main-schema-05, version 0.3): what qvis and its like open.

Of TCP it is made from the packet trace of a run, as `lasthop.results.Run.write_qlog` and ``lasthop run
--qlog`` ask for it. Events are those of the sender. qlog numbers packets and TCP numbers bytes: here every
transmission has a number of its own, in the order in which they left, as QUIC does it, and a frame says which
bytes it carries. A real stack of QUIC writes its own, which is handed on as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    from lasthop.results import Run

#: What separates the records of JSON-SEQ (RFC 7464).
RECORD = "\x1e"
#: Kinds of packets that the sender of a flow sends, and those that it gets.
SENT = ("syn", "data", "fin", "probe")
RECEIVED = ("syn-ack", "ack", "fin-ack", "probe-answer")
NS_PER_MS = 1e6


def flows_of(run: Run) -> list[str]:
    """Return the flows that can be written: of TCP what has sent something, of stacks what has a log."""
    import polars as pl

    kinds = run.hops.filter(pl.col("kind") == "data")
    there = {*kinds["flow"].unique(), *run.logged}
    return [name for name in run.flows["name"] if name in there]


def write(run: Run, path: Path, flow: str | None = None) -> None:
    """Write the qlog of a flow; see `lasthop.results.Run.write_qlog`."""
    known = flows_of(run)
    chosen = (known[0] if len(known) == 1 else None) if flow is None else flow
    if not known:
        raise ArgumentError(
            "no flow of this run sends TCP, or kept the log of a stack that writes one, such as quinn or noq"
        )
    if chosen is None or chosen not in known:
        wrong = (
            "several flows could be meant"
            if flow is None
            else f"no flow {flow!r} sends TCP or kept the log of its stack"
        )
        raise ArgumentError(f"{wrong}: name one of {', '.join(map(repr, known[:12]))}")
    if chosen in run.logged:
        run.write_log(path, chosen)
        return
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records(run, chosen):
            file.write(f"{RECORD}{json.dumps(record, separators=(',', ':'))}\n")


def records(run: Run, flow: str) -> Iterator[dict[str, Any]]:
    """Yield the head of the trace, and its events in the order of time."""
    described = run.flows.row(by_predicate=_named("name", flow), named=True)
    yield {
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": f"{flow} ({described['transport']}), seed {run.seed}",
        "description": f"TCP in simulated time, lasthop {run.engine_version}; numbers count transmissions",
        "trace": {
            "vantage_point": {"name": "sender", "type": "client"},
            "title": flow,
            "common_fields": {
                "group_id": flow,
                "protocol_type": ["TCP"],
                "time_format": "relative",
                "reference_time": 0.0,
            },
        },
    }
    yield from _Sender(run, flow).events()


def _named(column: str, value: str) -> pl.Expr:
    import polars as pl

    return pl.col(column) == value


class _Sender:
    """What has been sent and not been acknowledged, while a flow is followed."""

    def __init__(self, run: Run, flow: str) -> None:
        self._packets = _packets(run.hops.filter(_named("flow", flow)))
        self._windows = run.windows.filter(_named("flow", flow))
        self._mss = max((one["payload_bytes"] for one in self._packets), default=1)
        self._number = 0
        self._received = 0
        #: First byte carried -> its newest transmission: number, bytes, time, whether it is a retransmission.
        self._out: dict[int, tuple[int, int, int, bool]] = {}
        self._flight = 0
        self._least_rtt_ms = float("inf")

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield every event in the order of time; within an instant what arrives is first."""
        happening: list[tuple[int, int, Any]] = []
        for one in self._packets:
            if one["kind"] in SENT:
                happening.append((one["enqueue_ns"], 2, one))
            elif one["kind"] in RECEIVED and one["arrive_ns"] is not None:
                happening.append((one["arrive_ns"], 0, one))
        columns = ("time_ns", "cwnd_segments", "ssthresh_segments")
        happening += [(row[0], 1, row) for row in self._windows.select(columns).iter_rows()]
        happening.sort(key=lambda one: one[:2])
        for at, order, one in happening:
            time = at / NS_PER_MS
            if order == 0:
                yield from self._receive(time, at, one)
            elif order == 1:
                yield self._metrics(time, cwnd=one[1], ssthresh=one[2])
            else:
                yield from self._send(time, at, one)

    def _send(self, time: float, at: int, packet: dict[str, Any]) -> Iterator[dict[str, Any]]:
        number, length, seq = self._number, packet["payload_bytes"], packet["seq"]
        before = self._out.get(seq)
        if before is not None and length:
            # TCP does not say when it gave the earlier transmission up: at the latest now.
            self._flight -= before[1]
            yield _event(time, "recovery:packet_lost", {"header": _header(before[0], "1RTT")})
        self._number += 1
        frames: list[dict[str, Any]] = [{"frame_type": "padding"}]
        if length:
            self._out[seq] = (number, length, at, packet["retransmission"])
            self._flight += length
            frames = [{"frame_type": "stream", "stream_id": 0, "offset": seq - 1, "length": length}]
        kind = "initial" if packet["kind"] == "syn" else "1RTT"
        yield _event(
            time,
            "transport:packet_sent",
            {
                "header": _header(number, kind),
                "raw": {"length": packet["wire_bytes"], "payload_length": length},
                "frames": frames,
            },
        )

    def _receive(self, time: float, at: int, packet: dict[str, Any]) -> Iterator[dict[str, Any]]:
        # In the order in which they were sent first, which is that of their bytes.
        acked = []
        for seq in list(self._out):
            if seq + self._out[seq][1] > packet["ack"]:
                break
            acked.append(self._out.pop(seq))
        numbers = sorted(one[0] for one in acked)
        frames: list[dict[str, Any]] = [{"frame_type": "padding"}]
        if numbers:
            frames = [{"frame_type": "ack", "ack_delay": 0, "acked_ranges": _ranges(numbers)}]
        kind = "initial" if packet["kind"] == "syn-ack" else "1RTT"
        header = _header(self._received, kind)
        self._received += 1
        raw = {"length": packet["wire_bytes"], "payload_length": 0}
        yield _event(time, "transport:packet_received", {"header": header, "raw": raw, "frames": frames})
        if not acked:
            return
        self._flight -= sum(one[1] for one in acked)
        fresh = [one for one in acked if not one[3]]
        if not fresh:
            yield self._metrics(time)
            return
        # Karn: what was sent twice measures nothing.
        rtt_ms = (at - max(one[2] for one in fresh)) / NS_PER_MS
        self._least_rtt_ms = min(self._least_rtt_ms, rtt_ms)
        yield self._metrics(time, rtt_ms=rtt_ms)

    def _metrics(
        self,
        time: float,
        cwnd: float | None = None,
        ssthresh: float | None = None,
        rtt_ms: float | None = None,
    ) -> dict[str, Any]:
        data: dict[str, Any] = {"bytes_in_flight": self._flight}
        if cwnd is not None:
            data["congestion_window"] = int(cwnd * self._mss)
        if ssthresh is not None and ssthresh != float("inf"):
            data["ssthresh"] = int(ssthresh * self._mss)
        if rtt_ms is not None:
            data["latest_rtt"] = rtt_ms
            data["min_rtt"] = self._least_rtt_ms
        return _event(time, "recovery:metrics_updated", data)


def _packets(hops: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one row for each packet of a flow: when it left, and when it arrived, if it did."""
    import polars as pl

    last = pl.col("outcome").last() == "delivered"
    kept = ("kind", "seq", "ack", "payload_bytes", "wire_bytes", "retransmission", "enqueue_ns")
    grouped = hops.sort("enqueue_ns", maintain_order=True).group_by("packet", maintain_order=True)
    arrived = pl.when(last).then(pl.col("arrive_ns").last()).otherwise(None).alias("arrive_ns")
    return grouped.agg(*(pl.col(name).first() for name in kept), arrived).to_dicts()


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Return runs of numbers in a row.

    Examples
    --------
    >>> _ranges([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _header(number: int, kind: str) -> dict[str, Any]:
    return {"packet_type": kind, "packet_number": number}


def _event(time: float, name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"time": time, "name": name, "data": data}
