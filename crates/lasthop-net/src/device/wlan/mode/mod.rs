//! Modes of 802.11n, ac and ax: how long a PPDU of one user lasts, from its format, width, guard interval, streams, MCS
//! and coding.
//!
//! Pure arithmetic: the scenario reader makes a [`Mode`], which cannot be one that does not exist, and the MAC asks for
//! the airtime of what it sends. Non-HT frames are in `phy.rs`. Sources: IEEE 802.11-2016 clauses 19 (HT) and 21 (VHT),
//! 802.11ax-2021 clause 27 (HE). Greenfield format, MCS 32, unequal modulation and STBC are left out: no access point
//! uses them.

mod ldpc;
#[cfg(test)]
mod tests;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;

/// The longest PPDU that the L-SIG field can announce: 4095 octets at 6 Mbit/s.
pub const LONGEST_PPDU: Span = Span::from_nanos(5_484_000);

/// A generation of PPDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// OFDM before 802.11n (802.11a, and 802.11g at 2.4 GHz): one stream of 20 MHz, no aggregates.
    Legacy,
    /// High throughput, mixed format (802.11n).
    Ht,
    /// Very high throughput (802.11ac).
    Vht,
    /// High efficiency (802.11ax).
    He,
}

impl Format {
    /// The name of its amendment.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Legacy => "802.11a",
            Format::Ht => "802.11n",
            Format::Vht => "802.11ac",
            Format::He => "802.11ax",
        }
    }

    /// The highest MCS of one stream.
    pub fn highest_mcs(self) -> u8 {
        match self {
            Format::Legacy | Format::Ht => 7,
            Format::Vht => 9,
            Format::He => 11,
        }
    }

    /// The widest channel in MHz.
    pub fn widest(self) -> u16 {
        match self {
            Format::Legacy => 20,
            Format::Ht => 40,
            Format::Vht | Format::He => 160,
        }
    }

    /// Guard intervals in nanoseconds, the shortest first.
    pub fn guards(self) -> &'static [u16] {
        match self {
            Format::Legacy => &[800],
            Format::Ht | Format::Vht => &[400, 800],
            Format::He => &[800, 1600, 3200],
        }
    }

    /// The most octets that a PSDU can have.
    pub fn largest_psdu(self) -> u32 {
        match self {
            Format::Legacy => 4_095,
            Format::Ht => 65_535,
            Format::Vht => 1_048_575,
            Format::He => 6_500_631,
        }
    }
}

/// A frequency band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// 2.4 GHz.
    Two,
    /// 5 GHz.
    Five,
    /// 6 GHz.
    Six,
}

impl Band {
    /// The band that a frequency in MHz lies in.
    pub fn of(megahertz: f64) -> Band {
        match megahertz {
            f if f < 4_000.0 => Band::Two,
            f if f < 5_930.0 => Band::Five,
            _ => Band::Six,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Band::Two => "2.4 GHz",
            Band::Five => "5 GHz",
            Band::Six => "6 GHz",
        }
    }

    /// Short interframe space.
    pub fn sifs(self) -> Span {
        if self == Band::Two { micros(10) } else { micros(16) }
    }

    /// Silence that belongs to every OFDM frame.
    pub fn extension(self) -> Span {
        if self == Band::Two { micros(6) } else { Span::ZERO }
    }
}

/// Forward error correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Binary convolutional code.
    Bcc,
    /// Low-density parity check code.
    Ldpc,
}

/// Whose arithmetic of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durations {
    /// The standard's.
    Standard,
    /// That of ns-3.44, for comparisons: no VHT-SIG-B, symbols of 3.6 us that are not rounded to 4 us, HE-LTFs of 8 us
    /// whatever the guard interval, convolutional code everywhere, no rounding of data bits per symbol.
    Ns3,
}

