//! What a key is, and the keys that no part owns: those of the whole file, of flows and of results.
//!
//! From the tables come the checks (unknown keys, types, units, ranges), the defaults and the JSON schema. To add a
//! key, add it to the table of the part that it configures; nothing else lists keys. `declare.rs` declares a table
//! together with what is read of it. The keys of TCP are in `transport.rs`, beside the functions that apply them, and
//! the parameters of the controllers in `lasthop-cc`.

use lasthop_core::time::Span;
use lasthop_net::device::wlan::phy::PHYS;
use lasthop_net::plan::TcpConfig;
use lasthop_net::traffic::size;

use super::aggregation::{IDEAL_RATE, MINSTREL_HT, MODES, STATION as STATION_MODES};
use super::error::ERROR;
use super::helpers;
use super::middlebox::A_MIDDLEBOX;
use super::outages::HANDOFF;
use super::queue::QUEUE;
use super::reader::Checked;
use super::realtime::REALTIME;
use super::roaming::UNDER_WAY;
use super::topology::{CHANNEL, TOPOLOGY};
use super::traffic;
use super::transport;
use super::units::{self, Dimension};

/// Longest time that means anything here: 10^6 s are eleven days of simulated time.
pub(super) const LONGEST: Span = Span::from_secs(1_000_000);
/// Most flows of a scenario, and most pairs of a dumbbell.
pub(super) const MOST_FLOWS: u64 = 100_000;
/// Fastest link: 10 Tbit/s.
pub(super) const FASTEST: u64 = 10_000_000_000_000;
/// Most outages and listed packet losses of all links together.
pub(super) const MOST_LISTED: u64 = 1_000_000;
/// Most frames of a trace, and of all flows of a table together.
pub(super) const MOST_FRAMES: u64 = 100_000_000;
/// Longest IP packet.
pub(super) const LARGEST_PACKET: u64 = 65_535;

