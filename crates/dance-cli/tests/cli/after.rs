//! After the first day: points unlike anything seen, and a stream that is watched.

use serde_json::{Value, json};

use super::{Ran, fit_toy, piped, run, scratch, shared, toy};

/// Rows of a file of embeddings as JSON lines with labels, `moved` by a number.
fn lines(name: &str, rows: std::ops::Range<usize>, moved: f32) -> String {
    let data = dance::data::io::read(shared(name), &dance::data::io::ReadOptions::default()).unwrap();
    let names = data.label_names(&[]).unwrap();
    let line = |row: usize| {
        // Every other number, so that the direction changes too.
        let at = |(place, &value): (usize, &f32)| if place % 2 == 0 { value + moved } else { value };
        let embedding: Vec<f32> = data.embeddings().row(row).iter().enumerate().map(at).collect();
        json!({ "embedding": embedding, "label": names[row], "id": row }).to_string() + "\n"
    };
    rows.map(line).collect()
}

/// Every answer has its novelty; a level flags; and what comes from elsewhere takes the guarantee back.
#[test]
fn novelty_is_told_flagged_and_summed_up() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let ran = run(&["predict", &model, &test, "--novelty", "0.05", "--alpha", "0.1,0.2"]).success();
    let rows: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 192);
    for row in &rows {
        let p = row["novelty"].as_f64().unwrap();
        assert!(p > 0.0 && p <= 1.0);
        assert_eq!(row["novel"], p <= 0.05);
    }
    let flagged = rows.iter().step_by(2).filter(|row| row["novel"] == true).count();
    assert!(ran.stderr.contains(&format!("{flagged} of 96 rows are unlike anything seen")), "{}", ran.stderr);
    assert!(!ran.stderr.contains("should not be relied on"), "{}", ran.stderr);
    // Without a level nothing is flagged, and nothing said while chance explains it.
    let plain = run(&["predict", &model, &test]).success();
    assert!(
        !plain.stdout.contains("\"novel\"") && !plain.stderr.contains("unlike anything"),
        "{}",
        plain.stderr
    );

    // The opposite of every point: no class is near.
    toy(&at("toy.csv"), 600, |row| ["ant", "bee", "cat"][row % 3].to_owned(), |row| row.to_string());
    fit_toy(&at("toy.csv"), &at("toy"), &[]).success();
    let text = std::fs::read_to_string(at("toy.csv")).unwrap();
    let opposite = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let numbers = cells[2..].iter().map(|number| format!("-{number}")).collect::<Vec<_>>();
        format!("{},{},{}\n", cells[0], cells[1], numbers.join(","))
    };
    let lines: String = text.lines().skip(1).take(60).map(opposite).collect();
    std::fs::write(at("opposite.csv"), format!("label,id,a,b,c,d\n{lines}")).unwrap();
    let elsewhere =
        run(&["predict", &at("toy"), &at("opposite.csv"), "-o", &at("sets.csv"), "--json"]).success();
    assert!(elsewhere.stderr.contains("the guarantee should not be relied on"), "{}", elsewhere.stderr);
    let report = elsewhere.json();
    assert_eq!((&report["novelty"]["beyond_chance"], &report["novelty"]["rows"]), (&json!(true), &json!(60)));
    let mut file = csv::Reader::from_path(at("sets.csv")).unwrap();
    let column = file.headers().unwrap().iter().position(|name| name == "novelty").unwrap();
    assert!(file.records().all(|row| row.unwrap()[column].parse::<f64>().unwrap() <= 0.01));
    run(&["predict", &model, &test, "--novelty", "0"]).fails(&["between 0 and 1"]);
    let small = run(&["predict", &model, &test, "--novelty", "0.0001"]).success();
    assert!(small.stderr.contains("support no level of novelty below"), "{}", small.stderr);
}

/// Points like those of the calibration raise no alarm, others do; in one run, or in two that share a state.
#[test]
fn a_monitor_raises_an_alarm_where_there_is_cause() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let calm = run(&["monitor", &model, &test, "--labelled", "--json"]).success().json();
    assert_eq!((&calm["points"], &calm["alarms"]), (&json!(96), &json!([])));
    assert_eq!(calm["bound"], 200.0); // two are watched at half of 0.01 each
    run(&["monitor", &model, &test]).success().says(&["inputs: no sign of a change (96 points"]);

    let stream = lines("test.npz", 0..60, 0.0) + &lines("test.npz", 0..60, 1.0);
    let alarmed = piped(&["monitor", &model, "--json"], &stream).success();
    let told: Vec<Value> = alarmed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told[0]["alarm"], "inputs");
    let row = told[0]["row"].as_u64().unwrap();
    assert!((60..120).contains(&row), "{row}");
    let stopped = piped(&["monitor", &model, "--exit-on-alarm"], &stream).code(1);
    assert!(stopped.stderr.contains(&format!("alarm at point {row}")), "{}", stopped.stderr);

    let state = at("state.json");
    let part = |range: &str| piped(&["monitor", &model, "--state", &state, "--json"], range).success();
    part(&lines("test.npz", 0..60, 0.0));
    let resumed = part(&lines("test.npz", 0..60, 1.0));
    let last = |ran: &Ran| serde_json::from_str::<Value>(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last(&resumed), last(&alarmed), "two halves are the whole");
    // What has alarmed stays so.
    run(&["monitor", &model, &test, "--state", &state, "--exit-on-alarm"]).code(1);
    run(&["monitor", &model, &test, "--state", &state, "--seed", "5"]).fails(&["another model or seed"]);
    run(&["monitor", &model, &test, "--state", &state, "--labelled"]).fails(&["of a run without labels"]);
    std::fs::write(&state, "{}").unwrap();
    run(&["monitor", &model, &test, "--state", &state]).fails(&["not the state of a monitor"]);
}

