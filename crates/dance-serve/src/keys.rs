//! API keys, compared in constant time.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The fewest characters of a key; a shorter one can be guessed.
const SHORTEST: usize = 16;

/// A key of the file.
#[derive(Clone)]
pub(crate) struct Key {
    hash: [u8; 32],
    /// Requests with this key may change the served model.
    pub(crate) administers: bool,
    /// The name of the key in the log.
    pub(crate) name: Arc<str>,
}

/// The keys that admit requests.
#[derive(Clone, Default)]
pub(crate) struct Keys(Vec<Key>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// Reads one key per line: `KEY [use|administer] [NAME]`. Blank lines and lines that begin with `#` are skipped.
    pub(crate) fn read(path: &Path) -> dance::Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| dance::Error::io(path, error))?;
        let mut keys = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem: &str| Err(dance::Error::format(path, format!("line {number}: {problem}")));
            let mut words = line.split_ascii_whitespace();
            let key = words.next().unwrap_or_default();
            if key.len() < SHORTEST || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return wrong(&format!(
                    "a key has at least {SHORTEST} characters, all of them letters, digits or signs; \
                     `openssl rand -hex 32` makes one"
                ));
            }
            let administers = match words.next() {
                None | Some("use") => false,
                Some("administer") => true,
                // The word may be a part of a key, so the message does not repeat it.
                Some(_) => return wrong("after the key comes `use` or `administer`, and perhaps a name"),
            };
            let name = words.collect::<Vec<_>>().join(" ");
            let name = if name.is_empty() { format!("line {number}") } else { name };
            keys.push(Key { hash: hash(key.as_bytes()), administers, name: name.into() });
        }
        if keys.is_empty() {
            return Err(dance::Error::format(path, "has no key; write one per line"));
        }
        Ok(Self(keys))
    }

    /// Returns whether there are no keys, so that requests need none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key that was given, if it is one of these. It takes as long for a wrong key as for a right one,
    /// since every byte of every hash is compared.
    pub(crate) fn find(&self, given: &[u8]) -> Option<&Key> {
        let given = hash(given);
        let mut found = None;
        for key in &self.0 {
            let differ = key.hash.iter().zip(&given).fold(0u8, |differ, (a, b)| differ | (a ^ b));
            if black_box(differ) == 0 {
                found = Some(key);
            }
        }
        found
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
    fn only_the_keys_of_the_file_are_found_with_their_kind_and_name() {
        let keys = keys(
            "# of the shop\n0123456789abcdef\n\n  fedcba9876543210  administer the operator \n\
             abcdefabcdefabcdef use till\n",
        );
        let keys = keys.unwrap();
        let found = |key: &str| keys.find(key.as_bytes()).map(|key| (key.administers, key.name.to_string()));
        assert_eq!(found("0123456789abcdef"), Some((false, "line 2".into())));
        assert_eq!(found("fedcba9876543210"), Some((true, "the operator".into())));
        assert_eq!(found("abcdefabcdefabcdef"), Some((false, "till".into())));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "# of the shop", "fedcba9876543210  administer"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        assert!(!format!("{keys:?}").contains("0123"));
    }

    #[test]
    fn files_without_good_keys_are_refused() {
        for (text, part) in [
            ("", "no key"),
            ("# nothing\n", "no key"),
            ("short\n", "line 1"),
            ("0123456789abcdef admin\n", "`use` or `administer`"),
            ("0123456789 abcdef\n", "line 1"),
        ] {
            let error = keys(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("abcdef"), "{error}");
        }
    }
}
