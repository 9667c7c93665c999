//! What a network refuses, and why.

use std::net::{IpAddr, SocketAddr};

use lasthop_sim::scenario::ScenarioError;

/// Why a network cannot be made, or a host not attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is wrong; the text names place and remedy.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A flow of the scenario needs something that only the command has.
    #[error(
        "flow {flow:?} has the transport {transport}, which a network in a program cannot run: leave the flow out"
    )]
    Transport {
        /// Its name.
        flow: String,
        /// The transport.
        transport: String,
    },
    /// Flows of the scenario are told by class, and those of programs join one by one.
    #[error(
        "flow {flow:?} has results by class, which a network in a program cannot tell: leave results out"
    )]
    Class {
        /// Its name.
        flow: String,
    },
    /// A link of a path joins nothing.
    #[error(
        "a path has {0} more than the links between its nodes: name another node for each, or leave it out"
    )]
    Links(usize),
    /// No node has this name.
    #[error("the scenario has no node {name:?}: it has {known}")]
    NoNode {
        /// The name.
        name: String,
        /// The nodes that there are.
        known: String,
    },
    /// Two hosts cannot have one address.
    #[error("{0} is the address of another host: give each its own")]
    AddressInUse(IpAddr),
    /// There is nothing that a capture could hold.
    #[error("packets were not recorded: ask for the trace with Network::record before the first event")]
    NotTraced,
    /// A capture or the results could not be written.
    #[error("the capture cannot be written: {0}")]
    Capture(#[from] lasthop_sim::pcapng::PcapngError),
}

/// Why a datagram is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The sender is a host of another network.
    #[error("the network has no host {0}: attach it to this one")]
    UnknownHost(u32),
    /// No host has the address to which it should go.
    #[error("no host has the address {0}: attach one")]
    NoHost(SocketAddr),
    /// The sender's address is of the other version of IP.
    #[error("{from} and {to} are addresses of two versions of IP")]
    Versions {
        /// The sender.
        from: IpAddr,
        /// The receiver.
        to: IpAddr,
    },
    /// Sender and receiver stand at one node, or no path joins their nodes.
    #[error("no path of the network leads from {from} to {to}")]
    NoPath {
        /// The sender.
        from: IpAddr,
        /// The receiver.
        to: IpAddr,
    },
    /// With its headers it is longer than the links of the path take.
    #[error("a datagram of {bytes} B with {headers} B of headers exceeds the MTU of {mtu} B of its path")]
    TooLong {
        /// Its payload.
        bytes: usize,
        /// The headers of IP and UDP.
        headers: usize,
        /// The longest packet that every link of the path takes.
        mtu: usize,
    },
    /// There are more connections than a network tells apart.
    #[error("more than {0} pairs of addresses and ports: use fewer")]
    TooManyConnections(usize),
    /// The run is over.
    #[error("the run ended at {0}: give the scenario a longer duration")]
    Over(lasthop_core::time::Time),
}
