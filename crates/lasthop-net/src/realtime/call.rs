//! What the other side of a call sees: when frames are shown, which never are, and when the picture freezes.
//!
//! `mod.rs` hands over the frames and when each was complete; the jitter buffer and the decoder are worked out from
//! that at the end. *The jitter buffer:* a frame is shown at its generation, plus the least delay so far, plus a delay
//! that covers the 95th percentile of what frames of the last 10 s took beyond the least, up at once and down by 1 ms a
//! frame. *The decoder:* frames are shown in order, late ones as soon as they are complete; while one is missing the
//! picture stands, until it comes or a later key frame is there, which makes those before it needless. *Freezes* as in
//! W3C's statistics of WebRTC (`freezeCount`, `totalFreezesDuration`): two frames shown further apart than three times
//! the mean of the last 30 intervals, and than the mean and 150 ms.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use super::playback::Seen;
use crate::frames::{Frame, FrameKind};
use crate::measure::Window;
use crate::trace::Viewed;
use crate::traffic::encoder::EncoderPlan;

/// The past over which delays are looked at.
const MEMORY: Span = Span::from_secs(10);
/// The part of them that shall be in time, in percent.
const COVERED: usize = 95;
/// How fast the delay of the buffer falls.
const FALL: Span = Span::from_millis(1);
/// What was generated so shortly before the end, and is not shown by then, may still be on its way.
const OPEN: Span = Span::from_millis(500);
/// Intervals whose mean tells a freeze, and what a freeze exceeds it by.
const INTERVALS: usize = 30;
const FREEZE: Span = Span::from_millis(150);

/// The measurement of one call.
#[derive(Clone, Debug)]
pub struct Call {
    frame_rate: f64,
    /// What its viewer has had so far, if time series are recorded.
    watch: Watch,
}

/// What was seen of the frames that were generated in the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallReport {
    /// Frames that were encoded, and how many of them were never shown.
    pub frames: u64,
    /// See `frames`; of the last ones only those that must have been shown by the end.
    pub lost: u64,
    /// Bytes of the encoded frames.
    pub bytes: u64,
    /// From generation to display, of each frame that was shown, ascending.
    pub delays: Vec<Span>,
    /// How often the picture froze.
    pub freezes: u64,
    /// For how long in all.
    pub frozen: Span,
}

impl CallReport {
    /// A percentile of the delays by nearest rank.
    pub fn delay(&self, percent: usize) -> Option<Span> {
        let rank = (self.delays.len() * percent).div_ceil(100).max(1);
        self.delays.get(rank - 1).copied()
    }
}

/// For each frame when a key frame behind it was complete first; the end of time where none was.
fn next_keys(frames: &[(Frame, Option<Time>)]) -> Vec<Time> {
    let mut first = Time::MAX;
    let mut found = vec![Time::MAX; frames.len()];
    for (&(frame, complete), found) in frames.iter().zip(&mut found).rev() {
        *found = first;
        if let Some(complete) = complete
            && frame.kind != FrameKind::P
        {
            first = first.min(complete);
        }
    }
    found
}

/// The delay that a jitter buffer adds.
#[derive(Clone, Debug, Default)]
struct JitterBuffer {
    /// Completion and delay of the frames of the last 10 s, in the order of completion.
    recent: VecDeque<(Time, u64)>,
    /// The delays alone, ascending.
    sorted: Vec<u64>,
    least: Option<u64>,
    /// Its delay beyond the least, in ns.
    delay: u64,
}

impl JitterBuffer {
    /// A frame took `delay` and was complete `now`.
    fn add(&mut self, now: Time, delay: Span) {
        self.least = Some(self.least.map_or(delay.0, |least| least.min(delay.0)));
        while let Some(&(at, old)) = self.recent.front()
            && now.since(at.min(now)) > MEMORY
        {
            self.recent.pop_front();
            self.sorted.remove(self.sorted.partition_point(|&one| one < old));
        }
        self.recent.push_back((now, delay.0));
        self.sorted.insert(self.sorted.partition_point(|&one| one < delay.0), delay.0);
        let rank = (self.sorted.len() * COVERED).div_ceil(100).max(1);
        let wanted = self.sorted[rank - 1] - self.least.unwrap_or(0);
        self.delay = wanted.max(self.delay.saturating_sub(FALL.0));
    }

    /// When a frame that was generated `at` is shown.
    fn due(&self, at: Time) -> Option<Time> {
        self.least.map(|least| at + Span(least + self.delay))
    }
}

