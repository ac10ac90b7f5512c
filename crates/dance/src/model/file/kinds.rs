//! The kinds of labels and ids in a model file: text, numbers or truth values.

use serde::{Deserialize, Serialize};

use super::tensors::Reader;
use crate::data::{Kind, Names};
use crate::error::Result;
use crate::model::Dance;

/// The kinds (text, numbers or truth values) of a model's labels and ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kinds {
    pub(super) labels: Kind,
    pub(super) fit_labels: Kind,
    pub(super) fit_ids: Kind,
    pub(super) reference_ids: Kind,
}

impl Kinds {
    /// Returns the kinds of the labels and ids of a model.
    pub(super) fn of(model: &Dance) -> Self {
        Self {
            labels: model.label_kind,
            fit_labels: model.fitted.label_kind,
            fit_ids: model.fitted.names.id_kind,
            reference_ids: model.names.id_kind,
        }
    }
}

/// Reads the rows and the ids of `points` points from the tensors whose names are `rows` and `ids`. Either tensor may
/// be missing. Ids are of the type `id_kind`.
pub(super) fn names(reader: &Reader<'_>, [rows, ids]: [&str; 2], points: usize, id_kind: Kind) -> Result<Names> {
    Ok(Names { rows: reader.rows(rows, points)?, ids: reader.texts(ids, points)?, id_kind })
}
