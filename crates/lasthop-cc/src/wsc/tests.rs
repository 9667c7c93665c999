//! The classifier of WSC-TCP, worked by hand.

use proptest::prelude::*;

use super::*;
use crate::testing::{ack, loss};

const MSS: u64 = 1000;

/// Segment `number` is the bytes `(number - 1) * MSS + 1 ..= number * MSS`.
fn start_of(number: u64) -> u64 {
    (number - 1) * MSS + 1
}

fn start(history: &[f64]) -> Start<'_> {
    Start { now: Time::ZERO, history, handshake: Span::from_millis(50), mss: MSS as u32 }
}

/// A connection that has just opened with a window of 10.
fn open(params: &Params, history: &[f64]) -> (Wsc, Window) {
    let mut wsc = Wsc::new(params);
    let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
    wsc.on_start(&start(history), &mut window);
    (wsc, window)
}

fn tell(wsc: &mut Wsc, signal: Signal) {
    wsc.on_signal(&signal, Time::ZERO);
}

fn link_ack(wsc: &mut Wsc, number: u64, retransmissions: u32, delay_ms: u64) {
    let (seq, end) = (start_of(number), start_of(number + 1));
    tell(wsc, Signal::LinkAck { seq, end, retransmissions, delay: Span::from_millis(delay_ms) });
}

fn link_retry(wsc: &mut Wsc, number: u64, attempts: u32) {
    tell(wsc, Signal::LinkRetry { seq: start_of(number), end: start_of(number + 1), attempts });
}

fn link_drop(wsc: &mut Wsc, number: u64) {
    tell(wsc, Signal::LinkDrop { seq: start_of(number), end: start_of(number + 1), attempts: 4 });
}

/// An ACK arrives that expects segment `number` next.
fn arrive(wsc: &mut Wsc, before: u64, number: u64) {
    let arrival = Arrival {
        now: Time::ZERO,
        una: start_of(before),
        ack: start_of(number),
        next: start_of(100),
        mss: MSS as u32,
        srtt: Span::ZERO,
        ece: false,
        marked: 0,
        times: None,
        first_sacked: None,
        discards: None,
        report: None,
    };
    wsc.on_arrival(&arrival, &mut Window { cwnd: 10.0, ssthresh: 5.0 });
}

/// The threshold after each of these link ACKs, and the last segment below which the link has nothing to do.
fn thresholds(params: &Params, numbers: &[u64]) -> (Vec<u32>, u64) {
    let (mut wsc, _) = open(params, &[]);
    let mut list = Vec::new();
    for &number in numbers {
        link_ack(&mut wsc, number, 0, 0);
        // Of a segment of which the link has said nothing.
        list.push(wsc.dup_threshold(start_of(50), 3));
    }
    (list, wsc.link.settled / MSS)
}

fn with(threshold: Threshold) -> Params {
    Params { threshold, ..Params::default() }
}

/// TV-7.1 and TV-7.2.
#[test]
fn the_threshold_counts_what_overtook_the_first_pending_segment() {
    for params in [Threshold::Listing, Threshold::Pending, Threshold::Overtakers].map(with) {
        let one_hole = thresholds(&params, &[1, 2, 3, 5, 6, 7, 4]);
        assert_eq!(one_hole, (vec![3, 3, 3, 4, 5, 6, 3], 7));
        let two_holes = thresholds(&params, &[1, 2, 3, 5, 7, 4]);
        assert_eq!(two_holes, (vec![3, 3, 3, 4, 5, 4], 5));
        let filled = thresholds(&params, &[1, 2, 3, 5, 7, 4, 6]);
        assert_eq!(filled, (vec![3, 3, 3, 4, 5, 4, 3], 7));
    }
}

/// TV-7.3: the listing counts pending segments among the overtakers.
#[test]
fn the_listing_counts_other_holes_too() {
    let numbers = [1, 2, 3, 5, 9, 4];
    assert_eq!(thresholds(&Params::default(), &numbers).0[3..], [4, 5, 6], "the default is the thesis'");
    assert_eq!(thresholds(&with(Threshold::Pending), &numbers).0[3..], [4, 5, 4]);
}

