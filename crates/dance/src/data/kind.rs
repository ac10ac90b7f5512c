//! Types of labels and ids, so that a number in a file is a number in every answer too.
//!
//! Labels are compared by their names, which are text, so that the integer 7 and the string `7` are one label. The type
//! only determines how a name is written in an answer.
//!
//! ```
//! use dance::data::{Kind, Value};
//! assert_eq!(Kind::Integer.value("7"), Value::Integer(7));
//! assert_eq!(Kind::Text.value("7"), Value::Text("7"));
//! assert_eq!(Kind::Integer.of_all(&["7".into(), "cat".into()]), Kind::Text);
//! ```

use serde::{Deserialize, Serialize};

/// The type of labels or ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Strings.
    #[default]
    Text,
    /// Integers. The name of an integer is its decimal digits.
    Integer,
    /// Whole numbers stored as floats. The name of 7.0 is `7`.
    Float,
    /// Booleans. Their names are `False` and `True`.
    Boolean,
}

/// A label or an id in its own type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Boolean(bool),
}

impl std::fmt::Display for Value<'_> {
    /// Writes the value as text; for labels this is the name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Boolean(value) => f.write_str(&name_of_boolean(value)),
        }
    }
}

impl Kind {
    /// Returns the value that a name denotes; the text itself if the name denotes no value of this kind.
    pub fn value(self, name: &str) -> Value<'_> {
        let whole = || name.parse::<i64>().ok().filter(|number| number.to_string() == name);
        match (self, name) {
            (Self::Integer, _) => whole().map_or(Value::Text(name), Value::Integer),
            (Self::Float, _) => whole().map_or(Value::Text(name), |number| Value::Float(number as f64)),
            (Self::Boolean, "True") => Value::Boolean(true),
            (Self::Boolean, "False") => Value::Boolean(false),
            (Self::Boolean | Self::Text, _) => Value::Text(name),
        }
    }

    /// Returns this kind if every name denotes a value of it, otherwise text, since a column has one type.
    #[must_use]
    pub fn of_all(self, names: &[String]) -> Self {
        let is_text = |name: &String| matches!(self.value(name), Value::Text(_));
        if names.iter().any(is_text) { Self::Text } else { self }
    }

    /// Returns the plural for messages, such as `integers`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integers",
            Self::Float => "floats",
            Self::Boolean => "booleans",
        }
    }
}

/// Returns the name of a boolean: `True` or `False`.
pub(super) fn name_of_boolean(value: bool) -> String {
    if value { "True" } else { "False" }.into()
}

/// Returns the decimal digits of a whole number, which are its name as a label. Returns `None` for other numbers, and
/// beyond ±2⁵³, since larger floats are not exact integers.
pub(super) fn name_of_float(value: f64) -> Option<String> {
    const EXACT: f64 = (1u64 << 53) as f64;
    (value.trunc() == value && value.abs() <= EXACT).then(|| (value as i64).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_values_of_their_kind() {
        assert_eq!(Kind::Float.value("-3"), Value::Float(-3.0));
        assert_eq!(Kind::Boolean.value("True"), Value::Boolean(true));
        for (kind, name) in [(Kind::Integer, "007"), (Kind::Integer, "1.0"), (Kind::Boolean, "true")] {
            assert_eq!(kind.value(name), Value::Text(name), "a name that would be written otherwise stays text");
        }
        assert_eq!(
            [2.0, -0.0, 0.5, f64::NAN, 1e300].map(name_of_float),
            [Some("2".into()), Some("0".into()), None, None, None]
        );
    }
}
