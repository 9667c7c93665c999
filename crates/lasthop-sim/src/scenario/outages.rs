//! When a link is down: the key `handoff`. Called by `link.rs`.

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{OutagePolicy, OutageSchedule, Outages, Warning};

use super::declare::{choice, table};
use super::diagnostic::{Place, ScenarioError};
use super::keys::{ANY_TIME, Kind, SOME_TIME};
use super::link::LinkReader;
use super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

choice! {
    const POLICY: OutagePolicy = "drop-air" => OutagePolicy::DropAir, "drop" => OutagePolicy::Drop,
        "hold" => OutagePolicy::Hold
}

table! {
    /// Outages of a link: `count` of them, or a list of start times.
    pub(super) static HANDOFF = "handoff";
    struct Keys<'n> {
        /// Number of outages in the run.
        count: Option<u64> = Kind::Integer { min: 0, max: 10_000 };
        /// Times at which outages start.
        at: Option<Vec<Item<'n>>> = Kind::List(&ANY_TIME);
        /// Length of each outage.
        outage: Span = SOME_TIME, required_or("add outage = \"1 s\"");
        /// For count: evenly over the run, or drawn for each link. Default: even.
        placement: Option<&'static str> = Kind::Choice(|| vec!["even", "random"]);
        /// What happens to packets during an outage: drop-air loses what is transmitted meanwhile, drop also empties
        /// the queue, hold keeps packets until the link returns.
        policy: OutagePolicy = POLICY, default("\"drop-air\"");
        /// How long before an outage the hosts at both ends are warned. Default: no warning. They are always notified
        /// of its end.
        warning: Option<Span> = ANY_TIME;
        /// Probability that an outage has no warning. Default: 0.
        miss: Option<f64> = Kind::Probability;
        /// Number of warnings in the run that no outage follows; the host continues after the time of a warning.
        /// Default: 0.
        false_alarms: Option<u32> = Kind::Integer { min: 0, max: 10_000 };
    }
}

impl LinkReader<'_, '_> {
    /// The outages that the key `handoff` of `table` describes, counted once for each of its `copies`.
    pub(super) fn outages(&mut self, table: &Reader<'_>, copies: u64) -> Result<Outages> {
        let Checked::Table(handoff) = table.value("handoff")? else {
            return Ok(Outages {
                schedule: OutageSchedule::None,
                policy: OutagePolicy::DropAir,
                warning: None,
            });
        };
        let mut keys = Keys::read(&handoff)?;
        let schedule = match (keys.count, keys.at.take()) {
            (Some(_), Some(_)) => {
                let message = "count and at exclude each other".to_owned();
                return Err(handoff.error("at", message, "keep one of them"));
            }
            (None, None) => {
                let message = "missing key \"count\" or \"at\" in handoff".to_owned();
                let remedy = "add count = 5, or at = [\"10 s\"]";
                return Err(handoff.source.error(handoff.place, message, remedy));
            }
            (Some(count), None) => self.counted(&handoff, &keys, count, copies)?,
            (None, Some(at)) => {
                if keys.placement.is_some() {
                    let message = "placement goes with count, not with at".to_owned();
                    return Err(handoff.error("placement", message, "leave it out"));
                }
                self.count(&handoff, "at", at.len() as u64, copies)?;
                let mut starts = Vec::with_capacity(at.len());
                for item in at {
                    if let Checked::Span(start) = item.value {
                        starts.push((Time(start.0), item.place));
                    }
                }
                starts.sort_by_key(|start| start.0);
                self.listed_at(&handoff, &starts, keys.outage)?
            }
        };
        Ok(Outages { schedule, policy: keys.policy, warning: warning(&handoff, &keys)? })
    }

    fn counted(
        &mut self,
        handoff: &Reader<'_>,
        keys: &Keys<'_>,
        count: u64,
        copies: u64,
    ) -> Result<OutageSchedule> {
        if count == 0 {
            return Ok(OutageSchedule::None);
        }
        let (random, length) = (keys.placement == Some("random"), keys.outage);
        // Evenly placed outages start at k * duration / (count + 1); the last must end within the run.
        let room = if random { self.duration.0 / count } else { self.duration.0 / (count + 1) };
        if length.0 > room {
            let message = format!("{count} outages of {length} do not fit a run of {}", self.duration);
            let remedy = format!("each may last {} at most", Span(room));
            return Err(handoff.error("outage", message, &remedy));
        }
        if random {
            return Ok(OutageSchedule::Random { count: count as u32, length });
        }
        self.count(handoff, "count", count, copies)?;
        let start = |number: u64| {
            // 128 bits: 10^15 ns times 10^4 outages.
            let nanos = u128::from(number) * u128::from(self.duration.0) / u128::from(count + 1);
            Time(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        Ok(OutageSchedule::Listed((1..=count).map(|number| (start(number), length)).collect()))
    }

    fn listed_at(
        &self,
        handoff: &Reader<'_>,
        starts: &[(Time, &Place)],
        length: Span,
    ) -> Result<OutageSchedule> {
        let mut schedule: Vec<(Time, Span)> = Vec::with_capacity(starts.len());
        for &(start, place) in starts {
            let end = start + length;
            if end.0 > self.duration.0 {
                let message =
                    format!("the outage at {start} ends at {end}, after the run of {}", self.duration);
                return Err(handoff.source.error(place, message, "start it earlier, or make it shorter"));
            }
            if let Some(&(before, _)) = schedule.last()
                && start < before + length
            {
                let message = format!("the outage at {start} begins before the one at {before} ends");
                let remedy = format!("leave at least {length} between starting times");
                return Err(handoff.source.error(place, message, &remedy));
            }
            schedule.push((start, length));
        }
        Ok(OutageSchedule::Listed(schedule))
    }
}

/// How outages are announced.
fn warning(handoff: &Reader<'_>, keys: &Keys<'_>) -> Result<Option<Warning>> {
    let Some(lead) = keys.warning else {
        let stray = ["miss", "false_alarms"].into_iter().find(|key| handoff.has(key));
        return match stray {
            Some(key) => {
                let message = format!("{key} without a warning");
                Err(handoff.error(key, message, "add warning = \"100 ms\""))
            }
            None => Ok(None),
        };
    };
    let (miss, false_alarms) = (keys.miss.unwrap_or(0.0), keys.false_alarms.unwrap_or(0));
    Ok(Some(Warning { lead, miss, false_alarms }))
}
