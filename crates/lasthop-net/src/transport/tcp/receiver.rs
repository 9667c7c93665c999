//! The receiving end of TCP: reassembly, ACKs, SACK and DSACK blocks, delayed ACKs, timestamp and ECN echo.
//!
//! `network.rs` calls it with each arriving packet, in the order of arrival and possibly ahead of the clock.

use lasthop_core::packet::{Kind, NONE, Note, Packet, flag};
use lasthop_core::prefetch::prefetch;
use lasthop_core::time::{Span, Time};

use super::accurate::{self, Feedback};
use super::ack_frequency::AckFrequency;
use super::autotuning::Autotuning;
use super::config::{BASE_HEADER, DelayedAck, TcpConfig};
use super::mobile_receiver::MobileReceiver;
use super::mobility::Mobility;
use super::reader::Reader;
use super::receiver_options::ReceiverOptions;
use super::rtt::is_stale;
use super::segments::Ranges;
use super::window::Scale;
use crate::handoff::HostEvent;
use crate::measure::{FlowStats, Window};
use crate::transport::codec::{Ecn, MAX_OPTIONS};
use crate::transport::extra::{ByteCounts, Extra, Offer, first_sent};
use crate::transport::profile::Profile;
use crate::transport::sack::{MAX_SACK_BLOCKS, SackBlocks};

/// How long a receiver that has closed waits for the last ACK before it sends its FIN again.
const FIN_TIMEOUT: Span = Span::from_secs(1);
/// How often it tries.
const FIN_TRIES: u32 = 6;

/// What the host of a receiver can do; what of it is done is agreed when the connection opens.
#[derive(Clone, Copy, Debug)]
struct Abilities {
    sack_blocks: u8,
    timestamps: bool,
    ecn: bool,
    accurate_ecn: bool,
    /// Bytes of an ACK that timestamps take.
    timestamp_bytes: u16,
    mss: u16,
    scale: Scale,
    /// Size of the receive buffer in bytes.
    buffer: u32,
}

impl Abilities {
    fn of(config: &TcpConfig) -> Abilities {
        let blocks = config.sack_blocks.min(config.sack_room()).min(MAX_SACK_BLOCKS as u32);
        Abilities {
            sack_blocks: blocks as u8,
            timestamps: config.timestamps,
            ecn: config.uses_ecn() && config.profile != Profile::Ns2,
            accurate_ecn: config.asks_for_count(),
            timestamp_bytes: config.timestamp_option() as u16,
            mss: config.offer().mss,
            scale: config.window_scale(),
            buffer: config.receive_buffer(),
        }
    }
}

/// Segments that Linux acknowledges at once after the first mark of a window.
const QUICK_MARKS: u16 = 2;
/// The same when data come again.
const QUICK_REPEATS: u16 = 16;

/// The receiver of one connection. What every packet touches comes first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct TcpReceiver {
    /// Next byte expected.
    next: u64,
    /// Timestamp to echo (`TS.Recent` of RFC 7323).
    echo: Time,
    /// Acknowledgement number of the last ACK sent.
    last_ack: u64,
    /// Earliest timer event that is pending in the queue.
    pub(crate) armed: Time,
    /// When the delayed ACK is due.
    ack_due: Option<Time>,
    /// The window that ACKs advertise, in bytes.
    window: u32,
    /// Segments received in order since the last ACK.
    unacked: u16,
    /// Segments that are still acknowledged at once.
    quick: u16,
    /// How marks are fed back, and the bits of an ACK that do it.
    echoes: Echo,
    fed_back: u8,
    /// Bits of the SYN-ACK that agree to it.
    agrees: u8,
    ns2: bool,
    dsack: bool,
    /// The window changes with what the application reads, the host has closed it, or the buffer is followed.
    window_moves: bool,
    ack_size: u16,

    /// The earliest of what `close_due`, `mobile` and `reader` wait for.
    rare_due: Option<Time>,
    /// The sender's FIN has been answered; our own waits for its ACK until then.
    close_due: Option<Time>,
    /// Data beyond a gap.
    pending: Ranges,
    /// Sequence number of the sender's FIN, once known.
    fin: Option<u64>,

    delayed: Option<DelayedAck>,
    /// If fewer ACKs are asked for than TCP sends.
    frequency: Option<Box<AckFrequency>>,
    /// If the connection uses SACK.
    sacks: Option<Box<Sacks>>,
    sack_sizes: [u16; MAX_SACK_BLOCKS + 1],
    fin_tries: u32,
    /// When the last probe was sent.
    probed: Time,
    probe_size: u16,
    syn_ack_size: u16,
    /// What this host can do.
    can: Abilities,
    /// What the sender's SYN offered.
    offered: Offer,
    /// When the window that the application has opened is announced.
    update_due: Option<Time>,
    /// The application, if it does not read everything at once.
    reader: Option<Box<Reader>>,
    /// The receive buffer of Linux, if ACKs follow it.
    autotuning: Option<Box<Autotuning>>,
    compression: Compression,
    /// Marks since the last ACK, if they are counted, and whether the last packet had one.
    untold: u8,
    last_marked: bool,
    /// The host keeps the window closed (Freeze-TCP).
    frozen: bool,
    /// The SYN is not answered yet: a proxy waits for the other half of the connection.
    withholds: bool,
    /// The connection is over before its time, and what comes of it is answered by a RST.
    is_reset: bool,
    answers_reset: bool,
    /// What happens to the link of this host, if it matters.
    mobile: Option<Box<MobileReceiver>>,
    /// Measurements that ride on ACKs, if the sender asked for any.
    options: Option<Box<ReceiverOptions>>,
}

