//! A bench for the unit tests of devices: hands packets and timers to one device that stands alone, in the order of the
//! clock, and keeps what it wants done. And a device that only tests can build.

use lasthop_core::packet::{Cause, Kind, NONE, Note, Packet, PacketArena};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::{Cx, Effect, Element, OUTBOUND, Parcel};
use crate::link::Link;
use crate::measure::Window;
use crate::network::extras::ExtraArena;
use crate::plan::Direction;
use crate::queue::Ecn;
use crate::transport::extra::{Extra, Offer};

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
            let note = Note::new(there.is_forward(), false);
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
    links: Vec<Link>,
    /// When the device wants to be called.
    wake: Time,
}

impl<D: Element> Bench<D> {
    pub(super) fn new(device: D) -> Bench<D> {
        let (packets, extras) = (PacketArena::default(), ExtraArena::default());
        Bench { device, effects: Vec::new(), packets, extras, links: Vec::new(), wake: Time::MAX }
    }

    /// The same at the near end of a link of this many bits per second.
    pub(super) fn over_link(device: D, rate: u64) -> Bench<D> {
        let plan = Direction::plain(Rate(rate), Span::ZERO);
        let link = Link::new(&plan, "link", 1, Span::from_secs(1000), None);
        Bench { links: vec![link], ..Bench::new(device) }
    }

    /// Stores what a packet carries beyond its header.
    pub(super) fn attach(&mut self, extra: &Extra) -> u32 {
        self.extras.insert(extra)
    }

    pub(super) fn act(&mut self, now: Time, act: impl FnOnce(&mut D, &mut Cx<'_>)) {
        let mut cx = Cx {
            now,
            window: Window { from: Time::ZERO, to: Time::MAX },
            packets: &mut self.packets,
            extras: &mut self.extras,
            links: &mut self.links,
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
        let parcel = Parcel { packet, hop: 0, flow: 0, bytes, ecn: Ecn::Incapable, ahead: false, since: now };
        self.act(now, |device, cx| device.receive(parcel, port, cx));
    }

    /// A packet that is known already arrives at `port`, the place `hop` of its path.
    pub(super) fn send_on(&mut self, packet: u32, port: u32, hop: u32, now: Time) {
        self.run_until(now);
        let bytes = self.packets.get(packet).bytes;
        let parcel = Parcel { packet, hop, flow: 0, bytes, ecn: Ecn::Incapable, ahead: false, since: now };
        self.act(now, |device, cx| device.receive(parcel, port, cx));
    }

    /// A packet with this header arrives at `port`, the place `hop` of its path; its number.
    pub(super) fn offer_at(&mut self, packet: Packet, port: u32, hop: u32, now: Time) -> u32 {
        let packet = self.packets.insert(packet);
        self.send_on(packet, port, hop, now);
        packet
    }

    /// The packet of the device's own that it sent as the `number`th, whichever way.
    pub(super) fn emitted_packet(&self, number: usize) -> Packet {
        let emitted = |effect: &Effect| match effect {
            Effect::Emit { packet, .. } | Effect::Return { packet, .. } => Some(*packet),
            _ => None,
        };
        self.effects.iter().filter_map(emitted).nth(number).expect("that number was sent")
    }

    /// The same for a packet that is given, with what it carries beyond its header.
    pub(super) fn offer_packet(&mut self, port: u32, packet: Packet, extra: Option<&Extra>, now: Time) {
        self.run_until(now);
        let extra = extra.map_or(NONE, |extra| self.extras.insert(extra));
        let (bytes, ecn) = (packet.bytes, Ecn::of(packet.flags));
        let index = self.packets.insert(Packet { extra, ..packet });
        let parcel = Parcel { packet: index, hop: 0, flow: 0, bytes, ecn, ahead: false, since: now };
        self.act(now, |device, cx| device.receive(parcel, port, cx));
    }

    /// What the packet carries that was let through last, beyond its header.
    pub(super) fn let_through(&self) -> Option<&Extra> {
        let packet = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Forward { parcel, .. } => Some(parcel.packet),
            _ => None,
        });
        packet.and_then(|packet| self.extras.get(self.packets.get(packet).extra))
    }

