//! Operation after the first day: novelty, `monitor`, `select`, `--adapt` and recalibration.

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

/// Every answer has its novelty, a level flags rows, and points of another distribution give a warning about the
/// guarantee.
#[test]
fn novelty_is_returned_flagged_and_counted() {
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
    assert!(ran.stderr.contains(&format!("{flagged} of 96 rows are novel")), "{}", ran.stderr);
    assert!(!ran.stderr.contains("should not be relied on"), "{}", ran.stderr);
    // Without a level no row is flagged, and no warning printed while chance explains the number of novel rows.
    let plain = run(&["predict", &model, &test]).success();
    assert!(!plain.stdout.contains("\"novel\"") && !plain.stderr.contains("are novel"), "{}", plain.stderr);

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
    let elsewhere = run(&["predict", &at("toy"), &at("opposite.csv"), "-o", &at("sets.csv"), "--json"]).success();
    assert!(elsewhere.stderr.contains("the guarantee should not be relied on"), "{}", elsewhere.stderr);
    let report = elsewhere.json();
    assert_eq!((&report["novelty"]["beyond_chance"], &report["novelty"]["rows"]), (&json!(true), &json!(60)));
    let mut file = csv::Reader::from_path(at("sets.csv")).unwrap();
    let column = file.headers().unwrap().iter().position(|name| name == "novelty").unwrap();
    assert!(file.records().all(|row| row.unwrap()[column].parse::<f64>().unwrap() <= 0.01));
    run(&["predict", &model, &test, "--novelty", "0"]).fails(&["between 0 and 1"]);
    let small = run(&["predict", &model, &test, "--novelty", "0.0001"]).success();
    assert!(small.stderr.contains("calibration points need a level of at least"), "{}", small.stderr);
}

/// Points like those of the calibration raise no alarm, others do; in one run, or in two that share a state.
#[test]
fn a_monitor_raises_an_alarm_where_there_is_cause() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let calm = run(&["monitor", &model, &test, "--with-labels", "--json"]).success().json();
    assert_eq!((&calm["points"], &calm["alarms"]), (&json!(96), &json!([])));
    assert_eq!(calm["bound"], 200.0); // two are watched at half of 0.01 each
    run(&["monitor", &model, &test]).success().prints(&["inputs: no sign of a change (96 points"]);

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
    // An alarm stays in the state.
    run(&["monitor", &model, &test, "--state", &state, "--exit-on-alarm"]).code(1);
    run(&["monitor", &model, &test, "--state", &state, "--seed", "5"]).fails(&["another model or seed"]);
    run(&["monitor", &model, &test, "--state", &state, "--with-labels"]).fails(&["of a run without labels"]);
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
    let report = piped(&["monitor", &model, "--with-labels", "--json"], &wrong).success();
    let last: Value = serde_json::from_str(report.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["alarms"][0]["watched"], "labels", "{last}");
    assert_eq!(last["alarms"].as_array().unwrap().len(), 1, "{last}");
    let without = wrong.replacen("\"label\"", "\"lable\"", 1);
    let refused = piped(&["monitor", &model, "--with-labels"], &without).code(2);
    assert!(refused.stderr.contains("line 1: no label"), "{}", refused.stderr);
}

