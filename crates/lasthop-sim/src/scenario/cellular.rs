//! Cellular cells: their keys, and from tables to cells and the links that run over them.
//!
//! `topology/graph.rs` calls it for every cell. Each user has a link to the base station, so that routes and results
//! know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::cellular::{
    Acknowledged, BEST_CQI, CellularPlan, CellularUser, CqiTrack, Drx, Grid, Handovers, Harq, Reports,
    Requests, RlcPlan, Sharing,
};
use lasthop_net::plan::{Direction, LinkPlan};

use super::declare::table;
use super::diagnostic::{ScenarioError, quoted};
use super::keys::{ANY_TIME, Key, Kind, LARGEST_PACKET, MOST_STATIONS, SOME_TIME, Table, Tagged, Variant};
use super::link::LinkReader;
use super::middlebox::{self, A_MIDDLEBOX};
use super::queue::{self, LinkFacts, QUEUE};
use super::reader::{Checked, Item, Reader};
use super::topology::{make, node};

type Result<T> = std::result::Result<T, ScenarioError>;

const CQI: Kind = Kind::Integer { min: 0, max: BEST_CQI as u64 };
static A_CQI: Kind = CQI;
static A_USER: Kind = Kind::Table(&USER);
static A_CHANGE: Kind = Kind::Table(&CHANGE);
static A_MOMENT: Kind = SOME_TIME;
const A_JOURNEY: Kind = Kind::Table(&HANDOVERS);

pub(super) static CELLULAR: Table = Table {
    title: "cellular cell",
    doc: "A base station and its users, served TTI by TTI. Each user has a link, named after the two nodes, whose \
          forward direction is the downlink.",
    groups: &[&[
        Key::new("name", Kind::Text, "Name of the cell. Default: cellular and its number."),
        Key::new("base", Kind::Text, "The node that is the base station.")
            .required_or("add base = \"base\""),
        Key::new("users", Kind::List(&A_USER), "The users.")
            .required_or("add users = [{ node = \"phone\", cqi = 10 }]"),
        Key::new(
            "resource_blocks",
            Kind::Integer { min: 1, max: 275 },
            "Resource blocks in each direction: in LTE 6, 15, 25, 50, 75 or 100 for 1.4, 3, 5, 10, 15 or 20 MHz.",
        )
        .default("50"),
        Key::new(
            "tti",
            Kind::Duration { min: Span::from_nanos(62_500), max: Span::from_millis(10) },
            "Transmission time interval: 1 ms in LTE; a slot of NR has 0.5 ms at 30 kHz.",
        )
        .default("\"1 ms\""),
        Key::new(
            "symbols",
            Kind::Integer { min: 1, max: 168 },
            "Symbols of a resource block that carry data in a TTI: what reference and control signals leave of 168.",
        )
        .default("120"),
        Key::new("layers", Kind::Integer { min: 1, max: 8 }, "Number of spatial layers, all of the same rate.")
            .default("1"),
        Key::new(
            "scheduler",
            Kind::Choice(|| vec!["proportional-fair", "round-robin", "max-ci"]),
            "Which user is served first in a TTI; the others get the resource blocks that are left. \
             proportional-fair: the greatest ratio of rate to average; max-ci: the best CQI, in turn among equals.",
        )
        .default("\"proportional-fair\""),
        Key::new(
            "fair_window",
            SOME_TIME,
            "Time constant of the averages of proportional-fair, at least a TTI. Default: 100 ms.",
        ),
        Key::new("report_interval", SOME_TIME, "Interval between two reports of the CQI.").default("\"5 ms\""),
        Key::new(
            "report_delay",
            ANY_TIME,
            "Time from the measurement of a CQI to its use. Until the first report the base station uses the CQI of \
             the start.",
        )
        .default("\"5 ms\""),
        Key::new(
            "request_interval",
            ANY_TIME,
            "Interval of the scheduling requests of a user whose uplink was idle; 0: none is needed.",
        )
        .default("\"10 ms\""),
        Key::new("grant_delay", ANY_TIME, "Time from a scheduling request to the granted TTI.").default("\"4 ms\""),
        Key::new(
            "delay",
            ANY_TIME,
            "Time from the end of a TTI to the arrival of the packet: decoding, and the path to the core network.",
        )
        .default("\"4 ms\""),
        Key::new(
            "block_errors",
            Kind::List(&Kind::Probability),
            "Probability that each transmission of a transport block, the first included, fails although the channel \
             is as good as reported. The length of the list is the maximum number of transmissions; with [0] a block \
             is sent once and fails only if the channel is worse than reported.",
        )
        .default("[0.1, 0.1, 0.1, 0.1]"),
        Key::new(
            "harq_delay",
            Kind::Duration { min: Span::from_nanos(1), max: Span::from_millis(100) },
            "Time from one transmission of a block to the next, rounded up to TTIs.",
        )
        .default("\"8 ms\""),
        Key::new("rlc", Kind::Tagged(&RLC), "RLC mode: what happens to data in transport blocks that HARQ did not \
                                             repair.")
            .default("\"acknowledged\""),
        Key::new(
            "block_header",
            Kind::Size { min: 0, max: 100 },
            "Headers of each transport block: MAC 3 B, RLC 2 B.",
        )
        .default("\"5 B\""),
        Key::new(
            "packet_header",
            Kind::Size { min: 0, max: 100 },
            "Headers with each packet: PDCP 2 B, length in RLC 2 B.",
        )
        .default("\"4 B\""),
        Key::new("drx", Kind::Table(&DRX), "Discontinuous reception of the users. Default: they always listen."),
        Key::new("queue", Kind::Tagged(&QUEUE), "Room for packets of each user and direction.")
            .default("{ kind = \"drop-tail\", limit = \"1 MB\" }"),
        Key::new("mtu", Kind::Size { min: 68, max: LARGEST_PACKET }, "Largest IP packet.").default("\"1500 B\""),
        Key::new(
            "middleboxes",
            Kind::AnyList(&A_MIDDLEBOX),
            "Middleboxes at the base station before each of its links to a user, in the order in which packets to the \
             user pass them. Default: none.",
        ),
    ]],
    partial: false,
};

