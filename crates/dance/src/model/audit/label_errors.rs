//! Label errors: a list of given labels that are probably wrong, with a false discovery rate.
//!
//! **With trusted points**: the rule of Benjamini and Hochberg lists errors by conformal p-values of the given labels.
//! The p-values come from a model whose calibration points have right labels. If the score function was learned on
//! other points, these p-values are positively dependent through the shared calibration points, and the rule is valid.
//! The expected share of right labels in the list is at most the false discovery rate.
//!
//! **Without trusted points** such p-values find nothing. Every label would be compared with all n points, among which
//! the errors are, so the k-th smallest p-value would always be k/n. A mixture model instead distinguishes errors from
//! difficult labels by the classes that they fall on. Take a point x and its posterior p(y|x) over c classes, computed
//! without x. The given label of x is a draw of y from
//!
//! ```text
//! Σ_t w_t · p(y|x)^(1/t) / Σ_y p(y|x)^(1/t)  +  Σ_m v_m · [y among the m most probable]/m  +  ε/c
//! ```
//! - The first sum is the posterior at several temperatures t, with weights `w_t`. It describes difficult labels, on
//!   which people disagree: these fall on probable classes.
//! - The second sum has uniform laws on the m most probable labels, with weights `v_m`. It approximates any law that
//!   does not rise with the rank of the label and is 0 on the less probable half of the classes. It describes points at
//!   which the experts are wrong, however certain they are.
//! - The last part, with weight ε, is a label error, which falls on any class.
//!
//! Maximum likelihood gives the weights, and the likelihood has a single maximum. The probability that a label is an
//! error is the probability that the last part drew it. The uniform laws do not reach the less probable half of the
//! classes, so the labels there determine the share of errors. The list of errors is the longest whose mean probability
//! of a right label is at most the false discovery rate.
//!
//! The rate is valid if right labels follow such a mixture and errors fall on all classes equally. Then every listed
//! label is right with the computed probability, given points and labels. Errors on probable classes look like
//! difficult labels and are not listed.

use crate::context::Context;

/// The temperatures t of the posterior in the mixture.
const TEMPERATURES: [f64; 3] = [0.5, 1.0, 2.0];
/// The smallest number of EM (expectation maximization) steps that fit the mixture.
const STEPS: usize = 300;
/// The smallest product of the number of EM steps and the number of labels. A small data set needs more steps to
/// converge, and its steps are cheap.
const UPDATES: usize = 450_000;

/// The probabilities that the given labels of points are errors, with the numbers that outputs show beside them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LabelErrors {
    /// The probability that each label is an error.
    pub(super) probability: Vec<f64>,
    /// For each point, the share of all points whose given label has no larger log posterior. In spite of the name it
    /// is no valid p-value, since some of these points have wrong labels.
    pub(super) p_values: Vec<f64>,
    /// For each point, the logarithm of the odds of the most probable other label against the given label.
    pub(super) odds: Vec<f64>,
    /// For each point, the most probable label other than the given one.
    pub(super) suggested: Vec<u32>,
    /// For each point, the most probable of all labels.
    pub(super) best: Vec<u32>,
    /// The estimated share of labels that are errors.
    pub(super) share: f64,
}

impl LabelErrors {
    /// Estimates the probability that each of the given `labels` is an error. `logs` holds the log posterior of every
    /// label at every point, computed without that point (points × classes, at least two classes).
    pub(super) fn new(logs: &[f64], classes: usize, labels: &[u32], context: &Context<'_>) -> Self {
        let row = |at: usize| &logs[at * classes..(at + 1) * classes];
        let own: Vec<f64> = labels.iter().enumerate().map(|(at, &label)| row(at)[label as usize]).collect();
        let largest = |at: usize, without: Option<u32>| {
            let others = (0..classes as u32).filter(|&label| Some(label) != without);
            others.fold(None, |best: Option<u32>, label| match best {
                Some(best) if row(at)[best as usize] >= row(at)[label as usize] => Some(best),
                _ => Some(label),
            })
        };
        // The most probable other label, and the most probable of all labels.
        let rows = 0..labels.len();
        let suggested: Vec<u32> = rows.clone().map(|at| largest(at, Some(labels[at])).unwrap_or(labels[at])).collect();
        let best = rows.clone().map(|at| largest(at, None).unwrap_or(labels[at])).collect();
        let odds = rows.map(|at| row(at)[suggested[at] as usize] - own[at]).collect();
        let mut sorted = own.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let no_better = |value: &f64| sorted.partition_point(|other| other <= value) as f64;
        let p_values = own.iter().map(|value| no_better(value) / labels.len().max(1) as f64).collect();
        let (share, probability) = errors(&parts(logs, classes, labels, context), labels.len());
        Self { probability, p_values, odds, suggested, best, share }
    }

