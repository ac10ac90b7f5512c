//! Results for queries: [`Scored`] holds p-values, [`Decision`] the rule at one error level, and [`Prediction`] the
//! sets. P-values do not depend on the error level, so several levels need only one search for neighbors.

use serde::{Deserialize, Serialize};

use super::mix::Trial;
use crate::error::Result;
use crate::machine::Classified;
use crate::scores::calibration::{Threshold, smallest_alpha, too_few};
use crate::scores::paired::PairedScores;
use crate::scores::sets::{Counts, Cut};
use crate::scores::{EmptySets, LabelCounts, Sets, least_count};
use crate::setters::setters;

/// Options that ask for results in addition to the prediction sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PredictOptions {
    /// If true, the most probable label of every query and its probability are computed. In the method dance this costs
    /// a product of the queries with all centers of the kernel machine.
    pub best: bool,
    /// The treatment of empty sets. `Top1` fills them with the most probable label, which is then computed even if
    /// `best` is false.
    pub empty: EmptySets,
    /// The largest number of neighbors that are listed in support of each label in a set. The neighbors listed for a
    /// label carry this label.
    pub support: usize,
    /// If true, the probabilities of all classes are computed.
    pub probabilities: bool,
}

setters!(PredictOptions { best: bool, empty: EmptySets, support: usize, probabilities: bool });

impl Default for PredictOptions {
    fn default() -> Self {
        Self { best: true, empty: EmptySets::Keep, support: 0, probabilities: false }
    }
}

/// The results for queries that do not depend on the error level: counts of labels, novelty p-values, probabilities and
/// neighbors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// The count of every label for every query, from which the p-value of the label follows.
    pub counts: LabelCounts,
    /// The rank and the contrastive score of every label; `None` for the method posterior.
    pub(crate) scores: Option<PairedScores>,
    /// The distance from every query to its nearest reference point, in the space of the learned metric.
    pub nearest: Vec<f64>,
    /// The novelty p-value of every query. It is small if the query is far from all calibration points.
    pub novelty: Vec<f64>,
    /// The count of "a new label" for every query, from which its p-value follows; `None` if sets cannot hold a new
    /// label.
    pub new_label_counts: Option<Vec<u32>>,
    /// The most probable label of every query and the probabilities of all classes; `None` if [`PredictOptions`] asked
    /// for neither.
    pub classified: Option<Classified>,
    /// The row numbers of the reference points nearest to every query, nearest first; `None` if
    /// [`PredictOptions::support`](field@PredictOptions::support) is 0.
    pub neighbors: Option<Vec<Vec<u32>>>,
    pub(crate) options: PredictOptions,
}

impl Scored {
    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.nearest.len()
    }

    /// Returns whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.nearest.is_empty()
    }

    /// Returns the rank score and the contrastive score of one label of a query, or `None` for the method posterior. A
    /// score is +∞ if no neighbor of the query carries the label.
    pub fn neighbor_scores(&self, query: usize, label: u32) -> Option<(f64, f64)> {
        self.scores.as_ref().map(|scores| scores.get(query, label))
    }

    /// Changes the treatment of empty sets. `Top1` has an effect only if the most probable labels were computed:
    /// [`PredictOptions`] asked for them.
    #[must_use]
    pub fn with_empty(mut self, empty: EmptySets) -> Self {
        self.options.empty = empty;
        self
    }

    /// Returns the results for the queries with the given indices.
    #[must_use]
    pub fn select(&self, queries: &[usize]) -> Self {
        fn pick<T: Copy>(all: &[T], queries: &[usize]) -> Vec<T> {
            queries.iter().map(|&query| all[query]).collect()
        }
        Self {
            counts: self.counts.select(queries),
            scores: self.scores.as_ref().map(|scores| scores.select(queries)),
            nearest: pick(&self.nearest, queries),
            novelty: pick(&self.novelty, queries),
            new_label_counts: self.new_label_counts.as_ref().map(|counts| pick(counts, queries)),
            classified: self.classified.as_ref().map(|all| Classified {
                labels: pick(&all.labels, queries),
                probabilities: all.probabilities.select(queries),
            }),
            neighbors: self.neighbors.as_ref().map(|all| queries.iter().map(|&query| all[query].clone()).collect()),
            options: self.options,
        }
    }

    /// Appends the results in `other` for further queries. The same model must have scored them with the same options.
    pub fn append(&mut self, other: Self) -> Result<()> {
        if self.is_empty() {
            *self = other;
            return Ok(());
        }
        self.counts.append(other.counts);
        self.nearest.extend(other.nearest);
        self.novelty.extend(other.novelty);
        if let (Some(all), Some(further)) = (&mut self.scores, other.scores) {
            all.append(further);
        }
        if let (Some(all), Some(further)) = (&mut self.new_label_counts, other.new_label_counts) {
            all.extend(further);
        }
        if let (Some(all), Some(further)) = (&mut self.neighbors, other.neighbors) {
            all.extend(further);
        }
        if let (Some(all), Some(further)) = (&mut self.classified, other.classified) {
            all.labels.extend(further.labels);
            all.probabilities.append(&further.probabilities)?;
        }
        Ok(())
    }

    /// Returns the indices (0, 1 …) of the labels in `set`, from the best conforming label to the worst. Labels are
    /// ordered by p-value, then by score or probability. In the method dance they are ordered by rank, then by
    /// contrastive score.
    pub fn conforming(&self, query: usize, set: &[u32]) -> Vec<usize> {
        let count = |label: u32| match self.counts.get(query, label) {
            Counts::One(count) => count,
            Counts::Both { .. } => 0, // two p-values have no order of their own
        };
        let scores = |label: u32| match (&self.scores, &self.classified) {
            (Some(scores), _) => scores.get(query, label),
            (None, Some(classified)) => (-f64::from(classified.probability(query, label)), 0.0),
            (None, None) => (0.0, 0.0),
        };
        let key = |place: usize| (count(set[place]), scores(set[place]));
        let mut order: Vec<usize> = (0..set.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (key(a), key(b));
            b.0.cmp(&a.0).then(a.1.0.total_cmp(&b.1.0)).then(a.1.1.total_cmp(&b.1.1))
        });
        order
    }
}

