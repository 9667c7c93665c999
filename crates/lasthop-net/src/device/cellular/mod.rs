//! A cellular cell: one base station, its users, and a bearer for each user and direction, served TTI by TTI.
//!
//! *What it does.* Packets wait in the queue of their bearer. In each transmission time interval the scheduler gives
//! the resource blocks of the cell to the users that have something to send, as many as each needs; what a user gets
//! is one transport block, whose size follows from its CQI. RLC fills it: packets are joined, and cut where the block
//! ends; the rest goes into the next one. HARQ sends a block again that could not be decoded; RLC keeps packets in
//! order and repairs, or gives up, what HARQ could not deliver. A packet leaves RLC at the end of a TTI, or when a
//! timer of RLC ends, and arrives after the delay of the link.
//!
//! *Reports.* The scheduler knows the channel by the CQI alone. It is measured at intervals and used after a delay.
//!
//! *Uplink.* A user whose queue was empty asks at its next opportunity and may send when the grant has come. While it
//! has something to send, the base station knows how much.
//!
//! *Sleep.* A user may sleep between its on-durations (`drx.rs`); then the downlink sends it nothing new.
//!
//! *Stands* in place of the heads of its links: one device for each direction of a cell. A TTI without anything to send
//! costs no event.
//!
//! *Differs from its standard:* the size of a block is `floor(resource blocks x symbols x efficiency)`, not that of the
//! tables of TS 36.213, section 7.1.7.2.1; the allocation is by single resource blocks and the CQI is one for all of
//! them, so the scheduler has no choice of frequencies. A buffer status report takes neither time nor room, and neither
//! does a STATUS of RLC, which is never lost. A block carries one PDU of RLC or a part of one.
//!
//! *Validation:* sizes by hand; a saturated user against size by TTI, two users against their shares; delays of HARQ
//! against their sum, losses and repairs of RLC by hand; waits for an on-duration against their mean; the ledger over
//! random cells (`tests/cellular.rs`); delays, throughput and shares beside ns-3
//! (`docs/reference/validation-cellular.md`).
//!
//! *Handover.* A user may go to another cell, which it finds as it left the old one (`handover.rs`).
//!
//! *Limitations:* what RLC gives up is lost without a new connection.
//!
//! *References:* TS 36.213, table 7.2.3-1; TS 36.321, section 5.4; TS 36.322.

mod bearer;
mod channel;
mod drx;
mod handover;
mod harq;
pub mod plan;
mod rlc;
mod scheduler;

use std::sync::Arc;

use lasthop_core::time::{Span, Time};

use super::queued::{join, keep_waiting};
use super::{Cx, DeviceId, Effect, Element, Handed, Parcel, arq};
use crate::measure::Window;
use crate::plan::LinkPlan;
use crate::queue::KnownFlows;
use crate::routing::DirectionId;
use bearer::{Bearer, Place};
use drx::Sleeper;
use plan::CellularPlan;
use rlc::Carried;
use scheduler::{Candidate, Scheduler};

/// What the uplink of a user tells its downlink, which listens then.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard {
    /// Something new is sent in the present TTI.
    Activity,
    /// It asks for room at `at`, and may send at `granted`.
    Request { at: Time, granted: Time },
}

/// One direction of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Cellular {
    plan: Arc<CellularPlan>,
    bearers: Vec<Bearer>,
    scheduler: Scheduler,
    /// The next TTI in which something may be sent.
    due: Time,
    /// When RLC does something of its own next.
    timer: Time,
    /// When the next handover begins.
    leaves_at: Time,
    /// From the users to the base station.
    upwards: bool,
    /// The downlink, if this is the uplink and users may sleep.
    downlink: Option<DeviceId>,
    /// Those who can use the present TTI.
    candidates: Vec<Candidate>,
    /// What was decoded of the present TTI, by user, and when that ends.
    decoded: Vec<(u32, Carried)>,
    decoded_at: Time,
}

impl Cellular {
    /// A direction of a cell: from the base station or towards it.
    pub(crate) fn new(plan: &Arc<CellularPlan>, links: &[LinkPlan], upwards: bool, seed: u64) -> Cellular {
        let bearers = plan.users.iter().map(|user| {
            let link = &links[user.link];
            let direction = 2 * user.link as DirectionId + u32::from(upwards);
            let (side, track) = if upwards { (&link.reverse, &user.up) } else { (&link.forward, &user.down) };
            Bearer::new(side, (direction, &link.direction_name(direction)), (plan, track.clone()), seed)
        });
        let mut bearers: Vec<Bearer> = bearers.collect();
        for (bearer, user) in bearers.iter_mut().zip(&plan.users) {
            if let Some(handovers) = &user.handovers {
                bearer.travel(handovers);
            }
        }
        let leaves_at = bearers.iter().map(Bearer::leaves_at).min().unwrap_or(Time::MAX);
        let scheduler = Scheduler::new(plan.sharing, bearers.len());
        let candidates = Vec::with_capacity(bearers.len());
        let decoded = Vec::with_capacity(bearers.len());
        let (plan, due, timer, decoded_at) = (Arc::clone(plan), Time::MAX, Time::MAX, Time::MAX);
        let mut cell = Cellular {
            plan,
            bearers,
            scheduler,
            due,
            timer,
            leaves_at,
            upwards,
            downlink: None,
            candidates,
            decoded,
            decoded_at,
        };
        if let Some(requests) = cell.plan.requests.filter(|_| upwards) {
            let users = cell.bearers.len() as u64;
            for (bearer, index) in cell.bearers.iter_mut().zip(0..) {
                bearer.ask(requests, Span(requests.interval.0 / users * index));
            }
        }
        if let Some(drx) = cell.plan.drx.filter(|_| !upwards) {
            let (tti, users) = (cell.plan.tti, cell.bearers.len() as u64);
            for (bearer, index) in cell.bearers.iter_mut().zip(0..) {
                bearer.sleeper = Some(Sleeper::new(drx, tti, (index, users)));
            }
        }
        cell
    }

