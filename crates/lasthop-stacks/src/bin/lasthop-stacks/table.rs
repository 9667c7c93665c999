//! Stacks and our own senders on the same paths: the tables of docs/reference/stacks.md.

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

/// A controller of quinn, the same controller of ours in quinn, and ours over our TCP.
struct Trio {
    own: &'static str,
    ours_in_quinn: Option<&'static str>,
    ours: &'static str,
}

const TRIOS: [Trio; 3] = [
    Trio {
        own: "newreno",
        ours_in_quinn: Some("lasthop:reno"),
        ours: "{ preset = \"sack\", byte_counting = true }",
    },
    Trio { own: "cubic", ours_in_quinn: Some("lasthop:cubic"), ours: "\"cubic\"" },
    Trio { own: "bbr", ours_in_quinn: None, ours: "\"bbr\"" },
];

fn link(mbit_s: u64, delay_ms: u32, packets: u32) -> Link {
    Link::new(mbit_s * 1_000_000).delay_ms(delay_ms).queue_packets(packets)
}

/// Losses of data alone: the other direction carries acknowledgements.
fn lossy(link: Link, probability: f64) -> Link {
    link.loss(probability).key("reverse", "{ error = \"none\" }")
}

/// A path of the tables: its name, its link, and how much is transferred over it, if there is an end.
struct Case {
    name: &'static str,
    link: Link,
    bytes: Option<u64>,
}

fn cases() -> Vec<Case> {
    let plain = || link(10, 20, 50);
    let codel = |mark: bool| {
        let queue = format!("{{ kind = \"codel\", limit = \"200 packets\", ecn = {mark} }}");
        Link::new(10_000_000).delay_ms(20).key("queue", &queue)
    };
    let outages = |times: &str, outage: &str| {
        plain().key("handoff", &format!("{{ at = [{times}], outage = \"{outage}\" }}"))
    };
    let bursts = "{ kind = \"gilbert-elliott\", packet_error_rate = 0.01, mean_burst = 5 }";
    let bursty = plain().key("error", bursts).key("reverse", "{ error = \"none\" }");
    let endless = [
        ("10 Mbit/s, 20 ms, 50 packets", plain()),
        ("queue of 10 packets", link(10, 20, 10)),
        ("queue of 300 packets", link(10, 20, 300)),
        ("1 Mbit/s, 20 packets", link(1, 20, 20)),
        ("50 Mbit/s, 200 packets", link(50, 20, 200)),
        ("delay 2 ms", link(10, 2, 50)),
        ("delay 100 ms, 170 packets", link(10, 100, 170)),
        ("0.1 % lost", lossy(plain(), 0.001)),
        ("1 % lost", lossy(plain(), 0.01)),
        ("5 % lost", lossy(plain(), 0.05)),
        ("1 % lost, delay 100 ms", lossy(link(10, 100, 170), 0.01)),
        ("1 % lost, five in a row", bursty),
        ("reordered within 1 ms", plain().reorder_within(Duration::from_millis(1))),
        ("reordered within 10 ms", plain().reorder_within(Duration::from_millis(10))),
        ("CoDel, drops", codel(false)),
        ("CoDel, marks", codel(true)),
        (
            "outages of 0.3 s every 10 s",
            outages("\"10 s\", \"20 s\", \"30 s\", \"40 s\", \"50 s\"", "300 ms"),
        ),
        ("outages of 2 s every 20 s", outages("\"20 s\", \"40 s\"", "2 s")),
    ];
    let files = [
        ("a transfer of 100 kB", plain(), 100_000),
        ("a transfer of 1 MB, 1 % lost", lossy(plain(), 0.01), 1_000_000),
    ];
    let of = |(name, link)| Case { name, link, bytes: None };
    let of_file = |(name, link, bytes)| Case { name, link, bytes: Some(bytes) };
    endless.into_iter().map(of).chain(files.into_iter().map(of_file)).collect()
}

/// What a run gave: goodput in Mbit/s, one-way delay in ms (mean), share of packets that were retransmitted in %.
#[derive(Clone, Copy, Default)]
struct Figures {
    goodput: f64,
    delay: f64,
    retransmitted: f64,
}

/// A run of one flow of this transport. A transfer's goodput is over the time to its completion.
fn figures(case: &Case, transport: &str, seed: u64) -> Result<Figures, String> {
    let path = Path::new(["server", "phone"]).link(case.link.clone()).duration(Duration::from_secs(SECONDS));
    let traffic = case
        .bytes
        .map_or(String::new(), |bytes| format!("traffic = {{ kind = \"ftp\", bytes = \"{bytes} B\" }}\n"));
    let text = format!(
        "{}\n[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = {transport}\nstart = \"0 s\"\n{traffic}",
        path.to_toml()
    );
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

/// Over the seeds.
struct Sample(Vec<Figures>);

impl Sample {
    fn of(case: &Case, transport: &str) -> Result<Sample, String> {
        (1..=SEEDS).map(|seed| figures(case, transport, seed)).collect::<Result<_, _>>().map(Sample)
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

fn tables() -> Result<String, String> {
    let mut text = String::new();
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
            row(&mut text, &trio, &case)?;
        }
        text.push('\n');
    }
    text.push_str(
        "### noq\n\n\
         | path | newreno Mbit/s | against quinn's | cubic | against quinn's | bbr3 | our TCP | against ours \
         | bbr3 ms | our TCP ms | bbr3 retransmits | our TCP retransmits |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for case in cases() {
        row_of_noq(&mut text, &case)?;
    }
    text.push('\n');
    Ok(text)
}

/// noq against quinn, of which it is a fork, and its BBRv3 against ours.
fn row_of_noq(text: &mut String, case: &Case) -> Result<(), String> {
    let mut cells = vec![case.name.to_owned()];
    for controller in ["newreno", "cubic"] {
        let [noq, quinn] =
            ["noq", "quinn"].map(|stack| Sample::of(case, &format!("\"{stack}:{controller}\"")));
        let noq = noq?;
        cells.extend([noq.goodput(), noq.above(&quinn?, (1.0, 1.0))]);
    }
    let (bbr, ours) = (Sample::of(case, "\"noq:bbr3\"")?, Sample::of(case, "\"bbr3\"")?);
    cells.extend([bbr.goodput(), ours.goodput(), bbr.above(&ours, (DATA_OF_QUIC, DATA_OF_TCP))]);
    cells.extend([bbr.delay(), ours.delay(), bbr.retransmitted(), ours.retransmitted()]);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {} |", cells.join(" | "));
    Ok(())
}

fn row(text: &mut String, trio: &Trio, case: &Case) -> Result<(), String> {
    let own = Sample::of(case, &format!("\"quinn:{}\"", trio.own))?;
    let tcp = Sample::of(case, trio.ours)?;
    let mut cells = vec![case.name.to_owned(), own.goodput()];
    if let Some(name) = trio.ours_in_quinn {
        let swapped = Sample::of(case, &format!("\"quinn:{name}\""))?;
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
