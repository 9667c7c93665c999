//! Stacks of others in a scenario: `transport = { stack = "quinn", congestion = "bbr" }`, or `"quinn:bbr"`.
//!
//! `transport.rs` hands such values over. Here is only what a scenario has to know of a stack: its name, those of its
//! controllers, which of ours it can drive, how long its packets are. `lasthop-stacks` has the stacks themselves, and a
//! test there says that both lists are one.

use lasthop_cc::{ControllerConfig, Needs};
use lasthop_net::plan::{OutsideConfig, StackConfig, Transport};

use super::diagnostic::{ScenarioError, Source};
use super::keys::{Key, Kind, Table};
use super::reader::{Reader, unknown_name};
use super::transport::{OwnTransport, controller_by_name, refused_name, set_params};
use super::value::{Map, Node, Value};

/// The key that tells a stack from a transport of the simulator.
pub(super) const KEY: &str = "stack";

/// That of its congestion control.
pub(super) const CONGESTION: &str = "congestion";

/// That of data in the first flight.
const EARLY_DATA: &str = "early_data";

/// That of how data goes, and its values.
const DATA: &str = "data";
const WAYS: [&str; 2] = ["stream", "datagrams"];

/// What stands behind the short name of a transport whose data goes in datagrams.
const IN_DATAGRAMS: &str = "+datagrams";

/// What stands before the name of a controller of this project.
pub(super) const OURS: &str = "lasthop:";

/// A stack, as far as scenarios name it.
#[derive(Debug)]
pub struct Stack {
    /// Its name.
    pub name: &'static str,
    /// One sentence on it.
    pub summary: &'static str,
    /// The names of its own controllers. The first is its default.
    pub congestion: &'static [&'static str],
    /// That of them which draws from the system and takes no seed, if one does.
    pub unseeded: Option<&'static str>,
    /// Whether it can send data in its first flight, to an end that it has met before.
    has_early_data: bool,
    /// Whether it can send data in datagrams, none of which is sent again.
    has_datagrams: bool,
    /// Whether a connection has streams of which none waits for another.
    pub(super) has_streams: bool,
    /// Whether it tells its window and its RTT.
    pub(super) tells_rate: bool,
    /// How it drives a controller of ours, if it can.
    hook: Option<Hook>,
    /// Headers below it: IP and UDP, or none if it writes them itself.
    header: u32,
    /// Its longest datagram.
    datagram: u32,
    /// Most data of the application in it: over a stream, and in a datagram of the stack's own. The stack itself says
    /// so too, at each time, and a test of `lasthop-stacks` that both agree.
    pub payload: [u32; 2],
}

/// How a stack drives controllers of ours.
#[derive(Debug)]
struct Hook {
    /// What it tells them.
    tells: Needs,
    /// What a law may need and it does not tell, by the name of the need, and why.
    lacks: &'static [(&'static str, &'static str)],
}

/// Every stack.
pub const STACKS: &[Stack] = &[
    Stack {
        name: "quinn",
        summary: "QUIC by quinn, a real stack (Rust), with a handshake of TLS 1.3",
        congestion: &["cubic", "newreno", "bbr"],
        unseeded: None,
        has_early_data: true,
        has_datagrams: true,
        has_streams: true,
        tells_rate: true,
        hook: Some(QUINN),
        header: 28,
        datagram: 1452,
        payload: [1409, 1406],
    },
    Stack {
        name: "noq",
        summary: "QUIC by noq, a real stack (Rust), set up by TLS 1.3",
        congestion: &["cubic", "newreno", "bbr3"],
        unseeded: Some("bbr3"),
        has_early_data: true,
        has_datagrams: true,
        has_streams: true,
        tells_rate: true,
        hook: Some(NOQ),
        header: 28,
        datagram: 1452,
        payload: [1409, 1406],
    },
    Stack {
        name: "smoltcp",
        summary: "TCP by smoltcp, a real stack (Rust) of small devices",
        congestion: &["cubic", "reno", "none"],
        unseeded: None,
        has_early_data: false,
        has_datagrams: false,
        has_streams: false,
        tells_rate: false,
        hook: None,
        header: 0,
        datagram: 1500,
        payload: [1460, 0],
    },
];

/// What both stacks of QUIC tell a controller.
const TOLD: Needs = Needs {
    arrivals: true,
    rate: false,
    pacing: false,
    receive_times: false,
    timestamp_times: false,
    discards: false,
    waves: false,
    signals: false,
    timing: false,
    probing: false,
    exact_marks: false,
    history: None,
    truth: false,
    classifies: true,
    fractions: true,
};

