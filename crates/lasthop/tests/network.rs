//! The library as programs use it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lasthop::{
    Cause, Datagram, DatagramId, Ecn, Error, Fate, Frames, HostId, Link, Network, Path, Recording, SendError,
    Span, Time, Wake,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn to(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Two hosts at the ends of one link.
fn pair(link: Link, seed: u64) -> (Network, HostId, HostId) {
    let mut network = Network::new(&Path::new(["a", "b"]).link(link), seed).unwrap();
    let first = network.attach("a", ip("10.0.0.1")).unwrap();
    let second = network.attach("b", ip("10.0.0.2")).unwrap();
    (network, first, second)
}

fn drain(network: &mut Network, mut each: impl FnMut(&lasthop::Arrival<'_>)) {
    while network.next_event(Time::MAX) == Wake::Arrivals {
        while let Some(arrival) = network.recv() {
            each(&arrival);
        }
    }
}

/// A datagram takes its transmission and its propagation: 8 and 20 bytes of UDP and IPv4, 8 and 40 with IPv6.
#[test]
fn a_datagram_takes_its_time() {
    let mut network =
        Network::new(&Path::new(["a", "b"]).link(Link::new(1_000_000).delay_ms(10)), 1).unwrap();
    let first = network.attach("a", ip("10.0.0.1")).unwrap();
    let second = network.attach("b", ip("10.0.0.2")).unwrap();
    let sixth = network.attach("a", ip("2001:db8::1")).unwrap();
    network.attach("b", ip("2001:db8::2")).unwrap();
    network.send(first, Datagram::new(7, to("10.0.0.2:9"), &[5; 100])).unwrap();
    assert_eq!(network.next_event(Time::MAX), Wake::Arrivals);
    assert_eq!(network.now(), Time((128 * 8 + 10_000) * 1_000));
    let arrival = network.recv().unwrap();
    assert_eq!((arrival.host, arrival.from, arrival.to), (second, to("10.0.0.1:7"), to("10.0.0.2:9")));
    assert_eq!((&*arrival.data, arrival.ecn, arrival.copy), (&[5; 100][..], Ecn::NotEct, 0));
    assert_eq!(network.recv(), None);
    let before = network.now();
    network.send(sixth, Datagram::new(7, to("[2001:db8::2]:9"), &[5; 100])).unwrap();
    assert_eq!(network.next_event(Time::MAX), Wake::Arrivals);
    assert_eq!(network.now().since(before), Span((148 * 8 + 10_000) * 1_000));
}

/// All four code points arrive as they were sent, and a queue that marks makes CE of both kinds of ECT alone.
#[test]
fn the_ecn_field_passes() {
    // Two that leave the others a queue.
    let all = [Ecn::NotEct, Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    let marks = Link::new(1_000_000).key("mark", "\"1 packets\"");
    for (link, marked) in [(Link::new(1_000_000), false), (marks, true)] {
        let (mut network, first, _) = pair(link, 1);
        for ecn in all {
            assert_eq!(Ecn::from_bits(ecn.bits()), ecn);
            let datagram = Datagram { ecn, ..Datagram::new(1, to("10.0.0.2:1"), &[0; 100]) };
            network.send(first, datagram).unwrap();
        }
        let mut got = Vec::new();
        drain(&mut network, |arrival| got.push(arrival.ecn));
        let expected = if marked { [Ecn::NotEct, Ecn::NotEct, Ecn::Ce, Ecn::Ce, Ecn::Ce] } else { all };
        assert_eq!(got, expected);
    }
}

/// Loss, duplication and reordering: what is lost, doubled and overtaken is what the path was told to do, every
/// datagram's fate is known, and no slot of a lost one is kept.
#[test]
fn every_datagram_has_its_fate() {
    let link =
        Link::new(100_000_000).delay_ms(5).loss(0.1).duplicate(0.05).reorder_within(Duration::from_millis(3));
    let (mut network, first, _) = pair(link, 7);
    network.keep_fates();
    let mut numbers = Vec::new();
    for number in 0..10_000u32 {
        let launch = Some(Time(u64::from(number) * 1_000_000));
        let datagram = Datagram { launch, ..Datagram::new(1, to("10.0.0.2:1"), &[0; 200]) };
        assert_eq!(network.send(first, datagram).unwrap(), DatagramId(number.into()));
    }
    let mut copies = 0;
    drain(&mut network, |arrival| {
        copies += arrival.copy;
        numbers.push(arrival.id.0);
    });
    assert_eq!(network.under_way(), 0, "no slot is kept");
    let (mut lost, mut delivered) = (0, 0);
    for number in 0..10_000 {
        match network.fate(DatagramId(number)).unwrap() {
            Fate::Lost { cause, link, at } => {
                lost += 1;
                assert_eq!((cause, link.as_deref()), (Cause::ChannelError, Some("a-b")));
                assert!(at.0 >= number * 1_000_000);
            }
            Fate::Delivered { copies, .. } => {
                delivered += copies;
                assert!(copies <= 2);
            }
            Fate::UnderWay => panic!("{number} is under way"),
        }
    }
    assert_eq!(delivered as usize, numbers.len());
    // A doubled datagram is lost only if both copies are.
    assert!((900..1_050).contains(&lost), "{lost}");
    assert!((380..520).contains(&copies), "{copies}");
    let overtaken = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(overtaken > 1_000, "{overtaken}");
    let summary = network.finish().summary;
    assert_eq!(summary.flows[0].packets_sent, 10_000);
    assert_eq!(summary.flows[0].bytes_delivered, (10_000 - lost) * 200);
}

/// An erasure code makes lost datagrams anew, with the bytes that they had.
#[test]
fn an_erasure_code_keeps_the_bytes() {
    let (mut network, first, _) =
        pair(Link::new(10_000_000).delay_ms(5).loss(0.05).key("middleboxes", "[\"fec\"]"), 1);
    network.keep_fates();
    for number in 0..20_000u64 {
        let launch = Some(Time(number * 1_000_000));
        let data = [number.to_be_bytes(); 20].concat();
        network.send(first, Datagram { launch, ..Datagram::new(1, to("10.0.0.2:1"), &data) }).unwrap();
    }
    let mut arrived = 0;
    drain(&mut network, |arrival| {
        arrived += 1;
        assert_eq!(*arrival.data, [arrival.id.0.to_be_bytes(); 20].concat());
    });
    assert!(arrived > 19_300, "{arrived} of 20,000, where 19,000 would arrive without the code");
    assert_eq!(network.under_way(), 0);
    let mut lost = 0;
    for number in 0..20_000 {
        lost += u64::from(matches!(network.fate(DatagramId(number)), Some(Fate::Lost { .. })));
    }
    assert_eq!(lost + arrived, 20_000);
}

/// Everything that a program can see of a run.
fn trace(seed: u64) -> Vec<(u64, u64, u8, Vec<u8>)> {
    let link = Link::new(5_000_000)
        .delay_ms(10)
        .queue_packets(20)
        .loss(0.02)
        .reorder_within(Duration::from_millis(4));
    let (mut network, first, second) = pair(link, seed);
    let mut stream = network.entropy(first, "payload");
    let mut seen = Vec::new();
    for host in [first, second] {
        network.set_timer(host, 0, Some(Time(0)));
    }
    loop {
        match network.next_event(Time(2_000_000_000)) {
            Wake::Timer { host, .. } => {
                let mut data = vec![0; 1 + stream.below(1_400) as usize];
                stream.fill(&mut data);
                let peer = if host == first { "10.0.0.2:1" } else { "10.0.0.1:1" };
                network.send(host, Datagram::new(1, to(peer), &data)).unwrap();
                let at = network.now() + Span(stream.below(3_000_000));
                network.set_timer(host, 0, Some(at));
            }
            Wake::Arrivals => {
                while let Some(arrival) = network.recv() {
                    seen.push((arrival.at.0, arrival.id.0, arrival.ecn.bits(), arrival.data.to_vec()));
                }
            }
            Wake::Until | Wake::End => return seen,
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert!(trace(3).len() > 1_000);
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

/// Ten thousand connections over one bottleneck, each with a request and an answer: all are served, and the network
/// keeps nothing of them.
#[test]
fn ten_thousand_connections() {
    let path = Path::new(["client", "left", "right", "server"])
        .link(Link::new(1_000_000_000))
        .link(Link::new(100_000_000).delay_ms(20).key("queue", "\"fq-codel\""))
        .link(Link::new(1_000_000_000));
    let mut network = Network::new(&path, 1).unwrap();
    let client = network.attach("client", ip("10.0.0.1")).unwrap();
    let server = network.attach("server", ip("10.0.0.2")).unwrap();
    for number in 0..10_000u64 {
        network.set_timer(client, number, Some(Time(number * 100_000)));
    }
    let mut answered = vec![0u8; 10_000];
    loop {
        match network.next_event(Time::MAX) {
            Wake::Timer { token, .. } => {
                let port = 10_000 + token as u16;
                network.send(client, Datagram::new(port, to("10.0.0.2:443"), &[1; 200])).unwrap();
            }
            Wake::Arrivals => {
                let mut answers = Vec::new();
                while let Some(arrival) = network.recv() {
                    if arrival.host == server {
                        answers.push(arrival.from);
                    } else {
                        answered[usize::from(arrival.to.port()) - 10_000] += 1;
                    }
                }
                for peer in answers {
                    network.send(server, Datagram::new(443, peer, &[2; 1_200])).unwrap();
                }
            }
            Wake::Until => unreachable!("there is no end before that of the run"),
            Wake::End => break,
        }
    }
    assert!(answered.iter().all(|&count| count == 1));
    assert_eq!(network.under_way(), 0);
    let summary = network.finish().summary;
    assert_eq!(summary.flows.len(), 20_000);
    assert_eq!(summary.flows[0].name, "10.0.0.1:10000 > 10.0.0.2:443");
}

/// A network that loses, doubles, reorders, cuts and flips, for a program that answers whatever it gets: each kind of
/// damage is seen, nothing panics, and the fates add up.
#[test]
fn a_hostile_network() {
    let link = Link::new(10_000_000)
        .delay_ms(5)
        .queue_packets(30)
        .loss(0.2)
        .duplicate(0.2)
        .reorder_within(Duration::from_millis(9));
    let (mut network, first, second) = pair(link, 11);
    network.keep_fates();
    network.damage(0.2, 0.3);
    let mut stream = network.entropy(first, "sizes");
    network.set_timer(first, 0, Some(Time(0)));
    let (mut cut, mut flipped, mut whole, mut sent) = (0, 0, 0, 0u64);
    loop {
        match network.next_event(Time(20_000_000_000)) {
            Wake::Timer { .. } => {
                let data = vec![0; stream.below(1_473) as usize];
                network.send(first, Datagram::new(1, to("10.0.0.2:1"), &data)).unwrap();
                sent += 1;
                network.set_timer(first, 0, Some(network.now() + Span(stream.below(2_000_000))));
            }
            Wake::Arrivals => {
                let mut answers = Vec::new();
                while let Some(arrival) = network.recv() {
                    flipped += u32::from(arrival.data.iter().map(|byte| byte.count_ones()).sum::<u32>() == 1);
                    cut += u32::from(arrival.data.is_empty());
                    whole += u32::from(arrival.data.iter().all(|&byte| byte == 0));
                    if arrival.host == second {
                        answers.push((arrival.from, arrival.data.len().min(20)));
                    }
                }
                for (peer, length) in answers {
                    network.send(second, Datagram::new(1, peer, &vec![0; length])).unwrap();
                    sent += 1;
                }
            }
            Wake::Until | Wake::End => break,
        }
    }
    assert!(sent > 20_000 && flipped > 2_000 && whole > 2_000 && cut > 10, "{sent} {flipped} {whole} {cut}");
    let mut counted = [0; 3];
    for number in 0..sent {
        match network.fate(DatagramId(number)).unwrap() {
            Fate::UnderWay => counted[0] += 1,
            Fate::Delivered { .. } => counted[1] += 1,
            Fate::Lost { .. } => counted[2] += 1,
        }
    }
    assert!(counted[0] <= 100 && counted[1] > sent / 2 && counted[2] > sent / 10, "{counted:?}");
    assert_eq!(network.fate(DatagramId(sent)), None);
}

/// Fates are those of datagrams that were sent after they were asked for.
#[test]
fn fates_begin_when_they_are_asked_for() {
    let (mut network, first, _) = pair(Link::new(1_000_000), 1);
    network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0])).unwrap();
    network.keep_fates();
    network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0])).unwrap();
    drain(&mut network, |_| {});
    assert_eq!(network.fate(DatagramId(0)), None);
    assert!(matches!(network.fate(DatagramId(1)), Some(Fate::Delivered { copies: 1, .. })));
    let stranger = HostId::from_number(9);
    let refused = network.send(stranger, Datagram::new(1, to("10.0.0.2:1"), &[0])).unwrap_err();
    assert_eq!(refused.to_string(), "the network has no host 9: attach it to this one");
}

