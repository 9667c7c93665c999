//! A proxy between two hosts that speak real TCP, over wires that lose, repeat and reorder: every byte arrives once and
//! in order, in both directions, whatever options each side has and wherever its numbers begin.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_live::proxy::{Outbox, Proxy, ProxyPlan};
use lasthop_net::measure::Window;
use lasthop_net::plan::{Profile, TcpConfig};
use lasthop_net::transport::codec::{self, Ecn, Header, Tcp, Transport};
use lasthop_net::transport::duplex::{Duplex, Segment, refuse};

const WINDOW: Window = Window { from: Time::ZERO, to: Time(u64::MAX) };

fn address(host: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 0, host].into(), port)
}

/// A preset, with Accurate ECN if `+ace` follows its name.
fn config(name: &str) -> TcpConfig {
    let counts = name.ends_with("+ace");
    let preset = TcpConfig::preset(name.trim_end_matches("+ace"), Profile::Linux).unwrap();
    TcpConfig { ecn: counts || preset.ecn, accurate_ecn: counts, ..preset }
}

/// A host with one connection: what it shall send, and what it has got.
struct Host {
    config: TcpConfig,
    end: Option<Duplex>,
    sends: Vec<u8>,
    closes: bool,
    got: Vec<u8>,
    initial: u32,
    segments: Vec<Segment>,
    headers: Vec<Header>,
}

impl Host {
    fn new(name: &str, initial: u32, sends: Vec<u8>) -> Host {
        let config = config(name);
        Host {
            config,
            end: None,
            sends,
            closes: true,
            got: Vec::new(),
            initial,
            segments: Vec::new(),
            headers: vec![],
        }
    }

    /// Gives its application's data to the connection.
    fn begin(&mut self, now: Time) {
        let (bytes, closes) = (self.sends.len() as u64, self.closes);
        let Some(end) = &mut self.end else { return };
        end.write(bytes, now, &mut self.segments);
        if closes {
            end.close(now, &mut self.segments);
        }
    }

    fn take(&mut self, bytes: &[u8], now: Time) {
        let (header, payload) = codec::parse(bytes).expect("what a proxy writes is whole");
        self.headers.push(header);
        let Transport::Tcp(tcp) = header.transport else { panic!("{header:?}") };
        if self.end.is_none() {
            if !tcp.flags.syn {
                self.segments.extend(refuse(&header, payload.len()));
                return;
            }
            let start = (self.initial, WINDOW);
            self.end = Some(Duplex::accept(&self.config, &header, start, now, &mut self.segments));
            self.begin(now);
            return;
        }
        let Some(end) = &mut self.end else { return };
        let room = end.arrived().0 + 1_000_000;
        if let Some(taken) = end.take(&header, (payload.len(), room), now, &mut self.segments) {
            let (from, to) = (taken.start as usize, taken.start as usize + taken.part.len());
            if self.got.len() < to {
                self.got.resize(to, 0);
            }
            self.got[from..to].copy_from_slice(&payload[taken.part]);
        }
        let arrived = end.arrived().0;
        end.read(arrived, now, &mut self.segments);
    }

    fn leave(&mut self) -> Vec<Vec<u8>> {
        let mut place = vec![0; 70_000];
        let mut packets = Vec::new();
        for segment in self.segments.drain(..) {
            let from = segment.start as usize;
            let payload = &self.sends[from.min(self.sends.len())..];
            let length = segment.header.write(&payload[..segment.payload.into()], &mut place).unwrap();
            packets.push(place[..length].to_vec());
        }
        packets
    }

    fn end(&self) -> &Duplex {
        self.end.as_ref().expect("it has a connection")
    }
}

/// Two hosts, a proxy, and packets on their way: one in `loses` is lost, and some of the others come late.
struct Rig {
    /// At the source and at the sink.
    hosts: [Host; 2],
    proxy_plan: ProxyPlan,
    proxy: Proxy,
    out: Outbox,
    now: Time,
    loses: u64,
    /// Of those that may be marked one in this many is.
    marks: u64,
    /// What has come to each host with a mark.
    marked: [u32; 2],
    stream: Stream,
    /// By the time of arrival and a number: to a host, or to the proxy from a side; its bytes.
    wire: BTreeMap<(Time, u64), (bool, usize, Vec<u8>)>,
    sent: u64,
    longest_silence: Span,
    /// What an enemy makes of one in ten packets, beside those themselves.
    enemy: Option<fn(&mut Stream, Header) -> Header>,
    place: Vec<u8>,
}

