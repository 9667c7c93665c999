//! What QUIC by quinn-proto and by noq-proto, its fork, have in common: what a connection is to do.
//!
//! `quic/adapter.rs` drives both: it is compiled once for each, as a part of [`crate::quinn`] and of [`crate::noq`].

use lasthop_sim::scenario::STACKS;

use crate::Log;
use crate::controller::Ours;
use crate::judge::wire::Secrets;

/// The length of connection ids: a fixed one, so that no header varies.
pub const ID_BYTES: usize = 8;

/// Congestion control: one of the stack's own, or one of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Congestion {
    /// NewReno (RFC 9002 §7).
    NewReno,
    /// CUBIC (RFC 9438), the default of both stacks.
    #[default]
    Cubic,
    /// BBR: of version 1 in quinn, whose pacer spreads the window over a round trip and does not use its rate; of
    /// version 3 in noq.
    Bbr,
    /// One of ours, by the stack's trait for controllers.
    Ours(Ours),
}

impl Congestion {
    /// By the name that scenarios and the command have for it in a stack: the stack's own, or `lasthop:` and the name
    /// of one of ours. An error says why there is none.
    pub fn by_name(stack: &str, name: &str) -> Result<Congestion, String> {
        let known = STACKS.iter().find(|known| known.name == stack);
        let known = known.ok_or_else(|| format!("scenarios have no stack {stack}"))?;
        if let Some(ours) = name.strip_prefix("lasthop:") {
            return known.controller(ours).map(|config| Congestion::Ours(Ours::new(config)));
        }
        let own = [Congestion::NewReno, Congestion::Cubic, Congestion::Bbr];
        own.into_iter().find(|own| own.name(stack) == name).ok_or_else(|| {
            let names = known.congestion.join(", ");
            format!("{name} is not known: choose one of {names}, or lasthop: and the name of one of ours")
        })
    }

    /// Its name in a stack.
    pub fn name(&self, stack: &str) -> String {
        match self {
            Congestion::NewReno => "newreno".to_owned(),
            Congestion::Cubic => "cubic".to_owned(),
            Congestion::Bbr if stack == crate::noq::NAME => "bbr3".to_owned(),
            Congestion::Bbr => "bbr".to_owned(),
            Congestion::Ours(ours) => format!("lasthop:{}", ours.name()),
        }
    }
}

/// What a connection is to do.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Its congestion control.
    pub congestion: Congestion,
    /// Bytes to transfer; without an end if `None`.
    pub bytes: Option<u64>,
    /// Whether the end that answers has the data, as a server of downloads, and not the one that opens the connection.
    pub answers: bool,
    /// Whether the ends have met before, so that the first data leaves with the first flight (0-RTT).
    pub early_data: bool,
    /// Whether the application writes later what it has to send ([`Stack::write`]).
    pub timed: bool,
    /// Whether what is written so goes in datagrams (RFC 9221), none of which is sent again.
    pub datagrams: bool,
    /// Whether the end that opens the connection asks and the other answers, over streams that the former takes
    /// ([`Stack::exchange`]).
    pub exchange: bool,
    /// Whether both ends tell what datagrams carry and what has come.
    pub measured: bool,
    /// Where the secrets of its TLS are told, if somewhere.
    pub secrets: Option<Secrets>,
    /// Where the end that has the data writes what it does, if somewhere.
    pub log: Option<Log>,
}

impl Settings {
    /// Whether the end that answers has the data.
    pub(crate) fn is_served(&self) -> bool {
        self.answers || self.exchange
    }
}
