//! One steered connection: what its controller decides from records of the kernel, and how the kernel is told.
//!
//! `steer` calls [`follow`] with each record of a session and writes what comes back. Nothing here asks the kernel.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};

use lasthop_cc::host::{Decision, Floors, Host, Memory, unwrap32};
use lasthop_cc::{
    AckSample, Arrival, ControllerConfig, LossSample, LostSegment, RateSample, RecoveryKind, Start, Window,
};
use lasthop_core::time::{Span, Time};

use crate::abi::{Kind, Record, SLOTS, Slot, UNKNOWN_SSTHRESH};

/// A record is told after an eighth of an RTT, but no later than this after the one before.
pub(crate) const COALESCE: Span = Span::from_millis(5);
/// Fractions of a segment in windows that the kernel is told.
const WHOLE: f64 = 65_536.0;

/// What a connection is to do until it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decided {
    /// Segments, with fractions.
    cwnd: f64,
    /// Segments by which it grows with each further one that is acknowledged.
    slope: f64,
    ssthresh: u32,
    /// What of the window is left when something is lost.
    share: f64,
    /// Bytes per second; 0 leaves it to the window.
    pacing: u64,
}

/// A connection that is steered.
#[derive(Debug)]
pub(crate) struct Flow {
    host: Host,
    opened: Time,
    last: Time,
    una: u64,
    next: u64,
    delivered: u64,
    slope: f64,
    learnt: Learnt,
    before: Option<Memory>,
    recovery: Option<RecoveryKind>,
}

/// By how much the window has grown, with how many segments, since the slope was last learnt.
#[derive(Clone, Copy, Debug, Default)]
struct Learnt {
    grown: f64,
    segments: u32,
    /// Of a whole window, by a law that is past slow start.
    settled: bool,
}

impl Flow {
    fn new(law: &ControllerConfig, record: &Record) -> Flow {
        let window = Window { cwnd: f64::from(record.cwnd.max(1)), ssthresh: record.ssthresh };
        let mut host = Host::new(law, Floors::Rfc, window);
        host.start(&Start { now: record.at, history: &[], handshake: record.srtt, mss: record.mss });
        // Numbers that lie behind the first one seen stay above zero.
        let una = 1 << 32 | u64::from(record.una);
        Flow {
            host,
            opened: record.at,
            last: record.at,
            una,
            next: unwrap32(una, record.next),
            delivered: 1 << 32 | u64::from(record.delivered),
            slope: if window.in_slow_start() { 1.0 } else { 0.0 },
            learnt: Learnt::default(),
            before: None,
            recovery: None,
        }
    }

    pub(crate) fn follow(&mut self, record: &Record) -> Decided {
        let una = unwrap32(self.una, record.una);
        let next = unwrap32(self.next, record.next);
        self.delivered = unwrap32(self.delivered, record.delivered);
        self.acked(record, una, next);
        // Linux asks its controllers for a share of cwnd, whether the application fills it or not. When a loss is told
        // the kernel's has begun to fall, and the law's has not; at a timeout it is what recovery has left.
        let flight =
            if record.kind == Kind::TimedOut { f64::from(record.cwnd) } else { self.host.window.cwnd };
        let loss = LossSample { now: record.at, flight: flight.max(1.0), retransmitted: false, truth: None };
        match record.kind {
            Kind::Lost => {
                self.before = Some(self.host.remember());
                let reduction = self.host.answer_loss(&loss);
                self.host.reduce(reduction);
                self.recovery = Some(RecoveryKind::Fast);
            }
            Kind::TimedOut => {
                self.before = Some(self.host.remember());
                self.host.timed_out(&loss, false, next);
                self.recovery = Some(RecoveryKind::Timeout);
            }
            Kind::Marked => {
                self.before = Some(self.host.remember());
                self.host.answer_mark(&loss, next);
                self.recovery = Some(RecoveryKind::Fast);
            }
            Kind::Undone => {
                if let Some(before) = self.before.take() {
                    self.host.undo(before);
                }
            }
            Kind::Recovered => {
                (self.recovery, self.before) = (None, None);
                if !self.host.needs().rate {
                    // The kernel's threshold is whole. Without the fraction of the law's the window would end below it,
                    // in slow start.
                    let (goal, whole) = (self.host.window.ssthresh, f64::from(record.cwnd.max(1)));
                    self.host.window.cwnd = if goal.floor() == whole { goal } else { whole };
                }
            }
            Kind::Restarted => {
                self.host.idle(record.at.since(self.last), Span::ZERO, record.at);
                self.host.window.cwnd = f64::from(record.cwnd.max(1));
            }
            Kind::Opened | Kind::Acked | Kind::Closed => {}
        }
        (self.una, self.next, self.last) = (una, next, record.at);
        self.decided(&loss, record.mss)
    }

