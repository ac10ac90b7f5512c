//! Fuzz targets: any bytes, read as each kind of file, give a value or an error; never a panic, and what was read can
//! be used. `fuzz_targets/` runs them under libFuzzer, `tests/mutants.rs` on the corpus and on mutants of it.

use std::io::{Cursor, Read, Write};
use std::path::PathBuf;
use std::sync::LazyLock;

use dance::data::io::{self, ReadOptions};
use dance::device::Cpu;
use dance::{Context, Dance, Matrix, PredictOptions};
use dance_bench::experiment::Results;
use dance_bench::report;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A target by its name, which is that of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 10] = [
    ("model", model),
    ("npy", npy),
    ("npz", npz),
    ("safetensors", safetensors),
    ("csv", csv),
    ("labels", labels),
    ("parquet", parquet),
    ("jsonl", jsonl),
    ("toml", toml),
    ("results", results),
];

/// One thread, so that failures repeat.
static CONTEXT: LazyLock<Context<'static>> = LazyLock::new(|| Context::new(1).expect("one thread"));
/// The folder of the inputs, since readers take paths. A new folder for each input would take longer than reading.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a temporary folder"));

/// A model file. A model that loads also predicts, and its own bytes load again and are written identically.
///
/// The checksum would stop nearly every mutant, so it is corrected first.
pub fn model(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    fit_checksum(&mut bytes);
    let Ok(model) = Dance::from_bytes(&Cpu, &bytes, "fuzz", &CONTEXT) else { return };
    let written = model.to_bytes().expect("what was read can be written");
    let again = Dance::from_bytes(&Cpu, &written, "written", &CONTEXT).expect("what was written can be read");
    assert!(again.to_bytes().expect("as before") == written, "the second copy differs from the first");
    assert_eq!(predict(&again), predict(&model), "the second copy predicts another set");
}

/// Returns the set of a query; `None` after an error, as numbers of the file may overflow.
fn predict(model: &Dance) -> Option<Vec<u32>> {
    let dimensions = model.fitted().dimensions();
    let query = Matrix::new(vec![0.5; dimensions], 1, dimensions).expect("one row of finite numbers");
    let scored = model.score(&query, PredictOptions::default(), &CONTEXT).ok()?;
    let sets = model.predict(&scored, &model.decide(0.1).ok()?).sets;
    assert_eq!(sets.len(), 1);
    Some(sets.get(0).to_vec())
}

/// An `.npy` file of embeddings.
pub fn npy(bytes: &[u8]) {
    read("npy", bytes);
}

/// An `.npz` file, from a file and from memory. It is also read with the same members packed again, since a checksum in
/// the archive would stop nearly every mutation of their contents.
pub fn npz(bytes: &[u8]) {
    read("npz", bytes);
    let _ = io::read_npz_bytes("memory", bytes);
    if let Some(bytes) = packed_again(bytes) {
        read("npz", &bytes);
    }
}

/// A safetensors file of embeddings.
pub fn safetensors(bytes: &[u8]) {
    read("safetensors", bytes);
}

/// A text table, read as `.csv` and as `.tsv`.
pub fn csv(bytes: &[u8]) {
    read("csv", bytes);
    read("tsv", bytes);
}

/// A Parquet file.
pub fn parquet(bytes: &[u8]) {
    read("parquet", bytes);
}

/// A file of labels, beside embeddings of three points. The first byte chooses its kind.
pub fn labels(bytes: &[u8]) {
    static EMBEDDINGS: LazyLock<PathBuf> = LazyLock::new(|| write("embeddings.csv", b"x\n1\n2\n3\n"));
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let extension = ["txt", "csv", "tsv", "npy"][*kind as usize % 4];
    let labels = Some(write(&format!("labels.{extension}"), bytes));
    let read = io::read(EMBEDDINGS.as_path(), &ReadOptions { labels, ..ReadOptions::default() });
    if let Ok(table) = read {
        assert_eq!(table.labels.as_ref().map(dance::data::RawLabels::len), Some(3));
        let _ = table.into_dataset();
    }
}

/// JSON lines, as `predict` reads them. The first byte gives the number of dimensions.
pub fn jsonl(bytes: &[u8]) {
    let Some((dimensions, bytes)) = bytes.split_first() else { return };
    dance_cli::fuzz::json_lines(bytes, 1 + *dimensions as usize % 4);
}

/// A file of options. Its length chooses the command.
pub fn toml(bytes: &[u8]) {
    let command = ["fit", "predict", "bench", "man"][bytes.len() % 4];
    dance_cli::fuzz::options(command, &write("options.toml", bytes));
}

/// The results of a bench, which the next run continues. They are written, read again unchanged, and reported.
pub fn results(bytes: &[u8]) {
    let Ok(results) = Results::read(&write("results.json", bytes)) else { return };
    let _ = results.plan.check();
    let written = serde_json::to_vec(&results).expect("what was read can be written");
    let again = Results::read(&write("again.json", &written)).expect("what was written can be read");
    assert!(again == results, "the second copy differs from the first");
    for table in report::all_tables(&results) {
        let _ = (table.to_markdown(), report::to_csv(&table), table.to_text());
    }
    let _ = report::page::html(&results);
}

/// Reads a file of embeddings, and checks that the result is consistent.
fn read(extension: &str, bytes: &[u8]) {
    io::silence_caught_panics(); // libFuzzer stops at every reported panic
    let Ok(table) = io::read(write(&format!("input.{extension}"), bytes), &ReadOptions::default()) else {
        return;
    };
    assert!(table.embeddings().rows() > 0 && table.embeddings().cols() > 0);
    assert!(table.embeddings().as_slice().iter().all(|value| value.is_finite()));
    let rows = table.embeddings().rows();
    if let Ok(data) = table.into_dataset() {
        assert_eq!(data.len(), rows);
        assert!(data.labels.iter().all(|&label| (label as usize) < data.classes.len()));
    }
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.path().join(name);
    std::fs::write(&path, bytes).expect("the temporary folder can be written");
    path
}

/// Packs the readable contents of every member again, with a checksum that fits.
fn packed_again(bytes: &[u8]) -> Option<Vec<u8>> {
    const MOST: u64 = 1 << 20;
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).ok()?;
    let mut packed = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for place in 0..archive.len() {
        let Ok(mut member) = archive.by_index(place) else { continue };
        let method = member.compression();
        let mut contents = Vec::new();
        let _ = member.by_ref().take(MOST).read_to_end(&mut contents); // a wrong checksum comes after the contents
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        packed.start_file(member.name().ok()?, options).ok()?;
        packed.write_all(&contents).ok()?;
    }
    Some(packed.finish().ok()?.into_inner())
}

/// Corrects the checksum (`docs/format.md`): the SHA-256 of the file with its own digits set to 0.
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
