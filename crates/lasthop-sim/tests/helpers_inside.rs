//! Helpers in the network together and apart: what each does over a whole run, what none of them changes, and that the
//! application gets what was written, whatever stands in the path.

use std::fmt::Write as _;

use lasthop_sim::run::Run;
use proptest::prelude::*;

use crate::testkit::{plan_of, run_both_ways};

/// Runs it both ways and returns one of the two.
fn run(text: &str) -> Run {
    run_both_ways(text, 1)
}

/// A server, a router and a phone; `helpers` as a list, `radio` describes the last hop, `flows` the flows.
fn path(helpers: &str, radio: &str, flows: &str) -> String {
    format!(
        r#"
duration = "40 s"
helpers = [{helpers}]
[topology]
kind = "graph"
nodes = ["server", "router", "phone"]
[[topology.links]]
from = "server"
to = "router"
rate = "50 Mbit/s"
delay = "20 ms"
queue = {{ kind = "drop-tail", limit = "500 packets" }}
[[topology.links]]
from = "router"
to = "phone"
rate = "5 Mbit/s"
delay = "5 ms"
queue = {{ kind = "drop-tail", limit = "200 packets" }}
{radio}
{flows}
"#
    )
}

fn file(from: &str, to: &str, bytes: &str, transport: &str) -> String {
    format!(
        "[[flows]]\nname = \"{from}-{to}\"\nsource = \"{from}\"\nsink = \"{to}\"\ntransport = \"{transport}\"\n\
         start = \"0 s\"\ntraffic = {{ kind = \"ftp\", bytes = \"{bytes}\" }}\n"
    )
}

fn error(p: f64) -> String {
    format!("error = {{ kind = \"bernoulli\", packet_error_rate = {p} }}\n")
}

/// WTCP repairs before the wireless link: the source repeats next to nothing, and its RTT does not show the repairs.
#[test]
fn wtcp_repairs_and_hides_it() {
    let flow = file("server", "phone", "5 MB", "newreno");
    let plain = run(&path("", &error(0.03), &flow));
    let helped = run(&path("\"wtcp\"", &error(0.03), &flow));
    let (before, after) = (&plain.summary.flows[0], &helped.summary.flows[0]);
    assert_eq!(after.bytes_delivered, 5_000_000);
    assert!(
        after.retransmitted_packets.unwrap() < 20 && before.retransmitted_packets.unwrap() > 50,
        "{after:?}"
    );
    assert!(
        after.completion_s.unwrap() < 0.9 * before.completion_s.unwrap_or(40.0),
        "{:?}",
        after.completion_s
    );
    let agent = helped.summary.links[2].devices.wtcp.as_ref().unwrap();
    assert!(agent.repeats_by_duplicate > 50 && agent.hidden_s > 0.5, "{agent:?}");
    assert!(helped.summary.totals.helper_retransmissions.unwrap() > 50);
}

