//! The sending end of TCP: sequence state, window, timer, transmission. What a loss means is decided by the
//! engines in `recovery/`; how the window moves by the controllers in `lasthop-cc`.
//!
//! `world.rs` calls `on_ack`, `on_timer` and `on_data`; everything happens at the current time, in order.
//!
//! Sequence numbers count bytes: the SYN is byte 0, data starts at 1, the FIN follows the last byte. Windows count
//! segments.

use lasthop_cc::{
    AckSample, Arrival, CongestionControl, Controller, LossKind, LossSample, Needs, ReceiveTime, Reduction,
    Signal, Start, Window,
};
use lasthop_core::packet::{Kind, NONE, Packet, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::alarms::{Alarm, Alarms};
use super::config::{Profile, PrrVariant, Recovery, TcpConfig};
use super::eln::Eln;
use super::mobility::Mobility;
use super::persist::Persist;
use super::probing::{Probing, Trigger};
use super::rate::RateSampler;
use super::recovery::prr::Prr;
use super::recovery::rack::Rack;
use super::recovery::sack::Scoreboard;
use super::recovery::sack1::Sack1;
use super::recovery::vegas::FineTimer;
use super::rtt::RttEstimator;
use super::segments::{Segment, Segments};
use super::undo::Undo;
use super::waves::Waves;
use crate::measure;
use crate::plan::Percentiles;
use crate::transport::extra::Extra;

/// Where a sender puts its packets and how it asks to be woken.
pub trait Wire {
    /// Sends a packet now.
    fn send(&mut self, packet: Packet, now: Time);
    /// Calls `on_timer` at `at`.
    fn wake(&mut self, at: Time);
    /// Stores what a packet carries beyond its header; the index goes into `Packet::extra`.
    fn attach(&mut self, extra: Extra) -> u32 {
        let _ = extra;
        NONE
    }
    /// What the last loss of the segment at `seq` really was; `None` if it was not lost. For measurement only: no
    /// sender may act on it.
    fn truth(&self, seq: u64) -> Option<LossKind> {
        let _ = seq;
        None
    }
}

/// How often a sender took a loss for what, and what it was: the confusion matrix of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// `counts[truth][belief]`: rows congestion, wireless, nothing lost; columns congestion, wireless.
    pub counts: [[u64; 2]; 3],
}

impl Verdicts {
    fn count(&mut self, truth: Option<LossKind>, belief: LossKind) {
        let column = |kind| usize::from(kind == LossKind::Wireless);
        self.counts[truth.map_or(2, column)][column(belief)] += 1;
    }
}

/// What the last reduction of the window answered (ns-2's `last_cwnd_action_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    DuplicateAcks,
    Timeout,
    Ecn,
    /// Recovery has ended.
    Exited,
}

/// State of the recovery engines that need more than the counters of the sender.
#[derive(Clone, Debug)]
pub(super) enum Engine {
    Tahoe,
    Reno,
    NewReno,
    Sack(Box<Scoreboard>),
    Rack(Box<Rack>),
    Sack1(Box<Sack1>),
    Vegas(Box<FineTimer>),
}

/// What the sender counted within the measurement window.
#[derive(Clone, Debug)]
pub struct SenderStats {
    /// Segments sent whose range had been sent before.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer with data outstanding.
    pub timeouts: u64,
    /// Loss recovery episodes begun by duplicate ACKs or SACK.
    pub fast_recoveries: u64,
    /// Reductions that were undone because nothing had been lost.
    pub undone_reductions: u64,
    /// RTT of segments sent once, one sample per ACK of new data.
    pub rtt: measure::Durations,
    /// What losses were taken for, if the controller tells them apart.
    pub verdicts: Verdicts,
    /// When everything was acknowledged.
    pub completed: Option<Time>,
    /// The application stopped before all that it had to send was sent.
    pub withdrawn: bool,
}

/// End of a file without end.
const ENDLESS: u64 = u64::MAX / 4;

/// One TCP sender.
#[derive(Clone, Debug)]
pub struct TcpSender {
    // Sequence state (RFC 9293 §3.3.1).
    pub(super) una: u64,
    pub(super) next: u64,
    pub(super) max_sent: u64,
    /// Everything below was sent before the last reduction.
    pub(super) recover: u64,
    /// Everything below was sent before the last timeout.
    pub(super) timeout_recover: u64,
    /// One past the last byte that the application has written.
    data_end: u64,
    /// The application writes no more.
    closed: bool,

    pub(super) window: Window,
    /// Window inflation during fast recovery, in segments.
    pub(super) inflation: u32,
    /// The cwnd of the last reduction. A law may set ssthresh above it; recovery must not end with more.
    pub(super) reduced_to: f64,
    pub(super) dup_acks: u32,
    pub(super) action: Action,
    pub(super) first_partial: bool,
    /// New segments sent by limited transmit since `una` moved; they do not count as flight when halving.
    pub(super) limited: u32,
    /// The last transmission stopped because of cwnd.
    pub(super) window_limited: bool,
    /// ns-2: the last mark came while the window was one segment.
    marked_at_one: bool,
    /// Congestion was echoed and the receiver has not been told of the reaction.
    pub(super) reduced: bool,
    pub(super) initial_window: f64,

    // Timing.
    pub(super) rtt: RttEstimator,
    /// The one segment that is timed when there are no timestamps: its end and when it was sent.
    pub(super) timed: Option<(u64, Time)>,
    pub(super) timer: Option<Time>,
    /// What the sender knows of zero windows; only Freeze-TCP looks at them.
    pub(super) persist: Option<Box<Persist>>,
    pub(super) eln: Eln,
    pub(super) mobility: Mobility,
    /// Timers other than the retransmission timer.
    pub(super) alarms: Alarms,
    /// Fill paths send nothing, because whoever set this will fill the window afterwards.
    pub(super) hold: bool,
    /// A mark came while the window was one segment: nothing is sent before the timer expires (RFC 3168 §6.1.2).
    pub(super) waits_for_timer: bool,
    /// Fill paths send nothing before this.
    pub(super) paced_until: Time,
    /// Earliest wake-up that is pending.
    pub(super) armed: Time,
    pub(super) opened: Option<Time>,
    last_sent: Time,

    pub(super) segments: Segments,
    pub(super) controller: Controller,
    pub(super) engine: Engine,
    /// Windows of earlier connections of this path; empty unless the controller asked for them.
    history: Vec<f64>,
    history_least: usize,
    /// Spreads reductions, if it is on.
    pub(super) prr: Option<Prr>,
    /// What is needed to undo a reduction, if anything is ever undone.
    pub(super) undo: Option<Box<Undo>>,

    /// Delivery-rate samples, if the controller asked for them.
    pub(super) sampler: Option<Box<RateSampler>>,
    /// What the controller asked for.
    pub(super) needs: Needs,
    /// Whether anything but the plain sender is at work.
    pub(super) extended: bool,
    /// Where the sender stands between a loss and the answer to it, if the controller asked for probes.
    pub(super) probing: Probing,
    /// The wave that is being sent, if the controller asked for waves.
    pub(super) waves: Waves,

