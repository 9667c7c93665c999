//! Random scenarios as text: flows on a dumbbell, a graph, radio channels or cells.

use std::fmt::Write as _;

use lasthop_sim::scenario::{Format, Scenario};
use proptest::prelude::*;

use super::flows::{arrivals, call, flow};
use super::links::{Grain, error, handoff, link_with_devices, one_of, plain_link, possible_handoff, queue};

fn dumbbell(duration_ms: u32, grain: Grain) -> BoxedStrategy<String> {
    let channel = (prop::option::of(error(0.3)), prop::option::weighted(0.3, handoff(duration_ms)));
    let flow = prop_oneof![6 => flow(duration_ms), 1 => arrivals(duration_ms), 1 => call(duration_ms)];
    let directed = (flow, one_of(&["forward", "reverse"]));
    let links = (link_with_devices(50, 20_000, grain), link_with_devices(50, 5000, grain));
    (links, channel, prop::collection::vec(directed, 1..=8))
        .prop_map(|((bottleneck, access), (error, handoff), flows)| {
            let (in_one, in_other) = (bottleneck.join("\n"), access.join("\n"));
            let mut text = format!(
                "[topology]\nkind = \"dumbbell\"\n[topology.bottleneck]\n{in_one}\n\
                 [topology.access]\n{in_other}\n[channel]\n"
            );
            // The channel is that of the access links.
            let handoff = handoff.map(|handoff| possible_handoff(handoff, &access));
            for (key, value) in [("error", error), ("handoff", handoff)] {
                if let Some(value) = value {
                    let _ = writeln!(text, "{key} = {value}");
                }
            }
            for (number, (flow, direction)) in flows.into_iter().enumerate() {
                let _ = write!(text, "[[flows]]\nname = \"f{number}\"\ndirection = \"{direction}\"\n{flow}");
            }
            text
        })
        .boxed()
}

/// The `[[topology.links]]` and `[[flows]]` tables of a chain with a shortcut; flows between any two of its nodes.
pub(super) fn graph(duration_ms: u32, grain: Grain) -> BoxedStrategy<(Vec<String>, String, String)> {
    let one_link = (
        link_with_devices(50, 5000, grain),
        prop::option::weighted(0.4, error(0.3)),
        prop::option::weighted(0.2, handoff(duration_ms)),
        prop::option::weighted(0.3, plain_link(50, 5000, grain)),
    );
    let reroute = (1..duration_ms, any::<bool>(), one_of(&["divert", "lose"]));
    let one_flow = (flow(duration_ms), 0usize..64, 0usize..64, prop::option::weighted(0.2, reroute));
    let flows = prop::collection::vec(one_flow, 1..=6);
    (prop::collection::vec(one_link, 1..=5), flows)
        .prop_map(|(links, flows)| {
            let nodes: Vec<String> = (0..=links.len()).map(|number| format!("n{number}")).collect();
            let (mut link_text, mut flow_text) = (String::new(), String::new());
            let last = links.len() - 1;
            for (number, (link, error, handoff, reverse)) in links.into_iter().enumerate() {
                // The last link of a longer chain goes back to the first node: a ring with a tail.
                let to = if number == last && last > 1 { 0 } else { number + 1 };
                let _ = writeln!(
                    link_text,
                    "[[topology.links]]\nfrom = \"n{number}\"\nto = \"n{to}\"\n{}",
                    link.join("\n")
                );
                // Some errors strike behind the retransmissions.
                let behind = link.iter().any(|key| key.starts_with("arq")) && number % 2 == 1;
                let error =
                    error.map(
                        |error| if behind { error.replace("after-transmission", "after-arq") } else { error },
                    );
                let handoff = handoff.map(|handoff| possible_handoff(handoff, &link));
                for (key, value) in [("error", error), ("handoff", handoff)] {
                    if let Some(value) = value {
                        let _ = writeln!(link_text, "{key} = {value}");
                    }
                }
                if let Some(reverse) = reverse {
                    let _ = writeln!(link_text, "reverse = {{ {} }}", reverse.join(", "));
                }
            }
            // In a ring the last node is the one before the closing link.
            let reachable = if last > 1 { nodes.len() - 1 } else { nodes.len() };
            for (number, (flow, from, step, reroute)) in flows.into_iter().enumerate() {
                let from = from % reachable;
                let to = (from + 1 + step % (reachable - 1)) % reachable;
                let reroute = reroute.filter(|_| last > 1).map(|(at, clockwise, under_way)| {
                    // Around the ring, one way or the other.
                    let step = if clockwise { 1 } else { reachable - 1 };
                    let mut path = vec![from];
                    while path.last() != Some(&to) {
                        path.push((path[path.len() - 1] + step) % reachable);
                    }
                    let path: Vec<String> = path.iter().map(|node| format!("n{node}")).collect();
                    format!(
                        "reroute = [{{ at = \"{at} ms\", nodes = {path:?}, under_way = \"{under_way}\" }}]\n"
                    )
                });
                let flow = flow + &reroute.unwrap_or_default();
                let _ = write!(
                    flow_text,
                    "[[flows]]\nname = \"f{number}\"\nsource = \"n{from}\"\nsink = \"n{to}\"\n{flow}"
                );
            }
            (nodes[..reachable].to_vec(), link_text, flow_text)
        })
        .boxed()
}

