//! A model does not depend on threads, on the order of calibration points or on the names of classes, with every method.

use dance::data::RawLabels;
use dance::device::Cpu;
use dance::numeric::random::Random;
use dance::scores::Sets;
use dance::{Config, Context, Dance, Dataset, Error, Fitted, Matrix, PredictOptions, Table};

use crate::{CONTEXT, POSTERIOR, REUSE, SPLIT, WAYS, blobs, config, fitted};

fn sets(model: &Dance, alpha: f64) -> Sets {
    let scored = model.score(&blobs(150, 5, 0, 31).embeddings, PredictOptions::default(), &CONTEXT).unwrap();
    model.predict(&scored, &model.decide(alpha).unwrap()).sets
}

/// The fit, the model file and the scores are the same bytes for 1, 2 and 8 threads.
#[test]
fn threads_change_no_byte() {
    let test = blobs(60, 5, 0, 32);
    for way in WAYS {
        let run = |threads: usize| {
            let context = Context::new(threads).unwrap();
            let fitted = Fitted::fit(&Cpu, &blobs(80, 5, 0, 1), &config(way), &context).unwrap();
            let model = fitted.calibrate(&Cpu, &blobs(120, 5, 0, 2), &context).unwrap();
            let options = PredictOptions::default().support(3).probabilities(true);
            let scored = model.score(&test.embeddings, options, &context).unwrap();
            (model.to_bytes().unwrap(), scored)
        };
        let one = run(1);
        for threads in [2, 8] {
            let other = run(threads);
            assert!(other.0 == one.0, "{way:?}: the file differs with {threads} threads");
            assert_eq!(other.1, one.1, "{way:?}: {threads} threads");
        }
    }
}

#[test]
fn the_order_of_calibration_points_does_not_matter() {
    let calibration = blobs(120, 5, 0, 2);
    let mut order: Vec<usize> = (0..calibration.len()).collect();
    Random::new(5, 0).shuffle(&mut order);
    for way in WAYS {
        let fitted = fitted(&Cpu, &config(way));
        let model = fitted.clone().calibrate(&Cpu, &calibration, &CONTEXT).unwrap();
        let permuted = fitted.calibrate(&Cpu, &calibration.select(&order), &CONTEXT).unwrap();
        assert_eq!(sets(&model, 0.1), sets(&permuted, 0.1), "{way:?}");
    }
}

/// Renamed classes come back under their new names: the sets of labels are the same sets.
#[test]
fn the_names_of_classes_do_not_matter() {
    let rename = ["3", "0", "4", "1", "2"];
    let named = |model: &Dance, back: &[&str]| -> Vec<Vec<String>> {
        let name = |label: &u32| {
            let class = &model.classes()[*label as usize];
            back.iter().position(|new| new == class).map_or_else(|| class.clone(), |old| old.to_string())
        };
        let mut all: Vec<Vec<String>> = sets(model, 0.1).iter().map(|set| set.iter().map(name).collect()).collect();
        for set in &mut all {
            set.sort();
        }
        all
    };
    let [fit, calibration] = [blobs(80, 5, 0, 1), blobs(120, 5, 0, 2)];
    let renamed = |data: &Dataset| {
        let mut data = data.clone();
        data.classes = data.classes.iter().map(|name| rename[name.parse::<usize>().unwrap()].into()).collect();
        data
    };
    for way in WAYS {
        let model = |fit: &Dataset, calibration: &Dataset| {
            let fitted = Fitted::fit(&Cpu, fit, &config(way), &CONTEXT).unwrap();
            fitted.calibrate(&Cpu, calibration, &CONTEXT).unwrap()
        };
        let before = named(&model(&fit, &calibration), &[]);
        let after = named(&model(&renamed(&fit), &renamed(&calibration)), &rename);
        assert_eq!(before, after, "{way:?}");
    }
}