const QUINN: Hook = Hook {
    tells: TOLD,
    lacks: &[
        ("rate", "quinn tells it no delivery rate"),
        ("pacing", "quinn paces by the window and takes no pace"),
        ("receive_times", "QUIC does not carry times of arrival"),
        ("timestamp_times", "QUIC does not carry timestamps"),
        ("discards", "receivers of QUIC do not count discarded frames"),
        ("waves", "receivers of QUIC do not measure waves"),
        ("signals", "notices of other layers do not reach it"),
        ("timing", "timers and thresholds are quinn's own"),
        ("probing", "quinn sends no probes for it"),
        ("exact_marks", "quinn says that packets were marked, not how many"),
        ("history", "it is given no history of the path"),
        ("truth", "what a loss was is known to the network only"),
    ],
};

const NOQ: Hook = Hook {
    tells: Needs { pacing: true, rate: true, ..TOLD },
    lacks: &[
        ("receive_times", "QUIC does not carry times of arrival"),
        ("timestamp_times", "QUIC does not carry timestamps"),
        ("discards", "receivers of QUIC do not count discarded frames"),
        ("waves", "receivers of QUIC do not measure waves"),
        ("signals", "notices of other layers do not reach it"),
        ("timing", "timers and thresholds are noq's own"),
        ("probing", "noq sends no probes for it"),
        ("exact_marks", "noq says that packets were marked, not how many"),
        ("history", "it is given no history of the path"),
        ("truth", "what a loss was is known to the network only"),
    ],
};

impl Stack {
    /// The controller of ours called `name` as this stack drives it, with the parameters it has unless told otherwise.
    /// An error says why there is none.
    pub fn controller(&self, name: &str) -> Result<ControllerConfig, String> {
        let config = ControllerConfig::by_name(name)
            .ok_or_else(|| format!("there is no controller {name}: `lasthop transports` lists them"))?;
        let config = counting_bytes(config);
        self.refusal(&config).map_or(Ok(config), Err)
    }

    /// Those of ours that it can drive, with the parameters they have unless told otherwise.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerConfig> + '_ {
        ControllerConfig::NAMES.iter().filter_map(|name| self.controller(name).ok())
    }

    /// Why it cannot drive a controller with these parameters.
    fn refusal(&self, config: &ControllerConfig) -> Option<String> {
        let Some(hook) = &self.hook else {
            return Some(format!("{} takes no controllers of ours", self.name));
        };
        let unmet = config.needs().unmet(hook.tells);
        let reason_of =
            |need| hook.lacks.iter().find(|(name, _)| *name == need).map_or(need, |&(_, why)| why);
        let reasons: Vec<&str> = unmet.into_iter().map(reason_of).collect();
        (!reasons.is_empty())
            .then(|| format!("{} cannot run in {}: {}", config.name(), self.name, reasons.join("; ")))
    }

    /// Whether it can drive any of ours.
    pub(super) fn takes_ours(&self) -> bool {
        self.hook.is_some()
    }

    /// What may stand at the end of its short name, as a regular expression.
    pub(super) fn ending(&self) -> String {
        if self.has_datagrams { format!("({})?", IN_DATAGRAMS.replace('+', "[+]")) } else { String::new() }
    }

    /// Every congestion control that a scenario may name for it.
    fn names(&self) -> Vec<String> {
        let ours = self.controllers().map(|config| format!("{OURS}{}", config.name()));
        self.congestion.iter().map(|&name| name.to_owned()).chain(ours).collect()
    }
}

/// QUIC counts bytes in slow start and beyond it (RFC 9002 §7.3), and so do laws that have the choice.
fn counting_bytes(mut config: ControllerConfig) -> ControllerConfig {
    for (parameter, value) in [("byte_counting", 1.0), ("slow_start_limit", 1e9)] {
        // An error says that a law has no such choice.
        let _ = config.set(parameter, value);
    }
    config
}

/// A flow's stack as a table.
pub(super) static STACK: Table = Table {
    title: "stack",
    doc: "A real transport stack of others, unchanged, in simulated time, for builds that have it.",
    groups: &[&[
        Key::new(KEY, Kind::Choice(names), "The stack."),
        Key::new(
            CONGESTION,
            Kind::Text,
            "Congestion control: one of the stack, or lasthop: and the name of one of ours, whose parameters may be \
             given beside it. Default: that of the stack.",
        ),
        Key::new(
            EARLY_DATA,
            Kind::Switch,
            "Whether a session from before the run is resumed, so that data leaves with the first flight (0-RTT; \
             QUIC alone).",
        )
        .default("false"),
        Key::new(
            DATA,
            Kind::Choice(|| WAYS.to_vec()),
            "How the data of the application is carried: over a stream, or in datagrams, which are not retransmitted \
             (RFC 9221; QUIC alone).",
        )
        .default("\"stream\""),
    ]],
    partial: true,
};

