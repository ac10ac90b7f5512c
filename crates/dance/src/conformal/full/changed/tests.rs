//! Tests that counts in a changed bag (calibration points and a query) equal the counts in a bag that is written out in
//! full.

use super::*;
use crate::method::ByClass;
use crate::numeric::random::Random;
use crate::scores::calibration::{Clusters, Strata};

/// A calibration point of a test: its label, its scores before the query is added, and its new scores if they change.
struct Point {
    label: u32,
    before: Scores,
    change: Option<Change>,
}

/// Returns a random score out of `levels` numbers and +∞. So few values make many scores tie.
fn score(random: &mut Random, levels: usize) -> f64 {
    match random.below(levels + 1) {
        0 => f64::INFINITY,
        level => level as f64,
    }
}

fn bag(n: usize, seed: u64) -> Vec<Point> {
    let mut random = Random::new(seed, 1);
    (0..n as u32)
        .map(|id| {
            let mut pair = || [score(&mut random, 6), score(&mut random, 9)];
            let (before, same, other) = (pair(), pair(), pair());
            let probability = random.below(5) as f64 / 4.0;
            let changes = random.below(3) == 0;
            Point {
                label: random.below(4) as u32,
                before: [before[0], before[1], probability],
                change: changes.then_some(Change { id, same, other }),
            }
        })
        .collect()
}

/// Returns the scores of all points if the query carries `label`, straight from the definition. The query's scores are
/// last.
fn written_out(bag: &[Point], label: u32, query: Scores) -> Vec<Scores> {
    let of = |point: &Point| match &point.change {
        None => point.before,
        Some(change) => {
            let pair = if point.label == label { change.same } else { change.other };
            [pair[0], pair[1], point.before[2]]
        }
    };
    bag.iter().map(of).chain([query]).collect()
}

#[test]
fn counts_are_those_of_the_whole_bag_written_out() {
    for (n, seed) in [(1, 1), (2, 2), (7, 3), (40, 4), (150, 5), (151, 6)] {
        let bag = bag(n, seed);
        let labels: Vec<u32> = bag.iter().map(|point| point.label).collect();
        let mut random = Random::new(seed, 2);
        for by_class in [ByClass::All, ByClass::Each] {
            let scores = bag.iter().map(|point| point.before).collect();
            let strata = Strata::new(by_class, &Clusters::default(), 5, &labels);
            let grouped = GroupedPoints::new(scores, &labels, strata).unwrap();
            let mut changed = ChangedBag::default();
            let changes = bag.iter().filter_map(|point| point.change);
            changed.fill(&grouped, &labels, &vec![0.0; n], changes);
            for label in 0..5 {
                let scores = [score(&mut random, 6), score(&mut random, 9), random.below(5) as f64 / 4.0];
                let all = written_out(&bag, label, scores);
                let at_least = |of: Scores| -> Levels {
                    std::array::from_fn(|which| all.iter().filter(|other| other[which] >= of[which]).count() as u32)
                };
                let same = changed.changes().iter().filter(|change| labels[change.id as usize] == label);
                let first = changed.changes().partition_point(|change| labels[change.id as usize] < label);
                let candidate = Candidate { label, scores, same_label: first..first + same.count() };
                let own = changed.query_levels(&grouped, &candidate);
                assert_eq!(own, at_least(scores), "n {n}, label {label}");
                let compared = |at: &usize| by_class == ByClass::All || *at == n || labels[*at] == label;
                let reaches = |at: &usize| fuse(at_least(all[*at])) >= fuse(own);
                let expected = (0..=n).filter(compared).filter(reaches).count() as u32;
                let found = changed.count(&grouped, &candidate, fuse(own));
                assert_eq!(found, expected, "n {n}, {by_class:?}, label {label}");
            }
        }
    }
}

#[test]
fn a_bag_that_nothing_changes_counts_as_before() {
    let scores = vec![[1.0, 2.0, 0.5], [2.0, 1.0, 0.25]];
    let grouped = GroupedPoints::new(scores, &[0, 1], None).unwrap();
    let mut changed = ChangedBag::default();
    changed.fill(&grouped, &[0, 1], &[0.0; 2], std::iter::empty());
    let candidate = Candidate { label: 0, scores: [1.0, 1.0, 0.0], same_label: 0..0 };
    // All three scores of all three points are at least as large as the query's.
    assert_eq!(changed.query_levels(&grouped, &candidate), [3, 3, 3]);
    assert_eq!(changed.count(&grouped, &candidate, fuse([3, 3, 3])), 3);
}
