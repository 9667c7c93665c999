//! Hosts that go from one access point to another: when they do, what becomes of packets meanwhile, who hears of it,
//! and that nothing is lost sight of.

#![expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "scenarios are put together from pieces"
)]

use std::collections::BTreeMap;

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};
use lasthop_sim::run::Run;
use lasthop_sim::summary::LinkSummary;
use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

use crate::testkit::{SUMMARY, hops, run_both_ways, run_text};

/// A server behind two access points 400 m apart, and a host that walks from one to the other: 190 m in ten seconds,
/// past the middle after ten.
fn two_cells(channels: (u32, u32), cell: &str, roaming: &str, flows: &str) -> String {
    let cell = |access_point: &str, channel: u32, at: u32| {
        format!(
            "[[topology.cells]]\naccess_point = \"{access_point}\"\nposition = [{at}, 0]\nchannel = {channel}\n{cell}\n\
             stations = [{{ node = \"walker\", position = [10, 0], \
             track = [{{ at = \"20 s\", position = [390, 0] }}] }}]\n"
        )
    };
    let wire = |to: &str| {
        format!(
            "[[topology.links]]\nfrom = \"server\"\nto = \"{to}\"\nrate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n"
        )
    };
    format!(
        "duration = \"20 s\"\n[udp]\nheader = \"0 B\"\n[topology]\nkind = \"graph\"\n\
         nodes = [\"server\", \"west\", \"east\", \"walker\"]\n{}{}{}{}[[topology.roaming]]\nhost = \"walker\"\n\
         {roaming}\n{flows}\n",
        wire("west"),
        wire("east"),
        cell("west", channels.0, 0),
        cell("east", channels.1, 400)
    )
}

/// One flow from the server to the host, or back.
fn flow(transport: &str, to_host: bool) -> String {
    let (source, sink) = if to_host { ("server", "walker") } else { ("walker", "server") };
    format!("[[flows]]\nsource = \"{source}\"\nsink = \"{sink}\"\nstart = \"0 s\"\ntransport = {transport}\n")
}

/// Datagrams of 1000 B, 100 a second.
fn datagrams(to_host: bool) -> String {
    flow("\"udp\"", to_host)
        + "traffic = { kind = \"cbr\", rate = \"800 kbit/s\", packet = \"1000 B\" }\nstop = \"19 s\"\n"
}

fn link<'r>(run: &'r Run, name: &str) -> &'r LinkSummary {
    run.summary.links.iter().find(|link| link.name == name).unwrap()
}

fn seconds(value: f64) -> Time {
    Time::ZERO + Span::from_seconds(value)
}

/// The times of the first and the last frame that arrived over each direction, by number: 4 is the host to the western
/// access point, 5 back, 6 and 7 the eastern one's.
fn times(run: &Run) -> BTreeMap<u32, (Time, Time)> {
    let mut times = BTreeMap::new();
    for hop in hops(run) {
        let Some(arrived) = hop.arrived else { continue };
        let (first, last) = times.entry(hop.direction).or_insert((arrived, arrived));
        (*first, *last) = ((*first).min(arrived), (*last).max(arrived));
    }
    times
}

const LISTED: &str = "by = { kind = \"list\", changes = [{ at = \"8 s\", access_point = \"east\" }] }";

/// Beyond 86 m power falls with the fourth power of distance: the east is 3 dB stronger where the distances are as
/// 1 to 1.1885, 217.2 m from the west, after 10.91 s; the next look is at 11 s, and the host arrives 50 ms later. By
/// distance it changes 5 m behind the middle, after 10.13 s.
#[test]
fn the_stronger_access_point_is_taken() {
    for (by, leaves) in [("", 11.0), ("by = { kind = \"nearest\", hysteresis = 5 }", 10.2), (LISTED, 8.0)] {
        let run = run_both_ways(&two_cells((1, 6), "", by, &datagrams(true)), 1);
        let times = times(&run);
        let (left, joined) = (times[&5].1, times[&7].0);
        assert!(left <= seconds(leaves) && left > seconds(leaves - 0.02), "{by}: {left}");
        assert!(joined >= seconds(leaves + 0.05) && joined < seconds(leaves + 0.07), "{by}: {joined}");
    }
}

