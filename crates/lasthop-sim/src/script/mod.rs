//! Scripts of one end of a TCP connection: what it gets and when, and what it has to send and when.
//!
//! ```text
//! text -> head and events -> a stack -> an outcome
//!         language.rs        simulated.rs here, sockets of the kernel in lasthop-live
//! a random situation -> the engine and our receiver -> text
//! situation.rs          recorded.rs                   written.rs
//! ```
//!
//! A script plays the other end of the connection in bytes of real headers, so that the same file examines the engine
//! in virtual time, where every time is exact, and a running kernel, where times have a tolerance.

mod language;
mod recorded;
mod simulated;
mod situation;
mod written;

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{TcpConfig, Transport as Planned};
use lasthop_net::transport::codec::{
    self, Blocks, Ecn, Flags, Header, MAX_PACKET, Measured, Options, Tcp, Transport,
};
use serde::Serialize;
use thiserror::Error;

use crate::scenario::{Format, Scenario};
use language::{Absent, Action, Claim, Event, Quantity, Segment, written_counts};
pub use language::{Examined, Head, ScriptError};
use simulated::Simulated;
pub use situation::{Room, Situation, Way, play};

/// Where the sender of data is.
pub const SENDER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 40_000);
/// Where their receiver is.
pub const RECEIVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 443);
/// The first sequence number of the side that the script plays: it wraps early.
const SCRIPT_START: u32 = u32::MAX - 1_500;
/// That of the engine's own stack, likewise.
const STACK_START: u32 = u32::MAX - 4_500;
/// The window of segments that say nothing of it.
const WINDOW: u16 = u16::MAX;

/// A script that has been read.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it is about.
    pub head: Head,
    /// The transport of the end that is examined.
    pub config: TcpConfig,
    events: Vec<Event>,
}

/// What can be looked at within a stack; `None` is what it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Congestion window in segments.
    pub cwnd: Option<f64>,
    /// Slow start threshold in segments.
    pub ssthresh: Option<f64>,
    /// Smoothed round-trip time in milliseconds.
    pub srtt_ms: Option<f64>,
    /// Bytes given to the application.
    pub delivered: Option<u64>,
}

/// A TCP that can be examined: the engine's, or that of a kernel.
pub trait Stack {
    /// By how much a time may differ, given the span since the time before it.
    fn tolerance(&self, after: Span) -> Span;
    /// Lets it go on until it sends a packet, which is returned with its time, or until that time has come.
    fn next(&mut self, until: Time) -> io::Result<Option<(Time, Vec<u8>)>>;
    /// Gives it a packet now.
    fn put(&mut self, packet: &[u8]) -> io::Result<()>;
    /// Its application writes; the first time opens the connection.
    fn write(&mut self, bytes: u64) -> io::Result<()>;
    /// Its application writes no more.
    fn close(&mut self) -> io::Result<()>;
    /// What it has.
    fn state(&mut self) -> io::Result<State>;
    /// When it does something of itself, if that is known.
    fn due(&self) -> Option<Time> {
        None
    }
}

/// Where a stack did something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Line of the script, from 1.
    pub line: usize,
    /// What was asserted, and what was.
    pub text: String,
}

/// What came of a script.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Where it went wrong; `None` if it did not.
    pub failure: Option<Failure>,
    /// What happened, a line for each packet, in the notation of scripts.
    pub log: Vec<String>,
}

impl Outcome {
    /// Adds it to an object that Python gets; without one the script did not run.
    pub fn tell(outcome: Option<&Outcome>, told: &mut serde_json::Value) {
        told["ran"] = outcome.is_some().into();
        told["failure"] = serde_json::json!(outcome.and_then(|outcome| outcome.failure.as_ref()));
        told["log"] = serde_json::json!(outcome.map(|outcome| &outcome.log));
    }
}