    /// What the ACKs of a record said: as many samples as there were ACKs, since laws count both.
    fn acked(&mut self, record: &Record, una: u64, next: u64) {
        let needs = self.host.needs();
        if needs.arrivals && record.acks > 0 {
            self.arrived(record, una, next);
        }
        let before = self.host.window;
        let may_grow = self.recovery.is_none() && record.limited > 0;
        let mut handed = 0;
        for index in 0..record.acks.min(record.acked) {
            let acked = record.acked / record.acks + u32::from(index < record.acked % record.acks);
            let share = u64::from(index + 1) * (una - self.una) / u64::from(record.acks.max(1));
            self.host.grow(&AckSample {
                now: record.at,
                elapsed: record.at.since(self.opened),
                rtt: record.rtt,
                srtt: record.srtt,
                acked,
                una: self.una + share,
                next,
                mss: record.mss,
                // Segments that were SACKed, or did not fill the window, do not make it grow.
                may_grow: may_grow && handed < record.limited,
                disordered: false,
            });
            handed += acked;
        }
        if may_grow {
            self.learn_slope(before, record.limited);
        }
        if needs.rate && record.acks > 0 {
            self.lost(record);
            self.host.rate(&RateSample {
                now: record.at,
                rate: record.rate,
                app_limited: record.app_limited,
                prior_delivered: unwrap32(self.delivered, record.prior_delivered),
                delivered: self.delivered,
                acked: record.acked,
                lost: record.losses,
                prior_flight: record.prior_in_flight,
                flight: record.in_flight,
                rtt: record.rtt,
                maybe_delayed: false,
                srtt: record.srtt,
                recovery: self.recovery,
                mss: record.mss,
                tx_in_flight: record.prior_in_flight,
                lost_since: record.losses,
                held_back: Span::ZERO,
                window_limited: false,
                selective: true,
            });
        }
    }

    /// The kernel tells how many segments an ACK shows to be lost, not which: they left one behind the other, the last
    /// of them with what was in flight before the segment that the ACK delivers.
    fn lost(&mut self, record: &Record) {
        let prior_delivered = unwrap32(self.delivered, record.prior_delivered);
        for index in 0..record.losses {
            let seq = self.una + u64::from(index * record.mss);
            self.host.lost_segment(&LostSegment {
                now: record.at,
                seq,
                end: seq + u64::from(record.mss),
                tx_in_flight: (record.prior_in_flight + index + 1).saturating_sub(record.losses),
                lost_since: index + 1,
                prior_delivered,
                delivered: self.delivered,
                app_limited: record.app_limited,
                selective: true,
            });
        }
    }

    /// Every ACK of a record arrives, at even distances, as far as can be told: laws that measure the bandwidth count
    /// them, and retransmissions among them.
    fn arrived(&mut self, record: &Record, una: u64, next: u64) {
        let count = u64::from(record.acks);
        let span = record.at.since(self.last).min(COALESCE);
        // In whole segments: two that share three are not two each.
        let mss = u64::from(record.mss);
        let segments = (una - self.una).div_ceil(mss);
        let covered = |index: u64| (self.una + index * segments / count * mss).min(una);
        for index in 0..count {
            self.host.arrive(&Arrival {
                now: record.at - Span(span.0 * (count - 1 - index) / count),
                una: covered(index),
                ack: if index + 1 < count { covered(index + 1) } else { una },
                next,
                mss: record.mss,
                srtt: record.srtt,
                ece: false,
                marked: 0,
                times: None,
                first_sacked: None,
                discards: None,
                report: None,
            });
        }
    }