pub(super) fn graph_text(nodes: &[String], links: &str, flows: &str) -> String {
    format!("[topology]\nkind = \"graph\"\nnodes = {nodes:?}\n{links}{flows}")
}

/// The radio of a cell.
fn radio() -> BoxedStrategy<String> {
    let rules = one_of(&[
        "",
        "profile = \"ns2\"\nrate = \"11 Mbit/s\"",
        "rts_threshold = \"300 B\"",
        "phy = \"802.11g\"\nprotection = true",
        "phy = \"802.11n\"\nfrequency = 2412\nmcs = 0\nprotection = true",
        "phy = \"802.11ax\"\nfrequency = 2412\nrate_control = \"minstrel-ht\"\naggregation = { tries = 2, \
         window = 16 }",
        "phy = \"802.11a\"\nrate_control = \"minstrel\"\nnoise_figure = 7",
        "sense_threshold = -64.38\nrate_control = \"arf\"\nbeacon = \"50 ms\"",
        "message_in_message = true\ncapture = 3\nprocessing = \"40 us\"",
        "propagation = { kind = \"log-distance\", shadowing = 6 }\nreceive_threshold = -78",
    ]);
    let discards =
        one_of(&["\"attempts\"", "\"frames\"", "\"received\"", "{ rate = \"1 Mbit/s\", size = \"1000 B\" }"]);
    (rules, queue(), prop::option::weighted(0.4, error(0.2)), discards)
        .prop_map(|(rules, queue, error, discards)| {
            let error = error.map(|error| format!("error = {error}\n")).unwrap_or_default();
            format!("{rules}\nqueue = {queue}\n{error}discards = {discards}\n")
        })
        .boxed()
}

