//! Every command, on small data.

use super::{run, scratch, shared};

#[test]
fn help_shows_an_example_of_every_command() {
    let help = run(&["--help"]).success().prints(&["Example:", "Exit status: 0 success; 1"]);
    for group in ["Start:", "Build:", "Use:", "Watch:", "Research:", "Shell:", "Shared options:"] {
        assert!(help.stdout.contains(group), "{group}");
    }
    let names = ["demo", "embed", "inspect", "doctor", "fit", "compare", "evaluate", "predict", "explain", "serve"];
    for name in names.into_iter().chain(["monitor", "recalibrate", "select", "audit", "bench", "completions", "man"]) {
        assert!(help.stdout.contains(&format!("\n  {name} ")), "{name}");
        let help = run(&[name, "--help"]).success();
        let shared = ["--json", "--seed", "--threads", "--config", "--verbose", "--quiet"];
        help.prints(&shared).prints(&["Example:\n  ", &format!("dance {name}")]);
        let short = run(&[name, "-h"]).success();
        assert!(!short.stdout.contains("--config"), "{name} -h is short");
    }
    assert!(run(&[]).code(2).stderr.contains("Usage:"));
    run(&["--version"]).success().prints(&["dance 0."]);
}

#[test]
fn fit_reports_what_it_did() {
    let (_folder, at) = scratch();
    let fit = |extra: &[&str]| {
        let (data, model) = (shared("small.npz"), at("m"));
        let mut arguments = vec!["fit", &data, "-o", &model, "--evaluations", "2"];
        arguments.extend(extra);
        if !extra.contains(&"--kernel") {
            arguments.extend(["--kernel", "rounds=1"]);
        }
        run(&arguments).success()
    };
    let report = fit(&["--split", "0.4,0.4,0.2", "--alpha", "0.2", "--json"]).json();
    assert_eq!((&report["method"], &report["calibration"]), (&"posterior".into(), &"full".into()));
    assert_eq!(report["kernel_points"], 192);
    assert_eq!(report["test_points"], 96);
    assert_eq!(report["classes"], 24);
    assert_eq!(report["trace"].as_array().unwrap().len(), 2);
    assert_eq!(report["test"][0]["alpha"], 0.2);
    assert!(report["test"][0]["coverage"].as_f64().unwrap() > 0.5);
    // Without a test share everything goes to fit and calibration.
    let text = fit(&["--method", "dance", "--calibration", "split", "--scores", "mix=0.3"]);
    let text = text.prints(&["guarantee    P(label in set) >= 1 - alpha", "24 classes"]);
    let text = text.prints(&["method       dance, split calibration on 240 other points"]);
    assert!(!text.stdout.contains("test points"));
    // A file of calibration points that fitted the kernel gives a warning.
    let data = shared("small.npz");
    let ran = fit(&["--calibration-data", &data]);
    assert!(ran.stderr.contains("took part in the fit of the kernel"));
    // A forecast comes from points that neither fitted nor calibrated, so overlapping points give none.
    let forecast = fit(&["--json"]).json()["expected"].clone();
    assert_eq!((&forecast["points"], &forecast["levels"][0]["alpha"]), (&48.into(), &0.1.into()));
    assert!(forecast["levels"][0]["size"].as_f64().unwrap() > 0.0);
    assert!(fit(&["--calibration-data", &data, "--json"]).json()["expected"].is_null());
    let quiet = fit(&["--calibration-data", &data, "-q"]);
    assert_eq!(quiet.stderr, "");
    let ran = fit(&["-v", "--memory", "1GiB", "--kernel", "bandwidth=2,shape=1,ridge=0.01"]);
    assert!(ran.stderr.contains("tried bandwidth 2.000, shape 1.000"), "{}", ran.stderr);
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_threads() {
    let (_folder, at) = scratch();
    let fit = |name: &str, extra: [&str; 4]| {
        let (data, model) = (shared("small.npz"), at(name));
        let mut arguments = vec!["fit", &data, "-o", &model, "--evaluations", "1", "--kernel", "rounds=1"];
        arguments.extend(extra);
        run(&arguments).success();
        std::fs::read(&model).unwrap()
    };
    let one = fit("a", ["--seed", "3", "--threads", "1"]);
    assert!(one == fit("b", ["--seed", "3", "--threads", "2"]));
    assert!(one != fit("c", ["--seed", "4", "--threads", "2"]));
}

#[test]
fn predict_answers_any_level() {
    let (model, test) = (shared("model"), shared("test.npz"));
    let sets = |alpha: &str| -> Vec<Vec<String>> {
        let ran = run(&["predict", &model, &test, "--alpha", alpha]).success();
        assert!(ran.stderr.contains("96 rows at alpha") && ran.stderr.contains("guarantee: P(label in set)"));
        let line = |line: &str| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(row["alpha"].to_string(), alpha);
            assert!(row["id"].as_str().unwrap().contains(": "), "the texts are the ids");
            serde_json::from_value(row["set"].clone()).unwrap()
        };
        ran.stdout.lines().map(line).collect()
    };
    let (loose, strict) = (sets("0.07"), sets("0.4"));
    let size = |sets: &[Vec<String>]| sets.iter().map(Vec::len).sum::<usize>();
    assert!(size(&loose) > size(&strict), "{} {}", size(&loose), size(&strict));

    let ran = run(&["predict", &model, &test, "--include", "probabilities,p-values,neighbors"]).success();
    for (row, line) in ran.stdout.lines().enumerate() {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(found["row"], row);
        let length = |key: &str| found[key].as_array().unwrap().len();
        for key in ["probabilities", "p_values", "neighbors"] {
            assert_eq!(length(key), length("set"), "{key}");
        }
        assert!(found["rank_p_values"].is_null() && found["contrast_p_values"].is_null(), "{line}");
        let p_values: Vec<f64> = serde_json::from_value(found["p_values"].clone()).unwrap();
        assert!(p_values.is_sorted_by(|a, b| a >= b), "most conforming first");
        assert!(p_values.iter().all(|&p| p > found["alpha"].as_f64().unwrap()), "{p_values:?}");
    }
    // An alpha that is too small for so few points gives every label and a warning.
    let ran = run(&["predict", &model, &test, "--alpha", "0.0001"]).success();
    assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("every label"), "{}", ran.stderr);
    assert!(ran.stdout.lines().all(|line| line.matches("\",\"").count() > 20));
    // Empty sets can be filled.
    let filled = run(&["predict", &model, &test, "--alpha", "0.9", "--empty", "top1"]).success();
    assert!(!filled.stdout.contains("\"set\":[]"));
    // The prediction is the most probable label of all: no label of a set is more probable, and it does not depend on
    // alpha.
    let predictions = |alpha: &str| -> Vec<serde_json::Value> {
        let ran = run(&["predict", &model, &test, "--alpha", alpha, "--include", "probabilities"]).success();
        let line = |line: &str| {
            let found: serde_json::Value = serde_json::from_str(line).unwrap();
            let probability = found["probability"].as_f64().unwrap();
            for (label, other) in
                found["set"].as_array().unwrap().iter().zip(found["probabilities"].as_array().unwrap())
            {
                let other = other.as_f64().unwrap();
                assert!(other <= probability && (*label != found["prediction"] || other == probability), "{line}");
            }
            found["prediction"].clone()
        };
        ran.stdout.lines().map(line).collect()
    };
    assert_eq!(predictions("0.05"), predictions("0.6"));
}

