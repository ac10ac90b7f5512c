//! The rank score (the paper, equation 2): `S_knn(z,y)` = the 1-based rank of the nearest neighbor of z that carries y,
//! among `rank_neighbors`; +∞ if none does.
//!
//! Ranks are whole numbers, so calibration scores tie. [`tie_noise`] breaks ties at random, which gives coverage an
//! exact upper bound. Without noise, the set at a threshold q holds the labels of the q nearest neighbors. Points at
//! the same distance have consecutive ranks, or share the smallest one, which is 1 + the number of points strictly
//! nearer.
//!
//! Cost: one comparison per neighbor.

use crate::numeric::random;
use crate::scores::{BestPerLabel, NeighborScore, Neighborhood};

/// The tag of the random stream that breaks ties of ranks.
const TIE_PURPOSE: u64 = 0x71e5;

/// The rank score (the paper, equation 2): the rank of the nearest neighbor that carries the label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rank {
    /// The number of neighbors that the score uses (`m_knn` in the paper).
    pub(crate) neighbors: usize,
    /// If true, points at equal distances share the smallest of their ranks. Otherwise their ranks are consecutive.
    pub(crate) shared_ties: bool,
}

impl NeighborScore for Rank {
    fn neighbors(&self) -> usize {
        self.neighbors
    }

    fn score(&self, neighborhood: &Neighborhood<'_>, best: &mut BestPerLabel) {
        let mut nearer = 0;
        for (place, &id) in neighborhood.ids.iter().take(self.neighbors).enumerate() {
            let tied = self.shared_ties && neighborhood.squared[place] == neighborhood.squared[nearer];
            nearer = if tied { nearer } else { place };
            best.offer(neighborhood.labels[id as usize], (nearer + 1) as f64);
        }
    }
}

/// Returns the noise that breaks ties of ranks: a uniform draw between 0 and `width`. Only the seed, the point, the
/// label and the tag `part` of the data set determine the draw.
pub(crate) fn tie_noise(seed: u64, width: f64, part: u64, point: u64, label: u32) -> f64 {
    width * random::uniform_of(&[seed, TIE_PURPOSE, part, point, u64::from(label)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_uniform_and_repeats() {
        let draws: Vec<f64> = (0..20_000).map(|at| tie_noise(3, 0.5, 1, at / 40, (at % 40) as u32)).collect();
        assert_eq!(draws[777], tie_noise(3, 0.5, 1, 777 / 40, 777 % 40));
        assert!(draws.iter().all(|draw| (0.0..0.5).contains(draw)));
        for tenth in 0..10 {
            let low = f64::from(tenth) * 0.05;
            let share = draws.iter().filter(|&&draw| draw >= low && draw < low + 0.05).count() as f64 / 20_000.0;
            assert!((share - 0.1).abs() < 0.01, "{share}");
        }
    }
}
