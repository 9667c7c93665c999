//! Westwood: after a loss the window is that of the measured bandwidth (Mascolo, Casetti, Gerla, Sanadidi & Wang,
//! MobiCom 2001).
//!
//! *What it does.* Every ACK, duplicates included, is a sample of the bandwidth: the segments it stands for over the
//! time since the last. A low-pass filter smooths them. At a loss ssthresh becomes bandwidth times the minimum RTT, and
//! cwnd falls to it if it is larger; the window grows like Reno's.
//! *Reacts to* loss and ECN, both with the bandwidth; a radio loss on a path without a queue costs little.
//! *Differs from the paper:* `counting = "paper"` restores its count of partial ACKs, which is one too high. ACKs
//! within `defer` are one sample, because a simulator's ACKs can arrive at one instant. tau is not confirmed from the
//! paper; 0.5 s is the usual reading, the authors' ns-2 script has 1 s. ssthresh is not divided after several
//! timeouts in a row, which the authors' module does and its comments call unused.
//! *Validation:* TV-4.1 to TV-4.4, worked by hand from the filter's equation.
//! *Limitations:* if a queue marks every packet, the window is constant: an echo sets it to bandwidth times minimum
//! RTT, further marks do not reduce it, and by RFC 3168 an ACK that echoes a mark does not increase it. Flows that
//! share such a queue keep their shares (Jain 0.78 with two of them). Compressed ACKs make it overestimate, as it does
//! in reality; Westwood+ is the authors' answer. The first ACK only starts the clock.
//! *Kernel counterpart:* none; `tcp_westwood` is Westwood+.
//! *References:* Mascolo et al., MobiCom 2001; the authors' ns-2 module of 2002.

