//! Destination-sequenced distance vectors: the table of one station (Perkins and Bhagwat, SIGCOMM 1994; constants and
//! order of events as in ns-2.35).
//!
//! Plain data and arithmetic: what is heard goes in, what is to be broadcast comes out. `routes.rs` puts it on the air
//! and sends packets by it.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::station::NEVER;

/// The metric of what cannot be reached.
pub const INFINITE: u8 = 250;
/// Bytes of an entry of an update, and of the header before them.
const ENTRY_BYTES: u32 = 12;
const HEADER_BYTES: u32 = 20;

/// How stations of a channel find their routes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DsdvPlan {
    /// Mean interval of full updates is 7/8 of this: each follows the last after 0.75 to 1 of it.
    pub period: Span,
    /// The first update of a station comes within this time.
    pub startup: Span,
    /// Minimum time between a triggered update and the one before it.
    pub gap: Span,
    /// Longest time that an update waits before it is queued.
    pub jitter: Span,
    /// What a new destination is thought to take to settle.
    pub settling: Span,
    /// Weight of the past in the average of settling times.
    pub weight: f64,
    /// A neighbour is gone that has been silent for this many periods.
    pub silent_periods: u32,
    /// Packets that wait for a route, by station and destination.
    pub waiting: usize,
}

/// What an update says of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    pub(super) destination: u16,
    pub(super) metric: u8,
    /// Even if the destination has set it, odd if a station has lost it.
    pub(super) sequence: u32,
}

/// The length of an update as an IP packet.
pub(super) fn update_bytes(update: &[Advert]) -> u32 {
    HEADER_BYTES + ENTRY_BYTES * update.len() as u32
}

/// A part of a span.
fn part(span: Span, share: f64) -> Span {
    Span::from_seconds(span.seconds() * share)
}

/// What a station stores about a destination.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    next: u16,
    metric: u8,
    sequence: u32,
    changed_at: Time,
    new_sequence_at: Time,
    /// Weighted settling time.
    settling: Span,
    advertise_at: Time,
    /// It has a metric, or a sequence number, that others have not heard.
    new_metric: bool,
    new_sequence: bool,
    advertised_metric: u8,
    /// When it asks for a triggered update.
    trigger: Time,
    /// When the neighbour is taken for gone; never for those who are no neighbours.
    silent_at: Time,
}

impl Entry {
    fn is_new(&self, now: Time) -> bool {
        (self.new_metric || self.new_sequence) && self.advertise_at <= now
    }
}

/// The table of a station.
#[derive(Clone, Debug)]
pub(super) struct Table {
    own: u16,
    entries: Vec<Option<Entry>>,
    periodic: Time,
    /// When it last sent an update; before the first it waits for nothing.
    last_update: Option<Time>,
    stream: Stream,
}

impl Table {
    /// The table of the station `own` among `count`.
    pub(super) fn new(own: u16, count: usize, plan: &DsdvPlan, mut stream: Stream) -> Table {
        let mut entries = vec![None; count];
        entries[usize::from(own)] = Some(Entry {
            next: own,
            metric: 0,
            sequence: 0,
            changed_at: Time::ZERO,
            new_sequence_at: Time::ZERO,
            settling: Span::ZERO,
            advertise_at: Time::ZERO,
            new_metric: false,
            new_sequence: true,
            advertised_metric: INFINITE,
            trigger: NEVER,
            silent_at: NEVER,
        });
        let periodic = Time::ZERO + part(plan.startup, stream.uniform());
        Table { own, entries, periodic, last_update: None, stream }
    }

    /// The neighbour over which a destination is reached, and the metric.
    pub(super) fn route(&self, destination: u16) -> Option<(u16, u8)> {
        let entry = self.entries[usize::from(destination)].as_ref()?;
        (entry.metric < INFINITE).then_some((entry.next, entry.metric))
    }

    /// When it acts next by itself.
    pub(super) fn due(&self) -> Time {
        let entries = self.entries.iter().flatten();
        entries.map(|entry| entry.trigger.min(entry.silent_at)).fold(self.periodic, Time::min)
    }

    /// Does what is due, and returns an update to be broadcast, and how long it waits before.
    pub(super) fn act(&mut self, plan: &DsdvPlan, now: Time) -> Option<(Vec<Advert>, Span)> {
        self.lose_silent(now);
        if self.periodic <= now {
            return Some(self.full(plan, now));
        }
        if !self.entries.iter().flatten().any(|entry| entry.trigger <= now) {
            return None;
        }
        let earliest = self.last_update.map_or(Time::ZERO, |last| last + plan.gap);
        if now < earliest {
            for entry in self.entries.iter_mut().flatten().filter(|entry| entry.trigger <= now) {
                entry.trigger = earliest;
            }
            return None;
        }
        let changed = self.entries.iter().flatten().filter(|entry| entry.is_new(now)).count();
        let known = self.entries.iter().flatten().count();
        if 3 * changed > known && changed > 3 {
            return Some(self.full(plan, now));
        }
        let update = self.collect(now, Entry::is_new);
        (!update.is_empty()).then(|| self.send(update, plan, now))
    }

