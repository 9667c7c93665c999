//! FastACK at an access point: what it acknowledges arrives, whatever the air or the station loses; what it does to
//! the pace of a sender; and what a scenario may not ask of it.

use lasthop_core::packet::Kind;
use lasthop_sim::run::Run;
use lasthop_sim::scenario::{Format, Scenario};
use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
use proptest::strategy::Strategy;

use crate::testkit::{SUMMARY, Scene, hops, run_both_ways};

/// A server 10 ms from an access point with two stations; `keys` are those of the cell.
fn cell(duration: &str, helpers: &str, keys: &str) -> Scene {
    Scene::lasting(duration)
        .with(helpers)
        .with("[topology]\nkind = \"graph\"\nnodes = [\"server\", \"ap\", \"a\", \"b\"]")
        .link("server", "ap", "rate = \"1 Gbit/s\"\ndelay = \"10 ms\"\nqueue = \"unlimited\"")
        .with(&format!(
            "[[topology.cells]]\naccess_point = \"ap\"\nposition = [0, 0]\nstations = [\n{{ node = \"a\", position = \
             [4, 0] }}, {{ node = \"b\", position = [0, 5] }}]\n{keys}"
        ))
}

const N: &str = "phy = \"802.11n\"\nmcs = 7\nqueue = { kind = \"drop-tail\", limit = \"500 packets\" }";

/// A window that two of fit into the queue of the access point.
const WINDOW: &str = "[tcp]\nreceiver_window = \"200 packets\"";

/// A download of this many bytes to station `to`.
fn download(to: &str, transport: &str, bytes: u32) -> String {
    format!(
        "source = \"server\"\nsink = \"{to}\"\nstart = \"0 s\"\ntransport = {transport}\ntraffic = {{ kind = \"ftp\", \
         bytes = \"{bytes} B\" }}"
    )
}

fn counts(run: &Run) -> lasthop_sim::columns::devices::FastAckSummary {
    *run.summary.links[3].devices.fastack.clone().expect("it counts")
}

/// Without losses the sender has one ACK for each packet, made at the access point: as the BlockAck ends, before the
/// station's own could have come, and no other. All of the station's are withheld but those of the handshake and of
/// the end.
#[test]
fn the_access_point_acknowledges() {
    let scene = cell("20 s", "helpers = [\"fastack\"]", N).with(WINDOW).flow(&download(
        "a",
        "\"newreno\"",
        3_000_000,
    ));
    let run = run_both_ways(scene.text(), 1);
    let found = counts(&run);
    assert_eq!(run.summary.flows[0].bytes_delivered, 3_000_000);
    let data = hops(&run).iter().filter(|hop| hop.direction == 0 && hop.kind == Kind::Data).count() as u64;
    assert!(found.sent <= data && found.sent + 5 > data, "{found:?} of {data}");
    assert_eq!((found.repeats, found.uncached), (0, 0), "{found:?}");
    let wired: Vec<_> = hops(&run).iter().filter(|hop| hop.direction == 1 && hop.kind == Kind::Ack).collect();
    assert!(wired.is_sorted_by_key(|hop| hop.ack));
    assert!(wired.len() as u64 <= found.sent + 3, "{} of {}", wired.len(), found.sent);
    // The ACKs of the station come to the access point later than those from there have left it.
    let of_station: Vec<_> =
        hops(&run).iter().filter(|hop| hop.direction == 2 && hop.kind == Kind::Ack).collect();
    for (ack, own) in of_station.iter().filter_map(|own| Some((own.ack, own.arrived?))).skip(2).take(1000) {
        let told = wired.iter().find(|hop| hop.ack >= ack).unwrap().enqueued;
        assert!(told <= own, "{ack}: {told:?} and {own:?}");
    }
}

/// A packet in fifty is lost behind the MAC, which says that it has arrived. The sender has been told so too, and never
/// repeats it: the access point does.
#[test]
fn what_the_mac_says_wrongly_is_repaired() {
    let error = "error = { kind = \"bernoulli\", packet_error_rate = 0.02, position = \"after-arq\" }";
    for transport in ["\"newreno\"", "{ cc = \"cubic\", recovery = \"rack\" }"] {
        let scene = cell("60 s", "helpers = [\"fastack\"]", &format!("{N}\n{error}"))
            .with(WINDOW)
            .flow(&download("a", transport, 3_000_000))
            .flow(&download("b", transport, 1_000_000));
        let run = run_both_ways(scene.text(), 1);
        let [one, other] = &run.summary.flows[..] else { panic!() };
        assert_eq!((one.bytes_delivered, other.bytes_delivered), (3_000_000, 1_000_000), "{transport}");
        let found = counts(&run);
        assert!(found.repeats > 20, "{found:?}");
        // The wire loses nothing: the sender has no reason to send anything twice, but for ACKs that are lost.
        let share = one.retransmitted_packets.unwrap() as f64 / found.sent as f64;
        assert!(share < 0.005, "{share}: {found:?}");
    }
}

/// Two stations download with windows that no queue is too short for: the sender's RTT ends at the access
/// point, and is shorter by what a station waits for the air. (Where CUBIC fills the queue, its RTT is the queue's.)
#[test]
fn the_round_trip_ends_at_the_access_point() {
    let with = |helpers: &str| {
        let bulk = "transport = \"cubic\"";
        let scene = cell("20 s", &format!("warmup = \"5 s\"\n{helpers}"), N).with(WINDOW);
        scene.between("server", "a", bulk).between("server", "b", bulk).run(1, SUMMARY)
    };
    let (plain, fast) = (with(""), with("helpers = [\"fastack\"]"));
    let rtt = |run: &Run| run.summary.flows[0].rtt_mean_s.unwrap();
    assert!(rtt(&fast) < rtt(&plain), "{} {}", rtt(&fast), rtt(&plain));
}

