//! Means over seeds and data sets.

use std::collections::BTreeSet;

use crate::experiment::{Method, Record, Results};
use dance::evaluation::breakdown::{Breakdown, Portion};
use dance::evaluation::metrics::Metrics;

/// A method at one α over all data sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Mean accuracy.
    pub accuracy: f64,
    /// Mean set size.
    pub size: f64,
    /// Standard deviation over seeds of the size, averaged over data sets.
    pub size_spread: f64,
    /// Mean coverage.
    pub coverage: f64,
    /// Standard deviation over seeds of the coverage, averaged over data sets.
    pub coverage_spread: f64,
    /// Smallest and largest coverage of a data set, as means over seeds.
    pub coverage_range: (f64, f64),
    /// Mean CCV.
    pub violation: f64,
    /// Mean noise floor of CCV.
    pub floor: f64,
    /// Mean class deviation: the deviation of classes from 1 - α beyond sampling noise.
    pub deviation: f64,
    /// Mean macro coverage.
    pub macro_coverage: f64,
    /// Mean share of empty sets.
    pub empty: f64,
    /// Mean mix; `None` for methods without one.
    pub mix: Option<f64>,
    /// Mean seconds for thresholds and sets.
    pub seconds: f64,
}

/// Returns the method that charts and headlines put first: the posterior, or else fuse or the paper's method, if it
/// ran.
pub fn ours(results: &Results) -> Option<Method> {
    [Method::Posterior, Method::Fuse, Method::Dance].into_iter().find(|method| results.plan.methods.contains(method))
}

/// Returns the names of the data sets, in the order of the run.
pub fn data_sets(results: &Results) -> Vec<String> {
    let mut seen = BTreeSet::new();
    results.cases.iter().filter(|case| seen.insert(&case.data)).map(|case| case.data.clone()).collect()
}

/// Averages a method at one α over the given data sets; `None` if it ran on none of them.
pub fn summarize(results: &Results, data: &[String], method: Method, alpha: f64) -> Option<Summary> {
    let groups: Vec<Vec<&Record>> = data
        .iter()
        .map(|name| {
            let own = |record: &&Record| record.data == *name && record.method == method && record.alpha == alpha;
            results.records().filter(own).collect()
        })
        .filter(|group: &Vec<&Record>| !group.is_empty())
        .collect();
    if groups.is_empty() {
        return None;
    }
    // Means over the seeds of each data set.
    let over = |value: &dyn Fn(&Metrics) -> f64| -> Vec<f64> {
        groups.iter().map(|group| mean(group.iter().map(|record| value(&record.metrics)))).collect()
    };
    let spread = |value: &dyn Fn(&Metrics) -> f64| {
        mean(groups.iter().map(|group| deviation(group.iter().map(|record| value(&record.metrics)))))
    };
    let coverage = over(&|metrics| metrics.coverage);
    let mixes: Vec<f64> = groups.iter().flatten().filter_map(|record| record.mix).collect();
    Some(Summary {
        accuracy: mean(over(&|metrics| metrics.accuracy.unwrap_or(f64::NAN))),
        size: mean(over(&|metrics| metrics.size)),
        size_spread: spread(&|metrics| metrics.size),
        coverage_spread: spread(&|metrics| metrics.coverage),
        coverage_range: (
            coverage.iter().copied().fold(f64::INFINITY, f64::min),
            coverage.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ),
        coverage: mean(coverage),
        violation: mean(over(&|metrics| metrics.class_violation)),
        floor: mean(over(&|metrics| metrics.class_violation_floor)),
        deviation: mean(over(&|metrics| metrics.class_deviation)),
        macro_coverage: mean(over(&|metrics| metrics.macro_coverage)),
        empty: mean(over(&|metrics| metrics.empty)),
        mix: (!mixes.is_empty()).then(|| mean(mixes)),
        seconds: mean(groups.iter().flatten().map(|record| record.seconds)),
    })
}

/// A division of the points in a breakdown.
pub(crate) type Parts = fn(&Breakdown) -> &Vec<Portion>;

/// Returns the coverage of the named part of the points of all data sets and seeds; `None` if it has no points.
pub(crate) fn portion_coverage(results: &Results, method: Method, alpha: f64, parts: Parts, name: &str) -> Option<f64> {
    let own = results.records().filter(|record| record.method == method && record.alpha == alpha);
    let portions = own.filter_map(|record| parts(&record.breakdown).iter().find(|part| part.name == name));
    let (points, covered) = portions.fold((0.0, 0.0), |(points, covered), part| {
        (points + part.points as f64, covered + part.points as f64 * part.coverage)
    });
    (points > 0.0).then(|| covered / points)
}

/// Returns the mean; 0 without values.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = values.into_iter().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    if count == 0.0 { 0.0 } else { sum / count }
}

/// Returns the sample standard deviation; 0 for fewer than two values.
pub(crate) fn deviation(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    if values.len() < 2 {
        return 0.0;
    }
    let center = mean(values.iter().copied());
    (values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}
