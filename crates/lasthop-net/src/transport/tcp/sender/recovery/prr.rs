//! PRR: Proportional Rate Reduction (Dukkipati, Mathis, Cheng and Ghobadi, IMC 2011; RFC 6937, RFC 9937).
//!
//! *What it does.* Spreads a reduction over the ACKs of one round trip: a fixed share of the segments that leave the
//! network is replaced, so that the data in flight equals the new window when recovery ends. If losses have reduced it
//! below that window at once, it is rebuilt slowly, by a reduction bound. `sack.rs` and `rack.rs` use it for the
//! window on every ACK of an episode; an ECN reaction is spread in the same way.
//!
//! *Reacts to* segments newly delivered and segments newly marked lost.
//!
//! *Differs from the paper:* counts segments in place of bytes, as Linux does. The target is the window that the
//! controller returned, which is ssthresh for all controllers that set both to the same value; a controller without a
//! reduction keeps its window. A controller that sets the window from the delivery rate (BBR) is never overridden: its
//! sender has no PRR.
//!
//! *Validation:* TV-2.13.1 and TV-2.13.2, and hand-worked episodes in `sack.rs` and `rack.rs`.
//!
//! *Limitations:* a controller that lowers the window by itself during recovery (a delay-based one) is overridden
//! until the episode ends.
//!
//! *Kernel counterpart:* `tcp_cwnd_reduction` (variant `safe-ack`).
//!
//! *References:* RFC 6937 §3 and §3.1; RFC 9937 §6.

use super::super::Connection;
use super::RecoveryEngine;
use crate::transport::tcp::config::PrrVariant;

/// The state of one sender; without effect outside an episode.
#[derive(Clone, Debug)]
pub(in super::super) struct Prr {
    variant: PrrVariant,
    /// An episode is under way.
    active: bool,
    /// Segments delivered and segments sent in this episode (`prr_delivered`, `prr_out`).
    delivered: u32,
    out: u32,
    /// Segments that the present ACK delivered.
    newly: u32,
    /// Flight that the episode started from (`RecoverFS`), and the window that it is to end with.
    flight: f64,
    target: f64,
}

impl Prr {
    pub(in super::super) fn new(variant: PrrVariant) -> Prr {
        Prr { variant, active: false, delivered: 0, out: 0, newly: 0, flight: 1.0, target: 1.0 }
    }

    /// An episode begins with `flight` segments outstanding and shall end with a window of `target`.
    fn begin(&mut self, flight: f64, target: f64) {
        *self = Prr { active: true, delivered: 0, out: 0, flight: flight.max(1.0), target, ..*self };
    }

    /// The episode is over, for whatever reason.
    pub(in super::super) fn abandon(&mut self) {
        self.active = false;
    }

    /// A segment was sent, new or again.
    #[inline]
    pub(in super::super) fn on_sent(&mut self) {
        self.out += u32::from(self.active);
    }

    /// How many segments an ACK allows that delivered `delivered` of them and left `pipe` in the network. `safe`: it
    /// advanced, and nothing more was found lost.
    fn allowance(&mut self, delivered: u32, pipe: u32, safe: bool) -> u32 {
        self.delivered += delivered;
        let (sent, pipe) = (f64::from(self.out), f64::from(pipe));
        let allowed = if pipe > self.target {
            (f64::from(self.delivered) * self.target / self.flight).ceil() - sent
        } else {
            let balance = f64::from(self.delivered) - sent;
            let news = f64::from(delivered);
            let bound = match self.variant {
                PrrVariant::Off | PrrVariant::Crb => balance,
                PrrVariant::Ssrb => balance.max(news) + 1.0,
                PrrVariant::SafeAck => balance.max(news) + f64::from(u8::from(safe)),
            };
            bound.min(self.target.floor() - pipe)
        };
        let allowed = allowed.max(0.0) as u32;
        // The fast retransmit goes out in any case.
        if self.out == 0 { allowed.max(1) } else { allowed }
    }
}

impl Connection {
    /// Whether PRR leads the window at present.
    #[inline]
    pub(in super::super) fn is_reducing(&self) -> bool {
        self.prr.as_ref().is_some_and(|prr| prr.active)
    }

