//! The agent of one connection: what the protocol of Balakrishnan et al. decides, without a network.
//!
//! It sees the packets of one connection from both sides, in the order of the clock, as a wire shows them: sequence
//! numbers of 32 bits that wrap. What it cannot make sense of it lets pass untouched.

use lasthop_core::packet::{Kind, NONE, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::cache::{Cache, Entry, FARTHEST, before, distance, range_of};
use super::{Snoop, Timing, WhenFull};
use crate::transport::sack::SackBlocks;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Pass,
    /// It is not needed.
    Withhold,
    /// The other end has it: it is acknowledged again from here.
    Answer,
}

/// What made the agent send a packet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A duplicate ACK.
    Duplicate,
    /// A hole between SACK blocks.
    Hole,
    /// Its timer.
    Timer,
    /// The host has come to this base station.
    Handoff,
}

/// Takes the packets that an agent sends again.
pub(super) trait Tape {
    fn repeat(&mut self, entry: &Entry, why: Why);
}

/// A packet from the sender as it stands before the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) packet: &'a Packet,
    /// Its place on its path.
    pub(super) hop: u32,
    /// Whether the queue of the link will take it.
    pub(super) has_room: bool,
    /// What orders it among those that cross the link.
    pub(super) turn: Time,
    /// When its transmission will begin at the earliest.
    pub(super) begins: Time,
    /// How long until it has left, as well as that can be told.
    pub(super) wait: Span,
    pub(super) now: Time,
}

impl Arrived<'_> {
    /// What is kept of it; what it carries beyond its header is filled in by its owner.
    pub(super) fn entry(&self, order: u64, by_sender: bool) -> Entry {
        Entry {
            packet: *self.packet,
            extra: None,
            hop: self.hop,
            repeats: 0,
            sent: self.now,
            turn: (self.turn, order),
            begins: self.begins,
            leaves: self.now + self.wait,
            by_sender,
            sacked: false,
        }
    }
}

/// The round trip between the agent and the other end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Smoothed, and its deviation; none before the first sample.
    smoothed: Option<(Span, Span)>,
    /// The least time from the beginning of a transmission to its answer; none before the first sample.
    least: Option<Span>,
}

/// This many ACKs of single packets in a row say that the other end does not delay them.
const ENOUGH_SINGLES: u8 = 3;
/// No receiver waits for more packets than these (RFC 5681 section 4.2 allows two; some stretch ACKs).
const MOST_TOGETHER: u32 = 4;

/// Timeout before the first sample.
const FIRST_TIMEOUT: Span = Span::from_millis(100);

impl Clock {
    /// Takes a sample: RFC 6298 section 2, or the paper's gain of a quarter.
    fn sample(&mut self, sample: Span, timing: Timing) {
        let Some((smoothed, deviation)) = self.smoothed else {
            self.smoothed = Some((sample, Span(sample.0 / 2)));
            return;
        };
        let away = smoothed.0.abs_diff(sample.0);
        self.smoothed = Some(match timing {
            Timing::Deviation => (
                Span(smoothed.0 - smoothed.0 / 8 + sample.0 / 8),
                Span(deviation.0 - deviation.0 / 4 + away / 4),
            ),
            Timing::Double => (Span(smoothed.0 - smoothed.0 / 4 + sample.0 / 4), deviation),
        });
    }

    /// Takes note of the time from the start of a transmission to its answer.
    fn note_crossing(&mut self, span: Span) {
        self.least = Some(self.least.map_or(span, |least| least.min(span)));
    }

    /// When a transmission has begun at the latest that may be answered by now.
    fn latest_answered(&self, now: Time) -> Time {
        self.least.map_or(now, |least| Time(now.0.saturating_sub(least.0)))
    }

    /// How long an answer may take.
    fn timeout(&self, rules: &Snoop) -> Span {
        let Some((smoothed, deviation)) = self.smoothed else {
            return FIRST_TIMEOUT.max(rules.min_timeout);
        };
        let usual = match rules.timing {
            Timing::Deviation => smoothed + deviation * 4,
            Timing::Double => smoothed * 2,
        };
        usual.max(rules.min_timeout)
    }

    /// The smoothed round trip.
    fn smoothed(&self) -> Span {
        self.smoothed.map_or(FIRST_TIMEOUT, |(smoothed, _)| smoothed)
    }
}

