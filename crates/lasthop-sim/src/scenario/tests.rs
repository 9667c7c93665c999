//! What right scenarios mean: the plan that each part of the format resolves to.

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{
    Bernoulli, Cbr, ErrorModel, ErrorPosition, List, OutagePolicy, OutageSchedule, Plan, Profile, QueueLimit,
    Recovery, Start, TcpConfig, Traffic, Transport,
};

use super::{Format, Scenario, schema};

const DUMBBELL: &str = r#"
[topology]
kind       = "dumbbell"
bottleneck = { rate = "10 Mbit/s", delay = "25 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access     = { rate = "1 Mbit/s", delay = "10 ms" }
"#;

const GRAPH: &str = r#"
[topology]
kind  = "graph"
nodes = ["a", "r", "b"]

[[topology.links]]
from    = "a"
to      = "r"
rate    = "5 Mbit/s"
delay   = "2 ms"
queue   = "unlimited"
error   = { kind = "list", packets = [22, 20, 22], position = "before-queue" }
reverse = { rate = "1 Mbit/s", error = "none" }

[[topology.links]]
from = "r"
to   = "b"
name = "wire"
rate = "100 Mbit/s"
delay = "1 ms"
queue = { kind = "drop-tail", limit = "64 KiB" }
"#;

fn plan_with(text: &str, overrides: &[(&str, &str)]) -> Plan {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    match Scenario::parse(text, Format::Toml, "lab", &overrides) {
        Ok(scenario) => scenario.into_plan(),
        Err(error) => panic!("{error}"),
    }
}

fn dumbbell(rest: &str) -> Plan {
    plan_with(&format!("duration = \"60 s\"\n{DUMBBELL}\n{rest}"), &[])
}

fn graph(rest: &str) -> Plan {
    plan_with(&format!("duration = \"60 s\"\n{GRAPH}\n{rest}"), &[])
}

fn tcp(plan: &Plan, flow: usize) -> &TcpConfig {
    match &plan.flows[flow].transport {
        Transport::Tcp(config) => config,
        _ => panic!("flow {flow} is not TCP"),
    }
}

#[test]
fn defaults_of_the_whole() {
    let plan = dumbbell("[[flows]]\ntransport = \"reno\"");
    assert_eq!((plan.name.as_str(), plan.seed, plan.warmup), ("lab", 1, Span::ZERO));
    assert_eq!((plan.limits.events, plan.limits.wall_time), (100_000_000_000, Span::from_secs(3600)));
    assert_eq!(plan.series_interval, Span::from_millis(100));
    let flow = &plan.flows[0];
    assert_eq!(flow.name, "flow");
    assert_eq!(flow.start, Start::Uniform(Time::ZERO, Time(1_000_000_000)));
    assert_eq!((&flow.traffic, flow.stop), (&Traffic::ENDLESS, None));
}

#[test]
fn nodes_and_links_of_a_dumbbell() {
    let plan = dumbbell("[[flows]]\ncount = 2\ntransport = \"reno\"");
    assert_eq!(plan.nodes, ["source-1", "source-2", "left", "right", "sink-1", "sink-2"]);
    let links: Vec<(&str, &str, &str)> = (plan.links.iter())
        .map(|link| (link.name.as_str(), plan.nodes[link.from].as_str(), plan.nodes[link.to].as_str()))
        .collect();
    assert_eq!(
        links,
        [
            ("bottleneck", "left", "right"),
            ("source-access-1", "source-1", "left"),
            ("source-access-2", "source-2", "left"),
            ("sink-access-1", "right", "sink-1"),
            ("sink-access-2", "right", "sink-2"),
        ]
    );
    assert_eq!(plan.links[0].forward.queue.limit, QueueLimit::Packets(30));
    assert_eq!(plan.links[0].forward, plan.links[0].reverse);
    assert_eq!(plan.links[4].forward.queue.limit, QueueLimit::Packets(50));
    assert_eq!(plan.links[4].forward.rate, Rate(1_000_000));
    let ends: Vec<(usize, usize)> = plan.flows.iter().map(|flow| (flow.source, flow.sink)).collect();
    assert_eq!(ends, [(0, 4), (1, 5)]);
}

#[test]
fn the_channel_is_on_the_sink_access_links_both_ways() {
    let plan = dumbbell(
        "[channel]\nerror = { kind = \"bernoulli\", packet_error_rate = \"1 %\" }\n\
         handoff = { count = 5, outage = \"1 s\" }\n[[flows]]\ntransport = \"reno\"",
    );
    let wireless = ErrorModel::Bernoulli(Bernoulli { packet_error_rate: 0.01 });
    let (bottleneck, source, sink) = (&plan.links[0], &plan.links[1], &plan.links[2]);
    assert_eq!((&sink.forward.error, &sink.reverse.error), (&wireless, &wireless));
    assert_eq!(sink.forward.error_position, ErrorPosition::AfterTransmission);
    assert_eq!((&source.forward.error, &bottleneck.forward.error), (&ErrorModel::None, &ErrorModel::None));
    let at = |second: u64| (Time(second * 1_000_000_000), Span::from_secs(1));
    assert_eq!(
        sink.reverse.outages.schedule,
        OutageSchedule::Listed(vec![at(10), at(20), at(30), at(40), at(50)])
    );
    assert_eq!(sink.forward.outages.policy, OutagePolicy::DropAir);
    assert_eq!(source.forward.outages.schedule, OutageSchedule::None);
}

#[test]
fn the_most_specific_link_table_wins() {
    let text = r#"
duration = "60 s"
[topology]
kind          = "dumbbell"
bottleneck    = { rate = "10 Mbit/s", delay = "25 ms", reverse = { rate = "2 Mbit/s" } }
access        = { rate = "1 Mbit/s", delay = "10 ms", reverse = { delay = "11 ms" } }
source_access = { rate = "100 Mbit/s" }
sink_access   = { error = "none", reverse = { error = { kind = "bernoulli", packet_error_rate = 0.5 } } }
[channel]
error = { kind = "bernoulli", packet_error_rate = 0.1 }
[[flows]]
transport = "reno"
"#;
    let plan = plan_with(text, &[]);
    let (bottleneck, source, sink) = (&plan.links[0], &plan.links[1], &plan.links[2]);
    assert_eq!((bottleneck.forward.rate, bottleneck.reverse.rate), (Rate(10_000_000), Rate(2_000_000)));
    assert_eq!((source.forward.rate, source.reverse.rate), (Rate(100_000_000), Rate(100_000_000)));
    assert_eq!((source.forward.delay, source.reverse.delay), (Span::from_millis(10), Span::from_millis(11)));
    assert_eq!(sink.forward.error, ErrorModel::None);
    assert!(sink.reverse.error == ErrorModel::Bernoulli(Bernoulli { packet_error_rate: 0.5 }));
}

#[test]
fn a_graph() {
    let plan = graph(
        "[[flows]]\nsource = \"b\"\nsink = \"a\"\ntransport = \"udp\"\n\
         traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"500 B\", random = true }\n\
         start = \"5 s\"\nstop = \"6 s\"",
    );
    let (radio, wire) = (&plan.links[0], &plan.links[1]);
    assert_eq!((radio.name.as_str(), wire.name.as_str()), ("a-r", "wire"));
    assert_eq!(
        (radio.forward.queue.limit, wire.forward.queue.limit),
        (QueueLimit::Unlimited, QueueLimit::Bytes(65_536))
    );
    let lost = ErrorModel::List(List { packets: vec![20, 22] });
    assert_eq!(radio.forward.error_position, ErrorPosition::BeforeQueue);
    assert_eq!((&radio.forward.error, &radio.reverse.error), (&lost, &ErrorModel::None));
    assert_eq!((radio.forward.rate, radio.reverse.rate), (Rate(5_000_000), Rate(1_000_000)));
    let flow = &plan.flows[0];
    assert_eq!((flow.source, flow.sink), (2, 0));
    assert_eq!(flow.traffic, Traffic::Cbr(Cbr { rate: Rate(1_000_000), packet: 500, random: true }));
    assert_eq!((&flow.start, flow.stop), (&Start::At(Time(5_000_000_000)), Some(Time(6_000_000_000))));
}

/// An empty list takes away in one direction what the link says of both.
#[test]
fn a_direction_may_have_no_middleboxes() {
    let text = "duration = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
        [[topology.links]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
        middleboxes = [{ kind = \"policer\", rate = \"1 Mbit/s\" }]\n\
        rate_changes = [{ at = \"500 ms\", rate = \"2 Mbit/s\" }]\n\
        reverse = { middleboxes = [], rate_changes = [] }\n\
        [[flows]]\nsource = \"a\"\nsink = \"b\"\ntransport = \"reno\"\n";
    let plan = Scenario::parse(text, Format::Toml, "test", &[])
        .unwrap_or_else(|error| panic!("{error}"))
        .into_plan();
    let (forward, reverse) = (&plan.links[0].forward, &plan.links[0].reverse);
    assert_eq!((forward.middleboxes.len(), forward.rate_changes.len()), (1, 1));
    assert_eq!((reverse.middleboxes.len(), reverse.rate_changes.len()), (0, 0));
}

/// Changes of the rate belong to the rate beside them: a direction with a rate or a trace of its own has none of them,
/// one that says nothing of its rate has all.
#[test]
fn a_rate_of_its_own_replaces_later_rates() {
    let reverse = |keys: &str| {
        let text = format!(
            "duration = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
             [[topology.links]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
             rate_changes = [{{ at = \"500 ms\", rate = \"2 Mbit/s\" }}]\nreverse = {{ {keys} }}\n\
             [[flows]]\nsource = \"a\"\nsink = \"b\"\ntransport = \"reno\"\n"
        );
        let plan = Scenario::parse(&text, Format::Toml, "test", &[])
            .unwrap_or_else(|error| panic!("{error}"))
            .into_plan();
        assert_eq!(plan.links[0].forward.rate_changes, [(Time(500_000_000), Rate(2_000_000))]);
        (plan.links[0].reverse.rate, plan.links[0].reverse.rate_changes.clone())
    };
    let later = |at, rate| vec![(Time(at), Rate(rate))];
    assert_eq!(reverse("delay = \"2 ms\""), (Rate(1_000_000), later(500_000_000, 2_000_000)));
    assert_eq!(reverse("rate = \"9 Mbit/s\""), (Rate(9_000_000), Vec::new()));
    let own = "rate = \"9 Mbit/s\", rate_changes = [{ at = \"100 ms\", rate = \"3 Mbit/s\" }]";
    assert_eq!(reverse(own), (Rate(9_000_000), later(100_000_000, 3_000_000)));
    let own = "rate_changes = [{ at = \"100 ms\", rate = \"3 Mbit/s\" }]";
    assert_eq!(reverse(own), (Rate(1_000_000), later(100_000_000, 3_000_000)));
}

#[test]
fn names_and_pairs_of_flows() {
    let plan = dumbbell(
        "[[flows]]\nname = \"video\"\ntransport = \"reno\"\nsource = \"sink-2\"\nsink = \"source-2\"\n\
         [[flows]]\ncount = 2\ntransport = \"vegas\"\ndirection = \"reverse\"\n\
         [[flows]]\nname = \"bulk\"\ncount = 1\ntransport = \"cubic\"",
    );
    let names: Vec<&str> = plan.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["video", "flow-2", "flow-3", "bulk"]);
    // Four pairs, of which the first flow names the second: sources 0 to 3, routers, sinks 6 to 9.
    let ends: Vec<(usize, usize)> = plan.flows.iter().map(|flow| (flow.source, flow.sink)).collect();
    assert_eq!(ends, [(7, 1), (6, 0), (8, 2), (3, 9)]);
}

#[test]
fn profiles_and_layers_of_tcp() {
    let plan = dumbbell(
        "[tcp]\nprofile = \"ns2\"\nreceiver_window = \"64 kB\"\nrto = { min = \"1 s\", max = \"100 s\" }\n\
         [[flows]]\ntransport = \"sack\"\n\
         [[flows]]\ntransport = { cc = \"vegas\", recovery = \"newreno\", profile = \"rfc\", \
         packet_size = \"552 B\", alpha = 2, round_diff = true, rto = { min = \"2 s\" }, \
         delayed_ack = { segments = 4 }, \
         initial_ssthresh = \"unlimited\" }\n\
         [[flows]]\ntransport = { preset = \"reno\", delayed_ack = true }",
    );
    let sack = tcp(&plan, 0);
    assert_eq!((sack.profile, sack.recovery, sack.name.as_str()), (Profile::Ns2, Recovery::Sack1, "sack"));
    assert_eq!((sack.packet_size, sack.receiver_window, sack.initial_ssthresh), (1000, 64, 20.0));
    assert_eq!(sack.delayed_ack, None);

    let vegas = tcp(&plan, 1);
    assert_eq!((vegas.profile, vegas.name.as_str()), (Profile::Rfc, "vegas/newreno"));
    // 64 kB in segments of 500 B: the flow's own packet size counts.
    assert_eq!((vegas.mss(), vegas.receiver_window), (500, 128));
    assert_eq!((vegas.rto.min, vegas.rto.max), (Span::from_secs(2), Span::from_secs(100)));
    assert_eq!(
        (vegas.controller.value("alpha"), vegas.controller.value("round_diff")),
        (Some(2.0), Some(1.0))
    );
    assert_eq!(vegas.delayed_ack.map(|ack| (ack.segments, ack.timeout)), Some((4, Span::from_millis(200))));
    assert_eq!(vegas.initial_ssthresh, f64::INFINITY);

    assert_eq!(tcp(&plan, 2).delayed_ack.map(|ack| ack.segments), Some(2));
}

#[test]
fn udp_headers_follow_the_profile() {
    let flow = "[[flows]]\ntransport = \"udp\"\ntraffic = { kind = \"on-off\", rate = \"1 Mbit/s\", \
                packet = \"512 B\", on = \"1 s\", off = \"0 s\" }";
    let header = |tables: &str| match dumbbell(&format!("{tables}\n{flow}")).flows[0].transport {
        Transport::Udp(udp) => udp.header,
        _ => panic!("not UDP"),
    };
    assert_eq!(header(""), 28);
    assert_eq!(header("[tcp]\nprofile = \"ns2\""), 0);
    assert_eq!(header("[tcp]\nprofile = \"ns2\"\n[udp]\nheader = \"8 B\""), 8);
}

#[test]
fn overrides_change_the_scenario() {
    let text = format!("duration = \"60 s\"\n{DUMBBELL}\n[[flows]]\ntransport = \"reno\"");
    let plan = plan_with(
        &text,
        &[
            ("flows.0.transport", "vegas"),
            ("flows.0.transport.alpha", "2"),
            ("flows.0.count", "3"),
            ("topology.bottleneck.rate", "5 Mbit/s"),
            ("topology.bottleneck.queue", "unlimited"),
            ("channel.error", "{ kind = 'bernoulli', packet_error_rate = 0.1 }"),
            ("channel.error.packet_error_rate", "0.2"),
            ("tcp.profile", "linux"),
            ("seed", "18446744073709551615"),
            ("duration", "10 s"),
        ],
    );
    assert_eq!((plan.flows.len(), plan.seed, plan.duration), (3, u64::MAX, Span::from_secs(10)));
    assert_eq!(tcp(&plan, 2).controller.value("alpha"), Some(2.0));
    assert_eq!(tcp(&plan, 2).profile, Profile::Linux);
    assert_eq!(
        (plan.links[0].forward.rate, plan.links[0].forward.queue.limit),
        (Rate(5_000_000), QueueLimit::Unlimited)
    );
    assert!(plan.links[6].reverse.error == ErrorModel::Bernoulli(Bernoulli { packet_error_rate: 0.2 }));
}

#[test]
fn json_gives_the_same_plan() {
    for text in [DUMBBELL, GRAPH] {
        let ends = if text == GRAPH { "source = \"a\"\nsink = \"b\"" } else { "" };
        let text = format!(
            "duration = \"60 s\"\nseed = 7\n{text}\n[tcp]\nprofile = \"ns2\"\n[[flows]]\ntransport = {{ \
             preset = \"vegas\", alpha = 1.5 }}\n{ends}"
        );
        let overrides = [("duration".to_owned(), "20 s".to_owned())];
        let toml = Scenario::parse(&text, Format::Toml, "lab", &overrides).unwrap();
        let json = Scenario::parse(&toml.to_json(), Format::Json, "elsewhere", &[]).unwrap();
        assert_eq!(format!("{:?}", toml.plan()), format!("{:?}", json.plan()));
        assert_eq!(toml.to_json(), json.to_json());
    }
}

#[test]
fn the_schema_knows_every_name() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], serde_json::json!(["duration", "topology", "flows"]));
    assert_eq!(schema["properties"]["seed"]["default"], 1);
    assert_eq!(schema["properties"]["flows"]["items"]["$ref"], "#/$defs/flow");
    assert_eq!(schema["$defs"]["flow"]["properties"]["transport"]["$ref"], "#/$defs/transport");
    let transports = &schema["$defs"]["transport"]["anyOf"];
    let names: Vec<&str> =
        transports[0]["enum"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    for name in TcpConfig::PRESETS.iter().map(|preset| preset.name) {
        assert!(names.contains(&name), "{name}");
    }
    let patterns: Vec<&str> =
        transports.as_array().unwrap().iter().filter_map(|form| form["pattern"].as_str()).collect();
    assert!(patterns.contains(&"^quinn(:(cubic|newreno|bbr|lasthop:.+))?([+]datagrams)?$"), "{patterns:?}");
    assert!(patterns.contains(&"^noq(:(cubic|newreno|bbr3|lasthop:.+))?([+]datagrams)?$"), "{patterns:?}");
    assert!(
        patterns.iter().all(|one| !one.contains("smoltcp") || !one.contains("datagrams")),
        "{patterns:?}"
    );
    let vegas = transports.as_array().unwrap().iter().find(|form| form["title"] == "TCP with vegas").unwrap();
    assert_eq!(vegas["properties"]["gamma"]["default"], 1.0);
    assert_eq!(vegas["properties"]["dup_threshold"]["default"], 3);
    let size = vegas["properties"]["packet_size"]["description"].as_str().unwrap();
    assert!(size.ends_with("Default: 1500 B (rfc), 1000 B (ns2), 1500 B (linux)."), "{size}");
}

/// A scenario of many flows is cheap: its plan is small, and made at once.
#[test]
fn the_largest_dumbbell() {
    let plan = dumbbell("[[flows]]\ncount = 100_000\ntransport = \"reno\"");
    assert_eq!((plan.flows.len(), plan.links.len()), (100_000, 200_001));
}
