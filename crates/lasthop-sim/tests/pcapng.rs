//! Captures are read back with the library, and with tshark where it is installed.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use etherparse::{Ipv4Header, NetSlice, SlicedPacket, TcpHeader, TcpOptionElement, TransportSlice};
use lasthop_core::packet::{Kind, flag};
use lasthop_core::units::Rate;
use lasthop_net::plan::{Plan, Profile, TcpConfig};
use lasthop_net::trace::HopRecord;
use lasthop_net::transport::codec::{self, Measured, Options};
use lasthop_sim::pcapng::{self, Direction, Interface, PcapngError, Record, SNAP_LENGTH, Vantage};
use lasthop_sim::run::Run;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::testkit::{Scene, TRACE, hops, run_plan};

fn interfaces() -> Vec<Interface> {
    let interface =
        |name: &str| Interface { name: name.to_owned(), description: String::new(), rate: Rate(10_000_000) };
    ["wire", "radio"].map(interface).into()
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
        flags: 0,
        back,
        seq,
        ack,
        payload,
        window: 5_850_112,
        window_scale: 7,
        mss: 1448,
        timestamps: Some((time_ns as u32, 7)),
        sack: matches!(kind, Kind::Syn | Kind::SynAck).then(Vec::new),
        measured: Measured::default(),
        options_length: 0,
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
    again.flags |= flag::CWR;
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
        let window = if syn { 65_535 } else { u32::from(tcp.window_size) << record.window_scale };
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
    huge.window = u32::MAX;
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

/// Nothing in the capture is malformed or of an unknown protocol, and every checksum holds. Returns the interface of
/// each packet.
fn assert_clean(file: &Path) -> Option<Vec<String>> {
    const ERROR: &str = "8388608";
    let arguments = ["-o", "ip.check_checksum:TRUE", "-T", "fields"];
    let columns = ["frame.interface_name", "frame.protocols", "ip.checksum.status", "_ws.expert.severity"];
    let arguments = arguments.into_iter().chain(columns.iter().flat_map(|column| ["-e", column]));
    let known = ["raw:ip:tcp", "raw:ip:tcp:data", "raw:ip:udp:data", "raw:ip:udp"];
    let lines = tshark(file, &arguments.collect::<Vec<_>>())?;
    let interfaces = lines.iter().map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        assert!(known.contains(&cells[1]), "{line}");
        assert_eq!(cells[2], "1", "{line}");
        // A malformed packet is an error.
        assert!(!cells[3].split(',').any(|severity| severity == ERROR), "{line}");
        cells[0].to_owned()
    });
    Some(interfaces.collect())
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

/// A bulk transfer each way and a stream of datagrams, over a bottleneck with a small queue and last hops with losses.
fn mixture(profile: &str) -> Scene {
    Scene::lasting("5 s")
        .dumbbell(
            "rate = \"2 Mbit/s\"\ndelay = \"25 ms\"\nqueue = { kind = \"drop-tail\", limit = \"10 packets\" }",
            "rate = \"1 Mbit/s\"\ndelay = \"10 ms\"",
        )
        .with("[channel]\nerror = { kind = \"bernoulli\", packet_error_rate = 0.02 }")
        .with(&format!("[tcp]\nprofile = \"{profile}\""))
        .flow("count = 2\ntransport = \"sack\"\ntraffic = { kind = \"ftp\", bytes = \"100 kB\" }")
        .flow("transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"200 kbit/s\", packet = \"512 B\" }")
}

