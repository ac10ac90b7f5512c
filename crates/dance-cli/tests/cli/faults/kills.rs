//! `kill -9` at random moments. A few per command with every test; `DANCE_KILLS=100` for as many as that.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dance::numeric::random::Random;
use serde_json::Value;

use super::super::{Ran, names};
use super::{BENCH, WRITERS, dance, folder};

const KILLS: usize = 20;
const OLD: &[u8] = b"what was there before";

fn kills() -> usize {
    std::env::var("DANCE_KILLS").map_or(KILLS, |text| text.parse().expect("DANCE_KILLS is a number"))
}

/// Returns the time of an undisturbed run: the longest of a few.
fn undisturbed(mut command: impl FnMut() -> Command) -> Duration {
    let mut once = || {
        let begin = Instant::now();
        Ran::new(command().output().unwrap()).success();
        begin.elapsed()
    };
    (0..3).map(|_| once()).max().unwrap()
}

/// Starts a run and kills it at a moment that `random` draws; whether it lived to its end.
fn killed(mut command: Command, longest: Duration, random: &mut Random) -> bool {
    let moment = longest.mul_f64(random.uniform());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap().success()
}

#[test]
fn killed_writers_leave_whole_files_or_none() {
    let mut random = Random::new(0, 0);
    for writer in WRITERS {
        let folder = folder();
        let inputs = names(folder.path());
        let command = || dance(folder.path(), writer.arguments);
        let longest = undisturbed(command);
        let whole: BTreeMap<&str, Vec<u8>> =
            writer.outputs.iter().map(|&name| (name, fs::read(folder.path().join(name)).unwrap())).collect();
        let (mut old, mut new, mut absent) = (0, 0, 0);
        for kill in 0..kills() {
            for name in writer.outputs {
                let path = folder.path().join(name);
                if kill % 2 == 0 {
                    fs::write(path, OLD).unwrap();
                } else {
                    let _ = fs::remove_file(path);
                }
            }
            let ended = killed(command(), longest, &mut random);
            for (name, whole) in &whole {
                match fs::read(folder.path().join(name)) {
                    Ok(found) if found == *whole => new += 1,
                    Ok(found) if found == OLD && kill % 2 == 0 && !ended => old += 1,
                    Err(_) if kill % 2 == 1 && !ended => absent += 1,
                    found => panic!("{}, kill {kill}: {name} is {found:?}", writer.name),
                }
            }
        }
        println!("{}: {old} old, {new} new, {absent} absent, {} left over", writer.name, leftovers(folder.path()));
        // The next run works, and cleans up.
        Ran::new(command().output().unwrap()).success();
        let mut expected = inputs;
        expected.extend(writer.outputs.iter().map(|&name| name.to_owned()));
        expected.sort();
        assert_eq!(names(folder.path()), expected, "{}", writer.name);
        for (name, whole) in &whole {
            assert!(fs::read(folder.path().join(name)).unwrap() == *whole, "{}: {name} differs", writer.name);
        }
    }
}

fn leftovers(folder: &Path) -> usize {
    names(folder).iter().filter(|name| name.starts_with('.')).count()
}

/// A bench that is killed over and over ends with what it would have ended with at once.
#[test]
fn a_killed_bench_continues() {
    let folder = folder();
    let out = folder.path().join("out");
    let fresh = || {
        let _ = fs::remove_dir_all(&out);
        dance(folder.path(), &BENCH)
    };
    let longest = undisturbed(fresh);
    let files = names(&out);
    let whole = results(&out).unwrap();
    let mut random = Random::new(1, 0);
    let (mut runs, mut continued) = (0, 0);
    fs::remove_dir_all(&out).unwrap();
    for kill in 0..kills() {
        let before = results(&out).map_or(0, |results| cases(&results).len());
        let ended = killed(dance(folder.path(), &BENCH), longest, &mut random);
        // Cases come one after the other and none is lost.
        let now = results(&out).map_or(Vec::new(), |results| cases(&results).clone());
        assert!(now.len() >= before, "kill {kill}: {before} cases, then {}", now.len());
        assert_eq!(now, cases(&whole)[..now.len()], "kill {kill}");
        continued += usize::from(before > 0 && before < 4);
        if ended || now.len() == 4 {
            finish(folder.path(), &out, &whole, &files);
            fs::remove_dir_all(&out).unwrap();
            runs += 1;
        }
    }
    println!("bench: {runs} runs came to their end, {continued} continued others");
    finish(folder.path(), &out, &whole, &files);
}

/// Runs to the end, and asserts the results and files of an undisturbed run.
fn finish(folder: &Path, out: &Path, whole: &Value, files: &[String]) {
    Ran::new(dance(folder, &BENCH).output().unwrap()).success();
    assert_eq!(results(out).as_ref(), Some(whole));
    assert_eq!(names(out), files);
}

/// Returns `results.json` without its times; `None` if it does not exist. If it exists, it is complete.
fn results(out: &Path) -> Option<Value> {
    let text = fs::read(out.join("results.json")).ok()?;
    let mut results = serde_json::from_slice(&text).unwrap();
    drop_seconds(&mut results);
    Some(results)
}

fn cases(results: &Value) -> &Vec<Value> {
    results["cases"].as_array().unwrap()
}

fn drop_seconds(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|key, _| key != "seconds");
            entries.values_mut().for_each(drop_seconds);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_seconds),
        _ => {}
    }
}
