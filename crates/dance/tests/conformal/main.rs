//! The conformal core against a brute-force reference, against the theory, and against bad input.

#![allow(clippy::unwrap_used)] // a test may panic

mod agreement;
mod bad_input;
mod by_class;
mod calibrated;
mod class_coverage;
mod coverage;
mod exact;
mod invariance;
mod novelty;
mod reference;
mod unseen;
