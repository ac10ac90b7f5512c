//! What a model knows about its points: which took part in the fit, what they are called, which classes they carry, how they were
//! drawn; and what it promises on that.

use dance::conformal::Calibration;
use dance::data::{RawLabels, Value};
use dance::device::Cpu;
use dance::model::ModelPart;
use dance::{Dance, Fitted, PredictOptions, Sampling};

use crate::{CONTEXT, FUSE, POSTERIOR, POSTERIOR_SPLIT, REUSE, SPLIT, Warnings, blobs, config, fitted, model};

/// One point is enough: what is promised follows from what the model knows, in the file and after it.
#[test]
fn points_that_fitted_the_kernel_guarantee_nothing() {
    let fit = blobs(80, 5, 0, 1);
    let fitted = fitted(&Cpu, &config(POSTERIOR));
    for (old, new) in [(80, 0), (80, 1), (1, 100)] {
        let (rows, others) = ((0..old).collect::<Vec<_>>(), blobs(new.max(5), 5, 0, 2));
        let mut data = fit.select(&rows);
        if new > 0 {
            let more = others.select(&(0..new).collect::<Vec<_>>());
            data.embeddings.append(&more.embeddings).unwrap();
            data.labels.extend(more.labels);
            data.rows.extend(more.rows);
        }
        data.source = dance::data::Source::default();
        let warnings = Warnings::default();
        let context = CONTEXT.with_observer(&warnings);
        let model = fitted.clone().calibrate(&Cpu, &data, &context).unwrap();
        assert_eq!(model.calibration_points_in_fit(), old);
        assert!(model.guarantee().starts_with(&format!("none: {old} of the")), "{}", model.guarantee());
        let said = warnings.0.lock().unwrap().join("\n");
        assert!(said.contains(&format!("{old} of the {} calibration points", old + new)), "{said}");
        let again = Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "test", &CONTEXT).unwrap();
        assert_eq!((again.calibration_points_in_fit(), again.guarantee()), (old, model.guarantee()));
    }
    let others = Warnings::default();
    let model = fitted.calibrate(&Cpu, &blobs(80, 5, 0, 2), &CONTEXT.with_observer(&others)).unwrap();
    assert!(model.guarantee().contains("finite samples"));
    assert!(others.0.lock().unwrap().is_empty());
}

/// Points that chose the settings took part in the fit, whether the machine keeps them or not.
#[test]
fn points_that_judged_the_kernel_guarantee_nothing_either() {
    let fit = blobs(80, 5, 0, 1);
    let mut config = config(REUSE);
    config.tune.refit = false;
    let fitted = Fitted::fit(&Cpu, &fit, &config, &CONTEXT).unwrap();
    let kept = fitted.points().rows();
    assert_eq!(kept, 64); // four fifths
    let model = fitted.calibrate(&Cpu, &fit, &CONTEXT).unwrap();
    assert_eq!(model.calibration_points_in_fit(), 80);
    let again = Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "test", &CONTEXT).unwrap();
    assert!(again.guarantee().starts_with("none: 80 of the"), "{}", again.guarantee());
    let others = model.recalibrate(&Cpu, &blobs(120, 5, 0, 2), Sampling::Random, None, &CONTEXT).unwrap();
    assert_eq!(others.calibration_points_in_fit(), 0);
    let seen = others.seen(&fit.embeddings).unwrap();
    assert!(seen.iter().all(|seen| *seen == Some(ModelPart::FitPoint)));
}

/// Neighbors can be looked up: by id, by row, and in which part, in the file and after it.
#[test]
fn points_keep_their_names() {
    let mut all = blobs(200, 5, 0, 1);
    all.ids = Some((0..200).map(|row| format!("point \"{row}\"")).collect());
    let rows = |from: usize, step: usize| (from..200).step_by(step).collect::<Vec<_>>();
    let (fit, calibration) = (all.select(&rows(0, 2)), all.select(&rows(1, 2)));
    let with_ids = [(POSTERIOR, true), (FUSE, true), (REUSE, true), (SPLIT, false), (POSTERIOR_SPLIT, true)];
    for (way, ids) in with_ids {
        let [mut fit, mut calibration] = [fit.clone(), calibration.clone()];
        if !ids {
            (fit.ids, calibration.ids) = (None, None);
        }
        let model = Fitted::fit(&Cpu, &fit, &config(way), &CONTEXT).unwrap();
        let model = model.calibrate(&Cpu, &calibration, &CONTEXT).unwrap();
        let again = Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "test", &CONTEXT).unwrap();
        for model in [&model, &again] {
            for number in 0..model.reference_points().rows() as u32 {
                let point = model.reference_point(number);
                let row = point.row.unwrap() as usize;
                assert_eq!(row.is_multiple_of(2), point.part == ModelPart::FitPoint);
                assert_eq!(point.id, ids.then(|| Value::Text(&all.ids.as_ref().unwrap()[row])));
                let label = model.reference_labels()[number as usize];
                assert_eq!(label, all.labels[row]);
            }
        }
        // Each point is its own nearest neighbor.
        let part = if way.1 == Calibration::Split { &fit } else { &calibration };
        let near = again.neighbors(&part.embeddings, 1, &CONTEXT).unwrap();
        for place in 0..part.len() {
            assert_eq!(again.reference_point(near.ids(place)[0]).row, Some(part.rows[place]));
        }
    }
}

