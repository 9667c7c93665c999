//! The transport of a flow: presets, combinations of a controller and a recovery engine, and every key of
//! TCP.
//!
//! A connection is made in three layers: the defaults of the profile (`TcpConfig::new`), the `[tcp]` table,
//! the flow's own table. The rows below say what each key sets and how its default reads, so the schema can
//! show them.

use std::sync::Arc;

use lasthop_cc::{ControllerConfig, ExternalConfig, Param, ParamError};
use lasthop_core::time::Span;
use lasthop_net::plan::{Profile, RateConfig, Recovery, TcpConfig, Transport, UdpConfig};
use lasthop_net::transport::tcp::config::{DelayedAck, KERNEL, PrrVariant, SpuriousResponse};
use lasthop_net::transport::tcp::mobility::{FastHandoff, Freeze};

use super::diagnostic::{Place, ScenarioError, Source};
use super::keys::{Key, Kind, LARGEST_PACKET, LONGEST, Table};
use super::reader::{Checked, Reader, check, number, out_of_range, unknown_name};
use super::value::{Map, Node, Value};
use super::{rate, stack};

type Result<T> = std::result::Result<T, ScenarioError>;

/// The name of UDP among the transports.
pub(super) const UDP_NAME: &str = "udp";

/// A flow's transport as a table.
pub(super) static TRANSPORT: Table = Table {
    title: "transport",
    doc: "A TCP: a preset, or a controller with a recovery engine, and what differs from the defaults.",
    groups: &[
        &[
            Key::new("preset", Kind::Choice(presets), "A usual combination by its name."),
            Key::new(
                "cc",
                Kind::Choice(controllers),
                "Congestion controller; its parameters are keys of this table.",
            ),
            Key::new("recovery", Kind::Choice(recoveries), "Loss recovery, with cc. Default: newreno."),
        ],
        SIZE_KEYS,
        TCP_KEYS,
    ],
    partial: true,
};

/// The `[tcp]` table.
pub(super) static TCP: Table =
    Table { title: "tcp", doc: "Defaults of all TCP flows.", groups: &[SIZE_KEYS, TCP_KEYS], partial: true };

static RTO: Table =
    Table { title: "rto", doc: "The retransmission timer.", groups: &[RTO_KEYS], partial: true };

static DELAYED_ACK: Table = Table {
    title: "delayed_ack",
    doc: "Delayed acknowledgements.",
    groups: &[DELAYED_ACK_KEYS],
    partial: true,
};

fn presets() -> Vec<&'static str> {
    TcpConfig::PRESETS.iter().map(|preset| preset.name).collect()
}

fn controllers() -> Vec<&'static str> {
    ControllerConfig::NAMES.to_vec()
}

fn recoveries() -> Vec<&'static str> {
    Recovery::NAMES.to_vec()
}

pub(super) fn profiles() -> Vec<&'static str> {
    Profile::NAMES.to_vec()
}

/// The names that `transport = "..."` takes: a controller needs no row among the presets to have one.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = presets().into_iter().chain([UDP_NAME]).chain(rate::names()).collect();
    names.extend(controllers().into_iter().filter(|&name| TcpConfig::preset(name, Profile::Rfc).is_none()));
    names
}

/// The TCP that a name alone stands for: a preset, or else a controller with the usual recovery.
fn by_name_alone(name: &str, profile: Profile) -> Option<TcpConfig> {
    TcpConfig::preset(name, profile).or_else(|| law_alone(name, profile))
}

/// A controller with the usual recovery, under its own name.
fn law_alone(name: &str, profile: Profile) -> Option<TcpConfig> {
    let controller = ControllerConfig::by_name(name)?;
    Some(TcpConfig { name: name.to_owned(), ..TcpConfig::new(profile, controller, Recovery::USUAL) })
}

/// Takes the value out of its wrapper; the kind of the row in which it stands decides the wrapper.
macro_rules! set {
    ($variant:ident, |$config:ident, $value:ident| $body:expr) => {
        |$config, checked| {
            if let Checked::$variant($value) = checked {
                $body;
            }
        }
    };
}

const SHORT: Kind = Kind::Duration { min: Span::from_nanos(1), max: LONGEST };

/// Keys of `[tcp]` and of a transport table that decide how much payload a full packet has. They are read before
/// [`TCP_KEYS`]: a window in bytes is counted in full packets.
const SIZE_KEYS: &[Key] = &[
    Key::new(
        "profile",
        Kind::Choice(profiles),
        "Profile: which source to follow where they disagree. Default: rfc.",
    )
    .tcp(|_, _| {}, |config| config.profile.name().to_owned()),
    Key::new(
        "packet_size",
        Kind::Size { min: 1, max: LARGEST_PACKET },
        "Size of a full packet: the whole IP packet; in the ns2 profile its payload.",
    )
    .tcp(set!(Size, |config, size| config.packet_size = *size as u32), |config| {
        format!("{} B", config.packet_size)
    }),
    Key::new("timestamps", Kind::Switch, "Timestamps option (RFC 7323).")
        .tcp(set!(Switch, |config, switch| config.timestamps = *switch), |config| {
            config.timestamps.to_string()
        }),
];