/// What shows frames, one after the other.
#[derive(Clone, Debug, Default)]
struct Display {
    buffer: JitterBuffer,
    /// Whether the picture before is there, and until when nothing can be shown.
    intact: bool,
    last: Time,
}

impl Display {
    /// When the next frame is shown, if ever, that was complete at `complete`; a key frame behind it was at `next_key`.
    fn show(&mut self, frame: &Frame, complete: Option<Time>, next_key: Time) -> Option<Time> {
        let due = complete.map(|complete| {
            // What the buffer knows is what was complete before this frame; one without a past is shown at once.
            let due = self.buffer.due(frame.at).unwrap_or(complete);
            self.buffer.add(complete, complete.since(frame.at));
            due.max(complete)
        });
        let decodable = (self.intact || frame.kind != FrameKind::P) && complete <= Some(next_key);
        let display = due.filter(|_| decodable).map(|due| due.max(self.last));
        self.intact = display.is_some();
        self.last = display.unwrap_or(self.last);
        display
    }
}

/// A viewer while the call goes on.
#[derive(Clone, Debug, Default)]
struct Watch {
    display: Display,
    /// Frames whose fate is known, and of these those that are shown later: when, and when they were generated.
    known: usize,
    ahead: VecDeque<(Time, Time)>,
    frame_delay: Option<Span>,
}

impl Call {
    /// The measurement of the frames of `encoder`.
    pub fn new(encoder: &EncoderPlan) -> Call {
        Call { frame_rate: encoder.frame_rate, watch: Watch::default() }
    }

    /// Frames per second.
    pub fn frame_rate(&self) -> f64 {
        self.frame_rate
    }

    /// When each frame is shown, if ever.
    fn shown(frames: &[(Frame, Option<Time>)]) -> Vec<Option<Time>> {
        let mut display = Display::default();
        let next_keys = next_keys(frames);
        let frames = frames.iter().zip(next_keys);
        frames.map(|((frame, complete), next_key)| display.show(frame, *complete, next_key)).collect()
    }

    /// What the viewer has of `frames` at `now`. Calls come in the order of time. Nothing is known of what is complete
    /// later: a frame waits until it is complete, or a key frame behind it is.
    pub(super) fn viewed(&mut self, frames: &[Seen], now: Time) -> Viewed {
        let Watch { display, known, ahead, frame_delay } = &mut self.watch;
        let is_here = |seen: &Seen| !seen.is_empty && seen.complete.is_some_and(|at| at < now);
        let told: Vec<_> = frames[*known..]
            .iter()
            .map(|seen| (seen.frame, seen.complete.filter(|_| is_here(seen))))
            .collect();
        for ((&(frame, complete), next_key), seen) in told.iter().zip(next_keys(&told)).zip(&frames[*known..])
        {
            if !seen.is_empty {
                if complete.is_none() && next_key == Time::MAX {
                    break;
                }
                ahead.extend(display.show(&frame, complete, next_key).map(|at| (at, frame.at)));
            }
            *known += 1;
        }
        let mut shown = 0;
        while let Some(&(at, generated)) = ahead.front()
            && at < now
        {
            shown += 1;
            *frame_delay = Some(at.since(generated));
            ahead.pop_front();
        }
        let here = ahead.len() + frames[*known..].iter().filter(|seen| is_here(seen)).count();
        let buffered = Span::from_seconds(here as f64 / self.frame_rate);
        Viewed { frame_delay: *frame_delay, buffered, shown: Some(shown), ..Viewed::default() }
    }

    /// What was seen within `window`.
    pub fn report(&self, frames: impl Iterator<Item = (Frame, Option<Time>)>, window: &Window) -> CallReport {
        let frames: Vec<_> = frames.collect();
        let mut report = CallReport::default();
        let shown = Call::shown(&frames);
        let mut start = 0;
        for (&(frame, _), display) in frames.iter().zip(&shown) {
            let bytes = frame.end - std::mem::replace(&mut start, frame.end);
            if !window.contains(frame.at) {
                continue;
            }
            // The fate of the last ones is open.
            if display.map_or(frame.at + OPEN, |display| display) >= window.to {
                continue;
            }
            report.frames += 1;
            report.bytes += bytes;
            match display {
                &Some(display) => report.delays.push(display.since(frame.at)),
                None => report.lost += 1,
            }
        }
        report.delays.sort_unstable();
        self.freeze(shown.into_iter().flatten(), window, &mut report);
        report
    }

