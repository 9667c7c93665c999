//! Every knob of TCP, and the three profiles that set them: `rfc`, `ns2` and `linux` (decision 0004).
//!
//! One engine reads this record; there are no three engines. `TcpConfig::new` gives the defaults of a profile; the
//! scenario then overrides single fields.

use lasthop_cc::{ControllerConfig, Needs, ParamError};
use lasthop_core::time::Span;
use lasthop_core::units::Rate;

use super::mobility::{FastHandoff, Freeze, Mobility};
use super::window::Scale;
use crate::transport::extra::Offer;
use crate::transport::profile::Profile;

/// Bytes of the IP and TCP headers without options.
pub const BASE_HEADER: u32 = 40;
/// Bytes of the timestamp option, padded (RFC 7323 appendix A).
pub(super) const TIMESTAMP_OPTION: u32 = 12;

/// Begins the name of a transport that sockets of the kernel carry, with a congestion control of its own.
pub const KERNEL: &str = "kernel:";

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Three duplicate ACKs, then slow start from the hole (Jacobson 1988).
    Tahoe,
    /// Fast retransmit and fast recovery that ends with the first new ACK (RFC 2001).
    Reno,
    /// Fast recovery that repairs one hole per RTT (RFC 6582).
    NewReno,
    /// Scoreboard and pipe of RFC 6675.
    Sack,
    /// ns-2's `Sack1`: the pipe counter of Fall & Floyd 1996.
    Sack1,
    /// Vegas's fine-grained timer on top of Reno (Brakmo & Peterson 1995).
    Vegas,
    /// Losses found by time, and tail loss probes (RFC 8985).
    Rack,
}

impl Recovery {
    /// Scenario names, in the order of the variants.
    pub const NAMES: &'static [&'static str] =
        &["tahoe", "reno", "newreno", "sack", "sack1", "vegas", "rack"];

    const ALL: [Recovery; 7] = [
        Recovery::Tahoe,
        Recovery::Reno,
        Recovery::NewReno,
        Recovery::Sack,
        Recovery::Sack1,
        Recovery::Vegas,
        Recovery::Rack,
    ];

    /// The engine of a controller that comes without one.
    pub const USUAL: Recovery = Recovery::NewReno;

    /// The engine called `name`.
    pub fn by_name(name: &str) -> Option<Recovery> {
        Self::ALL.into_iter().find(|recovery| recovery.name() == name)
    }

    /// The scenario name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// One line on what the engine does.
    pub const fn summary(self) -> &'static str {
        match self {
            Recovery::Tahoe => "Three duplicate ACKs, then slow start from the hole (Jacobson 1988)",
            Recovery::Reno => "Fast retransmit and fast recovery until the first new ACK (RFC 2001)",
            Recovery::NewReno => "Fast recovery that repairs one hole per RTT (RFC 6582)",
            Recovery::Sack => "Scoreboard and pipe (RFC 6675)",
            Recovery::Sack1 => "ns-2's SACK: the pipe counter of Fall & Floyd (1996)",
            Recovery::Rack => "Time-based loss detection and tail loss probes (RFC 8985)",
            Recovery::Vegas => "Fine-grained timeouts on top of Reno (Brakmo & Peterson 1995)",
        }
    }

    /// What Linux does in its place.
    const fn on_linux(self) -> Recovery {
        match self {
            Recovery::Sack => Recovery::Rack,
            other => other,
        }
    }

    /// Whether the engine keeps the scoreboard that PRR and DSACK undo need.
    pub const fn has_scoreboard(self) -> bool {
        matches!(self, Recovery::Sack | Recovery::Rack)
    }

    /// Whether the engine needs SACK blocks from the receiver.
    pub fn uses_sack(self) -> bool {
        matches!(self, Recovery::Sack | Recovery::Sack1 | Recovery::Rack)
    }
}

/// How a reduction is spread over the round trip that follows (`recovery/prr.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrrVariant {
    /// It is not: the window falls at once.
    Off,
    /// PRR that rebuilds the flight by at least as much as is delivered, and one more (RFC 6937, PRR-SSRB).
    Ssrb,
    /// PRR that rebuilds the flight by no more than what was delivered (RFC 6937, PRR-CRB).
    Crb,
    /// PRR that is the one or the other by how recovery goes (RFC 9937; Linux).
    SafeAck,
}

