//! Streams of new points: a test whether too many points are novel, test martingales for exchangeability, and adaptive
//! error levels.

mod adaptive;
mod martingale;
mod novelty;

pub use adaptive::Adaptive;
pub(crate) use martingale::{Bets, Martingale};
pub use novelty::flagged_beyond_chance;
