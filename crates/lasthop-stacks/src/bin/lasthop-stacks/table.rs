//! Stacks and our own senders on the same paths: the tables of docs/reference/stacks.md.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::time::Duration;

use lasthop::{Link, Path};
use lasthop_net::trace::Recording;
use lasthop_sim::run::Progress;
use lasthop_sim::scenario::{Format, Scenario};
use lasthop_stacks::scenario::run;

/// Of a full datagram on the wire, what is data: 1417 of 1480 bytes of quinn and noq, and 1448 of 1500 of our TCP,
/// which has timestamps.
const DATA_OF_QUIC: f64 = 1417.0 / 1480.0;
const DATA_OF_TCP: f64 = 1448.0 / 1500.0;
const SECONDS: u64 = 60;
const SEEDS: u64 = 5;
/// Student's t for a 95 % interval with that many less one degrees of freedom.
const T: f64 = 2.776;
/// What Linux did on the paths: made by `validation/linux_beside_stacks.py`.
const LINUX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/lasthop-stacks/linux.json");
/// Simulations beside each run of Linux, and by how much their paths are shorter or longer at most, in ms.
const BESIDE: u32 = 20;
const ASIDE_MS: f64 = 0.5;

/// A controller of quinn, the same controller of ours in quinn, and ours over our TCP, also as Linux has it.
struct Trio {
    own: &'static str,
    ours_in_quinn: Option<&'static str>,
    ours: &'static str,
    as_linux: &'static str,
}

const TRIOS: [Trio; 3] = [
    Trio {
        own: "newreno",
        ours_in_quinn: Some("lasthop:reno"),
        ours: "{ preset = \"sack\", byte_counting = true }",
        as_linux: "sack",
    },
    Trio { own: "cubic", ours_in_quinn: Some("lasthop:cubic"), ours: "\"cubic\"", as_linux: "cubic" },
    Trio { own: "bbr", ours_in_quinn: None, ours: "\"bbr\"", as_linux: "bbr" },
];

fn link(mbit_s: u64, packets: u32) -> Link {
    Link::new(mbit_s * 1_000_000).queue_packets(packets)
}

/// Losses of data alone: the other direction carries acknowledgements.
fn lossy(link: Link, probability: f64) -> Link {
    link.loss(probability).key("reverse", "{ error = \"none\" }")
}

/// A path of the tables: its name, its delay each way, its link, and how much is transferred over it, if there is an
/// end.
#[derive(Clone)]
struct Case {
    name: &'static str,
    delay: Duration,
    link: Link,
    bytes: Option<u64>,
}

fn cases() -> Vec<Case> {
    let plain = || link(10, 50);
    let codel = |mark: bool| {
        let queue = format!("{{ kind = \"codel\", limit = \"200 packets\", ecn = {mark} }}");
        Link::new(10_000_000).key("queue", &queue)
    };
    let outages = |times: &str, outage: &str| {
        plain().key("handoff", &format!("{{ at = [{times}], outage = \"{outage}\" }}"))
    };
    let bursts = "{ kind = \"gilbert-elliott\", packet_error_rate = 0.01, mean_burst = 5 }";
    let bursty = plain().key("error", bursts).key("reverse", "{ error = \"none\" }");
    let endless = [
        ("10 Mbit/s, 20 ms, 50 packets", 20, plain()),
        ("queue of 10 packets", 20, link(10, 10)),
        ("queue of 300 packets", 20, link(10, 300)),
        ("1 Mbit/s, 20 packets", 20, link(1, 20)),
        ("50 Mbit/s, 200 packets", 20, link(50, 200)),
        ("delay 2 ms", 2, link(10, 50)),
        ("delay 100 ms, 170 packets", 100, link(10, 170)),
        ("0.1 % lost", 20, lossy(plain(), 0.001)),
        ("1 % lost", 20, lossy(plain(), 0.01)),
        ("5 % lost", 20, lossy(plain(), 0.05)),
        ("1 % lost, delay 100 ms", 100, lossy(link(10, 170), 0.01)),
        ("1 % lost, five in a row", 20, bursty),
        ("reordered within 1 ms", 20, plain().reorder_within(Duration::from_millis(1))),
        ("reordered within 10 ms", 20, plain().reorder_within(Duration::from_millis(10))),
        ("CoDel, drops", 20, codel(false)),
        ("CoDel, marks", 20, codel(true)),
        (
            "outages of 0.3 s every 10 s",
            20,
            outages("\"10 s\", \"20 s\", \"30 s\", \"40 s\", \"50 s\"", "300 ms"),
        ),
        ("outages of 2 s every 20 s", 20, outages("\"20 s\", \"40 s\"", "2 s")),
    ];
    let files = [
        ("a transfer of 100 kB", plain(), 100_000),
        ("a transfer of 1 MB, 1 % lost", lossy(plain(), 0.01), 1_000_000),
    ];
    let of = |(name, delay, link)| Case { name, delay: Duration::from_millis(delay), link, bytes: None };
    let of_file = |(name, link, bytes)| Case { bytes: Some(bytes), ..of((name, 20, link)) };
    endless.into_iter().map(of).chain(files.into_iter().map(of_file)).collect()
}

