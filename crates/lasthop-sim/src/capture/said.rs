//! What a capture says of its path, in words: the figures with their intervals, a scenario of them, and how another
//! capture differs. The command and the page say it with these texts.

use serde::Serialize;
use serde_json::Value;

use crate::shown::{multiple, number};

/// Connections that the scenario has at most.
pub const FLOWS_SHOWN: usize = 20;
/// A run of the scenario is no longer than this, in seconds.
const LONGEST_RUN_S: f64 = 600.0;
/// A mean number of losses in a row above this is a sign of bursts.
const BURSTS: f64 = 1.5;
/// Losses in a row that must be seen before bursts are believed.
const RUNS_MIN: f64 = 10.0;
/// Figures that are nearer to each other than this share are the same.
const ALIKE: f64 = 0.01;
const UNSEEN: &str = "not to be seen in these packets";

/// A figure of the path: its name, its value, and how sure it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// With its unit.
    pub value: String,
    /// Its interval, or why there is none.
    pub surely: String,
}

/// A figure of one capture beside that of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// What it is.
    pub name: &'static str,
    /// Of the first, with its unit.
    pub first: String,
    /// Of the second.
    pub second: String,
    /// The difference in words; empty if one of them is not known.
    pub said: String,
    /// How far apart they are, as a share of the larger; 0 if they are alike.
    pub apart: f64,
}

/// A scenario of a path, and the connections that its flows are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// TOML, with comments that say how sure each figure is.
    pub text: String,
    /// The numbers of the connections, flow by flow.
    pub flows: Vec<usize>,
    /// The node at whose side the capture was taken, if it was seen.
    pub node: Option<&'static str>,
    /// What is missing of a capture of one direction; empty otherwise.
    pub lacks: String,
}

fn f64_at(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(0.0)
}

fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn quantity(value: f64, unit: &str) -> String {
    let (factor, name) = multiple(value.abs(), unit);
    format!("{} {name}", number(value / factor)).trim_end().to_owned()
}

/// A number with this many significant digits and no more zeros than it needs.
fn digits(value: f64, significant: usize) -> String {
    let rounded = format!("{value:.*e}", significant - 1).parse::<f64>();
    rounded.map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// A count with commas at thousands.
fn whole(value: u64) -> String {
    let digits = value.to_string();
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..].chunks(3);
    let rest = groups.map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (first > 0).then(|| digits[..first].to_owned());
    head.into_iter().chain(rest).collect::<Vec<_>>().join(",")
}

fn packets(count: u64) -> String {
    format!("{} packet{}", whole(count), if count == 1 { "" } else { "s" })
}

/// The value and the interval of a figure.
fn figure(figure: &Value, unit: &str) -> (String, String) {
    if figure.is_null() {
        return ("-".to_owned(), UNSEEN.to_owned());
    }
    let low = quantity(f64_at(figure, "low"), unit);
    let surely = match figure["high"].as_f64() {
        None => format!("at least {low}"),
        Some(high) => format!("between {low} and {}", quantity(high, unit)),
    };
    (quantity(f64_at(figure, "value"), unit), surely)
}

