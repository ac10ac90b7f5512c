//! From pictures and texts to sets.

use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(feature = "serve")]
use super::client::Serving;
use super::{Ran, binary, run, scratch, shared};

fn files(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dance-embed/tests/files").join(name).display().to_string()
}

/// ONNX Runtime: what `ORT_DYLIB_PATH` names, or Python's in the project's environment.
fn runtime() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ORT_DYLIB_PATH") {
        return Some(named.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv");
    for environment in [root.clone(), root.join("benchmarks")] {
        let versions = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
        let mut packages = versions.map(|version| version.path().join("site-packages/onnxruntime/capi"));
        if let Some(folder) = packages.find(|folder| folder.is_dir()) {
            return Some(folder);
        }
    }
    eprintln!("skipped: needs ONNX Runtime; `pip install onnxruntime` into .venv, or set ORT_DYLIB_PATH");
    None
}

fn with_runtime(arguments: &[&str], runtime: &Path) -> Ran {
    Ran::new(Command::new(binary()).args(arguments).env("ORT_DYLIB_PATH", runtime).output().unwrap())
}

/// Sixty pictures of two kinds: `kind/number.ppm`.
fn pictures(folder: &Path) {
    for (kind, base) in [("dark", 20u8), ("light", 150)] {
        std::fs::create_dir_all(folder.join(kind)).unwrap();
        for number in 0..60u8 {
            let mut file = b"P6 8 8 255\n".to_vec();
            file.extend((0..192u8).map(|place| base + place.wrapping_mul(number.wrapping_add(7)) % 80));
            std::fs::write(folder.join(kind).join(format!("{number:02}.ppm")), file).unwrap();
        }
    }
}

#[test]
fn pictures_become_sets_in_three_commands() {
    let Some(runtime) = runtime() else { return };
    let (folder, at) = scratch();
    pictures(&folder.path().join("photos"));
    let clip = files("clip");
    let dance = |arguments: &[&str]| with_runtime(arguments, &runtime);
    let made = dance(&[
        "embed",
        &at("photos"),
        "-o",
        &at("photos.npz"),
        "--encoder",
        &clip,
        "--prompt",
        "a photo of a {}",
        "--json",
    ]);
    let report = made.success().json();
    assert_eq!((report["rows"].as_u64(), report["prototypes"].as_u64()), (Some(120), Some(2)));
    assert!(!Path::new(&at("photos.npz.parts")).exists());
    // The bytes do not depend on the number of threads.
    dance(&[
        "embed",
        &at("photos"),
        "-o",
        &at("again.npz"),
        "--encoder",
        &clip,
        "--prompt",
        "a photo of a {}",
        "--threads",
        "1",
    ])
    .success();
    assert_eq!(std::fs::read(at("photos.npz")).unwrap(), std::fs::read(at("again.npz")).unwrap());

    run(&[
        "fit",
        &at("photos.npz"),
        "-o",
        &at("model"),
        "--evaluations",
        "1",
        "--split",
        "0.4,0.4,0.2",
        "--test-out",
        &at("test.npz"),
    ])
    .success();
    run(&["inspect", &at("model")]).success().prints(&["encoder", "clip (weights"]);
    let on_the_fly = dance(&["predict", &at("model"), &at("photos/dark"), "--embed"]).success();
    assert_eq!(on_the_fly.stdout.lines().count(), 60);
    assert!(on_the_fly.stdout.starts_with("{\"row\":0,\"id\":\"00.ppm\""), "{}", on_the_fly.stdout);
    run(&["predict", &at("model"), &at("test.npz")]).success();

    // An invalid picture ends the run, or is answered with the reason.
    std::fs::write(folder.path().join("photos/dark/bad.png"), b"words").unwrap();
    dance(&["predict", &at("model"), &at("photos/dark"), "--embed"]).fails(&["bad.png", "no picture"]);
    let reported = dance(&["predict", &at("model"), &at("photos/dark"), "--embed", "--on-error", "report"]).code(1);
    assert!(reported.stdout.contains("\"id\":\"bad.png\"") && reported.stdout.lines().count() == 61);
    dance(&["embed", &at("photos"), "-o", &at("bad.npz"), "-e", &clip]).fails(&["dark/bad.png", "--on-error skip"]);
    assert!(!Path::new(&at("bad.npz")).exists());
    let skipped = dance(&["embed", &at("photos"), "-o", &at("bad.npz"), "-e", &clip, "--on-error", "skip"]).success();
    assert!(skipped.stdout.contains("1 left out") && skipped.stderr.contains("dark/bad.png"));
}

