//! Tokens: the numbers that an encoder of texts takes.

use std::path::Path;

use dance::{Error, Result};
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

use crate::settings::TextSettings;

/// A tokenizer with its settings.
pub(crate) struct Tokens {
    tokenizer: Tokenizer,
    pub(crate) settings: TextSettings,
}

impl Tokens {
    /// Reads a `tokenizer.json` and the settings beside it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let wrong = |error: tokenizers::Error| Error::format(path, format!("cannot be used as a tokenizer: {error}"));
        let mut tokenizer = Tokenizer::from_file(path).map_err(wrong)?;
        let padding = tokenizer.get_padding().map(|padding: &PaddingParams| padding.pad_id);
        let folder = path.parent().unwrap_or(Path::new("."));
        let settings = TextSettings::read(folder, padding, |token| tokenizer.token_to_id(token))?;
        tokenizer.with_padding(None);
        let truncation = TruncationParams { max_length: settings.longest, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(wrong)?;
        Ok(Self { tokenizer, settings })
    }

    /// Returns the tokens of a text, with the special tokens at its beginning and end.
    pub(crate) fn of(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.tokenizer.encode_fast(text, true);
        match encoding {
            Ok(encoding) if encoding.is_empty() => Err("has no tokens".into()),
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(error) => Err(format!("cannot be made tokens of: {error}")),
        }
    }
}
