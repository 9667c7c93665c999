//! Devices in a path: queues that decide at departure, middleboxes, routes and rates that change, and the equivalence
//! of eager and clocked evaluation.

use lasthop_core::time::{Span, Time};
use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, Scene, TRACE, hops, plan_of, recorded_both_ways, run_both_ways};

/// Runs it both ways and returns one of the two.
fn run(text: &str) -> Run {
    run_both_ways(text, 1)
}

/// A server, a router and a phone; `link` describes the last hop.
fn last_hop(link: &str, flows: &str) -> String {
    format!(
        r#"
duration = "30 s"
[topology]
kind = "graph"
nodes = ["server", "router", "phone"]
[[topology.links]]
from = "server"
to = "router"
rate = "100 Mbit/s"
delay = "20 ms"
[[topology.links]]
from = "router"
to = "phone"
rate = "10 Mbit/s"
delay = "5 ms"
{link}
{flows}
"#
    )
}

fn flow(transport: &str, more: &str) -> String {
    format!(
        "[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"{transport}\"\nstart = \"0 s\"\n{more}\n"
    )
}

fn mbit(run: &Run) -> f64 {
    run.summary.totals.goodput_bit_s / 1e6
}

/// A deep buffer fills with CUBIC; CoDel keeps the delay near its target at almost the same goodput.
#[test]
fn codel_keeps_the_queue_short() {
    let deep = "queue = { kind = \"drop-tail\", limit = \"1000 packets\" }";
    let bloated = run(&last_hop(deep, &flow("cubic", "")));
    let controlled = run(&last_hop("queue = \"codel\"", &flow("cubic", "")));
    let delay = |run: &Run| run.summary.flows[0].delay_p50_s.unwrap();
    assert!(delay(&bloated) > 0.25, "{}", delay(&bloated));
    assert!(delay(&controlled) < 0.04, "{}", delay(&controlled));
    assert!(mbit(&controlled) > 0.9 * mbit(&bloated), "{} of {}", mbit(&controlled), mbit(&bloated));
    let radio = &controlled.summary.links[2];
    assert!(radio.drops["early-drop"] > 0 && radio.drops["queue-overflow"] == 0, "{:?}", radio.drops);
}

/// ECN-capable packets are marked instead, and nothing is lost.
#[test]
fn codel_marks_who_can_be_marked() {
    let run = run(&last_hop("queue = \"codel\"", &flow("e-newreno", "")));
    let radio = &run.summary.links[2];
    assert!(radio.marks > 0 && radio.drops.values().sum::<u64>() == 0, "{radio:?}");
    assert_eq!(run.summary.totals.retransmitted_packets.unwrap(), 0);
}

/// CoDel under retransmission by the link, with outages, errors and two-way traffic: the ledger balances.
#[test]
fn codel_goes_with_arq() {
    let link = "queue = \"codel\"\narq = {}\nerror = { kind = \"bernoulli\", packet_error_rate = 0.05 }\n\
                handoff = { count = 3, outage = \"0.3 s\" }";
    let back = "[[flows]]\nsource = \"phone\"\nsink = \"server\"\ntransport = \"reno\"\n";
    let run = run(&last_hop(link, &(flow("cubic", "") + back)));
    assert!(run.summary.links[2].drops["early-drop"] > 0);
    assert!(mbit(&run) > 5.0, "{}", mbit(&run));
}

