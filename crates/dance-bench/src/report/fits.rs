//! Charts of fits and settings: ablations, the search for a kernel, the learned metric, fit time.

use dance_page::chart::{Chart, Kind};
use serde_json::{Value, json};

use super::summary::{data_sets, mean};
use super::tables::ablation_keys;
use crate::experiment::picture::Picture;
use crate::experiment::{Case, Results};
use dance::evaluation::metrics::Metrics;

type Measure = fn(&Metrics) -> f64;
/// An α, with the name and the value of every setting.
type Line = (f64, Vec<(String, f64)>);

/// Returns a chart for every ablation and measure, with a line for each α.
pub(super) fn ablations(results: &Results) -> Vec<Chart> {
    let keys = ablation_keys(results);
    let mut names: Vec<&str> = keys.iter().map(|key| key.0).collect();
    names.dedup();
    let measures: [(&str, &str, Measure); 3] = [
        ("coverage", "coverage", |metrics| metrics.coverage),
        ("set-size", "labels per set", |metrics| metrics.size),
        ("CCV", "CCV", |metrics| metrics.class_violation),
    ];
    let mut charts = Vec::new();
    for name in names {
        for (id, label, measure) in measures {
            let lines: Vec<Line> = results
                .plan
                .alphas
                .iter()
                .map(|&alpha| {
                    let own = keys.iter().filter(|key| key.0 == name && key.2 == alpha);
                    let at =
                        |text: &String| over_cases(results, |case| at_setting(case, name, text, alpha).map(measure));
                    (alpha, own.map(|key| (key.1.clone(), at(&key.1))).collect())
                })
                .collect();
            charts.extend(ablation(name, id, label, &lines));
        }
    }
    charts
}

/// Returns the metrics of a case under one value of an ablation.
fn at_setting<'a>(case: &'a Case, name: &str, value: &str, alpha: f64) -> Option<&'a Metrics> {
    let mut points = case.ablations.iter();
    let found = points.find(|point| point.ablation.name() == name && point.value == value && point.alpha == alpha);
    found.map(|point| &point.metrics)
}

/// Returns the mean over the cases that have a value; NaN if none has.
fn over_cases(results: &Results, value: impl Fn(&Case) -> Option<f64>) -> f64 {
    let values: Vec<f64> = results.cases.iter().filter_map(value).collect();
    if values.is_empty() { f64::NAN } else { mean(values) }
}

/// Makes the chart of one ablation and one measure.
fn ablation(name: &str, id: &str, label: &str, lines: &[Line]) -> Option<Chart> {
    let (alpha, first) = lines.first()?;
    let least = first.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = first.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    // The headline names the extremes at the first α.
    let headline = if id == "coverage" {
        format!("{name}: coverage lies between {:.3} and {:.3} at α = {alpha}", least.1, most.1)
    } else {
        format!("{name}: fewest {label} at {}: {:.2} at α = {alpha}", least.0, least.1)
            .replace("fewest CCV", "smallest CCV")
    };
    // Values that are words stand one after the other on the axis.
    let words: Vec<&String> = first.iter().map(|point| &point.0).filter(|text| text.parse::<f64>().is_err()).collect();
    let series = |(place, (alpha, points)): (usize, &Line)| {
        let at = |(order, (text, value)): (usize, &(String, f64))| (text.parse().unwrap_or(order as f64), *value);
        let points: Vec<(f64, f64)> = points.iter().enumerate().map(at).collect();
        json!({ "name": format!("α = {alpha}"), "ours": place == 0, "named": true, "points": points })
    };
    let mut data = json!({
        "series": lines.iter().enumerate().map(series).collect::<Vec<Value>>(),
        "x": { "label": name, "format": "number" },
        "y": { "label": label, "format": if id == "coverage" { "percent1" } else { "number" } },
    });
    if !words.is_empty() {
        data["words"] = json!(words);
    }
    Some(Chart { kind: Kind::Lines, id: format!("ablation-{name}-{id}"), headline, caption: String::new(), data })
}

