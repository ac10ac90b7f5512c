//! Tests that the coverage of prediction sets is what theory says.
//!
//! If scores do not tie, the number of covered points out of t test points is BetaBinomial(t, k, n+1-k). Here n is the
//! number of calibration points and k = ⌈(n+1)(1-α)⌉. Over 500 independent resplits, the mean share of covered points
//! stays within a 99.9 % band around k/(n+1). With ties it stays above the lower end of this band. For the intersection
//! of two sets it stays above the lower end of a band around 1-α. The tests must also notice a quantile index that is
//! off by one, and points that are their own neighbors.

use crate::Context;
use crate::conformal::{Calibration, ConformalConfig, MethodName, Mix, Predictor, Scored};
use crate::device::Cpu;
use crate::kernel::Kernel;
use crate::neighbors::Index;
use crate::scores::Cut;
use crate::scores::calibration::order_index;

use super::calibrated::{Calibrated, calibration_scores};
use super::reference::{Data, blobs};

pub(crate) const RESPLITS: usize = 500;
pub(crate) const TEST_POINTS: usize = 100;
pub(crate) const CLASSES: u32 = 5;
pub(crate) const ALPHAS: [f64; 4] = [0.2, 0.1, 0.05, 0.01];
/// The half width of a 99.9 % band, in standard deviations.
pub(crate) const BAND: f64 = 3.2905;

/// Returns the ends of a 99.9 % band around the expected share of covered test points, for `n` calibration points. The
/// share is a mean over all resplits.
pub(crate) fn band(n: usize, alpha: f64) -> (f64, f64) {
    let k = order_index(alpha, n);
    if k > n {
        return (1.0, 1.0);
    }
    let (a, b) = (k as f64, (n + 1 - k) as f64);
    let mean = a / (a + b);
    let between = a * b / ((a + b).powi(2) * (a + b + 1.0));
    let within = a * b / ((a + b) * (a + b + 1.0)) / TEST_POINTS as f64;
    let half = BAND * ((between + within) / RESPLITS as f64).sqrt();
    (mean - half, (mean + half).min(1.0))
}

/// One random draw of the data of a coverage test: reference points, calibration points and test points.
pub(crate) struct Resplit {
    pub(crate) reference: Data,
    pub(crate) calibration: Data,
    pub(crate) test: Data,
}

pub(crate) fn resplit(n: usize, seed: usize) -> Resplit {
    let all = blobs(150 + n + TEST_POINTS, 4, CLASSES, 0.6, 1000 + seed as u64);
    Resplit {
        reference: all.range(0..150),
        calibration: all.range(150..150 + n),
        test: all.range(150 + n..150 + n + TEST_POINTS),
    }
}

fn config(mix: Mix, tie_noise: f64, seed: usize) -> ConformalConfig {
    ConformalConfig::paper()
        .rank_neighbors(40)
        .contrast_neighbors(30)
        .with_calibration(Calibration::Split)
        .mix(mix)
        .tie_noise(tie_noise)
        .seed(seed as u64)
}

pub(crate) fn kernel() -> Kernel {
    Kernel::new(60.0, 1.0).unwrap()
}

/// The shares of covered test points at the error levels [`ALPHAS`].
pub(crate) type Coverage = [f64; 4];

