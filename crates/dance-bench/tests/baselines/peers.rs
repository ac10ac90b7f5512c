//! Class-wise, clustered and interpolated thresholds, RC3P, PAS and FCA against their formulas in f64, and their
//! coverage against the theory.

use dance::Matrix;
use dance::numeric::random::Random;
use dance::scores::{Counts, Cut, Draws, LabelCounts, RankedScore, least_count};
use dance_bench::baselines::class_wise::ClassCalibration;
use dance_bench::baselines::clustered::Clusters;
use dance_bench::baselines::fca::Fca;
use dance_bench::baselines::pas::{self, Pas};
use dance_bench::baselines::rc3p;

use super::{context, simulated};

/// The ⌈(1-α)(n+1)⌉-th smallest, in whole numbers for α in thousandths; +∞ beyond the last.
fn quantile(mut scores: Vec<f64>, thousandths: usize) -> f64 {
    scores.sort_by(f64::total_cmp);
    let index = ((1000 - thousandths) * (scores.len() + 1)).div_ceil(1000);
    scores.get(index - 1).copied().unwrap_or(f64::INFINITY)
}

/// 1-based, ties by the lower label.
fn rank(row: &[f32], label: usize) -> usize {
    let before = |&other: &usize| row[other] > row[label] || (row[other] == row[label] && other < label);
    1 + (0..row.len()).filter(before).count()
}

fn aps(row: &[f32], label: usize, u: f64) -> f64 {
    let before: f64 =
        (0..row.len()).filter(|&other| rank(row, other) < rank(row, label)).map(|at| f64::from(row[at])).sum();
    before + (1.0 - u) * f64::from(row[label])
}

/// Labels that are frequent and rare: three quarters of the points have one of the first three.
fn uneven(rows: usize, classes: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let (probabilities, labels) = simulated(rows, classes, 1.5, seed);
    let kept: Vec<usize> = (0..rows).filter(|row| labels[*row] < 3 || row % 4 == 0).collect();
    (probabilities.select(&kept), kept.iter().map(|&row| labels[row]).collect())
}

#[test]
fn thresholds_of_classes_follow_the_formulas() {
    let (classes, thousandths, alpha) = (9, 100, 0.1);
    let (own, labels) = uneven(600, classes, 1);
    let (queries, _) = uneven(300, classes, 2);
    let prevalence: Vec<usize> = (0..classes).map(|class| class * 3).collect(); // none of class 0
    let total = prevalence.iter().sum::<usize>() as f64;
    let lac = |row: &[f32], label: usize| 1.0 - f64::from(row[label]);
    let ratio = |row: &[f32], label: usize| match prevalence[label] {
        0 => 0.0,
        count => -f64::from(row[label]) / (count as f64 / total),
    };
    let pas = || Box::new(Pas::new(&prevalence));
    for (name, calibration, score, most) in [
        (
            "lac",
            ClassCalibration::new(Box::new(RankedScore::Lac), &own, &labels, None, &context()).unwrap(),
            &lac as &dyn Fn(&[f32], usize) -> f64,
            1.0,
        ),
        ("pas", ClassCalibration::new(pas(), &own, &labels, None, &context()).unwrap(), &ratio, pas::LARGEST),
    ] {
        let scores = |of: Option<usize>| {
            let rows = (0..labels.len()).filter(|&row| of.is_none_or(|class| labels[row] as usize == class));
            rows.map(|row| score(own.row(row), labels[row] as usize)).collect::<Vec<f64>>()
        };
        let standard = quantile(scores(None), thousandths);
        let each: Vec<f64> = (0..classes).map(|class| quantile(scores(Some(class)), thousandths)).collect();
        let between: Vec<f64> = each.iter().map(|own| 0.5 * standard.min(most) + 0.5 * own.min(most)).collect();
        assert!(each.iter().any(|own| own.is_finite()));
        for (cuts, expected) in [
            (calibration.standard(alpha).unwrap(), vec![standard; classes]),
            (calibration.class_wise(alpha).unwrap(), each),
            (calibration.interpolated(alpha, 0.5, most).unwrap(), between),
        ] {
            let sets = calibration.sets(&queries, &cuts, &context());
            for query in 0..queries.rows() {
                for (class, &threshold) in expected.iter().enumerate() {
                    let value = score(queries.row(query), class);
                    if (value - threshold).abs() > 1e-9 {
                        let inside = value <= threshold;
                        assert_eq!(sets.contains(query, class as u32), inside, "{name} {query} {class}");
                    }
                }
            }
        }
    }
}

