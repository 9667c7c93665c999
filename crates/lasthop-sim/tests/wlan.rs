//! IEEE 802.11 cells: airtime of exchanges by hand, saturation against Bianchi's model, hidden terminals, retries,
//! counters, and what must hold of every run with a radio in it.

use lasthop_core::time::Time;
use lasthop_net::trace::{FrameKind, FrameOutcome, FrameRecord};
use lasthop_sim::run::Run;
use lasthop_sim::summary::LinkSummary;
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy;

use crate::testkit::{EVERYTHING, SUMMARY, TRACE, hops, plan_of, run_both_ways, run_text};

/// A cell with these keys, a wire without queueing, and these flows.
fn cell(stations: u32, radius: f64, keys: &str, duration: &str, flows: &str) -> String {
    format!(
        "duration = \"{duration}\"\nwarmup = \"1 s\"\n[udp]\nheader = \"0 B\"\npayload = \"1500 \
         B\"\n[topology]\nkind = \"wlan\"\nstations = {stations}\nradius = {radius:?}\nwire = {{ rate = \"1 \
         Gbit/s\", delay = \"1 ms\" }}\n[topology.cell]\n{keys}\n{flows}\n"
    )
}

/// Saturated stations: each offers more than the channel carries, in packets of `bytes`.
fn saturated(stations: u32, bytes: u32) -> String {
    format!(
        "[[flows]]\ncount = {stations}\ntransport = \"udp\"\nstart = {{ uniform = [\"0 s\", \"10 ms\"] }}\n\
         traffic = {{ kind = \"cbr\", rate = \"8 Mbit/s\", packet = \"{bytes} B\" }}\n"
    )
}

fn mbit(run: &Run) -> f64 {
    run.summary.totals.throughput_bit_s / 1e6
}

fn link<'r>(run: &'r Run, name: &str) -> &'r LinkSummary {
    run.summary.links.iter().find(|link| link.name == name).unwrap()
}

/// NV-3.1: a saturated station alone, acknowledgements at 1 Mbit/s, 36 B of overhead. The mean backoff of a finite run
/// is not exactly 15.5 slots: half a per cent.
#[test]
fn one_saturated_station() {
    for (bytes, expected) in [(512, 3.2391), (1024, 5.0046), (1500, 6.0512)] {
        let text = cell(1, 1.0, "basic_rates = [\"1 Mbit/s\"]", "11 s", &saturated(1, bytes));
        let measured = mbit(&run_text(&text, 1, SUMMARY));
        assert!((measured / expected - 1.0).abs() < 0.005, "{bytes} B: {measured} of {expected}");
    }
}

/// A graph with an access point and these keys of stations at 1 m, which send packets of 1500 B to it without pause.
fn with_rates(rates: &[&str], keys: &str) -> Run {
    let names = (1..=rates.len()).map(|number| format!("\"s{number}\"")).collect::<Vec<_>>().join(", ");
    let stations = rates.iter().zip(1..).map(|(rate, number)| {
        format!("[[topology.cells.stations]]\nnode = \"s{number}\"\nposition = [1, {number}]\n{rate}\n")
    });
    let flows = (1..=rates.len()).map(|number| {
        format!(
            "[[flows]]\nname = \"f{number}\"\ntransport = \"udp\"\nsource = \"s{number}\"\nsink = \"ap\"\n\
             traffic = {{ kind = \"cbr\", rate = \"8 Mbit/s\", packet = \"1500 B\" }}\n"
        )
    });
    let text = format!(
        "duration = \"21 s\"\nwarmup = \"1 s\"\n[udp]\nheader = \"0 B\"\npayload = \"1500 B\"\n[topology]\nkind = \
         \"graph\"\nnodes = [\"ap\", {names}]\n[[topology.cells]]\naccess_point = \"ap\"\nposition = [0, 0]\n\
         basic_rates = [\"1 Mbit/s\"]\n{keys}\n{}{}",
        stations.collect::<String>(),
        flows.collect::<String>(),
    );
    run_text(&text, 1, SUMMARY)
}

