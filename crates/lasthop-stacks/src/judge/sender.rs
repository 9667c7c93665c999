//! Loss recovery and congestion control of an end, for what it sends (RFC 9002).

use std::collections::{BTreeMap, BTreeSet};

use lasthop::{Span, Time};

use super::wire::{Acks, Packet, Piece};
use super::{ACK_DELAY_EXPONENT, Findings, GRANULARITY, MAX_ACK_DELAY, Rule, Told};

/// RFC 9002 §6.1.1: kPacketThreshold.
const PACKET_THRESHOLD: u64 = 3;
/// RFC 9002 §7.6.1: kPersistentCongestionThreshold.
const PERSISTENT: u64 = 3;
/// RFC 9002 §6.2.4: packets that a probe timeout may send.
const PROBES: u32 = 2;
/// RFC 9002 §7.2: the initial window, in packets and in bytes.
const INITIAL_PACKETS: u64 = 10;
const INITIAL_BYTES: u64 = 14_720;
/// RFC 9002 §7.2: kMinimumWindow, in packets.
const LEAST_PACKETS: u64 = 2;
/// Samples of the RTT behind which the handshake's, which the judge does not see, weigh nothing: (7/8)^128 is 4e-8.
const SETTLED: u32 = 128;
/// By what times may be off for being rounded in another way.
const ROUNDING: Span = Span(1000);

/// Estimates of RFC 9002 §5.
#[derive(Clone, Copy, Debug)]
struct Rtt {
    latest: Span,
    smoothed: Span,
    variation: Span,
    least: Span,
    samples: u32,
}

impl Rtt {
    fn first(sample: Span) -> Rtt {
        Rtt { latest: sample, smoothed: sample, variation: Span(sample.0 / 2), least: sample, samples: 1 }
    }

    /// RFC 9002 §5.2 and §5.3.
    fn next(self, sample: Span, delay: Span) -> Rtt {
        let least = self.least.min(sample);
        let delay = delay.min(MAX_ACK_DELAY);
        let adjusted = if sample >= least + delay { sample - delay } else { sample };
        let off = self.smoothed.0.abs_diff(adjusted.0);
        Rtt {
            latest: sample,
            smoothed: Span((7 * self.smoothed.0 + adjusted.0) / 8),
            variation: Span((3 * self.variation.0 + off) / 4),
            least,
            samples: self.samples.saturating_add(1),
        }
    }

    /// RFC 9002 §6.1.2: kTimeThreshold is 9/8.
    fn loss_delay(self) -> Span {
        Span(self.latest.max(self.smoothed).0 * 9 / 8).max(GRANULARITY)
    }

    /// RFC 9002 §6.2.1, before it is doubled.
    fn probe_timeout(self) -> Span {
        self.smoothed + Span(4 * self.variation.0).max(GRANULARITY) + MAX_ACK_DELAY
    }
}

/// A packet that was sent and is neither acknowledged nor lost.
#[derive(Clone, Debug)]
struct Sent {
    at: Time,
    bytes: u64,
    elicits: bool,
    in_flight: bool,
    /// Probes for longer packets: their loss says nothing of congestion (RFC 9000 §14.4).
    is_long: bool,
    data: Vec<Piece>,
}

/// What has changed since the sender last told its window.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    acked: u64,
    reductions: u32,
    is_persistent: bool,
}

/// What a sender has sent, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    is_newreno: bool,
    unsettled: BTreeMap<u64, Sent>,
    /// The packet that last carried a byte of a stream, by stream and offset, with the offset of its end.
    carried: BTreeMap<(u64, u64), (u64, u64)>,
    /// What is acknowledged above the lowest that is not settled.
    acknowledged: BTreeSet<u64>,
    in_flight: u64,
    largest: Option<u64>,
    rtt: Option<Rtt>,
    /// When the first sample was taken: what was sent before does not count for persistent congestion.
    sampled: Option<Time>,
    /// When the last packet left that must be acknowledged.
    last: Option<Time>,
    /// Probe timeouts in a row, and packets that the last of them may still send.
    timeouts: u32,
    probes: u32,
    /// A packet may leave above the window as recovery begins (RFC 9002 §7.3.2).
    is_entering: bool,
    recovery: Option<Time>,
    marked: u64,
    lost: u64,
    /// Losses that were not yet compared with what the sender counts.
    uncompared: u64,
    /// What the sender counts above the judge: the handshake's losses. Since when it is otherwise.
    above: Option<i64>,
    off_since: Option<Time>,
    window: Option<u64>,
    changes: Changes,
    burst: (Time, u64, u64),
    packet_bytes: u64,
}

