//! A bearer: the queue of one user in one direction, whose packets RLC puts into transport blocks and HARQ repairs.

use std::collections::VecDeque;

use lasthop_core::packet::Cause;
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::drx::Sleeper;
use super::handover::{Handovers, Journey};
use super::harq::{Block, Outcome};
use super::plan::{CellularPlan, CqiTrack, Requests};
use super::rlc::{Carried, Leaving, Rlc};
use crate::device::arq::mark;
use crate::device::queued::{lose, lose_shed};
use crate::device::{Crossing, Cx, Effect, Parcel};
use crate::measure::Window;
use crate::plan::Direction;
use crate::queue::{Found, Served, Shed, Waiting};
use crate::routing::DirectionId;

/// A packet of which a part has been sent.
#[derive(Clone, Copy, Debug)]
struct Begun {
    bytes: u16,
    /// Bytes that are left, headers included.
    left: u64,
}

/// Where in time a transport block stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// From when on it is entered as sent.
    pub(super) start: Time,
    /// Bits that the whole TTI would carry.
    pub(super) full: u64,
}

/// A transport block that has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Resource blocks that it took.
    pub(super) resource_blocks: u32,
    /// What is decoded of it as the TTI ends.
    pub(super) decoded: Option<Carried>,
}

/// What a bearer counted within the measurement window.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    blocks: u64,
    resource_blocks: u64,
    requests: u64,
    harq_retransmissions: u64,
    harq_failures: u64,
    rlc_retransmissions: u64,
}

/// One user's queue in one direction.
#[derive(Clone, Debug)]
pub(super) struct Bearer {
    pub(super) direction: DirectionId,
    pub(super) waiting: Waiting,
    pub(super) shed: Vec<Shed>,
    pub(super) track: CqiTrack,
    /// The CQI by which the present TTI is served.
    pub(super) cqi: u8,
    /// It may send from then on.
    pub(super) granted: Time,
    /// When its user listens, if it sleeps; downwards only.
    pub(super) sleeper: Option<Sleeper>,
    /// Its handovers, if there are any, and until when the last one interrupts it.
    journey: Option<Journey>,
    away_until: Time,
    /// How it asks, if it has to, and by how much its opportunities are shifted.
    requests: Option<(Requests, Span)>,
    begun: Option<Begun>,
    /// Packets that are sent anew after a handover, before what waits, and when each was begun first. No limit holds
    /// for them: RLC had taken them out of the queue.
    repeats: VecDeque<(Parcel, Time)>,
    rlc: Rlc,
    /// Blocks that are to be sent again, by the number of their TTI modulo the number of processes.
    blocks: Vec<Option<Block>>,
    /// How many there are.
    outstanding: u32,
    luck: Stream,
    stats: Stats,
}

impl Bearer {
    pub(super) fn new(
        side: &Direction,
        (direction, name): (DirectionId, &str),
        (plan, track): (&CellularPlan, CqiTrack),
        seed: u64,
    ) -> Bearer {
        Bearer {
            direction,
            waiting: Waiting::new(&side.queue.discipline, name, seed),
            shed: Vec::new(),
            track,
            cqi: 0,
            granted: Time::ZERO,
            sleeper: None,
            journey: None,
            away_until: Time::ZERO,
            requests: None,
            begun: None,
            repeats: VecDeque::new(),
            rlc: Rlc::new(plan.rlc),
            blocks: vec![None; plan.harq.ttis as usize],
            outstanding: 0,
            luck: Stream::new(seed, &format!("transport blocks of {name}")),
            stats: Stats::default(),
        }
    }

    /// It has to ask for room.
    pub(super) fn ask(&mut self, requests: Requests, shift: Span) {
        self.requests = Some((requests, shift));
    }

    /// It goes from cell to cell.
    pub(super) fn travel(&mut self, plan: &Handovers) {
        self.journey = Some(Journey::new(plan));
    }

