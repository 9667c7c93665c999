//! Bursts of constant rate with exponential lengths and pauses, as ns-2's `Application/Traffic/Exponential`.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered, Pace};

/// Packets of `packet` bytes at `rate`, now and then.
#[derive(Clone, Debug, PartialEq)]
pub struct OnOff {
    /// Payload rate while on.
    pub rate: Rate,
    /// Bytes of one packet.
    pub packet: u32,
    /// Mean length of a burst.
    pub on: Span,
    /// Mean length of a pause.
    pub off: Span,
}

impl OnOff {
    /// Share of the time in which it sends.
    fn active(&self) -> f64 {
        self.on.seconds() / (self.on.seconds() + self.off.seconds())
    }
}

impl Offered for OnOff {
    fn nominal_rate(&self) -> Option<Rate> {
        Some(Rate((self.rate.0 as f64 * self.active()).round() as u64))
    }

    fn largest_write(&self) -> Option<u64> {
        Some(self.packet.into())
    }

    fn pace(&self, _: Packing) -> Option<Pace> {
        let gap_ns = f64::from(self.packet) * 8e9 / self.rate.0 as f64;
        Some(Pace { gap_ns, active: self.active() })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "on-off", bytes: None })
    }
}

/// The bursts.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    packet: u64,
    interval: Span,
    on: Span,
    off: Span,
    stream: Stream,
    /// Packets left in the current burst.
    left: u64,
}

impl Bursts {
    pub(super) fn new(plan: &OnOff, _: Packing, stream: Stream) -> Bursts {
        let interval = plan.rate.serialisation(u64::from(plan.packet));
        Bursts { packet: plan.packet.into(), interval, on: plan.on, off: plan.off, stream, left: 0 }
    }

    /// Time to the next packet.
    fn gap(&mut self) -> Span {
        let mut gap = self.interval;
        if self.left == 0 {
            // ns-2 draws the burst as a number of packets, at least one, and the pause after it.
            let mean = self.on.seconds() / self.interval.seconds();
            self.left = whole_burst(self.stream.exponential(mean));
            gap = gap + Span::from_seconds(self.stream.exponential(self.off.seconds()));
        }
        self.left -= 1;
        gap
    }
}

impl Generate for Bursts {
    fn start(&mut self, now: Time) -> Offer {
        Offer { bytes: Some(0), next: Some(now + self.gap()) }
    }

    fn next(&mut self, now: Time) -> Offer {
        Offer { bytes: Some(self.packet), next: Some(now + self.gap()) }
    }
}

/// The packets of a burst whose exponential length was drawn: rounded as in ns-2, and at least one.
fn whole_burst(drawn: f64) -> u64 {
    ((drawn + 0.5) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Traffic;
    use crate::traffic::testing::{running, writes};

    /// NV-7.2: 2.5 Mbit/s, 512 B, 1.2 s on, 1.8 s off.
    #[test]
    fn on_off_has_its_rate() {
        let video = Traffic::OnOff(OnOff {
            rate: Rate(2_500_000),
            packet: 512,
            on: Span::from_millis(1200),
            off: Span::from_millis(1800),
        });
        let times = writes(&mut running(&video), 10_000);
        let mbit_s = times.len() as f64 * 512.0 * 8.0 / 1e10;
        assert!((mbit_s - 1.0).abs() < 0.03, "{mbit_s}");
        let gap = Span(1_638_400);
        let within = times.windows(2).filter(|pair| pair[1].since(pair[0]) == gap).count();
        let bursts = times.len() - within;
        let mean_burst = times.len() as f64 / bursts as f64;
        assert!((mean_burst / 732.42 - 1.0).abs() < 0.06, "{mean_burst}");
        let on = times.len() as f64 * gap.seconds() / 10_000.0;
        assert!((on - 0.4).abs() < 0.01, "{on}");
    }

    /// NV-7.2: the video of Andreadis et al. has 732.42 packets of 1.6384 ms in a mean burst and 1.000
    /// Mbit/s on average; half of its bursts are longer than 508 packets and half of its pauses than 1.247665 s.
    #[test]
    fn bursts_and_pauses_as_worked_by_hand() {
        let interval = Rate(2_500_000).serialisation(512);
        assert_eq!(interval, Span(1_638_400));
        let mean = 1.2 / interval.seconds();
        assert!((mean - 732.42).abs() <= 0.005, "{mean}");
        assert!((2.5 * 1.2 / (1.2 + 1.8) - 1.0_f64).abs() <= 0.0005);
        // The inverse of the distribution at u = 0.5.
        let median = std::f64::consts::LN_2;
        assert_eq!(whole_burst(mean * median), 508);
        assert!((1.8 * median - 1.247_665).abs() <= 5e-7);
        assert_eq!(whole_burst(0.3), 1, "never none");
        let mut stream = Stream::new(1, "traffic");
        let longer = (0..10_000).filter(|_| whole_burst(stream.exponential(mean)) > 508).count();
        assert!((4_800..5_200).contains(&longer), "{longer}");
    }
}
