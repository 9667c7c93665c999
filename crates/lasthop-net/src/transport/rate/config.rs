//! What a rate-based transport is made of: the protocol with its parameters, sizes, and the registry of protocols.
//!
//! `lasthop-sim` fills a [`RateConfig`] from a scenario; the sender and the receiver read it once.

use lasthop_cc::{Param, ParamError};
use lasthop_core::time::Span;

use super::media::{self, gcc, nada, scream};
use super::{ssvp, tfrc, tfrc_ps, tfrc_sp, wtcp_rate};
use crate::transport::profile::Profile;

/// IP and UDP headers.
const DATAGRAM_HEADER: u32 = 28;
/// IP, transport and TFRC headers as ns-2 counts them (`headersize_`).
const NS2_HEADER: u32 = 32;
/// A report in ns-2 (`packetSize_` of its sink).
const NS2_FEEDBACK: u32 = 40;

/// Declares the protocols: lookup by name, parameters, summaries.
macro_rules! protocols {
    ($($name:literal => $module:ident::$variant:ident,)*) => {
        /// A protocol and its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Protocol {
            $(#[doc = concat!("`", $name, "`")] $variant($module::Params),)*
        }

        impl Protocol {
            /// Scenario names, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The protocol called `name` with default parameters.
            pub fn by_name(name: &str) -> Option<Protocol> {
                match name {
                    $($name => Some(Protocol::$variant($module::Params::default())),)*
                    _ => None,
                }
            }

            /// The scenario name.
            pub fn name(&self) -> &'static str {
                match self { $(Protocol::$variant(_) => $name,)* }
            }

            /// One line on what it does.
            pub fn summary(&self) -> &'static str {
                match self { $(Protocol::$variant(_) => $module::SUMMARY,)* }
            }

            /// Every parameter with help, default and range.
            pub fn params(&self) -> Vec<Param> {
                match self { $(Protocol::$variant(_) => $module::Params::list(),)* }
            }

            /// Sets one parameter; switches take 0 and 1.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), ParamError> {
                match self { $(Protocol::$variant(params) => params.set(name, value),)* }
            }

            /// The current value of one parameter.
            pub fn value(&self, name: &str) -> Option<f64> {
                match self { $(Protocol::$variant(params) => params.value(name),)* }
            }
        }
    };
}

protocols! {
    "tfrc" => tfrc::Tfrc,
    "tfrc-sp" => tfrc_sp::TfrcSp,
    "tfrc-ps" => tfrc_ps::TfrcPs,
    "ssvp" => ssvp::Ssvp,
    "wtcp-rate" => wtcp_rate::Wtcp,
    "nada" => nada::Nada,
    "gcc" => gcc::Gcc,
    "scream" => scream::Scream,
}

/// Everything about one rate-based flow. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct RateConfig {
    /// The protocol.
    pub protocol: Protocol,
    /// Whose habits to follow: `ns2` runs ns-2's TFRC in place of the one of RFC 5348.
    pub profile: Profile,
    /// A full packet: the whole IP packet, in the `ns2` profile its payload.
    pub packet_size: u32,
    /// Packets can be marked instead of dropped.
    pub ecn: bool,
    /// What waits longer than this in the sender's queue is dropped there.
    pub deadline: Option<Span>,
    /// Most writes that wait in the sender's queue; later ones are dropped.
    pub queue: u32,
}

impl RateConfig {
    /// The protocol called `name` with the defaults of `profile`.
    pub fn new(name: &str, profile: Profile) -> Option<RateConfig> {
        let mut protocol = Protocol::by_name(name)?;
        if profile == Profile::Ns2 {
            for &(name, value) in tfrc::NS2_DEFAULTS {
                // Protocols that do not have the parameter have no such habit.
                let _ = protocol.set(name, value);
            }
        }
        let packet_size = match media::common(&protocol) {
            _ if profile == Profile::Ns2 => 1000,
            Some(_) => media::PACKET,
            None => 1500,
        };
        Some(RateConfig { protocol, profile, packet_size, ecn: false, deadline: None, queue: 1_000_000 })
    }

    /// Whether ns-2's TFRC runs in place of the one of RFC 5348. It knows neither virtual nor sampled packets.
    pub fn is_ns2_tfrc(&self) -> bool {
        self.profile == Profile::Ns2 && matches!(self.protocol, Protocol::Tfrc(_) | Protocol::TfrcSp(_))
    }

    /// Headers of a data packet. The sender's part is as long as its fields on the wire, four bytes each.
    pub fn data_header(&self) -> u32 {
        if self.is_ns2_tfrc() {
            return NS2_HEADER;
        }
        DATAGRAM_HEADER
            + match self.protocol {
                // Sequence number, timestamp, RTT (RFC 5348 §3.2.1).
                Protocol::Tfrc(_) | Protocol::TfrcSp(_) | Protocol::TfrcPs(_) => 12,
                // Sequence number, timestamp.
                Protocol::Ssvp(_) => 8,
                // Sequence number, transmission number, timestamp, gap to the packet before.
                Protocol::Wtcp(_) => 16,
                _ => media::HEADER - DATAGRAM_HEADER,
            }
    }

    /// A report; of media the largest.
    pub fn feedback_size(&self) -> u32 {
        if self.is_ns2_tfrc() {
            return NS2_FEEDBACK;
        }
        DATAGRAM_HEADER
            + match self.protocol {
                // Echoed timestamp, delay, receive rate, loss event rate (RFC 5348 §3.2.2).
                Protocol::Tfrc(_) | Protocol::TfrcSp(_) | Protocol::TfrcPs(_) => 16,
                // Highest sequence number, echoed timestamp, packets lost so far.
                Protocol::Ssvp(_) => 12,
                // Acknowledgement, highest transmission number, echoed timestamp, delay, rate, 128 bits of what
                // arrived.
                Protocol::Wtcp(_) => 36,
                _ => media::log::LARGEST_REPORT - DATAGRAM_HEADER,
            }
    }

    /// Payload of a full packet.
    pub fn payload(&self) -> u32 {
        if self.profile == Profile::Ns2 {
            self.packet_size
        } else {
            self.packet_size.saturating_sub(self.data_header()).max(1)
        }
    }

    /// Size of a full packet on the wire, or of its repair.
    pub fn largest_packet(&self) -> u32 {
        let repair = media::common(&self.protocol).map_or(0, |common| common.repair_header());
        self.payload() + self.data_header() + repair
    }

    /// Whether marks lower its rate enough that routers may mark its packets in place of dropping them. GCC ignores
    /// them. SSVP has none in what is known of it, and an eighth less per RTT does not drain a queue of seconds, which
    /// grows without bound where nothing is dropped.
    pub fn answers_marks(&self) -> bool {
        !matches!(self.protocol, Protocol::Gcc(_) | Protocol::Ssvp(_))
    }

    /// Whether what is lost is sent again, so that a transfer has an end.
    pub fn is_reliable(&self) -> bool {
        matches!(self.protocol, Protocol::Wtcp(_))
    }

    /// Whether a packet may be sent twice: by a reliable protocol, and by those of media while it is still of use.
    pub fn sends_again(&self) -> bool {
        self.is_reliable()
            || media::common(&self.protocol).is_some_and(|common| common.nack || common.resend_within_s > 0.0)
    }
}
