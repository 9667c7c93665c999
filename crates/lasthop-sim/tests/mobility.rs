//! Mobile hosts: what Freeze-TCP and fast retransmission after a handoff gain over plain NewReno, and when.

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};
use lasthop_net::trace::HopRecord;
use lasthop_sim::run::Run;

use crate::testkit::{self, Scene, TRACE, hops, run_both_ways};

/// A server and a mobile host, 50 ms apart, over a base station; the last hop is down at these times.
fn scenario(transport: &str, handoff: &str, upstream: bool) -> Run {
    let (source, sink) = if upstream { ("mobile", "server") } else { ("server", "mobile") };
    let radio =
        format!("name = \"radio\"\nrate = \"5 Mbit/s\"\ndelay = \"10 ms\"\nhandoff = {{ {handoff} }}");
    Scene::lasting("60 s")
        .chain(["server", "station", "mobile"], &["rate = \"100 Mbit/s\"\ndelay = \"40 ms\"", &radio])
        .with("[tcp]\nreceiver_window = \"40 packets\"\ndelayed_ack = false")
        .between(source, sink, &format!("transport = {transport}"))
        .run(1, TRACE)
}

const ANNOUNCED: &str = "count = 5, outage = \"1 s\", warning = \"150 ms\"";
const SILENT: &str = "count = 5, outage = \"1 s\"";

fn goodput(run: &Run) -> f64 {
    run.summary.flows[0].goodput_bit_s
}

fn millis(value: u64) -> Time {
    Time::ZERO + Span::from_millis(value)
}

/// Five announced outages: no timeout, no reduction, and more data than NewReno.
#[test]
fn freeze_beats_newreno_through_announced_outages() {
    for upstream in [false, true] {
        let frozen = scenario("\"freeze\"", ANNOUNCED, upstream);
        let plain = scenario("\"newreno\"", ANNOUNCED, upstream);
        assert!(goodput(&frozen) > 1.02 * goodput(&plain), "{} {}", goodput(&frozen), goodput(&plain));
        let [frozen, plain] = [&frozen, &plain].map(|run| &run.summary.flows[0]);
        assert_eq!(
            (frozen.timeouts.unwrap(), plain.timeouts.unwrap() >= 5),
            (0, true),
            "upstream {upstream}: {frozen:?}"
        );
    }
}

