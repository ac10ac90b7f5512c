//! Thresholds per class: the common part of class-wise conformal prediction and its relatives
//! ([`clustered`](super::clustered), [`rc3p`](super::rc3p), [`pas`](super::pas)).
//!
//! A label y is in the set iff its score is at most the threshold of y, and its rank by probability is at most the last
//! rank of y ([`Cuts`]).
//!
//! - **standard**: one threshold, from the scores of all calibration points.
//! - **class-wise** (Mondrian): the threshold of y comes from the calibration points of y alone. Then
//!   `P(y ∈ C | y) ≥ 1-α` in finite samples. A class with too few points, `α(n_y + 1) < 1`, is in every set.
//! - **interpolated** (Interp-Q; Ding, Fermanian and Salmon, 2025): `(1-w)·q + w·q_y`, where the largest possible score
//!   replaces an infinite threshold. It is never below the smaller of the two, so sets miss at most 2α.
//!
//! Cost: one pass over the calibration rows, one sort per query.
//!
//! ```
//! use dance_bench::baselines::class_wise::ClassCalibration;
//! use dance::scores::RankedScore;
//! use dance::{Context, Matrix};
//! let context = Context::new(1)?;
//! let probabilities = Matrix::new(vec![0.9, 0.1, 0.7, 0.3, 0.6, 0.4, 0.2, 0.8], 4, 2)?;
//! let calibration = ClassCalibration::new(Box::new(RankedScore::Lac), &probabilities, &[0, 0, 1, 1], None, &context)?;
//! let cuts = calibration.class_wise(0.4)?; // the 2nd smallest of two: 1 - 0.7 of class 0, 1 - 0.4 of class 1
//! assert_eq!(calibration.sets(&probabilities, &cuts, &context).get(2), [1]);
//! # Ok::<(), dance::Error>(())
//! ```

use dance::Context;
use dance::Matrix;
use dance::Result;
use dance::scores::Sets;
use dance::scores::calibration::CalibrationScores;
use dance::scores::ranked::{self, Draws, RankedLabel, RankedScore};

/// Queries of a parallel task.
const TILE: usize = 64;

/// A score of class probabilities that may depend on the class.
pub trait ClassScore: Sync {
    /// Returns the score of a class. `label` holds its rank and its probability.
    fn score(&self, class: u32, label: &RankedLabel) -> f64;
}

impl ClassScore for RankedScore {
    fn score(&self, _: u32, label: &RankedLabel) -> f64 {
        Self::score(*self, label)
    }
}

/// The limits within which a class enters a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Cuts {
    /// The largest score that passes, for every class.
    pub thresholds: Vec<f64>,
    /// The last rank by probability that passes, for every class.
    pub ranks: Vec<usize>,
}

impl Cuts {
    /// Makes limits of thresholds alone: every rank passes.
    pub fn of_scores(thresholds: Vec<f64>) -> Self {
        Self { ranks: vec![usize::MAX; thresholds.len()], thresholds }
    }
}

/// The scores of the calibration points' own labels, class by class.
pub struct ClassCalibration {
    score: Box<dyn ClassScore>,
    seed: Option<u64>,
    classes: usize,
    labels: Vec<u32>,
    ranked_labels: Vec<RankedLabel>,
    scores: Vec<f64>,
}

impl ClassCalibration {
    /// Scores the true label of every row of probabilities. With a seed, every row has a draw u; without, u = 0.
    pub fn new(
        score: Box<dyn ClassScore>,
        probabilities: &Matrix,
        labels: &[u32],
        seed: Option<u64>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let draws = Draws::calibration(seed);
        let ranked_labels = ranked::ranked_labels(probabilities, labels, draws, context)?;
        let scores = labels.iter().zip(&ranked_labels).map(|(&label, ranked)| score.score(label, ranked));
        let scores = scores.collect();
        Ok(Self { score, seed, classes: probabilities.cols(), labels: labels.to_vec(), ranked_labels, scores })
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the label of every calibration point.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the rank and the probability of every calibration point's true label.
    pub fn ranked_labels(&self) -> &[RankedLabel] {
        &self.ranked_labels
    }

    /// Returns the score of every calibration point's true label.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Returns the rows of the calibration points of every class.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.classes];
        for (row, &label) in self.labels.iter().enumerate() {
            members[label as usize].push(row);
        }
        members
    }

    /// Returns the threshold of some of the points; +∞ where they are too few for `alpha`.
    pub fn threshold(&self, rows: &[usize], alpha: f64) -> Result<f64> {
        if rows.is_empty() {
            return Ok(f64::INFINITY);
        }
        let scores = rows.iter().map(|&row| self.scores[row]).collect();
        Ok(CalibrationScores::new(scores)?.threshold(alpha)?.value)
    }

    /// Returns one threshold for all classes.
    pub fn standard(&self, alpha: f64) -> Result<Cuts> {
        let threshold = CalibrationScores::new(self.scores.clone())?.threshold(alpha)?.value;
        Ok(Cuts::of_scores(vec![threshold; self.classes]))
    }

    /// Returns a threshold of its own for every class.
    pub fn class_wise(&self, alpha: f64) -> Result<Cuts> {
        let members = self.members();
        let thresholds = members.iter().map(|rows| self.threshold(rows, alpha)).collect::<Result<_>>()?;
        Ok(Cuts::of_scores(thresholds))
    }

    /// Returns thresholds between the standard one (`weight` 0) and those of the classes (1). No score exceeds
    /// `largest`.
    pub fn interpolated(&self, alpha: f64, weight: f64, largest: f64) -> Result<Cuts> {
        let (standard, own) = (self.standard(alpha)?.thresholds, self.class_wise(alpha)?.thresholds);
        let between = standard.iter().zip(own).map(|(all, own)| {
            if all.min(own) >= largest {
                return f64::INFINITY;
            }
            (1.0 - weight) * all.min(largest) + weight * own.min(largest)
        });
        Ok(Cuts::of_scores(between.collect()))
    }

    /// Returns the sets of queries.
    pub fn sets(&self, probabilities: &Matrix, cuts: &Cuts, context: &Context<'_>) -> Sets {
        let draws = Draws::queries(self.seed);
        let sets_of = |tile: usize| {
            let mut sets = Sets::default();
            for row in tile * TILE..((tile + 1) * TILE).min(probabilities.rows()) {
                let passes = |(class, label): &(u32, RankedLabel)| {
                    let place = *class as usize;
                    label.rank <= cuts.ranks[place] && self.score.score(*class, label) <= cuts.thresholds[place]
                };
                let ranking = ranked::ranking(probabilities.row(row), draws.of(row));
                let mut set: Vec<u32> = ranking.filter(passes).map(|(class, _)| class).collect();
                set.sort_unstable();
                sets.push(set);
            }
            sets
        };
        let mut all = Sets::default();
        for tile in context.map(probabilities.rows().div_ceil(TILE), sets_of) {
            all.append(tile);
        }
        all
    }
}
