//! The CPU backend.

use rayon::prelude::*;

use super::{Backend, FitPoints, FitSession, Solution, Threads};
use crate::agop::{AgopForm, Gradients, cheaper_form};
use crate::distances::{self, Points};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg;
use crate::matrix::Matrix;
use crate::metric;
use crate::neighbors::{self, Neighbors, Reach, Reached, Reference};
use crate::ridge::RidgeSystem;

/// Query rows a prediction task: its kernel tile stays in cache while β streams by.
const QUERY_TILE: usize = 64;

/// All cores of this machine, or as many as asked for.
#[derive(Debug)]
pub struct Cpu {
    threads: Threads,
}

impl Cpu {
    /// A backend with its own pool of `threads` workers; 0 means one a core.
    pub fn new(threads: usize) -> Result<Self> {
        Ok(Self { threads: Threads::new(threads)? })
    }
}

impl Backend for Cpu {
    fn threads(&self) -> &Threads {
        &self.threads
    }

    fn open<'a>(&'a self, points: FitPoints<'a>, reuse_initial: bool) -> Result<Box<dyn FitSession + 'a>> {
        let n = points.train.rows();
        if points.labels.len() != n {
            return Err(Error::Shape {
                what: "labels (one a training point)".into(),
                expected: n.to_string(),
                found: points.labels.len().to_string(),
            });
        }
        if points.held_out.cols() != points.train.cols() {
            return Err(Error::Shape {
                what: "dimensions of the held-out points".into(),
                expected: points.train.cols().to_string(),
                found: points.held_out.cols().to_string(),
            });
        }
        // Distances do not change when everything moves, and rounding errors shrink with the norms.
        let center = mean(points.train);
        Ok(Box::new(CpuSession {
            threads: &self.threads,
            points,
            train: moved(points.train, &center),
            held_out: moved(points.held_out, &center),
            mapped: None,
            squared: vec![0.0; n * n],
            work: vec![0.0; n * n],
            initial: None,
            reuse_initial,
            kernel: None,
        }))
    }

    fn fit_bytes(&self, n: usize, held_out: usize, d: usize, c: usize, reuse_initial: bool) -> u64 {
        let (n, m, d, c) = (n as u64, held_out as u64, d as u64, c as u64);
        let square = n * n * if reuse_initial { 3 } else { 2 };
        let held_out = m * (n * if reuse_initial { 2 } else { 1 } + 2 * d + c);
        // In units of f32. Points centred, mapped and widened, H·X; β, its right-hand side and Q, widened too: the fold in
        // f64 is the widest. And 256 rows of K in f64 when a solution is refined.
        let tall = n * (9 * d + 14 * c + 512);
        4 * (square + held_out + tall + 6 * d * d)
    }

    fn predict(&self, queries: &Matrix, centers: &Matrix, kernel: Kernel, beta: &Matrix) -> Result<Matrix> {
        if queries.cols() != centers.cols() || beta.rows() != centers.rows() {
            return Err(Error::Shape {
                what: "prediction".into(),
                expected: format!(
                    "queries of {} dimensions and {} rows of beta",
                    centers.cols(),
                    centers.rows()
                ),
                found: format!("{} and {}", queries.cols(), beta.rows()),
            });
        }
        let outputs = |queries: &Matrix| {
            let center = mean(centers);
            let (queries, centers) = (moved(queries, &center), moved(centers, &center));
            let (queries, centers) = (Points::new(&queries, &queries), Points::new(&centers, &centers));
            let n = centers.len();
            Ok(predict_tiles(queries.len(), n, beta, |start, tile| {
                distances::block(&queries, start, &centers, n, tile, n);
                kernel.values_in_place(tile);
            }))
        };
        self.threads.run(|| in_whole_tiles(queries, outputs))
    }

    fn project(&self, points: &Matrix, root: &Matrix) -> Result<Matrix> {
        self.threads.run(|| in_whole_tiles(points, |points| metric::project(points, root)))
    }

    fn neighbors(
        &self,
        reference: &Reference,
        queries: &Matrix,
        k: usize,
        skip: Option<&[Option<u32>]>,
    ) -> Result<Neighbors> {
        Ok(self.threads.run(|| neighbors::search(reference, queries, k, skip, None))?.0)
    }

    fn neighbors_both_ways(
        &self,
        reference: &Reference,
        queries: &Matrix,
        k: usize,
        reach: &Reach,
    ) -> Result<(Neighbors, Reached)> {
        self.threads.run(|| neighbors::search(reference, queries, k, None, Some(reach)))
    }

    fn median_distance(&self, points: &Matrix) -> f64 {
        self.threads.run(|| distances::median(&moved(points, &mean(points)), 1000))
    }
}

struct CpuSession<'a> {
    threads: &'a Threads,
    points: FitPoints<'a>,
    /// Training points, moved to their mean.
    train: Matrix,
    held_out: Matrix,
    /// `train · metric`, when there is one.
    mapped: Option<Matrix>,
    /// Squared distances among training points under the current metric: lower triangle.
    squared: Vec<f32>,
    /// K and its factor, then w.
    work: Vec<f32>,
    /// Squared distances under the identity: training points' lower triangle, held-out × train.
    initial: Option<(Vec<f32>, Vec<f32>)>,
    reuse_initial: bool,
    kernel: Option<Kernel>,
}

