//! Disks that fail: at the rename, at the flush, at the write, and full ones.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::super::{Ran, binary, names};
use super::{BENCH, WRITERS, folder, shell};

const OLD: &str = "what was there before";

/// Runs `dance` in a folder under strace, which has system calls fail that match `calls`, from the first on.
fn failing(folder: &Path, calls: &str, arguments: &[&str]) -> Ran {
    let inject = format!("inject={calls}:error=EIO:when=1+");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject]).arg(binary()).args(arguments);
    Ran::new(command.current_dir(folder).output().unwrap())
}

/// Returns whether system calls can be made to fail here.
fn can_inject() -> bool {
    let nothing = ["-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"];
    let able = Command::new("strace").args(nothing).output().is_ok_and(|output| output.status.success());
    if !able {
        println!("no strace here, or it may not trace: failures of rename and fsync are not tried");
    }
    able
}

#[test]
fn a_failing_rename_or_flush_leaves_what_was_there() {
    if !can_inject() {
        return;
    }
    for writer in WRITERS {
        for calls in ["/^rename", "fsync"] {
            let folder = folder();
            let mut before = names(folder.path());
            for name in writer.outputs {
                fs::write(folder.path().join(name), OLD).unwrap();
                before.push((*name).to_owned());
            }
            before.sort();
            let ran = failing(folder.path(), calls, writer.arguments).code(2);
            let message = format!("dance: {}: cannot be written: Input/output error", writer.outputs[0]);
            assert!(ran.stderr.contains(&message), "{} {calls}: {}", writer.name, ran.stderr);
            assert_eq!(names(folder.path()), before, "{} {calls}", writer.name);
            for name in writer.outputs {
                let found = fs::read_to_string(folder.path().join(name)).unwrap();
                assert_eq!(found, OLD, "{} {calls}: {name}", writer.name);
            }
        }
    }
    let folder = folder();
    for calls in ["/^rename", "fsync"] {
        let ran = failing(folder.path(), calls, &BENCH).code(2);
        assert!(ran.stderr.contains("out/results.json: cannot be written"), "{}", ran.stderr);
        assert_eq!(names(&folder.path().join("out")), Vec::<String>::new());
    }
}

/// A file system of one page, which is taken: the file is named in one line, in the system's words, and nothing is
/// left.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let folder = folder();
    fs::create_dir(folder.path().join("full")).unwrap();
    let mount = "mount -t tmpfs -o size=4k none full && head -c 4096 /dev/zero > full/taken";
    let able = Command::new("unshare").args(["-rm", "sh", "-c", mount]).current_dir(folder.path()).output();
    if !able.is_ok_and(|output| output.status.success()) {
        println!("no file system can be mounted here: a full disk is not tried");
        return;
    }
    for (arguments, file) in [
        ("fit d.csv -o full/m --evaluations 1", "full/m"),
        ("fit d.csv -o m1 --split 0.4,0.4,0.2 --test-out full/t.npz --evaluations 1", "full/t.npz"),
        ("recalibrate m d.csv -o full/m", "full/m"),
        ("predict m d.csv -o full/s.jsonl --include neighbors", "full/s.jsonl"),
        ("predict m d.csv -o full/s.csv --include neighbors", "full/s.csv"),
        ("predict m d.csv -o full/s.npz --include neighbors,p-values", "full/s.npz"),
        ("predict m d.csv -o full/s.parquet --include neighbors,p-values,probabilities", "full/s.parquet"),
        ("demo d.csv --report full/r.html --evaluations 1", "full/r.html"),
        ("bench d.csv -o full/b --seeds 1 --evaluations 1 --methods aps", "full/b/results.json"),
    ] {
        let line = format!("{mount}; '{}' {arguments}; code=$?; find full -type f; exit $code", binary().display());
        let run = Command::new("unshare").args(["-rm", "sh", "-c", &line]).current_dir(folder.path()).output();
        let ran = Ran::new(run.unwrap()).code(2);
        assert_eq!(ran.stdout, "full/taken\n", "{arguments}");
        let message = ran.stderr.lines().last().unwrap_or_default();
        assert!(message.starts_with(&format!("dance: {file}: ")), "{arguments}: {message}");
        assert!(message.contains("No space left on device"), "{arguments}: {message}");
        for library in ["Error", "External", "Custom", "kind:", "Os {"] {
            assert!(!message.contains(library), "{arguments}: {message}");
        }
    }
}

/// A disk that fills while answers stream to a file: no half file.
#[test]
fn a_stream_to_a_full_disk_leaves_nothing() {
    let folder = folder();
    let before = names(folder.path());
    let ran = shell(
        folder.path(),
        "trap '' XFSZ; for i in 1 2 3 4 5 6 7 8 9; do echo '[1,2,3]'; done > l.jsonl; ulimit -f 1; \
         dance predict m l.jsonl -o s.jsonl --include neighbors",
    );
    ran.fails(&["s.jsonl", "File too large"]);
    fs::remove_file(folder.path().join("l.jsonl")).unwrap();
    assert_eq!(names(folder.path()), before);
}