/// What the agent stores about one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    pub(super) cache: Cache,
    /// The highest cumulative acknowledgement of the other end.
    last_ack: Option<u32>,
    /// The window of that ACK.
    last_window: u32,
    /// Where the data end that have passed.
    last_seen: Option<u32>,
    /// Duplicate ACKs that are still to come of packets sent behind one that is repaired.
    expected: u32,
    /// The unexpected ones of the present repair, since the packet was last sent.
    unexpected: u32,
    /// Duplicates of the last ACK that have passed.
    passed: u32,
    /// What the last ACK that passed told of marks.
    echoed: u8,
    clock: Clock,
    /// When the SYN passed, until it is answered.
    opened: Option<Time>,
    /// How much of that is for a delayed ACK.
    patience: Span,
    /// Timeouts in a row.
    backoff: u32,
    /// Packets that the other end has acknowledged together, and ACKs in a row that covered one although more were
    /// under way.
    together: u8,
    singles: u8,
    /// When the timer runs out.
    pub(super) due: Option<Time>,
    /// Packets sent, by whomever.
    sent: u64,
    /// The last ACK, for those that are made here.
    ack: Packet,
    /// The sender has closed, and where its FIN ends.
    fin: Option<u32>,
}

impl Agent {
    fn next_order(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Forgets everything but the round trip: what comes next is learned anew.
    pub(super) fn forget(&mut self) {
        *self = Agent { clock: self.clock, sent: self.sent, ..Agent::default() };
    }

    /// Whether the data of the connection have all been acknowledged, its end included.
    pub(super) fn is_over(&self) -> bool {
        self.fin.is_some_and(|fin| self.last_ack == Some(fin))
    }

    /// The last ACK as one that the agent sends: nothing but its number and window.
    pub(super) fn last_ack(&self) -> &Packet {
        &self.ack
    }

    /// The entry that was kept last, for what it carries beyond its header.
    pub(super) fn entry_mut(&mut self, start: u32) -> Option<&mut Entry> {
        let place = self.cache.find(start)?;
        self.cache.get_mut(place)
    }

    fn arm(&mut self, rules: &Snoop, now: Time) {
        let Some(first) = self.cache.first() else {
            self.due = None;
            return;
        };
        let most = if rules.backoff { self.backoff.min(10) } else { 0 };
        let timeout = self.clock.timeout(rules) * (1 << most);
        // A receiver that delays its ACK for more packets has no loss to report.
        self.patience = if self.may_wait() { rules.delayed_ack } else { Span::ZERO };
        // Before it has left the queue there is nothing to wait for.
        self.due = Some(now.max(first.leaves) + timeout + self.patience);
    }

    /// Whether the other end may be waiting for more packets before it acknowledges.
    fn may_wait(&self) -> bool {
        self.cache.len() < usize::from(self.together.max(2)) && self.singles < ENOUGH_SINGLES
    }

    /// One more packet is under way: with enough of them there is no reason to be patient any more.
    fn note_sent(&mut self, rules: &Snoop, now: Time) {
        match self.due {
            None => self.arm(rules, now),
            Some(due) if self.patience > Span::ZERO && !self.may_wait() => {
                let soon = now + self.clock.timeout(rules);
                self.due = Some((due - self.patience).max(soon).min(due));
                self.patience = Span::ZERO;
            }
            Some(_) => {}
        }
    }

    /// Notes how many packets an ACK covers: whether the other end acknowledges each at once.
    fn note_covered(&mut self, count: u32) {
        if count > 1 {
            self.together = u8::try_from(count.min(MOST_TOGETHER)).unwrap_or(u8::MAX);
            self.singles = 0;
        } else if !self.cache.is_empty() {
            self.singles = self.singles.saturating_add(1);
            if self.singles >= ENOUGH_SINGLES {
                self.together = 0;
            }
        }
    }

    /// A connection opens. Of a SYN that comes again it is not known which one the answer is for.
    pub(super) fn open(&mut self, packet: &Packet, now: Time) {
        let end = range_of(packet).1;
        let again = self.last_seen == Some(end) && self.cache.is_empty();
        *self = Agent { last_seen: Some(end), opened: (!again).then_some(now), ..Agent::default() };
    }

    /// Data from the sender, or its FIN; the second says whether they are kept now.
    pub(super) fn data(&mut self, rules: &Snoop, arrived: &Arrived<'_>) -> (Verdict, bool) {
        let (packet, now) = (arrived.packet, arrived.now);
        let (start, end) = range_of(packet);
        if start == end {
            return (Verdict::Pass, false);
        }
        if packet.kind == Kind::Fin {
            self.fin = Some(end);
        }
        if let Some(ack) = self.last_ack
            && !before(ack, end)
        {
            // A keepalive asks whether the other end lives: one byte below what it expects, or none.
            let keepalive = end == ack && end.wrapping_sub(start) <= 1;
            let answers = rules.answer && !keepalive && distance(ack, end) < FARTHEST;
            return (if answers { Verdict::Answer } else { Verdict::Pass }, false);
        }
        // A closed window: what comes is a probe, which only the other end can answer.
        if self.last_ack.is_some() && self.last_window == 0 {
            return (Verdict::Pass, false);
        }
        if let Some(seen) = self.last_seen
            && distance(seen, start).max(distance(seen, end)) >= FARTHEST
        {
            if self.cache.is_empty() {
                // Out of step, and nothing to lose by beginning anew.
                self.forget();
            } else {
                return (Verdict::Pass, false);
            }
        }
        let progress = self.last_seen.is_none_or(|seen| !before(start, seen));
        let kept = if progress {
            self.last_seen = Some(end);
            // What the queue refuses must look like congestion to the sender.
            let kept = arrived.has_room && self.make_room(rules);
            if kept {
                let order = self.next_order();
                self.cache.push(arrived.entry(order, false));
            }
            kept
        } else {
            self.take_again(rules, arrived)
        };
        self.note_sent(rules, now);
        (Verdict::Pass, kept)
    }

    /// Whether there is a place for one more packet, after making one if that is asked for.
    fn make_room(&mut self, rules: &Snoop) -> bool {
        if self.cache.len() < rules.cache as usize {
            return true;
        }
        if rules.when_full == WhenFull::Evict {
            self.cache.pop_first();
            return true;
        }
        false
    }

    /// Data from the sender of which later ones have passed: sent again, or filling a hole that came upstream. Whether
    /// they are kept.
    fn take_again(&mut self, rules: &Snoop, arrived: &Arrived<'_>) -> bool {
        let (start, end) = range_of(arrived.packet);
        let is_first = self.last_ack == Some(start);
        let order = self.next_order();
        if let Some(place) = self.cache.find(start) {
            let stale = self.cache.get_mut(place).map_or((Time::ZERO, 0), |entry| entry.turn);
            let stale = self.cache.after(stale);
            if let Some(entry) = self.cache.get_mut(place) {
                *entry = arrived.entry(order, true);
            }
            if is_first {
                self.await_echoes(stale);
            }
            self.backoff = 0;
            self.arm(rules, arrived.now);
            return true;
        }
        if self.cache.len() >= rules.cache as usize {
            return false;
        }
        let place = self.cache.place_of(start);
        let behind = (self.cache.len() - place) as u32;
        self.cache.insert(place, arrived.entry(order, true));
        if let Some(seen) = self.last_seen
            && before(seen, end)
        {
            self.last_seen = Some(end);
        }
        if is_first {
            self.await_echoes(behind);
        }
        if place == 0 {
            self.arm(rules, arrived.now);
        }
        true
    }

    /// The sender itself repeats what the other end asks for, with this many packets behind it: that many
    /// duplicates of the last ACK say nothing about the new copy, those included that have passed.
    fn await_echoes(&mut self, behind: u32) {
        self.expected = behind.saturating_sub(self.passed + self.unexpected);
        self.unexpected = 0;
    }

    /// An ACK of the other end, with what it selects.
    pub(super) fn ack(
        &mut self,
        rules: &Snoop,
        packet: &Packet,
        sack: &SackBlocks,
        now: Time,
        tape: &mut impl Tape,
    ) -> Verdict {
        let ack = packet.seq as u32;
        let Some(seen) = self.last_seen else { return Verdict::Pass };
        let verdict = if before(seen, ack) {
            // What it acknowledges has not come by here.
            self.forget();
            return Verdict::Pass;
        } else {
            match self.last_ack {
                Some(last) if before(ack, last) => {
                    let late = packet.kind == Kind::Ack && rules.answer && distance(ack, last) < FARTHEST;
                    if late { Verdict::Withhold } else { Verdict::Pass }
                }
                Some(last) if ack == last => self.duplicate(rules, packet, sack, now, tape),
                _ => {
                    self.advance(rules, packet, now);
                    if rules.sack {
                        self.repair_holes(rules, sack, now, tape);
                    }
                    Verdict::Pass
                }
            }
        };
        // The receiver repeats its echo until the sender has reacted, or its count: a change of it must get through.
        let echoes = packet.flags & flag::ACE;
        if verdict == Verdict::Withhold && rules.ecn && echoes != self.echoed {
            self.echoed = echoes;
            self.ack.flags = self.ack.flags & !flag::ACE | echoes;
            return Verdict::Pass;
        }
        if verdict == Verdict::Pass {
            self.echoed = echoes;
            // A count that is older than one that has passed would be read as more marks.
            self.ack.flags = self.ack.flags & !flag::ACE | echoes;
        }
        verdict
    }

    /// An ACK of something new.
    fn advance(&mut self, rules: &Snoop, packet: &Packet, now: Time) {
        let ack = packet.seq as u32;
        let (mut newest, mut began, mut clean, mut count) = (None, now, true, 0);
        while let Some(entry) = self.cache.first()
            && !before(ack, entry.end())
        {
            clean &= entry.repeats == 0 && !entry.by_sender;
            (newest, began) = (Some(entry.sent), entry.begins);
            count += 1;
            self.cache.pop_first();
        }
        if clean && count > 0 {
            self.note_covered(count);
        }
        if let Some(opened) = self.opened.take()
            && packet.kind == Kind::SynAck
        {
            newest = Some(opened);
        }
        // Karn's rule.
        if clean && let Some(sent) = newest {
            self.clock.sample(now.since(sent), rules.timing);
        }
        if clean && count > 0 {
            self.clock.note_crossing(now.since(began));
        }
        self.last_ack = Some(ack);
        self.last_window = packet.window;
        self.note_ack(packet);
        (self.unexpected, self.passed, self.backoff) = (0, 0, 0);
        // A hole that has been repaired as the second already: what was under way then still asks for it.
        let repaired = self.cache.first().filter(|first| first.repeats > 0).map(|first| first.turn);
        self.expected = repaired.map_or(0, |turn| self.cache.before(turn));
        self.arm(rules, now);
        if self.last_window == 0 {
            self.due = None;
        }
    }

    /// Remembers an ACK for those that are made here, which carry nothing but its number and window.
    fn note_ack(&mut self, packet: &Packet) {
        let bytes = if self.ack.bytes == 0 { packet.bytes } else { self.ack.bytes.min(packet.bytes) };
        self.ack = Packet { bytes, extra: NONE, kind: Kind::Ack, ..*packet };
    }

    /// A duplicate of the last ACK.
    fn duplicate(
        &mut self,
        rules: &Snoop,
        packet: &Packet,
        sack: &SackBlocks,
        now: Time,
        tape: &mut impl Tape,
    ) -> Verdict {
        if packet.window != self.last_window {
            let was_closed = std::mem::replace(&mut self.last_window, packet.window) == 0;
            self.note_ack(packet);
            if packet.window == 0 {
                self.due = None;
            } else if was_closed {
                self.arm(rules, now);
            }
            return Verdict::Pass;
        }
        let tells_of_a_copy = sack.duplicate(packet.seq).is_some();
        if packet.kind != Kind::Ack || tells_of_a_copy || packet.window == 0 {
            return Verdict::Pass;
        }
        if rules.sack {
            self.repair_holes(rules, sack, now, tape);
        }
        let verdict = self.answer_duplicate(rules, packet, now, tape);
        self.passed += u32::from(verdict == Verdict::Pass);
        verdict
    }

    /// Repairs what a duplicate ACK asks for, if it is here and the ACK says anything new.
    fn answer_duplicate(
        &mut self,
        rules: &Snoop,
        packet: &Packet,
        now: Time,
        tape: &mut impl Tape,
    ) -> Verdict {
        let Some(first) = self.cache.first().filter(|first| !before(packet.seq as u32, first.start())) else {
            // Lost before it came here: the sender must learn of it.
            return Verdict::Pass;
        };
        let (by_sender, repeats) = (first.by_sender, first.repeats);
        let withheld = if by_sender { Verdict::Pass } else { Verdict::Withhold };
        if self.expected > 0 {
            self.expected -= 1;
            return withheld;
        }
        let turn = first.turn;
        if !self.cache.any_after(turn, self.clock.latest_answered(now)) {
            // Nothing was sent after it, or too late to be answered: what this ACK answers was on its way before.
            return if repeats > 0 { withheld } else { Verdict::Pass };
        }
        self.unexpected += 1;
        if self.unexpected < rules.threshold {
            return withheld;
        }
        if repeats >= rules.persist {
            return Verdict::Pass;
        }
        let (under_way, known) = self.cache.between(turn, (rules.begin(now), u64::MAX));
        self.expected = under_way.saturating_sub(self.unexpected.max(known));
        self.repeat_first(rules, Why::Duplicate, now, tape);
        Verdict::Withhold
    }

    /// Whether the first hole that an ACK leaves is repaired from here. RFC 6675 section 5 takes three segments above a
    /// hole for its loss, in ACKs that move on as well: a sender that saw the blocks would halve its window for it.
    pub(super) fn repairs(&self, rules: &Snoop, packet: &Packet) -> bool {
        self.cache.first().is_some_and(|first| {
            !before(packet.seq as u32, first.start()) && !first.by_sender && first.repeats < rules.persist
        })
    }

    fn repeat_first(&mut self, rules: &Snoop, why: Why, now: Time, tape: &mut impl Tape) {
        self.repeat(rules, 0, why, now, tape);
        self.unexpected = 0;
        self.arm(rules, now);
    }

    /// Sends the packet at this place again.
    fn repeat(&mut self, rules: &Snoop, place: usize, why: Why, now: Time, tape: &mut impl Tape) {
        let turn = (rules.begin(now), self.next_order());
        if let Some(entry) = self.cache.get_mut(place) {
            entry.repeats += 1;
            (entry.sent, entry.turn, entry.begins, entry.leaves) = (now, turn, now, now);
            tape.repeat(entry, why);
        }
    }

    /// The link is down until then: nothing is repeated before.
    pub(super) fn rest_until(&mut self, back: Time) {
        self.due = self.due.map(|due| due.max(back));
    }

    /// Repeats every packet below the highest that is selected, once per round trip; the first is left to the
    /// duplicate ACKs.
    fn repair_holes(&mut self, rules: &Snoop, sack: &SackBlocks, now: Time, tape: &mut impl Tape) {
        let mut highest = None;
        for &(start, end) in sack.as_slice() {
            let (start, end) = (start as u32, end as u32);
            if !before(start, end) || self.last_seen.is_none_or(|seen| before(seen, end)) {
                continue;
            }
            for entry in self.cache.iter_mut() {
                entry.sacked |= !before(entry.start(), start) && !before(end, entry.end());
            }
            highest = Some(highest.map_or(end, |known| if before(known, end) { end } else { known }));
        }
        let Some(highest) = highest else { return };
        let round_trip = self.clock.smoothed();
        for place in 1..self.cache.len() {
            let Some(entry) = self.cache.get_mut(place).filter(|entry| before(entry.start(), highest)) else {
                return;
            };
            let waits = entry.repeats > 0 && now.since(entry.sent) < round_trip;
            if !entry.sacked && !entry.by_sender && !waits && entry.repeats < rules.persist {
                self.repeat(rules, place, Why::Hole, now, tape);
            }
        }
    }

    /// The time has come that [`Agent::due`] says.
    pub(super) fn expire(&mut self, rules: &Snoop, now: Time, tape: &mut impl Tape) {
        self.due = None;
        let asked = |first: &&Entry| self.last_ack.is_none_or(|ack| !before(ack, first.start()));
        let Some(first) = self.cache.first().filter(asked) else { return };
        if first.repeats >= rules.persist {
            return;
        }
        self.expected = 0;
        self.backoff += 1;
        self.repeat_first(rules, Why::Timer, now, tape);
    }

    /// The host has come to another base station, which has the cache: everything that is not acknowledged is sent
    /// once, in order, from the place `hop` on, if the path is another one now.
    pub(super) fn arrive(&mut self, rules: &Snoop, hop: Option<u32>, now: Time, tape: &mut impl Tape) {
        for place in 0..self.cache.len() {
            let turn = (rules.begin(now), self.next_order());
            if let Some(entry) = self.cache.get_mut(place) {
                entry.hop = hop.unwrap_or(entry.hop);
                entry.repeats = 0;
                (entry.sent, entry.turn, entry.begins, entry.leaves) = (now, turn, now, now);
                entry.by_sender = false;
                tape.repeat(entry, Why::Handoff);
                // No sample comes of it.
                entry.repeats = 1;
            }
        }
        self.clock.least = None;
        // What was on its way over the old link may still cause duplicates; they say nothing about these copies.
        (self.expected, self.unexpected, self.backoff) = (0, 0, 0);
        self.arm(rules, now);
    }
}