impl Sender {
    pub(super) fn new(is_newreno: bool) -> Sender {
        Sender {
            is_newreno,
            unsettled: BTreeMap::new(),
            carried: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            in_flight: 0,
            largest: None,
            rtt: None,
            sampled: None,
            last: None,
            timeouts: 0,
            probes: 0,
            is_entering: false,
            recovery: None,
            marked: 0,
            lost: 0,
            uncompared: 0,
            above: None,
            off_since: None,
            window: None,
            changes: Changes::default(),
            burst: (Time::ZERO, 0, 0),
            packet_bytes: 1200,
        }
    }

    fn is_settled(&self) -> bool {
        self.rtt.is_some_and(|rtt| rtt.samples >= SETTLED)
    }

    pub(super) fn send(&mut self, now: Time, packet: &Packet, told: Told, findings: &mut Findings) {
        self.pass(now + ROUNDING);
        self.packet_bytes = told.packet_bytes.unwrap_or(self.packet_bytes);
        let number = packet.number;
        if packet.elicits {
            self.probe(now, number, findings);
        }
        self.repeated(now, packet, findings);
        if packet.in_flight {
            self.in_flight += packet.bytes;
            self.flight(now, packet, told, findings);
            self.burst(now, packet, findings);
            self.probes = self.probes.saturating_sub(1);
        }
        if packet.elicits {
            self.last = Some(now);
        }
        let sent = Sent {
            at: now,
            bytes: packet.bytes,
            elicits: packet.elicits,
            in_flight: packet.in_flight,
            is_long: self.is_long(packet),
            data: packet.data.clone(),
        };
        self.unsettled.insert(number, sent);
        self.tell(now, number, told, findings);
    }

    pub(super) fn receive(&mut self, now: Time, packet: &Packet, told: Told, findings: &mut Findings) {
        // What arrives at an instant comes before its timers.
        self.pass(Time(now.0.saturating_sub(1)));
        self.missed(now, findings);
        self.packet_bytes = told.packet_bytes.unwrap_or(self.packet_bytes);
        if let Some(acks) = &packet.acks {
            self.acknowledge(now, acks, told, findings);
        }
        self.tell(now, packet.number, told, findings);
    }

    pub(super) fn finish(&mut self, now: Time, findings: &mut Findings) {
        self.pass(now);
        self.missed(now, findings);
        self.end_burst(findings);
    }

    /// When losses by time are due next.
    fn loss_time(&self) -> Option<Time> {
        let (rtt, largest) = (self.rtt?, self.largest?);
        // Numbers are in the order of times: the lowest is the first.
        let (_, first) = self.unsettled.range(..=largest).next()?;
        Some(first.at + rtt.loss_delay())
    }

    /// Timers up to a time.
    fn pass(&mut self, now: Time) {
        while let Some(at) = self.loss_time().filter(|&at| at <= now) {
            self.detect(at, false);
        }
    }

    /// RFC 9002 §6.2.1: none while a loss by time is waited for.
    fn probe_time(&self) -> Option<Time> {
        if self.loss_time().is_some() || !self.unsettled.values().any(|sent| sent.elicits) {
            return None;
        }
        let period = self.rtt?.probe_timeout().0.saturating_mul(1 << self.timeouts.min(30));
        Some(Time(self.last?.0.saturating_add(period)))
    }

