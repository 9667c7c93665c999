//! Plans put together by hand, for the unit tests of the engine: links of 8 Mbit/s, on which 1000 bytes take 1 ms, and
//! 10 ms.

use super::{
    Direction, Drawn, FlowPlan, Ftp, Limits, LinkPlan, Percentiles, Plan, Profile, Start, TcpConfig, Traffic,
    Transport, UdpConfig,
};
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

/// A link between two nodes.
pub(crate) fn link(from: usize, to: usize) -> LinkPlan {
    let direction = Arc::new(Direction::plain(Rate(8_000_000), Span::from_millis(10)));
    LinkPlan { name: format!("{from}-{to}"), from, to, forward: direction.clone(), reverse: direction }
}

fn flow(source: usize, sink: usize, transport: Transport, start: Start) -> FlowPlan {
    FlowPlan {
        name: format!("{source} to {sink}"),
        source,
        sink,
        transport,
        traffic: Traffic::Ftp(Ftp { bytes: Some(50_000) }),
        start,
        stop: None,
        realtime: None,
        first_path: None,
        dscp: 0,
        part: None,
        reroutes: Vec::new(),
        relay: None,
        exchange: None,
        class: None,
    }
}

/// A file of 50 kB over TCP, each segment of which is acknowledged at once.
pub(crate) fn transfer(source: usize, sink: usize) -> FlowPlan {
    let config = TcpConfig::preset("newreno", Profile::Rfc).expect("a preset");
    let config = TcpConfig { delayed_ack: None, ..config };
    flow(source, sink, Transport::Tcp(config.into()), Start::At(Time::ZERO))
}

/// Datagrams that are sent only by the test.
pub(crate) fn datagrams(source: usize, sink: usize) -> FlowPlan {
    let transport = Transport::Udp(UdpConfig { header: 28, payload: 972 });
    flow(source, sink, transport, Start::At(Time::MAX))
}

/// Ten seconds of `nodes` nodes.
pub(crate) fn plan(nodes: usize, links: Vec<LinkPlan>, flows: Vec<FlowPlan>) -> Plan {
    Plan {
        name: "test".to_owned(),
        duration: Span::from_secs(10),
        warmup: Span::ZERO,
        processing_time: Span::ZERO,
        seed: 1,
        limits: Limits { events: u64::MAX, wall_time: Span(u64::MAX) },
        series_interval: Span::from_millis(100),
        percentiles: Percentiles::Exact,
        nodes: (0..nodes).map(|node| node.to_string()).collect(),
        links,
        media: Vec::new(),
        cellular: Vec::new(),
        roaming: Vec::new(),
        flows,
        history: None,
        drawn: Drawn::default(),
    }
}
