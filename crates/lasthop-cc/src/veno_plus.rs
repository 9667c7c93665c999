//! VenoPlus: Veno with a count of losses and signals of the radio (Shetty, Tang & Collani, IJCN 1(1) 2009; ICNSC 2010).
//!
//! *What it does.* In each monitoring window it counts its losses (the congestion loss window, CLW) and estimates how
//! many packets the radio has lost (the random loss rate, RLR, times the frames). The random share of the losses is
//! the smaller of the two, the rest is the share of congestion. A loss has one of three outcomes: random errors
//! explain it, and a fifth of the window goes; congestion explains it, and half goes; or both are at work, and half
//! goes.
//! *Reacts to* loss, classified by reports of the link and by delay; to ECN like Reno.
//! *Differs from the paper:* known from its abstract and from Andreadis, Rizzuto & Zambon (EURASIP JWCN 2016), who
//! list the three outcomes but not their conditions. These are a reconstruction: with no share of congestion the loss
//! is random, whatever the backlog; with some and a backlog of `beta` both are at work; with less backlog the larger
//! share decides. Without any signal of a radio the sender is Veno. Radio reports take precedence over the backlog, so
//! VenoPlus keeps more than Veno in lightly loaded networks, as its authors claim: there the backlog is the sender's
//! own. `decide = "thresholds"` compares CLW and RLR with a threshold each instead. The length of the window and the
//! map from signal strength to bit errors are choices as well. `signal = "rssi"` weighs each received frame with the
//! error probability of 802.11b's DBPSK at its signal strength, as in the paper; `"receiver"` takes the frames that
//! the receiver's MAC discarded and the sender's own link gave up, for links whose errors do not follow from a signal
//! strength; `"any"` is "rssi" where signal strengths are heard and "receiver" elsewhere; `"attempts"` takes the share
//! of failed attempts of the sender's own link.
//! *Validation:* TV-5.2 and TV-5.3, worked by hand; recall and precision in `docs/reference/classifiers.md`. The ready
//! study `light-load` shows what its authors claim: alone on 10 Mbit/s and 40 ms with 0.1, 0.3 and 1 % of packets lost
//! it carries 9.45, 7.31 and 3.44 Mbit/s where Veno carries 8.23, 6.68 and 3.11; with eight senders, whose losses come
//! from congestion, there is no difference, and none without errors.
//! *Limitations:* CLW counts episodes and the radio packets, so after a burst of errors in one window a later overflow
//! counts as random. Behind a link that retransmits frames "attempts" and the receiver's count exceed the losses of
//! TCP. The count of a real MAC would include frames of other hosts; here it has only those of the flow.
//! *Kernel counterpart:* none.
//! *References:* Shetty, Tang & Collani, IJCN 1(1) 2009 and ICNSC 2010; Fu & Liew, JSAC 21(2) 2003.

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::veno::{self, ReduceFrom, Rule, Veno};
use crate::{AckSample, Arrival, CongestionControl, LossKind, LossSample, Needs, Reduction, Signal, Window};

pub(crate) const SUMMARY: &str =
    "Veno with a count of losses and the radio's error rate (Shetty et al. 2009)";

choice! {
    /// What the number of random losses is taken from.
    Source {
        /// Signal strengths if there are any, and otherwise what the MACs count.
        Any = "any",
        /// The signal strength of received frames.
        Rssi = "rssi",
        /// The attempts that the link reports.
        Attempts = "attempts",
        /// Frames that the receiver's MAC discarded or the sender's own gave up.
        Receiver = "receiver",
    }
}

choice! {
    /// How losses and radio decide together.
    Decide {
        /// The share of the losses that the radio explains.
        Shares = "shares",
        /// A threshold for each.
        Thresholds = "thresholds",
    }
}