    // Configuration, copied for the hot path.
    pub(super) mss: u32,
    pub(super) receiver_window: u32,
    pub(super) dup_threshold: u32,
    pub(super) ns2: bool,
    pub(super) linux: bool,
    pub(super) timestamps: bool,
    pub(super) limited_transmit: bool,
    pub(super) ecn: bool,
    grow_when_limited_elsewhere: bool,
    data_header: u16,
    pub(super) ack_size: u16,
    syn_size: u16,
    pub(super) probe_size: u16,

    measured: measure::Window,
    /// Counters of the measurement window.
    pub stats: SenderStats,
}

impl TcpSender {
    /// A sender that has not opened its connection yet. `clock` is the flow's own stream.
    pub fn new(
        config: &TcpConfig,
        clock: &mut Stream,
        measured: measure::Window,
        percentiles: Percentiles,
    ) -> TcpSender {
        let phase = config.rto.clock_phase.unwrap_or_else(|| Span(clock.below(config.rto.tick.0)));
        let ns2 = config.profile == Profile::Ns2;
        let engine = match config.recovery {
            Recovery::Tahoe => Engine::Tahoe,
            Recovery::Reno => Engine::Reno,
            Recovery::NewReno => Engine::NewReno,
            Recovery::Sack => Engine::Sack(Box::default()),
            Recovery::Rack => Engine::Rack(Box::new(Rack::new(config.tlp))),
            Recovery::Sack1 => Engine::Sack1(Box::default()),
            Recovery::Vegas => Engine::Vegas(Box::new(FineTimer::new(ns2.then_some(config.receiver_window)))),
        };
        let linux = config.profile == Profile::Linux;
        let prr = match config.prr_in_effect() {
            PrrVariant::Off => None,
            variant => Some(Prr::new(variant)),
        };
        let undo = Undo::new(config, linux);
        let plain = config.needs().is_plain()
            && !config.uses_ecn()
            && config.mobility.is_plain()
            && !matches!(engine, Engine::Rack(_));
        let extended = !plain || prr.is_some() || undo.is_some();
        TcpSender {
            una: 0,
            next: 0,
            max_sent: 0,
            recover: 0,
            timeout_recover: 0,
            data_end: 1,
            closed: false,
            window: Window { cwnd: 1.0, ssthresh: config.initial_ssthresh },
            inflation: 0,
            reduced_to: f64::INFINITY,
            dup_acks: 0,
            action: Action::None,
            first_partial: false,
            limited: 0,
            window_limited: true,
            marked_at_one: false,
            reduced: false,
            initial_window: config.initial_window,
            rtt: RttEstimator::new(config.rto, phase),
            timed: None,
            timer: None,
            persist: config
                .mobility
                .freeze
                .map(|freeze| Box::new(Persist::new(freeze, config.receiver_window))),
            eln: Eln::default(),
            mobility: config.mobility,
            alarms: Alarms::default(),
            hold: false,
            waits_for_timer: false,
            paced_until: Time::ZERO,
            armed: Time::MAX,
            opened: None,
            last_sent: Time::ZERO,
            segments: Segments::new(config.mss()),
            controller: config.controller.build(),
            engine,
            history: Vec::new(),
            history_least: config
                .controller
                .value("best_samples")
                .map_or(1, |samples| samples.ceil() as usize),
            sampler: config.needs().rate.then(Box::default),
            probing: Probing::default(),
            waves: Waves::default(),
            prr,
            undo,
            needs: config.needs(),
            extended,
            mss: config.mss(),
            receiver_window: config.receiver_window,
            dup_threshold: config.dup_threshold,
            ns2,
            linux,
            timestamps: config.timestamps,
            limited_transmit: config.limited_transmit,
            ecn: config.uses_ecn(),
            grow_when_limited_elsewhere: config.grow_when_limited_elsewhere,
            data_header: config.data_header() as u16,
            ack_size: config.ack_size() as u16,
            syn_size: config.syn_size() as u16,
            probe_size: config.probe_size() as u16,
            measured,
            stats: SenderStats {
                retransmitted: 0,
                timeouts: 0,
                fast_recoveries: 0,
                undone_reductions: 0,
                rtt: measure::Durations::new(percentiles),
                verdicts: Verdicts::default(),
                completed: None,
                withdrawn: false,
            },
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // What the world calls

    /// Gives the windows of earlier connections of this path, before the connection opens.
    pub fn remember(&mut self, history: Vec<f64>) {
        self.history = history;
    }

    /// The application wrote `bytes` more (`None`: without end). The first call opens the connection.
    pub fn on_data<W: Wire>(&mut self, bytes: Option<u64>, now: Time, wire: &mut W) {
        if self.extended && self.una > 0 {
            self.note_app_limited(now);
        }
        // An endless file ends beyond anything a run can send, with room to add to it.
        self.data_end = bytes.map_or(ENDLESS, |bytes| self.data_end.saturating_add(bytes).min(ENDLESS));
        if self.opened.is_none() {
            self.opened = Some(now);
            self.transmit_next(now, wire);
            return;
        }
        if !self.ns2 && self.una == self.max_sent && self.una > 0 {
            self.restart_after_idle(now);
        }
        self.fill_window(now, wire);
    }

    /// Segments that the data not sent yet would fill; `None` for a file without end.
    pub fn unsent_packets(&self) -> Option<u64> {
        let unsent = self.data_end.saturating_sub(self.max_sent.max(1));
        (self.data_end < ENDLESS).then(|| unsent.div_ceil(u64::from(self.mss)))
    }

    /// The application writes no more. `discard`: what has not been sent yet is withdrawn.
    pub fn on_close<W: Wire>(&mut self, discard: bool, now: Time, wire: &mut W) {
        if self.closed && !discard {
            return;
        }
        self.closed = true;
        let sent = self.max_sent.max(1);
        if discard && sent < self.data_end {
            self.data_end = sent;
            self.stats.withdrawn = true;
        }
        if self.opened.is_some() {
            self.fill_window(now, wire);
            self.check_completion(now);
        }
    }

    /// An ACK arrived.
    #[inline]
    pub fn on_ack<W: Wire>(&mut self, packet: &Packet, extra: Option<&Extra>, now: Time, wire: &mut W) {
        if packet.seq > self.max_sent || self.opened.is_none() {
            return;
        }
        if self.stats.completed.is_some() && !self.ns2 {
            if packet.kind == Kind::FinAck {
                self.send_ack(now, wire);
            }
            return;
        }
        if self.extended && self.before_ack(packet, extra, now, wire) {
            if self.closed {
                self.check_completion(now);
            }
            return;
        }
        if self.ecn {
            // On a SYN-ACK the bit agrees to the use of ECN.
            let marked = packet.has(flag::ECE) && packet.kind != Kind::SynAck;
            self.waits_for_timer = marked && self.waits_for_timer;
            if marked {
                self.on_ecn_echo(packet.seq, now);
            }
        }
        let sack = extra.map(|extra| &extra.sack);
        let mut taken = false;
        if self.extended {
            taken = self.probing_on_ack(packet, sack, now, wire);
            self.begin_rate_sample(now);
        }
        match self.engine {
            _ if taken => {}
            Engine::Tahoe | Engine::Reno | Engine::NewReno => self.duplicate_on_ack(packet, now, wire),
            Engine::Sack(_) => self.sack_on_ack(packet, sack, now, wire),
            Engine::Rack(_) => self.rack_on_ack(packet, sack, now, wire),
            Engine::Sack1(_) => self.sack1_on_ack(packet, sack, now, wire),
            Engine::Vegas(_) => self.vegas_on_ack(packet, now, wire),
        }
        if self.extended {
            self.finish_rate_sample(now, wire);
            if self.waits_for_timer {
                // Also when nothing is outstanding any more.
                self.set_timer(now, wire);
            }
        }
        if packet.kind == Kind::SynAck && !self.ns2 && self.next == self.una {
            // Nothing to send yet: the handshake still needs its third segment.
            self.send_ack(now, wire);
        }
        if self.closed {
            self.check_completion(now);
            if packet.kind == Kind::FinAck && self.stats.completed.is_some() {
                self.send_ack(now, wire);
            }
        }
    }

    /// A wake-up. Timers are lazy: one that was moved is found here to lie ahead, and waits on.
    pub fn on_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if now != self.armed {
            // A later wake-up that an earlier one made superfluous.
            return;
        }
        self.armed = Time::MAX;
        if self.extended {
            self.ring_alarms(now, wire);
        }
        if self.timer.is_some_and(|due| due <= now) {
            self.timer = None;
            if self.stats.completed.is_none() {
                self.on_timeout(now, wire);
            }
        }
        let next = self.timer.unwrap_or(Time::MAX).min(self.alarms.earliest());
        if next < self.armed {
            self.arm(next, wire);
        }
    }

    /// Another layer says something.
    pub fn on_signal<W: Wire>(&mut self, signal: &Signal, now: Time, wire: &mut W) {
        if self.stats.completed.is_some() {
            return;
        }
        match signal {
            Signal::LinkFading { .. } => self.on_link_fading(now, wire),
            Signal::LinkUp => self.on_link_up(now, wire),
            Signal::HandoffDone => {
                if let Some(handoff) = self.mobility.fast_handoff {
                    self.on_handoff(handoff.tahoe, now, wire);
                }
            }
            _ => {}
        }
        if self.needs.signals {
            self.controller.on_signal(signal, now);
            if self.needs.timing {
                self.retime(signal, now, wire);
            }
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // What only some controllers need

    /// An ACK has arrived and nothing has been done about it yet; `true` if nothing more is to be done.
    fn before_ack<W: Wire>(
        &mut self,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) -> bool {
        if packet.kind == Kind::BadState {
            if self.mobility.ebsn {
                self.on_bad_state(now, wire);
            }
            if self.needs.signals {
                self.controller.on_signal(&Signal::Ebsn { seq: packet.seq }, now);
            }
            return true;
        }
        if self.undo.is_some() {
            self.look_for_spurious(packet, extra.map(|extra| &extra.sack), now, wire);
        }
        if self.needs.arrivals && self.una > 0 {
            let arrival = Arrival {
                now,
                una: self.una,
                ack: packet.seq,
                next: self.next,
                mss: self.mss,
                srtt: self.rtt.srtt(),
                ece: packet.has(flag::ECE) && packet.kind != Kind::SynAck,
                times: self.echoed_times(packet, extra),
                discards: extra.and_then(|extra| extra.discards),
                report: extra.and_then(|extra| extra.report),
            };
            self.controller.on_arrival(&arrival, &mut self.window);
        }
        if self.needs.signals && packet.has(flag::ELN) {
            self.controller.on_signal(&Signal::Eln, now);
        }
        if self.persist.is_some() && self.take_window(packet, now, wire) {
            return true;
        }
        match self.mobility.eln {
            Some(threshold) => self.take_eln(packet, threshold, now, wire),
            None => false,
        }
    }

    /// When the segment that an ACK answers was sent and received, as well as it can be told.
    fn echoed_times(&self, packet: &Packet, extra: Option<&Extra>) -> Option<ReceiveTime> {
        if !self.needs.timestamp_times {
            return extra.and_then(|extra| extra.times);
        }
        // RFC 7323 §4.3: a duplicate ACK echoes an older segment than the one that it answers.
        let tells = self.timestamps && packet.seq > self.una;
        tells.then_some(ReceiveTime { sent: packet.echo, received: packet.stamp })
    }

    /// Asks the controller what to do about the loss of the segment at `una`, and keeps score of its opinion.
    pub(super) fn answer_loss<W: Wire>(&mut self, now: Time, wire: &W) -> Reduction {
        if let Some(kept) = self.kept_window() {
            return Reduction::to(kept.ssthresh, kept.cwnd);
        }
        let sample = self.loss_sample(now);
        self.answer_loss_of(self.una, sample, now, wire)
    }

    /// The same for the segment at `seq`.
    pub(super) fn answer_loss_of<W: Wire>(
        &mut self,
        seq: u64,
        sample: LossSample,
        now: Time,
        wire: &W,
    ) -> Reduction {
        if self.extended {
            self.keep_before(false);
        }
        let reduction = self.controller.on_loss(&sample, &self.window);
        self.keep_score_of(seq, reduction, now, wire);
        reduction
    }

    /// Enters what the controller took the loss at `una` for into the confusion matrix.
    pub(super) fn keep_score<W: Wire>(&mut self, reduction: Reduction, now: Time, wire: &W) {
        self.keep_score_of(self.una, reduction, now, wire);
    }

    /// The same for the segment at `seq`.
    fn keep_score_of<W: Wire>(&mut self, seq: u64, reduction: Reduction, now: Time, wire: &W) {
        if let Some(belief) = reduction.taken_for
            && self.measured.contains(now)
        {
            self.stats.verdicts.count(wire.truth(seq), belief);
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // State that others look at

    /// The congestion window and threshold, in segments.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> Span {
        self.rtt.srtt()
    }

    /// Outstanding segments.
    pub fn flight(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Fewest windows of earlier connections that the controller can start from, if it can at all.
    pub fn history_needed(&self) -> Option<usize> {
        self.needs.history.then_some(self.history_least)
    }

    /// Number of windows of earlier connections that this one could start from.
    pub fn history_samples(&self) -> usize {
        self.history.len()
    }

    /// The congestion window as far as the receiver's lets it be used, in segments.
    pub fn limited_window(&self) -> f64 {
        self.window.cwnd.min(f64::from(self.receiver_window))
    }

    /// Whether the window of data was ever reduced, for a loss or for a mark.
    pub fn has_reduced(&self) -> bool {
        self.recover > 1
    }

    /// When the connection was opened.
    pub fn opened(&self) -> Option<Time> {
        self.opened
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Windows

    /// Usable window in segments: floor(cwnd) plus inflation, capped by the receiver.
    #[inline]
    pub(super) fn usable(&self) -> u32 {
        (self.window.cwnd as u32).saturating_add(self.inflation).min(self.receiver_window)
    }

    /// Segments that a reduction starts from.
    pub(super) fn reduction_base(&self) -> f64 {
        if self.ns2 {
            // ns-2 halves the usable window, not the flight.
            return (self.window.cwnd + f64::from(self.inflation)).min(f64::from(self.receiver_window));
        }
        let flight = (self.next - self.una) as f64 / f64::from(self.mss);
        if matches!(self.engine, Engine::Rack(_)) {
            // What it sends before it is sure of a loss is limited transmit.
            return flight.min(self.window.cwnd);
        }
        flight - f64::from(self.limited)
    }

    /// The sample that goes with a reduction now.
    pub(super) fn loss_sample(&self, now: Time) -> LossSample {
        let retransmitted = self.segments.at(self.una).is_some_and(|segment| segment.transmissions > 1);
        LossSample { now, flight: self.reduction_base(), retransmitted }
    }

    /// Applies a reduction of ssthresh. ns-2 keeps ssthresh as an integer.
    pub(super) fn lower_ssthresh(&mut self, reduction: Reduction) {
        let ssthresh = if self.ns2 { reduction.ssthresh.trunc() } else { reduction.ssthresh };
        self.window.ssthresh = ssthresh.max(2.0);
    }

    /// Applies a reduction of both; ns-2 does not floor cwnd at ssthresh's 2.
    pub(super) fn reduce(&mut self, reduction: Reduction) {
        self.lower_ssthresh(reduction);
        self.window.cwnd = if self.ns2 { reduction.cwnd.max(1.0) } else { reduction.cwnd.max(2.0) };
        self.reduced_to = reduction.cwnd.max(2.0);
        self.reduced = self.ecn;
    }

    /// Counts a recovery episode.
    pub(super) fn count_recovery(&mut self, now: Time) {
        self.stats.fast_recoveries += u64::from(self.measured.contains(now));
    }

    /// Counts a reduction that was undone.
    pub(super) fn count_undone(&mut self, now: Time) {
        self.stats.undone_reductions += u64::from(self.measured.contains(now));
    }

    /// Counts an expiry of the coarse timer, if data was outstanding.
    pub(super) fn count_timeout(&mut self, outstanding: bool, now: Time) {
        self.stats.timeouts += u64::from(outstanding && self.measured.contains(now));
    }

    /// ECN echo on an ACK of `ack`, judged before `una` moves (RFC 3168 §6.1.2).
    fn on_ecn_echo(&mut self, ack: u64, now: Time) {
        // Once per window of data, timeouts included; ns-2 lets a mark cut again after a timeout.
        if ack <= self.recover && !(self.ns2 && self.action == Action::Timeout) {
            return;
        }
        if let Some(undo) = &mut self.undo {
            undo.forget();
        }
        let before = self.window.cwnd;
        self.recover = self.max_sent;
        self.action = Action::Ecn;
        if before < 2.0 {
            if !self.ns2 {
                self.waits_for_timer = true;
            } else if std::mem::replace(&mut self.marked_at_one, true) {
                // ns-2 goes on sending, but backs its timer off.
                self.rtt.back_off();
            }
        } else {
            self.marked_at_one = false;
        }
        let sample = self.loss_sample(now);
        let reduction = self.controller.on_ecn(&sample, &self.window);
        self.reduce(reduction);
        self.window.cwnd = self.window.cwnd.min(before);
        if self.extended {
            self.begin_prr(before);
        }
        self.reduced = true;
        let elapsed = now.since(self.opened.unwrap_or(now));
        if let Engine::Vegas(timer) = &mut self.engine {
            timer.on_mark(self.window.cwnd, elapsed);
        }
    }

    /// RFC 5681 §4.1: after an idle RTO the ACK clock is gone, start from the initial window.
    fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent);
        // A law that sets the window from the delivery rate paces instead (Linux agrees).
        if idle > self.rtt.timeout() && !self.needs.rate {
            self.window.cwnd = self.window.cwnd.min(self.initial_window);
        }
        self.controller.on_idle(idle);
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Acknowledged data

    /// Takes an ACK that advances `una`: forgets what it covers, measures, restarts the timer. Returns the number of
    /// segments acknowledged and the RTT of the newest if it was sent once.
    #[inline]
    pub(super) fn advance(&mut self, packet: &Packet, now: Time, update_rtt: bool) -> (u32, Option<Span>) {
        let ack = packet.seq;
        if self.extended {
            self.sample_cumulative(ack);
        }
        let mut acked = 0;
        // When the newest segment covered was last sent, and the most often that one of them was.
        let (mut sent, mut transmissions) = (now, 0);
        while let Some(first) = self.segments.first()
            && first.end() <= ack
        {
            // What had been SACKed was delivered before.
            acked += u32::from(!first.sacked);
            sent = first.last_sent;
            transmissions = first.transmissions.max(transmissions);
            match &mut self.engine {
                Engine::Sack(scoreboard) => scoreboard.forget(first),
                Engine::Rack(rack) => {
                    // SACKed in order to be overtaken, not to be repaired: the window may grow for it now.
                    let grows = first.sacked && !rack.in_recovery() && self.una >= self.timeout_recover;
                    acked += u32::from(grows);
                    rack.acknowledge(first, self.timestamps.then_some(packet.echo), now);
                }
                _ => {}
            }
            self.segments.pop_first();
        }
        // Karn's rule, and Linux's: an ACK that a repair released has waited for the repair, whatever it
        // covers besides.
        let rtt = (transmissions == 1).then(|| now.since(sent));
        // The handshake's RTT is measured by the estimator, but it is not a data sample.
        let rtt = rtt.filter(|_| self.una > 0);
        if let Some(rtt) = rtt
            && self.measured.contains(now)
        {
            self.stats.rtt.add(rtt);
        }
        self.una = ack;
        self.next = self.next.max(ack);
        self.limited = 0;
        if self.needs.timing {
            self.alarms.cancel(Alarm::Hold);
        }
        if update_rtt {
            self.update_rtt(packet, now);
        }
        (acked, rtt)
    }

    /// One RTT sample at most (Karn, or timestamps).
    #[inline]
    fn update_rtt(&mut self, packet: &Packet, now: Time) {
        if self.timestamps {
            let filtered = if self.needs.timing {
                self.controller.filter_rtt(now.since(packet.echo), packet.seq, now)
            } else {
                Some(now.since(packet.echo))
            };
            if let Some(rtt) = filtered {
                self.rtt.sample(now - rtt, now, self.una, self.next, true);
            }
            if !self.ns2 {
                self.rtt.end_backoff();
            }
        }
        if let Some((end, sent)) = self.timed
            && packet.seq >= end
        {
            self.timed = None;
            self.rtt.end_backoff();
            if !self.timestamps {
                let filtered = if self.needs.timing {
                    self.controller.filter_rtt(now.since(sent), end, now)
                } else {
                    Some(now.since(sent))
                };
                if let Some(rtt) = filtered {
                    self.rtt.sample(now - rtt, now, self.una, self.next, false);
                }
            }
        }
    }

    /// Everything that a plain new ACK does outside recovery: advance, measure, grow.
    #[inline]
    pub(super) fn accept_new_ack<W: Wire>(
        &mut self,
        packet: &Packet,
        now: Time,
        may_grow: bool,
        wire: &mut W,
    ) {
        self.dup_acks = 0;
        let after_timeout = self.una < self.timeout_recover;
        let (mut acked, rtt) = self.advance(packet, now, true);
        self.restart_timer(now, wire);
        if after_timeout && !matches!(self.engine, Engine::Sack(_) | Engine::Rack(_)) {
            // RFC 3465 §2.3: while go-back-N repeats what is partly there, an ACK that jumps is no sign of so
            // many departures.
            acked = acked.min(1);
        }
        let may_grow = may_grow && self.may_grow(packet);
        self.measure_and_grow(acked, rtt, may_grow, now);
        if self.una == 1 {
            // The handshake is done.
            self.window.cwnd = self.initial_window;
            let start = Start {
                now,
                history: &self.history,
                handshake: now.since(self.opened.unwrap_or(now)),
                mss: self.mss,
            };
            self.controller.on_start(&start, &mut self.window);
            if !self.ns2 {
                self.rtt.end_handshake();
            }
        }
    }

    /// What a new ACK does within recovery: the same without growth.
    pub(super) fn accept_ack_in_recovery<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        let (acked, rtt) = self.advance(packet, now, true);
        self.restart_timer(now, wire);
        self.measure_and_grow(acked, rtt, false, now);
    }

    /// Whether this ACK may raise the window: no mark, and the window was what held the sender back (RFC 7661).
    #[inline]
    pub(super) fn may_grow(&self, packet: &Packet) -> bool {
        !packet.has(flag::ECE) && (self.window_limited || self.grow_when_limited_elsewhere)
    }

    /// Tells the controller about an ACK.
    #[inline]
    pub(super) fn measure_and_grow(&mut self, acked: u32, rtt: Option<Span>, may_grow: bool, now: Time) {
        if self.una == 1 && !(self.ns2 && matches!(self.engine, Engine::Vegas(_))) {
            // The handshake tells nothing about data: its segments are short. Those of ns-2's Vegas are not.
            return;
        }
        let sample = AckSample {
            now,
            elapsed: now.since(self.opened.unwrap_or(now)),
            rtt,
            srtt: self.rtt.srtt(),
            acked,
            una: self.una,
            next: self.next,
            mss: self.mss,
            may_grow,
        };
        self.controller.on_ack(&sample, &mut self.window);
    }

    /// Records completion once everything, the FIN included, is acknowledged.
    fn check_completion(&mut self, now: Time) {
        let end = self.data_end + u64::from(!self.ns2);
        if self.closed && self.una >= end && self.stats.completed.is_none() {
            self.stats.completed = Some(now);
            self.timer = None;
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Transmission

    /// Whether there is something at `next` that has never been sent.
    fn has_new(&self) -> bool {
        // Data waits for the handshake.
        if self.una == 0 {
            // ns-2's Vegas restarts from a window of two even when only a lost SYN is out.
            let restarted =
                self.ns2 && self.next == 1 && self.next < self.data_end && self.window.cwnd >= 2.0;
            return self.max_sent == 0 || restarted;
        }
        self.next < self.data_end || (self.closed && !self.ns2 && self.next == self.data_end)
    }

    /// Whether there is something at `next` to send, new or again.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.next < self.max_sent || self.has_new()
    }

    /// Whether there is data that has never been sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.max_sent < self.data_end || (self.closed && !self.ns2 && self.max_sent == self.data_end)
    }

    /// Sends one new segment if there is one.
    pub(super) fn send_new<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.has_new() {
            self.transmit_next(now, wire);
        }
    }

    /// Sends from `next` on while the window allows, at most `burst` segments.
    #[inline]
    pub(super) fn fill_window_burst<W: Wire>(&mut self, burst: u32, now: Time, wire: &mut W) {
        let window = u64::from(self.usable()) * u64::from(self.mss);
        for _ in 0..burst {
            let fits = self.next - self.una < window;
            let has_more = self.has_more();
            if !fits || !has_more {
                self.window_limited = has_more && self.usable() < self.receiver_window;
                return;
            }
            if self.extended && self.held_back(now, wire) {
                return;
            }
            self.transmit_next(now, wire);
        }
    }

    /// Sends from `next` on while the window allows.
    #[inline]
    pub(super) fn fill_window<W: Wire>(&mut self, now: Time, wire: &mut W) {
        match self.engine {
            Engine::Sack(_) => self.sack_fill_window(now, wire),
            Engine::Rack(_) => self.rack_fill_window(now, wire),
            Engine::Sack1(_) => self.sack1_fill_window(now, wire),
            _ => self.fill_window_burst(u32::MAX, now, wire),
        }
    }

    /// Limited transmit (RFC 3042): one new segment for each of the first duplicate ACKs. ns-2 takes whatever
    /// is next, during go-back-N an old one.
    pub(super) fn send_limited<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let is_new = self.next == self.max_sent;
        if !self.limited_transmit || !self.has_more() || !(is_new || self.ns2) {
            return;
        }
        let mss = u64::from(self.mss);
        let outstanding = self.next - self.una;
        let allowed = (self.window.cwnd + f64::from(self.dup_acks)) * f64::from(self.mss);
        if outstanding + mss <= u64::from(self.receiver_window) * mss && (outstanding + mss) as f64 <= allowed
        {
            self.transmit_next(now, wire);
            self.limited += 1;
        }
    }

    /// Sends the segment at `next`, new or again, and moves on.
    #[inline]
    pub(super) fn transmit_next<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.next < self.max_sent {
            let Some(index) = self.segments.find(self.next) else {
                unreachable!("everything between una and max_sent has a record")
            };
            self.next = self.retransmit_index(index, now, wire);
            return;
        }
        let nothing_outstanding = self.una == self.max_sent;
        let seq = self.next;
        let (payload, fin) = if seq == 0 {
            (0, false)
        } else {
            let left = self.data_end - seq;
            let payload = left.min(u64::from(self.mss)) as u16;
            (payload, self.closed && !self.ns2 && u64::from(payload) == left)
        };
        let len = payload + u16::from(seq == 0) + u16::from(fin);
        self.segments.push(seq, len, fin, now);
        if self.extended {
            self.sample_send(None, nothing_outstanding, now);
        }
        self.next = seq + u64::from(len);
        self.max_sent = self.next;
        if self.timed.is_none() {
            self.timed = Some((self.next, now));
        }
        self.put_on_wire(seq, payload, fin, now, now, false, wire);
        if self.timer.is_none() || (nothing_outstanding && !matches!(self.engine, Engine::Vegas(_))) {
            self.set_timer(now, wire);
        }
    }

    /// Sends the segment at `una` again.
    pub(super) fn retransmit_una<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if let Some(index) = self.segments.find(self.una) {
            self.retransmit_index(index, now, wire);
        }
    }

