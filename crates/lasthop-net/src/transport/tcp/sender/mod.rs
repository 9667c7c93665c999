//! The sending end of TCP. What a loss means is decided by the engines in `recovery/`; how the window moves by the
//! controllers in `lasthop-cc`.
//!
//! `world.rs` calls `on_data`, `on_ack`, `on_timer`, `on_signal` and `on_close`; everything happens at the current
//! time, in order. The state is a [`Connection`]; what happens to it is told in order by `open.rs` (beginning, data,
//! end), `ack.rs`, `loss.rs`, `ecn.rs`, `marks.rs`, `flow_control.rs`, `send.rs`, `usage.rs`, `timer.rs` and
//! `signal.rs`. What only some senders do has files of its own: `undo.rs`, `probing.rs`, `persist.rs`, `timing.rs`,
//! `rate.rs`, `fast_handoff.rs`, `ebsn.rs`, `processing.rs`, `reset.rs`, and the states without a connection
//! `alarms.rs`, `pacing.rs`, `waves.rs` and `eln.rs`.
//!
//! Sequence numbers count bytes: the SYN is byte 0, data starts at 1, the FIN follows the last byte. Windows count
//! segments.

mod ack;
mod alarms;
mod ebsn;
mod ecn;
mod eln;
mod fast_handoff;
mod flow_control;
mod loss;
mod marks;
mod open;
mod pacing;
mod persist;
mod probing;
mod processing;
mod rate;
mod recovery;
mod reset;
mod send;
mod signal;
mod timer;
mod timing;
mod trains;
mod undo;
mod usage;
mod waves;

use std::ops::{Deref, DerefMut};

use lasthop_cc::delivery::DeliverySampler;
use lasthop_cc::host::{Floors, Host};
use lasthop_cc::{CongestionControl, Estimates, LossSigns, Needs, Signal, Window};
use lasthop_core::packet::{Kind, Packet, flag};
use lasthop_core::prefetch::prefetch;
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use self::alarms::Alarms;
use self::eln::Eln;
use self::flow_control::PeerWindow;
use self::marks::Marks;
use self::pacing::Pace;
use self::persist::Persist;
use self::probing::Probing;
use self::processing::HostTime;
use self::recovery::prr::Prr;
use self::recovery::{Engine, with_engine};
use self::reset::Patience;
use self::trains::Train;
use self::undo::Undo;
use self::usage::Usage;
use self::waves::Waves;
use super::config::{PrrVariant, TcpConfig};
use super::mobility::Mobility;
use super::rtt::RttEstimator;
use super::segments::Segments;
use crate::measure;
use crate::plan::Percentiles;
use crate::transport::extra::{Extra, Offer};
use crate::transport::profile::Profile;
use crate::transport::wire::Wire;

/// What the last reduction of the window answered (ns-2's `last_cwnd_action_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    None,
    DuplicateAcks,
    Timeout,
    Ecn,
    /// Recovery has ended.
    Exited,
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
    /// When everything was acknowledged.
    pub completed: Option<Time>,
    /// The application stopped before all that it had to send was sent.
    pub withdrawn: bool,
    /// When the connection was given up or reset; [`Time::MAX`] if it never was.
    reset: Time,
    /// Times that the receiver closed its window, and for how many nanoseconds it was closed.
    pub zero_windows: u64,
    zero_window_time: u64,
}

/// End of a file without end.
const ENDLESS: u64 = u64::MAX / 4;

/// One TCP sender: a connection, and the engine that repairs its losses.
#[derive(Clone, Debug)]
pub struct TcpSender {
    connection: Connection,
    engine: Engine,
}

/// The state of a connection at its sending end, whatever the recovery engine. The files of this folder work on
/// it, and it is private.
#[derive(Clone, Debug)]
pub struct Connection {
    // Sequence state (RFC 9293 §3.3.1).
    una: u64,
    next: u64,
    max_sent: u64,
    /// Everything below was sent before the last timeout.
    timeout_recover: u64,
    /// One past the last byte that the application has written.
    data_end: u64,
    /// The application writes no more.
    closed: bool,

