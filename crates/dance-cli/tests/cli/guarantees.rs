//! Guarantees for classes, for groups of points and for new labels.

use std::fmt::Write as _;

use super::{run, scratch};

/// A file of points around class centers on a ring, each with `copies` near-copies of itself: `video` names those where
/// there are any.
fn write_groups(path: &str, groups: usize, copies: usize, classes: usize) {
    let grouped = copies > 1;
    let mut text = String::from(if grouped { "label,video,a,b,c\n" } else { "label,a,b,c\n" });
    let mut state = 12_345u64;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
    };
    for group in 0..groups {
        let angle = (group % classes) as f64 / classes as f64 * std::f64::consts::TAU;
        let center = [angle.cos() + 1.2 * noise(), angle.sin() + 1.2 * noise(), 1.0 + noise()];
        for _ in 0..copies {
            let [a, b, c] = center.map(|x| x + 1e-3 * noise());
            let name = if grouped { format!("v{group},") } else { String::new() };
            writeln!(text, "k{},{name}{a},{b},{c}", group % classes).unwrap();
        }
    }
    std::fs::write(path, text).unwrap();
}

const QUICK: [&str; 4] = ["--evaluations", "1", "--kernel", "rounds=0"];

#[test]
fn groups_are_kept_whole_and_each_calibrates_once() {
    let (_folder, at) = scratch();
    write_groups(&at("videos.csv"), 120, 4, 3);
    let (data, model) = (at("videos.csv"), at("m.dance"));
    let fit = ["fit", &data, "-o", &model, "--split", "0.5,0.25,0.25", "--json"];
    // Without --groups, the column of groups would be a dimension, so it is removed.
    let text = std::fs::read_to_string(&data).unwrap();
    let numbers = text.lines().map(|line| {
        let (label, rest) = line.split_once(',').unwrap();
        format!("{label},{}\n", rest.split_once(',').unwrap().1)
    });
    std::fs::write(at("points.csv"), numbers.collect::<String>()).unwrap();
    let (points, other) = (at("points.csv"), at("o.dance"));
    let plain = ["fit", &points, "-o", &other, "--split", "0.5,0.25,0.25", "--json"];
    let without = run(&[&plain[..], &QUICK].concat()).success().json();
    assert!(without["warnings"].to_string().contains("near-copy"), "{without}");
    let with = run(&[&fit[..], &QUICK, &["--groups", "video"]].concat()).success().json();
    assert_eq!([&with["kernel_points"], &with["calibration_points"], &with["test_points"]], [240, 30, 120]);
    assert!(with["guarantee"].as_str().unwrap().contains("a point of a new group"), "{with}");
    let again = run(&["recalibrate", &model, &data, "-o", &at("r.dance"), "--groups", "video", "--json"]);
    assert_eq!(again.success().json()["calibration_points"], 120);
    let missing = run(&[&fit[..], &QUICK, &["--groups", "patient"]].concat());
    missing.fails(&["videos.csv", "column `video`", "--groups"]);
    let nowhere = run(&["recalibrate", &other, &points, "-o", &at("r2.dance"), "--groups", "patient"]);
    nowhere.fails(&["points.csv", "has no `patient`", "Name an existing column with --groups"]);
}

#[test]
fn guarantees_for_classes() {
    let (_folder, at) = scratch();
    write_groups(&at("points.csv"), 360, 1, 3);
    let (data, model, test) = (at("points.csv"), at("m.dance"), at("t.csv"));
    let fit = ["fit", &data, "-o", &model, "--split", "0.4,0.4,0.2", "--json"];
    for (whom, words) in [
        ("each", "for every class by itself"),
        ("clusters", "for the labels of every cluster of classes"),
        ("balanced", "P(label in set) >= 1 - alpha in finite samples"),
    ] {
        for method in ["posterior", "fuse"] {
            let how = ["--by-class", whom, "--method", method, "--test-out", &test];
            let ran = run(&[&fit[..], &QUICK, &how].concat());
            if method == "fuse" && whom != "each" {
                ran.fails(&["--by-class", "--method fuse"]);
                continue;
            }
            let report = ran.success().json();
            assert!(report["guarantee"].as_str().unwrap().contains(words), "{how:?}: {report}");
            assert_eq!(report["method"], method);
            let judged = run(&["evaluate", &model, &test, "--alpha", "0.2", "--json"]).success().json();
            assert!(judged["levels"][0]["coverage"].as_f64().unwrap() > 0.6, "{how:?}: {judged}");
            let inspected = run(&["inspect", &model, "--json"]).success().json();
            assert_eq!(inspected["clusters"].is_u64(), whom == "clusters", "{inspected}");
            // A model keeps its guarantee for classes.
            let again = ["recalibrate", &model, &test, "-o", &at("r.dance"), "--json"];
            let report = run(&again).success().json();
            assert!(report["guarantee"].as_str().unwrap().contains(words), "{report}");
        }
        for how in [&["--method", "dance"][..], &["--method", "posterior", "--calibration", "split"]] {
            run(&[&fit[..], &QUICK, &["--by-class", whom], how].concat()).fails(&["--by-class"]);
        }
    }
}

#[test]
fn sets_with_a_new_label() {
    let (_folder, at) = scratch();
    write_groups(&at("points.csv"), 200, 1, 60);
    let (data, model) = (at("points.csv"), at("m.dance"));
    let fit = ["fit", &data, "-o", &model, "--split", "0.3,0.3,0.4", "--test-out", &at("t.csv"), "--json"];
    let report = run(&[&fit[..], &QUICK, &["--new-labels"]].concat()).success().json();
    assert!(report["guarantee"].as_str().unwrap().contains("a new label is in a set that says so"), "{report}");
    let sets = run(&["predict", &model, &at("t.csv"), "--alpha", "0.4"]).success();
    let answers: Vec<serde_json::Value> = sets.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(answers.iter().all(|answer| answer["new_label"].is_boolean()));
    // The new label is a column of tables, and counts as a label of the set in `evaluate`.
    run(&["predict", &model, &at("t.csv"), "--alpha", "0.4", "-o", &at("s.csv")]).success();
    assert!(std::fs::read_to_string(at("s.csv")).unwrap().lines().next().unwrap().contains("new_label"));
    let judged = run(&["evaluate", &model, &at("t.csv"), "--alpha", "0.4", "--json"]).success().json();
    let none = answers.iter().filter(|answer| answer["new_label"] == true).count() as f64;
    let labels: usize = answers.iter().map(|answer| answer["set"].as_array().unwrap().len()).sum();
    let size = judged["levels"][0]["size"].as_f64().unwrap();
    assert!((size - (labels as f64 + none) / answers.len() as f64).abs() < 1e-9);
    run(&[&fit[..], &QUICK, &["--new-labels", "--method", "dance"]].concat())
        .fails(&["--new-labels", "--method dance"]);
}
