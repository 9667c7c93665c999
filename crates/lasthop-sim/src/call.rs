//! What the other side of a video call saw: a part of the rows of [`crate::summary`], which fills it in.

use lasthop_core::time::Span;
use lasthop_net::realtime::opinion::video_quality;
use lasthop_net::world::World;

use crate::columns;
use crate::columns::About;

columns! {
    /// A video call, within the measured time: what its encoder made, and what the other side saw of it.
    #[derive(Clone, Copy, Debug)]
    pub struct CallSummary {
        /// mean rate of the encoder while it was running
        rate_bit_s: f64 = About::new("bit/s", "video rate").higher().mean().shown("video rate").compared()
            .says("has a video rate {} higher", "has a video rate {} lower")
            .times("has a video rate {} times as high");
        /// frames that were encoded; of the last ones, only those that were due by the end
        frames: u64 = About::new("", "frames").sum();
        /// frames that were never shown: incomplete, too late, or dependent on a missing one; null, like the next six
        /// columns, where the transport itself dropped some and numbers only what it sends
        frames_lost: Option<u64> = About::new("", "frames never shown").lower().sum();
        /// `frames_lost` over `frames`
        frames_lost_share: Option<f64> = About::share("share of frames never shown").lower().mean()
            .shown("frames lost");
        /// from the generation of a frame to its display, median of the frames that were shown
        frame_delay_p50_s: Option<f64> = About::new("s", "median frame delay").lower().mean();
        /// 95th percentile, by nearest rank
        frame_delay_p95_s: Option<f64> = About::new("s", "p95 frame delay").lower().mean().shown("p95 frame delay")
            .compared().says("has a p95 frame delay {} longer", "has a p95 frame delay {} shorter")
            .times("has a p95 frame delay {} times as long");
        /// 99th percentile, likewise
        frame_delay_p99_s: Option<f64> = About::new("s", "p99 frame delay").lower().mean();
        /// how often the picture froze: a frame was shown for more than three times the mean of the 30 before it, and
        /// for more than that mean and 150 ms; null, like the next, if no frame was shown at all
        freezes: Option<u64> = About::new("", "freezes").lower().mean().shown("freezes");
        /// total time for which it was frozen
        freeze_s: Option<f64> = About::new("s", "freeze time").lower().mean().shown("frozen").compared()
            .says("is frozen {} longer", "is frozen {} shorter").times("is frozen {} times as long");
        /// opinion of the picture by ITU-T G.1070, from 1 to 5 (H.264 in VGA): by video rate, frame rate and the share
        /// of packets that were not repaired; null outside 400 kbit/s to 2 Mbit/s
        opinion: Option<f64> = About::new("", "video opinion").higher().mean().shown("opinion");
        /// frames that the encoder left out over the whole run because too much waited at the sender
        skipped_frames: u64 = About::new("", "frames skipped").lower().sum();
        /// key frames over the whole run, the first one included
        key_frames: u64 = About::new("", "key frames").sum();
        /// changes of the resolution over the whole run
        switches: u64 = About::new("", "switches").lower().mean().shown("switches");
    }
}

impl CallSummary {
    /// That of a flow; `None` if it is none.
    pub(crate) fn of(world: &World, flow: usize) -> Option<CallSummary> {
        let realtime = world.network.flows[flow].realtime()?;
        let counts = world.encoder(flow)?;
        let whole = realtime.call(world.numbers_are_whole(flow));
        let report = whole.as_ref();
        // A picture that never came has not frozen, and is not a steady one either.
        let seen = report.filter(|report| report.freezes > 0 || !report.delays.is_empty());
        let active = realtime.active();
        let (frames, bytes) = encoded(world, flow);
        let seconds = active.seconds();
        let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        // Where the receiver repairs, it knows what it has given up.
        let repairs = world.network.repairs(flow).map(|counts| counts.given_up - counts.late);
        let missing = repairs.unwrap_or_else(|| realtime.missing());
        let missing = 100.0 * missing as f64 / realtime.transmitted.max(1) as f64;
        Some(CallSummary {
            rate_bit_s: rate,
            frames: report.map_or(frames, |report| report.frames),
            frames_lost: report.map(|report| report.lost),
            frames_lost_share: report
                .filter(|report| report.frames > 0)
                .map(|report| report.lost as f64 / report.frames as f64),
            frame_delay_p50_s: report.and_then(|report| report.delay(50)).map(Span::seconds),
            frame_delay_p95_s: report.and_then(|report| report.delay(95)).map(Span::seconds),
            frame_delay_p99_s: report.and_then(|report| report.delay(99)).map(Span::seconds),
            freezes: seen.map(|report| report.freezes),
            freeze_s: seen.map(|report| report.frozen.seconds()),
            opinion: video_quality(rate / 1e3, frames as f64 / seconds, missing),
            skipped_frames: counts.skipped,
            key_frames: counts.key_frames,
            switches: counts.switches,
        })
    }
}

/// Frames with bytes that were encoded in the measured time, and those bytes.
fn encoded(world: &World, flow: usize) -> (u64, u64) {
    let window = world.network.window();
    let mut start = 0;
    let mut sum = (0, 0);
    for frame in world.frames(flow) {
        let bytes = frame.end - std::mem::replace(&mut start, frame.end);
        if bytes > 0 && window.contains(frame.at) {
            sum = (sum.0 + 1, sum.1 + bytes);
        }
    }
    sum
}
