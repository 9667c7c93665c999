//! Both ends of a flow over sockets of this machine, in real time: what was sent arrives, and nothing that the clock
//! decides is counted.
#![cfg(unix)]

use std::net::UdpSocket;
use std::thread;

use lasthop_core::time::Span;
use lasthop_sim::scenario::{Format, Scenario};
use lasthop_stacks::real::{Carried, Order, RealError, carry};

const BYTES: u64 = 1_000_000;

fn scenario(transport: &str) -> Scenario {
    let text = format!(
        "duration = \"60 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"phone\"]\n\
         links = [{{ from = \"server\", to = \"phone\", rate = \"10 Mbit/s\", delay = \"20 ms\" }}]\n\
         [[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = {transport}\n\
         traffic = {{ kind = \"ftp\", bytes = \"{BYTES} B\" }}\n"
    );
    Scenario::parse(&text, Format::Toml, "test", &[]).unwrap()
}

fn both(scenario: &Scenario, lasts: Span) -> [Result<Carried, RealError>; 2] {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = receiver.local_addr().unwrap();
    let plan = scenario.plan();
    thread::scope(|scope| {
        let order =
            |peer: Option<_>| Order { plan, seed: 1, flow: 0, is_sender: peer.is_some(), peer, lasts };
        let receiving = scope.spawn(move || carry(&order(None), &receiver));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = carry(&order(Some(peer)), &sender);
        [sent, receiving.join().unwrap()]
    })
}

/// With and without data in the first flight.
#[test]
fn a_transfer_arrives_whole() {
    for transport in ["\"quinn:cubic\"", "{ stack = \"quinn\", early_data = true }"] {
        arrives_whole(&scenario(transport));
    }
}

fn arrives_whole(scenario: &Scenario) {
    // A busy machine may need longer; how long it took is nothing to judge.
    for seconds in [2, 10, 40] {
        let [sent, received] = both(scenario, Span::from_secs(seconds)).map(Result::unwrap);
        if received.report.finished.is_none() && seconds < 40 {
            continue;
        }
        assert_eq!(received.report.delivered_bytes, BYTES);
        assert!(received.report.finished.is_some() && sent.report.finished.is_some());
        assert_eq!(sent.report.closed, None);
        assert!(sent.datagrams.0 >= received.datagrams.1, "{sent:?} {received:?}");
        assert!(received.datagrams.0 >= sent.datagrams.1, "{sent:?} {received:?}");
        assert!(sent.rtt_mean.is_some());
        return;
    }
}

#[test]
fn a_flow_of_the_simulator_is_refused() {
    let [sent, received] = both(&scenario("\"reno\""), Span::from_secs(1));
    for end in [sent, received] {
        assert_eq!(end.unwrap_err().to_string(), "flow flow: no stack carries it");
    }
}
