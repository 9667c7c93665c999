//! Links that are driven by recordings: Mahimahi's opportunities against a model of their rules written here a second
//! time, byte by byte, and tables of rate, delay and loss.

use std::collections::VecDeque;
use std::path::PathBuf;

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;
use lasthop_sim::run::Run;
use lasthop_sim::scenario::{Format, Scenario};
use proptest::prelude::*;

use crate::testkit::{self, run_plan_both_ways};

/// A folder of its own for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("traces-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run_in(folder: &std::path::Path, text: &str) -> Run {
    let scenario = Scenario::parse_with(text, Format::Toml, ("test", folder), &[], &[]);
    let plan = scenario.unwrap_or_else(|error| panic!("{error}\n{text}")).into_plan();
    run_plan_both_ways(&plan, 1)
}

/// A server, a router and a phone, whose last hop is a recording.
fn scenario(link: &str, flows: &str) -> String {
    format!(
        "duration = \"4 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"router\", \"phone\"]\nlinks = [\n\
         {{ from = \"server\", to = \"router\", rate = \"100 Mbit/s\", delay = \"1 ms\", queue = \"unlimited\" }},\n\
         {{ from = \"router\", to = \"phone\", {link} }} ]\n{flows}"
    )
}

fn udp(rate_kbit: u32, bytes: u32) -> String {
    format!(
        "[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"udp\"\nname = \"udp\"\n\
         start = {{ uniform = [\"0 s\", \"1 s\"] }}\n\
         traffic = {{ kind = \"cbr\", rate = \"{rate_kbit} kbit/s\", packet = \"{bytes} B\", random = true }}\n"
    )
}

/// What became of each packet, in the order of arrival: when its last byte was sent, or `None` if it was dropped.
///
/// The rules of Mahimahi's link: what happens up to and including an instant is done with before a packet of that
/// instant is enqueued; at an opportunity bytes of the queue go until the budget is spent or the queue is empty.
fn model(trace: &[u64], budget: u64, limit: usize, arrivals: &[(u64, u64)], end: u64) -> Vec<Option<u64>> {
    let period = trace[trace.len() - 1];
    let opportunities = (0..).flat_map(|round| trace.iter().map(move |at| round * period + at));
    let mut opportunities = opportunities.map(|millis| millis * 1_000_000).peekable();
    let mut queue: VecDeque<(usize, u64)> = VecDeque::new();
    let mut fates = vec![None; arrivals.len()];
    let mut serve = |until: u64, queue: &mut VecDeque<(usize, u64)>, fates: &mut Vec<Option<u64>>| {
        while let Some(at) = opportunities.next_if(|&at| at <= until) {
            let mut left = budget;
            while left > 0
                && let Some((number, bytes)) = queue.front_mut()
            {
                let sent = left.min(*bytes);
                (left, *bytes) = (left - sent, *bytes - sent);
                if *bytes == 0 {
                    fates[*number] = Some(at);
                    queue.pop_front();
                }
            }
        }
    };
    for (number, &(at, bytes)) in arrivals.iter().enumerate() {
        serve(at, &mut queue, &mut fates);
        if queue.len() < limit {
            queue.push_back((number, bytes));
        }
    }
    serve(end, &mut queue, &mut fates);
    fates
}

