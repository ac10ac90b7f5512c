//! `dance audit`: its findings in every file that it writes.

use dance::numeric::random::uniform_of;
use serde_json::{Value, json};

use super::{run, scratch, toy};

/// Planted label errors are listed with the right labels, and a sorted file is distinguished from a shuffled one.
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
            (error["row"].as_u64().unwrap(), error["id"].as_str().unwrap(), error["suggested"].as_str().unwrap())
        })
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [(7, "p7", "bee"), (50, "p50", "cat"), (91, "p91", "bee")]);
    let written: Value = serde_json::from_slice(&std::fs::read(at("audit/audit.json")).unwrap()).unwrap();
    assert_eq!(written, report);
    let mut table = csv::Reader::from_path(at("audit/findings.csv")).unwrap();
    assert_eq!(
        table.headers().unwrap(),
        ["finding", "row", "id", "label", "suggested", "value", "points", "space", "parts"].as_slice()
    );
    assert_eq!(table.records().filter(|row| &row.as_ref().unwrap()[0] == "label error").count(), 3);
    let page = std::fs::read_to_string(at("audit/index.html")).unwrap();
    assert!(page.starts_with("<!doctype html>\n<!-- dance audit report -->") && page.contains("p91"));
    // Neighbors have their labels, without which nobody can judge.
    assert!(page.contains("(bee); ") && page.contains("<h2>Terms</h2>"));

    let text = std::fs::read_to_string(at("toy.csv")).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.sort_unstable();
    std::fs::write(at("sorted.csv"), format!("{header}\n{}\n", lines.join("\n"))).unwrap();
    let sorted = run(&["audit", &at("sorted.csv"), "-o", &at("again")]).success();
    assert!(sorted.stdout.contains("not random, by label"), "{}", sorted.stdout);
    run(&["audit", &at("toy.csv"), "-o", &at("audit"), "--fdr", "1.5"]).fails(&["between 0 and 1"]);
}

/// A refused audit removes the folder that it created, and no other.
#[test]
fn an_audit_that_is_refused_takes_its_folder_away() {
    let (_folder, at) = scratch();
    toy(&at("toy.csv"), 30, |_| "ant".to_owned(), |row| format!("p{row}"));
    run(&["audit", &at("toy.csv"), "-o", &at("audit")]).fails(&["at least two classes"]);
    assert!(!std::path::Path::new(&at("audit")).exists());
    std::fs::create_dir(at("kept")).unwrap();
    run(&["audit", &at("toy.csv"), "-o", &at("kept")]).fails(&["at least two classes"]);
    assert!(std::path::Path::new(&at("kept")).exists());
}

/// A class of two groups, in every file that an audit writes.
#[test]
fn an_audit_names_a_class_that_is_two() {
    let (_folder, at) = scratch();
    let line = |row: u64| {
        let place = if row % 2 == 1 && row % 4 == 1 { 2 } else { row % 2 };
        let number = |at: u64| f64::from(u8::from(place == at)) * 5.0 + uniform_of(&[row, at]);
        let numbers: Vec<String> = (0..6).map(|at| number(at).to_string()).collect();
        format!("{},r{row},{}", ["one", "two"][row as usize % 2], numbers.join(","))
    };
    std::fs::write(
        at("data.csv"),
        format!("label,id,a,b,c,d,e,f\n{}\n", (0..160).map(line).collect::<Vec<_>>().join("\n")),
    )
    .unwrap();
    let report = run(&["audit", &at("data.csv"), "-o", &at("audit"), "--json"]).success().json();
    let twofold = report["twofold"].as_array().unwrap();
    assert_eq!((twofold.len(), &twofold[0]["class"]), (1, &json!("two")));
    for group in twofold[0]["groups"].as_array().unwrap() {
        let rows: Vec<u64> = group.as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect();
        assert!(rows.len() == 40 && rows.iter().all(|row| row % 4 == rows[0] % 4), "{rows:?}");
    }
    let mut table = csv::Reader::from_path(at("audit/findings.csv")).unwrap();
    let row = table.records().map(Result::unwrap).find(|row| &row[0] == "class is two").unwrap();
    assert!(&row[3] == "two" && row[6].starts_with("40 points: r") && row[6].contains(" | 40 points: r"), "{row:?}");
    assert!(std::fs::read_to_string(at("audit/index.html")).unwrap().contains("Classes that are two"));
}

