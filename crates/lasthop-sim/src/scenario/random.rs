//! Random variables: numbers and quantities of a scenario that are drawn, for each run or for each flow.
//!
//! They are drawn in the tree of values before any key is read, so keys are read as ever. What is drawn goes through
//! the checks of its key, and so do the least and the most that could have been. `mod.rs` draws what holds for the run,
//! `flows.rs` asks for each flow. Every variable has a stream of its own, named by its path: one more leaves all others
//! as they were.

use lasthop_core::random::Stream;
use lasthop_net::plan::{Drawn, Size};

use super::diagnostic::{Place, ScenarioError, Source};
use super::keys::{Key, Kind, Table, Tagged, Variant};
use super::reader::{Checked, Item, Quantity, Reader, unknown_name};
use super::units::Unit;
use super::value::{Entry, Extremes, Map, Node, Value};

type Result<T> = std::result::Result<T, ScenarioError>;

/// The key that tells a random variable from other tables.
pub(super) const TAG: &str = "distribution";
/// Share of a distribution that `min` and `max` must leave.
const LEAST_LEFT: f64 = 0.01;
/// Draws outside of `min` and `max` in a row; with a hundredth left, this many have a probability of 1e-43.
const MOST_TRIES: usize = 10_000;
/// Uniform variables have 53 bits: the smallest above 0, and what is farthest out in the tails made of them.
const FINEST: f64 = 1.0 / (1_u64 << 53) as f64;

/// In place of a number or a quantity.
pub(super) static RANDOM: Tagged = Tagged {
    title: "random value",
    doc: "A distribution in place of nearly any number or quantity. The value is drawn for each run with its seed, \
          and within `[[flows]]` for each flow. Results report the drawn values. Durations are rounded to ns, rates \
          to bit/s, sizes to bytes, numbers of packets to whole ones. A distribution that could yield a value outside \
          the range of its key is refused.",
    variants: &[
        Variant { name: "uniform", table: &UNIFORM, bare: false },
        Variant { name: "normal", table: &NORMAL, bare: false },
        Variant { name: "log-normal", table: &LOG_NORMAL, bare: false },
        Variant { name: "exponential", table: &EXPONENTIAL, bare: false },
        Variant { name: "pareto", table: &PARETO, bare: false },
        Variant { name: "choice", table: &CHOICE, bare: false },
    ],
};

const SHARED: &[Key] = &[Key::new(
    "per",
    Kind::Choice(|| vec!["flow", "run"]),
    "What it is drawn for: each flow on its own, or once for the run. Default: within `[[flows]]` each flow, \
     elsewhere, and for the times of flows that arrive one after another, the run.",
)];

const BOUNDS: &[Key] = &[
    Key::new("min", Kind::Value, "Lower cut of the distribution: a smaller value is drawn again."),
    Key::new("max", Kind::Value, "Upper cut of the distribution: a larger value is drawn again."),
];

static UNIFORM: Table = Table {
    title: "uniform value",
    doc: "All values between two bounds are equally likely.",
    groups: &[
        &[
            Key::new("low", Kind::Value, "The least.").required_or("add low = \"10 ms\""),
            Key::new("high", Kind::Value, "The most.").required_or("add high = \"80 ms\""),
            Key::new(
                "step",
                Kind::Value,
                "Restricts the values to low plus whole steps, up to high; step = 1 gives whole numbers.",
            ),
        ],
        SHARED,
    ],
    partial: false,
};

static NORMAL: Table = Table {
    title: "normal value",
    doc: "Normal.",
    groups: &[
        &[
            Key::new("mean", Kind::Value, "Mean.").required_or("add mean = \"50 ms\""),
            Key::new("deviation", Kind::Value, "Standard deviation.")
                .required_or("add deviation = \"10 ms\""),
        ],
        BOUNDS,
        SHARED,
    ],
    partial: false,
};

static LOG_NORMAL: Table = Table {
    title: "log-normal value",
    doc: "Log-normal: its logarithm is normal.",
    groups: &[
        &[
            Key::new("median", Kind::Value, "Median.").required_or("add median = \"50 ms\""),
            Key::new(
                "sigma",
                Kind::Number { min: 0.001, max: 20.0 },
                "Standard deviation of the natural logarithm.",
            )
            .required_or("add sigma = 0.5")
            .fixed(),
        ],
        BOUNDS,
        SHARED,
    ],
    partial: false,
};

