//! Evaluation of prediction sets and class probabilities: metrics, the range of coverage that chance explains, and
//! coverage within groups of points.

mod band;
pub mod breakdown;
pub mod metrics;
mod probabilities;

pub use band::{coverage_at_most, coverage_interval};
pub use probabilities::ProbabilityMetrics;
