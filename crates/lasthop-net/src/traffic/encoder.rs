//! The encoder of a video call: it follows the rate that its transport allows, as RFC 8593 models it.
//!
//! `world.rs` tells it before each frame what the transport says (a [`Demand`]): the rate for the encoder, what still
//! waits at the sender, and when the newest lost packet had been sent. The encoder writes the sizes of frames and keeps
//! their log; how a viewer sees them is measured in `realtime/call.rs`. Over a transport that says nothing (UDP) it
//! stays at the rate that it started with.
//!
//! *From RFC 8593 section 5:* the reaction time tau_v, frame intervals and sizes with Laplace deviations (scale 0.15),
//! a burst of K_B bytes and K_d frames after a change of more than a tenth. *Ours, where it is silent:* of the requests
//! within the reaction time the newest counts at its end; the frames behind a burst share what is left evenly; where
//! K_d frames hold less than twice K_B, the burst is half of what they hold; a key frame is such a burst; sizes are 10
//! B at the least and intervals 1 ms; a frame is skipped while what waits would take longer than `patience`.

use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Demand, Generate, Likeness, Offer, Offered, Pace};
use crate::frames::{Frame, FrameKind};

/// Smallest frame, in bytes.
const LEAST_BYTES: f64 = 10.0;
/// Shortest time between two frames.
const LEAST_INTERVAL: Span = Span::from_millis(1);
/// A change of the rate by more than this share begins a transient.
const NOTED_CHANGE: f64 = 0.1;
/// A resolution is left for the one below when the rate falls below this share of its least rate.
const STEP_DOWN: f64 = 0.85;

/// How sizes deviate from the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deviation {
    /// Laplace deviations of this scale, of sizes and intervals, and a burst after each change (RFC 8593).
    Laplace {
        /// Of sizes.
        size: f64,
        /// Of intervals.
        interval: f64,
    },
    /// The rate of a second is uniform within this share around the wanted one, without bursts (RFC 8867 section 5).
    PerSecond {
        /// The share to either side.
        share: f64,
    },
}

/// What an encoder is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderPlan {
    /// Frames per second, positive.
    pub frame_rate: f64,
    /// Lowest rate.
    pub least: Rate,
    /// Highest rate.
    pub most: Rate,
    /// The rate at the start, between the two.
    pub start: Rate,
    /// tau_v: least time from one change to the next.
    pub reaction: Span,
    /// How sizes deviate.
    pub deviation: Deviation,
    /// K_B: bytes of a key frame and of the first frame after a change.
    pub burst: f64,
    /// K_d: frames of a transient, at least 1.
    pub transient: u32,
    /// Least rates of the resolutions above the lowest, rising.
    pub ladder: Vec<Rate>,
    /// A key frame comes at least so often; `None`: only when it is needed.
    pub key_interval: Option<Span>,
    /// A frame is skipped while what waits at the sender takes longer than this.
    pub patience: Span,
    /// Times at which the camera is covered and uncovered, in turn.
    pub pauses: Vec<(Span, Span)>,
}

impl EncoderPlan {
    fn mean_frame(&self, rate: f64) -> f64 {
        rate / 8.0 / self.frame_rate
    }

    /// Bytes of the largest frame. The tail of the Laplace distribution ends at the largest draw of 53 bits, 37 scales.
    pub fn largest(&self) -> u64 {
        let deviation = match self.deviation {
            Deviation::Laplace { size, .. } => 1.0 + 37.0 * size,
            Deviation::PerSecond { share } => 1.0 + share,
        };
        let mean = self.mean_frame(self.most.0 as f64);
        // A burst takes half of a transient at the most, unless it is alone.
        let burst =
            if self.transient == 1 { self.burst } else { self.burst.min(mean * f64::from(self.transient)) };
        burst.max(mean * deviation).max(LEAST_BYTES).ceil() as u64
    }
}

impl Offered for Arc<EncoderPlan> {
    fn nominal_rate(&self) -> Option<Rate> {
        Some(self.most)
    }

    fn largest_write(&self) -> Option<u64> {
        Some(self.largest())
    }

    fn pace(&self, packing: Packing) -> Option<Pace> {
        let packets = self.most.0 as f64 / (8.0 * f64::from(packing.payload)) + self.frame_rate;
        Some(Pace { gap_ns: 1e9 / packets, active: 1.0 })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "video-call", bytes: None })
    }

    fn encoder(&self) -> Option<&EncoderPlan> {
        Some(self)
    }
}

