//! Why a live run did not come about, or ended early. Made by all that `emulate` calls; shown to users as it is.

use std::io;
use std::path::PathBuf;

use lasthop_sim::pcapng::PcapngError;
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
    #[error(
        "the kernel has no congestion control {name:?}, only {known}; 'modprobe tcp_{name}' may bring it"
    )]
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