proptest! {
    /// Every packet leaves at the instant that the model says, or is dropped as it says: on the plain link, and where
    /// the queue waits for the clock (CoDel that never acts).
    #[test]
    fn as_mahimahi(
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 5 => 1u64..4, 1 => 5u64..200], 1..40),
        flows in prop::collection::vec((50u32..3000, 40u32..1400), 1..4),
        limit in prop_oneof![Just(1usize), 2usize..40],
        budget in prop_oneof![3 => Just(1500u64), 1 => Just(1504u64), 1 => 100u64..3000],
        number in any::<u64>(),
    ) {
        let mut trace: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
        if trace.last() == Some(&0) {
            trace.push(1);
        }
        let folder = folder(&format!("{number}"));
        let text = trace.iter().fold(String::new(), |text, at| text + &at.to_string() + "\n");
        std::fs::write(folder.join("x.down"), text).unwrap();
        let flows = flows.iter().zip(1..).map(|(&(rate, bytes), number)| {
            udp(rate, bytes).replace("\"udp\"\nstart", &format!("\"udp {number}\"\nstart"))
        });
        let flows: String = flows.collect();
        let link = |queue: &str| format!(
            "delay = \"7 ms\", queue = {{ {queue}, limit = \"{limit} packets\" }}, \
             trace = {{ kind = \"mahimahi\", file = \"x.down\", opportunity = \"{budget} B\" }}, \
             reverse = {{ rate = \"1 Mbit/s\" }}"
        );
        for queue in ["kind = \"drop-tail\"", "kind = \"codel\", target = \"100 s\", interval = \"200 s\""] {
            let run = run_in(&folder, &scenario(&link(queue), &flows));
            let mut records: Vec<_> =
                testkit::hops(&run).iter().filter(|hop| hop.direction == 2).collect();
            records.sort_by_key(|hop| (hop.enqueued, hop.packet));
            let arrivals: Vec<(u64, u64)> =
                records.iter().map(|hop| (hop.enqueued.0, u64::from(hop.bytes))).collect();
            let end = 4_000_000_000 - 7_000_000;
            let fates = model(&trace, budget, limit, &arrivals, end);
            for (hop, fate) in records.iter().zip(fates) {
                let fate = fate.filter(|&at| at <= end);
                let dropped = hop.lost == Some(Cause::QueueOverflow);
                let left = hop.arrived.map(|at| at.0 - 7_000_000);
                prop_assert_eq!(left, fate, "{:?}, dropped: {}", hop, dropped);
                prop_assert!(!dropped || fate.is_none());
            }
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}

/// Both directions have their own files, and TCP lives on them: 12 Mbit/s down (the single line `1`), 4.8 up.
#[test]
fn a_download_over_two_recordings() {
    let folder = folder("both");
    std::fs::write(folder.join("x.down"), "1\n").unwrap();
    std::fs::write(folder.join("x.up"), "0\n5\n5\n10\n").unwrap();
    let link = "delay = \"10 ms\", queue = { kind = \"drop-tail\", limit = \"60 packets\" }, \
                trace = { kind = \"mahimahi\", file = \"x.down\" }, \
                reverse = { trace = { kind = \"mahimahi\", file = \"x.up\" } }";
    let flow = "[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"cubic\"\nstart = \"0 s\"\n";
    let run = run_in(&folder, &scenario(link, flow).replace("\"4 s\"", "\"20 s\""));
    let rate = run.summary.totals.throughput_bit_s / 1e6;
    assert!((11.0..=12.0).contains(&rate), "{rate}");
    let up =
        flow.replace("\"server\"", "\"x\"").replace("\"phone\"", "\"server\"").replace("\"x\"", "\"phone\"");
    let run = run_in(&folder, &scenario(link, &up).replace("\"4 s\"", "\"20 s\""));
    let rate = run.summary.totals.throughput_bit_s / 1e6;
    assert!((4.4..=4.8).contains(&rate), "{rate}");
}

/// A table of rate, delay and loss that repeats every 2 s: a second at 2 Mbit/s and 10 ms, half a second of nothing,
/// half a second at 4 Mbit/s and 30 ms that loses all.
#[test]
fn a_table_of_rate_delay_and_loss() {
    let folder = folder("table");
    let table = "time_s,rate_mbit_s,delay_ms,loss\n0,2,10,0\n1,0,10,0\n1.5,4,30,1\n2,1,1,1\n";
    std::fs::write(folder.join("x.csv"), table).unwrap();
    let link = "queue = { kind = \"drop-tail\", limit = \"2 packets\" }, \
                trace = { kind = \"csv\", file = \"x.csv\", repeat = true }";
    let flow = udp(8000, 972).replace("{ uniform = [\"0 s\", \"1 s\"] }", "\"0 s\"");
    let run = run_in(&folder, &scenario(link, &flow));
    let hops: Vec<_> = testkit::hops(&run).iter().filter(|hop| hop.direction == 2).collect();
    let sent = |from: u64, to: u64| {
        let within = |at: Time| (from * 1_000_000..to * 1_000_000).contains(&at.0);
        hops.iter().filter(|hop| hop.transmitted.is_some_and(within)).count()
    };
    // 4 ms and 2 ms each.
    assert!(sent(2000, 3000).abs_diff(250) <= 1 && sent(3500, 4000).abs_diff(250) <= 1);
    assert!(sent(3005, 3500) == 0, "{}", sent(3005, 3500));
    for hop in &hops {
        let Some(arrived) = hop.arrived else { continue };
        let started = hop.transmitted.unwrap();
        let (second, way) = (started.0 % 2_000_000_000, arrived.since(started).0);
        // One that ends in the next round is judged by its row, but does not overtake those before it: they take 30 ms.
        let late = !(25_000_000..=1_998_000_000).contains(&second);
        assert!(second < 1_000_000_000 || late, "lost from 1.5 s on: {started} to {arrived}");
        // One that is being sent when the link pauses goes on half a second later.
        assert!(way == 14_000_000 || second > 996_000_000 || late, "{started} to {arrived}");
    }
    let lost = hops.iter().filter(|hop| hop.lost == Some(Cause::ChannelError)).count();
    assert!(lost.abs_diff(500) <= 4, "{lost}");
}

// ---------------------------------------------------------------------------------------------------------------------
// Two loads

/// A recording of 20 ms for the first packet, one more each 2 ms up to 6 ms, and 10 opportunities in 20 ms when full.
fn two_loads(name: &str, light: &str, more: &str) -> (PathBuf, String) {
    let folder = folder(name);
    std::fs::write(folder.join("x.light"), light).unwrap();
    let heavy = (1..=10).fold(String::new(), |text, at| text + &format!("{}\n", 2 * at));
    std::fs::write(folder.join("x.down"), heavy).unwrap();
    let trace = format!(
        "trace = {{ kind = \"cellreplay\", light = \"x.light\", file = \"x.down\"{more} }}, \
         reverse = {{ rate = \"1 Mbit/s\" }}"
    );
    (folder, format!("delay = \"7 ms\", queue = {{ kind = \"drop-tail\", limit = \"20 packets\" }}, {trace}"))
}

const STEADY: &str = "0 20 0 2 4 6\n1000 20 0\n";

/// A quiet flow takes the base delay and the link's; one that sends more than the train joins the full link behind it,
/// which carries 1400 B each 2 ms: the queue of 20 packets is full, and the link never rests.
#[test]
fn two_loads_are_two_readings() {
    let (folder, link) = two_loads("both", STEADY, "");
    let quiet = run_in(&folder, &scenario(&link, &udp(80, 1000).replace(", random = true", "")));
    let delay = quiet.summary.flows[0].delay_mean_s.unwrap();
    // 1 ms and 80 us of the first link.
    assert!((delay - 0.02808).abs() < 1e-5, "{delay}");
    // Without a timer each packet that comes later than the last begins a train, however fast they come.
    let smooth = run_in(&folder, &scenario(&link, &udp(8000, 1372)));
    assert!(smooth.summary.flows[0].throughput_bit_s > 7e6);
    let timed = link.replace("file =", "timer = \"20 ms\", file =");
    let busy = run_in(&folder, &scenario(&timed, &udp(8000, 1372)));
    let flow = &busy.summary.flows[0];
    assert!((flow.delay_p50_s.unwrap() - 0.068).abs() < 0.003, "{flow:?}");
    let rate = flow.throughput_bit_s * 4.0 / (4.0 - flow.start_s.unwrap());
    assert!((rate / 5.6e6 - 1.0).abs() < 0.02, "{rate}");
    assert!(flow.packets_lost.0[Cause::QueueOverflow as usize] > 100);
    // The same recording without its light load: as Mahimahi has it, a quiet flow waits 1 ms on the mean.
    let (start, end) = (link.find("trace = {").unwrap(), link.find(", reverse").unwrap());
    let full = "trace = { kind = \"mahimahi\", file = \"x.down\", opportunity = \"1400 B\" }";
    let flattered = format!("{}{full}{}", &link[..start], &link[end..]);
    let run = run_in(&folder, &scenario(&flattered, &udp(80, 1000)));
    assert!(run.summary.flows[0].delay_mean_s < Some(0.011));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is recorded and sent: both ways to run it agree, everything is accounted for, nothing is overtaken, and
    /// an outage that holds packets ends.
    #[test]
    fn two_loads_keep_the_order(
        trains in prop::collection::vec((1u64..300, 0u64..80, prop::collection::vec(0u64..20, 0..6)), 2..8),
        flows in prop::collection::vec((20u32..3000, 40u32..1400), 1..4),
        timer in 0u64..30,
        opportunity in 100u32..3000,
        number in any::<u64>(),
    ) {
        let mut at = 0;
        let light = trains.iter().fold(String::new(), |text, (gap, delay, offsets)| {
            let mut behind = 0;
            let offsets = offsets.iter().map(|offset| { behind += offset; format!(" {behind}") });
            let line = format!("{at} {delay} 0{}\n", offsets.collect::<String>());
            at += gap;
            text + &line
        });
        let more = format!(", timer = \"{timer} ms\", opportunity = \"{opportunity} B\"");
        let (folder, link) = two_loads(&format!("two-{number}"), &light, &more);
        let link = format!("{link}, handoff = {{ at = [\"2 s\"], outage = \"100 ms\", policy = \"hold\" }}");
        let flows = flows.iter().zip(1..).map(|(&(rate, bytes), number)| {
            udp(rate, bytes).replace("\"udp\"\nstart", &format!("\"udp {number}\"\nstart"))
        });
        let file = "[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"cubic\"\nstart = \"0 s\"\n";
        let run = run_in(&folder, &scenario(&link, &(flows.collect::<String>() + file)));
        let mut records: Vec<_> = testkit::hops(&run).iter().filter(|hop| hop.direction == 2).collect();
        prop_assert!(!records.is_empty());
        records.retain(|hop| hop.arrived.is_some());
        records.sort_by_key(|hop| (hop.enqueued, hop.arrived));
        prop_assert!(records.is_sorted_by_key(|hop| hop.arrived));
    }
}

/// What is wrong with the files of a recording of two loads is told at the key that names them.
#[test]
fn files_of_two_loads_that_are_refused() {
    for (light, more, told) in [
        ("0 20 0\n", "", "fewer than two trains"),
        ("0 20 3\n9 20 0\n", "", "do not rise from 0"),
        (STEADY, ", sizes = \"none\"", "the offsets by size cannot be read"),
        (STEADY, ", sizes = \"x.down\"", "no offset"),
        (STEADY, ", repeat = true", "repeat"),
    ] {
        let (folder, link) = two_loads("refused", light, more);
        let text = scenario(&link, &udp(80, 1000));
        let error = Scenario::parse_with(&text, Format::Toml, ("test", folder.as_path()), &[], &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains(told), "{error}");
    }
    let (folder, link) = two_loads("absent", STEADY, "");
    std::fs::remove_file(folder.join("x.light")).unwrap();
    let text = scenario(&link, &udp(80, 1000));
    let error = Scenario::parse_with(&text, Format::Toml, ("test", folder.as_path()), &[], &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("the light load cannot be read") && error.contains("light ="), "{error}");
}
