//! Long tails drawn from any data set (Zipf): class frequencies that fall with a power of their rank.
//!
//! Classes get the ranks 1, 2 … at random. A class keeps `m·rank^-power` of its points, drawn at random, where m is the
//! size of the largest class. It keeps at least one point, and all if it has fewer. Every seed draws its own tail.

use dance::Dataset;
use dance::numeric::random::Random;

/// The stream of random numbers that draws ranks and points.
const PURPOSE: u64 = 0x21bf;

/// Returns the rows that are kept, ascending.
pub(crate) fn rows(data: &Dataset, power: f64, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed, PURPOSE);
    let mut members = vec![Vec::new(); data.classes.len()];
    for (row, &label) in data.labels.iter().enumerate() {
        members[label as usize].push(row);
    }
    members.retain(|rows: &Vec<usize>| !rows.is_empty());
    let largest = members.iter().map(Vec::len).max().unwrap_or(0) as f64;
    random.shuffle(&mut members);
    let mut kept = Vec::new();
    for (rank, rows) in (1..).map(f64::from).zip(&mut members) {
        random.shuffle(rows);
        let count = (largest * rank.powf(-power)).round() as usize;
        kept.extend(rows.iter().take(count.max(1)));
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use dance::data::RawLabels;
    use dance::{Matrix, Table};

    fn dataset(counts: &[usize]) -> Dataset {
        let labels: Vec<i64> =
            counts.iter().enumerate().flat_map(|(class, &count)| vec![class as i64; count]).collect();
        let points = Matrix::new((0..labels.len()).map(|at| at as f32).collect(), labels.len(), 1).unwrap();
        let mut table = Table::new("tail", points).unwrap();
        table.labels = Some(RawLabels::Integers(labels));
        table.into_dataset().unwrap()
    }

    #[test]
    fn classes_fall_with_their_rank() {
        let data = dataset(&[60; 8]);
        let kept = data.select(&rows(&data, 1.0, 3));
        let mut counts = kept.class_counts();
        assert_ne!(counts[0], 60, "ranks are drawn");
        counts.sort_by(|a, b| b.cmp(a));
        assert_eq!(counts, [60, 30, 20, 15, 12, 10, 9, 8]); // 60/7 = 8.57, 60/8 = 7.5
        assert_eq!(rows(&data, 1.0, 3), rows(&data, 1.0, 3));
        assert_ne!(rows(&data, 1.0, 3), rows(&data, 1.0, 4));
    }

    #[test]
    fn a_class_keeps_one_point_at_least_and_those_it_has_at_most() {
        let data = dataset(&[50, 2, 2, 2, 2]);
        for seed in 0..20 {
            let counts = data.select(&rows(&data, 3.0, seed)).class_counts();
            assert!(counts.iter().zip([50, 2, 2, 2, 2]).all(|(&kept, all)| (1..=all).contains(&kept)));
        }
    }
}
