//! Thresholds of their own for classes: what class-wise conformal prediction and its relatives ([`clustered`](super::clustered),
//! [`rc3p`](super::rc3p), [`pas`](super::pas)) have in common.
//!
//! A label y is in the set iff its score is at most the threshold of y and its rank by probability at most the last one of y ([`Cuts`]).
//!
//! - **standard**: one threshold, from the scores of all calibration points.
//! - **class-wise** (Mondrian): the threshold of y from the calibration points of y alone, `P(y ∈ C | y) ≥ 1-α` in finite samples. A class
//!   that has too few of them, `α(n_y + 1) < 1`, is in every set.
//! - **interpolated** (Interp-Q; Ding, Fermanian and Salmon, 2025): `(1-w)·q + w·q_y`, infinite thresholds replaced by the largest
//!   score there is. It is never below the smaller of both, so at most 2α is missed.
//!
//! Cost: one look at every calibration row, one sort per query.
//!
//! ```
//! use dance_bench::baselines::class_wise::ClassCalibration;
//! use dance::scores::Lac;
//! use dance::{Context, Matrix};
//! let context = Context::new(1)?;
//! let probabilities = Matrix::new(vec![0.9, 0.1, 0.7, 0.3, 0.6, 0.4, 0.2, 0.8], 4, 2)?;
//! let calibration = ClassCalibration::new(Box::new(Lac), &probabilities, &[0, 0, 1, 1], None, &context)?;
//! let cuts = calibration.class_wise(0.4)?; // the 2nd smallest of two: 1 - 0.7 of class 0, 1 - 0.4 of class 1
//! assert_eq!(calibration.sets(&probabilities, &cuts, &context).get(2), [1]);
//! # Ok::<(), dance::Error>(())
//! ```

use dance::Context;
use dance::Matrix;
use dance::Result;
use dance::scores::Sets;
use dance::scores::ranked::{self, Draws, RankedLabel, RankedRow, RankedScore};
use dance::scores::threshold::CalibrationScores;

/// Queries of a parallel task.
const TILE: usize = 64;

/// A score of class probabilities that may depend on which class it is about.
pub trait ClassScore: Sync {
    /// The score of a class that stands where `label` says.
    fn score(&self, class: u32, label: &RankedLabel) -> f64;
}

impl<S: RankedScore> ClassScore for S {
    fn score(&self, _: u32, label: &RankedLabel) -> f64 {
        RankedScore::score(self, label)
    }
}

/// What lets a class into a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Cuts {
    /// The largest score of every class.
    pub thresholds: Vec<f64>,
    /// The last rank by probability of every class.
    pub ranks: Vec<usize>,
}

impl Cuts {
    /// Any rank will do.
    pub fn of_scores(thresholds: Vec<f64>) -> Self {
        Self { ranks: vec![usize::MAX; thresholds.len()], thresholds }
    }
}

/// The scores of calibration points, class by class.
pub struct ClassCalibration {
    score: Box<dyn ClassScore>,
    seed: Option<u64>,
    classes: usize,
    labels: Vec<u32>,
    ranked_labels: Vec<RankedLabel>,
    scores: Vec<f64>,
}

impl ClassCalibration {
    /// From probabilities and the true labels of their rows. With a seed, every row has a draw u; without, u = 0.
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
        Ok(Self {
            score,
            seed,
            classes: probabilities.cols(),
            labels: labels.to_vec(),
            ranked_labels,
            scores,
        })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The label of every calibration point.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Where the true label of every calibration point stands.
    pub fn ranked_labels(&self) -> &[RankedLabel] {
        &self.ranked_labels
    }

    /// The score of the true label of every calibration point.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// The calibration points of every class.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.classes];
        for (row, &label) in self.labels.iter().enumerate() {
            members[label as usize].push(row);
        }
        members
    }

    /// The threshold of some of the points; +∞ where they are too few for `alpha`.
    pub fn threshold(&self, rows: &[usize], alpha: f64) -> Result<f64> {
        if rows.is_empty() {
            return Ok(f64::INFINITY);
        }
        let scores = rows.iter().map(|&row| self.scores[row]).collect();
        Ok(CalibrationScores::new(scores)?.threshold(alpha)?.value)
    }

    /// One threshold for all classes.
    pub fn standard(&self, alpha: f64) -> Result<Cuts> {
        let threshold = CalibrationScores::new(self.scores.clone())?.threshold(alpha)?.value;
        Ok(Cuts::of_scores(vec![threshold; self.classes]))
    }

    /// For every class one of its own.
    pub fn class_wise(&self, alpha: f64) -> Result<Cuts> {
        let members = self.members();
        let thresholds = members.iter().map(|rows| self.threshold(rows, alpha)).collect::<Result<_>>()?;
        Ok(Cuts::of_scores(thresholds))
    }

    /// Between the standard threshold (`weight` 0) and those of classes (1); no score exceeds `largest`.
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

    /// The sets of queries.
    pub fn sets(&self, probabilities: &Matrix, cuts: &Cuts, context: &Context<'_>) -> Sets {
        let draws = Draws::queries(self.seed);
        let of_tile = |tile: usize| {
            let (mut sets, mut ranked) = (Sets::default(), RankedRow::default());
            for row in tile * TILE..((tile + 1) * TILE).min(probabilities.rows()) {
                ranked.sort(probabilities.row(row));
                let passes = |(class, label): &(u32, RankedLabel)| {
                    let place = *class as usize;
                    label.rank <= cuts.ranks[place]
                        && self.score.score(*class, label) <= cuts.thresholds[place]
                };
                let start = sets.labels.len();
                sets.labels.extend(ranked.walk(draws.of(row)).filter(passes).map(|(class, _)| class));
                sets.labels[start..].sort_unstable();
                sets.offsets.push(sets.labels.len());
            }
            sets
        };
        let mut all = Sets::default();
        for tile in context.map(probabilities.rows().div_ceil(TILE), of_tile) {
            all.extend(&tile);
        }
        all
    }
}
