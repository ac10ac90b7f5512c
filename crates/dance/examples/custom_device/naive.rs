//! A device of plain loops in f64: nothing packed, nothing clever, and nothing but the public interface.

use std::sync::Arc;

use dance::device::{
    Candidates, ClassifierHandle, Device, FitPoints, FitSession, IndexHandle, MachineParts, QueryHandle, Regression,
};
use dance::kernel::Kernel;
use dance::{Context, Error, Matrix, Quality, Result};

/// See the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Naive;

/// A matrix of f64, row by row.
type Rows = Vec<Vec<f64>>;

fn rows(matrix: &Matrix) -> Rows {
    (0..matrix.rows()).map(|row| matrix.row(row).iter().map(|&value| f64::from(value)).collect()).collect()
}

fn matrix(rows: &Rows, cols: usize) -> Result<Matrix> {
    Matrix::new(rows.iter().flatten().map(|&value| value as f32).collect(), rows.len(), cols)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(left: &Rows, right: &Rows) -> Rows {
    let column = |at: usize| right.iter().map(|row| row[at]).collect::<Vec<f64>>();
    let columns: Rows = (0..right.first().map_or(0, Vec::len)).map(column).collect();
    left.iter().map(|row| columns.iter().map(|column| dot(row, column)).collect()).collect()
}

impl Device for Naive {
    fn name(&self) -> String {
        "naive".into()
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn fit_bytes(&self, points: FitPoints<'_>, train: usize, held_out: usize) -> u64 {
        8 * (train * train + (train + held_out) * (points.train.cols() + points.classes)) as u64
    }

    fn open_fit<'a>(&self, points: FitPoints<'a>, _: &Context<'_>) -> Result<Box<dyn FitSession + 'a>> {
        let (train, held_out) = (rows(points.train), rows(points.held_out));
        let identity = Vec::new();
        let (solved, kept, chosen, outputs) = (None, None, None, None);
        Ok(Box::new(NaiveFit { points, train, held_out, metric: identity, solved, kept, chosen, outputs }))
    }

    fn open_classifier(&self, machine: MachineParts<'_>, _: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>> {
        let root = rows(machine.root);
        // Mapped points are f32 wherever they are kept, so they are here.
        let centers = rows(&matrix(&times(&rows(machine.train), &root), machine.train.cols())?);
        Ok(Arc::new(NaiveClassifier { root, centers, kernel: machine.kernel, beta: rows(machine.beta) }))
    }

    fn open_index(&self, points: &Matrix, _: &Context<'_>) -> Result<Box<dyn IndexHandle>> {
        Ok(Box::new(NaiveIndex { points: rows(points), reach: Vec::new() }))
    }

    fn inner_products(&self, left: &Matrix, right: &Matrix, _: &Context<'_>) -> Result<Matrix> {
        let right = rows(right);
        let products = rows(left).iter().map(|row| right.iter().map(|other| dot(row, other)).collect()).collect();
        matrix(&products, right.len())
    }
}

/// A regression with the metric it was fitted under.
#[derive(Clone)]
struct Solution {
    metric: Rows,
    beta: Rows,
    ridge: f64,
    /// Outputs at the held-out points.
    held_out: Matrix,
}

struct NaiveFit<'a> {
    points: FitPoints<'a>,
    train: Rows,
    held_out: Rows,
    /// Empty is the identity.
    metric: Rows,
    solved: Option<(Kernel, Solution)>,
    kept: Option<Solution>,
    chosen: Option<Solution>,
    /// Outputs of the last regression, or of the one chosen.
    outputs: Option<Matrix>,
}

impl NaiveFit<'_> {
    fn difference(&self, a: &[f64], b: &[f64]) -> (f64, Vec<f64>) {
        let delta: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        let mapped = if self.metric.is_empty() {
            delta.clone()
        } else {
            self.metric.iter().map(|row| dot(row, &delta)).collect()
        };
        (dot(&delta, &mapped).max(0.0), mapped)
    }

    fn one_hot(&self, row: usize) -> Vec<f64> {
        let label = self.points.labels[row] as usize;
        (0..self.points.classes).map(|class| f64::from(u8::from(class == label))).collect()
    }

    fn kernel_row(&self, kernel: Kernel, point: &[f64]) -> Vec<f64> {
        self.train.iter().map(|other| kernel.value(self.difference(point, other).0)).collect()
    }
}

