//! One TCP connection of a capture: round trips on both sides of the place of capture, losses before and behind it,
//! and what was delivered when.
//!
//! Data are those of the direction with more payload. Sequence numbers are counted from the first one seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::read::{Packet, Tcp};

/// A hole that is filled within this time was made by reordering. Fast retransmission takes a round trip.
const REORDERED_NS: u64 = 3_000_000;
/// Repeated acknowledgements that say that a segment is missing (RFC 5681), where no SACK says it.
const DUPLICATES: u32 = 3;
/// Full segments that a receiver may acknowledge together (RFC 5681).
const HELD_BACK: u64 = 2;
/// Most timestamps that are remembered for the echo.
const MOST_STAMPS: usize = 4_096;
/// Most timeouts that are looked at, and of each the segments that were sent last.
const MOST_FLIGHTS: usize = 4_096;
const MOST_SEGMENTS: usize = 256;

/// Bytes that came through at a time; `breaks` where what came before has nothing to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at_ns: u64,
    pub(super) bytes: u64,
    pub(super) breaks: bool,
}

/// Lost bytes: where they are in the stream, and the last round trip before they were missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loss {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) packets: u32,
    pub(super) rtt_ns: Option<u64>,
    /// Whether it was missing beyond doubt: a hole, or the next byte that the receiver had asked for again.
    pub(super) sure: bool,
    /// The silence of [`Followed::silences`] in which it was lost, if it was in one.
    pub(super) silence: Option<usize>,
}

/// A time in which all that was sent was lost and the receiver said nothing, until a timer of the sender ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// When the first packet was sent that was lost in it.
    pub(super) from_ns: u64,
    /// From then until the last packet was sent that was lost in it, and until the first that was not.
    pub(super) least_ns: u64,
    pub(super) most_ns: u64,
    /// Transmissions that were lost in it.
    pub(super) lost: u64,
}

/// A round trip of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// When it ended.
    pub(super) at_ns: u64,
    /// Length of the packet that went towards the receiver of the data.
    pub(super) bytes: u32,
    pub(super) rtt_ns: u64,
    /// Whether no timer of the receiver can have made it longer: the answer was for two segments.
    pub(super) prompt: bool,
}

/// What a connection showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    /// Packets with payload.
    pub(super) data: u64,
    /// Of these, full ones: their IP length and payload.
    pub(super) full: (u32, u32),
    pub(super) payload: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// From here to the receiver and back.
    pub(super) ahead: Vec<Sample>,
    /// From here to the sender and back; of the handshake and of echoed timestamps.
    pub(super) behind: Vec<Sample>,
    /// Lost before the place of capture, and behind it.
    pub(super) before: Vec<Loss>,
    pub(super) after: Vec<Loss>,
    /// Segments that were sent once more although they had arrived, and of these as far as one can tell.
    pub(super) in_vain: u64,
    pub(super) perhaps_in_vain: u64,
    pub(super) reordered: u64,
    pub(super) silences: Vec<Silence>,
    /// Payload that arrived here, and payload that was acknowledged here.
    pub(super) arrived: Vec<Step>,
    pub(super) acked: Vec<Step>,
}

/// A segment that is not acknowledged yet.
struct Waiting {
    end: u64,
    at_ns: u64,
    bytes: u32,
    again: bool,
}

/// A segment that was seen here and is sent once more: it was lost behind this place, or it is repeated in vain.
struct Repeat {
    loss: Loss,
    at_ns: u64,
    /// Its timestamp.
    stamp: Option<u32>,
    /// Time until it was acknowledged.
    answered_ns: Option<u64>,
    /// Whether what was sent before had arrived, as the receiver says.
    in_vain: bool,
    /// Whether it seems so: the ACK that covered it was for an older segment, and for more than a receiver may hold
    /// back. One that merges what it receives, or ACKs that were lost, look the same.
    perhaps: bool,
    /// The flight of [`State::flights`] that it belongs to.
    flight: Option<usize>,
}

/// What was under way when the timer of the sender ran out: begin and end of each segment, and when it was sent.
struct Flight {
    segments: Vec<(u64, u64, u64)>,
    /// When the oldest segment was repeated; nothing was heard between these times.
    again: Vec<u64>,
    /// When the receiver was heard last before them.
    heard_ns: u64,
}

/// Sequence numbers as places in the stream: offsets from the first byte.
#[derive(Default)]
pub(super) struct Numbers(Option<u32>);

