//! What other layers tell a sender, and who acts on it.

use lasthop_cc::Signal;
use lasthop_core::time::Time;

use super::Connection;
use super::recovery::RecoveryEngine;
use crate::transport::wire::Wire;

impl Connection {
    /// Another layer says something.
    pub(super) fn on_signal<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        signal: &Signal,
        now: Time,
        wire: &mut W,
    ) {
        if self.stats.completed.is_some() || self.reset().is_some() {
            return;
        }
        match signal {
            Signal::LinkFading { .. } => self.on_link_fading(now, wire),
            Signal::LinkUp => self.on_link_up(engine, now, wire),
            Signal::HandoffDone => {
                if let Some(handoff) = self.mobility.fast_handoff {
                    self.on_handoff(engine, handoff.tahoe, now, wire);
                }
            }
            _ => {}
        }
        if self.needs.signals {
            self.host.signal(signal, now);
            if self.needs.timing {
                self.retime(engine, signal, now, wire);
            }
        }
    }
}
