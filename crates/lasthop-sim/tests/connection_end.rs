//! The ends of a connection over a channel that takes one chosen packet: the handshake, the FIN and its answers.
//!
//! Losses are listed by number, so every case is the same on every run.

use lasthop_core::packet::Kind;
use lasthop_net::trace::{HopRecord, Recording};
use lasthop_sim::run::{Progress, Run, run};
use lasthop_sim::scenario::{Format, Scenario};

/// `bytes` over one link that loses these packets there and back.
fn transfer(transport: &str, bytes: u32, there: &[u32], back: &[u32]) -> Run {
    let error = |packets: &[u32]| match packets {
        [] => "\"none\"".to_owned(),
        _ => format!("{{ kind = \"list\", packets = {packets:?} }}"),
    };
    let text = format!(
        "duration = \"1000 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n[[topology.links]]\n\
         from = \"a\"\nto = \"b\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nerror = {}\nreverse = {{ error = {} }}\n\
         [[flows]]\nsource = \"a\"\nsink = \"b\"\ntransport = \"{transport}\"\nstart = \"0 s\"\n\
         traffic = {{ kind = \"ftp\", bytes = \"{bytes} B\" }}\n",
        error(there),
        error(back)
    );
    let plan = Scenario::parse(&text, Format::Toml, "end", &[])
        .unwrap_or_else(|error| panic!("{error}"))
        .into_plan();
    run(&plan, 1, Recording { series: false, trace: true }, &Progress::default()).unwrap()
}

fn hops(run: &Run) -> &[HopRecord] {
    run.world.network.trace.as_deref().unwrap()
}

/// How often each kind was sent.
fn sent(run: &Run, kind: Kind) -> usize {
    hops(run).iter().filter(|hop| hop.kind == kind).count()
}

const TRANSPORTS: [&str; 6] = ["tahoe", "reno", "newreno", "sack", "vegas", "cubic"];

/// Packets there are SYN (0), the data with the FIN (1) and the last ACK (2); back come SYN-ACK (0) and FIN-ACK (1).
#[test]
fn any_packet_of_a_short_connection_may_be_lost() {
    let cases: [(&[u32], &[u32], [usize; 5]); 7] = [
        // Lost there, lost back, and how many SYN, SYN-ACK, FIN, FIN-ACK and ACK are sent.
        (&[], &[], [1, 1, 1, 1, 1]),
        (&[0], &[], [2, 1, 1, 1, 1]),
        (&[], &[0], [2, 2, 1, 1, 1]),
        (&[1], &[], [1, 1, 2, 1, 1]),
        (&[], &[1], [1, 1, 2, 2, 1]),
        (&[2], &[], [1, 1, 1, 2, 2]),
        (&[2, 3], &[], [1, 1, 1, 3, 3]),
    ];
    for transport in TRANSPORTS {
        for (there, back, expected) in cases {
            let run = transfer(transport, 1000, there, back);
            let flow = &run.summary.flows[0];
            let context = format!("{transport}, lost {there:?} {back:?}");
            assert_eq!(flow.bytes_delivered, 1000, "{context}");
            assert!(flow.completion_s.is_some(), "{context}");
            let kinds =
                [Kind::Syn, Kind::SynAck, Kind::Fin, Kind::FinAck, Kind::Ack].map(|kind| sent(&run, kind));
            assert_eq!(kinds, expected, "{context}");
            assert_eq!(run.summary.totals.packets_in_flight, 0, "{context}");
        }
    }
}

/// A receiver whose last ACK never comes gives up in the end.
#[test]
fn the_receiver_gives_up() {
    let run = transfer("newreno", 1000, &(2..60).collect::<Vec<_>>(), &[]);
    assert_eq!((sent(&run, Kind::FinAck), sent(&run, Kind::Ack)), (7, 7));
    assert!(run.summary.flows[0].completion_s.is_some());
}

/// RFC 5681 §3.1: a lost SYN or SYN-ACK costs the initial window, here of ten segments.
#[test]
fn after_a_lost_handshake_one_segment_is_sent_first() {
    for transport in TRANSPORTS {
        for (there, back, expected) in [(&[][..], &[][..], 10), (&[0], &[], 1), (&[], &[0], 1)] {
            let run = transfer(transport, 100_000, there, back);
            let data = || hops(&run).iter().filter(|hop| hop.kind == Kind::Data);
            let first = data().next().unwrap().enqueued;
            let at_once = data().filter(|hop| hop.enqueued == first).count();
            assert_eq!(at_once, expected, "{transport}, lost {there:?} {back:?}");
            assert_eq!(run.summary.flows[0].bytes_delivered, 100_000);
        }
    }
}
