//! What a viewer sees: when playing starts, when it stalls, which frames can be decoded.
//!
//! `mod.rs` tells a [`Playback`] of each frame when it is generated and of each byte when it arrives. The player itself
//! is worked out at the end, from the times at which frames were complete. The model stands in
//! `docs/reference/results.md`.

use lasthop_core::time::{Span, Time};

use crate::frames::{Frame, FrameKind};
use crate::measure::Window;
use crate::trace::Viewed;

/// A frame at the receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) frame: Frame,
    /// Bytes of it that have not arrived; none at all if the encoder skipped it.
    missing: u64,
    pub(super) is_empty: bool,
    pub(super) complete: Option<Time>,
}

/// The frames of one flow, and when they were complete.
#[derive(Clone, Debug)]
pub struct Playback {
    frame_rate: f64,
    /// Frames of media that are buffered before playing starts, and before it goes on.
    start_frames: usize,
    rebuffer_frames: usize,
    /// The transport delivers everything in order.
    reliable: bool,
    frames: Vec<Seen>,
    /// Reliable: bytes delivered, and how many frames they complete.
    delivered: u64,
    completed: usize,
    /// The source has come to an end by itself.
    ended: bool,
    /// What has been played of it, if time series are recorded: by a player that waits for every frame, by one that
    /// does not; and what both have.
    show: Show,
    pass: Pass,
    watch: Watch,
}

/// What a time series of a film needs beside.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    /// Frames that had been encoded and due, and bytes up to them.
    encoded: (usize, u64),
    shown: usize,
    frame_delay: Option<Span>,
}

/// Playing of a player that goes on without what has not come.
#[derive(Clone, Debug, Default)]
struct Pass {
    start: Option<Time>,
    /// The next frame that is due.
    next: usize,
    /// Whether the last anchor can be decoded, and how many B frames behind it wait for the next one.
    anchor: bool,
    waiting: u64,
}

/// Playing of a player that waits for every frame.
#[derive(Clone, Debug, Default)]
struct Show {
    at: At,
    start: Option<Time>,
    /// When playing stopped for want of a frame, and when it went on.
    stalls: Vec<(Time, Option<Time>)>,
    /// The frame that was shown last, and when.
    newest: Option<(usize, Time)>,
}

/// Where such a player is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// It waits for enough media from frame `from` on.
    Filling { from: usize },
    /// It has shown frame `first` at `base`, and shows `next` when it is due.
    Playing { base: Time, first: usize, next: usize },
    /// All has been shown.
    End(Time),
}

impl Default for At {
    fn default() -> At {
        At::Filling { from: 0 }
    }
}

/// What a viewer saw. What only one kind of transport has is `None` for the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaybackReport {
    /// From the first frame's generation to the start of playing.
    pub startup: Option<Span>,
    /// How often playing stopped for want of a frame.
    pub stalls: Option<u64>,
    /// For how long.
    pub stalled: Option<Span>,
    /// That time over itself and the time of playing.
    pub stall_share: Option<f64>,
    /// Frames that could be decoded in time over all that were due.
    pub decodable_share: Option<f64>,
}

/// Whole frames that hold so much media, at least one.
fn frames_in(media: Span, frame_rate: f64) -> usize {
    // A product such as 0.28 * 25 may lie a little above the whole number that it means.
    ((media.seconds() * frame_rate - 1e-6).ceil() as usize).max(1)
}

impl Playback {
    /// A player of `frame_rate` frames a second, which buffers `playout` before it starts and `rebuffer` before it goes
    /// on after a stall.
    pub fn new(frame_rate: f64, (playout, rebuffer): (Span, Span), reliable: bool) -> Playback {
        Playback {
            frame_rate,
            start_frames: frames_in(playout, frame_rate),
            rebuffer_frames: frames_in(rebuffer, frame_rate),
            reliable,
            frames: Vec::new(),
            delivered: 0,
            completed: 0,
            ended: false,
            show: Show::default(),
            pass: Pass::default(),
            watch: Watch::default(),
        }
    }

