//! A TCP sender and a TCP receiver with nothing between them but a delay of 10 ms: timers, reordering, duplicates,
//! closed windows and marks, packet by packet. Bulk data over links is the matter of other tests.

use lasthop_core::packet::{Kind, flag};
use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Profile, TcpConfig};
use proptest::prelude::*;

use crate::testkit::pair::{Fate, Pair, Sent};

/// Payload of a full segment with timestamps.
const MSS: u64 = 1448;

fn preset(name: &str, profile: Profile) -> TcpConfig {
    TcpConfig::preset(name, profile).unwrap()
}

fn rfc(name: &str) -> TcpConfig {
    preset(name, Profile::Rfc)
}

/// The same with each segment acknowledged at once.
fn prompt(config: TcpConfig) -> TcpConfig {
    TcpConfig { delayed_ack: None, ..config }
}

/// The number of the segment that begins at `seq`, from 0.
fn segment(seq: u64) -> u64 {
    (seq - 1) / MSS
}

fn millis(value: u64) -> Time {
    Time::ZERO + Span::from_millis(value)
}

/// Ten segments without a loss: the whole exchange, in 20 ms steps.
#[test]
fn an_undisturbed_transfer() {
    let mut pair = Pair::new(&prompt(rfc("newreno")));
    pair.transfer(10 * MSS);
    let times = |kind: Kind| -> Vec<Time> { pair.sent(kind).iter().map(|sent| sent.at).collect() };
    assert_eq!(times(Kind::Syn), [millis(0)]);
    assert_eq!(times(Kind::SynAck), [millis(10)]);
    assert_eq!(times(Kind::Data), [millis(20); 9]);
    assert_eq!(times(Kind::Fin), [millis(20)], "on the tenth segment");
    assert_eq!(times(Kind::FinAck), [millis(30)]);
    assert_eq!(pair.sender.stats.completed, Some(millis(40)));
    assert_eq!(pair.sent(Kind::Ack).last().map(|sent| sent.at), Some(millis(40)), "the receiver's FIN");
    assert_eq!(pair.stats.bytes_delivered, 10 * MSS);
    assert!(pair.repeated().is_empty());
}

/// RFC 6298 §2 and §5.5: 1 s, then twice as long each time.
#[test]
fn a_syn_is_sent_again_with_patience() {
    let mut pair = Pair::new(&rfc("newreno")).losing(&[0, 1, 2], &[]);
    pair.transfer(1000);
    let times: Vec<Time> = pair.sent(Kind::Syn).iter().map(|sent| sent.at).collect();
    assert_eq!(times, [millis(0), millis(1000), millis(3000), millis(7000)]);
    assert_eq!(pair.stats.bytes_delivered, 1000);
}

/// No segment follows a FIN, so none reports its loss: the timer repeats it.
#[test]
fn the_last_fin_waits_for_the_timer() {
    // There: SYN, ten segments of which the last carries the FIN.
    let mut pair = Pair::new(&prompt(rfc("newreno"))).losing(&[10], &[]);
    pair.transfer(10 * MSS);
    let fins: Vec<Time> = pair.sent(Kind::Fin).iter().map(|sent| sent.at).collect();
    // The timer was set again by the last ACK, at 40 ms, and lasts a second at least.
    assert_eq!(fins, [millis(20), millis(1040)]);
    assert_eq!(pair.sender.stats.timeouts, 1);
    assert_eq!(pair.stats.bytes_delivered, 10 * MSS);
    assert_eq!(pair.sender.stats.completed, Some(millis(1060)));

    // A tail loss probe does not wait so long (RFC 8985 §7).
    // With two segments outstanding it comes after two RTTs: 40 ms behind the last ACK and 2 ms more are over by the
    // tick at 84 ms, and the one behind it rings, at 88 ms. The probe and what its ACK repairs take a round trip each.
    let mut pair = Pair::new(&prompt(preset("sack", Profile::Linux))).losing(&[9, 10], &[]);
    pair.transfer(10 * MSS);
    assert_eq!(pair.sender.stats.timeouts, 0);
    assert!(pair.sender.stats.completed.unwrap() <= millis(128), "{:?}", pair.sender.stats.completed);
}

/// Holds the segments with these numbers back for so long, once.
fn holding(config: &TcpConfig, numbers: &[u64], later: Span) -> Pair {
    let mut held = numbers.to_vec();
    Pair::new(config).on_the_way(move |packet, _| {
        let at = held.iter().position(|&number| packet.kind == Kind::Data && segment(packet.seq) == number);
        let Some(at) = at else { return Fate::Pass };
        held.remove(at);
        Fate::Delay(later)
    })
}

