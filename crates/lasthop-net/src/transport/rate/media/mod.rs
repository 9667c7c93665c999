//! Congestion control of real-time media: RTP over UDP, with feedback of when each packet arrived.
//!
//! [`sender::MediaSender`] keeps what was sent and turns reports into outcomes of packets; a controller makes a target
//! rate of them. [`log::ArrivalLog`] is the receiver's side: RFC 8888, or transport-wide feedback as WebRTC has it. To
//! add a controller: its file here with `Params`, `SUMMARY` and `impl Control`, its line in `controllers!` below, and
//! its line in `protocols!` of `config.rs`.

pub mod fec;
pub mod gcc;
pub mod log;
pub mod nack;
pub mod nada;
pub mod scream;
pub mod sender;

use lasthop_core::time::Time;

use super::config::Protocol;
use log::Format;

/// IP, UDP and RTP headers (RFC 3550 section 5.1).
pub(super) const HEADER: u32 = 28 + 12;
/// A full packet of media: 1200 B of payload, as WebRTC has it.
pub(super) const PACKET: u32 = 1200 + HEADER;

/// What became of a packet, as a report tells it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It arrived.
    Arrived {
        /// When, as precisely as the report says.
        at: Time,
        /// With a congestion mark.
        marked: bool,
    },
    /// A later one arrived and this one did not.
    Lost,
}

/// A packet of which a report tells for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Number of its transmission.
    pub number: u64,
    /// When it was sent.
    pub sent: Time,
    /// Its size on the wire.
    pub bytes: u32,
    /// What became of it.
    pub fate: Fate,
}

/// A report as a controller gets it.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The present time.
    pub now: Time,
    /// RTT that the report shows, smoothed, in seconds.
    pub rtt_s: f64,
    /// What it tells that was not known, in the order of sending.
    pub outcomes: &'a [Outcome],
    /// Bytes on the wire that are sent and not reported, before the report and after it.
    pub flight: (u64, u64),
}

/// A controller: a pure state machine. Rates are in bit/s on the wire, headers included.
pub(super) trait Control {
    /// A packet of `bytes` leaves.
    fn on_sent(&mut self, bytes: u32, now: Time) {
        let _ = (bytes, now);
    }

    /// A report arrives.
    fn on_report(&mut self, report: &Report<'_>);

    /// No report has come for long. Returns whether the rate fell.
    fn on_silence(&mut self, now: Time) -> bool;

    /// The rate that it aims at.
    fn target(&self) -> f64;

    /// The rate for the encoder while `waiting` bytes wait at the sender.
    fn encoder_rate(&self, waiting: u64) -> f64 {
        let _ = waiting;
        self.target()
    }

    /// The rate at which packets leave while `waiting` bytes wait.
    fn pacing(&self, waiting: u64) -> f64;

    /// Most bytes that may be under way.
    fn window(&self) -> f64 {
        f64::INFINITY
    }
}

/// Declares parameters of a controller, and behind them those that all have.
macro_rules! media_params {
    ($($own:tt)*) => {
        lasthop_cc::params::params! {
            $($own)*
            /// Lowest target rate, in bit/s
            min_rate: f64 = 150_000.0, 1_000.0..=1e10;
            /// Highest target rate, in bit/s
            max_rate: f64 = 1_500_000.0, 1_000.0..=1e10;
            /// Target rate at the start, in bit/s
            start_rate: f64 = 150_000.0, 1_000.0..=1e10;
            /// Time between two reports of the receiver, in seconds
            feedback_s: f64 = DEFAULT_FEEDBACK.0, 0.001..=10.0;
            /// Share of the received rate that reports may take, at intervals of 1 ms to 100 ms; 0: every feedback_s
            feedback_share: f64 = DEFAULT_FEEDBACK.1, 0.0..=1.0;
            /// Packets that a report repeats from those before it
            feedback_overlap: f64 = 32.0, 0.0..=500.0;
            /// Format of the arrival times in reports
            feedback: crate::transport::rate::media::log::Format
                = crate::transport::rate::media::log::Format::Rfc8888, 0.0..=1.0;
            /// Later packets in a report that make a missing one lost
            loss_packets: f64 = 1.0, 1.0..=1000.0;
            /// A lost packet is retransmitted if it can arrive within this time of its first transmission, in seconds;
            /// 0: never
            resend_within_s: f64 = 0.0, 0.0..=60.0;
            /// Retransmission: the receiver requests missing packets (NACK, RFC 4585), the sender retransmits them (RFC
            /// 4588), and the encoder makes a key frame where the receiver gives up, not at each loss
            nack: bool = false, 0.0..=1.0;
            /// Tolerance of reordering, in seconds: time from the packet that shows a gap to the first request (nack),
            /// or until an overtaken parity packet counts as lost (fec alone)
            nack_wait_s: f64 = 0.01, 0.0..=10.0;
            /// With nack: RTTs until the same packet is requested again
            nack_rtts: f64 = 1.5, 0.1..=100.0;
            /// With nack: maximum number of requests for a packet
            nack_repeats: f64 = 10.0, 1.0..=1000.0;
            /// With nack: a packet is requested only if the retransmission can arrive within this time of the gap, in
            /// seconds; then it is given up
            nack_within_s: f64 = 0.5, 0.001..=60.0;
            /// Packets that hold the XOR of others (FlexFEC, RFC 8627): of rows, of columns, or of both; the receiver
            /// rebuilds a missing packet from them
            fec: crate::transport::rate::media::fec::Shape
                = crate::transport::rate::media::fec::Shape::Off, 0.0..=3.0;
            /// With fec: packets of a row, which is also the distance of two packets of a column: the longest burst of
            /// losses that columns repair
            fec_row: f64 = 10.0, 2.0..=255.0;
            /// With fec = column or both: packets of a column, which are the rows of a block
            fec_column: f64 = 5.0, 2.0..=255.0;
            /// With fec: a block that is not full after this time ends early, in seconds; without nack, a packet that
            /// is missing for longer is given up, and sooner where no parity can restore it
            fec_window_s: f64 = 0.2, 0.001..=10.0;
            /// With fec = row or column: number of parity packets per reported loss, at most one for two packets that
            /// they protect; fec_row or fec_column is then the maximum number of packets of a parity. 0: always that
            /// number
            fec_adapt: f64 = 0.0, 0.0..=100.0;
            /// Time without a report that halves the rate, in seconds
            silence_s: f64 = 1.0, 0.01..=100.0;
        }

        impl Params {
            /// What all controllers have.
            pub(super) fn common(&self) -> crate::transport::rate::media::Common {
                crate::transport::rate::media::Common {
                    min_rate: self.min_rate,
                    max_rate: self.max_rate.max(self.min_rate),
                    start_rate: self.start_rate,
                    feedback_s: self.feedback_s,
                    feedback_share: self.feedback_share,
                    feedback_overlap: self.feedback_overlap as u64,
                    format: self.feedback,
                    loss_packets: self.loss_packets as u64,
                    resend_within_s: self.resend_within_s,
                    nack: self.nack,
                    nack_wait_s: self.nack_wait_s,
                    nack_rtts: self.nack_rtts,
                    nack_repeats: self.nack_repeats as u32,
                    nack_within_s: self.nack_within_s,
                    fec: self.fec,
                    fec_row: self.fec_row as u16,
                    fec_column: self.fec_column as u16,
                    fec_window_s: self.fec_window_s,
                    fec_adapt: self.fec_adapt,
                    silence_s: self.silence_s,
                }
            }
        }
    };
}
use media_params;

/// The parameters that all controllers have; see [`media_params`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) min_rate: f64,
    pub(super) max_rate: f64,
    pub(super) start_rate: f64,
    pub(super) feedback_s: f64,
    pub(super) feedback_share: f64,
    pub(super) feedback_overlap: u64,
    pub(super) format: Format,
    pub(super) loss_packets: u64,
    pub(super) resend_within_s: f64,
    pub(super) nack: bool,
    pub(super) nack_wait_s: f64,
    pub(super) nack_rtts: f64,
    pub(super) nack_repeats: u32,
    pub(super) nack_within_s: f64,
    pub(super) fec: fec::Shape,
    pub(super) fec_row: u16,
    pub(super) fec_column: u16,
    pub(super) fec_window_s: f64,
    pub(super) fec_adapt: f64,
    pub(super) silence_s: f64,
}

