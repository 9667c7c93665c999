//! The radio of a cell and its MAC: their keys, and what becomes of them.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::device::wlan::dsdv::DsdvPlan;
use lasthop_net::device::wlan::fading::FadingPlan;
use lasthop_net::device::wlan::mode::Band;
use lasthop_net::device::wlan::phy::{PHYS, Phy, Rounding};
use lasthop_net::device::wlan::rate_adaptation::RatePlan;
use lasthop_net::plan::{Discards, Interference, MacPlan, MediumPlan};
use lasthop_net::propagation::{Propagation, ratio, watts};

use super::super::aggregation::{self, MODES};
use super::super::declare::table;
use super::super::diagnostic::{Place, ScenarioError, listed};
use super::super::error::ERROR;
use super::super::keys::{Key, Kind, NONE, PACKET, SOME_TIME, Table};
use super::super::middlebox::A_MIDDLEBOX;
use super::super::outages::HANDOFF;
use super::super::queue::QUEUE;
use super::super::reader::{Checked, Reader};
use super::propagation::{FLAT_FADING, PROPAGATION};
use super::rate_control::RATE_CONTROL;
use super::routing::ROUTING;
use super::{propagation, rate_control, routing};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Power at which ns-2's WaveLAN card reads a frame, in W: 250 m.
const RECEIVE_THRESHOLD: f64 = 3.652e-10;
/// Power at which it senses one, in W: 550 m.
const SENSE_THRESHOLD: f64 = 1.559e-11;
/// Thermal noise of 22 MHz at 290 K in W.
const THERMAL_NOISE: f64 = 1.380_649e-23 * 290.0 * 22e6;

pub(in super::super) static RADIO_TABLE: Table =
    Table { title: "radio", doc: "The radio of a cell.", groups: &[RADIO, MODES], partial: false };

const MICROS: Kind = Kind::Duration { min: Span::from_nanos(1_000), max: Span::from_millis(100) };
const FRAME: Kind = Kind::Size { min: 0, max: 1_000 };
const DECIBELS: Kind = Kind::Measured { min: -300.0, max: 300.0, unit: "dB" };
const POWER: Kind = Kind::Measured { min: -300.0, max: 300.0, unit: "dBm" };
const WINDOW: Kind = Kind::Integer { min: 1, max: 65_535 };
const RETRIES: Kind = Kind::Integer { min: 1, max: 255 };

