//! Hosts that go from one access point to another: by the strength of signals, by distance, or by a list of times.
//!
//! Where stations are at what time is part of the plan, and so is how power falls with distance. So everything that a
//! host decides on its way is known before the run (`journeys`): `world/` makes routes of it,
//! `device/wlan/roaming.rs` opens and closes the links, and both ends of flows hear of it (`host_events`).

use lasthop_core::time::{Span, Time};

use crate::handoff::HostEvent;
use crate::plan::{MediumPlan, Plan, RadioLink, UnderWay};
use crate::propagation::dbm;
use crate::routing::{DirectionId, Routes};

/// How often a station that moves looks at the power of its access point.
const LOOK: Span = Span::from_millis(10);

/// A host that chooses among the access points of the cells that it is a station of.
#[derive(Clone, Debug, PartialEq)]
pub struct RoamingPlan {
    /// Its node.
    pub host: usize,
    /// How it chooses.
    pub choice: Choice,
    /// From the old access point to the new one: so long it is nowhere.
    pub delay: Span,
    /// What becomes of packets that wait for it at the old access point.
    pub old_queue: OldQueue,
    /// What becomes of packets that are on their way there.
    pub under_way: UnderWay,
    /// The host says so long before it leaves that it will, if it says so.
    pub warning: Option<Span>,
}

/// How a host chooses its access point. It begins with the strongest.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// The one whose signal is stronger by this many dB, looked at in intervals.
    Strongest {
        /// By how many dB.
        hysteresis: f64,
        /// Between two looks.
        interval: Span,
    },
    /// The one that is nearer by this many metres, looked at in intervals.
    Nearest {
        /// By how many metres.
        hysteresis: f64,
        /// Between two looks.
        interval: Span,
    },
    /// At these times these access points, in the order of time.
    List(Vec<(Time, usize)>),
}

/// What becomes of packets that wait at the access point that a host has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldQueue {
    /// They are lost.
    Drop,
    /// When the host has arrived at the new access point, they are sent after it.
    Forward,
    /// They wait until it comes back.
    Hold,
}

/// A change of the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// When the host leaves the old one.
    pub(crate) leaves: Time,
    /// When it has arrived at the new one.
    pub(crate) joins: Time,
    /// The radio link that it leaves.
    pub(crate) from: usize,
    /// The one that it takes.
    pub(crate) to: usize,
}

/// All that a host does on its way.
#[derive(Clone, Debug)]
pub(crate) struct Journey {
    pub(crate) host: usize,
    /// The radio links to all its access points.
    pub(crate) links: Vec<usize>,
    /// The one that it begins with.
    pub(crate) first: usize,
    pub(crate) moves: Vec<Move>,
    pub(crate) old_queue: OldQueue,
    pub(crate) under_way: UnderWay,
    pub(crate) warning: Option<Span>,
}

impl Journey {
    /// When a link is in use: from when until when.
    fn in_use(&self, link: usize, end: Time) -> Vec<(Time, Time)> {
        let mut times = Vec::new();
        let (mut since, mut current) = (Time::ZERO, self.first);
        for change in &self.moves {
            if current == link {
                times.push((since, change.leaves));
            }
            (since, current) = (change.joins, change.to);
        }
        if current == link {
            times.push((since, end));
        }
        times
    }

    /// The link in force for routes at `now`.
    fn link_at(&self, now: Time) -> usize {
        let passed = self.moves.partition_point(|change| change.joins <= now);
        passed.checked_sub(1).map_or(self.first, |last| self.moves[last].to)
    }
}

/// A radio link that a host may choose, and what is needed to judge it.
struct Candidate<'p> {
    medium: &'p MediumPlan,
    radio: RadioLink,
    /// The access point's node.
    access_point: usize,
    shadow: f64,
}

impl Candidate<'_> {
    fn power(&self, now: Time) -> f64 {
        let distance = self.medium.distance(self.radio.from, self.radio.to, now);
        self.medium.propagation.received(distance) * self.shadow
    }
}

