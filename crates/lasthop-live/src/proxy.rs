//! A proxy that splits the connections of strangers: it ends each of them at its node and opens one of its own
//! beyond, with the address of the host that opened the first (a transparent proxy; RFC 3135).
//!
//! In a simulation a split connection is two flows with one stream (`world/relay.rs`). Here each connection has two
//! ends at the proxy, one towards each host, and each of them is a sender and a receiver of the simulator behind real
//! headers ([`Duplex`]); what one has in order the other sends. Data run both ways, sequence numbers, windows, options
//! and losses are each side's own, and a FIN or a RST goes on to the other side.
//!
//! **Fails open.** What the proxy has not seen from its SYN on, what opens with options that it does not know or with
//! data, and whatever comes when it is full, goes through untouched. `drive.rs` calls it with the packets that have
//! reached its node.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_net::measure::Window;
use lasthop_net::plan::TcpConfig;
use lasthop_net::transport::codec::{self, Header, MAX_HEADERS, Transport};
use lasthop_net::transport::duplex::{Duplex, Segment, refuse};
use lasthop_net::world::Origins;

use crate::passage::{Tuple, tuple_of};

/// Connections that are told apart between two hosts; one more takes the rest.
pub const CONNECTIONS: usize = 255;
/// How long an ended connection is remembered, to answer what is still on its way: twice the longest life of a segment
/// (RFC 9293 section 3.4.2 leaves it to the system; Linux takes 60 s).
const REMEMBERED: Span = Span::from_secs(60);

/// What a proxy is.
#[derive(Clone, Debug)]
pub struct ProxyPlan {
    /// Its TCP towards the source and towards the sink of the flows that run through it.
    pub towards: [Arc<TcpConfig>; 2],
    /// Bytes that it holds for each direction of a connection.
    pub buffer: u64,
    /// It answers a SYN only when the connection beyond is open.
    pub late: bool,
}

/// When the data of a packet were sent first, by host or proxy: nothing if it has none, [`Time::MAX`] if that
/// is not known.
pub type Sent = Option<Time>;

/// Packets to be sent: to the side of the source (0) or of the sink (1).
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    packets: Vec<(usize, Sent, Range<usize>)>,
    payload: Vec<u8>,
}

impl Outbox {
    /// The packets, in order.
    pub fn packets(&self) -> impl Iterator<Item = (usize, Sent, &[u8])> {
        self.packets.iter().map(|(side, sent, range)| (*side, *sent, &self.bytes[range.clone()]))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }

    fn put(&mut self, side: usize, segment: &Segment, pipe: &Pipe) {
        let start = self.bytes.len();
        self.payload.clear();
        self.payload.resize(segment.payload.into(), 0);
        pipe.read(segment.start, &mut self.payload);
        self.bytes.resize(start + MAX_HEADERS + self.payload.len(), 0);
        // What the simulator's sender makes fits into its links.
        let length = segment.header.write(&self.payload, &mut self.bytes[start..]).unwrap_or(0);
        self.bytes.truncate(start + length);
        let sent = (segment.payload > 0).then(|| pipe.origins.of(segment.start).unwrap_or(Time::MAX));
        self.packets.push((side, sent, start..start + length));
    }
}

/// One direction of data through a proxy: what has arrived on one side and is not acknowledged on the other.
#[derive(Clone, Debug, Default)]
struct Pipe {
    /// Number of the first byte that it holds, and the bytes from there on, with gaps.
    base: u64,
    bytes: VecDeque<u8>,
    /// When they were sent first.
    origins: Origins,
    /// Bytes that arrived in order and were handed on.
    passed: u64,
    closed: bool,
    counted: PipeStats,
    since: Time,
}

/// What was counted of a direction within the measurement window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeStats {
    /// Bytes taken in order.
    pub relayed: u64,
    /// Most bytes held.
    pub most_held: u64,
    /// Byte-nanoseconds held.
    pub held_time: u128,
}

