//! The agent of ns-2.35, with what is wrong with it as far as that changes results.
//!
//! Written from what its source does, bug by bug, for the profile `ns2`; the numbers are those of the reference page.
//! ns-2 counts whole packets; a packet stands here for where it begins.

use lasthop_core::packet::{Kind, Packet};
use lasthop_core::time::{Span, Time};

use super::Snoop;
use super::agent::{Arrived, Tape, Verdict, Why};
use super::cache::{Cache, before, range_of};

/// Places of the ring in which ns-2 keeps packets, whatever its parameter says (bug 5).
const RING: i64 = 100;
/// Its gain, which weighs the old value where others weigh the new one (bug 3).
const GAIN: f64 = 0.125;
/// Its round trip before the first sample, and the deviation.
const FIRST: (f64, f64) = (0.1, 0.25);
/// Repetitions of one packet in the state of which its source says that it is inconsistent.
const INCONSISTENT: u32 = 2;

/// What all agents of a base station share (bug 2): whether a first unexpected duplicate has been let through.
pub(super) type Threshold = bool;

/// The agent of one pair of hosts (bug 6).
#[derive(Clone, Debug)]
pub(super) struct Ns2Agent {
    cache: Cache,
    /// Position in the ring of the first packet of the cache, without wrapping.
    tail: i64,
    last_ack: Option<u32>,
    /// Where the newest packet begins.
    last_seen: Option<u32>,
    expected: i64,
    /// The position from which on packets cause duplicates.
    next_expected: i64,
    smoothed: f64,
    deviation: f64,
    pub(super) due: Option<Time>,
    alive: bool,
    sent: u64,
}

impl Default for Ns2Agent {
    fn default() -> Ns2Agent {
        Ns2Agent {
            cache: Cache::default(),
            tail: 0,
            last_ack: None,
            last_seen: None,
            expected: 0,
            next_expected: 0,
            smoothed: FIRST.0,
            deviation: FIRST.1,
            due: None,
            alive: false,
            sent: 0,
        }
    }
}

impl Ns2Agent {
    fn head(&self) -> i64 {
        self.tail + self.cache.len() as i64
    }

    fn arm(&mut self, rules: &Snoop, now: Time) {
        let usual = Span::from_seconds(self.smoothed + 4.0 * self.deviation);
        // Never longer the second time (bug 10).
        self.due = Some(now + usual.max(rules.min_timeout));
    }

    pub(super) fn cached(&self) -> usize {
        self.cache.len()
    }

    /// The packet that was kept last, for what it carries beyond its header.
    pub(super) fn entry_mut(&mut self, start: u32) -> Option<&mut super::cache::Entry> {
        let place = self.cache.find(start)?;
        self.cache.get_mut(place)
    }

    /// A packet from the sender; whether it is kept now.
    pub(super) fn data(&mut self, rules: &Snoop, arrived: &Arrived<'_>) -> bool {
        let (start, end) = range_of(arrived.packet);
        if start == end {
            return false;
        }
        // The first packet of a connection wipes everything, even when it is sent again (bug 7).
        if self.alive && start == 0 {
            let (smoothed, deviation) = (self.smoothed, self.deviation);
            *self = Ns2Agent { smoothed, deviation, ..Ns2Agent::default() };
        }
        self.alive = true;
        if self.cache.len() >= rules.cache as usize {
            if self.last_seen.is_none_or(|seen| before(seen, start)) {
                self.last_seen = Some(start);
            }
            return false;
        }
        let (mut kept, mut is_tail) = (false, false);
        if arrived.has_room {
            (kept, is_tail) = self.insert(arrived, start);
        }
        if is_tail {
            self.due = None;
        }
        if self.due.is_none() && !self.cache.is_empty() {
            self.arm(rules, arrived.now);
        }
        kept
    }

