//! Minstrel-HT, the rate control of Linux for modes of 802.11n and ac, written anew from its rules as of the redesign
//! of 2021 (Linux 5.12): statistics of each mode, the modes of most throughput, probes, and a chain of repetitions.
//!
//! The medium asks for a mode before each PPDU and says what became of it. Modes lie in groups of one width, guard
//! interval and number of streams. Arithmetic is in integers and fractions of 4096, as there, so that decisions are
//! the same. Modes of 802.11ax, which Linux leaves to firmware, are grouped in the same way. Rates before 802.11n are
//! left out, as data have none here.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::mode::{Format, Mode};
use super::rate_adaptation::{RateAdaptation, Take};

/// One, as a probability.
const ONE: i32 = 4096;
/// Bits of a mean aggregate: 16 packets of 1200 B.
const MEAN_BITS: u32 = 16 * 1200 * 8;
/// Microseconds of an empty frame and its answer at 6 Mbit/s, without RTS and with one.
const OVERHEAD: [u64; 2] = [108, 228];
/// Longest time of repetitions at one rate, in microseconds.
const SEGMENT: u64 = 6_000;
/// Modes that wait to be probed, of each kind.
const BUCKET: usize = 5;
/// Random orders in which the modes of a group are probed.
const COLUMNS: usize = 10;
/// Modes of most throughput that are noted.
const BEST: usize = 4;

/// How `MinstrelHt` works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinstrelHtPlan {
    /// Statistics are evaluated when more than this has passed, in whole milliseconds.
    pub interval: Span,
    /// Between two probes.
    pub sampling: Span,
    /// Rates of a chain.
    pub chain: usize,
    /// Most transmissions at each of them.
    pub tries: u32,
}

/// Why a mode is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The next faster one of a group.
    Next,
    /// Any faster one.
    Jump,
    /// One between the fastest and the slowest in use.
    Slow,
}

/// In which order kinds of probes follow one another.
const TURNS: [Probe; 6] = [Probe::Next, Probe::Jump, Probe::Next, Probe::Jump, Probe::Next, Probe::Slow];

/// What is stored about a mode.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its index in the plan; none if the group has no such mode.
    mode: Option<u16>,
    /// Nanoseconds of a mean packet within a mean aggregate.
    duration: u32,
    attempts: u32,
    successes: u32,
    /// Averaged probability of success, now and an interval ago.
    average: i32,
    before: i32,
    tried: bool,
}

/// Modes of one width, guard interval and number of streams.
#[derive(Clone, Debug)]
struct Group {
    streams: u8,
    best: [usize; BEST],
    reliable: usize,
    /// Where it stands in the random orders.
    column: usize,
    place: usize,
}

/// A rate of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    rate: usize,
    tries: u32,
}

/// The statistics of one receiver. A rate is an index here: group times slots plus MCS.
#[derive(Clone, Debug)]
pub(crate) struct MinstrelHt {
    plan: MinstrelHtPlan,
    /// Rates of a group.
    slots: usize,
    known: Vec<Known>,
    groups: Vec<Group>,
    /// By index of the mode, from that of the first on.
    rates: Vec<usize>,
    first: usize,
    best: [usize; BEST],
    reliable: usize,
    chain: [Step; BEST],
    /// Where the present frame is in the chain, and transmissions left there.
    step: usize,
    left: u32,
    /// The present frame begins with this one.
    probe: Option<usize>,
    buckets: [[Option<usize>; BUCKET]; 3],
    /// Groups at which the walks of `Next` and `Jump` stand.
    walks: [usize; 2],
    turn: usize,
    orders: Vec<u8>,
    /// Millisecond of the last evaluation.
    evaluated: u64,
    sample_at: Time,
    /// Frames since the last evaluation, and MPDUs in them.
    frames: u32,
    mpdus: u32,
    /// Mean MPDUs of a frame, as a fraction of 4096.
    length: i32,
}

/// Nanoseconds of a mean packet at a mode, before they lose their low bits.
fn duration(mode: Mode) -> u32 {
    let symbols = MEAN_BITS.div_ceil(mode.bits_per_symbol());
    let data = match (mode.format(), mode.guard()) {
        (Format::Ht | Format::Vht, 400) => (symbols * 18_000 + 4_000) / 5,
        _ => symbols * mode.symbol().0 as u32,
    };
    data / 16
}

