//! Flows that come and go, and of which results tell by class: each gets the place of one that is gone.
//!
//! A place is what a flow has in a world: two ends, its application, counters, and the ways of its packets. A flow is
//! gone when nothing can happen to it any more, which needs no knowledge of its transport: no packet of it is under
//! way, and no timer of it is set. Its figures are added to those of its class ([`ClassStats`]) then. Places are looked
//! through when one is wanted and about as many flows have come since the last look as there is to look through: so
//! that costs a flow the same however many there are, and a run has room for those that are there at once.
//!
//! A flow of a class does what it would do if it were told by itself, in the same order: its name, from which its
//! random streams come, its number among the events of one instant, and its ways are the same.
//!
//! *Limitations:* a device that keeps something of a flow would take the next one in its place for it; the reader of a
//! scenario refuses such networks, and what else asks for flows one by one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::event::Target;
use lasthop_core::time::Span;

use super::ahead::Ahead;
use super::processing::Processing;
use super::{Sent, World};
use crate::measure::{ClassStats, FlowStats};
use crate::network::{Network, event_kind};
use crate::plan::{ClassPlan, FlowPlan, Percentiles, Plan, Transport};
use crate::traffic::arrival::Process;
use crate::traffic::video::Packing;
use crate::traffic::{Source, stream_of};
use crate::transport::endpoint::Endpoint;

/// Places for each pair of hosts at first: two flows from one host make its link one that several feed.
const FIRST_PLACES: usize = 2;
/// As many flows come at least before all places are looked through again.
const LEAST_ARRIVALS: usize = 64;

/// One class.
#[derive(Clone, Debug)]
struct Class {
    /// What its flows have in common; it has the name without the number.
    flow: FlowPlan,
    plan: Arc<ClassPlan>,
    arrivals: Process,
    /// How many have come.
    arrived: u64,
    /// Number of the event of the first of them.
    first_event: u64,
    /// The first place of each pair of hosts, which those that are added are like.
    models: Vec<u32>,
    /// The places of each pair that no flow has.
    free: Vec<Vec<u32>>,
    stats: ClassStats,
}

impl Class {
    /// Events that are known of each flow before it comes: its start, and its end if the class has one.
    fn events(flow: &FlowPlan) -> u64 {
        1 + u64::from(flow.stop.is_some())
    }
}

/// Whose a place is.
#[derive(Clone, Copy, Debug)]
struct Place {
    class: usize,
    pair: usize,
    /// The flow that has it, by how many came before it.
    flow: Option<u64>,
}

/// The classes of a world.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    all: Vec<Class>,
    /// The class for which a flow of the plan stands.
    of: BTreeMap<usize, usize>,
    /// By the index of a flow; none where a flow of the plan stands for itself.
    places: Vec<Option<Place>>,
    /// Flows that have come since places were last looked through.
    since: usize,
    seed: u64,
    percentiles: Percentiles,
    processing_time: Span,
}

/// The plan with a flow for each of the first places, those that it does not have behind all others.
pub(super) fn with_places(plan: &Plan) -> Cow<'_, Plan> {
    if plan.flows.iter().all(|flow| flow.class.is_none()) {
        return Cow::Borrowed(plan);
    }
    let mut own = plan.clone();
    for flow in &plan.flows {
        let Some(class) = &flow.class else { continue };
        let pairs = class.hosts.iter().flat_map(|&pair| std::iter::repeat_n(pair, FIRST_PLACES));
        own.flows.extend(pairs.skip(1).map(|(source, sink)| FlowPlan { source, sink, ..flow.clone() }));
    }
    Cow::Owned(own)
}

impl Classes {
    /// Those of a plan that [`with_places`] made, with `flows` flows before.
    pub(super) fn of(plan: &Plan, flows: usize, seed: u64) -> Classes {
        let mut classes = Classes {
            all: Vec::new(),
            of: BTreeMap::new(),
            places: vec![None; flows],
            since: 0,
            seed,
            percentiles: plan.percentiles,
            processing_time: plan.processing_time,
        };
        for (index, flow) in plan.flows[..flows].iter().enumerate() {
            let Some(class) = &flow.class else { continue };
            let Some(arrivals) = Process::of(&plan.flows, index, seed) else { continue };
            let number = classes.all.len();
            let mut free = vec![Vec::new(); class.hosts.len()];
            for copy in 0..class.hosts.len() * FIRST_PLACES {
                let place = Place { class: number, pair: copy / FIRST_PLACES, flow: None };
                let own = if copy == 0 { index } else { classes.places.len() };
                if copy == 0 {
                    classes.places[index] = Some(place);
                } else {
                    classes.places.push(Some(place));
                }
                free[place.pair].push(own as u32);
            }
            classes.of.insert(index, number);
            classes.all.push(Class {
                flow: flow.clone(),
                plan: Arc::clone(class),
                arrivals,
                arrived: 0,
                first_event: 0,
                models: free.iter().map(|places| places[0]).collect(),
                free,
                stats: ClassStats::default(),
            });
        }
        classes
    }

    /// Whether a flow of the world is a place of a class.
    pub(super) fn has_place(&self, flow: usize) -> bool {
        self.places.get(flow).is_some_and(Option::is_some)
    }

    /// Keeps room for the flows of the class for which the flow `index` of the plan stands among the events that are
    /// scheduled now, and schedules the first of them. Other flows have only a place.
    pub(super) fn open(&mut self, index: usize, network: &mut Network) {
        let Some(&number) = self.of.get(&index) else { return };
        let class = &mut self.all[number];
        class.first_event = network.reserve(class.plan.count * Class::events(&class.flow));
        if let Some(stop) = class.flow.stop {
            let target = Target::new(event_kind::CLASS, 2 * number as u32 + 1);
            network.schedule_reserved(stop, class.first_event + 1, target);
        }
        self.schedule_arrival(number, network);
    }

