//! An end of a flow: the one place where the engine tells transports apart.
//!
//! The world calls the sending ends (`on_data`, `on_close`, `on_packet`, `on_timer`, `on_signal`), the network the
//! receiving ones (`receive`, `acknowledge`, `overdue`). Both answer `sample` and `report`. A new transport is two
//! variants here and its folder.

use std::sync::Arc;

use lasthop_cc::{LossSigns, Signal};
use lasthop_core::packet::{Kind, Packet};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::extra::Extra;
use super::outside::Told;
use super::rate::media::log::Heard;
use super::rate::media::nack::RepairCounts;
use super::rate::receiver::RateReceiver;
use super::rate::sender::RateSender;
use super::tcp::receiver::TcpReceiver;
use super::tcp::sender::TcpSender;
use super::udp::{self, UdpSender};
use super::wire::Wire;
use crate::handoff::HostEvent;
use crate::measure::{Durations, FlowStats, Window};
use crate::plan::{FlowPlan, Percentiles, Transport};
use crate::traffic::Demand;
use crate::transport::tcp::config::TcpConfig;
use crate::transport::tcp::mobility::Mobility;

/// An end of a flow.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// The sender of a TCP connection.
    TcpSender(Box<TcpSender>),
    /// Its receiver.
    TcpReceiver(Box<TcpReceiver>),
    /// The sender of datagrams.
    UdpSender(UdpSender),
    /// Their receiver; it only counts.
    UdpReceiver,
    /// The sender of a rate-based transport.
    RateSender(Box<RateSender>),
    /// Its receiver.
    RateReceiver(Box<RateReceiver>),
    /// An end outside of the world, and what its driver tells of it.
    Outside(Option<Box<Told>>),
    /// The sender of a TCP connection that has not begun.
    Unborn(Box<Unborn>),
    /// What is left of the sender of a TCP connection that is over.
    Over(Box<Over>),
    /// The receiver of one that has not begun, or is over.
    Absent,
}

/// What the ends of a TCP connection are made of.
#[derive(Clone, Debug)]
pub struct Unborn {
    config: Arc<TcpConfig>,
    clock: Stream,
}

/// What a sender counted.
#[derive(Clone, Debug)]
pub struct Over {
    /// All but the RTT.
    report: Report<'static>,
    rtt: Durations,
}

impl Unborn {
    pub(crate) fn of(config: &Arc<TcpConfig>, flow: &FlowPlan, seed: u64) -> Unborn {
        let clock = Stream::new(seed, &format!("clock of {}", flow.name));
        Unborn { config: Arc::clone(config), clock }
    }

    /// The ends that come of it: sender and receiver.
    pub(crate) fn bear(&mut self, window: Window, percentiles: Percentiles) -> (Endpoint, Endpoint) {
        let sender = TcpSender::new(&self.config, &mut self.clock, window, percentiles);
        let receiver = TcpReceiver::new(&self.config);
        (Endpoint::TcpSender(Box::new(sender)), Endpoint::TcpReceiver(Box::new(receiver)))
    }
}

/// What a sender looks like at some instant, for the time series.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Congestion window in segments; NaN if it has none.
    pub cwnd: f64,
    /// Slow start threshold in segments; NaN if it has none.
    pub ssthresh: f64,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// Count and sum of its RTT samples so far, in nanoseconds.
    pub rtt: (u64, u64),
    /// Outstanding segments.
    pub flight: u32,
    /// Allowed rate in payload bytes per second; NaN if it has none.
    pub rate: f64,
    /// What speaks for each cause of losses, if its law counts it.
    pub signs: Option<LossSigns>,
}

/// What a sender counted within the measurement window. What it does not have is 0 or `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report<'a> {
    /// Segments sent again.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer, or silences of the receiver that a rate-based sender reacted to.
    pub timeouts: u64,
    /// Recovery episodes begun by duplicate ACKs or SACK.
    pub fast_recoveries: u64,
    /// Reductions that were undone.
    pub undone_reductions: u64,
    /// Times that the receiver closed its window.
    pub zero_windows: u64,
    /// How long it was closed, as far as the sender knew.
    pub zero_window_time: Span,
    /// Packets that the sender dropped itself.
    pub expired: u64,
    /// RTT of segments sent once.
    pub rtt: Option<&'a Durations>,
    /// When everything was acknowledged, of what the application did not withdraw.
    pub completed: Option<Time>,
    /// When the connection was given up or reset.
    pub reset: Option<Time>,
    /// Time average of the allowed rate, in payload bytes per second.
    pub allowed_rate: Option<f64>,
    /// Mean of the loss event rates that were reported.
    pub loss_event_rate: Option<f64>,
    /// Windows of earlier connections that this one could start from.
    pub history_samples: Option<usize>,
    /// See [`Told::call`].
    pub call: Option<&'a (Durations, u64)>,
    /// Bytes of repairs, and all bytes, that a sender of media sent.
    pub repair_bytes: (u64, u64),
}

