//! Methods: a score or two, and how they are calibrated.
//!
//! - [`dance`]: the rank and the contrastive score, intersected. With mix 0 it is the paper's k-NN set, with 1 its CLR set.

pub mod adapter;
pub mod conf_ot;
pub mod dance;
pub mod ncp;
