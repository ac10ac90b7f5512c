//! The plots of the page, from the results.

use super::summary::{data_sets, mean, summarize};
use super::tables::ablation_keys;
use crate::experiment::{Case, Method, Results};
use crate::plot::{Chart, Series, Style};

type Value = fn(&dance::conformal::metrics::Metrics) -> f64;

/// Plots under one heading.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) charts: Vec<Chart>,
}

/// All of them, in the order of the page.
pub(crate) fn sections(results: &Results) -> Vec<Section> {
    let section =
        |title: &str, note: &str, charts| Section { title: title.into(), note: note.into(), charts };
    vec![
        section(
            "Coverage",
            "Coverage against α, means over data sets and seeds. The band is where a method with the guarantee \
            stays in 99 % of all experiments of this size.",
            vec![coverage(results)],
        ),
        section("Size against class-conditional coverage", "Left and low is better.", trade_off(results)),
        section(
            "Set sizes",
            "Share of sets of every size, all data sets and seeds together.",
            sizes(results),
        ),
        section(
            "Coverage of the classes",
            "Every class of every data set, seeds together, from the worst covered to the best.",
            per_class(results),
        ),
        section("Ablations", "Means over data sets and seeds.", ablations(results)),
        section("Tuning", "Best validation accuracy so far, first seed.", vec![tuning(results)]),
        section(
            "What the metric does",
            "Points of the ten most frequent classes: principal components of the embeddings, then of \
            the learned kernel.",
            pictures(results),
        ),
        section(
            "Fit time",
            "Seconds for the whole search against the points that fit the kernel.",
            vec![fit_time(results)],
        ),
    ]
}

fn series(name: &str, points: Vec<(f64, f64)>, style: Style, color: usize) -> Series {
    Series { name: name.into(), points, style, color }
}

fn color(results: &Results, method: Method) -> usize {
    results.plan.methods.iter().position(|&other| other == method).unwrap_or(0)
}

/// Mean over the cases that have a value.
fn over_cases(results: &Results, value: impl Fn(&Case) -> Option<f64>) -> f64 {
    let values: Vec<f64> = results.cases.iter().filter_map(value).collect();
    if values.is_empty() { f64::NAN } else { mean(values) }
}