/// Neighbors can be looked up: their rows and ids are those of the file that was fitted.
#[test]
fn neighbors_are_rows_of_the_file() {
    let (model, test) = (shared("model"), shared("test.npz"));
    let mut rows = csv::Reader::from_path(shared("small.csv")).unwrap();
    let mut place = |name: &str| rows.headers().unwrap().iter().position(|column| column == name).unwrap();
    let (id, label) = (place("id"), place("label"));
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    let report = run(&["explain", &model, &test, "--row", "5", "--json"]).success().json();
    let mut parts = std::collections::BTreeSet::new();
    for reason in report["labels"].as_array().unwrap() {
        for neighbor in reason["neighbors"].as_array().unwrap() {
            let row = &rows[neighbor["row"].as_u64().unwrap() as usize];
            assert_eq!((&row[id], &row[label]), (neighbor["id"].as_str().unwrap(), reason["label"].as_str().unwrap()));
            parts.insert(neighbor["part"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(parts.into_iter().collect::<Vec<_>>(), ["calibration", "fit"]);
    let text = run(&["explain", &model, &test, "--row", "5"]).success();
    let mut table = text.stdout.lines().skip_while(|line| !line.starts_with("  label"));
    assert!(table.all(|line| line.starts_with("guarantee") || line.chars().count() <= 100), "{}", text.stdout);
}

/// The test part keeps the ids of its points, or their rows.
#[test]
fn test_points_keep_their_ids_or_rows() {
    let (_folder, at) = scratch();
    let line = |row: usize| format!("{},{},{}\n", ["a", "b"][row % 2], row % 2 * 5 + row % 7, row);
    std::fs::write(at("all.csv"), "label,x,y\n".to_owned() + &(0..120).map(line).collect::<String>()).unwrap();
    let fit = ["fit", &at("all.csv"), "-o", &at("m"), "--split", "0.4,0.4,0.2", "--normalize", "standardize"];
    run(&[&fit[..], &["--test-out", &at("test.csv"), "--evaluations", "1"]].concat()).success();
    let mut test = csv::Reader::from_path(at("test.csv")).unwrap();
    let y = test.headers().unwrap().len() - 1;
    let mut count = 0;
    for record in test.records().map(Result::unwrap) {
        assert_eq!(record[0].parse::<f64>().unwrap(), record[y].parse::<f64>().unwrap(), "y is the row");
        count += 1;
    }
    assert_eq!(count, 24);
}

/// One point per class is enough for a kernel where others calibrate.
#[test]
fn few_points_are_enough() {
    let (_folder, at) = scratch();
    let line = |row: usize| {
        let class = row % 6;
        let x = (class * 4 + row % 5) as f64 + 1e-3 * (row * 7919 % 1000) as f64; // no two alike, and no trend
        format!("c{class},{x},{},{}\n", class * class + row % 3, 1 + row % 4)
    };
    let file = |rows: std::ops::Range<usize>| "label,x,y,z\n".to_owned() + &rows.map(line).collect::<String>();
    std::fs::write(at("one.csv"), file(0..6)).unwrap();
    std::fs::write(at("others.csv"), file(6..126)).unwrap();
    std::fs::write(at("new.csv"), file(126..426)).unwrap();
    let ran = run(&["fit", &at("one.csv"), "--calibration-data", &at("others.csv"), "-o", &at("m")]).success();
    assert!(ran.stderr.contains("too few to hold some out"), "{}", ran.stderr);
    run(&["evaluate", &at("m"), &at("new.csv"), "--check"]).success();
}

/// Splits are random draws: labels that one point alone carries are in all parts alike.
#[test]
fn splits_are_random_draws() {
    let (_folder, at) = scratch();
    let line = |row: usize| {
        let class = if row.is_multiple_of(2) { "often".into() } else { format!("once {row}") };
        format!("{class},{},{}\n", row % 11, row % 7 + 1)
    };
    std::fs::write(at("d.csv"), "label,x,y\n".to_owned() + &(0..200).map(line).collect::<String>()).unwrap();
    let fit = |extra: &[&str]| {
        let arguments = ["fit", &at("d.csv"), "-o", &at("m"), "--evaluations", "1", "--split", "0.4,0.4,0.2"];
        run(&[&arguments[..], extra].concat()).success()
    };
    let random = fit(&["--json"]).json();
    // Half of all points carry a label of their own, so half of the new ones do, and none of them can be covered.
    let share = random["new_label_share"].as_f64().unwrap();
    assert!((share - 0.5).abs() < 4.0 * (0.25f64 / 80.0).sqrt(), "{share}");
    let coverage = random["test"][0]["coverage"].as_f64().unwrap();
    assert!(coverage < 0.5 + 4.0 * (0.25f64 / 40.0).sqrt(), "{coverage}");
    fit(&[]).prints(&["new labels   about", "of new points carry"]);
    run(&["inspect", &at("m")]).success().prints(&["new label share"]);
}

#[test]
fn recalibrate_keeps_the_kernel() {
    let (_folder, at) = scratch();
    let (model, test, other) = (shared("model"), shared("test.npz"), at("other"));
    let ran = run(&["recalibrate", &model, &test, "-o", &other, "--method", "fuse"]);
    ran.success().prints(&["calibrated on 96 points", "P(label in set) >= 1 - alpha"]);
    let kernel = |path: &str| {
        let report = run(&["inspect", path, "--json"]).success().json();
        (report["bandwidth"].clone(), report["fit_data_sha256"].clone(), report["calibration_scores"].clone())
    };
    let (before, after) = (kernel(&model), kernel(&other));
    assert_eq!((&before.0, &before.1), (&after.0, &after.1));
    assert_eq!(after.2, 96);
    // Options that are not given keep the model's values.
    let report = run(&["recalibrate", &model, &test, "-o", &other, "--json"]).success().json();
    assert_eq!((&report["method"], &report["calibration"]), (&"posterior".into(), &"full".into()));
    // Every method with every calibration that it has.
    for (method, calibration) in
        [("posterior", "full"), ("posterior", "split"), ("fuse", "full"), ("dance", "reuse"), ("dance", "split")]
    {
        let how = ["--method", method, "--calibration", calibration];
        run(&[&["recalibrate", &model, &test, "-o", &other][..], &how].concat()).success();
        let report = run(&["inspect", &other, "--json"]).success().json();
        assert_eq!((&report["calibration"], &report["method"]), (&calibration.into(), &method.into()));
        run(&["predict", &other, &test, "--alpha", "0.2"]).success();
        run(&["explain", &other, &test, "--row", "0"]).success().prints(&["in the set: "]);
    }
    run(&["recalibrate", &model, &test, "-o", &other, "--method", "dance"]).success().prints(&["guarantee: heuristic"]);
    // Settings that contradict each other are refused by the names of both, the model's own settings included.
    let (paper, unwritten) = (other, at("unwritten"));
    for (options, names) in [
        (&["--method", "fuse", "--calibration", "split"][..], ["--calibration split", "--method fuse"]),
        (&["--calibration", "full"], ["--calibration full", "--method dance"]),
        (&["--new-labels"], ["--new-labels", "--method dance"]),
        (
            &["--method", "posterior", "--calibration", "split", "--by-class", "each"],
            ["--by-class each", "--calibration split"],
        ),
    ] {
        run(&[&["recalibrate", &paper, &test, "-o", &unwritten][..], options].concat()).fails(&names);
    }
    run(&["recalibrate", &paper, "nowhere.npz", "-o", &unwritten, "--method", "dance", "--by-class", "each"])
        .fails(&["--by-class each", "--method dance"]);
    assert!(!std::path::Path::new(&unwritten).exists());
}

#[test]
fn inspect_knows_data_from_models() {
    run(&["inspect", &shared("model")]).success().prints(&[
        "kind                    model",
        "kernel points           192",
        "method                  posterior",
        "calibration             full",
        "new labels              no",
        "experts",
        "guarantee",
        "smallest alpha",
    ]);
    let data = run(&["inspect", &shared("small.parquet")]).success();
    data.prints(&["rows                    480", "dimensions              384", "classes                 24"]);
    let report = run(&["inspect", &shared("model"), "--json"]).success().json();
    assert_eq!(report["config"]["tune"]["evaluations"], 2);
    assert_eq!(report["class_names"].as_array().unwrap().len(), 24);
    // A model under the name of a data format is still a model.
    let (_folder, at) = scratch();
    std::fs::copy(shared("model"), at("model.safetensors")).unwrap();
    run(&["inspect", &at("model.safetensors")]).success().prints(&["kind                    model"]);
    std::fs::write(at("odd.csv"), "label,x\na,0\na,1\nb,1\n").unwrap();
    let odd = run(&["inspect", &at("odd.csv")]).success();
    odd.prints(&["warning: a row is all zeros", "warning: 1 row repeats", "warning: 2 classes have fewer than 3"]);
}

#[test]
fn explain_shows_scores_and_p_values() {
    let (model, test) = (shared("model"), shared("test.npz"));
    let text = run(&["explain", &model, &test, "--row", "3"]).success();
    text.prints(&[
        "row 3: ",
        "the most probable label is",
        "in the set: p-value above 0.1",
        "  label",
        "prob.",
        "guarantee: ",
    ]);
    let report = run(&["explain", &model, &test, "--row", "3", "--json", "--top", "24"]).success().json();
    let labels = report["labels"].as_array().unwrap();
    assert_eq!(labels.len(), 24);
    // The set and its p-values are those of `predict`.
    assert!(labels.iter().all(|label| (label["p_value"].as_f64().unwrap() > 0.1) == (label["in_set"] == true)));
    assert!(labels.iter().all(|label| label["rank"].is_null() && label["rank_p_value"].is_null()));
    let sets = run(&["predict", &model, &test]).success();
    let row: serde_json::Value = serde_json::from_str(sets.stdout.lines().nth(3).unwrap()).unwrap();
    let explained = labels.iter().filter(|label| label["in_set"] == true).count();
    assert_eq!(explained, row["set"].as_array().unwrap().len());
    run(&["explain", &model, &test, "--row", "96"]).fails(&["rows 0 to 95, not 96"]);
    // The scores of the other methods.
    let (_folder, at) = scratch();
    for (method, scores, p_values) in [("fuse", true, false), ("dance", true, true)] {
        let other = at(method);
        run(&["recalibrate", &model, &test, "-o", &other, "--method", method]).success();
        let text = run(&["explain", &other, &test, "--row", "3"]).success().prints(&["rank  contrast"]);
        assert_eq!(text.stdout.contains("p of rank  p of contrast"), p_values, "{}", text.stdout);
        let report = run(&["explain", &other, &test, "--row", "3", "--json"]).success().json();
        let label = &report["labels"][0];
        assert_eq!((label["rank"].is_number(), label["contrast"].is_number()), (scores, scores), "{label}");
        let keys = [&label["rank_p_value"], &label["contrast_p_value"], &report["mix"]];
        assert!(keys.iter().all(|key| key.is_number() == p_values), "{report}");
    }
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        run(&["completions", shell]).success().prints(&["recalibrate", "by-class"]);
    }
    run(&["man"]).success().prints(&[".TH dance 1", "recalibrate"]);
    run(&["man", "fit"]).success().prints(&[".TH dance-fit 1", "by\\-class", "Settings of the kernel", "dance fit"]);
    run(&["man", "sing"]).fails(&["no command `sing`"]);
}
