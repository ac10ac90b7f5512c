//! The neighbors of every calibration point, and the change of the point's scores when a query is added.
//!
//! A query changes the scores of a calibration point only if the query enters the point's list of neighbors. The new
//! scores depend on whether the query carries the point's label. If it does not, its label makes no difference. So two
//! variants of the scores serve all labels.
//!
//! Cost of a change, for lists of m neighbors: a bisection of the list and one distance to the anchor (the point's
//! nearest neighbor), or m distances if the query becomes the anchor. Memory: m ids, distances, losses and exponentials
//! per point.

use crate::conformal::calibrate::Reference;
use crate::conformal::thresholds::NeighborScorer;
use crate::neighbors::{Neighbors, squared_distance};
use crate::numeric::matrix::Matrix;
use crate::scores::contrastive::Contrastive;

/// The rank and the contrastive score of a calibration point's own label.
pub(super) type ScorePair = [f64; 2];

/// The new scores of a calibration point after a query is added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) id: u32,
    /// The new scores if the query carries the point's label.
    pub(super) same: ScorePair,
    /// The new scores if the query carries another label than the point.
    pub(super) other: ScorePair,
}

/// A query that is added to the calibration points.
#[derive(Clone, Copy)]
pub(super) struct JoiningQuery<'a> {
    pub(super) point: &'a [f32],
    /// The random key that orders the query among points at equal distances.
    pub(super) key: f64,
    /// The calibration points whose neighbor lists the query enters, by ascending index, with their squared distances
    /// to the query.
    pub(super) reached: &'a [(u32, f64)],
}

impl JoiningQuery<'_> {
    /// Returns the squared distance of the query to the reference point `id`.
    fn squared_to(&self, points: &Matrix, id: u32) -> f64 {
        match self.reached.binary_search_by_key(&id, |&(id, _)| id) {
            Ok(place) => self.reached[place].1,
            Err(_) => squared_distance(self.point, points.row(id as usize)),
        }
    }
}

/// The nearest among those neighbors of a calibration point that carry the point's own label.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FirstOfLabel {
    /// The index of this neighbor in the point's list of neighbors.
    place: usize,
    squared: f64,
    /// The rank of this neighbor: 1 + the number of strictly nearer neighbors.
    rank: f64,
}

/// The calibration points with their neighbors among all other reference points, and the scores of the points' own
/// labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BagPoints {
    rank_neighbors: usize,
    contrastive: Contrastive,
    neighbors: Neighbors,
    firsts: Vec<Option<FirstOfLabel>>,
    /// The number of entries per point in `losses` and `terms`. There is one for each neighbor that the contrastive
    /// score uses, except for the nearest one (the anchor).
    stride: usize,
    /// The loss ([`Contrastive::loss`]) of each neighbor that the contrastive score uses, without the anchor (the
    /// nearest neighbor). The log-sum term, which all neighbors of a point share, is left out.
    losses: Vec<f64>,
    /// `exp(-loss)` of each entry of `losses`, in ascending order within a point.
    terms: Vec<f64>,
    /// For every point, the smallest loss among the neighbors that carry the point's own label. Neighbors that leave
    /// the list when a query enters it are left out.
    staying: Vec<f64>,
    scores: Vec<ScorePair>,
}

impl BagPoints {
    /// Scores the calibration points, which are the first reference points. `neighbors` holds the neighbors of each of
    /// them among all other reference points.
    pub(super) fn new(reference: &Reference, scorer: &NeighborScorer, neighbors: Neighbors) -> Self {
        let (rank_neighbors, contrastive) = (scorer.rank.neighbors, scorer.contrastive);
        let n = neighbors.len();
        let length = (0..n).map(|row| neighbors.ids(row).len()).max().unwrap_or(0);
        let stride = contrastive.neighbors.min(length).saturating_sub(1);
        let mut points = Self {
            rank_neighbors,
            contrastive,
            neighbors,
            firsts: Vec::with_capacity(n),
            stride,
            losses: Vec::with_capacity(n * stride),
            terms: Vec::with_capacity(n * stride),
            staying: Vec::with_capacity(n),
            scores: Vec::with_capacity(n),
        };
        for row in 0..n {
            points.append(reference, row);
        }
        points
    }

