//! Experiments with conformal prediction sets: methods × data sets × seeds × error levels ([`experiment`]), and the tables and
//! the page made of their records ([`report`]). What the tables of `docs/results.md` are made with.

pub mod baselines;
pub mod experiment;
pub mod report;
