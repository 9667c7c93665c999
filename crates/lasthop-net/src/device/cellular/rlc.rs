//! RLC of a bearer, both of its ends: what becomes of the PDUs that its transport blocks carry (TS 36.322).
//!
//! A PDU is known by its sequence number, which does not wrap here; packets by the numbers of the first and the last
//! PDU that have a part of them. The receiver hands packets on in order. In the unacknowledged mode (UM) it gives a
//! missing PDU up when t-Reordering ends; in the acknowledged mode (AM) it asks for it again with a STATUS.
//!
//! Times are those at which a transport block ends; the way to the core is added by the device.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use crate::device::Parcel;

/// What RLC does about transport blocks that HARQ could not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RlcPlan {
    /// It waits for them and gives them up.
    Unacknowledged {
        /// t-Reordering.
        reordering: Span,
    },
    /// It has them sent again.
    Acknowledged(Acknowledged),
}

/// The acknowledged mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// t-Reordering.
    pub reordering: Span,
    /// t-StatusProhibit.
    pub prohibit: Span,
    /// t-PollRetransmit.
    pub poll_retransmit: Span,
    /// pollPDU.
    pub poll_pdus: u64,
    /// pollByte.
    pub poll_bytes: u64,
    /// maxRetxThreshold: a PDU that would be sent again once more is given up.
    pub max_retransmissions: u32,
    /// From a STATUS to what it causes: its grant, its TTI and its reading.
    pub status_delay: Span,
}

/// Most PDUs that are not acknowledged: half of the numbers of 10 bits.
const WINDOW: u64 = 512;

/// A PDU that has been sent.
#[derive(Clone, Copy, Debug)]
struct Pdu {
    bytes: u32,
    /// Bytes that the receiver lacks.
    missing: u32,
    /// Bytes of its retransmission that have not been sent.
    unsent: u32,
    retransmissions: u32,
    acknowledged: bool,
}

/// A packet of which a part has been sent.
#[derive(Clone, Copy, Debug)]
struct Sdu {
    parcel: Parcel,
    /// When its first byte went.
    started: Time,
    /// The PDUs with its first and its last byte; the last is not known before it has been sent.
    first: u64,
    last: u64,
    /// A part of it will never come.
    lost: bool,
}

/// What the receiver knew.
#[derive(Clone, Debug)]
struct Status {
    /// When it is acted upon.
    at: Time,
    /// Everything before it is acknowledged,
    acknowledged: u64,
    /// except these.
    missing: Vec<u64>,
}

/// A packet that leaves RLC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) parcel: Parcel,
    pub(super) started: Time,
    pub(super) at: Time,
    pub(super) lost: bool,
}

/// What a transport block carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    /// The PDU.
    pub(super) number: u64,
    /// Bytes of it.
    pub(super) bytes: u32,
    /// It asks for a STATUS.
    pub(super) polls: bool,
}

/// RLC of one bearer.
#[derive(Clone, Debug)]
pub(super) struct Rlc {
    plan: RlcPlan,
    /// Number of the first of `pdus`: VT(A) in AM, VR(UR) in UM.
    base: u64,
    pdus: VecDeque<Pdu>,
    sdus: VecDeque<Sdu>,
    /// VR(R), VR(UR): the receiver has decided on everything before.
    next: u64,
    /// VR(H), VR(UH): the one after the greatest that has come.
    highest: u64,
    /// VR(MS): a STATUS speaks of everything before.
    spoken_of: u64,
    /// VR(X), VR(UX), and when t-Reordering ends.
    awaited: u64,
    reordering_ends: Time,
    /// The greatest PDU with a poll that has not been answered.
    polled: Option<u64>,
    /// A STATUS is to be sent, not before t-StatusProhibit has ended.
    status_due: bool,
    prohibited_until: Time,
    statuses: VecDeque<Status>,
    /// PDUs to be sent again.
    retries: VecDeque<u64>,
    /// PDUs and bytes since the last poll.
    since_poll: (u64, u64),
    /// POLL_SN, and when t-PollRetransmit ends.
    poll: u64,
    poll_ends: Time,
    must_poll: bool,
    leaving: Vec<Leaving>,
}

