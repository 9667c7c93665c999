"""Runs a lasthop scenario in ns-2.35: writes the Tcl script, starts `ns`, reads its output into frames.

`trace_packets` records every packet and window change at full precision (slow, for deterministic cases);
`count_totals` reads counters at the end (fast, for random runs). Called by the differential
tests, `validation.statistics` and `bench/run.py`.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from validation import process
from validation.network import Direction, Flow, Network, Red, Scenario, UnsupportedError, read

_AGENTS = {
    "tahoe": "Agent/TCP",
    "reno": "Agent/TCP/Reno",
    "newreno": "Agent/TCP/Newreno",
    "sack": "Agent/TCP/Sack1",
    "vegas": "Agent/TCP/Vegas",
}

# A queue does not count what it marks; its trace shows the mark (E among the flags) of each
# packet that arrives at the far end.
_MARKS = """
proc mark {link line} {
    global marked
    if {[lindex $line 0] eq "r" && [string match *E* [lindex $line 6]]} { incr marked($link) }
}
"""

#: Seed of the default generator in deterministic runs; any will do.
CLOCK_SEED = 1_234_567

# A packet of ns-2 carries every header that is known at the start; each one left out makes it smaller and
# faster.
FAST_SETTING = "remove-all-packet-headers\nadd-packet-header IP TCP Flags\n"

# The phase of an agent's tick clock cannot be read, but it is the one number that the reset of an agent draws
# from the default generator. Every agent is reset once more before anything happens, and a second generator
# with the same seed tells what was drawn.
_CLOCK_PHASE = """
proc clock_phases {seed ticks} {
    global defaultRNG out tcp
    $defaultRNG seed $seed
    set probe [new RNG]
    $probe seed $seed
    for {set i 0} {$i < [llength $ticks]} {incr i} {
        $tcp($i) reset
        puts $out "c $i [expr {[$probe uniform 0 1] * [lindex $ticks $i]}]"
    }
}
"""

# ns-2 rounds the times of its own traces to 1 us, and its variable traces to six digits. Its trace objects
# can call a Tcl procedure instead; "$ns now" and reading a variable give all digits. The window is read by
# an event at the same time, which runs after the agent has dealt with the packet.
_PACKET_LOG = """
proc packet {link line} {
    global ns out watch
    set line [string trim $line]
    puts $out "p [$ns now] $link $line"
    set key "$link[string index $line 0]"
    if {[info exists watch($key)]} {
        foreach flow $watch($key) { $ns at [$ns now] "window $flow" }
    }
}
proc window {flow} {
    global ns out tcp
    set t $tcp($flow)
    set ticks "[$t set srtt_] [$t set rttvar_] [$t set backoff_]"
    puts $out "w [$ns now] $flow [$t set cwnd_] [$t set ssthresh_] [$t set awnd_] [$t set dupacks_] $ticks"
}
"""


class FailedError(Exception):
    """ns-2 is missing, stopped with an error, or printed something unexpected."""


@dataclass(frozen=True)
class PacketTrace:
    """What happened to every packet. Times are in seconds; `seq` and `ack` count bytes as lasthop does."""

    hops: pl.DataFrame
    windows: pl.DataFrame
    #: Phase of the tick clock of each flow.
    clock_phases_s: tuple[float, ...]
    script: str


@dataclass(frozen=True)
class Totals:
    """Counters of one run, per flow and per link direction, in the order of the network."""

    flows: pl.DataFrame
    links: pl.DataFrame


def version() -> str:
    """Version of the installed ns-2; its Debian package tells it, `ns` itself only in a script."""
    if shutil.which("ns") is None:
        return "not installed"
    lines, _ = run("puts [ns-version]\nputs end\nexit 0\n")
    query = ["dpkg-query", "-W", "-f=Debian package ${Version}", "ns2"]
    package = (
        subprocess.run(query, capture_output=True, text=True, check=False) if shutil.which(query[0]) else None
    )
    return f"ns-{lines[0]}" + (
        f" ({package.stdout})" if package is not None and package.returncode == 0 else ""
    )


def trace_packets(scenario: Scenario) -> PacketTrace:
    """Run a deterministic scenario and keep every packet."""
    network = read(scenario)
    script = packet_script(network)
    return _read_trace(network, script, run(script)[0])


def count_totals(scenario: Scenario, substream: int) -> Totals:
    """Run a random scenario on its own substream of ns-2's generators and keep the counters."""
    network = read(scenario)
    return _read_totals(network, run(totals_script(network, substream))[0])