/// Timers, arrivals and limits in the order that is promised.
#[test]
fn arrivals_come_before_timers() {
    let (mut network, first, second) = pair(Link::new(8_000_000).delay_ms(1), 1);
    network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0; 972])).unwrap();
    let arrives = Time(2_000_000);
    network.set_timer(second, 5, Some(arrives));
    network.set_timer(second, 6, Some(Time(1)));
    network.set_timer(second, 6, None);
    assert_eq!(network.next_event(Time(1_500_000)), Wake::Until);
    assert_eq!(network.now(), Time(1_500_000));
    assert_eq!(network.next_event(Time::MAX), Wake::Arrivals);
    assert_eq!(network.next_event(Time::MAX), Wake::Arrivals, "until they are received");
    assert!(network.recv().is_some() && network.recv().is_none());
    assert_eq!(network.now(), arrives);
    assert_eq!(network.next_event(Time::MAX), Wake::Timer { host: second, token: 5 });
    assert_eq!(network.now(), arrives);
    network.set_timer(first, 1, Some(Time(0)));
    assert_eq!(
        network.next_event(Time::MAX),
        Wake::Timer { host: first, token: 1 },
        "a time that has passed is now"
    );
    assert_eq!(network.next_event_within(Duration::from_secs(1)), Wake::Until);
    assert_eq!(network.next_event(Time::MAX), Wake::End);
    assert!(matches!(network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0])), Err(SendError::Over(_))));
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let path = Path::new(["a", "b", "c"]).link(Link::new(1_000_000).key("mtu", "\"600 B\""));
    let mut network = Network::new(&path, 1).unwrap();
    let first = network.attach("a", ip("10.0.0.1")).unwrap();
    network.attach("b", ip("10.0.0.2")).unwrap();
    network.attach("c", ip("10.0.0.3")).unwrap();
    network.attach("a", ip("10.0.0.4")).unwrap();
    network.attach("b", ip("2001:db8::2")).unwrap();
    let mut refused = |peer: &str, bytes: usize| {
        network.send(first, Datagram::new(1, to(peer), &vec![0; bytes])).unwrap_err().to_string()
    };
    assert_eq!(
        refused("10.0.0.2:1", 573),
        "a datagram of 573 B with 28 B of headers exceeds the MTU of 600 B of its path"
    );
    assert_eq!(refused("10.0.0.9:1", 1), "no host has the address 10.0.0.9:1: attach one");
    assert_eq!(refused("10.0.0.3:1", 1), "no path of the network leads from 10.0.0.1 to 10.0.0.3");
    assert_eq!(refused("10.0.0.4:1", 1), "no path of the network leads from 10.0.0.1 to 10.0.0.4");
    assert_eq!(refused("[2001:db8::2]:1", 1), "10.0.0.1 and 2001:db8::2 are addresses of two versions of IP");
    assert!(network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0; 572])).is_ok());
    let error = network.attach("d", ip("10.0.0.5")).unwrap_err();
    assert_eq!(error.to_string(), "the scenario has no node \"d\": it has a, b, c");
    let error = network.attach("c", ip("10.0.0.1")).unwrap_err();
    assert_eq!(error.to_string(), "10.0.0.1 is the address of another host: give each its own");
    let error = Network::from_toml("duration = \"1 s\"", 1).unwrap_err();
    assert!(matches!(error, Error::Scenario(_)), "{error}");
    let text = "duration = \"1 s\"\n[topology]\nkind = \"dumbbell\"\n\
                bottleneck = { rate = \"1 Mbit/s\", delay = \"1 ms\" }\n\
                access = { rate = \"1 Mbit/s\", delay = \"1 ms\" }\n\
                [[flows]]\ntransport = \"kernel:cubic\"\n";
    let error = Network::from_toml(text, 1).unwrap_err();
    assert!(error.to_string().contains("kernel:cubic, which a network in a program cannot run"), "{error}");
}

