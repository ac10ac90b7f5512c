//! Counts by class, fused and of single scores, are those of the brute force that rebuilds every score for every query and label.

use dance::Context;
use dance::Matrix;
use dance::conformal::{
    ByClass, Calibration, ConformalConfig, Difficulty, MethodName, Mix, Predictor, Setup,
};
use dance::device::Cpu;
use dance::kernel::Kernel;
use dance::machine::Part;
use dance::numeric::random::Random;

use crate::exact::{CLASSES, Case, Point, SEED, cases, key, name_of, probabilities, scores};
use crate::reference::{Data, Settings, blobs};

/// How classes are told apart: fit points that a machine had not seen, their probabilities and labels.
struct Judged {
    own: Vec<f32>,
    labels: Vec<u32>,
}

impl Judged {
    /// Classes differ in how hard they are; the last two have no fit points. Tenths, so that many tie.
    fn new(points: usize) -> Self {
        let mut random = Random::new(71, 4);
        let labels: Vec<u32> = (0..points).map(|_| random.below(CLASSES - 2) as u32).collect();
        let own =
            labels.iter().map(|&label| (random.below(7 + label as usize) as f32 / 10.0).min(1.0)).collect();
        Self { own, labels }
    }

    /// `-ln( max(1, #{fit points with at most p}) / (m+1) )`
    fn hardness(&self, probability: f64) -> f64 {
        let at_most = self.own.iter().filter(|&&own| f64::from(own) <= probability).count().max(1);
        -(at_most as f64 / (self.own.len() as f64 + 1.0)).ln()
    }

    fn average(&self) -> f64 {
        let all: f64 = self.own.iter().map(|&own| self.hardness(f64::from(own))).sum();
        all / self.own.len().max(1) as f64
    }

    /// The cluster of every class: in the order of their shrunken means, cut by the place of the middle of their points.
    fn clusters(&self) -> Vec<usize> {
        let (m, average) = (self.own.len(), self.average());
        let clusters = (m / 100).clamp(1, 8);
        let of = |class: usize| -> Vec<f64> {
            let own = self.own.iter().zip(&self.labels).filter(|(_, label)| **label as usize == class);
            own.map(|(&own, _)| self.hardness(f64::from(own))).collect()
        };
        // Classes beyond those of the fit are like the average.
        let known = CLASSES - 1;
        let mean = |class: usize| {
            let all = of(class);
            (all.iter().sum::<f64>() + 3.0 * average) / (all.len() as f64 + 3.0)
        };
        let mut order: Vec<usize> = (0..known).collect();
        order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
        let (mut before, mut cluster_of, mut middle) = (0, vec![0; CLASSES], 0);
        for class in order {
            let count = of(class).len();
            let cluster = (((before as f64 + count as f64 / 2.0) * clusters as f64 / m.max(1) as f64)
                as usize)
                .min(clusters - 1);
            cluster_of[class] = cluster;
            before += count;
            if mean(class) <= average {
                middle = cluster;
            }
        }
        cluster_of[known] = middle;
        cluster_of
    }
}

