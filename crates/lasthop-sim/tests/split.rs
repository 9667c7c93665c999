//! Split connections: two real TCP connections that share a stream, at a proxy between them.

use lasthop_core::packet::Kind;
use lasthop_net::trace::HopRecord;
use lasthop_sim::run::Run;

use crate::testkit::run_both_ways;

/// Runs it both ways and returns one of the two.
fn run(text: &str) -> Run {
    run_both_ways(text, 1)
}

/// A server, a router and a phone: 100 ms of round trip to the router, 20 ms beyond. `radio` describes the last hop.
fn path(radio: &str, flows: &str) -> String {
    format!(
        r#"
duration = "60 s"
[topology]
kind = "graph"
nodes = ["server", "router", "phone"]
[[topology.links]]
from = "server"
to = "router"
rate = "100 Mbit/s"
delay = "50 ms"
queue = {{ kind = "drop-tail", limit = "1000 packets" }}
[[topology.links]]
from = "router"
to = "phone"
rate = "100 Mbit/s"
delay = "10 ms"
queue = {{ kind = "drop-tail", limit = "1000 packets" }}
{radio}
{flows}
"#
    )
}

const DOWN: &str = "[[flows]]\nname = \"down\"\nsource = \"server\"\nsink = \"phone\"\ntransport = \"newreno\"\n\
                    start = \"0 s\"\n";
const LOSSY: &str = "error = { kind = \"bernoulli\", packet_error_rate = 0.01 }\n";

/// A split with so large a buffer that it never limits anything, and every segment acknowledged at once.
fn with_split(more: &str) -> String {
    format!(
        "{LOSSY}middleboxes = [{{ kind = \"split\", buffer = \"256 kB\", to_wireless = {}{more} }}]",
        prompt("newreno")
    )
}

/// A sender whose receiver acknowledges each segment of 1000 bytes at once.
fn prompt(preset: &str) -> String {
    format!("{{ preset = \"{preset}\", delayed_ack = false, packet_size = \"1052 B\" }}")
}

fn goodput(run: &Run) -> f64 {
    run.summary.flows[0].goodput_bit_s / 1e6
}

/// NV-5.5: a proxy's sender sees only its own 20 ms, so it reaches what a sender at the router would, and that is near
/// the law 1.22 MSS / (RTT sqrt p): six times that of 120 ms end to end. The law knows neither timeouts nor several
/// losses in a window: NewReno stays a fifth below it.
#[test]
fn each_half_has_its_own_law() {
    let down = DOWN.replace("\"newreno\"", &prompt("newreno"));
    let whole = run(&path(LOSSY, &down));
    let split = run(&path(&with_split(""), &down));
    let law = |rtt: f64| 1.22 * 8000.0 / (rtt * 0.1) / 1e6;
    let alone = run(&path(LOSSY, &down.replace("\"server\"", "\"router\"")));
    let shares =
        [goodput(&split) / law(0.0202), goodput(&alone) / law(0.0202), goodput(&whole) / law(0.1202)];
    assert!(shares.iter().all(|share| (0.78..1.0).contains(share)), "{shares:?}");
    assert!((goodput(&split) / goodput(&alone) - 1.0).abs() < 0.05, "{shares:?}");
    let row = &split.summary.flows[0];
    let proxy = row.split.as_ref().unwrap();
    // Every repair took place at the proxy: the first half has lost nothing.
    assert_eq!((row.retransmitted_packets.unwrap(), row.timeouts.unwrap()), (0, 0));
    assert!(proxy.retransmitted_packets > 200, "{proxy:?}");
    assert!(proxy.max_held_bytes <= 256_000 && proxy.avg_held_bytes > 150_000.0, "{proxy:?}");
    assert!(proxy.acked_not_delivered_bytes > 0);
    // The delay is that from the first transmission by the source: a buffer at the rate of the last hop.
    let waits = proxy.avg_held_bytes * 8.0 / row.goodput_bit_s;
    let delay = row.delay_mean_s.unwrap();
    assert!((delay - 0.05 - waits).abs() < 0.05, "{delay} of {waits}");
}

