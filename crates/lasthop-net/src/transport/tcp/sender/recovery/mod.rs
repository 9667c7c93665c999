//! Loss recovery: how losses are found and repaired. How far the window falls is the controller's business.
//!
//! Each engine is a state with an `impl` of [`RecoveryEngine`] in a file of its own: `duplicate.rs` (Tahoe, Reno and
//! NewReno, which count duplicate ACKs), `sack.rs` (RFC 6675), `rack.rs` (RFC 8985; with
//! `counted.rs` towards a peer without SACK, as Linux), `sack1.rs` (ns-2's) and
//! `vegas.rs` (the fine-grained timer). `prr.rs` spreads the reductions of `sack.rs` and `rack.rs` over a round trip.
//!
//! An engine works on the [`Connection`] that the sender hands it. To add one: a file, a line in [`Engine`] and one
//! in [`with_engine!`]; no other module names an engine.

mod counted;
mod duplicate;
pub(super) mod prr;
mod rack;
mod sack;
mod sack1;
mod scoreboard;
mod vegas;

use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use self::duplicate::DuplicateAcks;
use self::rack::Rack;
use self::sack::Sack;
use self::sack1::Sack1;
use self::scoreboard::Scoreboard;
use self::vegas::FineTimer;
use super::Connection;
use crate::transport::profile::Profile;
use crate::transport::sack::SackBlocks;
use crate::transport::tcp::config::{Recovery, TcpConfig};
use crate::transport::tcp::segments::Segment;
use crate::transport::wire::Wire;

/// How a sender finds and repairs losses. Whatever has a body here is right for an engine without SACK.
pub(super) trait RecoveryEngine {
    /// It keeps a scoreboard: it knows what the receiver holds, and repairs after a timeout only what is missing.
    const SCOREBOARD: bool = false;
    /// A recovery of it has an end, at which the window can be given back (`persist.rs`).
    const ENDS_RECOVERY: bool = true;
    /// Data that follows a pause starts the retransmission timer anew.
    const STARTS_TIMER_ANEW: bool = true;
    /// In the `ns2` profile its SYN is a full packet, so that the handshake measures the path like data.
    const FULL_SYN: bool = false;

    /// Takes an ACK: moves `una`, looks for losses, repairs them and fills the window.
    fn on_ack<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    );

    /// Sends what the window allows, repairs before new data.
    #[inline]
    fn fill<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W)
    where
        Self: Sized,
    {
        tcp.fill_window_burst(self, u32::MAX, now, wire);
    }

    /// Answers a loss that has been found by duplicate ACKs or SACK: reduces, and repairs the first segment. Where the
    /// controller wants to probe first, this is called again when the probes are answered.
    fn enter_recovery<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W);

    /// Repairs the segment at `una` now, as if enough duplicate ACKs had come; `inflate`: each of which stood for a
    /// segment that has left the network.
    fn repair_first<W: Wire>(&mut self, tcp: &mut Connection, inflate: bool, now: Time, wire: &mut W);

    /// Everything is acknowledged although a recovery was to begin or under way.
    fn leave_recovery(&mut self, tcp: &mut Connection) {
        let _ = tcp;
    }

    /// The retransmission timer has expired.
    fn on_timeout<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W)
    where
        Self: Sized,
    {
        tcp.on_timeout(self, now, wire);
    }

    /// Everything outstanding is to be sent again from `una` on, as far as it is not known to be there.
    fn rewind(&mut self, tcp: &mut Connection, now: Time) {
        let _ = now;
        tcp.next = tcp.una;
    }

    /// Whether duplicate ACKs are counted on across a timeout.
    fn counts_across_timeouts(&self, tcp: &Connection) -> bool {
        let _ = tcp;
        false
    }

    /// Takes down that `[seq, end)` is being sent, new or again.
    #[inline]
    fn on_sent(&mut self, tcp: &Connection, seq: u64, end: u64, now: Time) {
        let _ = (tcp, seq, end, now);
    }

    /// A segment is covered by a cumulative ACK that echoes the timestamp `echo`; `after_timeout`: it was sent before
    /// the last one. Returns whether it counts as newly delivered although it was SACKed before.
    #[inline]
    fn on_covered(&mut self, segment: &Segment, after_timeout: bool, echo: Option<Time>, now: Time) -> bool {
        let _ = (segment, after_timeout, echo, now);
        false
    }

    /// Everything below `ack` was acknowledged while the sender rested (`persist.rs`).
    fn forget_below(&mut self, ack: u64) {
        let _ = ack;
    }

    /// Everything is acknowledged and nothing will be sent again: gives back the room of what it kept of that.
    fn forget(&mut self) {}

    /// Takes down what an ACK says while its sender does not act on it (`probing.rs`).
    fn note(&mut self, tcp: &mut Connection, sack: Option<&SackBlocks>, now: Time) {
        let _ = (tcp, sack, now);
    }

    /// The window has been reduced for a mark.
    fn on_mark(&mut self, tcp: &Connection, now: Time) {
        let _ = (tcp, now);
    }

    /// Segments that a reduction for a loss starts from.
    fn flight_at_loss(&self, tcp: &Connection) -> f64 {
        tcp.sent_flight() - f64::from(tcp.limited)
    }

    /// Whether SACK blocks tell it what the receiver holds.
    #[inline]
    fn reads_sack(&self) -> bool {
        Self::SCOREBOARD
    }

    /// Its scoreboard, if it keeps one.
    #[inline]
    fn board(&self) -> Option<&Scoreboard> {
        None
    }

    /// The minimum RTT of the connection, if the engine measures it.
    fn least_rtt(&self) -> Option<Span> {
        None
    }

    /// Segments believed to be in the network.
    fn pipe(&self, tcp: &Connection) -> u32 {
        match self.board() {
            Some(board) => board.pipe(tcp.segments.len()) as u32,
            None => ((tcp.next - tcp.una) as u32).div_ceil(tcp.mss),
        }
    }

    /// Whether losses found by duplicate ACKs or SACK are being repaired; without a scoreboard the engine says so.
    fn is_in_recovery(&self, tcp: &Connection) -> bool {
        let _ = tcp;
        self.board().is_some_and(|board| board.in_recovery)
    }

    /// Outstanding segments that are known to be there, if the engine keeps a scoreboard.
    fn sacked(&self) -> Option<usize> {
        self.board().map(|board| board.sacked_count)
    }

    /// Whether the blocks tell of data at or above `una` that was not known to be there.
    fn has_news(&self, sack: &SackBlocks, una: u64) -> bool {
        self.board().is_some_and(|board| board.has_news(sack, una))
    }

    /// Forgets what was taken for lost, because nothing was.
    fn forget_losses(&mut self, tcp: &mut Connection, evidence: Evidence) {
        let _ = (tcp, evidence);
    }

    /// Linux: in a recovery an ACK of data up to `ack` answers an original. `waits`: copies are still under way, so
    /// that nothing is undone yet, and nothing more is taken for lost with this ACK (`tcp_try_undo_partial`).
    fn on_late_original(&mut self, tcp: &Connection, ack: u64, waits: bool) {
        let _ = (tcp, ack, waits);
    }

    /// A fast retransmission that was held back is made after all (`timing.rs`).
    fn end_hold<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let _ = (tcp, now, wire);
    }

    /// The number of duplicate ACKs that mean a loss has fallen to those that are here (`timing.rs`).
    fn reconsider<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let _ = (tcp, now, wire);
    }

    /// What others have overtaken is lost by now.
    fn on_reordering_timer<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let _ = (tcp, now, wire);
    }

    /// The tail goes unanswered.
    fn on_tail_probe_timer<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let _ = (tcp, now, wire);
    }
}

