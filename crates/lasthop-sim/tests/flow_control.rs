//! The receiver's window: applications that read slowly, closed windows, updates that are lost.

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{Profile, TcpConfig};
use proptest::prelude::*;

use crate::testkit::pair::{Fate, Pair, Sent};

fn millis(value: u64) -> Time {
    Time::ZERO + Span::from_millis(value)
}

/// A preset whose receiver has room for `packets`, and an application that reads `bytes_per_s`.
fn slow(preset: &str, profile: Profile, packets: u32, bytes_per_s: u64) -> TcpConfig {
    let config = TcpConfig::preset(preset, profile).unwrap();
    TcpConfig { receiver_window: packets, reader: Some(Rate(8 * bytes_per_s)), ..config }
}

/// Packets with sequence numbers that the sender did not know to be allowed when it sent them: beyond every right edge
/// of which it had heard. The FIN takes a number and no room.
fn overruns(pair: &Pair) -> Vec<(Time, u64, u64)> {
    let mut edges: Vec<(Time, u64)> = Vec::new();
    for sent in pair.log.iter().filter(|sent| !sent.packet.is_forward()) {
        let arrival = match sent.fate {
            Fate::Drop => continue,
            Fate::Delay(more) => sent.at + pair.delay + more,
            Fate::Pass | Fate::Mark | Fate::Duplicate(_) => sent.at + pair.delay,
        };
        edges.push((arrival, sent.packet.seq + u64::from(sent.packet.window)));
    }
    let of = |sent: &Sent| {
        let end = sent.packet.seq + u64::from(sent.packet.payload);
        // ns-2's Vegas sends data before it has heard anything.
        let edge = edges.iter().filter(|(at, _)| *at <= sent.at).map(|(_, edge)| *edge).max()?;
        (sent.packet.payload > 0 && end > edge).then_some((sent.at, end, edge))
    };
    pair.log.iter().filter(|sent| sent.packet.is_forward()).filter_map(of).collect()
}

/// A file of a million bytes, read at 100,000 bytes per second from a buffer of ten packets: the last byte can be sent
/// when all but the buffer has been read.
#[test]
fn a_slow_reader_sets_the_pace() {
    for (preset, profile) in [("newreno", Profile::Rfc), ("cubic", Profile::Linux), ("reno", Profile::Ns2)] {
        let mut pair = Pair::new(&slow(preset, profile, 10, 100_000));
        pair.transfer(1_000_000);
        assert_eq!(pair.stats.bytes_delivered, 1_000_000, "{preset}");
        let last = pair.log.iter().rfind(|sent| sent.packet.payload > 0).unwrap().at;
        assert!((millis(9_800)..millis(10_100)).contains(&last), "{preset}: {last}");
        assert!(pair.repeated().is_empty(), "{preset}: nothing is lost");
        assert_eq!(pair.sender.stats.timeouts, 0, "{preset}");
        // In the ns2 profile each segment is acknowledged, and the window has moved on by then.
        let closes = profile != Profile::Ns2;
        assert_eq!(pair.sender.stats.zero_windows > 0, closes, "{preset}");
        assert_eq!(pair.sender.zero_window_time() > Span::ZERO, closes, "{preset}");
        assert_eq!(overruns(&pair), [], "{preset}");
    }
}

/// RFC 9293 §3.8.6.1: every announcement of the open window is lost, and no data call for another ACK. A probe gets it.
#[test]
fn a_lost_window_update_is_asked_for() {
    for preset in ["newreno", "sack", "vegas", "freeze"] {
        let (mut closed, mut asked, mut lost) = (false, false, 0);
        let mut pair = Pair::new(&slow(preset, Profile::Rfc, 10, 10_000)).on_the_way(move |packet, _| {
            if packet.is_forward() {
                asked |= packet.kind == Kind::Data && packet.payload == 0;
                return Fate::Pass;
            }
            closed |= packet.window == 0;
            lost += usize::from(closed && !asked && packet.window > 0);
            assert!(lost < 5, "few announcements");
            if closed && !asked && packet.window > 0 { Fate::Drop } else { Fate::Pass }
        });
        pair.transfer(60_000);
        assert_eq!(pair.stats.bytes_delivered, 60_000, "{preset}");
        assert!(pair.sender.stats.completed.is_some(), "{preset}");
        let is_probe = |sent: &&Sent| sent.packet.kind == Kind::Data && sent.packet.payload == 0;
        assert_eq!(pair.log.iter().filter(is_probe).count(), 1, "{preset}: asked once");
        assert_eq!(pair.sender.stats.timeouts, 0, "{preset}");
        assert_eq!(overruns(&pair), [], "{preset}");
    }
}

/// RFC 9293 §3.8.6.2: neither end makes a silly window. Segments are whole but for the last, and windows are closed or
/// have room for one.
#[test]
fn no_window_is_silly() {
    let config = slow("newreno", Profile::Rfc, 8, 30_000);
    let mss = config.mss();
    let mut pair = Pair::new(&config);
    pair.transfer(100 * u64::from(mss) + 10);
    let sizes: Vec<u32> =
        pair.log.iter().map(|sent| u32::from(sent.packet.payload)).filter(|&size| size > 0).collect();
    assert_eq!((sizes.len(), sizes[..100].iter().min()), (101, Some(&mss)));
    let answers = pair.log.iter().filter(|sent| !sent.packet.is_forward());
    let silly = answers.filter(|sent| sent.packet.window > 0 && sent.packet.window < mss).count();
    // What is left of an edge that has not moved is all that there is to say.
    assert!(silly <= 2, "{silly}");
}

