//! Cellular cells against closed forms: what one user has alone, how schedulers share it, when a packet that is cut or
//! joined arrives, and that a TTI without anything to send costs nothing.

use std::fmt::Write as _;

use lasthop_core::time::{Span, Time};
use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, Scene, TRACE, hops, run_both_ways};

/// A server, a base station and users with these channels; block and packet headers are left out, so that sizes are
/// those of the tables, and no block is lost by chance unless `keys` say so.
fn cell(duration: &str, keys: &str, users: &[&str]) -> Scene {
    let mut nodes = vec!["server".to_owned(), "base".to_owned()];
    let mut table = String::new();
    for (cqi, number) in users.iter().zip(1..) {
        nodes.push(format!("u{number}"));
        let _ = write!(table, "{{ node = \"u{number}\", cqi = {cqi} }}, ");
    }
    let errors = if keys.contains("block_errors") { "" } else { "block_errors = [0]" };
    Scene::lasting(duration)
        .with("warmup = \"1 s\"")
        .with(&format!("[topology]\nkind = \"graph\"\nnodes = {nodes:?}"))
        .link("server", "base", "rate = \"1 Gbit/s\"\ndelay = \"1 ms\"")
        .with(&format!(
            "[[topology.cellular]]\nbase = \"base\"\nusers = [{table}]\nblock_header = \"0 B\"\n\
             packet_header = \"0 B\"\n{errors}\n{keys}"
        ))
}

/// More datagrams than any cell carries.
const FLOOD: &str =
    "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"60 Mbit/s\", packet = \"1172 B\" }";

fn flooded(scene: Scene, users: usize) -> Run {
    let scene = (1..=users).fold(scene, |scene, user| scene.between("server", &format!("u{user}"), FLOOD));
    scene.run(1, SUMMARY)
}

/// What each flow got, in bit/s on the wire.
fn throughputs(run: &Run) -> Vec<f64> {
    run.summary.flows.iter().map(|flow| flow.throughput_bit_s).collect()
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} instead of {expected}");
}

/// 50 resource blocks at CQI 15 carry 33,328 bits a millisecond, at CQI 7 8,859, of which whole bytes are 8,856.
#[test]
fn a_user_alone_has_a_transport_block_by_tti() {
    for (cqi, bits) in [("15", 33_328.0), ("7", 8_856.0)] {
        let run = flooded(cell("11 s", "", &[cqi]), 1);
        near(throughputs(&run)[0], bits * 1e3, 0.001);
        assert!(run.summary.links[2].utilisation > 0.998);
        let counted = run.summary.links[2].devices.cellular.as_ref().unwrap();
        assert_eq!((counted.blocks, counted.resource_blocks), (10_000, 500_000));
    }
    // Half a TTI, and two layers.
    let run = flooded(cell("11 s", "tti = \"0.5 ms\"\nlayers = 2\nresource_blocks = 15", &["9"]), 1);
    near(throughputs(&run)[0], 8.0 * f64::from(15 * 120 * 2 * 24_063 / 10_000 / 8) * 2e3, 0.001);
}

#[test]
fn two_users_in_turn_have_half_of_the_time_each() {
    let run = flooded(cell("11 s", "scheduler = \"round-robin\"", &["15", "7"]), 2);
    let [fast, slow] = throughputs(&run)[..] else { panic!() };
    near(fast, 33.328e6 / 2.0, 0.001);
    near(slow, 8.856e6 / 2.0, 0.001);
    // Proportional fairness does the same while nothing changes.
    let fair = throughputs(&flooded(cell("11 s", "", &["15", "7"]), 2));
    near(fair[0], fast, 0.01);
    near(fair[1], slow, 0.01);
}

#[test]
fn the_best_channel_takes_everything_if_it_is_asked() {
    let run = flooded(cell("11 s", "scheduler = \"max-ci\"", &["15", "7"]), 2);
    near(throughputs(&run)[0], 33.328e6, 0.001);
    assert_eq!(throughputs(&run)[1], 0.0);
}

