//! Metrics of prediction sets (the paper, §4.1.3).
//!
//! - **Cov**: the share of sets that hold the true label. **Size**: the mean number of labels in a set. There are also
//!   the shares of empty sets, of singletons (sets with one label), and of right labels among singletons. **Acc**: the
//!   top-1 accuracy of the classifier.
//! - **CCV** (class coverage violation): `100·mean_y |Cov_y - (1-α)|` over the classes y that have points, where
//!   `Cov_y` is the coverage of class y. A further metric is the part of the CCV that comes from classes whose coverage
//!   is below `1-α`. Sets that hold all labels have a CCV of `100·α`. With m test points per class, sets with perfect
//!   coverage have an expected CCV of `100·E|Bin(m,1-α)/m - (1-α)|` (5.99 at m = 10, α = 0.05). The mean of this number
//!   over the classes is the **noise floor**.
//! - **Class deviation**: `100·√(mean_y (Cov_y - (1-α))² - noise)`. The noise is the mean over the classes of
//!   `α(1-α)/m`, the variance of the coverage of m test points at perfect coverage. So the class deviation is 0 if
//!   classes differ by no more than chance.
//! - **Macro coverage**: the mean of the coverages of the classes, each class with the same weight.
//! - **SSCV** (size-stratified coverage violation): `100·max |Cov_s - (1-α)|` over the strata s of set sizes 0-1, 2-3,
//!   4-10, 11-100 and above 100.
//!
//! Cost: one pass over the sets.
//!
//! ```
//! use dance::scores::Sets;
//! use dance::evaluation::metrics::Metrics;
//! let sets = Sets::from_iter([vec![0], vec![0, 1], vec![]]);
//! let metrics = Metrics::new(&sets, &[0, 1, 1], 2, 0.1, None)?;
//! assert_eq!((metrics.coverage, metrics.size), (2.0 / 3.0, 1.0));
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::scores::sets::Sets;

/// The largest set size in each group (stratum) of set sizes. The last stratum has no largest size and is not listed.
pub(super) const STRATA: [usize; 4] = [1, 3, 10, 100];

/// Metrics of prediction sets; the [module](self) has the formulas. Shares are numbers from 0 to 1, and violations are
/// in per cent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// The number of test points.
    pub points: usize,
    /// The error level α of the sets.
    pub alpha: f64,
    /// The share of points whose most probable label is right; `None` if most probable labels are not given.
    pub accuracy: Option<f64>,
    /// The share of sets that hold the true label.
    pub coverage: f64,
    /// The mean number of labels in a set.
    pub size: f64,
    /// The class coverage violation (CCV): the mean distance of the coverage of a class from `1-α`, in per cent.
    pub class_violation: f64,
    /// The noise floor: the expected CCV of sets with perfect coverage, in per cent.
    pub class_violation_floor: f64,
    /// The part of the CCV that comes from classes whose coverage is below `1-α`, in per cent.
    pub class_undercoverage: f64,
    /// The [class deviation](self): the typical distance of the coverage of a class from `1-α` beyond chance, in per
    /// cent.
    #[serde(default)]
    pub class_deviation: f64,
    /// The mean of the coverages of the classes, each class with the same weight.
    #[serde(default)]
    pub macro_coverage: f64,
    /// The size-stratified coverage violation (SSCV): the largest distance of the coverage of sets of similar size from
    /// `1-α`, in per cent.
    pub size_violation: f64,
    /// The share of empty sets.
    pub empty: f64,
    /// The share of sets with one label.
    pub singletons: f64,
    /// Among the sets with one label, the share whose label is right; `None` if there are no such sets.
    pub singleton_hits: Option<f64>,
}

