//! Congestion controllers: how much a sender may have in flight.
//!
//! A controller sees what its sender sees (ACKs, losses, timeouts, ECN echoes) and answers with a window. It has no
//! clock, no randomness and no I/O; time comes in with each event. The same code therefore runs in simulation, in
//! emulation and against a real kernel. The recovery engines in `lasthop-net` *find and repair* losses; any controller
//! combines with any of them.
//!
//! To add a controller: write `src/<name>.rs` (a `Params`, a state, `impl CongestionControl`, tests) and add its two
//! lines below (`mod` and one in `controllers!`). Lookup by name, the scenario keys with their ranges, `lasthop
//! transports` and the conformance tests follow from that line.
//!
//! Windows are real numbers of segments, as in the papers: many controllers add fractions.

#![forbid(unsafe_code)]

mod abba;
mod bandwidth;
mod bbr;
mod bbr3;
mod c2tcp;
mod copa;
mod cubic;
mod dctcp;
pub mod delivery;
mod estimates;
mod external;
mod gaimd;
pub mod host;
mod hystart;
mod jitter;
mod jtcp;
mod lda;
mod ledbat_plus_plus;
mod loss_filter;
pub mod model;
pub mod params;
mod prague;
mod probing;
mod registry;
mod reno;
mod round_max;
mod satcp;
mod search;
mod signal;
mod tcp_real;
#[cfg(test)]
mod testing;
mod tibet;
pub mod train;
mod vegas;
mod veno;
mod veno_plus;
mod westwood;
mod westwood_plus;
mod whole;
mod wsc;
mod xjtcp;

use lasthop_core::time::{Span, Time};

pub use estimates::{Estimates, LossSigns};
pub use external::{External, ExternalConfig, Factory, intern};
pub use params::{Param, ParamError};
pub use signal::Signal;
registry::controllers! {
    "reno" => reno::Reno,
    "vegas" => vegas::Vegas in Box,
    "cubic" => cubic::Cubic in Box,
    "westwood" => westwood::Westwood,
    "westwood+" => westwood_plus::WestwoodPlus in Box,
    "tibet" => tibet::Tibet,
    "veno" => veno::Veno in Box,
    "venoplus" => veno_plus::VenoPlus in Box,
    "gaimd" => gaimd::Gaimd,
    "wsc" => wsc::Wsc in Box,
    "jtcp" => jtcp::Jtcp in Box,
    "xjtcp" => xjtcp::Xjtcp in Box,
    "tcp-real" => tcp_real::TcpReal in Box,
    "probing" => probing::Probing,
    "lda" => lda::Lda in Box,
    "bbr" => bbr::Bbr in Box,
    "bbr3" => bbr3::Bbr3 in Box,
    "abba" => abba::Abba in Box,
    "c2tcp" => c2tcp::C2tcp in Box,
    "satcp" => satcp::Satcp in Box,
    "copa" => copa::Copa in Box,
    "ledbat++" => ledbat_plus_plus::LedbatPlusPlus in Box,
    "dctcp" => dctcp::Dctcp,
    "prague" => prague::Prague in Box,
}

/// The window of a sender, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window; the sender uses its integer part. At least 1.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
}

impl Window {
    /// Slow start for an ACK of `acked` segments, of which at most `limit` count. Growth stops at ssthresh;
    /// what is left over is returned for congestion avoidance. With a limit of one segment it may overshoot
    /// by less than one (RFC 5681).
    #[inline]
    pub fn slow_start(&mut self, acked: f64, limit: f64) -> f64 {
        if !self.in_slow_start() {
            return acked;
        }
        let counted = acked.min(limit);
        let grown = if limit > 1.0 { counted.min((self.ssthresh - self.cwnd).max(1.0)) } else { counted };
        self.cwnd += grown;
        if self.in_slow_start() { 0.0 } else { counted - grown }
    }

    /// What most laws do with an ACK of `acked` segments that may grow the window: slow start, then congestion
    /// avoidance with `alpha` segments per RTT (RFC 5681).
    #[inline]
    pub(crate) fn grow(&mut self, acked: u32, alpha: f64, style: GrowthStyle) {
        let left = self.slow_start(f64::from(acked), style.slow_start_limit);
        if left > 0.0 {
            let counted = if style.byte_counting { left } else { 1.0 };
            self.cwnd += alpha * counted / self.cwnd;
        }
    }

