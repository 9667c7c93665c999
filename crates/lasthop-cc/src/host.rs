//! The state around a controller at a sender: lower bounds of its windows, one reduction per window of data, the
//! restart after a pause, and the memory for undoing a spurious reduction.
//!
//! `TcpSender` in `lasthop-net` works through a [`Host`], and so can a driver that only steers flows that another TCP
//! sends, such as a daemon beside a kernel: it feeds what the kernel reports and writes back the [`Decision`]. It uses
//! no clock, packet or socket, and allocates nothing per ACK. The sender detects and repairs losses. A flow costs
//! `size_of::<Host>()` bytes (a test below holds them), one more box while a reduction may be undone, and what its
//! controller keeps on the heap: nothing for most.
//!
//! ```
//! use lasthop_cc::host::{Floors, Host, KERNEL, unwrap32};
//! use lasthop_cc::{AckSample, ControllerConfig, LossSample, Window};
//! use lasthop_core::time::{Span, Time};
//!
//! let veno = ControllerConfig::by_name("veno").unwrap();
//! assert!(veno.needs().unmet(KERNEL).is_empty());
//! // A law that lives on what its own receiver measures is refused by name.
//! let real = ControllerConfig::by_name("tcp-real").unwrap();
//! assert_eq!(real.needs().unmet(KERNEL), ["waves"]);
//!
//! // A new flow: the kernel reports its 32-bit sequence numbers, which wrap.
//! let mut flow = Host::new(&veno, Floors::Rfc, Window { cwnd: 10.0, ssthresh: f64::INFINITY });
//! let (una, next) = (0xffff_fa50, 0x0000_2000);
//! let una = unwrap32(1 << 32, una);
//! let next = unwrap32(una, next);
//! assert_eq!(next - una, 9648);
//! let now = Time::ZERO + Span::from_secs(7);
//! let rtt = Span::from_millis(40);
//! let ack = AckSample {
//!     now,
//!     elapsed: rtt,
//!     rtt: Some(rtt),
//!     srtt: rtt,
//!     acked: 1,
//!     una,
//!     next,
//!     mss: 1448,
//!     may_grow: true,
//!     disordered: false,
//! };
//! assert_eq!(flow.acked(&ack).cwnd, 11);
//! // The kernel has entered recovery: at most one cut for all that was sent until now.
//! let loss = LossSample { now, flight: 11.0, retransmitted: false, truth: None };
//! let decision = flow.lost(&loss, una, next).unwrap();
//! assert!(decision.cwnd < 11);
//! assert_eq!(flow.lost(&loss, una + 1448, next), None);
//! ```

use lasthop_core::time::{Span, Time};

use crate::whole::three_quarters;
use crate::{
    AckSample, Arrival, CongestionControl, Controller, ControllerConfig, LossSample, LostSegment, Needs,
    ProbeSample, RateSample, Reduction, Signal, Start, Window,
};

/// What a daemon beside an unchanged kernel can serve: what ACKs, timers and rate samples of the kernel tell, and
/// pacing. It has no receiver of its own, sends no probes and does not move the timers.
pub const KERNEL: Needs = Needs {
    arrivals: true,
    rate: true,
    pacing: true,
    receive_times: false,
    timestamp_times: true,
    discards: false,
    waves: false,
    signals: true,
    timing: false,
    probing: false,
    exact_marks: false,
    history: Some(u16::MAX),
    truth: false,
    classifies: true,
    fractions: true,
};

/// How an answer of a controller becomes a window, where the habits of senders differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
    /// Two segments after a reduction; repeated timeouts of the same data leave ssthresh alone (RFC 5681 §3.1).
    Rfc,
    /// ns-2: ssthresh is an integer, a loss or a mark may leave less than a segment of cwnd, with which nothing is sent
    /// before the next timeout, a mark in a recovery halves its inflated window, and every timeout lowers both.
    Ns2,
    /// Linux: as `Rfc`, in whole segments. What a law adds beyond them is counted until it makes one (`snd_cwnd_cnt`).
    Linux,
}

