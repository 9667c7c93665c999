//! TCP Probing: two probes measure the path before the sender responds to a loss (Tsaoussidis & Badr, ICNP 2000).
//!
//! *What it does.* Before a recovery engine responds to a third duplicate ACK, or the sender to a timeout, it calls
//! `begins_probing`. From then on no data is sent and the retransmission timer is stopped. A probe, a header alone,
//! goes to the receiver, which answers at once; then a second. When both are answered, the controller receives their
//! RTTs (`on_probes`) and the engine continues where it was stopped: the controller's `on_loss` or `on_timeout` now
//! decides whether the window is reduced. A probe that is not answered in time starts the cycle again with twice that
//! time, 60 s at most. The path drains during the cycle, so the window is afterwards spread over a round trip instead
//! of sent as a burst.
//!
//! *Reacts to* the events that start a cycle; ACKs continue to advance `una`, and the cycle is abandoned when
//! everything is acknowledged.
//!
//! *Differs from the paper:* see the controller `probing`, which evaluates the probes. A probe carries 40 bytes of
//! headers, timestamps if they are in use, and an option of 5 bytes that is padded to 8. Where duplicate ACKs started
//! the cycle, those that arrived during it count as departures when fast recovery begins.
//!
//! *Validation:* TV-8.3 on a running sender.
//!
//! *Limitations:* Vegas's own engine does not probe.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Tsaoussidis & Badr, ICNP 2000; RFC 6994.

use lasthop_cc::ProbeSample;
use lasthop_core::packet::{Kind, NONE, Packet};
use lasthop_core::time::{Span, Time};

use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use super::{Action, Connection};
use crate::transport::sack::SackBlocks;
use crate::transport::wire::Wire;

/// A cycle waits no longer than this for an answer.
const LONGEST_WAIT: Span = Span::from_secs(60);

/// What a cycle answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// Duplicate ACKs or SACK.
    DuplicateAcks,
    /// The retransmission timer.
    Timeout,
}

/// Where a sender stands between loss and answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Probing {
    /// No loss waits for an answer.
    #[default]
    Idle,
    /// Data waits for the answers to probes.
    Cycle(Cycle),
    /// The probes are answered, and now the loss is.
    Decided,
    /// The cycle is over: new segments keep their distance until what the first of them carries is acknowledged.
    Resuming {
        /// Everything below had been sent before.
        from: u64,
        /// Segments per second.
        rate: f64,
    },
}

/// A probing cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    trigger: Trigger,
    /// When the probe that waits for its answer was sent, by which that is known.
    sent: Time,
    /// RTT of the first probe, once it is known.
    first: Option<Span>,
    /// How long an answer is waited for.
    wait: Span,
    /// Smoothed RTT before the cycle.
    srtt: Span,
}

impl Connection {
    /// Whether data waits for the answers to probes.
    #[inline]
    pub(super) fn is_probing(&self) -> bool {
        matches!(self.probing, Probing::Cycle(_))
    }

    /// The pace of new segments after a cycle, until the ACKs of the first clock what follows.
    pub(super) fn resuming_rate(&mut self) -> Option<f64> {
        match self.probing {
            Probing::Resuming { from, rate } if self.una <= from => Some(rate),
            Probing::Resuming { .. } => {
                self.probing = Probing::Idle;
                None
            }
            _ => None,
        }
    }

    /// A cycle is over: spreads the window over a round trip.
    fn resume(&mut self) {
        let round_trip = self.rtt.srtt().seconds();
        self.probing = if round_trip > 0.0 {
            Probing::Resuming { from: self.max_sent, rate: self.host.window.cwnd.max(1.0) / round_trip }
        } else {
            Probing::Idle
        };
    }