/// Solves `a·x = b` by Gauss-Jordan elimination with pivoting; `None` where `a` is singular.
fn solve(mut a: Rows, mut b: Rows) -> Option<Rows> {
    let n = a.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))?;
        a.swap(column, pivot);
        b.swap(column, pivot);
        let scale = a[column][column];
        if scale.abs() < 1e-12 {
            return None;
        }
        let (row_a, row_b) = (a[column].clone(), b[column].clone());
        for row in (0..n).filter(|&row| row != column) {
            let factor = a[row][column] / scale;
            if factor != 0.0 {
                a[row].iter_mut().zip(&row_a).for_each(|(value, other)| *value -= factor * other);
                b[row].iter_mut().zip(&row_b).for_each(|(value, other)| *value -= factor * other);
            }
        }
    }
    for (row, values) in b.iter_mut().enumerate() {
        let scale = a[row][row];
        for value in values {
            *value /= scale;
        }
    }
    Some(b)
}

fn unsolved() -> Error {
    Error::Data("nothing was solved yet".into())
}

impl FitSession for NaiveFit<'_> {
    fn begin(&mut self, metric: Option<&Matrix>, _: &Context<'_>) -> Result<()> {
        self.metric = metric.map(rows).unwrap_or_default();
        (self.solved, self.kept) = (None, None);
        Ok(())
    }

    fn solve(&mut self, kernel: Kernel, ridge: f64, _: &Context<'_>) -> Result<Regression> {
        let mut gram: Rows = self.train.iter().map(|point| self.kernel_row(kernel, point)).collect();
        for (row, values) in gram.iter_mut().enumerate() {
            values[row] += ridge;
        }
        let beta = solve(gram, (0..self.train.len()).map(|row| self.one_hot(row)).collect())
            .ok_or(Error::NotPositiveDefinite { n: self.train.len(), ridge, bandwidth: kernel.bandwidth() })?;
        let kernel_rows = self.held_out.iter().map(|point| self.kernel_row(kernel, point)).collect();
        let outputs = matrix(&times(&kernel_rows, &beta), self.points.classes)?;
        let labels = self.points.held_out_labels;
        let quality = (!labels.is_empty()).then(|| Quality::of(&outputs, labels));
        let metric = self.metric.clone();
        self.outputs = Some(outputs.clone());
        self.solved = Some((kernel, Solution { metric, beta, ridge, held_out: outputs }));
        Ok(Regression { quality, ridge, residual: 0.0, refinements: 0 })
    }

    fn learn(&mut self, sample: Option<&[usize]>, _: &Context<'_>) -> Result<bool> {
        let Some((kernel, solution)) = &self.solved else { return Err(unsolved()) };
        let (n, d, q) = (self.train.len(), self.points.train.cols(), 1.0 / kernel.shape());
        let every: Vec<usize> = (0..n).collect();
        let mut outer = vec![vec![0.0; d]; d];
        for &at in sample.unwrap_or(&every) {
            let mut gradients = vec![vec![0.0; d]; self.points.classes];
            for (other, beta) in self.train.iter().zip(&solution.beta) {
                let (squared, direction) = self.difference(&self.train[at], other);
                if squared > 0.0 {
                    let weight = -q / kernel.bandwidth().powf(q) * kernel.value(squared) * squared.powf(q / 2.0 - 1.0);
                    for (gradient, beta) in gradients.iter_mut().zip(beta) {
                        gradient.iter_mut().zip(&direction).for_each(|(g, x)| *g += weight * beta * x);
                    }
                }
            }
            for gradient in &gradients {
                for (row, a) in outer.iter_mut().zip(gradient) {
                    row.iter_mut().zip(gradient).for_each(|(value, b)| *value += a * b);
                }
            }
        }
        // The largest entry in the encoder's coordinates: a positive semidefinite matrix has it on its diagonal.
        let largest = match self.points.basis.map(rows) {
            None => outer.iter().flatten().copied().fold(0.0, f64::max),
            Some(basis) => {
                let direction = |column: usize| basis.iter().map(|row| row[column]).collect::<Vec<f64>>();
                let entry = |b: Vec<f64>| b.iter().zip(&outer).map(|(x, row)| x * dot(row, &b)).sum::<f64>();
                (0..basis[0].len()).map(|column| entry(direction(column))).fold(0.0, f64::max)
            }
        };
        if largest <= f64::from(f32::MIN_POSITIVE) {
            return Ok(false);
        }
        outer.iter_mut().flatten().for_each(|value| *value /= largest);
        self.metric = outer;
        Ok(true)
    }

    fn keep(&mut self) -> Result<()> {
        self.kept = Some(self.solved.as_ref().ok_or_else(unsolved)?.1.clone());
        Ok(())
    }

    fn choose(&mut self) -> Result<()> {
        self.chosen = Some(self.kept.clone().ok_or_else(unsolved)?);
        Ok(())
    }

    fn chosen(&mut self) -> Result<(Option<Matrix>, Matrix)> {
        let Solution { metric, beta, held_out, .. } = self.chosen.take().ok_or_else(unsolved)?;
        self.outputs = Some(held_out);
        let metric = (!metric.is_empty()).then(|| matrix(&metric, self.points.train.cols())).transpose()?;
        Ok((metric, matrix(&beta, self.points.classes)?))
    }

    fn held_out(&mut self) -> Result<Matrix> {
        self.outputs.clone().ok_or_else(unsolved)
    }

    fn leave_one_out(&mut self, _: &Context<'_>) -> Result<Matrix> {
        let (kernel, ridge) = match &self.solved {
            Some((kernel, solution)) => (*kernel, solution.ridge),
            None => return Err(unsolved()),
        };
        let gram: Rows = self.train.iter().map(|point| self.kernel_row(kernel, point)).collect();
        let without = |out: usize| {
            let rest: Vec<usize> = (0..gram.len()).filter(|&row| row != out).collect();
            let mut system: Rows =
                rest.iter().map(|&row| rest.iter().map(|&column| gram[row][column]).collect()).collect();
            for (row, values) in system.iter_mut().enumerate() {
                values[row] += ridge;
            }
            let beta = solve(system, rest.iter().map(|&row| self.one_hot(row)).collect())?;
            let kernel_row = rest.iter().map(|&row| gram[out][row]).collect();
            times(&vec![kernel_row], &beta).pop()
        };
        let outputs: Option<Rows> = (0..gram.len()).map(without).collect();
        matrix(&outputs.ok_or_else(unsolved)?, self.points.classes)
    }
}

