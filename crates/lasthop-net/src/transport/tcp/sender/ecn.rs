//! The reaction to ECN echoes (RFC 3168 §6.1.2): one reduction per window of data.

use lasthop_core::time::Time;

use super::recovery::RecoveryEngine;
use super::{Action, Connection};

impl Connection {
    /// ECN echo on an ACK of `ack`, judged before `una` moves (RFC 3168 §6.1.2).
    pub(super) fn on_ecn_echo<E: RecoveryEngine>(&mut self, engine: &mut E, ack: u64, now: Time) {
        // Once per window of data, timeouts included; ns-2 lets a mark cut again after a timeout.
        // Linux ends a recovery before it looks at the mark of the ACK that ends it (`tcp_fastretrans_alert`).
        let ends = self.linux && engine.is_in_recovery(self) && ack >= self.host.recover;
        if ends {
            engine.leave_recovery(self);
        }
        if !(ends || self.host.is_new_window(ack) || self.ns2 && self.action == Action::Timeout) {
            return;
        }
        if let Some(undo) = &mut self.undo {
            undo.forget();
        }
        // This ACK ends the reduction before; the next one begins at its target (RFC 9937 §6; `tcp_fastretrans_alert`).
        self.end_prr();
        let before = self.host.window.cwnd;
        self.action = Action::Ecn;
        if self.ns2 {
            // ns-2 cuts a window of one segment as well, waits for its timer with what is left, and backs that off when
            // the segment sent then is marked again.
            let again = std::mem::replace(&mut self.marked_at_one, before <= 1.0);
            if again && before <= 1.0 {
                self.rtt.back_off();
            }
        } else if before < 2.0 {
            self.waits_for_timer = true;
        }
        let sample = self.loss_sample(engine, now);
        self.host.answer_mark(&sample, self.max_sent);
        if self.extended {
            self.begin_prr(engine, before);
        }
        self.reduced = true;
        engine.on_mark(self, now);
    }
}
