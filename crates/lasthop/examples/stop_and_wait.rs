//! A protocol of its own over a lossy path: stop and wait (RFC 3366 section 1.4), one packet in flight, a timer for
//! each. It shows the whole of a driver: arrivals, timers, sending.
//!
//! Run it with `cargo run --example stop_and_wait`; it prints how long 1,000 packets took.

use lasthop::{Datagram, Link, Network, Path, Span, Time, Wake};

const PACKETS: u32 = 1_000;
const TIMEOUT: Span = Span::from_millis(100);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let link = Link::new(10_000_000).delay_ms(20).queue_packets(50).loss(0.01);
    let mut network = Network::new(&Path::new(["client", "server"]).link(link), 1)?;
    let client = network.attach("client", "2001:db8::1".parse()?)?;
    let server = network.attach("server", "2001:db8::2".parse()?)?;
    let (from, to) = ("[2001:db8::1]:5000".parse()?, "[2001:db8::2]:5000".parse()?);

    let (mut next, mut sent, mut expected) = (0u32, 0u64, 0u32);
    let mut payload = [0; 1200];
    loop {
        // The client sends packet `next`, again if need be, and waits for its number to come back.
        payload[..4].copy_from_slice(&next.to_be_bytes());
        network.send(client, Datagram::new(5000, to, &payload))?;
        network.set_timer(client, 0, Some(network.now() + TIMEOUT));
        sent += 1;
        let before = next;
        while next == before {
            match network.next_event(Time::MAX) {
                Wake::Timer { .. } => break,
                Wake::Until | Wake::End => return Err("the run ended first".into()),
                Wake::Arrivals => {}
            }
            let mut answers = Vec::new();
            while let Some(arrival) = network.recv() {
                let number =
                    u32::from_be_bytes([arrival.data[0], arrival.data[1], arrival.data[2], arrival.data[3]]);
                if arrival.host == server {
                    expected += u32::from(number == expected);
                    answers.push(number);
                } else if number == next {
                    next += 1;
                }
            }
            for number in answers {
                network.send(server, Datagram::new(5000, from, &number.to_be_bytes()))?;
            }
        }
        if next == PACKETS {
            break;
        }
    }
    assert_eq!(expected, PACKETS);
    let (took, results) = (network.now(), network.finish());
    let lost: u64 = results.summary.totals.packets_lost.values().sum();
    #[expect(clippy::print_stdout, reason = "an example tells what it found")]
    {
        println!("{PACKETS} packets in {took}: sent {sent} times, {lost} packets were lost");
    }
    Ok(())
}

#[test]
fn it_delivers_everything() {
    main().unwrap();
}