    /// Whether the sender is in slow start.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// Maximum number of segments that one ACK adds in slow start, unless a law says otherwise (RFC 5681 §3.1).
const SLOW_START_LIMIT: f64 = 1.0;

/// How ACKs are counted when the window grows; every law that grows like Reno has these two parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrowthStyle {
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465).
    pub byte_counting: bool,
    /// Maximum number of segments that one ACK adds in slow start.
    pub slow_start_limit: f64,
}

/// What a sender knows when its connection is open.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// End of the handshake.
    pub now: Time,
    /// Windows that earlier connections of this path kept (segments), if [`Needs::history`] was asked for.
    pub history: &'a [f64],
    /// How long the handshake took.
    pub handshake: Span,
    /// Payload of a full segment in bytes.
    pub mss: u32,
}

/// What one ACK of new data told the sender.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Arrival of the ACK.
    pub now: Time,
    /// Time since the first segment of the connection was sent.
    pub elapsed: Span,
    /// Time from the transmission of the newest acknowledged segment to this ACK, if that segment was sent just once
    /// (Karn's rule).
    pub rtt: Option<Span>,
    /// Smoothed RTT including this ACK; zero before the first sample.
    pub srtt: Span,
    /// Segments newly delivered: covered for the first time, and not SACKed before; 0 in `on_sacked` alone.
    pub acked: u32,
    /// First unacknowledged byte after this ACK.
    pub una: u64,
    /// Next byte to be sent.
    pub next: u64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Whether the window may grow: not in recovery, no ECN echo, and the sender was limited by its window.
    pub may_grow: bool,
    /// Whether segments behind a hole are known to be there (the state Disorder of Linux, if it is not repairing).
    pub disordered: bool,
}

impl AckSample {
    /// Segments in flight just before the window moved: those still outstanding after this ACK and the one it freed.
    #[inline]
    pub fn flight(&self) -> u32 {
        ((self.next - self.una) as u32).div_ceil(self.mss) + 1
    }
}

/// What a sender knows when it must reduce.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// Time of the reduction.
    pub now: Time,
    /// Segments that the reduction starts from: `FlightSize` (RFC 5681), or the usable window in the `ns2` profile.
    pub flight: f64,
    /// Whether the lost segment had been sent more than once.
    pub retransmitted: bool,
    /// What the loss was, if [`Needs::truth`] was asked for and the network knows.
    pub truth: Option<LossKind>,
}

/// What a loss was: what a sender took it for, or what the network knows it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// A queue overflowed.
    Congestion,
    /// The packet was lost in the air: an error or an outage.
    Wireless,
}

/// A controller's answer to a loss. The sender applies it, with the floors of its profile (ssthresh 2, cwnd 1) and
/// never above the present window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// New slow start threshold.
    pub ssthresh: f64,
    /// New congestion window.
    pub cwnd: f64,
    /// What the controller took the loss for, if it tells kinds of losses apart.
    pub taken_for: Option<LossKind>,
    /// Whether a timeout backs the timer off; without effect after other losses.
    pub backs_off: bool,
}

impl Reduction {
    /// To these, without an opinion on the kind of loss.
    pub fn to(ssthresh: f64, cwnd: f64) -> Reduction {
        Reduction { ssthresh, cwnd, taken_for: None, backs_off: true }
    }

    /// To what there is: immediate recovery. As a recovery ends no higher than at ssthresh, that is no lower than
    /// cwnd; and a threshold that is still `unknown_ssthresh`, as it was when the connection opened, becomes cwnd, so
    /// that slow start does not go on beyond a loss without a bound.
    pub fn none(window: &Window, unknown_ssthresh: f64) -> Reduction {
        let known = if window.ssthresh < unknown_ssthresh { window.ssthresh } else { 0.0 };
        Reduction::to(known.max(window.cwnd), window.cwnd)
    }

    /// The same without a burst when the ACKs have ceased: two segments, as a receiver may delay the ACK of a lone
    /// one, and slow start up to ssthresh.
    #[must_use]
    pub fn clocked_by_acks(self) -> Reduction {
        Reduction { cwnd: 2.0, ..self }
    }