/// Two users whose channels swap every 50 ms: in turn each has half of the mean of both rates, proportional fairness
/// serves them at their peaks and shares equally.
#[test]
fn proportional_fairness_is_fair_and_gains_by_diversity() {
    let swapping = |first: u32, second: u32| {
        let changes: Vec<String> = (1..220)
            .map(|step| {
                let cqi = if step % 2 == 1 { second } else { first };
                format!("{{ at = \"{} ms\", cqi = {cqi} }}", 50 * step)
            })
            .collect();
        format!("{{ start = {first}, changes = [{}] }}", changes.join(", "))
    };
    let users = [swapping(12, 8), swapping(8, 12)];
    let users = [users[0].as_str(), users[1].as_str()];
    let reports = "report_delay = \"0 ms\"\nreport_interval = \"1 ms\"\n";
    let by = |scheduler: &str| {
        let keys = format!("{reports}scheduler = \"{scheduler}\"");
        throughputs(&flooded(cell("11 s", &keys, &users), 2))
    };
    let (fair, turns) = (by("proportional-fair"), by("round-robin"));
    near(fair[0], fair[1], 0.02);
    // CQI 12 carries 23,413 bits, CQI 8 11,484.
    near(turns[0], (23_408.0 + 11_480.0) * 1e3 / 4.0, 0.01);
    assert!(fair[0] + fair[1] > 1.2 * (turns[0] + turns[1]), "{fair:?} {turns:?}");
    assert!(fair[0] + fair[1] < 23.414e6);
}

/// 1500 B at CQI 1: 913 bits or 114 B a TTI, so 14 of them; from the first that begins after the packet has come.
#[test]
fn a_packet_is_cut_into_blocks() {
    let udp =
        "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"11.776 kbit/s\", packet = \"1472 B\" }";
    let scene = cell("1.5 s", "", &["1"]).between("server", "u1", udp);
    let run = run_both_ways(scene.text(), 1);
    let radio: Vec<_> = hops(&run).iter().filter(|hop| hop.direction == 2).collect();
    // It comes at 1.012 ms: 1500 B at 1 Gbit/s and 1 ms.
    assert_eq!(radio[0].enqueued, Time(1_012_000));
    assert_eq!(radio[0].transmitted, Some(Time(2_000_000)));
    assert_eq!(radio[0].arrived, Some(Time((2 + 14 + 4) * 1_000_000)));
}

/// Three packets that wait together go in one block; two users that have little share a TTI.
#[test]
fn packets_are_joined() {
    let udp = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"24 Mbit/s\", packet = \"300 B\" }\n\
               stop = \"0.25 ms\"";
    let scene = cell("1.5 s", "", &["15", "15"]).between("server", "u1", udp).between("server", "u2", udp);
    let run = run_both_ways(scene.text(), 1);
    let arrivals: Vec<Time> =
        hops(&run).iter().filter(|hop| hop.direction >= 2).filter_map(|hop| hop.arrived).collect();
    assert_eq!(arrivals, [Time(7_000_000); 6]);
}

/// What comes to an idle uplink at 3 ms asks at 10 ms and may send at 14 ms; what comes while it sends need not ask.
#[test]
fn an_idle_uplink_asks_first() {
    let udp = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"80 kbit/s\", packet = \"1000 B\" }";
    let flow = format!("source = \"u1\"\nsink = \"server\"\nstart = \"3 ms\"\n{udp}");
    let arrival = |keys: &str| {
        let run = run_both_ways(cell("1.5 s", keys, &["15"]).flow(&flow).text(), 1);
        let radio: Vec<_> = hops(&run).iter().filter(|hop| hop.direction == 3).collect();
        (radio[0].transmitted.unwrap().0, radio[0].arrived.unwrap().0)
    };
    assert_eq!(arrival(""), (14_000_000, 19_000_000));
    assert_eq!(arrival("request_interval = \"0 ms\""), (4_000_000, 9_000_000));
}