/// A packet at 2 Mbit/s takes 192 + 1536 * 8 / 2 = 6336 us, DIFS 50, SIFS 10, an ACK 304 and the mean backoff 310: 7010
/// us in all; 1983.1 us at 11 Mbit/s. Of two stations with one rate each the MAC gives both as many packets (Heusse et
/// al., INFOCOM 2003), here some 2200, of which the shares are known within 10 %. Two saturated stations send in a slot
/// with a probability of 0.0574 by Bianchi's model, which gives the idle slots and the collisions for each packet; a
/// collision lasts as long as the slow frame.
#[test]
fn stations_have_rates_of_their_own() {
    let of = |run: &Run, flow: usize| run.summary.flows[flow].throughput_bit_s;
    let alone = of(&with_rates(&["rate = \"2 Mbit/s\""], ""), 0);
    assert!((alone / (12_000.0 / 7010e-6) - 1.0).abs() < 0.005, "{alone}");
    // Whatever the others do to find theirs.
    let adaptive = of(&with_rates(&["rate = \"2 Mbit/s\""], "rate_control = \"arf\""), 0);
    assert!((adaptive / alone - 1.0).abs() < 1e-9, "{adaptive} and {alone}");
    let usual = of(&with_rates(&[""], ""), 0);
    assert!((usual / (12_000.0 / 1983.1e-6) - 1.0).abs() < 0.005, "{usual}");
    let both = with_rates(&["", "rate = \"2 Mbit/s\""], "");
    let (fast, slow) = (of(&both, 0), of(&both, 1));
    assert!((fast / slow - 1.0).abs() < 0.1, "{fast} and {slow}");
    let tau = 0.0574;
    let (idle, collisions) = ((1.0 - tau) / (2.0 * tau), tau / (2.0 * (1.0 - tau)));
    let pair = 1309.1e-6 + 6336e-6 + 2.0 * (364e-6 + idle * 20e-6 + collisions * (6336e-6 + 364e-6));
    assert!(((fast + slow) / (2.0 * 12_000.0 / pair) - 1.0).abs() < 0.02, "{fast} and {slow}");
}

/// Bianchi's model (JSAC 2000) with the retry limit of infinity, CWmin 31 and five doublings.
fn bianchi(stations: u32, (success, collision): (f64, f64), bits: f64) -> f64 {
    const SLOT: f64 = 20.0;
    let (window, stages) = (32.0_f64, 5);
    let tau_of = |p: f64| {
        let doubled = (2.0 * p).powi(stages);
        2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (window + 1.0) + p * window * (1.0 - doubled))
    };
    // The fixed point by halving: tau falls with p.
    let n = f64::from(stations);
    let (mut low, mut high) = (0.0, 0.999);
    for _ in 0..100 {
        let p = 0.5 * (low + high);
        let tau = tau_of(if (p - 0.5_f64).abs() < 1e-9 { 0.5 + 1e-9 } else { p });
        if 1.0 - (1.0 - tau).powf(n - 1.0) > p { low = p } else { high = p }
    }
    let tau = tau_of(low);
    let any = 1.0 - (1.0 - tau).powf(n);
    let alone = n * tau * (1.0 - tau).powf(n - 1.0);
    alone * bits / ((1.0 - any) * SLOT + alone * success + (any - alone) * collision)
}

/// NV-3.8: the model itself gives the figures that it is known to give.
#[test]
fn the_model_of_saturation() {
    let model = |stations| bianchi(stations, (1326.909, 1326.909), 8192.0);
    for (stations, expected) in [(2, 5.3460), (5, 5.2963), (10, 5.0088)] {
        assert!((model(stations) - expected).abs() < 2e-4, "{stations}: {}", model(stations));
    }
}

/// Saturation of 1 to 50 stations within 4 % of the model in which stations wait for EIFS after a collision, with RTS
/// and without.
#[test]
fn saturation_follows_bianchi() {
    // DIFS 50, SIFS 10, data 963, answers 304, RTS 352; a lost frame takes EIFS 364 instead of the answer and DIFS.
    let basic = (963.0 + 10.0 + 304.0 + 50.0, 963.0 + 364.0);
    let with_rts = (352.0 + 10.0 + 304.0 + 10.0 + basic.0, 352.0 + 364.0);
    for (keys, times) in [("", basic), ("rts_threshold = \"0 B\"", with_rts)] {
        for stations in [2, 5, 10, 20, 50] {
            let keys = format!("basic_rates = [\"1 Mbit/s\"]\n{keys}");
            let run = run_text(&cell(stations, 10.0, &keys, "6 s", &saturated(stations, 1024)), 1, SUMMARY);
            let (measured, expected) = (mbit(&run), bianchi(stations, times, 8192.0));
            assert!(
                (measured / expected - 1.0).abs() < 0.04,
                "{stations} stations, {keys}: {measured} of {expected}"
            );
            let busy: f64 =
                run.summary.links.iter().filter(|link| link.radio.is_some()).map(|l| l.utilisation).sum();
            assert!(
                run.summary.totals.jain_index.unwrap() > 0.9 || stations == 50,
                "{}",
                run.summary.totals.jain_index.unwrap()
            );
            // What collides overlaps; without collisions the air is one.
            assert!(stations > 2 || busy < 1.0, "{busy}");
        }
    }
}

