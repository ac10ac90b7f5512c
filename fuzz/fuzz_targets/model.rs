//! The model loader must answer any bytes with a model or an error.
//!
//! The checksum would stop nearly every mutation at the door, so it is made to fit first; what is tested is everything
//! behind it.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use dance::Dance;
use dance::backend::Cpu;
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

static BACKEND: LazyLock<Cpu> = LazyLock::new(|| Cpu::new(1).expect("one thread"));

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    fit_checksum(&mut bytes);
    let _ = Dance::from_bytes(&*BACKEND, &bytes, Path::new("fuzz"));
});

/// As `docs/format.md` says: the SHA-256 of the file with the digits themselves set to 0.
fn fit_checksum(bytes: &mut [u8]) {
    const KEY: &[u8] = b"\"checksum\":\"";
    let Some(place) = bytes.windows(KEY.len()).position(|window| window == KEY) else { return };
    let Some(digits) = bytes.get_mut(place + KEY.len()..place + KEY.len() + 64) else { return };
    digits.fill(b'0');
    let checksum = Sha256::digest(&*bytes);
    for (byte, digits) in checksum.iter().zip(bytes[place + KEY.len()..].chunks_exact_mut(2)) {
        digits.copy_from_slice(format!("{byte:02x}").as_bytes());
    }
}
