//! A scenario, and behind a line `---` the one file that it may name, `f`. What is accepted runs for a moment.
#![no_main]

use std::collections::BTreeMap;

use lasthop_core::time::Span;
use lasthop_net::trace::Recording;
use lasthop_sim::run::{self, Progress};
use lasthop_sim::scenario::{Files, Format, Scenario};
use libfuzzer_sys::fuzz_target;

/// A run that goes on is no fault.
const EVENTS: u64 = 20_000;
const WALL_TIME: Span = Span::from_secs(1);
/// What is accepted and has more of these costs time and shows nothing new.
const FLOWS: usize = 200;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, file) = text.split_once("\n---\n").unwrap_or((text, ""));
    let files = BTreeMap::from([("f".to_owned(), file.to_owned())]);
    let format = if text.starts_with('{') { Format::Json } else { Format::Toml };
    let read =
        |text: &str, format| Scenario::parse_with(text, format, ("fuzz", Files::Given(&files)), &[], &[]);
    match read(text, format) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(scenario) => {
            // What is accepted says the same in its other form.
            let again = read(&scenario.to_json(), Format::Json).expect("its own JSON is read again");
            assert_eq!(again.to_json(), scenario.to_json());
            let mut plan = scenario.into_plan();
            if plan.flows.len() > FLOWS {
                return;
            }
            plan.limits.events = plan.limits.events.min(EVENTS);
            plan.limits.wall_time = plan.limits.wall_time.min(WALL_TIME);
            let recording = Recording { series: true, trace: true, frames: false };
            drop(run::run(&plan, 1, recording, &Progress::default()));
        }
    }
});
