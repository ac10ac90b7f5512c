//! Neighborhood conformal prediction with RAPS (Ghosh and others, 2023), on the kernel machine's probabilities.
//!
//! The threshold of a query is a weighted quantile of the RAPS scores `s_j` of its 50 nearest calibration points, with
//! weights `w_j ∝ exp(-r_j/bandwidth)`. Its level is chosen so that leave-one-out coverage of the calibration points
//! reaches 1-α. In other words, `s ≤ Q_level` exactly when the weight below s, `t(z,y) = Σ { w_j : s_j < s(z,y) }`, is
//! below the level. So `t` is thresholded like any score ([`calibration`](dance::scores::calibration)). t is 1 where
//! every neighbor scores less.
//!
//! The bandwidth and the penalty of RAPS are tuned for every α on a held-out fifth of the calibration points, by set
//! size. The free ranks of RAPS are the (1-α) quantile of the true labels' ranks, plus one. The method is a heuristic:
//! calibration points are each other's neighbors.
//!
//! Cost: a sort of 50 scores per point for each of 30 settings, beside the neighbor search.
//!
//! ```
//! use dance::{Context, Matrix, device::Cpu, neighbors::Index};
//! use dance_bench::baselines::ncp::Ncp;
//! let context = Context::new(1)?;
//! let points = Matrix::new((0..40).map(|at| at as f32).collect(), 40, 1)?;
//! let labels: Vec<u32> = (0..40).map(|row| u32::from(row >= 20)).collect();
//! let likely = |row: usize| if row < 20 { [0.9, 0.1] } else { [0.1, 0.9] };
//! let probabilities = Matrix::new((0..40).flat_map(likely).collect(), 40, 2)?;
//! let neighbors = Index::open(&Cpu, points.clone(), &context)?.search_own(40, 10, &context)?;
//! let ncp = Ncp::new(&points, &labels, &probabilities, neighbors.clone(), 0, &context)?;
//! let setting = ncp.tune(&Cpu, 0.1, &context)?;
//! assert_eq!(ncp.sets(&neighbors, &probabilities, setting, 0.1, &context)?.len(), 40);
//! # Ok::<(), dance::Error>(())
//! ```

use dance::Context;
use dance::Matrix;
use dance::data::split;
use dance::device::Device;
use dance::neighbors::{Index, Neighbors};
use dance::scores::Sets;
use dance::scores::calibration::{CalibrationScores, order_index};
use dance::scores::ranked::{self, Draws, RankedLabel, RankedScore};
use dance::{Error, Result};

/// Neighbors that give a query its threshold.
const NEIGHBORS: usize = 50;
/// Penalties of RAPS to try.
const PENALTIES: [f64; 5] = [0.001, 0.01, 0.1, 0.2, 0.5];
/// Bandwidths to try, in median distances to a neighbor. The last gives all neighbors nearly the same weight.
const BANDWIDTHS: [f64; 6] = [0.1, 0.25, 0.5, 1.0, 2.0, 8.0];
/// The share of the calibration points on which sets are measured.
const TUNING_SHARE: f64 = 0.2;

/// The tuned settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The bandwidth of the weights, a distance in mapped space.
    pub bandwidth: f64,
    /// The RAPS score with its penalty and its free ranks.
    pub raps: RankedScore,
}

/// NCP on mapped calibration points with their probabilities and labels.
pub struct Ncp<'a> {
    points: &'a Matrix,
    labels: &'a [u32],
    probabilities: &'a Matrix,
    ranked_labels: Vec<RankedLabel>,
    /// The neighbors of every calibration point among the others.
    neighbors: Neighbors,
    /// The median distance to a neighbor.
    unit: f64,
    seed: u64,
}

impl<'a> Ncp<'a> {
    /// Ranks the labels of the calibration points. `neighbors` are those of each among the others, at least 50 where
    /// there are as many.
    pub fn new(
        points: &'a Matrix,
        labels: &'a [u32],
        probabilities: &'a Matrix,
        neighbors: Neighbors,
        seed: u64,
        context: &Context<'_>,
    ) -> Result<Self> {
        if neighbors.len() != labels.len() || points.rows() != labels.len() || labels.len() < 5 {
            return Err(Error::Data(format!(
                "NCP needs at least 5 calibration points with their neighbors; there are {}",
                labels.len()
            )));
        }
        let ranked_labels = ranked::ranked_labels(probabilities, labels, Draws::calibration(Some(seed)), context)?;
        let mut distances: Vec<f64> = (0..neighbors.len())
            .flat_map(|row| neighbors.squared(row).iter().take(NEIGHBORS).map(|squared| squared.sqrt()))
            .collect();
        distances.sort_unstable_by(f64::total_cmp);
        let unit = distances.get(distances.len() / 2).copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        Ok(Self { points, labels, probabilities, ranked_labels, neighbors, unit, seed })
    }

