//! A first estimate of the path that the packets of a capture took, each figure with the interval that it lies in.
//!
//! One direction is looked at: the one that carries most payload between two hosts. What cannot be seen from the place
//! of capture is left out, never guessed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::follow::{Followed, Loss, Sample, Silence, Step, follow};
use super::read::{Capture, FLOWS_TOLD, Packet, copied_on};

/// Steps of a train that measures what the path sustains, and of one that measures it at its shortest.
const LONG_TRAIN: usize = 16;
const SHORT_TRAIN: usize = 4;
/// A loss above this share of the range of round trips met a full queue, as far as one can tell.
const FULL: f64 = 0.7;
/// Below this share of the range a queue has room.
const HALF: f64 = 0.4;
/// Transmissions in a row that must be lost in a silence, and packets that a queue that is served would have taken
/// meanwhile: then the path was down.
const DOWN_LOST: u64 = 3;
const DOWN_PLACES: f64 = 4.0;
/// One in this many losses at a full queue is taken for one that met room.
const MISJUDGED: u64 = 10;
/// Share of losses at a full queue from which on its length is taken for a limit.
const MOSTLY: f64 = 0.8;
/// Quantile of the standard normal distribution for 99 %.
const Z: f64 = 2.576;

/// A figure and the interval in which it lies; no upper end means that it may be any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Best guess.
    pub value: f64,
    /// Not less than this.
    pub low: f64,
    /// Not more than this.
    pub high: Option<f64>,
}

impl Figure {
    fn json(self) -> Value {
        json!({ "value": self.value, "low": self.low, "high": self.high })
    }
}

/// What is known of a path.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Bits per second, IP headers included.
    pub rate: Option<Figure>,
    /// Round trip without queues and without transmission, in seconds.
    pub base_rtt: Option<Figure>,
    /// Round trips under load in seconds: middle, 95 %, most.
    pub loaded_rtt: Option<[f64; 3]>,
    /// Share of packets that are lost by chance.
    pub loss: Option<Figure>,
    /// Bytes that wait at most.
    pub queue: Option<Figure>,
    /// Packets that were lost, and of these at a full queue as far as one can tell.
    pub lost: (u64, u64),
    /// Packets that were lost at a queue of which nothing is known.
    pub untold: u64,
    /// Packets that were lost while the path was down.
    pub lost_in_outages: u64,
    /// When the path was down: from when to when at least, and to when at most, in nanoseconds of the capture.
    pub outages: Vec<(u64, u64, u64)>,
    /// Whether nearly all losses met a full queue.
    pub filled: bool,
    /// Losses in a row that met no full queue: their number and the longest.
    pub runs: (u64, u64),
    /// Packets with payload that were seen.
    pub data: u64,
    /// Packets that came out of order and were not lost.
    pub reordered: u64,
    /// Packets that were sent once more although they had arrived, and of these as far as one can tell.
    pub in_vain: (u64, u64),
    /// Length of a full IP packet.
    pub full: u32,
    /// Whether the place of capture is nearer to the receiver of the data than to their sender.
    pub near_receiver: Option<bool>,
}

/// The direction that is looked at, and its connections.
struct Chosen {
    from: IpAddr,
    to: IpAddr,
    /// Number, and whether its data go the way of its first packet.
    flows: Vec<(u32, bool)>,
}

/// All that a capture says.
pub fn estimate(capture: &Capture) -> Value {
    let flows = totals(capture);
    let chosen = choose(capture, &flows);
    let begin = capture.packets.first().map_or(0, |packet| packet.at_ns);
    let end = capture.packets.last().map_or(0, |packet| packet.at_ns);
    let mut by_flow: BTreeMap<u32, Vec<&Packet>> =
        chosen.flows.iter().map(|&(flow, _)| (flow, Vec::new())).collect();
    for packet in &capture.packets {
        if let Some(packets) = by_flow.get_mut(&packet.flow) {
            packets.push(packet);
        }
    }
    let mut followed = Vec::new();
    let mut datagrams = Vec::new();
    for &(flow, forward) in &chosen.flows {
        let packets = &by_flow[&flow];
        if capture.flows[flow as usize].tcp {
            followed.push(follow(packets.iter().copied(), forward));
        } else {
            datagrams.extend(packets.iter().filter(|packet| packet.forward == forward).map(|packet| Step {
                at_ns: packet.at_ns,
                bytes: u64::from(packet.bytes),
                breaks: false,
            }));
        }
    }
    let path = path_of(&followed, datagrams);
    let mut seen_twice = seen_twice_on(capture, &chosen);
    if seen_twice.is_empty() {
        seen_twice.extend(copied_on(by_flow.values().flatten().copied()));
    }
    json!({
        "packets": capture.packets.len(),
        "others": capture.others,
        "repeated_frames": capture.passed.repeats,
        "encrypted_frames": capture.passed.encrypted,
        "truncated": capture.truncated,
        "seen_twice_on": seen_twice,
        "length_s": (end - begin) as f64 / 1e9,
        "from": chosen.from.to_string(),
        "to": chosen.to.to_string(),
        "connections": capture.flows.len(),
        "flows": shown(capture, &flows, begin),
        "path": shown_path(&path, &followed, begin),
    })
}

