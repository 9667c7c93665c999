//! Repair of media: what is asked for, what comes in time, and what closed forms say of it.

use lasthop_sim::run::Run;
use lasthop_sim::summary::RepairSummary;

use crate::testkit::{SERIES, run_both_ways, run_text};

/// Packets of 1000 B at 500 kbit/s for `seconds`, over 5 Mbit/s that loses `up` forth and `down` back, at a fixed rate.
fn stream(keys: &str, (up, down): (f64, f64), seconds: u32) -> String {
    let error = |rate: f64| format!(r#"error = {{ kind = "bernoulli", packet_error_rate = {rate} }}"#);
    format!(
        r#"
        duration = "{seconds} s"
        [topology]
        kind = "graph"
        nodes = ["a", "b"]
        [[topology.links]]
        from = "a"
        to = "b"
        rate = "5 Mbit/s"
        delay = "20 ms"
        {}
        reverse = {{ {} }}
        [[flows]]
        source = "a"
        sink = "b"
        transport = {{ rate = "gcc", min_rate = 2e6, max_rate = 2e6, {keys} }}
        traffic = {{ kind = "cbr", rate = "500 kbit/s", packet = "1000 B" }}
        start = "0 s""#,
        error(up),
        error(down)
    )
}

/// A call over 5 Mbit/s with what is special of its link.
fn call(keys: &str, link: &str) -> String {
    format!(
        r#"
        duration = "60 s"
        warmup = "5 s"
        [topology]
        kind = "graph"
        nodes = ["a", "b"]
        links = [{{ from = "a", to = "b", rate = "5 Mbit/s", delay = "30 ms", {link} }}]
        [[flows]]
        source = "a"
        sink = "b"
        transport = {{ rate = "gcc", {keys} }}
        traffic = {{ kind = "video-call", model = "rfc8867" }}
        start = "0 s""#
    )
}

fn repairs(run: &Run) -> &RepairSummary {
    run.summary.flows[0].repair.as_deref().unwrap()
}

/// Within 3.5 standard deviations of a binomial: one test of 2000 would fail by chance.
fn is_share(found: u64, of: u64, expected: f64) {
    let deviation = (expected * (1.0 - expected) / of as f64).sqrt();
    let share = found as f64 / of as f64;
    assert!(
        (share - expected).abs() < 3.5 * deviation + 1e-9,
        "{found} of {of}: {share}, expected {expected}"
    );
}

/// A round of asking and repeating succeeds if neither the request nor the retransmission is lost, and n rounds fail
/// if each does.
#[test]
fn repetitions_come_as_often_as_both_ways_let_them() {
    for (seed, (up, down, rounds)) in (1..).zip([
        (0.02, 0.0, 1),
        (0.1, 0.0, 1),
        (0.3, 0.0, 1),
        (0.1, 0.2, 1),
        (0.2, 0.0, 2),
        (0.3, 0.3, 2),
        (0.3, 0.1, 4),
    ]) {
        let keys = format!("nack = true, nack_repeats = {rounds}, nack_within_s = 10");
        let run = run_text(&stream(&keys, (up, down), 240), seed, SERIES);
        let found = repairs(&run);
        let settled = found.repeated_packets + found.given_up_packets;
        let one = (1.0 - up) * (1.0 - down);
        is_share(found.missing_packets, 15_000, up);
        is_share(found.repeated_packets, settled, 1.0 - (1.0 - one).powi(rounds));
        assert!(found.missing_packets - settled < 30 && found.overtaken_packets == 0, "{found:?}");
        // What is repeated is as often lost, and each of these has two bytes more than 1040.
        let repeats = run.summary.flows[0].retransmitted_packets.unwrap() as f64;
        let overhead = repeats * 1042.0 / (repeats * 1042.0 + 15_000.0 * 1040.0);
        assert!((found.overhead_share.unwrap() - overhead).abs() < 1e-3, "{found:?}");
    }
}

/// What one packet in fifty loses comes again within an RTT, and the viewer hardly sees it; without NACK each loss
/// costs a key frame and the frames until it.
#[test]
fn a_call_is_repaired_before_it_is_seen() {
    let lossy = r#"error = { kind = "bernoulli", packet_error_rate = 0.02 }"#;
    let [bare, mended] = ["nack = false", "nack = true"].map(|keys| run_both_ways(&call(keys, lossy), 3));
    let [before, after] = [&bare, &mended].map(|run| run.summary.flows[0].call.as_deref().unwrap());
    assert!(bare.summary.flows[0].repair.is_none());
    assert!(before.frames_lost_share > Some(0.05) && before.key_frames > 40, "{before:?}");
    assert!(after.frames_lost_share < Some(0.002) && after.key_frames < 5, "{after:?}");
    assert!(after.freeze_s < Some(0.5) && before.freeze_s > Some(1.0), "{before:?} {after:?}");
    let found = repairs(&mended);
    assert!(found.repeated_packets * 100 > found.missing_packets * 97, "{found:?}");
    assert!(found.overhead_share < Some(0.03), "{found:?}");
    // Frames are played once, and bytes are handed over once.
    let flow = &mended.summary.flows[0];
    assert!(flow.goodput_bit_s <= after.rate_bit_s * 1.01, "{flow:?}");
}

/// With an RTT of 400 ms no answer comes within 300 ms: nothing is asked for, and the encoder hears at once.
#[test]
fn what_cannot_come_in_time_is_not_asked_for() {
    let far = r#"error = { kind = "bernoulli", packet_error_rate = 0.02 }"#;
    let text = call("nack = true, nack_within_s = 0.3", far).replace("30 ms", "200 ms");
    let run = run_both_ways(&text, 4);
    let found = repairs(&run);
    // Before the RTT is known it is taken for 100 ms, in the warm-up.
    assert_eq!((found.asked_packets, found.repeated_packets), (0, 0), "{found:?}");
    assert!(found.given_up_packets > 20, "{found:?}");
    let seen = run.summary.flows[0].call.as_deref().unwrap();
    assert!(seen.key_frames > 20, "{seen:?}");
}

/// Requests that are lost are made again; where all are, the receiver gives up and its wish for a picture is lost as
/// well: the call stands still, and nothing floods.
#[test]
fn requests_may_be_lost() {
    let half = r#"reverse = { error = { kind = "bernoulli", packet_error_rate = 0.5 } },
        error = { kind = "bernoulli", packet_error_rate = 0.02 }"#
        .replace('\n', " ");
    let run = run_both_ways(&call("nack = true", &half), 5);
    let found = repairs(&run);
    assert!(found.asked_packets > found.missing_packets * 3 / 2, "{found:?}");
    assert!(found.repeated_packets * 10 > found.missing_packets * 8, "{found:?}");
}

/// The wish for a picture may be lost as well: it is said five times, and one key frame answers.
#[test]
fn a_picture_is_asked_for_until_it_is_heard() {
    let lossy = r#"error = { kind = "list", packets = [2000] },
        reverse = { error = { kind = "bernoulli", packet_error_rate = 0.3 } }"#
        .replace('\n', " ");
    for seed in 1..=8 {
        // Nothing can come within a millisecond.
        let run = run_text(&call("nack = true, nack_within_s = 0.001", &lossy), seed, SERIES);
        let seen = run.summary.flows[0].call.as_deref().unwrap();
        assert_eq!((repairs(&run).given_up_packets, seen.key_frames), (1, 2), "{seen:?}");
        assert!(seen.freeze_s < Some(1.0), "{seen:?}");
    }
}

/// Packets that overtake others by up to 8 ms are no losses for a receiver that waits 10 ms, the default; one that does
/// not asks in vain.
#[test]
fn what_was_overtaken_is_not_asked_for() {
    let jitter = r#"middleboxes = [{ kind = "impair", jitter = "8 ms", reorder = true }]"#;
    let run = run_both_ways(&call("nack = true, max_rate = 4e6", jitter), 7);
    let found = repairs(&run);
    assert!(found.overtaken_packets > 50, "{found:?}");
    assert_eq!((found.missing_packets, found.asked_packets), (found.overtaken_packets, 0), "{found:?}");
    let run = run_both_ways(&call("nack = true, nack_wait_s = 0, max_rate = 4e6", jitter), 7);
    let hasty = repairs(&run);
    assert!(hasty.asked_packets > 50 && hasty.overtaken_packets == hasty.missing_packets, "{hasty:?}");
    assert!(hasty.overhead_share > Some(0.0) && found.overhead_share == Some(0.0), "{hasty:?}");
}

/// An outage of two seconds: what was missed is given up, and a key frame follows.
#[test]
fn an_outage_ends_with_a_picture() {
    let out = r#"handoff = { at = ["20 s"], outage = "2 s", policy = "drop" }"#;
    let run = run_both_ways(&call("nack = true", out), 6);
    let found = repairs(&run);
    assert_eq!(found.missing_packets, found.repeated_packets + found.given_up_packets, "{found:?}");
    let seen = run.summary.flows[0].call.as_deref().unwrap();
    assert!(found.given_up_packets > 0 && seen.freeze_s < Some(4.0), "{found:?} {seen:?}");
}

/// The chance that a packet of a block of `row` x `column` is here in the end if it was lost itself: over all ways in
/// which the others and the parities are lost, by hand: a parity that lacks one packet alone repairs it, until nothing
/// changes.
fn repaired_of_block((row, column): (usize, usize), loss: f64) -> f64 {
    let packets = row * column;
    let groups: Vec<Vec<usize>> = (0..column)
        .map(|y| (0..row).map(|x| y * row + x).collect())
        .chain((0..row).map(|x| (0..column).map(|y| y * row + x).collect()))
        .collect();
    let total = packets + groups.len();
    let mut chance = 0.0;
    for pattern in 0u32..1 << total {
        let lost = pattern.count_ones() as i32;
        let mut here = !pattern & ((1 << packets) - 1);
        loop {
            let before = here;
            for (group, members) in groups.iter().enumerate() {
                let absent: Vec<_> = members.iter().filter(|&&member| here >> member & 1 == 0).collect();
                if pattern >> (packets + group) & 1 == 0 && absent.len() == 1 {
                    here |= 1 << absent[0];
                }
            }
            if here == before {
                break;
            }
        }
        let repaired = (here & pattern).count_ones();
        chance += f64::from(repaired) * loss.powi(lost) * (1.0 - loss).powi(total as i32 - lost);
    }
    // Of the packets that were lost.
    chance / (packets as f64 * loss)
}

/// A row of k repairs a packet if the k - 1 others and the parity arrive, a column likewise; both together as often as
/// all ways of losing say.
#[test]
fn parities_repair_as_often_as_closed_forms_say() {
    for (seed, (loss, keys, expected)) in (1..).zip([
        (0.02, r#"fec = "row", fec_row = 5"#, 0.98f64.powi(5)),
        (0.1, r#"fec = "row", fec_row = 10"#, 0.9f64.powi(10)),
        (0.2, r#"fec = "row", fec_row = 2"#, 0.8f64.powi(2)),
        (0.1, r#"fec = "column", fec_row = 6, fec_column = 4"#, 0.9f64.powi(4)),
        (0.1, r#"fec = "both", fec_row = 3, fec_column = 3"#, repaired_of_block((3, 3), 0.1)),
        (0.3, r#"fec = "both", fec_row = 4, fec_column = 2"#, repaired_of_block((4, 2), 0.3)),
    ]) {
        // Blocks have all the time that they need.
        let keys = format!("{keys}, fec_window_s = 5");
        let run = run_text(&stream(&keys, (loss, 0.0), 480), seed, SERIES);
        let found = repairs(&run);
        assert_eq!((found.asked_packets, found.repeated_packets, found.late_packets), (0, 0, 0), "{found:?}");
        is_share(found.missing_packets, 30_000, loss);
        is_share(found.recovered_packets, found.recovered_packets + found.given_up_packets, expected);
    }
}

/// A row of 10 is an overhead of a tenth and what headers add: 1056 of 1040 B; with as many as twice the losses it
/// follows them.
#[test]
fn parities_take_their_share() {
    let overhead = |keys: &str, loss: f64| {
        let run = run_text(&stream(keys, (loss, 0.0), 240), 1, SERIES);
        repairs(&run).overhead_share.unwrap()
    };
    let share = |row: f64| 1056.0 / (1056.0 + row * 1040.0);
    assert!((overhead(r#"fec = "row", fec_row = 10"#, 0.0) - share(10.0)).abs() < 0.001);
    let adapted = r#"fec = "row", fec_row = 50, fec_adapt = 2, fec_window_s = 5"#;
    assert!((overhead(adapted, 0.0) - share(50.0)).abs() < 0.001);
    let found = overhead(adapted, 0.1);
    assert!((found - share(5.0)).abs() < 0.02, "{found}");
}

/// Losses of three in a row are more than a row repairs, and what columns of as many or more repair all.
#[test]
fn columns_repair_bursts() {
    let burst: Vec<String> =
        (0..200).flat_map(|n| (0..3).map(move |k| (100 * n + 57 + k).to_string())).collect();
    let list = format!(r#"error = {{ kind = "list", packets = [{}] }}"#, burst.join(", "));
    let lossy = stream("KEYS", (0.0, 0.0), 240).replacen(
        r#"error = { kind = "bernoulli", packet_error_rate = 0 }"#,
        &list,
        1,
    );
    let run = |keys: &str| run_text(&lossy.replace("KEYS", keys), 2, SERIES);
    let [rows, columns] = [
        r#"fec = "row", fec_row = 5, fec_window_s = 5"#,
        r#"fec = "column", fec_row = 5, fec_column = 5, fec_window_s = 5"#,
    ]
    .map(run);
    let [rows, columns] = [&rows, &columns].map(|run| *repairs(run));
    assert_eq!(columns.given_up_packets, 0, "{columns:?}");
    assert!(columns.recovered_packets > 300, "{columns:?}");
    assert!(rows.recovered_packets * 10 < rows.missing_packets, "{rows:?}");
}

/// On a long path, where NACK comes too late, a call with parities has fewer frames lost than one without, and it is
/// the encoder that gives way: the call does not send more.
#[test]
fn a_call_far_away_is_repaired_by_parities() {
    let lossy = r#"error = { kind = "bernoulli", packet_error_rate = 0.02 }"#;
    let run = |keys: &str| run_both_ways(&call(keys, lossy).replace("30 ms", "150 ms"), 8);
    let (bare, parities) = (run("nack = false"), run(r#"fec = "row", fec_row = 5"#));
    let [before, after] = [&bare, &parities].map(|run| run.summary.flows[0].call.as_deref().unwrap());
    assert!(
        after.frames_lost_share < before.frames_lost_share.map(|share| share / 3.0),
        "{before:?} {after:?}"
    );
    assert!(after.key_frames * 2 < before.key_frames, "{before:?} {after:?}");
    let found = repairs(&parities);
    assert!(found.recovered_packets * 10 > found.missing_packets * 8, "{found:?}");
    let flow = &parities.summary.flows[0];
    assert!(flow.throughput_bit_s < 1.55e6, "{flow:?}");
    assert!(flow.goodput_bit_s <= after.rate_bit_s * 1.01, "{flow:?}");
}

/// Two losses that share all their parities are given up when the last of these is here or was overtaken, long before
/// the window of two seconds ends: the picture stands still for the rest of a block and an RTT. Where the third packet
/// lost is a parity, or the burst takes a whole block of rows and columns, what comes behind shows it.
#[test]
fn what_no_parity_can_repair_is_given_up_at_once() {
    for (keys, lost) in [
        (r#"fec = "row", fec_row = 5"#, "2000, 2001"),
        (r#"fec = "row", fec_row = 5"#, "2000, 2001, 2002, 2003, 2004, 2005, 2006, 2007"),
        (r#"fec = "column", fec_row = 2, fec_column = 5"#, "2000, 2001, 2002, 2003"),
        (r#"fec = "both", fec_row = 3, fec_column = 3"#, "2000, 2001, 2002, 2003, 2004, 2005, 2006"),
        (r#"fec = "row", fec_row = 20, fec_adapt = 2"#, "2000, 2001"),
    ] {
        let list = format!(r#"error = {{ kind = "list", packets = [{lost}] }}"#);
        let run = run_both_ways(&call(&format!("{keys}, fec_window_s = 2"), &list), 3);
        let seen = run.summary.flows[0].call.as_deref().unwrap();
        let found = repairs(&run);
        assert!(found.given_up_packets >= 2 && found.late_packets == 0, "{keys}: {found:?}");
        assert!(seen.key_frames == 2 && seen.freeze_s < Some(0.6), "{keys}: {seen:?}");
    }
}

/// A parity that was overtaken may still come: what it repairs was not given up before.
#[test]
fn a_parity_may_be_overtaken() {
    let jitter = r#"middleboxes = [{ kind = "impair", jitter = "8 ms", reorder = true }],
        error = { kind = "bernoulli", packet_error_rate = 0.02 }"#
        .replace('\n', " ");
    for keys in [r#"fec = "row", fec_row = 5"#, r#"fec = "both", fec_row = 4, fec_column = 3"#] {
        let run = run_both_ways(&call(&format!("{keys}, max_rate = 4e6"), &jitter), 7);
        let found = repairs(&run);
        assert!(found.overtaken_packets > 50 && found.recovered_packets > 20, "{found:?}");
        assert_eq!(found.late_packets, 0, "{found:?}");
    }
}

/// NACK and FEC together: what one has repaired the other does not ask for.
#[test]
fn both_repair_together() {
    let lossy = r#"error = { kind = "bernoulli", packet_error_rate = 0.05 }"#;
    let run = run_both_ways(&call(r#"nack = true, fec = "both", fec_row = 4, fec_column = 4"#, lossy), 9);
    let found = repairs(&run);
    assert!(found.recovered_packets > 100 && found.repeated_packets > 5, "{found:?}");
    assert!(found.given_up_packets * 100 < found.missing_packets, "{found:?}");
    let seen = run.summary.flows[0].call.as_deref().unwrap();
    assert!(seen.frames_lost_share < Some(0.005), "{seen:?}");
}

/// A call that ends, or pauses, ends its last block as well: a parity is under way for what was sent last.
#[test]
fn the_last_block_is_protected() {
    let text = stream(r#"fec = "row", fec_row = 10"#, (0.0, 0.0), 10)
        .replace(r#"start = "0 s""#, "start = \"0 s\"\nstop = \"5 s\"");
    let run = run_text(&text, 1, SERIES);
    let flow = &run.summary.flows[0];
    let payload = flow.bytes_delivered / 1000;
    assert_eq!(flow.packets_sent, payload + payload.div_ceil(10), "{flow:?}");
}
