//! LAC, APS, RAPS and SAPS: nonconformity scores of class probabilities, which all read the same order of the labels.
//!
//! Each score is a function of a [`RankedLabel`]: its rank r by probability (ties go to the lower label), its
//! probability `p_r`, the total probability `C_r` of the first r labels, the largest probability of its row, and one
//! random draw u of its row. All of these scores grow with the rank. So a set is a prefix of the ranked labels, and one
//! sort serves every score and every threshold.
//!
//! Probabilities are rounded to multiples of 2⁻⁵² (f32 numbers from 2⁻²⁹ up are such multiples). So their sums in f64
//! are exact in any order. The score of a label is therefore the same to the last bit whether its row is sorted
//! (queries) or not (calibration points).
//!
//! Cost: calibration reads each row once. Sets need one sort per row and a walk to the end of the largest set.
//!
//! ```
//! use dance::scores::{Draws, RankedScore, ranked};
//! use dance::{Context, Matrix};
//! let probabilities = Matrix::new(vec![0.6, 0.3, 0.1, 0.2, 0.5, 0.3], 2, 3)?;
//! let cuts = [(RankedScore::Lac, 0.65), (RankedScore::Aps, 0.85)];
//! let [lac, aps] = &ranked::sets(&probabilities, &cuts, Draws::Zero, &Context::new(1)?)[..] else { unreachable!() };
//! assert_eq!((lac.get(0), aps.get(0)), (&[0][..], &[0][..]));
//! assert_eq!((lac.get(1), aps.get(1)), (&[1][..], &[1, 2][..])); // 1 - 0.5; 0.5 and 0.5 + 0.3
//! # Ok::<(), dance::Error>(())
//! ```

use rayon::prelude::*;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;
use crate::numeric::random;
use crate::scores::sets::Sets;

/// The tag of the random stream that gives the draws u of the [module](self).
const DRAW_PURPOSE: u64 = 0xd4a3;
/// The tag of calibration points. It enters their random draws, so that other points have other draws.
const CALIBRATION_PART: u64 = 0;
/// The tag of queries. It enters their random draws, so that other points have other draws.
const QUERY_PART: u64 = 1;
/// The number of rows of probabilities in a parallel task.
const TILE: usize = 64;

/// A label of a row of class probabilities, with the numbers from which every nonconformity score of the label follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedLabel {
    /// The 1-based rank of the label by probability. Ties go to the lower label.
    pub rank: usize,
    /// The probability of the label.
    pub probability: f64,
    /// The largest probability in the row of the label.
    pub largest: f64,
    /// The total probability `C_r` of the r most probable labels of the row, where r is the rank of this label.
    pub mass: f64,
    /// The random draw u of the row, between 0 and 1, which randomises scores.
    pub draw: f64,
}

/// A nonconformity score of class probabilities: small if the label conforms. In a row of probabilities, no score falls
/// from one rank to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RankedScore {
    /// LAC (Sadinle, Lei and Wasserman, 2019): `1 - p_y` for a label y with probability `p_y`. Sets are the smallest on
    /// average if the probabilities are right. A set is empty if every label is unlikely.
    Lac,
    /// APS (Romano, Sesia and Candès, 2020): `C_r - u·p_r` for the label of rank r with probability `p_r`. `C_r` is the
    /// total probability of the labels up to rank r, and u a random number between 0 and 1. With u = 0 sets are larger
    /// than necessary.
    Aps,
    /// RAPS (Angelopoulos, Bates, Malik and Jordan, 2021): the score [APS](Self::Aps) plus `penalty·max(0, r -
    /// free_ranks)`, for the label of rank r.
    Raps {
        /// The number that is added to the score for every rank beyond the free ranks.
        penalty: f64,
        /// The number of ranks that get no penalty, counted from rank 1.
        free_ranks: usize,
    },
    /// SAPS (Huang, Xi, Zhang, Wei and others, 2024): `u·p_max` at rank 1 and `p_max + (r - 2 + u)·weight` at a later
    /// rank r. `p_max` is the largest probability of the row, and u a random number between 0 and 1.
    Saps {
        /// The number that is added to the score for every rank after the first.
        weight: f64,
    },
}

