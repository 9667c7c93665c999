//! Real-time metrics of whole runs whose every packet can be followed by hand.
//!
//! One link of 10 Mbit/s and 10 ms, and a source of 1000 bytes each 40 ms: packet k leaves at 40 k ms and arrives
//! 10.8 ms later.

use lasthop_net::plan::Plan;
use lasthop_sim::run::Run;
use lasthop_sim::summary::RealtimeSummary;

use crate::testkit::{SUMMARY, Scene, run_plan};

/// What differs from run to run, as in a scenario.
struct Case<'a> {
    duration: &'a str,
    warmup: &'a str,
    /// More keys of the link.
    link: &'a str,
    transport: &'a str,
    traffic: &'a str,
    /// The table `[measure]`.
    measure: &'a str,
}

const CBR: &str = "{ kind = \"cbr\", rate = \"200 kbit/s\", packet = \"1000 B\" }";

const UDP: Case<'_> = Case {
    duration: "10 s",
    warmup: "0 s",
    link: "",
    transport: "udp",
    traffic: CBR,
    measure: "realtime = {}",
};

const OUTAGE: &str = "handoff = { at = [\"3 s\"], outage = \"1 s\" }\n";

fn plan_of(case: &Case<'_>) -> Plan {
    let Case { duration, warmup, link, transport, traffic, measure } = case;
    Scene::lasting(duration)
        .with(&format!("warmup = \"{warmup}\"\n[measure]\n{measure}"))
        .chain(["a", "b"], &[&format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{link}")])
        .between("a", "b", &format!("transport = \"{transport}\"\ntraffic = {traffic}"))
        .plan()
}

fn run_of(case: &Case<'_>) -> Run {
    run_plan(&plan_of(case), 1, SUMMARY)
}

fn realtime(case: &Case<'_>) -> RealtimeSummary {
    *run_of(case).summary.flows[0].realtime.clone().expect("the flow is measured")
}

/// Sent, received, delayed, lost.
fn counts(found: &RealtimeSummary) -> [u64; 4] {
    assert_eq!(found.timely_packets + found.delayed_packets, found.received_packets);
    [found.transmitted_packets, found.received_packets, found.delayed_packets, found.lost_transmissions]
}

/// NV-8.9.
#[test]
fn an_outage_loses_25_datagrams_and_delays_the_one_behind_it() {
    let found = realtime(&Case { link: OUTAGE, ..UDP });
    assert_eq!(counts(&found), [250, 225, 1, 25]);
    assert_eq!(found.generated_packets, Some(250));
    assert_eq!(found.realtime_index, Some(224.0 / 250.0));
    assert_eq!(found.delayed_rate, Some(1.0 / 250.0));
    assert_eq!(found.delayed_over_received, Some(1.0 / 225.0));
    assert_eq!((found.loss_over_sent, found.loss_over_generated), (Some(0.1), Some(0.1)));
    // One of ten slots got nothing, the others their 25 packets.
    assert_eq!(found.success.0, [50, 75, 90, 100].map(|percent| (percent, Some(90.0))));
    assert_eq!(found.options.target_bit_s, Some(200_000));
}

#[test]
fn totals_are_means_over_flows() {
    let run = run_of(&Case { link: OUTAGE, ..UDP });
    let totals = &run.summary.totals;
    assert_eq!(totals.realtime_index, Some(224.0 / 250.0));
    assert_eq!((totals.delayed_rate, totals.loss_over_sent), (Some(1.0 / 250.0), Some(0.1)));
    let run = run_of(&Case { measure: "", ..UDP });
    assert_eq!(run.summary.flows[0].realtime, None);
    assert_eq!(run.summary.totals.realtime_index, None);
}

#[test]
fn options_choose_what_rates_are_over() {
    let measure = "realtime = { delayed_over = \"received\", threshold = \"39 ms\", success = [100], \
                   target = \"1 Mbit/s\" }";
    let found = realtime(&Case { link: OUTAGE, measure, ..UDP });
    assert_eq!(counts(&found), [250, 225, 224, 25]);
    assert_eq!(found.delayed_rate, Some(224.0 / 225.0));
    assert_eq!(found.success.0, [(100, Some(0.0))]);
    assert_eq!((found.options.delayed_over, found.options.threshold_s), ("received", 0.039));
}

#[test]
fn slots_are_compared_with_the_rate_of_the_traffic() {
    let target = |traffic| {
        let case = Case { duration: "1 s", transport: "reno", traffic, ..UDP };
        realtime(&case).options.target_bit_s
    };
    assert_eq!(target(CBR), Some(200_000));
    let on_off =
        "{ kind = \"on-off\", rate = \"1 Mbit/s\", packet = \"500 B\", on = \"1 s\", off = \"3 s\" }";
    assert_eq!(target(on_off), Some(250_000));
    assert_eq!(target("{ kind = \"paced-ftp\", write = \"1000 B\", interval = \"10 ms\" }"), Some(800_000));
    assert_eq!(target("\"ftp\""), None);
}

#[test]
fn packets_on_their_way_at_the_end_count_as_sent() {
    // Packet 249 leaves at 9.960 s.
    let found = realtime(&Case { duration: "9.965 s", link: OUTAGE, ..UDP });
    assert_eq!(counts(&found), [250, 224, 1, 25]);
    assert_eq!(found.realtime_index, Some(223.0 / 250.0));
}

#[test]
fn what_was_sent_before_the_window_does_not_count() {
    // Packet 50 leaves at 2 s and arrives within the window.
    let found = realtime(&Case { warmup: "2.005 s", link: OUTAGE, ..UDP });
    assert_eq!(counts(&found), [199, 174, 1, 25]);
    // Packet 50 is the first of the window; its neighbour came before.
    let found = realtime(&Case { warmup: "2 s", measure: "realtime = { threshold = \"39 ms\" }", ..UDP });
    assert_eq!(counts(&found), [200, 200, 200, 0]);
    // The losses lie before the window.
    let found = realtime(&Case { warmup: "5 s", link: OUTAGE, ..UDP });
    assert_eq!(counts(&found), [125, 125, 0, 0]);
}

/// NV-8.10. Segment 10 is lost (the SYN is 0); the ACK of segment 13 is the third duplicate, so it leaves again at
/// 541 ms and arrives 181 ms after segment 9.
#[test]
fn a_segment_that_is_sent_again_comes_late() {
    let tcp = |measure| {
        let link = "error = { kind = \"list\", packets = [11] }\nreverse = { error = \"none\" }\n";
        // A write fills a segment.
        let traffic = "{ kind = \"cbr\", rate = \"289600 bit/s\", packet = \"1448 B\" }";
        run_of(&Case { link, transport: "newreno", traffic, measure, ..UDP })
    };
    let of = |measure| tcp(measure).summary.flows[0].realtime.clone().expect("the flow is measured");
    let found = of("realtime = {}");
    assert_eq!(counts(&found), [250, 250, 1, 1]);
    assert_eq!(found.transmissions, 251);
    assert_eq!(found.realtime_index, Some(249.0 / 250.0));
    assert_eq!(found.loss_over_sent, Some(1.0 / 251.0));
    assert_eq!(found.loss_over_generated, Some(1.0 / 250.0));
    // Segment 11 has no predecessor yet.
    assert_eq!(counts(&of("realtime = { missing = \"literal\" }")), [250, 250, 2, 1]);
    // Segment 10 follows 13 by 20 ms, but its predecessor is there.
    assert_eq!(counts(&of("realtime = { missing = \"last-arrival\" }")), [250, 250, 1, 1]);
    // The application waits for it, and gets 11 to 13 with it.
    assert_eq!(counts(&of("realtime = { arrival = \"application\" }")), [250, 250, 1, 1]);
    assert_eq!(
        counts(&of("realtime = { arrival = \"application\", threshold = \"190 ms\" }")),
        [250, 250, 0, 1]
    );
    // Transit times are those of the transmissions that arrived: all alike.
    let run = tcp("realtime = {}");
    assert_eq!(run.summary.flows[0].jitter_s, Some(0.0));
    assert!(run.summary.flows[0].delay_p99_s < Some(0.02), "{:?}", run.summary.flows[0].delay_p99_s);
}

#[test]
fn what_a_sender_has_not_sent_is_generated_all_the_same() {
    let file = |sent: &str| Case {
        transport: "sack",
        traffic: "{ kind = \"ftp\", bytes = \"100000000 B\" }",
        measure: match sent {
            "generated" => "realtime = { sent = \"generated\" }",
            _ => "realtime = {}",
        },
        ..UDP
    };
    let transmitted = realtime(&file("transmitted"));
    let generated = realtime(&file("generated"));
    let segments = 100_000_000_u64.div_ceil(1448);
    assert_eq!(generated.generated_packets, Some(segments));
    assert!(transmitted.transmitted_packets < segments / 5);
    let timely = transmitted.timely_packets as f64;
    assert_eq!(transmitted.realtime_index, Some(timely / transmitted.transmitted_packets as f64));
    assert_eq!(generated.realtime_index, Some(timely / segments as f64));
    // A file has no rate that slots could be compared with.
    assert_eq!(generated.success.0[0], (50, None));
    let endless = realtime(&Case { traffic: "\"ftp\"", ..file("generated") });
    assert_eq!((endless.generated_packets, endless.realtime_index), (None, None));
    assert_eq!(endless.loss_over_generated, None);
}

#[test]
fn rate_based_flows_are_measured_too() {
    for transport in ["tfrc", "ssvp", "wtcp-rate"] {
        let found =
            realtime(&Case { transport, link: "error = { kind = \"list\", packets = [5, 6] }\n", ..UDP });
        let [sent, received, _, lost] = counts(&found);
        assert!(
            sent > 100 && received <= sent && found.realtime_index <= Some(1.0),
            "{transport}: {found:?}"
        );
        assert!(lost >= 1, "{transport}: {found:?}");
        assert!(found.generated_packets >= Some(sent), "{transport}: {found:?}");
    }
}

const VIDEO: &str = "{ kind = \"mpeg4\", rate = \"600 kbit/s\" }";

#[test]
fn video_is_measured_unasked() {
    let found = realtime(&Case { traffic: VIDEO, measure: "", ..UDP });
    // Frame 24 is generated at 960 ms.
    assert!((0.96..1.0).contains(&found.startup_s.unwrap()), "{found:?}");
    assert_eq!((found.decodable_share, found.stalls, found.stall_share), (Some(1.0), None, None));
    assert_eq!((found.options.playout_s, found.options.target_bit_s), (Some(1.0), Some(600_000)));
    assert!(run_of(&Case { measure: "", ..UDP }).summary.flows[0].realtime.is_none());
    let found = realtime(&UDP);
    assert_eq!((found.startup_s, found.decodable_share, found.options.playout_s), (None, None, None));
}

#[test]
fn an_outage_takes_frames_from_a_datagram_viewer() {
    let found = realtime(&Case { traffic: VIDEO, measure: "", link: OUTAGE, ..UDP });
    // 25 frames are lost, and with them at most a group of twelve and the two B frames before the outage. Frames due
    // by 10 s: playing starts at about 0.97 s.
    let share = found.decodable_share.unwrap();
    assert!((1.0 - 39.0 / 223.0..=1.0 - 25.0 / 226.0).contains(&share), "{share}");
}

#[test]
fn an_outage_stops_a_stream_whose_buffer_is_short() {
    let of = |measure| realtime(&Case { traffic: VIDEO, transport: "sack", measure, link: OUTAGE, ..UDP });
    let found = of("");
    assert_eq!((found.stalls, found.decodable_share), (Some(1), None));
    let stalled = found.stall_s.unwrap();
    assert!((0.05..1.5).contains(&stalled), "{found:?}");
    let played = 10.0 - found.startup_s.unwrap();
    assert!((found.stall_share.unwrap() - stalled / played).abs() < 1e-6, "{found:?}");
    let patient = of("realtime = { playout = \"4 s\" }");
    assert_eq!((patient.stalls, patient.stall_s, patient.stall_share), (Some(0), Some(0.0), Some(0.0)));
    // Longer buffers after a stall make it longer.
    assert!(of("realtime = { rebuffer = \"2 s\" }").stall_s > Some(stalled + 0.4));
}

#[test]
fn video_over_rate_based_transports() {
    for transport in ["tfrc", "ssvp"] {
        let found = realtime(&Case { traffic: VIDEO, transport, measure: "", ..UDP });
        assert!(found.startup_s.is_some() && found.decodable_share > Some(0.0), "{transport}: {found:?}");
        assert_eq!(found.stalls, None, "{transport}");
    }
    let found = realtime(&Case { traffic: VIDEO, transport: "wtcp-rate", measure: "", ..UDP });
    assert!(found.stalls.is_some() && found.decodable_share.is_none(), "{found:?}");
}
