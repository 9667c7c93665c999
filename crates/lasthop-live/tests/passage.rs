//! Real packets become packets of the world and leave it as they came, whatever they are.

use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::packet::{Kind, flag};
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_live::passage::{Admitted, Pair, Passage, Refusal};
use lasthop_live::store::Store;
use lasthop_net::measure::{FlowStats, Window};
use lasthop_net::plan::Percentiles;
use lasthop_net::transport::codec::{self, Ecn, Flags, Header, MAX_PACKET, Options, Tcp, Transport};
use lasthop_net::transport::outside::Departure;
use proptest::prelude::*;

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 443);
const PHONE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 50_000);
const WINDOW: Window = Window { from: Time::ZERO, to: Time::MAX };
const ACK: Flags = Flags {
    syn: false,
    fin: false,
    rst: false,
    psh: false,
    ack: true,
    ece: false,
    cwr: false,
    ae: false,
    eln: false,
};

fn passage(flows: usize) -> Passage {
    let pair = Pair {
        source: *SERVER.ip(),
        sink: *PHONE.ip(),
        flows: 0..flows,
        mtu: 1500,
        rate: Rate(5_000_000),
        part: (0, true),
    };
    Passage::new(vec![pair], Store::new(64))
}

fn bytes_of(from: SocketAddrV4, to: SocketAddrV4, transport: Transport, payload: usize) -> Vec<u8> {
    let header = Header {
        source: from,
        destination: to,
        identification: 7,
        time_to_live: 64,
        ecn: Ecn::Capable,
        transport,
    };
    let mut place = vec![0; MAX_PACKET];
    let length = header.write(&vec![5; payload], &mut place).unwrap();
    place.truncate(length);
    place
}

fn segment(seq: u32, ack: u32, flags: Flags) -> Transport {
    Transport::Tcp(Tcp { seq, ack, window: 1000, flags, options: Options::default() })
}

/// The host that sends a packet; the server if it cannot be told.
fn source_of(bytes: &[u8]) -> Ipv4Addr {
    let source = bytes.get(12..).and_then(|rest| rest.first_chunk::<4>());
    source.map_or(*SERVER.ip(), |&source| source.into())
}

fn put(passage: &mut Passage, bytes: &[u8], millis: u64) -> Admitted {
    passage.admit(source_of(bytes), bytes, Time::ZERO + Span::from_millis(millis), &WINDOW).unwrap()
}

/// Lets a packet leave; the bytes, and what was counted.
fn leave(passage: &mut Passage, admitted: &Admitted, millis: u64) -> (Vec<u8>, FlowStats) {
    let mut stats = FlowStats::new(Percentiles::Exact);
    let at = Time::ZERO + Span::from_millis(millis);
    let left =
        Departure { flow: admitted.flow as u32, at, packet: admitted.packet, extra: Some(admitted.extra) };
    let bytes = passage.release(admitted.flow, &left, &mut stats, &WINDOW).unwrap().to_vec();
    (bytes, stats)
}

