//! Frames at equal intervals: the sizes of an MPEG-4 encoder as three TES models, or those of a list.
//!
//! `mod.rs` drives a `FrameSource`; reports on the traffic alone read [`FrameSizes`]. Sizes are scaled to a rate, the
//! times of frames never are.
//!
//! TES (transform-expand-sample): B. Melamed, "TES: a class of methods for generating autocorrelated uniform
//! variates", ORSA Journal on Computing 3(4), 1991; D. L. Jagerman and B. Melamed, "The transition and
//! autocorrelation structure of TES processes", Stochastic Models 8(2-3), 1992. Three models for I, P and B frames,
//! interleaved by the group of pictures: A. Matrawy, I. Lambadaris and C. Huang, "MPEG4 traffic modeling using the
//! transform expand sample methodology", IEEE IWNA4 2002.

use std::sync::{Arc, LazyLock};

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::{Demand, Generate, Likeness, Offer, Offered, Pace, stream_of};
use crate::frames::{Frame, FrameKind};
use crate::plan::{FlowPlan, Profile, Transport};

/// What a source of frames is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct FramePlan {
    /// Frames per second, positive.
    pub frame_rate: f64,
    /// Hand the packets of a frame over at equal intervals until the next one, instead of all at once.
    pub spread: bool,
    /// Where whole segments alone can be sent, the rest of a frame waits for the next one instead of filling a segment.
    pub carry: bool,
    /// Where sizes come from.
    pub sizes: Sizes,
    /// All sizes are multiplied by this.
    pub scale: f64,
}

/// Where the sizes of frames come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Random, of three TES models.
    Tes(TesPlan),
    /// A list, such as the trace of a film.
    Listed(ListPlan),
}

/// Three TES models, interleaved.
#[derive(Clone, Debug, PartialEq)]
pub struct TesPlan {
    /// Types of the frames of a group of pictures, in the order of transmission: I, P and B only, at least one.
    pub gop: Vec<FrameKind>,
    /// The models of I, P and B frames.
    pub models: [TesModel; 3],
    /// Width of the innovation of the one background that all models share; `None`: each has its own.
    pub shared: Option<f64>,
    /// Asymmetry of the innovation: 0 is symmetric, 1 never goes down, -1 never goes up.
    pub phi: f64,
    /// Parameter xi of the stitching, in 0..=1.
    pub stitching: f64,
    /// TES-: every other value of the background is mirrored, for negative correlation at odd lags.
    pub minus: bool,
    /// First value of each background, in place of a random one.
    pub first: Option<f64>,
}

/// The model of one type of frame.
#[derive(Clone, Debug, PartialEq)]
pub struct TesModel {
    /// Width of the innovation, in 0..=1: how much neighbouring frames of the type differ.
    pub alpha: f64,
    /// The sizes that it shall have.
    pub distribution: Arc<Distribution>,
}

/// A list of frames.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPlan {
    /// Size in bytes and type of each frame; at least one is larger than zero.
    pub frames: Arc<[(u32, FrameKind)]>,
    /// Number of the first frame to send, counted from 0.
    pub offset: usize,
    /// Draw the first frame per flow instead.
    pub random_offset: bool,
    /// Start again from the beginning at the end of the list.
    pub repeat: bool,
}

// ---------------------------------------------------------------------------------------------------------------------

/// A distribution of sizes by its quantiles, linear between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Probability and bytes, ascending in both, from probability 0 to 1.
    knots: Vec<(f64, f64)>,
}

impl Distribution {
    /// A distribution by probability and bytes; `None` unless the probabilities rise from 0 to 1, the bytes never
    /// fall and something is larger than zero.
    pub fn new(knots: Vec<(f64, f64)>) -> Option<Distribution> {
        let (first, last) = (knots.first()?, knots.last()?);
        let ascending = knots.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let whole = first.0 == 0.0 && last.0 == 1.0 && first.1 >= 0.0 && last.1 > 0.0 && last.1.is_finite();
        (ascending && whole).then_some(Distribution { knots })
    }