static EXPONENTIAL: Table = Table {
    title: "exponential value",
    doc: "Exponential.",
    groups: &[&[Key::new("mean", Kind::Value, "Mean.").required_or("add mean = \"50 ms\"")], BOUNDS, SHARED],
    partial: false,
};

static PARETO: Table = Table {
    title: "pareto value",
    doc: "Pareto: a few values are much larger than the others. The smallest is `mean * (shape - 1) / shape`.",
    groups: &[
        &[
            Key::new("mean", Kind::Value, "Mean.").required_or("add mean = \"50 ms\""),
            Key::new("shape", Kind::Number { min: 0.001, max: 1000.0 }, "Tail index, more than 1.")
                .required_or("add shape = 1.2")
                .fixed(),
        ],
        BOUNDS,
        SHARED,
    ],
    partial: false,
};

static CHOICE: Table = Table {
    title: "choice of values",
    doc: "One of the listed values.",
    groups: &[
        &[
            Key::new("values", Kind::List(&Kind::Value), "The values.")
                .required_or("add values = [\"10 ms\", \"80 ms\"]"),
            Key::new(
                "weights",
                Kind::List(&Kind::Number { min: 0.0, max: 1e9 }),
                "Relative probability of each value. Default: all equal.",
            )
            .fixed(),
        ],
        SHARED,
    ],
    partial: false,
};

/// Whether a table stands for a random variable. What has a kind has a key of this name for itself.
fn is_random(map: &Map) -> bool {
    map.find(TAG).is_some() && map.find("kind").is_none()
}

/// Whether some value within `node` is random.
pub(super) fn is_within(node: &Node) -> bool {
    match &node.value {
        Value::Map(map) => is_random(map) || map.entries.iter().any(|entry| is_within(&entry.node)),
        Value::List(list) => list.iter().any(is_within),
        _ => false,
    }
}

/// What a random variable is drawn from.
enum Law {
    Uniform {
        low: f64,
        high: f64,
        step: Option<f64>,
    },
    Normal {
        mean: f64,
        deviation: f64,
    },
    /// Those that lengths of transfers have, too.
    Skewed(Size),
    /// Values and the weight of those up to each.
    Choice(Vec<(f64, f64)>),
}

impl Law {
    fn sample(&self, stream: &mut Stream) -> f64 {
        match self {
            Law::Uniform { low, high, step: None } => low + (high - low) * stream.uniform(),
            Law::Uniform { low, high, step: Some(step) } => {
                low + step * stream.below(steps(*low, *high, *step) + 1) as f64
            }
            Law::Normal { mean, deviation } => mean + deviation * stream.normal(),
            Law::Skewed(size) => size.sample(stream),
            Law::Choice(values) => {
                let total = values.last().map_or(0.0, |last| last.1);
                let at = stream.uniform() * total;
                let found = values.iter().find(|(_, up_to)| at < *up_to);
                found.or(values.last()).map_or(0.0, |(value, _)| *value)
            }
        }
    }

    /// The probability of at most `x`, of those that can be cut off.
    fn below(&self, x: f64) -> f64 {
        let normal = |z: f64| 0.5 * (1.0 + libm::erf(z / std::f64::consts::SQRT_2));
        match self {
            Law::Normal { mean, deviation } => normal((x - mean) / deviation),
            Law::Skewed(_) if x <= 0.0 => 0.0,
            Law::Skewed(Size::Exponential { mean }) => 1.0 - libm::exp(-x / mean),
            Law::Skewed(Size::Pareto { scale, shape }) => 1.0 - libm::pow((scale / x).min(1.0), *shape),
            Law::Skewed(Size::LogNormal { median, sigma }) => normal(libm::log(x / median) / sigma),
            _ => 1.0,
        }
    }

    /// Every value that might be the farthest out. Tails end where those of the generator do.
    fn extremes(&self) -> Vec<f64> {
        let farthest = (-2.0 * libm::log(FINEST)).sqrt();
        match self {
            Law::Uniform { low, high, step: None } => vec![*low, *high],
            Law::Uniform { low, high, step: Some(step) } => {
                vec![*low, low + step * steps(*low, *high, *step) as f64]
            }
            Law::Normal { mean, deviation } => vec![mean - farthest * deviation, mean + farthest * deviation],
            Law::Skewed(Size::Exponential { mean }) => vec![0.0, -mean * libm::log(FINEST)],
            Law::Skewed(Size::Pareto { scale, shape }) => {
                vec![*scale, scale * libm::pow(FINEST, -1.0 / shape)]
            }
            Law::Skewed(Size::LogNormal { median, sigma }) => {
                vec![median * libm::exp(-farthest * sigma), median * libm::exp(farthest * sigma)]
            }
            Law::Skewed(_) => Vec::new(),
            Law::Choice(values) => values.iter().map(|(value, _)| *value).collect(),
        }
    }

