//! What a network measured.

use std::io::Write;

use lasthop_net::plan::Plan;
use lasthop_sim::pcapng::{self, Vantage};
use lasthop_sim::summary::Summary;

use crate::{Error, Recorded};

/// What a run measured, as a run of the command has it.
#[derive(Clone, Debug)]
pub struct Results {
    /// Totals, flows and links. A flow is what went from one address and port to another.
    pub summary: Summary,
    /// Series and traces, as far as [`crate::Network::record`] asked for them.
    pub recorded: Recorded,
    pub(crate) plan: Plan,
    /// Whether every packet was recorded.
    pub(crate) is_traced: bool,
}

impl Results {
    /// Writes a capture for Wireshark of what a place had: the name of a node or of a link, `links` for all of them, or
    /// `senders`. The trace must have been recorded. Headers are IPv4's, with the addresses 10.0.0.1, 10.0.0.2, ... of
    /// the nodes, and payload is zeros. Returns how many packets the capture holds.
    pub fn write_pcapng(&self, place: &str, writer: impl Write) -> Result<u64, Error> {
        if !self.is_traced {
            return Err(Error::NotTraced);
        }
        let vantage = Vantage::named(&self.plan, place)?;
        Ok(pcapng::write_trace(writer, &self.plan, &self.recorded.hops, vantage)?)
    }
}