    /// Whether this packet is a probe, and in time.
    fn probe(&mut self, now: Time, number: u64, findings: &mut Findings) {
        let Some(due) = self.probe_time().filter(|&due| due <= now + ROUNDING) else { return };
        if self.is_settled() {
            findings.check(now.since(due) <= GRANULARITY, (Rule::Probe, now, number), || {
                format!("leaves {} after timeout {} was due", now.since(due), self.timeouts + 1)
            });
        }
        self.timeouts += 1;
        self.probes = PROBES;
    }

    /// A probe that was due and did not leave.
    fn missed(&mut self, now: Time, findings: &mut Findings) {
        let Some(due) = self.probe_time().filter(|&due| due + GRANULARITY < now) else { return };
        if self.is_settled() {
            let number = self.unsettled.last_key_value().map_or(0, |(&number, _)| number);
            findings.check(false, (Rule::Probe, due, number), || {
                format!("timeout {} ended, and no probe left", self.timeouts + 1)
            });
        }
        self.timeouts += 1;
        self.last = Some(due);
    }

    /// Data of packets that are under way is repeated by probes alone.
    fn repeated(&mut self, now: Time, packet: &Packet, findings: &mut Findings) {
        for &Piece { stream, from, to } in &packet.data {
            let mut earlier = None;
            while let Some((&(_, start), &(end, number))) =
                self.carried.range((stream, 0)..(stream, to)).next_back()
                && end > from
            {
                earlier = earlier.max(Some(number));
                self.carried.remove(&(stream, start));
                if end > to {
                    self.carried.insert((stream, to), (end, number));
                }
                if start < from {
                    self.carried.insert((stream, start), (from, number));
                }
            }
            if to > from {
                self.carried.insert((stream, from), (to, packet.number));
            }
            let Some(earlier) = earlier.filter(|_| self.is_settled()) else { continue };
            let is_free = self.probes > 0 || !self.unsettled.contains_key(&earlier);
            findings.check(is_free, (Rule::Repeated, now, packet.number), || {
                format!("repeats bytes {from} to {to} of packet {earlier}, which is not lost")
            });
        }
    }

    /// RFC 9002 §7: probes and a packet as recovery begins excepted.
    fn flight(&mut self, now: Time, packet: &Packet, told: Told, findings: &mut Findings) {
        let Some(window) = told.window else { return };
        let is_within = self.in_flight <= window;
        if !is_within && self.probes == 0 && std::mem::take(&mut self.is_entering) {
            return;
        }
        let is_long = self.is_long(packet);
        findings.check(is_within || self.probes > 0, (Rule::Flight, now, packet.number), || {
            let what = if is_long { "with a probe for longer packets " } else { "" };
            format!("{what}{} B are in flight, and the window is {window} B", self.in_flight)
        });
    }

    /// A probe for longer packets than those so far.
    fn is_long(&self, packet: &Packet) -> bool {
        packet.is_empty && packet.bytes > self.packet_bytes
    }

    /// RFC 9002 §7.7.
    fn burst(&mut self, now: Time, packet: &Packet, findings: &mut Findings) {
        if self.burst.0 != now {
            self.end_burst(findings);
            self.burst = (now, packet.number, 0);
        }
        self.burst.2 += packet.bytes;
    }

    fn end_burst(&mut self, findings: &mut Findings) {
        let (at, number, bytes) = self.burst;
        let size = self.packet_bytes;
        let most = (INITIAL_PACKETS * size).min(INITIAL_BYTES.max(LEAST_PACKETS * size));
        if bytes > 0 {
            findings.check(bytes <= most, (Rule::Burst, at, number), || {
                format!("{bytes} B leave at once, and an initial window is {most} B")
            });
        }
    }

