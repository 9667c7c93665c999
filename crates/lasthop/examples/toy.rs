//! A burst through the network that tests of transports usually have, and through a link of this crate. The how-to
//! "replace your toy simulator" shows it.
//!
//! Run it with `cargo run --example toy`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop::{Datagram, Network, Path, Stream, Time, Wake};

struct Link {
    delay: u64,
    loss: f64,
    stream: Stream,
    heap: BinaryHeap<Reverse<(u64, Vec<u8>)>>,
}

impl Link {
    fn send(&mut self, now: u64, packet: Vec<u8>) {
        if self.stream.uniform() >= self.loss {
            self.heap.push(Reverse((now + self.delay, packet)));
        }
    }

    fn recv(&mut self, now: u64) -> Option<Vec<u8>> {
        let due = self.heap.peek().is_some_and(|Reverse((at, _))| *at <= now);
        due.then(|| self.heap.pop()).flatten().map(|Reverse((_, packet))| packet)
    }
}

const BURST: usize = 1_000;
const PAYLOAD: usize = 1_200;
const DELAY_MS: u32 = 20;

/// What became of the burst in both, as lines to print.
fn compare() -> Result<[String; 2], Box<dyn std::error::Error>> {
    let delay = u64::from(DELAY_MS) * 1_000_000;
    let mut toy = Link { delay, loss: 0.0, stream: Stream::new(1, "toy"), heap: BinaryHeap::new() };
    for _ in 0..BURST {
        toy.send(0, vec![0; PAYLOAD]);
    }
    let arrived = std::iter::from_fn(|| toy.recv(delay)).count();
    let toy = line("toy: ", arrived, Time(delay));

    let link = lasthop::Link::new(10_000_000).delay_ms(DELAY_MS).queue_packets(50);
    let mut network = Network::new(&Path::new(["a", "b"]).link(link), 1)?;
    let host = network.attach("a", "10.0.0.1".parse()?)?;
    network.attach("b", "10.0.0.2".parse()?)?;
    for _ in 0..BURST {
        network.send(host, Datagram::new(1, "10.0.0.2:1".parse()?, &[0; PAYLOAD]))?;
    }
    let (mut arrived, mut last) = (0, Time::ZERO);
    while network.next_event(Time::MAX) == Wake::Arrivals {
        while let Some(arrival) = network.recv() {
            arrived += 1;
            last = arrival.at;
        }
    }
    Ok([toy, line("link:", arrived, last)])
}

fn line(name: &str, arrived: usize, last: Time) -> String {
    format!("{name} {arrived} of {BURST} packets arrived, the last after {:.2} ms", last.0 as f64 / 1e6)
}

#[expect(clippy::print_stdout, reason = "an example tells what it found")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in compare()? {
        println!("{line}");
    }
    Ok(())
}

#[test]
fn the_page_shows_what_it_prints() {
    let page = include_str!("../../../docs/how-to/replace-your-toy-simulator.md");
    assert!(page.contains(&compare().unwrap().join("\n")));
}