impl RankedScore {
    /// The score RAPS with the penalty 0.001 and one free rank, as in the paper's experiments.
    pub const RAPS: Self = Self::Raps { penalty: 0.001, free_ranks: 1 };
    /// The score SAPS with the weight 0.2.
    pub const SAPS: Self = Self::Saps { weight: 0.2 };

    /// Returns the nonconformity score of a label, which is small if the label conforms.
    pub fn score(self, label: &RankedLabel) -> f64 {
        let aps = label.mass - label.draw * label.probability;
        match self {
            Self::Lac => 1.0 - label.probability,
            Self::Aps => aps,
            Self::Raps { penalty, free_ranks } => aps + penalty * label.rank.saturating_sub(free_ranks) as f64,
            Self::Saps { .. } if label.rank == 1 => label.draw * label.largest,
            Self::Saps { weight } => label.largest + ((label.rank - 2) as f64 + label.draw) * weight,
        }
    }
}

/// The source of the random draws u, which randomise scores. Every row of probabilities has one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// The draw u is 0 in every row, so that scores are deterministic.
    Zero,
    /// A uniform draw between 0 and 1 for each row. It depends only on the seed, the tag of the data set and the index
    /// of the row.
    Seeded {
        /// The seed of all draws.
        seed: u64,
        /// The tag of the data set (calibration points, queries …). Rows of different data sets have independent draws.
        part: u64,
    },
}

impl Draws {
    /// Returns the source of the draws u for calibration points. Without a seed, every u is 0.
    pub fn calibration(seed: Option<u64>) -> Self {
        seed.map_or(Self::Zero, |seed| Self::Seeded { seed, part: CALIBRATION_PART })
    }

    /// Returns the source of the draws u for queries. Without a seed, every u is 0.
    pub fn queries(seed: Option<u64>) -> Self {
        seed.map_or(Self::Zero, |seed| Self::Seeded { seed, part: QUERY_PART })
    }

    /// Returns the draw u for the row with the index `row`.
    pub fn of(self, row: usize) -> f64 {
        match self {
            Self::Zero => 0.0,
            Self::Seeded { seed, part } => random::uniform_of(&[seed, DRAW_PURPOSE, part, row as u64]),
        }
    }
}

/// Rounds a probability to a multiple of 2⁻⁵², so that sums of such numbers in f64 are exact.
fn exact(probability: f32) -> f64 {
    (f64::from(probability) + 1.0) - 1.0
}

/// Finds the rank of `label` in a row of class probabilities, without sorting the row. `draw` is the draw u of the row.
pub fn ranked_label(row: &[f32], label: u32, draw: f64) -> RankedLabel {
    let own = row[label as usize];
    let (before, after) = row.split_at(label as usize);
    let (mut rank, mut mass, mut largest) = (1, exact(own), own);
    // A tie goes to the lower label.
    for &p in before {
        rank += usize::from(p >= own);
        mass += if p >= own { exact(p) } else { 0.0 };
        largest = largest.max(p);
    }
    for &p in after {
        rank += usize::from(p > own);
        mass += if p > own { exact(p) } else { 0.0 };
        largest = largest.max(p);
    }
    RankedLabel { rank, probability: exact(own), largest: exact(largest), mass, draw }
}

/// Finds the rank of one label per row of class probabilities: of `labels[row]`. Returns an error if a label has no
/// column, or if there is not one label per row.
pub fn ranked_labels(
    probabilities: &Matrix,
    labels: &[u32],
    draws: Draws,
    context: &Context<'_>,
) -> Result<Vec<RankedLabel>> {
    if labels.len() != probabilities.rows() {
        return Err(Error::Shape {
            what: "labels (one per row of probabilities)".into(),
            expected: probabilities.rows().to_string(),
            found: labels.len().to_string(),
        });
    }
    if let Some(row) = labels.iter().position(|&label| label as usize >= probabilities.cols()) {
        return Err(Error::Label {
            origin: "labels of the probabilities".into(),
            row,
            problem: format!("{} has no column; there are {}", labels[row], probabilities.cols()),
        });
    }
    let ranked = |row: usize| ranked_label(probabilities.row(row), labels[row], draws.of(row));
    Ok(context.run(|| (0..labels.len()).into_par_iter().with_min_len(TILE).map(ranked).collect()))
}

/// Returns the nonconformity scores of the given ranked labels.
pub fn scores(score: RankedScore, ranked_labels: &[RankedLabel]) -> Vec<f64> {
    ranked_labels.iter().map(|label| score.score(label)).collect()
}