/// Delays in ms over the radio of datagrams that are sent one every `every` ms for `seconds`; `None` of a lost one.
fn delays(keys: &str, every: u32, seconds: u32) -> Vec<Option<f64>> {
    let rate = 972.0 * 8.0 / f64::from(every);
    let traffic = format!("{{ kind = \"cbr\", rate = \"{rate} kbit/s\", packet = \"972 B\" }}");
    let udp = format!("transport = \"udp\"\ntraffic = {traffic}\nstop = \"{seconds} s\"");
    let scene = cell(&format!("{} s", seconds + 2), keys, &["15"]).between("server", "u1", &udp);
    let run = run_both_ways(scene.text(), 1);
    let radio = hops(&run).iter().filter(|hop| hop.direction == 2);
    radio.map(|hop| hop.arrived.map(|at| (at.0 - hop.transmitted.unwrap().0) as f64 / 1e6)).collect()
}

/// A block is repaired 8 ms later each time: 8 x (0.1 + 0.01 + 0.001) = 0.888 ms on average over the TTI and the 4 ms
/// to the core. 10,000 blocks have a standard error of 0.03 ms.
#[test]
fn harq_delays_by_its_round_trips() {
    let found: Vec<f64> =
        delays("block_errors = [0.1, 0.1, 0.1, 0.1]", 20, 200).into_iter().map(Option::unwrap).collect();
    let sent = found.len();
    let repaired: Vec<f64> =
        found.into_iter().filter(|delay| [5.0, 13.0, 21.0, 29.0].contains(delay)).collect();
    // The others are behind a block that HARQ gave up.
    assert!(repaired.len() > 9_980 && sent >= 10_000, "{} of {sent}", repaired.len());
    let mean = repaired.iter().sum::<f64>() / repaired.len() as f64;
    assert!((mean - 5.888).abs() < 0.1, "{mean}");
}

/// Each block takes 1.111 TTIs of its user.
#[test]
fn harq_takes_room() {
    let run = flooded(cell("11 s", "block_errors = [0.1, 0.1, 0.1, 0.1]", &["15"]), 1);
    near(throughputs(&run)[0], 33.328e6 / 1.111, 0.01);
    let counted = run.summary.links[2].devices.cellular.as_ref().unwrap();
    near(counted.harq_retransmissions as f64 / counted.blocks as f64, 0.111 / 1.111, 0.1);
    assert!(counted.harq_failures < 5);
}

/// With two transmissions of a half each a quarter of the blocks is lost. Without acknowledgements so are the packets
/// in them, and the others wait for at most two t-Reordering. With them every packet comes: t-Reordering, a STATUS (at
/// most t-StatusProhibit later) and its way take 58 to 98 ms; what the retransmission itself loses comes on top.
#[test]
fn rlc_loses_or_repairs() {
    let half = "block_errors = [0.5, 0.5]\n";
    let found = delays(&format!("{half}rlc = \"unacknowledged\""), 10, 40);
    let lost = found.iter().filter(|delay| delay.is_none()).count() as f64 / found.len() as f64;
    assert!((lost - 0.25).abs() < 0.03, "{lost}");
    assert!(found.iter().flatten().all(|&delay| delay < 115.0));
    let found = delays(&format!("{half}rlc = \"acknowledged\""), 10, 40);
    assert!(found.iter().all(Option::is_some));
    let late = found.iter().flatten().filter(|&&delay| delay > 58.0).count() as f64 / found.len() as f64;
    assert!(late > 0.25, "{late}");
}

/// The channel falls from CQI 15 to CQI 11, which the base station learns 5 to 10 ms later: until then each block needs
/// its second transmission, and none a third.
#[test]
fn a_late_report_costs_retransmissions() {
    let track = "{ start = 15, changes = [{ at = \"2 s\", cqi = 11 }] }";
    let run = flooded(cell("3 s", "block_errors = [0, 0, 0, 0]", &[track]), 1);
    let counted = run.summary.links[2].devices.cellular.as_ref().unwrap();
    assert_eq!((counted.harq_retransmissions, counted.harq_failures), (5, 0));
}

