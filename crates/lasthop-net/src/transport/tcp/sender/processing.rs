//! The random time that a host takes before it sends, as ns-2 has it (`overhead_`): whatever the window opens for waits
//! for one draw and then leaves together. Fast retransmissions and limited transmit do not wait, nor is the time part
//! of a measured RTT. Used in the profile `ns2`; elsewhere the port of the sender keeps every packet (`world`).

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::Connection;
use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use crate::transport::wire::Wire;

/// The host of a sender that takes time.
#[derive(Clone, Debug)]
pub(super) struct HostTime {
    stream: Stream,
    longest: Span,
    /// What waited is being sent.
    over: bool,
}

impl HostTime {
    /// Draws from `stream` times of less than `longest`.
    pub(super) fn new(stream: Stream, longest: Span) -> HostTime {
        HostTime { stream, longest, over: false }
    }
}

impl Connection {
    /// Whether what the window allows waits for the host. The first question of a burst starts the time.
    #[cold]
    pub(super) fn waits_for_host<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        let Some(host) = self.host_time.as_mut().filter(|host| !host.over) else { return false };
        if !self.alarms.is_set(Alarm::Host) {
            let span = Span(host.stream.below(host.longest.0));
            self.set_alarm(Alarm::Host, now + span, wire);
        }
        true
    }

    /// The time of the host is over: sends what the window allows now.
    pub(super) fn end_host_time<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        self.tell_host_time(true);
        engine.fill(self, now, wire);
        self.tell_host_time(false);
    }

    fn tell_host_time(&mut self, over: bool) {
        if let Some(host) = &mut self.host_time {
            host.over = over;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use super::*;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};
    use lasthop_cc::ControllerConfig;

    /// What two ACKs allow leaves together after the first's time; a fast retransmission does not wait for it.
    #[test]
    fn the_window_waits_and_repairs_do_not() {
        for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack1] {
            let reno = ControllerConfig::by_name("reno").unwrap();
            let mut rig = Rig::new(&TcpConfig::new(Profile::Ns2, reno, recovery)).ten_outstanding();
            let longest = Span::from_millis(10);
            assert!(rig.sender.take_time(Stream::new(1, "host"), longest));
            let name = recovery.name();
            assert_eq!(rig.ack(12), [0; 0], "{name}");
            let due = rig.sender.armed;
            assert!(due > rig.now && due < rig.now + longest, "{name}");
            assert_eq!(rig.ack(13), [0; 0], "{name}");
            rig.tape.sent.clear();
            rig.sender.on_timer(due, &mut rig.tape);
            let sent = rig.tape.sent.clone();
            assert!(
                sent.len() >= 2 && sent.windows(2).all(|pair| pair[1] == pair[0] + 1),
                "{name}: {sent:?}"
            );
            assert!(!rig.sender.alarms.is_set(Alarm::Host), "{name}");
        }
    }
}
