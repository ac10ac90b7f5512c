//! **Stacking**: the weights `w_j` of the experts j. They are the coefficients, at least 0, of a conditional logit
//! `p(y) ∝ exp Σ_j w_j e_j(y)`, which is fitted to log posteriors `e_j` of held-out points.
//!
//! Newton's method minimises the log loss, which is convex in the weights. A step that would make a weight negative
//! stops at 0. Cost: a few dozen passes over k²·n·c numbers, for k experts, n points and c classes.
//!
//! **Class offsets** are subtracted from scores, so that the coverage of classes becomes more equal.
//!
//! The offset of a class is a share of its shrunken effect. The effect is the mean score of the k points of the class,
//! less the overall mean. It is partly chance, so it shrinks by the factor `k/(k + v/u)`, where v is the variance of
//! scores within classes and u the variance of the class means. Both come from the analysis of variance.
//!
//! The share is at most one half, because the smallest sets and balanced classes are different goals. Sets are smallest
//! without offsets. A small offset enlarges sets in second order only, and balances classes in first order. The share
//! depends on the data, so it is chosen by cross-fitting: each half of the points uses the effects of the other half.
//! The largest share is taken that does not enlarge sets, up to chance.

use std::ops::Range;

use crate::context::Context;
use crate::numeric::matrix::Matrix;
use crate::posterior::maps::log_sum;
use crate::posterior::settings::MOST_OFFSET;

/// The largest number of steps of Newton's method.
const STEPS: usize = 60;
/// The number of points in a parallel task.
const PART: usize = 128;
/// The L2 penalty on the weights of the experts. It keeps the Hessian definite if two experts have equal log
/// posteriors.
const PENALTY: f64 = 1e-4;
/// The largest relative growth of the log loss at which an expert may be left out.
const MIN_GAIN: f64 = 2e-3;

/// Shares that are tried for class offsets, largest first. A class offset is a share of the class effect, which the
/// [module](self) defines.
const SHARES: [f64; 4] = [0.5, 0.375, 0.25, 0.125];
/// Error levels α at which the sizes of prediction sets are compared.
const LEVELS: [f64; 2] = [0.1, 0.05];
/// The largest accepted growth of the mean set size through class offsets, as a share of the size. Two standard errors
/// are added to the growth before the comparison.
const GROWTH: f64 = 0.01;

/// A conditional logit: label probabilities `p(y) ∝ exp Σ_j w_j e_j(y)` with a weight `w_j` for every expert j.
/// `tables` holds the log posteriors `e_j` of labelled points, one table per expert.
pub(crate) struct ConditionalLogit<'a> {
    pub(crate) tables: Vec<&'a Matrix<f64>>,
    pub(crate) labels: &'a [u32],
    pub(crate) context: &'a Context<'a>,
}

/// The weight of every expert, and the mean log loss with these weights. The loss includes the penalty on the weights.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StackWeights {
    pub(crate) weights: Vec<f64>,
    pub(super) loss: f64,
}