impl Rlc {
    pub(super) fn new(plan: RlcPlan) -> Rlc {
        Rlc {
            plan,
            base: 0,
            pdus: VecDeque::new(),
            sdus: VecDeque::new(),
            next: 0,
            highest: 0,
            spoken_of: 0,
            awaited: 0,
            reordering_ends: Time::MAX,
            polled: None,
            status_due: false,
            prohibited_until: Time::ZERO,
            statuses: VecDeque::new(),
            retries: VecDeque::new(),
            since_poll: (0, 0),
            poll: 0,
            poll_ends: Time::MAX,
            must_poll: false,
            leaving: Vec::new(),
        }
    }

    /// Number of the next new PDU: VT(S).
    fn end(&self) -> u64 {
        self.base + self.pdus.len() as u64
    }

    fn acknowledged_mode(&self) -> Option<Acknowledged> {
        match self.plan {
            RlcPlan::Acknowledged(plan) => Some(plan),
            RlcPlan::Unacknowledged { .. } => None,
        }
    }

    fn pdu(&mut self, number: u64) -> Option<&mut Pdu> {
        self.pdus.get_mut(number.checked_sub(self.base)? as usize)
    }

    /// Whether no new PDU may be sent before a STATUS has come.
    pub(super) fn is_stalled(&self) -> bool {
        self.pdus.len() as u64 >= WINDOW && self.acknowledged_mode().is_some()
    }

    /// Bytes to be sent again.
    pub(super) fn backlog(&self) -> u64 {
        let of = |number: &u64| u64::from(self.pdus[(number - self.base) as usize].unsent);
        self.retries.iter().map(of).sum()
    }

    // ---- the sending end

    /// A packet has been begun in the next new PDU.
    pub(super) fn begin(&mut self, parcel: Parcel, started: Time) {
        let sdu = Sdu { parcel, started, first: self.end(), last: u64::MAX, lost: false };
        self.sdus.push_back(sdu);
    }

    /// The last byte of the packet that was begun last is in the next new PDU.
    pub(super) fn finish(&mut self) {
        let last = self.end();
        if let Some(sdu) = self.sdus.back_mut() {
            sdu.last = last;
        }
    }

    /// The new PDU is complete; `empties` if nothing waits behind it.
    pub(super) fn send(&mut self, bytes: u32, empties: bool, now: Time) -> Carried {
        let number = self.end();
        self.pdus.push_back(Pdu {
            bytes,
            missing: bytes,
            unsent: 0,
            retransmissions: 0,
            acknowledged: false,
        });
        self.since_poll = (self.since_poll.0 + 1, self.since_poll.1 + u64::from(bytes));
        let polls = self.polls(empties, now);
        Carried { number, bytes, polls }
    }

    /// At most `room` bytes of the PDU that is to be sent again first, if there is one.
    pub(super) fn send_again(&mut self, room: u32, empties: bool, now: Time) -> Option<Carried> {
        let number = *self.retries.front()?;
        let pdu = self.pdu(number)?;
        let bytes = pdu.unsent.min(room);
        pdu.unsent -= bytes;
        if pdu.unsent == 0 {
            self.retries.pop_front();
        }
        let polls = self.polls(empties, now);
        Some(Carried { number, bytes, polls })
    }

    /// Whether the PDU that is about to go polls (TS 36.322, section 5.2.2.1).
    fn polls(&mut self, empties: bool, now: Time) -> bool {
        let Some(plan) = self.acknowledged_mode() else { return false };
        let (pdus, bytes) = self.since_poll;
        let is_last = (empties && self.retries.is_empty()) || self.is_stalled();
        let polls = pdus >= plan.poll_pdus || bytes >= plan.poll_bytes || is_last || self.must_poll;
        if polls {
            self.since_poll = (0, 0);
            self.must_poll = false;
            self.poll = self.end() - 1;
            self.poll_ends = now + plan.poll_retransmit;
        }
        polls
    }

    /// HARQ has given up a transport block with this in it.
    pub(super) fn give_up(&mut self, carried: Carried) {
        if self.acknowledged_mode().is_none() {
            self.lose(carried.number);
        }
    }

