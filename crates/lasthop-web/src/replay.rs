//! A window of the trace of a run, and where the interesting moments of the whole run are. The run is repeated for each
//! window, which takes less time than to keep the trace: memory is bounded however long the run is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use lasthop_cc::LossKind;
use lasthop_core::packet::{Cause, Kind, flag};
use lasthop_core::time::Time;
use lasthop_net::plan::Plan;
use lasthop_net::trace::{
    Decision, DecisionRecord, FrameOutcome, FrameRecord, HopRecord, Sink, WindowRecord,
};

/// Most moments of one kind that are kept of a run; a page has no use for more.
const MOST_MOMENTS: usize = 500_000;

/// A packet on a link was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loss {
    time: Time,
    flow: u32,
    direction: u32,
    seq: u64,
    cause: Cause,
    /// It carried data to the receiver, and not news back.
    data: bool,
}

/// A frame of a radio channel could not be read where it should have been, because it met another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Collision {
    time: Time,
    from: u32,
    at: u32,
    /// Flow of the packet in it, if it has one.
    flow: Option<u32>,
}

/// When a packet of which flow was marked, or sent again by the network: both show in records of all packets alone.
pub struct Moments {
    /// The node at which a direction begins, and from which a flow comes.
    begins: Vec<usize>,
    sources: Vec<usize>,
    /// A bit for each packet that its sender made, by its serial number.
    made: Vec<u64>,
    /// Packets that have been marked.
    marked: BTreeSet<u32>,
    /// Data that were lost, by flow, direction and first byte, and the packet.
    lost: BTreeMap<(u32, u32, u64), u32>,
    marks: Vec<(Time, u32)>,
    repairs: Vec<(Time, u32)>,
}

impl Moments {
    /// None yet.
    pub fn of(plan: &Plan) -> Moments {
        Moments {
            begins: plan.links.iter().flat_map(|link| [link.from, link.to]).collect(),
            sources: plan.flows.iter().map(|flow| flow.source).collect(),
            made: Vec::new(),
            marked: BTreeSet::new(),
            lost: BTreeMap::new(),
            marks: Vec::new(),
            repairs: Vec::new(),
        }
    }

    fn take(&mut self, record: &HopRecord) {
        let &HopRecord { packet, flow, direction, seq, .. } = record;
        let is_marked = record.flags & flag::CE != 0;
        if is_marked && self.marks.len() < MOST_MOMENTS && self.marked.insert(packet) {
            self.marks.push((record.transmitted.unwrap_or(record.enqueued), flow));
        }
        if record.back || record.payload == 0 {
            return;
        }
        let (place, bit) = (packet as usize / 64, 1 << (packet % 64));
        if self.begins.get(direction as usize) == self.sources.get(flow as usize) {
            self.made.resize(self.made.len().max(place + 1), 0);
            self.made[place] |= bit;
        }
        // What was lost here comes once more, in the same packet or in one that did not come from its sender.
        if let Some(&before) = self.lost.get(&(flow, direction, seq))
            && (before == packet || self.made.get(place).is_none_or(|made| made & bit == 0))
            && self.repairs.len() < MOST_MOMENTS
        {
            self.repairs.push((record.enqueued, flow));
        }
        if record.lost.is_some() && self.lost.len() < MOST_MOMENTS {
            self.lost.insert((flow, direction, seq), packet);
        }
    }
}

/// Hears how far a run is, and may look at the window so far.
pub type Watched<'a> = &'a mut dyn FnMut(f64, &Replay<'_>);

/// Takes down a window of the trace.
pub struct Replay<'a> {
    from: Time,
    to: Time,
    most: usize,
    hops: Vec<HopRecord>,
    windows: Vec<WindowRecord>,
    losses: Vec<Loss>,
    decisions: Vec<DecisionRecord>,
    collisions: Vec<Collision>,
    /// When the last packet came to its link that was handed over: of those before it all is known.
    reached: Time,
    /// The run is over: all is known.
    over: bool,
    /// Where the window had to end, because there were too many packets in it.
    cut: Option<Time>,
    /// Of the whole run, if they are asked for.
    moments: Option<Moments>,
    watched: Option<Watched<'a>>,
}