impl Metrics {
    /// Compares `sets` of error level `alpha` with the true `labels`, one per set and each below `classes`. `best`
    /// holds the most probable label of every point. Returns an error if lists differ in length, there are no sets, or
    /// a label is too large.
    pub fn new(sets: &Sets, labels: &[u32], classes: usize, alpha: f64, best: Option<&[u32]>) -> Result<Self> {
        // Return an error if sizes or labels do not fit.
        let agree = |what: &str, found: usize| {
            if found == sets.len() {
                return Ok(());
            }
            Err(Error::Shape { what: what.into(), expected: sets.len().to_string(), found: found.to_string() })
        };
        agree("labels (one per set)", labels.len())?;
        best.map_or(Ok(()), |best| agree("best labels (one per set)", best.len()))?;
        if sets.is_empty() {
            return Err(Error::Data("there are no sets to evaluate".into()));
        }
        if let Some(row) = labels.iter().position(|&label| label as usize >= classes) {
            return Err(Error::Label {
                origin: "test labels".into(),
                row,
                problem: format!("{} is not below the number of classes, {classes}", labels[row]),
            });
        }
        // Count points and covered points (hits): over all sets, by class, and by stratum of set size.
        let n = sets.len() as f64;
        let (mut covered, mut empty, mut singletons, mut singleton_hits) = (0, 0, 0, 0);
        let mut by_class = vec![(0, 0); classes];
        let mut by_size = [(0, 0); STRATA.len() + 1];
        for (query, (set, &truth)) in sets.iter().zip(labels).enumerate() {
            let hit = usize::from(sets.contains(query, truth));
            covered += hit;
            empty += usize::from(set.is_empty());
            singletons += usize::from(set.len() == 1);
            singleton_hits += if set.len() == 1 { hit } else { 0 };
            let stratum = STRATA.iter().position(|&largest| set.len() <= largest).unwrap_or(STRATA.len());
            for (hits, points) in [&mut by_class[truth as usize], &mut by_size[stratum]] {
                *hits += hit;
                *points += 1;
            }
        }
        let gaps = by_size.iter().filter(|(_, points)| *points > 0).map(|pair| gap(*pair, alpha).abs());
        let accuracy =
            best.map(|best| best.iter().zip(labels).filter(|(best, truth)| best == truth).count() as f64 / n);
        Ok(Self {
            points: sets.len(),
            alpha,
            accuracy,
            coverage: covered as f64 / n,
            size: sets.labels().len() as f64 / n,
            class_violation: class_coverage_violation(&by_class, alpha),
            class_violation_floor: noise_floor(by_class.iter().map(|&(_, points)| points), alpha),
            class_undercoverage: mean_over_classes(&by_class, |pair| (-gap(pair, alpha)).max(0.0)),
            class_deviation: class_deviation(&by_class, alpha),
            macro_coverage: 1.0 - alpha + mean_over_classes(&by_class, |pair| gap(pair, alpha)) / 100.0,
            size_violation: 100.0 * gaps.fold(0.0, f64::max),
            empty: empty as f64 / n,
            singletons: singletons as f64 / n,
            singleton_hits: (singletons > 0).then(|| singleton_hits as f64 / singletons as f64),
        })
    }
}

/// Returns the coverage `hits / points` of a group of points, minus the promised coverage `1-α`.
fn gap((hits, points): (usize, usize), alpha: f64) -> f64 {
    hits as f64 / points as f64 - (1.0 - alpha)
}

/// Returns 100 times the mean of `value` over all classes that have points. The arguments of `value` are the number of
/// covered points of a class (hits) and the number of all its points.
fn mean_over_classes(by_class: &[(usize, usize)], value: impl Fn((usize, usize)) -> f64) -> f64 {
    let present = by_class.iter().filter(|(_, points)| *points > 0);
    let (count, sum) = present.fold((0, 0.0), |(count, sum), &pair| (count + 1, sum + value(pair)));
    100.0 * sum / f64::from(count.max(1))
}

/// Returns the [class deviation](self) in per cent. `by_class` holds for every class the number of covered points
/// (hits) and the number of all points.
fn class_deviation(by_class: &[(usize, usize)], alpha: f64) -> f64 {
    let noise = |points: usize| alpha * (1.0 - alpha) / points as f64;
    let beyond = mean_over_classes(by_class, |pair| gap(pair, alpha).powi(2) - noise(pair.1)) / 100.0;
    100.0 * beyond.max(0.0).sqrt()
}

/// Returns the class coverage violation (CCV) in per cent. `by_class` holds for every class the number of covered
/// points (hits) and the number of all points. Classes without points do not count.
pub(crate) fn class_coverage_violation(by_class: &[(usize, usize)], alpha: f64) -> f64 {
    mean_over_classes(by_class, |pair| gap(pair, alpha).abs())
}

/// Returns the noise floor: the class coverage violation, in per cent, to expect if every point is covered with
/// probability `1-α`. `points` holds the number of points of every class.
pub fn noise_floor(points: impl IntoIterator<Item = usize>, alpha: f64) -> f64 {
    let mut counts: Vec<usize> = points.into_iter().filter(|&points| points > 0).collect();
    counts.sort_unstable();
    let runs = counts.chunk_by(|a, b| a == b).map(|run| run.len() as f64 * mean_deviation(run[0], 1.0 - alpha));
    100.0 * runs.sum::<f64>() / counts.len().max(1) as f64
}