impl Rig {
    fn new(hosts: [Host; 2], towards: [&str; 2], (buffer, late, seed): (u64, bool, u64)) -> Rig {
        let config_of = |name| {
            let config = config(name);
            let segments = (buffer / u64::from(config.mss())) as u32;
            Arc::new(TcpConfig { receiver_window: segments, ..config })
        };
        let plan = ProxyPlan { towards: towards.map(config_of), buffer, late };
        Rig {
            hosts,
            proxy_plan: plan.clone(),
            proxy: Proxy::new(plan, WINDOW, Stream::new(seed, "numbers")),
            out: Outbox::default(),
            now: Time::ZERO,
            loses: 0,
            marks: 0,
            marked: [0; 2],
            stream: Stream::new(seed, "wire"),
            wire: BTreeMap::new(),
            sent: 0,
            longest_silence: Span::from_secs(130),
            enemy: None,
            place: vec![0; 70_000],
        }
    }

    /// The source opens a connection.
    fn connect(&mut self) {
        let ends = [address(1, 40_000), address(2, 80)];
        let host = &mut self.hosts[0];
        let start = (host.initial, WINDOW);
        host.end = Some(Duplex::open(&host.config, ends, start, self.now, &mut host.segments));
        host.begin(self.now);
        self.collect();
    }

    fn put(&mut self, to_host: bool, side: usize, bytes: &[u8]) {
        if let Some(change) = self.enemy.filter(|_| !to_host)
            && self.stream.below(10) == 0
            && let Ok((header, payload)) = codec::parse(bytes)
        {
            let header = change(&mut self.stream, header);
            let length = header.write(payload, &mut self.place).expect("it fits");
            let copy = self.place[..length].to_vec();
            self.sent += 1;
            let at = self.now + Span::from_millis(1 + self.stream.below(20));
            self.wire.insert((at, self.sent), (to_host, side, copy));
        }
        if self.loses > 0 && self.stream.below(self.loses) == 0 {
            return;
        }
        let bytes = &self.mark(bytes);
        let copies = 1 + u64::from(self.loses > 0 && self.stream.below(50) == 0);
        for _ in 0..copies {
            let late = if self.loses > 0 && self.stream.below(20) == 0 { self.stream.below(30) } else { 0 };
            self.sent += 1;
            let at = self.now + Span::from_millis(10 + late);
            self.wire.insert((at, self.sent), (to_host, side, bytes.to_owned()));
        }
    }

    fn mark(&mut self, bytes: &[u8]) -> Vec<u8> {
        let parsed = codec::parse(bytes).ok();
        match parsed.filter(|(header, _)| self.marks > 0 && header.ecn != Ecn::NotCapable) {
            Some((header, payload)) if self.stream.below(self.marks) == 0 => {
                let header = Header { ecn: Ecn::Congestion, ..header };
                let length = header.write(payload, &mut self.place).expect("it fits");
                self.place[..length].to_vec()
            }
            _ => bytes.to_vec(),
        }
    }

    fn collect(&mut self) {
        for side in 0..2 {
            for bytes in self.hosts[side].leave() {
                self.put(false, side, &bytes);
            }
        }
        let packets: Vec<(usize, Vec<u8>)> =
            self.out.packets().map(|(side, _, bytes)| (side, bytes.to_vec())).collect();
        self.out.clear();
        for (side, bytes) in packets {
            self.put(true, side, &bytes);
        }
    }

    /// Lets the next thing happen; `false` if nothing will.
    fn step(&mut self) -> bool {
        let first = self.wire.keys().next().copied();
        let timers = self.hosts.iter().filter_map(|host| host.end.as_ref()?.due()).chain(self.proxy.due());
        let Some(at) = timers.chain(first.map(|key| key.0)).min() else { return false };
        if at > self.now + self.longest_silence {
            return false;
        }
        self.now = self.now.max(at);
        if let Some(key) = first.filter(|key| key.0 <= self.now) {
            let Some((to_host, side, bytes)) = self.wire.remove(&key) else { return false };
            if to_host {
                self.marked[side] += u32::from(bytes[1] & 3 == 3);
                self.hosts[side].take(&bytes, self.now);
            } else if !self.proxy.take(&bytes, (side, None), self.now, &mut self.out) {
                self.put(true, 1 - side, &bytes);
            }
        } else {
            for host in &mut self.hosts {
                if let Some(end) = &mut host.end {
                    end.on_timer(self.now, &mut host.segments);
                }
            }
            self.proxy.on_timer(self.now, &mut self.out);
        }
        self.collect();
        true
    }