/// What a timer of a user's RLC lets go within a TTI goes on before what another's block brings at its end, however
/// early the link behind them, which they share, is evaluated.
#[test]
fn what_leaves_within_a_tti_goes_on_first() {
    let udp = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"2 Mbit/s\", packet = \"500 B\" }";
    for rlc in [
        "{ kind = \"unacknowledged\", reordering = \"1500 us\" }",
        "{ kind = \"acknowledged\", max_retransmissions = 1, status_delay = \"2500 us\" }",
    ] {
        let keys = format!("block_errors = [0.5]\nrequest_interval = \"0 ms\"\nrlc = {rlc}");
        let scene = cell("1.2 s", &keys, &["9", "9"]);
        let scene = scene.between("u1", "server", udp).between("u2", "server", udp);
        let run = run_both_ways(scene.text(), 1);
        let behind: Vec<_> = hops(&run).iter().filter(|hop| hop.direction == 1).collect();
        let overtaken = behind.iter().filter(|hop| {
            let end = hop.enqueued + Span(500_000);
            hop.flow == 1
                && end.0.is_multiple_of(1_000_000)
                && behind.iter().any(|other| other.flow == 0 && other.enqueued == end)
        });
        let overtaken = overtaken.count();
        assert!(overtaken > 10, "{overtaken} {rlc}");
    }
}

/// Out of range nothing is sent, and everything is kept.
#[test]
fn nothing_is_sent_at_cqi_0() {
    let udp = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"800 kbit/s\", packet = \"1000 B\" }";
    let track = "{ start = 15, changes = [{ at = \"1100 ms\", cqi = 0 }, { at = \"2 s\", cqi = 15 }] }";
    let run = run_both_ways(cell("3 s", "", &[track]).between("server", "u1", udp).text(), 1);
    let starts: Vec<u64> = hops(&run)
        .iter()
        .filter(|hop| hop.direction == 2)
        .filter_map(|hop| hop.transmitted)
        .map(|at| at.0)
        .collect();
    // Reports of multiples of 5 ms are used 5 ms later: 1.105 and 2.005 s.
    assert!(starts.iter().all(|at| !(1_105_000_000..2_005_000_000).contains(at)), "{starts:?}");
    assert_eq!(run.summary.flows[0].packets_lost.0.iter().sum::<u64>(), 0);
    assert!(starts.len() > 290);
}

/// A thousand seconds with a packet each ten: a TTI without anything to send is no event.
#[test]
fn an_idle_cell_costs_nothing() {
    let udp = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"800 bit/s\", packet = \"1000 B\" }";
    let run = cell("1000 s", "", &["15"; 20]).between("server", "u1", udp).run(1, SUMMARY);
    assert!(run.summary.events < 1000, "{}", run.summary.events);
}

/// TCP both ways over every scheduler, with headers, changing channels and queues that shed: the ledger balances.
#[test]
fn tcp_goes_both_ways() {
    let changing = "{ start = 9, changes = [{ at = \"2 s\", cqi = 2 }, { at = \"4 s\", cqi = 0 }, \
                    { at = \"4500 ms\", cqi = 13 }] }";
    for scheduler in ["proportional-fair", "round-robin", "max-ci"] {
        for queue in ["\"fq-codel\"", "{ kind = \"drop-tail\", limit = \"30 packets\" }", "\"codel\""] {
            let keys = format!("scheduler = \"{scheduler}\"\nqueue = {queue}");
            let scene = cell("8 s", &keys, &["12", changing])
                .between("server", "u1", "transport = \"cubic\"")
                .between("server", "u2", "transport = \"newreno\"")
                .between("u2", "server", "transport = \"newreno\"");
            let text = scene.text().replace("_header = \"0 B\"", "_header = \"4 B\"");
            let run = run_both_ways(&text, 1);
            assert!(throughputs(&run).iter().all(|&rate| rate > 2e5), "{keys}: {:?}", throughputs(&run));
        }
    }
}