/// A first frame on an idle medium: DIFS has long passed, so it goes out at once and arrives after its airtime and one
/// time of flight; a profile `ns2` draws a backoff first.
#[test]
fn immediate_access() {
    let one = "[[flows]]\ntransport = \"udp\"\nstart = \"2 s\"\nstop = \"2.001 s\"\n\
               traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"1024 B\" }\n";
    let run = run_both_ways(&cell(1, 30.0, "", "3 s", one), 1);
    let first = hops(&run).iter().find(|hop| hop.arrived.is_some()).unwrap();
    // 963 us, and 30 m at 3e8 m/s, which the circle may round to 101 ns.
    assert_eq!(first.transmitted.unwrap().0, 2_000_000_000);
    assert!((963_100..=963_101).contains(&(first.arrived.unwrap().0 - 2_000_000_000)), "{first:?}");
    let run = run_both_ways(
        &cell(1, 30.0, "profile = \"ns2\"\nrate = \"11 Mbit/s\"\nrts_threshold = \"3000 B\"", "3 s", one),
        1,
    );
    let first = hops(&run).iter().find(|hop| hop.arrived.is_some()).unwrap();
    let waited = first.transmitted.unwrap().0 - 2_000_000_000;
    // 25 us in the link layer, DIFS, 0 to 30 slots.
    assert!(waited >= 75_000 && (waited - 75_000) % 20_000 == 0 && waited <= 675_000, "{waited}");
}

/// NV-3.3: RTS, CTS, data and acknowledgement in a row, each SIFS after the one before.
#[test]
fn an_exchange_with_rts() {
    let one = "[[flows]]\ntransport = \"udp\"\nstart = \"2 s\"\nstop = \"2.001 s\"\n\
               traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"1024 B\" }\n";
    let keys = "rts_threshold = \"0 B\"\nbasic_rates = [\"1 Mbit/s\"]\npropagation_delay = \"100 ns\"";
    let run = run_both_ways(&cell(1, 30.0, keys, "3 s", one), 1);
    let first = hops(&run).iter().find(|hop| hop.arrived.is_some()).unwrap();
    // 352 + 10 + 304 + 10 us and two times of flight before the data, 963 us and one more until they are there.
    assert_eq!(first.transmitted.unwrap().0, 2_000_000_000 + 676_000 + 200);
    assert_eq!(first.arrived.unwrap().0, 2_000_000_000 + 676_000 + 963_000 + 300);
    let radio = link(&run, "radio-1").radio.clone().unwrap();
    assert_eq!((radio.rts_successes, radio.rts_failures, radio.transmitted_frames), (1, 0, 1));
}

/// A list of losses at the access point: the k-th frames that it hears from the station.
fn lossy(packets: &str, more: &str) -> Run {
    let one = "[[flows]]\ntransport = \"udp\"\nstart = \"2 s\"\nstop = \"2.001 s\"\n\
               traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"1024 B\" }\n";
    let keys = format!("error = {{ kind = \"list\", packets = {packets} }}\n{more}");
    run_both_ways(&cell(1, 30.0, &keys, "3 s", one), 1)
}