/// What a station chooses once and then uses in all its PPDUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Habits {
    /// Whose arithmetic of durations.
    pub durations: Durations,
    /// The code, if it is not the usual one: convolutional, but LDPC for HE from 40 MHz and from MCS 10 on.
    pub coding: Option<Coding>,
    /// Symbols of the HE-LTF in units of 3.2 us (1, 2 or 4), if they are not the usual ones: 2 for guard intervals of
    /// 0.8 and 1.6 us, 4 for 3.2 us.
    pub he_ltf: Option<u8>,
    /// Nominal packet padding that the receivers ask for: 0, 8 or 16 us, HE only.
    pub padding: u8,
    /// The band.
    pub band: Band,
}

impl Habits {
    /// The usual ones of a band.
    pub fn usual(band: Band) -> Habits {
        Habits { durations: Durations::Standard, coding: None, he_ltf: None, padding: 0, band }
    }
}

/// Coded bits of a subcarrier, and the code rate as numerator and denominator, by MCS of one stream; the last is that
/// of 9 Mbit/s, which no MCS has.
pub(super) const CODES: [(u32, u32, u32); 13] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
    (10, 3, 4),
    (10, 5, 6),
    (1, 3, 4),
];

/// The rates of [`Format::Legacy`] in Mbit/s, and the index of the code of each.
const LEGACY: [(u64, usize); 8] = [(6, 0), (9, 12), (12, 1), (18, 2), (24, 3), (36, 4), (48, 5), (54, 6)];

/// A way to send a PSDU that the standard has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mode {
    format: Format,
    /// MHz.
    width: u16,
    /// Nanoseconds.
    guard: u16,
    streams: u8,
    /// Of one stream; before 802.11n the index of the rate.
    mcs: u8,
}

impl Mode {
    /// The mode with these parameters: width in MHz, guard interval in ns, MCS of one stream. An error says why there
    /// is
    /// none, as the end of a sentence about it.
    pub fn new(format: Format, (width, guard): (u16, u16), (streams, mcs): (u8, u8)) -> Result<Mode, String> {
        let name = format.name();
        if !matches!(width, 20 | 40 | 80 | 160) || width > format.widest() {
            return Err(format!("{name} has no channels of {width} MHz"));
        }
        if !format.guards().contains(&guard) {
            return Err(format!("{name} has no guard interval of {} us", f64::from(guard) / 1000.0));
        }
        if format == Format::Legacy && streams > 1 {
            return Err(format!("{name} has one stream"));
        }
        if !(1..=4).contains(&streams) {
            return Err(format!("{streams} streams; 1 to 4 are modelled"));
        }
        if mcs > format.highest_mcs() {
            return Err(format!("{name} has no MCS {mcs} (0 to {})", format.highest_mcs()));
        }
        // Tables 21-30 to 21-61: the coded bits of a symbol do not divide among the encoders.
        let missing = format == Format::Vht
            && matches!((width, mcs, streams), (20, 9, 1 | 2 | 4) | (80, 6, 3) | (160, 9, 3));
        if missing {
            let plural = if streams == 1 { "" } else { "s" };
            return Err(format!("802.11ac has no MCS {mcs} at {width} MHz with {streams} stream{plural}"));
        }
        Ok(Mode { format, width, guard, streams, mcs })
    }

    /// Its format.
    pub fn format(self) -> Format {
        self.format
    }

    /// Width in MHz.
    pub fn width(self) -> u16 {
        self.width
    }

    /// Guard interval in nanoseconds.
    pub fn guard(self) -> u16 {
        self.guard
    }

    /// Spatial streams.
    pub fn streams(self) -> u8 {
        self.streams
    }

    /// MCS of one stream; before 802.11n the index of the rate.
    pub fn mcs(self) -> u8 {
        self.mcs
    }

    /// The index of its code among [`CODES`].
    pub(super) fn code(self) -> usize {
        let index = usize::from(self.mcs);
        if self.format == Format::Legacy { LEGACY[index].1 } else { index }
    }

    /// Coded bits of a subcarrier, and the code rate.
    pub fn constellation(self) -> (u32, (u32, u32)) {
        let (bits, over, under) = CODES[self.code()];
        (bits, (over, under))
    }

