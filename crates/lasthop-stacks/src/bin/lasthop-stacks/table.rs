//! Stacks and our own senders on the same paths: the tables of docs/reference/stacks.md.

use std::fmt::Write;
use std::time::Duration;

use lasthop::{Link, Network, Path, Time};
use lasthop_stacks::Run;
use lasthop_stacks::quinn::{self, Congestion, Settings};

/// Of a full datagram on the wire, what is data: quinn's 1417 of 1480 bytes, and 1448 of 1500 of our TCP, which has
/// timestamps.
const DATA_OF_QUINN: f64 = 1417.0 / 1480.0;
const DATA_OF_TCP: f64 = 1448.0 / 1500.0;
const SECONDS: u64 = 60;
const SEEDS: u64 = 2;

/// Controllers of quinn and the preset of ours that is set beside each.
const PAIRS: [(Congestion, &str); 3] =
    [(Congestion::NewReno, "sack"), (Congestion::Cubic, "cubic"), (Congestion::Bbr, "bbr")];

fn link(mbit_s: u64, delay_ms: u32, packets: u32) -> Link {
    Link::new(mbit_s * 1_000_000).delay_ms(delay_ms).queue_packets(packets)
}

/// Losses of data alone: the other direction carries acknowledgements.
fn lossy(link: Link, probability: f64) -> Link {
    link.loss(probability).key("reverse", "{ error = \"none\" }")
}

fn paths() -> Vec<(&'static str, Link)> {
    let plain = || link(10, 20, 50);
    let red = |mark: bool| format!("{{ kind = \"codel\", limit = \"200 packets\", ecn = {mark} }}");
    let codel = |mark| Link::new(10_000_000).delay_ms(20).key("queue", &red(mark));
    let handoff = "{ at = [\"10 s\", \"20 s\", \"30 s\", \"40 s\", \"50 s\"], outage = \"300 ms\" }";
    vec![
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
        ("reordered within 1 ms", plain().reorder_within(Duration::from_millis(1))),
        ("reordered within 10 ms", plain().reorder_within(Duration::from_millis(10))),
        ("CoDel, drops", codel(false)),
        ("CoDel, marks", codel(true)),
        ("outages of 0.3 s every 10 s", plain().key("handoff", handoff)),
    ]
}

/// What a run gave: goodput in Mbit/s, one-way delay in ms (mean), share of packets that the sender repeated in %.
#[derive(Clone, Copy, Default)]
struct Figures {
    goodput: f64,
    delay: f64,
    repeated: f64,
}

fn scenario(link: Link, flow: Option<&str>) -> String {
    let path = Path::new(["server", "phone"]).link(link).duration(Duration::from_secs(SECONDS));
    let flow = flow.map_or(String::new(), |transport| {
        format!("\n[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"{transport}\"\nstart = \"0 s\"\n")
    });
    path.to_toml() + &flow
}

fn of_quinn(link: Link, congestion: &Congestion, seed: u64) -> Result<Figures, lasthop::Error> {
    let mut run = Run::new(Network::from_toml(&scenario(link, None), seed)?, seed);
    let settings = Settings { congestion: congestion.clone(), bytes: None };
    let connection = run.connect("server", "phone", |ends| quinn::pair(&settings, ends))?;
    run.until(Time::MAX);
    let (sent, received) = (run.report(connection.sender), run.report(connection.receiver));
    let (datagrams, _) = run.sent(connection.sender);
    let summary = run.finish().summary;
    let flow = &summary.flows[0];
    Ok(Figures {
        goodput: received.delivered_bytes as f64 * 8.0 / SECONDS as f64 / 1e6,
        delay: flow.delay_mean_s.unwrap_or(f64::NAN) * 1e3,
        repeated: sent.lost_packets.unwrap_or(0) as f64 / datagrams as f64 * 100.0,
    })
}

fn of_ours(link: Link, transport: &str, seed: u64) -> Result<Figures, lasthop::Error> {
    let mut network = Network::from_toml(&scenario(link, Some(transport)), seed)?;
    network.next_event(Time::MAX);
    let summary = network.finish().summary;
    let flow = &summary.flows[0];
    Ok(Figures {
        goodput: flow.goodput_bit_s / 1e6,
        delay: flow.delay_mean_s.unwrap_or(f64::NAN) * 1e3,
        repeated: flow.retransmitted_packets as f64 / flow.packets_sent as f64 * 100.0,
    })
}

/// Means over the seeds.
fn mean(of: impl Fn(u64) -> Result<Figures, lasthop::Error>) -> Result<Figures, lasthop::Error> {
    let mut sum = Figures::default();
    for seed in 1..=SEEDS {
        let one = of(seed)?;
        sum.goodput += one.goodput / SEEDS as f64;
        sum.delay += one.delay / SEEDS as f64;
        sum.repeated += one.repeated / SEEDS as f64;
    }
    Ok(sum)
}

/// The page, its tables made anew.
pub(crate) fn page() -> Result<String, lasthop::Error> {
    Ok(include_str!("page.md").replace("TABLES\n", &tables()?))
}

fn tables() -> Result<String, lasthop::Error> {
    let mut text = String::new();
    for (congestion, transport) in PAIRS {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "### quinn {} and ours ({transport})\n\n\
             | path | quinn Mbit/s | ours Mbit/s | of what headers leave | quinn ms | ours ms \
             | quinn repeated | ours repeated |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            congestion.name()
        );
        for (name, link) in paths() {
            let stack = mean(|seed| of_quinn(link.clone(), &congestion, seed))?;
            let ours = mean(|seed| of_ours(link.clone(), transport, seed))?;
            let ratio = (stack.goodput / DATA_OF_QUINN) / (ours.goodput / DATA_OF_TCP) - 1.0;
            let _ = writeln!(
                text,
                "| {name} | {:.3} | {:.3} | {:+.1} % | {:.1} | {:.1} | {:.2} % | {:.2} % |",
                stack.goodput,
                ours.goodput,
                ratio * 100.0,
                stack.delay,
                ours.delay,
                stack.repeated,
                ours.repeated
            );
        }
        text.push('\n');
    }
    Ok(text)
}