/// FQ-CoDel: a call beside five greedy flows does not wait behind them, and they get equal shares although one has a
/// longer way.
#[test]
fn fq_codel_keeps_flows_apart() {
    let call = flow(
        "udp",
        "traffic = { kind = \"cbr\", rate = \"64 kbit/s\", packet = \"160 B\" }\nname = \"call\"",
    );
    let greedy = flow("cubic", "count = 4\nname = \"bulk\"") + &flow("bbr", "name = \"bbr\"") + &call;
    let together = run(&last_hop("queue = { kind = \"drop-tail\", limit = \"1000 packets\" }", &greedy));
    // With seed 1 two of the six share one of the 1024 queues, as happens once in seventy runs.
    let apart = run_both_ways(&last_hop("queue = \"fq-codel\"", &greedy), 2);
    let delay = |run: &Run| run.summary.flows[5].delay_p50_s.unwrap();
    assert!(delay(&together) > 0.2, "{}", delay(&together));
    // 25 ms of the way, and at most a packet of 1500 B in service.
    assert!(delay(&apart) < 0.028, "{}", delay(&apart));
    assert_eq!(apart.summary.flows[5].packets_lost.values().sum::<u64>(), 0);
    let shares: Vec<f64> = apart.summary.flows[..5].iter().map(|flow| flow.goodput_bit_s / 1e6).collect();
    assert!(shares.iter().all(|share| (share - 1.9).abs() < 0.3), "{shares:?}");
}

/// What CoDel drops at the head of the queue has waited there until the packet behind it went out, and counts as long
/// in the mean queue: a tenth of it where a fifth more arrives than the link carries.
#[test]
fn what_is_dropped_at_the_head_has_waited() {
    let over = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"12 Mbit/s\", packet = \"972 B\" }";
    let run = Scene::lasting("20 s")
        .chain(["a", "b"], &["rate = \"10 Mbit/s\"\ndelay = \"1 ms\"\nqueue = \"codel\""])
        .between("a", "b", over)
        .run(1, TRACE);
    let mut packets: Vec<_> = hops(&run).iter().collect();
    packets.sort_by_key(|hop| hop.packet);
    let (mut left, mut waited) = (Time::ZERO + Span::from_secs(20), [0.0, 0.0]);
    for hop in packets.iter().rev() {
        left = hop.transmitted.unwrap_or(left);
        waited[usize::from(hop.lost.is_some())] += left.since(hop.enqueued).seconds() / 20.0;
    }
    let found = run.summary.links[0].avg_queue_packets.unwrap();
    assert!((found / (waited[0] + waited[1]) - 1.0).abs() < 1e-3, "{found} {waited:?}");
    assert!(waited[1] > 0.1 * found, "{waited:?}");
}

/// CAKE on a faster link: the queue is that of its shaper. A stream to one host and eight to another, which all send
/// too much, get half of what it lets through each, and a call beside the first waits for two packets at most.
#[test]
fn cake_shares_among_hosts_behind_its_shaper() {
    let way = |delay: &str| format!("rate = \"100 Mbit/s\"\ndelay = \"{delay}\"");
    let shaped = way("1 ms") + "\nqueue = { kind = \"cake\", bandwidth = \"8 Mbit/s\" }";
    let stream = |rate: &str, packet: &str| {
        format!(
            "transport = \"udp\"\ntraffic = {{ kind = \"cbr\", rate = \"{rate}\", packet = \"{packet}\" }}"
        )
    };
    let nodes = ["server", "mirror", "gate", "router", "phone", "tablet"];
    let scene = Scene::lasting("30 s")
        .with("warmup = \"2 s\"")
        .with(&format!("[topology]\nkind = \"graph\"\nnodes = {nodes:?}"))
        .link("server", "gate", &way("20 ms"))
        .link("mirror", "gate", &way("20 ms"))
        .link("gate", "router", &shaped)
        .link("router", "phone", &way("5 ms"))
        .link("router", "tablet", &way("5 ms"))
        .between("server", "phone", &stream("6 Mbit/s", "1200 B"))
        .between("mirror", "tablet", &(stream("1 Mbit/s", "1000 B") + "\ncount = 8"))
        .between("server", "phone", &stream("64 kbit/s", "160 B"));
    let run = run(scene.text());
    let flows = &run.summary.flows;
    let shares: Vec<f64> = flows.iter().map(|flow| flow.throughput_bit_s / 1e6).collect();
    let (one, many) = (shares[0], shares[1..9].iter().sum::<f64>());
    // The call is never among the busy flows: it takes nothing of either half.
    assert!((one / many - 1.0).abs() < 0.02, "{one} and {many}");
    assert!((one + many + shares[9] - 8.0).abs() < 0.01, "{shares:?}");
    // 26 ms of the way, 1.2 ms for a packet of 1228 B in service, and the own 0.2 ms.
    assert!(flows[9].delay_p95_s.unwrap() < 0.0285, "{:?}", flows[9].delay_p95_s);
    assert_eq!(flows[9].packets_lost.values().sum::<u64>(), 0);
}