/// What came of an encoder, beside its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncoderCounts {
    /// Changes of the resolution.
    pub switches: u64,
    /// Key frames, the first one included.
    pub key_frames: u64,
    /// Frames that were not encoded because too much waited at the sender.
    pub skipped: u64,
}

/// A running encoder.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    plan: Arc<EncoderPlan>,
    packing: Packing,
    stream: Stream,
    demand: Demand,
    rate: f64,
    changed: Option<Time>,
    started: Time,
    /// Frames of the transient that are still to come, and the size of each.
    transient: (u32, f64),
    /// Since when a key frame has been made, and a loss is answered.
    last_key: Option<Time>,
    resolution: usize,
    /// The second whose deviation is drawn, and the deviation.
    second: (u64, f64),
    log: Vec<Frame>,
    counts: EncoderCounts,
}

impl Encoder {
    pub(super) fn new(plan: &Arc<EncoderPlan>, packing: Packing, stream: Stream) -> Box<Encoder> {
        let rate = plan.start.0 as f64;
        Box::new(Encoder {
            plan: Arc::clone(plan),
            packing,
            stream,
            demand: Demand::default(),
            rate,
            changed: None,
            started: Time::ZERO,
            transient: (0, 0.0),
            last_key: None,
            resolution: plan.ladder.iter().filter(|rung| rung.0 as f64 <= rate).count(),
            second: (u64::MAX, 1.0),
            log: Vec::new(),
            counts: EncoderCounts::default(),
        })
    }

    /// A draw of Laplace(0, `scale`).
    fn laplace(&mut self, scale: f64) -> f64 {
        let u = self.stream.uniform() - 0.5;
        // At -0.5 the logarithm has no end.
        -scale * u.signum() * (1.0 - 2.0 * u.abs()).max(f64::EPSILON / 2.0).ln()
    }

    /// Follows the demand, if the reaction time has passed. Returns whether the rate changed noticeably.
    fn adapt(&mut self, now: Time) -> bool {
        let Some(wanted) = self.demand.rate else { return false };
        let wanted = wanted.clamp(self.plan.least.0 as f64, self.plan.most.0 as f64);
        let rests = self.changed.is_some_and(|changed| now.since(changed) < self.plan.reaction);
        if rests || wanted == self.rate {
            return false;
        }
        let noted = (wanted - self.rate).abs() > NOTED_CHANGE * self.rate;
        (self.rate, self.changed) = (wanted, Some(now));
        noted
    }

    /// The resolution that fits the rate. Returns whether it changed.
    fn resolve(&mut self) -> bool {
        let before = self.resolution;
        let rung = |number: usize| self.plan.ladder.get(number).map_or(f64::INFINITY, |rate| rate.0 as f64);
        while self.rate >= rung(self.resolution) {
            self.resolution += 1;
        }
        while self.resolution > 0 && self.rate < STEP_DOWN * rung(self.resolution - 1) {
            self.resolution -= 1;
        }
        self.counts.switches += u64::from(self.resolution != before);
        self.resolution != before
    }

    /// Whether a key frame is needed now.
    fn needs_key(&self, now: Time) -> bool {
        let Some(last) = self.last_key else { return true };
        let is_due = self.plan.key_interval.is_some_and(|interval| now.since(last) >= interval);
        // What was lost before the last key frame does no harm behind it.
        is_due || self.demand.lost.is_some_and(|sent| sent >= last)
    }

    /// Begins a transient and returns its first frame.
    fn burst(&mut self) -> f64 {
        let count = f64::from(self.plan.transient);
        let whole = count * self.plan.mean_frame(self.rate);
        let first = if self.plan.transient == 1 { self.plan.burst } else { self.plan.burst.min(whole / 2.0) };
        let rest = (whole - first) / (count - 1.0).max(1.0);
        self.transient = (self.plan.transient - 1, rest);
        first
    }

    /// Bytes of the next frame.
    fn size(&mut self, now: Time, (is_key, changed): (bool, bool)) -> u64 {
        let mean = self.plan.mean_frame(self.rate);
        let bursts = is_key || (changed && matches!(self.plan.deviation, Deviation::Laplace { .. }));
        let bytes = if bursts {
            self.burst()
        } else if self.transient.0 > 0 {
            self.transient.0 -= 1;
            self.transient.1
        } else {
            match self.plan.deviation {
                Deviation::Laplace { size, .. } => mean * (1.0 + self.laplace(size)),
                Deviation::PerSecond { share } => {
                    let second = now.since(self.started).0 / 1_000_000_000;
                    if self.second.0 != second {
                        self.second = (second, 1.0 + share * (2.0 * self.stream.uniform() - 1.0));
                    }
                    mean * self.second.1
                }
            }
        };
        bytes.max(LEAST_BYTES).round() as u64
    }

