//! Snoop: its keys and what a scenario may say of it.

use lasthop_core::time::Span;
use lasthop_net::plan::{AtHandoff, Middlebox, Snoop, SnoopMachine, SnoopTiming, Upward, WhenFull};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{Key, Kind, LONGEST, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "snoop";

pub(super) static HELPER: Helper = Helper {
    stands: "at the head of any link that TCP crosses: a base station, an access point, a router",
    origin: "Balakrishnan, Seshan, Amir, Katz, MobiCom 1995",
    source: "crates/lasthop-net/src/device/snoop/mod.rs",
    columns: "snoop_",
    fit,
};

const DOC: &str = "Caches TCP packets ahead of the wireless link, retransmits those that the link loses, and \
                   withholds the duplicate ACKs from the sender.";

/// As an entry of `middleboxes`.
pub(in super::super) static SNOOP: Table =
    Table { title: "snoop", doc: DOC, groups: &[SNOOP_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "snoop as a helper", doc: DOC, groups: &[SNOOP_KEYS, PLACED], partial: false };

const SNOOP_KEYS: &[Key] = &[
    Key::new(
        "profile",
        Kind::Choice(|| vec!["std", "paper", "ns2"]),
        "std: the protocol with what later RFCs ask for; paper: that of 1995; ns2: the agent of ns-2.35 with its \
         peculiarities.",
    )
    .default("\"std\""),
    Key::new(
        "cache",
        Kind::Integer { min: 1, max: 1_000_000 },
        "Maximum number of packets that are kept for one connection. The sender has to repair those that do not \
         fit: the cache should hold a window. Default: 1000; paper, ns2: 100.",
    ),
    Key::new(
        "when_full",
        Kind::Choice(|| vec!["forward", "evict"]),
        "What happens to a packet when the cache is full: it goes on without being kept, or the lowest makes room.",
    )
    .default("\"forward\""),
    Key::new(
        "persist",
        Kind::Integer { min: 0, max: 1_000 },
        "Maximum number of local retransmissions of a packet; after them the sender has to repair the loss.",
    )
    .default("10"),
    Key::new(
        "threshold",
        Kind::Integer { min: 1, max: 100 },
        "Number of unexpected duplicate ACKs that trigger a local retransmission. Default: 1; ns2: every second, by \
         its own count.",
    ),
    Key::new(
        "ahead",
        Kind::Switch,
        "Whether local retransmissions overtake the packets that are queued for the link. Default: true; ns2: false.",
    ),
    Key::new(
        "min_timeout",
        Kind::Duration { min: Span::from_nanos(1), max: LONGEST },
        "Minimum local timeout. It should be well below the minimum retransmission timeout of the senders. \
         Default: 40 ms; ns2: 100 ms.",
    ),
    Key::new(
        "delayed_ack",
        Kind::Duration { min: Span::ZERO, max: LONGEST },
        "How long a host may delay the ACK of a single packet: the local timer waits that much longer, \
         until single packets are seen to be acknowledged at once. Default: 200 ms; paper, ns2: 0 s.",
    ),
    Key::new(
        "backoff",
        Kind::Switch,
        "Whether the local timeout doubles while nothing is acknowledged. Default: true; paper, ns2: false.",
    ),
    Key::new(
        "sack",
        Kind::Switch,
        "Whether SACK blocks reveal holes: each hole below the highest block is retransmitted once per local RTT. \
         Default: true; paper, ns2: false.",
    ),
    Key::new(
        "hide_sack",
        Kind::Switch,
        "Whether SACK blocks are removed from passing ACKs while the agent repairs the first hole: a sender that sees \
         three SACKed segments above a hole treats it as a loss. Default: true; paper, ns2: false.",
    ),
    Key::new(
        "ecn",
        Kind::Switch,
        "Whether an ACK that changes the ECN echo always passes. Default: true; paper, ns2: false.",
    ),
    Key::new(
        "answer",
        Kind::Switch,
        "Whether the agent itself answers data that the host has acknowledged already, and withholds late ACKs. \
         Default: true; ns2: false.",
    ),
    Key::new(
        "upward",
        Kind::Choice(|| vec!["off", "eln", "nack"]),
        "Response to losses of data from the wireless host: nothing, a mark on duplicate ACKs for them (ELN), \
         or a negative acknowledgement to the host as soon as the hole is seen. Senders need `eln` to understand \
         either. Default: \"eln\"; paper: \"nack\".",
    ),
    Key::new(
        "handoff",
        Kind::Choice(|| vec!["move", "fresh", "ignore"]),
        "What happens when a host arrives at a base station, because its path changes or its link is back after an \
         outage: the cache moves with it and unacknowledged packets are sent once, the cache is cleared, or nothing \
         happens. Default: \"move\"; ns2: \"ignore\".",
    ),
    Key::new(
        "link_layer_delay",
        Kind::Duration { min: Span::ZERO, max: LONGEST },
        "What the link layer below the agent takes: data that it has seen, and its retransmissions, reach the queue \
         of the link that much later, when it may be full; so do ACKs that it lets pass reach the network. Packets \
         that a queue refuses so late are in the cache, and the agent hides their loss.",
    )
    .default("\"0 s\""),
];

/// What `reader`, an entry of either list, says of an agent.
pub(in super::super) fn read(reader: &Reader<'_>) -> Result<Snoop> {
    let profile = reader.name("profile")?;
    let (ns2, paper) = (profile == "ns2", profile == "paper");
    if ns2 {
        let stray = [
            "threshold",
            "backoff",
            "delayed_ack",
            "ecn",
            "answer",
            "handoff",
            "sack",
            "hide_sack",
            "when_full",
        ];
        if let Some(key) = stray.into_iter().find(|key| reader.has(key)) {
            let message = format!("the agent of ns-2 has no {key}");
            return Err(reader.error(key, message, "leave it out, or write profile = \"std\""));
        }
        if reader.name_if("upward")? == Some("nack") {
            let message = "the agent of ns-2 has no negative acknowledgements".to_owned();
            return Err(reader.error("upward", message, "write upward = \"eln\", or profile = \"std\""));
        }
    }
    let switch = |key: &str, usual: bool| Ok(reader.switch_if(key)?.unwrap_or(usual));
    let least = Span::from_millis(if ns2 { 100 } else { 40 });
    Ok(Snoop {
        machine: if ns2 { SnoopMachine::Ns2 } else { SnoopMachine::Paper },
        cache: reader.integer_if("cache")?.unwrap_or(if ns2 || paper { 100 } else { 1000 }) as u32,
        when_full: if reader.name("when_full")? == "evict" { WhenFull::Evict } else { WhenFull::Forward },
        persist: reader.integer("persist")? as u32,
        threshold: reader.integer_if("threshold")?.unwrap_or(1) as u32,
        ahead: switch("ahead", !ns2)?,
        timing: if paper { SnoopTiming::Double } else { SnoopTiming::Deviation },
        min_timeout: reader.span_if("min_timeout")?.unwrap_or(least),
        delayed_ack: (reader.span_if("delayed_ack")?).unwrap_or(if ns2 || paper {
            Span::ZERO
        } else {
            Span::from_millis(200)
        }),
        backoff: switch("backoff", !ns2 && !paper)?,
        sack: switch("sack", !ns2 && !paper)?,
        hide_sack: switch("hide_sack", !ns2 && !paper)?,
        ecn: switch("ecn", !ns2 && !paper)?,
        answer: switch("answer", !ns2)?,
        upward: match reader.name_if("upward")? {
            Some("off") => Upward::Off,
            Some("nack") => Upward::Nack,
            None if paper => Upward::Nack,
            _ => Upward::Eln,
        },
        handoff: match reader.name_if("handoff")? {
            Some("fresh") => AtHandoff::Fresh,
            Some("ignore") => AtHandoff::Ignore,
            None if ns2 => AtHandoff::Ignore,
            _ => AtHandoff::Move,
        },
        link_layer_delay: reader.span("link_layer_delay")?,
    })
}

/// Behind what stands there already: next to the link.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.direction.middleboxes.push(Middlebox::Snoop(read(entry)?));
    Ok(())
}
