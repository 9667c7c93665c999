//! Fast games: small packets both ways, each direction a flow of its own.
//!
//! The model of J. Faerber, "Traffic Modelling for Fast Action Network Games" (Multimedia Tools and Applications 23,
//! 2004), of Counter-Strike: a player sends 25 packets per second, and the server one about every 58 ms to each player;
//! sizes, and the gaps of the server, have extreme value distributions of type I.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered, Pace};

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A player.
    Player,
    /// The server, to one player.
    Server,
}

/// One direction of a game.
#[derive(Clone, Debug, PartialEq)]
pub struct Game {
    /// Who sends.
    pub side: Side,
}

/// An extreme value distribution of type I: `F(x) = exp(-exp(-(x - location) / scale))`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extreme {
    location: f64,
    scale: f64,
}

/// Bytes and milliseconds between packets.
const PLAYER: (Extreme, Extreme) =
    (Extreme { location: 80.0, scale: 5.7 }, Extreme { location: 40.0, scale: 0.0 });
const SERVER: (Extreme, Extreme) =
    (Extreme { location: 120.0, scale: 36.0 }, Extreme { location: 55.0, scale: 6.0 });
/// Largest packet that is drawn: the chance of more is below 1e-10.
const LARGEST: u64 = 1000;

impl Extreme {
    fn mean(self) -> f64 {
        const EULER: f64 = 0.577_215_664_901_532_9;
        self.location + self.scale * EULER
    }

    fn draw(self, stream: &mut Stream) -> f64 {
        if self.scale == 0.0 {
            return self.location;
        }
        let uniform = stream.uniform().max(f64::MIN_POSITIVE);
        self.location - self.scale * libm::log(-libm::log(uniform))
    }
}

impl Game {
    fn model(&self) -> (Extreme, Extreme) {
        match self.side {
            Side::Player => PLAYER,
            Side::Server => SERVER,
        }
    }
}

impl Offered for Game {
    fn nominal_rate(&self) -> Option<Rate> {
        let (size, gap) = self.model();
        Some(Rate((size.mean() * 8e3 / gap.mean()).round() as u64))
    }

    fn largest_write(&self) -> Option<u64> {
        Some(LARGEST)
    }

    fn pace(&self, _: Packing) -> Option<Pace> {
        Some(Pace { gap_ns: self.model().1.mean() * 1e6, active: 1.0 })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "game", bytes: None })
    }
}

/// The side at work.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    size: Extreme,
    gap: Extreme,
    stream: Stream,
}

impl Ticks {
    #[expect(clippy::unnecessary_box_returns, reason = "a generator is a large part of few flows")]
    pub(super) fn new(plan: &Game, _: Packing, stream: Stream) -> Box<Ticks> {
        let (size, gap) = plan.model();
        Box::new(Ticks { size, gap, stream })
    }
}

impl Generate for Ticks {
    fn next(&mut self, now: Time) -> Offer {
        let bytes = self.size.draw(&mut self.stream).round().max(1.0) as u64;
        let gap = self.gap.draw(&mut self.stream).max(1.0);
        Offer { bytes: Some(bytes.min(LARGEST)), next: Some(now + Span::from_seconds(gap / 1e3)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kolmogorov and Smirnov, 99 of 100 samples.
    #[test]
    fn draws_follow_their_distribution() {
        for (law, seed) in [SERVER.0, SERVER.1, PLAYER.0].into_iter().zip(1..) {
            let mut stream = Stream::new(seed, "game");
            let mut drawn: Vec<f64> = (0..20_000).map(|_| law.draw(&mut stream)).collect();
            drawn.sort_by(f64::total_cmp);
            let distance = drawn.iter().zip(0..).fold(0.0_f64, |most, (x, rank)| {
                let expected = (-(-(x - law.location) / law.scale).exp()).exp();
                most.max((expected - f64::from(rank) / 20_000.0).abs())
            });
            assert!(distance < 1.63 / 20_000_f64.sqrt(), "{law:?}: {distance}");
            let mean = drawn.iter().sum::<f64>() / 20_000.0;
            assert!((mean / law.mean() - 1.0).abs() < 0.01, "{law:?}: {mean}");
        }
    }

    #[test]
    fn players_keep_time() {
        let mut ticks = Ticks::new(
            &Game { side: Side::Player },
            Packing { payload: 1472, whole: false },
            Stream::new(1, "g"),
        );
        assert_eq!(ticks.next(Time::ZERO).next, Some(Time::ZERO + Span::from_millis(40)));
        assert_eq!(Game { side: Side::Server }.nominal_rate(), Some(Rate(19_264)));
    }
}
