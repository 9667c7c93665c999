//! Our controllers in quinn and noq: their `Controller` traits driven by a [`Host`] of `lasthop-cc`.
//!
//! Both tell a controller of bytes, not of packets. quinn paces by the window alone, and does not say that a loss was
//! none; noq paces as it is told, and says it, so that a reduction is undone. noq tells of each packet too, so that
//! delivery rates are sampled here. A law that moves timers or needs a receiver of its own is refused by name, and in
//! quinn one that paces or samples rates. What the others lose: the RTT contains the wait of delayed ACKs, and a
//! timeout is known only as persistent congestion (RFC 9002 §7.6).

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lasthop::{Span, Time};
use lasthop_cc::delivery::Around;
use lasthop_cc::host::{Floors, Host, Memory};
use lasthop_cc::{AckSample, Arrival, ControllerConfig, LossKind, LossSample, RecoveryKind, Start, Window};

use crate::delivery::Deliveries;
use crate::stack::span;

/// RFC 9002 §7.2: ten packets, but no more than 14,720 bytes and no less than two packets.
const INITIAL_PACKETS: u64 = 10;
const INITIAL_BYTES: u64 = 14_720;
/// RFC 9002 §7.2: the least window, in packets.
const LEAST_PACKETS: u64 = 2;

/// A controller of ours that a stack can drive: the scenario has refused all others
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

/// When the newest of the packets was sent that the stack has told a controller are lost. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<Mutex<Option<Instant>>>);

impl Losses {
    pub(crate) fn newest(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a congestion event: without lost bytes it is a mark.
    pub(crate) fn note(&self, sent: Instant, lost_bytes: u64) {
        if lost_bytes > 0 {
            let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *newest = (*newest).max(Some(sent));
        }
    }
}

/// What makes any controller of a stack, with an ear for what is lost.
pub(crate) struct Overheard<F: ?Sized> {
    pub(crate) factory: Arc<F>,
    pub(crate) losses: Losses,
}

/// Such a controller.
#[derive(Debug)]
pub(crate) struct Overhearing<C: ?Sized> {
    pub(crate) losses: Losses,
    pub(crate) controller: Box<C>,
}

impl Ours {
    /// A controller for a connection, or a path, whose packets have this length.
    pub(crate) fn drive(&self, now: Instant, current_mtu: u16) -> Driven {
        let packet = u64::from(current_mtu);
        let initial = (INITIAL_PACKETS * packet).min(INITIAL_BYTES.max(LEAST_PACKETS * packet));
        let window = Window { cwnd: initial as f64 / packet as f64, ssthresh: f64::INFINITY };
        let mut host = Host::new(&self.config, Floors::Rfc, window);
        host.start(&Start { now: Time::ZERO, history: &[], handshake: Span::ZERO, mss: current_mtu.into() });
        let deliveries = host.needs().rate.then(Box::default);
        Driven {
            host,
            deliveries,
            base: now,
            packet,
            initial,
            sent: 0,
            una: 0,
            acked: Acked::default(),
            remainder: 0,
            recovery: None,
            repairing: None,
            first_sent: None,
            last_sent: None,
            app_limited: false,
            before: None,
            beliefs: self.beliefs.clone(),
        }
    }
}

/// What the packets of one ACK told.
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Debug)]
pub(crate) struct Driven {
    host: Host,
    /// For a law that asks for rates, of a stack that tells of each packet.
    deliveries: Option<Box<Deliveries>>,
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
    /// Until a packet arrives that was sent after that.
    repairing: Option<RecoveryKind>,
    /// What there was before that, unless it was undone.
    before: Option<Box<Memory>>,
    first_sent: Option<Instant>,
    last_sent: Option<Instant>,
    /// The application had nothing to send when the last ACK came.
    app_limited: bool,
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

/// What the traits of the stacks ask, each by a call of the same name.
impl Driven {
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        self.first_sent.get_or_insert(now);
        self.sent += bytes;
    }

    /// One packet of those.
    pub(crate) fn packet_sent(&mut self, now: Instant, number: u64) {
        let at = self.time(now);
        let Some(deliveries) = &mut self.deliveries else { return };
        // All that was in flight may be lost, too; then there was something to send.
        let idle = deliveries.is_idle() && (self.app_limited || self.last_sent.is_none());
        if let Some(last) = self.last_sent.replace(now).filter(|_| idle) {
            self.host.idle(span(now.saturating_duration_since(last)), Span::ZERO, at);
        }
        deliveries.on_sent(number, now, idle, self.host.window.cwnd as u32, at);
    }

    pub(crate) fn packet_arrived(&mut self, now: Instant, sent: Instant, number: u64) {
        let at = self.time(now);
        if let Some(deliveries) = &mut self.deliveries {
            deliveries.on_arrived(number, sent, at);
        }
    }

    pub(crate) fn packet_lost(&mut self, now: Instant, number: u64) {
        let at = self.time(now);
        if let Some(lost) = self.deliveries.as_mut().and_then(|deliveries| deliveries.on_lost(number, at)) {
            self.host.lost_segment(&lost);
        }
    }

