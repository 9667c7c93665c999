//! Ends outside of the world: packets leave as bytes of real headers, and bytes come back as packets.

use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};
use lasthop_net::trace::Recording;
use lasthop_net::transport::codec::{self, MAX_PACKET};
use lasthop_net::transport::outside::{Departure, End, Gateway};
use lasthop_net::world::{Evaluation, World};

use crate::testkit::Scene;

const SENDER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 50_000);
const RECEIVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 443);

/// A lossy path with one flow whose other end lies outside.
fn world(transport: &str, keys: &str, outside: End) -> World {
    let link =
        "rate = \"5 Mbit/s\"\ndelay = \"10 ms\"\nerror = { kind = \"bernoulli\", packet_error_rate = 0.01 }";
    let scene = Scene::lasting("60 s").chain(["server", "phone"], &[link]);
    let traffic = "traffic = { kind = \"ftp\", bytes = \"400 kB\" }";
    let plan =
        scene.between("server", "phone", &format!("transport = {transport}\n{traffic}\n{keys}")).plan();
    let mut world = World::evaluated(&plan, 1, Recording::default(), Evaluation::Clocked);
    world.open_end(0, outside);
    world
}

/// A gateway that will put this sequence number into the SYN of the end inside; the other it learns.
fn gateway(inside: End, initial: u32) -> Gateway {
    match inside {
        End::Sender => Gateway::new((SENDER, initial), (RECEIVER, 0)),
        End::Receiver => Gateway::new((SENDER, 0), (RECEIVER, initial)),
    }
}

/// What has left a world since the last look.
fn departures(world: &mut World) -> Vec<Departure> {
    let mut left = Vec::new();
    world.depart(&mut left);
    left
}

/// The bytes of a packet that has left.
fn bytes_of(gateway: &mut Gateway, left: &Departure) -> Vec<u8> {
    let (header, payload) = gateway.leave(&left.packet, left.extra.as_ref());
    let mut place = vec![0; MAX_PACKET];
    let length = header.write(&vec![0; payload], &mut place).unwrap();
    assert_eq!(length, usize::from(left.packet.bytes), "{:?}: as long as it was counted", left.packet.kind);
    place.truncate(length);
    place
}

/// Puts bytes into a world.
fn put(world: &mut World, gateway: &mut Gateway, bytes: &[u8], now: Time) {
    let (header, payload) = codec::parse(bytes).unwrap();
    let (packet, extra) =
        gateway.enter(&header, bytes.len(), payload.len(), now).expect("a packet of the connection");
    world.inject(0, packet, extra);
}

/// Two worlds, in each of which one end of the connection lives; between them there are only bytes. Returns the worlds
/// and what each sent to the other.
fn connect(transport: &str, keys: &str) -> ([World; 2], [Vec<Departure>; 2]) {
    let mut worlds = [world(transport, keys, End::Receiver), world(transport, keys, End::Sender)];
    // Close to the end of the number space, so that both directions wrap.
    let mut gateways = [gateway(End::Sender, u32::MAX - 70_000), gateway(End::Receiver, u32::MAX)];
    let mut sent: [Vec<Departure>; 2] = Default::default();
    loop {
        let next = worlds.iter_mut().filter_map(World::next_time).min();
        let Some(now) = next else { break };
        for world in &mut worlds {
            world.step_until(now);
        }
        for from in 0..2 {
            for left in departures(&mut worlds[from]) {
                assert_eq!(left.at, now, "it leaves when it is there");
                let bytes = bytes_of(&mut gateways[from], &left);
                let [first, second] = &mut worlds;
                let to = if from == 0 { second } else { first };
                put(to, &mut gateways[1 - from], &bytes, now);
                sent[from].push(left);
            }
        }
    }
    worlds.iter_mut().for_each(World::finish);
    (worlds, sent)
}

/// A whole connection, from SYN to the last ACK, through two worlds and the headers between them.
#[test]
fn two_worlds_talk_in_real_headers() {
    for (transport, keys) in [
        ("\"newreno\"", ""),
        ("\"sack\"", "reader = \"600 kbit/s\""),
        ("{ preset = \"cubic\", profile = \"linux\" }", ""),
        ("{ preset = \"sack\", timestamps = false, ecn = true }", ""),
        ("\"tcp-real\"", ""),
    ] {
        let (worlds, [there, back]) = connect(transport, keys);
        let delivered = worlds[1].network.flows[0].bytes_delivered;
        assert_eq!(delivered, 400_000, "{transport}");
        let sender = worlds[0].senders[0].tcp_sender().unwrap();
        assert!(sender.stats.completed.is_some(), "{transport}: the end is acknowledged");
        let blocks = back.iter().filter_map(|left| left.extra).any(|extra| !extra.sack.is_empty());
        assert_eq!(blocks, transport.contains("sack") || transport.contains("cubic"), "{transport}");
        assert!(there.iter().any(|left| left.packet.kind == Kind::Fin), "{transport}");
        assert_eq!(sender.stats.undone_reductions, 0, "{transport}: packets were lost, none was late");
        // Two ways of 10 ms there and two back, and the queues.
        let rtt = sender.srtt();
        assert!((Span::from_millis(40)..Span::from_millis(400)).contains(&rtt), "{transport}: {rtt}");
        let closed = back.iter().filter(|left| left.packet.window == 0).count();
        assert_eq!(
            (closed > 0, sender.stats.zero_windows > 0),
            (false, false),
            "{transport}: 6 MB of buffer"
        );
    }
}

/// The window of a slow reader crosses the wire in its scaled field, and the sender keeps to it.
#[test]
fn a_window_crosses_the_wire() {
    let transport = "{ preset = \"newreno\", receiver_window = \"100 packets\" }";
    let (worlds, [_, back]) = connect(transport, "reader = \"400 kbit/s\"");
    assert_eq!(worlds[1].network.flows[0].bytes_delivered, 400_000);
    let least = back.iter().map(|left| left.packet.window).min();
    assert!(least < Some(10_000), "it all but closes: {least:?}");
    let sender = worlds[0].senders[0].tcp_sender().unwrap();
    // The buffer holds 144.8 kB; the rest is sent as it is read, 50 kB in a second.
    let completed = sender.stats.completed.expect("the end is acknowledged").seconds();
    assert!((5.0..6.0).contains(&completed), "{completed}");
}

/// What is none of the connection's business is left out.
#[test]
fn strangers_are_refused() {
    let mut world = world("\"newreno\"", "", End::Receiver);
    let mut own = gateway(End::Sender, 1);
    world.step_until(Time::ZERO + Span::from_millis(100));
    let left = departures(&mut world).remove(0);
    let bytes = bytes_of(&mut own, &left);
    let (header, payload) = codec::parse(&bytes).unwrap();
    // Its own SYN comes back: it is from the right address, and opens nothing at a sender.
    let mut stranger = Gateway::new((RECEIVER, 1), (SENDER, 1));
    assert!(stranger.enter(&header, bytes.len(), payload.len(), Time::ZERO).is_none(), "a SYN without ACK");
    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 3), 1);
    let mut stranger = Gateway::new((elsewhere, 1), (RECEIVER, 1));
    assert!(stranger.enter(&header, bytes.len(), payload.len(), Time::ZERO).is_none());
}