    fn run(&mut self) {
        for _ in 0..2_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not come to rest: {}", self.now);
    }
}

fn data(length: usize, seed: u64) -> Vec<u8> {
    let mut stream = Stream::new(seed, "data");
    (0..length).map(|_| stream.below(256) as u8).collect()
}

/// Senders on both sides with SACK and without, with marks that are counted, echoed, or not allowed, buffers from four
/// segments on, early and late, numbers that wrap, and wires that lose up to a tenth: both streams arrive whole.
#[test]
fn both_streams_arrive_whole() {
    let names = ["newreno", "cubic+ace", "bbr", "sack", "dctcp", "vegas", "westwood+", "prague+ace"];
    for seed in 0..80 {
        let pick = |offset: u64| names[((seed / 2 + offset) % 8) as usize];
        let near_wrap = u32::MAX - (seed as u32 * 997) % 40_000;
        let source = Host::new(pick(0), near_wrap, data(60_000 + 1000 * seed as usize, seed));
        let sink = Host::new(pick(1), near_wrap.wrapping_add(5), data(30_000, seed + 1000));
        let buffer = [8_000, 64_000, 300_000][(seed % 3) as usize];
        let mut rig = Rig::new([source, sink], [pick(2), pick(3)], (buffer, seed % 2 == 0, seed));
        rig.loses = [0, 100, 10][(seed / 3 % 3) as usize];
        rig.marks = [0, 20][(seed / 5 % 2) as usize];
        rig.connect();
        rig.run();
        let [source, sink] = &rig.hosts;
        assert!(sink.got == source.sends, "{seed}: {} of {}", sink.got.len(), source.sends.len());
        assert!(source.got == sink.sends, "{seed}: {} of {}", source.got.len(), sink.sends.len());
        assert!(source.end().is_done() && sink.end().is_done(), "{seed}: closed on both sides");
        assert_eq!(rig.proxy.due(), None, "{seed}: and forgotten");
    }
}

/// RFC 9768 on both sides of a proxy: what the last ACK of each host tells is 5 and what came to it with a mark.
#[test]
fn each_side_counts_its_own_marks() {
    for seed in 0..10 {
        let hosts = [1, 2].map(|host| Host::new("cubic+ace", 7, data(200_000, host)));
        let mut rig = Rig::new(hosts, ["dctcp+ace", "sack+ace"], (64_000, seed % 2 == 0, seed));
        rig.marks = 8;
        let mut told = [0; 2];
        rig.connect();
        while rig.step() {
            for (to_host, side, bytes) in rig.wire.values() {
                let Ok((Header { transport: Transport::Tcp(tcp), .. }, _)) = codec::parse(bytes) else {
                    continue;
                };
                if !to_host && !tcp.flags.syn {
                    told[*side] = u32::from(tcp.flags.ae) << 2
                        | u32::from(tcp.flags.cwr) << 1
                        | u32::from(tcp.flags.ece);
                }
            }
        }
        assert!(rig.marked.iter().all(|marks| *marks > 3), "{:?}", rig.marked);
        assert_eq!(told, rig.marked.map(|marks| (5 + marks) % 8), "{seed}");
    }
}

fn rig(source: Vec<u8>, sink: Vec<u8>, late: bool) -> Rig {
    let hosts = [Host::new("cubic", 7, source), Host::new("newreno", 9, sink)];
    Rig::new(hosts, ["sack", "newreno"], (64_000, late, 1))
}

fn flags(host: &Host) -> Vec<(bool, bool, bool)> {
    let of = |header: &Header| match header.transport {
        Transport::Tcp(tcp) => (tcp.flags.syn, tcp.flags.fin, tcp.flags.rst),
        Transport::Udp => (false, false, false),
    };
    host.headers.iter().map(of).collect()
}

/// What a SYN offers is what the proxy's own TCP on that side can, not what the other host does: the source offers
/// SACK, the proxy's NewReno towards the sink does not.
#[test]
fn each_side_agrees_on_its_own_options() {
    let mut rig = rig(data(5_000, 1), data(5_000, 2), true);
    rig.connect();
    rig.run();
    let syn = |host: &Host| {
        host.headers.iter().find_map(|header| match header.transport {
            Transport::Tcp(tcp) if tcp.flags.syn => Some((header.source, tcp.seq, tcp.options)),
            _ => None,
        })
    };
    let (from, number, offer) = syn(&rig.hosts[1]).expect("the sink was asked");
    assert_eq!(from, address(1, 40_000), "in the name of the source");
    assert_ne!(number, 7, "with numbers of its own");
    assert!(!offer.sack_permitted && offer.window_scale.is_some() && offer.timestamps.is_some());
    let (from, number, answer) = syn(&rig.hosts[0]).expect("the source was answered");
    assert_eq!(from, address(2, 80));
    assert_ne!(number, 9);
    assert!(answer.sack_permitted);
}

