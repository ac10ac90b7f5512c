//! Many rows and many files: block by block, one output for each input, one that fails among others that go on.

use std::fs;
use std::path::Path;

use dance::data::io::ParquetFields;
use dance_page::frame::{Column, Frame};
use parquet::arrow::ArrowWriter;

use crate::{run, scratch, shared};

/// A folder with `count` copies of the small Parquet file, in two folders below it.
fn parts(at: &str, count: usize) {
    for number in 0..count {
        let folder = Path::new(at).join(if number % 2 == 0 { "even" } else { "odd" });
        fs::create_dir_all(&folder).unwrap();
        fs::copy(shared("small.parquet"), folder.join(format!("part-{number:02}.parquet"))).unwrap();
    }
}

fn sets_of(lines: &str) -> Vec<serde_json::Value> {
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["set"].clone();
    lines.lines().map(line).collect()
}

#[test]
fn a_folder_is_answered_file_by_file() {
    let (_folder, at) = scratch();
    parts(&at("parts"), 4);
    fs::write(at("parts/_SUCCESS"), "").unwrap();
    let one = run(&["predict", &shared("model"), &shared("small.parquet"), "-q"]).success();
    let all = ["predict", &shared("model"), &at("parts"), "-o", &at("sets/*.jsonl"), "--json"];
    let told = run(&all).success();
    let report: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(report["files"], serde_json::json!({ "answered": 4, "before": 0, "failed": [] }));
    assert_eq!(report["rows"], 4 * one.stdout.lines().count());
    for name in ["even/part-00", "odd/part-01", "even/part-02", "odd/part-03"] {
        assert_eq!(fs::read_to_string(at(&format!("sets/{name}.jsonl"))).unwrap(), one.stdout);
    }
    // As Parquet, which is what a folder gets; with a pattern; and with names one after the other.
    run(&["predict", &shared("model"), &at("parts/even/*.parquet"), "-o", &at("found"), "-q"]).success();
    assert!(Path::new(&at("found/part-02.parquet")).exists());
    let (first, second) = (at("parts/even/part-00.parquet"), at("parts/odd/part-01.parquet"));
    run(&["predict", &shared("model"), &first, &second, "-o", &at("named"), "-q"]).success();
    assert!(Path::new(&at("named/part-01.parquet")).exists());
}

#[test]
fn one_that_fails_does_not_stop_the_others_and_resuming_does_the_rest() {
    let (_folder, at) = scratch();
    parts(&at("parts"), 50);
    let damaged = at("parts/odd/part-03.parquet");
    let whole = fs::read(&damaged).unwrap();
    fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let base = ["predict", &shared("model"), &at("parts"), "-o", &at("sets"), "--alpha"];
    let with = |rest: &[&str]| run(&[&base[..], rest].concat());
    let told = with(&["0.1"]).code(1);
    assert!(told.stderr.contains("part-03.parquet: cannot be read as Parquet"), "{}", told.stderr);
    assert!(told.stderr.contains("49 files answered, 1 failed"), "{}", told.stderr);
    assert!(!Path::new(&at("sets/odd/part-03.parquet")).exists());
    let before = fs::metadata(at("sets/odd/part-01.parquet")).unwrap().modified().unwrap();

    fs::write(&damaged, &whole).unwrap();
    let told = with(&["0.1", "--resume"]).success();
    assert!(told.stderr.contains("1 files answered, 49 skipped, 0 failed"), "{}", told.stderr);
    assert_eq!(fs::metadata(at("sets/odd/part-01.parquet")).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read(at("sets/odd/part-03.parquet")).unwrap(), fs::read(at("sets/odd/part-01.parquet")).unwrap());
    // An input that is newer than its answers is answered again.
    fs::write(at("parts/even/part-00.parquet"), &whole).unwrap();
    let told = with(&["0.1", "--resume"]).success();
    assert!(told.stderr.contains("1 files answered, 49 skipped"), "{}", told.stderr);
    // Answers at another level are not those.
    let told = with(&["0.2", "--resume"]).code(2);
    assert!(told.stderr.contains("of another model or of other options"), "{}", told.stderr);
}