use crate::bandwidth::{Counting, Meter, MeterStyle};
use crate::params::params;
use crate::{AckSample, Arrival, CongestionControl, GrowthStyle, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Window after a loss: bandwidth x minimum RTT, sampled per ACK (Mascolo et al. 2001)";

params! {
    /// Time constant of the bandwidth filter, in seconds (the authors' ns-2 script: 1)
    tau: f64 = 0.5, 0.001..=1000.0;
    /// Without ACKs for tau divided by this, samples of zero enter the filter
    null_divisor: f64 = 2.0, 1.0..=1000.0;
    /// After samples of zero, a rest shorter than this (s) counts as a whole interval (authors' ns-2 module: 0.01)
    rest_floor: f64 = 0.0, 0.0..=1.0;
    /// ACKs closer than this (s) are one sample
    defer: f64 = 1e-5, 1e-9..=1.0;
    /// Segments that an ACK stands for after duplicates: as corrected, or as published
    counting: Counting = Counting::Fixed, 0.0..=1.0;
    /// Maximum number of segments that one ACK stands for (authors' ns-2 module: 2)
    count_limit: f64 = 1e9, 1.0..=1e9;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// This many samples of zero leave nothing of any bandwidth.
const FORGOTTEN: f64 = 1000.0;

/// State of Westwood.
#[derive(Clone, Debug)]
pub struct Westwood {
    params: Params,
    meter: Meter,
    /// Estimated bandwidth, and the last sample, in bits per second.
    bandwidth: f64,
    last_sample: f64,
}

impl Westwood {
    pub(crate) fn new(params: &Params) -> Self {
        Westwood { params: params.clone(), meter: Meter::new(), bandwidth: 0.0, last_sample: 0.0 }
    }

    /// The bilinear (Tustin) low-pass filter with cut-off 1/tau: `sample` held over `interval` seconds.
    fn filter(&mut self, sample: f64, interval: f64) {
        let gain = 2.0 * self.params.tau / interval;
        self.bandwidth =
            (gain - 1.0) / (gain + 1.0) * self.bandwidth + (sample + self.last_sample) / (gain + 1.0);
        self.last_sample = sample;
    }

    /// Samples of zero for the part of `interval` in which ACKs were missing; returns the rest.
    fn filter_silence(&mut self, interval: f64) -> f64 {
        let step = self.params.tau / self.params.null_divisor;
        let steps = (interval / step).floor();
        if steps < 1.0 {
            return interval;
        }
        if steps > FORGOTTEN {
            (self.bandwidth, self.last_sample) = (0.0, 0.0);
        } else {
            (0..steps as u32).for_each(|_| self.filter(0.0, step));
        }
        let rest = (interval - steps * step).max(0.0);
        if rest < self.params.rest_floor { step } else { rest }
    }
}

impl CongestionControl for Westwood {
    fn needs(&self) -> Needs {
        Needs { arrivals: true, ..Needs::default() }
    }

    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        let Params { counting, count_limit, defer, .. } = self.params;
        let style = MeterStyle { counting, count_limit, defer };
        let Some((segments, seconds)) = self.meter.sample(arrival, style) else { return };
        let rest = self.filter_silence(seconds);
        if rest < defer {
            self.meter.put_back(segments, rest, arrival.now);
            return;
        }
        self.filter(segments * self.meter.segment_bits() / rest, rest);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.meter.learn_rtt(ack.rtt);
        if ack.may_grow {
            let Params { byte_counting, slow_start_limit, .. } = self.params;
            window.grow(ack.acked, 1.0, GrowthStyle { byte_counting, slow_start_limit });
        }
    }

    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        self.meter.reduction(self.bandwidth, window)
    }

    fn on_timeout(&mut self, _loss: &LossSample, _window: &Window) -> Reduction {
        Reduction::to(self.meter.pipe(self.bandwidth), 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arrival, close, loss};

    /// TV-4.2: an ACK of 1000 B every 50 ms, from nothing.
    #[test]
    fn the_filter_rises_towards_the_bandwidth() {
        let mut westwood = Westwood::new(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: 64.0 };
        westwood.on_arrival(&arrival(0.0, 10, 11), &mut window);
        for (step, expected) in (1..).zip([7619.05, 22_131.52, 35_261.85, 47_141.67, 57_890.09]) {
            let sample = arrival(0.05 * f64::from(step), 10 + step as u64, 11 + step as u64);
            westwood.on_arrival(&sample, &mut window);
            close(westwood.bandwidth, expected, 2);
        }
    }

    /// TV-4.3: 1.1 s without an ACK are four samples of zero and a rest of 0.1 s.
    #[test]
    fn silence_is_a_bandwidth_of_zero() {
        let mut westwood = Westwood::new(&Params::default());
        (westwood.bandwidth, westwood.last_sample) = (1.6e6, 1.6e6);
        for expected in [1.28e6, 0.768e6, 0.4608e6, 0.27648e6] {
            westwood.filter_silence(0.25);
            close(westwood.bandwidth, expected, 4);
        }
        let mut westwood = Westwood::new(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: 64.0 };
        westwood.on_arrival(&arrival(1.0, 10, 11), &mut window);
        (westwood.bandwidth, westwood.last_sample) = (1.6e6, 1.6e6);
        westwood.on_arrival(&arrival(2.1, 11, 12), &mut window);
        close(westwood.bandwidth, 233_483.6, 1);
    }

    /// A rest that is too short to divide by waits for the next ACK; the authors' module takes it for a whole
    /// interval.
    #[test]
    fn a_short_rest_is_no_burst() {
        for (rest_floor, expected) in [(0.0, 0.0), (0.01, 6400.0)] {
            let mut westwood = Westwood::new(&Params { rest_floor, ..Params::default() });
            let mut window = Window { cwnd: 10.0, ssthresh: 64.0 };
            westwood.on_arrival(&arrival(1.0, 10, 11), &mut window);
            westwood.on_arrival(&arrival(1.250_001, 11, 12), &mut window);
            // 8000 bits in 0.25 s, of which a fifth enters.
            close(westwood.bandwidth, expected, 6);
        }
    }

    /// TV-4.4: the window falls to what the path holds, and is never raised.
    #[test]
    fn a_loss_leaves_bandwidth_times_rtt() {
        let mut westwood = Westwood::new(&Params::default());
        let mut window = Window { cwnd: 12.0, ssthresh: 64.0 };
        westwood.on_arrival(&arrival(0.0, 10, 11), &mut window);
        westwood.bandwidth = 1.6e6;
        westwood.meter.rtt_min = 0.1;
        assert_eq!(westwood.on_loss(&loss(12.0), &window), Reduction::to(20.0, 12.0));
        assert_eq!(westwood.on_timeout(&loss(12.0), &window), Reduction::to(20.0, 1.0));
        window.cwnd = 30.0;
        assert_eq!(westwood.on_loss(&loss(30.0), &window), Reduction::to(20.0, 20.0));
        assert_eq!(westwood.on_ecn(&loss(30.0), &window), Reduction::to(20.0, 20.0));
    }

    #[test]
    fn an_hour_of_silence_costs_no_time() {
        let mut westwood = Westwood::new(&Params { tau: 0.001, ..Params::default() });
        westwood.bandwidth = 1e9;
        westwood.filter_silence(3600.0);
        assert_eq!(westwood.bandwidth, 0.0);
    }
}