/// Returns the mean share of covered test points over all resplits with `n` calibration points, for `N` variants. `one`
/// counts the covered points of one resplit at every error level, for each variant.
pub(crate) fn mean_coverage<const N: usize>(
    n: usize,
    one: impl Fn(&Context<'_>, Resplit, usize) -> [[usize; 4]; N] + Sync,
) -> [Coverage; N] {
    // Plain threads: a rayon worker that waits for the context's own pool would take up the next resplit meanwhile, on
    // the same stack, and so on.
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let one = &one;
    let counts: Vec<[[usize; 4]; N]> = std::thread::scope(|scope| {
        let run = |worker: usize| {
            let context = Context::new(1).unwrap();
            let seeds = (worker..RESPLITS).step_by(workers);
            seeds.map(|seed| one(&context, resplit(n, seed), seed)).collect::<Vec<_>>()
        };
        let handles: Vec<_> = (0..workers).map(|worker| scope.spawn(move || run(worker))).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    });
    let share = |variant: usize, at: usize| {
        counts.iter().map(|counts| counts[variant][at]).sum::<usize>() as f64 / (RESPLITS * TEST_POINTS) as f64
    };
    std::array::from_fn(|variant| std::array::from_fn(|at| share(variant, at)))
}

fn split(context: &Context<'_>, parts: &Resplit, config: &ConformalConfig) -> (Predictor, Scored) {
    let Resplit { reference, calibration, test } = parts;
    let calibrated = Calibrated::new(context, reference, calibration, CLASSES as usize, kernel(), config).unwrap();
    let scored = calibrated.score(context, &test.points);
    (calibrated.predictor, scored)
}

/// Returns a function that counts the covered test points of a resplit at every error level, for each of the mixes.
fn covered_by<const N: usize>(
    mixes: [Mix; N],
    tie_noise: f64,
) -> impl Fn(&Context<'_>, Resplit, usize) -> [[usize; 4]; N] + Sync {
    move |context, parts, seed| {
        let (calibrated, scored) = split(context, &parts, &config(mixes[0], tie_noise, seed));
        mixes.map(|mix| {
            ALPHAS.map(|alpha| {
                let decision = calibrated.decide(alpha, mix).unwrap();
                let sets = scored.counts.sets(decision.cut, CLASSES as usize);
                parts.test.labels.iter().enumerate().filter(|&(query, &label)| sets.contains(query, label)).count()
            })
        })
    }
}

pub(crate) fn inside(n: usize, coverage: Coverage) -> [bool; 4] {
    std::array::from_fn(|at| {
        let (low, high) = band(n, ALPHAS[at]);
        (low..=high).contains(&coverage[at])
    })
}

pub(crate) fn above(n: usize, coverage: Coverage) -> [bool; 4] {
    std::array::from_fn(|at| coverage[at] >= band(n, ALPHAS[at]).0)
}

#[test]
fn sets_of_one_score_without_ties_are_inside_the_band() {
    for n in [20, 100, 1000] {
        let both = mean_coverage(n, covered_by([Mix::Fixed(0.0), Mix::Fixed(1.0)], 0.9));
        for (coverage, name) in both.into_iter().zip(["rank", "contrastive"]) {
            assert_eq!(inside(n, coverage), [true; 4], "{name} {n} {coverage:?} {:?}", ALPHAS.map(|a| band(n, a)));
        }
    }
}

#[test]
fn rank_sets_with_ties_are_above_the_band() {
    for n in [20, 100, 1000] {
        let [coverage] = mean_coverage(n, covered_by([Mix::Fixed(0.0)], 0.0));
        assert_eq!(above(n, coverage), [true; 4], "{n} {coverage:?}");
    }
}

#[test]
fn dance_sets_keep_their_promise() {
    for n in [20, 100, 1000] {
        let [coverage] = mean_coverage(n, covered_by([Mix::Auto], 0.0));
        for (coverage, alpha) in coverage.into_iter().zip(ALPHAS) {
            // Half of the points give thresholds; at the level 1-α the band of that many is the widest that can occur.
            let (low, high) = band(n - n / 2, alpha);
            let low = 1.0 - alpha - if high == 1.0 && low == 1.0 { 0.0 } else { (high - low) / 2.0 };
            assert!(coverage >= low, "{n} {alpha} {coverage} {low}");
        }
    }
}

/// Returns the settings of the method [`fuse`](MethodName::Fuse) for coverage tests.
pub(crate) fn fuse(seed: usize) -> ConformalConfig {
    ConformalConfig::default().with_method(MethodName::Fuse).rank_neighbors(40).contrast_neighbors(30).seed(seed as u64)
}

/// Returns the number of covered test points at each error level. A `shift` above 0 raises the smallest count with
/// which a label is in a set, to show that the tests notice such an error.
pub(crate) fn covered(context: &Context<'_>, parts: &Resplit, config: &ConformalConfig, shift: u32) -> [usize; 4] {
    let Resplit { reference, calibration, test } = parts;
    let calibrated = Calibrated::new(context, reference, calibration, CLASSES as usize, kernel(), config).unwrap();
    let scored = calibrated.score(context, &test.points);
    ALPHAS.map(|alpha| {
        let cut = match calibrated.predictor.decide(alpha, Mix::Auto).unwrap().cut {
            Cut::One(least) => Cut::One(least + shift),
            Cut::Both { rank, contrast } => Cut::Both { rank: rank + shift, contrast: contrast + shift },
        };
        let sets = scored.counts.sets(cut, CLASSES as usize);
        test.labels.iter().enumerate().filter(|&(query, &label)| sets.contains(query, label)).count()
    })
}

#[test]
fn full_calibration_keeps_its_promise() {
    for n in [20, 100, 300] {
        let [coverage] = mean_coverage(n, |context, parts, seed| [covered(context, &parts, &fuse(seed), 0)]);
        assert_eq!(above(n, coverage), [true; 4], "{n} {coverage:?}");
        // Fused scores hardly tie: they cover no more than they must either.
        if n > 20 {
            assert_eq!(inside(n, coverage), [true; 4], "{n} {coverage:?} {:?}", ALPHAS.map(|a| band(n, a)));
        }
    }
}

/// The coverage test notices an error of its subject: p-values that count one point too few.
#[test]
fn a_count_off_by_one_is_noticed() {
    for n in [20, 100] {
        let [coverage] = mean_coverage(n, |context, parts, seed| [covered(context, &parts, &fuse(seed), 1)]);
        assert_eq!(above(n, coverage)[1..3], [false; 2], "{n} {coverage:?}");
    }
}

/// Reuse covers too few points where full calibration covers enough. Points are near copies of four originals, each a
/// class. The contrastive score of a point grows with the number of copies around it. With reuse, a query has one copy
/// more around it than a calibration point had, which does not count itself. So the largest class falls out of the CLR
/// set. In full calibration the query is one of the bag, like the others.
#[test]
fn reuse_under_covers_where_full_calibration_holds() {
    let n = 100;
    let all = mean_coverage(n, |context, parts, seed| {
        let Resplit { reference, .. } = parts;
        let all = blobs(n + TEST_POINTS, 4, 4, 0.01, 5000 + seed as u64);
        let (calibration, test) = (all.range(0..n), all.range(n..n + TEST_POINTS));
        let parts = Resplit { reference, calibration, test };
        let reuse = config(Mix::Fixed(1.0), 0.0, seed).with_calibration(Calibration::Reuse);
        [reuse, fuse(seed)].map(|config| covered(context, &parts, &config.contrast_neighbors(50), 0))
    });
    // At α = 0.1 the CLR set of reuse covers less than three quarters.
    assert!(all[0][1] < 0.75, "{all:?}");
    assert_eq!(above(n, all[1]), [true; 4], "{all:?}");
}

/// The coverage test notices an error of its subject: a threshold that is one place too low among the sorted scores.
#[test]
fn an_index_off_by_one_is_noticed() {
    for n in [20, 100] {
        let [coverage] = mean_coverage(n, |context, parts, seed| {
            let (calibrated, scored) = split(context, &parts, &config(Mix::Fixed(1.0), 0.0, seed));
            [ALPHAS.map(|alpha| {
                let index = order_index(alpha, n) - 1;
                let threshold = calibration_scores(&calibrated).unwrap()[1].sorted()[index.min(n) - 1];
                let labels = parts.test.labels.iter().enumerate();
                labels.filter(|&(query, &label)| scored.neighbor_scores(query, label).unwrap().1 <= threshold).count()
            })]
        });
        assert_eq!(above(n, coverage)[..3], [false; 3], "{n} {coverage:?}");
        assert_eq!(inside(n, coverage), [false; 4], "{n} {coverage:?}");
    }
}

/// The coverage test notices an error of its subject: calibration points that are their own neighbors.
#[test]
fn a_point_that_is_its_own_neighbor_is_noticed() {
    for n in [20, 100] {
        let [coverage] = mean_coverage(n, |context, Resplit { calibration, test, .. }, _| {
            let index = Index::open(&Cpu, calibration.points.clone(), context).unwrap();
            let ranks = |data: &Data| -> Vec<f64> {
                let found = index.search(&data.points, 60, context).unwrap();
                let rank = |(query, label): (usize, &u32)| {
                    let place = found.ids(query).iter().position(|&id| calibration.labels[id as usize] == *label);
                    place.map_or(f64::INFINITY, |place| place as f64 + 1.0)
                };
                data.labels.iter().enumerate().map(rank).collect()
            };
            let own = crate::scores::calibration::CalibrationScores::new(ranks(&calibration)).unwrap();
            let new = ranks(&test);
            [ALPHAS.map(|alpha| {
                let threshold = own.threshold(alpha).unwrap().value;
                new.iter().filter(|&&score| score <= threshold).count()
            })]
        });
        assert_eq!(above(n, coverage)[..3], [false; 3], "{n} {coverage:?}");
    }
}
