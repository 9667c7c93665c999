//! Fading that is flat over the channel: the gain of each pair of stations changes as one of them moves through a field
//! of reflections, in the manner of Rayleigh, or of Rice with a direct path.
//!
//! A sum of sinusoids with Jakes' spectrum (Clarke 1968, Jakes 1974), their angles and phases drawn once for each pair:
//! a gain is a function of time alone, so that runs do not depend on when it is asked for. The medium asks at the end
//! of a PPDU for its start. Carrier sense and interference go by the mean power.

use std::f64::consts::TAU;

use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use crate::propagation::ratio;

/// Sinusoids of a pair.
const PATHS: usize = 16;

/// How fading is distributed, and how fast it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FadingPlan {
    /// Speed of the motion in m/s.
    pub speed: f64,
    /// Power of the direct path over that of all others in dB, if there is one.
    pub direct: Option<f64>,
}

/// The channel between two stations, the same both ways.
#[derive(Clone, Debug)]
pub(super) struct Fader {
    /// Angular frequency and phase of each reflection.
    paths: [(f64, f64); PATHS],
    /// Of the direct path.
    direct: (f64, f64),
    /// Amplitudes of a reflection and of the direct path.
    amplitudes: (f64, f64),
}

impl Fader {
    /// A pair whose waves are that long, in metres.
    pub(super) fn new(plan: FadingPlan, wavelength: f64, stream: &mut Stream) -> Fader {
        let doppler = TAU * plan.speed / wavelength;
        let turn = TAU * stream.uniform();
        let paths = std::array::from_fn(|index| {
            let angle = (TAU * index as f64 + turn) / PATHS as f64;
            (doppler * libm::cos(angle), TAU * stream.uniform())
        });
        let direct = (doppler * libm::cos(TAU * stream.uniform()), TAU * stream.uniform());
        let (reflected, straight) = plan.direct.map_or((1.0, 0.0), |direct| {
            let factor = ratio(direct);
            (1.0 / (factor + 1.0), factor / (factor + 1.0))
        });
        let amplitudes = ((reflected / PATHS as f64).sqrt(), straight.sqrt());
        Fader { paths, direct, amplitudes }
    }

    /// Power at `at` over the mean power.
    pub(super) fn gain(&self, at: Time) -> f64 {
        let seconds = at.seconds();
        let mut sum = (0.0, 0.0);
        for &(frequency, phase) in &self.paths {
            let (sine, cosine) = libm::sincos(frequency * seconds + phase);
            sum = (sum.0 + cosine, sum.1 + sine);
        }
        let (sine, cosine) = libm::sincos(self.direct.0 * seconds + self.direct.1);
        let (reflected, straight) = self.amplitudes;
        let real = reflected * sum.0 + straight * cosine;
        let imaginary = reflected * sum.1 + straight * sine;
        real * real + imaginary * imaginary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: FadingPlan = FadingPlan { speed: 1.5, direct: None };
    /// At 5.18 GHz: a Doppler of 25.9 Hz.
    const WAVELENGTH: f64 = 3e8 / 5.18e9;

    fn faders(plan: FadingPlan, count: u64) -> impl Iterator<Item = Fader> {
        let stream = move |number| Stream::new(number, "fading");
        (0..count).map(move |number| Fader::new(plan, WAVELENGTH, &mut stream(number)))
    }

    /// Over an ensemble the gain is exponential with a mean of 1.
    #[test]
    fn gains_are_exponential() {
        let gains: Vec<f64> = faders(WALK, 100_000).map(|fader| fader.gain(Time(3_000_000_000))).collect();
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        for level in [0.1, 0.5, 1.0, 2.0] {
            let below = gains.iter().filter(|&&gain| gain < level).count() as f64 / gains.len() as f64;
            let expected = 1.0 - f64::exp(-level);
            assert!((below - expected).abs() < 0.012, "{level}: {below}");
        }
    }

    /// Over time amplitudes are correlated by the Bessel function of 2 pi f tau, and powers by its square, less a
    /// sixteenth: so much a sum of sixteen varies less than one of infinitely many.
    #[test]
    fn it_forgets_as_jakes_says() {
        for (millis, bessel) in
            [(1.0, 0.99339), (5.0, 0.841_208), (5.5, 0.809_533), (10.0, 0.439_783), (14.8, -0.001_891)]
        {
            let later = (millis * 1e6) as u64;
            let (mut product, mut count) = (0.0, 0.0);
            for fader in faders(WALK, 40_000) {
                product += (fader.gain(Time(0)) - 1.0) * (fader.gain(Time(later)) - 1.0);
                count += 1.0;
            }
            let expected: f64 = bessel * bessel - 1.0 / PATHS as f64;
            assert!(
                (product / count - expected).abs() < 0.03,
                "{millis} ms: {} of {expected}",
                product / count
            );
        }
    }

    /// With a direct path of 10 dB the gain rarely falls: its variance is (1 + 2 K) / (1 + K)^2.
    #[test]
    fn a_direct_path_steadies_it() {
        let plan = FadingPlan { direct: Some(10.0), ..WALK };
        let gains: Vec<f64> = faders(plan, 40_000).map(|fader| fader.gain(Time(1_000_000))).collect();
        let count = gains.len() as f64;
        let mean = gains.iter().sum::<f64>() / count;
        let variance = gains.iter().map(|gain| (gain - mean) * (gain - mean)).sum::<f64>() / count;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 21.0 / 121.0).abs() < 0.01, "{variance}");
    }
}
