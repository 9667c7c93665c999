//! Rate-based transports in a scenario: `transport = "tfrc"`, or a table with the key `rate`.
//!
//! `transport.rs` hands such tables over. The keys here are common to all protocols; their parameters come from
//! `lasthop-net`.

use lasthop_cc::ParamError;
use lasthop_cc::params::Field;
use lasthop_core::time::Span;
use lasthop_net::plan::{Profile, RateConfig};
use lasthop_net::transport::rate::config::Protocol;
use lasthop_net::transport::rate::media::fec::Shape;
use lasthop_net::transport::rate::media::log::Format;

use super::diagnostic::{ScenarioError, Source};
use super::keys::{Key, Kind, LARGEST_PACKET, LONGEST, Table};
use super::reader::{Reader, out_of_range};
use super::transport::{param_value, profile_of, profiles, refused_name};
use super::value::{Map, Node, Value};

/// The key that tells a rate-based transport from a TCP.
pub(super) const KEY: &str = "rate";

/// A flow's rate-based transport as a table.
pub(super) static RATE: Table = Table {
    title: "rate-based transport",
    doc: "A rate-based transport over UDP; its parameters are keys of this table.",
    groups: &[&[
        Key::new(KEY, Kind::Choice(names), "The protocol."),
        Key::new("profile", Kind::Choice(profiles), "Profile: ns2 runs ns-2's TFRC. Default: that of [tcp]."),
        Key::new(
            "packet_size",
            Kind::Size { min: 1, max: LARGEST_PACKET },
            "Size of a full packet: the whole IP packet; in the ns2 profile its payload. Default: 1500 B (rfc, linux), \
             1000 B (ns2).",
        ),
        Key::new("ecn", Kind::Switch, "Routers may mark packets in place of dropping them. Default: false."),
        Key::new(
            "deadline",
            Kind::Duration { min: Span::from_nanos(1), max: LONGEST },
            "Data that waits longer than this in the sender's queue is dropped there. Default: no limit.",
        ),
        Key::new(
            "send_queue",
            Kind::Integer { min: 1, max: 1_000_000_000 },
            "Maximum number of writes of the application that wait in the sender; later ones are dropped. Default: \
             1000000.",
        ),
    ]],
    partial: true,
};

/// The names of all protocols.
pub(super) fn names() -> Vec<&'static str> {
    Protocol::NAMES.to_vec()
}

/// The transport that `map`, the value of a flow's key `transport`, describes.
pub(super) fn read<'n>(
    source: &'n Source<'n>,
    node: &'n Node,
    map: &'n Map,
    profile: Profile,
) -> Result<RateConfig, ScenarioError> {
    let Some(entry) = map.find(KEY) else { panic!("the caller has seen the key") };
    let protocol = match &entry.node.value {
        Value::Text(name) => Protocol::by_name(name),
        _ => None,
    };
    let Some(protocol) = protocol else {
        return Err(refused_name(source, "protocol", &entry.node, &names()));
    };
    let params = protocol.params();
    let own: Vec<&str> = params.iter().map(|param| param.name).collect();
    let table = Reader::open_with(source, &RATE, (map, &node.place), &own)?;
    let profile = profile_of(&table)?.unwrap_or(profile);
    let mut config = RateConfig::new(protocol.name(), profile)
        .unwrap_or_else(|| panic!("the protocol was found under its name"));
    for param in &params {
        let Some(entry) = table.entry(param.name) else { continue };
        let value = param_value(source, param, &entry.node)?;
        config.protocol.set(param.name, value).map_err(|refused| match refused {
            ParamError::OutOfRange { min, max } => {
                out_of_range(source, param.name, &entry.node, value, &min.to_string(), &max.to_string())
            }
            refused @ ParamError::Unknown => {
                source.error(&entry.key_place, format!("{}: {refused}", param.name), "leave it out")
            }
        })?;
    }
    if let Some(size) = table.size_if("packet_size")? {
        config.packet_size = size as u32;
    }
    config.ecn = table.switch_if("ecn")?.unwrap_or(config.ecn);
    config.deadline = table.span_if("deadline")?;
    if let Some(writes) = table.integer_if("send_queue")? {
        config.queue = writes as u32;
    }
    check_size(&config, &table)?;
    check_marks(&config, &table)?;
    check_bounds(&config, &table)?;
    check_repair(&config, &table)?;
    check_idle(&config, &table)?;
    Ok(config)
}

fn check_size(config: &RateConfig, table: &Reader<'_>) -> Result<(), ScenarioError> {
    let header = config.data_header();
    let repair = config.largest_packet().saturating_sub(config.payload() + header);
    if config.profile == Profile::Ns2 {
        let header = header + repair;
        let most = LARGEST_PACKET as u32 - header;
        if config.packet_size > most {
            let message = format!(
                "a payload of {} B and {header} B of headers exceed an IP packet",
                config.packet_size
            );
            return Err(table.error("packet_size", message, &format!("lower packet_size to {most} B")));
        }
    } else if config.packet_size <= header {
        let size = config.packet_size;
        let message = format!("a packet of {size} B has no room for data: its headers take {header} B");
        return Err(table.error("packet_size", message, &format!("raise packet_size above {header} B")));
    } else if u64::from(config.packet_size + repair) > LARGEST_PACKET {
        let message = format!("the repair of a packet of {} B exceeds an IP packet", config.packet_size);
        let most = LARGEST_PACKET - u64::from(repair);
        return Err(table.error("packet_size", message, &format!("lower packet_size to {most} B")));
    }
    Ok(())
}