/// Why a script did not come to an end.
#[derive(Debug, Error)]
enum Stop {
    #[error("{0}")]
    Differs(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Script {
    /// Reads a script; `name` stands for its file in messages.
    pub fn read(text: &str, name: &str) -> Result<Script, ScriptError> {
        let (head, events) = language::read(text, name)?;
        let config = config_of(&head.transport).map_err(|text| ScriptError {
            name: name.to_owned(),
            line: 1,
            text,
        })?;
        Ok(Script { head, config, events })
    }

    /// Runs it against the engine, in virtual time.
    pub fn simulate(&self) -> io::Result<Outcome> {
        self.run(&mut Simulated::new(&self.config, self.head.end))
    }

    /// Runs it against a stack. The error is that of the stack's surroundings.
    pub fn run(&self, stack: &mut dyn Stack) -> io::Result<Outcome> {
        let mut player = Player::new(&self.head, stack);
        let mut failure = None;
        for event in &self.events {
            match player.play(event) {
                Ok(()) => {}
                Err(Stop::Differs(text)) => {
                    failure = Some(Failure { line: event.line, text });
                    break;
                }
                Err(Stop::Io(error)) => return Err(error),
            }
        }
        Ok(Outcome { failure, log: player.log })
    }
}

/// The transport that a head names, checked as that of a scenario.
fn config_of(transport: &toml::Value) -> Result<TcpConfig, String> {
    let table = |text: &str| toml::from_str::<toml::Table>(text).unwrap_or_default();
    let mut flow = table("source = \"sender\"\nsink = \"receiver\"\ntraffic = \"ftp\"");
    flow.insert("transport".into(), transport.clone());
    let mut scenario = table(
        "duration = \"60 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"sender\", \"receiver\"]\n\
         [[topology.links]]\nfrom = \"sender\"\nto = \"receiver\"\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
         mtu = \"65535 B\"",
    );
    scenario.insert("flows".into(), toml::Value::Array(vec![flow.into()]));
    let text = serde_json::to_string(&scenario).map_err(|error| error.to_string())?;
    let parsed = Scenario::parse(&text, Format::Json, "transport", &[]).map_err(|error| error.to_string())?;
    match parsed.into_plan().flows.swap_remove(0).transport {
        Planned::Tcp(config) => Ok(TcpConfig::clone(&config)),
        _ => Err("transport: scripts examine TCP".to_owned()),
    }
}

/// What the player stores about one side.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    start: u32,
    /// One past the last number that it sent, relative.
    next: u32,
    timestamps: bool,
}

/// Plays the other end.
struct Player<'a> {
    stack: &'a mut dyn Stack,
    /// When the last event was planned, or the later time at which the stack sent what it should.
    last: Time,
    examined: Side,
    own: Side,
    /// Addresses: where the stack is, and where we are.
    ends: (SocketAddrV4, SocketAddrV4),
    window: u16,
    /// What we have acknowledged.
    acknowledged: u32,
    /// What the stack sent: where it began and ended, and its timestamp. Newest last.
    sent: Vec<(u32, u32, u32)>,
    /// The timestamp that is echoed.
    recent: u32,
    /// Timestamps of packets with a label.
    labels: HashMap<String, u32>,
    log: Vec<String>,
    /// What the stack has sent and no line has named, if it may wait for one.
    waiting: Option<VecDeque<(Time, Vec<u8>)>>,
    /// By how much times may differ anyway.
    tolerance: Span,
}