/// The rule for prediction sets at one error level.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The error level α.
    pub alpha: f64,
    /// The number of calibration points behind the p-values.
    pub calibration_points: usize,
    /// The mix: the share of α that the contrastive score gets in the method dance; `None` for other methods.
    pub mix: Option<f64>,
    /// The thresholds of the rank and of the contrastive score in the method dance; `None` for other methods.
    pub thresholds: Option<[Threshold; 2]>,
    /// The measurements of the sets under all mixes of the grid; empty if the mix was not selected.
    pub(super) trials: Vec<Trial>,
    /// The part of α that is spent on new labels; `None` if sets cannot hold a new label.
    pub new_label_alpha: Option<f64>,
    /// The largest part of an error level that is spent on new labels, over all levels; 0 if sets cannot hold a new
    /// label.
    pub(super) new_label_bound: f64,
    /// The smallest counts with which a label is in the set of a query.
    pub cut: Cut,
}

impl Decision {
    /// Returns the p-value of a label with these `counts`, which are among the counts in `all`. The label is in the set
    /// if and only if the p-value exceeds α. In the method dance it is the smaller of two p-values, each divided by the
    /// share of α that its score gets. If sets can hold a new label, the p-value includes the part of α that is spent
    /// on new labels.
    pub fn p_value(&self, all: &LabelCounts, counts: Counts) -> f64 {
        // Without this rounding, 0.07/0.7 would exceed 0.1.
        const DIGITS: f64 = 1e12;
        match counts {
            Counts::One(count) => {
                let p_value = all.p_value(count);
                (p_value + self.new_label_bound.min(p_value)).min(1.0)
            }
            Counts::Both { rank, contrast } => {
                let mix = self.mix.unwrap_or(0.5);
                let [rank, contrast] = [rank, contrast].map(|count| all.p_value(count));
                let p_value = (rank / (1.0 - mix)).min(contrast / mix).min(1.0);
                (p_value * DIGITS).round() / DIGITS
            }
        }
    }

    /// Returns the largest p-value of all labels of one query. `classes` is the number of labels, and `all` holds their
    /// counts.
    pub fn largest_p_value(&self, all: &LabelCounts, query: usize, classes: usize) -> f64 {
        let (labels, counts, rest) = all.row(query);
        let rest = (labels.len() < classes).then_some(rest);
        counts.iter().copied().chain(rest).map(|counts| self.p_value(all, counts)).fold(0.0, f64::max)
    }

