//! What a plan says of radio channels: who is on them, where, and by which rules they take turns.
//!
//! The scenario reader makes it, `network/path.rs` builds the medium from it. Radio links are ordinary links of the
//! plan, so that routes, queues, errors, outages, results and traces know them; the medium stands at the head of both
//! directions of each. Their rate is the one that frames start with, and counts for estimates only.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::dsdv::DsdvPlan;
use super::edca::{AccessPlan, Marks};
use super::fading::FadingPlan;
use super::mode::{Format, Habits, Mode};
use super::phy::{Phy, Rounding};
use super::rate_adaptation::RatePlan;
use crate::propagation::{Fading, Propagation, Track, ratio};

/// A radio channel: every station on it can meet every other in the air.
#[derive(Clone, Debug, PartialEq)]
pub struct MediumPlan {
    /// Unique name.
    pub name: String,
    /// The rules, by cell; cells that share the channel may differ.
    pub macs: Vec<MacPlan>,
    /// Stations and access points.
    pub stations: Vec<StationPlan>,
    /// The links that run over it.
    pub links: Vec<RadioLink>,
    /// How stations find their routes; without it routes are static.
    pub routing: Option<DsdvPlan>,
    /// How power falls with distance.
    pub propagation: Propagation,
    /// How the gain of each pair changes with time, if it does.
    pub fading: Option<FadingPlan>,
    /// Least power at which a frame can be received, in W.
    pub receive_threshold: f64,
    /// Least power at which the medium is sensed busy, in W.
    pub sense_threshold: f64,
    /// A frame survives another if it is this many times stronger.
    pub capture: f64,
    /// A frame is noticed if it is this many times stronger than others while its preamble is looked for.
    pub noticed: f64,
    /// Whether a frame that is so much stronger than the one being received takes its place.
    pub message_in_message: bool,
    /// How the powers of several frames interfere.
    pub interference: Interference,
    /// Errors by the ratio of signal to noise and interference, if the receiver has any: the power of its noise in W.
    pub noise: Option<f64>,
    /// From the end of a frame at the sender to its end at all others.
    pub flight: Span,
    /// Whether a corrupt frame is told to the flow whose it was, which no real receiver knows, and not to all of its
    /// station.
    pub oracle: bool,
}

/// How several frames at a receiver add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// Only the strongest of the others counts.
    Pairwise,
    /// Their powers add.
    Summed,
}

/// A station or an access point.
#[derive(Clone, Debug, PartialEq)]
pub struct StationPlan {
    /// Its node.
    pub node: usize,
    /// The name of the node: it keys the station's random streams.
    pub name: String,
    /// Index of its rules.
    pub mac: usize,
    /// Where it is.
    pub track: Track,
    /// Whether it is an access point.
    pub access_point: bool,
    /// The modes of data to and from it, as the first and the number of its cell's, if they are not those that all
    /// have.
    pub modes: Option<(usize, usize)>,
    /// Before 802.11n: the index of the rate of data to and from it, if it is not chosen as those of the others are.
    pub rate: Option<usize>,
}

/// A link that runs over the medium: both of its directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioLink {
    /// Index of the link in the plan.
    pub link: usize,
    /// Index of the station at which its forward direction starts.
    pub from: usize,
    /// Index of the station at which it ends.
    pub to: usize,
}