#[test]
fn embeddings_of_another_encoder_are_refused_by_name() {
    let Some(runtime) = runtime() else { return };
    let (folder, at) = scratch();
    pictures(&folder.path().join("photos"));
    // Equal weights with another preparation are another encoder.
    std::fs::create_dir(at("other")).unwrap();
    std::fs::copy(files("clip/vision_model.onnx"), at("other/model.onnx")).unwrap();
    let settings = std::fs::read_to_string(files("clip/preprocessor_config.json")).unwrap();
    std::fs::write(at("other/preprocessor_config.json"), settings.replace("\"resample\": 3", "\"resample\": 2"))
        .unwrap();
    for (name, encoder) in [("one", files("clip")), ("two", at("other"))] {
        for ending in ["npz", "parquet"] {
            let out = at(&format!("{name}.{ending}"));
            with_runtime(&["embed", &at("photos"), "-o", &out, "--encoder", &encoder], &runtime).success();
        }
    }
    let (one, two, model) = (at("one.npz"), at("two.parquet"), at("model"));
    run(&["fit", &one, "-o", &model, "--evaluations", "1"]).success();
    run(&["predict", &model, &at("one.parquet")]).success();
    let parts = ["other (weights", "clip (weights", "preparation"];
    run(&["predict", &model, &two]).fails(&parts);
    run(&["evaluate", &model, &two]).fails(&parts);
    run(&["explain", &model, &two, "--row", "0"]).fails(&parts);
    run(&["recalibrate", &model, &two, "-o", &at("model2")]).fails(&parts);
    run(&["fit", &one, "--calibration-data", &two, "-o", &at("model2")]).fails(&parts);
    with_runtime(&["predict", &model, &at("photos"), "--embed", "--encoder", &at("other")], &runtime).fails(&parts);
    let texts = ["predict", &model, &files("texts.txt"), "--embed"];
    with_runtime(&texts, &runtime).fails(&["texts.txt", "clip (weights"]);
    // Points that came without an encoder are taken on trust, and no pictures can be embedded for them.
    run(&["predict", &shared("model"), &at("photos"), "--embed"]).fails(&["does not know its encoder"]);
}

#[test]
fn mistakes_are_told_before_anything_is_opened() {
    let (folder, at) = scratch();
    std::fs::write(at("texts.txt"), "one\ntwo\n").unwrap();
    let embed = |more: &[&str]| run(&[&["embed", &at("texts.txt"), "--offline"], more].concat());
    let out = at("out.npz");
    embed(&["-o", &at("out.csv"), "-e", "x"]).fails(&["out.csv", ".npz or .parquet"]);
    embed(&["-o", "-", "-e", "x"]).fails(&[".npz or .parquet"]);
    embed(&["-o", &out, "-e", "x", "--prompt", "a photo"]).fails(&["--prompt", "{}"]);
    embed(&["-o", &out, "-e", "x", "--prompt", "a {}"]).fails(&["no labels", "--prototypes"]);
    embed(&["-o", &at("out.parquet"), "-e", "x", "--prompt", "a {}"]).fails(&["write .npz"]);
    embed(&["-o", &out, "-e", "x"]).fails(&["x: no such encoder", "clip-vit-b-32"]);
    run(&["embed", &at("none"), "-o", &out, "-e", "x"]).fails(&["none"]);
    std::fs::write(at("names.txt"), "cat\n").unwrap();
    std::fs::write(at("list.csv"), "text,label\nx,dog\n").unwrap();
    let labelled = ["embed", &at("list.csv"), "-o", &out, "-e", "x", "--prototypes", &at("names.txt")];
    run(&labelled).fails(&["`dog` is not among"]);
    let empty = Command::new(binary())
        .args(["embed", &at("texts.txt"), "-o", &out, "-e", "bge-small", "--offline"])
        .env("HF_HOME", folder.path())
        .output();
    Ran::new(empty.unwrap()).fails(&["tokenizer.json", "--offline"]);
    assert_eq!(super::names(folder.path()), ["list.csv", "names.txt", "texts.txt"]);
}