    /// Returns the measurements of all mixes from which the mix of the method dance was selected, for reports. They are
    /// the mean set size, the class coverage violation and the objective. The list is empty if no mix was selected.
    pub fn trials(&self) -> impl Serialize + '_ {
        &self.trials
    }

    /// Returns a warning for every score whose error level is too small for the number of calibration points, so that
    /// every label passes.
    pub fn warnings(&self) -> Vec<String> {
        match &self.thresholds {
            Some([rank, contrast]) => {
                let each = [("rank", rank), ("contrastive", contrast)];
                each.iter().filter_map(|(name, t)| Some(format!("{name} score: {}", t.warning()?))).collect()
            }
            None if self.alpha - self.new_label_alpha.unwrap_or(0.0) < smallest_alpha(self.calibration_points) => {
                vec![too_few(self.calibration_points, self.alpha)]
            }
            None => Vec::new(),
        }
    }
}

/// The prediction sets of queries at one error level, with the rule that gave them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The prediction set of every query: class ids in ascending order.
    pub sets: Sets,
    /// The rule that gave the sets, with the error level.
    pub decision: Decision,
    /// The share of queries with an empty set, counted before [`EmptySets::Top1`] fills empty sets.
    pub empty: f64,
    /// For every query, true if its set also holds "a new label"; `None` if sets cannot hold a new label.
    pub new_label: Option<Vec<bool>>,
    /// One list per label of every set, set by set: the row numbers of the nearest reference points that carry the
    /// label. `None` if [`PredictOptions::support`](field@PredictOptions::support) is 0.
    pub support: Option<Vec<Vec<u32>>>,
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
            let carry = |(label, near): (u32, &Vec<u32>)| {
                let ids = near.iter().copied().filter(move |&id| reference_labels[id as usize] == label);
                ids.take(scored.options.support).collect::<Vec<_>>()
            };
            pairs.map(carry).collect()
        });
        let new_label = decision.new_label_alpha.zip(scored.new_label_counts.as_ref()).map(|(alpha, counts)| {
            let least = least_count(alpha, decision.calibration_points);
            counts.iter().map(|&count| count >= least).collect()
        });
        Self { sets, decision, empty, new_label, support }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(cut: Cut, mix: Option<f64>) -> Decision {
        let threshold = Threshold { alpha: 0.1, value: 1.0, index: 9, calibration_points: 9 };
        Decision {
            alpha: 0.1,
            calibration_points: 9,
            mix,
            thresholds: mix.map(|_| [threshold; 2]),
            trials: Vec::new(),
            new_label_alpha: None,
            new_label_bound: 0.0,
            cut,
        }
    }

    #[test]
    fn the_p_value_is_that_of_the_score_that_decides() {
        let mut one = LabelCounts::new(9);
        one.push([(1, Counts::One(7)), (3, Counts::One(1))], Counts::One(1));
        one.push([(0, Counts::One(1))], Counts::One(4));
        let single = decision(Cut::One(2), None);
        assert_eq!([0, 1].map(|query| single.largest_p_value(&one, query, 4)), [0.7, 0.4]);
        // With a single class, the listed label is the only label.
        assert_eq!(single.largest_p_value(&one, 1, 1), 0.1);
        // 0.5/0.75 and 0.2/0.25, 0.2/0.75 and 0.9/0.25, 0.1/0.75 and 0.1/0.25: the smaller of each, then the largest.
        let counts = |rank, contrast| Counts::Both { rank, contrast };
        let mut both = LabelCounts::new(9);
        both.push([(1, counts(5, 2)), (3, counts(2, 9))], counts(1, 1));
        let cut = Cut::Both { rank: 1, contrast: 1 };
        assert!((decision(cut, Some(0.25)).largest_p_value(&both, 0, 4) - 0.5 / 0.75).abs() < 1e-12);
        // The rank score has all of α: the contrastive score rules nothing out.
        assert_eq!(decision(cut, Some(0.0)).largest_p_value(&both, 0, 4), 0.5);
        // 0.07/0.7 is 0.1, and not a little more.
        let mut hundred = LabelCounts::new(99);
        hundred.push([(0, counts(7, 100))], counts(1, 1));
        assert_eq!(decision(cut, Some(0.3)).largest_p_value(&hundred, 0, 1), 0.1);
    }

    /// A p-value includes the part of α that new labels take, which is min(0.03, α/2). So a label with the p-value 0.02
    /// is in the sets for α below 0.04, and one with 0.07 for α below 0.1.
    #[test]
    fn a_p_value_counts_the_part_of_alpha_that_new_labels_take() {
        let decision = Decision { new_label_bound: 0.03, ..decision(Cut::One(2), None) };
        let counts = LabelCounts::new(99);
        assert_eq!([2, 7].map(|count| decision.p_value(&counts, Counts::One(count))), [0.04, 0.07 + 0.03]);
    }
}
