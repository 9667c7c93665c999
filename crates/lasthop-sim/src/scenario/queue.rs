//! The queue of a link: limit, rule and discipline from its table. Called by `link.rs`.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::{
    AckFiltering, Adaptive, Cake, CeThreshold, CoDel, Discipline, DualPi2, FqCoDel, FqPie, Framing,
    Isolation, MarkThreshold, Pie, QueueLimit, QueuePlan, Red, RedLimit, RulePlan, Tins, Turns,
};

use super::diagnostic::ScenarioError;
use super::reader::{Checked, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// The properties of the link that a queue needs.
pub(super) struct LinkFacts {
    pub(super) rate: Rate,
    pub(super) delay: Span,
    pub(super) mtu: u64,
    /// Nothing but its rate decides when it takes a packet: it has no retransmissions, turns or grants.
    pub(super) is_plain: bool,
}

/// From which queue on packets are marked, on a link with this limit. A packet that finds as much as fits is lost.
pub(super) fn mark(table: &Reader<'_>, limit: QueueLimit) -> Result<MarkThreshold> {
    let threshold = match table.value("mark")? {
        Checked::Size(bytes) => MarkThreshold::Bytes(bytes),
        Checked::Packets(packets) => MarkThreshold::Packets(packets as u32),
        _ => panic!("`mark` is declared as room"),
    };
    let beyond = match (threshold, limit) {
        (MarkThreshold::Packets(mark), QueueLimit::Packets(limit)) if mark >= limit => {
            Some((format!("{mark} packets"), format!("{limit} packets")))
        }
        (MarkThreshold::Bytes(mark), QueueLimit::Bytes(limit)) if mark >= limit => {
            Some((format!("{mark} B"), format!("{limit} B")))
        }
        _ => None,
    };
    let Some((mark, limit)) = beyond else { return Ok(threshold) };
    let message = format!("nothing would be marked at {mark}: the queue holds {limit} at most");
    Err(table.error("mark", message, "lower mark, or raise the limit of the queue"))
}

/// The queue that the key `queue` of `table` describes, without a threshold for marks.
pub(super) fn read(table: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan> {
    let (kind, queue) = table.tagged("queue")?;
    match kind {
        "unlimited" => Ok(QueuePlan::default()),
        "red" => {
            let rule = RulePlan::Red(red(&queue, link)?);
            Ok(QueuePlan { rule, ..QueuePlan::default() })
        }
        "codel" => {
            let discipline = Discipline::CoDel(codel(&queue, link)?);
            Ok(QueuePlan { limit: limit(&queue, link)?, discipline, ..QueuePlan::default() })
        }
        "fq-codel" => {
            let discipline =
                Discipline::FqCoDel(FqCoDel { codel: codel(&queue, link)?, turns: turns(&queue)? });
            Ok(QueuePlan { discipline, ..QueuePlan::default() })
        }
        "fq-pie" => {
            let discipline = Discipline::FqPie(FqPie { pie: pie(&queue, link)?, turns: turns(&queue)? });
            Ok(QueuePlan { discipline, ..QueuePlan::default() })
        }
        "pie" => {
            let discipline = Discipline::Pie(pie(&queue, link)?);
            Ok(QueuePlan { limit: limit(&queue, link)?, discipline, ..QueuePlan::default() })
        }
        "cake" => {
            let discipline = Discipline::Cake(cake(&queue, link)?);
            Ok(QueuePlan { discipline, ..QueuePlan::default() })
        }
        "dual-pi2" => {
            let discipline = Discipline::DualPi2(DualPi2 {
                target: queue.span("target")?,
                update: queue.span("update")?,
                alpha: queue.number("alpha")?,
                beta: queue.number("beta")?,
                coupling: queue.number("coupling")?,
                ramp_from: queue.span("ramp_from")?,
                ramp: queue.span("ramp")?,
                classic_share: queue.number("classic_share")?,
                mtu: link.mtu as u32,
            });
            Ok(QueuePlan { limit: limit(&queue, link)?, discipline, ..QueuePlan::default() })
        }
        _ => Ok(QueuePlan { limit: limit(&queue, link)?, ..QueuePlan::default() }),
    }
}

/// The key `limit` of a queue.
fn limit(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueueLimit> {
    match queue.value("limit")? {
        Checked::Size(bytes) => Ok(QueueLimit::Bytes(room_for_mtu(queue, bytes, link)?)),
        Checked::Packets(packets) => Ok(QueueLimit::Packets(packets as u32)),
        _ => panic!("`limit` is declared as room"),
    }
}

/// `bytes`, if a packet has room in them.
fn room_for_mtu(queue: &Reader<'_>, bytes: u64, link: &LinkFacts) -> Result<u64> {
    let mtu = link.mtu;
    if bytes >= mtu {
        return Ok(bytes);
    }
    let message = format!("a queue of {bytes} B has no room for a packet of the link's mtu, {mtu} B");
    Err(queue.error("limit", message, &format!("raise limit to {mtu} B, or lower mtu")))
}

fn codel(queue: &Reader<'_>, link: &LinkFacts) -> Result<CoDel> {
    let (target, interval) = (queue.span("target")?, queue.span("interval")?);
    if target >= interval {
        let message = format!("a target of {target} is not below the interval of {interval}");
        return Err(queue.error("target", message, "a twentieth of interval is usual"));
    }
    let delay = queue.span_if("ce_threshold")?;
    if delay.is_none() && queue.has("ce_threshold_for") {
        let message = "ce_threshold_for says which packets, but there is no ce_threshold".to_owned();
        return Err(queue.error("ce_threshold_for", message, "add ce_threshold = \"1 ms\", or leave it out"));
    }
    let scalable_only = queue.name("ce_threshold_for")? == "ect1";
    let threshold = delay.map(|delay| CeThreshold { delay, scalable_only });
    Ok(CoDel { target, interval, mtu: link.mtu as u32, ecn: queue.switch("ecn")?, threshold })
}

fn pie(queue: &Reader<'_>, link: &LinkFacts) -> Result<Pie> {
    Ok(Pie {
        target: queue.span("target")?,
        update: queue.span("update")?,
        burst: queue.span("burst")?,
        mtu: link.mtu as u32,
        ecn: queue.switch("ecn")?,
        mark_below: queue.number("mark_p")?,
    })
}

/// How the queues of a scheduler take turns.
fn turns(queue: &Reader<'_>) -> Result<Turns> {
    Ok(Turns {
        queues: queue.integer("queues")? as u32,
        quantum: queue.size("quantum")? as u32,
        limit: queue.integer("limit")?,
        memory: queue.size("memory")?,
    })
}

fn cake(queue: &Reader<'_>, link: &LinkFacts) -> Result<Cake> {
    let (bandwidth, rtt, mtu) = (queue.rate_if("bandwidth")?, queue.span("rtt")?, link.mtu as u32);
    if bandwidth.is_some() && !link.is_plain {
        let message =
            "what repeats or schedules packets itself cannot hold them back for a shaper".to_owned();
        let remedy = "leave out bandwidth: this link decides when a packet leaves";
        return Err(queue.error("bandwidth", message, remedy));
    }
    Ok(Cake {
        bandwidth,
        overhead: queue.integer("overhead")? as u32,
        least: queue.integer("mpu")? as u32,
        framing: match queue.name("framing")? {
            "atm" => Framing::Atm,
            "ptm" => Framing::Ptm,
            _ => Framing::None,
        },
        isolation: match queue.name("isolation")? {
            "dual-srchost" => Isolation::Sources,
            "dual-dsthost" => Isolation::Sinks,
            "flows" => Isolation::Flows,
            "none" => Isolation::None,
            _ => Isolation::Triple,
        },
        tins: match queue.name("tins")? {
            "besteffort" => Tins::BestEffort,
            "diffserv4" => Tins::Four,
            _ => Tins::Three,
        },
        rtt,
        memory: match queue.size_if("memory")? {
            Some(bytes) => bytes,
            None => Cake::usual_memory(bandwidth, rtt, mtu),
        },
        ack_filter: match queue.name("ack_filter")? {
            "conservative" => AckFiltering::Conservative,
            "aggressive" => AckFiltering::Aggressive,
            _ => AckFiltering::Off,
        },
        mtu,
    })
}

fn red(queue: &Reader<'_>, link: &LinkFacts) -> Result<Red> {
    let ns2 = queue.name("profile")? == "ns2";
    let in_bytes = queue.name_if("measure")?.map_or(ns2, |measure| measure == "bytes");
    let mean_packet = queue.size("mean_packet")? as u32;
    let automatic = Red::automatic(link.rate, link.delay, mean_packet);
    let unit = RedUnit { in_bytes, mean_packet };
    let usual = if ns2 { automatic.min_threshold } else { 5.0 };
    let min_threshold = unit.threshold(queue, "min_th")?.unwrap_or_else(|| unit.of_packets(usual));
    let max_threshold = unit.threshold(queue, "max_th")?.unwrap_or(3.0 * min_threshold);
    if min_threshold >= max_threshold {
        let (min, max) = (unit.shown(min_threshold), unit.shown(max_threshold));
        let (lower, remedy) = match (queue.has("min_th"), ns2) {
            (true, _) => (format!("min_th of {min}"), "three times min_th is usual for max_th"),
            (false, true) => (
                format!("the min_th of {min} that ns-2 derives from the rate of the link"),
                "set min_th as well, or raise max_th",
            ),
            (false, false) => (format!("the usual min_th of {min}"), "set min_th as well, or raise max_th"),
        };
        let message = format!("{lower} is not below max_th of {max}");
        let key = if queue.has("max_th") { "max_th" } else { "min_th" };
        return Err(queue.error(key, message, remedy));
    }
    let adaptive = match queue.value("adaptive")? {
        Checked::Table(table) => {
            let bottom = table.number_if("bottom")?;
            Some(adaptive(&table, bottom.unwrap_or(if ns2 { automatic.bottom } else { 0.01 }))?)
        }
        Checked::Switch(true) => Some(Adaptive {
            alpha: 0.01,
            beta: 0.9,
            interval: Span::from_millis(500),
            top: 0.5,
            bottom: if ns2 { automatic.bottom } else { 0.01 },
        }),
        _ => None,
    };
    let limit = match (queue.value("limit")?, ns2) {
        (Checked::Packets(packets), false) => RedLimit::Packets(packets as u64),
        (Checked::Size(bytes), false) => RedLimit::Bytes(room_for_mtu(queue, bytes, link)?),
        (Checked::Packets(packets), true) if in_bytes => {
            RedLimit::WaitingBytes(packets as u64 * u64::from(mean_packet))
        }
        (Checked::Packets(packets), true) => RedLimit::WaitingPackets(packets as u64),
        (Checked::Size(bytes), true) => RedLimit::WaitingBytes(bytes),
        _ => panic!("`limit` is declared as room"),
    };
    Ok(Red {
        in_bytes,
        mean_packet,
        min_threshold,
        max_threshold,
        weight: queue.number_if("w_q")?.unwrap_or(if ns2 { automatic.weight } else { 0.002 }),
        max_probability: queue.number("max_p")?,
        gentle: queue.switch("gentle")?,
        wait: queue.switch("wait")?,
        ecn: queue.switch("ecn")?,
        mark_below: queue.switch("use_mark_p")?.then_some(queue.number("mark_p")?),
        adaptive,
        limit,
        rate: link.rate,
        ns2,
    })
}

fn adaptive(table: &Reader<'_>, bottom: f64) -> Result<Adaptive> {
    let top = table.number("top")?;
    if bottom > top {
        let message = format!("bottom, {bottom}, is above top, {top}");
        let key = if table.has("bottom") { "bottom" } else { "top" };
        return Err(table.error(key, message, "lower bottom, or raise top"));
    }
    Ok(Adaptive {
        alpha: table.number("alpha")?,
        beta: table.number("beta")?,
        interval: table.span("interval")?,
        top,
        bottom,
    })
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

    /// A threshold of a scenario.
    fn threshold(&self, queue: &Reader<'_>, key: &str) -> Result<Option<f64>> {
        match queue.given(key)? {
            None => Ok(None),
            Some(Checked::Packets(packets)) => Ok(Some(self.of_packets(packets))),
            Some(Checked::Size(bytes)) if self.in_bytes => Ok(Some(bytes as f64)),
            Some(_) => {
                let message = format!("{key} is in bytes, but the queue is measured in packets");
                Err(queue.error(key, message, "write packets, or measure = \"bytes\""))
            }
        }
    }

    fn shown(&self, threshold: f64) -> String {
        format!("{threshold} {}", if self.in_bytes { "B" } else { "packets" })
    }
}
