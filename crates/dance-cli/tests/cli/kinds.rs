//! Types of labels and ids: numbers stay numbers and texts stay texts, in files and in answers.

use serde_json::{Value, json};

use super::{Ran, fit_toy, run, scratch, toy};

fn lines(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The type of an array and its numbers, as NumPy's documentation of the format has it.
fn array(path: &str, name: &str) -> (String, Vec<i64>) {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_name(&format!("{name}.npy")).unwrap(), &mut bytes).unwrap();
    let begin = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let kind = String::from_utf8_lossy(&bytes[10..begin]).split('\'').nth(3).unwrap().to_owned();
    let numbers = bytes[begin..].chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()));
    (kind, numbers.collect())
}

#[test]
fn integer_labels_and_ids_stay_integers() {
    let (_folder, at) = scratch();
    let (data, model) = (at("d.csv"), at("m"));
    toy(&data, 90, |row| (10 * (row % 3)).to_string(), |row| (row + 1000).to_string());
    for test in ["t.npz", "t.csv", "t.parquet", "t.jsonl"] {
        fit_toy(&data, &model, &["--test-out", &at(test)]).success();
    }
    let (kind, labels) = array(&at("t.npz"), "labels");
    assert!(kind == "<i8" && labels.iter().all(|label| [0, 10, 20].contains(label)), "{kind} {labels:?}");
    let (kind, ids) = array(&at("t.npz"), "ids");
    assert!(kind == "<i8" && ids.iter().all(|id| (1000..1090).contains(id)), "{kind} {ids:?}");

    let expected = run(&["predict", &model, &at("t.npz"), "--include", "neighbors", "--alpha", "0.2"]).success();
    for answer in lines(&expected) {
        assert!(answer["prediction"].is_i64() && answer["id"].is_i64(), "{answer}");
        assert!(answer["set"].as_array().unwrap().iter().all(Value::is_i64), "{answer}");
        let named = answer["set"] == json!([]) || answer["neighbors"].to_string().contains("\"id\":10");
        assert!(named, "{answer}");
    }
    for test in ["t.csv", "t.parquet", "t.jsonl"] {
        let found = run(&["predict", &model, &at(test), "--include", "neighbors", "--alpha", "0.2"]).success();
        assert_eq!(found.stdout, expected.stdout, "{test}");
        run(&["evaluate", &model, &at(test), "--alpha", "0.2"]).success();
    }
    run(&["predict", &model, &at("t.npz"), "-o", &at("sets.npz"), "--alpha", "0.2"]).success();
    for name in ["prediction", "set", "id"] {
        assert_eq!(array(&at("sets.npz"), name).0, "<i8", "{name}");
    }
    run(&["predict", &model, &at("t.npz"), "-o", &at("sets.csv"), "--alpha", "0.2"]).success();
    let first = lines(&expected)[0].clone();
    let sets = std::fs::read_to_string(at("sets.csv")).unwrap();
    assert!(sets.lines().nth(1).unwrap().starts_with(&format!("0,{},{},", first["id"], first["prediction"])));
    let why = run(&["explain", &model, &at("t.npz"), "--row", "0", "--json"]).success().json();
    assert_eq!((&why["id"], why["labels"][0]["label"].is_i64()), (&first["id"], true));
    run(&["evaluate", &model, &at("t.npz"), "--alpha", "0.2", "--classes-out", &at("c.jsonl")]).success();
    assert!(std::fs::read_to_string(at("c.jsonl")).unwrap().starts_with("{\"alpha\":0.2,\"class\":0,"));
    // A model that is calibrated anew keeps it, also from a file where labels are text.
    toy(&at("text.jsonl"), 60, |row| format!("\"{}\"", 10 * (row % 3)), |row| format!("\"p{row}\""));
    run(&["recalibrate", &model, &at("text.jsonl"), "-o", &at("m2")]).success();
    let answers = lines(&run(&["predict", &at("m2"), &at("text.jsonl")]).success());
    assert!(answers[0]["prediction"].is_i64() && answers[0]["id"] == json!("p0"), "{}", answers[0]);
}