/// 4 is repeated while 5 to 8 pass: their duplicates come a round trip later.
#[test]
fn a_delivered_segment_keeps_its_threshold() {
    for (threshold, expected) in
        [(Threshold::Overtakers, 7), (Threshold::Pending, 3), (Threshold::Listing, 3)]
    {
        let (mut wsc, _) = open(&with(threshold), &[]);
        for number in [1, 2, 3, 5, 6, 7, 8] {
            link_ack(&mut wsc, number, 0, 0);
        }
        assert_eq!(wsc.dup_threshold(start_of(4), 3), 7, "while the link repeats it");
        link_ack(&mut wsc, 4, 1, 0);
        assert_eq!(wsc.dup_threshold(start_of(4), 3), expected);
        assert_eq!(wsc.dup_threshold(start_of(9), 3), 3, "nothing else was overtaken");
    }
}

/// 4 never came to the link: a failed attempt would be known 10 ms after the link has delivered 5. A segment that
/// the link repeats is one on which it has spoken.
#[test]
fn a_segment_that_the_link_passes_over_in_silence_was_lost_before_it() {
    for threshold in [Threshold::Listing, Threshold::Pending, Threshold::Overtakers] {
        for (link_silence, retried, later) in [(true, false, 3), (true, true, 6), (false, false, 6)] {
            let params = Params { link_timeout: 0.01, link_silence, ..with(threshold) };
            let (mut wsc, _) = open(&params, &[]);
            for number in [1, 2, 3, 5, 6, 7] {
                link_ack(&mut wsc, number, 0, 0);
            }
            if retried {
                link_retry(&mut wsc, 4, 1);
            }
            wsc.now = Time::ZERO + Span::from_millis(10);
            assert_eq!(wsc.dup_threshold(start_of(4), 3), 6, "it may have failed");
            wsc.now += Span::from_millis(1);
            assert_eq!(wsc.dup_threshold(start_of(4), 3), later, "{threshold:?}");
            // TCP sends it again, the link delivers it; the next hole is another one.
            link_ack(&mut wsc, 4, 0, 0);
            link_ack(&mut wsc, 9, 0, 0);
            let last = wsc.dup_threshold(start_of(8), 3);
            assert!(last >= 4, "{threshold:?}: {last}");
        }
    }
}

#[test]
fn a_dropped_segment_is_lost_at_the_first_duplicate() {
    let params = Params { on_link_drop: OnLinkDrop::FirstDuplicate, ..with(Threshold::Overtakers) };
    let (mut wsc, window) = open(&params, &[]);
    for number in [1, 2, 3, 5, 6, 7] {
        link_ack(&mut wsc, number, 0, 0);
    }
    link_drop(&mut wsc, 4);
    assert_eq!(wsc.dup_threshold(start_of(4), 3), 1);
    assert_eq!(wsc.dup_threshold(start_of(8), 3), 3);
    arrive(&mut wsc, 1, 4);
    let kept = Reduction::none(&window, f64::INFINITY).taken_for(LossKind::Wireless);
    assert_eq!(wsc.on_loss(&loss(10.0), &window), kept, "the link said what it was");
    // TCP sends it again and the link delivers it.
    link_ack(&mut wsc, 4, 0, 0);
    assert_eq!(wsc.dup_threshold(start_of(4), 3), 6, "three had overtaken it");
    assert_eq!(wsc.on_loss(&loss(10.0), &window).taken_for, Some(LossKind::Congestion));
}

/// By default it is sent again at once, and the duplicates of the 96 segments behind it say nothing new.
#[test]
fn a_dropped_segment_is_sent_again_at_once() {
    let (mut wsc, window) = open(&Params::default(), &[]);
    arrive(&mut wsc, 1, 3);
    link_drop(&mut wsc, 3);
    assert!(wsc.resends_given_up());
    let kept = Reduction::none(&window, f64::INFINITY).taken_for(LossKind::Wireless);
    assert_eq!(wsc.on_loss(&loss(10.0), &window), kept);
    for number in [4, 5, 6, 7, 3] {
        link_ack(&mut wsc, number, 0, 0);
    }
    assert_eq!(wsc.dup_threshold(start_of(3), 3), 3 + 96);
    assert_eq!(wsc.on_loss(&loss(10.0), &window).taken_for, Some(LossKind::Congestion), "another loss");
    let off = Params { on_link_drop: OnLinkDrop::Nothing, ..Params::default() };
    let (mut wsc, window) = open(&off, &[]);
    link_drop(&mut wsc, 1);
    assert_eq!(wsc.dup_threshold(start_of(1), 3), 3);
    assert_eq!(wsc.on_loss(&loss(10.0), &window).taken_for, Some(LossKind::Congestion));
}