table! {
    /// Discontinuous reception (DRX): a sleeping user receives nothing new before its next on-duration. Its own
    /// transmissions wake it at once.
    static DRX = "DRX";
    struct DrxKeys {
        /// Time from the start of one on-duration to the next, rounded up to TTIs. The on-durations of the users are
        /// spread evenly over the cycle.
        cycle: Span = A_CYCLE, required_or("add cycle = \"160 ms\"");
        /// How long a user listens at the start of each cycle, rounded up to TTIs; shorter than the cycle.
        on: Span = A_CYCLE, default("\"10 ms\"");
        /// How long the user keeps listening after a TTI with new data in either direction, rounded up to TTIs.
        inactivity: Span = ANY_TIME, default("\"100 ms\"");
    }
}

/// The longest cycle of TS 38.331.
const A_CYCLE: Kind = Kind::Duration { min: Span::from_nanos(1), max: Span::from_millis(10_240) };

static RLC: Tagged = Tagged {
    title: "RLC",
    doc: "RLC mode: what happens to data in transport blocks that HARQ did not repair.",
    variants: &[
        Variant { name: "acknowledged", table: &ACKNOWLEDGED, bare: true },
        Variant { name: "unacknowledged", table: &UNACKNOWLEDGED, bare: true },
    ],
};

const REORDERING: Key = Key::new(
    "reordering",
    SOME_TIME,
    "t-Reordering: how long the receiver waits for a missing PDU before it acts.",
)
.default("\"50 ms\"");

static UNACKNOWLEDGED: Table = Table {
    title: "RLC without acknowledgements",
    doc: "UM (unacknowledged mode): missing PDUs are given up, and every packet with a part in one is lost.",
    groups: &[&[REORDERING]],
    partial: false,
};

static ACKNOWLEDGED: Table = Table {
    title: "RLC with acknowledgements",
    doc: "AM (acknowledged mode): missing PDUs are retransmitted, and later data waits for them.",
    groups: &[&[
        REORDERING,
        Key::new("status_prohibit", ANY_TIME, "t-StatusProhibit: shortest time between two STATUS \
            PDUs.").default("\"40 ms\""),
        Key::new("poll_retransmit", SOME_TIME, "t-PollRetransmit: how long the sender waits for the STATUS PDU after \
                                                a poll.")
            .default("\"80 ms\""),
        Key::new("poll_pdus", Kind::Integer { min: 1, max: 65_536 }, "pollPDU: PDUs between two polls.")
            .default("64"),
        Key::new("poll_bytes", Kind::Size { min: 1, max: 1_000_000_000 }, "pollByte: bytes between two polls.")
            .default("\"125 kB\""),
        Key::new(
            "max_retransmissions",
            Kind::Integer { min: 1, max: 32 },
            "maxRetxThreshold: retransmissions of a PDU before it is given up. A real network then re-establishes \
             the link; here the packets are lost.",
        )
        .default("16"),
        Key::new("status_delay", ANY_TIME, "Shortest time from a STATUS to the retransmission that it causes.")
            .default("\"8 ms\""),
    ]],
    partial: false,
};

