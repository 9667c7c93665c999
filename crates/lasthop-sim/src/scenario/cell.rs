//! Cells of IEEE 802.11: from tables to radio channels and the links that run over them.
//!
//! `topology.rs` calls it for every cell. Cells of one channel become one medium, in which all of their stations hear
//! one another; every pair that may talk is a link of the network as well, so that routes and results know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::device::wlan::dsdv::DsdvPlan;
use lasthop_net::device::wlan::fading::FadingPlan;
use lasthop_net::device::wlan::minstrel_ht::MinstrelHtPlan;
use lasthop_net::device::wlan::mode::{Band, Format as ModeFormat};
use lasthop_net::device::wlan::phy::{Phy, Rounding};
use lasthop_net::device::wlan::rate_adaptation::{Arf, Minstrel, RatePlan};
use lasthop_net::plan::{
    Direction, Discards, Interference, LinkPlan, MacPlan, MediumPlan, Queues, RadioLink, StationPlan,
};
use lasthop_net::propagation::{Fading, Position, Propagation, Track, flight, ratio, watts};

use super::aggregation;
use super::diagnostic::{Place, ScenarioError, listed, quoted};
use super::keys::MOST_STATIONS;
use super::link::LinkReader;
use super::middlebox;
use super::reader::{Checked, Item, Reader};
use super::topology::{make, node};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Power at which ns-2's WaveLAN card reads a frame, in W: 250 m.
const RECEIVE_THRESHOLD: f64 = 3.652e-10;
/// Power at which it senses one, in W: 550 m.
const SENSE_THRESHOLD: f64 = 1.559e-11;
/// Thermal noise of 22 MHz at 290 K in W.
const THERMAL_NOISE: f64 = 1.380_649e-23 * 290.0 * 22e6;

/// A station of a cell, and where the scenario says so.
pub(super) struct Member<'n> {
    pub(super) node: usize,
    pub(super) track: Track,
    /// What the scenario says of it, if there are such keys.
    pub(super) table: Option<Reader<'n>>,
    pub(super) place: &'n Place,
}

/// Who belongs to a cell.
pub(super) struct Members<'n> {
    pub(super) name: String,
    pub(super) channel: u64,
    pub(super) access_point: Option<(usize, Position)>,
    pub(super) stations: Vec<Member<'n>>,
    /// Links are called so, with a number; otherwise by the nodes that they join.
    pub(super) link_name: Option<String>,
}

/// The members of a cell of a graph.
pub(super) fn members<'n>(
    table: &Reader<'n>,
    number: usize,
    numbers: &BTreeMap<&str, usize>,
) -> Result<Members<'n>> {
    let name = table.text_if("name")?.map_or_else(|| format!("cell-{number}"), str::to_owned);
    let mut access_point = None;
    if table.has("access_point") {
        access_point = Some((node(table, "access_point", numbers)?, point(table)?));
    }
    let mut stations: Vec<Member<'n>> = Vec::new();
    for item in table.list("stations")? {
        let Checked::Table(station) = item.value else { continue };
        let member = node(&station, "node", numbers)?;
        let known = stations.iter().any(|other| other.node == member);
        if known || access_point.is_some_and(|(node, _)| node == member) {
            let message = format!("{} is in the cell twice", quoted(station.text("node")?));
            return Err(station.error("node", message, "name each node once"));
        }
        stations.push(Member {
            node: member,
            track: track(&station)?,
            table: Some(station),
            place: station.place,
        });
    }
    if access_point.is_none() && stations.len() < 2 {
        let message = "a cell without an access point has a single station".to_owned();
        return Err(table.error("stations", message, "add access_point, or another station"));
    }
    Ok(Members { name, channel: table.integer("channel")?, access_point, stations, link_name: None })
}

/// The position of a table.
fn point(table: &Reader<'_>) -> Result<Position> {
    let items = table.list("position")?;
    let [Item { value: Checked::Number(x), .. }, Item { value: Checked::Number(y), .. }] = items[..] else {
        let message = format!("a position has two coordinates, not {}", items.len());
        return Err(table.error("position", message, "write [x, y] in metres"));
    };
    Ok(Position { x, y })
}

fn track(station: &Reader<'_>) -> Result<Track> {
    let mut points = vec![(Time::ZERO, point(station)?)];
    for item in station.list_if("track")?.unwrap_or_default() {
        let Checked::Table(waypoint) = item.value else { continue };
        let at = Time(waypoint.span("at")?.0);
        let before = points[points.len() - 1].0;
        if at <= before {
            let message = format!("the point of {at} does not come after the one of {before}");
            return Err(waypoint.error("at", message, "write the points in the order of time"));
        }
        points.push((at, point(&waypoint)?));
    }
    Ok(Track { points })
}

