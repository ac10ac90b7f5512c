//! Arithmetic of all modules: matrices, linear algebra, packed products, lists of lists and random numbers.

mod labels;
pub(crate) mod linalg;
pub(crate) mod matrix;
pub(crate) mod number;
pub(crate) mod packed;
pub mod random;

pub(crate) use labels::{argmax, counts_of};
pub use matrix::{Matrix, Ragged, Rows};
