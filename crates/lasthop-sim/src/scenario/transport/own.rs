//! A transport that is not compiled in: what it must keep to so that scenarios can name it.

use lasthop_cc::{ControllerConfig, ExternalConfig, Param};
use lasthop_net::plan::{Profile, Recovery, TcpConfig};

use super::{TRANSPORT, controllers, names};

/// A transport that is not compiled in: a scenario may name it like a preset, or its controller behind `cc`.
#[derive(Clone, Debug)]
pub struct OwnTransport {
    controller: ExternalConfig,
    pub(super) recovery: Recovery,
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

    pub(super) fn name(&self) -> &'static str {
        self.controller.name
    }

    /// The parameters that a scenario may set.
    pub(in super::super) fn params(&self) -> Vec<Param> {
        self.controller().params()
    }

    pub(super) fn controller(&self) -> ControllerConfig {
        ControllerConfig::External(self.controller.clone())
    }

    pub(super) fn config(&self, profile: Profile) -> TcpConfig {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_in_a_file_is_a_name() {
        for name in ["my.py:Mine", "a/b c.py:_Mine2", "/x.py:Größe"] {
            assert!(names_a_class(name), "{name}");
        }
        for name in ["my.py", "my.py:", "my.py:2", ".py:Mine", "my.txt:Mine", "my.py:a.b", "my.py:a:b"] {
            assert!(!names_a_class(name), "{name}");
        }
    }
}
