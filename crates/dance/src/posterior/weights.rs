//! **Stacking**: the weights `w_j` of the experts j. They are the coefficients, at least 0, of a conditional logit
//! `p(y) ∝ exp Σ_j w_j e_j(y)`, which is fitted to log posteriors `e_j` of held-out points.
//!
//! Newton's method minimises the log loss, which is convex in the weights. A step that would make a weight negative
//! stops at 0. Cost: a few dozen passes over k²·n·c numbers, for k experts, n points and c classes.

use std::ops::Range;

use crate::context::Context;
use crate::numeric::matrix::Matrix;

/// The largest number of Newton steps.
const STEPS: usize = 60;
/// The number of points in a parallel task.
const PART: usize = 128;
/// The L2 penalty on the weights. It keeps the Hessian definite if two experts have equal log posteriors.
const PENALTY: f64 = 1e-4;
/// An expert is dropped if the log loss without it is larger by less than this share.
const MIN_GAIN: f64 = 2e-3;

/// A conditional logit on log posteriors of labelled points, one table per expert.
pub(crate) struct ConditionalLogit<'a> {
    pub(crate) tables: Vec<&'a Matrix<f64>>,
    pub(crate) labels: &'a [u32],
    pub(crate) context: &'a Context<'a>,
}

/// The weight of every expert, and the mean log loss with these weights, penalty included.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StackWeights {
    pub(crate) weights: Vec<f64>,
    pub(super) loss: f64,
}

impl ConditionalLogit<'_> {
    /// Returns the best weights after backward elimination. Experts that hardly lower the log loss are dropped and get
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

    /// Returns the best weights of the given experts; all other experts have weight 0.
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

    /// Returns the scale of an expert's log posteriors: their standard deviation over labels, averaged over points.
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

    /// Writes the weighted sum of a point's log posteriors to `out`.
    fn row(&self, weights: &[f64], row: usize, out: &mut [f64]) {
        out.fill(0.0);
        for (table, &weight) in self.tables.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            for (out, &log_posterior) in out.iter_mut().zip(table.row(row)) {
                *out += weight * log_posterior;
            }
        }
    }

    /// Returns the weighted sum of the experts' log posteriors for every point.
    pub(crate) fn weighted(&self, weights: &[f64]) -> Matrix<f64> {
        let mut all = Matrix::<f64>::zeros(self.labels.len(), self.classes());
        (0..self.labels.len()).for_each(|row| self.row(weights, row, all.row_mut(row)));
        all
    }

    /// Returns the mean log loss plus the penalty.
    pub(super) fn loss(&self, weights: &[f64]) -> f64 {
        let total: f64 = self.losses(weights).iter().sum();
        let cost = weights.iter().map(|weight| weight * weight).sum::<f64>();
        total / self.labels.len().max(1) as f64 + PENALTY * cost
    }

    /// Returns the log loss `-ln p(y)` of every point, where y is its label.
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

    /// Calls `work` on consecutive ranges of the points and returns its results in order. The ranges do not depend on
    /// the number of threads, so sums of the results do not either.
    fn in_parts<T: Send>(&self, work: impl Fn(Range<usize>) -> T + Sync + Send) -> Vec<T> {
        let n = self.labels.len();
        self.context.map(n.div_ceil(PART), |part| work(part * PART..((part + 1) * PART).min(n)))
    }

    /// Returns the sums over `points` that enter the gradient and the lower triangle of the Hessian.
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

/// Returns `ln Σ exp(value)` over `values`.
pub(crate) fn log_sum(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + values.iter().map(|value| (value - most).exp()).sum::<f64>().ln()
}

/// Solves the part of a symmetric system with the rows and columns `active`, by elimination. Returns `None` if `active`
/// is empty or this part is singular.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// Fitted weights satisfy the Karush-Kuhn-Tucker conditions: the gradient is 0 for positive weights and not
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
}
