//! ABBA, C2TCP, Copa, LEDBAT++ and SEARCH over one bottleneck, mostly of 10 Mbit/s with an RTT of 40 ms: what each of
//! them is for.

use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, Scene, drop_tail};

fn path(transport: &str, flows: u32, queue: u32, error: &str) -> Run {
    let limit = drop_tail(&format!("{queue} packets"));
    Scene::lasting("40 s")
        .with("warmup = \"5 s\"")
        .dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = {error}\n{limit}"),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
        )
        .flow(&format!(
            "count = {flows}\ntransport = {{ cc = \"{transport}\", recovery = \"rack\" }}\ntraffic = \"ftp\"\n\
             start = {{ uniform = [\"0 s\", \"100 ms\"] }}"
        ))
        .run(1, SUMMARY)
}

fn queue_of(run: &Run) -> f64 {
    run.summary.links[0].avg_queue_packets.unwrap()
}

/// Losses in the air cost it less than they cost CUBIC, for the RTT says that the path is not full.
#[test]
fn abba_regains_what_losses_in_the_air_take() {
    let error = "{ kind = \"bernoulli\", packet_error_rate = 0.01 }";
    let goodput = |law: &str| path(law, 1, 100, error).summary.flows[0].goodput_bit_s;
    assert!(goodput("abba") > 1.2 * goodput("cubic"), "{} {}", goodput("abba"), goodput("cubic"));
}

/// Before a deep queue the delay stays near the setpoint, where CUBIC fills it.
#[test]
fn c2tcp_bounds_the_delay() {
    let (law, cubic) = (path("c2tcp", 1, 300, "\"none\""), path("cubic", 1, 300, "\"none\""));
    assert!(queue_of(&law) < 0.25 * queue_of(&cubic), "{} {}", queue_of(&law), queue_of(&cubic));
    assert!(law.summary.links[0].utilisation > 0.7, "{}", law.summary.links[0].utilisation);
}

/// About `1/delta`, two, segments of each flow wait; the window swings to 2.5 times that (paper, 2.2).
#[test]
fn copa_keeps_two_segments_of_each_flow_in_the_queue() {
    for flows in [1, 4] {
        let run = path("copa", flows, 200, "\"none\"");
        let link = &run.summary.links[0];
        let most = 2.5 * 2.0 * f64::from(flows);
        assert!(queue_of(&run) < most, "{flows}: {}", queue_of(&run));
        assert!(link.utilisation > 0.9, "{flows}: {}", link.utilisation);
        assert_eq!(run.summary.totals.retransmitted_packets.unwrap(), 0, "{flows}");
        let jain = run.summary.totals.jain_index.unwrap();
        assert!(jain > 0.9, "{flows}: {jain}");
    }
}

/// Losses in the air are no reason to slow down.
#[test]
fn copa_fills_a_lossy_path() {
    let run = path("copa", 1, 200, "{ kind = \"bernoulli\", packet_error_rate = 0.01 }");
    assert!(run.summary.links[0].utilisation > 0.85, "{}", run.summary.links[0].utilisation);
}

/// Beside CUBIC, which fills the queue, Copa competes; without that it is left with the rest.
#[test]
fn copa_competes_with_a_flow_that_fills_the_queue() {
    let goodput = |competes: bool| {
        let flow = |transport: &str| {
            format!(
                "transport = {transport}\ntraffic = \"ftp\"\nstart = {{ uniform = [\"0 s\", \"100 ms\"] }}"
            )
        };
        let run = Scene::lasting("60 s")
            .with("warmup = \"10 s\"")
            .dumbbell(
                &format!(
                    "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = \"none\"\n{}",
                    drop_tail("67 packets")
                ),
                &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
            )
            .flow(&flow(&format!("{{ cc = \"copa\", recovery = \"rack\", competes = {competes} }}")))
            .flow(&flow("{ cc = \"cubic\", recovery = \"rack\" }"))
            .run(1, SUMMARY);
        run.summary.flows[0].goodput_bit_s
    };
    assert!(goodput(true) > 2.0 * goodput(false), "{} {}", goodput(true), goodput(false));
}

/// Two flows before a queue of `queue` packets, the second from 20 s on; their goodputs from 60 s on.
fn beside(transports: [&str; 2], queue: u32) -> (Run, [f64; 2]) {
    let flow = |transport: &str, start: u32| {
        format!("transport = {transport}\ntraffic = \"ftp\"\nstart = \"{start} s\"")
    };
    let run = Scene::lasting("120 s")
        .with("warmup = \"60 s\"")
        .dumbbell(
            &format!(
                "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = \"none\"\n{}",
                drop_tail(&format!("{queue} packets"))
            ),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
        )
        .flow(&flow(transports[0], 0))
        .flow(&flow(transports[1], 20))
        .run(1, SUMMARY);
    let goodputs = [0, 1].map(|flow: usize| run.summary.flows[flow].goodput_bit_s);
    (run, goodputs)
}