/// Returns the chart of the best validation accuracy so far, for the first seed of every data set.
pub(super) fn tuning(results: &Results) -> Option<Chart> {
    let lines: Vec<(String, Vec<(usize, f64)>)> = data_sets(results)
        .into_iter()
        .filter_map(|data| {
            let case = results.cases.iter().find(|case| case.data == data)?;
            let mut best = 0.0f64;
            let points = case.trace.iter().enumerate().map(|(at, evaluation)| {
                best = best.max(evaluation.quality.accuracy);
                (at + 1, best)
            });
            Some((data, points.collect::<Vec<_>>()))
        })
        .filter(|line| !line.1.is_empty())
        .collect();
    let gains: Vec<f64> = lines.iter().map(|(_, points)| points[points.len() - 1].1 - points[0].1).collect();
    let tried = lines.iter().map(|line| line.1.len()).max()?;
    let series = |line: &(String, Vec<(usize, f64)>)| {
        let (name, points) = line;
        json!({ "name": name, "ours": true, "named": true, "steps": true, "points": points })
    };
    Some(Chart {
        kind: Kind::Lines,
        id: "tuning".into(),
        headline: format!(
            "{tried} settings gain {:.1} points of validation accuracy over the first, on average",
            100.0 * mean(gains)
        ),
        caption: "Best validation accuracy so far in the search for bandwidth and shape, for the first seed of each \
                  data set."
            .into(),
        data: json!({ "series": lines.iter().map(series).collect::<Vec<_>>(),
            "x": { "label": "settings tried", "format": "number" },
            "y": { "label": "validation accuracy", "format": "percent" } }),
    })
}

/// Returns charts of points in the plane, before and after the metric is learned.
pub(super) fn pictures(results: &Results) -> Vec<Chart> {
    let mut charts = Vec::new();
    for case in &results.cases {
        let Some(picture) = &case.picture else { continue };
        for (when, places) in [("before", &picture.before), ("after", &picture.after)] {
            let points: Vec<(f32, f32, usize)> =
                places.iter().zip(&picture.labels).map(|(place, &label)| (place[0], place[1], label)).collect();
            charts.push(Chart {
                kind: Kind::Plane,
                id: format!("picture-{}-{when}", case.data),
                headline: format!(
                    "{}, {when}: {:.0} % of points have a nearest neighbor of their class",
                    case.data,
                    100.0 * share_beside_own(picture, places)
                ),
                caption: String::new(),
                data: json!({ "classes": picture.classes, "points": points }),
            });
        }
    }
    charts
}

/// Returns the share of points whose nearest neighbor in the plane has their class.
fn share_beside_own(picture: &Picture, places: &[[f32; 2]]) -> f64 {
    let distance = |a: usize, b: usize| (places[a][0] - places[b][0]).hypot(places[a][1] - places[b][1]);
    let has_own_class = |&point: &usize| {
        let others = (0..places.len()).filter(|&other| other != point);
        let nearest = others.min_by(|&a, &b| distance(point, a).total_cmp(&distance(point, b)));
        nearest.is_some_and(|nearest| picture.labels[nearest] == picture.labels[point])
    };
    (0..places.len()).filter(has_own_class).count() as f64 / places.len().max(1) as f64
}

/// Returns the chart of fit time against the number of fit points.
pub(super) fn fit_time(results: &Results) -> Option<Chart> {
    let fit_of = |data: String| {
        let own: Vec<&Case> = results.cases.iter().filter(|case| case.data == data).collect();
        let points = own.first()?.parts[0];
        Some((data, points, mean(own.iter().map(|case| case.seconds.fit))))
    };
    let fits: Vec<(String, usize, f64)> = data_sets(results).into_iter().filter_map(fit_of).collect();
    let largest = fits.iter().max_by_key(|fit| fit.1)?;
    let point = |fit: &(String, usize, f64)| {
        let (name, points, seconds) = fit;
        json!({ "name": name, "ours": true, "x": points, "y": seconds.max(1e-3) })
    };
    Some(Chart {
        kind: Kind::Scatter,
        id: "fit-time".into(),
        headline: format!("{} points fit in {:.1} s", largest.1, largest.2),
        caption: "The whole search for bandwidth and shape, mean over seeds.".into(),
        data: json!({ "points": fits.iter().map(point).collect::<Vec<_>>(),
            "x": "fit points", "y": "seconds", "logarithmic": true }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_in_the_plane() {
        let places = vec![[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.2, 5.0], [0.0, 0.3]];
        let picture = Picture {
            classes: vec!["a".into(), "b".into()],
            labels: vec![0, 0, 1, 1, 1],
            before: places.clone(),
            after: places.clone(),
        };
        // The nearest neighbor of all but the last has their class.
        assert!((share_beside_own(&picture, &places) - 0.8).abs() < 1e-12);
    }
}
