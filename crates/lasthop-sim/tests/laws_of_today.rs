//! ABBA, C2TCP and Copa over one bottleneck of 10 Mbit/s with an RTT of 40 ms: what each of them is for.

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
        assert_eq!(run.summary.totals.retransmitted_packets, 0, "{flows}");
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