impl FitSession for CpuSession<'_> {
    fn solve(&mut self, metric: Option<&Matrix>, kernel: Kernel, ridge: f64) -> Result<Solution> {
        let threads = self.threads;
        threads.run(|| {
            let held_out = self.measure(metric)?;
            self.kernel = Some(kernel);
            let system = RidgeSystem {
                squared: &self.squared,
                kernel,
                labels: self.points.labels,
                classes: self.points.classes,
            };
            let (beta, report) = system.solve(ridge, &mut self.work)?;
            let n = self.train.rows();
            let outputs = predict_tiles(self.held_out.rows(), n, &beta, |start, tile| {
                let squared = &held_out[start * n..][..tile.len()];
                kernel.values(squared, tile);
            });
            if self.reuse_initial && metric.is_none() && self.initial.is_none() {
                self.initial = Some((self.squared.clone(), held_out));
            }
            Ok(Solution { beta, held_out: outputs, report })
        })
    }

    fn agop(&mut self, beta: &Matrix, sample: Option<&[usize]>, form: Option<AgopForm>) -> Result<Matrix> {
        let Some(kernel) = self.kernel else {
            return Err(Error::Data("the AGOP needs a regression: solve first".into()));
        };
        let (n, d) = (self.train.rows(), self.train.cols());
        let sampled = sample.map_or(n, <[usize]>::len);
        let form = form.unwrap_or_else(|| cheaper_form(n, sampled, self.points.classes, d));
        let threads = self.threads;
        threads.run(|| {
            let mapped = self.mapped.as_ref().unwrap_or(&self.train);
            let gradients = Gradients { squared: &self.squared, kernel, beta, mapped };
            Ok(gradients.outer_product(form, sample, &mut self.work))
        })
    }
}

impl CpuSession<'_> {
    /// Brings `mapped` and `squared` to the metric; returns the held-out points' distances.
    fn measure(&mut self, metric: Option<&Matrix>) -> Result<Vec<f32>> {
        if let (None, Some((squared, held_out))) = (metric, &self.initial) {
            self.mapped = None;
            let n = self.train.rows();
            let rows = self.squared.par_chunks_mut(n).zip(squared.par_chunks(n)).enumerate();
            rows.for_each(|(row, (to, from))| to[..=row].copy_from_slice(&from[..=row]));
            return Ok(held_out.clone());
        }
        self.mapped = metric.map(|metric| metric::project(&self.train, metric)).transpose()?;
        let mapped_held_out = metric.map(|metric| metric::project(&self.held_out, metric)).transpose()?;
        let train = Points::new(&self.train, self.mapped.as_ref().unwrap_or(&self.train));
        let held_out = Points::new(&self.held_out, mapped_held_out.as_ref().unwrap_or(&self.held_out));
        distances::lower_triangle(&train, &mut self.squared);
        Ok(distances::all(&held_out, &train))
    }
}

/// `K·beta` over tiles of queries; `fill(start, tile)` writes the kernel rows of the queries from `start` on.
fn predict_tiles(queries: usize, n: usize, beta: &Matrix, fill: impl Fn(usize, &mut [f32]) + Sync) -> Matrix {
    let c = beta.cols();
    let mut out = Matrix::zeros(queries, c);
    out.as_mut_slice().par_chunks_mut(QUERY_TILE * c).enumerate().for_each_init(
        || vec![0.0; QUERY_TILE * n],
        |tile, (index, out)| {
            let height = out.len() / c;
            let tile = &mut tile[..height * n];
            fill(index * QUERY_TILE, tile);
            let out = linalg::row_major_mut(out, height, c);
            linalg::gemm(out, false, linalg::row_major(tile, height, n), linalg::view(beta), 1.0);
        },
    );
    out
}

/// Does `work`, a product a row, on points padded with rows of zeros to a multiple of 16. The last tile of a product may have
/// any number of rows, and one or two sum in another order than many; so a row comes out the same whatever its company.
fn in_whole_tiles(points: &Matrix, work: impl FnOnce(&Matrix) -> Result<Matrix>) -> Result<Matrix> {
    const ROWS: usize = 16;
    let (rows, cols) = (points.rows(), points.cols());
    if rows.is_multiple_of(ROWS) {
        return work(points);
    }
    let whole = rows.next_multiple_of(ROWS);
    let mut padded = Vec::with_capacity(whole * cols);
    padded.extend_from_slice(points.as_slice());
    padded.resize(whole * cols, 0.0);
    let done = work(&Matrix::new(padded, whole, cols)?)?;
    let cols = done.cols();
    let mut done = done.into_vec();
    done.truncate(rows * cols);
    Matrix::new(done, rows, cols)
}

fn mean(points: &Matrix) -> Vec<f32> {
    let mut sums = vec![0.0f64; points.cols()];
    for row in 0..points.rows() {
        for (sum, &value) in sums.iter_mut().zip(points.row(row)) {
            *sum += f64::from(value);
        }
    }
    sums.iter().map(|sum| (sum / points.rows().max(1) as f64) as f32).collect()
}

fn moved(points: &Matrix, center: &[f32]) -> Matrix {
    let mut out = points.clone();
    for row in 0..out.rows() {
        for (value, center) in out.row_mut(row).iter_mut().zip(center) {
            *value -= center;
        }
    }
    out
}