impl PrrVariant {
    /// Scenario names, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["off", "ssrb", "crb", "safe-ack"];

    /// The variant called `name`.
    pub fn by_name(name: &str) -> Option<PrrVariant> {
        let all = [PrrVariant::Off, PrrVariant::Ssrb, PrrVariant::Crb, PrrVariant::SafeAck];
        all.into_iter().find(|variant| variant.name() == name)
    }

    /// The scenario name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What a sender does when a reduction turns out to be spurious (`undo.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpuriousResponse {
    /// Window and controller are as before (Linux).
    Restore,
    /// The Eifel response (RFC 4015): a window without a burst, the old threshold, a more careful timer.
    Eifel,
}

impl SpuriousResponse {
    /// Scenario names, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["restore", "eifel"];

    /// The response called `name`.
    pub fn by_name(name: &str) -> Option<SpuriousResponse> {
        let all = [SpuriousResponse::Restore, SpuriousResponse::Eifel];
        all.into_iter().find(|response| response.name() == name)
    }

    /// The scenario name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// How spurious reductions are found and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpuriousConfig {
    /// By the ACKs after a timeout (RFC 5682).
    pub frto: bool,
    /// By timestamps (RFC 3522).
    pub eifel: bool,
    /// By DSACK blocks for all that was sent again (Linux).
    pub dsack_undo: bool,
    /// The answer.
    pub response: SpuriousResponse,
}

/// How the retransmission timeout is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoKind {
    /// RFC 6298.
    Rfc6298,
    /// ns-2's integer ticks.
    Ns2Ticks,
    /// Linux: the floor applies to the variance term.
    Linux,
}

/// Retransmission timer settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// The arithmetic.
    pub kind: RtoKind,
    /// Minimum timeout.
    pub min: Span,
    /// Greatest timeout, after backing off.
    pub max: Span,
    /// Timeout before the first RTT sample.
    pub initial: Span,
    /// Clock granularity: G of RFC 6298, the tick of ns-2 (where it must not be zero).
    pub tick: Span,
    /// Phase of ns-2's tick clock; `None` draws it uniformly in `[0, tick)` from the flow's own stream.
    pub clock_phase: Option<Span>,
}

/// Delayed ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Maximum time for which an ACK is delayed.
    pub timeout: Span,
    /// Every this many full segments are acknowledged at once.
    pub segments: u32,
    /// This many segments at the start of the connection are acknowledged at once (Linux: 16).
    pub quick: u32,
    /// And so are all that come while the receive buffer of Linux would grow; the window follows it (`autotuning.rs`).
    pub autotuning: bool,
    /// No more ACKs than these in the minimum RTT, as far as they may wait (TACK); 0: any number.
    pub per_rtt: u32,
    /// How far out of order a segment calls for an ACK at once (QUIC's ACK frequency): 1: at all, 0: never.
    pub reordering: u32,
}

impl DelayedAck {
    /// Of the profile `rfc`: every second full segment, within 200 ms.
    pub const USUAL: DelayedAck = DelayedAck {
        timeout: Span::from_millis(200),
        segments: 2,
        quick: 0,
        autotuning: false,
        per_rtt: 0,
        reordering: 1,
    };
}

