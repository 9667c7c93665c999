//! How useful a flow is to a viewer or listener: timely packets, losses, slots with enough goodput.
//!
//! A flow that is measured so owns a [`Realtime`]; `measure.rs` hands it what arrives and what is delivered,
//! `world.rs` what is sent. It never changes what happens in the network. `lasthop-sim` reads it at the end.

pub mod call;
pub mod gaps;
pub mod opinion;
pub mod plan;
pub mod playback;
pub mod success;

use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use crate::frames::Frame;
use crate::measure::Window;
use crate::plan::{Traffic, Transport};
use crate::trace::Viewed;
use call::{Call, CallReport};
use gaps::Gaps;
use plan::{RealtimePlan, SentCount};
use playback::{Playback, PlaybackReport};
use success::Slots;

/// The measurements of one flow.
#[derive(Clone, Debug)]
pub struct Realtime {
    plan: RealtimePlan,
    window: Window,
    /// The window up to the time at which the application stops.
    active: Window,
    /// Timely and delayed packets.
    pub gaps: Gaps,
    /// Goodput in slots.
    pub slots: Slots,
    /// Frames, if the flow carries any.
    playback: Option<Playback>,
    /// They are those of a call.
    call: Option<Call>,
    /// Its transport repeats what is lost.
    reliable: bool,
    /// Packets with data that left the sender for the first time.
    pub transmitted: u64,
    /// The same and those sent again.
    pub transmissions: u64,
    /// How many of these the network lost.
    pub lost: u64,
    /// How many of these arrived.
    arrived: u64,
}

/// What came of it. Shares are `None` where nothing was sent or received.
#[derive(Clone, Debug, PartialEq)]
pub struct RealtimeReport {
    /// Packets that arrived, without the delayed ones.
    pub timely: u64,
    /// Packets that came more than the threshold after their neighbour.
    pub delayed: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets that the application's data fill; `None` for a file without end.
    pub generated: Option<u64>,
    /// Packets that were transmitted at least once.
    pub transmitted: u64,
    /// Transmissions, retransmissions included.
    pub transmissions: u64,
    /// Transmissions that the network lost.
    pub lost: u64,
    /// Real-Time Performance Index: timely packets over packets sent.
    pub index: Option<f64>,
    /// Delayed packets over packets sent.
    pub delayed_over_sent: Option<f64>,
    /// Delayed packets over packets received.
    pub delayed_over_received: Option<f64>,
    /// Lost transmissions over packets generated.
    pub loss_over_generated: Option<f64>,
    /// Lost transmissions over transmissions.
    pub loss_over_sent: Option<f64>,
    /// For each x: the percentage of slots in which at least x % of the target arrived.
    pub success: Vec<(u32, Option<f64>)>,
    /// What a viewer saw, if the flow carries frames.
    pub playback: PlaybackReport,
}

impl Realtime {
    /// Measures a flow of `traffic` over `transport` within `window`; the application stops at `stop`, if ever.
    pub fn new(
        plan: &RealtimePlan,
        (traffic, transport): (&Traffic, &Transport),
        window: Window,
        stop: Option<Time>,
    ) -> Realtime {
        let until = stop.map_or(window.to, |stop| stop.min(window.to));
        let active = Window { from: window.from.min(until), to: until };
        let reliable = transport.is_reliable();
        let call = traffic.offered().encoder().map(Call::new);
        let frame_rate = traffic.offered().video().map(|frames| frames.frame_rate);
        let playback = (frame_rate.or(call.as_ref().map(Call::frame_rate)))
            .map(|frame_rate| Playback::new(frame_rate, (plan.playout, plan.rebuffer), reliable));
        Realtime {
            plan: plan.clone(),
            window,
            active,
            gaps: Gaps::new(plan, transport.first_byte(), reliable),
            slots: Slots::new(plan, active),
            playback,
            call,
            reliable,
            transmitted: 0,
            transmissions: 0,
            lost: 0,
            arrived: 0,
        }
    }

    /// The options in force.
    pub fn plan(&self) -> &RealtimePlan {
        &self.plan
    }

    /// The application starts.
    pub fn begin(&mut self, now: Time) {
        self.slots.begin(now);
    }

    /// The application has generated these frames so far; if `ended`, there will be no more.
    pub fn note_frames(&mut self, frames: &[Frame], ended: bool) {
        let Some(playback) = &mut self.playback else { return };
        playback.note_frames(frames);
        if ended {
            playback.end();
        }
    }

    /// The sender transmits a packet. Gives 1 if it counts as sent for the first time, else 0.
    pub fn send(&mut self, packet: &Packet, now: Time) -> u64 {
        if packet.payload == 0 || packet.note.is_bare() || !self.window.contains(now) {
            return 0;
        }
        let first = u64::from(!packet.note.again());
        self.transmissions += 1;
        self.transmitted += first;
        first
    }

