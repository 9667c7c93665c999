//! A million packets of an enemy through everything that reads real packets: the codec, the gateway, and the helpers of
//! a world. No panic, no memory that grows, and what comes out is what went in, or was counted.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::packet::{Kind, NONE, Note, Packet};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_live::passage::Passage;
use lasthop_live::plan::LivePlan;
use lasthop_live::store::Store;
use lasthop_net::plan::Plan;
use lasthop_net::trace::Recording;
use lasthop_net::transport::codec::{self, Ecn, Flags, Header, MAX_PACKET, Options, Tcp, Transport};
use lasthop_net::transport::extra::{Extra, Offer};
use lasthop_net::transport::outside::{End, Gateway};
use lasthop_net::world::{Evaluation, World};
use lasthop_sim::scenario::{Format, Scenario};

const PACKETS: u64 = 1_000_000;
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 443);
const PHONE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 3), 50_000);
/// Places for bytes: few, so that packets outlive them.
const PLACES: usize = 512;

/// A last hop with everything that may read or keep real packets, and losses that give it something to do.
const SCENARIO: &str = r#"
duration = "100000 s"
[topology]
kind = "graph"
nodes = ["server", "base", "phone"]
[[topology.links]]
from = "server"
to = "base"
rate = "100 Mbit/s"
delay = "1 ms"
[[topology.links]]
from = "base"
to = "phone"
rate = "20 Mbit/s"
delay = "3 ms"
queue = { kind = "fq-codel", limit = 200 }
error = { kind = "bernoulli", packet_error_rate = 0.05 }
reverse = { queue = { kind = "drop-tail", limit = "50 packets" } }
KEYS
[[flows]]
source = "server"
sink = "phone"
transport = "newreno"
"#;

/// Makes packets of connections that look alive: near what was sent before, or anywhere.
struct Enemy {
    stream: Stream,
    /// Newest sequence numbers of the server, one for each of its connections.
    numbers: Vec<u32>,
    place: Vec<u8>,
    sent: u64,
    /// Most of what it sends belongs to this number of them.
    few: u64,
}

impl Enemy {
    fn new(name: &str) -> Enemy {
        let mut stream = Stream::new(1, name);
        let numbers = (0..400).map(|_| stream.below(1 << 32) as u32).collect();
        Enemy { stream, numbers, place: vec![0; MAX_PACKET], sent: 0, few: 4 }
    }

    fn chance(&mut self, of: u64) -> bool {
        self.stream.below(of) == 0
    }

    fn number(&mut self, near: u32) -> u32 {
        match self.stream.below(8) {
            0 => self.stream.below(1 << 32) as u32,
            1 => near.wrapping_add(1 << 31),
            2 => near.wrapping_sub(1000 * self.stream.below(40) as u32),
            _ => near,
        }
    }

    fn next(&mut self) -> Vec<u8> {
        self.sent += 1;
        let connections = if self.chance(10) { 400 } else { self.few };
        let connection = self.stream.below(connections) as usize;
        let up = self.chance(2);
        let (server, phone) = (SERVER, SocketAddrV4::new(*PHONE.ip(), 50_000 + connection as u16));
        let base = self.numbers[connection];
        let size = if up || self.chance(4) { 0 } else { self.stream.below(1470) as usize };
        if !up && size > 0 {
            self.numbers[connection] = base.wrapping_add(size as u32);
        }
        let bits = self.stream.below(1 << 32) as u32;
        let flags = Flags {
            syn: bits.is_multiple_of(64),
            fin: bits % 64 == 1,
            rst: bits % 128 == 2,
            // The first SYN of a connection acknowledges nothing.
            ack: bits % 64 != 3 && (up || !bits.is_multiple_of(64)),
            ece: bits % 16 == 4,
            cwr: bits % 16 == 5,
            eln: bits % 32 == 6,
            ae: bits % 32 == 7,
            psh: false,
        };
        let mut options = Options {
            mss: flags.syn.then_some(bits as u16),
            window_scale: flags.syn.then_some((bits >> 24) as u8),
            sack_permitted: flags.syn,
            timestamps: bits.is_multiple_of(3).then_some((bits, base)),
            ..Options::default()
        };
        for _ in 0..self.stream.below(4) {
            let block = (self.number(base), self.number(base));
            options.sack.push(block);
        }
        let (seq, ack) = if up { (77, self.number(base)) } else { (self.number(base), 77) };
        let tcp = Tcp { seq, ack, window: (bits >> 8) as u16, flags, options };
        let transport = if self.chance(20) { Transport::Udp } else { Transport::Tcp(tcp) };
        let (source, destination) = if up { (phone, server) } else { (server, phone) };
        let ecn = if self.chance(5) { Ecn::Capable } else { Ecn::NotCapable };
        let header = Header {
            source,
            destination,
            identification: self.sent as u16,
            time_to_live: 64,
            ecn,
            transport,
        };
        let payload = vec![self.sent as u8; size];
        let Ok(length) = header.write(&payload, &mut self.place) else { return Vec::new() };
        let mut bytes = self.place[..length].to_vec();
        self.spoil(&mut bytes);
        bytes
    }

