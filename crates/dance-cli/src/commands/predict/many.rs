//! `dance predict` on many files.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Predict;
use crate::args::Shared;
use crate::data::check_there;
use crate::inputs;
use crate::plan::Plan;

impl Predict {
    /// What is answered into what, where DATA is many files.
    pub(super) fn plan(&self, shared: &Shared) -> anyhow::Result<Option<Plan>> {
        let found = if self.embeds() { None } else { inputs::many(&self.data)? };
        let Some(found) = found else {
            if self.resume {
                bail!("--resume is for many files: a folder, a pattern or several names");
            }
            return Ok(None);
        };
        if self.reports() && self.output.extension().is_some_and(|name| name == "npz") {
            bail!(
                "{}: what is wrong with a row is reported in .jsonl, .csv or .parquet",
                self.output.display()
            );
        }
        if self.columns.labels.is_some() || self.columns.format.is_some() {
            bail!("--labels and --format are for a single file; many files say by their names what they are");
        }
        check_there(&self.model)?;
        Plan::new(found, &self.output, &[Some(&self.model), shared.config.as_deref()]).map(Some)
    }

    /// What the answers follow from beside the input, so that those of other options are not taken for finished.
    pub(super) fn options(&self) -> anyhow::Result<Value> {
        Ok(json!({
            "model": self.model_hash()?,
            "alpha": self.alpha.0,
            "include": self.include.iter().map(|what| format!("{what:?}")).collect::<Vec<_>>(),
            "empty": format!("{:?}", self.empty),
            "novelty": self.novelty,
            "reports": self.reports(),
            "embeddings": self.columns.embeddings_name,
            "ids": self.columns.id_column,
        }))
    }

    /// SHA-256 of the model file.
    pub(super) fn model_hash(&self) -> anyhow::Result<String> {
        let model = std::fs::read(&self.model).with_context(|| self.model.display().to_string())?;
        Ok(Sha256::digest(&model).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
