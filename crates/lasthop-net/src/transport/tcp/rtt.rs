//! RTT estimation and the retransmission timeout: RFC 6298, ns-2's integer ticks, and Linux.
//!
//! The sender feeds samples and asks for the current timeout; it owns the timer.

use lasthop_core::time::{Span, Time};

use super::config::{RtoConfig, RtoKind};

/// Timestamps of Linux count these nanoseconds.
const TICK: u64 = 1_000_000;

/// From a timestamp to its return by the clock of timestamps of Linux: whole milliseconds, at least one
/// (`tcp_ack_update_rtt`, `tcp_rcv_rtt_measure_ts`).
pub(super) fn ticks_between(echo: Time, now: Time) -> Span {
    Span::from_millis((now.0 / TICK).saturating_sub(echo.0 / TICK).max(1))
}

/// Whether a timestamp is older than the `latest` one (RFC 7323 §5.3, R1). Linux lets one tick pass
/// (`tcp_paws_check`).
pub(super) fn is_stale(stamp: Time, latest: Time) -> bool {
    // Nearly none is, which one comparison tells.
    stamp < latest && stamp.0 / TICK + 1 < latest.0 / TICK
}

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    config: RtoConfig,
    /// Phase of ns-2's tick clock.
    phase: Span,
    /// Factor of exponential backoff: 1, 2, 4, ...
    backoff: u64,
    /// Timeout before backing off and before the floor.
    base: Span,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Seconds.
    Rfc6298 { srtt: f64, rttvar: f64 },
    /// Ticks: `srtt` times 8 and `rttvar` times 4, as Jacobson's code has them. `srtt` 0 means none.
    Ticks { srtt8: i64, rttvar4: i64 },
    /// Nanoseconds: `srtt` times 8, the others times 4.
    Linux { srtt8: i64, mdev4: i64, mdev_max4: i64, rttvar4: i64, round_end: u64 },
}

impl RttEstimator {
    /// `phase` is that of ns-2's clock; the others ignore it.
    pub(crate) fn new(config: RtoConfig, phase: Span) -> RttEstimator {
        let state = match config.kind {
            RtoKind::Rfc6298 => State::Rfc6298 { srtt: 0.0, rttvar: 0.0 },
            RtoKind::Ns2Ticks => State::Ticks { srtt8: 0, rttvar4: 0 },
            RtoKind::Linux => State::Linux { srtt8: 0, mdev4: 0, mdev_max4: 0, rttvar4: 0, round_end: 0 },
        };
        RttEstimator { config, phase, backoff: 1, base: config.initial, state }
    }

    /// Takes the RTT of something sent at `sent` and acknowledged at `now`. `una` and `next` mark rounds for Linux;
    /// `echoed` says that the sample comes from a timestamp.
    #[inline]
    pub(crate) fn sample(&mut self, sent: Time, now: Time, una: u64, next: u64, echoed: bool) {
        match &mut self.state {
            State::Rfc6298 { srtt, rttvar } => {
                let sample = now.since(sent).seconds();
                if *srtt == 0.0 {
                    *srtt = sample;
                    *rttvar = sample / 2.0;
                } else {
                    // RFC 6298 §2.3: the variance first.
                    *rttvar = 0.75 * *rttvar + 0.25 * (*srtt - sample).abs();
                    if *rttvar < 1e-12 {
                        // On a steady path it would decay into the denormal numbers, which are slow.
                        *rttvar = 0.0;
                    }
                    *srtt = 0.875 * *srtt + 0.125 * sample;
                }
                self.base =
                    Span::from_seconds(*srtt) + Span::from_seconds(4.0 * *rttvar).max(self.config.tick);
            }
            State::Ticks { srtt8, rttvar4 } => {
                let tick = self.config.tick.0;
                let ticks = if echoed {
                    // Rounded to the nearest tick.
                    (now.since(sent).0 + tick / 2) / tick
                } else {
                    // The difference of two readings of a coarse clock.
                    (now.0 + self.phase.0) / tick - (sent.0 + self.phase.0) / tick
                };
                let sample = (ticks as i64).max(1);
                if *srtt8 == 0 {
                    *srtt8 = sample << 3;
                    *rttvar4 = sample << 1;
                } else {
                    let error = sample - (*srtt8 >> 3);
                    *srtt8 = (*srtt8 + error).max(1);
                    *rttvar4 = (*rttvar4 + error.abs() - (*rttvar4 >> 2)).max(1);
                }
                self.base = Span(((((*rttvar4 << 3) + *srtt8) >> 3) as u64).saturating_mul(tick));
            }
            State::Linux { srtt8, mdev4, mdev_max4, rttvar4, round_end } => {
                let sample = (now.since(sent).0 as i64).max(1);
                let floor = self.config.min.0 as i64;
                if *srtt8 == 0 {
                    *srtt8 = sample << 3;
                    *mdev4 = sample << 1;
                    *rttvar4 = (*mdev4).max(floor);
                    *mdev_max4 = *rttvar4;
                    *round_end = next;
                } else {
                    let error = sample - (*srtt8 >> 3);
                    *srtt8 += error;
                    let mut change = error.abs() - (*mdev4 >> 2);
                    if error < 0 && change > 0 {
                        // A falling RTT is no reason to become careful.
                        change >>= 3;
                    }
                    *mdev4 += change;
                    *mdev_max4 = (*mdev_max4).max(*mdev4);
                    *rttvar4 = (*rttvar4).max(*mdev_max4);
                    if una > *round_end {
                        if *mdev_max4 < *rttvar4 {
                            *rttvar4 -= (*rttvar4 - *mdev_max4) >> 2;
                        }
                        *round_end = next;
                        *mdev_max4 = floor;
                    }
                }
                self.base = Span(((*srtt8 >> 3) + *rttvar4) as u64);
            }
        }
    }

