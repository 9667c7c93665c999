//! Devices: everything in a path that needs more than a plain link, or sees more than one packet at a time.
//!
//! A device has ports. Packets reach it in the order of the clock, whatever path they are on; it may hold, forward,
//! divert, drop and mark them, emit packets of its own, tell senders something, and set one timer. It does so through
//! its `Cx`, which collects what it wants done as `Effect`s; `network/` applies them when the device has returned,
//! so that no device ever calls another. Plain links are not devices and pay nothing for them.
//!
//! There are two ways to stand in a path:
//!
//! - in place of the head of a link: retransmission ([`arq`]), queues that decide at departure (`queued`) and
//!   recordings of two loads ([`two_loads`]), which use the link's transmitter and air; radio channels ([`wlan`]), one
//!   device for all directions of all links that share the channel, and cellular cells ([`cellular`]), one for each
//!   direction of a cell;
//! - as a [`Middlebox`] at an end of a link: departing packets come in at `OUTBOUND`, those that arrive from the
//!   other direction at `INBOUND`, and, if it has an end there, those that have crossed the link at `FAR`.
//!
//! To add a middlebox: write `device/<name>.rs` (what a plan says of it, its state, `impl Element`, tests), add its
//! line to `middleboxes!` below, and its keys to the scenario (`lasthop-sim/src/scenario/middlebox/<name>.rs`).
//! `make new-device NAME=x` does all of it once, and `docs/how-to/add-a-device.md` explains it.

pub mod ack_filter;
pub mod arq;
pub mod cellular;
pub mod fast_ack;
pub mod fec;
pub mod impair;
pub mod l4span;
pub mod policer;
mod prediction;
pub(crate) mod queued;
pub(crate) mod router;
pub mod snoop;
#[cfg(test)]
pub(crate) mod testing;
pub mod two_loads;
pub mod wlan;
pub mod wtcp;
pub mod zhuge;

use lasthop_cc::Signal;
use lasthop_core::packet::{Cause, Packet, PacketArena};
use lasthop_core::time::{Span, Time};

use crate::link::Link;
use crate::measure::Window;
use crate::network::extras::ExtraArena;
pub(crate) use crate::queue::Parcel;
use crate::routing::DirectionId;
use crate::trace::FrameRecord;
use crate::transport::extra::Extra;

/// Index of a device.
pub(crate) type DeviceId = u32;

/// Port of a middlebox at which packets arrive that are about to enter its link.
pub(crate) const OUTBOUND: u32 = 0;
/// Port of a middlebox at which packets arrive that have come over the other direction of its link.
pub(crate) const INBOUND: u32 = 1;
/// Port of a middlebox that has an end at the far end of its link, too: there packets arrive that have crossed it.
pub(crate) const FAR: u32 = 2;

/// What every device does.
pub(crate) trait Element {
    /// A packet has arrived at `port`.
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>);

    /// A time has come that the device asked for with [`Cx::wake`], or a later one.
    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// The run is over: hands what it still holds to [`Cx::keep`], so that the ledger balances.
    fn close(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// What it counted within the measurement window, by the names of its declared columns; times in nanoseconds.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What it holds at present, by the names of its declared columns.
    fn holdings(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Packets that it sent again within the measurement window to repair losses; `None` if it never does.
    fn repairs(&self) -> Option<u64> {
        None
    }

    /// Whether it sends packets of its own against the direction of those that it receives to a place that it does
    /// not stand before: a head of a link does, behind the other direction of its link. What a middlebox sends back
    /// leaves by its other port.
    fn emits_back(&self) -> bool {
        false
    }
}

/// What happens when a host comes to a base station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtHandoff {
    /// What is kept comes with it, and what is not acknowledged is sent once.
    Move,
    /// The state is forgotten: the new base station begins with nothing.
    Fresh,
    /// Nothing.
    Ignore,
}

/// A host that moves: when, to which device, and the place behind which its packets go on there. In the order of time,
/// and then of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Move {
    pub(crate) at: Time,
    pub(crate) flow: u32,
    pub(crate) to: DeviceId,
    pub(crate) hop: u32,
}

/// What one device hands to another.
#[derive(Clone, Debug)]
pub(crate) enum Handed {
    Snoop(Box<snoop::Handed>),
    Wtcp(Box<wtcp::Handed>),
    /// The uplink of a user of a cell, which stands in place of the flow, to its downlink.
    Heard(cellular::Heard),
    /// The MAC of a station has this range of the flow, says its radio channel to the access point.
    Arrived((u64, u64)),
}

/// A packet's crossing of a link, for the trace and the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The direction of the link.
    pub(crate) direction: DirectionId,
    /// Start of its first transmission, if there was one.
    pub(crate) started: Option<Time>,
}

