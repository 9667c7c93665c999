//! Time series of a run as columns of numbers, with the names and units that the tables of results declare. A value
//! that is absent is NaN.

use std::collections::BTreeMap;
use std::io;

use lasthop_core::time::Span;
use lasthop_net::plan::Plan;
use lasthop_net::trace::{FlowInterval, HelperInterval, LinkInterval, RadioInterval, Sink, Viewed};

/// Hears how far a run is, and may look at its series so far.
pub type Watched<'a> = &'a mut dyn FnMut(f64, &Rows);

/// Number of progress reports during a run.
const TIMES: u64 = 100;

/// The series of a run, or of its beginning.
#[derive(Debug, Default)]
pub struct Rows {
    flows: Vec<FlowInterval>,
    links: Vec<LinkInterval>,
    radios: Vec<RadioInterval>,
    helpers: Vec<HelperInterval>,
    interval: Span,
}

/// What a viewer has; nothing where there is none.
fn viewed(row: &FlowInterval) -> Viewed {
    row.sample.viewed.unwrap_or_default()
}

/// Keeps the series of a run while it goes on, and tells how far it has come.
pub struct Series<'a> {
    rows: Rows,
    step: Span,
    next: Span,
    watched: Watched<'a>,
}

impl<'a> Series<'a> {
    /// Of a run of `plan`.
    pub fn new(plan: &Plan, watched: Watched<'a>) -> Series<'a> {
        let step = Span(plan.duration.0 / TIMES);
        let rows = Rows { interval: plan.series_interval, ..Rows::default() };
        Series { rows, step, next: step, watched }
    }

    /// What was kept.
    pub fn finish(self) -> Rows {
        self.rows
    }
}

impl Rows {
    /// A column of the table `flow_series`, all flows of an interval one after the other.
    pub fn of_flows(&self, column: &str) -> Option<Vec<f64>> {
        let bit_s = |bytes: u64| bytes as f64 * 8.0 / self.interval.seconds();
        let of: fn(&FlowInterval) -> f64 = match column {
            "time_s" => |row| row.sample.time.seconds(),
            "cwnd_segments" => |row| row.sample.cwnd,
            "ssthresh_segments" => |row| finite(row.sample.ssthresh),
            "srtt_s" => |row| if row.sample.srtt.0 > 0 { row.sample.srtt.seconds() } else { f64::NAN },
            "rtt_s" => |row| row.sample.rtt.map_or(f64::NAN, Span::seconds),
            "flight_segments" => |row| f64::from(row.sample.flight),
            "allowed_rate_bit_s" => |row| 8.0 * row.sample.rate,
            "theta" => |row| row.sample.signs.map_or(f64::NAN, |signs| signs.theta),
            "arrived_packets" => |row| row.arrived as f64,
            "delay_s" => |row| row.delay.map_or(f64::NAN, Span::seconds),
            "lost_packets" => |row| row.lost as f64,
            "settled_packets" => |row| row.timely.map_or(f64::NAN, |timely| timely.settled as f64),
            "timely_packets" => |row| row.timely.map_or(f64::NAN, |timely| timely.arrived as f64),
            "stall_s" => |row| row.sample.stalled.map_or(f64::NAN, Span::seconds),
            "video_rate_bit_s" => |row| viewed(row).rate.unwrap_or(f64::NAN),
            "frame_delay_s" => |row| viewed(row).frame_delay.map_or(f64::NAN, Span::seconds),
            "video_buffer_s" => |row| row.sample.viewed.map_or(f64::NAN, |has| has.buffered.seconds()),
            "shown_frames" => |row| viewed(row).shown.map_or(f64::NAN, |shown| shown as f64),
            "throughput_bit_s" => return Some(self.flows.iter().map(|row| bit_s(row.received)).collect()),
            "goodput_bit_s" => return Some(self.flows.iter().map(|row| bit_s(row.delivered)).collect()),
            _ => return None,
        };
        Some(self.flows.iter().map(of).collect())
    }

    /// A column of the table `radio_series`, all radio directions of an interval one after the other.
    pub fn of_radios(&self, column: &str) -> Option<Vec<f64>> {
        let of: fn(&RadioInterval) -> u64 = match column {
            "direction" => |row| u64::from(row.direction),
            "attempts" => |row| row.stats.attempts,
            "repetitions" => |row| row.stats.repetitions,
            "collisions" => |row| row.stats.collisions,
            _ => return None,
        };
        Some(self.radios.iter().map(|row| of(row) as f64).collect())
    }

    /// What devices counted, by the names of their columns, added up over all directions, interval by interval.
    pub fn of_helpers(&self) -> BTreeMap<&'static str, Vec<f64>> {
        let mut columns: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        let nanos = self.interval.0.max(1);
        for row in &self.helpers {
            let place = (row.time.0.div_ceil(nanos) as usize).saturating_sub(1);
            for &(name, count) in &row.counters {
                let column = columns.entry(name).or_default();
                if column.len() <= place {
                    column.resize(place + 1, 0.0);
                }
                column[place] += count as f64;
            }
        }
        columns
    }

    /// A column of the table `link_series`, all directions of an interval one after the other.
    pub fn of_links(&self, column: &str) -> Option<Vec<f64>> {
        let (length, seconds) = (self.interval.0 as f64, self.interval.seconds());
        let rows = self.links.iter();
        Some(match column {
            "time_s" => rows.map(|row| row.time.seconds()).collect(),
            "queue_packets" => rows.map(|row| row.waiting as f64 / length).collect(),
            "throughput_bit_s" => rows.map(|row| row.bytes as f64 * 8.0 / seconds).collect(),
            "utilisation" => rows.map(|row| row.busy as f64 / length).collect(),
            _ => return None,
        })
    }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::NAN }
}

impl Sink for Series<'_> {
    fn flow(&mut self, interval: &FlowInterval) -> io::Result<()> {
        let now = Span(interval.sample.time.0);
        // Before the first row of an interval: what is there is whole.
        if now >= self.next
            && self.rows.flows.last().is_some_and(|row| row.sample.time != interval.sample.time)
        {
            (self.watched)(now.seconds(), &self.rows);
            self.next = now + self.step;
        }
        self.rows.flows.push(*interval);
        Ok(())
    }

    fn radio(&mut self, interval: &RadioInterval) -> io::Result<()> {
        self.rows.radios.push(*interval);
        Ok(())
    }

    fn helper(&mut self, interval: &HelperInterval) -> io::Result<()> {
        self.rows.helpers.push(interval.clone());
        Ok(())
    }

    fn link(&mut self, interval: &LinkInterval) -> io::Result<()> {
        self.rows.links.push(*interval);
        Ok(())
    }
}