/// Two access points on one wire each, with stations around one of them and a host between both that may go from one to
/// the other; flows between a server and any of them.
fn cells(duration_ms: u32) -> BoxedStrategy<String> {
    let station = (-90i32..90, -90i32..90);
    let roaming = (one_of(&["drop", "forward", "hold"]), 1u32..200, 20i32..180, any::<bool>());
    let one_flow = (flow(duration_ms), 0usize..8, any::<bool>());
    let wire = plain_link(500, 20_000, Grain::Fine);
    (
        (radio(), wire, any::<bool>(), any::<bool>()),
        prop::collection::vec(station, 0..5),
        prop::option::of(roaming),
        prop::collection::vec(one_flow, 1..=6),
    )
        .prop_map(move |((radio, wire, shared, acknowledges), stations, roaming, flows)| {
            let walks = roaming.as_ref().map(|&(_, _, to, _)| {
                format!(", track = [{{ at = \"{} ms\", position = [{to}, 0] }}]", duration_ms * 2 / 3)
            });
            let walker = format!("{{ node = \"h0\", position = [90, 0]{} }}", walks.unwrap_or_default());
            let mut members = vec![walker.clone()];
            let mut nodes = vec!["server".to_owned(), "west".to_owned(), "east".to_owned(), "h0".to_owned()];
            for ((x, y), number) in stations.into_iter().zip(1..) {
                members.push(format!("{{ node = \"h{number}\", position = [{x}, {y}] }}"));
                nodes.push(format!("h{number}"));
            }
            let wire = wire.join("\n");
            let helpers = if acknowledges && roaming.is_none() { "helpers = [\"fastack\"]\n" } else { "" };
            let mut text = format!("{helpers}[topology]\nkind = \"graph\"\nnodes = {nodes:?}\n");
            for to in ["west", "east"] {
                let _ = writeln!(text, "[[topology.links]]\nfrom = \"server\"\nto = \"{to}\"\n{wire}");
            }
            let other = if shared { 1 } else { 6 };
            for (name, x, channel, members) in
                [("west", 0, 1, members.join(", ")), ("east", 200, other, walker)]
            {
                let _ = writeln!(
                    text,
                    "[[topology.cells]]\naccess_point = \"{name}\"\nposition = [{x}, 0]\nchannel = {channel}\n\
                     stations = [{members}]\n{radio}"
                );
            }
            if let Some((queue, delay, _, warns)) = roaming {
                let warning = if warns { "warning = \"20 ms\"\n" } else { "" };
                let _ = write!(
                    text,
                    "[[topology.roaming]]\nhost = \"h0\"\nqueue = \"{queue}\"\ndelay = \"{delay} ms\"\n{warning}"
                );
            }
            for (number, (flow, host, upward)) in flows.into_iter().enumerate() {
                let host = format!("h{}", host % (nodes.len() - 3));
                let (source, sink) = if upward { (host.as_str(), "server") } else { ("server", host.as_str()) };
                let _ = write!(
                    text,
                    "[[flows]]\nname = \"f{number}\"\nsource = \"{source}\"\nsink = \"{sink}\"\n{flow}"
                );
            }
            text
        }).boxed()
}

/// A server behind a base station with up to four users whose channels change; flows in both directions.
fn cellular(duration_ms: u32) -> BoxedStrategy<String> {
    let journey = (100u32..duration_ms.max(101), 0u32..100, any::<bool>());
    let user = (0u32..16, prop::option::of((1..duration_ms, 0u32..16)), prop::option::of(journey));
    let one_flow = prop_oneof![2 => flow(duration_ms), 1 => call(duration_ms)];
    let one_flow = (one_flow, 0usize..4, any::<bool>());
    let cell = (
        one_of(&["proportional-fair", "round-robin", "max-ci"]),
        queue(),
        (1u32..101, prop_oneof![Just(500u32), Just(1000), 100u32..3000]),
        (1u32..20, 0u32..20, 0u32..20, 0u32..30),
        (
            one_of(&["[0]", "[0.1, 0.1, 0.1, 0.1]", "[0.5, 0.5]", "[0.9]", "[1, 1]"]),
            one_of(&[
                "\"acknowledged\"",
                "\"unacknowledged\"",
                "{ kind = \"acknowledged\", status_prohibit = \"0 ms\", poll_pdus = 1, max_retransmissions = 2 }",
            ]),
            1u32..12,
            prop::option::of((2u32..60, 1u32..30, 0u32..20)),
        ),
    );
    let wire = plain_link(500, 50_000, Grain::Fine);
    (wire, cell, prop::collection::vec(user, 4), prop::collection::vec(one_flow, 1..=6))
        .prop_map(|(wire, (scheduler, queue, (blocks, tti), times, (errors, rlc, harq, drx)), users, flows)| {
            let users = users.into_iter().zip(0..).map(|((start, change, journey), number)| {
                let journey = journey.map_or_else(String::new, |(every, interruption, forwarding)| {
                    format!(
                        ", handovers = {{ every = \"{every} ms\", interruption = \"{interruption} ms\", \
                         forwarding = {forwarding} }}"
                    )
                });
                let change = change.map(|(at, cqi)| format!(", changes = [{{ at = \"{at} ms\", cqi = {cqi} }}]"));
                let change = change.unwrap_or_default();
                format!("{{ node = \"h{number}\", cqi = {{ start = {start}{change} }}{journey} }}")
            });
            let users = users.collect::<Vec<_>>().join(", ");
            let (interval, delay, request, grant) = times;
            // In TTIs.
            let drx = drx.map_or_else(String::new, |(cycle, on, inactivity)| {
                let [cycle, on, inactivity] = [cycle.max(on + 1), on, inactivity].map(|ttis| ttis * tti);
                format!("drx = {{ cycle = \"{cycle} us\", on = \"{on} us\", inactivity = \"{inactivity} us\" }}")
            });
            let mut text = format!(
                "[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"h0\", \"h1\", \"h2\", \"h3\"]\n\
                 [[topology.links]]\nfrom = \"server\"\nto = \"base\"\n{}\n\
                 [[topology.cellular]]\nbase = \"base\"\nusers = [{users}]\nscheduler = \"{scheduler}\"\n\
                 queue = {queue}\nresource_blocks = {blocks}\ntti = \"{tti} us\"\n\
                 report_interval = \"{interval} ms\"\nreport_delay = \"{delay} ms\"\n\
                 request_interval = \"{request} ms\"\ngrant_delay = \"{grant} ms\"\n\
                 block_errors = {errors}\nrlc = {rlc}\nharq_delay = \"{harq} ms\"\n{drx}\n",
                wire.join("\n")
            );
            for (number, (flow, host, upward)) in flows.into_iter().enumerate() {
                let host = format!("h{host}");
                let (source, sink) = if upward { (host.as_str(), "server") } else { ("server", host.as_str()) };
                let _ = write!(
                    text,
                    "[[flows]]\nname = \"f{number}\"\nsource = \"{source}\"\nsink = \"{sink}\"\n{flow}"
                );
            }
            text
        })
        .boxed()
}