    /// Scores the calibration point at `row`, and appends its values to the lists in `self`.
    fn append(&mut self, reference: &Reference, row: usize) {
        let (labels, points) = (&reference.labels, reference.index.points());
        let (ids, squared) = (self.neighbors.ids(row), self.neighbors.squared(row));
        let own = |id: &u32| labels[*id as usize] == labels[row];
        let first = ids.iter().take(self.rank_neighbors).position(own).map(|place| FirstOfLabel {
            place,
            squared: squared[place],
            rank: (1 + squared.partition_point(|&other| other < squared[place])) as f64,
        });
        // Compute the loss of each neighbor of the contrastive score but the anchor.
        let near = &ids[..ids.len().min(self.contrastive.neighbors)];
        let anchor = near.first().map(|&anchor| points.row(anchor as usize));
        let losses: Vec<f64> = match anchor {
            None => Vec::new(),
            Some(anchor) => {
                let loss = |&id: &u32| self.contrastive.loss(squared_distance(anchor, points.row(id as usize)));
                near[1..].iter().map(loss).collect()
            }
        };
        let mut terms: Vec<f64> = losses.iter().map(|loss| (-loss).exp()).collect();
        terms.sort_unstable_by(f64::total_cmp);
        let best = |near: &[u32]| {
            let own = near.iter().enumerate().filter(|(_, id)| own(id));
            own.map(|(place, _)| if place == 0 { 0.0 } else { losses[place - 1] }).fold(f64::INFINITY, f64::min)
        };
        let stays = if near.len() == self.contrastive.neighbors { near.len() - 1 } else { near.len() };
        self.scores
            .push([first.map_or(f64::INFINITY, |first| first.rank), best(near) + terms.iter().sum::<f64>().ln_1p()]);
        self.staying.push(best(&near[..stays]));
        self.firsts.push(first);
        self.losses.extend(losses);
        self.terms.extend(terms);
    }

    pub(super) fn scores(&self) -> &[ScorePair] {
        &self.scores
    }