impl<'a> Replay<'a> {
    /// Of what happens from `from` to `to`, and of `most` packets on links at most.
    pub fn new(
        (from, to): (Time, Time),
        most: usize,
        moments: Option<Moments>,
        watched: Watched<'a>,
    ) -> Replay<'a> {
        Replay {
            from,
            to,
            most,
            hops: Vec::new(),
            windows: Vec::new(),
            losses: Vec::new(),
            decisions: Vec::new(),
            collisions: Vec::new(),
            reached: Time::ZERO,
            over: false,
            cut: None,
            moments,
            watched: Some(watched),
        }
    }

    /// The run is over.
    pub fn finish(self) -> Replay<'static> {
        let Replay { from, to, most, hops, windows, losses, decisions, collisions, .. } = self;
        let Replay { reached, cut, moments, .. } = self;
        Replay {
            from,
            to,
            most,
            hops,
            windows,
            losses,
            decisions,
            collisions,
            reached,
            over: true,
            cut,
            moments,
            watched: None,
        }
    }

    /// The decisions of which it is known what they answered. They come before the packets that they are about, which
    /// are handed over by the thousand: a loss that is still to come would be none.
    fn known_decisions(&self) -> impl Iterator<Item = &DecisionRecord> {
        self.decisions.iter().filter(|record| self.over || record.time <= self.reached)
    }

    /// What each of them answered.
    fn truths(&self) -> impl Iterator<Item = Option<Cause>> {
        let mut lost: BTreeMap<(u32, u64), Vec<(Time, Cause)>> = BTreeMap::new();
        for loss in self.losses.iter().filter(|loss| loss.data) {
            lost.entry((loss.flow, loss.seq)).or_default().push((loss.time, loss.cause));
        }
        self.known_decisions().map(move |record| {
            let of_segment = lost.get(&(record.flow, record.seq))?;
            of_segment
                .iter()
                .filter(|(at, _)| *at <= record.time)
                .max_by_key(|(at, _)| *at)
                .map(|(_, cause)| *cause)
        })
    }

    /// Where the window ends, in seconds.
    pub fn end_s(&self) -> f64 {
        self.cut.unwrap_or(self.to).seconds()
    }

    /// Up to where the window is known while the run goes on, in seconds.
    pub fn known_s(&self) -> f64 {
        self.cut.unwrap_or(self.reached.min(self.to)).seconds()
    }

    /// Whether a sender has decided on anything so far, and it is known on what.
    pub fn has_decisions(&self) -> bool {
        self.known_decisions().next().is_some()
    }

    /// Whether a packet is known so far.
    pub fn has_packets(&self) -> bool {
        !self.hops.is_empty()
    }

    /// A column of one of the tables `hops`, `sacks`, `windows`, `losses`, `decisions`, `collisions`, `marks` and
    /// `repairs`.
    pub fn column(&self, table: &str, column: &str) -> Option<Vec<f64>> {
        match table {
            "hops" => self.of_hops(column),
            "sacks" => self.of_sacks(column),
            "windows" => self.of_windows(column),
            "losses" => self.of_losses(column),
            "decisions" => self.of_decisions(column),
            "collisions" => self.of_collisions(column),
            "marks" => self.of_marks(column),
            "repairs" => self.of_repairs(column),
            _ => None,
        }
    }

    /// A column of the packets on links within the window: times in seconds, NaN where there is none. The outcome is 0
    /// for delivered, 1 for in flight, and from 2 on the causes of loss in their order.
    pub fn of_hops(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(&HopRecord) -> f64 = match column {
            "packet" => |hop| f64::from(hop.packet),
            "flow" => |hop| f64::from(hop.flow),
            "direction" => |hop| f64::from(hop.direction),
            "kind" => |hop| Kind::NAMES.iter().position(|name| *name == hop.kind.name()).unwrap_or(0) as f64,
            "seq" => |hop| hop.seq as f64,
            "ack" => |hop| hop.ack as f64,
            "payload_bytes" => |hop| f64::from(hop.payload),
            "wire_bytes" => |hop| f64::from(hop.bytes),
            "window_bytes" => |hop| f64::from(hop.window),
            "back" => |hop| f64::from(u8::from(hop.back)),
            "again" => |hop| f64::from(u8::from(hop.again)),
            "marked" => |hop| f64::from(u8::from(hop.flags & flag::CE != 0)),
            "enqueue_s" => |hop| hop.enqueued.seconds(),
            "transmit_s" => |hop| hop.transmitted.map_or(f64::NAN, Time::seconds),
            "arrive_s" => |hop| hop.arrived.map_or(f64::NAN, Time::seconds),
            "outcome" => |hop| match (hop.lost, hop.arrived) {
                (Some(cause), _) => 2.0 + number(cause),
                (None, Some(_)) => 0.0,
                (None, None) => 1.0,
            },
            _ => return None,
        };
        Some(self.hops.iter().map(of).collect())
    }

    /// A column of the SACK blocks of the ACKs among the packets on links: `hop` is the row there, `from` and `to` are
    /// the first byte of the block and the one behind it.
    pub fn of_sacks(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(usize, (u64, u64)) -> f64 = match column {
            "hop" => |hop, _| hop as f64,
            "from" => |_, (from, _)| from as f64,
            "to" => |_, (_, to)| to as f64,
            _ => return None,
        };
        let rows = self.hops.iter().enumerate();
        Some(
            rows.flat_map(|(hop, record)| record.sack.as_slice().iter().map(move |&block| of(hop, block)))
                .collect(),
        )
    }

    /// A column of the changes of windows within the window.
    pub fn of_windows(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(&WindowRecord) -> f64 = match column {
            "time_s" => |row| row.time.seconds(),
            "flow" => |row| f64::from(row.flow),
            "cwnd_segments" => |row| row.cwnd,
            "ssthresh_segments" => |row| row.ssthresh,
            _ => return None,
        };
        Some(self.windows.iter().map(of).collect())
    }

    /// A column of all losses of the run.
    pub fn of_losses(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(&Loss) -> f64 = match column {
            "time_s" => |row| row.time.seconds(),
            "flow" => |row| f64::from(row.flow),
            "direction" => |row| f64::from(row.direction),
            "seq" => |row| row.seq as f64,
            "cause" => |row| number(row.cause),
            "data" => |row| f64::from(u8::from(row.data)),
            _ => return None,
        };
        Some(self.losses.iter().map(of).collect())
    }

    /// A column of all collisions of the run at the station that a frame was for: the nodes that it came `from` and was
    /// lost `at`, and the flow of the packet in it, NaN if it has none.
    pub fn of_collisions(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(&Collision) -> f64 = match column {
            "time_s" => |row| row.time.seconds(),
            "from" => |row| f64::from(row.from),
            "at" => |row| f64::from(row.at),
            "flow" => |row| row.flow.map_or(f64::NAN, f64::from),
            _ => return None,
        };
        Some(self.collisions.iter().map(of).collect())
    }

    /// A column of all packets of the run that were marked: when, and of which flow.
    pub fn of_marks(&self, column: &str) -> Option<Vec<f64>> {
        of_moments(&self.moments.as_ref()?.marks, column)
    }

    /// A column of all data that the network sent again after it had lost them: when, and of which flow.
    pub fn of_repairs(&self, column: &str) -> Option<Vec<f64>> {
        of_moments(&self.moments.as_ref()?.repairs, column)
    }

    /// A column of all decisions of the run, or of those that are known so far. `decision`: 0 for a recovery, 1 for a
    /// timeout, 2 for a reduction that was undone. `belief`: 0 if the sender does not tell losses apart, 1 for
    /// congestion, 2 for the air. `truth`: 0 if the segment had not been lost, and from 1 on the causes in their order.
    pub fn of_decisions(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(&DecisionRecord) -> f64 = match column {
            "time_s" => |row| row.time.seconds(),
            "flow" => |row| f64::from(row.flow),
            "seq" => |row| row.seq as f64,
            "before" => |row| row.before,
            "after" => |row| row.after,
            "decision" => |row| match row.decision {
                Decision::FastRecovery => 0.0,
                Decision::Timeout => 1.0,
                Decision::Undone => 2.0,
            },
            "belief" => |row| match row.belief {
                None => 0.0,
                Some(LossKind::Congestion) => 1.0,
                Some(LossKind::Wireless) => 2.0,
            },
            "truth" => {
                let truth = |cause: Option<Cause>| cause.map_or(0.0, |cause| 1.0 + number(cause));
                return Some(self.truths().map(truth).collect());
            }
            _ => return None,
        };
        Some(self.known_decisions().map(of).collect())
    }
}