/// What a run gave: goodput in Mbit/s, one-way delay in ms (mean), share of packets that were retransmitted in %.
#[derive(Clone, Copy, Default)]
struct Figures {
    goodput: f64,
    delay: f64,
    retransmitted: f64,
}

/// The scenario of one flow of this transport.
fn scenario(case: &Case, transport: &str) -> String {
    let link = case.link.clone().delay(case.delay);
    let path = Path::new(["server", "phone"]).link(link).duration(Duration::from_secs(SECONDS));
    let traffic = case
        .bytes
        .map_or(String::new(), |bytes| format!("traffic = {{ kind = \"ftp\", bytes = \"{bytes} B\" }}\n"));
    format!(
        "{}\n[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = {transport}\nstart = \"0 s\"\n{traffic}",
        path.to_toml()
    )
}

/// The paths, for `validation/linux_beside_stacks.py`: a JSON object of names and scenarios.
pub(crate) fn paths() -> String {
    let all: BTreeMap<_, _> = cases().iter().map(|case| (case.name, scenario(case, "\"cubic\""))).collect();
    serde_json::json!(all).to_string()
}

/// A run of one flow of this transport. A transfer's goodput is over the time to its completion.
fn figures(case: &Case, transport: &str, seed: u64) -> Result<Figures, String> {
    let text = scenario(case, transport);
    let scenario = Scenario::parse(&text, Format::Toml, case.name, &[]).map_err(|error| error.to_string())?;
    let run = run(scenario.plan(), seed, Recording::default(), &Progress::default());
    let summary = run.map_err(|error| format!("{}: {error}", case.name))?.summary;
    let flow = &summary.flows[0];
    let goodput = match (case.bytes, flow.completion_s) {
        (Some(bytes), Some(seconds)) => bytes as f64 * 8.0 / seconds,
        _ => flow.goodput_bit_s,
    };
    Ok(Figures {
        goodput: goodput / 1e6,
        delay: flow.delay_mean_s.unwrap_or(f64::NAN) * 1e3,
        retransmitted: flow.retransmitted_packets.unwrap_or(0) as f64 / flow.packets_sent as f64 * 100.0,
    })
}

