//! A link by a recording of two loads: what a quiet link does to a short train of packets, and what it carries when it
//! is full (CellReplay: Sentosa, Chandrasekaran, Godfrey and Hassanieh, NSDI 2025).
//!
//! *What it does.* A recording of a full link alone flatters quiet flows: a base station gives to those who have much
//! to send, so short bursts get less than bulk data, and the first packet of one waits for a grant. Here a packet that
//! comes after a pause begins a light phase: it takes the base delay that the recording has for this time, and those
//! behind it take the arrival times of the rest of the train, one opportunity after the other. What finds none left has
//! to join the queue of the full link, behind the base delay, and so does everything while that queue holds a packet.
//!
//! *Reacts to* the times and sizes of packets. *Stands* in place of the head of its link, with the link's queue, air
//! and recorded opportunities for the heavy load.
//!
//! *As the authors' program has it:* a light phase begins when a packet would leave later than the last one did and
//! the timer (0 in the program unless it is told another); a packet that does not fit into what is left of an
//! opportunity waits for the next one, which is not so under the heavy load; what would overtake is held back and joins
//! the heavy load; what is released at the very instant at which the heavy queue becomes empty joins it, too. Both
//! recordings begin again at their last instant, each for itself.
//!
//! *Differs from it:* times are exact, where the program rounds to milliseconds; both recordings start with the run,
//! not with the first packet; packets may be larger than an opportunity, and take as many as they fill.
//!
//! *Validation:* by hand; and release by release beside the authors' program, compiled with a clock of its own
//! (`validation/two_loads.py`).

use std::collections::VecDeque;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};

use super::queued::{Queued, lose};
use super::{Crossing, Cx, Effect, Element, Parcel};
use crate::plan::Direction;
use crate::routing::DirectionId;

/// What a quiet link does to a train of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Train {
    /// When it was sent.
    pub at: Span,
    /// What its first packet took.
    pub delay: Span,
    /// When packets of it arrived, from the first on, never falling; at least one.
    pub offsets: Arc<[Span]>,
}

/// The light load of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LightLoad {
    /// Trains in the order of time, at least two; the last is only the end.
    pub trains: Arc<[Train]>,
    /// What a packet takes beyond that, in ns, by its size: of 100 B, of 200 B, and so on; none if that is not known.
    pub sizes: Arc<[i64]>,
    /// How much later than the last packet one must leave that begins a light phase.
    pub timer: Span,
}

impl LightLoad {
    /// Base delay and train for a phase that begins at `now`.
    fn train_at(&self, now: Time) -> (Span, usize) {
        let end = self.trains.len() - 1;
        let within = now.0 % self.trains[end].at.0.max(1);
        let known = self.trains[..end].partition_point(|train| train.at.0 <= within);
        let Some(index) = known.checked_sub(1) else { return (self.trains[0].delay, 0) };
        let (here, next) = (&self.trains[index], &self.trains[index + 1]);
        let rise = i128::from(next.delay.0) - i128::from(here.delay.0);
        let share = rise * i128::from(within - here.at.0) / i128::from(next.at.0 - here.at.0);
        (Span((i128::from(here.delay.0) + share) as u64), index)
    }

    /// The base delay, on the mean over time.
    pub fn mean_delay(&self) -> Span {
        let areas = self.trains.windows(2).map(|pair| {
            let length = u128::from(pair[1].at.0 - pair[0].at.0);
            (u128::from(pair[0].delay.0) + u128::from(pair[1].delay.0)) * length
        });
        let length: u128 = self.trains.windows(2).map(|pair| u128::from(pair[1].at.0 - pair[0].at.0)).sum();
        Span((areas.sum::<u128>() / (2 * length.max(1))) as u64)
    }

    /// What a packet of `bytes` takes beside, in ns.
    fn size_offset(&self, bytes: u32) -> i64 {
        let [first, .., last] = &*self.sizes else { return self.sizes.first().copied().unwrap_or(0) };
        let index = (bytes / 100) as usize;
        match index.checked_sub(1) {
            None => *first,
            Some(index) if index + 1 >= self.sizes.len() => *last,
            Some(index) => {
                let (here, next) = (self.sizes[index], self.sizes[index + 1]);
                here + (next - here) * i64::from(bytes % 100) / 100
            }
        }
    }
}

/// How far a light phase is.
#[derive(Clone, Debug)]
struct Phase {
    base: Span,
    began: Time,
    train: usize,
    /// The opportunity in use, and the bytes that it has left.
    next: usize,
    left: u32,
}

/// Says when packets are through the light load.
#[derive(Clone, Debug)]
struct Light {
    plan: Arc<LightLoad>,
    /// Bytes of an opportunity.
    room: u32,
    phase: Option<Phase>,
    /// When the last packet left, before sizes counted, and with them.
    released: Time,
    last: Time,
}

impl Light {
    fn new(plan: &Arc<LightLoad>, room: u32) -> Light {
        Light { plan: Arc::clone(plan), room, phase: None, released: Time::ZERO, last: Time::ZERO }
    }