    /// Begins a cycle in place of the answer to a loss, if the controller wants one; the caller is called again when
    /// it is over, and then goes on.
    pub(super) fn begins_probing<W: Wire>(&mut self, trigger: Trigger, now: Time, wire: &mut W) -> bool {
        if !self.needs.probing || matches!(self.probing, Probing::Decided) {
            return false;
        }
        if self.una == 0 {
            // The handshake has no data to stop.
            return false;
        }
        self.timer = None;
        self.timed = None;
        let (wait, srtt) = (self.rtt.timeout(), self.rtt.srtt());
        self.send_probe(Cycle { trigger, sent: now, first: None, wait, srtt }, now, wire);
        true
    }

    fn send_probe<W: Wire>(&mut self, cycle: Cycle, now: Time, wire: &mut W) {
        let bytes = self.probe_size;
        wire.send(
            Packet {
                seq: self.max_sent,
                stamp: now,
                echo: self.peer_stamp,
                window: self.own_window,
                bytes,
                extra: NONE,
                kind: Kind::Probe,
                flags: self.marks.told,
                ..Packet::default()
            },
            now,
        );
        self.probing = Probing::Cycle(Cycle { sent: now, ..cycle });
        self.set_alarm(Alarm::Probe, now + cycle.wait, wire);
    }