/// The window that the source sees is what is free: the proxy never holds more than its buffer, and the source follows
/// the slow half without a loss.
#[test]
fn a_slow_half_holds_the_fast_one_back() {
    let radio = "reverse = { rate = \"100 Mbit/s\", delay = \"10 ms\" }\nmiddleboxes = [{ kind = \"split\", buffer = \
        \"40 kB\" }]";
    let slow = path(radio, DOWN).replacen(
        "rate = \"100 Mbit/s\"\ndelay = \"10 ms\"",
        "rate = \"1 Mbit/s\"\ndelay = \"10 ms\"",
        1,
    );
    let run = run(&slow);
    let row = &run.summary.flows[0];
    let proxy = row.split.as_ref().unwrap();
    assert!(proxy.max_held_bytes <= 40_000, "{proxy:?}");
    assert_eq!((row.retransmitted_packets.unwrap(), proxy.retransmitted_packets), (0, 0));
    assert!(goodput(&run) > 0.9, "{}", goodput(&run));
}

fn file(bytes: &str, from: &str, to: &str, name: &str) -> String {
    format!(
        "[[flows]]\nname = \"{name}\"\nsource = \"{from}\"\nsink = \"{to}\"\ntransport = \"newreno\"\nstart = \"0 s\"\n\
         traffic = {{ kind = \"ftp\", bytes = \"{bytes}\" }}\n"
    )
}

/// Everything arrives once and in order, in both directions, over losses on both halves; the ends close.
#[test]
fn nothing_is_lost_either_way() {
    for opens in ["late", "early"] {
        let more = format!(", opens = \"{opens}\", to_wired = \"cubic\"");
        let flows = file("500 kB", "server", "phone", "down") + &file("500 kB", "phone", "server", "up");
        let wired = path(&with_split(&more), &flows).replacen(
            "queue",
            &format!("{}queue", LOSSY.replace("0.01", "0.03")),
            1,
        );
        let run = run(&wired);
        for row in &run.summary.flows {
            let proxy = row.split.as_ref().unwrap();
            assert_eq!(row.bytes_delivered, 500_000, "{opens} {}", row.name);
            assert_eq!(proxy.acked_not_delivered_bytes, 0);
            assert!(row.completion_s.is_some() && row.retransmitted_packets.unwrap() > 0, "{row:?}");
            assert!(proxy.retransmitted_packets > 0, "{proxy:?}");
        }
        let senders: Vec<&str> =
            run.summary.flows.iter().map(|row| row.split.as_ref().unwrap().transport.as_str()).collect();
        assert_eq!(senders, ["newreno", "cubic"], "one over the radio, one over the wire");
    }
}

/// A late split answers the SYN when the connection beyond is open: 100 + 20 ms after it was sent, and a packet's time
/// on four links; an early one does after 100. The source's first data leave then.
#[test]
fn a_late_split_opens_the_far_half_first() {
    let first_data = |opens: &str| {
        let more = format!(", opens = \"{opens}\"");
        let run =
            run(&path(&with_split(&more).replace("0.01", "0"), &file("10 kB", "server", "phone", "down")));
        let hop = run.recorded.hops.iter().find(|hop| hop.flow == 0 && hop.bytes > 500).unwrap();
        hop.enqueued.0 / 1_000_000
    };
    assert_eq!((first_data("late"), first_data("early")), (120, 100));
}

/// Two proxies in a row make three connections.
#[test]
fn splits_may_stand_in_a_row() {
    let text = r#"
duration = "20 s"
[topology]
kind = "graph"
nodes = ["server", "a", "b", "phone"]
[[topology.links]]
from = "server"
to = "a"
rate = "20 Mbit/s"
delay = "20 ms"
[[topology.links]]
from = "a"
to = "b"
rate = "20 Mbit/s"
delay = "20 ms"
middleboxes = ["split"]
[[topology.links]]
from = "b"
to = "phone"
rate = "20 Mbit/s"
delay = "5 ms"
middleboxes = [{ kind = "split", to_wireless = "westwood+" }]
error = { kind = "bernoulli", packet_error_rate = 0.01 }
"#;
    let run = run(&format!("{text}{}", file("2 MB", "server", "phone", "down")));
    let row = &run.summary.flows[0];
    assert_eq!((row.bytes_delivered, run.summary.flows.len()), (2_000_000, 1));
    assert_eq!(row.split.as_ref().unwrap().transport, "newreno+westwood+");
    assert!(row.completion_s.unwrap() < 6.0, "{row:?}");
}