/// Opening of a scenario; the limits turn a run without end into a failure.
pub(super) fn head(duration_ms: u32, seed: u64, warmup_ms: u32) -> String {
    format!(
        "duration = \"{duration_ms} ms\"\nseed = {seed}\nwarmup = \"{warmup_ms} ms\"\n\
         limits = {{ events = 30_000_000, wall_time = \"100 s\" }}\n"
    )
}

pub(super) fn duration_ms() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 500u32..4000, 1 => 4000u32..20_000]
}

pub(super) fn grain() -> impl Strategy<Value = Grain> {
    prop_oneof![2 => Just(Grain::Fine), 1 => Just(Grain::Coarse)]
}

/// The scenario with a middlebox that does nothing in place of every agent, if one of them stands where it sees no
/// flow, only ends of flows, no ACKs, or no timestamps: such scenarios are refused.
pub(super) fn standing(text: String) -> String {
    const MISPLACED: [&str; 7] = [
        "at which a snoop stands",
        "a snoop at link",
        "works by timestamps",
        "at which a wtcp stands",
        "a wtcp at link",
        "at which a zhuge stands",
        "a zhuge at link",
    ];
    let error = Scenario::parse(&text, Format::Toml, "test", &[]).err();
    let is_misplaced =
        error.is_some_and(|error| MISPLACED.iter().any(|part| error.to_string().contains(part)));
    if is_misplaced { without_agents(&text) } else { text }
}

pub(super) fn without_agents(text: &str) -> String {
    let text = text.replace("{ kind = \"wtcp\"", "{ kind = \"snoop\"");
    let text = text.replace("{ kind = \"zhuge\"", "{ kind = \"snoop\"");
    let mut parts = text.split("{ kind = \"snoop\"");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('}').map_or("", |(_, rest)| rest);
        replaced += "{ kind = \"impair\" }";
        replaced += rest;
    }
    replaced
}

/// A scenario of any kind.
pub(super) fn scenario_of(grain: Grain) -> BoxedStrategy<String> {
    duration_ms().prop_flat_map(move |duration| {
        let body = prop_oneof![
            3 => dumbbell(duration, grain),
            1 => cells(duration.min(4000)),
            1 => cellular(duration),
            3 => graph(duration, grain).prop_map(|(nodes, links, flows)| graph_text(&nodes, &links, &flows)),
        ];
        let processing = prop_oneof![2 => Just(0u32), 1 => 1u32..3000];
        (0u64..1000, 0..duration / 2, processing, body).prop_map(move |(seed, warmup, processing, body)| {
            let processing = format!("processing_time = \"{processing} us\"\n");
            standing(head(duration, seed, warmup) + &processing + &body)
        })
    }).boxed()
}

pub(super) fn scenario() -> BoxedStrategy<String> {
    grain().prop_flat_map(scenario_of).boxed()
}
