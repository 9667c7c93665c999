//! VenoPlus: Veno that also counts losses and listens to the radio (Shetty, Tang & Collani, IJCN 1(1) 2009; ICNSC
//! 2010).
//!
//! *What it does.* In each monitoring window it counts its losses (the congestion loss window, CLW) and estimates how
//! many frames the radio link loses (the random loss rate, RLR). A loss with a large CLW or a large backlog (Veno's) is
//! congestion and costs half the window; otherwise it costs a fifth if the RLR is large, and what Veno says if not.
//! *Reacts to* loss, judged by delay and by what the link tells; to ECN like Reno.
//! *Differs from the paper:* known from its abstract and from Andreadis, Rizzuto & Zambon (EURASIP JWCN 2016): the
//! thresholds, the length of the window and the map from signal strength to bit errors are reconstructions and
//! parameters. `signal = "rssi"` weighs each received frame with the error probability of 802.11b's DBPSK at its
//! signal strength; `signal = "attempts"` takes the share of failed attempts of the sender's own link, for links that
//! report attempts instead of signal strengths.
//! *Validation:* TV-5.2 and TV-5.3, worked by hand.
//! *Limitations:* the sender hears its own radio link only. Where errors are injected and do not follow from the signal
//! strength, "rssi" is blind to them. A window without a single frame has an RLR of zero.
//! *Kernel counterpart:* none.
//! *References:* Shetty, Tang & Collani, IJCN 1(1) 2009 and ICNSC 2010; Fu & Liew, JSAC 21(2) 2003.

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::veno::{self, Growth, ReduceFrom, Veno};
use crate::{AckSample, CongestionControl, LossKind, LossSample, Needs, Reduction, Signal, Window};

pub(crate) const SUMMARY: &str =
    "Veno with a count of losses and the radio's error rate (Shetty et al. 2009)";

choice! {
    /// What the random loss rate is taken from.
    Source {
        /// The signal strength of received frames.
        Rssi = "rssi",
        /// The attempts that the link reports.
        Attempts = "attempts",
    }
}

params! {
    /// Length of the monitoring window, in seconds
    monitoring: f64 = 1.0, 0.001..=1000.0;
    /// So many losses in a monitoring window mean congestion
    clw_threshold: f64 = 2.0, 1.0..=1e6;
    /// So large a random loss rate means random losses
    rlr_threshold: f64 = 0.005, 0.0..=1.0;
    /// The random loss rate follows from signal strengths, or from the attempts that the link reports
    signal: Source = Source::Rssi, 0.0..=1.0;
    /// Noise of the receiver, in dBm (22 MHz at 290 K and a noise figure of 7 dB)
    noise: f64 = -93.6, -200.0..=0.0;
    /// Bit rate of the frames, in Mbit/s: bits are spread over 22 MHz
    bit_rate: f64 = 1.0, 0.1..=100.0;
    /// So many queued segments mean congestion
    beta: f64 = 3.0, 0.0..=1000.0;
    /// Share of the window kept after a loss taken for random
    kept: f64 = 0.8, 0.5..=0.99;
    /// Slower growth under congestion: on every second ACK, or a segment every second RTT as in Linux
    growth: Growth = Growth::Acks, 0.0..=1.0;
    /// Reduce the window, or what is in flight as ns-3 does
    reduce_from: ReduceFrom = ReduceFrom::Window, 0.0..=1.0;
    /// Forget the least RTT at every loss
    reset_base: bool = false, 0.0..=1.0;
    /// With fewer RTT samples the backlog is not judged
    least_samples: f64 = 3.0, 0.0..=1000.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Most segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = 1.0, 1.0..=1e9;
}

/// Chip bandwidth of 802.11b in MHz.
const BANDWIDTH_MHZ: f64 = 22.0;

/// Bit error rate of 802.11b's DBPSK at a signal-to-noise ratio in dB: half of exp(-SNR bandwidth / bit rate).
fn bit_error_rate(snr_db: f64, bit_rate: f64) -> f64 {
    let snr = libm::pow(10.0, snr_db / 10.0);
    0.5 * libm::exp(-snr * BANDWIDTH_MHZ / bit_rate)
}

/// Probability that a frame of so many bytes has a wrong bit: `1 - (1 - ber)^(8 bytes)`.
fn frame_error_rate(bit_error_rate: f64, bytes: u32) -> f64 {
    -libm::expm1(8.0 * f64::from(bytes) * libm::log1p(-bit_error_rate))
}

/// What was seen within the present monitoring window.
#[derive(Clone, Debug, Default)]
struct Monitor {
    began: Time,
    /// Losses of this sender: CLW.
    losses: u32,
    /// Frames, and how many of them were lost or must be expected to be.
    frames: f64,
    lost_frames: f64,
    /// Failed attempts that have been counted as they happened; the final report of the frame repeats them.
    announced: u32,
    /// The link announces failed attempts with their segment, so its plain count repeats them.
    announces: bool,
}