/// 50 ms without an access point are five datagrams that find none.
#[test]
fn what_waits_is_lost_or_sent_after_the_host_or_kept() {
    for to_host in [true, false] {
        let lost = |keys: &str| {
            let run =
                run_both_ways(&two_cells((1, 6), "", &format!("{LISTED}\n{keys}"), &datagrams(to_host)), 1);
            (run.summary.flows[0].packets_lost["route-changed"], run.world.network.ledger.in_flight)
        };
        let dropped = if to_host { 5 } else { 0 };
        let (drop, forward, hold) =
            (lost("queue = \"drop\""), lost("queue = \"forward\""), lost("queue = \"hold\""));
        assert!((drop.0.abs_diff(dropped)) <= u64::from(to_host) && drop.1 == 0, "{to_host}: {drop:?}");
        assert_eq!(forward, (0, 0), "{to_host}: the host's own packets go with it");
        assert_eq!(hold.0, 0);
        assert!(if to_host { (4..=6).contains(&hold.1) } else { hold.1 == 0 }, "{to_host}: {hold:?}");
    }
}

/// Cells with aggregates, which reach as far: their packets wait in one queue, in one for each station, or in a driver.
const AGGREGATING: [&str; 3] = [
    "phy = \"802.11n\"\nfrequency = 2412\nmcs = 0",
    "phy = \"802.11ax\"\nfrequency = 2412\nmcs = 0\nqueues = \"airtime\"",
    "phy = \"802.11n\"\nfrequency = 2412\nmcs = 0\nqueues = \"airtime\"\naggregation = { driver = 100 }",
];

/// With aggregates as without: five datagrams find no access point, and the host's own go with it.
#[test]
fn aggregates_follow_the_host() {
    for (cell, to_host) in AGGREGATING.into_iter().flat_map(|cell| [(cell, true), (cell, false)]) {
        let lost = |keys: &str| {
            let text = two_cells((1, 6), cell, &format!("{LISTED}\n{keys}"), &datagrams(to_host));
            let run = run_both_ways(&text, 1);
            let times = times(&run);
            let [(_, left), (joined, _)] =
                if to_host { [times[&5], times[&7]] } else { [times[&4], times[&6]] };
            assert!(
                left <= seconds(8.0) && joined >= seconds(8.05) && joined < seconds(8.07),
                "{cell}: {joined}"
            );
            (run.summary.flows[0].packets_lost["route-changed"], run.world.network.ledger.in_flight)
        };
        let (drop, forward, hold) =
            (lost("queue = \"drop\""), lost("queue = \"forward\""), lost("queue = \"hold\""));
        let dropped = if to_host { 5 } else { 0 };
        assert!(
            (drop.0.abs_diff(dropped)) <= u64::from(to_host) && drop.1 == 0,
            "{cell} {to_host}: {drop:?}"
        );
        assert_eq!(forward, (0, 0), "{cell} {to_host}");
        assert_eq!(hold.0, 0, "{cell} {to_host}");
        assert!(if to_host { (4..=6).contains(&hold.1) } else { hold.1 == 0 }, "{cell} {to_host}: {hold:?}");
    }
}

/// A host that goes back and forth under load: every packet is accounted for, both evaluations agree, and a connection
/// goes on behind each change.
#[test]
fn aggregates_follow_a_host_under_load() {
    for (cell, queue) in AGGREGATING.into_iter().zip(["drop", "forward", "hold"]) {
        let changes = (1..10).map(|number| {
            let to = if number % 2 == 1 { "east" } else { "west" };
            format!("{{ at = \"{} ms\", access_point = \"{to}\" }}", 7_000 + 811 * number)
        });
        let changes = changes.collect::<Vec<_>>().join(", ");
        let roaming = format!("by = {{ kind = \"list\", changes = [{changes}] }}\nqueue = \"{queue}\"");
        let error = "error = { kind = \"bernoulli\", packet_error_rate = 0.1 }";
        let flows = flow("\"cubic\"", true) + &flow("\"cubic\"", false);
        for channels in [(1, 6), (1, 1)] {
            let run = run_both_ways(&two_cells(channels, &format!("{cell}\n{error}"), &roaming, &flows), 1);
            for flow in &run.summary.flows {
                assert!(flow.goodput_bit_s > 5e5, "{cell} {channels:?}: {}", flow.goodput_bit_s);
            }
        }
    }
}