/// The next value of a low-pass with two poles; `now` counts as at least one part in 4096.
fn average(now: i32, last: i32, before: i32) -> i32 {
    let next = (1_173 * now.max(1) + 5_273 * last - 2_350 * before) >> 12;
    if next < 0 { 1 } else { next.min(ONE) }
}

/// Packets per second or so, for comparisons: of a packet that takes `duration` ns beside its part of the overhead.
fn throughput(probability: i32, duration: u32, length: u32) -> u32 {
    if probability < ONE / 10 {
        return 0;
    }
    // Losses of less than a tenth may be collisions.
    let probability = u64::from(probability.min(ONE * 9 / 10).unsigned_abs());
    let nanos = 1_000 * OVERHEAD[0] / u64::from(length) + u64::from(duration);
    ((100 * (probability * 1_000_000 / nanos)) >> 12) as u32
}

/// How often a rate is tried, without RTS and with it.
fn tries(probability: i32, data: u64, most: u32) -> [u32; 2] {
    if probability < ONE / 10 {
        return [1, 1];
    }
    if probability < ONE / 5 {
        return [2, 2];
    }
    let mut window = 31;
    let mut counts = [2, 2];
    let mut spent = OVERHEAD.map(|overhead| 9 * 15 / 2 + 9 * window / 2 + 2 * (overhead + data));
    loop {
        window = (2 * window + 1).min(1023);
        for (spent, overhead) in spent.iter_mut().zip(OVERHEAD) {
            *spent += 9 * window / 2 + overhead + data;
        }
        counts[1] += u32::from(spent[1] < SEGMENT);
        if spent[0] >= SEGMENT {
            break;
        }
        counts[0] += 1;
        if counts[0] >= most {
            break;
        }
    }
    counts.map(|count| count.min(most))
}

impl MinstrelHt {
    /// Without experience, at the slowest mode. `modes` are sorted by width, then from long guard intervals to short,
    /// then by streams, then by MCS; the first has the index `first`.
    pub(super) fn new(
        plan: MinstrelHtPlan,
        (first, modes): (usize, &[Mode]),
        stream: &mut Stream,
    ) -> MinstrelHt {
        let slots = modes.first().map_or(1, |mode| usize::from(mode.format().highest_mcs()) + 1);
        let nothing = Known {
            mode: None,
            duration: u32::MAX,
            attempts: 0,
            successes: 0,
            average: 0,
            before: 0,
            tried: false,
        };
        let (mut known, mut groups, mut rates) = (Vec::new(), Vec::<Group>::new(), Vec::new());
        let (mut last, mut shift) = (None, 0);
        for (&mode, index) in modes.iter().zip(first as u16..) {
            let of = (mode.width(), mode.guard(), mode.streams());
            if last.replace(of) != Some(of) {
                let lowest = known.len();
                known.extend(std::iter::repeat_n(nothing, slots));
                let column = stream.below(COLUMNS as u64) as usize;
                groups.push(Group {
                    streams: mode.streams(),
                    best: [lowest; BEST],
                    reliable: lowest,
                    column,
                    place: 0,
                });
                // Sixteen bits are kept of the longest.
                shift = 16_u32.saturating_sub(duration(mode).leading_zeros());
            }
            let rate = known.len() - slots + usize::from(mode.mcs());
            known[rate].mode = Some(index);
            known[rate].duration = (duration(mode) >> shift) << shift;
            rates.push(rate);
        }
        let mut orders = Vec::with_capacity(COLUMNS * slots);
        for _ in 0..COLUMNS {
            let mut order: Vec<u8> = (0..slots as u8).collect();
            for end in (1..slots).rev() {
                order.swap(end, stream.below(end as u64 + 1) as usize);
            }
            orders.extend(order);
        }
        let mut new = MinstrelHt {
            plan,
            slots,
            known,
            groups,
            rates,
            first,
            best: [0; BEST],
            reliable: 0,
            chain: [Step::default(); BEST],
            step: 0,
            left: 0,
            probe: None,
            buckets: [[None; BUCKET]; 3],
            walks: [0; 2],
            turn: 0,
            orders,
            evaluated: 0,
            sample_at: Time::ZERO,
            frames: 0,
            mpdus: 0,
            length: ONE,
        };
        new.choose();
        new.link();
        new
    }

    fn duration(&self, rate: usize) -> u32 {
        self.known[rate].duration
    }

