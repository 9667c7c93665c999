//! Durations with their mean and percentiles, in little memory: every flow has two of these.
//!
//! Senders add RTT samples, flows add delays; the summary reads them. Samples are kept one by one while they are few
//! (decision 0006), then counted in a histogram with logarithmic bins, of which only the part in use exists.

use lasthop_core::prefetch::prefetch;
use lasthop_core::time::Span;

use crate::plan::Percentiles;

/// Samples kept one by one before a sketch takes over.
const EXACT_SAMPLES: usize = 256;
/// Bins per doubling of the value: a bin is at most 1/128 of its value wide, its middle at most 0.4 % off.
const BINS_PER_OCTAVE: usize = 128;
const OCTAVE_BITS: u32 = BINS_PER_OCTAVE.ilog2();
/// A histogram grows by so many bins; of the narrow ones that is a cache line.
const BINS_PER_STEP: usize = 32;

/// Durations with their mean and percentiles.
#[derive(Clone, Debug)]
pub struct Durations {
    count: u64,
    sum: u64,
    kept: Kept,
    /// Number of the bin that a histogram begins with.
    first_bin: u32,
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
    Narrow(Vec<u16>),
    /// The same with larger counters.
    Wide(Vec<u32>),
}

impl Durations {
    /// No samples yet.
    pub fn new(keep: Percentiles) -> Durations {
        Durations { count: 0, sum: 0, kept: Kept::Short(Vec::new()), first_bin: 0, keep }
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, span: Span) {
        self.count += 1;
        self.sum += span.0;
        if let Kept::Narrow(counts) = &mut self.kept
            && let Some(count) = counts.get_mut(bin_of(span.0).wrapping_sub(self.first_bin as usize))
            && *count < u16::MAX
        {
            *count += 1;
            return;
        }
        self.add_with_care(span.0);
    }

    /// Asks for the counter that was likely used last: with one step there are no others.
    pub(crate) fn prepare(&self) {
        if let Kept::Narrow(counts) = &self.kept
            && let Some(first) = counts.first()
        {
            prefetch(first);
        }
    }

    /// Adds a sample that is kept, or that needs another counter.
    fn add_with_care(&mut self, nanos: u64) {
        match &mut self.kept {
            Kept::Short(samples) => {
                if let Ok(nanos) = u32::try_from(nanos) {
                    samples.push(nanos);
                } else {
                    let longer = samples.iter().copied().map(u64::from).chain([nanos]).collect();
                    self.kept = Kept::Long(longer);
                }
            }
            Kept::Long(samples) => samples.push(nanos),
            Kept::Narrow(counts) => {
                let place = make_room(counts, &mut self.first_bin, bin_of(nanos));
                if let Some(more) = counts[place].checked_add(1) {
                    counts[place] = more;
                    return;
                }
                let mut wide: Vec<u32> = counts.iter().copied().map(u32::from).collect();
                wide[place] += 1;
                self.kept = Kept::Wide(wide);
                return;
            }
            Kept::Wide(counts) => {
                let place = make_room(counts, &mut self.first_bin, bin_of(nanos));
                counts[place] += 1;
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
        let mut counts = Vec::new();
        for nanos in samples {
            let place = make_room(&mut counts, &mut self.first_bin, bin_of(nanos));
            counts[place] += 1;
        }
        self.kept = Kept::Narrow(counts);
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
            Kept::Narrow(counts) => of_histogram(counts, self.first_bin, ranks),
            Kept::Wide(counts) => of_histogram(counts, self.first_bin, ranks),
        }
    }
}

/// Returns the place of the counter of `bin` in `counts`, which begin with the bin `first`; makes it if need be.
#[inline]
fn make_room<C: Copy + Default>(counts: &mut Vec<C>, first: &mut u32, bin: usize) -> usize {
    let place = bin.wrapping_sub(*first as usize);
    if place < counts.len() {
        return place;
    }
    let step = bin / BINS_PER_STEP * BINS_PER_STEP;
    if counts.is_empty() {
        *first = step as u32;
    }
    let below = (*first as usize).saturating_sub(step);
    let above = (step + BINS_PER_STEP).saturating_sub(*first as usize + counts.len());
    counts.reserve_exact(below + above);
    counts.extend(std::iter::repeat_n(C::default(), above));
    counts.splice(0..0, std::iter::repeat_n(C::default(), below));
    *first -= below as u32;
    bin - *first as usize
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

/// The middles of the bins that hold the samples of these ranks, in seconds; `first` is the first bin.
fn of_histogram<C: Copy + Into<u64>>(
    counts: &[C],
    first: u32,
    ranks: impl Iterator<Item = u64>,
) -> Vec<Option<f64>> {
    let mut seen = 0;
    let mut current = first as usize;
    let mut bins = counts.iter().zip(current..);
    let mut found = Vec::new();
    for rank in ranks {
        while seen < rank {
            let Some((&count, bin)) = bins.next() else { break };
            seen += count.into();
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
        let Kept::Wide(counts) = &sketch.kept else { panic!("{:?}", sketch.kept) };
        assert_eq!(counts.iter().copied().map(u64::from).sum::<u64>(), sketch.count());
        let found = sketch.percentiles_seconds(&[50.0, 100.0]);
        assert!(found[0].is_some_and(|seconds| (seconds / 1e-3 - 1.0).abs() < 0.004), "{found:?}");
        assert!(found[1].is_some_and(|seconds| (seconds / 60e-3 - 1.0).abs() < 0.004), "{found:?}");
    }

    /// What a flow of a large run needs.
    #[test]
    fn a_sketch_is_small() {
        assert!(size_of::<Durations>() <= 56, "{}", size_of::<Durations>());
        let around_100_ms = (0..10_000).map(|index| 90_000_000 + index * 1_300);
        let Kept::Narrow(counts) = durations(Percentiles::Sketch, around_100_ms).kept else {
            panic!("10,000 samples in 25 bins fit 16 bits")
        };
        assert!(counts.capacity() <= 2 * BINS_PER_STEP, "{}", counts.capacity());
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
            let Kept::Narrow(counts) = &sketch.kept else { panic!("too few for wide counters") };
            let counted = counts.iter().zip(sketch.first_bin as usize..);
            let counted: Vec<(usize, u64)> =
                counted.filter(|&(&count, _)| count > 0).map(|(&count, bin)| (bin, count.into())).collect();
            prop_assert_eq!(counted, model.into_iter().collect::<Vec<_>>());
        }
    }
}