    /// Whether it gives whole numbers only.
    fn is_whole(&self) -> bool {
        match self {
            Law::Uniform { low, step: Some(step), .. } => low.fract() == 0.0 && step.fract() == 0.0,
            Law::Choice(values) => values.iter().all(|(value, _)| value.fract() == 0.0),
            _ => false,
        }
    }

    /// What to do if its key does not take every value.
    fn remedy(&self) -> &'static str {
        match self {
            Law::Uniform { .. } => "choose low and high so",
            Law::Choice(_) => "choose values so",
            _ => "cut the distribution off with min and max",
        }
    }
}

/// How many whole steps lie between two values; a rounding error loses none.
fn steps(low: f64, high: f64, step: f64) -> u64 {
    ((high - low) / step + 1e-9) as u64
}

/// Which flows share one draw.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Per {
    Flow,
    Run,
}

/// A random variable of a scenario.
struct Variable {
    law: Law,
    unit: Option<Unit>,
    bounds: (f64, f64),
    per: Option<Per>,
}

/// The parameters of a variable, all in one unit of measurement.
struct Parameters<'n> {
    table: Reader<'n>,
    first: Option<(&'n str, Option<Unit>)>,
}

impl<'n> Parameters<'n> {
    /// The parameter called `key`, in base units.
    fn value(&mut self, key: &'n str) -> Result<f64> {
        let Checked::Quantity(quantity) = self.table.value(key)? else { panic!("`{key}` is a value") };
        self.alike(key, quantity, self.table.place_of(key))
    }

    fn value_if(&mut self, key: &'n str) -> Result<Option<f64>> {
        if self.table.has(key) { self.value(key).map(Some) } else { Ok(None) }
    }

    fn positive(&mut self, key: &'n str) -> Result<f64> {
        let value = self.value(key)?;
        if value > 0.0 {
            return Ok(value);
        }
        Err(self.table.error(key, format!("{key} of the distribution is not positive"), "write more than 0"))
    }

    /// Refuses a delay beside a rate.
    fn alike(&mut self, key: &'n str, quantity: Quantity, place: &Place) -> Result<f64> {
        let noun = |unit: Option<Unit>| unit.map_or("a number without a unit", |unit| unit.dimension.noun);
        let (first, unit) = *self.first.get_or_insert((key, quantity.unit));
        if noun(unit) != noun(quantity.unit) {
            let message = format!("{first} is {}, and {key} is {}", noun(unit), noun(quantity.unit));
            return Err(self.table.source.error(place, message, "write both in units of the same kind"));
        }
        Ok(quantity.value)
    }

    fn law(&mut self, name: &str) -> Result<Law> {
        let table = self.table;
        Ok(match name {
            "uniform" => {
                let (low, high, step) = (self.value("low")?, self.value("high")?, self.value_if("step")?);
                if low >= high {
                    let message = "high is not above low".to_owned();
                    return Err(table.error("high", message, "write the lower value as low"));
                }
                if let Some(step) = step
                    && (step <= 0.0 || step > high - low || (high - low) / step > 1e15)
                {
                    let message = "step does not divide what lies between low and high".to_owned();
                    return Err(table.error("step", message, "write more than 0 and at most high - low"));
                }
                Law::Uniform { low, high, step }
            }
            "normal" => Law::Normal { mean: self.value("mean")?, deviation: self.positive("deviation")? },
            "log-normal" => Law::Skewed(Size::LogNormal {
                median: self.positive("median")?,
                sigma: table.number("sigma")?,
            }),
            "exponential" => Law::Skewed(Size::Exponential { mean: self.positive("mean")? }),
            "pareto" => {
                let (mean, shape) = (self.positive("mean")?, table.number("shape")?);
                if shape <= 1.0 {
                    let message = format!("a Pareto distribution with shape {shape} has no mean");
                    return Err(table.error("shape", message, "write more than 1, such as 1.2"));
                }
                Law::Skewed(Size::Pareto { scale: mean * (shape - 1.0) / shape, shape })
            }
            _ => Law::Choice(self.choice()?),
        })
    }

