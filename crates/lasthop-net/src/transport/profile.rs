//! Whose habits the transports follow where the sources disagree (decision 0004). TCP and rate-based transports read
//! it.

/// Whose habits a transport follows where the sources disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The RFCs; the default.
    Rfc,
    /// ns-2.35, packet for packet; to reproduce the figures of papers that used it.
    Ns2,
    /// Linux.
    Linux,
}

impl Profile {
    /// Scenario names, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["rfc", "ns2", "linux"];

    /// The profile called `name`.
    pub fn by_name(name: &str) -> Option<Profile> {
        [Profile::Rfc, Profile::Ns2, Profile::Linux].into_iter().find(|profile| profile.name() == name)
    }

    /// The scenario name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