    /// Looks for freezes; the last frame stands until the end.
    fn freeze(&self, shown: impl Iterator<Item = Time>, window: &Window, report: &mut CallReport) {
        let mut intervals: VecDeque<u64> = VecDeque::with_capacity(INTERVALS);
        let mut before: Option<Time> = None;
        let end = std::iter::once(window.to);
        for at in shown.filter(|&at| at < window.to).chain(end) {
            let Some(last) = before.replace(at) else { continue };
            let interval = at.since(last).0;
            let mean = if intervals.is_empty() {
                (1e9 / self.frame_rate) as u64
            } else {
                intervals.iter().sum::<u64>() / intervals.len() as u64
            };
            if interval > (3 * mean).max(mean + FREEZE.0) {
                let within = window.overlap(last, at);
                report.freezes += u64::from(within > 0);
                report.frozen = report.frozen + Span(within);
            }
            if intervals.len() == INTERVALS {
                intervals.pop_front();
            }
            intervals.push_back(interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// A frame of 100 B each 40 ms, the first of them a key frame and those at `keys`, and how long each took.
    fn frames(delays: &[Option<u64>], keys: &[usize]) -> Vec<(Frame, Option<Time>)> {
        let frame = |(index, &delay): (usize, &Option<u64>)| {
            let kind = if index == 0 || keys.contains(&index) { FrameKind::I } else { FrameKind::P };
            let generated = 40 * index as u64;
            let frame = Frame { end: 100 * (index as u64 + 1), kind, at: at(generated) };
            (frame, delay.map(|delay| at(generated + delay)))
        };
        delays.iter().enumerate().map(frame).collect()
    }

    fn report(delays: &[Option<u64>], keys: &[usize], end_ms: u64) -> CallReport {
        let window = Window { from: at(0), to: at(end_ms) };
        Call { frame_rate: 25.0, watch: Watch::default() }.report(frames(delays, keys).into_iter(), &window)
    }

    #[test]
    fn a_steady_path_adds_nothing() {
        let report = report(&[Some(50); 20], &[], 900);
        assert_eq!((report.frames, report.lost, report.bytes), (20, 0, 2000));
        assert!(report.delays.iter().all(|&delay| delay == Span::from_millis(50)));
        assert_eq!((report.freezes, report.frozen), (0, Span::ZERO));
    }

    /// The third frame takes 100 ms: it is late, and from then on the buffer holds 50 ms more, less 1 ms a frame once
    /// the 95th percentile lies below it, with the 20th frame behind it.
    #[test]
    fn the_buffer_rises_at_once_and_falls_slowly() {
        let mut delays = [Some(50); 40];
        delays[2] = Some(100);
        let found = Call::shown(&frames(&delays, &[]));
        let delay = |index: usize| found[index].unwrap().since(at(40 * index as u64));
        assert_eq!([0, 1, 2, 3, 4].map(delay), [50, 50, 100, 100, 100].map(Span::from_millis));
        assert_eq!([19, 20, 21].map(delay), [100, 99, 98].map(Span::from_millis));
    }

    #[test]
    fn a_lost_frame_holds_the_picture_until_a_key_frame() {
        let mut delays = [Some(50); 30];
        delays[5] = None;
        let report = report(&delays, &[15], 1300);
        assert_eq!((report.frames, report.lost), (30, 10));
        // Frame 4 at 210 ms, frame 15 at 650 ms.
        assert_eq!((report.freezes, report.frozen), (1, Span::from_millis(440)));
        assert_eq!(report.delay(50), Some(Span::from_millis(50)));
    }

    /// Frame 5 comes at 900 ms. It is waited for, unless a key frame makes it needless before that.
    #[test]
    fn a_late_frame_holds_the_picture() {
        let mut delays = [Some(50); 20];
        delays[5] = Some(700);
        let waited = report(&delays, &[], 2000);
        assert_eq!((waited.lost, waited.freezes), (0, 2), "and at the end");
        assert_eq!(waited.delays.last(), Some(&Span::from_millis(700)));
        let skipped = report(&delays, &[12], 2000);
        assert_eq!(skipped.lost, 7, "frames 5 to 11: the key frame is complete at 530 ms");
    }

    /// Behind the last frame the picture stands.
    #[test]
    fn a_call_that_breaks_off_freezes() {
        let report = report(&[Some(50); 10], &[], 5000);
        assert_eq!((report.freezes, report.frozen), (1, Span::from_millis(5000 - 410)));
    }
}
