//! What is measured while the run goes on, without a trace: counters, delays, percentiles, jitter.
//!
//! Links, senders and receivers each own their part and fill it as things happen; `lasthop-sim` makes the
//! summary. All of it takes the time of an occurrence as an argument, because links are evaluated ahead of
//! the clock.

use lasthop_core::packet::{Cause, Drops, Packet};
use lasthop_core::prefetch::prefetch;
use lasthop_core::time::{Span, Time};

use crate::plan::Percentiles;
use crate::realtime::Realtime;
use crate::trace::{Bins, flow_column};

mod class;
mod durations;

pub use class::{ClassStats, Mean, Means};
pub use durations::Durations;

/// The measurement window `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// End of the warm-up.
    pub from: Time,
    /// End of the run.
    pub to: Time,
}

impl Window {
    /// Whether something at `time` counts.
    #[inline]
    pub fn contains(&self, time: Time) -> bool {
        self.from <= time && time < self.to
    }

    /// Nanoseconds of `[start, end)` within the window.
    #[inline]
    pub fn overlap(&self, start: Time, end: Time) -> u64 {
        end.0.min(self.to.0).saturating_sub(start.0.max(self.from.0))
    }

    /// Length of the window.
    pub fn length(&self) -> Span {
        self.to.since(self.from)
    }
}

/// Jitter of consecutive received packets in arrival order: its mean, and the running estimate of RFC 3550 §6.4.1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    last_sent: Time,
    last_received: Time,
    packets: u64,
    sum: u64,
    /// Sixteen times the running value of RFC 3550 in nanoseconds. An integer, because on a steady path a float would
    /// decay into the denormal numbers, which cost a hundred cycles each.
    running16: u64,
}

impl Jitter {
    /// A packet sent at `sent` arrived at `received`.
    #[inline]
    pub fn add(&mut self, sent: Time, received: Time) {
        if self.packets > 0 {
            let gap_received = received.0 as i64 - self.last_received.0 as i64;
            let gap_sent = sent.0 as i64 - self.last_sent.0 as i64;
            let deviation = (gap_received - gap_sent).unsigned_abs();
            self.sum += deviation;
            // Added before it is reduced: a steady path lowers the value.
            self.running16 = self.running16 + deviation - (self.running16 >> 4);
        }
        self.packets += 1;
        self.last_sent = sent;
        self.last_received = received;
    }

    /// Mean |J| in seconds.
    pub fn mean_seconds(&self) -> Option<f64> {
        (self.packets > 1).then(|| self.sum as f64 / (self.packets - 1) as f64 / 1e9)
    }

    /// The running value of RFC 3550 in seconds.
    pub fn rfc3550_seconds(&self) -> Option<f64> {
        (self.packets > 1).then_some(self.running16 as f64 / 16e9)
    }
}

/// Records of arrivals and deliveries that only some runs and flows need.
#[derive(Clone, Debug, Default)]
pub struct Observers {
    /// Arrivals and deliveries over time, if a series is recorded.
    pub bins: Option<Bins<{ flow_column::COUNT }>>,
    /// Real-time metrics, if the flow is measured so.
    pub realtime: Option<Realtime>,
}

/// What a flow's receiver saw, and what its packets met, within the window. What every packet touches comes first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct FlowStats {
    /// Payload bytes handed to the application in order, once.
    pub bytes_delivered: u64,
    /// Wire bytes of forward packets that arrived.
    pub bytes_received: u64,
    /// Jitter of arriving packets.
    pub jitter: Jitter,
    /// Packets of the reverse direction sent.
    pub acks_sent: u64,
    /// First transmission to first arrival of each sequence range.
    pub delay: Durations,
    /// Those that watch this flow, if any: one test for the flows that are not watched.
    observers: Option<Box<Observers>>,
    /// Forward packets lost, by cause.
    pub lost: Drops,
    /// Reverse packets lost, by cause.
    pub acks_lost: Drops,
}

impl Observers {
    fn deliver(&mut self, now: Time, bytes: u64) {
        if let Some(bins) = &mut self.bins {
            bins.add(now, flow_column::DELIVERED, bytes);
        }
        if let Some(realtime) = &mut self.realtime {
            realtime.deliver(now, bytes);
        }
    }

    fn send(&mut self, now: Time, packet: &Packet) {
        let Some(realtime) = &mut self.realtime else { return };
        let first = realtime.send(packet, now);
        if let Some(bins) = &mut self.bins {
            bins.add(now, flow_column::SENT, first);
        }
    }

    /// Few flows are observed: the way of the others stays short.
    #[inline(never)]
    fn arrive(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool) {
        self.receive(now, packet, first_sent, fresh);
        self.unpack(now, packet, first_sent, fresh);
    }

    fn receive(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool) {
        let Some(bins) = &mut self.bins else { return };
        bins.add(now, flow_column::RECEIVED, u64::from(packet.bytes));
        if fresh {
            bins.add(now, flow_column::ARRIVED, 1);
            bins.add(now, flow_column::DELAY, now.since(first_sent).0);
        }
    }

    fn unpack(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool) {
        let Some(realtime) = &mut self.realtime else { return };
        let (settled, timely) = realtime.arrive(now, packet, first_sent, fresh);
        if let Some(bins) = &mut self.bins {
            bins.add(now, flow_column::SETTLED, settled);
            bins.add(now, flow_column::TIMELY, timely);
        }
    }