/// NV-3.5: an MSDU that needs three attempts, and one that fails seven times.
#[test]
fn counters_of_retries() {
    // The list is of both directions alike; the third frame is read, and so is the first acknowledgement.
    let radio = link(&lossy("[0, 1]", ""), "radio-1").radio.clone().unwrap();
    // Two data frames are lost; the first two acknowledgements, numbers 0 and 1 of the other direction, are lost too.
    assert_eq!((radio.attempts, radio.ack_failures, radio.retries, radio.multiple_retries), (5, 4, 1, 1));
    assert_eq!((radio.transmitted_fragments, radio.transmitted_frames, radio.failed), (1, 1, 0));
    assert_eq!((radio.received_fragments, radio.duplicates, radio.retries_received), (3, 2, 3));
    assert_eq!(radio.fcs_errors, 2);
    let run = lossy("[0, 1, 2, 3, 4, 5, 6]", "");
    let radio = link(&run, "radio-1").radio.clone().unwrap();
    assert_eq!((radio.attempts, radio.ack_failures, radio.failed, radio.transmitted_frames), (7, 7, 1, 0));
    assert_eq!(run.summary.totals.packets_lost["link-gave-up"], 1);
    // With RTS the short limit counts RTS.
    let radio =
        link(&lossy("[0, 1, 2, 3, 4, 5, 6]", "rts_threshold = \"0 B\""), "radio-1").radio.clone().unwrap();
    assert_eq!((radio.attempts, radio.rts_failures, radio.failed), (0, 7, 1));
}

/// A station that has sent a CTS waits for the data in profile `ns2`: when the CTS is lost it answers no RTS until
/// the data frame would have come, 10 + 8,664 us later, and the RTS in between are lost as well.
#[test]
fn a_lost_cts_occupies() {
    // The first frame of either direction is lost: the RTS, and then the CTS that answers the second.
    let answers = |profile: &str| {
        let radio =
            link(&lossy("[0]", &format!("rts_threshold = \"0 B\"\n{profile}")), "radio-1").radio.clone();
        let radio = radio.unwrap();
        assert_eq!(
            (radio.transmitted_frames, radio.attempts - radio.ack_failures),
            (1, 1),
            "it comes through"
        );
        radio.rts_failures
    };
    assert_eq!(answers("basic_rates = [\"1 Mbit/s\"]"), 2, "one for each that is lost");
    let failures = answers("profile = \"ns2\"\nrate = \"1 Mbit/s\"");
    assert!((4..=6).contains(&failures), "{failures}");
}

/// NV-3.4: A and C 240 m on both sides of B. Sensing 550 m they defer to each other, sensing 250 m they are hidden:
/// two in five frames of 1024 B collide, as in ns-2 (38 %), or with RTS mainly the RTS do.
#[test]
fn hidden_terminals() {
    let text = |keys: &str| {
        let flow = |source| {
            format!(
                "[[flows]]\nname = \"{source}\"\nsource = \"{source}\"\nsink = \"b\"\ntransport = \"udp\"\n\
                 traffic = {{ kind = \"cbr\", rate = \"8 Mbit/s\", packet = \"1024 B\", random = true }}\n"
            )
        };
        format!(
            "duration = \"11 s\"\nwarmup = \"1 s\"\n[udp]\nheader = \"0 B\"\n[topology]\nkind = \"graph\"\n\
             nodes = [\"a\", \"b\", \"c\"]\n[[topology.cells]]\naccess_point = \"b\"\n\
             stations = [{{ node = \"a\", position = [-240, 0] }}, \
             {{ node = \"c\", position = [240, 0] }}]\n{keys}\n{}{}",
            flow("a"),
            flow("c")
        )
    };
    let share = |run: &Run, what: fn(&LinkSummary) -> (u64, u64)| {
        let (lost, all) = ["a-b", "c-b"]
            .iter()
            .map(|name| what(link(run, name)))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        lost as f64 / all as f64
    };
    let data =
        |link: &LinkSummary| (link.radio.clone().unwrap().ack_failures, link.radio.clone().unwrap().attempts);
    let rts = |link: &LinkSummary| {
        let radio = link.radio.clone().unwrap();
        (radio.rts_failures, radio.rts_failures + radio.rts_successes)
    };
    let polite = run_text(&text(""), 1, SUMMARY);
    assert!(share(&polite, data) < 0.1, "{}", share(&polite, data));
    let hidden = run_text(&text("sense_threshold = -64.38"), 1, SUMMARY);
    assert!(share(&hidden, data) > 0.35, "{}", share(&hidden, data));
    let shielded = run_text(&text("sense_threshold = -64.38\nrts_threshold = \"0 B\""), 1, SUMMARY);
    assert!(share(&shielded, data) < 0.1, "{}", share(&shielded, data));
    assert!(share(&shielded, rts) > 0.15, "{}", share(&shielded, rts));
    assert!(mbit(&hidden) < 0.75 * mbit(&polite), "{} {}", mbit(&hidden), mbit(&polite));
    assert!(mbit(&polite) > 5.2, "{}", mbit(&polite));
}

