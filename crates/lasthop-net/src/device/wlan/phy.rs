//! Generations of the radio as data: rates, how long a frame takes, and what the MAC inherits from the PHY.
//!
//! The scenario picks a row of [`PHYS`] and may override what the MAC inherits; the medium asks [`Phy::airtime`] for
//! the length of every frame. A later generation is a row and its rates; a new way of coding also needs a variant of
//! [`Modulation`]. Sources: IEEE 802.11-2016, clauses 15 (DSSS), 16 (HR/DSSS), 17 (OFDM) and 18 (ERP).

use lasthop_core::time::Span;
use lasthop_core::units::Rate;

use super::mode::Format;

/// How bits become a signal, as far as length and errors depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modulation {
    /// Differential BPSK or QPSK under a Barker code: 1 or 2 bits a symbol.
    Dsss(u32),
    /// Complementary code keying: 4 or 8 bits a symbol.
    Cck(u32),
    /// Orthogonal frequency division: data bits in a symbol of 4 us, and the bits that each of 48 carriers has.
    Ofdm {
        /// Data bits of a symbol.
        bits: u32,
        /// Coded bits of a carrier: 1 BPSK, 2 QPSK, 4 and 6 QAM.
        carrier: u32,
        /// Rate of the convolutional code, as numerator and denominator.
        code: (u32, u32),
    },
}

impl Modulation {
    /// Whether older stations of the same band cannot read it.
    pub fn is_ofdm(self) -> bool {
        matches!(self, Modulation::Ofdm { .. })
    }
}

/// A rate of a PHY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhyRate {
    /// Data bits per second.
    pub rate: Rate,
    /// How they are sent.
    pub modulation: Modulation,
    /// Whether answers and broadcasts may use it, unless the scenario says otherwise.
    pub basic: bool,
}

/// A generation of the radio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phy {
    /// Its name in scenarios.
    pub name: &'static str,
    /// Slot of the backoff.
    pub slot: Span,
    /// Short interframe space.
    pub sifs: Span,
    /// Minimum contention window in slots.
    pub cw_min: u32,
    /// Greatest contention window.
    pub cw_max: u32,
    /// Silence after an OFDM frame that belongs to it (ERP: 6 us).
    pub extension: Span,
    /// Whether a short preamble exists.
    pub short_preamble: bool,
    /// Rates in ascending order of generation and speed; from 802.11n on those of control frames.
    pub rates: &'static [PhyRate],
    /// How data are sent that are aggregated, from 802.11n on (see [`Mode`](super::mode::Mode)).
    pub format: Option<Format>,
}

const fn micros(micros: u64) -> Span {
    Span::from_nanos(micros * 1000)
}

const fn dsss(rate: u64, modulation: Modulation, basic: bool) -> PhyRate {
    PhyRate { rate: Rate(rate), modulation, basic }
}

const fn ofdm(mbit: u64, bits: u32, carrier: u32, code: (u32, u32), basic: bool) -> PhyRate {
    PhyRate { rate: Rate(mbit * 1_000_000), modulation: Modulation::Ofdm { bits, carrier, code }, basic }
}

const DSSS: [PhyRate; 4] = [
    dsss(1_000_000, Modulation::Dsss(1), true),
    dsss(2_000_000, Modulation::Dsss(2), true),
    dsss(5_500_000, Modulation::Cck(4), false),
    dsss(11_000_000, Modulation::Cck(8), false),
];

const OFDM: [PhyRate; 8] = [
    ofdm(6, 24, 1, (1, 2), true),
    ofdm(9, 36, 1, (3, 4), false),
    ofdm(12, 48, 2, (1, 2), true),
    ofdm(18, 72, 2, (3, 4), false),
    ofdm(24, 96, 4, (1, 2), true),
    ofdm(36, 144, 4, (3, 4), false),
    ofdm(48, 192, 6, (2, 3), false),
    ofdm(54, 216, 6, (3, 4), false),
];

/// All generations.
pub static PHYS: [Phy; 6] = [
    Phy {
        name: "802.11b",
        slot: micros(20),
        sifs: micros(10),
        cw_min: 31,
        cw_max: 1023,
        extension: Span::ZERO,
        short_preamble: true,
        rates: &DSSS,
        format: None,
    },
    Phy {
        name: "802.11g",
        slot: micros(9),
        sifs: micros(10),
        cw_min: 15,
        cw_max: 1023,
        extension: micros(6),
        short_preamble: true,
        rates: &[
            dsss(1_000_000, Modulation::Dsss(1), false),
            dsss(2_000_000, Modulation::Dsss(2), false),
            dsss(5_500_000, Modulation::Cck(4), false),
            dsss(11_000_000, Modulation::Cck(8), false),
            OFDM[0],
            OFDM[1],
            OFDM[2],
            OFDM[3],
            OFDM[4],
            OFDM[5],
            OFDM[6],
            OFDM[7],
        ],
        format: None,
    },
    Phy {
        name: "802.11a",
        slot: micros(9),
        sifs: micros(16),
        cw_min: 15,
        cw_max: 1023,
        extension: Span::ZERO,
        short_preamble: false,
        rates: &OFDM,
        format: None,
    },
    modern(Format::Ht),
    modern(Format::Vht),
    modern(Format::He),
];

