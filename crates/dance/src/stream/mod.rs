//! Streams of new points: novelty p-values, test martingales for exchangeability, and adaptive error levels.

mod adaptive;
mod martingale;
mod novelty;

pub use adaptive::Adaptive;
pub(crate) use martingale::{Bets, Martingale};
pub(crate) use novelty::Novelty;
pub use novelty::{NOVELTY_NEIGHBORS, flagged_beyond_chance};
