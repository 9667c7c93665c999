//! Sources of frames: the statistics of the MPEG-4 model, traces from files, and how frames travel over UDP, TCP and
//! rate-based transports.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lasthop_core::packet::Kind;
use lasthop_core::random::Stream;
use lasthop_net::frames::FrameKind;
use lasthop_net::plan::{FramePlan, Traffic};
use lasthop_net::traffic::video::FrameSizes;
use lasthop_sim::run::Run;
use lasthop_sim::scenario::{Format, Scenario};

use crate::testkit::{SUMMARY, Scene, TRACE, drop_tail, hops, plan_of, run_plan, run_text};

/// One flow over a fast link without losses.
fn alone(transport: &str, traffic: &str, duration: &str, more: &str) -> String {
    Scene::lasting(duration)
        .with(more)
        .chain(["source", "sink"], &["rate = \"1 Gbit/s\"\ndelay = \"10 ms\"\nqueue = \"unlimited\""])
        .with("[udp]\npayload = \"1000 B\"")
        .between("source", "sink", &format!("transport = {transport}\ntraffic = {traffic}"))
        .text()
        .to_owned()
}

/// Kind, time in ms and payload of everything that carried data.
fn sent(run: &Run) -> Vec<(f64, u32)> {
    let data = hops(run).iter().filter(|hop| matches!(hop.kind, Kind::Data | Kind::Fin | Kind::Udp));
    data.map(|hop| (hop.enqueued.seconds() * 1e3, u32::from(hop.payload))).filter(|sent| sent.1 > 0).collect()
}

/// End and time in ms of every frame.
fn frames(run: &Run) -> Vec<(u64, u64)> {
    run.world.frames(0).iter().map(|frame| (frame.end, frame.at.0 / 1_000_000)).collect()
}

// ---------------------------------------------------------------------------------------------------------------------
// Statistics of the model

