//! A judge of QUIC connections by RFC 9002: from the datagrams of both ends, read from the wire with the secrets of
//! their TLS, it works out which packets are lost, when a probe is due and when an acknowledgement, and holds what the
//! ends do against that. [`crate::Run::watch`] hands it the datagrams.
//!
//! It shares no code with any stack. It takes for granted what stacks announce unless told otherwise (RFC 9000 §18.2):
//! acknowledgements wait for at most 25 ms and their delays are shifted by 3; and that the suite of TLS is
//! TLS_AES_256_GCM_SHA384. What it cannot read it counts.

use std::fmt::Write;

use lasthop::{Span, Time};

mod receiver;
mod sender;
pub mod wire;

use receiver::Receiver;
use sender::Sender;
use wire::{Keys, Secrets};

use crate::Report;
use crate::run::Seen;

/// RFC 9002 §6.1.2: kGranularity.
const GRANULARITY: Span = Span::from_millis(1);
/// RFC 9000 §18.2.
const MAX_ACK_DELAY: Span = Span::from_millis(25);
const ACK_DELAY_EXPONENT: u64 = 3;
/// Violations of a rule that are told one by one. All are counted.
const TOLD: usize = 20;

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The smoothed RTT is the moving average of the samples.
    Rtt,
    /// The sender counts as lost what the thresholds of packets and of time make lost, when they do.
    Lost,
    /// Data is repeated once its packet is lost, or as a probe.
    Repeated,
    /// A probe leaves when the probe timeout ends, which doubles each time.
    Probe,
    /// What is in flight stays within the window, probes excepted.
    Flight,
    /// No more than an initial window leaves at one instant.
    Burst,
    /// A loss or a mark halves the window, once a round trip, and nothing else shrinks it: the law of NewReno.
    Halved,
    /// The window grows by what is acknowledged at most.
    Grown,
    /// Persistent congestion leaves the least window.
    Persistent,
    /// Every packet that asks for it is acknowledged within the delay that the receiver has announced.
    AckInTime,
    /// The second packet that asks for it is acknowledged at once.
    AckSecond,
    /// A packet out of order is acknowledged at once.
    AckDisorder,
    /// The delay that an acknowledgement tells is that of the packet.
    AckDelay,
}

impl Rule {
    /// All, in the order of the table.
    pub const ALL: [Rule; 13] = [
        Rule::Rtt,
        Rule::Lost,
        Rule::Repeated,
        Rule::Probe,
        Rule::Flight,
        Rule::Burst,
        Rule::Halved,
        Rule::Grown,
        Rule::Persistent,
        Rule::AckInTime,
        Rule::AckSecond,
        Rule::AckDisorder,
        Rule::AckDelay,
    ];

    /// Where it stands, and whether it binds (MUST) or is advice (SHOULD).
    pub fn section(self) -> (&'static str, &'static str) {
        match self {
            Rule::Rtt => ("RFC 9002 5.3", "must"),
            Rule::Lost | Rule::Repeated => ("RFC 9002 6.1", "must"),
            Rule::Probe => ("RFC 9002 6.2", "must"),
            Rule::Flight => ("RFC 9002 7", "must"),
            Rule::Burst => ("RFC 9002 7.7", "should"),
            Rule::Halved => ("RFC 9002 7.3.2", "must"),
            Rule::Grown => ("RFC 9002 7.3", "must"),
            Rule::Persistent => ("RFC 9002 7.6.2", "must"),
            Rule::AckInTime => ("RFC 9000 13.2.1", "must"),
            Rule::AckSecond => ("RFC 9000 13.2.2", "should"),
            Rule::AckDisorder => ("RFC 9000 13.2.1", "should"),
            Rule::AckDelay => ("RFC 9000 13.2.5", "must"),
        }
    }

    /// What it asks for, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Rule::Rtt => "smoothed RTT as the samples make it",
            Rule::Lost => "lost is what the thresholds say",
            Rule::Repeated => "repeats what is lost, or probes",
            Rule::Probe => "a probe when it is due",
            Rule::Flight => "in flight within the window",
            Rule::Burst => "bursts of an initial window at most",
            Rule::Halved => "a loss or mark halves the window (NewReno)",
            Rule::Grown => "grows by what is acknowledged at most",
            Rule::Persistent => "persistent congestion: least window",
            Rule::AckInTime => "acknowledged within 25 ms",
            Rule::AckSecond => "the second packet acknowledged at once",
            Rule::AckDisorder => "disorder acknowledged at once",
            Rule::AckDelay => "the delay told is the packet's",
        }
    }
}

/// A rule that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Time,
    /// Which rule.
    pub rule: Rule,
    /// At which end: that which opened the connection, or the other.
    pub is_client: bool,
    /// Of which packet: its number. For acknowledgements, the packet that asked for it, or the one that carries it.
    pub packet: u64,
    /// What happened.
    pub what: String,
}

/// How often rules were checked, and where they were not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    checked: [u64; Rule::ALL.len()],
    broken: [u64; Rule::ALL.len()],
    /// The first violations of each rule, at most 20 of each.
    pub violations: Vec<Violation>,
    /// Datagrams that could not be read: damaged, or of a suite that the judge does not have.
    pub unread: u64,
    /// At which end the next checks are.
    is_client: bool,
}