    /// By how much the window grows with a segment. A law that grows in steps, such as by a segment per RTT, shows that
    /// over a whole window alone; in slow start, and until a window has passed after it, what was seen last counts.
    fn learn_slope(&mut self, before: Window, segments: u32) {
        let window = self.host.window;
        let Learnt { grown, segments: counted, settled } = &mut self.learnt;
        // A step to what the path holds is not how the law grows.
        *grown += (window.cwnd - before.cwnd).clamp(0.0, f64::from(segments));
        *counted += segments;
        let is_whole = f64::from(*counted) >= window.cwnd;
        if before.in_slow_start() {
            self.slope = ((window.cwnd - before.cwnd) / f64::from(segments)).clamp(0.0, 1.0);
            self.learnt = Learnt::default();
        } else if is_whole || !*settled {
            self.slope = (*grown / f64::from(*counted)).clamp(0.0, 1.0);
            if is_whole {
                self.learnt = Learnt { settled: true, ..Learnt::default() };
            }
        }
    }

    /// What it says to the kernel. What would be left after a loss is asked of a copy, beforehand.
    fn decided(&self, loss: &LossSample, mss: u32) -> Decided {
        let Decision { cwnd: _, ssthresh, pacing } = self.host.decision();
        let flight = self.host.window.cwnd.max(1.0);
        let reduction = self.host.clone().answer_loss(&LossSample { flight, ..*loss });
        Decided {
            cwnd: self.host.window.cwnd.clamp(1.0, 1e9),
            slope: if self.host.needs().rate { 0.0 } else { self.slope },
            ssthresh: ssthresh.clamp(2, UNKNOWN_SSTHRESH),
            share: (reduction.ssthresh / flight).clamp(0.0, 1.0),
            pacing: pacing.map_or(0, |segments| (segments * f64::from(mss)) as u64),
        }
    }
}

/// The connections by their slots, with what the kernel's half calls them: no more than there are slots, even if a
/// record was missed that told of an end.
pub(crate) type Flows = BTreeMap<usize, (u64, Flow)>;

/// Tells a connection of a record; what it decides, unless it has gone.
pub(crate) fn follow(flows: &mut Flows, law: &ControllerConfig, record: &Record) -> Option<Decided> {
    if record.slot >= SLOTS {
        return None;
    }
    if record.kind == Kind::Closed {
        if flows.get(&record.slot).is_some_and(|(id, _)| *id == record.id) {
            flows.remove(&record.slot);
        }
        return None;
    }
    let (id, flow) = flows.entry(record.slot).or_insert_with(|| (record.id, Flow::new(law, record)));
    if *id != record.id {
        (*id, *flow) = (record.id, Flow::new(law, record));
    }
    Some(flow.follow(record))
}