/// Returns all labels of a row of probabilities with their ranks, most probable first. The row must hold no negative
/// number. `draw` is the draw u of the row.
pub fn ranking(row: &[f32], draw: f64) -> impl Iterator<Item = (u32, RankedLabel)> + use<> {
    // One number per label orders both: the inverted bits of the probability above the bits of the label.
    let key = |(label, p): (u32, &f32)| (u64::from(!(p + 0.0).to_bits()) << 32) | u64::from(label);
    let mut keys: Vec<u64> = (0u32..).zip(row).map(key).collect();
    keys.sort_unstable();
    let probability = |key: u64| exact(f32::from_bits(!((key >> 32) as u32)));
    let largest = keys.first().map_or(0.0, |&key| probability(key));
    let mut mass = 0.0;
    keys.into_iter().zip(1..).map(move |(key, rank)| {
        let probability = probability(key);
        mass += probability;
        (key as u32, RankedLabel { rank, probability, largest, mass, draw })
    })
}

/// Returns one list of sets for each pair of a score and a threshold in `cuts`. The set of a row of probabilities holds
/// the labels whose score is at most the threshold.
pub fn sets(probabilities: &Matrix, cuts: &[(RankedScore, f64)], draws: Draws, context: &Context<'_>) -> Vec<Sets> {
    sets_with(probabilities, cuts.len(), draws, |_, which| cuts[which], context)
}

/// Returns one list of sets for each of several scores, whose thresholds may differ between rows of probabilities.
/// `scores` is the number of scores. `cut(row, which)` returns the score with the index `which` and its threshold for
/// the row.
pub fn sets_with(
    probabilities: &Matrix,
    scores: usize,
    draws: Draws,
    cut: impl Fn(usize, usize) -> (RankedScore, f64) + Sync,
    context: &Context<'_>,
) -> Vec<Sets> {
    let sets_of_tile = |tile: usize| {
        let mut sets = vec![Sets::default(); scores];
        for row in tile * TILE..((tile + 1) * TILE).min(probabilities.rows()) {
            let ranking: Vec<(u32, RankedLabel)> = ranking(probabilities.row(row), draws.of(row)).collect();
            for (which, sets) in sets.iter_mut().enumerate() {
                let (score, threshold) = cut(row, which);
                let labels = ranking.iter().take_while(|(_, label)| score.score(label) <= threshold);
                let mut labels: Vec<u32> = labels.map(|&(label, _)| label).collect();
                labels.sort_unstable();
                sets.push(labels);
            }
        }
        sets
    };
    let mut all = vec![Sets::default(); scores];
    for tile in context.map(probabilities.rows().div_ceil(TILE), sets_of_tile) {
        all.iter_mut().zip(tile).for_each(|(all, tile)| all.append(tile));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_ranks_the_same_with_and_without_a_sort() {
        for case in 0..200u64 {
            // Coarse values tie often.
            let row: Vec<f32> =
                (0..17).map(|at| (8.0 * random::uniform_of(&[case, at])).floor() as f32 / 61.0 + 1e-12).collect();
            let mut compared = 0;
            for (label, sorted) in ranking(&row, 0.25) {
                assert_eq!(sorted, ranked_label(&row, label, 0.25));
                compared += 1;
            }
            assert_eq!(compared, row.len());
        }
    }

    #[test]
    fn draws_repeat_and_belong_to_a_row() {
        let draws = Draws::Seeded { seed: 3, part: 1 };
        assert_eq!(draws.of(5), draws.of(5));
        assert_ne!(draws.of(5), draws.of(6));
        assert_ne!(draws.of(5), Draws::Seeded { seed: 3, part: 0 }.of(5));
        assert_eq!(Draws::Zero.of(5), 0.0);
    }

    #[test]
    fn refuses_labels_without_a_column() {
        let context = Context::new(1).unwrap();
        let probabilities = Matrix::new(vec![0.5; 4], 2, 2).unwrap();
        assert!(matches!(ranked_labels(&probabilities, &[0], Draws::Zero, &context), Err(Error::Shape { .. })));
        assert!(matches!(ranked_labels(&probabilities, &[0, 2], Draws::Zero, &context), Err(Error::Label { .. })));
    }
}