    /// All frames that the source has generated so far.
    pub fn note_frames(&mut self, log: &[Frame]) {
        let known = self.frames.len();
        let mut start = self.frames.last().map_or(0, |seen| seen.frame.end);
        for &frame in log.get(known..).unwrap_or_default() {
            let missing = frame.end - start;
            let is_empty = missing == 0;
            let complete = (is_empty && !self.reliable).then_some(frame.at);
            self.frames.push(Seen { frame, missing, is_empty, complete });
            start = frame.end;
            self.complete_in_order(frame.at);
        }
    }

    /// Whether the transport delivers everything in order.
    pub fn is_reliable(&self) -> bool {
        self.reliable
    }

    /// There will be no further frame.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// `bytes` were delivered in order.
    pub fn deliver(&mut self, now: Time, bytes: u64) {
        if self.reliable {
            self.delivered += bytes;
            self.complete_in_order(now);
        }
    }

    fn complete_in_order(&mut self, now: Time) {
        if !self.reliable {
            return;
        }
        while let Some(seen) = self.frames.get_mut(self.completed)
            && seen.frame.end <= self.delivered
        {
            seen.complete = Some(now);
            self.completed += 1;
        }
    }

    /// The bytes `start..end` of an unreliable flow arrived for the first time.
    pub fn arrive(&mut self, (start, end): (u64, u64), now: Time) {
        if self.reliable {
            return;
        }
        // Usually it is one of the last frames.
        let first = match self.frames.len().checked_sub(2) {
            Some(index) if self.frames[index].frame.end <= start => index + 1,
            _ => self.frames.partition_point(|seen| seen.frame.end <= start),
        };
        let mut at = start;
        for seen in &mut self.frames[first..] {
            if at >= end {
                return;
            }
            let until = end.min(seen.frame.end);
            let arrived = until.saturating_sub(at).min(seen.missing);
            seen.missing -= arrived;
            if arrived > 0 && seen.missing == 0 {
                seen.complete = Some(now);
            }
            at = at.max(until);
        }
    }

    /// The frames in order, and when each was complete; those that the encoder skipped are left out.
    pub fn complete(&self) -> impl Iterator<Item = (Frame, Option<Time>)> {
        self.frames.iter().filter(|seen| !seen.is_empty).map(|seen| (seen.frame, seen.complete))
    }

    /// What the viewer saw within `window`; playing ends with it.
    pub fn report(&self, window: &Window) -> PlaybackReport {
        if self.reliable { self.play_in_order(window) } else { self.play_what_comes(window) }
    }

    fn span_of(&self, frames: usize) -> Span {
        Span::from_seconds(frames as f64 / self.frame_rate)
    }

    /// From the generation of the first frame to `start`.
    fn startup(&self, start: Option<Time>) -> Option<Span> {
        let first = self.frames.first()?;
        start.map(|start| start.since(first.frame.at))
    }

    /// When the frames from `from` on are there that hold enough media to go on. At the end of the film the rest has to
    /// do.
    fn filled(&self, from: usize, count: usize) -> Option<Time> {
        let last = from + count - 1;
        let last = if self.ended { last.min(self.frames.len().saturating_sub(1)) } else { last };
        self.frames.get(last).and_then(|seen| seen.complete)
    }

    /// Takes a show to `to`: all that happens before.
    fn play(&self, show: &mut Show, to: Time) {
        loop {
            match show.at {
                At::Filling { from } => {
                    let count = if show.start.is_none() { self.start_frames } else { self.rebuffer_frames };
                    let Some(now) = self.filled(from, count).filter(|&filled| filled < to) else { return };
                    if let Some(stall) = show.stalls.last_mut() {
                        stall.1 = Some(now);
                    }
                    show.start.get_or_insert(now);
                    show.at = At::Playing { base: now, first: from, next: from };
                }
                At::Playing { base, first, next } => {
                    let due = base + self.span_of(next - first);
                    if due >= to {
                        return;
                    }
                    if next == self.frames.len() && self.ended {
                        show.at = At::End(due);
                        return;
                    }
                    let complete = self.frames.get(next).and_then(|seen| seen.complete);
                    if complete.is_some_and(|complete| complete <= due) {
                        show.newest = Some((next, due));
                        show.at = At::Playing { base, first, next: next + 1 };
                    } else {
                        show.stalls.push((due, None));
                        show.at = At::Filling { from: next };
                    }
                }
                At::End(_) => return,
            }
        }
    }