/// The trace of a run with losses: on each interface tshark counts the packets that the run transmitted
/// there.
#[test]
fn the_trace_of_a_run() {
    for profile in ["rfc", "ns2", "linux"] {
        let plan = mixture(profile).plan();
        let run = run_plan(&plan, 1, TRACE);
        let trace = hops(&run);
        let file = place(&format!("run-{profile}.pcapng"));
        let transmitted = trace.iter().filter(|hop| hop.transmitted.is_some()).count();
        assert_eq!(capture(&file, &plan, &run, Vantage::Links), transmitted as u64);
        assert!(transmitted > 500);

        let Some(frames) = assert_clean(&file) else { continue };
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

/// Writes what `vantage` sees of a run to `file`; the number of packets.
fn capture(file: &Path, plan: &Plan, run: &Run, vantage: Vantage) -> u64 {
    pcapng::write_trace(File::create(file).unwrap(), plan, hops(run), vantage).unwrap()
}

/// All packets on all links, beside the records that they were made from.
fn packets_of<'a>(plan: &Plan, run: &'a Run) -> Vec<(&'a HopRecord, Read)> {
    let mut written = Vec::new();
    pcapng::write_trace(&mut written, plan, hops(run), Vantage::Links).unwrap();
    let mut records: Vec<(u64, usize)> =
        (hops(run).iter().enumerate()).filter_map(|(index, hop)| Some((hop.transmitted?.0, index))).collect();
    records.sort_unstable();
    let records = records.into_iter().map(|(_, index)| &hops(run)[index]);
    records.zip(read_back(&written)).collect()
}

/// The options of a segment that was stored without its payload.
fn options_of(packet: &Read) -> Options {
    let mut bytes = packet.3.clone();
    bytes.resize(packet.2 as usize, 0);
    match codec::parse(&bytes).unwrap().0.transport {
        codec::Transport::Tcp(tcp) => tcp.options,
        codec::Transport::Udp => panic!("a segment"),
    }
}

/// What a run counts in bytes is what stands in the capture, with every option that is in use.
#[test]
fn packets_are_as_long_as_the_run_counts_them() {
    let cases: [(Profile, &[&str]); 2] =
        [(Profile::Rfc, &["", ", timestamps = false, ecn = true"]), (Profile::Linux, &[""])];
    for (profile, knobs) in cases {
        for preset in TcpConfig::PRESETS {
            for knobs in knobs {
                let transport =
                    format!("{{ preset = \"{}\", profile = \"{}\"{knobs} }}", preset.name, profile.name());
                let plan = Scene::lasting("2 s")
                    .chain(
                        ["a", "b", "c"],
                        &[
                            "rate = \"10 Mbit/s\"\ndelay = \"5 ms\"",
                            "rate = \"2 Mbit/s\"\ndelay = \"5 ms\"\n\
                             handoff = { at = [\"1 s\"], outage = \"100 ms\", warning = \"50 ms\" }\n\
                             error = { kind = \"bernoulli\", packet_error_rate = 0.03 }",
                        ],
                    )
                    .between("a", "c", &format!("transport = {transport}"))
                    .between(
                        "a",
                        "c",
                        &format!(
                            "transport = {transport}\ntraffic = {{ kind = \"ftp\", bytes = \"20 kB\" }}"
                        ),
                    )
                    .plan();
                let run = run_plan(&plan, 1, TRACE);
                let packets = packets_of(&plan, &run);
                assert!(packets.len() > 100, "{transport}");
                for (hop, packet) in &packets {
                    assert_eq!(
                        packet.2,
                        u32::from(hop.bytes),
                        "{transport}: {hop:?}\n{:?}",
                        options_of(packet)
                    );
                }
            }
        }
    }
}

/// What receivers and senders tell each other beyond the standard is in the capture.
#[test]
fn experimental_options_are_shown() {
    type Says = fn(&Measured) -> bool;
    let cases: [(&str, Kind, Says); 6] = [
        ("tcp-real", Kind::Data, |measured| measured.wave.is_some()),
        ("tcp-real", Kind::Ack, |measured| measured.report.is_some()),
        ("jtcp", Kind::Ack, |measured| measured.times.is_some()),
        ("xjtcp", Kind::Ack, |measured| measured.times.is_some() || measured.discards.is_some()),
        ("probing", Kind::Probe, |measured| measured.probe == Some(codec::Probe::Request)),
        ("probing", Kind::ProbeAnswer, |measured| measured.probe == Some(codec::Probe::Answer)),
    ];
    for (transport, kind, expected) in cases {
        let plan = Scene::lasting("10 s")
            .chain(
                ["a", "b"],
                &["rate = \"2 Mbit/s\"\ndelay = \"20 ms\"\nerror = { kind = \"bernoulli\", packet_error_rate = 0.02 }"],
            )
            .between("a", "b", &format!("transport = \"{transport}\""))
            .plan();
        let run = run_plan(&plan, 1, TRACE);
        let packets = packets_of(&plan, &run);
        let mut seen = packets.iter().filter(|(hop, _)| hop.kind == kind).peekable();
        assert!(seen.peek().is_some(), "{transport} sends {kind:?}");
        let bare = seen.filter(|(_, packet)| !expected(&options_of(packet).measured)).count();
        // The first wave has not been measured when the first ACKs leave.
        assert!(bare < 30, "{transport}: {bare} {kind:?} without");
    }
}

/// Places to look from at a run over server, station and mobile host.
const PLACES: [&str; 5] = ["server", "station", "mobile", "radio", "senders"];

/// A transfer from a server to a mobile host; `radio` are keys of the last hop.
fn last_hop(transport: &str, radio: &str) -> Plan {
    let wire = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"";
    let radio = format!("name = \"radio\"\nrate = \"2 Mbit/s\"\ndelay = \"5 ms\"\n{radio}");
    Scene::lasting("20 s")
        .chain(["server", "station", "mobile"], &[wire, &radio])
        .between(
            "server",
            "mobile",
            &format!("transport = {transport}\ntraffic = {{ kind = \"ftp\", bytes = \"500 kB\" }}"),
        )
        .plan()
}

/// What tshark notes about a packet: a repair or a segment out of order (it takes a repair within a round trip for
/// one), an ACK that repeats another, a gap before it, or anything else but a window that is full, which is true.
const NOTES: [&str; 4] = [
    "tcp.analysis.retransmission || tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.lost_segment",
    "tcp.analysis.flags && !tcp.analysis.window_full",
];

/// The packets of a run of `plan`, seen from `at`, by their identification: those that each of [`NOTES`] is about, and
/// of the last those that are in none of the others.
fn noted(plan: &Plan, run: &Run, at: &str, name: &str) -> Option<[BTreeSet<u32>; 4]> {
    let file = place(&format!("{name}-at-{at}.pcapng"));
    assert!(capture(&file, plan, run, Vantage::named(plan, at).unwrap()) > 500);
    let fields = ["retransmission", "out_of_order", "duplicate_ack", "lost_segment"];
    let mut arguments = vec!["-Y", NOTES[3], "-T", "fields", "-e", "ip.id"];
    let fields = fields.map(|field| format!("tcp.analysis.{field}"));
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let mut notes: [BTreeSet<u32>; 4] = Default::default();
    for line in tshark(&file, &arguments)? {
        let cells: Vec<&str> = line.split('\t').collect();
        let packet = u32::from_str_radix(cells[0].trim_start_matches("0x"), 16).unwrap();
        let marks =
            [!cells[1].is_empty() || !cells[2].is_empty(), !cells[3].is_empty(), !cells[4].is_empty()];
        for (mark, note) in marks.into_iter().zip(&mut notes) {
            mark.then(|| note.insert(packet));
        }
        if marks == [false; 3] {
            notes[3].insert(packet);
        }
    }
    Some(notes)
}

/// Senders, and where to look from.
const SENDERS: [(&str, &str, &[&str]); 2] = [
    ("newreno", "\"newreno\"", &PLACES),
    ("cubic", "{ preset = \"cubic\", profile = \"linux\" }", &["server", "mobile"]),
];

/// tshark takes the handshake for that of Accurate ECN and from then on reads a counter, which every marked packet
/// moves at the receiver.
#[test]
fn tshark_reads_the_count_of_marks() {
    let plan = last_hop("{ preset = \"dctcp\", accurate_ecn = true }", "mark = \"5 packets\"");
    let run = run_plan(&plan, 1, TRACE);
    let file = place("accurate-ecn.pcapng");
    assert!(capture(&file, &plan, &run, Vantage::named(&plan, "mobile").unwrap()) > 500);
    let fields =
        ["ip.src", "ip.dsfield.ecn", "tcp.flags.ace", "tcp.flags.ae", "tcp.flags.cwr", "tcp.flags.ece"];
    let mut arguments = vec!["-T", "fields"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let Some(lines) = tshark(&file, &arguments) else { return };
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| line.split('\t').collect()).collect();
    let number = |row: &[&str], column: usize| row[column].parse::<u32>().unwrap();
    assert_eq!((&rows[0][3..], &rows[1][3..]), (&["1", "1", "1"][..], &["0", "1", "0"][..]));
    assert_eq!(number(&rows[2], 2), 2, "the SYN-ACK came as it was sent");
    let (mut marks, mut counted) = (0, 0);
    for row in &rows[3..] {
        if row[0] == rows[0][0] {
            marks += u32::from(number(row, 1) == 3);
            assert_eq!(number(row, 2), 5, "the other way no packet is marked");
        } else {
            counted += 1;
            assert_eq!(number(row, 2), (5 + marks) % 8, "{row:?} after {marks} marks");
        }
    }
    assert!(marks > 20 && counted > 100, "{marks} marks, {counted} ACKs");
}

/// It reads the bytes of the option too: those that have come with each ECN field.
#[test]
fn tshark_reads_the_count_of_bytes() {
    let plan =
        last_hop("{ preset = \"dctcp\", accurate_ecn = true, ecn_bytes = true }", "mark = \"5 packets\"");
    let run = run_plan(&plan, 1, TRACE);
    let file = place("accurate-ecn-bytes.pcapng");
    assert!(capture(&file, &plan, &run, Vantage::named(&plan, "mobile").unwrap()) > 500);
    let option = ["ee0b", "eceb", "ee1b"].map(|name| format!("tcp.options.acc_ecn.{name}"));
    let mut arguments = vec!["-T", "fields", "-e", "ip.src", "-e", "ip.dsfield.ecn", "-e", "tcp.len"];
    arguments.extend(option.iter().flat_map(|field| ["-e", field]));
    let Some(lines) = tshark(&file, &arguments) else { return };
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| line.split('\t').collect()).collect();
    assert_eq!((&rows[1][3..], &rows[2][3..]), (&["1", "0", "1"][..], &["1", "0", "1"][..]));
    let (mut came, mut options) = ([1_u32, 0], 0);
    for row in &rows[3..] {
        if row[0] == rows[0][0] {
            came[usize::from(row[1] == "3")] += row[2].parse::<u32>().unwrap();
        } else {
            options += 1;
            let wanted = [came[0].to_string(), if came[1] > 0 { came[1].to_string() } else { String::new() }];
            assert_eq!(row[3..], [wanted[0].as_str(), wanted[1].as_str(), ""], "after {came:?}");
        }
    }
    assert!(came[1] > 10_000 && options > 100, "{came:?}, {options} options");
}