/// The interfaces of a way of a connection that is on several; none as it should be. The packets of each are the same,
/// and would be taken for retransmissions. (One that has the same packets twice is told likewise, alone.)
fn seen_twice_on(capture: &Capture, chosen: &Chosen) -> Vec<u32> {
    let mut on: BTreeMap<(u32, bool), Vec<u32>> = BTreeMap::new();
    let mut last = None;
    for packet in &capture.packets {
        let this = (packet.flow, packet.forward, packet.interface);
        if last == Some(this) {
            continue;
        }
        last = Some(this);
        let seen = on.entry((packet.flow, packet.forward)).or_default();
        if !seen.contains(&packet.interface) {
            seen.push(packet.interface);
        }
    }
    let several = chosen.flows.iter().flat_map(|&(flow, _)| [(flow, true), (flow, false)]);
    several.filter_map(|way| on.get(&way)).find(|seen| seen.len() > 1).cloned().unwrap_or_default()
}

/// What each connection carried each way: packets, bytes, payload; and when.
#[derive(Clone, Copy, Default)]
struct Total {
    packets: [u64; 2],
    bytes: [u64; 2],
    payload: [u64; 2],
    begin: u64,
    end: u64,
}

fn totals(capture: &Capture) -> Vec<Total> {
    let mut totals = vec![Total { begin: u64::MAX, ..Total::default() }; capture.flows.len()];
    for packet in &capture.packets {
        let total = &mut totals[packet.flow as usize];
        let way = usize::from(!packet.forward);
        total.packets[way] += 1;
        total.bytes[way] += u64::from(packet.bytes);
        total.payload[way] += u64::from(packet.payload);
        total.begin = total.begin.min(packet.at_ns);
        total.end = packet.at_ns;
    }
    totals
}

fn shown(capture: &Capture, totals: &[Total], begin: u64) -> Value {
    let rows = capture.flows.iter().zip(totals).take(FLOWS_TOLD).map(|(ends, total)| {
        let data = usize::from(total.payload[1] > total.payload[0]);
        json!({
            "from": ends.from.0.to_string(),
            "from_port": ends.from.1,
            "to": ends.to.0.to_string(),
            "to_port": ends.to.1,
            "transport": if ends.tcp { "tcp" } else { "udp" },
            "start_s": (total.begin - begin) as f64 / 1e9,
            "length_s": (total.end - total.begin) as f64 / 1e9,
            "packets": total.packets,
            "bytes": total.bytes,
            "payload": total.payload,
            "data_forward": data == 0,
        })
    });
    Value::Array(rows.collect())
}

/// The two hosts and the way between them with most payload.
fn choose(capture: &Capture, totals: &[Total]) -> Chosen {
    /// Payload of a way, and its connections.
    type Way = (u64, Vec<(u32, bool)>);
    let mut ways: BTreeMap<(IpAddr, IpAddr), Way> = BTreeMap::new();
    for ((ends, total), flow) in capture.flows.iter().zip(totals).zip(0..) {
        let forward = total.payload[0] >= total.payload[1];
        let way = if forward { (ends.from.0, ends.to.0) } else { (ends.to.0, ends.from.0) };
        let one = ways.entry(way).or_default();
        one.0 += total.payload[usize::from(!forward)];
        one.1.push((flow, forward));
    }
    let most = ways.into_iter().max_by_key(|(way, (payload, _))| (*payload, std::cmp::Reverse(*way)));
    let ((from, to), (_, flows)) = most.unwrap_or_else(|| panic!("a capture that was read has a connection"));
    Chosen { from, to, flows }
}

