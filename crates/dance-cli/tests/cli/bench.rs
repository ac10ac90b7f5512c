//! `dance bench`: what it prints and writes, that it continues, and what it does with bad input.

use super::{names, run, scratch, shared};

const QUICK: [&str; 6] = ["--seeds", "1", "--evaluations", "2", "--methods", "dance,aps,conf-ot-aps"];

/// `dance bench` with few evaluations.
fn bench(arguments: &[&str]) -> super::Ran {
    run(&[&["bench"], arguments, &QUICK].concat())
}

#[test]
fn tables_are_printed_and_everything_is_written() {
    let (folder, at) = scratch();
    let data = shared("small.npz");
    let arguments = [&*data, "-o", &at("out"), "--ablate", "reference"];
    let ran = bench(&arguments).success().says(&["Mean over 1 data sets", "DANCE", "RFM Adapter (APS)"]);
    let ran = ran.says(&["needs prototypes", "at α = 0.05", "Class probabilities", "Ablations", "Times"]);
    let (_, tables) = ran.stdout.split_once("Mean over").unwrap();
    let wide = tables.lines().find(|line| line.chars().count() > 100 && !line.starts_with("Written"));
    assert_eq!(wide, None);
    let files = ["report.html", "results.json", "tables.csv", "tables.md"];
    assert_eq!(names(&folder.path().join("out")), files);
    // The same settings again: nothing is fitted, and the table is the same.
    assert_eq!(bench(&arguments).success().stdout, ran.stdout);
    // Other settings must not mix with these results.
    bench(&[&data, "-o", &at("out")]).fails(&["out holds results of other settings"]);
}

#[test]
fn a_bad_file_among_good_ones_is_named_at_the_end() {
    let (_folder, at) = scratch();
    std::fs::write(at("bad.npz"), "not an archive").unwrap();
    let ran = bench(&[&at("bad.npz"), &shared("small.npz")]).code(2).says(&["RFM Adapter (APS)"]);
    for part in ["1 of 2 data sets could not be used", "bad: "] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}

#[test]
fn what_makes_no_sense_is_refused_first() {
    let (_folder, at) = scratch();
    let data = shared("small.npz");
    run(&["bench", &data, "--alpha", "1.5"]).fails(&["alpha"]);
    run(&["bench", &data, "--seeds", "0"]).fails(&["seeds"]);
    run(&["bench", &data, "--methods", "magic"]).fails(&["magic", "knn-set"]);
    run(&["bench", &data, "--ablate", "magic"]).fails(&["magic", "rank-neighbors"]);
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full/notes.txt"), "mine").unwrap();
    bench(&[&data, "-o", &at("full")]).fails(&["full is not empty"]);
}
