//! The types of labels and ids, and labels as files store them. A label that is a number in the file is a number in
//! every answer too.
//!
//! Labels are compared by their names, which are text, so that the integer 7 and the string `7` are one label. The type
//! only determines how an answer writes a name.
//!
//! ```
//! use dance::data::{Kind, Value};
//! assert_eq!(Kind::Integer.value("7"), Value::Integer(7));
//! assert_eq!(Kind::Text.value("7"), Value::Text("7"));
//! assert_eq!(Kind::Integer.of_all(&["7".into(), "cat".into()]), Kind::Text);
//! ```

use std::collections::{BTreeSet, HashMap};

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

/// A label or an id as the type that its file gives it: text, number or boolean.
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
    /// Writes the value as text. The text of a label is its name.
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
    /// Returns the value of this kind that `name` denotes. A name that denotes no such value is returned as text; for
    /// example, `007` is not how the integer 7 is written.
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

    /// Returns this kind if every name denotes a value of this kind, and [`Kind::Text`] otherwise. So all values of a
    /// column have one type.
    #[must_use]
    pub fn of_all(self, names: &[String]) -> Self {
        let is_text = |name: &String| matches!(self.value(name), Value::Text(_));
        if names.iter().any(is_text) { Self::Text } else { self }
    }

    /// Returns the kind as a plural for messages, such as `integers`.
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

/// Returns the decimal digits of a whole number, which are its name as a label. Returns `None` for other numbers.
/// Numbers beyond ±2⁵³ also give `None`, since larger floats are not exact integers.
pub(super) fn name_of_float(value: f64) -> Option<String> {
    const EXACT: f64 = (1u64 << 53) as f64;
    (value.trunc() == value && value.abs() <= EXACT).then(|| (value as i64).to_string())
}

/// Returns the class id of every class name: its index in `names`.
pub fn class_ids(names: &[String]) -> HashMap<&str, u32> {
    names.iter().map(String::as_str).zip(0..).collect()
}

/// The labels of a file, in the type in which the file stores them.
#[derive(Clone, Debug, PartialEq)]
pub enum RawLabels {
    /// Integers of any width.
    Integers(Vec<i64>),
    /// Whole numbers stored as floats; NaN means a row without a label.
    Floats(Vec<f64>),
    /// Booleans.
    Booleans(Vec<bool>),
    /// Strings; an empty string means a row without a label.
    Names(Vec<String>),
}

