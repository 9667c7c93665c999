//! The greatest value of the last round trips: the windowed maximum that both versions of BBR keep.

/// Most round trips that count.
const MOST_ROUNDS: u64 = 10;

/// Greatest value of each of the last rounds; values age only when another comes in.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundMax {
    /// Round and greatest value of that round, by the round modulo the length.
    rounds: [(u64, f64); MOST_ROUNDS as usize],
    max: f64,
}

impl RoundMax {
    /// The greatest of the rounds that count.
    #[inline]
    pub(crate) fn max(&self) -> f64 {
        self.max
    }

    /// Takes a value of `round`, of which the last `length` count, at most ten.
    pub(crate) fn insert(&mut self, round: u64, value: f64, length: u64) {
        let slot = &mut self.rounds[(round % MOST_ROUNDS) as usize];
        if slot.0 == round {
            slot.1 = slot.1.max(value);
            self.max = self.max.max(value);
            return;
        }
        *slot = (round, value);
        let recent = self.rounds.iter().filter(|entry| round - entry.0 < length);
        self.max = recent.fold(0.0, |max, entry| max.max(entry.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_is_forgotten_after_ten_rounds() {
        let mut filter = RoundMax::default();
        filter.insert(5, 100.0, 10);
        for round in 6..15 {
            filter.insert(round, 50.0, 10);
            assert_eq!(filter.max(), 100.0, "round {round}");
        }
        filter.insert(15, 40.0, 10);
        assert_eq!(filter.max(), 50.0);
        filter.insert(100, 30.0, 10);
        assert_eq!(filter.max(), 30.0);
    }

    #[test]
    fn a_length_of_one_keeps_the_present_round() {
        let mut filter = RoundMax::default();
        filter.insert(1, 8.0, 1);
        filter.insert(1, 5.0, 1);
        assert_eq!(filter.max(), 8.0);
        filter.insert(2, 3.0, 1);
        assert_eq!(filter.max(), 3.0);
    }
}
