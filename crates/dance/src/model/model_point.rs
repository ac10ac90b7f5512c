//! Where in a model a point is: among those that fitted the kernel, those that calibrated, or nowhere.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::dance::Dance;
use crate::conformal::Calibration;
use crate::data::{Dataset, Names};
use crate::error::Result;
use crate::model::overlap::{self, Seen, SeenAs};
use crate::numeric::matrix::{Matrix, Rows};

/// A point of a model, by what it was called there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ModelPoint {
    /// Which part it is in.
    pub part: SeenAs,
    /// Its row in what it was read from, where that is known.
    pub row: Option<u32>,
    /// Its id, where points have ids.
    pub id: Option<String>,
}

impl ModelPoint {
    fn new(part: SeenAs, names: &Names, place: usize) -> Self {
        Self {
            part,
            row: names.rows.as_ref().and_then(|rows| rows.get(place)).copied(),
            id: names.ids.as_ref().and_then(|ids| ids.get(place)).cloned(),
        }
    }

    /// Whether the point at this place of `data` is called the same: by its id, or by its row where there are no ids. What a
    /// model does not know cannot differ.
    pub(super) fn is_called(&self, data: &Dataset, place: usize) -> bool {
        match (&self.id, data.ids.as_ref().and_then(|ids| ids.get(place))) {
            (Some(id), Some(own)) => id == own,
            _ => self.row.is_none_or(|row| row == data.rows[place]),
        }
    }
}

/// Where a model has a point.
#[derive(Clone, Debug, Default)]
pub(super) struct Whereabouts {
    /// Places among the points that the model keeps: see [`Dance::kept`].
    pub(super) kept: Vec<usize>,
    /// What is known by its hash alone: points that judged settings, and calibration points in disjoint mode.
    pub(super) hashed: Vec<ModelPoint>,
}

impl Dance {
    /// All points that the model keeps, normalised, with what they are called: those of the fit, then those of calibration.
    pub(super) fn kept(&self) -> (Vec<&Matrix>, Vec<ModelPoint>) {
        let mut parts = vec![(SeenAs::FitPoint, &self.fitted.rfm.train, &self.fitted.names)];
        if self.predictor.method().calibration() != Calibration::Split {
            parts.push((SeenAs::CalibrationPoint, &self.reference, &self.names));
        }
        let points = parts.iter().flat_map(|&(part, points, names)| {
            (0..points.rows()).map(move |place| ModelPoint::new(part, names, place))
        });
        (parts.iter().map(|part| part.1).collect(), points.collect())
    }

    /// Where the model has each of the queries.
    pub(super) fn whereabouts(&self, queries: Rows<'_>) -> Result<Vec<Whereabouts>> {
        let mut points = queries.to_matrix()?;
        self.fitted.normalizer.apply("queries", &mut points)?;
        let kept: Vec<Seen<'_>> =
            self.kept().0.into_iter().map(|part| Seen::new(part, &self.fitted.normalizer)).collect();
        let calibrated: HashSet<u64> = self.calibration_hashes.iter().flatten().copied().collect();
        let judges = &self.fitted.judges;
        let judged: HashMap<u64, u32> =
            judges.hashes.iter().copied().zip(judges.rows.iter().copied()).collect();
        let own =
            if calibrated.is_empty() && judged.is_empty() { Vec::new() } else { overlap::hashes(&points) };
        let of = |row: usize| {
            let mut before = 0;
            let mut found = Whereabouts::default();
            for part in &kept {
                found.kept.extend(part.places(&points, row).into_iter().map(|place| before + place));
                before += part.len();
            }
            if let Some(hash) = own.get(row) {
                let judge = judged.get(hash).map(|&row| (SeenAs::FitPoint, Some(row)));
                let calibrated = calibrated.contains(hash).then_some((SeenAs::CalibrationPoint, None));
                let hashed = judge.into_iter().chain(calibrated);
                found.hashed.extend(hashed.map(|(part, row)| ModelPoint { part, row, id: None }));
            }
            found
        };
        Ok((0..points.rows()).map(of).collect())
    }

    /// For every query, whether the model has seen that very point before. Judged by those, any model looks good.
    pub fn seen<'q>(&self, queries: impl Into<Rows<'q>>) -> Result<Vec<Option<SeenAs>>> {
        let fit = self.fitted.rfm.train.rows();
        let part = |place: &usize| if *place < fit { SeenAs::FitPoint } else { SeenAs::CalibrationPoint };
        let of = |found: Whereabouts| {
            let kept = found.kept.iter().map(part);
            kept.chain(found.hashed.iter().map(|point| point.part)).min()
        };
        Ok(self.whereabouts(queries.into())?.into_iter().map(of).collect())
    }
}
