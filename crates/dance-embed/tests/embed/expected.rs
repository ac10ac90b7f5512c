//! The arrays in `expected.npz`.

use std::fs::File;
use std::io::Read;

use zip::ZipArchive;

use crate::file;

/// An array: its shape and its bytes.
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn floats(&self) -> Vec<f32> {
        self.bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Names of arrays that begin so, and the arrays.
pub(crate) fn arrays(prefix: &str) -> Vec<(String, Array)> {
    let mut archive = ZipArchive::new(File::open(file("expected.npz")).unwrap()).unwrap();
    let mut found = Vec::new();
    for place in 0..archive.len() {
        let mut entry = archive.by_index(place).unwrap();
        let name = entry.name().unwrap().into_owned();
        let Some(rest) = name.strip_suffix(".npy").and_then(|name| name.strip_prefix(prefix)).map(str::to_owned) else {
            continue;
        };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = String::from_utf8(bytes[10..10 + length].to_vec()).unwrap();
        let shape = header.split("'shape': (").nth(1).unwrap().split(')').next().unwrap();
        let shape = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
        found.push((rest, Array { shape, bytes: bytes[10 + length..].to_vec() }));
    }
    assert!(!found.is_empty(), "{prefix}");
    found
}
