"""What every sender was compared with: `python -m validation.senders [--full] [--sender NAME]`.

Where another simulator has the same controller, the same network is run on both sides: ns-2's
`Agent/TCP/Linux` (controllers of the Linux kernel) on one flow without losses, one flow with listed losses
and a lossy dumbbell; ns-3 on one path with and without losses. The loss recovery around the controllers
differs, so windows and goodput are compared, within bounds; what lies outside is explained in
`senders.toml`. `--full` writes `docs/reference/validation-senders.md` with one section for each registered
sender, including what rests on vectors alone; without it the cases are printed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import re
import statistics
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from lasthop import _native
from validation import engine, ns2, ns2_linux, ns3, ns3_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-senders.md"
EXPLANATIONS = Path(__file__).with_name("senders.toml")
COMMAND = "python -m validation.senders --full"

#: Largest difference, relative to the other simulator, that needs no explanation.
BOUNDS = {"goodput (Mbit/s)": 0.05, "mean cwnd": 0.10, "largest cwnd": 0.10}
DIGITS = {"goodput (Mbit/s)": 3, "mean cwnd": 1, "largest cwnd": 1, "retransmitted": 1, "timeouts": 1}
#: The start of a run is no steady state.
SETTLED_S = 10.0
DURATION_S = 60.0
#: Seeds and substreams of the cases with random losses.
RUNS = range(1, 11)

Sample = dict[str, float]


@dataclass(frozen=True)
class Pair:
    """The same controller on both sides."""

    sender: str
    #: The transport table of lasthop.
    ours: dict[str, Any]
    #: `select_ca` of ns-2's Linux agent, or a class of ns-3.
    theirs: str


#: Westwood+ as the kernel has it.
LINUX_WESTWOOD = {
    "filter": "linux",
    "decrease": "after-recovery",
    "round_floor": 0.05,
    "forget_rtt": True,
    "counting": "paper",
    "recovery_floor": True,
}
LINUX_PAIRS = (
    Pair("reno", {"cc": "reno"}, "reno"),
    Pair("westwood+", {"cc": "westwood+", **LINUX_WESTWOOD}, "westwood"),
    Pair("veno", {"cc": "veno", "rule": "linux"}, "veno"),
    Pair("vegas", {"cc": "vegas"}, "vegas"),
    Pair("cubic", {"cc": "cubic"}, "cubic"),
)
NS3_PAIRS = (
    Pair("reno", {"cc": "reno"}, "TcpLinuxReno"),
    Pair("westwood+", {"cc": "westwood+", "filter": "averaged"}, "TcpWestwoodPlus"),
    Pair("veno", {"cc": "veno", "reduce_from": "flight"}, "TcpVeno"),
    Pair("cubic", {"cc": "cubic"}, "TcpCubic"),
    Pair("bbr", {"cc": "bbr"}, "TcpBbr"),
)


@dataclass(frozen=True)
class Comparison:
    """Means of the metrics on both sides for one case."""

    sender: str
    rival: str
    case: str
    ours: Sample
    theirs: Sample

    @property
    def key(self) -> str:
        """How `senders.toml` names it."""
        return f"{self.sender}, {self.rival}, {self.case}"

    def outside(self) -> list[str]:
        """The metrics beyond their bounds."""
        return [
            metric
            for metric, bound in BOUNDS.items()
            if metric in self.ours and abs(self.ours[metric] / self.theirs[metric] - 1.0) > bound
        ]


# ----------------------------------------------------------------------------------------------------
# The networks


def path(error: dict[str, Any] | None = None) -> dict[str, Any]:
    """One flow over 10 Mbit/s, 40 ms RTT and a buffer of one bandwidth-delay product."""
    last = {"rate": "10 Mbit/s", "delay": "19 ms", "queue": {"kind": "drop-tail", "limit": "50 packets"}}
    first = {"rate": "100 Mbit/s", "delay": "1 ms", "queue": {"kind": "drop-tail", "limit": "10000 packets"}}
    if error is not None:
        last |= {"error": error}
    # Only data is lost: ns-3 has its error model at the sink alone.
    last |= {"reverse": {"error": {"kind": "none"}}}
    return {
        "name": "path",
        "duration": f"{DURATION_S:g} s",
        "measure": {"series_interval": "50 ms"},
        "topology": {
            "kind": "graph",
            "nodes": ["source", "router", "sink"],
            "links": [
                {"name": "access", "from": "source", "to": "router", **first},
                {"name": "path", "from": "router", "to": "sink", **last},
            ],
        },
        "flows": [{"name": "flow", "source": "source", "sink": "sink", "transport": "sack"}],
    }


def dumbbell() -> dict[str, Any]:
    """The dumbbell of paper 004 with ten flows; the sink links lose one packet in a hundred."""
    queue = {"kind": "drop-tail", "limit": "50 packets"}
    return {
        "name": "dumbbell",
        "duration": f"{DURATION_S:g} s",
        "topology": {
            "kind": "dumbbell",
            "bottleneck": {
                "rate": "10 Mbit/s",
                "delay": "25 ms",
                "queue": {"kind": "drop-tail", "limit": "30 packets"},
            },
            "access": {"rate": "1 Mbit/s", "delay": "10 ms", "queue": queue},
        },
        "channel": {"error": {"kind": "bernoulli", "packet_error_rate": 0.01}},
        "flows": [{"count": 10, "transport": "sack", "start": {"uniform": ["0 s", "1 s"]}}],
    }


LISTED = {"kind": "list", "packets": [500, 2500, 2503, 6000, 12000, 12010, 12011, 20000]}
RANDOM = {"kind": "bernoulli", "packet_error_rate": 0.01}
#: ns-2's sizes and windows; the thresholds of its agents start at the receiver window.
NS2_TCP = {
    "profile": "ns2",
    "packet_size": "1000 B",
    "receiver_window": "500 packets",
    "initial_ssthresh": "500 packets",
    "timestamps": True,
}
NS3_TCP = {
    "packet_size": "1052 B",
    "receiver_window": "1000 packets",
    "initial_window": "10 packets",
    "delayed_ack": False,
    "rto": {"min": "200 ms"},
}


# ----------------------------------------------------------------------------------------------------
# Running both sides


def with_transport(scenario: dict[str, Any], pair: Pair, recovery: str) -> dict[str, Any]:
    """The scenario with the sender of `pair` in every flow."""
    flows = [{**flow, "transport": {**pair.ours, "recovery": recovery}} for flow in scenario["flows"]]
    return {**scenario, "flows": flows}


def ours(scenario: dict[str, Any], seed: int) -> Sample:
    """One run of lasthop."""
    result = _native.run(engine.plan(scenario), seed, series=True)
    run = json.loads(result.to_json())
    totals = run["totals"]
    series = result.table("flow_series")
    windows = pl.DataFrame(series) if series is not None else pl.DataFrame()
    values = sample(
        totals["goodput_bit_s"], totals["retransmitted_packets"], windows, single=len(run["flows"]) == 1
    )
    return values | {"timeouts": float(totals["timeouts"])}


def sample(goodput_bit_s: float, retransmitted: float, windows: pl.DataFrame, *, single: bool) -> Sample:
    """The metrics of a run; windows only where one flow has the path to itself."""
    values = {"goodput (Mbit/s)": goodput_bit_s / 1e6, "retransmitted": float(retransmitted)}
    if single:
        settled = windows.filter(pl.col("time_s") >= SETTLED_S)["cwnd_segments"]
        mean, largest = settled.mean(), settled.max()
        if isinstance(mean, float) and isinstance(largest, float):
            values |= {"mean cwnd": mean, "largest cwnd": largest}
    return values


def mean(samples: list[Sample]) -> Sample:
    """The mean of every metric."""
    return {metric: statistics.fmean(one[metric] for one in samples) for metric in samples[0]}


def against_ns2(pair: Pair, *, random: bool = True) -> Iterator[Comparison]:
    """Three networks in ns-2's `Agent/TCP/Linux`; without `random` only those without chance."""
    cases = {"one flow": (path(), range(1, 2)), "listed losses": (path(LISTED), range(1, 2))}
    if random:
        cases["dumbbell, PER 0.01"] = (dumbbell(), RUNS)
    for case, (scenario, runs) in cases.items():
        scenario["tcp"] = NS2_TCP
        theirs = []
        for substream in runs:
            run = ns2_linux.run(scenario, pair.theirs, substream)
            single = case != "dumbbell, PER 0.01"
            values = sample(run.goodput_bit_s, run.retransmitted, run.windows, single=single)
            theirs.append(values | {"timeouts": run.timeouts})
        left = [ours(with_transport(scenario, pair, "rack"), seed) for seed in runs]
        yield Comparison(pair.sender, "ns-2 Agent/TCP/Linux", case, mean(left), mean(theirs))


