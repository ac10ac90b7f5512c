//! What an audit finds: copies in two spaces and across parts, and classes that are two.

use std::collections::BTreeSet;

use dance::data::RawLabels;
use dance::device::Cpu;
use dance::model::{Audit, AuditOptions, Copies, ModelPart, ModelPoint};
use dance::numeric::random::Random;
use dance::{Dance, Dataset, Fitted, Matrix, Table};

use crate::{CONTEXT, FUSE, POSTERIOR, REUSE, SPLIT, Way, config};

const OPTIONS: AuditOptions<'static> = AuditOptions { fdr: 0.1, false_alarm: 0.01, seed: 0, parts: None };

/// Three classes that the first two dimensions tell apart; the other four are noise.
fn points(n: usize, random: &mut Random) -> Vec<Vec<f32>> {
    let of = |row: usize| {
        let turn = row as f64 % 3.0 * std::f64::consts::TAU / 3.0;
        let center = [3.0 * turn.cos(), 3.0 * turn.sin(), 2.0, 0.0, 0.0, 0.0];
        (0..6).map(|at| (center[at] + 0.6 * random.normal()) as f32).collect()
    };
    (0..n).map(of).collect()
}

fn dataset(points: &[Vec<f32>]) -> Dataset {
    let mut table = Table::new("points", Matrix::new(points.concat(), points.len(), 6).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers((0..points.len() as i64).map(|row| row % 3).collect()));
    table.into_dataset().unwrap()
}

fn model(fit: &[Vec<f32>], calibration: &[Vec<f32>], way: Way) -> Dance {
    let mut config = config(way);
    config.tune.evaluations = 1;
    config = config.rounds(3);
    let fitted = Fitted::fit(&Cpu, &dataset(fit), &config, &CONTEXT).unwrap();
    fitted.calibrate(&Cpu, &dataset(calibration), &CONTEXT).unwrap()
}

fn unit(rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let of = |row: &Vec<f32>| {
        let norm = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        row.iter().map(|&value| f64::from(value) / norm).collect()
    };
    rows.iter().map(of).collect()
}

fn mapped(model: &Dance, rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let mapped = model.classifier().transform(&dataset(rows).embeddings, &CONTEXT).unwrap();
    (0..mapped.rows()).map(|row| mapped.row(row).iter().map(|&value| f64::from(value)).collect()).collect()
}

/// Pairs of near copies by the definition: a point of the data, and another one or one of the model.
fn pairs(own: &[Vec<f64>], others: &[Vec<f64>]) -> BTreeSet<(usize, usize)> {
    let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let limit = |among: &[Vec<f64>]| {
        let nearest = |row: usize| {
            let others = (0..among.len()).filter(|&other| other != row);
            others.map(|other| far(&among[row], &among[other])).fold(f64::INFINITY, f64::min)
        };
        let mut all: Vec<f64> = (0..among.len()).map(nearest).collect();
        all.sort_by(f64::total_cmp);
        0.2 * all[all.len() / 2]
    };
    let (here, there) = (limit(own), limit(own).min(limit(others)));
    let everything: Vec<&Vec<f64>> = own.iter().chain(others).collect();
    let near = |&(a, b): &(usize, usize)| far(everything[a], everything[b]) <= if b < own.len() { here } else { there };
    (0..own.len()).flat_map(|a| (a + 1..everything.len()).map(move |b| (a, b))).filter(near).collect()
}

/// What groups are by those pairs: their points, and whether a pair of either kind is among them.
fn groups(
    given: &BTreeSet<(usize, usize)>,
    learned: &BTreeSet<(usize, usize)>,
) -> Vec<(BTreeSet<usize>, &'static str)> {
    let mut left: Vec<(usize, usize)> = given.union(learned).copied().collect();
    let mut all = Vec::new();
    while let Some(&(a, b)) = left.first() {
        let mut group = BTreeSet::from([a, b]);
        loop {
            let before = group.len();
            group.extend(
                left.iter()
                    .filter(|(a, b)| group.contains(a) || group.contains(b))
                    .flat_map(|&(a, b)| [a, b])
                    .collect::<Vec<_>>(),
            );
            if group.len() == before {
                break;
            }
        }
        left.retain(|(a, _)| !group.contains(a));
        let among = |pairs: &BTreeSet<(usize, usize)>| pairs.iter().any(|(a, _)| group.contains(a));
        let space = match (among(given), among(learned)) {
            (true, true) => "both",
            (true, false) => "given",
            _ => "learned",
        };
        all.push((group, space));
    }
    all
}

