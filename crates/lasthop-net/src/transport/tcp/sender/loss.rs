//! How the window falls: what the controller is asked after a loss or a timeout, how its answer is applied, and how
//! everything starts again. When there is a loss is decided by the engines in `recovery/`.

use lasthop_cc::{LossKind, LossSample, Reduction};
use lasthop_core::time::Time;

use super::alarms::Alarm;
use super::probing::Trigger;
use super::recovery::RecoveryEngine;
use super::{Action, Connection};
use crate::transport::wire::Wire;

impl Connection {
    /// Asks the controller what to do about the loss of the segment at `una`, and says what it took it for.
    pub(super) fn answer_loss<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) -> Reduction {
        if let Some(kept) = self.kept_window() {
            return Reduction::to(kept.ssthresh, kept.cwnd);
        }
        let sample = self.loss_sample(engine, now);
        self.answer_loss_of(self.una, sample, now, wire)
    }

    /// The same for the segment at `seq`.
    pub(super) fn answer_loss_of<W: Wire>(
        &mut self,
        seq: u64,
        sample: LossSample,
        now: Time,
        wire: &mut W,
    ) -> Reduction {
        if self.extended {
            self.keep_before(false);
        }
        let reduction = self.host.answer_loss(&LossSample { truth: self.truth_of(seq, wire), ..sample });
        self.keep_score_of(seq, reduction, now, wire);
        reduction
    }

    /// What the loss of the segment at `seq` was, if the controller asks for it.
    pub(super) fn truth_of<W: Wire>(&self, seq: u64, wire: &W) -> Option<LossKind> {
        if self.needs.truth { wire.truth(seq) } else { None }
    }

    /// Tells what the controller took the loss at `una` for.
    pub(super) fn keep_score<W: Wire>(&mut self, reduction: Reduction, now: Time, wire: &mut W) {
        self.keep_score_of(self.una, reduction, now, wire);
    }

    /// The same for the segment at `seq`.
    pub(super) fn keep_score_of<W: Wire>(&mut self, seq: u64, reduction: Reduction, now: Time, wire: &mut W) {
        if let Some(belief) = reduction.taken_for
            && self.measured.contains(now)
        {
            wire.judged(seq, belief, self.loss_signs());
        }
    }

    /// The sample that goes with a reduction now.
    pub(super) fn loss_sample<E: RecoveryEngine>(&self, engine: &E, now: Time) -> LossSample {
        let retransmitted = self.segments.at(self.una).is_some_and(|segment| segment.transmissions > 1);
        LossSample { now, flight: self.reduction_base(engine), retransmitted, truth: None }
    }

    /// Segments that a reduction starts from.
    pub(super) fn reduction_base<E: RecoveryEngine>(&self, engine: &E) -> f64 {
        if self.ns2 {
            // ns-2 halves the usable window, not the flight.
            return (self.host.window.cwnd + f64::from(self.inflation)).min(f64::from(self.peer.segments));
        }
        if self.linux {
            // Linux asks its controllers for a share of cwnd, whether the application fills it or not.
            return self.host.window.cwnd;
        }
        engine.flight_at_loss(self)
    }

    /// Segments between `una` and the next to be sent, with fractions.
    pub(super) fn sent_flight(&self) -> f64 {
        (self.next - self.una) as f64 / f64::from(self.mss)
    }

    /// Whether what was outstanding when duplicate ACKs were answered is still not acknowledged.
    pub(super) fn answers_duplicates(&self) -> bool {
        self.action == Action::DuplicateAcks && self.una < self.host.recover
    }

    /// Applies a reduction; with ECN the receiver is told of it.
    pub(super) fn reduce(&mut self, reduction: Reduction) {
        self.host.reduce(reduction);
        self.reduced = self.ecn;
    }

    /// The retransmission timer has expired.
    pub(super) fn time_out<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        self.waits_for_timer = false;
        if self.una < self.max_sent
            && let Some(patience) = &mut self.patience
            && patience.ends(self.una)
        {
            return self.abort(true, now, wire);
        }
        engine.on_timeout(self, now, wire);
    }

    /// What most engines do then.
    pub(super) fn on_timeout<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        self.end_kept_window();
        let outstanding = self.una < self.max_sent;
        if outstanding && self.extended && self.begins_probing(Trigger::Timeout, now, wire) {
            return;
        }
        let repeated = self.una < self.timeout_recover
            || (self.linux
                && self.una < self.host.recover
                && (engine.is_in_recovery(self) || self.is_reducing()));
        if !engine.counts_across_timeouts(self) {
            self.dup_acks = 0;
        }
        self.inflation = 0;
        let mut backs_off = true;
        let mut sample = self.loss_sample(engine, now);
        // A long recovery sends a segment per duplicate ACK: the data outstanding then exceeds by far what the path
        // holds, and half of it would be no reduction at all.
        sample.flight = sample.flight.min(self.host.window.cwnd);
        self.host.recover = self.max_sent;
        if self.una == 0 {
            // RFC 5681 §3.1: a lost SYN is paid for with the initial window. It says nothing about ssthresh
            // (Linux agrees).
            self.host.pay_for_syn();
        }
        if !outstanding {
            // ns-2 only: idle for a whole timeout, so the window is stale but nothing was lost.
            self.host.window.cwnd = 1.0;
        } else if self.action == Action::Ecn && self.ns2 {
            self.host.window.cwnd = 1.0;
        } else {
            self.count_timeout(true, now);
            self.action = Action::Timeout;
            if self.extended && self.una > 0 {
                self.keep_before(true);
            }
            if self.ns2 || self.una > 0 {
                let reduction = self.host.answer_timeout(&sample, repeated);
                self.keep_score(reduction, now, wire);
                backs_off = reduction.backs_off;
            } else {
                self.host.window.cwnd = 1.0;
            }
        }
        self.reduced = self.ecn;
        self.timeout_recover = self.max_sent;
        if outstanding && backs_off {
            self.rtt.back_off();
        }
        self.alarms.cancel(Alarm::Hold);
        if let Some(prr) = &mut self.prr {
            prr.abandon();
        }
        self.start_again(engine, now, wire);
    }

    /// Sends from `una` on again, as far as that is not known to have arrived, as after a timeout.
    pub(super) fn start_again<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        self.timed = None;
        self.limited = 0;
        self.action = Action::Timeout;
        engine.rewind(self, now);
        self.set_timer(now, wire);
        engine.fill(self, now, wire);
    }

    /// Counts a recovery episode.
    pub(super) fn count_recovery(&mut self, now: Time) {
        self.stats.fast_recoveries += u64::from(self.measured.contains(now));
    }

    /// Counts a reduction that was undone.
    pub(super) fn count_undone(&mut self, now: Time) {
        self.stats.undone_reductions += u64::from(self.measured.contains(now));
    }

    /// Counts an expiry of the coarse timer, if data was outstanding.
    pub(super) fn count_timeout(&mut self, outstanding: bool, now: Time) {
        self.stats.timeouts += u64::from(outstanding && self.measured.contains(now));
    }
}