/// `late`: the source hears of an open connection only when the sink has agreed, two wires of 10 ms there and two back
/// later, and of a refusal if it has not; `early` it hears at once.
#[test]
fn a_proxy_answers_when_it_shall() {
    for late in [true, false] {
        let mut rig = rig(data(5_000, 1), Vec::new(), late);
        rig.connect();
        while rig.hosts[0].headers.is_empty() {
            assert!(rig.step());
        }
        assert_eq!(rig.now, Time::ZERO + Span::from_millis(if late { 40 } else { 20 }), "{late}");
        rig.run();
        assert_eq!(rig.hosts[1].got, rig.hosts[0].sends);
    }
    let mut rig = rig(data(5_000, 1), Vec::new(), true);
    rig.connect();
    // The sink has no listener: it refuses whatever comes.
    while rig.step() {
        if let Some(end) = rig.hosts[1].end.take() {
            let to = address(1, 40_000);
            assert!(!end.is_open());
            rig.hosts[1].segments.clear();
            rig.wire.clear();
            let syn = rig.hosts[1].headers[0];
            assert_eq!(syn.source, to);
            rig.hosts[1].segments.extend(refuse(&syn, 0));
            rig.collect();
            break;
        }
    }
    rig.run();
    assert_eq!(flags(&rig.hosts[0]).last(), Some(&(false, false, true)), "the source is refused too");
    assert!(rig.hosts[0].end().is_reset());
    assert_eq!(rig.proxy.due(), None);
}

/// Whichever host breaks off, the other hears of it, and who goes on sending hears of it again.
#[test]
fn a_reset_goes_through() {
    for side in [0, 1] {
        let mut rig = rig(data(3_000_000, 1), data(3_000_000, 2), true);
        rig.connect();
        while rig.hosts[1 - side].got.len() < 500_000 {
            assert!(rig.step());
        }
        let now = rig.now;
        let host = &mut rig.hosts[side];
        host.end.as_mut().unwrap().abort(now, &mut host.segments);
        rig.collect();
        rig.run();
        assert!(rig.hosts[1 - side].end().is_reset(), "{side}");
        let got = &rig.hosts[1 - side].got;
        assert!(
            got.len() < 3_000_000 && rig.hosts[side].sends.starts_with(got),
            "{side}: what came is right"
        );
        assert!(rig.hosts[side].end().is_reset());
        assert_eq!(rig.proxy.due(), None, "{side}: and the proxy has forgotten it");
    }
}

/// A proxy that has given a host up tells the other one.
#[test]
fn a_host_that_has_gone_ends_the_connection() {
    let mut rig = rig(data(1_000_000, 1), Vec::new(), true);
    let mut plan = rig.proxy_plan.clone();
    plan.towards = plan.towards.map(|config| Arc::new(TcpConfig { give_up: Some(3), ..(*config).clone() }));
    rig.proxy = Proxy::new(plan, WINDOW, Stream::new(1, "numbers"));
    rig.connect();
    while rig.hosts[1].got.len() < 100_000 {
        assert!(rig.step());
    }
    while !rig.hosts[0].end().is_reset() {
        rig.wire.retain(|_, (to_host, side, _)| !*to_host || *side == 0);
        assert!(rig.step(), "{}", rig.now);
    }
    assert!(rig.now < Time::ZERO + Span::from_secs(60), "{}", rig.now);
}

/// The source closes after its question; the sink answers at length, and closes later.
#[test]
fn a_connection_may_be_half_closed() {
    let mut rig = rig(data(100, 1), data(400_000, 2), true);
    rig.connect();
    rig.run();
    let fins: Vec<usize> =
        rig.hosts.iter().map(|host| flags(host).iter().filter(|flag| flag.1).count()).collect();
    assert!(fins[0] >= 1 && fins[1] >= 1, "{fins:?}");
    let first_fin = flags(&rig.hosts[1]).iter().position(|flag| flag.1);
    assert!(first_fin < Some(20), "the FIN of the question goes on at once: {first_fin:?}");
    assert_eq!(rig.hosts[0].got, rig.hosts[1].sends);
    assert!(rig.hosts.iter().all(|host| host.end().is_done()));
}