    /// The same by a controller that took the loss for `kind`.
    #[must_use]
    pub fn taken_for(self, kind: LossKind) -> Reduction {
        Reduction { taken_for: Some(kind), ..self }
    }

    /// The same, and the retransmission timer keeps its length after a timeout.
    #[must_use]
    pub fn without_backoff(self) -> Reduction {
        Reduction { backs_off: false, ..self }
    }
}

/// Send and receive time of the segment that triggered an ACK, as the receiver echoes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveTime {
    /// When the sender sent the segment.
    pub sent: Time,
    /// When the receiver got it, on the receiver's clock.
    pub received: Time,
}

/// What a receiver measured over one wave of segments (TCP-Real).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaveReport {
    /// Number of the wave.
    pub id: u16,
    /// Rate at which it arrived, in bytes per second; `None` if it was too short to tell.
    pub rate: Option<f64>,
    /// Segments of it that arrived.
    pub segments: u16,
}

/// What a probing cycle measured (TCP Probing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSample {
    /// RTT of the first probe.
    pub first: Span,
    /// RTT of the second.
    pub second: Span,
    /// Smoothed RTT when the cycle began; zero before the first sample.
    pub srtt: Span,
}

/// Any ACK at all, new or duplicate, before its sender has acted on it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Arrival of the ACK.
    pub now: Time,
    /// First unacknowledged byte before this ACK.
    pub una: u64,
    /// Cumulative acknowledgement of this ACK; equal to `una` for a duplicate.
    pub ack: u64,
    /// Next byte to be sent.
    pub next: u64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Smoothed RTT before this ACK; zero before the first sample.
    pub srtt: Span,
    /// Whether the ACK echoes a congestion mark.
    pub ece: bool,
    /// Bytes that it tells were marked: by their number if both ends count marks (RFC 9768), otherwise all that it
    /// acknowledges if it echoes a mark.
    pub marked: u64,
    /// Times of the segment that triggered the ACK, if [`Needs::receive_times`] was asked for; the two timestamps of
    /// an ACK of new data, if [`Needs::timestamp_times`] was.
    pub times: Option<ReceiveTime>,
    /// Bytes of the first SACK block, which holds the segment that triggered the ACK (RFC 2018 section 4).
    pub first_sacked: Option<(u64, u64)>,
    /// Frames that the receiver's MAC has discarded so far (modulo 2^32), if [`Needs::discards`] was asked for.
    pub discards: Option<u32>,
    /// The newest wave that the receiver has measured, if [`Needs::waves`] was asked for.
    pub report: Option<WaveReport>,
}

/// A delivery rate sample, taken when an ACK has been processed (Cheng et al., draft-ietf-ccwg-bbr §4.1).
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Arrival of the ACK.
    pub now: Time,
    /// Segments delivered in the interval of the sample, and its length; `None` when no sample could be taken.
    pub rate: Option<(u64, Span)>,
    /// Whether the sender had nothing to send during the interval.
    pub app_limited: bool,
    /// Segments delivered when the newest segment that this ACK delivers had been sent.
    pub prior_delivered: u64,
    /// Segments delivered so far.
    pub delivered: u64,
    /// Segments that this ACK newly delivered.
    pub acked: u32,
    /// Segments that were found lost on this ACK.
    pub lost: u32,
    /// Segments in flight before and after this ACK.
    pub prior_flight: u32,
    /// See `prior_flight`.
    pub flight: u32,
    /// RTT sample of this ACK.
    pub rtt: Option<Span>,
    /// Whether that RTT may contain the wait of a delayed ACK: a lone short segment was acknowledged.
    pub maybe_delayed: bool,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// Whether the sender is repairing losses: `None`, or since fast retransmit or a timeout.
    pub recovery: Option<RecoveryKind>,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Segments in flight just after the newest segment that this ACK delivers had been sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since then.
    pub lost_since: u32,
    /// How long pacing still holds back the next segment.
    pub held_back: Span,
    /// Whether the window was full at any moment of the last round trip, judged when segments were sent.
    pub window_limited: bool,
    /// Whether losses are told apart within a window of data: the engine keeps a scoreboard.
    pub selective: bool,
}

