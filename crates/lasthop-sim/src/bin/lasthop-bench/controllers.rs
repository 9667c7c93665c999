//! Times each registered controller alone, on the ACKs of a path that is driven for it: `lasthop-bench --controllers`.
//!
//! The path has a base RTT of 20 ms, 2.5 segments a millisecond, room for 50 segments in its queue and jitter. Windows
//! follow the controller: the queue overflows, then a window of duplicate ACKs arrives and the controller answers the
//! loss; one ACK in 20,000 is followed by a timeout. Whatever hooks the controller needs are called as a sender calls
//! them. The same drive with a controller that does nothing is timed alongside and taken off.

use cpu_time::ProcessTime;
use lasthop_cc::{
    AckSample, Arrival, CongestionControl, ControllerConfig, LossSample, Needs, ProbeSample, RateSample,
    ReceiveTime, RecoveryKind, Reduction, Signal, Start, WaveReport, Window,
};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use serde_json::{Value, json};

const MSS: u32 = 1448;
const BASE_RTT: Span = Span::from_millis(20);
/// Time that the bottleneck takes for a segment.
const SERVICE: Span = Span::from_nanos(400_000);
/// Segments that fill the path, and those that fill its queue too.
const PIPE: u64 = 50;
const ROOM: u64 = 100;
const ACKS: u64 = 1_000_000;
const ACKS_PER_TIMEOUT: u64 = 20_000;
/// For controllers that want every mark.
const ACKS_PER_MARK: u64 = 50;
const REPEATS: usize = 5;

/// A window that stays.
struct Nothing;

impl CongestionControl for Nothing {
    fn on_ack(&mut self, _ack: &AckSample, _window: &mut Window) {}
    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        Reduction::to(window.cwnd, window.cwnd)
    }
    fn on_timeout(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        Reduction::to(window.cwnd, window.cwnd)
    }
}

/// Nanoseconds per ACK of every registered controller.
pub(crate) fn times() -> Value {
    let rows =
        ControllerConfig::NAMES.iter().filter_map(|name| ControllerConfig::by_name(name)).map(|config| {
            let needs = config.needs();
            // The least of several, alternating: other work on the machine only ever adds.
            let (mut with, mut without) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..REPEATS {
                with = with.min(time(&mut config.build(), needs));
                without = without.min(time(&mut Nothing, needs));
            }
            let nanos = (with - without).max(0.0);
            json!({ "name": config.name(), "ns_per_ack": nanos })
        });
    json!(rows.collect::<Vec<_>>())
}

fn time<C: CongestionControl>(controller: &mut C, needs: Needs) -> f64 {
    let started = ProcessTime::now();
    let mut path = Path::new(controller, needs);
    path.run();
    let spent = started.elapsed();
    // The window is looked at, so that nothing of the drive can be left out.
    assert!(path.window.cwnd >= 1.0, "a window is at least one segment");
    1e9 * spent.as_secs_f64() / path.acks as f64
}

/// One connection, seen from its sender.
struct Path<'a, C> {
    controller: &'a mut C,
    needs: Needs,
    window: Window,
    jitter: Stream,
    start: Time,
    now: Time,
    srtt: Span,
    una: u64,
    next: u64,
    delivered: u64,
    discards: u32,
    wave: WaveReport,
    wave_end: u64,
    acks: u64,
}

