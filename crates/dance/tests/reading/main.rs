//! Reading files: every format, every type, and everything that can be wrong with a file.
//!
//! What is expected never comes from our own readers: the bytes are assembled by hand, or written by the libraries that
//! users write theirs with (`../fixtures/make.py`).

// A helper of a test may fail as a test does; and what is read is compared with an Option.
#![allow(clippy::unwrap_used, clippy::unnecessary_wraps)]

use std::path::{Path, PathBuf};

use dance::data::RawLabels;
use dance::data::io::{self, ReadOptions};
use dance::{Error, Matrix, Result, Table};

mod damaged;
mod jsonl;
mod numpy;
#[cfg(feature = "parquet")]
mod parquet;
mod safetensors;
mod text;

/// The embeddings in most fixtures, exact in every float type.
const X: [f32; 6] = [1.5, -2.0, 0.25, 4.0, -0.5, 8.0];

fn x() -> Matrix {
    Matrix::new(X.to_vec(), 3, 2).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read_fixture(name: &str) -> Result<Table> {
    io::read(fixture(name), &ReadOptions::default())
}

/// Reads `bytes` from a file of that name.
fn read_bytes(name: &str, bytes: impl AsRef<[u8]>) -> Result<Table> {
    read_with(name, bytes, &ReadOptions::default())
}

fn read_with(name: &str, bytes: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Table> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    io::read(&path, options)
}

/// Reads embeddings of 3 rows with labels from a file of that name and content.
fn read_with_labels(name: &str, bytes: impl AsRef<[u8]>) -> Result<Option<RawLabels>> {
    let folder = tempfile::tempdir().unwrap();
    let labels = folder.path().join(name);
    std::fs::write(&labels, bytes).unwrap();
    let options = ReadOptions { labels: Some(labels), ..ReadOptions::default() };
    io::read(fixture("f4.npy"), &options).map(|table| table.labels)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn words(words: &[&str]) -> Option<RawLabels> {
    Some(RawLabels::Names(names(words)))
}

fn integers(values: &[i64]) -> Option<RawLabels> {
    Some(RawLabels::Integers(values.to_vec()))
}

/// Asserts that reading failed, and that the message says each of `parts`.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T>, parts: &[&str]) -> Error {
    let error = result.expect_err("should have been refused");
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    }
    error
}

#[test]
fn a_missing_file_is_an_io_error_that_names_it() {
    let error = assert_refused(io::read(Path::new("no/such.npz"), &ReadOptions::default()), &["no/such.npz"]);
    assert!(matches!(error, Error::Io { .. }));
}

#[test]
fn a_directory_is_refused() {
    let folder = tempfile::Builder::new().suffix(".npz").tempdir().unwrap();
    assert_refused(io::read(folder.path(), &ReadOptions::default()), &["is a directory"]);
}

#[test]
fn an_unknown_extension_lists_the_known_ones() {
    for name in ["x.pkl", "x.h5", "x"] {
        assert_refused(read_bytes(name, "1"), &[".npz", ".npy", ".safetensors", ".csv", ".tsv", ".parquet"]);
    }
}

#[test]
fn extensions_may_be_upper_case() {
    assert_eq!(read_bytes("X.CSV", "a,b\n1,2\n").unwrap().embeddings().as_slice(), [1.0, 2.0]);
}

#[test]
fn empty_files_say_so() {
    for extension in io::EXTENSIONS {
        assert_refused(read_bytes(&format!("x.{extension}"), ""), &["0 bytes"]);
    }
}

#[test]
fn a_file_under_the_wrong_name_is_recognised() {
    let bytes = |name| std::fs::read(fixture(name)).unwrap();
    for extension in io::EXTENSIONS {
        let name = format!("x.{extension}");
        if extension != "npy" {
            assert_refused(read_bytes(&name, bytes("f4.npy")), &["begins like a NumPy array"]);
        }
        if extension != "npz" {
            assert_refused(read_bytes(&name, bytes("bytes.npz")), &["begins like a zip archive"]);
        }
        if extension != "parquet" {
            assert_refused(read_bytes(&name, bytes("plain.parquet")), &["begins like a Parquet file"]);
        }
    }
    for extension in ["npy", "npz", "parquet"] {
        assert_refused(read_bytes(&format!("x.{extension}"), "label,x\n"), &["does not begin as"]);
    }
    assert_refused(read_bytes("x.safetensors", "label,x\n"), &["safetensors"]);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_parquet_is_refused_with_the_reason() {
    assert_refused(read_fixture("pyarrow.parquet"), &["feature `parquet`"]);
}