    /// One in three is overwritten, cut off or made longer; the checksum of IP is made right again half of the time.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        if !self.chance(3) {
            return;
        }
        for _ in 0..self.stream.below(4) {
            let at = self.stream.below(bytes.len().min(80) as u64) as usize;
            bytes[at] = self.stream.below(256) as u8;
        }
        match self.stream.below(10) {
            0 | 1 => bytes.truncate(self.stream.below(bytes.len() as u64) as usize),
            // A super-segment, as from a device that segments by itself.
            2 => {
                bytes.resize(20_000, 0);
                bytes[2..4].copy_from_slice(&20_000u16.to_be_bytes());
            }
            _ => {}
        }
        if bytes.len() >= 20 && self.chance(2) {
            let sum = codec::checksum(&[&bytes[..10], &[0, 0], &bytes[12..20]].concat());
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// What a packet is, but for what may change on its way: marks of congestion and of loss, SACK blocks that a helper
/// hides, and the checksums.
fn essence(bytes: &[u8]) -> u64 {
    let mut bytes = bytes.to_vec();
    codec::patch::keep_sack_blocks(&mut bytes, 0);
    for (at, kept) in [(1, !3), (10, 0), (11, 0), (32, !0x0e), (36, 0), (37, 0)] {
        if let Some(byte) = bytes.get_mut(at) {
            *byte &= kept;
        }
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Resident memory of this process in bytes; 0 where the system does not tell.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn through_a_world(keys: &str, packets: u64) {
    let text = SCENARIO.replace("KEYS", keys);
    let scenario =
        Scenario::parse(&text, Format::Toml, "hostile", &[]).unwrap_or_else(|error| panic!("{error}"));
    let live = LivePlan::new(scenario.plan()).unwrap();
    let mut world = World::evaluated(&live.plan, 1, Recording::default(), Evaluation::Clocked);
    for flow in 0..live.plan.flows.len() {
        world.open_end(flow, End::Sender);
        world.open_end(flow, End::Receiver);
    }
    let mut passage = Passage::new(live.pairs.clone(), Store::new(PLACES));
    let mut enemy = Enemy::new(keys);
    // What went in lately: by its essence, when.
    let mut lately: HashMap<u64, u64> = HashMap::new();
    let (mut now, mut left, mut first, mut admitted_packets, mut released) =
        (Time::ZERO, Vec::new(), 0, 0, 0u64);
    for sent in 0..packets {
        now += Span::from_nanos(enemy.stream.below(800_000));
        world.step_until(now);
        let window = world.network.window();
        left.clear();
        world.depart(&mut left);
        for departure in &left {
            let flow = departure.flow as usize;
            let stats = &mut world.network.flows[flow];
            let Some(bytes) = passage.release(flow, departure, stats, &window) else { continue };
            assert!(lately.contains_key(&essence(bytes)), "{keys}: something that was never sent");
            released += 1;
        }
        let bytes = enemy.next();
        let refused: u64 = passage.oddities.refused.iter().sum();
        let any = live.hosts[enemy.stream.below(live.hosts.len() as u64) as usize].address;
        let mut hosts = live.hosts.iter().map(|host| host.address);
        let from = hosts.find(|own| bytes.get(12..16) == Some(&own.octets())).unwrap_or(any);
        match passage.admit(from, &bytes, now, &window) {
            Ok(admitted) => {
                lately.insert(essence(&bytes), sent);
                admitted_packets += 1;
                world.inject(admitted.flow, admitted.packet, Some(admitted.extra));
            }
            Err(_) => assert_eq!(passage.oddities.refused.iter().sum::<u64>(), refused + 1, "it is counted"),
        }
        if sent % 20_000 == 0 {
            lately.retain(|_, at| sent - *at < 20_000);
        }
        if sent == packets / 5 {
            first = memory();
        }
    }
    let grown = memory().saturating_sub(first);
    assert!(grown < 48 << 20, "{keys}: {} MB more for four fifths of the packets", grown >> 20);
    // Three of four may be lost to the rate of the link and its errors, but not all, and not silently.
    assert!(admitted_packets > packets / 2 && released > packets / 10, "{admitted_packets} {released}");
    assert!(passage.oddities.opaque > packets / 100, "{}", passage.oddities.opaque);
    world.cut_short();
    world.finish();
    assert!(world.network.ledger.balances(), "{keys}: {:?}", world.network.ledger);
}

/// Each helper that may stand below real traffic, and a link without any, get their share of the million; with
/// `LASTHOP_FUZZ` a million each, in twenty seconds.
#[test]
fn a_million_hostile_packets_pass_the_helpers() {
    let helpers = [
        "",
        "middleboxes = [{ kind = \"snoop\" }]",
        "middleboxes = [{ kind = \"fec\" }]",
        "middleboxes = [{ kind = \"ack-filter\" }]",
        "arq = {}",
    ];
    let all = std::env::var_os("LASTHOP_FUZZ").is_some();
    let share = if all { PACKETS } else { PACKETS / helpers.len() as u64 };
    for helper in helpers {
        through_a_world(helper, share);
    }
}

/// A proxy that splits connections, between an enemy and an honest end, two enemies, or two honest ends in whose name
/// somebody else sends. Returns how many bytes arrived.
fn through_a_split(plan: &Plan, seed: u64, enemy: &mut Enemy, packets: u64) -> u64 {
    let mut world = World::evaluated(plan, seed, Recording::default(), Evaluation::Clocked);
    let far = plan.flows.iter().position(|flow| flow.relay.is_some()).expect("the half beyond the proxy");
    if seed.is_multiple_of(2) {
        world.open_end(0, End::Sender);
    }
    if seed % 4 > 1 {
        world.open_end(far, End::Receiver);
    }
    let initial = enemy.numbers[0].wrapping_sub(1);
    let phone = SocketAddrV4::new(*PHONE.ip(), 50_000);
    let mut gateways = [0, far].map(|flow| (flow, Gateway::new((SERVER, initial), (phone, 76))));
    let (mut now, mut left) = (Time::ZERO, Vec::new());
    for _ in 0..packets {
        now += Span::from_nanos(enemy.stream.below(2_000_000));
        world.step_until(now);
        left.clear();
        world.depart(&mut left);
        for departure in &left {
            for (_, gateway) in gateways.iter_mut().filter(|(flow, _)| *flow == departure.flow as usize) {
                gateway.leave(&departure.packet, departure.extra.as_ref());
            }
        }
        let bytes = enemy.next();
        let Ok((header, payload)) = codec::parse(&bytes) else { continue };
        let (flow, gateway) = &mut gateways[usize::from(header.source.ip() == PHONE.ip())];
        if let Some((packet, extra)) = gateway.enter(&header, bytes.len(), payload.len(), now) {
            world.inject(*flow, packet, extra);
        }
    }
    world.cut_short();
    world.finish();
    assert!(world.network.ledger.balances(), "{seed}: {:?}", world.network.ledger);
    world.network.flows[far].bytes_delivered
}

/// A split ends connections and opens its own: many short lives of it, with senders and receivers of every kind.
#[test]
fn a_million_hostile_packets_pass_a_split() {
    const EACH: u64 = 1000;
    let senders = [
        "\"newreno\"",
        "\"reno\"",
        "{ preset = \"newreno\", profile = \"ns2\" }",
        "{ preset = \"sack\", ecn = true }",
        "{ preset = \"cubic\", profile = \"linux\" }",
        "{ preset = \"bbr\", profile = \"linux\" }",
        "\"vegas\"",
        "\"probing\"",
    ];
    let mut enemy = Enemy::new("split");
    enemy.few = 1;
    let (mut delivered, mut first) = (0, 0);
    let worlds = PACKETS / EACH / senders.len() as u64;
    for (number, sender) in senders.iter().enumerate() {
        let split = format!("middleboxes = [{{ kind = \"split\", to_wireless = {sender} }}]");
        let text = SCENARIO.replace("KEYS", &split).replace("100000 s", "1000 s");
        let text = text.replace("\"newreno\"\n", &format!("{sender}\n"));
        let scenario =
            Scenario::parse(&text, Format::Toml, "hostile", &[]).unwrap_or_else(|error| panic!("{error}"));
        for seed in 0..worlds {
            delivered += through_a_split(scenario.plan(), seed, &mut enemy, EACH);
        }
        if number == 1 {
            first = memory();
        }
    }
    let grown = memory().saturating_sub(first);
    assert!(grown < 48 << 20, "{} MB more for three quarters of the packets", grown >> 20);
    assert!(delivered > 4_000_000, "connections live for a while: {delivered} bytes");
}

/// Around WTCP, which stands in no live path, both ends are enemies. Returns how many packets came through, and how
/// many segments it kept.
fn through_wtcp(plan: &Plan, seed: u64, enemy: &mut Enemy, packets: u64) -> (u64, u64) {
    let mut world = World::evaluated(plan, seed, Recording::default(), Evaluation::Clocked);
    world.open_end(0, End::Sender);
    world.open_end(0, End::Receiver);
    let initial = enemy.numbers[0].wrapping_sub(1);
    let phone = SocketAddrV4::new(*PHONE.ip(), 50_000);
    let mut gateway = Gateway::new((SERVER, initial), (phone, 76));
    let (mut now, mut passed, mut left) = (Time::ZERO, 0, Vec::new());
    // The connection opens as it should, with timestamps: WTCP lets others alone.
    let offer = Some(Offer { timestamps: true, ..Offer::default() });
    let opening = Packet { kind: Kind::Syn, bytes: 60, extra: NONE, ..Packet::default() };
    let back = Note::new(true, false);
    for packet in [opening, Packet { kind: Kind::SynAck, seq: 1, note: back, ..opening }] {
        world.inject(0, packet, Some(Extra { offer, ..Extra::default() }));
        now += Span::from_millis(20);
        world.step_until(now);
    }
    for _ in 0..packets {
        now += Span::from_nanos(enemy.stream.below(2_000_000));
        world.step_until(now);
        left.clear();
        world.depart(&mut left);
        passed += left.len() as u64;
        let bytes = enemy.next();
        let Ok((header, payload)) = codec::parse(&bytes) else { continue };
        if let Some((packet, extra)) = gateway.enter(&header, bytes.len(), payload.len(), now) {
            world.inject(0, packet, extra);
        }
    }
    world.cut_short();
    world.finish();
    assert!(world.network.ledger.balances(), "{seed}: {:?}", world.network.ledger);
    let counters = world.network.device_counters();
    let kept = counters.iter().filter(|(_, name, _)| *name == "wtcp_kept").map(|(.., count)| count).sum();
    (passed, kept)
}

#[test]
fn a_million_hostile_packets_pass_wtcp() {
    const EACH: u64 = 100;
    let wtcp = "middleboxes = [{ kind = \"wtcp\", buffer = 16 }]";
    let text = SCENARIO.replace("KEYS", wtcp).replace("100000 s", "1000 s");
    let scenario =
        Scenario::parse(&text, Format::Toml, "hostile", &[]).unwrap_or_else(|error| panic!("{error}"));
    let mut enemy = Enemy::new("wtcp");
    enemy.few = 1;
    let (mut passed, mut kept, mut first) = (0, 0, 0);
    for seed in 0..PACKETS / EACH {
        let (more, held) = through_wtcp(scenario.plan(), seed, &mut enemy, EACH);
        (passed, kept) = (passed + more, kept + held);
        if seed == PACKETS / EACH / 4 {
            first = memory();
        }
    }
    let grown = memory().saturating_sub(first);
    assert!(grown < 48 << 20, "{} MB more for three quarters of the packets", grown >> 20);
    assert!(passed > PACKETS / 5 && kept > PACKETS / 50, "{passed} through, {kept} kept");
}

/// The codec alone: what it reads it can write, and reads the same again.
#[test]
fn a_million_hostile_packets_pass_the_codec() {
    let mut enemy = Enemy::new("codec");
    let mut place = vec![0; MAX_PACKET];
    let mut understood = 0;
    for _ in 0..PACKETS {
        let bytes = enemy.next();
        let Ok((header, payload)) = codec::parse(&bytes) else { continue };
        understood += 1;
        let length = header.write(payload, &mut place).expect("what was read can be written");
        let (again, same) = codec::parse(&place[..length]).expect("what was written can be read");
        assert_eq!((again, same), (header, payload));
    }
    assert!(understood > PACKETS / 3, "{understood}");
}

/// The gateway of the ends outside: headers of any kind, for a sender and for a receiver of the engine.
#[test]
fn a_million_hostile_packets_pass_the_gateway() {
    let mut enemy = Enemy::new("gateway");
    let mut gateway = Gateway::new((SERVER, 1), (SocketAddrV4::new(*PHONE.ip(), 50_000), 1));
    let mut entered = 0;
    for sent in 0..PACKETS {
        let bytes = enemy.next();
        let Ok((header, payload)) = codec::parse(&bytes) else { continue };
        let now = Time::ZERO + Span::from_nanos(sent * 100_000);
        let Some((packet, extra)) = gateway.enter(&header, bytes.len(), payload.len(), now) else { continue };
        entered += 1;
        assert_eq!(usize::from(packet.payload), payload.len());
        let (header, _) = gateway.leave(&packet, extra.as_ref());
        header.room().expect("what entered can leave");
    }
    assert!(entered > PACKETS / 20, "{entered}");
}
