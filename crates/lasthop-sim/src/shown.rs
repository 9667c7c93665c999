//! Figures as people read them: multiples of the SI, digits, means with their intervals, and verdicts in words. The
//! command calls it through `lasthop-py` and the page through `lasthop-web`, so that both say the same.

use serde::Deserialize;

use crate::columns::STEPS;

/// Decimals beyond which no interval is told more exactly.
const DECIMALS_MAX: usize = 4;

/// From this end of an interval on, as a fraction of the baseline, both are told as multiples of it: a thousand per
/// cent says nothing to anybody.
const IN_TIMES: f64 = 10.0;

/// A mean with the ends of its interval, if it has one, over `n` seeds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of seeds.
    pub n: usize,
}

impl Estimate {
    fn scaled(self, factor: f64) -> Estimate {
        let end = |of: Option<f64>| of.map(|value| value * factor);
        Estimate { mean: self.mean * factor, low: end(self.low), high: end(self.high), n: self.n }
    }

    fn excludes_zero(&self) -> bool {
        self.low.is_some_and(|low| low > 0.0) || self.high.is_some_and(|high| high < 0.0)
    }

    /// Whether there is no difference in any of several seeds: more of them would show none.
    fn is_tie(&self) -> bool {
        self.n > 1 && self.mean == 0.0 && self.low == self.high
    }

    /// Both ends; the mean itself where there is no interval.
    fn ends(&self) -> (f64, f64) {
        (self.low.unwrap_or(self.mean), self.high.unwrap_or(self.mean))
    }
}

/// The factor and the multiple of the unit in which a quantity of this size reads well.
pub fn multiple(size: f64, unit: &str) -> (f64, &str) {
    if unit == "share" {
        return (0.01, "%");
    }
    let steps = STEPS.iter().find(|(of, _)| *of == unit).map_or(&[][..], |(_, steps)| *steps);
    steps.iter().copied().find(|(factor, _)| size >= *factor).unwrap_or((1.0, unit))
}

/// A number with three significant digits, whole from a hundred on, and commas at thousands.
pub fn number(value: f64) -> String {
    grouped(value, significant(value))
}

/// A mean and half the width of its interval, both divided by `factor`, with the same decimals.
pub fn mean(of: &Estimate, factor: f64) -> (String, Option<String>) {
    let value = of.mean / factor;
    // A count of a single run is exact; only its mean over seeds has decimals.
    let is_count = of.n == 1 && factor == 1.0 && value.fract() == 0.0;
    let mut decimals = if is_count { 0 } else { significant(value) };
    let Some(high) = of.high else { return (grouped(value, decimals), None) };
    let half = (high - of.mean) / factor;
    // An interval that is not zero is not shown as zero, within reason.
    let finest = decimals + 2;
    while half != 0.0 && decimals < finest && is_zero(half, decimals) {
        decimals += 1;
    }
    (grouped(value, decimals), Some(grouped(half, decimals)))
}

/// Decimals that leave three significant digits.
fn significant(value: f64) -> usize {
    let size = value.abs();
    match size {
        _ if size >= 100.0 || value == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 0.1 => 2,
        _ => 3,
    }
}

fn is_zero(value: f64, decimals: usize) -> bool {
    format!("{value:.decimals$}").bytes().all(|byte| !(b'1'..=b'9').contains(&byte))
}

fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// What a metric is called, and how a difference in it is said: `{}` stands for the amount.
#[derive(Clone, Debug, Deserialize)]
pub struct Words {
    /// In tables.
    pub label: String,
    /// Unit of the SI, or `share`.
    pub unit: String,
    /// Whether it is a share.
    pub share: bool,
    /// For what has more of it.
    pub more: String,
    /// For what has less of it.
    pub less: String,
    /// For what has several times as much; empty if that is said like the others.
    pub times: String,
}

/// How one sender differs from another in a metric, seed by seed.
#[derive(Clone, Debug, Deserialize)]
pub struct Difference {
    /// The metric.
    pub words: Words,
    /// What differs.
    pub sender: String,
    /// From what.
    pub baseline: String,
    /// The difference; none if there are no values.
    pub estimate: Option<Estimate>,
    /// As a fraction of the mean of the baseline; none if that is not shown to differ from zero.
    pub relative: Option<Estimate>,
    /// All seeds of both gave the same run: the difference is exact.
    pub same: bool,
}

/// What is said of a difference that is exact.
const SAME: &str = "all seeds gave the same run";

