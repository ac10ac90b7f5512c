//! `dance predict` on several files.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Predict;
use crate::args::Shared;
use crate::data::{SINGLE_FILE_OPTIONS, check_there};
use crate::inputs;
use crate::plan::Plan;

impl Predict {
    /// Returns the output file of every input file; `None` where DATA is a single file.
    pub(super) fn plan(&self, shared: &Shared) -> anyhow::Result<Option<Plan>> {
        let files = if self.embeds() { None } else { inputs::several(&self.data)? };
        let Some(files) = files else {
            if self.resume {
                bail!("--resume is for several files: a folder, a pattern or several names");
            }
            return Ok(None);
        };
        if self.reports() && self.output.extension().is_some_and(|name| name == "npz") {
            bail!("{}: --on-error report needs an output in .jsonl, .csv or .parquet", self.output.display());
        }
        if self.columns().format.is_some() {
            bail!(SINGLE_FILE_OPTIONS);
        }
        check_there(&self.model)?;
        Plan::new(files, &self.output, &[Some(&self.model), shared.config.as_deref()]).map(Some)
    }

    /// Returns everything that answers depend on beside the input. `--resume` only continues a run with equal options.
    pub(super) fn options(&self) -> anyhow::Result<Value> {
        Ok(json!({
            "model": self.model_hash()?,
            "alpha": self.alpha.as_ref().map(|alphas| &alphas.0),
            "include": self.include.iter().map(|list| format!("{list:?}")).collect::<Vec<_>>(),
            "empty": format!("{:?}", self.empty),
            "novelty": self.novelty,
            "reports": self.reports(),
            "embeddings": self.columns().embedding_column,
            "ids": self.columns().id_column,
        }))
    }

    /// Returns the SHA-256 of the model file.
    pub(super) fn model_hash(&self) -> anyhow::Result<String> {
        let model = std::fs::read(&self.model).with_context(|| self.model.display().to_string())?;
        Ok(Sha256::digest(&model).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
