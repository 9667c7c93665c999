//! What a plan says of a cellular cell.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;

pub use super::channel::{BEST_CQI, CqiTrack, Grid, Reports};
pub use super::drx::Drx;
pub use super::handover::Handovers;
pub use super::harq::Harq;
pub use super::rlc::{Acknowledged, RlcPlan};
pub use super::scheduler::Sharing;

/// A base station and its users. Both directions have the same radio, each in a band of its own (FDD).
#[derive(Clone, Debug, PartialEq)]
pub struct CellularPlan {
    /// Unique among cells.
    pub name: String,
    /// The users, each with a link of its own.
    pub users: Vec<CellularUser>,
    /// Transmission time interval.
    pub tti: Span,
    /// What a TTI carries.
    pub grid: Grid,
    /// Who gets it.
    pub sharing: Sharing,
    /// When the base station learns the CQI.
    pub reports: Reports,
    /// How transport blocks are repaired.
    pub harq: Harq,
    /// What is done about those that were not.
    pub rlc: RlcPlan,
    /// How an idle user asks for room in the uplink; `None` if it need not ask.
    pub requests: Option<Requests>,
    /// How the users sleep, if they do.
    pub drx: Option<Drx>,
    /// Bytes of headers in each transport block.
    pub block_header: u32,
    /// Bytes of headers with each packet.
    pub packet_header: u32,
}

impl CellularPlan {
    /// What one user alone has at this CQI, headers included; never zero.
    pub fn rate(&self, cqi: u8) -> Rate {
        let bits = u128::from(self.grid.bits(self.grid.resource_blocks, cqi));
        Rate(((bits * 1_000_000_000 / u128::from(self.tti.0)) as u64).max(1))
    }
}

/// A user of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellularUser {
    /// Index of its link, which leads forward from the base station.
    pub link: usize,
    /// Its channel downwards.
    pub down: CqiTrack,
    /// Its channel upwards.
    pub up: CqiTrack,
    /// When it goes to another cell, if it does.
    pub handovers: Option<Handovers>,
}

/// Scheduling requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// A user may ask this often; the opportunities of all users are spread over it.
    pub interval: Span,
    /// From a request to the TTI that was granted.
    pub delay: Span,
}