    /// The size below which a share `y` of all frames lies.
    pub fn quantile(&self, y: f64) -> f64 {
        let above = self.knots.partition_point(|&(p, _)| p <= y).clamp(1, self.knots.len() - 1);
        let ((p, low), (next, high)) = (self.knots[above - 1], self.knots[above]);
        low + (high - low) * ((y - p) / (next - p))
    }

    /// The expectation, exact for what `quantile` says.
    pub fn mean(&self) -> f64 {
        self.knots.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0).sum()
    }

    /// The largest size.
    pub fn largest(&self) -> f64 {
        self.knots.last().map_or(0.0, |&(_, bytes)| bytes)
    }
}

/// Quantiles of I, P and B frames in bytes of the public MPEG-4 trace of "Jurassic Park I" in high quality (F. H. P.
/// Fitzek and M. Reisslein, "MPEG-4 and H.263 video traces for network performance evaluation", IEEE Network 15(6),
/// 2001): QCIF, 25 frames/s, groups of IBBPBBPBBPBB.
const QUANTILES: [(f64, [f64; 3]); 25] = [
    (0.0, [534.0, 144.0, 72.0]),
    (0.01, [2284.0, 907.0, 606.0]),
    (0.05, [3606.0, 1551.0, 1042.0]),
    (0.1, [4375.0, 1966.0, 1309.0]),
    (0.15, [4931.0, 2273.0, 1524.0]),
    (0.2, [5404.0, 2550.0, 1717.0]),
    (0.25, [5726.0, 2811.0, 1891.0]),
    (0.3, [6076.0, 3063.0, 2060.0]),
    (0.35, [6327.0, 3295.0, 2237.0]),
    (0.4, [6600.0, 3544.0, 2412.0]),
    (0.45, [6888.0, 3801.0, 2590.0]),
    (0.5, [7152.0, 4055.0, 2773.0]),
    (0.55, [7431.0, 4316.0, 2969.0]),
    (0.6, [7741.0, 4601.0, 3184.0]),
    (0.65, [8034.0, 4921.0, 3435.0]),
    (0.7, [8311.0, 5297.0, 3721.0]),
    (0.75, [8606.0, 5700.0, 4047.0]),
    (0.8, [9045.0, 6189.0, 4445.0]),
    (0.85, [9501.0, 6839.0, 4943.0]),
    (0.9, [9991.0, 7669.0, 5636.0]),
    (0.95, [10679.0, 8699.0, 6728.0]),
    (0.975, [11386.0, 9615.0, 7584.0]),
    (0.99, [11927.0, 11468.0, 9030.0]),
    (0.995, [12338.0, 12131.0, 10322.0]),
    (1.0, [13554.0, 16745.0, 14015.0]),
];

/// The built-in distributions of I, P and B frames.
pub static JURASSIC_PARK: LazyLock<[Arc<Distribution>; 3]> = LazyLock::new(|| {
    [0, 1, 2].map(|kind| {
        let knots = QUANTILES.iter().map(|&(p, bytes)| (p, bytes[kind])).collect();
        Arc::new(Distribution { knots })
    })
});

/// Index of a type among the models.
fn model_of(kind: FrameKind) -> usize {
    match kind {
        FrameKind::I | FrameKind::Any => 0,
        FrameKind::P => 1,
        FrameKind::B => 2,
    }
}

impl Sizes {
    /// Expected bytes of a frame before scaling: exact for TES, the mean of a list.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Tes(tes) => {
                let sum: f64 =
                    tes.gop.iter().map(|&kind| tes.models[model_of(kind)].distribution.mean()).sum();
                sum / tes.gop.len() as f64
            }
            Sizes::Listed(list) => {
                let sum: u64 = list.frames.iter().map(|&(bytes, _)| u64::from(bytes)).sum();
                sum as f64 / list.frames.len() as f64
            }
        }
    }

    /// The largest frame in bytes before scaling.
    pub fn largest(&self) -> f64 {
        match self {
            Sizes::Tes(tes) => {
                let largest = tes.gop.iter().map(|&kind| tes.models[model_of(kind)].distribution.largest());
                largest.fold(0.0, f64::max)
            }
            Sizes::Listed(list) => f64::from(list.frames.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)),
        }
    }
}

