//! Headers to bytes and back, beside bytes that were written by hand and by others.

use lasthop_core::random::Stream;
use proptest::prelude::*;

use super::patch::keep_sack_blocks;
use super::*;

fn header(transport: Transport) -> Header {
    Header {
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 50_000),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 60_000),
        identification: 7,
        time_to_live: 64,
        ecn: Ecn::NotCapable,
        transport,
    }
}

fn written(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut place = vec![0xaa; MAX_PACKET];
    let length = header.write(payload, &mut place).unwrap();
    place.truncate(length);
    place
}

/// The options of a segment, as bytes.
fn options_of(options: Options) -> Vec<u8> {
    written(&header(Transport::Tcp(Tcp { options, ..Tcp::default() })), &[])[40..].to_vec()
}

/// A segment written down by hand, its checksums added up apart.
#[test]
fn a_segment_is_the_bytes_that_it_should_be() {
    let tcp = Tcp {
        seq: 0x0102_0304,
        ack: 0x0506_0708,
        window: 0x1000,
        flags: Flags { ack: true, psh: true, ece: true, ..Flags::default() },
        options: Options { timestamps: Some((1, 2)), ..Options::default() },
    };
    let bytes = written(&Header { ecn: Ecn::Capable, ..header(Transport::Tcp(tcp)) }, b"ab");
    #[rustfmt::skip]
    let expected = [
        0x45, 0x02, 0x00, 0x36, 0x00, 0x07, 0x40, 0x00, 0x40, 0x06, 0x26, 0xb7, 10, 0, 0, 1, 10, 0, 0, 2,
        0xc3, 0x50, 0xea, 0x60, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x58, 0x10, 0x00, 0x33, 0x46, 0x00, 0x00,
        1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, b'a', b'b',
    ];
    assert_eq!(bytes, expected);
    let (read, payload) = parse(&bytes).unwrap();
    assert_eq!((read.ecn, payload), (Ecn::Capable, &b"ab"[..]));
    let Transport::Tcp(read) = read.transport else { panic!("a segment") };
    assert_eq!(read, Tcp { options: Options { length: 12, ..tcp.options }, ..tcp });
}