/// A walking host: from 5 s on the phone is at another base station.
fn walk(first: &str, second: &str, transport: &str) -> String {
    format!(
        r#"
duration = "20 s"
[topology]
kind = "graph"
nodes = ["server", "core", "bs1", "bs2", "phone"]
[[topology.links]]
from = "server"
to = "core"
rate = "50 Mbit/s"
delay = "20 ms"
[[topology.links]]
from = "core"
to = "bs1"
rate = "50 Mbit/s"
delay = "2 ms"
[[topology.links]]
from = "core"
to = "bs2"
rate = "50 Mbit/s"
delay = "2 ms"
[[topology.links]]
from = "bs1"
to = "phone"
rate = "5 Mbit/s"
delay = "2 ms"
{first}
[[topology.links]]
from = "bs2"
to = "phone"
rate = "5 Mbit/s"
delay = "2 ms"
{second}
[[flows]]
name = "down"
source = "server"
sink = "phone"
transport = "{transport}"
start = "0 s"
traffic = {{ kind = "ftp", bytes = "8 MB" }}
reroute = [{{ at = "5 s", nodes = ["server", "core", "bs2", "phone"] }}]
"#
    )
}

/// The state moves with the phone: its bytes at 10 Mbit/s, and 10 ms; nothing is lost, and the file is whole.
#[test]
fn the_state_of_a_split_moves() {
    let split = "middleboxes = [{ kind = \"split\", buffer = \"64 kB\" }]";
    let run = run(&walk(split, split, "newreno"));
    let row = &run.summary.flows[0];
    let proxy = row.split.as_ref().unwrap();
    assert_eq!((row.bytes_delivered, proxy.moves), (8_000_000, 1));
    assert!(proxy.moved_bytes > 10_000, "{proxy:?}");
    let expected = proxy.moved_bytes as f64 * 8.0 / 10e6 + 0.01;
    assert!((proxy.halted_s - expected).abs() < 1e-9, "{} of {expected}", proxy.halted_s);
    // What the proxy sends goes from the new station on as soon as its state is there.
    let halt = 5.0 + proxy.halted_s;
    let sent: Vec<f64> = (run.recorded.hops.iter())
        .filter(|hop| hop.flow == 1 && hop.direction == 8 && hop.bytes > 500)
        .map(|hop| hop.enqueued.seconds())
        .collect();
    assert!(sent.iter().all(|&at| at >= halt), "{halt}: {:?}", sent.first());
    assert!(sent.len() > 1000);
}

/// Over a cell of IEEE 802.11 the proxy stands at the access point, at the end of the wire: its sender to the stations
/// is the wireless one.
#[test]
fn a_split_stands_at_an_access_point() {
    let text = r#"
duration = "10 s"
[topology]
kind = "wlan"
wire = { rate = "100 Mbit/s", delay = "20 ms", middleboxes = [{ kind = "split", to_wireless = "westwood+" }] }
[[flows]]
name = "down"
direction = "reverse"
transport = "newreno"
traffic = { kind = "ftp", bytes = "500 kB" }
[[flows]]
name = "up"
transport = "newreno"
traffic = { kind = "ftp", bytes = "500 kB" }
"#;
    let run = run(text);
    let rows = &run.summary.flows;
    assert!(rows.iter().all(|row| row.bytes_delivered == 500_000), "{rows:?}");
    let senders: Vec<&str> = rows.iter().map(|row| row.split.as_ref().unwrap().transport.as_str()).collect();
    assert_eq!(senders, ["westwood+", "newreno"]);
}

/// The second half queues like everybody else: under FQ-CoDel each half of each connection has a queue of its own.
#[test]
fn a_split_goes_with_fq_codel() {
    let queue = "queue = \"fq-codel\"\nmiddleboxes = [\"split\"]\n";
    let base = path("", "").replace("queue = { kind = \"drop-tail\", limit = \"1000 packets\" }\n\n", queue);
    let text = base.replacen("\"100 Mbit/s\"\ndelay = \"10 ms\"", "\"10 Mbit/s\"\ndelay = \"10 ms\"", 1);
    let run = run(&(text + &DOWN.replace("start", "count = 4\nstart")));
    let shares: Vec<f64> = run.summary.flows.iter().map(|row| row.goodput_bit_s / 1e6).collect();
    assert!(shares.iter().all(|share| (share - 2.3).abs() < 0.3), "{shares:?}");
    assert!(run.summary.links[2].drops["early-drop"] > 0, "{:?}", run.summary.links[2].drops);
}