/// Every pair of points in both spaces, the slow way: the same groups. Some are copies only to the metric, some only to the eye.
#[test]
fn copies_are_those_of_the_definition() {
    let mut random = Random::new(3, 1);
    let (fit, calibration) = (points(120, &mut random), points(120, &mut random));
    let mut data = points(120, &mut random);
    let mut near = |point: &[f32], by: f64| -> Vec<f32> {
        point.iter().map(|&value| value + (by * random.normal()) as f32).collect()
    };
    data[1] = near(&fit[4], 0.002);
    data[3] = near(&calibration[9], 0.002);
    data[30] = near(&data[33], 0.002);
    data[63] = fit[6].clone(); // the same under another row
    data[66] = calibration[66].clone(); // the same under the same row: itself
    data[90] = near(&data[66], 0.002);
    // By more and more along noise, which the metric has learned to ignore, and across, where classes differ.
    for (step, row) in (36..60).step_by(6).enumerate() {
        let by = 0.05 * 2.0f32.powi(step as i32);
        data[row] = data[row + 60].clone();
        data[row][5] += 2.0 * by;
        let turn = (row % 3) as f32 * std::f32::consts::TAU / 3.0;
        data[row + 3] = data[row + 63].clone();
        data[row + 3][0] -= 0.2 * by * turn.sin();
        data[row + 3][1] += 0.2 * by * turn.cos();
    }
    for way in [POSTERIOR, FUSE, REUSE] {
        let model = model(&fit, &calibration, way);
        let found = Audit::new(&Cpu, &dataset(&data), Some(&model), OPTIONS, &CONTEXT).unwrap();
        let named = |part, row: usize| ModelPoint { part, row: Some(row as u32), id: None };
        let known = [(63, named(ModelPart::FitPoint, 6)), (66, named(ModelPart::CalibrationPoint, 66))];
        assert_eq!(found.seen, known);

        // Points of the model, but for the one that is in the data itself.
        let fitted = (0..120).map(|row| (fit[row].clone(), named(ModelPart::FitPoint, row)));
        let others = (0..120).filter(|&row| row != 66);
        let others = others.map(|row| (calibration[row].clone(), named(ModelPart::CalibrationPoint, row)));
        let (others, names): (Vec<_>, Vec<_>) = fitted.chain(others).unzip();
        let given = pairs(&unit(&data), &unit(&others));
        let learned = pairs(&mapped(&model, &data), &mapped(&model, &others));
        let expected = groups(&given, &learned).into_iter().map(|(group, space)| {
            let rows: Vec<u32> = group.iter().filter(|&&at| at < 120).map(|&at| at as u32).collect();
            let model: Vec<_> = group.iter().filter(|&&at| at >= 120).map(|&at| names[at - 120].clone()).collect();
            let own = rows.iter().map(|&row| if row == 66 { "calibration" } else { "new" });
            let there = model.iter().map(|point: &ModelPoint| match point.part {
                ModelPart::FitPoint => "fit",
                ModelPart::CalibrationPoint => "calibration",
            });
            let parts: BTreeSet<&str> = own.chain(there).collect();
            let across = parts.len() > 1;
            Copies { rows, model, space, parts: parts.into_iter().map(Into::into).collect(), across }
        });
        let mut expected: Vec<Copies> = expected.collect();
        expected.sort_by_key(|group| (!group.across, group.rows[0]));
        assert_eq!(found.copies, expected);
        for space in ["given", "learned", "both"] {
            assert!(found.copies.iter().any(|group| group.space == space), "{space:?} {:?}", found.copies);
        }
        let group_of = |row: u32| found.copies.iter().find(|group| group.rows.contains(&row)).unwrap();
        assert_eq!(group_of(63).model, [named(ModelPart::FitPoint, 6)]);
        assert_eq!((&group_of(90).rows[..], group_of(90).across), (&[66, 90][..], true));
    }
}

