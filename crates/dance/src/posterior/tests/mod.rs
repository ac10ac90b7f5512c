//! Tests that compare counts with a brute force, which rebuilds every posterior for every query and label from the
//! formulas, in plain loops. Further tests check coverage on many draws.

pub(super) mod brute_force;

use super::settings::Space;
use super::*;
use crate::numeric::random::Random;
use crate::scores::calibration::Clusters;
use crate::scores::least_count;
use brute_force::brute_force;

struct Case {
    fit: Part,
    bag: Part,
    queries: Matrix,
    classes: usize,
    root: Matrix,
}

impl Case {
    /// Draws random fit points, calibration points and queries for a test; one class has no points. With an odd seed,
    /// some calibration points are copies of others.
    fn random(seed: u64, random: &mut Random) -> Self {
        let (d, classes) = (3, 3 + seed as u32 % 3);
        Self {
            fit: clusters(random, 9, classes, d, 0),
            bag: clusters(random, 11, classes, d, 3 * (seed as usize % 2)),
            queries: clusters(random, 4, classes, d, 0).embeddings,
            classes: classes as usize + 1,
            root: random_map(random, d),
        }
    }
}

fn part(points: &[Vec<f32>], labels: &[u32]) -> Part {
    let cols = points.first().map_or(2, Vec::len);
    Part { embeddings: Matrix::new(points.concat(), points.len(), cols).unwrap(), labels: labels.to_vec() }
}

/// Draws points around class centers. The last `repeat` points are copies of earlier points, but draw their own labels.
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

fn settings_of(experts: Vec<ExpertSettings>, d: usize, random: &mut Random) -> StackSettings {
    let mut settings = StackSettings::new(experts, Some(random_map(random, d)), 0.0, Clusters::default(), 3);
    // Three classes have offsets, and a random half of the stacks has none.
    let offsets = (0..3).map(|_| 0.6 * random.normal());
    settings.offsets = offsets.collect();
    if random.below(2) == 0 {
        settings.offsets.clear();
    }
    settings
}

fn ridge(space: Space, weight: f64, softness: f64) -> ExpertSettings {
    ExpertSettings::Ridge { weight, space, bandwidth: 1.7, shape: 0.7, ridge: 0.05, softness }
}

/// Returns the stacks that the tests compare with the brute force: some of a single expert, some of several.
fn stacks() -> Vec<Vec<ExpertSettings>> {
    let prototypes = ExpertSettings::Prototypes { weight: 0.4, shrinkage: 0.5, prior: 0.5 };
    let heavy = ExpertSettings::Prototypes { weight: 0.7, shrinkage: 0.5, prior: 4.0 };
    let nearest = ExpertSettings::Nearest { weight: 1.1, floor: 1e-6, ceiling: 20.0 };
    let (raw, sharp) = (ridge(Space::Raw, 0.9, 0.3), ridge(Space::Raw, 0.8, 0.05));
    let (white, learned) = (ridge(Space::White, 0.7, 0.2), ridge(Space::Learned, 0.9, 0.1));
    vec![
        vec![prototypes],
        vec![heavy],
        vec![raw],
        vec![sharp],
        vec![nearest],
        vec![prototypes, raw, white, learned, nearest],
        vec![prototypes, sharp, learned, nearest],
    ]
}

fn full(by_class: ByClass) -> PosteriorCalibration {
    PosteriorCalibration::Full { by_class, new_labels: false }
}

fn compare(case: &Case, settings: &StackSettings, calibrates: PosteriorCalibration) {
    let context = Context::new(2).unwrap();
    let stack =
        Stack::open(settings.clone(), [&case.fit, &case.bag], &case.root, case.classes, calibrates, None, &context)
            .unwrap();
    let (counts, probabilities) = stack.answer(&case.queries, &context).unwrap();
    let expected = brute_force(case, settings, calibrates);
    for (query, expected) in expected.iter().enumerate() {
        let found: Vec<u32> = (0..case.classes as u32).map(|label| counts.get(query, label).rank()).collect();
        assert_eq!(&found, expected, "query {query}, {calibrates:?}, whole {}, {:?}", settings.whole, settings.experts);
        let sum: f32 = probabilities.row(query).iter().sum();
        assert!((sum - 1.0).abs() < 1e-5);
    }
    // A query has the same results alone and among other queries, to the last bit.
    let last = case.queries.rows() - 1;
    let (alone, probability) = stack.answer(&case.queries.select(&[last]), &context).unwrap();
    assert_eq!(alone.row(0).1, counts.row(last).1);
    assert_eq!(probability.row(0), probabilities.row(last));
}

