//! Video on demand over a path: start and stalls worked by hand, and what each rule plays.

use lasthop_sim::run::Run;
use lasthop_sim::summary::PlayerSummary;

use crate::testkit::run_both_ways;

/// A server and a viewer, 20 ms one way.
fn view(rate: &str, traffic: &str) -> PlayerSummary {
    let run: Run = run_both_ways(
        &format!(
            r#"
            duration = "120 s"
            tcp = {{ delayed_ack = false }}
            [topology]
            kind = "graph"
            nodes = ["server", "viewer"]
            links = [{{ from = "server", to = "viewer", rate = "{rate}", delay = "20 ms", queue = "unlimited" }}]
            [[flows]]
            source = "server"
            sink = "viewer"
            transport = "cubic"
            start = "0 s"
            traffic = {{ kind = "video-on-demand", {traffic} }}"#
        ),
        1,
    );
    run.summary.flows[0].player.as_deref().copied().unwrap()
}

/// 2 Mbit/s over 1.5 Mbit/s: a segment of 4 s is a million bytes and takes 5.33 s and headers. Ten of them: nine
/// stalls, and in all as much standing still as the transfers take longer than the video.
#[test]
fn what_a_link_cannot_carry_stands_still() {
    let video = r#"ladder = ["2 Mbit/s"], rule = "fixed", segment = "4 s", length = "40 s""#;
    let seen = view("1.5 Mbit/s", video);
    let transfer = 1e6 * 8.0 / 1.5e6;
    assert_eq!((seen.segments, seen.stalls, seen.switches), (10, 9, 0));
    let by_hand = 9.0 * (transfer - 4.0);
    // Headers are 4 % of full segments, and each segment costs a round trip.
    let (least, most) = (by_hand + 9.0 * 0.040, by_hand + 9.0 * (0.06 * transfer + 0.2));
    assert!((least..most).contains(&seen.stall_s), "{seen:?}, {least} to {most}");
    let startup = seen.startup_s.unwrap();
    assert!((transfer..1.1 * transfer + 0.3).contains(&startup), "{seen:?}");
    let share = seen.stall_s / (seen.stall_s + 40.0);
    assert!((seen.stall_share.unwrap() - share).abs() < 1e-9, "all of it was played: {seen:?}");
    let quality = 2e6 - 2e6 * (seen.stall_s + startup) / 10.0;
    assert!((seen.quality_bit_s.unwrap() - quality).abs() < 1.0, "{seen:?}");
}

/// Over 4 Mbit/s the throughput rule settles at the highest bit rate below 0.9 of what it gets, and nothing stands
/// still.
#[test]
fn the_throughput_rule_finds_its_rate() {
    let ladder = r#"ladder = ["1 Mbit/s", "2 Mbit/s", "3 Mbit/s", "3.8 Mbit/s", "6 Mbit/s"]"#;
    let seen =
        view("4 Mbit/s", &format!("{ladder}, rule = \"throughput\", segment = \"4 s\", length = \"100 s\""));
    assert_eq!((seen.segments, seen.stalls), (25, 0), "{seen:?}");
    // It begins with the lowest; the rest is at 3 Mbit/s.
    assert!((2.6e6..3e6).contains(&seen.bit_rate_bit_s.unwrap()) && seen.switches <= 3, "{seen:?}");
}

/// BOLA fills its buffer and plays as much as the link carries, above the throughput rule's nine tenths.
#[test]
fn bola_uses_what_there_is() {
    let seen = view("4 Mbit/s", r#"length = "100 s""#);
    assert_eq!(seen.stalls, 0, "{seen:?}");
    assert!((1.8e6..4e6).contains(&seen.bit_rate_bit_s.unwrap()), "{seen:?}");
    assert!(seen.startup_s.unwrap() < 0.5, "{seen:?}");
}
