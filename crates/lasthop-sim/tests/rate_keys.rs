//! Keys of rate-based senders: each changes what a run does, or is refused with the reason.

use lasthop_net::transport::rate::config::Protocol;
use lasthop_sim::scenario::{Format, Scenario};

use crate::testkit::{SUMMARY, Scene, run_text};

/// A link whose rate changes and falls below what a call takes, whose queue marks, and that loses, delays and reorders
/// packets, with an outage and losses of reports.
const ROUGH: &str = r#"
rate         = "600 kbit/s"
rate_changes = [{ at = "8 s", rate = "200 kbit/s" }, { at = "30 s", rate = "4 Mbit/s" }]
queue        = { kind = "red", ecn = true, min_th = "1 packets", max_th = "6 packets", w_q = 0.1 }
error        = { kind = "gilbert-elliott", packet_error_rate = 0.03, mean_burst = 3 }
handoff      = { at = ["12 s"], outage = "6 s" }
middleboxes  = [{ kind = "impair", jitter = "6 ms", reorder = true }]
reverse      = { error = { kind = "bernoulli", packet_error_rate = 0.05 } }
"#;

/// One that is too slow from the start, for what acts in the first second.
const SLOW: &str = r#"
rate  = "100 kbit/s"
queue = { kind = "drop-tail", limit = "20 packets" }
"#;

/// What a call does over both, or why it is refused.
fn outcome(transport: &str, seed: u64) -> Result<[String; 2], String> {
    let text = |link| {
        let call = format!(
            "transport = {transport}\ntraffic = {{ kind = \"video-call\", max_rate = \"4 Mbit/s\" }}"
        );
        Scene::lasting("50 s")
            .with("[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]")
            .link("a", "b", &format!("delay = \"25 ms\"\n{link}"))
            .between("a", "b", &call)
            .text()
            .to_owned()
    };
    let texts = [ROUGH, SLOW].map(text);
    Scenario::parse(&texts[0], Format::Toml, "keys.toml", &[]).map_err(|error| error.to_string())?;
    Ok(texts.map(|text| run_text(&text, seed, SUMMARY).summary.fingerprint))
}

#[test]
fn every_key_of_a_sender_acts_or_is_refused() {
    let beside = [
        "",
        ", ecn = true",
        ", nack = true",
        ", fec = \"row\"",
        ", fec = \"both\"",
        ", feedback_share = 0",
        ", profile = \"ns2\"",
    ];
    let mut idle = Vec::new();
    for name in Protocol::NAMES {
        for beside in beside {
            let usual = |seed| outcome(&format!("{{ rate = \"{name}\"{beside} }}"), seed);
            match usual(1) {
                Err(error) if beside.is_empty() => panic!("{error}"),
                Err(_) => continue,
                Ok(_) => {}
            }
            for param in Protocol::by_name(name).unwrap().params() {
                if beside.contains(param.name) {
                    continue;
                }
                let (least, most) = (param.min, param.max);
                let middle = param.default + 0.3 * (most.min(10.0 * param.default + 1.0) - param.default);
                let values: Vec<String> = if param.switch {
                    vec!["true".to_owned(), "false".to_owned()]
                } else if param.choices.is_empty() {
                    let others = [0.2 * param.default, middle, least, most].into_iter();
                    others.filter(|&value| value != param.default).map(|value| value.to_string()).collect()
                } else {
                    let other = |&(index, _): &(usize, _)| index as f64 != param.default;
                    let others = param.choices.iter().enumerate().filter(other);
                    others.map(|(_, choice)| format!("\"{choice}\"")).collect()
                };
                let changed = |value: &String, seed| {
                    outcome(&format!("{{ rate = \"{name}\"{beside}, {} = {value} }}", param.name), seed)
                };
                let accepted: Vec<_> = values.iter().filter(|value| changed(value, 1).is_ok()).collect();
                let acts = |seed| accepted.iter().any(|value| changed(value, seed) != usual(seed));
                if !accepted.is_empty() && !(1..=20).any(acts) {
                    idle.push(format!("{name}{beside}: {}", param.name));
                }
            }
        }
    }
    assert!(idle.is_empty(), "{idle:#?}");
}