    /// The controller and what stands around it: the window, the floors, one cut per window of data.
    host: Host,
    /// Window inflation during fast recovery, in segments.
    inflation: u32,
    dup_acks: u32,
    action: Action,
    first_partial: bool,
    /// New segments sent by limited transmit since `una` moved; they do not count as flight when halving.
    limited: u32,
    /// How far the window was used.
    usage: Usage,
    /// ns-2: the last mark came while the window was one segment.
    marked_at_one: bool,
    /// Congestion was echoed and the receiver has not been told of the reaction.
    reduced: bool,

    // Timing.
    rtt: RttEstimator,
    /// The one segment that is timed when there are no timestamps: its end and when it was sent.
    timed: Option<(u64, Time)>,
    timer: Option<Time>,
    /// What the sender stores about zero windows; only Freeze-TCP looks at them.
    persist: Option<Box<Persist>>,
    eln: Eln,
    mobility: Mobility,
    /// When the sender gives the connection up, if it ever does.
    patience: Option<Box<Patience>>,
    /// Timers other than the retransmission timer.
    alarms: Alarms,
    /// Fill paths send nothing, because the code that set this fills the window afterwards.
    hold: bool,
    /// A mark came while the window was one segment: nothing is sent before the timer expires (RFC 3168 §6.1.2).
    waits_for_timer: bool,
    /// When the next segment may leave, if the controller paces.
    pace: Pace,
    /// What leaves at once, in the profile `linux`.
    train: Train,
    /// Earliest wake-up that is pending.
    armed: Time,
    opened: Option<Time>,
    last_sent: Time,

    segments: Segments,
    /// Windows of earlier connections of this path; empty unless the controller asked for them.
    history: Vec<f64>,
    /// Spreads reductions, if it is on.
    prr: Option<Prr>,
    /// What is needed to undo a reduction, if anything is ever undone.
    undo: Option<Box<Undo>>,

    /// Delivery-rate samples, if the controller asked for them.
    sampler: Option<Box<DeliverySampler>>,
    /// What the controller asked for.
    needs: Needs,
    /// Whether anything but the plain sender is at work.
    extended: bool,
    /// Where the sender stands between a loss and the answer to it, if the controller asked for probes.
    probing: Probing,
    /// The time that the host takes before it sends, in the profile `ns2`.
    host_time: Option<Box<HostTime>>,
    /// The wave that is being sent, if the controller asked for waves.
    waves: Waves,