impl ConditionalLogit<'_> {
    /// Returns the best weights of the experts after backward elimination. Experts that hardly lower the log loss get
    /// weight 0.
    pub(super) fn choose(&self) -> StackWeights {
        let mut kept: Vec<usize> = (0..self.tables.len()).collect();
        let mut best = self.fit(&kept);
        loop {
            kept.retain(|&expert| best.weights[expert] > 0.0);
            if kept.len() <= 1 {
                return best;
            }
            let tries = kept.iter().map(|&expert| {
                let others: Vec<usize> = kept.iter().copied().filter(|&other| other != expert).collect();
                self.fit(&others)
            });
            let Some(next) = tries.min_by(|a, b| a.loss.total_cmp(&b.loss)) else { return best };
            if next.loss > best.loss * (1.0 + MIN_GAIN) {
                return best;
            }
            best = next;
        }
    }

    /// Returns the weights that minimise the log loss if only the given experts may have a weight above 0.
    pub(crate) fn fit(&self, experts: &[usize]) -> StackWeights {
        let mut weights = vec![0.0; self.tables.len()];
        // All experts start with equal contributions, whatever the scale of their log posteriors.
        for &expert in experts {
            weights[expert] = 1.0 / (experts.len() as f64 * self.scale(expert));
        }
        let mut loss = self.loss(&weights);
        for _ in 0..STEPS {
            let (gradient, hessian) = self.derivatives(&weights, experts);
            // Weights at 0 that would become negative are held there.
            let active: Vec<usize> =
                (0..experts.len()).filter(|&at| weights[experts[at]] > 0.0 || gradient[at] < 0.0).collect();
            let Some(step) = solve(&hessian, &gradient, &active) else { break };
            let mut length = 1.0;
            // Halve the step until the loss falls.
            let better = loop {
                let mut next = weights.clone();
                for (&at, step) in active.iter().zip(&step) {
                    let weight = &mut next[experts[at]];
                    *weight = (*weight - length * step).max(0.0);
                }
                let after = self.loss(&next);
                if after < loss {
                    break Some((next, after));
                }
                length *= 0.5;
                if length < 1e-6 {
                    break None;
                }
            };
            let Some((next, after)) = better else { break };
            let gained = loss - after;
            (weights, loss) = (next, after);
            if gained < 1e-10 {
                break;
            }
        }
        StackWeights { weights, loss }
    }

    /// Returns the scale of an expert's log posteriors: the standard deviation over the labels, averaged over the
    /// points.
    fn scale(&self, expert: usize) -> f64 {
        let table = self.tables[expert];
        let of = |row: usize| {
            let row = table.row(row);
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            (row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
        };
        let mean = (0..table.rows()).map(of).sum::<f64>() / table.rows().max(1) as f64;
        mean.max(1e-12)
    }

    /// Writes the weighted sum of the experts' log posteriors to `out`, for the point with the index `row`.
    fn row(&self, weights: &[f64], row: usize, out: &mut [f64]) {
        out.fill(0.0);
        for (table, &weight) in self.tables.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            for (out, &log_posterior) in out.iter_mut().zip(table.row(row)) {
                *out += weight * log_posterior;
            }
        }
    }

    /// Returns the weighted sum of the experts' log posteriors: one row per point, one column per label.
    pub(crate) fn weighted(&self, weights: &[f64]) -> Matrix<f64> {
        let mut all = Matrix::<f64>::zeros(self.labels.len(), self.classes());
        (0..self.labels.len()).for_each(|row| self.row(weights, row, all.row_mut(row)));
        all
    }

    /// Returns the mean log loss of the points under the given weights, plus the penalty on the weights.
    pub(super) fn loss(&self, weights: &[f64]) -> f64 {
        let total: f64 = self.losses(weights).iter().sum();
        let cost = weights.iter().map(|weight| weight * weight).sum::<f64>();
        total / self.labels.len().max(1) as f64 + PENALTY * cost
    }

    /// Returns the log loss `-ln p(y)` of every point under the given weights, where y is the label of the point.
    pub(super) fn losses(&self, weights: &[f64]) -> Vec<f64> {
        let of = |points: Range<usize>| {
            let mut row = vec![0.0; self.classes()];
            let of = |point: usize| {
                self.row(weights, point, &mut row);
                log_sum(&row) - row[self.labels[point] as usize]
            };
            points.map(of).collect::<Vec<f64>>()
        };
        self.in_parts(of).concat()
    }

    fn classes(&self) -> usize {
        self.tables.first().map_or(0, |table| table.cols())
    }

    /// Calls `work` on consecutive ranges of the points and returns the results in order. The ranges are the same for
    /// every number of threads, and so are sums of the results.
    fn in_parts<T: Send>(&self, work: impl Fn(Range<usize>) -> T + Sync + Send) -> Vec<T> {
        let n = self.labels.len();
        self.context.map(n.div_ceil(PART), |part| work(part * PART..((part + 1) * PART).min(n)))
    }

    /// Returns two sums over `points`: the terms of the gradient and those of the Hessian. Only the lower triangle of
    /// the Hessian is filled.
    fn derivatives_of(&self, points: Range<usize>, weights: &[f64], experts: &[usize]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let k = experts.len();
        let (mut gradient, mut hessian) = (vec![0.0; k], vec![vec![0.0; k]; k]);
        let mut row = vec![0.0; self.classes()];
        for point in points {
            let label = self.labels[point];
            self.row(weights, point, &mut row);
            let total = log_sum(&row);
            for value in &mut row {
                *value = (*value - total).exp();
            }
            let rows: Vec<&[f64]> = experts.iter().map(|&expert| self.tables[expert].row(point)).collect();
            let means: Vec<f64> = rows.iter().map(|own| row.iter().zip(*own).map(|(p, e)| p * e).sum()).collect();
            for a in 0..k {
                gradient[a] += means[a] - rows[a][label as usize];
                for b in 0..=a {
                    let product: f64 = row
                        .iter()
                        .zip(rows[a].iter().zip(rows[b]))
                        .map(|(p, (x, y))| p * (x - means[a]) * (y - means[b]))
                        .sum();
                    hessian[a][b] += product;
                }
            }
        }
        (gradient, hessian)
    }

    /// Returns the gradient and the Hessian of the penalised log loss with respect to the weights of `experts`.
    fn derivatives(&self, weights: &[f64], experts: &[usize]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let k = experts.len();
        let (mut gradient, mut hessian) = (vec![0.0; k], vec![vec![0.0; k]; k]);
        for (part, rows) in self.in_parts(|points| self.derivatives_of(points, weights, experts)) {
            gradient.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
            for (sums, row) in hessian.iter_mut().zip(rows) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
        let n = self.labels.len().max(1) as f64;
        for (gradient, &expert) in gradient.iter_mut().zip(experts) {
            *gradient = *gradient / n + 2.0 * PENALTY * weights[expert];
        }
        for a in 0..k {
            let (above, row) = hessian.split_at_mut(a);
            for (b, value) in row[0].iter_mut().enumerate().take(a + 1) {
                *value = *value / n + if a == b { 2.0 * PENALTY } else { 0.0 };
                if b < a {
                    above[b][a] = *value;
                }
            }
        }
        (gradient, hessian)
    }
}