    /// The first TTI from the one at `tti` on in which its user listens.
    pub(super) fn listens_from(&self, tti: Time) -> Time {
        self.sleeper.as_ref().map_or(tti, |sleeper| sleeper.listens_from(tti))
    }

    /// Something has come into the empty queue: it asks at the next opportunity. When that is, and when room is
    /// granted; `None` if it need not ask.
    pub(super) fn request(&mut self, now: Time, window: &Window) -> Option<(Time, Time)> {
        let (requests, shift) = self.requests?;
        let now = now.max(self.away_until);
        let since = (now + requests.interval).0 - shift.0;
        let opportunity = Time(now.0 + requests.interval.0 - since % requests.interval.0);
        self.granted = opportunity + requests.delay;
        self.stats.requests += u64::from(window.contains(now));
        Some((opportunity, self.granted))
    }

    /// Bytes that are to be sent, `header` with each packet; without those of blocks that are sent again as they are.
    pub(super) fn backlog(&self, header: u32) -> u64 {
        if self.rlc.is_stalled() {
            return self.rlc.backlog();
        }
        let begun = self.begun.map_or(0, |begun| begun.left);
        let repeats: u64 = self.repeats.iter().map(|(parcel, _)| u64::from(parcel.bytes)).sum();
        let packets = self.repeats.len() as u64 + self.waiting.packets();
        begun + repeats + self.waiting.bytes() + packets * u64::from(header) + self.rlc.backlog()
    }

    /// What an arrival finds.
    pub(super) fn found(&self) -> Found {
        self.waiting.found(self.begun.map(|begun| begun.bytes.into()), Time::ZERO)
    }

    /// Whether nothing is left of packets that have been begun.
    pub(super) fn has_nothing_begun(&self) -> bool {
        self.begun.is_none() && self.repeats.is_empty()
    }

    /// Whether there is nothing to be sent for the first time.
    fn is_empty(&self) -> bool {
        self.has_nothing_begun() && self.waiting.packets() == 0
    }

    /// Sends a transport block of `bytes` on `taken` resource blocks; `None` if there is nothing to put into it.
    pub(super) fn send(
        &mut self,
        bytes: u64,
        place: Place,
        (plan, taken): (&CellularPlan, u32),
        cx: &mut Cx<'_>,
    ) -> Option<Sent> {
        let (now, window) = (cx.now, cx.window);
        let room = bytes - u64::from(plan.block_header);
        let empties = self.is_empty();
        let carried = if let Some(again) = self.rlc.send_again(room as u32, empties, now) {
            self.stats.rlc_retransmissions += u64::from(window.contains(now));
            again
        } else {
            self.fill(room, place, plan, cx)?
        };
        Some(self.transmit(Block::new(carried, taken, self.cqi), plan, cx))
    }

    /// Sends the block again whose turn this TTI is, if there is one.
    pub(super) fn send_again(&mut self, plan: &CellularPlan, cx: &Cx<'_>) -> Option<Sent> {
        if self.outstanding == 0 {
            return None;
        }
        let block = self.blocks[process(cx.now, plan)].take()?;
        self.outstanding -= 1;
        self.stats.harq_retransmissions += u64::from(cx.window.contains(cx.now));
        Some(self.transmit(block, plan, cx))
    }

    /// The first TTI after the one at `now` in which a block is sent again.
    pub(super) fn next_again(&self, now: Time, plan: &CellularPlan) -> Time {
        if self.outstanding == 0 {
            return Time::MAX;
        }
        let begins = |after: u64| Time(now.0 - now.0 % plan.tti.0 + after * plan.tti.0);
        let mut ttis = 1..=u64::from(plan.harq.ttis);
        ttis.find(|&after| self.blocks[process(begins(after), plan)].is_some()).map_or(Time::MAX, begins)
    }