    fn lose(&mut self, at: Time, packet: &Packet, cause: Cause) {
        // What is held back is no loss to a viewer.
        let realtime = self.realtime.as_mut().filter(|_| cause != Cause::Withheld);
        let settled = realtime.map_or(0, |realtime| realtime.lose(packet));
        if let Some(bins) = &mut self.bins {
            bins.add(at, flow_column::LOST, 1);
            bins.add(at, flow_column::SETTLED, settled);
        }
    }
}

impl FlowStats {
    /// Empty counters.
    pub fn new(percentiles: Percentiles) -> FlowStats {
        FlowStats {
            bytes_delivered: 0,
            bytes_received: 0,
            jitter: Jitter::default(),
            acks_sent: 0,
            delay: Durations::new(percentiles),
            observers: None,
            lost: Drops::default(),
            acks_lost: Drops::default(),
        }
    }

    /// Asks for what every packet touches.
    pub(crate) fn prepare(&self) {
        prefetch(&self.bytes_delivered);
        prefetch(&self.delay);
    }

    /// Has the flow watched as well.
    pub fn observe(&mut self, observers: Observers) {
        self.observers = Some(Box::new(observers));
    }

    /// Arrivals and deliveries over time, if a series is recorded.
    pub(crate) fn bins_mut(&mut self) -> Option<&mut Bins<{ flow_column::COUNT }>> {
        self.observers.as_mut()?.bins.as_mut()
    }

    /// Real-time metrics, if the flow is measured so.
    pub fn realtime(&self) -> Option<&Realtime> {
        self.observers.as_ref()?.realtime.as_ref()
    }

    /// The network has lost a packet of the sender `at` this time.
    pub fn lose(&mut self, at: Time, packet: &Packet, cause: Cause) {
        if let Some(observers) = &mut self.observers {
            observers.lose(at, packet, cause);
        }
    }

    /// Real-time metrics, to be told of something.
    pub fn realtime_mut(&mut self) -> Option<&mut Realtime> {
        self.observers.as_mut()?.realtime.as_mut()
    }

    /// The sender of a flow that is measured in real time sends a packet at `now`.
    pub fn send(&mut self, now: Time, packet: &Packet) {
        if let Some(observers) = &mut self.observers {
            observers.send(now, packet);
        }
    }

    /// `bytes` of new in-order data reached the application at `now`.
    #[inline]
    pub fn deliver(&mut self, now: Time, bytes: u64, window: &Window) {
        if window.contains(now) {
            self.bytes_delivered += bytes;
        }
        // Last, so that nothing has to be kept over the call.
        if let Some(observers) = &mut self.observers {
            observers.deliver(now, bytes);
        }
    }

    /// A forward packet arrived whose range was sent for the first time at `first_sent`; `fresh` if it was not here
    /// before.
    #[inline]
    pub fn arrive(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool, window: &Window) {
        self.count(now, packet, first_sent, fresh, window);
        if let Some(observers) = &mut self.observers {
            observers.arrive(now, packet, first_sent, fresh);
        }
    }

    /// The same of a packet of which its ends alone know what it carries: [`FlowStats::unpack`] tells.
    pub fn arrive_sealed(&mut self, now: Time, packet: &Packet, fresh: bool, window: &Window) {
        self.count(now, packet, packet.stamp, fresh, window);
        if let Some(observers) = &mut self.observers {
            observers.receive(now, packet, packet.stamp, fresh);
        }
    }

    /// The range of a packet that has arrived, for real-time metrics.
    pub fn unpack(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool) {
        if let Some(observers) = &mut self.observers {
            observers.unpack(now, packet, first_sent, fresh);
        }
    }

    #[inline]
    fn count(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool, window: &Window) {
        if window.contains(now) {
            self.bytes_received += u64::from(packet.bytes);
            self.jitter.add(packet.stamp, now);
            if fresh {
                self.delay.add(now.since(first_sent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-8.3.
    #[test]
    fn jitter_of_known_transit_times() {
        let mut jitter = Jitter::default();
        let millis = |value: u64| Time::ZERO + Span::from_millis(value);
        let mut running = Vec::new();
        for (sent, received) in [(0, 50), (20, 72), (40, 88), (60, 125), (80, 130)] {
            jitter.add(millis(sent), millis(received));
            running.extend(jitter.rfc3550_seconds().map(|value| (value * 1e9).round() / 1e3));
        }
        assert_eq!(jitter.mean_seconds(), Some(0.0095));
        assert_eq!(running, [125.0, 367.188, 1406.738, 2256.317]);
    }

    #[test]
    fn jitter_decays_on_a_steady_path() {
        let mut jitter = Jitter::default();
        jitter.add(Time(0), Time(100));
        jitter.add(Time(10), Time(1710));
        for step in 2..1000 {
            jitter.add(Time(10 * step), Time(1700 + 10 * step));
        }
        assert!(jitter.rfc3550_seconds() < Some(1.5e-9), "{:?}", jitter.rfc3550_seconds());
    }

    #[test]
    fn the_window_clips() {
        let window = Window { from: Time(10), to: Time(20) };
        assert_eq!(window.overlap(Time(5), Time(15)), 5);
        assert_eq!(window.overlap(Time(0), Time(100)), 10);
        assert_eq!(window.overlap(Time(20), Time(30)), 0);
        assert!(!window.contains(Time(20)));
    }
}
