//! Bursts of losses: everything that is in the air while the channel is bad is lost.
//!
//! "Exponentially distributed errors" of papers with ns-2 are one of three things: sojourns measured in time
//! ([`TwoState`]), sojourns measured in packets ([`TwoStatePackets`], ns-2's `ErrorModel/Expo` in packets), or
//! independent losses with another rate, which the scenario turns into [`super::Bernoulli`].

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::sojourns::Sojourns;
use super::{ErrorProcess, Frame};

/// A channel that is good and bad for times of exponential length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoState {
    /// Mean length of a good time.
    pub good: Span,
    /// Mean length of a bad one.
    pub bad: Span,
    /// Whether the first state is drawn by how long either lasts; otherwise it is good, as in ns-2.
    pub stationary: bool,
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Bursts(Sojourns);

impl Bursts {
    pub(super) fn new(plan: TwoState, stream: Stream) -> Bursts {
        Bursts(Sojourns::new(plan.good, plan.bad, plan.stationary, stream))
    }
}

impl ErrorProcess for Bursts {
    /// A frame is lost if any part of it is in the air in a bad time.
    fn corrupts(&mut self, frame: &Frame) -> bool {
        let mut hit = false;
        self.0.walk(frame.start, frame.end, |bad, _| hit |= bad);
        hit
    }
}

/// The same with lengths in packets. One that a bad length so much as touches is lost, so that more are lost than the
/// means say: about `(bad + 1) / (good + bad)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoStatePackets {
    /// Mean length of a good state in packets.
    pub good: f64,
    /// Mean length of a bad one.
    pub bad: f64,
    /// See [`TwoState::stationary`].
    pub stationary: bool,
}

/// The model at work: packet k takes the seconds k to k + 1.
#[derive(Clone, Debug)]
pub(super) struct PacketBursts {
    sojourns: Sojourns,
    judged: u64,
}

const PACKET: Span = Span::from_secs(1);

impl PacketBursts {
    pub(super) fn new(plan: TwoStatePackets, stream: Stream) -> PacketBursts {
        let length = |packets| Span::from_seconds(packets * PACKET.seconds());
        let sojourns = Sojourns::new(length(plan.good), length(plan.bad), plan.stationary, stream);
        PacketBursts { sojourns, judged: 0 }
    }
}

impl ErrorProcess for PacketBursts {
    fn corrupts(&mut self, _frame: &Frame) -> bool {
        let start = Time::ZERO + PACKET * self.judged;
        self.judged += 1;
        let mut hit = false;
        self.sojourns.walk(start, start + PACKET, |bad, _| hit |= bad);
        hit
    }

    /// A packet survives that begins in a good state which outlasts it.
    fn mean_loss(&self, _bytes: u32) -> Option<f64> {
        Some(1.0 - (1.0 - self.sojourns.bad_share()) * self.sojourns.stays_good(PACKET))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{frame, losses};
    use super::*;

    fn stream() -> Stream {
        Stream::new(1, "errors")
    }

    /// A good second and 50 ms that are bad: a twenty-first of the time is lost, in bursts of 50 packets of a
    /// millisecond, and a little more, as a packet may be hit in part.
    #[test]
    fn time_is_lost_in_bursts() {
        let plan = TwoState { good: Span::from_secs(1), bad: Span::from_millis(50), stationary: true };
        let (rate, run) = losses(Bursts::new(plan, stream()), 4_000_000, Span::from_millis(1));
        assert!((rate - 51.0 / 1050.0).abs() < 0.002, "{rate}");
        assert!((run - 51.0).abs() < 2.0, "{run}");
    }

    /// Longer frames are hit more often: of 20 ms each, (50 + 20) of every 1050 ms.
    #[test]
    fn long_frames_are_hit_more_often() {
        let plan = TwoState { good: Span::from_secs(1), bad: Span::from_millis(50), stationary: true };
        let mut bursts = Bursts::new(plan, stream());
        let lost = (0..400_000).filter(|&number| {
            let start = Time(number * 40_000_000);
            bursts.corrupts(&Frame { start, end: start + Span::from_millis(20), bytes: 1000 })
        });
        let rate = lost.count() as f64 / 400_000.0;
        assert!((rate - 0.0476 - 0.9524 * (1.0 - libm::exp(-0.02))).abs() < 0.002, "{rate}");
    }

    /// The losses that ns-2's rule gives by simulation (network specification 2.3): rate and mean run.
    #[test]
    fn in_packets_as_in_ns2() {
        for (good, bad, rate, run) in [
            (99.0, 1.0, 0.0198, 2.03),
            (19.0, 1.0, 0.0985, 2.2),
            (57.0, 3.0, 0.0658, 4.10),
            (90.0, 10.0, 0.1094, 11.19),
        ] {
            let plan = TwoStatePackets { good, bad, stationary: false };
            let seen = losses(PacketBursts::new(plan, stream()), 2_000_000, Span::from_millis(1));
            assert!((seen.0 / rate - 1.0).abs() < 0.03, "{good}/{bad}: {seen:?}");
            assert!((seen.1 / run - 1.0).abs() < 0.06, "{good}/{bad}: {seen:?}");
        }
    }

    /// The channel is the same for every sender: what is asked about between two instants changes nothing there.
    #[test]
    fn the_channel_does_not_depend_on_who_asks() {
        let plan = TwoState { good: Span::from_millis(9), bad: Span::from_millis(3), stationary: true };
        let (mut busy, mut idle) = (Bursts::new(plan, stream()), Bursts::new(plan, stream()));
        for number in 0..10_000 {
            let at = Time(number * 1_000_000);
            let hit = busy.corrupts(&frame(at));
            if number % 7 == 0 {
                assert_eq!(hit, idle.corrupts(&frame(at)), "{at}");
            }
        }
    }
}