/// `select` writes a list for people and points for `fit`; picked points never calibrate, in any file format.
#[test]
fn what_was_picked_fits_and_does_not_calibrate() {
    let (_folder, at) = scratch();
    let (model, pool) = (shared("model"), shared("test.npz"));
    let (list, points) = (at("list.csv"), at("chosen.npz"));
    let select = |extra: &[&str]| {
        run(&[&["select", &model, &pool, "--picked", "30", "--random", "40", "-o", &list], extra].concat())
    };
    let report = select(&["--points-out", &points, "--json"]).success().json();
    let rows =
        |key: &str| -> Vec<i64> { report[key].as_array().unwrap().iter().map(|row| row.as_i64().unwrap()).collect() };
    let (picked, random) = (rows("picked"), rows("random"));
    assert_eq!((picked.len(), random.len()), (30, 40));
    assert!(random.iter().all(|row| !picked.contains(row)));
    let mut table = csv::Reader::from_path(&list).unwrap();
    let header = table.headers().unwrap().clone();
    let [row, provenance, label] =
        ["row", "provenance", "label"].map(|name| header.iter().position(|header| header == name).unwrap());
    let records: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    for (place, record) in records.iter().enumerate() {
        let (expected, word) = if place < 30 { (picked[place], "picked") } else { (random[place - 30], "random") };
        assert_eq!((&record[row], &record[provenance]), (expected.to_string().as_str(), word));
        assert!(!record[label].is_empty(), "the pool has labels, which are kept");
    }
    // The choice depends on the seed.
    assert_eq!(select(&["--json"]).success().json()["random"], report["random"]);
    assert_ne!(select(&["--json", "--seed", "1"]).success().json()["random"], report["random"]);

    for name in ["chosen.npz", "chosen.csv", "chosen.jsonl", "chosen.parquet"] {
        if name.ends_with("parquet") && !cfg!(feature = "parquet") {
            continue;
        }
        let points = at(name);
        select(&["--points-out", &points]).success();
        let again = run(&["recalibrate", &model, &points, "-o", &at("model2"), "--json"]).success();
        assert_eq!(again.json()["calibration_points"], 40, "{name}");
        assert!(again.stderr.contains("30 picked points are left out"), "{}", again.stderr);
        let fitted = fit_toy(&points, &at("fitted"), &["--json"]).success().json();
        let count = |key: &str| fitted[key].as_u64().unwrap();
        assert_eq!((count("calibration_points"), count("test_points")), (16, 8), "{name}");
        assert_eq!(count("kernel_points"), 16 + 30, "{name}");
        // Alone, and together with a file without provenance.
        let kernel =
            run(&["fit", &pool, "--calibration-data", &points, "-o", &at("other"), "--evaluations", "1", "--json"]);
        assert_eq!(kernel.success().json()["calibration_points"], 40);
        run(&["evaluate", &model, &points]).success();
    }
    let only = at("only.csv");
    select(&["--random", "0", "--points-out", &only]).code(2); // given twice
    run(&["select", &model, &pool, "--picked", "20", "-o", &list, "--points-out", &only]).success();
    run(&["recalibrate", &model, &only, "-o", &at("model2")]).fails(&["all 20 points were picked"]);
    run(&["select", &model, &pool, "-o", &list]).fails(&["no number is given"]);
    run(&["select", &model, &pool, "--picked", "97", "-o", &list]).fails(&["the pool has 96"]);
    run(&["select", &model, &pool, "--picked", "5", "-o", &at("list.txt")]).fails(&["ends in .jsonl, .csv"]);
    run(&["select", &model, &pool, "--picked", "5", "-o", &pool]).fails(&["would be overwritten"]);
}

