//! What viewers have over time: the series of calls, films and players add up to what is told of the whole.

use lasthop_core::time::Span;
use lasthop_net::trace::{FlowInterval, Viewed};
use lasthop_net::world::Evaluation;
use lasthop_sim::run::{Progress, Run, run_evaluated};

use crate::testkit::{SERIES, plan_of};

/// A minute of `traffic` over 50 ms and `link`, and its series, which are the same with links ahead of the clock.
fn watch(transport: &str, link: &str, traffic: &str) -> (Run, Vec<Viewed>) {
    let plan = plan_of(&format!(
        r#"
        duration = "60 s"
        [topology]
        kind = "graph"
        nodes = ["a", "b"]
        links = [{{ from = "a", to = "b", delay = "50 ms", {link} }}]
        [[flows]]
        source = "a"
        sink = "b"
        transport = {transport}
        traffic = {{ {traffic} }}
        start = "0 s""#
    ));
    let evaluated = |evaluation| {
        run_evaluated(&plan, 3, (SERIES, evaluation), &Progress::default())
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let of = |run: &Run| run.recorded.flows.iter().filter_map(viewed).collect::<Vec<_>>();
    let (eager, clocked) = (evaluated(Evaluation::Eager), evaluated(Evaluation::Clocked));
    let series = of(&eager);
    assert_eq!(series, of(&clocked));
    assert_eq!(series.len(), 600);
    (eager, series)
}

/// Of a player, the requests are a flow as well, which has nothing to show.
fn viewed(interval: &FlowInterval) -> Option<Viewed> {
    interval.sample.viewed
}

fn shown(series: &[Viewed]) -> u64 {
    series.iter().map(|viewed| viewed.shown.unwrap()).sum()
}

/// Bits that were encoded.
fn bits(series: &[Viewed]) -> f64 {
    series.iter().map(|viewed| viewed.rate.unwrap() * 0.1).sum()
}

/// Over a clean link each frame is shown 50 ms and its transmission after it was made, 25 in a second, and waits for
/// nothing.
#[test]
fn a_call_without_trouble() {
    let fixed = r#"kind = "video-call", model = "rfc8867", start_rate = "500 kbit/s", burst = "2083 B", transient = 1"#;
    let (run, series) = watch(r#""udp""#, r#"rate = "50 Mbit/s""#, fixed);
    let call = run.summary.flows[0].call.as_deref().unwrap();
    assert_eq!(shown(&series), call.frames - call.frames_lost.unwrap());
    for second in series[10..].chunks_exact(10) {
        let frames = shown(second);
        assert!((24..=26).contains(&frames) || (29..=31).contains(&frames), "{frames}");
    }
    for viewed in &series[50..] {
        let delay = viewed.frame_delay.unwrap().seconds();
        assert!((0.050..0.055).contains(&delay), "{delay}");
        assert!(viewed.buffered <= Span::from_millis(45), "{viewed:?}");
    }
    assert!((bits(&series) / 60.0 / call.rate_bit_s - 1.0).abs() < 0.01, "{call:?}");
}

/// Losses, key frames, a transport in order, one that cuts frames: what is shown by intervals is what is shown in all,
/// and the delays are those of which the percentiles are told.
#[test]
fn calls_add_up() {
    let narrow = r#"rate = "1 Mbit/s", queue = { kind = "drop-tail", limit = "37500 B" },
        error = { kind = "bernoulli", packet_error_rate = 0.01 }"#
        .replace('\n', " ");
    for transport in [
        "\"gcc\"",
        "\"nada\"",
        r#"{ rate = "gcc", nack = true }"#,
        r#"{ rate = "gcc", fec = "row" }"#,
        "\"cubic\"",
    ] {
        let (run, series) = watch(transport, &narrow, r#"kind = "video-call", model = "rfc8867""#);
        let call = run.summary.flows[0].call.as_deref().unwrap();
        assert_eq!(shown(&series), call.frames - call.frames_lost.unwrap(), "{transport}: {call:?}");
        assert!((bits(&series) / 60.0 / call.rate_bit_s - 1.0).abs() < 0.01, "{transport}: {call:?}");
        let mut delays: Vec<f64> =
            series.iter().filter_map(|viewed| viewed.frame_delay).map(Span::seconds).collect();
        delays.sort_by(f64::total_cmp);
        let median = delays[delays.len() / 2] / call.frame_delay_p50_s.unwrap();
        assert!((0.8..1.25).contains(&median), "{transport}: {median}");
    }
}

/// A film over TCP: what is shown takes the time that it was played, and what is not shown yet waits in the buffer.
#[test]
fn a_film_in_order_adds_up() {
    let film = r#"kind = "mpeg4", rate = "900 kbit/s""#;
    let (run, series) = watch(r#""newreno""#, r#"rate = "1 Mbit/s", queue = "unlimited""#, film);
    let seen = run.summary.flows[0].realtime.as_deref().unwrap();
    let (stalled, share) = (seen.stall_s.unwrap(), seen.stall_share.unwrap());
    let watched = 60.0 - seen.startup_s.unwrap();
    assert!(seen.stalls > Some(0) && (stalled / watched - share).abs() < 1e-3, "{seen:?}");
    let played = shown(&series) as f64 / 25.0;
    assert!((played - (watched - stalled)).abs() < 0.1, "{played} {seen:?}");
    // Of a film that is encoded as it plays, the frame on the screen is as old as the wait for it.
    let last = series.last().unwrap();
    assert!((last.frame_delay.unwrap().seconds() + played - 60.0).abs() < 0.1, "{last:?}");
    assert!(series.iter().all(|viewed| viewed.buffered < Span::from_secs(5)));
}

/// The same film over datagrams: what is shown is what could be decoded in time.
#[test]
fn a_film_without_what_is_lost_adds_up() {
    let lossy = r#"rate = "2 Mbit/s", error = { kind = "bernoulli", packet_error_rate = 0.02 }"#;
    let (run, series) = watch(r#""udp""#, lossy, r#"kind = "mpeg4", rate = "900 kbit/s""#);
    let seen = run.summary.flows[0].realtime.as_deref().unwrap();
    let due = ((60.0 - seen.startup_s.unwrap()) * 25.0).floor();
    let share = shown(&series) as f64 / due;
    assert!((share - seen.decodable_share.unwrap()).abs() < 0.01, "{share} {seen:?}");
    // Playing starts with a buffer of a second, which stays.
    let settled = &series[50..];
    assert!(settled.iter().all(|viewed| (0.5..1.1).contains(&viewed.buffered.seconds())));
    assert!(settled.iter().all(|viewed| (0.9..1.2).contains(&viewed.frame_delay.unwrap().seconds())));
}

/// A player of segments: its buffer is filled by 4 s with each, empties with the clock, and is empty while it stalls.
#[test]
fn the_buffer_of_a_player() {
    let video = r#"kind = "video-on-demand", ladder = ["2 Mbit/s"], rule = "fixed", segment = "4 s", length = "40 s""#;
    let (run, series) = watch(r#""cubic""#, r#"rate = "1.5 Mbit/s", queue = "unlimited""#, video);
    let seen = run.summary.flows[0].player.as_deref().unwrap();
    assert_eq!(seen.stalls, 9, "{seen:?}");
    let rises = series.windows(2).filter(|pair| pair[1].buffered > pair[0].buffered).count();
    assert_eq!(rises, 10);
    for pair in series.windows(2) {
        let fall = pair[0].buffered.seconds() - pair[1].buffered.seconds();
        assert!(fall < 0.1001, "{pair:?}");
    }
    assert!(series.iter().all(|viewed| viewed.buffered <= Span::from_secs(4) && viewed.shown.is_none()));
    let rates: Vec<f64> = series.iter().filter_map(|viewed| viewed.rate).collect();
    assert!(rates.iter().all(|&rate| rate == 2e6) && rates.len() > 500, "{}", rates.len());
}