impl Findings {
    /// How often a rule was checked.
    pub fn checked(&self, rule: Rule) -> u64 {
        self.checked[rule as usize]
    }

    /// How often it was not kept.
    pub fn broken(&self, rule: Rule) -> u64 {
        self.broken[rule as usize]
    }

    /// Adds those of another connection; violations stay in the order in which they are added.
    pub fn add(&mut self, other: &Findings) {
        for rule in Rule::ALL {
            self.checked[rule as usize] += other.checked(rule);
            self.broken[rule as usize] += other.broken(rule);
        }
        self.violations.extend(other.violations.iter().cloned());
        self.unread += other.unread;
    }

    /// A check: `what` says what is wrong if `is_kept` does not hold.
    fn check(&mut self, is_kept: bool, (rule, at, packet): (Rule, Time, u64), what: impl FnOnce() -> String) {
        self.checked[rule as usize] += 1;
        if is_kept {
            return;
        }
        self.broken[rule as usize] += 1;
        if self.broken(rule) <= TOLD as u64 {
            let is_client = self.is_client;
            self.violations.push(Violation { at, rule, is_client, packet, what: what() });
        }
    }

    /// One line for each violation that is told.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for Violation { at, rule, is_client, packet, what } in &self.violations {
            let end = if *is_client { "client" } else { "server" };
            // Writing into a string does not fail.
            let _ = writeln!(text, "after {at}, {end}, packet {packet}, {}: {what}", rule.section().0);
        }
        text
    }
}

/// The judge of a connection.
#[derive(Debug)]
pub struct Judge {
    secrets: Secrets,
    id_bytes: usize,
    /// What protects that which the end sends that opens the connection, and the other.
    keys: [Option<Keys>; 2],
    /// Of both, the highest number that has come to the other end, and that was sent: each end completes numbers by
    /// its own.
    newest: [[Option<u64>; 2]; 2],
    senders: [Sender; 2],
    receivers: [Receiver; 2],
    is_over: bool,
    findings: Findings,
}

impl Judge {
    /// A judge of a connection with these secrets, whose ends have ids of this length. `is_newreno`: the windows of
    /// both ends are to obey the law of RFC 9002 §7.3.
    pub fn new(secrets: Secrets, id_bytes: usize, is_newreno: bool) -> Judge {
        Judge {
            secrets,
            id_bytes,
            keys: [None, None],
            newest: [[None; 2]; 2],
            senders: [Sender::new(is_newreno), Sender::new(is_newreno)],
            receivers: Default::default(),
            is_over: false,
            findings: Findings::default(),
        }
    }

    /// A datagram that an end of the connection has sent or got.
    pub fn see(&mut self, seen: &Seen<'_>) {
        // What comes last ends the connection or is sent again on that: no rule holds for it.
        if self.is_over {
            return;
        }
        let side = usize::from((seen.end == seen.connection.sender) != seen.is_sent);
        let Some(short) = wire::short(seen.data) else { return };
        if self.keys[side].is_none() {
            self.keys[side] = self.secrets.of(side);
        }
        let newest = &mut self.newest[side][usize::from(seen.is_sent)];
        let opened = self.keys[side].as_mut().and_then(|keys| keys.open(short, self.id_bytes, *newest));
        let Some(packet) = opened else {
            self.findings.unread += u64::from(!seen.is_sent);
            return;
        };
        *newest = (*newest).max(Some(packet.number));
        self.is_over = packet.closes;
        if self.is_over {
            return;
        }
        let end = usize::from(seen.end != seen.connection.sender);
        let (at, findings) = (seen.at, &mut self.findings);
        findings.is_client = end == 0;
        if seen.is_sent {
            self.receivers[end].send(at, &packet, findings);
        } else if seen.report.connected.is_some() {
            // Before, it may have no keys (RFC 9000 §13.2.1).
            self.receivers[end].receive(at, &packet, findings);
        }
        let told = Told::of(seen.report);
        if seen.is_sent {
            self.senders[end].send(at, &packet, told, findings);
        } else {
            self.senders[end].receive(at, &packet, told, findings);
        }
    }

    /// What was found until a time, at which the run or the connection ended.
    pub fn findings(&self, at: Time) -> Findings {
        let mut findings = self.findings.clone();
        if !self.is_over {
            for ((receiver, sender), is_client) in self.receivers.iter().zip(&self.senders).zip([true, false])
            {
                findings.is_client = is_client;
                receiver.clone().finish(at, &mut findings);
                sender.clone().finish(at, &mut findings);
            }
        }
        findings
    }
}

/// What a sender says of itself, as far as it is judged.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    window: Option<u64>,
    packet_bytes: Option<u64>,
    rtt: Option<Span>,
    lost: Option<u64>,
}

impl Told {
    fn of(report: &Report) -> Told {
        Told {
            window: report.cwnd_bytes,
            packet_bytes: report.packet_bytes,
            rtt: report.rtt,
            lost: report.lost_packets,
        }
    }
}