impl Pipe {
    /// Keeps bytes; what lies below `base` is not needed any more.
    fn write(&mut self, start: u64, bytes: &[u8]) {
        let skip = self.base.saturating_sub(start).min(bytes.len() as u64) as usize;
        let (start, bytes) = (start + skip as u64, &bytes[skip..]);
        if bytes.is_empty() {
            return;
        }
        let at = (start - self.base) as usize;
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        for (place, byte) in self.bytes.range_mut(at..at + bytes.len()).zip(bytes) {
            *place = *byte;
        }
    }

    fn read(&self, start: u64, place: &mut [u8]) {
        let at = start.saturating_sub(self.base) as usize;
        let end = (at + place.len()).min(self.bytes.len());
        for (place, byte) in place.iter_mut().zip(self.bytes.range(at.min(end)..end)) {
            *place = *byte;
        }
    }

    /// The far end has everything below `gone`.
    fn forget(&mut self, gone: u64) {
        let count = (gone - self.base).min(self.bytes.len() as u64);
        self.bytes.drain(..count as usize);
        self.base = gone;
        self.origins.forget(gone);
    }

    /// Counts what it has held up to now.
    fn settle(&mut self, now: Time, window: &Window) {
        let held = self.passed - self.base;
        self.counted.held_time += u128::from(held) * u128::from(window.overlap(self.since, now));
        if now > window.from && now > self.since {
            self.counted.most_held = self.counted.most_held.max(held);
        }
        self.since = now;
    }
}

/// A connection that is split.
#[derive(Clone, Debug, Default)]
struct Joint {
    /// Its ends at the proxy: towards the source and towards the sink.
    ends: [Option<Box<Duplex>>; 2],
    /// Data from the source to the sink, and back.
    pipes: [Pipe; 2],
    /// A SYN that waits to be answered, and from which side it came.
    syn: Option<(usize, Header)>,
    /// A RST has gone through.
    is_reset: bool,
    /// It is over, and forgotten from then on.
    until: Option<Time>,
}

/// What a proxy did with a connection: data from the source to the sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JointReport {
    /// Of the data.
    pub pipe: PipeStats,
    /// Retransmission timers that ran out at the proxy, where it sends them on.
    pub timeouts: u64,
    /// Bytes that their sender knows to be acknowledged and the other end has not acknowledged.
    pub acked_not_delivered: u64,
    /// It ended with a RST.
    pub is_reset: bool,
}

/// A proxy at work.
#[derive(Debug)]
pub struct Proxy {
    plan: ProxyPlan,
    window: Window,
    joints: BTreeMap<Tuple, Joint>,
    /// Connections that ended and were forgotten, as many as results tell apart.
    ended: BTreeMap<Tuple, [JointReport; 2]>,
    numbers: Stream,
    scratch: Vec<Segment>,
    /// Connections that it let through untouched: their options were not known to it, their SYN had data, or it was
    /// full.
    pub untouched: u64,
}

impl Proxy {
    /// A proxy without connections; `window`: what is measured. Its initial sequence numbers are drawn from `numbers`.
    pub fn new(plan: ProxyPlan, window: Window, numbers: Stream) -> Proxy {
        let (joints, ended) = (BTreeMap::new(), BTreeMap::new());
        Proxy { plan, window, joints, ended, numbers, scratch: Vec::new(), untouched: 0 }
    }

    /// A packet has come from the side of the source (0) or of the sink (1), with data that were sent for the first
    /// time then. Whether it was the proxy's: otherwise it goes on as it is.
    pub fn take(&mut self, bytes: &[u8], (side, sent): (usize, Sent), now: Time, out: &mut Outbox) -> bool {
        let Ok((header, payload)) = codec::parse(bytes) else { return false };
        let Transport::Tcp(tcp) = header.transport else { return false };
        let tuple = tuple_of(&header, side == 1);
        let opens = tcp.flags.syn && !tcp.flags.ack;
        let is_known = self.joints.get(&tuple).is_some_and(|joint| !opens || joint.until.is_none());
        if !is_known {
            if !opens || tcp.flags.rst || tcp.flags.fin {
                return false;
            }
            self.joints.remove(&tuple);
            if !payload.is_empty()
                || codec::patch::has_other_options(bytes)
                || self.joints.len() >= CONNECTIONS
            {
                self.untouched += 1;
                return false;
            }
            self.joints.insert(tuple, Joint { syn: Some((side, header)), ..Joint::default() });
        }
        let Some(mut joint) = self.joints.remove(&tuple) else { return false };
        if is_known {
            self.tell(&mut joint, (&header, payload), (side, sent), now, out);
        } else {
            self.open_beyond(&mut joint, (side, &header), now, out);
        }
        self.settle(&mut joint, now, out);
        self.joints.insert(tuple, joint);
        true
    }

