//! What every registered controller must keep to, whatever its law: the window stays a window.
//!
//! A new line in `controllers!` is tested here without further ado. The tests stand in for a sender: they call every
//! hook that the controller's [`Needs`] ask for, in the sender's order, and apply the floors that senders apply to a
//! [`Reduction`] (ssthresh at least 2, cwnd at least 1) and nothing else. What a controller does to the window by
//! itself, in `on_ack` and its like, must need no floor.

use lasthop_cc::{
    AckSample, Arrival, CongestionControl, Controller, ControllerConfig, LossKind, LossSample, Needs,
    ParamError, RateSample, ReceiveTime, RecoveryKind, Reduction, Signal, Start, WaveReport, Window,
};
use lasthop_core::time::{Span, Time};
use proptest::prelude::*;

/// Segment size of all tests.
const MSS: u64 = 1000;

/// A law may raise a smaller window to this, even when it is not to grow: Vegas never holds fewer than two segments,
/// as its authors do, and senders keep ssthresh at two.
const LEAST: f64 = 2.0;

fn configs() -> impl Iterator<Item = ControllerConfig> {
    ControllerConfig::NAMES.iter().map(|name| ControllerConfig::by_name(name).unwrap())
}

/// Whether the law answers losses with a reduction; those that follow the delivery rate do not, nor do those that pace
/// themselves by the delay of the path.
fn reduces(config: &ControllerConfig) -> bool {
    !config.needs().rate && !config.needs().pacing
}

/// Something that happens to a sender.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// `acked` segments are acknowledged, the newest after `rtt_us`; at least `outstanding` segments remain.
    Ack {
        acked: u32,
        rtt_us: Option<u32>,
        outstanding: u32,
        may_grow: bool,
        news: News,
    },
    /// The same ACK again, `wait_us` later; with SACK it may tell of `sacked` segments.
    Duplicate {
        wait_us: u32,
        sacked: u32,
        news: News,
    },
    /// An ACK that was overtaken.
    Old {
        segments: u32,
        news: News,
    },
    Loss {
        retransmitted: bool,
    },
    Timeout,
    Ecn,
    Idle {
        millis: u32,
    },
    Signal(Signal),
}

/// What an ACK tells beside its number.
#[derive(Clone, Copy, Debug)]
struct News {
    ece: bool,
    /// Transit of the segment that triggered it; clocks differ, so it may seem to arrive before it was sent.
    transit_us: Option<i32>,
    /// Frames that the receiver has discarded since the last ACK.
    discards: Option<u32>,
    /// Bytes per second of the newest wave.
    rate: Option<f64>,
    /// Length of the interval of its delivery rate sample, and the segments found lost.
    interval_us: Option<u32>,
    lost: u32,
}

fn news() -> impl Strategy<Value = News> {
    let rate = prop_oneof![8 => 0.0..1e7, 1 => Just(0.0), 1 => 0.0..1e12];
    (
        prop::bool::weighted(0.05),
        prop::option::weighted(0.7, -1000i32..2_000_000),
        prop::option::weighted(0.7, prop_oneof![8 => 0u32..3, 1 => any::<u32>()]),
        prop::option::weighted(0.5, rate),
        prop::option::weighted(0.9, 0u32..500_000),
        prop_oneof![9 => Just(0u32), 1 => 0u32..20],
    )
        .prop_map(|(ece, transit_us, discards, rate, interval_us, lost)| News {
            ece,
            transit_us,
            discards,
            rate,
            interval_us,
            lost,
        })
}

