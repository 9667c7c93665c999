//! The keys of TCP: what each sets, and how its default reads, so that the schema can show it.

use lasthop_core::time::Span;
use lasthop_net::plan::{Profile, Recovery, TcpConfig};
use lasthop_net::transport::tcp::config::{DelayedAck, PrrVariant, SpuriousResponse};
use lasthop_net::transport::tcp::mobility::{FastHandoff, Freeze};

use super::super::keys::{Key, Kind, LARGEST_PACKET, LONGEST, Table};
use super::super::reader::Checked;
use super::{controllers, presets};

/// A flow's transport as a table.
pub(in super::super) static TRANSPORT: Table = Table {
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
pub(in super::super) static TCP: Table =
    Table { title: "tcp", doc: "Defaults of all TCP flows.", groups: &[SIZE_KEYS, TCP_KEYS], partial: true };

static RTO: Table =
    Table { title: "rto", doc: "The retransmission timer.", groups: &[RTO_KEYS], partial: true };

static DELAYED_ACK: Table = Table {
    title: "delayed_ack",
    doc: "Delayed acknowledgements.",
    groups: &[DELAYED_ACK_KEYS],
    partial: true,
};

fn recoveries() -> Vec<&'static str> {
    Recovery::NAMES.to_vec()
}

pub(in super::super) fn profiles() -> Vec<&'static str> {
    Profile::NAMES.to_vec()
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
pub(super) const SIZE_KEYS: &[Key] = &[
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
pub(super) const TCP_KEYS: &[Key] = &[
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

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_cc::ControllerConfig;

    #[test]
    fn the_usual_recovery_is_what_its_help_says() {
        let help = TRANSPORT.keys().find(|key| key.name == "recovery").map(|key| key.doc);
        let usual = format!("Default: {}.", Recovery::USUAL.name());
        assert!(help.is_some_and(|help| help.contains(&usual)), "{help:?}");
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
