//! A model with everything that is known about the points of the page.

use std::path::Path;

use dance::data::Normalize;
use dance::device::Device;
use dance::{Context, Dance, Error};
use sha2::{Digest, Sha256};

use crate::clock;
use crate::reviewable::{Reviewable, Reviewed};

/// A model with everything that is known about the points of the page; another takes its place in one step.
pub(crate) struct Served {
    pub(crate) model: Dance,
    /// The first letters of the file's SHA-256: answers say which model gave them.
    pub(crate) id: String,
    pub(crate) since: String,
    /// What holds for its sets, in words.
    pub(crate) guarantee: String,
    pub(crate) reviewed: Option<Reviewed>,
}

impl Served {
    /// Reads the file and asks it about the points of the page, so that whatever is wrong shows before anybody is answered by it.
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
        let reviewed = points.map(|points| Reviewed::new(&model, points, context)).transpose()?;
        let guarantee = model.guarantee();
        Ok(Self { model, id, since: clock::now(), guarantee, reviewed })
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.model.fitted().dimensions()
    }

    /// Whether a vector of zeros is no point: it has no direction.
    pub(crate) fn directed(&self) -> bool {
        self.model.fitted().config.normalize == Normalize::L2
    }
}