/// The radio links of `host` to access points.
fn candidates(plan: &Plan, seed: u64, host: usize) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    for medium in &plan.media {
        for &radio in &medium.links {
            let (from, to) = (&medium.stations[radio.from], &medium.stations[radio.to]);
            if from.node == host && to.access_point {
                let shadow = medium.shadow(radio.from, radio.to, seed);
                found.push(Candidate { medium, radio, access_point: to.node, shadow });
            }
        }
    }
    found
}

/// From here on the stations of a medium rest.
fn rests_from(medium: &MediumPlan) -> Time {
    let last = |track: &crate::propagation::Track| track.points[track.points.len() - 1].0;
    medium.stations.iter().map(|station| last(&station.track)).max().unwrap_or(Time::ZERO)
}

/// What every host that chooses its access point does in a run. `seed` keys the shadowing of signals.
pub(crate) fn journeys(plan: &Plan, seed: u64) -> Vec<Journey> {
    plan.roaming.iter().map(|roaming| journey(roaming, plan, seed)).collect()
}

/// Each change of an access point in a run with this seed: the host, when it leaves, and when it has arrived.
pub fn handoffs(plan: &Plan, seed: u64) -> Vec<(usize, Time, Time)> {
    let journeys = journeys(plan, seed);
    let moves = |journey: &Journey| {
        let host = journey.host;
        journey.moves.iter().map(|change| (host, change.leaves, change.joins)).collect::<Vec<_>>()
    };
    journeys.iter().flat_map(moves).collect()
}

fn journey(roaming: &RoamingPlan, plan: &Plan, seed: u64) -> Journey {
    let found = candidates(plan, seed, roaming.host);
    let end = Time::ZERO + plan.duration;
    let score = |candidate: &Candidate<'_>, now| match roaming.choice {
        Choice::Nearest { .. } => -candidate.medium.distance(candidate.radio.from, candidate.radio.to, now),
        Choice::Strongest { .. } | Choice::List(_) => dbm(candidate.power(now)),
    };
    // Of equals the first.
    let best = |now: Time| {
        let mut best = 0;
        for index in 1..found.len() {
            if score(&found[index], now) > score(&found[best], now) {
                best = index;
            }
        }
        best
    };
    let mut current = best(Time::ZERO);
    let mut moves = Vec::new();
    let warning = roaming.warning.unwrap_or_default();
    let mut first = current;
    match &roaming.choice {
        &(Choice::Strongest { hysteresis, interval } | Choice::Nearest { hysteresis, interval }) => {
            let rest = found.iter().map(|candidate| rests_from(candidate.medium)).max();
            let until = end.min(rest.unwrap_or(Time::ZERO) + interval);
            let mut now = Time::ZERO + interval;
            while now <= until {
                let other = best(now);
                let readable = found[other].power(now) >= found[other].medium.receive_threshold;
                let gain = score(&found[other], now) - score(&found[current], now);
                if other != current && readable && gain >= hysteresis {
                    // It says so first, then leaves.
                    let leaves = now + warning;
                    let joins = leaves + roaming.delay;
                    let (from, to) = (found[current].radio.link, found[other].radio.link);
                    moves.push(Move { leaves, joins, from, to });
                    current = other;
                    now = now.max(joins);
                }
                now += interval;
            }
        }
        Choice::List(changes) => {
            for &(at, access_point) in changes {
                let wanted = found.iter().position(|candidate| candidate.access_point == access_point);
                let Some(other) = wanted.filter(|&other| other != current) else { continue };
                if at == Time::ZERO {
                    (first, current) = (other, other);
                    continue;
                }
                let (from, to) = (found[current].radio.link, found[other].radio.link);
                moves.push(Move { leaves: at, joins: at + roaming.delay, from, to });
                current = other;
            }
        }
    }
    Journey {
        host: roaming.host,
        links: found.iter().map(|candidate| candidate.radio.link).collect(),
        first: found[first].radio.link,
        moves,
        old_queue: roaming.old_queue,
        under_way: roaming.under_way,
        warning: roaming.warning,
    }
}

/// The paths of a flow between two nodes over the access points that hosts use at each time: all of them, and when
/// which comes into force. A path without links stands for none.
pub(crate) type Ways = (Vec<Vec<DirectionId>>, Vec<(Time, usize, UnderWay)>);