    /// Smoothed RTT; zero before the first sample.
    #[inline]
    pub(crate) fn srtt(&self) -> Span {
        match self.state {
            State::Rfc6298 { srtt, .. } => Span::from_seconds(srtt),
            State::Ticks { srtt8, .. } => Span((srtt8 >> 3) as u64 * self.config.tick.0),
            State::Linux { srtt8, .. } => Span((srtt8 >> 3) as u64),
        }
    }

    /// The timeout with floor, backoff and ceiling.
    #[inline]
    pub(crate) fn timeout(&self) -> Span {
        // For Linux the floor is inside the variance term already. ns-2's ticks also need two of them.
        let floored = match self.config.kind {
            RtoKind::Rfc6298 => self.base.max(self.config.min),
            RtoKind::Ns2Ticks => self.base.max(self.config.min).max(self.config.tick * 2),
            RtoKind::Linux => self.base,
        };
        (floored * self.backoff).min(self.config.max)
    }

    /// A spurious timeout has shown that an RTT can be as long as `rtt` (RFC 4015 §3.2, step 6): neither the estimate
    /// nor its variation is smaller than this sample as the first would make them.
    pub(crate) fn expect_at_least(&mut self, rtt: Span) {
        let nanos = rtt.0 as i64;
        self.base = match &mut self.state {
            State::Rfc6298 { srtt, rttvar } => {
                *srtt = srtt.max(rtt.seconds());
                *rttvar = rttvar.max(rtt.seconds() / 2.0);
                Span::from_seconds(*srtt) + Span::from_seconds(4.0 * *rttvar).max(self.config.tick)
            }
            State::Ticks { srtt8, rttvar4 } => {
                let tick = self.config.tick.0;
                let ticks = (nanos / tick as i64).max(1);
                *srtt8 = (*srtt8).max(ticks << 3);
                *rttvar4 = (*rttvar4).max(ticks << 1);
                Span(((((*rttvar4 << 3) + *srtt8) >> 3) as u64).saturating_mul(tick))
            }
            State::Linux { srtt8, mdev4, rttvar4, .. } => {
                *srtt8 = (*srtt8).max(nanos << 3);
                *mdev4 = (*mdev4).max(nanos << 1);
                *rttvar4 = (*rttvar4).max(*mdev4);
                Span(((*srtt8 >> 3) + *rttvar4) as u64)
            }
        };
    }

    /// The timer expired.
    pub(crate) fn back_off(&mut self) {
        if self.timeout() < self.config.max || self.backoff < 64 {
            self.backoff *= 2;
        }
        if self.backoff > 8
            && let State::Ticks { srtt8, rttvar4 } = &mut self.state
        {
            // ns-2 gives the old estimate up: it moves into the variance, and the next sample starts afresh.
            *rttvar4 += *srtt8 >> 3;
            *srtt8 = 0;
        }
    }

