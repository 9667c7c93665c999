//! RACK and the tail loss probe of RFC 8985, by hand.

use lasthop_cc::host::{Floors, Host};
use lasthop_cc::{ControllerConfig, LossKind, Window};

use crate::transport::tcp::config::{PrrVariant, Recovery, TcpConfig};

use super::super::Engine;
use super::*;
use crate::transport::profile::Profile;
use crate::transport::tcp::sender::testing::Rig;

fn rack(rig: &mut Rig) -> &mut Rack {
    let Engine::Rack(rack) = &mut rig.sender.engine else { panic!("not the RACK engine") };
    rack
}

fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Four segments sent at 0, 1, 2 and 3 ms; the last `sacked` of them are SACKed at 103 ms.
fn four_sent(sacked: u64, reordering_seen: bool) -> (Rack, Segments) {
    let (mut rack, mut segments) = (Rack::new(true, false), Segments::new(1000));
    for number in 0..4 {
        segments.push(1 + number * 1000, 1000, false, millis(number));
        rack.order.push_back(Transmission {
            at: millis(number),
            seq: 1 + number * 1000,
            end: 1001 + number * 1000,
        });
    }
    rack.clock.least_rtt = Span::from_millis(100);
    rack.clock.reordering_seen = reordering_seen;
    let blocks = [(4001 - 1000 * sacked, 4001)];
    let Rack { board, clock, .. } = &mut rack;
    board.note(&blocks, 1, &mut segments, |_, segment| {
        let reached = clock.highest;
        clock.deliver(segment, None, reached, millis(103));
    });
    (rack, segments)
}

fn window(rack: &Rack) -> Span {
    rack.reordering_window(Span::from_millis(100), false, 3)
}

/// TV-2.12.
#[test]
fn what_was_overtaken_is_lost_after_the_reordering_window() {
    for reordering_seen in [true, false] {
        let (mut rack, mut segments) = four_sent(1, reordering_seen);
        assert_eq!(window(&rack), Span::from_millis(25));
        let patience = window(&rack);
        assert_eq!(rack.detect(patience, &mut segments, |_, _| {}, millis(103)), (0, Some(millis(127))));
        assert_eq!(rack.detect(patience, &mut segments, |_, _| {}, millis(127)), (3, None));
        assert_eq!(rack.board.lost_count, 3);
    }
    let (mut rack, mut segments) = four_sent(3, false);
    assert_eq!(window(&rack), Span::ZERO, "three segments SACKed, and never any reordering");
    assert_eq!(rack.detect(Span::ZERO, &mut segments, |_, _| {}, millis(103)), (1, None));
    let (rack, _) = four_sent(3, true);
    assert_eq!(window(&rack), Span::from_millis(25));
}

/// With ticks of 4 ms, by hand: 12 ms from 1 ms on are over with the fourth tick, and the fifth rings; 252 ms are
/// 63 ticks, and the next multiple of eight is the 64th.
#[test]
fn timers_of_linux_ring_at_ticks() {
    for (now, wait, due) in [(1, 12, 16), (1, 14, 20), (3, 13, 20), (4, 12, 20), (0, 248, 252), (0, 252, 256)]
    {
        assert_eq!(rings(Span::from_millis(wait), millis(now)), millis(due), "{wait} ms from {now} ms on");
    }
}

/// Sent again 0.4 ms after what the ACK echoes: to a clock of milliseconds the copy may have arrived.
#[test]
fn an_echo_of_the_same_millisecond_is_not_older() {
    for (linux, taken) in [(true, true), (false, false)] {
        let mut rack = Rack::new(true, linux);
        rack.clock.least_rtt = Span::from_millis(50);
        let mut segments = Segments::new(1000);
        segments.push(1, 1000, false, millis(0));
        let (segment, _) = segments.repeat(0, Time(20_900_000)).unwrap();
        rack.clock.deliver(&segment, Some(Time(20_500_000)), 0, millis(100));
        assert_eq!(rack.clock.newest.is_some(), taken);
    }
}