/// The radio links of a host to the access points among which it chooses; none if it does not.
fn links_of(media: &[MediumPlan], roaming: &[RoamingPlan], host: usize) -> Vec<u32> {
    if !roaming.iter().any(|plan| plan.host == host) {
        return Vec::new();
    }
    let radios = media.iter().flat_map(|medium| medium.links.iter().map(move |radio| (medium, radio)));
    let own = radios.filter(|(medium, radio)| {
        medium.stations[radio.from].node == host && medium.stations[radio.to].access_point
    });
    own.map(|(_, radio)| radio.link as u32).collect()
}

/// Every path between two nodes over the access points that they may choose, whenever that may be; empty unless one of
/// them chooses.
pub fn possible_paths(
    (media, roaming): (&[MediumPlan], &[RoamingPlan]),
    routes: &mut Routes,
    source: usize,
    sink: usize,
) -> Vec<Vec<DirectionId>> {
    let [first, last] = [source, sink].map(|end| links_of(media, roaming, end));
    if first.is_empty() && last.is_empty() {
        return Vec::new();
    }
    let all: Vec<u32> = roaming.iter().flat_map(|plan| links_of(media, roaming, plan.host)).collect();
    // An end that stays where it is has one choice.
    let choices = |links: &[u32]| if links.is_empty() { vec![u32::MAX] } else { links.to_vec() };
    let (first, last) = (choices(&first), choices(&last));
    let mut paths = Vec::new();
    for &one in &first {
        for &other in &last {
            let avoided: Vec<u32> =
                all.iter().copied().filter(|&link| link != one && link != other).collect();
            paths.extend(routes.path_avoiding(source, sink, &avoided).filter(|path| !path.is_empty()));
        }
    }
    paths
}

/// The paths of a flow from `source` to `sink`, the first one first.
pub(crate) fn ways(journeys: &[Journey], routes: &mut Routes, source: usize, sink: usize) -> Option<Ways> {
    let mut times: Vec<(Time, UnderWay)> = vec![(Time::ZERO, UnderWay::Divert)];
    for journey in journeys {
        times.extend(journey.moves.iter().map(|change| (change.joins, journey.under_way)));
    }
    times.sort_by_key(|&(at, _)| at);
    let mut all: Vec<Vec<DirectionId>> = Vec::new();
    let mut changes = Vec::new();
    let mut current = 0;
    for (at, under_way) in times {
        let mut avoided: Vec<u32> = Vec::new();
        for journey in journeys {
            let used = journey.link_at(at);
            avoided.extend(journey.links.iter().filter(|&&link| link != used).map(|&link| link as u32));
        }
        let path = routes.path_avoiding(source, sink, &avoided);
        if all.is_empty() {
            all.push(path?);
            continue;
        }
        let path = path.unwrap_or_default();
        let known = all.iter().position(|known| *known == path).unwrap_or_else(|| {
            all.push(path);
            all.len() - 1
        });
        if known != current {
            current = known;
            changes.push((at, known, under_way));
        }
    }
    Some((all, changes))
}

/// What the host at `node` learns of its way and of the signal of its access point, in the order of time.
pub(crate) fn host_events(
    plan: &Plan,
    seed: u64,
    journeys: &[Journey],
    node: usize,
) -> Vec<(Time, HostEvent)> {
    let end = Time::ZERO + plan.duration;
    let journey = journeys.iter().find(|journey| journey.host == node);
    let mut events = Vec::new();
    for change in journey.iter().flat_map(|journey| &journey.moves) {
        if let Some(warning) = journey.and_then(|journey| journey.warning) {
            let at = Time(change.leaves.0.saturating_sub(warning.0));
            events.push((at, HostEvent::Fading(change.leaves.since(at))));
        }
        events.extend([(change.joins, HostEvent::Up), (change.joins, HostEvent::Handoff)]);
    }
    for medium in &plan.media {
        for radio in &medium.links {
            let ends = [radio.from, radio.to].map(|end| &medium.stations[end]);
            let Some(own) = ends.into_iter().find(|end| end.node == node && !end.access_point) else {
                continue;
            };
            let Some(lead) = medium.macs[own.mac].warning else { continue };
            let shadow = medium.shadow(radio.from, radio.to, seed);
            let power = |now| {
                let distance = medium.distance(radio.from, radio.to, now);
                dbm(medium.propagation.received(distance) * shadow)
            };
            let rest = end.min(rests_from(medium) + LOOK);
            let roams = journey.filter(|journey| journey.links.contains(&radio.link));
            let times = roams.map_or_else(|| vec![(Time::ZERO, end)], |own| own.in_use(radio.link, end));
            for (from, to) in times {
                fading(power, dbm(medium.receive_threshold), lead, (from, to.min(rest)), &mut events);
            }
        }
    }
    // Stable: what one change brings stays in its order.
    events.sort_by_key(|&(at, _)| at);
    events.retain(|&(at, _)| at <= end);
    events
}

