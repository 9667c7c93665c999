//! Who gets the resource blocks of a TTI. The device asks for an order; the first takes what it needs, the next what is
//! left.

/// How a cell shares its resource blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sharing {
    /// In turn.
    RoundRobin,
    /// Those with the best CQI first, in turn among equals.
    MaxCi,
    /// Those first whose rate now is the greatest multiple of what they have had on average, over this many TTIs
    /// (Viswanath, Tse and Laroia 2002).
    ProportionalFair {
        /// `tc` in TTIs.
        window: f64,
    },
}

/// A user that has something to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its number.
    pub(super) user: u32,
    /// Bits that the whole TTI would carry of it.
    pub(super) rate: u64,
    /// What decides, the greatest first.
    key: f64,
    /// Its turn.
    turn: u32,
}

/// The scheduler of one direction.
#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    sharing: Sharing,
    /// Whose turn it is.
    next: u32,
    /// Bits per TTI that each user has had on average.
    averages: Vec<f64>,
    /// The TTI that they are of.
    tti: u64,
}

/// Least average in bits per TTI: every user begins with it, and a quotient by it is finite.
const LEAST: f64 = 1.0;

impl Scheduler {
    pub(super) fn new(sharing: Sharing, users: usize) -> Scheduler {
        Scheduler { sharing, next: 0, averages: vec![LEAST; users], tti: 0 }
    }

    /// A user that could use the TTI at this rate.
    pub(super) fn candidate(&self, user: u32, rate: u64) -> Candidate {
        let users = self.averages.len() as u32;
        let turn = (user + users - self.next) % users;
        let key = match self.sharing {
            Sharing::RoundRobin => 0.0,
            Sharing::MaxCi => rate as f64,
            Sharing::ProportionalFair { .. } => rate as f64 / self.averages[user as usize],
        };
        Candidate { user, rate, key, turn }
    }

    /// Puts those first that are served first.
    pub(super) fn sort(candidates: &mut [Candidate]) {
        candidates
            .sort_unstable_by(|one, other| other.key.total_cmp(&one.key).then(one.turn.cmp(&other.turn)));
    }

    /// The TTI with this number begins: averages forget the time since the last.
    pub(super) fn begin(&mut self, tti: u64) {
        let Sharing::ProportionalFair { window } = self.sharing else { return };
        let kept = power(1.0 - 1.0 / window, tti - std::mem::replace(&mut self.tti, tti));
        for average in &mut self.averages {
            *average = (*average * kept).max(LEAST);
        }
    }

    /// A user was served with this many bits; the first of the TTI has had its turn.
    pub(super) fn served(&mut self, user: u32, bits: u64, first: bool) {
        if first {
            self.next = (user + 1) % self.averages.len() as u32;
        }
        if let Sharing::ProportionalFair { window } = self.sharing {
            self.averages[user as usize] += bits as f64 / window;
        }
    }
}

/// A power by squaring: alike on all machines.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            result *= square;
        }
        square *= square;
        rest /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves the first of each TTI alone, at rates by TTI; how often each user was it.
    fn turns(sharing: Sharing, rates: impl Fn(u64) -> [u64; 2], ttis: u64) -> [u64; 2] {
        let mut scheduler = Scheduler::new(sharing, 2);
        let mut turns = [0; 2];
        for tti in 0..ttis {
            scheduler.begin(tti);
            let mut order: Vec<Candidate> =
                (0..2).zip(rates(tti)).map(|(user, rate)| scheduler.candidate(user, rate)).collect();
            Scheduler::sort(&mut order);
            scheduler.served(order[0].user, order[0].rate, true);
            turns[order[0].user as usize] += 1;
        }
        turns
    }

    #[test]
    fn in_turn_whatever_the_rates() {
        assert_eq!(turns(Sharing::RoundRobin, |_| [100, 900], 1000), [500, 500]);
    }

    #[test]
    fn the_best_channel_takes_all_and_equals_take_turns() {
        assert_eq!(turns(Sharing::MaxCi, |_| [100, 900], 1000), [0, 1000]);
        assert_eq!(turns(Sharing::MaxCi, |_| [900, 900], 1000), [500, 500]);
    }

    /// At constant rates proportional fairness shares the time, not the bits.
    #[test]
    fn proportional_fairness_shares_the_time() {
        let [slow, fast] = turns(Sharing::ProportionalFair { window: 100.0 }, |_| [1000, 9000], 10_000);
        assert!(slow.abs_diff(fast) <= 100, "{slow} {fast}");
    }

    /// Two users whose channels alternate in antiphase are served at their peaks.
    #[test]
    fn proportional_fairness_serves_at_the_peaks() {
        let mut scheduler = Scheduler::new(Sharing::ProportionalFair { window: 100.0 }, 2);
        let mut at_peak = 0;
        for tti in 0..10_000u64 {
            let peak = (tti / 10 % 2) as u32;
            scheduler.begin(tti);
            let mut order: Vec<Candidate> = (0..2)
                .map(|user| scheduler.candidate(user, if user == peak { 9000 } else { 1000 }))
                .collect();
            Scheduler::sort(&mut order);
            scheduler.served(order[0].user, order[0].rate, true);
            at_peak += u64::from(order[0].user == peak);
        }
        assert!(at_peak > 9900, "{at_peak}");
    }

    #[test]
    fn idle_time_is_forgotten_at_once() {
        assert_eq!(power(0.99, 0), 1.0);
        let slowly = (0..300).fold(1.0, |product, _| product * 0.99);
        assert!((power(0.99, 300) - slowly).abs() < 1e-12);
    }
}
