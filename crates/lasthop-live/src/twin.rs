//! Laws that decide in the kernel, on every ACK, without a process beside them: small ones, written in whole numbers
//! (`bpf/laws.h`, `bpf/twins.bpf.c`) and held to those of the simulation (`tests/twins.rs`).
//!
//! Each is registered under a name of its own for as long as a [`Twin`] lives. What a process has left that was killed,
//! [`clean`] takes away.

use serde::Serialize;

use crate::bpf::{Map, maps};
use crate::kernel::algorithms;
use crate::registration::{MARK, has_maker, load, maker, new_id};
use crate::steer_error::{SteerError, failed};

/// Begins the name of a law that shall decide in the kernel, where otherwise a congestion control of the kernel is
/// named.
pub(crate) const TWIN: &str = "twin:";
/// Both laws, compiled: `make steer-object`.
const OBJECT: &[u8] = include_bytes!("../bpf/twins.bpf.o");
/// The laws, and what the names of their congestion controls begin with; eight digits follow.
const LAWS: [(&str, &str); 2] = [("veno", "lhveno_"), ("westwood+", "lhwest_")];

/// What the name of the law's congestion control begins with.
fn prefix_of(law: &str) -> Result<&'static str, SteerError> {
    let found = LAWS.iter().find(|(name, _)| *name == law);
    found.map(|(_, prefix)| *prefix).ok_or_else(|| SteerError::NoTwin {
        law: law.to_owned(),
        known: LAWS.map(|(name, _)| name).join(" and "),
    })
}

/// Whether the law has a twin.
pub fn check(law: &str) -> Result<(), SteerError> {
    prefix_of(law).map(drop)
}

/// The law of a congestion control, and the digits of its name.
fn parts_of(name: &str) -> Option<(&'static str, &str)> {
    let part = |&(law, prefix): &(&'static str, &str)| Some((law, name.strip_prefix(prefix)?));
    LAWS.iter().find_map(part).filter(|(_, id)| id.len() == MARK.len())
}

/// A law that is registered. It is taken away when this is dropped; connections that have it keep it.
#[derive(Debug)]
pub struct Twin {
    name: String,
    registration: Map,
}

impl Twin {
    /// Registers the twin of a law.
    pub fn start(law: &str) -> Result<Twin, SteerError> {
        let prefix = prefix_of(law)?;
        let id = new_id();
        let loaded = load(OBJECT, &id);
        let name = format!("{prefix}{id}");
        let found = maps(|map| parts_of(map).is_some_and(|(_, digits)| digits == id));
        let found = found.map_err(failed("looking for what was registered"))?;
        // The object has all of them, and what failed may have registered one.
        let mut ours = None;
        for (map, registration) in found {
            if map == name && loaded.is_ok() {
                ours = Some(registration);
            } else {
                let _ = registration.unregister();
            }
        }
        loaded?;
        let registration = ours.ok_or_else(|| SteerError::Load("its map is not there".to_owned()))?;
        Ok(Twin { name, registration })
    }

    /// What programs call it: `setsockopt(TCP_CONGESTION)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn report(&self) -> TwinReport {
        let law = parts_of(&self.name).map_or("", |(law, _)| law);
        TwinReport { name: self.name.clone(), law, process: std::process::id(), alive: true }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        let _ = self.registration.unregister();
    }
}

/// A law that is registered, by whomever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TwinReport {
    /// The congestion control as the kernel knows it.
    pub name: String,
    /// The law.
    pub law: &'static str,
    /// The process that registered it.
    pub process: u32,
    /// Whether that is there.
    pub alive: bool,
}

/// Every twin that is registered.
pub fn twins() -> Vec<TwinReport> {
    let report = |name: String| {
        let (law, id) = parts_of(&name)?;
        let (process, alive) = (maker(id), has_maker(id));
        Some(TwinReport { name, law, process, alive })
    };
    algorithms().into_iter().filter_map(report).collect()
}

/// Takes away every twin whose process has gone, and returns their names.
pub fn clean() -> Result<Vec<String>, SteerError> {
    let left: Vec<String> = twins().into_iter().filter(|twin| !twin.alive).map(|twin| twin.name).collect();
    if left.is_empty() {
        return Ok(left);
    }
    let found = maps(|name| left.iter().any(|twin| twin == name)).map_err(failed("looking for twins"))?;
    Ok(found.into_iter().filter(|(_, map)| map.unregister().is_ok()).map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_law() {
        assert_eq!(parts_of("lhveno_00c0ffee"), Some(("veno", "00c0ffee")));
        assert_eq!(parts_of("lhwest_00c0ffee"), Some(("westwood+", "00c0ffee")));
        assert_eq!(parts_of("lhveno_"), None);
        assert_eq!(parts_of("lh_00c0ffee"), None);
        let refused = check("reno").unwrap_err().to_string();
        assert!(
            refused.starts_with("reno has no twin in the kernel: veno and westwood+ have one; "),
            "{refused}"
        );
    }
}
