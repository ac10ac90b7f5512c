//! Errors: exit status 2, one helpful message on stderr, nothing on stdout, and no file left.

use super::{names, run, scratch, shared};

#[test]
fn files_that_are_not_there_or_not_readable() {
    let (folder, at) = scratch();
    let (model, out) = (shared("model"), at("out"));
    run(&["fit", &at("no.npz"), "-o", &out]).fails(&["no.npz", "No such file"]);
    run(&["predict", &at("no"), &shared("test.npz")]).fails(&["/no: ", "No such file"]);
    run(&["predict", &model, &at("no.npz")]).fails(&["no.npz"]);
    run(&["inspect", &at("no.npz")]).fails(&["no.npz"]);
    std::fs::write(at("data.xlsx"), "x").unwrap();
    run(&["fit", &at("data.xlsx"), "-o", &out]).fails(&["data.xlsx", ".parquet, .jsonl can be read", "--format"]);
    std::fs::write(at("empty.npz"), "").unwrap();
    run(&["fit", &at("empty.npz"), "-o", &out]).fails(&["empty.npz", "0 bytes"]);
    assert_eq!(names(folder.path()), ["data.xlsx", "empty.npz"]);
}

#[test]
fn data_that_cannot_be_used() {
    let (_folder, at) = scratch();
    let (model, out) = (shared("model"), at("out"));
    std::fs::write(at("nan.csv"), "label,x,y\na,1,2\nb,3,NaN\na,2,2\n").unwrap();
    run(&["fit", &at("nan.csv"), "-o", &out]).fails(&["nan.csv: line 3, column `y`: `NaN` is not a finite"]);
    std::fs::write(at("narrow.csv"), "label,x,y\na,1,2\nb,3,4\n").unwrap();
    let wrong = ["narrow.csv", "dimensions", "expected 384, found 2"];
    run(&["predict", &model, &at("narrow.csv")]).fails(&wrong);
    run(&["evaluate", &model, &at("narrow.csv")]).fails(&wrong);
    run(&["explain", &model, &at("narrow.csv"), "--row", "0"]).fails(&wrong);
    run(&["recalibrate", &model, &at("narrow.csv"), "-o", &out]).fails(&["narrow.csv", "expected 384, found 2"]);
    std::fs::write(at("one.csv"), "label,x\na,1\na,2\n").unwrap();
    run(&["fit", &at("one.csv"), "-o", &out]).fails(&["one.csv", "at least two classes"]);
    std::fs::write(at("bare.csv"), "x,y\n1,2\n").unwrap();
    run(&["fit", &at("bare.csv"), "-o", &out]).fails(&["bare.csv", "labels"]);
    run(&["evaluate", &model, &at("bare.csv")]).fails(&[
        "bare.csv: has no `label`; it holds `x`, `y`",
        "--label-column",
        "--labels",
    ]);
    run(&["fit", &shared("small.npz"), "-o", &out, "--memory", "1KB"]).fails(&["memory", "limit"]);
}

#[test]
fn models_that_are_damaged() {
    let (_folder, at) = scratch();
    let bytes = std::fs::read(shared("model")).unwrap();
    std::fs::write(at("cut"), &bytes[..bytes.len() / 2]).unwrap();
    let mut flipped = bytes;
    let last = flipped.len() - 9;
    flipped[last] ^= 1;
    std::fs::write(at("flipped"), flipped).unwrap();
    for command in ["predict", "evaluate"] {
        run(&[command, &at("cut"), &shared("test.npz")]).fails(&["cut: ", "damaged or not a model"]);
    }
    run(&["inspect", &at("cut")]).fails(&["damaged or not a model"]);
    run(&["inspect", &at("flipped")]).fails(&["checksum does not match"]);
    run(&["predict", &shared("test.npz"), &shared("test.npz")]).fails(&["this is not a dance model"]);
}

