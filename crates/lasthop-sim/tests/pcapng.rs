//! Captures are read back with the library, and with tshark where it is installed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use etherparse::{Ipv4Header, NetSlice, SlicedPacket, TcpHeader, TcpOptionElement, TransportSlice};
use lasthop_core::packet::{Kind, flag};
use lasthop_core::units::Rate;
use lasthop_net::trace::Recording;
use lasthop_sim::pcapng::{self, Direction, Interface, PcapngError, Record, SNAP_LENGTH};
use lasthop_sim::run::{Progress, run};
use lasthop_sim::scenario::{Format, Scenario};
use pcap_file::pcapng::{Block, PcapNgReader};

fn interfaces() -> Vec<Interface> {
    ["wire", "radio"].map(|name| Interface { name: name.to_owned(), rate: Rate(10_000_000) }).into()
}

fn record(time_ns: u64, kind: Kind, seq: u64, ack: u64, payload: u32) -> Record {
    let back = matches!(kind, Kind::SynAck | Kind::Ack | Kind::FinAck);
    Record {
        time_ns,
        interface: u32::from(back),
        direction: Direction::Outbound,
        source: u32::from(back),
        destination: u32::from(!back),
        flow: 0,
        packet: time_ns as u32,
        kind,
        flags: if back { flag::BACK } else { 0 },
        seq,
        ack,
        payload,
        window: 5_850_112,
        window_scale: pcapng::window_scale(5_850_112),
        mss: 1448,
        timestamps: Some((time_ns as u32, 7)),
        sack: matches!(kind, Kind::Syn | Kind::SynAck).then(Vec::new),
        comment: None,
    }
}

/// A connection with a lost segment, ECN, and a datagram.
fn conversation() -> Vec<Record> {
    let mut lost = record(1_000_000_003, Kind::Data, 1449, 1, 1448);
    lost.comment = Some("channel-error");
    let mut marked = record(1_000_000_004, Kind::Data, 2897, 1, 1448);
    marked.flags |= flag::ECT | flag::CE;
    let mut echo = record(1_000_000_006, Kind::Ack, 1, 1449, 0);
    echo.flags |= flag::ECE;
    echo.sack = Some(vec![(2897, 4345), (7241, 8689), (10_137, 11_585), (13_033, 14_481)]);
    let mut again = record(1_000_000_007, Kind::Data, 1449, 1, 1448);
    again.flags |= flag::RETRANSMISSION | flag::CWR;
    let mut datagram = record(1_000_000_012, Kind::Udp, 0, 0, 504);
    datagram.flow = 1;
    vec![
        record(1_000_000_000, Kind::Syn, 0, 0, 0),
        record(1_000_000_001, Kind::SynAck, 0, 1, 0),
        record(1_000_000_002, Kind::Data, 1, 1, 1448),
        lost,
        marked,
        record(1_000_000_005, Kind::Ack, 1, 1449, 0),
        echo,
        again,
        record(1_000_000_008, Kind::Ack, 1, 4345, 0),
        record(1_000_000_009, Kind::Fin, 4345, 1, 0),
        record(1_000_000_010, Kind::FinAck, 1, 4346, 0),
        datagram,
    ]
}

fn written(records: Vec<Record>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = records.len() as u64;
    assert_eq!(pcapng::write(&mut bytes, &interfaces(), records).unwrap(), count);
    bytes
}

/// One packet read back: time, interface, whole length, bytes stored.
type Read = (u64, u32, u32, Vec<u8>);

fn read_back(capture: &[u8]) -> Vec<Read> {
    let mut reader = PcapNgReader::new(capture).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap().into_owned() {
            let time = u64::try_from(packet.timestamp.as_nanos()).unwrap();
            packets.push((time, packet.interface_id, packet.original_len, packet.data.into_owned()));
        }
    }
    packets
}