/// The rules of the distributed coordination function (IEEE 802.11-2016 section 10.3) and of the link layer above it.
#[derive(Clone, Debug, PartialEq)]
pub struct MacPlan {
    /// The generation of the radio.
    pub phy: &'static Phy,
    /// How rates are chosen.
    pub rate: RatePlan,
    /// Indices of the rates that answers and broadcasts may use, ascending.
    pub basic: Vec<usize>,
    /// Whether frames have the short preamble where they can.
    pub short_preamble: bool,
    /// How lengths of frames are rounded.
    pub rounding: Rounding,
    /// A CTS to itself goes before each frame that older stations cannot read.
    pub protection: bool,
    /// Slot.
    pub slot: Span,
    /// Short interframe space.
    pub sifs: Span,
    /// Least contention window.
    pub cw_min: u32,
    /// Greatest contention window.
    pub cw_max: u32,
    /// Most attempts at a frame that no RTS precedes, and at an RTS.
    pub short_retry: u32,
    /// Maximum number of attempts at a frame that follows an RTS.
    pub long_retry: u32,
    /// MPDUs longer than this are preceded by an RTS.
    pub rts_threshold: u32,
    /// MAC header and check sequence in bytes.
    pub header: u32,
    /// LLC and SNAP headers in bytes.
    pub llc: u32,
    /// Bytes of an RTS.
    pub rts_bytes: u32,
    /// Bytes of a CTS.
    pub cts_bytes: u32,
    /// Bytes of an acknowledgement.
    pub ack_bytes: u32,
    /// What a sender waits beyond SIFS and the answer before it takes the answer for lost.
    pub answer_slack: Span,
    /// A backoff is drawn from this many values more than the contention window: 1, or 0 in ns-2.
    pub backoff_extra: u32,
    /// A frame that finds the medium idle for long enough goes out at once.
    pub immediate_access: bool,
    /// After a frame that could not be received: EIFS in place of DIFS, or in ns-2 a NAV of EIFS before DIFS.
    pub eifs_as_nav: bool,
    /// A backoff after a timeout begins after another DIFS, as in ns-2.
    pub difs_after_timeout: bool,
    /// A station that has sent a CTS does nothing else until the data frame has arrived or is overdue, as in
    /// ns-2: it sends nothing and answers no other RTS, nor takes data that it has not made room for.
    pub cts_occupies: bool,
    /// Time that the link layer takes on each side of the MAC.
    pub processing: Span,
    /// Between two beacons of an access point, if it sends any.
    pub beacon: Option<Span>,
    /// Bytes of a beacon.
    pub beacon_bytes: u32,
    /// What senders are told of discarded frames.
    pub discards: Discards,
    /// How frames are aggregated, where they are (802.11n and later).
    pub aggregation: Option<Box<AggregationPlan>>,
    /// Stations see so long before that the signal of their access point will be too weak to be read, if they look.
    pub warning: Option<Span>,
}

/// Aggregation and BlockAcks (IEEE 802.11-2016 sections 9.7, 10.13 and 10.24), and the access by categories that goes
/// with them.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregationPlan {
    /// What data are sent with; the cell's rate is an index here. Those of single stations come last.
    pub modes: Vec<Mode>,
    /// How many of them all stations have.
    pub common: usize,
    /// What all PPDUs have in common.
    pub habits: Habits,
    /// Most octets of a PSDU.
    pub octets: u32,
    /// Longest PPDU.
    pub longest: Span,
    /// Maximum number of MPDUs in an A-MPDU.
    pub mpdus: usize,
    /// Least time from the start of one MPDU of an A-MPDU to the next, which receivers ask for.
    pub spacing: Span,
    /// Most octets of an MPDU with several packets; 0 if each has its own.
    pub amsdu: u32,
    /// Sequence numbers of a BlockAck: at most 64 fit into the short bitmap.
    pub window: u16,
    /// Maximum number of transmissions of an MPDU.
    pub tries: u32,
    /// After a BlockAck that did not come, a request asks what has arrived; otherwise all are sent again.
    pub request: bool,
    /// A transmission opportunity reserves the air up to its limit, and a CF-End gives back the rest, if it has room.
    pub ends: bool,
    /// After this long a packet is handed up although earlier ones are missing.
    pub reorder: Option<Span>,
    /// Where packets wait.
    pub queues: Queues,
    /// Which category a code point means.
    pub marks: Marks,
    /// By category, in ascending order of priority.
    pub access: [AccessPlan; 4],
}

/// Where packets of a station wait that are to be aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// In one queue for all receivers; the driver takes this many packets of each category from it and sorts them.
    Driver(usize),
    /// In a queue of its own for each receiver and category, as in mac80211.
    Fair {
        /// Receivers take turns by the air that they have used: this much more in each round. Without it, an aggregate
        /// each.
        weight: Option<Span>,
        /// A driver that takes packets before they can be sent; without it they leave their queue at the access.
        driver: Option<DriverPlan>,
    },
}