def run(script: str, timeout_s: float = 600.0) -> tuple[list[str], process.Resources]:
    """Start `ns` on `script`; returns the lines of its output and what it cost."""
    binary = shutil.which("ns")
    if binary is None:
        raise FailedError("ns-2 is not installed: apt-get install ns2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scenario.tcl")
        path.write_text(script)
        try:
            output, resources = process.run([binary, str(path)], timeout_s)
        except process.ProcessError as error:
            raise FailedError(str(error)) from error
    lines = output.splitlines()
    # `ns` ends with status 0 after most errors; the scripts here print this line when they reach their end.
    # What some agents print through a buffer of their own may come after it.
    if "end" not in lines:
        raise FailedError("ns-2 failed:\n" + "\n".join(lines[-20:]))
    return lines[: lines.index("end")], resources


# ----------------------------------------------------------------------------------------------------
# Writing the script


def packet_script(network: Network) -> str:
    """The script that logs every packet and window change."""
    if any(flow.start_s[0] != flow.start_s[1] for flow in network.flows):
        raise UnsupportedError("a random start is not deterministic")
    if network.processing_s:
        raise UnsupportedError("a random processing time is not deterministic")
    lines = ["set out stdout", _CLOCK_PHASE, _PACKET_LOG, "set ns [new Simulator]"]
    lines.append("Agent/TCP set windowThresh_ 1.0")
    lines += topology(network)
    for number, direction in enumerate(network.directions):
        lines.append(f"{_link(network, direction)} trace-callback $ns {{packet {number}}}")
    # After the trace objects, so that a packet lost before the queue is not logged as enqueued.
    lines += errors(network, substream=None)
    ticks = " ".join(str(flow.tcp.tick_s) for flow in network.flows)
    lines.append(f'$ns at 0.0 "clock_phases {CLOCK_SEED} {{{ticks}}}"')
    for index, flow in enumerate(network.flows):
        lines += tcp_agent(network, index, flow)
        lines += traffic(network, index, flow, f"{flow.start_s[0]}")
        for number, direction in enumerate(network.directions):
            if direction.target == flow.source:
                lines.append(f"lappend watch({number}r) {index}")
            if direction.source == flow.source:
                lines.append(f"lappend watch({number}+) {index}")
    lines.append(f'$ns at {network.duration_s} "puts end; exit 0"')
    lines.append("$ns run")
    return "\n".join(lines) + "\n"


def totals_script(network: Network, substream: int) -> str:
    """The script that prints counters at the end."""
    # Seeds 1, 2, 3.. of ns-2's generator give correlated runs; substreams do not.
    lines = ["set out stdout", FAST_SETTING, _MARKS, "set ns [new Simulator]"]
    lines.append(f"for {{set i 0}} {{$i < {substream}}} {{incr i}} {{ $defaultRNG next-substream }}")
    lines += topology(network)
    for number, direction in enumerate(network.directions):
        lines.append(f'set monitor({number}) [$ns monitor-queue {_ends(network, direction)} ""]')
        lines.append(f"set marked({number}) 0")
        if direction.red is not None and direction.red.ecn:
            lines.append(f"{_link(network, direction)} trace-callback $ns {{mark {number}}}")
    lines += errors(network, substream)
    lines.append(f"Agent/TCP set overhead_ {_number(network.processing_s)}")
    lines.append(_generator("start_rng", substream))
    for number, flow in enumerate(network.flows):
        lines += tcp_agent(network, number, flow)
        low, high = flow.start_s
        lines += traffic(
            network, number, flow, f"{low}" if low == high else f"[$start_rng uniform {low} {high}]"
        )
    lines.append(_finish(network))
    lines.append(f'$ns at {network.duration_s} "finish"')
    lines.append("$ns run")
    return "\n".join(lines) + "\n"


