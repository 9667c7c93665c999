//! Split connections: the keys of a proxy, and where it stands.

use std::sync::Arc;

use lasthop_net::plan::{Split, TcpConfig, Transport};

use super::super::diagnostic::{ScenarioError, quoted};
use super::super::keys::{ANY_TIME, Key, Kind, Table};
use super::super::reader::{Checked, Reader};
use super::super::transport::Shared;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "split";

pub(super) static HELPER: Helper = Helper {
    stands: "at any node between the ends of a TCP connection, at the head of a link",
    origin: "Bakre, Badrinath, ICDCS 1995; RFC 3135",
    source: "crates/lasthop-net/src/world/relay.rs",
    columns: "split_",
    fit,
};

const DOC: &str = "A proxy that terminates every TCP connection at the node and opens another one to the \
    far end (I-TCP; RFC 3135), in both directions. It holds the data of one half until the other half has \
    delivered them.";

/// As an entry of `middleboxes`.
pub(in super::super) static SPLIT: Table =
    Table { title: "split", doc: DOC, groups: &[SPLIT_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "split as a helper", doc: DOC, groups: &[SPLIT_KEYS, PLACED], partial: false };

const SPLIT_KEYS: &[Key] = &[
        Key::new(
            "to_wireless",
            Kind::Transport,
            "The sender over the link at the proxy.",
        )
        .default("\"newreno\""),
        Key::new(
            "to_wired",
            Kind::Transport,
            "The sender for data that arrived over the wireless link. If the radio is on the other side, the names \
             are exchanged.",
        )
        .default("\"newreno\""),
        Key::new(
            "buffer",
            Kind::Size { min: 1, max: 1_000_000_000 },
            "Bytes that it holds for each connection, those in flight from it included. It advertises the free part \
             as its window.",
        )
        .default("\"64 kB\""),
        Key::new(
            "opens",
            Kind::Choice(|| vec!["late", "early"]),
            "When it answers a SYN: when the connection beyond is open, or at once.",
        )
        .default("\"late\""),
        Key::new(
            "backhaul",
            Kind::Rate,
            "Rate at which buffered data moves to another split when a later path of a flow leads over it.",
        )
        .default("\"10 Mbit/s\""),
        Key::new(
            "transfer",
            ANY_TIME,
            "Additional time of the move, during which nothing passes.",
        )
        .default("\"10 ms\""),
        Key::new(
            "handoff",
            Kind::Choice(|| vec!["move", "lose"]),
            "Whether its state moves with the host: a proxy without the state of a connection resets it.",
        )
        .default("\"move\""),
        Key::new(
            "zero_windows",
            Kind::Switch,
            "Close the window of the sender towards the wireless host while the link of that host fades or \
             is down (M-TCP).",
        )
        .default("false"),
    ];

/// What `table`, an entry of either list, says of a proxy. `idle` gets what is to be said if no connection passes it.
pub(in super::super) fn read(
    table: &Reader<'_>,
    shared: &Shared<'_>,
    idle: &mut Vec<ScenarioError>,
) -> Result<Split> {
    let sender = |key: &str| -> Result<Arc<TcpConfig>> {
        let Checked::Transport(node) = table.value(key)? else {
            panic!("`{key}` is declared as a transport")
        };
        match shared.transport(table.source, node)? {
            Transport::Tcp(config) => Ok(config),
            Transport::Udp(_) | Transport::Rate(_) | Transport::Outside(_) => {
                let message = "a proxy that splits TCP connections has to send with TCP".to_owned();
                let remedy = format!("write {key} = \"newreno\", or another TCP transport");
                Err(table.error(key, message, &remedy))
            }
        }
    };
    let split = Split {
        number: idle.len(),
        buffer: table.size("buffer")?,
        late: table.name("opens")? == "late",
        to_wireless: sender("to_wireless")?,
        to_wired: sender("to_wired")?,
        backhaul: table.rate("backhaul")?,
        transfer: table.span("transfer")?,
        moves: table.name("handoff")? == "move",
        zero_windows: table.switch("zero_windows")?,
    };
    let message = "no TCP connection passes this split: it is at an end of all of them".to_owned();
    let remedy = "put it at a link that begins between source and sink, or leave it out";
    idle.push(table.source.error(table.place, message, remedy));
    Ok(split)
}

/// First of all that stands there: it ends connections at the node.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    if site.direction.split.is_some() {
        let message = format!("a split stands at link {} already", quoted(site.link));
        return Err(entry.error("at", message, "leave one of them out"));
    }
    site.direction.split = Some(read(entry, site.shared, site.splits)?);
    Ok(())
}