    /// Packets with a part in this PDU will never be whole.
    fn lose(&mut self, number: u64) {
        for sdu in self.sdus.iter_mut().filter(|sdu| sdu.first <= number && number <= sdu.last) {
            sdu.lost = true;
        }
    }

    // ---- the receiving end

    /// A transport block has come.
    pub(super) fn receive(&mut self, carried: Carried, at: Time) {
        let Carried { number, bytes, polls } = carried;
        if number >= self.next
            && let Some(pdu) = self.pdu(number)
        {
            pdu.missing = pdu.missing.saturating_sub(bytes);
            self.highest = self.highest.max(number + 1);
            self.advance(at);
        }
        if polls {
            self.polled = Some(self.polled.map_or(number, |polled| polled.max(number)));
        }
        self.answer(at);
    }

    fn is_here(&self, number: u64) -> bool {
        self.pdus.get((number - self.base) as usize).is_some_and(|pdu| pdu.missing == 0)
    }

    /// The first PDU from this one on that is not here.
    fn first_missing(&self, mut number: u64) -> u64 {
        while number < self.highest && self.is_here(number) {
            number += 1;
        }
        number
    }

    /// Hands on what is in order, and sets t-Reordering.
    fn advance(&mut self, at: Time) {
        self.next = self.first_missing(self.next);
        self.spoken_of = self.first_missing(self.spoken_of.max(self.next));
        self.hand_on(at);
        if self.reordering_ends < Time::MAX && self.awaited <= self.next {
            self.reordering_ends = Time::MAX;
        }
        if self.reordering_ends == Time::MAX && self.highest > self.next {
            self.start_reordering(at);
        }
    }

    fn start_reordering(&mut self, at: Time) {
        let (RlcPlan::Unacknowledged { reordering } | RlcPlan::Acknowledged(Acknowledged { reordering, .. })) =
            self.plan;
        self.awaited = self.highest;
        self.reordering_ends = at + reordering;
    }

    /// Packets of which every PDU has been decided leave.
    fn hand_on(&mut self, at: Time) {
        while let Some(&Sdu { parcel, started, lost, .. }) =
            self.sdus.front().filter(|sdu| sdu.last < self.next)
        {
            self.leaving.push(Leaving { parcel, started, at, lost });
            self.sdus.pop_front();
        }
        if self.acknowledged_mode().is_none() {
            self.pdus.drain(..(self.next - self.base) as usize);
            self.base = self.next;
        }
    }