    /// Returns the rows of the label errors at the false discovery rate `fdr`, most probable errors first. The list is
    /// the longest whose mean probability of a right label is at most `fdr`.
    pub(super) fn list(&self, fdr: f64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.probability.len()).collect();
        order.sort_by(|&a, &b| self.probability[b].total_cmp(&self.probability[a]).then(a.cmp(&b)));
        let (mut right, mut length) = (0.0, 0);
        for (place, &row) in order.iter().enumerate() {
            right += 1.0 - self.probability[row];
            if right > fdr * (place + 1) as f64 {
                break; // errors further down are less probable, so the mean only grows
            }
            length = place + 1;
        }
        order.truncate(length);
        order
    }
}

/// Returns, for each part of the [mixture](self), the probability with which this part draws the given label of every
/// point. The last part is the uniform law of errors.
fn parts(logs: &[f64], classes: usize, labels: &[u32], context: &Context<'_>) -> Vec<Vec<f64>> {
    let given = || logs.chunks_exact(classes).zip(labels);
    let own_at = |temperature: f64| -> Vec<f64> {
        let of = |(row, &label): (&[f64], &u32)| {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|log| ((log - most) / temperature).exp()).sum();
            ((row[label as usize] - most) / temperature).exp() / sum
        };
        given().map(of).collect()
    };
    let mut parts = context.map(TEMPERATURES.len(), |at| own_at(TEMPERATURES[at]));
    // Labels of equal probability all get the best of their ranks, so that ties do not look like errors.
    let before = |(row, &label): (&[f64], &u32)| row.iter().filter(|&&log| log > row[label as usize]).count();
    let before: Vec<usize> = given().map(before).collect();
    for most in nearest(classes) {
        let flat = |&before: &usize| if before < most { 1.0 / most as f64 } else { 0.0 };
        parts.push(before.iter().map(flat).collect());
    }
    parts.push(vec![1.0 / classes as f64; labels.len()]);
    parts
}

/// Returns the numbers m for which the mixture has a uniform law on the m most probable labels: 2, 4, 8 … and half of
/// all classes.
fn nearest(classes: usize) -> Vec<usize> {
    let half = classes / 2;
    let mut all: Vec<usize> = (1..usize::BITS).map(|power| 1 << power).take_while(|&most| most < half).collect();
    all.extend((half > 1).then_some(half));
    all
}

/// Fits the weights of the [mixture](self) by EM. Returns the weight of its last part, the errors, and for every label
/// the probability that this part drew it. `parts` holds one list of `n` probabilities for each part of the mixture.
fn errors(parts: &[Vec<f64>], n: usize) -> (f64, Vec<f64>) {
    let count = parts.len();
    let by_label: Vec<f64> = (0..n * count).map(|at| parts[at % count][at / count]).collect();
    let mut weights = vec![1.0 / count as f64; count];
    let mut errors = vec![0.0; n];
    let mut each = vec![0.0; count];
    for _ in 0..STEPS.max(UPDATES / n.max(1)) {
        let mut sums = vec![0.0; count];
        for (parts, error) in by_label.chunks_exact(count).zip(&mut errors) {
            each.iter_mut().zip(parts).zip(&weights).for_each(|((each, part), weight)| *each = part * weight);
            let scale = 1.0 / each.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            sums.iter_mut().zip(&each).for_each(|(sum, part)| *sum += part * scale);
            *error = each[count - 1] * scale;
        }
        weights = sums.iter().map(|sum| sum / n.max(1) as f64).collect();
    }
    (weights.last().copied().unwrap_or(0.0), errors)
}