    /// The present ACK delivered `count` segments.
    #[inline]
    pub(in super::super) fn note_delivered(&mut self, count: u32) {
        if let Some(prr) = &mut self.prr {
            prr.newly = count;
        }
    }

    /// A reduction to the present window begins, from `before`: PRR leads there, if it is on.
    pub(in super::super) fn begin_prr<E: RecoveryEngine>(&mut self, engine: &E, before: f64) {
        let outstanding = self.segments.len() as u32;
        let Some(sacked) = engine.sacked() else { return };
        let sacked = sacked as u32;
        let linux = self.linux;
        let target = self.host.window.cwnd;
        let Some(prr) = &mut self.prr else { return };
        let flight = match prr.variant {
            // RFC 9937 §6.1: what was SACKed before the episode will not be delivered in it.
            PrrVariant::SafeAck if !linux => f64::from(outstanding - sacked + prr.newly),
            PrrVariant::SafeAck => before,
            _ => f64::from(outstanding),
        };
        prr.begin(flight, target);
        self.host.window.cwnd = before;
    }

    /// An ACK of the episode has been taken: sets the window to what PRR allows. `pipe` is the flight after it.
    pub(in super::super) fn apply_prr(&mut self, pipe: usize, safe: bool) {
        let Some(prr) = &mut self.prr else { return };
        let delivered = std::mem::take(&mut prr.newly);
        if !prr.active || (delivered == 0 && prr.out > 0) {
            return;
        }
        let allowed = prr.allowance(delivered, pipe as u32, safe);
        self.host.window.cwnd = (pipe as f64 + f64::from(allowed)).max(1.0);
    }

    /// The episode ends as it should: with the target as the window.
    pub(in super::super) fn end_prr(&mut self) {
        if let Some(prr) = &mut self.prr
            && prr.active
        {
            prr.active = false;
            self.host.window.cwnd = prr.target;
            self.host.reduced();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent on each of `acks` ACKs that deliver one segment each, and the pipe and the sum at the end.
    fn episode(variant: PrrVariant, flight: f64, target: f64, pipe: u32, acks: u32) -> (Vec<u32>, u32, u32) {
        let mut prr = Prr::new(variant);
        prr.begin(flight, target);
        let mut pipe = pipe;
        let sent = (0..acks)
            .map(|number| {
                // The ACK that starts the episode has been taken out of the pipe already.
                pipe -= u32::from(number > 0);
                let allowed = prr.allowance(1, pipe, false);
                (0..allowed).for_each(|_| prr.on_sent());
                pipe += allowed;
                allowed
            })
            .collect();
        (sent, pipe, prr.out)
    }

    /// TV-2.13.1: one loss; every second ACK sends until the flight has reached ssthresh.
    #[test]
    fn one_loss_halves_the_rate() {
        let (sent, pipe, out) = episode(PrrVariant::Crb, 20.0, 10.0, 16, 17);
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1]);
        assert_eq!((pipe, out), (10, 10));
    }

    /// TV-2.13.2: most of the window is lost, and the variants rebuild the flight at different speeds.
    #[test]
    fn heavy_losses_are_bounded() {
        assert_eq!(episode(PrrVariant::Ssrb, 20.0, 10.0, 2, 4).0, [2, 2, 2, 2]);
        assert_eq!(episode(PrrVariant::Crb, 20.0, 10.0, 2, 4).0, [1, 1, 1, 1]);
        assert_eq!(episode(PrrVariant::SafeAck, 20.0, 10.0, 2, 4).0, [1, 1, 1, 1], "more losses with each");
        let mut prr = Prr::new(PrrVariant::SafeAck);
        prr.begin(20.0, 10.0);
        assert_eq!(prr.allowance(1, 2, true), 2, "a safe ACK");
    }

    #[test]
    fn a_law_that_does_not_cut_keeps_its_window() {
        // T = W = 20: every segment delivered is replaced.
        let (sent, pipe, _) = episode(PrrVariant::SafeAck, 20.0, 20.0, 19, 10);
        assert_eq!(sent, [1; 10]);
        assert_eq!(pipe, 20);
    }
}