/// The figures of the path that `found` has, as `estimate` returns it.
pub fn figures(found: &Value) -> Vec<Row> {
    let path = &found["path"];
    let row = |name, (value, surely): (String, String)| Row { name, value, surely };
    let mut rows = vec![
        row("rate", figure(&path["rate_bit_s"], "bit/s")),
        row("RTT without queues", figure(&path["base_rtt_s"], "s")),
    ];
    let loaded = &path["loaded_rtt_s"];
    if !loaded.is_null() {
        let of = |name: &str, key: &str| format!("{name} {}", quantity(f64_at(loaded, key), "s"));
        let text = [of("median", "p50"), of("p95", "p95"), of("most", "max")].join(", ");
        rows.push(row("RTT under load", (text, "as measured".to_owned())));
    }
    rows.push(row("queue", figure(&path["queue_bytes"], "B")));
    rows.push(row("loss by chance", figure(&path["loss"], "share")));
    if !path["loss"].is_null() {
        let text =
            format!("{} of {} packets", whole(count(path, "lost")), whole(count(path, "data_packets")));
        let text = [text].into_iter().chain(losses(path)).collect::<Vec<_>>().join(", ");
        let (runs, longest) = (whole(count(path, "loss_runs")), whole(count(path, "longest_run")));
        rows.push(row("lost", (text, format!("else {runs} times, at most {longest} in a row"))));
    }
    if let Some((length, surely)) = outage(path) {
        let text = format!("{}, about {} long", whole(outages(path).len() as u64), quantity(length, "s"));
        rows.push(row("outages", (text, surely)));
    }
    if count(path, "reordered") > 0 {
        rows.push(row("reordered", (packets(count(path, "reordered")), String::new())));
    }
    if count(path, "repeated_in_vain") > 0 {
        let perhaps = count(path, "of_these_perhaps");
        let surely = if perhaps > 0 {
            format!("{} of them as far as one can tell", whole(perhaps))
        } else {
            String::new()
        };
        rows.push(row("repeated in vain", (packets(count(path, "repeated_in_vain")), surely)));
    }
    rows
}

/// Which of the losses met what, as far as one can tell: those by chance meet a long queue too.
fn losses(path: &Value) -> impl Iterator<Item = String> {
    let full = if path["mostly_at_full_queue"] == Value::Bool(true) {
        "of them at a full queue"
    } else {
        "of them while the queue was long"
    };
    let is_down = !outages(path).is_empty();
    let parts = [
        (full, count(path, "lost_at_full_queue")),
        ("of them at a queue that is not seen", count(path, "lost_at_unknown_queue")),
        ("in outages", if is_down { count(path, "lost_in_outages") } else { 0 }),
    ];
    parts.into_iter().filter(|part| part.1 > 0).map(|(what, number)| format!("{} {what}", whole(number)))
}

/// The times in which the path was down, as `estimate` has them.
fn outages(path: &Value) -> &[Value] {
    path["outages"].as_array().map_or(&[], Vec::as_slice)
}

/// How long an outage lasted, in seconds: the median of the middles of their intervals; and in words what is sure.
fn outage(path: &Value) -> Option<(f64, String)> {
    let found = outages(path);
    let mut middles: Vec<f64> =
        found.iter().map(|one| f64::midpoint(f64_at(one, "low_s"), f64_at(one, "high_s"))).collect();
    middles.sort_by(f64::total_cmp);
    let (&lower, &upper) = (middles.get(middles.len().checked_sub(1)? / 2)?, middles.get(middles.len() / 2)?);
    let low = found.iter().map(|one| f64_at(one, "low_s")).fold(f64::INFINITY, f64::min);
    let high = found.iter().map(|one| f64_at(one, "high_s")).fold(0.0, f64::max);
    let surely = format!("each between {} and {}", quantity(low, "s"), quantity(high, "s"));
    Some((f64::midpoint(lower, upper), surely))
}

/// Connections with most payload first: their numbers.
fn by_payload(found: &Value) -> Vec<(usize, &Value)> {
    let mut flows: Vec<(usize, &Value)> =
        found["flows"].as_array().into_iter().flatten().enumerate().collect();
    let payload =
        |one: &Value| one["payload"][0].as_u64().unwrap_or(0) + one["payload"][1].as_u64().unwrap_or(0);
    flows.sort_by_key(|(_, one)| std::cmp::Reverse(payload(one)));
    flows
}

