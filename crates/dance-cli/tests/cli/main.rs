//! Tests of the binary: every command, every error, pipes, interruptions and full disks.

#![allow(clippy::unwrap_used)] // a test may panic

mod after;
mod audit;
mod bench;
#[cfg(feature = "serve")]
mod client;
mod commands;
mod configuration;
mod demo;
mod devices;
#[cfg(feature = "embed")]
mod embed;
mod errors;
mod evaluate;
mod faults;
mod formats;
mod guarantees;
mod interrupts;
mod kinds;
mod readers;
#[cfg(feature = "parquet")]
mod scale;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod serve_access;
#[cfg(feature = "serve")]
mod serve_kinds;
#[cfg(feature = "serve")]
mod serve_protocol;
mod streams;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

/// Small files that all tests share: 480 points of the shipped data in every format, and a model fitted on some of
/// them.
struct Shared {
    folder: TempDir,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordnet_minilm.npz");
    let at = |name: &str| folder.path().join(name).display().to_string();
    // These fits are only needed for their test part: a tenth of the data, in every format.
    for (name, extension) in [("small.npz", "npz"), ("small.csv", "csv"), ("small.parquet", "parquet")] {
        let scratch = at(&format!("scratch-{extension}"));
        run(&[
            "fit",
            shipped,
            "-o",
            &scratch,
            "--split",
            "0.1,0.8,0.1",
            "--test-out",
            &at(name),
            "--evaluations",
            "1",
            "--rounds",
            "0",
            "--method",
            "dance",
        ])
        .success();
    }
    run(&[
        "fit",
        &at("small.npz"),
        "-o",
        &at("model"),
        "--split",
        "0.4,0.4,0.2",
        "--test-out",
        &at("test.npz"),
        "--evaluations",
        "2",
        "--rounds",
        "1",
    ])
    .success();
    Shared { folder }
});

fn shared(name: &str) -> String {
    SHARED.folder.path().join(name).display().to_string()
}

/// A folder of the test's own.
fn scratch() -> (TempDir, impl Fn(&str) -> String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_owned();
    (folder, move |name: &str| path.join(name).display().to_string())
}

fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("dance").to_path_buf()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Ran {
    Ran::new(command(arguments).output().unwrap())
}

/// Runs the binary with `input` on stdin.
fn piped(arguments: &[&str], input: &str) -> Ran {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // On a thread, because answers arrive while the input is written.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::new(output)
}

/// The exit status and the output of a run.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn success(self) -> Self {
        self.code(0)
    }

    #[track_caller]
    fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Asserts an error: exit status 2, nothing on stdout, and a message that contains all `parts`.
    #[track_caller]
    fn fails(self, parts: &[&str]) -> Self {
        let ran = self.code(2);
        assert_eq!(ran.stdout, "");
        for part in parts {
            assert!(ran.stderr.contains(part), "`{}` does not contain `{part}`", ran.stderr);
        }
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }

    #[track_caller]
    fn prints(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "`{}` does not contain `{part}`", self.stdout);
        }
        self
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Writes points in three clusters to a .csv or .jsonl file, with the labels and ids that the functions return.
fn toy(path: &str, rows: usize, label: impl Fn(usize) -> String, id: impl Fn(usize) -> String) {
    let line = |row: usize| {
        let numbers =
            (0..4).map(|at| f64::from(u8::from(row % 3 == at)) * 5.0 + ((row * 7 + at * 3) % 11) as f64 / 9.0 + 0.1);
        let numbers: Vec<f64> = numbers.collect();
        if path.ends_with("jsonl") {
            format!("{{\"embedding\":{numbers:?},\"label\":{},\"id\":{}}}\n", label(row), id(row))
        } else {
            format!(
                "{},{},{}\n",
                label(row),
                id(row),
                numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            )
        }
    };
    let header = if path.ends_with("jsonl") { "" } else { "label,id,a,b,c,d\n" };
    std::fs::write(path, header.to_owned() + &(0..rows).map(line).collect::<String>()).unwrap();
}

/// Fits with the fewest evaluations.
fn fit_toy(data: &str, model: &str, extra: &[&str]) -> Ran {
    let quick = ["--evaluations", "1", "--rounds", "0", "--split", "0.4,0.4,0.2"];
    run(&[&["fit", data, "-o", model], &quick[..], extra].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
