//! What a flow's way is made of, hop by hop, as closed forms want it: rates, delays, losses, and who repairs them.
//!
//! Only what a plan says, and nothing that a run would show: the first path of every flow, the mean loss of a full
//! packet, no queues. Where the plan does not say what a hop does to a packet (a radio cell, a recorded history of
//! losses, outages) there is no loss, and a law has nothing to say.

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Direction, ErrorPosition, FlowPlan, Middlebox, OutageSchedule, Plan, Transport};
use lasthop_net::routing::{DirectionId, Routes, opposite};
use serde::Serialize;

/// The way of one flow, or of one half of a split connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// The flow's name.
    pub flow: String,
    /// Index of the flow whose data this one passes on, if its sender is a proxy's.
    pub passes_on: Option<usize>,
    /// Bytes of a full packet.
    pub packet_bytes: u32,
    /// Bytes of the data in it.
    pub payload_bytes: u32,
    /// Bytes of an ACK without blocks.
    pub ack_bytes: u32,
    /// Largest window in packets.
    pub window_packets: f64,
    /// Minimum timeout.
    pub least_timeout_s: f64,
    /// Hops, from the sender on.
    pub hops: Vec<Hop>,
}

/// A hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// The direction's name.
    pub link: String,
    /// Rate of the way there.
    pub rate_bit_s: u64,
    /// Of the way back.
    pub back_rate_bit_s: u64,
    /// Propagation delay of the way there.
    pub delay_s: f64,
    /// Of the way back.
    pub back_delay_s: f64,
    /// Mean loss of a full packet in one transmission, or of a piece of one where links send those; none if the plan
    /// does not say.
    pub loss: Option<f64>,
    /// Whether a repeated transmission is judged, too: otherwise losses lie behind the link's own retransmission.
    pub before_repair: bool,
    /// The link's own retransmission.
    pub arq: Option<Arq>,
    /// The code over it.
    pub fec: Option<Fec>,
    /// Most repetitions by a helper that repairs what it has seen pass; a helper without a limit has none.
    pub local_repeats: Option<u32>,
    /// Whether there is such a helper.
    pub repaired: bool,
}

/// A link's own retransmission.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arq {
    /// Maximum number of transmissions of a frame.
    pub attempts: u32,
    /// Pieces of a frame, and in each repetition; one each if it is repeated as a whole.
    pub pieces: u32,
    /// Pieces in each repetition.
    pub parity: u32,
    /// Frames under way.
    pub window: u32,
    /// From the start of one transmission to the next.
    pub timeout_s: f64,
    /// From the start of a transmission until its acknowledgement is back.
    pub cycle_s: f64,
}

/// A block code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fec {
    /// Source packets of a block.
    pub k: u32,
    /// All packets of a block.
    pub n: u32,
    /// The redundancy is not fixed.
    pub adaptive: bool,
}

/// The way of every TCP flow; none for others.
pub fn ways(plan: &Plan) -> Vec<Option<Way>> {
    let mut routes = Routes::new(plan.nodes.len(), &plan.links);
    plan.flows.iter().map(|flow| way(plan, &mut routes, flow)).collect()
}

fn way(plan: &Plan, routes: &mut Routes, flow: &FlowPlan) -> Option<Way> {
    let Transport::Tcp(config) = &flow.transport else { return None };
    let path = match &flow.first_path {
        Some(nodes) => routes.along(nodes).ok()?,
        None => routes.path(flow.source, flow.sink)?,
    };
    let (packet_bytes, ack_bytes) = (config.mss() + config.data_header(), config.data_header());
    Some(Way {
        flow: flow.name.clone(),
        passes_on: flow.relay.map(|relay| relay.of),
        packet_bytes,
        payload_bytes: config.mss(),
        ack_bytes,
        window_packets: config.receiver_window.into(),
        least_timeout_s: config.rto.min.seconds(),
        hops: path.iter().map(|&direction| hop(plan, direction, packet_bytes)).collect(),
    })
}

/// What a packet takes over an empty link beside its transmission; of a recording of two loads the mean.
fn least_delay(side: &Direction) -> Span {
    side.delay + side.light().map_or(Span::ZERO, |light| light.mean_delay())
}

fn hop(plan: &Plan, direction: DirectionId, packet: u32) -> Hop {
    let link = &plan.links[direction as usize / 2];
    let side = |direction: DirectionId| -> &Direction {
        if direction.is_multiple_of(2) { &link.forward } else { &link.reverse }
    };
    let (there, back) = (side(direction), side(opposite(direction)));
    let number = direction as usize / 2;
    let radio = plan.media.iter().any(|medium| medium.links.iter().any(|one| one.link == number))
        || plan.cellular.iter().any(|cell| cell.users.iter().any(|user| user.link == number));
    let scope = there.error_scope;
    let always = scope.from == Time::ZERO && scope.until == Time::MAX;
    let steady =
        there.rate_changes.is_empty() && there.outages.schedule == OutageSchedule::None && !radio && always;
    let pieces = there.arq.as_ref().and_then(|arq| arq.hybrid).map_or(1, |hybrid| hybrid.pieces);
    let frame = packet.div_ceil(pieces);
    let loss = if frame < scope.at_least { Some(0.0) } else { there.error.mean_loss(frame) };
    let mut found = Hop {
        link: link.direction_name(direction),
        rate_bit_s: there.rate.0,
        back_rate_bit_s: back.rate.0,
        delay_s: least_delay(there).seconds(),
        back_delay_s: least_delay(back).seconds(),
        loss: loss.filter(|_| steady),
        before_repair: there.error_position == ErrorPosition::AfterTransmission,
        arq: there.arq.as_ref().map(|arq| Arq {
            attempts: arq.attempts,
            pieces: arq.hybrid.map_or(1, |hybrid| hybrid.pieces),
            parity: arq.hybrid.map_or(1, |hybrid| hybrid.parity),
            window: arq.window,
            timeout_s: arq.timeout_for(there.rate, there.delay, packet.into()).seconds(),
            cycle_s: (there.rate.serialisation(packet.into())
                + there.rate.serialisation(arq.ack_size.into())
                + there.delay * 2)
                .seconds(),
        }),
        fec: None,
        local_repeats: None,
        repaired: false,
    };
    for middlebox in &there.middleboxes {
        match middlebox {
            Middlebox::Fec(fec) => {
                found.fec = Some(Fec { k: fec.k, n: fec.n, adaptive: fec.target.is_some() });
            }
            Middlebox::Snoop(snoop) => {
                (found.repaired, found.local_repeats) = (true, Some(snoop.persist));
            }
            Middlebox::Wtcp(_) => (found.repaired, found.local_repeats) = (true, None),
            _ => {}
        }
    }
    found
}