/// A return path that carries a third of the ACKs: CAKE's filter lets one or two of them wait, and the download has
/// more for it.
#[test]
fn cake_filters_acks() {
    let download = |filter: &str| {
        let queue = format!("queue = {{ kind = \"cake\", ack_filter = \"{filter}\" }}");
        let link = format!("reverse = {{ rate = \"50 kbit/s\", {queue} }}");
        let window = "[tcp]\nreceiver_window = \"45 packets\"\n";
        run(&last_hop(&link, &(flow("cubic", "") + window)))
    };
    let runs = ["off", "conservative", "aggressive"].map(download);
    let waiting = runs.each_ref().map(|run| run.summary.links[3].max_queue_packets.unwrap());
    assert!(waiting[0] > 10 && waiting[1..] == [2, 1], "{waiting:?}");
    let [plain, filtered, most] = runs.each_ref().map(mbit);
    assert!(plain < 0.96 * filtered && filtered < 0.96 * most, "{plain}, {filtered}, {most}");
    assert!(runs[2].summary.links[3].drops["withheld"] > 5000);
}

/// PIE keeps the delay near its target of 15 ms.
#[test]
fn pie_keeps_its_target() {
    for transport in ["cubic", "e-newreno"] {
        let run = run(&last_hop("queue = \"pie\"", &flow(transport, "count = 5")));
        let delay = run.summary.flows[0].delay_p50_s.unwrap() - 0.026;
        assert!((0.005..0.025).contains(&delay), "{transport}: {delay}");
        assert!(mbit(&run) > 8.5, "{}", mbit(&run));
        let link = &run.summary.links[2];
        assert!(
            link.drops["queue-overflow"] == 0 && (link.marks > 0) == (transport == "e-newreno"),
            "{link:?}"
        );
    }
}

/// RED keeps the queue between its thresholds, on a plain link and under retransmission; who can be marked is.
#[test]
fn red_keeps_the_queue_between_its_thresholds() {
    let queue = "queue = { kind = \"red\", limit = \"60 packets\", w_q = 0.01 }";
    for (more, transport) in
        [("", "newreno"), ("\narq = {}", "newreno"), ("", "e-newreno"), ("\narq = {}", "e-newreno")]
    {
        let run = run(&last_hop(&format!("{queue}{more}"), &flow(transport, "count = 4")));
        let link = &run.summary.links[2];
        assert!(
            (3.0..15.0).contains(&link.avg_queue_packets.unwrap()),
            "{more} {transport}: {}",
            link.avg_queue_packets.unwrap()
        );
        assert!(mbit(&run) > 8.5, "{more} {transport}: {}", mbit(&run));
        assert_eq!(link.marks > 50, transport == "e-newreno", "{}", link.marks);
        assert_eq!(link.drops["early-drop"] > 50, transport == "newreno", "{:?}", link.drops);
    }
}