/// A user that goes to another cell at 5 s, which takes `interruption`, and gets a packet of 500 B a millisecond.
fn handed_over(cqi: &str, keys: &str, rest: &str) -> Run {
    let user = format!("{cqi}, handovers = {{ at = [\"5 s\"], {rest} }}");
    let stream = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"4 Mbit/s\", packet = \"500 B\" }";
    cell("10 s", keys, &[&user]).between("server", "u1", stream).run(1, TRACE)
}

/// With forwarding nothing is lost, whatever HARQ had in hand, and the first packet of the interruption is as late as
/// that is long; in the unacknowledged mode those are lost that HARQ had.
#[test]
fn a_handover_delays_and_forwards() {
    for (keys, lossless) in [
        ("", true),
        ("block_errors = [0.1, 0.1, 0.1, 0.1]", true),
        ("rlc = \"unacknowledged\"", true),
        ("rlc = \"unacknowledged\"\nblock_errors = [0.5, 0.1, 0.1, 0.1]", false),
    ] {
        let run = handed_over("12", keys, "interruption = \"50 ms\"");
        let flow = &run.summary.flows[0];
        let lost = flow.packets_lost["route-changed"];
        assert_eq!(lost == 0, lossless, "{keys}: {lost}");
        assert!(lost <= 16, "{lost}");
        let counted = run.summary.links[2].devices.cellular.as_ref().unwrap();
        assert_eq!(counted.handovers, 1);
    }
    // The packet that comes as it begins, at the latest a millisecond after, waits for it and for a TTI.
    let run = handed_over("12", "", "interruption = \"50 ms\"");
    let waits = hops(&run).iter().filter_map(|hop| Some(hop.transmitted?.since(hop.enqueued)));
    let most = waits.max().unwrap().seconds();
    assert!((0.049..0.0515).contains(&most), "{most}");
}

/// A block is sent as a TTI begins until 5 s, and the next one 50 ms later: between the arrivals of the two, each after
/// 1 ms and 4 ms to the core, are 51 ms. Both modes of RLC bring all packets, in order, whatever HARQ gave up.
#[test]
fn a_handover_interrupts_for_as_long_as_it_takes() {
    for (interruption, gap) in [(50, 51_000_000), (20, 21_000_000)] {
        let run = handed_over("12", "", &format!("interruption = \"{interruption} ms\""));
        let arrived: Vec<u64> = hops(&run)
            .iter()
            .filter(|hop| hop.direction == 2)
            .filter_map(|hop| Some(hop.arrived?.0))
            .collect();
        let gaps = arrived.windows(2).map(|pair| pair[1] - pair[0]);
        assert_eq!(gaps.max(), Some(gap));
    }
    let keys = "block_errors = [0.3, 0.3]\nrlc = { kind = \"acknowledged\", status_prohibit = \"0 ms\" }";
    let run = handed_over("12", keys, "interruption = \"50 ms\"");
    let mut radio: Vec<_> = hops(&run).iter().filter(|hop| hop.direction == 2).collect();
    radio.sort_by_key(|hop| (hop.arrived.unwrap_or(Time::MAX), hop.packet));
    assert!(radio.is_sorted_by_key(|hop| hop.seq), "out of order");
    assert_eq!(run.summary.flows[0].packets_lost.0.iter().sum::<u64>(), 0);
}

/// Handovers of a user with TCP both ways, within TTIs and at their beginning: the ledger balances, ahead of the clock
/// as by the clock.
#[test]
fn handovers_keep_the_ledger() {
    for (rlc, forwarding) in [("acknowledged", true), ("acknowledged", false), ("unacknowledged", true)] {
        let user = format!(
            "9, handovers = {{ every = \"130500 us\", interruption = \"30 ms\", forwarding = {forwarding} }}"
        );
        let keys = format!("block_errors = [0.3, 0.3]\nrlc = \"{rlc}\"");
        let scene = cell("4 s", &keys, &[&user, "7"]);
        let tcp = "transport = \"newreno\"";
        let scene =
            scene.between("server", "u1", tcp).between("u1", "server", tcp).between("u2", "server", tcp);
        let run = run_both_ways(scene.text(), 1);
        assert_eq!(run.summary.links[2].devices.cellular.as_ref().unwrap().handovers, 23);
    }
}