/// A proxy whose state does not move knows nothing of the connection: whatever comes is answered by a RST, and both
/// ends hear that it is over. What it held is lost, and the results say so.
#[test]
fn the_state_of_a_split_may_be_lost() {
    let split = "middleboxes = [{ kind = \"split\", buffer = \"64 kB\", handoff = \"lose\" }]";
    let run = run(&walk(split, split, "newreno"));
    let row = &run.summary.flows[0];
    let proxy = row.split.as_ref().unwrap();
    assert_eq!((proxy.moves, proxy.resets, proxy.halted_s), (0, 1, 0.0));
    assert!(proxy.lost_bytes > 10_000 && row.bytes_delivered < 4_000_000, "{proxy:?}");
    assert!(proxy.acked_not_delivered_bytes > 0 && row.completion_s.is_none(), "{row:?}");
    // The source hears of it within a round trip of 44 ms and what waits at the station.
    let heard = row.reset_s.unwrap();
    assert!((5.0..5.3).contains(&heard), "{heard}");
    let resets: Vec<(u32, bool)> = (run.recorded.hops.iter())
        .filter(|hop| hop.kind == Kind::Reset)
        .map(|hop| (hop.flow, hop.back))
        .collect();
    assert!(resets.contains(&(0, true)), "to the source: {resets:?}");
    assert!(resets.contains(&(1, false)), "to the phone, whose ACKs were under way: {resets:?}");
    let last = run.recorded.hops.iter().map(|hop| hop.enqueued.seconds()).fold(0.0, f64::max);
    assert!(last < 6.0, "no host sends any more: {last}");
}

/// The phone is gone for good at 10 s. The proxy gives it up and resets the wired half; the source hears of it, and
/// knows data to be acknowledged that never arrived. Without patience nothing ends.
#[test]
fn a_host_that_dies_takes_the_connection_with_it() {
    let dies = "handoff = { at = [\"10 s\"], outage = \"50 s\" }\n";
    let text = |give_up: &str| {
        let sender = format!("{{ preset = \"newreno\"{give_up} }}");
        let split = format!("middleboxes = [{{ kind = \"split\", to_wireless = {sender} }}]");
        path(&format!("{dies}{split}"), DOWN)
    };
    let ended = run(&text(", give_up = 3"));
    let row = &ended.summary.flows[0];
    let proxy = row.split.as_ref().unwrap();
    // Timeouts after 1, 2, 4 and 8 s: the fourth is one too many. Half a round trip later the source hears of it.
    let heard = row.reset_s.unwrap();
    assert!((25.0..25.5).contains(&heard), "{heard}");
    assert_eq!((proxy.resets, proxy.timeouts), (1, 3));
    assert!(proxy.acked_not_delivered_bytes > 10_000, "{proxy:?}");
    let goes_on = run(&text(""));
    assert_eq!(goes_on.summary.flows[0].reset_s, None);
    assert_eq!(goes_on.summary.flows[0].split.as_ref().unwrap().resets, 0);
}

/// The other way round: the server is gone. A phone that sends up is told by the proxy, and a server that gives up
/// tells the phone through it.
#[test]
fn a_reset_goes_through_a_proxy() {
    let gone = "handoff = { at = [\"10 s\"], outage = \"50 s\" }\n";
    let wired = |text: String| text.replacen("queue", &format!("{gone}queue"), 1);
    let split = "middleboxes = [{ kind = \"split\", to_wired = { preset = \"newreno\", give_up = 2 } }]";
    let up = DOWN.replace("source = \"server\"\nsink = \"phone\"", "source = \"phone\"\nsink = \"server\"");
    let row = &run(&wired(path(split, &up))).summary.flows[0];
    // 1, 2 and 4 s.
    assert!((17.0..18.0).contains(&row.reset_s.unwrap()), "{row:?}");
    let down = DOWN.replace("\"newreno\"", "{ preset = \"newreno\", give_up = 2 }");
    let row = run(&wired(path(split, &down)));
    let flow = &row.summary.flows[0];
    assert!((17.0..18.0).contains(&flow.reset_s.unwrap()), "{flow:?}");
    // Its RST dies in the outage: the proxy never hears of it, as on a real path.
    assert_eq!(flow.split.as_ref().unwrap().resets, 0);
}