fn signal() -> impl Strategy<Value = Signal> {
    let range = (0u64..100, 1u64..4).prop_map(|(first, count)| (1 + first * MSS, 1 + (first + count) * MSS));
    let span = (0u32..2_000_000).prop_map(|micros| Span::from_nanos(u64::from(micros) * 1000));
    prop_oneof![
        (range.clone(), 0u32..8, span.clone()).prop_map(|((seq, end), retransmissions, delay)| {
            Signal::LinkAck { seq, end, retransmissions, delay }
        }),
        (range.clone(), 1u32..8).prop_map(|((seq, end), attempts)| Signal::LinkRetry { seq, end, attempts }),
        (range.clone(), 1u32..8).prop_map(|((seq, end), attempts)| Signal::LinkDrop { seq, end, attempts }),
        span.clone().prop_map(|timeout| Signal::LinkTimeout { timeout }),
        any::<u32>().prop_map(|count| Signal::MacDiscard { count }),
        (-200.0..100.0, 0u32..3000).prop_map(|(dbm, bytes)| Signal::RxRssi { dbm, bytes }),
        span.prop_map(|warning| Signal::LinkFading { warning }),
        Just(Signal::LinkUp),
        Just(Signal::HandoffDone),
        range.prop_map(|(seq, _)| Signal::Ebsn { seq }),
        Just(Signal::Eln),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let rtt = prop::option::weighted(0.9, prop_oneof![4 => 1_000u32..300_000, 1 => 1u32..60_000_000]);
    let acked = prop_oneof![8 => 1u32..4, 1 => 1u32..2000];
    prop_oneof![
        30 => (acked, rtt, 0u32..500, prop::bool::weighted(0.8), news()).prop_map(
            |(acked, rtt_us, outstanding, may_grow, news)| Event::Ack { acked, rtt_us, outstanding, may_grow, news }
        ),
        10 => (0u32..200_000, 0u32..3, news()).prop_map(
            |(wait_us, sacked, news)| Event::Duplicate { wait_us, sacked, news }
        ),
        1 => (1u32..50, news()).prop_map(|(segments, news)| Event::Old { segments, news }),
        2 => any::<bool>().prop_map(|retransmitted| Event::Loss { retransmitted }),
        1 => Just(Event::Timeout),
        1 => Just(Event::Ecn),
        1 => (0u32..100_000).prop_map(|millis| Event::Idle { millis }),
        3 => signal().prop_map(Event::Signal),
    ]
}

/// How a connection begins: ssthresh, and the windows that earlier ones ended with.
fn beginning() -> impl Strategy<Value = (f64, Vec<f64>)> {
    (prop_oneof![Just(f64::INFINITY), 2.0..100.0], prop::collection::vec(1.0..500.0, 0..6))
}

/// A controller and what its sender knows.
#[derive(Clone, Debug)]
struct Rig {
    controller: Controller,
    needs: Needs,
    window: Window,
    now: Time,
    una: u64,
    next: u64,
    srtt: Span,
    delivered: u64,
    discards: u32,
    wave: u16,
}

impl Rig {
    /// At the end of a handshake of 50 ms.
    fn new(config: &ControllerConfig, (ssthresh, history): &(f64, Vec<f64>)) -> Rig {
        let mut controller = config.build();
        let mut window = Window { cwnd: 2.0, ssthresh: *ssthresh };
        let needs = config.needs();
        let handshake = Span::from_millis(50);
        let now = Time::ZERO + handshake;
        let history = if needs.history.is_some() { history } else { &[][..] };
        controller.on_start(&Start { now, history, handshake, mss: MSS as u32 }, &mut window);
        Rig {
            controller,
            needs,
            window,
            now,
            una: 1,
            next: 1 + 2 * MSS,
            srtt: Span::ZERO,
            delivered: 0,
            discards: 0,
            wave: 0,
        }
    }

    fn flight(&self) -> u32 {
        ((self.next - self.una) / MSS) as u32
    }

    fn loss(&self, retransmitted: bool) -> LossSample {
        let flight = self.window.cwnd.min(f64::from(self.flight()));
        LossSample { now: self.now, flight, retransmitted, truth: None }
    }

    /// The floors of the sender. A law may not rely on it to keep the window from rising.
    fn apply(&mut self, reduction: Reduction) {
        assert!(
            reduction.cwnd <= self.window.cwnd.max(LEAST),
            "{reduction:?} raises {:?}: {:?}",
            self.window,
            self.controller
        );
        if !self.needs.classifies {
            assert_eq!(reduction.taken_for, None, "a verdict that was not asked for");
        }
        self.window = Window { cwnd: reduction.cwnd.max(1.0), ssthresh: reduction.ssthresh.max(2.0) };
    }

    /// What any ACK brings first, if it was asked for.
    fn arrive(&mut self, ack: u64, news: News) {
        if !self.needs.arrivals {
            return;
        }
        self.discards = self.discards.wrapping_add(news.discards.unwrap_or(0));
        let sent = self.now - self.srtt;
        let transit = |micros: i32| {
            let span = Span::from_nanos(u64::from(micros.unsigned_abs()) * 1000);
            ReceiveTime { sent, received: if micros < 0 { sent - span } else { sent + span } }
        };
        let report = news.rate.map(|rate| {
            self.wave = self.wave.wrapping_add(1);
            WaveReport { id: self.wave, rate: Some(rate), segments: 10 }
        });
        let arrival = Arrival {
            now: self.now,
            una: self.una,
            ack,
            next: self.next,
            mss: MSS as u32,
            srtt: self.srtt,
            ece: news.ece,
            marked: if news.ece { ack.saturating_sub(self.una) } else { 0 },
            times: news.transit_us.filter(|_| self.needs.receive_times).map(transit),
            first_sacked: None,
            discards: Some(self.discards).filter(|_| self.needs.discards && news.discards.is_some()),
            report: report.filter(|_| self.needs.waves),
        };
        self.controller.on_arrival(&arrival, &mut self.window);
    }

    /// What any ACK brings last, if it was asked for.
    fn deliver(&mut self, acked: u32, rtt: Option<Span>, prior_flight: u32, may_grow: bool, news: News) {
        let prior = self.delivered;
        self.delivered += u64::from(acked);
        if !self.needs.rate {
            return;
        }
        let interval = news.interval_us.map(|micros| Span::from_nanos(u64::from(micros) * 1000));
        let sample = RateSample {
            now: self.now,
            rate: interval.map(|interval| (u64::from(acked), interval)),
            app_limited: news.ece,
            prior_delivered: prior.saturating_sub(u64::from(prior_flight)),
            delivered: self.delivered,
            acked,
            lost: news.lost,
            prior_flight,
            flight: self.flight(),
            rtt,
            maybe_delayed: acked == 1 && news.ece,
            srtt: self.srtt,
            recovery: (!may_grow).then_some(RecoveryKind::Fast),
            mss: MSS as u32,
            tx_in_flight: prior_flight + acked,
            lost_since: news.lost,
            held_back: Span::ZERO,
            window_limited: may_grow,
            selective: true,
        };
        self.controller.on_rate(&sample, &mut self.window);
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Ack { acked, rtt_us, outstanding, may_grow, news } => {
                let rtt = rtt_us.map(|micros| Span::from_nanos(u64::from(micros) * 1000));
                self.now += rtt.unwrap_or(Span::from_millis(1));
                self.next = self.next.max(self.una + u64::from(acked) * MSS);
                let prior_flight = self.flight();
                self.arrive(self.una + u64::from(acked) * MSS, news);
                if self.needs.timing
                    && let Some(rtt) = rtt
                {
                    self.controller.filter_rtt(rtt, self.una + u64::from(acked) * MSS, self.now);
                }
                self.srtt = rtt.unwrap_or(self.srtt);
                self.una += u64::from(acked) * MSS;
                self.next = self.next.max(self.una + u64::from(outstanding) * MSS);
                let sample = AckSample {
                    now: self.now,
                    elapsed: self.now.since(Time::ZERO),
                    rtt,
                    srtt: self.srtt,
                    acked,
                    una: self.una,
                    next: self.next,
                    mss: MSS as u32,
                    may_grow,
                    disordered: false,
                };
                self.controller.on_ack(&sample, &mut self.window);
                self.deliver(acked, rtt, prior_flight, may_grow, news);
            }
            Event::Duplicate { wait_us, sacked, news } => {
                self.now += Span::from_nanos(u64::from(wait_us) * 1000);
                self.arrive(self.una, news);
                self.deliver(sacked, None, self.flight(), true, news);
            }
            Event::Old { segments, news } => {
                self.arrive(self.una.saturating_sub(u64::from(segments) * MSS).max(1), news);
                self.deliver(0, None, self.flight(), true, news);
            }
            Event::Loss { retransmitted } => {
                let reduction = self.controller.on_loss(&self.loss(retransmitted), &self.window);
                self.apply(reduction);
            }
            Event::Timeout => {
                let reduction = self.controller.on_timeout(&self.loss(false), &self.window);
                self.apply(reduction);
                // Everything is to be sent again.
                self.next = self.una + MSS;
            }
            Event::Ecn => {
                let reduction = self.controller.on_ecn(&self.loss(false), &self.window);
                assert_ne!(reduction.taken_for, Some(LossKind::Wireless), "a mark is no wireless error");
                self.apply(reduction);
            }
            Event::Idle { millis } => {
                let idle = Span::from_millis(u64::from(millis));
                self.now += idle;
                self.controller.on_idle(idle, self.now);
            }
            Event::Signal(signal) => {
                if self.needs.signals {
                    self.controller.on_signal(&signal, self.now);
                }
            }
        }
    }

    fn check(&self, event: Event) {
        let Window { cwnd, ssthresh } = self.window;
        assert!(cwnd >= 1.0 && cwnd.is_finite(), "{cwnd} after {event:?}: {self:?}");
        assert!(ssthresh >= 1.0, "{ssthresh} after {event:?}: {self:?}");
        if let Some(rate) = self.controller.pacing_rate() {
            assert!(self.needs.pacing && rate > 0.0 && !rate.is_nan(), "pacing at {rate} after {event:?}");
        }
        if self.needs.timing {
            assert!(self.controller.timer_extension() < Span::from_secs(3600), "{event:?}: {self:?}");
            assert!(self.controller.dup_threshold(self.una, 3) >= 1, "{event:?}: {self:?}");
            assert!(self.controller.retransmit_delay().is_none_or(|delay| delay < Span::from_secs(3600)));
        }
    }

    /// The largest window that `event` may leave. Laws that steer by a measured rate may also raise it on duplicates,
    /// which report deliveries, and give back what they had taken for a while.
    fn most(&self, event: Event, largest: f64) -> f64 {
        // BBR never holds fewer than four segments, however small the window was.
        let least = self.window.cwnd.max(if self.needs.rate { 4.0 } else { LEAST });
        let measured = self.needs.rate || self.needs.waves;
        match event {
            // No law more than doubles the window in a round trip.
            Event::Ack { acked, .. } if measured => least.max(largest) + f64::from(acked),
            Event::Ack { acked, may_grow: true, .. } => least + f64::from(acked),
            Event::Duplicate { sacked, .. } if measured => least.max(largest) + f64::from(sacked.max(1)),
            Event::Old { .. } if measured => (least + 1.0).max(largest),
            _ => least,
        }
    }
}

