//! `red`.

use lasthop_core::time::Span;
use lasthop_net::plan::{Adaptive, QueueLimit, QueuePlan, Red, RedLimit, RulePlan};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, PACKET, SOME_TIME};
use super::super::reader::{Checked, Reader};
use super::LinkFacts;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "red";
pub(super) const BARE: bool = true;

table! {
    /// Drops or marks arriving packets with a probability that grows with the average queue (Floyd and Jacobson 1993).
    /// The average does not count the packet in service.
    pub(super) static TABLE = "RED queue";
    struct Keys<'n> {
        /// Maximum number of packets or bytes in the queue, counting the packet in service; in the profile ns2 without
        /// it, and packets of mean_packet bytes if it measures bytes.
        limit: QueueLimit = Kind::Room, default("\"50 packets\"");
        /// Source of the values that are not given. std: the classic ones, min_th 5 packets and w_q 0.002. ns2: what
        /// ns-2.35 derives from rate and delay, measured in bytes; its quirks are kept too.
        profile: &'static str = Kind::Choice(|| vec!["std", "ns2"]), default("\"std\"");
        /// What the queue is measured in. In bytes, large packets are also dropped more often. Default: packets; bytes
        /// in the profile ns2.
        measure: Option<&'static str> = Kind::Choice(|| vec!["packets", "bytes"]);
        /// Usual size of a packet, for the time that a link is idle and to count bytes.
        mean_packet: u32 = PACKET, default("\"500 B\"");
        /// Nothing is dropped while the average is below this. Default: 5 packets; in the profile ns2, what the link
        /// carries in 2.5 ms, if that is more.
        min_th: Option<QueueLimit> = Kind::Room;
        /// Average at which the probability is max_p. Default: three times min_th.
        max_th: Option<QueueLimit> = Kind::Room;
        /// Weight of a new sample in the average. Default: 0.002; in the profile ns2 such that samples of ten round
        /// trips count.
        w_q: Option<f64> = Kind::Number { min: 1e-9, max: 1.0 };
        /// Probability of a drop when the average is max_th.
        max_p: f64 = Kind::Probability, default("0.1");
        /// Above max_th the probability rises to 1 at twice max_th; otherwise it is 1 above max_th.
        gentle: bool = Kind::Switch, default("true");
        /// Let 1 / p packets pass between two drops, so that their distance is uniform in 1 / p to 2 / p; otherwise in
        /// 1 to 1 / p.
        wait: bool = Kind::Switch, default("true");
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Kind::Switch, default("true");
        /// Packets are marked while the probability is below this, and dropped beyond.
        mark_p: f64 = Kind::Probability, default("0.1");
        /// Whether mark_p counts; if not, packets are marked at any probability, and all are dropped where it is 1.
        use_mark_p: bool = Kind::Switch, default("true");
        /// Adapt max_p so that the average stays midway between the thresholds (Floyd, Gummadi and Shenker 2001).
        adaptive: Checked<'n> = Kind::OrTable(&Kind::Switch, &ADAPTIVE), default("false");
    }
}