/// A connection that the phone opens, as a browser does: data come down, and wrap.
#[test]
fn a_connection_is_understood() {
    let mut all = passage(4);
    let first = u32::MAX - 1000;
    let syn = Flags { syn: true, ack: false, ..ACK };
    let opened = put(&mut all, &bytes_of(PHONE, SERVER, segment(99, 0, syn), 0), 0);
    assert_eq!(
        (opened.packet.kind, opened.packet.note.back),
        (Kind::Udp, true),
        "no ACK, nothing for a helper"
    );
    let answered =
        put(&mut all, &bytes_of(SERVER, PHONE, segment(first, 100, Flags { syn: true, ..ACK }), 0), 1);
    assert_eq!((answered.packet.kind, answered.packet.note.back), (Kind::Syn, false));
    put(&mut all, &bytes_of(PHONE, SERVER, segment(100, first.wrapping_add(1), ACK), 0), 2);
    let asked = put(&mut all, &bytes_of(PHONE, SERVER, segment(100, first.wrapping_add(1), ACK), 80), 2);
    assert_eq!(asked.packet.kind, Kind::Data, "a request is no duplicate ACK");
    assert_eq!(asked.delivered, 0);

    let one = first.wrapping_add(1);
    let data = put(&mut all, &bytes_of(SERVER, PHONE, segment(one, 180, ACK), 1400), 10);
    assert_eq!((data.packet.kind, data.packet.seq as u32, data.packet.payload), (Kind::Data, one, 1400));
    let again = put(&mut all, &bytes_of(SERVER, PHONE, segment(one, 180, ACK), 1400), 300);
    assert!(again.packet.note.again() && !data.packet.note.again());
    assert!(again.packet.seq == data.packet.seq && data.packet.seq > 1 << 32);
    let two = one.wrapping_add(1400);
    let more = put(&mut all, &bytes_of(SERVER, PHONE, segment(two, 180, ACK), 100), 310);
    assert_eq!(more.packet.seq, data.packet.seq + 1400, "numbers count on where those of the wire wrap");
    let ack = put(&mut all, &bytes_of(PHONE, SERVER, segment(180, two.wrapping_add(100), ACK), 0), 320);
    assert_eq!((ack.packet.kind, ack.packet.seq, ack.delivered), (Kind::Ack, more.packet.seq + 100, 1500));
    let twice = put(&mut all, &bytes_of(PHONE, SERVER, segment(180, two.wrapping_add(100), ACK), 0), 330);
    assert_eq!((twice.packet.kind, twice.delivered), (Kind::Ack, 0));

    let fin = Flags { fin: true, ..ACK };
    let end = put(&mut all, &bytes_of(SERVER, PHONE, segment(two.wrapping_add(100), 180, fin), 0), 340);
    assert_eq!(end.packet.kind, Kind::Fin);
    let last = put(&mut all, &bytes_of(PHONE, SERVER, segment(180, two.wrapping_add(101), fin), 0), 350);
    assert_eq!((last.packet.kind, last.delivered), (Kind::FinAck, 0), "a FIN is no byte of the application");
    assert_eq!(all.flows().collect::<Vec<_>>(), [0], "one connection, one flow");
    assert_eq!(all.connection(0).unwrap().directions[0].retransmitted, 1);
    let tuple = all.connection(0).unwrap().tuple.to_string();
    assert_eq!(tuple, "tcp 10.0.0.1:443 - 10.0.0.2:50000");
}

/// From a segment to the ACK that covers it; of what was sent twice nothing is known.
#[test]
fn a_round_trip_is_timed_at_the_source() {
    let mut all = passage(4);
    put(&mut all, &bytes_of(SERVER, PHONE, segment(0, 1, Flags { syn: true, ..ACK }), 0), 0);
    put(&mut all, &bytes_of(SERVER, PHONE, segment(1, 1, ACK), 1000), 10);
    let ack = put(&mut all, &bytes_of(PHONE, SERVER, segment(1, 1001, ACK), 0), 30);
    leave(&mut all, &ack, 52);
    put(&mut all, &bytes_of(SERVER, PHONE, segment(1001, 1, ACK), 1000), 60);
    put(&mut all, &bytes_of(SERVER, PHONE, segment(1001, 1, ACK), 1000), 90);
    let ack = put(&mut all, &bytes_of(PHONE, SERVER, segment(1, 2001, ACK), 0), 95);
    leave(&mut all, &ack, 100);
    let rtt = &all.connection(0).unwrap().directions[0].rtt;
    assert_eq!((rtt.count(), rtt.sum()), (1, Span::from_millis(42).0));
}

