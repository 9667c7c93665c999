//! How long transfers are: the distribution that each draws its length from.
//!
//! `Source` draws once, when the run is built, from the stream of its flow. Means are needed before, to say how often
//! transfers of a given load arrive.

use std::sync::Arc;

use lasthop_core::random::Stream;

/// Longest transfer in bytes; longer draws are cut off there.
pub const LONGEST: u64 = 1_000_000_000_000_000;

/// The distribution of the lengths of transfers, in bytes of payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// All transfers have the same length.
    Constant(u64),
    /// Exponential with this mean.
    Exponential {
        /// Mean in bytes.
        mean: f64,
    },
    /// Pareto of the first kind: `P(X > x) = (scale / x)^shape` from `scale` on.
    Pareto {
        /// Shortest transfer in bytes.
        scale: f64,
        /// Tail index, more than 1: there is a mean.
        shape: f64,
    },
    /// The logarithm is normal.
    LogNormal {
        /// Median in bytes.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// A measured distribution: cumulative probabilities from 0 to 1 and bytes, both rising, linear in between.
    Measured(Arc<[(f64, f64)]>),
}

impl Size {
    /// The mean in bytes, of lengths that are not rounded or cut off.
    pub fn mean(&self) -> f64 {
        match self {
            Size::Constant(bytes) => *bytes as f64,
            Size::Exponential { mean } => *mean,
            Size::Pareto { scale, shape } => scale * shape / (shape - 1.0),
            Size::LogNormal { median, sigma } => median * libm::exp(0.5 * sigma * sigma),
            Size::Measured(points) => {
                points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * 0.5 * (pair[0].1 + pair[1].1)).sum()
            }
        }
    }

    /// The length of one transfer: whole bytes, at least one.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        if let Size::Constant(bytes) = self {
            return *bytes;
        }
        (self.sample(stream).round() as u64).clamp(1, LONGEST)
    }

    /// A draw that is neither rounded nor cut off.
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        match self {
            Size::Constant(bytes) => *bytes as f64,
            Size::Exponential { mean } => stream.exponential(*mean),
            Size::Pareto { scale, shape } => scale * libm::pow(1.0 - stream.uniform(), -1.0 / shape),
            Size::LogNormal { median, sigma } => median * libm::exp(sigma * stream.normal()),
            Size::Measured(points) => quantile(points, stream.uniform()),
        }
    }
}

/// The inverse of a distribution function at `share`, in `[0, 1)`.
fn quantile(points: &[(f64, f64)], share: f64) -> f64 {
    let above = points.partition_point(|&(cumulative, _)| cumulative <= share).min(points.len() - 1);
    let ((from, low), (to, high)) = (points[above.saturating_sub(1)], points[above]);
    if to > from { low + (high - low) * (share - from) / (to - from) } else { high }
}

/// Distributions that papers have published, by name.
pub const PUBLISHED: [(&str, &[(f64, f64)]); 2] =
    [("web-search", &WEB_SEARCH), ("data-mining", &DATA_MINING)];

/// Flows of a web search cluster: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, fig. 4 (background
/// traffic), as eleven points in full packets of 1460 B that later simulations use.
const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 8_760.0),
    (0.15, 8_760.0),
    (0.2, 18_980.0),
    (0.3, 27_740.0),
    (0.4, 48_180.0),
    (0.53, 77_380.0),
    (0.6, 194_180.0),
    (0.7, 973_820.0),
    (0.8, 1_946_180.0),
    (0.9, 4_866_180.0),
    (0.97, 9_733_820.0),
    (1.0, 29_200_000.0),
];

