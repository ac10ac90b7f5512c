//! Prevalence-adjusted softmax (Ding, Fermanian and Salmon, 2025), for long tails: `s(x, y) = -p(y|x) / π(y)`.
//!
//! Among sets of equal mean size, sets that threshold `p(y|x)/π(y)` have the largest macro coverage, the mean coverage
//! of the classes. With the standard threshold the guarantee is the usual one, for all points together. `π` are the
//! class frequencies of the points that fitted the classifier. A class without such points also has probability 0, and
//! gets the largest score, 0.
//!
//! ```
//! use dance_bench::baselines::{class_wise::ClassScore, pas::Pas};
//! use dance::scores::ranked::ranked_label;
//! let pas = Pas::new(&[8, 2, 0]);
//! assert!((pas.score(1, &ranked_label(&[0.5, 0.5, 0.0], 1, 0.0)) + 2.5).abs() < 1e-12); // -0.5/0.2
//! ```

use super::class_wise::ClassScore;
use dance::scores::ranked::RankedLabel;

/// The largest score that a label can have.
pub const LARGEST: f64 = 0.0;

/// The score: see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Pas {
    prevalence: Vec<f64>,
}

impl Pas {
    /// Takes the number of points of every class that fitted the classifier.
    pub fn new(counts: &[usize]) -> Self {
        let total = counts.iter().sum::<usize>().max(1) as f64;
        Self { prevalence: counts.iter().map(|&count| count as f64 / total).collect() }
    }
}

impl ClassScore for Pas {
    fn score(&self, class: u32, label: &RankedLabel) -> f64 {
        let prevalence = self.prevalence.get(class as usize).copied().unwrap_or(0.0);
        if prevalence > 0.0 { -label.probability / prevalence } else { LARGEST }
    }
}