/// Sums of fractions, such as ten tenths, are whole up to this.
const ROUNDING: f64 = 1e-6;

/// What a sender is to do: windows in whole segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Most segments in flight, at least 1.
    pub cwnd: u32,
    /// Slow start threshold; `u32::MAX` when unknown.
    pub ssthresh: u32,
    /// Segments per second at which to send, if the law paces.
    pub pacing: Option<f64>,
}

/// A controller and its window as they were before a reduction.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The window.
    pub window: Window,
    controller: Controller,
}

/// A controller with what stands around it, for one flow. Sequence numbers count bytes and do not wrap
/// ([`unwrap32`]); windows count segments.
#[derive(Clone, Debug)]
pub struct Host {
    /// The window. Recovery moves cwnd as well: by inflation, by PRR, by what is left after a timeout.
    pub window: Window,
    controller: Controller,
    needs: Needs,
    floors: Floors,
    initial_window: f64,
    /// Linux: segments that count towards the next one of the window.
    credit: f64,
    /// The cwnd of the last reduction; infinite if it was undone. A law may set ssthresh above it, and recovery must
    /// not end with more.
    reduced_to: f64,
    /// Everything below was sent before the last reduction (`RecoveryPoint` of RFC 6675).
    pub recover: u64,
}

impl Host {
    /// A flow whose connection has just been opened with this window.
    pub fn new(controller: &ControllerConfig, floors: Floors, window: Window) -> Host {
        let controller = controller.build();
        Host {
            window,
            needs: controller.needs(),
            controller,
            floors,
            initial_window: window.cwnd,
            credit: 0.0,
            reduced_to: f64::INFINITY,
            recover: 0,
        }
    }

