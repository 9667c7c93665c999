//! Web pages over kept connections: times worked by hand on a lossless path, and what must hold of every run.

use lasthop_net::plan::Transport;
use lasthop_sim::run::Run;

use crate::testkit::{plan_of, run_both_ways};

fn run(text: &str) -> Run {
    run_both_ways(text, 1)
}

/// A server and a browser, 10 Mbit/s and 20 ms one way, without delayed ACKs.
fn scenario(traffic: &str, more: &str) -> String {
    format!(
        r#"
        duration = "20 s"
        tcp = {{ delayed_ack = false }}
        [topology]
        kind = "graph"
        nodes = ["server", "home"]
        links = [{{ from = "server", to = "home", rate = "10 Mbit/s", delay = "20 ms", queue = "unlimited" }}]
        [[flows]]
        name = "web"
        source = "server"
        sink = "home"
        transport = "newreno"
        start = "0 s"
        traffic = {{ kind = "web", pages = 1, {traffic} }}
        {more}"#
    )
}

/// The time of the one page, in seconds.
fn page_time(traffic: &str) -> f64 {
    let run = run(&scenario(traffic, ""));
    let totals = &run.summary.totals;
    assert_eq!((totals.pages, totals.finished_pages), (Some(1), Some(1)));
    totals.page_time_p50_s.unwrap()
}

/// Seconds that bytes on the wire take at 10 Mbit/s.
fn at_rate(bytes: u32) -> f64 {
    f64::from(bytes) * 8.0 / 10e6
}

const ONE_WAY: f64 = 0.020;

