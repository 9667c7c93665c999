//! Random variables of a scenario: what is drawn follows its distribution, leaves what else is drawn alone, is told in
//! the results, and never what its key does not take.

use lasthop_net::plan::Plan;
use lasthop_sim::scenario::{Format, Scenario};

use crate::testkit::{SUMMARY, parse, run_plan};

const FLOWS: usize = 4_000;

/// A dumbbell whose bottleneck and flows have these keys beside what they need.
fn dumbbell(bottleneck: &str, flows: &str) -> String {
    format!(
        r#"
duration = "5 s"
[topology]
kind = "dumbbell"
access = {{ rate = "100 Mbit/s", delay = "1 ms" }}
[topology.bottleneck]
{bottleneck}
{flows}
"#
    )
}

const PLAIN: &str = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"";

fn web(keys: &str) -> String {
    format!("[[flows]]\nname = \"web\"\ntransport = \"cubic\"\n{keys}\n")
}

/// What the runs of `text` draw for the flows with a seed, in their order.
fn drawn(text: &str, seed: u64, column: &str) -> Vec<f64> {
    let scenario = parse(text);
    let plan = scenario.seeded(seed).unwrap();
    let flows = plan.plan().drawn.flows.values().flatten();
    flows.filter(|(name, _)| name == column).map(|(_, value)| *value).collect()
}

/// Kolmogorov and Smirnov's distance of a sample from a distribution function.
fn distance(sample: &[f64], function: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let number = sorted.len() as f64;
    sorted.iter().enumerate().fold(0.0, |most: f64, (index, &x)| {
        let (expected, rank) = (function(x), index as f64 / number);
        most.max((expected - rank).abs()).max((expected - rank - 1.0 / number).abs())
    })
}

fn normal(z: f64) -> f64 {
    0.5 * (1.0 + libm::erf(z / std::f64::consts::SQRT_2))
}