/// How a receiver feeds marks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    /// On every ACK until the sender says that it has reacted (RFC 3168).
    Classic,
    /// Each one exactly, as DCTCP needs it (RFC 8257).
    Exact,
    /// By their number (RFC 9768).
    Counted,
}

/// Linux: ACKs of what comes out of order wait for one another, beyond the first duplicates (`__tcp_ack_snd_check`,
/// `tcp_comp_sack_delay_ns`, `tcp_comp_sack_slack_ns`, `tcp_comp_sack_nr`).
#[derive(Clone, Copy, Debug, Default)]
struct Compression {
    is_on: bool,
    /// ACKs that wait, and those that did not since `next` moved.
    waiting: u8,
    sent: u8,
    next: u64,
}

impl Compression {
    /// As many duplicates as mean a loss leave at once.
    const DUPLICATES: u8 = 3;
    /// More do not wait together.
    const MOST: u8 = 44;
    const LONGEST: Span = Span::from_millis(1);
    /// A processor that sleeps is not woken before it has passed too.
    const SLACK: Span = Span::from_nanos(100_000);

    /// Whether an ACK waits for more, when data have come in order up to `next`.
    fn waits(&mut self, next: u64) -> bool {
        if !self.is_on || self.waiting >= Compression::MOST {
            return false;
        }
        if self.next != next {
            (self.next, self.sent) = (next, 0);
        }
        if self.sent < Compression::DUPLICATES {
            self.sent += 1;
            return false;
        }
        self.waiting += 1;
        true
    }
}

/// What a receiver with SACK has reported.
#[derive(Clone, Debug, Default)]
struct Sacks {
    /// Most blocks of an ACK.
    most: usize,
    /// Blocks of the last ACK.
    blocks: SackBlocks,
    /// Ranges reported last, newest first.
    recent: SackBlocks,
}

impl TcpReceiver {
    /// A receiver on a host with this configuration. What the SYN must offer for it (SACK, timestamps, window scale,
    /// ECN) it does only if the SYN does. What the experimental options carry, and the exact echo of marks for DCTCP,
    /// no SYN agrees on: there the configuration stands for both ends.
    pub fn new(config: &TcpConfig) -> TcpReceiver {
        let ns2 = config.profile == Profile::Ns2;
        let can = Abilities::of(config);
        TcpReceiver {
            next: 0,
            pending: Ranges::default(),
            echo: Time::ZERO,
            last_ack: 0,
            unacked: 0,
            ack_due: None,
            window: can.buffer,
            window_moves: config.reader.is_some() || config.delayed_ack.is_some_and(|ack| ack.autotuning),
            quick: config.delayed_ack.map_or(0, |delayed| u16::try_from(delayed.quick).unwrap_or(u16::MAX)),
            echoes: if config.needs().exact_marks { Echo::Exact } else { Echo::Classic },
            fed_back: 0,
            agrees: 0,
            fin: None,
            rare_due: None,
            close_due: None,
            reader: (config.reader)
                .map(|rate| Box::new(Reader::new(Some(rate), can.buffer, config.mss(), can.scale))),
            can,
            offered: Offer::default(),
            update_due: None,
            autotuning: (config.delayed_ack)
                .filter(|ack| ack.autotuning)
                .map(|_| Box::new(Autotuning::new(config.mss()))),
            compression: Compression { is_on: config.profile == Profile::Linux, ..Compression::default() },
            untold: 0,
            last_marked: false,
            frozen: false,
            withholds: false,
            is_reset: false,
            answers_reset: false,
            mobile: None,
            fin_tries: 0,
            probed: Time::ZERO,
            probe_size: config.probe_size() as u16,
            armed: Time::MAX,
            ns2,
            delayed: config.delayed_ack,
            frequency: AckFrequency::new(config),
            sacks: None,
            dsack: config.dsack,
            ack_size: config.ack_size() as u16,
            sack_sizes: std::array::from_fn(|count| config.sack_size(count as u32) as u16),
            options: ReceiverOptions::new(config),
            syn_ack_size: if ns2 { config.ack_size() } else { config.syn_size() } as u16,
        }
    }

