//! What a cell of 802.11n, ac or ax has beyond those before it: modes, aggregates and BlockAcks.
//!
//! `cell/` calls it for every cell. The keys are here because no other generation has any of them.

use lasthop_core::time::Span;
use lasthop_net::device::wlan::edca::{AccessPlan, Marks};
use lasthop_net::device::wlan::mode::{Band, Coding, Durations, Format, Habits, LONGEST_PPDU, Mode};
use lasthop_net::device::wlan::phy::Phy;
use lasthop_net::plan::{
    AggregationPlan, AirtimeLimits, CoDel, Discipline, DriverPlan, FqCoDel, QueueLimit, QueuePlan, Queues,
    Turns,
};

use super::diagnostic::ScenarioError;
use super::keys::{Key, Kind, Table};
use super::reader::{Checked, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

const OCTETS: Kind = Kind::Size { min: 1, max: 6_500_631 };
const PPDU: Kind = Kind::Duration { min: Span::from_nanos(100_000), max: LONGEST_PPDU };
const SPACING: Kind = Kind::Duration { min: Span::ZERO, max: Span::from_nanos(16_000) };
const TIMEOUT: Kind = Kind::Duration { min: Span::ZERO, max: Span::from_secs(10) };

/// Keys of a cell of 802.11n or later.
pub(super) const MODES: &[Key] = &[
    Key::new(
        "mcs",
        Kind::Integer { min: 0, max: 11 },
        "From 802.11n on: modulation and coding of data, for each stream. Default: the highest that there is with the \
         other keys.",
    ),
    Key::new(
        "streams",
        Kind::Integer { min: 1, max: 4 },
        "From 802.11n on: spatial streams of data. Default: 1.",
    ),
    Key::new(
        "width",
        Kind::Integer { min: 20, max: 160 },
        "From 802.11n on: width of the channel in MHz: 20, 40, 80 or 160. Default: 20 for 802.11n and at 2.4 GHz, else \
         80.",
    ),
    Key::new(
        "guard_interval",
        Kind::Duration { min: Span::from_nanos(400), max: Span::from_nanos(3_200) },
        "From 802.11n on: 0.4 or 0.8 us; with 802.11ax 0.8, 1.6 or 3.2 us. Default: 0.8 us.",
    ),
    Key::new(
        "coding",
        Kind::Choice(|| vec!["bcc", "ldpc"]),
        "From 802.11n on: convolutional code or LDPC. Default: bcc; with 802.11ax ldpc from 40 MHz and MCS 10 on.",
    ),
    Key::new(
        "he_ltf",
        Kind::Integer { min: 1, max: 4 },
        "With 802.11ax: length of the training symbols in units of 3.2 us: 1, 2 or 4. Default: 2, and 4 with a guard \
         interval of 3.2 us.",
    ),
    Key::new(
        "packet_padding",
        Kind::Integer { min: 0, max: 16 },
        "With 802.11ax: nominal packet padding after data that receivers require, in us: 0, 8 or 16. Default: 0.",
    ),
    Key::new("aggregation", Kind::Table(&AGGREGATION), "From 802.11n on: how frames are aggregated."),
    Key::new(
        "queues",
        Kind::Choice(|| vec!["driver", "fair", "airtime"]),
        "From 802.11n on, where packets wait. driver: in one queue for all receivers, from which the driver sorts \
         some. fair: in a queue for each receiver and category, FQ-CoDel with a target of 20 ms, as in mac80211. \
         airtime: the same, but receivers share airtime instead of the number of aggregates. Default: driver.",
    ),
    Key::new(
        "edca",
        Kind::OrTable(&EDCA_NAMES, &EDCA),
        "From 802.11n on: parameters of the access categories. default: AIFSN 7, 3, 2, 2, \
        windows \
         15-1023, 15-1023, 7-15, 3-7, opportunities of 0, 0, 3.008 and 1.504 ms for background, best effort, video and \
         voice (802.11-2012); 2020: opportunities of 2.528, 2.528, 4.096 and 2.08 ms. Default: default; profile ns3: \
         0, \
         0, 4.096 and 2.08 ms.",
    ),
    Key::new(
        "dscp_map",
        Kind::Choice(|| vec!["linux", "rfc8325", "top-bits"]),
        "From 802.11n on: mapping from DSCP to user priority. linux: RFC 8325, and the three highest bits for code \
         points that it does not mention. Default: linux.",
    ),
];

const EDCA_NAMES: Kind = Kind::Choice(|| vec!["default", "2020"]);

static LIMITS: Table = Table {
    title: "airtime limits",
    doc: "Airtime queue limits (AQL). A station may get another packet into the driver while its packets there take \
          less than low, or less than high as long as the packets of all stations take less than total. The packet \
          that crosses a limit is still accepted.",
    groups: &[&[
        Key::new("low", TIMEOUT, "Limit of one station and category in all cases.").default("\"5 ms\""),
        Key::new("high", TIMEOUT, "Limit of one station and category while the total is not reached.")
            .default("\"12 ms\""),
        Key::new("total", TIMEOUT, "Limit of all stations and categories together.").default("\"24 ms\""),
    ]],
    partial: false,
};

static EDCA: Table = Table {
    title: "edca",
    doc: "EDCA parameters by access category. A category that is left out has its defaults.",
    groups: &[&[
        Key::new("background", Kind::Table(&ACCESS), "Of background."),
        Key::new("best_effort", Kind::Table(&ACCESS), "Of best effort."),
        Key::new("video", Kind::Table(&ACCESS), "Of video."),
        Key::new("voice", Kind::Table(&ACCESS), "Of voice."),
    ]],
    partial: false,
};

const WINDOW: Kind = Kind::Integer { min: 0, max: 32_767 };

static ACCESS: Table = Table {
    title: "access category",
    doc: "EDCA parameters of one access category. A key that is left out has the default of the category.",
    groups: &[&[
        Key::new(
            "aifsn",
            Kind::Integer { min: 1, max: 15 },
            "Number of slots after SIFS for which the medium must be idle.",
        ),
        Key::new("cw_min", WINDOW, "Minimum contention window in slots."),
        Key::new("cw_max", WINDOW, "Maximum contention window in slots."),
        Key::new(
            "txop",
            Kind::Duration { min: Span::ZERO, max: Span::from_nanos(8_160_000) },
            "Longest transmission opportunity; 0 s: a single exchange.",
        ),
    ]],
    partial: false,
};

static AGGREGATION: Table = Table {
    title: "aggregation",
    doc: "A-MPDUs, A-MSDUs and BlockAcks, from 802.11n on. An aggregate holds packets queued for one station, as many \
          as all limits allow.",
    groups: &[&[
        Key::new(
            "ampdu",
            OCTETS,
            "Maximum size of an A-MPDU in octets. Default: 65535 B; profile ns3 the same.",
        ),
        Key::new("ppdu", PPDU, "Longest PPDU.").default("\"5.484 ms\""),
        Key::new("mpdus", Kind::Integer { min: 1, max: 256 }, "Maximum number of MPDUs in an A-MPDU. Default: the \
            window."),
        Key::new("spacing", SPACING, "Minimum time from the start of one MPDU of an A-MPDU to that of the next.")
            .default("\"0 us\""),
        Key::new(
            "amsdu",
            Kind::Size { min: 0, max: 11_454 },
            "Maximum size of an A-MSDU: several packets in one MPDU, which are lost together; 0 B: each packet has \
             an MPDU of its own.",
        )
        .default("\"0 B\""),
        Key::new(
            "window",
            Kind::Integer { min: 1, max: 256 },
            "Size of the BlockAck window in MPDUs. Default: 64; with 802.11ax 256.",
        ),
        Key::new(
            "tries",
            Kind::Integer { min: 1, max: 255 },
            "Maximum number of transmissions of an MPDU. Default: 7; with minstrel-ht 30; profile ns3: no limit.",
        ),
        Key::new(
            "after_lost_block_ack",
            Kind::Choice(|| vec!["retry", "request"]),
            "Reaction to a missing BlockAck: retransmit all MPDUs, or send a BlockAckReq first. Default: retry; \
             profile ns3: request.",
        ),
        Key::new(
            "cf_end",
            Kind::Switch,
            "Reserve the medium up to the limit of each TXOP, and release the rest by a CF-End if that fits. Default: \
             false; profile ns3: true.",
        ),
        Key::new(
            "reorder_timeout",
            TIMEOUT,
            "How long a received packet waits for missing earlier ones before it is delivered; 0 s: without limit. \
             Default: 100 ms; profile ns3: 0 s.",
        ),
        Key::new(
            "driver",
            Kind::Integer { min: 1, max: 100_000 },
            "Maximum number of packets of each category that the driver holds before they can be sent. Default: with \
             queues = driver twice the window; otherwise packets leave their queue only when they are sent.",
        ),
        Key::new(
            "airtime_limits",
            Kind::OrTable(&Kind::Switch, &LIMITS),
            "Bound the estimated airtime of packets in the driver (AQL), as mac80211 does. With queues = fair or \
             airtime, and driver. Default: true.",
        ),
    ]],
    partial: false,
};

/// The modes of a cell, the index of the one that is used, and how they are aggregated. Nothing for generations that
/// send one frame after the other, which have none of these keys.
pub(super) fn read(table: &Reader<'_>, phy: &Phy, band: Band) -> Result<Option<(AggregationPlan, usize)>> {
    let Some(format) = phy.format else {
        let Some(key) = MODES.iter().find(|key| table.has(key.name)) else { return Ok(None) };
        let message = format!("{} has no key {}", phy.name, key.name);
        return Err(table.error(
            key.name,
            message,
            "leave it out, or write phy = \"802.11n\", \"802.11ac\" or \"802.11ax\"",
        ));
    };
    if let Some(key) = ["rate", "timeout_slack"].into_iter().find(|key| table.has(key)) {
        let message = format!("{} has no key {key}", phy.name);
        let remedy =
            if key == "rate" { "write mcs, streams, width and guard_interval" } else { "leave it out" };
        return Err(table.error(key, message, remedy));
    }
    let (mut modes, index) = modes(table, format, band)?;
    let ns3 = table.name("profile")? == "ns3";
    let durations = if ns3 { Durations::Ns3 } else { Durations::Standard };
    let coding = table.name_if("coding")?.map(|name| if name == "bcc" { Coding::Bcc } else { Coding::Ldpc });
    let used = modes[index];
    if coding == Some(Coding::Bcc) && format == Format::He && (used.width() > 20 || used.mcs() > 9) {
        let message = "802.11ax has convolutional code up to 20 MHz and MCS 9 only".to_owned();
        return Err(table.error("coding", message, "leave it out"));
    }
    let he_ltf = one_of(table, "he_ltf", &[1, 2, 4])?;
    if he_ltf.is_some_and(|ltf| !he_ltf_exists(ltf, used.guard())) {
        let message = "no such training symbols with this guard interval".to_owned();
        return Err(table.error(
            "he_ltf",
            message,
            "1 goes with 0.8 us, 2 with 0.8 and 1.6 us, 4 with 0.8 and 3.2 us",
        ));
    }
    modes.retain(|mode| he_ltf.is_none_or(|ltf| he_ltf_exists(ltf, mode.guard())));
    let padding = one_of(table, "packet_padding", &[0, 8, 16])?;
    for key in ["he_ltf", "packet_padding"] {
        if table.has(key) && format != Format::He {
            let message = format!("{} has no key {key}", phy.name);
            return Err(table.error(key, message, "leave it out, or write phy = \"802.11ax\""));
        }
    }
    let habits = Habits {
        durations,
        coding,
        he_ltf: he_ltf.map(|ltf| ltf as u8),
        padding: padding.unwrap_or(0) as u8,
        band,
    };
    let index = modes.iter().position(|&mode| mode == used).unwrap_or(0);
    let plan = aggregation(table, (format, habits, ns3), modes)?;
    Ok(Some((plan, index)))
}

/// Whether HE-LTFs of this many times 3.2 us go with a guard interval of this many ns.
fn he_ltf_exists(ltf: u64, guard: u16) -> bool {
    matches!((ltf, guard), (1 | 4, 800) | (2, 800 | 1600) | (4, 3200))
}

/// A key that may have one of a few numbers.
fn one_of(table: &Reader<'_>, key: &str, known: &[u64]) -> Result<Option<u64>> {
    let Some(value) = table.integer_if(key)? else { return Ok(None) };
    if known.contains(&value) {
        return Ok(Some(value));
    }
    let names: Vec<String> = known.iter().map(u64::to_string).collect();
    let message = format!("{key} is {value}");
    Err(table.error(key, message, &format!("write one of {}", names.join(", "))))
}

/// Whether stations of a cell choose their modes themselves.
pub(super) fn is_adaptive(control: &str) -> bool {
    matches!(control, "minstrel-ht" | "ideal")
}

/// All modes with the cell's width, guard interval and streams, and the index of the one that is used. Where stations
/// choose, all that are narrower, have longer guard intervals or fewer streams come before them, sorted in this order.
fn modes(table: &Reader<'_>, format: Format, band: Band) -> Result<(Vec<Mode>, usize)> {
    let name = format.name();
    let wide = format != Format::Ht && band != Band::Two;
    let width = one_of(table, "width", &[20, 40, 80, 160])?.unwrap_or(if wide { 80 } else { 20 }) as u16;
    if band == Band::Two && width > 40 {
        let message = format!("{name} has no channels of {width} MHz at 2.4 GHz");
        return Err(table.error("width", message, "write width = 20 or 40, or frequency = 5180"));
    }
    let guard = table.span_if("guard_interval")?.map_or(800, |guard| guard.0.min(u64::from(u16::MAX)) as u16);
    let streams = table.integer_if("streams")?.unwrap_or(1) as u8;
    let mcs = table.integer_if("mcs")?.map(|mcs| mcs as u8);
    let (control, _) = table.tagged("rate_control")?;
    if mcs.is_some() && is_adaptive(control) {
        let message = format!("an mcs is given, and {control} chooses it");
        let remedy = "leave out mcs or rate_control, or write mcs at single stations";
        return Err(table.error("mcs", message, remedy));
    }
    let of = |mcs| Mode::new(format, (width, guard), (streams, mcs));
    if let Some(mcs) = mcs
        && let Err(why) = of(mcs)
    {
        return Err(table.error(
            "mcs",
            why,
            "choose another mcs, width, guard_interval or number of streams",
        ));
    }
    let modes: Vec<Mode> = (0..=format.highest_mcs()).filter_map(|mcs| of(mcs).ok()).collect();
    let Some(last) = modes.last() else {
        let why = of(0).err().unwrap_or_default();
        let key = ["guard_interval", "width", "streams"].into_iter().find(|key| why.contains(word_of(key)));
        return Err(table.error(key.unwrap_or("phy"), why, "choose one that it has"));
    };
    let used = mcs.unwrap_or(last.mcs());
    if !is_adaptive(control) {
        let index = modes.iter().position(|mode| mode.mcs() == used).unwrap_or(0);
        return Ok((modes, index));
    }
    let all = up_to(format, (width, guard), streams);
    let index = all.len() - 1;
    Ok((all, index))
}

/// Keys of a station that is not like its cell.
pub(super) const STATION: &[Key] = &[
    Key::new(
        "phy",
        Kind::Choice(|| vec!["802.11a", "802.11g", "802.11n", "802.11ac", "802.11ax"]),
        "From 802.11n on: generation of data to and from it, no newer than the cell's; 802.11a, or 802.11g at 2.4 GHz, \
         has a rate and no aggregates. Default: that of the cell.",
    ),
    Key::new(
        "mcs",
        Kind::Integer { min: 0, max: 11 },
        "From 802.11n on: MCS of data to and from it, regardless of rate_control. Default: as in the cell, and the \
         highest there is if another key of it differs.",
    ),
    Key::new(
        "streams",
        Kind::Integer { min: 1, max: 4 },
        "From 802.11n on: its spatial streams. Default: those of the cell.",
    ),
    Key::new(
        "width",
        Kind::Integer { min: 20, max: 160 },
        "From 802.11n on: its width in MHz, no more than the cell's. Default: that of the cell, or its maximum.",
    ),
    Key::new(
        "guard_interval",
        Kind::Duration { min: Span::from_nanos(400), max: Span::from_nanos(3_200) },
        "From 802.11n on: its guard interval. Default: that of the cell, and 0.8 us for another generation.",
    ),
];

/// The modes of a station that is not like its cell, as the first and the number of the plan's; adds them to the plan
/// where they are missing.
pub(super) fn own_modes(
    station: &Reader<'_>,
    plan: Option<&mut AggregationPlan>,
    (phy, control): (&Phy, &str),
) -> Result<Option<(usize, usize)>> {
    let Some(key) = STATION.iter().map(|key| key.name).find(|key| station.has(key)) else { return Ok(None) };
    let Some(plan) = plan else {
        let message = format!("{} has no key {key}", phy.name);
        return Err(station.error(key, message, "leave it out, or write phy = \"802.11n\" in the cell"));
    };
    let cell = plan.modes[plan.common - 1];
    if let Some(older @ ("802.11a" | "802.11g")) = station.name_if("phy")? {
        return older_mode(station, plan, older).map(Some);
    }
    let format = match station.name_if("phy")? {
        Some("802.11n") => Format::Ht,
        Some("802.11ac") => Format::Vht,
        Some(_) => Format::He,
        None => cell.format(),
    };
    if format > cell.format() || format == Format::Vht && plan.habits.band == Band::Two {
        let message = format!("{} in a cell of {} at {}", format.name(), phy.name, plan.habits.band.name());
        return Err(station.error("phy", message, "choose another phy, or change that of the cell"));
    }
    let width = one_of(station, "width", &[20, 40, 80, 160])?;
    if let Some(width) = width.filter(|&width| width > u64::from(cell.width())) {
        let message = format!("{width} MHz in a cell of {} MHz", cell.width());
        return Err(station.error("width", message, "widen the cell, or leave it out"));
    }
    let width = width.map_or(cell.width().min(format.widest()), |width| width as u16);
    let usual = if format == cell.format() { cell.guard() } else { 800 };
    let guard = station.span_if("guard_interval")?.map_or(usual, |guard| guard.0.min(3_200) as u16);
    let streams = station.integer_if("streams")?.map_or(cell.streams(), |streams| streams as u8);
    let mcs = station.integer_if("mcs")?.map(|mcs| mcs as u8);
    let of = |mcs| Mode::new(format, (width, guard), (streams, mcs));
    let chosen = mcs.unwrap_or(format.highest_mcs());
    let usual = (0..=chosen).rev().map(of).find_map(std::result::Result::ok);
    let single = match (mcs, usual) {
        (Some(mcs), _) => of(mcs),
        (None, Some(mode)) => Ok(mode),
        (None, None) => of(0),
    };
    let single = single.map_err(|why| station.error(key, why, "choose a mode that there is"))?;
    let own = if mcs.is_some() || !is_adaptive(control) {
        vec![single]
    } else {
        up_to(format, (width, guard), streams)
    };
    Ok(Some(place_of(&own, plan)))
}

/// The place of modes in a plan, as the first and the number; adds them where they are missing.
fn place_of(own: &[Mode], plan: &mut AggregationPlan) -> (usize, usize) {
    let found = plan.modes.windows(own.len()).position(|known| known == own);
    let start = found.unwrap_or(plan.modes.len());
    if found.is_none() {
        plan.modes.extend(own);
    }
    (start, own.len())
}

/// The mode of a station that is older than 802.11n.
fn older_mode(station: &Reader<'_>, plan: &mut AggregationPlan, name: &str) -> Result<(usize, usize)> {
    let band = plan.habits.band;
    let right = if band == Band::Two { "802.11g" } else { "802.11a" };
    if name != right || band == Band::Six {
        let message = format!("{name} at {}", band.name());
        let remedy = if band == Band::Six { "leave it out" } else { &format!("write phy = \"{right}\"") };
        return Err(station.error("phy", message, remedy));
    }
    if let Some(key) = ["mcs", "streams", "width", "guard_interval"].into_iter().find(|key| station.has(key))
    {
        let message = format!("{name} has no key {key}");
        return Err(station.error(key, message, "leave it out, or write rate = \"24 Mbit/s\""));
    }
    let rates = (0..=Format::Legacy.highest_mcs())
        .filter_map(|rate| Mode::new(Format::Legacy, (20, 800), (1, rate)).ok());
    let rates: Vec<Mode> = rates.collect();
    let asked = station.rate_if("rate")?;
    let mode = match asked {
        Some(asked) => rates.iter().find(|mode| mode.rate() == asked),
        None => rates.last(),
    };
    let Some(&mode) = mode else {
        let message = format!("{name} has no such rate");
        return Err(station.error("rate", message, "write 6, 9, 12, 18, 24, 36, 48 or 54 Mbit/s"));
    };
    Ok(place_of(&[mode], plan))
}

/// All modes with at most this width, at least this guard interval and at most that many streams, in this order.
fn up_to(format: Format, (width, guard): (u16, u16), streams: u8) -> Vec<Mode> {
    let mut all = Vec::new();
    for width in [20, 40, 80, 160].into_iter().filter(|&narrower| narrower <= width) {
        for &guard in format.guards().iter().rev().filter(|&&longer| longer >= guard) {
            for streams in 1..=streams {
                let of = |mcs| Mode::new(format, (width, guard), (streams, mcs)).ok();
                all.extend((0..=format.highest_mcs()).filter_map(of));
            }
        }
    }
    all
}

/// By which word a message speaks of a key.
fn word_of(key: &str) -> &str {
    match key {
        "guard_interval" => "guard interval",
        "width" => "MHz",
        key => key,
    }
}

/// The table `aggregation`, or what stands for it.
fn aggregation(
    table: &Reader<'_>,
    (format, habits, ns3): (Format, Habits, bool),
    modes: Vec<Mode>,
) -> Result<AggregationPlan> {
    let given = table.sub_if("aggregation")?;
    let integer = |key: &str| given.map_or(Ok(None), |table| table.integer_if(key));
    let span = |key: &str| given.map_or(Ok(None), |table| table.span_if(key));
    let size = |key: &str| given.map_or(Ok(None), |table| table.size_if(key));
    let widest = if format == Format::He { 256 } else { 64 };
    let window = integer("window")?.unwrap_or(widest);
    if let Some(table) = given.filter(|_| window > widest) {
        let message = format!("a window of {window}, and BlockAcks of {} have {widest} bits", format.name());
        return Err(table.error("window", message, &format!("write at most {widest}")));
    }
    let octets = size("ampdu")?.unwrap_or(65_535);
    if let Some(table) = given.filter(|_| octets > u64::from(format.largest_psdu())) {
        let message = format!("A-MPDUs of {octets} B, and {} has {} B", format.name(), format.largest_psdu());
        return Err(table.error("ampdu", message, "write no more than that"));
    }
    let amsdu = size("amsdu")?.unwrap_or(0);
    // Below 4096 octets because the delimiter of 802.11n counts so far (802.11-2016 table 9-19).
    let most = if format == Format::Ht { 4095 } else { 11_454 };
    if let Some(table) = given.filter(|_| amsdu > most) {
        let message = format!("MPDUs of {amsdu} B, and {} has {most} B", format.name());
        return Err(table.error("amsdu", message, "write no more than that"));
    }
    let asks = given.map_or(Ok(None), |table| table.name_if("after_lost_block_ack"))?;
    let usual = if ns3 { Span::ZERO } else { Span::from_millis(100) };
    let timeout = span("reorder_timeout")?.unwrap_or(usual);
    // Drivers of Linux leave room for the whole chain of retransmissions.
    let usual_tries = match table.tagged("rate_control")?.0 {
        _ if ns3 => u32::MAX,
        "minstrel-ht" => 30,
        _ => 7,
    };
    Ok(AggregationPlan {
        common: modes.len(),
        modes,
        habits,
        octets: octets as u32,
        longest: span("ppdu")?.unwrap_or(LONGEST_PPDU),
        mpdus: integer("mpdus")?.unwrap_or(window) as usize,
        spacing: span("spacing")?.unwrap_or(Span::ZERO),
        amsdu: amsdu as u32,
        window: window as u16,
        tries: integer("tries")?.map_or(usual_tries, |tries| tries as u32),
        request: asks.map_or(ns3, |name| name == "request"),
        ends: given.map_or(Ok(None), |table| table.switch_if("cf_end"))?.unwrap_or(ns3),
        reorder: (timeout > Span::ZERO).then_some(timeout),
        queues: queues(table, given, window)?,
        marks: match table.name_if("dscp_map")? {
            Some("rfc8325") => Marks::Rfc8325,
            Some("top-bits") => Marks::TopBits,
            _ => Marks::Linux,
        },
        access: access(table, ns3)?,
    })
}

/// Where packets wait.
fn queues(table: &Reader<'_>, aggregation: Option<Reader<'_>>, window: u64) -> Result<Queues> {
    let kind = table.name_if("queues")?.unwrap_or("driver");
    let room = aggregation.map_or(Ok(None), |given| given.integer_if("driver"))?.map(|room| room as usize);
    if let Some(given) = aggregation.filter(|given| given.has("airtime_limits"))
        && (kind == "driver" || room.is_none())
    {
        let (message, remedy) = if kind == "driver" {
            let message = "queues = \"driver\" has one queue for all stations, and no limits of each";
            (message, "leave it out, or write queues = \"airtime\" in the cell")
        } else {
            let message = "packets leave their queue when they are sent: there is nothing to limit";
            (message, "leave it out, or write driver = 1000")
        };
        return Err(given.error("airtime_limits", message.to_owned(), remedy));
    }
    if kind == "driver" {
        return Ok(Queues::Driver(room.unwrap_or(2 * window as usize)));
    }
    if table.has("queue") {
        let message = format!("a queue is given, and queues = \"{kind}\" makes one for each station");
        return Err(table.error("queue", message, "leave out queue, or write queues = \"driver\""));
    }
    // The weight of a station in mac80211.
    let weight = (kind == "airtime").then_some(Span::from_nanos(256_000));
    let limits = aggregation.map_or(Ok(Some(AirtimeLimits::LINUX)), limits)?;
    Ok(Queues::Fair { weight, driver: room.map(|room| DriverPlan { room, limits }) })
}

/// What bounds the air of packets in the driver.
fn limits(aggregation: Reader<'_>) -> Result<Option<AirtimeLimits>> {
    let limits = match aggregation.given("airtime_limits")? {
        Some(Checked::Switch(false)) => return Ok(None),
        Some(Checked::Table(limits)) => limits,
        _ => return Ok(Some(AirtimeLimits::LINUX)),
    };
    let (low, high) = (limits.span("low")?, limits.span("high")?);
    if low > high {
        let message = format!("low = {low} is above high = {high}");
        let key = if limits.has("low") { "low" } else { "high" };
        return Err(limits.error(key, message, "raise high, or lower low"));
    }
    Ok(Some(AirtimeLimits { low, high, total: limits.span("total")? }))
}

/// The queues of a cell that makes one for each station and category: FQ-CoDel with the constants of mac80211.
pub(super) fn fair_queue(mtu: u32) -> QueuePlan {
    let codel = CoDel {
        target: Span::from_millis(20),
        interval: Span::from_millis(100),
        mtu,
        ecn: true,
        threshold: None,
    };
    let turns = Turns { queues: 256, quantum: 300, limit: 8_192, memory: 16 << 20 };
    let fair = FqCoDel { codel, turns };
    QueuePlan { limit: QueueLimit::Unlimited, discipline: Discipline::FqCoDel(fair), ..QueuePlan::default() }
}

/// By which parameters the categories take their turns, in ascending order of priority (802.11-2012 table 8-105,
/// 802.11-2020 table 9-155).
fn access(table: &Reader<'_>, ns3: bool) -> Result<[AccessPlan; 4]> {
    let given = table.given("edca")?;
    let txops: [u64; 4] = match given {
        Some(Checked::Name("2020")) => [2_528, 2_528, 4_096, 2_080],
        None if ns3 => [0, 0, 4_096, 2_080],
        _ => [0, 0, 3_008, 1_504],
    };
    let window = |key, default: u32| table.integer_if(key).map(|cw| cw.map_or(default, |cw| cw as u32));
    let (least, most) = (window("cw_min", 15)?, window("cw_max", 1023)?);
    let (half, quarter) = (least.div_ceil(2), (least + 1) / 4);
    let windows = [(least, most), (least, most), (half - 1, least), (quarter.max(1) - 1, half - 1)];
    let aifsns = [7, 3, 2, 2];
    let mut access = [0, 1, 2, 3].map(|index: usize| AccessPlan {
        aifsn: aifsns[index],
        cw_min: windows[index].0,
        cw_max: windows[index].1,
        txop: Span::from_nanos(txops[index] * 1_000),
    });
    let Some(Checked::Table(edca)) = given else { return Ok(access) };
    let names = ["background", "best_effort", "video", "voice"];
    for (plan, name) in access.iter_mut().zip(names) {
        let Some(own) = edca.sub_if(name)? else { continue };
        plan.aifsn = own.integer_if("aifsn")?.map_or(plan.aifsn, |aifsn| aifsn as u32);
        plan.cw_min = own.integer_if("cw_min")?.map_or(plan.cw_min, |cw| cw as u32);
        plan.cw_max = own.integer_if("cw_max")?.map_or(plan.cw_max, |cw| cw as u32);
        plan.txop = own.span_if("txop")?.unwrap_or(plan.txop);
        if plan.cw_min > plan.cw_max {
            let message = format!("cw_min {} is above cw_max {}", plan.cw_min, plan.cw_max);
            let key = if own.has("cw_min") { "cw_min" } else { "cw_max" };
            return Err(own.error(key, message, "raise cw_max, or lower cw_min"));
        }
    }
    Ok(access)
}
