//! What a page shows of a checked scenario beside its keys: the network to draw, the flows to name, and what
//! its author may not have meant; and what holds for every scenario: the keys, the columns, the causes of loss.

use std::collections::BTreeMap;

use lasthop_core::packet::{Cause, Kind};
use lasthop_net::plan::{Direction, Plan, QueueLimit, Transport};
use lasthop_net::roaming;
use lasthop_net::trace::Recording;
use lasthop_net::world::World;
use lasthop_sim::scenario::{Scenario, ScenarioError};
use lasthop_sim::{advice, columns};
use serde_json::{Value, json};

/// The network, the flows and the sentences of `lasthop_sim::advice`.
pub fn scenario(scenario: &Scenario) -> Value {
    let plan = scenario.plan();
    let flows = plan.flows.iter().map(|flow| {
        json!({
            "name": flow.name, "source": flow.source, "sink": flow.sink, "transport": transport(&flow.transport),
            "windowed": matches!(flow.transport, Transport::Tcp(_)),
        })
    });
    let stations = plan.media.iter().flat_map(|medium| {
        medium.stations.iter().map(move |station| {
            let points = station.track.points.iter();
            json!({
                "node": station.node,
                "medium": medium.name,
                "access_point": station.access_point,
                "track": points.map(|(at, place)| json!([at.seconds(), place.x, place.y])).collect::<Vec<_>>(),
            })
        })
    });
    // How far from its access point a frame can still be read, without shadowing.
    let cells = plan.media.iter().flat_map(|medium| {
        let reach = medium.propagation.range(medium.receive_threshold);
        let stations = medium.stations.iter().filter(|station| station.access_point);
        stations.map(move |station| json!({ "node": station.node, "name": medium.name, "range_m": reach }))
    });
    json!({
        "name": plan.name,
        "seed": plan.seed,
        "duration_s": plan.duration.seconds(),
        "warmup_s": plan.warmup.seconds(),
        "series_interval_s": plan.series_interval.seconds(),
        "nodes": plan.nodes,
        "flows": flows.collect::<Vec<_>>(),
        "links": links(plan),
        "cells": cells.collect::<Vec<_>>(),
        "stations": stations.collect::<Vec<_>>(),
        "advice": advice::advice(scenario),
    })
}

fn transport(of: &Transport) -> &str {
    match of {
        Transport::Tcp(config) => &config.name,
        Transport::Udp(_) => "udp",
        Transport::Rate(config) => config.protocol.name(),
        Transport::Outside(config) => &config.name,
    }
}

fn links(plan: &Plan) -> Vec<Value> {
    let radio =
        |index: usize| plan.media.iter().any(|medium| medium.links.iter().any(|link| link.link == index));
    let direction = |of: &Direction| {
        let room = match of.queue.limit {
            QueueLimit::Packets(packets) => Some(packets),
            _ => None,
        };
        json!({ "rate_bit_s": of.rate.0, "delay_s": of.delay.seconds(), "queue_limit_packets": room })
    };
    let links = plan.links.iter().enumerate();
    links
        .map(|(index, link)| {
            json!({
                "name": link.name, "from": link.from, "to": link.to, "radio": radio(index),
                "forward": direction(&link.forward), "reverse": direction(&link.reverse),
            })
        })
        .collect()
}

/// When which direction of a link is down in a run with this seed: its number, start and end in seconds.
pub fn outages(plan: &Plan, seed: u64) -> Value {
    let world = World::new(plan, seed, Recording::default());
    let down = world.network.links.iter().enumerate().flat_map(|(direction, link)| {
        link.outages().iter().map(move |(start, end)| json!([direction, start.seconds(), end.seconds()]))
    });
    down.collect()
}

/// When which host changes its access point, or a flow its path: the node, when it leaves and when it has arrived, in
/// seconds. A path is changed at once.
pub fn handoffs(plan: &Plan, seed: u64) -> Value {
    let moves = roaming::handoffs(plan, seed);
    let moves = moves.iter().map(|(host, leaves, joins)| json!([host, leaves.seconds(), joins.seconds()]));
    let reroutes = plan.flows.iter().flat_map(|flow| {
        flow.reroutes.iter().map(|later| json!([flow.sink, later.at.seconds(), later.at.seconds()]))
    });
    moves.chain(reroutes).collect()
}

/// The error as a page shows it.
pub fn error(error: &ScenarioError) -> Value {
    json!({ "kind": "scenario", "message": error.message(), "place": error.place(), "text": error.to_string() })
}

/// Columns of results, causes of loss and kinds of packets; equal to what `lasthop-py` tells Python.
pub fn declarations() -> Value {
    let causes = Cause::NAMES.iter().zip(Cause::HELP);
    json!({
        "columns": columns::all(),
        "causes": causes.map(|(name, help)| json!({ "name": name, "help": help })).collect::<Vec<_>>(),
        "kinds": Kind::NAMES,
        "on_demand": columns::tables::ON_DEMAND.iter().copied().collect::<BTreeMap<_, _>>(),
    })
}