    /// One transmission of a block.
    fn transmit(&mut self, mut block: Block, plan: &CellularPlan, cx: &Cx<'_>) -> Sent {
        let (now, counts) = (cx.now, u64::from(cx.window.contains(cx.now)));
        let mut sent = Sent { resource_blocks: block.resource_blocks, decoded: None };
        self.stats.blocks += counts;
        self.stats.resource_blocks += counts * u64::from(block.resource_blocks);
        let luck = &mut self.luck;
        match block.transmit(self.track.at(now), &plan.harq, || luck.uniform()) {
            Outcome::Decoded => sent.decoded = Some(block.carried),
            Outcome::Again => {
                self.blocks[process(now, plan)] = Some(block);
                self.outstanding += 1;
            }
            Outcome::GivenUp => {
                self.stats.harq_failures += counts;
                self.rlc.give_up(block.carried);
            }
        }
        sent
    }

    /// RLC has what was decoded of a TTI that ended at `end`.
    pub(super) fn take(&mut self, carried: Carried, end: Time, cx: &mut Cx<'_>) {
        self.expire(Time(end.0 - 1), cx);
        self.rlc.receive(carried, end);
        self.hand_on(cx);
    }

    /// When RLC does something of its own.
    pub(super) fn timer(&self) -> Time {
        self.rlc.timer()
    }

    /// When the next handover begins.
    pub(super) fn leaves_at(&self) -> Time {
        self.journey.as_ref().map_or(Time::MAX, Journey::next)
    }

    /// A handover begins now, or should have while there was nothing to send. `upwards`: the packets are the user's
    /// own, which takes them along.
    ///
    /// In the acknowledged mode PDCP sends all again that had not come in order (TS 36.323, section 5.2), before what
    /// waits; in the unacknowledged mode a packet that has not come as a whole is lost, and one that waits is not.
    /// Where the old cell hands nothing on, both are lost.
    pub(super) fn hand_over(&mut self, upwards: bool, cx: &mut Cx<'_>) {
        let (now, direction) = (cx.now, self.direction);
        let Some(journey) = &mut self.journey else { return };
        let keeps = upwards || journey.forwards();
        let Some(end) = journey.begin(now) else { return };
        (self.away_until, self.granted) = (end, self.granted.max(end));
        // Random access is something new: the user listens afterwards.
        if let Some(sleeper) = &mut self.sleeper {
            sleeper.note_activity(Time(end.0 - 1));
        }
        self.blocks.fill(None);
        self.outstanding = 0;
        self.begun = None;
        let repeats = keeps && self.rlc.repairs();
        let mut again = VecDeque::new();
        for Leaving { parcel, started, at, lost } in self.rlc.start_anew(now) {
            if repeats {
                again.push_back((parcel, started));
            } else if lost {
                lose(parcel, (Some(started), at), Cause::RouteChanged, direction, cx);
            } else {
                let at = cx.link(direction).arrival(at);
                let crossing = Some(Crossing { direction, started: Some(started) });
                cx.effects.push(Effect::Forward { parcel, at, crossing });
            }
        }
        let unsent = std::mem::take(&mut self.repeats);
        if keeps {
            again.extend(unsent);
            self.repeats = again;
        } else {
            for (parcel, started) in unsent {
                lose(parcel, (Some(started), now), Cause::RouteChanged, direction, cx);
            }
            while let Some(Served { parcel, .. }) = self.waiting.pop(now, &mut self.shed) {
                self.shed.push(Shed { parcel, cause: Cause::RouteChanged });
            }
            lose_shed(&mut self.shed, direction, cx);
        }
        let found = self.found();
        cx.link(direction).gate.note_held(&found);
    }

    /// What RLC does up to this time.
    pub(super) fn expire(&mut self, until: Time, cx: &mut Cx<'_>) {
        if self.rlc.timer() <= until {
            self.rlc.expire(until, !self.is_empty());
            self.hand_on(cx);
        }
    }

    /// Packets that are complete go on; those that never will be are lost.
    fn hand_on(&mut self, cx: &mut Cx<'_>) {
        let direction = self.direction;
        for Leaving { parcel, started, at, lost } in self.rlc.leaving() {
            if lost {
                lose(parcel, (Some(started), at), Cause::LinkGaveUp, direction, cx);
            } else {
                let at = cx.link(direction).arrival(at);
                let crossing = Some(Crossing { direction, started: Some(started) });
                cx.effects.push(Effect::Forward { parcel, at, crossing });
            }
        }
    }