/// The novelty p-values of the posterior are those of a brute force in which the query joins the calibration points.
#[test]
fn novelty_of_the_posterior_is_that_of_a_brute_force() {
    let model = fitted(&Cpu, &config(POSTERIOR)).calibrate(&Cpu, &blobs(50, 5, 0, 2), &CONTEXT).unwrap();
    let queries = blobs(40, 5, 0, 33).embeddings;
    let mapped = |points: &Matrix| model.classifier().transform(points, &CONTEXT).unwrap();
    let reference = model.reference_points(); // 50 calibration points, then 80 fit points
    let scored = model.score(&queries, PredictOptions::default(), &CONTEXT).unwrap();
    let queries = mapped(&queries);
    for query in 0..queries.rows() {
        // The squared distance to the fifth nearest of all others, for every point of the bag.
        let point = |at: usize| if at == 50 { queries.row(query) } else { reference.row(at) };
        let fifth = |own: usize| {
            let others = (0..50).chain(51..=130).chain([50]).filter(|&at| at != own);
            let rows = others.map(|at| if at > 50 { reference.row(at - 1) } else { point(at) });
            let mut all: Vec<f64> = rows.map(|row| squared(row, point(own))).collect();
            all.sort_by(f64::total_cmp);
            all[4]
        };
        let own = fifth(50);
        let count = (0..=50).filter(|&at| fifth(at) >= own).count();
        assert_eq!(scored.novelty[query], count as f64 / 51.0, "{query}");
    }
}

fn squared(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
}

/// Few points, one class, equal points, points of length 0: an error that says what is wrong, or sets of all labels.
#[test]
fn calibration_data_that_make_no_sense() {
    // Points of two classes in turn.
    let labelled = |points: Matrix| {
        let labels = (0..points.rows() as i64).map(|row| row % 2).collect();
        let mut table = Table::new("points", points).unwrap();
        table.labels = Some(RawLabels::Integers(labels));
        table.into_dataset().unwrap()
    };
    for way in WAYS {
        let fitted = fitted(&Cpu, &config(way));
        let calibrate = |data: &Dataset| fitted.clone().calibrate(&Cpu, data, &CONTEXT);
        for n in 1..8 {
            match calibrate(&blobs(10, 5, 0, 2).select(&(0..n).collect::<Vec<_>>())) {
                Ok(model) => {
                    let sets = sets(&model, 0.05);
                    assert!(sets.iter().all(|set| set.len() == 5), "{way:?} {n}");
                    let warnings = model.decide(0.05).unwrap().warnings();
                    assert!(warnings[0].contains("support no alpha below"), "{way:?} {warnings:?}");
                }
                Err(Error::Data(_)) => assert!(n == 1 || way == SPLIT || way == REUSE, "{way:?} {n}"),
                Err(other) => panic!("{way:?} {other}"),
            }
        }
        let equal = Matrix::new([1.0f32; 240].to_vec(), 40, 6).unwrap();
        let model = calibrate(&labelled(equal)).unwrap();
        assert_eq!(sets(&model, 0.1).len(), 150, "{way:?}");
        let zero = calibrate(&labelled(Matrix::zeros(40, 6)));
        assert!(matches!(zero, Err(Error::Data(_))), "{way:?}: a point of length 0 has no direction");
        let narrow = calibrate(&labelled(Matrix::new([1.0f32; 200].to_vec(), 40, 5).unwrap()));
        assert!(matches!(narrow, Err(Error::Shape { .. })), "{way:?}");
    }
}

/// Without a method, the model is that of the method posterior.
#[test]
fn the_posterior_is_the_default() {
    let mut named = config(POSTERIOR);
    let model = |config: &Config| {
        let fitted = Fitted::fit(&Cpu, &blobs(80, 5, 0, 1), config, &CONTEXT).unwrap();
        fitted.calibrate(&Cpu, &blobs(120, 5, 0, 2), &CONTEXT).unwrap()
    };
    let chosen = sets(&model(&named), 0.1);
    (named.conformal.method, named.conformal.calibration) = (None, None);
    let default = model(&named);
    assert_eq!(sets(&default, 0.1), chosen);
    assert_eq!((default.method(), default.calibration()), POSTERIOR);
}