/// What the sender of a TCP connection counted, but for the RTT.
fn counted(sender: &TcpSender) -> Report<'static> {
    let stats = &sender.stats;
    Report {
        retransmitted: stats.retransmitted,
        timeouts: stats.timeouts,
        fast_recoveries: stats.fast_recoveries,
        undone_reductions: stats.undone_reductions,
        zero_windows: stats.zero_windows,
        zero_window_time: sender.zero_window_time(),
        completed: stats.completed.filter(|_| !stats.withdrawn),
        reset: sender.reset(),
        history_samples: Some(sender.history_samples()),
        ..Report::default()
    }
}

impl Endpoint {
    /// Both ends of a flow: sender and receiver. Every random stream is keyed by `seed` and the flow's name.
    pub(crate) fn pair(
        flow: &FlowPlan,
        seed: u64,
        window: Window,
        percentiles: Percentiles,
    ) -> (Endpoint, Endpoint) {
        match &flow.transport {
            Transport::Tcp(config) => Unborn::of(config, flow, seed).bear(window, percentiles),
            Transport::Udp(config) => (Endpoint::UdpSender(UdpSender::new(*config)), Endpoint::UdpReceiver),
            Transport::Outside(_) => (Endpoint::Outside(None), Endpoint::Outside(None)),
            Transport::Rate(config) => {
                let sampling = Stream::new(seed, &format!("sampling of {}", flow.name));
                let receiver = RateReceiver::new(config, sampling);
                let sender = RateSender::new(config, window, percentiles);
                (Endpoint::RateSender(Box::new(sender)), Endpoint::RateReceiver(Box::new(receiver)))
            }
        }
    }

    /// Whether this sender cares itself for the time of less than `longest` that its host takes before it sends.
    pub(crate) fn take_time(&mut self, stream: Stream, longest: Span) -> bool {
        match self {
            Endpoint::TcpSender(sender) => sender.take_time(stream, longest),
            _ => false,
        }
    }

    /// The sender of a TCP connection, if this is one.
    pub fn tcp_sender(&self) -> Option<&TcpSender> {
        match self {
            Endpoint::TcpSender(sender) => Some(sender),
            _ => None,
        }
    }

    /// Keeps of the sender of a TCP connection only what it counted: nothing can happen to it any more.
    pub(crate) fn close_account(&mut self) {
        let Endpoint::TcpSender(sender) = self else { return };
        let report = counted(sender);
        let mut rtt = sender.stats.rtt.clone();
        rtt.trim();
        *self = Endpoint::Over(Box::new(Over { report, rtt }));
    }

    /// Whether this end lies outside of the world.
    #[inline]
    pub(crate) fn is_outside(&self) -> bool {
        matches!(self, Endpoint::Outside(_))
    }

    /// Asks for the state of a TCP receiver.
    pub(crate) fn prepare_receiver(&self) {
        if let Endpoint::TcpReceiver(receiver) = self {
            receiver.prepare();
        }
    }