    /// When the frame behind one at `now` is due.
    fn after(&mut self, now: Time) -> Time {
        let mean = 1.0 / self.plan.frame_rate;
        let Deviation::Laplace { interval, .. } = self.plan.deviation else {
            // Multiples of the interval, so that nothing adds up.
            let number = (now.since(self.started).seconds() / mean).round() + 1.0;
            return (self.started + Span::from_seconds(number * mean)).max(now + Span(1));
        };
        let drawn = mean * (1.0 + self.laplace(interval));
        now + Span::from_seconds(drawn.max(0.0)).max(LEAST_INTERVAL)
    }

    /// The end of the pause that `now` lies in.
    fn pause(&self, now: Time) -> Option<Time> {
        let since = now.since(self.started);
        let pause = self.plan.pauses.iter().find(|&&(from, until)| from <= since && since < until);
        pause.map(|&(_, until)| self.started + until)
    }
}

impl Generate for Encoder {
    fn start(&mut self, now: Time) -> Offer {
        self.started = now;
        self.next(now)
    }

    fn next(&mut self, now: Time) -> Offer {
        if let Some(end) = self.pause(now) {
            // Behind it the viewer needs a whole picture.
            self.last_key = None;
            return Offer { bytes: Some(0), next: Some(end) };
        }
        let before = self.log.last().map_or(0, |frame| frame.end);
        let changed = self.adapt(now);
        let waits = self.demand.waiting as f64 * 8.0 / self.demand.rate.unwrap_or(self.rate).max(1.0);
        if self.demand.waiting > 0 && waits > self.plan.patience.seconds() {
            self.counts.skipped += 1;
            self.log.push(Frame { end: before, kind: FrameKind::P, at: now });
            return Offer { bytes: Some(0), next: Some(self.after(now)) };
        }
        let is_key = self.resolve() | self.needs_key(now);
        let bytes = self.packing.carried(self.size(now, (is_key, changed)));
        if is_key {
            self.counts.key_frames += 1;
            self.last_key = Some(now);
        }
        let kind = if is_key { FrameKind::I } else { FrameKind::P };
        self.log.push(Frame { end: before + bytes, kind, at: now });
        Offer { bytes: Some(bytes), next: Some(self.after(now)) }
    }

    fn hear(&mut self, demand: Demand) {
        self.demand = demand;
    }

    fn frames(&self) -> &[Frame] {
        &self.log
    }