/// A user goes from cell to cell whether or not there is something to send: handovers count both ways, those of a user
/// without a flow too.
#[test]
fn handovers_of_an_idle_user_count() {
    let journey = "9, handovers = { every = \"130500 us\", interruption = \"30 ms\" }";
    let scene = cell("4 s", "", &["9", journey]).between("server", "u1", "transport = \"newreno\"");
    let run = scene.run(1, SUMMARY);
    let counted = |link: usize| run.summary.links[link].devices.cellular.as_ref().unwrap().handovers;
    assert_eq!([2, 3, 4, 5].map(counted), [0, 0, 23, 23]);
}

/// Without forwarding what waited is lost: a full queue of 100 packets, downwards; upwards the user takes it along.
#[test]
fn without_forwarding_what_waits_is_lost() {
    let user = "15, handovers = { at = [\"5 s\"], interruption = \"50 ms\", forwarding = false }";
    let keys = "queue = { kind = \"drop-tail\", limit = \"100 packets\" }";
    let scene = cell("10 s", keys, &[user]);
    let run = scene.clone().between("server", "u1", FLOOD).run(1, SUMMARY);
    assert_eq!(run.summary.flows[0].packets_lost["route-changed"], 100);
    let run = scene.between("u1", "server", FLOOD).run(1, SUMMARY);
    assert_eq!(run.summary.flows[0].packets_lost["route-changed"], 0);
}

/// Waits in ms for a TTI of datagrams of 972 B to the only user of a cell, one every `every` ms.
fn waits(drx: &str, every: f64, duration: &str) -> Vec<f64> {
    let rate = 972.0 * 8.0 / every;
    let udp = format!(
        "transport = \"udp\"\ntraffic = {{ kind = \"cbr\", rate = \"{rate} kbit/s\", packet = \"972 B\" }}"
    );
    let scene = cell(duration, &format!("drx = {drx}"), &["15"]).between("server", "u1", &udp);
    let run = scene.run(1, TRACE);
    let radio = hops(&run).iter().filter(|hop| hop.direction == 2);
    radio.filter_map(|hop| Some((hop.transmitted?.0 - hop.enqueued.0) as f64 / 1e6)).collect()
}

/// A lone packet comes at any time of a cycle of C TTIs, of which N are on: it waits half a TTI for the next one, and
/// where that is none of those, 1 to C - N TTIs more, so (C - N)(C - N + 1) / (2 C) on average. In short TTIs that is
/// (cycle - on)^2 / (2 cycle). The timer of inactivity does not matter to a lone packet.
#[test]
fn a_lone_packet_waits_for_the_on_duration() {
    for (cycle, on, inactivity) in [(40, 10, 0), (160, 80, 0), (320, 10, 0), (320, 10, 100)] {
        let drx = format!("{{ cycle = \"{cycle} ms\", on = \"{on} ms\", inactivity = \"{inactivity} ms\" }}");
        let found = waits(&drx, 997.31, "3000 s");
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let off = f64::from(cycle - on);
        near(mean, 0.5 + off * (off + 1.0) / f64::from(2 * cycle), 0.01);
        let most = found.iter().copied().fold(0.0, f64::max);
        assert!(most <= off + 1.0 && most > off - 1.0, "{most}");
    }
    // A quarter of the TTI: 0.125 ms in place of half a millisecond, and a TTI in place of which there was one of 1 ms.
    let found = waits("{ cycle = \"320 ms\", inactivity = \"0 ms\" }\ntti = \"0.25 ms\"", 997.31, "3000 s");
    near(found.iter().sum::<f64>() / found.len() as f64, 310.0 * 310.0 / 640.0 + 0.25, 0.01);
}