impl FramePlan {
    /// Expected payload rate in bit/s.
    pub fn mean_rate(&self) -> f64 {
        self.sizes.mean() * self.scale * 8.0 * self.frame_rate
    }

    /// Bytes of the largest frame.
    pub fn largest(&self) -> u64 {
        self.scaled(self.sizes.largest())
    }

    /// Whether the source comes to an end by itself.
    pub fn ends(&self) -> bool {
        matches!(&self.sizes, Sizes::Listed(list) if !list.repeat)
    }

    fn scaled(&self, bytes: f64) -> u64 {
        // `as` saturates; half a byte rounds up, as sizes are positive.
        if bytes > 0.0 { ((bytes * self.scale + 0.5) as u64).max(1) } else { 0 }
    }
}

// ---------------------------------------------------------------------------------------------------------------------

/// The background of TES: values whose distribution is uniform, correlated with their neighbours.
#[derive(Clone, Debug, Default)]
struct Background {
    /// The last value of TES+, and how many there have been.
    value: f64,
    count: u64,
}

impl Background {
    /// The next value; `draw` is uniform in `[0, 1)`.
    fn next(&mut self, tes: &TesPlan, alpha: f64, draw: f64) -> f64 {
        let value = if self.count == 0 {
            tes.first.unwrap_or(draw)
        } else {
            // V is uniform on [L, R) with R - L = alpha and R + L = alpha phi.
            self.value + alpha * (draw - 0.5 + tes.phi / 2.0)
        };
        self.value = fraction(value);
        let mirrored = tes.minus && self.count % 2 == 1;
        self.count += 1;
        if mirrored { fraction(1.0 - self.value) } else { self.value }
    }
}

/// The fractional part, in `[0, 1)`.
fn fraction(value: f64) -> f64 {
    let fraction = value - value.floor();
    // A tiny negative number is rounded to 1.
    if fraction < 1.0 { fraction } else { 0.0 }
}

/// S_xi: keeps uniform values uniform and takes the jump from 1 to 0 away.
fn stitch(xi: f64, u: f64) -> f64 {
    if u < xi { u / xi } else { (1.0 - u) / (1.0 - xi).max(f64::MIN_POSITIVE) }
}

/// The sizes and types of the frames of one flow, one after the other.
#[derive(Clone, Debug)]
pub struct FrameSizes {
    plan: Arc<FramePlan>,
    stream: Stream,
    /// Of the three models; the first is the shared one.
    backgrounds: [Background; 3],
    /// Position in the group of pictures or in the list.
    position: usize,
    ended: bool,
}

impl FrameSizes {
    /// The sizes of `plan` with this stream of random numbers.
    pub fn new(plan: Arc<FramePlan>, mut stream: Stream) -> FrameSizes {
        let position = match &plan.sizes {
            Sizes::Tes(_) => 0,
            Sizes::Listed(list) if list.random_offset => stream.below(list.frames.len() as u64) as usize,
            Sizes::Listed(list) => list.offset,
        };
        FrameSizes { plan, stream, backgrounds: Default::default(), position, ended: false }
    }

    /// The sizes that the application of `flow` will have in a run with this seed; `None` if it writes no frames.
    pub fn of(flow: &FlowPlan, seed: u64) -> Option<FrameSizes> {
        let plan = flow.traffic.offered().video()?;
        Some(FrameSizes::new(Arc::clone(plan), stream_of(seed, &flow.name)))
    }

    /// Frames per second.
    pub fn frame_rate(&self) -> f64 {
        self.plan.frame_rate
    }

    /// Whether the rest of a frame waits for the next one where segments must be full.
    pub fn carries(&self) -> bool {
        self.plan.carry
    }

    /// Whether there is no further frame.
    pub fn is_exhausted(&self) -> bool {
        self.ended
    }
}

impl Iterator for FrameSizes {
    type Item = (u64, FrameKind);