    /// An update of all that may be told; the next periodic one follows it.
    fn full(&mut self, plan: &DsdvPlan, now: Time) -> (Vec<Advert>, Span) {
        if let Some(own) = &mut self.entries[usize::from(self.own)] {
            own.sequence += 2;
        }
        self.periodic = now + part(plan.period, 0.75 + 0.25 * self.stream.uniform());
        let update = self.collect(now, |entry, now| entry.advertise_at <= now);
        self.send(update, plan, now)
    }

    fn send(&mut self, update: Vec<Advert>, plan: &DsdvPlan, now: Time) -> (Vec<Advert>, Span) {
        self.last_update = Some(now);
        (update, part(plan.jitter, self.stream.uniform()))
    }

    /// What an update tells: from now on it is known, and what waited to be told before now does not wait any more.
    fn collect(&mut self, now: Time, tells: impl Fn(&Entry, Time) -> bool) -> Vec<Advert> {
        let mut update = Vec::new();
        for (entry, destination) in self.entries.iter_mut().zip(0u16..) {
            let Some(entry) = entry else { continue };
            if entry.trigger <= now {
                entry.trigger = NEVER;
            }
            if tells(entry, now) {
                (entry.new_metric, entry.new_sequence) = (false, false);
                entry.advertised_metric = entry.metric;
                update.push(Advert { destination, metric: entry.metric, sequence: entry.sequence });
            }
        }
        update
    }

    /// Routes over neighbours that have been silent for too long are gone.
    fn lose_silent(&mut self, now: Time) {
        for neighbour in 0..self.entries.len() {
            let Some(entry) = &mut self.entries[neighbour] else { continue };
            if entry.silent_at > now {
                continue;
            }
            entry.silent_at = NEVER;
            let over = |entry: &&mut Entry| usize::from(entry.next) == neighbour && entry.metric < INFINITE;
            for entry in self.entries.iter_mut().flatten().filter(over) {
                entry.metric = INFINITE;
                entry.sequence += 1;
                entry.advertise_at = now;
                (entry.new_metric, entry.new_sequence) = (true, true);
                entry.trigger = now;
            }
        }
    }

    /// An update of a neighbour has been heard.
    pub(super) fn hear(&mut self, neighbour: u16, update: &[Advert], plan: &DsdvPlan, now: Time) {
        for &advert in update {
            self.learn(neighbour, advert, plan, now);
        }
        if let Some(entry) = &mut self.entries[usize::from(neighbour)] {
            entry.silent_at = now + plan.period * u64::from(plan.silent_periods);
        }
    }