/// What goes up is measured as what comes down: retransmissions, round trips, arrivals, and every packet in its
/// direction.
#[test]
fn both_directions_of_a_connection_are_measured() {
    let mut all = passage(4);
    let syn = Flags { syn: true, ack: false, ..ACK };
    put(&mut all, &bytes_of(PHONE, SERVER, segment(99, 0, syn), 0), 0);
    put(&mut all, &bytes_of(SERVER, PHONE, segment(999, 100, Flags { syn: true, ..ACK }), 0), 1);
    put(&mut all, &bytes_of(PHONE, SERVER, segment(100, 1000, ACK), 0), 2);
    let up = put(&mut all, &bytes_of(PHONE, SERVER, segment(100, 1000, ACK), 1200), 10);
    leave(&mut all, &up, 30);
    let answer = put(&mut all, &bytes_of(SERVER, PHONE, segment(1000, 1300, ACK), 0), 31);
    assert_eq!(answer.delivered, 1200, "bytes of the phone that the server acknowledges");
    leave(&mut all, &answer, 50);
    let again = put(&mut all, &bytes_of(PHONE, SERVER, segment(100, 1000, ACK), 1200), 60);
    leave(&mut all, &again, 80);
    let known = all.connection(0).unwrap();
    assert_eq!(known.used(), [1], "the server had no data");
    let [down, up] = &known.directions;
    assert_eq!((down.packets, down.bytes, down.payload, down.retransmitted), (2, 80, 0, 0));
    assert_eq!((up.packets, up.bytes, up.payload, up.retransmitted), (4, 4 * 40 + 2400, 2400, 1));
    assert_eq!((up.rtt.count(), up.rtt.sum()), (1, Span::from_millis(40).0));
    let first = (Time::ZERO + Span::from_millis(10), Time::ZERO + Span::from_millis(80));
    assert_eq!(up.life, Some(first), "from the first data to the last arrival");
    assert_eq!(up.arrived.bytes_received, 2 * 1240);
    assert_eq!((up.arrived.delay.count(), up.arrived.delay.sum()), (1, Span::from_millis(20).0));
    assert_eq!(up.busy_until(Time::ZERO + Span::from_millis(100), true), Span::from_millis(21));
    assert_eq!(known.tuple_from(1).to_string(), "tcp 10.0.0.2:50000 - 10.0.0.1:443");
}

/// What was not changed is the same, bit for bit; a mark of congestion keeps the checksums right.
#[test]
fn packets_leave_as_they_came() {
    let mut all = passage(4);
    for transport in [segment(1, 1, ACK), Transport::Udp] {
        let bytes = bytes_of(SERVER, PHONE, transport, 333);
        let mut admitted = put(&mut all, &bytes, 5);
        let (same, stats) = leave(&mut all, &admitted, 25);
        assert_eq!(same, bytes);
        assert_eq!(stats.bytes_received, bytes.len() as u64);
        assert_eq!((stats.delay.count(), stats.delay.sum()), (1, Span::from_millis(20).0));
        admitted.packet.flags |= flag::CE;
        let (marked, _) = leave(&mut all, &admitted, 26);
        let (header, payload) = codec::parse(&marked).unwrap();
        assert_eq!((header.ecn, payload.len()), (Ecn::Congestion, 333));
    }
    let mut ack = put(&mut all, &bytes_of(PHONE, SERVER, segment(1, 2, ACK), 0), 30);
    ack.packet.kind = Kind::Ack;
    ack.packet.flags |= flag::ELN;
    let (marked, _) = leave(&mut all, &ack, 31);
    let (header, _) = codec::parse(&marked).unwrap();
    assert!(matches!(header.transport, Transport::Tcp(tcp) if tcp.flags.eln));
}

/// ICMP, ESP, a fragment, a segment with a wrong checksum: they pass, and no helper takes them for data.
#[test]
fn what_is_not_understood_passes_and_is_counted() {
    let mut all = passage(8);
    let rest = (1, 64, Ecn::NotCapable);
    for protocol in [1, 50, 41] {
        let mut bytes = codec::ip_header([*PHONE.ip(), *SERVER.ip()], protocol, 120, rest).to_vec();
        bytes.resize(120, 9);
        let admitted = put(&mut all, &bytes, 1);
        assert_eq!((admitted.packet.kind, admitted.packet.payload), (Kind::Udp, 100), "{protocol}");
        assert_eq!(leave(&mut all, &admitted, 2).0, bytes);
    }
    let mut wrong = bytes_of(SERVER, PHONE, segment(1, 1, ACK), 100);
    wrong[60] ^= 1;
    let admitted = put(&mut all, &wrong, 3);
    assert_eq!(admitted.packet.kind, Kind::Udp);
    assert_eq!(leave(&mut all, &admitted, 4).0, wrong, "the host finds out itself");
    assert_eq!(all.oddities.opaque, 4);
}