    fn encoder(&self) -> Option<EncoderCounts> {
        Some(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKING: Packing = Packing { payload: 1200, whole: false };

    fn plan() -> EncoderPlan {
        EncoderPlan {
            frame_rate: 30.0,
            least: Rate(150_000),
            most: Rate(1_500_000),
            start: Rate(1_000_000),
            reaction: Span::from_millis(200),
            deviation: Deviation::Laplace { size: 0.15, interval: 0.15 },
            burst: 13_500.0,
            transient: 8,
            ladder: Vec::new(),
            key_interval: None,
            patience: Span::from_millis(200),
            pauses: Vec::new(),
        }
    }

    fn encoder(plan: EncoderPlan) -> Box<Encoder> {
        Encoder::new(&Arc::new(plan), PACKING, Stream::new(1, "encoder"))
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn demand(rate: f64) -> Demand {
        Demand { rate: Some(rate), ..Demand::default() }
    }

    /// Sizes of `count` frames from now on, and the time behind them.
    fn frames(encoder: &mut Encoder, mut now: Time, count: usize) -> (Vec<u64>, Time) {
        let mut sizes = Vec::new();
        for _ in 0..count {
            let offer = encoder.next(now);
            sizes.extend(offer.bytes);
            now = offer.next.unwrap();
        }
        (sizes, now)
    }

    /// 1 Mbit/s at 30 Hz is 4166.67 B a frame; a burst of 13,500 B leaves (8 x 4166.67 - 13500) / 7 = 2833.3 B.
    #[test]
    fn a_transient_keeps_the_mean() {
        let mut encoder = encoder(plan());
        let (sizes, _) = frames(&mut encoder, at(0), 8);
        assert_eq!(sizes, [13_500, 2833, 2833, 2833, 2833, 2833, 2833, 2833]);
        // At 150 kbit/s eight frames hold 5000 B: the burst is half of it.
        let mut small = super::tests::encoder(EncoderPlan { start: Rate(150_000), ..plan() });
        assert_eq!(frames(&mut small, at(0), 2).0, [2500, 357]);
    }

    /// The standard deviation of Laplace(0, 0.15) is 0.15 sqrt 2.
    #[test]
    fn frames_deviate_as_the_rfc_says() {
        let mut encoder = encoder(plan());
        let (_, now) = frames(&mut encoder, at(0), 8);
        let count = 20_000;
        let (sizes, end) = frames(&mut encoder, now, count);
        let mean = sizes.iter().sum::<u64>() as f64 / count as f64;
        let squares = sizes.iter().map(|&size| (size as f64 / mean - 1.0).powi(2)).sum::<f64>();
        assert!((mean - 4166.67).abs() < 30.0, "{mean}");
        assert!(((squares / count as f64).sqrt() - 0.2121).abs() < 0.005);
        assert!((end.since(now).seconds() * 30.0 / count as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_request_waits_for_the_reaction_time() {
        let mut encoder = encoder(plan());
        frames(&mut encoder, at(0), 8);
        encoder.hear(demand(600_000.0));
        encoder.next(at(1000));
        encoder.hear(demand(300_000.0));
        encoder.next(at(1100));
        assert_eq!(encoder.rate, 600_000.0, "within 200 ms of the last change");
        encoder.hear(demand(5e6));
        encoder.next(at(1200));
        assert_eq!(encoder.rate, 1_500_000.0, "the newest, within what the encoder can");
    }

    #[test]
    fn a_loss_calls_for_one_key_frame() {
        let mut encoder = encoder(plan());
        frames(&mut encoder, at(0), 8);
        let lost = Some(at(900));
        encoder.hear(Demand { lost, ..demand(1e6) });
        encoder.next(at(1000));
        encoder.next(at(1033));
        let kinds: Vec<FrameKind> = encoder.log[8..].iter().map(|frame| frame.kind).collect();
        assert_eq!((kinds, encoder.counts.key_frames), (vec![FrameKind::I, FrameKind::P], 2));
    }

    #[test]
    fn a_backlog_skips_frames() {
        let mut encoder = encoder(plan());
        frames(&mut encoder, at(0), 1);
        // 25,001 B at 1 Mbit/s take more than 200 ms.
        encoder.hear(Demand { waiting: 25_001, ..demand(1e6) });
        assert_eq!(encoder.next(at(40)).bytes, Some(0));
        encoder.hear(Demand { waiting: 25_000, ..demand(1e6) });
        assert!(encoder.next(at(80)).bytes > Some(0));
        assert_eq!((encoder.counts.skipped, encoder.log.len()), (1, 3));
    }

    #[test]
    fn resolutions_have_a_hysteresis() {
        let mut encoder = encoder(EncoderPlan { ladder: vec![Rate(300_000), Rate(800_000)], ..plan() });
        encoder.next(at(0));
        for (millis, rate) in [(300, 700_000.0), (600, 679_000.0), (900, 801_000.0), (1200, 200_000.0)] {
            encoder.hear(demand(rate));
            encoder.next(at(millis));
        }
        // 1000k starts at the top, 700k keeps it, 679k leaves it, 801k takes it again, 200k is at the bottom.
        assert_eq!((encoder.resolution, encoder.counts.switches), (0, 3));
        assert_eq!(encoder.counts.key_frames, 4);
    }

    #[test]
    fn a_second_has_one_rate() {
        let deviation = Deviation::PerSecond { share: 0.05 };
        let mut encoder = encoder(EncoderPlan { deviation, transient: 1, burst: 4167.0, ..plan() });
        let (sizes, end) = frames(&mut encoder, at(0), 61);
        assert!(sizes[1..30].iter().all(|&size| size == sizes[1] && (3958..=4375).contains(&size)));
        assert_eq!(end, Time::ZERO + Span::from_seconds(61.0 / 30.0));
    }

    #[test]
    fn a_pause_is_silent_and_ends_with_a_key_frame() {
        let pauses = vec![(Span::from_secs(1), Span::from_secs(2))];
        let mut encoder = encoder(EncoderPlan { pauses, ..plan() });
        encoder.start(at(0));
        let offer = encoder.next(at(1010));
        assert_eq!((offer.bytes, offer.next), (Some(0), Some(at(2000))));
        encoder.next(at(2000));
        assert_eq!(encoder.log.last().map(|frame| frame.kind), Some(FrameKind::I));
    }
}