    fn learn(&mut self, neighbour: u16, advert: Advert, plan: &DsdvPlan, now: Time) {
        let metric = if advert.metric >= INFINITE { INFINITE } else { (advert.metric + 1).min(INFINITE) };
        if advert.destination == self.own {
            if metric == INFINITE {
                // A station has lost the route to this one, which announces itself at once.
                self.periodic = now;
            }
            return;
        }
        let place = &mut self.entries[usize::from(advert.destination)];
        let sequence = advert.sequence;
        let Some(known) = place else {
            let may = if metric < INFINITE { now + plan.settling * 2 } else { now };
            *place = Some(Entry {
                next: neighbour,
                metric,
                sequence,
                changed_at: now,
                new_sequence_at: now,
                settling: plan.settling,
                advertise_at: may,
                new_metric: true,
                new_sequence: true,
                advertised_metric: INFINITE,
                trigger: if metric < INFINITE { may } else { NEVER },
                silent_at: NEVER,
            });
            return;
        };
        let (older, newer) = (sequence < known.sequence, sequence > known.sequence);
        if older {
            if metric == INFINITE && known.metric < INFINITE {
                // The neighbour has lost what is known here to be there.
                known.new_metric = true;
                (known.advertise_at, known.trigger) = (now, now);
            }
            return;
        }
        if !newer && metric >= known.metric {
            return;
        }
        if newer {
            let took = known.changed_at.since(known.new_sequence_at).seconds();
            let past = known.settling.seconds();
            known.settling = Span::from_seconds(plan.weight * past + (1.0 - plan.weight) * took);
            known.new_sequence_at = now;
            known.new_sequence = true;
        }
        let both = metric < INFINITE && known.metric < INFINITE;
        known.advertise_at = if both { now + known.settling * 2 } else { now };
        known.new_metric = metric != known.advertised_metric;
        (known.next, known.metric, known.sequence, known.changed_at) = (neighbour, metric, sequence, now);
        if !newer && known.new_metric {
            known.trigger = known.advertise_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: DsdvPlan = DsdvPlan {
        period: Span::from_secs(15),
        startup: Span::from_secs(2),
        gap: Span::from_secs(1),
        jitter: Span::from_millis(10),
        settling: Span::from_secs(6),
        weight: 0.875,
        silent_periods: 3,
        waiting: 5,
    };

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_seconds(seconds)
    }

    /// Station 0 of five, without a periodic update in the way.
    fn table() -> Table {
        let mut table = Table::new(0, 5, &PLAN, Stream::new(1, "routing of a"));
        table.periodic = at(1e6);
        table
    }

    fn says(destination: u16, metric: u8, sequence: u32) -> Advert {
        Advert { destination, metric, sequence }
    }

    /// NV-4.1: a new destination at 10 s may be advertised at 22 s, and a newer number at 25 s makes the settling time
    /// 7/8 of 6 s.
    #[test]
    fn settling_time() {
        let mut table = table();
        table.hear(1, &[says(1, 0, 2)], &PLAN, at(10.0));
        assert_eq!(table.route(1), Some((1, 1)));
        assert_eq!(table.due(), at(22.0));
        assert_eq!(table.act(&PLAN, at(21.9)), None);
        let (update, wait) = table.act(&PLAN, at(22.0)).unwrap();
        // Its own number is news as well: no station has received it.
        assert_eq!(update, [says(0, 0, 0), says(1, 1, 2)]);
        assert!(wait < PLAN.jitter);
        table.hear(1, &[says(1, 0, 4)], &PLAN, at(25.0));
        let entry = table.entries[1].unwrap();
        assert_eq!(entry.settling, Span::from_seconds(5.25));
        assert_eq!(entry.advertise_at, at(25.0 + 10.5));
        // The same metric with a newer number waits for the next update.
        assert_eq!((entry.trigger, entry.new_metric, entry.new_sequence), (NEVER, false, true));
    }

    /// Of one number the shorter way counts; of two the newer number, however long its way; an older one never.
    #[test]
    fn the_newer_then_the_shorter() {
        let mut table = table();
        table.hear(1, &[says(1, 0, 2), says(4, 3, 10)], &PLAN, at(1.0));
        table.hear(2, &[says(2, 0, 2), says(4, 1, 10)], &PLAN, at(2.0));
        assert_eq!(table.route(4), Some((2, 2)));
        table.hear(1, &[says(4, 0, 8)], &PLAN, at(3.0));
        table.hear(3, &[says(4, 1, 10)], &PLAN, at(3.0));
        assert_eq!(table.route(4), Some((2, 2)), "neither an older number nor as long a way");
        table.hear(3, &[says(4, 9, 12)], &PLAN, at(4.0));
        assert_eq!(table.route(4), Some((3, 10)));
    }

    /// A neighbour that says nothing for 45 s takes its routes with it, at once and with an odd number; the station
    /// itself contradicts with an even one.
    #[test]
    fn a_silent_neighbour() {
        let mut table = table();
        table.hear(1, &[says(1, 0, 2), says(4, 0, 6)], &PLAN, at(10.0));
        let _ = table.act(&PLAN, at(22.0));
        table.hear(2, &[says(2, 0, 2)], &PLAN, at(30.0));
        let _ = table.act(&PLAN, at(42.0));
        assert_eq!(table.due(), at(55.0));
        let (update, _) = table.act(&PLAN, at(55.0)).unwrap();
        assert_eq!(update, [says(1, INFINITE, 3), says(4, INFINITE, 7)]);
        assert_eq!((table.route(1), table.route(4), table.route(2)), (None, None, Some((2, 1))));
        // Who still believes an older number hears otherwise, and a newer one brings the route back at once.
        table.hear(2, &[says(4, 1, 6)], &PLAN, at(56.0));
        assert_eq!(table.route(4), None);
        table.hear(2, &[says(4, 1, 8)], &PLAN, at(57.0));
        assert_eq!(table.route(4), Some((2, 2)));
        // Another that has lost this station makes it speak.
        table.hear(2, &[says(0, INFINITE, 3)], &PLAN, at(60.0));
        assert_eq!(table.due(), at(60.0));
        let (update, _) = table.act(&PLAN, at(60.0)).unwrap();
        assert_eq!(update[0], says(0, 0, 2));
    }

    /// Triggered updates keep a second apart, and many changes make a full one.
    #[test]
    fn triggered_updates() {
        let mut table = table();
        table.hear(1, &[says(1, 0, 2), says(2, 1, 2), says(3, 1, 2), says(4, 1, 2)], &PLAN, at(0.0));
        let (update, _) = table.act(&PLAN, at(12.0)).unwrap();
        assert_eq!((update.len(), update[0].sequence), (5, 2), "all, with a new number of its own");
        table.periodic = at(1e6);
        table.hear(2, &[says(4, INFINITE, 1)], &PLAN, at(12.5));
        assert_eq!(table.act(&PLAN, at(12.5)), None);
        assert_eq!(table.due(), at(13.0));
        assert_eq!(table.act(&PLAN, at(13.0)).unwrap().0, [says(4, 2, 2)]);
    }

    #[test]
    fn length_of_an_update() {
        assert_eq!(update_bytes(&[says(1, 0, 2); 7]), 12 * 7 + 20);
    }
}