    // Configuration, copied for the hot path.
    mss: u32,
    /// What the other end has room for.
    peer: PeerWindow,
    /// The newest timestamp of the other end.
    peer_stamp: Time,
    /// The window that this end advertises, and what it offers in its SYN.
    own_window: u32,
    offer: Offer,
    dup_threshold: u32,
    /// Segments sent again in the life of the connection.
    copies: u32,
    /// The RTT of the first segment that the SACK blocks of the present ACK report, of those sent once; zero if none.
    sacked_rtt: Span,
    ns2: bool,
    linux: bool,
    timestamps: bool,
    limited_transmit: bool,
    idle_restart: bool,
    ecn: bool,
    /// What is known of the marks, if both ends count them.
    marks: Marks,
    /// What makes its data ECN-capable: ECT(0) or ECT(1).
    capable: u8,
    grow_when_limited_elsewhere: bool,
    data_header: u16,
    ack_size: u16,
    syn_size: u16,
    probe_size: u16,

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
        let engine = Engine::new(config);
        let linux = config.profile == Profile::Linux;
        let prr = match config.prr_in_effect() {
            PrrVariant::Off => None,
            variant => Some(Prr::new(variant)),
        };
        let undo = Undo::new(config, linux);
        let plain = config.needs().is_plain()
            && !config.uses_ecn()
            && config.mobility.is_plain()
            && !engine.needs_alarms();
        let extended = !plain || prr.is_some() || undo.is_some();
        let floors = match config.profile {
            Profile::Ns2 => Floors::Ns2,
            Profile::Linux => Floors::Linux,
            Profile::Rfc => Floors::Rfc,
        };
        let initial = Window { cwnd: config.initial_window, ssthresh: config.initial_ssthresh };
        let mut host = Host::new(&config.controller, floors, initial);
        // The SYN goes alone.
        host.window.cwnd = 1.0;
        let connection = Connection {
            una: 0,
            next: 0,
            max_sent: 0,
            timeout_recover: 0,
            data_end: 1,
            closed: false,
            host,
            inflation: 0,
            dup_acks: 0,
            action: Action::None,
            first_partial: false,
            limited: 0,
            usage: Usage::default(),
            marked_at_one: false,
            reduced: false,
            rtt: RttEstimator::new(config.rto, phase),
            timed: None,
            timer: None,
            persist: config.mobility.freeze.map(|freeze| Box::new(Persist::new(freeze))),
            eln: Eln::default(),
            mobility: config.mobility,
            patience: config.give_up.map(|timeouts| Box::new(Patience::new(timeouts))),
            alarms: Alarms::default(),
            hold: false,
            waits_for_timer: false,
            pace: Pace::default(),
            train: Train::default(),
            armed: Time::MAX,
            opened: None,
            last_sent: Time::ZERO,
            segments: Segments::new(config.mss()),
            history: Vec::new(),
            sampler: config.needs().rate.then(Box::default),
            probing: Probing::default(),
            host_time: None,
            waves: Waves::default(),
            prr,
            undo,
            needs: config.needs(),
            extended,
            mss: config.mss(),
            peer: PeerWindow::unknown(config.receiver_window),
            peer_stamp: Time::ZERO,
            own_window: config.receive_buffer(),
            offer: config.offer(),
            dup_threshold: config.dup_threshold,
            copies: 0,
            sacked_rtt: Span::ZERO,
            ns2,
            linux,
            timestamps: config.timestamps,
            limited_transmit: config.limited_transmit,
            idle_restart: config.idle_restart,
            ecn: config.uses_ecn(),
            marks: Marks::new(config.asks_for_count(), config.asks_for_bytes()),
            capable: if config.ect1 { flag::ECT | flag::ECT_1 } else { flag::ECT },
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
                completed: None,
                withdrawn: false,
                reset: Time::MAX,
                zero_windows: 0,
                zero_window_time: 0,
            },
        };
        TcpSender { connection, engine }
    }

    /// Gives the windows of earlier connections of this path, before the connection opens.
    pub fn remember(&mut self, history: Vec<f64>) {
        self.connection.history = history;
    }

    /// The run is over: nothing that is outstanding will be acknowledged or sent again.
    pub(crate) fn forget_outstanding(&mut self) {
        self.connection.segments.clear();
    }

    /// Records of transmissions that memory is kept for: none before the connection opens and after all is
    /// acknowledged.
    pub fn room(&self) -> usize {
        let order = if let Engine::Rack(rack) = &self.engine { rack.room() } else { 0 };
        self.connection.segments.room() + order
    }

    /// The application writes segment by segment, each a record of its own, before the connection opens.
    pub fn write_records(&mut self) {
        self.connection.train = Train::of_records();
    }

    /// Takes the time that the host needs, of less than `longest` and drawn from `stream`, into its own hands: ns-2's
    /// senders do, others leave it to their port (`false`).
    pub(crate) fn take_time(&mut self, stream: Stream, longest: Span) -> bool {
        let tcp = &mut self.connection;
        if tcp.ns2 {
            tcp.host_time = Some(Box::new(HostTime::new(stream, longest)));
            tcp.extended = true;
        }
        tcp.ns2
    }

    /// The application wrote `bytes` more (`None`: without end). The first call opens the connection.
    pub fn on_data<W: Wire>(&mut self, bytes: Option<u64>, now: Time, wire: &mut W) {
        with_engine!(&mut self.engine, engine => self.connection.on_data(engine, bytes, now, wire));
    }

    /// The application writes no more. `discard`: what has not been sent yet is withdrawn.
    pub fn on_close<W: Wire>(&mut self, discard: bool, now: Time, wire: &mut W) {
        with_engine!(&mut self.engine, engine => self.connection.on_close(engine, discard, now, wire));
    }

    /// An ACK arrived.
    #[inline]
    pub fn on_ack<W: Wire>(&mut self, packet: &Packet, extra: Option<&Extra>, now: Time, wire: &mut W) {
        if packet.kind == Kind::SynAck {
            self.hear_answer(extra);
        }
        with_engine!(&mut self.engine, engine => self.connection.on_ack(engine, packet, extra, now, wire));
    }

    /// The SYN-ACK has come. Losses towards an end without SACK are found by duplicate ACKs and repaired as
    /// NewReno does (RFC 5681 §3.2, RFC 6582; RFC 8985 §3 asks for SACK), or as Linux does.
    #[cold]
    fn hear_answer(&mut self, extra: Option<&Extra>) {
        let refused = extra.and_then(|extra| extra.offer).is_some_and(|offer| !offer.sack);
        if refused && self.connection.una == 0 && !self.connection.ns2 {
            self.engine.go_without_sack(self.connection.linux);
        }
    }

    /// A wake-up. Timers are lazy: one that was moved is found here to lie ahead, and waits on.
    pub fn on_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        with_engine!(&mut self.engine, engine => self.connection.on_timer(engine, now, wire));
    }

    /// Ends the connection at once. `tells`: with a RST for the other end.
    pub fn abort<W: Wire>(&mut self, tells: bool, now: Time, wire: &mut W) {
        self.connection.abort(tells, now, wire);
    }

    /// Another layer says something.
    pub fn on_signal<W: Wire>(&mut self, signal: &Signal, now: Time, wire: &mut W) {
        with_engine!(&mut self.engine, engine => self.connection.on_signal(engine, signal, now, wire));
    }
}