    fn acknowledge(&mut self, now: Time, acks: &Acks, told: Told, findings: &mut Findings) {
        let mut newly = Vec::new();
        for range in &acks.ranges {
            newly.extend(self.unsettled.range(range.clone()).map(|(&number, _)| number));
        }
        let mut acked = Vec::new();
        for number in newly {
            acked.extend(self.unsettled.remove(&number).map(|sent| (number, sent)));
        }
        if acked.is_empty() {
            return;
        }
        let largest = *acks.ranges[0].end();
        let is_new = self.largest < Some(largest);
        self.largest = self.largest.max(Some(largest));
        let newest = acked.iter().find(|(number, _)| *number == largest).map(|(_, sent)| sent.at);
        if let Some(sent) = newest
            && acked.iter().any(|(_, sent)| sent.elicits)
        {
            let sample = now.since(sent);
            let delay = Span((acks.delay << ACK_DELAY_EXPONENT).saturating_mul(1000));
            let rtt = self.rtt.map_or(Rtt::first(sample), |rtt| rtt.next(sample, delay));
            self.rtt = Some(rtt);
            self.sampled.get_or_insert(now);
            if let Some(told) = told.rtt.filter(|_| self.is_settled()) {
                let is_same = told.0.abs_diff(rtt.smoothed.0) <= ROUNDING.0;
                findings.check(is_same, (Rule::Rtt, now, largest), || {
                    format!("the smoothed RTT is {told}, and by the samples {}", rtt.smoothed)
                });
            }
        }
        for (number, sent) in &acked {
            self.acknowledged.insert(*number);
            if sent.in_flight {
                self.in_flight -= sent.bytes;
                self.changes.acked += sent.bytes;
            }
            for piece in &sent.data {
                let place = (piece.stream, piece.from);
                if self.carried.get(&place) == Some(&(piece.to, *number)) {
                    self.carried.remove(&place);
                }
            }
        }
        self.detect(now, true);
        let lowest = self.unsettled.first_key_value().map_or(u64::MAX, |(&number, _)| number);
        self.acknowledged = self.acknowledged.split_off(&lowest);
        self.timeouts = 0;
        self.probes = 0;
        if let Some(sent) = newest.filter(|_| is_new)
            && acks.marked > Some(self.marked)
        {
            self.congested(now, sent);
        }
        self.marked = self.marked.max(acks.marked.unwrap_or(0));
    }

    /// RFC 9002, appendix A.10.
    fn detect(&mut self, now: Time, is_acknowledged: bool) {
        let (Some(rtt), Some(largest)) = (self.rtt, self.largest) else { return };
        let is_lost = |number: u64, sent: &Sent| {
            largest >= number + PACKET_THRESHOLD || sent.at + rtt.loss_delay() <= now
        };
        let found: Vec<u64> = self
            .unsettled
            .range(..=largest)
            .filter(|&(&number, sent)| is_lost(number, sent))
            .map(|(&number, _)| number)
            .collect();
        // RFC 9002 §7.6.2: found by an acknowledgement alone.
        self.changes.is_persistent |= is_acknowledged && self.is_persistent(&found, rtt);
        let mut newest = None;
        for number in found {
            let Some(sent) = self.unsettled.remove(&number) else { continue };
            if sent.in_flight {
                self.in_flight -= sent.bytes;
            }
            if !sent.is_long {
                self.lost += 1;
                self.uncompared += 1;
                newest = newest.max(sent.in_flight.then_some(sent.at));
            }
        }
        if let Some(sent) = newest {
            self.congested(now, sent);
        }
    }

    /// RFC 9002, appendix B.6: a loss or a mark of a packet that was sent at this time.
    fn congested(&mut self, now: Time, sent: Time) {
        if self.recovery.is_none_or(|recovery| sent > recovery) {
            self.recovery = Some(now);
            self.changes.reductions += 1;
            self.is_entering = true;
        }
    }

    /// RFC 9002 §7.6.2: of all that was sent between two packets that are lost nothing was acknowledged, for longer
    /// than three timeouts. Numbers that were never sent end no such period.
    fn is_persistent(&self, lost: &[u64], rtt: Rtt) -> bool {
        let period = Span(rtt.probe_timeout().0 * PERSISTENT);
        let mut run: Option<(u64, Time)> = None;
        for &number in lost {
            let sent = &self.unsettled[&number];
            if !sent.elicits || self.sampled.is_none_or(|sampled| sent.at <= sampled) {
                continue;
            }
            let goes_on = run.filter(|&(last, _)| self.acknowledged.range(last..number).next().is_none());
            let from = goes_on.map_or(sent.at, |(_, from)| from);
            if sent.at.since(from) > period {
                return true;
            }
            run = Some((number, from));
        }
        false
    }

