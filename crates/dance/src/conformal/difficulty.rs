//! How hard classes are to the kernel machine, by the fit points alone: what evens out classes where scores are fused or single, and
//! what puts them into clusters.
//!
//! Every fit point is judged by a machine that had not seen it: its probability of its own label ([`Difficulty::new`]). How hard a point
//! with probability p is, is told as scores are told, by the logarithm of a level: `h(p) = -ln( max(1, #{fit points with at most p}) /
//! (m+1) )` for m fit points. A fused score adds up such logarithms, `S = -(2·ln N_rank + ln N_contrast + 2·ln N_probability)`, and a
//! single one is one of them, so h is on their scale but for a weight, which is fixed.

use super::combine::Rule;
use crate::method::ByClass;
use crate::scores::by_class::{Clusters, Offsets, Strata};

/// How hard fit points are to a machine that had not seen them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difficulty {
    /// Of every fit point's own label; none where there are too few to judge each other.
    pub(crate) probabilities: Vec<f32>,
    /// Classes that are about as hard.
    pub(crate) clusters: Clusters,
}

impl Difficulty {
    /// `probabilities` are those of fit points' own `labels`, by machines that had not seen the point.
    pub fn new(probabilities: Vec<f32>, labels: &[u32], classes: usize) -> Self {
        let unlikely = sorted(&probabilities);
        let scores: Vec<f64> = probabilities.iter().map(|&own| hardness(&unlikely, f64::from(own))).collect();
        let clusters = Clusters::new(&scores, labels, classes);
        Self { probabilities, clusters }
    }

    /// Classes that are about as hard.
    pub fn clusters(&self) -> &Clusters {
        &self.clusters
    }
}

/// Ascending probabilities.
fn sorted(probabilities: &[f32]) -> Vec<f64> {
    let mut sorted: Vec<f64> = probabilities.iter().map(|&own| f64::from(own)).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// h of a probability among those of fit points, ascending.
fn hardness(sorted: &[f64], probability: f64) -> f64 {
    let at_most = sorted.partition_point(|&other| other <= probability).max(1);
    -(at_most as f64 / (sorted.len() + 1) as f64).ln()
}

/// What is taken off the scores of classes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fairness {
    /// Probabilities of the fit points, ascending.
    fit: Vec<f64>,
    offsets: Offsets,
    /// What an offset weighs beside the logarithm of a score.
    weight: f64,
    /// `exp(offset)` of every class as it is.
    factors: Vec<f64>,
}

impl Fairness {
    fn new(difficulty: &Difficulty, own: &[f32], labels: &[u32], classes: usize, rule: Rule) -> Self {
        let fit = sorted(&difficulty.probabilities);
        let average = fit.iter().map(|&own| hardness(&fit, own)).sum::<f64>() / fit.len().max(1) as f64;
        let scores: Vec<f64> = own.iter().map(|&own| hardness(&fit, f64::from(own))).collect();
        let offsets = Offsets::new(&scores, labels, classes, average);
        let weight = rule.offset_weight();
        let factors = (0..classes).map(|class| (weight * offsets.of(class)).exp()).collect();
        Self { fit, offsets, weight, factors }
    }

    /// What a class's scores, negative products of counts, are multiplied with: the offset of their logarithm.
    pub(super) fn factor(&self, class: u32) -> f64 {
        self.factors[class as usize]
    }

    /// The same once a query with this probability has joined the class.
    pub(super) fn joined(&self, class: u32, probability: f64) -> f64 {
        (self.weight * self.offsets.joined(class as usize, hardness(&self.fit, probability))).exp()
    }
}

/// Who is compared with whom, and by what.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) strata: Option<Strata>,
    pub(super) fairness: Option<Fairness>,
}

impl Comparison {
    /// Of a bag with these labels and probabilities of them. Without `difficulty` all classes are about as hard.
    pub(super) fn new(
        by_class: ByClass,
        difficulty: Option<&Difficulty>,
        (own, labels): (Option<&[f32]>, &[u32]),
        classes: usize,
        rule: Option<Rule>,
    ) -> Self {
        let clusters = difficulty.map(|difficulty| difficulty.clusters.clone()).unwrap_or_default();
        let strata = Strata::new(by_class, &clusters, classes, labels);
        let fairness = match (by_class, difficulty, own, rule) {
            (ByClass::Balanced, Some(difficulty), Some(own), Some(rule)) => {
                Some(Fairness::new(difficulty, own, labels, classes, rule))
            }
            _ => None,
        };
        Self { strata, fairness }
    }

    /// Whether all points are compared, as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.strata.is_none() && self.fairness.is_none()
    }

    /// Points of one kind are alike where their scores are: their stratum, or the class whose offset they have.
    pub(super) fn kind(&self, label: u32) -> u32 {
        match (&self.strata, &self.fairness) {
            (Some(strata), _) => strata.of(label),
            (None, Some(_)) => label,
            (None, None) => 0,
        }
    }

    /// The stratum of a label.
    pub(super) fn stratum(&self, label: u32) -> usize {
        self.strata.as_ref().map_or(0, |strata| strata.of(label) as usize)
    }

    /// How many kinds there may be.
    pub(super) fn kinds(&self) -> usize {
        self.fairness.as_ref().map_or_else(|| self.strata(), |fairness| fairness.factors.len())
    }

    /// How many strata there are.
    pub(super) fn strata(&self) -> usize {
        self.strata.as_ref().map_or(1, Strata::len)
    }

    /// What the score of a point that carries `label` is multiplied with.
    pub(super) fn factor(&self, label: u32) -> f64 {
        self.fairness.as_ref().map_or(1.0, |fairness| fairness.factor(label))
    }

    /// A count among those that are compared, on the scale of all points and the query.
    pub(super) fn scaled(&self, label: u32, count: u32) -> u32 {
        self.strata.as_ref().map_or(count, |strata| strata.scaled(label as usize, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardness_is_the_logarithm_of_a_level() {
        let fit = sorted(&[0.9, 0.1, 0.5, 0.5]);
        // Of four fit points 4, 3, 1 and 0 have at most so much; none counts as one.
        for (probability, expected) in [(1.0, 4.0), (0.5, 3.0), (0.2, 1.0), (0.0, 1.0)] {
            assert!((hardness(&fit, probability) + (expected / 5.0f64).ln()).abs() < 1e-15);
        }
        assert_eq!(hardness(&[], 0.3), 0.0);
    }

    #[test]
    fn a_class_that_is_hard_is_let_off() {
        let difficulty = Difficulty::new(vec![0.8, 0.2, 0.5, 0.4], &[0, 1, 0, 1], 2);
        let own = [0.9f32, 0.7, 0.1];
        let of = |rule| Fairness::new(&difficulty, &own, &[0, 0, 1], 3, rule);
        let (fuse, single) = (of(Rule::Fuse), of(Rule::Joint { mix: 0.0 }));
        let h = |count: f64| -(count / 5.0).ln();
        let average = (h(4.0) + h(1.0) + h(3.0) + h(2.0)) / 4.0;
        let hard = (h(1.0) - average) / 4.0;
        assert!((single.factor(1).ln() - 0.4 * hard).abs() < 1e-14);
        assert!((fuse.factor(1).ln() - 5.0 * hard).abs() < 1e-14);
        assert_eq!(fuse.factor(2), 1.0);
        let easy = (h(4.0) + h(3.0) + h(3.0) - 3.0 * average) / 6.0;
        assert!((single.joined(0, 0.5).ln() - 0.4 * easy).abs() < 1e-14);
    }
}