/// Read access to a sender is read access to its connection.
impl Deref for TcpSender {
    type Target = Connection;

    #[inline]
    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for TcpSender {
    #[inline]
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// State that others look at.
impl Connection {
    /// Segments that the data not sent yet would fill; `None` for a file without end.
    pub fn unsent_packets(&self) -> Option<u64> {
        let unsent = self.data_end.saturating_sub(self.max_sent.max(1));
        (self.data_end < ENDLESS).then(|| unsent.div_ceil(u64::from(self.mss)))
    }

    /// Payload of a full segment.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// The congestion window and threshold, in segments.
    pub fn window(&self) -> Window {
        self.host.window
    }

    /// What its law holds for true of the path.
    pub fn estimates(&self) -> Option<Estimates> {
        self.host.law().estimates()
    }

    /// What speaks for each cause of losses, if its law counts it.
    pub fn loss_signs(&self) -> Option<LossSigns> {
        self.host.law().loss_signs()
    }

    /// First byte that is not acknowledged.
    pub fn first_unacknowledged(&self) -> u64 {
        self.una
    }

    /// Smoothed RTT; zero before the first sample.
    pub fn srtt(&self) -> Span {
        self.rtt.srtt()
    }

    /// Where what every ACK touches lies.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let own = std::ptr::from_ref(self).addr();
        [own, own + size_of::<Connection>()]
            .into_iter()
            .chain(self.segments.address())
            .chain(self.stats.rtt.address())
    }

    /// Asks for what every ACK touches.
    pub(crate) fn prepare(&self) {
        prefetch(&self.una);
        prefetch(&self.rtt);
        prefetch(&self.timer);
        prefetch(&self.segments);
        prefetch(&self.host);
        prefetch(&self.alarms);
        prefetch(&self.mss);
        prefetch(&self.stats.rtt);
    }

    /// Asks for what it remembers, once [`TcpSender::prepare`] has brought it itself.
    pub(crate) fn prepare_history(&self) {
        self.segments.prepare();
        self.stats.rtt.prepare();
    }

    /// Outstanding segments.
    pub fn flight(&self) -> u32 {
        self.segments.len() as u32
    }

    /// The number up to which everything has been acknowledged: the SYN is 0 and data begin at 1.
    pub fn acknowledged(&self) -> u64 {
        self.una
    }

    /// Fewest windows of earlier connections that the controller can start from, if it can at all.
    pub fn history_needed(&self) -> Option<usize> {
        self.needs.history.map(usize::from)
    }

    /// Number of windows of earlier connections that this one could start from.
    pub fn history_samples(&self) -> usize {
        self.history.len()
    }

    /// The congestion window as far as the receiver's lets it be used, in segments.
    pub fn limited_window(&self) -> f64 {
        self.host.window.cwnd.min(f64::from(self.peer.segments))
    }

    /// Whether the window of data was ever reduced, for a loss or for a mark.
    pub fn has_reduced(&self) -> bool {
        self.host.recover > 1
    }

    /// When the connection was opened.
    pub fn opened(&self) -> Option<Time> {
        self.opened
    }
}

#[cfg(test)]
mod testing {
    //! A sender alone, and what it put on the wire.

