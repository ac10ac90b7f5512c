//! Pictures: decoding ([`decode()`]), resizing as Pillow does (`resample`), cropping and normalisation ([`prepare()`]).

mod decode;
mod jpeg;
mod prepare;
mod resample;

pub use decode::{MOST_PIXELS, decode};
pub use prepare::prepare;
pub use resample::{Filter, resize};

/// A picture of 8 bits per channel: red, green, blue, row by row from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `height × width × 3` bytes.
    pub pixels: Vec<u8>,
}