    pub(super) fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }

    /// Returns the reach of every calibration point: the squared distance within which a query enters the point's list
    /// of neighbors. It is the squared distance of the last neighbor, or +∞ if the list is not full.
    pub(super) fn reach(&self) -> Vec<f64> {
        let full = self.rank_neighbors.max(self.contrastive.neighbors);
        let last = |row| self.neighbors.squared(row).get(full - 1).copied().unwrap_or(f64::INFINITY);
        (0..self.neighbors.len()).map(last).collect()
    }

    /// Returns the calibration points whose scores `query` changes, each with the new scores.
    pub(super) fn changes<'a>(
        &'a self,
        reference: &'a Reference,
        query: JoiningQuery<'a>,
    ) -> impl Iterator<Item = Change> + 'a {
        // All lists are bisected before any is used, so that the processor can wait for several memory reads at once.
        let nearer =
            |&(id, squared): &(u32, f64)| self.neighbors.squared(id as usize).partition_point(|&other| other < squared);
        let nearer: Vec<usize> = query.reached.iter().map(nearer).collect();
        let each = query.reached.iter().zip(nearer);
        each.filter_map(move |(&(id, squared), nearer)| self.change(reference, id, squared, nearer, query))
    }

    /// Returns the new scores of the calibration point `id`, or `None` if no score changes. `squared` is the squared
    /// distance from this point to the query. `nearer` is the number of the point's neighbors that are strictly nearer
    /// than the query.
    fn change(
        &self,
        reference: &Reference,
        id: u32,
        squared: f64,
        nearer: usize,
        query: JoiningQuery<'_>,
    ) -> Option<Change> {
        let row = id as usize;
        let behind = self.neighbors.squared(row)[nearer..].iter().zip(&self.neighbors.ids(row)[nearer..]);
        let before = |&(&other, &id): &(&f64, &u32)| other == squared && reference.index.key(id) < query.key;
        let place = nearer + behind.take_while(before).count();
        let (same_rank, other_rank) = self.rank(row, place, nearer, squared);
        let (same_contrastive, other_contrastive) = self.contrastive_score(reference, row, place, query);
        let change = Change { id, same: [same_rank, same_contrastive], other: [other_rank, other_contrastive] };
        let old = self.scores[row];
        (change.same != old || change.other != old).then_some(change)
    }

    /// Returns two new rank scores: one if the query carries the point's label, and one if the query carries another
    /// label. The query has the index `place` in the point's list, and `nearer` neighbors are strictly nearer.
    fn rank(&self, row: usize, place: usize, nearer: usize, squared: f64) -> (f64, f64) {
        let old = self.scores[row][0];
        if place >= self.rank_neighbors {
            return (old, old);
        }
        let arrived = (nearer + 1) as f64;
        let Some(first) = self.firsts[row] else { return (arrived, old) };
        let other = if place > first.place {
            old
        } else if first.place + 1 == self.rank_neighbors {
            f64::INFINITY // pushed out of the list
        } else {
            first.rank + f64::from(u8::from(squared < first.squared))
        };
        (if squared < first.squared { arrived } else { old }, other)
    }

    /// Returns two new contrastive scores: one if the query carries the point's label, and one if the query carries
    /// another label. The query has the index `place` in the point's list.
    fn contrastive_score(
        &self,
        reference: &Reference,
        row: usize,
        place: usize,
        query: JoiningQuery<'_>,
    ) -> (f64, f64) {
        let m = self.contrastive.neighbors;
        if place >= m {
            let old = self.scores[row][1];
            return (old, old);
        }
        let ids = self.neighbors.ids(row);
        let (labels, points) = (&reference.labels, reference.index.points());
        let full = ids.len() >= m;
        let stay = &ids[..if full { m - 1 } else { ids.len() }];
        // The query is the new anchor: all losses are new.
        if place == 0 {
            let loss = |&id: &u32| self.contrastive.loss(query.squared_to(points, id));
            let losses: Vec<f64> = stay.iter().map(loss).collect();
            let mut terms: Vec<f64> = losses.iter().map(|loss| (-loss).exp()).collect();
            terms.sort_unstable_by(f64::total_cmp);
            let shared = terms.iter().sum::<f64>().ln_1p();
            let own = stay.iter().zip(&losses).filter(|(id, _)| labels[**id as usize] == labels[row]);
            return (shared, own.map(|(_, &loss)| loss).fold(f64::INFINITY, f64::min) + shared);
        }
        // The anchor remains: one loss is new, and the last one is dropped from a full list.
        let loss = self.contrastive.loss(query.squared_to(points, ids[0]));
        let range = row * self.stride..(row + 1) * self.stride;
        let dropped = if full { self.losses[range.clone()].last().map(|loss| (-loss).exp()) } else { None };
        let shared = sum_with(&self.terms[range], dropped, (-loss).exp()).ln_1p();
        (self.staying[row].min(loss) + shared, self.staying[row] + shared)
    }
}

/// Returns the sum of `terms`, which ascend, with the term `with` added and one term equal to `without` left out. The
/// terms are summed in ascending order.
fn sum_with(terms: &[f64], mut without: Option<f64>, with: f64) -> f64 {
    let (mut sum, mut added) = (0.0, false);
    for &term in terms {
        if without == Some(term) {
            without = None;
            continue;
        }
        if !added && with <= term {
            (sum, added) = (sum + with, true);
        }
        sum += term;
    }
    if added { sum } else { sum + with }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_like_the_sorted_list() {
        let terms = [1e-9, 0.1, 0.1, 0.3];
        for (without, with) in [(None, 0.2), (Some(0.1), 0.1), (Some(0.3), 1e-12), (Some(1e-9), 0.9)] {
            let mut expected = terms.to_vec();
            if let Some(at) = expected.iter().position(|&term| Some(term) == without) {
                expected.remove(at);
            }
            expected.push(with);
            expected.sort_by(f64::total_cmp);
            assert_eq!(sum_with(&terms, without, with), expected.iter().sum::<f64>());
        }
    }
}
