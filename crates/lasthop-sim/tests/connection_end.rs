//! The ends of a connection when one chosen packet is lost: the handshake, the FIN and its answers.

use lasthop_core::packet::Kind;
use lasthop_net::plan::{Profile, TcpConfig};

use crate::testkit::pair::Pair;

/// `bytes` from one end to the other; the packets with these numbers are lost there and back.
fn transfer(transport: &str, bytes: u64, there: &[usize], back: &[usize]) -> Pair {
    let config = TcpConfig::preset(transport, Profile::Rfc).unwrap();
    let mut pair = Pair::new(&config).losing(there, back);
    pair.transfer(bytes);
    pair
}

/// How often each kind was sent.
fn sent(pair: &Pair, kind: Kind) -> usize {
    pair.sent(kind).len()
}

const TRANSPORTS: [&str; 6] = ["tahoe", "reno", "newreno", "sack", "vegas", "cubic"];

/// Packets there are SYN (0), the data with the FIN (1) and the last ACK (2); back come SYN-ACK (0) and FIN-ACK (1).
#[test]
fn any_packet_of_a_short_connection_may_be_lost() {
    let cases: [(&[usize], &[usize], [usize; 5]); 7] = [
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
            let pair = transfer(transport, 1000, there, back);
            let context = format!("{transport}, lost {there:?} {back:?}");
            assert_eq!(pair.stats.bytes_delivered, 1000, "{context}");
            assert!(pair.sender.stats.completed.is_some(), "{context}");
            let kinds =
                [Kind::Syn, Kind::SynAck, Kind::Fin, Kind::FinAck, Kind::Ack].map(|kind| sent(&pair, kind));
            assert_eq!(kinds, expected, "{context}");
        }
    }
}

/// A receiver whose last ACK never comes gives up in the end.
#[test]
fn the_receiver_gives_up() {
    let pair = transfer("newreno", 1000, &(2..60).collect::<Vec<_>>(), &[]);
    assert_eq!((sent(&pair, Kind::FinAck), sent(&pair, Kind::Ack)), (7, 7));
    assert!(pair.sender.stats.completed.is_some());
}

/// RFC 5681 §3.1: a lost SYN or SYN-ACK costs the initial window, here of ten segments.
#[test]
fn after_a_lost_handshake_one_segment_is_sent_first() {
    for transport in TRANSPORTS {
        for (there, back, expected) in [(&[][..], &[][..], 10), (&[0], &[], 1), (&[], &[0], 1)] {
            let pair = transfer(transport, 100_000, there, back);
            let data = pair.sent(Kind::Data);
            let at_once = data.iter().filter(|sent| sent.at == data[0].at).count();
            assert_eq!(at_once, expected, "{transport}, lost {there:?} {back:?}");
            assert_eq!(pair.stats.bytes_delivered, 100_000);
        }
    }
}