impl Difference {
    /// The difference in plain words.
    pub fn verdict(&self) -> String {
        let Difference { words, sender, baseline, same, .. } = self;
        let about = format!("between {sender} and {baseline} in {}", words.label);
        let Some(estimate) = self.estimate else { return format!("no values to compare {about}") };
        if estimate.n == 1 && !same {
            return format!("one seed cannot show a difference {about}: use more seeds");
        }
        let (amount, interval) = self.texts(estimate);
        let sure = if *same { format!(": {SAME}") } else { format!(" ({interval})") };
        if estimate.is_tie() {
            return format!("an exact tie {about}{}", if *same { &*sure } else { "" });
        }
        let is_shown = if *same { estimate.mean != 0.0 } else { estimate.excludes_zero() };
        if !is_shown {
            return format!("no difference shown {about}{sure}");
        }
        if let Some(relative) = self.relative.filter(|one| !words.times.is_empty() && one.mean >= 1.0) {
            return self.in_times(&relative, &sure);
        }
        let said = if estimate.mean > 0.0 { &words.more } else { &words.less };
        format!("{sender} {} than {baseline}{sure}", said.replace("{}", &amount))
    }

    /// The interval alone, relative if possible; the difference itself if all seeds gave the same run.
    pub fn interval(&self) -> String {
        match self.estimate {
            Some(estimate) if estimate.low.is_some() || self.same => self.texts(estimate).1,
            _ => "-".to_owned(),
        }
    }

    /// Several times what the baseline has: per cent above a hundred are hard to read.
    fn in_times(&self, relative: &Estimate, sure: &str) -> String {
        let mean = relative.mean + 1.0;
        let (low, high) =
            (relative.low.map_or(mean, |end| end + 1.0), relative.high.map_or(mean, |end| end + 1.0));
        let decimals = decimals_between(low, high);
        let ends = format!(" ({low:.decimals$}..{} times)", grouped(high, decimals));
        let sure = if self.same { sure } else { &ends };
        let said = self.words.times.replace("{}", &grouped(mean, decimals));
        format!("{} {said} as {}{sure}", self.sender, self.baseline)
    }

    /// The amount and the interval; per cent of the baseline if that is not zero.
    fn texts(&self, estimate: Estimate) -> (String, String) {
        let Words { unit, share, .. } = &self.words;
        let is_tie = estimate.is_tie();
        let (shown, unit) = if is_tie {
            (estimate.scaled(0.0), if *share { "" } else { unit })
        } else if let Some(relative) = self.relative {
            (relative.scaled(100.0), "%")
        } else if *share {
            (estimate.scaled(100.0), "percentage points")
        } else {
            let (factor, multiple) = multiple(estimate.mean.abs(), unit);
            (estimate.scaled(1.0 / factor), multiple)
        };
        let (low, high) = shown.ends();
        let in_times = |(low, high): (f64, f64)| !is_tie && low >= -1.0 && high >= IN_TIMES;
        let of_baseline = self.relative.filter(|one| in_times(one.ends()));
        if let Some(relative) = of_baseline {
            let (low, high) = (relative.ends().0 + 1.0, relative.ends().1 + 1.0);
            let decimals = decimals_between(low, high);
            let interval = if self.same { String::new() } else { format!("{low:.decimals$}..") };
            // What is said of the mean of less than the double is per cent all the same.
            let amount = format!("{} %", grouped(shown.mean.abs(), 0));
            return (amount, format!("{interval}{} times", grouped(high, decimals)));
        }
        let decimals = decimals_between(low, high);
        let tail = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let amount = format!("{:.decimals$}{tail}", shown.mean.abs());
        if is_tie {
            return (amount, format!("0{tail}"));
        }
        if self.same {
            return (amount, format!("{:+.decimals$}{tail}", shown.mean));
        }
        (amount, format!("{low:+.decimals$}..{high:+.decimals$}{tail}"))
    }
}