def against_ns3(pair: Pair) -> Iterator[Comparison]:
    """One path in ns-3, without and with random losses."""
    for case, rate, runs in (("one flow", 0.0, range(1, 2)), ("one flow, PER 0.01", 0.01, RUNS)):
        scenario = path(RANDOM if rate else None) | {"tcp": NS3_TCP}
        settings = ns3_path.Path3(10e6, 0.019, 50, rate, DURATION_S)
        theirs = []
        for seed in runs:
            run = ns3_path.run(settings, pair.theirs, seed)
            theirs.append(sample(run.goodput_bit_s, run.retransmitted, run.windows, single=True))
        left = [ours(with_transport(scenario, pair, "rack"), seed) for seed in runs]
        yield Comparison(pair.sender, "ns-3", case, mean(left), mean(theirs))


def comparisons(sender: str | None = None) -> Iterator[Comparison]:
    """Every comparison for which the other simulator is installed, of one sender or of all."""
    for pairs, compare, installed in (
        (LINUX_PAIRS, against_ns2, ns2.version() != "not installed"),
        (NS3_PAIRS, against_ns3, ns3_path.is_installed()),
    ):
        for pair in pairs:
            if installed and sender in (None, pair.sender):
                yield from compare(pair)


# ----------------------------------------------------------------------------------------------------
# The page