/// Sizes that a run counts (`TcpConfig`): SYN 20, timestamps 12, blocks 4 + 8 each, and the experimental options.
#[test]
fn options_are_aligned() {
    let opening = Options { mss: Some(1448), window_scale: Some(7), ..Options::default() };
    let stamped = Options { timestamps: Some((1, 2)), ..Options::default() };
    assert_eq!(options_of(opening), [2, 4, 5, 168, 1, 3, 3, 7]);
    assert_eq!(options_of(Options { sack_permitted: true, ..opening }).len(), 12);
    let whole = Options { sack_permitted: true, timestamps: Some((1, 2)), ..opening };
    assert_eq!(options_of(whole), [2, 4, 5, 168, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7]);
    assert_eq!(options_of(Options { timestamps: Some((1, 2)), ..opening }).len(), 20);
    for count in 1..=3 {
        let sack = (0..count).map(|number| (10 * number, 10 * number + 5)).collect();
        assert_eq!(options_of(Options { sack, ..stamped }).len() as u64, 12 + 4 + 8 * count);
    }
    let of = |measured| options_of(Options { measured, ..Options::default() });
    let none = Measured::default();
    assert_eq!(of(Measured { wave: Some((1, 2)), ..none }), [253, 8, b'L', b'W', 0, 1, 0, 2]);
    assert_eq!(of(Measured { times: Some((1, 2)), ..none }), [253, 12, b'L', b'T', 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(of(Measured { discards: Some(3), ..none }), [253, 8, b'L', b'D', 0, 0, 0, 3]);
    let report = Some(Report { wave: 1, segments: 2, rate: 3 });
    assert_eq!(of(Measured { report, ..none }), [253, 12, b'L', b'R', 0, 1, 0, 2, 0, 0, 0, 3]);
    // The header pads the 5 bytes to 8.
    assert_eq!(of(Measured { probe: Some(Probe::Answer), ..none }), [253, 5, b'L', b'P', 1, 0, 0, 0]);
    assert_eq!(options_of(Options { length: 8, ..Options::default() }), [0; 8]);
    assert_eq!((Options::default().block_room(), stamped.block_room()), (4, 3));
    // RFC 9768 section 3.2.3, beside timestamps: two blocks have room, three where there are no timestamps.
    let counts = ByteCounts { ect1_first: true, present: 3, fields: [1, 0x01_0203, 0xff_ffff] };
    let option = |counts| Measured { byte_counts: Some(counts), ..none };
    assert_eq!(of(option(counts)), [174, 11, 0, 0, 1, 1, 2, 3, 255, 255, 255, 0]);
    let short = ByteCounts { ect1_first: false, present: 2, ..counts };
    assert_eq!(of(option(short)), [172, 8, 0, 0, 1, 1, 2, 3]);
    assert_eq!(of(option(ByteCounts { present: 1, ..counts })), [174, 5, 0, 0, 1, 0, 0, 0]);
    assert_eq!(Options { measured: option(short), ..stamped }.block_room(), 2);
    assert_eq!(Options { measured: option(counts), ..Options::default() }.block_room(), 3);
    let times = Measured { times: Some((1, 2)), ..none };
    assert_eq!(Options { measured: times, ..stamped }.block_room(), 1);
}

/// Blocks that a helper leaves out become no-operations, and the checksum stays right.
#[test]
fn blocks_are_left_out() {
    let sack = [(1, 2), (3, 4), (5, 6)].into_iter().collect();
    for timestamps in [None, Some((1, 2))] {
        let options = Options { timestamps, sack, ..Options::default() };
        let before = written(&header(Transport::Tcp(Tcp { options, ..Tcp::default() })), b"abc");
        for keep in 0..=4 {
            let mut after = before.clone();
            keep_sack_blocks(&mut after, keep);
            let (read, payload) = parse(&after).unwrap();
            let Transport::Tcp(read) = read.transport else { panic!("a segment") };
            assert_eq!(read.options.sack.as_slice(), &sack.as_slice()[..keep.min(3)]);
            assert_eq!((read.options.timestamps, payload), (timestamps, &b"abc"[..]));
            assert_eq!(after.len(), before.len());
        }
    }
    let mut datagram = written(&header(Transport::Udp), b"5");
    let before = datagram.clone();
    keep_sack_blocks(&mut datagram, 0);
    assert_eq!(datagram, before);
    for cut in 0..before.len() {
        keep_sack_blocks(&mut before.clone()[..cut], 0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let measured = Measured { times: Some((1, 2)), discards: Some(3), ..Measured::default() };
    let sack = [(1, 2), (3, 4), (5, 6)].into_iter().collect();
    let options = Options { timestamps: Some((1, 2)), sack, measured, ..Options::default() };
    let full = header(Transport::Tcp(Tcp { options, ..Tcp::default() }));
    assert_eq!(full.write(&[], &mut [0; 200]), Err(WriteError::Options(60)));
    let udp = header(Transport::Udp);
    assert_eq!(udp.room(), Ok(65_507));
    assert_eq!(udp.write_before_zeros(65_508, &mut [0; 28]), Err(WriteError::Packet(65_536)));
    assert_eq!(udp.write(&[0; 10], &mut [0; 37]), Err(WriteError::Place { needs: 38, has: 37 }));
    assert_eq!(udp.write_before_zeros(10, &mut [0; 37]), Ok(28));
    assert_eq!(WriteError::Options(60).to_string(), "60 bytes of TCP options; 40 is the most");
}

#[test]
fn zeros_need_not_be_stored() {
    for transport in [Transport::Udp, Transport::Tcp(Tcp::default())] {
        let header = header(transport);
        let mut place = [0; MAX_HEADERS];
        let length = header.write_before_zeros(1001, &mut place).unwrap();
        assert_eq!(written(&header, &[0; 1001])[..length], place[..length]);
    }
}

/// RFC 768: a sum that comes out as 0 is sent as all ones, and 0 means that there is none.
#[test]
fn a_datagram_without_a_checksum_is_taken() {
    let mut bytes = written(&header(Transport::Udp), &[1, 2, 3]);
    bytes[26..28].copy_from_slice(&[0, 0]);
    assert_eq!(parse(&bytes).unwrap().1, [1, 2, 3]);
    let sum = u16::from_be_bytes(written(&header(Transport::Udp), &[0, 0])[26..28].try_into().unwrap());
    assert_eq!(written(&header(Transport::Udp), &sum.to_be_bytes())[26..28], [0xff, 0xff]);
}

#[test]
fn each_fault_is_named() {
    let good = written(&header(Transport::Tcp(Tcp::default())), b"payload");
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        parse(&bytes).map(|_| ()).unwrap_err()
    };
    // Puts the checksum of the IP header right again.
    let mended = |change: &dyn Fn(&mut Vec<u8>)| {
        broken(&|bytes| {
            change(bytes);
            bytes[10..12].fill(0);
            let sum = checksum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        })
    };
    assert_eq!(
        broken(&|bytes| bytes.truncate(19)),
        ParseError::Truncated { layer: Layer::Ip, needs: 20, has: 19 }
    );
    assert_eq!(
        broken(&|bytes| bytes.truncate(46)),
        ParseError::Truncated { layer: Layer::Ip, needs: 47, has: 46 }
    );
    assert_eq!(broken(&|bytes| bytes[0] = 0x65), ParseError::Version(6));
    assert_eq!(broken(&|bytes| bytes[0] = 0x44), ParseError::Length { layer: Layer::Ip, length: 16 });
    assert_eq!(mended(&|bytes| bytes[3] = 19), ParseError::Length { layer: Layer::Ip, length: 19 });
    assert_eq!(broken(&|bytes| bytes[8] = 1), ParseError::Checksum(Layer::Ip));
    assert_eq!(mended(&|bytes| bytes[6] = 0x20), ParseError::Fragment);
    assert_eq!(mended(&|bytes| bytes[9] = 1), ParseError::Protocol(1));
    assert_eq!(broken(&|bytes| bytes[46] = 0), ParseError::Checksum(Layer::Tcp));
    assert_eq!(broken(&|bytes| bytes[32] = 0x40), ParseError::Length { layer: Layer::Tcp, length: 16 });
    assert_eq!(
        broken(&|bytes| bytes[32] = 0xf0),
        ParseError::Truncated { layer: Layer::Tcp, needs: 60, has: 27 }
    );
    // The upper half of the sequence number stands where a datagram has its length.
    assert_eq!(mended(&|bytes| bytes[9] = 17), ParseError::Length { layer: Layer::Udp, length: 0 });
    assert_eq!(
        ParseError::Truncated { layer: Layer::Udp, needs: 30, has: 27 }.to_string(),
        "the packet ends within its UDP part: 27 bytes of 30"
    );
}

#[test]
fn options_of_others() {
    // Kind 30 is multipath TCP, 254 an experiment, 253 with `XX` another one; behind the end is anything.
    let bytes = [30, 4, 1, 2, 254, 4, 9, 9, 253, 6, b'X', b'X', 1, 2, 253, 3, 1, 1, 2, 4, 5, 180, 0, 8, 3];
    assert_eq!(options::parse(&bytes).map(|options| options.mss), Ok(Some(1460)));
    // The option of Accurate ECN of any length: whole fields are read (RFC 9768 section 3.2.3).
    for (length, present) in [(2, 0), (4, 0), (5, 1), (7, 1), (8, 2), (11, 3), (14, 3)] {
        let mut bytes = vec![172, length];
        bytes.resize(usize::from(length), 1);
        let fields = std::array::from_fn(|place| if place < present { 0x01_0101 } else { 0 });
        let counts = ByteCounts { ect1_first: false, present: present as u8, fields };
        assert_eq!(options::parse(&bytes).map(|options| options.measured.byte_counts), Ok(Some(counts)));
    }
    // Four blocks fit beside nothing else; none at all is a mistake.
    assert_eq!(options::parse(&[5, 2, 0, 0]), Err(ParseError::Option { kind: 5, length: 2 }));
    assert_eq!(
        options::parse(&[5, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Err(ParseError::Option { kind: 5, length: 12 })
    );
    for bytes in [&[2u8, 3, 1, 0][..], &[3, 4, 1, 1], &[4, 3, 0], &[8, 9, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(options::parse(bytes), Err(ParseError::Option { kind: bytes[0], length: bytes[1] }));
    }
    for (kind, length) in [(2, 0), (2, 1), (30, 0), (30, 1), (8, 10), (253, 40)] {
        assert_eq!(options::parse(&[kind, length]), Err(ParseError::Option { kind, length }));
    }
    assert_eq!(options::parse(&[1, 1, 8]), Err(ParseError::Option { kind: 8, length: 0 }));
    assert_eq!(options::parse(&[253, 5, b'L', b'P', 2]), Err(ParseError::Option { kind: 253, length: 5 }));
}

#[test]
fn numbers_come_back() {
    const LAP: u64 = 1 << 32;
    assert_eq!(unwrap(0, 5), 5);
    assert_eq!(unwrap(LAP + 5, u32::MAX), LAP - 1);
    assert_eq!(unwrap(LAP - 1, 5), LAP + 5);
    assert_eq!(unwrap(5, u32::MAX), LAP - 1, "there is nothing below 0");
    assert_eq!(unwrap(u64::MAX, 3), u64::MAX - LAP + 4, "nor above the largest number");
    assert_eq!(unwrap(LAP, 1 << 31), LAP - (1 << 31), "as near: the lower");
    let blocks: Blocks = [(LAP - 10, LAP + 10), (LAP + 20, LAP + 30)].into_iter().collect();
    assert_eq!(blocks.as_slice(), [(u32::MAX - 9, 10), (20, 30)]);
    assert_eq!(blocks.unwrap(LAP + 40).as_slice(), [(LAP - 10, LAP + 10), (LAP + 20, LAP + 30)]);
}

/// What receivers and senders tell each other arrives, down to the microsecond and the byte per second.
#[test]
fn measurements_cross_the_wire() {
    let at = |micros: u64| Time(1000 * micros);
    let rtt = Span::from_millis(80);
    let extra = Extra {
        times: Some(ReceiveTime { sent: at(5_000_000_000), received: at(5_000_080_000) }),
        discards: Some(u32::MAX),
        report: Some(WaveReport { id: 3, rate: Some(125_000.0), segments: 9 }),
        wave: Some(Wave { id: 4, size: 10, rtt }),
        ..Extra::default()
    };
    let measured = Measured::of(&Packet { kind: Kind::Ack, ..Packet::default() }, Some(&extra));
    assert_eq!(measured.times, Some((705_032_704, 705_112_704)), "modulo 2^32");
    let mut back = Extra::default();
    measured.fill(&mut back, at(5_000_090_000), rtt);
    assert_eq!(back, extra);
    let unknown = WaveReport { rate: None, ..extra.report.unwrap() };
    let measured = Measured::of(&Packet::default(), Some(&Extra { report: Some(unknown), ..extra }));
    measured.fill(&mut back, Time::ZERO, rtt);
    assert_eq!(back.report, Some(unknown));
    let probe = Measured::of(&Packet { kind: Kind::Probe, ..Packet::default() }, None);
    assert_eq!(probe.probe, Some(Probe::Request));
}

fn measured() -> impl Strategy<Value = Measured> {
    // Those of a data segment, of an ACK, or of a probe.
    let report = any::<(u16, u16, u32)>().prop_map(|(wave, segments, rate)| Report { wave, segments, rate });
    let data = any::<Option<(u16, u16)>>().prop_map(|wave| Measured { wave, ..Measured::default() });
    let counts =
        (any::<bool>(), prop::collection::vec(0u32..1 << 24, 0..=3)).prop_map(|(ect1_first, known)| {
            let mut counts = ByteCounts { ect1_first, present: known.len() as u8, fields: [0; 3] };
            counts.fields[..known.len()].copy_from_slice(&known);
            counts
        });
    let ack = (any::<Option<(u32, u32)>>(), prop::option::of(report), prop::option::of(counts)).prop_map(
        |(times, report, byte_counts)| Measured { times, report, byte_counts, ..Measured::default() },
    );
    let probe =
        (any::<Option<u32>>(), prop::option::of(prop_oneof![Just(Probe::Request), Just(Probe::Answer)]))
            .prop_map(|(discards, probe)| Measured { discards, probe, ..Measured::default() });
    prop_oneof![data, ack, probe]
}

fn options() -> impl Strategy<Value = Options> {
    let opening = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>()).prop_map(
        |(mss, window_scale, sack_permitted)| Options {
            mss,
            window_scale,
            sack_permitted,
            ..Options::default()
        },
    );
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=MAX_BLOCKS);
    let open = (blocks, measured()).prop_map(|(blocks, measured)| {
        let mut sack = Blocks::default();
        for block in blocks {
            sack.push(block);
        }
        Options { sack, measured, ..Options::default() }
    });
    (prop_oneof![opening, open], any::<Option<(u32, u32)>>(), 0..=10u8)
        .prop_map(|(options, timestamps, words)| Options { timestamps, length: 4 * words, ..options })
}

fn flags() -> impl Strategy<Value = Flags> {
    any::<[bool; 9]>().prop_map(|[syn, fin, rst, psh, ack, ece, cwr, ae, eln]| Flags {
        syn,
        fin,
        rst,
        psh,
        ack,
        ece,
        cwr,
        ae,
        eln,
    })
}

fn headers() -> impl Strategy<Value = Header> {
    let tcp =
        (any::<(u32, u32, u16)>(), flags(), options()).prop_map(|((seq, ack, window), flags, options)| {
            Transport::Tcp(Tcp { seq, ack, window, flags, options })
        });
    let ecn =
        prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable), Just(Ecn::Capable1), Just(Ecn::Congestion)];
    let end = || any::<([u8; 4], u16)>().prop_map(|(address, port)| SocketAddrV4::new(address.into(), port));
    (end(), end(), any::<(u16, u8)>(), ecn, prop_oneof![4 => tcp, 1 => Just(Transport::Udp)]).prop_map(
        |(source, destination, (identification, time_to_live), ecn, transport)| Header {
            source,
            destination,
            identification,
            time_to_live,
            ecn,
            transport,
        },
    )
}

/// Headers that differ at most in how many bytes the options took.
fn is_same(one: &Header, other: &Header) -> bool {
    let alike = |mut header: Header| {
        if let Transport::Tcp(tcp) = &mut header.transport {
            tcp.options.length = 0;
        }
        header
    };
    alike(*one) == alike(*other)
}

/// Whatever `bytes` are: an answer, and if they are a packet, one that can be written again and read again. A
/// sender that packs options more tightly may have more than we find room for.
fn survives(bytes: &[u8]) -> bool {
    let Ok((header, payload)) = parse(bytes) else { return false };
    let mut place = vec![0; MAX_HEADERS + bytes.len()];
    match header.write(payload, &mut place) {
        Ok(_) => {
            let (again, content) = parse(&place).unwrap();
            assert!(is_same(&again, &header) && content == payload, "{again:?}");
        }
        Err(error) => assert!(matches!(error, WriteError::Options(_)), "{error}"),
    }
    true
}

/// The numbers that a checksum guards, put right: mutations get past them.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < 40 {
        return;
    }
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes[10..12].fill(0);
    let header = 4 * usize::from(bytes[0] & 15).clamp(5, 10);
    let sum = checksum(&bytes[..header]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    let at = header + if bytes[9] == 6 { TCP_CHECKSUM } else { UDP_CHECKSUM };
    if at + 2 > bytes.len() {
        return;
    }
    bytes[at..at + 2].fill(0);
    let addresses = [12, 16].map(|at| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let sum = transport_checksum(IpNumber(bytes[9]), addresses, &bytes[header..]);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

proptest! {
    #[test]
    fn headers_come_back(header in headers(), payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut place = vec![0xaa; MAX_PACKET];
        let length = match header.write(&payload, &mut place) {
            Ok(length) => length,
            Err(error) => {
                // Four blocks beside something else.
                prop_assert!(matches!(error, WriteError::Options(bytes) if bytes > MAX_OPTIONS), "{}", error);
                return Ok(());
            }
        };
        let (read, content) = parse(&place).unwrap();
        prop_assert_eq!(content, &payload[..], "what follows the packet is left out");
        prop_assert!(is_same(&read, &header), "{:?}", read);
        if let (Transport::Tcp(read), Transport::Tcp(header)) = (&read.transport, &header.transport) {
            prop_assert!(read.options.length >= header.options.length && read.options.length % 4 == 0);
        }
        prop_assert_eq!(&written(&read, &payload)[..], &place[..length], "the same bytes again");
    }

    /// 400 packets a case, so 10^5 in an ordinary run: noise, noise that begins like a packet, and packets in which
    /// some bytes were changed and the checksums put right.
    #[test]
    fn no_bytes_are_too_strange(seed in any::<u64>(), header in headers()) {
        let mut stream = Stream::new(seed, "noise");
        let mut place = [0; MAX_HEADERS + 40];
        let Ok(length) = header.write(&[0; 40], &mut place) else { return Ok(()) };
        let mut taken = 0;
        for number in 0..400u64 {
            let mut bytes = place[..length].to_vec();
            match number % 4 {
                0 => {
                    bytes = (0..stream.below(120)).map(|_| stream.below(256) as u8).collect();
                }
                1 => {
                    bytes[20..].fill_with(|| stream.below(256) as u8);
                    mend(&mut bytes);
                }
                2 => bytes.truncate(stream.below(length as u64) as usize),
                _ => {
                    for _ in 0..=stream.below(4) {
                        bytes[stream.below(length as u64) as usize] = stream.below(256) as u8;
                    }
                    mend(&mut bytes);
                }
            }
            taken += u32::from(survives(&bytes));
        }
        // Most of the packets in which up to four bytes were changed are packets still.
        prop_assert!(taken > 20, "{}", taken);
    }

    #[test]
    fn the_nearest_number_is_meant(recent in any::<u64>(), offset in -(1i64 << 31) + 1..1 << 31) {
        if let Some(number) = recent.checked_add_signed(offset) {
            prop_assert_eq!(unwrap(recent, number as u32), number);
        }
    }

    #[test]
    fn numbers_keep_their_lower_half(recent in any::<u64>(), low in any::<u32>()) {
        prop_assert_eq!(unwrap(recent, low) as u32, low);
    }
}
