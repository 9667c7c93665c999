//! Senders that listen to the radio, on the radio's own signals: a signal alone, with the same channel, changes what
//! they take losses for.

use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, run_text};

/// A station near its access point, and behind that a wire of 3 Mbit/s with this queue.
fn cell(keys: &str, queue: u32, flow: &str) -> Run {
    cell_of(keys, queue, flow, 1)
}

fn cell_of(keys: &str, queue: u32, flow: &str, seed: u64) -> Run {
    run_text(
        &format!(
            "duration = \"60 s\"\n[topology]\nkind = \"wlan\"\nstations = 1\n\
             wire = {{ rate = \"3 Mbit/s\", delay = \"20 ms\", queue = {{ kind = \"drop-tail\", limit = \"{queue} \
             packets\" }} }}\n[topology.cell]\n{keys}\n[tcp]\nreceiver_window = \"60 packets\"\n\
             [[flows]]\nstart = \"0 s\"\n{flow}\n"
        ),
        seed,
        SUMMARY,
    )
}

/// Losses taken for congestion, and for errors, whatever they were.
fn beliefs(run: &Run) -> (u64, u64) {
    let verdicts = run.summary.flows[0].loss_verdicts.unwrap();
    let rows = [verdicts.congestion, verdicts.wireless, verdicts.nothing];
    (rows.iter().map(|row| row.congestion).sum(), rows.iter().map(|row| row.wireless).sum())
}

const LOSSY: &str = "error = { kind = \"bernoulli\", packet_error_rate = 0.15 }";

/// A fifth of the attempts fail and the MAC repairs them all; what is lost is lost on the wire. A sender that counts
/// its MAC's failed attempts takes every loss for an error, one that counts frames which were given up none.
#[test]
fn xjtcp_and_the_unit_of_a_discard() {
    let flow = "transport = { preset = \"xjtcp\", discard_source = \"mac\" }";
    let believed = |discards: &str| beliefs(&cell(&format!("{LOSSY}\ndiscards = {discards}"), 12, flow));
    let (attempts, frames) = (believed("\"attempts\""), believed("\"frames\""));
    assert!(attempts.1 > 9 * attempts.0 && attempts.1 >= 10, "{attempts:?}");
    assert!(frames.0 > 2 * frames.1 && frames.0 >= 10, "{frames:?}");
    let unasked = believed("\"received\"");
    assert!(unasked.0 > 2 * unasked.1, "the sender's own MAC is not asked: {unasked:?}");
}

/// The access point misses what an announced rate would have made: a rate far above the sender's own looks like a bad
/// channel, one below it like a good one.
#[test]
fn xjtcp_and_the_announced_rate() {
    let flow = "transport = { preset = \"xjtcp\", discard_source = \"mac\" }";
    let believed = |rate: &str| {
        let estimate = format!("{{ interval = \"100 ms\", rate = \"{rate}\", size = \"1500 B\" }}");
        beliefs(&cell(&format!("discards = {estimate}"), 12, flow))
    };
    let (above, below) = (believed("6 Mbit/s"), believed("500 kbit/s"));
    assert!(above.1 > 9 * above.0 && above.1 >= 10, "{above:?}");
    assert!(below.0 > 2 * below.1 && below.0 >= 10, "{below:?}");
}

/// Downward the receiving host counts the corrupt frames that it hears, and echoes their number in an option.
#[test]
fn xjtcp_and_what_the_receiver_hears() {
    let flow = "direction = \"reverse\"\ntransport = \"xjtcp\"";
    let believed = |discards: &str| beliefs(&cell(&format!("{LOSSY}\ndiscards = \"{discards}\""), 12, flow));
    let (heard, unheard) = (believed("received"), believed("attempts"));
    assert!(heard.1 > 9 * heard.0 && heard.1 >= 10, "{heard:?}");
    assert!(unheard.0 > 2 * unheard.1 && unheard.0 >= 10, "{unheard:?}");
}

/// The same cell at another power, with thresholds that follow it: nothing changes but the strength that is heard.
/// Where it is near the noise, losses behind the MAC are explained by it.
#[test]
fn venoplus_and_the_strength_of_the_signal() {
    let flow = "transport = { preset = \"venoplus\", signal = \"rssi\" }";
    let believed = |power: f64| {
        let thresholds = format!(
            "tx_power = {power:?}\nreceive_threshold = {:?}\nsense_threshold = {:?}\n",
            power - 89.0,
            power - 102.0
        );
        let error = "error = { kind = \"bernoulli\", packet_error_rate = 0.01, position = \"after-arq\" }";
        beliefs(&cell(&format!("{thresholds}{error}"), 60, flow))
    };
    // Over ten metres 51.7 dB are lost: -27 dBm, and -99 dBm, 5 dB below the noise.
    let (strong, weak) = (believed(24.5), believed(-47.5));
    assert_eq!(strong.1, 0, "{strong:?}");
    assert!(strong.0 >= 10 && weak.1 > 4 * weak.0, "{strong:?} {weak:?}");
}

/// A segment that its MAC has repeated took longer than the path does: without the link's reports the retransmission
/// timer rings for it now and then.
#[test]
fn wsc_and_the_reports_of_the_link() {
    let lossy = "error = { kind = \"bernoulli\", packet_error_rate = 0.6 }\nshort_retry_limit = 20";
    let timeouts = |mechanism: &str| -> u64 {
        let off = "link_threshold = false, best_start = false, clusters = false";
        let flow = format!("transport = {{ preset = \"wsc\", link_rtt = {mechanism}, {off} }}");
        let runs = (1..=20).map(|seed| cell_of(lossy, 60, &flow, seed));
        runs.map(|run| {
            let radios = run.summary.links.iter().filter_map(|link| link.radio.as_ref());
            assert!(radios.map(|radio| radio.retries).max() > Some(100));
            run.summary.flows[0].timeouts.unwrap()
        })
        .sum()
    };
    let (with, without) = (timeouts("true"), timeouts("false"));
    assert!(with * 3 < without && without >= 5, "{with} {without}");
}
