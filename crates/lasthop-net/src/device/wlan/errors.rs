//! From the ratio of signal to noise and interference to the loss of a frame.
//!
//! DSSS and CCK after the formulas that ns-3's tables of DSSS errors stand for: differential BPSK and QPSK under a
//! Barker code of eleven chips, and the union of symbol errors of CCK. OFDM after the union bound of the convolutional
//! code with constraint length 7 (weights of Frenger, Orten and Ottosson, *Convolutional codes with optimum distance
//! spectrum*, 1999), hard decisions. Errors of bits or symbols are independent. The medium tabulates this once.

use super::mode::{CODES, Mode};
use super::phy::{Modulation, Phy};
use crate::propagation::{decibels, ratio};

/// Probability that a standard normal variable lies above `x`.
fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// Probability that a CCK symbol of eight words is mistaken, at `energy` per noise density.
fn cck_word_error(energy: f64) -> f64 {
    // Simpson's rule over the part of the normal density that matters.
    const STEPS: usize = 400;
    let shift = (2.0 * energy).sqrt();
    let (from, to) = ((-shift).max(-8.0), 8.0);
    let step = (to - from) / STEPS as f64;
    let density = |x: f64| libm::exp(-0.5 * x * x) / (2.0 * std::f64::consts::PI).sqrt();
    let value = |x: f64| libm::pow(2.0 * (1.0 - tail(x + shift)) - 1.0, 7.0) * density(x);
    let mut sum = value(from) + value(to);
    for index in 1..STEPS {
        sum += value(from + step * index as f64) * if index % 2 == 0 { 2.0 } else { 4.0 };
    }
    (1.0 - sum * step / 3.0).clamp(0.0, 1.0)
}

/// Union bound of the bit error rate of a convolutional code; `weights` are of the paths of distance `free`, and
/// upwards in steps of `stride`.
fn coded(bit_error: f64, weights: &[f64], (free, stride): (i32, i32), inputs: f64) -> f64 {
    let step = (4.0 * bit_error * (1.0 - bit_error)).sqrt();
    let terms = weights
        .iter()
        .zip(0..)
        .map(|(weight, index)| weight * libm::pow(step, f64::from(free + stride * index)));
    (terms.sum::<f64>() / (2.0 * inputs)).min(0.5)
}

/// Natural logarithm of the probability that one data bit survives a ratio of signal to noise and interference.
pub(crate) fn log_success_per_bit(modulation: Modulation, sinr: f64) -> f64 {
    let (error, bits) = match modulation {
        Modulation::Dsss(1) => (0.5 * libm::exp(-22.0 * sinr), 1.0),
        Modulation::Dsss(_) => {
            let root = std::f64::consts::SQRT_2;
            let x = 11.0 * sinr;
            let scale = (root + 1.0) / (8.0 * std::f64::consts::PI * root).sqrt();
            ((scale / x.sqrt() * libm::exp(-(2.0 - root) * x)).min(0.5), 1.0)
        }
        Modulation::Cck(4) => (cck_word_error(8.0 * sinr), 4.0),
        Modulation::Cck(_) => {
            let right = 1.0 - cck_word_error(4.0 * sinr);
            (1.0 - right * right, 8.0)
        }
        Modulation::Ofdm { carrier, code, .. } => {
            let raw = match carrier {
                1 => 0.5 * libm::erfc(sinr.sqrt()),
                2 => 0.5 * libm::erfc((sinr / 2.0).sqrt()),
                4 => 0.375 * libm::erfc((sinr / 10.0).sqrt()),
                _ => 7.0 / 24.0 * libm::erfc((sinr / 42.0).sqrt()),
            };
            let error = match code {
                (1, 2) => coded(raw, &[36.0, 211.0, 1404.0, 11_633.0, 77_433.0, 502_690.0], (10, 2), 1.0),
                (2, 3) => coded(raw, &[3.0, 70.0, 285.0, 1276.0, 6160.0, 27_128.0], (6, 1), 2.0),
                _ => coded(raw, &[42.0, 201.0, 1492.0, 10_469.0, 62_935.0, 379_644.0], (5, 1), 3.0),
            };
            (error, 1.0)
        }
    };
    libm::log1p(-error.min(1.0 - 1e-12)) / bits
}