/// Those that may be used at 2.4 GHz as well, as they are there.
static AT_TWO_GHZ: [Phy; 2] = [at_two_ghz(Format::Ht), at_two_ghz(Format::He)];

/// A generation with aggregation, at 5 or 6 GHz.
const fn modern(format: Format) -> Phy {
    Phy {
        name: format.name(),
        slot: micros(9),
        sifs: micros(16),
        cw_min: 15,
        cw_max: 1023,
        extension: Span::ZERO,
        short_preamble: false,
        rates: &OFDM,
        format: Some(format),
    }
}

const fn at_two_ghz(format: Format) -> Phy {
    Phy { sifs: micros(10), extension: micros(6), ..modern(format) }
}

/// How exactly lengths are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nanosecond, as ns-2 does but for its floating-point clock.
    Exact,
    /// The part behind the PLCP header in whole microseconds, because its length field counts those.
    Micros,
}

impl Phy {
    /// The generation called `name`.
    pub fn named(name: &str) -> Option<&'static Phy> {
        PHYS.iter().find(|phy| phy.name == name)
    }

    /// The same generation at 2.4 GHz, if its modes can be used there.
    pub fn at_two_ghz(&self) -> Option<&'static Phy> {
        AT_TWO_GHZ.iter().find(|phy| phy.name == self.name)
    }

    /// The index of a rate.
    pub fn rate_index(&self, rate: Rate) -> Option<usize> {
        self.rates.iter().position(|known| known.rate == rate)
    }

    /// Time in the air of a frame of `bytes` at the rate with the index `rate`.
    pub fn airtime(&self, bytes: u32, rate: usize, short_preamble: bool, rounding: Rounding) -> Span {
        let PhyRate { rate, modulation, .. } = self.rates[rate];
        match modulation {
            Modulation::Dsss(_) | Modulation::Cck(_) => {
                // 144 bits of preamble and 48 of header at 1 Mbit/s, or 72 at 1 and 48 at 2 Mbit/s, which frames at
                // 1 Mbit/s cannot have (clause 16.2.2).
                let short = short_preamble && rate.0 > 1_000_000;
                let preamble = if short { micros(96) } else { micros(192) };
                // 64 bits are enough for any frame, and quicker than `Rate::serialisation`.
                let payload = Span((u64::from(bytes) * 8_000_000_000).div_ceil(rate.0));
                let payload = match rounding {
                    Rounding::Exact => payload,
                    Rounding::Micros => Span(payload.0.div_ceil(1000) * 1000),
                };
                preamble + payload
            }
            Modulation::Ofdm { bits, .. } => {
                // 16 us of preamble, 4 of SIGNAL; 16 service bits, 6 of tail (clause 17.4.3).
                let symbols = (16 + 8 * u64::from(bytes) + 6).div_ceil(u64::from(bits));
                micros(20 + 4 * symbols) + self.extension
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(phy: &str, bytes: u32, rate: u64, short: bool, rounding: Rounding) -> u64 {
        let phy = Phy::named(phy).unwrap();
        phy.airtime(bytes, phy.rate_index(Rate(rate)).unwrap(), short, rounding).0
    }

    /// NV-3.2: an MPDU of 1060 B at the four rates of 802.11b.
    #[test]
    fn frames_of_802_11b() {
        let exact = |rate| nanos("802.11b", 1060, rate, false, Rounding::Exact);
        assert_eq!(exact(1_000_000), 8_672_000);
        assert_eq!(exact(2_000_000), 4_432_000);
        assert_eq!(exact(5_500_000), 1_733_819);
        assert_eq!(exact(11_000_000), 962_910);
        assert_eq!(nanos("802.11b", 1060, 11_000_000, false, Rounding::Micros), 963_000);
        // 96 us less with the short preamble, which 1 Mbit/s does not have.
        assert_eq!(nanos("802.11b", 1060, 11_000_000, true, Rounding::Micros), 867_000);
        assert_eq!(nanos("802.11b", 1060, 1_000_000, true, Rounding::Micros), 8_672_000);
        // An acknowledgement of 14 B at 1 and 2 Mbit/s.
        assert_eq!(nanos("802.11b", 14, 1_000_000, false, Rounding::Micros), 304_000);
        assert_eq!(nanos("802.11b", 14, 2_000_000, false, Rounding::Micros), 248_000);
    }

    /// 1536 B are 12,310 bits with service and tail: 57 symbols of 216 bits, 228 us, behind 20 us; 6 us of extension.
    #[test]
    fn frames_of_ofdm() {
        assert_eq!(nanos("802.11g", 1536, 54_000_000, false, Rounding::Micros), 254_000);
        assert_eq!(nanos("802.11a", 1536, 54_000_000, false, Rounding::Micros), 248_000);
        // 134 bits of an acknowledgement at 24 Mbit/s: two symbols.
        assert_eq!(nanos("802.11a", 14, 24_000_000, false, Rounding::Exact), 28_000);
    }

    /// Data bits of a symbol follow from the carriers and the code, and the rate from them.
    #[test]
    fn the_table_is_consistent() {
        for rate in PHYS.iter().flat_map(|phy| phy.rates) {
            if let Modulation::Ofdm { bits, carrier, code } = rate.modulation {
                assert_eq!(bits, 48 * carrier * code.0 / code.1);
                assert_eq!(rate.rate.0, u64::from(bits) * 250_000);
            }
        }
    }
}
