//! The command as a user types it.

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lasthop-stacks"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(words).output().unwrap()
}

#[test]
fn a_connection_runs_beside_the_flows_of_a_scenario() {
    let done = run(&["scenarios/single-flow.toml", "--stack", "quinn", "--congestion", "bbr"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{text}");
    let (table, notes) = text.split_at(text.find("datagrams of both ends: ").unwrap());
    let names: Vec<_> = table.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(names, ["flow", "quinn bbr 1", "flow (sack)"], "{text}");
    assert!(table.lines().skip(1).all(|line| line.contains("Mbit/s")), "{text}");
    assert_eq!(notes.lines().count(), 1, "{text}");
}

#[test]
fn a_transfer_says_when_it_ended() {
    let done = run(&["scenarios/single-flow.toml", "--bytes", "100000", "--connections", "2"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("connection 2: the last byte arrived after "), "{text}");
    // 100,000 bytes in datagrams of at most 1452 bytes, twice, and at least half as many ACKs.
    let sent = text.lines().find_map(|line| line.strip_prefix("datagrams of both ends: ")).unwrap();
    assert!((170..600).contains(&sent.parse::<u32>().unwrap()), "{text}");
}

/// The table of the judge stands below that of the run. quinn holds acknowledgements back for its window, so the exit
/// code is 1.
#[test]
fn a_judge_says_how_often_rules_were_checked() {
    let done = run(&["scenarios/single-flow.toml", "--judge", "--congestion", "newreno"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1), "{text}");
    let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(rows("lost is what the thresholds say"), 1, "{text}");
    assert_eq!(rows("datagrams that could not be read"), 0, "{text}");
    assert!(rows("connection 1: after ") > 0, "{text}");
    // The data takes the same way, and the server's recovery is judged.
    let download = run(&["scenarios/single-flow.toml", "--judge", "--congestion", "newreno", "--download"]);
    let text = String::from_utf8(download.stdout).unwrap();
    let goodput = text.lines().find_map(|line| line.strip_prefix("quinn newreno 1")).unwrap();
    let rate: f64 = goodput.split_whitespace().next().unwrap().parse().unwrap();
    assert!(rate > 1.0 && !goodput.contains(" - "), "{text}");
    let lost = text.lines().find_map(|line| line.strip_prefix("lost is what the thresholds say")).unwrap();
    let checked: u64 = lost.split_whitespace().nth(4).unwrap().parse().unwrap();
    assert!(checked > 0, "{text}");
    let transfer = run(&[
        "scenarios/single-flow.toml",
        "--judge",
        "--early-data",
        "--bytes",
        "1000",
        "--connections",
        "2",
    ]);
    let text = String::from_utf8(transfer.stdout).unwrap();
    assert_eq!(text.matches("acknowledged within 25 ms").count(), 1, "{text}");
}

/// Place and remedy, and exit code 2.
#[test]
fn mistakes_are_answered() {
    let scenario = "scenarios/single-flow.toml";
    let cases: [(&[&str], &str); 10] = [
        (&[], "name a scenario, such as scenarios/single-flow.toml: see --help"),
        (&["none.toml"], "none.toml"),
        (&[scenario, "--stack", "quin"], "--stack quin is not known: choose one of quinn"),
        (
            &[scenario, "--congestion", "vegas"],
            "--congestion: vegas is not known: choose one of cubic, newreno, bbr, or lasthop:",
        ),
        (&[scenario, "--connections", "0"], "--connections \"0\" is not a whole number from 1 to 10000"),
        (&[scenario, "--seed"], "--seed needs a value: see --help"),
        (&[scenario, "--sed", "1"], "there is no option --sed: see --help"),
        (&[scenario, "--to", "moon"], "the scenario has no node \"moon\""),
        (
            &[scenario, "--from", "n0", "--to", "n0"],
            "--from and --to are both n0: a connection has its ends at two nodes",
        ),
        (&[scenario, scenario], "is a second scenario: name one"),
    ];
    for (words, message) in cases {
        let done = run(words);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(message), "{words:?}: {said}");
        assert!(done.stdout.is_empty(), "{words:?}");
    }
}
