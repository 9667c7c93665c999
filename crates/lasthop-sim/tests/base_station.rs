//! Helpers at a base station that know its queue, Zhuge and L4Span: how well they predict it, what senders learn, and
//! what that does at a Wi-Fi link, a cell and a link whose rate falls.

use lasthop_core::packet::{Kind, flag};
use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, Scene, TRACE, drop_tail, hops, run_both_ways};

/// A server 15 ms from a base station, and a phone behind a cell whose channel is good, then bad, then good again.
/// `keys` are those of the cell.
fn cell(helper: &str, keys: &str, transport: &str) -> Run {
    Scene::lasting("30 s")
        .with("warmup = \"2 s\"")
        .with(helper)
        .with("[tcp]\nprofile = \"linux\"\nreceiver_window = \"3000 packets\"")
        .with("[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"phone\"]")
        .link("server", "base", &format!("rate = \"1 Gbit/s\"\ndelay = \"15 ms\"\n{}", drop_tail("9000 packets")))
        .with(
            "[[topology.cellular]]\nbase = \"base\"\nusers = [{ node = \"phone\", cqi = { start = 13, changes = [\n\
             { at = \"10 s\", cqi = 5 }, { at = \"20 s\", cqi = 13 }] } }]",
        )
        .with(keys)
        .between("server", "phone", &format!("transport = {transport}"))
        .run(1, SUMMARY)
}

/// Over a link of 10 Mbit/s every prediction is right to the packet that is being sent: 1.2 ms at most for 1500 B.
#[test]
fn predictions_at_a_known_rate_are_right() {
    let scene = |helper: &str, columns: &str| {
        let radio = format!(
            "name = \"radio\"\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n{}\nmiddleboxes = [\"{helper}\"]",
            drop_tail("60 packets")
        );
        let wire = format!("rate = \"100 Mbit/s\"\ndelay = \"10 ms\"\n{}", drop_tail("500 packets"));
        let text = Scene::lasting("20 s")
            .with("warmup = \"5 s\"")
            .chain(["server", "base", "phone"], &[&wire, &radio])
            .between("server", "phone", "transport = { cc = \"cubic\", recovery = \"rack\" }");
        let run = run_both_ways(text.text(), 1);
        let devices = &run.summary.links[2].devices;
        let (predicted, waited, missed) = match columns {
            "zhuge" => devices.zhuge.as_ref().map(|one| (one.predicted, one.waited_s, one.missed_s)),
            _ => devices.l4span.as_ref().map(|one| (one.predicted, one.waited_s, one.missed_s)),
        }
        .expect("it counts");
        assert!(predicted > 5_000, "{helper}: {predicted}");
        let (wait, miss) = (waited / predicted as f64, missed / predicted as f64);
        assert!(miss < 0.0012, "{helper}: {miss} s of {wait} s");
    };
    scene("zhuge", "zhuge");
    scene("l4span", "l4span");
}

fn rtt(run: &Run) -> f64 {
    run.summary.flows[0].rtt_mean_s.unwrap()
}

fn goodput(run: &Run) -> f64 {
    run.summary.flows[0].goodput_bit_s
}

/// The RTT of a scalable sender is a fraction of what it is without marks, told ahead or on their way. It leaves some
/// of the cell unused, as beside DualPI2 in the cell, but much less: the ramp is made for grants.
#[test]
fn l4span_keeps_a_cell_short_for_prague() {
    let transport = "{ preset = \"prague\", accurate_ecn = true }";
    let alone = cell("", "", transport);
    let queue = cell("", "queue = \"dual-pi2\"", transport);
    let [marked, on_the_way] = ["helpers = [\"l4span\"]", "helpers = [{ kind = \"l4span\", ahead = false }]"]
        .map(|helper| cell(helper, "", transport));
    for run in [&marked, &on_the_way] {
        assert!(rtt(run) < 0.25 * rtt(&alone), "{} of {}", rtt(run), rtt(&alone));
        assert!(goodput(run) > goodput(&queue), "{} of {}", goodput(run), goodput(&queue));
    }
    let counts = |run: &Run| {
        let span = run.summary.links[2].devices.l4span.clone().unwrap();
        (span.marked, span.told_ahead)
    };
    let ((marks, ahead), (later, none)) = (counts(&marked), counts(&on_the_way));
    assert!(marks > 100 && marks == ahead, "{marks} {ahead}");
    assert!(later > 100 && none == 0, "{later} {none}");
}

