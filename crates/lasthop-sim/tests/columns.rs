//! The declaration of what is measured beside what runs really say: every column is found in the JSON object where it
//! is said to be, with the same value, and nothing is in the object that no column declares.

use std::collections::BTreeSet;

use lasthop_core::packet::Cause;
use lasthop_net::trace::Recording;
use lasthop_sim::columns::{self, Column, Kind, Over, Value};
use lasthop_sim::run::{Progress, Run, run};
use lasthop_sim::scenario::{Format, Scenario};
use serde_json::Value as Json;

/// Every optional structure is there: real-time metrics, link-layer retransmission, losses told apart, a history.
const SCENARIO: &str = r#"
    name = "everything"
    duration = "20 s"
    [history]
    clock = "2024-03-04T09:30"
    [topology]
    kind = "dumbbell"
    bottleneck = { rate = "2 Mbit/s", delay = "20 ms", queue = { kind = "drop-tail", limit = "10 packets" } }
    access = { rate = "4 Mbit/s", delay = "5 ms" }
    [channel]
    error = { kind = "bernoulli", packet_error_rate = 0.05 }
    arq = { attempts = 3 }
    [[flows]]
    name = "film"
    transport = "reno"
    traffic = { kind = "mpeg4", rate = "400 kbit/s" }
    [[flows]]
    name = "call"
    transport = "udp"
    traffic = { kind = "mpeg4", rate = "300 kbit/s" }
    [[flows]]
    name = "file"
    transport = "veno"
"#;

fn a_run() -> Run {
    let scenario =
        Scenario::parse(SCENARIO, Format::Toml, "everything", &[]).unwrap_or_else(|e| panic!("{e}"));
    run(scenario.plan(), 1, Recording::default(), &Progress::default()).unwrap()
}

fn found<'a>(row: &'a Json, path: &[String]) -> &'a Json {
    path.iter().fold(row, |at, key| at.get(key).unwrap_or(&Json::Null))
}

fn agrees(column: &Column, value: &Value, json: &Json) -> bool {
    match value {
        Value::Nothing | Value::Several(_) => json.is_null(),
        // A sum over causes.
        Value::Whole(whole) if json.is_object() => {
            json.as_object().unwrap().values().filter_map(Json::as_u64).sum::<u64>() == *whole
        }
        Value::Whole(whole) => json.as_u64() == Some(*whole) && column.kind != Kind::Number,
        Value::Number(number) => json.as_f64() == Some(*number) && column.kind == Kind::Number,
        Value::Text(text) if json.is_object() => serde_json::to_string(json).unwrap().len() == text.len(),
        Value::Text(text) => json.as_str() == Some(text),
        Value::Flag(flag) => json.as_bool() == Some(*flag),
    }
}

/// Paths of all numbers and texts in a row, those of rows of other tables left out.
fn leaves(json: &Json, path: &str, out: &mut BTreeSet<String>) {
    match json {
        Json::Object(inner) => {
            inner.iter().for_each(|(key, value)| leaves(value, &format!("{path}/{key}"), out));
        }
        Json::Array(_) => {}
        _ => {
            out.insert(path.to_owned());
        }
    }
}

fn check(declared: &[Column], values: &[Value], row: &Json) {
    assert_eq!(declared.len(), values.len());
    for (column, value) in declared.iter().zip(values) {
        let json = found(row, &column.path);
        assert!(agrees(column, value, json), "{}.{}: {value:?} is not {json}", column.table, column.name);
        if let Value::Several(known) = value {
            let inside = found(row, &column.path[..column.path.len() - 1]);
            for (x, share) in known {
                let said = &inside[column.name.replace("<x>", x)];
                assert_eq!(said.as_f64(), *share, "{} at {x}", column.name);
            }
        }
    }
    let mut paths = BTreeSet::new();
    leaves(row, "", &mut paths);
    for path in paths {
        let known = |column: &Column| {
            let declared = format!("/{}", column.path.join("/"));
            path == declared
                || column.group.as_ref().is_some_and(|group| path == format!("/{group}"))
                || path.starts_with(&format!("{declared}/"))
                || declared
                    .split_once("<x>")
                    .is_some_and(|(head, tail)| path.starts_with(head) && path.ends_with(tail))
        };
        assert!(declared.iter().any(known), "no column declares {path}");
    }
}

