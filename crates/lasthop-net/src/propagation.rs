//! How strong a radio signal is at a distance: Friis, two-ray ground, log-distance with shadowing; and where stations
//! are, at rest or on their way.
//!
//! `device/wlan/` asks for the received power of every pair of stations. Powers are watts, distances metres. Nothing
//! here draws random numbers: the shadowing of a pair is drawn once, by the medium, from the stream of that pair.

use lasthop_core::time::{Span, Time};

/// Speed of light in m/s, as ns-2 and the test vectors round it.
pub const LIGHT_SPEED: f64 = 3e8;

/// A point in the plane, in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// To the east.
    pub x: f64,
    /// To the north.
    pub y: f64,
}

impl Position {
    /// Metres to another point.
    pub fn distance(self, other: Position) -> f64 {
        let (x, y) = (self.x - other.x, self.y - other.y);
        (x * x + y * y).sqrt()
    }
}

/// Where a station is at what time: it moves in straight lines between points, and rests before the first and after the
/// last.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Points in the order of time, at least one.
    pub points: Vec<(Time, Position)>,
}

impl Track {
    /// Always in the same place.
    pub fn fixed(position: Position) -> Track {
        Track { points: vec![(Time::ZERO, position)] }
    }

    /// Whether it ever moves.
    pub fn moves(&self) -> bool {
        self.points.iter().any(|&(_, position)| position != self.points[0].1)
    }

    /// Where it is at `now`.
    pub fn at(&self, now: Time) -> Position {
        let next = self.points.partition_point(|&(time, _)| time <= now);
        let Some(&(reached, to)) = self.points.get(next) else { return self.points[self.points.len() - 1].1 };
        let Some(&(left, from)) = next.checked_sub(1).and_then(|before| self.points.get(before)) else {
            return to;
        };
        let share = now.since(left).seconds() / reached.since(left).seconds();
        Position { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share }
    }
}

/// How power falls with distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fading {
    /// Free space (Friis 1946).
    Friis,
    /// Free space up to the crossover distance, and beyond it the direct ray and the one reflected by the ground, with
    /// antennas at this height in metres (Rappaport, *Wireless Communications*, section 4.6).
    TwoRayGround {
        /// Height of both antennas.
        height: f64,
    },
    /// Free space up to the reference distance, then a power law, and a normal deviation in dB drawn for each pair.
    LogDistance {
        /// Exponent of the distance.
        exponent: f64,
        /// Reference distance in metres.
        reference: f64,
        /// Standard deviation of the shadowing in dB.
        shadowing: f64,
    },
}

/// The radio as far as power goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Propagation {
    /// How power falls with distance.
    pub fading: Fading,
    /// Transmitted power in W.
    pub power: f64,
    /// Carrier frequency in Hz.
    pub frequency: f64,
    /// Gain of transmitting and receiving antenna together, over the loss of the system; a ratio.
    pub gain: f64,
}

impl Propagation {
    /// Wavelength in metres.
    pub fn wavelength(&self) -> f64 {
        LIGHT_SPEED / self.frequency
    }

    /// Power received over `distance`, in W, without shadowing; at no distance the transmitted power.
    pub fn received(&self, distance: f64) -> f64 {
        if distance <= 0.0 {
            return self.power;
        }
        match self.fading {
            Fading::Friis => self.friis(distance),
            Fading::TwoRayGround { height } => {
                if distance < self.crossover(height) {
                    return self.friis(distance);
                }
                let ratio = height * height / (distance * distance);
                self.power * self.gain * ratio * ratio
            }
            Fading::LogDistance { exponent, reference, .. } => {
                let near = self.friis(reference.min(distance));
                if distance <= reference { near } else { near * libm::pow(distance / reference, -exponent) }
            }
        }
    }

    /// From here on the reflected ray counts.
    pub fn crossover(&self, height: f64) -> f64 {
        4.0 * std::f64::consts::PI * height * height / self.wavelength()
    }

