//! Scenario files: from TOML or JSON text to a checked [`Plan`].
//!
//! ```text
//! text -> tree of values with places -> overrides -> readers that follow the declared keys -> Plan
//!         value.rs                      overrides.rs  reader.rs, topology.rs, flows.rs, ...
//! ```
//!
//! The front calls [`Scenario::load`] or [`Scenario::parse`]; a mistake of the user comes back as one
//! [`ScenarioError`] whose text is ready to print. Nothing in here panics on any input, and nothing large is
//! made before its size is known to be reasonable.

mod aggregation;
mod arq;
mod arrival_file;
mod arrivals;
mod cell;
mod cellular;
mod class;
mod cqi_file;
mod declare;
mod diagnostic;
mod error;
mod flows;
mod frame_file;
mod helpers;
pub(crate) mod input_file;
mod keys;
mod link;
mod middlebox;
mod outages;
mod overrides;
mod paths;
mod queue;
mod random;
mod rate;
mod reader;
mod realtime;
mod renamed;
mod roaming;
mod schema;
mod size_file;

mod split;
mod stack;
mod topology;
mod trace;
pub(crate) mod trace_file;
mod traffic;
mod transport;
mod units;
mod value;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
#[cfg(not(target_family = "wasm"))]
use std::time::Instant;

use lasthop_core::time::Span;
use lasthop_net::history::HistoryEntry;
use lasthop_net::plan::{HistoryPlan, Limits, Percentiles, Plan};

pub(crate) use diagnostic::suggest;
use diagnostic::{Place, Source};
pub use diagnostic::{ScenarioError, nearest};
pub use input_file::Files;
use input_file::InputFiles;
use random::Draws;
use reader::Reader;
pub use schema::{helpers, plain_schema, schema};
pub(crate) use stack::of as stack_of;
pub use stack::{STACKS, Stack};
pub use trace_file::Way;
pub use transport::{OwnTransport, OwnTransportError};
use value::{Entry, Node, Value};
// A browser has a clock, but the standard library cannot read it.
#[cfg(target_family = "wasm")]
use web_time::Instant;

/// Longest scenario text in bytes. The largest that people write by hand are a hundred times shorter.
const LONGEST_TEXT: u64 = 1 << 20;

/// What reading may take beside `limits.wall_time`: small limits are for the run.
const READING: Duration = Duration::from_secs(2);

/// How a scenario is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Toml,
    /// For programs; the same structure.
    Json,
}

/// A scenario that has passed every check.
#[derive(Clone, Debug)]
pub struct Scenario {
    plan: Plan,
    json: String,
    input_files: Vec<PathBuf>,
    /// Former names of keys that were written, with today's.
    renamed: Vec<(&'static str, &'static str)>,
    /// What it is read from again for the values of another seed, if it has some that are random.
    random: Option<Arc<Written>>,
}

/// A scenario as it was written, overrides included, with all that reading it takes.
#[derive(Debug)]
struct Written {
    root: Node,
    name: String,
    file: Option<String>,
    text: String,
    overrides: Vec<(String, String)>,
    files: input_file::Kept,
    own: Option<Vec<OwnTransport>>,
}

impl Scenario {
    /// The same scenario, told by another plan: a live run has the flows that there were.
    #[must_use]
    pub fn with_plan(&self, plan: Plan) -> Scenario {
        Scenario { plan, ..self.clone() }
    }

    /// Reads the file at `path` (JSON if it ends so, TOML otherwise) and applies `overrides`, pairs of a path
    /// of keys and a value.
    pub fn load(path: impl AsRef<Path>, overrides: &[(String, String)]) -> Result<Scenario, ScenarioError> {
        Scenario::load_with(path, overrides, &[])
    }

    /// The same; it may also name transports that are not compiled in.
    pub fn load_with(
        path: impl AsRef<Path>,
        overrides: &[(String, String)],
        own: &[OwnTransport],
    ) -> Result<Scenario, ScenarioError> {
        load(path.as_ref(), overrides, Flows::Needed(own), None)
    }

    /// The same, and the files that it names must lie below its folder or the current one, but for those in the
    /// overrides with the keys `asked`.
    pub fn load_untrusted(
        path: impl AsRef<Path>,
        overrides: &[(String, String)],
        own: &[OwnTransport],
        asked: &[String],
    ) -> Result<Scenario, ScenarioError> {
        load(path.as_ref(), overrides, Flows::Needed(own), Some(asked))
    }

