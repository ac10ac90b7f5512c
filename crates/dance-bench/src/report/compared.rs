//! Charts that compare methods: coverage, set size, balance between classes.

use dance_page::chart::{Chart, Kind};
use serde_json::{Value, json};

use super::summary::{Summary, data_sets, mean, ours, summarize};
use crate::experiment::{Method, Record, Results};

/// Groups of set sizes: the largest size of each, and its name.
const SIZES: [(usize, &str); 6] = [(0, "0"), (1, "1"), (2, "2"), (5, "3–5"), (10, "6–10"), (usize::MAX, "11+")];

/// Returns the methods that ran with their means at one level, ours first.
fn summaries(results: &Results, alpha: f64) -> Vec<(Method, Summary)> {
    let data = data_sets(results);
    let first = ours(results);
    let mut methods = results.plan.methods.clone();
    methods.sort_by_key(|&method| Some(method) != first);
    let of = |method| Some((method, summarize(results, &data, method, alpha)?));
    methods.into_iter().filter_map(of).collect()
}

/// Returns the method of the headlines: ours, or else the first.
fn leading(results: &Results, rows: &[(Method, Summary)]) -> Option<(Method, Summary)> {
    let first = ours(results);
    rows.iter().find(|row| Some(row.0) == first).or(rows.first()).cloned()
}

/// Returns the name of a method in headlines.
pub(super) fn called(results: &Results, method: Method) -> String {
    if Some(method) == ours(results) { format!("ours ({})", method.title()) } else { method.title().to_owned() }
}