/// Where nothing is lost, tshark has nothing to say: no packet twice, none out of order, none missing.
#[test]
fn a_clean_run_looks_clean_from_every_place() {
    for (name, transport, places) in SENDERS {
        let plan = last_hop(transport, "queue = \"unlimited\"");
        let run = run_plan(&plan, 1, TRACE);
        for at in places {
            let Some(notes) = noted(&plan, &run, at, &format!("clean-{name}")) else { return };
            assert_eq!(notes, <[BTreeSet<u32>; 4]>::default(), "{transport} at {at}");
        }
    }
}

/// Where packets are lost, tshark points at the repairs, at the ACKs that repeat themselves and at the gaps, and at
/// nothing else.
#[test]
fn a_run_with_losses_shows_them_from_every_place() {
    for (name, transport, places) in SENDERS {
        let plan = last_hop(transport, "error = { kind = \"bernoulli\", packet_error_rate = 0.02 }");
        let run = run_plan(&plan, 1, TRACE);
        let of = |wanted: &dyn Fn(&HopRecord) -> bool| -> BTreeSet<u32> {
            hops(&run).iter().filter(|hop| wanted(hop)).map(|hop| hop.packet).collect()
        };
        let repairs = of(&|hop| hop.again);
        let lost = of(&|hop| hop.lost.is_some());
        let acks = of(&|hop| hop.kind == Kind::Ack && hop.back);
        assert!(repairs.len() > 3 && lost.len() > 5, "{transport}");
        for at in places {
            let context = format!("{transport} at {at}");
            let Some(notes) = noted(&plan, &run, at, &format!("lossy-{name}")) else { return };
            let [again, repeated, gaps, others] = notes;
            // The mobile host does not see what was lost before it.
            let seen =
                if *at == "mobile" { repairs.difference(&lost).copied().collect() } else { repairs.clone() };
            assert_eq!(again, seen, "{context}");
            assert!(!repeated.is_empty() && repeated.is_subset(&acks), "{context}");
            assert_eq!(gaps.is_empty(), *at != "mobile", "{context}: {gaps:?}");
            assert!(gaps.len() <= lost.len(), "{context}: {gaps:?}");
            assert!(others.is_empty(), "{context}: {others:?}");
        }
    }
}