table! {
    /// How max_p is adapted.
    static ADAPTIVE = "adaptive RED";
    struct AdaptiveKeys {
        /// Added to max_p when the average is above the target, at most a quarter of max_p.
        alpha: f64 = Kind::Number { min: 0.0, max: 1.0 }, default("0.01");
        /// Factor applied to max_p when the average is below the target.
        beta: f64 = Kind::Number { min: 0.0, max: 1.0 }, default("0.9");
        /// Minimum time between two changes.
        interval: Span = SOME_TIME, default("\"500 ms\"");
        /// Value above which max_p is not raised any further.
        top: f64 = Kind::Probability, default("0.5");
        /// Value below which max_p is not lowered any further. Default: 0.01; in the profile ns2, on links above 8
        /// Mbit/s, one packet in a window of 100 ms.
        bottom: Option<f64> = Kind::Probability;
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan> {
    let keys = Keys::read(queue)?;
    let ns2 = keys.profile == "ns2";
    let in_bytes = keys.measure.map_or(ns2, |measure| measure == "bytes");
    let mean_packet = keys.mean_packet;
    let automatic = Red::automatic(link.rate, link.delay, mean_packet);
    let unit = RedUnit { in_bytes, mean_packet };
    let usual = if ns2 { automatic.min_threshold } else { 5.0 };
    let min_threshold =
        unit.threshold(queue, "min_th", keys.min_th)?.unwrap_or_else(|| unit.of_packets(usual));
    let max_threshold = unit.threshold(queue, "max_th", keys.max_th)?.unwrap_or(3.0 * min_threshold);
    if min_threshold >= max_threshold {
        let (min, max) = (unit.shown(min_threshold), unit.shown(max_threshold));
        let (lower, remedy) = match (keys.min_th.is_some(), ns2) {
            (true, _) => (format!("min_th of {min}"), "three times min_th is usual for max_th"),
            (false, true) => (
                format!("the min_th of {min} that ns-2 derives from the rate of the link"),
                "set min_th as well, or raise max_th",
            ),
            (false, false) => (format!("the usual min_th of {min}"), "set min_th as well, or raise max_th"),
        };
        let message = format!("{lower} is not below max_th of {max}");
        let key = if keys.max_th.is_some() { "max_th" } else { "min_th" };
        return Err(queue.error(key, message, remedy));
    }
    let bottom = if ns2 { automatic.bottom } else { 0.01 };
    let adaptive = match keys.adaptive {
        Checked::Table(table) => Some(adaptive(&table, bottom)?),
        Checked::Switch(true) => {
            Some(Adaptive { alpha: 0.01, beta: 0.9, interval: Span::from_millis(500), top: 0.5, bottom })
        }
        _ => None,
    };
    let limit = match (keys.limit, ns2) {
        (QueueLimit::Bytes(bytes), true) => RedLimit::WaitingBytes(bytes),
        (QueueLimit::Packets(packets), true) if in_bytes => {
            RedLimit::WaitingBytes(u64::from(packets) * u64::from(mean_packet))
        }
        (QueueLimit::Packets(packets), true) => RedLimit::WaitingPackets(packets.into()),
        (limit, _) => match link.with_room(queue, limit)? {
            QueueLimit::Bytes(bytes) => RedLimit::Bytes(bytes),
            QueueLimit::Packets(packets) => RedLimit::Packets(packets.into()),
            QueueLimit::Unlimited => unreachable!("room is packets or bytes"),
        },
    };
    let rule = RulePlan::Red(Red {
        in_bytes,
        mean_packet,
        min_threshold,
        max_threshold,
        weight: keys.w_q.unwrap_or(if ns2 { automatic.weight } else { 0.002 }),
        max_probability: keys.max_p,
        gentle: keys.gentle,
        wait: keys.wait,
        ecn: keys.ecn,
        mark_below: keys.use_mark_p.then_some(keys.mark_p),
        adaptive,
        limit,
        rate: link.rate,
        ns2,
    });
    Ok(QueuePlan { rule, ..QueuePlan::default() })
}

/// Where `table` says nothing of it, max_p stays above `bottom`.
fn adaptive(table: &Reader<'_>, bottom: f64) -> Result<Adaptive> {
    let keys = AdaptiveKeys::read(table)?;
    let AdaptiveKeys { alpha, beta, interval, top, .. } = keys;
    let bottom = keys.bottom.unwrap_or(bottom);
    if bottom > top {
        let message = format!("bottom, {bottom}, is above top, {top}");
        let key = if keys.bottom.is_some() { "bottom" } else { "top" };
        return Err(table.error(key, message, "lower bottom, or raise top"));
    }
    Ok(Adaptive { alpha, beta, interval, top, bottom })
}

/// What RED measures its queue in.
struct RedUnit {
    in_bytes: bool,
    mean_packet: u32,
}

impl RedUnit {
    /// This many packets of the usual size.
    fn of_packets(&self, packets: f64) -> f64 {
        if self.in_bytes { packets * f64::from(self.mean_packet) } else { packets }
    }

    /// A threshold of a scenario, which the key `key` gives.
    fn threshold(&self, queue: &Reader<'_>, key: &str, given: Option<QueueLimit>) -> Result<Option<f64>> {
        match given {
            Some(QueueLimit::Packets(packets)) => Ok(Some(self.of_packets(packets.into()))),
            Some(QueueLimit::Bytes(bytes)) if self.in_bytes => Ok(Some(bytes as f64)),
            Some(_) => {
                let message = format!("{key} is in bytes, but the queue is measured in packets");
                Err(queue.error(key, message, "write packets, or measure = \"bytes\""))
            }
            None => Ok(None),
        }
    }

    fn shown(&self, threshold: f64) -> String {
        format!("{threshold} {}", if self.in_bytes { "B" } else { "packets" })
    }
}
