//! Random situations: the engine's sender, a path that loses, holds back, repeats and marks, and our own receiver at
//! its other end. What the sender did becomes a script, which any other TCP can be asked.

use std::collections::BTreeMap;
use std::io;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_net::transport::codec::{self, Ecn, Header, MAX_PACKET, Transport};
use serde::Deserialize;

use super::language::{Head, Segment, Wanted};
use super::recorded::{Departed, Recorder};
use super::simulated::Simulated;
use super::{Examined, Stack, Stop, config_of};

/// Most packets of a situation.
const MOST_PACKETS: usize = 5_000;

/// What happens on the way in one direction, packet by packet. Shares lie between 0 and 1.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Way {
    /// Lost.
    pub loss: f64,
    /// Held back by `late_us`.
    pub late: f64,
    /// How long, in microseconds.
    pub late_us: u64,
    /// Each packet takes up to this much longer, in microseconds.
    pub jitter_us: u64,
    /// What jitter brings out of order arrives so; else it waits for what is before it.
    pub overtaking: bool,
    /// Delivered twice.
    pub duplicate: f64,
    /// Marked, if it may be.
    pub mark: f64,
}

/// A receiver's room, and when nothing is read from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// Bytes of its buffer.
    pub bytes: u32,
    /// From and until when nothing is read, in microseconds.
    pub closed_us: Vec<(u64, u64)>,
}

/// One random connection, complete.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// Head of the script that comes of it.
    pub head: Head,
    /// The transport of the receiver.
    pub peer: toml::Value,
    /// Of what is drawn on the way.
    pub seed: u64,
    /// One-way delay in microseconds.
    pub delay_us: u64,
    /// Time that the bottleneck needs for a segment, in microseconds.
    pub spacing_us: u64,
    /// From the sender.
    pub data: Way,
    /// From the receiver.
    pub acks: Way,
    /// When the application writes, in microseconds, and how much.
    pub writes: Vec<(u64, u64)>,
    /// When it writes no more.
    #[serde(default)]
    pub close_us: Option<u64>,
    /// The receiver's room, if it is ever short.
    #[serde(default)]
    pub room: Option<Room>,
    /// When it ends.
    pub until_us: u64,
}

/// What is to happen.
enum Due {
    ToPeer(Vec<u8>),
    ToSender(Vec<u8>),
    Write(u64),
    Close,
    /// The receiver reads again.
    Reopen,
}

/// Where a direction is.
struct Lane {
    way: Way,
    draw: Stream,
    /// When its bottleneck is free, and when the last packet arrived.
    free: Time,
    arrived: Time,
}

impl Lane {
    fn new(way: Way, seed: u64, name: &str) -> Lane {
        Lane { way, draw: Stream::new(seed, name), free: Time::ZERO, arrived: Time::ZERO }
    }

    /// When a packet arrives that leaves now: never, once or twice; and whether it is marked.
    fn arrivals(&mut self, now: Time, delay: Span, spacing: Span) -> (Vec<Time>, bool) {
        let way = self.way;
        // Every packet draws as often, so that a share that changes moves no other.
        let [lost, late, twice, mark, jitter, again] = std::array::from_fn(|_| self.draw.uniform());
        self.free = self.free.max(now) + spacing;
        let extra = (jitter * way.jitter_us as f64) as u64;
        let held = if late < way.late { way.late_us } else { 0 };
        let mut at = whole(self.free + delay + Span(1_000 * (extra + held)));
        if held == 0 && !way.overtaking {
            at = at.max(self.arrived);
            self.arrived = at;
        }
        let mut arrivals = Vec::new();
        if lost >= way.loss {
            arrivals.push(at);
        }
        if twice < way.duplicate {
            arrivals.push(whole(at + Span((again * delay.0 as f64) as u64)));
        }
        (arrivals, mark < way.mark)
    }
}

/// The next full microsecond: what scripts write.
fn whole(at: Time) -> Time {
    Time(at.0.div_ceil(1_000) * 1_000)
}

