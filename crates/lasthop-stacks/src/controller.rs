//! Our controllers in quinn: its `Controller` trait driven by a [`Host`] of `lasthop-cc`.
//!
//! quinn tells a controller of bytes, not of packets, and paces by the window alone. So a law that samples the
//! delivery rate, paces, moves timers or needs a receiver of its own is refused by name. What the others lose: a
//! reduction is never undone, as quinn does not say that a loss was none; the RTT contains the wait of delayed ACKs;
//! and a timeout is known only as persistent congestion (RFC 9002 §7.6).

use std::any::Any;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lasthop::{Span, Time};
use lasthop_cc::host::{Floors, Host};
use lasthop_cc::{AckSample, Arrival, ControllerConfig, LossKind, LossSample, Start, Window};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// RFC 9002 §7.2: ten packets, but no more than 14,720 bytes and no less than two packets.
const INITIAL_PACKETS: u64 = 10;
const INITIAL_BYTES: u64 = 14_720;
/// RFC 9002 §7.2: the least window, in packets.
const LEAST_PACKETS: u64 = 2;

/// A controller of ours that quinn can drive: the scenario has refused all others
/// ([`lasthop_sim::scenario::Stack::controller`]).
#[derive(Clone, Debug)]
pub struct Ours {
    config: ControllerConfig,
    beliefs: Beliefs,
}

/// What a controller took losses for, if it tells kinds of them apart: when the packet had been sent, and the kind.
/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beliefs(Arc<Mutex<Vec<(Instant, LossKind)>>>);

impl Ours {
    /// The controller of connections to come.
    pub fn new(config: ControllerConfig) -> Ours {
        Ours { config, beliefs: Beliefs::default() }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.config.name()
    }

    /// What it will take losses for, of all connections that have it.
    pub(crate) fn beliefs(&self) -> Beliefs {
        self.beliefs.clone()
    }
}

impl PartialEq for Ours {
    fn eq(&self, other: &Ours) -> bool {
        self.config == other.config
    }
}

impl Beliefs {
    /// Takes those since the last call.
    pub(crate) fn take(&self) -> Vec<(Instant, LossKind)> {
        mem::take(&mut *self.list())
    }

    fn list(&self) -> MutexGuard<'_, Vec<(Instant, LossKind)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the newest of the packets was sent that quinn has told a controller are lost. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<Mutex<Option<Instant>>>);

impl Losses {
    pub(crate) fn newest(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Any controller, with an ear for what is lost.
pub(crate) struct Overheard {
    pub(crate) factory: Arc<dyn ControllerFactory + Send + Sync>,
    pub(crate) losses: Losses,
}

impl ControllerFactory for Overheard {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let controller = self.factory.clone().build(now, current_mtu);
        Box::new(Overhearing { controller, losses: self.losses.clone() })
    }
}

struct Overhearing {
    controller: Box<dyn Controller>,
    losses: Losses,
}

impl Controller for Overhearing {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controller.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.controller.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        // Without lost bytes it is a mark.
        if lost_bytes > 0 {
            let mut newest = self.losses.0.lock().unwrap_or_else(PoisonError::into_inner);
            *newest = (*newest).max(Some(sent));
        }
        self.controller.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.controller.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Overhearing { controller: self.controller.clone_box(), losses: self.losses.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.controller.into_any()
    }
}

impl ControllerFactory for Ours {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let packet = u64::from(current_mtu);
        let initial = (INITIAL_PACKETS * packet).min(INITIAL_BYTES.max(LEAST_PACKETS * packet));
        let window = Window { cwnd: initial as f64 / packet as f64, ssthresh: f64::INFINITY };
        let mut host = Host::new(&self.config, Floors::Rfc, window);
        host.start(&Start { now: Time::ZERO, history: &[], handshake: Span::ZERO, mss: current_mtu.into() });
        Box::new(Driven {
            host,
            base: now,
            packet,
            initial,
            sent: 0,
            una: 0,
            acked: Acked::default(),
            remainder: 0,
            recovery: None,
            first_sent: None,
            beliefs: self.beliefs.clone(),
        })
    }
}

/// What the packets of one ACK told.
#[derive(Clone, Copy, Default)]
struct Acked {
    bytes: u64,
    /// When the newest was sent.
    sent: Option<Instant>,
    /// Bytes that were sent after the last reduction, by a sender that its window limits.
    growing: u64,
    srtt: Span,
}

/// A host of `lasthop-cc` for one connection. `sent` counts bytes, and `una` those that are no longer in flight: what
/// sequence numbers are to TCP.
#[derive(Clone)]
struct Driven {
    host: Host,
    base: Instant,
    packet: u64,
    initial: u64,
    sent: u64,
    una: u64,
    acked: Acked,
    /// Acknowledged bytes that do not make a packet yet.
    remainder: u64,
    /// When the window was reduced last.
    recovery: Option<Instant>,
    first_sent: Option<Instant>,
    beliefs: Beliefs,
}

impl Driven {
    fn time(&self, now: Instant) -> Time {
        Time::ZERO + span(now.saturating_duration_since(self.base))
    }