struct NaiveClassifier {
    root: Rows,
    centers: Rows,
    kernel: Kernel,
    beta: Rows,
}

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

impl ClassifierHandle for NaiveClassifier {
    fn map(&self, points: &Matrix, _: &Context<'_>) -> Result<Matrix> {
        matrix(&times(&rows(points), &self.root), self.root.len())
    }

    fn outputs(&self, mapped: &Matrix, _: &Context<'_>) -> Result<Matrix> {
        let row =
            |point: &Vec<f64>| self.centers.iter().map(|center| self.kernel.value(squared(point, center))).collect();
        let kernel_rows: Rows = rows(mapped).iter().map(row).collect();
        matrix(&times(&kernel_rows, &self.beta), self.beta.first().map_or(0, Vec::len))
    }
}

struct NaiveIndex {
    points: Rows,
    reach: Vec<f64>,
}

/// f64 rounds too: whatever is this close to the limit, relatively, is a candidate as well.
const SLACK: f64 = 1e-9;

impl IndexHandle for NaiveIndex {
    fn set_reach(&mut self, squared: &[f64], _: &Context<'_>) -> Result<()> {
        self.reach = squared.to_vec();
        Ok(())
    }

    fn open_queries<'a>(&'a self, queries: &'a Matrix, _: &Context<'_>) -> Result<Box<dyn QueryHandle + 'a>> {
        Ok(Box::new(NaiveQueries { index: self, queries: rows(queries) }))
    }
}

struct NaiveQueries<'a> {
    index: &'a NaiveIndex,
    queries: Rows,
}

impl QueryHandle for NaiveQueries<'_> {
    fn candidates(&self, k: usize, reaching: bool, _: &Context<'_>) -> Result<Candidates> {
        let NaiveIndex { points, reach } = self.index;
        let mut candidates = Candidates::default();
        for query in &self.queries {
            let distances: Vec<f64> = points.iter().map(|point| squared(query, point)).collect();
            let mut sorted = distances.clone();
            sorted.sort_by(f64::total_cmp);
            let limit = sorted.get(k - 1).map_or(f64::INFINITY, |kth| kth * (1.0 + SLACK));
            let near = |&(id, squared): &(u32, f64)| {
                squared <= limit || (reaching && squared <= reach[id as usize] * (1.0 + SLACK))
            };
            candidates.push((0..).zip(distances).filter(near).map(|(id, _)| id));
        }
        Ok(candidates)
    }
}