impl<'a> Player<'a> {
    fn new(head: &Head, stack: &'a mut dyn Stack) -> Player<'a> {
        Player {
            stack,
            last: Time::ZERO,
            examined: Side::default(),
            own: Side { start: SCRIPT_START, ..Side::default() },
            ends: if head.end == Examined::Sender { (SENDER, RECEIVER) } else { (RECEIVER, SENDER) },
            window: WINDOW,
            acknowledged: 0,
            sent: Vec::new(),
            recent: 0,
            labels: HashMap::new(),
            log: Vec::new(),
            waiting: head.unnamed_wait.then(VecDeque::new),
            tolerance: Span::from_seconds(head.tolerance_ms / 1e3),
        }
    }

    fn play(&mut self, event: &Event) -> Result<(), Stop> {
        let base = if event.when.relative { self.last } else { Time::ZERO };
        let at = base + event.when.at;
        if at < self.last {
            return Err(Stop::Differs(format!("{} lies before the event above it", seconds(at))));
        }
        if let Action::Expect(segment) = &event.action {
            let until = event.when.until.map(|until| base + until);
            return self.expect(segment, (at, until), &event.text);
        }
        self.last = at;
        while let Some((came, bytes)) = self.stack.next(at)? {
            let shown = self.take(came, &bytes);
            if let Some(waiting) = &mut self.waiting {
                waiting.push_back((came, bytes));
                continue;
            }
            if let Some(shown) = shown {
                return Err(Stop::Differs(format!(
                    "before '{}' at {} the stack sent, at {}: {shown}",
                    event.text,
                    seconds(at),
                    seconds(came)
                )));
            }
        }
        match &event.action {
            Action::Write(bytes) => self.stack.write(*bytes)?,
            Action::Close => self.stack.close()?,
            Action::Put(segment) => self.put(segment, at)?,
            Action::Check(claims) => {
                let state = self.stack.state()?;
                claims.iter().try_for_each(|claim| check(claim, &state).map_err(Stop::Differs))?;
            }
            Action::Expect(_) | Action::Quiet => {}
        }
        Ok(())
    }

    /// Waits for a packet that the stack has to send.
    fn expect(
        &mut self,
        wanted: &Segment,
        (at, until): (Time, Option<Time>),
        text: &str,
    ) -> Result<(), Stop> {
        let latest = until.unwrap_or(at);
        let tolerance = self.stack.tolerance(latest.since(self.last)).max(self.tolerance);
        let latest = latest + tolerance;
        let window = match until {
            Some(until) => format!("between {} and {}", seconds(at), seconds(until)),
            None => format!("at {}", seconds(at)),
        };
        loop {
            let waits = self.waiting.as_mut().and_then(VecDeque::pop_front);
            let taken = waits.is_some();
            let next = if taken { waits } else { self.stack.next(latest)? };
            let Some((came, bytes)) = next else {
                return Err(Stop::Differs(format!("{text}: {window} it has to be sent, but nothing was")));
            };
            let Ok((header, payload)) = codec::parse(&bytes) else { continue };
            let Some(tcp) = self.segment_of(&header) else { continue };
            let differs = self.differs(wanted, &header, &tcp, payload.len());
            if !taken {
                self.take(came, &bytes);
            }
            if let Some(label) = &wanted.label {
                let stamp = tcp.options.timestamps.map_or(0, |(value, _)| value);
                self.labels.insert(label.clone(), stamp);
            }
            let shown = format!("> {}", self.shown(&header, &tcp, payload.len()));
            self.last = at.max(came);
            if let Some(what) = differs {
                return Err(Stop::Differs(format!(
                    "{text}: another {what} was sent, at {}: {shown}",
                    seconds(came)
                )));
            }
            if came + tolerance < at || came > latest {
                return Err(Stop::Differs(format!(
                    "{text}: {window} it has to be sent, but it was at {}: {shown}",
                    seconds(came)
                )));
            }
            return Ok(());
        }
    }

    /// The TCP header of a packet of this connection. A SYN says where the numbers of the stack begin.
    fn segment_of(&mut self, header: &Header) -> Option<Tcp> {
        let Transport::Tcp(tcp) = header.transport else { return None };
        if (header.source, header.destination) != self.ends {
            return None;
        }
        if tcp.flags.syn {
            self.examined = Side { start: tcp.seq, next: 0, timestamps: tcp.options.timestamps.is_some() };
        }
        Some(tcp)
    }

    /// Notes what the stack has sent; as it is written in scripts.
    fn take(&mut self, at: Time, bytes: &[u8]) -> Option<String> {
        let (header, payload) = codec::parse(bytes).ok()?;
        let tcp = self.segment_of(&header)?;
        let seq = tcp.seq.wrapping_sub(self.examined.start);
        let end = seq + payload.len() as u32 + u32::from(tcp.flags.syn) + u32::from(tcp.flags.fin);
        self.examined.next = self.examined.next.max(end);
        let stamp = tcp.options.timestamps.map_or(0, |(value, _)| value);
        self.sent.push((seq, end, stamp));
        let shown = self.shown(&header, &tcp, payload.len());
        self.log.push(format!("{:.6} > {shown}", at.seconds()));
        Some(format!("> {shown}"))
    }

    /// A packet of the stack in the notation of scripts.
    fn shown(&self, header: &Header, tcp: &Tcp, payload: usize) -> String {
        show(header, tcp, payload, [self.examined.start, self.own.start])
    }

    /// In what a packet differs from what a line asks for.
    fn differs(&self, wanted: &Segment, header: &Header, tcp: &Tcp, payload: usize) -> Option<&'static str> {
        let [start, own] = [self.examined.start, self.own.start];
        let flags = Flags { psh: false, ..tcp.flags } == Flags { psh: false, ..wanted.flags };
        let options = &wanted.options;
        let has = &tcp.options;
        let blocks = |blocks: &Blocks, start: u32| -> Vec<(u32, u32)> {
            let relative = |number: u32| number.wrapping_sub(start);
            blocks.as_slice().iter().map(|&(from, to)| (relative(from), relative(to))).collect()
        };
        let absent = options.without.iter().all(|absent| match absent {
            Absent::Timestamps => has.timestamps.is_none(),
            Absent::SackPermitted => !has.sack_permitted,
            Absent::WindowScale => has.window_scale.is_none(),
            Absent::ByteCounts => has.measured.byte_counts.is_none(),
        });
        let echo = options.echo_of.as_ref().is_none_or(|label| {
            // Whose own timestamp a label of ours names.
            self.labels.get(label).copied() == has.timestamps.map(|(_, echo)| echo)
        });
        let checks = [
            (flags, "set of flags"),
            (wanted.seq.is_none_or(|seq| seq == tcp.seq.wrapping_sub(start)), "sequence number"),
            (usize::from(wanted.payload) == payload, "length"),
            (wanted.ack.is_none_or(|ack| ack == tcp.ack.wrapping_sub(own)), "acknowledgement"),
            (wanted.window.is_none_or(|window| window == tcp.window), "window"),
            (wanted.any_ecn || wanted.ecn == header.ecn, "ECN field"),
            (options.mss.is_none_or(|mss| Some(mss) == has.mss), "MSS option"),
            (options.window_scale.is_none_or(|shift| Some(shift) == has.window_scale), "window scale option"),
            (!options.sack_permitted || has.sack_permitted, "SACK-permitted option"),
            (!options.timestamps || has.timestamps.is_some(), "timestamps option"),
            (echo, "timestamp echo"),
            (absent, "set of options"),
            (
                options.byte_counts.is_none() || options.byte_counts == has.measured.byte_counts,
                "option of Accurate ECN",
            ),
            (blocks(&options.sack, 0) == blocks(&has.sack, own), "list of SACK blocks"),
        ];
        checks.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
    }