    use lasthop_cc::{ControllerConfig, LossKind};
    use lasthop_core::packet::{Kind, flag};

    use super::recovery::RecoveryEngine as _;
    use super::*;
    use crate::transport::tcp::config::Recovery;

    /// Records segment numbers: packet 1 is the first of data.
    #[derive(Default)]
    pub(crate) struct Tape {
        pub(crate) sent: Vec<u64>,
        pub(crate) packets: Vec<Packet>,
        pub(crate) wakes: Vec<Time>,
        /// What losses were taken for.
        pub(crate) beliefs: Vec<LossKind>,
    }

    impl Wire for Tape {
        fn send(&mut self, packet: Packet, _now: Time) {
            self.sent.push(packet.seq.div_ceil(1000));
            self.packets.push(packet);
        }
        fn wake(&mut self, at: Time) {
            self.wakes.push(at);
        }
        fn judged(&mut self, _seq: u64, belief: LossKind, _signs: Option<LossSigns>) {
            self.beliefs.push(belief);
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
            self.sender.host.window = Window { cwnd: 10.0, ssthresh: 5.0 };
            for number in 2..=11 {
                self.ack(number);
                self.sender.host.window = Window { cwnd: 10.0, ssthresh: 5.0 };
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
            let window = self.sender.own_window;
            let packet = Packet { seq: (number - 1) * 1000 + 1, window, kind, ..Packet::default() };
            self.sender.on_ack(&packet, extra, self.now, &mut self.tape);
            std::mem::take(&mut self.tape.sent)
        }

        /// The same for this many bytes of that segment too.
        pub(crate) fn within(&mut self, number: u64, bytes: u64) -> Vec<u64> {
            self.now += Span::from_millis(1);
            let (seq, window) = ((number - 1) * 1000 + 1 + bytes, self.sender.own_window);
            let packet = Packet { seq, window, kind: Kind::Ack, ..Packet::default() };
            self.sender.on_ack(&packet, None, self.now, &mut self.tape);
            std::mem::take(&mut self.tape.sent)
        }

        /// The same with an ECN echo.
        pub(crate) fn marked(&mut self, number: u64) -> Vec<u64> {
            self.now += Span::from_millis(1);
            let seq = (number - 1) * 1000 + 1;
            let window = self.sender.own_window;
            let packet = Packet { seq, window, kind: Kind::Ack, flags: flag::ECE, ..Packet::default() };
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

        /// Sends what the window allows.
        pub(crate) fn fill(&mut self) {
            let TcpSender { connection, engine } = &mut self.sender;
            with_engine!(engine, engine => engine.fill(connection, self.now, &mut self.tape));
        }

        pub(crate) fn window(&self) -> (f64, f64) {
            (
                self.sender.host.window.cwnd + f64::from(self.sender.inflation),
                self.sender.host.window.ssthresh,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::ControllerConfig;
    use lasthop_core::packet::{Kind, flag};

    use super::testing::Rig;
    use super::*;
    use crate::transport::tcp::config::Recovery;

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

    fn flags(rig: &Rig) -> Vec<u8> {
        rig.tape.packets.iter().map(|packet| packet.flags).collect()
    }

    /// Segments 101..=120 outstanding, W = 20, ECN on.
    fn twenty_outstanding(recovery: Recovery) -> Rig {
        let mut rig = Rig::new(&TcpConfig { ecn: true, initial_window: 20.0, ..config(recovery) });
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        for number in 1..=101 {
            rig.ack(number);
            rig.sender.host.window = Window { cwnd: 20.0, ssthresh: 10.0 };
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

    /// A marked ACK that ends a reduction begins the next one at the target, though PRR has not come down to it yet.
    #[test]
    fn a_mark_at_the_end_of_a_reduction_starts_from_its_target() {
        let mut rig = twenty_outstanding(Recovery::Rack);
        rig.marked(105);
        assert_eq!(rig.window(), (18.0, 10.0), "16 in flight, and of 4 delivered 2 are sent");
        rig.marked(123);
        assert_eq!(rig.sender.host.window.ssthresh, 5.0);
    }

    /// TV-2.11: a loss in a window that a mark has already halved is repaired without a second cut.
    #[test]
    fn a_loss_after_a_mark_does_not_cut_again() {
        for recovery in ALL {
            let mut rig = twenty_outstanding(recovery);
            rig.marked(105);
            rig.ack(110);
            assert_eq!(rig.sender.host.window.ssthresh, 10.0);
            let sent: Vec<u64> = (111..=113)
                .flat_map(|last| rig.sack(110, &[(111, last)]))
                .filter(|&number| number < 121)
                .collect();
            assert_eq!(sent, [110], "{recovery:?}");
            assert_eq!(rig.sender.host.window.ssthresh, 10.0, "{recovery:?}: no second cut");
            let cwnd = if recovery == Recovery::Tahoe { 1.0 } else { 10.0 };
            assert!(
                (rig.sender.host.window.cwnd - cwnd).abs() < 0.2,
                "{recovery:?}: {:?}",
                rig.sender.host.window
            );
        }
    }

    /// RFC 3168 §6.1.5: what is sent again is not ECN-capable, and neither is a SYN.
    #[test]
    fn retransmissions_are_not_ecn_capable() {
        let mut rig = twenty_outstanding(Recovery::NewReno);
        rig.time_out();
        assert_eq!(flags(&rig), [0]);
        assert!(rig.tape.packets[0].note.again());
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
            rig.sender.host.window = Window { cwnd: 1.0, ssthresh: 2.0 };
            let next = rig.sender.max_sent / 1000 + 1;
            assert_eq!(rig.marked(next), [0; 0], "{recovery:?}");
            assert_eq!(rig.sender.host.window.cwnd, 1.0, "{recovery:?}");
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
            let flags = flag::ECE;
            let window = rig.sender.own_window;
            let answer = Packet { seq: 1, window, kind: Kind::SynAck, flags, ..Packet::default() };
            rig.sender.on_ack(&answer, None, rig.now, &mut rig.tape);
            assert_eq!(rig.tape.sent, (1..=10).collect::<Vec<_>>(), "{recovery:?}");
            assert_eq!(rig.sender.host.window.ssthresh, f64::INFINITY, "{recovery:?}");
        }
    }

    /// RFC 5681 §3.1: after a lost SYN the initial window is one segment.
    #[test]
    fn a_lost_syn_costs_the_initial_window() {
        for recovery in Recovery::NAMES.iter().filter_map(|name| Recovery::by_name(name)) {
            let mut rig = Rig::new(&config(recovery));
            rig.sender.on_data(None, rig.now, &mut rig.tape);
            rig.tape.sent.clear();
            assert_eq!(rig.time_out(), [0], "the SYN again");
            assert_eq!(rig.ack(1), [1], "{recovery:?}");
            assert_eq!(rig.sender.host.window.cwnd, 1.0, "{recovery:?}");
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

    /// A clock that wakes the sender late loses no timer, and one that wakes it early fires none.
    #[test]
    fn a_late_wake_up_still_counts() {
        for recovery in Recovery::NAMES.iter().filter_map(|name| Recovery::by_name(name)) {
            let mut rig = Rig::new(&config(recovery)).ten_outstanding();
            let due = rig.sender.timer.unwrap();
            rig.sender.on_timer(due - Span::from_millis(1), &mut rig.tape);
            assert_eq!((rig.sender.stats.timeouts, rig.sender.armed), (0, due), "{recovery:?}: early");
            rig.sender.on_timer(due + Span::from_millis(7), &mut rig.tape);
            assert_eq!(rig.sender.stats.timeouts, 1, "{recovery:?}: late");
            assert_eq!(rig.tape.sent.first(), Some(&11), "{recovery:?}");
            assert!(rig.sender.armed > due + Span::from_millis(7), "{recovery:?}: and the next is set");
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
                rig.sender.host.window = Window { cwnd: 40.0, ssthresh: 64.0 };
                rig.now += Span::from_millis(idle_ms);
                rig.tape.sent.clear();
                rig.sender.on_data(Some(100_000), rig.now, &mut rig.tape);
                assert_eq!(rig.sender.host.window, Window { cwnd, ssthresh: 64.0 }, "{recovery:?}");
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
            let window = rig.sender.own_window;
            let answer = Packet { seq: 1502, window, kind: Kind::FinAck, ..Packet::default() };
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