    /// Data subcarriers.
    fn carriers(self) -> u32 {
        match (self.format, self.width) {
            (Format::Legacy, _) => 48,
            (Format::He, 20) => 234,
            (Format::He, 40) => 468,
            (Format::He, 80) => 980,
            (Format::He, _) => 1960,
            (_, 20) => 52,
            (_, 40) => 108,
            (_, 80) => 234,
            _ => 468,
        }
    }

    /// Subcarriers that a quarter of the last HE symbol counts for (27.3.12.5.1).
    fn short_carriers(self) -> u32 {
        match self.width {
            20 => 60,
            40 => 120,
            80 => 240,
            _ => 492,
        }
    }

    fn coded_bits(self, carriers: u32) -> u32 {
        carriers * CODES[self.code()].0 * u32::from(self.streams)
    }

    fn data_bits(self, carriers: u32) -> u32 {
        let (_, over, under) = CODES[self.code()];
        self.coded_bits(carriers) * over / under
    }

    /// Data bits of a symbol (`N_DBPS`).
    pub fn bits_per_symbol(self) -> u32 {
        self.data_bits(self.carriers())
    }

    /// A symbol with its guard interval.
    pub fn symbol(self) -> Span {
        let useful = if self.format == Format::He { 12_800 } else { 3_200 };
        Span::from_nanos(useful + u64::from(self.guard))
    }

    /// Data rate, rounded down to a bit per second.
    pub fn rate(self) -> Rate {
        Rate(u64::from(self.bits_per_symbol()) * 1_000_000_000 / self.symbol().0)
    }

    /// The rate in Mbit/s of the non-HT frame that answers follow (10.6.6.5.2): by MCS, whatever the streams.
    pub fn reference(self) -> u64 {
        if self.format == Format::Legacy {
            return LEGACY[usize::from(self.mcs)].0;
        }
        [6, 12, 18, 24, 36, 48, 54][usize::from(self.mcs.min(6))]
    }

    /// Encoders of the convolutional code, each with a tail of its own (`N_ES`).
    fn encoders(self) -> u32 {
        let bits = self.bits_per_symbol();
        match self.format {
            Format::Ht => 1 + u32::from(bits > 1200),
            Format::Vht if (self.width, self.streams, self.mcs) == (160, 4, 7) => 6,
            Format::Vht => bits.div_ceil(2160),
            Format::Legacy | Format::He => 1,
        }
    }

    /// The code that it uses by these habits.
    pub fn coding(self, habits: &Habits) -> Coding {
        match (habits.durations, habits.coding) {
            (Durations::Ns3, _) => Coding::Bcc,
            _ if self.format == Format::Legacy => Coding::Bcc,
            (_, Some(coding)) => coding,
            _ if self.format == Format::He && (self.width > 20 || self.mcs > 9) => Coding::Ldpc,
            _ => Coding::Bcc,
        }
    }

    /// What precedes the data: the legacy preamble of 20 us, then the format's own fields.
    pub fn preamble(self, habits: &Habits) -> Span {
        let long = [1, 2, 4, 4][usize::from(self.streams) - 1];
        let ns3 = habits.durations == Durations::Ns3;
        match self.format {
            Format::Legacy => micros(20),
            Format::Ht => micros(32 + 4 * long),
            // ns-3 leaves out VHT-SIG-B in PPDUs of one user.
            Format::Vht => micros(if ns3 { 32 } else { 36 } + 4 * long),
            Format::He => {
                let usual = if self.guard == 3200 { 4 } else { 2 };
                let ltf = u64::from(habits.he_ltf.unwrap_or(usual)) * 3_200 + u64::from(self.guard);
                micros(36) + Span::from_nanos(if ns3 { 8_000 } else { ltf } * long)
            }
        }
    }

