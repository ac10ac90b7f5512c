//! Arithmetic that all modules use: matrices, linear algebra, packed products, lists of lists and random numbers.

pub(crate) mod linalg;
pub(crate) mod matrix;
pub(crate) mod packed;
pub mod random;

pub use matrix::{Matrix, Rows, squared_distance};
pub(crate) use matrix::{argmax, counts_of};