/// The other keys of `[tcp]` and of a transport table.
const TCP_KEYS: &[Key] = &[
    Key::new(
        "receiver_window",
        Kind::Window { min: 1.0, max: 1e6, endless: false },
        "Maximum number of packets in flight, however large the congestion window is.",
    )
    .tcp(
        |config, checked| config.receiver_window = packets(config, checked) as u32,
        |config| format!("{} packets", config.receiver_window),
    ),
    Key::new(
        "initial_window",
        Kind::Window { min: 1.0, max: 1e6, endless: false },
        "Congestion window at the start.",
    )
    .tcp(
        |config, checked| config.initial_window = packets(config, checked),
        |config| format!("{} packets", config.initial_window),
    ),
    Key::new(
        "initial_ssthresh",
        Kind::Window { min: 1.0, max: 1e9, endless: true },
        "Slow start threshold at the start, or \"unlimited\".",
    )
    .tcp(
        |config, checked| config.initial_ssthresh = packets(config, checked),
        |config| match config.initial_ssthresh {
            f64::INFINITY => "unlimited".to_owned(),
            packets => format!("{packets} packets"),
        },
    ),
    Key::new("rto", Kind::Table(&RTO), "The retransmission timer.").tcp(|_, _| {}, |_| String::new()),
    Key::new(
        "sack_blocks",
        Kind::Integer { min: 0, max: 4 },
        "Maximum number of SACK blocks in an ACK; 3 with timestamps.",
    )
    .tcp(set!(Integer, |config, blocks| config.sack_blocks = *blocks as u32), |config| {
        config.sack_blocks.to_string()
    }),
    Key::new("dsack", Kind::Switch, "Report duplicate arrivals (RFC 2883).")
        .tcp(set!(Switch, |config, switch| config.dsack = *switch), |config| config.dsack.to_string()),
    Key::new("ecn", Kind::Switch, "Explicit congestion notification (RFC 3168).")
        .tcp(set!(Switch, |config, switch| config.ecn = *switch), |config| config.ecn.to_string()),
    Key::new(
        "accurate_ecn",
        Kind::Switch,
        "Accurate ECN (RFC 9768): ACKs report the number of marked packets in a counter of three bits. Needs ecn. \
         Controllers that respond to the share of marks, such as dctcp and prague, then use that number in place of \
         the echo of RFC 8257.",
    )
    .tcp(set!(Switch, |config, switch| config.accurate_ecn = *switch), |config| {
        config.accurate_ecn.to_string()
    }),
    Key::new(
        "ecn_bytes",
        Kind::Switch,
        "ACKs also report the number of bytes received with each ECN codepoint, in the AccECN option. Needs \
         accurate_ecn. The option takes 8 or 12 bytes of an ACK and, with timestamps, the place of the third SACK \
         block.",
    )
    .tcp(set!(Switch, |config, switch| config.ecn_bytes = *switch), |config| config.ecn_bytes.to_string()),
    Key::new(
        "ect1",
        Kind::Switch,
        "Data carries ECT(1) in place of ECT(0), so that queues such as dual-pi2 keep it apart, with little delay and \
         many marks (RFC 9331). For controllers that respond to the share of marks, such as dctcp. Needs ecn.",
    )
    .tcp(set!(Switch, |config, switch| config.ect1 = *switch), |config| config.ect1.to_string()),
    Key::new(
        "delayed_ack",
        Kind::OrTable(&Kind::Switch, &DELAYED_ACK),
        "Delayed ACKs: false acknowledges every segment.",
    )
    .tcp(set_delayed_ack, |config| match config.delayed_ack {
        Some(_) => "true".to_owned(),
        None => "false".to_owned(),
    }),
    Key::new("limited_transmit", Kind::Switch, "Limited transmit (RFC 3042).")
        .tcp(set!(Switch, |config, switch| config.limited_transmit = *switch), |config| {
            config.limited_transmit.to_string()
        }),
    Key::new(
        "idle_restart",
        Kind::Switch,
        "Start from the initial window after the application has been idle for a timeout (RFC 5681 section 4.1).",
    )
    .tcp(set!(Switch, |config, switch| config.idle_restart = *switch), |config| {
        config.idle_restart.to_string()
    }),
    Key::new("dup_threshold", Kind::Integer { min: 1, max: 1_000 }, "Duplicate ACKs that mean a loss.")
        .tcp(set!(Integer, |config, threshold| config.dup_threshold = *threshold as u32), |config| {
            config.dup_threshold.to_string()
        }),
    Key::new(
        "grow_when_limited_elsewhere",
        Kind::Switch,
        "Grow the window even when it is not what limits the sender.",
    )
    .tcp(set!(Switch, |config, switch| config.grow_when_limited_elsewhere = *switch), |config| {
        config.grow_when_limited_elsewhere.to_string()
    }),
    Key::new(
        "vegas_faults",
        Kind::Switch,
        "Reproduce the faults of ns-2's Vegas (see the page of vegas). Profile ns2 with recovery vegas.",
    )
    .tcp(set!(Switch, |config, switch| config.vegas_faults = *switch), |config| {
        config.vegas_faults.to_string()
    }),
    Key::new(
        "give_up",
        Kind::Integer { min: 0, max: 1_000 },
        "Number of consecutive timeouts, without an acknowledgement between them, after which the sender aborts the \
         connection with a RST; Linux has 15. Default: never.",
    )
    .tcp(set!(Integer, |config, timeouts| config.give_up = Some(*timeouts as u32)), |config| {
        config.give_up.map_or_else(|| "never".to_owned(), |timeouts| timeouts.to_string())
    }),
    Key::new(
        "freeze",
        Kind::OrTable(&Kind::Switch, &FREEZE),
        "Freeze-TCP: a host closes its window when its link fades, and the sender pauses until it opens.",
    )
    .tcp(
        |config, checked| {
            config.mobility.freeze = match checked {
                Checked::Switch(false) => None,
                _ => Some(config.mobility.freeze.unwrap_or_default()),
            };
        },
        |config| config.mobility.freeze.is_some().to_string(),
    ),
    Key::new("ebsn", Kind::Switch, "Restart the timer at notices of a bad state from a link (EBSN).")
        .tcp(set!(Switch, |config, switch| config.mobility.ebsn = *switch), |config| {
            config.mobility.ebsn.to_string()
        }),
    Key::new(
        "fast_handoff",
        Kind::OrTable(&Kind::Switch, &FAST_HANDOFF),
        "Retransmit at once when a handoff of the host is complete (Caceres & Iftode).",
    )
    .tcp(
        |config, checked| {
            config.mobility.fast_handoff = match checked {
                Checked::Switch(false) => None,
                _ => Some(config.mobility.fast_handoff.unwrap_or_default()),
            };
        },
        |config| config.mobility.fast_handoff.is_some().to_string(),
    ),
    Key::new(
        "eln",
        Kind::OrTable(&Kind::Switch, &ELN),
        "Retransmit a segment without a reduction when duplicate ACKs report that it was lost in the air.",
    )
    .tcp(
        |config, checked| {
            config.mobility.eln = match checked {
                Checked::Switch(false) => None,
                _ => Some(config.mobility.eln.unwrap_or(1)),
            };
        },
        |config| config.mobility.eln.is_some().to_string(),
    ),
    Key::new(
        "prr",
        Kind::Choice(|| PrrVariant::NAMES.to_vec()),
        "Spread a reduction over a round trip (RFC 6937; safe-ack: RFC 9937). Needs recovery sack or rack; without \
         effect on controllers that set the window from the delivery rate.",
    )
    .tcp(
        set!(Name, |config, name| config.prr = PrrVariant::by_name(name).unwrap_or(config.prr)),
        |config| config.prr.name().to_owned(),
    ),
    Key::new("tlp", Kind::Switch, "Tail loss probes (RFC 8985), with recovery rack.")
        .tcp(set!(Switch, |config, switch| config.tlp = *switch), |config| config.tlp.to_string()),
    Key::new(
        "frto",
        Kind::Switch,
        "Find spurious timeouts by the ACKs that follow (F-RTO, RFC 5682). With recovery reno, newreno, sack or rack.",
    )
    .tcp(set!(Switch, |config, switch| config.spurious.frto = *switch), |config| {
        config.spurious.frto.to_string()
    }),
    Key::new(
        "eifel",
        Kind::Switch,
        "Find spurious timeouts and retransmissions by timestamps (RFC 3522). With recovery reno, newreno, sack or \
         rack.",
    )
    .tcp(set!(Switch, |config, switch| config.spurious.eifel = *switch), |config| {
        config.spurious.eifel.to_string()
    }),
    Key::new(
        "dsack_undo",
        Kind::Switch,
        "Undo a reduction when the receiver reports that every retransmitted segment arrived twice. With recovery \
         sack or rack.",
    )
    .tcp(set!(Switch, |config, switch| config.spurious.dsack_undo = *switch), |config| {
        config.spurious.dsack_undo.to_string()
    }),
    Key::new(
        "spurious_response",
        Kind::Choice(|| SpuriousResponse::NAMES.to_vec()),
        "How a spurious reduction is undone: restore all (Linux), or the Eifel response (RFC 4015).",
    )
    .tcp(
        set!(Name, |config, name| {
            let response = &mut config.spurious.response;
            *response = SpuriousResponse::by_name(name).unwrap_or(*response);
        }),
        |config| config.spurious.response.name().to_owned(),
    ),
];