#[test]
fn a_file_in_blocks_gives_what_it_gives_whole() {
    let (_folder, at) = scratch();
    // More rows than a block of the library has, from the same rows many times over.
    run(&["predict", &shared("model"), &shared("small.parquet"), "-o", &at("sets.csv"), "-q"]).success();
    run(&["predict", &shared("model"), &shared("small.npz"), "-o", &at("other.csv"), "-q"]).success();
    assert_eq!(fs::read(at("sets.csv")).unwrap(), fs::read(at("other.csv")).unwrap());
    for format in ["parquet", "npz", "jsonl"] {
        run(&["predict", &shared("model"), &shared("small.parquet"), "-o", &at(&format!("sets.{format}"))]).success();
    }
    let lines = fs::read_to_string(at("sets.jsonl")).unwrap();
    let stdout = run(&["predict", &shared("model"), &shared("small.csv"), "-q"]).success().stdout;
    assert_eq!(sets_of(&lines), sets_of(&stdout));
}

/// Rows 1 to 4 are null, short, NaN and zeros; the others are points.
fn damaged(at: &str) {
    let points = dance::data::io::read(shared("test.npz"), &Default::default()).unwrap();
    let row = |place: usize| points.embeddings().row(place).iter().map(|&value| f64::from(value)).collect();
    let rows: [Vec<f64>; 6] = [row(0), vec![], vec![1.0], vec![f64::NAN; 384], vec![0.0; 384], row(1)];
    let mut frame = Frame::default();
    frame.push("id", Column::texts((0..6).map(|row| format!("p{row}")).collect()));
    let there = (0..6).map(|row| row != 1).collect();
    frame.push("embedding", Column::Partly(Box::new(Column::number_lists(&rows)), there));
    let batch = frame.record_batch().unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    fs::write(at, writer.into_inner().unwrap()).unwrap();
}

