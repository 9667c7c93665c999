//! Times one run of a scenario, or every controller alone, and prints what it cost as JSON. `bench/run.py` calls it;
//! `make bench` calls that.
//!
//! Usage: `lasthop-bench FILE [--seed N] [--set KEY=VALUE]...`, or `lasthop-bench --controllers`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod controllers;

use std::process::ExitCode;

use cpu_time::ProcessTime;
use lasthop_net::trace::Recording;
use lasthop_sim::run::{Progress, run};
use lasthop_sim::scenario::Scenario;

/// Largest resident set of this process in KiB, where the system tells.
fn max_rss_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

fn bench(file: &str, seed: Option<u64>, overrides: &[(String, String)]) -> Result<serde_json::Value, String> {
    let scenario = Scenario::load(file, overrides).map_err(|error| error.to_string())?;
    let seed = seed.unwrap_or(scenario.plan().seed);
    let scenario = scenario.seeded(seed).map_err(|error| error.to_string())?;
    let plan = scenario.plan();
    let parsed = ProcessTime::now();
    let run =
        run(plan, seed, Recording::default(), &Progress::default()).map_err(|error| error.to_string())?;
    let run_cpu = parsed.elapsed();
    let summary = run.summary;
    Ok(serde_json::json!({
        "packet_hops": summary.packet_hops,
        "events": summary.events,
        "wall_s": summary.wall_s,
        "setup_s": summary.set_up_s,
        "run_cpu_s": run_cpu.as_secs_f64(),
        "cpu_s": ProcessTime::now().as_duration().as_secs_f64(),
        "max_rss_kib": max_rss_kib(),
        "fingerprint": summary.fingerprint,
        "goodput_bit_s": summary.totals.goodput_bit_s,
    }))
}

/// What the command line asks for; `None` if it is not understood.
fn answer(arguments: &[String]) -> Option<Result<serde_json::Value, String>> {
    let (file, mut options) = arguments.split_first()?;
    if file == "--controllers" {
        return options.is_empty().then(|| Ok(controllers::times()));
    }
    let (mut seed, mut overrides) = (None, Vec::new());
    while let [option, value, rest @ ..] = options {
        match option.as_str() {
            "--seed" => seed = Some(value.parse().ok()?),
            "--set" => {
                let (key, value) = value.split_once('=')?;
                overrides.push((key.to_owned(), value.to_owned()));
            }
            _ => return None,
        }
        options = rest;
    }
    options.is_empty().then(|| bench(file, seed, &overrides))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match answer(&arguments) {
        Some(Ok(result)) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Some(Err(error)) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        None => {
            eprintln!("usage: lasthop-bench FILE [--seed N] [--set KEY=VALUE]... | --controllers");
            ExitCode::from(2)
        }
    }
}