/// The situation while it runs.
struct Run<'a> {
    of: &'a Situation,
    recorder: Recorder<'a>,
    peer: Simulated,
    due: BTreeMap<(Time, usize), Due>,
    /// Things that were ever due.
    count: usize,
    lanes: [Lane; 2],
    /// The number up to which the receiver has offered room, and the shift of its windows.
    edge: u32,
    shift: u8,
    /// The first number of the receiver on the wire.
    peer_start: u32,
    /// The last ACK that it sent.
    last: Option<Segment>,
}

/// Plays a situation; returns its script. The error says which of its values cannot be.
pub fn play(situation: &Situation) -> Result<String, String> {
    let config = config_of(&situation.head.transport)?;
    let mut engine = Simulated::new(&config, Examined::Sender);
    let peer = Simulated::new(&config_of(&situation.peer)?, Examined::Receiver);
    let mut run = Run {
        of: situation,
        recorder: Recorder::new(&situation.head, &mut engine),
        peer,
        due: BTreeMap::new(),
        count: 0,
        lanes: [
            Lane::new(situation.data, situation.seed, "data"),
            Lane::new(situation.acks, situation.seed, "acks"),
        ],
        edge: 0,
        shift: 0,
        peer_start: 0,
        last: None,
    };
    run.run().map_err(|stop| stop.to_string())?;
    Ok(run.recorder.text())
}

