//! Durations with their mean and percentiles, in little memory: every flow has two of these.
//!
//! Senders add RTT samples, flows add delays; the summary reads them. Samples are kept one by one while they are few
//! (decision 0006), then counted in a histogram with logarithmic bins, of which only the parts in use exist.

use lasthop_core::prefetch::prefetch;
use lasthop_core::room::make_room;
use lasthop_core::time::Span;

use crate::plan::Percentiles;

/// Samples kept one by one before a sketch takes over.
const EXACT_SAMPLES: usize = 256;
/// Bins per doubling of the value: a bin is at most 1/128 of its value wide, its middle at most 0.4 % off.
const BINS_PER_OCTAVE: usize = 128;
const OCTAVE_BITS: u32 = BINS_PER_OCTAVE.ilog2();
/// Bins that lie side by side; of the narrow ones that is a cache line.
const BINS_PER_PAGE: usize = 32;

/// Durations with their mean and percentiles.
#[derive(Clone, Debug)]
pub struct Durations {
    count: u64,
    sum: u64,
    kept: Kept,
    /// Place of the page of a histogram that was used last.
    recent: u32,
    keep: Percentiles,
}

/// What is kept of the samples.
#[derive(Clone, Debug)]
enum Kept {
    /// Each, in nanoseconds: all below 4.3 s.
    Short(Vec<u32>),
    /// Each, in nanoseconds.
    Long(Vec<u64>),
    /// How many fell into each bin; no counter has overflowed.
    Narrow(Vec<Page<u16>>),
    /// The same with larger counters.
    Wide(Vec<Page<u32>>),
}

/// Counters of neighbouring bins. A histogram has the pages that are in use, ascending: what a timeout delayed lies far
/// from all other samples.
#[derive(Clone, Copy, Debug)]
struct Page<C> {
    /// The first bin is this times [`BINS_PER_PAGE`].
    number: u16,
    counts: [C; BINS_PER_PAGE],
}

impl Durations {
    /// No samples yet.
    pub fn new(keep: Percentiles) -> Durations {
        Durations { count: 0, sum: 0, kept: Kept::Short(Vec::new()), recent: 0, keep }
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, span: Span) {
        self.count += 1;
        self.sum += span.0;
        if let Kept::Narrow(pages) = &mut self.kept
            && let bin = bin_of(span.0)
            && let Some(page) = pages.get_mut(self.recent as usize)
            && usize::from(page.number) == bin / BINS_PER_PAGE
            && page.counts[bin % BINS_PER_PAGE] < u16::MAX
        {
            page.counts[bin % BINS_PER_PAGE] += 1;
            return;
        }
        self.add_with_care(span.0);
    }

    /// Gives back what it has beyond its samples: no more come, or few.
    pub(crate) fn trim(&mut self) {
        match &mut self.kept {
            Kept::Short(samples) => samples.shrink_to_fit(),
            Kept::Long(samples) => samples.shrink_to_fit(),
            Kept::Narrow(pages) => pages.shrink_to_fit(),
            Kept::Wide(pages) => pages.shrink_to_fit(),
        }
    }

    /// Asks for the counters that were used last.
    pub(crate) fn prepare(&self) {
        if let Kept::Narrow(pages) = &self.kept
            && let Some(page) = pages.get(self.recent as usize)
        {
            prefetch(page);
        }
    }

    /// Adds a sample that is kept, or that needs another counter.
    fn add_with_care(&mut self, nanos: u64) {
        match &mut self.kept {
            Kept::Short(samples) => {
                if let Ok(nanos) = u32::try_from(nanos) {
                    // In steps that end at the number at which a sketch takes over.
                    make_room(samples, samples.len().clamp(16, EXACT_SAMPLES / 4));
                    samples.push(nanos);
                } else {
                    let longer = samples.iter().copied().map(u64::from).chain([nanos]).collect();
                    self.kept = Kept::Long(longer);
                }
            }
            Kept::Long(samples) => samples.push(nanos),
            Kept::Narrow(pages) => {
                let count = counter_of(pages, &mut self.recent, bin_of(nanos));
                if let Some(more) = count.checked_add(1) {
                    *count = more;
                    return;
                }
                let widen =
                    |page: &Page<u16>| Page { number: page.number, counts: page.counts.map(u32::from) };
                let mut wide = pages.iter().map(widen).collect();
                *counter_of(&mut wide, &mut self.recent, bin_of(nanos)) += 1;
                self.kept = Kept::Wide(wide);
                return;
            }
            Kept::Wide(pages) => {
                *counter_of(pages, &mut self.recent, bin_of(nanos)) += 1;
                return;
            }
        }
        if self.keep == Percentiles::Sketch && self.count >= EXACT_SAMPLES as u64 {
            self.begin_sketch();
        }
    }

