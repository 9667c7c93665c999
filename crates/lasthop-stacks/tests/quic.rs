//! quinn and noq over links whose answer is known.

use lasthop::{Link, Network, Path, Span, Time};
use lasthop_stacks::quinn::{Congestion, Settings};
use lasthop_stacks::{Connection, Ends, Run, Stack, noq, quinn};

/// A stack: its name, and what makes both ends of a connection.
type Quic = (&'static str, fn(&Settings, &Ends) -> (String, Box<dyn Stack>, Box<dyn Stack>));
const QUINN: Quic = (quinn::NAME, quinn::pair);
const NOQ: Quic = (noq::NAME, noq::pair);
const STACKS: [Quic; 2] = [QUINN, NOQ];

const CONTROLLERS: [Congestion; 3] = [Congestion::NewReno, Congestion::Cubic, Congestion::Bbr];

/// 10 Mbit/s, 20 ms each way, 50 packets.
fn link() -> Link {
    Link::new(10_000_000).delay_ms(20).queue_packets(50)
}

fn run(stack: Quic, link: Link, settings: &Settings, seed: u64) -> (Run, Connection) {
    let network = Network::new(&Path::new(["server", "phone"]).link(link), seed).unwrap();
    let mut run = Run::new(network, seed);
    let connection = run.connect("server", "phone", |ends| stack.1(settings, ends)).unwrap();
    (run, connection)
}

fn endless(congestion: Congestion) -> Settings {
    Settings { congestion, ..Settings::default() }
}

/// Each stack with each of these.
fn both<T: Clone>(all: &[T]) -> Vec<(Quic, T)> {
    STACKS.iter().flat_map(|stack| all.iter().map(|one| (*stack, one.clone()))).collect()
}

fn after(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// Of a datagram of 1452 bytes about 1417 are data, and on the wire it takes 1480: 9.574 of 10 Mbit/s. Every controller
/// fills 95 % of that in 30 s, set-up and slow start included; but noq's BBR: it gets 90 %,
/// without a loss, over a network that is not ours too.
#[test]
fn a_clean_link_is_filled() {
    for (stack, congestion) in both(&CONTROLLERS) {
        let (mut run, connection) = run(stack, link(), &endless(congestion.clone()), 1);
        run.until(after(30));
        let rate = run.report(connection.receiver).delivered_bytes as f64 * 8.0 / 30.0 / 1e6;
        let ceiling = 10.0 * 1417.0 / 1480.0;
        let least = if stack.0 == noq::NAME && congestion == Congestion::Bbr { 0.85 } else { 0.95 };
        assert!(
            rate > least * ceiling && rate < 1.001 * ceiling,
            "{}, {congestion:?}: {rate} Mbit/s",
            stack.0
        );
        assert_eq!(run.failures(), []);
        let stack = run.report(connection.sender);
        let lost = run.finish().summary.flows[0].packets_lost;
        assert!(stack.lost_packets.is_some(), "{lost:?}");
    }
}

/// The connection is there after one round trip: 40 ms, and what the two flights take to send.
#[test]
fn the_handshake_takes_a_round_trip() {
    for stack in STACKS {
        let (mut run, connection) = run(stack, link(), &Settings::default(), 1);
        run.until(after(1));
        let connected = run.report(connection.sender).connected.unwrap();
        assert!((Time(40_000_000)..Time(43_000_000)).contains(&connected), "{}: {connected}", stack.0);
    }
}

/// Ends that have met before: data leaves with the first datagram, and is there after half a round trip, 20 ms and its
/// transmission, in place of one and a half. The connection is up when the answer is there, as ever. The pacer of noq
/// holds the second datagram of the first flight back: 1200 B at 1.25 windows of 12,000 B in 333 ms, the RTT at first,
/// are 26.64 ms.
#[test]
fn early_data_saves_a_round_trip() {
    let done = |stack, early_data| {
        let settings = Settings { bytes: Some(1000), early_data, ..Settings::default() };
        let (mut run, connection) = run(stack, link(), &settings, 1);
        run.until(after(1));
        assert_eq!(run.failures(), []);
        let (sender, receiver) = (run.report(connection.sender), run.report(connection.receiver));
        assert_eq!(receiver.delivered_bytes, 1000);
        (sender.connected.unwrap(), receiver.finished.unwrap(), run.times())
    };
    for stack in STACKS {
        let ((up, early, times), (plainly_up, plain, _)) = (done(stack, true), done(stack, false));
        let held_back = Span(if stack.0 == noq::NAME { 26_640_000 } else { 0 });
        let soon = Time(20_000_000) + held_back..Time(24_000_000) + held_back;
        assert!(soon.contains(&early), "{}: {early}", stack.0);
        assert!((Time(60_000_000)..Time(67_000_000)).contains(&plain), "{plain}");
        for up in [up, plainly_up] {
            assert!((Time(40_000_000)..Time(43_000_000)).contains(&up), "{up}");
        }
        assert_eq!(times, done(stack, true).2);
    }
}

/// Mathis et al. 1997: MSS / RTT * sqrt(3 / 2p). With losses at one in a hundred the queue stays empty: the RTT is
/// 40 ms and the two transmissions. NewReno of both stacks and ours in them lie within 15 % of it, over 600 s.
#[test]
fn losses_cost_what_the_square_root_says() {
    for (stack, name) in both(&["newreno", "lasthop:reno"]) {
        let settings = endless(Congestion::by_name(stack.0, name).unwrap());
        let (mut run, connection) =
            run(stack, link().loss(0.01).key("reverse", "{ error = \"none\" }"), &settings, 1);
        run.until(after(600));
        let rate = run.report(connection.receiver).delivered_bytes as f64 * 8.0 / 600.0;
        let law = 1417.0 * 8.0 / 0.0415 * (1.5f64 / 0.01).sqrt();
        assert!((rate / law - 1.0).abs() < 0.15, "{} {name}: {rate:.0} bit/s, the law has {law:.0}", stack.0);
    }
}

/// All but noq's BBR: it draws its waits from the system, and takes no seed.
#[test]
fn the_same_seed_gives_the_same_times() {
    let times = |stack, congestion: &Congestion, seed| {
        let (mut run, _) = run(stack, link().loss(0.01), &endless(congestion.clone()), seed);
        run.until(after(10));
        run.times()
    };
    let is_seeded =
        |(stack, congestion): &(Quic, Congestion)| stack.0 != noq::NAME || *congestion != Congestion::Bbr;
    for (stack, congestion) in both(&CONTROLLERS).into_iter().filter(is_seeded) {
        assert_eq!(times(stack, &congestion, 3), times(stack, &congestion, 3), "{} {congestion:?}", stack.0);
        assert_ne!(times(stack, &congestion, 3), times(stack, &congestion, 4), "{} {congestion:?}", stack.0);
    }
}

/// Datagrams are lost, doubled, reordered, cut short and flipped. The transfer ends or the stack says why it does not,
/// and nothing of ours panics.
#[test]
fn a_hostile_network_is_survived() {
    let mut finished = 0;
    for (stack, seed) in both(&(0..20).collect::<Vec<_>>()) {
        let link = link().loss(0.05).duplicate(0.05).reorder_within(std::time::Duration::from_millis(10));
        let congestion = CONTROLLERS[seed as usize % 3].clone();
        let (mut run, connection) = run(
            stack,
            link,
            &Settings { bytes: Some(500_000), early_data: seed % 2 == 0, ..endless(congestion.clone()) },
            seed,
        );
        run.network().damage(0.02, 0.02);
        run.until(after(120));
        assert_eq!(run.failures(), [], "{}, seed {seed}", stack.0);
        let (sender, receiver) = (run.report(connection.sender), run.report(connection.receiver));
        if receiver.finished.is_some() {
            assert_eq!(receiver.delivered_bytes, 500_000);
            finished += 1;
        } else {
            assert!(sender.closed.or(receiver.closed).is_some(), "{}, seed {seed}", stack.0);
        }
    }
    assert!(finished >= 30, "{finished} of 40 transfers ended");
}

/// Ten connections of both stacks share a link, each with ends of its own.
#[test]
fn connections_share_a_link() {
    let network = Network::new(&Path::new(["server", "phone"]).link(link()), 1).unwrap();
    let mut run = Run::new(network, 1);
    let connections: Vec<_> = (0..10)
        .map(|number| {
            let (_, pair) = STACKS[number % 2];
            run.connect("server", "phone", |ends| pair(&Settings::default(), ends)).unwrap()
        })
        .collect();
    run.until(after(20));
    let delivered: Vec<_> =
        connections.iter().map(|connection| run.report(connection.receiver).delivered_bytes).collect();
    let sum: u64 = delivered.iter().sum();
    assert!(sum as f64 * 8.0 / 20.0 > 9.0e6, "{delivered:?}");
    assert!(delivered.iter().all(|&bytes| bytes > sum / 40), "{delivered:?}");
}

fn rate(stack: Quic, congestion: Congestion, link: Link, seconds: u64) -> f64 {
    let (mut run, connection) = run(stack, link, &endless(congestion), 1);
    run.until(after(seconds));
    assert_eq!(run.failures(), []);
    run.report(connection.receiver).delivered_bytes as f64 * 8.0 / seconds as f64
}

/// Our Reno grows by acknowledged bytes if it is told to count them, and halves: each stack's own NewReno within 10 %,
/// on a clean path and under losses. All others that a stack can serve fill a clean link to 80 %.
#[test]
fn our_controllers_run_in_both() {
    for (stack, (loss, seconds)) in both(&[(0.0, 60), (0.01, 300)]) {
        let lossy = || link().loss(loss).key("reverse", "{ error = \"none\" }");
        let own = rate(stack, Congestion::NewReno, lossy(), seconds);
        let reno = rate(stack, Congestion::by_name(stack.0, "lasthop:reno").unwrap(), lossy(), seconds);
        assert!((reno / own - 1.0).abs() < 0.1, "{} at {loss}: {reno:.0} and {own:.0} bit/s", stack.0);
    }
    for (stack, name) in both(&["lasthop:veno", "lasthop:westwood+", "lasthop:vegas", "lasthop:cubic"]) {
        let rate = rate(stack, Congestion::by_name(stack.0, name).unwrap(), link(), 30);
        assert!(rate > 0.8e7 * 1417.0 / 1480.0, "{} {name}: {rate:.0} bit/s", stack.0);
    }
}

/// noq says that a loss was none, and then the reduction is undone; quinn does not say so. Where packets arrive out of
/// order by 10 ms and none is lost, our CUBIC gets more than twice as much in noq as in quinn.
#[test]
fn a_reduction_for_a_loss_that_was_none_is_undone_in_noq() {
    let of = |stack: Quic| {
        let ours = Congestion::by_name(stack.0, "lasthop:cubic").unwrap();
        rate(stack, ours, link().reorder_within(std::time::Duration::from_millis(10)), 60)
    };
    let (quinn, noq) = (of(QUINN), of(NOQ));
    assert!(noq > 2.0 * quinn, "{noq:.0} and {quinn:.0} bit/s");
}

/// noq sends at the pace that its controller tells: a law that paces does not burst. Over a link of 10 Mbit/s whose
/// queue has room for two packets, what ours without a pace lose at the start in quinn is several times that.
#[test]
fn a_law_that_paces_does_so_in_noq() {
    let copa = Congestion::by_name(noq::NAME, "lasthop:copa").unwrap();
    let rate = rate(NOQ, copa, link(), 30);
    assert!(rate > 0.8e7 * 1417.0 / 1480.0, "{rate:.0} bit/s");
    assert!(Congestion::by_name(quinn::NAME, "lasthop:copa").is_err());
}

/// Laws that set the window from the delivery rate, which is sampled from what noq tells of each packet: they fill a
/// clean link, and lose little of it at 1 % of losses.
#[test]
fn laws_that_sample_the_delivery_rate_do_so_in_noq() {
    for (name, clean, lossy) in [("lasthop:bbr", 0.95, 0.95), ("lasthop:bbr3", 0.95, 0.75)] {
        let of = |loss: f64, seconds: u64| {
            let link = if loss > 0.0 { link().loss(loss) } else { link() };
            let law = Congestion::by_name(noq::NAME, name).unwrap();
            rate(NOQ, law, link, seconds) / (1e7 * 1417.0 / 1480.0)
        };
        assert!(of(0.0, 30) > clean, "{name}: {:.3}", of(0.0, 30));
        assert!(of(0.01, 60) > lossy, "{name}, 1 % lost: {:.3}", of(0.01, 60));
    }
}
