//! smoltcp over links whose answer is known.

use lasthop::{Link, Network, Path, Span, Time};
use lasthop_net::trace::Recording;
use lasthop_sim::run::Progress;
use lasthop_sim::scenario::{Format, Scenario};
use lasthop_sim::summary::FlowSummary;
use lasthop_stacks::smoltcp::{self, Congestion, Settings};
use lasthop_stacks::{Run, scenario};

/// What 10 Mbit/s leave for data: 1460 of 1500 bytes, as smoltcp sends no options with data.
const CEILING: f64 = 10e6 * 1460.0 / 1500.0;

/// A flow over 10 Mbit/s and 20 ms each way, with other keys of the link and the flow, and a hash of the run.
fn lone(seconds: u32, link: &str, flow: &str, seed: u64) -> (FlowSummary, String) {
    let text = format!(
        "duration = \"{seconds} s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"phone\"]\nlinks = [{{ from \
         = \"server\", to = \"phone\", rate = \"10 Mbit/s\", delay = \"20 ms\", {link} }}]\n[[flows]]\nsource = \
         \"server\"\nsink = \"phone\"\n{flow}\n"
    );
    let scenario = Scenario::parse(&text, Format::Toml, "test", &[]).unwrap();
    let run = scenario::run(scenario.plan(), seed, Recording::default(), &Progress::default()).unwrap();
    let print = run.summary.fingerprint.clone();
    (run.summary.flows.into_iter().next().unwrap(), print)
}

fn queue(packets: u32) -> String {
    format!("queue = {{ kind = \"drop-tail\", limit = \"{packets} packets\" }}")
}

/// With a queue that is longer than its buffer nothing is lost, and each control fills 95 % of what headers leave.
#[test]
fn a_clean_link_is_filled() {
    for congestion in Congestion::ALL.map(Congestion::name) {
        let flow = format!("transport = {{ stack = \"smoltcp\", congestion = \"{congestion}\" }}");
        let (flow, _) = lone(30, &queue(1000), &flow, 1);
        let rate = flow.goodput_bit_s;
        assert!(rate > 0.95 * CEILING && rate < 1.001 * CEILING, "{congestion}: {rate} bit/s");
        assert_eq!(flow.transport, format!("smoltcp:{congestion}"));
        assert_eq!((flow.retransmitted_packets.unwrap(), flow.packets_lost.0.iter().sum::<u64>()), (0, 0));
        // It tells no RTT, and one in two packets is acknowledged at least.
        assert_eq!(flow.rtt_mean_s, None);
        assert!(2 * flow.acks_sent >= flow.bytes_delivered / 1460, "{} ACKs", flow.acks_sent);
    }
}

/// With 50 packets slow start overflows the queue once. What it lost is repeated one hole a round trip, or by the timer
/// of a second: that is the stack's own shortfall. Behind it the link is full.
#[test]
fn what_slow_start_loses_is_its_own() {
    for congestion in ["cubic", "reno"] {
        let flow = format!("transport = \"smoltcp:{congestion}\"");
        let (all, _) = lone(60, &queue(50), &flow, 1);
        let (first, _) = lone(30, &queue(50), &flow, 1);
        let later = (all.bytes_delivered - first.bytes_delivered) as f64 * 8.0 / 30.0;
        assert!(later > 0.99 * CEILING && later < 1.001 * CEILING, "{congestion}: {later} bit/s");
        assert!(first.goodput_bit_s < 0.95 * CEILING, "{congestion}: {} bit/s", first.goodput_bit_s);
        // What was lost was sent again, and more: it does not know what has arrived.
        let lost: u64 = first.packets_lost.0.iter().sum();
        assert!(
            lost > 20 && first.retransmitted_packets.unwrap() >= lost,
            "{}",
            first.retransmitted_packets.unwrap()
        );
    }
}

/// 1 MB takes 0.82 s on the wire, and the handshake and slow start some round trips of 40 ms.
#[test]
fn a_transfer_ends() {
    let flow = "transport = \"smoltcp\"\ntraffic = { kind = \"ftp\", bytes = \"1 MB\" }";
    let (flow, _) = lone(10, &queue(1000), flow, 1);
    assert_eq!(flow.bytes_delivered, 1_000_000);
    let took = flow.completion_s.unwrap();
    assert!((0.9..1.4).contains(&took), "{took} s");
    assert_eq!(flow.reset_s, None);
}

/// Nothing leaves before the start, and little arrives after the reset at the stop.
#[test]
fn a_flow_starts_and_stops() {
    let (one, _) = lone(20, &queue(1000), "transport = \"smoltcp:reno\"\nstart = \"2 s\"\nstop = \"5 s\"", 1);
    assert_eq!(one.start_s, Some(2.0));
    let seconds = one.bytes_delivered as f64 * 8.0 / CEILING;
    // At the stop up to a buffer of data is in the queue, which is 0.9 s.
    assert!((2.6..4.0).contains(&seconds), "{seconds} s of data");
    assert_eq!((one.completion_s, one.reset_s), (None, None));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let lossy = format!("{}, error = {{ kind = \"bernoulli\", packet_error_rate = 0.01 }}", queue(50));
    let print = |seed| lone(20, &lossy, "transport = \"smoltcp\"", seed).1;
    assert_eq!(print(3), print(3));
    assert_ne!(print(3), print(4));
}

/// Its packets are as long as the path takes them.
#[test]
fn short_links_are_known() {
    let (flow, _) = lone(20, &format!("{}, mtu = \"1300 B\"", queue(1000)), "transport = \"smoltcp\"", 1);
    let ceiling = 10e6 * 1260.0 / 1300.0;
    assert!(flow.goodput_bit_s > 0.95 * ceiling && flow.goodput_bit_s < 1.001 * ceiling, "{flow:?}");
}

/// Packets are lost, doubled, reordered, cut short and flipped. The transfer ends, and what arrives is what was sent;
/// nothing panics.
#[test]
fn a_hostile_network_is_survived() {
    let mut finished = 0;
    for seed in 0..20 {
        let link = Link::new(10_000_000).delay_ms(20).queue_packets(50).loss(0.02).duplicate(0.05);
        let link = link.reorder_within(std::time::Duration::from_millis(10));
        let mut run = Run::new(Network::new(&Path::new(["server", "phone"]).link(link), seed).unwrap(), seed);
        let congestion = Congestion::ALL[seed as usize % 2];
        let settings = Settings { congestion, bytes: Some(200_000), ..Settings::default() };
        let connection = run.connect("server", "phone", |ends| smoltcp::pair(&settings, ends)).unwrap();
        run.network().damage(0.02, 0.02);
        run.until(Time::ZERO + Span::from_secs(600));
        assert_eq!(run.failures(), [], "seed {seed}");
        let (sender, receiver) = (run.report(connection.sender), run.report(connection.receiver));
        if receiver.finished.is_some() {
            assert_eq!(receiver.delivered_bytes, 200_000, "seed {seed}");
            finished += 1;
        } else {
            assert!(sender.closed.or(receiver.closed).is_some(), "seed {seed}");
        }
    }
    assert!(finished >= 15, "{finished} of 20 transfers ended");
}
