//! The decision at one error level.

use serde::Serialize;

use super::counts::Cut;
use super::mix::Trial;
use super::threshold::{Threshold, smallest_alpha, too_few};

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
    /// The least counts that pass.
    #[serde(skip)]
    pub cut: Cut,
}

impl Decision {
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