#[test]
fn without_the_switch_the_threshold_stays() {
    let (mut wsc, _) = open(&Params { link_threshold: false, ..Params::default() }, &[]);
    for number in [2, 3, 4] {
        link_ack(&mut wsc, number, 0, 0);
    }
    link_drop(&mut wsc, 1);
    assert_eq!(wsc.dup_threshold(start_of(1), 3), 3);
}

fn ms(span: Option<Span>) -> Option<u64> {
    span.map(|span| span.0 / 1_000_000)
}

fn first_mechanism() -> Params {
    Params { clusters: false, link_threshold: false, ..Params::default() }
}

/// 40 ms of path and 10 ms a retransmission: 60 - 2 * 10 = 40; the exact delay of 17 ms leaves 43; and what
/// would leave less than the minimum RTT seen is stopped there.
#[test]
fn samples_are_corrected() {
    let (mut wsc, _) = open(&first_mechanism(), &[]);
    tell(&mut wsc, Signal::LinkTimeout { timeout: Span::from_millis(10) });
    let mut sample = |number: u64, n: u32, delay: u64, rtt: u64| {
        arrive(&mut wsc, number, number + 1);
        link_ack_before(&mut wsc, number, n, delay);
        ms(wsc.filter_rtt(Span::from_millis(rtt), start_of(number + 1), Time::ZERO))
    };
    assert_eq!(sample(1, 0, 0, 40), Some(40));
    assert_eq!(sample(2, 2, 0, 60), Some(40));
    assert_eq!(sample(3, 2, 17, 60), Some(43));
    assert_eq!(sample(4, 3, 0, 45), Some(40), "not below the minimum RTT");
    assert_eq!(sample(5, 0, 0, 55), Some(55), "congestion stays");
}

/// A report that came before the ACK of its segment.
fn link_ack_before(wsc: &mut Wsc, number: u64, retransmissions: u32, delay_ms: u64) {
    let una = std::mem::take(&mut wsc.una);
    link_ack(wsc, number, retransmissions, delay_ms);
    wsc.una = una;
}

/// One ACK for 1 to 3, of which the link repeated 2: the sample is that of one of them, and only what its own
/// retransmissions took is taken from it.
#[test]
fn the_delay_is_that_of_the_segment_that_was_timed() {
    let (mut wsc, _) = open(&Params { link_timeout: 0.01, ..first_mechanism() }, &[]);
    assert_eq!(ms(wsc.filter_rtt(Span::from_millis(30), 1, Time::ZERO)), Some(30));
    for (number, n) in [(1, 0), (2, 2), (3, 0), (4, 5)] {
        link_ack(&mut wsc, number, n, 0);
    }
    arrive(&mut wsc, 1, 4);
    for (number, expected) in [(1, 60), (2, 40), (3, 60)] {
        let end = start_of(number + 1);
        assert_eq!(ms(wsc.filter_rtt(Span::from_millis(60), end, Time::ZERO)), Some(expected), "{number}");
    }
}

/// The armed timer is longer by 10 ms for each retransmission: of the oldest segment while it is pending, of any
/// in this round trip and the last.
#[test]
fn the_timer_is_extended() {
    let (mut wsc, mut window) = open(&Params { link_timeout: 0.01, ..first_mechanism() }, &[]);
    let extension = |wsc: &Wsc| wsc.timer_extension().0 / 1_000_000;
    assert_eq!(extension(&wsc), 0);
    link_retry(&mut wsc, 2, 1);
    assert_eq!(extension(&wsc), 0, "not the oldest");
    link_retry(&mut wsc, 1, 1);
    link_retry(&mut wsc, 1, 2);
    assert_eq!(extension(&wsc), 20);
    link_ack(&mut wsc, 1, 3, 0);
    assert_eq!(extension(&wsc), 30, "recent");
    for (una, expected) in [(2, 30), (5, 30), (20, 0)] {
        let sample = AckSample { una: start_of(una), next: start_of(4 * una), ..ack(1) };
        wsc.on_ack(&sample, &mut window);
        if una == 20 {
            wsc.link.forget(start_of(una));
        }
        assert_eq!(extension(&wsc), expected, "una {una}");
    }
}

