//! The input of a fit: points with their classes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::encoder::EncoderIdentity;
use super::kind::Kind;
use crate::numeric::counts_of;
use crate::numeric::matrix::Matrix;

/// Embeddings with labels as class ids. All sizes and values are checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// One row per point.
    pub embeddings: Matrix,
    /// One class id per row.
    pub labels: Vec<u32>,
    /// The class names; a class id is an index in this list.
    pub classes: Vec<String>,
    /// One id per row.
    pub ids: Option<Vec<String>>,
    /// One embedding per class.
    pub prototypes: Option<Matrix>,
    /// The row of every point in its file or array.
    pub rows: Vec<u32>,
    /// The file or array of the points.
    pub source: Source,
    /// The type of the labels.
    pub label_kind: Kind,
    /// The type of the ids.
    pub id_kind: Kind,
    /// The provenance of every point: true for a picked point, false for one drawn at random. `None` means that all
    /// points were drawn at random.
    pub picked: Option<Vec<bool>>,
}

/// The identity of a file or array of points. Parts of one data set share it; every new source differs from all others.
#[derive(Clone, Debug, Default)]
pub struct Source {
    identity: Arc<()>,
    /// The encoder of the embeddings, if known.
    pub encoder: Option<Arc<EncoderIdentity>>,
}

impl Source {
    /// Returns whether both are the same source. Different rows of one source are different points, even if they are
    /// equal.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// Creates a new source with this encoder.
    pub fn of(encoder: Option<EncoderIdentity>) -> Self {
        Self { encoder: encoder.map(Arc::new), ..Self::default() }
    }
}

/// All sources compare equal, so that equal points from two files are equal.
impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The rows and ids by which people can look up points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The row of every point in its file or array.
    pub rows: Option<Vec<u32>>,
    /// The id of every point.
    pub ids: Option<Vec<String>>,
    /// The type of the ids.
    #[serde(default)]
    pub id_kind: Kind,
}

impl Names {
    /// Returns the rows and ids of the points at the indices `places`.
    pub(crate) fn select(&self, places: &[usize]) -> Self {
        Self {
            rows: self.rows.as_ref().map(|rows| places.iter().map(|&at| rows[at]).collect()),
            ids: self.ids.as_ref().map(|ids| places.iter().map(|&at| ids[at].clone()).collect()),
            id_kind: self.id_kind,
        }
    }
}

impl Dataset {
    /// Returns the rows and ids of the points.
    pub fn names(&self) -> Names {
        Names { rows: Some(self.rows.clone()), ids: self.ids.clone(), id_kind: self.id_kind }
    }

    /// Returns the names of the classes that have points, and the labels as indices of these names.
    pub fn occurring_classes(&self) -> (Vec<String>, Vec<u32>) {
        let counts = self.class_counts();
        let mut place = vec![0; counts.len()];
        let mut names = Vec::new();
        for (class, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            place[class] = names.len() as u32;
            names.push(self.classes[class].clone());
        }
        (names, self.labels.iter().map(|&label| place[label as usize]).collect())
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the number of points of every class.
    pub fn class_counts(&self) -> Vec<usize> {
        counts_of(&self.labels, self.classes.len())
    }

    /// Returns the points at `rows`. The list of classes does not change.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            embeddings: self.embeddings.select(rows),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            classes: self.classes.clone(),
            ids: self.ids.as_ref().map(|ids| rows.iter().map(|&row| ids[row].clone()).collect()),
            prototypes: self.prototypes.clone(),
            rows: rows.iter().map(|&row| self.rows[row]).collect(),
            source: self.source.clone(),
            label_kind: self.label_kind,
            id_kind: self.id_kind,
            picked: self.picked.as_ref().map(|picked| rows.iter().map(|&row| picked[row]).collect()),
        }
    }
}
