//! What devices in paths count and hold, declared once for each kind: the one place where a column of a device stands.
//!
//! A device returns its numbers by the names of its columns (`counters` and `holdings` of `Element` in `lasthop-net`):
//! that of the kind, `_`, that of the field. From a declaration here come the structure, the optional field of
//! [`DeviceSummary`] and so of every link, that of [`HelperSummary`], and what fills them in.

use lasthop_net::trace::HelperInterval;

use super::About;
use crate::columns;

/// What the devices at the near end of a direction counted, or hold; several of a kind count together.
pub(crate) struct Counters(pub(crate) Vec<(&'static str, u64)>);

impl Counters {
    /// The sum over devices, if one counts by this name.
    fn sum(&self, name: &str) -> Option<u64> {
        let counts = self.0.iter().filter(|counter| counter.0 == name).map(|counter| counter.1);
        counts.reduce(|sum, count| sum + count)
    }
}

/// What a counter becomes in a column.
trait Counted {
    fn counted(count: u64) -> Self;
}

/// A number.
impl Counted for u64 {
    fn counted(count: u64) -> u64 {
        count
    }
}

/// A time in seconds, which devices count in nanoseconds.
impl Counted for f64 {
    fn counted(count: u64) -> f64 {
        count as f64 / 1e9
    }
}

/// Makes, of each kind of device, the structure of its counters and its place in the results. `{}` in the label stands
/// for that of a column; what `holds` names is what the device has at a time, for the table of what devices do over
/// time alone.
macro_rules! devices_count {
    ($(
        $(#[doc = $what:literal])+
        $kind:ident: $name:ident, $label:literal {
            $(holds {
                $($(#[doc = $held_help:literal])+ $held:ident = $held_about:expr;)+
            })?
            $($(#[doc = $help:literal])+ $field:ident: $type:ty = $about:expr;)+
        }
    )+) => {
        $(
            columns! {
                $(#[doc = $what])+
                #[derive(Clone, Copy, Debug)]
                pub struct $name {
                    $($(#[doc = $help])+ $field: $type = $about;)+
                }
            }

            impl $name {
                /// The names by which the device counts.
                const COUNTERS: &[&str] = &[$(concat!(stringify!($kind), "_", stringify!($field))),+];

                /// `None` where no such device stands.
                fn of(counters: &Counters) -> Option<Box<$name>> {
                    let mut counts = $name::COUNTERS.iter().map(|name| counters.sum(name));
                    counts.clone().any(|count| count.is_some()).then(|| {
                        let mut next = || counts.next().flatten().unwrap_or(0);
                        Box::new($name { $($field: <$type>::counted(next())),+ })
                    })
                }
            }
        )+

        columns! {
            /// What devices at the near end of one direction of a link counted within the measured time, by kinds.
            #[derive(Clone, Debug)]
            pub struct DeviceSummary {
                $(
                    $(#[doc = $what])+
                    #[serde(skip_serializing_if = "Option::is_none")]
                    $kind: Option<Box<$name>> = About::group(concat!(stringify!($kind), "_{}"), $label);
                )+
            }
        }

        columns! {
            /// The devices at the near end of one direction of a link, in an interval: what they hold at its
            /// end, and what they counted in it, from the end of the warm-up on. A maximum is the maximum so
            /// far.
            #[derive(Clone, Debug)]
            pub struct HelperSummary {
                $(
                    $($($(#[doc = $held_help])+ $held: Option<u64> = $held_about;)+)?
                    $(#[doc = $what])+
                    $kind: Option<Box<$name>> = About::group(concat!(stringify!($kind), "_{}"), $label);
                )+
            }
        }

        impl DeviceSummary {
            pub(crate) fn of(counters: &Counters) -> DeviceSummary {
                let known = |name: &&str| [$($name::COUNTERS),+].concat().contains(name);
                let unknown = counters.0.iter().map(|counter| counter.0).find(|name| !known(name));
                debug_assert_eq!(unknown, None, "a device counts by a name without a column");
                DeviceSummary { $($kind: $name::of(counters)),+ }
            }
        }

        impl HelperSummary {
            /// What devices counted in an interval, and what they hold.
            pub fn new(interval: &HelperInterval) -> HelperSummary {
                let counters = Counters(interval.counters.clone());
                HelperSummary {
                    $(
                        $($($held: counters.sum(stringify!($held)),)+)?
                        $kind: $name::of(&counters),
                    )+
                }
            }
        }
    };
}

devices_count! {
    /// Link-layer retransmission on one direction of a link, within the measured time.
    arq: ArqSummary, "ARQ {}" {
        holds {
            /// frames that a link with retransmission has sent and that are not acknowledged yet, at that time
            arq_outstanding = About::new("packets", "ARQ outstanding").mean();
        }
        /// transmissions on a link with retransmission beyond the first of each frame; `packets_sent` of the link
        /// counts all
        retransmissions: u64 = About::new("packets", "retransmissions").sum().shown("ARQ retransmitted");
        /// frames that the sending side gave up, lost or not
        given_up: u64 = About::new("packets", "frames given up").lower().sum();
        /// link acknowledgements lost
        acks_lost: u64 = About::new("packets", "acknowledgements lost").lower().sum();
    }

    /// The bearer of a user of a cellular cell in one direction, within the measured time.
    cellular: CellularSummary, "cell: {}" {
        /// transport blocks of the user that were sent, once for each transmission
        blocks: u64 = About::new("", "transport blocks").sum();
        /// resource blocks that they used
        resource_blocks: u64 = About::new("", "resource blocks").sum().shown("resource blocks");
        /// scheduling requests of the idle uplink of the user
        requests: u64 = About::new("", "scheduling requests").sum();
        /// retransmissions of blocks by HARQ
        harq_retransmissions: u64 = About::new("", "HARQ retransmissions").sum().shown("HARQ retransmissions");
        /// blocks that HARQ gave up
        harq_failures: u64 = About::new("", "blocks that HARQ gave up").lower().sum();
        /// blocks that carry a PDU retransmitted by RLC, or a part of one
        rlc_retransmissions: u64 = About::new("", "RLC retransmissions").sum().shown("RLC retransmissions");
        /// handovers of the user to another cell
        handovers: u64 = About::new("", "handovers").sum();
    }

    /// A policer at the head of a link, within the measured time; several count together.
    policer: PolicerSummary, "policer: {}" {
        /// packets that a policer let pass
        passed: u64 = About::new("packets", "packets passed").sum();
        /// packets that a policer dropped
        dropped: u64 = About::new("packets", "packets dropped").lower().sum();
    }

    /// Impairments at the head of a link, within the measured time; several count together.
    impair: ImpairSummary, "impairments: {}" {
        /// packets that were sent twice
        duplicated: u64 = About::new("packets", "packets duplicated").sum();
        /// packets that overtook another
        reordered: u64 = About::new("packets", "packets reordered").sum();
    }

    /// FEC over one direction of a link, within the measured time; several count together.
    fec: FecSummary, "FEC: {}" {
        holds {
            /// packets that wait at the FEC decoder, which keeps the order, for packets that it may still rebuild, at
            /// that time
            fec_waiting = About::new("packets", "FEC waiting").mean();
        }
        /// packets that FEC protects: those put into blocks
        sources: u64 = About::new("packets", "packets coded").sum();
        /// repair packets that FEC sent
        repairs: u64 = About::new("packets", "repairs sent").sum();
        /// packets that the FEC decoder rebuilt
        rebuilt: u64 = About::new("packets", "packets rebuilt").sum().shown("FEC rebuilt");
        /// packets of FEC blocks that were lost and not rebuilt
        given_up: u64 = About::new("packets", "packets given up").lower().sum();
        /// packets that arrived after FEC had rebuilt them
        late: u64 = About::new("packets", "late source packets").sum();
    }

    /// A WTCP agent at the head of a link, within the measured time; several count together.
    wtcp: WtcpSummary, "WTCP: {}" {
        holds {
            /// segments that a WTCP agent holds, at that time
            wtcp_held = About::new("packets", "WTCP held").mean();
        }
        /// segments that the WTCP agent kept
        kept: u64 = About::new("packets", "packets kept").sum();
        /// segments that the WTCP agent retransmitted for duplicate ACKs
        repeats_by_duplicate: u64 = About::new("packets", "retransmitted for duplicate ACKs").sum().shown("WTCP: ACK");
        /// segments that the WTCP agent retransmitted because its timer expired
        repeats_by_timer: u64 = About::new("packets", "retransmitted by timer").sum().shown("WTCP: timer");
        /// segments that the WTCP agent sent because a host had arrived
        repeats_at_handoff: u64 = About::new("packets", "sent at handoffs").sum();
        /// duplicate ACKs that the WTCP agent withheld from senders
        withheld: u64 = About::new("packets", "ACKs withheld").sum();
        /// data that the host had already and that the WTCP agent answered
        answered: u64 = About::new("packets", "data answered").sum();
        /// total time by which the WTCP agent shifted timestamps
        hidden_s: f64 = About::new("s", "time hidden").sum();
        /// connections without timestamps, which the WTCP agent does not touch
        without_timestamps: u64 = About::new("", "connections without timestamps").sum();
        /// connections whose state came from another agent
        moved: u64 = About::new("", "connections that moved").sum();
    }

    /// A filter of ACKs at the head of a link, within the measured time; several count together.
    ack_filter: AckFilterSummary, "ACK filter: {}" {
        holds {
            /// packets that wait in an ACK filter, at that time
            ack_filter_waiting = About::new("packets", "ACK filter waiting").mean();
        }
        /// packets that left the queue of the ACK filter
        passed: u64 = About::new("packets", "packets passed").sum();
        /// ACKs that the ACK filter suppressed because a newer one covers them
        withheld: u64 = About::new("packets", "ACKs withheld").sum().shown("ACKs withheld");
        /// most packets that waited in the ACK filter at once, over the whole run
        most_waiting: u64 = About::new("packets", "maximum packets waiting").sum();
    }

    /// An access point that acknowledges TCP data itself, within the measured time; several count together.
    fastack: FastAckSummary, "FastACK: {}" {
        holds {
            /// packets that FastACK keeps until the station acknowledges them, at that time
            fastack_cached = About::new("packets", "FastACK cached").mean();
        }
        /// ACKs that FastACK sent
        sent: u64 = About::new("packets", "ACKs sent").sum().shown("FastACK: sent");
        /// ACKs of the station that FastACK withheld
        withheld: u64 = About::new("packets", "ACKs withheld").sum().shown("FastACK: withheld");
        /// packets that FastACK retransmitted because the station lacked them although its MAC had acknowledged them
        repeats: u64 = About::new("packets", "packets retransmitted").lower().sum();
        /// data that the sender sent although they were acknowledged, and that FastACK answered
        answered: u64 = About::new("packets", "data answered").sum();
        /// data that went on without being kept
        uncached: u64 = About::new("packets", "packets not kept").lower().sum();
        /// most packets kept at once, over the whole run
        most_kept: u64 = About::new("packets", "maximum packets kept").sum();
    }

    /// A base station that tells of its queue by the delay of ACKs, within the measured time; several count together.
    zhuge: ZhugeSummary, "Zhuge: {}" {
        /// ACKs that Zhuge delayed
        delayed: u64 = About::new("packets", "ACKs delayed").sum().shown("Zhuge: delayed");
        /// total time by which Zhuge delayed ACKs
        added_s: f64 = About::new("s", "delay added").sum();
        /// packets that crossed the link and whose wait Zhuge had predicted
        predicted: u64 = About::new("packets", "waits predicted").sum();
        /// total time for which these waited
        waited_s: f64 = About::new("s", "time waited").sum();
        /// sum of the absolute errors of those predictions
        missed_s: f64 = About::new("s", "error of predictions").lower().sum();
    }

    /// A base station that marks by its queue and the predicted rate, within the measured time; several count together.
    l4span: L4SpanSummary, "L4Span: {}" {
        /// packets that L4Span marked, ahead or on their way
        marked: u64 = About::new("packets", "packets marked").sum().shown("L4Span: marks");
        /// those of them that ACKs report before the packets have crossed the link
        told_ahead: u64 = About::new("packets", "marks reported ahead").sum();
        /// packets that crossed the link and whose wait L4Span had predicted
        predicted: u64 = About::new("packets", "waits predicted").sum();
        /// total time for which these waited
        waited_s: f64 = About::new("s", "time waited").sum();
        /// sum of the absolute errors of those predictions
        missed_s: f64 = About::new("s", "error of predictions").lower().sum();
    }

    /// A Snoop agent at the head of a link, within the measured time; several count together.
    snoop: SnoopSummary, "Snoop: {}" {
        holds {
            /// packets that a Snoop agent has in its caches, at that time
            snoop_cached = About::new("packets", "Snoop cached").mean();
        }
        /// packets that were kept
        kept: u64 = About::new("packets", "packets kept").sum();
        /// packets retransmitted for duplicate ACKs
        repeats_by_duplicate: u64 = About::new("packets", "retransmitted for duplicate ACKs").sum().shown("Snoop: ACK");
        /// packets retransmitted because SACK blocks showed a hole
        repeats_by_hole: u64 = About::new("packets", "retransmitted for holes").sum();
        /// packets retransmitted because the local timer expired
        repeats_by_timer: u64 = About::new("packets", "retransmitted by timer").sum().shown("Snoop: timer");
        /// packets sent because a host had arrived
        repeats_at_handoff: u64 = About::new("packets", "sent at handoffs").sum();
        /// duplicate and late ACKs that were withheld from senders
        withheld: u64 = About::new("packets", "ACKs withheld").sum().shown("Snoop withheld");
        /// ACKs that went on without their SACK blocks
        hidden: u64 = About::new("packets", "ACKs without their SACK blocks").sum();
        /// data that the host had already and that were answered here
        answered: u64 = About::new("packets", "data answered").sum();
        /// ACKs marked with explicit loss notification
        marked: u64 = About::new("packets", "ACKs marked (ELN)").sum();
        /// negative acknowledgements sent
        nacks: u64 = About::new("packets", "negative acknowledgements").sum();
        /// connections that came with a cache
        moved: u64 = About::new("", "caches that moved").sum();
        /// most packets kept at once, over the whole run
        most_kept: u64 = About::new("packets", "maximum packets kept").sum();
    }
}
