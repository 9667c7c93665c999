//! A simulation, captured at a node: to be read like a capture of real packets, and laid beside one.

use lasthop_net::plan::Plan;
use lasthop_net::trace::{Frames, Recording};
use lasthop_net::world::Evaluation;

use super::read::{Capture, CaptureError, read_from};
use crate::pcapng::{self, PcapngError, Vantage, ports};
use crate::run::{self, Progress, RunError};

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The run ended early.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Nothing can be captured there.
    #[error(transparent)]
    Place(#[from] PcapngError),
    /// The run sent nothing there.
    #[error("the simulation cannot be read at {node:?}: {why}")]
    Nothing {
        /// The node.
        node: String,
        /// What is missing.
        why: CaptureError,
    },
}

/// Runs `plan` and captures what the node called `node` sends and receives.
pub fn simulate(plan: &Plan, seed: u64, node: &str) -> Result<Capture, SimulatedError> {
    let mut file = Vec::new();
    let vantage = Vantage::named(plan, node)?;
    let mut written = pcapng::Capture::new(&mut file, plan, vantage, &[])?;
    let recording = Recording { series: false, trace: true, frames: Frames::None };
    run::run_into(plan, seed, (recording, Evaluation::Eager), &mut written, &Progress::default())?;
    written.finish()?;
    read_from(&file[..], None).map_err(|why| SimulatedError::Nothing { node: node.to_owned(), why })
}

/// The connection of a simulated capture that is the flow number `flow` of its scenario, and whether the data of that
/// flow go the way of the connection's first packet.
pub fn flow_of(capture: &Capture, flow: u32) -> Option<(u32, bool)> {
    let port = ports(flow, false).0;
    let found = (0..).zip(&capture.flows).find(|(_, ends)| ends.from.1 == port || ends.to.1 == port);
    found.map(|(number, ends)| (number, ends.from.1 == port))
}