/// Everything about one TCP connection. Windows are in segments, sizes in bytes.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Preset or combination as shown in results, e.g. `vegas` or `cubic/newreno`.
    pub name: String,
    /// Whose habits to follow in what has no knob of its own.
    pub profile: Profile,
    /// Loss recovery engine.
    pub recovery: Recovery,
    /// Congestion controller with its parameters.
    pub controller: ControllerConfig,
    /// Packet size as the scenario gives it: the payload in the `ns2` profile, the whole IP packet otherwise.
    pub packet_size: u32,
    /// Initial congestion window.
    pub initial_window: f64,
    /// Initial slow start threshold; infinite when unknown.
    pub initial_ssthresh: f64,
    /// Receive buffer in full segments: most in flight whatever cwnd says.
    pub receiver_window: u32,
    /// Rate at which the receiving application reads; `None` reads at once.
    pub reader: Option<Rate>,
    /// Retransmission timer.
    pub rto: RtoConfig,
    /// Timestamps option (RFC 7323).
    pub timestamps: bool,
    /// Most SACK blocks in an ACK; the receiver sends none unless the recovery engine uses them.
    pub sack_blocks: u32,
    /// Report duplicate arrivals in a DSACK block (RFC 2883).
    pub dsack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Marks are fed back by their number (RFC 9768), if the other end agrees; with ECN.
    pub accurate_ecn: bool,
    /// The number of marks is accompanied by that of marked bytes, in an option (RFC 9768 section 3.2.3); with
    /// `accurate_ecn`.
    pub ecn_bytes: bool,
    /// What is ECN-capable carries ECT(1) in place of ECT(0) (RFC 9331).
    pub ect1: bool,
    /// Delayed ACKs; `None` acknowledges every segment.
    pub delayed_ack: Option<DelayedAck>,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Start from the initial window after an idle timeout (RFC 5681 section 4.1).
    pub idle_restart: bool,
    /// Duplicate ACKs that mean a loss.
    pub dup_threshold: u32,
    /// Grow the window even when it does not limit the sender (ns-2 does; RFC 7661 forbids).
    pub grow_when_limited_elsewhere: bool,
    /// Profile `ns2`: Vegas's recovery has the faults of ns-2's.
    pub vegas_faults: bool,
    /// Timeouts in a row, without an ACK of anything new between them, after which the sender gives the connection up
    /// (R2 of RFC 9293 section 3.8.3); `None`: never.
    pub give_up: Option<u32>,
    /// What it does about mobility and wireless losses beyond its controller.
    pub mobility: Mobility,
    /// Proportional Rate Reduction.
    pub prr: PrrVariant,
    /// Tail loss probes (RFC 8985).
    pub tlp: bool,
    /// Spurious reductions.
    pub spurious: SpuriousConfig,
}

/// A parameter that a profile sets in controllers.
#[derive(Clone, Copy, Debug)]
struct Habit {
    profile: Profile,
    /// The only controllers that it concerns; none: all that have the parameter.
    controllers: &'static [&'static str],
    param: &'static str,
    value: f64,
}

/// Linux's module, and the one that its authors made of that.
const CUBICS: &[&str] = &["cubic", "satcp"];

/// What the profiles do differently within controllers.
const HABITS: &[Habit] = &[
    Habit::of_all(Profile::Ns2, "round_diff", 1.0),
    // Its CUBIC is the one of Linux 2.6.22, before `HyStart`.
    Habit::of_all(Profile::Ns2, "hystart", 0.0),
    Habit::of_all(Profile::Ns2, "slow_start_limit", 1.0),
    Habit::of_all(Profile::Linux, "byte_counting", 1.0),
    Habit::of_all(Profile::Linux, "slow_start_limit", 1e9),
    Habit::of_all(Profile::Linux, "hystart", 1.0),
    Habit::of_linux(CUBICS, "whole_segments", 1.0),
    // 410/1024 and 717/1024.
    Habit::of_linux(CUBICS, "c", 0.400_390_625),
    Habit::of_linux(CUBICS, "beta", 0.700_195_312_5),
    // The integer filters, at least 50 ms per sample, and the window set when recovery is over.
    Habit::of_linux(&["westwood+"], "filter", 1.0),
    Habit::of_linux(&["westwood+"], "round_floor", 0.05),
    Habit::of_linux(&["westwood+"], "decrease", 1.0),
    Habit::of_linux(&["westwood+"], "forget_rtt", 1.0),
    Habit::of_linux(&["westwood+"], "counting", 1.0),
    // The rules of the kernel's modules, and its Vegas's thresholds.
    Habit::of_linux(&["veno"], "rule", 1.0),
    Habit::of_linux(&["dctcp"], "rule", 1.0),
    Habit::of_linux(&["bbr"], "offload", 0.0),
    Habit::of_linux(&["vegas"], "rule", 1.0),
    Habit::of_linux(&["vegas"], "alpha", 2.0),
    Habit::of_linux(&["vegas"], "beta", 4.0),
];

impl Habit {
    const fn of_all(profile: Profile, param: &'static str, value: f64) -> Habit {
        Habit { profile, controllers: &[], param, value }
    }

