//! The conformal core against a brute-force reference, against the theory, and against bad input.

mod agreement;
mod bad_input;
mod coverage;
mod invariance;
mod reference;
