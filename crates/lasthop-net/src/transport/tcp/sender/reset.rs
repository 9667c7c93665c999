//! How a connection ends before its time: the sender gives it up, or hears that the other end knows nothing of it.
//!
//! RFC 9293 section 3.8.3 lets a sender give up when nothing has been acknowledged for long; hosts count the
//! retransmissions (Linux: `tcp_retries2`). Section 3.10.7 has the RST.

use lasthop_core::packet::{Kind, NONE, Packet};
use lasthop_core::time::Time;

use super::Connection;
use super::alarms::Alarms;
use crate::transport::wire::Wire;

/// Counts the timeouts for which nothing has been acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    most: u32,
    count: u32,
    /// Where the data began that were not acknowledged at the last timeout.
    una: u64,
}

impl Patience {
    pub(super) fn new(most: u32) -> Patience {
        Patience { most, count: 0, una: u64::MAX }
    }

    /// The timer has run out for what begins at `una`; whether it did so too often.
    pub(super) fn ends(&mut self, una: u64) -> bool {
        if una != self.una {
            (self.una, self.count) = (una, 0);
        }
        self.count += 1;
        self.count > self.most
    }
}

impl Connection {
    /// The connection is over. `tells`: with a RST for the other end.
    pub(super) fn abort<W: Wire>(&mut self, tells: bool, now: Time, wire: &mut W) {
        let is_open = self.opened.take().is_some() && self.stats.completed.is_none();
        self.timer = None;
        self.alarms = Alarms::default();
        if !is_open {
            return;
        }
        self.stats.reset = now;
        if tells {
            self.refuse(now, wire);
        }
    }

    /// Sends a RST.
    pub(crate) fn refuse<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let reset = Packet {
            seq: self.next,
            stamp: now,
            echo: self.peer_stamp,
            bytes: self.ack_size,
            extra: NONE,
            kind: Kind::Reset,
            ..Packet::default()
        };
        wire.send(reset, now);
    }

    /// When the connection was given up or reset, if it was.
    pub fn reset(&self) -> Option<Time> {
        Some(self.stats.reset).filter(|&at| at != Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::config::Recovery;
    use crate::transport::tcp::sender::testing::Rig;

    fn rig(give_up: Option<u32>) -> Rig {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        rig.sender.patience = give_up.map(|timeouts| Box::new(Patience::new(timeouts)));
        rig
    }

    fn kinds(rig: &mut Rig) -> Vec<Kind> {
        rig.tape.packets.drain(..).map(|packet| packet.kind).collect()
    }

    /// Lets the timer run out, whatever comes of it.
    fn ring(rig: &mut Rig) {
        rig.now = rig.sender.timer.expect("it is running");
        rig.sender.armed = rig.now;
        rig.sender.on_timer(rig.now, &mut rig.tape);
    }

    /// The third timeout in a row is one too many for a sender with patience for two; an ACK between makes it begin
    /// anew.
    #[test]
    fn too_many_timeouts_end_the_connection() {
        let mut rig = rig(Some(2));
        ring(&mut rig);
        rig.ack(12);
        ring(&mut rig);
        ring(&mut rig);
        assert_eq!(rig.sender.reset(), None);
        kinds(&mut rig);
        ring(&mut rig);
        assert_eq!((kinds(&mut rig), rig.sender.reset()), (vec![Kind::Reset], Some(rig.now)));
        rig.ack(13);
        assert_eq!(kinds(&mut rig), [], "whatever comes later");
    }

    #[test]
    fn a_reset_is_heard_and_not_answered() {
        let mut rig = rig(None);
        kinds(&mut rig);
        let reset = Packet { seq: 0, kind: Kind::Reset, ..Packet::default() };
        let now = rig.now;
        rig.sender.on_ack(&reset, None, now, &mut rig.tape);
        assert_eq!((kinds(&mut rig), rig.sender.reset()), (vec![], Some(now)));
        rig.sender.on_data(Some(10_000), now, &mut rig.tape);
        assert_eq!(kinds(&mut rig), [], "nothing opens it again");
    }
}