/// A reader that is slow on one side closes the window on the other: the proxy holds its buffer and no more.
#[test]
fn a_slow_sink_holds_the_source_back() {
    let mut rig = rig(data(1_000_000, 1), Vec::new(), true);
    rig.connect();
    while rig.hosts[1].got.len() < 10_000 {
        assert!(rig.step());
    }
    // The sink is gone for a minute.
    rig.wire.retain(|_, (to_host, side, _)| !*to_host || *side == 0);
    let silent = rig.now + Span::from_secs(60);
    while rig.now < silent {
        assert!(rig.step());
        rig.wire.retain(|_, (to_host, side, _)| !*to_host || *side == 0);
    }
    let delivered = rig.hosts[0].end().delivered();
    let got = rig.hosts[1].got.len() as u64;
    assert!(delivered > got && delivered <= got + 64_000, "{delivered} {got}");
    rig.run();
    assert_eq!(rig.hosts[1].got.len(), 1_000_000, "it goes on when the sink is back");
}

/// What the proxy does not know from its beginning, or opens as it does not understand, goes through untouched.
#[test]
fn what_is_not_understood_passes() {
    let mut rig = rig(Vec::new(), Vec::new(), true);
    let host = &mut rig.hosts[0];
    let ends = [address(1, 40_000), address(2, 80)];
    host.end = Some(Duplex::open(&host.config, ends, (7, WINDOW), Time::ZERO, &mut host.segments));
    let syn = host.leave().remove(0);
    let (header, _) = codec::parse(&syn).unwrap();
    let mut place = vec![0; 100];
    // Data in the SYN; a segment of a connection that it has not seen; a cut-off packet; UDP.
    let length = header.write(b"hello", &mut place).unwrap();
    let with_data = place[..length].to_vec();
    let Transport::Tcp(mut tcp) = header.transport else { panic!() };
    (tcp.flags.syn, tcp.flags.ack) = (false, true);
    let length = Header { transport: Transport::Tcp(tcp), ..header }.write(b"", &mut place).unwrap();
    let stray = place[..length].to_vec();
    let length = Header { transport: Transport::Udp, ..header }.write(b"hello", &mut place).unwrap();
    let datagram = place[..length].to_vec();
    // A request for a cookie of TCP Fast Open (RFC 7413): kind 34, in place of two no-operations or padding.
    let mut cookie = syn.clone();
    let options = 20 + 20;
    let at = (options..cookie.len() - 1).find(|&at| cookie[at] == 8 && cookie[at + 1] == 10).unwrap();
    cookie[at] = 34;
    let sum = codec::checksum(
        &[
            &cookie[12..20],
            &[0, 6],
            &((cookie.len() - 20) as u16).to_be_bytes(),
            &cookie[20..36],
            &[0, 0],
            &cookie[38..],
        ]
        .concat(),
    );
    cookie[36..38].copy_from_slice(&sum.to_be_bytes());
    assert!(codec::parse(&cookie).is_ok());
    for bytes in [&with_data[..], &stray, &syn[..30], &datagram, &cookie] {
        assert!(!rig.proxy.take(bytes, (0, None), Time::ZERO, &mut rig.out), "{bytes:02x?}");
        assert_eq!(rig.out.packets().count(), 0);
    }
    assert_eq!(rig.proxy.untouched, 2, "connections whose SYN it saw");
    assert!(rig.proxy.take(&syn, (0, None), Time::ZERO, &mut rig.out), "the plain SYN is its own");
}

fn with_tcp(header: Header, change: impl FnOnce(&mut Tcp)) -> Header {
    let Transport::Tcp(mut tcp) = header.transport else { return header };
    change(&mut tcp);
    Header { transport: Transport::Tcp(tcp), ..header }
}

