//! `dance evaluate` and `dance compare`: reports, checks and files.

use super::{run, scratch, shared};

#[test]
fn evaluate_measures_and_checks() {
    let (model, test) = (shared("model"), shared("test.npz"));
    let arguments = ["evaluate", &model, &test, "--alpha", "0.2,0.1"];
    run(&[&arguments[..], &["--all"]].concat()).success().prints(&["floor", "SSCV", "CCV"]);
    let few = run(&arguments).success();
    assert!(!few.stdout.contains("SSCV"), "{}", few.stdout);
    few.prints(&[
        "96 points",
        "by chance",
        "is what chance allows around 0.800",
        "lowest coverage of",
        "Cov: coverage, the share of sets with the true",
        "guarantee: P(label in set) >= 1 - alpha",
    ]);
    let report = run(&[&arguments[..], &["--json", "--check=0.5"]].concat()).success().json();
    assert_eq!(report["passed"], true);
    assert_eq!(report["levels"][1]["alpha"], 0.1);
    for key in ["accuracy", "coverage", "size", "class_violation", "class_violation_floor", "empty"] {
        assert!(report["levels"][0][key].is_number(), "{key}");
    }
    let missed = run(&[&arguments[..], &["--check=1"]].concat()).code(1);
    assert!(missed.stderr.contains("is below 1"), "{}", missed.stderr);
    // One share for every level, or one for each.
    run(&[&arguments[..], &["--check=0.2=0.1,0.1=0.1"]].concat()).success();
    let one = run(&[&arguments[..], &["--check=0.2=0.1,0.1=1"]].concat()).code(1);
    assert!(one.stderr.contains("alpha 0.1: ") && !one.stderr.contains("alpha 0.2: "), "{}", one.stderr);
    run(&[&arguments[..], &["--check=0.3=0.5"]].concat()).fails(&["0.3 is not among the levels"]);
    run(&[&arguments[..], &["--check=0.1=x"]].concat()).fails(&["between 0 and 1"]);
    let brier = report["probabilities"]["brier"].as_f64().unwrap();
    assert!((0.0..2.0).contains(&brier));
    run(&arguments).success().prints(&["Class probabilities: log loss"]);
}

/// Every row of `compare` is equal to `recalibrate` on the same half.
#[test]
fn compare_measures_every_method() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let arguments = ["compare", &model, &test, "--alpha", "0.2", "--seed", "5"];
    run(&arguments).success().prints(&[
        "48 points of",
        "the other 48 evaluate",
        "Size at 0.2",
        "--method posterior",
        "--method posterior --by-class balanced",
        "--method fuse --by-class each",
        "--method dance --calibration split",
        "seconds to predict a thousand points",
    ]);
    let report = run(&[&arguments[..], &["--json"]].concat()).success().json();
    let methods = report["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 11);
    // Recommended is the row with the smallest sets whose guarantee is for all points together; the paper's reuse has none.
    let promising = ["--method posterior", "--method posterior --calibration split", "--method fuse"];
    let promising = promising.into_iter().chain(["--method dance --calibration split"]).map(|options| {
        let row = methods.iter().find(|row| row["options"] == options).unwrap();
        (row["levels"][0]["as_low"].as_f64().unwrap(), row["levels"][0]["size"].as_f64().unwrap(), options)
    });
    let best = promising.filter(|row| row.0 >= 0.01).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert_eq!(report["recommended"], best.2);
    // The halves are those of a fit's split with this seed.
    let data = dance::data::io::read(&test, &Default::default()).unwrap().into_dataset().unwrap();
    let halves = dance::data::split::uniform(96, &[0.5, 0.5], 5).unwrap();
    for (half, name) in halves.iter().zip(["calibration.csv", "evaluation.csv"]) {
        let mut file = csv::Writer::from_path(at(name)).unwrap();
        let names = (0..data.embeddings.cols()).map(|column| format!("e{column}"));
        file.write_record(["label".to_owned()].into_iter().chain(names)).unwrap();
        for &row in half {
            let numbers = data.embeddings.row(row).iter().map(ToString::to_string);
            let label = data.classes[data.labels[row] as usize].clone();
            file.write_record([label].into_iter().chain(numbers)).unwrap();
        }
        file.flush().unwrap();
    }
    for method in methods {
        let options = method["options"].as_str().unwrap();
        let mut again = vec!["recalibrate", &model, "-o"];
        let (to, calibration, evaluation) = (at("again.dance"), at("calibration.csv"), at("evaluation.csv"));
        again.extend([to.as_str(), &calibration, "--seed", "5"]);
        again.extend(options.split(' '));
        run(&again).success();
        let alone = run(&["evaluate", &to, &evaluation, "--alpha", "0.2", "--json"]).success().json();
        for what in ["size", "coverage", "class_deviation"] {
            assert_eq!(alone["levels"][0][what], method["levels"][0][what], "{options}: {what}");
        }
    }
    // A class in every set is one with fewer than four points: p = 1/(n + 1) > 0.2.
    let of_half: Vec<u32> = halves[0].iter().map(|&row| data.labels[row]).collect();
    let points = |class: usize| of_half.iter().filter(|&&label| label as usize == class).count();
    let rare = (0..data.classes.len()).filter(|&class| points(class) < 4).count();
    assert_eq!(report["classes_too_rare_to_leave_out"], serde_json::json!([rare]));
}

