//! What labels and ids are, as the metadata keep it. Older files do not say, and their names stay text.

use serde::{Deserialize, Serialize};

use crate::data::Kind;

/// Of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kinds {
    pub(super) labels: Kind,
    pub(super) fit_labels: Kind,
    pub(super) fit_ids: Kind,
    pub(super) reference_ids: Kind,
}