fn path_of(followed: &[Followed], mut datagrams: Vec<Step>) -> Path {
    let full = followed.iter().map(|one| one.full).max().unwrap_or((0, 0));
    let least = |samples: &mut dyn Iterator<Item = &Sample>| samples.map(|one| one.rtt_ns).min();
    let ahead = least(&mut followed.iter().flat_map(|one| &one.ahead));
    let behind = least(&mut followed.iter().flat_map(|one| &one.behind));
    // Near the receiver what arrives has passed the path; near the sender acknowledgements say what did.
    let sides = ahead.zip(behind).map(|(ahead, behind)| ahead < behind);
    let near_receiver = sides == Some(true);
    let mut steps: Vec<Step> = Vec::new();
    for one in followed {
        if near_receiver {
            steps.extend(&one.arrived);
        } else {
            // Bytes of payload become those of packets.
            let (bytes, payload) = (u64::from(one.full.0), u64::from(one.full.1.max(1)));
            steps.extend(one.acked.iter().map(|step| Step { bytes: step.bytes * bytes / payload, ..*step }));
        }
    }
    let reliable = near_receiver || followed.len() == 1;
    let mut path = Path {
        full: full.0,
        near_receiver: sides,
        data: followed.iter().map(|one| one.data).sum(),
        reordered: followed.iter().map(|one| one.reordered).sum(),
        in_vain: (
            followed.iter().map(|one| one.in_vain).sum(),
            followed.iter().map(|one| one.perhaps_in_vain).sum(),
        ),
        ..Path::default()
    };
    if steps.is_empty() {
        steps.append(&mut datagrams);
        steps.sort_by_key(|step| step.at_ns);
        // Nothing tells whether datagrams filled the path.
        path.rate = rate(&steps).map(|rate| Figure { high: None, ..rate });
        path.data = steps.len() as u64;
        return path;
    }
    steps.sort_by_key(|step| step.at_ns);
    path.rate = rate(&steps).map(|rate| if reliable { rate } else { Figure { high: None, ..rate } });
    path.base_rtt = base_rtt(followed, near_receiver, path.rate);
    chance(&mut path, followed);
    queues(&mut path, followed);
    path
}

/// Rates of trains of this many steps, ascending; trains do not go on over a break.
fn trains(steps: &[Step], length: usize) -> Vec<f64> {
    let mut rates = Vec::new();
    let (mut begin, mut bytes, mut number) = (None, 0, 0);
    for step in steps {
        if step.breaks {
            (begin, bytes, number) = (None, 0, 0);
            continue;
        }
        match begin {
            None => (begin, bytes, number) = (Some(step.at_ns), 0, 0),
            Some(at) => {
                bytes += step.bytes;
                number += 1;
                if number == length {
                    if step.at_ns > at {
                        rates.push(bytes as f64 * 8e9 / (step.at_ns - at) as f64);
                    }
                    (begin, bytes, number) = (Some(step.at_ns), 0, 0);
                }
            }
        }
    }
    rates.sort_by(f64::total_cmp);
    rates
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get(((sorted.len().max(1) - 1) as f64 * share + 0.5) as usize).copied()
}

/// The rate of the path: what long trains reach, and what short ones and pairs do. All are the same where packets
/// waited for it. Windows of a few packets fill no train, but their packets leave the path one behind the other.
fn rate(steps: &[Step]) -> Option<Figure> {
    let pairs = quantile(&trains(steps, 1), 0.75)?;
    let peak = quantile(&trains(steps, SHORT_TRAIN), 0.9)?.max(pairs);
    let long = trains(steps, LONG_TRAIN);
    let sustained = quantile(&long, 0.9).unwrap_or(peak).min(peak);
    let filled = sustained > 0.95 * peak;
    Some(Figure {
        value: if filled { sustained } else { peak },
        low: sustained * 0.97,
        high: Some(peak * if filled { 1.03 } else { 1.25 }),
    })
}