/// Of flows in both directions and of several hosts, the senders' capture holds every packet that a sender's host sent
/// or got once, with an interface for each; tshark finds nothing in it but repairs, repeated ACKs, and gaps where a
/// packet never left the host.
#[test]
fn the_senders_together() {
    let plan = mixture("linux").plan();
    let run = run_plan(&plan, 1, TRACE);
    let file = place("senders.pcapng");
    let count = capture(&file, &plan, &run, Vantage::named(&plan, "senders").unwrap());
    let near = |hop: &&HopRecord| {
        let name = &plan.links[hop.direction as usize / 2].name;
        let seen = if hop.back { hop.arrived } else { hop.transmitted };
        name.starts_with("source-access-") && hop.back == (hop.direction % 2 == 1) && seen.is_some()
    };
    assert_eq!(count, hops(&run).iter().filter(near).count() as u64);
    let Some(frames) = assert_clean(&file) else { return };
    let interfaces: BTreeSet<&String> = frames.iter().collect();
    let expected = ["source-1 (source-access-1)", "source-2 (source-access-2)", "source-3 (source-access-3)"];
    assert!(interfaces.iter().map(|name| name.as_str()).eq(expected), "{interfaces:?}");
    let ids = |filter: &str| -> BTreeSet<u32> {
        let lines = tshark(&file, &["-Y", filter, "-T", "fields", "-e", "ip.id"]).unwrap();
        lines.iter().map(|id| u32::from_str_radix(id.trim_start_matches("0x"), 16).unwrap()).collect()
    };
    let of = |wanted: &dyn Fn(&HopRecord) -> bool| -> BTreeSet<u32> {
        hops(&run).iter().filter(|hop| wanted(hop)).map(|hop| hop.packet).collect()
    };
    let (noted, repairs) = (ids(NOTES[0]), of(&|hop| hop.again));
    assert!(!repairs.is_empty() && repairs.is_subset(&noted), "{noted:?}, {repairs:?}");
    // A receiver sends its FIN with every ACK of the other's.
    let again = noted.difference(&repairs).copied().collect::<BTreeSet<u32>>();
    assert!(again.is_subset(&of(&|hop| hop.kind == Kind::FinAck)), "{again:?}");
    assert!(ids(NOTES[2]).is_empty(), "nothing was lost before it left");
}