/// From station to station through the access point: two transmissions, half the rate.
#[test]
fn between_stations_through_the_access_point() {
    let flow = "[[flows]]\nsource = \"station-1\"\nsink = \"station-2\"\ntransport = \"udp\"\n\
                traffic = { kind = \"cbr\", rate = \"8 Mbit/s\", packet = \"1024 B\" }\n";
    let run = run_both_ways(&cell(2, 10.0, "", "6 s", flow), 1);
    // The access point and the station take turns; the station's surplus is lost at the access point's queue.
    assert!((2.3..3.0).contains(&mbit(&run)), "{}", mbit(&run));
    assert!(link(&run, "radio-2 (reverse)").packets_sent > 0 && link(&run, "wire").packets_sent == 0);
}

/// Without an access point stations talk to one another.
#[test]
fn ad_hoc() {
    let text = "duration = \"6 s\"\nwarmup = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\", \"c\"]\n\
                [[topology.cells]]\nstations = [{ node = \"a\", position = [0, 0] }, { node = \"b\", position = [5, \
                0] }, { node = \"c\", position = [0, 5] }]\n\
                [[flows]]\ncount = 2\nsource = \"a\"\nsink = \"b\"\ntransport = \"reno\"\n\
                [[flows]]\nsource = \"c\"\nsink = \"a\"\ntransport = \"reno\"\n";
    let run = run_both_ways(text, 1);
    assert!(run.summary.flows.iter().all(|flow| flow.goodput_bit_s > 0.3e6), "{:?}", run.summary.totals);
}

/// TCP up and down through an access point: the ledger balances, both evaluations agree, no flow starves for ever.
#[test]
fn tcp_through_an_access_point() {
    let flows = "[[flows]]\ncount = 3\ntransport = \"newreno\"\n[[flows]]\nname = \"down\"\ncount = 2\n\
                 transport = \"newreno\"\ndirection = \"reverse\"\n";
    let run = run_both_ways(
        &cell(5, 10.0, "error = { kind = \"bernoulli\", packet_error_rate = 0.02 }", "11 s", flows),
        1,
    );
    // 1500 B packets and 40 B acknowledgements, both contended for.
    assert!(
        (4.0e6..5.2e6).contains(&run.summary.totals.goodput_bit_s),
        "{}",
        run.summary.totals.goodput_bit_s
    );
    let busy: f64 =
        run.summary.links.iter().filter(|link| link.radio.is_some()).map(|link| link.utilisation).sum();
    assert!(busy < 1.0, "the air is one: {busy}");
}

/// A station more leaves the draws of the others alone: with frames lost by numbers, and so far apart that none hears
/// another, the first pair does exactly what it did.
#[test]
fn a_station_more_leaves_the_others_alone() {
    let text = |third: &str| {
        format!(
            "duration = \"4 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\", \"c\", \"d\"]\n\
             [[topology.cells]]\naccess_point = \"b\"\n\
             stations = [{{ node = \"a\", position = [5, 0] }}]\n\
             error = {{ kind = \"bernoulli\", packet_error_rate = 0.1 }}\npropagation_delay = \"1 us\"\n\
             [[topology.cells]]\naccess_point = \"d\"\nposition = [5000, 0]\n\
             stations = [{{ node = \"c\", position = [5005, 0] }}]\n\
             error = {{ kind = \"bernoulli\", packet_error_rate = 0.1 }}\npropagation_delay = \"1 us\"\n\
             [[flows]]\nname = \"ab\"\nsource = \"a\"\nsink = \"b\"\ntransport = \"reno\"\nstart = \"0 s\"\n{third}"
        )
    };
    let third =
        "[[flows]]\nname = \"cd\"\nsource = \"c\"\nsink = \"d\"\ntransport = \"reno\"\nstart = \"0 s\"\n";
    let (alone, joined) = (run_text(&text(""), 3, TRACE), run_text(&text(third), 3, TRACE));
    let times = |run: &Run| {
        hops(run)
            .iter()
            .filter(|hop| hop.flow == 0)
            .map(|hop| (hop.transmitted, hop.arrived))
            .collect::<Vec<_>>()
    };
    assert!(times(&alone).len() > 1_000);
    assert_eq!(times(&alone), times(&joined));
}

