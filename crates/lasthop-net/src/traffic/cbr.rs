//! Packets of one size at constant bit rate.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered, Pace};

/// One packet of `packet` bytes every `8 * packet / rate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cbr {
    /// Payload rate.
    pub rate: Rate,
    /// Bytes of one packet.
    pub packet: u32,
    /// Multiply every gap by U(0.5, 1.5).
    pub random: bool,
}

impl Offered for Cbr {
    fn nominal_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn largest_write(&self) -> Option<u64> {
        Some(self.packet.into())
    }

    fn pace(&self, _: Packing) -> Option<Pace> {
        Some(Pace { gap_ns: f64::from(self.packet) * 8e9 / self.rate.0 as f64, active: 1.0 })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "cbr", bytes: None })
    }
}

/// The clock of the packets.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    packet: u64,
    interval: Span,
    /// Where gaps are drawn from, if they are.
    stream: Option<Stream>,
}

impl Clock {
    pub(super) fn new(plan: &Cbr, _: Packing, stream: Stream) -> Clock {
        let interval = plan.rate.serialisation(u64::from(plan.packet));
        Clock { packet: plan.packet.into(), interval, stream: plan.random.then_some(stream) }
    }
}

impl Generate for Clock {
    fn next(&mut self, now: Time) -> Offer {
        let gap = match &mut self.stream {
            None => self.interval,
            Some(stream) => Span::from_seconds(self.interval.seconds() * (0.5 + stream.uniform())),
        };
        Offer { bytes: Some(self.packet), next: Some(now + gap) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Traffic;
    use crate::traffic::testing::{running, writes};

    #[test]
    fn keeps_its_interval() {
        let cbr = Cbr { rate: Rate(448_000), packet: 210, random: false };
        let times = writes(&mut running(&Traffic::Cbr(cbr.clone())), 1);
        assert_eq!(times[..3], [Time::ZERO, Time(3_750_000), Time(7_500_000)]);
        let count = writes(&mut running(&Traffic::Cbr(Cbr { random: true, ..cbr })), 100).len();
        assert!((26_000..27_400).contains(&count), "{count}");
    }
}