def fast_script(network: Network, *, hops: bool, routes: bool) -> str:
    """The script for timing: no traces, few headers; with `hops` it counts transmissions instead.

    `routes` writes the routes of a dumbbell by hand: ns-2's own computation needs time and memory quadratic
    in the number of nodes and gives the same packets.
    """
    lines = ["set out stdout", FAST_SETTING, "set ns [new Simulator]"]
    if routes:
        lines.append("$ns rtproto Manual")
    lines += topology(network)
    if routes:
        lines += _manual_routes(network)
    if hops:
        for number, direction in enumerate(network.directions):
            lines.append(f'set monitor({number}) [$ns monitor-queue {_ends(network, direction)} ""]')
    lines += errors(network, substream=0)
    lines.append(_generator("start_rng", 0))
    for number, flow in enumerate(network.flows):
        lines += tcp_agent(network, number, flow)
        low, high = flow.start_s
        lines += traffic(
            network, number, flow, f"{low}" if low == high else f"[$start_rng uniform {low} {high}]"
        )
    lines.append(_finish(network) if hops else "proc finish {} { puts end; exit 0 }")
    lines.append(f'$ns at {network.duration_s} "finish"')
    lines.append("$ns run")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """A number as Tcl reads it: whole numbers without a point."""
    return str(int(value)) if value == int(value) else repr(value)


def _node(network: Network, name: str) -> str:
    return f"$node({network.nodes.index(name)})"


def _ends(network: Network, direction: Direction) -> str:
    return f"{_node(network, direction.source)} {_node(network, direction.target)}"


def _link(network: Network, direction: Direction) -> str:
    return f"[$ns link {_ends(network, direction)}]"


def topology(network: Network) -> list[str]:
    """Nodes and links."""
    pairs = [(direction.source, direction.target) for direction in network.directions]
    if len(set(pairs)) != len(pairs):
        raise UnsupportedError("ns-2 has one link between two nodes")
    lines = [f"for {{set i 0}} {{$i < {len(network.nodes)}}} {{incr i}} {{ set node($i) [$ns node] }}"]
    for direction in network.directions:
        ends = _ends(network, direction)
        rate, delay = _number(direction.rate_bit_s), _number(direction.delay_s)
        kind = "DropTail" if direction.red is None else "RED"
        lines.append(f"$ns simplex-link {ends} {rate} {delay} {kind}")
        lines.append(f"$ns queue-limit {ends} {direction.queue_packets}")
        if direction.red is not None:
            lines += _red(ends, direction.red)
    return lines


def _red(ends: str, red: Red) -> list[str]:
    """The settings of a RED queue, which takes them over when the run begins. Zero and -1 are automatic."""
    settings = {
        "bytes_": int(red.in_bytes),
        "queue_in_bytes_": int(red.in_bytes),
        "mean_pktsize_": red.mean_packet,
        "thresh_": red.min_th or 0,
        "maxthresh_": red.max_th or 0,
        "q_weight_": -1 if red.w_q is None else red.w_q,
        "linterm_": 1.0 / red.max_p,
        "gentle_": int(red.gentle),
        "wait_": int(red.wait),
        "setbit_": int(red.ecn),
        "mark_p_": red.mark_p,
        "use_mark_p_": int(red.use_mark_p),
        "adaptive_": int(red.adaptive),
    }
    queue = f"[[$ns link {ends}] queue]"
    return [f"{queue} set {name} {_number(value)}" for name, value in settings.items()]


def _manual_routes(network: Network) -> list[str]:
    """Every node but the two in the middle has one neighbour; the middle ones know theirs and each other."""
    lines = []
    for name in network.nodes:
        neighbours = [direction.target for direction in network.directions if direction.source == name]
        module = f"[{_node(network, name)} get-module Manual]"
        inner = {"left", "right"} & set(neighbours) if len(neighbours) > 1 else set(neighbours)
        lines += [f"{module} add-route-to-adj-node -default {_node(network, hop)}" for hop in sorted(inner)]
        for hop in neighbours:
            lines.append(f"{module} add-route-to-adj-node {_node(network, hop)}")
    return lines


def _generator(name: str, substream: int) -> str:
    """A generator of its own (ns-2 gives each the next stream), moved to the substream of the run."""
    return (
        f"set {name} [new RNG]; for {{set i 0}} {{$i < {substream}}} {{incr i}} {{ ${name} next-substream }}"
    )