/// With split calibration a model keeps 64 bits of each calibration point. Equal points are found and count as themselves.
#[test]
fn a_model_without_calibration_points_knows_equal_ones() {
    let mut random = Random::new(4, 1);
    let (fit, mut calibration) = (points(60, &mut random), points(60, &mut random));
    calibration[8] = fit[5].clone();
    let model = model(&fit, &calibration, SPLIT);
    let mut data = points(60, &mut random);
    data[2] = calibration[40].clone();
    data[5] = fit[5].clone(); // itself, and a calibration point too
    let found = Audit::new(&Cpu, &dataset(&data), Some(&model), OPTIONS, &CONTEXT).unwrap();
    let seen: Vec<_> = found.seen.iter().map(|(row, point)| (*row, point.part)).collect();
    assert_eq!(seen, [(2, ModelPart::CalibrationPoint), (5, ModelPart::FitPoint)]);
    let across: Vec<&Copies> = found.copies.iter().filter(|group| group.across).collect();
    assert_eq!((&across[0].rows[..], &across[0].parts[..]), (&[5][..], &["calibration".into(), "fit".into()][..]));
}

#[test]
fn copies_across_parts_come_first() {
    let mut random = Random::new(5, 1);
    let mut rows = points(60, &mut random);
    rows[3] = rows[0].clone();
    rows[40] = rows[10].clone();
    let parts: Vec<String> = (0..60).map(|row| if row < 30 { "train" } else { "test" }.into()).collect();
    let data = dataset(&rows);
    let options = AuditOptions { parts: Some(&parts), ..OPTIONS };
    let found = Audit::new(&Cpu, &data, None, options, &CONTEXT).unwrap();
    let group = |rows: &[u32], parts: &[&str]| Copies {
        rows: rows.to_vec(),
        model: Vec::new(),
        space: "given",
        parts: parts.iter().map(|&part| part.into()).collect(),
        across: parts.len() > 1,
    };
    assert_eq!(found.copies, [group(&[10, 40], &["test", "train"]), group(&[0, 3], &["train"])]);
    assert!(found.seen.is_empty());
    let plain = Audit::new(&Cpu, &data, None, OPTIONS, &CONTEXT).unwrap();
    assert_eq!(plain.copies, [group(&[0, 3], &[]), group(&[10, 40], &[])]);
    let short = AuditOptions { parts: Some(&parts[1..]), ..OPTIONS };
    let error = Audit::new(&Cpu, &data, None, short, &CONTEXT).unwrap_err().to_string();
    assert!(error.contains("parts (one per point)"), "{error}");
}

/// One class of two far groups among others of one; real classes of a file, two of them under one name, where there is such a file.
#[test]
fn classes_that_are_two_are_named() {
    let mut random = Random::new(6, 1);
    let mut rows = points(300, &mut random);
    for row in (0..300).filter(|row| row % 3 == 1 && row % 2 == 0) {
        rows[row][4] += 8.0;
    }
    let found = Audit::new(&Cpu, &dataset(&rows), None, OPTIONS, &CONTEXT).unwrap();
    assert_eq!(found.twofold.iter().map(|twofold| twofold.0).collect::<Vec<_>>(), [1]);
    let moved = |row: &&u32| row.is_multiple_of(2);
    let [one, other] = found.twofold[0].2.each_ref().map(|group| group.iter().filter(moved).count());
    assert!((one, other) == (50, 0) || (one, other) == (0, 50), "{one} and {other} of those that were moved");

    let Some(folder) = std::env::var_os("DANCE_DATA") else {
        eprintln!("DANCE_DATA is not set: no real classes are merged");
        return;
    };
    let path = std::path::Path::new(&folder).join("pets_clip_b32.npz");
    let pets = dance::data::io::read(path, &dance::data::io::ReadOptions::default()).unwrap();
    let pets = pets.into_dataset().unwrap();
    let audit = |data: &Dataset| {
        let found = Audit::new(&Cpu, data, None, OPTIONS, &CONTEXT).unwrap();
        found.twofold.iter().map(|twofold| twofold.0).collect::<Vec<_>>()
    };
    assert_eq!(audit(&pets), [0; 0], "breeds are one");
    let mut merged = pets.clone();
    for label in &mut merged.labels {
        *label = if *label == 7 { 3 } else { *label };
    }
    assert_eq!(audit(&merged), [3], "two breeds under one name are two");
}
