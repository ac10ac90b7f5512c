//! Two writers of one file at once: it is always the whole file of one of them.

use std::fs;
use std::process::{Child, Stdio};

use super::super::{Ran, names};
use super::{dance, folder};

#[test]
fn two_writers_of_one_file() {
    for (begin, file) in [
        (&["fit", "d.csv", "--evaluations", "1", "-o", "both"][..], "both"),
        (&["predict", "m", "d.csv", "-o", "both.jsonl"], "both.jsonl"),
        (&["recalibrate", "m", "d.csv", "-o", "both"], "both"),
    ] {
        let folder = folder();
        let path = folder.path().join(file);
        let mut before = names(folder.path());
        let command = |different: &[&str]| dance(folder.path(), &[begin, different].concat());
        let different: [&[&str]; 2] = match begin[0] {
            "fit" => [&["--seed", "1"], &["--seed", "2"]],
            "predict" => [&["--alpha", "0.1"], &["--alpha", "0.2"]],
            _ => [&["--method", "dance"], &["--method", "fuse"]],
        };
        let alone = different.map(|different| {
            Ran::new(command(different).output().unwrap()).success();
            fs::read(&path).unwrap()
        });
        assert!(alone[0] != alone[1]);
        for _ in 0..8 {
            fs::remove_file(&path).unwrap();
            let start = |different| command(different).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut children: [Child; 2] = different.map(start);
            // A reader in between finds no file or a complete one.
            while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
                if let Ok(found) = fs::read(&path) {
                    assert!(alone.contains(&found), "{file} is torn: {} bytes", found.len());
                }
            }
            assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
            assert!(alone.contains(&fs::read(&path).unwrap()));
        }
        before.push(file.to_owned());
        before.sort();
        assert_eq!(names(folder.path()), before);
    }
}