/// The channels that cells have been put on.
#[derive(Default)]
pub(super) struct Cells {
    media: Vec<(u64, MediumPlan)>,
    names: Vec<String>,
}

impl Cells {
    /// Adds a cell with the settings of `table`, and its links.
    pub(super) fn add(
        &mut self,
        table: &Reader<'_>,
        members: &Members<'_>,
        reader: &mut LinkReader<'_, '_>,
        (nodes, links): (&[String], &mut Vec<LinkPlan>),
    ) -> Result<()> {
        if self.names.contains(&members.name) {
            let message = format!("two cells are called {}", quoted(&members.name));
            return Err(table.error("name", message, "give each cell its own name"));
        }
        self.names.push(members.name.clone());
        if members.stations.len() as u64 > MOST_STATIONS {
            let message =
                format!("{} stations in one cell, more than {MOST_STATIONS}", members.stations.len());
            return Err(table.error("stations", message, "use more channels"));
        }
        let mut mac = mac(table)?;
        let (control, _) = table.tagged("rate_control")?;
        let mut own = |member: &Member<'_>| match &member.table {
            Some(station) => {
                aggregation::own_modes(station, mac.aggregation.as_deref_mut(), (mac.phy, control))
            }
            None => Ok(None),
        };
        let modes = members.stations.iter().map(&mut own).collect::<Result<Vec<Option<(usize, usize)>>>>()?;
        if let Some(plan) = mac.aggregation.as_ref().filter(|_| !table.has("protection")) {
            let older = |&(first, _): &(usize, usize)| plan.modes[first].format() == ModeFormat::Legacy;
            mac.protection = modes.iter().flatten().any(older);
        }
        let rates = members.stations.iter().map(|member| own_rate(member, &mac));
        let rates = rates.collect::<Result<Vec<Option<usize>>>>()?;
        let air = Air::read(table)?;
        let radio = air.medium(&members.name);
        check_range(table, members, &radio, nodes)?;
        let index = self.medium_for(table, members, radio, &mac)?;
        let medium = &mut self.media[index].1;
        let rate = initial_rate(&mac);
        let mac_index = medium.macs.len();
        let is_fair = mac.aggregation.as_ref().is_some_and(|plan| matches!(plan.queues, Queues::Fair { .. }));
        medium.macs.push(mac);
        let mut join = |node: usize, track: Track, access_point: bool, (modes, rate)| {
            if let Some(known) = medium.stations.iter().position(|station| station.node == node) {
                medium.stations[known].access_point |= access_point;
                return known;
            }
            medium.stations.push(StationPlan {
                node,
                name: nodes[node].clone(),
                mac: mac_index,
                track,
                access_point,
                modes,
                rate,
            });
            medium.stations.len() - 1
        };
        let hub = members
            .access_point
            .map(|(node, position)| join(node, Track::fixed(position), true, (None, None)));
        let stations: Vec<usize> = members
            .stations
            .iter()
            .zip(modes.into_iter().zip(rates))
            .map(|(member, own)| join(member.node, member.track.clone(), false, own))
            .collect();
        // With routes of their own stations are neighbours of each other, too.
        let peers = hub.is_none() || medium.routing.is_some();
        let after = |index: usize| stations[index + 1..].iter().map(move |&other| (index, other));
        let others = (0..stations.len()).filter(|_| peers).flat_map(after);
        let others = others.map(|(index, other)| (stations[index], other));
        let hubs = hub.iter().flat_map(|&hub| stations.iter().map(move |&station| (station, hub)));
        let pairs: Vec<(usize, usize)> = hubs.chain(others).collect();
        let farthest =
            pairs.iter().map(|&(from, to)| medium.distance(from, to, Time::ZERO)).fold(0.0, f64::max);
        let delay = air.flight.unwrap_or_else(|| flight(farthest)).max(Span::from_nanos(1));
        medium.flight = medium.flight.max(delay);
        let mut direction = reader.radio(table, pairs.len() as u64, (rate, delay))?;
        if is_fair {
            direction.queue = aggregation::fair_queue(direction.mtu);
        }
        let middleboxes = match table.list_if("middleboxes")? {
            Some(_) => middlebox::read(table, direction.mtu.into())?,
            None => Vec::new(),
        };
        if hub.is_none() && !middleboxes.is_empty() {
            let message = "nothing stands between the stations of a cell without an access point".to_owned();
            let remedy = "name an access_point, or leave out middleboxes";
            return Err(table.error("middleboxes", message, remedy));
        }
        let (down, up) = (Arc::new(Direction { middleboxes, ..direction.clone() }), Arc::new(direction));
        for ((from, to), number) in pairs.into_iter().zip(1..) {
            let (one, other) = (medium.stations[from].node, medium.stations[to].node);
            let name = match &members.link_name {
                Some(name) => format!("{name}-{number}"),
                None => format!("{}-{}", nodes[one], nodes[other]),
            };
            if links.iter().any(|link| link.name == name) {
                let message = format!("the cell makes a link {}, and there is one already", quoted(&name));
                return Err(table.error("stations", message, "give the other link a name"));
            }
            medium.links.push(RadioLink { link: links.len(), from, to });
            let back = if hub == Some(to) { &down } else { &up };
            links.push(make(name, one, other, &(up.clone(), back.clone())));
        }
        Ok(())
    }

    /// The medium of a channel: a new one, or that of another cell, which must not contradict.
    fn medium_for(
        &mut self,
        table: &Reader<'_>,
        members: &Members<'_>,
        radio: MediumPlan,
        mac: &MacPlan,
    ) -> Result<usize> {
        let Some(index) = self.media.iter().position(|(channel, _)| *channel == members.channel) else {
            self.media.push((members.channel, radio));
            return Ok(self.media.len() - 1);
        };
        let known = &self.media[index].1;
        let comparable = MediumPlan {
            name: known.name.clone(),
            macs: known.macs.clone(),
            stations: known.stations.clone(),
            links: known.links.clone(),
            flight: known.flight,
            ..radio
        };
        if comparable != *known || known.macs[0].phy.name != mac.phy.name {
            let message = format!(
                "cells {} and {} share channel {} and differ in their PHY, power, thresholds, propagation or routing",
                quoted(&known.name),
                quoted(&members.name),
                members.channel
            );
            return Err(table.error("channel", message, "make them alike, or give one another channel"));
        }
        Ok(index)
    }

    /// The channels.
    pub(super) fn finish(self) -> Vec<MediumPlan> {
        self.media.into_iter().map(|(_, medium)| medium).collect()
    }
}