/// What a device wants done.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// The packet reaches the next place of its path at `at`.
    Forward { parcel: Parcel, at: Time, crossing: Option<Crossing> },
    /// The packet goes on from another place.
    Divert { parcel: Parcel, hop: u32, at: Time },
    /// The packet is lost at `at`.
    Drop { parcel: Parcel, cause: Cause, at: Time, crossing: Option<Crossing> },
    /// A packet of the device's own reaches the place `hop` at `at`.
    Emit { packet: Packet, extra: Option<Box<Extra>>, hop: u32, at: Time },
    /// A packet of the device's own starts at `at` where the reverse path to the other end of the flow leaves
    /// the device: behind its other port, or at the head of a link behind the other direction.
    Return { parcel: Parcel, packet: Packet, extra: Option<Box<Extra>>, at: Time },
    /// The sender of `flow` learns something at `at`.
    Signal { flow: u32, signal: Signal, at: Time },
    /// The host at the far end of the link at place `hop` hears a corrupt frame at `at`.
    Noise { hop: u32, at: Time },
    /// The receiver of `flow` hears a corrupt frame at `at`, whose ever it was.
    Hear { flow: u32, at: Time },
    /// A frame of a radio channel is to be recorded, with the packet in it, which is on its way over `direction`.
    Frame { record: Box<FrameRecord>, parcel: Option<Parcel>, direction: DirectionId },
    /// The packet has reached its end here: it was meant for the device.
    Absorb { parcel: Parcel },
    /// Another device takes over what this one stores about a flow at `at`, or learns something of it.
    Hand { to: DeviceId, flow: u32, handed: Handed, at: Time },
    /// The packet is still in the device when the run ends.
    Keep { parcel: Parcel, crossing: Option<Crossing> },
}

/// What a device may look at and change while it acts, and where it says what it wants.
pub(crate) struct Cx<'a> {
    /// The present.
    pub(crate) now: Time,
    /// The measurement window.
    pub(crate) window: Window,
    /// Packets by their slots.
    pub(crate) packets: &'a mut PacketArena,
    pub(crate) extras: &'a mut ExtraArena,
    /// Directions of links.
    pub(crate) links: &'a mut [Link],
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) wake: Time,
}

impl Cx<'_> {
    /// A direction of a link.
    #[inline]
    pub(crate) fn link(&mut self, direction: DirectionId) -> &mut Link {
        &mut self.links[direction as usize]
    }

    /// A copy of what a packet carries beyond its header.
    pub(crate) fn extra(&self, packet: u32) -> Option<Box<Extra>> {
        self.extras.get(self.packets.get(packet).extra).map(|extra| Box::new(*extra))
    }

    /// Asks for a call of [`Element::on_timer`] at `at`. The earliest time asked for counts; after it, ask again.
    pub(crate) fn wake(&mut self, at: Time) {
        self.wake = self.wake.min(at);
    }

    /// Lets a packet go on at once.
    pub(crate) fn forward(&mut self, parcel: Parcel) {
        self.effects.push(Effect::Forward { parcel, at: self.now, crossing: None });
    }

    /// Drops a packet.
    pub(crate) fn drop(&mut self, parcel: Parcel, cause: Cause) {
        self.effects.push(Effect::Drop { parcel, cause, at: self.now, crossing: None });
    }

    /// Sends a packet of the device's own against the stream, to where `parcel` came from: an answer of a proxy, say.
    /// Its note must say which way it goes ([`Note::back`](lasthop_core::packet::Note::back)). Nothing is sent if no
    /// way back of the flow passes here.
    pub(crate) fn send_back(&mut self, parcel: Parcel, packet: Packet, extra: Option<Box<Extra>>) {
        self.effects.push(Effect::Return { parcel, packet, extra, at: self.now });
    }

    /// Hands over a packet that the device still holds when the run ends.
    pub(crate) fn keep(&mut self, parcel: Parcel) {
        self.effects.push(Effect::Keep { parcel, crossing: None });
    }

    /// Tells a sender something after `delay`.
    pub(crate) fn signal(&mut self, flow: u32, signal: Signal, delay: Span) {
        self.effects.push(Effect::Signal { flow, signal, at: self.now + delay });
    }
}

