//! Calls and games over a path: what the E-model says of them, and that classes leave each other alone.

use lasthop_sim::run::Run;

use crate::testkit::run_both_ways;

fn run(text: &str) -> Run {
    run_both_ways(text, 1)
}

fn path(link: &str, flows: &str) -> String {
    format!(
        r#"
        duration = "60 s"
        [topology]
        kind = "graph"
        nodes = ["a", "b"]
        links = [{{ from = "a", to = "b", rate = "10 Mbit/s", delay = "30 ms", {link} }}]
        {flows}"#
    )
}

fn flow(name: &str, traffic: &str) -> String {
    format!(
        "[[flows]]\nname = \"{name}\"\nsource = \"a\"\nsink = \"b\"\ntransport = \"udp\"\nstart = \"0 s\"\n\
         traffic = {traffic}\n"
    )
}

/// Nothing waits and nothing is lost: mouth to ear is a packet of speech, 200 B at 10 Mbit/s and 30 ms, and R is what
/// the equation says of that.
#[test]
fn a_clear_call() {
    let run = run(&path("", &flow("call", "\"voice\"")));
    let voice = run.summary.flows[0].voice.as_deref().unwrap();
    let by_hand = 0.020 + 0.000_16 + 0.030;
    assert!((voice.mouth_to_ear_s - by_hand).abs() < 2e-4, "{voice:?}");
    assert_eq!(voice.unheard_share, 0.0);
    assert!((voice.rating - (93.2 - 0.024 * by_hand * 1e3)).abs() < 0.01, "{voice:?}");
    assert!((4.38..4.39).contains(&voice.mos), "{voice:?}");
}

/// One packet in twenty is lost: R falls by 95 * 5 / (5 + 25.1) at the rate that the packets of this run had.
#[test]
fn losses_cost_what_the_equation_says() {
    let lossy = r#"error = { kind = "bernoulli", packet_error_rate = 0.05 }"#;
    let run = run(&path(lossy, &flow("call", r#"{ kind = "voice", pause = "0 s" }"#)));
    let row = &run.summary.flows[0];
    let lost: u64 = row.packets_lost.values().sum();
    let share = lost as f64 / row.packets_sent as f64;
    let voice = row.voice.as_deref().unwrap();
    assert!(
        (0.03..0.07).contains(&share) && (voice.unheard_share - share).abs() < 1e-3,
        "{voice:?}, {share}"
    );
    let percent = 100.0 * share;
    let by_hand = 93.2 - 0.024 * 50.16 - 95.0 * percent / (percent + 25.1);
    assert!((voice.rating - by_hand).abs() < 0.1, "{voice:?}, by hand {by_hand}");
}

/// A game is played at its published rates, and neither side changes what a call beside it says.
#[test]
fn classes_leave_each_other_alone() {
    let call = flow("call", "\"voice\"");
    let games = [("up", "player", 24.0, 27.0), ("down", "server", 16.0, 18.0)];
    let all: String = games
        .iter()
        .map(|(name, side, ..)| flow(name, &format!("{{ kind = \"game\", side = \"{side}\" }}")))
        .collect();
    let (alone, beside) = (run(&path("", &call)), run(&path("", &format!("{all}{call}"))));
    let sent = |run: &Run, at: usize| run.summary.flows[at].packets_sent;
    assert_eq!(sent(&alone, 0), sent(&beside, 2), "the same talk");
    for (at, (name, _, least, most)) in games.iter().enumerate() {
        let rate = sent(&beside, at) as f64 / 60.0;
        assert!((*least..*most).contains(&rate), "{name}: {rate} packets per second");
    }
}
