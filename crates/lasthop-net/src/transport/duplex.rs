//! An end of a real TCP connection, made of a sender and a receiver of the engine.
//!
//! A flow of a simulation carries data one way; a connection on a wire carries them both ways, with one header for
//! both. A [`Duplex`] joins the two: what its sender and its receiver say goes out as segments with both a sequence
//! number and an acknowledgement, and what arrives is told to whom it concerns. It knows headers and lengths, no
//! bytes of data and no socket: their owner calls it (the proxies of `lasthop-live`), with the time, and wakes it
//! when it wants to be woken.
//!
//! **What it does beyond its halves.** Handshakes of both kinds (RFC 9293 section 3.5; simultaneous opens are none of
//! them), options as agreed (MSS, window scale, SACK, timestamps with RFC 7323 section 4.3, ECN of RFC 3168 or 9768),
//! sequence numbers that wrap, ACKs of what was never sent, RSTs as RFC 5961 section 3.2 wants them. Urgent data are
//! data.

use std::net::SocketAddrV4;

use lasthop_core::packet::{Kind, NONE, Note, Packet, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::codec::{Ecn, Flags, Header, Measured, Options, Tcp, Transport, unwrap};
use super::extra::{Extra, Offer};
use super::outside::{DEFAULT_MSS, LARGEST_SHIFT, TIME_TO_LIVE, TIMESTAMPS, stamp_of};
use super::tcp::accurate::{self, Feedback};
use super::tcp::config::TcpConfig;
use super::tcp::receiver::TcpReceiver;
use super::tcp::sender::TcpSender;
use super::wire::Wire;
use crate::measure::{FlowStats, Window};
use crate::plan::Percentiles;

/// A number farther away than this belongs to no segment of the connection.
const FAR: u64 = 1 << 30;

/// A segment to be sent. Bytes of data are counted from 0, without the SYN.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its headers.
    pub header: Header,
    /// The first byte of its payload.
    pub start: u64,
    /// How many there are.
    pub payload: u16,
}

/// The part of a payload that the connection takes: these bytes of it, whose first has the number `start` in the
/// stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number of the first byte.
    pub start: u64,
    /// Which bytes of the payload.
    pub part: std::ops::Range<usize>,
}

/// What the sender has put on the wire since the last look.
#[derive(Clone, Debug, Default)]
struct Tray {
    packets: Vec<Packet>,
    extras: Vec<Extra>,
    wake: Option<Time>,
}

impl Wire for Tray {
    fn send(&mut self, packet: Packet, _now: Time) {
        self.packets.push(packet);
    }

    fn wake(&mut self, at: Time) {
        self.wake = Some(at);
    }

    fn attach(&mut self, extra: Extra) -> u32 {
        self.extras.push(extra);
        self.extras.len() as u32 - 1
    }
}

/// One direction of the connection, as its headers tell of it.
#[derive(Clone, Copy, Debug)]
struct Side {
    address: SocketAddrV4,
    /// Sequence number of its SYN.
    initial: u32,
    /// Shift of its windows.
    shift: u8,
    offer: Offer,
}

/// An end of a connection. Everything that it sends is appended to `out`.
#[derive(Clone, Debug)]
pub struct Duplex {
    near: Side,
    far: Side,
    sender: TcpSender,
    receiver: TcpReceiver,
    tray: Tray,
    stats: Box<FlowStats>,
    window: Window,
    /// The other end opened it.
    is_passive: bool,
    /// The SYN of the other end has come.
    heard: bool,
    timestamps: bool,
    /// What both ends tell each other of marks, and what our SYN asked for, in the bits of a header.
    feedback: Feedback,
    asked: u8,
    /// The next ACK of the sender's tells how the SYN-ACK came.
    tells_of_answer: bool,
    /// TS.Recent of RFC 7323; the lower half is what is on the wire.
    recent_stamp: u64,
    /// One past the highest number sent.
    sent: u64,
    /// The last acknowledgement sent, and the last window heard.
    acknowledged: u64,
    last_window: u32,
    packets: u16,
    is_reset: bool,
}

