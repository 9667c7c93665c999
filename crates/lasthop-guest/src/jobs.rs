//! What the kernel of the machine is asked: scripts of one end of a connection, and emulations of a scenario.
//!
//! Jobs and answers are JSON; `python/lasthop/guest.py` writes the ones and reads the others.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use lasthop_core::time::{Span, Time};
use lasthop_live::{Arrival, CaptureOrder, Departures, Order, SOURCES, emulate, run_discipline, run_script};
use lasthop_net::trace::{FlowInterval, Frames, Recording};
use lasthop_sim::run::Progress;
use lasthop_sim::scenario::{Files, Format, Scenario};
use lasthop_sim::script::{Outcome, Script};
use serde::Deserialize;
use serde_json::{Value, json};

/// A job.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    /// A script of one end of a connection.
    Script {
        /// What it is called in messages.
        name: String,
        text: String,
    },
    /// A scenario whose flows sockets of the kernel carry.
    Emulation {
        /// As JSON.
        scenario: String,
        /// The files that it names.
        files: BTreeMap<String, String>,
        /// The congestion control; without one each flow has its own.
        kernel: Option<String>,
        seed: u64,
        budget_s: f64,
        /// Whether the answer has the windows of the flows over time.
        windows: bool,
        /// Whether it has a capture at the senders (pcapng in hexadecimal digits).
        capture: bool,
    },
    /// A queue discipline, and packets that come at given times.
    Discipline {
        /// Arguments of `tc` that set it up; `DEVICE` stands for its device.
        commands: Vec<Vec<String>>,
        /// Time in ns, flow, DSCP and bytes of each packet.
        packets: Vec<(u64, u16, u8, u16)>,
        /// When it ends, in ns.
        until: u64,
    },
}

/// Reads jobs.
pub(crate) fn read(text: &[u8]) -> io::Result<Vec<Job>> {
    serde_json::from_slice(text).map_err(io::Error::from)
}

/// Does a job; the answer says what came of it, or what was wrong with it.
pub(crate) fn done(job: &Job) -> Value {
    let answer = match job {
        Job::Script { name, text } => script(name, text),
        Job::Emulation { scenario, files, kernel, seed, budget_s, windows, capture } => {
            emulation(scenario, files, (kernel.as_deref(), *seed, *budget_s), (*windows, *capture))
        }
        Job::Discipline { commands, packets, until } => discipline(commands, packets, Time(*until)),
    };
    answer.unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

fn script(name: &str, text: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let script = Script::read(text, name)?;
    let mut told = json!({});
    Outcome::tell(run_script(&script)?.as_ref(), &mut told);
    Ok(told)
}

fn emulation(
    scenario: &str,
    files: &BTreeMap<String, String>,
    (kernel, seed, budget_s): (Option<&str>, u64, f64),
    (windows, capture): (bool, bool),
) -> Result<Value, Box<dyn std::error::Error>> {
    let scenario = Scenario::parse_with(scenario, Format::Json, ("scenario", Files::Given(files)), &[], &[])?;
    let scenario = scenario.seeded(seed)?;
    let order = Order {
        seed,
        main: None,
        others: Vec::new(),
        kernel: kernel.map(str::to_owned),
        budget: Span::from_seconds(budget_s),
        mark: "guest".to_owned(),
        recording: Recording { series: windows, trace: false, frames: Frames::None },
        captures: if capture { vec![at_senders()] } else { Vec::new() },
        nested: None,
        outside: None,
    };
    let done = emulate(scenario.plan(), &order, &mut |_| Ok(()), &Progress::default())?;
    let row = |row: &FlowInterval| {
        let sample = &row.sample;
        json!([sample.flow, sample.time.seconds(), sample.cwnd, sample.ssthresh, sample.srtt.seconds()])
    };
    let rows: Vec<Value> = done.recorded.flows.iter().map(row).collect();
    let mut told = done.to_json()?;
    told["windows"] = json!(rows);
    if capture {
        let digits = fs::read(CAPTURE)?.into_iter().map(|byte| format!("{byte:02x}"));
        told["capture"] = json!(digits.collect::<String>());
    }
    Ok(told)
}

fn discipline(
    commands: &[Vec<String>],
    packets: &[(u64, u16, u8, u16)],
    until: Time,
) -> Result<Value, Box<dyn std::error::Error>> {
    let arrivals: Vec<Arrival> = (packets.iter())
        .map(|&(time, flow, dscp, bytes)| Arrival { time: Time(time), flow, dscp, bytes })
        .collect();
    let Departures { left, late_ns, said } = run_discipline(commands, &arrivals, until)?;
    let left: Vec<(u32, u64)> = left.into_iter().map(|(number, time)| (number, time.0)).collect();
    Ok(json!({ "left": left, "late_ns": late_ns, "said": said }))
}

/// Where a capture is kept until it is told.
const CAPTURE: &str = "/capture.pcapng";

/// The headers of what the senders of all connections send and receive.
fn at_senders() -> CaptureOrder {
    CaptureOrder { place: SOURCES.to_owned(), file: CAPTURE.into(), comments: Vec::new(), snaplen: 96 }
}