    /// When a packet of `bytes` is through that comes at `now`, and whether the light load has room for it. Calls come
    /// in the order of time.
    fn release(&mut self, now: Time, bytes: u32) -> (Time, bool) {
        let (at, mut is_light) = self.by_train(now, bytes);
        self.released = at;
        let sized = Time(at.0.saturating_add_signed(self.plan.size_offset(bytes)));
        let at = if sized >= self.last { sized } else { at };
        if at < self.last {
            is_light = false;
        }
        self.last = self.last.max(at);
        (self.last, is_light)
    }

    fn by_train(&mut self, now: Time, bytes: u32) -> (Time, bool) {
        let Some(phase) =
            self.phase.as_mut().filter(|phase| now + phase.base <= self.released + self.plan.timer)
        else {
            let (base, train) = self.plan.train_at(now);
            let mut phase = Phase { base, began: now, train, next: 0, left: self.room };
            phase.take(bytes, self.room);
            self.phase = Some(phase);
            return (now + base, true);
        };
        let offsets = &self.plan.trains[phase.train].offsets;
        let elapsed = now.since(phase.began);
        let over = offsets.partition_point(|&offset| offset < elapsed);
        if over > phase.next {
            (phase.next, phase.left) = (over, self.room);
        }
        phase.take(bytes, self.room);
        match offsets.get(phase.next) {
            Some(&offset) => (now + phase.base + (offset - elapsed), true),
            None => (now + phase.base.max(offsets.last().copied().unwrap_or(Span::ZERO)), false),
        }
    }
}

impl Phase {
    /// A packet takes room, in the next opportunity where this one has too little; a large one fills several.
    fn take(&mut self, bytes: u32, room: u32) {
        if self.left < bytes && self.left < room {
            (self.next, self.left) = (self.next + 1, room);
        }
        let more = bytes.saturating_sub(self.left).div_ceil(room);
        self.next += more as usize;
        self.left = self.left + more * room - bytes;
    }
}

/// A packet under the light load.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    parcel: Parcel,
    release: Time,
    is_light: bool,
}

/// The head of a link with both loads.
#[derive(Clone, Debug)]
pub(crate) struct TwoLoads {
    direction: DirectionId,
    light: Light,
    /// In the order of their release.
    ahead: VecDeque<Ahead>,
    heavy: Queued,
    /// Packets in the heavy queue, and when each came to the link.
    came: Vec<(u32, Time)>,
    /// The last one has left it by then.
    empty_from: Time,
}

impl TwoLoads {
    /// The head of a direction called `name`; `light` is what its plan has.
    pub(crate) fn new(
        (plan, light): (&Direction, &Arc<LightLoad>),
        direction: DirectionId,
        name: &str,
        seed: u64,
    ) -> TwoLoads {
        let room = plan.opportunities.as_ref().map_or(u32::MAX, |recorded| recorded.bytes);
        TwoLoads {
            direction,
            light: Light::new(light, room),
            ahead: VecDeque::new(),
            heavy: Queued::new(plan, direction, name, seed),
            came: Vec::new(),
            empty_from: Time::ZERO,
        }
    }

    /// Its queue.
    pub(crate) fn queue(&mut self) -> &mut Queued {
        &mut self.heavy
    }

    /// Lets the heavy queue act. To it a packet has come when it left the light load.
    fn with_heavy(&mut self, cx: &mut Cx<'_>, act: impl FnOnce(&mut Queued, &mut Cx<'_>)) {
        let before = cx.effects.len();
        act(&mut self.heavy, cx);
        for effect in &mut cx.effects[before..] {
            let (Effect::Forward { parcel, .. } | Effect::Drop { parcel, .. } | Effect::Keep { parcel, .. }) =
                effect
            else {
                continue;
            };
            let place = self.came.iter().position(|&(packet, _)| packet == parcel.packet);
            if let Some(place) = place {
                parcel.since = self.came.remove(place).1;
            }
        }
        self.empty_from = self.heavy.empty_from();
    }

    /// Releases what is due.
    fn release(&mut self, cx: &mut Cx<'_>) {
        while let Some(&Ahead { parcel, release, is_light }) = self.ahead.front()
            && release <= cx.now
        {
            self.ahead.pop_front();
            let is_empty = self.came.is_empty() && (self.empty_from < cx.now || cx.now == Time::ZERO);
            // A link that is down and holds its packets keeps them in the queue.
            let now = cx.now;
            if is_light && is_empty && cx.link(self.direction).up_from(now) <= now {
                self.pass(parcel, cx);
                continue;
            }
            self.came.push((parcel.packet, parcel.since));
            self.with_heavy(cx, |heavy, cx| heavy.receive(Parcel { since: now, ..parcel }, 0, cx));
        }
        if let Some(next) = self.ahead.front() {
            cx.wake(next.release);
        }
    }

    /// A packet of the light load goes over the link at once.
    fn pass(&self, parcel: Parcel, cx: &mut Cx<'_>) {
        let (now, window, direction) = (cx.now, cx.window, self.direction);
        let bytes = u32::from(parcel.bytes);
        let link = cx.link(direction);
        link.occupy_until(now, (now, now), bytes, &window);
        let at = link.arrival(now);
        let started = Some(now);
        match link.judge_attempt(now, now, bytes) {
            None => {
                let crossing = Some(Crossing { direction, started });
                cx.effects.push(Effect::Forward { parcel, at, crossing });
            }
            Some(cause) => lose(parcel, (started, now), cause, direction, cx),
        }
    }
}