/// The stack of a transport, if it is one.
pub(crate) fn of(transport: &Transport) -> Option<&'static Stack> {
    match transport {
        Transport::Outside(config) => named(config),
        _ => None,
    }
}

/// The same of what a plan says of it.
pub(super) fn named(config: &OutsideConfig) -> Option<&'static Stack> {
    let name = config.stack.as_ref()?.name;
    STACKS.iter().find(|stack| stack.name == name)
}

/// The names of all stacks.
pub(super) fn names() -> Vec<&'static str> {
    STACKS.iter().map(|stack| stack.name).collect()
}

/// What a transport of this name stands for: a stack, or a stack, a colon and one of its controllers. `None` if its
/// first word is no stack.
pub(super) fn by_name(
    source: &Source<'_>,
    node: &Node,
    name: &str,
    own: &[OwnTransport],
) -> Option<Result<OutsideConfig, ScenarioError>> {
    let (name, data) = name.strip_suffix(IN_DATAGRAMS).map_or((name, WAYS[0]), |name| (name, WAYS[1]));
    let (first, congestion) = name.split_once(':').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let stack = STACKS.iter().find(|stack| stack.name == first)?;
    let outside = match congestion {
        Some(congestion) => with_congestion(source, stack, (node, congestion), (None, own)),
        None => Ok(config(stack, stack.congestion[0], None)),
    };
    let error = |message, remedy: &str| source.error(&node.place, message, remedy);
    Some(outside.and_then(|outside| carrying(stack, outside, data, error)))
}

/// The transport with its data going so.
fn carrying(
    stack: &Stack,
    mut outside: OutsideConfig,
    data: &str,
    error: impl FnOnce(String, &str) -> ScenarioError,
) -> Result<OutsideConfig, ScenarioError> {
    if data == WAYS[0] {
        return Ok(outside);
    }
    if !stack.has_datagrams {
        let able: Vec<_> =
            STACKS.iter().filter(|stack| stack.has_datagrams).map(|stack| stack.name).collect();
        let message = format!("{} has no datagrams", stack.name);
        return Err(error(message, &format!("leave {DATA} out, or choose {}", able.join(", "))));
    }
    outside.name += IN_DATAGRAMS;
    outside.reliable = false;
    outside.payload = stack.payload[1];
    if let Some(config) = &mut outside.stack {
        config.datagrams = true;
    }
    Ok(outside)
}

/// The transport that `map`, the value of a flow's key `transport`, describes.
pub(super) fn read<'n>(
    source: &'n Source<'n>,
    node: &'n Node,
    map: &'n Map,
    own: &[OwnTransport],
) -> Result<OutsideConfig, ScenarioError> {
    let Some(entry) = map.find(KEY) else { panic!("the caller has seen the key") };
    let stack = match &entry.node.value {
        Value::Text(name) => STACKS.iter().find(|stack| stack.name == name),
        _ => None,
    };
    let Some(stack) = stack else { return Err(refused_name(source, KEY, &entry.node, &names())) };
    let congestion = map.find(CONGESTION).map(|entry| &entry.node);
    let ours = congestion.and_then(|node| ours(node, own));
    let params = ours.map(|controller| controller.params()).unwrap_or_default();
    let extra: Vec<&str> = params.iter().map(|param| param.name).collect();
    let reader = Reader::open_with(source, &STACK, (map, &node.place), &extra)?;
    let early_data = reader.switch(EARLY_DATA)?;
    if early_data && !stack.has_early_data {
        let message = format!("{} sends no data in its first flight", stack.name);
        return Err(reader.error(EARLY_DATA, message, &format!("leave {EARLY_DATA} out")));
    }
    let mut outside = read_congestion(source, stack, congestion, (map, own))?;
    if let Some(config) = &mut outside.stack {
        config.early_data = early_data;
    }
    let data = reader.name_if(DATA)?.unwrap_or(WAYS[0]);
    carrying(stack, outside, data, |message, remedy| reader.error(DATA, message, remedy))
}

