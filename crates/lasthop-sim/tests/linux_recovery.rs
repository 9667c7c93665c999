//! Loss recovery as Linux has it, in whole runs: spurious timeouts undone, reordering tolerated, tails repaired by
//! probes, lost retransmissions sent again, and reductions spread over a round trip.

use lasthop_core::packet::Kind;
use lasthop_sim::run::Run;
use lasthop_sim::summary::FlowSummary;

use crate::testkit::{Scene, TRACE, drop_tail, hops};

/// A server, a base station and a mobile host; `radio` are keys of the second link, `traffic` what the flow offers.
fn transfer(transport: &str, radio: &str, traffic: &str) -> Run {
    let queue = drop_tail("200 packets");
    let radio = format!("name = \"radio\"\nrate = \"2 Mbit/s\"\ndelay = \"5 ms\"\n{queue}\n{radio}");
    Scene::lasting("60 s")
        .chain(["server", "station", "mobile"], &["rate = \"10 Mbit/s\"\ndelay = \"20 ms\"", &radio])
        .between("server", "mobile", &format!("transport = {transport}\ntraffic = {traffic}"))
        .run(1, TRACE)
}

fn flow(run: &Run) -> &FlowSummary {
    &run.summary.flows[0]
}

/// How often a segment with payload crossed the first link.
fn sent(run: &Run) -> usize {
    hops(run).iter().filter(|hop| hop.direction == 0 && matches!(hop.kind, Kind::Data | Kind::Fin)).count()
}

const ENDLESS: &str = "\"ftp\"";

/// The radio link keeps what comes for one and a half seconds and delivers it afterwards: nothing is lost, and the
/// timer expires.
#[test]
fn a_delay_spike_costs_no_window() {
    let spike = "handoff = { at = [\"5 s\", \"15 s\", \"25 s\"], outage = \"1500 ms\", policy = \"hold\" }";
    let detectors = ["", ", frto = true", ", eifel = true", ", frto = true, eifel = true"];
    for recovery in ["newreno", "sack", "rack"] {
        let runs = detectors.map(|detector| {
            let probes = if recovery == "rack" { ", tlp = false" } else { "" };
            let transport = format!(
                "{{ cc = \"reno\", recovery = \"{recovery}\", spurious_response = \"restore\", \
                 receiver_window = \"40 packets\"{detector}{probes} }}"
            );
            transfer(&transport, spike, ENDLESS)
        });
        let [plain, others @ ..] = &runs;
        assert!(flow(plain).timeouts.unwrap() >= 3, "{recovery}: {}", flow(plain).timeouts.unwrap());
        assert_eq!(flow(plain).undone_reductions.unwrap(), 0, "{recovery}");
        assert_eq!(flow(plain).packets_lost.values().sum::<u64>(), 0, "{recovery}");
        for (run, detector) in others.iter().zip(&detectors[1..]) {
            assert!(flow(run).undone_reductions.unwrap() >= 1, "{recovery}{detector}");
            assert!(
                flow(run).retransmitted_packets.unwrap() < flow(plain).retransmitted_packets.unwrap(),
                "{recovery}{detector}: {} against {}",
                flow(run).retransmitted_packets.unwrap(),
                flow(plain).retransmitted_packets.unwrap()
            );
            assert!(flow(run).goodput_bit_s >= flow(plain).goodput_bit_s, "{recovery}{detector}");
        }
    }
}

/// In the linux profile the whole of it is on, and a spike with several timeouts is undone as well.
#[test]
fn linux_undoes_repeated_timeouts() {
    let spike = "handoff = { at = [\"10 s\"], outage = \"3 s\", policy = \"hold\" }";
    for timestamps in [true, false] {
        let transport = format!(
            "{{ preset = \"cubic\", profile = \"linux\", timestamps = {timestamps}, \
             receiver_window = \"30 packets\" }}"
        );
        let run = transfer(&transport, spike, ENDLESS);
        assert!(
            flow(&run).timeouts.unwrap() >= 2,
            "timestamps {timestamps}: {}",
            flow(&run).timeouts.unwrap()
        );
        assert!(flow(&run).undone_reductions.unwrap() >= 1, "timestamps {timestamps}");
    }
}

/// Real losses are not undone.
#[test]
fn losses_stay_paid_for() {
    let errors = "error = { kind = \"bernoulli\", packet_error_rate = 0.02 }\nreverse = { error = \"none\" }";
    for recovery in ["newreno", "sack", "rack"] {
        let transport = format!("{{ cc = \"reno\", recovery = \"{recovery}\", frto = true, eifel = true }}");
        let run = transfer(&transport, errors, ENDLESS);
        assert!(
            flow(&run).fast_recoveries.unwrap() > 50,
            "{recovery}: {}",
            flow(&run).fast_recoveries.unwrap()
        );
        assert_eq!(flow(&run).undone_reductions.unwrap(), 0, "{recovery}");
    }
    // A large flight with copies of several episodes in it.
    for preset in ["bbr", "cubic", "sack", "newreno"] {
        let run = transfer(&format!("{{ preset = \"{preset}\", profile = \"linux\" }}"), errors, ENDLESS);
        assert!(
            flow(&run).fast_recoveries.unwrap() > 50,
            "{preset}: {}",
            flow(&run).fast_recoveries.unwrap()
        );
        assert_eq!(flow(&run).undone_reductions.unwrap(), 0, "{preset}");
    }
}