/// Every mark that was made ahead is told: the counter of the last ACK stands at 5 and their number, modulo 8, and no
/// data were marked on their way.
#[test]
fn every_mark_is_told_once() {
    let run = Scene::lasting("60 s")
        .with("helpers = [\"l4span\"]")
        .with("[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"phone\"]")
        .link("server", "base", &format!("rate = \"100 Mbit/s\"\ndelay = \"10 ms\"\n{}", drop_tail("900 packets")))
        .with("[[topology.cellular]]\nbase = \"base\"\nusers = [{ node = \"phone\", cqi = 7 }]")
        .between(
            "server",
            "phone",
            "transport = { preset = \"prague\", accurate_ecn = true }\ntraffic = { kind = \"ftp\", bytes = \"9 MB\" }",
        )
        .run(1, TRACE);
    assert_eq!(run.summary.flows[0].bytes_delivered, 9_000_000);
    let span = run.summary.links[2].devices.l4span.as_ref().unwrap();
    assert!(span.told_ahead > 50, "{span:?}");
    let number = |flags: u8| u64::from((flags & flag::AE) >> 3 | (flags & (flag::CWR | flag::ECE)) >> 2);
    let acks = hops(&run).iter().filter(|hop| hop.direction == 1 && hop.kind == Kind::Ack);
    let last = acks.max_by_key(|hop| (hop.ack, hop.enqueued)).expect("ACKs");
    assert_eq!(number(last.flags), (5 + span.told_ahead) % 8, "{span:?}");
    assert!(!hops(&run).iter().any(|hop| hop.kind == Kind::Data && hop.flags & flag::CE != 0));
}

/// A classic sender whose packets may be marked keeps a queue near the 225 kB above which they are, with nearly the
/// rate that it has without; one without ECN is let alone, to the packet.
#[test]
fn l4span_bounds_a_classic_queue() {
    for errors in ["", "block_errors = [0]"] {
        let of = |helper, transport| cell(helper, errors, transport);
        let [alone, told] =
            ["", "helpers = [\"l4span\"]"].map(|helper| of(helper, "{ preset = \"cubic\", ecn = true }"));
        assert!(rtt(&told) < 0.6 * rtt(&alone), "{errors} {} {}", rtt(&told), rtt(&alone));
        assert!(goodput(&told) > 0.9 * goodput(&alone), "{errors} {} {}", goodput(&told), goodput(&alone));
        let [alone, beside] = ["", "helpers = [\"l4span\"]"].map(|helper| of(helper, "\"cubic\""));
        assert_eq!((rtt(&alone), goodput(&alone)), (rtt(&beside), goodput(&beside)));
    }
}

/// A call to a phone with six resource blocks at CQI 3, where a packet takes as long as four thresholds: by no
/// sender more frames are lost than without the helper.
#[test]
fn l4span_spares_calls_over_a_slow_bearer() {
    let call = |helper: &str, transport: &str| {
        Scene::lasting("60 s")
            .with("warmup = \"5 s\"")
            .with(helper)
            .with("[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"phone\"]")
            .link("server", "base", "rate = \"1 Gbit/s\"\ndelay = \"15 ms\"\nqueue = \"unlimited\"")
            .with("[[topology.cellular]]\nbase = \"base\"\nresource_blocks = 6")
            .with("users = [{ node = \"phone\", cqi = 3 }]")
            .between("server", "phone", &format!("transport = {transport}\ntraffic = \"video-call\""))
            .run(1, SUMMARY)
    };
    for transport in [
        "\"gcc\"",
        "\"nada\"",
        "{ rate = \"nada\", ecn = true }",
        "\"scream\"",
        "{ rate = \"scream\", ecn = true }",
        "\"tfrc\"",
        "{ rate = \"tfrc\", ecn = true }",
        "\"ssvp\"",
        "{ preset = \"prague\", accurate_ecn = true }",
        "{ preset = \"prague\" }",
    ] {
        let [alone, beside] = ["", "helpers = [\"l4span\"]"].map(|helper| call(helper, transport));
        let lost = |run: &Run| run.summary.flows[0].call.as_ref().and_then(|call| call.frames_lost).unwrap();
        assert!(lost(&beside) <= lost(&alone), "{transport}: {} {}", lost(&beside), lost(&alone));
    }
}