impl Run<'_> {
    fn plan(&mut self, at: Time, due: Due) {
        self.due.insert((at, self.count), due);
        self.count += 1;
    }

    fn run(&mut self) -> Result<(), Stop> {
        let us = |time: u64| Time(time.saturating_mul(1_000));
        self.plan(Time::ZERO, Due::Write(0));
        for &(at, bytes) in &self.of.writes {
            self.plan(us(at), Due::Write(bytes));
        }
        if let Some(at) = self.of.close_us {
            self.plan(us(at), Due::Close);
        }
        for &(_, until) in self.of.room.iter().flat_map(|room| &room.closed_us) {
            self.plan(us(until), Due::Reopen);
        }
        let end = us(self.of.until_us);
        while self.count < MOST_PACKETS {
            let next = [
                self.due.keys().next().map(|&(at, _)| at),
                self.peer.next_time(),
                self.recorder.player.stack.due(),
            ];
            let Some(now) = next.into_iter().flatten().min() else { break };
            if now > end {
                break;
            }
            self.drain(now)?;
            let Some(first) = self.due.first_entry().filter(|entry| entry.key().0 <= now) else { continue };
            match first.remove() {
                Due::Write(bytes) => self.recorder.write(bytes, now)?,
                Due::Close => self.recorder.close(now)?,
                Due::ToPeer(bytes) => self.peer.put(&bytes)?,
                Due::ToSender(bytes) => self.deliver(&bytes, now)?,
                Due::Reopen => self.reopen(now)?,
            }
            self.drain(now)?;
        }
        Ok(())
    }

    /// Puts on its way what both ends send until now.
    fn drain(&mut self, now: Time) -> Result<(), Stop> {
        for departed in self.recorder.advance(now)? {
            self.carry(departed)?;
        }
        while let Some((at, bytes)) = self.peer.next(now)? {
            self.answer(at, bytes);
        }
        Ok(())
    }

    /// Takes a packet of the sender over the path.
    fn carry(&mut self, departed: Departed) -> Result<(), Stop> {
        let Departed { at, mut bytes, payload } = departed;
        let delay = Span(self.of.delay_us * 1_000);
        if payload == 0 {
            // Handshakes and probes always arrive.
            let arrival = whole(at + delay);
            self.plan(arrival, Due::ToPeer(bytes));
            return Ok(());
        }
        let (arrivals, marked) = self.lanes[0].arrivals(at, delay, Span(self.of.spacing_us * 1_000));
        if marked {
            bytes = mark(&bytes)?;
        }
        for at in arrivals {
            self.plan(at, Due::ToPeer(bytes.clone()));
        }
        Ok(())
    }

    /// Takes a packet of the receiver over the path.
    fn answer(&mut self, at: Time, bytes: Vec<u8>) {
        let Ok((header, _)) = codec::parse(&bytes) else { return };
        let Transport::Tcp(tcp) = header.transport else { return };
        let delay = Span(self.of.delay_us * 1_000);
        if tcp.flags.syn || tcp.flags.fin {
            self.plan(whole(at + delay), Due::ToSender(bytes));
            return;
        }
        let (arrivals, _) = self.lanes[1].arrivals(at, delay, Span::ZERO);
        for at in arrivals {
            self.plan(at, Due::ToSender(bytes.clone()));
        }
    }

    /// The sender gets a packet of the receiver.
    fn deliver(&mut self, bytes: &[u8], now: Time) -> Result<(), Stop> {
        let (header, _) = codec::parse(bytes).map_err(io::Error::other)?;
        let Transport::Tcp(tcp) = header.transport else { return Ok(()) };
        let start = self.recorder.player.examined.start;
        let syn = tcp.flags.syn;
        if syn {
            self.peer_start = tcp.seq;
            self.shift = tcp.options.window_scale.unwrap_or(0);
        }
        let ack = tcp.ack.wrapping_sub(start);
        let blocks = tcp.options.sack.as_slice().iter();
        let relative = |number: u32| u64::from(number.wrapping_sub(start));
        let timestamps = tcp.options.timestamps;
        let echo_of = timestamps.filter(|_| !syn).and_then(|(_, echo)| self.recorder.echo_of(ack, echo));
        let segment = Segment {
            flags: tcp.flags,
            seq: (syn || tcp.flags.fin).then(|| tcp.seq.wrapping_sub(self.peer_start)),
            ack: Some(ack),
            window: Some(self.window(ack, tcp.window, syn, now)),
            options: Wanted {
                mss: tcp.options.mss,
                window_scale: tcp.options.window_scale,
                sack_permitted: tcp.options.sack_permitted,
                timestamps: (syn && timestamps.is_some()) || echo_of.is_some(),
                echo_of,
                sack: blocks.map(|&(from, to)| (relative(from), relative(to))).collect(),
                byte_counts: tcp.options.measured.byte_counts,
                ..Wanted::default()
            },
            ..Segment::default()
        };
        let newest = self.last.as_ref().is_none_or(|last| last.ack <= segment.ack);
        if newest {
            self.last = Some(segment.clone());
        }
        self.recorder.put(segment, now)
    }

    /// What the receiver offers: what it has read it has room for again, and what it once offered it never takes back.
    fn window(&mut self, ack: u32, own: u16, syn: bool, now: Time) -> u16 {
        let Some(room) = &self.of.room else { return own };
        let shift = if syn { 0 } else { self.shift };
        let us = now.0 / 1_000;
        let reads = !room.closed_us.iter().any(|&(from, until)| (from..until).contains(&us));
        if reads || syn {
            self.edge = self.edge.max(ack.wrapping_add(room.bytes));
        }
        ((self.edge.saturating_sub(ack)) >> shift).min(own.into()) as u16
    }

    /// The receiver's application reads again, and the sender learns of it.
    fn reopen(&mut self, now: Time) -> Result<(), Stop> {
        let Some(mut segment) = self.last.clone().filter(|last| !last.flags.syn && !last.flags.fin) else {
            return Ok(());
        };
        let ack = segment.ack.unwrap_or_default();
        let window = self.window(ack, u16::MAX, false, now);
        if segment.window == Some(window) {
            return Ok(());
        }
        segment.window = Some(window);
        self.last = Some(segment.clone());
        self.recorder.put(segment, now)
    }
}

/// The same packet with congestion experienced, if it is of an ECN-capable transport.
fn mark(bytes: &[u8]) -> Result<Vec<u8>, Stop> {
    let (header, payload) = codec::parse(bytes).map_err(io::Error::other)?;
    if header.ecn == Ecn::NotCapable {
        return Ok(bytes.to_vec());
    }
    let marked = Header { ecn: Ecn::Congestion, ..header };
    let mut place = vec![0; MAX_PACKET];
    let length = marked.write(payload, &mut place).map_err(io::Error::other)?;
    place.truncate(length);
    Ok(place)
}