/// A segment that five others overtake is taken for lost after the third, and what it costs is an unneeded repair. Two
/// are not enough. (They leave together and arrive together; the next ones come a round trip later.)
#[test]
fn reordering_is_taken_for_a_loss_by_the_third() {
    for name in ["reno", "newreno", "sack"] {
        let mut pair = holding(&prompt(rfc(name)), &[4], Span::from_millis(5));
        pair.transfer(10 * MSS);
        let repeated: Vec<u64> = pair.repeated().iter().map(|sent| segment(sent.packet.seq)).collect();
        // Where nothing new is left to be sent, RFC 6675 repeats the last segment once to keep ACKs coming (§4, rule
        // 4).
        let rescue = if name == "sack" { &[4, 9][..] } else { &[4] };
        assert_eq!(repeated, rescue, "{name}");
        assert_eq!(pair.sender.stats.timeouts, 0, "{name}");
        assert_eq!(pair.stats.bytes_delivered, 10 * MSS, "{name}");

        // RFC 6675 counts bytes: two segments and a FIN are more than two segments.
        let late = if name == "sack" { 8 } else { 7 };
        let mut pair = holding(&prompt(rfc(name)), &[late], Span::from_millis(5));
        pair.transfer(10 * MSS);
        assert!(pair.repeated().is_empty(), "{name}: so few duplicates are no loss");
    }
}

/// RFC 8985 §6.2: once RACK has seen that packets are reordered, it waits a quarter of the RTT for a segment that may
/// only be late, however many others have overtaken it; but not for ever. Each segment takes 10 us more than the one
/// before it, as on a link.
#[test]
fn rack_waits_for_the_late() {
    let config = prompt(preset("sack", Profile::Linux));
    let repeats = |later: [Span; 2], spacing: Span| {
        let mut held = vec![(30, later[0]), (120, later[1])];
        let mut pair = Pair::new(&config).on_the_way(move |packet, place| {
            if packet.kind != Kind::Data {
                return Fate::Pass;
            }
            let number = segment(packet.seq);
            let late = held.iter().position(|&(other, _)| other == number);
            let extra = late.map_or(Span::ZERO, |at| held.remove(at).1);
            Fate::Delay(spacing * place as u64 + extra)
        });
        pair.transfer(200 * MSS);
        assert_eq!((pair.stats.bytes_delivered, pair.sender.stats.timeouts), (200 * MSS, 0));
        let repeated = pair.repeated();
        [30, 120].map(|number| repeated.iter().filter(|sent| segment(sent.packet.seq) == number).count())
    };
    let apart = Span::from_nanos(10_000);
    let (little, some, much) = (Span::from_nanos(25_000), Span::from_millis(4), Span::from_millis(40));
    assert_eq!(repeats([little, some], apart), [0, 0], "two overtake the first: reordering is known");
    // The original is answered before its copy can be, and the timestamp says so (`tcp_try_undo_partial`).
    assert_eq!(repeats([some, some], apart), [1, 0], "the answer to the original tells of reordering");
    assert_eq!(repeats([much, much], apart), [1, 1], "the repair comes before the segment that is late");
    // Where transmissions take no time, ACKs of what is out of order wait for one another (`__tcp_ack_snd_check`), so
    // that no new data leaves in the instant of a repair and seems to have been sent after it.
    assert_eq!(repeats([much, much], Span::ZERO), [1, 1]);
}

/// RFC 2883: a segment that arrives twice is reported as such, and does no harm.
#[test]
fn a_duplicate_is_reported_and_forgotten() {
    let mut pair = Pair::new(&prompt(rfc("sack"))).on_the_way(|packet, _| {
        let twice = packet.kind == Kind::Data && segment(packet.seq) == 3;
        if twice { Fate::Duplicate(Span::from_millis(3)) } else { Fate::Pass }
    });
    pair.transfer(30 * MSS);
    let reports: Vec<_> =
        pair.sent(Kind::Ack).iter().map(Sent::blocks).filter(|blocks| !blocks.is_empty()).collect();
    assert_eq!(reports, [[(3 * MSS + 1, 4 * MSS + 1)]]);
    assert!(pair.repeated().is_empty());
    assert_eq!(pair.stats.bytes_delivered, 30 * MSS);
}

/// RFC 5681 §4.2 and RFC 9293 §3.8.6.3: one segment waits 200 ms for another; two are acknowledged at once.
#[test]
fn a_single_segment_waits_for_its_ack() {
    let mut pair = Pair::new(&rfc("newreno"));
    pair.write(MSS);
    pair.run_until(millis(1000));
    let ack = |pair: &Pair| pair.sent(Kind::Ack).iter().rfind(|sent| !sent.packet.is_forward()).unwrap().at;
    assert_eq!(ack(&pair), millis(30 + 200));
    pair.write(2 * MSS);
    pair.run_until(millis(2000));
    assert_eq!(ack(&pair), millis(1010));
    assert_eq!(pair.stats.bytes_delivered, 3 * MSS);
    assert_eq!(pair.sender.stats.timeouts, 0);
}

