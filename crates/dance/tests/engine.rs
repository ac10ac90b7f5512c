//! The kernel engine against slow, obvious references in f64, written from the formulas.

#![allow(clippy::unwrap_used)] // tests may; clippy's own exemption misses helper functions

use dance::agop::AgopForm;
use dance::backend::{Backend, Cpu, FitPoints};
use dance::kernel::Kernel;
use dance::random::Random;
use dance::{Error, Matrix};

/// A problem with clusters, so that labels can be learned; `duplicates` of the points are copies of others.
struct Problem {
    points: Matrix,
    labels: Vec<u32>,
    classes: usize,
    held_out: Matrix,
}

impl Problem {
    fn new(n: usize, d: usize, classes: usize, duplicates: usize, seed: u64) -> Self {
        let mut random = Random::new(seed, 1);
        let centers: Vec<Vec<f64>> =
            (0..classes).map(|_| (0..d).map(|_| random.normal() * 0.7).collect()).collect();
        let mut draw = |label: usize| -> Vec<f32> {
            // A common offset, as real embeddings have: distances must not suffer from it.
            (0..d).map(|k| (2.0 + centers[label][k] + random.normal()) as f32).collect()
        };
        let mut rows: Vec<Vec<f32>> = Vec::new();
        let mut labels = Vec::new();
        for row in 0..n {
            let label = row % classes;
            rows.push(if row < duplicates { draw(0) } else { draw(label) });
            labels.push(label as u32);
        }
        for copy in 0..duplicates.min(n / 2) {
            let original = rows[copy].clone();
            rows[n - 1 - copy] = original;
        }
        let held_out: Vec<f32> = (0..7).flat_map(|row| draw(row % classes)).collect();
        Self {
            points: Matrix::new(rows.concat(), n, d).unwrap(),
            labels,
            classes,
            held_out: Matrix::new(held_out, 7, d).unwrap(),
        }
    }

    fn fit_points(&self) -> FitPoints<'_> {
        FitPoints {
            train: &self.points,
            labels: &self.labels,
            classes: self.classes,
            held_out: &self.held_out,
        }
    }
}

/// A symmetric positive definite metric.
fn metric(d: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 2);
    let factor: Vec<f64> = (0..d * d).map(|_| random.normal()).collect();
    let entry =
        |i: usize, j: usize| (0..d).map(|k| factor[i * d + k] * factor[j * d + k]).sum::<f64>() / d as f64;
    Matrix::new((0..d * d).map(|at| entry(at / d, at % d) as f32).collect(), d, d).unwrap()
}

fn identity(d: usize) -> Matrix {
    Matrix::new((0..d * d).map(|at| if at / d == at % d { 1.0 } else { 0.0 }).collect(), d, d).unwrap()
}

/// `(a-b) M (a-b)ᵀ` and `M (a-b)ᵀ`.
fn difference(a: &[f32], b: &[f32], metric: &Matrix) -> (f64, Vec<f64>) {
    let delta: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)).collect();
    let mapped: Vec<f64> = (0..delta.len())
        .map(|row| metric.row(row).iter().zip(&delta).map(|(&m, x)| f64::from(m) * x).sum())
        .collect();
    (delta.iter().zip(&mapped).map(|(a, b)| a * b).sum::<f64>().max(0.0), mapped)
}

/// The definition: gradients one point and one class at a time, `∇f_l(z) = Σⱼ β_jl K'(r)/r · M(z - zⱼ)`.
fn agop_reference(
    problem: &Problem,
    metric: &Matrix,
    kernel: Kernel,
    beta: &Matrix,
    sample: &[usize],
) -> Vec<f64> {
    let (d, c) = (problem.points.cols(), problem.classes);
    let (bandwidth, q) = (kernel.bandwidth(), 1.0 / kernel.shape());
    let mut outer = vec![0.0; d * d];
    for &i in sample {
        let mut gradients = vec![vec![0.0; d]; c];
        for j in 0..problem.points.rows() {
            let (squared, direction) = difference(problem.points.row(i), problem.points.row(j), metric);
            if squared == 0.0 {
                continue; // the same point: no direction
            }
            let r = squared.sqrt();
            let weight = -q / bandwidth.powf(q) * (-(r / bandwidth).powf(q)).exp() * r.powf(q - 2.0);
            for (class, gradient) in gradients.iter_mut().enumerate() {
                let scale = f64::from(beta.row(j)[class]) * weight;
                for (value, direction) in gradient.iter_mut().zip(&direction) {
                    *value += scale * direction;
                }
            }
        }
        for gradient in &gradients {
            for a in 0..d {
                for b in 0..d {
                    outer[a * d + b] += gradient[a] * gradient[b] / sample.len() as f64;
                }
            }
        }
    }
    outer
}

