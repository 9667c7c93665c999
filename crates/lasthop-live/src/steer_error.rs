//! Why the kernel's TCP could not be steered. Made by `steer`, `registration` and `twin`; shown to users as it is.

use std::io;

use thiserror::Error;

/// Why a session did not come about.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SteerError {
    /// No law of this name.
    #[error("no controller {0:?}: 'lasthop transports' lists them")]
    Unknown(String),
    /// A law that the kernel cannot serve.
    #[error("{law} cannot steer the TCP of the kernel: it needs {needs}, which the kernel does not have")]
    Unmet {
        /// Its name.
        law: String,
        /// What is missing.
        needs: String,
    },
    /// A law that is not there in the kernel.
    #[error(
        "{law} has no twin in the kernel: {known} have one; without it, any that the kernel serves can steer"
    )]
    NoTwin {
        /// Its name.
        law: String,
        /// Those that are.
        known: String,
    },
    /// There is no such session, or it lives.
    #[error("no session {name:?} to resume: {state}")]
    Session {
        /// What was asked for.
        name: String,
        /// Why it cannot be had.
        state: String,
    },
    /// The object could not be loaded.
    #[error("the kernel did not take the congestion control: {0}; 'lasthop doctor' says what steering needs")]
    Load(String),
    /// The kernel refused something.
    #[error("{step} failed: {error}; 'lasthop doctor' says what steering needs")]
    Kernel {
        /// What was to be done.
        step: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

pub(crate) fn failed(step: &'static str) -> impl Fn(io::Error) -> SteerError {
    move |error| SteerError::Kernel { step, error }
}