params! {
    /// Length of the monitoring window, in seconds
    monitoring: f64 = 1.0, 0.001..=1000.0;
    /// The radio's share of the losses decides, or a threshold for the losses and one for the radio
    decide: Decide = Decide::Shares, 0.0..=1.0;
    /// Number of losses in a monitoring window that means congestion (thresholds only)
    clw_threshold: f64 = 2.0, 1.0..=1e6;
    /// Random loss rate from which losses are taken for random (thresholds only)
    rlr_threshold: f64 = 0.005, 0.0..=1.0;
    /// Random losses follow from signal strengths, from attempts that the link reports, or from what the MACs count
    signal: Source = Source::Any, 0.0..=3.0;
    /// Noise of the receiver, in dBm (22 MHz at 290 K and a noise figure of 7 dB)
    noise: f64 = -93.6, -200.0..=0.0;
    /// Bit rate of the frames, in Mbit/s: bits are spread over 22 MHz
    bit_rate: f64 = 1.0, 0.1..=100.0;
    /// Number of queued segments that means congestion
    beta: f64 = 3.0, 0.0..=1000.0;
    /// Share of the window kept after a loss taken for random
    kept: f64 = 0.8, 0.5..=0.99;
    /// What is reduced: the window or, as in ns-3, the segments in flight
    reduce_from: ReduceFrom = ReduceFrom::Window, 0.0..=1.0;
    /// Forget the minimum RTT at every loss
    reset_base: bool = false, 0.0..=1.0;
    /// With fewer RTT samples the backlog is not judged
    min_samples: f64 = 3.0, 0.0..=1000.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// Chip bandwidth of 802.11b in MHz.
const BANDWIDTH_MHZ: f64 = 22.0;

/// Bit error rate of 802.11b's DBPSK at a signal-to-noise ratio in dB: half of exp(-SNR bandwidth / bit rate).
fn bit_error_rate(snr_db: f64, bit_rate: f64) -> f64 {
    let snr = libm::pow(10.0, snr_db / 10.0);
    0.5 * libm::exp(-snr * BANDWIDTH_MHZ / bit_rate)
}

/// Probability that a frame of this many bytes has a wrong bit: `1 - (1 - ber)^(8 bytes)`.
fn frame_error_rate(bit_error_rate: f64, bytes: u32) -> f64 {
    -libm::expm1(8.0 * f64::from(bytes) * libm::log1p(-bit_error_rate))
}

/// What was seen within the present monitoring window.
#[derive(Clone, Debug, Default)]
struct Monitor {
    began: Time,
    /// Losses of this sender: CLW.
    losses: u32,
    /// Frames that were heard of, and how many of them were lost or must be expected to be.
    frames: f64,
    lost_frames: f64,
    /// Segments that the link is done with; a frame may be a further attempt at one.
    segments: f64,
    /// Failed attempts that have been counted as they happened; the final report of the frame repeats them.
    announced: u32,
    /// The link announces failed attempts with their segment, so its plain count repeats them.
    announces: bool,
    /// Signal strengths are heard: what the MACs count would be counted twice.
    has_strengths: bool,
}

impl Monitor {
    /// Begins a new window if the present one is over.
    fn turn(&mut self, now: Time, length: Span) {
        let elapsed = now.since(self.began).0;
        if elapsed >= length.0 {
            let began = Time(self.began.0 + elapsed / length.0.max(1) * length.0);
            *self = Monitor {
                began,
                announced: self.announced,
                announces: self.announces,
                has_strengths: self.has_strengths,
                ..Monitor::default()
            };
        }
    }

    fn fail(&mut self, attempts: u32) {
        self.frames += f64::from(attempts);
        self.lost_frames += f64::from(attempts);
    }

    /// The link is done with a frame after this many failed attempts.
    fn finish(&mut self, failed: u32) {
        self.segments += 1.0;
        let known = failed.min(self.announced);
        self.announced -= known;
        self.fail(failed - known);
    }

    /// A frame was received with this probability of an error.
    fn hear(&mut self, error_rate: f64) {
        if !std::mem::replace(&mut self.has_strengths, true) {
            // What was counted before is among what the strengths explain.
            (self.frames, self.lost_frames) = (0.0, 0.0);
        }
        self.frames += 1.0;
        self.lost_frames += error_rate;
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
    /// The receiver's count of discarded frames that the last ACK echoed.
    discards: u32,
}

impl VenoPlus {
    pub(crate) fn new(params: &Params) -> Self {
        let veno = veno::Params {
            beta: params.beta,
            kept: params.kept,
            rule: Rule::Paper,
            reduce_from: params.reduce_from,
            reset_base: params.reset_base,
            min_samples: params.min_samples,
            byte_counting: params.byte_counting,
            slow_start_limit: params.slow_start_limit,
        };
        VenoPlus { params: params.clone(), veno: Veno::new(&veno), monitor: Monitor::default(), discards: 0 }
    }

    fn turn(&mut self, now: Time) {
        self.monitor.turn(now, Span::from_seconds(self.params.monitoring));
    }

    /// Whether what the MACs count is used now.
    fn counts_discards(&self) -> bool {
        match self.params.signal {
            Source::Receiver => true,
            Source::Any => !self.monitor.has_strengths,
            Source::Rssi | Source::Attempts => false,
        }
    }

    /// Packets of this monitoring window that the radio has lost.
    fn random_losses(&self) -> f64 {
        match self.params.signal {
            // What as many losses as there were failed attempts would have cost without retransmission.
            Source::Attempts => self.monitor.loss_rate() * self.monitor.segments,
            Source::Any | Source::Rssi | Source::Receiver => self.monitor.lost_frames,
        }
    }

    /// Counts a loss and says what it is.
    fn judge(&mut self) -> LossKind {
        self.monitor.losses = self.monitor.losses.saturating_add(1);
        let veno = self.veno.verdict();
        if self.monitor.frames == 0.0 {
            return veno.unwrap_or(LossKind::Congestion);
        }
        let losses = f64::from(self.monitor.losses);
        let is_queued = veno == Some(LossKind::Congestion);
        let is_random = match self.params.decide {
            Decide::Shares => {
                let random = self.random_losses().min(losses);
                let congestion = losses - random;
                congestion <= 0.0 || (!is_queued && random >= congestion && random > 0.0)
            }
            Decide::Thresholds => {
                losses < self.params.clw_threshold
                    && !is_queued
                    && self.monitor.loss_rate() >= self.params.rlr_threshold
            }
        };
        if is_random { LossKind::Wireless } else { LossKind::Congestion }
    }
}

impl CongestionControl for VenoPlus {
    fn needs(&self) -> Needs {
        let counts = matches!(self.params.signal, Source::Any | Source::Receiver);
        Needs { arrivals: counts, discards: counts, signals: true, classifies: true, ..Needs::default() }
    }

    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        let Some(discards) = arrival.discards else { return };
        self.turn(arrival.now);
        let news = discards.wrapping_sub(self.discards);
        // An older count comes from an ACK that was overtaken.
        if news < 1 << 31 {
            self.discards = discards;
            if self.counts_discards() {
                self.monitor.frames += 1.0;
                self.monitor.fail(news);
            }
        }
    }

    fn on_signal(&mut self, signal: &Signal, now: Time) {
        self.turn(now);
        let counts_discards = self.counts_discards();
        let monitor = &mut self.monitor;
        match (self.params.signal, *signal) {
            (Source::Any | Source::Rssi, Signal::RxRssi { dbm, bytes }) => {
                let errors = bit_error_rate(dbm - self.params.noise, self.params.bit_rate);
                monitor.hear(frame_error_rate(errors, bytes));
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
            (Source::Any | Source::Receiver, Signal::LinkAck { .. }) if counts_discards => {
                monitor.frames += 1.0;
            }
            (Source::Any | Source::Receiver, Signal::LinkDrop { .. }) if counts_discards => monitor.fail(1),
            _ => {}
        }
    }

    /// As any RTT.
    fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
        self.on_ack(sample, window);
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
    use crate::testing::{ack, close, loss, plain_arrival};

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

    /// TV-5.3: W = 20; losses in this window with the one that is judged, random losses that the radio explains among
    /// 100 frames, backlog, window kept. From the first row to the second, and from the fourth to the last, the radio
    /// alone turns the verdict.
    #[test]
    fn losses_radio_and_backlog_decide() {
        for (losses, random, backlog, kept) in [
            (2, 1.2, 1.0, 16.0),
            (2, 0.3, 1.0, 10.0),
            (1, 0.0, 1.0, 10.0),
            (2, 1.2, 4.0, 10.0),
            (2, 2.0, 4.0, 16.0),
        ] {
            let mut law = with_backlog(backlog);
            law.monitor.losses = losses - 1;
            (law.monitor.frames, law.monitor.lost_frames) = (100.0, random);
            let kind = if kept == 16.0 { LossKind::Wireless } else { LossKind::Congestion };
            let reduction = law.on_loss(&loss(20.0), &FULL);
            assert_eq!(reduction, Reduction::to(kept, kept).taken_for(kind), "{losses} {random} {backlog}");
            assert_eq!(law.on_ecn(&loss(20.0), &FULL), Reduction::to(10.0, 10.0));
        }
    }

    /// TV-5.3: without a frame heard of it is Veno.
    #[test]
    fn without_a_radio_it_is_veno() {
        for (backlog, kept) in [(1.0, 16.0), (4.0, 10.0)] {
            assert_eq!(with_backlog(backlog).on_loss(&loss(20.0), &FULL).cwnd, kept);
        }
    }

    /// CLW 1 and RLR 0.01 are below and above their thresholds; each alone turns the verdict, and so does the
    /// backlog.
    #[test]
    fn thresholds_decide_if_asked_to() {
        for (losses, rate, backlog, kept) in
            [(1, 0.01, 1.0, 16.0), (2, 0.01, 1.0, 10.0), (1, 0.001, 1.0, 10.0), (1, 0.01, 4.0, 10.0)]
        {
            let mut law = with_backlog(backlog);
            law.params.decide = Decide::Thresholds;
            law.monitor.losses = losses - 1;
            (law.monitor.frames, law.monitor.lost_frames) = (100.0, 100.0 * rate);
            assert_eq!(law.on_loss(&loss(20.0), &FULL).cwnd, kept, "{losses} {rate} {backlog}");
        }
    }

    /// The radio speaks while the backlog has too few samples. At -103.6 dBm nine frames in ten are lost.
    #[test]
    fn signals_are_enough() {
        for signal in [Source::Any, Source::Rssi] {
            let verdict = |dbm| {
                let mut law = VenoPlus::new(&Params { signal, ..Params::default() });
                law.on_signal(&Signal::RxRssi { dbm, bytes: 1024 }, Time::ZERO);
                (law.monitor.lost_frames, law.on_loss(&loss(20.0), &FULL).taken_for)
            };
            let (lost, kind) = verdict(-103.6);
            close(lost, frame_error_rate(0.5 * (-2.2f64).exp(), 1024), 9);
            assert_eq!(kind, Some(LossKind::Wireless));
            assert_eq!(verdict(-40.0).1, Some(LossKind::Congestion));
        }
    }

    /// The receiver's count is cumulative; a strength that is heard afterwards takes its place.
    #[test]
    fn what_the_receiver_discards_explains_a_loss() {
        let mut law = VenoPlus::new(&Params::default());
        let echo = |law: &mut VenoPlus, count| {
            let arrival = Arrival { discards: Some(count), ..plain_arrival() };
            law.on_arrival(&arrival, &mut FULL.clone());
        };
        echo(&mut law, 0);
        assert_eq!(law.clone().on_loss(&loss(20.0), &FULL).taken_for, Some(LossKind::Congestion));
        (0..3).for_each(|_| echo(&mut law, 1));
        assert_eq!(law.monitor.lost_frames, 1.0, "one frame, however often it is told");
        assert_eq!(law.clone().on_loss(&loss(20.0), &FULL).taken_for, Some(LossKind::Wireless));
        law.on_signal(&Signal::RxRssi { dbm: -40.0, bytes: 1024 }, Time::ZERO);
        echo(&mut law, 2);
        assert!(law.monitor.lost_frames < 1e-9, "{}", law.monitor.lost_frames);
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

    /// CLW and the radio's losses begin anew in every monitoring window, and timeouts count.
    #[test]
    fn a_new_window_forgets() {
        let mut law = with_backlog(1.0);
        let at = |seconds| LossSample { now: Time::ZERO + Span::from_seconds(seconds), ..loss(20.0) };
        let hear = |law: &mut VenoPlus, seconds, count| {
            let now = Time::ZERO + Span::from_seconds(seconds);
            law.on_arrival(&Arrival { now, discards: Some(count), ..plain_arrival() }, &mut FULL.clone());
        };
        hear(&mut law, 0.1, 1);
        law.on_timeout(&at(0.2), &FULL);
        law.on_timeout(&at(0.3), &FULL);
        assert_eq!(law.on_loss(&at(0.9), &FULL).cwnd, 10.0, "three losses, and the radio lost one");
        hear(&mut law, 1.05, 2);
        assert_eq!(law.on_loss(&at(1.1), &FULL).cwnd, 16.0, "the first of the next window");
        hear(&mut law, 3.8, 2);
        assert_eq!(law.on_loss(&at(3.9), &FULL).cwnd, 10.0, "the radio has lost nothing since");
        assert_eq!(law.monitor.began, Time::ZERO + Span::from_secs(3));
    }
}
