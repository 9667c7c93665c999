//! What is recorded of radio channels: frames at every station, captures that tshark reads, and counters over time.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use lasthop_net::trace::{FrameKind, FrameOutcome, FrameRecord, Sink};
use lasthop_sim::air::AirCapture;
use lasthop_sim::run::Run;

use crate::testkit::{EVERYTHING, plan_of, run_text};

/// Two hidden stations that upload through an access point, which repeats what collides; another downloads.
fn hidden(keys: &str) -> String {
    let flow = |source: &str, sink: &str, transport: &str| {
        format!(
            "[[flows]]\nsource = \"{source}\"\nsink = \"{sink}\"\nstart = \"0 s\"\ntransport = \"{transport}\"\n"
        )
    };
    format!(
        "duration = \"2 s\"\n[measure]\nseries_interval = \"200 ms\"\n[topology]\nkind = \"graph\"\n\
         nodes = [\"west\", \"east\", \"near\", \"ap\", \"server\"]\n\
         [[topology.links]]\nfrom = \"ap\"\nto = \"server\"\nrate = \"10 Mbit/s\"\ndelay = \"2 ms\"\n\
         [[topology.cells]]\naccess_point = \"ap\"\nsense_threshold = -64.38\n{keys}\n\
         stations = [{{ node = \"west\", position = [-240, 0] }}, {{ node = \"east\", position = [240, 0] }}, \
         {{ node = \"near\", position = [5, 5] }}]\n{}{}{}",
        flow("west", "server", "sack"),
        flow("east", "server", "newreno"),
        flow("server", "near", "cubic"),
    )
}

fn frames(run: &Run) -> &[FrameRecord] {
    &run.recorded.frames
}

/// A run and its frames as a file.
struct Captured {
    run: Run,
    file: std::path::PathBuf,
}

impl Drop for Captured {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Captures that this process has written.
static FILES: AtomicU32 = AtomicU32::new(0);

impl Captured {
    fn of(text: &str) -> Captured {
        let (plan, run) = (plan_of(text), run_text(text, 1, EVERYTHING));
        let mut bytes = Vec::new();
        let mut capture = AirCapture::new(&mut bytes, &plan, &[]).unwrap();
        for frame in frames(&run) {
            capture.frame(frame).unwrap();
        }
        assert_eq!(capture.finish().unwrap(), frames(&run).len() as u64);
        let name =
            format!("lasthop-air-{}-{}.pcapng", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, &bytes).unwrap();
        Captured { run, file }
    }

