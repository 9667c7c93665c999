//! Links of the channel that come and go, because a host goes from one access point to another.
//!
//! `crates/lasthop-net/src/roaming.rs` knows before the run when hosts leave and arrive. Here their links close and
//! open: over a closed link nothing is sent and nothing is read. What waits for it is lost, waits on, or turns: it is
//! taken back to where its path came to this station, and goes on by the path that is in force there.

use std::collections::VecDeque;

use lasthop_core::packet::{Cause, NONE};
use lasthop_core::time::{Span, Time};

use super::edca::CATEGORIES;
use super::frame::FrameKind;
use super::reorder::Recipient;
use super::station::{Answer, Awaited, EVERYBODY, NEVER};
use super::{Medium, RateChoice, side_of};
use crate::device::{Crossing, Cx, Effect, Parcel};
use crate::plan::LinkPlan;
use crate::queue::QueueLimit;
use crate::roaming::{Journey, OldQueue};

/// Whether a link is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is.
    Open,
    /// The host has left, and is not yet elsewhere: what waits, waits on.
    Closed,
    /// The host is elsewhere.
    Left,
}

/// What a port stores about its host's absence.
#[derive(Clone, Debug)]
pub(super) struct Absence {
    pub(super) presence: Presence,
    old_queue: OldQueue,
    /// What waits for it to be over, with the start of its first transmission.
    held: VecDeque<(Parcel, Option<Time>)>,
    bytes: u64,
    limit: QueueLimit,
}

impl Absence {
    /// Of a link that never goes away.
    pub(super) fn never() -> Absence {
        Absence {
            presence: Presence::Open,
            old_queue: OldQueue::Drop,
            held: VecDeque::new(),
            bytes: 0,
            limit: QueueLimit::Unlimited,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.presence == Presence::Open
    }

    /// Whether there is room for one more.
    fn takes(&self, parcel: Parcel) -> bool {
        match self.limit {
            QueueLimit::Packets(most) => self.held.len() < most as usize,
            QueueLimit::Bytes(most) => self.bytes + u64::from(parcel.bytes) <= most,
            QueueLimit::Unlimited => true,
        }
    }

    /// Takes everything that waits.
    pub(super) fn take(&mut self) -> VecDeque<(Parcel, Option<Time>)> {
        self.bytes = 0;
        std::mem::take(&mut self.held)
    }
}

/// When what becomes of a port.
pub(super) type Change = (Time, u16, Presence);

impl Medium {
    /// Hosts will make these journeys, on this channel or elsewhere.
    pub(crate) fn roam(&mut self, journeys: &[Journey], links: &[LinkPlan]) {
        for journey in journeys {
            for index in 0..self.ports.len() {
                let port = &mut self.ports[index];
                let link = port.direction as usize / 2;
                if !journey.links.contains(&link) {
                    continue;
                }
                port.fresh.get_or_insert_with(|| Box::new(port.rate.clone()));
                let is_own = self.plan.stations[usize::from(port.from)].node == journey.host;
                // The host's own packets go with it.
                port.absence.old_queue = if is_own { OldQueue::Forward } else { journey.old_queue };
                port.absence.limit = side_of(links, port.direction).queue.limit;
                if journey.first != link {
                    port.absence.presence = Presence::Left;
                }
                for change in &journey.moves {
                    if change.from == link {
                        self.changes.push((change.leaves, index as u16, Presence::Closed));
                        self.changes.push((change.joins, index as u16, Presence::Left));
                    }
                    if change.to == link {
                        self.changes.push((change.joins, index as u16, Presence::Open));
                    }
                }
            }
        }
        // Of one instant the last comes first: it is taken from the end. What leaves goes before what arrives.
        self.changes.sort_by_key(|&(at, port, presence)| (at, presence == Presence::Open, port));
        self.changes.reverse();
        self.roams |= !self.changes.is_empty() || self.ports.iter().any(|port| !port.absence.is_open());
        self.hear_from_open_links();
        self.note_next_change();
    }

    /// When a link comes or goes next.
    fn note_next_change(&mut self) {
        let slot = 2 * self.stations.len() + 1;
        self.agenda.set(slot, self.changes.last().map_or(NEVER, |&(at, ..)| at));
    }

    /// What a station cannot tell apart is counted at the first of its links that is there.
    fn hear_from_open_links(&mut self) {
        for port in (0..self.ports.len()).rev().filter(|&port| self.ports[port].absence.is_open()) {
            self.stations[usize::from(self.ports[port].to)].inbound = port as u16;
        }
    }

    /// A link comes or goes.
    pub(super) fn change_link(&mut self, cx: &mut Cx<'_>) {
        let Some((_, number, presence)) = self.changes.pop() else { return };
        self.note_next_change();
        let port = &mut self.ports[usize::from(number)];
        port.absence.presence = presence;
        let index = usize::from(port.from);
        let mut waiting = VecDeque::new();
        if presence == Presence::Open
            || presence == Presence::Left && port.absence.old_queue == OldQueue::Forward
        {
            waiting = port.absence.take();
        }
        match presence {
            Presence::Open => {
                self.hear_from_open_links();
                let waiting = waiting.into_iter().map(|(parcel, _)| parcel);
                if self.stations[index].exchange.is_some() {
                    let port = &mut self.ports[usize::from(number)];
                    if let Some(fresh) = &port.fresh {
                        // Who comes back is a stranger to the choice of modes.
                        port.rate = RateChoice::clone(fresh);
                    }
                    waiting.for_each(|parcel| self.restage(index, number, parcel, cx.now));
                } else {
                    self.stations[index].returned.extend(waiting);
                }
            }
            Presence::Closed if self.stations[index].exchange.is_some() => {
                if !self.is_exchanging(index, number) {
                    self.forget_agreements(index, number, cx);
                }
            }
            Presence::Closed => self.let_go(index, number, cx),
            Presence::Left => {
                for (parcel, started) in waiting {
                    self.turn(number, parcel, started, cx);
                }
            }
        }
        self.fetch(index, cx);
        let station = &mut self.stations[index];
        station.reschedule(&self.rules[station.mac], cx.now);
        self.note_due(index);
    }