    /// What the sender says of itself, against what must have come of all so far.
    fn tell(&mut self, now: Time, number: u64, told: Told, findings: &mut Findings) {
        self.compare_lost(now, number, told, findings);
        let changes = std::mem::take(&mut self.changes);
        let (Some(window), before) = (told.window, self.window) else { return };
        self.window = Some(window);
        let Some(before) = before.filter(|_| self.is_settled()) else { return };
        let least = LEAST_PACKETS * self.packet_bytes;
        if changes.is_persistent {
            findings.check(window <= least, (Rule::Persistent, now, number), || {
                format!("the window is {window} B, and the least one {least} B")
            });
            return;
        }
        if !self.is_newreno {
            return;
        }
        // What is acknowledged (§7.3.1), or a packet for each window of it (§7.3.3), of which a part is of before.
        let most = before + changes.acked + self.packet_bytes;
        match changes.reductions {
            0 => {
                findings.check(window <= most.max(least), (Rule::Grown, now, number), || {
                    format!("the window grows from {before} B to {window} B for {} B", changes.acked)
                });
                if window < before {
                    findings.check(false, (Rule::Halved, now, number), || {
                        format!("the window shrinks from {before} B to {window} B for no loss or mark")
                    });
                }
            }
            1 => {
                let halves = (before / 2).max(least)..=(most / 2).max(least);
                findings.check(halves.contains(&window), (Rule::Halved, now, number), || {
                    format!("the window goes from {before} B to {window} B at a loss or mark")
                });
            }
            // Two in a row with no word between: which came when is not known.
            _ => {}
        }
    }