/// The stack with the congestion control that its table names.
fn read_congestion(
    source: &Source<'_>,
    stack: &Stack,
    congestion: Option<&Node>,
    (map, own): (&Map, &[OwnTransport]),
) -> Result<OutsideConfig, ScenarioError> {
    let Some(congestion) = congestion else { return Ok(config(stack, stack.congestion[0], None)) };
    let Value::Text(name) = &congestion.value else {
        let names = stack.names();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        return Err(refused_name(source, &format!("congestion of {}", stack.name), congestion, &names));
    };
    with_congestion(source, stack, (congestion, name), (Some(map), own))
}

/// The controller of ours that the value of `congestion` names, if it does.
fn ours(node: &Node, own: &[OwnTransport]) -> Option<ControllerConfig> {
    let Value::Text(name) = &node.value else { return None };
    controller_by_name(name.strip_prefix(OURS)?, own)
}

/// The stack with the congestion control of this name; `map` may have parameters of it.
fn with_congestion(
    source: &Source<'_>,
    stack: &Stack,
    (node, name): (&Node, &str),
    (map, own): (Option<&Map>, &[OwnTransport]),
) -> Result<OutsideConfig, ScenarioError> {
    if stack.congestion.contains(&name) {
        return Ok(config(stack, name, None));
    }
    let known = name.strip_prefix(OURS).and_then(|ours| controller_by_name(ours, own));
    let Some(controller) = known else {
        let names = stack.names();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        return Err(unknown_name(source, &format!("congestion of {}", stack.name), node, name, &names));
    };
    let mut controller = counting_bytes(controller);
    if let Some(map) = map {
        set_params(source, &mut controller, map)?;
    }
    if let Some(message) = stack.refusal(&controller) {
        let able: Vec<_> = stack.controllers().map(|config| config.name()).collect();
        let remedy = if able.is_empty() {
            format!("choose one of its own: {}", stack.congestion.join(", "))
        } else {
            format!("these run in it: {}", able.join(", "))
        };
        return Err(source.error(&node.place, message, &remedy));
    }
    Ok(config(stack, name, Some(controller)))
}

fn config(stack: &Stack, congestion: &str, controller: Option<ControllerConfig>) -> OutsideConfig {
    OutsideConfig {
        name: format!("{}:{congestion}", stack.name),
        header: stack.header,
        datagram: stack.datagram,
        payload: stack.payload[0],
        reliable: true,
        stack: Some(StackConfig {
            name: stack.name,
            congestion: congestion.to_owned(),
            controller,
            early_data: false,
            datagrams: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::STACKS;
    use lasthop_cc::{ControllerConfig, Needs};

    /// Every need has a reason for each stack that does not meet it.
    #[test]
    fn what_is_lacking_has_a_reason() {
        let all = Needs {
            arrivals: true,
            rate: true,
            pacing: true,
            receive_times: true,
            timestamp_times: true,
            discards: true,
            waves: true,
            signals: true,
            timing: true,
            probing: true,
            exact_marks: true,
            history: Some(1),
            truth: true,
            classifies: true,
            fractions: true,
        };
        for stack in STACKS {
            let Some(hook) = &stack.hook else { continue };
            let lacking: Vec<_> = hook.lacks.iter().map(|(need, _)| *need).collect();
            assert_eq!(all.unmet(hook.tells), lacking, "{}", stack.name);
        }
    }

    #[test]
    fn laws_that_quinn_cannot_serve_are_refused_by_name() {
        let quinn = &STACKS[0];
        for name in ["reno", "cubic", "vegas", "veno", "westwood+"] {
            assert_eq!(quinn.controller(name).unwrap().name(), name);
        }
        let refused = |name| quinn.controller(name).unwrap_err();
        assert_eq!(
            refused("bbr"),
            "bbr cannot run in quinn: quinn tells it no delivery rate; quinn paces by the window and takes no pace"
        );
        assert_eq!(refused("jtcp"), "jtcp cannot run in quinn: QUIC does not carry times of arrival");
        assert!(refused("renno").contains("there is no controller renno"));
        let noq = STACKS.iter().find(|stack| stack.name == "noq").unwrap();
        for name in ["copa", "bbr", "bbr3"] {
            assert_eq!(noq.controller(name).unwrap().name(), name);
        }
        assert!(noq.controller("prague").unwrap_err().starts_with("prague cannot run in noq: "));
        let smoltcp = STACKS.iter().find(|stack| stack.name == "smoltcp").unwrap();
        assert_eq!(smoltcp.controller("reno").unwrap_err(), "smoltcp takes no controllers of ours");
        let able = quinn.controllers().count();
        let refusals = ControllerConfig::NAMES.iter().filter(|name| quinn.controller(name).is_err()).count();
        assert_eq!(able + refusals, ControllerConfig::NAMES.len());
    }
}
