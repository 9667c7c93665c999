//! Traffic sources: when the application hands how many bytes to its transport.
//!
//! The world calls `start` once and `next` at each time that the source asked for.

pub mod video;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::frames::Frame;
use crate::plan::Traffic;
use video::{FrameSource, Packing};

/// The random stream of the application of the flow called `name`.
pub fn stream_of(seed: u64, name: &str) -> Stream {
    Stream::new(seed, &format!("traffic of {name}"))
}

/// What a source does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes to hand over now; `None` is a file without end.
    pub bytes: Option<u64>,
    /// When to ask again; `None` if the source is exhausted.
    pub next: Option<Time>,
}

/// A running source.
#[derive(Clone, Debug)]
pub struct Source {
    traffic: Traffic,
    stream: Stream,
    /// Bytes left of a bounded transfer.
    left: u64,
    /// Packets left in the current burst.
    burst: u64,
    /// The state of a source of frames.
    frames: Option<Box<FrameSource>>,
}

impl Source {
    /// A source with its own random stream, over a transport that packs so.
    pub fn new(traffic: &Traffic, packing: Packing, stream: Stream) -> Source {
        let left = match *traffic {
            Traffic::Ftp { bytes } | Traffic::PacedFtp { bytes, .. } => bytes.unwrap_or(u64::MAX),
            Traffic::Cbr { .. } | Traffic::OnOff { .. } | Traffic::Frames(_) => u64::MAX,
        };
        let frames = match traffic {
            Traffic::Frames(plan) => Some(Box::new(FrameSource::new(plan, packing, stream.clone()))),
            _ => None,
        };
        Source { traffic: traffic.clone(), stream, left, burst: 0, frames }
    }

    /// The frames so far, if the source writes frames.
    pub fn frames(&self) -> &[Frame] {
        self.frames.as_ref().map_or(&[], |source| source.frames())
    }

    /// The application starts.
    pub fn start(&mut self, now: Time) -> Offer {
        if let Some(frames) = &mut self.frames {
            return frames.start(now);
        }
        match self.traffic {
            Traffic::OnOff { .. } => Offer { bytes: Some(0), next: Some(now + self.gap()) },
            _ => self.next(now),
        }
    }

    /// It is time for the next write.
    pub fn next(&mut self, now: Time) -> Offer {
        if let Some(frames) = &mut self.frames {
            return frames.next(now);
        }
        match self.traffic {
            Traffic::Ftp { bytes } => Offer { bytes, next: None },
            Traffic::PacedFtp { write, interval, .. } => {
                let bytes = u64::from(write).min(self.left);
                self.left -= if self.left == u64::MAX { 0 } else { bytes };
                Offer { bytes: Some(bytes), next: (self.left > 0).then(|| now + interval) }
            }
            Traffic::Cbr { packet, .. } | Traffic::OnOff { packet, .. } => {
                Offer { bytes: Some(u64::from(packet)), next: Some(now + self.gap()) }
            }
            Traffic::Frames(_) => unreachable!("a source of frames has its own state"),
        }
    }

    /// Whether a bounded transfer has been handed over as a whole.
    pub fn is_exhausted(&self) -> bool {
        if let (Traffic::Frames(plan), Some(frames)) = (&self.traffic, &self.frames) {
            return !plan.ends() || frames.is_exhausted();
        }
        !matches!(self.traffic, Traffic::PacedFtp { bytes: Some(_), .. }) || self.left == 0
    }

    /// Time to the next packet.
    fn gap(&mut self) -> Span {
        match self.traffic {
            Traffic::Cbr { rate, packet, random } => {
                let interval = rate.serialisation(u64::from(packet));
                if !random {
                    return interval;
                }
                Span::from_seconds(interval.seconds() * (0.5 + self.stream.uniform()))
            }
            Traffic::OnOff { rate, packet, on, off } => {
                let interval = rate.serialisation(u64::from(packet));
                let mut gap = interval;
                if self.burst == 0 {
                    // ns-2 draws the burst as a number of packets, at least one, and the pause after it.
                    let mean = on.seconds() / interval.seconds();
                    self.burst = whole_burst(self.stream.exponential(mean));
                    gap = gap + Span::from_seconds(self.stream.exponential(off.seconds()));
                }
                self.burst -= 1;
                gap
            }
            Traffic::Ftp { .. } | Traffic::PacedFtp { .. } | Traffic::Frames(_) => Span::ZERO,
        }
    }
}

/// The packets of a burst whose exponential length was drawn: rounded as in ns-2, and at least one.
fn whole_burst(drawn: f64) -> u64 {
    ((drawn + 0.5) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use lasthop_core::units::Rate;

    use super::*;

    fn source(traffic: &Traffic) -> Source {
        Source::new(traffic, Packing { payload: 1000, whole: false }, Stream::new(1, "traffic"))
    }

    /// Times of all writes up to `seconds`.
    fn writes(source: &mut Source, seconds: u64) -> Vec<Time> {
        let end = Time::ZERO + Span::from_secs(seconds);
        let mut times = Vec::new();
        let mut offer = source.start(Time::ZERO);
        let mut now = Time::ZERO;
        loop {
            if offer.bytes != Some(0) {
                times.push(now);
            }
            match offer.next {
                Some(next) if next <= end => now = next,
                _ => return times,
            }
            offer = source.next(now);
        }
    }

    /// NV-7.2: 2.5 Mbit/s, 512 B, 1.2 s on, 1.8 s off.
    #[test]
    fn on_off_has_its_rate() {
        let video = Traffic::OnOff {
            rate: Rate(2_500_000),
            packet: 512,
            on: Span::from_millis(1200),
            off: Span::from_millis(1800),
        };
        let times = writes(&mut source(&video), 10_000);
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

    /// TV-12.1 and TV-12.2: the video of Andreadis et al. has 732.42 packets of 1.6384 ms in a mean burst and 1.000
    /// Mbit/s in the mean; half of its bursts are longer than 508 packets and half of its pauses than 1.247665 s.
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

    #[test]
    fn cbr_keeps_its_interval() {
        let cbr = Traffic::Cbr { rate: Rate(448_000), packet: 210, random: false };
        let times = writes(&mut source(&cbr), 1);
        assert_eq!(times[..3], [Time::ZERO, Time(3_750_000), Time(7_500_000)]);
        let jittered = Traffic::Cbr { rate: Rate(448_000), packet: 210, random: true };
        let count = writes(&mut source(&jittered), 100).len();
        assert!((26_000..27_400).contains(&count), "{count}");
    }

    #[test]
    fn paced_ftp_writes_until_it_is_done() {
        let paced = Traffic::PacedFtp { write: 1024, interval: Span::from_millis(5), bytes: Some(2500) };
        let mut source = source(&paced);
        let mut now = Time::ZERO;
        let mut offers = vec![source.start(now)];
        while let Some(next) = offers.last().and_then(|offer| offer.next) {
            now = next;
            offers.push(source.next(now));
        }
        assert_eq!(offers.iter().filter_map(|offer| offer.bytes).collect::<Vec<_>>(), [1024, 1024, 452]);
        assert_eq!(now, Time::ZERO + Span::from_millis(10));
    }
}