/// Solves a linear system by elimination. Its matrix is the part of a symmetric `matrix` with the rows and columns
/// `active`. Returns `None` if `active` is empty or this part is singular.
fn solve(matrix: &[Vec<f64>], right: &[f64], active: &[usize]) -> Option<Vec<f64>> {
    let k = active.len();
    let mut rows: Vec<Vec<f64>> =
        active.iter().map(|&a| active.iter().map(|&b| matrix[a][b]).chain([right[a]]).collect()).collect();
    for pivot in 0..k {
        let largest = (pivot..k).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, largest);
        if !(rows[pivot][pivot].abs() > 1e-300) {
            return None;
        }
        let (done, below) = rows.split_at_mut(pivot + 1);
        for row in below {
            let factor = row[pivot] / done[pivot][pivot];
            for (value, &above) in row[pivot..].iter_mut().zip(&done[pivot][pivot..]) {
                *value -= factor * above;
            }
        }
    }
    let mut solution = vec![0.0; k];
    for row in (0..k).rev() {
        let known: f64 = (row + 1..k).map(|column| rows[row][column] * solution[column]).sum();
        solution[row] = (rows[row][k] - known) / rows[row][row];
    }
    (k > 0).then_some(solution)
}

/// Returns the offset of every class, which is subtracted from scores. `log_posterior` is cross-fitted: experts trained
/// on the other points predicted the first `half` points, and experts trained on these predicted the others.
pub(super) fn offsets(log_posterior: &Matrix<f64>, labels: &[u32], half: usize, classes: usize) -> Vec<f64> {
    let scored = FitScores::new(log_posterior, labels, half, classes);
    let plain = LEVELS.map(|alpha| scored.sizes(0.0, alpha));
    let keeps_sizes = |share: &f64| {
        let grown = |(&alpha, plain): (&f64, &Vec<f64>)| growth(&scored.sizes(*share, alpha), plain);
        LEVELS.iter().zip(&plain).all(|level| grown(level) <= GROWTH)
    };
    let share = SHARES.into_iter().find(keeps_sizes).unwrap_or(0.0);
    let off = |off: f64| (share * off).clamp(-MOST_OFFSET, MOST_OFFSET);
    class_effects(&scored.own, labels, classes).into_iter().map(off).collect()
}