    /// Mean MPDUs of a frame.
    fn mean_length(&self) -> u32 {
        (self.length >> 12).max(1).unsigned_abs()
    }

    fn throughput(&self, rate: usize) -> u32 {
        let known = &self.known[rate];
        throughput(known.average, known.duration, self.mean_length())
    }

    /// The rates that a group has.
    fn of_group(&self, group: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let slots = self.slots;
        let supported: u32 =
            (0..slots).map(|slot| u32::from(self.known[group * slots + slot].mode.is_some()) << slot).sum();
        (0..slots).filter(move |slot| supported >> slot & 1 == 1).map(move |slot| group * slots + slot)
    }

    /// Evaluates the interval, and chooses anew.
    fn evaluate(&mut self) {
        if let Some(mean) = (self.mpdus << 12).checked_div(self.frames) {
            self.length += 32 * (mean.cast_signed() - self.length) / 128;
        }
        (self.frames, self.mpdus) = (0, 0);
        for group in 0..self.groups.len() {
            let mut highest = 0;
            for rate in self.of_group(group).rev() {
                let known = &mut self.known[rate];
                if let Some(now) = (known.successes << 12).checked_div(known.attempts) {
                    let now = now.cast_signed();
                    let last = known.average;
                    if last == 0 {
                        known.average = now.max(1);
                        known.before = known.average;
                    } else {
                        (known.average, known.before) = (average(now, last, known.before), last);
                    }
                    known.tried = true;
                }
                (known.attempts, known.successes) = (0, 0);
                // What a faster mode can do a slower one can that was never tried.
                if known.tried {
                    highest = highest.max(known.average);
                } else {
                    known.average = known.average.max(highest);
                }
            }
        }
        self.choose();
        self.refill();
    }

    /// Enters a rate into a list of the best by throughput, then by probability.
    fn rank(&self, list: &mut [usize; BEST], rate: usize) {
        let worth = |rate: usize| (self.throughput(rate), self.known[rate].average);
        let mine = worth(rate);
        let place = list.iter().rposition(|&other| mine <= worth(other)).map_or(0, |above| above + 1);
        if place < BEST {
            list.copy_within(place..BEST - 1, place + 1);
            list[place] = rate;
        }
    }

    /// The rates of most throughput, and the most reliable.
    fn choose(&mut self) {
        let first = self.rates[0];
        let mut best = [first; BEST];
        for group in 0..self.groups.len() {
            let mut own = [group * self.slots; BEST];
            for rate in self.of_group(group).rev().filter(|&rate| self.throughput(rate) > 0) {
                self.rank(&mut best, rate);
                self.rank(&mut own, rate);
            }
            self.groups[group].best = own;
        }
        self.best = best;
        let mut reliable = first;
        for group in 0..self.groups.len() {
            let mut own = group * self.slots;
            for rate in self.of_group(group) {
                for chosen in [&mut reliable, &mut own] {
                    if self.is_more_reliable(rate, *chosen) {
                        *chosen = rate;
                    }
                }
            }
            self.groups[group].reliable = own;
        }
        // Fewer streams are more robust.
        let streams = self.groups[self.best[0] / self.slots].streams;
        let mut most = 0;
        for group in self.groups.iter().filter(|group| group.streams < streams) {
            let reached = self.throughput(group.reliable);
            if reached > most {
                (most, reliable) = (reached, group.reliable);
            }
        }
        self.reliable = reliable;
    }

    /// Whether a rate is to be preferred as the last resort.
    fn is_more_reliable(&self, rate: usize, other: usize) -> bool {
        let (known, best) = (&self.known[rate], &self.known[self.best[0]]);
        if known.duration < best.duration && known.average < best.average {
            return false;
        }
        if known.average > ONE * 3 / 4 {
            self.throughput(rate) > self.throughput(other)
        } else {
            known.average > self.known[other].average
        }
    }

    /// Makes the chain of repetitions.
    fn link(&mut self) {
        let most = self.plan.chain.min(BEST);
        for place in 0..most {
            let rate = if place + 1 == most && most > 1 { self.reliable } else { self.best[place] };
            let known = &self.known[rate];
            let data = u64::from(known.duration) * u64::from(self.mean_length()) / 1_000;
            let tries = tries(known.average, data, self.plan.tries)[usize::from(place > 0)];
            self.chain[place] = Step { rate, tries };
        }
        self.begin();
    }