impl Numbers {
    /// The stream begins with this number.
    pub(super) fn begin(&mut self, first: u32) {
        self.0 = Some(first);
    }

    /// A number as an offset from the first, near `near`.
    pub(super) fn offset(&mut self, number: u32, near: u64) -> u64 {
        let first = *self.0.get_or_insert(number);
        let low = number.wrapping_sub(first);
        // The nearest number with these lowest 32 bits.
        let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
        near.saturating_add_signed(ahead)
    }
}

/// What is known while a connection is followed.
#[derive(Default)]
struct State {
    shown: Followed,
    numbers: Numbers,
    /// End of the highest data seen, and the highest acknowledgement.
    highest: u64,
    acked: u64,
    waiting: VecDeque<Waiting>,
    /// Missing here: begin, end, when it was noticed, the round trip then.
    holes: BTreeMap<u64, (u64, u64, Option<u64>)>,
    /// Selectively acknowledged.
    sacked: BTreeMap<u64, u64>,
    /// Whether the receiver says what has arrived behind a hole.
    has_sack: bool,
    duplicates: u32,
    /// Repeated segments; of those not acknowledged yet, the places by their ends, and of all the latest by its begin.
    repeats: Vec<Repeat>,
    open: BTreeMap<u64, Vec<usize>>,
    latest: BTreeMap<u64, usize>,
    /// What was sent up to here met a hole before this place, and up to here any hole: its acknowledgement had to wait
    /// for a repair.
    behind_hole: u64,
    unclean: u64,
    syn: Option<(u64, bool)>,
    stamps: BTreeMap<u32, u64>,
    last_ahead: Option<u64>,
    last_behind: Option<u64>,
    /// When the receiver was heard last, and the longest round trip to it.
    heard_ns: u64,
    longest_ns: u64,
    flights: Vec<Flight>,
}

/// Follows the packets of one connection, in the order of time. `forward` is the way of its data.
pub(super) fn follow<'p>(packets: impl Iterator<Item = &'p Packet>, forward: bool) -> Followed {
    let mut state = State::default();
    let mut begun = false;
    for packet in packets {
        let Some(tcp) = packet.tcp else { continue };
        if !begun {
            (state.shown.begin_ns, begun) = (packet.at_ns, true);
        }
        state.shown.end_ns = packet.at_ns;
        if tcp.syn {
            state.handshake(packet.at_ns, tcp, packet.forward == forward);
            if packet.forward == forward {
                state.numbers.begin(tcp.seq.wrapping_add(1));
            }
        } else if packet.forward == forward {
            state.data(packet, tcp);
        } else {
            state.answer(packet, tcp);
        }
    }
    // What is still missing at the end was lost, if there was time to repair it.
    let wait = state.shown.behind.iter().chain(&state.shown.ahead).map(|one| one.rtt_ns).max();
    for (begin, (end, noticed, rtt_ns)) in std::mem::take(&mut state.holes) {
        if state.shown.end_ns - noticed > wait.unwrap_or(REORDERED_NS) {
            let packets = state.packets_in(begin, end);
            state.shown.before.push(Loss { begin, end, packets, rtt_ns, sure: true, silence: None });
        }
    }
    state.judge_repeats();
    state.shown
}

impl State {
    fn packets_in(&self, begin: u64, end: u64) -> u32 {
        ((end - begin).div_ceil(u64::from(self.shown.full.1.max(1)))).max(1) as u32
    }

    /// SYN, SYN-ACK: the time from one to the other leads to one end and back; what follows, to the other.
    fn handshake(&mut self, at_ns: u64, tcp: Tcp, of_data: bool) {
        if !tcp.has_ack {
            self.syn = Some((at_ns, of_data));
        } else if let Some((sent, by_data)) = self.syn {
            let rtt = at_ns - sent;
            self.of_handshake(at_ns, by_data, (60, rtt));
            self.syn = Some((at_ns, of_data));
        }
    }

    fn of_handshake(&mut self, at_ns: u64, ahead: bool, (bytes, rtt_ns): (u32, u64)) {
        let list = if ahead { &mut self.shown.ahead } else { &mut self.shown.behind };
        list.push(Sample { at_ns, bytes, rtt_ns, prompt: true });
    }

    /// The first packet behind a SYN-ACK ends its round trip.
    fn ends_handshake(&mut self, at_ns: u64, of_data: bool, bytes: u32) {
        if let Some((sent, by_data)) = self.syn
            && by_data != of_data
        {
            self.syn = None;
            let rtt = at_ns - sent;
            self.of_handshake(at_ns, !of_data, (bytes, rtt));
        }
    }