/// What a key holds.
pub(super) enum Kind {
    /// A name: 1 to 100 characters on one line.
    Text,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A number without a unit.
    Number { min: f64, max: f64 },
    /// A number in this unit, which is not written.
    Measured { min: f64, max: f64, unit: &'static str },
    /// A number between 0 and 1, or `"1 %"`.
    Probability,
    /// A time such as `"25 ms"`.
    Duration { min: Span, max: Span },
    /// A data rate such as `"10 Mbit/s"`, never zero.
    Rate,
    /// A number, or a quantity of whatever kind: a parameter of a random variable.
    Value,
    /// A size such as `"1000 B"`.
    Size { min: u64, max: u64 },
    /// A window: `"64 packets"`, or a size that is turned into full packets.
    Window { min: f64, max: f64, endless: bool },
    /// Room in a queue: whole packets, or a size.
    Room,
    /// One of these names.
    Choice(fn() -> Vec<&'static str>),
    /// A table.
    Table(&'static Table),
    /// A table whose key `kind` says which one; some kinds may be written as the bare name.
    Tagged(&'static Tagged),
    /// A list of at least one value.
    List(&'static Kind),
    /// The same, or none: `[]` where something more general says otherwise.
    AnyList(&'static Kind),
    /// A table, or something short.
    OrTable(&'static Kind, &'static Table),
    /// A date and a time of day, such as `"2024-03-04T09:30"`.
    Moment,
    /// Path of a file.
    File,
    /// The name of a transport, or a table that describes one.
    Transport,
}

/// A table with its keys.
pub(super) struct Table {
    /// Short name for titles and messages.
    pub(super) title: &'static str,
    /// What the table is for.
    pub(super) doc: &'static str,
    /// The keys, in groups that tables share.
    pub(super) groups: &'static [&'static [Key]],
    /// Whether the table only overrides keys of another: none is required and defaults do not apply.
    pub(super) partial: bool,
}

/// Tables told apart by the key `kind`.
pub(super) struct Tagged {
    /// What they describe.
    pub(super) title: &'static str,
    /// What they are for.
    pub(super) doc: &'static str,
    /// The kinds.
    pub(super) variants: &'static [Variant],
}

/// One kind of a tagged table.
pub(super) struct Variant {
    /// Value of `kind`.
    pub(super) name: &'static str,
    /// The other keys.
    pub(super) table: &'static Table,
    /// Whether `queue = "unlimited"` says the same as `queue = { kind = "unlimited" }`.
    pub(super) bare: bool,
}

/// One key.
pub(super) struct Key {
    /// Its name.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) kind: Kind,
    /// What it means; the schema shows it.
    pub(super) doc: &'static str,
    /// The value when the key is absent, as TOML.
    pub(super) default: Option<&'static str>,
    /// Whether the key must be there.
    pub(super) required: bool,
    /// What to do when it is missing, where an example of its kind would not help.
    pub(super) remedy: Option<&'static str>,
    /// For a key of TCP: how it is applied to a connection and shown as a default.
    pub(super) tcp: Option<TcpKey>,
    /// Whether it says what a run is made of, which is never random.
    pub(super) fixed: bool,
}

/// How a key acts on a TCP connection.
#[derive(Clone, Copy)]
pub(super) struct TcpKey {
    /// Applies a checked value.
    pub(super) set: fn(&mut TcpConfig, &Checked<'_>),
    /// The current value as a scenario would say it.
    pub(super) show: fn(&TcpConfig) -> String,
}

impl Key {
    /// An optional key without a default.
    pub(super) const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Key {
        Key { name, kind, doc, default: None, required: false, remedy: None, tcp: None, fixed: false }
    }

    /// With the value when absent, as TOML.
    pub(super) const fn default(mut self, default: &'static str) -> Key {
        self.default = Some(default);
        self
    }

    /// A key whose value no distribution gives.
    pub(super) const fn fixed(mut self) -> Key {
        self.fixed = true;
        self
    }

    /// A key that must be there.
    pub(super) const fn required(mut self) -> Key {
        self.required = true;
        self
    }

    /// A key that must be there, and what to do when it is not.
    pub(super) const fn required_or(self, remedy: &'static str) -> Key {
        self.or(remedy).required()
    }

    /// A key that may be missing in some cases, and what to do where it must not.
    pub(super) const fn or(mut self, remedy: &'static str) -> Key {
        self.remedy = Some(remedy);
        self
    }

    /// A key of TCP.
    pub(super) const fn tcp(
        mut self,
        set: fn(&mut TcpConfig, &Checked<'_>),
        show: fn(&TcpConfig) -> String,
    ) -> Key {
        self.tcp = Some(TcpKey { set, show });
        self
    }

    /// What to do when the key is missing.
    pub(super) fn remedy(&self) -> String {
        match self.remedy {
            Some(remedy) => remedy.to_owned(),
            None => format!("add {}", self.example()),
        }
    }

    /// The key with a right value.
    pub(super) fn example(&self) -> String {
        format!("{} = {}", self.name, self.kind.example())
    }
}

impl Table {
    /// All keys of the table.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The key called `name`; asking for one that is not declared is a mistake of the caller.
    pub(super) fn key(&self, name: &str) -> &'static Key {
        let found = self.keys().find(|key| key.name == name);
        found.unwrap_or_else(|| panic!("no key `{name}` in the table `{}`", self.title))
    }
}

impl Tagged {
    /// The names of all kinds.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.variants.iter().map(|variant| variant.name).collect()
    }
}

impl Kind {
    /// Whether it may hold a number or a quantity, and so a random one.
    pub(super) fn is_numeric(&self) -> bool {
        match self {
            Kind::OrTable(short, _) => short.is_numeric(),
            kind => {
                matches!(kind, Kind::Integer { .. } | Kind::Number { .. } | Kind::Measured { .. })
                    || !kind.dimensions().is_empty()
            }
        }
    }

    /// The dimensions of a quantity: the first is the usual one.
    pub(super) fn dimensions(&self) -> &'static [&'static Dimension] {
        match self {
            Kind::Duration { .. } => &[&units::DURATION],
            Kind::Rate => &[&units::RATE],
            Kind::Size { .. } => &[&units::SIZE],
            Kind::Probability => &[&units::SHARE],
            Kind::Room | Kind::Window { .. } => &[&units::PACKETS, &units::SIZE],
            _ => &[],
        }
    }

    /// A right value, as TOML.
    pub(super) fn example(&self) -> &'static str {
        match self {
            Kind::Text => "\"a\"",
            Kind::Moment => "\"2024-03-04T09:30\"",
            Kind::File => "\"film.txt\"",
            Kind::Switch => "true",
            Kind::Integer { .. } => "1",
            Kind::Number { .. } | Kind::Measured { .. } => "0.5",
            Kind::Probability => "0.01",
            Kind::Duration { .. } => "\"60 s\"",
            Kind::Value | Kind::Rate => "\"10 Mbit/s\"",
            Kind::Size { .. } => "\"1000 B\"",
            Kind::Window { .. } => "\"64 packets\"",
            Kind::Room => "\"30 packets\"",
            Kind::Choice(_) => "\"...\"",
            Kind::Table(_) | Kind::OrTable(..) | Kind::Tagged(_) => "{ ... }",
            Kind::List(_) | Kind::AnyList(_) => "[ ... ]",
            Kind::Transport => "\"reno\"",
        }
    }

    /// What is expected, with an example.
    pub(super) fn expected(&self) -> String {
        match self {
            Kind::Text => "a name in quotes".to_owned(),
            Kind::Moment => format!("a date and a time of day such as {}", self.example()),
            Kind::File => "the path of a file in quotes".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::Integer { .. } => "a whole number".to_owned(),
            Kind::Number { .. } => "a number".to_owned(),
            Kind::Value => format!("a number, or a quantity such as {}", self.example()),
            Kind::Measured { unit, .. } => format!("a number, in {unit}"),
            Kind::Choice(names) => format!("one of {}", super::diagnostic::listed(&names())),
            Kind::Table(table) => format!("a table with the keys {}", key_names(table)),
            Kind::Tagged(tagged) => {
                let names = super::diagnostic::listed(&tagged.names());
                format!("a table with the key `kind`: one of {names}")
            }
            Kind::List(_) | Kind::AnyList(_) => "a list in [ ]".to_owned(),
            Kind::OrTable(short, table) => {
                format!("{}, or a table with the keys {}", short.expected(), key_names(table))
            }
            Kind::Transport => "the name of a transport, such as \"vegas\", or a table".to_owned(),
            _ => match self.dimensions() {
                [dimension, ..] => format!("{} such as {}", dimension.noun, self.example()),
                [] => "another value".to_owned(),
            },
        }
    }
}

fn key_names(table: &Table) -> String {
    let names: Vec<&str> = table.keys().map(|key| key.name).collect();
    super::diagnostic::listed(&names)
}

pub(super) const ANY_TIME: Kind = Kind::Duration { min: Span::ZERO, max: LONGEST };
pub(super) const SOME_TIME: Kind = Kind::Duration { min: Span::from_nanos(1), max: LONGEST };
pub(super) const TRANSFER: Kind = Kind::Size { min: 1, max: size::LONGEST };
pub(super) const PACKET: Kind = Kind::Size { min: 1, max: LARGEST_PACKET };

/// The whole file.
pub(super) static ROOT: Table = Table {
    title: "scenario",
    doc: "A lasthop scenario: the network, the flows and what to measure.",
    groups: &[&[
        Key::new(
            "name",
            Kind::Text,
            "Name shown in results. Default: the name of the file without its ending.",
        ),
        Key::new("duration", SOME_TIME, "Simulated length of the run.").required().fixed(),
        Key::new("warmup", ANY_TIME, "Measurements start here; what happens before does not count.")
            .default("\"0 s\"")
            .fixed(),
        Key::new(
            "processing_time",
            ANY_TIME,
            "The host of a sender keeps each packet for a random time of less than this; packets stay in order. About \
             one transmission time of the bottleneck keeps flows from falling into step (Floyd & Jacobson 1992). In \
             the profile ns2 as ns-2's overhead_: what an ACK allows waits once and leaves together, repairs leave at \
             once.",
        )
        .default("\"0 s\""),
        Key::new("seed", Kind::Integer { min: 0, max: u64::MAX }, "Seed of all random streams.").default("1").fixed(),
        Key::new("limits", Kind::Table(&LIMITS), "When a run is given up.").default("{}"),
        Key::new("measure", Kind::Table(&MEASURE), "How results are kept.").default("{}"),
        Key::new("topology", Kind::Tagged(&TOPOLOGY), "Nodes and links.")
            .required_or("add a table [topology] with kind = \"dumbbell\", \"graph\", \"wlan\" or \
                          \"wired-cum-wireless\""),
        Key::new(
            "channel",
            Kind::Table(&CHANNEL),
            "The wireless channel of a dumbbell: applies to the sink access links, in both directions.",
        ),
        Key::new(
            "history",
            Kind::Table(&HISTORY),
            "The history of paths: windows of earlier connections, from which senders may start.",
        ),
        Key::new(
            "helpers",
            Kind::AnyList(&A_HELPER),
            "Helpers in the network, each a name or a table: switched on at the base station, or where `at` says. \
             `lasthop helpers` lists them. Default: none.",
        ),
        Key::new("tcp", Kind::Table(&transport::TCP), "Defaults of all TCP flows.").default("{}"),
        Key::new("udp", Kind::Table(&UDP), "Settings of all UDP flows.").default("{}"),
        Key::new("flows", Kind::List(&Kind::Table(&FLOW)), "The flows; each table may stand for many.")
            .required_or("add a table [[flows]] with transport = \"reno\""),
    ]],
    partial: false,
};

static HISTORY: Table = Table {
    title: "history",
    doc: "The history of paths: with this table a run keeps one, by sink, hour, day, week and month.",
    groups: &[&[
        Key::new(
            "clock",
            Kind::Moment,
            "Date and time of day at which the run starts; of no particular time zone.",
        )
        .required(),
        Key::new(
            "file",
            Kind::File,
            "Where the history is kept from one command to the next (SQLite), relative to the scenario file. \
             Default: nowhere.",
        ),
    ]],
    partial: false,
};

static LIMITS: Table = Table {
    title: "limits",
    doc: "A run that passes a limit ends with an error that names it.",
    groups: &[&[
        Key::new(
            "events",
            Kind::Integer { min: 1, max: 1_000_000_000_000_000 },
            "Maximum number of events in one run.",
        )
        .default("100_000_000_000")
        .fixed(),
        Key::new("wall_time", SOME_TIME, "Maximum wall-clock time of one run.").default("\"1 h\"").fixed(),
    ]],
    partial: false,
};

static MEASURE: Table = Table {
    title: "measure",
    doc: "How results are kept.",
    groups: &[&[
        Key::new(
            "series_interval",
            Kind::Duration { min: Span::from_nanos(1_000), max: LONGEST },
            "Interval of the optional time series.",
        )
        .default("\"100 ms\"")
        .fixed(),
        Key::new(
            "percentiles",
            Kind::Choice(|| vec!["sketch", "exact"]),
            "How percentiles of delay and RTT are kept: a sketch within 0.4 %, or every sample.",
        )
        .default("\"sketch\""),
        Key::new(
            "realtime",
            Kind::Table(&REALTIME),
            "Real-time metrics of all flows. Default: of flows of video.",
        )
        .default("{}"),
    ]],
    partial: false,
};

/// Most stations of a cell.
pub(super) const MOST_STATIONS: u64 = 500;

/// A distance in metres.
pub(super) const METRES: Kind = Kind::Measured { min: 0.0, max: 1e7, unit: "m" };
/// A position in the plane.
static COORDINATE: Kind = Kind::Measured { min: -1e7, max: 1e7, unit: "m" };
const POINT: Kind = Kind::List(&COORDINATE);

pub(super) static CELL: Table = Table {
    title: "cell",
    doc: "A cell of IEEE 802.11. Cells of one channel share the air.",
    groups: &[
        &[
            Key::new("name", Kind::Text, "Name of the cell. Default: cell and its number."),
            Key::new(
                "access_point",
                Kind::Text,
                "The node that is the access point: its stations talk to it, and through it. Default: none, and all \
                 stations talk to one another (ad hoc).",
            ),
            Key::new("position", POINT, "Where the access point is, [x, y] in metres.").default("[0, 0]"),
            Key::new("stations", Kind::List(&A_STATION), "The stations.")
                .required_or("add stations = [{ node = \"phone\", position = [10, 0] }]"),
            Key::new("channel", Kind::Integer { min: 1, max: 200 }, "Number of the radio channel.")
                .default("1"),
        ],
        RADIO,
        MODES,
    ],
    partial: false,
};

static A_STATION: Kind = Kind::Table(&STATION);

static STATION: Table = Table {
    title: "station",
    doc: "A station of a cell. A node may be a station of several cells; its path chooses among them.",
    groups: &[
        &[
            Key::new("node", Kind::Text, "Its node.").required(),
            Key::new("position", POINT, "Where it is, [x, y] in metres.")
                .required_or("add position = [10, 0]"),
            Key::new(
                "track",
                Kind::List(&A_WAYPOINT),
                "Where it walks from there, in the order of time and in straight lines. Default: nowhere.",
            ),
            Key::new(
                "rate",
                Kind::Rate,
                "Before 802.11n: rate of data frames to and from it, whatever rate_control says; of two stations with \
                 one, that of the addressee. Default: as in the cell; of an older station in a cell of 802.11n or \
                 later 54 Mbit/s.",
            ),
        ],
        STATION_MODES,
    ],
    partial: false,
};

static A_WAYPOINT: Kind = Kind::Table(&WAYPOINT);

static WAYPOINT: Table = Table {
    title: "waypoint",
    doc: "A point that a station reaches at a time.",
    groups: &[&[
        Key::new("at", SOME_TIME, "When.").required(),
        Key::new("position", POINT, "Where, [x, y] in metres.").required_or("add position = [10, 0]"),
    ]],
    partial: false,
};

pub(super) static RADIO_TABLE: Table =
    Table { title: "radio", doc: "The radio of a cell.", groups: &[RADIO, MODES], partial: false };

const MICROS: Kind = Kind::Duration { min: Span::from_nanos(1_000), max: Span::from_millis(100) };
const FRAME: Kind = Kind::Size { min: 0, max: 1_000 };
const DECIBELS: Kind = Kind::Measured { min: -300.0, max: 300.0, unit: "dB" };
const POWER: Kind = Kind::Measured { min: -300.0, max: 300.0, unit: "dBm" };
const WINDOW: Kind = Kind::Integer { min: 1, max: 65_535 };
const RETRIES: Kind = Kind::Integer { min: 1, max: 255 };

/// What a radio and its MAC have. Names are those of the standard's MIB where it has one.
const RADIO: &[Key] = &[
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
        "Rates of answers and broadcasts: the fastest that is not above the data frame's. Default: 1 and 2 Mbit/s, or \
         6, 12 and 24 Mbit/s with OFDM; ns2: 1 Mbit/s.",
    ),
    Key::new("preamble", Kind::Choice(|| vec!["long", "short"]), "Preamble of DSSS and CCK frames above 1 Mbit/s.")
        .default("\"long\""),
    Key::new(
        "protection",
        Kind::Switch,
        "A CTS to itself goes before frames that older stations cannot read: with 802.11g before each OFDM frame, at a \
         DSSS or CCK rate and with a slot of 20 us; from 802.11n on before each aggregate without an RTS, at a basic \
         rate. Default: false; from 802.11n on true where a station of the cell is older.",
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
        "How long a sender waits for an answer, beyond SIFS and its length. Default: a slot; ns2: 4 us.",
    ),
    Key::new(
        "immediate_access",
        Kind::Switch,
        "A frame that finds the medium idle for DIFS goes out without a backoff. Default: true; ns2: false.",
    ),
    Key::new(
        "processing",
        Kind::Duration { min: Span::ZERO, max: Span::from_secs(1) },
        "Time that the link layer takes before and behind the MAC. Default: 0 s; ns2: 25 us.",
    ),
    Key::new("beacon", SOME_TIME, "Interval between two beacons of an access point. Default: no beacons."),
    Key::new("beacon_size", FRAME, "Size of a beacon.").default("\"80 B\""),
    Key::new("queue", Kind::Tagged(&QUEUE), "Room for packets at each station, the one being sent included.")
        .default("{ kind = \"drop-tail\", limit = \"50 packets\" }"),
    Key::new("mtu", Kind::Size { min: 68, max: 2304 }, "Largest IP packet.").default("\"1500 B\""),
    Key::new(
        "error",
        Kind::Tagged(&ERROR),
        "What loses frames at each receiver beside collisions: every attempt and every answer, or with position \
         after-arq packets behind the MAC's retries.",
    )
    .default("\"none\""),
    Key::new("handoff", Kind::OrTable(&NONE, &HANDOFF), "When the air loses everything.").default("\"none\""),
    Key::new(
        "warning",
        SOME_TIME,
        "Stations extend the fall of their access point's power, 100 times a second: if it reaches receive_threshold \
         within this time, they take their link for fading, and learn when it is back. Default: they do not look.",
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
        "What senders learn of as discarded frames: failed attempts of their own MAC, frames that it gave up, corrupt \
         frames that the receiving host heard, or what the access point misses by an announced rate.",
    )
    .default("\"attempts\""),
    Key::new(
        "oracle",
        Kind::Switch,
        "For discards = \"received\": only the receiver that a corrupt frame was meant for is told, which \
         no real MAC could know.",
    )
    .default("false"),
    Key::new(
        "routing",
        Kind::Tagged(&ROUTING),
        "How packets find their way over the channel: static by the links that there are, or by tables that stations \
         learn from one another's broadcasts.",
    )
    .default("\"static\""),
    Key::new("propagation", Kind::Tagged(&PROPAGATION), "How power falls with distance.")
        .default("\"two-ray-ground\""),
    Key::new("fading", Kind::Tagged(&FLAT_FADING), "How the gain between two stations changes with time.")
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
    Key::new("capture", DECIBELS, "A frame is received despite others that are weaker by at least this many \
     dB.").default("10"),
    Key::new(
        "message_in_message",
        Kind::Switch,
        "Whether a frame that is stronger by that much takes the place of one that is being received.",
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
        "Makes frames fail by signal over noise and interference: noise of the receiver over that of 22 MHz at 290 K, \
         in dB; 7 is usual. Then capture and receive_threshold do not count. Default: only thresholds do.",
    ),
    Key::new(
        "propagation_delay",
        Kind::Duration { min: Span::from_nanos(1), max: Span::from_nanos(20_000) },
        "Time of flight between any two stations of the channel. Default: that of its longest radio link.",
    ),
];

const DISCARD_NAMES: Kind = Kind::Choice(|| vec!["attempts", "frames", "received"]);

static RATE_ESTIMATE: Table = Table {
    title: "rate estimate",
    doc: "In every interval a sender is told the number of MSDUs that its announced rate would have made, less \
     those received.",
    groups: &[&[
        Key::new("interval", SOME_TIME, "Time between two estimates.").default("\"100 ms\""),
        Key::new("rate", Kind::Rate, "The announced rate.").required(),
        Key::new("size", PACKET, "The announced size of an MSDU.").required(),
    ]],
    partial: false,
};

static RATE_CONTROL: Tagged = Tagged {
    title: "rate control",
    doc: "How stations choose their rates.",
    variants: &[
        Variant { name: "fixed", table: &FIXED_RATE, bare: true },
        Variant { name: "arf", table: &ARF, bare: true },
        Variant { name: "minstrel", table: &MINSTREL, bare: true },
        Variant { name: "minstrel-ht", table: &MINSTREL_HT, bare: true },
        Variant { name: "ideal", table: &IDEAL_RATE, bare: true },
    ],
};

static ROUTING: Tagged = Tagged {
    title: "routing",
    doc: "How packets find their way over a radio channel.",
    variants: &[
        Variant { name: "static", table: &STATIC_ROUTING, bare: true },
        Variant { name: "dsdv", table: &DSDV, bare: true },
    ],
};

static STATIC_ROUTING: Table = Table {
    title: "static routing",
    doc: "By the fewest links; nothing is sent to find them.",
    groups: &[],
    partial: false,
};

const ROUTING_TIME: Kind = Kind::Duration { min: Span::from_millis(1), max: Span::from_secs(100_000) };

static DSDV: Table = Table {
    title: "DSDV",
    doc: "Destination-sequenced distance vectors (Perkins and Bhagwat, SIGCOMM 1994; as in ns-2.35). Every station \
          broadcasts what it can reach, and packets go hop by hop.",
    groups: &[&[
        Key::new("period", ROUTING_TIME, "A full update follows the last after 0.75 to 1 of this.")
            .default("\"15 s\""),
        Key::new("startup", SOME_TIME, "The first update of each station comes within this time.")
            .default("\"2 s\""),
        Key::new("gap", SOME_TIME, "Minimum time between a triggered update and the one before it.")
            .default("\"1 s\""),
        Key::new("jitter", SOME_TIME, "Longest time that an update waits before it is queued.")
            .default("\"10 ms\""),
        Key::new(
            "settling",
            SOME_TIME,
            "Assumed settling time of a new destination; its route is advertised after twice this time.",
        )
        .default("\"6 s\""),
        Key::new(
            "weight",
            Kind::Number { min: 0.0, max: 0.999 },
            "Weight of the past in the average of settling times.",
        )
        .default("0.875"),
        Key::new(
            "silent_periods",
            Kind::Integer { min: 1, max: 1_000 },
            "A neighbour from which nothing was heard for this many periods is taken for gone.",
        )
        .default("3"),
        Key::new(
            "waiting",
            Kind::Integer { min: 0, max: 10_000 },
            "Packets that wait for a route at each station, by destination; then the oldest is dropped.",
        )
        .default("5"),
    ]],
    partial: false,
};

static FIXED_RATE: Table =
    Table { title: "fixed rate", doc: "Always the same rate.", groups: &[], partial: false };

static ARF: Table = Table {
    title: "ARF",
    doc: "Up after acknowledgements in a row, down after failures (Kamerman and Monteban 1997).",
    groups: &[&[
        Key::new(
            "up_after",
            Kind::Integer { min: 1, max: 1_000 },
            "Acknowledgements in a row before a faster rate.",
        )
        .default("10"),
        Key::new(
            "down_after",
            Kind::Integer { min: 1, max: 1_000 },
            "Failures in a row before a slower rate.",
        )
        .default("2"),
    ]],
    partial: false,
};

static MINSTREL: Table = Table {
    title: "minstrel",
    doc: "Statistics of every rate, in the manner of Minstrel of the Linux kernel.",
    groups: &[&[
        Key::new("interval", SOME_TIME, "Time between two evaluations.").default("\"100 ms\""),
        Key::new("weight", Kind::Number { min: 0.0, max: 0.999 }, "Weight of the past in the average.")
            .default("0.75"),
        Key::new("sampling", Kind::Probability, "Share of frames that try another rate first.")
            .default("0.1"),
    ]],
    partial: false,
};

static FLAT_FADING: Tagged = Tagged {
    title: "fading",
    doc: "How the gain between two stations changes with time, the same over the whole channel and both ways, as one \
          of them moves among reflections. Carrier sense and interference go by the mean power.",
    variants: &[
        Variant { name: "none", table: &NO_FADING, bare: true },
        Variant { name: "rayleigh", table: &RAYLEIGH, bare: true },
        Variant { name: "rician", table: &RICIAN, bare: true },
    ],
};

static NO_FADING: Table =
    Table { title: "no fading", doc: "Gains stay as they are.", groups: &[], partial: false };

const SPEED: Key = Key::new(
    "speed",
    Kind::Measured { min: 0.0, max: 1_000.0, unit: "m/s" },
    "Speed of the motion in m/s; 1.5 is a walk.",
);

static RAYLEIGH: Table = Table {
    title: "rayleigh",
    doc: "Reflections alone, with Jakes' spectrum.",
    groups: &[&[SPEED.default("1.5")]],
    partial: false,
};

static RICIAN: Table = Table {
    title: "rician",
    doc: "Reflections beside a direct path.",
    groups: &[&[
        SPEED.default("1.5"),
        Key::new(
            "direct",
            Kind::Measured { min: -30.0, max: 60.0, unit: "dB" },
            "Power of the direct path over that of all reflections, in dB.",
        )
        .default("6"),
    ]],
    partial: false,
};

static PROPAGATION: Tagged = Tagged {
    title: "propagation",
    doc: "How power falls with distance.",
    variants: &[
        Variant { name: "friis", table: &FRIIS, bare: true },
        Variant { name: "two-ray-ground", table: &TWO_RAY_GROUND, bare: true },
        Variant { name: "log-distance", table: &LOG_DISTANCE, bare: true },
    ],
};

static FRIIS: Table = Table { title: "friis", doc: "Free space.", groups: &[], partial: false };

static TWO_RAY_GROUND: Table = Table {
    title: "two-ray ground",
    doc: "Free space, and beyond a distance a second ray that the ground reflects.",
    groups: &[&[Key::new(
        "height",
        Kind::Measured { min: 0.01, max: 10_000.0, unit: "m" },
        "Height of the antennas in metres.",
    )
    .default("1.5")]],
    partial: false,
};

static LOG_DISTANCE: Table = Table {
    title: "log-distance",
    doc: "Free space up to a reference distance, a power law beyond it, and shadowing drawn for each pair of stations.",
    groups: &[&[
        Key::new("exponent", Kind::Number { min: 1.0, max: 10.0 }, "Exponent of the distance.").default("3"),
        Key::new(
            "reference",
            Kind::Measured { min: 0.01, max: 1e6, unit: "m" },
            "Reference distance in metres.",
        )
        .default("1"),
        Key::new(
            "shadowing",
            Kind::Measured { min: 0.0, max: 50.0, unit: "dB" },
            "Standard deviation of the shadowing in dB.",
        )
        .default("0"),
    ]],
    partial: false,
};

static A_HELPER: Kind = Kind::Tagged(&helpers::HELPER);

/// Instead of a table: nothing of it.
pub(super) const NONE: Kind = Kind::Choice(|| vec!["none"]);

static UDP: Table = Table {
    title: "udp",
    doc: "Settings of all UDP flows.",
    groups: &[&[
        Key::new(
            "header",
            Kind::Size { min: 0, max: 1_000 },
            "Bytes added to each datagram. Default: 28 B (IP and UDP); 0 B when [tcp] has profile ns2.",
        ),
        Key::new("payload", PACKET, "Largest payload of a datagram; larger writes are split.")
            .default("\"1472 B\""),
    ]],
    partial: false,
};

/// One `[[flows]]` table.
static FLOW: Table = Table {
    title: "flow",
    doc: "One flow, or `count` equal ones.",
    groups: &[&[
        Key::new(
            "name",
            Kind::Text,
            "Name in results. Several flows get their number in the file behind it; flows that arrive one after \
             another, their number among those of this name.",
        )
        .default("\"flow\""),
        Key::new(
            "count",
            Kind::Integer { min: 1, max: MOST_FLOWS },
            "Number of such flows. Default: 1, or with arrivals as many as there is time for.",
        ).fixed(),
        Key::new(
            "hosts",
            Kind::Integer { min: 1, max: MOST_FLOWS },
            "Of a dumbbell, wlan or two cells: how many pairs (stations) these flows take in turn. Default: one for \
             each flow, with arrivals one for all.",
        ).fixed(),
        Key::new(
            "source",
            Kind::Text,
            "The sending node. A dumbbell gives each flow the next free pair, a wlan the next free station, two cells \
             the next free pair of stations.",
        ),
        Key::new("sink", Kind::Text, "The receiving node."),
        Key::new(
            "direction",
            Kind::Choice(|| vec!["forward", "reverse"]),
            "In a dumbbell: from source to sink, or back; in a wlan from a station to the server, or back. Default: \
             forward.",
        ),
        Key::new(
            "delay",
            ANY_TIME,
            "In a dumbbell: propagation delay of the access links of these flows' sources, both ways, so that round \
             trips differ. Default: that of the topology.",
        ),
        Key::new("transport", Kind::Transport, "The transport.").required(),
        Key::new("traffic", Kind::Tagged(&traffic::TRAFFIC), "What the application offers.")
            .default("\"ftp\""),
        Key::new(
            "reader",
            Kind::Rate,
            "Rate at which the receiving application reads, from a buffer of receiver_window; TCP. What waits there \
             closes the window, and counts as delivered. Default: it reads at once.",
        ),
        Key::new("start", Kind::OrTable(&ANY_TIME, &START), "When the application starts.")
            .default("{ uniform = [\"0 s\", \"1 s\"] }"),
        Key::new("stop", SOME_TIME, "When the application stops. Default: with the run."),
        Key::new(
            "dscp",
            Kind::Integer { min: 0, max: 63 },
            "Differentiated services code point of its packets, both ways: the access category in cells of 802.11n and \
             later follows from it. 46 is EF (voice), 34 AF41 (conferencing), 8 CS1 (background).",
        )
        .default("0"),
        Key::new(
            "reroute",
            Kind::List(&Kind::Table(&REROUTE)),
            "Paths that replace the shortest one while the run goes on, in the order of time. Default: none.",
        ),
    ]],
    partial: false,
};

static REROUTE: Table = Table {
    title: "reroute",
    doc: "From when on the flow takes another path, in both directions.",
    groups: &[&[
        Key::new("at", SOME_TIME, "From when on.").required(),
        Key::new("nodes", Kind::List(&Kind::Text), "All nodes of the path, from the source to the sink.")
            .required_or("add nodes = [\"server\", \"router\", \"phone\"]"),
        Key::new(
            "under_way",
            UNDER_WAY,
            "What happens to packets in flight on the old path: from the next node on they take the new one, or \
             they are lost there.",
        )
        .default("\"divert\""),
    ]],
    partial: false,
};

static START: Table = Table {
    title: "start",
    doc: "Starting times: drawn for each flow, or one after another.",
    groups: &[&[
        Key::new("uniform", Kind::List(&ANY_TIME), "Earliest and latest time, for each flow on its own."),
        Key::new(
            "arrivals",
            Kind::Choice(|| vec!["poisson", "periodic", "on-off", "listed"]),
            "Flows of this table arrive one after another: as a Poisson process, after equal gaps, as a Poisson \
             process that is on and off in turn, or at the times of a file. Without count as many do as arrive on \
             average until the end (or stop); with it a flow that would arrive later takes no part.",
        ),
        Key::new(
            "file",
            Kind::File,
            "Of listed arrivals, the file, relative to the scenario file: seconds from `from` on that do not fall, and \
             if you like a length in bytes, by line; with lengths each flow is a transfer of one, and traffic is left \
             out. # begins a comment; the first line may be a heading.",
        ),
        Key::new("every", SOME_TIME, "Mean time between two arrivals."),
        Key::new(
            "load",
            Kind::Number { min: 1e-6, max: 1000.0 },
            "In place of every: as often as fills this share of the slowest link on their path, headers of full \
             packets included.",
        ),
        Key::new("from", ANY_TIME, "Flows arrive from this time on.").default("\"0 s\""),
        Key::new(
            "on",
            SOME_TIME,
            "With on-off: mean of the exponential times in which flows arrive. They then come more often than one in \
             every.",
        )
        .or("add on = \"2 s\" and off = \"8 s\""),
        Key::new("off", SOME_TIME, "Mean of the exponential times between them.")
            .or("add on = \"2 s\" and off = \"8 s\""),
    ]],
    partial: false,
};