    /// Bytes and type of the next frame.
    fn next(&mut self) -> Option<(u64, FrameKind)> {
        if self.ended {
            return None;
        }
        let plan = &self.plan;
        let (bytes, kind, length) = match &plan.sizes {
            Sizes::Tes(tes) => {
                let kind = tes.gop[self.position];
                let model = &tes.models[model_of(kind)];
                let (index, alpha) = match tes.shared {
                    Some(alpha) => (0, alpha),
                    None => (model_of(kind), model.alpha),
                };
                let u = self.backgrounds[index].next(tes, alpha, self.stream.uniform());
                (model.distribution.quantile(stitch(tes.stitching, u)), kind, tes.gop.len())
            }
            Sizes::Listed(list) => {
                let (bytes, kind) = list.frames[self.position];
                (f64::from(bytes), kind, list.frames.len())
            }
        };
        self.position += 1;
        if self.position == length {
            self.position = 0;
            self.ended = plan.ends();
        }
        let bytes = match plan.sizes {
            // A frame of a model is never empty; in a list an empty one was skipped by the encoder.
            Sizes::Tes(_) => plan.scaled(bytes).max(1),
            Sizes::Listed(_) => plan.scaled(bytes),
        };
        Some((bytes, kind))
    }
}

// ---------------------------------------------------------------------------------------------------------------------

/// How the transport of a flow packs what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Payload of a full packet.
    pub payload: u32,
    /// Writes are rounded up to full packets, as ns-2's `sendmsg` does.
    pub whole: bool,
}

impl Packing {
    /// That of `transport`.
    pub fn of(transport: &Transport) -> Packing {
        let whole = matches!(transport, Transport::Tcp(config) if config.profile == Profile::Ns2);
        Packing { payload: transport.payload(), whole }
    }

    /// What becomes of a write of `bytes`.
    pub fn carried(self, bytes: u64) -> u64 {
        if self.whole { bytes.next_multiple_of(u64::from(self.payload)) } else { bytes }
    }

    /// Packets of a write of `bytes`.
    pub fn packets(self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.payload))
    }
}

/// A running source of frames.
#[derive(Clone, Debug)]
pub(super) struct FrameSource {
    sizes: FrameSizes,
    packing: Packing,
    frame_rate: f64,
    spread: bool,
    carry: bool,
    /// Bytes of earlier frames that wait for a whole segment.
    owed: u64,
    started: Time,
    /// All frames so far.
    log: Vec<Frame>,
    /// Bytes of the last frame that are not written yet, the most of a write, its packets, and how many of them are
    /// written.
    left: u64,
    piece: u64,
    packets: u64,
    written: u64,
}

impl FrameSource {
    pub(super) fn new(plan: &Arc<FramePlan>, packing: Packing, stream: Stream) -> Box<FrameSource> {
        Box::new(FrameSource {
            sizes: FrameSizes::new(Arc::clone(plan), stream),
            packing,
            frame_rate: plan.frame_rate,
            spread: plan.spread,
            carry: plan.carry && packing.whole,
            owed: 0,
            started: Time::ZERO,
            log: Vec::new(),
            left: 0,
            piece: u64::MAX,
            packets: 0,
            written: 0,
        })
    }

    /// Whether every frame has been handed over.
    fn is_done(&self) -> bool {
        self.sizes.is_exhausted() && self.left == 0
    }

    /// When the frame with this number is due.
    fn due(&self, number: u64) -> Time {
        self.started + Span::from_seconds(number as f64 / self.frame_rate)
    }

    /// When the next write is due; `None` after the last.
    fn next_write(&self) -> Option<Time> {
        if self.is_done() {
            return None;
        }
        let number = self.log.len() as u64;
        let next = self.due(number);
        if self.left == 0 {
            return Some(next);
        }
        let begun = self.due(number - 1);
        let gap = u128::from(next.since(begun).0) * u128::from(self.written) / u128::from(self.packets);
        Some(begun + Span(gap as u64))
    }
}

impl Generate for FrameSource {
    fn start(&mut self, now: Time) -> Offer {
        self.started = now;
        self.next(now)
    }