    fn choice(&mut self) -> Result<Vec<(f64, f64)>> {
        let table = self.table;
        let mut values = Vec::new();
        for Item { value, place } in table.list("values")? {
            let Checked::Quantity(quantity) = value else { continue };
            values.push(self.alike("values", quantity, place)?);
        }
        let mut weights = vec![1.0; values.len()];
        if let Some(listed) = table.list_if("weights")? {
            let number =
                |item: &Item<'_>| if let Checked::Number(number) = item.value { number } else { 0.0 };
            weights = listed.iter().map(number).collect();
            if weights.len() != values.len() {
                let message = format!("{} weights for {} values", weights.len(), values.len());
                return Err(table.error("weights", message, "write one for each value"));
            }
            if weights.iter().all(|weight| *weight == 0.0) {
                let message = "no value has a weight".to_owned();
                return Err(table.error("weights", message, "write more than 0 for one of them"));
            }
        }
        let mut up_to = 0.0;
        let mut with_weight = |(value, weight)| {
            up_to += weight;
            (value, up_to)
        };
        Ok(values.into_iter().zip(weights).filter(|one| one.1 > 0.0).map(&mut with_weight).collect())
    }
}

impl Variable {
    fn read(source: &Source<'_>, map: &Map, place: &Place) -> Result<Variable> {
        let tag = map.find(TAG).map(|entry| &entry.node);
        let Some(Node { value: Value::Text(name), .. }) = tag else {
            let place = tag.map_or(place, |tag| &tag.place);
            let message = format!("{TAG} is not a name");
            let remedy = format!("expected one of {}", super::diagnostic::listed(&RANDOM.names()));
            return Err(source.error(place, message, &remedy));
        };
        let Some(variant) = RANDOM.variants.iter().find(|variant| variant.name == name) else {
            let node = tag.unwrap_or_else(|| panic!("it has a name"));
            return Err(unknown_name(source, TAG, node, name, &RANDOM.names()));
        };
        let table = Reader::open_with(source, variant.table, (map, place), &[TAG])?;
        let per = table.name_if("per")?.map(|per| if per == "run" { Per::Run } else { Per::Flow });
        let mut parameters = Parameters { table, first: None };
        let law = parameters.law(variant.name)?;
        let mut bounds = (f64::NEG_INFINITY, f64::INFINITY);
        if variant.table.keys().any(|key| key.name == "min") {
            bounds.0 = parameters.value_if("min")?.unwrap_or(bounds.0);
            bounds.1 = parameters.value_if("max")?.unwrap_or(bounds.1);
            let left = law.below(bounds.1) - law.below(bounds.0);
            if left < LEAST_LEFT {
                let key = if table.has("max") { "max" } else { "min" };
                let message = "min and max leave less than 1 % of the distribution".to_owned();
                return Err(table.error(key, message, "move them apart, or choose other parameters"));
            }
        }
        let unit = parameters.first.and_then(|(_, unit)| unit);
        Ok(Variable { law, unit, bounds, per })
    }

    fn draw(&self, stream: &mut Stream) -> f64 {
        let (min, max) = self.bounds;
        let mut tries = (0..MOST_TRIES).map(|_| self.law.sample(stream));
        let drawn = tries.find(|value| (min..=max).contains(value)).unwrap_or(min);
        if self.unit.is_some_and(|unit| unit.dimension.is_whole()) { drawn.round() } else { drawn }
    }

    /// A value as a scenario would say it.
    fn written(&self, value: f64) -> Value {
        match self.unit {
            None if self.law.is_whole() => Value::Integer(value as i128),
            None => Value::Float(value),
            Some(unit) => {
                let (name, size) = unit.dimension.base();
                Value::Text(format!("{} {name}", value / size))
            }
        }
    }

    /// The same in the unit of the file: one that a message may show.
    fn shown(&self, value: f64) -> Value {
        match self.unit {
            Some(unit) if unit.dimension.may_be_parted() => {
                let digits = format!("{:.9e}", value / unit.size);
                let number: f64 = digits.parse().unwrap_or(value / unit.size);
                Value::Text(format!("{number} {}", unit.name))
            }
            _ => self.written(if self.unit.is_some() { value.round() } else { value }),
        }
    }