    /// Reads `text`. `name` is the scenario's name unless it gives one itself, and stands for the file in
    /// messages.
    pub fn parse(
        text: &str,
        format: Format,
        name: &str,
        overrides: &[(String, String)],
    ) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(text, format, (name, Path::new("")), overrides, &[])
    }

    /// The same; it may also name transports that are not compiled in. The files that it names are
    /// `files`.
    pub fn parse_with<'a>(
        text: &str,
        format: Format,
        (name, files): (&str, impl Into<Files<'a>>),
        overrides: &[(String, String)],
        own: &[OwnTransport],
    ) -> Result<Scenario, ScenarioError> {
        if text.len() as u64 > LONGEST_TEXT {
            return Err(too_long(name, text.len() as u64));
        }
        // The place in JSON is the path of keys alone: the text was made by a program.
        let file = (format == Format::Toml).then_some(name);
        read(text, format, file, (name, files.into()), overrides, Flows::Needed(own))
    }

    /// Reads `text` as [`Scenario::parse`] does, for a network that programs use: it needs no flows, and a dumbbell
    /// without any has one pair. The files that it names are `files`.
    pub fn parse_network<'a>(
        text: &str,
        format: Format,
        (name, files): (&str, impl Into<Files<'a>>),
    ) -> Result<Scenario, ScenarioError> {
        if text.len() as u64 > LONGEST_TEXT {
            return Err(too_long(name, text.len() as u64));
        }
        let file = (format == Format::Toml).then_some(name);
        read(text, format, file, (name, files.into()), &[], Flows::Optional)
    }

    /// The same of the file at `path`.
    pub fn load_network(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
        load(path.as_ref(), &[], Flows::Optional, None)
    }

    /// The scenario with the random values of a run with this seed; the same if it has none. It was read with those of
    /// its own seed. An error says that some values do not go together.
    pub fn seeded(&self, seed: u64) -> Result<Cow<'_, Scenario>, ScenarioError> {
        let Some(written) = self.random.as_ref().filter(|_| self.plan.seed != seed) else {
            return Ok(Cow::Borrowed(self));
        };
        let source =
            Source { file: written.file.as_deref(), text: &written.text, overrides: &written.overrides };
        let flows = written.own.as_deref().map_or(Flows::Optional, Flows::Needed);
        let mut files = InputFiles::new(written.files.files());
        let plan = plan(&written.root, &source, &written.name, (flows, Some(seed)), &mut files);
        let mut plan = plan.map_err(|error| error.with_seed(seed))?;
        if let (Some(history), Some(known)) = (&mut plan.history, &self.plan.history) {
            history.snapshot.clone_from(&known.snapshot);
        }
        Ok(Cow::Owned(Scenario { plan, ..self.clone() }))
    }

    /// The checked plan of the run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The checked plan of the run, by value.
    pub fn into_plan(self) -> Plan {
        self.plan
    }

    /// The same with what is known of the paths before the run, oldest first. Without a table `[history]` it is not
    /// used.
    #[must_use]
    pub fn with_history(&self, entries: Vec<HistoryEntry>) -> Scenario {
        let mut scenario = self.clone();
        if let Some(history) = &mut scenario.plan.history {
            history.snapshot = entries.into();
        }
        scenario
    }

    /// The files beside the scenario whose contents decide what a run does, each once, as they were opened.
    pub fn input_files(&self) -> &[PathBuf] {
        &self.input_files
    }

    /// Keys that were written with a name that they had before, and their names of today.
    pub fn renamed(&self) -> &[(&'static str, &'static str)] {
        &self.renamed
    }

    /// The scenario after overrides as JSON; reading it again gives the same plan.
    pub fn to_json(&self) -> String {
        self.json.clone()
    }
}

/// Which flows a scenario may have.
#[derive(Clone, Copy)]
enum Flows<'a> {
    /// At least one; these transports are not compiled in.
    Needed(&'a [OwnTransport]),
    /// Programs bring their own.
    Optional,
}

/// Reads the file at `path`; what it may read is limited if it is not trusted.
fn load(
    path: &Path,
    overrides: &[(String, String)],
    flows: Flows<'_>,
    asked: Option<&[String]>,
) -> Result<Scenario, ScenarioError> {
    let shown = path.display().to_string();
    let text = read_text(path, &shown)?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let stem = path.file_stem().map_or_else(|| shown.clone(), |stem| stem.to_string_lossy().into_owned());
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let format = if is_json { Format::Json } else { Format::Toml };
    let folder = path.parent().unwrap_or(Path::new(""));
    let files = asked.map_or(Files::In(folder), |asked| Files::Below(folder, asked));
    read(text, format, Some(&shown), (&stem, files), overrides, flows)
}

