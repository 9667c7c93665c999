//! Video on demand: a player that asks for segments one after another and chooses the bit rate of each.
//!
//! It plays when enough video is buffered, stands still when there is none, and asks for the next segment when there is
//! room for it. Which of the bit rates it asks for is up to its rule:
//!
//! - *fixed*: always the same;
//! - *throughput*: the highest below 0.9 of the mean rate at which the last four segments came, as the rule of dash.js
//!   for video on demand (versions 2.6 to 2.9; Spiteri, Sitaraman and Sparacio, "From theory to practice", MMSys 2018);
//! - *bola*: BOLA-BASIC of Spiteri, Urgaonkar and Sitaraman, "BOLA: near-optimal bitrate adaptation for online videos"
//!   (INFOCOM 2016; IEEE/ACM ToN 28(4), 2020), which looks at the buffer alone: with `Q` segments in it, the bit rate
//!   that maximises `(V (ln(S/S_min) + gp) - Q) / S`, where `V = (Q_max - 1) / (ln(S_max/S_min) + gp)`.
//!
//! The score is the linear quality of experience of Yin, Jindal, Sekar and Sinopoli ("A control-theoretic approach for
//! dynamic adaptive video streaming over HTTP", SIGCOMM 2015): a second of standing still costs as much as a segment at
//! the highest bit rate is worth, as with its ladder and its weights "balanced".

use std::collections::VecDeque;
use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::Offered;
use super::client::{Acts, Ask, Client, Connections, Outcome};
use crate::trace::Viewed;

/// How bit rates are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Always the one of this number, from 0.
    Fixed(usize),
    /// By the rate of the last segments.
    Throughput,
    /// By the buffer; `gp` is what it gives for not standing still.
    Bola {
        /// The paper's gamma p.
        gp: f64,
    },
}

/// A player, its video and its server.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayerPlan {
    /// Bit rates in bit/s, rising.
    pub ladder: Arc<[u64]>,
    /// Bytes of each segment at each bit rate, segment by segment, and again from the first; none if all have what
    /// their bit rate says.
    pub sizes: Arc<[u32]>,
    /// Length of video in a segment.
    pub segment: Span,
    /// Segments of the video; `None` does not end.
    pub segments: Option<u64>,
    /// How bit rates are chosen.
    pub rule: Rule,
    /// Maximum length of video in the buffer, at least two segments.
    pub buffer: Span,
    /// Video in the buffer when playing starts.
    pub startup: Span,
    /// Video in the buffer when playing goes on after a stall.
    pub rebuffer: Span,
    /// Bytes of a request.
    pub request: u64,
    /// Its connection.
    pub connections: Connections,
}

impl Offered for Arc<PlayerPlan> {
    fn connections(&self) -> Option<Connections> {
        Some(self.connections)
    }
}

impl PlayerPlan {
    /// Bytes of the segment `number`, from 0, at this bit rate.
    fn bytes(&self, rate: usize, number: u64) -> u64 {
        if !self.sizes.is_empty() {
            let segments = self.sizes.len() / self.ladder.len();
            return u64::from(self.sizes[(number % segments as u64) as usize * self.ladder.len() + rate])
                .max(1);
        }
        let bits = u128::from(self.ladder[rate]) * u128::from(self.segment.0) / 1_000_000_000;
        (bits as u64 / 8).max(1)
    }
}

/// Samples of throughput that count, and the share of their mean that is trusted.
const SAMPLES: usize = 4;
const SAFETY: f64 = 0.9;

/// The highest bit rate that the mean of these rates carries; the lowest before there is one.
fn by_throughput(ladder: &[u64], rates: &VecDeque<f64>) -> usize {
    if rates.is_empty() {
        return 0;
    }
    let trusted = SAFETY * rates.iter().sum::<f64>() / rates.len() as f64;
    ladder.iter().rposition(|&rate| rate as f64 <= trusted).unwrap_or(0)
}

/// What BOLA-BASIC chooses with `level` segments in the buffer and the control parameter `v`. Bit rates stand for
/// sizes, also where those of single segments are listed: the paper's are the mean ones.
fn by_buffer(ladder: &[u64], (v, gp): (f64, f64), level: f64) -> usize {
    let least = ladder[0] as f64;
    let score = |&rate: &u64| (v * (libm::log(rate as f64 / least) + gp) - level) / rate as f64;
    let scores = ladder.iter().map(score).enumerate();
    scores.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(rate, _)| rate)
}

/// BOLA's control parameter for a buffer of `most` segments.
fn control(ladder: &[u64], gp: f64, most: f64) -> f64 {
    let highest = libm::log(ladder[ladder.len() - 1] as f64 / ladder[0] as f64);
    (most - 1.0) / (highest + gp)
}