static FREEZE: Table = Table { title: "freeze", doc: "Freeze-TCP.", groups: &[FREEZE_KEYS], partial: true };

static FAST_HANDOFF: Table = Table {
    title: "fast_handoff",
    doc: "Fast retransmission after a handoff.",
    groups: &[FAST_HANDOFF_KEYS],
    partial: true,
};

static ELN: Table =
    Table { title: "eln", doc: "Explicit loss notification.", groups: &[ELN_KEYS], partial: true };

const COPIES: Kind = Kind::Integer { min: 0, max: 100 };

const FREEZE_KEYS: &[Key] = &[
    Key::new("closing_acks", COPIES, "Copies of the ACK that closes the window.")
        .tcp(set!(Integer, |config, copies| freeze(config).closing_acks = *copies as u32), |config| {
            config.mobility.freeze.unwrap_or_default().closing_acks.to_string()
        }),
    Key::new("opening_acks", COPIES, "Copies of the ACK that opens the window again.")
        .tcp(set!(Integer, |config, copies| freeze(config).opening_acks = *copies as u32), |config| {
            config.mobility.freeze.unwrap_or_default().opening_acks.to_string()
        }),
    Key::new(
        "opening_ack_counts",
        Kind::Switch,
        "Whether the first opening ACK counts as a duplicate although it changes the window.",
    )
    .tcp(set!(Switch, |config, switch| freeze(config).opening_ack_counts = *switch), |config| {
        config.mobility.freeze.unwrap_or_default().opening_ack_counts.to_string()
    }),
    Key::new(
        "keeps_window",
        Kind::Switch,
        "Whether the repair that opening ACKs trigger leaves the congestion window alone.",
    )
    .tcp(set!(Switch, |config, switch| freeze(config).keeps_window = *switch), |config| {
        config.mobility.freeze.unwrap_or_default().keeps_window.to_string()
    }),
];

const FAST_HANDOFF_KEYS: &[Key] = &[
    Key::new("acks", COPIES, "Duplicate ACKs that a mobile receiver sends.")
        .tcp(set!(Integer, |config, copies| fast_handoff(config).acks = *copies as u32), |config| {
            config.mobility.fast_handoff.unwrap_or_default().acks.to_string()
        }),
    Key::new(
        "tahoe",
        Kind::Switch,
        "Whether a mobile sender falls back to a window of one, as 4.3BSD-Tahoe does.",
    )
    .tcp(set!(Switch, |config, switch| fast_handoff(config).tahoe = *switch), |config| {
        config.mobility.fast_handoff.unwrap_or_default().tahoe.to_string()
    }),
];

const ELN_KEYS: &[Key] = &[Key::new(
    "threshold",
    Kind::Integer { min: 1, max: 1_000 },
    "Duplicate ACKs with the notification that mean a loss.",
)
.tcp(set!(Integer, |config, threshold| config.mobility.eln = Some(*threshold as u32)), |config| {
    config.mobility.eln.unwrap_or(1).to_string()
})];