/// Below 1.95 over the root of the number of draws, as in 999 of 1000 samples (Kolmogorov and Smirnov).
#[test]
fn draws_follow_their_distribution() {
    type Function = fn(f64) -> f64;
    let cases: [(&str, Function); 7] = [
        (r#""uniform", low = "10 ms", high = "80 ms""#, |x| (x - 0.01) / 0.07),
        (r#""normal", mean = "100 ms", deviation = "10 ms""#, |x| normal((x - 0.1) / 0.01)),
        (r#""exponential", mean = "20 ms""#, |x| 1.0 - (-x / 0.02).exp()),
        (r#""pareto", mean = "30 ms", shape = 1.5, max = "10 s""#, |x| 1.0 - (0.01 / x.max(0.01)).powf(1.5)),
        (r#""log-normal", median = "20 ms", sigma = 0.5"#, |x| normal((x / 0.02).ln() / 0.5)),
        // Cut off: the distribution function between the bounds, made to run from 0 to 1.
        (r#""normal", mean = "20 ms", deviation = "20 ms", min = "0 ms", max = "60 ms""#, |x| {
            let of = |x: f64| normal((x - 0.02) / 0.02);
            (of(x) - of(0.0)) / (of(0.06) - of(0.0))
        }),
        (r#""exponential", mean = "20 ms", max = "30 ms""#, |x| {
            (1.0 - (-x / 0.02).exp()) / (1.0 - (-1.5_f64).exp())
        }),
    ];
    for (distribution, function) in cases {
        let keys = format!("count = {FLOWS}\ndelay = {{ distribution = {distribution} }}");
        for seed in 1..=3 {
            let sample = drawn(&dumbbell(PLAIN, &web(&keys)), seed, "delay_s");
            assert_eq!(sample.len(), FLOWS);
            let distance = distance(&sample, function);
            assert!(distance < 1.95 / (FLOWS as f64).sqrt(), "{distribution}, seed {seed}: {distance}");
        }
    }
}

/// Whole numbers by steps, and values by weights: chi-square below what 999 of 1000 samples have (22.5 with 6 degrees
/// of freedom, 13.8 with 2).
#[test]
fn steps_and_choices_are_as_likely_as_they_say() {
    type Case<'a> = (&'a str, &'a str, &'a [(f64, f64)], f64);
    let cases: [Case<'_>; 2] = [
        (
            "dscp",
            r#""uniform", low = 2, high = 8, step = 1"#,
            &[(2.0, 1.0), (3.0, 1.0), (4.0, 1.0), (5.0, 1.0), (6.0, 1.0), (7.0, 1.0), (8.0, 1.0)],
            22.5,
        ),
        (
            "delay",
            r#""choice", values = ["10 ms", "20 ms", "80 ms"], weights = [5, 3, 2]"#,
            &[(0.01, 5.0), (0.02, 3.0), (0.08, 2.0)],
            13.8,
        ),
    ];
    for (key, distribution, expected, limit) in cases {
        let keys = format!("count = {FLOWS}\n{key} = {{ distribution = {distribution} }}");
        let column = if key == "delay" { "delay_s" } else { key };
        let weights: f64 = expected.iter().map(|one| one.1).sum();
        for seed in 1..=3 {
            let sample = drawn(&dumbbell(PLAIN, &web(&keys)), seed, column);
            let square = expected.iter().map(|(value, weight)| {
                let expected = FLOWS as f64 * weight / weights;
                let found = sample.iter().filter(|drawn| (*drawn - value).abs() < 1e-12).count() as f64;
                (found - expected).powi(2) / expected
            });
            let square: f64 = square.sum();
            assert!(square < limit, "{key}, seed {seed}: {square}");
        }
    }
}

const DELAYS: &str = "delay = { distribution = \"uniform\", low = \"10 ms\", high = \"80 ms\" }";

fn delays(plan: &Plan) -> Vec<u64> {
    let access = plan.links.iter().filter(|link| link.name.starts_with("source-access"));
    access.map(|link| link.forward.delay.0).collect()
}

/// What is told is what the network has: delays in whole nanoseconds, another one for each flow and each seed.
#[test]
fn what_is_told_is_what_runs() {
    let text = dumbbell(PLAIN, &web(&format!("count = 3\n{DELAYS}")));
    let scenario = parse(&text);
    let mut seen = Vec::new();
    for seed in [1, 2] {
        let scenario = scenario.seeded(seed).unwrap();
        let run = run_plan(scenario.plan(), seed, SUMMARY);
        let told: Vec<f64> = run.summary.flows.iter().map(|flow| flow.drawn.0[0].1).collect();
        let delays = delays(scenario.plan());
        let nanos: Vec<u64> = told.iter().map(|seconds| (seconds * 1e9).round() as u64).collect();
        assert_eq!(nanos, delays);
        assert!(delays.iter().all(|delay| (10_000_000..80_000_000).contains(delay)));
        let json = serde_json::to_value(&run.summary).unwrap();
        assert_eq!(json["flows"][0]["drawn_flow_delay_s"], told[0]);
        seen.extend(delays);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 6);
}

/// The same seed gives the same values, however often and in whichever form the scenario is read.
#[test]
fn draws_depend_on_the_seed_alone() {
    let text = dumbbell(
        "rate = { distribution = \"uniform\", low = \"5 Mbit/s\", high = \"9 Mbit/s\" }\ndelay = \"10 ms\"",
        &web(&format!("count = 3\n{DELAYS}")),
    );
    let scenario = parse(&text);
    let again = Scenario::parse(&scenario.to_json(), Format::Json, "test", &[]).unwrap();
    assert!(again.to_json().contains("\"distribution\""), "{}", again.to_json());
    let overrides = [("seed".to_owned(), "7".to_owned())];
    let seven = Scenario::parse(&text, Format::Toml, "test", &overrides).unwrap();
    let plans =
        [scenario.seeded(7).unwrap(), again.seeded(7).unwrap(), seven.seeded(7).unwrap()].map(|one| {
            let plan = one.plan();
            (plan.drawn.clone(), delays(plan), plan.links[0].forward.rate)
        });
    assert_eq!(plans[0], plans[1]);
    assert_eq!(plans[0], plans[2]);
    assert_ne!(plans[0].0, scenario.plan().drawn);
    assert_eq!(plans[0].0.run[0].0, "topology_bottleneck_rate_bit_s");
    assert_eq!(plans[0].0.run[0].1, plans[0].2.0 as f64);
}

/// A variable more, and flows more before and behind, leave what others draw alone; a scenario without them has the
/// same fingerprint with the values written out.
#[test]
fn others_draw_the_same() {
    let alone = dumbbell(PLAIN, &web(&format!("count = 3\n{DELAYS}")));
    let among = dumbbell(
        "rate = { distribution = \"choice\", values = [\"10 Mbit/s\"] }\ndelay = \"10 ms\"",
        &format!(
            "[[flows]]\nname = \"first\"\ntransport = \"reno\"\ncount = 2\n{DELAYS}\n{}\n\
             [[flows]]\nname = \"last\"\ntransport = \"reno\"\n{DELAYS}\n",
            web(&format!(
                "count = 3\n{DELAYS}\ntraffic = {{ kind = \"ftp\", bytes = {{ distribution = \"exponential\", \
                 mean = \"50 kB\", min = \"1 kB\" }} }}"
            ))
        ),
    );
    let all = drawn(&among, 3, "delay_s");
    assert_eq!(all[2..5], drawn(&alone, 3, "delay_s"));
    // The streams of flows go by their names: unlike variables of unlike entries.
    assert_ne!(all[..2], all[2..4]);

    let scenario = parse(&alone);
    let scenario = scenario.seeded(3).unwrap();
    let random = run_plan(scenario.plan(), 3, SUMMARY);
    let flows: Vec<String> = (delays(scenario.plan()).iter().zip(1..))
        .map(|(nanos, number)| {
            format!("[[flows]]\nname = \"web-{number}\"\ntransport = \"cubic\"\ndelay = \"{nanos} ns\"\n")
        })
        .collect();
    let written = run_plan(&crate::testkit::plan_of(&dumbbell(PLAIN, &flows.concat())), 3, SUMMARY);
    assert_eq!(random.summary.fingerprint, written.summary.fingerprint);
}

/// Once for the run: all flows of the entry have it, and it is told of the run.
#[test]
fn a_value_per_run_is_shared() {
    let keys = "count = 3\ndelay = { distribution = \"exponential\", mean = \"20 ms\", per = \"run\" }";
    let scenario = parse(&dumbbell(PLAIN, &web(keys)));
    let plan = scenario.plan();
    let delays = delays(plan);
    assert!(delays.iter().all(|delay| *delay == delays[0]), "{delays:?}");
    assert!(plan.drawn.flows.is_empty());
    assert_eq!(plan.drawn.run[0].0, "flows_web_delay_s");
    let totals = serde_json::to_value(&run_plan(plan, 1, SUMMARY).summary.totals).unwrap();
    assert_eq!(totals["drawn_flows_web_delay_s"], plan.drawn.run[0].1);
}

/// Everything that has a number: links, errors, outages, parameters of a sender, lengths of traffic, times.
#[test]
fn any_number_may_be_random() {
    let uniform =
        |low: &str, high: &str| format!("{{ distribution = \"uniform\", low = {low}, high = {high} }}");
    let bottleneck = format!(
        "rate = {}\ndelay = {}\nqueue = {{ kind = \"drop-tail\", limit = {} }}\n\
         error = {{ kind = \"gilbert-elliott\", packet_error_rate = {}, mean_burst = {} }}",
        uniform("\"5 Mbit/s\"", "\"20 Mbit/s\""),
        uniform("\"5 ms\"", "\"50 ms\""),
        uniform("\"20 packets\"", "\"200 packets\""),
        uniform("0.001", "0.02"),
        uniform("2", "5"),
    );
    let flows = web(&format!(
        "count = 4\nstart = {}\nstop = {}\ntraffic = {{ kind = \"ftp\", bytes = {} }}\n\
         [tcp]\ninitial_window = {}\nrto = {{ min = {} }}\n\
         [[flows]]\ntransport = {{ preset = \"veno\", beta = {} }}\n",
        uniform("\"0 s\"", "\"1 s\""),
        uniform("\"2 s\"", "\"4 s\""),
        uniform("\"20 kB\"", "\"2 MB\""),
        uniform("\"2 packets\"", "\"20 packets\""),
        uniform("\"200 ms\"", "\"1 s\""),
        uniform("1", "6"),
    ));
    let scenario = parse(&dumbbell(&bottleneck, &flows));
    for seed in 1..=20 {
        let scenario = scenario.seeded(seed).unwrap();
        let drawn = &scenario.plan().drawn;
        assert_eq!((drawn.run.len(), drawn.flows.len()), (7, 5), "{:?}", drawn.run);
        assert_eq!(drawn.flows[&0].len(), 3);
        assert_eq!(drawn.flows[&4][0].0, "transport_beta");
        run_plan(scenario.plan(), seed, SUMMARY);
    }
}

/// Flows that arrive one after another have times of the run, and values of their own.
#[test]
fn flows_that_arrive_draw_too() {
    let keys = "start = { arrivals = \"periodic\", every = { distribution = \"uniform\", low = \"100 ms\", high = \
                \"200 ms\" } }\ntraffic = { kind = \"ftp\", bytes = { distribution = \"pareto\", mean = \"30 kB\", \
                shape = 1.5 } }";
    let scenario = parse(&dumbbell(PLAIN, &web(keys)));
    let plan = scenario.plan();
    assert_eq!(plan.drawn.run[0].0, "flows_web_start_every_s");
    let every = plan.drawn.run[0].1;
    assert_eq!(plan.flows.len(), (5.0 / every).ceil() as usize);
    assert_eq!(plan.drawn.flows.len(), plan.flows.len());
    let lengths = drawn(&dumbbell(PLAIN, &web(keys)), 1, "traffic_bytes_bytes");
    assert!(lengths.iter().all(|bytes| bytes.fract() == 0.0 && *bytes >= 10e3), "{lengths:?}");
    assert!(lengths.windows(2).any(|pair| pair[0] != pair[1]));
}