/// What a radio and its MAC have. Names are those of the standard's MIB where it has one.
pub(super) const RADIO: &[Key] = &[
    Key::new(
        "profile",
        Kind::Choice(|| vec!["std", "ns2", "ns3"]),
        "std as the standard says, ns2 as ns-2.35 does it: other defaults, a backoff before every frame, EIFS as a \
         reservation, pairwise interference. ns3, from 802.11n on: durations and BlockAcks as ns-3.44 has them.",
    )
    .default("\"std\""),
    Key::new("phy", Kind::Choice(|| PHYS.iter().map(|phy| phy.name).collect()), "Generation of the radio.")
        .default("\"802.11b\""),
    Key::new(
        "rate",
        Kind::Rate,
        "Rate of data frames before 802.11n, if rate_control is fixed. Default: the fastest of the PHY; ns2: 1 Mbit/s.",
    ),
    Key::new("rate_control", Kind::Tagged(&RATE_CONTROL), "How stations choose their rates.")
        .default("\"fixed\""),
    Key::new(
        "basic_rates",
        Kind::List(&Kind::Rate),
        "Rates of control responses and broadcasts: the fastest one not above the rate of the data frame. Default: 1 \
         and 2 Mbit/s, or 6, 12 and 24 Mbit/s with OFDM; ns2: 1 Mbit/s.",
    ),
    Key::new("preamble", Kind::Choice(|| vec!["long", "short"]), "Preamble of DSSS and CCK frames above 1 Mbit/s.")
        .default("\"long\""),
    Key::new(
        "protection",
        Kind::Switch,
        "CTS-to-self before frames that older stations cannot decode: with 802.11g before each OFDM frame, at a DSSS \
         or CCK rate and with a slot of 20 us; from 802.11n on before each aggregate without an RTS, at a basic rate. \
         Default: false; from 802.11n on true where the cell has an older station.",
    ),
    Key::new("slot", MICROS, "aSlotTime. Default: that of the PHY."),
    Key::new("sifs", MICROS, "aSIFSTime. Default: that of the PHY."),
    Key::new("cw_min", WINDOW, "aCWmin, in slots. Default: that of the PHY."),
    Key::new("cw_max", WINDOW, "aCWmax, in slots. Default: that of the PHY."),
    Key::new("short_retry_limit", RETRIES, "Maximum number of attempts at an RTS, and at a frame without \
        one.").default("7"),
    Key::new("long_retry_limit", RETRIES, "Maximum number of attempts at a frame that follows an RTS.").default("4"),
    Key::new(
        "rts_threshold",
        Kind::Size { min: 0, max: 10_000_000 },
        "Longer MPDUs, and from 802.11n on longer A-MPDUs, are preceded by an RTS. Default: 2347 B; ns2: 0 B; from \
         802.11n on none is.",
    ),
    Key::new("mac_header", FRAME, "MAC header and check sequence. Default: 28 B; ns2: 34 B; from 802.11n on 30 B."),
    Key::new("llc_header", FRAME, "LLC and SNAP headers. Default: 8 B; ns2: 0 B."),
    Key::new("rts_size", FRAME, "Size of an RTS.").default("\"20 B\""),
    Key::new("cts_size", FRAME, "Size of a CTS.").default("\"14 B\""),
    Key::new("ack_size", FRAME, "Size of an acknowledgement.").default("\"14 B\""),
    Key::new(
        "timeout_slack",
        MICROS,
        "How long a station waits for a response, beyond SIFS and the duration of the response. Default: a slot; ns2: \
         4 us.",
    ),
    Key::new(
        "immediate_access",
        Kind::Switch,
        "A frame that finds the medium idle for DIFS goes out without a backoff. Default: true; ns2: false.",
    ),
    Key::new(
        "processing",
        Kind::Duration { min: Span::ZERO, max: Span::from_secs(1) },
        "Processing time of the link layer before and after the MAC. Default: 0 s; ns2: 25 us.",
    ),
    Key::new("beacon", SOME_TIME, "Interval between two beacons of an access point. Default: no beacons."),
    Key::new("beacon_size", FRAME, "Size of a beacon.").default("\"80 B\""),
    Key::new("queue", Kind::Tagged(&QUEUE), "Room for packets at each station, the one being sent included.")
        .default("{ kind = \"drop-tail\", limit = \"50 packets\" }"),
    Key::new("mtu", Kind::Size { min: 68, max: 2304 }, "Largest IP packet.").default("\"1500 B\""),
    Key::new(
        "error",
        Kind::Tagged(&ERROR),
        "Error model at each receiver, in addition to collisions. It applies to every attempt and every response or, \
         with position after-arq, to packets after the MAC's retries.",
    )
    .default("\"none\""),
    Key::new("handoff", Kind::OrTable(&NONE, &HANDOFF), "Outages of the radio channel.").default("\"none\""),
    Key::new(
        "warning",
        SOME_TIME,
        "Fade warning: 100 times a second each station extrapolates a falling signal of its access point. If it would \
         reach receive_threshold within this time, hosts are warned that the link fades, and notified when it is \
         back. Default: no warning.",
    ),
    Key::new(
        "middleboxes",
        Kind::AnyList(&A_MIDDLEBOX),
        "Middleboxes at the access point before each of its links to a station, in the order in which \
         packets to the station pass them. Default: none.",
    ),
    Key::new(
        "discards",
        Kind::OrTable(&DISCARD_NAMES, &RATE_ESTIMATE),
        "What is reported to senders as discarded frames: failed attempts of their own MAC, frames that it gave up, \
         corrupt frames at the receiving host, or what the access point misses of an announced rate.",
    )
    .default("\"attempts\""),
    Key::new(
        "oracle",
        Kind::Switch,
        "For discards = \"received\": report a corrupt frame only to the receiver it was addressed to, which no real \
         MAC can determine.",
    )
    .default("false"),
    Key::new(
        "routing",
        Kind::Tagged(&ROUTING),
        "Routing over the channel: static along the links, or dsdv by tables built from the broadcasts of stations.",
    )
    .default("\"static\""),
    Key::new("propagation", Kind::Tagged(&PROPAGATION), "How power falls with distance.")
        .default("\"two-ray-ground\""),
    Key::new("fading", Kind::Tagged(&FLAT_FADING), "Small-scale fading: how the gain between two stations varies.")
        .default("\"none\""),
    Key::new("tx_power", POWER, "Transmitted power with the gains of the antennas, in dBm.").default("24.5"),
    Key::new(
        "frequency",
        Kind::Measured { min: 1.0, max: 1e6, unit: "MHz" },
        "Carrier frequency in MHz. Default: 914; from 802.11n on 5180.",
    ),
    Key::new(
        "receive_threshold",
        POWER,
        "Minimum power in dBm at which a frame can be received. Default: -64.37, which is 250 m with the other \
         defaults.",
    ),
    Key::new(
        "sense_threshold",
        POWER,
        "Minimum power in dBm at which the medium is sensed busy. Default: -78.07, which is 550 m.",
    ),
    Key::new("capture", DECIBELS, "Capture threshold: a frame survives interfering frames that are weaker by at least \
                                   this many dB.").default("10"),
    Key::new(
        "preamble_detection",
        DECIBELS,
        "Receivers detect a preamble in the first 4 us of a frame and sense the medium busy from then on. A frame \
         that is not stronger than the interference by this many dB during that time is lost, without EIFS after it. \
         Default: every frame is sensed at once; ns3: 4.",
    ),
    Key::new(
        "message_in_message",
        Kind::Switch,
        "Whether a frame that is stronger by capture replaces the one that is being received.",
    )
    .default("false"),
    Key::new(
        "interference",
        Kind::Choice(|| vec!["summed", "pairwise"]),
        "Whether the powers of several frames add up, or only the strongest counts. Default: summed; ns2: pairwise.",
    ),
    Key::new(
        "noise_figure",
        Kind::Measured { min: 0.0, max: 100.0, unit: "dB" },
        "Noise figure of the receiver in dB, over thermal noise of 22 MHz at 290 K; 7 is usual. Frames then fail by \
         their SINR, and capture and receive_threshold have no effect. Default: none; only the thresholds decide.",
    ),
    Key::new(
        "propagation_delay",
        Kind::Duration { min: Span::from_nanos(1), max: Span::from_nanos(20_000) },
        "Time of flight between any two stations of the channel. Default: that of its longest radio link.",
    ),
];

