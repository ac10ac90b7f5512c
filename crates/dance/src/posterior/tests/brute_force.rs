//! The expected results of the tests, by brute force: every posterior is rebuilt from the formulas, in plain loops.

use crate::posterior::tests::Case;
use crate::posterior::{ByClass, ExpertSettings, Matrix, Part, PosteriorCalibration, StackSettings};

/// A point in the raw, the whitened and the learned space, with its label.
#[derive(Clone)]
struct Point {
    spaces: [Vec<f64>; 3],
    label: usize,
}

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

fn map(x: &[f64], matrix: &Matrix) -> Vec<f64> {
    (0..matrix.cols())
        .map(|column| x.iter().enumerate().map(|(row, x)| x * f64::from(matrix.row(row)[column])).sum())
        .collect()
}

/// Solves the linear system with the matrix `a` and the right side `b` by elimination.
pub(crate) fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for pivot in 0..n {
        let best = (pivot..n).max_by(|&x, &y| a[x][pivot].abs().total_cmp(&a[y][pivot].abs())).unwrap();
        a.swap(pivot, best);
        b.swap(pivot, best);
        let (done, below) = a.split_at_mut(pivot + 1);
        for (row, at) in below.iter_mut().zip(pivot + 1..) {
            let factor = row[pivot] / done[pivot][pivot];
            row.iter_mut().zip(&done[pivot]).for_each(|(value, above)| *value -= factor * above);
            b[at] -= factor * b[pivot];
        }
    }
    for row in (0..n).rev() {
        for column in row + 1..n {
            b[row] -= a[row][column] * b[column];
        }
        b[row] /= a[row][row];
    }
    b
}

/// Returns the kernel function of a ridge expert for `all` training points. If there are more points than
/// `settings.whole`, the fit points are landmarks that span it.
fn kernel(
    settings: &StackSettings,
    expert: &ExpertSettings,
    fit: &[Point],
    all: usize,
) -> impl Fn(&Point, &Point) -> f64 {
    let &ExpertSettings::Ridge { space, bandwidth, shape, .. } = expert else { panic!("a ridge") };
    let kernel = crate::kernel::Kernel::new(bandwidth, shape).unwrap();
    let place = space as usize;
    let value = move |a: &Point, b: &Point| kernel.value(squared(&a.spaces[place], &b.spaces[place]));
    // In these tests every fit point is a landmark.
    let landmarks: Vec<Point> = if all > settings.whole { fit.to_vec() } else { Vec::new() };
    move |a, b| {
        if landmarks.is_empty() {
            return value(a, b);
        }
        let m = landmarks.len();
        let matrix = (0..m)
            .map(|i| (0..m).map(|j| value(&landmarks[i], &landmarks[j]) + if i == j { 1e-8 } else { 0.0 }).collect())
            .collect();
        let right = landmarks.iter().map(|landmark| value(landmark, b)).collect();
        let solved = solve(matrix, right);
        landmarks.iter().zip(solved).map(|(landmark, weight)| value(a, landmark) * weight).sum()
    }
}

/// Returns the stack's log posteriors of `point` for every label, by the formulas. `others` are the points from which
/// the experts predict.
fn log_posteriors(
    settings: &StackSettings,
    fit: &[Point],
    point: &Point,
    others: &[Point],
    classes: usize,
) -> Vec<f64> {
    let mut sum = vec![0.0; classes];
    for expert in &settings.experts {
        let each: Vec<f64> = match *expert {
            ExpertSettings::Prototypes { prior, .. } => (0..classes)
                .map(|class| {
                    let own: Vec<&Point> = others.iter().filter(|other| other.label == class).collect();
                    let count = own.len() as f64 + prior;
                    let sum = |points: &mut dyn Iterator<Item = &Point>, at: usize| {
                        points.map(|point| point.spaces[1][at]).sum::<f64>()
                    };
                    let all = |at: usize| sum(&mut fit.iter(), at) / fit.len() as f64;
                    let mean: Vec<f64> = (0..point.spaces[1].len())
                        .map(|at| (prior * all(at) + sum(&mut own.iter().copied(), at)) / count)
                        .collect();
                    -squared(&point.spaces[1], &mean)
                })
                .collect(),
            ExpertSettings::Ridge { ridge, softness, .. } => {
                // The number of points decides whether landmarks span the kernel.
                let value = kernel(settings, expert, fit, others.len());
                let matrix: Vec<Vec<f64>> = (0..others.len())
                    .map(|i| {
                        (0..others.len())
                            .map(|j| value(&others[i], &others[j]) + if i == j { ridge } else { 0.0 })
                            .collect()
                    })
                    .collect();
                (0..classes)
                    .map(|class| {
                        let target = others.iter().map(|other| f64::from(u8::from(other.label == class))).collect();
                        let beta = solve(matrix.clone(), target);
                        let output: f64 = others.iter().zip(beta).map(|(other, beta)| beta * value(point, other)).sum();
                        (1.0 + (output / softness).exp()).ln().ln()
                    })
                    .collect()
            }
            ExpertSettings::Nearest { floor, ceiling, .. } => (0..classes)
                .map(|class| {
                    let own = others.iter().filter(|other| other.label == class);
                    let least = own.map(|o| squared(&point.spaces[2], &o.spaces[2])).fold(ceiling, f64::min);
                    -least.max(floor).ln()
                })
                .collect(),
        };
        sum.iter_mut().zip(each).for_each(|(sum, each)| *sum += expert.weight() * each);
    }
    sum
}