    /// No answer came in time: a new cycle.
    pub(super) fn restart_probing<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if let Probing::Cycle(cycle) = self.probing {
            let wait = (cycle.wait * 2).min(LONGEST_WAIT);
            self.send_probe(Cycle { first: None, wait, ..cycle }, now, wire);
        }
    }

    /// Takes whatever arrives during a cycle; returns whether there is one, or the packet is a late answer.
    pub(super) fn probing_on_ack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) -> bool {
        let is_answer = packet.kind == Kind::ProbeAnswer;
        let Probing::Cycle(cycle) = self.probing else { return is_answer };
        self.note_while_probing(engine, packet, sack, now);
        if self.una == self.max_sent {
            self.abandon_probing(engine, cycle.trigger, now, wire);
        } else if is_answer && packet.echo == cycle.sent {
            let rtt = now.since(cycle.sent);
            match cycle.first {
                None => self.send_probe(Cycle { first: Some(rtt), ..cycle }, now, wire),
                Some(first) => {
                    let sample = ProbeSample { first, second: rtt, srtt: cycle.srtt };
                    self.decide(engine, cycle.trigger, &sample, now, wire);
                }
            }
        }
        true
    }

    /// What an ACK says about the data outstanding, without any consequence.
    fn note_while_probing<E: RecoveryEngine>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
    ) {
        let is_answer = packet.kind == Kind::ProbeAnswer;
        if packet.seq > self.una {
            self.dup_acks = 0;
            // The answer to a probe echoes the time of the probe, not of data.
            let (acked, rtt) = self.advance(engine, packet, now, !is_answer);
            self.measure_and_grow(engine, acked, rtt, false, now);
        } else if packet.seq == self.una && !is_answer {
            self.dup_acks += 1;
        }
        engine.note(self, sack, now);
    }

    /// Everything has been acknowledged: nothing was lost for good.
    fn abandon_probing<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        trigger: Trigger,
        now: Time,
        wire: &mut W,
    ) {
        self.alarms.cancel(Alarm::Probe);
        self.resume();
        if trigger == Trigger::Timeout {
            self.count_timeout(true, now);
        }
        self.dup_acks = 0;
        self.inflation = 0;
        self.first_partial = false;
        if self.action == Action::DuplicateAcks {
            self.action = Action::Exited;
        }
        engine.leave_recovery(self);
        // ns-2 halves a window of one segment. Less than one lets nothing out, and no timer would ring.
        self.host.window.cwnd = self.host.window.cwnd.max(1.0);
        engine.fill(self, now, wire);
    }

    /// Both probes have been answered: the engine goes on where it was stopped.
    fn decide<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        trigger: Trigger,
        sample: &ProbeSample,
        now: Time,
        wire: &mut W,
    ) {
        self.alarms.cancel(Alarm::Probe);
        self.probing = Probing::Decided;
        self.host.probed(sample);
        // The engine repairs the loss; what else the window allows follows at the pace that begins then.
        self.hold = true;
        match trigger {
            Trigger::Timeout => self.time_out(engine, now, wire),
            Trigger::DuplicateAcks => engine.enter_recovery(self, now, wire),
        }
        self.hold = false;
        match trigger {
            // ACKs clock what follows.
            Trigger::Timeout => self.probing = Probing::Idle,
            Trigger::DuplicateAcks => self.resume(),
        }
        engine.fill(self, now, wire);
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::{ControllerConfig, Window};

    use crate::transport::tcp::config::{Recovery, TcpConfig};

    use super::super::testing::Rig;
    use super::*;
    use crate::transport::profile::Profile;

    const ENGINES: [Recovery; 4] = [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::Sack1];

    /// W = 20 and the segments from 11 on outstanding, on a path with a best RTT of 100 ms and a smoothed one close
    /// to it; segment 11 is lost.
    fn rig(recovery: Recovery) -> Rig {
        let mut controller = ControllerConfig::by_name("probing").unwrap();
        controller.set("factor", 1.5).unwrap();
        let mut rig = Rig::new(&TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            initial_window: 20.0,
            ..TcpConfig::new(Profile::Rfc, controller, recovery)
        });
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        rig.ack(1);
        rig.now += Span::from_millis(99);
        for number in 2..=11 {
            rig.sender.host.window = Window { cwnd: 20.0, ssthresh: 15.0 };
            rig.ack(number);
        }
        rig.sender.host.window = Window { cwnd: 20.0, ssthresh: 15.0 };
        rig.tape.packets.clear();
        rig
    }

    /// Three duplicates for the hole at 11.
    fn three_duplicates(rig: &mut Rig) {
        (12..=14).for_each(|last| drop(rig.sack(11, &[(12, last)])));
    }

    fn kinds(rig: &mut Rig) -> Vec<Kind> {
        std::mem::take(&mut rig.tape.packets).iter().map(|packet| packet.kind).collect()
    }

    /// The answer to the last probe arrives this time after it was sent.
    fn answer(rig: &mut Rig, millis: u64) {
        let probe = rig.tape.packets.pop().unwrap();
        assert_eq!((probe.kind, probe.bytes, probe.payload), (Kind::Probe, 48, 0));
        rig.now = probe.stamp + Span::from_millis(millis);
        rig.tape.sent.clear();
        let seq = rig.sender.una;
        let packet = Packet {
            seq,
            echo: probe.stamp,
            window: rig.sender.own_window,
            kind: Kind::ProbeAnswer,
            ..Packet::default()
        };
        rig.sender.on_ack(&packet, None, rig.now, &mut rig.tape);
    }

    /// TV-8.3: W = 20, probes of 120 and 140 ms on a path of 100 ms: W stays; 120 and 180 ms: W is halved.
    #[test]
    fn probes_decide_whether_the_window_falls() {
        for recovery in ENGINES {
            for (second, cwnd, ssthresh) in [(140, 20.0, 20.0), (180, 10.0, 10.0)] {
                let mut rig = rig(recovery);
                three_duplicates(&mut rig);
                assert!(rig.sender.is_probing(), "{recovery:?}");
                answer(&mut rig, 120);
                assert!(rig.sender.is_probing(), "{recovery:?}");
                answer(&mut rig, second);
                assert!(!rig.sender.is_probing(), "{recovery:?}");
                assert_eq!(rig.sender.host.window, Window { cwnd, ssthresh }, "{recovery:?}");
                assert_eq!(rig.tape.sent[0], 11, "{recovery:?}: the loss is repaired");
                assert_eq!(rig.sender.stats.fast_recoveries, 1, "{recovery:?}");
                assert!(rig.sender.timer.is_some(), "{recovery:?}");
            }
        }
    }

    #[test]
    fn a_timeout_is_probed_too() {
        for recovery in ENGINES {
            for (second, cwnd, ssthresh) in [(140, 2.0, 20.0), (180, 1.0, 10.0)] {
                let mut rig = rig(recovery);
                let due = rig.sender.timer.unwrap();
                while !rig.sender.is_probing() {
                    rig.now = rig.sender.armed;
                    rig.sender.on_timer(rig.now, &mut rig.tape);
                }
                assert_eq!((rig.now, rig.sender.timer), (due, None), "{recovery:?}");
                answer(&mut rig, 120);
                answer(&mut rig, second);
                assert_eq!(rig.sender.host.window, Window { cwnd, ssthresh }, "{recovery:?}");
                let first: Vec<u64> = (11..).take(cwnd as usize).collect();
                assert_eq!(std::mem::take(&mut rig.tape.sent), first, "{recovery:?}: no burst");
                assert_eq!(rig.sender.stats.timeouts, 1, "{recovery:?}");
                assert_eq!(rig.ack(12).len(), 2, "{recovery:?}: as ACKs return");
                assert_eq!(rig.sender.host.window.cwnd, cwnd + 1.0, "{recovery:?}");
            }
        }
    }

    /// No data, no timeout; an unanswered probe is sent again after twice the time, and the old answer is stale.
    #[test]
    fn silence_during_a_cycle() {
        let mut rig = rig(Recovery::NewReno);
        three_duplicates(&mut rig);
        let mut sent = vec![rig.now];
        let stale = rig.tape.packets.last().unwrap().stamp;
        rig.sender.on_data(Some(1000), rig.now, &mut rig.tape);
        rig.ack(11);
        while sent.len() < 4 {
            rig.now = rig.sender.armed;
            rig.sender.on_timer(rig.now, &mut rig.tape);
            if rig.tape.packets.len() > sent.len() {
                sent.push(rig.now);
            }
        }
        let waits: Vec<u64> = sent.windows(2).map(|pair| pair[1].since(pair[0]).0 / 1_000_000).collect();
        assert_eq!(waits, [1000, 2000, 4000], "the timeout is 1 s");
        let packet = Packet {
            seq: 10_001,
            echo: stale,
            window: rig.sender.own_window,
            kind: Kind::ProbeAnswer,
            ..Packet::default()
        };
        rig.sender.on_ack(&packet, None, rig.now, &mut rig.tape);
        assert_eq!(kinds(&mut rig), [Kind::Probe; 4]);
        assert_eq!(rig.sender.host.window.cwnd, 20.0);
    }

    #[test]
    fn acks_go_on_and_may_end_the_cycle() {
        for recovery in ENGINES {
            let mut rig = rig(recovery);
            let last = rig.sender.max_sent / 1000;
            three_duplicates(&mut rig);
            rig.ack(15);
            assert_eq!((rig.sender.una, rig.sender.is_probing()), (14_001, true), "{recovery:?}");
            assert_eq!(kinds(&mut rig), [Kind::Probe], "{recovery:?}");
            let (before, mut sent) = (rig.now, rig.ack(last + 1));
            assert!(!rig.sender.is_probing(), "{recovery:?}");
            assert_eq!(sent, [last + 1], "{recovery:?}: no burst");
            while sent.len() < 20 {
                rig.now = rig.sender.armed;
                rig.sender.on_timer(rig.now, &mut rig.tape);
                sent.append(&mut rig.tape.sent);
            }
            assert_eq!(sent, (last + 1..=last + 20).collect::<Vec<_>>(), "{recovery:?}: a full window");
            let spread = rig.now.since(before).seconds() / rig.sender.srtt().seconds();
            assert!((0.9..1.1).contains(&spread), "{recovery:?}: over {spread} round trips");
            assert_eq!(rig.sender.host.window.cwnd, 20.0, "{recovery:?}");
            assert!(rig.sender.timer.is_some() && !rig.sender.alarms.is_set(Alarm::Probe), "{recovery:?}");
        }
    }

    #[test]
    fn a_mark_is_not_probed() {
        let mut rig = rig(Recovery::NewReno);
        rig.sender.ecn = true;
        rig.marked(12);
        assert!(!rig.sender.is_probing());
        assert!(rig.sender.host.window.cwnd < 11.0);
        (0..3).for_each(|_| drop(rig.ack(12)));
        assert!(!rig.sender.is_probing(), "the loss is of the same window");
    }
}
