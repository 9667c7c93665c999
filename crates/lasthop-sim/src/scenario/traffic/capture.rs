//! `capture`: what a connection of a pcap or pcapng file sent, at the times at which it did.
//!
//! The file is read by `crate::capture`.

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{Replay, Traffic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Kind, LONGEST, MOST_FRAMES};
use super::super::reader::Reader;
use crate::capture::read::{Capture, MOST_FLOWS, copied_on};

pub(super) const NAME: &str = "capture";
pub(super) const BARE: bool = false;

table! {
    /// What a connection of a capture sent: the payload of each packet as a write at its time, the first at the start
    /// of the flow. Bytes that TCP retransmitted are written once.
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
    let of_way = capture.packets.iter().filter(|packet| packet.flow == flow && packet.forward == forward);
    // Of TCP the sequence numbers tell what is there twice.
    if copied_on(of_way.filter(|packet| packet.tcp.is_none())).is_some() {
        let message = "the capture has the same packets twice, as of two places in one file".to_owned();
        return Err(table.error("file", message, "take the capture of one place"));
    }
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
    let mut stream = Stream::default();
    let of_flow = || capture.packets.iter().filter(|packet| packet.flow == flow && packet.forward == forward);
    // What several interfaces saw is the same: the first one counts.
    let interface = of_flow().next().map(|packet| packet.interface);
    let once = of_flow().filter(|packet| packet.payload > 0 && Some(packet.interface) == interface);
    for packet in once {
        let bytes = packet.tcp.map_or(packet.payload, |tcp| stream.take(tcp.seq, packet.payload));
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

/// Which bytes of a TCP connection have been seen.
#[derive(Default)]
struct Stream {
    /// The end of the highest segment, from the first byte that was seen on.
    highest: Option<(i64, u32)>,
    /// What is missing below it, by where it begins.
    holes: BTreeMap<i64, i64>,
}

impl Stream {
    /// How many of `length` bytes from `seq` on are new.
    fn take(&mut self, seq: u32, length: u32) -> u32 {
        let (highest, number) = self.highest.unwrap_or((0, seq));
        let begin = highest + i64::from(seq.wrapping_sub(number) as i32);
        let end = begin + i64::from(length);
        let mut new = (end - begin.max(highest)).max(0);
        // Behind the place of capture a loss is a hole, which a retransmission fills.
        let below = self.holes.range(..end).rev().map(|(&from, &to)| (from, to));
        let touched: Vec<(i64, i64)> = below.take_while(|&(_, to)| to > begin).collect();
        for (from, to) in touched {
            self.holes.remove(&from);
            for (from, to) in [(from, begin), (end, to)] {
                if from < to {
                    self.holes.insert(from, to);
                }
            }
            new += to.min(end) - from.max(begin);
        }
        if begin > highest {
            self.holes.insert(highest, begin);
        }
        if end > highest || self.highest.is_none() {
            self.highest = Some((end, seq.wrapping_add(length)));
        }
        new as u32
    }
}

/// A capture that scenarios share.
pub(in super::super) type Shared = Arc<Capture>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture behind a loss has a hole that is filled later, in parts and with bytes that are known; numbers wrap.
    #[test]
    fn bytes_are_counted_once() {
        let base = u32::MAX - 1_500;
        let mut stream = Stream::default();
        let mut taken = Vec::new();
        for (from, length) in
            [(0, 1000), (0, 1000), (4000, 1000), (2000, 500), (500, 1000), (1000, 4000), (0, 6000)]
        {
            taken.push(stream.take(base.wrapping_add(from), length));
        }
        assert_eq!(taken, [1000, 0, 1000, 500, 500, 2000, 1000]);
        assert_eq!(taken.iter().sum::<u32>(), 6000);
        assert!(stream.holes.is_empty());
    }

    /// What is older than the first segment that was seen was sent before it, and is no part of what is sent again.
    #[test]
    fn what_came_before_the_first_segment_is_old() {
        let mut stream = Stream::default();
        assert_eq!([stream.take(5000, 100), stream.take(4000, 100), stream.take(5100, 1)], [100, 0, 1]);
    }
}