    /// The node that holds a draw, and what else might have been drawn.
    fn node(&self, value: f64, place: &Place) -> Node {
        let (min, max) = self.bounds;
        let nodes = (self.law.extremes().into_iter())
            .map(|extreme| Node::new(self.shown(extreme.clamp(min, max)), place.clone()))
            .collect();
        let mut node = Node::new(self.written(value), place.clone());
        node.extremes =
            Some(Extremes { nodes, is_whole: self.law.is_whole(), remedy: self.law.remedy() }.into());
        node
    }
}

/// What is drawn for one run.
pub(super) struct Draws<'n> {
    source: &'n Source<'n>,
    seed: u64,
    /// The entries of `[[flows]]` as they were written; none if nothing of the scenario is random.
    entries: Vec<Written<'n>>,
    /// What was drawn so far.
    pub(super) drawn: Drawn,
}

/// An entry of `[[flows]]`.
struct Written<'n> {
    node: &'n Node,
    /// Where its variables lie: `flows.web`.
    path: String,
    /// What streams of its flows are named by.
    name: String,
    varies: bool,
}

impl<'n> Draws<'n> {
    /// Nothing drawn yet.
    pub(super) fn new(source: &'n Source<'n>, seed: u64) -> Draws<'n> {
        Draws { source, seed, entries: Vec::new(), drawn: Drawn::default() }
    }

    /// The scenario with what is drawn for the run. Each entry of `[[flows]]` has the values of its first flow.
    pub(super) fn run(&mut self, root: &'n Node) -> Result<Node> {
        let mut draw = Draw::new(self.source, self.seed);
        let Value::Map(map) = &root.value else { return Ok(root.clone()) };
        let mut entries = Vec::with_capacity(map.entries.len());
        for Entry { key, key_place, node } in &map.entries {
            let node = match &node.value {
                Value::List(list) if key == "flows" => {
                    let drawn = list.iter().map(|node| {
                        let written = self.written(node);
                        let drawn = draw.entry(&written, 1)?;
                        self.entries.push(Written { varies: !draw.flow.is_empty(), ..written });
                        draw.flow.clear();
                        Ok(drawn)
                    });
                    let drawn = drawn.collect::<Result<_>>()?;
                    Node::new(Value::List(drawn), node.place.clone())
                }
                _ => draw.node(node, key, Per::Run)?,
            };
            entries.push(Entry { key: key.clone(), key_place: key_place.clone(), node });
        }
        self.drawn.run = distinct(draw.run);
        Ok(Node::new(Value::Map(Map { entries }), root.place.clone()))
    }

    fn written(&self, node: &'n Node) -> Written<'n> {
        let name = name_of(node).unwrap_or("flow").to_owned();
        let before = self.entries.iter().filter(|entry| entry.name == name).count();
        let path =
            if before == 0 { format!("flows.{name}") } else { format!("flows.{name} ({})", before + 1) };
        Written { node, path, name, varies: false }
    }

    /// Whether the flows of an entry differ in what is drawn.
    pub(super) fn varies(&self, entry: usize) -> bool {
        self.entries.get(entry).is_some_and(|entry| entry.varies)
    }

    /// Whether something within a key of an entry is drawn for each of its flows.
    pub(super) fn varies_in(&self, entry: usize, key: &str) -> bool {
        let Some(Value::Map(map)) = self.entries.get(entry).map(|entry| &entry.node.value) else {
            return false;
        };
        self.varies(entry) && map.find(key).is_some_and(|entry| is_within(&entry.node))
    }

    /// An entry of `[[flows]]` with the values of one of its flows: `number` in the run, and `copy` by its name.
    pub(super) fn flow(&mut self, entry: usize, copy: usize, number: usize) -> Result<Node> {
        let mut draw = Draw::new(self.source, self.seed);
        let drawn = draw.entry(&self.entries[entry], copy)?;
        self.drawn.flows.insert(number, distinct(draw.flow));
        Ok(drawn)
    }
}

/// The name that an element gives itself.
fn name_of(node: &Node) -> Option<&str> {
    let Value::Map(map) = &node.value else { return None };
    match map.find("name").map(|entry| &entry.node.value) {
        Some(Value::Text(name)) => Some(name),
        _ => None,
    }
}

