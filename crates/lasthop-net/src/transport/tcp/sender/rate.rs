//! What a sender tells its delivery-rate sampler (`lasthop-cc/src/delivery.rs`), for controllers that ask for samples
//! (`Needs::rate`): what it sends, what each ACK delivers and shows to be lost, and when it has nothing to send. The
//! controller sees the sample before the window is filled.

use lasthop_cc::RecoveryKind;
use lasthop_cc::delivery::{Around, DeliverySampler};
use lasthop_cc::host::Host;
use lasthop_core::time::Time;

use super::Connection;
use super::recovery::RecoveryEngine;
use crate::transport::tcp::segments::Segment;
use crate::transport::wire::Wire;

/// The outstanding segment at `index` has been found lost: counts it, and tells the law.
pub(super) fn note_lost(
    sampler: &mut Option<Box<DeliverySampler>>,
    host: &mut Host,
    index: usize,
    segment: &Segment,
    now: Time,
) {
    let Some(sampler) = sampler else { return };
    if let Some(lost) = sampler.on_lost(index, (segment.seq, segment.end()), now) {
        host.lost_segment(&lost);
    }
}

impl Connection {
    /// The oldest outstanding segment has been found lost.
    pub(super) fn note_first_lost(&mut self, now: Time) {
        let Connection { sampler, host, segments, .. } = self;
        if let Some(first) = segments.first() {
            note_lost(sampler, host, 0, first, now);
        }
    }

    /// What the sender is repairing.
    fn repairing<E: RecoveryEngine>(&self, engine: &E) -> Option<RecoveryKind> {
        if self.una < self.timeout_recover {
            return Some(RecoveryKind::Timeout);
        }
        engine.is_in_recovery(self).then_some(RecoveryKind::Fast)
    }

    /// A segment leaves, new or again (then `index` is its place among the outstanding).
    pub(super) fn sample_send<E: RecoveryEngine>(
        &mut self,
        engine: &E,
        again: Option<usize>,
        idle: bool,
        now: Time,
    ) {
        if self.sampler.is_none() {
            return;
        }
        // The engine counts a repair once it is on its way.
        let in_flight = engine.pipe(self) + u32::from(again.is_some() && E::SCOREBOARD);
        let allowed = self.allowed();
        let Some(sampler) = &mut self.sampler else { return };
        match again {
            Some(index) => sampler.on_send_again(index, in_flight, allowed, now),
            None => sampler.on_send(idle, in_flight, allowed, now),
        }
    }

    /// An ACK has arrived: begins its sample. The engines' fill paths hold until [`Connection::finish_rate_sample`].
    pub(super) fn begin_rate_sample<E: RecoveryEngine>(&mut self, engine: &E, now: Time) {
        if self.sampler.is_none() {
            return;
        }
        let prior_flight = engine.pipe(self);
        let Some(sampler) = &mut self.sampler else { return };
        sampler.begin(prior_flight, E::SCOREBOARD, now);
        self.hold = true;
    }

    /// `una` is about to move to `ack`: notes what that delivers.
    pub(super) fn sample_cumulative(&mut self, ack: u64) {
        let Some(sampler) = &mut self.sampler else { return };
        let data = self.una > 0;
        let mut covered = 0;
        while let Some(segment) = self.segments.get(covered)
            && segment.end() <= ack
        {
            if !segment.sacked && data {
                let short = u32::from(segment.len) < self.mss;
                sampler.on_covered(covered, segment.transmissions == 1, short);
            }
            covered += 1;
        }
        sampler.forget(covered);
    }

    /// The ACK has been processed: gives the sample to the controller, and then fills the window.
    pub(super) fn finish_rate_sample<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        if self.sampler.is_none() {
            return;
        }
        self.hold = false;
        let around = Around {
            flight: engine.pipe(self),
            srtt: self.rtt.srtt(),
            held_back: self.pace.next().since(now),
            recovery: self.repairing(engine),
            mss: self.mss,
        };
        let Some(sampler) = &mut self.sampler else { return };
        let sample = sampler.finish(around);
        self.host.rate(&sample);
        engine.fill(self, now, wire);
        self.note_app_limited(engine, now);
    }

    /// If there is room in the window and nothing to send, what is in the network now measures the application.
    pub(super) fn note_app_limited<E: RecoveryEngine>(&mut self, engine: &E, now: Time) {
        if self.sampler.is_none() || self.has_more() || self.pace.next() > now {
            return;
        }
        let flight = engine.pipe(self);
        if flight >= self.usable() {
            return;
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.limit_by_application(flight);
        }
    }
}