/// Returns the relative growth of the mean set size from `before` to `after`, plus two standard errors. Both slices
/// hold the set size of every point.
fn growth(after: &[f64], before: &[f64]) -> f64 {
    let n = before.len() as f64;
    let mean = after.iter().zip(before).map(|(a, b)| a - b).sum::<f64>() / n;
    let squares: f64 = after.iter().zip(before).map(|(a, b)| (a - b - mean).powi(2)).sum();
    (mean * n + 2.0 * squares.sqrt()) / before.iter().sum::<f64>().max(1.0)
}

/// The scores of the fit points, predicted for each half by experts trained on the other half, and the [class
/// effects](self) of each half.
struct FitScores<'a> {
    labels: &'a [u32],
    /// The score of every label of every point, one point after the other.
    scores: Vec<f64>,
    /// The score of every point for its own label.
    own: Vec<f64>,
    /// The number of points in the first half.
    half: usize,
    /// The effects of all classes, computed from the first half alone and from the second half alone.
    effects: [Vec<f64>; 2],
    classes: usize,
}

impl<'a> FitScores<'a> {
    fn new(log_posterior: &Matrix<f64>, labels: &'a [u32], half: usize, classes: usize) -> Self {
        let mut scores = Vec::with_capacity(labels.len() * classes);
        let mut own = Vec::with_capacity(labels.len());
        for (row, &label) in labels.iter().enumerate() {
            let row = log_posterior.row(row);
            let total = log_sum(row);
            scores.extend(row.iter().map(|value| total - value));
            own.push(total - row[label as usize]);
        }
        let [first, second] = [0..half, half..labels.len()];
        let of = |points: Range<usize>| class_effects(&own[points.clone()], &labels[points], classes);
        let effects = [of(first), of(second)];
        Self { labels, scores, own, half, effects, classes }
    }

    /// Returns the class effects that apply to a point. They are computed from the half that does not contain the
    /// point.
    fn effects(&self, point: usize) -> &[f64] {
        &self.effects[usize::from(point < self.half)]
    }

    /// Returns the size of every point's prediction set at error level `alpha`. The class offsets are `share` times the
    /// class effects.
    fn sizes(&self, share: f64, alpha: f64) -> Vec<f64> {
        let own = self.own.iter().zip(self.labels).enumerate();
        let mut sorted: Vec<f64> =
            own.map(|(at, (score, &label))| score - share * self.effects(at)[label as usize]).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = ((1.0 - alpha) * (sorted.len() + 1) as f64).ceil() as usize;
        let threshold = sorted.get(place.max(1) - 1).copied().unwrap_or(f64::INFINITY);
        let rows = self.scores.chunks_exact(self.classes).enumerate();
        rows.map(|(at, row)| {
            let each = row.iter().zip(self.effects(at));
            each.filter(|&(score, off)| score - share * off <= threshold).count() as f64
        })
        .collect()
    }
}