/// TV-7.4, and the default: all of the median.
#[test]
fn a_best_start_takes_the_median_or_half_of_it() {
    let history = [18.0, 22.0, 20.0, 40.0];
    let (wsc, window) = open(&Params { best_factor: 0.5, ..Params::default() }, &history);
    assert_eq!(window, Window { cwnd: 10.0, ssthresh: 21.0 });
    assert_eq!(wsc.pacing_rate(), Some(200.0), "ten segments in 50 ms");
    let (wsc, window) = open(&Params::default(), &[]);
    assert_eq!((window.cwnd, window.ssthresh, wsc.pacing_rate()), (10.0, f64::INFINITY, None));
    let (_, window) = open(&Params::default(), &history[..2]);
    assert_eq!(window.ssthresh, f64::INFINITY, "two are too few");
    let (_, window) = open(&Params::default(), &history);
    assert_eq!(window, Window { cwnd: 21.0, ssthresh: 21.0 });
    let (_, window) = open(&Params::default(), &[500.0; 3]);
    assert_eq!(window, Window { cwnd: 65.0, ssthresh: 500.0 }, "64 KB");
    let (_, window) = open(&Params { best_start: false, ..Params::default() }, &history);
    assert_eq!(window.ssthresh, f64::INFINITY);
}

/// W0 = 40 of which 36 are out: T = 18, W = 10. After the first window a loss halves as ever.
#[test]
fn a_loss_in_the_first_window_retreats() {
    let (mut wsc, window) = open(&Params::default(), &[40.0; 3]);
    let mut later = wsc.clone();
    let congestion = LossKind::Congestion;
    assert_eq!(wsc.on_loss(&loss(36.0), &window), Reduction::to(18.0, 10.0).taken_for(congestion));
    assert_eq!(wsc.pacing_rate(), None);
    let mut grown = window;
    let sample = |una, next| AckSample { una: start_of(una), next: start_of(next), ..ack(1) };
    later.on_ack(&sample(2, 40), &mut grown);
    assert!(later.pacing_rate().is_some(), "segment 40 has not been sent");
    later.on_ack(&sample(40, 41), &mut grown);
    assert_eq!(later.pacing_rate(), None);
    assert!(later.first_window.is_some(), "segment 40 is still out");
    later.on_ack(&sample(41, 80), &mut grown);
    assert_eq!(later.on_loss(&loss(36.0), &grown), Reduction::to(18.0, 18.0).taken_for(congestion));
}

const VECTOR: [u64; 15] = [100, 102, 98, 101, 99, 100, 600, 605, 598, 603, 350, 101, 99, 1102, 1098];

/// TV-7.5.
#[test]
fn clusters_at_multiples_of_the_link_delay_are_moved_back() {
    let mut clusters = Clusters::new(0.5);
    for sample in VECTOR {
        assert_eq!(clusters.add(sample as f64 / 1000.0), Verdict::Keep, "too few to cluster");
    }
    clusters.cluster();
    let found: Vec<(f64, u32)> = (0..clusters.count)
        .map(|index| ((clusters.centroids[index] * 1e4).round() / 10.0, clusters.sizes[index]))
        .collect();
    assert_eq!(found, [(100.0, 8), (350.0, 1), (601.5, 4), (1100.0, 2)]);
    let verdicts: Vec<Verdict> = (0..clusters.count).map(|index| clusters.judge(index)).collect();
    let expected = [Verdict::Keep, Verdict::Drop, Verdict::Retransmitted(1.0), Verdict::Retransmitted(2.0)];
    assert_eq!(verdicts, expected);
}

