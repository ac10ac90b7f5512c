//! Which given labels are wrong, as a list with a rate of false discoveries.
//!
//! **Against trusted points**: conformal p-values of the given labels, by a model whose calibration points are labelled right, and the rule of
//! Benjamini and Hochberg. With a score that other points have fixed these p-values are positively dependent through the
//! shared calibration points, for which the rule holds: the expected share of right labels in the list is at most what was asked.
//!
//! **Without any trusted point** p-values cannot do it: the errors are among the points that every label is compared with, so
//! the k-th smallest p-value is k/n whatever there is to find. What tells errors from labels that are merely hard is where they fall. A
//! given label is a draw from
//!
//! ```text
//! Σ_t w_t · p(y|x)^(1/t) / Σ_y p(y|x)^(1/t)  +  Σ_m v_m · [y among the m most probable]/m  +  ε/c
//! ```
//! the posterior of experts that have not seen the point, at temperatures t from twice as sure as it is to half as sure (labels that people
//! disagree on fall on classes that are near); any law that does not rise with the rank of the label and ends at half of the classes, as a mixture of flat ones
//! (points that the experts misjudge, however sure they are); and an error, which falls anywhere. The weights follow by maximum likelihood,
//! which has one largest value, and the probability that a label is an error from the last part. What tells errors from all else is thus
//! how many labels fall on the farther half of the classes. The list is the longest whose mean probability of being right is at most what
//! was asked.
//!
//! The rate holds as far as that law does: if right labels are spread as such a mixture says, and errors fall on all classes
//! alike. Then, given the points and labels, every listed label is right with the
//! probability that was counted. Errors that the data had before anyone looked count as errors. Those that fall on near classes are not told
//! from hard labels: they stay out of the list rather than into it.

use crate::context::Context;

/// Temperatures of the posterior.
const TEMPERATURES: [f64; 3] = [0.5, 1.0, 2.0];
/// Steps of expectation and maximisation.
const STEPS: usize = 300;
/// Labels that all steps together pass over at least: few labels say little, and take more steps, which cost nothing there.
const PASSED: usize = 450_000;

/// What is known about the given labels of points.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelErrors {
    /// The probability that each label is an error.
    pub probability: Vec<f64>,
    /// The share of points whose label conforms no better: a p-value only for what comes next, since errors are among them.
    pub p_values: Vec<f64>,
    /// How much more probable the best other label is, as a log ratio: what to sort by.
    pub odds: Vec<f64>,
    /// That label.
    pub suggested: Vec<u32>,
    /// The most probable of all labels.
    pub best: Vec<u32>,
    /// The share of labels that are errors.
    pub share: f64,
}

impl LabelErrors {
    /// From log posteriors of every label (points × classes) by experts that have not seen the point. At least two classes.
    pub(crate) fn new(logs: &[f64], classes: usize, labels: &[u32], context: &Context<'_>) -> Self {
        let row = |at: usize| &logs[at * classes..(at + 1) * classes];
        let own: Vec<f64> = labels.iter().enumerate().map(|(at, &label)| row(at)[label as usize]).collect();
        let largest = |at: usize, without: Option<u32>| {
            let others = (0..classes as u32).filter(|&label| Some(label) != without);
            others.fold(None, |best: Option<u32>, label| match best {
                Some(best) if row(at)[best as usize] >= row(at)[label as usize] => Some(best),
                _ => Some(label),
            })
        };
        let rows = 0..labels.len();
        let suggested: Vec<u32> =
            rows.clone().map(|at| largest(at, Some(labels[at])).unwrap_or(labels[at])).collect();
        let best = rows.clone().map(|at| largest(at, None).unwrap_or(labels[at])).collect();
        let odds = rows.map(|at| row(at)[suggested[at] as usize] - own[at]).collect();
        let mut sorted = own.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let no_better = |value: &f64| sorted.partition_point(|other| other <= value) as f64;
        let p_values = own.iter().map(|value| no_better(value) / labels.len().max(1) as f64).collect();
        let (share, probability) = errors(&parts(logs, classes, labels, context), labels.len());
        Self { probability, p_values, odds, suggested, best, share }
    }

    /// The longest list whose mean probability of being right is at most `fdr`, most probable errors first.
    pub fn list(&self, fdr: f64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.probability.len()).collect();
        order.sort_by(|&a, &b| self.probability[b].total_cmp(&self.probability[a]).then(a.cmp(&b)));
        let (mut right, mut length) = (0.0, 0);
        for (place, &row) in order.iter().enumerate() {
            right += 1.0 - self.probability[row];
            if right > fdr * (place + 1) as f64 {
                break; // what follows is less probable, so the mean only grows
            }
            length = place + 1;
        }
        order.truncate(length);
        order
    }
}

/// How probable every given label is under each part of the law, errors last.
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
    // Labels that are equally probable share the better place: rather right than wrong.
    let before = |(row, &label): (&[f64], &u32)| row.iter().filter(|&&log| log > row[label as usize]).count();
    let before: Vec<usize> = given().map(before).collect();
    for most in nearest(classes) {
        let flat = |&before: &usize| if before < most { 1.0 / most as f64 } else { 0.0 };
        parts.push(before.iter().map(flat).collect());
    }
    parts.push(vec![1.0 / classes as f64; labels.len()]);
    parts
}

