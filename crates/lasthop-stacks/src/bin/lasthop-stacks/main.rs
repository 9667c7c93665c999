//! Runs transport stacks over the network of a scenario, beside the scenario's own flows:
//! `cargo run --release -p lasthop-stacks -- scenarios/single-flow.toml --stack quinn --congestion bbr`.

use std::cell::RefCell;
use std::fmt::Write;
use std::process::ExitCode;
use std::rc::Rc;

use lasthop::{Network, Span, Time};
use lasthop_sim::scenario::Scenario;
use lasthop_stacks::judge::wire::Secrets;
use lasthop_stacks::judge::{Findings, Judge, Rule};
use lasthop_stacks::quinn::{Congestion, ID_BYTES, Settings};
use lasthop_stacks::{Connection, Ends, Run, Stack, noq, quinn};

mod table;

const USAGE: &str = "\
lasthop-stacks SCENARIO [options]: bulk transfers of real stacks over a scenario's network, beside its own flows
lasthop-stacks --table: the tables of docs/reference/stacks.md
lasthop-stacks --table linux: the section with Linux alone, in minutes rather than an hour
lasthop-stacks --paths: the scenarios of those tables, in JSON

  --stack NAME        quinn (the default) or noq
  --congestion NAME   newreno, cubic (the default), bbr (noq: bbr3); or one of ours: lasthop:veno, ...
  --connections N     how many, all between the same two nodes; 1 unless given
  --from NODE         where they send from; the source of the scenario's first flow unless given
  --to NODE           where they send to; its sink unless given
  --download          the ends that send are servers: the others open the connections
  --early-data        the ends have met before: data leaves with the first flight (0-RTT)
  --bytes N           what each transfers; without an end unless given
  --seed N            the seed of the run; that of the scenario unless given
  --judge             hold the connections against RFC 9002: how often each rule was checked and not kept, and when;
                      exit code 1 if a rule that binds (MUST) was not kept

It does not cover traffic of other shapes, migration and real packets: each connection is one bulk transfer over
one stream, from its handshake on.
";

/// Maximum number of connections in one run: each end has an address of its own.
const MOST_CONNECTIONS: usize = 10_000;