def explanations() -> dict[str, str]:
    """Comparison -> why it lies outside the bounds."""
    entries = tomllib.loads(EXPLANATIONS.read_text(encoding="utf-8")).get("explanation", [])
    return {
        f"{sender}, {rival}, {case}": " ".join(entry["cause"].split())
        for entry in entries
        for sender in entry["senders"]
        for rival in entry["rivals"]
        for case in entry["cases"]
    }


def vectors(module: Path) -> list[str]:
    """The test vectors that a source file holds its sender to."""
    found = set(re.findall(r"\b[TN]V-[0-9]+(?:\.[0-9]+)+", module.read_text(encoding="utf-8")))
    return sorted(found, key=lambda name: [int(part) for part in re.findall(r"[0-9]+", name)])


def table(compared: list[Comparison]) -> list[str]:
    """One row per comparison; what lies outside its bounds is bold."""
    rows = [
        "| compared with | case | " + " | ".join(DIGITS) + " |",
        "| --- | --- |" + " ---: |" * len(DIGITS),
    ]
    for one in compared:
        cells = [one.rival, one.case]
        for metric, digits in DIGITS.items():
            if metric not in one.ours or metric not in one.theirs:
                cells.append("")
                continue
            text = f"{one.ours[metric]:.{digits}f} / {one.theirs[metric]:.{digits}f}"
            cells.append(f"**{text}**" if metric in one.outside() else text)
        rows.append("| " + " | ".join(cells) + " |")
    return rows


UNPAIRED = (
    "No other public implementation runs here. The evidence is its vectors, the tests of whole runs in"
    " `crates/lasthop-sim/tests/` and the conformance tests."
)