/// Flows of a cluster for data mining: Greenberg et al., "VL2", SIGCOMM 2009, fig. 2, as nine points in full packets of
/// 1460 B that Alizadeh et al., "pFabric", SIGCOMM 2013, simulate: half of the flows are one packet, and one in a
/// hundred is longer than 97 MB.
const DATA_MINING: [(f64, f64); 9] = [
    (0.0, 1_460.0),
    (0.5, 1_460.0),
    (0.6, 2_920.0),
    (0.7, 4_380.0),
    (0.8, 10_220.0),
    (0.9, 389_820.0),
    (0.95, 3_076_220.0),
    (0.99, 97_333_820.0),
    (1.0, 973_333_820.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 20_000;

    type Function = Box<dyn Fn(f64) -> f64>;

    /// Every distribution, and its distribution function in closed form.
    fn all() -> Vec<(Size, Function)> {
        let measured: Arc<[(f64, f64)]> = Arc::new([(0.0, 1e3), (0.5, 2e3), (0.9, 1e5), (1.0, 1e6)]);
        let points = Arc::clone(&measured);
        let of_measured = move |x: f64| {
            let pair = points.windows(2).find(|pair| x <= pair[1].1);
            pair.map_or(1.0, |pair| {
                pair[0].0 + (pair[1].0 - pair[0].0) * ((x - pair[0].1) / (pair[1].1 - pair[0].1)).max(0.0)
            })
        };
        vec![
            (Size::Exponential { mean: 5e4 }, Box::new(|x| 1.0 - (-x / 5e4).exp())),
            (Size::Pareto { scale: 1e4, shape: 1.5 }, Box::new(|x| 1.0 - (1e4 / x.max(1e4)).powf(1.5))),
            (
                Size::LogNormal { median: 2e4, sigma: 1.0 },
                Box::new(|x| 0.5 * (1.0 + libm::erf((x / 2e4).ln() / std::f64::consts::SQRT_2))),
            ),
            (Size::Measured(measured), Box::new(of_measured)),
        ]
    }

    /// Kolmogorov and Smirnov: below 1.63 over the root of the number of draws, as in 99 of 100 samples.
    #[test]
    fn draws_follow_their_distribution() {
        for (size, distribution) in all() {
            for seed in 1..=5 {
                let mut stream = Stream::new(seed, "sizes");
                let mut drawn: Vec<f64> = (0..DRAWS).map(|_| size.draw(&mut stream) as f64).collect();
                drawn.sort_by(f64::total_cmp);
                let distance = drawn.iter().enumerate().fold(0.0_f64, |most, (index, &x)| {
                    let (expected, rank) = (distribution(x), index as f64 / DRAWS as f64);
                    most.max((expected - rank).abs()).max((expected - rank - 1.0 / DRAWS as f64).abs())
                });
                assert!(distance < 1.63 / (DRAWS as f64).sqrt(), "{size:?}, seed {seed}: {distance}");
            }
        }
    }

    /// Means in closed form, and of many draws where the variance is finite.
    #[test]
    fn means_are_those_of_the_draws() {
        let pareto = Size::Pareto { scale: 1e4, shape: 3.0 };
        assert!((pareto.mean() - 1.5e4).abs() < 1e-9);
        let log_normal = Size::LogNormal { median: 1e4, sigma: 1.0 };
        assert!((log_normal.mean() - 16_487.212_707).abs() < 1e-3);
        let measured = Size::Measured(Arc::new([(0.0, 0.0), (0.5, 100.0), (1.0, 300.0)]));
        assert!((measured.mean() - 125.0).abs() < 1e-9);
        for size in [pareto, log_normal, measured, Size::Exponential { mean: 3e4 }] {
            let mut stream = Stream::new(9, "sizes");
            let total: f64 = (0..200_000).map(|_| size.draw(&mut stream) as f64).sum();
            let ratio = total / 200_000.0 / size.mean();
            assert!((ratio - 1.0).abs() < 0.02, "{size:?}: {ratio}");
        }
    }

    #[test]
    fn lengths_are_whole_and_bounded() {
        let mut stream = Stream::new(1, "sizes");
        assert_eq!(Size::Constant(7).draw(&mut stream), 7);
        let tiny = Size::Exponential { mean: 0.1 };
        assert!((0..100).all(|_| tiny.draw(&mut stream) == 1));
        let huge = Size::LogNormal { median: 1e15, sigma: 9.0 };
        assert!((0..100).all(|_| huge.draw(&mut stream) <= LONGEST));
    }

    #[test]
    fn published_distributions_rise_from_0_to_1() {
        for (name, points) in PUBLISHED {
            assert_eq!((points[0].0, points[points.len() - 1].0), (0.0, 1.0), "{name}");
            assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{name}");
        }
        // 1138 and 5117 packets, as published simulations of both state them.
        for (points, packets) in [(&WEB_SEARCH[..], 1138.0), (&DATA_MINING[..], 5117.0)] {
            let mean = Size::Measured(Arc::from(points)).mean() / 1460.0;
            assert!((mean / packets - 1.0).abs() < 5e-3, "{mean}");
        }
    }
}