/// The delayed ACK is no reason for a timeout even if the way takes nearly as long as the least one.
#[test]
fn a_delayed_ack_does_not_time_out() {
    let mut pair = Pair::new(&rfc("newreno"));
    pair.delay = Span::from_millis(390);
    pair.write(MSS);
    pair.run_until(millis(10_000));
    assert_eq!((pair.sender.stats.timeouts, pair.stats.bytes_delivered), (0, MSS));
}

/// RFC 9293 §3.8.6.1: while the window is closed, probes go out at growing intervals and nothing else does; then the
/// transfer goes on where it stopped.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let (closes, opens) = (millis(100), millis(9_000));
    let mut now = Time::ZERO;
    let mut pair = Pair::new(&prompt(rfc("freeze"))).on_the_way(move |packet, _| {
        now = now.max(packet.stamp);
        if !packet.is_forward() && (closes..opens).contains(&packet.stamp) {
            packet.window = 0;
        }
        Fate::Pass
    });
    pair.transfer(2000 * MSS);
    let forward: Vec<&Sent> = pair.log.iter().filter(|sent| sent.packet.is_forward()).collect();
    // The first closed window needs 10 ms to the sender, and the window that opens comes with the answer to a probe.
    let silent = forward.iter().filter(|sent| (millis(111)..opens).contains(&sent.at));
    let (probes, data): (Vec<&&Sent>, Vec<&&Sent>) = silent.partition(|sent| sent.packet.payload == 0);
    assert_eq!(data.len(), 0);
    let times: Vec<Time> = probes.iter().map(|probe| probe.at).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1].since(pair[0]).0 / 1_000_000).collect();
    assert!(gaps.len() >= 2 && gaps.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{gaps:?}");
    assert_eq!(pair.sender.stats.timeouts, 0);
    assert!(pair.repeated().is_empty());
    assert_eq!(pair.stats.bytes_delivered, 2000 * MSS);
}

/// RFC 3168 §6.1: a mark is echoed until the sender says that it has slowed down, and it does so once per round trip.
#[test]
fn marks_are_echoed_and_answered_once() {
    let mut pair = Pair::new(&prompt(rfc("e-newreno"))).on_the_way(|packet, _| {
        let marked = packet.kind == Kind::Data && (20..25).contains(&segment(packet.seq));
        if marked { Fate::Mark } else { Fate::Pass }
    });
    pair.transfer(200 * MSS);
    let echoes = pair.sent(Kind::Ack).iter().filter(|sent| sent.packet.has(flag::ECE)).count();
    let answers = pair.sent(Kind::Data).iter().filter(|sent| sent.packet.has(flag::CWR)).count();
    assert_eq!(answers, 1);
    assert!(echoes >= 5, "{echoes}");
    assert!(pair.repeated().is_empty());
    assert_eq!(pair.stats.bytes_delivered, 200 * MSS);
}

/// Sequence numbers beyond 2^32 are as good as any: the engine counts in 64 bits.
#[test]
fn a_long_transfer_passes_four_gigabytes() {
    let mut pair = Pair::new(&TcpConfig { packet_size: 65_535, ..prompt(rfc("sack")) });
    let bytes = (1 << 32) + 10_000_000;
    pair.transfer(bytes);
    assert_eq!(pair.stats.bytes_delivered, bytes);
    assert!(pair.repeated().is_empty());
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Pass),
        2 => Just(Fate::Drop),
        2 => (1u64..300).prop_map(|later| Fate::Delay(Span::from_millis(later))),
        1 => (0u64..300).prop_map(|later| Fate::Duplicate(Span::from_millis(later))),
        1 => Just(Fate::Mark),
    ];
    prop::collection::vec(fate, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens to the first hundred packets or so, in either direction, the application gets every byte once
    /// and both ends come to rest.
    #[test]
    fn every_byte_arrives_once(
        index in any::<prop::sample::Index>(),
        linux in any::<bool>(),
        fates in fates(),
        kilobytes in 1u64..150,
    ) {
        let preset_name = index.get(TcpConfig::PRESETS).name;
        let profile = if linux { Profile::Linux } else { Profile::Rfc };
        let mut passed = 0;
        let mut pair = Pair::new(&preset(preset_name, profile)).on_the_way(move |_, _| {
            passed += 1;
            fates.get(passed - 1).copied().unwrap_or(Fate::Pass)
        });
        pair.transfer(1000 * kilobytes);
        prop_assert_eq!(pair.stats.bytes_delivered, 1000 * kilobytes, "{}", preset_name);
        prop_assert!(pair.sender.stats.completed.is_some(), "{}", preset_name);
        prop_assert_eq!(pair.next_time(), None);
    }
}
