//! Entry: one label that became known, as a line of the journal.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::level::Level;
use crate::names::name_of;

/// The way in which a point was found whose label became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Drawn at random: every point was as likely. Such points are like new ones, and may calibrate and evaluate a
    /// model.
    Random,
    /// Picked for a property, such as a large set or a doubtful label. Such points are not like new ones.
    Picked,
}

impl Provenance {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Picked => "picked",
        }
    }
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry<'a> {
    pub(crate) time: Cow<'a, str>,
    pub(crate) provenance: Provenance,
    /// The reason for which the point was picked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) why: Option<Cow<'a, str>>,
    /// The id in its kind: a text or a whole number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) id: Option<Value>,
    /// The label in its kind: a text, a number or a truth value.
    pub(crate) label: Value,
    /// The levels at which the label was in the set of `model`.
    pub(crate) level: Level,
    /// The id of the model that was served.
    pub(crate) model: Cow<'a, str>,
    pub(crate) embedding: Cow<'a, [f32]>,
}

/// The part of an entry that stays in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) time: String,
    pub(crate) provenance: Provenance,
    pub(crate) id: Option<Value>,
    pub(crate) label: Value,
    pub(crate) level: Level,
    /// The hash of the embedding.
    pub(crate) point: u64,
}

impl Entry<'_> {
    /// Returns the name by which the label is compared.
    pub(crate) fn label_name(&self) -> String {
        name_of(&self.label).unwrap_or_else(|| self.label.to_string())
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary {
            time: self.time.clone().into_owned(),
            provenance: self.provenance,
            id: self.id.clone(),
            label: self.label.clone(),
            level: self.level,
            point: hash_of(&self.embedding),
        }
    }
}

/// Returns a hash of an embedding, by which the same point is found again. It is never written to a file.
pub(crate) fn hash_of(embedding: &[f32]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    for value in embedding {
        hasher.write_u32(value.to_bits());
    }
    hasher.finish()
}