def errors(network: Network, substream: int | None) -> list[str]:
    """Error models and outages of every direction."""
    lines: list[str] = []
    for number, direction in enumerate(network.directions):
        model = direction.error
        if model is None and not direction.outages:
            continue
        before_queue = model is not None and model.before_queue
        rate = 0.0 if model is None else model.packet_error_rate
        name = f"error({number})"
        if model is not None and model.packets:
            if direction.outages:
                raise UnsupportedError("a list of lost packets together with handoffs")
            lines.append(f"set {name} [new ErrorModel/List]; ${name} unit pkt")
            lines.append(f"${name} droplist {{{' '.join(str(packet) for packet in sorted(model.packets))}}}")
        else:
            if substream is None and 0.0 < rate < 1.0:
                raise UnsupportedError("random losses are not deterministic")
            lines.append(f"set {name} [new ErrorModel]; ${name} unit pkt; ${name} set rate_ {rate}")
            lines.append(_generator(f"error_rng({number})", substream or 0))
            lines.append(f"set uniform({number}) [new RandomVariable/Uniform]")
            lines.append(
                f"$uniform({number}) use-rng $error_rng({number}); ${name} ranvar $uniform({number})"
            )
        # A handoff is a time in which every packet is lost in the air; ns-2 judges a packet when it would
        # arrive.
        for start, length in direction.outages:
            lines.append(f'$ns at {start} "${name} set rate_ 1.0"')
            lines.append(f'$ns at {start + length} "${name} set rate_ {rate}"')
        command = "lossmodel" if before_queue else "link-lossmodel"
        lines.append(f"$ns {command} ${name} {_ends(network, direction)}")
    return lines


def tcp_agent(network: Network, number: int, flow: Flow) -> list[str]:
    """Both ends of a flow.

    An agent reads most settings when it is made, so they are set on the class first.
    """
    tcp = flow.tcp
    settings = {
        "window_": tcp.receiver_window,
        "windowInit_": tcp.initial_window,
        "packetSize_": tcp.packet_size,
        "minrto_": tcp.rto_min_s,
        "maxrto_": tcp.rto_max_s,
        "rtxcur_init_": tcp.rto_initial_s,
        "tcpTick_": tcp.tick_s,
        "timestamps_": int(tcp.timestamps),
        "singledup_": int(tcp.limited_transmit),
        "numdupacks_": tcp.dup_threshold,
        "control_increase_": int(not tcp.grow_when_limited_elsewhere),
        "ecn_": int(tcp.ecn),
    }
    lines = [f"Agent/TCP set {name} {_number(value)}" for name, value in settings.items()]
    if tcp.sender == "vegas":
        names = ("alpha", "beta", "gamma")
        lines += [f"Agent/TCP/Vegas set v_{name}_ {_number(getattr(tcp, name))}" for name in names]
    sink = "Agent/TCPSink"
    if tcp.sender == "sack":
        sink += "/Sack1"
        lines.append(f"Agent/TCPSink set maxSackBlocks_ {tcp.sack_blocks}")
        lines.append(f"Agent/TCPSink set generateDSacks_ {int(tcp.dsack)}")
    if tcp.delayed_ack_s is not None:
        sink += "/DelAck"
        lines.append(f"{sink} set interval_ {_number(tcp.delayed_ack_s)}")
    lines.append(f"set tcp({number}) [new {_AGENTS[tcp.sender]}]; set sink({number}) [new {sink}]")
    lines.append(f"$tcp({number}) set fid_ {number}")
    lines.append(f"$ns attach-agent {_node(network, flow.source)} $tcp({number})")
    lines.append(f"$ns attach-agent {_node(network, flow.sink)} $sink({number})")
    lines.append(f"$ns connect $tcp({number}) $sink({number})")
    return lines