/// A segment that has been found lost, and what its sender knew when it was sent last.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// When it was found lost.
    pub now: Time,
    /// Its first byte and the one behind it.
    pub seq: u64,
    /// See `seq`.
    pub end: u64,
    /// Segments in flight just after it had been sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since then, itself included.
    pub lost_since: u32,
    /// Segments delivered when it was sent.
    pub prior_delivered: u64,
    /// Segments delivered so far.
    pub delivered: u64,
    /// Whether the sender had nothing to send at that time.
    pub app_limited: bool,
    /// Whether losses are told apart within a window of data.
    pub selective: bool,
}

/// What a sender is repairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Losses found by duplicate ACKs, SACK or RACK.
    Fast,
    /// Losses assumed by a timeout.
    Timeout,
}

/// What a controller needs beyond plain ACKs, losses and timeouts. A sender provides nothing that is not asked for,
/// so that those who ask for nothing pay nothing, in time or in bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Call [`CongestionControl::on_arrival`].
    pub arrivals: bool,
    /// Call [`CongestionControl::on_rate`].
    pub rate: bool,
    /// Space transmissions by [`CongestionControl::pacing_rate`].
    pub pacing: bool,
    /// The receiver echoes send and receive times (12 bytes on every ACK).
    pub receive_times: bool,
    /// Those times are taken from the timestamps option instead, as well as it can tell them.
    pub timestamp_times: bool,
    /// The receiver echoes its count of discarded frames (8 bytes on every ACK).
    pub discards: bool,
    /// Segments carry wave numbers and ACKs rate reports (8 bytes on every segment, 12 on every ACK).
    pub waves: bool,
    /// Call [`CongestionControl::on_signal`].
    pub signals: bool,
    /// Ask [`CongestionControl::filter_rtt`], [`CongestionControl::timer_extension`],
    /// [`CongestionControl::dup_threshold`], [`CongestionControl::resends_given_up`] and
    /// [`CongestionControl::retransmit_delay`].
    pub timing: bool,
    /// Before a reaction to a loss the sender probes the path (TCP Probing).
    pub probing: bool,
    /// The receiver echoes every mark exactly (RFC 8257) and the sender is ECN-capable.
    pub exact_marks: bool,
    /// The window may start from the history of the path, if that holds at least this many windows.
    pub history: Option<u16>,
    /// Losses come with what they were, which simulated networks alone know.
    pub truth: bool,
    /// Losses are told apart: the run keeps the confusion matrix.
    pub classifies: bool,
    /// The window keeps its fraction where that of Linux is whole: the kernel's module keeps it beside.
    pub fractions: bool,
}

impl Needs {
    /// The names of what is asked for here and not among `provides`, which cannot be served: a law whose list is not
    /// empty must be refused. A world that does not count beliefs loses a law nothing, so `classifies` is none of them.
    pub fn unmet(self, provides: Needs) -> Vec<&'static str> {
        let (asked, given) = (self.named(), provides.named());
        let unmet = asked.iter().zip(given).filter(|((_, asked), (_, given))| *asked && !given);
        unmet.map(|((name, _), _)| *name).collect()
    }

    /// Every need under its name.
    fn named(self) -> [(&'static str, bool); 13] {
        let Needs {
            arrivals,
            rate,
            pacing,
            receive_times,
            timestamp_times,
            discards,
            waves,
            signals,
            timing,
            probing,
            exact_marks,
            history,
            truth,
            classifies: _,
            fractions: _,
        } = self;
        [
            ("arrivals", arrivals),
            ("rate", rate),
            ("pacing", pacing),
            ("receive_times", receive_times),
            ("timestamp_times", timestamp_times),
            ("discards", discards),
            ("waves", waves),
            ("signals", signals),
            ("timing", timing),
            ("probing", probing),
            ("exact_marks", exact_marks),
            ("history", history.is_some()),
            ("truth", truth),
        ]
    }

    /// Whether nothing is asked for.
    pub fn is_plain(self) -> bool {
        self == Needs { classifies: self.classifies, history: self.history, ..Needs::default() }
    }
}