    /// How long playing has stood still before `now`; `None` for a player that goes on without what has not come. Calls
    /// come in the order of time.
    pub fn stalled(&mut self, now: Time) -> Option<Span> {
        if !self.reliable {
            return None;
        }
        let mut show = std::mem::take(&mut self.show);
        self.play(&mut show, now);
        self.show = show;
        let lengths = self.show.stalls.iter().map(|&(from, to)| to.unwrap_or(now).since(from).0);
        Some(Span(lengths.sum()))
    }

    /// All frames so far.
    pub(super) fn seen(&self) -> &[Seen] {
        &self.frames
    }

    /// Bytes that were encoded before `now` and not told before.
    pub fn encoded(&mut self, now: Time) -> u64 {
        let (known, before) = self.watch.encoded;
        let news = self.frames[known..].iter().take_while(|seen| seen.frame.at < now);
        let (count, end) = news.fold((0, before), |(count, _), seen| (count + 1, seen.frame.end));
        self.watch.encoded = (known + count, end);
        end - before
    }

    /// What the viewer has at `now`: of a player that waits, once [`Playback::stalled`] was asked at that time. Calls
    /// come in the order of time.
    pub fn viewed(&mut self, now: Time) -> Viewed {
        let (next, shown) = if self.reliable {
            let next = match self.show.at {
                At::Filling { from } => from,
                At::Playing { next, .. } => next,
                At::End(_) => self.frames.len(),
            };
            let news = self.frames[self.watch.shown..next].iter().filter(|seen| !seen.is_empty).count();
            if let Some((index, at)) = self.show.newest {
                self.watch.frame_delay = Some(at.since(self.frames[index].frame.at));
            }
            self.watch.shown = next;
            (next, news as u64)
        } else {
            let shown = self.pass(now);
            (self.pass.next, shown)
        };
        let is_here = |seen: &&Seen| !seen.is_empty && seen.complete.is_some_and(|at| at < now);
        let here = self.frames[next..].iter().filter(is_here).count();
        Viewed {
            frame_delay: self.watch.frame_delay,
            buffered: self.span_of(here),
            shown: Some(shown),
            ..Viewed::default()
        }
    }

    /// Goes on to `now` without what has not come; returns how many frames turn out to be shown. A B frame does when
    /// the anchor behind it is due.
    fn pass(&mut self, now: Time) -> u64 {
        let start = self.pass.start.or_else(|| self.start_of_what_comes().filter(|&start| start < now));
        self.pass.start = start;
        let (Some(start), pass) = (start, &mut self.pass) else { return 0 };
        let mut shown = 0;
        while let Some(seen) = self.frames.get(pass.next) {
            let due = start + Span::from_seconds(pass.next as f64 / self.frame_rate);
            if due >= now {
                break;
            }
            pass.next += 1;
            if seen.is_empty {
                continue;
            }
            let in_time = seen.complete.is_some_and(|complete| complete <= due);
            if in_time {
                self.watch.frame_delay = Some(due.since(seen.frame.at));
            }
            match seen.frame.kind {
                FrameKind::Any => shown += u64::from(in_time),
                FrameKind::B => pass.waiting += u64::from(in_time && pass.anchor),
                kind => {
                    pass.anchor = in_time && (kind == FrameKind::I || pass.anchor);
                    let waiting = std::mem::take(&mut pass.waiting);
                    shown += u64::from(pass.anchor) * (1 + waiting);
                }
            }
        }
        shown
    }

    /// A player that waits for every frame.
    fn play_in_order(&self, window: &Window) -> PlaybackReport {
        let mut show = Show::default();
        self.play(&mut show, window.to);
        let Some(start) = show.start else { return PlaybackReport::default() };
        let end = if let At::End(end) = show.at { end } else { window.to };
        let stalls = show.stalls.iter().filter(|&&(from, _)| window.contains(from)).count();
        let stalled: u64 =
            show.stalls.iter().map(|&(from, to)| window.overlap(from, to.unwrap_or(window.to))).sum();
        let watched = window.overlap(start, end);
        PlaybackReport {
            startup: self.startup(Some(start)),
            stalls: Some(stalls as u64),
            stalled: Some(Span(stalled)),
            stall_share: (watched > 0).then(|| stalled as f64 / watched as f64),
            decodable_share: None,
        }
    }