/// The kernel knows the classes its points carry and no other, whatever names the data set has.
#[test]
fn classes_without_points_are_not_known() {
    let all = blobs(200, 5, 0, 1);
    let rows: Vec<usize> = (0..200).filter(|row| all.labels[*row] != 1).collect();
    let fitted = Fitted::fit(&Cpu, &all.select(&rows), &config(POSTERIOR), &CONTEXT).unwrap();
    assert_eq!(fitted.classes, ["0", "2", "3", "4"]);
    let model = fitted.calibrate(&Cpu, &blobs(100, 5, 0, 2), &CONTEXT).unwrap();
    assert_eq!(model.classes(), ["0", "2", "3", "4", "1"]);
    assert_eq!(model.new_label_share().map(|(share, _)| share), Some(0.0));
    let test = blobs(300, 5, 0, 3);
    let scored = model.score(&test.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
    let sets = model.predict(&scored, &model.decide(0.1).unwrap()).sets;
    let truth = model.class_ids(&test);
    let covered = (0..300).filter(|&row| sets.contains(row, truth[row].unwrap())).count();
    assert!(covered > 240, "{covered}"); // 270 ± 3·√(300·0.09) and the calibration's own chance
}

/// Dealt out class by class, what is promised says so, and nothing is said about labels nobody has.
#[test]
fn stratified_parts_are_no_random_draw() {
    let config = config(POSTERIOR).sampling(Sampling::Stratified);
    let stratified = model(&config);
    assert!(stratified.guarantee().contains("stratified by class"), "{}", stratified.guarantee());
    assert_eq!(stratified.new_label_share(), None);
    let again = Dance::from_bytes(&Cpu, &stratified.to_bytes().unwrap(), "test", &CONTEXT).unwrap();
    assert_eq!((again.guarantee(), again.new_label_share()), (stratified.guarantee(), None));
    let other = again.recalibrate(&Cpu, &blobs(120, 5, 0, 2), Sampling::Random, None, &CONTEXT).unwrap();
    assert!(!other.guarantee().contains("stratified") && other.new_label_share().is_some());
}

/// Parts of one data set are different draws, also where the data set repeats itself; the same row twice is not.
#[test]
fn copies_in_one_data_set_are_draws_of_their_own() {
    let once = blobs(60, 5, 0, 1);
    let mut table = dance::Table::new("twice", once.embeddings.clone()).unwrap();
    let twice: Vec<usize> = (0..60).chain(0..60).collect();
    table = dance::Table::new(table.origin(), once.embeddings.select(&twice)).unwrap();
    table.labels = Some(RawLabels::Integers(twice.iter().map(|&row| i64::from(once.labels[row])).collect()));
    let data = table.into_dataset().unwrap();
    let part = |rows: std::ops::Range<usize>| data.select(&rows.collect::<Vec<_>>());
    let config = config(POSTERIOR);
    let fitted = Fitted::fit(&Cpu, &part(0..60), &config, &CONTEXT).unwrap();
    let calibrate = |data: &dance::Dataset| fitted.clone().calibrate(&Cpu, data, &CONTEXT).unwrap();
    let copies = calibrate(&part(60..120));
    assert_eq!((copies.calibration_points_in_fit(), copies.copies_of_fit_points()), (0, 60));
    assert!(copies.guarantee().contains("finite samples"));
    let same = calibrate(&part(50..110));
    assert_eq!((same.calibration_points_in_fit(), same.copies_of_fit_points()), (10, 50));
    assert!(same.guarantee().starts_with("none"));
}