/// Returns the effect of every class: the mean score of its points less the mean of all scores, shrunk towards 0.
fn class_effects(scores: &[f64], labels: &[u32], classes: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); classes];
    for (&score, &label) in scores.iter().zip(labels) {
        let (sum, count) = &mut sums[label as usize];
        *sum += score;
        *count += 1.0;
    }
    let n = scores.len() as f64;
    let average = scores.iter().sum::<f64>() / n;
    let present = || sums.iter().filter(|(_, count)| *count > 0.0);
    let within: f64 = scores
        .iter()
        .zip(labels)
        .map(|(&score, &label)| (score - sums[label as usize].0 / sums[label as usize].1).powi(2))
        .sum();
    let between: f64 = present().map(|(sum, count)| count * (sum / count - average).powi(2)).sum();
    let classes_present = present().count() as f64;
    let v = within / (n - classes_present);
    let squares = present().map(|(_, count)| count * count).sum::<f64>();
    let u = (between - (classes_present - 1.0) * v) / (n - squares / n);
    if !(u > 0.0 && v.is_finite()) {
        return vec![0.0; classes];
    }
    sums.iter().map(|(sum, count)| (sum - count * average) / (count + v / u)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// Fitted weights satisfy the Karush-Kuhn-Tucker conditions. The gradient is 0 for positive weights and not
    /// negative for weights of 0. The test computes the gradient from its formula in plain loops.
    #[test]
    fn weights_satisfy_the_kkt_conditions() {
        let context = Context::new(2).unwrap();
        let mut random = Random::new(12, 4);
        let (mut positive, mut zero) = (0, 0);
        for case in 0..40 {
            let (n, classes, experts) = (40 + 7 * case, 2 + case % 5, 1 + case % 4);
            let labels: Vec<u32> = (0..n).map(|_| random.below(classes) as u32).collect();
            let tables: Vec<Matrix<f64>> = (0..experts)
                .map(|expert| {
                    // Some experts carry information on the label, some carry none, and some are systematically wrong.
                    let strength = [2.0, 0.5, 0.0, -1.0][(case + expert) % 4] * 10f64.powi((case % 5) as i32 - 2);
                    let value = |at: usize, random: &mut Random| {
                        let own = f64::from(u8::from(labels[at / classes] as usize == at % classes));
                        strength * own + strength.abs().max(0.1) * random.normal()
                    };
                    let values = (0..n * classes).map(|at| value(at, &mut random)).collect();
                    Matrix::new(values, n, classes).unwrap()
                })
                .collect();
            let logit = ConditionalLogit { tables: tables.iter().collect(), labels: &labels, context: &context };
            let all: Vec<usize> = (0..experts).collect();
            let found = logit.fit(&all);
            for (expert, &weight) in found.weights.iter().enumerate() {
                let mut gradient = 2.0 * PENALTY * weight;
                let mut curvature = 2.0 * PENALTY;
                for point in 0..n {
                    let score = |label: usize| -> f64 {
                        tables.iter().zip(&found.weights).map(|(table, w)| w * table.row(point)[label]).sum()
                    };
                    let total: f64 = (0..classes).map(|label| score(label).exp()).sum();
                    let own = tables[expert].row(point);
                    let mean: f64 = (0..classes).map(|label| score(label).exp() / total * own[label]).sum();
                    let square: f64 = (0..classes).map(|label| score(label).exp() / total * own[label].powi(2)).sum();
                    gradient += (mean - own[labels[point] as usize]) / n as f64;
                    curvature += (square - mean * mean) / n as f64;
                }
                // A step lowers the loss by about gradient²/(2·curvature), and steps end below 1e-10.
                let tolerance = 3.0 * (2e-10 * curvature).sqrt();
                assert!(gradient > -tolerance, "case {case}: {gradient} at weight {weight}");
                assert!(weight == 0.0 || gradient < tolerance, "case {case}: {gradient} at weight {weight}");
                if weight > 0.0 { positive += 1 } else { zero += 1 }
            }
        }
        assert!(positive > 20 && zero > 10, "{positive} positive weights and {zero} of 0");
    }

    /// The expected effects are computed by hand. Scores 1, 3 and 5, 7 have a variance within classes of 4/(4-2) = 2
    /// and between classes of (16-2)/(4-8/4) = 7. So the differences of ±2 shrink by the factor 2/(2 + 2/7).
    #[test]
    fn effects_of_classes_shrink() {
        let found = class_effects(&[1.0, 3.0, 5.0, 7.0], &[0, 0, 2, 2], 3);
        for (found, expected) in found.iter().zip([-1.75, 0.0, 1.75]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// Class effects measure difficulty, not chance. Equal classes have effects near 0, and different classes have
    /// effects near the differences of their means.
    #[test]
    fn chance_is_not_taken_for_difficulty() {
        let random = &mut Random::new(1, 2);
        let labels: Vec<u32> = (0..600).map(|at| at % 60).collect();
        for spread in [0.0, 3.0] {
            let own: Vec<f64> = (0..60).map(|_| spread * random.normal()).collect();
            let scores: Vec<f64> = labels.iter().map(|&label| own[label as usize] + random.normal()).collect();
            let found = class_effects(&scores, &labels, 60);
            let center = own.iter().sum::<f64>() / 60.0;
            for (found, own) in found.iter().zip(own) {
                // The standard error of a mean of ten is 0.32.
                assert!((found - (own - center)).abs() < 0.32 * if spread > 0.0 { 4.0 } else { 1.0 });
            }
        }
    }

    /// Draws log posteriors of random points in 20 classes, and their labels. The advantage of the own label grows from
    /// 3 in the first class to 6.8 in the last.
    fn drawn(points: usize, random: &mut Random) -> (Matrix<f64>, Vec<u32>) {
        let labels: Vec<u32> = (0..points).map(|_| random.below(20) as u32).collect();
        let mut log_posterior = Matrix::<f64>::zeros(points, 20);
        for (row, &label) in labels.iter().enumerate() {
            log_posterior.row_mut(row).iter_mut().for_each(|value| *value = random.normal());
            log_posterior.row_mut(row)[label as usize] += 3.0 + 0.2 * f64::from(label);
        }
        (log_posterior, labels)
    }

    /// Class offsets balance the coverage of classes without larger sets. With many points, difficult classes get
    /// larger offsets, and sets of new points do not grow. With few points, all offsets are 0.
    #[test]
    fn offsets_balance_classes_without_larger_sets() {
        let random = &mut Random::new(4, 2);
        let (log_posterior, labels) = drawn(3000, random);
        let off = offsets(&log_posterior, &labels, 1500, 20);
        assert!(off[..6].iter().all(|&off| off > 0.02) && off[14..].iter().all(|&off| off < -0.02), "{off:?}");
        let (log_posterior, labels) = drawn(3000, random);
        let mut fresh = FitScores::new(&log_posterior, &labels, 1500, 20);
        let plain = fresh.sizes(0.0, 0.1).iter().sum::<f64>();
        fresh.effects = [off.clone(), off];
        assert!(fresh.sizes(1.0, 0.1).iter().sum::<f64>() < 1.02 * plain);
        let (log_posterior, labels) = drawn(60, random);
        assert!(offsets(&log_posterior, &labels, 30, 20).iter().all(|&off| off == 0.0));
    }

    #[test]
    fn one_class_or_one_point_per_class_has_no_effect() {
        assert_eq!(class_effects(&[1.0, 2.0], &[1, 1], 2), [0.0, 0.0]);
        assert_eq!(class_effects(&[1.0, 2.0], &[0, 1], 2), [0.0, 0.0]);
        assert_eq!(class_effects(&[], &[], 2), [0.0, 0.0]);
    }
}