/// A link that retransmits and delivers out of order: duplicate ACKs deceive RFC 6675 again and again, time does not.
#[test]
fn reordering_is_no_loss_to_rack() {
    let radio = "error = { kind = \"bernoulli\", packet_error_rate = 0.1 }\n\
                 arq = { attempts = 20, timeout = \"25 ms\", order = \"out-of-order\" }";
    let runs = ["sack", "rack"].map(|recovery| {
        let transport =
            format!("{{ cc = \"reno\", recovery = \"{recovery}\", receiver_window = \"30 packets\" }}");
        transfer(&transport, radio, ENDLESS)
    });
    let [sack, rack] = runs.each_ref().map(flow);
    assert_eq!(sack.packets_lost.values().sum::<u64>() + rack.packets_lost.values().sum::<u64>(), 0);
    assert!(sack.retransmitted_packets.unwrap() > 50, "{}", sack.retransmitted_packets.unwrap());
    assert!(
        rack.retransmitted_packets.unwrap() * 5 < sack.retransmitted_packets.unwrap(),
        "{} against {}",
        rack.retransmitted_packets.unwrap(),
        sack.retransmitted_packets.unwrap()
    );
    assert!(rack.goodput_bit_s > 1.5 * sack.goodput_bit_s, "{} {}", rack.goodput_bit_s, sack.goodput_bit_s);
}

/// The last segments of a transfer are lost. On the way there are the SYN (packet 0) and 69 segments; the link numbers
/// them alike.
#[test]
fn a_probe_repairs_a_lost_tail() {
    let file = "{ kind = \"ftp\", bytes = \"100000 B\" }";
    let clean = transfer("\"sack\"", "", file);
    let last = sent(&clean);
    for lost in [vec![last], vec![last - 1, last]] {
        let radio =
            format!("error = {{ kind = \"list\", packets = {lost:?} }}\nreverse = {{ error = \"none\" }}");
        let [sack, rack, silent] = [
            "{ preset = \"sack\" }",
            "{ cc = \"reno\", recovery = \"rack\" }",
            "{ cc = \"reno\", recovery = \"rack\", tlp = false }",
        ]
        .map(|transport| transfer(transport, &radio, file));
        assert_eq!((flow(&sack).timeouts.unwrap(), flow(&silent).timeouts.unwrap()), (1, 1), "{lost:?}");
        assert_eq!(flow(&rack).timeouts.unwrap(), 0, "{lost:?}");
        let [sack, rack] = [&sack, &rack].map(|run| flow(run).completion_s.unwrap_or(f64::INFINITY));
        assert!(rack < sack - 0.4, "{lost:?}: {rack} s against {sack} s");
    }
}

/// The retransmission of a segment is lost too: RFC 6675 waits for the timer, RACK sends it a third time.
#[test]
fn a_lost_retransmission_costs_no_timeout() {
    // Which packet on the radio link is the first retransmission does not depend on the engine as long as there is one
    // loss and the flight is large.
    let file = "{ kind = \"ftp\", bytes = \"300000 B\" }";
    let lost_once = "error = { kind = \"list\", packets = [60] }\nreverse = { error = \"none\" }";
    let run = transfer("{ cc = \"reno\", recovery = \"rack\" }", lost_once, file);
    let trace = &run.recorded.hops;
    let radio = || trace.iter().filter(|hop| hop.direction == 2);
    let lost = radio().find(|hop| hop.lost.is_some()).map(|hop| hop.seq);
    let again = radio().position(|hop| Some(hop.seq) == lost && hop.lost.is_none());
    let again = again.expect("it is repaired");
    let lost_twice =
        format!("error = {{ kind = \"list\", packets = [60, {again}] }}\nreverse = {{ error = \"none\" }}");
    let run = transfer("{ cc = \"reno\", recovery = \"rack\" }", &lost_twice, file);
    assert_eq!((flow(&run).packets_lost.values().sum::<u64>(), flow(&run).timeouts.unwrap()), (2, 0));
    assert_eq!(flow(&run).bytes_delivered, 300_000);
}

/// PRR sends on every other ACK where the plain reduction stays silent for half a round trip.
#[test]
fn prr_spreads_a_reduction() {
    let lost = "error = { kind = \"list\", packets = [150] }\nreverse = { error = \"none\" }";
    let longest_silence = |prr: &str| {
        let transport = format!(
            "{{ cc = \"reno\", recovery = \"sack\", prr = \"{prr}\", initial_ssthresh = \"40 packets\", \
             delayed_ack = false }}"
        );
        let run = transfer(&transport, lost, "{ kind = \"ftp\", bytes = \"600000 B\" }");
        assert_eq!((flow(&run).fast_recoveries.unwrap(), flow(&run).timeouts.unwrap()), (1, 0), "{prr}");
        let trace = &run.recorded.hops;
        let mut times: Vec<u64> =
            trace.iter().filter(|hop| hop.direction == 0).map(|hop| hop.enqueued.0).collect();
        times.sort_unstable();
        // From the end of slow start to well before the end of the transfer.
        times.retain(|&time| (500_000_000..2_000_000_000).contains(&time));
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    };
    let silences = ["off", "ssrb", "crb", "safe-ack"].map(longest_silence);
    for spread in &silences[1..] {
        assert!(5 * spread < silences[0], "{silences:?}");
    }
}
