//! A session of steering around a command: the law decides for the TCP of whatever the command starts.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use lasthop_cc::ControllerConfig;
use lasthop_sim::run::Progress;

use crate::emulate::code_of;
use crate::live_error::LiveError;
use crate::process;
use crate::site::{self, CONGESTION_CONTROL};
use crate::steer::{Decider, Decisions, Session, Steering};
use crate::twin::Twin;

/// What stands in a command for the name of the congestion control.
pub(crate) const NAME: &str = "{cc}";
/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The law that decides, and where.
#[derive(Clone, Debug)]
pub enum Law {
    /// Here, in a new session.
    Beside(ControllerConfig),
    /// Here, in the session of this name, whose process has gone.
    Resumed(ControllerConfig, String),
    /// In the kernel: the twin of the law of this name.
    InKernel(String),
}

impl Law {
    fn start(&self) -> Result<Decider, LiveError> {
        let session = match self {
            Law::Beside(law) => Session::start(law.clone())?,
            Law::Resumed(law, name) => Session::resume(name, law.clone())?,
            Law::InKernel(law) => return Ok(Decider::InKernel(Twin::start(law)?)),
        };
        Ok(Decider::Beside(Steering::start(session)))
    }
}

/// What is to be steered.
#[derive(Clone, Debug)]
pub struct SteerOrder {
    /// Who decides.
    pub law: Law,
    /// A program and its arguments; without one the session lasts until it is interrupted.
    pub words: Vec<String>,
    /// Marks everything that is started, in the environment of programs.
    pub mark: String,
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where we are, and no default is changed: the command chooses by name, which stands in its words for
    /// `{cc}`.
    ByName,
    /// In the namespace of an emulated host, whose default it becomes while the command runs.
    Emulated,
    /// In a new namespace that has nothing but a loopback.
    Own,
}

impl Place {
    /// Where these words would run.
    pub fn of(words: &[String]) -> io::Result<Place> {
        if words.iter().any(|word| word.contains(NAME)) {
            return Ok(Place::ByName);
        }
        Ok(if process::is_at_a_host()? { Place::Emulated } else { Place::Own })
    }
}

/// The default of the namespace where we are, for as long as this lives.
struct Default {
    before: String,
}

impl Default {
    fn set(name: &str) -> io::Result<Default> {
        let before = fs::read_to_string(CONGESTION_CONTROL)?.trim().to_owned();
        fs::write(CONGESTION_CONTROL, name)?;
        Ok(Default { before })
    }
}

impl Drop for Default {
    fn drop(&mut self) {
        let _ = fs::write(CONGESTION_CONTROL, &self.before);
    }
}

/// Steers whatever the command starts, until it ends; or the programs that choose the congestion control by
/// name, until it is interrupted. `told` hears that name. Returns what was done, and the status of the command.
pub fn steer(
    order: &SteerOrder,
    progress: &Progress,
    told: impl FnOnce(&str),
) -> Result<(Decisions, Option<i32>), LiveError> {
    let decider = order.law.start()?;
    told(decider.name());
    let failed = |step| move |error| LiveError::Kernel { step, error };
    let mut default = None;
    let mut namespace = None;
    let mut child = None;
    if let Some(program) = order.words.first() {
        match Place::of(&order.words).map_err(failed("finding out where we are"))? {
            Place::ByName => {}
            Place::Emulated => {
                let set = Default::set(decider.name());
                default = Some(set.map_err(failed("setting the default of the namespace"))?);
            }
            Place::Own => {
                let made = site::loopback(decider.name());
                namespace = Some(made.map_err(failed("making a network namespace"))?);
            }
        }
        let words: Vec<String> = order.words.iter().map(|word| word.replace(NAME, decider.name())).collect();
        let started = process::start_steered(&words, namespace.as_ref(), (&order.mark, decider.name()));
        child = Some(started.map_err(|error| LiveError::Program { program: program.clone(), error })?);
    }
    let mut status = None;
    while !progress.is_cancelled() && decider.is_running() {
        if let Some(child) = &mut child
            && let Some(ended) = child.ended()
        {
            status = Some(code_of(ended));
            break;
        }
        thread::sleep(LOOK);
    }
    drop(child);
    drop((default, namespace));
    Ok((decider.end()?, status))
}