/// All error models on one way, each at one of the positions: the ledger balances, and by the clock it is the same.
#[test]
fn error_models_lose_what_they_say() {
    let udp = flow("udp", "traffic = { kind = \"cbr\", rate = \"4 Mbit/s\", packet = \"1000 B\" }");
    for (model, expected) in [
        ("kind = \"periodic\", every = 10", 0.1),
        ("kind = \"bit-errors\", bit_error_rate = 1e-5", 0.079),
        ("kind = \"exponential\", rate = 0.05", 0.0488),
        ("kind = \"two-state\", packet_error_rate = 0.05, bad = \"20 ms\"", 0.052),
        ("kind = \"two-state-packets\", good = 19, bad = 1", 0.0985),
        ("kind = \"gilbert-elliott\", packet_error_rate = 0.05, mean_burst = 4", 0.05),
        ("kind = \"gilbert-elliott-time\", good = \"90 ms\", bad = \"10 ms\", loss_bad = 0.5", 0.05),
    ] {
        for position in ["after-transmission", "before-queue"] {
            let error = format!("error = {{ {model}, position = \"{position}\" }}");
            let run = run(&last_hop(&error, &udp));
            let lost = run.summary.flows[0].packets_lost["channel-error"] as f64;
            let rate = lost / run.summary.flows[0].packets_sent as f64;
            assert!((rate / expected - 1.0).abs() < 0.2, "{error}: {rate}");
        }
    }
    let late = "error = { kind = \"bernoulli\", packet_error_rate = 1, from = \"10 s\", until = \"13 s\" }";
    let lost = run(&last_hop(late, &udp)).summary.flows[0].packets_lost["channel-error"];
    assert!((1499..=1501).contains(&lost), "three seconds of 500 packets: {lost}");
    let large = "error = { kind = \"bernoulli\", packet_error_rate = 1, at_least = \"1029 B\" }";
    assert_eq!(run(&last_hop(large, &udp)).summary.flows[0].packets_lost["channel-error"], 0, "1028 B each");
}

/// A policer lets its rate pass and no more, and no queue grows.
#[test]
fn a_policer_holds_its_rate() {
    let udp = |rate: &str| {
        let traffic = format!("traffic = {{ kind = \"cbr\", rate = \"{rate}\", packet = \"1000 B\" }}");
        flow("udp", &traffic)
    };
    let police = "middleboxes = [{ kind = \"policer\", rate = \"2 Mbit/s\", burst = \"15 kB\" }]";
    let above = run(&last_hop(police, &udp("4 Mbit/s")));
    let wire = above.summary.totals.throughput_bit_s / 1e6;
    assert!((wire - 2.0).abs() < 0.02, "{wire}");
    let policed = above.summary.totals.packets_lost["policed"];
    assert!(policed > 0 && policed == above.summary.flows[0].packets_lost["policed"]);
    assert_eq!(above.summary.links[2].max_queue_packets.unwrap(), 0);
    let below = run(&last_hop(police, &udp("1.5 Mbit/s")));
    assert_eq!(below.summary.totals.packets_lost["policed"], 0);
}

/// Packets that overtake one another look like losses to Reno; the same jitter in order does not.
#[test]
fn overtaking_is_taken_for_loss() {
    let impair =
        |reorder| format!("middleboxes = [{{ kind = \"impair\", jitter = \"8 ms\", reorder = {reorder} }}]");
    let [apart, together] =
        [true, false].map(|reorder| run(&last_hop(&impair(reorder), &flow("newreno", ""))));
    assert!(
        apart.summary.flows[0].fast_recoveries.unwrap() > 20,
        "{}",
        apart.summary.flows[0].fast_recoveries.unwrap()
    );
    assert!(mbit(&apart) < 0.6 * mbit(&together), "{} of {}", mbit(&apart), mbit(&together));
}

/// Copies reach the receiver and are thrown away there: every byte is delivered once.
#[test]
fn copies_are_delivered_once() {
    let impair = "queue = \"unlimited\"\nmiddleboxes = [{ kind = \"impair\", duplicate = 0.1 }]";
    let run = run(&last_hop(impair, &flow("sack", "traffic = { kind = \"ftp\", bytes = \"5 MB\" }")));
    assert_eq!(run.summary.flows[0].bytes_delivered, 5_000_000);
    let ledger = run.world.network.ledger;
    assert!(ledger.created > run.summary.flows[0].packets_sent + run.summary.flows[0].acks_sent);
    assert_eq!(ledger.created, ledger.delivered + ledger.in_flight, "nothing was lost: {ledger:?}");
}