impl Duplex {
    /// An end that opens a connection with a SYN at once.
    pub fn open(
        config: &TcpConfig,
        ends: [SocketAddrV4; 2],
        (initial, window): (u32, Window),
        now: Time,
        out: &mut Vec<Segment>,
    ) -> Duplex {
        let mut end = Duplex::new(config, ends, (initial, window), false);
        end.sender.on_data(Some(0), now, &mut end.tray);
        end.flush(now, out);
        end
    }

    /// An end that answers this SYN.
    pub fn accept(
        config: &TcpConfig,
        syn: &Header,
        (initial, window): (u32, Window),
        now: Time,
        out: &mut Vec<Segment>,
    ) -> Duplex {
        let mut end = Duplex::new(config, [syn.destination, syn.source], (initial, window), true);
        if let Transport::Tcp(tcp) = &syn.transport {
            end.hear(tcp, syn.ecn, now);
            end.sender.on_data(Some(0), now, &mut end.tray);
            end.flush(now, out);
        }
        end
    }

    fn new(
        config: &TcpConfig,
        [near, far]: [SocketAddrV4; 2],
        (initial, window): (u32, Window),
        is_passive: bool,
    ) -> Duplex {
        let side = |address, initial| Side { address, initial, shift: 0, offer: Offer::default() };
        let mut receiver = TcpReceiver::new(config);
        receiver.relay(config.mss(), false);
        // Only the profile of ns-2 draws from it.
        let mut clock = Stream::new(u64::from(initial), "clock");
        Duplex {
            near: side(near, initial),
            far: side(far, 0),
            sender: TcpSender::new(config, &mut clock, window, Percentiles::Sketch),
            receiver,
            tray: Tray::default(),
            stats: Box::new(FlowStats::new(Percentiles::Sketch)),
            window,
            is_passive,
            heard: false,
            timestamps: false,
            feedback: Feedback::None,
            asked: 0,
            tells_of_answer: false,
            recent_stamp: 0,
            sent: 0,
            acknowledged: 0,
            last_window: u32::MAX,
            packets: 0,
            is_reset: false,
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // What the application does

    /// It writes this many bytes more.
    pub fn write(&mut self, bytes: u64, now: Time, out: &mut Vec<Segment>) {
        self.sender.on_data(Some(bytes), now, &mut self.tray);
        self.flush(now, out);
    }

    /// It writes no more: a FIN follows the last byte.
    pub fn close(&mut self, now: Time, out: &mut Vec<Segment>) {
        self.sender.on_close(false, now, &mut self.tray);
        self.flush(now, out);
    }

    /// It has read the first `count` bytes of what has arrived.
    pub fn read(&mut self, count: u64, now: Time, out: &mut Vec<Segment>) {
        self.receiver.take(count, now);
        self.on_timer(now, out);
    }

    /// It ends the connection at once, with a RST.
    pub fn abort(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.is_reset || self.is_done() {
            return;
        }
        self.end(now);
        self.sender.refuse(now, &mut self.tray);
        self.flush(now, out);
    }

    /// Nothing more comes of it.
    fn end(&mut self, now: Time) {
        self.is_reset = true;
        self.receiver.reset(false);
        self.sender.abort(false, now, &mut self.tray);
        self.tray.wake = None;
    }

    // -----------------------------------------------------------------------------------------------------------------
    // What can be seen of it

    /// Bytes that have arrived in order, and whether the other end has closed behind them.
    pub fn arrived(&self) -> (u64, bool) {
        let (bytes, _, closed) = self.receiver.in_order();
        (bytes, closed)
    }

    /// Bytes that the other end has acknowledged.
    pub fn delivered(&self) -> u64 {
        self.sender.acknowledged().saturating_sub(1)
    }

    /// Bytes whose arrival the other end has been told of.
    pub fn acknowledged(&self) -> u64 {
        self.receiver.acknowledged()
    }

    /// Both ends know that it is open.
    pub fn is_open(&self) -> bool {
        self.heard && self.sender.acknowledged() > 0 && !self.is_reset
    }

    /// A RST has ended it, ours or the other end's.
    pub fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Both directions are closed, and both ends know.
    pub fn is_done(&self) -> bool {
        self.sender.stats.completed.is_some() && self.receiver.in_order().2
    }

    /// What its sender counted.
    pub fn sender(&self) -> &TcpSender {
        &self.sender
    }

    /// When it wants to be woken.
    pub fn due(&self) -> Option<Time> {
        [self.tray.wake, self.receiver.due()].into_iter().flatten().min()
    }

    /// It is woken.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Segment>) {
        while let Some((kind, _)) = self.receiver.overdue(now) {
            self.answer(kind, now, out);
        }
        if self.tray.wake.is_some_and(|at| at <= now) {
            self.tray.wake = None;
            self.sender.on_timer(now, &mut self.tray);
        }
        self.flush(now, out);
    }

    // -----------------------------------------------------------------------------------------------------------------
    // What arrives

    /// A segment with this many bytes of data arrives from the other end; there is `room` for bytes up to, and
    /// without, that number. Returns what of its payload is to be kept.
    pub fn take(
        &mut self,
        header: &Header,
        (payload, room): (usize, u64),
        now: Time,
        out: &mut Vec<Segment>,
    ) -> Option<Taken> {
        let Transport::Tcp(tcp) = &header.transport else { return None };
        if self.is_reset {
            return None;
        }
        if !self.heard {
            self.take_answer(tcp, header.ecn, now, out);
            return None;
        }
        let next = self.receiver.expects();
        let seq = unwrap(next, tcp.seq.wrapping_sub(self.far.initial));
        if tcp.flags.rst {
            // RFC 5961 section 3.2: exactly the next number, or it is asked for.
            if seq == next {
                self.end(now);
            } else if seq > next && seq < room + 2 {
                self.answer(Kind::Ack, now, out);
            }
            return None;
        }
        if tcp.flags.syn {
            self.take_syn_again(header, seq, now, out);
            return None;
        }
        if seq.abs_diff(next) > FAR {
            self.answer(Kind::Ack, now, out);
            return None;
        }
        if seq <= self.acknowledged
            && let Some((stamp, _)) = tcp.options.timestamps
        {
            self.recent_stamp = self.recent_stamp.max(unwrap(self.recent_stamp, stamp));
        }
        let (part, fin) = fit(seq, payload, tcp.flags.fin, room);
        let is_question = payload == 0 && !tcp.flags.fin && seq < self.acknowledged;
        if is_question || (part.is_empty() && payload > 0) {
            // RFC 9293 section 3.10.7.4: what is not acceptable is answered, and that is all.
            self.answer(Kind::Ack, now, out);
            if is_question {
                return None;
            }
        } else if payload > 0 || fin {
            let flags = if header.ecn == Ecn::Congestion { flag::CE } else { 0 };
            let packet = Packet {
                seq,
                payload: part.len() as u16,
                bytes: part.len() as u16 + super::tcp::config::BASE_HEADER as u16,
                stamp: now,
                kind: if fin { Kind::Fin } else { Kind::Data },
                flags: flags | if tcp.flags.cwr { flag::CWR } else { 0 },
                extra: NONE,
                ..Packet::default()
            };
            self.receive(&packet, None, now, out);
        }
        if payload == 0 && !fin && header.ecn == Ecn::Congestion {
            self.count_mark(now);
        }
        if tcp.flags.ack {
            self.take_ack(tcp, payload, now, out);
        }
        (!part.is_empty()).then(|| Taken { start: seq.saturating_sub(1), part })
    }

    /// Tells the receiver of a packet, and sends what it answers.
    fn receive(&mut self, packet: &Packet, extra: Option<&Extra>, now: Time, out: &mut Vec<Segment>) {
        if self.receiver.owes(packet, now) {
            while let Some((kind, _)) = self.receiver.overdue(now) {
                self.answer(kind, now, out);
            }
        }
        let answer = self.receiver.receive(packet, extra, now, &mut self.stats, &self.window);
        if let Some(kind) = answer {
            self.answer(kind, now, out);
        }
    }

    /// The other end says what it offers, in its SYN or SYN-ACK.
    fn hear(&mut self, tcp: &Tcp, ecn: Ecn, now: Time) {
        let timestamps = tcp.options.timestamps;
        let room = if timestamps.is_some() { TIMESTAMPS } else { 0 };
        self.heard = true;
        self.far.initial = tcp.seq;
        self.far.offer = Offer {
            mss: tcp.options.mss.unwrap_or(DEFAULT_MSS).saturating_sub(room).max(1),
            window_scale: tcp.options.window_scale.map(|shift| shift.min(LARGEST_SHIFT)),
            sack: tcp.options.sack_permitted,
            timestamps: timestamps.is_some(),
        };
        self.recent_stamp = (1 << 33) + timestamps.map_or(0, |(stamp, _)| stamp.into());
        // The receiver takes every handshake for one that it answers.
        let flags = if self.is_passive { tcp.flags.bits() & flag::ACE } else { self.agreed(tcp) };
        let flags = flags | ecn.flags();
        let syn = Packet { kind: Kind::Syn, stamp: now, extra: NONE, flags, ..Packet::default() };
        let extra = Extra { offer: Some(self.far.offer), ..Extra::default() };
        self.receiver.receive(&syn, Some(&extra), now, &mut self.stats, &self.window);
        let answer = self.receiver.acknowledge(Kind::SynAck, now);
        self.acknowledged = answer.seq;
        if self.is_passive {
            let offer = self.receiver.extra(Kind::SynAck, now).and_then(|extra| extra.offer);
            self.near.offer = offer.unwrap_or_default();
        }
        // No segment was made of that answer.
        self.receiver.tell_again();
        self.feedback = match (self.receiver.counts_marks(), answer.has(flag::ECE)) {
            (true, _) => Feedback::Accurate,
            (false, true) => Feedback::Classic,
            (false, false) => Feedback::None,
        };
        if !self.is_passive && self.feedback == Feedback::Accurate && ecn == Ecn::Congestion {
            self.count_mark(now);
        }
        self.timestamps = self.near.offer.timestamps && self.far.offer.timestamps;
        if let (Some(near), Some(far)) = (self.near.offer.window_scale, self.far.offer.window_scale) {
            (self.near.shift, self.far.shift) = (near, far);
        }
    }

    /// The SYN that would have been answered as ours was, in the bits of a header.
    fn agreed(&self, answer: &Tcp) -> u8 {
        let feedback = match self.asked {
            flag::ACE => accurate::agreed(answer.flags.bits()),
            // RFC 3168 section 6.1.1.
            _ if self.asked != 0 && answer.flags.ece => Feedback::Classic,
            _ => Feedback::None,
        };
        match feedback {
            Feedback::Accurate => flag::ACE,
            Feedback::Classic => flag::ECE | flag::CWR,
            Feedback::None => 0,
        }
    }

    /// A packet without data was marked.
    fn count_mark(&mut self, now: Time) {
        let packet = Packet { flags: flag::ECT | flag::CE, kind: Kind::Ack, ..Packet::default() };
        self.receiver.receive(&packet, None, now, &mut self.stats, &self.window);
    }

    /// A segment arrives before the other end's SYN has: it should be the SYN-ACK, or refuse the connection.
    fn take_answer(&mut self, tcp: &Tcp, ecn: Ecn, now: Time, out: &mut Vec<Segment>) {
        let Flags { syn, ack, rst, .. } = tcp.flags;
        if !ack || tcp.ack != self.near.initial.wrapping_add(1) {
            return;
        }
        if rst {
            self.end(now);
        } else if syn {
            self.hear(tcp, ecn, now);
            self.establish(tcp, (ecn, false), now, out);
        }
    }

    /// The SYN again, or another one (RFC 9293 section 3.10.7.4; RFC 5961 section 4).
    fn take_syn_again(&mut self, header: &Header, seq: u64, now: Time, out: &mut Vec<Segment>) {
        let counted = self.feedback == Feedback::Accurate;
        if seq == 0 && self.is_passive && self.sender.acknowledged() == 0 {
            if counted {
                // RFC 9768 section 3.1.5: the answer tells how the last one came.
                let syn = Packet { kind: Kind::Syn, flags: header.ecn.flags(), ..Packet::default() };
                self.receiver.receive(&syn, None, now, &mut self.stats, &self.window);
            }
            self.send_syn(Kind::SynAck, now, out);
        } else if seq == 0 && counted && !self.is_passive {
            // RFC 9768 section 3.2.2.1.
            let seq = self.sent.max(1);
            let mut tcp = self.tcp(seq, now);
            tcp.flags = tcp.flags.with_marks(accurate::reflect(header.ecn));
            self.put(tcp, (Ecn::NotCapable, 0, 0), out);
        } else {
            self.answer(Kind::Ack, now, out);
        }
    }

    /// The sender learns that the connection is open.
    ///
    /// `ecn`: how the segment came that says so, and whether it is the third of the handshake, without data or blocks.
    fn establish(&mut self, tcp: &Tcp, (ecn, is_third): (Ecn, bool), now: Time, out: &mut Vec<Segment>) {
        let shift = if self.is_passive { self.far.shift } else { 0 };
        let mut packet = self.packet_of(tcp, 1, u32::from(tcp.window) << shift, now);
        packet.kind = Kind::SynAck;
        packet.flags = match self.feedback {
            Feedback::Accurate if self.is_passive => {
                self.sender.hear_third(if is_third { tcp.flags.bits() } else { flag::CWR })
            }
            Feedback::Accurate => (tcp.flags.bits() & flag::ACE) | ecn.flags(),
            Feedback::Classic => flag::ECE,
            Feedback::None => 0,
        };
        self.tells_of_answer = self.feedback == Feedback::Accurate && !self.is_passive;
        let byte_counts = tcp.options.measured.byte_counts;
        let extra = Extra { offer: Some(self.far.offer), byte_counts, ..Extra::default() };
        self.last_window = packet.window;
        self.sender.on_ack(&packet, Some(&extra), now, &mut self.tray);
        if self.is_passive {
            // The third segment of the handshake is the other end's.
            self.tray.packets.retain(|packet| packet.kind != Kind::Ack);
        }
        self.flush(now, out);
    }

    /// What a segment acknowledges.
    fn take_ack(&mut self, tcp: &Tcp, payload: usize, now: Time, out: &mut Vec<Segment>) {
        let ack = unwrap(self.sent, tcp.ack.wrapping_sub(self.near.initial));
        if ack > self.sent || self.sent - ack > FAR {
            self.answer(Kind::Ack, now, out);
            return;
        }
        let una = self.sender.acknowledged();
        if una == 0 {
            if ack == 0 {
                return;
            }
            let is_third = payload == 0 && !tcp.flags.fin && tcp.options.sack.as_slice().is_empty();
            self.establish(tcp, (Ecn::NotCapable, is_third), now, out);
            if ack == 1 {
                return;
            }
        }
        let window = u32::from(tcp.window) << self.far.shift;
        let byte_counts = tcp.options.measured.byte_counts.filter(|_| self.feedback == Feedback::Accurate);
        let mut extra = Extra { byte_counts, ..Extra::default() };
        for &(start, end) in tcp.options.sack.as_slice() {
            let number = |wire: u32| unwrap(self.sent, wire.wrapping_sub(self.near.initial));
            extra.sack.push(number(start), number(end));
        }
        // RFC 5681 section 2: a segment with data that says nothing new is no duplicate ACK.
        let has_blocks = !extra.sack.is_empty();
        let is_news = ack > una || (payload == 0 && !tcp.flags.fin) || has_blocks;
        if !is_news && window == self.last_window {
            return;
        }
        self.last_window = window;
        let mut packet = self.packet_of(tcp, ack, window, now);
        packet.kind = Kind::Ack;
        packet.flags |= match self.feedback {
            Feedback::Accurate => tcp.flags.bits() & flag::ACE,
            _ if tcp.flags.ece => flag::ECE,
            _ => 0,
        };
        let says_more = has_blocks || byte_counts.is_some();
        self.sender.on_ack(&packet, says_more.then_some(&extra), now, &mut self.tray);
        self.flush(now, out);
    }

    /// An ACK as the sender wants it.
    fn packet_of(&self, tcp: &Tcp, ack: u64, window: u32, now: Time) -> Packet {
        let (stamp, echo) = match tcp.options.timestamps.filter(|_| self.timestamps) {
            None => (now, Time::ZERO),
            Some((stamp, echo)) => {
                (Time(unwrap(self.recent_stamp, stamp) * 1000), Time(unwrap(now.0 / 1000, echo) * 1000))
            }
        };
        let note = Note::new(true, false);
        Packet { seq: ack, stamp, echo, window, extra: NONE, note, ..Packet::default() }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // What is sent

    /// Sends an ACK of the receiver's.
    fn answer(&mut self, kind: Kind, now: Time, out: &mut Vec<Segment>) {
        if self.is_reset {
            return;
        }
        let extra = self.receiver.extra(kind, now);
        if kind == Kind::FinAck {
            // It closes with the other end, as the sink of a simulated flow does; here the sender says when we close.
            let last = Packet { kind: Kind::Ack, ..Packet::default() };
            self.receiver.receive(&last, None, now, &mut self.stats, &self.window);
        }
        let Extra { sack: blocks, byte_counts, .. } = extra.unwrap_or_default();
        let seq = self.sent.max(u64::from(self.sender.acknowledged() > 0));
        let mut tcp = self.tcp(seq, now);
        tcp.options.measured.byte_counts = byte_counts;
        tcp.options.sack = blocks
            .as_slice()
            .iter()
            .take(tcp.options.block_room())
            .map(|&(start, end)| (self.far_number(start), self.far_number(end)))
            .collect();
        self.put(tcp, (Ecn::NotCapable, 0, 0), out);
    }

    fn far_number(&self, number: u64) -> u64 {
        u64::from(self.far.initial.wrapping_add(number as u32))
    }

    /// A header of a segment at `seq` that acknowledges what has arrived.
    fn tcp(&mut self, seq: u64, now: Time) -> Tcp {
        let ack = self.receiver.acknowledge(Kind::Ack, now);
        self.acknowledged = ack.seq;
        Tcp {
            seq: self.near.initial.wrapping_add(seq as u32),
            ack: self.far_number(ack.seq) as u32,
            window: (ack.window >> self.near.shift).min(u16::MAX.into()) as u16,
            flags: Flags { ack: true, ..Flags::default() }.with_marks(ack.flags),
            options: Options {
                timestamps: self.timestamps.then_some((stamp_of(now), self.recent_stamp as u32)),
                ..Options::default()
            },
        }
    }

    /// Sends what the sender has put into the tray.
    fn flush(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.tray.packets.is_empty() {
            return;
        }
        let packets = std::mem::take(&mut self.tray.packets);
        for packet in &packets {
            match packet.kind {
                Kind::Syn if self.is_passive => self.send_syn(Kind::SynAck, now, out),
                Kind::Syn => {
                    let extra = self.tray.extras.get(packet.extra as usize);
                    self.near.offer = extra.and_then(|extra| extra.offer).unwrap_or_default();
                    self.asked = packet.flags & flag::ACE;
                    self.send_syn(Kind::Syn, now, out);
                }
                Kind::Data | Kind::Fin | Kind::Ack => self.send(packet, now, out),
                Kind::Reset => {
                    let mut tcp = self.tcp(packet.seq, now);
                    tcp.flags = Flags { rst: true, ack: self.heard, ..Flags::default() };
                    (tcp.window, tcp.options) = (0, Options::default());
                    self.put(tcp, (Ecn::NotCapable, 0, 0), out);
                }
                // No real host understands the rest.
                _ => {}
            }
        }
        self.tray.packets = packets;
        self.tray.packets.clear();
        self.tray.extras.clear();
        if !self.is_reset && self.sender.reset().is_some() {
            // It has given up, and has said so.
            self.end(now);
        }
    }

    /// Sends a segment of the sender's.
    fn send(&mut self, packet: &Packet, now: Time, out: &mut Vec<Segment>) {
        let fin = packet.kind == Kind::Fin;
        let mut tcp = self.tcp(packet.seq, now);
        tcp.flags = Flags { fin, psh: packet.payload > 0, ..tcp.flags };
        if packet.kind == Kind::Ack {
            let own = self.tray.extras.get(packet.extra as usize);
            tcp.options.measured.byte_counts = own.and_then(|extra| extra.byte_counts);
        }
        if self.feedback != Feedback::Accurate {
            tcp.flags.cwr = packet.has(flag::CWR);
        } else if packet.kind == Kind::Ack && std::mem::take(&mut self.tells_of_answer) {
            tcp.flags = tcp.flags.with_marks(packet.flags);
        }
        self.sent = self.sent.max(packet.seq + u64::from(packet.payload) + u64::from(fin));
        let ecn = if packet.payload > 0 { Ecn::of_flags(packet.flags) } else { Ecn::NotCapable };
        self.put(tcp, (ecn, packet.seq.saturating_sub(1), packet.payload), out);
    }

    /// Sends the SYN or SYN-ACK.
    fn send_syn(&mut self, kind: Kind, now: Time, out: &mut Vec<Segment>) {
        let Offer { mss, window_scale, sack, timestamps } = self.near.offer;
        self.sent = self.sent.max(1);
        let is_answer = kind == Kind::SynAck;
        let extra = if is_answer { self.receiver.extra(kind, now) } else { None };
        let byte_counts = extra.and_then(|extra| extra.byte_counts);
        let answer = self.receiver.acknowledge(Kind::SynAck, now);
        let marks = if is_answer { answer.flags } else { self.asked };
        let tcp = Tcp {
            seq: self.near.initial,
            ack: if is_answer { self.far.initial.wrapping_add(1) } else { 0 },
            window: answer.window.min(u16::MAX.into()) as u16,
            flags: Flags { syn: true, ack: is_answer, ..Flags::default() }.with_marks(marks),
            options: Options {
                // On the wire it leaves out what options take (RFC 6691).
                mss: Some(mss.saturating_add(if timestamps { TIMESTAMPS } else { 0 })),
                window_scale,
                sack_permitted: sack,
                // The first SYN has nothing to echo.
                timestamps: timestamps
                    .then_some((stamp_of(now), if is_answer { self.recent_stamp as u32 } else { 0 })),
                measured: Measured { byte_counts, ..Measured::default() },
                ..Options::default()
            },
        };
        self.put(tcp, (Ecn::NotCapable, 0, 0), out);
    }

    fn put(&mut self, tcp: Tcp, (ecn, start, payload): (Ecn, u64, u16), out: &mut Vec<Segment>) {
        self.packets = self.packets.wrapping_add(1);
        let header = Header {
            source: self.near.address,
            destination: self.far.address,
            identification: self.packets,
            time_to_live: TIME_TO_LIVE,
            ecn,
            transport: Transport::Tcp(tcp),
        };
        out.push(Segment { header, start, payload });
    }
}

/// Which part of a payload that begins at `seq` fits below `room`, and whether the FIN behind it does too.
fn fit(seq: u64, payload: usize, fin: bool, room: u64) -> (std::ops::Range<usize>, bool) {
    let left = (room + 1).saturating_sub(seq);
    let length = (payload as u64).min(left) as usize;
    (0..length, fin && length == payload)
}

/// The RST that refuses a segment of a connection that there is not (RFC 9293 section 3.10.7.1).
pub fn refuse(header: &Header, payload: usize) -> Option<Segment> {
    let Transport::Tcp(tcp) = &header.transport else { return None };
    if tcp.flags.rst {
        return None;
    }
    let length = payload as u32 + u32::from(tcp.flags.syn) + u32::from(tcp.flags.fin);
    let (seq, ack) = if tcp.flags.ack { (tcp.ack, 0) } else { (0, tcp.seq.wrapping_add(length)) };
    let flags = Flags { rst: true, ack: !tcp.flags.ack, ..Flags::default() };
    let header = Header {
        source: header.destination,
        destination: header.source,
        identification: 0,
        time_to_live: TIME_TO_LIVE,
        ecn: Ecn::NotCapable,
        transport: Transport::Tcp(Tcp { seq, ack, flags, ..Tcp::default() }),
    };
    Some(Segment { header, start: 0, payload: 0 })
}
