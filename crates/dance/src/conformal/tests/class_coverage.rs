//! Tests that every class is covered as promised if the guarantee holds for each class by itself.

use crate::Context;
use crate::conformal::{ByClass, ConformalConfig, Mix};
use crate::scores::{Counts, Cut};

use super::calibrated::Calibrated;
use super::coverage::{BAND, CLASSES, RESPLITS, Resplit, fuse, kernel, resplit};

/// Two numbers for every class: the number of covered test points beyond a share of 1-α, and the number of test points.
type Excess = [[f64; 2]; CLASSES as usize];

fn excess(context: &Context<'_>, parts: &Resplit, config: &ConformalConfig, alpha: f64, off: usize) -> Excess {
    let Resplit { reference, calibration, test } = parts;
    let calibrated = Calibrated::new(context, reference, calibration, CLASSES as usize, kernel(), config).unwrap();
    let answers = calibrated.score(context, &test.points);
    let Cut::One(least) = calibrated.predictor.decide(alpha, Mix::Auto).unwrap().cut else {
        panic!("one score decides")
    };
    let mut all = Excess::default();
    for (query, &label) in test.labels.iter().enumerate() {
        // One point of the class less, on the scale of all: (n+1)/(k+1) for k points.
        let k = calibration.labels.iter().filter(|&&other| other == label).count();
        let one = (calibration.len() + 1).div_ceil(k + 1);
        let Counts::One(count) = answers.counts.get(query, label) else { panic!("one score decides") };
        let hit = count as usize >= least as usize + off * one;
        let [sum, points] = &mut all[label as usize];
        *sum += f64::from(u8::from(hit)) - (1.0 - alpha);
        *points += 1.0;
    }
    all
}

/// Returns for every class whether it is covered as promised. The test is that the mean excess of 500 resplits lies
/// above the lower end of the band around 0.
fn kept(n: usize, alpha: f64, off: usize, config: impl Fn(usize) -> ConformalConfig + Sync) -> Vec<bool> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let config = &config;
    let all: Vec<Excess> = std::thread::scope(|scope| {
        let run = |worker: usize| {
            let context = Context::new(1).unwrap();
            let seeds = (worker..RESPLITS).step_by(workers);
            seeds.map(|seed| excess(&context, &resplit(n, seed), &config(seed), alpha, off)).collect::<Vec<_>>()
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
    let by = |by_class: ByClass| move |seed| fuse(seed).by_class(by_class);
    for (n, alpha) in [(100, 0.2), (300, 0.1)] {
        assert_eq!(kept(n, alpha, 0, by(ByClass::Each)), [true; CLASSES as usize], "{n} {alpha}");
    }
    // Test of the test: one point too few of every class. Classes have 20 points or so, and whole counts give half a
    // point away, so that it need not show in each.
    let off = kept(100, 0.2, 1, by(ByClass::Each));
    assert!(off.iter().filter(|kept| !**kept).count() >= 4, "{off:?}");
    // Without a promise to classes, the most difficult class gets less.
    let together = kept(300, 0.1, 0, by(ByClass::All));
    assert!(together.contains(&false), "{together:?}");
}
