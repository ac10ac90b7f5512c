//! Points of JSON requests. An invalid row is set aside with its problem, and the others are read.

use std::fmt;

use dance::Matrix;
use dance::data::PointShape;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::names::is_id;
use crate::problem::{Problem, RowProblem};

/// The requirements on the points of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) point: PointShape,
    /// The most points of a request.
    pub(crate) most: usize,
}

/// The points of a request.
#[derive(Debug, Default)]
pub(crate) struct Points {
    /// The numbers of the valid rows.
    values: Vec<f32>,
    /// The row and the id of every valid row.
    pub(crate) valid: Vec<(usize, Option<Value>)>,
    pub(crate) problems: Vec<RowProblem>,
}

impl Points {
    /// Returns the number of rows, valid and invalid.
    pub(crate) fn rows(&self) -> usize {
        self.valid.len() + self.problems.len()
    }

    pub(crate) fn matrix(&mut self, dimensions: usize) -> Result<Matrix, Problem> {
        Matrix::new(std::mem::take(&mut self.values), self.valid.len(), dimensions).map_err(|_| Problem::internal())
    }

    /// Adds a row to the valid rows, or its problem to the problems.
    pub(crate) fn push(&mut self, row: Row, shape: Shape) {
        let number = self.rows();
        match row.check(shape) {
            Ok((values, id)) => {
                if self.values.is_empty() {
                    self.values = values;
                } else {
                    self.values.extend(values);
                }
                self.valid.push((number, id));
            }
            Err((detail, id)) => self.problems.push(RowProblem { row: number, id, detail }),
        }
    }
}

#[cfg(feature = "arrow")]
impl Points {
    /// Adds the rows of an Arrow column; `id` returns the id at a place of the column.
    pub(crate) fn extend(
        &mut self,
        found: dance::data::arrow::Points,
        id: impl Fn(usize) -> Result<Option<Value>, Problem>,
    ) -> Result<(), Problem> {
        let first = self.rows();
        self.values.extend(found.values);
        for row in found.good {
            self.valid.push((first + row, id(row)?));
        }
        for (row, problem) in found.refused {
            let detail = problem.to_string();
            self.problems.push(RowProblem { row: first + row, id: id(row)?, detail });
        }
        Ok(())
    }
}

/// A row of a request, before it is checked.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The numbers, at most as many as a point has.
    pub(crate) values: Vec<f32>,
    /// The number of numbers in the request; `None` without an embedding.
    pub(crate) length: Option<usize>,
    pub(crate) id: Option<Value>,
    /// The first problem.
    pub(crate) problem: Option<String>,
}

impl Row {
    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self { problem: Some(problem.into()), ..Self::default() }
    }

    /// Returns the numbers of a valid row and its id, or the problem and the id.
    #[allow(clippy::type_complexity)]
    pub(crate) fn check(self, shape: Shape) -> Result<(Vec<f32>, Option<Value>), (String, Option<Value>)> {
        let Self { values, length, id, problem } = self;
        if id.as_ref().is_some_and(|id| !is_id(id)) {
            return Err(("an id is a text or a whole number".into(), None));
        }
        if let Some(problem) = problem {
            return Err((problem, id));
        }
        match length {
            None => Err(("has no `embedding`".into(), id)),
            Some(length) => match shape.point.problem(&values, length) {
                Some(problem) => Err((problem.to_string(), id)),
                None => Ok((values, id)),
            },
        }
    }
}

/// Reads an array of points.
pub(crate) struct PointsSeed(pub(crate) Shape);

impl<'de> DeserializeSeed<'de> for PointsSeed {
    type Value = Points;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Points, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for PointsSeed {
    type Value = Points;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of points")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Points, A::Error> {
        let mut points = Points::default();
        while let Some(row) = rows.next_element_seed(RowSeed(self.0))? {
            if points.rows() == self.0.most {
                return Err(A::Error::custom(format!("{TOO_MANY} {}; send them in several requests", self.0.most)));
            }
            points.push(row, self.0);
        }
        Ok(points)
    }
}