const DISCARD_NAMES: Kind = Kind::Choice(|| vec!["attempts", "frames", "received"]);

table! {
    /// In every interval the sender receives a count of missing MSDUs: those expected at its announced rate, less those
    /// received.
    static RATE_ESTIMATE = "rate estimate";
    struct Estimate {
        /// Time between two estimates.
        interval: Span = SOME_TIME, default("\"100 ms\"");
        /// The announced rate.
        rate: Rate = Kind::Rate, required();
        /// The announced size of an MSDU.
        size: u32 = PACKET, required();
    }
}

/// The index of a rate of a PHY.
pub(super) fn rate_index(
    table: &Reader<'_>,
    phy: &Phy,
    rate: Rate,
    key: &str,
    place: &Place,
) -> Result<usize> {
    phy.rate_index(rate).ok_or_else(|| {
        let known: Vec<String> = phy.rates.iter().map(|known| known.rate.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = format!("{key}: {} has no rate of {rate}", phy.name);
        table.source.error(place, message, &format!("it has {}", listed(&known)))
    })
}

/// How rates are chosen, and the basic rates. `slowest` is the rate of a profile that has only one.
fn rates(table: &Reader<'_>, phy: &Phy, slowest: Option<usize>) -> Result<(RatePlan, Vec<usize>)> {
    let fixed = match table.rate_if("rate")? {
        Some(rate) => rate_index(table, phy, rate, "rate", table.place_of("rate"))?,
        None => slowest.unwrap_or(phy.rates.len() - 1),
    };
    let (kind, control) = table.tagged("rate_control")?;
    if kind != "fixed" && table.has("rate") {
        let message = format!("a rate is given, and {kind} chooses it");
        return Err(table.error("rate", message, "leave out rate or rate_control"));
    }
    let rate = rate_control::read(kind, &control, fixed)?;
    let mut basic = Vec::new();
    for item in table.list_if("basic_rates")?.unwrap_or_default() {
        let Checked::Rate(rate) = item.value else { continue };
        basic.push(rate_index(table, phy, rate, "basic_rates", item.place)?);
    }
    if basic.is_empty() {
        basic = match slowest {
            Some(slowest) => vec![slowest],
            None => (0..phy.rates.len()).filter(|&index| phy.rates[index].basic).collect(),
        };
    }
    basic.sort_unstable();
    Ok((rate, basic))
}

/// The rules of a cell's MAC.
#[expect(clippy::too_many_lines, reason = "one key after the other")]
pub(super) fn mac(table: &Reader<'_>) -> Result<MacPlan> {
    let ns2 = table.name("profile")? == "ns2";
    let name = table.name("phy")?;
    let phy = Phy::named(name).unwrap_or_else(|| panic!("`{name}` is declared as a PHY"));
    let band = Band::of(frequency(table)?);
    let phy = match (phy.format, band) {
        (Some(_), Band::Two) => phy.at_two_ghz().ok_or_else(|| {
            let message = format!("{name} is not used at 2.4 GHz");
            table.error("frequency", message, "write frequency = 5180, or phy = \"802.11n\" or \"802.11ax\"")
        })?,
        _ => phy,
    };
    check_profile(table, phy)?;
    let aggregation = aggregation::read(table, phy, band)?;
    let modern = aggregation.is_some();
    let protection = table.switch_if("protection")?.unwrap_or(false);
    let has_ofdm = phy.rates.iter().any(|rate| rate.modulation.is_ofdm());
    let has_dsss = phy.rates.iter().any(|rate| !rate.modulation.is_ofdm());
    if protection && !modern && !(has_ofdm && has_dsss) {
        let message = format!("protection on {name}, which has no two kinds of frames");
        return Err(table.error("protection", message, "leave it out, or write phy = \"802.11g\""));
    }
    if table.name("preamble")? == "short" && !phy.short_preamble {
        let message = format!("{name} has no short preamble");
        return Err(table.error("preamble", message, "leave it out"));
    }
    let slowest = if ns2 { phy.rate_index(Rate(1_000_000)) } else { None };
    let (mut rate, basic) = rates(table, phy, slowest)?;
    if let (Some((_, mode)), RatePlan::Fixed(rate)) = (&aggregation, &mut rate) {
        *rate = *mode;
    }
    let slot = match table.span_if("slot")? {
        Some(slot) => slot,
        // Where older stations are about, everybody uses their slot (802.11-2016 section 10.25).
        None if protection && !modern => Span::from_nanos(20_000),
        None => phy.slot,
    };
    let window =
        |key, default| table.integer_if(key).map(|given| given.map_or(default, |value| value as u32));
    let (cw_min, cw_max) = (window("cw_min", phy.cw_min)?, window("cw_max", phy.cw_max)?);
    if cw_min > cw_max {
        let message = format!("cw_min {cw_min} is above cw_max {cw_max}");
        let key = if table.has("cw_min") { "cw_min" } else { "cw_max" };
        return Err(table.error(key, message, "raise cw_max, or lower cw_min"));
    }
    let size = |key, default: u32| table.size_if(key).map(|given| given.map_or(default, |size| size as u32));
    let discards = match table.value("discards")? {
        Checked::Table(estimate) => {
            let Estimate { interval, rate, size } = Estimate::read(&estimate)?;
            Discards::RateEstimate { interval, rate, bytes: size }
        }
        Checked::Name("frames") => Discards::Frames,
        Checked::Name("received") => Discards::Received,
        _ => Discards::Attempts,
    };
    let slack = if ns2 { Span::from_nanos(4_000) } else { slot };
    let processing = if ns2 { Span::from_nanos(25_000) } else { Span::ZERO };
    Ok(MacPlan {
        phy,
        rate,
        basic,
        short_preamble: table.name("preamble")? == "short",
        rounding: if ns2 { Rounding::Exact } else { Rounding::Micros },
        protection,
        slot,
        sifs: table.span_if("sifs")?.unwrap_or(phy.sifs),
        cw_min,
        cw_max,
        short_retry: table.integer("short_retry_limit")? as u32,
        long_retry: table.integer("long_retry_limit")? as u32,
        rts_threshold: size(
            "rts_threshold",
            if ns2 {
                0
            } else if modern {
                u32::MAX
            } else {
                2347
            },
        )?,
        header: size(
            "mac_header",
            if ns2 {
                34
            } else if modern {
                30
            } else {
                28
            },
        )?,
        llc: size("llc_header", if ns2 { 0 } else { 8 })?,
        rts_bytes: table.size("rts_size")? as u32,
        cts_bytes: table.size("cts_size")? as u32,
        ack_bytes: table.size("ack_size")? as u32,
        answer_slack: table.span_if("timeout_slack")?.unwrap_or(slack),
        backoff_extra: u32::from(!ns2),
        immediate_access: table.switch_if("immediate_access")?.unwrap_or(!ns2),
        eifs_as_nav: ns2,
        difs_after_timeout: ns2,
        cts_occupies: ns2,
        processing: table.span_if("processing")?.unwrap_or(processing),
        aggregation: aggregation.map(|(plan, _)| Box::new(plan)),
        warning: table.span_if("warning")?,
        beacon: table.span_if("beacon")?,
        beacon_bytes: table.size("beacon_size")? as u32,
        discards,
    })
}

/// The carrier frequency in MHz.
fn frequency(table: &Reader<'_>) -> Result<f64> {
    let modern = Phy::named(table.name("phy")?).is_some_and(|phy| phy.format.is_some());
    Ok(table.number_if("frequency")?.unwrap_or(if modern { 5180.0 } else { 914.0 }))
}

/// Refuses profiles and ways that a generation does not have.
fn check_profile(table: &Reader<'_>, phy: &Phy) -> Result<()> {
    let (profile, name) = (table.name("profile")?, phy.name);
    let modern = phy.format.is_some();
    if profile == "ns2" && modern {
        let message = format!("ns-2 has no {name}");
        return Err(table.error("profile", message, "leave out profile, or write \"ns3\""));
    }
    if profile == "ns3" && !modern {
        let message = format!("profile ns3 is for 802.11n and later, not {name}");
        return Err(table.error("profile", message, "leave out profile, or write \"ns2\""));
    }
    let (control, _) = table.tagged("rate_control")?;
    if modern && matches!(control, "arf" | "minstrel") {
        let message = format!("{control} chooses among rates, and {name} has modes");
        return Err(table.error(
            "rate_control",
            message,
            "write \"minstrel-ht\" or \"ideal\", or leave it out",
        ));
    }
    if !modern && aggregation::is_adaptive(control) {
        let message = format!("{control} chooses among modes, and {name} has rates");
        return Err(table.error("rate_control", message, "write \"minstrel\" or \"arf\", or leave it out"));
    }
    if control == "ideal" && !table.has("noise_figure") {
        let message = "without noise no signal is better than another".to_owned();
        return Err(table.error("rate_control", message, "add noise_figure = 7"));
    }
    let (routing, _) = table.tagged("routing")?;
    if modern && routing != "static" {
        let message = format!("{routing} broadcasts single frames, and {name} aggregates");
        return Err(table.error("routing", message, "leave it out, or write phy = \"802.11g\""));
    }
    Ok(())
}

/// What a cell says of the air.
pub(super) struct Air {
    routing: Option<DsdvPlan>,
    propagation: Propagation,
    fading: Option<FadingPlan>,
    receive_threshold: f64,
    sense_threshold: f64,
    capture: f64,
    noticed: f64,
    message_in_message: bool,
    interference: Interference,
    noise: Option<f64>,
    pub(super) flight: Option<Span>,
    oracle: bool,
}

impl Air {
    pub(super) fn read(table: &Reader<'_>) -> Result<Air> {
        let profile = table.name("profile")?;
        let ns2 = profile == "ns2";
        let usual = if profile == "ns3" { Some(4.0) } else { None };
        let noticed = table.number_if("preamble_detection")?.or(usual);
        let propagation = Propagation {
            fading: propagation::read(table)?,
            power: watts(table.number("tx_power")?),
            frequency: frequency(table)? * 1e6,
            gain: 1.0,
        };
        let modern = Phy::named(table.name("phy")?).is_some_and(|phy| phy.format.is_some());
        // DSSS has channels of 22 MHz; wider ones than 20 MHz are the business of their modes.
        let thermal = if modern { THERMAL_NOISE * (20.0 / 22.0) } else { THERMAL_NOISE };
        let noise = table.number_if("noise_figure")?.map(|figure| thermal * ratio(figure));
        let sense_threshold = table.number_if("sense_threshold")?.map_or(SENSE_THRESHOLD, watts);
        let usual = if noise.is_some() { sense_threshold } else { RECEIVE_THRESHOLD };
        let receive_threshold = table.number_if("receive_threshold")?.map_or(usual, watts);
        if sense_threshold > receive_threshold {
            let message = "frames can be read that are too weak to be sensed".to_owned();
            let key = if table.has("sense_threshold") { "sense_threshold" } else { "receive_threshold" };
            return Err(table.error(key, message, "lower sense_threshold, or raise receive_threshold"));
        }
        let interference = match (table.name_if("interference")?, ns2) {
            (Some("pairwise"), _) | (None, true) => Interference::Pairwise,
            _ => Interference::Summed,
        };
        Ok(Air {
            routing: routing::read(table)?,
            propagation,
            fading: propagation::flat_fading(table)?,
            receive_threshold,
            sense_threshold,
            capture: ratio(table.number("capture")?),
            noticed: noticed.map_or(0.0, ratio),
            message_in_message: table.switch("message_in_message")?,
            interference,
            noise,
            flight: table.span_if("propagation_delay")?,
            oracle: table.switch("oracle")?,
        })
    }

    /// A channel like this without anybody on it.
    pub(super) fn medium(&self, name: &str) -> MediumPlan {
        MediumPlan {
            name: name.to_owned(),
            macs: Vec::new(),
            stations: Vec::new(),
            links: Vec::new(),
            routing: self.routing,
            propagation: self.propagation,
            fading: self.fading,
            receive_threshold: self.receive_threshold,
            sense_threshold: self.sense_threshold,
            capture: self.capture,
            noticed: self.noticed,
            message_in_message: self.message_in_message,
            interference: self.interference,
            noise: self.noise,
            flight: Span::ZERO,
            oracle: self.oracle,
        }
    }
}
