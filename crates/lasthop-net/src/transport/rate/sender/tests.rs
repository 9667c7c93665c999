//! A sender of the rate-based transports alone, by hand.

use lasthop_core::time::Span;

use super::*;
use crate::plan::Profile;

/// Keeps what is sent.
#[derive(Default)]
struct Tape {
    packets: Vec<Packet>,
    headers: Vec<Extra>,
    wake: Option<Time>,
}

impl Wire for Tape {
    fn send(&mut self, packet: Packet, _now: Time) {
        self.packets.push(packet);
    }
    fn wake(&mut self, at: Time) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
    fn attach(&mut self, extra: Extra) -> u32 {
        self.headers.push(extra);
        (self.headers.len() - 1) as u32
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn sender(name: &str, change: impl FnOnce(&mut RateConfig)) -> RateSender {
    let mut config = RateConfig::new(name, Profile::Rfc).unwrap();
    change(&mut config);
    let measured = Window { from: Time::ZERO, to: at(100_000) };
    RateSender::new(&config, measured, Percentiles::Exact)
}

/// Lets time pass until `end`.
fn run(sender: &mut RateSender, tape: &mut Tape, end: Time) {
    while let Some(wake) = tape.wake.filter(|&wake| wake <= end) {
        tape.wake = None;
        sender.on_timer(wake, tape);
    }
}

fn feedback(sender: &mut RateSender, tape: &mut Tape, now: Time, echo: Time, feedback: FeedbackHeader) {
    let packet = Packet { echo, kind: Kind::Feedback, ..Packet::default() };
    let extra = Extra { rate: Some(RateHeader::Feedback(feedback)), ..Extra::default() };
    sender.on_feedback(&packet, Some(&extra), now, tape);
}

/// When packets left, to the nearest millisecond.
fn departures(tape: &Tape) -> Vec<u64> {
    tape.packets.iter().map(|packet| (packet.stamp.0 + 500_000) / 1_000_000).collect()
}

#[test]
fn packets_leave_evenly_at_the_allowed_rate() {
    let (mut sender, mut tape) = (sender("tfrc", |_| {}), Tape::default());
    sender.on_data(None, at(0), &mut tape);
    feedback(&mut sender, &mut tape, at(100), at(0), FeedbackHeader::default());
    // 1460 B: the initial window is 3 packets per RTT.
    run(&mut sender, &mut tape, at(210));
    assert_eq!(departures(&tape), [0, 100, 133, 167, 200]);
    assert_eq!((tape.packets[1].bytes, tape.packets[1].payload), (1500, 1460));
}

/// A clock that wakes the sender late loses no timer, and one that wakes it early fires none.
#[test]
fn a_late_wake_up_still_counts() {
    let (mut sender, mut tape) = (sender("tfrc", |_| {}), Tape::default());
    sender.on_data(None, at(0), &mut tape);
    feedback(&mut sender, &mut tape, at(100), at(0), FeedbackHeader::default());
    tape.wake = None;
    sender.on_timer(at(132), &mut tape);
    assert_eq!((departures(&tape), tape.wake), (vec![0, 100], None), "early");
    sender.on_timer(at(140), &mut tape);
    run(&mut sender, &mut tape, at(180));
    assert_eq!(departures(&tape), [0, 100, 140, 173], "late by 7 ms");
}

#[test]
fn a_pause_of_the_application_earns_no_credit() {
    let (mut sender, mut tape) = (sender("tfrc", |_| {}), Tape::default());
    sender.on_data(Some(1460), at(0), &mut tape);
    feedback(&mut sender, &mut tape, at(100), at(0), FeedbackHeader::default());
    run(&mut sender, &mut tape, at(150));
    sender.on_data(Some(5000), at(150), &mut tape);
    run(&mut sender, &mut tape, at(300));
    assert_eq!(departures(&tape), [0, 150, 183, 217, 250]);
    assert_eq!(tape.packets[4].payload, 620);
}

#[test]
fn what_is_past_its_deadline_is_not_sent() {
    let deadline = |config: &mut RateConfig| config.deadline = Some(Span::from_millis(300));
    let (mut sender, mut tape) = (sender("ssvp", deadline), Tape::default());
    for write in 0..10 {
        sender.on_data(Some(500), at(write * 100), &mut tape);
        run(&mut sender, &mut tape, at(write * 100 + 99));
    }
    // A packet per second without reports; then 2 s as the silence doubles nothing beyond a second.
    run(&mut sender, &mut tape, at(1000));
    assert_eq!(departures(&tape), [0, 1000]);
    assert_eq!(tape.packets[1].seq, 3500, "the write of 700 ms: what was dropped leaves a gap");
    assert_eq!(sender.stats.expired, 6, "written at 100 to 600 ms");
}

#[test]
fn a_full_queue_refuses_writes() {
    let (mut sender, mut tape) = (sender("tfrc", |config| config.queue = 2), Tape::default());
    (0..5).for_each(|_| sender.on_data(Some(500), at(0), &mut tape));
    assert_eq!((tape.packets.len(), sender.stats.expired), (1, 2));
}

/// Frames are no longer where their source put them, whatever is withdrawn afterwards.
#[test]
fn a_withdrawal_hides_no_dropped_write() {
    for (limit, whole) in [(2, false), (10, true)] {
        let (mut sender, mut tape) = (sender("wtcp-rate", |config| config.queue = limit), Tape::default());
        (0..8).for_each(|_| sender.on_data(Some(500), at(0), &mut tape));
        assert_eq!(sender.numbers_are_whole(), whole, "limit {limit}");
        sender.on_close(true, at(10), &mut tape);
        assert_eq!(sender.numbers_are_whole(), whole, "limit {limit}, withdrawn");
    }
}

#[test]
fn a_closed_flow_falls_silent() {
    let (mut sender, mut tape) = (sender("tfrc", |_| {}), Tape::default());
    sender.on_data(None, at(0), &mut tape);
    sender.on_close(true, at(10), &mut tape);
    run(&mut sender, &mut tape, at(60_000));
    assert_eq!((tape.packets.len(), tape.wake), (1, None));
}

#[test]
fn wtcp_repairs_probes_and_ends() {
    let (mut sender, mut tape) = (sender("wtcp-rate", |_| {}), Tape::default());
    sender.on_data(Some(6 * 1456), at(0), &mut tape);
    sender.on_close(false, at(0), &mut tape);
    assert_eq!(departures(&tape), [0, 0], "a pair");
    let header = |highest, received, probe| FeedbackHeader {
        rate: 100.0,
        highest,
        received,
        probe,
        ..FeedbackHeader::default()
    };
    feedback(&mut sender, &mut tape, at(100), at(0), header(1, 0b11, false));
    run(&mut sender, &mut tape, at(200));
    assert_eq!(departures(&tape), [0, 0, 100, 110, 120, 130]);
    // Number 2 is lost: 3, 4 and 5 have arrived.
    feedback(&mut sender, &mut tape, at(230), at(130), header(5, 0b11_0111, false));
    let again = tape.packets.last().copied().unwrap();
    assert_eq!((again.seq, again.note.again()), (2 * 1456, true));
    // It is lost again without a report: the sender probes.
    run(&mut sender, &mut tape, at(1000));
    assert_eq!(tape.packets.last().map(|packet| packet.kind), Some(Kind::Probe));
    assert_eq!(sender.stats.timeouts, 1);
    feedback(&mut sender, &mut tape, at(1000), at(730), header(7, 0b1101_1101, true));
    run(&mut sender, &mut tape, at(1100));
    assert_eq!(tape.packets.last().map(|packet| packet.seq), Some(2 * 1456));
    feedback(&mut sender, &mut tape, at(1200), at(1000), header(8, 1, false));
    assert_eq!(sender.stats.completed, Some(at(1200)));
    assert_eq!(sender.stats.retransmitted, 2);
    run(&mut sender, &mut tape, at(60_000));
    assert_eq!(tape.wake, None);
}
