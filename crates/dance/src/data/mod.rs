//! Input data. [`io`] reads a file of embeddings into a [`Table`]. [`Table::into_dataset`] checks the table and turns
//! labels into class ids. The result is a [`Dataset`], which later modules use without further checks.
//! [`io::read_sample`] draws rows from files larger than memory, [`split`] divides points into parts, and
//! [`Normalizer`] scales them.
//!
//! ```
//! use dance::{Matrix, data::{RawLabels, Table, split}};
//! let mut table = Table::new("four points", Matrix::new(vec![0.1, 0.2, 0.8, 0.9], 4, 1)?)?;
//! table.labels = Some(RawLabels::Names(["cat", "cat", "dog", "dog"].map(String::from).to_vec()));
//! let data = table.into_dataset()?;
//! let parts = split::stratified(&data.labels, &[0.5, 0.5], 0)?;
//! assert_eq!(data.select(&parts[0]).labels, [0, 1]);
//! # Ok::<(), dance::Error>(())
//! ```

#[cfg(feature = "arrow")]
pub mod arrow;
mod dataset;
pub mod io;
mod labels;
mod point;
mod sample;
pub mod split;
mod table;
mod table_labels;

pub use dataset::{Dataset, EncoderIdentity, Names, Normalize, Normalizer, PICKED, RANDOM, Source};
pub use labels::{Kind, RawLabels, Value, class_ids};
pub use point::PointShape;
pub use table::Table;

/// For tests: asserts that an operation failed with an error message that contains every text of `parts`.
#[cfg(test)]
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: crate::Result<T>, parts: &[&str]) {
    let message = result.expect_err("should have been refused").to_string();
    for part in parts {
        assert!(message.contains(part), "`{message}` does not contain `{part}`");
    }
}