    /// The next frame begins with the chain.
    fn begin(&mut self) {
        (self.step, self.left) = (0, self.chain[0].tries);
    }

    /// Drops from a bucket what needs no probe any more, and closes the gaps. As in Linux an entry that has no gap
    /// before it is not counted, and the next one takes its place.
    fn compact(&mut self, kind: Probe, (fast, slow): (u32, u32)) -> usize {
        let durations = self.buckets[kind as usize].map(|rate| rate.map_or(0, |rate| self.duration(rate)));
        let bucket = &mut self.buckets[kind as usize];
        let mut kept = 0;
        for place in 0..BUCKET {
            let Some(rate) = bucket[place] else { continue };
            let duration = durations[place];
            let valid = duration < fast || kind == Probe::Slow;
            if !valid || kind == Probe::Slow && !(fast < duration && duration < slow) {
                bucket[place] = None;
            } else if place != kept {
                bucket[place] = None;
                bucket[kept] = Some(rate);
                kept += 1;
            }
        }
        kept
    }

    /// Whether a rate waits in a bucket. Behind the first gap nothing does.
    fn waits(&self, kind: Probe, rate: usize) -> bool {
        self.buckets[kind as usize].iter().map_while(|&known| known).any(|known| known == rate)
    }

    /// The slowest rate of a group that is faster than `duration`.
    fn faster_than(&self, group: usize, duration: u32) -> Option<usize> {
        self.of_group(group).find(|&rate| self.duration(rate) < duration)
    }

    /// Looks for what to probe until the next evaluation.
    fn refill(&mut self) {
        let used = [self.best[0], self.best[1], self.reliable].map(|rate| self.duration(rate));
        let fast = used[0].min(used[1]).min(used[2]);
        let slow = used[0].max(used[1]).max(used[2]);
        for place in self.compact(Probe::Next, (fast, slow))..BUCKET {
            let found = self.next_faster(used[0]);
            self.buckets[Probe::Next as usize][place] = found;
            if found.is_none() {
                break;
            }
        }
        let from = self.compact(Probe::Jump, (fast, slow));
        let mut slow_ones = self.compact(Probe::Slow, (fast, slow));
        for place in from..BUCKET {
            let found = self.next_jump((fast, slow), &mut slow_ones);
            self.buckets[Probe::Jump as usize][place] = found;
            if found.is_none() {
                break;
            }
        }
    }

    /// The next group's slowest rate that is faster than `duration` and does not wait yet.
    fn next_faster(&mut self, duration: u32) -> Option<usize> {
        let count = self.groups.len();
        for _ in 0..count {
            self.walks[0] = (self.walks[0] + 1) % count;
            let rate = self.faster_than(self.walks[0], duration);
            if let Some(rate) = rate.filter(|&rate| !self.waits(Probe::Next, rate)) {
                return Some(rate);
            }
        }
        None
    }

    /// The next rate of a random order that is faster than all in use. Those between go to the bucket of slow ones.
    fn next_jump(&mut self, (fast, slow): (u32, u32), slow_ones: &mut usize) -> Option<usize> {
        let count = self.groups.len();
        let mut bound = if *slow_ones >= BUCKET { fast } else { slow };
        for _ in 0..count {
            self.walks[1] = (self.walks[1] + 1) % count;
            let group = self.walks[1];
            let Some(first) = self.faster_than(group, bound) else { continue };
            let Some(rate) = self.next_of_order(group, first) else { continue };
            let duration = self.duration(rate);
            let kind = if duration < fast { Probe::Jump } else { Probe::Slow };
            if self.waits(kind, rate) {
                continue;
            }
            if kind == Probe::Jump {
                return Some(rate);
            }
            let certain = self.known[rate].average > ONE * 95 / 100;
            if *slow_ones >= BUCKET || duration >= slow || certain {
                continue;
            }
            self.buckets[Probe::Slow as usize][*slow_ones] = Some(rate);
            *slow_ones += 1;
            if *slow_ones >= BUCKET {
                bound = fast;
            }
        }
        None
    }

    /// The next rate of the group's random order from `first` on.
    fn next_of_order(&mut self, group: usize, first: usize) -> Option<usize> {
        let slots = self.slots;
        for _ in 0..slots {
            let own = &mut self.groups[group];
            let rate = group * slots + usize::from(self.orders[own.column * slots + own.place]);
            own.place += 1;
            if own.place == slots {
                (own.place, own.column) = (0, (own.column + 1) % COLUMNS);
            }
            if rate >= first && self.known[rate].mode.is_some() {
                return Some(rate);
            }
        }
        None
    }

