//! Vectors of BBRv3, worked by hand from the rules of the draft, and its state machine step by step.

use super::*;

/// A path of 10 Mbit/s for packets of 1500 B (833.33 segments/s) and 40 ms.
const RATE: f64 = 10e6 / 12_000.0;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn started() -> (Bbr3, Window) {
    let mut bbr = Bbr3::new(&Params::default());
    let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
    let start = Start { now: Time::ZERO, history: &[], handshake: Span::from_millis(40), mss: 1448 };
    bbr.on_start(&start, &mut window);
    (bbr, window)
}

/// A sender that has measured the path and is in `state`.
fn measured(state: State) -> (Bbr3, Window) {
    let (mut bbr, mut window) = started();
    bbr.max_rate.insert(0, RATE);
    bbr.rate = RATE;
    bbr.min_rtt = 0.04;
    bbr.recent_rtt = 0.04;
    bbr.full_reached = true;
    bbr.full_now = true;
    bbr.next_round = u64::MAX;
    bbr.loss_round = u64::MAX;
    bbr.probe_wait = 1000.0;
    bbr.product(1.0);
    bbr.enter(state);
    window.cwnd = 66.0;
    (bbr, window)
}

/// An ACK of one segment within a round that shows the rate and the RTT of the path.
fn sample(now: Time) -> RateSample {
    RateSample {
        now,
        rate: Some((100, Span::from_seconds(100.0 / RATE))),
        app_limited: false,
        prior_delivered: 966,
        delivered: 1000,
        acked: 1,
        lost: 0,
        prior_flight: 35,
        flight: 34,
        rtt: Some(Span::from_millis(40)),
        maybe_delayed: false,
        srtt: Span::from_millis(40),
        recovery: None,
        mss: 1448,
        tx_in_flight: 34,
        lost_since: 0,
        held_back: Span::ZERO,
        window_limited: true,
        selective: true,
    }
}

/// A sample that starts a round and a loss round, with this rate in segments per second.
fn round(bbr: &mut Bbr3, rate: u64, now: Time) -> RateSample {
    bbr.next_round = 0;
    bbr.loss_round = 0;
    RateSample { rate: Some((rate, Span::from_secs(1))), ..sample(now) }
}

fn lost(lost_since: u32, tx_in_flight: u32) -> LostSegment {
    LostSegment {
        now: at(100),
        seq: 0,
        end: 1448,
        tx_in_flight,
        lost_since,
        prior_delivered: 900,
        delivered: 1000,
        app_limited: false,
        selective: true,
    }
}

fn close(value: f64, expected: f64, unit: f64) {
    assert!((value - expected).abs() <= unit / 2.0, "{value} is not {expected}");
}

/// TV-24.1: baselines 100, 200, 400; then 480, 490 and 495 are three rounds with less than a quarter more. A round in
/// which the application was slow counts nothing.
#[test]
fn startup_ends_when_the_rate_stops_growing() {
    let (mut bbr, mut window) = started();
    close(bbr.pacing, 692.5, 1e-9);
    for (number, rate) in [100, 200, 400, 480, 490].into_iter().enumerate() {
        let sample = round(&mut bbr, rate, at(40 * number as u64 + 40));
        bbr.on_rate(&sample, &mut window);
        let idle = RateSample { app_limited: true, ..round(&mut bbr, 50, at(40 * number as u64 + 41)) };
        bbr.on_rate(&idle, &mut window);
        assert_eq!(bbr.state, State::Startup, "{rate}");
    }
    assert_eq!((bbr.full_rate, bbr.full_count), (400.0, 2));
    let sample = RateSample { flight: 90, ..round(&mut bbr, 495, at(250)) };
    bbr.on_rate(&sample, &mut window);
    assert_eq!((bbr.full_now, bbr.full_reached, bbr.state), (true, true, State::Drain));
    assert_eq!(bbr.max_rate.max, 495.0);
    close(bbr.pacing, 0.99 * 0.5 * 495.0, 1e-9);
}

/// TV-24.2: 33.33 segments fill the path, and the gains of each state of the cycle.
#[test]
fn pace_and_window_of_a_known_path() {
    let paces = [
        (State::Cruise, 825.0, 66.67),
        (State::Up, 1031.25, 77.0),
        (State::Down, 742.5, 66.67),
        (State::Refill, 825.0, 66.67),
    ];
    for (state, pace, most) in paces {
        let (mut bbr, _) = measured(state);
        bbr.set_pacing(bbr.pacing_gain);
        close(bbr.pacing, pace, 1e-6);
        assert_eq!(bbr.quantum(), 2.0);
        let gain = bbr.cwnd_gain;
        close(bbr.inflight(gain), most, 0.01);
    }
    let (mut bbr, _) = measured(State::ProbeRtt);
    close(bbr.visit_window(), 16.67, 0.01);
}