impl Common {
    /// Whether something missing may come after all, and the receiver says what does not.
    pub(super) fn repairs(&self) -> bool {
        self.nack || self.fec != fec::Shape::Off
    }

    /// What a repair is longer by than the packet that it repairs.
    pub(super) fn repair_header(&self) -> u32 {
        let nack = if self.nack { sender::ORIGINAL_NUMBER } else { 0 };
        nack.max(if self.fec == fec::Shape::Off { 0 } else { fec::HEADER })
    }

    /// A rate within the bounds.
    pub(super) fn bounded(&self, rate: f64) -> f64 {
        rate.clamp(self.min_rate, self.max_rate)
    }
}

/// Makes one state of all controllers: `Protocol variant(module)`, each with `Params` and `Sender`.
macro_rules! controllers {
    ($($name:ident($module:ident);)*) => {
        /// A controller at work.
        #[derive(Clone, Debug)]
        pub(super) enum Controller {
            $($name(Box<$module::Sender>),)*
        }

        impl Controller {
            /// That of a protocol, if it is one for media.
            pub(super) fn of(protocol: &Protocol) -> Option<Controller> {
                match protocol {
                    $(Protocol::$name(params) => {
                        Some(Controller::$name(Box::new($module::Sender::new(params))))
                    })*
                    _ => None,
                }
            }
        }

        /// What a protocol for media shares with the others; `None` of other protocols.
        pub(super) fn common(protocol: &Protocol) -> Option<Common> {
            match protocol {
                $(Protocol::$name(params) => Some(params.common()),)*
                _ => None,
            }
        }

        impl Control for Controller {
            fn on_sent(&mut self, bytes: u32, now: Time) {
                match self { $(Controller::$name(sender) => sender.on_sent(bytes, now),)* }
            }
            fn on_report(&mut self, report: &Report<'_>) {
                match self { $(Controller::$name(sender) => sender.on_report(report),)* }
            }
            fn on_silence(&mut self, now: Time) -> bool {
                match self { $(Controller::$name(sender) => sender.on_silence(now),)* }
            }
            fn target(&self) -> f64 {
                match self { $(Controller::$name(sender) => sender.target(),)* }
            }
            fn encoder_rate(&self, waiting: u64) -> f64 {
                match self { $(Controller::$name(sender) => sender.encoder_rate(waiting),)* }
            }
            fn pacing(&self, waiting: u64) -> f64 {
                match self { $(Controller::$name(sender) => sender.pacing(waiting),)* }
            }
            fn window(&self) -> f64 {
                match self { $(Controller::$name(sender) => sender.window(),)* }
            }
        }
    };
}

controllers! {
    Nada(nada);
    Gcc(gcc);
    Scream(scream);
}