fn relative_error(found: &Matrix, expected: &[f64]) -> f64 {
    let difference: f64 =
        found.as_slice().iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum::<f64>().sqrt();
    difference / expected.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
fn the_agop_equals_its_definition() {
    let cpu = Cpu::new(2).unwrap();
    let mut worst = 0.0f64;
    for (case, &shape) in [0.5, 0.6, 0.75, 1.0, 1.5, 2.0].iter().enumerate() {
        for (classes, duplicates, learned) in
            [(1, 0, false), (2, 10, true), (7, 0, true), (20, 12, false), (50, 5, true)]
        {
            let (n, d) = (150, 12);
            // One class: the first output of two, since a constant has no gradient to speak of.
            let problem = Problem { classes, ..Problem::new(n, d, classes.max(2), duplicates, case as u64) };
            let solved = FitPoints { classes: classes.max(2), ..problem.fit_points() };
            let metric = if learned { metric(d, case as u64) } else { identity(d) };
            let kernel = Kernel::new(cpu.median_distance(&problem.points) * 0.8, shape).unwrap();
            let mut session = cpu.open(solved, false).unwrap();
            let solution = session.solve(learned.then_some(&metric), kernel, 1e-2).unwrap();
            let beta = (0..n).flat_map(|row| solution.beta.row(row)[..classes].to_vec()).collect();
            let beta = Matrix::new(beta, n, classes).unwrap();
            let sample: Vec<usize> = (0..n).step_by(3).collect();
            let all: Vec<usize> = (0..n).collect();
            for chosen in [&all, &sample] {
                let expected = agop_reference(&problem, &metric, kernel, &beta, chosen);
                for form in [AgopForm::Definition, AgopForm::Folded] {
                    let found = session.agop(&beta, Some(chosen), Some(form)).unwrap();
                    let error = relative_error(&found, &expected);
                    worst = worst.max(error);
                    assert!(error < 1e-5, "{form:?} shape {shape} c {classes} s {}: {error:e}", chosen.len());
                }
            }
        }
    }
    println!("worst relative error of the AGOP: {worst:.1e}");
}

#[test]
fn the_regression_solves_its_system() {
    let cpu = Cpu::new(2).unwrap();
    for (case, shape) in [0.5, 1.0, 2.0].into_iter().enumerate() {
        let (n, d, classes) = (211, 9, 4);
        let problem = Problem::new(n, d, classes, 6, 40 + case as u64);
        let metric = metric(d, 3);
        let kernel = Kernel::new(3.0, shape).unwrap();
        let mut session = cpu.open(problem.fit_points(), false).unwrap();
        for metric in [&identity(d), &metric] {
            let solution = session.solve(Some(metric), kernel, 1e-3).unwrap();
            let value =
                |a: &[f32], b: &[f32]| (-(difference(a, b, metric).0.sqrt() / 3.0).powf(1.0 / shape)).exp();
            let mut residual = 0.0;
            for i in 0..n {
                for class in 0..classes {
                    let output: f64 = (0..n)
                        .map(|j| {
                            let ridge = if i == j { 1e-3 } else { 0.0 };
                            let k = value(problem.points.row(i), problem.points.row(j)) + ridge;
                            k * f64::from(solution.beta.row(j)[class])
                        })
                        .sum();
                    let target = f64::from(u8::from(problem.labels[i] as usize == class));
                    residual += (output - target).powi(2);
                }
            }
            let relative = (residual / n as f64).sqrt();
            assert!(relative < 1e-3, "shape {shape}: {relative:e}");
            // Measured on a sample of rows: of the same size as over all rows.
            assert!(solution.report.residual < 1e-3, "{:?}", solution.report);
            for query in 0..problem.held_out.rows() {
                for class in 0..classes {
                    let terms: Vec<f64> = (0..n)
                        .map(|j| {
                            value(problem.held_out.row(query), problem.points.row(j))
                                * f64::from(solution.beta.row(j)[class])
                        })
                        .collect();
                    let expected: f64 = terms.iter().sum();
                    let found = f64::from(solution.held_out.row(query)[class]);
                    // Kernel values are right to about 1e-6; β is large and alternates, so their errors count by its size.
                    let tolerance = 2e-6 * terms.iter().map(|term| term.abs()).sum::<f64>();
                    assert!((found - expected).abs() < tolerance, "{found} {expected} {tolerance}");
                }
            }
        }
    }
}

#[test]
fn prediction_through_the_root_equals_the_session() {
    let cpu = Cpu::new(2).unwrap();
    let problem = Problem::new(120, 8, 3, 0, 9);
    let metric = metric(8, 5);
    let kernel = Kernel::new(2.0, 1.0).unwrap();
    let mut session = cpu.open(problem.fit_points(), false).unwrap();
    let solution = session.solve(Some(&metric), kernel, 1e-3).unwrap();
    let root = dance::metric::symmetric_root(&metric).unwrap();
    let centers = cpu.project(&problem.points, &root).unwrap();
    let queries = cpu.project(&problem.held_out, &root).unwrap();
    let outputs = cpu.predict(&queries, &centers, kernel, &solution.beta).unwrap();
    for (a, b) in outputs.as_slice().iter().zip(solution.held_out.as_slice()) {
        assert!((a - b).abs() < 2e-4, "{a} {b}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    // Larger than every tile, and not a multiple of any.
    for (n, d, classes) in [(1137, 67, 13), (301, 33, 2)] {
        let problem = Problem::new(n, d, classes, 5, 77);
        let kernel = Kernel::new(8.0, 0.8).unwrap();
        let run = |threads: usize| {
            let cpu = Cpu::new(threads).unwrap();
            let mut session = cpu.open(problem.fit_points(), true).unwrap();
            let first = session.solve(None, kernel, 1e-3).unwrap();
            let mut bits: Vec<u32> = Vec::new();
            let mut keep =
                |matrix: &Matrix| bits.extend(matrix.as_slice().iter().map(|value| value.to_bits()));
            for form in [AgopForm::Folded, AgopForm::Definition] {
                let outer = session.agop(&first.beta, None, Some(form)).unwrap();
                keep(&outer);
                if form == AgopForm::Folded {
                    let second = session.solve(Some(&outer), kernel, 1e-3).unwrap();
                    keep(&second.beta);
                    keep(&second.held_out);
                    // And back to the identity, from the distances kept.
                    let again = session.solve(None, kernel, 1e-3).unwrap();
                    assert_eq!(again.beta, first.beta);
                    assert_eq!(again.held_out, first.held_out);
                }
            }
            keep(&first.beta);
            bits
        };
        let one = run(1);
        assert!(one == run(2) && one == run(3));
    }
}

#[test]
fn a_kernel_of_ones_takes_a_larger_ridge_and_says_so() {
    let cpu = Cpu::new(1).unwrap();
    let problem = Problem::new(400, 5, 2, 0, 4);
    let mut session = cpu.open(problem.fit_points(), false).unwrap();
    // A bandwidth a million times the data: in f32 every entry of K is 1.
    let solution = session.solve(None, Kernel::new(1e6, 0.5).unwrap(), 0.0).unwrap();
    assert!(solution.report.ridge > 0.0);
    assert!(solution.beta.as_slice().iter().all(|value| value.is_finite()));
}

#[test]
fn poor_solutions_are_refined() {
    // Wide Gaussian kernel, tiny ridge: a condition number of about 1e7 that f32 alone does not survive.
    let cpu = Cpu::new(1).unwrap();
    let problem = Problem::new(600, 4, 3, 0, 21);
    let mut session = cpu.open(problem.fit_points(), false).unwrap();
    let solution = session.solve(None, Kernel::new(12.0, 0.5).unwrap(), 1e-4).unwrap();
    assert!(solution.report.refinements > 0 && solution.report.residual < 1e-2, "{:?}", solution.report);
}

#[test]
fn mismatched_shapes_are_errors() {
    let cpu = Cpu::new(1).unwrap();
    let problem = Problem::new(30, 4, 2, 0, 1);
    let short = FitPoints { labels: &problem.labels[..29], ..problem.fit_points() };
    assert!(matches!(cpu.open(short, false), Err(Error::Shape { .. })));
    let narrow = Matrix::zeros(3, 3);
    let narrow = FitPoints { held_out: &narrow, ..problem.fit_points() };
    assert!(matches!(cpu.open(narrow, false), Err(Error::Shape { .. })));
    let mut session = cpu.open(problem.fit_points(), false).unwrap();
    assert!(matches!(session.agop(&Matrix::zeros(30, 2), None, None), Err(Error::Data(_))));
}