/// The text of a file that may be a scenario: neither a directory, nor too long, nor binary.
fn read_text(path: &Path, shown: &str) -> Result<String, ScenarioError> {
    let refuse = |message: &str, remedy: &str| Err(ScenarioError::of_file(shown, message.to_owned(), remedy));
    let unreadable = |error: &std::io::Error| {
        let message = format!("the file cannot be read: {}", reason(error));
        ScenarioError::of_file(shown, message, "check the path and its permissions")
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse("there is no such file", &similar_file(path));
        }
        Err(error) => return Err(unreadable(&error)),
    };
    if metadata.is_dir() {
        return refuse(
            "this is a directory, not a scenario file",
            "name a file in it, such as one ending in .toml",
        );
    }
    if metadata.len() > LONGEST_TEXT {
        return Err(too_long(shown, metadata.len()));
    }
    // Devices and pipes have no length of their own: never read more than a scenario may have.
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    file.take(LONGEST_TEXT + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > LONGEST_TEXT {
        return Err(too_long(shown, bytes.len() as u64));
    }
    if let Some(position) = bytes.iter().position(|&byte| byte == 0) {
        return refuse(
            &format!("this is not a text file: byte {position} is zero"),
            "a scenario is TOML text in UTF-8",
        );
    }
    String::from_utf8(bytes).or_else(|error| {
        let position = error.utf8_error().valid_up_to();
        refuse(
            &format!("this is not a text file: byte {position} is not UTF-8"),
            "a scenario is TOML text in UTF-8",
        )
    })
}

fn too_long(shown: &str, length: u64) -> ScenarioError {
    let message = format!("the file is too large: {length} bytes, more than {LONGEST_TEXT}");
    ScenarioError::of_file(shown, message, "a scenario is a short text; use count for many equal flows")
}

/// The words of the system without its error number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A file of a similar name beside the one that does not exist.
fn similar_file(path: &Path) -> String {
    const MOST: usize = 1_000;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wanted = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names: Vec<String> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .take(MOST)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "toml" || ending == "json"))
        .collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match nearest(&wanted, &names) {
        Some(name) => format!("did you mean {}?", path.with_file_name(name).display()),
        None => "check the path; `lasthop new` writes a scenario to start from".to_owned(),
    }
}

/// What is wrong with `text` before anybody asks what it means: `None` if it is TOML, or JSON. Studies and papers are
/// read elsewhere, and tell their slips in the same words.
pub fn syntax_error(text: &str, format: Format, file: &str) -> Option<ScenarioError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let shown = if format == Format::Toml { text } else { "" };
    let source = Source { file: Some(file), text: shown, overrides: &[] };
    match format {
        Format::Toml => value::from_toml(&source).err(),
        Format::Json => value::from_json(text, &source).err(),
    }
}

