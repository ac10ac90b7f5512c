//! Exact nearest neighbors among points mapped by the root of the learned metric (the paper, §3.1: `N_k(Z, Z̃)`).
//!
//! A [device](crate::device) returns candidates: all points that can be among the k nearest within the rounding error
//! of its arithmetic. [`squared_distance`] then computes the candidates' distances in f64, which select the neighbors.
//! So duplicates of a point tie exactly, a point has distance 0 to its copies, and no neighbor depends on tiles,
//! threads, the number of queries or the device. Ties go to the smaller key if the points have keys, then to the lower
//! index.
//!
//! [`Index::search_both_ways`] also finds reverse neighbors in the same pass: the points that have the query within
//! their reach, which is a squared distance per point.
//!
//! Cost, for n points with d dimensions: `2·n·d` flops per query on the device, and a few hundred distances on the
//! host. Memory: the points twice, on the device and on the host.
//!
//! ```
//! use dance::{Context, Matrix, device::Cpu, neighbors::Index};
//! let context = Context::new(1)?;
//! let index = Index::open(&Cpu, Matrix::new(vec![0.0, 1.0, 3.0], 3, 1)?, &context)?;
//! let neighbors = index.search(&Matrix::new(vec![0.9], 1, 1)?, 2, &context)?;
//! assert_eq!(neighbors.ids(0), [1, 0]);
//! # Ok::<(), dance::Error>(())
//! ```

mod index;
mod list;

pub use index::{Index, squared_distance};
pub use list::{Neighbors, ReverseNeighbors};
