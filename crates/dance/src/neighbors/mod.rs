//! Exact nearest neighbors in mapped space (the paper, §3.1: `N_k(Z, Z̃)`).
//!
//! A [device](crate::device) names candidates: everything that can be among the k nearest given the rounding of its
//! arithmetic. Only those few distances are computed from the differences in f64, by [one routine](Index), and they decide.
//! So duplicates of a point tie exactly, a point is at distance 0 of its copies, and neither tiles, nor the number of
//! threads or queries, nor the device can change a neighbor. Ties go to the smaller key where the points have keys, else to
//! the lower index.
//!
//! [`Index::search_both_ways`] asks the other way round in the same pass: which points have the query within their own reach?
//!
//! Cost: `2·n·d` flops per query on the device, a few hundred distances on the host. Memory: the points twice, for the device
//! and for the host.
//!
//! ```
//! use dance::{Context, Matrix, device::Cpu, neighbors::Index};
//! let context = Context::new(1)?;
//! let index = Index::open(&Cpu, Matrix::new(vec![0.0, 1.0, 3.0], 3, 1)?, &context)?;
//! let neighbors = index.search(&Matrix::new(vec![0.9], 1, 1)?, 2, &context)?;
//! assert_eq!(neighbors.ids(0), [1, 0]);
//! # Ok::<(), dance::Error>(())
//! ```

mod distance;
mod index;
mod list;

pub use distance::squared_distance;
pub use index::Index;
pub use list::{Neighbors, Reached};
