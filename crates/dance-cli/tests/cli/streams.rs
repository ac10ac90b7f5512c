//! JSON lines through stdin and stdout, pipes that close, and a stdout that is full.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use super::{Ran, command, piped, run, shared};

/// The first rows of the small data as JSON lines.
fn lines(rows: usize) -> String {
    let path = shared("small.npz");
    let data = dance::data::io::read(&path, &dance::data::io::ReadOptions::default()).unwrap();
    let line = |row: usize| serde_json::json!({ "embedding": data.embeddings().row(row), "id": row }).to_string();
    (0..rows).map(|row| line(row % data.embeddings().rows()) + "\n").collect()
}

#[test]
fn a_stream_gives_the_sets_of_the_file() {
    let model = shared("model");
    let streamed = piped(&["predict", &model, "-", "-o", "-"], &lines(480)).success();
    let whole = run(&["predict", &model, &shared("small.npz")]).success();
    assert_eq!(streamed.stdout.lines().count(), 480);
    for (streamed, whole) in streamed.stdout.lines().zip(whole.stdout.lines()) {
        let [streamed, whole] = [streamed, whole].map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert_eq!(streamed["id"], streamed["row"], "a number stays a number");
        assert_eq!((&streamed["set"], &streamed["row"]), (&whole["set"], &whole["row"]));
    }
}

#[test]
fn an_answer_comes_before_the_next_question() {
    let mut child = command(&["predict", &shared("model"), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for (row, line) in lines(3).lines().enumerate() {
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("{{\"row\":{row},")), "{answer}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_stream() {
    let text = lines(480);
    let mut child = command(&["predict", &shared("model"), "-", "--threads", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let peak = |id: u32| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    for _ in 0..2 {
        stdin.write_all(text.as_bytes()).unwrap();
    }
    let before = peak(child.id());
    for _ in 0..8 {
        stdin.write_all(text.as_bytes()).unwrap();
    }
    let after = peak(child.id());
    drop(stdin);
    assert!(child.wait().unwrap().success());
    // 8 × 480 × 384 numbers are 15 MB as text; a few buffers may still settle.
    assert!(after < before + 6_000, "{before} kB, then {after} kB");
}

#[test]
fn a_bad_line_is_named() {
    let model = shared("model");
    let good = lines(1);
    let ran = piped(&["predict", &model, "-"], &format!("{good}[1,2]\n")).code(2);
    assert!(ran.stderr.contains("stdin: line 2: 2 numbers, but the model was fitted with 384"), "{}", ran.stderr);
    assert!(piped(&["predict", &model, "-"], "{\"id\":1}\n").code(2).stderr.contains("line 1: must be"));
    assert!(piped(&["predict", &model, "-"], "nonsense\n").code(2).stderr.contains("line 1: not JSON"));
    assert_eq!(piped(&["predict", &model, "-"], "").success().stdout, "");
}

/// One bad line costs one answer. The others are those that a file without it gets.
#[test]
fn a_stream_goes_on_behind_a_bad_line() {
    let model = shared("model");
    let good = lines(6);
    let good: Vec<&str> = good.lines().collect();
    let zeros = serde_json::json!({ "embedding": vec![0.0; 384], "id": "nowhere" }).to_string();
    let text = [good[0], "nonsense", good[1], &zeros, "", "[1,2]", good[2]].join("\n") + "\n";
    let ran = piped(&["predict", &model, "-", "--on-error", "report"], &text).code(1);
    assert!(ran.stderr.contains("3 rows were invalid"), "{}", ran.stderr);
    let answers: Vec<serde_json::Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<(u64, bool)> =
        answers.iter().map(|answer| (answer["row"].as_u64().unwrap(), answer["error"].is_string())).collect();
    assert_eq!(rows, [(0, false), (1, true), (2, false), (3, true), (4, true), (5, false)]);
    assert_eq!([&answers[1]["line"], &answers[3]["line"], &answers[4]["line"]], [2, 4, 6]);
    assert!(answers[4]["error"].as_str().unwrap().contains("2 numbers"));
    let alone = piped(&["predict", &model, "-"], &(good[..3].join("\n") + "\n")).success();
    for (alone, place) in alone.stdout.lines().zip([0, 2, 5]) {
        let alone: serde_json::Value = serde_json::from_str(alone).unwrap();
        assert_eq!((&alone["set"], &alone["id"]), (&answers[place]["set"], &answers[place]["id"]));
    }
    // Without it the stream ends there, and what came before is answered.
    let ran = piped(&["predict", &model, "-"], &text).code(2);
    assert_eq!(ran.stdout.lines().count(), 1);
    assert!(ran.stderr.contains("stdin: line 2: not JSON"), "{}", ran.stderr);
    let ran = piped(&["predict", &model, "-"], &format!("{}\n{zeros}\n{}\n", good[0], good[1])).code(2);
    assert_eq!(ran.stdout.lines().count(), 1, "good rows before a vector of zeros are not lost");
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = command(&["predict", &shared("model"), &shared("small.npz")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::with_capacity(64, child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    drop(stdout); // as `head -1` does
    let ran = Ran::new(child.wait_with_output().unwrap()).success();
    assert!(!ran.stderr.contains("dance:"), "{}", ran.stderr);
    let mut child = command(&["man"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_an_error() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let (model, test) = (shared("model"), shared("test.npz"));
    for arguments in [&["predict", &model, &test][..], &["evaluate", &model, &test], &["inspect", &model], &["man"]] {
        let output = command(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{arguments:?}");
    }
}

#[test]
fn no_progress_bar_in_a_pipe() {
    let ran = run(&["evaluate", &shared("model"), &shared("test.npz")]).success();
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\r'), "{:?}", ran.stderr);
}
