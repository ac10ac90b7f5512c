//! Tests of the devices against slow, obvious references in f64, written from the formulas.

use std::sync::{Arc, LazyLock};

use super::cpu::agop::{AgopForm, FORCED};
use super::{Cpu, Device, DeviceChoice, FitPoints, FitSession, MachineParts, Regression};
use crate::context::Context;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;

/// The devices on which every test runs: the CPU, and a graphics processor where there is one.
static DEVICES: LazyLock<Vec<Arc<dyn Device>>> = LazyLock::new(|| {
    let mut devices: Vec<Arc<dyn Device>> = vec![Arc::new(Cpu)];
    match DeviceChoice::Cuda(0).open() {
        Ok((device, _)) => devices.push(device),
        Err(error) => println!("not on a graphics processor: {error}"),
    }
    devices
});

/// A classification problem for tests, drawn in clusters so that labels can be learned. The constructor makes
/// `duplicates` of the points copies of others.
struct Problem {
    points: Matrix,
    labels: Vec<u32>,
    classes: usize,
    held_out: Matrix,
}

impl Problem {
    fn new(n: usize, d: usize, classes: usize, duplicates: usize, seed: u64) -> Self {
        let mut random = Random::new(seed, 1);
        let centers: Vec<Vec<f64>> = (0..classes).map(|_| (0..d).map(|_| random.normal() * 0.7).collect()).collect();
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
            held_out_labels: &[0, 1, 0, 1, 0, 1, 0],
            basis: None,
            several: false,
        }
    }
}

/// Returns a symmetric positive definite d×d metric for tests, drawn with the seed.
fn metric(d: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 2);
    let factor: Vec<f64> = (0..d * d).map(|_| random.normal()).collect();
    let entry = |i: usize, j: usize| (0..d).map(|k| factor[i * d + k] * factor[j * d + k]).sum::<f64>() / d as f64;
    Matrix::new((0..d * d).map(|at| entry(at / d, at % d) as f32).collect(), d, d).unwrap()
}

fn identity(d: usize) -> Matrix {
    Matrix::new((0..d * d).map(|at| if at / d == at % d { 1.0 } else { 0.0 }).collect(), d, d).unwrap()
}

/// Returns the squared distance `(a-b) M (a-b)ᵀ` and the vector `M (a-b)ᵀ`, with the metric M.
fn difference(a: &[f32], b: &[f32], metric: &Matrix) -> (f64, Vec<f64>) {
    let delta: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)).collect();
    let mapped: Vec<f64> =
        (0..delta.len()).map(|row| metric.row(row).iter().zip(&delta).map(|(&m, x)| f64::from(m) * x).sum()).collect();
    (delta.iter().zip(&mapped).map(|(a, b)| a * b).sum::<f64>().max(0.0), mapped)
}