#[test]
fn what_cannot_pass_is_refused_and_counted() {
    let mut all = passage(4);
    let mut refused = |bytes: &[u8]| all.admit(source_of(bytes), bytes, Time::ZERO, &WINDOW).unwrap_err();
    let stranger = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 22), 1);
    assert_eq!(refused(&bytes_of(SERVER, stranger, Transport::Udp, 10)), Refusal::NoPath);
    assert_eq!(refused(&bytes_of(SERVER, SERVER, Transport::Udp, 10)), Refusal::NoPath);
    assert_eq!(refused(&bytes_of(SERVER, PHONE, segment(1, 1, ACK), 1461)), Refusal::TooLong);
    assert_eq!(refused(&[0x60; 40]), Refusal::NotIp);
    assert_eq!(refused(&[]), Refusal::NotIp);
    assert_eq!(refused(&bytes_of(SERVER, PHONE, Transport::Udp, 10)[..30]), Refusal::NotIp);
    assert_eq!(all.oddities.refused, [3, 2, 1]);
}

/// Hosts of runs that were started at one of ours are known by where their packets come from, and hosts beyond the run
/// around us are behind the gateway; a host that sends in the name of another is refused, and so is what comes back to
/// where it would have to go.
#[test]
fn hosts_of_other_runs_are_behind_our_own() {
    let at = |text: &str| SocketAddrV4::new(text.parse().unwrap(), 9);
    let (server, phone) = (*SERVER.ip(), *PHONE.ip());
    let (inner, beyond) = (at("10.1.0.2"), at("10.2.0.1"));
    let udp = |from, to| bytes_of(from, to, Transport::Udp, 10);
    let mut all = passage(9);
    let admit = |all: &mut Passage, host, from, to| {
        all.admit(host, &udp(from, to), Time::ZERO, &WINDOW).map(|admitted| admitted.packet.note.back)
    };
    assert_eq!(admit(&mut all, server, SERVER, inner), Err(Refusal::NoPath), "no path to it yet");
    assert_eq!(admit(&mut all, phone, inner, SERVER), Ok(true));
    assert_eq!(admit(&mut all, server, SERVER, inner), Ok(false));
    assert_eq!(all.connection(0).unwrap().tuple.to_string(), "udp 10.0.0.1:443 - 10.1.0.2:9");
    assert_eq!(admit(&mut all, phone, SERVER, inner), Err(Refusal::NoPath), "in the name of another");
    assert_eq!(admit(&mut all, phone, beyond, inner), Err(Refusal::NoPath), "back to where it comes from");
    assert_eq!(admit(&mut all, phone, PHONE, at("192.168.0.1")), Err(Refusal::NoPath));
    // It has moved.
    assert_eq!(admit(&mut all, server, inner, PHONE), Ok(false));
    assert_eq!(admit(&mut all, phone, PHONE, inner), Ok(true));

    all.set_gateway(server);
    assert_eq!(admit(&mut all, phone, PHONE, at("10.3.0.7")), Ok(true));
    assert_eq!(admit(&mut all, server, at("10.3.0.7"), PHONE), Ok(false));
    assert_eq!(admit(&mut all, phone, PHONE, at("192.168.0.1")), Err(Refusal::NoPath), "no such runs");
    assert_eq!(admit(&mut all, phone, PHONE, at("10.0.0.9")), Err(Refusal::NoPath), "it would be ours");
}