/// A sender that goes by delay learns of a queue that grows before its packets have passed it: where the channel of a
/// phone turns bad, the greatest queue and the RTT of Vegas are smaller. BBR, which goes by its rate, keeps its own.
#[test]
fn zhuge_tells_of_a_queue_that_grows() {
    let worst = |run: &Run| run.summary.links[2].max_queue_packets.unwrap();
    for errors in ["", "block_errors = [0]"] {
        let [alone, told] = ["", "helpers = [\"zhuge\"]"].map(|helper| cell(helper, errors, "\"vegas\""));
        let zhuge = told.summary.links[2].devices.zhuge.as_ref().unwrap();
        assert!(zhuge.delayed > 10 && zhuge.added_s > 0.05, "{zhuge:?}");
        assert!(worst(&told) < worst(&alone), "{} {}", worst(&told), worst(&alone));
        assert!(rtt(&told) < rtt(&alone), "{} {}", rtt(&told), rtt(&alone));
    }
}

/// Over a link whose rate does not change a queue grows no faster than its packets tell: nothing is added for long, and
/// a sender that goes by delay carries what it carries without.
#[test]
fn zhuge_leaves_a_steady_link_alone() {
    for law in ["copa", "vegas", "cubic"] {
        let run = |helper: &str| {
            let radio = format!("rate = \"20 Mbit/s\"\ndelay = \"15 ms\"\n{}", drop_tail("400 packets"));
            Scene::lasting("30 s")
                .with("warmup = \"5 s\"")
                .chain(
                    ["server", "base", "phone"],
                    &["rate = \"1 Gbit/s\"\ndelay = \"10 ms\"", &format!("{radio}{helper}")],
                )
                .between("server", "phone", &format!("transport = \"{law}\""))
                .run(1, SUMMARY)
        };
        let [alone, told] = ["", "\nmiddleboxes = [\"zhuge\"]"].map(run);
        let zhuge = told.summary.links[2].devices.zhuge.as_ref().unwrap();
        assert!(zhuge.added_s < 1.0, "{law}: {zhuge:?}");
        assert!(goodput(&told) > 0.98 * goodput(&alone), "{law}: {} {}", goodput(&told), goodput(&alone));
    }
}

/// At an access point of 802.11: files are whole, ACKs are delayed, and the wait of packets is predicted within two
/// fifths.
#[test]
fn zhuge_stands_at_an_access_point() {
    let text = "duration = \"20 s\"\nwarmup = \"2 s\"\nhelpers = [\"zhuge\"]\n[topology]\nkind = \"wlan\"\n\
                stations = 2\nradius = 10\nwire = { rate = \"100 Mbit/s\", delay = \"10 ms\", queue = \"unlimited\" }\n\
                [topology.cell]\nphy = \"802.11g\"\n[[flows]]\ncount = 2\ntransport = \"cubic\"\n\
                direction = \"reverse\"\n";
    let run = run_both_ways(text, 1);
    let counted: Vec<_> = run.summary.links.iter().filter_map(|link| link.devices.zhuge.as_ref()).collect();
    assert_eq!(counted.len(), 2);
    for zhuge in counted {
        assert!(zhuge.delayed > 10 && zhuge.predicted > 1_000, "{zhuge:?}");
        assert!(zhuge.missed_s < 0.4 * zhuge.waited_s, "{zhuge:?}");
    }
}