#[test]
fn options_outside_their_range_are_refused_before_anything_is_read() {
    let (_folder, at) = scratch();
    // The data does not exist: the option is what is complained about.
    let no = at("no.npz");
    for (option, value) in [
        ("--alpha", "1.5"),
        ("--alpha", "0.1,zero"),
        ("--split", "0.5,0.6"),
        ("--evaluations", "0"),
        ("--kernel", "bandwidth=-1"),
        ("--kernel", "shape=0.2"),
        ("--kernel", "ridge=-1"),
        ("--kernel", "colour=1"),
        ("--kernel", "rounds=1,rounds=2"),
        ("--scores", "mix=2"),
        ("--scores", "temperature=0"),
        ("--scores", "rank_neighbors=0"),
        ("--memory", "lots"),
        ("--memory", "8"),
        ("--normalize", "maybe"),
        ("--calibration", "exactly"),
    ] {
        run(&["fit", &no, "-o", &at("out"), &format!("{option}={value}")]).fails(&[option, value]);
    }
    run(&["predict", &no, &no, "--alpha", "0"]).fails(&["--alpha", "between 0 and 1"]);
    run(&["predict", &no, &no, "--include", "smells"]).fails(&["smells", "neighbors"]);
    run(&["fit", &no, "-o", &at("out"), "--split", "0.5,0.5", "--calibration-data", &no])
        .fails(&["cannot be used with"]);
    run(&["fit", &shared("small.npz"), "-o", &at("out"), "--test-out", &at("t.npz")]).fails(&["test share"]);
    run(&["fit", "-v", "-q", &no, "-o", &at("out")]).fails(&["cannot be used with"]);
    run(&["sing"]).fails(&["sing"]);
    // Settings that contradict each other, by the names of both.
    for (options, names) in [
        (&["--method", "fuse", "--calibration", "split"][..], ["--calibration split", "--method fuse"]),
        (&["--method", "posterior", "--calibration", "reuse"], ["--calibration reuse", "--method posterior"]),
        (&["--method", "dance", "--calibration", "full"], ["--calibration full", "--method dance"]),
        (&["--method", "dance", "--new-labels"], ["--new-labels", "--method dance"]),
        (&["--calibration", "split", "--new-labels"], ["--new-labels", "--calibration split"]),
        (&["--method", "fuse", "--by-class", "balanced"], ["--by-class balanced", "--method fuse"]),
        (&["--paper", "--by-class", "each"], ["--by-class each", "--method dance"]),
        (&["--scores", "mix=0.2"], ["--scores mix=0.2", "--method posterior"]),
    ] {
        run(&[&["fit", &no, "-o", &at("out")][..], options].concat()).fails(&names);
    }
    // A mistyped option is answered with the one that is meant.
    for (option, meant) in
        [("--by-clas=each", "--by-class"), ("--new-label", "--new-labels"), ("--kernels=x", "--kernel")]
    {
        let name = option.split('=').next().unwrap();
        run(&["fit", &no, "-o", &at("out"), option]).fails(&["unexpected argument", name, meant]);
    }
}

#[test]
fn a_class_that_the_model_does_not_know_counts_as_not_covered() {
    let (_folder, at) = scratch();
    // Every label renamed: nothing can be covered.
    let small = std::fs::read_to_string(shared("small.csv")).unwrap();
    let header = small.lines().next().unwrap();
    assert!(header.starts_with("id,label,x0,"));
    let zebra: Vec<String> = csv_rows(&small).into_iter().take(6).map(|row| format!("zebra,{row}")).collect();
    let columns = header.trim_start_matches("id,label,");
    std::fs::write(at("zebra.csv"), format!("label,{columns}\n{}\n", zebra.join("\n"))).unwrap();
    let ran = run(&["evaluate", &shared("model"), &at("zebra.csv"), "--json"]).success();
    assert!(ran.stderr.contains("6 of 6 rows carry a label that the model does not know (the first is `zebra`"));
    assert_eq!(ran.json()["levels"][0]["coverage"], 0.0);
    run(&["evaluate", &shared("model"), &at("zebra.csv"), "--check=0.9"]).code(1);
}