def traffic(network: Network, number: int, flow: Flow, start: str) -> list[str]:
    """The application of a flow."""
    if flow.writes is not None:
        return _paced(network, number, flow, start)
    if flow.bytes is not None:
        return [f'$ns at {start} "$tcp({number}) advanceby {_packets(flow, flow.bytes, opens=True)}"']
    lines = [f"set ftp({number}) [new Application/FTP]; $ftp({number}) attach-agent $tcp({number})"]
    lines.append(f'$ns at {start} "$ftp({number}) start"')
    if flow.stop_s is not None:
        lines.append(f'$ns at {flow.stop_s} "$ftp({number}) stop"')
    return lines


def _paced(network: Network, number: int, flow: Flow, start: str) -> list[str]:
    """Writes at regular intervals, each a whole number of packets: ns-2 counts nothing else."""
    writes = flow.writes
    if writes is None:
        return []
    end = network.duration_s if flow.stop_s is None else flow.stop_s
    most = math.inf if flow.bytes is None else flow.bytes / writes.bytes
    lines = [f"set start({number}) {start}"]
    for count in range(round(min(most, end / writes.interval_s + 1))):
        later = float(count * writes.interval_s)
        packets = _packets(flow, writes.bytes, opens=count == 0)
        lines.append(f'$ns at [expr {{$start({number}) + {later!r}}}] "$tcp({number}) advanceby {packets}"')
    return lines


def _packets(flow: Flow, size: int, *, opens: bool) -> int:
    """What to tell ns-2 for `size` bytes: its Vegas takes the first packet written for the SYN."""
    if size % flow.tcp.packet_size:
        raise UnsupportedError(f"{size} B are no whole number of packets")
    return size // flow.tcp.packet_size + (opens and flow.tcp.sender == "vegas")


def _finish(network: Network) -> str:
    """Prints the counters of every flow and direction."""
    return f"""
proc finish {{}} {{
    global ns out tcp sink monitor marked
    for {{set i 0}} {{$i < {len(network.flows)}}} {{incr i}} {{
        set t $tcp($i)
        set counts "[$t set nrexmitpack_] [$t set nrexmit_] [$t set ndatapack_]"
        puts $out "f $i [$sink($i) set bytes_] $counts"
    }}
    for {{set i 0}} {{$i < {len(network.directions)}}} {{incr i}} {{
        set m $monitor($i)
        set integral [$m get-pkts-integrator]
        $integral newpoint [$ns now] [$m set pkts_]
        set marks [expr {{[info exists marked($i)] ? $marked($i) : 0}}]
        puts $out "l $i [$integral set sum_] [$m set pdepartures_] [$m set pdrops_] $marks"
    }}
    puts $out end
    exit 0
}}
"""


# ----------------------------------------------------------------------------------------------------
# Reading the output


def _read_trace(network: Network, script: str, lines: list[str]) -> PacketTrace:
    hops: dict[tuple[int, str], dict[str, object]] = {}
    windows: list[dict[str, object]] = []
    phases: list[float] = []
    for line in lines:
        words = line.split()
        match words[0]:
            case "p":
                _note_packet(network, hops, words[1:])
            case "w":
                windows.append(
                    {
                        "time_s": float(words[1]),
                        "flow": network.flows[int(words[2])].name,
                        "cwnd_segments": float(words[3]),
                        "ssthresh_segments": float(words[4]),
                        "average_window": float(words[5]),
                        "duplicate_acks": int(words[6]),
                        "srtt_ticks": int(words[7]) / 8,
                        "rttvar_ticks": int(words[8]) / 4,
                        "backoff": int(words[9]),
                    }
                )
            case "c":
                phases.append(float(words[2]))
            case _:
                raise FailedError(f"unexpected output of ns-2: {line}")
    frame = pl.DataFrame(list(hops.values()), schema=_HOP_SCHEMA)
    return PacketTrace(
        frame, _all_digits(pl.DataFrame(windows, schema=_WINDOW_SCHEMA)), tuple(phases), script
    )


def _all_digits(windows: pl.DataFrame) -> pl.DataFrame:
    """The windows with more than the six digits that ns-2 shows of a traced variable.

    The script makes the "average window" forget everything but the window at the last new ACK, before growth.
    It is no traced variable, so it is shown with all digits: those of the window in the row before. They hold
    for all rows in which the window stays as it is.
    """
    window = pl.col("cwnd_segments")
    later = pl.col("average_window").shift(-1).over("flow")
    digits = pl.when((later / window - 1.0).abs() < 1e-5).then(later)
    unchanged = window.rle_id().over("flow").alias("unchanged")
    known = digits.max().over("flow", "unchanged")
    return (
        windows.with_columns(unchanged)
        .with_columns(pl.coalesce(known, window).alias("cwnd_segments"))
        .drop("average_window", "unchanged")
    )


