//! The ground of lasthop.
pub mod time;
pub mod units;
