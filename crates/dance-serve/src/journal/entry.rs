//! One label that became known.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::level::Level;

/// How a point was found whose label became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By chance: any point was as likely. Such points are like new ones, and may calibrate a model and judge it.
    Chance,
    /// For what it is: a large set, a doubtful label. Such points are not like new ones.
    Picked,
}

impl How {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chance => "chance",
            Self::Picked => "picked",
        }
    }
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry<'a> {
    pub(crate) time: Cow<'a, str>,
    pub(crate) how: How,
    /// What it was picked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) why: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) id: Option<Cow<'a, str>>,
    pub(crate) label: Cow<'a, str>,
    /// At which levels the label was in the set of the model that was there.
    pub(crate) level: Level,
    /// That model.
    pub(crate) model: Cow<'a, str>,
    pub(crate) embedding: Cow<'a, [f32]>,
}

/// What is kept of an entry in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Brief {
    pub(crate) time: String,
    pub(crate) how: How,
    pub(crate) id: Option<String>,
    pub(crate) label: String,
    pub(crate) level: Level,
    /// The point by its numbers.
    pub(crate) point: u64,
}

impl Entry<'_> {
    pub(crate) fn brief(&self) -> Brief {
        Brief {
            time: self.time.clone().into_owned(),
            how: self.how,
            id: self.id.as_deref().map(str::to_owned),
            label: self.label.clone().into_owned(),
            level: self.level,
            point: fingerprint(&self.embedding),
        }
    }
}

/// A point by 64 bits of its own.
pub(crate) fn fingerprint(embedding: &[f32]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new(); // with its fixed keys; nothing that is kept depends on it
    for value in embedding {
        hasher.write_u32(value.to_bits());
    }
    hasher.finish()
}