/// A host walks from one base station to another and back. With its connection moved, nothing waits for the source's
/// timer; forgotten or left behind, the next agent lets the connection alone. Its file is whole in each case.
#[test]
fn wtcp_moves_with_the_host() {
    const ERROR: &str = "{ kind = \"bernoulli\", packet_error_rate = 0.01 }";
    let text = |handoff: &str, under_way: &str| {
        let step = |at: u32, base: &str| {
            let nodes = format!("[\"server\", \"core\", \"{base}\", \"host\"]");
            format!("{{ at = \"{at} s\", nodes = {nodes}, under_way = \"{under_way}\" }}")
        };
        let reroute = [(2, "new"), (4, "old"), (6, "new")].map(|(at, base)| step(at, base)).join(", ");
        format!(
            r#"
duration = "60 s"
helpers = [{{ kind = "wtcp", handoff = "{handoff}" }}]
[topology]
kind = "graph"
nodes = ["server", "core", "old", "new", "host"]
links = [
    {{ from = "server", to = "core", rate = "100 Mbit/s", delay = "50 ms", queue = "unlimited" }},
    {{ from = "core", to = "old", rate = "10 Mbit/s", delay = "2 ms", queue = "unlimited" }},
    {{ from = "core", to = "new", rate = "10 Mbit/s", delay = "2 ms", queue = "unlimited" }},
    {{ name = "radio-1", from = "old", to = "host", rate = "2 Mbit/s", delay = "5 ms", error = {ERROR} }},
    {{ name = "radio-2", from = "new", to = "host", rate = "2 Mbit/s", delay = "5 ms", error = {ERROR} }},
]
[[flows]]
source = "server"
sink = "host"
transport = "newreno"
start = "0 s"
reroute = [{reroute}]
traffic = {{ kind = "ftp", bytes = "2 MB" }}
"#
        )
    };
    let of = |run: &Run, count: fn(&lasthop_sim::columns::devices::WtcpSummary) -> u64| -> u64 {
        run.summary.links.iter().filter_map(|link| link.devices.wtcp.as_deref()).map(count).sum()
    };
    for under_way in ["lose", "divert"] {
        let [moved, fresh, ignored] = ["move", "fresh", "ignore"].map(|how| run(&text(how, under_way)));
        assert_eq!(of(&moved, |agent| agent.moved), 3);
        assert!(of(&moved, |agent| agent.repeats_at_handoff) > 5);
        for other in [&fresh, &ignored] {
            assert_eq!(of(other, |agent| agent.moved + agent.repeats_at_handoff), 0);
        }
        for run in [&moved, &fresh, &ignored] {
            assert_eq!(run.summary.flows[0].bytes_delivered, 2_000_000, "{under_way}");
        }
        let [took, without] =
            [&moved, &fresh].map(|run| run.summary.flows[0].completion_s.unwrap_or(f64::INFINITY));
        assert!(took < without, "{took} s against {without} s, {under_way}");
        let [repeated, before] =
            [&moved, &fresh].map(|run| run.summary.flows[0].retransmitted_packets.unwrap());
        assert!(repeated < before, "{repeated} against {before}, {under_way}");
    }
}

/// Over a return path of 20 kbit/s a file fills the queue with ACKs, which wait for their turn; with the filter the
/// newest stands for the others, and the sender hears of its data in a fraction of the time.
#[test]
fn ack_filtering_saves_a_slow_return_path() {
    let radio = |more: &str| {
        format!(
            "reverse = {{ rate = \"20 kbit/s\", delay = \"5 ms\", queue = {{ kind = \"drop-tail\", limit = \
             \"20 packets\" }}{more} }}"
        )
    };
    let flow = file("server", "phone", "2 MB", "newreno");
    let plain = run(&path("", &radio(""), &flow));
    let filtered = run(&path("", &radio(", middleboxes = [\"ack-filter\"]"), &flow));
    let rtt = |run: &Run| run.summary.flows[0].rtt_mean_s.unwrap();
    assert!(rtt(&filtered) < 0.6 * rtt(&plain), "{} of {}", rtt(&filtered), rtt(&plain));
    let filter = filtered.summary.links[3].devices.ack_filter.as_ref().unwrap();
    assert!(filter.withheld > 100, "{filter:?}");
    assert_eq!(filtered.summary.flows[0].bytes_delivered, 2_000_000);
}

/// Helpers together: a file is whole, and each had something to do.
#[test]
fn helpers_stand_side_by_side() {
    let flow = file("server", "phone", "3 MB", "newreno");
    let sum = |run: &Run, what: fn(&Run) -> u64| what(run);
    for (helpers, radio) in [
        ("\"fec\", \"snoop\"", ""),
        ("\"snoop\", \"fec\"", ""),
        ("\"split\", \"snoop\"", ""),
        ("\"split\", \"fec\"", ""),
        ("\"split\", \"wtcp\"", ""),
        ("\"fec\", \"arq\"", ""),
        ("\"wtcp\", \"fec\"", "arq = { attempts = 2 }\n"),
        ("\"split\", \"fec\"", "codel"),
    ] {
        let mut text = path(helpers, &(error(0.03) + radio.trim_start_matches("codel")), &flow);
        if radio == "codel" {
            text = text
                .replace("queue = { kind = \"drop-tail\", limit = \"200 packets\" }", "queue = \"fq-codel\"");
        }
        let run = run(&text);
        let row = &run.summary.flows[0];
        assert_eq!(row.bytes_delivered, 3_000_000, "{helpers} {radio}");
        assert!(row.completion_s.is_some(), "{helpers} {radio}");
        let link = &run.summary.links[2];
        assert_eq!(link.devices.fec.is_some(), helpers.contains("fec"));
        assert!(link.devices.fec.as_ref().is_none_or(|fec| fec.repairs > 0), "{helpers}");
        assert_eq!(row.split.is_some(), helpers.contains("split"));
        let repaired = sum(&run, |run| {
            let proxies = run.summary.flows[0].split.as_ref().map_or(0, |split| split.retransmitted_packets);
            proxies
                + run.summary.totals.helper_retransmissions.unwrap_or(0)
                + run.summary.totals.link_retransmissions.unwrap_or(0)
        });
        assert!(repaired > 20, "{helpers}: {repaired}");
    }
}