/// The same for a bit of a mode with this many coded bits on a carrier, by the union bound of Miller's "NIST" model:
/// `bits` of square QAM, weights of the code of constraint length 7 as in ns-3.
fn log_success_of_code(bits: u32, code: (u32, u32), sinr: f64) -> f64 {
    let raw = match bits {
        1 => 0.5 * libm::erfc(sinr.sqrt()),
        2 => 0.5 * libm::erfc((sinr / 2.0).sqrt()),
        bits => {
            let root = f64::from(1_u32 << (bits / 2));
            let share = (root - 1.0) / (root * f64::from(bits / 2));
            share * libm::erfc((3.0 * sinr / (2.0 * (root * root - 1.0))).sqrt())
        }
    };
    let (weights, free, stride, inputs): (&[f64], _, _, _) = match code {
        (1, 2) => (&HALF, 10, 2, 1.0),
        (2, 3) => (&TWO_THIRDS, 6, 1, 2.0),
        (3, 4) => (&THREE_QUARTERS, 5, 1, 3.0),
        _ => (&FIVE_SIXTHS, 4, 1, 5.0),
    };
    let step = (4.0 * raw * (1.0 - raw)).sqrt();
    let terms = weights.iter().zip(0..);
    let terms = terms.map(|(weight, index)| weight * libm::pow(step, f64::from(free + stride * index)));
    libm::log1p(-(terms.sum::<f64>() / (2.0 * inputs)).min(1.0 - 1e-12))
}

/// Weights of the paths of the convolutional code with constraint length 7 (Frenger, Orten and Ottosson; 5/6: Haccoun
/// and Begin), from the free distance up.
const HALF: [f64; 9] =
    [36.0, 211.0, 1404.0, 11_633.0, 77_433.0, 502_690.0, 3_322_763.0, 21_292_910.0, 134_365_911.0];
const TWO_THIRDS: [f64; 10] =
    [3.0, 70.0, 285.0, 1276.0, 6160.0, 27_128.0, 117_019.0, 498_860.0, 2_103_891.0, 8_784_123.0];
const THREE_QUARTERS: [f64; 10] = [
    42.0,
    201.0,
    1492.0,
    10_469.0,
    62_935.0,
    379_644.0,
    2_253_373.0,
    13_073_811.0,
    75_152_755.0,
    428_005_675.0,
];
const FIVE_SIXTHS: [f64; 10] = [
    92.0,
    528.0,
    8694.0,
    79_453.0,
    792_114.0,
    7_375_573.0,
    67_884_974.0,
    610_875_423.0,
    5_427_275_376.0,
    47_664_215_639.0,
];

/// Bits of the PLCP header of DSSS and CCK frames, at 1 Mbit/s.
const PLCP_BITS: f64 = 48.0;

/// Logarithms of survival of all rates of a PHY, in steps of a tenth of a decibel.
#[derive(Clone, Debug)]
pub(crate) struct ErrorTable {
    rates: Vec<Vec<f64>>,
    /// By MCS of 802.11n and later; none where the PHY has no such modes.
    codes: Vec<Vec<f64>>,
    /// The PLCP header, by bit; nothing for OFDM, whose SIGNAL is sent at the slowest rate and short.
    plcp: Vec<f64>,
}

const LEAST_DB: f64 = -15.0;
const STEPS_PER_DB: f64 = 10.0;
const ENTRIES: usize = 600;

impl ErrorTable {
    /// The table of a PHY.
    pub(crate) fn new(phy: &Phy) -> ErrorTable {
        let at = |index: usize| ratio(LEAST_DB + index as f64 / STEPS_PER_DB);
        let column = |modulation| {
            (0..ENTRIES).map(|index| log_success_per_bit(modulation, at(index))).collect::<Vec<f64>>()
        };
        let code = |&(bits, over, under): &(u32, u32, u32)| {
            let log = |index| log_success_of_code(bits, (over, under), at(index));
            (0..ENTRIES).map(log).collect::<Vec<f64>>()
        };
        let modern = phy.format.is_some();
        ErrorTable {
            rates: phy.rates.iter().map(|rate| column(rate.modulation)).collect(),
            codes: CODES.iter().filter(|_| modern).map(code).collect(),
            plcp: column(Modulation::Dsss(1)),
        }
    }

    /// Probability that a frame of `bytes` at this rate is lost at a signal of this many dB over noise and
    /// interference.
    pub(crate) fn loss(&self, phy: &Phy, rate: usize, bytes: u32, sinr_db: f64) -> f64 {
        let look = |column: &[f64]| look_up(column, sinr_db);
        let header = if phy.rates[rate].modulation.is_ofdm() { 0.0 } else { PLCP_BITS * look(&self.plcp) };
        let bits = 8.0 * f64::from(bytes);
        -libm::expm1(bits * look(&self.rates[rate]) + header)
    }

