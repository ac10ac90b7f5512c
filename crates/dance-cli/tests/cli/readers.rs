//! Reading: `--format`, pipes, JSON lines, several levels at once, and rows without a label.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use super::{Ran, command, fit_toy, names, run, scratch, shared, toy};

fn with_input(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child =
        command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::new(output)
}

#[test]
fn every_format_comes_through_a_pipe() {
    let (_folder, at) = scratch();
    let (model, small) = (shared("model"), shared("small.npz"));
    let expected = run(&["predict", &model, &small]).success().stdout;
    for format in ["npz", "csv", "parquet"] {
        let bytes = std::fs::read(shared(&format!("small.{format}"))).unwrap();
        let stdin = if cfg!(target_os = "linux") { "/dev/stdin" } else { "-" };
        for name in ["-", stdin] {
            let found = with_input(&["predict", &model, name, "--format", format], &bytes).success();
            assert!(found.stdout == expected, "{format} through {name}");
        }
        // Every command reads the pipe as it reads the file.
        let out = at("piped");
        let quick = ["--evaluations", "1", "--kernel", "rounds=0"];
        with_input(&[&["fit", "-", "--format", format, "-o", &out], &quick[..]].concat(), &bytes).success();
        run(&[&["fit", &small, "-o", &at("whole")], &quick[..]].concat()).success();
        assert!(std::fs::read(&out).unwrap() == std::fs::read(at("whole")).unwrap(), "{format}");
        with_input(&["evaluate", &model, "-", "--format", format], &bytes).success();
        with_input(&["recalibrate", &model, "-", "--format", format, "-o", &at("again")], &bytes).success();
    }
    with_input(&["fit", "-", "-o", &at("m")], b"x").fails(&["has no known extension", "--format"]);
    with_input(&["fit", "-", "-o", &at("m"), "--format", "npz"], b"").fails(&["stdin", "0 bytes"]);
    with_input(&["fit", "-", "-o", &at("m"), "--format", "csv", "--calibration-data", "-"], b"x").fails(&["once"]);
    run(&["fit", &small, "-o", &at("m"), "--format", "xls"]).fails(&["npz, npy, safetensors"]);
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_shell_puts_in_the_place_of_a_file() {
    let (program, model, small) = (super::binary().display().to_string(), shared("model"), shared("small.csv"));
    let script = format!("'{program}' predict '{model}' <(cat '{small}') --format csv");
    let Ok(output) = std::process::Command::new("bash").args(["-c", &script]).output() else { return };
    assert_eq!(Ran::new(output).success().stdout, run(&["predict", &model, &small]).success().stdout);
    run(&["evaluate", &model, "/dev/zero", "--format", "csv"])
        .fails(&["/dev/zero", "neither a regular file nor a pipe"]);
}

#[test]
fn json_lines_wherever_a_file_is_read_and_every_format_from_them() {
    let (_folder, at) = scratch();
    let (lines, table) = (at("d.jsonl"), at("d.csv"));
    for path in [&lines, &table] {
        toy(path, 90, |row| (row % 3).to_string(), |row| row.to_string());
    }
    fit_toy(&lines, &at("m"), &[]).success();
    fit_toy(&table, &at("m2"), &[]).success();
    assert!(std::fs::read(at("m")).unwrap() == std::fs::read(at("m2")).unwrap(), "the same data, the same model");
    for arguments in [
        &["evaluate", &at("m"), &lines, "--alpha", "0.2"][..],
        &["explain", &at("m"), &lines, "--row", "0"],
        &["recalibrate", &at("m"), &lines, "-o", &at("m3")],
        &["inspect", &lines],
        &["bench", &lines, "--seeds", "1", "--evaluations", "1", "--methods", "lac"],
    ] {
        run(arguments).success();
    }
    for extension in ["jsonl", "csv", "parquet", "npz"] {
        let [ours, theirs] = [at(&format!("lines.{extension}")), at(&format!("table.{extension}"))];
        run(&["predict", &at("m"), &lines, "-o", &ours]).success();
        run(&["predict", &at("m"), &table, "-o", &theirs]).success();
        assert!(std::fs::read(ours).unwrap() == std::fs::read(theirs).unwrap(), "{extension}");
    }
    let bad = std::fs::read(&lines).unwrap();
    let ran = with_input(&["predict", &at("m"), "-", "-o", &at("bad.csv")], &[&bad[..], b"nonsense\n"].concat());
    ran.fails(&["stdin: line 91: not JSON: expected ident at character 2"]);
    assert!(!std::fs::exists(at("bad.csv")).unwrap());
    let report = |name: &str| ["predict", &at("m"), "-", "-o", &at(name), "--on-error", "report"].map(str::to_owned);
    let told = |name: &str, input: &[u8]| with_input(&report(name).each_ref().map(String::as_str), input);
    told("bad.npz", b"").fails(&[".jsonl, .csv, .parquet or `-`"]);
    told("bad.csv", &[&bad[..], b"nonsense\n"].concat()).code(1);
    let text = std::fs::read_to_string(at("bad.csv")).unwrap();
    assert!(text.lines().next().unwrap().ends_with(",error"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("90,,,"), "{text}");
    assert!(text.lines().last().unwrap().contains("not JSON"), "{text}");
}

#[test]
fn parts_of_other_names() {
    let (_folder, at) = scratch();
    toy(&at("d.jsonl"), 90, |row| (row % 3).to_string(), |row| row.to_string());
    let text = std::fs::read_to_string(at("d.jsonl")).unwrap();
    std::fs::write(at("d.jsonl"), text.replace("embedding", "vector").replace("label", "target")).unwrap();
    fit_toy(&at("d.jsonl"), &at("m"), &[]).fails(&["line 1: must be {\"embedding\""]);
    fit_toy(&at("d.jsonl"), &at("m"), &["--embedding-column", "vector"])
        .fails(&["has no `label`; it holds `vector`, `target`, `id`", "--label-column"]);
    fit_toy(&at("d.jsonl"), &at("m"), &["--embedding-column", "vector", "--label-column", "target"]).success();
    run(&["predict", &at("m"), &at("d.jsonl"), "--embedding-column", "vector"]).success();
    // An archive listens too.
    let npz = shared("small.npz");
    run(&["fit", &npz, "-o", &at("m"), "--label-column", "target"]).fails(&["no `target`", "`labels`"]);
    run(&["inspect", &npz, "--embedding-column", "vectors"]).fails(&["no `vectors`", "`embeddings`"]);
    std::fs::write(at("c.toml"), "label-column = 'target'\nembedding-column = 'vector'\n").unwrap();
    fit_toy(&at("d.jsonl"), &at("m"), &["--config", &at("c.toml")]).success();
}

#[test]
fn several_levels_side_by_side() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let one = |alpha: &str| {
        let ran = run(&["predict", &model, &test, "--alpha", alpha, "--include", "p-values"]).success();
        ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (high, low) = (one("0.2"), one("0.05"));
    let both = one("0.2,0.05");
    assert_eq!(both.len(), 2 * high.len());
    for (row, pair) in both.chunks(2).enumerate() {
        assert_eq!(pair, [high[row].clone(), low[row].clone()]);
    }
    let out = at("sets.csv");
    let report = run(&["predict", &model, &test, "--alpha", "0.2,0.05", "-o", &out, "--json"]).success().json();
    assert_eq!((&report["rows"], &report["levels"][1]["alpha"]), (&Value::from(96), &Value::from(0.05)));
    assert_eq!(std::fs::read_to_string(out).unwrap().lines().count(), 1 + 2 * 96);
    run(&["predict", &model, &test, "--alpha", "0.1,0.1"]).fails(&["given twice"]);
    run(&["predict", &model, &test, "--alpha", "0.1,2"]).fails(&["between 0 and 1"]);
}

/// Rows without a label are refused until `--unlabeled` leaves them out, and are no problem where labels are not
/// needed.
#[test]
fn rows_without_a_label() {
    let (folder, at) = scratch();
    let model = at("m");
    toy(&at("good.csv"), 90, |row| (row % 3).to_string(), |row| row.to_string());
    fit_toy(&at("good.csv"), &model, &[]).success();
    for (name, none, asked, option) in [
        ("empty.csv", "", "no label at line 2, line 12, line 22 and 6 more; --unlabeled ''", ""),
        ("minus.csv", "-1", "the label is -1 at line 2, line 12", "-1"),
        ("nan.csv", "nan", "the label is nan at line 2", "nan"),
        ("null.jsonl", "null", "no label at line 1, line 11", ""),
    ] {
        let data = at(name);
        let label = |row: usize| if row.is_multiple_of(10) { none.to_owned() } else { (row % 3).to_string() };
        toy(&data, 90, label, |row| row.to_string());
        fit_toy(&data, &at("out"), &[]).fails(&[name, asked, "--unlabeled"]);
        run(&["evaluate", &model, &data]).fails(&[name, "--unlabeled"]);
        run(&["recalibrate", &model, &data, "-o", &at("out")]).fails(&[name, "--unlabeled"]);
        run(&["inspect", &data]).success().prints(&["warning: ", "--unlabeled"]);
        run(&["predict", &model, &data]).success();
        run(&["explain", &model, &data, "--row", "0"]).success();
        let ran = fit_toy(&data, &at("out"), &["--unlabeled", option, "--json"]).success();
        let said = "9 of 90 rows have no label and are left out";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
        assert!(ran.json()["warnings"].to_string().contains(said));
        assert_eq!(ran.json()["classes"], 3);
        run(&["evaluate", &model, &data, "--unlabeled", option, "--exclude-overlap", "--alpha", "0.2"]).code(2);
        run(&["recalibrate", &model, &data, "-o", &at("out"), "--unlabeled", option]).success();
        std::fs::remove_file(at("out")).unwrap();
    }
    // -1 may be meant.
    let ran = fit_toy(&at("minus.csv"), &at("four"), &["--unlabeled", "", "--json"]).success();
    assert_eq!(ran.json()["classes"], 4);
    toy(&at("signs.csv"), 90, |row| ["-1", "1"][row % 2].into(), |row| row.to_string());
    assert_eq!(fit_toy(&at("signs.csv"), &at("two"), &["--json"]).success().json()["classes"], 2);
    run(&["evaluate", &at("two"), &at("signs.csv")]).success();
    assert_eq!(names(folder.path()).iter().filter(|name| *name == "out").count(), 0);
}

#[test]
fn options_without_effect_are_refused_and_shortages_said() {
    let (_folder, at) = scratch();
    toy(&at("d.csv"), 90, |row| (row % 3).to_string(), |row| row.to_string());
    fit_toy(&at("d.csv"), &at("m"), &["--test-out", &at("t.txt")]).fails(&[
        "t.txt",
        "test points are written to",
        ".npz",
    ]);
    let ran = fit_toy(&at("d.csv"), &at("m"), &[]).success();
    assert!(ran.stdout.contains("3 classes"), "{}", ran.stdout);
    run(&["recalibrate", &at("m"), &at("d.csv"), "-o", &at("m2"), "--method", "dance", "--new-labels"])
        .fails(&["--new-labels"]);
    toy(&at("three.csv"), 3, |row| (row % 3).to_string(), |row| row.to_string());
    let ran = run(&["recalibrate", &at("m"), &at("three.csv"), "-o", &at("m2")]).success();
    assert!(ran.stderr.contains("warning: alpha 0.1: "), "{}", ran.stderr);
    // Every second point has a label of its own, which no set can contain.
    let rare = |row: usize| {
        if row.is_multiple_of(2) { format!("\"rare {row}\"") } else { format!("\"{}\"", row % 3) }
    };
    toy(&at("rare.jsonl"), 120, rare, |row| row.to_string());
    let ran = fit_toy(&at("rare.jsonl"), &at("m3"), &["--alpha", "0.1"]).success();
    assert!(ran.stderr.contains("carry a label that no other point has, more than alpha"), "{}", ran.stderr);
    let ran = run(&["predict", &at("m3"), &at("rare.jsonl")]).success();
    assert!(ran.stderr.contains("more than alpha"), "{}", ran.stderr);
    std::fs::write(at("not.dance"), "this is a letter to a friend, and no model").unwrap();
    for other in [at("not.dance"), at("d.csv"), shared("small.npz")] {
        run(&["predict", &other, &at("d.csv")]).fails(&["this is not a dance model"]);
    }
    std::fs::write(at("c.toml"), "seed = 1\n\nalpha = = 2\n").unwrap();
    let ran = run(&["inspect", &at("d.csv"), "--config", &at("c.toml")]).fails(&["c.toml: line 3: not TOML"]);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    std::fs::write(at("c.toml"), "seed = 1\n[fit]\nevaluation = 2\n").unwrap();
    run(&["inspect", &at("d.csv"), "--config", &at("c.toml")]).fails(&["c.toml: line 3: ", "`evaluation`"]);
}