#[test]
fn a_library_that_is_none_is_named() {
    let (_folder, at) = scratch();
    std::fs::write(at("texts.txt"), "one\n").unwrap();
    std::fs::write(at("words.so"), "words").unwrap();
    let arguments = ["embed", &at("texts.txt"), "-o", &at("out.npz"), "--encoder", &files("clip")];
    let with = |library: &str| with_runtime(&arguments, Path::new(library));
    with(&at("words.so")).fails(&["words.so", "no ONNX Runtime", "pip install onnxruntime"]);
    with(&at("nothing.so")).fails(&["nothing.so", "is not there", "pip install onnxruntime"]);
    with(&at("")).fails(&["holds no", "pip install onnxruntime"]);
    #[cfg(target_os = "linux")]
    {
        // A library, but another one: the binary's own C library.
        let libraries = ["/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib64/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"];
        if let Some(other) = libraries.iter().find(|path| Path::new(path).is_file()) {
            with(other).fails(&["no ONNX Runtime", "OrtGetApiBase"]);
        }
    }
}

/// The binary is killed in the middle: nothing half is left under the final name, and the next run goes on.
#[cfg(unix)]
#[test]
fn a_killed_run_goes_on() {
    let Some(runtime) = runtime() else { return };
    let (_folder, at) = scratch();
    let texts: String = (0..40_000).map(|number| format!("text number {number} of many\n")).collect();
    std::fs::write(at("texts.txt"), texts).unwrap();
    let (source, clip, out, whole) = (at("texts.txt"), files("clip"), at("out.npz"), at("whole.npz"));
    let arguments = |out: &str| ["embed", &source, "-o", out, "--encoder", &clip].map(str::to_owned);
    let mut child = Command::new(binary()).args(arguments(&out)).env("ORT_DYLIB_PATH", &runtime).spawn().unwrap();
    let first = Path::new(&out).with_file_name("out.npz.parts").join("000000.part");
    while !first.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!Path::new(&out).exists() && first.exists());
    let owned = arguments(&out);
    let resumed = with_runtime(&owned.each_ref().map(String::as_str), &runtime).success();
    assert!(resumed.stderr.contains("by an earlier run"), "{}", resumed.stderr);
    let owned = arguments(&whole);
    with_runtime(&owned.each_ref().map(String::as_str), &runtime).success();
    assert_eq!(std::fs::read(out).unwrap(), std::fs::read(whole).unwrap());
}

#[cfg(feature = "serve")]
#[test]
fn a_server_embeds_with_the_encoder_of_its_model() {
    let Some(runtime) = runtime() else { return };
    let (folder, at) = scratch();
    pictures(&folder.path().join("photos"));
    let clip = files("clip");
    with_runtime(&["embed", &at("photos"), "-o", &at("photos.npz"), "--encoder", &clip], &runtime).success();
    let split = ["--split", "0.4,0.4,0.2", "--test-out", &at("test.npz"), "--evaluations", "1"];
    run(&[&["fit", &at("photos.npz"), "-o", &at("model")][..], &split].concat()).success();
    let library = runtime.display().to_string();
    let library = [("ORT_DYLIB_PATH", &*library)];
    let server = Serving::start_with(&[&at("model"), "--encoder", "auto", "--quiet"], &library);
    assert_eq!(server.get("/v1/models").json()["models"][0]["takes"], "pictures");
    let embed =
        |kind: &str, content: &[u8]| server.post_with("/v1/embed", &format!("Content-Type: {kind}\r\n"), content);
    let picture = std::fs::read(at("photos/light/07.ppm")).unwrap();
    let answer = embed("image/x-portable-pixmap", &picture).json();
    let embedding: Vec<f64> =
        answer["embedding"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
    // As `dance embed` has it, alone or in a batch.
    let table = dance::data::io::read(at("photos.npz"), &Default::default()).unwrap();
    let row = table.ids.as_ref().unwrap().iter().position(|id| id == "light/07.ppm").unwrap();
    let expected = table.embeddings().row(row);
    assert_eq!(embedding.len(), expected.len());
    for (one, &other) in embedding.iter().zip(expected) {
        assert!((one - f64::from(other)).abs() < 1e-4, "{one} {other}");
    }
    let why = server.post("/v1/explain", &serde_json::json!({ "embedding": answer["embedding"] }));
    assert_eq!((why.status, &why.json()["prediction"]), (200, &serde_json::json!("light")));
    assert_eq!(embed("text/plain", b"words").status, 415);
    let refused = embed("image/png", b"words");
    assert_eq!(refused.status, 422);
    assert!(refused.json()["detail"].as_str().unwrap().contains("no picture"), "{}", refused.json());
    drop(server);
    let server = Serving::start(&[&at("model")]);
    assert_eq!(server.get("/v1/models").json()["models"][0]["takes"], serde_json::Value::Null);
    assert_eq!(server.post_with("/v1/embed", "Content-Type: image/png\r\n", b"x").status, 404);
    run(&["serve", &shared("model"), "--encoder", "auto", "--port", "0"]).fails(&["does not know its encoder"]);
}