/// An attacker who does not know the numbers of a connection does it no harm (RFC 5961): resets, SYNs, data and ACKs
/// that lie outside of the windows are answered and change nothing.
#[test]
fn who_guesses_numbers_does_no_harm() {
    for seed in 0..30 {
        let hosts =
            [Host::new("cubic", 7, data(200_000, seed)), Host::new("newreno", 9, data(100_000, seed + 1))];
        let mut rig = Rig::new(hosts, ["sack", "newreno"], (64_000, true, seed));
        rig.loses = 100;
        rig.connect();
        while !rig.hosts.iter().all(|host| host.end.as_ref().is_some_and(Duplex::is_open)) {
            assert!(rig.step());
        }
        rig.enemy = Some(|stream, header| {
            with_tcp(header, |tcp| {
                let away = (1 << 21) + stream.below(1 << 31) as u32;
                match stream.below(4) {
                    0 => (tcp.seq, tcp.flags.rst) = (tcp.seq.wrapping_add(away), true),
                    1 => (tcp.seq, tcp.flags.syn) = (tcp.seq.wrapping_add(away), true),
                    2 => tcp.seq = tcp.seq.wrapping_add(away),
                    _ => tcp.ack = tcp.ack.wrapping_add(away),
                }
                // Its clock is not the connection's either.
                tcp.options.timestamps =
                    tcp.options.timestamps.map(|both| (both.0.wrapping_add(away), both.1));
            })
        });
        rig.run();
        let [source, sink] = &rig.hosts;
        assert!(sink.got == source.sends, "{seed}: {} of {}", sink.got.len(), source.sends.len());
        assert!(source.got == sink.sends, "{seed}: {} of {}", source.got.len(), sink.sends.len());
    }
}

/// An attacker who sees the packets and sends others like them may break the connection, and nothing else: no panic,
/// no packet that cannot be read, and it comes to rest.
#[test]
fn who_knows_them_breaks_no_proxy() {
    let mut broken = 0;
    for seed in 0..100 {
        let hosts = [Host::new("cubic", 7, data(60_000, 1)), Host::new("bbr", 9, data(30_000, 2))];
        let senders = ["newreno", "sack", "cubic", "bbr", "vegas", "westwood+"];
        let towards = [senders[seed as usize % 6], senders[seed as usize / 6 % 6]];
        let mut rig = Rig::new(hosts, towards, (20_000, seed % 2 == 0, seed));
        rig.loses = 50;
        rig.enemy = Some(|stream, header| {
            with_tcp(header, |tcp| {
                let near = |stream: &mut Stream, number: u32| {
                    let sizes = [2, 3_000, 100_000, 1 << 32];
                    let size = sizes[stream.below(4) as usize];
                    number.wrapping_add(stream.below(size) as u32).wrapping_sub((size / 2) as u32)
                };
                tcp.seq = near(stream, tcp.seq);
                tcp.ack = near(stream, tcp.ack);
                let bits = stream.below(1 << 16);
                tcp.flags.fin ^= bits.is_multiple_of(8);
                tcp.flags.rst ^= bits & 0x1f8 == 0;
                tcp.flags.syn ^= bits & 0x38 == 0;
                tcp.flags.ack ^= bits & 0x1c0 == 0;
                tcp.window = if bits & 1 == 0 { tcp.window } else { bits as u16 };
                tcp.options.timestamps =
                    tcp.options.timestamps.map(|both| (near(stream, both.0), near(stream, both.1)));
                if tcp.options.block_room() > tcp.options.sack.as_slice().len() {
                    tcp.options.sack.push((near(stream, tcp.ack), near(stream, tcp.ack)));
                }
                tcp.options.window_scale = tcp.options.window_scale.map(|_| bits as u8);
                tcp.options.mss = tcp.options.mss.map(|_| bits as u16);
            })
        });
        rig.connect();
        for _ in 0..20_000 {
            if !rig.step() {
                break;
            }
        }
        broken += u64::from(rig.hosts[1].got != rig.hosts[0].sends);
    }
    assert!((10..100).contains(&broken), "an enemy that matters: {broken}");
}

/// When its table is full, further connections go through.
#[test]
fn a_full_proxy_lets_through() {
    let mut rig = rig(Vec::new(), Vec::new(), true);
    let mut place = vec![0; 100];
    let host = &mut rig.hosts[0];
    let ends = [address(1, 1), address(2, 80)];
    host.end = Some(Duplex::open(&host.config, ends, (7, WINDOW), Time::ZERO, &mut host.segments));
    let syn = host.leave().remove(0);
    let (header, _) = codec::parse(&syn).unwrap();
    let taken = (1..=300).filter(|&port| {
        let header = Header { source: address(1, port), ..header };
        let length = header.write(b"", &mut place).unwrap();
        rig.proxy.take(&place[..length], (0, None), Time::ZERO, &mut rig.out)
    });
    assert_eq!(taken.count(), 255);
    assert_eq!(rig.proxy.untouched, 45);
}
