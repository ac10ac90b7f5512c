//! Exact nearest neighbors among points mapped by the root of the learned metric (the paper, §3.1).
//!
//! A [device](crate::device) returns candidates: all points that can be among the k nearest within the rounding error
//! of its arithmetic. [`squared_distance`] then computes the candidates' distances in f64, and these select the
//! neighbors. So duplicates of a point tie exactly, and a point has distance 0 to its copies. No neighbor depends on
//! tiles, threads, the number of queries or the device. Of points at the same distance, the point with the lower index
//! comes first. If the points have *keys*, the point with the smaller key comes first instead.
//!
//! [`Index::search_both_ways`] also finds reverse neighbors in the same pass. Every point can have a *reach*, a squared
//! distance that the caller sets. The reverse neighbors of a query are the points whose squared distance to the query
//! is at most their reach.
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

pub use crate::numeric::squared_distance;
pub(crate) use index::ReverseNeighbors;
pub use index::{Index, Neighbors};