_HOP_SCHEMA = {
    "packet": pl.Int64,
    "flow": pl.String,
    "link": pl.String,
    "kind": pl.String,
    "seq": pl.Int64,
    "ack": pl.Int64,
    "wire_bytes": pl.Int64,
    "enqueue_s": pl.Float64,
    "transmit_s": pl.Float64,
    "arrive_s": pl.Float64,
    "outcome": pl.String,
}

_WINDOW_SCHEMA = {
    "time_s": pl.Float64,
    "flow": pl.String,
    "cwnd_segments": pl.Float64,
    "ssthresh_segments": pl.Float64,
    "average_window": pl.Float64,
    "duplicate_acks": pl.Int64,
    "srtt_ticks": pl.Float64,
    "rttvar_ticks": pl.Float64,
    "backoff": pl.Int64,
}


def _note_packet(network: Network, hops: dict[tuple[int, str], dict[str, object]], words: list[str]) -> None:
    """One line of the log: time, link, then ns-2's (what, when, ends, kind, size, .., number)."""
    now, link, operation = float(words[0]), int(words[1]), words[2]
    kind, size, flow = words[6], int(words[7]), network.flows[int(words[9])]
    number, uid = int(words[12]), words[13]
    row = hops.get((link, uid))
    if row is None:
        payload = flow.tcp.packet_size
        # Packet 0 is the SYN, packet k the k-th segment; an ACK names the last packet that arrived in order.
        sent = kind == "tcp"
        row = hops[(link, uid)] = {
            "packet": int(uid),
            "flow": flow.name,
            "link": network.directions[link].link,
            "kind": ("syn" if number == 0 else "data") if sent else ("syn-ack" if number == 0 else "ack"),
            "seq": (0 if number == 0 else 1 + (number - 1) * payload) if sent else 0,
            "ack": 0 if sent else 1 + number * payload,
            "wire_bytes": size,
            "enqueue_s": now,
            "transmit_s": None,
            "arrive_s": None,
            "outcome": "in-flight",
        }
    match operation:
        case "-":
            row["transmit_s"] = now
        case "r":
            row["arrive_s"], row["outcome"] = now, "delivered"
        case "d":
            model = network.directions[link].error
            in_queue = row["transmit_s"] is None and not (model is not None and model.before_queue)
            row["outcome"] = "queue-overflow" if in_queue else "channel-error"


def _read_totals(network: Network, lines: list[str]) -> Totals:
    flows, links = [], []
    for line in lines:
        words = line.split()
        if words[0] == "f":
            flow = network.flows[int(words[1])]
            flows.append(
                {
                    "flow": flow.name,
                    "goodput_bit_s": 8 * payload_bytes(flow, int(words[2])) / network.duration_s,
                    "retransmitted_packets": int(words[3]),
                    "timeouts": int(words[4]),
                    "packets_sent": int(words[5]),
                }
            )
        elif words[0] == "l":
            links.append(
                {
                    "link": network.directions[int(words[1])].link,
                    "avg_queue_packets": float(words[2]) / network.duration_s,
                    "packets_sent": int(words[3]),
                    "drops": int(words[4]),
                    "marks": int(words[5]),
                }
            )
        else:
            raise FailedError(f"unexpected output of ns-2: {line}")
    return Totals(pl.DataFrame(flows), pl.DataFrame(links))


def payload_bytes(flow: Flow, wire_bytes: int) -> int:
    """Payload in the bytes that a sink counted: it adds up wire sizes in order, the SYN included.

    Vegas forgets its headers: a segment and the SYN are as long as the payload.
    """
    payload = flow.tcp.packet_size
    if flow.tcp.sender == "vegas":
        return max(wire_bytes - payload, 0)
    segment = payload + 40 + (10 if flow.tcp.timestamps else 0)
    return max(wire_bytes - 40, 0) // segment * payload