/// Two middleboxes in a row act in the order in which they are written.
#[test]
fn middleboxes_compose() {
    let twice = "middleboxes = [{ kind = \"impair\", duplicate = 1 }, \
                 { kind = \"policer\", rate = \"2 Mbit/s\", burst = \"15 kB\" }]";
    let udp = flow("udp", "traffic = { kind = \"cbr\", rate = \"1.5 Mbit/s\", packet = \"1000 B\" }");
    let run = run(&last_hop(twice, &udp));
    let wire = run.summary.totals.throughput_bit_s / 1e6;
    assert!((wire - 2.0).abs() < 0.02, "each packet came twice, so a third of them is too much: {wire}");
}

/// The goodput follows the rate of the link.
#[test]
fn the_rate_of_a_link_changes() {
    let changes = "queue = { kind = \"drop-tail\", limit = \"30 packets\" }\n\
                   rate_changes = [{ at = \"10 s\", rate = \"2 Mbit/s\" }, { at = \"20 s\", rate = \"6 Mbit/s\" }]";
    let udp = flow("udp", "traffic = { kind = \"cbr\", rate = \"20 Mbit/s\", packet = \"1000 B\" }");
    let run = run(&last_hop(changes, &udp));
    // 10 s each at 10, 2 and 6 Mbit/s.
    let wire = run.summary.totals.throughput_bit_s / 1e6;
    assert!((wire - 6.0).abs() < 0.01, "{wire}");
}

/// Two base stations: the host moves from one to the other at 10 s.
fn two_ways(under_way: &str) -> String {
    format!(
        r#"
duration = "20 s"
[topology]
kind = "graph"
nodes = ["server", "core", "old", "new", "host"]
links = [
    {{ from = "server", to = "core", rate = "100 Mbit/s", delay = "5 ms" }},
    {{ from = "core", to = "old", rate = "10 Mbit/s", delay = "10 ms" }},
    {{ from = "old", to = "host", rate = "5 Mbit/s", delay = "5 ms", queue = "unlimited" }},
    {{ from = "core", to = "new", rate = "10 Mbit/s", delay = "10 ms" }},
    {{ from = "new", to = "host", rate = "5 Mbit/s", delay = "5 ms", queue = "unlimited" }},
    {{ from = "old", to = "new", rate = "10 Mbit/s", delay = "1 ms" }},
]
[[flows]]
source = "server"
sink = "host"
transport = "udp"
traffic = {{ kind = "cbr", rate = "4 Mbit/s", packet = "1000 B" }}
start = "0 s"
reroute = [{{ at = "10 s", nodes = ["server", "core", "new", "host"], under_way = "{under_way}" }}]
"#
    )
}

#[test]
fn packets_take_the_new_way() {
    for under_way in ["divert", "lose"] {
        let run = run(&two_ways(under_way));
        let links = &run.summary.links;
        // Ten seconds of 4 Mbit/s by either way.
        for radio in [4, 8] {
            assert!(
                (links[radio].utilisation - 0.41).abs() < 0.005,
                "{under_way}: {}",
                links[radio].utilisation
            );
        }
        let lost = run.summary.totals.packets_lost["route-changed"];
        let between = links[10].packets_sent;
        // What the change finds between the core and the old station: about 10.8 ms of 500 packets a second.
        match under_way {
            "divert" => assert!(lost == 0 && (4..=7).contains(&between), "{between} diverted, {lost} lost"),
            _ => assert!(between == 0 && (4..=7).contains(&lost), "{between} diverted, {lost} lost"),
        }
    }
}

