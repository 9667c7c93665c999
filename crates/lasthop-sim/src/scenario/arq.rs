//! Retransmission by a link: the key `arq`, and the keys that the helper of that name has too.

use lasthop_core::time::Span;
use lasthop_net::plan::{Arq, DiscardUnit, Hybrid, Report};

use super::declare::{choice, keys, table};
use super::diagnostic::ScenarioError;
use super::keys::{ANY_TIME, Kind, LARGEST_PACKET, SOME_TIME, Table};
use super::reader::{Checked, Reader};

pub(super) static ARQ: Table = Table {
    title: "arq",
    doc: "Retransmission by the link itself: a frame that is not acknowledged in time is transmitted again, before any \
          new one. `arq = {}` takes all defaults.",
    groups: &[ArqKeys::KEYS],
    partial: false,
};

choice! {
    const REPORT: Report = "local" => Report::Local, "proxy" => Report::Proxy, "off" => Report::Off
}
choice! {
    const DISCARDS: DiscardUnit = "attempts" => DiscardUnit::Attempt, "frames" => DiscardUnit::Frame
}

keys! {
    pub(super) struct ArqKeys<'n> {
        /// Maximum number of frames that are neither acknowledged nor given up; 1 is stop-and-wait.
        window: u32 = Kind::Integer { min: 1, max: 1024 }, default("16");
        /// Maximum number of transmissions of a frame.
        attempts: u32 = Kind::Integer { min: 1, max: 1000 }, default("4");
        /// Time from the start of a transmission to the next attempt. Default: twice the propagation delay, plus the
        /// transmission times of the frame and its acknowledgement, plus 1 ms.
        timeout: Option<Span> = SOME_TIME;
        /// Whether frames above a gap wait until it is filled or given up, or are delivered at once.
        order: &'static str = Kind::Choice(|| vec!["in-order", "out-of-order"]), default("\"in-order\"");
        /// Size of a link acknowledgement.
        ack_size: u32 = Kind::Size { min: 1, max: LARGEST_PACKET }, default("\"14 B\"");
        /// Probability that a link acknowledgement is lost.
        ack_error_rate: f64 = Kind::Probability, default("0");
        /// Which senders receive reports of acknowledgements, retries and losses, if they use them. local: those at the
        /// near end of the link. proxy: all, after the unloaded delay of the reverse path.
        report: Report = REPORT, default("\"local\"");
        /// What the sending MAC reports as a discarded frame: each failed attempt, or a frame given up.
        discards: DiscardUnit = DISCARDS, default("\"attempts\"");
        /// After a failed attempt, send a notice of 56 B to the sender if it understands EBSN.
        ebsn: Checked<'n> = Kind::OrTable(&Kind::Switch, &EBSN), default("false");
        /// Type-II hybrid ARQ: retransmissions carry parity, and the receiver keeps all pieces that have arrived.
        hybrid: Checked<'n> = Kind::OrTable(&Kind::Switch, &HYBRID), default("false");
    }
}

table! {
    /// Type-II hybrid ARQ: a frame is sent in pieces, which the error model loses one by one, each by its own size and
    /// time. Any set of pieces of that number rebuilds the frame.
    static HYBRID = "hybrid of a link";
    struct HybridKeys {
        /// Pieces of a frame.
        pieces: u32 = Kind::Integer { min: 2, max: 128 }, default("8");
        /// Pieces of parity in each retransmission; with as many as the frame has, it takes as long as the first
        /// transmission.
        parity: u32 = Kind::Integer { min: 1, max: 128 }, default("2");
    }
}

table! {
    /// Explicit bad state notification.
    static EBSN = "ebsn of a link";
    struct EbsnKeys {
        /// Minimum time between two notices to the same sender. Default: the timeout of the link.
        gap: Option<Span> = ANY_TIME;
    }
}

/// What the key `arq` of `table` says; `timeout` is that of a full frame.
pub(super) fn of_link(
    table: &Reader<'_>,
    timeout: impl Fn(&Arq) -> Span,
) -> Result<Option<Arq>, ScenarioError> {
    let Checked::Table(table) = table.value("arq")? else { return Ok(None) };
    read(&table, timeout).map(Some)
}

/// What its own table says.
pub(super) fn read(table: &Reader<'_>, timeout: impl Fn(&Arq) -> Span) -> Result<Arq, ScenarioError> {
    let keys = ArqKeys::read(table)?;
    let mut arq = Arq {
        window: keys.window,
        attempts: keys.attempts,
        timeout: keys.timeout,
        in_order: keys.order == "in-order",
        ack_size: keys.ack_size,
        ack_error_rate: keys.ack_error_rate,
        report: keys.report,
        discards: keys.discards,
        ebsn: None,
        hybrid: match keys.hybrid {
            Checked::Table(hybrid) => {
                let HybridKeys { pieces, parity } = HybridKeys::read(&hybrid)?;
                Some(Hybrid { pieces, parity })
            }
            Checked::Switch(true) => Some(Hybrid::USUAL),
            _ => None,
        },
    };
    arq.ebsn = match keys.ebsn {
        Checked::Table(ebsn) => Some(EbsnKeys::read(&ebsn)?.gap.unwrap_or_else(|| timeout(&arq))),
        Checked::Switch(true) => Some(timeout(&arq)),
        _ => None,
    };
    Ok(arq)
}
