//! The identity of an encoder. Embeddings of two encoders cannot be compared, even if they have the same dimensions, so
//! a mix of them is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The identity of an encoder, stored in files of embeddings and in models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncoderIdentity {
    /// The user's name for the encoder: a model name, a folder or a file.
    pub name: String,
    /// SHA-256 of the weights, in hexadecimal.
    pub weights: String,
    /// The preprocessing of pictures or texts and the postprocessing of outputs, as JSON.
    pub preparation: String,
}

impl EncoderIdentity {
    /// Parses the JSON that [`to_json`](Self::to_json) returns and files hold.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("is not the JSON of an encoder: {error}"))
    }

    /// Returns the JSON for files.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Returns whether both encoders give the same embeddings. Names may differ: one encoder may lie in two folders.
    pub fn is(&self, other: &Self) -> bool {
        self.weights == other.weights && self.preparation == other.preparation
    }

    /// Returns an error if two known encoders differ; `origin` names the file or array of the `found` one. An unknown
    /// encoder is accepted.
    pub fn check(expected: Option<&Self>, found: Option<&Self>, origin: &str) -> Result<()> {
        match (expected, found) {
            (Some(expected), Some(found)) if !expected.is(found) => Err(Error::Encoder {
                origin: origin.to_owned(),
                expected: expected.to_string(),
                found: found.to_string(),
                hint: if expected.weights == found.weights {
                    "The weights are the same, the preparation is not: embed again with the same settings"
                } else {
                    "Embed again with the first encoder"
                },
            }),
            _ => Ok(()),
        }
    }
}

/// The name, and the first digits of the weights' hash.
impl fmt::Display for EncoderIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (weights {:.12})", self.name, self.weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(name: &str, weights: &str, preparation: &str) -> EncoderIdentity {
        EncoderIdentity { name: name.into(), weights: weights.into(), preparation: preparation.into() }
    }

    #[test]
    fn another_encoder_is_refused_with_both_names() {
        let clip = encoder("clip", "0123456789abcdef", "{}");
        let check = |found: Option<&EncoderIdentity>| EncoderIdentity::check(Some(&clip), found, "new.npz");
        assert!(check(None).is_ok());
        assert!(check(Some(&encoder("elsewhere/clip", "0123456789abcdef", "{}"))).is_ok());
        let error = check(Some(&encoder("dino", "fedc", "{}"))).unwrap_err().to_string();
        for part in ["new.npz", "clip (weights 0123456789ab)", "dino (weights fedc)"] {
            assert!(error.contains(part), "{error}");
        }
        let error = check(Some(&encoder("clip", "0123456789abcdef", "{1}"))).unwrap_err().to_string();
        assert!(error.contains("preparation"), "{error}");
    }

    #[test]
    fn json_round_trips() {
        let clip = encoder("clip", "01", r#"{"size":224}"#);
        assert_eq!(EncoderIdentity::from_json(&clip.to_json()).unwrap(), clip);
        assert!(EncoderIdentity::from_json("clip").unwrap_err().contains("encoder"));
    }
}
