//! Damaged files: whatever is cut off or overwritten, reading ends with a table or an error, never with a panic or with
//! memory that the file does not justify.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use dance::data::io::{self, ReadOptions};
use proptest::prelude::*;

use super::fixture;

/// The system's allocator, with a memory of the largest piece that this thread has asked for.
struct Largest;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code)] // A global allocator cannot be written without; every call goes to the system's.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(size));
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

/// No file here has more than 2 KB, so nothing justifies more than this; the Parquet reader grants any page 4 MiB.
const JUSTIFIED: usize = 16 << 20;

/// One file of every format and codec, all valid.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let mut names = vec![
        "f4.npy",
        "f2_big_fortran.npy",
        "everything.npz",
        "compressed.npz",
        "bytes.npz",
        "everything.safetensors",
        "f4.safetensors",
    ];
    if cfg!(feature = "parquet") {
        names.extend([
            "pyarrow.parquet",
            "gzip_fixed_double.parquet",
            "lz4_half.parquet",
            "brotli_v2.parquet",
            "plain.parquet",
            "polars.parquet",
        ]);
    }
    let mut files: Vec<_> = names.into_iter().map(|name| (name, std::fs::read(fixture(name)).unwrap())).collect();
    files.push(("text.csv", "label,x0,id,x1\ncat,1.5,a,-2\n\"d\u{f6}g\",.25,b,4\n".into()));
    files.push(("text.tsv", "label\tx0\n0\t1.5\n1\t-2\n".into()));
    files
}

/// Reads `bytes` and asserts that a table is consistent and that memory was not wasted.
fn read(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    LARGEST.set(0);
    let result = io::read(&path, &ReadOptions::default());
    if LARGEST.get() > JUSTIFIED {
        return Err(format!("{name}: allocated {} bytes at once", LARGEST.get()));
    }
    match result {
        Ok(table) => table.checked().map(|_| ()).map_err(|error| error.to_string()),
        Err(error) if error.to_string().contains(name) => Ok(()),
        Err(error) => Err(format!("{name}: the message does not name the file: {error}")),
    }
}

#[test]
fn every_prefix_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files() {
        for length in 0..bytes.len() {
            read(&folder, name, &bytes[..length]).unwrap();
        }
    }
}

#[test]
fn every_prefix_of_a_binary_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files().into_iter().filter(|(name, _)| !name.starts_with("text")) {
        let path = folder.path().join(name);
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(io::read(&path, &ReadOptions::default()).is_err(), "{length} bytes of {name} were read");
        }
    }
}

#[test]
fn every_byte_overwritten_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, mut bytes) in files() {
        for at in 0..bytes.len() {
            let whole = bytes[at];
            for change in [0xff, 0x01] {
                bytes[at] = whole ^ change;
                read(&folder, name, &bytes).unwrap();
            }
            bytes[at] = whole;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_overwritten_are_read_or_refused(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (name, mut bytes) = file.get(&files()).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Err(problem) = read(&folder, name, &bytes) {
            return Err(TestCaseError::fail(problem));
        }
    }
}
