//! The times at which a link is down.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::plan::OutageSchedule;

/// A position in a sorted list of outages `[start, end)`; it only moves forward.
#[derive(Clone, Debug)]
pub(crate) struct OutageCursor {
    outages: Box<[(Time, Time)]>,
    next: usize,
}

impl OutageCursor {
    /// Before the first outage of the direction called `name`.
    pub(super) fn new(schedule: &OutageSchedule, name: &str, seed: u64, duration: Span) -> OutageCursor {
        let outages: Vec<(Time, Time)> = match schedule {
            OutageSchedule::None => Vec::new(),
            OutageSchedule::Listed(list) => {
                list.iter().map(|&(start, length)| (start, start + length)).collect()
            }
            OutageSchedule::Random { count, length } => {
                let mut stream = Stream::new(seed, &format!("outages of {name}"));
                random_outages(&mut stream, *count, *length, duration)
            }
        };
        OutageCursor { outages: outages.into(), next: 0 }
    }

    /// All outages.
    pub(crate) fn all(&self) -> &[(Time, Time)] {
        &self.outages
    }

    /// Skips outages that ended by `now`.
    fn advance(&mut self, now: Time) {
        while self.outages.get(self.next).is_some_and(|&(_, end)| end <= now) {
            self.next += 1;
        }
    }

    /// If the link is down at `now`: when it returns.
    pub(crate) fn up_again(&mut self, now: Time) -> Option<Time> {
        self.advance(now);
        self.outages.get(self.next).filter(|&&(start, _)| start <= now).map(|&(_, end)| end)
    }

    /// Start of the last outage that began by `now`, if there was one.
    pub(crate) fn started_by(&mut self, now: Time) -> Option<Time> {
        self.advance(now);
        let current = self.outages.get(self.next).filter(|&&(start, _)| start <= now);
        let past = self.next.checked_sub(1).map(|index| &self.outages[index]);
        current.or(past).map(|&(start, _)| start)
    }

    /// Start of the first outage after `now`; [`Time::MAX`] if there is none.
    pub(crate) fn next_start(&mut self, now: Time) -> Time {
        self.advance(now);
        let mut starts = self.outages[self.next..].iter().map(|&(start, _)| start);
        starts.find(|&start| start > now).unwrap_or(Time::MAX)
    }
}

/// `count` outages of `length`, uniform over the run and not overlapping: the gaps between them are a uniform
/// partition of the time that is left.
fn random_outages(stream: &mut Stream, count: u32, length: Span, duration: Span) -> Vec<(Time, Time)> {
    let free = duration - length * u64::from(count);
    let mut offsets: Vec<u64> = (0..count).map(|_| stream.below(free.0 + 1)).collect();
    offsets.sort_unstable();
    let starts = offsets.iter().zip(0u64..).map(|(&offset, earlier)| Time(offset) + length * earlier);
    starts.map(|start| (start, start + length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_outages_never_overlap() {
        let mut stream = Stream::new(3, "outages");
        for _ in 0..100 {
            let outages = random_outages(&mut stream, 5, Span::from_secs(1), Span::from_secs(6));
            assert!(outages.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            assert!(outages.iter().all(|outage| outage.1 <= Time::ZERO + Span::from_secs(6)));
        }
    }
}