fn coverage(results: &Results) -> Chart {
    let mut chart = Chart {
        id: "coverage".into(),
        title: "Coverage against α".into(),
        x: "α".into(),
        y: "coverage".into(),
        legend: true,
        ..Chart::default()
    };
    let levels = |method: Method| {
        let points = results.cases.first().map(|case| &case.curve[..]).unwrap_or_default();
        points.iter().filter(move |point| point.method == method).map(|point| point.alpha).collect::<Vec<_>>()
    };
    for &method in &results.plan.methods {
        let at = |alpha: f64| {
            over_cases(results, |case| {
                let found = case.curve.iter().find(|point| point.method == method && point.alpha == alpha);
                found.map(|point| point.coverage)
            })
        };
        let mut points: Vec<(f64, f64)> =
            levels(method).into_iter().map(|alpha| (alpha, at(alpha))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.series.push(series(method.title(), points, Style::Line, color(results, method)));
    }
    let ends = chart.series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let (low, high) =
        ends.fold((f64::INFINITY, 0.0f64), |(low, high), alpha| (low.min(alpha), high.max(alpha)));
    if low < high {
        let step = |at: i32| low + (high - low) * f64::from(at) / 20.0;
        chart.band = (0..=20)
            .map(step)
            .map(|alpha| {
                let half = half_band(results, alpha);
                (alpha, 1.0 - alpha - half, 1.0 - alpha + half)
            })
            .collect();
    }
    chart
}

/// Half the width of a 99 % band for the mean coverage of all cases, each Beta-binomial.
fn half_band(results: &Results, alpha: f64) -> f64 {
    let variances = results.cases.iter().map(|case| {
        let (n, m) = (case.parts[1] as f64, case.parts[2] as f64);
        let p = 1.0 - alpha;
        p * (1.0 - p) * (1.0 / m + 1.0 / (n + 2.0))
    });
    // Seeds split the same points anew, so they are not independent: only data sets count as such.
    2.576 * (mean(variances) / data_sets(results).len().max(1) as f64).sqrt()
}

fn trade_off(results: &Results) -> Vec<Chart> {
    let data = data_sets(results);
    let chart = |&alpha: &f64| Chart {
        id: format!("trade-off-{alpha}"),
        title: format!("α = {alpha}"),
        x: "mean set size".into(),
        y: "CCV".into(),
        legend: true,
        series: results
            .plan
            .methods
            .iter()
            .filter_map(|&method| {
                let summary = summarize(results, &data, method, alpha)?;
                let point = vec![(summary.size, summary.violation)];
                Some(series(method.title(), point, Style::Dots, color(results, method)))
            })
            .collect(),
        ..Chart::default()
    };
    results.plan.alphas.iter().map(chart).collect()
}

fn sizes(results: &Results) -> Vec<Chart> {
    const ENDS: [usize; 9] = [0, 1, 2, 3, 4, 5, 10, 20, usize::MAX];
    let words = ["0", "1", "2", "3", "4", "5", "6–10", "11–20", "21+"];
    let Some(&alpha) = results.plan.alphas.last() else { return Vec::new() };
    let chart = |&method: &Method| {
        let mut counts = [0usize; ENDS.len()];
        for record in results.records().filter(|record| record.method == method && record.alpha == alpha) {
            for (size, &count) in record.sizes.iter().enumerate() {
                counts[ENDS.iter().position(|&end| size <= end).unwrap_or(ENDS.len() - 1)] += count;
            }
        }
        let total = counts.iter().sum::<usize>();
        let share = |(at, &count): (usize, &usize)| (at as f64, count as f64 / total as f64);
        Chart {
            id: format!("sizes-{method}"),
            title: format!("{}, α = {alpha}", method.title()),
            x: "labels in the set".into(),
            y: "share of sets".into(),
            words: words.map(str::to_owned).to_vec(),
            series: vec![series(
                method.title(),
                counts.iter().enumerate().map(share).collect(),
                Style::Bars,
                color(results, method),
            )],
            ..Chart::default()
        }
    };
    results.plan.methods.iter().map(chart).collect()
}

fn per_class(results: &Results) -> Vec<Chart> {
    let chart = |&alpha: &f64| {
        let line = |&method: &Method| {
            let mut shares = Vec::new();
            for data in data_sets(results) {
                let mut counts: Vec<[usize; 2]> = Vec::new();
                let own = |record: &&crate::experiment::Record| {
                    record.data == data && record.method == method && record.alpha == alpha
                };
                for record in results.records().filter(own) {
                    counts.resize(counts.len().max(record.class_coverage.len()), [0, 0]);
                    for (sum, count) in counts.iter_mut().zip(&record.class_coverage) {
                        *sum = [sum[0] + count[0], sum[1] + count[1]];
                    }
                }
                shares.extend(
                    counts.iter().filter(|count| count[1] > 0).map(|count| count[0] as f64 / count[1] as f64),
                );
            }
            shares.sort_by(f64::total_cmp);
            let last = shares.len().max(2) - 1;
            let points =
                shares.iter().enumerate().map(|(at, &share)| (at as f64 / last as f64, share)).collect();
            series(method.title(), points, Style::Line, color(results, method))
        };
        let mut chart = Chart {
            id: format!("classes-{alpha}"),
            title: format!("α = {alpha}"),
            x: "share of classes".into(),
            y: "coverage".into(),
            legend: true,
            series: results.plan.methods.iter().map(line).collect(),
            ..Chart::default()
        };
        chart.series.push(series("1 - α", vec![(0.0, 1.0 - alpha), (1.0, 1.0 - alpha)], Style::Line, 15));
        chart
    };
    results.plan.alphas.iter().map(chart).collect()
}

fn ablations(results: &Results) -> Vec<Chart> {
    let keys = ablation_keys(results);
    let mut names: Vec<&str> = keys.iter().map(|key| key.0).collect();
    names.dedup();
    let measures: [(&str, Value); 3] = [
        ("coverage", |metrics| metrics.coverage),
        ("set size", |metrics| metrics.size),
        ("CCV", |metrics| metrics.class_violation),
    ];
    let mut charts = Vec::new();
    for name in names {
        for (measure, value) in measures {
            let mut words = Vec::new();
            let mut lines = Vec::new();
            for (place, &alpha) in results.plan.alphas.iter().enumerate() {
                let own = keys.iter().filter(|key| key.0 == name && key.2 == alpha);
                let at = |text: &String| {
                    over_cases(results, |case| {
                        let mut points = case.ablations.iter();
                        let found = points.find(|point| {
                            point.ablation.name() == name && point.value == *text && point.alpha == alpha
                        });
                        found.map(|point| value(&point.metrics))
                    })
                };
                let points: Vec<(f64, f64)> = own
                    .enumerate()
                    .map(|(order, (_, text, _))| {
                        let x = text.parse().unwrap_or_else(|_| {
                            if place == 0 {
                                words.push(text.clone());
                            }
                            order as f64
                        });
                        (x, at(text))
                    })
                    .collect();
                lines.push(series(&format!("α = {alpha}"), points.clone(), Style::Line, place));
                lines.push(series(&format!("α = {alpha}"), points, Style::Dots, place));
            }
            charts.push(Chart {
                id: format!("ablation-{name}-{}", measure.replace(' ', "-")),
                title: format!("{name}: {measure}"),
                x: name.into(),
                y: measure.into(),
                series: lines,
                words,
                ..Chart::default()
            });
        }
    }
    charts
}

fn tuning(results: &Results) -> Chart {
    let line = |(place, data): (usize, String)| {
        let trace = results
            .cases
            .iter()
            .find(|case| case.data == data)
            .map(|case| &case.trace[..])
            .unwrap_or_default();
        let mut best = 0.0f64;
        let points = trace.iter().enumerate().map(|(at, evaluation)| {
            best = best.max(evaluation.quality.accuracy);
            ((at + 1) as f64, best)
        });
        series(&data, points.collect(), Style::Line, place)
    };
    Chart {
        id: "tuning".into(),
        title: "Search for bandwidth and shape".into(),
        x: "setting".into(),
        y: "validation accuracy".into(),
        legend: true,
        series: data_sets(results).into_iter().enumerate().map(line).collect(),
        ..Chart::default()
    }
}

fn pictures(results: &Results) -> Vec<Chart> {
    let mut charts = Vec::new();
    for case in &results.cases {
        let Some(picture) = &case.picture else { continue };
        for (when, places) in [("before", &picture.before), ("after", &picture.after)] {
            let group = |(class, name): (usize, &String)| {
                let own = places.iter().zip(&picture.labels).filter(|(_, label)| **label == class);
                let points = own.map(|(place, _)| (f64::from(place[0]), f64::from(place[1]))).collect();
                series(name, points, Style::Dots, class)
            };
            charts.push(Chart {
                id: format!("picture-{}-{when}", case.data),
                title: format!("{}, {when}", case.data),
                bare: true,
                series: picture.classes.iter().enumerate().map(group).collect(),
                ..Chart::default()
            });
        }
    }
    charts
}

fn fit_time(results: &Results) -> Chart {
    let dots = |(place, data): (usize, String)| {
        let own = results.cases.iter().filter(|case| case.data == data);
        series(&data, own.map(|case| (case.parts[0] as f64, case.seconds.fit)).collect(), Style::Dots, place)
    };
    Chart {
        id: "fit-time".into(),
        title: "Fit time against points".into(),
        x: "points".into(),
        y: "seconds".into(),
        logarithmic: true,
        legend: true,
        series: data_sets(results).into_iter().enumerate().map(dots).collect(),
        ..Chart::default()
    }
}