    const fn of_linux(controllers: &'static [&'static str], param: &'static str, value: f64) -> Habit {
        Habit { profile: Profile::Linux, controllers, param, value }
    }

    fn concerns(self, controller: &str) -> bool {
        self.controllers.is_empty() || self.controllers.contains(&controller)
    }

    /// Sets the parameter where it belongs. A controller without it keeps its only behaviour, and so does one from
    /// outside that has another use for the name and refuses the value.
    fn adopt(self, controller: &mut ControllerConfig) {
        if !self.concerns(controller.name()) {
            return;
        }
        match controller.set(self.param, self.value) {
            Ok(()) | Err(ParamError::Unknown) => {}
            Err(ParamError::OutOfRange { .. }) => {
                debug_assert!(matches!(controller, ControllerConfig::External(_)), "{self:?}");
            }
        }
    }
}

/// A usual combination by its name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name in `transport = "..."`.
    pub name: &'static str,
    /// Name of its controller.
    pub controller: &'static str,
    /// Its recovery engine.
    pub recovery: Recovery,
    /// Its recovery engine in the `ns2` profile.
    pub ns2_recovery: Recovery,
    /// Its recovery engine in the `linux` profile.
    pub linux_recovery: Recovery,
    /// One line on what it is.
    pub summary: &'static str,
    /// What else it sets.
    pub adjust: fn(&mut TcpConfig),
}

impl Preset {
    const fn new(
        name: &'static str,
        controller: &'static str,
        recovery: Recovery,
        ns2_recovery: Recovery,
        summary: &'static str,
    ) -> Preset {
        Preset {
            name,
            controller,
            recovery,
            ns2_recovery,
            linux_recovery: recovery.on_linux(),
            summary,
            adjust: |_| {},
        }
    }

    /// The controller of this name with one engine in all profiles.
    const fn of(name: &'static str, recovery: Recovery) -> Preset {
        Preset::new(name, name, recovery, recovery, recovery.summary())
    }

    /// Something on top of NewReno.
    const fn of_reno(name: &'static str, summary: &'static str) -> Preset {
        Preset::new(name, "reno", Recovery::NewReno, Recovery::NewReno, summary)
    }

    /// The same with something else set.
    const fn with(self, adjust: fn(&mut TcpConfig)) -> Preset {
        Preset { adjust, ..self }
    }
}

