//! Requirements of a model on a point, and the problems of rows that do not meet them.

use std::fmt;

/// The requirements of a model on a point: its dimensions, and perhaps a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointShape {
    /// The number of dimensions.
    pub dimensions: usize,
    /// True if a vector of zeros is invalid because it has no direction.
    pub directed: bool,
}

/// The problem of a row that does not meet the requirements on a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PointProblem {
    /// The row is null.
    #[cfg(feature = "arrow")]
    Null,
    /// One of the row's numbers is null.
    #[cfg(feature = "arrow")]
    HoldsNull,
    /// The row has too many or too few numbers.
    Width {
        /// The number of numbers in the row.
        found: usize,
        /// The required number of numbers.
        wanted: usize,
    },
    /// A number is NaN, infinite, or too large for 32 bits.
    NotFinite {
        /// The index of the number in the row.
        column: usize,
        /// The number as a 32-bit float.
        value: f32,
    },
    /// All numbers are 0.
    Zero,
}

impl PointShape {
    /// Returns a message about the problem of a row, or `None` for a valid point. `length` is the full length of the
    /// row. The list `numbers` may hold only the row's first numbers, as many as the model has dimensions.
    pub fn problem(self, numbers: &[f32], length: usize) -> Option<String> {
        self.check(numbers, length).map(|problem| problem.to_string())
    }

    /// Returns the problem of a row of this full `length`, or `None` for a valid point. The list `numbers` may hold
    /// only the row's first numbers, as many as the model has dimensions.
    pub(crate) fn check(self, numbers: &[f32], length: usize) -> Option<PointProblem> {
        if length != self.dimensions {
            return Some(PointProblem::Width { found: length, wanted: self.dimensions });
        }
        if let Some(column) = numbers.iter().position(|number| !number.is_finite()) {
            return Some(PointProblem::NotFinite { column, value: numbers[column] });
        }
        (self.directed && numbers.iter().all(|&number| number == 0.0)).then_some(PointProblem::Zero)
    }
}

impl fmt::Display for PointProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "arrow")]
            Self::Null => f.write_str("its embedding is null"),
            #[cfg(feature = "arrow")]
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