/// Returns the JSON of one method for the page's script: its name, whether it is ours, and `more`.
pub(super) fn drawn(results: &Results, method: Method, more: Value) -> Value {
    let mut row = json!({ "name": method.title(), "ours": Some(method) == ours(results) });
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

/// Returns the JSON of every row.
fn each_drawn(results: &Results, rows: &[(Method, Summary)], more: impl Fn(Method, &Summary) -> Value) -> Value {
    rows.iter().map(|(method, summary)| drawn(results, *method, more(*method, summary))).collect()
}

/// Formats a share as percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Calls `chart` for every α at which a method ran.
pub(super) fn each_alpha<T>(
    results: &Results,
    chart: impl Fn(f64, &[(Method, Summary)], &(Method, Summary)) -> T,
) -> Vec<T> {
    let of = |&alpha: &f64| {
        let rows = summaries(results, alpha);
        leading(results, &rows).map(|lead| chart(alpha, &rows, &lead))
    };
    results.plan.alphas.iter().filter_map(of).collect()
}

/// Returns charts of coverage at every level of the plan, and as a curve over levels.
pub(super) fn coverage(results: &Results) -> Vec<Chart> {
    let mut charts = each_alpha(results, |alpha, rows, (lead, summary)| {
        let half = half_band(results, alpha);
        let drawn = each_drawn(results, rows, |_, summary| {
            let (least, most) = summary.coverage_range;
            json!({ "value": summary.coverage, "least": least, "most": most })
        });
        Chart {
            kind: Kind::Rows,
            id: format!("coverage-{alpha}"),
            headline: format!(
                "Target {:.0} %: {} covers {}",
                100.0 * (1.0 - alpha),
                called(results, *lead),
                percent(summary.coverage)
            ),
            caption: "Dot: mean over data sets and seeds. Line: from the least to the best covered data set. Shaded: \
                      the range of a method with the guarantee in 99 of 100 experiments of this size. Dashed: the \
                      target 1 - α."
                .into(),
            data: json!({ "rows": drawn, "target": 1.0 - alpha,
                "band": [1.0 - alpha - half, (1.0 - alpha + half).min(1.0)],
                "format": "percent1", "label": "coverage" }),
        }
    });
    charts.extend(curve(results));
    charts
}

/// Returns the chart of coverage against the target, for all methods over all levels.
fn curve(results: &Results) -> Option<Chart> {
    let first = results.cases.first()?;
    let mut alphas: Vec<f64> = first.curve.iter().map(|point| point.alpha).collect();
    alphas.sort_by(|a, b| b.total_cmp(a));
    alphas.dedup();
    let at = |method: Method, alpha: f64| -> Option<f64> {
        let own = results.cases.iter().filter_map(|case| {
            let point = case.curve.iter().find(|point| point.method == method && point.alpha == alpha)?;
            Some(point.coverage)
        });
        let values: Vec<f64> = own.collect();
        (!values.is_empty()).then(|| mean(values))
    };
    // A line is a method: its mean coverage at every target.
    let line = |method: Method| -> Vec<(f64, f64)> {
        alphas.iter().filter_map(|&alpha| Some((1.0 - alpha, at(method, alpha)?))).collect()
    };
    let lead = ours(results).or(results.plan.methods.first().copied())?;
    let far = line(lead)
        .into_iter()
        .max_by(|a, b| (a.1 - a.0).abs().total_cmp(&(b.1 - b.0).abs()))
        .map(|(target, coverage)| 100.0 * (coverage - target).abs())?;
    let series = |&method: &Method| -> Option<Value> {
        let points = line(method);
        let named = Some(method) == ours(results);
        (!points.is_empty()).then(|| drawn(results, method, json!({ "named": named, "points": points })))
    };
    // The shaded band is that of a method with the guarantee.
    let (&highest, &lowest) = (alphas.first()?, alphas.last()?);
    let band: Vec<(f64, f64, f64)> = (0..=20)
        .map(|step| highest + (lowest - highest) * f64::from(step) / 20.0)
        .map(|alpha| (1.0 - alpha, half_band(results, alpha)))
        .map(|(target, half)| (target, target - half, (target + half).min(1.0)))
        .collect();
    Some(Chart {
        kind: Kind::Lines,
        id: "coverage".into(),
        headline: format!("{}: at most {far:.1} points from the target at every level", called(results, lead)),
        caption: "Each line is a method, baselines in grey: point at a line for its name. Dashed: the target.".into(),
        data: json!({
            "series": results.plan.methods.iter().filter_map(series).collect::<Vec<_>>(), "band": band,
            "promised": [(1.0 - highest, 1.0 - highest), (1.0 - lowest, 1.0 - lowest)],
            "x": { "label": "target", "format": "percent" }, "y": { "label": "coverage", "format": "percent" },
        }),
    })
}

/// Returns half the width of a 99 % band for the mean coverage of all cases, each Beta-binomial.
fn half_band(results: &Results, alpha: f64) -> f64 {
    let variances = results.cases.iter().map(|case| {
        let (n, m) = (case.parts[1] as f64, case.parts[2] as f64);
        let p = 1.0 - alpha;
        p * (1.0 - p) * (1.0 / m + 1.0 / (n + 2.0))
    });
    // Seeds split the same points again, so they are not independent. Only data sets are.
    2.576 * (mean(variances) / data_sets(results).len().max(1) as f64).sqrt()
}

/// Returns charts of the labels per set, by themselves and against the balance between classes.
pub(super) fn size(results: &Results) -> Vec<Chart> {
    // Bars of set sizes, the smallest first.
    let mut charts = each_alpha(results, |alpha, rows, (lead, summary)| {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| a.1.size.total_cmp(&b.1.size));
        let beside = match rows.iter().find(|row| row.0 != *lead) {
            None => String::new(),
            Some((next, other)) if rows[0].0 == *lead => {
                format!(", the fewest; next: {}, {:.2}", next.title(), other.size)
            }
            Some((least, other)) => format!("; the fewest: {}, {:.2}", least.title(), other.size),
        };
        let drawn = each_drawn(results, &rows, |_, summary| json!({ "value": summary.size }));
        Chart {
            kind: Kind::Rows,
            id: format!("size-{alpha}"),
            headline: format!("α = {alpha}: {} needs {:.2} labels{beside}", called(results, *lead), summary.size),
            caption: "Mean number of labels in a set. A method that covers less has smaller sets for that alone."
                .into(),
            data: json!({ "rows": drawn, "bars": true, "format": "number", "label": "labels per set" }),
        }
    });
    // Set size against CCV.
    charts.extend(each_alpha(results, |alpha, rows, (lead, summary)| {
        let drawn = each_drawn(results, rows, |_, summary| json!({ "x": summary.size, "y": summary.violation }));
        Chart {
            kind: Kind::Scatter,
            id: format!("trade-off-{alpha}"),
            headline: format!(
                "α = {alpha}: CCV of {} is {:.1} points; sampling noise alone gives {:.1}",
                called(results, *lead),
                summary.violation,
                summary.floor
            ),
            caption: "CCV: mean distance of a class's coverage from 1 - α, in points. Left and low is better.".into(),
            data: json!({ "points": drawn, "x": "labels per set", "y": "CCV" }),
        }
    }));
    charts
}