#[test]
fn rc3p_follows_the_formula() {
    let (classes, alpha, seed) = (12, 0.1, 5);
    let (own, labels) = uneven(700, classes, 3);
    let labels: Vec<u32> = labels.iter().map(|&label| label.min(10)).collect(); // none of the last class
    let (queries, _) = uneven(200, classes, 4);
    let calibration = ClassCalibration::new(Box::new(RankedScore::Aps), &own, &labels, Some(seed), &context()).unwrap();
    let cuts = rc3p::cuts(&calibration, alpha).unwrap();
    let sets = calibration.sets(&queries, &cuts, &context());
    let draw = |part, row| Draws::Seeded { seed, part }.of(row);
    let mut limited = 0;
    for class in 0..classes {
        let rows: Vec<usize> = (0..labels.len()).filter(|&row| labels[row] as usize == class).collect();
        let (mut last, mut threshold) = (classes, f64::INFINITY);
        if !rows.is_empty() {
            let error = |k: usize| {
                let beyond = rows.iter().filter(|&&row| rank(own.row(row), class) > k).count();
                beyond as f64 / rows.len() as f64
            };
            last = (1..=classes).find(|&k| error(k) < alpha).unwrap();
            // 1 - (α - ε) of n + 1, in whole numbers.
            let beyond = (error(last) * rows.len() as f64).round() as usize;
            let (n, mut scores) = (rows.len(), Vec::new());
            scores.extend(rows.iter().map(|&row| aps(own.row(row), class, draw(0, row))));
            scores.sort_by(f64::total_cmp);
            let index = ((9 * n + 10 * beyond) * (n + 1)).div_ceil(10 * n);
            threshold = scores.get(index - 1).copied().unwrap_or(f64::INFINITY);
            assert_eq!(cuts.ranks[class], last, "{class}");
            limited += usize::from(last < classes);
        }
        for query in 0..queries.rows() {
            let score = aps(queries.row(query), class, draw(1, query));
            if (score - threshold).abs() > 1e-9 {
                let inside = score <= threshold && rank(queries.row(query), class) <= last;
                assert_eq!(sets.contains(query, class as u32), inside, "{query} {class}");
            }
        }
    }
    assert!(limited >= 3, "ranks must matter somewhere: {limited}");
}

/// Classes of two kinds, sure and unsure: k-means finds them, and the thresholds are quantiles of points that did not
/// cluster.
#[test]
fn clusters_are_classes_alike_and_others_calibrate() {
    let (classes, alpha, mut random) = (20, 0.1, Random::new(4, 9));
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for row in 0..2400 {
        // The last class has ten points in all.
        let label = if row < 10 { 19 } else { random.below(19) };
        let low = if label % 2 == 0 { 0.7 } else { 0.1 };
        let top = low + 0.2 * random.uniform();
        let mut probabilities = vec![((1.0 - top) / 19.0) as f32; classes];
        probabilities[label] = top as f32;
        values.extend(probabilities);
        labels.push(label as u32);
    }
    let own = Matrix::new(values, labels.len(), classes).unwrap();
    let calibration = ClassCalibration::new(Box::new(RankedScore::Lac), &own, &labels, None, &context()).unwrap();
    let clusters = Clusters::new(&calibration, alpha, 7);
    // ñ = 10, all 20 classes: γ = 20/95, M = ⌊10·γ/2⌋ = 1: too few clusters.
    assert!(clusters.of_class.iter().all(Option::is_none));
    assert_eq!((clusters.clustering.len(), clusters.calibrating.len()), (505, 1895)); // 2400·20/95 = 505.3
    let rest: Vec<f64> =
        clusters.calibrating.iter().map(|&row| 1.0 - f64::from(own.row(row)[labels[row] as usize])).collect();
    let cuts = clusters.cuts(&calibration, alpha).unwrap();
    assert!(cuts.thresholds.iter().all(|found| (found - quantile(rest.clone(), 100)).abs() < 1e-9));

    // Every point twenty times, but none of class 19 and few of class 18.
    let kept: Vec<usize> = (0..20).flat_map(|_| 10..2400).collect();
    let (many, labels) = (own.select(&kept), kept.iter().map(|&row| labels[row]).collect::<Vec<u32>>());
    let few = |row: &usize| labels[*row] != 18 || row.is_multiple_of(1000);
    let kept: Vec<usize> = (0..labels.len()).filter(few).collect();
    let (many, labels) = (many.select(&kept), kept.iter().map(|&row| labels[row]).collect::<Vec<u32>>());
    let calibration = ClassCalibration::new(Box::new(RankedScore::Lac), &many, &labels, None, &context()).unwrap();
    let clusters = Clusters::new(&calibration, 0.01, 7);
    // n_0.01 = 99 = ñ, 18 classes have as many: γ = 18/93, M = ⌊99·γ/2⌋ = 9.
    assert_eq!(clusters.clustering.len(), (labels.len() as f64 * 18.0 / 93.0).round() as usize);
    assert_eq!(clusters.of_class.iter().flatten().max(), Some(&8));
    assert_eq!((clusters.of_class[18], clusters.of_class[19]), (None, None));
    for (a, b) in (0..18).flat_map(|a| (0..18).map(move |b| (a, b))) {
        if clusters.of_class[a] == clusters.of_class[b] {
            assert_eq!(a % 2, b % 2, "a sure and an unsure class together");
        }
    }
    let cuts = clusters.cuts(&calibration, 0.01).unwrap();
    for class in 0..20 {
        let joins = |row: &&usize| {
            clusters.of_class[class].is_none() || clusters.of_class[labels[**row] as usize] == clusters.of_class[class]
        };
        let scores = clusters.calibrating.iter().filter(joins);
        let scores = scores.map(|&row| 1.0 - f64::from(many.row(row)[labels[row] as usize])).collect();
        assert!((cuts.thresholds[class] - quantile(scores, 10)).abs() < 1e-9, "{class}");
    }
    let mut all = [clusters.clustering, clusters.calibrating].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..labels.len()));
}

