//! quinn and noq, judged by RFC 9002 from the wire, and stacks that break its rules on purpose. The judge shares no
//! code with them; its own vectors, worked by hand, stand beside its code.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use lasthop::{Ecn, Link, Network, Path, Span, Time};
use lasthop_stacks::judge::wire::Secrets;
use lasthop_stacks::judge::{Findings, Judge, Rule, Violation};
use lasthop_stacks::quinn::{Congestion, ID_BYTES, Settings};
use lasthop_stacks::{Ends, Report, Run, Stack, noq, quinn};

/// 10 Mbit/s, 20 ms each way, 50 packets.
fn link() -> Link {
    Link::new(10_000_000).delay_ms(20).queue_packets(50)
}

type Pair = (String, Box<dyn Stack>, Box<dyn Stack>);
/// What makes both ends by a stack.
type Quic = fn(&Settings, &Ends) -> Pair;

/// What is found in an endless transfer of 40 s by ends of quinn that `make` has changed.
fn judged(congestion: &Congestion, link: Link, make: impl FnOnce(Pair) -> Pair) -> Findings {
    found(quinn::pair, congestion, (link, false), make)
}

/// The same of a stack; of a download (`answers`) the data is sent by the end that has not opened the connection.
fn found(
    stack: Quic,
    congestion: &Congestion,
    (link, answers): (Link, bool),
    make: impl FnOnce(Pair) -> Pair,
) -> Findings {
    let end = Time::ZERO + Span::from_secs(40);
    let network = Network::new(&Path::new(["server", "phone"]).link(link), 1).unwrap();
    let mut run = Run::new(network, 1);
    let secrets = Secrets::default();
    let settings = Settings {
        congestion: congestion.clone(),
        answers,
        secrets: Some(secrets.clone()),
        ..Settings::default()
    };
    let pair = |ends: &Ends| make(stack(&settings, ends));
    let (from, to) = if answers { ("phone", "server") } else { ("server", "phone") };
    let connection = run.connect(from, to, pair).unwrap();
    let is_newreno = *congestion == Congestion::NewReno;
    let judge = Rc::new(RefCell::new(Judge::new(secrets, ID_BYTES, is_newreno)));
    let told = judge.clone();
    run.watch(connection, move |seen| told.borrow_mut().see(seen));
    run.until(end);
    assert_eq!(run.failures(), []);
    judge.borrow().findings(end)
}

fn outages() -> Link {
    link().key("handoff", "{ at = [\"5 s\", \"15.1 s\", \"25.3 s\"], outage = \"2 s\" }")
}

/// A stack finds every loss when the rules do, repeats nothing else, probes when a probe is due, and changes its window
/// by the law; on clean and lossy paths, behind outages, out of order, and with marks.
fn recovers_as_the_rfc_says(stack: Quic) {
    let links = [
        ("clean", link()),
        ("lossy", link().loss(0.02)),
        ("outages", outages()),
        ("out of order", link().reorder_within(Duration::from_millis(10))),
        ("doubled", link().duplicate(0.02).loss(0.01)),
        ("marks", Link::new(10_000_000).delay_ms(20).key("queue", "{ kind = \"codel\", ecn = true }")),
    ];
    let mut checked = [[0; Rule::ALL.len()]; 2];
    let cases =
        [Congestion::NewReno, Congestion::Cubic].into_iter().flat_map(|law| [(law.clone(), 0), (law, 1)]);
    for (name, link) in links {
        for (congestion, server) in cases.clone() {
            let findings = found(stack, &congestion, (link.clone(), server == 1), |pair| pair);
            let checked = &mut checked[server];
            let told = findings.lines();
            for rule in [
                Rule::Rtt,
                Rule::Lost,
                Rule::Repeated,
                Rule::Probe,
                Rule::Halved,
                Rule::Grown,
                Rule::Persistent,
                Rule::AckDelay,
            ] {
                checked[rule as usize] += findings.checked(rule);
                assert_eq!(findings.broken(rule), 0, "{name}, {congestion:?}, {rule:?}: {told}");
            }
            assert_eq!(findings.unread, 0, "{name}, {congestion:?}");
        }
    }
    for (rule, least) in [
        (Rule::Rtt, 100_000),
        (Rule::Lost, 1500),
        (Rule::Repeated, 1500),
        (Rule::Probe, 20),
        (Rule::Halved, 100),
        (Rule::Persistent, 4),
    ] {
        for (checked, end) in checked.iter().zip(["client", "server"]) {
            assert!(checked[rule as usize] >= least, "{rule:?}, {end} sends: {checked:?}");
        }
    }
}