fn freeze(config: &mut TcpConfig) -> &mut Freeze {
    config.mobility.freeze.get_or_insert_default()
}

fn fast_handoff(config: &mut TcpConfig) -> &mut FastHandoff {
    config.mobility.fast_handoff.get_or_insert_default()
}

const RTO_KEYS: &[Key] = &[
    Key::new("min", SHORT, "Minimum timeout.")
        .tcp(set!(Span, |config, span| config.rto.min = *span), |config| config.rto.min.to_string()),
    Key::new("max", SHORT, "Maximum timeout.")
        .tcp(set!(Span, |config, span| config.rto.max = *span), |config| config.rto.max.to_string()),
    Key::new("initial", SHORT, "Timeout before the first RTT sample.")
        .tcp(set!(Span, |config, span| config.rto.initial = *span), |config| config.rto.initial.to_string()),
    Key::new("tick", Kind::Duration { min: Span::ZERO, max: LONGEST }, "Granularity of the clock.")
        .tcp(set!(Span, |config, span| config.rto.tick = *span), |config| config.rto.tick.to_string()),
    Key::new(
        "clock_phase",
        Kind::Duration { min: Span::ZERO, max: LONGEST },
        "Phase of the tick clock in the ns2 profile. Default: drawn for each flow.",
    )
    .tcp(set!(Span, |config, span| config.rto.clock_phase = Some(*span)), |_| String::new()),
];

const DELAYED_ACK_KEYS: &[Key] = &[
    Key::new("timeout", SHORT, "Maximum time for which an ACK is delayed.")
        .tcp(set!(Span, |config, span| delayed_ack(config).timeout = *span), |config| {
            shown_delay(config).timeout.to_string()
        }),
    Key::new("segments", Kind::Integer { min: 1, max: 1_000 }, "Full segments that one ACK acknowledges.")
        .tcp(set!(Integer, |config, segments| delayed_ack(config).segments = *segments as u32), |config| {
            shown_delay(config).segments.to_string()
        }),
    Key::new(
        "quick",
        Kind::Integer { min: 0, max: 1_000_000 },
        "Number of segments at the start of a connection that are acknowledged one by one.",
    )
    .tcp(set!(Integer, |config, segments| delayed_ack(config).quick = *segments as u32), |config| {
        shown_delay(config).quick.to_string()
    }),
    Key::new(
        "autotuning",
        Kind::Switch,
        "Also acknowledge each segment one by one while the receive buffer of Linux would grow, as its \
         receivers do in the first seconds of a connection, and advertise the window that it has room for.",
    )
    .tcp(set!(Switch, |config, switch| delayed_ack(config).autotuning = *switch), |config| {
        shown_delay(config).autotuning.to_string()
    }),
    Key::new(
        "per_rtt",
        Kind::Integer { min: 0, max: 1_000 },
        "Maximum number of delayed ACKs in the minimum RTT that the receiver has measured, however many segments \
         arrive; TACK has 4. ACKs that must not wait are sent regardless. Needs timestamps. 0: no limit.",
    )
    .tcp(set!(Integer, |config, acks| delayed_ack(config).per_rtt = *acks as u32), |config| {
        shown_delay(config).per_rtt.to_string()
    }),
    Key::new(
        "reordering",
        Kind::Integer { min: 0, max: 255 },
        "Reordering threshold: a segment above a gap is acknowledged at once when the gap lies at least this many \
         segments below it (draft-ietf-quic-ack-frequency). 1: always, as in TCP; 0: never.",
    )
    .tcp(set!(Integer, |config, segments| delayed_ack(config).reordering = *segments as u32), |config| {
        shown_delay(config).reordering.to_string()
    }),
];

fn shown_delay(config: &TcpConfig) -> DelayedAck {
    config.delayed_ack.unwrap_or(DelayedAck::USUAL)
}

/// Where the profile has none, `delayed_ack = true` means what the profile `rfc` has.
fn delayed_ack(config: &mut TcpConfig) -> &mut DelayedAck {
    config.delayed_ack.get_or_insert(DelayedAck::USUAL)
}

fn set_delayed_ack(config: &mut TcpConfig, checked: &Checked<'_>) {
    if let Checked::Switch(false) = checked {
        config.delayed_ack = None;
    } else {
        delayed_ack(config);
    }
}

/// A window in packets. The size of a packet has been set and found sound before the first window is read.
fn packets(config: &TcpConfig, checked: &Checked<'_>) -> f64 {
    match checked {
        Checked::Packets(packets) => *packets,
        Checked::Size(bytes) => (bytes / u64::from(config.mss())).clamp(1, 1_000_000) as f64,
        _ => f64::INFINITY,
    }
}

/// A transport that is not compiled in: a scenario may name it like a preset, or its controller behind `cc`.
#[derive(Clone, Debug)]
pub struct OwnTransport {
    controller: ExternalConfig,
    recovery: Recovery,
}

/// Why a transport of one's own cannot be offered to scenarios.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnTransportError {
    /// The name is no name.
    #[error(
        "bad name {0:?} of a transport: use lower-case letters, digits and hyphens, a letter first, or FILE.py:CLASS"
    )]
    BadName(String),
    /// The name means something else already.
    #[error("transport {0:?} is built in: choose another name")]
    NameTaken(String),
    /// There is no such recovery engine.
    #[error("unknown recovery {0:?}: use one of {list}", list = Recovery::NAMES.join(", "))]
    UnknownRecovery(String),
    /// A parameter could not be told from a key of every transport.
    #[error("parameter {0:?} has the name of a key that every transport has: choose another name")]
    ParameterTaken(String),
}

