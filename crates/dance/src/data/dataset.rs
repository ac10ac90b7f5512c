//! What a fit needs: points with the class of each.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::encoder::EncoderIdentity;
use super::kind::Kind;
use crate::numeric::matrix::Matrix;

/// Embeddings with encoded labels, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// One row per point.
    pub embeddings: Matrix,
    /// One class index per row.
    pub labels: Vec<u32>,
    /// Class names; a label indexes them.
    pub classes: Vec<String>,
    /// One name per row.
    pub ids: Option<Vec<String>>,
    /// One embedding per class.
    pub prototypes: Option<Matrix>,
    /// Row of each point in what it was read from.
    pub rows: Vec<u32>,
    /// What they were read from.
    pub source: Source,
    /// What the labels are.
    pub label_kind: Kind,
    /// What the ids are.
    pub id_kind: Kind,
    /// Whether each point was picked for what it is; `None` where all came by chance.
    pub picked: Option<Vec<bool>>,
}

/// Where points come from: a new one is like no other, and parts of one data set know that they are.
#[derive(Clone, Debug, Default)]
pub struct Source {
    identity: Arc<()>,
    /// What made the embeddings, where that is known.
    pub encoder: Option<Arc<EncoderIdentity>>,
}

impl Source {
    /// Whether points of both were read in one go, so that different rows are different draws.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// A new one, of this encoder.
    pub fn of(encoder: Option<EncoderIdentity>) -> Self {
        Self { encoder: encoder.map(Arc::new), ..Self::default() }
    }
}

/// Ignored in comparisons: the same points from two files are equal.
impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What points are called, where that is known: for people who want to look them up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The row of each point in what it was read from.
    pub rows: Option<Vec<u32>>,
    /// The id of each point.
    pub ids: Option<Vec<String>>,
    /// What the ids are.
    #[serde(default)]
    pub id_kind: Kind,
}

impl Names {
    /// Of some of the points.
    pub(crate) fn select(&self, places: &[usize]) -> Self {
        Self {
            rows: self.rows.as_ref().map(|rows| places.iter().map(|&at| rows[at]).collect()),
            ids: self.ids.as_ref().map(|ids| places.iter().map(|&at| ids[at].clone()).collect()),
            id_kind: self.id_kind,
        }
    }
}

impl Dataset {
    /// What its points are called.
    pub fn names(&self) -> Names {
        Names { rows: Some(self.rows.clone()), ids: self.ids.clone(), id_kind: self.id_kind }
    }

    /// Names of the classes that it has points of, and the labels of its points among those.
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

    /// Number of points.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Number of points of every class.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        for &label in &self.labels {
            counts[label as usize] += 1;
        }
        counts
    }

    /// The points at `rows`, with the same classes.
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
