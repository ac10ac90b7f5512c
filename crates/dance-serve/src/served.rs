//! The served model: a model file with the scores of the points of the page.

use std::path::Path;

use dance::device::Device;
use dance::{Context, Dance, Error};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::clock;
use crate::names::value_of;
use crate::reviewable::{PageScores, Reviewable};

/// The error level of models that have none of their own.
const DEFAULT_ALPHA: f64 = 0.1;

/// The name, the version and the hash of a model. Answers carry them.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ModelName {
    /// The name of the model: that of its file, without the extension.
    pub(crate) name: String,
    /// The version of the model: the time at which its file was written.
    pub(crate) version: String,
    /// The first 16 hexadecimal digits of the SHA-256 of the file.
    pub(crate) hash: String,
}

/// A model with the scores of the points of the page. A reload replaces all of it in one step.
pub(crate) struct ServedModel {
    pub(crate) model: Dance,
    pub(crate) name: ModelName,
    /// The time at which the file was read.
    pub(crate) since: String,
    /// The guarantee of the sets, in words.
    pub(crate) guarantee: String,
    /// The scores of the points of the page, if there are any.
    pub(crate) page: Option<PageScores>,
}

impl ServedModel {
    /// Reads the file of the model called `name` and scores the points of the page, so that a model that fails there
    /// answers no request.
    pub(crate) fn load(
        device: &dyn Device,
        path: &Path,
        name: &str,
        points: Option<&Reviewable>,
        context: &Context<'_>,
    ) -> dance::Result<Self> {
        let found = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
        if !found.is_file() {
            return Err(Error::format(path, "is not a regular file; name a model that `dance fit` wrote"));
        }
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let model = Dance::from_bytes(device, &bytes, path, context)?;
        let hash = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let written = found.modified().map_or_else(|_| clock::now(), clock::seconds);
        let name = ModelName { name: name.to_owned(), version: written, hash };
        let page = points.map(|points| PageScores::new(&model, points, context)).transpose()?;
        let guarantee = model.guarantee();
        Ok(Self { model, name, since: clock::now(), guarantee, page })
    }

    /// Returns the error levels of requests that name none.
    pub(crate) fn alphas(&self) -> Vec<f64> {
        vec![DEFAULT_ALPHA]
    }

    /// Returns the error level of requests that need one and name none.
    pub(crate) fn alpha(&self) -> f64 {
        self.alphas().first().copied().unwrap_or(DEFAULT_ALPHA)
    }

    /// Returns a label as its own kind: a text, a number or a truth value.
    pub(crate) fn label(&self, name: &str) -> Value {
        value_of(self.model.label_kind(), name)
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.model.fitted().dimensions()
    }
}
