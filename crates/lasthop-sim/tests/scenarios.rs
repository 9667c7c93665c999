//! The ready scenarios: every one is valid, says what it shows, and means the same as JSON.

use std::path::{Path, PathBuf};

use lasthop_sim::scenario::{Format, Scenario};

fn ready() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

#[test]
fn every_ready_scenario_is_valid() {
    for path in ready() {
        let scenario = Scenario::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let place = ("json", path.parent().unwrap());
        let json = Scenario::parse_with(&scenario.to_json(), Format::Json, place, &[], &[]).unwrap();
        assert_eq!(format!("{:?}", scenario.plan()), format!("{:?}", json.plan()), "{}", path.display());
    }
}

/// Each opens with what it shows, and every suggestion in it is valid.
#[test]
fn every_suggestion_is_valid() {
    for path in ready() {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{} opens with a comment", path.display());
        assert!(text.contains("# Try next:"), "{} says what to try next", path.display());
        for line in text.lines().filter(|line| line.contains(" --set ")) {
            let setting = line.split_once(" --set ").unwrap().1;
            let setting = setting.split_once(" (").map_or(setting, |(setting, _)| setting);
            let (key, value) = setting.split_once('=').unwrap();
            let overrides = [(key.to_owned(), value.trim_matches('"').to_owned())];
            Scenario::load(&path, &overrides).unwrap_or_else(|error| panic!("{line}\n{error}"));
        }
    }
}