#[test]
fn a_row_of_parquet_that_is_no_point_costs_itself_where_that_is_asked_for() {
    let (_folder, at) = scratch();
    damaged(&at("rows.parquet"));
    let predict = |rest: &[&str]| run(&[&["predict", &shared("model"), &at("rows.parquet")], rest].concat());
    predict(&[]).fails(&["rows.parquet", "`embedding`", "row 1"]);
    let told = predict(&["--on-error", "report", "--alpha", "0.1,0.05"]).code(1);
    assert!(told.stderr.contains("4 rows were invalid"), "{}", told.stderr);
    let answers: Vec<serde_json::Value> = told.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<u64> = answers.iter().map(|answer| answer["row"].as_u64().unwrap()).collect();
    assert_eq!(rows, [0, 0, 1, 2, 3, 4, 5, 5]);
    let words = ["is null", "1 numbers, but the model was fitted with 384", "number 0 is NaN", "no direction"];
    for (answer, words) in answers[2..6].iter().zip(words) {
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
        assert!(answer["set"].is_null() && answer["id"].as_str().unwrap().starts_with('p'), "{answer}");
    }
    let whole = run(&["predict", &shared("model"), &shared("test.npz"), "--alpha", "0.1,0.05"]).success();
    assert_eq!(sets_of(&whole.stdout)[..2], [answers[0]["set"].clone(), answers[1]["set"].clone()]);
    assert_eq!(sets_of(&whole.stdout)[2..4], [answers[6]["set"].clone(), answers[7]["set"].clone()]);
    // As a table: an answer or an error, in every row.
    predict(&["--on-error", "report", "-o", &at("sets.parquet")]).code(1);
    let fields = ParquetFields::open(Path::new(&at("sets.parquet"))).unwrap();
    for (name, there) in [("prediction", [0, 5].as_slice()), ("error", &[1, 2, 3, 4]), ("id", &[0, 1, 2, 3, 4, 5])] {
        let found: Vec<usize> = (0..6).filter(|&row| fields.read(name).unwrap()[row].is_some()).collect();
        assert_eq!(found, there, "{name}");
    }
    predict(&["--on-error", "report", "-o", &at("sets.npz")]).fails(&["sets.npz", ".parquet"]);
    run(&["predict", &shared("model"), &shared("small.csv"), "--on-error", "report"])
        .fails(&["JSON lines and Parquet"]);
    // Every one of several files is answered, with its invalid rows.
    let folder = at("many");
    fs::create_dir(&folder).unwrap();
    for name in ["a", "b"] {
        fs::copy(at("rows.parquet"), format!("{folder}/{name}.parquet")).unwrap();
    }
    let all = ["predict", &shared("model"), &folder, "-o", &at("sets/*.jsonl"), "--on-error", "report", "--json"];
    let told: serde_json::Value = serde_json::from_str(&run(&all).code(1).stdout).unwrap();
    assert_eq!((&told["rows"], &told["bad_rows"], &told["files"]["answered"]), (&4.into(), &8.into(), &2.into()));
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_written() {
    let (_folder, at) = scratch();
    parts(&at("parts"), 2);
    let model = shared("model");
    let refused = |rest: &[&str], words: &str| {
        let told = run(&[&["predict", &model], rest].concat()).code(2);
        assert!(told.stderr.contains(words), "{}", told.stderr);
    };
    refused(&[&at("parts")], "several files are answered into a folder");
    refused(&[&at("parts"), "-o", &at("sets.parquet")], "several files are answered into a folder");
    refused(&[&at("parts"), "-o", &at("parts")], "would be overwritten, and it is read");
    refused(&[&at("nothing/*.parquet"), "-o", &at("sets")], "nothing");
    refused(&[&at("parts/*.parquet"), "-o", &at("sets")], "no file matches this pattern");
    refused(&[&at("parts/even/part-00.parquet"), "--resume"], "--resume is for several files");
    fs::copy(shared("small.npz"), at("parts/even/part-00.npz")).unwrap();
    refused(&[&at("parts"), "-o", &at("sets")], "would both be answered in");
    fs::create_dir(at("empty")).unwrap();
    refused(&[&at("empty"), "-o", &at("sets")], "is a directory without a file that can be read");
    assert!(!Path::new(&at("sets")).exists());
}

#[test]
fn answers_in_the_folder_that_is_read_are_not_read_again() {
    let (_folder, at) = scratch();
    parts(&at("parts"), 2);
    let all = ["predict", &shared("model"), &at("parts"), "-o", &at("parts/sets")];
    run(&all).success();
    let told = run(&all).success();
    assert!(told.stderr.contains("2 files answered, 0 failed"), "{}", told.stderr);
}

#[test]
fn fitting_and_judging_read_folders_and_samples_of_them() {
    let (_folder, at) = scratch();
    parts(&at("parts"), 2);
    let fit = |data: &str, out: &str, rest: &[&str]| {
        let base = ["fit", data, "-o", out, "--evaluations", "1", "--kernel", "rounds=0", "--json", "--unlabeled", ""];
        let told = run(&[&base[..], rest].concat()).success();
        serde_json::from_str::<serde_json::Value>(&told.stdout).unwrap()
    };
    let one = fit(&shared("small.parquet"), &at("one"), &[]);
    let both = fit(&at("parts"), &at("both"), &[]);
    let points = |report: &serde_json::Value| {
        report["kernel_points"].as_u64().unwrap() + report["calibration_points"].as_u64().unwrap()
    };
    assert_eq!(points(&both), 2 * points(&one));
    let some = fit(&at("parts"), &at("some"), &["--sample", "300"]);
    assert_eq!(points(&some), 300);
    fit(&at("parts"), &at("again"), &["--sample", "300"]);
    assert_eq!(fs::read(at("some")).unwrap(), fs::read(at("again")).unwrap());
    fit(&at("parts"), &at("other"), &["--sample", "300", "--seed", "1"]);
    assert_ne!(fs::read(at("some")).unwrap(), fs::read(at("other")).unwrap());

    let judge = |rest: &[&str]| {
        let told = run(&[&["evaluate", &shared("model"), &at("parts"), "--json"], rest].concat()).success();
        serde_json::from_str::<serde_json::Value>(&told.stdout).unwrap()
    };
    let alone = run(&["evaluate", &shared("model"), &shared("small.parquet"), "--json"]).success();
    let alone: serde_json::Value = serde_json::from_str(&alone.stdout).unwrap();
    let found = judge(&[]);
    assert_eq!(found["levels"][0]["coverage"], alone["levels"][0]["coverage"]);
    assert_eq!(found["levels"][0]["points"].as_u64(), alone["levels"][0]["points"].as_u64().map(|n| 2 * n));
    assert_eq!(judge(&["--sample", "100"])["levels"][0]["points"], 100);
}
