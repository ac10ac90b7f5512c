//! Selection of the points of a pool that should be labelled next (active learning).
//!
//! **Random** points are drawn first. They are a random sample of the pool, so a model may be calibrated on them.
//! **Picked** points are chosen among the remaining points of the pool. Their set S maximises the uncertainty that it
//! covers,
//!
//! ```text
//! F(S) = Σ_j u_j · max_{s ∈ S} k(j, s)
//! ```
//!
//! over all points j of the pool. The uncertainty `u_j` sums the excess of a label's p-value above 0.05 over all labels
//! except the best one. This sum is the number of further labels in the prediction set of j, integrated over the error
//! levels from 0.05 on. The similarity `k(j, s)` is 1 at distance 0 and falls with the distance of j and s in the
//! learned metric. So F prefers points with large sets (u), with many near points (the sum), and unlike the points
//! chosen already (the maximum). F is submodular, so the greedy choice reaches at least 1 - 1/e of the maximum.
//!
//! The cost, for n points with d dimensions, is the scores of every point, its neighbors in the pool (n²d), and a heap
//! of candidates. A candidate's gain, the increase of F by choosing it, is recomputed only at the top of the heap.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::dance::Dance;
use crate::conformal::{Decision, PredictOptions, Scored};
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::neighbors::{Index, Neighbors};
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;

/// The number of nearest neighbors that are searched for each point. Of two points, one covers the other only if one is
/// among these neighbors of the other.
const NEIGHBORS: usize = 30;
/// The rank of the neighbor that sets the scale of similarity. At the median distance of neighbors of this rank, the
/// similarity of two points is one half.
const HALF_WAY: usize = 10;
/// The smallest error level that counts. Labels with smaller p-values add nothing to the [uncertainty](self) of a
/// point.
const LEVEL: f64 = 0.05;
/// The uncertainty of a point whose prediction sets hold one label at every error level. It is added to the uncertainty
/// of every point.
const LEAST_UNCERTAINTY: f64 = 1e-3;
/// The number that keeps the random draw of points apart from draws for other purposes under one seed.
const PURPOSE: u64 = 0x5e1e_c7ed;

/// The numbers of points to select for labelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectOptions {
    /// The number of points to pick by the uncertainty that they cover.
    pub picked: usize,
    /// The number of points to draw at random.
    pub random: usize,
    /// The seed of the draw.
    pub seed: u64,
}

/// The rows in the pool of the points to label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// The rows of the picked points, best first.
    pub picked: Vec<usize>,
    /// The rows of the random points, in the order of the draw.
    pub random: Vec<usize>,
    /// The number of points of the pool that the model holds already. Such points are not selected.
    pub seen: usize,
}

impl Dance {
    /// Selects points of `pool` that should be labelled next. Points are embeddings as the encoder returns them. Points
    /// that the model holds already are not selected; if too few points are left, that is an error.
    pub fn select(
        &self,
        device: &dyn Device,
        pool: &Matrix,
        options: SelectOptions,
        context: &Context<'_>,
    ) -> Result<Selection> {
        let mut free: Vec<bool> = self.seen(pool)?.iter().map(Option::is_none).collect();
        let mut new: Vec<usize> = (0..free.len()).filter(|&row| free[row]).collect();
        let wanted = options.picked.saturating_add(options.random);
        if new.len() < wanted {
            return Err(Error::Data(format!(
                "{wanted} points are to be selected, and the pool has {} that the model has not seen; select fewer",
                new.len()
            )));
        }
        let seen = free.len() - new.len();
        // Draw the random points before any is picked, so that they are a random sample.
        Random::new(options.seed, PURPOSE).shuffle(&mut new);
        new.truncate(options.random);
        for &row in &new {
            free[row] = false;
        }
        let picked = if options.picked == 0 {
            Vec::new()
        } else {
            let scored = self.score(pool, PredictOptions::default().best(false), context)?;
            let mapped = self.classifier.transform(pool, context)?;
            let index = Index::open(device, mapped, context)?;
            let near = index.search_own(pool.rows(), NEIGHBORS.min(pool.rows() - 1), context)?;
            let uncertainties = self.uncertainties(&scored, &self.decide(LEVEL)?);
            cover(&uncertainties, &similarities(&near), &free, options.picked)
        };
        Ok(Selection { picked, random: new, seen })
    }

    /// Returns the uncertainty of every point: the excess of p-values above [`LEVEL`], summed over all labels except
    /// the best one.
    fn uncertainties(&self, scored: &Scored, decision: &Decision) -> Vec<f64> {
        let uncertainty = |row: usize| {
            let p_value = |label: u32| decision.p_value(&scored.counts, scored.counts.get(row, label));
            let all = (0..self.classes.len() as u32).map(|label| (p_value(label) - LEVEL).max(0.0));
            let (sum, most) = all.fold((0.0, 0.0f64), |(sum, most), p| (sum + p, most.max(p)));
            sum - most + LEAST_UNCERTAINTY
        };
        (0..scored.counts.len()).map(uncertainty).collect()
    }
}

