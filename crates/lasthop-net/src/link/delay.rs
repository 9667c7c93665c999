//! A propagation delay that is a function of time. Packets keep their order: one that leaves when the delay has become
//! shorter arrives no earlier than the one before it.

use lasthop_core::time::{Span, Time};

use crate::plan::Direction;

/// The delay of one direction and what has used it.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    present: Span,
    /// Later delays, ascending in time, and how many of them have come into force.
    changes: Box<[(Time, Span)]>,
    begun: usize,
    last_arrival: Time,
}

impl Delays {
    /// `None` if the delay never changes.
    pub(super) fn new(plan: &Direction) -> Option<Box<Delays>> {
        let changes: Box<[(Time, Span)]> = plan.delay_changes.as_slice().into();
        let delays = Delays { present: plan.delay, changes, begun: 0, last_arrival: Time::ZERO };
        (!delays.changes.is_empty()).then(|| Box::new(delays))
    }

    /// When a packet arrives that leaves at `departs`.
    pub(super) fn arrival(&mut self, departs: Time) -> Time {
        while let Some(&(from, delay)) = self.changes.get(self.begun)
            && from <= departs
        {
            self.present = delay;
            self.begun += 1;
        }
        self.last_arrival = self.last_arrival.max(departs + self.present);
        self.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::units::Rate;

    #[test]
    fn no_packet_overtakes() {
        let millis = |value| Time::ZERO + Span::from_millis(value);
        let plan = Direction {
            delay_changes: vec![(millis(10), Span::from_millis(2)), (millis(20), Span::from_millis(9))],
            ..Direction::plain(Rate(1_000_000), Span::from_millis(5))
        };
        let mut delays = Delays::new(&plan).unwrap();
        let arrivals = [0, 9, 10, 13, 19, 20].map(|departs| delays.arrival(millis(departs)));
        assert_eq!(arrivals, [5, 14, 14, 15, 21, 29].map(millis));
        assert!(Delays::new(&Direction::plain(Rate(1), Span::ZERO)).is_none());
    }
}
