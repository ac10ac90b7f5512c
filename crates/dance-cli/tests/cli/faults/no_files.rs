//! Paths that are not regular files, and files without end: refused at once, in little memory.

use std::fs::{self, File};
use std::process::Command;

use super::{folder, shell};

/// Commands with a path that must be a file: a model or a file of options.
const FILES: [&str; 4] =
    ["predict IN d.csv", "evaluate IN d.csv", "recalibrate IN d.csv -o out", "fit d.csv -o out --config IN"];
/// Commands with a path that may be a pipe: points and labels.
const DATA: [&str; 5] = [
    "inspect IN.safetensors",
    "predict m IN.csv",
    "fit IN.npz -o out",
    "fit d.csv --labels IN.txt -o out",
    "bench IN.csv --seeds 1",
];

#[test]
fn pipes_and_folders_are_refused_and_nothing_waits() {
    let folder = folder();
    for arguments in FILES.into_iter().chain(DATA) {
        let name = arguments.split(' ').find(|word| word.starts_with("IN")).unwrap();
        let path = folder.path().join(name);
        if FILES.contains(&arguments) {
            // The other end of the pipe is never opened.
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let ran = shell(folder.path(), &format!("timeout 20 \"$DANCE\" {arguments}")).code(2);
            assert!(ran.stderr.contains(&format!("{name}: is not a regular file")), "{arguments}: {}", ran.stderr);
            fs::remove_file(&path).unwrap();
        }
        fs::create_dir(&path).unwrap();
        let ran = shell(folder.path(), &format!("timeout 20 \"$DANCE\" {arguments}")).code(2);
        assert!(ran.stderr.contains(&format!("{name}: is a directory")), "{arguments}: {}", ran.stderr);
        fs::remove_dir(&path).unwrap();
    }
    // A pipe with the name of a temporary file, as a killed run might leave one, does not block the run.
    assert!(Command::new("mkfifo").arg(folder.path().join(".out.x.tmp")).status().unwrap().success());
    shell(folder.path(), "timeout 20 \"$DANCE\" recalibrate m d.csv -o out").success();
}

/// Gigabytes without the end of a line, which take no room on the disk, under a limit of a quarter of a gigabyte of
/// addresses.
#[cfg(target_os = "linux")]
#[test]
fn a_line_without_end_is_refused_in_little_memory() {
    let folder = folder();
    for (name, begin, arguments, message) in [
        ("l.csv", "", "inspect l.csv", "l.csv: line 1: a row is longer than 2.0 MiB"),
        ("q.csv", "label,x\na,1\nb,\"", "inspect q.csv", "q.csv: line 3: a row is longer than 2.0 MiB"),
        ("l.tsv", "x\n1\n", "fit l.tsv -o out", "l.tsv: line 3: a row is longer"),
        ("l.txt", "a\n", "fit d.csv --labels l.txt -o out", "l.txt: line 2: is longer than any label"),
        ("n.csv", "label\n", "fit d.csv --labels n.csv -o out", "n.csv: line 2: a row is longer"),
        ("c.toml", "seed = 1\n", "inspect d.csv --config c.toml", "c.toml: is longer than 1.0 MiB"),
        ("model", "", "predict model d.csv", "model: "),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, begin).unwrap();
        File::options().append(true).open(&path).unwrap().set_len(8 << 30).unwrap();
        let line = format!("ulimit -v 262144; timeout 60 \"$DANCE\" {arguments} --threads 1");
        let ran = shell(folder.path(), &line).code(2);
        assert!(ran.stderr.contains(message), "{arguments}: {}", ran.stderr);
        fs::remove_file(path).unwrap();
    }
    // Rows of many columns cost more than their bytes.
    fs::write(folder.path().join("w.csv"), "a,".repeat((1 << 20) - 2) + "b\n1\n").unwrap();
    shell(folder.path(), "ulimit -v 262144; exec \"$DANCE\" inspect w.csv --threads 1").fails(&["w.csv"]);
}

/// A cell of a megabyte is not repeated in the message about it.
#[test]
fn messages_are_short() {
    let folder = folder();
    let long = "y".repeat(3 << 19);
    fs::write(folder.path().join("l.csv"), format!("label,x\na,{long}\n")).unwrap();
    fs::write(folder.path().join("h.csv"), format!("label,{long}\na,no\n")).unwrap();
    fs::write(folder.path().join("c.toml"), format!("{} = 1\n", &long[..1 << 19])).unwrap();
    for arguments in
        ["inspect l.csv", "inspect h.csv", "fit h.csv -o out --label-column lab", "inspect d.csv --config c.toml"]
    {
        let ran = shell(folder.path(), &format!("dance {arguments}")).code(2);
        assert!(ran.stderr.len() < 3000 && ran.stderr.contains("yyy"), "{arguments}: {}", ran.stderr.len());
        assert_eq!(ran.stderr.lines().count(), 1, "{arguments}");
    }
}

/// A line of 60 MB costs no more than the longest that makes sense, and the others are answered.
#[cfg(target_os = "linux")]
#[test]
fn a_long_line_of_json_costs_little() {
    let folder = folder();
    let long = "0.125,".repeat(10_000_000);
    fs::write(folder.path().join("l.jsonl"), format!("[1,2,3]\n[{long}1]\n[4,5,6]\n")).unwrap();
    let line = "ulimit -v 262144; exec \"$DANCE\" predict m l.jsonl --threads 1 --on-error report";
    let ran = shell(folder.path(), line).code(1);
    let answers: Vec<bool> = ran.stdout.lines().map(|line| line.contains("\"error\"")).collect();
    assert_eq!(answers, [false, true, false]);
}
