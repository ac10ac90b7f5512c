//! Tests of conformal prediction against a brute-force reference, against the theory, and with bad input.

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