#[test]
fn every_column_is_where_it_is_said_to_be_and_nothing_else_is_there() {
    let run = a_run();
    let json = serde_json::to_value(&run.summary).unwrap();
    check(&columns::RUNS, &columns::values_of(&run.summary), &json);
    for (row, summary) in json["flows"].as_array().unwrap().iter().zip(&run.summary.flows) {
        check(&columns::FLOWS, &columns::values_of(summary), row);
    }
    for (row, summary) in json["links"].as_array().unwrap().iter().zip(&run.summary.links) {
        check(&columns::LINKS, &columns::values_of(summary), row);
    }
    let repaired = |link: &Json| link["arq"]["retransmissions"].as_u64() > Some(0);
    assert!(json["links"].as_array().unwrap().iter().any(repaired), "a link repairs losses");
    assert!(!json["flows"][2]["loss_verdicts"].is_null(), "Veno tells losses apart");
    assert!(!json["flows"][0]["realtime"].is_null(), "the film is measured as video");
}

#[test]
fn names_are_unique_and_every_number_of_flows_and_links_can_be_named() {
    let all = columns::all();
    for table in [
        "runs",
        "totals",
        "flows",
        "links",
        "history",
        "flow_series",
        "link_series",
        "radio_series",
        "helper_series",
        "hops",
        "windows",
        "frames",
    ] {
        let names: Vec<&str> =
            all.iter().filter(|one| one.table == table).map(|one| one.name.as_str()).collect();
        assert!(!names.is_empty(), "{table}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{table}: {names:?}");
    }
    for column in &all {
        assert!(!column.help.is_empty() && !column.label.is_empty(), "{}.{}", column.table, column.name);
        assert!(
            !column.help.contains('\n') && !column.label.contains('{'),
            "{}: {}",
            column.name,
            column.label
        );
        let number = matches!(column.kind, Kind::Count | Kind::Number);
        if matches!(column.table, "flows" | "links") {
            assert_eq!(column.over != Over::Nothing, number, "{}.{}", column.table, column.name);
        }
        assert!(column.more.contains("{}") && column.less.contains("{}"), "{}", column.name);
    }
}

#[test]
fn names_end_in_their_units() {
    for column in columns::all().iter().filter(|one| one.unit.len() == 1 || one.unit == "bit/s") {
        let ending = format!("_{}", column.unit.replace('/', "_"));
        assert!(column.unit == "%" || column.name.ends_with(&ending), "{}: {}", column.name, column.unit);
    }
}

#[test]
fn each_cause_of_loss_has_its_column() {
    for cause in Cause::NAMES {
        let name = format!("lost_{}_packets", cause.replace('-', "_"));
        for declared in [&*columns::RUNS, &*columns::FLOWS] {
            let column = declared.iter().find(|column| column.name == name).unwrap();
            assert_eq!(
                (column.pattern.as_str(), column.path.last().unwrap().as_str()),
                ("lost_<cause>_packets", cause)
            );
        }
    }
}

/// Totals that bear the name of a column of flows are what the declaration says of it.
#[test]
fn totals_are_formed_as_declared() {
    let run = a_run();
    let totals = columns::values_of(&run.summary.totals);
    let declared = columns::columns_of::<lasthop_sim::summary::Totals>("totals");
    let rows: Vec<Vec<Value>> = run.summary.flows.iter().map(columns::values_of).collect();
    let number = |value: &Value| match value {
        Value::Whole(whole) => Some(*whole as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    };
    let mut compared = Vec::new();
    for (column, total) in declared.iter().zip(&totals) {
        // The ledger is of the whole run and of both directions.
        if column.name.starts_with("packets_") || column.name.starts_with("lost_") {
            continue;
        }
        let Some(place) = columns::FLOWS.iter().position(|flow| flow.name == column.name) else { continue };
        let values: Vec<f64> = rows.iter().filter_map(|row| number(&row[place])).collect();
        let sum: f64 = values.iter().sum();
        let expected = match columns::FLOWS[place].over {
            Over::Sum => sum,
            Over::Mean => sum / values.len() as f64,
            other => panic!("{}: {other:?}", column.name),
        };
        assert!((number(total).unwrap() - expected).abs() <= 1e-9 * expected.abs(), "{}", column.name);
        compared.push(column.name.as_str());
    }
    assert_eq!(
        compared,
        [
            "goodput_bit_s",
            "throughput_bit_s",
            "retransmitted_packets",
            "timeouts",
            "realtime_index",
            "delayed_rate",
            "loss_over_sent",
            "stall_share"
        ],
    );
}