impl OwnTransport {
    /// Checks what the scenario reader relies on.
    pub fn new(controller: ExternalConfig, recovery: &str) -> std::result::Result<Self, OwnTransportError> {
        let name = controller.name;
        let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
            && name.len() <= 100;
        if !is_name && !names_a_class(name) {
            return Err(OwnTransportError::BadName(name.to_owned()));
        }
        if names().contains(&name) || controllers().contains(&name) {
            return Err(OwnTransportError::NameTaken(name.to_owned()));
        }
        let params = ControllerConfig::External(controller.clone()).params();
        if let Some(param) = params.iter().find(|param| TRANSPORT.keys().any(|key| key.name == param.name)) {
            return Err(OwnTransportError::ParameterTaken(param.name.to_owned()));
        }
        match Recovery::by_name(recovery) {
            Some(recovery) => Ok(OwnTransport { controller, recovery }),
            None => Err(OwnTransportError::UnknownRecovery(recovery.to_owned())),
        }
    }

    fn name(&self) -> &'static str {
        self.controller.name
    }

    /// The parameters that a scenario may set.
    pub(super) fn params(&self) -> Vec<Param> {
        self.controller().params()
    }

    fn controller(&self) -> ControllerConfig {
        ControllerConfig::External(self.controller.clone())
    }

    fn config(&self, profile: Profile) -> TcpConfig {
        let name = self.name().to_owned();
        TcpConfig { name, ..TcpConfig::new(profile, self.controller(), self.recovery) }
    }
}

/// Whether `name` is that of a class in a file: `FILE.py:CLASS`.
fn names_a_class(name: &str) -> bool {
    let is_class = |class: &str| {
        class.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && class.chars().all(|one| one.is_alphanumeric() || one == '_')
    };
    name.rsplit_once(".py:").is_some_and(|(file, class)| !file.is_empty() && is_class(class))
}

/// What all flows share: the `[tcp]` and `[udp]` tables, and the transports that are not compiled in.
pub(super) struct Shared<'n> {
    tcp: Reader<'n>,
    profile: Profile,
    udp: UdpConfig,
    own: &'n [OwnTransport],
}

impl<'n> Shared<'n> {
    /// Reads and checks both tables.
    pub(super) fn read(root: &Reader<'n>, own: &'n [OwnTransport]) -> Result<Shared<'n>> {
        let tcp = root.sub("tcp")?;
        let profile = profile_of(&tcp)?.unwrap_or(Profile::Rfc);
        let udp = root.sub("udp")?;
        let usual_header = if profile == Profile::Ns2 { 0 } else { 28 };
        let header = udp.size_if("header")?.unwrap_or(usual_header) as u32;
        let payload = udp.size("payload")? as u32;
        if u64::from(header) + u64::from(payload) > LARGEST_PACKET {
            let message =
                format!("a datagram of {payload} B with a header of {header} B exceeds an IP packet");
            return Err(udp.error(
                "payload",
                message,
                &format!("lower payload to {} B", LARGEST_PACKET - u64::from(header)),
            ));
        }
        let shared = Shared { tcp, profile, udp: UdpConfig { header, payload }, own };
        // A mistake in [tcp] is one even if no flow uses it.
        if let Some(config) = TcpConfig::preset("reno", profile) {
            configure(config, &[tcp], tcp.place)?;
        }
        Ok(shared)
    }

    /// The transport that `node`, the value of a flow's key `transport`, describes.
    pub(super) fn transport(&self, source: &'n Source<'n>, node: &'n Node) -> Result<Transport> {
        let tcp = match &node.value {
            Value::Text(name) if name == UDP_NAME => return Ok(Transport::Udp(self.udp)),
            Value::Text(name) => {
                if let Some(config) = RateConfig::new(name, self.profile) {
                    return Ok(Transport::Rate(Arc::new(config)));
                }
                if let Some(algorithm) = name.strip_prefix(KERNEL) {
                    return self.of_kernel(source, node, algorithm);
                }
                if let Some(stack) = stack::by_name(source, node, name, self.own) {
                    return Ok(Transport::Outside(Arc::new(stack?)));
                }
                let own = self.own(name).map(|own| own.config(self.profile));
                let config = own
                    .or_else(|| by_name_alone(name, self.profile))
                    .ok_or_else(|| unknown_name(source, "transport", node, name, &self.with_own(names())))?;
                configure(config, &[self.tcp], &node.place)?
            }
            Value::Map(map) if map.find(rate::KEY).is_some() => {
                let config = rate::read(source, node, map, self.profile)?;
                return Ok(Transport::Rate(Arc::new(config)));
            }
            Value::Map(map) if map.find(stack::KEY).is_some() => {
                return Ok(Transport::Outside(Arc::new(stack::read(source, node, map, self.own)?)));
            }
            Value::Map(map) => self.custom(source, node, map)?,
            _ => panic!("the reader lets through only names and tables"),
        };
        Ok(Transport::Tcp(Arc::new(tcp)))
    }

    /// A connection that sockets of the kernel carry. What the kernel has is looked up when it is asked to.
    fn of_kernel(&self, source: &'n Source<'n>, node: &'n Node, algorithm: &str) -> Result<Transport> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+".contains(&byte);
        // The kernel's names have 15 characters at most (TCP_CA_NAME_MAX).
        let good = (1..=15).contains(&algorithm.len()) && algorithm.bytes().all(is_name);
        let config = TcpConfig::of_kernel(algorithm).filter(|_| good).ok_or_else(|| {
            source.error(
                &node.place,
                format!("the kernel can have no congestion control {algorithm:?}"),
                "write its name behind kernel:, such as \"kernel:cubic\"",
            )
        })?;
        Ok(Transport::Tcp(Arc::new(configure(config, &[self.tcp], &node.place)?)))
    }

    /// The transport called `name`, if it is not compiled in.
    fn own(&self, name: &str) -> Option<&'n OwnTransport> {
        self.own.iter().find(|own| own.name() == name)
    }

    fn with_own(&self, known: Vec<&'static str>) -> Vec<&'static str> {
        known.into_iter().chain(self.own.iter().map(OwnTransport::name)).collect()
    }

    /// A transport from a table.
    fn custom(&self, source: &'n Source<'n>, node: &'n Node, map: &'n Map) -> Result<TcpConfig> {
        let (name, controller) = controller_of(source, node, map, self.own)?;
        let params = controller.params();
        let extra: Vec<&str> = params.iter().map(|param| param.name).collect();
        let own = Reader::open_with(source, &TRANSPORT, (map, &node.place), &extra)?;
        let profile = profile_of(&own)?.unwrap_or(self.profile);
        let recovery = own.name_if("recovery")?;
        let config = if let Some(preset) = name {
            if recovery.is_some() {
                let message = format!("preset \"{preset}\" already chooses the recovery engine");
                let remedy = format!("write cc = \"{}\" in place of the preset", controller.name());
                return Err(own.error("recovery", message, &remedy));
            }
            TcpConfig::preset(preset, profile)
        } else {
            let usual = self.own(controller.name()).map_or(Recovery::USUAL, |own| own.recovery);
            let recovery = recovery.map_or(Some(usual), Recovery::by_name);
            recovery.map(|recovery| TcpConfig::new(profile, controller, recovery))
        };
        let mut config = config.unwrap_or_else(|| panic!("the reader lets through only registered names"));
        set_params(source, &mut config.controller, map)?;
        configure(config, &[self.tcp, own], &node.place)
    }
}