#[test]
fn counts_are_those_of_a_brute_force_that_rebuilds_every_posterior() {
    for seed in 0..3 {
        let random = &mut Random::new(seed, 1);
        let case = Case::random(seed, random);
        for experts in stacks() {
            let mut settings = settings_of(experts, case.root.rows(), random);
            settings.centred = seed > 0;
            for whole in [2048, 0] {
                settings.whole = whole;
                for calibrates in [full(ByClass::All), PosteriorCalibration::Split] {
                    compare(&case, &settings, calibrates);
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
        // All points are equal.
        (part(&copies(4), &[0, 1, 0, 1]), part(&copies(5), &[0, 1, 1, 0, 2]), copies(2)),
        // Points of a lattice, so that distances tie. The queries are points of the lattice too.
        (part(&lattice[..5], &lattice_labels[..5]), part(&lattice, &lattice_labels), lattice[3..6].to_vec()),
        // Classes of one point: class 3 has only a fit point, classes 2 and 4 only a calibration point.
        (part(&lattice[..3], &[0, 1, 3]), part(&lattice[4..9], &[0, 1, 2, 4, 1]), lattice[7..9].to_vec()),
        // A single calibration point.
        (part(&lattice[..4], &[0, 1, 0, 1]), part(&lattice[5..6], &[1]), lattice[5..7].to_vec()),
    ];
    for (fit, bag, queries) in cases {
        let queries = Matrix::new(queries.concat(), queries.len(), 2).unwrap();
        let case = Case { fit, bag, queries, classes: 5, root: identity(2) };
        for experts in stacks() {
            let mut settings = settings_of(experts, 2, random);
            for centred in [true, false] {
                settings.centred = centred;
                for by_class in [ByClass::All, ByClass::Each, ByClass::Balanced] {
                    compare(&case, &settings, full(by_class));
                }
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
            for by_class in [ByClass::Balanced, ByClass::Clusters, ByClass::Each] {
                compare(&case, &settings, full(by_class));
            }
        }
    }
}

/// The coverage over many draws is `⌈(1-α)(n+1)⌉/(n+1)` for n calibration points, up to chance. In these draws scores
/// do not tie.
#[test]
fn coverage_is_nominal_for_fresh_draws() {
    let context = Context::new(2).unwrap();
    let random = &mut Random::new(5, 9);
    let (classes, d) = (4, 3);
    let fit = clusters(random, 24, classes, d, 0);
    let root = random_map(random, d);
    let mut settings = settings_of(stacks().pop().unwrap(), d, random);
    settings.offsets = vec![0.5, -0.4, 0.0];
    for n in [20, 100, 300] {
        let draws = 500;
        let mut covered = [0usize; 3];
        let alphas = [0.05, 0.1, 0.3];
        for _ in 0..draws {
            let bag = clusters(random, n, classes, d, 0);
            let query = clusters(random, 1, classes, d, 0);
            let mode = full(ByClass::All);
            let parts = [&fit, &bag];
            let stack = Stack::open(settings.clone(), parts, &root, classes as usize, mode, None, &context);
            let (counts, _) = stack.unwrap().answer(&query.embeddings, &context).unwrap();
            let count = counts.get(0, query.labels[0]).rank();
            for (covered, &alpha) in covered.iter_mut().zip(&alphas) {
                *covered += usize::from(count >= least_count(alpha, n));
            }
        }
        for (&covered, &alpha) in covered.iter().zip(&alphas) {
            // The expected coverage is ⌈(1-α)(n+1)⌉/(n+1). For α = 0.05 and n = 20, an index off by one differs by more
            // than four standard errors.
            let exact = (f64::from(n as u32) + 2.0 - f64::from(least_count(alpha, n))) / (n as f64 + 1.0);
            let found = covered as f64 / f64::from(draws);
            let error = (exact * (1.0 - exact) / f64::from(draws)).sqrt();
            assert!((found - exact).abs() < 4.0 * error, "n {n}, alpha {alpha}: {found} for {exact}");
        }
    }
}