/// Routers may mark only what slows down for marks, and only where reports tell of them.
fn check_marks(config: &RateConfig, table: &Reader<'_>) -> Result<(), ScenarioError> {
    if !config.ecn {
        return Ok(());
    }
    let name = config.protocol.name();
    if !config.answers_marks() {
        let message = format!("ecn does not go with {name}, whose rate marks do not lower enough");
        return Err(table.error("ecn", message, "leave it out, so that queues drop its packets"));
    }
    if table.has("feedback") && config.protocol.value("feedback") == Some(Format::TransportWide.to_number()) {
        let message = "transport-wide feedback does not report marks, so ecn would not slow the sender down";
        let remedy = "write feedback = \"rfc8888\", or leave ecn out";
        return Err(table.error("feedback", message.to_owned(), remedy));
    }
    Ok(())
}

/// Pairs of parameters of which the first is at most the second, and one that lies between both.
const BOUNDS: &[(&str, &str, Option<&str>)] = &[
    ("min_rate", "max_rate", Some("start_rate")),
    ("low_loss", "high_loss", None),
    ("low", "high", None),
    ("shortest_gap_s", "longest_gap_s", None),
    ("probe_s", "longest_probe_s", None),
];

/// Parameters that contradict each other.
fn check_bounds(config: &RateConfig, table: &Reader<'_>) -> Result<(), ScenarioError> {
    let protocol = &config.protocol;
    for &(low, high, between) in BOUNDS {
        let (Some(least), Some(most)) = (protocol.value(low), protocol.value(high)) else { continue };
        if least > most {
            let at = if table.has(low) { low } else { high };
            let default = |key| if table.has(key) { "" } else { " by default" };
            let message = format!("{low}, {least}{}, exceeds {high}, {most}{}", default(low), default(high));
            return Err(table.error(at, message, &format!("lower {low}, or raise {high}")));
        }
        // A default that lies outside is moved to the nearer bound.
        let Some(between) = between.filter(|key| table.has(key)) else { continue };
        let value = protocol.value(between).unwrap_or(least);
        if !(least..=most).contains(&value) {
            let message = format!("{between}, {value}, does not lie between {least} and {most}");
            return Err(table.error(between, message, &format!("write a rate between {low} and {high}")));
        }
    }
    Ok(())
}

/// Ways of repair that exclude each other.
fn check_repair(config: &RateConfig, table: &Reader<'_>) -> Result<(), ScenarioError> {
    let value = |name: &str| config.protocol.value(name).unwrap_or(0.0);
    if value("resend_within_s") == 0.0 {
        return Ok(());
    }
    if value("nack") != 0.0 {
        let message = "nack and resend_within_s both send again what is lost".to_owned();
        return Err(table.error("resend_within_s", message, "leave out one of them"));
    }
    if Shape::from_number(value("fec")) != Shape::Off {
        let message =
            "with fec the receiver reports what is missing: resend_within_s has no effect".to_owned();
        return Err(table.error("resend_within_s", message, "write nack = true in its place"));
    }
    Ok(())
}

/// Keys that would do nothing beside the others as they are.
fn check_idle(config: &RateConfig, table: &Reader<'_>) -> Result<(), ScenarioError> {
    let value = |name: &str| config.protocol.value(name).unwrap_or(0.0);
    let nack = value("nack") != 0.0;
    let fec = Shape::from_number(value("fec"));
    let is_tfrc = matches!(config.protocol, Protocol::Tfrc(_) | Protocol::TfrcSp(_) | Protocol::TfrcPs(_));
    let params = config.protocol.params();
    for name in params.iter().map(|param| param.name).filter(|name| table.has(name)) {
        let (without, remedy) = match name {
            // Also how long an overtaken parity is waited for.
            "nack_wait_s" if fec != Shape::Off => continue,
            _ if name.starts_with("nack_") && !nack => ("without nack", "write nack = true, or leave it out"),
            _ if name.starts_with("fec_") && fec == Shape::Off => {
                ("without fec", "write fec = \"row\", or leave it out")
            }
            "fec_column" if fec == Shape::Row => {
                ("on rows", "write fec = \"column\" or \"both\", or leave it out")
            }
            "fec_adapt" if fec == Shape::Both => {
                ("on rows and columns together", "write fec = \"row\" or \"column\", or leave it out")
            }
            "mark_reference" | "mark_delay_s" | "beta_ecn" if !config.ecn => {
                ("without ecn", "write ecn = true, or leave it out")
            }
            "feedback_s"
                if value("feedback_share") > 0.0 && !matches!(config.protocol, Protocol::Nada(_)) =>
            {
                (
                    "while reports come by feedback_share",
                    "write feedback_share = 0 beside it, or leave it out",
                )
            }
            "round_ids" | "smooth" | "initial_rate" if is_tfrc && !config.is_ns2_tfrc() => {
                ("outside ns-2's TFRC", "write profile = \"ns2\" with tfrc or tfrc-sp, or leave it out")
            }
            "slowest_s" if config.is_ns2_tfrc() => ("in ns-2's TFRC", "leave it out"),
            _ => continue,
        };
        return Err(table.error(name, format!("{name} has no effect {without}"), remedy));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parameter that is called like a key could not be set.
    #[test]
    fn no_parameter_hides_a_key() {
        for name in Protocol::NAMES {
            for param in Protocol::by_name(name).unwrap().params() {
                assert!(RATE.keys().all(|key| key.name != param.name), "{name}: {}", param.name);
            }
        }
    }
}
