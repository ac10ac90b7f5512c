//! Evaluation of prediction sets and probabilities: metrics, chance bands of the coverage, and breakdowns by group.

mod band;
pub mod breakdown;
pub mod metrics;
mod probabilities;

pub use band::{coverage_at_most, coverage_interval};
pub use probabilities::ProbabilityMetrics;
