//! What labels and ids are, as the metadata keep it. Older files do not say, and their names stay text.

use serde::{Deserialize, Serialize};

use super::tensors::Reader;
use crate::data::{Kind, Names};
use crate::error::Result;
use crate::model::Dance;

/// Of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kinds {
    pub(super) labels: Kind,
    pub(super) fit_labels: Kind,
    pub(super) fit_ids: Kind,
    pub(super) reference_ids: Kind,
}

impl Kinds {
    pub(super) fn of(model: &Dance) -> Self {
        Self {
            labels: model.label_kind,
            fit_labels: model.fitted.label_kind,
            fit_ids: model.fitted.names.id_kind,
            reference_ids: model.names.id_kind,
        }
    }
}

/// What `points` points are called: tensors of rows and ids, where the file has them.
pub(super) fn names(
    reader: &Reader<'_>,
    [rows, ids]: [&str; 2],
    points: usize,
    id_kind: Kind,
) -> Result<Names> {
    Ok(Names { rows: reader.rows(rows, points)?, ids: reader.texts(ids, points)?, id_kind })
}
