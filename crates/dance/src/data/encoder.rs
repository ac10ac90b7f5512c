//! Which encoder made embeddings. Numbers of two encoders have nothing to do with one another, even where there are as many of
//! them, so whoever mixes them is told.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// An encoder, as a file of embeddings and a model remember it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncoderIdentity {
    /// What the user called it: a name, a folder or a file.
    pub name: String,
    /// SHA-256 of its weights, in hexadecimal.
    pub weights: String,
    /// What pictures or texts went through before, and outputs after, as JSON.
    pub preparation: String,
}

impl EncoderIdentity {
    /// From the JSON that a file holds.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("is not the JSON of an encoder: {error}"))
    }

    /// As files hold it.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Whether both give the same embeddings: names do not matter, since one encoder may lie in two folders.
    pub fn is(&self, other: &Self) -> bool {
        self.weights == other.weights && self.preparation == other.preparation
    }

    /// Refuses embeddings of another encoder. Those of an unknown one are taken on trust.
    pub fn check(expected: Option<&Self>, found: Option<&Self>, origin: &str) -> Result<()> {
        match (expected, found) {
            (Some(expected), Some(found)) if !expected.is(found) => Err(Error::Encoder {
                origin: origin.to_owned(),
                expected: expected.to_string(),
                found: found.to_string(),
                hint: if expected.weights == found.weights {
                    "The weights are the same, the preparation is not: embed again with the same settings"
                } else {
                    "Embed again with the first"
                },
            }),
            _ => Ok(()),
        }
    }
}

/// Its name and the beginning of the hash of its weights.
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
    fn another_encoder_is_refused_by_name() {
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
    fn json_gives_it_back() {
        let clip = encoder("clip", "01", r#"{"size":224}"#);
        assert_eq!(EncoderIdentity::from_json(&clip.to_json()).unwrap(), clip);
        assert!(EncoderIdentity::from_json("clip").unwrap_err().contains("encoder"));
    }
}