fn tcp_of(packet: &Read) -> TcpHeader {
    let (ip, rest) = Ipv4Header::from_slice(&packet.3).unwrap();
    assert_eq!((u32::from(ip.total_len), ip.header_checksum), (packet.2, ip.calc_header_checksum()));
    let (tcp, payload) = TcpHeader::from_slice(rest).unwrap();
    // What was not stored is zeros as well: the checksum covers the whole packet.
    let whole = vec![0; packet.2 as usize - ip.header_len() - tcp.header_len()];
    assert!(payload.iter().all(|&byte| byte == 0));
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, &whole).unwrap());
    tcp
}

#[test]
fn what_was_written_is_read_back() {
    let records = conversation();
    let packets = read_back(&written(records.clone()));
    assert_eq!(packets.len(), records.len());
    for (packet, record) in packets.iter().zip(&records) {
        assert_eq!((packet.0, packet.1), (record.time_ns, record.interface));
        assert!(packet.3.len() <= SNAP_LENGTH as usize);
        if record.kind == Kind::Udp {
            continue;
        }
        let tcp = tcp_of(packet);
        assert_eq!(
            (u64::from(tcp.sequence_number), u64::from(tcp.acknowledgment_number)),
            (record.seq, record.ack)
        );
        let (syn, fin) = (
            matches!(record.kind, Kind::Syn | Kind::SynAck),
            matches!(record.kind, Kind::Fin | Kind::FinAck),
        );
        assert_eq!((tcp.syn, tcp.fin, tcp.ack), (syn, fin, record.kind != Kind::Syn));
        // The window is right up to the granularity of its scale.
        let window = if syn { 65_535 } else { u64::from(tcp.window_size) << record.window_scale };
        assert_eq!(window, if syn { 65_535 } else { record.window });
    }

    let data = &packets[2];
    assert_eq!((data.2, data.3.len()), (20 + 32 + 1448, SNAP_LENGTH as usize));
    let options: Vec<TcpOptionElement> = tcp_of(&packets[6]).options_iterator().map(Result::unwrap).collect();
    let sack = TcpOptionElement::SelectiveAcknowledgement(
        (2897, 4345),
        // Beside timestamps there is room for three blocks.
        [Some((7241, 8689)), Some((10_137, 11_585)), None],
    );
    assert!(options.contains(&sack), "{options:?}");
    assert!(options.contains(&TcpOptionElement::Timestamp(1_000_000_006, 7)));
    assert!(tcp_of(&packets[6]).ece && tcp_of(&packets[7]).cwr);

    let sliced = SlicedPacket::from_ip(&written_udp(&packets)).map(|sliced| {
        assert!(matches!(sliced.net, Some(NetSlice::Ipv4(_))));
        matches!(sliced.transport, Some(TransportSlice::Udp(_)))
    });
    assert!(sliced.unwrap());
}

/// The datagram with the bytes that were not stored.
fn written_udp(packets: &[Read]) -> Vec<u8> {
    let (_, _, length, mut bytes) = packets.last().unwrap().clone();
    assert_eq!(length, 20 + 8 + 504);
    bytes.resize(length as usize, 0);
    bytes
}

#[test]
fn an_unknown_interface_is_an_error() {
    let mut stray = record(0, Kind::Data, 1, 1, 10);
    stray.interface = 9;
    let error = pcapng::write(Vec::new(), &interfaces(), [stray]).unwrap_err();
    assert!(matches!(error, PcapngError::NoInterface(9)));
    assert_eq!(error.to_string(), "the capture has no interface 9");
}

/// Sizes and numbers at the edge of the formats are cut, never wrapped into nonsense and never a panic.
#[test]
fn extreme_records() {
    let mut huge = record(u64::MAX, Kind::Data, u64::MAX, u64::MAX, u32::MAX);
    huge.sack = Some(vec![(u64::MAX, 0); 9]);
    huge.window = u64::MAX;
    huge.window_scale = 14;
    let mut datagram = huge.clone();
    datagram.kind = Kind::Udp;
    let packets = read_back(&written(vec![huge, datagram]));
    assert_eq!((packets[0].2, packets[1].2), (65_535, 65_535));
    assert_eq!(tcp_of(&packets[0]).sequence_number, u32::MAX);
}