    /// When it wants to be woken.
    pub fn due(&self) -> Option<Time> {
        self.joints.values().filter_map(Joint::due).min()
    }

    /// It is woken.
    pub fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        let due: Vec<Tuple> = self
            .joints
            .iter()
            .filter(|(_, joint)| joint.due().is_some_and(|at| at <= now))
            .map(|(&t, _)| t)
            .collect();
        for tuple in due {
            let Some(mut joint) = self.joints.remove(&tuple) else { continue };
            if joint.until.is_some_and(|until| until <= now) {
                if self.ended.len() < CONNECTIONS {
                    self.ended.insert(tuple, joint.report());
                }
                continue;
            }
            for side in 0..2 {
                self.act(&mut joint, side, out, |end, segments| end.on_timer(now, segments));
            }
            self.settle(&mut joint, now, out);
            self.joints.insert(tuple, joint);
        }
    }

    /// The run is over at `now`: what there is to say of a connection that the proxy split.
    /// Of the data from the source, and of those from the sink.
    pub fn report(&mut self, tuple: &Tuple, now: Time) -> Option<[JointReport; 2]> {
        let window = self.window;
        if let Some(joint) = self.joints.get_mut(tuple) {
            joint.pipes.iter_mut().for_each(|pipe| pipe.settle(now, &window));
            return Some(joint.report());
        }
        self.ended.get(tuple).copied()
    }

    /// What its TCP is called that sends on the data of a direction: 0 from the source, 1 from the sink.
    pub fn transport(&self, way: usize) -> &str {
        &self.plan.towards[1 - way].name
    }

    /// Lets one end act and sends what it has to say.
    fn act<T>(
        &mut self,
        joint: &mut Joint,
        side: usize,
        out: &mut Outbox,
        act: impl FnOnce(&mut Duplex, &mut Vec<Segment>) -> T,
    ) -> Option<T> {
        let end = joint.ends[side].as_mut()?;
        let done = act(end, &mut self.scratch);
        for segment in self.scratch.drain(..) {
            out.put(side, &segment, &joint.pipes[1 - side]);
        }
        Some(done)
    }

    /// A SYN has come from `side`.
    fn open_beyond(&mut self, joint: &mut Joint, (side, syn): (usize, &Header), now: Time, out: &mut Outbox) {
        let beyond = 1 - side;
        let start = (self.numbers.below(1 << 32) as u32, self.window);
        let config = Arc::clone(&self.plan.towards[beyond]);
        let end = Duplex::open(&config, [syn.source, syn.destination], start, now, &mut self.scratch);
        joint.ends[beyond] = Some(Box::new(end));
        self.act(joint, beyond, out, |_, _| ());
        if !self.plan.late {
            self.answer(joint, now, out);
        }
    }

    /// The SYN is answered.
    fn answer(&mut self, joint: &mut Joint, now: Time, out: &mut Outbox) {
        let Some((side, syn)) = joint.syn.take() else { return };
        let start = (self.numbers.below(1 << 32) as u32, self.window);
        let config = Arc::clone(&self.plan.towards[side]);
        joint.ends[side] = Some(Box::new(Duplex::accept(&config, &syn, start, now, &mut self.scratch)));
        self.act(joint, side, out, |_, _| ());
    }

    /// A segment of a connection that is known.
    fn tell(
        &mut self,
        joint: &mut Joint,
        (header, payload): (&Header, &[u8]),
        (side, sent): (usize, Sent),
        now: Time,
        out: &mut Outbox,
    ) {
        let Transport::Tcp(tcp) = &header.transport else { return };
        if joint.is_reset {
            if let Some(segment) = refuse(header, payload.len()) {
                out.put(side, &segment, &joint.pipes[1 - side]);
            }
            return;
        }
        if joint.ends[side].is_none() {
            match &mut joint.syn {
                Some((_, syn)) if tcp.flags.syn => *syn = *header,
                // The opener does not want it any more.
                _ if tcp.flags.rst => joint.is_reset = true,
                _ => {}
            }
            return;
        }
        let room = joint.pipes[side].base + self.plan.buffer;
        let given = (payload.len(), room);
        let taken =
            self.act(joint, side, out, |end, segments| end.take(header, given, now, segments)).flatten();
        if let Some(taken) = taken {
            if let Some(sent) = sent {
                joint.pipes[side].origins.note(taken.start, taken.start + taken.part.len() as u64, sent);
            }
            joint.pipes[side].write(taken.start, &payload[taken.part]);
        }
    }

    /// Brings both ends together after something has happened at one.
    fn settle(&mut self, joint: &mut Joint, now: Time, out: &mut Outbox) {
        if joint.until.is_some() {
            return;
        }
        if let Some((side, syn)) = joint.syn {
            let beyond = joint.ends[1 - side].as_ref();
            if beyond.is_some_and(|end| end.is_open()) {
                self.answer(joint, now, out);
            } else if beyond.is_some_and(|end| end.is_reset()) {
                joint.is_reset = true;
                if let Some(segment) = refuse(&syn, 0) {
                    out.put(side, &segment, &joint.pipes[1 - side]);
                }
            }
        }
        for side in 0..2 {
            self.pass_on(joint, side, now, out);
        }
        joint.is_reset |= joint.ends.iter().flatten().any(|end| end.is_reset());
        if joint.is_reset {
            for side in 0..2 {
                self.act(joint, side, out, |end, segments| end.abort(now, segments));
            }
        }
        let is_done = joint.ends.iter().all(|end| end.as_ref().is_some_and(|end| end.is_done()));
        if joint.is_reset || is_done {
            joint.until = Some(now + REMEMBERED);
        }
    }

    /// Passes on what has come from `side`, and tells it what has left.
    fn pass_on(&mut self, joint: &mut Joint, side: usize, now: Time, out: &mut Outbox) {
        let (Some(from), Some(to)) = (&joint.ends[side], &joint.ends[1 - side]) else { return };
        let (arrived, closed) = from.arrived();
        let pipe = &mut joint.pipes[side];
        pipe.settle(now, &self.window);
        let new = arrived - pipe.passed;
        pipe.passed = arrived;
        pipe.counted.relayed += if self.window.contains(now) { new } else { 0 };
        let closes = closed && !std::mem::replace(&mut pipe.closed, closed);
        let gone = to.delivered().min(arrived);
        let leaves = gone > pipe.base;
        if leaves {
            pipe.forget(gone);
            self.act(joint, side, out, |end, segments| end.read(gone, now, segments));
        }
        if new > 0 {
            self.act(joint, 1 - side, out, |end, segments| end.write(new, now, segments));
        }
        if closes {
            self.act(joint, 1 - side, out, |end, segments| end.close(now, segments));
        }
    }
}

impl Joint {
    fn due(&self) -> Option<Time> {
        let ends = self.ends.iter().flatten().filter_map(|end| end.due());
        ends.chain(self.until).min()
    }

    fn report(&self) -> [JointReport; 2] {
        [0, 1].map(|way| {
            let (from, to) = (&self.ends[way], &self.ends[1 - way]);
            let known = from.as_ref().map_or(0, |end| end.acknowledged());
            JointReport {
                pipe: self.pipes[way].counted,
                timeouts: to.as_ref().map_or(0, |end| end.sender().stats.timeouts),
                acked_not_delivered: known.saturating_sub(self.pipes[way].base),
                is_reset: self.is_reset,
            }
        })
    }
}