    /// The direction of each port.
    pub(crate) fn directions(&self) -> impl Iterator<Item = DirectionId> {
        self.bearers.iter().map(|bearer| bearer.direction)
    }

    /// This is the uplink of users that sleep, and this their downlink.
    pub(crate) fn wakes(&mut self, downlink: DeviceId) {
        self.downlink = Some(downlink);
    }

    /// The uplink of `user` tells that it listens. That counts from the next TTI on: this one may have been served.
    pub(crate) fn hear(&mut self, user: u32, heard: Heard, cx: &mut Cx<'_>) {
        let next = self.next_tti(cx.now);
        let bearer = &mut self.bearers[user as usize];
        let Some(sleeper) = &mut bearer.sleeper else { return };
        match heard {
            Heard::Activity => sleeper.note_activity(cx.now),
            Heard::Request { at, granted } => sleeper.note_request(cx.now, at, granted),
        }
        if bearer.backlog(self.plan.packet_header) > 0 {
            let from = bearer.granted.max(next);
            let first = self.bearers[user as usize].listens_from(self.tti_from(from));
            self.due = self.due.min(first);
            cx.wake(self.next());
        }
    }

    /// See [`Waiting::know_flows`](crate::queue::Waiting::know_flows).
    pub(crate) fn know_flows(&mut self, known: &KnownFlows) {
        for bearer in &mut self.bearers {
            bearer.waiting.know_flows(known);
        }
    }

    /// What was counted of each direction, by the names of its columns.
    pub(crate) fn counts(&self, window: &Window) -> Vec<(DirectionId, &'static str, u64)> {
        self.bearers.iter().flat_map(|bearer| bearer.counts(window)).collect()
    }

    /// The first TTI that begins after `now`. What comes as a TTI begins is too late for it.
    fn next_tti(&self, now: Time) -> Time {
        Time(now.0 - now.0 % self.plan.tti.0) + self.plan.tti
    }

    /// The first TTI that begins no earlier than `at`.
    fn tti_from(&self, at: Time) -> Time {
        at.0.checked_sub(1).map_or(Time::ZERO, |before| self.next_tti(Time(before)))
    }

    /// The TTI that begins now.
    fn serve(&mut self, cx: &mut Cx<'_>) {
        let (plan, now) = (Arc::clone(&self.plan), cx.now);
        let all = plan.grid.resource_blocks;
        self.scheduler.begin(now.0 / plan.tti.0);
        self.candidates.clear();
        let (mut free, mut repeats) = (all, false);
        for (bearer, user) in self.bearers.iter_mut().zip(0..) {
            if let Some(sent) = bearer.send_again(&plan, cx) {
                self.decoded.extend(sent.decoded.map(|carried| (user, carried)));
                (free, repeats) = (free - sent.resource_blocks, true);
                continue;
            }
            if bearer.backlog(plan.packet_header) == 0
                || bearer.granted > now
                || bearer.listens_from(now) > now
            {
                continue;
            }
            bearer.cqi = plan.reports.known(&bearer.track, now);
            if bearer.cqi > 0 {
                self.candidates.push(self.scheduler.candidate(user, plan.grid.bits(all, bearer.cqi)));
            }
        }
        Scheduler::sort(&mut self.candidates);
        let mut first = true;
        for candidate in &self.candidates {
            let bearer = &mut self.bearers[candidate.user as usize];
            let wanted = bearer.backlog(plan.packet_header) + u64::from(plan.block_header);
            let taken = plan.grid.blocks_for(8 * wanted, bearer.cqi).min(free);
            let bits = plan.grid.bits(taken, bearer.cqi);
            if bits / 8 <= u64::from(plan.block_header) {
                continue;
            }
            // Packets are entered as if the blocks of a TTI were sent one after another, each in its share of the time.
            let offset = Span(plan.tti.0 * u64::from(all - free) / u64::from(all));
            let place = Place { start: now + offset, full: candidate.rate };
            let Some(sent) = bearer.send(bits / 8, place, (&plan, taken), cx) else { continue };
            self.decoded.extend(sent.decoded.map(|carried| (candidate.user, carried)));
            if let Some(sleeper) = &mut bearer.sleeper {
                sleeper.note_activity(now);
            }
            if let Some(to) = self.downlink {
                let handed = Handed::Heard(Heard::Activity);
                cx.effects.push(Effect::Hand { to, flow: candidate.user, handed, at: now });
            }
            self.scheduler.served(candidate.user, bits, first);
            (free, first) = (free - taken, false);
        }
        self.decoded_at = if self.decoded.is_empty() { Time::MAX } else { now + plan.tti };
        self.due = self.next_due(now, repeats || !first);
        self.note_timers();
    }

