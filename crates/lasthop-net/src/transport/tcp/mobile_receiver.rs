//! What a receiver on a mobile host does when its link fades and returns: the receiver's part of Freeze-TCP
//! (`persist.rs`) and of fast retransmission after a handoff (`fast_handoff.rs`).
//!
//! Receivers run ahead of the clock, so the events of the link are a list that is known from the start; `receiver.rs`
//! takes them like its other timers, when they are due.

use lasthop_core::time::Time;

use super::mobility::Mobility;
use crate::handoff::HostEvent;

/// The link's events, and the ACKs that the last of them still asks for.
#[derive(Clone, Debug)]
pub(super) struct MobileReceiver {
    mobility: Mobility,
    events: Box<[(Time, HostEvent)]>,
    next: usize,
    /// ACKs to be sent at `burst_at`.
    burst: u32,
    burst_at: Time,
}

impl MobileReceiver {
    pub(super) fn new(mobility: Mobility, events: Vec<(Time, HostEvent)>) -> MobileReceiver {
        MobileReceiver { mobility, events: events.into(), next: 0, burst: 0, burst_at: Time::ZERO }
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Option<Time> {
        if self.burst > 0 {
            return Some(self.burst_at);
        }
        self.events.get(self.next).map(|event| event.0)
    }

    /// Does what is due and says whether an ACK is to be sent. `open`: the connection can send ACKs. `frozen`: the
    /// window is closed from now on.
    pub(super) fn act(&mut self, open: bool, frozen: &mut bool) -> bool {
        if self.burst == 0 {
            let Some(&(at, event)) = self.events.get(self.next) else { return false };
            self.next += 1;
            self.burst_at = at;
            let freeze = self.mobility.freeze;
            self.burst = match event {
                HostEvent::Fading(_) => freeze.map_or(0, |freeze| freeze.closing_acks),
                HostEvent::Up => freeze.map_or(0, |freeze| freeze.opening_acks),
                HostEvent::Handoff => self.mobility.fast_handoff.map_or(0, |handoff| handoff.acks),
            };
            match event {
                HostEvent::Fading(_) if freeze.is_some() && open => *frozen = true,
                HostEvent::Up => *frozen = false,
                _ => {}
            }
            if !open {
                self.burst = 0;
            }
            if self.burst == 0 {
                return false;
            }
        }
        self.burst -= 1;
        true
    }
}
