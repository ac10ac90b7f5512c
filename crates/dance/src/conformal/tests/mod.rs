//! The conformal core against a brute-force reference, against the theory, and against bad input.

mod agreement;
mod bad_input;
mod calibrated;
mod class_coverage;
mod coverage;
mod full;
mod invariance;
mod new_labels;
mod novelty;
mod reference;