/// Errors behind the MAC are not repaired, errors before it are.
#[test]
fn errors_before_and_behind_the_retries() {
    let flows = "[[flows]]\ntransport = \"udp\"\n\
                 traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"1000 B\" }\n";
    let lost = |position| {
        let error = format!(
            "error = {{ kind = \"bernoulli\", packet_error_rate = 0.05, position = \"{position}\" }}"
        );
        let run = run_text(&cell(1, 10.0, &error, "21 s", flows), 1, SUMMARY);
        let totals = &run.summary.totals.packets_lost;
        (totals["channel-error"], link(&run, "radio-1").radio.clone().unwrap().ack_failures)
    };
    let (before, retried) = lost("after-transmission");
    // 2,500 packets; an attempt fails with 1 - 0.95^2.
    assert_eq!(before, 0);
    assert!((200..=340).contains(&retried), "{retried}");
    let (behind, retried) = lost("after-arq");
    assert!((95..=170).contains(&behind) && retried == 0, "{behind} {retried}");
}

/// Signal over noise: at some distance 11 Mbit/s loses everything and 1 Mbit/s nothing, and both adaptations find what
/// works.
#[test]
fn adaptation_finds_a_rate_that_works() {
    let flows = "[[flows]]\ntransport = \"udp\"\n\
                 traffic = { kind = \"cbr\", rate = \"8 Mbit/s\", packet = \"1000 B\" }\n";
    let carried = |radius: f64, keys: &str| {
        let keys = format!(
            "propagation = {{ kind = \"log-distance\", exponent = 3.5 }}\nnoise_figure = 7\nsense_threshold = -98\n\
             tx_power = 15\nfrequency = 2437\n{keys}"
        );
        mbit(&run_text(&cell(1, radius, &keys, "6 s", flows), 1, SUMMARY))
    };
    let near = carried(10.0, "");
    assert!(near > 4.5, "{near}");
    // 40 dB at 1 m; at 90 m another 68 dB: 15 - 108 = -93 dBm, at the noise of -93.5 dBm.
    let far = 92.0;
    assert!(carried(far, "rate = \"11 Mbit/s\"") < 0.1, "{}", carried(far, "rate = \"11 Mbit/s\""));
    let slow = carried(far, "rate = \"1 Mbit/s\"");
    assert!(slow > 0.5, "{slow}");
    for control in ["arf", "minstrel"] {
        let adapted = carried(far, &format!("rate_control = \"{control}\""));
        assert!(adapted > 0.6 * slow, "{control}: {adapted} of {slow}");
        assert!(carried(10.0, &format!("rate_control = \"{control}\"")) > 0.85 * near, "{control}");
    }
}

/// OFDM at 54 Mbit/s alone: DIFS 28, 7.5 slots of 9 us, 254 us, SIFS 10, an acknowledgement of 34 us at 24 Mbit/s.
#[test]
fn ofdm_alone_and_protected() {
    let flows = "[[flows]]\ntransport = \"udp\"\n\
                 traffic = { kind = \"cbr\", rate = \"50 Mbit/s\", packet = \"1500 B\" }\n";
    let alone = mbit(&run_text(&cell(1, 1.0, "phy = \"802.11g\"", "3 s", flows), 1, SUMMARY));
    let cycle = 28.0 + 67.5 + 254.0 + 10.0 + 34.0;
    assert!((alone / (12_000.0 / cycle) - 1.0).abs() < 0.01, "{alone}");
    // A CTS to itself at 11 Mbit/s: 192 + 11 us, SIFS, DIFS 50, 7.5 slots of 20 us.
    let keys = "phy = \"802.11g\"\nprotection = true\n\
                basic_rates = [\"11 Mbit/s\", \"6 Mbit/s\", \"12 Mbit/s\", \"24 Mbit/s\"]";
    let protected = mbit(&run_text(&cell(1, 1.0, keys, "3 s", flows), 1, SUMMARY));
    let cycle = 50.0 + 150.0 + 203.0 + 10.0 + 254.0 + 10.0 + 34.0;
    assert!((protected / (12_000.0 / cycle) - 1.0).abs() < 0.01, "{protected}");
}