    pub(crate) fn acked(&mut self, sent: Instant, bytes: u64, app_limited: bool, srtt: Duration) {
        self.acked.bytes += bytes;
        self.acked.sent = self.acked.sent.max(Some(sent));
        self.acked.srtt = span(srtt);
        if self.is_new(sent) && !app_limited {
            self.acked.growing += bytes;
        }
    }

    pub(crate) fn end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        let acked = std::mem::take(&mut self.acked);
        self.app_limited = app_limited;
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
        if acked.sent.is_some_and(|sent| self.is_new(sent)) {
            self.repairing = None;
        }
        if let Some(deliveries) = &mut self.deliveries {
            let around = Around {
                flight: in_flight.div_ceil(self.packet) as u32,
                srtt: acked.srtt,
                held_back: Span::ZERO,
                recovery: self.repairing,
                mss,
            };
            self.host.rate(&deliveries.finish(around, app_limited));
        }
    }

    pub(crate) fn congestion(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.una = (self.una + lost_bytes).min(self.sent);
        if !self.is_new(sent) {
            return;
        }
        self.recovery = Some(now);
        if is_persistent {
            self.repairing = Some(RecoveryKind::Timeout);
        } else if lost_bytes > 0 {
            self.repairing = Some(RecoveryKind::Fast);
        }
        self.before = Some(Box::new(self.host.remember()));
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

    /// All that was lost before the last reduction has arrived after all.
    pub(crate) fn spurious(&mut self) {
        if let Some(before) = self.before.take() {
            self.host.undo(*before);
        }
    }

    pub(crate) fn mtu(&mut self, new_mtu: u16) {
        // The window keeps its bytes.
        let ratio = self.packet as f64 / f64::from(new_mtu);
        self.packet = new_mtu.into();
        self.host.window.cwnd = (self.host.window.cwnd * ratio).max(LEAST_PACKETS as f64);
        self.host.window.ssthresh *= ratio;
    }

    /// In bytes, as all that follows.
    pub(crate) fn cwnd(&self) -> u64 {
        ((self.host.window.cwnd * self.packet as f64) as u64).max(LEAST_PACKETS * self.packet)
    }

    pub(crate) fn initial(&self) -> u64 {
        self.initial
    }

    pub(crate) fn ssthresh(&self) -> Option<u64> {
        let ssthresh = self.host.window.ssthresh;
        ssthresh.is_finite().then_some((ssthresh * self.packet as f64) as u64)
    }

    /// Per second.
    pub(crate) fn pace(&self) -> Option<u64> {
        self.host.decision().pacing.map(|segments| (segments * self.packet as f64) as u64)
    }
}

/// The traits of a stack for [`Ours`], [`Driven`] and [`Overheard`]: what is the same in both, and what is its own.
macro_rules! controllers {
    ($proto:ident, driven { $($driven:item)* } overhearing { $($overhearing:item)* }) => {
        impl $proto::congestion::ControllerFactory for $crate::controller::Ours {
            fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
                Box::new(self.drive(now, current_mtu))
            }
        }

        impl Controller for $crate::controller::Driven {
            fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
                self.sent(now, bytes);
            }

            fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
                self.end_acks(now, in_flight, app_limited);
            }

            fn on_mtu_update(&mut self, new_mtu: u16) {
                self.mtu(new_mtu);
            }

            fn window(&self) -> u64 {
                self.cwnd()
            }

            fn clone_box(&self) -> Box<dyn Controller> {
                Box::new(self.clone())
            }

            fn initial_window(&self) -> u64 {
                self.initial()
            }

            fn into_any(self: Box<Self>) -> Box<dyn Any> {
                self
            }

            $($driven)*
        }

        /// What makes a controller of the stack.
        pub(crate) type Factory = dyn $proto::congestion::ControllerFactory + Send + Sync;

        impl $proto::congestion::ControllerFactory for $crate::controller::Overheard<Factory> {
            fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
                let controller = self.factory.clone().build(now, current_mtu);
                Box::new($crate::controller::Overhearing { controller, losses: self.losses.clone() })
            }
        }

        impl Controller for $crate::controller::Overhearing<dyn Controller> {
            fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
                self.controller.on_sent(now, bytes, last_packet_number);
            }

            fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
                self.controller.on_end_acks(now, in_flight, app_limited, largest);
            }

            fn on_mtu_update(&mut self, new_mtu: u16) {
                self.controller.on_mtu_update(new_mtu);
            }

            fn window(&self) -> u64 {
                self.controller.window()
            }

            fn metrics(&self) -> $proto::congestion::ControllerMetrics {
                self.controller.metrics()
            }

            fn clone_box(&self) -> Box<dyn Controller> {
                let controller = self.controller.clone_box();
                Box::new($crate::controller::Overhearing { controller, losses: self.losses.clone() })
            }

            fn initial_window(&self) -> u64 {
                self.controller.initial_window()
            }

            fn into_any(self: Box<Self>) -> Box<dyn Any> {
                self.controller.into_any()
            }

            $($overhearing)*
        }
    };
}

pub(crate) use controllers;