    /// When a player starts that goes on without the frames that have not come: once it has enough, or what is behind.
    fn start_of_what_comes(&self) -> Option<Time> {
        let last = self.start_frames - 1;
        let last = if self.ended { last.min(self.frames.len().saturating_sub(1)) } else { last };
        self.frames.get(last..).unwrap_or_default().iter().filter_map(|seen| seen.complete).min()
    }

    /// A player that goes on without the frames that have not come.
    fn play_what_comes(&self, window: &Window) -> PlaybackReport {
        let start = self.start_of_what_comes().filter(|&start| start < window.to);
        let Some(start) = start else { return PlaybackReport::default() };
        let due = |index: usize| start + self.span_of(index);
        let shown: Vec<(FrameKind, bool)> = (self.frames.iter().enumerate())
            .filter(|(_, seen)| !seen.is_empty)
            .map(|(index, seen)| {
                let in_time = seen.complete.is_some_and(|complete| complete <= due(index));
                (seen.frame.kind, in_time)
            })
            .collect();
        let dues: Vec<Time> = (self.frames.iter().enumerate())
            .filter(|(_, seen)| !seen.is_empty)
            .map(|(index, _)| due(index))
            .collect();
        let (mut decoded, mut counted) = (0_u64, 0_u64);
        for (index, (decodable, needs)) in decodable(&shown).into_iter().enumerate() {
            // The fate of a frame is known when the last frame that it needs is due.
            let known = match needs {
                Some(needs) => dues[needs],
                None if self.ended => dues[index],
                None => continue,
            };
            if window.contains(dues[index]) && known < window.to {
                counted += 1;
                decoded += u64::from(decodable);
            }
        }
        PlaybackReport {
            startup: self.startup(Some(start)),
            decodable_share: (counted > 0).then(|| decoded as f64 / counted as f64),
            ..PlaybackReport::default()
        }
    }
}