    /// Goes on with a histogram of the samples so far.
    #[cold]
    fn begin_sketch(&mut self) {
        match std::mem::replace(&mut self.kept, Kept::Narrow(Vec::new())) {
            Kept::Short(samples) => self.count_all(samples.into_iter().map(u64::from)),
            Kept::Long(samples) => self.count_all(samples.into_iter()),
            histogram => self.kept = histogram,
        }
    }

    /// The histogram of so few samples that no counter overflows.
    fn count_all(&mut self, samples: impl Iterator<Item = u64>) {
        const { assert!(EXACT_SAMPLES < u16::MAX as usize) };
        let mut pages = Vec::new();
        for nanos in samples {
            *counter_of(&mut pages, &mut self.recent, bin_of(nanos)) += 1;
        }
        self.kept = Kept::Narrow(pages);
    }

    /// Where what is kept lies.
    pub(crate) fn address(&self) -> Option<usize> {
        let address = match &self.kept {
            Kept::Short(samples) => samples.as_ptr().addr(),
            Kept::Long(samples) => samples.as_ptr().addr(),
            Kept::Narrow(pages) => pages.as_ptr().addr(),
            Kept::Wide(pages) => pages.as_ptr().addr(),
        };
        (self.count > 0).then_some(address)
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the samples in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Mean in seconds, if there is a sample.
    pub fn mean_seconds(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e9)
    }

    /// Percentiles in seconds by nearest rank, `percents` in 0..=100 and ascending; `None` without samples. From a
    /// sketch: the middle of the bin.
    pub fn percentiles_seconds(&self, percents: &[f64]) -> Vec<Option<f64>> {
        if self.count == 0 {
            return vec![None; percents.len()];
        }
        let ranks =
            percents.iter().map(|percent| ((percent / 100.0 * self.count as f64).ceil() as u64).max(1));
        match &self.kept {
            Kept::Short(samples) => of_samples(samples, ranks),
            Kept::Long(samples) => of_samples(samples, ranks),
            Kept::Narrow(pages) => of_histogram(bins_of(pages), ranks),
            Kept::Wide(pages) => of_histogram(bins_of(pages), ranks),
        }
    }
}

/// The counter of `bin`, which is made if need be; `recent` is the place of the page used last, and will be again.
#[inline]
fn counter_of<'a, C: Copy + Default>(pages: &'a mut Vec<Page<C>>, recent: &mut u32, bin: usize) -> &'a mut C {
    let number = (bin / BINS_PER_PAGE) as u16;
    if pages.get(*recent as usize).is_none_or(|page| page.number != number) {
        let place = pages.partition_point(|page| page.number < number);
        if pages.get(place).is_none_or(|page| page.number != number) {
            // No more room than that: there are many histograms, and few that grow.
            pages.reserve_exact(1);
            pages.insert(place, Page { number, counts: [C::default(); BINS_PER_PAGE] });
        }
        *recent = place as u32;
    }
    &mut pages[*recent as usize].counts[bin % BINS_PER_PAGE]
}

/// The bins of a histogram and how many samples fell into each, ascending.
fn bins_of<C: Copy + Into<u64>>(pages: &[Page<C>]) -> impl Iterator<Item = (usize, u64)> {
    pages.iter().flat_map(|page| {
        let first = usize::from(page.number) * BINS_PER_PAGE;
        (first..).zip(page.counts).map(|(bin, count)| (bin, count.into()))
    })
}

/// The samples of these ranks, in seconds.
fn of_samples<T: Copy + Ord + Into<u64>>(
    samples: &[T],
    ranks: impl Iterator<Item = u64>,
) -> Vec<Option<f64>> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    ranks.map(|rank| Some(sorted[rank as usize - 1].into() as f64 / 1e9)).collect()
}

/// The middles of the bins that hold the samples of these ranks, in seconds.
fn of_histogram(
    mut bins: impl Iterator<Item = (usize, u64)>,
    ranks: impl Iterator<Item = u64>,
) -> Vec<Option<f64>> {
    let (mut seen, mut current) = (0, 0);
    let mut found = Vec::new();
    for rank in ranks {
        while seen < rank {
            let Some((bin, count)) = bins.next() else { break };
            seen += count;
            current = bin;
        }
        found.push(Some(middle_of(current) / 1e9));
    }
    found
}

/// Number of the bin that holds `nanos`.
#[inline]
fn bin_of(nanos: u64) -> usize {
    let octave = (nanos | BINS_PER_OCTAVE as u64).ilog2() - OCTAVE_BITS;
    ((octave as usize) << OCTAVE_BITS) + (nanos >> octave) as usize
}

