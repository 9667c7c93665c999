//! What the radio of a cellular cell carries: bits of a transport block by CQI and resource blocks, and the CQI that a
//! base station knows at a time.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};

/// Efficiency by CQI in 10^-4 bit per symbol (TS 36.213, table 7.2.3-1). CQI 0 is out of range.
const EFFICIENCY: [u32; 16] =
    [0, 1523, 2344, 3770, 6016, 8770, 11758, 14766, 19141, 24063, 27305, 33223, 39023, 45234, 51152, 55547];

/// What a CQI carries in 10^-4 bit per symbol.
pub(super) fn efficiency(cqi: u8) -> u32 {
    EFFICIENCY[usize::from(cqi)]
}

/// The best CQI.
pub const BEST_CQI: u8 = 15;

/// How many symbols of a resource block carry data in one TTI, on all layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Resource blocks of the cell in one direction.
    pub resource_blocks: u32,
    /// Symbols of a resource block that carry data: of 168, what reference signals and control leave.
    pub symbols: u32,
    /// Number of spatial layers, all of the same rate.
    pub layers: u32,
}

impl Grid {
    /// Bits of a transport block on this many resource blocks.
    pub fn bits(&self, resource_blocks: u32, cqi: u8) -> u64 {
        let symbols = u64::from(resource_blocks) * u64::from(self.symbols) * u64::from(self.layers);
        symbols * u64::from(efficiency(cqi)) / 10_000
    }

    /// The fewest resource blocks that carry this many bits, and at most those of the cell.
    pub fn blocks_for(&self, bits: u64, cqi: u8) -> u32 {
        let each = u64::from(self.symbols) * u64::from(self.layers) * u64::from(efficiency(cqi));
        let all = self.resource_blocks;
        (bits * 10_000).div_ceil(each.max(1)).min(all.into()) as u32
    }
}

/// The CQI of a user over time.
#[derive(Clone, Debug, PartialEq)]
pub struct CqiTrack {
    /// From when on it is which, ascending; the first from the start.
    pub rows: Arc<[(Time, u8)]>,
    /// It begins again after this time.
    pub period: Option<Span>,
}

impl CqiTrack {
    /// Always the same.
    pub fn constant(cqi: u8) -> CqiTrack {
        CqiTrack { rows: [(Time::ZERO, cqi)].into(), period: None }
    }

    /// The CQI at a time.
    pub fn at(&self, at: Time) -> u8 {
        let at = self.period.map_or(at, |period| Time(at.0 % period.0.max(1)));
        let rows = self.rows.partition_point(|row| row.0 <= at);
        self.rows[rows.max(1) - 1].1
    }

    /// The greatest CQI.
    pub fn best(&self) -> u8 {
        self.rows.iter().map(|row| row.1).max().unwrap_or(0)
    }
}

/// When the CQI is measured, and how old a report is when it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reports {
    /// From report to report.
    pub interval: Span,
    /// From a measurement to its use.
    pub delay: Span,
}

impl Reports {
    /// The CQI that the scheduler knows at `now`. Until the first report has come it knows that of the start.
    pub fn known(&self, track: &CqiTrack, now: Time) -> u8 {
        let newest = now.0.saturating_sub(self.delay.0);
        track.at(Time(newest - newest % self.interval.0))
    }

    /// When the next report comes into use.
    pub fn next(&self, now: Time) -> Time {
        let Some(newest) = now.0.checked_sub(self.delay.0) else { return Time(self.delay.0) };
        Time(newest - newest % self.interval.0 + self.interval.0 + self.delay.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LTE: Grid = Grid { resource_blocks: 50, symbols: 120, layers: 1 };

    /// 50 resource blocks at CQI 15: 50 x 120 x 5.5547 = 33,328.2 bit per ms; the others by hand as well.
    #[test]
    fn sizes_of_transport_blocks() {
        assert_eq!(LTE.bits(50, 15), 33_328);
        assert_eq!(LTE.bits(50, 7), 8_859);
        assert_eq!(LTE.bits(1, 1), 18);
        assert_eq!(LTE.bits(6, 4), 433);
        assert_eq!(Grid { layers: 2, ..LTE }.bits(50, 15), 66_656);
        assert_eq!(LTE.bits(50, 0), 0);
    }

    #[test]
    fn the_fewest_blocks_that_carry_a_packet() {
        // 1500 B are 12,000 bit; a block of CQI 15 has 666.564.
        assert_eq!(LTE.blocks_for(12_000, 15), 19);
        assert!(LTE.bits(19, 15) >= 12_000 && LTE.bits(18, 15) < 12_000);
        assert_eq!(LTE.blocks_for(12_000, 1), 50);
        assert_eq!(LTE.blocks_for(0, 15), 0);
    }

    /// Measured every 5 ms and used 6 ms later: what changes at 12 ms is seen at 15 ms and used from 21 ms on.
    #[test]
    fn reports_are_late() {
        let ms = |value| Time::ZERO + Span::from_millis(value);
        let reports = Reports { interval: Span::from_millis(5), delay: Span::from_millis(6) };
        let track = CqiTrack { rows: [(Time::ZERO, 9), (ms(12), 4)].into(), period: None };
        let known: Vec<u8> = [0, 12, 17, 20, 21, 40].map(|at| reports.known(&track, ms(at))).to_vec();
        assert_eq!(known, [9, 9, 9, 9, 4, 4]);
        assert_eq!([0, 6, 17, 21].map(|at| reports.next(ms(at))), [6, 11, 21, 26].map(ms));
    }

    #[test]
    fn a_track_begins_again() {
        let ms = |value| Time::ZERO + Span::from_millis(value);
        let track =
            CqiTrack { rows: [(Time::ZERO, 3), (ms(10), 8)].into(), period: Some(Span::from_millis(15)) };
        assert_eq!([0, 9, 10, 14, 15, 24, 25, 30].map(|at| track.at(ms(at))), [3, 3, 8, 8, 3, 3, 8, 3]);
        assert_eq!(track.best(), 8);
    }
}