/// Coverage of every class, in a file: they add up to coverage of all.
#[test]
fn evaluate_writes_classes() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let arguments = ["evaluate", &model, &test, "--alpha", "0.2,0.1", "--classes-out", &at("c.csv"), "--json"];
    let report = run(&arguments).success().json();
    let mut file = csv::Reader::from_path(at("c.csv")).unwrap();
    assert_eq!(file.headers().unwrap(), ["alpha", "class", "points", "covered", "coverage", "size"].as_slice());
    let rows: Vec<csv::StringRecord> = file.records().map(Result::unwrap).collect();
    for level in report["levels"].as_array().unwrap() {
        let alpha = level["alpha"].as_f64().unwrap();
        let of = |column: usize| -> f64 {
            let rows = rows.iter().filter(|row| row[0].parse::<f64>().unwrap() == alpha);
            rows.map(|row| row[column].parse::<f64>().unwrap()).sum()
        };
        assert_eq!(of(2), 96.0);
        assert!((of(3) / 96.0 - level["coverage"].as_f64().unwrap()).abs() < 1e-12);
    }
    run(&["evaluate", &model, &test, "--classes-out", "-"]).fails(&["written to a file that ends in .jsonl, .csv"]);
}

/// Every line of the table fits a terminal of 100 columns.
#[test]
fn evaluate_fits_a_terminal() {
    let ran = run(&["evaluate", &shared("model"), &shared("test.npz")]).success();
    for line in ran.stdout.lines().filter(|line| line.starts_with("  alpha") || line.starts_with("  0.")) {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// Points of the model are reported, and coverage is measured without them too.
#[test]
fn evaluate_finds_the_points_of_the_model() {
    let (model, small) = (shared("model"), shared("small.npz"));
    let ran = run(&["evaluate", &model, &small]).success().prints(&["that neither fitted nor calibrated the model"]);
    assert!(ran.stderr.contains("points belong to the model"), "{}", ran.stderr);
    // They pass any check, so checks are made without them.
    run(&["evaluate", &model, &small, "--check=0.1=0.99"]).code(1);
    let report = run(&["evaluate", &model, &small, "--json"]).success().json();
    let (fit, calibration) = (&report["overlap"]["fit"], &report["overlap"]["calibration"]);
    assert!(fit.as_u64() > Some(0) && calibration.as_u64() > Some(0), "{report}");
    let points = |levels: &str| report[levels][0]["points"].as_u64().unwrap();
    let seen = fit.as_u64().unwrap() + calibration.as_u64().unwrap();
    assert_eq!(points("levels"), points("levels_without_overlap") + seen);
    let without = run(&["evaluate", &model, &small, "--json", "--exclude-overlap"]).success().json();
    assert_eq!(without["levels"], report["levels_without_overlap"]);
    let fresh = run(&["evaluate", &model, &shared("test.npz"), "--json"]).success().json();
    assert_eq!(fresh["overlap"]["fit"], 0);
    assert!(fresh["levels_without_overlap"].is_null());
}

/// `--check` fails where chance does not explain the coverage: with wrong labels.
#[test]
fn evaluate_checks_what_chance_allows() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    let report = run(&["evaluate", &model, &test, "--check", "--json"]).success().json();
    assert_eq!(report["passed"], true);
    let (low, high) = (&report["levels"][0]["by_chance"][0], &report["levels"][0]["by_chance"][1]);
    assert!(low.as_f64() < Some(0.9) && high.as_f64() > Some(0.9), "{report}");
    std::fs::write(at("wrong.txt"), "verb.social\n".repeat(96)).unwrap();
    let wrong = ["evaluate", &model, &test, "--labels", &at("wrong.txt"), "--check"].map(str::to_owned);
    let ran = run(&wrong.each_ref().map(String::as_str)).code(1);
    assert!(ran.stderr.contains("alpha 0.1: coverage"), "{}", ran.stderr);
    assert!(ran.stderr.contains("below what chance explains"), "{}", ran.stderr);
}