    /// RFC 9002 §7.3.2: packets that were sent before the last reduction neither grow the window nor reduce it again.
    fn is_new(&self, sent: Instant) -> bool {
        self.recovery.is_none_or(|since| sent > since)
    }
}

fn span(duration: std::time::Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl Controller for Driven {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.first_sent.get_or_insert(now);
        self.sent += bytes;
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acked.bytes += bytes;
        self.acked.sent = self.acked.sent.max(Some(sent));
        self.acked.srtt = span(rtt.get());
        if self.is_new(sent) && !app_limited {
            self.acked.growing += bytes;
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        let acked = std::mem::take(&mut self.acked);
        if acked.bytes == 0 {
            return;
        }
        let (at, mss) = (self.time(now), self.packet as u32);
        self.sent = self.sent.max(in_flight);
        let una = (self.sent - in_flight).max(self.una);
        let arrival = Arrival {
            now: at,
            una: una.saturating_sub(acked.bytes),
            ack: una,
            next: self.sent,
            mss,
            srtt: acked.srtt,
            ece: false,
            marked: 0,
            times: None,
            first_sacked: None,
            discards: None,
            report: None,
        };
        self.una = una;
        if self.host.needs().arrivals {
            self.host.arrive(&arrival);
        }
        let bytes = self.remainder + acked.bytes;
        self.remainder = bytes % self.packet;
        self.host.grow(&AckSample {
            now: at,
            elapsed: self.first_sent.map_or(Span::ZERO, |first| span(now.saturating_duration_since(first))),
            rtt: acked.sent.map(|sent| span(now.saturating_duration_since(sent))),
            srtt: acked.srtt,
            acked: (bytes / self.packet) as u32,
            una,
            next: self.sent,
            mss,
            may_grow: acked.growing > 0,
            disordered: false,
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.una = (self.una + lost_bytes).min(self.sent);
        if !self.is_new(sent) {
            return;
        }
        self.recovery = Some(now);
        // RFC 9002 §7.3.2 reduces the window, not the flight. At this call the flight is without the packets of the ACK
        // that told of the loss, and behind the window by what the pacer holds back.
        let flight = self.host.window.cwnd;
        let loss = LossSample { now: self.time(now), flight, retransmitted: false, truth: None };
        let reduction = if is_persistent {
            self.host.timed_out(&loss, false, self.sent);
            return;
        } else if lost_bytes == 0 {
            return self.host.answer_mark(&loss, self.sent);
        } else {
            self.host.answer_loss(&loss)
        };
        self.beliefs.list().extend(reduction.taken_for.map(|kind| (sent, kind)));
        self.host.reduce(reduction);
        self.host.reduced();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        // The window keeps its bytes.
        let ratio = self.packet as f64 / f64::from(new_mtu);
        self.packet = new_mtu.into();
        self.host.window.cwnd = (self.host.window.cwnd * ratio).max(LEAST_PACKETS as f64);
        self.host.window.ssthresh *= ratio;
    }

    fn window(&self) -> u64 {
        ((self.host.window.cwnd * self.packet as f64) as u64).max(LEAST_PACKETS * self.packet)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        let ssthresh = self.host.window.ssthresh;
        metrics.ssthresh = ssthresh.is_finite().then_some((ssthresh * self.packet as f64) as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