/// Makes the enum of all devices and its dispatch.
macro_rules! devices {
    ($($(#[$when:meta])? $name:ident($state:ty)),* $(,)?) => {
        /// A device with its state.
        #[derive(Clone, Debug)]
        pub(crate) enum Device {
            $($(#[$when])? $name(Box<$state>),)*
        }

        impl Element for Device {
            fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
                match self {
                    $($(#[$when])? Device::$name(device) => device.receive(parcel, port, cx),)*
                }
            }

            fn on_timer(&mut self, cx: &mut Cx<'_>) {
                match self {
                    $($(#[$when])? Device::$name(device) => device.on_timer(cx),)*
                }
            }

            fn close(&mut self, cx: &mut Cx<'_>) {
                match self {
                    $($(#[$when])? Device::$name(device) => device.close(cx),)*
                }
            }

            fn counters(&self) -> Vec<(&'static str, u64)> {
                match self {
                    $($(#[$when])? Device::$name(device) => device.counters(),)*
                }
            }

            fn holdings(&self) -> Vec<(&'static str, u64)> {
                match self {
                    $($(#[$when])? Device::$name(device) => device.holdings(),)*
                }
            }

            fn repairs(&self) -> Option<u64> {
                match self {
                    $($(#[$when])? Device::$name(device) => device.repairs(),)*
                }
            }

            fn emits_back(&self) -> bool {
                match self {
                    $($(#[$when])? Device::$name(device) => device.emits_back(),)*
                }
            }
        }
    };
}

/// Makes the enums of middleboxes, `Name(plan) => state`, and of all devices.
macro_rules! middleboxes {
    ($($(#[$when:meta])? $name:ident($plan:ty) => $state:ty),* $(,)?) => {
        /// What a plan puts at an end of a link.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Middlebox {
            $(
                #[doc = concat!("See [`", stringify!($plan), "`].")]
                $(#[$when])?
                $name($plan),
            )*
        }

        impl Middlebox {
            /// The device; `name` and `seed` key its random streams.
            pub(crate) fn build(&self, name: &str, seed: u64) -> Device {
                match self {
                    $($(#[$when])? Middlebox::$name(plan) => Device::$name(Box::new(<$state>::new(plan, name, seed))),)*
                }
            }
        }

        devices! {
            Arq(arq::ArqMachine),
            Queued(queued::Queued),
            TwoLoads(two_loads::TwoLoads),
            Router(router::Router),
            Medium(wlan::Medium),
            Cellular(cellular::Cellular),
            $($(#[$when])? $name($state),)*
        }
    };
}

middleboxes! {
    Policer(policer::Policer) => policer::Bucket,
    Impair(impair::Impair) => impair::Impairing,
    Fec(fec::Fec) => fec::Coding,
    AckFilter(ack_filter::AckFilter) => ack_filter::Filtering,
    Wtcp(wtcp::Wtcp) => wtcp::Agent,
    Snoop(snoop::Snoop) => snoop::Snooping,
    FastAck(fast_ack::FastAck) => fast_ack::FastAcking,
    Zhuge(zhuge::Zhuge) => zhuge::Telling,
    L4Span(l4span::L4Span) => l4span::Marking,
    #[cfg(test)] Mirror(testing::Mirror) => testing::Mirroring,
}

impl Middlebox {
    /// Whether it has an end at the far end of its link, too.
    pub fn reaches_over(&self) -> bool {
        matches!(self, Middlebox::Fec(_) | Middlebox::Zhuge(_) | Middlebox::L4Span(_))
    }

    /// Whether it sends packets that overtake those that wait at the head of its link, which therefore has to hold
    /// them.
    pub fn goes_ahead(&self) -> bool {
        matches!(self, Middlebox::Snoop(snoop) if snoop.ahead)
    }
}

/// A device of a network and its timer.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) device: Device,
    /// Earliest wake-up that is pending.
    pub(crate) armed: Time,
    /// A later one that is pending as well, if it is known.
    pub(crate) superseded: Time,
    /// The direction at whose near end it stands; [`NOWHERE`] if it stands at no link.
    pub(crate) direction: DirectionId,
}

/// No direction.
pub(crate) const NOWHERE: DirectionId = u32::MAX;

impl Device {
    /// Whether it stands in place of the head of its link.
    pub(crate) fn is_head(&self) -> bool {
        matches!(
            self,
            Device::Arq(_)
                | Device::Queued(_)
                | Device::TwoLoads(_)
                | Device::Medium(_)
                | Device::Cellular(_)
        )
    }

    /// Whether what it hands on reaches the link behind it later than at once.
    pub(crate) fn delays(&self) -> bool {
        matches!(self, Device::Snoop(snoop) if snoop.delays())
    }

    /// The queue of a head that has one of its own.
    pub(crate) fn queue(&mut self) -> Option<&mut queued::Queued> {
        match self {
            Device::Queued(queue) => Some(queue),
            Device::TwoLoads(both) => Some(both.queue()),
            _ => None,
        }
    }

    /// Tells an agent of a host that leaves it.
    pub(crate) fn add_move(&mut self, leaves: Move) {
        match self {
            Device::Snoop(snoop) => snoop.add_move(leaves),
            Device::Wtcp(wtcp) => wtcp.add_move(leaves),
            _ => {}
        }
    }

    /// A host comes with what another agent of its kind stores about it.
    pub(crate) fn take_over(&mut self, flow: u32, handed: Handed, cx: &mut Cx<'_>) {
        match (self, handed) {
            (Device::Snoop(snoop), Handed::Snoop(handed)) => snoop.take_over(flow, *handed, cx),
            (Device::Wtcp(wtcp), Handed::Wtcp(handed)) => wtcp.take_over(flow, *handed, cx),
            (Device::Cellular(cell), Handed::Heard(heard)) => cell.hear(flow, heard, cx),
            (Device::FastAck(agent), Handed::Arrived(range)) => agent.arrive(flow, range, cx),
            _ => {}
        }
    }
}