    fn data(&mut self, packet: &Packet, tcp: Tcp) {
        self.ends_handshake(packet.at_ns, true, packet.bytes);
        if packet.payload == 0 {
            return;
        }
        let begin = self.numbers.offset(tcp.seq, self.highest);
        let end = begin + u64::from(packet.payload);
        self.shown.data += 1;
        self.shown.payload += u64::from(packet.payload);
        self.shown.full = self.shown.full.max((packet.bytes, packet.payload));
        let new = end > self.highest;
        let echoed = self.echoed(packet, tcp);
        if begin > self.highest && self.shown.data > 1 {
            // The round trip before may be of long ago, and that of this packet is of a queue that has drained since.
            self.holes.insert(self.highest, (begin, packet.at_ns, self.last_behind.max(echoed)));
        } else if let Some(rtt_ns) = echoed.filter(|_| new) {
            let (at_ns, bytes) = (packet.at_ns, packet.bytes);
            self.shown.behind.push(Sample { at_ns, bytes, rtt_ns, prompt: false });
            self.last_behind = echoed;
        } else if !new {
            self.repeated(packet, tcp, (begin, end));
        }
        let breaks = !self.holes.is_empty();
        self.shown.arrived.push(Step {
            at_ns: packet.at_ns,
            bytes: u64::from(packet.bytes),
            breaks: breaks && !new,
        });
        if new {
            self.highest = end;
            self.waiting.push_back(Waiting { end, at_ns: packet.at_ns, bytes: packet.bytes, again: false });
        }
        if breaks {
            (self.behind_hole, self.unclean) = (self.highest, self.highest);
        }
    }

    /// The echo of a timestamp ends the round trip to the sender; it may have had nothing to send for a while.
    fn echoed(&mut self, packet: &Packet, tcp: Tcp) -> Option<u64> {
        let sent = self.stamps.remove(&tcp.times?.1)?;
        Some(packet.at_ns - sent)
    }

    /// Data from before the highest: it fills a hole, or it was seen here and is sent once more.
    fn repeated(&mut self, packet: &Packet, tcp: Tcp, (begin, end): (u64, u64)) {
        let hole = self.holes.range(..end).next_back().filter(|(_, hole)| hole.0 > begin);
        if let Some((&from, &(until, noticed, rtt_ns))) = hole {
            self.holes.remove(&from);
            if from < begin {
                self.holes.insert(from, (begin, noticed, rtt_ns));
            }
            if end < until {
                self.holes.insert(end, (until, noticed, rtt_ns));
            }
            // Nothing is repeated within half of the round trip to the sender.
            let half = self.shown.behind.first().map_or(REORDERED_NS, |one| one.rtt_ns / 2);
            if packet.at_ns - noticed <= half.min(REORDERED_NS) {
                self.shown.reordered += 1;
            } else {
                self.shown.before.push(Loss { begin, end, packets: 1, rtt_ns, sure: true, silence: None });
            }
            return;
        }
        // The receiver has it, and the sender had not heard of that.
        let has = end <= self.acked || self.is_sacked(begin, end);
        let asked = self.duplicates >= DUPLICATES || (self.duplicates > 0 && !self.sacked.is_empty());
        let sure = asked && begin == self.acked && begin >= self.behind_hole;
        for waiting in self.waiting.iter_mut().filter(|one| one.end > begin && one.end <= end) {
            waiting.again = true;
        }
        let flight = self.flight_of(packet.at_ns, (begin, end), has);
        // A packet that was sent again after a silence met no queue of this connection.
        let again = self.latest.get(&begin).is_some_and(|&place| self.repeats[place].flight.is_some());
        let rtt_ns = self.last_ahead.filter(|_| !again);
        let place = self.repeats.len();
        if !has {
            self.open.entry(end).or_default().push(place);
        }
        if self.latest.len() == MOST_STAMPS {
            self.latest.pop_first();
        }
        self.latest.insert(begin, place);
        self.repeats.push(Repeat {
            loss: Loss { begin, end, packets: 1, rtt_ns, sure, silence: None },
            at_ns: packet.at_ns,
            stamp: tcp.times.map(|times| times.0),
            answered_ns: None,
            in_vain: has,
            perhaps: false,
            flight,
        });
    }

