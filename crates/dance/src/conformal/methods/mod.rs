//! The methods that DANCE is compared with; DANCE itself is [`Predictor`](super::Predictor).

pub mod adapter;
pub mod conf_ot;
pub mod ncp;