#[test]
fn quinn_recovers() {
    recovers_as_the_rfc_says(quinn::pair);
}

#[test]
fn noq_recovers() {
    recovers_as_the_rfc_says(noq::pair);
}

/// What quinn does not keep, as its source has it too: probes for longer packets leave above the window,
/// acknowledgements wait while data waits for window or pacer, and its BBR has no answer to persistent congestion.
#[test]
fn what_quinn_does_not_keep_is_found() {
    let findings = judged(&Congestion::NewReno, link().loss(0.02), |pair| pair);
    let flight: Vec<_> = findings.violations.iter().filter(|found| found.rule == Rule::Flight).collect();
    assert!(!flight.is_empty());
    assert!(flight.iter().all(|found| found.what.starts_with("with a probe for longer")), "{flight:?}");
    let late: Vec<_> = findings.violations.iter().filter(|found| found.rule == Rule::AckInTime).collect();
    assert!(!late.is_empty() && late.iter().all(|found| found.is_client), "{late:?}");
    assert!(judged(&Congestion::Bbr, outages(), |pair| pair).broken(Rule::Persistent) > 0);
}

/// A stack whose timeouts come late by `timers`, and whose datagrams wait for `sending`.
struct Slow {
    stack: Box<dyn Stack>,
    timers: Span,
    sending: Span,
    since: Option<Time>,
}

impl Stack for Slow {
    fn next_timeout(&mut self) -> Option<Time> {
        let sending = self.since.map(|since| since + self.sending);
        self.stack.next_timeout().map(|at| at + self.timers).into_iter().chain(sending).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.stack.next_timeout().is_some_and(|at| at + self.timers <= now) {
            self.stack.handle_timeout(now);
        }
    }

    fn receive(&mut self, now: Time, ecn: Ecn, data: &mut [u8]) {
        if self.sending > Span(0) {
            self.since.get_or_insert(now);
        }
        self.stack.receive(now, ecn, data);
    }

    fn transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        if self.since.is_some_and(|since| now < since + self.sending) {
            return None;
        }
        self.since = None;
        self.stack.transmit(now, datagram)
    }

    fn write(&mut self, now: Time, bytes: u64, is_last: bool) {
        self.stack.write(now, bytes, is_last);
    }

    fn stop(&mut self, now: Time) {
        self.stack.stop(now);
    }

    fn report(&mut self) -> Report {
        self.stack.report()
    }
}

fn slow(stack: Box<dyn Stack>, timers: u64, sending: u64) -> Box<dyn Stack> {
    let (timers, sending) = (Span::from_millis(timers), Span::from_millis(sending));
    Box::new(Slow { stack, timers, sending, since: None })
}

/// Timers of the sender are 20 ms late.
#[test]
fn late_timers_are_found() {
    let findings = judged(&Congestion::NewReno, outages(), |(name, sender, receiver)| {
        (name, slow(sender, 20, 0), receiver)
    });
    assert!(findings.broken(Rule::Probe) > 10, "{}", findings.lines());
    assert_eq!(findings.broken(Rule::Rtt), 0);
    let findings =
        found(quinn::pair, &Congestion::NewReno, (outages(), true), |(name, opening, answering)| {
            (name, opening, slow(answering, 20, 0))
        });
    let is_servers = |found: &Violation| !found.is_client;
    assert!(findings.broken(Rule::Probe) > 10, "{}", findings.lines());
    assert!(findings.violations.iter().filter(|found| found.rule == Rule::Probe).all(is_servers));
}

/// The receiver answers 30 ms late.
#[test]
fn late_acknowledgements_are_found() {
    let findings = judged(&Congestion::NewReno, link(), |(name, sender, receiver)| {
        (name, sender, slow(receiver, 0, 30))
    });
    for rule in [Rule::AckInTime, Rule::AckSecond, Rule::AckDisorder] {
        let found = findings.violations.iter().any(|found| found.rule == rule && !found.is_client);
        assert!(found, "{rule:?}: {}", findings.lines());
    }
    // It says so, and the sender's estimates take it out.
    assert_eq!(findings.broken(Rule::AckDelay), 0);
    assert_eq!(findings.broken(Rule::Rtt), 0);
}