/// The lines of `tshark` on `file`; `None` where it is not installed.
fn tshark(file: &Path, arguments: &[&str]) -> Option<Vec<String>> {
    let output = Command::new("tshark").arg("-r").arg(file).args(arguments).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Nothing in the capture is malformed or of an unknown protocol, and every checksum holds.
fn assert_clean(file: &Path) {
    let Some(expert) = tshark(file, &["-q", "-z", "expert"]) else { return };
    assert!(
        !expert.iter().any(|line| line.contains("Malformed") || line.contains("Errors")),
        "{}",
        expert.join("\n")
    );
    let protocols = tshark(file, &["-T", "fields", "-e", "frame.protocols"]).unwrap_or_default();
    let known = ["raw:ip:tcp", "raw:ip:tcp:data", "raw:ip:udp:data", "raw:ip:udp"];
    for line in protocols {
        assert!(known.contains(&line.as_str()), "{line}");
    }
    let checks = ["-o", "ip.check_checksum:TRUE", "-Y", "ip.checksum.status == 0"];
    assert_eq!(tshark(file, &checks), Some(Vec::new()));
}

#[test]
fn tshark_understands_the_capture() {
    let file = place("conversation.pcapng");
    std::fs::write(&file, written(conversation())).unwrap();
    assert_clean(&file);
    let fields = [
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "ip.src",
        "-e",
        "tcp.seq",
        "-e",
        "tcp.len",
        "-e",
        "tcp.window_size",
    ];
    let Some(lines) = tshark(&file, &fields) else { return };
    assert_eq!(lines[2], "1.000000002\t10.0.0.1\t1\t1448\t5850112");
    assert_eq!(lines[10], "1.000000010\t10.0.0.2\t1\t0\t5850112");
    let lost =
        tshark(&file, &["-Y", "frame.comment == \"channel-error\"", "-T", "fields", "-e", "frame.number"]);
    assert_eq!(lost, Some(vec!["4".to_owned()]));
    let names = tshark(&file, &["-T", "fields", "-e", "frame.interface_name", "-c", "2"]);
    assert_eq!(names, Some(vec!["wire".to_owned(), "radio".to_owned()]));
}

/// The trace of a run with losses: on each interface tshark counts the packets that the run transmitted
/// there.
#[test]
fn the_trace_of_a_run() {
    let text = r#"
duration = "5 s"
[topology]
kind       = "dumbbell"
bottleneck = { rate = "2 Mbit/s", delay = "25 ms", queue = { kind = "drop-tail", limit = "10 packets" } }
access     = { rate = "1 Mbit/s", delay = "10 ms" }
[channel]
error = { kind = "bernoulli", packet_error_rate = 0.02 }
[[flows]]
count     = 2
transport = "sack"
traffic   = { kind = "ftp", bytes = "100 kB" }
[[flows]]
transport = "udp"
traffic   = { kind = "cbr", rate = "200 kbit/s", packet = "512 B" }
"#;
    for profile in ["rfc", "ns2", "linux"] {
        let overrides = [("tcp.profile".to_owned(), profile.to_owned())];
        let plan = Scenario::parse(text, Format::Toml, "trace", &overrides).unwrap().into_plan();
        let recording = Recording { series: false, trace: true };
        let run = run(&plan, 1, recording, &Progress::default()).unwrap();
        let trace = run.world.network.trace.unwrap();
        let file = place(&format!("run-{profile}.pcapng"));
        let transmitted = trace.iter().filter(|hop| hop.transmitted.is_some()).count();
        let count = pcapng::write_trace(File::create(&file).unwrap(), &plan, &trace).unwrap();
        assert_eq!(count, transmitted as u64);
        assert!(count > 500);

        assert_clean(&file);
        let Some(frames) = tshark(&file, &["-T", "fields", "-e", "frame.interface_name"]) else { continue };
        for (number, link) in plan.links.iter().enumerate() {
            for (direction, name) in [(0, link.name.clone()), (1, format!("{} (reverse)", link.name))] {
                let expected = (trace.iter())
                    .filter(|hop| {
                        hop.direction as usize == 2 * number + direction && hop.transmitted.is_some()
                    })
                    .count();
                assert_eq!(frames.iter().filter(|frame| **frame == name).count(), expected, "{name}");
            }
        }
    }
}
