//! The methods that DANCE is compared with; DANCE itself is [`Predictor`](super::Predictor).

pub mod adapter;
pub mod class_wise;
pub mod clustered;
pub mod conf_ot;
pub mod fca;
mod k_means;
pub mod ncp;
pub mod pas;
pub mod rc3p;
