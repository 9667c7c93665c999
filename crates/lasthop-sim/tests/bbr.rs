//! BBR over one bottleneck of 10 Mbit/s with an RTT of 40 ms: rate, window, visits to the empty path, losses.

use lasthop_sim::run::Run;
use lasthop_sim::summary::Summary;

use crate::testkit::{SUMMARY, Scene, TRACE, drop_tail, hops};

fn path(transport: &str, flows: u32, queue: u32, error: &str, traffic: &str) -> Run {
    path_of(transport, flows, queue, error, traffic).run(1, TRACE)
}

fn path_of(transport: &str, flows: u32, queue: u32, error: &str, traffic: &str) -> Scene {
    let limit = drop_tail(&format!("{queue} packets"));
    Scene::lasting("40 s")
        .with("warmup = \"2 s\"")
        .dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = {error}\n{limit}"),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
        )
        .flow(&format!(
            "count = {flows}\ntransport = {transport}\ntraffic = {traffic}\n\
             start = {{ uniform = [\"0 s\", \"100 ms\"] }}"
        ))
}

/// Starts of visits to the empty path: the window falls to four segments.
fn visits(run: &Run) -> Vec<f64> {
    let windows = &run.recorded.windows;
    let falls = windows.windows(2).filter(|pair| pair[0].cwnd > 4.0 && pair[1].cwnd == 4.0);
    falls.map(|pair| pair[1].time.seconds()).collect()
}

/// TV-11.5 in a run, with every recovery engine: nine tenths of the link, a small queue, and a visit to the empty path
/// every ten seconds.
#[test]
fn the_link_is_used_and_the_empty_path_visited() {
    for transport in
        ["\"bbr\"", "{ cc = \"bbr\", recovery = \"newreno\" }", "{ preset = \"bbr\", profile = \"linux\" }"]
    {
        let run = path(transport, 1, 100, "\"none\"", "\"ftp\"");
        let link = &run.summary.links[0];
        assert!(link.utilisation > 0.9, "{transport}: {}", link.utilisation);
        assert!(run.summary.flows[0].goodput_bit_s > 0.9 * 10e6 * 1448.0 / 1500.0, "{transport}");
        assert!(link.avg_queue_packets.unwrap() < 15.0, "{transport}: {}", link.avg_queue_packets.unwrap());
        let visits = visits(&run);
        assert!((3..=4).contains(&visits.len()), "{transport}: {visits:?}");
        for pair in visits.windows(2) {
            assert!((10.0..11.0).contains(&(pair[1] - pair[0])), "{transport}: {visits:?}");
        }
    }
}

/// Losses of the air are no reason to slow down.
#[test]
fn random_losses_cost_little() {
    let error = "{ kind = \"bernoulli\", packet_error_rate = 0.01 }";
    let bbr = path("\"bbr\"", 1, 100, error, "\"ftp\"").summary;
    let reno = path("\"sack\"", 1, 100, error, "\"ftp\"").summary;
    assert!(bbr.links[0].utilisation > 0.85, "{}", bbr.links[0].utilisation);
    assert!(bbr.flows[0].goodput_bit_s > 2.0 * reno.flows[0].goodput_bit_s);
}

/// Several flows share the link, and a shallow buffer does not bring them down. The gain cycle lets a flow push for a
/// quarter more and makes it give a quarter back; shares that stay within a quarter of the fair one have a Jain index
/// of 1 / (1 + 1/16) or more. The mean of five runs keeps that bound (single runs come down to 0.9).
#[test]
fn flows_share_the_link() {
    let scene = path_of("\"bbr\"", 4, 50, "\"none\"", "\"ftp\"");
    let runs: Vec<Summary> = (1..=5).map(|seed| scene.run(seed, SUMMARY).summary).collect();
    for run in &runs {
        assert!(run.links[0].utilisation > 0.9, "{}", run.links[0].utilisation);
    }
    let indices: Vec<f64> = runs.iter().map(|run| run.totals.jain_index.unwrap()).collect();
    assert!(indices.iter().sum::<f64>() / 5.0 >= 1.0 / (1.0 + 1.0 / 16.0), "{indices:?}");
}

/// An application that offers 1 Mbit/s is not taken for the path: what it offers arrives without queueing.
#[test]
fn an_application_limits_without_harm() {
    let traffic = "{ kind = \"paced-ftp\", write = \"5000 B\", interval = \"40 ms\" }";
    let run = path("\"bbr\"", 1, 100, "\"none\"", traffic);
    let flow = &run.summary.flows[0];
    assert!((flow.goodput_bit_s - 1e6).abs() < 2e4, "{}", flow.goodput_bit_s);
    assert!(flow.delay_p99_s.unwrap() < 0.04, "{:?}", flow.delay_p99_s);
}

/// Pacing: once the path is known, segments leave a source one at a time.
#[test]
fn segments_leave_one_at_a_time() {
    let run = path("\"bbr\"", 1, 100, "\"none\"", "\"ftp\"");
    let sent: Vec<u64> = hops(&run)
        .iter()
        .filter(|hop| hop.direction == 2 && hop.payload > 0 && hop.enqueued.seconds() > 2.0)
        .map(|hop| hop.enqueued.0)
        .collect();
    // 1500 B at 1.25 times 10 Mbit/s take 0.96 ms.
    let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.filter(|&gap| gap < 900_000).count() * 100 < sent.len(), "{}", sent.len());
}
