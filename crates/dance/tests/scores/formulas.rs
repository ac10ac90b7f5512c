//! Scores of probabilities, straight from their formulas in f64, and the coverage they promise.

use dance::scores::calibration::CalibrationScores;
use dance::scores::ranked::{self, Draws, RankedScore};

use super::context;

use super::simulated;

/// Every score of every label of a row, by sorting and adding up.
fn by_formula(name: &str, row: &[f32], u: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
    let largest = f64::from(row[order[0]]);
    let mut scores = vec![0.0; row.len()];
    let mut mass = 0.0;
    for (place, &label) in order.iter().enumerate() {
        let (r, p) = ((place + 1) as f64, f64::from(row[label]));
        mass += p;
        scores[label] = match name {
            "lac" => 1.0 - p,
            "aps" => mass - u * p,
            "raps" => mass - u * p + 0.001 * (r - 1.0).max(0.0),
            _ if place == 0 => u * largest,
            _ => largest + (r - 2.0 + u) * 0.2,
        };
    }
    scores
}

const SCORES: [(&str, RankedScore); 4] =
    [("lac", RankedScore::Lac), ("aps", RankedScore::Aps), ("raps", RankedScore::RAPS), ("saps", RankedScore::SAPS)];

#[test]
fn scores_and_sets_follow_the_formulas() {
    let (probabilities, _) = simulated(300, 40, 2.0, 1);
    for draws in [Draws::Zero, Draws::Seeded { seed: 9, part: 1 }] {
        for (name, score) in SCORES {
            for threshold in [0.0, 0.3, 0.7, 0.9, 0.99, 1.0, 2.5, f64::INFINITY] {
                let sets = &ranked::sets(&probabilities, &[(score, threshold)], draws, &context())[0];
                for row in 0..probabilities.rows() {
                    let expected = by_formula(name, probabilities.row(row), draws.of(row));
                    for (label, &value) in (0u32..).zip(&expected) {
                        let ranked = ranked::ranked_label(probabilities.row(row), label, draws.of(row));
                        assert!((score.score(&ranked) - value).abs() < 1e-12, "{name} {row} {label}");
                        if (value - threshold).abs() > 1e-12 {
                            assert_eq!(sets.contains(row, label), value <= threshold, "{name} {row} {label} {value}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn all_scores_from_one_sort_are_each_score_alone() {
    let (probabilities, _) = simulated(150, 23, 2.0, 2);
    let draws = Draws::Seeded { seed: 2, part: 0 };
    let cuts: Vec<(RankedScore, f64)> = SCORES.iter().map(|score| score.1).zip([0.8, 0.95, 0.9, 1.1]).collect();
    let together = ranked::sets(&probabilities, &cuts, draws, &context());
    for (sets, &cut) in together.iter().zip(&cuts) {
        assert_eq!(sets, &ranked::sets(&probabilities, &[cut], draws, &context())[0]);
    }
}

/// The number of covered points over many draws of calibration and test points. Without ties its mean share is
/// k/(n+1), k = ⌈(n+1)(1-α)⌉; the band is five standard errors of the Beta-binomial.
#[test]
fn coverage_is_what_split_conformal_promises() {
    let (n, m, trials, alpha) = (99usize, 50usize, 300u64, 0.1);
    for (name, score) in SCORES {
        let mut covered = 0usize;
        for trial in 0..trials {
            let (calibration, labels) = simulated(n, 12, 1.5, 2 * trial + 10);
            let (queries, truth) = simulated(m, 12, 1.5, 2 * trial + 11);
            let draws = |part| Draws::Seeded { seed: trial, part };
            let own = ranked::ranked_labels(&calibration, &labels, draws(0), &context()).unwrap();
            let own = CalibrationScores::new(ranked::scores(score, &own)).unwrap();
            let threshold = own.threshold(alpha).unwrap().value;
            let sets = &ranked::sets(&queries, &[(score, threshold)], draws(1), &context())[0];
            covered += truth.iter().enumerate().filter(|(row, label)| sets.contains(*row, **label)).count();
        }
        let (a, b, m) = (90.0, 10.0, m as f64);
        let variance = m * a * b * (a + b + m) / ((a + b).powi(2) * (a + b + 1.0));
        let error = (variance / trials as f64).sqrt() / m;
        let share = covered as f64 / (trials as f64 * m);
        assert!((share - 0.9).abs() < 5.0 * error, "{name}: {share} ± {error}");
    }
}