    /// Gives the stack a segment.
    fn put(&mut self, segment: &Segment, at: Time) -> Result<(), Stop> {
        if let Some(window) = segment.window {
            self.window = window;
        }
        let seq = segment.seq.unwrap_or(self.own.next);
        let syn = segment.flags.syn;
        let end = seq + u32::from(segment.payload) + u32::from(syn) + u32::from(segment.flags.fin);
        self.own.next = self.own.next.max(end);
        if let Some(ack) = segment.ack {
            self.acknowledge(ack);
        }
        let wanted = &segment.options;
        if syn {
            self.own.timestamps = wanted.timestamps;
        }
        let agreed = self.own.timestamps && (self.examined.timestamps || (syn && !segment.flags.ack));
        let echo = match &wanted.echo_of {
            Some(label) => *self
                .labels
                .get(label)
                .ok_or_else(|| Stop::Differs(format!("no packet above is called @{label}")))?,
            None => self.recent,
        };
        let stamp = (at.0 / 1_000) as u32;
        if let Some(label) = &segment.label {
            self.labels.insert(label.clone(), stamp);
        }
        let start = self.examined.start;
        let blocks = wanted.sack.as_slice().iter();
        let wrap = |number: u32| u64::from(number.wrapping_add(start));
        let tcp = Tcp {
            seq: self.own.start.wrapping_add(seq),
            ack: segment.ack.map_or(0, |ack| start.wrapping_add(ack)),
            window: self.window,
            flags: segment.flags,
            options: Options {
                mss: wanted.mss,
                window_scale: wanted.window_scale,
                sack_permitted: wanted.sack_permitted,
                timestamps: agreed.then_some((stamp, echo)),
                sack: blocks.map(|&(from, to)| (wrap(from), wrap(to))).collect(),
                measured: Measured { byte_counts: wanted.byte_counts, ..Measured::default() },
                ..Options::default()
            },
        };
        let header = Header {
            source: self.ends.1,
            destination: self.ends.0,
            identification: self.log.len() as u16,
            time_to_live: 64,
            ecn: segment.ecn,
            transport: Transport::Tcp(tcp),
        };
        let mut place = vec![0; MAX_PACKET];
        let payload = vec![0; usize::from(segment.payload)];
        let length = header.write(&payload, &mut place).map_err(|error| Stop::Differs(error.to_string()))?;
        let shown = show(&header, &tcp, payload.len(), [self.own.start, start]);
        self.log.push(format!("{:.6} < {shown}", at.seconds()));
        self.stack.put(&place[..length])?;
        Ok(())
    }