/// What came of a player, over the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Viewing {
    /// From the click to the start of playing.
    pub startup: Option<Span>,
    /// Times that playing stopped for want of video.
    pub stalls: u64,
    /// How long it stood still.
    pub stalled: Span,
    /// How long it played.
    pub played: Span,
    /// Segments that came.
    pub segments: u64,
    /// Times that the bit rate changed from one of these to the next.
    pub switches: u64,
    /// Their mean bit rate in bit/s.
    pub bit_rate: Option<f64>,
    /// Quality of experience per segment, in bit/s: mean bit rate, less the mean change of it, less the highest bit
    /// rate for each second of standing still and of waiting for the start, over the number of segments.
    pub quality: Option<f64>,
}

/// What plays.
#[derive(Clone, Debug)]
pub struct Screen {
    began: Time,
    /// What a second of waiting costs, in bit/s.
    penalty: f64,
    /// Video in the buffer at `since`.
    buffered: Span,
    since: Time,
    playing: bool,
    startup: Option<Span>,
    stalls: u64,
    stalled: Span,
    played: Span,
    /// No more video will come.
    complete: bool,
    segments: u64,
    switches: u64,
    /// Sums of bit rates and of their changes.
    rates: f64,
    changes: f64,
    last: Option<u64>,
}

impl Screen {
    fn new(plan: &PlayerPlan) -> Screen {
        Screen {
            began: Time::ZERO,
            penalty: plan.ladder.last().map_or(0.0, |&highest| highest as f64),
            buffered: Span::ZERO,
            since: Time::ZERO,
            playing: false,
            startup: None,
            stalls: 0,
            stalled: Span::ZERO,
            played: Span::ZERO,
            complete: false,
            segments: 0,
            switches: 0,
            rates: 0.0,
            changes: 0.0,
            last: None,
        }
    }

    /// Plays, or stands still, up to `now`.
    fn advance(&mut self, now: Time) {
        let elapsed = now.since(self.since);
        self.since = now;
        if !self.playing {
            if self.startup.is_some() && !self.complete {
                self.stalled = self.stalled + elapsed;
            }
            return;
        }
        let shown = elapsed.min(self.buffered);
        self.played = self.played + shown;
        self.buffered = self.buffered - shown;
        // A buffer that is empty just when the next segment comes has not stopped anything.
        if shown < elapsed {
            self.playing = false;
            if !self.complete {
                self.stalls += 1;
                self.stalled = self.stalled + (elapsed - shown);
            }
        }
    }

    /// A segment is there; whether it is the last.
    fn add(&mut self, plan: &PlayerPlan, rate: usize, is_last: bool, now: Time) {
        self.advance(now);
        self.buffered = self.buffered + plan.segment;
        self.complete = is_last;
        let rate = plan.ladder[rate];
        self.segments += 1;
        self.rates += rate as f64;
        if let Some(last) = self.last.replace(rate) {
            self.switches += u64::from(last != rate);
            self.changes += last.abs_diff(rate) as f64;
        }
        let enough = if self.startup.is_none() { plan.startup } else { plan.rebuffer };
        if !self.playing && (self.buffered >= enough || is_last) {
            self.playing = true;
            self.startup.get_or_insert(now.since(self.began));
        }
    }

    /// How long playing has stood still before `now`.
    pub fn stalled(&self, now: Time) -> Span {
        let mut screen = self.clone();
        screen.advance(now.max(self.since));
        screen.stalled
    }

    /// What the viewer has at `now`.
    pub fn viewed(&self, now: Time) -> Viewed {
        let mut screen = self.clone();
        screen.advance(now.max(self.since));
        Viewed {
            rate: screen.last.map(|rate| rate as f64),
            frame_delay: None,
            buffered: screen.buffered,
            shown: None,
        }
    }

    /// What the viewer has had by `end`.
    pub fn viewing(&self, end: Time) -> Viewing {
        let mut screen = self.clone();
        screen.advance(end.max(self.since));
        let number = screen.segments as f64;
        let known = screen.segments > 0;
        let waited = screen.stalled.seconds() + screen.startup.map_or(0.0, Span::seconds);
        Viewing {
            startup: screen.startup,
            stalls: screen.stalls,
            stalled: screen.stalled,
            played: screen.played,
            segments: screen.segments,
            switches: screen.switches,
            bit_rate: known.then(|| screen.rates / number),
            quality: known.then(|| (screen.rates - screen.changes - screen.penalty * waited) / number),
        }
    }
}

/// A player at work.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    plan: Arc<PlayerPlan>,
    until: Time,
    screen: Screen,
    /// The bit rate of the segment that is on its way, when it was asked for, and the bytes at which it is complete.
    pending: Option<(usize, Time, u64)>,
    /// Bytes and segments that were asked for.
    asked: u64,
    number: u64,
    rates: VecDeque<f64>,
    due: Option<Time>,
}