    /// Asks for what every packet touches.
    pub(crate) fn prepare(&self) {
        prefetch(&self.next);
        prefetch(&self.rare_due);
    }

    /// Makes it the end of a proxy: what arrives in order keeps its place in the buffer until the other half has taken
    /// it ([`TcpReceiver::take`]). `withholds`: the SYN is answered only by [`TcpReceiver::answer_withheld`].
    pub(crate) fn relay(&mut self, mss: u32, withholds: bool) {
        self.reader = Some(Box::new(Reader::new(None, self.can.buffer, mss, self.can.scale)));
        self.window_moves = true;
        self.withholds = withholds;
    }

    /// Bytes of data that are here in order, whether a SYN has come, and whether the sender has closed.
    pub(crate) fn in_order(&self) -> (u64, bool, bool) {
        let closed = self.fin.is_some_and(|fin| self.next > fin);
        (self.next.saturating_sub(1 + u64::from(closed)), self.next > 0, closed)
    }

    /// The next number that it expects: the SYN is 0 and data begin at 1.
    pub(crate) fn expects(&self) -> u64 {
        self.next
    }

    /// Bytes of data that have been acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.last_ack.saturating_sub(1).min(self.in_order().0)
    }

    /// The other half of the proxy has got rid of the first `count` bytes.
    pub(crate) fn take(&mut self, count: u64, now: Time) {
        if let Some(reader) = &mut self.reader {
            reader.take(count, now);
            self.plan_update(now);
        }
    }

    /// The other half of the connection is open; whether the SYN waits to be answered.
    pub(crate) fn answer_withheld(&mut self) -> bool {
        std::mem::take(&mut self.withholds) && self.next > 0
    }

    /// The connection is over before its time. `answers`: this end knows nothing of it any more, and says so to
    /// whatever comes (RFC 9293 section 3.10.7.1).
    pub(crate) fn reset(&mut self, answers: bool) {
        self.is_reset = true;
        self.answers_reset |= answers;
        (self.ack_due, self.close_due, self.update_due, self.mobile) = (None, None, None, None);
        self.reader = None;
        self.note_rare_due();
    }

    /// Whether it counts marks for the other end (RFC 9768).
    pub(crate) fn counts_marks(&self) -> bool {
        self.echoes == Echo::Counted
    }

    /// Whether the connection was over before its time.
    pub(crate) fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Takes a packet that arrives at `now` and returns the kind of ACK it calls for, if any; make it with
    /// [`TcpReceiver::acknowledge`].
    #[inline]
    pub fn receive(
        &mut self,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        stats: &mut FlowStats,
        window: &Window,
    ) -> Option<Kind> {
        if let Some(options) = &mut self.options {
            options.on_segment(packet, extra, now);
        }
        if matches!(packet.kind, Kind::Ack | Kind::Probe | Kind::Reset) || self.is_reset {
            return self.receive_without_data(packet, now);
        }
        let syn = u64::from(packet.kind == Kind::Syn);
        if syn == 1 && self.next == 0 {
            self.agree(packet, extra);
        }
        let fin = packet.kind == Kind::Fin;
        let start = packet.seq;
        if syn == 1 && (start > 0 && self.next > 0 || self.next > 1 && !self.ns2) {
            // RFC 9293 §3.10.7.4: in an open connection another SYN is answered by an ACK, and nothing more. A SYN-ACK
            // would acknowledge data, and its window counts only once.
            self.build_blocks(packet, None);
            return Some(Kind::Ack);
        }
        // A SYN and a FIN take a sequence number each, which SACK blocks cover like data.
        let end = start + u64::from(packet.payload) + syn + u64::from(fin);
        if self.compression.is_on && syn == 0 && self.can.timestamps && is_stale(packet.stamp, self.echo) {
            stats.arrive(now, packet, first_sent(packet, extra), false, window);
            return Some(self.refuse_stale(packet, start, end));
        }
        // RFC 7323 §4.3; ns-2's rule is the same.
        if start <= self.last_ack && packet.stamp >= self.echo {
            self.echo = packet.stamp;
        }
        self.feed_back(packet);
        if fin && end > self.next {
            // Of two ends the first is reached.
            self.fin = Some(self.fin.map_or(end - 1, |known| known.min(end - 1)));
        }

        let mut duplicate = false;
        let held = if self.dsack && packet.payload > 0 { self.first_held(start, end) } else { None };
        let (in_order, had_gap) = (start == self.next, !self.pending.is_empty());
        if start <= self.next && end > self.next {
            let before = self.next;
            self.next = end;
            while let Some((_, later)) = self.pending.take_first_at(self.next) {
                self.next = self.next.max(later);
            }
            let mut numbers = syn & u64::from(before == 0);
            if let Some(fin) = self.fin {
                // RFC 9293 §3.10.7.4: nothing comes behind a FIN.
                self.next = self.next.min(fin + 1);
                if before <= fin && self.next > fin {
                    numbers += 1;
                    self.pending.clear();
                }
            }
            // Neither the SYN nor the FIN is data.
            let bytes = self.next - before - numbers;
            stats.deliver(now, bytes, window);
            if self.window_moves {
                self.fill_buffer(bytes, packet, now);
            }
        } else if start > self.next && self.fin.is_none_or(|fin| start <= fin) {
            duplicate = !self.pending.insert(start, end);
            if !duplicate {
                self.hold_beyond(packet, now);
            }
        } else {
            duplicate = true;
        }
        if syn == 0 {
            stats.arrive(now, packet, first_sent(packet, extra), !duplicate, window);
        }
        let closed = self.fin.is_some_and(|fin| self.next > fin);

        // RFC 5681 §4.2: whatever is not plain progress is acknowledged at once. ns-2 lets a duplicate of the last
        // segment in order wait like that segment.
        let progress = if self.ns2 { end == self.next } else { in_order && !had_gap };
        let pushed = self.presses(packet);
        let repeats = duplicate && end <= self.next;
        let usual = !progress || !self.pending.is_empty() || closed;
        let immediate = self.is_immediate(packet, now, (usual, repeats || closed));
        if repeats {
            self.be_quick(QUICK_REPEATS);
        }
        let is_quick = self.quick > 0;
        if syn == 1 {
            if self.withholds {
                return None;
            }
        } else if !self.may_wait(immediate, pushed, now) {
            return self.note_disorder(packet);
        }
        self.build_blocks(packet, held);
        if syn == 0 && !closed && !repeats && !is_quick && self.compresses(packet, now) {
            return None;
        }
        let kind = if syn == 1 {
            Kind::SynAck
        } else if closed {
            self.fin_tries += 1;
            self.close_due =
                (self.fin_tries <= FIN_TRIES).then(|| now + FIN_TIMEOUT * (1 << self.fin_tries.min(6)));
            self.note_rare_due();
            Kind::FinAck
        } else {
            Kind::Ack
        };
        Some(kind)
    }

    /// The connection opens: what the SYN offers and this host can do is done.
    #[cold]
    fn agree(&mut self, packet: &Packet, extra: Option<&Extra>) {
        let offer = extra.and_then(|extra| extra.offer).unwrap_or_default();
        let can = &mut self.can;
        self.sacks = (offer.sack && can.sack_blocks > 0).then(|| {
            let mut sacks = self.sacks.take().unwrap_or_default();
            sacks.most = can.sack_blocks.into();
            sacks
        });
        if !offer.timestamps && std::mem::replace(&mut can.timestamps, false) {
            self.ack_size -= can.timestamp_bytes;
            self.probe_size -= can.timestamp_bytes;
        }
        if offer.window_scale.is_none() && can.scale != Scale::Exact {
            can.scale = Scale::Shift(0);
        }
        self.window = can.scale.advertised(can.buffer.into());
        if let Some(reader) = &mut self.reader {
            reader.agree(can.scale);
        }
        let (feedback, agrees) = match (can.ecn, can.accurate_ecn) {
            (true, true) => accurate::answer(packet),
            // RFC 3168 §6.1.1.
            (true, false) if packet.has(flag::ECE | flag::CWR) => (Feedback::Classic, flag::ECE),
            _ => (Feedback::None, 0),
        };
        self.agrees = agrees;
        if feedback == Feedback::Accurate {
            (self.echoes, self.fed_back) = (Echo::Counted, accurate::flags(accurate::FIRST));
        }
        self.offered = offer;
    }

    /// Notes what a packet says of marks.
    #[inline]
    fn feed_back(&mut self, packet: &Packet) {
        if self.echoes != Echo::Classic {
            return self.feed_back_more(packet);
        }
        if packet.has(flag::CWR) {
            self.fed_back = 0;
        }
        if packet.has(flag::CE) && std::mem::replace(&mut self.fed_back, flag::ECE) == 0 {
            self.be_quick(QUICK_MARKS);
        }
    }

    /// The same where more than the echo of RFC 3168 is wanted.
    #[inline(never)]
    fn feed_back_more(&mut self, packet: &Packet) {
        match self.echoes {
            Echo::Counted if packet.kind == Kind::Syn => {
                // Of the last SYN the answer tells how it came (RFC 9768 section 3.1.5).
                self.agrees = accurate::reflect(Ecn::of_flags(packet.flags));
            }
            Echo::Counted => self.count_mark(packet),
            _ => self.fed_back = if packet.has(flag::CE) { flag::ECE } else { 0 },
        }
    }

    /// Counts a packet if it is marked; three bits of the count are all that is ever told. An ACK is due at once at the
    /// first of marked data in a row, and at every second mark (RFC 9768 section 3.2.2.5.1).
    fn count_mark(&mut self, packet: &Packet) {
        if let Some(options) = &mut self.options {
            options.count_bytes(packet);
        }
        let marked = packet.has(flag::CE);
        let begins = !std::mem::replace(&mut self.last_marked, marked) && packet.payload > 0;
        if !marked {
            return;
        }
        self.fed_back = accurate::flags(accurate::number(self.fed_back) + 1);
        // Where no ACK waits, all has been told.
        self.untold = if self.ack_due.is_none() { 1 } else { self.untold.saturating_add(1) };
        if self.delayed.is_some() && (begins || self.untold >= accurate::UNTOLD) {
            self.quick = self.quick.max(1);
        }
    }

    /// What the SYN-ACK offers: what this host can do of what the SYN offered.
    #[cold]
    fn answer_offer(&self) -> Extra {
        let Offer { window_scale, sack, timestamps, .. } = self.offered;
        let offer = Offer {
            mss: self.can.mss,
            window_scale: window_scale.map(|_| self.can.scale.shift()),
            sack: sack && self.can.sack_blocks > 0,
            timestamps: timestamps && self.can.timestamps,
        };
        Extra { offer: Some(offer), ..Extra::default() }
    }

    /// Data in order wait for the application.
    #[cold]
    fn fill_buffer(&mut self, bytes: u64, packet: &Packet, now: Time) {
        if let Some(autotuning) = self.autotuning.as_mut().filter(|_| bytes > 0) {
            let stay = self.pending.bytes();
            let beyond = stay + bytes.saturating_sub(packet.payload.into());
            self.quick |= u16::from(autotuning.arrive(packet, (beyond, stay), now));
            autotuning.read(bytes, now);
        }
        if let Some(reader) = &mut self.reader {
            reader.arrive(bytes, now);
            self.plan_update(now);
        }
    }

    /// Data wait behind a gap.
    #[inline]
    fn hold_beyond(&mut self, packet: &Packet, now: Time) {
        let Some(autotuning) = &mut self.autotuning else { return };
        let stay = self.pending.bytes();
        let beyond = stay.saturating_sub(packet.payload.into());
        self.quick |= u16::from(autotuning.arrive(packet, (beyond, stay), now));
    }

    /// The window changes: what an ACK sent at `now` advertises.
    #[cold]
    fn move_window(&mut self, now: Time) {
        let open = match &mut self.reader {
            Some(reader) => reader.window(now),
            None => self.can.scale.advertised(self.can.buffer.into()),
        };
        let (tuned, again) = match &mut self.autotuning {
            Some(autotuning) => autotuning.window(self.next, 1 << self.can.scale.shift()),
            None => (u64::MAX, false),
        };
        self.window = if self.frozen { 0 } else { open.min(self.can.scale.advertised(tuned)) };
        self.window_moves = self.reader.is_some() || self.autotuning.is_some();
        self.plan_update(now);
        if again && self.reader.is_none() && !self.frozen {
            self.update_due = Some(now);
            self.note_rare_due();
        }
    }

    /// Decides when the window must be announced without data that ask for an ACK; not before `now`.
    fn plan_update(&mut self, now: Time) {
        let closes = self.fin.is_some_and(|fin| self.next > fin);
        let reader = self.reader.as_ref().filter(|_| !self.frozen && !closes);
        self.update_due = reader.and_then(|reader| reader.due()).map(|due| due.max(now));
        self.note_rare_due();
    }

    /// Linux throws away what a repair has overtaken: by its timestamp it may be of an older connection
    /// (`tcp_paws_discard`). An ACK says what is here (`tcp_send_dupack`).
    #[cold]
    fn refuse_stale(&mut self, packet: &Packet, start: u64, end: u64) -> Kind {
        if start < self.next {
            self.be_quick(QUICK_REPEATS);
            let held = if self.dsack { self.first_held(start, end) } else { None };
            self.build_blocks(packet, held);
        } else {
            self.repeat_blocks();
        }
        Kind::Ack
    }

    /// Takes a packet that is neither data nor the beginning or end of it.
    #[cold]
    fn receive_without_data(&mut self, packet: &Packet, now: Time) -> Option<Kind> {
        if packet.kind == Kind::Reset {
            self.reset(false);
            return None;
        }
        if self.is_reset {
            return self.answers_reset.then_some(Kind::Reset);
        }
        if packet.kind == Kind::Probe {
            // Answered at once; an ACK that waits goes on waiting.
            self.probed = packet.stamp;
            self.clear_blocks();
            return Some(Kind::ProbeAnswer);
        }
        if self.echoes == Echo::Counted {
            self.count_mark(packet);
        }
        // The last ACK of the connection, or the one that opens it.
        self.close_due = None;
        if let Some(autotuning) = &mut self.autotuning {
            autotuning.open(now);
        }
        self.note_rare_due();
        None
    }

    /// Whether what has come is to be acknowledged at once: as is `usual` in TCP, or, where fewer ACKs are asked for,
    /// in `any` case or for its order.
    #[inline]
    fn is_immediate(&mut self, packet: &Packet, now: Time, (usual, any): (bool, bool)) -> bool {
        let Some(frequency) = &mut self.frequency else { return usual };
        frequency.measure(packet.echo, now);
        if frequency.bears_disorder() { any || frequency.reports(self.next, &self.pending) } else { usual }
    }

    /// Whether the ACK goes out now; arms or disarms the delay otherwise.
    #[inline]
    fn may_wait(&mut self, immediate: bool, pushed: bool, now: Time) -> bool {
        let Some(delayed) = self.delayed else { return true };
        if self.quick > 0 {
            self.quick -= 1;
        } else if !immediate {
            self.unacked = self.unacked.saturating_add(1);
            if u32::from(self.unacked) < delayed.segments && !pushed {
                self.ack_due = Some(self.ack_due.unwrap_or(now + delayed.timeout));
                return false;
            }
            let earliest = self.frequency.as_ref().map_or(Time::ZERO, |frequency| frequency.earliest());
            if earliest > now && !pushed {
                self.ack_due = Some(self.ack_due.map_or(earliest, |due| due.min(earliest)));
                return false;
            }
        }
        true
    }

    /// Whether Linux answers a segment in order without delay: what is pushed, as soon as the application has read it
    /// (`tcp_measure_rcv_mss`), and the word that the window has been reduced, which may be very small then
    /// (`tcp_ecn_accept_cwr`).
    fn presses(&self, packet: &Packet) -> bool {
        packet.has(flag::PSH) && self.reader.is_none()
            || self.compression.is_on
                && packet.has(flag::CWR)
                && packet.payload > 0
                && self.echoes != Echo::Counted
    }

    /// A later ACK will show what has come by then, if it may be out of order.
    #[inline]
    fn note_disorder(&mut self, packet: &Packet) -> Option<Kind> {
        if self.frequency.is_some() {
            self.build_blocks(packet, None);
        }
        None
    }

    /// Whether the ACK of a segment beyond a gap, or of one before it, waits for others.
    #[inline]
    fn compresses(&mut self, packet: &Packet, now: Time) -> bool {
        if self.frequency.is_some() {
            return false;
        }
        let advanced = self.next - self.last_ack > u64::from(packet.payload);
        if self.pending.is_empty() || self.sacks.is_none() || advanced || !self.compression.waits(self.next) {
            return false;
        }
        if self.compression.waiting == 1 {
            let span = Span(now.since(packet.echo).0 / 20).min(Compression::LONGEST) + Compression::SLACK;
            let due = now + span;
            self.ack_due = Some(self.ack_due.map_or(due, |known| known.min(due)));
        }
        true
    }

    /// The next `segments` are acknowledged at once, if the receiver is one that does so at the beginning
    /// (`tcp_enter_quickack_mode`).
    fn be_quick(&mut self, segments: u16) {
        if self.delayed.is_some_and(|delayed| delayed.quick > 0) {
            self.quick = self.quick.max(segments);
        }
    }

    /// Tells the receiver what will happen to the link of its host, and what to do then.
    pub(crate) fn watch_link(&mut self, mobility: Mobility, events: Vec<(Time, HostEvent)>) {
        self.mobile = Some(Box::new(MobileReceiver::new(mobility, events)));
        self.note_rare_due();
    }

    fn note_rare_due(&mut self) {
        let mobile = self.mobile.as_ref().and_then(|mobile| mobile.due());
        self.rare_due = [self.close_due, mobile, self.update_due].into_iter().flatten().min();
    }

    /// When the receiver wants to be called back: a delayed ACK, a FIN that may have been lost, an event of its link, a
    /// window to be announced.
    #[inline]
    pub fn due(&self) -> Option<Time> {
        match (self.ack_due, self.rare_due) {
            (Some(ack), Some(rare)) => Some(ack.min(rare)),
            (ack, rare) => ack.or(rare),
        }
    }

    /// When it wants to be called back, if that is before the call that is pending.
    #[inline]
    pub(crate) fn rearm(&mut self) -> Option<Time> {
        let due = self.due().filter(|&due| due < self.armed)?;
        self.armed = due;
        Some(due)
    }

    /// Whether an ACK is due that must go out before `packet` is received at `now`. RFC 8257 §3.2: one that waits for
    /// a segment is sent first if the next one differs in its mark, so that no ACK speaks for both.
    #[inline]
    pub fn owes(&mut self, packet: &Packet, now: Time) -> bool {
        let Some(due) = self.due() else { return false };
        if self.echoes == Echo::Exact
            && self.ack_due.is_some_and(|due| due > now)
            && packet.has(flag::CE) != (self.fed_back != 0)
        {
            self.ack_due = Some(now);
            return true;
        }
        due <= now
    }

    /// Does what the events of the link ask for up to `now` and before any other timer; the time of an ACK to be sent.
    fn overdue_for_link(&mut self, now: Time) -> Option<Time> {
        let open = self.next > 0 && self.fin.is_none_or(|fin| self.next <= fin);
        let others = [self.ack_due, self.close_due, self.update_due];
        let others = others.into_iter().flatten().min().unwrap_or(Time::MAX);
        let mobile = self.mobile.as_mut()?;
        let mut sent = None;
        while let Some(at) = mobile.due().filter(|&at| at <= now && at <= others)
            && sent.is_none()
        {
            sent = mobile.act(open, &mut self.frozen).then_some(at);
            self.window_moves = true;
        }
        self.note_rare_due();
        sent
    }

    /// The kind of ACK that is due at or before `now`, and when it was due.
    pub fn overdue(&mut self, now: Time) -> Option<(Kind, Time)> {
        if let Some(due) = self.overdue_for_link(now) {
            self.clear_blocks();
            return Some((Kind::Ack, due));
        }
        let update = self.update_due.unwrap_or(Time::MAX);
        if let Some(due) = self.ack_due.filter(|&due| due <= now && due <= update) {
            if self.frequency.is_some() {
                self.repeat_blocks();
            } else if self.compression.waiting == 0 {
                self.clear_blocks();
            }
            if let Some(autotuning) = &mut self.autotuning {
                autotuning.has_read();
            }
            return Some((Kind::Ack, due));
        }
        if let Some(due) = self.update_due.filter(|&due| due <= now) {
            self.repeat_blocks();
            return Some((Kind::Ack, due));
        }
        let due = self.close_due.filter(|&due| due <= now)?;
        self.fin_tries += 1;
        self.close_due =
            (self.fin_tries <= FIN_TRIES).then(|| due + FIN_TIMEOUT * (1 << self.fin_tries.min(6)));
        self.note_rare_due();
        self.clear_blocks();
        Some((Kind::FinAck, due))
    }

    /// Makes the ACK and marks everything so far as acknowledged. [`TcpReceiver::extra`] belongs to it.
    #[inline]
    pub fn acknowledge(&mut self, kind: Kind, now: Time) -> Packet {
        if matches!(kind, Kind::ProbeAnswer | Kind::Reset) {
            return self.answer_otherwise(kind, now);
        }
        self.ack_due = None;
        self.unacked = 0;
        self.compression.waiting = 0;
        self.last_ack = self.next;
        if let Some(frequency) = &mut self.frequency {
            frequency.on_ack(self.next, &self.pending, now);
        }
        if self.window_moves {
            self.move_window(now);
        }
        let counts = self.options.as_deref_mut().map_or(0, ReceiverOptions::take_room);
        let (size, flags, window) = if kind == Kind::SynAck {
            (self.syn_ack_size, self.agrees, self.can.scale.unscaled(self.window))
        } else {
            (self.ack_size, self.fed_back, self.window)
        };
        Packet {
            seq: self.next,
            stamp: now,
            echo: self.echo,
            window,
            bytes: counts
                + self.sacks.as_ref().map_or(size, |sacks| size + self.sack_sizes[sacks.blocks.len()]),
            extra: NONE,
            kind,
            flags,
            note: Note::BACK,
            ..Packet::default()
        }
    }

    /// The option with counts of bytes in the next ACK: none if nothing has changed since the last, or if there is no
    /// room. Two SACK blocks go before it, others make room (RFC 9768 section 3.2.3.3).
    #[inline(never)]
    fn tell_bytes(&mut self, opens: bool) -> Option<ByteCounts> {
        let counts = self.counts_marks();
        let counts = self.options.as_ref().filter(|_| counts)?.counts_due(opens)?;
        let size = counts.padded() as u16;
        let most = BASE_HEADER as u16 + MAX_OPTIONS as u16;
        // A SYN-ACK has no blocks, and room.
        if let Some(sacks) = self.sacks.as_deref_mut().filter(|_| !opens) {
            let fits = |blocks: usize| self.ack_size + self.sack_sizes[blocks] + size <= most;
            let blocks = sacks.blocks.len();
            if !fits(blocks) {
                if blocks <= 2 || !fits(2) {
                    return None;
                }
                sacks.blocks.keep(2);
            }
        }
        if let Some(options) = &mut self.options {
            options.tell(size);
        }
        Some(counts)
    }

    /// A RST, or the answer to the probe that has just arrived: it echoes the time of the probe, by which the sender
    /// knows it.
    #[cold]
    fn answer_otherwise(&mut self, kind: Kind, now: Time) -> Packet {
        if kind == Kind::Reset {
            let (stamp, bytes, note) = (now, self.ack_size, Note::BACK);
            return Packet { seq: self.next, stamp, bytes, extra: NONE, kind, note, ..Packet::default() };
        }
        if self.window_moves {
            self.move_window(now);
        }
        Packet {
            window: self.window,
            seq: self.next,
            stamp: now,
            echo: self.probed,
            bytes: self.probe_size,
            extra: NONE,
            kind: Kind::ProbeAnswer,
            flags: if self.echoes == Echo::Counted { self.fed_back } else { 0 },
            note: Note::BACK,
            ..Packet::default()
        }
    }

    /// The MAC of this host throws a corrupt frame away at `at`; calls come in the order of `at`.
    pub(crate) fn on_discard(&mut self, at: Time) {
        if let Some(options) = &mut self.options {
            options.on_discard(at);
        }
    }

    /// What the ACK of this kind, to be sent at `now`, carries beyond its header.
    #[inline]
    pub fn extra(&mut self, kind: Kind, now: Time) -> Option<Extra> {
        if kind == Kind::Reset {
            return None;
        }
        let opens = kind == Kind::SynAck;
        let byte_counts = if self.options.is_some() { self.tell_bytes(opens) } else { None };
        if opens {
            return Some(Extra { byte_counts, ..self.answer_offer() });
        }
        let sack = self.sacks.as_ref().map(|sacks| sacks.blocks).filter(|blocks| !blocks.is_empty());
        if self.options.is_none() && sack.is_none() {
            return None;
        }
        let mut extra = Extra { sack: sack.unwrap_or_default(), byte_counts, ..Extra::default() };
        if let Some(options) = &mut self.options {
            options.fill(&mut extra, now);
        }
        Some(extra)
    }

    /// The option went with no segment.
    pub(crate) fn tell_again(&mut self) {
        if let Some(options) = &mut self.options {
            options.tell_again();
        }
    }

    /// The next ACK has no blocks.
    fn clear_blocks(&mut self) {
        if let Some(sacks) = &mut self.sacks {
            sacks.blocks.clear();
        }
    }

    /// The blocks of an ACK that no packet calls for.
    #[cold]
    fn repeat_blocks(&mut self) {
        let Some(sacks) = &mut self.sacks else { return };
        sacks.blocks.clear();
        for &(start, _) in sacks.recent.as_slice() {
            if let Some((start, end)) = self.pending.containing(start)
                && sacks.blocks.len() < sacks.most
                && !sacks.blocks.as_slice().contains(&(start, end))
            {
                sacks.blocks.push(start, end);
            }
        }
    }

    /// The first contiguous part of `[start, end)` that is here already (RFC 2883 §4).
    #[inline]
    fn first_held(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        if start < self.next {
            return Some((start, end.min(self.next)));
        }
        if self.pending.is_empty() {
            return None;
        }
        let (from, to) = self.pending.from(start).find(|&(_, to)| to > start)?;
        (from < end).then(|| (from.max(start), to.min(end)))
    }

    /// RFC 2018 and RFC 2883: what was here already first, then the block around the packet, then the most recent
    /// others.
    #[inline]
    fn build_blocks(&mut self, packet: &Packet, held: Option<(u64, u64)>) {
        let Some(sacks) = self.sacks.as_deref_mut() else { return };
        sacks.blocks.clear();
        if self.pending.is_empty() && held.is_none() {
            sacks.recent.clear();
            return;
        }
        if let Some((start, end)) = held {
            sacks.blocks.push(start, end);
        }
        let mut recent = SackBlocks::default();
        if let Some((start, end)) = self.pending.containing(packet.seq) {
            if sacks.blocks.len() < sacks.most {
                sacks.blocks.push(start, end);
            }
            recent.push(start, end);
        }
        for &(start, _) in sacks.recent.as_slice() {
            // A block that was reported before may have grown, merged or been delivered since.
            if recent.as_slice().iter().any(|&(from, to)| from <= start && start < to) {
                continue;
            }
            let Some((start, end)) = self.pending.containing(start) else { continue };
            if sacks.blocks.len() < sacks.most {
                sacks.blocks.push(start, end);
            }
            if recent.len() < sacks.most {
                recent.push(start, end);
            }
        }
        sacks.recent = recent;
    }
}

#[cfg(test)]
mod tests;
