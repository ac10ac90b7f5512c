//! Pictures and texts against Pillow and `transformers`, sources of every kind, bad files, stops, and the hub.
//!
//! `tests/files` was made by `benchmarks/embed_fixtures.py`. Tests that run an encoder need ONNX Runtime: the library that
//! `ORT_DYLIB_PATH` names, or Python's `onnxruntime` in the project's `.venv`; they say so where there is none.

#![allow(clippy::unwrap_used)] // a test may panic

mod bad;
mod encoders;
mod expected;
mod hub;
mod items;
mod pictures;
mod server;
mod stops;

use std::path::{Path, PathBuf};

use dance::Context;
use dance_embed::{Encoder, EncoderOptions, Modality};

/// A file of the fixtures.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("files").join(name)
}

/// ONNX Runtime, if it is here.
fn runtime() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ORT_DYLIB_PATH") {
        return Some(named.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv");
    for environment in [root.clone(), root.join("benchmarks")] {
        let versions = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
        let packages = versions.map(|version| version.path().join("site-packages/onnxruntime/capi"));
        if let Some(folder) = packages.into_iter().find(|folder| folder.is_dir()) {
            return Some(folder);
        }
    }
    eprintln!("skipped: needs ONNX Runtime; `pip install onnxruntime` into .venv, or set ORT_DYLIB_PATH");
    None
}

/// The tiny CLIP.
fn clip(modality: Modality, context: &Context<'_>) -> Option<Encoder> {
    let options = EncoderOptions { runtime: Some(runtime()?), ..EncoderOptions::default() };
    Some(Encoder::open(file("clip").to_str().unwrap(), modality, &options, context).unwrap())
}

/// The cosine of two vectors.
fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: dance::Result<T>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    }
}
