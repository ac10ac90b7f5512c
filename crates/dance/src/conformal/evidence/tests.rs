//! Counts against a brute force that rebuilds every posterior for every query and label from the formulas, in plain loops; and
//! coverage on many draws.

use super::*;
use crate::conformal::least_count;
use crate::random::Random;

struct Case {
    fit: Part,
    bag: Part,
    queries: Matrix,
    classes: usize,
    root: Matrix,
}

fn part(points: &[Vec<f32>], labels: &[u32]) -> Part {
    let cols = points.first().map_or(2, Vec::len);
    Part { embeddings: Matrix::new(points.concat(), points.len(), cols).unwrap(), labels: labels.to_vec() }
}

/// Points around class centers; `repeat` of them are copies of earlier ones with labels of their own.
fn clusters(random: &mut Random, count: usize, classes: u32, dimensions: usize, repeat: usize) -> Part {
    let mut points: Vec<Vec<f32>> = Vec::new();
    let mut labels = Vec::new();
    for at in 0..count {
        let label = random.below(classes as usize) as u32;
        let point = if at >= count - repeat && at > 0 {
            points[random.below(at)].clone()
        } else {
            (0..dimensions)
                .map(|axis| {
                    let center = if axis as u32 % classes == label { 1.5 } else { 0.0 };
                    center + random.normal() as f32 * 0.6
                })
                .collect()
        };
        points.push(point);
        labels.push(label);
    }
    part(&points, &labels)
}

fn identity(d: usize) -> Matrix {
    let mut matrix = Matrix::zeros(d, d);
    for at in 0..d {
        matrix.row_mut(at)[at] = 1.0;
    }
    matrix
}

fn random_map(random: &mut Random, d: usize) -> Matrix {
    let values = (0..d * d).map(|at| random.normal() as f32 * 0.4 + f32::from(u8::from(at % (d + 1) == 0)));
    Matrix::new(values.collect(), d, d).unwrap()
}

/// One point of what experts look at: in every space, with its label.
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

/// Solves a linear system by elimination.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
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

/// The kernel, as it is or spanned by landmarks.
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
            .map(|i| {
                (0..m)
                    .map(|j| value(&landmarks[i], &landmarks[j]) + if i == j { 1e-8 } else { 0.0 })
                    .collect()
            })
            .collect();
        let right = landmarks.iter().map(|landmark| value(landmark, b)).collect();
        let solved = solve(matrix, right);
        landmarks.iter().zip(solved).map(|(landmark, weight)| value(a, landmark) * weight).sum()
    }
}

