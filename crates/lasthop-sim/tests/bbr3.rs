//! BBRv3 over one bottleneck of 10 Mbit/s with an RTT of 40 ms: rate, visits to the empty path, losses, other senders.

use lasthop_sim::run::Run;
use lasthop_sim::summary::Summary;

use crate::testkit::{Scene, TRACE, drop_tail};

fn path(transport: &str, flows: u32, queue: u32, error: &str) -> Run {
    let limit = drop_tail(&format!("{queue} packets"));
    Scene::lasting("40 s")
        .with("warmup = \"5 s\"")
        .dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = {error}\n{limit}"),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
        )
        .flow(&format!(
            "count = {flows}\ntransport = {transport}\ntraffic = \"ftp\"\n\
             start = {{ uniform = [\"0 s\", \"100 ms\"] }}"
        ))
        .run(1, TRACE)
}

const SACK: &str = "{ cc = \"bbr3\", recovery = \"sack\" }";

/// With every recovery engine: nine tenths of the link, little queue, and a visit to the empty path every five seconds,
/// which leaves half the product of 33.3 segments in flight.
#[test]
fn the_link_is_used_and_the_empty_path_visited() {
    for transport in [
        SACK,
        "{ cc = \"bbr3\", recovery = \"rack\" }",
        "\"bbr3\"",
        "{ cc = \"bbr3\", recovery = \"rack\", profile = \"linux\" }",
    ] {
        let run = path(transport, 1, 100, "\"none\"");
        let link = &run.summary.links[0];
        assert!(link.utilisation > 0.9, "{transport}: {}", link.utilisation);
        assert!(link.avg_queue_packets.unwrap() < 15.0, "{transport}: {}", link.avg_queue_packets.unwrap());
        let windows = &run.recorded.windows;
        let falls = windows.windows(2).filter(|pair| pair[0].cwnd > 40.0 && pair[1].cwnd < 25.0);
        let visits: Vec<f64> = falls.map(|pair| pair[1].time.seconds()).collect();
        assert!((6..=8).contains(&visits.len()), "{transport}: {visits:?}");
        for pair in visits.windows(2) {
            assert!((5.0..6.0).contains(&(pair[1] - pair[0])), "{transport}: {visits:?}");
        }
    }
}

/// Below 2 % losses lower nothing for long; far above they do.
#[test]
fn losses_below_the_threshold_cost_little() {
    let lossy = |share: &str| {
        let error = format!("{{ kind = \"bernoulli\", packet_error_rate = {share} }}");
        path(SACK, 1, 100, &error).summary.links[0].utilisation
    };
    assert!(lossy("0.005") > 0.85, "{}", lossy("0.005"));
    assert!(lossy("0.15") < 0.8 * lossy("0.005"), "{}", lossy("0.15"));
}

/// Three flows share a link whose queue holds half of the product: a flow has eleven segments in flight, so that the
/// first loss ends its probe. Version 1 takes no notice, and loses several times as much.
#[test]
fn a_shallow_queue_is_not_flooded() {
    let three = path(SACK, 3, 17, "\"none\"").summary;
    let one = path("{ cc = \"bbr\", recovery = \"sack\" }", 3, 17, "\"none\"").summary;
    // The link carries 29,167 packets in the 35 s that are measured.
    let lost = |summary: &Summary| {
        summary.flows.iter().map(|flow| flow.retransmitted_packets.unwrap()).sum::<u64>() as f64 / 29_167.0
    };
    assert!(three.links[0].utilisation > 0.9);
    assert!(lost(&three) < lost(&one) / 2.0, "{} {}", lost(&three), lost(&one));
}