/// Labels that no longer follow the points: sets at a fixed level miss most of them, a level that adapts misses as many
/// as it may, whether labels come with their points or in a heap afterwards.
#[test]
fn a_level_that_adapts_misses_as_many_as_asked_for() {
    let model = shared("model");
    let data = lines("test.npz", 0..96, 0.0);
    let rows: Vec<Value> = data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut together, mut apart) = (String::new(), String::new());
    for round in 0..8 {
        let id = |row: usize| json!(round * 96 + row);
        let label = |row: usize| &rows[(row * 37 + 11 + round) % 96]["label"];
        let point = |row: usize| json!({ "id": id(row), "embedding": rows[row]["embedding"] });
        for row in 0..96 {
            let mut line = point(row);
            line["label"] = label(row).clone();
            together += &format!("{line}\n");
        }
        apart.extend((0..96).map(|row| format!("{}\n", point(row))));
        apart.extend((0..96).map(|row| format!("{}\n", json!({ "id": id(row), "label": label(row) }))));
    }
    let truth: Vec<Value> =
        together.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["label"].clone()).collect();
    let missed = |ran: &Ran| {
        let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), 768);
        let missed = |(answer, label): (&Value, &Value)| !answer["set"].as_array().unwrap().contains(label);
        answers.iter().zip(&truth).filter(|&pair| missed(pair)).count() as f64 / 768.0
    };
    let fixed = missed(&piped(&["predict", &model, "-", "--alpha", "0.2"], &together).success());
    assert!(fixed > 0.5, "{fixed}");
    for (text, waiting) in [(&together, 0.0), (&apart, 96.0)] {
        let ran = piped(&["predict", &model, "-", "--alpha", "0.2", "--adapt", "0.1"], text).success();
        let (share, bound) = (missed(&ran), (1.0 + 0.1 * (waiting + 1.0)) / (0.1 * 768.0));
        assert!((share - 0.2).abs() <= bound, "{share} is not within {bound} of 0.2");
        assert!(ran.stderr.contains(" of 768 labels were missed"), "{}", ran.stderr);
        assert!(ran.stderr.contains("in the long run, whatever the data: "), "{}", ran.stderr);
    }
    let nobody = piped(&["predict", &model, "-", "--adapt", "0.1"], "{\"id\":1,\"label\":\"a\"}\n").code(2);
    assert!(nobody.stderr.contains("line 1: no point with the id 1 waits"), "{}", nobody.stderr);
    run(&["predict", &model, &shared("test.npz"), "--adapt", "0.1"]).fails(&["--adapt needs JSON lines"]);
    piped(&["predict", &model, "-", "--adapt", "0.1", "--alpha", "0.1,0.2"], "").fails(&["one level"]);
}

/// Two halves of a stream with a state between them are one run: labels with their points, and labels that come a day
/// later.
#[test]
fn a_level_that_adapts_goes_on_where_it_stood() {
    let (_folder, at) = scratch();
    let model = shared("model");
    let data = lines("test.npz", 0..96, 0.0);
    let rows: Vec<Value> = data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wrong = |row: usize| &rows[(row * 37 + 11) % 96]["label"];
    let mut stream = Vec::new();
    for (row, point) in rows.iter().enumerate() {
        let mut line = json!({ "id": format!("p{row}"), "embedding": point["embedding"] });
        // Every third label comes forty points later.
        if row % 3 > 0 {
            line["label"] = wrong(row).clone();
        }
        stream.push(line.to_string());
        if row >= 40 && (row - 40) % 3 == 0 {
            stream.push(json!({ "id": format!("p{}", row - 40), "label": wrong(row - 40) }).to_string());
        }
    }
    let adapt = ["predict", &model, "-", "--alpha", "0.2", "--adapt", "0.05"];
    let text = |lines: &[String]| lines.join("\n") + "\n";
    let whole = piped(&adapt, &text(&stream)).success();
    let said = |ran: &Ran| ran.stderr[ran.stderr.find("in the long run").unwrap()..].to_owned();
    // Rows are counted per file.
    let answers = |ran: &str| -> Vec<Value> {
        let mut all: Vec<Value> = ran.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for answer in &mut all {
            answer.as_object_mut().unwrap().remove("row");
        }
        all
    };
    let state = at("state.json");
    let halves: Vec<Ran> = [&stream[..70], &stream[70..]]
        .into_iter()
        .map(|half| piped(&[&adapt[..], &["--state", &state]].concat(), &text(half)).success())
        .collect();
    assert_eq!(answers(&(halves[0].stdout.clone() + &halves[1].stdout)), answers(&whole.stdout));
    assert_eq!(said(&halves[1]), said(&whole));

    // Into files the same, and the same state to the byte.
    let (other, kept) = (at("other.json"), std::fs::read(&state).unwrap());
    let mut written = String::new();
    for (half, name) in [(&stream[..70], "one.jsonl"), (&stream[70..], "two.jsonl")] {
        piped(&[&adapt[..], &["--state", &other, "-o", &at(name)]].concat(), &text(half)).success();
        written += &std::fs::read_to_string(at(name)).unwrap();
    }
    assert_eq!(answers(&written), answers(&whole.stdout));
    assert_eq!(std::fs::read(&other).unwrap(), kept);
    // A file that was not written has answered nothing; on stdout, what came before the fault is answered.
    let broken = text(&stream[..3]) + "{}\n";
    piped(&[&adapt[..], &["--state", &other, "-o", &at("three.jsonl")]].concat(), &broken).code(2);
    assert_eq!(std::fs::read(&other).unwrap(), kept);
    piped(&[&adapt[..], &["--state", &other]].concat(), &broken).code(2);
    let points = |path: &str| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap()["points"].clone();
    assert_eq!((points(&state), points(&other)), (json!(96), json!(99)));

    let refused = |extra: &[&str], words: &str| {
        piped(&[&["predict", &model, "-", "--state", &state], extra].concat(), "")
            .fails(&[words, "delete it to begin anew"]);
    };
    refused(&["--alpha", "0.1", "--adapt", "0.05"], "the state belongs to --alpha 0.2");
    refused(&["--alpha", "0.2", "--adapt", "0.1"], "the state belongs to --adapt 0.05");
    refused(&["--alpha", "0.2", "--adapt", "0.05", "--empty", "top1"], "the state belongs to --empty keep");
    let model2 = at("model2");
    run(&["recalibrate", &model, &shared("test.npz"), "-o", &model2]).success();
    let another = [&["predict", &model2], &adapt[2..], &["--state", &state]].concat();
    piped(&another, "").fails(&["the state belongs to another model"]);
    std::fs::write(&state, "{}").unwrap();
    refused(&["--alpha", "0.2", "--adapt", "0.05"], "not the state of an adaptive level");
    piped(&["predict", &model, "-", "--state", &state], "").code(2); // without --adapt
    piped(&[&adapt[..], &["--state", &model]].concat(), "").fails(&["would be overwritten"]);
}