/// What happens to packets, in order.
fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Pass),
        2 => Just(Fate::Drop),
        1 => (1u64..300).prop_map(|later| Fate::Delay(Span::from_millis(later))),
        1 => (0u64..300).prop_map(|later| Fate::Duplicate(Span::from_millis(later))),
    ];
    prop::collection::vec(fate, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the sender, the buffer, the pace of the reader and the fate of packets: every byte arrives once, both
    /// ends come to rest, and the sender keeps to the right edge.
    #[test]
    fn a_slow_reader_loses_nothing(
        index in any::<prop::sample::Index>(),
        profile in prop::sample::select(vec![Profile::Rfc, Profile::Linux, Profile::Ns2]),
        packets in 1u32..60,
        bytes_per_s in 2_000u64..3_000_000,
        fates in fates(),
        kilobytes in 1u64..60,
    ) {
        let name = index.get(TcpConfig::PRESETS).name;
        let mut passed = 0;
        let config = slow(name, profile, packets, bytes_per_s);
        let mut pair = Pair::new(&config).on_the_way(move |_, _| {
            passed += 1;
            fates.get(passed - 1).copied().unwrap_or(Fate::Pass)
        });
        pair.transfer(1000 * kilobytes);
        prop_assert_eq!(pair.stats.bytes_delivered, 1000 * kilobytes, "{} {:?}", name, profile);
        prop_assert!(pair.sender.stats.completed.is_some(), "{} {:?}", name, profile);
        prop_assert_eq!(pair.next_time(), None);
        prop_assert_eq!(overruns(&pair), vec![], "{} {:?}", name, profile);
    }
}

/// The ACK that closes the window comes twice: that is no loss, and Vegas sends nothing into a closed window.
#[test]
fn a_doubled_ack_does_not_open_the_window() {
    let mut passed = 0;
    let mut pair = Pair::new(&slow("vegas", Profile::Ns2, 1, 2_000)).on_the_way(move |_, _| {
        passed += 1;
        if passed == 3 { Fate::Duplicate(Span::ZERO) } else { Fate::Pass }
    });
    pair.transfer(2_000);
    assert_eq!(pair.stats.bytes_delivered, 2_000);
    assert_eq!(overruns(&pair), []);
}

/// A copy of the SYN comes when data have: an ACK answers it, which tells of the window like any other. Where a SYN-ACK
/// did, the sender went beyond the right edge by 624 bytes.
#[test]
fn a_late_copy_of_the_syn_does_not_move_the_edge() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let mut sent = 0;
        let mut pair = Pair::new(&slow("newreno", profile, 11, 15_740)).on_the_way(move |_, _| {
            sent += 1;
            if sent == 1 { Fate::Duplicate(Span::from_millis(146)) } else { Fate::Pass }
        });
        pair.transfer(18_000);
        assert_eq!(pair.stats.bytes_delivered, 18_000, "{profile:?}");
        assert_eq!(pair.sent(Kind::SynAck).len(), 1, "{profile:?}");
        assert_eq!(overruns(&pair), [], "{profile:?}");
    }
}

/// A window that is short of a segment is not closed: Freeze-TCP goes on when it grows, and asks if it is not told.
#[test]
fn freeze_goes_on_behind_a_short_window() {
    for told in [true, false] {
        let lost = [4, 5, 7];
        let (mut passed, mut short) = (0, false);
        let mut pair = Pair::new(&slow("freeze", Profile::Rfc, 10, 25_625)).on_the_way(move |packet, _| {
            passed += 1;
            let update = short && !packet.is_forward();
            short |= !packet.is_forward() && packet.window < 1_000;
            if lost.contains(&passed) || (update && !told && passed < 35) { Fate::Drop } else { Fate::Pass }
        });
        pair.transfer(17_000);
        assert_eq!(pair.stats.bytes_delivered, 17_000, "told: {told}");
        assert_eq!(overruns(&pair), [], "told: {told}");
    }
}

/// A window of one segment is halved, limited transmit has three outstanding, and the ACK of the repair is lost: the
/// answer to a probe tells that all has arrived, and the rest is sent.
#[test]
fn a_probe_that_answers_for_everything_lets_the_rest_out() {
    let later = Fate::Delay(Span::from_millis(1));
    let fates = [
        (0, Fate::Drop),
        (2, Fate::Duplicate(Span::ZERO)),
        (3, Fate::Drop),
        (5, later),
        (7, later),
        (9, later),
        (13, Fate::Drop),
    ];
    let mut sent = 0;
    let mut pair = Pair::new(&slow("probing", Profile::Ns2, 6, 2_000)).on_the_way(move |_, _| {
        sent += 1;
        fates.iter().find(|(number, _)| number + 1 == sent).map_or(Fate::Pass, |(_, fate)| *fate)
    });
    pair.transfer(4_000);
    assert_eq!(pair.sent(Kind::Probe).len(), 3, "two for the duplicates, and the one");
    assert_eq!(pair.stats.bytes_delivered, 4_000);
}