/// For each frame whether it can be decoded, and the last frame that it needs: itself, or for a B frame the anchor
/// behind it (`None` if there is none). Takes the types in order, and whether the frames were there in time.
fn decodable(frames: &[(FrameKind, bool)]) -> Vec<(bool, Option<usize>)> {
    let mut found = vec![(false, None); frames.len()];
    // Whether the last I or P frame can be decoded.
    let mut anchor = false;
    // B frames that wait for the anchor behind them.
    let mut waiting = Vec::new();
    for (index, &(kind, in_time)) in frames.iter().enumerate() {
        let decoded = match kind {
            FrameKind::Any => {
                found[index] = (in_time, Some(index));
                continue;
            }
            FrameKind::B => {
                found[index] = (in_time && anchor, None);
                waiting.push(index);
                continue;
            }
            FrameKind::I => in_time,
            FrameKind::P => in_time && anchor,
        };
        for before in waiting.drain(..) {
            found[before] = (found[before].0 && decoded, Some(index));
        }
        found[index] = (decoded, Some(index));
        anchor = decoded;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn window(from_ms: u64, to_ms: u64) -> Window {
        Window { from: at(from_ms), to: at(to_ms) }
    }

    fn kinds(pattern: &str) -> Vec<FrameKind> {
        pattern.chars().map(|letter| FrameKind::by_letter(letter).unwrap_or(FrameKind::Any)).collect()
    }

    /// How many of a pattern can be decoded if these frames are lost.
    fn decoded(pattern: &str, lost: &[usize]) -> Vec<usize> {
        let frames: Vec<_> = kinds(pattern)
            .into_iter()
            .enumerate()
            .map(|(index, kind)| (kind, !lost.contains(&index)))
            .collect();
        let found = decodable(&frames).into_iter().enumerate();
        found.filter(|(_, (decodable, _))| *decodable).map(|(index, _)| index).collect()
    }

    /// NV-8.8: the first P of a group of twelve is lost.
    #[test]
    fn a_lost_anchor_takes_what_depends_on_it() {
        assert_eq!(decoded("IBBPBBPBBPBBI", &[3]), [0, 12]);
    }

    #[test]
    fn what_each_type_needs() {
        assert_eq!(decoded("IBBPBBI", &[]), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(decoded("IBBPBBI", &[1]), [0, 2, 3, 4, 5, 6], "nothing needs a B");
        assert_eq!(decoded("IBBPBBI", &[6]), [0, 1, 2, 3], "the B before it need the next I");
        assert_eq!(decoded("IBBPBBI", &[0]), [6]);
        assert_eq!(decoded("PBBI", &[]), [3], "a P needs an anchor");
        assert_eq!(decoded("???", &[1]), [0, 2], "frames without type stand alone");
    }

    /// A frame of 100 bytes each 40 ms, generated at the given offset.
    fn log(count: u64) -> Vec<Frame> {
        (0..count).map(|k| Frame { end: 100 * (k + 1), kind: FrameKind::Any, at: at(40 * k) }).collect()
    }

    /// A player with a buffer of 4 frames, 2 after a stall, whose frames are complete at these times.
    fn tcp(times_ms: &[u64], count: u64) -> Playback {
        let spans = (Span::from_millis(160), Span::from_millis(80));
        let mut playback = Playback::new(25.0, spans, true);
        playback.note_frames(&log(count));
        for &time in times_ms {
            playback.deliver(at(time), 100);
        }
        playback
    }

    #[test]
    fn a_buffer_in_whole_frames() {
        assert_eq!(frames_in(Span::from_secs(1), 25.0), 25);
        assert_eq!(frames_in(Span::from_millis(500), 25.0), 13);
        assert_eq!(frames_in(Span::from_millis(280), 25.0), 7);
        assert_eq!(frames_in(Span::ZERO, 25.0), 1);
    }

    #[test]
    fn a_stream_in_time_does_not_stall() {
        let report = tcp(&[50, 90, 130, 170, 210, 250, 290, 330, 370, 410], 10).report(&window(0, 400));
        assert_eq!(report.startup, Some(Span::from_millis(170)));
        assert_eq!((report.stalls, report.stalled), (Some(0), Some(Span::ZERO)));
        assert_eq!((report.stall_share, report.decodable_share), (Some(0.0), None));
    }

    /// Playing starts at 100 ms; frames 0 to 3 are shown at 100, 140, 180 and 220 ms; frame 4 is due at 260 and frame 5
    /// complete at 400 ms, when playing goes on; frame 6 is due at 480 and there.
    #[test]
    fn a_stall_lasts_until_the_buffer_is_filled_again() {
        let times = [40, 60, 80, 100, 300, 400, 410, 420, 430, 440];
        let report = tcp(&times, 10).report(&window(0, 500));
        assert_eq!((report.stalls, report.stalled), (Some(1), Some(Span::from_millis(140))));
        assert_eq!(report.stall_share, Some(140.0 / 400.0));
        // The window cuts the stall and what is played.
        let report = tcp(&times, 10).report(&window(300, 500));
        assert_eq!((report.stalls, report.stalled), (Some(0), Some(Span::from_millis(100))));
        assert_eq!(report.stall_share, Some(0.5));
        assert_eq!(report.startup, Some(Span::from_millis(100)));
    }

    #[test]
    fn a_stall_may_last_to_the_end() {
        let report = tcp(&[40, 60, 80, 100, 300], 10).report(&window(0, 500));
        assert_eq!((report.stalls, report.stalled), (Some(1), Some(Span::from_millis(240))));
    }

    #[test]
    fn a_film_ends() {
        let mut film = tcp(&[40, 60, 80, 100, 300], 5);
        film.end();
        // Frame 4 is the last: it is shown from 300 to 340 ms.
        let report = film.report(&window(0, 500));
        assert_eq!((report.stalls, report.stalled), (Some(1), Some(Span::from_millis(40))));
        assert_eq!(report.stall_share, Some(40.0 / 240.0));
        let mut short = tcp(&[40, 60], 2);
        assert_eq!(short.report(&window(0, 500)), PlaybackReport::default(), "it never starts");
        short.end();
        assert_eq!(short.report(&window(0, 500)).startup, Some(Span::from_millis(60)));
    }

    fn datagrams(pattern: &str, complete: &[(u64, u64)]) -> Playback {
        let mut playback = Playback::new(25.0, (Span::from_millis(80), Span::ZERO), false);
        let frames: Vec<Frame> = log(pattern.len() as u64)
            .into_iter()
            .zip(kinds(pattern))
            .map(|(frame, kind)| Frame { kind, ..frame })
            .collect();
        playback.note_frames(&frames);
        for &(number, millis) in complete {
            playback.arrive((100 * number, 100 * number + 60), at(millis - 1));
            playback.arrive((100 * number + 60, 100 * number + 100), at(millis));
        }
        playback
    }

    #[test]
    fn frames_that_come_late_or_never_are_lost() {
        // Playing starts at 60 ms, when frame 1 is complete; frame k is due at 60 + 40 k ms. Frame 2 comes late,
        // frame 4 never.
        let complete = [(0, 20), (1, 60), (2, 141), (3, 180), (5, 200)];
        let report = datagrams("??????", &complete).report(&window(0, 1000));
        assert_eq!(report.startup, Some(Span::from_millis(60)));
        assert_eq!(report.decodable_share, Some(4.0 / 6.0));
        assert_eq!((report.stalls, report.stall_share), (None, None));
        // Only frames due within the window: 3 and 4.
        let report = datagrams("??????", &complete).report(&window(180, 260));
        assert_eq!(report.decodable_share, Some(0.5));
    }

    #[test]
    fn a_lost_frame_does_not_hold_the_start() {
        let report = datagrams("????", &[(0, 20), (2, 100)]).report(&window(0, 1000));
        assert_eq!(report.startup, Some(Span::from_millis(100)));
        assert_eq!(report.decodable_share, Some(0.5));
    }

    #[test]
    fn frames_whose_anchor_is_still_to_come_do_not_count() {
        let complete = [(0, 20), (1, 60), (2, 100), (3, 140), (4, 180)];
        let mut video = datagrams("IBPBB", &complete[..2]);
        assert_eq!(
            video.report(&window(0, 1000)).decodable_share,
            Some(1.0 / 3.0),
            "the last two B are left out"
        );
        video.end();
        assert_eq!(video.report(&window(0, 1000)).decodable_share, Some(1.0 / 5.0));
        let video = datagrams("IBPBB", &complete);
        assert_eq!(video.report(&window(0, 1000)).decodable_share, Some(1.0));
    }

    #[test]
    fn frames_without_bytes_are_skipped() {
        let skip = |reliable| {
            let mut playback = Playback::new(25.0, (Span::from_millis(80), Span::ZERO), reliable);
            let ends = [100, 100, 200];
            let frames: Vec<Frame> = (ends.iter().zip(0..))
                .map(|(&end, k)| Frame { end, kind: FrameKind::Any, at: at(40 * k) })
                .collect();
            playback.note_frames(&frames);
            playback
        };
        let mut tcp = skip(true);
        tcp.deliver(at(90), 100);
        tcp.deliver(at(110), 100);
        assert_eq!(tcp.report(&window(0, 150)).startup, Some(Span::from_millis(90)));
        let mut udp = skip(false);
        udp.arrive((0, 100), at(10));
        udp.arrive((100, 200), at(100));
        let report = udp.report(&window(0, 1000));
        assert_eq!((report.startup, report.decodable_share), (Some(Span::from_millis(40)), Some(1.0)));
    }

    #[test]
    fn a_packet_may_hold_parts_of_several_frames() {
        let mut playback = datagrams("????", &[]);
        playback.arrive((350, 400), at(10));
        playback.arrive((50, 350), at(20));
        playback.arrive((0, 50), at(30));
        let complete: Vec<_> = playback.frames.iter().map(|seen| seen.complete).collect();
        assert_eq!(complete, [Some(at(30)), Some(at(20)), Some(at(20)), Some(at(20))]);
    }
}
