//! What a live run is asked for and what it answers: programs, its order and its report.
//!
//! `emulate` and all that it calls speak in these. Nothing here does anything.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

use lasthop_core::time::Span;
use lasthop_net::plan::Plan;
use lasthop_net::trace::{Recorded, Recording};
use lasthop_sim::summary::Summary;
use serde::Serialize;

use crate::capture::{CaptureOrder, Captured};
use crate::steer::SessionReport;

/// A program at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The node of the scenario at which it runs.
    pub node: String,
    /// Its name and arguments.
    pub words: Vec<String>,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Seed of everything that the world draws.
    pub seed: u64,
    /// The program with which the run ends; without it the run lasts as long as the scenario says.
    pub main: Option<Program>,
    /// Programs that run beside it, such as servers. They start first.
    pub others: Vec<Program>,
    /// The congestion control with which sockets of the kernel carry all flows of the scenario; `None`: those whose
    /// transport names one.
    pub kernel: Option<String>,
    /// The 99th percentile of lateness above which the run is worth nothing.
    pub budget: Span,
    /// Marks everything that the run starts, in the environment of programs.
    pub mark: String,
    /// What to record beside the summary.
    pub recording: Recording,
    /// Captures of real packets to be written.
    pub captures: Vec<CaptureOrder>,
    /// Within another run: where hosts have their addresses, 10.n.0.0/16. The host at the far end of the first flow is
    /// then that of the other run at which we are.
    pub nested: Option<u8>,
    /// The way out of the network, if there is one.
    pub outside: Option<Outside>,
}

/// The way out of an emulated network: a host that packets for all other addresses go to, and who knows other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The node of the host.
    pub node: String,
    /// Name servers.
    pub dns: Vec<Ipv4Addr>,
}

/// Connects the namespace of the host that is the way out with the world, when all hosts are there.
pub type Connect<'a> = &'a mut (dyn FnMut(BorrowedFd<'_>) -> io::Result<()> + Send);

/// How a live run kept time, and what it could not tell or pass.
#[derive(Clone, Debug, Serialize)]
pub struct LiveReport {
    /// Whether the run kept its budget and lost nothing that the scenario did not lose.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
    /// The 99th percentile of lateness that was allowed.
    pub budget_s: f64,
    /// By how much packets left later than planned: median.
    pub late_p50_s: Option<f64>,
    /// 99th percentile.
    pub late_p99_s: Option<f64>,
    /// 99.9th percentile.
    pub late_p999_s: Option<f64>,
    /// Largest.
    pub late_max_s: f64,
    /// Packets that left.
    pub packets: u64,
    /// Packets that the kernel dropped because they were not read from a TUN device in time.
    pub tun_dropped: u64,
    /// Packets that the kernel did not take.
    pub kernel_refused: u64,
    /// Packets whose bytes had to make room for newer ones.
    pub overrun: u64,
    /// Packets of hosts that did not enter, by why.
    pub refused: BTreeMap<&'static str, u64>,
    /// Packets that passed although nothing beyond their IP header was understood.
    pub opaque: u64,
    /// Packets of helpers that no real host understands.
    pub without_bytes: u64,
    /// Connections that proxies let through whole, because their SYN had options that these do not know, or data.
    pub untouched_by_splits: u64,
    /// Share of a core that the emulator took in its busiest second. Above 0.95 the kernel throttles real-time threads.
    pub busiest_second: f64,
    /// How the emulator was scheduled.
    pub scheduling: &'static str,
    /// The program with which the run ends, and its arguments; absent without one.
    pub program: Option<Vec<String>>,
    /// How the program ended; absent without one, or if it was cut off; negative: by that signal.
    pub program_status: Option<i32>,
    /// What ended the run.
    pub ended_by: Ending,
    /// Programs beside it that had no socket which others can reach when the program started.
    pub not_listening: Vec<String>,
    /// Addresses of the hosts.
    pub hosts: BTreeMap<String, Ipv4Addr>,
    /// What is behind each flow, in the order of the flows.
    pub connections: Vec<Told>,
    /// Captures that were written, and what they hold.
    pub captures: Vec<Captured>,
    /// Laws that steered the kernel's TCP, and what they did.
    pub steered: Vec<SessionReport>,
}

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// Its program, which ended by itself.
    Program,
    /// The scenario, whose time was over; a program that ran then was cut off.
    Scenario,
    /// A signal, such as that of Ctrl-C.
    Interrupted,
}

/// What a live run leaves behind.
#[derive(Debug)]
pub struct Emulated {
    /// What was measured, as of a simulation.
    pub summary: Summary,
    /// How it kept time.
    pub report: LiveReport,
    /// The plan that results are told by: its flows are the connections that there were.
    pub plan: Plan,
    /// What was recorded.
    pub recorded: Recorded,
}

/// What is behind a flow of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The flow in the other tables.
    pub flow: String,
    /// Its 5-tuple, the sender of the data first.
    pub tuple: String,
    /// Packets that its sender sent over the whole run.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Packets that came back over the whole run; absent if those had data and are a flow of their own.
    pub packets_back: Option<u64>,
    /// Their bytes.
    pub bytes_back: Option<u64>,
    /// Bytes of data that its sender sent over the whole run, retransmissions included.
    pub payload: u64,
    /// Whether it counts in Jain's index: what the kernel carries for the scenario does, and of programs the larger
    /// direction of each connection, if it had data under way for half of the time in which any had.
    pub in_jain_index: bool,
    /// Whether headers show what is sent again.
    #[serde(skip)]
    pub(crate) shows_repeats: bool,
}