proptest! {
    // 200 runs of 1,000 events, five times over: drawing events takes longer than playing them.
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Through 1,000,000 random events: at least one segment, never beyond all bounds, and grown by ACKs alone.
    #[test]
    fn the_window_stays_a_window(events in prop::collection::vec(event(), 1000), beginning in beginning()) {
        for config in configs() {
            let name = config.name();
            let mut rig = Rig::new(&config, &beginning);
            let mut largest = rig.window.cwnd;
            for &event in std::iter::repeat_n(&events, 5).flatten() {
                let before = rig.window;
                let most = rig.most(event, largest);
                rig.step(event);
                rig.check(event);
                prop_assert!(rig.window.cwnd <= most, "{name}: {event:?} made {before:?} {:?}", rig.window);
                largest = largest.max(rig.window.cwnd);
                match event {
                    Event::Idle { .. } | Event::Signal(_) => prop_assert_eq!(rig.window, before),
                    // ssthresh may rise in the laws that measure: a path may hold more than the window.
                    Event::Loss { .. } | Event::Ecn | Event::Timeout if !rig.needs.arrivals => {
                        let least = before.cwnd.max(LEAST);
                        // A law that the link has told of it may leave both as they are.
                        let is_left = rig.needs.signals && rig.window == before;
                        let is_lower = rig.window.ssthresh <= least || is_left;
                        prop_assert!(is_lower, "{name}: {event:?} made {:?}", rig.window);
                    }
                    _ => {}
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// A state is all there is: a clone that meets the same events ends in the same state.
    #[test]
    fn a_clone_goes_the_same_way(
        before in prop::collection::vec(event(), 0..200), after in prop::collection::vec(event(), 1..200),
        beginning in beginning(),
    ) {
        for config in configs() {
            let mut rig = Rig::new(&config, &beginning);
            for &event in &before {
                rig.step(event);
            }
            let mut clone = rig.clone();
            for &event in &after {
                rig.step(event);
                clone.step(event);
            }
            prop_assert_eq!(format!("{rig:?}"), format!("{clone:?}"));
        }
    }

    /// With any parameter at either bound the window is still a window.
    #[test]
    fn extreme_parameters_are_survived(
        events in prop::collection::vec(event(), 500), index in any::<prop::sample::Index>(), at_max in any::<bool>(),
        beginning in beginning(),
    ) {
        for mut config in configs() {
            let params = config.params();
            if params.is_empty() {
                continue;
            }
            let param = index.get(&params);
            config.set(param.name, if at_max { param.max } else { param.min }).unwrap();
            let mut rig = Rig::new(&config, &beginning);
            for &event in &events {
                rig.step(event);
                rig.check(event);
            }
        }
    }
}

/// A timeout lowers both windows if they can be lowered.
#[test]
fn a_timeout_raises_nothing() {
    for config in configs().filter(|config| !config.needs().rate) {
        for cwnd in [4.0, 10.0, 1000.5] {
            let window = Window { cwnd, ssthresh: f64::INFINITY };
            let loss = LossSample { now: Time::ZERO, flight: cwnd, retransmitted: false, truth: None };
            let reduction = config.build().on_timeout(&loss, &window);
            assert!(reduction.cwnd < cwnd && reduction.ssthresh < cwnd, "{}: {reduction:?}", config.name());
        }
    }
}

/// Losses and marks lower the window, and a mark, which is never a wireless error, by no less than a loss.
#[test]
fn losses_and_marks_lower_the_window() {
    for config in configs().filter(|config| !config.needs().rate) {
        let window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
        let loss = LossSample { now: Time::ZERO, flight: 20.0, retransmitted: false, truth: None };
        let after_loss = config.build().on_loss(&loss, &window);
        let after_mark = config.build().on_ecn(&loss, &window);
        let lowers = |reduction: Reduction| reduction.cwnd < 20.0 && reduction.ssthresh < 20.0;
        assert!(lowers(after_mark), "{}: {after_mark:?}", config.name());
        if reduces(&config) {
            assert!(lowers(after_loss), "{}: {after_loss:?}", config.name());
        }
        assert!(after_mark.cwnd <= after_loss.cwnd, "{}: {after_mark:?}", config.name());
    }
}

/// Every parameter takes its bounds and its default, and refuses what lies beyond.
#[test]
fn parameters_keep_their_ranges() {
    for config in configs() {
        for param in config.params() {
            let context = format!("{}.{}", config.name(), param.name);
            assert!(!param.help.is_empty(), "{context} is not explained");
            assert_eq!(config.value(param.name), Some(param.default), "{context}");
            assert!((param.min..=param.max).contains(&param.default), "{context}");
            let mut config = config.clone();
            for value in [param.min, param.max, param.default] {
                config.set(param.name, value).unwrap();
                assert_eq!(config.value(param.name), Some(value), "{context}");
            }
            let refused = Err(ParamError::OutOfRange { min: param.min, max: param.max });
            for value in [param.min - 0.1, param.max * 1.1 + 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]
            {
                assert_eq!(config.set(param.name, value), refused, "{context} = {value}");
            }
            assert_eq!(config.value(param.name), Some(param.default), "{context} is kept");
        }
        assert_eq!(config.clone().set("no_such", 1.0), Err(ParamError::Unknown));
        assert_eq!(config.value("no_such"), None);
    }
}

/// Names are found again, unknown ones are not, and each controller says in a line what it does.
#[test]
fn the_registry_is_consistent() {
    for (config, &name) in configs().zip(ControllerConfig::NAMES) {
        assert_eq!(config.name(), name);
        assert!(!config.summary().is_empty() && config.summary().len() < 90, "{name}");
        assert_eq!(ControllerConfig::NAMES.iter().filter(|&&other| other == name).count(), 1);
    }
    assert_eq!(ControllerConfig::by_name("no such"), None);
}