/// The path and its connections as a scenario; `name` is that of the capture.
pub fn scenario(found: &Value, name: &str) -> Written {
    let length = digits(f64_at(found, "length_s").clamp(1.0, LONGEST_RUN_S), 6);
    // A line is a comment, whatever the name of the file holds.
    let name = name.replace(char::is_control, "?");
    let mut lines = vec![
        format!("# A first estimate of the path in the capture {name}, by lasthop from-capture."),
        "# Each figure has its interval behind it. What a capture cannot show is named; check it.".to_owned(),
        format!("duration = \"{length} s\""),
        String::new(),
        "[topology]".to_owned(),
        "kind = \"graph\"".to_owned(),
        "nodes = [\"server\", \"client\"]".to_owned(),
        String::new(),
        "[[topology.links]]".to_owned(),
        "from = \"server\"".to_owned(),
        "to = \"client\"".to_owned(),
    ];
    lines.extend(link(&found["path"]));
    lines.push(String::new());
    let mut flows = Vec::new();
    for (place, one) in by_payload(found).into_iter().take(FLOWS_SHOWN) {
        if let Some(flow) = traffic(found, one) {
            lines.extend(flow);
            lines.push(String::new());
            flows.push(place);
        }
    }
    let node = match found["path"]["captured_near"].as_str() {
        Some("receiver") => Some("client"),
        Some("sender") => Some("server"),
        _ => None,
    };
    Written { text: lines.join("\n") + "\n", flows, node, lacks: lacks(found) }
}

/// What is missing of a capture of one direction of TCP, if it is one.
fn lacks(found: &Value) -> String {
    let (from, to) = (&found["from"], &found["to"]);
    let ends =
        |one: &Value| (&one["from"], &one["to"]) == (from, to) || (&one["from"], &one["to"]) == (to, from);
    let of_path = found["flows"].as_array().into_iter().flatten();
    let of_path: Vec<&Value> = of_path.filter(|one| one["transport"] == "tcp" && ends(one)).collect();
    let total =
        |key: &str, way: usize| of_path.iter().map(|one| one[key][way].as_u64().unwrap_or(0)).sum::<u64>();
    if of_path.is_empty() || (total("packets", 0) > 0 && total("packets", 1) > 0) {
        return String::new();
    }
    let has_data = total("payload", 0) + total("payload", 1) > 0;
    let what = if has_data { "no acknowledgements are" } else { "no data are" };
    format!("{what} in the capture: take one where both directions pass")
}

fn link(path: &Value) -> Vec<String> {
    let (rate, base, queue) = (&path["rate_bit_s"], &path["base_rtt_s"], &path["queue_bytes"]);
    let mut lines = Vec::new();
    lines.push(if rate.is_null() {
        "rate = \"10 Mbit/s\"  # NOT MEASURED: too few packets came in a row".to_owned()
    } else {
        format!("rate = \"{} Mbit/s\"  # {}", digits(f64_at(rate, "value") / 1e6, 4), figure(rate, "bit/s").1)
    });
    lines.push(if base.is_null() {
        "delay = \"20 ms\"  # NOT MEASURED: no round trip is in the capture".to_owned()
    } else {
        let half = digits(f64_at(base, "value") / 2.0 * 1e3, 4);
        let (rtt, surely) = figure(base, "s");
        format!(
            "delay = \"{half} ms\"  # half of an RTT of {rtt} without queues, {surely}; how it divides between both \
             ways is not seen"
        )
    });
    lines.push(if queue.is_null() {
        "# The queue was never seen to fill: its length is the default.".to_owned()
    } else {
        let packet = f64_at(path, "packet_bytes").max(1.0);
        let limit = (f64_at(queue, "value") / packet).round().max(1.0);
        let surely = figure(queue, "B").1;
        format!(
            "queue = {{ kind = \"drop-tail\", limit = \"{limit} packets\" }}  # {surely}, in packets of {packet} B"
        )
    });
    lines.push(error(path));
    lines.extend(handoff(path));
    lines
}

/// The outages as those of a scenario, which have one length and do not touch.
fn handoff(path: &Value) -> Option<String> {
    let (length, surely) = outage(path)?;
    let begins: Vec<f64> = outages(path).iter().map(|one| f64_at(one, "at_s")).collect();
    let length = begins.windows(2).map(|pair| 0.9 * (pair[1] - pair[0])).fold(length, f64::min);
    let times: Vec<String> = begins.iter().map(|at| format!("\"{} s\"", digits(*at, 6))).collect();
    let (times, length) = (times.join(", "), digits(length * 1e3, 4));
    Some(format!("handoff = {{ at = [{times}], outage = \"{length} ms\" }}  # {surely}"))
}

