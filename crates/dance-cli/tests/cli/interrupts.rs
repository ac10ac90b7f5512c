//! Ctrl-C: the program ends at once, with an error, and no file is half there.
#![cfg(unix)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Ran, command, names, scratch, shared};

fn send(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupted_fit_leaves_no_file() {
    for (signal, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let (folder, at) = scratch();
        std::fs::write(at("model"), "what was there before").unwrap();
        let child = command(&["fit", &shared("small.npz"), "-o", &at("model"), "--evaluations", "100000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let begin = Instant::now();
        send(signal, child.id());
        let ran = Ran::new(child.wait_with_output().unwrap()).code(status);
        assert!(ran.stderr.contains("interrupted; no partial file"), "{}", ran.stderr);
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert_eq!(ran.stdout, "");
        assert_eq!(names(folder.path()), ["model"]);
        assert_eq!(std::fs::read_to_string(at("model")).unwrap(), "what was there before");
    }
}

#[test]
fn an_interrupted_stream_leaves_no_file() {
    let (folder, at) = scratch();
    let mut child = command(&["predict", &shared("model"), "-", "-o", &at("sets.jsonl")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take(); // kept open: it waits for a line
    let begin = Instant::now();
    while !names(folder.path()).iter().any(|name| name.contains("sets.jsonl")) {
        assert!(begin.elapsed() < Duration::from_secs(20), "no temporary file appeared");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    send("-INT", child.id());
    Ran::new(child.wait_with_output().unwrap()).code(130);
    drop(stdin);
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// A signal that was ignored at the start stays ignored, and a signal ends the program even without stderr.
#[cfg(target_os = "linux")]
#[test]
fn ignored_signals_stay_ignored() {
    let (_folder, at) = scratch();
    let fit = format!("{} fit {} -o {}", super::binary().display(), shared("small.npz"), at("model"));
    let begin = |line: &str| {
        let child = Command::new("sh").args(["-c", line]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        std::thread::sleep(Duration::from_millis(500));
        child.unwrap()
    };
    let mut ignoring = begin(&format!("trap '' HUP; exec {fit} --evaluations 30"));
    send("-HUP", ignoring.id());
    assert!(ignoring.wait().unwrap().success());
    assert!(std::path::Path::new(&at("model")).exists());
    // Without stderr the handler ends the program too.
    let mut deaf = begin(&format!("exec {fit} --evaluations 100000 2>&-"));
    send("-TERM", deaf.id());
    assert_eq!(deaf.wait().unwrap().code(), Some(143));
}
