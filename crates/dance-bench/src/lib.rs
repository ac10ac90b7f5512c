//! Experiments with conformal prediction sets: methods × data sets × seeds × error levels ([`experiment`]), and the
//! tables and the page of their results ([`report`]). `dance bench` runs them, and the tables of `docs/results.md` come
//! from them.

pub mod baselines;
pub mod experiment;
pub mod report;