fn error(path: &Value) -> String {
    let loss = &path["loss"];
    if loss.is_null() {
        return "# Losses cannot be seen in these packets.".to_owned();
    }
    let share = f64_at(loss, "value");
    if share == 0.0 {
        let most = digits(f64_at(loss, "high"), 3);
        return format!("# No loss is by chance for certain; their share is at most {most}.");
    }
    let (lost, runs) = (f64_at(path, "lost"), f64_at(path, "loss_runs"));
    let by_chance = lost - f64_at(path, "lost_at_full_queue") - f64_at(path, "lost_in_outages");
    let mean_run = by_chance / runs.max(1.0);
    let surely = figure(loss, "share").1;
    let said = format!("{surely}; {lost} of {} packets were lost", count(path, "data_packets"));
    let share = digits(share, 4);
    if mean_run > BURSTS && runs >= RUNS_MIN {
        let burst = digits(mean_run, 3);
        return format!(
            "error = {{ kind = \"gilbert-elliott\", packet_error_rate = {share}, mean_burst = {burst} }}  # {said}"
        );
    }
    format!("error = {{ kind = \"bernoulli\", packet_error_rate = {share} }}  # {said}")
}

/// A connection as a flow, if it is one of the two hosts and carries something.
fn traffic(found: &Value, one: &Value) -> Option<[String; 6]> {
    let is_forward = one["data_forward"] == Value::Bool(true);
    let way = usize::from(!is_forward);
    let payload = one["payload"][way].as_u64().unwrap_or(0);
    let (sender, receiver) = if is_forward { (&one["from"], &one["to"]) } else { (&one["to"], &one["from"]) };
    let (from, to) = (&found["from"], &found["to"]);
    let ends = match (sender, receiver) {
        _ if payload == 0 => return None,
        (sender, receiver) if (sender, receiver) == (from, to) => ("server", "client"),
        (sender, receiver) if (sender, receiver) == (to, from) => ("client", "server"),
        _ => return None,
    };
    let (transport, sent) = if one["transport"] == "tcp" {
        (
            "transport = \"cubic\"  # which law it was is not seen".to_owned(),
            format!("traffic = {{ kind = \"ftp\", bytes = \"{payload} B\" }}"),
        )
    } else {
        let rate = digits(payload as f64 * 8.0 / f64_at(one, "length_s").max(1e-3), 6);
        let packets = one["packets"][way].as_f64().unwrap_or(1.0).max(1.0);
        let size = (payload as f64 / packets).round().max(1.0);
        (
            "transport = \"udp\"".to_owned(),
            format!(
                "traffic = {{ kind = \"cbr\", rate = \"{rate} bit/s\", packet = \"{size} B\" }}  # means; the times \
                 between packets are not kept"
            ),
        )
    };
    Some([
        "[[flows]]".to_owned(),
        format!("source = \"{}\"", ends.0),
        format!("sink = \"{}\"", ends.1),
        format!("start = \"{} s\"", digits(f64_at(one, "start_s"), 6)),
        transport,
        sent,
    ])
}