fn frame_plan(traffic: &str) -> Arc<FramePlan> {
    match plan_of(&alone("\"udp\"", traffic, "1 s", "")).flows[0].traffic.clone() {
        Traffic::Frames(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let (mean, variance) = (mean(values), deviation(values).powi(2));
    let products = values.windows(lag + 1).map(|window| (window[0] - mean) * (window[lag] - mean));
    products.sum::<f64>() / values.len() as f64 / variance
}

/// What is asserted of a type of frame: mean, CoV and autocorrelation at lags 1 and 10.
type Moments = [f64; 4];

/// Moments of I, P and B frames, rate in bit/s and CoV of groups of 12, averaged over 20 seeds of 60 000 frames.
fn moments(traffic: &str) -> ([Moments; 3], f64, f64) {
    const SEEDS: u64 = 20;
    let plan = frame_plan(traffic);
    let mut sums = [[0.0; 4]; 3];
    let (mut rate, mut gop) = (0.0, 0.0);
    for seed in 0..SEEDS {
        let frames: Vec<(u64, FrameKind)> =
            FrameSizes::new(Arc::clone(&plan), Stream::new(seed, "traffic of video")).take(60_000).collect();
        for (kind, sums) in [FrameKind::I, FrameKind::P, FrameKind::B].into_iter().zip(&mut sums) {
            let sizes: Vec<f64> =
                frames.iter().filter(|frame| frame.1 == kind).map(|frame| frame.0 as f64).collect();
            let moments = [
                mean(&sizes),
                deviation(&sizes) / mean(&sizes),
                autocorrelation(&sizes, 1),
                autocorrelation(&sizes, 10),
            ];
            sums.iter_mut().zip(moments).for_each(|(sum, moment)| *sum += moment / SEEDS as f64);
        }
        let sizes: Vec<f64> = frames.iter().map(|frame| frame.0 as f64).collect();
        rate += mean(&sizes) * 8.0 * plan.frame_rate / SEEDS as f64;
        let groups: Vec<f64> = sizes.chunks_exact(12).map(|group| group.iter().sum()).collect();
        gop += deviation(&groups) / mean(&groups) / SEEDS as f64;
    }
    (sums, rate, gop)
}

fn assert_moments(found: &[Moments; 3], expected: &[Moments; 3]) {
    for (kind, (found, expected)) in ["I", "P", "B"].iter().zip(found.iter().zip(expected)) {
        let relative = |index: usize| (found[index] / expected[index] - 1.0).abs();
        let absolute = |index: usize| (found[index] - expected[index]).abs();
        let close = relative(0) < 0.03 && relative(1) < 0.05 && absolute(2) < 0.02 && absolute(3) < 0.05;
        assert!(close, "{kind}: {found:?}, expected {expected:?}");
    }
}

/// NV-7.5: means and CoVs are those of the distributions, exactly; autocorrelations follow from the Fourier series of
/// the distribution (Jagerman and Melamed 1992), with a shared background from long samples made apart from the engine.
#[test]
fn the_model_has_its_statistics() {
    let (found, rate, gop) = moments("\"mpeg4\"");
    assert_moments(
        &found,
        &[[7172.0, 0.3025, 0.916, 0.625], [4473.4, 0.5132, 0.926, 0.739], [3188.0, 0.5770, 0.947, 0.840]],
    );
    assert!((rate / 768_300.0 - 1.0).abs() < 0.03, "{rate}");
    assert!((gop - 0.342).abs() < 0.02, "{gop}");

    let (found, rate, gop) = moments("{ kind = \"mpeg4\", background = \"shared\" }");
    assert_moments(
        &found,
        &[[7172.0, 0.3025, 0.913, 0.593], [4473.4, 0.5132, 0.939, 0.762], [3188.0, 0.5770, 0.950, 0.839]],
    );
    assert!((rate / 768_300.0 - 1.0).abs() < 0.03, "{rate}");
    assert!((gop - 0.493).abs() < 0.03, "{gop}");
}

/// The rate scales sizes, not times, and not their correlation.
#[test]
fn a_rate_scales_the_sizes() {
    let scaled = frame_plan("{ kind = \"mpeg4\", rate = \"400 kbit/s\" }");
    assert!((scaled.scale - 400.0 / 768.27).abs() < 1e-4, "{}", scaled.scale);
    let first =
        |plan: &Arc<FramePlan>| FrameSizes::new(Arc::clone(plan), Stream::new(1, "x")).next().unwrap().0;
    let whole = first(&frame_plan("\"mpeg4\""));
    assert_eq!(first(&scaled), (whole as f64 * scaled.scale).round() as u64);
    // Of any table and group: here the mean of a frame is (2000 + 2 * 500) / 3 bytes.
    let own = frame_plan(
        "{ kind = \"mpeg4\", gop = \"IPP\", frame_rate = 10, rate = \"160 kbit/s\", \
         i = [[0, 1000], [1, 3000]], p = [[0, 0], [1, 1000]] }",
    );
    assert_eq!(own.scale, 2.0);
    let (list, rate) = (frame_plan("{ kind = \"frames\", sizes = [\"1 kB\", \"3 kB\"] }"), "800 kbit/s");
    assert_eq!(list.mean_rate(), 400_000.0);
    let text = format!("{{ kind = \"frames\", sizes = [\"1 kB\", \"3 kB\"], rate = \"{rate}\" }}");
    assert_eq!(frame_plan(&text).scale, 2.0);
}

/// Forty flows of 200 s: the standard deviation of their mean is 2 % of it.
#[test]
fn the_long_run_rate_is_as_asked() {
    let text = "duration = \"200 s\"\n[topology]\nkind = \"dumbbell\"\n\
        bottleneck = { rate = \"1 Gbit/s\", delay = \"1 ms\", queue = \"unlimited\" }\n\
        access = { rate = \"1 Gbit/s\", delay = \"1 ms\", queue = \"unlimited\" }\n\
        [[flows]]\ncount = 40\ntransport = \"udp\"\ntraffic = { kind = \"mpeg4\", rate = \"650 kbit/s\" }\n";
    let plan = plan_of(text);
    let run = run_plan(&plan, 1, SUMMARY);
    let rate = run.summary.totals.goodput_bit_s / 40.0;
    assert!((rate / 650_000.0 - 1.0).abs() < 0.05, "{rate}");
}

// ---------------------------------------------------------------------------------------------------------------------
// Frames on their way

const FILM: &str = "{ kind = \"frames\", sizes = [\"2300 B\", \"1000 B\", \"0 B\", \"700 B\"] }";
const ONCE: &str =
    "{ kind = \"frames\", sizes = [\"2300 B\", \"1000 B\", \"0 B\", \"700 B\"], repeat = false }";

/// NV-7.4: UDP sends 2300 B as 1000, 1000, 300 at the instant of the frame.
#[test]
fn udp_cuts_frames_into_datagrams() {
    let run = run_text(&alone("\"udp\"", FILM, "170 ms", ""), 1, TRACE);
    let expected = [
        (0.0, 1000),
        (0.0, 1000),
        (0.0, 300),
        (40.0, 1000),
        (120.0, 700),
        (160.0, 1000),
        (160.0, 1000),
        (160.0, 300),
    ];
    assert_eq!(sent(&run), expected);
    assert_eq!(frames(&run), [(2300, 0), (3300, 40), (3300, 80), (4000, 120), (6300, 160)]);
    assert_eq!(run.summary.flows[0].bytes_delivered, 4000);
}

#[test]
fn spread_frames_leave_evenly() {
    let spread = FILM.replace(" }", ", spread = true }");
    let run = run_text(&alone("\"udp\"", &spread, "119 ms", ""), 1, TRACE);
    assert_eq!(sent(&run), [(0.0, 1000), (13.333_333, 1000), (26.666_666, 300), (40.0, 1000)]);
}

/// NV-7.4: ns-2's TCP sends 2300 B as three full segments; the log counts what is carried.
#[test]
fn tcp_of_ns2_rounds_frames_up_to_segments() {
    let run = run_text(&alone(NS2_RENO, ONCE, "5 s", ""), 1, TRACE);
    assert_eq!(frames(&run), [(3000, 0), (4000, 40), (4000, 80), (5000, 120)]);
    assert_eq!(run.summary.flows[0].bytes_delivered, 5000);
    assert!(sent(&run).iter().all(|&(_, payload)| payload == 1000));
}

const NS2_RENO: &str = "{ preset = \"reno\", profile = \"ns2\", packet_size = \"1000 B\" }";

/// With `rounding = "carry"` full segments carry what the frames have, to within one; at the end of a film too.
#[test]
fn frames_over_tcp_of_ns2_may_carry_their_rest() {
    let film = "{ kind = \"frames\", sizes = [\"2300 B\", \"600 B\", \"0 B\", \"700 B\"], repeat = false, \
                rounding = \"carry\" }";
    let run = run_text(&alone(NS2_RENO, film, "5 s", ""), 1, TRACE);
    assert_eq!(frames(&run), [(2300, 0), (2900, 40), (2900, 80), (3600, 120)]);
    assert!(sent(&run).iter().all(|&(_, payload)| payload == 1000));
    let flow = &run.summary.flows[0];
    assert_eq!(flow.bytes_delivered, 4000, "3600 B in full segments");
    assert!(flow.completion_s.is_some_and(|time| (0.12..0.3).contains(&time)), "{:?}", flow.completion_s);

    // The last frame leaves at 10 s.
    let bytes = |rounding: &str| {
        let traffic = format!("{{ kind = \"mpeg4\", rate = \"650 kbit/s\", rounding = \"{rounding}\" }}");
        let run = run_text(&alone(NS2_RENO, &traffic, "10.039 s", ""), 1, TRACE);
        (run.summary.flows[0].bytes_delivered, frames(&run).last().unwrap().0)
    };
    let (delivered, written) = bytes("carry");
    assert!(
        delivered.is_multiple_of(1000) && (written - 999..=written).contains(&delivered),
        "{delivered}, {written}"
    );
    let (rounded, written_rounded) = bytes("up");
    assert_eq!(rounded, written_rounded);
    let more = rounded as f64 / written as f64;
    assert!((1.08..1.25).contains(&more), "about half a segment more per frame: {more}");
}

/// A frame is complete when the segment has come that holds its last byte.
#[test]
fn viewers_see_frames_that_carry_their_rest() {
    let of = |rounding: &str, more: &str| {
        let traffic = format!("{{ kind = \"mpeg4\", rate = \"650 kbit/s\", rounding = \"{rounding}\" }}");
        let run = run_text(&alone(NS2_RENO, &traffic, "20 s", more), 1, TRACE);
        run.summary.flows[0].realtime.clone().unwrap()
    };
    let carried = of("carry", "");
    // Frame 24 is generated at 0.96 s; frame 25, at 1 s, fills its last segment.
    assert!((1.01..1.05).contains(&carried.startup_s.unwrap()), "{carried:?}");
    assert_eq!((carried.stalls, carried.stall_s), (Some(0), Some(0.0)));
    assert!((0.97..1.0).contains(&of("up", "").startup_s.unwrap()));
    assert_eq!(carried.received_packets, carried.timely_packets + carried.delayed_packets);
    assert_eq!(carried.received_packets, carried.transmitted_packets);
    // A player that waits for nothing but its first frame stalls for what comes later than that one did.
    let hasty = of("carry", "measure = { realtime = { playout = \"0 s\", rebuffer = \"0 s\" } }\n");
    assert!(hasty.startup_s < Some(0.1) && hasty.stalls > Some(0), "{hasty:?}");
}

/// Other profiles write a stream of bytes; it ends with the last frame.
#[test]
fn tcp_carries_frames_as_a_stream() {
    for profile in ["rfc", "linux"] {
        let transport = format!("{{ preset = \"newreno\", profile = \"{profile}\" }}");
        let run = run_text(&alone(&transport, ONCE, "5 s", ""), 1, TRACE);
        assert_eq!(frames(&run), [(2300, 0), (3300, 40), (3300, 80), (4000, 120)]);
        let flow = &run.summary.flows[0];
        assert_eq!(flow.bytes_delivered, 4000);
        assert!(flow.completion_s.is_some_and(|time| (0.12..0.3).contains(&time)), "{:?}", flow.completion_s);
    }
}

/// A frame is a write of its own to a rate-based transport: no packet holds parts of two.
#[test]
fn rate_based_transports_keep_frames_apart() {
    let run = run_text(&alone("\"tfrc\"", ONCE, "20 s", ""), 1, TRACE);
    let payloads: Vec<u32> = sent(&run).iter().map(|sent| sent.1).collect();
    assert_eq!(payloads, [1460, 840, 1000, 700]);
    assert_eq!(frames(&run)[3], (4000, 120));
}

/// The sender drops what waits too long; the rest keeps its place in the stream, so that the log still fits.
#[test]
fn dropped_writes_leave_a_gap() {
    let transport = "{ rate = \"tfrc\", deadline = \"10 ms\" }";
    let run = run_text(&alone(transport, FILM, "3 s", ""), 1, TRACE);
    let trace = &run.recorded.hops;
    let ends: Vec<u64> = run.world.frames(0).iter().map(|frame| frame.end).collect();
    assert!(run.summary.flows[0].expired_packets > 0);
    for hop in trace.iter().filter(|hop| hop.kind == Kind::Udp && hop.payload > 0) {
        let end = hop.seq + u64::from(hop.payload);
        let frame = ends.partition_point(|&frame| frame < end);
        let begins = if frame == 0 { 0 } else { ends[frame - 1] };
        assert!(hop.seq >= begins && (end == ends[frame] || hop.payload == 1460), "{}..{end}", hop.seq);
    }
}

#[test]
fn a_stop_ends_the_frames() {
    let text = alone("\"reno\"", ONCE, "5 s", "") + "stop = \"50 ms\"\n";
    let run = run_text(&text, 1, TRACE);
    assert_eq!(frames(&run).len(), 2);
    assert_eq!(run.summary.flows[0].completion_s, None, "it was cut short");
}

/// The same seed gives the same frames, whatever other flows there are.
#[test]
fn frames_belong_to_their_flow() {
    let one = alone("\"udp\"", "\"mpeg4\"", "10 s", "");
    let two = format!(
        "{one}name = \"flow\"\n[[flows]]\nname = \"other\"\nsource = \"sink\"\nsink = \"source\"\n\
         transport = \"reno\"\n\
         traffic = {{ kind = \"mpeg4\", background = \"shared\" }}\n"
    );
    let one = run_text(&one.replace("[[flows]]", "[[flows]]\nname = \"flow\""), 1, TRACE);
    let two = run_text(&two, 1, TRACE);
    assert_eq!(one.world.frames(0), two.world.frames(0));
    assert_eq!(one.world.frames(0).len(), 251);
    assert_ne!(one.world.frames(0)[0].end, two.world.frames(1)[0].end);
}

/// NV-7.6: waiting packets at the bottleneck of a wireless dumbbell with 20 and 40 flows of 650 kbit/s over UDP, as
/// Papadimitriou and Tsaoussidis (2005) give them in their tables 1 and 2. The rate is not in the paper: it is the one
/// at which an open-loop model apart from the engine agrees with all eight values.
#[test]
fn queues_of_video_are_as_published() {
    for (flows, queues) in [(20, [16.9, 27.2, 46.6, 75.7]), (40, [18.5, 28.3, 48.1, 77.8])] {
        for (limit, expected) in [20, 30, 50, 80].into_iter().zip(queues) {
            let queue = drop_tail(&format!("{limit} packets"));
            let plan = Scene::lasting("60 s")
                .dumbbell(
                    &format!("rate = \"10 Mbit/s\"\ndelay = \"50 ms\"\n{queue}"),
                    "rate = \"1 Mbit/s\"\ndelay = \"10 ms\"",
                )
                .with("[udp]\npayload = \"1000 B\"")
                .flow(&format!(
                    "count = {flows}\ntransport = \"udp\"\nstart = {{ uniform = [\"0 s\", \"1 s\"] }}\n\
                     traffic = {{ kind = \"mpeg4\", rate = \"650 kbit/s\" }}"
                ))
                .plan();
            let queue = |seed| run_plan(&plan, seed, SUMMARY).summary.links[0].avg_queue_packets.unwrap();
            let found = (1..=3).map(queue).sum::<f64>() / 3.0;
            assert!((found - expected).abs() < 1.0, "{flows} flows, limit {limit}: {found}, not {expected}");
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Files

/// A folder with these files and a scenario `lab.toml` that replays `film.txt`.
fn folder(name: &str, files: &[(&str, &[u8])], more: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let traffic = format!("{{ kind = \"frames\", file = \"film.txt\"{more} }}");
    std::fs::write(folder.join("lab.toml"), alone("\"udp\"", &traffic, "170 ms", "")).unwrap();
    folder
}

#[test]
fn a_trace_is_replayed() {
    let film = b"# number type time size\n0 I 0 2300\n1 B 40 500\n2 B 80 0\n3 P 120 1200\n";
    let folder = folder("replayed", &[("film.txt", film)], "");
    let scenario = Scenario::load(folder.join("lab.toml"), &[]).unwrap();
    assert_eq!(scenario.input_files(), [folder.join("film.txt")]);
    let plan = scenario.into_plan();
    let run = run_plan(&plan, 1, TRACE);
    assert_eq!(frames(&run), [(2300, 0), (2800, 40), (2800, 80), (4000, 120), (6300, 160)]);
    let kinds: Vec<&str> = run.world.frames(0).iter().map(|frame| frame.kind.name()).collect();
    assert_eq!(kinds, ["I", "B", "B", "P", "I"]);
}

/// Editors on Windows begin a text with a byte order mark.
#[test]
fn a_byte_order_mark_takes_no_frame() {
    let folder = folder("marked", &[("film.txt", b"\xef\xbb\xbf700\n100\n")], "");
    let plan = Scenario::load(folder.join("lab.toml"), &[]).unwrap().into_plan();
    let run = run_plan(&plan, 1, SUMMARY);
    assert_eq!(frames(&run)[..3], [(700, 0), (800, 40), (1500, 80)]);
}

#[test]
fn a_trace_may_get_types_and_another_beginning() {
    let film = b"100\n200\n300\n";
    let folder = folder("typed", &[("film.txt", film)], ", gop = \"IPP\", offset = 1, frame_rate = 50");
    let plan = Scenario::load(folder.join("lab.toml"), &[]).unwrap().into_plan();
    let run = run_plan(&plan, 1, TRACE);
    let kinds: Vec<&str> = run.world.frames(0).iter().map(|frame| frame.kind.name()).collect();
    assert_eq!(kinds, ["P", "P", "I", "P", "P", "I", "P", "P", "I"]);
    assert_eq!(frames(&run)[..3], [(200, 0), (500, 20), (600, 40)]);
}

/// The text of a scenario has a folder as well.
#[test]
fn text_may_name_files_of_a_folder() {
    let folder = folder("text", &[("film.txt", b"100\n")], "");
    let text = std::fs::read_to_string(folder.join("lab.toml")).unwrap();
    let parse = |folder: &Path| Scenario::parse_with(&text, Format::Toml, ("lab", folder), &[], &[]);
    assert_eq!(parse(&folder).unwrap().input_files(), [folder.join("film.txt")]);
    assert!(parse(Path::new("/nowhere")).is_err());
}

#[test]
fn wrong_traces_are_refused() {
    let says = |name: &str, film: &[u8], promised: &str| {
        let folder = folder(name, &[("film.txt", film)], "");
        let error = Scenario::load(folder.join("lab.toml"), &[]).unwrap_err().to_string();
        let found = error.replace(&format!("{}/", folder.display()), "");
        assert!(found.starts_with(promised), "promised {promised}\nfound {found}");
    };
    says(
        "wrong-size",
        b"1000\n10 kB\n",
        "scenario error: 2 columns, and 1 in the lines before\n  at film.txt:2:1\n2 | 10 kB\n",
    );
    says("wrong-text", b"1000\nx\n", "scenario error: no size of a frame: \"x\"\n  at film.txt:2:1\n2 | x\n");
    says("empty", b"# nothing\n", "scenario error: the file holds no frame\n  at film.txt\n");
    for (name, film) in [("binary", &b"12\0"[..]), ("latin", &b"12\n\xe4"[..])] {
        let promised =
            "scenario error: the frames cannot be read from film.txt: it is not a text file, see byte ";
        says(name, film, promised);
    }
    let folder = folder("large", &[], "");
    std::fs::File::create(folder.join("film.txt")).unwrap().set_len(1 << 40).unwrap();
    let error = Scenario::load(folder.join("lab.toml"), &[]).unwrap_err();
    assert!(error.message().ends_with("it is too large, 1099511627776 bytes"), "{error}");
}