    /// What the controller asked for.
    #[inline]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// What to do now.
    pub fn decision(&self) -> Decision {
        Decision {
            // Saturates, and an infinite threshold becomes the greatest.
            cwnd: (self.window.cwnd as u32).max(1),
            ssthresh: self.window.ssthresh as u32,
            pacing: self.controller.pacing_rate(),
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Events, as a daemon reports them

    /// New data was acknowledged.
    pub fn acked(&mut self, ack: &AckSample) -> Decision {
        self.grow(ack);
        self.decision()
    }

    /// An ACK, new or duplicate, has been processed, and this is what it says about the delivery rate.
    pub fn sampled(&mut self, sample: &RateSample) -> Decision {
        self.rate(sample);
        self.decision()
    }

    /// A loss was found by duplicate ACKs or SACK, with everything below `una` acknowledged and everything below `next`
    /// sent. `None`: the window of data has paid already.
    pub fn lost(&mut self, loss: &LossSample, una: u64, next: u64) -> Option<Decision> {
        if !self.is_new_window(una) {
            return None;
        }
        let reduction = self.answer_loss(loss);
        self.reduce(reduction);
        self.recover = next;
        Some(self.decision())
    }

    /// A congestion mark was echoed by an ACK of `ack`. `None`: the window of data has paid already (RFC 3168 §6.1.2).
    pub fn marked(&mut self, mark: &LossSample, ack: u64, next: u64) -> Option<Decision> {
        if !self.is_new_window(ack) {
            return None;
        }
        self.answer_mark(mark, next);
        Some(self.decision())
    }

    /// The retransmission timer expired with everything below `una` acknowledged. The window is that for starting over.
    pub fn timed_out(&mut self, loss: &LossSample, repeated: bool, next: u64) -> Decision {
        self.answer_timeout(loss, repeated);
        self.recover = next;
        self.decision()
    }

    /// The sender starts again after sending nothing for `idle`; `timeout` is that of its retransmission timer.
    pub fn idle(&mut self, idle: Span, timeout: Span, now: Time) -> Decision {
        // RFC 5681 §4.1: the ACK clock is gone. A law that sets the window from the delivery rate paces instead (Linux
        // agrees).
        if idle > timeout && !self.needs.rate {
            if self.floors == Floors::Linux {
                self.halve_for_idleness(idle, timeout);
            } else {
                self.window.cwnd = self.window.cwnd.min(self.initial_window);
            }
        }
        self.controller.on_idle(idle, now);
        self.decision()
    }

    /// Linux (`tcp_cwnd_restart`): half the window for each timeout that has passed, down to the initial one, and slow
    /// start up to three quarters of what it was.
    fn halve_for_idleness(&mut self, idle: Span, timeout: Span) {
        let least = self.initial_window.min(self.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(three_quarters(self.window.cwnd));
        let mut left = idle - timeout;
        while left > Span::ZERO && self.window.cwnd > least {
            self.window.cwnd = (self.window.cwnd / 2.0).floor();
            left = left - timeout;
        }
        self.window.cwnd = self.window.cwnd.max(least);
    }

    /// The reduction since `before` answered a loss that there was not: the window is as it was, or as it has become.
    pub fn undo(&mut self, before: Memory) -> Decision {
        self.window.cwnd = self.window.cwnd.max(before.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(before.window.ssthresh);
        if self.floors == Floors::Linux {
            self.window.ssthresh = self.window.ssthresh.max(three_quarters(before.window.cwnd));
        }
        self.undo_controller(before);
        self.decision()
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Their parts, for a sender that repairs losses itself

    /// The handshake is done: data starts with the initial window, or with what the controller makes of it.
    pub fn start(&mut self, start: &Start<'_>) {
        self.window.cwnd = self.initial_window;
        self.controller.on_start(start, &mut self.window);
    }

    /// RFC 5681 §3.1: after a lost SYN the initial window is one segment.
    pub fn pay_for_syn(&mut self) {
        self.initial_window = 1.0;
    }

    /// The window that data starts with, in segments.
    pub fn initial_window(&self) -> f64 {
        self.initial_window
    }

    /// Tells the controller about an ACK of new data.
    #[inline]
    pub fn grow(&mut self, ack: &AckSample) {
        let before = self.window.cwnd;
        self.controller.on_ack(ack, &mut self.window);
        if self.counts_whole() && self.window.cwnd != before {
            self.grow_whole(before);
        }
    }

    /// Whether windows are whole segments. A law that sets the window from the delivery rate rounds by itself.
    #[inline]
    fn counts_whole(&self) -> bool {
        self.floors == Floors::Linux && !self.needs.rate && !self.needs.fractions
    }

    /// A law has moved the window from `before`: it moves by whole segments, and the rest of a growth is kept as the
    /// acknowledged segments that it stands for.
    fn grow_whole(&mut self, before: f64) {
        let before = before.floor();
        let added = self.window.cwnd - before;
        let whole = (added + ROUNDING).floor();
        let cwnd = before + whole;
        self.credit += (added - whole).max(0.0) * cwnd;
        let steps = ((self.credit + ROUNDING) / cwnd.max(1.0)).floor();
        self.credit -= steps * cwnd;
        self.window.cwnd = cwnd + steps;
    }

    /// The reduction of an episode has been carried out.
    pub fn reduced(&mut self) {
        self.controller.on_reduced();
    }

    /// Tells the controller the RTT of a segment that was SACKed.
    pub fn sacked(&mut self, sample: &AckSample) {
        self.controller.on_sacked(sample, &mut self.window);
    }

    /// Tells the controller about any ACK before anything is done about it.
    #[inline]
    pub fn arrive(&mut self, arrival: &Arrival) {
        self.controller.on_arrival(arrival, &mut self.window);
    }

    /// Tells the controller a delivery rate.
    pub fn rate(&mut self, sample: &RateSample) {
        self.controller.on_rate(sample, &mut self.window);
    }

    /// Tells the controller of a segment that was found lost.
    pub fn lost_segment(&mut self, lost: &LostSegment) {
        self.controller.on_lost_segment(lost, &self.window);
    }

    /// Whether the data that ends at `una` was sent after the last reduction.
    #[inline]
    pub fn is_new_window(&self, una: u64) -> bool {
        una > self.recover
    }

    /// The controller's answer to a loss.
    pub fn answer_loss(&mut self, loss: &LossSample) -> Reduction {
        self.controller.on_loss(loss, &self.window)
    }

    /// Applies a reduction, with the floors.
    pub fn reduce(&mut self, reduction: Reduction) {
        self.lower_ssthresh(reduction);
        let least = if self.floors == Floors::Ns2 { 0.0 } else { 2.0 };
        let cwnd = if self.counts_whole() { (reduction.cwnd + ROUNDING).floor() } else { reduction.cwnd };
        self.window.cwnd = cwnd.max(least);
        self.reduced_to = cwnd.max(2.0);
    }

    /// Applies the threshold of a reduction alone.
    pub fn lower_ssthresh(&mut self, reduction: Reduction) {
        let ssthresh = match self.floors {
            Floors::Rfc => reduction.ssthresh,
            Floors::Ns2 => reduction.ssthresh.trunc(),
            Floors::Linux => (reduction.ssthresh + ROUNDING).floor(),
        };
        self.window.ssthresh = ssthresh.max(2.0);
        self.credit = 0.0;
    }

    /// The window that recovery ends with at most.
    pub fn ceiling(&self) -> f64 {
        self.window.ssthresh.min(self.reduced_to)
    }

    /// Reduces for a mark, and never raises the window by that. Everything below `next` has been sent.
    pub fn answer_mark(&mut self, mark: &LossSample, next: u64) {
        let before = self.window.cwnd;
        self.recover = next;
        let reduction = self.controller.on_ecn(mark, &self.window);
        self.reduce(reduction);
        self.window.cwnd = match self.floors {
            Floors::Rfc | Floors::Linux => self.window.cwnd.max(1.0).min(before),
            // In a recovery the window is more than cwnd.
            Floors::Ns2 => self.window.cwnd.min(before.max(mark.flight)),
        };
    }

    /// Reduces for a timeout and returns the controller's answer. `repeated`: the data of the last one is still not
    /// acknowledged.
    pub fn answer_timeout(&mut self, loss: &LossSample, repeated: bool) -> Reduction {
        let reduction = self.controller.on_timeout(loss, &self.window);
        if self.floors == Floors::Ns2 || !repeated {
            self.lower_ssthresh(reduction);
        }
        self.window.cwnd = reduction.cwnd.clamp(1.0, self.window.cwnd.max(1.0));
        if self.counts_whole() {
            self.window.cwnd = self.window.cwnd.floor();
        }
        reduction
    }

    /// Window and controller as they are, to come back to.
    pub fn remember(&self) -> Memory {
        Memory { window: self.window, controller: self.controller.clone() }
    }

    /// The controller goes back to what it was; the window is the caller's.
    pub fn undo_controller(&mut self, before: Memory) {
        self.reduced_to = f64::INFINITY;
        self.controller.on_undo(before.controller);
    }

    /// Another layer says something.
    pub fn signal(&mut self, signal: &Signal, now: Time) {
        self.controller.on_signal(signal, now);
    }

    /// Two probes in a row were answered.
    pub fn probed(&mut self, probes: &ProbeSample) {
        self.controller.on_probes(probes);
    }

    /// The law, for what a sender asks of it alone: its pace, and what it does to timers.
    #[inline]
    pub fn law(&self) -> &Controller {
        &self.controller
    }

    /// The same, for questions that teach it something.
    #[inline]
    pub fn law_mut(&mut self) -> &mut Controller {
        &mut self.controller
    }
}

/// The sequence number whose low 32 bits are `low`, as near to `near` as can be: exact while they are less than 2^31
/// apart.
#[inline]
pub fn unwrap32(near: u64, low: u32) -> u64 {
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    // Below zero there is nothing: then it lies ahead.
    near.checked_add_signed(ahead.into()).unwrap_or(u64::from(low))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{ack, loss};

    fn host(name: &str, floors: Floors) -> Host {
        let controller = ControllerConfig::by_name(name).unwrap();
        Host::new(&controller, floors, Window { cwnd: 10.0, ssthresh: 5.0 })
    }

    /// RFC 5681 by hand: W = 10, T = 5; ten ACKs add a segment; 11 outstanding when a loss is found.
    #[test]
    fn a_window_of_data_pays_once() {
        let mut host = host("reno", Floors::Rfc);
        for _ in 0..10 {
            host.acked(&ack(1));
        }
        // 10 + 1/10 + 1/10.1 + ... = 10.96.
        assert_eq!(host.decision(), Decision { cwnd: 10, ssthresh: 5, pacing: None });
        assert_eq!(host.acked(&ack(1)).cwnd, 11);
        let halved = Decision { cwnd: 5, ssthresh: 5, pacing: None };
        assert_eq!(host.lost(&loss(11.0), 5000, 16_000), Some(halved), "11 / 2 = 5.5");
        assert_eq!(host.lost(&loss(11.0), 16_000, 20_000), None, "the same window");
        assert_eq!(host.marked(&loss(5.5), 16_000, 20_000), None, "for a mark neither");
        let again = host.marked(&loss(5.5), 16_001, 20_000);
        assert_eq!(again.map(|decision| decision.cwnd), Some(2), "5.5 / 2 = 2.75");
    }

    /// ns-2 2.35 with cwnd set to 1 before the third duplicate ACK: 0.5, and a threshold of 2.
    #[test]
    fn half_a_segment_is_left_in_ns2() {
        for (floors, cwnd) in [(Floors::Rfc, 2.0), (Floors::Ns2, 0.5)] {
            let mut host = host("reno", floors);
            host.window.cwnd = 1.0;
            host.lost(&loss(1.0), 1000, 2000);
            assert_eq!(host.window, Window { cwnd, ssthresh: 2.0 }, "{floors:?}");
        }
    }

    /// ns-2 2.35: a mark halves the usable window, whatever is left of it: 0.5 of one segment; and in a recovery whose
    /// inflation counts, 8 of 16 while cwnd alone was 6.
    #[test]
    fn a_mark_has_no_floor_in_ns2() {
        for (floors, least, inflated) in [(Floors::Rfc, 1.0, 6.0), (Floors::Ns2, 0.5, 8.0)] {
            let mut host = host("reno", floors);
            host.window.cwnd = 1.0;
            host.marked(&loss(1.0), 1000, 2000);
            assert_eq!(host.window, Window { cwnd: least, ssthresh: 2.0 }, "{floors:?}");
            host.window.cwnd = 6.0;
            host.marked(&loss(16.0), 3000, 4000);
            assert_eq!(host.window, Window { cwnd: inflated, ssthresh: 8.0 }, "{floors:?}");
        }
    }

    /// RFC 5681 §3.1: the first timeout halves ssthresh, and the next of the same data leaves it; in ns-2 it does not.
    #[test]
    fn repeated_timeouts_lower_the_threshold_once() {
        for (floors, thresholds) in [(Floors::Rfc, [5, 5]), (Floors::Ns2, [5, 2])] {
            let mut host = host("reno", floors);
            let first = host.timed_out(&loss(10.0), false, 1000);
            assert_eq!((first.cwnd, first.ssthresh), (1, thresholds[0]), "{floors:?}");
            let second = host.timed_out(&loss(4.0), true, 1000);
            assert_eq!((second.cwnd, second.ssthresh), (1, thresholds[1]), "{floors:?}");
        }
    }

    /// With three segments in flight half is 1.5: the RFCs stop at two segments, ns-2 keeps it and a whole
    /// ssthresh.
    #[test]
    fn floors_hold() {
        for (floors, cwnd) in [(Floors::Rfc, 2.0), (Floors::Ns2, 1.5)] {
            let mut host = host("reno", floors);
            host.reduce(Reduction::to(1.5, 1.5));
            assert_eq!(host.window, Window { cwnd, ssthresh: 2.0 }, "{floors:?}");
            host.lower_ssthresh(Reduction::to(7.5, 7.5));
            let ssthresh = if floors == Floors::Ns2 { 7.0 } else { 7.5 };
            assert_eq!(host.window.ssthresh, ssthresh, "{floors:?}");
        }
    }

    #[test]
    fn a_pause_longer_than_the_timeout_costs_the_window() {
        let mut host = host("reno", Floors::Rfc);
        host.window.cwnd = 40.0;
        let second = Span::from_secs(1);
        assert_eq!(host.idle(second, second, Time::ZERO).cwnd, 40);
        assert_eq!(host.idle(second * 2, second, Time::ZERO).cwnd, 10, "the initial window");
        let mut paced = self::host("bbr", Floors::Rfc);
        paced.window.cwnd = 40.0;
        assert_eq!(paced.idle(second * 2, second, Time::ZERO).cwnd, 40, "it paces instead");
    }

    #[test]
    fn a_reduction_that_answered_nothing_is_undone() {
        let mut host = host("cubic", Floors::Rfc);
        let before = host.remember();
        host.lost(&loss(10.0), 1, 10_000).unwrap();
        assert!(host.window.cwnd < 10.0);
        let decision = host.undo(before);
        assert_eq!((decision.cwnd, host.window.ssthresh), (10, 7.0), "0.7 of 10 is above the old threshold");
        assert_eq!(host.ceiling(), 7.0);
    }

    #[test]
    fn a_kernel_refuses_by_name() {
        let unmet = |name: &str| ControllerConfig::by_name(name).unwrap().needs().unmet(KERNEL);
        for name in ["reno", "cubic", "vegas", "veno", "westwood+", "bbr"] {
            assert_eq!(unmet(name), [""; 0], "{name}");
        }
        assert_eq!(unmet("dctcp"), ["exact_marks"]);
        assert_eq!(unmet("probing"), ["probing"]);
        assert_eq!(unmet("tcp-real"), ["waves"]);
        assert!(unmet("wsc").contains(&"timing"));
        assert!(unmet("jtcp").contains(&"receive_times"));
        let nothing = Needs { history: Some(3), ..Needs::default() };
        assert_eq!(nothing.unmet(Needs::default()), ["history"]);
    }

    /// Ten thousand flows take five megabytes.
    #[test]
    fn a_flow_is_small() {
        let bytes = size_of::<Host>();
        assert!(bytes <= 192, "{bytes}");
    }

    #[test]
    fn numbers_unwrap_at_the_border() {
        assert_eq!(unwrap32(0, 5), 5);
        assert_eq!(unwrap32(0xffff_fff0, 0x10), 0x1_0000_0010);
        assert_eq!(unwrap32(0x1_0000_0010, 0xffff_fff0), 0xffff_fff0);
        assert_eq!(unwrap32(10, 0xffff_fff0), 0xffff_fff0, "there is nothing below zero");
    }

    proptest! {
        /// Whatever is less than 2^31 away from what is known unwraps to itself.
        #[test]
        fn unwrapping_inverts_wrapping(near in 0u64..1 << 48, ahead in i32::MIN + 1..=i32::MAX) {
            if let Some(sequence) = near.checked_add_signed(ahead.into()) {
                prop_assert_eq!(unwrap32(near, sequence as u32), sequence);
            }
        }
    }
}