const BACKGROUND: &str = "\"ledbat++\"";

/// Alone it fills the link with a queue of no more than its target, 60 ms or 50 packets; beside Reno, whose queue is
/// longer, it keeps next to nothing, whichever came first; two of them share, though one came late.
#[test]
fn ledbat_steps_back_for_others_and_shares_with_its_own() {
    let alone = path("ledbat++", 1, 200, "\"none\"");
    let link = &alone.summary.links[0];
    assert!(link.utilisation > 0.85, "{}", link.utilisation);
    assert!(queue_of(&alone) < 50.0, "{}", queue_of(&alone));

    let (_, [early, reno]) = beside([BACKGROUND, "\"newreno\""], 150);
    assert!(early < 0.1 * reno, "{early} {reno}");
    let (_, [reno, late]) = beside(["\"newreno\"", BACKGROUND], 150);
    assert!(late < 0.1 * reno, "{late} {reno}");

    let (_, [early, late]) = beside([BACKGROUND; 2], 200);
    assert!(late > 0.4 * early && early > 0.4 * late, "{early} {late}");
}

/// Slow start sends at twice the link's rate, so that a quarter is missing when some half of the 3.5 RTTs lie behind
/// the moment at which the path was full, and the RTT has grown meanwhile: at 5.4 paths. Before a queue of six it ends
/// without the losses of an overflow.
#[test]
fn search_ends_slow_start_before_the_queue_overflows() {
    let with = |exit: &str| {
        let hop = |rate: &str, delay: u32, queue: u32| {
            let limit = drop_tail(&format!("{queue} packets"));
            format!("rate = \"{rate}\"\ndelay = \"{delay} ms\"\nerror = \"none\"\n{limit}")
        };
        Scene::lasting("8 s")
            .dumbbell(&hop("50 Mbit/s", 30, 2000), &hop("1 Gbit/s", 5, 5000))
            .flow(&format!(
                "transport = {{ cc = \"cubic\", recovery = \"rack\", hystart = \"{exit}\" }}\ntraffic = \"ftp\""
            ))
            .run(1, SUMMARY)
    };
    let (search, off) = (with("search"), with("off"));
    assert!(
        off.summary.totals.retransmitted_packets.unwrap() > 500,
        "{}",
        off.summary.totals.retransmitted_packets.unwrap()
    );
    assert_eq!(search.summary.totals.retransmitted_packets.unwrap(), 0);
    assert!(search.summary.links[0].utilisation > 0.85, "{}", search.summary.links[0].utilisation);
}

/// Losses one by one, of one packet in a hundred, are let pass, and a path with errors in the air is filled. So is
/// what a queue drops one by one: beside a filter of losses a CUBIC that answers them is starved.
#[test]
fn filtered_losses_in_the_air_cost_little_and_harm_others() {
    let run = |filters: &[&str], error: &str| {
        let scene = Scene::lasting("40 s").with("warmup = \"5 s\"").dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = {error}\n{}", drop_tail("30 packets")),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
        );
        let flow = |scene: Scene, filter: &&str| {
            let transport = format!("transport = {{ cc = \"cubic\", recovery = \"rack\"{filter} }}");
            scene.flow(&format!("{transport}\ntraffic = \"ftp\"\nstart = {{ uniform = [\"0 s\", \"1 s\"] }}"))
        };
        filters.iter().fold(scene, flow).run(1, SUMMARY)
    };
    let goodput = |run: &Run, flow: usize| run.summary.flows[flow].goodput_bit_s;
    let (filter, error) = (", loss_filter = 0.15", "{ kind = \"bernoulli\", packet_error_rate = 0.01 }");
    let (filtered, plain) = (run(&[filter], error), run(&[""], error));
    assert!(goodput(&filtered, 0) > 1.3 * goodput(&plain, 0), "{}", goodput(&plain, 0));
    assert!(goodput(&filtered, 0) > 8.5e6, "{}", goodput(&filtered, 0));
    let both = run(&[filter, ""], "\"none\"");
    assert!(goodput(&both, 0) > 10.0 * goodput(&both, 1), "{} {}", goodput(&both, 0), goodput(&both, 1));
}