/// The rate that frames start with, for estimates.
fn initial_rate(mac: &MacPlan) -> Rate {
    if let Some(aggregation) = &mac.aggregation {
        let last = aggregation.common - 1;
        let index = if let RatePlan::Fixed(mode) = mac.rate { mode } else { last };
        return aggregation.modes[index].rate();
    }
    let fastest = mac.phy.rates.len() - 1;
    let index = if let RatePlan::Fixed(rate) = mac.rate { rate } else { fastest };
    mac.phy.rates[index].rate
}

/// Refuses stations that their access point can never have heard at the start.
fn check_range(
    table: &Reader<'_>,
    members: &Members<'_>,
    radio: &MediumPlan,
    nodes: &[String],
) -> Result<()> {
    let Some((hub, position)) = members.access_point else { return Ok(()) };
    if radio.routing.is_some() {
        // Others may send on what the access point cannot read.
        return Ok(());
    }
    for member in &members.stations {
        // Who walks may come into range later.
        let distance = member.track.at(Time::ZERO).distance(position);
        let reach = radio.propagation.range(radio.receive_threshold);
        if member.track.moves() || distance <= reach {
            continue;
        }
        let message = format!(
            "station {} is {distance:.1} m from its access point {}, and frames reach {reach:.1} m",
            quoted(&nodes[member.node]),
            quoted(&nodes[hub])
        );
        let remedy = "move it closer, raise tx_power, or lower receive_threshold";
        return Err(table.source.error(member.place, message, remedy));
    }
    Ok(())
}