    fn next(&mut self, now: Time) -> Offer {
        if self.left == 0 {
            let Some((bytes, kind)) = self.sizes.next() else {
                return Offer { bytes: Some(0), next: None };
            };
            let before = self.log.last().map_or(0, |frame| frame.end);
            let end = if self.carry {
                let waiting = self.owed + bytes;
                let rest = waiting % u64::from(self.packing.payload);
                self.owed = if self.sizes.is_exhausted() { 0 } else { rest };
                self.left = self.packing.carried(waiting - self.owed);
                before + bytes
            } else {
                self.left = self.packing.carried(bytes);
                before + self.left
            };
            if self.spread {
                (self.piece, self.packets) =
                    (self.packing.payload.into(), self.packing.packets(self.left).max(1));
            } else {
                self.packets = 1;
            }
            self.written = 0;
            self.log.push(Frame { end, kind, at: now });
        }
        self.written += 1;
        let bytes = self.left.min(self.piece);
        self.left -= bytes;
        Offer { bytes: Some(bytes), next: self.next_write() }
    }

    fn is_exhausted(&self) -> bool {
        !self.sizes.plan.ends() || self.is_done()
    }

    fn hear(&mut self, demand: Demand) {
        // Of the next frame on: the times of a frame's packets are fixed when it begins.
        self.packing.payload = demand.room.unwrap_or(self.packing.payload).max(1);
    }

    fn frames(&self) -> &[Frame] {
        &self.log
    }
}

impl Offered for Arc<FramePlan> {
    fn is_bounded(&self) -> bool {
        self.ends()
    }

    fn nominal_rate(&self) -> Option<Rate> {
        Some(Rate(self.mean_rate().round() as u64))
    }

    fn largest_write(&self) -> Option<u64> {
        Some(self.largest())
    }