/// A stack by its name, and what makes both ends of a connection.
type Quic = (&'static str, fn(&Settings, &Ends) -> (String, Box<dyn Stack>, Box<dyn Stack>));
const STACKS: [Quic; 2] = [(quinn::NAME, quinn::pair), (noq::NAME, noq::pair)];

/// What the command was asked to do.
struct Order {
    scenario: String,
    stack: Quic,
    congestion: Option<String>,
    settings: Settings,
    connections: usize,
    from: Option<String>,
    to: Option<String>,
    seed: Option<u64>,
    judge: bool,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command answers on its terminal")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let page = || table::page().map(|text| (text, ExitCode::SUCCESS));
    let done = match words.as_slice() {
        [word] if word == "--table" => page(),
        [word, which] if word == "--table" && which == "linux" => {
            table::linux().map(|text| (text, ExitCode::SUCCESS))
        }
        [word] if word == "--paths" => Ok((table::paths() + "\n", ExitCode::SUCCESS)),
        _ => order(&words).and_then(|order| run(&order)),
    };
    match done {
        Ok((text, code)) => {
            print!("{text}");
            code
        }
        Err(error) => {
            eprintln!("lasthop-stacks: {error}");
            ExitCode::from(2)
        }
    }
}

/// Reads the words of the command line.
fn order(words: &[String]) -> Result<Order, String> {
    let mut order = Order {
        scenario: String::new(),
        stack: STACKS[0],
        congestion: None,
        settings: Settings::default(),
        connections: 1,
        from: None,
        to: None,
        seed: None,
        judge: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            if !order.scenario.is_empty() {
                return Err(format!("{word:?} is a second scenario: name one"));
            }
            order.scenario.clone_from(word);
            continue;
        }
        let switch = match word.as_str() {
            "--judge" => Some(&mut order.judge),
            "--download" => Some(&mut order.settings.answers),
            "--early-data" => Some(&mut order.settings.early_data),
            _ => None,
        };
        if let Some(switch) = switch {
            *switch = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value: see --help"))?;
        match word.as_str() {
            "--stack" => order.stack = one_of(word, value, STACKS)?,
            "--congestion" => order.congestion = Some(value.clone()),
            "--connections" => order.connections = number(word, value, 1, MOST_CONNECTIONS as u64)? as usize,
            "--bytes" => order.settings.bytes = Some(number(word, value, 1, u64::MAX)?),
            "--seed" => order.seed = Some(number(word, value, 0, u64::MAX)?),
            "--from" => order.from = Some(value.clone()),
            "--to" => order.to = Some(value.clone()),
            _ => return Err(format!("there is no option {word}: see --help")),
        }
    }
    if order.scenario.is_empty() {
        return Err("name a scenario, such as scenarios/single-flow.toml: see --help".to_owned());
    }
    if let Some(name) = &order.congestion {
        let named = Congestion::by_name(order.stack.0, name);
        order.settings.congestion = named.map_err(|error| format!("--congestion: {error}"))?;
    }
    Ok(order)
}

fn one_of<T: Copy, const N: usize>(
    word: &str,
    value: &str,
    known: [(&'static str, T); N],
) -> Result<(&'static str, T), String> {
    let names = || known.map(|(name, _)| name).join(", ");
    let found = known.iter().find(|(name, _)| *name == value);
    found.copied().ok_or_else(|| format!("{word} {value} is not known: choose one of {}", names()))
}

fn number(word: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{word} {value:?} is not a whole number from {least} to {most}"))
}

/// The connections of a run, and what they had delivered when measuring began.
struct Started {
    run: Run,
    connections: Vec<Connection>,
    before: Vec<u64>,
    judges: Vec<Rc<RefCell<Judge>>>,
}

/// Runs it: what is shown, and the exit code.
fn run(order: &Order) -> Result<(String, ExitCode), String> {
    let scenario = Scenario::load_network(&order.scenario).map_err(|error| error.to_string())?;
    let seed = order.seed.unwrap_or(scenario.plan().seed);
    let scenario = scenario.seeded(seed).map_err(|error| error.to_string())?;
    let plan = scenario.plan();
    let warmup = Time::ZERO + plan.warmup;
    let first = plan.flows.first();
    let node = |given: &Option<String>, option: &str, of_flow: Option<usize>| {
        let nodes = plan.nodes.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(", ");
        given.clone().or_else(|| of_flow.map(|number| plan.nodes[number].clone())).ok_or(format!(
            "{} has no flows whose ends could be taken: name a node with {option}: {nodes}",
            order.scenario
        ))
    };
    let from = node(&order.from, "--from", first.map(|flow| flow.source))?;
    let to = node(&order.to, "--to", first.map(|flow| flow.sink))?;
    if from == to {
        return Err(format!("--from and --to are both {from}: a connection has its ends at two nodes"));
    }
    let network = Network::open(&order.scenario, seed).map_err(|error| error.to_string())?;
    let end = network.end();
    let mut started = Started {
        run: Run::new(network, seed),
        connections: Vec::new(),
        before: Vec::new(),
        judges: Vec::new(),
    };
    for _ in 0..order.connections {
        let secrets = order.judge.then(Secrets::default);
        let settings = Settings { secrets: secrets.clone(), ..order.settings.clone() };
        let (opens, answers) = if settings.answers { (&to, &from) } else { (&from, &to) };
        let connection = started
            .run
            .connect(opens, answers, |ends| order.stack.1(&settings, ends))
            .map_err(|error| format!("{error}; --from and --to choose"))?;
        let Connection { sender, receiver } = connection;
        // For the table, sender is what sends.
        let turned = Connection { sender: receiver, receiver: sender };
        started.connections.push(if settings.answers { turned } else { connection });
        if let Some(secrets) = secrets {
            let is_newreno = order.settings.congestion == Congestion::NewReno;
            let judge = Rc::new(RefCell::new(Judge::new(secrets, ID_BYTES, is_newreno)));
            started.judges.push(judge.clone());
            started.run.watch(connection, move |seen| judge.borrow_mut().see(seen));
        }
    }
    started.run.until(warmup);
    started.before = started
        .connections
        .iter()
        .map(|connection| started.run.report(connection.receiver).delivered_bytes)
        .collect();
    started.run.until(end);
    let judged = judged(&mut started, end);
    let mut text = shown(started, order, end.since(warmup));
    text.push_str(&judged.0);
    Ok((text, judged.1))
}

/// What the judges found until the end of the run: a line for each rule, then violations.
fn judged(started: &mut Started, end: Time) -> (String, ExitCode) {
    if started.judges.is_empty() {
        return (String::new(), ExitCode::SUCCESS);
    }
    let (mut all, mut told) = (Findings::default(), String::new());
    for (number, (judge, connection)) in started.judges.iter().zip(&started.connections).enumerate() {
        let closed = started.run.report(connection.sender).closed;
        let findings = judge.borrow().findings(closed.map_or(end, |(at, _)| at));
        for line in findings.lines().lines() {
            // Writing into a string does not fail.
            let _ = writeln!(told, "connection {}: {line}", number + 1);
        }
        all.add(&findings);
    }
    let mut lines = vec![["rule", "where", "it", "checked", "not kept"].map(str::to_owned)];
    for rule in Rule::ALL {
        let (place, force) = rule.section();
        lines.push([
            rule.words().to_owned(),
            place.to_owned(),
            force.to_owned(),
            all.checked(rule).to_string(),
            all.broken(rule).to_string(),
        ]);
    }
    let mut text = format!("\n{}", aligned(&lines));
    if all.unread > 0 {
        let _ = writeln!(text, "datagrams that could not be read: {}", all.unread);
    }
    text.push_str(&told);
    let is_kept = Rule::ALL.into_iter().all(|rule| rule.section().1 != "must" || all.broken(rule) == 0);
    (text, if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line for each flow: the network's view, and what the stack says of itself.
fn shown(started: Started, order: &Order, measured: Span) -> String {
    let settings = &order.settings;
    let name = format!("{} {}", order.stack.0, settings.congestion.name(order.stack.0));
    let Started { mut run, connections, before, .. } = started;
    let mut lines = vec![
        ["flow", "goodput", "mean delay", "p95 delay", "packets", "lost", "cwnd", "RTT", "stack: lost"]
            .map(str::to_owned),
    ];
    let failures: Vec<String> = run.failures().iter().map(ToString::to_string).collect();
    let reports: Vec<_> = connections
        .iter()
        .map(|connection| (run.report(connection.sender), run.report(connection.receiver)))
        .collect();
    let ends = connections.iter().flat_map(|connection| [connection.sender, connection.receiver]);
    let datagrams: u64 = ends.map(|end| run.sent(end).0).sum();
    let summary = run.finish().summary;
    let millis = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |s| format!("{:.1} ms", s * 1e3));
    let rate = |bit_s: f64| format!("{:.3} Mbit/s", bit_s / 1e6);
    let mut notes = Vec::new();
    for (number, ((sender, receiver), before)) in reports.iter().zip(&before).enumerate() {
        // Ends are numbered in the order of their addresses: that which opens is the first of a pair.
        let (host, port) = if settings.answers { (2 * number + 2, 443) } else { (2 * number + 1, 1000) };
        let way = format!("10.{}.{}.{}:{port} > ", host >> 16, host >> 8 & 255, host & 255);
        let flow = summary.flows.iter().find(|flow| flow.name.starts_with(&way));
        let goodput = (receiver.delivered_bytes - before) as f64 * 8.0 / measured.seconds();
        lines.push([
            format!("{name} {}", number + 1),
            rate(goodput),
            millis(flow.and_then(|flow| flow.delay_mean_s)),
            millis(flow.and_then(|flow| flow.delay_p95_s)),
            flow.map_or("-".to_owned(), |flow| flow.packets_sent.to_string()),
            flow.map_or("-".to_owned(), |flow| flow.packets_lost.values().sum::<u64>().to_string()),
            sender.cwnd_bytes.map_or("-".to_owned(), |bytes| format!("{bytes} B")),
            millis(sender.rtt.map(Span::seconds)),
            sender.lost_packets.map_or("-".to_owned(), |lost| lost.to_string()),
        ]);
        if let Some(at) = receiver.finished {
            notes.push(format!("connection {}: the last byte arrived after {at}", number + 1));
        }
        for (end, report) in [("sender", sender), ("receiver", receiver)] {
            if let Some((_, why)) = &report.closed {
                notes.push(format!("connection {}: closed at the {end}: {why}", number + 1));
            }
        }
    }
    for flow in summary.flows.iter().filter(|flow| !flow.name.contains(" > ")) {
        lines.push([
            format!("{} ({})", flow.name, flow.transport),
            rate(flow.goodput_bit_s),
            millis(flow.delay_mean_s),
            millis(flow.delay_p95_s),
            flow.packets_sent.to_string(),
            flow.packets_lost.values().sum::<u64>().to_string(),
            "-".to_owned(),
            millis(flow.rtt_mean_s),
            "-".to_owned(),
        ]);
    }
    notes.push(format!("datagrams of both ends: {datagrams}"));
    let mut text = aligned(&lines);
    for note in notes.into_iter().chain(failures.into_iter().map(|failure| format!("ended: {failure}"))) {
        text.push_str(&note);
        text.push('\n');
    }
    text
}

/// Columns as wide as they must be; numbers to the right.
fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(column, cell)| match column {
                0 => format!("{cell:<width$}", width = widths[0]),
                _ => format!("{cell:>width$}", width = widths[column]),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