    /// New data was acknowledged that had been sent only once: the path is alive.
    #[inline]
    pub(crate) fn end_backoff(&mut self) {
        self.backoff = 1;
    }

    /// The handshake is done. RFC 6298 (5.7): if its timer expired and there is no sample, data starts with a timeout
    /// of at least 3 s.
    pub(crate) fn end_handshake(&mut self) {
        if self.backoff > 1 && self.srtt() == Span::ZERO {
            self.base = self.base.max(Span::from_secs(3));
            self.backoff = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(kind: RtoKind, min_ms: u64, tick_ms: u64) -> RtoConfig {
        RtoConfig {
            kind,
            min: Span::from_millis(min_ms),
            max: Span::from_secs(60),
            initial: Span::from_secs(3),
            tick: Span::from_millis(tick_ms),
            clock_phase: None,
        }
    }

    /// Timeouts after the samples of TV-2.7.1, one per round.
    fn timeouts(config: RtoConfig) -> Vec<f64> {
        let mut estimator = RttEstimator::new(config, Span::ZERO);
        let mut now = Time::ZERO;
        let mut una = 1;
        [100, 200, 100, 100, 100]
            .into_iter()
            .map(|millis| {
                let sent = now;
                now += Span::from_millis(millis);
                una += 10;
                estimator.sample(sent, now, una, una + 5, false);
                estimator.timeout().seconds()
            })
            .collect()
    }

    fn assert_close(values: &[f64], expected: &[f64]) {
        assert_eq!(values.len(), expected.len());
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() <= 1e-6, "{values:?}, expected {expected}");
        }
    }

    /// TV-2.7.1.
    #[test]
    fn timeouts_of_every_profile() {
        assert_close(
            &timeouts(config(RtoKind::Rfc6298, 0, 0)),
            &[0.3, 0.3625, 0.310_938, 0.270_508, 0.238_647],
        );
        assert_close(&timeouts(config(RtoKind::Rfc6298, 1000, 0)), &[1.0; 5]);
        assert_close(&timeouts(config(RtoKind::Ns2Ticks, 0, 10)), &[0.30, 0.36, 0.31, 0.27, 0.23]);
        assert_close(&timeouts(config(RtoKind::Ns2Ticks, 0, 100)), &[0.3, 0.4, 0.4, 0.4, 0.4]);
        assert_close(
            &timeouts(config(RtoKind::Linux, 200, 0)),
            &[0.3, 0.3625, 0.348_437, 0.337_695, 0.329_468],
        );
    }

    #[test]
    fn ns2_keeps_scaled_integers() {
        let mut estimator = RttEstimator::new(config(RtoKind::Ns2Ticks, 0, 10), Span::ZERO);
        let mut scaled = Vec::new();
        for millis in [100, 200, 100, 100, 100] {
            estimator.sample(Time::ZERO, Time::ZERO + Span::from_millis(millis), 1, 2, false);
            if let State::Ticks { srtt8, rttvar4 } = estimator.state {
                scaled.push((srtt8, rttvar4));
            }
        }
        assert_eq!(scaled, [(80, 20), (90, 25), (89, 20), (88, 16), (87, 13)]);
    }

    /// TV-2.7.2.
    #[test]
    fn backoff_doubles_up_to_the_ceiling() {
        let mut estimator = RttEstimator::new(config(RtoKind::Rfc6298, 0, 0), Span::ZERO);
        estimator.sample(Time::ZERO, Time::ZERO + Span::from_millis(100), 1, 2, false);
        let mut backed_off = Vec::new();
        for _ in 0..9 {
            backed_off.push(estimator.timeout().seconds());
            estimator.back_off();
        }
        assert_close(&backed_off, &[0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 60.0]);
    }

    #[test]
    fn the_coarse_clock_reads_with_its_phase() {
        let sample = |phase_ms| {
            let mut estimator =
                RttEstimator::new(config(RtoKind::Ns2Ticks, 0, 10), Span::from_millis(phase_ms));
            estimator.sample(
                Time::ZERO + Span::from_millis(4),
                Time::ZERO + Span::from_millis(19),
                1,
                2,
                false,
            );
            estimator.srtt()
        };
        assert_eq!(sample(0), Span::from_millis(10), "4 ms and 19 ms read as ticks 0 and 1");
        assert_eq!(sample(1), Span::from_millis(20), "5 ms and 20 ms read as ticks 0 and 2");
    }
}