    /// The rate that a new frame probes, if it does.
    fn take_probe(&mut self, now: Time) -> Option<usize> {
        if now < self.sample_at {
            return None;
        }
        self.sample_at = now + self.plan.sampling;
        let kind = TURNS[self.turn];
        self.turn = (self.turn + 1) % TURNS.len();
        self.buckets[kind as usize].iter_mut().find_map(Option::take)
    }

    /// A rate in use that fails suddenly gives way to one of a lower group before the interval is over.
    fn drop_dead(&mut self) -> bool {
        let mut changed = false;
        for place in 0..2 {
            let rate = self.best[place];
            let known = &self.known[rate];
            if known.attempts <= 30 || known.successes >= known.attempts / 4 {
                continue;
            }
            let streams = self.groups[rate / self.slots].streams;
            let lower = self.groups[..rate / self.slots].iter().rfind(|group| group.streams <= streams);
            if let Some(lower) = lower {
                self.best[place] = lower.best[place];
            }
            changed = true;
        }
        changed
    }

    /// A frame is acknowledged, or its chain is at its end: `mpdus` is its length.
    fn finish(&mut self, mpdus: u32, now: Time) {
        self.frames += 1;
        self.mpdus += mpdus;
        let mut changed = self.drop_dead();
        let millis = now.0 / 1_000_000;
        if millis > self.evaluated + self.plan.interval.0 / 1_000_000 {
            self.evaluate();
            (self.evaluated, self.sample_at) = (millis, now);
            changed = true;
        }
        if changed {
            self.link();
        }
        self.begin();
    }
}

impl RateAdaptation for MinstrelHt {
    fn rate(&mut self, _attempt: u32, _now: Time) -> usize {
        self.known[self.chain[0].rate].mode.map_or(0, usize::from)
    }

    fn report(&mut self, rate: usize, acknowledged: bool, now: Time) {
        self.report_burst(rate, (1, u32::from(acknowledged)), (acknowledged, now));
    }

    fn take(&mut self, _tries: u32, now: Time) -> Take {
        let fresh = self.step == 0 && self.left == self.chain[0].tries;
        if fresh && self.probe.is_none() {
            self.probe = self.take_probe(now);
        }
        let rate = self.probe.unwrap_or(self.chain[self.step].rate);
        let shielded = self.probe.is_none() && self.step > 0;
        Take { rate: self.known[rate].mode.map_or(0, usize::from), alone: self.probe.is_some(), shielded }
    }