static USER: Table = Table {
    title: "cellular user",
    doc: "A user of a cell.",
    groups: &[&[
        Key::new("node", Kind::Text, "Its node.").required_or("add node = \"phone\""),
        Key::new(
            "cqi",
            Kind::OrTable(&A_CQI, &CQI_TABLE),
            "CQI of the downlink, 0 (out of range) to 15, or a table of it over time.",
        )
        .required_or("add cqi = 10"),
        Key::new(
            "cqi_up",
            Kind::OrTable(&A_CQI, &CQI_TABLE),
            "CQI of the uplink. Default: that of the downlink.",
        ),
        Key::new("handovers", A_JOURNEY, "Handovers to another cell. Default: none."),
    ]],
    partial: false,
};

static CQI_TABLE: Table = Table {
    title: "CQI over time",
    doc: "Channel quality that changes: listed here, or in a file.",
    groups: &[&[
        Key::new("start", CQI, "The CQI at the start, with changes."),
        Key::new("changes", Kind::List(&A_CHANGE), "The later values of the CQI, in order of time."),
        Key::new(
            "file",
            Kind::File,
            "A file in place of start and changes, relative to the scenario file. Each line has a time in seconds, \
             from 0 on, and the CQI that holds from then on.",
        ),
        Key::new(
            "repeat",
            Kind::Switch,
            "Begin again at the time of the last line, whose CQI then does not count; otherwise it holds to the end.",
        )
        .default("false"),
    ]],
    partial: false,
};

static HANDOVERS: Table = Table {
    title: "handovers",
    doc: "Handovers of a user, and what happens to its packets. The new cell is like the old one and has the same \
          users.",
    groups: &[&[
        Key::new("at", Kind::List(&A_MOMENT), "Start times of the handovers, in order."),
        Key::new("every", SOME_TIME, "In place of at: the time between two handovers, and before the first."),
        Key::new(
            "interruption",
            ANY_TIME,
            "How long the user neither receives nor transmits. TS 36.133 allows 50 ms to a known cell: up to 30 ms \
             for a random access occasion, and 20 ms.",
        )
        .default("\"50 ms\""),
        Key::new(
            "forwarding",
            Kind::Switch,
            "Whether the old cell forwards to the new one what is queued for the user and what RLC has not delivered; \
             otherwise that is lost.",
        )
        .default("true"),
    ]],
    partial: false,
};

static CHANGE: Table = Table {
    title: "change of CQI",
    doc: "A CQI and the time from which it holds.",
    groups: &[&[
        Key::new("at", SOME_TIME, "From when on.").required(),
        Key::new("cqi", CQI, "The new one.").required(),
    ]],
    partial: false,
};

/// Reads the cell with this number, and adds its links.
pub(super) fn read(
    table: &Reader<'_>,
    (number, known): (usize, &[Arc<CellularPlan>]),
    numbers: &BTreeMap<&str, usize>,
    reader: &mut LinkReader<'_, '_>,
    (nodes, links): (&[String], &mut Vec<LinkPlan>),
) -> Result<CellularPlan> {
    let name = table.text_if("name")?.map_or_else(|| format!("cellular-{number}"), str::to_owned);
    if known.iter().any(|cell| cell.name == name) {
        let message = format!("two cells are called {}", quoted(&name));
        return Err(table.error("name", message, "give each cell its own name"));
    }
    let mut plan = radio(table, name)?;
    let base = node(table, "base", numbers)?;
    let users = table.list("users")?;
    if users.len() as u64 > MOST_STATIONS {
        let message = format!("{} users in one cell, more than {MOST_STATIONS}", users.len());
        return Err(table.error("users", message, "use more cells"));
    }
    for item in users {
        let Checked::Table(user) = item.value else { continue };
        let down = track(&user, "cqi", reader)?;
        let up = if user.has("cqi_up") { track(&user, "cqi_up", reader)? } else { down.clone() };
        let there = node(&user, "node", numbers)?;
        if there == base {
            let message = format!("{} is the base station itself", quoted(&nodes[base]));
            return Err(user.error("node", message, "write another node"));
        }
        let name = format!("{}-{}", nodes[base], nodes[there]);
        if links.iter().any(|link| link.name == name) {
            let message = format!("the cell makes a link {}, and there is one already", quoted(&name));
            return Err(user.error("node", message, "name each user once, and give another link a name"));
        }
        let downwards = direction(table, &plan, &down)?;
        let upwards = direction(table, &plan, &up)?;
        let middleboxes = match table.list_if("middleboxes")? {
            Some(_) => middlebox::read(table, downwards.mtu.into())?,
            None => Vec::new(),
        };
        let sides = (Arc::new(Direction { middleboxes, ..downwards }), Arc::new(upwards));
        let handovers = match user.given("handovers")? {
            Some(Checked::Table(table)) => Some(handovers(&table, reader)?),
            _ => None,
        };
        plan.users.push(CellularUser { link: links.len(), down, up, handovers });
        links.push(make(name, base, there, &sides));
    }
    Ok(plan)
}