/// The same through the whole filter: with the sixteenth sample on, 603 ms count as 103 and 350 ms not at all.
#[test]
fn the_filter_uses_the_clusters() {
    let (mut wsc, _) = open(&Params::default(), &[]);
    let mut filter = |rtt: u64| ms(wsc.filter_rtt(Span::from_millis(rtt), 1, Time::ZERO));
    assert!(VECTOR.iter().all(|&rtt| filter(rtt) == Some(rtt)));
    assert_eq!(filter(603), Some(103));
    assert_eq!(filter(350), None, "a transient");
    assert_eq!(filter(1098), Some(98));
    assert_eq!(filter(101), Some(101));
    assert_eq!(filter(360), Some(360), "three of them are a level");
    assert_eq!(filter(1700), None, "alone");
    assert_eq!(wsc.timer_extension(), Span::from_millis(1000), "what was taken is added to the timer");
}

#[test]
fn holding_back_is_a_mode() {
    let (wsc, _) = open(&Params { wsc_delay: true, ..Params::default() }, &[]);
    assert_eq!(wsc.retransmit_delay(), Some(Span::from_millis(500)));
    assert_eq!(open(&Params::default(), &[]).0.retransmit_delay(), None);
}

#[test]
fn nothing_is_asked_for_when_all_is_off() {
    let off = Params {
        link_rtt: false,
        link_threshold: false,
        best_start: false,
        clusters: false,
        ..Params::default()
    };
    assert!(Wsc::new(&off).needs().is_plain());
}

proptest! {
    /// Whatever the link says, the closed form agrees with a count over all segments, memory stays bounded, and
    /// nothing overflows.
    #[test]
    fn the_count_agrees_with_a_plain_one(
        steps in prop::collection::vec((0u8..5, 1u64..40, 0u32..5), 1..200), listing in any::<bool>(),
    ) {
        let threshold = if listing { Threshold::Listing } else { Threshold::Pending };
        let (mut wsc, _) = open(&with(threshold), &[]);
        // The link's last word on each segment: delivered, dropped or neither.
        let mut last = [State::Pending; 60];
        let mut una = 1;
        for (kind, number, n) in steps {
            let heard = number >= una;
            match kind {
                0 | 1 => {
                    link_ack(&mut wsc, number, n, 0);
                    if heard {
                        last[number as usize] = State::Delivered;
                    }
                }
                2 => link_retry(&mut wsc, number, n),
                3 if last[number as usize] != State::Delivered => {
                    link_drop(&mut wsc, number);
                    if heard {
                        last[number as usize] = State::Dropped;
                    }
                }
                4 if number > una => {
                    arrive(&mut wsc, una, number);
                    una = number;
                }
                _ => {}
            }
            let settled = wsc.link.settled;
            prop_assert!(settled >= start_of(una));
            let above = (1..60).filter(|&number| {
                last[number as usize] == State::Delivered && start_of(number) >= settled
            });
            prop_assert_eq!(wsc.link.above, above.count() as u32);
            prop_assert!(wsc.dup_threshold(start_of(una), 3) >= 1);
            prop_assert!(wsc.link.reports.len() <= 40);
            prop_assert!(wsc.filter_rtt(Span::from_millis(50), start_of(una), Time::ZERO).is_some());
        }
    }

    /// Samples of any kind: the filter never makes an RTT longer, nor shorter than the least.
    #[test]
    fn the_filter_stays_between_the_least_and_the_sample(
        samples in prop::collection::vec(1u64..3_000_000_000, 1..300),
    ) {
        let (mut wsc, _) = open(&Params::default(), &[]);
        let mut least = u64::MAX;
        for sample in samples {
            least = least.min(sample);
            if let Some(rtt) = wsc.filter_rtt(Span(sample), 1, Time::ZERO) {
                prop_assert!((least..=sample).contains(&rtt.0));
            }
        }
    }
}

/// A link that reports and a receiver that never answers: the memory has a bound.
#[test]
#[cfg_attr(miri, ignore = "20,000 reports take minutes")]
fn memory_is_bounded() {
    let (mut wsc, _) = open(&Params::default(), &[]);
    for number in 0..20_000 {
        link_ack(&mut wsc, 2 * number + 2, 0, 0);
    }
    assert_eq!(wsc.link.reports.len(), MOST_REPORTS);
}

#[test]
fn median_of_even_and_odd() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[40.0, 18.0, 22.0, 20.0]), 21.0);
}