/// A station with little room to receive: its window is never overrun, and opens again.
#[test]
fn the_window_of_the_station_holds() {
    for window in ["2 packets", "7 packets", "30 packets"] {
        let transport = format!("{{ cc = \"reno\", receiver_window = \"{window}\" }}");
        let error = "error = { kind = \"bernoulli\", packet_error_rate = 0.01, position = \"after-arq\" }";
        let scene = cell("200 s", "helpers = [\"fastack\"]", &format!("{N}\n{error}"))
            .flow(&download("a", &transport, 500_000));
        let run = run_both_ways(scene.text(), 3);
        assert_eq!(run.summary.flows[0].bytes_delivered, 500_000, "{window}");
    }
}

/// Connections with ECN pass as they are: only the station sees the marks.
#[test]
fn connections_with_ecn_are_left_alone() {
    let scene = cell("20 s", "helpers = [\"fastack\"]", N).flow(&download(
        "a",
        "{ preset = \"cubic\", ecn = true }",
        1_000_000,
    ));
    let run = run_both_ways(scene.text(), 1);
    assert_eq!((counts(&run).sent, run.summary.flows[0].bytes_delivered), (0, 1_000_000));
}

/// What cannot work is refused, with the reason.
#[test]
fn it_stands_where_a_mac_acknowledges() {
    let refused = |text: &str| Scenario::parse(text, Format::Toml, "test", &[]).unwrap_err().to_string();
    let wired = Scene::lasting("5 s")
        .with("helpers = [{ kind = \"fastack\", at = \"a-b\" }]")
        .chain(
            ["a", "b", "c"],
            &["rate = \"1 Mbit/s\"\ndelay = \"1 ms\"", "rate = \"1 Mbit/s\"\ndelay = \"1 ms\""],
        )
        .between("a", "c", "transport = \"reno\"");
    assert!(
        refused(wired.text()).contains("hears no acknowledgements of 802.11"),
        "{}",
        refused(wired.text())
    );
    let walks = concat!("helpers = [\"fastack\"]\n", include_str!("../../../scenarios/walking-host.toml"));
    assert!(refused(walks).contains("hosts leave the access point"), "{}", refused(walks));
}

/// Downloads and an upload in a cell of any generation, with errors that the MAC sees and such that it does not.
fn random_cell() -> impl Strategy<Value = (String, u64)> {
    let phys = [
        "phy = \"802.11g\"\nrate = \"54 Mbit/s\"",
        "phy = \"802.11n\"\nmcs = 5",
        "phy = \"802.11ac\"\nmcs = 7\nwidth = 40\nqueues = \"airtime\"",
        "phy = \"802.11ax\"\nqueues = \"airtime\"\nrate_control = \"minstrel-ht\"",
        "phy = \"802.11n\"\nmcs = 5\naggregation = { reorder_timeout = \"10 ms\", tries = 2 }",
    ];
    let errors = [
        "",
        "error = { kind = \"bernoulli\", packet_error_rate = 0.1 }",
        "error = { kind = \"bernoulli\", packet_error_rate = 0.05, position = \"after-arq\" }",
        "error = { kind = \"bernoulli\", packet_error_rate = 0.15, position = \"after-arq\" }",
    ];
    let transports =
        ["\"newreno\"", "\"tahoe\"", "{ cc = \"cubic\", recovery = \"rack\" }", "\"vegas\"", "\"bbr\""];
    let helper = (1u32..400, 1u32..5, 20u32..400).prop_map(|(cache, threshold, timeout)| {
        format!(
            "{{ kind = \"fastack\", cache = {cache}, threshold = {threshold}, timeout = \"{timeout} ms\" }}"
        )
    });
    let ends = (2u32..300, 0..3_usize);
    let sizes = (1u32..400_000, 1u32..400_000, 1u32..100_000);
    ((0..phys.len(), 0..errors.len(), 0..transports.len()), helper, ends, sizes, 2u32..200, 0u64..1000).prop_map(
        move |((phy, error, transport), helper, (window, profile), (one, two, three), queue, seed)| {
            let queue = if phys[phy].contains("airtime") {
                String::new()
            } else {
                format!("queue = {{ kind = \"drop-tail\", limit = \"{queue} packets\" }}\n")
            };
            let keys = format!("{}\n{queue}{}", phys[phy], errors[error]);
            let (transport, profile) = (transports[transport], ["rfc", "linux", "ns2"][profile]);
            let upload = format!(
                "source = \"b\"\nsink = \"server\"\nstart = \"0 s\"\ntransport = {transport}\ntraffic = {{ kind = \
                 \"ftp\", bytes = \"{three} B\" }}"
            );
            let scene = cell("300 s", &format!("helpers = [{helper}]"), &keys)
                .with(&format!("[tcp]\nreceiver_window = \"{window} packets\"\nprofile = \"{profile}\""))
                .flow(&download("a", transport, one))
                .flow(&download("b", transport, two))
                .flow(&upload);
            (scene.text().to_owned(), seed)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every byte arrives, whatever is acknowledged before it does; ahead of the clock as by the clock.
    #[test]
    fn every_byte_arrives((text, seed) in random_cell()) {
        let run = run_both_ways(&text, seed);
        for (flow, line) in run.summary.flows.iter().zip(text.lines().filter(|line| line.contains("bytes = "))) {
            let bytes = line.split("bytes = \"").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            prop_assert_eq!(flow.bytes_delivered.to_string(), bytes, "{}: {}", &flow.name, text);
        }
    }
}