/// The count of one query, the last of the bag, with its label: everything is computed anew.
fn brute_force(
    bag: &[Point],
    behind: &[Point],
    s: Settings,
    (combine, mix): (MethodName, f64),
    by_class: ByClass,
    judged: &Judged,
) -> u32 {
    let fuse = combine == MethodName::Fuse;
    let all: Vec<[f64; 3]> = (0..bag.len()).map(|i| scores(bag, behind, i, s, fuse)).collect();
    let reached =
        |i: usize, which: usize| all.iter().filter(|other| other[which] >= all[i][which]).count() as f64;
    let average = judged.average();
    let offset = |label: u32| {
        let class = bag.iter().filter(|point| point.label == label);
        let hardness: Vec<f64> = class.map(|point| judged.hardness(point.probability)).collect();
        let k = hardness.len() as f64;
        let mean = hardness.iter().sum::<f64>() / k;
        if k == 0.0 { 0.0 } else { k / (k + 3.0) * (mean - average) }
    };
    let offsets: Vec<f64> = (0..CLASSES as u32).map(offset).collect();
    let score = |i: usize| {
        let (logs, weights) = match (fuse, mix == 0.0) {
            (true, _) => (2.0 * reached(i, 0).ln() + reached(i, 1).ln() + 2.0 * reached(i, 2).ln(), 5.0),
            (false, true) => (reached(i, 0).ln(), 0.4),
            (false, false) => (reached(i, 1).ln(), 0.4),
        };
        if by_class == ByClass::Balanced { -logs - weights * offsets[bag[i].label as usize] } else { -logs }
    };
    let newcomer = bag.len() - 1;
    let clusters = judged.clusters();
    let compared = |i: &usize| match by_class {
        ByClass::All | ByClass::Balanced => true,
        ByClass::Each => bag[*i].label == bag[newcomer].label,
        ByClass::Clusters => clusters[bag[*i].label as usize] == clusters[bag[newcomer].label as usize],
    };
    let members: Vec<usize> = (0..bag.len()).filter(compared).collect();
    let own = score(newcomer);
    let count = members.iter().filter(|&&i| score(i) >= own - 1e-10).count();
    (count * bag.len()).div_ceil(members.len()) as u32
}

fn compare(case: &Case, s: Settings, combine: MethodName, mix: f64, by_class: ByClass, judged: &Judged) {
    let context = Context::new(1).unwrap();
    let fuse = combine == MethodName::Fuse;
    let config = ConformalConfig::default()
        .rank_neighbors(s.rank_neighbors)
        .contrast_neighbors(s.contrast_neighbors)
        .temperature(s.temperature)
        .mix(if fuse { Mix::Auto } else { Mix::Fixed(mix) })
        .calibration(Calibration::Full)
        .method(combine)
        .by_class(by_class)
        .seed(SEED);
    let Case { name, calibration, fit, test } = case;
    let n = calibration.len();
    let (own, asked) = (probabilities(n, 1), probabilities(test.len(), 2));
    let asks = fuse || by_class == ByClass::Balanced;
    let probability = |all: &Matrix, row: usize, label: u32| {
        if asks { f64::from(all.row(row).get(label as usize).copied().unwrap_or(0.0)) } else { 1.0 }
    };
    let kernel = Kernel::new(s.bandwidth, s.shape).unwrap();
    let setup = Setup { device: &Cpu, classes: CLASSES, kernel, config: &config, context: &context };
    let part = |data: &Data| Part { embeddings: data.points.clone(), labels: data.labels.clone() };
    let of_own = |row: usize| probability(&own, row, calibration.labels[row]) as f32;
    let of_own = asks.then(|| (0..n).map(of_own).collect());
    let predictor = if by_class == ByClass::Each {
        Predictor::exact(part(calibration), &part(fit), of_own, setup)
    } else {
        let difficulty = Difficulty::new(judged.own.clone(), &judged.labels, CLASSES - 1);
        Predictor::exact_by_class(part(calibration), &part(fit), of_own, difficulty, setup)
    };
    let answers = predictor.unwrap().answer(&test.points, asks.then_some(&asked), &context).unwrap();

    let point = |data: &Data, row: usize, label: u32, key: f64, probability: f64| Point {
        at: data.points.row(row).to_vec(),
        label,
        key,
        probability,
        noise: 0.0,
    };
    let behind: Vec<Point> =
        (0..fit.len()).map(|row| point(fit, row, fit.labels[row], key(2, row as u64), 1.0)).collect();
    let mut bag: Vec<Point> = (0..n)
        .map(|row| {
            let label = calibration.labels[row];
            point(calibration, row, label, key(0, row as u64), probability(&own, row, label))
        })
        .collect();
    for query in 0..test.len().min(5) {
        for label in 0..CLASSES as u32 {
            let drawn = key(1, name_of(test.points.row(query)));
            bag.push(point(test, query, label, drawn, probability(&asked, query, label)));
            assert_eq!(
                answers.counts.get(query, label).combined,
                brute_force(&bag, &behind, s, (combine, mix), by_class, judged),
                "{name}, {combine:?}, mix {mix}, {by_class:?}, m {} and {}, query {query}, label {label}",
                s.rank_neighbors,
                s.contrast_neighbors
            );
            bag.pop();
        }
    }
}