    /// Fills a new PDU with packets; `None` if the queue has thrown all of them away.
    fn fill(&mut self, mut room: u64, place: Place, plan: &CellularPlan, cx: &mut Cx<'_>) -> Option<Carried> {
        let (now, direction, size) = (cx.now, self.direction, room);
        let airtime = |bytes: u64| {
            Span((u128::from(bytes) * 8 * u128::from(plan.tti.0) / u128::from(place.full)) as u64)
        };
        let mut start = place.start;
        while room > 0 {
            let rest = self.begun.take();
            let Some(mut begun) = rest.or_else(|| self.begin(start, airtime, plan.packet_header, cx)) else {
                break;
            };
            let part = begun.left.min(room);
            (begun.left, room) = (begun.left - part, room - part);
            start += airtime(part);
            if begun.left > 0 {
                self.begun = Some(begun);
                break;
            }
            self.rlc.finish();
        }
        let found = self.found();
        cx.link(direction).gate.note_held(&found);
        let empties = self.is_empty();
        (size > room).then(|| self.rlc.send((size - room) as u32, empties, now))
    }

    /// The next packet leaves the queue.
    fn begin(
        &mut self,
        started: Time,
        airtime: impl Fn(u64) -> Span,
        header: u32,
        cx: &mut Cx<'_>,
    ) -> Option<Begun> {
        if let Some((parcel, first_started)) = self.repeats.pop_front() {
            self.rlc.begin(parcel, first_started);
            return Some(Begun { bytes: parcel.bytes, left: u64::from(parcel.bytes) + u64::from(header) });
        }
        let served = self.waiting.pop(cx.now, &mut self.shed);
        if served.is_some() {
            let now = cx.now;
            cx.link(self.direction).gate.note_departure(now);
        }
        lose_shed(&mut self.shed, self.direction, cx);
        let Served { parcel, marked } = served?;
        if marked {
            mark(parcel, self.direction, cx);
        }
        let left = u64::from(parcel.bytes) + u64::from(header);
        let (window, takes) = (cx.window, started + airtime(left));
        cx.link(self.direction).occupy_until(parcel.since, (started, takes), parcel.bytes.into(), &window);
        self.rlc.begin(parcel, started);
        Some(Begun { bytes: parcel.bytes, left })
    }

    /// The run is over.
    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        let direction = self.direction;
        for (parcel, started) in self.repeats.drain(..) {
            let crossing = Some(Crossing { direction, started: Some(started) });
            cx.effects.push(Effect::Keep { parcel, crossing });
        }
        for Leaving { parcel, started, lost, .. } in self.rlc.close() {
            if lost {
                lose(parcel, (Some(started), cx.now), Cause::LinkGaveUp, direction, cx);
            } else {
                let crossing = Some(Crossing { direction, started: Some(started) });
                cx.effects.push(Effect::Keep { parcel, crossing });
            }
        }
    }

    /// What it counted.
    pub(super) fn counts(&self, window: &Window) -> [(DirectionId, &'static str, u64); 7] {
        let stats = self.stats;
        [
            ("cellular_blocks", stats.blocks),
            ("cellular_resource_blocks", stats.resource_blocks),
            ("cellular_requests", stats.requests),
            ("cellular_harq_retransmissions", stats.harq_retransmissions),
            ("cellular_harq_failures", stats.harq_failures),
            ("cellular_rlc_retransmissions", stats.rlc_retransmissions),
            ("cellular_handovers", self.journey.as_ref().map_or(0, |journey| journey.within(window))),
        ]
        .map(|(name, count)| (self.direction, name, count))
    }
}

/// The process of the TTI at `at`.
fn process(at: Time, plan: &CellularPlan) -> usize {
    (at.0 / plan.tti.0 % u64::from(plan.harq.ttis)) as usize
}