/// The least of samples in nanoseconds, less the transmission of their packets if they pass the path on this side: then
/// full packets take longer than those of the handshake. Without small ones `passes` says it, and the second figure is
/// by how much that may be wrong; the third, whether they pass it, where samples show that.
fn least<'s>(
    samples: impl Iterator<Item = &'s Sample>,
    nanos_per_byte: f64,
    passes: bool,
) -> Option<(f64, f64, Option<bool>)> {
    let (mut small, mut large): (Option<f64>, Option<f64>) = (None, None);
    let mut bytes = 0.0;
    for one in samples {
        let list = if one.bytes < SMALL { &mut small } else { &mut large };
        let rtt =
            one.rtt_ns as f64 - if one.bytes < SMALL { f64::from(one.bytes) * nanos_per_byte } else { 0.0 };
        if list.is_none_or(|least| rtt < least) {
            *list = Some(rtt);
            bytes = if one.bytes < SMALL { bytes } else { f64::from(one.bytes) };
        }
    }
    let transmission = bytes * nanos_per_byte;
    let shown = small.zip(large).map(|(small, large)| large - small > transmission / 2.0);
    let passes = shown.unwrap_or(passes);
    let unsure = if small.is_none() && passes { transmission } else { 0.0 };
    let large = large.map(|rtt| if passes { rtt - transmission } else { rtt });
    let both = [small, large].into_iter().flatten();
    both.map(|rtt| rtt.max(0.0)).min_by(f64::total_cmp).map(|rtt| (rtt, unsure, shown))
}

/// Packets shorter than this, in bytes, are of the handshake.
const SMALL: u32 = 200;

/// The round trip without queues, from the least round trips on both sides of the place of capture.
fn base_rtt(followed: &[Followed], near_receiver: bool, rate: Option<Figure>) -> Option<Figure> {
    let per_byte = rate.map_or(0.0, |rate| 8e9 / rate.value);
    let ahead = least(followed.iter().flat_map(|one| &one.ahead), per_byte, !near_receiver)?;
    // The slowest transmission is on one side.
    let is_behind = ahead.2.map_or(near_receiver, |is_ahead| !is_ahead);
    let behind = least(followed.iter().flat_map(|one| &one.behind), per_byte, is_behind);
    let whole = (ahead.0 + behind.map_or(0.0, |behind| behind.0)) / 1e9;
    let unsure = (ahead.1 + behind.map_or(0.0, |behind| behind.1)) / 1e9;
    let packets = 2.0 * 1_500.0 * per_byte / 1e9;
    // Without the other side it may be more; and some queue may always have been there.
    let low = (whole * 0.97 - packets).max(0.0);
    Some(Figure { value: whole, low, high: behind.map(|_| whole * 1.03 + unsure + 1e-4) })
}

/// The least and the longest of samples. Where enough of them cannot have waited for a timer of the receiver, those
/// count; else the longest few are left out.
fn range(samples: &[Sample]) -> Option<(f64, f64)> {
    let ascending = |prompt: bool| {
        let kept = samples.iter().filter(|one| !prompt || one.prompt);
        let mut kept: Vec<f64> = kept.map(|one| one.rtt_ns as f64).collect();
        kept.sort_by(f64::total_cmp);
        kept
    };
    let all = ascending(false);
    // The handshake alone says nothing of load.
    if all.len() < 2 * LONG_TRAIN {
        return None;
    }
    let prompt = ascending(true);
    let most = if prompt.len() >= 2 * LONG_TRAIN { prompt.last().copied() } else { quantile(&all, 0.98) };
    Some((all[0], most?))
}

/// Round trips of the side of the place of capture on which they vary more, which has the queue, and in nanoseconds
/// the least of the other side.
pub(super) fn loaded(followed: &[Followed]) -> (Vec<Sample>, u64) {
    let mut samples: Vec<Sample> = followed.iter().flat_map(|one| &one.ahead).copied().collect();
    let mut other: Vec<Sample> = followed.iter().flat_map(|one| &one.behind).copied().collect();
    let width = |samples: &[Sample]| range(samples).map_or(0.0, |(least, most)| most - least);
    if width(&other) > width(&samples) {
        std::mem::swap(&mut samples, &mut other);
    }
    let least = other.iter().map(|one| one.rtt_ns).min();
    (samples, least.unwrap_or(0))
}

/// Round trips under load, and what the queue holds at least.
fn queues(path: &mut Path, followed: &[Followed]) {
    let (samples, other) = loaded(followed);
    let Some((least, most)) = range(&samples) else { return };
    let mut rtts: Vec<f64> = samples.iter().map(|one| one.rtt_ns as f64).collect();
    rtts.sort_by(f64::total_cmp);
    let of = |share| (quantile(&rtts, share).unwrap_or(0.0) + other as f64) / 1e9;
    path.loaded_rtt = Some([of(0.5), of(0.95), of(1.0)]);
    let waits = most - least;
    if let Some(rate) = path.rate
        && waits > 2.0 * f64::from(path.full) * 8e9 / rate.value
    {
        let bytes = waits / 1e9 * rate.value / 8.0;
        // Losses by chance meet all lengths of a queue; only where nearly all meet its end is that a limit.
        let longest = (rtts[rtts.len() - 1] - least) / 1e9 * rate.value / 8.0;
        path.queue = Some(Figure {
            value: bytes,
            low: bytes * 0.6,
            high: path.filled.then_some(1.5 * longest.max(bytes)),
        });
    }
}