impl Monitor {
    /// Begins a new window if the present one is over.
    fn turn(&mut self, now: Time, length: Span) {
        let elapsed = now.since(self.began).0;
        if elapsed >= length.0 {
            let began = Time(self.began.0 + elapsed / length.0.max(1) * length.0);
            *self =
                Monitor { began, announced: self.announced, announces: self.announces, ..Monitor::default() };
        }
    }

    fn fail(&mut self, attempts: u32) {
        self.frames += f64::from(attempts);
        self.lost_frames += f64::from(attempts);
    }

    /// The link is done with a frame after so many failed attempts.
    fn finish(&mut self, failed: u32) {
        let known = failed.min(self.announced);
        self.announced -= known;
        self.fail(failed - known);
    }

    /// RLR.
    fn loss_rate(&self) -> f64 {
        if self.frames > 0.0 { self.lost_frames / self.frames } else { 0.0 }
    }
}

/// State of VenoPlus.
#[derive(Clone, Debug)]
pub struct VenoPlus {
    params: Params,
    veno: Veno,
    monitor: Monitor,
}

impl VenoPlus {
    pub(crate) fn new(params: &Params) -> Self {
        let veno = veno::Params {
            beta: params.beta,
            kept: params.kept,
            growth: params.growth,
            reduce_from: params.reduce_from,
            reset_base: params.reset_base,
            least_samples: params.least_samples,
            byte_counting: params.byte_counting,
            slow_start_limit: params.slow_start_limit,
        };
        VenoPlus { params: params.clone(), veno: Veno::new(&veno), monitor: Monitor::default() }
    }

    fn turn(&mut self, now: Time) {
        self.monitor.turn(now, Span::from_seconds(self.params.monitoring));
    }

    /// Counts a loss and says what it is.
    fn judge(&mut self) -> LossKind {
        self.monitor.losses = self.monitor.losses.saturating_add(1);
        let veno = self.veno.verdict();
        if f64::from(self.monitor.losses) >= self.params.clw_threshold || veno == Some(LossKind::Congestion) {
            LossKind::Congestion
        } else if self.monitor.loss_rate() >= self.params.rlr_threshold {
            LossKind::Wireless
        } else {
            veno.unwrap_or(LossKind::Congestion)
        }
    }
}

impl CongestionControl for VenoPlus {
    fn needs(&self) -> Needs {
        Needs { signals: true, classifies: true, ..Needs::default() }
    }

