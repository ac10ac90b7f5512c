//! Prediction sets for a classifier of your own, of which only the numbers it gives out are known: no kernel is fitted.
//!
//! First from its logits by two scores from the literature (LAC and APS), then from a score that you compute yourself.
//!
//! `cargo run -p dance-conformal --example own_scores`

use dance::evaluation::metrics::Metrics;
use dance::numeric::random::Random;
use dance::scores::{CalibrationScores, RankedScore, Sets, SplitConformal};
use dance::{Context, Matrix, Result};

const CLASSES: usize = 10;
const ALPHA: f64 = 0.1;

/// What a network might give out: logits, the true label's often but not always the largest. And the true labels.
fn logits(points: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let mut random = Random::new(seed, 1);
    let mut logits = Matrix::zeros(points, CLASSES);
    let labels: Vec<u32> = (0..points).map(|_| random.below(CLASSES) as u32).collect();
    for (point, &label) in labels.iter().enumerate() {
        let row = logits.row_mut(point);
        for logit in row.iter_mut() {
            *logit = random.normal() as f32;
        }
        row[label as usize] += 2.5;
    }
    (logits, labels)
}

/// Class probabilities from logits.
fn softmax(mut logits: Matrix) -> Matrix {
    for point in 0..logits.rows() {
        let row = logits.row_mut(point);
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = row.iter().map(|value| (value - largest).exp()).sum();
        for value in row {
            *value = (*value - largest).exp() / sum;
        }
    }
    logits
}

/// A score of your own, small where a label fits well: how far its probability is below the largest of the others.
fn margin(row: &[f32], label: usize) -> f64 {
    let others = row.iter().enumerate().filter(|(other, _)| *other != label).map(|(_, &value)| value);
    f64::from(others.fold(0.0, f32::max)) - f64::from(row[label])
}

fn report(name: &str, sets: &Sets, labels: &[u32]) -> Result<()> {
    let metrics = Metrics::new(sets, labels, CLASSES, ALPHA, None)?;
    println!("{name:6}  coverage {:.3}, {:.2} labels in a set", metrics.coverage, metrics.size);
    Ok(())
}

fn main() -> Result<()> {
    let context = Context::new(0)?;
    // Calibration points are points that the classifier was not trained on, with their labels.
    let ((calibration, labels), (queries, truth)) = (logits(1000, 1), logits(2000, 2));
    let (calibration, queries) = (softmax(calibration), softmax(queries));

    // LAC and APS share one look at the calibration points. The seed draws the random part of APS.
    let split = SplitConformal::new(&calibration, &labels, Some(0), &context)?;
    let cut = |score| Ok((score, split.threshold(score, ALPHA)?.value));
    let cuts = [cut(RankedScore::Lac)?, cut(RankedScore::Aps)?];
    for (name, sets) in ["LAC", "APS"].iter().zip(split.sets(&queries, &cuts, &context)) {
        report(name, &sets, &truth)?;
    }

    // Your own: the scores of the calibration points' true labels give a threshold, and every label of a query is compared.
    let own = labels.iter().enumerate().map(|(point, &label)| margin(calibration.row(point), label as usize));
    let threshold = CalibrationScores::new(own.collect())?.threshold(ALPHA)?;
    let fits = |query: usize, label: u32| margin(queries.row(query), label as usize) <= threshold.value;
    let set = |query| (0..CLASSES as u32).filter(move |&label| fits(query, label));
    report("margin", &(0..queries.rows()).map(set).collect(), &truth)
}