fn of_moments(moments: &[(Time, u32)], column: &str) -> Option<Vec<f64>> {
    Some(match column {
        "time_s" => moments.iter().map(|(time, _)| time.seconds()).collect(),
        "flow" => moments.iter().map(|&(_, flow)| f64::from(flow)).collect(),
        _ => return None,
    })
}

fn number(cause: Cause) -> f64 {
    Cause::NAMES.iter().position(|name| *name == cause.name()).unwrap_or(0) as f64
}

/// When what became of a packet on a link is known.
fn known(record: &HopRecord) -> Time {
    record.arrived.or(record.transmitted).unwrap_or(record.enqueued)
}

impl Sink for Replay<'_> {
    /// Before and behind the window only losses and decisions are of use, unless moments are asked for.
    fn wants(&mut self, now: Time) -> (Time, Time) {
        if now < Time::MAX
            && let Some(watched) = self.watched.take()
        {
            watched(now.seconds(), self);
            self.watched = Some(watched);
        }
        if self.moments.is_some() {
            return (Time::ZERO, Time::MAX);
        }
        (self.from, self.cut.unwrap_or(self.to))
    }

    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        if let Some(cause) = record.lost
            && self.losses.len() < MOST_MOMENTS
        {
            self.losses.push(Loss {
                time: known(record),
                flow: record.flow,
                direction: record.direction,
                seq: record.seq,
                cause,
                data: !record.back,
            });
        }
        if let Some(moments) = &mut self.moments {
            moments.take(record);
        }
        self.reached = record.enqueued;
        let over = record.lost.is_some() || record.arrived.is_some();
        if record.enqueued > self.to || (over && known(record) < self.from) || self.cut.is_some() {
            return Ok(());
        }
        if self.hops.len() == self.most {
            self.cut = Some(record.enqueued);
            return Ok(());
        }
        self.hops.push(*record);
        Ok(())
    }

    fn window(&mut self, record: &WindowRecord) -> io::Result<()> {
        if record.time >= self.from && record.time <= self.to && self.windows.len() < MOST_MOMENTS {
            self.windows.push(*record);
        }
        Ok(())
    }

    fn frame(&mut self, record: &FrameRecord) -> io::Result<()> {
        let is_meant = record.to == Some(record.at) && record.outcome == FrameOutcome::Collided;
        if is_meant && self.collisions.len() < MOST_MOMENTS {
            self.collisions.push(Collision {
                time: record.end,
                from: record.from,
                at: record.at,
                flow: record.packet.map(|packet| packet.flow),
            });
        }
        Ok(())
    }

    fn decision(&mut self, record: &DecisionRecord) -> io::Result<()> {
        if self.decisions.len() < MOST_MOMENTS {
            self.decisions.push(*record);
        }
        Ok(())
    }
}