/// Points around directions, one per class.
fn directions(n: usize, classes: usize, d: usize, seed: u64) -> (Matrix, Vec<u32>) {
    let mut random = Random::new(seed, 6);
    let labels: Vec<u32> = (0..n).map(|_| random.below(classes) as u32).collect();
    // Near enough to each other that no probability rounds to 1.
    let center = |label: u32, at: usize| 0.5 + 0.3 * dance::numeric::random::uniform_of(&[label.into(), at as u64, 3]);
    let values = (0..n * d).map(|at| (center(labels[at / d], at % d) + 0.05 * random.normal()) as f32);
    (Matrix::new(values.collect(), n, d).unwrap(), labels)
}

fn unit(row: &[f32]) -> Vec<f64> {
    let length = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    row.iter().map(|&value| f64::from(value) / length).collect()
}

type LabeledPoint = (Vec<f64>, usize);

/// The centers of a probe adapted to points with labels.
fn centers(points: &[LabeledPoint], classes: usize, prototypes: Option<&Matrix>) -> Vec<Vec<f64>> {
    let value = |class: usize, side: usize| {
        let own = points.iter().filter(|point| point.1 == class);
        let text = prototypes.map_or(0.0, |prototypes| unit(prototypes.row(class))[side]);
        100.0 * own.map(|point| point.0[side]).sum::<f64>() + text
    };
    let center = |class: usize| (0..points[0].0.len()).map(|side| value(class, side)).collect();
    (0..classes).map(center).collect()
}

/// The probability that a probe gives to the label of a point.
fn probability(centers: &[Vec<f64>], (point, label): &LabeledPoint) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = |center: &Vec<f64>| match dot(center, center).sqrt() {
        0.0 => 0.0,
        length => dot(point, center) / length,
    };
    let logits: Vec<f64> = centers.iter().map(|center| 100.0 * cosine(center)).collect();
    1.0 / logits.iter().map(|logit| (logit - logits[*label]).exp()).sum::<f64>()
}

fn counts(probe: &Fca, queries: &Matrix) -> (LabelCounts, Vec<u32>) {
    probe.counts(queries, &context()).unwrap()
}

