//! A LAN with a switch: a node that joins full-duplex links, each direction with a queue of its own.

use crate::testkit::{Scene, TRACE, drop_tail, hops};

/// Hosts `a`, `b`, `c` and `d` at a switch: 10 Mbit/s, 1 ms, room for 50 packets before each output.
fn lan() -> Scene {
    let keys = format!("rate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n{}", drop_tail("50 packets"));
    let scene = Scene::lasting("1 s")
        .with("[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\", \"c\", \"d\", \"switch\"]");
    ["a", "b", "c", "d"].iter().fold(scene, |scene, host| scene.link(host, "switch", &keys))
}

/// Datagrams of 972 B, which are packets of 1000 B, at a constant rate of what is in them.
fn datagrams(rate: &str) -> String {
    format!("transport = \"udp\"\ntraffic = {{ kind = \"cbr\", rate = \"{rate}\", packet = \"972 B\" }}")
}

/// 1000 B at 10 Mbit/s take 0.8 ms, on each side of the switch, which has all of a packet before it passes it on.
#[test]
fn store_and_forward() {
    let run = lan().between("a", "b", &datagrams("1 Mbit/s")).run(1, TRACE);
    let mut arrivals: Vec<_> = hops(&run).iter().filter_map(|hop| hop.arrived).collect();
    arrivals.sort();
    assert_eq!([arrivals[0].0, arrivals[1].0], [1_800_000, 3_600_000]);
}

/// Two hosts offer 10 Mbit/s each to a third: its port alone fills and loses. What the third sends to a fourth finds
/// its ports free.
#[test]
fn a_queue_for_each_output() {
    let full = datagrams("9.72 Mbit/s");
    let scene = lan().between("a", "c", &full).between("b", "c", &full);
    let run = scene.between("c", "d", &datagrams("9 Mbit/s")).run(1, TRACE);
    for link in &run.summary.links {
        let lost = link.drops["queue-overflow"];
        // One second of 20 Mbit/s into 10: 1,250 of 2,500 packets, less those that wait or are on their way.
        let expected = if link.name == "c-switch (reverse)" { 1_150..=1_250 } else { 0..=0 };
        assert!(expected.contains(&lost), "{}: {lost}", link.name);
    }
    assert!(run.summary.links.iter().any(|link| link.name == "c-switch (reverse)"));
}

/// Snoop at a port of the switch, `at` of one of two lossy links: what that link loses is repaired there, so that its
/// host's sender hears of next to nothing; the other's sender repeats for itself, and nothing stands at its port.
#[test]
fn snoop_at_a_port() {
    let lossy = |name: &str| {
        format!(
            "name = \"{name}\"\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n{}\n\
             error = {{ kind = \"bernoulli\", packet_error_rate = 0.02 }}\nreverse = {{ error = \"none\" }}",
            drop_tail("50 packets")
        )
    };
    let wire = format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{}", drop_tail("50 packets"));
    let run = Scene::lasting("10 s")
        .with("helpers = [{ kind = \"snoop\", at = \"port-b\" }]")
        .with("[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\", \"c\", \"d\", \"switch\"]")
        .link("a", "switch", &wire)
        .link("c", "switch", &wire)
        .link("switch", "b", &lossy("port-b"))
        .link("switch", "d", &lossy("port-d"))
        .between("a", "b", "transport = \"newreno\"")
        .between("c", "d", "transport = \"newreno\"")
        .run(1, TRACE);
    let agents: Vec<_> = run
        .summary
        .links
        .iter()
        .filter_map(|link| Some((&link.name, link.devices.snoop.as_ref()?)))
        .collect();
    let [(port, agent)] = agents[..] else { panic!("{agents:?}") };
    assert_eq!(port, "port-b");
    assert!(agent.repeats_by_duplicate > 30, "{agent:?}");
    let [helped, alone] = &run.summary.flows[..] else { panic!("two flows") };
    assert!(helped.fast_recoveries.unwrap() * 10 < alone.fast_recoveries.unwrap(), "{helped:?} {alone:?}");
    assert!(helped.goodput_bit_s > 3.0 * alone.goodput_bit_s, "{helped:?} {alone:?}");
}
