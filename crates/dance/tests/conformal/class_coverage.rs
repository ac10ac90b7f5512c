//! What is promised to classes is kept: for all points together where classes are evened out, for every class or cluster of classes
//! where each is counted by itself.

use dance::Context;
use dance::conformal::{ByClass, Calibration, ConformalConfig, MethodName, Mix};
use dance::scores::Cut;

use crate::calibrated::Calibrated;
use crate::coverage::{
    ALPHAS, BAND, CLASSES, RESPLITS, Resplit, above, band, covered, inside, kernel, mean_coverage, resplit,
    with,
};

/// Fused, the rank alone, the contrastive score alone.
const SCORES: [(MethodName, Mix); 3] = [
    (MethodName::Fuse, Mix::Auto),
    (MethodName::Joint, Mix::Fixed(0.0)),
    (MethodName::Dance, Mix::Fixed(1.0)),
];

fn by(by_class: ByClass, (combine, mix): (MethodName, Mix), seed: usize) -> ConformalConfig {
    with(Calibration::Full, combine, seed).mix(mix).by_class(by_class)
}

#[test]
fn classes_evened_out_keep_the_promise_to_all() {
    for n in [20, 100, 300] {
        let all = mean_coverage(n, |context, parts, seed| {
            SCORES.map(|score| covered(context, &parts, &by(ByClass::Balanced, score, seed), 0))
        });
        for (coverage, score) in all.iter().zip(SCORES) {
            assert_eq!(above(n, *coverage), [true; 4], "{score:?} {n} {coverage:?}");
        }
        // They hardly tie, so they cover no more than they must either.
        if n > 20 {
            assert_eq!(inside(n, all[0]), [true; 4], "{n} {:?} {:?}", all[0], ALPHAS.map(|a| band(n, a)));
        }
    }
}

/// Test of the test: p-values that count one point too few.
#[test]
fn a_count_off_by_one_is_noticed_where_classes_are_evened_out() {
    for n in [20, 100] {
        let [coverage] = mean_coverage(n, |context, parts, seed| {
            [covered(context, &parts, &by(ByClass::Balanced, SCORES[0], seed), 1)]
        });
        assert_eq!(above(n, coverage)[1..3], [false; 2], "{n} {coverage:?}");
    }
}

/// By class: how many more test points are covered than 1-α of them, and how many there are.
type Excess = [[f64; 2]; CLASSES as usize];

fn excess(
    context: &Context<'_>,
    parts: &Resplit,
    config: &ConformalConfig,
    alpha: f64,
    off: usize,
) -> Excess {
    let Resplit { reference, calibration, test } = parts;
    let calibrated =
        Calibrated::new(context, reference, calibration, CLASSES as usize, kernel(), config).unwrap();
    let answers = calibrated.answer(context, &test.points);
    let Cut::One(least) = calibrated.predictor.decide(alpha).unwrap().cut else {
        panic!("one score decides")
    };
    let mut all = Excess::default();
    for (query, &label) in test.labels.iter().enumerate() {
        // One point of the class less, on the scale of all: (n+1)/(k+1) for k points.
        let k = calibration.labels.iter().filter(|&&other| other == label).count();
        let one = (calibration.len() + 1).div_ceil(k + 1);
        let count = answers.counts.get(query, label).combined as usize;
        let hit = count >= least as usize + off * one;
        let [sum, points] = &mut all[label as usize];
        *sum += f64::from(u8::from(hit)) - (1.0 - alpha);
        *points += 1.0;
    }
    all
}

/// Which classes are covered as promised: the mean excess of 500 resplits is above the band around 0.
fn kept(n: usize, alpha: f64, off: usize, config: impl Fn(usize) -> ConformalConfig + Sync) -> Vec<bool> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let config = &config;
    let all: Vec<Excess> = std::thread::scope(|scope| {
        let run = |worker: usize| {
            let context = Context::new(1).unwrap();
            let seeds = (worker..RESPLITS).step_by(workers);
            seeds
                .map(|seed| excess(&context, &resplit(n, seed), &config(seed), alpha, off))
                .collect::<Vec<_>>()
        };
        let handles: Vec<_> = (0..workers).map(|worker| scope.spawn(move || run(worker))).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    });
    let resplits = RESPLITS as f64;
    let is_kept = |class: usize| {
        let mean = all.iter().map(|excess| excess[class][0]).sum::<f64>() / resplits;
        let spread = all.iter().map(|excess| (excess[class][0] - mean).powi(2)).sum::<f64>() / resplits;
        mean >= -BAND * (spread / resplits).sqrt()
    };
    (0..CLASSES as usize).map(is_kept).collect()
}

#[test]
fn every_class_is_covered_by_itself() {
    for (n, alpha) in [(100, 0.2), (300, 0.1)] {
        for score in SCORES {
            let kept = kept(n, alpha, 0, |seed| by(ByClass::Each, score, seed));
            assert_eq!(kept, [true; CLASSES as usize], "{score:?} {n} {alpha}");
        }
    }
    // Test of the test: one point too few of every class. Classes have 20 points or so, and whole counts give half a point away, so that
    // it need not show in each.
    let off = kept(100, 0.2, 1, |seed| by(ByClass::Each, SCORES[0], seed));
    assert!(off.iter().filter(|kept| !**kept).count() >= 4, "{off:?}");
    // And without a promise to classes, the hardest get less.
    let together = kept(300, 0.1, 0, |seed| by(ByClass::All, SCORES[0], seed));
    assert!(together.contains(&false), "{together:?}");
}