/// Packets that follow within the inactivity timer keep the user awake: only the first one may wait.
#[test]
fn inactivity_keeps_a_user_awake() {
    let found = waits("{ cycle = \"320 ms\", inactivity = \"100 ms\" }", 99.0, "60 s");
    assert!(found[1..].iter().all(|&wait| wait <= 1.0), "{found:?}");
    // One TTI of the timer less than the packets need: each waits for an on-duration, unless it comes in one.
    let found = waits("{ cycle = \"320 ms\", inactivity = \"97 ms\" }", 99.0, "60 s");
    let asleep = found.iter().filter(|&&wait| wait > 1.0).count();
    assert!(asleep > found.len() / 3, "{asleep} of {}", found.len());
    // What is saturated never sleeps.
    let run = flooded(cell("11 s", "drx = { cycle = \"320 ms\", inactivity = \"1 ms\" }", &["15"]), 1);
    near(throughputs(&run)[0], 33.328e6, 0.001);
}

/// A datagram down at 101.012 ms, in a cycle of 320 ms, would wait until 320 ms. One up at 115 ms asks at 120 ms: from
/// then on the user listens, and gets it at once. The timer runs from the TTIs with something new, 120 and 124 ms: one
/// that comes at 133.012 ms is in time, one at 137.012 ms waits for the next on-duration.
#[test]
fn the_uplink_wakes_the_downlink() {
    let one = |from: &str, to: &str, at: u32| {
        format!(
            "source = \"{from}\"\nsink = \"{to}\"\nstart = \"{at} ms\"\nstop = \"{} ms\"\ntransport = \"udp\"\n\
             traffic = {{ kind = \"cbr\", rate = \"8 kbit/s\", packet = \"1472 B\" }}",
            at + 1
        )
    };
    let drx = "drx = { cycle = \"320 ms\", inactivity = \"10 ms\" }";
    let sent = |second: u32, wakes: bool| {
        let scene = cell("1.5 s", drx, &["15"]).flow(&one("server", "u1", 100));
        let scene = scene.flow(&one("server", "u1", second));
        let scene = if wakes { scene.flow(&one("u1", "server", 115)) } else { scene };
        let run = run_both_ways(scene.text(), 1);
        let radio = hops(&run).iter().filter(|hop| hop.direction == 2);
        radio.map(|hop| hop.transmitted.unwrap().0 as f64 / 1e6).map(f64::floor).collect::<Vec<_>>()
    };
    assert_eq!(sent(132, false), [320.0, 320.0]);
    assert_eq!(sent(132, true), [120.0, 134.0]);
    assert_eq!(sent(136, true), [120.0, 320.0]);
}

/// A thousand seconds with a packet each ten, to users that sleep: neither their cycles nor their TTIs are events.
#[test]
fn a_sleeping_cell_costs_nothing() {
    let udp = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"800 bit/s\", packet = \"1000 B\" }";
    let run = cell("1000 s", "drx = { cycle = \"40 ms\" }", &["15"; 20])
        .between("server", "u1", udp)
        .run(1, SUMMARY);
    assert!(run.summary.events < 1000, "{}", run.summary.events);
}

/// A link ends each packet with a millisecond, when the cell takes the next one out of its queue: at an AQM such
/// arrivals are counted, and half a millisecond later there are none.
#[test]
fn arrivals_that_meet_a_tti_are_counted() {
    for (delay, meets) in [("1 ms", true), ("1.5 ms", false)] {
        let users = "users = [{ node = \"u1\", cqi = 7 }]";
        let text = Scene::lasting("3 s")
            .with("[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"u1\"]")
            .link("server", "base", &format!("rate = \"9.6 Mbit/s\"\ndelay = \"{delay}\""))
            .with(&format!("[[topology.cellular]]\nbase = \"base\"\n{users}\nqueue = \"codel\""))
            .between("server", "u1", FLOOD);
        let run = run_both_ways(text.text(), 1);
        let down = &run.summary.links[2];
        let tied = down.tied_arrivals.unwrap();
        assert!(if meets { u64::from(tied) > down.packets_sent / 2 } else { tied == 0 }, "{delay}: {tied}");
    }
}