    /// Where the state lies that most packets touch, if it lies apart.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let sender = self.tcp_sender().map(|sender| sender.addresses());
        let receiver = match self {
            Endpoint::TcpReceiver(receiver) => Some(std::ptr::from_ref(receiver.as_ref()).addr()),
            _ => None,
        };
        sender.into_iter().flatten().chain(receiver)
    }

    /// The same, to be changed.
    pub(crate) fn tcp_sender_mut(&mut self) -> Option<&mut TcpSender> {
        match self {
            Endpoint::TcpSender(sender) => Some(sender),
            _ => None,
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // The sending end

    /// The application writes `bytes` (`None`: without end), and nothing more if it has `finished`.
    pub(crate) fn on_data<W: Wire>(&mut self, bytes: Option<u64>, finished: bool, now: Time, wire: &mut W) {
        match self {
            Endpoint::TcpSender(sender) => sender.on_data(bytes, now, wire),
            Endpoint::RateSender(sender) => sender.on_data(bytes, now, wire),
            Endpoint::UdpSender(sender) => sender.on_data(bytes.unwrap_or(0), now, wire),
            _ => {}
        }
        if finished {
            self.on_close(false, now, wire);
        }
    }

    /// The application writes no more; `at_once`: what has not been sent is withdrawn.
    pub(crate) fn on_close<W: Wire>(&mut self, at_once: bool, now: Time, wire: &mut W) {
        match self {
            Endpoint::TcpSender(sender) => sender.on_close(at_once, now, wire),
            Endpoint::RateSender(sender) => sender.on_close(at_once, now, wire),
            _ => {}
        }
    }

    /// The application stops in the midst of what it had to write.
    pub(crate) fn withdraw(&mut self) {
        match self {
            Endpoint::TcpSender(sender) => sender.stats.withdrawn = true,
            Endpoint::RateSender(sender) => sender.stats.withdrawn = true,
            _ => {}
        }
    }

    /// A packet of the other end has arrived.
    #[inline]
    pub(crate) fn on_packet<W: Wire>(
        &mut self,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) {
        match self {
            Endpoint::TcpSender(sender) => sender.on_ack(packet, extra, now, wire),
            Endpoint::RateSender(sender) => sender.on_feedback(packet, extra, now, wire),
            _ => {}
        }
    }

    /// A time has come that the sender asked for.
    pub(crate) fn on_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        match self {
            Endpoint::TcpSender(sender) => sender.on_timer(now, wire),
            Endpoint::RateSender(sender) => sender.on_timer(now, wire),
            _ => {}
        }
    }

    /// The connection is over; `tells`: with a RST for the other end.
    pub(crate) fn abort<W: Wire>(&mut self, tells: bool, now: Time, wire: &mut W) {
        if let Endpoint::TcpSender(sender) = self {
            sender.abort(tells, now, wire);
        }
    }

    /// Tells the other end that nothing is known here of its connection.
    pub(crate) fn refuse<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if let Endpoint::TcpSender(sender) = self {
            sender.refuse(now, wire);
        }
    }

    /// Another layer says something.
    pub(crate) fn on_signal<W: Wire>(&mut self, signal: &Signal, now: Time, wire: &mut W) {
        if let Endpoint::TcpSender(sender) = self {
            sender.on_signal(signal, now, wire);
        }
    }

    /// What the sender looks like now.
    pub(crate) fn sample(&self) -> Sample {
        let bare = Sample {
            cwnd: f64::NAN,
            ssthresh: f64::NAN,
            srtt: Span::ZERO,
            rtt: (0, 0),
            flight: 0,
            rate: f64::NAN,
            signs: None,
        };
        let counted = |rtt: &Durations| (rtt.count(), rtt.sum());
        match self {
            Endpoint::TcpSender(sender) => Sample {
                cwnd: sender.window().cwnd,
                ssthresh: sender.window().ssthresh,
                srtt: sender.srtt(),
                rtt: counted(&sender.stats.rtt),
                flight: sender.flight(),
                signs: sender.loss_signs(),
                ..bare
            },
            Endpoint::RateSender(sender) => Sample {
                srtt: sender.srtt(),
                rtt: counted(&sender.stats.rtt),
                flight: sender.flight(),
                rate: sender.rate(),
                ..bare
            },
            Endpoint::Outside(Some(told)) => {
                Sample { cwnd: told.cwnd, srtt: told.srtt, rtt: counted(&told.rtt), ..bare }
            }
            _ => bare,
        }
    }

    /// What the sender counted.
    pub fn report(&self) -> Report<'_> {
        match self {
            Endpoint::TcpSender(sender) => Report { rtt: Some(&sender.stats.rtt), ..counted(sender) },
            Endpoint::RateSender(sender) => {
                let stats = &sender.stats;
                Report {
                    retransmitted: stats.retransmitted,
                    timeouts: stats.timeouts,
                    expired: stats.expired,
                    rtt: Some(&stats.rtt),
                    completed: stats.completed.filter(|_| !stats.withdrawn),
                    allowed_rate: Some(sender.mean_rate()),
                    loss_event_rate: sender.mean_loss_rate(),
                    repair_bytes: (stats.repair_bytes, stats.sent_bytes),
                    ..Report::default()
                }
            }
            Endpoint::Outside(Some(told)) => Report {
                retransmitted: told.retransmitted,
                fast_recoveries: told.fast_recoveries,
                rtt: Some(&told.rtt),
                completed: told.completed,
                reset: told.reset,
                call: told.call.as_ref(),
                ..Report::default()
            },
            Endpoint::Over(over) => Report { rtt: Some(&over.rtt), ..over.report },
            _ => Report::default(),
        }
    }

    /// Packets that the data still waiting at the sender would fill; `None` for a file without end, and where a stack
    /// of others does not tell.
    pub(crate) fn unsent_packets(&self) -> Option<u64> {
        match self {
            Endpoint::TcpSender(sender) => sender.unsent_packets(),
            Endpoint::RateSender(sender) => sender.unsent_packets(),
            Endpoint::Outside(Some(_)) => None,
            _ => Some(0),
        }
    }

    /// What an encoder in front of the sender may send.
    pub(crate) fn demand(&self) -> Demand {
        match self {
            Endpoint::TcpSender(sender) => {
                let srtt = sender.srtt().seconds();
                let mss = f64::from(sender.mss());
                let rate = (srtt > 0.0).then(|| sender.window().cwnd * mss * 8.0 / srtt);
                let waiting = sender.unsent_packets().unwrap_or(0) as f64 * mss;
                Demand { rate, waiting: waiting as u64, lost: None, room: None }
            }
            Endpoint::RateSender(sender) => sender.demand(),
            _ => Demand::default(),
        }
    }

    /// Whether the sender numbers its bytes as the application wrote them: one that delivers in order leaves out what
    /// it drops.
    pub(crate) fn numbers_are_whole(&self) -> bool {
        match self {
            Endpoint::RateSender(sender) => sender.numbers_are_whole(),
            _ => true,
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // The receiving end

    /// Whether an answer must go out before `packet` is received at `at`: see [`Endpoint::overdue`].
    #[inline]
    pub(crate) fn owes(&mut self, packet: &Packet, at: Time) -> bool {
        match self {
            Endpoint::TcpReceiver(receiver) => receiver.owes(packet, at),
            Endpoint::RateReceiver(receiver) => receiver.due().is_some_and(|due| due <= at),
            _ => false,
        }
    }

    /// Takes a packet that arrives at `at`, perhaps ahead of the clock, and returns the kind of answer that it calls
    /// for, if any; [`Endpoint::acknowledge`] makes it.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        packet: &Packet,
        extra: Option<&Extra>,
        at: Time,
        stats: &mut FlowStats,
        window: &Window,
    ) -> Option<Kind> {
        match self {
            Endpoint::TcpReceiver(receiver) => receiver.receive(packet, extra, at, stats, window),
            Endpoint::RateReceiver(receiver) => receiver.receive(packet, extra, at, stats, window),
            _ => {
                udp::receive(packet, at, stats, window);
                None
            }
        }
    }

    /// What the answer of this kind to be made next, at `at`, carries beyond its header.
    #[inline]
    pub(crate) fn extra(&mut self, kind: Kind, at: Time) -> Option<Extra> {
        match self {
            Endpoint::TcpReceiver(receiver) => receiver.extra(kind, at),
            _ => None,
        }
    }

    /// The answer; it forgets what it has answered. What a rate-based receiver says beside its header follows from
    /// that.
    #[inline]
    pub(crate) fn acknowledge(&mut self, kind: Kind, at: Time) -> Packet {
        match self {
            Endpoint::TcpReceiver(receiver) => receiver.acknowledge(kind, at),
            Endpoint::RateReceiver(receiver) => receiver.acknowledge(kind, at),
            _ => unreachable!("a transport that never answers has no answer to make"),
        }
    }

    /// What a report on media over `range`, made at `until`, says of each packet: appended to `into`.
    pub(crate) fn heard(&self, range: (u64, u16), until: Time, into: &mut Vec<Heard>) {
        if let Endpoint::RateReceiver(receiver) = self {
            receiver.heard(range, until, into);
        }
    }

    /// What became of the packets of media that were missing, if the transport repairs.
    pub(crate) fn repairs(&self) -> Option<RepairCounts> {
        match self {
            Endpoint::RateReceiver(receiver) => receiver.repairs(),
            _ => None,
        }
    }

    /// What a rate-based receiver says in the answer that it has just made.
    #[inline]
    pub(crate) fn statement(&self) -> Option<Extra> {
        match self {
            Endpoint::RateReceiver(receiver) => Some(receiver.extra()),
            _ => None,
        }
    }

    /// The answer that is due at or before `now`, and when it was due.
    pub(crate) fn overdue(&mut self, now: Time) -> Option<(Kind, Time)> {
        match self {
            Endpoint::TcpReceiver(receiver) => receiver.overdue(now),
            Endpoint::RateReceiver(receiver) => receiver.overdue(now),
            _ => None,
        }
    }

    /// When the next answer is due without another packet, and the earliest timer event that is pending.
    #[inline]
    pub(crate) fn timer(&mut self) -> Option<(Option<Time>, &mut Time)> {
        match self {
            Endpoint::TcpReceiver(receiver) => Some((receiver.due(), &mut receiver.armed)),
            Endpoint::RateReceiver(receiver) => Some((receiver.due(), &mut receiver.armed)),
            _ => None,
        }
    }

    /// The MAC of the receiver's host throws a corrupt frame away at `at`.
    pub(crate) fn hear_noise(&mut self, at: Time) {
        if let Endpoint::TcpReceiver(receiver) = self {
            receiver.on_discard(at);
        }
    }

    /// Tells the receiver what will happen to the link of its host.
    pub(crate) fn watch_link(&mut self, mobility: Mobility, events: Vec<(Time, HostEvent)>) {
        if let Endpoint::TcpReceiver(receiver) = self {
            receiver.watch_link(mobility, events);
        }
    }
}
