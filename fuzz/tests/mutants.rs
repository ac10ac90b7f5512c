//! Every target on its corpus, and on seeded mutants of it: the same ones every time. It finds less than libFuzzer
//! (`make fuzz`), which sees which code an input reaches, but it needs nothing and runs with the other tests.
//! `DANCE_MUTANTS` sets how many mutants each target gets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use dance::numeric::random::Random;
use dance_fuzz::{TARGETS, Target};

/// Per target; all of them take seconds.
const MUTANTS: usize = 2000;
/// Most changes in one mutant.
const MOST_CHANGES: usize = 4;
/// Numbers that are on the edge of something, as lengths and counts in binary formats are written.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

#[test]
fn model() {
    check("model");
}

#[test]
fn numpy() {
    check("npy");
    check("npz");
}

#[test]
fn safetensors() {
    check("safetensors");
}

#[test]
fn text() {
    check("csv");
    check("labels");
    check("jsonl");
    check("toml");
}

#[test]
fn results() {
    check("results");
}

#[test]
fn parquet() {
    check("parquet");
}

#[test]
fn every_target_has_a_program_and_is_tested_here() {
    let here = include_str!("mutants.rs");
    for (name, _) in TARGETS {
        assert!(folder().join("fuzz_targets").join(format!("{name}.rs")).exists(), "{name} has no program");
        assert!(here.contains(&format!("check(\"{name}\")")), "{name} is not tested");
    }
}

fn check(name: &str) {
    let target = *TARGETS.iter().find(|(other, _)| *other == name).expect("a target");
    let corpus = corpus(name);
    for input in &corpus {
        run(target, input);
    }
    let mutants =
        std::env::var("DANCE_MUTANTS").map_or(MUTANTS, |text| text.parse().expect("DANCE_MUTANTS is a number"));
    let mut random = Random::new(0, 0);
    for _ in 0..mutants {
        run(target, &mutant(&corpus, &mut random));
    }
}

/// Runs a target; an input that fails is kept for `cargo fuzz run NAME FILE`.
fn run((name, target): Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let folder = folder().join("artifacts").join(name);
        std::fs::create_dir_all(&folder).expect("a folder for what failed");
        let path = folder.join(format!("mutant-{}", input.len()));
        std::fs::write(&path, input).expect("what failed is kept");
        panic!("{name} failed on {}; see the panic above", path.display());
    }
}

/// A file of the corpus with a few changes: bits, bytes, numbers, pieces lost, doubled or taken from another file.
fn mutant(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(MOST_CHANGES) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(16)).min(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => {
                let number = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = (1 << random.below(4)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len().max(1)).min(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            // Text formats live by their digits and signs.
            _ => bytes[at] = b"0123456789-+.eE,\"\n\t {}[]:"[random.below(25)],
        }
    }
    bytes
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = folder().join("corpus").join(name);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a corpus that can be listed").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("a corpus that can be read")).collect()
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