/// RFC 8985 §6.2.4: a quarter more per round with a DSACK, until 16 recoveries had none; never above the srtt.
#[test]
fn dsacks_widen_the_reordering_window() {
    let (mut rack, _) = four_sent(1, true);
    rack.on_dsack(5000);
    rack.on_dsack(5000);
    assert_eq!(window(&rack), Span::from_millis(50), "once per round");
    for expected in [75, 100, 100] {
        rack.dsack_round = None;
        rack.on_dsack(5000);
        assert_eq!(window(&rack), Span::from_millis(expected));
    }
    (0..15).for_each(|_| rack.on_exit(false));
    assert_eq!(window(&rack), Span::from_millis(100));
    rack.on_exit(false);
    assert_eq!(window(&rack), Span::from_millis(25));
}

/// TV-2.12.2: 11 and 13 of 11..=20 are lost; segments 1 ms apart, reordering window 0.25 ms, PRR.
#[test]
fn repairs_both_holes_within_one_round_trip() {
    let mut rig = Rig::rfc(Recovery::Rack).ten_outstanding();
    let mut sent = vec![rig.sack(11, &[(12, 12)])];
    sent.extend((14..=20).map(|last| rig.sack(11, &[(14, last), (12, 12)])));
    let expected = [vec![11], vec![], vec![13], vec![], vec![], vec![21], vec![22], vec![23]];
    assert_eq!(sent, expected);
    assert_eq!(rig.sack(13, &[(14, 20)]), [24]);
    assert_eq!(rig.ack(21), [25]);
    assert_eq!((rig.window(), rig.sender.flight()), ((5.0, 5.0), 5));
    assert_eq!(rig.sender.stats.fast_recoveries, 1);
}

/// 11 is lost, and Veno knows two RTTs, one less than it judges by. With the habits of Linux that of 14, which is
/// no longer than they were, is the third: the loss is a random one.
#[test]
fn in_linux_a_reported_segment_tells_the_law_its_round_trip() {
    let veno = ControllerConfig::by_name("veno").unwrap();
    for (profile, belief) in [(Profile::Linux, LossKind::Wireless), (Profile::Rfc, LossKind::Congestion)] {
        let config = TcpConfig::new(profile, veno.clone(), Recovery::Rack);
        let mut rig =
            Rig::new(&TcpConfig { timestamps: false, packet_size: 1040, ..config }).ten_outstanding();
        rig.sender.host = Host::new(&veno, Floors::Rfc, Window { cwnd: 10.0, ssthresh: 5.0 });
        for _ in 0..2 {
            rig.sender.measure_and_grow(
                &Rack::new(true, false),
                0,
                Some(Span::from_millis(9)),
                false,
                rig.now,
            );
        }
        // Sent well behind 11, whatever was sent at once.
        rig.sack(11, &[(14, 14)]);
        assert_eq!(rig.tape.beliefs, [belief], "{profile:?}");
    }
}

/// TV-2.12.3: 11 is lost, and its retransmission too: what was sent after it tells, without a timeout.
#[test]
fn a_lost_retransmission_is_sent_again() {
    let mut rig = Rig::rfc(Recovery::Rack).ten_outstanding();
    let sent: Vec<u64> = (12..=20).flat_map(|last| rig.sack(11, &[(12, last)])).collect();
    assert_eq!(sent, [11, 21, 22, 23, 24]);
    assert_eq!(rig.sack(11, &[(12, 21)]), [11, 25]);
    assert_eq!((rig.sender.stats.timeouts, rig.sender.stats.fast_recoveries), (0, 1));
}

/// With tail loss probes.
fn rig(prr: PrrVariant) -> Rig {
    Rig::new(&TcpConfig {
        prr,
        timestamps: false,
        delayed_ack: None,
        packet_size: 1040,
        ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), Recovery::Rack)
    })
}

#[test]
fn without_prr_the_window_falls_at_once() {
    let mut rig = rig(PrrVariant::Off).ten_outstanding();
    let sent: Vec<Vec<u64>> = (12..=20).map(|last| rig.sack(11, &[(12, last)])).collect();
    // pipe falls from 9 to 5 first; then each SACK releases one.
    let expected = [vec![11], vec![], vec![], vec![], vec![], vec![21], vec![22], vec![23], vec![24]];
    assert_eq!(sent, expected);
}

/// Five segments sent, four acknowledged.
fn tail_lost() -> Rig {
    let mut rig = rig(PrrVariant::SafeAck);
    rig.sender.on_data(Some(5000), rig.now, &mut rig.tape);
    (1..=5).for_each(|number| drop(rig.ack(number)));
    rig
}