    /// What the device wanted done since the last call; packets that it let go leave their slots.
    pub(super) fn take_effects(&mut self) -> Vec<(Effect, Packet)> {
        let effects = std::mem::take(&mut self.effects);
        let with_packet = |effect: Effect| {
            let packet = match &effect {
                Effect::Forward { parcel, .. } | Effect::Drop { parcel, .. } | Effect::Absorb { parcel } => {
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

/// Hands a device packets that no endpoint sends: any kind, number, flow, port and order, repeated and in the
/// past of one another, and calls its timers. After each step `look` says whether it holds no more than it may.
/// `LASTHOP_FUZZ=1000000` makes it as many sequences of packets.
pub(super) fn hammer<D: Element>(make: impl Fn() -> D, ports: u32, look: impl Fn(&D) -> bool) {
    let count: u64 = std::env::var("LASTHOP_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let mut stream = Stream::new(1, "hammer");
    let kinds = [
        Kind::Syn,
        Kind::SynAck,
        Kind::Data,
        Kind::Data,
        Kind::Data,
        Kind::Ack,
        Kind::Ack,
        Kind::Fin,
        Kind::FinAck,
        Kind::Udp,
        Kind::Probe,
        Kind::BadState,
        Kind::Repair,
        Kind::Reset,
    ];
    let mut bench = Bench::over_link(make(), 1_000_000);
    let mut now = Time::ZERO;
    let mut sent: Vec<Packet> = Vec::new();
    // Most sequences are short; now and then one is long enough to fill everything that can be filled.
    let lengths = (0..count).flat_map(|sequence| {
        let length = if sequence % 1_000 == 999 { 10_000 } else { 60 };
        (0..length).map(move |step| (sequence, step))
    });
    for (sequence, step) in lengths {
        if step == 0 && sequence > 0 {
            // Another life.
            bench.close(now);
            bench = Bench::over_link(make(), 1_000_000);
            now = Time::ZERO;
        }
        let mut pick = |below: u64| stream.below(below);
        let kind = kinds[pick(kinds.len() as u64) as usize];
        let far = if pick(20) == 0 { 1 << 40 } else { 100 };
        let payload = [0, 1, 1000, 1460, 65_000][pick(5) as usize];
        let note = Note::new(pick(2) == 0, pick(4) == 0);
        let mut packet = Packet {
            seq: pick(far) * 1000 + pick(2),
            stamp: Time(pick(far) * 1_000_000),
            echo: Time(pick(far) * 1_000_000),
            window: [0, 1, 1000, 65_535, u32::MAX][pick(5) as usize],
            bytes: payload + 40,
            payload,
            kind,
            flags: pick(64) as u8,
            note,
            extra: NONE,
            ..Packet::default()
        };
        if pick(10) == 0
            && let Some(&earlier) = sent.get(pick(64) as usize)
        {
            packet = earlier;
        }
        if sent.len() < 64 {
            sent.push(packet);
        } else {
            sent[pick(64) as usize] = packet;
        }
        let offer = Offer { timestamps: pick(4) > 0, ..Offer::default() };
        let extra = (kind == Kind::SynAck).then(|| Extra { offer: Some(offer), ..Extra::default() });
        packet.extra = extra.map_or(NONE, |extra| bench.extras.insert(&extra));
        let (port, flow) = (pick(ports.into()) as u32, pick(5) as u32);
        now += Span(pick(3) * pick(3) * pick(5_000_000));
        bench.run_until(now);
        let (bytes, hop) = (packet.bytes, pick(3) as u32 + 3);
        let packet = bench.packets.insert(packet);
        let parcel = Parcel { packet, hop, flow, bytes, ecn: Ecn::Incapable, ahead: false, since: now };
        bench.act(now, |device, cx| device.receive(parcel, port, cx));
        assert!(look(&bench.device), "it holds too much after packet {step} of sequence {sequence}");
        bench.take_effects();
    }
    bench.close(now + Span::from_secs(100));
}