/// TV-24.3: where 2 % of what was in flight was lost. The last of `size` segments of the draft is one segment here.
#[test]
fn the_flight_at_which_losses_passed_the_threshold() {
    let (bbr, _) = measured(State::Up);
    close(bbr.flight_at_loss(3, 100), 98.9796, 0.0001);
    assert!(!bbr.is_too_high(2, 100, true), "2 % are not more than 2 %");
    assert!(bbr.is_too_high(3, 100, true));
    assert!(bbr.is_too_high(1, 100, false), "without SACK any is too much");
}

/// TV-24.4: the bounds fall to what the last round delivered, at most by 30 %.
#[test]
fn losses_while_cruising_lower_the_short_term_bounds() {
    let (mut bbr, mut window) = measured(State::Cruise);
    bbr.max_rate = CycleMax { cycle: 0, present: 800.0, before: 0.0, max: 800.0 };
    bbr.rate = 800.0;
    for (latest, bound) in [(700.0, 700.0), (300.0, 490.0)] {
        bbr.on_lost_segment(&lost(1, 34), &window);
        bbr.latest_rate = latest;
        bbr.latest_flight = 10.0;
        let sample = RateSample { rate: None, ..round(&mut bbr, 1, at(100)) };
        bbr.on_rate(&sample, &mut window);
        close(bbr.rate_short, bound, 1e-9);
        assert_eq!((bbr.rate, bbr.lost_in_round), (bbr.rate_short, false));
        bbr.latest_rate = 0.0;
    }
    assert_eq!(bbr.flight_short, 34.0, "delivered in the round; 0.49 of 66 are 32.3");
    let (mut bbr, mut window) = measured(State::Refill);
    bbr.on_lost_segment(&lost(1, 34), &window);
    let sample = round(&mut bbr, 800, at(100));
    bbr.on_rate(&sample, &mut window);
    assert!(bbr.rate_short.is_infinite(), "not while probing");
}

/// TV-24.5: with a window of 64 that is used in full, a window of acknowledgements adds 1, 2, 4 and 8 segments.
#[test]
fn the_long_term_bound_grows_exponentially_in_a_probe() {
    let (mut bbr, mut window) = measured(State::Up);
    window.cwnd = 64.0;
    bbr.raise_slope(&window);
    bbr.flight_long = 60.0;
    for growth in [1.0, 2.0, 4.0, 8.0] {
        close(bbr.acked_per_growth, 64.0 / growth, 1e-9);
        let before = bbr.flight_long;
        let mut seen = seen(&bbr);
        seen.window_limited = true;
        bbr.round_start = false;
        for _ in 0..64 {
            window.cwnd = window.cwnd.max(bbr.flight_long);
            bbr.grow_long_term(&seen, &window);
        }
        assert_eq!(bbr.flight_long - before, growth);
        window.cwnd = 64.0;
        bbr.raise_slope(&window);
    }
}

fn seen(bbr: &Bbr3) -> Seen {
    Seen {
        now: at(100),
        rate: RATE,
        delivered: 34.0,
        prior_delivered: bbr.delivered,
        app_limited: false,
        acked: 1.0,
        lost: 0,
        flight: 34.0,
        rtt: None,
        tx_in_flight: 34,
        lost_since: 0,
        window_limited: false,
        selective: true,
    }
}

/// TV-24.6: at 1000 segments/s, 20 acknowledged at once every 20 ms are 20 too early.
#[test]
fn bursts_of_acks_raise_the_window() {
    let (mut bbr, mut window) = measured(State::Cruise);
    bbr.rate = 1000.0;
    bbr.max_rate.insert(0, 1000.0);
    for burst in 1..10 {
        bbr.on_rate(&RateSample { acked: 20, ..sample(at(20 * burst)) }, &mut window);
    }
    assert_eq!(bbr.excess.max(), 20.0);
    close(window.cwnd, 2.0 * 40.0 + 20.0, 1e-9);
}

/// TV-24.7: 15 % of the long-term bound stay free, at least a segment, and four are always allowed.
#[test]
fn headroom_while_cruising() {
    let (mut bbr, _) = measured(State::Cruise);
    for (bound, target) in [(50.0, 42.5), (5.0, 4.0), (4.0, 4.0), (f64::INFINITY, f64::INFINITY)] {
        bbr.flight_long = bound;
        assert_eq!(bbr.with_headroom(), target);
    }
}