/// Lets timers expire until something is sent.
fn wait(rig: &mut Rig) -> Vec<u64> {
    rig.tape.sent.clear();
    while rig.tape.sent.is_empty() {
        rig.now = rig.sender.armed;
        rig.sender.on_timer(rig.now, &mut rig.tape);
    }
    std::mem::take(&mut rig.tape.sent)
}

/// RFC 8985 §7.4: the loss that a probe repairs costs one reduction, which the ACK of later data triggers.
#[test]
fn a_probe_repairs_the_tail() {
    let mut rig = tail_lost();
    assert_eq!(wait(&mut rig), [5]);
    assert_eq!(rig.sender.stats.timeouts, 0);
    rig.ack(6);
    assert_eq!(rig.sender.host.window.cwnd, 11.0, "the original may have arrived after all");
    rig.tape.sent.clear();
    rig.sender.on_data(Some(2000), rig.now, &mut rig.tape);
    rig.ack(7);
    assert_eq!(rig.window(), (5.5, 5.5));
    rig.ack(8);
    assert_eq!(rig.sender.host.window.ssthresh, 5.5, "once");
}

#[test]
fn a_needless_probe_costs_nothing() {
    let mut rig = tail_lost();
    wait(&mut rig);
    rig.ack(6);
    rig.sack(6, &[(5, 5)]);
    rig.sender.on_data(Some(1000), rig.now, &mut rig.tape);
    rig.ack(7);
    assert_eq!(rig.sender.host.window.cwnd, 11.0, "five of ten were out, which is enough to grow");
    assert_eq!(rack(&mut rig).quarters, 1, "and does not look like reordering");
}

/// New data is the better probe; and there is one probe for a tail, then the timeout.
#[test]
fn one_probe_with_new_data() {
    let mut rig = rig(PrrVariant::SafeAck).ten_outstanding();
    assert_eq!(wait(&mut rig), [21]);
    assert_eq!(rig.sender.stats.timeouts, 0);
    assert_eq!(wait(&mut rig), [11]);
    assert_eq!(rig.sender.stats.timeouts, 1);
}

/// A reordering window of 2 ms.
fn calm(rig: &mut Rig) {
    rack(rig).clock.least_rtt = Span::from_millis(8);
    rig.sender.rtt.sample(Time::ZERO, millis(100), 1, 1, false);
}

/// An out-of-order segment that arrives within the window costs nothing, and the next may be as late.
#[test]
fn reordering_is_tolerated() {
    let mut rig = Rig::rfc(Recovery::Rack).ten_outstanding();
    calm(&mut rig);
    assert_eq!(rig.sack(11, &[(12, 12)]), [21], "limited transmit");
    assert_eq!(rig.ack(13), [22]);
    assert_eq!(rig.sender.stats.fast_recoveries, 0);
    assert!(rack(&mut rig).clock.reordering_seen);
}

#[test]
fn the_reordering_timer_finds_the_loss() {
    let mut rig = Rig::rfc(Recovery::Rack).ten_outstanding();
    calm(&mut rig);
    // 11 was sent at 2 ms and 12 at 3 ms; 12 arrives at 12 ms. 2 + 9 + 8 / 4 = 13 ms.
    rig.sack(11, &[(12, 12)]);
    assert_eq!(wait(&mut rig), [11]);
    assert_eq!(rig.now, millis(13));
}

/// RFC 8985 §6.3: what was sent just before the timeout is not lost with the rest.
#[test]
fn a_timeout_spares_what_is_young() {
    let mut rig = rig(PrrVariant::SafeAck).ten_outstanding();
    let sent = wait(&mut rig);
    assert_eq!(sent, [21], "the probe");
    let young = rig.sender.max_sent;
    rack(&mut rig).clock.rtt = Span::from_millis(1001);
    rig.time_out();
    let board = &rack(&mut rig).board;
    assert_eq!(
        (board.lost_count, board.repaired_count),
        (10, 1),
        "all but the probe; the first is on its way"
    );
    assert_eq!((rig.sender.max_sent, rig.sender.host.window.cwnd), (young, 2.0));
}
