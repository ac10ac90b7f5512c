//! The scores of queries, which do not depend on the error level. So several levels cost one search.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::machine::Classified;
use crate::numeric::ragged::Ragged;
use crate::scores::{EmptySets, LabelCounts, PairedScores};
use crate::setters::setters;

/// The outputs that a prediction has beside its sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PredictOptions {
    /// Finds the best label and its probability if true. This costs the method dance a kernel product.
    pub best: bool,
    /// The treatment of empty sets; `Top1` finds best labels whatever `best` is.
    pub empty: EmptySets,
    /// The most neighbors that are listed in support of each label in a set.
    pub support: usize,
    /// Computes the probabilities of all classes if true.
    pub probabilities: bool,
}

setters!(PredictOptions { best: bool, empty: EmptySets, support: usize, probabilities: bool });

impl Default for PredictOptions {
    fn default() -> Self {
        Self { best: true, empty: EmptySets::Keep, support: 0, probabilities: false }
    }
}

/// Queries with their counts, probabilities and neighbors, before an error level is chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// The p-value of every label, as a count.
    pub counts: LabelCounts,
    /// The rank and the contrastive score of every label; `None` for the method posterior.
    pub scores: Option<PairedScores>,
    /// The distance of every query to its nearest reference point, in mapped space.
    pub nearest: Vec<f64>,
    /// The novelty p-value of every query: small if the query is unlike all calibration points, whatever its label.
    pub novelty: Vec<f64>,
    /// The count of "a new label" for every query; `None` if sets cannot hold a new label.
    pub new_label_counts: Option<Vec<u32>>,
    /// The best label of every query and the probabilities of all classes, if either was wanted.
    pub classified: Option<Classified>,
    /// The neighbors of every query, nearest first, if support was wanted.
    pub neighbors: Option<Ragged<u32>>,
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

    /// Changes the treatment of empty sets. `Top1` has an effect only if best labels were found.
    #[must_use]
    pub fn with_empty(mut self, empty: EmptySets) -> Self {
        self.options.empty = empty;
        self
    }

    /// Returns some of the queries.
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
            neighbors: self.neighbors.as_ref().map(|all| all.select(queries)),
            options: self.options,
        }
    }

    /// Appends further queries of the same model.
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
            all.append(further);
        }
        if let (Some(all), Some(further)) = (&mut self.classified, other.classified) {
            all.labels.extend(further.labels);
            all.probabilities.append(&further.probabilities)?;
        }
        Ok(())
    }

    /// Returns the places of a set's labels, the best conforming label first: by p-value, then by score or probability.
    pub fn conforming(&self, query: usize, set: &[u32]) -> Vec<usize> {
        use crate::scores::Counts;
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