impl Element for TwoLoads {
    fn receive(&mut self, parcel: Parcel, _port: u32, cx: &mut Cx<'_>) {
        let (release, is_light) = self.light.release(cx.now, parcel.bytes.into());
        self.ahead.push_back(Ahead { parcel, release, is_light });
        self.on_timer(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.release(cx);
        self.with_heavy(cx, Element::on_timer);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.with_heavy(cx, Element::close);
        for Ahead { parcel, .. } in self.ahead.drain(..) {
            let crossing = Some(Crossing { direction: self.direction, started: None });
            cx.effects.push(Effect::Keep { parcel, crossing });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn light(timer: u64, sizes: &[i64]) -> Light {
        let millis = Span::from_millis;
        let train = |at, offsets: &[u64]| Train {
            at: millis(at),
            delay: millis(20),
            offsets: offsets.iter().copied().map(millis).collect(),
        };
        let trains = [train(0, &[0, 2, 4, 6]), train(100, &[0, 1, 2]), train(200, &[0])];
        let sizes = sizes.iter().map(|&millis| millis * 1_000_000).collect();
        Light::new(&Arc::new(LightLoad { trains: trains.into(), sizes, timer: millis(timer) }), 1400)
    }

    /// Times of arrival in ms and bytes.
    const PACKETS: [(u64, u32); 15] = [
        (0, 1400),
        (0, 700),
        (0, 700),
        (1, 1400),
        (1, 1400),
        (1, 1400),
        (4, 100),
        (40, 1400),
        (48, 1400),
        (49, 1400),
        (130, 1000),
        (130, 500),
        (130, 900),
        (131, 1400),
        (140, 100),
    ];

    fn released(mut light: Light) -> (Vec<u64>, Vec<usize>) {
        let of = |(at, bytes)| light.release(Time::ZERO + Span::from_millis(at), bytes);
        let found: Vec<_> = PACKETS.into_iter().map(of).collect();
        let heavy = found.iter().enumerate().filter(|(_, (_, is_light))| !is_light).map(|(index, _)| index);
        (found.iter().map(|(at, _)| at.0 / 1_000_000).collect(), heavy.collect())
    }

    /// What the authors' program says of these packets: the train of 0 is used up by the fifth, those of 40, 48, 49 and
    /// 130 ms begin phases of their own, and 500 B do not fit behind 1000.
    #[test]
    fn releases_of_the_authors_program() {
        let times = vec![20, 22, 22, 24, 26, 26, 26, 60, 68, 69, 150, 151, 151, 152, 160];
        assert_eq!(released(light(0, &[])), (times.clone(), vec![5, 6]));
        // With a timer, phases go on, and their trains are over.
        assert_eq!(released(light(10, &[])), (times, vec![5, 6, 8, 9, 14]));
        let times = vec![23, 25, 25, 27, 29, 29, 29, 63, 71, 72, 153, 154, 154, 155, 159];
        assert_eq!(released(light(0, &[-1, 1, 3])), (times, vec![5, 6]));
    }

    /// Between two trains the base delay is on the line between them, and behind the last it begins again.
    #[test]
    fn base_delays_between_trains() {
        let mut plan = (*light(0, &[]).plan).clone();
        let delays = [20, 30, 0].map(Span::from_millis);
        let with = |(train, delay): (&Train, Span)| Train { delay, ..train.clone() };
        plan.trains = plan.trains.iter().zip(delays).map(with).collect();
        let found = [0, 25, 100, 150, 199, 200, 425].map(|at| {
            let (base, train) = plan.train_at(Time::ZERO + Span::from_millis(at));
            (base.0 / 100_000, train)
        });
        assert_eq!(found, [(200, 0), (225, 0), (300, 1), (150, 1), (3, 1), (200, 0), (225, 0)]);
        // 25 ms in the first half, 15 in the second.
        assert_eq!(plan.mean_delay(), Span::from_millis(20));
    }

    #[test]
    fn what_sizes_take() {
        let plan = LightLoad { sizes: [100, 200, 600].into(), ..(*light(0, &[]).plan).clone() };
        let found = [40, 100, 150, 299, 300, 1500].map(|bytes| plan.size_offset(bytes));
        assert_eq!(found, [100, 100, 150, 596, 600, 600]);
    }

    /// A packet larger than an opportunity fills several: 3000 B need three of 1400 B.
    #[test]
    fn large_packets_take_several() {
        let mut all = light(0, &[]);
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        assert_eq!(all.release(at(0), 3000), (at(20), true));
        assert_eq!(all.release(at(0), 1200), (at(24), true), "the third has 1200 B left");
        assert_eq!(all.release(at(0), 1), (at(26), true));
    }
}