/// What a link or a path cannot be is refused, and nothing of it is left out in silence.
#[test]
fn wrong_paths_are_refused() {
    let link = || Link::new(1_000_000);
    let one = |link: Link| Path::new(["a", "b"]).link(link);
    for (path, told) in [
        (one(link().loss(1.5)), "packet_error_rate is out of range: 1.5"),
        (one(link().loss(f64::NAN)), "packet_error_rate is out of range"),
        (one(link().duplicate(-0.1)), "duplicate is negative: -0.1"),
        (one(link().duplicate(2.0)), "duplicate is out of range: 2"),
        (one(link().duplicate(f64::NAN)), "duplicate is out of range"),
        (one(link().key("quue", "3")), "unknown key \"quue\""),
        (one(link()).link(link()), "a path has 1 more than the links between its nodes"),
        (Path::new(["a"]).link(link()).link(link()), "a path has 2 more than the links between its nodes"),
        (Path::new([] as [&str; 0]), "the list \"nodes\" is empty"),
    ] {
        let error = Network::new(&path, 1).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// A run that is over says so, whenever it is to be stopped.
#[test]
fn the_end_stays_the_end() {
    let (mut network, ..) = pair(Link::new(1_000_000), 1);
    assert_eq!(network.next_event(Time(5)), Wake::Until);
    assert_eq!(network.next_event(Time(3)), Wake::Until, "time does not go back");
    assert_eq!(network.now(), Time(5));
    for until in [Time::MAX, Time::MAX, Time(3), network.end()] {
        assert_eq!(network.next_event(until), Wake::End);
    }
}

/// A host that walks from one access point to another is reached at both, by flows that were opened before, between and
/// after; and the simulator's own flows go on beside.
#[test]
fn flows_join_a_network_whose_paths_change() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/walking-host.toml");
    let mut network = Network::open(scenario, 1).unwrap();
    let server = network.attach("server", ip("10.0.0.1")).unwrap();
    let host = network.attach("walker", ip("10.0.0.2")).unwrap();
    let (mut got, mut sent) = (0, 0);
    network.set_timer(server, 0, Some(Time(100_000_000)));
    loop {
        match network.next_event(Time::MAX) {
            Wake::Timer { .. } => {
                sent += 1;
                network.send(server, Datagram::new(sent, to("10.0.0.2:1"), &[0; 50])).unwrap();
                network.set_timer(server, 0, Some(network.now() + Span::from_millis(200)));
            }
            Wake::Arrivals => {
                while let Some(arrival) = network.recv() {
                    assert_eq!(arrival.host, host);
                    got += 1;
                }
            }
            Wake::Until | Wake::End => break,
        }
    }
    assert!(got * 10 >= sent * 9, "{got} of {sent}");
    let summary = network.finish().summary;
    assert!(summary.flows[0].bytes_delivered > 0, "the flow of the scenario");
}

/// What every run measures: rates and queues of links, series, and a capture.
#[test]
fn results_are_those_of_a_run() {
    let recording = Recording { series: true, trace: true, frames: Frames::None };
    let path = Path::new(["a", "b"]).link(Link::new(1_000_000).delay_ms(10).queue_packets(4));
    let mut network = Network::new(&path.duration(Duration::from_secs(1)), 1).unwrap().record(recording);
    let first = network.attach("a", ip("10.0.0.1")).unwrap();
    network.attach("b", ip("10.0.0.2")).unwrap();
    for _ in 0..10 {
        network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0; 972])).unwrap();
    }
    drain(&mut network, |_| {});
    let results = network.finish();
    assert_eq!(results.summary.links[0].name, "a-b");
    assert_eq!(results.summary.flows[0].bytes_delivered, 4 * 972, "the limit counts the one on the link");
    assert_eq!(results.recorded.hops.len(), 10);
    assert!(!results.recorded.links.is_empty());
    let mut capture = Vec::new();
    assert_eq!(results.write_pcapng("links", &mut capture).unwrap(), 4);
    assert!(results.write_pcapng("nowhere", &mut Vec::new()).is_err());
    let plain = Network::new(&Path::new(["a", "b"]).link(Link::new(1_000_000)), 1).unwrap().finish();
    let error = plain.write_pcapng("links", &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::NotTraced), "{error}");
}

/// A copy of a network goes its own way from where it was taken.
#[test]
fn a_network_can_be_copied() {
    let (mut network, first, _) = pair(Link::new(1_000_000).loss(0.5), 1);
    for _ in 0..20 {
        network.send(first, Datagram::new(1, to("10.0.0.2:1"), &[0; 972])).unwrap();
    }
    let mut copy = network.clone();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    drain(&mut network, |arrival| one.push((arrival.at, arrival.id)));
    drain(&mut copy, |arrival| other.push((arrival.at, arrival.id)));
    assert_eq!(one, other);
}
