//! Points of a model, named by part, row and id, and the search for points of a model that equal given points.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::dance::Dance;
use super::fitted::Fitted;
use crate::data::{Dataset, Names, Value};
use crate::error::Result;
use crate::method::Calibration;
use crate::model::overlap::{self, ModelPart, PointLookup};
use crate::numeric::matrix::{Matrix, Rows};

/// A point of a model. It is named by its part of the model, and by its row and id in the data set that it was read
/// from. The id is a text, or a [`Value`] that keeps the type of the id in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ModelPoint<Id = String> {
    /// The part of the model that holds the point.
    pub part: ModelPart,
    /// The row of the point in its data set, if known.
    pub row: Option<u32>,
    /// The id of the point, if its data set has ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
}

impl ModelPoint {
    fn new(part: ModelPart, names: &Names, place: usize) -> Self {
        Self {
            part,
            row: names.rows.as_ref().and_then(|rows| rows.get(place)).copied(),
            id: names.ids.as_ref().and_then(|ids| ids.get(place)).cloned(),
        }
    }

    /// Returns whether this point and the point of `data` at index `place` have the same id. If one of the two has no
    /// id, their rows are compared instead, and an unknown row of this point counts as equal.
    pub(super) fn has_name_of(&self, data: &Dataset, place: usize) -> bool {
        match (&self.id, data.ids.as_ref().and_then(|ids| ids.get(place))) {
            (Some(id), Some(own)) => id == own,
            _ => self.row.is_none_or(|row| row == data.rows[place]),
        }
    }
}

/// The points of a model that equal one given point.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    /// The indices of equal points that the model keeps, in the order of [`Dance::kept_points`].
    pub(super) kept: Vec<usize>,
    /// The equal points of which the model keeps only a hash. These are validation points, and calibration points in
    /// split calibration.
    pub(super) hashed: Vec<ModelPoint>,
}

impl Dance {
    /// Returns the part, row and id of a reference point. Lists of neighbors and of support refer to this point by
    /// `number`.
    pub fn reference_point(&self, number: u32) -> ModelPoint<Value<'_>> {
        let number = number as usize;
        let (part, place) = match self.calibration() {
            Calibration::Split => (ModelPart::FitPoint, number),
            Calibration::Reuse | Calibration::Full => match number.checked_sub(self.reference.rows()) {
                None => (ModelPart::CalibrationPoint, number),
                Some(place) => (ModelPart::FitPoint, place),
            },
        };
        let names = if part == ModelPart::FitPoint { &self.fitted.names } else { &self.names };
        ModelPoint {
            part,
            row: names.rows.as_ref().and_then(|rows| rows.get(place)).copied(),
            id: names.ids.as_ref().and_then(|ids| ids.get(place)).map(|id| names.id_kind.value(id)),
        }
    }

    /// Returns the points that the model keeps: first fit points, then calibration points. The first list has one
    /// matrix of normalised coordinates for each part, the second list the names of all points.
    pub(super) fn kept_points(&self) -> (Vec<&Matrix>, Vec<ModelPoint>) {
        let mut parts = vec![(ModelPart::FitPoint, &self.fitted.rfm.train, &self.fitted.names)];
        if self.calibration() != Calibration::Split {
            parts.push((ModelPart::CalibrationPoint, &self.reference, &self.names));
        }
        let points = parts.iter().flat_map(|&(part, points, names)| {
            (0..points.rows()).map(move |place| ModelPoint::new(part, names, place))
        });
        (parts.iter().map(|part| part.1).collect(), points.collect())
    }

    /// Finds, for each query, the points of the model that equal the query. Queries are embeddings as the encoder
    /// returns them.
    pub(super) fn find_points(&self, queries: Rows<'_>) -> Result<Vec<Matches>> {
        let mut points = queries.to_matrix()?;
        self.fitted.normalizer.apply("queries", &mut points)?;
        let kept = self.kept_points().0.into_iter();
        let kept: Vec<PointLookup<'_>> = kept.map(|part| PointLookup::new(part, &self.fitted.normalizer)).collect();
        let calibrated: HashSet<u64> = self.calibration_hashes.iter().flatten().copied().collect();
        let Fitted { validation_hashes, validation_rows, .. } = &self.fitted;
        let validated: HashMap<u64, u32> =
            validation_hashes.iter().copied().zip(validation_rows.iter().copied()).collect();
        let no_hashes = calibrated.is_empty() && validated.is_empty();
        let own = if no_hashes { Vec::new() } else { overlap::hashes(&points) };
        let matches_of = |row: usize| {
            let mut before = 0;
            let mut found = Matches::default();
            for part in &kept {
                found.kept.extend(part.places(&points, row).into_iter().map(|place| before + place));
                before += part.len();
            }
            if let Some(hash) = own.get(row) {
                let validated = validated.get(hash).map(|&row| (ModelPart::FitPoint, Some(row)));
                let calibrated = calibrated.contains(hash).then_some((ModelPart::CalibrationPoint, None));
                let hashed = validated.into_iter().chain(calibrated);
                found.hashed.extend(hashed.map(|(part, row)| ModelPoint { part, row, id: None }));
            }
            found
        };
        Ok((0..points.rows()).map(matches_of).collect())
    }

    /// Returns the part of the model that holds each query; `None` for a query that no part holds. Leave queries with a
    /// part out of an evaluation, since coverage measured on points of the model is too high.
    pub fn seen<'q>(&self, queries: impl Into<Rows<'q>>) -> Result<Vec<Option<ModelPart>>> {
        let fit = self.fitted.rfm.train.rows();
        let part = |place: &usize| if *place < fit { ModelPart::FitPoint } else { ModelPart::CalibrationPoint };
        let part_of = |found: Matches| {
            let kept = found.kept.iter().map(part);
            kept.chain(found.hashed.iter().map(|point| point.part)).min()
        };
        Ok(self.find_points(queries.into())?.into_iter().map(part_of).collect())
    }
}
