//! Which points of a pool to label next.
//!
//! **Random** ones are drawn first, before anyone looks at the pool: a fair sample, which may calibrate. Then **picked** ones, of what is left: those that
//! together stand for most of what the model is unsure of,
//!
//! ```text
//! F(S) = Σ_j u_j · max_{s ∈ S} k(j, s)
//! ```
//!
//! over all points j of the pool. `u_j` is how many labels beside its best a point's sets hold, averaged over error levels from 0.05 on: the sum of
//! what the p-values of the others exceed 0.05 by. `k` falls from 1 with the distance in the
//! learned metric. So one number asks for large sets (u), for many points near by (the sum) and for points unlike those chosen
//! already (the largest). F is submodular: choosing the best next point again and again reaches at least 1 - 1/e of the most that
//! so many points can.
//!
//! Cost: one answer per point, the nearest of every point in the pool (n²d), and a heap of gains that are computed anew
//! only when they come to the top.

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

/// Neighbors of a point that it can stand for.
const NEIGHBORS: usize = 30;
/// The neighbor at whose typical distance a point stands for another by half.
const HALF_WAY: usize = 10;
/// Labels with smaller p-values are in no set that people ask for.
const LEVEL: f64 = 0.05;
/// What a point counts whose sets hold one label.
const SURE: f64 = 1e-3;
/// The stream of random numbers that draws.
const PURPOSE: u64 = 0x5e1e_c7ed;

/// How many points to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectOptions {
    /// Points to pick for what they are.
    pub picked: usize,
    /// Points to draw at random.
    pub random: usize,
    /// Seed of the draw.
    pub seed: u64,
}

/// Points of a pool to label, by their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Picked ones, best first.
    pub picked: Vec<usize>,
    /// Drawn ones, in the order in which they were drawn.
    pub random: Vec<usize>,
    /// Points of the pool that the model has seen before, and that are not chosen.
    pub seen: usize,
}

impl Dance {
    /// Chooses points of `pool`, as they come from the encoder, to label next.
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
                "{wanted} points are asked for, and the pool has {} that the model has not seen; ask for fewer",
                new.len()
            )));
        }
        let seen = free.len() - new.len();
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
            cover(&self.unsure(&scored, &self.decide(LEVEL)?), &alike(&near), &free, options.picked)
        };
        Ok(Selection { picked, random: new, seen })
    }

    /// How many labels beside the best each point's sets hold.
    fn unsure(&self, scored: &Scored, decision: &Decision) -> Vec<f64> {
        let of = |row: usize| {
            let p_value = |label: u32| decision.p_value(&scored.counts, scored.counts.get(row, label));
            let all = (0..self.classes.len() as u32).map(|label| (p_value(label) - LEVEL).max(0.0));
            let (sum, most) = all.fold((0.0, 0.0f64), |(sum, most), p| (sum + p, most.max(p)));
            sum - most + SURE
        };
        (0..scored.counts.len()).map(of).collect()
    }
}

/// For every point those that it can stand for, itself first, and how well: 2^-(d/h)², with h the median distance to a near neighbor.
fn alike(near: &Neighbors) -> Vec<Vec<(u32, f64)>> {
    let far = |row: usize| near.squared(row).iter().take(HALF_WAY).next_back().copied();
    let mut typical: Vec<f64> = (0..near.len()).filter_map(far).collect();
    typical.sort_unstable_by(f64::total_cmp);
    let unit = typical.get(typical.len() / 2).copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut lists: Vec<Vec<(u32, f64)>> = (0..near.len() as u32).map(|row| vec![(row, 1.0)]).collect();
    for row in 0..near.len() {
        for (&id, &squared) in near.ids(row).iter().zip(near.squared(row)) {
            let alike = (-squared / unit).exp2();
            lists[row].push((id, alike));
            lists[id as usize].push((row as u32, alike)); // whoever is near is stood for, whichever list it is in
        }
    }
    for list in &mut lists {
        list[1..].sort_unstable_by_key(|&(id, _)| id);
        list.dedup_by_key(|&mut (id, _)| id);
    }
    lists
}

/// A point with what it would add when that was last computed.
#[derive(PartialEq)]
struct Gain {
    worth: f64,
    row: usize,
    /// How many points had been chosen then.
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

/// The `count` points among those that are `free` whose choice, one after the other, adds most to F.
fn cover(unsure: &[f64], alike: &[Vec<(u32, f64)>], free: &[bool], count: usize) -> Vec<usize> {
    let mut covered = vec![0.0f64; unsure.len()];
    let gain = |row: usize, covered: &[f64]| {
        let of = |&(id, alike): &(u32, f64)| unsure[id as usize] * (alike - covered[id as usize]).max(0.0);
        alike[row].iter().map(of).sum::<f64>()
    };
    let rows = (0..unsure.len()).filter(|&row| free[row]);
    let mut heap: BinaryHeap<Gain> =
        rows.map(|row| Gain { worth: gain(row, &covered), row, chosen: 0 }).collect();
    let mut chosen = Vec::with_capacity(count.min(heap.len()));
    while chosen.len() < count {
        let Some(top) = heap.pop() else { break };
        if top.chosen < chosen.len() {
            // What others have covered since can only have made it less.
            heap.push(Gain { worth: gain(top.row, &covered), row: top.row, chosen: chosen.len() });
            continue;
        }
        chosen.push(top.row);
        for &(id, alike) in &alike[top.row] {
            covered[id as usize] = covered[id as usize].max(alike);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every choice computed anew, from the formula.
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

    /// Two crowds and a loner, all equally unsure: one point of each crowd first, the larger crowd before the smaller.
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
