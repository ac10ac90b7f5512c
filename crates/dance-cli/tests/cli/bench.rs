//! `dance bench`: its output and files, its continuation, and bad input.

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
    let ran = bench(&arguments).success().prints(&["Mean over 1 data set and 1 seed at", "DANCE", "RFM Adapter (APS)"]);
    let ran = ran.prints(&[
        "needs prototypes",
        "at α = 0.05",
        "Coverage in parts of the points",
        "Class probabilities",
        "Ablations",
        "Times",
    ]);
    let (_, tables) = ran.stdout.split_once("Mean over").unwrap();
    let wide = tables.lines().find(|line| line.chars().count() > 100 && !line.starts_with("Written"));
    assert_eq!(wide, None);
    let files = ["report.html", "results.json", "tables.csv", "tables.md"];
    assert_eq!(names(&folder.path().join("out")), files);
    // A second run with equal settings fits nothing and prints an equal table.
    assert_eq!(bench(&arguments).success().stdout, ran.stdout);
    // Other settings must not mix with these results.
    bench(&[&data, "-o", &at("out")]).fails(&["out holds results of other settings"]);
}

/// Files of a killed run are accepted; a second run in the same folder is refused.
#[cfg(unix)]
#[test]
fn one_run_at_a_time_and_leftovers_are_ours() {
    let (folder, at) = scratch();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join(".results.json.abcdef.tmp"), "half").unwrap();
    let lock = std::fs::File::open(&out).unwrap();
    lock.try_lock().unwrap();
    bench(&[&shared("small.npz"), "-o", &at("out")]).fails(&["out: another run writes"]);
    drop(lock);
    bench(&[&shared("small.npz"), "-o", &at("out")]).success();
    assert!(out.join("report.html").exists());
    assert!(!out.join(".results.json.abcdef.tmp").exists(), "leftovers are removed");
}

/// Files are written even if the reader of stdout closes it.
#[cfg(unix)]
#[test]
fn files_are_written_whoever_listens() {
    let (folder, at) = scratch();
    let line = format!(
        "{} bench {} -o {} {} | true",
        super::binary().display(),
        shared("small.npz"),
        at("out"),
        QUICK.join(" ")
    );
    assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
    // The pipe's other end is gone at once; the run itself goes on to its end.
    let begin = std::time::Instant::now();
    let report = folder.path().join("out/report.html");
    while !report.exists() {
        assert!(begin.elapsed().as_secs() < 60, "no report appeared");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_bad_file_among_good_ones_is_named_at_the_end() {
    let (_folder, at) = scratch();
    std::fs::write(at("bad.npz"), "not an archive").unwrap();
    let ran = bench(&[&at("bad.npz"), &shared("small.npz")]).code(2).prints(&["RFM Adapter (APS)"]);
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
    run(&["bench", &data, "--zipf", "-1"]).fails(&["zipf"]);
    run(&["bench", &data, "--ablate", "magic"]).fails(&["magic", "rank-neighbors"]);
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full/notes.txt"), "mine").unwrap();
    bench(&[&data, "-o", &at("full")]).fails(&["full is not empty"]);
}