/// What a driver takes from the queues of receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverPlan {
    /// Most packets that it holds of a category, beyond those that are being sent.
    pub room: usize,
    /// What bounds the air that its packets will take.
    pub limits: Option<AirtimeLimits>,
}

/// Airtime queue limits: a receiver may have another packet in the driver as long as its own take less than `low`, or
/// less than `high` while those of all take less than `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirtimeLimits {
    /// What each receiver may have in each category whatever the others have.
    pub low: Span,
    /// What it may have while the driver as a whole has less than `total`.
    pub high: Span,
    /// Of all receivers and categories.
    pub total: Span,
}

/// What a `MacDiscard` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discards {
    /// A failed attempt of the station's own MAC (`ACKFailureCount`).
    Attempts,
    /// An MSDU that it gave up (`FailedCount`).
    Frames,
    /// A corrupt frame that the receiving host heard.
    Received,
    /// An MSDU that the access point misses, by the rate that the station announced: every interval, the MSDUs of this
    /// size that this rate makes, less those received.
    RateEstimate {
        /// Time between two estimates.
        interval: Span,
        /// The announced rate.
        rate: Rate,
        /// The announced size.
        bytes: u32,
    },
}

impl MacPlan {
    /// DCF interframe space.
    pub fn difs(&self) -> Span {
        self.sifs + self.slot * 2
    }

    /// Time in the air of a frame of `bytes`.
    pub fn airtime(&self, bytes: u32, rate: usize) -> Span {
        self.phy.airtime(bytes, rate, self.short_preamble, self.rounding)
    }

    /// The rate that answers a frame at `rate`: the highest basic rate that is not above it, of the same kind of signal
    /// if there is one; the lowest basic rate if none is low enough.
    pub fn answer_rate(&self, rate: usize) -> usize {
        let asked = self.phy.rates[rate];
        let fits = |&&basic: &&usize| {
            let known = self.phy.rates[basic];
            known.rate <= asked.rate && known.modulation.is_ofdm() == asked.modulation.is_ofdm()
        };
        self.basic.iter().rfind(fits).or(self.basic.first()).copied().unwrap_or(0)
    }

    /// The lowest basic rate.
    pub fn lowest_basic(&self) -> usize {
        self.basic.first().copied().unwrap_or(0)
    }

    /// Extended interframe space (section 10.3.2.3.7).
    pub fn eifs(&self) -> Span {
        self.sifs + self.airtime(self.ack_bytes, self.lowest_basic()) + self.difs()
    }

    /// The rate of protecting CTS frames: the fastest that every station reads.
    pub fn protection_rate(&self) -> usize {
        let readable = |&rate: &usize| !self.phy.rates[rate].modulation.is_ofdm();
        self.basic.iter().copied().rfind(readable).unwrap_or(0)
    }

    /// The length of the MPDU that carries an IP packet of `bytes`.
    pub fn mpdu(&self, bytes: u32) -> u32 {
        bytes + self.llc + self.header
    }
}

impl MediumPlan {
    /// Metres between two stations at `now`.
    pub fn distance(&self, from: usize, to: usize, now: Time) -> f64 {
        self.stations[from].track.at(now).distance(self.stations[to].track.at(now))
    }

    /// Whether a station of a cell of 802.11n or later is older than that.
    pub(crate) fn is_older(&self, station: &StationPlan) -> bool {
        let plan = self.macs[station.mac].aggregation.as_ref().zip(station.modes);
        plan.is_some_and(|(plan, (first, _))| plan.modes[first].format() == Format::Legacy)
    }

    /// The shadowing of two stations, as a ratio: the same both ways, whatever other stations there are.
    pub(crate) fn shadow(&self, from: usize, to: usize, seed: u64) -> f64 {
        let Fading::LogDistance { shadowing, .. } = self.propagation.fading else { return 1.0 };
        if shadowing <= 0.0 || from == to {
            return 1.0;
        }
        let (one, other) = (&self.stations[from].name, &self.stations[to].name);
        let name = format!("shadowing of {} and {}", one.min(other), one.max(other));
        ratio(shadowing * Stream::new(seed, &name).normal())
    }
}