/// Samples that were made: several tables have the same.
#[derive(Default)]
struct Made(HashMap<(&'static str, String), Sample>);

impl Made {
    fn of(&mut self, case: &Case, transport: &str) -> Result<Sample, String> {
        let key = (case.name, transport.to_owned());
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let runs = (1..=SEEDS).map(|seed| figures(case, transport, seed)).collect::<Result<_, _>>();
        let sample = Sample(runs?);
        self.0.insert(key, sample.clone());
        Ok(sample)
    }
}

/// Over the seeds.
#[derive(Clone)]
struct Sample(Vec<Figures>);

impl Sample {
    /// The variance of the goodput.
    fn variance(&self) -> f64 {
        let mean = self.mean(|one| one.goodput);
        self.0.iter().map(|one| (one.goodput - mean).powi(2)).sum::<f64>() / (self.0.len() - 1) as f64
    }

    fn mean(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    fn goodput(&self) -> String {
        format!("{:.3}", self.mean(|one| one.goodput))
    }

    fn delay(&self) -> String {
        format!("{:.1}", self.mean(|one| one.delay))
    }

    fn retransmitted(&self) -> String {
        format!("{:.2} %", self.mean(|one| one.retransmitted))
    }

    /// How much more it carries than another, of what headers leave, in %: mean of the pairs, and half a 95 % interval.
    fn above(&self, other: &Sample, (share, others): (f64, f64)) -> String {
        let pairs = self.0.iter().zip(&other.0);
        let ratios: Vec<f64> = pairs
            .map(|(one, other)| ((one.goodput / share) / (other.goodput / others) - 1.0) * 100.0)
            .collect();
        let count = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / count;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
        format!("{mean:+.1} ± {:.1} %", T * (variance / count).sqrt())
    }
}

/// The page, its tables made anew.
pub(crate) fn page() -> Result<String, String> {
    Ok(include_str!("page.md").replace("TABLES\n", &tables()?))
}

/// The section with Linux.
pub(crate) fn linux() -> Result<String, String> {
    let (mut text, mut made) = (String::new(), Made::default());
    tables_of_linux(&mut text, &mut made)?;
    Ok(text)
}

fn tables() -> Result<String, String> {
    let (mut text, mut made) = (String::new(), Made::default());
    for trio in TRIOS {
        let _ = write!(text, "### {}\n\n", trio.own);
        let title = if trio.ours_in_quinn.is_some() {
            "| path | quinn Mbit/s | quinn, our controller | our TCP | controller | transport | quinn ms \
             | our TCP ms | quinn retransmits | our TCP retransmits |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        } else {
            "| path | quinn Mbit/s | our TCP | both | quinn ms | our TCP ms | quinn retransmits \
             | our TCP retransmits |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        };
        text.push_str(title);
        for case in cases() {
            row(&mut text, &mut made, (&trio, &case))?;
        }
        text.push('\n');
    }
    tables_of_linux(&mut text, &mut made)?;
    text.push_str(
        "### noq\n\n\
         | path | newreno Mbit/s | against quinn's | cubic | against quinn's | bbr3 | our TCP | against ours \
         | bbr3 ms | our TCP ms | bbr3 retransmits | our TCP retransmits |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for case in cases() {
        row_of_noq(&mut text, &mut made, &case)?;
    }
    text.push('\n');
    Ok(text)
}

/// Linux, our TCP in its profile, and quinn against it.
fn tables_of_linux(text: &mut String, made: &mut Made) -> Result<(), String> {
    let wrong = |error| format!("{LINUX}: {error}");
    let read = std::fs::read_to_string(LINUX).map_err(|error| format!("{LINUX}: {error}"))?;
    let mut linux: serde_json::Value = serde_json::from_str(&read).map_err(wrong)?;
    let runs: BTreeMap<String, BTreeMap<String, OfLinux>> =
        serde_json::from_value(linux["runs"].take()).map_err(wrong)?;
    let _ = write!(text, "### Linux {}\n\n", linux["kernel"].as_str().unwrap_or_default());
    for trio in TRIOS {
        let _ = write!(
            text,
            "| {}: path | Linux Mbit/s | our TCP | ours against Linux | quinn against ours | Linux ms \
             | our TCP ms | Linux retransmits | our TCP retransmits |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            trio.own
        );
        for case in cases() {
            let Some(runs) = runs.get(case.name).and_then(|runs| runs.get(trio.own)) else { continue };
            row_of_linux(text, made, runs, (&trio, &case))?;
        }
        text.push('\n');
    }
    Ok(())
}

/// Runs of Linux by seed: goodput in Mbit/s, delay in ms, retransmitted packets in %, lateness in ms.
type OfLinux = BTreeMap<u64, [f64; 4]>;

/// Each run of Linux is compared with simulations over paths that differ by fractions of a millisecond, since the first
/// packet that meets another one in a queue changes all that follow. A run of Linux is taken to vary as these do.
fn row_of_linux(
    text: &mut String,
    made: &mut Made,
    runs: &OfLinux,
    (trio, case): (&Trio, &Case),
) -> Result<(), String> {
    let transport = format!(
        "{{ preset = \"{}\", profile = \"linux\", delayed_ack = {{ autotuning = true }} }}",
        trio.as_linux
    );
    let beside = |seed: u64| {
        let steps = (0..BESIDE).map(|number| 2.0 * f64::from(number) / f64::from(BESIDE - 1) - 1.0);
        let delays = steps.map(|step| case.delay.as_secs_f64() + step * ASIDE_MS * 1e-3);
        let cases = delays.map(|delay| Case { delay: Duration::from_secs_f64(delay), ..case.clone() });
        cases.map(|one| figures(&one, &transport, seed)).collect::<Result<_, _>>().map(Sample)
    };
    let ours: Vec<Sample> = runs.keys().map(|&seed| beside(seed)).collect::<Result<_, String>>()?;
    let linux = Sample(
        runs.values()
            .map(|&[goodput, delay, retransmitted, _]| Figures { goodput, delay, retransmitted })
            .collect(),
    );
    let count = ours.len() as f64;
    let variance = ours.iter().map(Sample::variance).sum::<f64>() / count;
    // Student's t for a 95 % interval with 19 degrees of freedom for each run of Linux.
    let quantile = [2.093, 2.024, 2.002][ours.len().min(3) - 1];
    let ours = Sample(ours.into_iter().flat_map(|sample| sample.0).collect());
    let goodput = |sample: &Sample| sample.mean(|one| one.goodput);
    let of_linux = |number: f64| number / goodput(&linux) * 100.0;
    let apart = of_linux(goodput(&ours)) - 100.0;
    let chance = of_linux(quantile * (variance * (1.0 + 1.0 / f64::from(BESIDE)) / count).sqrt());
    let own = made.of(case, &format!("\"quinn:{}\"", trio.own))?;
    let of_quinn = own.above(&made.of(case, &transport)?, (DATA_OF_QUIC, DATA_OF_TCP));
    let cells = [
        case.name.to_owned(),
        linux.goodput(),
        ours.goodput(),
        format!("{apart:+.1} ± {chance:.1} %"),
        of_quinn,
        linux.delay(),
        ours.delay(),
        linux.retransmitted(),
        ours.retransmitted(),
    ];
    let _ = writeln!(text, "| {} |", cells.join(" | "));
    Ok(())
}

/// noq against quinn, of which it is a fork, and its BBRv3 against ours.
fn row_of_noq(text: &mut String, made: &mut Made, case: &Case) -> Result<(), String> {
    let mut cells = vec![case.name.to_owned()];
    for controller in ["newreno", "cubic"] {
        let [noq, quinn] = ["noq", "quinn"].map(|stack| made.of(case, &format!("\"{stack}:{controller}\"")));
        let noq = noq?;
        cells.extend([noq.goodput(), noq.above(&quinn?, (1.0, 1.0))]);
    }
    let (bbr, ours) = (made.of(case, "\"noq:bbr3\"")?, made.of(case, "\"bbr3\"")?);
    cells.extend([bbr.goodput(), ours.goodput(), bbr.above(&ours, (DATA_OF_QUIC, DATA_OF_TCP))]);
    cells.extend([bbr.delay(), ours.delay(), bbr.retransmitted(), ours.retransmitted()]);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {} |", cells.join(" | "));
    Ok(())
}

fn row(text: &mut String, made: &mut Made, (trio, case): (&Trio, &Case)) -> Result<(), String> {
    let own = made.of(case, &format!("\"quinn:{}\"", trio.own))?;
    let tcp = made.of(case, trio.ours)?;
    let mut cells = vec![case.name.to_owned(), own.goodput()];
    if let Some(name) = trio.ours_in_quinn {
        let swapped = made.of(case, &format!("\"quinn:{name}\""))?;
        cells.extend([swapped.goodput(), tcp.goodput()]);
        cells.push(own.above(&swapped, (1.0, 1.0)));
        cells.push(swapped.above(&tcp, (DATA_OF_QUIC, DATA_OF_TCP)));
    } else {
        cells.extend([tcp.goodput(), own.above(&tcp, (DATA_OF_QUIC, DATA_OF_TCP))]);
    }
    cells.extend([own.delay(), tcp.delay(), own.retransmitted(), tcp.retransmitted()]);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {} |", cells.join(" | "));
    Ok(())
}