/// TV-24.8: a probe with too many losses ends at once, the bound is what was in flight or 70 % of the target, and the
/// next probe is precautionary.
#[test]
fn losses_end_a_probe() {
    let (mut bbr, window) = measured(State::Up);
    bbr.is_probe_sample = true;
    bbr.on_lost_segment(&lost(2, 100), &window);
    assert_eq!(bbr.state, State::Up);
    bbr.on_lost_segment(&lost(3, 100), &window);
    assert_eq!((bbr.state, bbr.is_probe_sample, bbr.too_high_before), (State::Down, false, true));
    close(bbr.flight_long, 98.9796, 0.0001);
    bbr.on_lost_segment(&lost(30, 100), &window);
    close(bbr.flight_long, 98.9796, 0.0001);
    assert_eq!(bbr.saved.state, Some(State::Up));
    // A bound is not taken from a flight that the application had chosen.
    let (mut bbr, window) = measured(State::Up);
    bbr.is_probe_sample = true;
    bbr.on_lost_segment(&LostSegment { app_limited: true, ..lost(3, 100) }, &window);
    assert_eq!((bbr.state, bbr.flight_long), (State::Down, f64::INFINITY));
}

/// What was lowered for a loss that there was not returns, and the probe is made again.
#[test]
fn spurious_losses_are_undone() {
    let (mut bbr, window) = measured(State::Up);
    bbr.flight_long = 200.0;
    bbr.is_probe_sample = true;
    let before = bbr.clone();
    bbr.on_lost_segment(&lost(3, 100), &window);
    let loss = LossSample { now: at(100), flight: 66.0, retransmitted: false, truth: None };
    let reduction = bbr.on_loss(&loss, &window);
    assert_eq!((reduction.cwnd, bbr.state), (66.0, State::Down));
    close(bbr.flight_long, 98.9796, 0.0001);
    bbr.on_undo(before);
    assert_eq!((bbr.state, bbr.flight_long), (State::Refill, 200.0));
    // The path is refilled for a whole round trip. The ACK that showed it may deliver a segment that was sent after all
    // that had been delivered by then, as after an outage, and begins none.
    bbr.delivered = 1000;
    bbr.next_round = 1000;
    let mut window = window;
    let ack = RateSample { prior_delivered: 1000, delivered: 1030, ..sample(at(200)) };
    bbr.on_rate(&ack, &mut window);
    assert_eq!((bbr.state, bbr.next_round), (State::Refill, 1030));
    bbr.on_rate(&RateSample { prior_delivered: 1030, delivered: 1031, ..sample(at(240)) }, &mut window);
    assert_eq!(bbr.state, State::Up);
}

/// After five seconds without a lower RTT: half the product for 200 ms and a round trip, then cruising.
#[test]
fn the_empty_path_is_visited_every_five_seconds() {
    let (mut bbr, mut window) = measured(State::Cruise);
    bbr.on_rate(&sample(at(5000)), &mut window);
    assert_eq!(bbr.state, State::Cruise);
    bbr.on_rate(&sample(at(5001)), &mut window);
    assert_eq!((bbr.state, bbr.cwnd_gain), (State::ProbeRtt, 0.5));
    close(window.cwnd, 16.67, 0.01);
    let low = |now| RateSample { flight: 16, delivered: 1016, ..sample(at(now)) };
    bbr.on_rate(&low(5041), &mut window);
    bbr.on_rate(&low(5240), &mut window);
    assert_eq!(bbr.state, State::ProbeRtt, "199 ms");
    bbr.next_round = 0;
    bbr.on_rate(&low(5242), &mut window);
    assert_eq!(bbr.state, State::Cruise);
    assert!((66.0..69.0).contains(&window.cwnd), "restored: {}", window.cwnd);
    assert_eq!(bbr.recent_rtt_at, at(5242));
    // Idleness is as good.
    let (mut bbr, mut window) = measured(State::Cruise);
    bbr.on_idle(Span::from_secs(6), at(6000));
    close(bbr.pacing, 825.0, 1e-6);
    bbr.on_rate(&sample(at(6040)), &mut window);
    assert_eq!((bbr.state, bbr.idle_restart), (State::Cruise, false));
}

/// The greatest rate is that of this cycle and of the one before.
#[test]
fn the_rate_of_two_cycles_counts() {
    let mut filter = CycleMax::default();
    filter.insert(0, 100.0);
    filter.insert(1, 50.0);
    assert_eq!(filter.max, 100.0);
    filter.insert(2, 40.0);
    assert_eq!(filter.max, 50.0);
    filter.insert(9, 30.0);
    assert_eq!(filter.max, 30.0);
}

/// Waits differ from cycle to cycle and lie between two and three seconds; the same cycle waits alike.
#[test]
fn waits_are_drawn_from_time_and_deliveries() {
    let (mut bbr, _) = measured(State::Up);
    let mut sum = 0.0;
    for number in 0..1000 {
        bbr.delivered = number * 37;
        bbr.start_down(at(number * 11));
        let wait = bbr.probe_wait;
        assert!((2.0..3.0).contains(&wait) && bbr.rounds_since_probe <= 1);
        bbr.start_down(at(number * 11));
        assert_eq!(bbr.probe_wait, wait);
        sum += wait;
    }
    close(sum / 1000.0, 2.5, 0.06);
}