/// The law by which a window moves.
pub trait CongestionControl {
    /// What the sender must provide; asked once.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The handshake is done; `window` is the initial window.
    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        let _ = (start, window);
    }

    /// Any ACK has arrived, before losses are looked for and before `on_ack`: measure.
    fn on_arrival(&mut self, arrival: &Arrival, window: &mut Window) {
        let _ = (arrival, window);
    }

    /// New data was acknowledged: measure, and move `window` if `ack.may_grow` (a delay-based law may also
    /// shrink it).
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window);

    /// Nothing new was acknowledged, and the RTT of a segment that was SACKed is known: measure. In the profile
    /// `linux` with RACK, which alone has such samples.
    fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
        let _ = (sample, window);
    }

    /// An ACK, new or duplicate, has been processed: for laws that set the window from the delivery rate.
    fn on_rate(&mut self, sample: &RateSample, window: &mut Window) {
        let _ = (sample, window);
    }

    /// A segment was found lost, before the reaction to it and before the rate sample of the same ACK: for laws that
    /// judge each loss by what was in flight when the segment was sent. Of senders that sample rates.
    fn on_lost_segment(&mut self, lost: &LostSegment, window: &Window) {
        let _ = (lost, window);
    }

    /// A loss was found by duplicate ACKs or SACK; called once per recovery episode.
    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction;

    /// The retransmission timer expired.
    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction;

    /// An ECN echo arrived, at most once per window (RFC 3168). A mark is never a wireless error.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.on_loss(loss, window)
    }

    /// The reduction after a loss or a mark has been carried out: the ACK that is at hand ends it. Of senders with PRR.
    fn on_reduced(&mut self) {}

    /// The sender starts again after sending nothing for `idle`.
    fn on_idle(&mut self, idle: Span, now: Time) {
        let _ = (idle, now);
    }

    /// Two probes in a row were answered; `on_loss` or `on_timeout` follows at once for the loss that they were sent
    /// for.
    fn on_probes(&mut self, probes: &ProbeSample) {
        let _ = probes;
    }

    /// The last reduction is being undone: it answered a loss that there was not. `before` is this controller as it
    /// was before it. A law whose measurements went on meanwhile may keep them.
    fn on_undo(&mut self, before: Self)
    where
        Self: Sized,
    {
        *self = before;
    }

    /// Another layer says something.
    fn on_signal(&mut self, signal: &Signal, now: Time) {
        let _ = (signal, now);
    }

    /// What the law holds for true of the path, if it keeps a model of it. For measurement.
    fn estimates(&self) -> Option<Estimates> {
        None
    }

    /// What speaks for each cause of losses at present, if the law counts it. For measurement.
    fn loss_signs(&self) -> Option<LossSigns> {
        None
    }

    /// Segments per second at which to send, if the law paces.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// Most segments that leave at once where Linux hands trains to its device, if the law's module decides on that
    /// (`tso_segs`).
    fn longest_train(&self) -> Option<f64> {
        None
    }

    /// The RTT sample that the timer is to learn from instead of `rtt`, taken for the segment that ends at `end`;
    /// `None` discards it.
    fn filter_rtt(&mut self, rtt: Span, end: u64, now: Time) -> Option<Span> {
        let _ = (end, now);
        Some(rtt)
    }

    /// Time added to the retransmission timeout when the timer is set.
    fn timer_extension(&self) -> Span {
        Span::ZERO
    }

    /// Time by which the running timer is put off when the link reports one more failed attempt at the oldest
    /// segment.
    fn retry_extension(&self) -> Span {
        Span::ZERO
    }

    /// Duplicate ACKs that mean a loss while `una` is missing; `usual` is the sender's own number.
    fn dup_threshold(&self, una: u64, usual: u32) -> u32 {
        let _ = una;
        usual
    }

    /// Whether a segment that the link has given up is sent again at once; [`CongestionControl::on_loss`] is asked
    /// first about its loss.
    fn resends_given_up(&self) -> bool {
        false
    }

    /// How long a fast retransmission is held back; it is cancelled if `una` advances meanwhile.
    fn retransmit_delay(&self) -> Option<Span> {
        None
    }
}
