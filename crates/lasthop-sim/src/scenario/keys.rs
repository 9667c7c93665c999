//! What a key is, and the keys that no part owns: those of the whole file and of results.
//!
//! From the tables come the checks (unknown keys, types, units, ranges), the defaults and the JSON schema. To add a
//! key, add it to the table of the part that it configures; nothing else lists keys. `declare.rs` declares a table
//! together with what is read of it. The keys of TCP are in `transport.rs`, beside the functions that apply them, and
//! the parameters of the controllers in `lasthop-cc`.

use lasthop_core::time::Span;
use lasthop_net::plan::TcpConfig;
use lasthop_net::traffic::size;

use super::flows;
use super::helpers;
use super::reader::Checked;
use super::realtime::REALTIME;
use super::topology::{CHANNEL, TOPOLOGY};
use super::transport;
use super::units::{self, Dimension};

/// Longest time that means anything here: 10^6 s are eleven days of simulated time.
pub(super) const LONGEST: Span = Span::from_secs(1_000_000);
/// Most flows of a scenario, and most pairs of a dumbbell.
pub(super) const MOST_FLOWS: u64 = 100_000;
/// Most flows of which results tell as of one.
pub(super) const MOST_OF_CLASS: u64 = 10_000_000;
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

    /// Whether nothing stands for it when it is missing.
    pub(super) const fn may_be_missing(&self) -> bool {
        self.default.is_none() && !self.required
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
        Key::new("warmup", ANY_TIME, "Time at which measurements start; nothing before it counts.")
            .default("\"0 s\"")
            .fixed(),
        Key::new(
            "processing_time",
            ANY_TIME,
            "Upper bound of the random processing delay of each packet at the sending host; packets stay in order. \
             About one transmission time of the bottleneck avoids phase effects (Floyd & Jacobson 1992). In the \
             profile ns2 it is ns-2's overhead_: the packets that one ACK allows wait once and leave together; \
             retransmissions leave at once.",
        )
        .default("\"0 s\""),
        Key::new("seed", Kind::Integer { min: 0, max: u64::MAX }, "Seed of all random streams.").default("1").fixed(),
        Key::new("limits", Kind::Table(&LIMITS), "Limits at which a run is aborted.").default("{}"),
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
            "Path history: congestion windows of earlier connections, from which senders may start.",
        ),
        Key::new(
            "helpers",
            Kind::AnyList(&A_HELPER),
            "Helpers in the network (PEPs), each a name or a table. A helper is placed at the base station, or at the \
             links that `at` names. `lasthop helpers` lists them. Default: none.",
        ),
        Key::new("tcp", Kind::Table(&transport::TCP), "Defaults of all TCP flows.").default("{}"),
        Key::new("udp", Kind::Table(&UDP), "Settings of all UDP flows.").default("{}"),
        Key::new("flows", Kind::List(&Kind::Table(&flows::FLOW)), "The flows. One table can stand for several.")
            .required_or("add a table [[flows]] with transport = \"reno\""),
    ]],
    partial: false,
};

static HISTORY: Table = Table {
    title: "history",
    doc: "Path history: with this table a run keeps one, by sink, hour, day, week and month.",
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
    doc: "A run that exceeds a limit ends with an error that names it.",
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
