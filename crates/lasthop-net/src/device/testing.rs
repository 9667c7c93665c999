//! A bench for the unit tests of devices: hands packets and timers to one device that stands alone, in the order of the
//! clock, and keeps what it wants done. And a device that only tests can build.

use lasthop_core::packet::{Cause, NONE, Note, Packet, PacketArena, flag};
use lasthop_core::time::Time;

use super::{Cx, Effect, Element, OUTBOUND, Parcel};
use crate::measure::Window;
use crate::network::extras::ExtraArena;
use crate::transport::extra::Extra;

/// Answers each so-manieth datagram that departs with one of 40 bytes, at once and in place of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirror {
    /// Every which.
    pub every: u64,
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Mirroring {
    plan: Mirror,
    seen: u64,
}

impl Mirroring {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as every device is made")]
    pub(super) fn new(plan: &Mirror, _name: &str, _seed: u64) -> Mirroring {
        Mirroring { plan: *plan, seen: 0 }
    }
}

impl Element for Mirroring {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        cx.forward(parcel);
        if port != OUTBOUND {
            return;
        }
        self.seen += 1;
        if self.seen.is_multiple_of(self.plan.every) {
            let there = *cx.packets.get(parcel.packet);
            let note = Note { back: there.is_forward(), ..Note::default() };
            let packet = Packet { bytes: 40, payload: 0, extra: NONE, note, ..there };
            cx.send_back(parcel, packet, None);
        }
    }
}

/// The bench with a device on it.
pub(super) struct Bench<D> {
    pub(super) device: D,
    /// What the device wanted done so far, in order.
    pub(super) effects: Vec<Effect>,
    packets: PacketArena,
    extras: ExtraArena,
    /// When the device wants to be called.
    wake: Time,
}

impl<D: Element> Bench<D> {
    pub(super) fn new(device: D) -> Bench<D> {
        let (packets, extras) = (PacketArena::default(), ExtraArena::default());
        Bench { device, effects: Vec::new(), packets, extras, wake: Time::MAX }
    }

    fn act(&mut self, now: Time, act: impl FnOnce(&mut D, &mut Cx<'_>)) {
        let mut cx = Cx {
            now,
            window: Window { from: Time::ZERO, to: Time::MAX },
            packets: &mut self.packets,
            extras: &self.extras,
            links: &mut [],
            effects: &mut self.effects,
            wake: self.wake,
        };
        act(&mut self.device, &mut cx);
        self.wake = cx.wake;
    }

    /// Calls the device whenever it asked to be called before `end`.
    pub(super) fn run_until(&mut self, end: Time) {
        while self.wake < end {
            let now = std::mem::replace(&mut self.wake, Time::MAX);
            self.act(now, D::on_timer);
        }
    }

    /// A packet of `bytes` arrives at `port`, before the timers of that instant. Packets number themselves from 0.
    pub(super) fn offer(&mut self, port: u32, bytes: u16, now: Time) {
        self.run_until(now);
        let packet = self.packets.insert(Packet { bytes, ..Packet::default() });
        let parcel = Parcel { packet, hop: 0, flow: 0, bytes, ect: false, ahead: false, since: now };
        self.act(now, |device, cx| device.receive(parcel, port, cx));
    }

    /// The same for a packet that is given, with what it carries beyond its header.
    pub(super) fn offer_packet(&mut self, port: u32, packet: Packet, extra: Option<Extra>, now: Time) {
        self.run_until(now);
        let extra = extra.map_or(NONE, |extra| self.extras.insert(extra));
        let (bytes, ect) = (packet.bytes, packet.has(flag::ECT));
        let index = self.packets.insert(Packet { extra, ..packet });
        let parcel = Parcel { packet: index, hop: 0, flow: 0, bytes, ect, ahead: false, since: now };
        self.act(now, |device, cx| device.receive(parcel, port, cx));
    }

    /// What the device wanted done since the last call; packets that it let go leave their slots.
    pub(super) fn take_effects(&mut self) -> Vec<(Effect, Packet)> {
        let effects = std::mem::take(&mut self.effects);
        let with_packet = |effect: Effect| {
            let packet = match &effect {
                Effect::Forward { parcel, .. } | Effect::Drop { parcel, .. } => {
                    let packet = *self.packets.get(parcel.packet);
                    self.extras.remove(packet.extra);
                    self.packets.remove(parcel.packet);
                    packet
                }
                Effect::Emit { packet, .. } | Effect::Return { packet, .. } => *packet,
                _ => Packet::default(),
            };
            (effect, packet)
        };
        effects.into_iter().map(with_packet).collect()
    }

    /// The run is over.
    pub(super) fn close(&mut self, end: Time) {
        self.run_until(end);
        self.act(end, D::close);
    }

    /// The packets that went on, and when.
    pub(super) fn forwarded(&self) -> Vec<(u32, Time)> {
        let forwarded = |effect: &Effect| match *effect {
            Effect::Forward { parcel, at, .. } => Some((parcel.packet, at)),
            _ => None,
        };
        self.effects.iter().filter_map(forwarded).collect()
    }

    /// The packets that were dropped, and why.
    pub(super) fn dropped(&self) -> Vec<(u32, Cause)> {
        let dropped = |effect: &Effect| match *effect {
            Effect::Drop { parcel, cause, .. } => Some((parcel.packet, cause)),
            _ => None,
        };
        self.effects.iter().filter_map(dropped).collect()
    }

    /// The packets that the device still held when the run was over.
    pub(super) fn kept(&self) -> Vec<u32> {
        let kept = |effect: &Effect| match *effect {
            Effect::Keep { parcel, .. } => Some(parcel.packet),
            _ => None,
        };
        self.effects.iter().filter_map(kept).collect()
    }
}