/// Sets the parameters of `controller` that `map` has.
pub(super) fn set_params(source: &Source<'_>, controller: &mut ControllerConfig, map: &Map) -> Result<()> {
    for param in controller.params() {
        let Some(entry) = map.find(param.name) else { continue };
        let value = param_value(source, &param, &entry.node)?;
        controller.set(param.name, value).map_err(|refused| match refused {
            ParamError::OutOfRange { min, max } => {
                out_of_range(source, param.name, &entry.node, value, &min.to_string(), &max.to_string())
            }
            refused @ ParamError::Unknown => {
                source.error(&entry.key_place, format!("{}: {refused}", param.name), "leave it out")
            }
        })?;
    }
    Ok(())
}

/// The controller of this name: registered, or not compiled in.
pub(super) fn controller_by_name(name: &str, own: &[OwnTransport]) -> Option<ControllerConfig> {
    let own = own.iter().find(|own| own.name() == name).map(OwnTransport::controller);
    own.or_else(|| ControllerConfig::by_name(name))
}

/// The preset that `map` names, if it does, and the controller.
fn controller_of(
    source: &Source<'_>,
    node: &Node,
    map: &Map,
    own: &[OwnTransport],
) -> Result<(Option<&'static str>, ControllerConfig)> {
    let preset = map.find("preset");
    let cc = map.find("cc");
    let named = |text: &Value, known: Vec<&'static str>| match text {
        Value::Text(text) => known.into_iter().find(|name| name == text),
        _ => None,
    };
    match (preset, cc) {
        (Some(_), Some(cc)) => {
            let remedy = "keep preset, or cc with recovery";
            Err(source.error(&cc.key_place, "preset and cc exclude each other".to_owned(), remedy))
        }
        (Some(preset), None) => {
            if let Some(name) = named(&preset.node.value, presets())
                && let Some(config) = TcpConfig::preset(name, Profile::Rfc)
            {
                return Ok((Some(name), config.controller));
            }
            if named(&preset.node.value, vec![UDP_NAME]).is_some() {
                let remedy = "write transport = \"udp\"; its settings are in [udp]";
                return Err(source.error(&preset.node.place, "udp is not a TCP preset".to_owned(), remedy));
            }
            if let Some(name) = named(&preset.node.value, rate::names()) {
                let message = format!("{name} is not a TCP preset");
                let remedy = format!("write transport = {{ rate = \"{name}\" }}");
                return Err(source.error(&preset.node.place, message, &remedy));
            }
            Err(refused_name(source, "preset", &preset.node, &presets()))
        }
        (None, Some(cc)) => {
            let known: Vec<_> = controllers().into_iter().chain(own.iter().map(OwnTransport::name)).collect();
            let controller =
                named(&cc.node.value, known.clone()).and_then(|name| controller_by_name(name, own));
            match controller {
                Some(controller) => Ok((None, controller)),
                None => Err(refused_name(source, "controller", &cc.node, &known)),
            }
        }
        (None, None) => {
            let message = "missing key \"preset\" or \"cc\" in transport".to_owned();
            Err(source.error(
                &node.place,
                message,
                "add preset = \"reno\", or cc = \"reno\" with recovery = \"newreno\"",
            ))
        }
    }
}

pub(super) fn refused_name(source: &Source<'_>, what: &str, node: &Node, known: &[&str]) -> ScenarioError {
    if let Value::Text(text) = &node.value {
        return unknown_name(source, what, node, text, known);
    }
    let message = format!("{what} cannot be {}", node.value.describe());
    source.error(&node.place, message, &format!("expected one of {}", known.join(", ")))
}

pub(super) fn profile_of(table: &Reader<'_>) -> Result<Option<Profile>> {
    Ok(table.name_if("profile")?.and_then(Profile::by_name))
}