impl TcpConfig {
    /// The presets of `lasthop transports`.
    pub const PRESETS: &'static [Preset] = &[
        Preset::new("tahoe", "reno", Recovery::Tahoe, Recovery::Tahoe, Recovery::Tahoe.summary()),
        Preset::new("reno", "reno", Recovery::Reno, Recovery::Reno, Recovery::Reno.summary()),
        Preset::new("newreno", "reno", Recovery::NewReno, Recovery::NewReno, Recovery::NewReno.summary()),
        Preset::new("sack", "reno", Recovery::Sack, Recovery::Sack1, Recovery::Sack.summary()),
        Preset::new("vegas", "vegas", Recovery::Vegas, Recovery::Vegas, Recovery::Vegas.summary()),
        Preset::new("cubic", "cubic", Recovery::Sack, Recovery::Sack, Recovery::Sack.summary()),
        Preset::of("westwood", Recovery::NewReno),
        Preset::of("westwood+", Recovery::NewReno),
        Preset::of("tibet", Recovery::NewReno),
        Preset::of("veno", Recovery::NewReno),
        Preset::of("venoplus", Recovery::NewReno),
        Preset::of("gaimd", Recovery::NewReno),
        Preset::of("wsc", Recovery::NewReno),
        Preset::new("jtcp", "jtcp", Recovery::NewReno, Recovery::Reno, Recovery::NewReno.summary()),
        Preset::new("xjtcp", "xjtcp", Recovery::NewReno, Recovery::Reno, Recovery::NewReno.summary()),
        Preset::new("tcp-real", "tcp-real", Recovery::NewReno, Recovery::Reno, Recovery::NewReno.summary()),
        Preset::new("probing", "probing", Recovery::NewReno, Recovery::Reno, Recovery::NewReno.summary()),
        Preset::new(
            "e-newreno",
            "reno",
            Recovery::NewReno,
            Recovery::NewReno,
            "NewReno that is marked instead of dropped (RFC 3168)",
        )
        .with(|config| config.ecn = true),
        Preset::new(
            "e-vegas",
            "vegas",
            Recovery::Vegas,
            Recovery::Vegas,
            "Vegas that is marked instead of dropped (RFC 3168)",
        )
        .with(|config| config.ecn = true),
        Preset::of("dctcp", Recovery::Sack).with(|config| config.ecn = true),
        Preset::of("prague", Recovery::Rack).with(|config| (config.ecn, config.ect1) = (true, true)),
        Preset::of("bbr", Recovery::Sack),
        Preset::of("bbr3", Recovery::Rack),
        Preset::of("ledbat++", Recovery::Rack).with(|config| config.initial_window = 2.0),
        Preset::of("lda", Recovery::Sack),
        Preset::of_reno("freeze", "Freeze-TCP: the window is closed before an outage (Goff et al. 2000)")
            .with(|config| config.mobility.freeze = Some(Freeze::default())),
        Preset::of_reno(
            "ebsn",
            "NewReno that restarts its timer at notices of the base station (Bakshi et al. 1997)",
        )
        .with(|config| config.mobility.ebsn = true),
        Preset::of_reno("fast-handoff", "Fast retransmission after a handoff (Caceres & Iftode 1995)")
            .with(|config| config.mobility.fast_handoff = Some(FastHandoff::default())),
        Preset::of_reno("eln", "NewReno with explicit loss notification (Balakrishnan & Katz 1998)")
            .with(|config| config.mobility.eln = Some(1)),
    ];

    /// The preset called `name` with the defaults of `profile`.
    pub fn preset(name: &str, profile: Profile) -> Option<TcpConfig> {
        let preset = Self::PRESETS.iter().find(|preset| preset.name == name)?;
        let recovery = match profile {
            Profile::Rfc => preset.recovery,
            Profile::Ns2 => preset.ns2_recovery,
            Profile::Linux => preset.linux_recovery,
        };
        let controller = ControllerConfig::by_name(preset.controller)?;
        let mut config = TcpConfig { name: name.to_owned(), ..TcpConfig::new(profile, controller, recovery) };
        (preset.adjust)(&mut config);
        Some(config)
    }

    /// What the sender and the receiver must provide for the controller.
    pub fn needs(&self) -> Needs {
        self.controller.needs()
    }

    /// A connection of real packets that sockets of the kernel carry with this congestion control. What is simulated
    /// knows its sizes alone.
    pub fn of_kernel(algorithm: &str) -> Option<TcpConfig> {
        let config = TcpConfig::preset("sack", Profile::Linux)?;
        Some(TcpConfig { name: format!("{KERNEL}{algorithm}"), ..config })
    }

    /// The congestion control with which sockets of the kernel carry it, if they do.
    pub fn kernel(&self) -> Option<&str> {
        self.name.strip_prefix(KERNEL)
    }

    /// Whether the connection is ECN-capable: switched on, or needed by the controller.
    pub fn uses_ecn(&self) -> bool {
        self.ecn || self.needs().exact_marks
    }

    /// Whether marks are also told in bytes, if both ends count them.
    pub fn asks_for_bytes(&self) -> bool {
        self.ecn_bytes && self.asks_for_count()
    }

    /// Whether the SYN asks for the number of marks. The agents of ns-2 have no SYN that asks for anything.
    pub fn asks_for_count(&self) -> bool {
        self.accurate_ecn && self.uses_ecn() && self.profile != Profile::Ns2
    }

    /// The variant of PRR that takes effect: none without a scoreboard, and none under a law that sets the window from
    /// the delivery rate.
    pub fn prr_in_effect(&self) -> PrrVariant {
        if self.recovery.has_scoreboard() && !self.needs().rate { self.prr } else { PrrVariant::Off }
    }

    /// Engines whose reductions can be undone.
    pub fn can_undo(&self) -> bool {
        matches!(self.recovery, Recovery::Reno | Recovery::NewReno | Recovery::Sack | Recovery::Rack)
    }

    /// What of `spurious` takes effect with this engine and these options.
    pub fn spurious_in_effect(&self) -> SpuriousConfig {
        let can = self.can_undo();
        SpuriousConfig {
            frto: self.spurious.frto && can,
            eifel: self.spurious.eifel && can && self.timestamps,
            dsack_undo: self.spurious.dsack_undo && self.dsack && self.recovery.has_scoreboard(),
            response: self.spurious.response,
        }
    }

    /// A controller and a recovery engine with the defaults of `profile`.
    pub fn new(profile: Profile, mut controller: ControllerConfig, recovery: Recovery) -> TcpConfig {
        let name = format!("{}/{}", controller.name(), recovery.name());
        for habit in HABITS.iter().filter(|habit| habit.profile == profile) {
            habit.adopt(&mut controller);
        }
        let base = TcpConfig {
            name,
            profile,
            recovery,
            controller,
            packet_size: 1500,
            initial_window: 10.0,
            initial_ssthresh: f64::INFINITY,
            receiver_window: 4096,
            reader: None,
            rto: RtoConfig {
                kind: RtoKind::Rfc6298,
                min: Span::from_secs(1),
                max: Span::from_secs(60),
                initial: Span::from_secs(1),
                tick: Span::ZERO,
                clock_phase: None,
            },
            timestamps: true,
            sack_blocks: 3,
            dsack: true,
            ecn: false,
            accurate_ecn: false,
            ecn_bytes: false,
            ect1: false,
            delayed_ack: Some(DelayedAck::USUAL),
            limited_transmit: true,
            idle_restart: true,
            dup_threshold: 3,
            grow_when_limited_elsewhere: false,
            vegas_faults: profile == Profile::Ns2,
            give_up: None,
            mobility: Mobility::default(),
            prr: if recovery == Recovery::Rack { PrrVariant::SafeAck } else { PrrVariant::Off },
            tlp: recovery == Recovery::Rack,
            spurious: SpuriousConfig {
                frto: false,
                eifel: false,
                dsack_undo: false,
                response: SpuriousResponse::Eifel,
            },
        };
        match profile {
            Profile::Rfc => base,
            Profile::Ns2 => TcpConfig {
                packet_size: 1000,
                initial_window: 2.0,
                initial_ssthresh: 20.0,
                receiver_window: 20,
                rto: RtoConfig {
                    kind: RtoKind::Ns2Ticks,
                    min: Span::from_millis(200),
                    initial: Span::from_secs(3),
                    tick: Span::from_millis(10),
                    ..base.rto
                },
                timestamps: false,
                dsack: false,
                idle_restart: false,
                delayed_ack: None,
                grow_when_limited_elsewhere: true,
                ..base
            },
            Profile::Linux => TcpConfig {
                rto: RtoConfig {
                    kind: RtoKind::Linux,
                    min: Span::from_millis(200),
                    max: Span::from_secs(120),
                    tick: Span::from_nanos(1000),
                    ..base.rto
                },
                delayed_ack: Some(DelayedAck {
                    timeout: Span::from_millis(40),
                    quick: 16,
                    ..DelayedAck::USUAL
                }),
                prr: if recovery.has_scoreboard() { PrrVariant::SafeAck } else { PrrVariant::Off },
                spurious: SpuriousConfig {
                    frto: true,
                    eifel: true,
                    dsack_undo: true,
                    response: SpuriousResponse::Restore,
                },
                ..base
            },
        }
    }

    /// Bytes of the timestamps option.
    pub(super) fn timestamp_option(&self) -> u32 {
        match (self.timestamps, self.profile) {
            (false, _) => 0,
            (true, Profile::Ns2) => 10,
            (true, _) => TIMESTAMP_OPTION,
        }
    }

    /// Bytes of TCP options in every data segment. The wave header of TCP-Real takes 8 (RFC 6994 experimental option).
    fn data_options(&self) -> u32 {
        self.timestamp_option() + if self.needs().waves { 8 } else { 0 }
    }

    /// Bytes of the options beside timestamps and SACK in every ACK (RFC 6994 experimental options): echoed times 12,
    /// discarded frames 8, wave report 12 (number, rate, segments).
    fn ack_options(&self) -> u32 {
        let needs = self.needs();
        let option = |needed, bytes| if needed { bytes } else { 0 };
        option(needs.receive_times, 12) + option(needs.discards, 8) + option(needs.waves, 12)
    }

    /// Payload bytes of a full segment.
    pub fn mss(&self) -> u32 {
        match self.profile {
            Profile::Ns2 => self.packet_size,
            Profile::Rfc | Profile::Linux => self.packet_size - BASE_HEADER - self.data_options(),
        }
    }

    /// How windows are advertised. ns-2 advertises none; what stands for it is exact.
    pub fn window_scale(&self) -> Scale {
        match self.profile {
            Profile::Ns2 => Scale::Exact,
            Profile::Rfc | Profile::Linux => Scale::of_buffer(self.window_bytes()),
        }
    }

    fn window_bytes(&self) -> u64 {
        u64::from(self.receiver_window) * u64::from(self.mss())
    }

    /// The receive buffer in bytes: as many as `receiver_window` segments and up to the next unit of the window scale,
    /// so that all of it can be advertised; at most what the greatest scale can express, 1 GiB less 16 KiB.
    pub fn receive_buffer(&self) -> u32 {
        self.window_scale().buffer(self.window_bytes())
    }

    /// What an end with this configuration offers in its SYN. ns-2 has no options there; what its agents are
    /// configured to stands for them.
    pub fn offer(&self) -> Offer {
        Offer {
            mss: u16::try_from(self.mss()).unwrap_or(u16::MAX),
            window_scale: match self.window_scale() {
                Scale::Exact => None,
                Scale::Shift(shift) => Some(shift),
            },
            sack: self.recovery.uses_sack(),
            timestamps: self.timestamps,
        }
    }

    /// Bytes added to the payload of a data segment on the wire. ns-2's Vegas forgets them (decision 0008).
    pub fn data_header(&self) -> u32 {
        match (self.profile, self.recovery) {
            (Profile::Ns2, Recovery::Vegas) => 0,
            _ => BASE_HEADER + self.data_options(),
        }
    }

    /// Bytes of a pure ACK without SACK blocks. ns-2 does not count the timestamps that its ACKs carry.
    pub fn ack_size(&self) -> u32 {
        match self.profile {
            Profile::Ns2 => BASE_HEADER + self.ack_options(),
            Profile::Rfc | Profile::Linux => BASE_HEADER + self.timestamp_option() + self.ack_options(),
        }
    }

    /// Bytes that `blocks` SACK blocks add to an ACK: 8 each, and outside ns-2 the option's 2-byte head padded to 4.
    pub fn sack_size(&self, blocks: u32) -> u32 {
        match (blocks, self.profile) {
            (0, _) => 0,
            (_, Profile::Ns2) => 8 * blocks,
            _ => 4 + 8 * blocks,
        }
    }

    /// Bytes of the largest ACK, with this number of SACK blocks.
    pub fn largest_ack(&self, blocks: u32) -> u32 {
        let usual = self.ack_size() + self.sack_size(blocks);
        // Where the option of Accurate ECN has no room beside blocks, it is left out.
        if self.asks_for_bytes() { (usual + 12).min(BASE_HEADER + 40) } else { usual }
    }

    /// Bytes of the SYN: options are counted outside ns-2 (MSS 4, window scale 4, SACK permitted and timestamps 12);
    /// ns-2's Vegas sends a full packet.
    pub fn syn_size(&self) -> u32 {
        match (self.profile, self.recovery) {
            (Profile::Ns2, Recovery::Vegas) => self.packet_size,
            (Profile::Ns2, _) => BASE_HEADER,
            _ => BASE_HEADER + 20,
        }
    }

    /// SACK blocks for which the 40 bytes of options in an ACK have room beside the others. ns-2 has no such limit.
    pub fn sack_room(&self) -> u32 {
        match self.profile {
            Profile::Ns2 => self.sack_blocks,
            _ => 40u32.saturating_sub(self.timestamp_option() + self.ack_options() + 4) / 8,
        }
    }

    /// Bytes of a probe and of its answer: headers, timestamps, and an option of 5 bytes that the header pads to 8.
    pub fn probe_size(&self) -> u32 {
        BASE_HEADER + self.timestamp_option() + 8
    }

    /// The largest packet of the connection on the wire.
    pub fn largest_packet(&self) -> u32 {
        (self.mss() + self.data_header()).max(self.syn_size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A habit that names a parameter which no controller has any more would change nothing, silently.
    #[test]
    fn every_habit_takes_effect() {
        for habit in HABITS {
            let controllers = ControllerConfig::NAMES.iter().filter(|name| habit.concerns(name));
            let configs = controllers.filter_map(|name| ControllerConfig::by_name(name));
            let with: Vec<_> = configs.filter(|config| config.value(habit.param).is_some()).collect();
            assert!(!with.is_empty(), "{habit:?}");
            for config in with {
                let config = TcpConfig::new(habit.profile, config, Recovery::USUAL);
                assert_eq!(config.controller.value(habit.param), Some(habit.value), "{habit:?}");
            }
        }
    }
}