    /// RFC 7323 section 4.3: what is echoed is the timestamp of the segment that began where the last ACK ended.
    fn acknowledge(&mut self, ack: u32) {
        let newest = self.sent.iter().rev();
        let first = newest
            .clone()
            .find(|&&(seq, end, _)| seq <= self.acknowledged && self.acknowledged < end && end <= ack);
        if let Some(&(_, _, stamp)) = first {
            self.recent = stamp;
        }
        self.acknowledged = self.acknowledged.max(ack);
    }
}

/// Whether a stack has what is claimed of it.
fn check(claim: &Claim, state: &State) -> Result<(), String> {
    let has = match claim.quantity {
        Quantity::Cwnd => state.cwnd,
        Quantity::Ssthresh => state.ssthresh,
        Quantity::Srtt => state.srtt_ms,
        Quantity::Delivered => state.delivered.map(|bytes| bytes as f64),
    };
    let name = claim.quantity.name();
    let Some(has) = has else { return Err(format!("this end has no {name}")) };
    if has == claim.value || (has - claim.value).abs() <= claim.slack * (1.0 + 1e-9) + 1e-6 {
        return Ok(());
    }
    let shown = if has.is_infinite() { "infinite".to_owned() } else { format!("{has:.4}") };
    Err(format!("{name} {} is asserted, but it is {shown}", claim.value))
}

fn seconds(at: Time) -> String {
    format!("{:.6} s", at.seconds())
}

/// A segment in the notation of scripts. `starts`: first numbers of the side that sent it, and of the other.
fn show(header: &Header, tcp: &Tcp, payload: usize, starts: [u32; 2]) -> String {
    let mut text = match header.ecn {
        Ecn::NotCapable => String::new(),
        Ecn::Capable => "[ect0] ".to_owned(),
        Ecn::Capable1 => "[ect1] ".to_owned(),
        Ecn::Congestion => "[ce] ".to_owned(),
    };
    let Flags { syn, fin, rst, ack, ece, cwr, ae, .. } = tcp.flags;
    let letters = [(syn, 'S'), (fin, 'F'), (rst, 'R'), (ece, 'E'), (cwr, 'W'), (ae, 'A'), (ack, '.')];
    text.extend(letters.into_iter().filter(|(set, _)| *set).map(|(_, letter)| letter));
    let seq = tcp.seq.wrapping_sub(starts[0]);
    let _ = write!(text, " {seq}:{}({payload})", seq.wrapping_add(payload as u32));
    if ack {
        let _ = write!(text, " ack {}", tcp.ack.wrapping_sub(starts[1]));
    }
    let _ = write!(text, " win {}", tcp.window);
    let mut options = Vec::new();
    options.extend(tcp.options.mss.map(|mss| format!("mss {mss}")));
    options.extend(tcp.options.sack_permitted.then(|| "sackOK".to_owned()));
    options.extend(tcp.options.timestamps.map(|_| "TS".to_owned()));
    options.extend(tcp.options.window_scale.map(|shift| format!("wscale {shift}")));
    let blocks = tcp.options.sack.as_slice().iter();
    let blocks: Vec<String> = blocks
        .map(|(from, to)| format!("{}:{}", from.wrapping_sub(starts[1]), to.wrapping_sub(starts[1])))
        .collect();
    if !blocks.is_empty() {
        options.push(format!("sack {}", blocks.join(" ")));
    }
    options.extend(tcp.options.measured.byte_counts.as_ref().map(written_counts));
    if !options.is_empty() {
        let _ = write!(text, " <{}>", options.join(","));
    }
    text
}