/// The numbers of every row: ids may hold commas, numbers cannot.
fn csv_rows(text: &str) -> Vec<String> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.rsplitn(385, ',').take(384).collect();
        cells.into_iter().rev().collect::<Vec<_>>().join(",")
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn outputs_that_cannot_be_written() {
    let (folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    run(&["predict", &model, &test, "-o", &at("sets.xlsx")]).fails(&["sets.xlsx", ".jsonl, .csv, .parquet or .npz"]);
    run(&["predict", &model, &test, "-o", &at("no/sets.csv")]).fails(&["no/sets.csv", "cannot be written"]);
    run(&["fit", &test, "-o", &at("no/model")]).fails(&["no/model", "cannot be written"]);
    run(&["fit", &test, "-o", folder.path().to_str().unwrap()]).fails(&["is a directory"]);
    if cfg!(target_os = "linux") {
        // A device is not replaced by a file; even root cannot write below /proc.
        run(&["fit", &test, "-o", "/dev/null"]).fails(&["/dev/null: is not a regular file"]);
        run(&["fit", &test, "-o", "/proc/model"]).fails(&["/proc/model", "cannot be written"]);
        run(&["predict", &model, &test, "-o", "/proc/sets.csv"]).fails(&["/proc/sets.csv", "cannot be written"]);
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_noticed_before_the_work() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, at) = scratch();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(at("probe"), "").is_ok() {
        return; // root may write anywhere; /proc stands in for this above
    }
    run(&["fit", &shared("small.npz"), "-o", &at("m")]).fails(&["cannot be written", "ermission denied"]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let (folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    // A limit on file sizes fails writes just as a full disk does, for everybody and without a mount.
    let limited = |arguments: &str| {
        let program = super::binary().display().to_string();
        let script = format!("trap '' XFSZ; ulimit -f 2; exec '{program}' {arguments}");
        super::Ran::new(std::process::Command::new("sh").args(["-c", &script]).output().unwrap())
    };
    limited(&format!("fit '{test}' -o '{}' --evaluations 1 --kernel rounds=0", at("m")))
        .fails(&["/m", "cannot be written"]);
    for name in ["sets.jsonl", "sets.csv", "sets.parquet", "sets.npz"] {
        let include = "--include probabilities,p-values,neighbors --alpha 0.01";
        let ran = limited(&format!("predict '{model}' '{test}' -o '{}' {include}", at(name)));
        // In the system's words, once, without those of the libraries between.
        let ran = ran.fails(&[&format!("{name}: cannot be written: File too large (os error 27)")]);
        assert_eq!(ran.stderr.matches("os error").count(), 1, "{}", ran.stderr);
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// An output that is an input or another output, by any name, is refused, and existing files stay unchanged.
#[test]
fn outputs_do_not_destroy_inputs() {
    let (folder, at) = scratch();
    for (from, to) in [("small.npz", "d.npz"), ("model", "m.dance"), ("test.npz", "t.npz")] {
        std::fs::copy(shared(from), at(to)).unwrap();
    }
    let (data, model) = (at("d.npz"), at("m.dance"));
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let around = at("sub/../d.npz");
    let before = ["d.npz", "m.dance"].map(|name| std::fs::read(at(name)).unwrap());
    let fit = |extra: &[&str]| run(&[&["fit", &data, "--evaluations", "1", "--split", "0.4,0.4,0.2"], extra].concat());
    fit(&["-o", &data]).fails(&["d.npz: would be overwritten"]);
    fit(&["-o", &around]).fails(&["would be overwritten"]);
    fit(&["-o", &at("new"), "--test-out", &data]).fails(&["would be overwritten"]);
    fit(&["-o", &at("same.npz"), "--test-out", &at("sub/../same.npz")]).fails(&["are the same file"]);
    fit(&["-o", "-"]).fails(&["name a file"]);
    std::fs::write(at("c.toml"), "seed = 1\n").unwrap();
    fit(&["-o", &at("c.toml"), "--config", &at("c.toml")]).fails(&["would be overwritten"]);
    #[cfg(target_os = "linux")]
    {
        std::fs::write(at("lines.jsonl"), "[1]\n").unwrap();
        let line = format!(
            "exec {} predict {model} - -o {} < {}",
            super::binary().display(),
            at("lines.jsonl"),
            at("lines.jsonl")
        );
        let ran = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        super::Ran::new(ran).fails(&["would be overwritten"]);
    }
    run(&["predict", &model, &data, "-o", &around]).fails(&["would be overwritten"]);
    run(&["recalibrate", &model, &at("t.npz"), "-o", &at("t.npz")]).fails(&["would be overwritten"]);
    run(&["recalibrate", &model, &at("t.npz"), "-o", &model]).fails(&["would be overwritten"]);
    run(&["demo", &data, "--report", &data]).fails(&["would be overwritten"]);
    run(&["evaluate", &model, &data, "--classes-out", &data]).fails(&["would be overwritten"]);
    #[cfg(unix)]
    for link in ["soft.npz", "hard.npz"] {
        if link.starts_with("soft") {
            std::os::unix::fs::symlink(&data, at(link)).unwrap();
        } else {
            std::fs::hard_link(&data, at(link)).unwrap();
        }
        run(&["predict", &model, &data, "-o", &at(link)]).fails(&["would be overwritten"]);
        run(&["predict", &model, &at(link), "-o", &data]).fails(&["would be overwritten"]);
    }
    assert!(before == ["d.npz", "m.dance"].map(|name| std::fs::read(at(name)).unwrap()));
}

/// Names from files reach the terminal as text, never as commands to it.
#[test]
fn control_characters_are_shown() {
    let (_folder, at) = scratch();
    let evil = "\u{1b}]0;owned\u{7}";
    let line =
        |row: usize| format!("{}{evil},{}{evil},{},{}\n", ["a", "b"][row % 2], row, row % 2 * 5 + row % 7, row % 5);
    let text = "label,id,x,y\n".to_owned() + &(0..80).map(line).collect::<String>();
    std::fs::write(at("evil.csv"), &text).unwrap();
    std::fs::write(at("bad.csv"), text.replace("label,id", &format!("label,{evil}"))).unwrap();
    let fit = ["fit", &at("evil.csv"), "-o", &at("m"), "--evaluations", "1", "--normalize", "standardize"];
    run(&fit).success();
    let runs = [
        run(&["inspect", &at("evil.csv")]),
        run(&["inspect", &at("m")]),
        run(&["explain", &at("m"), &at("evil.csv"), "--row", "0"]),
        run(&["evaluate", &at("m"), &at("evil.csv")]),
        run(&["inspect", &at("bad.csv")]),
        run(&["inspect", &at(&format!("none{evil}.csv"))]),
    ];
    for ran in &runs {
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{}{}", ran.stdout, ran.stderr);
    }
    assert!(runs[2].stdout.contains("\\x1b]0;owned"), "{}", runs[2].stdout);
}

/// More threads than any machine has are a slip of the finger.
#[test]
fn too_many_threads_are_not_started() {
    let ran = run(&["evaluate", &shared("model"), &shared("test.npz"), "--threads", "100000"]).success();
    assert!(ran.stderr.contains("--threads 100000: 256 threads is the most"), "{}", ran.stderr);
}

/// Small files that claim terabytes (`tests/attacks`) are refused within a quarter of a gigabyte of address space, in
/// which an allocation of the claimed size would end the program.
#[cfg(target_os = "linux")]
#[test]
fn hostile_files_are_refused_in_little_memory() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks"));
    let inspect = |file: &std::path::Path| {
        let line =
            format!("ulimit -v 262144; exec {} inspect {} --threads 1", super::binary().display(), file.display());
        super::Ran::new(std::process::Command::new("sh").args(["-c", &line]).output().unwrap())
    };
    // The limit leaves room for an honest file.
    inspect(std::path::Path::new(&shared("small.npz"))).success();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        inspect(&path).fails(&[path.file_name().unwrap().to_str().unwrap()]);
        count += 1;
    }
    assert_eq!(count, 7);
}

/// Lines are counted as editors do, however they end.
#[test]
fn lines_are_counted_as_editors_do() {
    let (_folder, at) = scratch();
    for (name, end) in [("unix.csv", "\n"), ("windows.csv", "\r\n")] {
        let lines = ["label,x,y", "a,1,2", "b,3,4", ",5,6", "a,7,8"].join(end);
        std::fs::write(at(name), lines + end).unwrap();
        run(&["fit", &at(name), "-o", &at("m")]).fails(&["no label at line 4;"]);
        std::fs::write(at(name), ["label,x,y", "a,1,2", "b,3"].join(end) + end).unwrap();
        run(&["inspect", &at(name)]).fails(&["line 3: has 2 fields"]);
    }
}

/// A row that cannot be used is named by its number in the file, not in a part of it.
#[test]
fn rows_are_those_of_the_file() {
    let (_folder, at) = scratch();
    for zero in [5, 17, 33, 58] {
        let line = |row: usize| {
            let (x, y) = if row == zero { (0, 0) } else { (1 + row % 3, 5 * (row % 2)) };
            format!("{},{x},{y}\n", ["a", "b"][row % 2])
        };
        std::fs::write(at("d.csv"), "label,x,y\n".to_owned() + &(0..60).map(line).collect::<String>()).unwrap();
        let ran = run(&["fit", &at("d.csv"), "-o", &at("m"), "--evaluations", "1"]);
        ran.fails(&[&format!("row {zero} is all zeros")]);
    }
}

/// A number below 0 is a wrong number, not an option.
#[test]
fn negative_numbers_get_the_message_of_their_option() {
    let no = shared("nowhere.npz");
    for begin in [&["fit", &no, "-o", &no][..], &["predict", &no, &no], &["evaluate", &no, &no], &["bench", &no]] {
        let ran = run(&[begin, &["--alpha", "-0.1"]].concat()).code(2);
        assert!(ran.stderr.contains("between 0 and 1"), "{begin:?}: {}", ran.stderr);
    }
    run(&["fit", &no, "-o", &no, "--kernel", "ridge=-1"]).fails(&["-1"]);
    run(&["help", "fit"]).success().prints(&["Fit a kernel to embeddings"]);
}
