//! Puts the keys of all layers into the configuration of a connection, and refuses what does not go together.

use lasthop_core::time::Span;
use lasthop_net::plan::{Profile, Recovery, TcpConfig};
use lasthop_net::transport::tcp::config::PrrVariant;

use super::super::diagnostic::{Place, ScenarioError};
use super::super::keys::{Key, Kind};
use super::super::reader::{Checked, Reader, check};
use super::Result;
use super::tables::{SIZE_KEYS, TCP_KEYS};

/// Applies the keys of `layers`, the most specific last, to `config`, and checks what they make together.
pub(super) fn configure(mut config: TcpConfig, layers: &[Reader<'_>], place: &Place) -> Result<TcpConfig> {
    apply(&mut config, SIZE_KEYS, layers)?;
    check_packet_size(&config, layers)?;
    apply(&mut config, TCP_KEYS, layers)?;
    check_windows(&config, layers)?;
    check_timer(&config, layers, place)?;
    if config.recovery.uses_sack() && config.sack_blocks == 0 {
        let message = format!("recovery \"{}\" needs SACK blocks", config.recovery.name());
        return Err(refused(layers, "sack_blocks", place, message, "write sack_blocks = 3"));
    }
    if config.timestamps && config.sack_blocks > 3 {
        let message = "4 SACK blocks leave no room for timestamps in the TCP header".to_owned();
        return Err(refused(
            layers,
            "sack_blocks",
            place,
            message,
            "write sack_blocks = 3, or timestamps = false",
        ));
    }
    if config.recovery.uses_sack() && config.sack_room() == 0 {
        let message = format!(
            "what \"{}\" has echoed leaves no room for SACK in the TCP header",
            config.controller.name()
        );
        let remedy = "write timestamps = false, or recovery = \"newreno\"";
        return Err(refused(layers, "recovery", place, message, remedy));
    }
    if config.needs().timestamp_times && !config.timestamps {
        let message = "echo = \"timestamps\" needs the timestamps option".to_owned();
        return Err(refused(
            layers,
            "timestamps",
            place,
            message,
            "write timestamps = true, or echo = \"precise\"",
        ));
    }
    check_repairs(&config, layers)?;
    Ok(config)
}

/// Refuses windows in bytes that hold no segment: nothing smaller is ever sent.
fn check_windows(config: &TcpConfig, layers: &[Reader<'_>]) -> Result<()> {
    let windows = TCP_KEYS.iter().filter(|key| matches!(key.kind, Kind::Window { .. }));
    for key in windows.map(|key| key.name) {
        // The most specific layer is the one in force.
        let Some(layer) = layers.iter().rev().find(|layer| layer.has(key)) else { continue };
        let mss = u64::from(config.mss());
        if let Some(Checked::Size(bytes)) = layer.given(key)?
            && bytes < mss
        {
            let message = format!("{key} of {bytes} B holds no segment: a segment carries {mss} B");
            return Err(layer.error(key, message, &format!("write at least \"{mss} B\", or \"1 packets\"")));
        }
    }
    Ok(())
}

/// What a flow asks for by itself must be possible. What `[tcp]` asks for holds for the flows that can.
fn check_repairs(config: &TcpConfig, layers: &[Reader<'_>]) -> Result<()> {
    let asked = |layer: &Reader<'_>, key: &str, on: bool| on && layer.has(key);
    let engine = config.recovery.name();
    let spurious = &config.spurious;
    let undone_by = [("frto", spurious.frto), ("eifel", spurious.eifel)];
    for layer in layers {
        if asked(layer, "eifel", spurious.eifel) && !config.timestamps {
            let message = "eifel needs timestamps, which are off".to_owned();
            return Err(layer.error(
                "eifel",
                message,
                "write timestamps = true, or frto = true in place of eifel",
            ));
        }
        if asked(layer, "ect1", config.ect1) && !config.uses_ecn() {
            let message = "ect1 needs ECN, which is off".to_owned();
            return Err(layer.error(
                "ect1",
                message,
                "write ecn = true, or choose a controller that needs it, such as dctcp",
            ));
        }
        let counts = asked(layer, "accurate_ecn", config.accurate_ecn);
        if counts && !config.uses_ecn() {
            let message = "accurate_ecn needs ECN, which is off".to_owned();
            let remedy = "write ecn = true, or choose a controller that needs it, such as dctcp";
            return Err(layer.error("accurate_ecn", message, remedy));
        }
        if asked(layer, "ecn_bytes", config.ecn_bytes) && !config.accurate_ecn {
            let message = "ecn_bytes needs accurate_ecn, which is off".to_owned();
            return Err(layer.error("ecn_bytes", message, "write accurate_ecn = true, or ecn_bytes = false"));
        }
        if counts && config.profile == Profile::Ns2 {
            let message = "accurate_ecn has no effect: the SYN of ns-2 negotiates nothing".to_owned();
            return Err(layer.error("accurate_ecn", message, "write profile = \"rfc\" or \"linux\""));
        }
        if asked(layer, "dsack_undo", spurious.dsack_undo) && !config.dsack {
            let message = "dsack_undo needs DSACK blocks, which are off".to_owned();
            return Err(layer.error("dsack_undo", message, "write dsack = true, or dsack_undo = false"));
        }
    }
    let [_, own] = layers else { return Ok(()) };
    let needs_board =
        [("prr", config.prr != PrrVariant::Off), ("dsack_undo", spurious.dsack_undo)].into_iter();
    for (key, on) in needs_board {
        if asked(own, key, on) && !config.recovery.has_scoreboard() {
            let message = format!("{key} needs a scoreboard, and recovery \"{engine}\" has none");
            return Err(own.error(key, message, "choose recovery = \"sack\" or \"rack\", or leave it out"));
        }
    }
    if asked(own, "prr", config.prr != PrrVariant::Off) && config.needs().rate {
        let message = format!("prr cannot set the window of \"{}\"", config.controller.name());
        return Err(own.error(
            "prr",
            message,
            "leave it out: this controller sets the window from the delivery rate",
        ));
    }
    let faulty = config.profile == Profile::Ns2 && config.recovery == Recovery::Vegas;
    if asked(own, "vegas_faults", config.vegas_faults) && !faulty {
        let message = "only ns-2's Vegas has these faults".to_owned();
        let remedy = "leave it out, or choose transport \"vegas\" in profile = \"ns2\"";
        return Err(own.error("vegas_faults", message, remedy));
    }
    if asked(own, "tlp", config.tlp) && config.recovery != Recovery::Rack {
        let message = format!("tlp is part of recovery \"rack\", not of \"{engine}\"");
        return Err(own.error("tlp", message, "choose recovery = \"rack\", or leave it out"));
    }
    for (key, on) in undone_by {
        if asked(own, key, on) && !config.can_undo() {
            let message = format!("{key} does not work with recovery \"{engine}\"");
            let remedy = "choose recovery = \"reno\", \"newreno\", \"sack\" or \"rack\", or leave it out";
            return Err(own.error(key, message, remedy));
        }
    }
    Ok(())
}

fn apply(config: &mut TcpConfig, keys: &'static [Key], layers: &[Reader<'_>]) -> Result<()> {
    // Key by key, not table by table: a flow's packet size counts for a window in bytes from [tcp].
    for key in keys {
        let Some(tcp) = key.tcp else { continue };
        let mut tables = Vec::new();
        for layer in layers {
            let Some(entry) = layer.entry(key.name) else { continue };
            let checked = check(layer.source, &key.kind, key.name, &entry.node)?;
            (tcp.set)(config, &checked);
            if let Checked::Table(table) = checked {
                tables.push(table);
            }
        }
        for table in key.kind.tables() {
            for group in table.groups {
                apply(config, group, &tables)?;
            }
        }
    }
    Ok(())
}

fn check_packet_size(config: &TcpConfig, layers: &[Reader<'_>]) -> Result<()> {
    if config.profile == Profile::Ns2 || config.packet_size > config.data_header() {
        return Ok(());
    }
    let headers = config.data_header();
    let message =
        format!("a packet of {} B has no room for data: its headers take {headers} B", config.packet_size);
    let remedy = format!("raise packet_size above {headers} B");
    let place = layers.iter().rev().find(|layer| layer.has("packet_size")).or(layers.last());
    match place {
        Some(layer) => Err(layer.error("packet_size", message, &remedy)),
        None => Ok(()),
    }
}

fn check_timer(config: &TcpConfig, layers: &[Reader<'_>], place: &Place) -> Result<()> {
    let rto = &config.rto;
    if rto.min > rto.max {
        let message = format!("the minimum timeout, {}, exceeds the maximum, {}", rto.min, rto.max);
        return Err(refused(layers, "rto", place, message, "lower rto.min or raise rto.max"));
    }
    if config.profile != Profile::Ns2 {
        return Ok(());
    }
    if rto.tick == Span::ZERO {
        let message = "the ns2 profile counts in ticks, and the tick is zero".to_owned();
        return Err(refused(layers, "rto", place, message, "write tick = \"10 ms\""));
    }
    match rto.clock_phase {
        Some(phase) if phase >= rto.tick => {
            let message = format!("clock_phase, {phase}, is not shorter than the tick, {}", rto.tick);
            Err(refused(layers, "rto", place, message, &format!("write less than {}", rto.tick)))
        }
        _ => Ok(()),
    }
}

/// An error at `key` of the most specific table that has it, else at `place`.
fn refused(layers: &[Reader<'_>], key: &str, place: &Place, message: String, remedy: &str) -> ScenarioError {
    match layers.iter().rev().find(|layer| layer.has(key)) {
        Some(layer) => layer.error(key, message, remedy),
        None => layers[0].source.error(place, message, remedy),
    }
}