/// Middle of a bin in nanoseconds.
fn middle_of(bin: usize) -> f64 {
    if bin < 2 * BINS_PER_OCTAVE {
        return bin as f64;
    }
    let octave = bin / BINS_PER_OCTAVE - 1;
    let low = ((bin - octave * BINS_PER_OCTAVE) as u64) << octave;
    low as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn durations(keep: Percentiles, nanos: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::new(keep);
        nanos.into_iter().for_each(|value| durations.add(Span(value)));
        durations
    }

    fn millis(values: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
        values.into_iter().map(|value| Span::from_millis(value).0)
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let four = durations(Percentiles::Sketch, millis([40, 10, 30, 20]));
        assert_eq!(four.percentiles_seconds(&[50.0, 75.0, 99.0]), [Some(0.02), Some(0.03), Some(0.04)]);
        assert_eq!(four.mean_seconds(), Some(0.025));
        assert_eq!(durations(Percentiles::Exact, []).percentiles_seconds(&[50.0]), [None]);
    }

    #[test]
    fn the_sketch_stays_within_its_error() {
        let values = || millis((1..=100_000u64).map(|index| index * 7919 % 100_003));
        let exact = durations(Percentiles::Exact, values()).percentiles_seconds(&[1.0, 50.0, 95.0, 99.0]);
        let sketch = durations(Percentiles::Sketch, values()).percentiles_seconds(&[1.0, 50.0, 95.0, 99.0]);
        for (exact, sketch) in exact.into_iter().zip(sketch) {
            let (exact, sketch) = (exact.unwrap_or_default(), sketch.unwrap_or_default());
            assert!((sketch / exact - 1.0).abs() < 0.004, "{sketch} against {exact}");
        }
    }

    #[test]
    fn few_samples_are_exact_however_long() {
        let values = (1..EXACT_SAMPLES as u64).map(|index| index * index * 1_000_003);
        let sketch = durations(Percentiles::Sketch, values.clone());
        let exact = values.clone().nth(126).map(|nanos| nanos as f64 / 1e9);
        assert!(values.max() > Some(u64::from(u32::MAX)), "some need more than 32 bits");
        assert_eq!(sketch.percentiles_seconds(&[49.7]), [exact]);
    }

    #[test]
    fn a_full_counter_loses_nothing() {
        let often = 3 * u64::from(u16::MAX);
        let values = std::iter::repeat_n(1_000_000, often as usize).chain(millis([50, 60]));
        let sketch = durations(Percentiles::Sketch, values);
        let Kept::Wide(pages) = &sketch.kept else { panic!("{:?}", sketch.kept) };
        assert_eq!(bins_of(pages).map(|(_, count)| count).sum::<u64>(), sketch.count());
        let found = sketch.percentiles_seconds(&[50.0, 100.0]);
        assert!(found[0].is_some_and(|seconds| (seconds / 1e-3 - 1.0).abs() < 0.004), "{found:?}");
        assert!(found[1].is_some_and(|seconds| (seconds / 60e-3 - 1.0).abs() < 0.004), "{found:?}");
    }

    /// What a flow of a large run needs.
    #[test]
    fn a_sketch_is_small() {
        assert!(size_of::<Durations>() <= 56, "{}", size_of::<Durations>());
        // And one that a timeout delayed.
        let around_100_ms = (0..10_000).map(|index| 90_000_000 + index * 1_300).chain([2_000_000_000]);
        let Kept::Narrow(pages) = durations(Percentiles::Sketch, around_100_ms).kept else {
            panic!("10,000 samples in 25 bins fit 16 bits")
        };
        assert!(pages.capacity() <= 3, "{}", pages.capacity());
    }

    #[test]
    fn every_value_falls_into_the_bin_around_it() {
        for nanos in
            (0..64).map(|shift| 1u64 << shift).flat_map(|power| [power - 1, power, power + power / 3])
        {
            let middle = middle_of(bin_of(nanos));
            assert!(
                (middle - nanos as f64).abs() <= nanos as f64 / 255.0,
                "{nanos} in the bin around {middle}"
            );
        }
    }

    proptest! {
        /// Against a map of bins: whatever comes in whatever order is counted in its own bin.
        #[test]
        fn the_histogram_counts_every_sample(
            samples in prop::collection::vec((0u32..50).prop_flat_map(|bits| 0u64..=1 << bits), 256..600),
        ) {
            let mut model = std::collections::BTreeMap::new();
            for &nanos in &samples {
                *model.entry(bin_of(nanos)).or_insert(0u64) += 1;
            }
            let sketch = durations(Percentiles::Sketch, samples);
            let Kept::Narrow(pages) = &sketch.kept else { panic!("too few for wide counters") };
            let counted: Vec<(usize, u64)> = bins_of(pages).filter(|&(_, count)| count > 0).collect();
            prop_assert_eq!(counted, model.into_iter().collect::<Vec<_>>());
        }
    }
}