/// Beacons take their share of the air: 80 B at 1 Mbit/s every 102.4 ms are 0.81 %, and their backoff.
#[test]
fn beacons_cost_airtime() {
    let with =
        mbit(&run_text(&cell(1, 10.0, "beacon = \"102.4 ms\"", "11 s", &saturated(1, 1024)), 1, SUMMARY));
    let without = mbit(&run_text(&cell(1, 10.0, "", "11 s", &saturated(1, 1024)), 1, SUMMARY));
    assert!((0.004..0.012).contains(&(1.0 - with / without)), "{with} {without}");
}

/// A station that walks away loses its cell when it leaves the range of 250 m.
#[test]
fn walking_out_of_range() {
    let text = "duration = \"20 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"walker\", \"ap\"]\n\
                [[topology.cells]]\naccess_point = \"ap\"\n\
                stations = [{ node = \"walker\", position = [200, 0], track = [{ at = \"20 s\", position = [300, 0] \
                }] }]\n[[flows]]\nsource = \"walker\"\nsink = \"ap\"\ntransport = \"udp\"\nstart = \"0 s\"\n\
                traffic = { kind = \"cbr\", rate = \"80 kbit/s\", packet = \"1000 B\" }\n";
    let run = run_text(text, 1, TRACE);
    let last = hops(&run).iter().filter_map(|hop| hop.arrived).max().unwrap();
    assert!((9.8..10.2).contains(&last.seconds()), "{last}");
    assert!(link(&run, "walker-ap").radio.clone().unwrap().failed > 90);
}

/// Two cells on different channels and a host in both: its flow changes from one access point to the other.
#[test]
fn from_cell_to_cell() {
    let cell = |access_point: &str, channel: u32, at: u32| {
        format!(
            "[[topology.cells]]\naccess_point = \"{access_point}\"\nposition = [{at}, 0]\nchannel = {channel}\n\
             stations = [{{ node = \"walker\", position = [10, 0], \
             track = [{{ at = \"20 s\", position = [390, 0] }}] }}]\n"
        )
    };
    let wire = |to: &str| {
        format!(
            "[[topology.links]]\nfrom = \"server\"\nto = \"{to}\"\nrate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n"
        )
    };
    let text = format!(
        "duration = \"20 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"west\", \"east\", \
         \"walker\"]\n{}{}{}{} [[flows]]\nsource = \"server\"\nsink = \"walker\"\ntransport = \"newreno\"\nstart = \
         \"0 s\"\n[[flows.reroute]]\nat = \"10 s\"\nnodes = [\"server\", \"east\", \"walker\"]\n",
        wire("west"),
        wire("east"),
        cell("west", 1, 0),
        cell("east", 6, 400)
    );
    let run = run_both_ways(&text, 1);
    let sent = |name| link(&run, name).radio.clone().unwrap().transmitted_frames;
    assert!(sent("walker-west (reverse)") > 2_000 && sent("walker-east (reverse)") > 2_000);
    assert!(run.summary.flows[0].goodput_bit_s > 3.5e6, "{}", run.summary.flows[0].goodput_bit_s);
}