/// What shows that a reduction was needless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A timeout came too early.
    Early,
    /// DSACKs for all copies.
    Copies,
    /// An original was answered in a recovery that it does not end (`partial`), or ends.
    Original { partial: bool },
}

/// The engine of one sender.
#[derive(Clone, Debug)]
pub(super) enum Engine {
    DuplicateAcks(DuplicateAcks),
    Sack(Box<Sack>),
    Rack(Box<Rack>),
    Sack1(Box<Sack1>),
    Vegas(Box<FineTimer>),
}

impl Engine {
    /// The engine that a connection is configured with.
    pub(super) fn new(config: &TcpConfig) -> Engine {
        match config.recovery {
            Recovery::Tahoe => Engine::DuplicateAcks(DuplicateAcks::Tahoe),
            Recovery::Reno => Engine::DuplicateAcks(DuplicateAcks::Reno),
            Recovery::NewReno => Engine::DuplicateAcks(DuplicateAcks::NewReno),
            Recovery::Sack => Engine::Sack(Box::default()),
            Recovery::Rack => Engine::Rack(Box::new(Rack::new(config.tlp, config.profile == Profile::Linux))),
            Recovery::Sack1 => Engine::Sack1(Box::default()),
            Recovery::Vegas => {
                let faulty = config.profile == Profile::Ns2 && config.vegas_faults;
                Engine::Vegas(Box::new(FineTimer::new(faulty.then_some(config.receiver_window))))
            }
        }
    }

    /// The other end has no SACK. `linux`: duplicate ACKs stand for SACKed segments.
    pub(super) fn go_without_sack(&mut self, linux: bool) {
        match self {
            Engine::Rack(rack) if linux => rack.count_duplicates(),
            Engine::Sack(_) | Engine::Rack(_) => *self = Engine::DuplicateAcks(DuplicateAcks::NewReno),
            _ => {}
        }
    }

    /// Whether it works by timers of its own.
    pub(super) fn needs_alarms(&self) -> bool {
        matches!(self, Engine::Rack(_))
    }
}

/// Evaluates `$body` with `$engine` bound to the state of the engine at hand, whose type is known there: the one place
/// where engines are told apart.
macro_rules! with_engine {
    ($choice:expr, $engine:ident => $body:expr) => {
        match $choice {
            $crate::transport::tcp::sender::recovery::Engine::DuplicateAcks($engine) => $body,
            $crate::transport::tcp::sender::recovery::Engine::Sack($engine) => {
                let $engine = &mut **$engine;
                $body
            }
            $crate::transport::tcp::sender::recovery::Engine::Rack($engine) => {
                let $engine = &mut **$engine;
                $body
            }
            $crate::transport::tcp::sender::recovery::Engine::Sack1($engine) => {
                let $engine = &mut **$engine;
                $body
            }
            $crate::transport::tcp::sender::recovery::Engine::Vegas($engine) => {
                let $engine = &mut **$engine;
                $body
            }
        }
    };
}
pub(super) use with_engine;