    fn friis(&self, distance: f64) -> f64 {
        let ratio = self.wavelength() / (4.0 * std::f64::consts::PI * distance);
        self.power * self.gain * ratio * ratio
    }

    /// The farthest distance at which at least `power` is received without shadowing, in metres, within a millimetre.
    pub fn range(&self, power: f64) -> f64 {
        let (mut near, mut far) = (0.0, 1.0);
        while self.received(far) >= power && far < 1e9 {
            far *= 2.0;
        }
        while far - near > 1e-3 {
            let middle = 0.5 * (near + far);
            if self.received(middle) >= power {
                near = middle;
            } else {
                far = middle;
            }
        }
        near
    }
}

/// Time of flight, rounded up to the nanosecond.
pub fn flight(distance: f64) -> Span {
    Span((distance / LIGHT_SPEED * 1e9).ceil() as u64)
}

/// The ratio of this many decibels.
pub fn ratio(decibels: f64) -> f64 {
    libm::pow(10.0, decibels / 10.0)
}

/// The decibels of a ratio.
pub fn decibels(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}

/// Power in W of this many dBm.
pub fn watts(dbm: f64) -> f64 {
    ratio(dbm) / 1000.0
}

/// Power in dBm.
pub fn dbm(watts: f64) -> f64 {
    decibels(watts * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The WaveLAN card of ns-2: 24.5 dBm at 914 MHz, antennas 1.5 m above the ground.
    fn wavelan() -> Propagation {
        Propagation {
            fading: Fading::TwoRayGround { height: 1.5 },
            power: 0.281_838_15,
            frequency: 914e6,
            gain: 1.0,
        }
    }

    /// NV-3.6.
    #[test]
    fn two_ray_ground_of_known_distances() {
        let radio = wavelan();
        assert!((radio.crossover(1.5) - 86.1425).abs() < 1e-4);
        let known = [
            (10.0, 1.9228e-6),
            (86.0, 2.5998e-8),
            (100.0, 1.4268e-8),
            (250.0, 3.6526e-10),
            (550.0, 1.5592e-11),
        ];
        for (distance, power) in known {
            let received = radio.received(distance);
            assert!((received / power - 1.0).abs() < 1e-4, "{distance} m: {received}");
        }
        assert_eq!(radio.received(0.0), radio.power);
        assert!((radio.range(3.652e-10) - 250.0).abs() < 0.1, "{}", radio.range(3.652e-10));
    }

    /// Ten times as far is 20 dB less in free space, and 35 dB less with an exponent of 3.5.
    #[test]
    fn power_laws() {
        let friis = Propagation { fading: Fading::Friis, ..wavelan() };
        assert!((decibels(friis.received(10.0) / friis.received(100.0)) - 20.0).abs() < 1e-9);
        let fading = Fading::LogDistance { exponent: 3.5, reference: 1.0, shadowing: 0.0 };
        let indoors = Propagation { fading, ..wavelan() };
        assert!((decibels(indoors.received(10.0) / indoors.received(100.0)) - 35.0).abs() < 1e-9);
        assert_eq!(indoors.received(0.5), friis.received(0.5));
    }

    #[test]
    fn decibels_there_and_back() {
        assert!((dbm(3.652e-10) + 64.37).abs() < 0.005);
        assert!((watts(-78.07) / 1.559e-11 - 1.0).abs() < 0.001);
        assert_eq!(flight(10.0), Span(34));
    }

    #[test]
    fn a_track_is_walked_in_straight_lines() {
        let point = |seconds, x, y| (Time::ZERO + Span::from_secs(seconds), Position { x, y });
        let track = Track { points: vec![point(10, 0.0, 0.0), point(20, 10.0, 0.0), point(30, 10.0, 5.0)] };
        let at = |seconds| track.at(Time::ZERO + Span::from_secs(seconds));
        assert_eq!(
            (at(0), at(15), at(99)),
            (point(0, 0.0, 0.0).1, point(0, 5.0, 0.0).1, point(0, 10.0, 5.0).1)
        );
        assert!(track.moves() && !Track::fixed(Position::default()).moves());
    }
}