    /// The flight that a repeated segment belongs to. The oldest one that is repeated after a silence longer than any
    /// round trip begins another, if the receiver did not ask for it.
    fn flight_of(&mut self, at_ns: u64, (begin, end): (u64, u64), has: bool) -> Option<usize> {
        let silent = at_ns.saturating_sub(self.heard_ns) > self.longest_ns.max(REORDERED_NS);
        if silent && !has && begin == self.acked && self.duplicates == 0 && self.longest_ns > 0 {
            let full = self.flights.len() == MOST_FLIGHTS;
            match self.flights.last_mut() {
                // Nothing was heard since the last time.
                Some(last) if last.heard_ns == self.heard_ns => last.again.push(at_ns),
                _ if full => return None,
                _ => {
                    let mut from = self.acked;
                    let segment = |one: &Waiting| (std::mem::replace(&mut from, one.end), one.end, one.at_ns);
                    let early = self.waiting.len().saturating_sub(MOST_SEGMENTS);
                    let segments = self.waiting.iter().map(segment).skip(early).collect();
                    self.flights.push(Flight { segments, again: vec![at_ns], heard_ns: self.heard_ns });
                }
            }
        }
        let last = self.flights.last()?;
        let (first, until) = (last.segments.first()?.0, last.segments.last()?.1);
        (first <= begin && end <= until).then(|| self.flights.len() - 1)
    }

    /// The silences: what was sent last of a flight, up to its end, was lost without an exception. What was sent
    /// before may have arrived, and its acknowledgements been lost.
    fn judge_flights(&mut self) {
        let mut lost = vec![BTreeSet::new(); self.flights.len()];
        for loss in &self.shown.after {
            if let Some(flight) = loss.silence {
                lost[flight].insert(loss.end);
            }
        }
        let mut begins = vec![None; self.flights.len()];
        for ((flight, lost), begin) in self.flights.iter().zip(&lost).zip(&mut begins) {
            let tail = flight.segments.iter().rev().take_while(|segment| lost.contains(&segment.1));
            let tail: Vec<_> = tail.collect();
            let [latest, ..] = tail[..] else { continue };
            let (first, [before @ .., passed]) = (tail[tail.len() - 1], &flight.again[..]) else { continue };
            *begin = Some((first.0, self.shown.silences.len()));
            let last = before.last().map_or(latest.2, |&again| again.max(latest.2));
            self.shown.silences.push(Silence {
                from_ns: first.2,
                least_ns: last - first.2,
                most_ns: passed - first.2,
                lost: (tail.len() + before.len()) as u64,
            });
        }
        for loss in &mut self.shown.after {
            let silence = loss.silence.and_then(|flight| begins[flight]);
            loss.silence = silence.filter(|&(begin, _)| loss.begin >= begin).map(|(_, place)| place);
        }
    }

    fn is_sacked(&self, begin: u64, end: u64) -> bool {
        self.sacked.range(..=begin).next_back().is_some_and(|(_, &until)| until >= end)
    }

    /// The first block of an ACK reports a segment that came twice (RFC 2883): the latest retransmission was in vain.
    fn duplicate_reported(&mut self, begin: u64, end: u64) {
        for (_, &place) in self.latest.range(begin..end) {
            let repeat = &mut self.repeats[place];
            repeat.in_vain |= repeat.loss.end <= end;
        }
    }

    /// Everything up to `ack` has arrived. If it echoes a timestamp from before the retransmission of the oldest
    /// segment, what was sent before it was what arrived (RFC 3522).
    fn repeats_answered(&mut self, at_ns: u64, ack: u64, echo: Option<u32>) {
        if self.open.is_empty() {
            return;
        }
        let jumps = ack - self.acked > HELD_BACK * u64::from(self.shown.full.1);
        let rest = self.open.split_off(&(ack + 1));
        for place in std::mem::replace(&mut self.open, rest).into_values().flatten() {
            let repeat = &mut self.repeats[place];
            repeat.answered_ns = Some(at_ns - repeat.at_ns);
            let older = |(echo, stamp): (u32, u32)| (echo.wrapping_sub(stamp) as i32) < 0;
            let oldest = repeat.loss.begin <= self.acked;
            repeat.in_vain |= repeat.loss.begin == self.acked && echo.zip(repeat.stamp).is_some_and(older);
            repeat.perhaps = jumps && !oldest;
        }
    }