    fn pace(&self, packing: Packing) -> Option<Pace> {
        // The last packet of a frame is rarely full.
        let packets = self.mean_rate() / (8.0 * f64::from(packing.payload)) + self.frame_rate;
        Some(Pace { gap_ns: 1e9 / packets, active: 1.0 })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "frames", bytes: None })
    }

    fn video(&self) -> Option<&Arc<FramePlan>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::UdpConfig;
    use crate::traffic::{Source, Traffic};

    fn tes() -> TesPlan {
        let [i, p, b] = [(0, 0.15), (1, 0.10), (2, 0.056)]
            .map(|(kind, alpha)| TesModel { alpha, distribution: Arc::clone(&JURASSIC_PARK[kind]) });
        TesPlan {
            gop: "IBBPBBPBBPBB".chars().filter_map(FrameKind::by_letter).collect(),
            models: [i, p, b],
            shared: None,
            phi: 0.0,
            stitching: 0.5,
            minus: false,
            first: None,
        }
    }

    fn plan(sizes: Sizes) -> FramePlan {
        FramePlan { frame_rate: 25.0, spread: false, carry: false, sizes, scale: 1.0 }
    }

    fn list(sizes: &[u32], repeat: bool) -> Sizes {
        let frames = sizes.iter().map(|&bytes| (bytes, FrameKind::Any)).collect();
        Sizes::Listed(ListPlan { frames, offset: 0, random_offset: false, repeat })
    }

    fn source(plan: FramePlan, packing: Packing) -> Source {
        Source::new(&Traffic::Frames(Arc::new(plan)), packing, Stream::new(1, "frames"))
    }

    /// Time in ms and bytes of all writes before `end_ms`.
    fn writes(source: &mut Source, end_ms: u64) -> Vec<(f64, u64)> {
        let end = Time::ZERO + Span::from_millis(end_ms);
        let mut now = Time::ZERO;
        let mut offer = source.start(now);
        let mut found = Vec::new();
        loop {
            found.push((now.seconds() * 1e3, offer.bytes.unwrap()));
            match offer.next {
                Some(next) if next < end => now = next,
                _ => return found,
            }
            offer = source.next(now);
        }
    }

    const UDP: Packing = Packing { payload: 1000, whole: false };
    const NS2_TCP: Packing = Packing { payload: 1000, whole: true };

    /// NV-7.3: sizes of the three models from given draws.
    #[test]
    fn tes_has_its_sizes() {
        for (kind, first, draws, expected) in [
            (0, 0.40, [0.9, 0.1, 0.5], [9045, 10266, 9045, 9045]),
            (1, 0.97, [0.9, 0.9, 0.2], [1634, 1068, 1966, 1390]),
            (2, 0.005, [0.3, 0.0, 0.75], [606, 632, 1140, 937]),
        ] {
            let tes = TesPlan { first: Some(first), ..tes() };
            let model = tes.models[kind].clone();
            let mut background = Background::default();
            let draws = [0.123].into_iter().chain(draws);
            let sizes: Vec<u64> = draws
                .map(|draw| {
                    let u = background.next(&tes, model.alpha, draw);
                    (model.distribution.quantile(stitch(tes.stitching, u)) + 0.5) as u64
                })
                .collect();
            assert_eq!(sizes, expected, "model {kind}");
        }
    }

    /// NV-7.4: 2300 B in packets of 1000 B. What UDP makes of a write is `transport/udp.rs`.
    #[test]
    fn ns2_rounds_frames_up_to_segments() {
        assert_eq!((UDP.carried(2300), UDP.packets(2300)), (2300, 3));
        assert_eq!((NS2_TCP.carried(2300), NS2_TCP.packets(3000)), (3000, 3));
        let mut source = source(plan(list(&[2300, 1000, 1], true)), NS2_TCP);
        assert_eq!(writes(&mut source, 100), [(0.0, 3000), (40.0, 1000), (80.0, 1000)]);
        let ends: Vec<u64> = source.frames().iter().map(|frame| frame.end).collect();
        assert_eq!(ends, [3000, 4000, 5000]);
    }

    /// What does not fill a segment goes with the next frame; after the last one it fills a segment of its own.
    #[test]
    fn the_rest_of_a_frame_may_wait_for_the_next() {
        let carrying = FramePlan { carry: true, ..plan(list(&[2300, 600, 1, 500], false)) };
        let mut source = source(carrying.clone(), NS2_TCP);
        assert_eq!(writes(&mut source, 200), [(0.0, 2000), (40.0, 0), (80.0, 0), (120.0, 2000)]);
        let ends: Vec<u64> = source.frames().iter().map(|frame| frame.end).collect();
        assert_eq!(ends, [2300, 2900, 2901, 3401]);
        let mut over_udp = self::source(carrying, UDP);
        assert_eq!(writes(&mut over_udp, 60), [(0.0, 2300), (40.0, 600)], "UDP sends packets of any size");
    }

    /// The expectation of the built-in table: 7172.0, 4473.4 and 3188.0 B, and 3841.3 B or 768.3 kbit/s in all.
    #[test]
    fn the_table_has_its_expectation() {
        for (distribution, mean) in JURASSIC_PARK.iter().zip([7172.0, 4473.4, 3188.0]) {
            assert!((distribution.mean() - mean).abs() < 0.05, "{}", distribution.mean());
        }
        let plan = plan(Sizes::Tes(tes()));
        assert!((plan.sizes.mean() - 3841.3).abs() < 0.05, "{}", plan.sizes.mean());
        assert!((plan.mean_rate() - 768_267.0).abs() < 5.0, "{}", plan.mean_rate());
        assert_eq!(plan.largest(), 16_745);
    }

    #[test]
    fn backgrounds_stay_uniform() {
        for (minus, phi, stitching) in
            [(false, 0.0, 0.5), (true, 0.5, 0.3), (false, -1.0, 0.0), (true, 1.0, 1.0)]
        {
            let tes = TesPlan { phi, stitching, minus, ..tes() };
            let mut background = Background::default();
            let mut stream = Stream::new(3, "background");
            let mut counts = [0u32; 10];
            for _ in 0..200_000 {
                let u = stitch(stitching, background.next(&tes, 0.3, stream.uniform()));
                assert!((0.0..=1.0).contains(&u), "{u}");
                counts[((u * 10.0) as usize).min(9)] += 1;
            }
            for count in counts {
                assert!((19_000..21_000).contains(&count), "{minus} {phi} {stitching}: {counts:?}");
            }
        }
    }

    #[test]
    fn tes_minus_alternates() {
        let tes = TesPlan { minus: true, first: Some(0.2), ..tes() };
        let mut background = Background::default();
        let values: Vec<f64> = (0..4).map(|_| background.next(&tes, 0.0, 0.5)).collect();
        assert_eq!(values, [0.2, 0.8, 0.2, 0.8]);
    }

    #[test]
    fn frames_come_on_time() {
        let plan = FramePlan { frame_rate: 30_000.0 / 1001.0, ..plan(list(&[500, 0], true)) };
        let mut source = source(plan, UDP);
        let times = writes(&mut source, 1_001_000);
        assert_eq!(times.len(), 30_000);
        assert_eq!(times[29_999].0, 1_000_966.633_333);
        assert_eq!((times[0].1, times[1].1), (500, 0));
    }

    #[test]
    fn spread_frames_fill_their_interval() {
        let plan = FramePlan { spread: true, ..plan(list(&[2300, 0, 1000], true)) };
        let expected =
            [(0.0, 1000), (13.333_333, 1000), (26.666_666, 300), (40.0, 0), (80.0, 1000), (120.0, 1000)];
        let mut udp = source(plan.clone(), UDP);
        assert_eq!(writes(&mut udp, 130), expected);
        let frames: Vec<(u64, u64)> =
            udp.frames().iter().map(|frame| (frame.end, frame.at.0 / 1_000_000)).collect();
        assert_eq!(frames, [(2300, 0), (2300, 40), (3300, 80), (5600, 120)]);
        let mut tcp = source(plan, NS2_TCP);
        assert_eq!(writes(&mut tcp, 40)[2], (26.666_666, 1000));
    }

    #[test]
    fn a_list_ends_or_starts_again() {
        let mut once = source(plan(list(&[10, 20, 30], false)), UDP);
        assert_eq!(writes(&mut once, 10_000), [(0.0, 10), (40.0, 20), (80.0, 30)]);
        assert!(once.is_exhausted());
        let Sizes::Listed(mut later) = list(&[10, 20, 30], true) else { unreachable!() };
        later.offset = 2;
        let mut source = source(plan(Sizes::Listed(later)), UDP);
        assert_eq!(writes(&mut source, 150), [(0.0, 30), (40.0, 10), (80.0, 20), (120.0, 30)]);
        assert!(source.is_exhausted(), "there is nothing to cut short");
    }

    #[test]
    fn random_offsets_differ_by_flow() {
        let sizes: Vec<u32> = (1..=1000).collect();
        let Sizes::Listed(list) = list(&sizes, true) else { unreachable!() };
        let plan = Arc::new(plan(Sizes::Listed(ListPlan { random_offset: true, ..list })));
        let first = |name| FrameSizes::new(Arc::clone(&plan), Stream::new(1, name)).next();
        assert_ne!(first("a"), first("b"));
        assert_eq!(first("a"), first("a"));
    }

    #[test]
    fn distributions_are_checked() {
        let new = |knots: &[(f64, f64)]| Distribution::new(knots.to_vec());
        let flat = new(&[(0.0, 5.0), (1.0, 5.0)]).unwrap();
        assert_eq!((flat.quantile(0.0), flat.quantile(1.0), flat.mean()), (5.0, 5.0, 5.0));
        for wrong in [
            &[(0.0, 1.0)][..],
            &[(0.1, 1.0), (1.0, 2.0)],
            &[(0.0, 1.0), (0.9, 2.0)],
            &[(0.0, 2.0), (1.0, 1.0)],
            &[(0.0, 0.0), (1.0, 0.0)],
            &[(0.0, 1.0), (0.0, 2.0), (1.0, 3.0)],
            &[(0.0, 1.0), (1.0, f64::NAN)],
        ] {
            assert_eq!(new(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn packing_follows_the_transport() {
        let udp = Transport::Udp(UdpConfig { header: 28, payload: 1472 });
        assert_eq!(Packing::of(&udp), Packing { payload: 1472, whole: false });
    }
}