/// What is laid beside each other: name, unit, value; words for more and less.
type Measure = (&'static str, &'static str, Option<f64>, [&'static str; 2]);

fn measures(found: &Value) -> Vec<Measure> {
    const SIZE: [&str; 2] = ["more", "less"];
    const TIME: [&str; 2] = ["longer", "shorter"];
    let path = &found["path"];
    let value = |of: &Value| of["value"].as_f64();
    let length = found["length_s"].as_f64().filter(|length| *length > 0.0);
    let payload: u64 = found["flows"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let to = |key: &str, way: usize| {
                if one[key] == found["to"] { one["payload"][way].as_u64().unwrap_or(0) } else { 0 }
            };
            to("to", 0) + to("from", 1)
        })
        .sum();
    let share = |key: &str| {
        let data = f64_at(path, "data_packets");
        (!path["loss"].is_null() && data > 0.0).then(|| f64_at(path, key) / data)
    };
    vec![
        ("time from the first packet to the last", "s", length, TIME),
        ("payload per second", "bit/s", length.map(|length| payload as f64 * 8.0 / length), SIZE),
        ("rate", "bit/s", value(&path["rate_bit_s"]), SIZE),
        ("RTT without queues", "s", value(&path["base_rtt_s"]), TIME),
        ("median RTT", "s", path["loaded_rtt_s"]["p50"].as_f64(), TIME),
        ("95 % of RTTs below", "s", path["loaded_rtt_s"]["p95"].as_f64(), TIME),
        ("queue", "B", value(&path["queue_bytes"]), SIZE),
        ("packets lost", "share", share("lost"), SIZE),
        ("packets lost in outages", "share", share("lost_in_outages"), SIZE),
        ("packets repeated in vain", "share", share("repeated_in_vain"), SIZE),
        ("packets reordered", "share", share("reordered"), SIZE),
    ]
}

/// The figures of two captures beside each other, and in words how the second differs. What neither of them has is
/// left out.
pub fn beside(first: &Value, second: &Value) -> Vec<Beside> {
    let pairs = measures(first).into_iter().zip(measures(second));
    pairs
        .filter(|((_, _, first, _), (_, _, second, _))| {
            [first, second].iter().any(|of| of.is_some_and(|value| value != 0.0))
        })
        .map(|((name, unit, first, words), (_, _, second, _))| {
            let shown = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), |value| quantity(value, unit));
            let (said, apart) =
                first.zip(second).map_or_else(Default::default, |pair| difference(pair, words));
            Beside { name, first: shown(first), second: shown(second), said, apart }
        })
        .collect()
}

