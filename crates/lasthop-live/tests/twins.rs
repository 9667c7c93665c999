//! The laws that the kernel decides by itself (`bpf/laws.h`) beside those of this package: the same ACKs, losses and
//! timeouts, compiled for this machine with `cc`, which linking Rust needs anyway.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lasthop_cc::{AckSample, Arrival, CongestionControl, Controller, ControllerConfig, LossSample, Window};
use lasthop_core::time::{Span, Time};
use lasthop_net::transport::profile::Profile;
use lasthop_net::transport::tcp::config::{Recovery, TcpConfig};

const MSS: u32 = 1448;
/// Steps of one connection.
const STEPS: u32 = 4000;

/// Numbers that look like chance (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What happens in one step, with the window before it.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: char,
    now: u64,
    rtt: u64,
    srtt: u64,
    una: u64,
    ack: u64,
    acked: u32,
    may_grow: bool,
    window: (u32, u32),
}

impl Step {
    fn line(&self) -> String {
        let Step { kind, now, rtt, srtt, ack, acked, may_grow, window: (cwnd, ssthresh), .. } = *self;
        format!(
            "{kind} {now} {rtt} {srtt} {} {acked} {MSS} 1 {} {cwnd} {ssthresh}",
            ack as u32,
            u32::from(may_grow)
        )
    }
}

/// The program that answers for the twins. Tests run side by side, so each has one of its own.
fn compiled(test: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/twins.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("twins-{test}"));
    let done = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o"])
        .args([&program, &here])
        .status()
        .expect("cc, which linking Rust needs");
    assert!(done.success(), "the twins do not compile");
    program
}

/// What the twin says of these steps.
fn twin(program: &Path, law: &str, steps: &[Step]) -> Vec<(u32, u32)> {
    let mut child = Command::new(program)
        .arg(law)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program that was compiled");
    let mut lines = String::new();
    for step in steps {
        writeln!(lines, "{}", step.line()).expect("room");
    }
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("its answers");
    writer.join().expect("a thread").expect("all is written");
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.lines()
        .map(|line| {
            let (cwnd, ssthresh) = line.split_once(' ').expect("two numbers");
            (cwnd.parse().expect("a window"), ssthresh.parse().expect("a threshold"))
        })
        .collect()
}

fn of_linux(law: &str) -> Controller {
    let config = ControllerConfig::by_name(law).expect("a law");
    TcpConfig::new(Profile::Linux, config, Recovery::Sack).controller.build()
}

/// What the law of this package says of a step; a reduction leaves the window to the kernel, as the twin does.
fn ours(law: &mut Controller, step: &Step) -> (f64, f64) {
    let mut window = Window { cwnd: f64::from(step.window.0), ssthresh: f64::from(step.window.1) };
    let loss = LossSample { now: Time(step.now), flight: window.cwnd, retransmitted: false, truth: None };
    let next = step.ack + 100 * u64::from(MSS);
    match step.kind {
        'l' => return (window.cwnd, law.on_loss(&loss, &window).ssthresh),
        't' => return (window.cwnd, law.on_timeout(&loss, &window).ssthresh),
        _ => {}
    }
    if law.needs().arrivals {
        let arrival = Arrival {
            now: Time(step.now),
            una: step.una,
            ack: step.ack,
            next,
            mss: MSS,
            srtt: Span(step.srtt),
            ece: false,
            marked: 0,
            times: None,
            first_sacked: None,
            discards: None,
            report: None,
        };
        law.on_arrival(&arrival, &mut window);
    }
    let ack = AckSample {
        now: Time(step.now),
        elapsed: Span(step.now),
        rtt: (step.rtt > 0).then_some(Span(step.rtt)),
        srtt: Span(step.srtt),
        acked: step.acked,
        una: step.ack,
        next,
        mss: MSS,
        may_grow: step.may_grow,
        disordered: false,
    };
    law.on_ack(&ack, &mut window);
    (window.cwnd, window.ssthresh)
}