#[test]
fn fca_is_full_conformal_prediction_by_brute_force() {
    let (classes, d) = (6, 7);
    let (points, mut labels) = directions(60, classes, d, 1);
    // One class has a point, one has none.
    labels.iter_mut().filter(|label| **label >= 4).for_each(|label| *label = 3);
    labels[0] = 4;
    let (others, _) = directions(15, classes, d, 2);
    // Queries that are copies of points tie with them.
    let copies: Vec<f32> = (0..5).flat_map(|row| points.row(row).to_vec()).collect();
    let queries = Matrix::new([others.as_slice(), &copies].concat(), 20, d).unwrap();
    let (prototypes, _) = directions(classes, classes, d, 9);
    for prototypes in [None, Some(&prototypes)] {
        let probe = Fca::new(&points, &labels, classes, prototypes, &context()).unwrap();
        let (found, best) = counts(&probe, &queries);
        let row = |(row, &label): (usize, &u32)| (unit(points.row(row)), label as usize);
        let bag: Vec<LabeledPoint> = labels.iter().enumerate().map(row).collect();
        for query in 0..queries.rows() {
            for label in 0..classes {
                let mut joined = bag.clone();
                joined.push((unit(queries.row(query)), label));
                let probe = centers(&joined, classes, prototypes);
                let all: Vec<f64> = joined.iter().map(|point| probability(&probe, point)).collect();
                let own = all[bag.len()];
                // Equal but for rounding of the unit vectors: copies of the query under the same label are.
                let near = |p: &&f64| (**p - own).abs() <= 1e-4 * own.min(1.0 - own);
                let below = all.iter().filter(|p| **p < own && !near(p)).count();
                let tied = all.iter().filter(near).count();
                let Counts::One(count) = found.get(query, label as u32) else { panic!("FCA has one score") };
                let count = count as usize;
                assert!((below + 1..=below + tied).contains(&count), "{query} {label}: {count} {below} {tied}");
                if query >= 15 && labels[query - 15] as usize == label {
                    assert!(tied >= 2 && count == below + tied, "a copy of the query conforms no better");
                }
            }
            let probe = centers(&bag, classes, prototypes);
            let each = (0..classes).map(|label| probability(&probe, &(unit(queries.row(query)), label)));
            let each: Vec<f64> = each.collect();
            let most = each.iter().copied().fold(0.0, f64::max);
            assert!(each[best[query] as usize] >= most - 1e-5);
        }
    }
    assert!(Fca::new(&points, &labels, 2, None, &context()).is_err());
    assert!(Fca::new(&points, &labels[1..], classes, None, &context()).is_err());
    let probe = Fca::new(&points, &labels, classes, None, &context()).unwrap();
    assert!(probe.counts(&Matrix::new(vec![1.0; 6], 1, 6).unwrap(), &context()).is_err());
}

/// One query a trial: without ties its label is in the set with probability 28/31, and a count off by one is 8 standard
/// errors away.
#[test]
fn fca_has_its_coverage() {
    let (n, trials, alpha) = (30, 6000, 0.1);
    let mut covered = 0;
    for trial in 0..trials {
        let (all, labels) = directions(n + 1, 3, 4, 100 + trial);
        let points = all.select(&(0..n).collect::<Vec<_>>());
        let probe = Fca::new(&points, &labels[..n], 3, None, &context()).unwrap();
        let (found, _) = counts(&probe, &all.select(&[n]));
        covered += usize::from(found.sets(Cut::One(least_count(alpha, n)), 3).contains(0, labels[n]));
    }
    let (share, expected) = (covered as f64 / trials as f64, 28.0 / 31.0);
    let error = (expected * (1.0 - expected) / trials as f64).sqrt();
    assert!((share - expected).abs() < 4.0 * error, "{share} ± {error}");
}

/// Coverage of a class over many draws: class-wise thresholds keep it in every class, however rare; the threshold of
/// all does not.
#[test]
fn class_wise_thresholds_cover_every_class() {
    let (classes, trials, alpha) = (4usize, 400u64, 0.1);
    let mut hits = vec![[0usize; 3]; classes]; // by class-wise thresholds, by that of all, points
    for trial in 0..trials {
        let draw = |seed: u64, rows: usize| {
            let (mut probabilities, labels) = simulated(rows, classes, 2.0, seed);
            // The classifier thinks that class 0 is three times as likely as it is, so that classes differ.
            for row in 0..rows {
                let row = probabilities.row_mut(row);
                row[0] *= 3.0;
                let total: f32 = row.iter().sum();
                for p in row {
                    *p /= total;
                }
            }
            (probabilities, labels)
        };
        let (own, labels) = draw(2 * trial + 1000, 150);
        let (queries, truth) = draw(2 * trial + 1001, 100);
        let calibration = ClassCalibration::new(Box::new(RankedScore::Lac), &own, &labels, None, &context()).unwrap();
        let [each, all] = [calibration.class_wise(alpha), calibration.standard(alpha)]
            .map(|cuts| calibration.sets(&queries, &cuts.unwrap(), &context()));
        for (query, &label) in truth.iter().enumerate() {
            let hit = [each.contains(query, label), all.contains(query, label), true].map(usize::from);
            hits[label as usize].iter_mut().zip(hit).for_each(|(sum, hit)| *sum += hit);
        }
    }
    let share = |class: usize, which: usize| hits[class][which] as f64 / hits[class][2] as f64;
    for class in 0..classes {
        // About 37 points in a draw: at least 0.9, and at most 1/38 more on average, measured on 10,000 points.
        assert!((0.89..0.93).contains(&share(class, 0)), "{class}: {}", share(class, 0));
    }
    let spread: Vec<f64> = (0..classes).map(|class| share(class, 1)).collect();
    assert!(spread.iter().any(|share| (share - 0.9).abs() > 0.02), "{spread:?}");
}