/// Numbers of nearest classes that flat laws are over: doubled up to half of all.
fn nearest(classes: usize) -> Vec<usize> {
    let half = classes / 2;
    let mut all: Vec<usize> =
        (1..usize::BITS).map(|power| 1 << power).take_while(|&most| most < half).collect();
    all.extend((half > 1).then_some(half));
    all
}

/// The share of the last part, and every label's probability of being drawn by it.
fn errors(parts: &[Vec<f64>], n: usize) -> (f64, Vec<f64>) {
    let count = parts.len();
    let by_label: Vec<f64> = (0..n * count).map(|at| parts[at % count][at / count]).collect();
    let mut weights = vec![1.0 / count as f64; count];
    let mut errors = vec![0.0; n];
    let mut each = vec![0.0; count];
    for _ in 0..STEPS.max(PASSED / n.max(1)) {
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

/// The rule of Benjamini and Hochberg: the rows to reject at a rate of false discoveries, smallest p-value first.
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

    /// A label in proportion to `weights`.
    fn draw(weights: &[f64], random: &mut Random) -> usize {
        let mut rest = random.uniform() * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        drawn.unwrap_or(0)
    }

    /// Log posteriors, labels of which some are errors, and which. Of the others the share `misjudged` falls anywhere among the nearer half.
    fn drawn(classes: usize, misjudged: f64, random: &mut Random) -> (Vec<f64>, Vec<u32>, Vec<bool>) {
        let (mut logs, mut labels, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..2000 {
            let weights: Vec<f64> = (0..classes).map(|_| (5.0 * random.normal()).exp()).collect();
            let total: f64 = weights.iter().sum();
            logs.extend(weights.iter().map(|weight| (weight / total).ln()));
            let mut order: Vec<usize> = (0..classes).collect();
            order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
            let near = random.uniform() < misjudged;
            let label = if near { order[random.below(classes / 2)] } else { draw(&weights, random) };
            let error = random.uniform() < 0.05;
            errors.push(error);
            let other = (label + 1 + random.below(classes - 1)) % classes;
            labels.push(if error { other } else { label } as u32);
        }
        (logs, labels, errors)
    }

    /// Labels drawn by the very law that is supposed: the rate holds, and errors are found. Without the flat parts of the law it does not
    /// where points are misjudged.
    #[test]
    fn a_list_has_the_false_discoveries_that_were_asked_for() {
        let context = Context::new(1).unwrap();
        let (classes, plantings) = (20, 20);
        for (fdr, misjudged) in [(0.05, 0.0), (0.2, 0.0), (0.1, 0.1)] {
            let (mut rates, mut found, mut planted) = ([0.0; 2], 0, 0);
            for seed in 0..plantings {
                let (logs, labels, errors) = drawn(classes, misjudged, &mut Random::new(seed, 71));
                let judged = LabelErrors::new(&logs, classes, &labels, &context);
                let mut alone = parts(&logs, classes, &labels, &context);
                alone.drain(TEMPERATURES.len()..TEMPERATURES.len() + nearest(classes).len());
                let (share, probability) = super::errors(&alone, labels.len());
                let alone = LabelErrors { probability, share, ..judged.clone() };
                for (rate, judged) in rates.iter_mut().zip([&judged, &alone]) {
                    let list = judged.list(fdr);
                    let right = list.iter().filter(|&&row| !errors[row]).count();
                    *rate += right as f64 / list.len().max(1) as f64 / plantings as f64;
                }
                found += judged.list(fdr).iter().filter(|&&row| errors[row]).count();
                planted += errors.iter().filter(|&&error| error).count();
            }
            let [rate, alone] = rates;
            assert!(rate < fdr + 0.05, "{rate} false discoveries where {fdr} were asked for");
            assert!(found * 20 > planted, "{found} of {planted} errors found at {fdr}");
            assert!(misjudged == 0.0 || alone > fdr + 0.05, "{alone} false discoveries without flat parts");
        }
    }

    #[test]
    fn flat_laws_end_at_half_of_the_classes() {
        assert_eq!(nearest(47), [2, 4, 8, 16, 23]);
        assert_eq!(nearest(16), [2, 4, 8]);
        assert_eq!(nearest(5), [2]);
        assert!(nearest(3).is_empty() && nearest(2).is_empty());
        // The second of four labels: among two and more, not the last of them.
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
        let judged = LabelErrors::new(&logs, 3, &labels, &context);
        assert_eq!((judged.best[7], judged.suggested[7], judged.suggested[8]), (0, 0, 1));
        assert!(judged.odds[7] > 4.0 && judged.odds[8] < -4.0);
        assert_eq!((judged.p_values[7], judged.p_values[8]), (1.0 / 60.0, 1.0));
        assert!(judged.probability[7] > judged.probability[8]);
    }
}