    /// Sets the present MSDU aside if it was to go over this port, unless it is on the air: then its failure is waited
    /// for.
    fn let_go(&mut self, index: usize, number: u16, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        let rests = !station.sending
            && station.awaited == Awaited::Nothing
            && (station.answer_at == NEVER || station.answer != Answer::Data);
        let Some(msdu) = station.current.filter(|msdu| rests && msdu.port == number) else { return };
        self.complete(index, cx.now);
        if let Some(parcel) = msdu.parcel.filter(|_| !msdu.delivered) {
            self.set_aside(number, parcel, (msdu.attempts > 0).then_some(msdu.first_start), cx);
        }
    }

    /// Whether an exchange of aggregates over this port is under way: its end is waited for.
    fn is_exchanging(&self, index: usize, number: u16) -> bool {
        let station = &self.stations[index];
        let own_cts =
            self.air[index].is_some_and(|frame| (frame.kind, frame.to) == (FrameKind::Cts, EVERYBODY));
        let prepared = station.answer_at != NEVER && station.answer == Answer::Data;
        let busy = own_cts || prepared || station.awaited != Awaited::Nothing;
        busy && station.exchange.as_ref().is_some_and(|exchange| exchange.burst.port == number)
    }

    /// The link of a port is gone, and with it both ends of its BlockAck agreements: what waits or is to be sent again
    /// is set aside, and what waits in the reorder buffer for earlier packets is lost.
    pub(super) fn forget_agreements(&mut self, index: usize, number: u16, cx: &mut Cx<'_>) {
        for category in 0..CATEGORIES {
            let agreement = &mut self.agreements[usize::from(number)][category];
            let staged = agreement.originator.staged.len();
            let mut held = agreement.originator.forget();
            let arrived = agreement.recipient.take();
            while let Some(served) =
                agreement.queue.as_mut().and_then(|queue| queue.pop(cx.now, &mut self.shed))
            {
                held.push((served.parcel, None));
            }
            agreement.recipient = Recipient::new(agreement.recipient.window());
            let charged = std::mem::replace(&mut agreement.charged, Span::ZERO);
            if let Some(exchange) = &mut self.stations[index].exchange {
                exchange.charged = Span(exchange.charged.0 - charged.0);
                let function = &mut exchange.functions.list[category];
                function.staged = function.staged.saturating_sub(staged);
            }
            self.lose_shed(cx);
            for arrived in arrived {
                self.lose_left(number, arrived.parcel, (Some(arrived.started), Cause::RouteChanged), cx);
            }
            for (parcel, started) in held {
                self.set_aside(number, parcel, started, cx);
            }
        }
    }

    /// The host is back: a packet that was kept for it goes to the driver.
    fn restage(&mut self, index: usize, number: u16, parcel: Parcel, now: Time) {
        let category = self.category_of(index, parcel.flow);
        let is_charged = self.driver_of(index).is_some_and(|driver| driver.limits.is_some());
        let originator = &mut self.agreements[usize::from(number)][category].originator;
        originator.staged.push_back(parcel);
        if is_charged {
            originator.charges.push_back(0);
        }
        if let Some(exchange) = &mut self.stations[index].exchange {
            exchange.functions.list[category].staged += 1;
        }
        self.list(index, (number, category), now);
    }

    /// Does with a packet what its scenario wants done with packets that a host has left behind.
    #[cold]
    pub(super) fn set_aside(&mut self, number: u16, parcel: Parcel, started: Option<Time>, cx: &mut Cx<'_>) {
        let absence = &mut self.ports[usize::from(number)].absence;
        match absence.old_queue {
            OldQueue::Drop => self.lose_left(number, parcel, (started, Cause::RouteChanged), cx),
            OldQueue::Forward if absence.presence == Presence::Left => {
                self.turn(number, parcel, started, cx);
            }
            _ if absence.takes(parcel) => {
                absence.bytes += u64::from(parcel.bytes);
                absence.held.push_back((parcel, started));
            }
            _ => self.lose_left(number, parcel, (started, Cause::QueueOverflow), cx),
        }
    }

    fn lose_left(
        &mut self,
        number: u16,
        parcel: Parcel,
        (started, cause): (Option<Time>, Cause),
        cx: &mut Cx<'_>,
    ) {
        let direction = self.ports[usize::from(number)].direction;
        let (now, window) = (cx.now, cx.window);
        let link = cx.link(direction);
        link.count_drop(cause, now, &window);
        if started.is_none() {
            link.count_left(parcel.since, now, &window);
        }
        let crossing = Some(Crossing { direction, started });
        cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
    }

    /// Sends a packet back to where its path reached this station, if paths change there.
    fn turn(&mut self, number: u16, parcel: Parcel, started: Option<Time>, cx: &mut Cx<'_>) {
        let hop = self.turns[parcel.hop as usize];
        if hop == NONE {
            return self.lose_left(number, parcel, (started, Cause::RouteChanged), cx);
        }
        let direction = self.ports[usize::from(number)].direction;
        let (now, window) = (cx.now, cx.window);
        if started.is_none() {
            cx.link(direction).count_left(parcel.since, now, &window);
        }
        cx.effects.push(Effect::Divert { parcel, hop, at: now });
    }
}
