//! Optional members of JSON requests.

use dance::data::PointShape;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error};

use crate::points::{NumbersSeed, Row, Shape};

/// Reads a member that may be left out, but not be null.
pub(crate) fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads a place, from 0, that may be left out but not be null. Some programs write 7 as 7.0.
pub(crate) fn place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let whole = number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && (0.0..1e15).contains(value));
    let found = number.as_u64().or(whole.map(|value| value as u64));
    let found = found.and_then(|value| usize::try_from(value).ok());
    found.map(Some).ok_or_else(|| D::Error::custom(format!("`point` {number}: a place is a whole number, from 0")))
}

/// An embedding of any length, which is checked against the model later.
pub(crate) struct Numbers(pub(crate) Row);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // No encoder has more dimensions. Further numbers are counted and dropped.
        let most = Shape { point: PointShape { dimensions: 1 << 16, directed: false }, most: 1 };
        NumbersSeed(most).deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_may_be_written_with_a_decimal_point() {
        let place = |text: &str| place(&mut serde_json::Deserializer::from_str(text)).ok().flatten();
        assert_eq!(["3", "3.0", "0"].map(place), [Some(3), Some(3), Some(0)]);
        assert_eq!(["3.5", "-1", "-1.0", "1e30", "null", "\"3\""].map(place), [None; 6]);
    }
}