pub(super) fn param_value(source: &Source<'_>, param: &Param, node: &Node) -> Result<f64> {
    let value = match &node.value {
        Value::Switch(switch) if param.switch => Some(f64::from(u8::from(*switch))),
        Value::Text(text) if !param.choices.is_empty() => {
            let index = param.choices.iter().position(|choice| choice == text);
            let index = index.ok_or_else(|| unknown_name(source, param.name, node, text, param.choices))?;
            Some(index as f64)
        }
        value if !param.switch && param.choices.is_empty() => number(value),
        _ => None,
    };
    if let Some(extremes) = &node.extremes {
        for extreme in &extremes.nodes {
            let value = number(&extreme.value).filter(|_| !param.switch && param.choices.is_empty());
            if let Some(value) = value
                && !(param.min..=param.max).contains(&value)
            {
                let (min, max) = (param.min, param.max);
                let message = format!("{} is out of range: {value}, which may be drawn", param.name);
                let remedy = format!("it must lie between {min} and {max}: {}", extremes.remedy);
                return Err(source.error(&node.place, message, &remedy));
            }
        }
    }
    value.ok_or_else(|| {
        let expected = match (param.switch, param.choices) {
            (true, _) => "true or false".to_owned(),
            (false, []) => "a number".to_owned(),
            (false, choices) => format!("one of \"{}\"", choices.join("\", \"")),
        };
        let message = format!("{} cannot be {}", param.name, node.value.describe());
        source.error(&node.place, message, &format!("expected {expected}"))
    })
}

