//! How much memory the contents of a file may take. A failed allocation ends the program and cannot be caught, so nothing is
//! allocated on a file's word beyond this: 256 times its length (real embeddings pack to a quarter, one-hot ones to a
//! hundredth), and 32 MiB for small files that are nothing but repetition.

use crate::error::human_bytes;

const FACTOR: u64 = 256;
const ALWAYS: u64 = 32 << 20;

/// What is left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    all: u64,
    left: u64,
}

impl Budget {
    /// For a file of `length` bytes.
    pub(super) fn of(length: u64) -> Self {
        let all = length.saturating_mul(FACTOR).saturating_add(ALWAYS);
        Self { all, left: all }
    }

    /// Takes so many bytes, or says why not.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "needs more memory than a file of this length can fill ({}); it is damaged, or its values are all alike: save it \
                 without compression",
                human_bytes(self.all)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_a_multiple_of_its_length() {
        let mut budget = Budget::of(1000);
        budget.take((32 << 20) + 255_000).unwrap();
        budget.take(1000).unwrap();
        assert!(budget.take(1).unwrap_err().contains("32.2 MiB"));
        assert!(Budget::of(u64::MAX).take(u64::MAX).is_ok());
    }
}