/// Returns the AGOP (average gradient outer product) by its definition, which tests compare with the devices. The
/// gradient at a point z is computed for one class l at a time, `∇f_l(z) = Σⱼ β_jl K'(r)/r · M(z - zⱼ)`. Here zⱼ are
/// the training points, β the coefficients, M the metric, and r the distance from z to zⱼ. K' is the derivative of the
/// kernel by the distance.
fn agop_reference(problem: &Problem, metric: &Matrix, kernel: Kernel, beta: &Matrix, sample: &[usize]) -> Vec<f64> {
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

/// Fits a regression under a metric for a test. Returns the device's report, the coefficients, and the outputs at the
/// held-out points.
fn solve(
    session: &mut dyn FitSession,
    metric: Option<&Matrix>,
    kernel: Kernel,
    ridge: f64,
    context: &Context<'_>,
) -> (Regression, Matrix, Matrix) {
    session.begin(metric, context).unwrap();
    let solved = session.solve(kernel, ridge, context).unwrap();
    let held_out = session.held_out().unwrap();
    session.keep().unwrap();
    session.choose().unwrap();
    let beta = session.chosen().unwrap().1;
    assert_eq!(session.held_out().unwrap(), held_out);
    (solved, beta, held_out)
}

/// Returns the metric that a session learns from a regression under `metric`, with the given form of the AGOP (average
/// gradient outer product).
fn learned(
    session: &mut dyn FitSession,
    metric: Option<&Matrix>,
    kernel: Kernel,
    sample: Option<&[usize]>,
    form: AgopForm,
    context: &Context<'_>,
) -> Matrix {
    session.begin(metric, context).unwrap();
    session.solve(kernel, 1e-2, context).unwrap();
    FORCED.set(Some(form));
    assert!(session.learn(sample, context).unwrap());
    FORCED.set(None);
    session.solve(kernel, 1e-2, context).unwrap();
    session.keep().unwrap();
    session.choose().unwrap();
    session.chosen().unwrap().0.unwrap()
}

fn relative_error(found: &Matrix, expected: &[f64]) -> f64 {
    let difference: f64 =
        found.as_slice().iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum::<f64>().sqrt();
    difference / expected.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
fn the_agop_equals_its_definition() {
    for device in &*DEVICES {
        let context = Context::new(2).unwrap();
        let mut worst = 0.0f64;
        for (case, &shape) in [0.5, 0.6, 0.75, 1.0, 1.5, 2.0].iter().enumerate() {
            for (classes, duplicates, given) in
                [(2, 0, false), (2, 10, true), (7, 0, true), (20, 12, false), (50, 5, true)]
            {
                let (n, d) = (150, 12);
                let problem = Problem::new(n, d, classes, duplicates, case as u64);
                let metric = if given { metric(d, case as u64) } else { identity(d) };
                let begin = given.then_some(&metric);
                let kernel = Kernel::new(median_distance(&problem.points) * 0.8, shape).unwrap();
                let mut session = device.open_fit(problem.fit_points(), &context).unwrap();
                let beta = solve(&mut *session, begin, kernel, 1e-2, &context).1;
                let sample: Vec<usize> = (0..n).step_by(3).collect();
                let all: Vec<usize> = (0..n).collect();
                for chosen in [&all, &sample] {
                    // The next metric is the AGOP over its largest entry.
                    let expected = agop_reference(&problem, &metric, kernel, &beta, chosen);
                    let largest = expected.iter().copied().fold(0.0, f64::max);
                    let expected: Vec<f64> = expected.iter().map(|value| value / largest).collect();
                    for form in [AgopForm::Definition, AgopForm::Folded] {
                        let found = learned(&mut *session, begin, kernel, Some(chosen), form, &context);
                        let error = relative_error(&found, &expected);
                        worst = worst.max(error);
                        assert!(error < 1e-5, "{form:?} shape {shape} c {classes} s {}: {error:e}", chosen.len());
                    }
                }
            }
        }
        println!("worst relative error of the AGOP on {}: {worst:.1e}", device.name());
    }
}

#[test]
fn the_regression_solves_its_system() {
    for device in &*DEVICES {
        let context = Context::new(2).unwrap();
        for (case, shape) in [0.5, 1.0, 2.0].into_iter().enumerate() {
            let (n, d, classes) = (211, 9, 4);
            let problem = Problem::new(n, d, classes, 6, 40 + case as u64);
            let metric = metric(d, 3);
            let kernel = Kernel::new(3.0, shape).unwrap();
            let mut session = device.open_fit(problem.fit_points(), &context).unwrap();
            for metric in [&identity(d), &metric] {
                let (solved, solution, held_out) = solve(&mut *session, Some(metric), kernel, 1e-3, &context);
                let value = |a: &[f32], b: &[f32]| (-(difference(a, b, metric).0.sqrt() / 3.0).powf(1.0 / shape)).exp();
                let mut residual = 0.0;
                for i in 0..n {
                    for class in 0..classes {
                        let output: f64 = (0..n)
                            .map(|j| {
                                let ridge = if i == j { 1e-3 } else { 0.0 };
                                let k = value(problem.points.row(i), problem.points.row(j)) + ridge;
                                k * f64::from(solution.row(j)[class])
                            })
                            .sum();
                        let target = f64::from(u8::from(problem.labels[i] as usize == class));
                        residual += (output - target).powi(2);
                    }
                }
                let relative = (residual / n as f64).sqrt();
                assert!(relative < 1e-3, "shape {shape}: {relative:e}");
                // Measured on a sample of rows: of the same size as over all rows.
                assert!(solved.residual < 1e-3, "{solved:?}");
                for query in 0..problem.held_out.rows() {
                    for class in 0..classes {
                        let terms: Vec<f64> = (0..n)
                            .map(|j| {
                                value(problem.held_out.row(query), problem.points.row(j))
                                    * f64::from(solution.row(j)[class])
                            })
                            .collect();
                        let expected: f64 = terms.iter().sum();
                        let found = f64::from(held_out.row(query)[class]);
                        // Kernel values are right to about 1e-6; β is large and alternates, so their errors count by
                        // its size.
                        let tolerance = 2e-6 * terms.iter().map(|term| term.abs()).sum::<f64>();
                        assert!((found - expected).abs() < tolerance, "{found} {expected} {tolerance}");
                    }
                }
            }
        }
    }
}

#[test]
fn prediction_through_the_root_equals_the_session() {
    for device in &*DEVICES {
        let context = Context::new(2).unwrap();
        let problem = Problem::new(120, 8, 3, 0, 9);
        let metric = metric(8, 5);
        let kernel = Kernel::new(2.0, 1.0).unwrap();
        let mut session = device.open_fit(problem.fit_points(), &context).unwrap();
        let (_, solution, held_out) = solve(&mut *session, Some(&metric), kernel, 1e-3, &context);
        let root = root_of(&metric);
        let machine = MachineParts { root: &root, train: &problem.points, kernel, beta: &solution };
        let classifier = device.open_classifier(machine, &context).unwrap();
        let mapped = classifier.map(&problem.held_out, &context).unwrap();
        let outputs = classifier.outputs(&mapped, &context).unwrap();
        for (a, b) in outputs.as_slice().iter().zip(held_out.as_slice()) {
            assert!((a - b).abs() < 2e-4, "{a} {b}");
        }
    }
}

/// Returns a root of a positive definite metric: its Cholesky factor, computed in f64. Distances are the same for every
/// root.
fn root_of(metric: &Matrix) -> Matrix {
    let d = metric.rows();
    let mut root = vec![vec![0.0f64; d]; d];
    for row in 0..d {
        for column in 0..=row {
            let sum: f64 = (0..column).map(|k| root[row][k] * root[column][k]).sum();
            let rest = f64::from(metric.row(row)[column]) - sum;
            root[row][column] = if row == column { rest.sqrt() } else { rest / root[column][column] };
        }
    }
    Matrix::new(root.concat().into_iter().map(|value| value as f32).collect(), d, d).unwrap()
}

/// Returns the median distance of all pairs of points, in f64.
fn median_distance(points: &Matrix) -> f64 {
    let metric = identity(points.cols());
    let pairs = (0..points.rows()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let mut distances: Vec<f64> =
        pairs.map(|(a, b)| difference(points.row(a), points.row(b), &metric).0.sqrt()).collect();
    distances.sort_by(f64::total_cmp);
    distances[distances.len() / 2]
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for device in &*DEVICES {
        // Larger than every tile, and not a multiple of any.
        for (n, d, classes) in [(1137, 67, 13), (301, 33, 2)] {
            let problem = Problem::new(n, d, classes, 5, 77);
            let kernel = Kernel::new(8.0, 0.8).unwrap();
            let run = |threads: usize| {
                let context = Context::new(threads).unwrap();
                let mut session =
                    device.open_fit(FitPoints { several: true, ..problem.fit_points() }, &context).unwrap();
                let mut bits: Vec<u32> = Vec::new();
                let mut keep = |matrix: &Matrix| bits.extend(matrix.as_slice().iter().map(|value| value.to_bits()));
                let first = solve(&mut *session, None, kernel, 1e-3, &context);
                for form in [AgopForm::Folded, AgopForm::Definition] {
                    let metric = learned(&mut *session, None, kernel, None, form, &context);
                    keep(&metric);
                    let (_, second, held_out) = solve(&mut *session, Some(&metric), kernel, 1e-3, &context);
                    keep(&second);
                    keep(&held_out);
                    // And back to the identity, from the distances kept.
                    let again = solve(&mut *session, None, kernel, 1e-3, &context);
                    assert_eq!(again, first);
                }
                keep(&first.1);
                bits
            };
            let one = run(1);
            assert!(one == run(2) && one == run(3));
        }
    }
}

#[test]
fn a_kernel_of_ones_takes_a_larger_ridge_and_says_so() {
    for device in &*DEVICES {
        let context = Context::new(1).unwrap();
        let problem = Problem::new(400, 5, 2, 0, 4);
        let mut session = device.open_fit(problem.fit_points(), &context).unwrap();
        // A bandwidth a million times the data: in f32 every entry of K is 1.
        let (solved, solution, _) = solve(&mut *session, None, Kernel::new(1e6, 0.5).unwrap(), 0.0, &context);
        assert!(solved.ridge > 0.0);
        assert!(solution.as_slice().iter().all(|value| value.is_finite()));
    }
}

#[test]
fn poor_solutions_are_refined() {
    for device in &*DEVICES {
        // Wide Gaussian kernel, tiny ridge: a condition number of about 1e7 that f32 alone does not survive.
        let context = Context::new(1).unwrap();
        let problem = Problem::new(600, 4, 3, 0, 21);
        let mut session = device.open_fit(problem.fit_points(), &context).unwrap();
        session.begin(None, &context).unwrap();
        let report = session.solve(Kernel::new(12.0, 0.5).unwrap(), 1e-4, &context).unwrap();
        assert!(report.refinements > 0 && report.residual < 1e-2, "{report:?}");
    }
}

#[test]
fn mismatched_shapes_are_errors() {
    for device in &*DEVICES {
        let context = Context::new(1).unwrap();
        let problem = Problem::new(30, 4, 2, 0, 1);
        let short = FitPoints { labels: &problem.labels[..29], ..problem.fit_points() };
        assert!(matches!(device.open_fit(short, &context), Err(Error::Shape { .. })));
        let narrow = Matrix::zeros(7, 3);
        let narrow = FitPoints { held_out: &narrow, ..problem.fit_points() };
        assert!(matches!(device.open_fit(narrow, &context), Err(Error::Shape { .. })));
        let unjudged = FitPoints { held_out_labels: &[], ..problem.fit_points() };
        assert!(matches!(device.open_fit(unjudged, &context), Err(Error::Shape { .. })));
        let mut session = device.open_fit(problem.fit_points(), &context).unwrap();
        // Nothing is solved yet.
        assert!(matches!(session.learn(None, &context), Err(Error::Data(_))));
        assert!(matches!(session.keep(), Err(Error::Data(_))));
        assert!(matches!(session.choose(), Err(Error::Data(_))));
        assert!(matches!(session.chosen(), Err(Error::Data(_))));
        assert!(matches!(session.begin(Some(&Matrix::zeros(3, 3)), &context), Err(Error::Shape { .. })));
    }
}