/// TACK over 10 Mbit/s with an RTT of 40 ms at least: about 833 segments a second, so 416 ACKs for two segments each,
/// but 100 if there are to be four in the minimum RTT; of one a millisecond the segments decide again. The file comes
/// whole, and as fast.
#[test]
fn tack_has_the_acks_of_its_formula() {
    let run = |keys: &str| {
        Scene::lasting("20 s")
            .with("warmup = \"5 s\"")
            .dumbbell(
                &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{}", drop_tail("60 packets")),
                &format!("rate = \"1 Gbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
            )
            .flow(&format!(
                "transport = {{ cc = \"bbr\", recovery = \"rack\", delayed_ack = {{ segments = 2{keys} }} }}\n\
                 traffic = \"ftp\""
            ))
            .run(1, SUMMARY)
    };
    for (keys, expected) in [("", 416.0), (", per_rtt = 4", 100.0), (", per_rtt = 40", 416.0)] {
        let run = run(keys);
        let acks = run.summary.flows[0].acks_sent as f64 / 15.0;
        assert!((acks / expected - 1.0).abs() < 0.05, "{keys}: {acks} a second");
        assert!(run.summary.flows[0].goodput_bit_s > 8.8e6, "{keys}");
    }
}

/// C2TCP restarts from one segment. The ACK of a lone segment may be delayed, and then its RTT is above the setpoint
/// again: such a sender stayed at one segment for ever over a clean link.
#[test]
fn c2tcp_does_not_stay_at_one_segment() {
    for profile in ["rfc", "linux"] {
        for (delay, packets) in [(5, 50), (5, 200), (10, 200), (40, 200)] {
            let clean = format!(
                "rate = \"20 Mbit/s\"\ndelay = \"{delay} ms\"\n{}",
                drop_tail(&format!("{packets} packets"))
            );
            let run = Scene::lasting("60 s")
                .with(&format!("[tcp]\nprofile = \"{profile}\""))
                .chain(["server", "phone"], &[&clean])
                .between("server", "phone", "transport = { cc = \"c2tcp\", recovery = \"rack\" }")
                .run(1, SUMMARY);
            let goodput = run.summary.flows[0].goodput_bit_s;
            assert!(goodput > 10e6, "{profile}, {delay} ms, {packets} packets: {goodput}");
        }
    }
}

/// Without notices SaTCP is CUBIC in every profile, packet for packet: what Linux counts in whole segments, too.
#[test]
fn satcp_without_notices_is_the_cubic_of_its_profile() {
    for profile in ["rfc", "ns2", "linux"] {
        let run = |law: &str| {
            let lossy = format!(
                "rate = \"10 Mbit/s\"\ndelay = \"15 ms\"\n{}\nerror = {{ kind = \"bernoulli\", \
                 packet_error_rate = 0.01 }}",
                drop_tail("50 packets")
            );
            let run = Scene::lasting("30 s")
                .with(&format!("[tcp]\nprofile = \"{profile}\""))
                .chain(["user", "server"], &[&lossy])
                .between("user", "server", &format!("transport = {{ cc = \"{law}\", recovery = \"rack\" }}"))
                .run(1, SUMMARY);
            (run.summary.flows[0].bytes_delivered, run.summary.fingerprint)
        };
        assert_eq!(run("satcp"), run("cubic"), "{profile}");
    }
}

/// The grid of a constellation whose satellites are assigned anew at 12, 27, 42 and 57 s of each minute: handovers of
/// two lengths, over paths of two, that lose what is in the air or keep it. A user uploads, and its dish says half a
/// second before that a handover comes, or nothing. Without notices SaTCP is CUBIC, packet for packet; with them it
/// never carries less, but for what a burst costs, and where handovers cost packets a few per cent more.
#[test]
fn satcp_over_announced_handovers() {
    let run = |law: &str, outage: u32, policy: &str, delay: u32, warning: &str| {
        let at: Vec<String> = (0..8).map(|number| format!("\"{} s\"", 12 + 15 * number)).collect();
        let dish = format!(
            "rate = \"20 Mbit/s\"\ndelay = \"{delay} ms\"\n{}\nhandoff = {{ at = [{}], outage = \"{outage} ms\", \
             policy = \"{policy}\"{warning} }}",
            drop_tail("100 packets"),
            at.join(", ")
        );
        let wire = format!("rate = \"1 Gbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("1000 packets"));
        let run = Scene::lasting("120 s")
            .with("[tcp]\nreceiver_window = \"1000 packets\"")
            .chain(["user", "gateway", "server"], &[&dish, &wire])
            .between("user", "server", &format!("transport = {{ cc = \"{law}\", recovery = \"rack\" }}"))
            .run(1, SUMMARY);
        (
            run.summary.flows[0].bytes_delivered,
            run.summary.flows[0].timeouts.unwrap(),
            run.summary.fingerprint,
        )
    };
    let told = ", warning = \"500 ms\"";
    let mut gains = Vec::new();
    for outage in [100, 500] {
        for policy in ["drop-air", "hold"] {
            for delay in [25, 45] {
                let what = format!("{outage} ms, {policy}, {delay} ms");
                assert_eq!(
                    run("satcp", outage, policy, delay, ""),
                    run("cubic", outage, policy, delay, ""),
                    "{what}"
                );
                let (law, cubic) =
                    (run("satcp", outage, policy, delay, told), run("cubic", outage, policy, delay, told));
                let gain = law.0 as f64 / cubic.0 as f64;
                assert!(gain > 0.97, "{what}: {law:?} {cubic:?}");
                gains.push((what, gain));
            }
        }
    }
    assert!(gains.iter().any(|(_, gain)| *gain > 1.02), "{gains:?}");
}
