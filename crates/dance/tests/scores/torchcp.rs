//! The same sets as `torchcp` on the same probabilities, draws and thresholds: a frozen table, which
//! `benchmarks/torchcp.py` recomputes.

use std::collections::BTreeMap;

use dance::Matrix;
use dance::scores::calibration::CalibrationScores;
use dance::scores::ranked::{self, Draws, RankedScore};

use super::context;

#[derive(serde::Deserialize)]
struct Case {
    seed: u64,
    calibration: usize,
    classes: usize,
    labels: Vec<u32>,
    probabilities: Vec<f32>,
    sets: BTreeMap<String, Vec<Vec<u32>>>,
}

fn score(name: &str) -> RankedScore {
    match name {
        "lac" => RankedScore::Lac,
        "aps" => RankedScore::Aps,
        "raps" => RankedScore::RAPS,
        "raps-strong" => RankedScore::Raps { penalty: 0.1, free_ranks: 2 },
        "saps" => RankedScore::SAPS,
        other => panic!("no score `{other}`"),
    }
}

#[test]
fn the_sets_are_those_of_torchcp() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("torchcp.json")).unwrap();
    let mut compared = 0;
    for case in &cases {
        let cut = case.calibration * case.classes;
        let rows = case.labels.len() - case.calibration;
        let calibration = Matrix::new(case.probabilities[..cut].to_vec(), case.calibration, case.classes).unwrap();
        let queries = Matrix::new(case.probabilities[cut..].to_vec(), rows, case.classes).unwrap();
        for (name, expected) in &case.sets {
            let words: Vec<&str> = name.split(' ').collect();
            let draws = |part| match words[1] {
                "zero" => Draws::Zero,
                _ => Draws::Seeded { seed: case.seed, part },
            };
            let score = score(words[0]);
            let own =
                ranked::ranked_labels(&calibration, &case.labels[..case.calibration], draws(0), &context()).unwrap();
            let own = CalibrationScores::new(ranked::scores(score, &own)).unwrap();
            let threshold = own.threshold(words[2].parse().unwrap()).unwrap().value;
            let sets = &ranked::sets(&queries, &[(score, threshold)], draws(1), &context())[0];
            let found: Vec<Vec<u32>> = sets.iter().map(<[u32]>::to_vec).collect();
            assert_eq!(&found, expected, "{name}, seed {}", case.seed);
            compared += found.len();
        }
    }
    assert_eq!(compared, (25 + 12 + 20) * 30);
}