/// Calibration on points that resembles current points: their number, and the guarantee in the output and in the model.
#[test]
fn calibration_points_resemble_current_points() {
    let (_folder, at) = scratch();
    let (model, pool, out) = (shared("model"), shared("test.npz"), at("aimed"));
    let aimed = |extra: &[&str]| run(&[&["recalibrate", &model, &pool, "-o", &out], extra].concat());
    aimed(&["--window", "40"]).success().prints(&["calibrated on 40 points", "the latest 40 points calibrated"]);
    run(&["inspect", &out]).success().prints(&["the latest 40 points calibrated"]);
    aimed(&["--window", "97"]).fails(&["has 96 points, and --window needs the last 97"]);
    // Points with weight 0 are dropped, and so is the point that sets the scale: 47 of 96 are left.
    let weights: String = (0..96).map(|row| if row < 48 { "0\n" } else { "2.0\n" }).collect();
    std::fs::write(at("weights.txt"), weights).unwrap();
    aimed(&["--weights", &at("weights.txt")])
        .success()
        .prints(&["calibrated on 47 points", "in proportion to their importance weights"]);
    std::fs::write(at("short.txt"), "1\n".repeat(95)).unwrap();
    aimed(&["--weights", &at("short.txt")]).fails(&["has 95 weights, and none for row 95"]);
    std::fs::write(at("odd.txt"), "one\n".repeat(96)).unwrap();
    aimed(&["--weights", &at("odd.txt")]).fails(&["`weight` of row 0 is `one`, which is no number"]);
    let shifted = aimed(&["--label-shift", &pool, "--json"]).success().json();
    let words = shifted["guarantee"].as_str().unwrap();
    assert!(words.contains("estimated from 96 points without labels"), "{words}");
    assert!((10..=96).contains(&shifted["calibration_points"].as_u64().unwrap()), "{shifted}");
    // A plain recalibration removes the clause from the guarantee.
    run(&["recalibrate", &out, &pool, "-o", &at("plain")]).success();
    let plain = run(&["inspect", &at("plain")]).success().stdout;
    assert!(!plain.contains("without labels"), "{plain}");
}

/// The commands of the documentation run.
#[test]
#[cfg(unix)]
fn the_story_of_the_documents_runs() {
    let (folder, at) = scratch();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordnet_minilm.npz");
    std::fs::copy(shipped, at("words.npz")).unwrap();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/after-day-one.md")).unwrap();
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