    /// Packets that have left since the last call.
    pub(super) fn leaving(&mut self) -> std::vec::Drain<'_, Leaving> {
        self.leaving.drain(..)
    }

    /// t-Reordering has ended.
    fn end_reordering(&mut self, at: Time) {
        self.reordering_ends = Time::MAX;
        let from = self.first_missing(self.awaited);
        if self.acknowledged_mode().is_some() {
            self.spoken_of = from;
            self.status_due = true;
            self.answer(at);
        } else {
            for number in self.next..self.awaited {
                if !self.is_here(number) {
                    self.lose(number);
                }
            }
            self.next = from;
            self.hand_on(at);
        }
        if self.highest > from {
            self.start_reordering(at);
        }
    }

    /// Sends a STATUS that is due (TS 36.322, section 5.2.3).
    fn answer(&mut self, at: Time) {
        let Some(plan) = self.acknowledged_mode() else { return };
        if self.polled.is_some_and(|polled| polled < self.spoken_of) {
            self.polled = None;
            self.status_due = true;
        }
        if self.status_due && at >= self.prohibited_until {
            self.status_due = false;
            self.prohibited_until = at + plan.prohibit;
            let missing = (self.next..self.spoken_of).filter(|&number| !self.is_here(number)).collect();
            let status = Status { at: at + plan.status_delay, acknowledged: self.spoken_of, missing };
            self.statuses.push_back(status);
        }
    }

    // ---- timers

    /// When something happens without a transport block.
    pub(super) fn timer(&self) -> Time {
        let prohibited = if self.status_due { self.prohibited_until } else { Time::MAX };
        let status = self.statuses.front().map_or(Time::MAX, |status| status.at);
        self.reordering_ends.min(prohibited).min(status).min(self.poll_ends)
    }

    /// What happens up to this time. `waits`: packets wait to be sent for the first time.
    pub(super) fn expire(&mut self, until: Time, waits: bool) {
        while self.timer() <= until {
            let at = self.timer();
            if self.reordering_ends == at {
                self.end_reordering(at);
            } else if self.statuses.front().is_some_and(|status| status.at == at) {
                self.read_status(at);
            } else if self.poll_ends == at {
                self.end_poll(waits);
            } else {
                self.answer(at);
            }
        }
    }

    /// A STATUS has reached the sending end.
    fn read_status(&mut self, at: Time) {
        let Some(Status { acknowledged, missing, .. }) = self.statuses.pop_front() else { return };
        let Some(plan) = self.acknowledged_mode() else { return };
        if self.poll < acknowledged {
            self.poll_ends = Time::MAX;
        }
        for number in self.base..acknowledged {
            if missing.binary_search(&number).is_err()
                && let Some(pdu) = self.pdu(number)
            {
                pdu.acknowledged = true;
                pdu.unsent = 0;
            }
        }
        for &number in &missing {
            let Some(pdu) = self.pdu(number).filter(|pdu| !pdu.acknowledged) else { continue };
            pdu.retransmissions += 1;
            if pdu.retransmissions > plan.max_retransmissions {
                (pdu.missing, pdu.unsent, pdu.acknowledged) = (0, 0, true);
                self.lose(number);
            } else {
                let (missing, waits) = (pdu.missing, pdu.unsent > 0);
                // What has come since the STATUS was sent is sent again all the same: the sender does not know.
                pdu.unsent = if missing > 0 { missing } else { pdu.bytes };
                if !waits {
                    self.retries.push_back(number);
                }
            }
        }
        let pdus = &self.pdus;
        let base = self.base;
        self.retries.retain(|number| pdus[(number - base) as usize].unsent > 0);
        // What was given up, the receiver does not wait for any more.
        self.advance(at);
        while self.next > self.base && self.pdus.front().is_some_and(|pdu| pdu.acknowledged) {
            self.pdus.pop_front();
            self.base += 1;
        }
    }

    /// t-PollRetransmit has ended: if nothing else can carry a poll, the last PDU does (TS 36.322, section 5.2.2.3).
    fn end_poll(&mut self, waits: bool) {
        self.poll_ends = Time::MAX;
        self.must_poll = true;
        if (!waits || self.is_stalled())
            && self.retries.is_empty()
            && let Some(last) = self.pdus.back_mut().filter(|pdu| !pdu.acknowledged)
        {
            last.unsent = last.bytes;
            self.retries.push_back(self.end() - 1);
        }
    }

    /// RLC starts anew at both ends at `now` (TS 36.322, section 5.4): the packets that it had, in order. One that is
    /// not there as a whole is lost to it.
    pub(super) fn start_anew(&mut self, now: Time) -> Vec<Leaving> {
        let old = std::mem::replace(self, Rlc::new(self.plan));
        let is_here = |number: u64| number < old.next || old.is_here(number);
        let of = |&Sdu { parcel, started, first, last, lost }: &Sdu| {
            let lost = lost || last >= old.highest || !(first..=last).all(is_here);
            Leaving { parcel, started, at: now, lost }
        };
        old.sdus.iter().map(of).collect()
    }

    /// Whether what HARQ could not deliver is sent again.
    pub(super) fn repairs(&self) -> bool {
        self.acknowledged_mode().is_some()
    }

    /// The run is over: packets that are still here, and whether a part of them is lost.
    pub(super) fn close(&mut self) -> impl Iterator<Item = Leaving> {
        let at = Time::MAX;
        std::mem::take(&mut self.sdus).into_iter().map(move |Sdu { parcel, started, lost, .. }| Leaving {
            parcel,
            started,
            at,
            lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Ecn;

    const AM: Acknowledged = Acknowledged {
        reordering: Span::from_millis(35),
        prohibit: Span::from_millis(40),
        poll_retransmit: Span::from_millis(45),
        poll_pdus: 64,
        poll_bytes: 125_000,
        max_retransmissions: 2,
        status_delay: Span::from_millis(8),
    };

    fn um() -> Rlc {
        Rlc::new(RlcPlan::Unacknowledged { reordering: Span::from_millis(35) })
    }

    fn am() -> Rlc {
        Rlc::new(RlcPlan::Acknowledged(AM))
    }

    fn ms(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// Sends a PDU of 100 B that is one packet, at a time in ms.
    fn send(rlc: &mut Rlc, empties: bool, now: u64) -> Carried {
        let number = rlc.end() as u32;
        let parcel = Parcel {
            packet: number,
            hop: 0,
            flow: 0,
            bytes: 100,
            ecn: Ecn::Incapable,
            ahead: false,
            since: Time::ZERO,
        };
        rlc.begin(parcel, ms(now));
        rlc.finish();
        rlc.send(100, empties, ms(now))
    }

    /// Which packets have left, when in ms, and whether they are lost.
    fn left(rlc: &mut Rlc) -> Vec<(u32, u64, bool)> {
        rlc.leaving().map(|gone| (gone.parcel.packet, gone.at.0 / 1_000_000, gone.lost)).collect()
    }

    #[test]
    fn packets_leave_in_order() {
        for mut rlc in [um(), am()] {
            let sent: Vec<Carried> = (0..3).map(|at| send(&mut rlc, false, at)).collect();
            rlc.receive(sent[1], ms(3));
            rlc.receive(sent[2], ms(4));
            assert_eq!(left(&mut rlc), []);
            rlc.receive(sent[0], ms(9));
            assert_eq!(left(&mut rlc), [(0, 9, false), (1, 9, false), (2, 9, false)]);
            assert_eq!(rlc.reordering_ends, Time::MAX);
        }
    }

    /// PDU 0 is missing from 2 ms on: at 37 ms it is given up. PDU 3, which went missing since, has a time of its own.
    #[test]
    fn unacknowledged_a_gap_is_given_up() {
        let mut rlc = um();
        let sent: Vec<Carried> = (0..5).map(|at| send(&mut rlc, false, at)).collect();
        for (number, at) in [(1, 2), (2, 3), (4, 5)] {
            rlc.receive(sent[number], ms(at));
        }
        assert_eq!(rlc.timer(), ms(37));
        rlc.expire(ms(37), false);
        assert_eq!(left(&mut rlc), [(0, 37, true), (1, 37, false), (2, 37, false)]);
        assert_eq!(rlc.timer(), ms(72));
        // Too late.
        rlc.receive(sent[0], ms(40));
        rlc.receive(sent[3], ms(41));
        assert_eq!(left(&mut rlc), [(3, 41, false), (4, 41, false)]);
        assert_eq!(rlc.timer(), Time::MAX);
    }

    /// A packet in three PDUs of which the second is lost.
    #[test]
    fn a_packet_in_parts_is_lost_with_any_of_them() {
        let mut rlc = um();
        let parcel = Parcel {
            packet: 7,
            hop: 0,
            flow: 0,
            bytes: 300,
            ecn: Ecn::Incapable,
            ahead: false,
            since: Time::ZERO,
        };
        rlc.begin(parcel, ms(0));
        let first = rlc.send(100, false, ms(0));
        let second = rlc.send(100, false, ms(1));
        rlc.finish();
        let third = rlc.send(100, false, ms(2));
        rlc.receive(first, ms(1));
        rlc.give_up(second);
        rlc.receive(third, ms(3));
        rlc.expire(ms(38), false);
        assert_eq!(left(&mut rlc), [(7, 38, true)]);
    }

    /// t-Reordering of 35 ms ends at 37 ms, the STATUS is read 8 ms later, and what follows waits for the repair.
    #[test]
    fn acknowledged_a_gap_is_repaired() {
        let mut rlc = am();
        let sent: Vec<Carried> = (0..3).map(|at| send(&mut rlc, false, at)).collect();
        rlc.receive(sent[0], ms(1));
        rlc.receive(sent[2], ms(2));
        rlc.expire(ms(44), true);
        assert_eq!((left(&mut rlc), rlc.backlog()), (vec![(0, 1, false)], 0));
        rlc.expire(ms(45), true);
        assert_eq!(rlc.backlog(), 100);
        // In two parts, as the grants are; the second comes first.
        let one = rlc.send_again(60, false, ms(45)).unwrap();
        let other = rlc.send_again(60, true, ms(46)).unwrap();
        assert_eq!([one.bytes, other.bytes], [60, 40]);
        assert!(!one.polls && other.polls);
        rlc.receive(other, ms(47));
        assert_eq!(left(&mut rlc), []);
        rlc.receive(one, ms(54));
        assert_eq!(left(&mut rlc), [(1, 54, false), (2, 54, false)]);
        // The poll is answered when t-StatusProhibit lets it be: 37 + 40 ms; 8 ms later nothing is outstanding.
        assert_eq!(rlc.timer(), ms(77));
        rlc.expire(ms(85), false);
        assert_eq!((rlc.base, rlc.timer()), (3, Time::MAX));
    }

    /// Nothing follows the last PDU: only t-PollRetransmit finds that it is lost.
    #[test]
    fn the_last_is_repaired_by_a_poll() {
        let mut rlc = am();
        let last = send(&mut rlc, true, 0);
        assert!(last.polls);
        rlc.expire(ms(44), false);
        assert_eq!(rlc.backlog(), 0);
        rlc.expire(ms(45), false);
        assert_eq!(rlc.backlog(), 100);
        let again = rlc.send_again(1000, true, ms(46)).unwrap();
        assert!(again.polls);
        rlc.receive(again, ms(47));
        assert_eq!(left(&mut rlc), [(0, 47, false)]);
        rlc.expire(ms(55), false);
        assert_eq!((rlc.pdus.len(), rlc.timer()), (0, Time::MAX));
    }

    #[test]
    fn it_polls_by_number_and_by_bytes() {
        let mut rlc = am();
        let polls: Vec<u64> = (0..200u64).filter(|_| send(&mut rlc, false, 0).polls).collect();
        assert_eq!(polls, [63, 127, 191]);
        let mut rlc = Rlc::new(RlcPlan::Acknowledged(Acknowledged { poll_bytes: 250, ..AM }));
        let polls: Vec<u64> = (0..7u64).filter(|_| send(&mut rlc, false, 0).polls).collect();
        assert_eq!(polls, [2, 5]);
    }

    /// Two retransmissions are allowed: after the third STATUS that lacks it the packet is lost, and the rest goes on.
    #[test]
    fn it_gives_up_after_so_many_retransmissions() {
        let mut rlc = am();
        let lost = send(&mut rlc, false, 0);
        let here = send(&mut rlc, true, 1);
        rlc.receive(here, ms(2));
        let mut again = 0;
        for now in 3..400 {
            rlc.expire(ms(now), false);
            if let Some(carried) = rlc.send_again(1000, true, ms(now)) {
                assert_eq!(carried.number, lost.number);
                again += 1;
                // A later part of the stream keeps the receiver asking.
                let next = send(&mut rlc, true, now);
                rlc.receive(next, ms(now + 1));
            }
        }
        assert_eq!(again, 2);
        assert_eq!(
            left(&mut rlc)[..2].iter().map(|gone| (gone.0, gone.2)).collect::<Vec<_>>(),
            [(0, true), (1, false)]
        );
        assert!(rlc.sdus.is_empty());
    }

    /// 512 numbers may be outstanding; the last of them polls.
    #[test]
    fn the_window_holds_new_pdus_back() {
        let mut rlc = am();
        let mut sent = Vec::new();
        while !rlc.is_stalled() {
            sent.push(send(&mut rlc, false, 0));
        }
        assert_eq!(sent.len(), 512);
        assert!(sent[511].polls);
        for &carried in &sent {
            rlc.receive(carried, ms(1));
        }
        rlc.expire(ms(9), true);
        assert!(!rlc.is_stalled());
    }
}