/// Applies the keys of `layers`, the most specific last, to `config`, and checks what they make together.
fn configure(mut config: TcpConfig, layers: &[Reader<'_>], place: &Place) -> Result<TcpConfig> {
    apply(&mut config, SIZE_KEYS, layers)?;
    check_packet_size(&config, layers)?;
    apply(&mut config, TCP_KEYS, layers)?;
    check_windows(&config, layers)?;
    check_timer(&config, layers, place)?;
    if config.recovery.uses_sack() && config.sack_blocks == 0 {
        let message = format!("recovery \"{}\" needs SACK blocks", config.recovery.name());
        return Err(refused(layers, "sack_blocks", place, message, "write sack_blocks = 3"));
    }
    if config.timestamps && config.sack_blocks > 3 {
        let message = "4 SACK blocks leave no room for timestamps in the TCP header".to_owned();
        return Err(refused(
            layers,
            "sack_blocks",
            place,
            message,
            "write sack_blocks = 3, or timestamps = false",
        ));
    }
    if config.recovery.uses_sack() && config.sack_room() == 0 {
        let message = format!(
            "what \"{}\" has echoed leaves no room for SACK in the TCP header",
            config.controller.name()
        );
        let remedy = "write timestamps = false, or recovery = \"newreno\"";
        return Err(refused(layers, "recovery", place, message, remedy));
    }
    if config.needs().timestamp_times && !config.timestamps {
        let message = "echo = \"timestamps\" needs the timestamps option".to_owned();
        return Err(refused(
            layers,
            "timestamps",
            place,
            message,
            "write timestamps = true, or echo = \"precise\"",
        ));
    }
    check_repairs(&config, layers)?;
    Ok(config)
}

/// Refuses windows in bytes that hold no segment: nothing smaller is ever sent.
fn check_windows(config: &TcpConfig, layers: &[Reader<'_>]) -> Result<()> {
    let windows = TCP_KEYS.iter().filter(|key| matches!(key.kind, Kind::Window { .. }));
    for key in windows.map(|key| key.name) {
        // The most specific layer is the one in force.
        let Some(layer) = layers.iter().rev().find(|layer| layer.has(key)) else { continue };
        let mss = u64::from(config.mss());
        if let Some(Checked::Size(bytes)) = layer.given(key)?
            && bytes < mss
        {
            let message = format!("{key} of {bytes} B holds no segment: a segment carries {mss} B");
            return Err(layer.error(key, message, &format!("write at least \"{mss} B\", or \"1 packets\"")));
        }
    }
    Ok(())
}

/// What a flow asks for by itself must be possible. What `[tcp]` asks for holds for the flows that can.
fn check_repairs(config: &TcpConfig, layers: &[Reader<'_>]) -> Result<()> {
    let asked = |layer: &Reader<'_>, key: &str, on: bool| on && layer.has(key);
    let engine = config.recovery.name();
    let spurious = &config.spurious;
    let undone_by = [("frto", spurious.frto), ("eifel", spurious.eifel)];
    for layer in layers {
        if asked(layer, "eifel", spurious.eifel) && !config.timestamps {
            let message = "eifel needs timestamps, which are off".to_owned();
            return Err(layer.error(
                "eifel",
                message,
                "write timestamps = true, or frto = true in place of eifel",
            ));
        }
        if asked(layer, "ect1", config.ect1) && !config.uses_ecn() {
            let message = "ect1 needs ECN, which is off".to_owned();
            return Err(layer.error(
                "ect1",
                message,
                "write ecn = true, or choose a controller that needs it, such as dctcp",
            ));
        }
        let counts = asked(layer, "accurate_ecn", config.accurate_ecn);
        if counts && !config.uses_ecn() {
            let message = "accurate_ecn needs ECN, which is off".to_owned();
            let remedy = "write ecn = true, or choose a controller that needs it, such as dctcp";
            return Err(layer.error("accurate_ecn", message, remedy));
        }
        if asked(layer, "ecn_bytes", config.ecn_bytes) && !config.accurate_ecn {
            let message = "ecn_bytes needs accurate_ecn, which is off".to_owned();
            return Err(layer.error("ecn_bytes", message, "write accurate_ecn = true, or ecn_bytes = false"));
        }
        if counts && config.profile == Profile::Ns2 {
            let message = "accurate_ecn has no effect: the SYN of ns-2 negotiates nothing".to_owned();
            return Err(layer.error("accurate_ecn", message, "write profile = \"rfc\" or \"linux\""));
        }
        if asked(layer, "dsack_undo", spurious.dsack_undo) && !config.dsack {
            let message = "dsack_undo needs DSACK blocks, which are off".to_owned();
            return Err(layer.error("dsack_undo", message, "write dsack = true, or dsack_undo = false"));
        }
    }
    let [_, own] = layers else { return Ok(()) };
    let needs_board =
        [("prr", config.prr != PrrVariant::Off), ("dsack_undo", spurious.dsack_undo)].into_iter();
    for (key, on) in needs_board {
        if asked(own, key, on) && !config.recovery.has_scoreboard() {
            let message = format!("{key} needs a scoreboard, and recovery \"{engine}\" has none");
            return Err(own.error(key, message, "choose recovery = \"sack\" or \"rack\", or leave it out"));
        }
    }
    if asked(own, "prr", config.prr != PrrVariant::Off) && config.needs().rate {
        let message = format!("prr cannot set the window of \"{}\"", config.controller.name());
        return Err(own.error(
            "prr",
            message,
            "leave it out: this controller sets the window from the delivery rate",
        ));
    }
    let faulty = config.profile == Profile::Ns2 && config.recovery == Recovery::Vegas;
    if asked(own, "vegas_faults", config.vegas_faults) && !faulty {
        let message = "only ns-2's Vegas has these faults".to_owned();
        let remedy = "leave it out, or choose transport \"vegas\" in profile = \"ns2\"";
        return Err(own.error("vegas_faults", message, remedy));
    }
    if asked(own, "tlp", config.tlp) && config.recovery != Recovery::Rack {
        let message = format!("tlp is part of recovery \"rack\", not of \"{engine}\"");
        return Err(own.error("tlp", message, "choose recovery = \"rack\", or leave it out"));
    }
    for (key, on) in undone_by {
        if asked(own, key, on) && !config.can_undo() {
            let message = format!("{key} does not work with recovery \"{engine}\"");
            let remedy = "choose recovery = \"reno\", \"newreno\", \"sack\" or \"rack\", or leave it out";
            return Err(own.error(key, message, remedy));
        }
    }
    Ok(())
}

fn apply(config: &mut TcpConfig, keys: &'static [Key], layers: &[Reader<'_>]) -> Result<()> {
    // Key by key, not table by table: a flow's packet size counts for a window in bytes from [tcp].
    for key in keys {
        let Some(tcp) = key.tcp else { continue };
        let mut tables = Vec::new();
        for layer in layers {
            let Some(entry) = layer.entry(key.name) else { continue };
            let checked = check(layer.source, &key.kind, key.name, &entry.node)?;
            (tcp.set)(config, &checked);
            if let Checked::Table(table) = checked {
                tables.push(table);
            }
        }
        for table in key.kind.tables() {
            for group in table.groups {
                apply(config, group, &tables)?;
            }
        }
    }
    Ok(())
}

fn check_packet_size(config: &TcpConfig, layers: &[Reader<'_>]) -> Result<()> {
    if config.profile == Profile::Ns2 || config.packet_size > config.data_header() {
        return Ok(());
    }
    let headers = config.data_header();
    let message =
        format!("a packet of {} B has no room for data: its headers take {headers} B", config.packet_size);
    let remedy = format!("raise packet_size above {headers} B");
    let place = layers.iter().rev().find(|layer| layer.has("packet_size")).or(layers.last());
    match place {
        Some(layer) => Err(layer.error("packet_size", message, &remedy)),
        None => Ok(()),
    }
}

fn check_timer(config: &TcpConfig, layers: &[Reader<'_>], place: &Place) -> Result<()> {
    let rto = &config.rto;
    if rto.min > rto.max {
        let message = format!("the minimum timeout, {}, exceeds the maximum, {}", rto.min, rto.max);
        return Err(refused(layers, "rto", place, message, "lower rto.min or raise rto.max"));
    }
    if config.profile != Profile::Ns2 {
        return Ok(());
    }
    if rto.tick == Span::ZERO {
        let message = "the ns2 profile counts in ticks, and the tick is zero".to_owned();
        return Err(refused(layers, "rto", place, message, "write tick = \"10 ms\""));
    }
    match rto.clock_phase {
        Some(phase) if phase >= rto.tick => {
            let message = format!("clock_phase, {phase}, is not shorter than the tick, {}", rto.tick);
            Err(refused(layers, "rto", place, message, &format!("write less than {}", rto.tick)))
        }
        _ => Ok(()),
    }
}

/// An error at `key` of the most specific table that has it, else at `place`.
fn refused(layers: &[Reader<'_>], key: &str, place: &Place, message: String, remedy: &str) -> ScenarioError {
    match layers.iter().rev().find(|layer| layer.has(key)) {
        Some(layer) => layer.error(key, message, remedy),
        None => layers[0].source.error(place, message, remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_recovery_is_what_its_help_says() {
        let help = TRANSPORT.keys().find(|key| key.name == "recovery").map(|key| key.doc);
        let usual = format!("Default: {}.", Recovery::USUAL.name());
        assert!(help.is_some_and(|help| help.contains(&usual)), "{help:?}");
    }

    /// The template of `make new-sender` adds no row to the presets, and its name works all the same.
    #[test]
    fn a_controller_needs_no_preset_to_have_a_name() {
        for &name in ControllerConfig::NAMES {
            assert!(names().contains(&name), "{name}");
            let config = law_alone(name, Profile::Linux).unwrap();
            assert_eq!((config.name.as_str(), config.controller.name()), (name, name));
            assert_eq!(config.recovery, Recovery::USUAL);
        }
        assert!(by_name_alone("turtle", Profile::Rfc).is_none());
    }

    #[test]
    fn a_class_in_a_file_is_a_name() {
        for name in ["my.py:Mine", "a/b c.py:_Mine2", "/x.py:Größe"] {
            assert!(names_a_class(name), "{name}");
        }
        for name in ["my.py", "my.py:", "my.py:2", ".py:Mine", "my.txt:Mine", "my.py:a.b", "my.py:a:b"] {
            assert!(!names_a_class(name), "{name}");
        }
    }

    /// A parameter that is called like a key of TCP could not be set.
    #[test]
    fn no_controller_parameter_hides_a_key() {
        for name in ControllerConfig::NAMES {
            let controller = ControllerConfig::by_name(name).unwrap();
            for param in controller.params() {
                assert!(TRANSPORT.keys().all(|key| key.name != param.name), "{name}: {}", param.name);
            }
        }
    }
}