/// M-TCP: while the radio is down the source may send nothing; it repeats nothing, and goes on at once.
#[test]
fn a_closed_window_spares_the_wired_half() {
    let radio = |more: &str| {
        format!(
            "handoff = {{ at = [\"10 s\"], outage = \"3 s\", warning = \"50 ms\" }}\n\
             middleboxes = [{{ kind = \"split\", buffer = \"2 MB\"{more} }}]"
        )
    };
    // The wire is the slower half, so that the proxy's buffer never closes the window.
    let slow = |text: String| {
        let text = text.replacen("rate = \"100 Mbit/s\"", "rate = \"4 Mbit/s\"", 1);
        text.replacen("rate = \"100 Mbit/s\"", "rate = \"6 Mbit/s\"", 1)
    };
    let down = DOWN.replace("\"newreno\"", "{ preset = \"newreno\", initial_ssthresh = \"60 packets\" }");
    let open = run(&slow(path(&radio(""), &down)));
    let closed = run(&slow(path(&radio(", zero_windows = true"), &down)));
    let count = |run: &Run, is_meant: &dyn Fn(&HopRecord) -> bool| {
        run.recorded.hops.iter().filter(|hop| hop.flow == 0 && is_meant(hop)).count()
    };
    let zero = |run: &Run| count(run, &|hop| hop.back && hop.window == 0);
    assert_eq!(zero(&open), 0);
    assert!(zero(&closed) > 0);
    // Nothing but probes of the closed window leave the server between.
    let sent = |run: &Run| count(run, &|hop| !hop.back && (10.1..13.0).contains(&hop.enqueued.seconds()));
    assert!(sent(&closed) <= 5 && sent(&open) > 500, "{} {}", sent(&closed), sent(&open));
    let held = |run: &Run| run.summary.flows[0].split.as_ref().unwrap().max_held_bytes;
    assert!(held(&closed) < held(&open) / 4, "{} {}", held(&closed), held(&open));
    assert_eq!(
        (closed.summary.flows[0].timeouts.unwrap(), closed.summary.flows[0].retransmitted_packets.unwrap()),
        (0, 0)
    );
}

/// A host that chooses its access point as it walks: the state goes with it, and the file is whole.
#[test]
fn a_split_follows_a_host_that_roams() {
    let text = |handoff: &str| {
        format!(
            r#"
duration = "40 s"
helpers = [{{ kind = "split", handoff = "{handoff}" }}]
[topology]
kind = "graph"
nodes = ["server", "core", "west", "east", "walker"]
[[topology.links]]
from = "server"
to = "core"
rate = "100 Mbit/s"
delay = "10 ms"
[[topology.links]]
from = "core"
to = "west"
rate = "100 Mbit/s"
delay = "2 ms"
[[topology.links]]
from = "core"
to = "east"
rate = "100 Mbit/s"
delay = "2 ms"
[[topology.cells]]
access_point = "west"
position = [0, 0]
channel = 1
[[topology.cells.stations]]
node = "walker"
position = [50, 10]
track = [{{ at = "20 s", position = [150, 10] }}, {{ at = "40 s", position = [50, 10] }}]
[[topology.cells]]
access_point = "east"
position = [200, 0]
channel = 6
[[topology.cells.stations]]
node = "walker"
position = [50, 10]
track = [{{ at = "20 s", position = [150, 10] }}, {{ at = "40 s", position = [50, 10] }}]
[[topology.roaming]]
host = "walker"
by = {{ kind = "strongest", hysteresis = 3 }}
delay = "50 ms"
queue = "forward"
[[flows]]
name = "down"
source = "server"
sink = "walker"
transport = "newreno"
traffic = {{ kind = "ftp", bytes = "15 MB" }}
[[flows]]
name = "up"
source = "walker"
sink = "server"
transport = "newreno"
traffic = {{ kind = "ftp", bytes = "500 kB" }}
"#
        )
    };
    let moved = run(&text("move"));
    for row in &moved.summary.flows {
        assert!(row.completion_s.is_some() && row.reset_s.is_none(), "{row:?}");
    }
    let proxy = moved.summary.flows[0].split.as_ref().unwrap();
    assert_eq!((proxy.moves, moved.summary.flows[0].bytes_delivered), (2, 15_000_000));
    assert!(proxy.moved_bytes > 10_000 && proxy.acked_not_delivered_bytes == 0, "{proxy:?}");
    let lost = run(&text("lose"));
    let row = &lost.summary.flows[0];
    assert!(row.reset_s.is_some() && row.bytes_delivered < 15_000_000, "{row:?}");
    assert_eq!(row.split.as_ref().unwrap().resets, 1);
}