/// Addresses that an enemy makes up take a bounded place.
#[test]
fn no_more_than_so_many_other_hosts_are_remembered() {
    let mut all = passage(2);
    let taken = (0..10_000_u32).filter(|number| {
        let [_, _, high, low] = number.to_be_bytes();
        let made_up = SocketAddrV4::new(Ipv4Addr::new(10, 9, high, low), 1);
        let bytes = bytes_of(made_up, SERVER, Transport::Udp, 1);
        all.admit(*PHONE.ip(), &bytes, Time::ZERO, &WINDOW).is_ok()
    });
    assert_eq!(taken.count(), 4096);
}

/// A connection that comes when every flow is taken shares the last one, where headers are not read.
#[test]
fn connections_beyond_the_last_share_it() {
    let mut all = passage(3);
    let flows: Vec<usize> = (0..100)
        .map(|port| {
            let from = SocketAddrV4::new(*PHONE.ip(), 1000 + port);
            put(&mut all, &bytes_of(SERVER, from, segment(1, 1, ACK), 10), 1).flow
        })
        .collect();
    assert_eq!((flows[0], flows[1]), (0, 1));
    assert!(flows[2..].iter().all(|&flow| flow == 2));
    assert!(all.connection(2).unwrap().is_rest);
    let from = SocketAddrV4::new(*PHONE.ip(), 1050);
    assert_eq!(put(&mut all, &bytes_of(SERVER, from, segment(1, 1, ACK), 10), 1).packet.kind, Kind::Udp);
}

/// Bytes as an enemy would make them: packets of ours, cut and overwritten, with checksums that are right more often
/// than by chance.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let ours = (any::<[u32; 3]>(), 0..600usize, any::<u8>(), any::<bool>()).prop_map(
        |([seq, ack, bits], size, which, up)| {
            let (from, to) = if up { (PHONE, SERVER) } else { (SERVER, PHONE) };
            let flags = Flags {
                syn: bits & 1 != 0,
                fin: bits & 2 != 0,
                rst: bits % 8 == 7,
                ack: bits / 8 % 8 != 0,
                ece: bits & 128 != 0,
                ..ACK
            };
            let mut options =
                Options { timestamps: (bits & 256 != 0).then_some((seq, ack)), ..Options::default() };
            options.window_scale = (flags.syn && bits & 512 != 0).then_some((bits >> 24) as u8);
            options.sack.push((seq, ack));
            let tcp = Tcp { seq, ack, window: bits as u16, flags, options };
            let transport = if which < 200 { Transport::Tcp(tcp) } else { Transport::Udp };
            bytes_of(from, to, transport, size)
        },
    );
    let changes = proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4);
    (ours, changes, proptest::option::weighted(0.2, 0..80usize)).prop_map(|(mut bytes, changes, cut)| {
        for (at, value) in changes {
            let at = usize::from(at) % bytes.len().min(80);
            bytes[at] = value;
            let sum = codec::checksum(&[&bytes[..10], &[0, 0], &bytes[12..20]].concat());
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// Nothing makes it panic, what enters leaves as it came, and everything else was counted.
    #[test]
    fn hostile_packets_do_no_harm(packets in proptest::collection::vec(hostile(), 1..40)) {
        let mut all = passage(3);
        for (bytes, index) in packets.iter().zip(0u64..) {
            let now = Time::ZERO + Span::from_millis(index);
            let before: u64 = all.oddities.refused.iter().sum();
            if let Ok(admitted) = all.admit(source_of(bytes), bytes, now, &WINDOW) {
                prop_assert_eq!(usize::from(admitted.packet.bytes), bytes.len());
                prop_assert!(admitted.packet.payload <= admitted.packet.bytes);
                prop_assert!(admitted.flow < 3 && admitted.delivered < 1 << 32);
                prop_assert_eq!(&leave(&mut all, &admitted, index + 1).0, bytes);
            } else {
                prop_assert_eq!(all.oddities.refused.iter().sum::<u64>(), before + 1);
            }
        }
    }
}