/// Returns charts of the shares of sets by their size, all data sets and seeds together.
pub(super) fn shares(results: &Results) -> Vec<Chart> {
    each_alpha(results, |alpha, rows, (lead, _)| {
        let shares_of = |method: Method| -> Vec<f64> {
            let mut counts = [0usize; SIZES.len()];
            for record in results.records().filter(|record| record.method == method && record.alpha == alpha) {
                for (size, &count) in record.sizes.iter().enumerate() {
                    counts[SIZES.iter().position(|&(end, _)| size <= end).unwrap_or(SIZES.len() - 1)] += count;
                }
            }
            let total = counts.iter().sum::<usize>().max(1) as f64;
            counts.iter().map(|&count| count as f64 / total).collect()
        };
        let drawn = each_drawn(results, rows, |method, _| json!({ "shares": shares_of(method) }));
        let lead_shares = shares_of(*lead);
        Chart {
            kind: Kind::Shares,
            id: format!("sizes-{alpha}"),
            headline: format!(
                "α = {alpha}: {} of the sets of {} are a single label, {} are empty",
                percent(lead_shares[1]),
                called(results, *lead),
                percent(lead_shares[0])
            ),
            caption: "Share of sets by their number of labels.".into(),
            data: json!({ "rows": drawn, "sizes": SIZES.map(|size| size.1) }),
        }
    })
}

/// Returns charts of the coverage of every class of every data set, seeds together.
pub(super) fn classes(results: &Results) -> Vec<Chart> {
    each_alpha(results, |alpha, rows, (lead, _)| {
        let drawn = each_drawn(results, rows, |method, _| {
            let shares = class_shares(results, method, alpha);
            let at = |share| quantile(&shares, share);
            json!({ "value": at(0.5), "least": at(0.0), "most": at(1.0), "low": at(0.1), "high": at(0.9) })
        });
        let shares = class_shares(results, *lead, alpha);
        Chart {
            kind: Kind::Rows,
            id: format!("classes-{alpha}"),
            headline: format!(
                "α = {alpha}: {} covers nine of ten classes at {} or more",
                called(results, *lead),
                percent(quantile(&shares, 0.1))
            ),
            caption: format!(
                "{} classes of all data sets, seeds together. Dot: median class. Thick: all but the lowest and the \
                 highest tenth. Thin: all.",
                shares.len()
            ),
            data: json!({ "rows": drawn, "target": 1.0 - alpha, "format": "percent",
                "label": "coverage of a class" }),
        }
    })
}

/// Returns the coverage of every class, ascending.
fn class_shares(results: &Results, method: Method, alpha: f64) -> Vec<f64> {
    let mut shares = Vec::new();
    for data in data_sets(results) {
        let mut counts: Vec<[usize; 2]> = Vec::new();
        let own = |record: &&Record| record.data == data && record.method == method && record.alpha == alpha;
        for record in results.records().filter(own) {
            counts.resize(counts.len().max(record.class_coverage.len()), [0, 0]);
            for (sum, count) in counts.iter_mut().zip(&record.class_coverage) {
                *sum = [sum[0] + count[0], sum[1] + count[1]];
            }
        }
        shares.extend(counts.iter().filter(|count| count[1] > 0).map(|count| count[0] as f64 / count[1] as f64));
    }
    shares.sort_by(f64::total_cmp);
    shares
}

/// Returns the value below which the given share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((share * last).round() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let values = [0.1, 0.2, 0.3, 0.4, 0.5];
        assert_eq!([0.0, 0.5, 1.0].map(|share| quantile(&values, share)), [0.1, 0.3, 0.5]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