/// Evidence of a point for every label from others, by the formulas.
fn evidence(
    settings: &StackSettings,
    fit: &[Point],
    point: &Point,
    others: &[Point],
    classes: usize,
) -> Vec<f64> {
    let mut sum = vec![0.0; classes];
    for expert in &settings.experts {
        let each: Vec<f64> = match *expert {
            ExpertSettings::Prototypes { spread, nothing, .. } => (0..classes)
                .map(|class| {
                    let own: Vec<&Point> = others.iter().filter(|other| other.label == class).collect();
                    if own.is_empty() {
                        return -nothing;
                    }
                    let d = point.spaces[1].len();
                    let mean: Vec<f64> = (0..d)
                        .map(|at| own.iter().map(|other| other.spaces[1][at]).sum::<f64>() / own.len() as f64)
                        .collect();
                    -(squared(&point.spaces[1], &mean) - spread / own.len() as f64)
                })
                .collect(),
            ExpertSettings::Ridge { ridge, .. } => {
                // One more than the others: the whole bag decides whether the kernel is spanned.
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
                        let target =
                            others.iter().map(|other| f64::from(u8::from(other.label == class))).collect();
                        let beta = solve(matrix.clone(), target);
                        others.iter().zip(beta).map(|(other, beta)| beta * value(point, other)).sum()
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

fn minus_log(evidence: &[f64], label: usize) -> f64 {
    let most = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + evidence.iter().map(|e| (e - most).exp()).sum::<f64>().ln() - evidence[label]
}

/// Every count, from posteriors that are rebuilt for every query, label and point.
fn brute_force(
    case: &Case,
    settings: &StackSettings,
    mode: CalibrationMode,
    by_class: ByClass,
) -> Vec<Vec<u32>> {
    let place = |point: &[f32], label: u32| {
        let raw: Vec<f64> = point.iter().map(|&x| f64::from(x)).collect();
        let white = settings.whitening.as_ref().map(|white| map(&raw, white)).unwrap_or_default();
        let learned = map(&raw, &case.root);
        Point { spaces: [raw, white, learned], label: label as usize }
    };
    let points = |part: &Part| -> Vec<Point> {
        part.labels.iter().enumerate().map(|(row, &label)| place(part.embeddings.row(row), label)).collect()
    };
    let (fit, bag) = (points(&case.fit), points(&case.bag));
    let of = |point: &Point, others: &[Point]| {
        minus_log(&evidence(settings, &fit, point, others, case.classes), point.label)
    };
    let count = |query: usize, label: u32| {
        let joined = place(case.queries.row(query), label);
        let mut all = match mode {
            CalibrationMode::Disjoint => fit.clone(),
            _ => [&fit[..], &bag[..]].concat(),
        };
        let own = of(&joined, &all);
        if mode == CalibrationMode::Exact {
            all.push(joined.clone());
        }
        // The mean of a class in the bag with the query, by the fit points alone, shrunk.
        let offset = |class: usize| {
            let members = bag.iter().chain([&joined]).filter(|point| point.label == class);
            let losses: Vec<f64> = members.map(|point| of(point, &fit)).collect();
            let k = losses.len() as f64;
            let mean = losses.iter().sum::<f64>() / k.max(1.0);
            if by_class == ByClass::Fair && k > 0.0 {
                k / (k + 3.0) * (mean - settings.log_loss)
            } else {
                0.0
            }
        };
        // These tests have one cluster, unless every class is one.
        let compared = |point: &Point| by_class != ByClass::Each || point.label == label as usize;
        let reaches = |place: usize| {
            // In disjoint mode calibration points are not among those that speak.
            let skipped = if mode == CalibrationMode::Disjoint { usize::MAX } else { fit.len() + place };
            let others: Vec<Point> =
                (0..all.len()).filter(|&at| at != skipped).map(|at| all[at].clone()).collect();
            let theirs = of(&bag[place], &others) - offset(bag[place].label);
            theirs >= own * (1.0 - 1e-6) - offset(label as usize) - 1e-12
        };
        let among: Vec<usize> = (0..bag.len()).filter(|&place| compared(&bag[place])).collect();
        let count = 1 + among.iter().filter(|&&place| reaches(place)).count();
        (count * (bag.len() + 1)).div_ceil(among.len() + 1) as u32
    };
    (0..case.queries.rows())
        .map(|query| (0..case.classes as u32).map(|label| count(query, label)).collect())
        .collect()
}

fn settings_of(experts: Vec<ExpertSettings>, d: usize, random: &mut Random) -> StackSettings {
    StackSettings::new(experts, Some(random_map(random, d)), 0.0, Clusters::default(), 3)
}

fn ridge(space: Space, weight: f64) -> ExpertSettings {
    ExpertSettings::Ridge { weight, space, bandwidth: 1.7, shape: 0.7, ridge: 0.05 }
}

/// Each expert alone, and all together.
fn stacks() -> Vec<Vec<ExpertSettings>> {
    let prototypes = ExpertSettings::Prototypes { weight: 0.4, shrinkage: 0.5, spread: 1.3, nothing: 6.0 };
    let nearest = ExpertSettings::Nearest { weight: 1.1, floor: 1e-6, ceiling: 20.0 };
    let (raw, white, learned) =
        (ridge(Space::Raw, 4.0), ridge(Space::White, 3.0), ridge(Space::Learned, 5.0));
    vec![vec![prototypes], vec![raw], vec![nearest], vec![prototypes, raw, white, learned, nearest]]
}

fn compare(case: &Case, settings: &StackSettings, mode: CalibrationMode, by_class: ByClass) {
    let context = Context::new(2).unwrap();
    let stack = Stack::open(
        settings.clone(),
        [&case.fit, &case.bag],
        &case.root,
        case.classes,
        (mode, by_class),
        None,
        &context,
    )
    .unwrap();
    let (counts, probabilities) = stack.answer(&case.queries, &context).unwrap();
    let expected = brute_force(case, settings, mode, by_class);
    for (query, expected) in expected.iter().enumerate() {
        let found: Vec<u32> =
            (0..case.classes as u32).map(|label| counts.get(query, label).combined).collect();
        assert_eq!(
            &found, expected,
            "query {query}, {mode:?}, {by_class:?}, whole {}, {:?}",
            settings.whole, settings.experts
        );
        let sum: f32 = probabilities.row(query).iter().sum();
        assert!((sum - 1.0).abs() < 1e-5);
    }
    // A query alone and in company: the same to the last bit.
    let last = case.queries.rows() - 1;
    let (alone, probability) = stack.answer(&case.queries.select(&[last]), &context).unwrap();
    assert_eq!(alone.row(0).1, counts.row(last).1);
    assert_eq!(probability.row(0), probabilities.row(last));
}

#[test]
fn counts_are_those_of_a_brute_force_that_rebuilds_every_posterior() {
    for seed in 0..6 {
        let random = &mut Random::new(seed, 1);
        let (d, classes) = (3, 3 + seed as u32 % 3);
        let case = Case {
            fit: clusters(random, 9, classes, d, 0),
            bag: clusters(random, 11, classes, d, 3 * (seed as usize % 2)),
            queries: clusters(random, 4, classes, d, 0).embeddings,
            classes: classes as usize + 1, // one that nobody has
            root: random_map(random, d),
        };
        for experts in stacks() {
            let mut settings = settings_of(experts, d, random);
            for whole in [2048, 0] {
                settings.whole = whole;
                for mode in [CalibrationMode::Exact, CalibrationMode::Reuse, CalibrationMode::Disjoint] {
                    compare(&case, &settings, mode, ByClass::Together);
                }
            }
        }
    }
}

#[test]
fn nasty_bags_too() {
    let random = &mut Random::new(77, 2);
    let same = vec![0.5f32, -0.25];
    let lattice: Vec<Vec<f32>> = (0..12).map(|at| vec![(at % 4) as f32, (at / 4) as f32]).collect();
    let lattice_labels: Vec<u32> = (0..12).map(|at| at % 3).collect();
    let copies = |count: usize| vec![same.clone(); count];
    let cases = [
        // All points the same.
        (part(&copies(4), &[0, 1, 0, 1]), part(&copies(5), &[0, 1, 1, 0, 2]), copies(2)),
        // A lattice, where distances tie; queries are points of it.
        (part(&lattice[..5], &lattice_labels[..5]), part(&lattice, &lattice_labels), lattice[3..6].to_vec()),
        // Classes of one point; one only in the fit part, two only in the bag.
        (part(&lattice[..3], &[0, 1, 3]), part(&lattice[4..9], &[0, 1, 2, 4, 1]), lattice[7..9].to_vec()),
        // A bag of one point.
        (part(&lattice[..4], &[0, 1, 0, 1]), part(&lattice[5..6], &[1]), lattice[5..7].to_vec()),
    ];
    for (fit, bag, queries) in cases {
        let queries = Matrix::new(queries.concat(), queries.len(), 2).unwrap();
        let case = Case { fit, bag, queries, classes: 5, root: identity(2) };
        for experts in stacks() {
            let settings = settings_of(experts, 2, random);
            for by_class in [ByClass::Together, ByClass::Each, ByClass::Fair] {
                compare(&case, &settings, CalibrationMode::Exact, by_class);
            }
        }
    }
}

#[test]
fn counts_by_class_are_those_of_a_brute_force() {
    for seed in 0..3 {
        let random = &mut Random::new(seed, 4);
        let case = Case {
            fit: clusters(random, 9, 3, 3, 0),
            bag: clusters(random, 14, 3, 3, 0),
            queries: clusters(random, 3, 3, 3, 0).embeddings,
            classes: 4,
            root: random_map(random, 3),
        };
        for experts in stacks() {
            let mut settings = settings_of(experts, 3, random);
            settings.log_loss = 0.7;
            for by_class in [ByClass::Fair, ByClass::Clusters, ByClass::Each] {
                compare(&case, &settings, CalibrationMode::Exact, by_class);
            }
        }
    }
}

/// Coverage over many draws of bag and query lies in the beta-binomial band of exact p-values: at least 1-α, and above it by at
/// most 1/(n+1) as long as scores do not tie.
#[test]
fn coverage_is_nominal_for_fresh_draws() {
    let context = Context::new(2).unwrap();
    let random = &mut Random::new(5, 9);
    let (classes, d) = (4, 3);
    let fit = clusters(random, 24, classes, d, 0);
    let root = random_map(random, d);
    let settings = settings_of(stacks().pop().unwrap(), d, random);
    for n in [20, 100] {
        let draws = 500;
        let mut covered = [0usize; 3];
        let alphas = [0.05, 0.1, 0.3];
        for _ in 0..draws {
            let bag = clusters(random, n, classes, d, 0);
            let query = clusters(random, 1, classes, d, 0);
            let parts = [&fit, &bag];
            let mode = CalibrationMode::Exact;
            let stack = Stack::open(
                settings.clone(),
                parts,
                &root,
                classes as usize,
                (mode, ByClass::Together),
                None,
                &context,
            )
            .unwrap();
            let (counts, _) = stack.answer(&query.embeddings, &context).unwrap();
            let count = counts.get(0, query.labels[0]).combined;
            for (at, &alpha) in alphas.iter().enumerate() {
                covered[at] += usize::from(count >= least_count(alpha, n));
            }
        }
        for (at, &alpha) in alphas.iter().enumerate() {
            // Exactly ⌈(1-α)(n+1)⌉/(n+1), four standard errors either way: an index off by one leaves it for n = 20.
            let exact = (f64::from(n as u32) + 2.0 - f64::from(least_count(alpha, n))) / (n as f64 + 1.0);
            let found = covered[at] as f64 / f64::from(draws);
            let error = (exact * (1.0 - exact) / f64::from(draws)).sqrt();
            assert!((found - exact).abs() < 4.0 * error, "n {n}, alpha {alpha}: {found} for {exact}");
        }
    }
}