/// All but the users.
fn radio(table: &Reader<'_>, name: String) -> Result<CellularPlan> {
    let tti = table.span("tti")?;
    let window = table.span_if("fair_window")?;
    let sharing = match table.name("scheduler")? {
        "round-robin" => Sharing::RoundRobin,
        "max-ci" => Sharing::MaxCi,
        _ => {
            let window = window.unwrap_or(Span::from_millis(100));
            if window < tti {
                let message = format!("averages over {window} are shorter than a TTI of {tti}");
                return Err(table.error("fair_window", message, "raise fair_window"));
            }
            Sharing::ProportionalFair { window: window.0 as f64 / tti.0 as f64 }
        }
    };
    if window.is_some() && !matches!(sharing, Sharing::ProportionalFair { .. }) {
        let message = "only proportional-fair has averages".to_owned();
        let remedy = "leave out fair_window, or write scheduler = \"proportional-fair\"";
        return Err(table.error("fair_window", message, remedy));
    }
    let (interval, delay) = (table.span("request_interval")?, table.span("grant_delay")?);
    Ok(CellularPlan {
        name,
        users: Vec::new(),
        tti,
        grid: Grid {
            resource_blocks: table.integer("resource_blocks")? as u32,
            symbols: table.integer("symbols")? as u32,
            layers: table.integer("layers")? as u32,
        },
        sharing,
        reports: Reports { interval: table.span("report_interval")?, delay: table.span("report_delay")? },
        harq: Harq {
            errors: table.list("block_errors")?.iter().filter_map(probability).collect(),
            ttis: table.span("harq_delay")?.0.div_ceil(tti.0) as u32,
        },
        rlc: rlc(table)?,
        requests: (interval > Span::ZERO).then_some(Requests { interval, delay }),
        drx: match table.given("drx")? {
            Some(Checked::Table(table)) => Some(drx(&table, tti)?),
            _ => None,
        },
        block_header: table.size("block_header")? as u32,
        packet_header: table.size("packet_header")? as u32,
    })
}

fn drx(table: &Reader<'_>, tti: Span) -> Result<Drx> {
    let keys = DrxKeys::read(table)?;
    let ttis = |span: Span| span.0.div_ceil(tti.0);
    let drx = Drx { cycle: ttis(keys.cycle), on: ttis(keys.on), inactivity: ttis(keys.inactivity) };
    if drx.on >= drx.cycle {
        let message = format!("an on-duration of {} fills the cycle of {}", keys.on, keys.cycle);
        return Err(table.error("on", message, "write a longer cycle, or leave out drx"));
    }
    Ok(drx)
}

fn probability(item: &Item<'_>) -> Option<f64> {
    match item.value {
        Checked::Number(value) => Some(value),
        _ => None,
    }
}

fn rlc(table: &Reader<'_>) -> Result<RlcPlan> {
    let (kind, keys) = table.tagged("rlc")?;
    let reordering = keys.span("reordering")?;
    if kind == "unacknowledged" {
        return Ok(RlcPlan::Unacknowledged { reordering });
    }
    Ok(RlcPlan::Acknowledged(Acknowledged {
        reordering,
        prohibit: keys.span("status_prohibit")?,
        poll_retransmit: keys.span("poll_retransmit")?,
        poll_pdus: keys.integer("poll_pdus")?,
        poll_bytes: keys.size("poll_bytes")?,
        max_retransmissions: keys.integer("max_retransmissions")? as u32,
        status_delay: keys.span("status_delay")?,
    }))
}

