//! One end of a stack in real time, for Python; in a build without stacks an error that says so.

use pyo3::prelude::*;

use crate::Plan;

/// What has become of one end of a connection.
#[pyclass(frozen, get_all, module = "lasthop._native")]
pub(crate) struct CarriedEnd {
    /// Payload that the application of this end has read.
    delivered_bytes: u64,
    /// When all of it was read, or at a sender acknowledged.
    finished_s: Option<f64>,
    /// Why the connection ended early, if it did.
    closed: Option<String>,
    /// Mean of the smoothed RTTs that the stack had.
    rtt_mean_s: Option<f64>,
    /// Packets that it took for lost.
    lost_packets: Option<u64>,
    sent: u64,
    received: u64,
}

/// Carries one end of a flow over a UDP socket for some seconds: the sender's if there is a peer, an address with a
/// port, else the receiver's. The GIL is released meanwhile.
#[pyfunction]
#[pyo3(signature = (plan, seed, flow, *, port, peer=None, lasts_s))]
pub(crate) fn carry_stack(
    py: Python<'_>,
    plan: &Bound<'_, Plan>,
    seed: u64,
    flow: usize,
    port: u16,
    peer: Option<String>,
    lasts_s: f64,
) -> PyResult<CarriedEnd> {
    let scenario = plan.get().scenario.seeded(seed).map_err(|error| crate::scenario_error(&error))?;
    py.detach(|| carry(scenario.plan(), (seed, flow), (port, peer), lasts_s))
}

#[cfg(all(feature = "stacks", unix))]
fn carry(
    plan: &lasthop_net::plan::Plan,
    (seed, flow): (u64, usize),
    (port, peer): (u16, Option<String>),
    lasts_s: f64,
) -> PyResult<CarriedEnd> {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    use lasthop_core::time::Span;
    use lasthop_stacks::real;

    let failed = |error: &dyn std::fmt::Display| crate::RunError::new_err(error.to_string());
    let peer: Option<SocketAddr> =
        peer.map(|text| text.parse().map_err(|error| failed(&format!("{text}: {error}")))).transpose()?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).map_err(|error| failed(&error))?;
    let is_sender = peer.is_some();
    let order = real::Order { plan, seed, flow, is_sender, peer, lasts: Span::from_seconds(lasts_s) };
    let done = real::carry(&order, &socket).map_err(|error| failed(&error))?;
    Ok(CarriedEnd {
        delivered_bytes: done.report.delivered_bytes,
        finished_s: done.report.finished.map(lasthop_core::time::Time::seconds),
        closed: done.report.closed.map(|(_, reason)| reason),
        rtt_mean_s: done.rtt_mean.map(Span::seconds),
        lost_packets: done.report.lost_packets,
        sent: done.datagrams.0,
        received: done.datagrams.1,
    })
}

#[cfg(not(all(feature = "stacks", unix)))]
fn carry(
    _: &lasthop_net::plan::Plan,
    _: (u64, usize),
    _: (u16, Option<String>),
    _: f64,
) -> PyResult<CarriedEnd> {
    Err(crate::RunError::new_err("this build has no stacks: make build FEATURES=stacks"))
}
