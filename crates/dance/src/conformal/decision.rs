//! The decision at one error level.

use serde::Serialize;

use super::mix::Trial;
use crate::scores::counts::{Counts, Cut, LabelCounts};
use crate::scores::threshold::{Threshold, smallest_alpha, too_few};

/// How labels are let into sets at one α.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// α.
    pub alpha: f64,
    /// Share of α that goes to the contrastive score; `None` when scores are fused.
    pub mix: Option<f64>,
    /// Of the rank and the contrastive score, where a label must pass both. In exact mode they are those of the calibration
    /// points alone; the query moves them a little, and p-values decide.
    pub thresholds: Option<[Threshold; 2]>,
    /// The grid the mix was selected from; empty when it was fixed.
    pub trials: Vec<Trial>,
    /// Calibration points behind the p-values.
    #[serde(rename = "points")] // its name in reports
    pub calibration_points: usize,
    /// What of α is spent on labels that nobody has; `None` where sets do not hold "none of these".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen_alpha: Option<f64>,
    /// The least counts that pass.
    #[serde(skip)]
    pub cut: Cut,
}

impl Decision {
    /// The p-value of a label by what decides: it is in the set if and only if this exceeds α. Where each of two scores has its
    /// own share of α, that is the smaller of the two p-values, each divided by its share.
    pub fn p_value(&self, all: &LabelCounts, counts: Counts) -> f64 {
        match (self.cut, self.mix) {
            (Cut::Both { .. }, Some(mix)) => {
                let [rank, contrast] = [counts.rank, counts.contrast].map(|count| all.p_value(count));
                (rank / (1.0 - mix)).min(contrast / mix).min(1.0)
            }
            _ => all.p_value(counts.combined),
        }
    }

    /// The largest of the p-values of a query's labels: small where the query is unlike anything that any label has.
    pub fn largest_p_value(&self, all: &LabelCounts, query: usize, classes: usize) -> f64 {
        let (labels, counts, rest) = all.row(query);
        let rest = (labels.len() < classes).then_some(rest);
        counts.iter().copied().chain(rest).map(|counts| self.p_value(all, counts)).fold(0.0, f64::max)
    }

    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        match &self.thresholds {
            Some([rank, contrast]) => {
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

    #[test]
    fn the_largest_p_value_is_of_what_decides() {
        let counts = |rank, contrast, combined| Counts { rank, contrast, combined };
        let mut all = LabelCounts::new(9);
        all.push([(1, counts(5, 2, 7)), (3, counts(2, 9, 1))], counts(1, 1, 1));
        all.push([(0, counts(1, 1, 1))], counts(4, 4, 4));
        let decision = |cut, mix| Decision {
            unseen_alpha: None,
            alpha: 0.1,
            mix,
            thresholds: None,
            trials: Vec::new(),
            calibration_points: 9,
            cut,
        };
        let one = decision(Cut::One(2), None);
        assert_eq!([0, 1].map(|query| one.largest_p_value(&all, query, 4)), [0.7, 0.4]);
        // The label that is listed is the only one there is.
        assert_eq!(one.largest_p_value(&all, 1, 1), 0.1);
        // Of 0.5/0.75 and 0.2/0.25, of 0.2/0.75 and 0.9/0.25, of 0.1/0.75 and 0.1/0.25: the smaller, then the largest.
        let both = decision(Cut::Both { rank: 1, contrast: 1 }, Some(0.25));
        assert_eq!(both.largest_p_value(&all, 0, 4), 0.5 / 0.75);
        // All of alpha for one score: the other has no say.
        assert_eq!(decision(both.cut, Some(0.0)).largest_p_value(&all, 0, 4), 0.5);
    }
}