/// Writes a decision into the slot of its connection. Its number is odd meanwhile.
pub(crate) fn write(slot: &Slot, record: &Record, decided: &Decided) {
    if slot.owner.load(Ordering::Relaxed) != record.id {
        return;
    }
    let number = slot.sequence.load(Ordering::Relaxed) | 1;
    slot.sequence.store(number, Ordering::Relaxed);
    fence(Ordering::Release);
    slot.epoch.store(record.epoch, Ordering::Relaxed);
    slot.cwnd.store((decided.cwnd * WHOLE) as u64, Ordering::Relaxed);
    slot.slope.store((decided.slope * WHOLE) as u64, Ordering::Relaxed);
    slot.grown_at.store(record.grown, Ordering::Relaxed);
    slot.ssthresh.store(decided.ssthresh, Ordering::Relaxed);
    // Upwards, so that nine of eleven segments are nine.
    slot.share.store((decided.share * WHOLE).ceil() as u32, Ordering::Relaxed);
    slot.pacing.store(decided.pacing, Ordering::Relaxed);
    slot.sequence.store(number.wrapping_add(1), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::law;

    const MSS: u32 = 1000;

    /// A connection by this law with these windows, and what its first record said.
    fn flow(name: &str, cwnd: u32, ssthresh: f64) -> (Flow, Record) {
        let opened = Record {
            id: 1,
            at: Time(1_000_000_000),
            slot: 0,
            kind: Kind::Opened,
            epoch: 1,
            acked: 0,
            acks: 0,
            grown: 0,
            limited: 0,
            rtt: None,
            srtt: Span::from_millis(100),
            cwnd,
            ssthresh,
            in_flight: 0,
            mss: MSS,
            una: 1,
            next: 1,
            delivered: 0,
            rate: None,
            prior_in_flight: 0,
            losses: 0,
            app_limited: false,
            prior_delivered: 0,
        };
        (Flow::new(&law(name).unwrap(), &opened), opened)
    }

    /// The next record: this many segments acknowledged by as many ACKs, 10 ms later.
    fn acked(last: &Record, segments: u32) -> Record {
        Record {
            kind: Kind::Acked,
            at: last.at + Span::from_millis(10),
            acked: segments,
            acks: segments,
            limited: segments,
            rtt: Some(Span::from_millis(100)),
            una: last.una + segments * MSS,
            next: last.una + (segments + 10) * MSS,
            ..*last
        }
    }

    /// By hand: 10.9 segments are halved to 5.45, of which the kernel has 5; above its threshold it must not start
    /// slowly again.
    #[test]
    fn the_fraction_of_a_reduction_outlives_the_recovery() {
        let (mut flow, opened) = flow("reno", 10, 5.0);
        let grown = acked(&opened, 9);
        flow.follow(&grown);
        let window = flow.host.window.cwnd;
        assert!((10.8..10.9).contains(&window), "{window}");
        let lost = Record { kind: Kind::Lost, acked: 0, acks: 0, limited: 0, cwnd: 9, ..grown };
        assert_eq!(flow.follow(&lost).ssthresh, 5);
        let recovered = flow.follow(&Record { kind: Kind::Recovered, cwnd: 5, ..lost });
        assert!((recovered.cwnd - window / 2.0).abs() < 1e-9 && !flow.host.window.in_slow_start());
        let cut_short = Record { kind: Kind::Recovered, cwnd: 4, ..lost };
        assert_eq!(flow.follow(&cut_short).cwnd, 4.0, "what the kernel has, where it has less");
    }

    /// picoquic's filter (`loss_filter`) lets a loss pass and answers twenty: it hears of each.
    #[test]
    fn a_law_by_the_delivery_rate_hears_of_each_lost_segment() {
        for (losses, left) in [(1, 40), (20, 28)] {
            let mut config = law("cubic").unwrap();
            config.set("loss_filter", 0.15).unwrap();
            let (_, opened) = flow("cubic", 40, 5.0);
            let mut flow = Flow::new(&config, &opened);
            let told = Record { losses, prior_in_flight: 40, limited: 0, ..acked(&opened, 1) };
            flow.follow(&told);
            flow.follow(&Record { kind: Kind::Lost, acked: 0, acks: 0, ..told });
            assert_eq!(flow.host.window.cwnd.round() as u32, left, "{losses}");
        }
    }

    /// By hand: two ACKs every 10 ms are 200 segments a second, which is 20 per RTT of 100 ms, whether they cover new
    /// data or not.
    #[test]
    fn every_acknowledgement_of_a_record_counts() {
        let (mut flow, mut record) = flow("westwood+", 40, 5.0);
        record.next = 40 * MSS;
        for _ in 0..400 {
            record = Record { una: record.una, next: record.next, ..acked(&record, 2) };
            let repeated = Record { una: 1, next: 40 * MSS, limited: 0, ..record };
            flow.follow(&repeated);
            record.una = 1;
        }
        let share = flow.follow(&Record { acks: 0, acked: 0, ..record }).share;
        let left = share * flow.host.window.cwnd;
        assert!((18.0..=21.0).contains(&left), "{left}");
    }

    /// Veno adds one segment per window: the slope is learnt over one, not over the records between two steps.
    #[test]
    fn the_slope_of_a_law_that_grows_in_steps_is_that_of_a_window() {
        let (mut flow, mut record) = flow("veno", 10, 5.0);
        let slopes: Vec<f64> = (0..20)
            .map(|_| {
                record = acked(&record, 2);
                flow.follow(&record).slope
            })
            .collect();
        assert!(slopes[6..].iter().all(|&slope| slope > 0.05 && slope < 0.15), "{slopes:?}");
        assert!(slopes[0] == 0.0, "{slopes:?}");
    }
}