/// What can be told of a loss from the round trip before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// A queue that was far from full.
    Room,
    /// A full one.
    Full,
    /// That cannot be told.
    Unknown,
}

/// How each loss of one side is to be judged: by where the round trip before it lies in the range of all of that side.
/// Where the range is no longer than two packets there is no queue.
fn judged<'l>(
    losses: &'l [Loss],
    samples: &[Sample],
    packet_ns: f64,
) -> impl Iterator<Item = (&'l Loss, Met)> {
    let known = range(samples);
    let (least, range) = known.map_or((0.0, 0.0), |(least, most)| (least, most - least));
    let known = known.is_some();
    losses.iter().map(move |loss| {
        let met = match loss.rtt_ns {
            Some(_) if known && range < 2.0 * packet_ns => Met::Room,
            Some(rtt) if known && rtt as f64 > least + FULL * range => Met::Full,
            Some(rtt) if known && (rtt as f64) < least + HALF * range => Met::Room,
            _ => Met::Unknown,
        };
        (loss, met)
    })
}

/// Whether the path was down in a silence. A queue that is full and served takes one packet for each that leaves.
fn is_outage(silence: &Silence, packet_ns: f64) -> bool {
    silence.lost >= DOWN_LOST && packet_ns > 0.0 && silence.least_ns as f64 > DOWN_PLACES * packet_ns
}

/// The outages of all connections; those that lie over one another are one.
fn outages(followed: &[Followed], packet_ns: f64) -> Vec<(u64, u64, u64)> {
    let silences = followed.iter().flat_map(|one| &one.silences).filter(|one| is_outage(one, packet_ns));
    let mut all: Vec<_> =
        silences.map(|one| (one.from_ns, one.from_ns + one.least_ns, one.from_ns + one.most_ns)).collect();
    all.sort_unstable();
    let mut merged: Vec<(u64, u64, u64)> = Vec::new();
    for (from, least, most) in all {
        match merged.last_mut().filter(|last| from <= last.2) {
            Some(last) => (last.1, last.2) = (last.1.max(least), last.2.min(most).max(last.1.max(least))),
            None => merged.push((from, least, most)),
        }
    }
    merged
}

/// Losses by chance: at least those that met a queue with room, at most all, with what was perhaps repeated in vain.
fn chance(path: &mut Path, followed: &[Followed]) {
    let packet_ns = path.rate.map_or(0.0, |rate| f64::from(path.full) * 8e9 / rate.value);
    let (mut all, mut full, mut surely_full, mut proven, mut beyond_doubt) = (0, 0, 0, 0, 0);
    for one in followed {
        let sides =
            judged(&one.before, &one.behind, packet_ns).chain(judged(&one.after, &one.ahead, packet_ns));
        let mut elsewhere = Vec::new();
        for (loss, met) in sides {
            let packets = u64::from(loss.packets);
            all += packets;
            if loss.silence.is_some_and(|silence| is_outage(&one.silences[silence], packet_ns)) {
                path.lost_in_outages += packets;
                continue;
            }
            if met != Met::Full {
                elsewhere.push(*loss);
            }
            path.untold += if met == Met::Unknown { packets } else { 0 };
            beyond_doubt += if loss.sure { packets } else { 0 };
            full += if met == Met::Full { packets } else { 0 };
            surely_full += if met == Met::Full && loss.sure { packets } else { 0 };
            proven += if met == Met::Room && loss.sure { packets } else { 0 };
        }
        let (number, longest) = runs(elsewhere);
        path.runs = (path.runs.0 + number, path.runs.1.max(longest));
    }
    path.lost = (all, full);
    path.outages = outages(followed, packet_ns);
    path.filled = surely_full > 0 && surely_full as f64 > MOSTLY * beyond_doubt as f64;
    if path.data == 0 {
        return;
    }
    // A few among many at a full queue may have met one that was fuller than it looked.
    let proven = if path.filled { proven.saturating_sub(surely_full / MISJUDGED) } else { proven };
    let sent = (path.data + beyond_doubt) as f64;
    // Where nothing met a queue with room there is no sign of chance.
    let value = if proven == 0 { 0.0 } else { (all - full - path.lost_in_outages) as f64 / sent };
    let most = all - path.lost_in_outages + path.in_vain.1;
    let (low, high) = (wilson(proven as f64, sent).0, wilson(most as f64, sent).1);
    path.loss = Some(Figure { value: value.max(low), low, high: Some(high) });
}