/// The head of a capture says what it is of; a scenario that is longer than an option goes on in the next.
#[test]
fn captures_say_what_they_are_of() {
    let plan = mixture("rfc").plan();
    let long = format!("{{\"name\":\"{}\"}}", "é".repeat(40_000));
    let comments = pcapng::about(&long, 7, "left");
    let of = |key: &str| -> String {
        comments.iter().filter_map(|comment| comment.strip_prefix(&format!("{key}: "))).collect()
    };
    assert_eq!(of("lasthop.seed"), "7");
    assert_eq!(of("lasthop.captured_at"), "left");
    assert_eq!(of("lasthop.engine_version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(of("lasthop.scenario") + &of("lasthop.scenario (continued)"), long);
    let mut written = Vec::new();
    pcapng::write_described(&mut written, &plan, &[], Vantage::Links, &comments).unwrap();
    let reader = PcapNgReader::new(&written[..]).unwrap();
    let options = format!("{:?}", reader.section().options);
    assert!(
        options.contains("lasthop.seed: 7") && options.contains("lasthop.captured_at: left"),
        "{options}"
    );
}

/// Every packet stands once in the capture of a node, and the file says where it was made.
#[test]
fn places_are_named() {
    let plan = mixture("rfc").plan();
    let run = run_plan(&plan, 1, TRACE);
    let Vantage::Node(left) = Vantage::named(&plan, "left").unwrap() else { panic!("a node") };
    assert_eq!(Vantage::named(&plan, "bottleneck").unwrap(), Vantage::Link(0));
    let mut written = Vec::new();
    pcapng::write_trace(&mut written, &plan, hops(&run), Vantage::Node(left)).unwrap();
    let mut seen: Vec<u32> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut reader = PcapNgReader::new(&written[..]).unwrap();
    while let Some(block) = reader.next_block() {
        match block.unwrap().into_owned() {
            Block::EnhancedPacket(packet) => {
                seen.push(u32::from(u16::from_be_bytes([packet.data[4], packet.data[5]])));
            }
            Block::InterfaceDescription(interface) => names.push(format!("{:?}", interface.options)),
            _ => {}
        }
    }
    assert!(
        names[0].contains("left (bottleneck)")
            && names[0].contains("sent and received by left on bottleneck")
    );
    assert_eq!(names.len(), 4, "the bottleneck and three access links: {names:?}");
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count, "each once");
    let error = Vantage::named(&plan, "bottlenek").unwrap_err().to_string();
    assert!(
        error.starts_with(
            "there is no node or link \"bottlenek\" to capture at; did you mean \"bottleneck\"? known: source-1, "
        ),
        "{error}"
    );
}
