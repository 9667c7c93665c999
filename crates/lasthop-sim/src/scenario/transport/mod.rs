//! The transport of a flow: presets, combinations of a controller and a recovery engine, and every key of
//! TCP.
//!
//! A connection is made in three layers: the defaults of the profile (`TcpConfig::new`), the `[tcp]` table,
//! the flow's own table. The rows of `tables.rs` say what each key sets and how its default reads, so the schema can
//! show them.

use std::sync::Arc;

use lasthop_cc::{ControllerConfig, Param, ParamError};
use lasthop_net::plan::{Profile, RateConfig, Recovery, TcpConfig, Transport, UdpConfig};
use lasthop_net::transport::tcp::config::KERNEL;

use self::checks::configure;
use super::diagnostic::{ScenarioError, Source};
use super::keys::LARGEST_PACKET;
use super::reader::{Reader, number, out_of_range, unknown_name};
use super::value::{Map, Node, Value};
use super::{rate, stack};

pub use self::own::{OwnTransport, OwnTransportError};
pub(super) use self::tables::{TCP, TRANSPORT, profiles};

mod checks;
mod own;
mod tables;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The name of UDP among the transports.
pub(super) const UDP_NAME: &str = "udp";

fn presets() -> Vec<&'static str> {
    TcpConfig::PRESETS.iter().map(|preset| preset.name).collect()
}

fn controllers() -> Vec<&'static str> {
    ControllerConfig::NAMES.to_vec()
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
                let config = own.or_else(|| by_name_alone(name, self.profile)).ok_or_else(|| {
                    let known = names().into_iter().chain(stack::names()).collect();
                    unknown_name(source, "transport", node, name, &self.with_own(known))
                })?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