/// A copy in two parts of a file, and copies of a model's points, in every file that an audit writes.
#[test]
fn an_audit_names_copies_across_parts() {
    let (_folder, at) = scratch();
    let line = |row: u64| {
        let number = |at: u64| f64::from(u8::from(row % 3 == at)) * 5.0 + uniform_of(&[row, at]);
        let numbers: Vec<String> = (0..8).map(|at| number(at).to_string()).collect();
        format!("{},f{row},{}", ["ant", "bee", "cat"][row as usize % 3], numbers.join(","))
    };
    let fitted: Vec<String> = ["label,id,a,b,c,d,e,f,g,h".to_owned()].into_iter().chain((0..300).map(line)).collect();
    std::fs::write(at("fit.csv"), fitted.join("\n")).unwrap();
    run(&["fit", &at("fit.csv"), "-o", &at("toy"), "--evaluations", "1", "--kernel", "rounds=0"]).success();
    // Ten points of the fit file under names of their own, two of them twice; and one as it is.
    let renamed = |row: usize, id: &str| fitted[row + 1].replacen(&format!("f{row},"), &format!("{id},"), 1);
    let mut lines: Vec<String> = (0..10).map(|row| format!("train,{}", renamed(row, &format!("n{row}")))).collect();
    lines.push(format!("test,{}", renamed(0, "again0")));
    lines.push(format!("train,{}", renamed(1, "again1")));
    lines.push(format!("test,{}", fitted[12]));
    std::fs::write(at("new.csv"), format!("split,{}\n{}\n", fitted[0], lines.join("\n"))).unwrap();
    let (new, out) = (at("new.csv"), at("audit"));
    let alone = run(&["audit", &new, "-o", &out, "--parts", "split", "--json"]).success().json();
    let ids = |group: &Value| serde_json::to_string(&group["ids"]).unwrap();
    let copies = alone["copies"].as_array().unwrap();
    assert_eq!(copies.iter().map(ids).collect::<Vec<_>>(), [r#"["n0","again0"]"#, r#"["n1","again1"]"#]);
    assert_eq!((&copies[0]["across"], &copies[0]["parts"]), (&json!(true), &json!(["test", "train"])));
    assert_eq!((&copies[1]["across"], &copies[1]["space"]), (&json!(false), &json!("given")));
    let mut table = csv::Reader::from_path(at("audit/findings.csv")).unwrap();
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    let across = rows.iter().find(|row| &row[0] == "copies across parts").unwrap();
    assert_eq!((&across[6], &across[7], &across[8]), ("n0 (train); again0 (test)", "given", "test; train"));

    let judged =
        run(&["audit", &new, "-o", &out, "--parts", "split", "--model", &at("toy"), "--json"]).success().json();
    let seen = judged["seen"].as_array().unwrap();
    assert_eq!((seen.len(), &seen[0]["id"], &seen[12]["id"]), (13, &json!("n0"), &json!("f11")));
    assert_eq!((&seen[0]["point"]["id"], &seen[12]["point"]["id"]), (&json!("f0"), &json!("f11")));
    let first = &judged["copies"][0];
    assert_eq!((ids(first), &first["space"]), (r#"["n0","again0"]"#.into(), &json!("both")));
    assert_eq!(first["model"][0]["id"], "f0");
    assert!(judged["copies"].as_array().unwrap().iter().all(|group| group["across"] == true));
    let page = std::fs::read_to_string(at("audit/index.html")).unwrap();
    assert!(page.contains("across parts") && page.contains("f0 of the") && page.contains("part of toy"));
    run(&["audit", &at("fit.csv"), "-o", &out, "--parts", "split"])
        .fails(&["has no `split`", "Name an existing column with --parts"]);
}
