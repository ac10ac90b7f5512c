//! How good prediction sets and probabilities are: metrics, bands of chance, and breakdowns.

mod band;
pub mod breakdown;
pub mod metrics;
mod probabilities;

pub use band::CoverageBand;
pub use probabilities::ProbabilityMetrics;