/// Decimals that show about two digits of the larger end, and that neither end is zero.
fn decimals_between(low: f64, high: f64) -> usize {
    let larger = low.abs().max(high.abs());
    let mut decimals = match larger {
        _ if larger >= 10.0 => 0,
        _ if larger >= 1.0 => 1,
        _ => 2,
    };
    while decimals < DECIMALS_MAX && [low, high].iter().any(|&end| end != 0.0 && is_zero(end, decimals)) {
        decimals += 1;
    }
    decimals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, low: f64, high: f64) -> Estimate {
        Estimate { mean, low: Some(low), high: Some(high), n: 10 }
    }

    #[test]
    fn quantities_have_multiples_that_read_well() {
        assert_eq!(multiple(4.2e6, "bit/s"), (1e6, "Mbit/s"));
        assert_eq!(multiple(0.07, "s"), (1e-3, "ms"));
        assert_eq!(multiple(0.0, "s"), (1.0, "s"));
        assert_eq!(multiple(0.5, "share"), (0.01, "%"));
        assert_eq!(multiple(5e6, "packets"), (1.0, "packets"));
    }

    /// What lies in the middle goes to the even digit, as IEEE 754 rounds and as Python prints.
    #[test]
    fn numbers_have_three_digits_and_commas() {
        let cases = [
            (0.0, "0"),
            (1_234_567.0, "1,234,567"),
            (-1234.5, "-1,234"),
            (12.25, "12.2"),
            (12.35, "12.3"),
            (0.125, "0.12"),
            (0.0125, "0.013"),
            (99.96, "100.0"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn an_interval_is_told_with_the_decimals_of_its_mean_and_more_if_it_would_be_zero() {
        let shown = |mean_, low, high, factor| mean(&estimate(mean_, low, high), factor);
        assert_eq!(shown(4.2e6, 4.1e6, 4.3e6, 1e6), ("4.20".to_owned(), Some("0.10".to_owned())));
        assert_eq!(shown(100.0, 99.99, 100.01, 1.0), ("100.00".to_owned(), Some("0.01".to_owned())));
        assert_eq!(shown(100.0, 100.0, 100.0, 1.0), ("100".to_owned(), Some("0".to_owned())));
        let single = Estimate { mean: 7.0, low: None, high: None, n: 1 };
        assert_eq!(mean(&single, 1.0), ("7".to_owned(), None));
        assert_eq!(mean(&Estimate { n: 3, ..single }, 1.0), ("7.00".to_owned(), None));
    }

    #[test]
    fn verdicts_are_sentences() {
        let words = Words {
            label: "goodput".to_owned(),
            unit: "bit/s".to_owned(),
            share: false,
            more: "carries {} more".to_owned(),
            less: "carries {} less".to_owned(),
            times: String::new(),
        };
        let lower = estimate(-0.12, -0.14, -0.10);
        let of = |estimate: Option<Estimate>, relative, same| Difference {
            words: words.clone(),
            sender: "vegas".to_owned(),
            baseline: "reno".to_owned(),
            estimate,
            relative,
            same,
        };
        let shown = of(Some(lower.scaled(1e6)), Some(lower), false);
        assert_eq!(shown.verdict(), "vegas carries 12 % less than reno (-14..-10 %)");
        assert_eq!(shown.interval(), "-14..-10 %");
        let absolute = of(Some(lower.scaled(1e6)), None, false);
        assert_eq!(absolute.verdict(), "vegas carries 120 kbit/s less than reno (-140..-100 kbit/s)");
        let tie = of(Some(lower.scaled(0.0)), None, false);
        assert_eq!(tie.verdict(), "an exact tie between vegas and reno in goodput");
        assert_eq!(of(None, None, false).verdict(), "no values to compare between vegas and reno in goodput");
        let exact = Estimate { mean: -5e4, low: None, high: None, n: 5 };
        let share = Estimate { mean: -0.05, ..exact };
        let same = of(Some(exact), Some(share), true);
        assert_eq!(same.verdict(), "vegas carries 5.0 % less than reno: all seeds gave the same run");
        assert_eq!(same.interval(), "-5.0 %");
        let mut often = of(Some(estimate(5.1, 4.4, 6.0)), Some(estimate(5.1, 4.4, 6.0)), false);
        often.words.times = "retransmits {} times as much per packet".to_owned();
        assert_eq!(
            often.verdict(),
            "vegas retransmits 6.1 times as much per packet as reno (5.4..7.0 times)"
        );
        // Beyond a thousand per cent a table says what a verdict says, whether a difference is shown or not.
        let mut huge = of(Some(estimate(42.0, 14.0, 70.0)), Some(estimate(42.0, 14.0, 70.0)), false);
        assert_eq!(huge.interval(), "15..71 times");
        huge.words.times = often.words.times;
        assert_eq!(huge.verdict(), "vegas retransmits 43 times as much per packet as reno (15..71 times)");
        let open = of(Some(estimate(26.0, -1.0, 53.51)), Some(estimate(26.0, -1.0, 53.51)), false);
        assert_eq!(open.verdict(), "no difference shown between vegas and reno in goodput (0..55 times)");
        let wide = of(Some(estimate(572.0, 2.0, 1142.0)), Some(estimate(572.0, 2.0, 1142.0)), false);
        assert_eq!(wide.interval(), "3..1,143 times");
    }
}