    /// The same of an MPDU of `bytes` in a PPDU of 802.11n or later. Noise is that of 20 MHz: a wider channel has more
    /// of it, and streams share the power.
    pub(crate) fn loss_of_mode(&self, mode: Mode, bytes: u32, sinr_db: f64) -> f64 {
        let spread = f64::from(mode.width()) / 20.0 * f64::from(mode.streams());
        let sinr = sinr_db - decibels(spread);
        -libm::expm1(8.0 * f64::from(bytes) * look_up(&self.codes[mode.code()], sinr))
    }
}

/// A column at a signal of this many dB over noise and interference, interpolated.
fn look_up(column: &[f64], sinr_db: f64) -> f64 {
    let place = ((sinr_db - LEAST_DB) * STEPS_PER_DB).clamp(0.0, (ENTRIES - 1) as f64);
    let below = place as usize;
    let above = (below + 1).min(ENTRIES - 1);
    column[below] + (column[above] - column[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-3.7: frames of 1060 B, without their PLCP header.
    #[test]
    fn frame_error_rates_of_802_11b() {
        let known = [
            (3, 6.0, 0.596),
            (3, 7.0, 0.102),
            (3, 8.0, 7.38e-3),
            (3, 9.0, 2.56e-4),
            (2, 3.0, 0.589),
            (2, 4.0, 0.100),
            (2, 5.0, 7.16e-3),
            (1, 2.0, 0.0297),
            (1, 3.0, 1.91e-3),
            (0, -4.0, 0.486),
            (0, -2.0, 3.96e-3),
        ];
        let phy = Phy::named("802.11b").unwrap();
        for (rate, sinr, expected) in known {
            let log = log_success_per_bit(phy.rates[rate].modulation, ratio(sinr));
            let loss = -libm::expm1(8.0 * 1060.0 * log);
            assert!((loss / expected - 1.0).abs() < 0.01, "{rate} at {sinr} dB: {loss}");
        }
        // The table interpolates, and adds the header.
        let table = ErrorTable::new(phy);
        assert!((table.loss(phy, 3, 1060, 7.11) - 0.08).abs() < 0.003, "{}", table.loss(phy, 3, 1060, 7.11));
        assert!(table.loss(phy, 0, 1060, 30.0) < 1e-12);
    }

    /// SNR in dB at which an MPDU of 1538 B is lost with 10 % and with 90 %, of ns-3's `NistErrorRateModel`.
    #[test]
    fn mpdus_fail_as_in_the_nist_model() {
        let known = [
            (3.968, 3.078),
            (6.978, 6.088),
            (9.872, 8.934),
            (13.514, 12.530),
            (16.619, 15.626),
            (21.364, 20.365),
            (22.629, 21.582),
            (23.794, 22.746),
            (28.498, 27.400),
            (29.709, 28.620),
            (34.347, 33.201),
            (35.601, 34.475),
        ];
        for (mcs, (tenth, most)) in known.into_iter().enumerate() {
            let (bits, over, under) = CODES[mcs];
            let loss = |db| -libm::expm1(12_304.0 * log_success_of_code(bits, (over, under), ratio(db)));
            assert!((loss(tenth) - 0.1).abs() < 0.001, "MCS {mcs}: {}", loss(tenth));
            assert!((loss(most) - 0.9).abs() < 0.001, "MCS {mcs}: {}", loss(most));
        }
    }

    /// Slower rates survive more, and each needs some decibels.
    #[test]
    fn rates_of_ofdm_are_in_order() {
        let phy = Phy::named("802.11a").unwrap();
        let table = ErrorTable::new(phy);
        let needed: Vec<f64> = (0..phy.rates.len())
            .map(|rate| {
                let found = (0..400)
                    .map(|tenth| f64::from(tenth) / 10.0)
                    .find(|&db| table.loss(phy, rate, 1000, db) < 0.1);
                found.unwrap()
            })
            .collect();
        // 9 Mbit/s needs about what 12 Mbit/s needs: its code is weaker than its modulation is robust.
        assert!(needed[0] < needed[2] && needed[2] < needed[4] && needed[4] < needed[6], "{needed:?}");
        assert!((20.0..27.0).contains(&needed[7]), "{needed:?}");
    }
}
