//! Why a live run did not come about, or ended early. Made by all that `emulate` calls; shown to users as it is.

use std::io;
use std::path::PathBuf;

use lasthop_sim::pcapng::PcapngError;
use lasthop_sim::scenario::nearest;
use thiserror::Error;

use crate::plan::PlanError;
use crate::steer_error::SteerError;

/// Why a live run did not come about, or ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The scenario has no live counterpart.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A host that is none.
    #[error("no host {name:?}: the hosts of this scenario are {known}")]
    NoHost {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A flow that the kernel cannot carry.
    #[error("flow {flow:?} has {what}: sockets of the kernel do not carry it; run a program for it")]
    Flow {
        /// Its name.
        flow: String,
        /// What is in the way.
        what: &'static str,
    },
    /// A congestion control that is not there.
    #[error("the kernel has no congestion control {name:?}, only {known}{}", module_of(.name, .known))]
    Algorithm {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The kernel refused something.
    #[error("{step} failed: {error}; 'lasthop doctor' says what live use needs")]
    Kernel {
        /// What was to be done.
        step: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// A capture could not be written.
    #[error("{}: {error}; choose a place with room for it, or store less of each packet", .file.display())]
    Capture {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        error: PcapngError,
    },
    /// A program could not be started.
    #[error("cannot start {program:?}: {error}")]
    Program {
        /// Its name.
        program: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The sockets of a flow failed while it ran.
    #[error("the sockets of flow {flow:?} failed: {error}")]
    Sockets {
        /// Its name.
        flow: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The way out of the network could not be opened.
    #[error("no way out of the emulated network: {0}")]
    Outside(io::Error),
    /// A law does not steer.
    #[error(transparent)]
    Steer(#[from] SteerError),
}

/// Congestion controls that are modules of Linux, `tcp_` before the name (net/ipv4/Kconfig).
const MODULES: [&str; 16] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// How a congestion control that is not there may come: from a module, or by its right name.
fn module_of(name: &str, known: &str) -> String {
    if MODULES.contains(&name) {
        return format!("; 'modprobe tcp_{name}' may bring it");
    }
    let names: Vec<&str> = known.split(", ").chain(MODULES).collect();
    match nearest(name, &names) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => "; a sender of lasthop goes by steer:NAME".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what is a module of Linux is proposed to be loaded.
    #[test]
    fn a_module_is_proposed_only_where_there_is_one() {
        let said = |name: &str| {
            let known = "reno, cubic".to_owned();
            LiveError::Algorithm { name: name.to_owned(), known }.to_string()
        };
        let only = |name: &str| format!("the kernel has no congestion control {name:?}, only reno, cubic; ");
        assert_eq!(said("vegas"), only("vegas") + "'modprobe tcp_vegas' may bring it");
        assert_eq!(said("brb"), only("brb") + "did you mean \"bbr\"?");
        assert_eq!(said("Cubic"), only("Cubic") + "did you mean \"cubic\"?");
        assert_eq!(said("ledbat"), only("ledbat") + "a sender of lasthop goes by steer:NAME");
    }
}