    /// The sender's count of losses against the judge's, which may be apart while clocks are rounded.
    fn compare_lost(&mut self, now: Time, number: u64, told: Told, findings: &mut Findings) {
        let Some(lost) = told.lost.filter(|_| self.is_settled()) else { return };
        let above = lost as i64 - self.lost as i64;
        let expected = *self.above.get_or_insert(above);
        if above == expected {
            self.off_since = None;
            for _ in 0..std::mem::take(&mut self.uncompared) {
                findings.check(true, (Rule::Lost, now, number), String::new);
            }
            return;
        }
        let since = *self.off_since.get_or_insert(now);
        if now.since(since) > GRANULARITY {
            findings.check(false, (Rule::Lost, since, number), || {
                format!("the sender counts {} packets more as lost than the rules", above - expected)
            });
            self.above = Some(above);
            self.off_since = None;
            self.uncompared = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1200;

    /// A sender on a path of 100 ms that has sent a packet each 10 ms and got each acknowledged, without delay: 200 of
    /// them, so that the RTT is 100 ms, its variation below the granularity, and the probe timeout 100 + 1 + 25 ms. The
    /// next number is 200, and nothing is under way at 3 s, when its window is 12,000 B.
    fn settled() -> (Sender, Findings) {
        let (mut sender, mut findings) = (Sender::new(true), Findings::default());
        for step in 0..300_u64 {
            if let Some(number) = step.checked_sub(10).filter(|&number| number < 200) {
                sender.receive(at(10 * step), &acks(&[(number, number)]), told(12_000), &mut findings);
            }
            if step < 200 {
                sender.send(at(10 * step), &data(step, step), told(12_000), &mut findings);
            }
        }
        assert_eq!(findings.violations, []);
        assert_eq!(sender.rtt.unwrap().probe_timeout(), Span::from_millis(126));
        (sender, findings)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn told(window: u64) -> Told {
        Told {
            window: Some(window),
            packet_bytes: Some(SIZE),
            rtt: Some(Span::from_millis(100)),
            lost: Some(0),
        }
    }

    /// Packet `number` with the thousand bytes of stream 2 that have this number.
    fn data(number: u64, thousand: u64) -> Packet {
        let data = vec![Piece { stream: 2, from: 1000 * thousand, to: 1000 * (thousand + 1) }];
        Packet { number, bytes: SIZE, elicits: true, in_flight: true, data, ..Packet::default() }
    }

    fn acks(ranges: &[(u64, u64)]) -> Packet {
        let ranges = ranges.iter().map(|&(low, high)| low..=high).collect();
        Packet { acks: Some(Acks { ranges, delay: 0, marked: None }), ..Packet::default() }
    }

    /// Rules that were broken, in the order of the violations.
    fn broken(findings: &Findings) -> Vec<Rule> {
        findings.violations.iter().map(|violation| violation.rule).collect()
    }

    /// Packets 200 to 203 leave at 3 s, and 203 is acknowledged: 200 is lost by its number, the others 112.5 ms after
    /// they left and not before.
    #[test]
    fn what_is_lost_may_be_repeated_and_nothing_else() {
        for (repeated, when, is_kept) in
            [(200, 3100, true), (201, 3100, false), (201, 3112, false), (201, 3113, true), (202, 3113, true)]
        {
            let (mut sender, mut findings) = settled();
            for number in 200..204 {
                sender.send(at(3000), &data(number, number), told(12_000), &mut findings);
            }
            let told = Told { lost: Some(1), ..told(6000) };
            sender.receive(at(3100), &acks(&[(203, 203)]), told, &mut findings);
            sender.send(at(when), &data(204, repeated), told, &mut findings);
            let expected = if is_kept { vec![] } else { vec![Rule::Repeated] };
            assert_eq!(broken(&findings), expected, "{repeated} at {when} ms");
        }
    }

    /// The sender has to count that loss, and no other, within a millisecond.
    #[test]
    fn the_count_of_losses_is_that_of_the_rules() {
        for (counted, is_kept) in [(1, true), (0, false), (2, false)] {
            let (mut sender, mut findings) = settled();
            for number in 200..204 {
                sender.send(at(3000), &data(number, number), told(12_000), &mut findings);
            }
            let told = Told { lost: Some(counted), ..told(6000) };
            sender.receive(at(3100), &acks(&[(203, 203)]), told, &mut findings);
            sender.send(at(3102), &data(204, 204), told, &mut findings);
            let expected = if is_kept { vec![] } else { vec![Rule::Lost] };
            assert_eq!(broken(&findings), expected, "{counted}");
        }
    }

    /// Ten packets leave at 3 s and nothing comes back. Probes are due at 3126 ms, 252 ms behind that, and so on; each
    /// may repeat what is under way, in two packets, above the window.
    #[test]
    fn probes_leave_when_they_are_due() {
        let (mut sender, mut findings) = settled();
        let send = |sender: &mut Sender, findings: &mut Findings, when, number, thousand| {
            sender.send(at(when), &data(number, thousand), told(12_000), findings);
        };
        for number in 200..210 {
            send(&mut sender, &mut findings, 3000, number, number);
        }
        send(&mut sender, &mut findings, 3126, 210, 200);
        send(&mut sender, &mut findings, 3126, 211, 201);
        assert_eq!(broken(&findings), []);
        let other = || (sender.clone(), findings.clone());
        let (mut sender, mut findings) = other();
        send(&mut sender, &mut findings, 3126 + 254, 212, 202);
        assert_eq!(broken(&findings), [Rule::Probe]);
        let (mut sender, mut findings) = other();
        send(&mut sender, &mut findings, 3127, 212, 202);
        assert_eq!(broken(&findings), [Rule::Repeated, Rule::Flight]);
        let (mut sender, mut findings) = other();
        sender.finish(at(4000), &mut findings);
        assert_eq!(broken(&findings), [Rule::Probe]);
        let (mut sender, mut findings) = other();
        send(&mut sender, &mut findings, 3126 + 252, 212, 202);
        assert_eq!(broken(&findings), []);
        assert_eq!(findings.checked(Rule::Probe), 2);
    }

    /// Ten packets of 1200 B are a window of 12,000 B.
    #[test]
    fn the_window_bounds_what_is_in_flight() {
        let (mut sender, mut findings) = settled();
        for number in 200..211 {
            assert_eq!(broken(&findings), []);
            sender.send(at(2800 + number), &data(number, number), told(12_000), &mut findings);
        }
        assert_eq!(broken(&findings), [Rule::Flight]);
    }

    /// Ten packets of 1200 B are an initial window.
    #[test]
    fn bursts_are_bounded() {
        for (packets, expected) in [(10, vec![]), (11, vec![Rule::Burst])] {
            let (mut sender, mut findings) = settled();
            for number in 200..200 + packets {
                sender.send(at(3000), &data(number, number), told(100_000), &mut findings);
            }
            sender.send(at(3001), &data(300, 300), told(100_000), &mut findings);
            // The first window that is told after 12,000 B is none that acknowledgements made.
            findings.violations.retain(|violation| violation.rule != Rule::Grown);
            assert_eq!(broken(&findings), expected, "{packets}");
        }
    }

    /// 12,000 B, 1200 B acknowledged, a packet for what was before, and a loss: 6000 to 7200 B. Without a loss: 12,000
    /// to 14,400 B.
    #[test]
    fn the_window_changes_by_the_law_of_newreno() {
        for (window, is_lost, expected) in [
            (6000, true, vec![]),
            (7200, true, vec![]),
            (5999, true, vec![Rule::Halved]),
            (7201, true, vec![Rule::Halved]),
            (12_000, true, vec![Rule::Halved]),
            (12_000, false, vec![]),
            (14_400, false, vec![]),
            (14_401, false, vec![Rule::Grown]),
            (11_999, false, vec![Rule::Halved]),
        ] {
            let (mut sender, mut findings) = settled();
            let first = if is_lost { 200 } else { 203 };
            for number in first..204 {
                sender.send(at(3000), &data(number, number), told(12_000), &mut findings);
            }
            let told = Told { lost: Some(u64::from(is_lost)), ..told(window) };
            sender.receive(at(3100), &acks(&[(203, 203)]), told, &mut findings);
            assert_eq!(broken(&findings), expected, "{window}, {is_lost}");
        }
    }

    /// Two packets are lost that left more than 3 * 126 ms apart, and nothing between them was acknowledged.
    #[test]
    fn persistent_congestion_leaves_the_least_window() {
        for (apart, window, expected) in
            [(400, 2400, vec![]), (400, 2401, vec![Rule::Persistent]), (370, 6000, vec![])]
        {
            let (mut sender, mut findings) = settled();
            sender.send(at(3000), &data(200, 200), told(12_000), &mut findings);
            // A probe at 3126 ms, and then new data; the probe at 3378 ms is this data.
            sender.send(at(3126), &data(201, 200), told(12_000), &mut findings);
            sender.send(at(3000 + apart), &data(202, 201), told(12_000), &mut findings);
            for number in 203..206 {
                sender.send(at(3410), &data(number, number), told(12_000), &mut findings);
            }
            findings.violations.clear();
            let told = Told { lost: Some(3), ..told(window) };
            sender.receive(at(3510), &acks(&[(205, 205)]), told, &mut findings);
            assert_eq!(broken(&findings), expected, "{apart} ms, {window} B");
        }
    }

    #[test]
    fn the_smoothed_rtt_is_that_of_the_samples() {
        let (mut sender, mut findings) = settled();
        sender.send(at(3000), &data(200, 200), told(12_000), &mut findings);
        // 7/8 of 100 ms and 1/8 of 180 ms.
        let told = |millis| Told { rtt: Some(Span::from_millis(millis)), ..told(12_000) };
        let mut wrong = (sender.clone(), findings.clone());
        sender.receive(at(3180), &acks(&[(200, 200)]), told(110), &mut findings);
        assert!(!broken(&findings).contains(&Rule::Rtt));
        wrong.0.receive(at(3180), &acks(&[(200, 200)]), told(111), &mut wrong.1);
        assert!(broken(&wrong.1).contains(&Rule::Rtt));
    }
}