INTRODUCTION = """# Validation of every sender

Generated by `{command}`; do not edit.

For each sender: the test vectors in its source (listed in [test-vectors.md](test-vectors.md)), and, if
another simulator has the same controller, the results of both on the same network. Entries are lasthop /
the other. **Bold**: beyond the bounds (goodput 5 %, windows 10 %); the cause is below the table. Tahoe, Reno,
NewReno, SACK and Vegas also agree with ns-2 packet for packet and over the statistical grid of
[validation-ns2.md](validation-ns2.md).

Network: 10 Mbit/s, 40 ms RTT, buffer of 50 packets, segments of 1000 B, 60 s, windows from 10 s on. Listed
losses are these data packets of the path:
{listed}.
Dumbbell: that of paper 004, ten flows, one packet in a hundred lost. Random cases are means of
{runs} runs a side. TFRC in the `ns2` profile is compared with ns-2's `Agent/TFRC` packet for packet
(`tests/differential/test_tfrc.py`).

- lasthop {version}, {ns2}, {ns3}
- Python {python}, {machine}
- {date}
"""


def page(compared: list[Comparison], causes: Mapping[str, str]) -> str:
    """Write the generated reference page."""
    introduction = INTRODUCTION.format(
        command=COMMAND,
        listed=", ".join(str(packet) for packet in LISTED["packets"]),
        runs=len(RUNS),
        version=_native.__version__,
        ns2=ns2.version(),
        ns3=ns3.version(),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
    )
    lines = [*introduction.splitlines(), ""]
    for name, module in sorted(modules().items()):
        lines += [f"## {name}", ""]
        known = vectors(module)
        text = f"Vectors in `{module.relative_to(ROOT)}`: {', '.join(known) if known else 'none of its own'}."
        lines += [*textwrap.wrap(text, 110, break_on_hyphens=False), ""]
        own = [one for one in compared if one.sender == name]
        if own:
            lines += [*table(own), ""]
        else:
            lines += [*textwrap.wrap(UNPAIRED, 110, break_on_hyphens=False), ""]
        for one in own:
            if one.outside():
                cause = causes.get(one.key, "No cause on record.")
                item = f"{one.rival}, {one.case}: {cause}"
                lines += textwrap.wrap(
                    item, 110, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
                )
        if any(one.outside() for one in own):
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def modules() -> dict[str, Path]:
    """Every registered sender and the source file of its law."""
    laws = ROOT / "crates" / "lasthop-cc" / "src"
    rates = ROOT / "crates" / "lasthop-net" / "src" / "transport" / "rate"
    found: dict[str, Path] = {}
    for registry in (laws / "lib.rs", rates / "config.rs"):
        registered = re.findall(r'"([^"]+)" => ([a-z_0-9]+)::', registry.read_text(encoding="utf-8"))
        found |= {name: registry.parent / f"{module}.rs" for name, module in registered}
    return found


def main() -> int:
    """Entry point; 1 if something differs without a cause on record."""
    parser = argparse.ArgumentParser(prog="python -m validation.senders", description="Compare every sender.")
    parser.add_argument("--full", action="store_true", help="write the reference page")
    parser.add_argument("--sender", help="compare this sender only")
    arguments = parser.parse_args()
    causes = explanations()
    compared: list[Comparison] = []
    missing = 0
    for one in comparisons(arguments.sender):
        compared.append(one)
        outside = one.outside()
        figures = ", ".join(
            f"{metric} {one.ours[metric]:.{digits}f} / {one.theirs[metric]:.{digits}f}"
            for metric, digits in DIGITS.items()
            if metric in one.ours and metric in one.theirs
        )
        print(f"{'!! ' if outside else '   '}{one.key}: {figures}", flush=True)
        if outside and one.key not in causes:
            missing += 1
            print(f"   no cause on record for {', '.join(outside)}", file=sys.stderr)
    if arguments.full:
        PAGE.write_text(page(compared, causes), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