impl Player {
    pub(crate) fn new(plan: &Arc<PlayerPlan>, _: Stream, until: Time) -> Player {
        Player {
            plan: Arc::clone(plan),
            until,
            screen: Screen::new(plan),
            pending: None,
            asked: 0,
            number: 0,
            rates: VecDeque::with_capacity(SAMPLES),
            due: None,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome<'_> {
        Outcome::Screen(&self.screen)
    }

    fn choose(&self) -> usize {
        let (plan, ladder) = (&self.plan, &self.plan.ladder);
        let segments = |video: Span| video.seconds() / plan.segment.seconds();
        match plan.rule {
            Rule::Fixed(rate) => rate,
            Rule::Throughput => by_throughput(ladder, &self.rates),
            Rule::Bola { gp } => {
                let v = control(ladder, gp, segments(plan.buffer));
                by_buffer(ladder, (v, gp), segments(self.screen.buffered))
            }
        }
    }

    /// Asks for the next segment, or wants to be woken when there is room for it.
    fn go_on(&mut self, now: Time, acts: &mut Acts) {
        if self.screen.complete {
            return;
        }
        let full = self.screen.buffered + self.plan.segment;
        if full > self.plan.buffer {
            self.due = Some(now + (full - self.plan.buffer));
            acts.wake = self.due;
            return;
        }
        let rate = self.choose();
        let answer = self.plan.bytes(rate, self.number);
        self.asked += answer;
        self.number += 1;
        self.pending = Some((rate, now, self.asked));
        acts.asks.push(Ask { connection: 0, request: self.plan.request, answer });
    }
}

impl Client for Player {
    fn start(&mut self, now: Time, acts: &mut Acts) {
        (self.screen.began, self.screen.since) = (now, now);
        self.go_on(now, acts);
    }

    fn arrive(&mut self, _: usize, bytes: u64, now: Time, acts: &mut Acts) {
        let Some((rate, asked, _)) = self.pending.take_if(|pending| pending.2 <= bytes) else { return };
        if self.rates.len() == SAMPLES {
            self.rates.pop_front();
        }
        let taken = now.since(asked).seconds().max(1e-9);
        self.rates.push_back(self.plan.bytes(rate, self.number - 1) as f64 * 8.0 / taken);
        let is_last = self.plan.segments == Some(self.number) || now >= self.until;
        self.screen.add(&self.plan, rate, is_last, now);
        self.go_on(now, acts);
    }

