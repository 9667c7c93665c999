//! A link whose queue decides when a packet leaves: it holds the packets and follows the clock.
//!
//! The device stands in place of the head of its link, asks the [`Waiting`] of its plan who is next whenever the
//! transmitter is free, and uses the link's transmitter and air.

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use super::arq::{admit, mark};
use super::{Crossing, Cx, Effect, Element, Parcel};
use crate::plan::Direction;
use crate::queue::{Found, KnownFlows, Served, Shed, Verdict, Waiting};
use crate::routing::DirectionId;

/// The queue of one direction and its transmitter.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    direction: DirectionId,
    waiting: Waiting,
    /// The transmitter is free from here on, and what it transmits until then.
    free_at: Time,
    in_service: u16,
    /// When the packet before that had left; none before the second.
    left: Option<Time>,
    /// Whether an agent wants to know from the link what waits here.
    watched: bool,
    shed: Vec<Shed>,
}

impl Queued {
    /// The queue of a direction called `name`.
    pub(crate) fn new(plan: &Direction, direction: DirectionId, name: &str, seed: u64) -> Queued {
        Queued {
            direction,
            waiting: Waiting::new(&plan.queue.discipline, name, seed),
            free_at: Time::ZERO,
            in_service: 0,
            left: None,
            watched: false,
            shed: Vec::new(),
        }
    }

    /// See [`Waiting::know_flows`].
    pub(crate) fn know_flows(&mut self, known: &KnownFlows) {
        self.waiting.know_flows(known);
    }

    /// An agent before it asks the link what waits here.
    pub(crate) fn watch(&mut self) {
        self.watched = true;
    }

    /// See [`Waiting::rename_flow`].
    pub(crate) fn rename_flow(&mut self, flow: u32, name: u32) {
        self.waiting.rename_flow(flow, name);
    }

    /// From when on nothing is here; the end of time while a packet waits.
    pub(super) fn empty_from(&self) -> Time {
        if self.waiting.packets() > 0 { Time::MAX } else { self.free_at }
    }

    /// Starts transmitting, if the transmitter is free and a packet waits.
    fn run(&mut self, cx: &mut Cx<'_>) {
        while self.free_at <= cx.now && self.waiting.packets() > 0 {
            // A link that is down and holds its packets keeps them in the queue.
            let now = cx.now;
            let ready = cx.link(self.direction).may_start(now);
            if ready > now {
                return cx.wake(ready);
            }
            let ready = self.waiting.ready();
            if ready > now {
                cx.wake(ready);
                return self.note_held(cx);
            }
            let served = self.waiting.pop(cx.now, &mut self.shed);
            lose_shed(&mut self.shed, self.direction, cx);
            if let Some(Served { parcel, marked }) = served {
                if marked {
                    mark(parcel, self.direction, cx);
                }
                self.transmit(parcel, cx);
            }
        }
        if self.waiting.packets() > 0 {
            cx.wake(self.free_at);
        }
        self.note_held(cx);
    }

    /// Tells the link what waits here, if that matters.
    #[inline]
    fn note_held(&self, cx: &mut Cx<'_>) {
        if self.watched {
            let found = self.found(cx.now);
            cx.link(self.direction).gate.note_held(&found);
        }
    }

    /// What an arrival at `now` finds.
    #[inline]
    fn found(&self, now: Time) -> Found {
        let in_service = (self.free_at > now).then_some(self.in_service.into());
        self.waiting.found(in_service, self.free_at)
    }

    /// When the last packet that has left by `now` did so.
    #[inline]
    fn last_left(&self, now: Time) -> Option<Time> {
        // Before the first transmission the transmitter has been free for ever.
        if self.free_at > now || self.in_service == 0 { self.left } else { Some(self.free_at) }
    }

