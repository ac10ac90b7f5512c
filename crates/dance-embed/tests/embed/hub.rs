//! Fetching, for real, from a hub on this machine.

use std::fs;
use std::path::Path;

use dance::Context;
use dance_embed::hub::Hub;

use crate::refused;
use crate::server::{COMMIT, Files, Manner, serve};

const REPOSITORY: &str = "people/encoder";

/// A small file with git's hash of it (`git hash-object`), and a large one with its SHA-256 (`sha256sum`).
fn files() -> Files {
    Files::from([
        ("config.json", (b"{\"size\": 4}\n".to_vec(), CONFIG)),
        ("onnx/model.onnx", (b"0123456789".repeat(30_000), WEIGHTS)),
    ])
}

const CONFIG: &str = "dfde085f8dbeb1b3c6e4873109db9ec7382d85be";
const WEIGHTS: &str = "91c304e4daed16d1ac074867c3a7b6b25f113684822bb9cb5db2535cf6b21c8c";

fn hub(manner: Manner, cache: &Path) -> (Hub, crate::server::Log) {
    let (endpoint, log) = serve(files(), manner);
    (Hub { endpoint, cache: cache.to_owned(), token: Some("secret".into()), offline: false }, log)
}

#[test]
fn files_are_fetched_once_into_the_usual_cache() {
    let cache = tempfile::tempdir().unwrap();
    let (hub, log) = hub(Manner::Good, cache.path());
    let context = Context::new(1).unwrap();
    let weights = hub.file(REPOSITORY, "onnx/model.onnx", true, &context).unwrap().unwrap();
    let config = hub.file(REPOSITORY, "config.json", true, &context).unwrap().unwrap();
    let root = cache.path().join("models--people--encoder");
    assert_eq!(weights, root.join("snapshots").join(COMMIT).join("onnx/model.onnx"));
    assert_eq!(fs::read(&weights).unwrap(), files()["onnx/model.onnx"].0);
    assert_eq!(fs::read(&config).unwrap(), files()["config.json"].0);
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert!(root.join("blobs").join(WEIGHTS).is_file() && root.join("blobs").join(CONFIG).is_file());
    #[cfg(unix)]
    assert_eq!(fs::read_link(&weights).unwrap(), Path::new("../../../blobs").join(WEIGHTS));
    let asked = log.lock().unwrap().clone();
    assert!(asked.iter().all(|line| line.ends_with(" token")), "{asked:?}"); // all on one host
    // What is here is not asked for again, also without a network.
    let offline = Hub { offline: true, endpoint: "http://127.0.0.1:9".into(), ..hub };
    assert_eq!(offline.file(REPOSITORY, "config.json", true, &context).unwrap(), Some(config));
    refused(offline.file(REPOSITORY, "more.json", true, &context), &["more.json", "--offline"]);
    assert_eq!(offline.file(REPOSITORY, "more.json", false, &context).unwrap(), None);
    assert_eq!(log.lock().unwrap().len(), asked.len());
}

#[test]
fn a_cut_download_goes_on_where_it_stopped() {
    let cache = tempfile::tempdir().unwrap();
    let context = Context::new(1).unwrap();
    let (cutting, log) = hub(Manner::Cuts(50_000), cache.path());
    // Five tries of 50,000 bytes are not enough for 300,000; the next run has the rest.
    refused(cutting.file(REPOSITORY, "onnx/model.onnx", true, &context), &["onnx/model.onnx", "cut 5 times"]);
    let incomplete = cache.path().join("models--people--encoder/blobs").join(format!("{WEIGHTS}.incomplete"));
    assert_eq!(fs::metadata(&incomplete).unwrap().len(), 250_000);
    assert!(log.lock().unwrap().iter().any(|line| line.starts_with("200000 /elsewhere/")));
    let weights = cutting.file(REPOSITORY, "onnx/model.onnx", true, &context).unwrap().unwrap();
    assert_eq!(fs::read(weights).unwrap(), files()["onnx/model.onnx"].0);
    assert!(log.lock().unwrap().iter().any(|line| line.starts_with("250000 /elsewhere/")));
    assert!(!incomplete.exists());
}

#[test]
fn contents_with_another_hash_are_deleted() {
    let cache = tempfile::tempdir().unwrap();
    let context = Context::new(1).unwrap();
    let (lying, _) = hub(Manner::Lies, cache.path());
    for (file, hash) in [("onnx/model.onnx", WEIGHTS), ("config.json", CONFIG)] {
        refused(lying.file(REPOSITORY, file, true, &context), &[file, hash, "abab", "deleted"]);
    }
    let left: Vec<_> = fs::read_dir(cache.path().join("models--people--encoder/blobs")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_hub_that_does_not_help_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let context = Context::new(1).unwrap();
    let ask = |manner, file: &str| hub(manner, cache.path()).0.file(REPOSITORY, file, true, &context);
    refused(ask(Manner::Good, "none.json"), &["has no none.json"]);
    assert_eq!(hub(Manner::Good, cache.path()).0.file(REPOSITORY, "none.json", false, &context).unwrap(), None);
    refused(ask(Manner::Forbids, "config.json"), &["HF_TOKEN"]);
    refused(ask(Manner::Fails, "config.json"), &["503"]);
    refused(ask(Manner::Circles, "config.json"), &["points elsewhere"]);
    refused(ask(Manner::Foreign, "config.json"), &["no commit", "HF_ENDPOINT"]);
    let nobody = Hub { endpoint: "http://127.0.0.1:9".into(), cache: cache.path().into(), token: None, offline: false };
    refused(nobody.file(REPOSITORY, "config.json", true, &context), &["cannot be reached", "HF_ENDPOINT"]);
}

/// `/dev/full` is a disk without room.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let blobs = cache.path().join("models--people--encoder/blobs");
    fs::create_dir_all(&blobs).unwrap();
    // It is opened, found empty, and refuses every byte.
    std::os::unix::fs::symlink("/dev/full", blobs.join(format!("{WEIGHTS}.incomplete"))).unwrap();
    let context = Context::new(1).unwrap();
    let (good, _) = hub(Manner::Good, cache.path());
    refused(good.file(REPOSITORY, "onnx/model.onnx", true, &context), &["incomplete", "No space left"]);
}