    fn wake(&mut self, now: Time, acts: &mut Acts) {
        if self.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        self.screen.advance(now);
        if now >= self.until {
            self.screen.complete = true;
            return;
        }
        self.go_on(now, acts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Big Buck Bunny" in the paper on BOLA (table I), in kbit/s; segments of 3 s.
    const BUNNY: [u64; 10] = [230, 331, 477, 688, 991, 1427, 2056, 2962, 5027, 6000];

    /// The paper's parameters V = 0.93 and gp = 5 on its own video: where two bit rates have one score, worked out from
    /// its equation, `Q = V (gp + (S2 ln S1 - S1 ln S2) / (S2 - S1))` with sizes over the smallest.
    #[test]
    fn bola_on_the_video_of_its_paper() {
        let thresholds = [3.879, 4.218, 4.558, 4.898, 5.238, 5.577, 5.917, 6.321, 6.668];
        for (at, threshold) in thresholds.into_iter().enumerate() {
            let choose = |level| by_buffer(&BUNNY, (0.93, 5.0), level);
            assert_eq!([choose(threshold - 0.01), choose(threshold + 0.01)], [at, at + 1], "{threshold}");
        }
        assert_eq!(by_buffer(&BUNNY, (0.93, 5.0), 0.0), 0);
        assert_eq!(by_buffer(&BUNNY, (0.93, 5.0), 7.6), 9);
        // V for a buffer of 25 s, and what the largest score leaves there: the buffer less one segment.
        let v = control(&BUNNY, 5.0, 25.0 / 3.0);
        assert!((v - 0.887_65).abs() < 1e-4, "{v}");
        assert!((v * ((6000.0_f64 / 230.0).ln() + 5.0) - (25.0 / 3.0 - 1.0)).abs() < 1e-9);
    }

    /// Four segments at 2, 2, 4 and 4 Mbit/s carry 0.9 of 3 Mbit/s: 2.7.
    #[test]
    fn the_throughput_rule_trusts_nine_tenths() {
        let ladder = [500_000, 1_000_000, 2_700_000, 2_700_001];
        let rates = |all: &[f64]| all.iter().map(|rate| rate * 1e6).collect::<VecDeque<f64>>();
        assert_eq!(by_throughput(&ladder, &rates(&[2.0, 2.0, 4.0, 4.0])), 2);
        assert_eq!(by_throughput(&ladder, &rates(&[1.0])), 0);
        assert_eq!(by_throughput(&ladder, &rates(&[0.1])), 0, "there is nothing lower");
        assert_eq!(by_throughput(&ladder, &rates(&[])), 0);
    }

    fn plan(rule: Rule, segments: Option<u64>) -> Arc<PlayerPlan> {
        Arc::new(PlayerPlan {
            ladder: [1_000_000, 2_000_000].into(),
            sizes: Arc::default(),
            segment: Span::from_secs(2),
            segments,
            rule,
            buffer: Span::from_secs(6),
            startup: Span::from_secs(2),
            rebuffer: Span::from_secs(4),
            request: 400,
            connections: Connections { most: 1, streams: 1, server_time: Span::ZERO },
        })
    }

    fn at(tenths: u64) -> Time {
        Time::ZERO + Span::from_millis(100 * tenths)
    }

    /// Two segments of 1000 and 300 B at the lower bit rate, 5000 and 700 B at the higher, and again from the first.
    /// The rate at which one came is by its own bytes: 40 kbit in 0.1 s.
    #[test]
    fn listed_segments_have_sizes_of_their_own() {
        let listed =
            PlayerPlan { sizes: [1000, 5000, 300, 700].into(), ..(*plan(Rule::Fixed(1), None)).clone() };
        let mut player = Player::new(&Arc::new(listed), Stream::new(1, "p"), Time::MAX);
        let mut acts = Acts::default();
        player.start(Time::ZERO, &mut acts);
        let mut asked = Vec::new();
        for (tenths, bytes) in [(1, 5000), (2, 5700), (3, 10_700)] {
            asked.extend(acts.asks.drain(..).map(|ask| ask.answer));
            player.arrive(0, bytes, at(tenths), &mut acts);
        }
        assert_eq!(asked, [5000, 700, 5000]);
        assert_eq!(player.rates.iter().map(|rate| rate.round()).collect::<Vec<_>>(), [4e5, 56e3, 4e5]);
    }

    /// Segments of 2 s that are there after 1.0, 5.0, 6.0 and 6.5 s: it starts at 1.0, stands still from 3.0, goes on
    /// with two segments at 6.0, and has played 8 s at 12.0.
    #[test]
    fn it_starts_stalls_and_ends() {
        let mut player = Player::new(&plan(Rule::Fixed(0), Some(4)), Stream::new(1, "p"), Time::MAX);
        let mut acts = Acts::default();
        player.start(Time::ZERO, &mut acts);
        for (number, tenths) in [(1, 10), (2, 50), (3, 60), (4, 65)] {
            assert_eq!(acts.asks.drain(..).collect::<Vec<_>>().len(), 1, "{number}");
            player.arrive(0, number * 250_000 - 1, at(tenths - 1), &mut acts);
            player.arrive(0, number * 250_000, at(tenths), &mut acts);
            if let Some(wake) = acts.wake.take() {
                player.wake(wake, &mut acts);
            }
        }
        assert!(acts.asks.is_empty(), "the video has four segments");
        let seen = player.screen.viewing(at(200));
        assert_eq!((seen.startup, seen.stalls), (Some(Span::from_secs(1)), 1));
        assert_eq!((seen.stalled, seen.played), (Span::from_secs(3), Span::from_secs(8)));
        // Four segments at 1 Mbit/s, 3 s stalled and 1 s of waiting at 2 Mbit/s a second: (4 - 8) / 4.
        assert_eq!((seen.bit_rate, seen.quality, seen.switches), (Some(1e6), Some(-1e6), 0));
        let early = player.screen.viewing(at(40));
        assert_eq!(early.stalls, 1, "what has happened by the last segment");
    }

    /// With room for three segments the fourth is asked for when one has been played.
    #[test]
    fn a_full_buffer_waits() {
        let mut player = Player::new(&plan(Rule::Throughput, None), Stream::new(1, "p"), at(40));
        let mut acts = Acts::default();
        player.start(Time::ZERO, &mut acts);
        player.arrive(0, 250_000, at(1), &mut acts);
        assert_eq!(acts.asks.last().map(|ask| ask.answer), Some(500_000), "20 Mbit/s carry the higher rate");
        player.arrive(0, 750_000, at(2), &mut acts);
        player.arrive(0, 1_250_000, at(3), &mut acts);
        assert_eq!((acts.asks.len(), acts.wake), (3, Some(at(21))));
        acts.wake = None;
        player.wake(at(21), &mut acts);
        assert_eq!(acts.asks.len(), 4);
        player.arrive(0, 1_750_000, at(45), &mut acts);
        assert_eq!((acts.asks.len(), acts.wake), (4, None), "nothing is asked for behind the end");
        assert_eq!(player.screen.viewing(at(300)).stalls, 0);
    }
}