    fn transmit(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let (now, window, direction) = (cx.now, cx.window, self.direction);
        let bytes = u32::from(parcel.bytes);
        let link = cx.link(direction);
        let departs = link.occupy(parcel.since, now, bytes, &window);
        self.left = self.last_left(now);
        self.free_at = departs;
        self.in_service = parcel.bytes;
        let at = link.arrival(departs);
        let Some(cause) = link.judge_attempt(now, departs, bytes) else {
            let crossing = Some(Crossing { direction, started: Some(now) });
            return cx.effects.push(Effect::Forward { parcel, at, crossing });
        };
        if cause == Cause::ChannelError && cx.packets.get(parcel.packet).is_forward() {
            cx.effects.push(Effect::Noise { hop: parcel.hop, at });
        }
        lose(parcel, (Some(now), departs), cause, direction, cx);
    }
}

/// A packet ends at the head of a link or in its air.
pub(super) fn lose(
    parcel: Parcel,
    (started, at): (Option<Time>, Time),
    cause: Cause,
    direction: DirectionId,
    cx: &mut Cx<'_>,
) {
    let window = cx.window;
    cx.link(direction).count_drop(cause, at, &window);
    cx.effects.push(Effect::Drop { parcel, cause, at, crossing: Some(Crossing { direction, started }) });
}

/// Packets that the queue has thrown away just now.
#[inline]
pub(super) fn lose_shed(shed: &mut Vec<Shed>, direction: DirectionId, cx: &mut Cx<'_>) {
    if !shed.is_empty() {
        lose_all(shed, direction, cx);
    }
}

#[cold]
fn lose_all(shed: &mut Vec<Shed>, direction: DirectionId, cx: &mut Cx<'_>) {
    let (now, window) = (cx.now, cx.window);
    for Shed { parcel, cause } in shed.drain(..) {
        // It has taken room until now.
        cx.link(direction).count_left(parcel.since, now, &window);
        lose(parcel, (None, now), cause, direction, cx);
    }
}

/// Lets a packet that its gate has admitted join those that wait; `false` if the discipline refuses it.
pub(super) fn join(
    waiting: &mut Waiting,
    parcel: Parcel,
    shed: &mut Vec<Shed>,
    direction: DirectionId,
    cx: &mut Cx<'_>,
) -> bool {
    let verdict = waiting.push(parcel, cx.packets, shed);
    lose_shed(shed, direction, cx);
    match verdict {
        Verdict::Admit => {}
        Verdict::Mark => mark(parcel, direction, cx),
        Verdict::Refuse(cause) => lose(parcel, (None, cx.now), cause, direction, cx),
    }
    !matches!(verdict, Verdict::Refuse(_))
}

/// The run is over: counts the time that packets have waited and keeps them for the ledger.
pub(super) fn keep_waiting(waiting: &mut Waiting, direction: DirectionId, cx: &mut Cx<'_>) {
    let window = cx.window;
    let mut shed = Vec::new();
    // The order of service does not matter any more, and neither does what would have been thrown away.
    while let Some(Served { parcel, .. }) = waiting.pop(Time::ZERO, &mut shed) {
        shed.push(Shed { parcel, cause: Cause::QueueOverflow });
    }
    for Shed { parcel, .. } in shed {
        cx.link(direction).count_unserved(parcel.since, &window);
        let crossing = Some(Crossing { direction, started: None });
        cx.effects.push(Effect::Keep { parcel, crossing });
    }
}

impl Element for Queued {
    fn receive(&mut self, parcel: Parcel, _port: u32, cx: &mut Cx<'_>) {
        // A departure at this very instant frees its place first.
        if self.free_at <= cx.now {
            self.run(cx);
        }
        if self.last_left(cx.now) == Some(cx.now) {
            let now = cx.now;
            cx.link(self.direction).gate.note_departure(now);
        }
        if admit(parcel, &self.found(cx.now), self.direction, cx)
            && join(&mut self.waiting, parcel, &mut self.shed, self.direction, cx)
        {
            self.run(cx);
            let (now, window, waiting) = (cx.now, cx.window, self.waiting.packets());
            cx.link(self.direction).gate.note_waiting(waiting, now, &window);
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.run(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        keep_waiting(&mut self.waiting, self.direction, cx);
    }
}