/// Steps of a connection whose windows and RTT wander; sequence numbers wrap. Each begins with a window of its own, so
/// that laws that count fractions and those that count segments stay together.
fn steps(seed: u64) -> Vec<Step> {
    let mut chance = Chance(seed);
    let mut now = 1_000_000_000;
    let mut una = (1 << 32) - 200 * u64::from(MSS);
    let mut base = 20_000_000 + chance.below(200) * 1_000_000;
    let mut made = Vec::new();
    let mut window = (10, 0x7fff_ffff);
    for number in 0..STEPS {
        if number % 500 == 499 {
            base = 20_000_000 + chance.below(200) * 1_000_000;
        }
        now += 1_000 + chance.below(8_000_000);
        let kind = match chance.below(200) {
            0 => 't',
            1..=6 => 'l',
            _ => 'a',
        };
        let covered = if kind == 'a' { [0, 0, 1, 1, 1, 2, 2, 5][chance.below(8) as usize] } else { 0 };
        // In microseconds, as the kernel has them; never just on the edge of a queue of three segments.
        let mut rtt = base / 1000 + chance.below(40_000);
        if covered == 0 || chance.below(10) == 0 {
            rtt = 0;
        } else if rtt.is_multiple_of(2) {
            rtt += 1;
        }
        let ack = una + covered * u64::from(MSS);
        let may_grow = covered > 0 && chance.below(8) != 0;
        if made.len() % 40 == 0 {
            window = (2 + chance.below(150) as u32, 2 + chance.below(200) as u32);
        }
        made.push(Step {
            kind,
            now,
            rtt: rtt * 1000,
            srtt: base + 10_000_000,
            una,
            ack,
            acked: covered as u32,
            may_grow,
            window,
        });
        una = ack;
    }
    made
}

/// As TV-5.4, by hand: a window of 20, a base of 100 ms, and a loss at these RTT, of which the kernel has whole
/// microseconds and one more: 40 - floor(40 x 100001 / 114201) = 5 halves are queued, 6 at 114401.
#[test]
fn veno_has_the_vectors() {
    let program = compiled("veno");
    for (rtt_ms, kept) in [(110.0, 16), (114.2, 16), (114.4, 10), (125.0, 10)] {
        let step = |kind, rtt: f64| Step {
            kind,
            now: 0,
            rtt: (rtt * 1e6) as u64,
            srtt: 100_000_000,
            una: 0,
            ack: 0,
            acked: 0,
            may_grow: true,
            window: (20, 10),
        };
        let all = [step('a', 100.0), step('a', rtt_ms), step('a', rtt_ms), step('l', 0.0)];
        assert_eq!(twin(&program, "veno", &all)[3], (20, kept), "at {rtt_ms} ms");
    }
}

/// As TV-4.6, by hand: none, 79, 180 and 180 segments of 1,448 B within 26 ticks of 4 ms each, at an RTT of
/// 25 ticks. These are 0, 4399, 10024 and 10024 B per tick, and the filters 0, 0; 4399, 4399; 5102, 4486;
/// 5717, 4639.
#[test]
fn westwood_has_the_vectors() {
    let program = compiled("westwood");
    let mut una = 0;
    let mut all = Vec::new();
    for (index, segments) in [0, 80, 180, 180, 180].into_iter().enumerate() {
        let ack = una + segments * u64::from(MSS);
        let (now, rtt) = (index as u64 * 104_000_000, 100_000_000);
        let window = (40, 0x7fff_ffff);
        all.push(Step { kind: 'a', now, rtt, srtt: rtt, una, ack, acked: 0, may_grow: false, window });
        una = ack;
    }
    all.push(Step { kind: 't', ..all[4] });
    // 4639 x 25 / 1448
    assert_eq!(twin(&program, "westwood+", &all)[5].1, 80);
}

/// Twenty connections each: the windows within a segment, or what fractions of one add up to.
#[test]
fn twins_do_what_the_laws_do() {
    let program = compiled("both");
    for law in ["veno", "westwood+"] {
        let mut reductions = 0;
        for seed in 1..=20 {
            let steps = steps(seed);
            let theirs = twin(&program, law, &steps);
            assert_eq!(theirs.len(), steps.len());
            let mut controller = of_linux(law);
            for (index, (step, theirs)) in steps.iter().zip(theirs).enumerate() {
                let (cwnd, ssthresh) = ours(&mut controller, step);
                reductions += u32::from(step.kind != 'a');
                // Nothing is left below two segments, by the kernel's rule; fractions of a segment are not had.
                let near = |mine: f64, twin: u32, more: f64| {
                    (mine.max(2.0) - f64::from(twin)).abs() < 1.0 + more + 1e-6
                };
                // By what one ACK adds in congestion avoidance, the twin waits until it is a segment.
                let added = f64::from(step.acked) / f64::from(theirs.0);
                assert!(
                    near(cwnd, theirs.0, added) && near(ssthresh, theirs.1, 0.0),
                    "{law}, connection {seed}, step {index}: {cwnd} {ssthresh} beside {theirs:?} after {step:?}"
                );
            }
        }
        assert!(reductions > 1000, "{law}: {reductions} reductions");
    }
}
