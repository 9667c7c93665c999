//! TIBET: Westwood's reaction with a bandwidth estimate that bursts do not bias (Capone, Fratta & Martignon, IEEE TMC
//! 3(2) 2004).
//!
//! *What it does.* It averages the data that ACKs deliver and the time between them separately; the quotient of the
//! averages, smoothed once more with a memory in time, is the bandwidth. At a loss ssthresh becomes bandwidth times
//! the minimum RTT and cwnd falls to it if it is larger; the window grows like Reno's.
//! *Reacts to* loss and ECN, both with the bandwidth.
//! *Differs from the paper:* the method is restated from its description; the constants (`memory`, `time_constant`)
//! are not confirmed, the second equals Westwood's tau so that the two compare. The ACK stream is measured, not the
//! stream of transmissions, which is the paper's other option and the same in the long run.
//! *Validation:* TV-4.7, worked by hand; the reductions with Westwood's TV-4.4.
//! *Limitations:* no other implementation is public. The first ACK only starts the clock.
//! *Kernel counterpart:* none.
//! *References:* Capone, Fratta & Martignon, IEEE Transactions on Mobile Computing 3(2) 2004.

use crate::bandwidth::{Counting, Meter, MeterStyle};
use crate::params::params;
use crate::{AckSample, Arrival, CongestionControl, GrowthStyle, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Window after a loss: bandwidth x minimum RTT, averaged without bias (Capone et al. 2004)";

params! {
    /// Share of the old average in the averages of data and of time
    memory: f64 = 0.99, 0.0..=0.9999;
    /// Time constant of the second filter, in seconds
    time_constant: f64 = 0.5, 0.001..=1000.0;
    /// ACKs closer than this (s) are one sample
    defer: f64 = 1e-5, 1e-9..=1.0;
    /// Segments that an ACK stands for after duplicates: as corrected, or as published
    counting: Counting = Counting::Fixed, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// State of TIBET.
#[derive(Clone, Debug)]
pub struct Tibet {
    params: Params,
    meter: Meter,
    /// Average data of an ACK in bits, and average time between two in seconds; zero before the first.
    length: f64,
    interval: f64,
    /// Estimated bandwidth in bits per second.
    bandwidth: f64,
}

impl Tibet {
    pub(crate) fn new(params: &Params) -> Self {
        Tibet { params: params.clone(), meter: Meter::new(), length: 0.0, interval: 0.0, bandwidth: 0.0 }
    }

    /// An ACK of `bits` after `seconds`.
    fn learn(&mut self, bits: f64, seconds: f64) {
        if self.interval == 0.0 {
            (self.length, self.interval) = (bits, seconds);
            self.bandwidth = bits / seconds;
            return;
        }
        let memory = self.params.memory;
        self.length = memory * self.length + (1.0 - memory) * bits;
        self.interval = memory * self.interval + (1.0 - memory) * seconds;
        let kept = libm::exp(-self.interval / self.params.time_constant);
        self.bandwidth = (1.0 - kept) * self.raw() + kept * self.bandwidth;
    }

    /// The quotient of the averages.
    fn raw(&self) -> f64 {
        self.length / self.interval
    }
}

impl CongestionControl for Tibet {
    fn needs(&self) -> Needs {
        Needs { arrivals: true, ..Needs::default() }
    }

    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        let Params { counting, defer, .. } = self.params;
        let style = MeterStyle { counting, count_limit: f64::INFINITY, defer };
        if let Some((segments, seconds)) = self.meter.sample(arrival, style) {
            self.learn(segments * self.meter.segment_bits(), seconds);
        }
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

    /// TV-4.7: from averages of 8000 bits and 10 ms and an estimate of 800 kbit/s.
    #[test]
    fn data_and_time_are_averaged_apart() {
        let mut tibet = Tibet::new(&Params::default());
        (tibet.length, tibet.interval, tibet.bandwidth) = (8000.0, 0.01, 800_000.0);
        for (bits, seconds, raw, bandwidth) in [
            (8000.0, 0.005, 804_020.10, 800_079.21),
            (8000.0, 0.005, 808_040.00, 800_235.29),
            (16_000.0, 0.020, 807_879.22, 800_386.67),
        ] {
            tibet.learn(bits, seconds);
            close(tibet.raw(), raw, 2);
            close(tibet.bandwidth, bandwidth, 2);
        }
    }

    /// The first two ACKs give the first averages; TV-4.4 what a loss then leaves.
    #[test]
    fn a_loss_leaves_bandwidth_times_rtt() {
        let mut tibet = Tibet::new(&Params::default());
        let mut window = Window { cwnd: 30.0, ssthresh: 64.0 };
        tibet.on_arrival(&arrival(0.0, 10, 11), &mut window);
        tibet.on_arrival(&arrival(0.01, 11, 13), &mut window);
        close(tibet.bandwidth, 1.6e6, 3);
        tibet.meter.rtt_min = 0.1;
        assert!((tibet.on_loss(&loss(30.0), &window).cwnd - 20.0).abs() < 1e-9);
        assert!((tibet.on_ecn(&loss(30.0), &window).cwnd - 20.0).abs() < 1e-9);
        assert_eq!(tibet.on_timeout(&loss(30.0), &window).cwnd, 1.0);
        window.cwnd = 12.0;
        assert_eq!(tibet.on_loss(&loss(12.0), &window).cwnd, 12.0, "never raised");
    }
}
