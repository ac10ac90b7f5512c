//! Predictions: the sets of scored queries at one error level.

use super::decision::Decision;
use super::scored::Scored;
use crate::numeric::ragged::Ragged;
use crate::scores::{EmptySets, Sets, least_count};

/// The sets of queries at one error level.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The sets.
    pub sets: Sets,
    /// The error level, and the rule by which labels entered the sets.
    pub decision: Decision,
    /// The share of sets that were empty before any label was put in.
    pub empty: f64,
    /// True for every set that holds "a new label" beside its labels; `None` if sets cannot hold a new label.
    pub new_label: Option<Vec<bool>>,
    /// The neighbors that carry each label of each set, nearest first; `None` if no support was wanted.
    pub support: Option<Ragged<u32>>,
}

impl Prediction {
    pub(super) fn new(scored: &Scored, decision: Decision, classes: usize, reference_labels: &[u32]) -> Self {
        let mut sets = scored.counts.sets(decision.cut, classes);
        let empty = sets.iter().filter(|set| set.is_empty()).count() as f64 / sets.len().max(1) as f64;
        if let (EmptySets::Top1, Some(classified)) = (scored.options.empty, &scored.classified) {
            sets = sets.fill_empty(&classified.labels);
        }
        let support = scored.neighbors.as_ref().map(|neighbors| {
            let pairs = sets.iter().zip(neighbors.iter());
            let pairs = pairs.flat_map(|(set, near)| set.iter().map(move |label| (*label, near)));
            let carry = |(label, near): (u32, &[u32])| {
                let ids = near.iter().copied().filter(move |&id| reference_labels[id as usize] == label);
                ids.take(scored.options.support).collect::<Vec<_>>()
            };
            pairs.map(carry).collect()
        });
        let new_label =
            decision.new_label_alpha.zip(scored.new_label_counts.as_ref()).map(|(alpha, counts)| {
                let least = least_count(alpha, decision.calibration_points);
                counts.iter().map(|&count| count >= least).collect()
            });
        Self { sets, decision, empty, new_label, support }
    }
}