/// By how a host is admitted it is nowhere for 40, 80 or 300 ms, and as long before as it scans.
#[test]
fn authentication_takes_its_time() {
    for (keys, delay) in [
        ("authentication = \"ft\"", 0.04),
        ("authentication = \"psk\"", 0.08),
        ("authentication = \"802.1x\"", 0.3),
        ("authentication = \"ft\"\nscan = \"100 ms\"", 0.14),
        ("delay = \"20 ms\"", 0.02),
        ("", 0.05),
    ] {
        let run = run_both_ways(&two_cells((1, 6), "", &format!("{LISTED}\n{keys}"), &datagrams(true)), 1);
        let joined = times(&run)[&7].0;
        assert!(joined >= seconds(8.0 + delay) && joined < seconds(8.02 + delay), "{keys}: {joined}");
    }
}

/// What an access point keeps is sent when the host comes back, before anything else.
#[test]
fn a_host_comes_back_to_what_was_kept() {
    let there_and_back = "by = { kind = \"list\", changes = [{ at = \"8 s\", access_point = \"east\" }, \
                          { at = \"9 s\", access_point = \"west\" }] }\nqueue = \"hold\"";
    let run =
        run_both_ways(&two_cells((1, 6), "", there_and_back, &datagrams(true).replace("19 s", "11 s")), 1);
    // What waits for it in the east when it leaves there is kept there.
    assert!((4..=6).contains(&run.world.network.ledger.in_flight));
    let late: Vec<f64> = (hops(&run).iter())
        .filter(|hop| {
            hop.direction == 5
                && hop.arrived.is_some_and(|at| at.since(hop.enqueued) > Span::from_millis(500))
        })
        .map(|hop| hop.arrived.unwrap().seconds())
        .collect();
    assert!((4..=6).contains(&late.len()) && late.iter().all(|&at| (9.05..9.07).contains(&at)), "{late:?}");
}

/// Beyond the old access point there is no way around: what the change finds on the wire to it is sent after the host,
/// or lost, as the scenario says.
#[test]
fn packets_under_way_turn_or_are_lost() {
    let lost = |keys: &str| {
        let fast =
            flow("\"udp\"", true) + "traffic = { kind = \"cbr\", rate = \"2 Mbit/s\", packet = \"500 B\" }\n";
        let run = run_both_ways(&two_cells((1, 6), "", &format!("{LISTED}\n{keys}"), &fast), 1);
        run.summary.flows[0].packets_lost["route-changed"]
    };
    let (turned, gone) = (lost("queue = \"forward\""), lost("under_way = \"lose\""));
    assert_eq!(turned, 0);
    // 500 a second, 5 ms on the wire and 50 ms at the access point.
    assert!((26..=29).contains(&gone), "{gone}");
    assert!((24..=26).contains(&lost("queue = \"drop\"")), "the wire's two or three turn");
}

/// On one channel a host has one station and one queue, and never two access points.
#[test]
fn one_channel_for_both() {
    let run = run_both_ways(
        &two_cells((1, 1), "", "queue = \"forward\"", &(datagrams(true) + &datagrams(false))),
        1,
    );
    assert_eq!(run.summary.flows.iter().map(|flow| flow.packets_lost["route-changed"]).sum::<u64>(), 0);
    let times = times(&run);
    assert!(times[&4].1 < times[&6].0 && times[&5].1 < times[&7].0, "{times:?}");
    assert!(link(&run, "walker-east").radio.as_ref().unwrap().transmitted_frames > 700);
}