    /// Keeps a packet; whether it is a new one, and whether the timer starts again.
    fn insert(&mut self, arrived: &Arrived<'_>, start: u32) -> (bool, bool) {
        if self.last_ack.is_some_and(|ack| before(start, ack)) {
            return (false, false);
        }
        self.sent += 1;
        let entry = arrived.entry(self.sent, false);
        let is_newest = self.last_seen.is_none_or(|seen| before(seen, start));
        let mut is_first = self.cache.is_empty();
        if is_newest || is_first {
            self.cache.push(entry);
        } else if let Some(place) = self.cache.find(start) {
            if let Some(known) = self.cache.get_mut(place) {
                (known.repeats, known.by_sender, known.sent) = (0, true, arrived.now);
            }
            return (false, true);
        } else {
            let place = self.cache.place_of(start);
            is_first = place == 0;
            // What lies before it makes room downwards; behind the last one it is as any other.
            if place < self.cache.len() {
                self.tail -= 1;
            }
            self.cache.insert(place, entry);
        }
        if self.last_seen.is_some_and(|seen| before(start, seen)) {
            if is_first && let Some(first) = self.cache.get_mut(0) {
                first.by_sender = true;
            }
            self.next_expected = self.tail;
            return (true, true);
        }
        self.last_seen = Some(start);
        (true, false)
    }

    /// An ACK of the other end.
    pub(super) fn ack(
        &mut self,
        rules: &Snoop,
        packet: &Packet,
        threshold: &mut Threshold,
        now: Time,
        tape: &mut impl Tape,
    ) -> Verdict {
        let ack = packet.seq as u32;
        if !matches!(packet.kind, Kind::Ack | Kind::SynAck | Kind::FinAck) {
            return Verdict::Pass;
        }
        match self.last_ack {
            Some(last) if before(ack, last) => Verdict::Pass,
            Some(last) if ack == last => self.duplicate(rules, ack, threshold, now, tape),
            _ => {
                self.advance(rules, ack, now);
                Verdict::Pass
            }
        }
    }

    fn duplicate(
        &mut self,
        rules: &Snoop,
        ack: u32,
        threshold: &mut Threshold,
        now: Time,
        tape: &mut impl Tape,
    ) -> Verdict {
        let Some(first) = self.cache.first().filter(|first| !before(ack, first.start())) else {
            return Verdict::Pass;
        };
        let (by_sender, repeats) = (first.by_sender, first.repeats);
        match self.expected {
            0 => {
                // Every second one, of whatever connection (bug 2).
                *threshold = !*threshold;
                if *threshold || by_sender {
                    return Verdict::Pass;
                }
                self.expected = (self.head() - self.next_expected).rem_euclid(RING) - 2;
                self.next_expected = self.tail + 1;
                if repeats == 0 { self.repeat(rules, Why::Duplicate, now, tape) } else { Verdict::Pass }
            }
            1.. => {
                self.expected -= 1;
                Verdict::Withhold
            }
            -1 if repeats < INCONSISTENT => self.repeat(rules, Why::Duplicate, now, tape),
            _ => Verdict::Pass,
        }
    }

    fn advance(&mut self, rules: &Snoop, ack: u32, now: Time) {
        self.due = None;
        let mut newest = None;
        while let Some(first) = self.cache.first()
            && before(first.start(), ack)
        {
            newest = Some(first.sent);
            self.cache.pop_first();
            self.tail += 1;
        }
        if !self.cache.is_empty() {
            self.arm(rules, now);
        }
        // Packets that were sent again count too (bug 4).
        if let Some(sent) = newest
            && now > sent
        {
            let sample = now.since(sent).seconds();
            self.smoothed = GAIN * self.smoothed + (1.0 - GAIN) * sample;
            let away = (sample - self.smoothed).abs();
            self.deviation =
                if self.deviation == 0.0 { away } else { GAIN * away + (1.0 - GAIN) * self.deviation };
        }
        self.expected = 0;
        self.next_expected = self.tail;
        self.last_ack = Some(ack);
    }

    fn repeat(&mut self, rules: &Snoop, why: Why, now: Time, tape: &mut impl Tape) -> Verdict {
        let Some(first) = self.cache.get_mut(0).filter(|first| first.repeats < rules.persist) else {
            return Verdict::Pass;
        };
        first.repeats += 1;
        first.sent = now;
        tape.repeat(first, why);
        self.arm(rules, now);
        Verdict::Withhold
    }

    /// The time has come that `due` says.
    pub(super) fn expire(&mut self, rules: &Snoop, now: Time, tape: &mut impl Tape) {
        self.due = None;
        let asked = self.last_ack.unwrap_or(0);
        if self.cache.first().is_some_and(|first| first.start() == asked)
            && self.repeat(rules, Why::Timer, now, tape) == Verdict::Withhold
        {
            self.next_expected = self.tail + 1;
        }
    }
}