/// The index of a rate of a PHY.
fn rate_index(table: &Reader<'_>, phy: &Phy, rate: Rate, key: &str, place: &Place) -> Result<usize> {
    phy.rate_index(rate).ok_or_else(|| {
        let known: Vec<String> = phy.rates.iter().map(|known| known.rate.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = format!("{key}: {} has no rate of {rate}", phy.name);
        table.source.error(place, message, &format!("it has {}", listed(&known)))
    })
}

/// The rate that a station has for itself, as an index of its PHY.
fn own_rate(member: &Member<'_>, mac: &MacPlan) -> Result<Option<usize>> {
    let Some(station) = &member.table else { return Ok(None) };
    let Some(rate) = station.rate_if("rate")? else { return Ok(None) };
    if mac.aggregation.is_some() && matches!(station.name_if("phy")?, Some("802.11a" | "802.11g")) {
        return Ok(None);
    }
    if mac.aggregation.is_some() {
        let message = format!("{} sends by modes, which are more than a rate", mac.phy.name);
        return Err(station.error("rate", message, "write mcs, and streams, width or guard_interval"));
    }
    rate_index(station, mac.phy, rate, "rate", station.place_of("rate")).map(Some)
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
    let rate = match kind {
        "arf" => RatePlan::Arf(Arf {
            up_after: control.integer("up_after")? as u32,
            down_after: control.integer("down_after")? as u32,
        }),
        "minstrel" => RatePlan::Minstrel(Minstrel {
            interval: control.span("interval")?,
            weight: control.number("weight")?,
            sampling: control.number("sampling")?,
        }),
        "minstrel-ht" => RatePlan::MinstrelHt(MinstrelHtPlan {
            interval: control.span("interval")?,
            sampling: control.span("sampling")?,
            chain: control.integer("chain")? as usize,
            tries: control.integer("tries")? as u32,
        }),
        "ideal" => RatePlan::Ideal,
        _ => RatePlan::Fixed(fixed),
    };
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
fn mac(table: &Reader<'_>) -> Result<MacPlan> {
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
        Checked::Table(estimate) => Discards::RateEstimate {
            interval: estimate.span("interval")?,
            rate: estimate.rate("rate")?,
            bytes: estimate.size("size")? as u32,
        },
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

/// How stations find their routes, unless routes are static.
fn routing(table: &Reader<'_>) -> Result<Option<DsdvPlan>> {
    let (kind, dsdv) = table.tagged("routing")?;
    if kind != "dsdv" {
        return Ok(None);
    }
    Ok(Some(DsdvPlan {
        period: dsdv.span("period")?,
        startup: dsdv.span("startup")?,
        gap: dsdv.span("gap")?,
        jitter: dsdv.span("jitter")?,
        settling: dsdv.span("settling")?,
        weight: dsdv.number("weight")?,
        silent_periods: dsdv.integer("silent_periods")? as u32,
        waiting: dsdv.integer("waiting")? as usize,
    }))
}

/// How gains change with time, if they do.
fn flat_fading(table: &Reader<'_>) -> Result<Option<FadingPlan>> {
    let (kind, fading) = table.tagged("fading")?;
    Ok(match kind {
        "rayleigh" => Some(FadingPlan { speed: fading.number("speed")?, direct: None }),
        "rician" => {
            Some(FadingPlan { speed: fading.number("speed")?, direct: Some(fading.number("direct")?) })
        }
        _ => None,
    })
}

/// What a cell says of the air.
struct Air {
    routing: Option<DsdvPlan>,
    propagation: Propagation,
    fading: Option<FadingPlan>,
    receive_threshold: f64,
    sense_threshold: f64,
    capture: f64,
    message_in_message: bool,
    interference: Interference,
    noise: Option<f64>,
    flight: Option<Span>,
    oracle: bool,
}

impl Air {
    fn read(table: &Reader<'_>) -> Result<Air> {
        let ns2 = table.name("profile")? == "ns2";
        let (kind, fading) = table.tagged("propagation")?;
        let fading = match kind {
            "friis" => Fading::Friis,
            "log-distance" => Fading::LogDistance {
                exponent: fading.number("exponent")?,
                reference: fading.number("reference")?,
                shadowing: fading.number("shadowing")?,
            },
            _ => Fading::TwoRayGround { height: fading.number("height")? },
        };
        let propagation = Propagation {
            fading,
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
            routing: routing(table)?,
            propagation,
            fading: flat_fading(table)?,
            receive_threshold,
            sense_threshold,
            capture: ratio(table.number("capture")?),
            message_in_message: table.switch("message_in_message")?,
            interference,
            noise,
            flight: table.span_if("propagation_delay")?,
            oracle: table.switch("oracle")?,
        })
    }

    /// A channel like this without anybody on it.
    fn medium(&self, name: &str) -> MediumPlan {
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
            message_in_message: self.message_in_message,
            interference: self.interference,
            noise: self.noise,
            flight: Span::ZERO,
            oracle: self.oracle,
        }
    }
}