/// FEC and Snoop go over the radio of 802.11 too, where the MAC repairs what it can.
#[test]
fn helpers_stand_at_access_points() {
    let text = |helpers: &str| {
        format!(
            "duration = \"10 s\"\nhelpers = [{helpers}]\n[topology]\nkind = \"wlan\"\ncell = {{ error = {{ kind = \
             \"bernoulli\", packet_error_rate = 0.15 }}, long_retry_limit = 2, short_retry_limit = 2 \
             }}\n[[flows]]\ntransport = \"newreno\"\ndirection = \"reverse\"\ntraffic = {{ kind = \"ftp\", bytes = \
                                          \"1 MB\" }}\n"
        )
    };
    for helpers in ["\"fec\"", "\"wtcp\"", "\"fec\", \"wtcp\""] {
        let run = run(&text(helpers));
        assert_eq!(run.summary.flows[0].bytes_delivered, 1_000_000, "{helpers}");
    }
}

/// A list of helpers, of those that may stand together.
fn helpers() -> impl Strategy<Value = String> {
    let one = prop::sample::select(vec!["", "snoop", "wtcp", "fec", "arq"]);
    (any::<bool>(), one.clone(), one).prop_map(|(split, first, second)| {
        let mut list = Vec::new();
        if split {
            list.push("split");
        }
        list.extend([first, second].into_iter().filter(|name| !name.is_empty()));
        list.dedup();
        list.iter()
            .map(|name| format!("{{ kind = \"{name}\", at = \"router-phone\" }}"))
            .collect::<Vec<_>>()
            .join(", ")
    })
}

fn flows() -> impl Strategy<Value = String> {
    let one = (any::<bool>(), 1u32..200, prop::sample::select(vec!["newreno", "cubic", "sack", "westwood+"]));
    prop::collection::vec(one, 1..4).prop_map(|flows| {
        let mut text = String::new();
        for ((down, kilobytes, transport), number) in flows.into_iter().zip(1..) {
            let (from, to) = if down { ("server", "phone") } else { ("phone", "server") };
            let one = file(from, to, &format!("{kilobytes} kB"), transport);
            let _ = write!(text, "{}", one.replacen(&format!("{from}-{to}"), &format!("flow-{number}"), 1));
        }
        text
    })
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(48))]

    /// Whatever stands in the path and whatever is lost: ahead of the clock and by it the same happens, the ledger
    /// balances, and every file that is complete is whole.
    #[test]
    fn files_arrive_whole(helpers in helpers(), flows in flows(), loss in 0.0..0.08f64, wired in 0.0..0.01f64) {
        let text = path(&helpers, &error(loss), &flows).replacen("queue", &format!("{}queue", error(wired)), 1);
        let plan = plan_of(&text);
        let run = run(&text);
        for (row, planned) in run.summary.flows.iter().zip(&plan.flows) {
            let Some(bytes) = planned.traffic.given_length() else { continue };
            prop_assert!(row.bytes_delivered <= bytes, "{}", text);
            prop_assert!(row.completion_s.is_none() || row.bytes_delivered == bytes, "{}", text);
            let delivered = row.bytes_delivered;
            prop_assert!(delivered == bytes || loss > 0.02, "{delivered} of {bytes} in {text}");
        }
    }

    /// Where nothing is lost, agents change no byte and no microsecond of a connection: all packets cross all links at
    /// the same times. (Repairs of FEC take their time on the link, a split has connections of its own, and
    /// retransmission by the link follows a clock of its own.)
    #[test]
    fn agents_are_invisible(agent in prop::sample::select(vec!["snoop", "wtcp"]), flow in flows()) {
        // One flow: between several, lots are drawn by who hands a packet on, and an agent is somebody else.
        let flow = flow.split("[[flows]]").nth(1).map(|one| format!("[[flows]]{one}")).unwrap_or_default();
        let queue = "";
        let plain = run(&path("", queue, &flow));
        let agent = format!("{{ kind = \"{agent}\", at = \"router-phone\" }}");
        let helped = run(&path(&agent, queue, &flow));
        prop_assert_eq!(&plain.summary.fingerprint, &helped.summary.fingerprint);
    }
}
