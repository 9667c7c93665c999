//! Stacks of others in a scenario: `transport = { stack = "quinn", congestion = "bbr" }`, or `"quinn:bbr"`.
//!
//! `transport.rs` hands such values over. Here is only what a scenario has to know of a stack: its name, those of its
//! controllers, how long its packets are. `lasthop-stacks` has the stacks themselves, and a test there says that both
//! lists are one.

use lasthop_net::plan::{OutsideConfig, StackConfig};

use super::diagnostic::{ScenarioError, Source};
use super::keys::{Key, Kind, Table};
use super::reader::{Reader, unknown_name};
use super::transport::refused_name;
use super::value::{Map, Node, Value};

/// The key that tells a stack from a transport of the simulator.
pub(super) const KEY: &str = "stack";

/// A stack, as far as scenarios name it.
#[derive(Debug)]
pub struct Stack {
    /// Its name.
    pub name: &'static str,
    /// One sentence on it.
    pub summary: &'static str,
    /// The names of its controllers. The first is its own default.
    pub congestion: &'static [&'static str],
    /// Headers below it: IP and UDP.
    header: u32,
    /// Its longest datagram.
    payload: u32,
}

/// Every stack.
pub const STACKS: &[Stack] = &[Stack {
    name: "quinn",
    summary: "QUIC by quinn, a real stack (Rust), set up by TLS 1.3",
    congestion: &["cubic", "newreno", "bbr"],
    header: 28,
    payload: 1452,
}];

/// A flow's stack as a table.
pub(super) static STACK: Table = Table {
    title: "stack",
    doc: "A real transport stack of others, unchanged, in simulated time, for builds that have it.",
    groups: &[&[
        Key::new(KEY, Kind::Choice(names), "The stack."),
        Key::new(
            "congestion",
            Kind::Choice(controllers),
            "Its congestion control. Default: that of the stack.",
        ),
    ]],
    partial: true,
};

/// The names of all stacks.
pub(super) fn names() -> Vec<&'static str> {
    STACKS.iter().map(|stack| stack.name).collect()
}

/// The names of the controllers of all stacks.
fn controllers() -> Vec<&'static str> {
    let mut names: Vec<_> = STACKS.iter().flat_map(|stack| stack.congestion).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What a transport of this name stands for: a stack, or a stack, a colon and one of its controllers. `None` if its
/// first word is no stack.
pub(super) fn by_name(
    source: &Source<'_>,
    node: &Node,
    name: &str,
) -> Option<Result<OutsideConfig, ScenarioError>> {
    let (first, congestion) = name.split_once(':').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let stack = STACKS.iter().find(|stack| stack.name == first)?;
    let Some(congestion) = congestion else { return Some(Ok(config(stack, stack.congestion[0]))) };
    let known = stack.congestion.iter().find(|&&known| known == congestion);
    Some(match known {
        Some(known) => Ok(config(stack, known)),
        None => {
            Err(unknown_name(source, &format!("congestion of {first}"), node, congestion, stack.congestion))
        }
    })
}

/// The transport that `map`, the value of a flow's key `transport`, describes.
pub(super) fn read<'n>(
    source: &'n Source<'n>,
    node: &'n Node,
    map: &'n Map,
) -> Result<OutsideConfig, ScenarioError> {
    let Some(entry) = map.find(KEY) else { panic!("the caller has seen the key") };
    let stack = match &entry.node.value {
        Value::Text(name) => STACKS.iter().find(|stack| stack.name == name),
        _ => None,
    };
    let Some(stack) = stack else { return Err(refused_name(source, KEY, &entry.node, &names())) };
    Reader::open_with(source, &STACK, (map, &node.place), &[])?;
    let Some(entry) = map.find("congestion") else { return Ok(config(stack, stack.congestion[0])) };
    let known = match &entry.node.value {
        Value::Text(name) => stack.congestion.iter().find(|&known| known == name),
        _ => None,
    };
    match known {
        Some(known) => Ok(config(stack, known)),
        None => {
            Err(refused_name(source, &format!("congestion of {}", stack.name), &entry.node, stack.congestion))
        }
    }
}

fn config(stack: &Stack, congestion: &str) -> OutsideConfig {
    OutsideConfig {
        name: format!("{}:{congestion}", stack.name),
        header: stack.header,
        payload: stack.payload,
        reliable: true,
        stack: Some(StackConfig { name: stack.name, congestion: congestion.to_owned() }),
    }
}