    /// Tells losses from retransmissions in vain, when the shortest round trip is known: what is acknowledged sooner
    /// had arrived before.
    fn judge_repeats(&mut self) {
        let least = self.shown.ahead.iter().map(|one| one.rtt_ns).min().unwrap_or(0);
        for repeat in &self.repeats {
            if repeat.in_vain || repeat.answered_ns.is_some_and(|after| after < least) {
                self.shown.in_vain += 1;
            } else if repeat.perhaps && !self.has_sack {
                self.shown.in_vain += 1;
                self.shown.perhaps_in_vain += 1;
            } else {
                self.shown.after.push(Loss { silence: repeat.flight, ..repeat.loss });
            }
        }
        self.judge_flights();
    }

    fn answer(&mut self, packet: &Packet, tcp: Tcp) {
        self.ends_handshake(packet.at_ns, false, 60);
        self.heard_ns = packet.at_ns;
        if !tcp.has_ack {
            return;
        }
        if let Some((own, _)) = tcp.times {
            if self.stamps.len() == MOST_STAMPS {
                self.stamps.pop_first();
            }
            // The first packet with a time is the one that is echoed.
            self.stamps.entry(own).or_insert(packet.at_ns);
        }
        let ack = self.numbers.offset(tcp.ack, self.acked.max(1));
        if let Some((begin, end)) = tcp.sacked {
            let (begin, end) = (self.numbers.offset(begin, self.acked), self.numbers.offset(end, self.acked));
            self.has_sack = true;
            if end > begin && tcp.twice {
                self.duplicate_reported(begin, end);
            } else if end > begin {
                self.sacked.insert(begin, end);
            }
        }
        if ack <= self.acked {
            if packet.payload == 0 && !tcp.ends && !self.waiting.is_empty() {
                self.duplicates += 1;
                self.unclean = self.highest;
            }
            return;
        }
        self.repeats_answered(packet.at_ns, ack, tcp.times.map(|times| times.1));
        self.advance(packet.at_ns, ack);
    }

