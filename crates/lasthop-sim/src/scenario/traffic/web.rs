//! `web`: pages that a browser at the sink reads from a server at the source.

use std::sync::Arc;

use lasthop_net::plan::{Connections, Objects, Traffic, WebPlan};
use lasthop_net::traffic::web::{BROWSER_CONNECTIONS, PAGES};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Key, Kind, Table};
use super::super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "web";
pub(super) const BARE: bool = true;

/// Most objects of a page.
const MOST_OBJECTS: u64 = 10_000;
/// Most connections of a browser.
const MOST_CONNECTIONS: u64 = 64;

pub(super) static TABLE: Table = Table {
    title: "web traffic",
    doc: "Web pages, one after another, that a browser at the flow's sink asks a server at its source for, over \
          connections that it keeps. A connection is simulated as two flows, one in each direction.",
    groups: &[&[
        Key::new(
            "page",
            Kind::Choice(|| PAGES.iter().map(|(name, _)| *name).collect()),
            "A median page of HTTP Archive (October 2024): 56 objects and 1.9 MB, 51 and 1.7 MB, 51 and 1.2 MB. \
             Default: home-mobile.",
        ),
        Key::new(
            "objects",
            Kind::List(&Kind::Table(&OBJECTS)),
            "In place of page: what a page consists of, in the order in which it is asked for.",
        ),
        Key::new(
            "protocol",
            Kind::Choice(|| vec!["http/1.1", "http/2"]),
            "http/1.1: a connection carries one request at a time, and objects that wait open another. http/2: all \
             requests leave at once over one connection, and answers follow each other.",
        )
        .default("\"http/2\""),
        Key::new(
            "connections",
            Kind::Integer { min: 1, max: MOST_CONNECTIONS },
            "Maximum number of connections of a browser with http/1.1. Default: 6.",
        ),
        Key::new("request", Kind::Size { min: 1, max: 1_000_000 }, "Size of a request.").default("\"400 B\""),
        Key::new("server_time", ANY_TIME, "Processing time of the server for each request.").default("\"0 s\""),
        Key::new(
            "think",
            ANY_TIME,
            "Mean of the exponential time between the end of a page and the next one.",
        )
        .default("\"10 s\""),
        Key::new(
            "pages",
            Kind::Integer { min: 1, max: 1_000_000 },
            "How many pages are read. Default: as many as there is time for; none begins after `stop`.",
        ),
    ]],
    partial: false,
};

static OBJECTS: Table = Table {
    title: "objects of a page",
    doc: "Equal objects.",
    groups: &[&[
        Key::new(
            "size",
            Kind::Size { min: 1, max: 1_000_000_000_000 },
            "Size of an answer, header included.",
        )
        .required_or("add size = \"30 kB\""),
        Key::new("count", Kind::Integer { min: 1, max: MOST_OBJECTS }, "Number of these objects.")
            .default("1"),
        Key::new(
            "after",
            Kind::Integer { min: 1, max: MOST_OBJECTS },
            "Number, from 1, of the entry of the list that refers to them: they are requested when all objects of \
             that entry have arrived. Default: at once.",
        ),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    let multiplexed = table.name("protocol")? == "http/2";
    let connections = table.integer_if("connections")?;
    if multiplexed && connections.is_some_and(|number| number != 1) {
        let message = "http/2 has one connection".to_owned();
        return Err(table.error("connections", message, "leave it out, or write protocol = \"http/1.1\""));
    }
    let usual = if multiplexed { 1 } else { BROWSER_CONNECTIONS };
    let most = connections.map_or(usual, |number| number as u32);
    Ok(Traffic::Web(Arc::new(WebPlan {
        page: page(table)?,
        multiplexed,
        connections: Connections { most, server_time: table.span("server_time")? },
        request: table.size("request")?,
        think: table.span("think")?,
        pages: table.integer_if("pages")?,
    })))
}

fn page(table: &Reader<'_>) -> Result<Arc<[Objects]>> {
    let Some(listed) = table.list_if("objects")? else {
        let name = if table.has("page") { table.name("page")? } else { "home-mobile" };
        let (_, page) = PAGES.iter().find(|known| known.0 == name).unwrap_or(&PAGES[0]);
        return Ok(Arc::from(*page));
    };
    if table.has("page") {
        let message = "the page has both a name and objects".to_owned();
        return Err(table.error("objects", message, "leave one of them out"));
    }
    let mut page: Vec<Objects> = Vec::new();
    let mut total = 0;
    for Item { value, .. } in listed {
        let Checked::Table(entry) = value else { continue };
        let count = entry.integer("count")?;
        total += count;
        if total > MOST_OBJECTS {
            let message = format!("a page of more than {MOST_OBJECTS} objects");
            return Err(entry.error("count", message, "lower it"));
        }
        let after = match entry.integer_if("after")? {
            Some(after) if after > page.len() as u64 => {
                let message = format!(
                    "entry {} is named by entry {after}, which does not come before it",
                    page.len() + 1
                );
                return Err(entry.error("after", message, "name an earlier entry, counted from 1"));
            }
            after => after.map(|after| after as usize - 1),
        };
        page.push(Objects { count: count as u32, bytes: entry.size("size")?, after });
    }
    Ok(page.into())
}
