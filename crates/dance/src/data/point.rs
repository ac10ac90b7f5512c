//! What a point must be, and what is wrong with a row that is none.

use std::fmt;

/// What a point must be for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointShape {
    /// Numbers of a point.
    pub dimensions: usize,
    /// Whether a vector of zeros is no point: it has no direction.
    pub directed: bool,
}

/// Why a row is no point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoPoint {
    /// There is nothing.
    Null,
    /// One of its numbers is missing.
    HoldsNull,
    /// Too many numbers, or too few.
    Width {
        /// How many it has.
        found: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// A number that is none, or is too large for 32 bits.
    NotFinite {
        /// Which.
        column: usize,
        /// As 32 bits hold it.
        value: f32,
    },
    /// Zeros only.
    Zero,
}

impl PointShape {
    /// What is wrong with these numbers, of which there are `length`; those beyond the dimensions need not be here.
    pub fn problem(self, numbers: &[f32], length: usize) -> Option<NoPoint> {
        if length != self.dimensions {
            return Some(NoPoint::Width { found: length, wanted: self.dimensions });
        }
        if let Some(column) = numbers.iter().position(|number| !number.is_finite()) {
            return Some(NoPoint::NotFinite { column, value: numbers[column] });
        }
        (self.directed && numbers.iter().all(|&number| number == 0.0)).then_some(NoPoint::Zero)
    }
}

impl fmt::Display for NoPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("its embedding is null"),
            Self::HoldsNull => f.write_str("its embedding holds a null; every entry is a number"),
            Self::Width { found, wanted } => {
                write!(f, "{found} numbers, but the model was fitted with {wanted} dimensions")
            }
            Self::NotFinite { column, value } => {
                write!(f, "number {column} is {value}; every number must be finite and fit 32 bits")
            }
            Self::Zero => f.write_str("all its numbers are 0, and a vector of zeros has no direction"),
        }
    }
}