/// A random cell: where its stations are, what they send, and the rules that they follow.
fn random_cell() -> impl Strategy<Value = (String, u64)> {
    let station = (-240..240_i32, -240..240_i32, 0..3_u32);
    let stations = proptest::collection::vec(station, 1..7);
    let keys = proptest::sample::select(vec![
        "",
        "profile = \"ns2\"\nrate = \"11 Mbit/s\"",
        "rts_threshold = \"500 B\"",
        "phy = \"802.11g\"\nprotection = true",
        "phy = \"802.11a\"\nrate_control = \"minstrel\"\nnoise_figure = 7",
        "sense_threshold = -64.38\nrate_control = \"arf\"",
        "message_in_message = true\ncapture = 3\nqueue = { kind = \"drop-tail\", limit = \"3 packets\" }",
        "propagation = { kind = \"log-distance\", shadowing = 8 }\nreceive_threshold = -78",
        "beacon = \"20 ms\"\nprocessing = \"30 us\"",
    ]);
    let loss = 0..3_u32;
    (stations, keys, loss, 0..1000_u64).prop_map(|(stations, keys, loss, seed)| {
        let names: Vec<String> = (1..=stations.len()).map(|number| format!("\"s{number}\"")).collect();
        let members: Vec<String> = names
            .iter()
            .zip(&stations)
            .map(|(name, (x, y, _))| {
                // Within 170 m, however the corners of the square lie.
                format!("{{ node = {name}, position = [{}, {}] }}", x / 2, y / 2)
            })
            .collect();
        let flows: String = names
            .iter()
            .zip(&stations)
            .map(|(name, (_, _, kind))| match kind {
                0 => format!("[[flows]]\nsource = {name}\nsink = \"server\"\ntransport = \"sack\"\n"),
                1 => format!("[[flows]]\nsource = \"server\"\nsink = {name}\ntransport = \"newreno\"\n"),
                _ => format!(
                    "[[flows]]\nsource = {name}\nsink = \"server\"\ntransport = \"udp\"\n\
                     traffic = {{ kind = \"cbr\", rate = \"3 Mbit/s\", packet = \"700 B\" }}\n"
                ),
            })
            .collect();
        let text = format!(
            "duration = \"1.5 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"ap\", {}]\n\
             [[topology.links]]\nfrom = \"ap\"\nto = \"server\"\nrate = \"20 Mbit/s\"\ndelay = \"1 ms\"\n\
             [[topology.cells]]\naccess_point = \"ap\"\nstations = [{}]\n{keys}\n\
             error = {{ kind = \"bernoulli\", packet_error_rate = 0.0{loss} }}\n{flows}",
            names.join(", "),
            members.join(", ")
        );
        (text, seed)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever the cell: every packet is accounted for, both evaluations agree, a station never sends two frames at
    /// once nor while its NAV is set (the medium asserts it), and counters agree with one another.
    #[test]
    fn whatever_the_cell((text, seed) in random_cell()) {
        let eager = run_both_ways(&text, seed);
        for link in &eager.summary.links {
            let Some(radio) = &link.radio else { continue };
            prop_assert!(link.utilisation <= 1.0, "{} {}", &link.name, link.utilisation);
            prop_assert_eq!(radio.attempts, link.packets_sent);
            // An attempt is acknowledged, fails, or is under way at the end.
            let ended = radio.transmitted_frames + radio.ack_failures;
            prop_assert!(ended <= radio.attempts && radio.attempts <= ended + 1, "{:?}", radio);
            prop_assert!(radio.multiple_retries <= radio.retries && radio.retries <= radio.transmitted_frames);
            prop_assert!(radio.duplicates <= radio.retries_received);
            prop_assert!(radio.retries_received <= radio.received_fragments);
            prop_assert!(radio.received_fragments <= radio.attempts);
        }
    }

    /// What stations recorded of the air: none sends two frames at once, the directions of a station never take more
    /// airtime together than there is, and no frame but an acknowledgement, or data behind the CTS that let it go, is
    /// sent before the end of a reservation that its sender has read.
    #[test]
    fn no_station_sends_while_its_nav_is_set((text, seed) in random_cell()) {
        let (plan, run) = (plan_of(&text), run_text(&text, seed, EVERYTHING));
        let frames = &run.recorded.frames;
        let seen_at = |station: u32, outcome| {
            frames.iter().filter(move |frame| frame.at == station && frame.outcome == outcome)
        };
        for station in 0..plan.nodes.len() as u32 {
            let own: Vec<&FrameRecord> = seen_at(station, FrameOutcome::Sent).collect();
            for pair in own.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start, "{:?}", pair);
            }
            let directions = run.summary.links.iter().enumerate().filter(|(index, link)| {
                let ends = &plan.links[index / 2];
                link.radio.is_some() && (if index % 2 == 0 { ends.from } else { ends.to }) as u32 == station
            });
            let airtime: f64 = directions.map(|(_, link)| link.utilisation).sum();
            prop_assert!(airtime <= 1.0, "{}", airtime);
            let mut read = seen_at(station, FrameOutcome::Read).peekable();
            let (mut nav, mut let_go) = (Time::ZERO, Time::ZERO);
            for sent in own {
                while let Some(frame) = read.next_if(|frame| frame.end < sent.start) {
                    if frame.to != Some(station) {
                        nav = nav.max(frame.end + frame.duration);
                    } else if frame.kind == FrameKind::Cts {
                        let_go = frame.end;
                    }
                }
                // SIFS is at most 16 us, DIFS at least 28.
                let answers = sent.kind == FrameKind::Data && sent.start.since(let_go).0 < 20_000;
                prop_assert!(sent.kind == FrameKind::Ack || answers || nav <= sent.start, "{:?}, {}", sent, nav);
                if sent.kind == FrameKind::Cts && sent.to.is_none() {
                    let_go = sent.end;
                }
            }
        }
    }
}