    fn on_signal(&mut self, signal: &Signal, now: Time) {
        self.turn(now);
        let monitor = &mut self.monitor;
        match (self.params.signal, *signal) {
            (Source::Rssi, Signal::RxRssi { dbm, bytes }) => {
                let errors = bit_error_rate(dbm - self.params.noise, self.params.bit_rate);
                monitor.frames += 1.0;
                monitor.lost_frames += frame_error_rate(errors, bytes);
            }
            (Source::Attempts, Signal::LinkAck { retransmissions, .. }) => {
                monitor.finish(retransmissions);
                monitor.frames += 1.0;
            }
            (Source::Attempts, Signal::LinkDrop { attempts, .. }) => monitor.finish(attempts),
            (Source::Attempts, Signal::LinkRetry { .. }) => {
                monitor.announces = true;
                monitor.announced = monitor.announced.saturating_add(1);
                monitor.fail(1);
            }
            (Source::Attempts, Signal::MacDiscard { count }) if !monitor.announces => {
                monitor.announced = monitor.announced.saturating_add(count);
                monitor.fail(count);
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.veno.on_ack(ack, window);
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.turn(loss.now);
        let kind = self.judge();
        self.veno.reduction(kind, loss, window).taken_for(kind)
    }

    /// Counts as a loss; the windows fall as Reno's.
    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.turn(loss.now);
        self.monitor.losses = self.monitor.losses.saturating_add(1);
        self.veno.on_timeout(loss, window)
    }

    /// A mark is congestion, but no loss.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.veno.on_ecn(loss, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, close, loss};

    const FULL: Window = Window { cwnd: 20.0, ssthresh: 10.0 };

    /// TV-5.2: a frame of 1024 B.
    #[test]
    fn longer_frames_are_lost_more_often() {
        for (errors, expected) in [(1e-6, 0.008_158_5), (1e-5, 0.078_654_7), (5e-5, 0.336_091_0)] {
            close(frame_error_rate(errors, 1024), expected, 7);
        }
    }

    /// DBPSK at 1 Mbit/s: exp(-22 SNR) / 2, and SNR = 0.5 is -3.0103 dB.
    #[test]
    fn errors_follow_the_signal() {
        close(bit_error_rate(-3.010_299_956_6, 1.0), 0.5 * (-11f64).exp(), 12);
        close(bit_error_rate(-3.010_299_956_6, 11.0), 0.5 * (-1f64).exp(), 9);
        assert_eq!(bit_error_rate(60.0, 1.0), 0.0);
        close(bit_error_rate(-200.0, 1.0), 0.5, 9);
    }

    /// VenoPlus with a backlog of one segment (W = 20, 100 ms and then 105.26 ms) or of four (125 ms).
    fn with_backlog(segments: f64) -> VenoPlus {
        let mut law = VenoPlus::new(&Params::default());
        let rtt = 0.1 / (1.0 - segments / 20.0);
        for rtt in [0.1, rtt, rtt] {
            let sample = AckSample { rtt: Some(Span::from_seconds(rtt)), may_grow: false, ..ack(1) };
            law.on_ack(&sample, &mut FULL.clone());
        }
        close(law.veno.backlog.segments, segments, 6);
        law
    }

    /// TV-5.3: W = 20; losses in this window with the one that is judged, random loss rate, backlog, window kept.
    #[test]
    fn losses_signal_and_backlog_decide() {
        for (losses, rate, backlog, kept) in
            [(1, 0.01, 1.0, 16.0), (2, 0.01, 1.0, 10.0), (1, 0.0, 4.0, 10.0), (1, 0.0, 1.0, 16.0)]
        {
            let mut law = with_backlog(backlog);
            law.monitor.losses = losses - 1;
            (law.monitor.frames, law.monitor.lost_frames) = (100.0, 100.0 * rate);
            let kind = if kept == 16.0 { LossKind::Wireless } else { LossKind::Congestion };
            let reduction = law.on_loss(&loss(20.0), &FULL);
            assert_eq!(reduction, Reduction::to(kept, kept).taken_for(kind), "{losses} {rate} {backlog}");
            assert_eq!(law.on_ecn(&loss(20.0), &FULL), Reduction::to(10.0, 10.0));
        }
    }

    /// The random loss rate alone speaks while the backlog has too few samples.
    #[test]
    fn signals_are_enough() {
        let mut law = VenoPlus::new(&Params::default());
        let weak = Signal::RxRssi { dbm: -103.6, bytes: 1024 };
        law.on_signal(&weak, Time::ZERO);
        close(law.monitor.loss_rate(), frame_error_rate(0.5 * (-2.2f64).exp(), 1024), 9);
        assert_eq!(law.on_loss(&loss(20.0), &FULL).taken_for, Some(LossKind::Wireless));
        let mut law = VenoPlus::new(&Params::default());
        law.on_signal(&Signal::RxRssi { dbm: -40.0, bytes: 1024 }, Time::ZERO);
        assert_eq!(law.on_loss(&loss(20.0), &FULL).taken_for, Some(LossKind::Congestion));
    }

    /// Every failed attempt is counted once, whether it is announced, only reported at the end, or both.
    #[test]
    fn attempts_are_counted_once() {
        let (seq, end) = (1, 1001);
        let done = Signal::LinkAck { seq, end, retransmissions: 2, delay: Span::ZERO };
        let given_up = Signal::LinkDrop { seq, end, attempts: 4 };
        let retry = |attempts| Signal::LinkRetry { seq, end, attempts };
        let discard = Signal::MacDiscard { count: 1 };
        for (signals, failed, all) in [
            (vec![done], 2.0, 3.0),
            (vec![retry(1), retry(2), done], 2.0, 3.0),
            (vec![retry(1), discard, retry(2), discard, done], 2.0, 3.0),
            (vec![discard, discard, done], 2.0, 3.0),
            (vec![retry(1), retry(2), retry(3), given_up], 4.0, 4.0),
            (vec![given_up, done], 6.0, 7.0),
        ] {
            let mut law = VenoPlus::new(&Params { signal: Source::Attempts, ..Params::default() });
            for signal in &signals {
                law.on_signal(signal, Time::ZERO);
            }
            assert_eq!((law.monitor.lost_frames, law.monitor.frames), (failed, all), "{signals:?}");
        }
    }

    /// CLW and RLR begin anew in every monitoring window, and timeouts count.
    #[test]
    fn a_new_window_forgets() {
        let mut law = with_backlog(1.0);
        let at = |seconds| LossSample { now: Time::ZERO + Span::from_seconds(seconds), ..loss(20.0) };
        law.on_timeout(&at(0.2), &FULL);
        assert_eq!(law.on_loss(&at(0.9), &FULL).cwnd, 10.0, "two losses");
        assert_eq!(law.on_loss(&at(1.1), &FULL).cwnd, 16.0, "the first of the next window");
        assert_eq!(law.on_loss(&at(3.9), &FULL).cwnd, 16.0);
        assert_eq!(law.monitor.began, Time::ZERO + Span::from_secs(3));
    }
}
