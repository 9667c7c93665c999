//! The capture of a run, written while it goes on or from its trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use lasthop_core::time::Time;
use lasthop_net::plan::Plan;
use lasthop_net::trace::{HopRecord, Sink};

use super::file::Writer;
use super::packet::{Closing, of_hop};
use super::vantage::Lens;
use super::{PcapngError, Record, Vantage};

/// What `vantage` sees of a run, in the order of time. Packets that were lost in the air after they passed carry a
/// comment with the cause; those that never left a queue were not on the air and are not in the capture.
///
/// Records come in the order of their arrival at links. A packet is transmitted later, and arrives later, so it waits
/// here until the records have come so far: no more of them wait than lie in queues and on links.
pub struct Capture<'a, W: Write> {
    plan: &'a Plan,
    vantage: Vantage,
    lens: Lens,
    out: Writer<W>,
    /// Of each flow.
    closing: Vec<Closing>,
    /// Packets that were seen later than records have come: when, the number of the record, and where it lies. Those of
    /// one instant appear in the order of their records.
    waiting: BinaryHeap<Reverse<(u64, u64, usize)>>,
    records: Vec<Record>,
    /// Places in `records` that are free.
    free: Vec<usize>,
    /// Records so far.
    count: u64,
}

impl<'a, W: Write> Capture<'a, W> {
    /// Starts a capture with `comments` at its head.
    pub fn new(
        writer: W,
        plan: &'a Plan,
        vantage: Vantage,
        comments: &[String],
    ) -> Result<Capture<'a, W>, PcapngError> {
        let lens = vantage.lens(plan);
        let out = Writer::new(writer, &lens.interfaces, comments)?;
        let closing = vec![Closing::default(); plan.flows.len()];
        let (waiting, records, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        Ok(Capture { plan, vantage, lens, out, closing, waiting, records, free, count: 0 })
    }

    /// Takes the next record.
    fn take(&mut self, hop: &HopRecord) -> Result<(), PcapngError> {
        self.write_until(hop.enqueued)?;
        let closing = &mut self.closing[hop.flow as usize];
        closing.note(self.plan, hop);
        self.count += 1;
        if let Some((time, interface, direction)) = self.vantage.sees(self.plan, &self.lens, hop) {
            let record = Record { time_ns: time.0, interface, direction, ..of_hop(self.plan, hop, *closing) };
            let place = if let Some(place) = self.free.pop() {
                self.records[place] = record;
                place
            } else {
                self.records.push(record);
                self.records.len() - 1
            };
            self.waiting.push(Reverse((time.0, self.count, place)));
        }
        Ok(())
    }

    /// Writes what was seen before `time`.
    fn write_until(&mut self, time: Time) -> Result<(), PcapngError> {
        while let Some(&Reverse((seen, _, place))) = self.waiting.peek()
            && seen < time.0
        {
            self.waiting.pop();
            self.free.push(place);
            self.out.write(&self.records[place])?;
        }
        Ok(())
    }

    /// Writes the rest, and returns how many packets the capture holds.
    pub fn finish(mut self) -> Result<u64, PcapngError> {
        self.write_until(Time::MAX)?;
        self.out.finish()
    }
}

impl<W: Write> Sink for Capture<'_, W> {
    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        self.take(record).map_err(io::Error::other)
    }
}

/// Writes what `vantage` sees of a run whose trace is in memory, as [`Capture`] does while a run goes on.
pub fn write_trace<W: Write>(
    writer: W,
    plan: &Plan,
    trace: &[HopRecord],
    vantage: Vantage,
) -> Result<u64, PcapngError> {
    write_described(writer, plan, trace, vantage, &[])
}

/// The same with `comments` at the head of the file.
pub fn write_described<W: Write>(
    writer: W,
    plan: &Plan,
    trace: &[HopRecord],
    vantage: Vantage,
    comments: &[String],
) -> Result<u64, PcapngError> {
    let mut capture = Capture::new(writer, plan, vantage, comments)?;
    trace.iter().try_for_each(|hop| capture.take(hop))?;
    capture.finish()
}