/// Returns `E|X/m - p|`, where X has the binomial distribution with m trials of probability p. De Moivre's formula
/// gives it: `E|X - mp| = 2ν·C(m,ν)·p^ν·(1-p)^(m-ν+1)`, with `ν = ⌊mp⌋ + 1`.
fn mean_deviation(m: usize, p: f64) -> f64 {
    if m == 0 || !(p > 0.0 && p < 1.0) {
        return 0.0;
    }
    let v = ((m as f64 * p).floor() as usize + 1).min(m);
    let choose: f64 = (1..=v).map(|i| ((m - v + i) as f64 / i as f64).ln()).sum();
    let log = choose + v as f64 * p.ln() + (m - v + 1) as f64 * (1.0 - p).ln();
    2.0 * v as f64 * log.exp() / m as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(rows: &[&[u32]]) -> Sets {
        rows.iter().map(|row| row.iter().copied()).collect()
    }

    #[test]
    fn by_hand() {
        let sets = sets(&[&[0], &[0, 1], &[], &[2]]);
        let metrics = Metrics::new(&sets, &[0, 1, 1, 0], 3, 0.1, Some(&[0, 0, 1, 0])).unwrap();
        assert_eq!((metrics.coverage, metrics.size, metrics.empty), (0.5, 1.0, 0.25));
        assert_eq!((metrics.singletons, metrics.singleton_hits, metrics.accuracy), (0.5, Some(0.5), Some(0.75)));
        // Both classes have coverage 0.5, which is 0.4 below 0.9.
        assert!((metrics.class_violation - 40.0).abs() < 1e-9);
        assert!((metrics.class_undercoverage - 40.0).abs() < 1e-9);
        // (0.4² + 0.4²)/2 minus the noise of two points each, 0.09/2.
        assert!((metrics.class_deviation - 100.0 * (0.16f64 - 0.045).sqrt()).abs() < 1e-9);
        assert!((metrics.macro_coverage - 0.5).abs() < 1e-12);
        // Sizes 0-1: 1 of 3; sizes 2-3: 1 of 1.
        assert!((metrics.size_violation - 100.0 * (0.9 - 1.0 / 3.0)).abs() < 1e-9);
    }

    #[test]
    fn the_floor_is_the_exact_expectation() {
        assert!((100.0 * mean_deviation(10, 0.95) - 5.99).abs() < 0.005);
        for m in [1, 2, 7, 19, 20, 100, 1000] {
            for p in [0.5, 0.8, 0.9, 0.95, 0.99] {
                let mut mass = (m as f64 * (1.0f64 - p).ln()).exp();
                let mut expected = 0.0;
                for x in 0..=m {
                    expected += mass * (x as f64 / m as f64 - p).abs();
                    mass *= (m - x) as f64 / (x + 1) as f64 * p / (1.0 - p);
                }
                // The recursion starts at (1-p)^m, which vanishes for large m.
                if m <= 100 {
                    assert!((mean_deviation(m, p) - expected).abs() < 1e-10, "{m} {p}");
                } else {
                    let normal = (2.0 * p * (1.0 - p) / std::f64::consts::PI / m as f64).sqrt();
                    assert!((mean_deviation(m, p) / normal - 1.0).abs() < 0.02);
                }
            }
        }
    }

    #[test]
    fn sets_of_all_labels_have_a_violation_of_alpha() {
        let metrics = Metrics::new(&sets(&[&[0, 1], &[0, 1]]), &[0, 1], 2, 0.05, None).unwrap();
        assert!((metrics.class_violation - 5.0).abs() < 1e-9);
        assert_eq!(metrics.class_undercoverage, 0.0);
        // Coverage is 0.05 too high in both classes, which chance explains with so few points.
        assert_eq!((metrics.class_deviation, metrics.macro_coverage), (0.0, 1.0));
    }

    #[test]
    fn refuses_sizes_and_labels_that_do_not_fit() {
        assert!(matches!(Metrics::new(&sets(&[&[0]]), &[0, 1], 2, 0.1, None), Err(Error::Shape { .. })));
        assert!(matches!(Metrics::new(&sets(&[&[0]]), &[5], 2, 0.1, None), Err(Error::Label { .. })));
        assert!(matches!(Metrics::new(&sets(&[]), &[], 2, 0.1, None), Err(Error::Data(_))));
    }
}
