//! Faults during a run: kills at any moment, full or failing disks, two writers, closed outputs and terminals, and
//! paths that are not files. Outputs are complete or absent, and the next run works.
#![cfg(unix)]

mod failures;
mod kills;
mod listeners;
mod no_files;
mod writers;

use std::process::Command;

use super::{Ran, binary};

/// Returns points in the plane around three centers, as CSV. A fit of them takes little time.
fn points(folder: &std::path::Path) {
    use dance::numeric::random::Random;
    let mut random = Random::new(0, 0);
    let mut text = String::from("label,x,y,z\n");
    for row in 0..90 {
        let class = row % 3;
        let mut at = |center: usize| if center == class { 3.0 } else { 0.0 } + random.normal();
        text += &format!("{},{},{},{}\n", ["a", "b", "c"][class], at(0), at(1), at(2));
    }
    std::fs::write(folder.join("d.csv"), text).unwrap();
}

/// A command that writes files, as it is called in a folder with `d.csv` and the model `m`.
struct Writer {
    name: &'static str,
    arguments: &'static [&'static str],
    outputs: &'static [&'static str],
}

/// Every command that writes files of its own.
const WRITERS: [Writer; 7] = [
    Writer {
        name: "fit",
        arguments: &[
            "fit",
            "d.csv",
            "-o",
            "new",
            "--split",
            "0.4,0.4,0.2",
            "--test-out",
            "t.npz",
            "--evaluations",
            "2",
        ],
        outputs: &["new", "t.npz"],
    },
    Writer { name: "predict", arguments: &["predict", "m", "d.csv", "-o", "sets.jsonl"], outputs: &["sets.jsonl"] },
    Writer { name: "predict", arguments: &["predict", "m", "d.csv", "-o", "sets.parquet"], outputs: &["sets.parquet"] },
    Writer { name: "predict", arguments: &["predict", "m", "d.csv", "-o", "sets.npz"], outputs: &["sets.npz"] },
    Writer {
        name: "evaluate",
        arguments: &["evaluate", "m", "d.csv", "--json", "--classes-out", "classes.csv"],
        outputs: &["classes.csv"],
    },
    Writer { name: "recalibrate", arguments: &["recalibrate", "m", "d.csv", "-o", "m2"], outputs: &["m2"] },
    Writer {
        name: "demo",
        arguments: &["demo", "d.csv", "--report", "r.html", "--evaluations", "2"],
        outputs: &["r.html"],
    },
];

/// A bench of four cases.
const BENCH: [&str; 10] =
    ["bench", "d.csv", "-o", "out", "--seeds", "4", "--evaluations", "1", "--methods", "dance,aps"];

/// A folder with the points and a model of them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::TempDir::new().unwrap();
    points(folder.path());
    let fit = ["fit", "d.csv", "-o", "m", "--evaluations", "2"];
    Ran::new(dance(folder.path(), &fit).output().unwrap()).success();
    folder
}

/// The program, in a folder.
fn dance(folder: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).args(["--threads", "2"]).current_dir(folder);
    command
}

/// A line of the shell, in a folder; `dance` and `$DANCE` are the program.
fn shell(folder: &std::path::Path, line: &str) -> Ran {
    let line = format!("dance() {{ \"$DANCE\" \"$@\"; }}\n{line}");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("DANCE", binary()).current_dir(folder);
    Ran::new(command.output().unwrap())
}