    fn report_burst(&mut self, rate: usize, (sent, arrived): (u32, u32), (answered, now): (bool, Time)) {
        let known = &mut self.known[self.rates[rate - self.first]];
        known.attempts += sent;
        known.successes += arrived;
        let probed = self.probe.take().is_some();
        if answered {
            return self.finish(sent, now);
        }
        if probed {
            return;
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        self.step += 1;
        if self.step >= self.plan.chain.min(BEST) {
            return self.finish(sent, now);
        }
        self.left = self.chain[self.step].tries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: MinstrelHtPlan = MinstrelHtPlan {
        interval: Span::from_millis(50),
        sampling: Span::from_millis(20),
        chain: 4,
        tries: 7,
    };

    fn mode(format: Format, streams: u8, guard: u16, width: u16, mcs: u8) -> Mode {
        Mode::new(format, (width, guard), (streams, mcs)).unwrap()
    }

    /// All modes up to this width and number of streams.
    fn modes(format: Format, widest: u16, streams: u8) -> Vec<Mode> {
        let mut list = Vec::new();
        for width in [20, 40, 80].into_iter().filter(|&width| width <= widest) {
            for &guard in format.guards().iter().rev() {
                for (streams, mcs) in (1..=streams).flat_map(|n| (0..12).map(move |mcs| (n, mcs))) {
                    list.extend(Mode::new(format, (width, guard), (streams, mcs)));
                }
            }
        }
        list
    }

    fn new(format: Format, widest: u16, streams: u8) -> (MinstrelHt, Vec<Mode>) {
        let modes = modes(format, widest, streams);
        (MinstrelHt::new(PLAN, (0, &modes), &mut Stream::new(1, "orders")), modes)
    }

    /// Durations of groups: streams, guard interval, width.
    #[test]
    fn durations_of_groups() {
        let known: [(u8, u16, u16, &[u32]); 4] = [
            (1, 800, 20, &[1_476_992, 738_496, 492_480, 369_248, 246_240, 184_736, 164_224, 147_744]),
            (1, 800, 40, &[711_248, 355_744, 237_248, 178_000, 118_736, 88_992, 79_248, 71_248]),
            (
                1,
                800,
                80,
                &[328_248, 164_248, 109_496, 82_248, 54_744, 41_248, 36_496, 33_000, 27_496, 24_744],
            ),
            (2, 400, 80, &[147_872, 74_072, 49_324, 37_172, 24_800, 18_724, 16_472, 14_900, 12_424, 11_300]),
        ];
        for (streams, guard, width, durations) in known {
            let format = if width == 80 { Format::Vht } else { Format::Ht };
            let (rates, modes) = new(format, width, streams);
            for (&expected, mcs) in durations.iter().zip(0..) {
                let wanted = mode(format, streams, guard, width, mcs);
                let index = modes.iter().position(|&known| known == wanted).unwrap();
                assert_eq!(rates.duration(rates.rates[index]), expected, "{wanted:?}");
            }
        }
    }

    /// The low-pass overshoots and takes long to believe in zero.
    #[test]
    fn averages_follow_the_low_pass() {
        let follow = |values: &[i32]| {
            let (mut last, mut before) = (values[0], values[0]);
            let mut seen = vec![last];
            for &value in &values[1..] {
                (last, before) = (average(value, last, before), last);
                seen.push(last);
            }
            seen
        };
        assert_eq!(follow(&[4096, 4096, 4096, 0, 0, 0, 0]), [4096, 4096, 4096, 2923, 1413, 142, 1]);
        assert_eq!(follow(&[2048, 4096, 4096, 4096, 4096]), [2048, 2634, 3388, 4023, 4096]);
        assert_eq!(follow(&[1024, 0, 0, 4096, 4096]), [1024, 731, 353, 1208, 2525]);
    }

    /// Mean lengths of aggregates, evaluated once in each interval.
    #[test]
    fn lengths_are_averaged() {
        let (mut rates, _) = new(Format::Ht, 20, 1);
        let mut seen = Vec::new();
        for length in [16, 16, 16, 32, 1] {
            (rates.frames, rates.mpdus) = (1, length);
            rates.evaluate();
            seen.push((rates.length, rates.mean_length()));
        }
        assert_eq!(seen, [(19_456, 4), (30_976, 7), (39_616, 9), (62_480, 15), (47_884, 11)]);
    }

    #[test]
    fn throughputs_of_modes() {
        let known = [
            ((Format::Ht, 1, 800, 20, 7), 4096, 1, 351),
            ((Format::Ht, 1, 800, 20, 7), 4096, 16, 582),
            ((Format::Ht, 1, 800, 20, 0), 4096, 1, 56),
            ((Format::Vht, 2, 400, 80, 9), 4096, 32, 6132),
            ((Format::Vht, 2, 400, 80, 9), 2048, 32, 3407),
            ((Format::Ht, 1, 400, 40, 7), 3000, 20, 1052),
            ((Format::Ht, 1, 800, 20, 4), 409, 4, 36),
            ((Format::Ht, 1, 800, 20, 4), 408, 4, 0),
        ];
        for ((format, streams, guard, width, mcs), probability, length, expected) in known {
            let (rates, modes) = new(format, width, streams);
            let wanted = mode(format, streams, guard, width, mcs);
            let index = modes.iter().position(|&known| known == wanted).unwrap();
            assert_eq!(throughput(probability, rates.duration(rates.rates[index]), length), expected);
        }
    }

    /// Repetitions without RTS and with it; what is likely to fail is tried once.
    #[test]
    fn repetitions_fill_six_milliseconds() {
        for (duration, length, counts) in
            [(1_476_992, 1, [3, 3]), (147_744, 1, [5, 5]), (147_744, 16, [2, 2]), (11_300, 32, [5, 5])]
        {
            assert_eq!(tries(ONE, duration * length / 1_000, 7), counts, "{duration} {length}");
        }
        assert_eq!((tries(400, 147, 7), tries(600, 147, 7)), ([1, 1], [2, 2]));
    }

    /// A full bucket whose entries are all of use loses its first.
    #[test]
    fn compaction_skips_the_first() {
        let (mut rates, _) = new(Format::Ht, 20, 1);
        rates.buckets[0] = [3, 4, 5, 6, 7].map(Some);
        assert_eq!(rates.compact(Probe::Next, (u32::MAX, u32::MAX)), 4);
        assert_eq!(rates.buckets[0], [Some(4), Some(5), Some(6), Some(7), None]);
        // What is not faster any more goes.
        rates.buckets[0] = [0, 4, 1, 6, 7].map(Some);
        assert_eq!(rates.compact(Probe::Next, (rates.duration(3), u32::MAX)), 3);
        assert_eq!(rates.buckets[0], [Some(4), Some(6), Some(7), None, None]);
    }

    /// PPDUs of eight MPDUs every 2 ms, each MPDU read with a probability by its mode: how many of each mode.
    fn serve(
        rates: &mut MinstrelHt,
        modes: &[Mode],
        (from, until): (u64, u64),
        luck: impl Fn(Mode) -> f64,
    ) -> Vec<u32> {
        let mut stream = Stream::new(1, "luck");
        let mut used = vec![0; modes.len()];
        for step in from..until {
            let now = Time(step * 2_000_000);
            let take = rates.take(0, now);
            let sent = if take.alone { 1 } else { 8 };
            let arrived = (0..sent).filter(|_| stream.uniform() < luck(modes[take.rate])).count() as u32;
            used[take.rate] += 1;
            rates.report_burst(take.rate, (sent, arrived), (arrived > 0, now));
        }
        used
    }

    /// From the slowest of 116 modes it finds the best in some seconds: a probe every 20 ms, and a mode below one that
    /// fails is believed only after several successes. A collapse takes it down within three chains of
    /// repetitions, each of 28 frames at most.
    #[test]
    fn it_finds_the_best_mode_and_leaves_it() {
        let (mut rates, modes) = new(Format::Vht, 80, 2);
        let good = |mode: Mode| if (mode.streams(), mode.mcs()) <= (1, 7) { 1.0 } else { 0.0 };
        serve(&mut rates, &modes, (0, 2_500), good);
        let used = serve(&mut rates, &modes, (2_500, 3_000), good);
        let most = (0..modes.len()).max_by_key(|&index| used[index]).unwrap();
        assert_eq!(modes[most], mode(Format::Vht, 1, 400, 80, 7));
        assert!(used[most] > 350, "{used:?}");
        // Of the rest most are probes, which fail: one in 20 ms.
        assert!(500 - used[most] < 100, "{used:?}");
        let bad = |mode: Mode| if (mode.width(), mode.mcs()) <= (20, 2) { 1.0 } else { 0.0 };
        serve(&mut rates, &modes, (3_000, 3_090), bad);
        assert_ne!(rates.best[0], rates.rates[most], "all MPDUs of three chains failed");
        serve(&mut rates, &modes, (3_090, 5_500), bad);
        let used = serve(&mut rates, &modes, (5_500, 6_000), bad);
        let most = (0..modes.len()).max_by_key(|&index| used[index]).unwrap();
        assert_eq!((modes[most].width(), modes[most].mcs()), (20, 2));
    }

    /// A frame without an answer goes down the chain, all but the first rate behind an RTS.
    #[test]
    fn the_chain_ends_at_the_most_reliable() {
        let (mut rates, modes) = new(Format::Ht, 20, 1);
        let luck = |mode: Mode| [1.0, 1.0, 1.0, 1.0, 0.9, 0.6, 0.3, 0.0][usize::from(mode.mcs())];
        serve(&mut rates, &modes, (0, 1_000), luck);
        let mut seen = Vec::new();
        loop {
            let take = rates.take(0, Time::ZERO);
            seen.push((take.rate, take.shielded));
            rates.report_burst(take.rate, (8, 0), (false, Time::ZERO));
            if (rates.step, rates.left) == (0, rates.chain[0].tries) {
                break;
            }
        }
        let last = seen[seen.len() - 1];
        assert_eq!(rates.known[rates.reliable].mode, Some(last.0 as u16));
        assert!(!seen[0].1 && last.1, "{seen:?}");
        let steps: u32 = rates.chain.iter().map(|step| step.tries).sum();
        assert_eq!(seen.len(), steps as usize);
    }
}