/// The begin of the message that turns a problem into status 413.
pub(crate) const TOO_MANY: &str = "a request has too many points; the most is";

/// Reads one point: an array of numbers, or an object with `embedding` and perhaps `id`. Any other value is a row
/// with a problem.
#[derive(Clone, Copy)]
pub(crate) struct RowSeed(pub(crate) Shape);

impl<'de> DeserializeSeed<'de> for RowSeed {
    type Value = Row;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row, D::Error> {
        deserializer.deserialize_any(self)
    }
}

const NOT_A_POINT: &str = "must be {\"embedding\": [numbers], \"id\": …} or [numbers]";

impl<'de> Visitor<'de> for RowSeed {
    type Value = Row;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a point")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, numbers: A) -> Result<Row, A::Error> {
        NumbersSeed(self.0).visit_seq(numbers)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Row, A::Error> {
        let mut row = Row::default();
        while let Some(key) = entries.next_key::<String>()? {
            match key.as_str() {
                "embedding" => {
                    let numbers = entries.next_value_seed(NumbersSeed(self.0))?;
                    (row.values, row.length) = (numbers.values, numbers.length);
                    row.problem = row.problem.or(numbers.problem);
                }
                "id" => row.id = Some(entries.next_value()?),
                other => {
                    entries.next_value::<IgnoredAny>()?;
                    row.problem.get_or_insert_with(|| format!("`{other}` is not known; {NOT_A_POINT}"));
                }
            }
        }
        Ok(row)
    }

    fn visit_unit<E>(self) -> Result<Row, E> {
        Ok(Row::invalid(NOT_A_POINT))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Row, E> {
        Ok(Row::invalid(NOT_A_POINT))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Row, E> {
        Ok(Row::invalid(NOT_A_POINT))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Row, E> {
        Ok(Row::invalid(NOT_A_POINT))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Row, E> {
        Ok(Row::invalid(NOT_A_POINT))
    }

    fn visit_str<E>(self, _: &str) -> Result<Row, E> {
        Ok(Row::invalid(NOT_A_POINT))
    }
}

/// Reads an embedding. Numbers beyond the dimensions of the model are counted and dropped.
#[derive(Clone, Copy)]
pub(crate) struct NumbersSeed(pub(crate) Shape);

impl<'de> DeserializeSeed<'de> for NumbersSeed {
    type Value = Row;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row, D::Error> {
        deserializer.deserialize_any(self)
    }
}

const NOT_NUMBERS: &str = "an embedding is an array of numbers";

impl<'de> Visitor<'de> for NumbersSeed {
    type Value = Row;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Row, A::Error> {
        let (mut row, mut length) = (Row::default(), 0);
        row.values.reserve_exact(self.0.point.dimensions);
        while let Some(number) = numbers.next_element::<Number>()? {
            match number.0 {
                Some(value) if length < self.0.point.dimensions => row.values.push(value as f32),
                Some(_) => {}
                None => {
                    row.problem.get_or_insert_with(|| format!("entry {length} is not a number; {NOT_NUMBERS}"));
                }
            }
            length += 1;
        }
        row.length = Some(length);
        Ok(row)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Row, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Row::invalid(NOT_NUMBERS))
    }

    fn visit_unit<E>(self) -> Result<Row, E> {
        Ok(Row::invalid(NOT_NUMBERS))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Row, E> {
        Ok(Row::invalid(NOT_NUMBERS))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Row, E> {
        Ok(Row::invalid(NOT_NUMBERS))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Row, E> {
        Ok(Row::invalid(NOT_NUMBERS))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Row, E> {
        Ok(Row::invalid(NOT_NUMBERS))
    }

    fn visit_str<E>(self, _: &str) -> Result<Row, E> {
        Ok(Row::invalid(NOT_NUMBERS))
    }
}

/// The entry of an embedding: a number, or `None` for any other value.
struct Number(Option<f64>);

impl<'de> serde::Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
        Ok(Number(Some(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Number, E> {
        Ok(Number(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Number, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Number, A::Error> {
        while items.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }
}

#[cfg(test)]
mod tests;