/// The nasty sets of the other exact counts, and classes that only one part has.
fn all_cases() -> Vec<Case> {
    let data = blobs(110, 3, 4, 0.8, 39);
    let (mut calibration, mut fit) = (data.range(0..60), data.range(60..95));
    calibration.labels.iter_mut().step_by(9).for_each(|label| *label = 5);
    calibration.labels.iter_mut().filter(|label| **label == 3).for_each(|label| *label = 0);
    fit.labels.iter_mut().step_by(5).for_each(|label| *label = 4);
    let apart = Case { name: "classes of one part", calibration, fit, test: data.range(95..110) };
    cases().into_iter().chain([apart]).collect()
}

const WAYS: [(MethodName, f64); 5] = [
    (MethodName::Fuse, 0.0),
    (MethodName::Joint, 0.0),
    (MethodName::Joint, 1.0),
    (MethodName::Dance, 0.0),
    (MethodName::Dance, 1.0),
];

#[test]
fn counts_by_class_are_those_of_the_brute_force() {
    let judged = Judged::new(330);
    assert_eq!(judged.clusters().iter().max(), Some(&2));
    for case in all_cases() {
        for (rank_neighbors, contrast_neighbors) in [(10, 6), (4, 9), (1, 1), (500, 500)] {
            let s = Settings {
                rank_neighbors,
                contrast_neighbors,
                temperature: 0.01,
                bandwidth: 1.5,
                shape: 1.0,
            };
            for (combine, mix) in WAYS {
                for by_class in [ByClass::Balanced, ByClass::Clusters, ByClass::Each] {
                    compare(&case, s, combine, mix, by_class, &judged);
                }
            }
        }
    }
}

/// Nothing is known of how hard fit points are: then classes are as hard as each other.
#[test]
fn without_fit_points_that_judge_nothing_is_taken_off() {
    let judged = Judged { own: Vec::new(), labels: Vec::new() };
    let s =
        Settings { rank_neighbors: 10, contrast_neighbors: 6, temperature: 0.01, bandwidth: 1.5, shape: 1.0 };
    for case in cases().into_iter().take(3) {
        for by_class in [ByClass::Balanced, ByClass::Clusters] {
            compare(&case, s, MethodName::Fuse, 0.0, by_class, &judged);
        }
    }
}

#[test]
fn what_cannot_be_counted_by_class_is_refused() {
    let (context, kernel) = (Context::new(1).unwrap(), Kernel::new(1.5, 1.0).unwrap());
    let data = blobs(40, 3, 4, 0.8, 40);
    let part = || Part { embeddings: data.points.clone(), labels: data.labels.clone() };
    let refused = |config: ConformalConfig, own: Option<Vec<f32>>| {
        let setup = Setup { device: &Cpu, classes: 4, kernel, config: &config, context: &context };
        Predictor::exact(part(), &part(), own, setup).unwrap_err().to_string()
    };
    for by_class in [ByClass::Balanced, ByClass::Clusters, ByClass::Each] {
        for mix in [Mix::Auto, Mix::Fixed(0.5)] {
            for combine in [MethodName::Joint, MethodName::Dance] {
                let config = ConformalConfig::default().by_class(by_class).method(combine).mix(mix);
                assert!(refused(config, None).contains("--mix 0"));
            }
        }
    }
    for by_class in [ByClass::Balanced, ByClass::Clusters] {
        let config = ConformalConfig::default().by_class(by_class);
        assert!(refused(config, Some(vec![0.5; 40])).contains("how hard fit points are"));
    }
    assert!(refused(ConformalConfig::default(), None).contains("probability of its own label"));
}
