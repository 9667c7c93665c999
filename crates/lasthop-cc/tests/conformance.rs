//! What every registered controller must keep to, whatever its law: the window stays a window.
//!
//! A new line in `controllers!` is tested here without further ado. The tests stand in for a sender: they apply the
//! floors that senders apply to a [`Reduction`] (ssthresh at least 2, cwnd at least 1, one segment after a timeout),
//! and nothing else. What a controller does to the window by itself, in `on_ack`, must need no floor.

use lasthop_cc::{
    AckSample, CongestionControl, Controller, ControllerConfig, LossSample, ParamError, Reduction, Window,
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

/// Something that happens to a sender.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// `acked` segments are acknowledged, the newest after `rtt_us`; at least `outstanding` segments remain.
    Ack {
        acked: u32,
        rtt_us: Option<u32>,
        outstanding: u32,
        may_grow: bool,
    },
    Loss {
        retransmitted: bool,
    },
    Timeout,
    Ecn,
    Idle {
        millis: u32,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let rtt = prop::option::weighted(0.9, prop_oneof![4 => 1_000u32..300_000, 1 => 1u32..60_000_000]);
    let acked = prop_oneof![8 => 1u32..4, 1 => 1u32..2000];
    prop_oneof![
        30 => (acked, rtt, 0u32..500, prop::bool::weighted(0.8)).prop_map(
            |(acked, rtt_us, outstanding, may_grow)| Event::Ack { acked, rtt_us, outstanding, may_grow }
        ),
        2 => any::<bool>().prop_map(|retransmitted| Event::Loss { retransmitted }),
        1 => Just(Event::Timeout),
        1 => Just(Event::Ecn),
        1 => (0u32..100_000).prop_map(|millis| Event::Idle { millis }),
    ]
}

/// A controller and what its sender knows.
#[derive(Clone, Debug)]
struct Rig {
    controller: Controller,
    window: Window,
    now: Time,
    una: u64,
    next: u64,
    srtt: Span,
}

impl Rig {
    /// At the end of a handshake of 50 ms.
    fn new(config: &ControllerConfig, ssthresh: f64) -> Rig {
        Rig {
            controller: config.build(),
            window: Window { cwnd: 2.0, ssthresh },
            now: Time::ZERO + Span::from_millis(50),
            una: 1,
            next: 1 + 2 * MSS,
            srtt: Span::ZERO,
        }
    }

    fn loss(&self, retransmitted: bool) -> LossSample {
        let flight = self.window.cwnd.min((self.next - self.una) as f64 / MSS as f64);
        LossSample { now: self.now, flight, retransmitted }
    }

    /// The floors of the sender.
    fn apply(&mut self, reduction: Reduction) {
        self.window = Window { cwnd: reduction.cwnd.max(1.0), ssthresh: reduction.ssthresh.max(2.0) };
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Ack { acked, rtt_us, outstanding, may_grow } => {
                let rtt = rtt_us.map(|micros| Span::from_nanos(u64::from(micros) * 1000));
                self.now += rtt.unwrap_or(Span::from_millis(1));
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
                };
                self.controller.on_ack(&sample, &mut self.window);
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
                self.apply(reduction);
            }
            Event::Idle { millis } => {
                let idle = Span::from_millis(u64::from(millis));
                self.now += idle;
                self.controller.on_idle(idle);
            }
        }
    }

    fn check(&self, event: Event) {
        let Window { cwnd, ssthresh } = self.window;
        assert!(cwnd >= 1.0 && cwnd.is_finite(), "{cwnd} after {event:?}: {self:?}");
        assert!(ssthresh >= 1.0, "{ssthresh} after {event:?}: {self:?}");
    }
}

proptest! {
    // 100 runs of 1,000 events each.
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Through 100,000 random events: at least one segment, never beyond all bounds, and grown by ACKs alone.
    #[test]
    fn the_window_stays_a_window(
        events in prop::collection::vec(event(), 1000), ssthresh in prop_oneof![Just(f64::INFINITY), 2.0..100.0],
    ) {
        for config in configs() {
            let name = config.name();
            let mut rig = Rig::new(&config, ssthresh);
            for &event in &events {
                let before = rig.window;
                rig.step(event);
                rig.check(event);
                let least = before.cwnd.max(LEAST);
                let most = match event {
                    // No law of this family more than doubles the window in a round trip.
                    Event::Ack { acked, may_grow: true, .. } => least + f64::from(acked),
                    _ => least,
                };
                prop_assert!(rig.window.cwnd <= most, "{name}: {event:?} made {before:?} {:?}", rig.window);
                match event {
                    Event::Idle { .. } => prop_assert_eq!(rig.window, before),
                    Event::Loss { .. } | Event::Ecn | Event::Timeout => {
                        prop_assert!(rig.window.ssthresh <= least, "{name}: {event:?} made {:?}", rig.window);
                    }
                    Event::Ack { .. } => {}
                }
            }
        }
    }

    /// A state is all there is: a clone that meets the same events ends in the same state.
    #[test]
    fn a_clone_goes_the_same_way(
        before in prop::collection::vec(event(), 0..200), after in prop::collection::vec(event(), 1..200),
    ) {
        for config in configs() {
            let mut rig = Rig::new(&config, f64::INFINITY);
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
    ) {
        for mut config in configs() {
            let params = config.params();
            let param = index.get(&params);
            config.set(param.name, if at_max { param.max } else { param.min }).unwrap();
            let mut rig = Rig::new(&config, f64::INFINITY);
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
    for config in configs() {
        for cwnd in [4.0, 10.0, 1000.5] {
            let window = Window { cwnd, ssthresh: f64::INFINITY };
            let loss = LossSample { now: Time::ZERO, flight: cwnd, retransmitted: false };
            let reduction = config.build().on_timeout(&loss, &window);
            assert!(reduction.cwnd < cwnd && reduction.ssthresh < cwnd, "{}: {reduction:?}", config.name());
        }
    }
}

/// Losses and marks lower the window, and a mark, which is never a wireless error, by no less than a loss.
#[test]
fn losses_and_marks_lower_the_window() {
    for config in configs() {
        let window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
        let loss = LossSample { now: Time::ZERO, flight: 20.0, retransmitted: false };
        let after_loss = config.build().on_loss(&loss, &window);
        let after_mark = config.build().on_ecn(&loss, &window);
        for reduction in [after_loss, after_mark] {
            assert!(reduction.cwnd < 20.0 && reduction.ssthresh < 20.0, "{}: {reduction:?}", config.name());
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