/// A sender that rests while the link is down has next to nothing to repeat afterwards, if the queue holds the window
/// that it goes on with: copies of the opening ACK and answers to probes are no losses, delayed ACKs or not.
#[test]
fn a_frozen_sender_has_little_to_repeat() {
    let run = |transport: &str| {
        let radio = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
                     queue = { kind = \"drop-tail\", limit = \"167 packets\" }\n\
                     handoff = { count = 10, outage = \"1 s\", policy = \"hold\", warning = \"100 ms\" }";
        let wire = "rate = \"100 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"unlimited\"";
        Scene::lasting("60 s")
            .chain(["server", "station", "mobile"], &[wire, radio])
            .with("[tcp]\ninitial_ssthresh = \"64 packets\"")
            .between("server", "mobile", &format!("transport = \"{transport}\""))
            .run(1, testkit::SUMMARY)
    };
    let (frozen, plain) = (run("freeze"), run("newreno"));
    assert!(goodput(&frozen) > goodput(&plain), "{} {}", goodput(&frozen), goodput(&plain));
    let [frozen, plain] = [&frozen, &plain].map(|run| &run.summary.flows[0]);
    assert!(
        frozen.retransmitted_packets.unwrap() <= 30 && plain.retransmitted_packets.unwrap() > 500,
        "{frozen:?} {plain:?}"
    );
    assert_eq!(frozen.timeouts.unwrap(), 0);
}

/// Without a warning Freeze-TCP can only ask for what was lost when the link is back.
#[test]
fn an_unannounced_outage_costs_a_timeout() {
    let warned = scenario("\"freeze\"", ANNOUNCED, false);
    let missed =
        scenario("\"freeze\"", "count = 5, outage = \"3 s\", warning = \"150 ms\", miss = 1.0", false);
    assert_eq!(warned.summary.flows[0].timeouts.unwrap(), 0);
    assert!(missed.summary.flows[0].timeouts.unwrap() >= 5, "{:?}", missed.summary.flows[0]);
}

/// A false alarm costs idle time and nothing else.
#[test]
fn a_false_alarm_costs_a_pause() {
    let alarm = "at = [\"30 s\"], outage = \"1 s\", warning = \"150 ms\", false_alarms = 20";
    let alarmed = scenario("\"freeze\"", alarm, false);
    let calm = scenario("\"freeze\"", "at = [\"30 s\"], outage = \"1 s\", warning = \"150 ms\"", false);
    assert!(goodput(&alarmed) < goodput(&calm));
    assert_eq!(alarmed.summary.flows[0].timeouts.unwrap(), 0);
    // Both closing ACKs of a warning leave at the same time.
    let mut closings: Vec<Time> = (hops(&alarmed).iter())
        .filter(|hop| hop.window == 0 && hop.direction == 3)
        .map(|hop| hop.enqueued)
        .collect();
    closings.sort_unstable();
    let warnings = closings.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((15..=21).contains(&warnings), "{warnings}");
}

/// NV-5.6.
#[test]
fn closing_and_opening_acks_leave_in_time() {
    let run = scenario("\"freeze\"", "at = [\"10 s\"], outage = \"1 s\", warning = \"100 ms\"", false);
    let radio: Vec<&HopRecord> = hops(&run).iter().filter(|hop| hop.direction == 3).collect();
    let closing: Vec<Time> = radio.iter().filter(|hop| hop.window == 0).map(|hop| hop.enqueued).collect();
    assert_eq!(closing[..2], [millis(9_900); 2]);
    let opening = radio.iter().filter(|hop| hop.enqueued == millis(11_000) && hop.window > 0);
    assert_eq!(opening.count(), 3);
    // The sender rests from about 50 ms after the closing ACK to 50 ms after the opening one.
    let data: Vec<u64> = (hops(&run).iter())
        .filter(|hop| hop.direction == 0 && hop.kind == Kind::Data && hop.payload > 0)
        .map(|hop| hop.enqueued.0 / 1_000_000)
        .collect();
    assert_eq!(data.iter().filter(|&&at| (9_952..11_050).contains(&at)).count(), 0);
    assert!(data.iter().any(|&at| (11_050..11_053).contains(&at)));
}

/// After a handoff both directions go on at once; NewReno waits for its timer.
#[test]
fn a_handoff_is_followed_by_a_retransmission() {
    for upstream in [false, true] {
        let resumes = |transport: &str| {
            // The timeout falls well behind the end of the outage.
            // So few segments are lost that NewReno repairs them within a timeout.
            let transport = format!("{{ preset = {transport}, receiver_window = \"8 packets\" }}");
            let run = scenario(&transport, "at = [\"10 s\"], outage = \"600 ms\"", upstream);
            let first_link = if upstream { 3 } else { 0 };
            let next = (hops(&run).iter())
                .filter(|hop| hop.direction == first_link && hop.again)
                .map(|hop| hop.enqueued)
                .filter(|&at| at >= millis(10_600))
                .min();
            (next.unwrap().since(millis(10_600)), run.summary.flows[0].timeouts.unwrap())
        };
        let fast = resumes("\"fast-handoff\"");
        let plain = resumes("\"newreno\"");
        let round = if upstream { Span::ZERO } else { Span::from_millis(55) };
        assert!(fast.0 <= round, "upstream {upstream}: {fast:?}");
        assert_eq!(fast.1, 0, "upstream {upstream}");
        assert!(plain.0 > Span::from_millis(300) && plain.1 == 1, "upstream {upstream}: {plain:?}");
    }
}

/// Outages that are not announced change nothing for a sender that would listen.
#[test]
fn unannounced_outages_change_no_listener() {
    let plain = scenario("\"newreno\"", SILENT, false);
    let told = scenario("\"newreno\"", ANNOUNCED, false);
    assert_eq!(plain.summary.fingerprint, told.summary.fingerprint);
}

/// Every switch of the mechanisms, and everything together.
#[test]
fn the_switches_are_keys() {
    let all = "{ preset = \"sack\", freeze = { closing_acks = 1, opening_acks = 4, opening_ack_counts = false, \
               keeps_window = false }, ebsn = true, fast_handoff = { acks = 3, tahoe = true }, \
               eln = { threshold = 2 } }";
    for upstream in [false, true] {
        let run = scenario(all, ANNOUNCED, upstream);
        assert!(goodput(&run) > 2e6 && run.world.network.ledger.balances());
    }
}

/// At the instant at which their link returns, a receiver repeats its ACK and a sender its segment, over the same link:
/// which goes first does not depend on who is evaluated ahead of the clock.
#[test]
fn both_ends_of_a_link_hear_that_it_is_back() {
    let radio = "rate = \"700 kbit/s\"\ndelay = \"29 ms\"\n\
                 handoff = { at = [\"2 s\", \"4 s\"], outage = \"1 s\", policy = \"drop\" }";
    let scene = Scene::lasting("8 s")
        .chain(["station", "mobile"], &[radio])
        .between("station", "mobile", "transport = \"fast-handoff\"")
        .between("mobile", "station", "transport = \"fast-handoff\"");
    let run = run_both_ways(scene.text(), 1);
    let back = hops(&run).iter().filter(|hop| hop.direction == 1 && hop.enqueued == millis(3_000));
    let kinds: Vec<Kind> = back.map(|hop| hop.kind).collect();
    assert!(kinds.contains(&Kind::Data) && kinds.contains(&Kind::Ack), "{kinds:?}");
}