impl RawLabels {
    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Names(values) => values.len(),
        }
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the labels.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integers(_) => Kind::Integer,
            Self::Floats(_) => Kind::Float,
            Self::Booleans(_) => Kind::Boolean,
            Self::Names(_) => Kind::Text,
        }
    }

    /// Returns the name of every label, which is its text; the name is empty for a row without a label. If a float is
    /// not a whole number, `Err` holds the row and the value of the first such float.
    pub(super) fn into_names(self) -> Result<Vec<String>, (usize, f64)> {
        match self {
            Self::Integers(values) => Ok(values.iter().map(ToString::to_string).collect()),
            Self::Booleans(values) => Ok(values.into_iter().map(name_of_boolean).collect()),
            Self::Names(names) => Ok(names),
            Self::Floats(values) => {
                let name = |(row, &value): (usize, &f64)| match name_of_float(value) {
                    Some(name) => Ok(name),
                    None if value.is_nan() => Ok(String::new()),
                    None => Err((row, value)),
                };
                values.iter().enumerate().map(name).collect()
            }
        }
    }

    /// Returns the labels at the indices `rows`, in this order.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        fn at<T: Clone>(values: &[T], rows: &[usize]) -> Vec<T> {
            rows.iter().map(|&row| values[row].clone()).collect()
        }
        match self {
            Self::Integers(values) => Self::Integers(at(values, rows)),
            Self::Floats(values) => Self::Floats(at(values, rows)),
            Self::Booleans(values) => Self::Booleans(at(values, rows)),
            Self::Names(values) => Self::Names(at(values, rows)),
        }
    }

    /// Replaces the label at index `place` of this list by the label at index `row` of `others`. Both lists are of one
    /// type.
    pub(super) fn set(&mut self, place: usize, others: &Self, row: usize) {
        match (self, others) {
            (Self::Integers(own), Self::Integers(others)) => own[place] = others[row],
            (Self::Floats(own), Self::Floats(others)) => own[place] = others[row],
            (Self::Booleans(own), Self::Booleans(others)) => own[place] = others[row],
            (Self::Names(own), Self::Names(others)) => own[place].clone_from(&others[row]),
            _ => {}
        }
    }

    /// Appends the labels `others`, which are of the type of this list.
    pub(super) fn extend(&mut self, others: Self) {
        match (self, others) {
            (Self::Integers(own), Self::Integers(others)) => own.extend(others),
            (Self::Floats(own), Self::Floats(others)) => own.extend(others),
            (Self::Booleans(own), Self::Booleans(others)) => own.extend(others),
            (Self::Names(own), Self::Names(others)) => own.extend(others),
            _ => {}
        }
    }

    /// Returns the indices, ascending, of all rows that have this `label` or no label.
    pub(super) fn rows_of(&self, label: &str) -> Vec<usize> {
        let rows = 0..self.len();
        let label = label.trim();
        match self {
            Self::Integers(values) => match label.parse::<i64>() {
                Ok(label) => rows.filter(|&row| values[row] == label).collect(),
                Err(_) => Vec::new(),
            },
            Self::Floats(values) => {
                let label = label.parse::<f64>().unwrap_or(f64::NAN);
                rows.filter(|&row| values[row].is_nan() || values[row] == label).collect()
            }
            Self::Booleans(values) => {
                rows.filter(|&row| name_of_boolean(values[row]).eq_ignore_ascii_case(label)).collect()
            }
            Self::Names(values) => rows.filter(|&row| values[row].is_empty() || values[row] == label).collect(),
        }
    }
}

/// Names that often mean "no label". The reader accepts them as classes only if the user confirms it.
const DOUBTFUL: [&str; 3] = ["-1", "nan", "NaN"];

/// Returns one of `names` that may mean "no label", or `None`. The name `nan` is always doubtful. The name `-1` is
/// doubtful only beside two other names and no other negative number, since a data set needs two classes.
pub(super) fn doubtful<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let occurring: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let name = DOUBTFUL.into_iter().find(|name| occurring.contains(name))?;
    let negative = |name: &&&str| name.parse::<f64>().is_ok_and(|number| number < 0.0);
    let is_class = name == "-1" && (occurring.len() < 3 || occurring.iter().filter(negative).count() > 1);
    (!is_class).then_some(name)
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

    #[test]
    fn minus_one_is_a_class_only_if_it_must_be_one() {
        let found = |names: &[&'static str]| doubtful(names.iter().copied());
        assert_eq!(found(&["0", "1", "-1", "0"]), Some("-1"));
        assert_eq!(found(&["1", "-1"]), None, "two classes, -1 and 1");
        assert_eq!(found(&["-2", "-1", "0"]), None, "negative numbers are classes here");
        assert_eq!(found(&["cat", "dog", "nan"]), Some("nan"));
        assert_eq!(found(&["cat", "dog", ""]), None, "an empty name is a row without a label");
    }

    #[test]
    fn rows_without_a_label() {
        assert_eq!(RawLabels::Integers(vec![3, -1, 0]).rows_of("-1"), [1]);
        assert_eq!(RawLabels::Floats(vec![3.0, f64::NAN, -1.0]).rows_of("nan"), [1]);
        assert_eq!(RawLabels::Floats(vec![3.0, f64::NAN, -1.0]).rows_of("-1"), [1, 2]);
        assert_eq!(RawLabels::Names(vec!["a".into(), String::new(), "?".into()]).rows_of("?"), [1, 2]);
        assert_eq!(RawLabels::Names(vec!["a".into(), String::new()]).rows_of(""), [1]);
        assert_eq!(RawLabels::Integers(vec![3]).rows_of(""), Vec::<usize>::new());
    }
}