/// Gives every value a column of its own.
fn distinct(values: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let mut known: Vec<(String, f64)> = Vec::with_capacity(values.len());
    for (name, value) in values {
        let taken = |name: &str| known.iter().any(|(other, _)| other == name);
        let further = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(further).find(|name| !taken(name));
        known.push((free.unwrap_or(name), value));
    }
    known
}

/// One pass over a part of the tree.
struct Draw<'n> {
    source: &'n Source<'n>,
    seed: u64,
    /// Of an entry of `[[flows]]`: which of the flows of its name it is, this name, and its own path.
    of: Option<(usize, String, String)>,
    run: Vec<(String, f64)>,
    flow: Vec<(String, f64)>,
}

impl<'n> Draw<'n> {
    fn new(source: &'n Source<'n>, seed: u64) -> Draw<'n> {
        Draw { source, seed, of: None, run: Vec::new(), flow: Vec::new() }
    }

    /// An entry of `[[flows]]` with the values of its flow `copy`.
    fn entry(&mut self, written: &Written<'_>, copy: usize) -> Result<Node> {
        self.of = Some((copy, written.name.clone(), format!("{}.", written.path)));
        let Value::Map(map) = &written.node.value else { return Ok(written.node.clone()) };
        let arrive = map.find("start").is_some_and(
            |start| matches!(&start.node.value, Value::Map(start) if start.find("arrivals").is_some()),
        );
        let mut entries = Vec::with_capacity(map.entries.len());
        for Entry { key, key_place, node } in &map.entries {
            let usual =
                if arrive && ["start", "stop"].contains(&key.as_str()) { Per::Run } else { Per::Flow };
            let node = self.node(node, &format!("{}.{key}", written.path), usual)?;
            entries.push(Entry { key: key.clone(), key_place: key_place.clone(), node });
        }
        self.of = None;
        Ok(Node::new(Value::Map(Map { entries }), written.node.place.clone()))
    }

    fn node(&mut self, node: &Node, path: &str, usual: Per) -> Result<Node> {
        let value = match &node.value {
            Value::Map(map) if is_random(map) => return self.variable(map, &node.place, path, usual),
            Value::Map(map) => {
                let entries = map.entries.iter().map(|Entry { key, key_place, node }| {
                    let node = self.node(node, &format!("{path}.{key}"), usual)?;
                    Ok(Entry { key: key.clone(), key_place: key_place.clone(), node })
                });
                Value::Map(Map { entries: entries.collect::<Result<_>>()? })
            }
            Value::List(list) => {
                let nodes = list.iter().enumerate().map(|(index, node)| {
                    let name = name_of(node)
                        .filter(|name| list.iter().filter(|other| name_of(other) == Some(name)).count() == 1);
                    let step = name.map_or_else(|| index.to_string(), str::to_owned);
                    self.node(node, &format!("{path}.{step}"), usual)
                });
                Value::List(nodes.collect::<Result<_>>()?)
            }
            _ => return Ok(node.clone()),
        };
        Ok(Node::new(value, node.place.clone()))
    }

    fn variable(&mut self, map: &Map, place: &Place, path: &str, usual: Per) -> Result<Node> {
        let variable = Variable::read(self.source, map, place)?;
        let per = variable.per.unwrap_or(usual);
        if per == Per::Flow && usual == Per::Run {
            let message = "this is drawn once for the run, not for each flow".to_owned();
            let place = map.find("per").map_or(place, |entry| &entry.node.place);
            return Err(self.source.error(place, message, "leave per out, or write \"run\""));
        }
        // Of a flow the column says no more than what is in its row.
        let (stream, column) = match &self.of {
            Some((copy, name, entry)) if per == Per::Flow => {
                (format!("value of {path}, {name} {copy}"), path.strip_prefix(entry.as_str()).unwrap_or(path))
            }
            _ => (format!("value of {path}"), path),
        };
        let value = variable.draw(&mut Stream::new(self.seed, &stream));
        let (per_si, ending) = variable.unit.map_or((1.0, ""), |unit| unit.dimension.si());
        let columns = if per == Per::Flow { &mut self.flow } else { &mut self.run };
        columns.push((format!("{}{ending}", column_name(column)), value * per_si));
        Ok(variable.node(value, place))
    }
}

/// A path as part of the name of a column.
fn column_name(path: &str) -> String {
    path.chars().map(|character| if character.is_alphanumeric() { character } else { '_' }).collect()
}