    /// Everything up to `ack` has arrived.
    fn advance(&mut self, at_ns: u64, ack: u64) {
        let (mut newest, mut clean) = (None, ack > self.unclean);
        while let Some(waiting) = self.waiting.front().filter(|one| one.end <= ack) {
            clean &= !waiting.again;
            newest = Some((waiting.bytes, at_ns - waiting.at_ns, waiting.end));
            self.waiting.pop_front();
        }
        if let Some((bytes, rtt, end)) = newest
            && clean
            && end == ack
        {
            let prompt = ack - self.acked > u64::from(self.shown.full.1);
            self.shown.ahead.push(Sample { at_ns, bytes, rtt_ns: rtt, prompt });
            (self.last_ahead, self.longest_ns) = (Some(rtt), self.longest_ns.max(rtt));
        }
        let step = Step { at_ns, bytes: ack - self.acked, breaks: !clean };
        self.shown.acked.push(step);
        self.acked = ack;
        self.sacked = self.sacked.split_off(&ack);
        self.duplicates = 0;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// A packet of a connection whose data begin at byte 1.
    pub(in crate::capture) fn packet(at_ms: u64, forward: bool, payload: u32, tcp: Tcp) -> Packet {
        Packet {
            at_ns: at_ms * MILLI,
            flow: 0,
            forward,
            interface: 0,
            id: 0,
            bytes: payload + 40,
            payload,
            tcp: Some(tcp),
        }
    }

    pub(in crate::capture) const SEGMENT: Tcp = Tcp {
        seq: 1,
        ack: 1,
        syn: false,
        has_ack: true,
        ends: false,
        times: None,
        sacked: None,
        twice: false,
        window: 0,
        scale: None,
    };

    /// A handshake with a round trip of 20 ms behind the place of capture, at the sender.
    fn handshake() -> Vec<Packet> {
        let syn = Tcp { seq: 0, ack: 0, syn: true, has_ack: false, ..SEGMENT };
        let answer = Tcp { seq: 0, ack: 1, syn: true, ..SEGMENT };
        vec![packet(0, true, 0, syn), packet(20, false, 0, answer), packet(20, true, 0, SEGMENT)]
    }

    fn data(at_ms: u64, number: u32, stamp: Option<u32>) -> Packet {
        let times = stamp.map(|stamp| (stamp, 0));
        packet(at_ms, true, 1000, Tcp { seq: 1 + 1000 * number, times, ..SEGMENT })
    }

    /// An ACK of this many segments.
    fn ack(at_ms: u64, number: u32, echo: Option<u32>) -> Packet {
        let times = echo.map(|echo| (0, echo));
        packet(at_ms, false, 0, Tcp { ack: 1 + 1000 * number, times, ..SEGMENT })
    }

    /// Losses behind the place of capture, and retransmissions in vain, of a handshake and these packets.
    fn told(packets: &[Packet]) -> (usize, u64) {
        let all = [handshake(), packets.to_vec()].concat();
        let found = follow(all.iter(), true);
        (found.after.len(), found.in_vain)
    }

    /// Repeated after 300 ms and acknowledged 40 ms later: it was lost.
    #[test]
    fn a_loss_is_answered_a_round_trip_after_its_repetition() {
        assert_eq!(told(&[data(30, 0, None), data(330, 0, None), ack(370, 1, None)]), (1, 0));
    }

    /// What the receiver has acknowledged before, or acknowledges before the retransmission can have reached it.
    #[test]
    fn what_is_acknowledged_too_soon_had_arrived() {
        assert_eq!(told(&[data(30, 0, None), ack(320, 1, None), data(330, 0, None)]), (0, 1));
        assert_eq!(told(&[data(30, 0, None), data(330, 0, None), ack(345, 1, None)]), (0, 1));
        assert_eq!(told(&[data(30, 0, None), data(330, 0, None), ack(351, 1, None)]), (1, 0));
    }

    /// RFC 3522: the echo of the first transmission. That of the retransmission says nothing but that it came.
    #[test]
    fn the_echo_tells_which_arrived() {
        let of = |echo| told(&[data(30, 0, Some(100)), data(330, 0, Some(400)), ack(360, 1, Some(echo))]);
        assert_eq!((of(100), of(400)), ((0, 1), (1, 0)));
        // The receiver holds back the ACK of segment 0, and echoes it when the retransmission of segment 1 comes.
        let tail =
            [data(30, 0, Some(100)), data(31, 1, Some(101)), data(60, 1, Some(130)), ack(90, 2, Some(100))];
        assert_eq!(told(&tail), (1, 0));
    }

    /// Three segments in flight of which the first is lost, all repeated: the ACK jumps to the end.
    #[test]
    fn a_jump_says_what_was_there() {
        let sent: Vec<Packet> = (0..3).map(|number| data(30 + u64::from(number), number, None)).collect();
        let again: Vec<Packet> = (0..3).map(|number| data(330 + u64::from(number), number, None)).collect();
        assert_eq!(told(&[&sent[..], &again, &[ack(360, 3, None)]].concat()), (1, 2));
        // All three are lost: one ACK each, or one of two.
        let each = [ack(360, 1, None), ack(361, 3, None)];
        assert_eq!(told(&[&sent[..], &again, &each].concat()), (3, 0));
    }

    /// RFC 2883: the receiver says that a segment came twice.
    #[test]
    fn a_duplicate_sack_takes_a_loss_back() {
        let twice = Tcp { ack: 2001, sacked: Some((1, 1001)), twice: true, ..SEGMENT };
        let sent = [data(30, 0, None), data(31, 1, None), data(330, 0, None), ack(370, 2, None)];
        assert_eq!(told(&sent), (1, 0));
        assert_eq!(told(&[&sent[..], &[packet(372, false, 0, twice)]].concat()), (0, 1));
    }

    /// Five segments 10 ms apart of which the link takes the first; then it is down. The timer repeats the second at
    /// 500 ms, which is lost as well, and at 1500 ms, which passes.
    #[test]
    fn a_silence_takes_all_that_is_sent() {
        let sent: Vec<Packet> =
            (0..5).map(|number| data(30 + 10 * u64::from(number), number, None)).collect();
        let timer = [ack(50, 1, None), data(500, 1, None), data(1500, 1, None), ack(1520, 2, None)];
        let rest = (2..5).flat_map(|number| {
            let at = 1500 + 20 * u64::from(number);
            [data(at, number, None), ack(at + 20, number + 1, None)]
        });
        let all = [handshake(), sent, timer.to_vec(), rest.collect()].concat();
        let found = follow(all.iter(), true);
        let milli = |ns: u64| ns / MILLI;
        let silences: Vec<_> = (found.silences.iter())
            .map(|one| (milli(one.from_ns), milli(one.least_ns), milli(one.most_ns), one.lost))
            .collect();
        assert_eq!(silences, [(40, 460, 1460, 5)]);
        assert_eq!(found.after.len(), 5);
        assert!(found.after.iter().all(|loss| loss.silence == Some(0)), "{:?}", found.after);
    }
}