#[test]
fn texts_that_look_like_numbers_stay_texts() {
    let (_folder, at) = scratch();
    let (data, model) = (at("d.jsonl"), at("m"));
    toy(&data, 90, |row| format!("\"{}\"", row % 3), |row| format!("\"{row}\""));
    fit_toy(&data, &model, &["--test-out", &at("t.npz")]).success();
    let answers = lines(&run(&["predict", &model, &at("t.npz"), "--alpha", "0.2"]).success());
    assert!(answers.iter().all(|answer| answer["prediction"].is_string() && answer["id"].is_string()));
    // Numbers in the test data are matched with texts by name.
    toy(&at("numbers.jsonl"), 60, |row| (row % 3).to_string(), |row| row.to_string());
    let ran = run(&["evaluate", &model, &at("numbers.jsonl"), "--alpha", "0.2"]).success();
    assert!(!ran.stderr.contains("does not know"), "{}", ran.stderr);
    // A warning names labels that do not match.
    toy(&at("other.jsonl"), 60, |row| ["true", "false"][row % 2].into(), |row| row.to_string());
    let ran = run(&["evaluate", &model, &at("other.jsonl"), "--alpha", "0.2"]).success();
    assert!(ran.stderr.contains("The model's labels are text, these are booleans"), "{}", ran.stderr);
    assert!(ran.stderr.contains("(the first is `True`, line 1)"), "{}", ran.stderr);
}

#[test]
fn booleans_and_whole_floats() {
    let (_folder, at) = scratch();
    let (data, model) = (at("d.jsonl"), at("m"));
    toy(&data, 90, |row| ["true", "false"][usize::from(row % 3 == 0)].into(), |row| row.to_string());
    fit_toy(&data, &model, &["--test-out", &at("t.npz")]).success();
    assert_eq!(array(&at("t.npz"), "labels").0, "|b1");
    let answers = lines(&run(&["predict", &model, &at("t.npz"), "--alpha", "0.2"]).success());
    assert!(answers.iter().all(|answer| answer["prediction"].is_boolean()));
    toy(&data, 90, |row| format!("{}.0", row % 3), |row| row.to_string());
    fit_toy(&data, &model, &["--test-out", &at("t.parquet")]).success();
    let answers = lines(&run(&["predict", &model, &at("t.parquet"), "--alpha", "0.2"]).success());
    assert!(answers.iter().all(|answer| answer["prediction"].is_f64()), "{}", answers[0]);
}

/// Ids keep all digits.
#[test]
fn ids_beyond_64_bits_are_not_rounded() {
    let (_folder, at) = scratch();
    let (data, model) = (at("d.jsonl"), at("m"));
    toy(&data, 90, |row| (row % 3).to_string(), |row| format!("3689348814741910323{}", row % 10));
    fit_toy(&data, &model, &[]).success();
    let ran = run(&["predict", &model, &data]).success();
    for (row, line) in ran.stdout.lines().enumerate() {
        assert!(line.contains(&format!("\"id\":3689348814741910323{},", row % 10)), "{line}");
    }
}

/// A label over two lines is one cell.
#[test]
fn names_of_several_lines_stay_within_theirs() {
    let (_folder, at) = scratch();
    let (data, model) = (at("d.jsonl"), at("m"));
    toy(
        &data,
        90,
        |row| json!(format!("class\n{}", row % 3)).to_string(),
        |row| json!(format!("p\t\n{row}")).to_string(),
    );
    fit_toy(&data, &model, &[]).success();
    let ran = run(&["explain", &model, &data, "--row", "4"]).success();
    assert!(ran.stdout.contains("row 4: p\\t\\n4\n") && ran.stdout.contains("  class\\n1 "), "{}", ran.stdout);
    for arguments in [&["inspect", &data][..], &["inspect", &model]] {
        assert!(run(arguments).success().stdout.contains("class\\n0"));
    }
}
