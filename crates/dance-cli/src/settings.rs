//! Options of the method that `fit` and `recalibrate` share.

use clap::{Args, ValueEnum};
use dance::methods::dance::{CalibrationMode, DanceConfig};
use dance::mix::Mix;

use crate::parse;

/// Where neighbors come from, and so which guarantee holds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Mode {
    /// Among the calibration points themselves: smaller sets, a heuristic
    Reuse,
    /// Among the points that fitted the kernel: coverage is guaranteed
    Disjoint,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Prediction sets")]
pub(crate) struct Method {
    /// Where neighbors come from [default: reuse]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) calibration_mode: Option<Mode>,
    /// Neighbors the rank score looks at [default: 100]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) rank_neighbors: Option<usize>,
    /// Neighbors the contrastive score looks at [default: 50]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) contrast_neighbors: Option<usize>,
    /// Temperature of the contrastive score [default: 0.01]
    #[arg(long, value_name = "X", value_parser = parse::positive)]
    pub(crate) temperature: Option<f64>,
    /// Share of alpha for the contrastive score: `auto`, or 0 (k-NN set) to 1 (CLR set) [default: auto]
    #[arg(long, value_name = "auto|X", value_parser = parse::mix)]
    pub(crate) mix: Option<Mix>,
}

impl Method {
    /// `config` with what was given.
    pub(crate) fn apply(&self, config: DanceConfig, seed: u64) -> DanceConfig {
        DanceConfig {
            calibration: match self.calibration_mode {
                None => config.calibration,
                Some(Mode::Reuse) => CalibrationMode::Reuse,
                Some(Mode::Disjoint) => CalibrationMode::Disjoint,
            },
            rank_neighbors: self.rank_neighbors.unwrap_or(config.rank_neighbors),
            contrast_neighbors: self.contrast_neighbors.unwrap_or(config.contrast_neighbors),
            temperature: self.temperature.unwrap_or(config.temperature),
            mix: self.mix.unwrap_or(config.mix),
            seed,
            ..config
        }
    }
}