/// Senders and receivers that listen go on as soon as the host has arrived; NewReno waits for its timer.
#[test]
fn fast_handoff_senders_hear_of_it() {
    for to_host in [true, false] {
        let resumed = |transport: &str| {
            let keys = format!("{LISTED}\ndelay = \"600 ms\"");
            let transport = format!("{{ preset = {transport}, receiver_window = \"8 packets\" }}");
            let run = run_both_ways(&two_cells((1, 6), "", &keys, &flow(&transport, to_host)), 1);
            let first = if to_host { [0, 2] } else { [4, 6] };
            let again = (hops(&run).iter())
                .filter(|hop| first.contains(&hop.direction) && hop.again && hop.enqueued >= seconds(8.6))
                .map(|hop| hop.enqueued.since(seconds(8.6)));
            (again.min().unwrap_or(Span::from_secs(9)), run.summary.flows[0].timeouts.unwrap())
        };
        let (fast, plain) = (resumed("\"fast-handoff\""), resumed("\"newreno\""));
        assert!(plain.1 > 0 || !to_host, "{to_host}: {plain:?}");
        // What the host itself was about to send goes with it: nothing of that is lost.
        let resumes = !to_host || fast.0 < Span::from_millis(20) && fast.0 < plain.0;
        assert!(resumes && fast.1 == 0, "{to_host}: {fast:?} {plain:?}");
    }
}

/// A host that says that it will leave: Freeze-TCP stops the sender in time, and has no timeout.
#[test]
fn freeze_hears_of_the_change_in_time() {
    let run = |transport: &str| {
        let keys = format!("{LISTED}\ndelay = \"1 s\"\nwarning = \"100 ms\"\nqueue = \"forward\"");
        let transport = format!("{{ preset = {transport}, receiver_window = \"10 packets\" }}");
        run_both_ways(&two_cells((1, 6), "", &keys, &flow(&transport, true)), 1)
    };
    let (freeze, newreno) = (run("\"freeze\""), run("\"newreno\""));
    assert_eq!(
        (freeze.summary.flows[0].timeouts.unwrap(), newreno.summary.flows[0].timeouts.unwrap() > 0),
        (0, true)
    );
    let closing = hops(&freeze).iter().filter(|hop| hop.window == 0 && hop.kind == Kind::Ack);
    let closing: Vec<Time> = closing.map(|hop| hop.enqueued).collect();
    assert!(closing.contains(&seconds(7.9)), "{closing:?}");
}

/// A host that walks out of its cell foresees it from the fall of the signal: at 19 m/s and 250 m away it falls by
/// 1.32 dB/s, and 200 ms before it is at 246.2 m, after 12.43 s.
#[test]
fn a_fading_signal_is_foreseen() {
    let text = two_cells(
        (1, 6),
        "warning = \"200 ms\"",
        "by = { kind = \"list\", changes = [{ at = \"15 s\", access_point = \"east\" }] }",
        &flow("{ preset = \"freeze\", receiver_window = \"10 packets\" }", true),
    );
    let run = run_both_ways(&text, 1);
    let closing =
        hops(&run).iter().filter(|hop| hop.window == 0 && hop.kind == Kind::Ack && hop.direction == 4);
    let first = closing.map(|hop| hop.enqueued).min().unwrap();
    assert!((12.42..12.45).contains(&first.seconds()), "{first}");
    // It hears nothing for 2.4 s, and goes on in the other cell.
    assert!(times(&run)[&7].0 < seconds(15.07), "{:?}", times(&run));
    let deaf = run_text(&text.replace("warning = \"200 ms\"\n", ""), 1, SUMMARY);
    assert!(deaf.summary.flows[0].timeouts.unwrap() > run.summary.flows[0].timeouts.unwrap());
}

