//! API keys, compared in constant time.

use std::hint::black_box;
use std::path::Path;

use sha2::{Digest, Sha256};

/// The fewest characters of a key; a shorter one can be guessed.
const SHORTEST: usize = 16;

/// The hashes of the keys that admit a request.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// Reads one key per line; blank lines and lines that begin with `#` are skipped.
    pub fn read(path: &Path) -> dance::Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| dance::Error::io(path, error))?;
        let mut keys = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < SHORTEST || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                let problem = format!(
                    "line {number}: a key has at least {SHORTEST} characters, all of them letters, digits or signs; \
                     `openssl rand -hex 32` makes one"
                );
                return Err(dance::Error::format(path, problem));
            }
            keys.push(hash(line.as_bytes()));
        }
        if keys.is_empty() {
            return Err(dance::Error::format(path, "has no key; write one per line"));
        }
        Ok(Self(keys))
    }

    /// Returns whether there are no keys, so that requests need none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this is one of the keys. It takes as long for a wrong key as for a right one, since every byte
    /// of every hash is compared.
    pub(crate) fn admit(&self, given: &[u8]) -> bool {
        let given = hash(given);
        let mut found = 0u8;
        for key in &self.0 {
            let differ = key.iter().zip(&given).fold(0u8, |differ, (a, b)| differ | (a ^ b));
            found |= u8::from(black_box(differ) == 0);
        }
        found != 0
    }
}

fn hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> dance::Result<Keys> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, text).unwrap();
        Keys::read(&path)
    }

    #[test]
    fn only_the_keys_of_the_file_are_admitted() {
        let keys = keys("# of the shop\n0123456789abcdef\n\n  fedcba9876543210  \n").unwrap();
        assert!(keys.admit(b"0123456789abcdef") && keys.admit(b"fedcba9876543210"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "# of the shop"] {
            assert!(!keys.admit(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{keys:?}").contains("0123"));
    }

    #[test]
    fn files_without_good_keys_are_refused() {
        for (text, part) in
            [("", "no key"), ("# nothing\n", "no key"), ("short\n", "line 1"), ("0123456789 abcdef\n", "line 1")]
        {
            let error = keys(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