    /// These fields of all frames that pass a filter of tshark.
    fn ask(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        let mut command = Command::new("tshark");
        command.args(["-o", "wlan.check_checksum:TRUE", "-r"]).arg(&self.file);
        command.args(["-Y", filter, "-T", "fields"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

/// Counters over time add up to those of the run, and frames to the counters.
#[test]
fn counters_over_time_and_frames_agree_with_results() {
    let text = hidden("error = { kind = \"bernoulli\", packet_error_rate = 0.02 }");
    let run = run_text(&text, 1, EVERYTHING);
    let radios = &run.recorded.radios;
    assert_eq!(radios.len(), 10 * 6, "ten intervals, both directions of three links");
    let mut attempts: BTreeMap<String, u64> = BTreeMap::new();
    for frame in frames(&run).iter().filter(|frame| frame.outcome == FrameOutcome::Sent) {
        if frame.kind == FrameKind::Data {
            *attempts.entry(format!("{} {}", frame.from, frame.to.unwrap())).or_default() += 1;
        }
    }
    let plan = plan_of(&text);
    for (link, direction) in run.summary.links.iter().zip(0u32..) {
        let Some(total) = &link.radio else { continue };
        let sum = |count: fn(&lasthop_net::trace::RadioStats) -> u64| {
            radios.iter().filter(|row| row.direction == direction).map(|row| count(&row.stats)).sum::<u64>()
        };
        assert_eq!(sum(|stats| stats.attempts), total.attempts, "{}", link.name);
        assert_eq!(sum(|stats| stats.ack_failures), total.ack_failures, "{}", link.name);
        assert_eq!(sum(|stats| stats.fcs_errors), total.fcs_errors, "{}", link.name);
        assert_eq!(sum(|stats| stats.collisions), total.collisions, "{}", link.name);
        assert!(total.attempts > 50, "{}", link.name);
        let planned = &plan.links[direction as usize / 2];
        let (from, to) =
            if direction % 2 == 0 { (planned.from, planned.to) } else { (planned.to, planned.from) };
        // One may still be on the air.
        let sent = attempts[&format!("{from} {to}")];
        assert!(total.attempts - sent <= 1, "{}: {sent} of {}", link.name, total.attempts);
    }
    let mut last = 0;
    for frame in frames(&run) {
        assert!(frame.end >= frame.start && frame.end.0 + 1_000_000 > last);
        last = frame.end.0;
        assert_eq!(frame.dbm.is_nan(), frame.outcome == FrameOutcome::Sent);
        assert_eq!(frame.at == frame.from, frame.outcome == FrameOutcome::Sent);
        assert!(frame.kind == FrameKind::Data || frame.packet.is_none() && !frame.retry);
    }
    let seen = |outcome| frames(&run).iter().filter(|frame| frame.outcome == outcome).count();
    assert!(seen(FrameOutcome::Collided) > 20 && seen(FrameOutcome::Corrupt) > 20, "both kinds are there");
}

/// Every frame is a frame for tshark, if there is one, with right lengths and check sequences, of every generation and
/// profile.
/// The retry bit is of frames that were sent before (IEEE 802.11-2020, 9.2.4.1.6), and not of those whose RTS was lost.
#[test]
fn what_is_sent_for_the_first_time_is_no_retry() {
    let run = run_text(&hidden("rts_threshold = \"0 B\""), 1, EVERYTHING);
    let sent = |kind| {
        let all =
            frames(&run).iter().filter(move |one| one.outcome == FrameOutcome::Sent && one.kind == kind);
        all.map(|one| (one.from, one.sequence, one.retry))
    };
    let mut last = BTreeMap::new();
    let mut lost_rts = 0;
    for (from, sequence, retry) in sent(FrameKind::Data) {
        let before = last.insert(from, sequence);
        assert_eq!(retry, before == Some(sequence), "{from}: {sequence}");
    }
    last.clear();
    for (from, sequence, _) in sent(FrameKind::Rts) {
        lost_rts += usize::from(last.insert(from, sequence) == Some(sequence));
    }
    assert!(lost_rts > 20, "{lost_rts}");
}

#[test]
fn tshark_reads_the_air() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return;
    }
    for keys in [
        "rts_threshold = \"500 B\"\nbeacon = \"100 ms\"",
        "phy = \"802.11g\"\nprotection = true\npreamble = \"short\"",
        "profile = \"ns2\"\nrate = \"11 Mbit/s\"",
    ] {
        let text = hidden(keys);
        let capture = Captured::of(&text);
        let (run, ask) = (&capture.run, |filter: &str, fields: &[&str]| capture.ask(filter, fields));
        // Of frames that could not be read it says that their check sequences are wrong.
        let complaints =
            ask("(_ws.malformed || _ws.expert.severity == \"Error\") && !frame.comment", &["frame.number"]);
        assert!(complaints.is_empty(), "{keys}: {complaints:?}");
        // Where check sequences are stored they are wrong for what could not be read, and for nothing else.
        let wrong = ask("wlan.fcs.status == \"Bad\" && !frame.comment", &["frame.number"]);
        let unseen = ask("wlan.fcs.status == \"Good\" && frame.comment", &["frame.number"]);
        assert!(wrong.is_empty() && unseen.is_empty(), "{keys}: {wrong:?} {unseen:?}");
        assert!(ask("wlan.fcs.status == \"Good\"", &["frame.number"]).len() > 500, "{keys}");
        for (kind, number) in [(FrameKind::Data, 32), (FrameKind::Ack, 29)] {
            let count = frames(run).iter().filter(|frame| frame.kind == kind).count();
            let whole = format!("wlan.fc.type_subtype == {number}");
            assert_eq!(ask(&whole, &["frame.number"]).len(), count, "{keys}: {kind:?}");
        }
        assert!(ask("tcp && wlan", &["frame.number"]).len() > 100, "{keys}: packets are inside");
        let retries = frames(run).iter().filter(|frame| frame.retry).count();
        assert_eq!(ask("wlan.fc.retry == 1", &["frame.number"]).len(), retries, "{keys}");
        let rates = ask("wlan.fc.type_subtype == 32", &["radiotap.datarate"]);
        assert!(rates.iter().all(|rate| rate == "11" || rate == "54"), "{keys}: {:?}", rates.first());
    }
}

/// MPDUs of aggregates have their modes, a number for each A-MPDU and a flag on its last; BlockAcks have bitmaps.
#[test]
fn tshark_reads_aggregates() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return;
    }
    for (keys, shown, phy) in [
        (
            "phy = \"802.11n\"\nmcs = 5\nwidth = 40\nguard_interval = \"400 ns\"\nrts_threshold = \"9000 B\"",
            "120",
            "7",
        ),
        ("phy = \"802.11ac\"\nmcs = 4\nwidth = 80\nstreams = 2", "351", "8"),
        ("phy = \"802.11ax\"\nmcs = 3\nwidth = 40\nguard_interval = \"1.6 us\"", "65", "11"),
    ] {
        let text = hidden(&format!("tx_power = 34.5\n{keys}")).replace("\"2 s\"", "\"400 ms\"");
        let capture = Captured::of(&text);
        let complaints = capture
            .ask("(_ws.malformed || _ws.expert.severity == \"Error\") && !frame.comment", &["frame.number"]);
        assert!(complaints.is_empty(), "{keys}: {complaints:?}");
        let wrong = capture.ask("wlan.fcs.status == \"Bad\" && !frame.comment", &["frame.number"]);
        assert!(wrong.is_empty(), "{keys}: {wrong:?}");
        for (kind, number) in [(FrameKind::Data, 40), (FrameKind::Ack, 29), (FrameKind::BlockAck, 25)] {
            let count = frames(&capture.run).iter().filter(|frame| frame.kind == kind).count();
            assert!(count > 50, "{keys}: {kind:?}");
            let whole = format!("wlan.fc.type_subtype == {number}");
            assert_eq!(capture.ask(&whole, &["frame.number"]).len(), count, "{keys}: {kind:?}");
        }
        let modes = capture.ask("wlan.fc.type_subtype == 40", &["wlan_radio.phy", "wlan_radio.data_rate"]);
        let expected = format!("{phy}\t{shown}");
        assert!(modes.iter().all(|mode| *mode == expected), "{keys}: {:?}", modes.first());
        let last = capture.ask("radiotap.ampdu.flags.last == 1", &["frame.number"]).len();
        let all = capture.ask("radiotap.ampdu.reference", &["frame.number"]).len();
        assert!(last > 100 && all > 3 * last / 2, "{keys}: {last} of {all}");
        assert!(capture.ask("tcp && wlan.qos.tid == 0", &["frame.number"]).len() > 100, "{keys}");
        let gaps = capture.ask("wlan.ba.bm.missing_frame", &["frame.number"]);
        assert!(!gaps.is_empty(), "{keys}: bitmaps decode");
    }
}