/// SYN, SYN-ACK, request and answer: two round trips, the transmission of each, and the SYN-ACK of the server's
/// direction, which follows the request and lets the answer go.
#[test]
fn one_object_takes_two_round_trips() {
    let time = page_time(r#"objects = [{ size = "1000 B" }], request = "400 B""#);
    let plan = plan_of(&scenario(r#"objects = [{ size = "1000 B" }]"#, ""));
    let Transport::Tcp(tcp) = &plan.flows[0].transport else { panic!("TCP") };
    let (syn, header) = (tcp.syn_size(), tcp.data_header());
    let handshake = 2.0 * (at_rate(syn) + ONE_WAY);
    // The server's SYN leaves behind its SYN-ACK and arrives one transmission later; the request is on its way then.
    let request = at_rate(400 + header).max(at_rate(syn)) + at_rate(syn) + ONE_WAY;
    let answer = at_rate(1000 + header) + ONE_WAY;
    let by_hand = handshake + request + answer;
    assert!((time - by_hand).abs() < 1e-6, "{time}, by hand {by_hand}");
}

/// A document that names a picture: over the open connection one more round trip and both transmissions.
#[test]
fn what_is_named_takes_a_round_trip_more() {
    let one = page_time(r#"objects = [{ size = "1000 B" }]"#);
    let two = page_time(r#"objects = [{ size = "1000 B" }, { size = "1000 B", after = 1 }]"#);
    let plan = plan_of(&scenario(r#"objects = [{ size = "1000 B" }]"#, ""));
    let Transport::Tcp(tcp) = &plan.flows[0].transport else { panic!("TCP") };
    let header = tcp.data_header();
    let by_hand = at_rate(400 + header) + ONE_WAY + at_rate(1000 + header) + ONE_WAY;
    // The ACK of the answer leaves before the next request.
    let ack = at_rate(tcp.ack_size());
    let more = two - one;
    assert!((by_hand..=by_hand + 2.0 * ack + 1e-9).contains(&more), "{more}, by hand {by_hand}");
}

/// Twelve small objects behind a document: in two rounds over six connections of HTTP/1.1, of which five open first;
/// in one over HTTP/2.
#[test]
fn protocols_take_their_rounds() {
    let objects = r#"objects = [{ size = "500 B" }, { size = "500 B", count = 12, after = 1 }]"#;
    let old = page_time(&format!(r#"{objects}, protocol = "http/1.1""#));
    let new = page_time(objects);
    // Handshake, document, all at once: 3 round trips. Or handshake, document, handshake of five, two rounds: the first
    // connection is two objects ahead of the five, which have ten of twelve for themselves: 5.
    assert!((0.120..0.135).contains(&new), "{new}");
    assert!((0.200..0.225).contains(&old), "{old}");
}

#[test]
fn a_server_thinks() {
    let page = r#"objects = [{ size = "1000 B" }]"#;
    let more = page_time(&format!(r#"{page}, server_time = "50 ms""#)) - page_time(page);
    assert!((more - 0.050).abs() < 1e-3, "{more}");
}

/// Whatever the loss: every byte that was asked for and no other arrives, and a page that came was as long as it is.
#[test]
fn pages_arrive_whole() {
    let text = scenario(r#"page = "inner-mobile", protocol = "http/1.1", think = "100 ms""#, "")
        .replace("pages = 1, ", "pages = 2, ")
        .replace(
            r#"queue = "unlimited""#,
            r#"queue = { kind = "drop-tail", limit = "30 packets" },
                error = { kind = "bernoulli", packet_error_rate = 0.02 }"#,
        )
        .replace("duration = \"20 s\"", "duration = \"120 s\"");
    for seed in 1..=3 {
        let run = run(&format!("seed = {seed}\n{text}"));
        let row = &run.summary.flows[0];
        let web = row.web.as_deref().unwrap();
        assert_eq!((run.summary.flows.len(), web.pages_asked, web.pages_read), (1, 2, 2), "seed {seed}");
        let page = 17 + 77 + 582 + 348 + 108;
        let lost = 2 * page * 1024 - row.bytes_delivered;
        assert!(lost < 120, "{lost} B missing, beside whole bytes of objects");
        assert!(row.retransmitted_packets.unwrap() > 0);
    }
}

/// Another reader leaves the pages of the first alone on a link that both do not share, and the same seed gives the
/// same bytes.
#[test]
fn readers_do_not_meet() {
    let traffic = r#"objects = [{ size = "20 kB" }], think = "500 ms""#;
    let alone = scenario(traffic, "").replace("pages = 1, ", "");
    let link = "links = [{ from = \"a\", to = \"b\", rate = \"1 Mbit/s\", delay = \"5 ms\" }, ";
    let wider = alone
        .replace(r#"nodes = ["server", "home"]"#, r#"nodes = ["server", "home", "a", "b"]"#)
        .replace("links = [", link);
    let other = r#"
        [[flows]]
        name = "other"
        source = "a"
        sink = "b"
        transport = "newreno"
        traffic = { kind = "web", objects = [{ size = "5 kB" }], think = "300 ms" }"#;
    let both = format!("{wider}\n{other}\n");
    let (first, again, other) = (run(&alone), run(&alone), run(&both));
    assert_eq!(first.summary.fingerprint, again.summary.fingerprint);
    let web = |run: &Run| run.summary.flows[0].web.as_deref().map(|web| (web.pages_asked, web.page_mean_s));
    assert_eq!(web(&first), web(&other));
    assert!(first.summary.flows[0].web.as_deref().unwrap().pages_asked > 20);
}

/// A proxy splits the connections of a browser as it splits any other; no byte is lost.
#[test]
fn connections_may_be_split() {
    let text = scenario(r#"page = "inner-mobile", protocol = "http/1.1""#, "")
        .replace(r#"nodes = ["server", "home"]"#, r#"nodes = ["server", "base", "home"]"#)
        .replace(
            r#"links = [{ from = "server", to = "home""#,
            r#"links = [{ from = "server", to = "base", rate = "50 Mbit/s", delay = "10 ms" },
                { from = "base", to = "home", error = { kind = "bernoulli", packet_error_rate = 0.02 }"#,
        )
        .replace("tcp = {", "helpers = [\"split\"]\n        tcp = {");
    let run = run(&text);
    let row = &run.summary.flows[0];
    assert_eq!((run.summary.flows.len(), row.web.as_deref().unwrap().pages_read), (1, 1));
    let page = (17 + 77 + 582 + 348 + 108) * 1024;
    assert!(page - row.bytes_delivered < 60, "{}", row.bytes_delivered);
}