    /// Schedules the arrival of the next flow of a class, if there is one.
    fn schedule_arrival(&mut self, number: usize, network: &mut Network) {
        let class = &mut self.all[number];
        if class.arrived < class.plan.count {
            let event = class.first_event + class.arrived * Class::events(&class.flow);
            let target = Target::new(event_kind::CLASS, 2 * number as u32);
            network.schedule_reserved(class.arrivals.next(), event, target);
        }
    }
}

impl World {
    /// What became of the flows for which the flow `index` of the plan stands, if it stands for some.
    pub fn class_of(&self, index: usize) -> Option<&ClassStats> {
        Some(&self.classes.all[*self.classes.of.get(&index)?].stats)
    }

    /// A flow of a class arrives, or those that are there stop.
    pub(super) fn on_class(&mut self, index: usize) {
        let number = index / 2;
        if index.is_multiple_of(2) {
            let place = self.place_for(number);
            self.take_place(place, number);
            self.classes.schedule_arrival(number, &mut self.network);
            return self.on_traffic(place);
        }
        let places = self.classes.places.iter().enumerate();
        let there = places.filter_map(|(index, place)| {
            let place = place.filter(|place| place.class == number)?;
            Some((place.flow?, index))
        });
        let mut there: Vec<(u64, usize)> = there.collect();
        there.sort_unstable();
        for (_, index) in there {
            self.on_stop(index);
        }
    }

    /// A place for the next flow of a class.
    fn place_for(&mut self, number: usize) -> usize {
        let class = &self.classes.all[number];
        let pair = (class.arrived % class.plan.hosts.len() as u64) as usize;
        self.classes.since += 1;
        let to_look_through = self.network.pending() + self.classes.places.len();
        if class.free[pair].is_empty() && self.classes.since >= LEAST_ARRIVALS.max(to_look_through / 8) {
            self.clear_places();
        }
        if self.classes.all[number].free[pair].is_empty() {
            self.add_places(number, pair);
        }
        let place = self.classes.all[number].free[pair].pop();
        place.unwrap_or_else(|| unreachable!("there is a place, or some were added")) as usize
    }

    /// Adds the figures of the flows that are gone to those of their classes; their places are free.
    fn clear_places(&mut self) {
        self.classes.since = 0;
        for (index, may_act) in self.network.may_act().into_iter().enumerate() {
            if !may_act {
                self.clear_place(index);
            }
        }
    }

    /// The run is over, and so are the flows that are there.
    pub(super) fn close_classes(&mut self) {
        for index in 0..self.classes.places.len() {
            self.clear_place(index);
        }
    }

    /// Adds the figures of the flow in a place, if there is one, to those of its class.
    fn clear_place(&mut self, index: usize) {
        let Some(place) = self.classes.places.get_mut(index).and_then(Option::as_mut) else { return };
        if place.flow.take().is_none() {
            return;
        }
        let class = &mut self.classes.all[place.class];
        let bounded = class.flow.traffic.offered().is_bounded();
        class.stats.add(
            (&self.network.flows[index], &self.sent[index]),
            &self.senders[index].report(),
            self.network.verdicts(index),
            (self.sources[index].length(), bounded),
        );
        class.free[place.pair].push(index as u32);
        self.senders[index] = Endpoint::Outside(None);
    }

    /// Adds places of one pair of hosts.
    fn add_places(&mut self, number: usize, pair: usize) {
        let first = self.senders.len();
        let like = self.classes.all[number].models[pair] as usize;
        let count = 4 + first / 8;
        self.network.add_places_like(like, count);
        for index in first..first + count {
            self.senders.push(Endpoint::Outside(None));
            self.sources.push(self.sources[like].clone());
            self.sent.push(Sent { first_hop: self.network.first_place(index), ..Sent::default() });
            if !self.hosts.is_empty() {
                self.hosts.push(None);
            }
            self.classes.places.push(Some(Place { class: number, pair, flow: None }));
        }
        let all = first + count;
        self.started.resize(all, false);
        self.stopped.resize(all, false);
        self.last_rtt.resize(all, (0, 0));
        self.classes.all[number].free[pair].extend((first as u32..all as u32).rev());
        self.ahead = Ahead::of(all);
    }

    /// The next flow of a class takes a free place.
    fn take_place(&mut self, index: usize, number: usize) {
        let Classes { all, places, seed, percentiles, processing_time, .. } = &mut self.classes;
        let class = &mut all[number];
        class.arrived += 1;
        let name = format!("{}-{}", class.flow.name, class.plan.before + class.arrived);
        let flow = FlowPlan { name, ..class.flow.clone() };
        if let Some(place) = &mut places[index] {
            place.flow = Some(class.arrived);
        }
        let (mut sender, receiver) = Endpoint::pair(&flow, *seed, self.network.window(), *percentiles);
        if !self.hosts.is_empty() {
            self.hosts[index] = Processing::new(&flow.name, *seed, *processing_time, &mut sender);
        }
        let stats = FlowStats::new(*percentiles);
        let classifies = matches!(&flow.transport, Transport::Tcp(config) if config.needs().classifies);
        self.network.take_place(index as u32, &flow.name, (receiver, stats), classifies);
        self.senders[index] = sender;
        self.sources[index] =
            Source::new(&flow.traffic, Packing::of(&flow.transport), stream_of(*seed, &flow.name));
        self.sent[index] = Sent { first_hop: self.sent[index].first_hop, ..Sent::default() };
        (self.started[index], self.stopped[index]) = (false, false);
        self.last_rtt[index] = (0, 0);
    }
}