/// Returns the rows whose hypotheses the rule of Benjamini and Hochberg rejects at the false discovery rate `fdr`,
/// smallest p-value first.
///
/// ```
/// use dance::model::benjamini_hochberg;
/// assert_eq!(benjamini_hochberg(&[0.9, 0.01, 0.04, 0.02], 0.05), [1, 3]); // 0.04 > 3·0.05/4
/// assert_eq!(benjamini_hochberg(&[0.9, 0.01, 0.036, 0.02], 0.05), [1, 3, 2]);
/// ```
pub fn benjamini_hochberg(p_values: &[f64], fdr: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]).then(a.cmp(&b)));
    let passes = |place: &usize| p_values[order[*place]] <= fdr * (place + 1) as f64 / p_values.len() as f64;
    let length = (0..order.len()).rev().find(passes).map_or(0, |place| place + 1);
    order.truncate(length);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// For tests: draws the index of a weight, each with a probability in proportion to `weights`.
    fn draw(weights: &[f64], random: &mut Random) -> usize {
        let mut rest = random.uniform() * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        drawn.unwrap_or(0)
    }

    /// For tests: draws 2,000 points and returns their log posteriors, their labels, and flags that mark errors. A
    /// share `flat` of the right labels is uniform on the more probable half of the classes.
    fn sample(classes: usize, flat: f64, random: &mut Random) -> (Vec<f64>, Vec<u32>, Vec<bool>) {
        let (mut logs, mut labels, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..2000 {
            let weights: Vec<f64> = (0..classes).map(|_| (5.0 * random.normal()).exp()).collect();
            let total: f64 = weights.iter().sum();
            logs.extend(weights.iter().map(|weight| (weight / total).ln()));
            let mut order: Vec<usize> = (0..classes).collect();
            order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
            let near = random.uniform() < flat;
            let label = if near { order[random.below(classes / 2)] } else { draw(&weights, random) };
            let error = random.uniform() < 0.05;
            errors.push(error);
            let other = (label + 1 + random.below(classes - 1)) % classes;
            labels.push(if error { other } else { label } as u32);
        }
        (logs, labels, errors)
    }

    /// Tests labels drawn from the mixture: lists keep the false discovery rate, and errors are found. A mixture
    /// without its uniform laws exceeds the rate if labels come from these laws.
    #[test]
    fn a_list_has_at_most_the_false_discovery_rate() {
        let context = Context::new(1).unwrap();
        let (classes, plantings) = (20, 20);
        for (fdr, flat) in [(0.05, 0.0), (0.2, 0.0), (0.1, 0.1)] {
            let (mut rates, mut found, mut planted) = ([0.0; 2], 0, 0);
            for seed in 0..plantings {
                let (logs, labels, errors) = sample(classes, flat, &mut Random::new(seed, 71));
                let full = LabelErrors::new(&logs, classes, &labels, &context);
                let mut without = parts(&logs, classes, &labels, &context);
                without.drain(TEMPERATURES.len()..TEMPERATURES.len() + nearest(classes).len());
                let (share, probability) = super::errors(&without, labels.len());
                let without = LabelErrors { probability, share, ..full.clone() };
                for (rate, estimate) in rates.iter_mut().zip([&full, &without]) {
                    let list = estimate.list(fdr);
                    let right = list.iter().filter(|&&row| !errors[row]).count();
                    *rate += right as f64 / list.len().max(1) as f64 / plantings as f64;
                }
                found += full.list(fdr).iter().filter(|&&row| errors[row]).count();
                planted += errors.iter().filter(|&&error| error).count();
            }
            let [rate, without] = rates;
            assert!(rate < fdr + 0.05, "{rate} false discoveries at the rate {fdr}");
            assert!(found * 20 > planted, "{found} of {planted} errors found at {fdr}");
            assert!(flat == 0.0 || without > fdr + 0.05, "{without} false discoveries without flat parts");
        }
    }

    #[test]
    fn flat_laws_end_at_half_of_the_classes() {
        assert_eq!(nearest(47), [2, 4, 8, 16, 23]);
        assert_eq!(nearest(16), [2, 4, 8]);
        assert_eq!(nearest(5), [2]);
        assert!(nearest(3).is_empty() && nearest(2).is_empty());
        // The label of 0.3 is the second of four, so it is among the two most probable.
        let logs = [0.4f64, 0.1, 0.3, 0.2].map(f64::ln);
        let found = parts(&logs, 4, &[2], &Context::new(1).unwrap());
        assert_eq!(found[TEMPERATURES.len()..], [vec![0.5], vec![0.25]]);
        assert!((found[1][0] - 0.3).abs() < 1e-12);
    }

    #[test]
    fn a_label_that_fits_is_not_suspected() {
        let context = Context::new(1).unwrap();
        let logs = [0.98f64, 0.01, 0.01].map(f64::ln).repeat(60);
        let mut labels = vec![0u32; 60];
        labels[7] = 2;
        let found = LabelErrors::new(&logs, 3, &labels, &context);
        assert_eq!((found.best[7], found.suggested[7], found.suggested[8]), (0, 0, 1));
        assert!(found.odds[7] > 4.0 && found.odds[8] < -4.0);
        assert_eq!((found.p_values[7], found.p_values[8]), (1.0 / 60.0, 1.0));
        assert!(found.probability[7] > found.probability[8]);
    }
}