impl<'a, C: CongestionControl> Path<'a, C> {
    fn new(controller: &'a mut C, needs: Needs) -> Path<'a, C> {
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let start = Time::ZERO;
        let now = start + BASE_RTT;
        controller.on_start(&Start { now, history: &[], handshake: BASE_RTT, mss: MSS }, &mut window);
        Path {
            controller,
            needs,
            window,
            jitter: Stream::new(1, "bench of controllers"),
            start,
            now,
            srtt: Span::ZERO,
            una: 1,
            next: 1,
            delivered: 0,
            discards: 0,
            wave: WaveReport { id: 0, rate: None, segments: 0 },
            wave_end: 0,
            acks: 0,
        }
    }

    fn run(&mut self) {
        let mut until_timeout = ACKS_PER_TIMEOUT;
        while self.acks < ACKS {
            let flight = (self.window.cwnd as u64).max(1);
            self.next = self.next.max(self.una + flight * u64::from(MSS));
            if flight > ROOM {
                self.lose();
                continue;
            }
            self.acknowledge(1, true);
            if self.needs.exact_marks && self.acks.is_multiple_of(4 * ACKS_PER_MARK) {
                let sample = self.loss_sample();
                let reduction = self.controller.on_ecn(&sample, &self.window);
                self.apply(reduction);
            }
            if self.acks > until_timeout {
                until_timeout += ACKS_PER_TIMEOUT;
                self.now += Span::from_secs(1);
                let sample = self.loss_sample();
                let reduction = self.controller.on_timeout(&sample, &self.window);
                self.apply(reduction);
                self.next = self.una + u64::from(MSS);
            }
        }
    }

    fn flight(&self) -> u32 {
        ((self.next - self.una) / u64::from(MSS)) as u32
    }

    /// Base RTT, queue and a little jitter.
    fn rtt(&mut self) -> Span {
        let queued = u64::from(self.flight()).saturating_sub(PIPE).min(ROOM - PIPE);
        BASE_RTT + SERVICE * queued + Span::from_nanos(self.jitter.below(200_000))
    }

    fn loss_sample(&self) -> LossSample {
        LossSample {
            now: self.now,
            flight: f64::from(self.flight()).min(self.window.cwnd),
            retransmitted: false,
            truth: None,
        }
    }

    fn apply(&mut self, reduction: Reduction) {
        let cwnd = reduction.cwnd.clamp(1.0, self.window.cwnd);
        self.window = Window { cwnd, ssthresh: reduction.ssthresh.max(2.0) };
    }

    /// An overflow: a window of duplicate ACKs, the answer at the third, and an ACK of everything.
    fn lose(&mut self) {
        let flight = self.flight();
        for number in 1..flight {
            self.now += SERVICE;
            self.arrive(self.una);
            if self.needs.timing {
                let threshold = self.controller.dup_threshold(self.una, 3);
                self.now += Span::from_nanos(u64::from(threshold == 0));
            }
            if number == 3 {
                if self.needs.probing {
                    // Every other time the probes find a congested path.
                    let probe = if self.acks.is_multiple_of(2) { self.srtt } else { self.srtt * 3 };
                    let sample = ProbeSample { first: probe, second: probe, srtt: self.srtt };
                    self.controller.on_probes(&sample);
                }
                if self.needs.timing && self.controller.retransmit_delay().is_some() {
                    self.now += SERVICE;
                }
                let sample = self.loss_sample();
                let reduction = self.controller.on_loss(&sample, &self.window);
                self.apply(reduction);
            }
            self.sample_rate(0, None, Some(RecoveryKind::Fast));
        }
        self.acknowledge(flight, false);
        // A law that does not answer losses would lose for ever.
        self.window.cwnd = self.window.cwnd.min(PIPE as f64);
    }

    /// An ACK of new data.
    fn acknowledge(&mut self, segments: u32, may_grow: bool) {
        let rtt = self.rtt();
        self.now += SERVICE;
        let ack = self.una + u64::from(segments) * u64::from(MSS);
        self.next = self.next.max(ack);
        self.arrive(ack);
        if self.needs.timing
            && let Some(rtt) = self.controller.filter_rtt(rtt, ack, self.now)
        {
            self.srtt = rtt;
        }
        self.srtt = if self.srtt == Span::ZERO { rtt } else { Span((7 * self.srtt.0 + rtt.0) / 8) };
        self.una = ack;
        let sample = AckSample {
            now: self.now,
            elapsed: self.now.since(self.start),
            rtt: may_grow.then_some(rtt),
            srtt: self.srtt,
            acked: segments,
            una: self.una,
            next: self.next,
            mss: MSS,
            may_grow,
            disordered: false,
        };
        self.controller.on_ack(&sample, &mut self.window);
        if self.needs.timing {
            self.now += Span::from_nanos(u64::from(self.controller.timer_extension() == Span::from_nanos(1)));
        }
        self.sample_rate(segments, may_grow.then_some(rtt), None);
    }

    /// What every ACK brings first.
    fn arrive(&mut self, ack: u64) {
        self.acks += 1;
        if self.needs.signals {
            let (seq, end) = (ack, ack + u64::from(MSS));
            let retransmissions = u32::from(self.acks.is_multiple_of(10));
            let signal =
                Signal::LinkAck { seq, end, retransmissions, delay: SERVICE * u64::from(retransmissions) };
            self.controller.on_signal(&signal, self.now);
        }
        if !self.needs.arrivals {
            return;
        }
        self.discards = self.discards.wrapping_add(u32::from(self.acks.is_multiple_of(20)));
        if self.needs.waves && ack >= self.wave_end {
            self.wave_end = self.next;
            self.wave = WaveReport { id: self.wave.id.wrapping_add(1), rate: Some(3.6e6), segments: 50 };
        }
        let sent = self.now - self.srtt.max(BASE_RTT).min(self.now.since(Time::ZERO));
        let times = ReceiveTime { sent, received: sent + BASE_RTT };
        let ece = self.needs.exact_marks && self.acks.is_multiple_of(ACKS_PER_MARK);
        let arrival = Arrival {
            now: self.now,
            una: self.una,
            ack,
            next: self.next,
            mss: MSS,
            srtt: self.srtt,
            ece,
            marked: if ece { ack.saturating_sub(self.una) } else { 0 },
            times: (self.needs.receive_times || self.needs.timestamp_times).then_some(times),
            first_sacked: None,
            discards: self.needs.discards.then_some(self.discards),
            report: self.needs.waves.then_some(self.wave),
        };
        self.controller.on_arrival(&arrival, &mut self.window);
    }

    /// What follows every ACK.
    fn sample_rate(&mut self, acked: u32, rtt: Option<Span>, recovery: Option<RecoveryKind>) {
        if self.needs.rate {
            let flight = self.flight();
            let sample = RateSample {
                now: self.now,
                rate: Some((u64::from(flight.min(PIPE as u32)), BASE_RTT)),
                app_limited: false,
                prior_delivered: self.delivered.saturating_sub(u64::from(flight)),
                delivered: self.delivered + u64::from(acked),
                acked,
                lost: 0,
                prior_flight: flight + acked,
                flight,
                rtt,
                maybe_delayed: false,
                srtt: self.srtt,
                recovery,
                mss: MSS,
                tx_in_flight: flight + acked,
                lost_since: 0,
                held_back: Span::ZERO,
                window_limited: true,
                selective: true,
            };
            self.delivered += u64::from(acked);
            self.controller.on_rate(&sample, &mut self.window);
        }
        if self.needs.pacing && self.controller.pacing_rate() == Some(0.0) {
            self.now += SERVICE;
        }
    }
}
