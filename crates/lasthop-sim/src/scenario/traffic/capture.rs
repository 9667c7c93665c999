//! `capture`: what a connection of a pcap or pcapng file sent, at the times at which it did.
//!
//! The file is read by `crate::capture`.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{Replay, Traffic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Kind, LONGEST, MOST_FRAMES};
use super::super::reader::Reader;
use crate::capture::read::{Capture, MOST_FLOWS};

pub(super) const NAME: &str = "capture";
pub(super) const BARE: bool = false;

table! {
    /// What a connection of a capture sent: the payload of each packet as a write at its time, the first at the start
    /// of the flow. Bytes that TCP repeated are written once.
    pub(super) static TABLE = "capture traffic";
    struct Keys {
        /// The pcap or pcapng file, relative to the scenario file.
        file: String = Kind::File, required_or("add file = \"call.pcap\"");
        /// Which connection: 1 is the one with most payload, as lasthop from-capture lists them.
        connection: u64 = Kind::Integer { min: 1, max: MOST_FLOWS as u64 }, default("1");
        /// Which way of it: the one with more payload, or the other.
        direction: &'static str = Kind::Choice(|| vec!["more", "less"]), default("\"more\"");
    }
}

pub(super) fn read(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let Keys { file, connection: number, direction } = Keys::read(table)?;
    let capture = files.capture(table, &file)?;
    let flows = by_payload(&capture);
    let Some(&(flow, forward)) = flows.get(number as usize - 1) else {
        let message = format!("the capture has no connection {number}: it has {}", flows.len());
        return Err(table.error("connection", message, "'lasthop from-capture' lists them"));
    };
    let forward = forward == (direction == "more");
    let writes = writes(&capture, flow, forward);
    if writes.is_empty() {
        let message = "this way of the connection carries no payload".to_owned();
        return Err(table.error("file", message, "choose another direction or connection"));
    }
    if writes.len() as u64 > MOST_FRAMES || writes[writes.len() - 1].0 > LONGEST {
        let message = format!("{} writes over {}", writes.len(), writes[writes.len() - 1].0);
        return Err(table.error(
            "file",
            message,
            &format!("at most {MOST_FRAMES} in {LONGEST}; cut the capture"),
        ));
    }
    Ok(Traffic::Capture(Replay { writes: writes.into() }))
}

/// Connections and whether their first packet goes the way with more payload, most payload first.
fn by_payload(capture: &Capture) -> Vec<(u32, bool)> {
    let mut payload = vec![[0_u64; 2]; capture.flows.len()];
    for packet in &capture.packets {
        payload[packet.flow as usize][usize::from(!packet.forward)] += u64::from(packet.payload);
    }
    let mut flows: Vec<(u32, bool)> =
        (0..).zip(&payload).map(|(flow, [forward, back])| (flow, forward >= back)).collect();
    flows.sort_by_key(|&(flow, _)| std::cmp::Reverse(payload[flow as usize].iter().sum::<u64>()));
    flows
}

/// The writes of one way of a connection.
fn writes(capture: &Capture, flow: u32, forward: bool) -> Vec<(Span, u32)> {
    let mut writes = Vec::new();
    let mut begin = 0;
    // The sequence number that comes next.
    let mut highest: Option<u32> = None;
    let of_flow = || capture.packets.iter().filter(|packet| packet.flow == flow && packet.forward == forward);
    // What several interfaces saw is the same: the first one counts.
    let interface = of_flow().next().map(|packet| packet.interface);
    let once = of_flow().filter(|packet| packet.payload > 0 && Some(packet.interface) == interface);
    for packet in once {
        let bytes = match packet.tcp {
            None => packet.payload,
            Some(tcp) => {
                let end = tcp.seq.wrapping_add(packet.payload);
                let new = highest.map_or(packet.payload, |highest| {
                    let ahead = end.wrapping_sub(highest) as i32;
                    (ahead.max(0) as u32).min(packet.payload)
                });
                if new > 0 {
                    highest = Some(end);
                }
                new
            }
        };
        if bytes == 0 {
            continue;
        }
        if writes.is_empty() {
            begin = packet.at_ns;
        }
        writes.push((Span(packet.at_ns - begin), bytes));
    }
    writes
}

/// A capture that scenarios share.
pub(in super::super) type Shared = Arc<Capture>;