    /// Symbols of a PSDU, and the quarters of the last one that HE data fill.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "habits are passed on alike everywhere")]
    fn symbols(self, octets: u32, habits: &Habits) -> (u64, u32) {
        let ldpc = self.coding(habits) == Coding::Ldpc;
        let per_symbol = u64::from(self.bits_per_symbol());
        let tail = if ldpc { 0 } else { 6 * u64::from(self.encoders()) };
        let bits = 16 + 8 * u64::from(octets) + tail;
        if habits.durations == Durations::Ns3 && self.format == Format::He {
            // It does not round data bits per symbol down: the code's numerator stays on the other side.
            let (_, over, under) = CODES[self.code()];
            let coded = u64::from(self.coded_bits(self.carriers()) * over);
            return ((bits * u64::from(under)).div_ceil(coded), 4);
        }
        let count = bits.div_ceil(per_symbol);
        let code = self.constellation().1;
        if self.format != Format::He {
            let available = count * u64::from(self.coded_bits(self.carriers()));
            let payload = if self.format == Format::Vht { count * per_symbol } else { bits };
            return (count + u64::from(ldpc && ldpc::wants_more(payload, available, code)), 4);
        }
        let short = self.short_carriers();
        let quarter = self.data_bits(short);
        let quarters = match bits % per_symbol {
            0 => 4,
            excess => excess.div_ceil(u64::from(quarter)).min(4) as u32,
        };
        let last = |whole: u32, part: u32| u64::from(if quarters == 4 { whole } else { quarters * part });
        let payload = (count - 1) * per_symbol + last(self.bits_per_symbol(), quarter);
        let coded = self.coded_bits(self.carriers());
        let available = (count - 1) * u64::from(coded) + last(coded, self.coded_bits(short));
        if !ldpc || !ldpc::wants_more(payload, available, code) {
            return (count, quarters);
        }
        if quarters == 4 { (count + 1, 1) } else { (count, quarters + 1) }
    }

    /// Time in the air of a PPDU that carries this many octets, with the band's signal extension.
    pub fn airtime(self, octets: u32, habits: &Habits) -> Span {
        let (symbols, quarters) = self.symbols(octets, habits);
        let data = self.symbol() * symbols;
        // TXTIME of mixed format and VHT is a multiple of 4 us.
        let data = match (self.guard, habits.durations) {
            (400, Durations::Standard) => Span(data.0.div_ceil(4_000) * 4_000),
            _ => data,
        };
        let padded = self.format == Format::He && habits.durations == Durations::Standard;
        let extension = match habits.padding {
            8 if padded => [0, 0, 4, 8][quarters as usize - 1],
            16 if padded => [4, 8, 12, 16][quarters as usize - 1],
            _ => 0,
        };
        self.preamble(habits) + data + micros(extension) + habits.band.extension()
    }

    /// The most octets whose PPDU lasts no longer than `budget`; 0 if not even one fits.
    pub fn octets_within(self, budget: Span, habits: &Habits) -> u32 {
        let largest = self.format.largest_psdu();
        if self.airtime(largest, habits) <= budget {
            return largest;
        }
        // A symbol is hundreds of octets, so start near the answer; airtime never falls with length.
        let fixed = (self.preamble(habits) + habits.band.extension()).0;
        let symbols = budget.0.saturating_sub(fixed) / self.symbol().0;
        let guess = symbols * u64::from(self.bits_per_symbol()) / 8;
        let mut above = (guess.min(u64::from(largest)) as u32).saturating_add(8);
        let mut below = above.saturating_sub(16 + self.bits_per_symbol() / 2);
        while below > 0 && self.airtime(below, habits) > budget {
            below = below.saturating_sub(16 + self.bits_per_symbol() / 4);
        }
        while self.airtime(above, habits) <= budget {
            above += 16 + self.bits_per_symbol() / 4;
        }
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if self.airtime(middle, habits) <= budget { below = middle } else { above = middle }
        }
        below
    }

    /// How long a station that reads only the legacy preamble takes the medium for busy (L-SIG): whole symbols of 4 us.
    pub fn announced(airtime: Span, band: Band) -> Span {
        let behind = airtime.0.saturating_sub(band.extension().0 + 20_000);
        Span(20_000 + behind.div_ceil(4_000) * 4_000) + band.extension()
    }
}

const fn micros(micros: u64) -> Span {
    Span::from_nanos(micros * 1000)
}