/// Labels that no longer follow the points: dealt out anew, the points themselves are what they were.
#[test]
fn a_monitor_notices_labels_that_changed() {
    let data = lines("test.npz", 0..96, 0.0);
    let mut rows: Vec<Value> = data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let labels: Vec<Value> = rows.iter().map(|row| row["label"].clone()).collect();
    for (row, value) in rows.iter_mut().enumerate() {
        value["label"] = labels[(row * 37 + 11) % labels.len()].clone();
    }
    let wrong: String = rows.iter().map(|row| row.to_string() + "\n").collect();
    let model = shared("model");
    let report = piped(&["monitor", &model, "--labelled", "--json"], &wrong).success();
    let last: Value = serde_json::from_str(report.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["alarms"][0]["watched"], "labels", "{last}");
    assert_eq!(last["alarms"].as_array().unwrap().len(), 1, "{last}");
    let without = wrong.replacen("\"label\"", "\"lable\"", 1);
    let refused = piped(&["monitor", &model, "--labelled"], &without).code(2);
    assert!(refused.stderr.contains("line 1: no label"), "{}", refused.stderr);
}

/// Labels that were planted wrong are listed with the right ones; a sorted file is told from a shuffled one.
#[test]
fn an_audit_finds_what_was_planted() {
    let (_folder, at) = scratch();
    let wrong = [7, 50, 91];
    let label = |row: usize| ["ant", "bee", "cat"][(row + usize::from(wrong.contains(&row))) % 3].to_owned();
    toy(&at("toy.csv"), 150, label, |row| format!("p{row}"));
    let report = run(&["audit", &at("toy.csv"), "-o", &at("audit"), "--json"]).success().json();
    let mut rows: Vec<(u64, &str, &str)> = report["label_errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            (
                error["row"].as_u64().unwrap(),
                error["id"].as_str().unwrap(),
                error["suggested"].as_str().unwrap(),
            )
        })
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [(7, "p7", "bee"), (50, "p50", "cat"), (91, "p91", "bee")]);
    let written: Value = serde_json::from_slice(&std::fs::read(at("audit/audit.json")).unwrap()).unwrap();
    assert_eq!(written, report);
    let mut table = csv::Reader::from_path(at("audit/findings.csv")).unwrap();
    assert_eq!(
        table.headers().unwrap(),
        ["finding", "row", "id", "label", "suggested", "value", "points"].as_slice()
    );
    assert_eq!(table.records().filter(|row| &row.as_ref().unwrap()[0] == "label error").count(), 3);
    let page = std::fs::read_to_string(at("audit/index.html")).unwrap();
    assert!(page.starts_with("<!doctype html>\n<!-- dance audit report -->") && page.contains("p91"));

    let text = std::fs::read_to_string(at("toy.csv")).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.sort_unstable();
    std::fs::write(at("sorted.csv"), format!("{header}\n{}\n", lines.join("\n"))).unwrap();
    let sorted = run(&["audit", &at("sorted.csv"), "-o", &at("again")]).success();
    assert!(sorted.stdout.contains("not random, by label"), "{}", sorted.stdout);
    run(&["audit", &at("toy.csv"), "-o", &at("audit"), "--fdr", "1.5"]).fails(&["between 0 and 1"]);
}

/// The page of documentation, command by command.
#[test]
#[cfg(unix)]
fn the_story_of_the_documents_runs() {
    let (folder, at) = scratch();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordnet_minilm.npz");
    std::fs::copy(shipped, at("words.npz")).unwrap();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/after-day-one.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    // A stream without end is for another day.
    let story = blocks.filter(|block| !block.contains("tail -F")).collect::<Vec<_>>().concat();
    let binaries = super::binary().parent().unwrap().display().to_string();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    let output = std::process::Command::new("sh")
        .args(["-e", "-c", &story])
        .env("PATH", path)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let ran = Ran::new(output).success();
    assert!(
        ran.stderr.contains("changed: alarm") || ran.stdout.contains("changed: alarm"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    assert!(std::fs::exists(at("sets.jsonl")).unwrap() && std::fs::exists(at("audit/index.html")).unwrap());
}