/// Returns, for each point, the points that it covers with their similarities, itself first. At distance d the
/// similarity is `2^-(d/h)²`, where h is the median distance to the neighbor of rank [`HALF_WAY`].
fn similarities(near: &Neighbors) -> Vec<Vec<(u32, f64)>> {
    let far = |row: usize| near.squared(row).iter().take(HALF_WAY).next_back().copied();
    let unit = median((0..near.len()).filter_map(far).collect()).unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut lists: Vec<Vec<(u32, f64)>> = (0..near.len() as u32).map(|row| vec![(row, 1.0)]).collect();
    for row in 0..near.len() {
        for (&id, &squared) in near.ids(row).iter().zip(near.squared(row)) {
            let similarity = (-squared / unit).exp2();
            lists[row].push((id, similarity));
            lists[id as usize].push((row as u32, similarity)); // a neighbor need not have the point in its own list
        }
    }
    for list in &mut lists {
        list[1..].sort_unstable_by_key(|&(id, _)| id);
        list.dedup_by_key(|&mut (id, _)| id);
    }
    lists
}

/// Returns the median of `values`; of an even number of values, the upper of the two middle ones. `None` without
/// values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A point that may be chosen, with its gain: the increase of the covered uncertainty [F](self) by choosing it.
#[derive(PartialEq)]
struct Gain {
    worth: f64,
    row: usize,
    /// The number of points that had been chosen when the gain was computed. If more are chosen now, the gain is out of
    /// date.
    chosen: usize,
}

impl Eq for Gain {}

impl Ord for Gain {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Chooses `count` points whose flag in `free` is true, one after the other. Each choice is the point that increases
/// the covered uncertainty [F](self) most. `similar` holds, for each point, the points that it covers with their
/// similarities.
fn cover(uncertainties: &[f64], similar: &[Vec<(u32, f64)>], free: &[bool], count: usize) -> Vec<usize> {
    let mut covered = vec![0.0f64; uncertainties.len()];
    let gain = |row: usize, covered: &[f64]| {
        let of =
            |&(id, similarity): &(u32, f64)| uncertainties[id as usize] * (similarity - covered[id as usize]).max(0.0);
        similar[row].iter().map(of).sum::<f64>()
    };
    let rows = (0..uncertainties.len()).filter(|&row| free[row]);
    let mut heap: BinaryHeap<Gain> = rows.map(|row| Gain { worth: gain(row, &covered), row, chosen: 0 }).collect();
    let mut chosen = Vec::with_capacity(count.min(heap.len()));
    while chosen.len() < count {
        let Some(top) = heap.pop() else { break };
        if top.chosen < chosen.len() {
            // Points chosen since the gain was computed can only have reduced it.
            heap.push(Gain { worth: gain(top.row, &covered), row: top.row, chosen: chosen.len() });
            continue;
        }
        chosen.push(top.row);
        for &(id, similarity) in &similar[top.row] {
            covered[id as usize] = covered[id as usize].max(similarity);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For tests: chooses points like [`cover`], but computes F anew for every candidate.
    fn slowly(unsure: &[f64], alike: &[Vec<(u32, f64)>], free: &[bool], count: usize) -> Vec<usize> {
        let value = |chosen: &[usize]| {
            let best = |point: usize| {
                let of = |&row: &usize| {
                    alike[row].iter().find(|&&(id, _)| id as usize == point).map_or(0.0, |&(_, alike)| alike)
                };
                chosen.iter().map(of).fold(0.0, f64::max)
            };
            (0..unsure.len()).map(|point| unsure[point] * best(point)).sum::<f64>()
        };
        let mut chosen: Vec<usize> = Vec::new();
        for _ in 0..count {
            let mut best: Option<(usize, f64)> = None;
            for row in (0..unsure.len()).filter(|&row| free[row] && !chosen.contains(&row)) {
                let with = value(&[&chosen[..], &[row]].concat());
                if best.is_none_or(|(_, most)| with > most + 1e-12) {
                    best = Some((row, with));
                }
            }
            chosen.extend(best.map(|(row, _)| row));
        }
        chosen
    }

    #[test]
    fn the_lazy_choice_is_the_greedy_one() {
        let mut random = Random::new(3, 1);
        let n = 60;
        let at: Vec<(f64, f64)> = (0..n).map(|_| (random.uniform(), random.uniform())).collect();
        let alike = |row: usize| {
            let of = |id: usize| {
                let squared = (at[row].0 - at[id].0).powi(2) + (at[row].1 - at[id].1).powi(2);
                (id as u32, (-squared / 0.01).exp2())
            };
            (0..n).map(of).filter(|&(_, alike)| alike > 0.01).collect::<Vec<_>>()
        };
        let alike: Vec<_> = (0..n).map(alike).collect();
        let unsure: Vec<f64> = (0..n).map(|_| random.uniform()).collect();
        let free: Vec<bool> = (0..n).map(|row| row % 7 != 0).collect();
        let chosen = cover(&unsure, &alike, &free, 20);
        assert_eq!(chosen, slowly(&unsure, &alike, &free, 20));
        assert!(chosen.iter().all(|&row| free[row]));
        assert_eq!(cover(&unsure, &alike, &free, 1000).len(), free.iter().filter(|&&free| free).count());
    }

    /// Tests two crowds of equal points and a single point, all of equal uncertainty. One point of each crowd is chosen
    /// first, that of the larger crowd before that of the smaller.
    #[test]
    fn crowds_come_first_and_copies_last() {
        let crowd = |rows: std::ops::Range<u32>| rows.map(|id| (id, 1.0)).collect::<Vec<_>>();
        let mut alike = vec![crowd(0..5); 5];
        alike.extend(vec![crowd(5..8); 3]);
        alike.push(crowd(8..9));
        assert_eq!(cover(&[1.0; 9], &alike, &[true; 9], 4), [0, 5, 8, 1]);
        let sure = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 9.0];
        assert_eq!(cover(&sure, &alike, &[true; 9], 2), [8, 5]);
    }
}
