//! Counts in a changed bag are those of the bag written out.

use super::*;
use crate::conformal::difficulty::{Comparison, Difficulty};
use crate::method::ByClass;
use crate::numeric::random::Random;

/// One point of the bag: its label, its scores before the newcomer, and what it becomes.
struct Point {
    label: u32,
    before: Scores,
    change: Option<Change>,
}

/// Coarse scores, so that ties abound; +∞ among them.
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

/// As the definition says: every score of the bag as it is once the newcomer carries `label`.
fn now(bag: &[Point], label: u32, newcomer: Scores) -> Vec<Scores> {
    let of = |point: &Point| match &point.change {
        None => point.before,
        Some(change) => {
            let pair = if point.label == label { change.same } else { change.other };
            [pair[0], pair[1], point.before[2]]
        }
    };
    bag.iter().map(of).chain([newcomer]).collect()
}

#[test]
fn counts_are_those_of_the_whole_bag_written_out() {
    let rules = [Rule::Fuse, Rule::Joint { mix: 0.0 }, Rule::Joint { mix: 0.3 }, Rule::Joint { mix: 1.0 }];
    for (n, seed) in [(1, 1), (2, 2), (7, 3), (40, 4), (150, 5), (151, 6)] {
        let bag = bag(n, seed);
        let labels: Vec<u32> = bag.iter().map(|point| point.label).collect();
        let mut random = Random::new(seed, 2);
        for (rule, by_class) in rules.into_iter().flat_map(|rule| {
            [ByClass::All, ByClass::Balanced, ByClass::Each].map(|by_class| (rule, by_class))
        }) {
            let scores = bag.iter().map(|point| point.before).collect();
            let difficulty = Difficulty::new(vec![0.1, 0.9, 0.4, 0.6], &[0, 1, 2, 0], 3);
            let own: Vec<f32> = bag.iter().map(|point| point.before[2] as f32).collect();
            let known = (Some(&own[..]), &labels[..]);
            let comparison = Comparison::new(by_class, Some(&difficulty), known, 5, Some(rule));
            let factor = |label: u32, of: u32, probability: f64| match &comparison.fairness {
                Some(fairness) if of == label => fairness.joined(label, probability),
                Some(fairness) => fairness.factor(of),
                None => 1.0,
            };
            let counted = Counted::new(scores, &labels, Some(rule), comparison.clone()).unwrap();
            let mut changed = Changed::default();
            let changes = bag.iter().filter_map(|point| point.change);
            changed.fill(&counted, &labels, &vec![0.0; n], changes);
            for label in 0..5 {
                let scores = [score(&mut random, 6), score(&mut random, 9), random.below(5) as f64 / 4.0];
                let all = now(&bag, label, scores);
                let at_least = |of: Scores| -> AtLeast {
                    std::array::from_fn(|which| {
                        all.iter().filter(|other| other[which] >= of[which]).count() as u32
                    })
                };
                let kin = changed.changes().iter().filter(|change| labels[change.id as usize] == label);
                let first = changed.changes().partition_point(|change| labels[change.id as usize] < label);
                let factors: Vec<f64> =
                    (labels.iter().chain([&label])).map(|&of| factor(label, of, scores[2])).collect();
                let kin = first..first + kin.count();
                let candidate = Candidate { label, factor: factors[n], scores, kin };
                let reached = changed.reached(&counted, &candidate);
                assert_eq!(reached, at_least(scores), "n {n}, {rule:?}, label {label}");
                let score = |at: usize| rule.score(at_least(all[at])) * factors[at];
                let compared = |at: &usize| by_class != ByClass::Each || *at == n || labels[*at] == label;
                let reaches = |at: &usize| score(*at) >= score(n) * (1.0 + 1e-11);
                let expected = (0..=n).filter(compared).filter(reaches).count() as u32;
                let found = changed.conform_no_better(&counted, rule, &candidate, reached);
                assert_eq!(found, expected, "n {n}, {rule:?}, {by_class:?}, label {label}");
            }
        }
    }
}

#[test]
fn a_bag_that_nothing_changes_counts_as_before() {
    let scores = vec![[1.0, 2.0, 0.5], [2.0, 1.0, 0.25]];
    let counted = Counted::new(scores, &[0, 1], Some(Rule::Fuse), Comparison::default()).unwrap();
    let mut changed = Changed::default();
    changed.fill(&counted, &[0, 1], &[0.0; 2], std::iter::empty());
    let candidate = Candidate { label: 0, factor: 1.0, scores: [1.0, 1.0, 0.0], kin: 0..0 };
    // All three scores of all three points are at least as large as the newcomer's.
    assert_eq!(changed.reached(&counted, &candidate), [3, 3, 3]);
    assert_eq!(changed.conform_no_better(&counted, Rule::Fuse, &candidate, [3, 3, 3]), 3);
}