/// All of it, from text to plan.
fn read(
    text: &str,
    format: Format,
    file: Option<&str>,
    (name, files): (&str, Files<'_>),
    overrides: &[(String, String)],
    flows: Flows<'_>,
) -> Result<Scenario, ScenarioError> {
    let shown = if format == Format::Toml { text } else { "" };
    let source = Source { file, text: shown, overrides };
    if text.trim().is_empty() {
        let place = file.unwrap_or(name);
        let remedy = "`lasthop new` writes a scenario to start from";
        return Err(ScenarioError::of_file(place, "the scenario is empty".to_owned(), remedy));
    }
    let mut root = match format {
        Format::Toml => value::from_toml(&source)?,
        Format::Json => value::from_json(text, &source)?,
    };
    let mut names = renamed::Names::beside(if let Flows::Needed(own) = flows { own } else { &[] });
    names.renew(&mut root, &source)?;
    if let Value::Map(_) = root.value {
        overrides::apply(&mut root, &source, &mut names)?;
    }
    if let (Flows::Optional, Value::Map(map)) = (flows, &mut root.value)
        && map.find("flows").is_none()
    {
        let node = Node::new(Value::List(Vec::new()), Place::Default);
        map.entries.push(Entry { key: "flows".to_owned(), key_place: Place::Default, node });
    }
    let mut input_files = InputFiles::new(files);
    let plan = plan(&root, &source, name, (flows, None), &mut input_files)?;
    let random = random::is_within(&root).then(|| {
        Arc::new(Written {
            root: root.clone(),
            name: name.to_owned(),
            file: file.map(str::to_owned),
            text: shown.to_owned(),
            overrides: overrides.to_vec(),
            files: input_file::Kept::new(files),
            own: if let Flows::Needed(own) = flows { Some(own.to_vec()) } else { None },
        })
    });
    let json = to_json(root, name);
    Ok(Scenario { plan, json, input_files: input_files.paths(), renamed: names.met, random })
}

fn to_json(mut root: Node, name: &str) -> String {
    // The name may have come from the file; the JSON alone must give the same plan.
    if let Value::Map(map) = &mut root.value
        && map.find("name").is_none()
    {
        let node = Node::new(Value::Text(name.to_owned()), Place::Default);
        map.entries.insert(0, Entry { key: "name".to_owned(), key_place: Place::Default, node });
    }
    // A tree of strings and finite numbers always has a JSON form.
    serde_json::to_string(&root).unwrap_or_default()
}

/// The plan of a run with the seed `drawn_with`, or its own; only random values depend on it.
fn plan(
    root: &Node,
    source: &Source<'_>,
    name: &str,
    (wanted, drawn_with): (Flows<'_>, Option<u64>),
    files: &mut InputFiles<'_>,
) -> Result<Plan, ScenarioError> {
    let started = Instant::now();
    let mut draws = Draws::new(source, 0);
    let drawn;
    let root = if random::is_within(root) {
        let written = Reader::open(source, &keys::ROOT, "the scenario", root)?;
        draws = Draws::new(source, drawn_with.map_or_else(|| written.integer("seed"), Ok)?);
        drawn = draws.run(root)?;
        &drawn
    } else {
        root
    };
    let root = Reader::open(source, &keys::ROOT, "the scenario", root)?;
    let name = root.text_if("name")?.unwrap_or(name).to_owned();
    let duration = root.span("duration")?;
    let warmup = root.span("warmup")?;
    if warmup >= duration {
        let message = format!("the warm-up of {warmup} leaves nothing of the run of {duration} to measure");
        return Err(root.error("warmup", message, "shorten warmup or raise duration"));
    }
    let seed = root.integer("seed")?;
    let limits = root.sub("limits")?;
    let limits = Limits { events: limits.integer("events")?, wall_time: limits.span("wall_time")? };
    let measure = root.sub("measure")?;
    let series_interval: Span = measure.span("series_interval")?;
    let percentiles = match measure.name("percentiles")? {
        "exact" => Percentiles::Exact,
        _ => Percentiles::Sketch,
    };
    let realtime = realtime::Settings::read(&measure)?;

    let history = match root.sub_if("history")? {
        Some(history) => Some(HistoryPlan {
            clock: history.moment("clock")?,
            file: history.text_if("file")?.map(str::to_owned),
            snapshot: Arc::default(),
        }),
        None => None,
    };

    let in_time = || {
        if started.elapsed() <= Duration::from_nanos(limits.wall_time.0).saturating_add(READING) {
            return Ok(());
        }
        let message =
            format!("reading the scenario takes longer than limits.wall_time, {}", limits.wall_time);
        Err(root.error("flows", message, "raise limits.wall_time, or lower the number of flows"))
    };
    let (mut tables, count) = flows::open(&root)?;
    let own = match wanted {
        Flows::Needed(own) => own,
        Flows::Optional => &[],
    };
    let shared = transport::Shared::read(&root, own)?;
    let mut network = topology::read(&root, duration, count.max(1), (&shared, files))?;
    let run = flows::Run { network: &network, duration, events: limits.events, realtime: &realtime };
    let flows = flows::read(&mut tables, &shared, &run, &mut draws, files)?;
    flows::delay(&tables, &flows, &mut network)?;
    in_time()?;
    helpers::fit(&root, &mut network, &shared, &flows)?;
    in_time()?;
    class::check(&tables, &flows, &network, history.as_ref())?;
    let flows = flows::split(&tables, &network, flows)?;
    in_time()?;
    helpers::check_connections(&root, &network, &flows)?;
    helpers::check_crossings(&root, &network, &flows)?;
    in_time()?;
    Ok(Plan {
        name,
        duration,
        warmup,
        processing_time: root.span("processing_time")?,
        seed,
        limits,
        series_interval,
        percentiles,
        nodes: network.nodes,
        links: network.links,
        media: network.media,
        cellular: network.cellular,
        roaming: network.roaming,
        flows,
        history,
        drawn: draws.drawn,
    })
}
