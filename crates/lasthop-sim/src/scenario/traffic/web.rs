//! `web`: pages that a browser at the sink reads from a server at the source.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{Connections, Objects, Traffic, Transport, WebPlan};
use lasthop_net::traffic::web::{BROWSER_CONNECTIONS, BROWSER_STREAMS, PAGES};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Kind};
use super::super::reader::{Checked, Item, Reader};
use super::super::stack;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "web";
pub(super) const BARE: bool = true;

const PROTOCOL: &str = "protocol";
const HTTP_3: &str = "http/3";
const ONE_BY_ONE: &str = "leave it out, or write protocol = \"http/1.1\"";

/// Most objects of a page.
const MOST_OBJECTS: u64 = 10_000;
/// Most connections of a browser.
const MOST_CONNECTIONS: u64 = 64;

table! {
    /// Web pages, one after another: a browser at the flow's sink requests them from a server at its source, over
    /// persistent connections. A connection is simulated as two flows, one in each direction; over a real stack it is
    /// one.
    pub(super) static TABLE = "web traffic";
    struct Keys<'n> {
        /// A median page of HTTP Archive (October 2024): 56 objects and 1.9 MB, 51 and 1.7 MB, 51 and 1.2 MB. Default:
        /// home-mobile.
        page: Option<&'static str> = Kind::Choice(|| PAGES.iter().map(|(name, _)| *name).collect());
        /// In place of page: what a page consists of, in the order of the requests.
        objects: Option<Vec<Item<'n>>> = Kind::List(&AN_OBJECT);
        /// http/1.1: a connection carries one request at a time, and waiting objects open another. http/2: all requests
        /// leave at once over one connection, and responses follow one another. http/3, over QUIC: the same with a
        /// stream for each request, so that a loss in one response does not delay the others (no head-of-line
        /// blocking). Default: http/3 over QUIC, and http/2 over all others.
        protocol: Option<&'static str> = Kind::Choice(|| vec!["http/1.1", "http/2", HTTP_3]);
        /// Maximum number of connections of a browser with http/1.1. Default: 6.
        connections: Option<u32> = Kind::Integer { min: 1, max: MOST_CONNECTIONS };
        /// Size of a request.
        request: u64 = Kind::Size { min: 1, max: 1_000_000 }, default("\"400 B\"");
        /// Processing time of the server for each request.
        server_time: Span = ANY_TIME, default("\"0 s\"");
        /// Mean of the exponential time between the end of a page and the next one.
        think: Span = ANY_TIME, default("\"10 s\"");
        /// Number of pages. Default: as many as there is time for; none begins after `stop`.
        pages: Option<u64> = Kind::Integer { min: 1, max: 1_000_000 };
    }
}

static AN_OBJECT: Kind = Kind::Table(&OBJECTS);

table! {
    /// Equal objects.
    static OBJECTS = "objects of a page";
    struct ObjectKeys {
        /// Size of an answer, header included.
        size: u64 = Kind::Size { min: 1, max: 1_000_000_000_000 }, required_or("add size = \"30 kB\"");
        /// Number of these objects.
        count: u32 = Kind::Integer { min: 1, max: MOST_OBJECTS }, default("1");
        /// Number, from 1, of the entry of the list that refers to them: they are requested when all objects of that
        /// entry have arrived. Default: at once.
        after: Option<usize> = Kind::Integer { min: 1, max: MOST_OBJECTS };
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    let keys = Keys::read(table)?;
    let protocol = keys.protocol.unwrap_or("http/2");
    let multiplexed = protocol != "http/1.1";
    if multiplexed && keys.connections.is_some_and(|number| number != 1) {
        let message = format!("{protocol} has one connection");
        let remedy = if protocol == HTTP_3 { "leave it out" } else { ONE_BY_ONE };
        return Err(table.error("connections", message, remedy));
    }
    let usual = if multiplexed { 1 } else { BROWSER_CONNECTIONS };
    Ok(Traffic::Web(Arc::new(WebPlan {
        page: page(table, keys.page, keys.objects)?,
        multiplexed,
        connections: Connections {
            most: keys.connections.unwrap_or(usual),
            streams: 1,
            server_time: keys.server_time,
        },
        request: keys.request,
        think: keys.think,
        pages: keys.pages,
    })))
}

/// Fits the protocol to the transport.
pub(super) fn over(transport: &Transport, table: &Reader<'_>, plan: &mut Arc<WebPlan>) -> Result<()> {
    let given = table.name_if(PROTOCOL)?;
    let has_streams = stack::of(transport).is_some_and(|stack| stack.has_streams);
    match given {
        Some(HTTP_3) if !has_streams => {
            let message = "http/3 runs over QUIC".to_owned();
            let remedy = "write transport = { stack = \"quinn\" }, or protocol = \"http/2\"";
            Err(table.error(PROTOCOL, message, remedy))
        }
        None | Some(HTTP_3) if has_streams => {
            Arc::make_mut(plan).connections.streams = BROWSER_STREAMS;
            Ok(())
        }
        Some(given) if has_streams => {
            let message = format!("{given} does not run over QUIC");
            Err(table.error(PROTOCOL, message, "write protocol = \"http/3\", or leave it out"))
        }
        _ => Ok(()),
    }
}

fn page(table: &Reader<'_>, name: Option<&str>, objects: Option<Vec<Item<'_>>>) -> Result<Arc<[Objects]>> {
    let Some(listed) = objects else {
        let name = name.unwrap_or("home-mobile");
        let (_, page) = PAGES.iter().find(|known| known.0 == name).unwrap_or(&PAGES[0]);
        return Ok(Arc::from(*page));
    };
    if name.is_some() {
        let message = "the page has both a name and objects".to_owned();
        return Err(table.error("objects", message, "leave one of them out"));
    }
    let mut page: Vec<Objects> = Vec::new();
    let mut total = 0;
    for Item { value, .. } in listed {
        let Checked::Table(entry) = value else { continue };
        let ObjectKeys { size: bytes, count, after } = ObjectKeys::read(&entry)?;
        total += u64::from(count);
        if total > MOST_OBJECTS {
            let message = format!("a page of more than {MOST_OBJECTS} objects");
            return Err(entry.error("count", message, "lower it"));
        }
        if let Some(after) = after.filter(|&after| after > page.len()) {
            let message =
                format!("entry {} is named by entry {after}, which does not come before it", page.len() + 1);
            return Err(entry.error("after", message, "name an earlier entry, counted from 1"));
        }
        page.push(Objects { count, bytes, after: after.map(|after| after - 1) });
    }
    Ok(page.into())
}
