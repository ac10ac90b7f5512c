//! The decision at one error level: the counts that let a label into a set.

use serde::Serialize;

use super::mix::Trial;
use crate::scores::counts::{Counts, Cut, LabelCounts};
use crate::scores::threshold::{Threshold, smallest_alpha, too_few};

/// The rule by which labels enter sets at one α.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The error level α.
    pub alpha: f64,
    /// The number of calibration points behind the p-values.
    #[serde(rename = "points")] // its name in reports
    pub calibration_points: usize,
    /// The shares of α in the method dance; `None` if one score decides.
    #[serde(flatten)]
    pub shares: Option<Shares>,
    /// The part of α that is spent on new labels; `None` if sets cannot hold a new label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_label_alpha: Option<f64>,
    /// The smallest counts that pass.
    #[serde(skip)]
    pub cut: Cut,
}

/// The division of α between the rank and the contrastive score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// The share of α that the contrastive score gets.
    pub mix: f64,
    /// The thresholds of the rank and of the contrastive score.
    pub thresholds: [Threshold; 2],
    /// The grid that the mix was selected from; empty if the mix was fixed.
    pub trials: Vec<Trial>,
}

impl Decision {
    /// Returns the p-value of a label, which is in the set if and only if the p-value exceeds α. If two scores
    /// decide, it is the smaller of their p-values, each divided by its share of α.
    pub fn p_value(&self, all: &LabelCounts, counts: Counts) -> f64 {
        match counts {
            Counts::One(count) => all.p_value(count),
            Counts::Both { rank, contrast } => {
                let mix = self.shares.as_ref().map_or(0.5, |shares| shares.mix);
                let [rank, contrast] = [rank, contrast].map(|count| all.p_value(count));
                (rank / (1.0 - mix)).min(contrast / mix).min(1.0)
            }
        }
    }

    /// Returns the largest p-value among a query's labels. It is small if the query is unlike the points of every
    /// label.
    pub fn largest_p_value(&self, all: &LabelCounts, query: usize, classes: usize) -> f64 {
        let (labels, counts, rest) = all.row(query);
        let rest = (labels.len() < classes).then_some(rest);
        counts.iter().copied().chain(rest).map(|counts| self.p_value(all, counts)).fold(0.0, f64::max)
    }

    /// Returns warnings about α and the number of calibration points.
    pub fn warnings(&self) -> Vec<String> {
        match &self.shares {
            Some(Shares { thresholds: [rank, contrast], .. }) => {
                let each = [("rank", rank), ("contrastive", contrast)];
                each.iter().filter_map(|(name, t)| Some(format!("{name} score: {}", t.warning()?))).collect()
            }
            None if self.alpha < smallest_alpha(self.calibration_points) => {
                vec![too_few(self.calibration_points, self.alpha)]
            }
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(cut: Cut, mix: Option<f64>) -> Decision {
        let threshold = Threshold { alpha: 0.1, value: 1.0, index: 9, calibration_points: 9 };
        let shares = |mix| Shares { mix, thresholds: [threshold; 2], trials: Vec::new() };
        Decision { alpha: 0.1, calibration_points: 9, shares: mix.map(shares), new_label_alpha: None, cut }
    }

    #[test]
    fn the_p_value_is_that_of_the_score_that_decides() {
        let mut one = LabelCounts::new(9);
        one.push([(1, Counts::One(7)), (3, Counts::One(1))], Counts::One(1));
        one.push([(0, Counts::One(1))], Counts::One(4));
        let single = decision(Cut::One(2), None);
        assert_eq!([0, 1].map(|query| single.largest_p_value(&one, query, 4)), [0.7, 0.4]);
        // The label that is listed is the only one there is.
        assert_eq!(single.largest_p_value(&one, 1, 1), 0.1);
        // 0.5/0.75 and 0.2/0.25, 0.2/0.75 and 0.9/0.25, 0.1/0.75 and 0.1/0.25: the smaller of each, then the largest.
        let counts = |rank, contrast| Counts::Both { rank, contrast };
        let mut both = LabelCounts::new(9);
        both.push([(1, counts(5, 2)), (3, counts(2, 9))], counts(1, 1));
        let cut = Cut::Both { rank: 1, contrast: 1 };
        assert_eq!(decision(cut, Some(0.25)).largest_p_value(&both, 0, 4), 0.5 / 0.75);
        // The rank score has all of α: the contrastive score rules nothing out.
        assert_eq!(decision(cut, Some(0.0)).largest_p_value(&both, 0, 4), 0.5);
    }
}