    /// Sends a known segment again and returns the sequence number behind it.
    pub(super) fn retransmit_index<W: Wire>(&mut self, index: usize, now: Time, wire: &mut W) -> u64 {
        let Some(segment) = self.segments.get_mut(index) else { return self.next };
        segment.last_sent = now;
        segment.transmissions = segment.transmissions.saturating_add(1);
        let Segment { seq, len, fin, first_sent, .. } = *segment;
        let payload = len - u16::from(fin) - u16::from(seq == 0);
        self.stats.retransmitted += u64::from(self.measured.contains(now));
        if let Some(undo) = &mut self.undo {
            undo.on_retransmission(seq, now);
        }
        if self.extended {
            self.sample_send(Some(index), false, now);
        }
        self.put_on_wire(seq, payload, fin, first_sent, now, true, wire);
        if self.timer.is_none() {
            self.set_timer(now, wire);
        }
        seq + u64::from(len)
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one caller per kind of transmission, all fields plain")]
    fn put_on_wire<W: Wire>(
        &mut self,
        seq: u64,
        payload: u16,
        fin: bool,
        first_sent: Time,
        now: Time,
        again: bool,
        wire: &mut W,
    ) {
        let (kind, header) = match (seq, fin) {
            (0, _) => (Kind::Syn, self.syn_size),
            (_, true) => (Kind::Fin, self.data_header),
            (_, false) => (Kind::Data, self.data_header),
        };
        let mut flags = 0;
        if again {
            flags |= flag::RETRANSMISSION;
        }
        if self.ecn && kind == Kind::Syn && !self.ns2 {
            // RFC 3168 §6.1.1; in ns-2 the agents agree on their own.
            flags |= flag::ECE | flag::CWR;
        }
        if self.ecn && kind != Kind::Syn && !again {
            // RFC 3168 §6.1.5: retransmissions are not ECN-capable.
            flags |= flag::ECT;
            if std::mem::take(&mut self.reduced) {
                flags |= flag::CWR;
            }
        }
        match &mut self.engine {
            Engine::Vegas(timer) => {
                timer.on_send(seq, u64::from(self.mss), now.since(self.opened.unwrap_or(now)));
            }
            Engine::Rack(rack) => {
                let len = payload + u16::from(seq == 0) + u16::from(fin);
                rack.on_send(seq, seq + u64::from(len), now);
            }
            _ => {}
        }
        if self.extended
            && let Some(prr) = &mut self.prr
        {
            prr.on_sent();
        }
        self.last_sent = now;
        if self.extended && self.needs.pacing {
            self.charge_pace(payload, now);
        }
        let extra = if self.extended && self.needs.waves && payload > 0 && !again {
            self.attach_wave(seq, wire)
        } else {
            NONE
        };
        wire.send(
            Packet {
                seq,
                stamp: now,
                echo: first_sent,
                bytes: header + payload,
                payload,
                extra,
                kind,
                flags,
                ..Packet::default()
            },
            now,
        );
    }

    /// A segment without data: the third of the handshake, or the answer to the receiver's FIN.
    fn send_ack<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let bytes = self.ack_size;
        wire.send(
            Packet {
                seq: self.next,
                stamp: now,
                echo: now,
                bytes,
                extra: NONE,
                kind: Kind::Ack,
                ..Packet::default()
            },
            now,
        );
    }