/// In words, and as a share of the larger.
fn difference((first, second): (f64, f64), [more, less]: [&str; 2]) -> (String, f64) {
    let apart = (second - first).abs() / first.abs().max(second.abs());
    let word = if second > first { more } else { less };
    if apart < ALIKE {
        return ("alike".to_owned(), 0.0);
    }
    if first == 0.0 || second == 0.0 {
        return (if second == 0.0 { "none" } else { "only here" }.to_owned(), 1.0);
    }
    let ratio = second / first;
    if ratio >= 2.0 {
        return (
            format!("{} times as {}", number(ratio), if word == "longer" { "long" } else { "much" }),
            apart,
        );
    }
    (format!("{} % {word}", number((ratio - 1.0).abs() * 100.0)), apart)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found() -> Value {
        let figure = |value: f64| json!({ "value": value, "low": value * 0.9, "high": value * 1.1 });
        json!({
            "length_s": 10.0,
            "from": "10.0.0.1",
            "to": "10.0.0.2",
            "flows": [
                { "from": "10.0.0.2", "to": "10.0.0.1", "transport": "tcp", "start_s": 0.5, "length_s": 9.0,
                  "packets": [3, 9], "payload": [0, 5_000_000], "data_forward": false },
                { "from": "10.0.0.1", "to": "10.0.0.9", "transport": "udp", "start_s": 0.0, "length_s": 1.0,
                  "packets": [3, 0], "payload": [30, 0], "data_forward": true },
            ],
            "path": {
                "rate_bit_s": figure(5e6), "base_rtt_s": figure(0.04), "queue_bytes": null, "packet_bytes": 1500,
                "loaded_rtt_s": { "p50": 0.06, "p95": 0.09, "max": 0.1 }, "loss": figure(0.01), "lost": 40,
                "lost_at_full_queue": 4, "loss_runs": 30, "longest_run": 2, "data_packets": 3600,
                "reordered": 0, "repeated_in_vain": 1, "of_these_perhaps": 0, "captured_near": "receiver",
            },
        })
    }

    #[test]
    fn figures_say_how_sure_they_are() {
        let rows = figures(&found());
        let said: Vec<String> =
            rows.iter().map(|row| format!("{}: {} ({})", row.name, row.value, row.surely)).collect();
        assert_eq!(
            said,
            [
                "rate: 5.00 Mbit/s (between 4.50 Mbit/s and 5.50 Mbit/s)",
                "RTT without queues: 40.0 ms (between 36.0 ms and 44.0 ms)",
                "RTT under load: median 60.0 ms, p95 90.0 ms, most 100 ms (as measured)",
                "queue: - (not to be seen in these packets)",
                "loss by chance: 1.00 % (between 0.90 % and 1.10 %)",
                "lost: 40 of 3,600 packets, 4 of them while the queue was long (else 30 times, at most 2 in a row)",
                "repeated in vain: 1 packet ()",
            ]
        );
    }

    /// Connections of other hosts are no flows; the data of the first go against its first packet.
    #[test]
    fn a_scenario_of_it() {
        let written = scenario(&found(), "a\nb.pcap");
        assert!(written.text.starts_with("# A first estimate of the path in the capture a?b.pcap,"));
        assert_eq!((written.flows, written.node, written.lacks), (vec![0], Some("client"), String::new()));
        for part in [
            "duration = \"10 s\"\n",
            "rate = \"5 Mbit/s\"  # between",
            "delay = \"20 ms\"  # half",
            "# The queue was never",
            "error = { kind = \"bernoulli\", packet_error_rate = 0.01 }  # between",
            "source = \"server\"\nsink = \"client\"\nstart = \"0.5 s\"\ntransport = \"cubic\"",
            "bytes = \"5000000 B\" }\n",
        ] {
            assert!(written.text.contains(part), "{part} is not in {}", written.text);
        }
    }

    #[test]
    fn outages_are_told_and_written() {
        let mut found = found();
        found["path"]["lost_in_outages"] = json!(30);
        found["path"]["lost_at_unknown_queue"] = json!(3);
        found["path"]["mostly_at_full_queue"] = json!(true);
        found["path"]["outages"] = json!([
            { "at_s": 2.0, "low_s": 0.8, "high_s": 1.2 },
            { "at_s": 3.0, "low_s": 0.9, "high_s": 1.3 },
        ]);
        let rows = figures(&found);
        let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert!(
            of("lost")
                .value
                .ends_with("4 of them at a full queue, 3 of them at a queue that is not seen, 30 in outages")
        );
        let told = (of("outages").value.as_str(), of("outages").surely.as_str());
        assert_eq!(told, ("2, about 1.05 s long", "each between 800 ms and 1.30 s"));
        // They would touch: the first is over before the second begins.
        let line = "handoff = { at = [\"2 s\", \"3 s\"], outage = \"900 ms\" }";
        assert!(scenario(&found, "").text.contains(line));
    }

    #[test]
    fn one_direction_lacks_the_other() {
        let mut found = found();
        found["flows"][0]["packets"] = json!([0, 9]);
        assert!(scenario(&found, "").lacks.starts_with("no acknowledgements are in the capture"));
        found["flows"][0]["payload"] = json!([0, 0]);
        let written = scenario(&found, "");
        assert!(written.lacks.starts_with("no data are in the capture") && written.flows.is_empty());
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(
            [0, 7, 84, 999, 1_000, 20_345, 1_000_000].map(whole).join(" "),
            "0 7 84 999 1,000 20,345 1,000,000"
        );
    }

    #[test]
    fn differences_in_words() {
        let mut other = found();
        other["length_s"] = json!(8.0);
        other["path"]["loaded_rtt_s"]["p50"] = json!(0.15);
        other["path"]["lost"] = json!(0);
        other["path"]["base_rtt_s"] = Value::Null;
        other["path"]["rate_bit_s"]["value"] = json!(5.01e6);
        let rows = beside(&found(), &other);
        let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap().said.clone();
        assert_eq!(of("time from the first packet to the last"), "20.0 % shorter");
        assert_eq!(of("payload per second"), "25.0 % more");
        assert_eq!(of("median RTT"), "2.50 times as long");
        assert_eq!(of("packets lost"), "none");
        assert_eq!((of("rate"), of("RTT without queues")), ("alike".to_owned(), String::new()));
        assert!(!rows.iter().any(|row| row.name == "queue" || row.name == "packets reordered"));
    }
}