fn minus_log(log_posteriors: &[f64], label: usize) -> f64 {
    let most = log_posteriors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + log_posteriors.iter().map(|e| (e - most).exp()).sum::<f64>().ln() - log_posteriors[label]
}

/// Returns the direction `(x-μ)/|x-μ|` of a point x from the mean μ of the fit points, or 0 if x is μ.
fn direction(point: &[f64], fitted: &[&[f32]]) -> Vec<f64> {
    let mean = |axis: usize| fitted.iter().map(|x| f64::from(x[axis])).sum::<f64>() / fitted.len() as f64;
    let from: Vec<f64> = point.iter().enumerate().map(|(axis, x)| x - mean(axis)).collect();
    let length = from.iter().map(|x| x * x).sum::<f64>().sqrt();
    from.iter().map(|x| if length > 1e-6 { x / length } else { 0.0 }).collect()
}

/// Returns the expected count of every label for every query. All posteriors are rebuilt for every query, label and
/// point.
pub(super) fn brute_force(case: &Case, settings: &StackSettings, calibrates: PosteriorCalibration) -> Vec<Vec<u32>> {
    let split = calibrates == PosteriorCalibration::Split;
    let by_class = match calibrates {
        PosteriorCalibration::Full { by_class, .. } => by_class,
        PosteriorCalibration::Split => ByClass::All,
    };
    let fitted: Vec<&[f32]> = (0..case.fit.labels.len()).map(|row| case.fit.embeddings.row(row)).collect();
    let place = |point: &[f32], label: u32| {
        let as_is: Vec<f64> = point.iter().map(|&x| f64::from(x)).collect();
        let raw = if settings.centred { direction(&as_is, &fitted) } else { as_is.clone() };
        let white = settings.whitening.as_ref().map(|white| map(&raw, white)).unwrap_or_default();
        let learned = map(&as_is, &case.root);
        Point { spaces: [raw, white, learned], label: label as usize }
    };
    let points = |part: &Part| -> Vec<Point> {
        part.labels.iter().enumerate().map(|(row, &label)| place(part.embeddings.row(row), label)).collect()
    };
    let (fit, bag) = (points(&case.fit), points(&case.bag));
    let of = |point: &Point, others: &[Point]| {
        minus_log(&log_posteriors(settings, &fit, point, others, case.classes), point.label)
    };
    let count = |query: usize, label: u32| {
        let joined = place(case.queries.row(query), label);
        let mut all = if split { fit.clone() } else { [&fit[..], &bag[..]].concat() };
        let own = of(&joined, &all);
        if !split {
            all.push(joined.clone());
        }
        // The balanced offset of a class is the shrunken mean score of its calibration points and the query, by the fit
        // points alone.
        let offset = |class: usize| {
            let members = bag.iter().chain([&joined]).filter(|point| point.label == class);
            let losses: Vec<f64> = members.map(|point| of(point, &fit)).collect();
            let k = losses.len() as f64;
            let mean = losses.iter().sum::<f64>() / k.max(1.0);
            if by_class == ByClass::Balanced && k > 0.0 {
                k / (k + 3.0) * (mean - settings.log_loss)
            } else {
                // Without balancing, the settings hold the offsets.
                let fixed = by_class != ByClass::Balanced;
                settings.offsets.get(class).copied().filter(|_| fixed).unwrap_or(0.0)
            }
        };
        // These tests have a single cluster, so all points are compared unless every class is its own stratum.
        let compared = |point: &Point| by_class != ByClass::Each || point.label == label as usize;
        let reaches = |place: usize| {
            // In split calibration the experts are trained on the fit points alone.
            let skipped = if split { usize::MAX } else { fit.len() + place };
            let others: Vec<Point> = (0..all.len()).filter(|&at| at != skipped).map(|at| all[at].clone()).collect();
            let theirs = of(&bag[place], &others) - offset(bag[place].label);
            theirs >= own * (1.0 - 1e-6) - offset(label as usize) - 1e-12
        };
        let among: Vec<usize> = (0..bag.len()).filter(|&place| compared(&bag[place])).collect();
        let count = 1 + among.iter().filter(|&&place| reaches(place)).count();
        (count * (bag.len() + 1)).div_ceil(among.len() + 1) as u32
    };
    (0..case.queries.rows()).map(|query| (0..case.classes as u32).map(|label| count(query, label)).collect()).collect()
}