    // ---------------------------------------------------------------------------------------------------------------
    // The retransmission timer

    /// (Re)starts the timer.
    #[inline]
    pub(super) fn set_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let mut due = now + self.rtt.timeout();
        if self.needs.timing {
            due += self.controller.timer_extension();
        }
        self.timer = Some(due);
        if due < self.armed {
            self.arm(due, wire);
        }
    }

    pub(super) fn arm<W: Wire>(&mut self, at: Time, wire: &mut W) {
        self.armed = at;
        wire.wake(at);
    }

    /// After an ACK of new data: restart, or stop if nothing is outstanding. ns-2 lets it run even then.
    #[inline]
    pub(super) fn restart_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.una < self.max_sent || self.ns2 {
            self.set_timer(now, wire);
        } else {
            self.timer = None;
        }
    }

    /// The retransmission timer expired.
    pub(super) fn on_timeout<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.waits_for_timer = false;
        if matches!(self.engine, Engine::Vegas(_)) {
            self.vegas_on_timeout(now, wire);
            return;
        }
        self.end_kept_window();
        let outstanding = self.una < self.max_sent;
        if outstanding && self.extended && self.begins_probing(Trigger::Timeout, now, wire) {
            return;
        }
        let repeated = self.una < self.timeout_recover;
        if !matches!(self.engine, Engine::Tahoe) || !self.ns2 {
            self.dup_acks = 0;
        }
        self.inflation = 0;
        let mut backs_off = true;
        let mut sample = self.loss_sample(now);
        // A long recovery sends a segment per duplicate ACK: the data outstanding then exceeds by far what the path
        // holds, and half of it would be no reduction at all.
        sample.flight = sample.flight.min(self.window.cwnd);
        self.recover = self.max_sent;
        if self.una == 0 {
            // RFC 5681 §3.1: a lost SYN is paid for with the initial window. It says nothing about ssthresh
            // (Linux agrees).
            self.initial_window = 1.0;
        }
        if !outstanding {
            // ns-2 only: idle for a whole timeout, so the window is stale but nothing was lost.
            self.window.cwnd = 1.0;
        } else if self.action == Action::Ecn && self.ns2 {
            self.window.cwnd = 1.0;
        } else {
            self.count_timeout(true, now);
            self.action = Action::Timeout;
            if self.extended && self.una > 0 {
                self.keep_before(true);
            }
            let mut cwnd = 1.0;
            if self.ns2 || self.una > 0 {
                let reduction = self.controller.on_timeout(&sample, &self.window);
                self.keep_score(reduction, now, wire);
                // RFC 5681 §3.1: repeated timeouts of the same data leave ssthresh alone; ns-2 halves it every time.
                if self.ns2 || !repeated {
                    self.lower_ssthresh(reduction);
                }
                cwnd = reduction.cwnd.clamp(1.0, self.window.cwnd.max(1.0));
                backs_off = reduction.backs_off;
            }
            self.window.cwnd = cwnd;
            self.reduced = self.ecn;
        }
        self.timeout_recover = self.max_sent;
        if outstanding && backs_off {
            self.rtt.back_off();
        }
        self.timed = None;
        self.limited = 0;
        self.alarms.cancel(Alarm::Hold);
        self.action = Action::Timeout;
        if let Some(prr) = &mut self.prr {
            prr.abandon();
        }
        match &mut self.engine {
            Engine::Sack(_) => self.sack_on_timeout(),
            Engine::Rack(_) => self.rack_on_timeout(now),
            Engine::Sack1(sack1) => {
                sack1.on_timeout(self.una);
                self.next = self.una;
            }
            _ => self.next = self.una,
        }
        self.set_timer(now, wire);
        self.fill_window(now, wire);
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! A sender alone, and what it put on the wire.

    use lasthop_cc::ControllerConfig;

    use super::*;

    /// Records segment numbers: packet 1 is the first of data.
    #[derive(Default)]
    pub(crate) struct Tape {
        pub(crate) sent: Vec<u64>,
        pub(crate) packets: Vec<Packet>,
        pub(crate) wakes: Vec<Time>,
    }

    impl Wire for Tape {
        fn send(&mut self, packet: Packet, _now: Time) {
            self.sent.push(packet.seq.div_ceil(1000));
            self.packets.push(packet);
        }
        fn wake(&mut self, at: Time) {
            self.wakes.push(at);
        }
    }

    /// A sender with 1000-byte segments, its tape and a clock.
    pub(crate) struct Rig {
        pub(crate) sender: TcpSender,
        pub(crate) tape: Tape,
        pub(crate) now: Time,
    }

    impl Rig {
        pub(crate) fn new(config: &TcpConfig) -> Rig {
            let window = measure::Window { from: Time::ZERO, to: Time::MAX };
            let mut stream = Stream::new(1, "clock");
            let sender = TcpSender::new(config, &mut stream, window, Percentiles::Exact);
            Rig { sender, tape: Tape::default(), now: Time::ZERO }
        }

        /// One of the RFC engines as the vectors TV-2.1 to TV-2.6 assume it: no limited transmit, one ACK per
        /// segment.
        pub(crate) fn rfc(recovery: Recovery) -> Rig {
            Rig::new(&TcpConfig {
                limited_transmit: false,
                timestamps: false,
                delayed_ack: None,
                packet_size: 1040,
                tlp: false,
                ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), recovery)
            })
        }

        /// Segments 11..=20 outstanding and W = 10 in congestion avoidance.
        pub(crate) fn ten_outstanding(mut self) -> Rig {
            self.sender.on_data(None, self.now, &mut self.tape);
            self.ack(1);
            self.sender.window = Window { cwnd: 10.0, ssthresh: 5.0 };
            for number in 2..=11 {
                self.ack(number);
                self.sender.window = Window { cwnd: 10.0, ssthresh: 5.0 };
            }
            assert_eq!(self.sender.una, 10_001);
            assert_eq!(self.sender.max_sent, 20_001);
            self.tape.sent.clear();
            self
        }

        /// An ACK that expects segment `number` next (1 acknowledges the SYN), `millis` later than the last.
        pub(crate) fn ack(&mut self, number: u64) -> Vec<u64> {
            self.sack(number, &[])
        }

        /// The same with SACK blocks in segment numbers, inclusive.
        pub(crate) fn sack(&mut self, number: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
            let mut extra = Extra::default();
            for &(first, last) in blocks {
                extra.sack.push((first - 1) * 1000 + 1, last * 1000 + 1);
            }
            self.answer(number, Some(&extra).filter(|extra| !extra.sack.is_empty()))
        }

        /// The same with anything that an ACK may carry.
        pub(crate) fn answer(&mut self, number: u64, extra: Option<&Extra>) -> Vec<u64> {
            self.now += Span::from_millis(1);
            let kind = if number == 1 { Kind::SynAck } else { Kind::Ack };
            let packet = Packet { seq: (number - 1) * 1000 + 1, kind, ..Packet::default() };
            self.sender.on_ack(&packet, extra, self.now, &mut self.tape);
            std::mem::take(&mut self.tape.sent)
        }

        /// The same with an ECN echo.
        pub(crate) fn marked(&mut self, number: u64) -> Vec<u64> {
            self.now += Span::from_millis(1);
            let seq = (number - 1) * 1000 + 1;
            let packet = Packet { seq, kind: Kind::Ack, flags: flag::ECE, ..Packet::default() };
            self.sender.on_ack(&packet, None, self.now, &mut self.tape);
            std::mem::take(&mut self.tape.sent)
        }

        /// Lets the retransmission timer expire.
        pub(crate) fn time_out(&mut self) -> Vec<u64> {
            let timeouts = self.sender.stats.timeouts;
            while self.sender.stats.timeouts == timeouts {
                self.now = self.sender.armed;
                assert_ne!(self.now, Time::MAX, "no timer");
                self.sender.on_timer(self.now, &mut self.tape);
            }
            std::mem::take(&mut self.tape.sent)
        }

        pub(crate) fn window(&self) -> (f64, f64) {
            (self.sender.window.cwnd + f64::from(self.sender.inflation), self.sender.window.ssthresh)
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::ControllerConfig;

    use super::testing::Rig;
    use super::*;

    /// 1000-byte segments, one ACK each, no timestamps.
    fn config(recovery: Recovery) -> TcpConfig {
        TcpConfig {
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            tlp: false,
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), recovery)
        }
    }

    fn flags(rig: &Rig) -> Vec<u16> {
        rig.tape.packets.iter().map(|packet| packet.flags).collect()
    }

    /// Segments 101..=120 outstanding, W = 20, ECN on.
    fn twenty_outstanding(recovery: Recovery) -> Rig {
        let mut rig = Rig::new(&TcpConfig { ecn: true, initial_window: 20.0, ..config(recovery) });
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        for number in 1..=101 {
            rig.ack(number);
            rig.sender.window = Window { cwnd: 20.0, ssthresh: 10.0 };
        }
        assert_eq!((rig.sender.una, rig.sender.max_sent), (100_001, 120_001));
        rig.tape.packets.clear();
        rig
    }

    const ALL: [Recovery; 5] =
        [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::Sack1];

    /// TV-2.11: one cut a window, no growth, and CWR on the first new segment.
    #[test]
    fn a_mark_halves_the_window_once() {
        for recovery in ALL {
            let mut rig = twenty_outstanding(recovery);
            assert_eq!(rig.marked(105), [0; 0]);
            assert_eq!(rig.window(), (10.0, 10.0), "{recovery:?}");
            let sent: Vec<u64> = (106..=121).flat_map(|number| rig.marked(number)).collect();
            assert_eq!(sent, (121..=130).collect::<Vec<_>>(), "{recovery:?}: F follows W");
            assert_eq!(rig.window(), (10.0, 10.0), "{recovery:?}: no cut, no growth");
            let mut expected = vec![flag::ECT; 10];
            expected[0] |= flag::CWR;
            assert_eq!(flags(&rig), expected, "{recovery:?}");
            rig.marked(122);
            assert_eq!(rig.window(), (5.0, 5.0), "{recovery:?}: the next window");
        }
    }

    /// TV-2.11: a loss in a window that a mark has already halved is repaired without a second cut.
    #[test]
    fn a_loss_after_a_mark_does_not_cut_again() {
        for recovery in ALL {
            let mut rig = twenty_outstanding(recovery);
            rig.marked(105);
            rig.ack(110);
            assert_eq!(rig.sender.window.ssthresh, 10.0);
            let sent: Vec<u64> = (111..=113)
                .flat_map(|last| rig.sack(110, &[(111, last)]))
                .filter(|&number| number < 121)
                .collect();
            assert_eq!(sent, [110], "{recovery:?}");
            assert_eq!(rig.sender.window.ssthresh, 10.0, "{recovery:?}: no second cut");
            let cwnd = if recovery == Recovery::Tahoe { 1.0 } else { 10.0 };
            assert!((rig.sender.window.cwnd - cwnd).abs() < 0.2, "{recovery:?}: {:?}", rig.sender.window);
        }
    }

    /// RFC 3168 §6.1.5: what is sent again is not ECN-capable, and neither is a SYN.
    #[test]
    fn retransmissions_are_not_ecn_capable() {
        let mut rig = twenty_outstanding(Recovery::NewReno);
        rig.time_out();
        assert_eq!(flags(&rig), [flag::RETRANSMISSION]);
        let mut rig = Rig::new(&TcpConfig { ecn: true, ..config(Recovery::NewReno) });
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        assert_eq!(flags(&rig), [flag::ECE | flag::CWR], "RFC 3168 §6.1.1");
    }

    /// RFC 3168 §6.1.2: a mark at a window of one segment stops the sender until its timer expires; so a path that
    /// marks everything gets a segment per timeout.
    #[test]
    fn a_mark_at_one_segment_waits_for_the_timer() {
        for recovery in ALL {
            let mut rig = twenty_outstanding(recovery);
            rig.time_out();
            rig.ack(121);
            rig.sender.window = Window { cwnd: 1.0, ssthresh: 2.0 };
            let next = rig.sender.max_sent / 1000 + 1;
            assert_eq!(rig.marked(next), [0; 0], "{recovery:?}");
            assert_eq!(rig.sender.window.cwnd, 1.0, "{recovery:?}");
            rig.sender.on_data(None, rig.now, &mut rig.tape);
            assert_eq!(rig.tape.sent, [0; 0], "{recovery:?}: nor for new data");
            let (timeouts, before, highest) = (rig.sender.stats.timeouts, rig.now, rig.sender.max_sent);
            while rig.sender.max_sent == highest {
                rig.now = rig.sender.armed;
                assert_ne!(rig.now, Time::MAX, "{recovery:?}: no timer");
                rig.sender.on_timer(rig.now, &mut rig.tape);
            }
            assert!(rig.now.since(before) >= Span::from_secs(1), "{recovery:?}");
            assert_eq!(rig.sender.max_sent, highest + 1000, "{recovery:?}: one segment");
            assert_eq!(rig.sender.stats.timeouts, timeouts, "{recovery:?}: nothing was lost");
            rig.tape.sent.clear();
            let next = rig.sender.max_sent / 1000 + 1;
            assert!(!rig.ack(next).is_empty(), "{recovery:?}: without a mark it goes on");
        }
    }

    /// The bit of a SYN-ACK agrees to ECN; it is no mark.
    #[test]
    fn agreeing_to_marks_is_no_mark() {
        for recovery in ALL {
            let mut rig = Rig::new(&TcpConfig { ecn: true, ..config(recovery) });
            rig.sender.on_data(None, rig.now, &mut rig.tape);
            rig.tape.sent.clear();
            let flags = flag::BACK | flag::ECE;
            let answer = Packet { seq: 1, kind: Kind::SynAck, flags, ..Packet::default() };
            rig.sender.on_ack(&answer, None, rig.now, &mut rig.tape);
            assert_eq!(rig.tape.sent, (1..=10).collect::<Vec<_>>(), "{recovery:?}");
            assert_eq!(rig.sender.window.ssthresh, f64::INFINITY, "{recovery:?}");
        }
    }

    /// RFC 5681 §3.1: whoever lost a SYN starts with one segment.
    #[test]
    fn a_lost_syn_costs_the_initial_window() {
        for recovery in Recovery::NAMES.iter().filter_map(|name| Recovery::by_name(name)) {
            let mut rig = Rig::new(&config(recovery));
            rig.sender.on_data(None, rig.now, &mut rig.tape);
            rig.tape.sent.clear();
            assert_eq!(rig.time_out(), [0], "the SYN again");
            assert_eq!(rig.ack(1), [1], "{recovery:?}");
            assert_eq!(rig.sender.window.cwnd, 1.0, "{recovery:?}");
            let mut rig = Rig::new(&config(recovery));
            rig.sender.on_data(None, rig.now, &mut rig.tape);
            rig.tape.sent.clear();
            assert_eq!(rig.ack(1), (1..=10).collect::<Vec<_>>(), "{recovery:?}");
        }
    }

    /// RFC 6298 (5.7): SYNs follow after 1 and 2 s, and then the timeout of the data starts from 3 s.
    #[test]
    fn a_lost_syn_raises_the_timeout() {
        for recovery in Recovery::NAMES.iter().filter_map(|name| Recovery::by_name(name)) {
            let mut rig = Rig::new(&config(recovery));
            rig.sender.on_data(None, rig.now, &mut rig.tape);
            let mut waits = Vec::new();
            for _ in 0..2 {
                let sent = rig.now;
                rig.time_out();
                waits.push(rig.now.since(sent));
            }
            rig.ack(1);
            let sent = rig.now;
            rig.time_out();
            waits.push(rig.now.since(sent));
            assert_eq!(waits, [1, 2, 3].map(Span::from_secs), "{recovery:?}");
        }
    }

    /// RFC 5681 §4.1: the window is no larger than the initial one after an idle timeout, and untouched after less.
    #[test]
    fn an_idle_sender_starts_again_from_the_initial_window() {
        for (idle_ms, cwnd) in [(500, 40.0), (5000, 10.0)] {
            for recovery in ALL {
                let mut rig = Rig::new(&config(recovery));
                rig.sender.on_data(Some(5000), rig.now, &mut rig.tape);
                rig.ack(1);
                rig.ack(6);
                rig.sender.window = Window { cwnd: 40.0, ssthresh: 64.0 };
                rig.now += Span::from_millis(idle_ms);
                rig.tape.sent.clear();
                rig.sender.on_data(Some(100_000), rig.now, &mut rig.tape);
                assert_eq!(rig.sender.window, Window { cwnd, ssthresh: 64.0 }, "{recovery:?}");
                assert_eq!(rig.tape.sent.len(), cwnd as usize, "{recovery:?}");
            }
        }
    }

    /// The FIN travels with the last byte and is sent again like data; the end is known when it is acknowledged.
    #[test]
    fn the_end_is_repaired_like_data() {
        for recovery in ALL {
            let mut rig = Rig::new(&config(recovery));
            rig.sender.on_data(Some(1500), rig.now, &mut rig.tape);
            rig.sender.on_close(false, rig.now, &mut rig.tape);
            rig.ack(1);
            let kinds: Vec<Kind> = rig.tape.packets.iter().map(|packet| packet.kind).collect();
            assert_eq!(kinds, [Kind::Syn, Kind::Data, Kind::Fin], "{recovery:?}");
            rig.ack(2);
            assert_eq!(rig.time_out(), [2], "{recovery:?}: the FIN was lost");
            assert_eq!(rig.sender.stats.completed, None);
            let answer = Packet { seq: 1502, kind: Kind::FinAck, ..Packet::default() };
            for _ in 0..2 {
                // The second time because the receiver missed the last ACK.
                rig.tape.packets.clear();
                rig.sender.on_ack(&answer, None, rig.now, &mut rig.tape);
                assert_eq!(rig.sender.stats.completed, Some(rig.now), "{recovery:?}");
                let last: Vec<Kind> = rig.tape.packets.iter().map(|packet| packet.kind).collect();
                assert_eq!(last, [Kind::Ack], "{recovery:?}");
            }
        }
    }
}