/// Answers change their way too, there and back again, and a connection lives through it.
#[test]
fn connections_survive_changes_of_their_way() {
    let base = two_ways("lose").replace("transport = \"udp\"", "transport = \"sack\"");
    let base = base.replace(
        "traffic = { kind = \"cbr\", rate = \"4 Mbit/s\", packet = \"1000 B\" }",
        "traffic = { kind = \"ftp\", bytes = \"4 MB\" }",
    );
    let back = ", { at = \"12 s\", nodes = [\"server\", \"core\", \"old\", \"host\"] }]";
    let run = run(&base
        .replace("under_way = \"lose\" }]", &format!("under_way = \"lose\" }}{back}"))
        .replace("10 s", "3 s"));
    assert_eq!(run.summary.flows[0].bytes_delivered, 4_000_000);
    assert!(run.summary.totals.packets_lost["route-changed"] > 0);
    assert!(run.summary.links[9].packets_sent > 0, "ACKs by the new station");
}

/// The ready scenarios, and with them shared links, video and outages: clocked as eager.
#[test]
fn the_ready_scenarios_are_the_same_by_the_clock() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/");
    for name in ["chain", "lossy-last-hop", "paced-ftp", "video"] {
        let text = std::fs::read_to_string(format!("{folder}{name}.toml")).unwrap();
        recorded_both_ways(&plan_of(&text), 1, SUMMARY);
    }
}

/// Ten flows in step over access links as fast as the bottleneck.
fn in_step(bottleneck: &str, top: &str) -> Scene {
    Scene::lasting("10 s")
        .with(top)
        .dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{bottleneck}"),
            "rate = \"10 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"unlimited\"",
        )
        .flow("count = 10\nstart = \"0 s\"\ntransport = { preset = \"reno\", profile = \"ns2\", ecn = true }")
}

/// Packets that came to the bottleneck in the instant in which another left it, by the trace: a packet takes 0.8 us for
/// each byte.
fn met_departures(run: &Run) -> usize {
    let here = || hops(run).iter().filter(|hop| hop.direction == 0);
    let left: std::collections::BTreeSet<Time> =
        here().filter_map(|hop| Some(hop.transmitted? + Span(800 * u64::from(hop.bytes)))).collect();
    here().filter(|hop| left.contains(&hop.enqueued)).count()
}

/// Arrivals meet departures there, at queues that decide when a packet arrives and at those that decide when it
/// leaves; what is counted is what the trace shows, and a processing time ends it.
#[test]
fn arrivals_that_meet_departures_are_counted_at_managed_queues() {
    let marks = "queue = { kind = \"drop-tail\", limit = \"50 packets\" }\nmark = \"20 packets\"";
    let queues = ["red", "pie", "codel", "fq-codel", "fq-pie", "dual-pi2", "cake"];
    let queues = queues.map(|kind| format!("queue = {{ kind = \"{kind}\" }}"));
    let repeated = "queue = \"codel\"\narq = {}";
    for queue in queues.iter().map(String::as_str).chain([marks, repeated]) {
        let run = run_both_ways(in_step(queue, "").text(), 1);
        let bottleneck = &run.summary.links[0];
        assert_eq!(bottleneck.name, "bottleneck");
        let tied = met_departures(&run);
        assert_eq!(bottleneck.tied_arrivals.map(|count| count as usize), Some(tied), "{queue}");
        let apart = run_both_ways(in_step(queue, "processing_time = \"1 ms\"").text(), 1);
        let few = met_departures(&apart);
        assert_eq!(apart.summary.links[0].tied_arrivals.map(|count| count as usize), Some(few), "{queue}");
        assert!(tied > 4 * few, "{queue}: {tied} {few}");
    }
    let plain = in_step("queue = { kind = \"drop-tail\", limit = \"50 packets\" }", "");
    assert_eq!(run_both_ways(plain.text(), 1).summary.links[0].tied_arrivals, None);
}