/// The interval of a share of which `hits` of `of` were seen (Wilson, 1927).
fn wilson(hits: f64, of: f64) -> (f64, f64) {
    let share = hits / of;
    let square = Z * Z / of;
    let middle = (share + square / 2.0) / (1.0 + square);
    let half = Z * (share * (1.0 - share) / of + square / of / 4.0).sqrt() / (1.0 + square);
    // Without a hit the lower end is 0, which rounding would miss.
    let low = if hits == 0.0 { 0.0 } else { (middle - half).max(0.0) };
    (low, (middle + half).min(1.0))
}

/// Losses in a row: their number and the longest, in packets.
fn runs(mut losses: Vec<Loss>) -> (u64, u64) {
    let (mut number, mut longest) = (0, 0);
    losses.sort_by_key(|loss| loss.begin);
    let (mut end, mut length) = (None, 0);
    for loss in losses {
        if end != Some(loss.begin) {
            (number, length) = (number + 1, 0);
        }
        length += u64::from(loss.packets);
        end = Some(loss.end);
        longest = longest.max(length);
    }
    (number, longest)
}

fn shown_path(path: &Path, followed: &[Followed], begin: u64) -> Value {
    let after = |ns: u64| ns.saturating_sub(begin) as f64 / 1e9;
    let outage = |&(from, least, most): &(u64, u64, u64)| {
        let (at, low, high) = (after(from), after(least) - after(from), after(most) - after(from));
        json!({ "at_s": at, "low_s": low, "high_s": high })
    };
    let outages: Vec<Value> = path.outages.iter().map(outage).collect();
    let figure = |figure: Option<Figure>| figure.map_or(Value::Null, Figure::json);
    json!({
        "rate_bit_s": figure(path.rate),
        "base_rtt_s": figure(path.base_rtt),
        "loaded_rtt_s": path.loaded_rtt.map(|[p50, p95, max]| json!({ "p50": p50, "p95": p95, "max": max })),
        "loss": figure(path.loss),
        "queue_bytes": figure(path.queue),
        "data_packets": path.data,
        "lost": path.lost.0,
        "lost_at_full_queue": path.lost.1,
        "mostly_at_full_queue": path.filled,
        "lost_at_unknown_queue": path.untold,
        "lost_in_outages": path.lost_in_outages,
        "outages": outages,
        "loss_runs": path.runs.0,
        "longest_run": path.runs.1,
        "reordered": path.reordered,
        "repeated_in_vain": path.in_vain.0,
        "of_these_perhaps": path.in_vain.1,
        "packet_bytes": path.full,
        "captured_near": path.near_receiver.map(|is_near| if is_near { "receiver" } else { "sender" }),
        "lost_before_here": followed.iter().map(|one| one.before.len()).sum::<usize>(),
        "lost_behind_here": followed.iter().map(|one| one.after.len()).sum::<usize>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 of 100 at 99 %, worked by hand: centre (0.08 + 0.03318) / 1.06636 = 0.10614, half
    /// 2.576 x sqrt(0.08 x 0.92 / 100 + 0.06636 / 400) / 1.06636 = 0.07255.
    #[test]
    fn the_interval_of_a_share() {
        let (low, high) = wilson(8.0, 100.0);
        assert!((low - 0.0336).abs() < 1e-4 && (high - 0.1787).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0.0, 50.0).0, 0.0);
    }

    /// Packets of 1500 B every 1.2 ms are 10 Mbit/s; a pause between trains does not count as slowness.
    #[test]
    fn the_rate_of_trains() {
        let step = |number: u64| Step {
            at_ns: number * 1_200_000 + number / 10 * 50_000_000,
            bytes: 1500,
            breaks: false,
        };
        let steps: Vec<Step> = (0..400).map(step).collect();
        let found = rate(&steps).unwrap();
        assert!((found.value - 10e6).abs() < 1.0, "{found:?}");
        assert!(found.low < 10e6 && found.high.unwrap() > 10e6);
        assert!(rate(&steps[..3]).is_none());
    }
}