/// Two cells joined by wires: pairs of stations, each way its own.
#[test]
fn two_cells_joined_by_wires() {
    let text = "duration = \"6 s\"\nwarmup = \"1 s\"\n[topology]\nkind = \"wired-cum-wireless\"\nstations = 2\n\
                cell = { profile = \"ns2\" }\n[[flows]]\ncount = 2\ntransport = \"newreno\"\n\
                [[flows]]\nname = \"back\"\ncount = 2\ndirection = \"reverse\"\ntransport = \"newreno\"\n";
    let run = run_both_ways(text, 1);
    let names: Vec<&str> = run.summary.links.iter().map(|link| link.name.as_str()).step_by(2).collect();
    assert_eq!(names, ["wire-a", "lan", "wire-b", "radio-a-1", "radio-a-2", "radio-b-1", "radio-b-2"]);
    for name in ["radio-a-2", "radio-b-1", "radio-b-2 (reverse)"] {
        assert!(link(&run, name).radio.as_ref().unwrap().transmitted_frames > 10, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever hosts do: every packet is accounted for, none arrives twice, and both evaluations agree.
    #[test]
    fn wherever_hosts_go(
        speeds in proptest::collection::vec((-390..390_i32, 1..8_u32, 0..4_u32), 1..4),
        shared in 0..2_u32,
        keys in proptest::sample::select(vec![
            "queue = \"drop\"",
            "queue = \"forward\"\ndelay = \"1 ns\"",
            "queue = \"hold\"\nwarning = \"30 ms\"",
            "under_way = \"lose\"\ndelay = \"300 ms\"",
            "by = { kind = \"nearest\", hysteresis = 0, interval = \"10 ms\" }\nqueue = \"forward\"",
        ]),
        cell in proptest::sample::select(vec![
            "",
            "profile = \"ns2\"",
            "rts_threshold = \"500 B\"\nqueue = \"fq-codel\"",
            "error = { kind = \"bernoulli\", packet_error_rate = 0.05 }\ndiscards = \"received\"\nwarning = \"0.1 s\"",
            "propagation = { kind = \"log-distance\", shadowing = 6 }\nreceive_threshold = -78\n\
             queue = { kind = \"drop-tail\", limit = \"3 packets\" }",
        ]),
        seed in 0..1000_u64,
    ) {
        let (mut stations, mut roaming, mut flows) = (String::new(), String::new(), String::new());
        let mut names = vec!["\"server\"".to_owned(), "\"west\"".to_owned(), "\"east\"".to_owned()];
        for (number, &(to, turns, kind)) in speeds.iter().enumerate() {
            let name = format!("\"h{number}\"");
            let track: Vec<String> = (1..=turns)
                .map(|turn| {
                    let x = if turn % 2 == 1 { 200 + to / 2 } else { 200 };
                    format!("{{ at = \"{} ms\", position = [{x}, {number}] }}", 2000 * turn / turns)
                })
                .collect();
            stations += &format!(
                "{{ node = {name}, position = [190, {number}], track = [{}] }}, ",
                track.join(", ")
            );
            roaming += &format!("[[topology.roaming]]\nhost = {name}\n{keys}\n");
            flows += &match kind {
                0 => format!("[[flows]]\nsource = \"server\"\nsink = {name}\ntransport = \"fast-handoff\"\n"),
                1 => format!("[[flows]]\nsource = {name}\nsink = \"server\"\ntransport = \"xjtcp\"\n"),
                2 => format!("[[flows]]\nsource = \"server\"\nsink = {name}\ntransport = \"freeze\"\n"),
                _ => format!(
                    "[[flows]]\nsource = {name}\nsink = \"server\"\ntransport = \"udp\"\n\
                     traffic = {{ kind = \"cbr\", rate = \"2 Mbit/s\", packet = \"700 B\" }}\n"
                ),
            };
            flows += "start = \"0 s\"\n";
            names.push(name);
        }
        let cells: String = [("west", 0, 1), ("east", 400, 1 + 5 * (1 - shared))]
            .iter()
            .map(|(name, x, channel)| {
                format!(
                    "[[topology.cells]]\naccess_point = \"{name}\"\nposition = [{x}, 0]\nchannel = {channel}\n\
                     stations = [{stations}]\n{cell}\n"
                )
            })
            .collect();
        let text = format!(
            "duration = \"2.5 s\"\n[topology]\nkind = \"graph\"\nnodes = [{}]\n\
             [[topology.links]]\nfrom = \"west\"\nto = \"server\"\nrate = \"20 Mbit/s\"\ndelay = \"3 ms\"\n\
             [[topology.links]]\nfrom = \"east\"\nto = \"server\"\nrate = \"20 Mbit/s\"\ndelay = \"1 ms\"\n\
             {cells}{roaming}{flows}",
            names.join(", ")
        );
        let eager = run_both_ways(&text, seed);
        let mut arrived = BTreeMap::new();
        for hop in hops(&eager).iter().filter(|hop| hop.arrived.is_some() && hop.direction >= 4) {
            // Over the air once up and once down at most; none over the same link twice.
            let count = arrived.entry((hop.packet, hop.flow, hop.direction)).or_insert(0);
            *count += 1;
            prop_assert_eq!(*count, 1, "{:?}", hop);
        }
    }
}