    /// The end of a TTI: RLC has what was decoded. Not before: what the timers of other users let go until then goes on
    /// first, and links behind this device take what it hands on in the order of time.
    fn take_decoded(&mut self, cx: &mut Cx<'_>) {
        let end = std::mem::replace(&mut self.decoded_at, Time::MAX);
        for (user, carried) in self.decoded.drain(..) {
            self.bearers[user as usize].take(carried, end, cx);
        }
        self.note_timers();
    }

    /// What is due by now: the TTI that ends, RLC's timers, handovers, and the TTI that begins. A packet that comes at
    /// the same moment is later than they are, whether this device is woken before or after it.
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        if self.decoded_at <= cx.now {
            self.take_decoded(cx);
        }
        self.expire(cx);
        self.hand_over(cx);
        if self.due <= cx.now {
            self.serve(cx);
        }
    }

    /// When something is due next.
    fn next(&self) -> Time {
        self.due.min(self.timer).min(self.leaves_at).min(self.decoded_at)
    }

    fn note_timers(&mut self) {
        self.timer = self.bearers.iter().map(Bearer::timer).min().unwrap_or(Time::MAX);
    }

    /// Handovers that begin by now.
    fn hand_over(&mut self, cx: &mut Cx<'_>) {
        if self.leaves_at > cx.now {
            return;
        }
        for (bearer, user) in self.bearers.iter_mut().zip(0..) {
            while bearer.leaves_at() <= cx.now {
                bearer.hand_over(self.upwards, cx);
                self.decoded.retain(|&(of, _)| of != user);
            }
        }
        self.leaves_at = self.bearers.iter().map(Bearer::leaves_at).min().unwrap_or(Time::MAX);
        self.note_timers();
        self.due = self.due.min(self.tti_from(cx.now));
    }

    /// What RLC does of its own now.
    fn expire(&mut self, cx: &mut Cx<'_>) {
        if self.timer > cx.now {
            return;
        }
        for bearer in &mut self.bearers {
            bearer.expire(cx.now, cx);
        }
        self.note_timers();
        self.due = self.due.min(self.tti_from(cx.now));
    }

    /// When something may be sent next: in the next TTI, when a block is sent again, when a grant comes, or, where
    /// every channel is too bad, when the next report does.
    fn next_due(&self, now: Time, sent: bool) -> Time {
        let plan = &self.plan;
        let mut due = Time::MAX;
        for bearer in &self.bearers {
            due = due.min(bearer.next_again(now, plan));
            if bearer.backlog(plan.packet_header) == 0 {
                continue;
            }
            let from = if bearer.granted > now { bearer.granted } else { now + Span(1) };
            let waits = !sent && bearer.granted <= now && bearer.listens_from(now) == now;
            let from = if waits { from.max(plan.reports.next(now)) } else { from };
            due = due.min(bearer.listens_from(self.tti_from(from)));
        }
        due
    }
}

impl Element for Cellular {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        let (next, now, window) = (self.next_tti(cx.now), cx.now, cx.window);
        self.catch_up(cx);
        let bearer = &mut self.bearers[port as usize];
        let direction = bearer.direction;
        if arq::admit(parcel, &bearer.found(), direction, cx)
            && join(&mut bearer.waiting, parcel, &mut bearer.shed, direction, cx)
        {
            let waiting = bearer.waiting.packets();
            if waiting == 1 && bearer.has_nothing_begun() {
                let asked = bearer.request(now, &window);
                if let (Some(to), Some((at, granted))) = (self.downlink, asked) {
                    let handed = Handed::Heard(Heard::Request { at, granted });
                    cx.effects.push(Effect::Hand { to, flow: port, handed, at: now });
                }
            }
            cx.link(direction).gate.note_waiting(waiting, now, &window);
            let from = bearer.granted.max(next);
            let found = bearer.found();
            cx.link(direction).gate.note_held(&found);
            let first = self.bearers[port as usize].listens_from(self.tti_from(from));
            self.due = self.due.min(first);
        }
        cx.wake(self.next());
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.catch_up(cx);
        cx.wake(self.next());
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.take_decoded(cx);
        for bearer in &mut self.bearers {
            bearer.close(cx);
            keep_waiting(&mut bearer.waiting, bearer.direction, cx);
        }
    }
}
