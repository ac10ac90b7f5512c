//! Arithmetic that every room uses: matrices, linear algebra, packed products and random numbers.

pub(crate) mod linalg;
pub(crate) mod matrix;
pub(crate) mod number;
pub(crate) mod packed;
pub(crate) mod ragged;
pub mod random;

pub use matrix::{Matrix, Rows};
pub use ragged::Ragged;