    /// The network has lost a packet of the sender. It counts if it was transmitted in the window. Gives 1 if it is
    /// lost for good, since its transport repeats nothing, else 0.
    pub fn lose(&mut self, packet: &Packet) -> u64 {
        let carries = packet.payload > 0 && !packet.note.is_bare();
        let counts = u64::from(carries && self.window.contains(packet.stamp));
        self.lost += counts;
        if self.reliable { 0 } else { counts }
    }

    /// A packet arrived; `fresh` if its range was not here before. It counts if it was first transmitted in the
    /// window and arrives in it. Gives of how many packets it turns out whether they are in time, and how many are.
    pub fn arrive(&mut self, now: Time, packet: &Packet, first_sent: Time, fresh: bool) -> (u64, u64) {
        if packet.payload == 0 || now >= self.window.to {
            return (0, 0);
        }
        self.arrived += u64::from(self.window.contains(packet.stamp));
        let (received, timely) = (self.gaps.received, self.gaps.timely());
        let range = (packet.seq, packet.seq + u64::from(packet.payload));
        let fresh = fresh && !self.gaps.knows(range);
        self.gaps.arrive(range, now, fresh, self.window.contains(first_sent));
        if fresh && let Some(playback) = &mut self.playback {
            playback.arrive(range, now);
        }
        (self.gaps.received - received, self.gaps.timely() - timely)
    }

    /// `bytes` reached the application.
    pub fn deliver(&mut self, now: Time, bytes: u64) {
        self.slots.deliver(now, bytes);
        if let Some(playback) = &mut self.playback {
            playback.deliver(now, bytes);
        }
    }

    /// Whether the flow carries frames of a film.
    pub fn has_frames(&self) -> bool {
        self.playback.is_some() && self.call.is_none()
    }

    /// How long playing has stood still before `now`; `None` unless a player waits for what has not come. Calls come in
    /// the order of time, and the sender has not cut anything out (see [`Realtime::report`]).
    pub fn stalled(&mut self, now: Time) -> Option<Span> {
        self.playback.as_mut().filter(|_| self.call.is_none())?.stalled(now)
    }

    /// What a viewer has at `now`, an `interval` after the last time; `None` if the flow carries no frames. Otherwise
    /// as [`Realtime::stalled`], which comes first.
    pub fn viewed(&mut self, now: Time, interval: Span) -> Option<Viewed> {
        let playback = self.playback.as_mut()?;
        let rate = playback.encoded(now) as f64 * 8.0 / interval.seconds();
        let viewed = match &mut self.call {
            Some(call) => call.viewed(playback.seen(), now),
            None => playback.viewed(now),
        };
        Some(Viewed { rate: Some(rate), ..viewed })
    }

    /// Packets that never came over an unreliable transport, whatever repaired others; those that are under way at the
    /// end are none.
    pub fn missing(&self) -> u64 {
        if self.playback.as_ref().is_some_and(Playback::is_reliable) {
            return 0;
        }
        // The network may double packets: then fewer seem to be under way, and more than were lost cannot be missing.
        let under_way = self.transmissions.saturating_sub(self.lost + self.arrived);
        self.transmitted.saturating_sub(self.gaps.received + under_way).min(self.lost)
    }

    /// How long the application was running in the measured time.
    pub fn active(&self) -> Span {
        self.active.length()
    }

    /// What the viewer of a call saw; `None` if the flow is not a call, or where its sender has cut something out of
    /// the bytes that it numbers (see [`Realtime::report`]).
    pub fn call(&self, whole: bool) -> Option<CallReport> {
        let (call, playback) = (self.call.as_ref()?, self.playback.as_ref()?);
        whole.then(|| call.report(playback.complete(), &self.active))
    }

    /// What came of it. `unsent`: packets that the data still waiting at the sender would fill, if that is known.
    /// `whole`: the sender has not cut anything out of the bytes that it numbers, so that frames are where their source
    /// put them.
    pub fn report(&self, unsent: Option<u64>, whole: bool) -> RealtimeReport {
        let Gaps { received, delayed, .. } = self.gaps;
        let timely = self.gaps.timely();
        let generated = unsent.map(|unsent| self.transmitted + unsent);
        let sent = match self.plan.sent {
            SentCount::Transmitted => Some(self.transmitted),
            SentCount::Generated => generated,
        };
        let over = |count: u64, total: Option<u64>| {
            total.filter(|&total| total > 0).map(|total| count as f64 / total as f64)
        };
        RealtimeReport {
            timely,
            delayed,
            received,
            generated,
            transmitted: self.transmitted,
            transmissions: self.transmissions,
            lost: self.lost,
            index: over(timely, sent),
            delayed_over_sent: over(delayed, sent),
            delayed_over_received: over(delayed, Some(received)),
            loss_over_generated: over(self.lost, generated),
            loss_over_sent: over(self.lost, Some(self.transmissions)),
            success: self.slots.percentages(),
            playback: self
                .playback
                .as_ref()
                .filter(|_| whole && self.call.is_none())
                .map_or_else(PlaybackReport::default, |playback| playback.report(&self.active)),
        }
    }
}