    /// Tunes bandwidth and penalty for `alpha`.
    pub fn tune(&self, device: &dyn Device, alpha: f64, context: &Context<'_>) -> Result<Setting> {
        let parts = split::stratified(self.labels, &[1.0 - TUNING_SHARE, TUNING_SHARE], self.seed)
            .or_else(|_| split::uniform(self.labels.len(), &[1.0 - TUNING_SHARE, TUNING_SHARE], self.seed))?;
        let [known, measured] = &parts[..] else {
            return Err(Error::Data("tuning NCP needs two parts".into()));
        };
        // Four fifths give thresholds, the sets of the others are measured.
        let part = Index::open(device, self.points.select(known), context)?;
        let among = part.search_own(known.len(), NEIGHBORS, context)?;
        let found = part.search(&self.points.select(measured), NEIGHBORS, context)?;
        let ranked_labels: Vec<RankedLabel> = known.iter().map(|&row| self.ranked_labels[row]).collect();
        let mut trials = Vec::new();
        let scores_of = |penalty| {
            let raps = RankedScore::Raps { penalty, free_ranks: free_ranks(&ranked_labels, alpha) };
            (raps, ranked::scores(raps, &ranked_labels))
        };
        let all_scores = PENALTIES.map(scores_of);
        for (raps, scores) in &all_scores {
            for multiple in BANDWIDTHS {
                let setting = Setting { bandwidth: multiple * self.unit, raps: *raps };
                trials.push((setting, scores, level(scores, &among, setting.bandwidth, alpha)?, 0));
            }
        }
        // The setting with the smallest sets wins.
        for (query, &row) in measured.iter().enumerate() {
            let ranking = ranked::ranking(self.probabilities.row(row), self.ranked_labels[row].draw);
            let ranking: Vec<RankedLabel> = ranking.map(|(_, label)| label).collect();
            for (setting, scores, level, size) in &mut trials {
                let threshold = quantile(scores, &found, query, setting.bandwidth, *level);
                *size += ranking.iter().take_while(|label| setting.raps.score(label) <= threshold).count();
            }
        }
        let best = trials.iter().min_by_key(|(.., size)| *size);
        best.map(|(setting, ..)| *setting).ok_or_else(|| Error::Data("NCP has no settings to try".into()))
    }

    /// Returns the sets of queries, whose `neighbors` are calibration points.
    pub fn sets(
        &self,
        neighbors: &Neighbors,
        probabilities: &Matrix,
        setting: Setting,
        alpha: f64,
        context: &Context<'_>,
    ) -> Result<Sets> {
        let scores = ranked::scores(setting.raps, &self.ranked_labels);
        let level = level(&scores, &self.neighbors, setting.bandwidth, alpha)?;
        let thresholds: Vec<f64> =
            (0..neighbors.len()).map(|query| quantile(&scores, neighbors, query, setting.bandwidth, level)).collect();
        let draws = Draws::queries(Some(self.seed));
        let cut = |row: usize, _| (setting.raps, thresholds[row]);
        let mut sets = ranked::sets_with(probabilities, 1, draws, cut, context);
        Ok(sets.remove(0))
    }
}

/// Returns the (1-α) quantile of the true labels' ranks, plus one.
fn free_ranks(ranked_labels: &[RankedLabel], alpha: f64) -> usize {
    let mut ranks: Vec<usize> = ranked_labels.iter().map(|label| label.rank).collect();
    ranks.sort_unstable();
    let place = order_index(alpha, ranks.len()).clamp(1, ranks.len().max(1));
    ranks.get(place - 1).copied().unwrap_or(1) + 1
}

/// Returns the scores and the weights of a query's neighbors, by ascending score. Weights sum to 1.
fn weighted(scores: &[f64], neighbors: &Neighbors, query: usize, bandwidth: f64) -> Vec<(f64, f64)> {
    let ids = neighbors.ids(query).iter().zip(neighbors.squared(query)).take(NEIGHBORS);
    let nearest = neighbors.squared(query).first().map_or(0.0, |squared| squared.sqrt());
    // Distances are relative to the nearest, so that the largest weight is 1 at any scale.
    let weight = |squared: &f64| (-(squared.sqrt() - nearest) / bandwidth).exp();
    let mut pairs: Vec<(f64, f64)> = ids.map(|(&id, squared)| (scores[id as usize], weight(squared))).collect();
    let total: f64 = pairs.iter().map(|pair| pair.1).sum();
    for pair in &mut pairs {
        pair.1 /= total;
    }
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

/// Returns the threshold of `t` over the calibration points, each with its neighbors among the others.
fn level(scores: &[f64], neighbors: &Neighbors, bandwidth: f64, alpha: f64) -> Result<f64> {
    let weights = (0..neighbors.len()).map(|row| {
        let pairs = weighted(scores, neighbors, row, bandwidth);
        let below = pairs.iter().take_while(|(score, _)| *score < scores[row]);
        let (count, sum) = below.fold((0, 0.0), |(count, sum), pair| (count + 1, sum + pair.1));
        if count == pairs.len() { 1.0 } else { sum }
    });
    Ok(CalibrationScores::new(weights.collect())?.threshold(alpha)?.value)
}

/// Returns the largest score of a query whose weight below is at most `level`: the score of the first neighbor at which
/// the cumulative weight exceeds the level; +∞ where none does.
fn quantile(scores: &[f64], neighbors: &Neighbors, query: usize, bandwidth: f64, level: f64) -> f64 {
    if level >= 1.0 {
        return f64::INFINITY;
    }
    let mut sum = 0.0;
    let pairs = weighted(scores, neighbors, query, bandwidth);
    let reached = pairs.iter().find(|pair| {
        sum += pair.1;
        sum > level
    });
    reached.or(pairs.last()).map_or(f64::INFINITY, |pair| pair.0)
}
