//! The served model: a model file with the scores of the points of the page.

use std::path::Path;

use dance::device::Device;
use dance::{Context, Dance, Error};
use sha2::{Digest, Sha256};

use crate::clock;
use crate::reviewable::{PageScores, Reviewable};

/// A model with the scores of the points of the page. A reload replaces all of it in one step.
pub(crate) struct ServedModel {
    pub(crate) model: Dance,
    /// The first 16 hexadecimal digits of the file's SHA-256, which answers carry.
    pub(crate) id: String,
    /// The time at which the file was read.
    pub(crate) since: String,
    /// The guarantee of the sets, in words.
    pub(crate) guarantee: String,
    /// The scores of the points of the page, if there are any.
    pub(crate) page: Option<PageScores>,
}

impl ServedModel {
    /// Reads the file and scores the points of the page, so that a model that fails there answers no request.
    pub(crate) fn load(
        device: &dyn Device,
        path: &Path,
        points: Option<&Reviewable>,
        context: &Context<'_>,
    ) -> dance::Result<Self> {
        let found = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
        if !found.is_file() {
            return Err(Error::format(path, "is not a regular file; name a model that `dance fit` wrote"));
        }
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let model = Dance::from_bytes(device, &bytes, path, context)?;
        let id = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let page = points.map(|points| PageScores::new(&model, points, context)).transpose()?;
        let guarantee = model.guarantee();
        Ok(Self { model, id, since: clock::now(), guarantee, page })
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.model.fitted().dimensions()
    }
}