/// A direction of the link of a user with this channel. Its rate is what the user has alone at its best.
fn direction(table: &Reader<'_>, plan: &CellularPlan, track: &CqiTrack) -> Result<Direction> {
    let (rate, delay, mtu) = (plan.rate(track.best()), table.span("delay")?, table.size("mtu")?);
    let queue = queue::read(table, &LinkFacts { rate, delay, mtu, is_plain: false })?;
    Ok(Direction { mtu: mtu as u32, queue, ..Direction::plain(rate, delay) })
}

/// When a user goes to another cell.
fn handovers(table: &Reader<'_>, reader: &mut LinkReader<'_, '_>) -> Result<Handovers> {
    let (listed, every) = (table.list_if("at")?, table.span_if("every")?);
    let at = match (listed, every) {
        (Some(_), Some(_)) => {
            let message = "the handovers are listed, and there is an interval of them".to_owned();
            return Err(table.error("every", message, "leave out one of them"));
        }
        (None, None) => {
            let message = "handovers without a time and without an interval".to_owned();
            return Err(table.error("at", message, "add every = \"30 s\""));
        }
        (Some(listed), None) => times(table, &listed)?,
        (None, Some(every)) => {
            // One that lies beyond the end is kept, so that advice can tell of it.
            let count = ((reader.duration.0 - 1) / every.0).max(1);
            reader.count(table, "every", count, 1)?;
            (1..=count).map(|number| Time(every.0 * number)).collect()
        }
    };
    let (interruption, forwarding) = (table.span("interruption")?, table.switch("forwarding")?);
    let mut pairs = at.iter().zip(at.iter().skip(1));
    if let Some((one, next)) = pairs.find(|&(&one, &next)| one + interruption > next) {
        let message = format!("the handover at {next} begins before the one at {one} is over");
        let key = if table.has("at") { "at" } else { "every" };
        return Err(table.error(key, message, "leave more time between them, or lower interruption"));
    }
    Ok(Handovers { at: at.into(), interruption, forwarding })
}

/// The listed times of handovers.
fn times(table: &Reader<'_>, listed: &[Item<'_>]) -> Result<Vec<Time>> {
    let mut times: Vec<Time> = Vec::new();
    for item in listed {
        let Checked::Span(at) = item.value else { continue };
        if let Some(&before) = times.last().filter(|&&before| Time(at.0) <= before) {
            let message = format!("the handover at {at} does not come after the one at {before}");
            return Err(table.error("at", message, "write the handovers in the order of time"));
        }
        times.push(Time(at.0));
    }
    Ok(times)
}

/// The CQI that `key` of a user says.
fn track(user: &Reader<'_>, key: &str, reader: &mut LinkReader<'_, '_>) -> Result<CqiTrack> {
    let table = match user.value(key)? {
        Checked::Integer(cqi) => return Ok(CqiTrack::constant(cqi as u8)),
        Checked::Table(table) => table,
        _ => panic!("`{key}` is declared as a number or a table"),
    };
    if let Some(file) = table.text_if("file")? {
        for other in ["start", "changes"] {
            if table.has(other) {
                let message = "the CQI is listed, and there is a file of it".to_owned();
                return Err(table.error(other, message, "leave out one of them"));
            }
        }
        let rows = reader.files.cqi(&table, file)?;
        let end = rows[rows.len() - 1].0;
        let repeats = table.switch("repeat")? && end > Time::ZERO;
        let rows = if repeats { rows[..rows.len() - 1].into() } else { rows };
        return Ok(CqiTrack { rows, period: repeats.then_some(Span(end.0)) });
    }
    if table.has("repeat") {
        let message = "only a file begins again".to_owned();
        return Err(table.error("repeat", message, "leave out repeat, or name a file"));
    }
    let Some(start) = table.integer_if("start")? else {
        return Err(table.error("start", "no CQI of the start and no file".to_owned(), "add start = 10"));
    };
    let mut rows = vec![(Time::ZERO, start as u8)];
    for item in table.list_if("changes")?.unwrap_or_default() {
        let Checked::Table(change) = item.value else { continue };
        let at = Time(change.span("at")?.0);
        let before = rows[rows.len() - 1].0;
        if at <= before {
            let message = format!("the change at {at} does not come after the one at {before}");
            return Err(change.error("at", message, "write the changes in the order of time"));
        }
        rows.push((at, change.integer("cqi")? as u8));
    }
    Ok(CqiTrack { rows: rows.into(), period: None })
}