/// What a station makes of the power that it receives: every 10 ms it extends the line through the last two values;
/// where that falls below the threshold within the lead, the link fades. It is back when the power is, or when the line
/// no longer falls: then the warning was wrong.
fn fading(
    power: impl Fn(Time) -> f64,
    threshold: f64,
    lead: Span,
    (from, to): (Time, Time),
    events: &mut Vec<(Time, HostEvent)>,
) {
    let mut before = power(from);
    let mut is_down = before < threshold;
    let mut warned = is_down;
    let mut now = from + LOOK;
    while now < to {
        let level = power(now);
        let fall = (before - level) / LOOK.seconds();
        before = level;
        if level < threshold {
            if !warned {
                events.push((now, HostEvent::Fading(Span::ZERO)));
            }
            (is_down, warned) = (true, true);
        } else {
            let left = if fall > 0.0 { (level - threshold) / fall } else { f64::INFINITY };
            if left <= lead.seconds() && !is_down {
                if !warned {
                    events.push((now, HostEvent::Fading(Span::from_seconds(left))));
                }
                warned = true;
            } else if is_down || warned && left > 2.0 * lead.seconds() {
                events.push((now, HostEvent::Up));
                (is_down, warned) = (false, false);
            }
        }
        now += LOOK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// -60 dBm falling by 10 dB/s crosses -65 dBm after 500 ms; it rests at -67 dBm and comes back by 20 dB/s from 2 s
    /// on, to -65 dBm at 2.1 s.
    fn level(now: Time) -> f64 {
        let seconds = now.seconds();
        if seconds < 2.0 { (-60.0 - 10.0 * seconds).max(-67.0) } else { -67.0 + 20.0 * (seconds - 2.0) }
    }

    #[test]
    fn a_falling_signal_warns_ahead_of_its_threshold() {
        let mut events = Vec::new();
        fading(level, -65.0, Span::from_millis(100), (Time::ZERO, at(3_000)), &mut events);
        let [(warned, HostEvent::Fading(left)), (back, HostEvent::Up)] = events[..] else {
            panic!("{events:?}")
        };
        assert!((400..=410).contains(&(warned.0 / 1_000_000)), "{warned}");
        assert!((left.seconds() - 0.1).abs() < 0.0101, "{left}");
        assert!((2_100..=2_120).contains(&(back.0 / 1_000_000)), "{back}");
    }

    /// A signal that falls and turns back before its threshold: the warning is taken back.
    #[test]
    fn a_wrong_warning_is_taken_back() {
        let mut events = Vec::new();
        let turning = |now: Time| level(now).max(-64.5);
        fading(turning, -65.0, Span::from_millis(100), (Time::ZERO, at(1_000)), &mut events);
        assert!(matches!(events[..], [(_, HostEvent::Fading(_)), (_, HostEvent::Up)]), "{events:?}");
    }

    #[test]
    fn a_link_is_in_use_between_its_moves() {
        let moved = |leaves, joins, from, to| Move { leaves: at(leaves), joins: at(joins), from, to };
        let journey = Journey {
            host: 0,
            links: vec![3, 5],
            first: 3,
            moves: vec![moved(10, 12, 3, 5), moved(20, 22, 5, 3)],
            old_queue: OldQueue::Drop,
            under_way: UnderWay::Divert,
            warning: None,
        };
        assert_eq!(journey.in_use(3, at(99)), [(at(0), at(10)), (at(22), at(99))]);
        assert_eq!(journey.in_use(5, at(99)), [(at(12), at(20))]);
        assert_eq!([11, 12, 22].map(|millis| journey.link_at(at(millis))), [3, 5, 3]);
    }
}
