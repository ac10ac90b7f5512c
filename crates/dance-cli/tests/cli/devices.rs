//! `--device` without a usable graphics processor: an error of one line if it is named, and otherwise the CPU, with the
//! reason. Broken libraries and drivers are made up here, and found by `DANCE_CUDA`.

use std::path::Path;
use std::process::Command;

use super::{Ran, command, fit_toy, names, run, scratch, toy};

/// Runs with a folder of made-up libraries.
fn run_with(libraries: &Path, arguments: &[&str]) -> Ran {
    Ran::new(command(arguments).env("DANCE_CUDA", libraries).output().unwrap())
}

/// A driver that serves CUDA `version`, starts with `status` and has `devices`. `None` without a C compiler.
fn driver(folder: &Path, version: i32, status: i32, devices: i32) -> Option<()> {
    let source = format!(
        "int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}\n\
         int cuInit(unsigned f) {{ return {status}; }}\n\
         int cuDeviceGetCount(int *n) {{ *n = {devices}; return 0; }}\n\
         int cuDeviceGet(int *d, int i) {{ *d = i; return 0; }}\n\
         int cuDeviceGetName(char *s, int n, int d) {{ s[0] = 'X'; s[1] = 0; return 0; }}\n\
         int cuDeviceTotalMem_v2(unsigned long *b, int d) {{ *b = 1ul << 30; return 0; }}\n\
         int cuGetErrorString(int e, const char **s) {{ *s = \"no device is detected\"; return 0; }}\n\
         int cuGetErrorName(int e, const char **s) {{ *s = \"NONE\"; return 0; }}\n"
    );
    let file = folder.join("driver.c");
    std::fs::write(&file, source).unwrap();
    let library = folder.join("libcuda.so.1");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
        .args([&library, &file])
        .output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(());
    }
    println!("skipped: no C compiler makes a driver up");
    None
}

/// Returns whether the machine has a driver of its own, which would be found before the made-up one.
fn real_driver() -> bool {
    let found = ["/lib", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64"]
        .iter()
        .any(|folder| Path::new(folder).join("libcuda.so").exists());
    if found {
        println!("skipped: this machine has a driver of its own");
    }
    found
}

#[test]
fn words_that_name_no_device() {
    let (_folder, at) = scratch();
    for word in ["gpu", "cuda:", "cuda:x", "cuda:-1", ""] {
        let ran = run(&["fit", &at("data.csv"), "-o", &at("model"), "--device", word]);
        ran.fails(&["--device", "auto, cpu, cuda, or cuda: and a number such as cuda:1"]);
    }
}

#[test]
fn devices_are_listed() {
    run(&["doctor"]).success().prints(&["device        cpu: ", "ONNX Runtime  "]);
    let listed = run(&["doctor", "--json"]).success().json();
    assert_eq!(listed["devices"][0]["device"], "cpu");
    assert!(listed["threads"].as_u64().unwrap() >= 1 && listed["version"].is_string());
    run(&["inspect"]).fails(&["FILE"]);
}

#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn a_broken_driver_is_one_line_or_the_cpu() {
    let (folder, at) = scratch();
    toy(&at("data.csv"), 60, |row| format!("c{}", row % 3), |row| row.to_string());
    let libraries = folder.path().join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    std::fs::write(libraries.join("libcuda.so.1"), "no library").unwrap();
    let fit = |device: &str| {
        let arguments = ["fit", &at("data.csv"), "-o", &at("model"), "--split", "0.5,0.5", "--evaluations", "1"];
        run_with(&libraries, &[&arguments[..], &["--kernel", "rounds=1", "-v", "--device", device]].concat())
    };
    let ran = fit("cuda").fails(&["cuda:0: there is no driver of NVIDIA's that can be used", "libcuda.so.1"]);
    assert_eq!(ran.stderr.trim_end().lines().filter(|line| line.contains("driver")).count(), 1);
    assert_eq!(names(folder.path()), ["data.csv", "libraries"]);
    let ran = fit("auto").success();
    assert!(ran.stderr.contains("on cpu, because cuda:0: there is no driver"), "{}", ran.stderr);
    let model = std::fs::read(at("model")).unwrap();
    fit("cpu").success();
    assert_eq!(model, std::fs::read(at("model")).unwrap(), "auto is the CPU");
    run_with(&libraries, &["doctor"]).success().prints(&["no graphics processor is used: there is no driver"]);
}

#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn drivers_that_cannot_be_used_say_why() {
    if real_driver() {
        return;
    }
    let (_data, at) = scratch();
    toy(&at("data.csv"), 60, |row| format!("c{}", row % 3), |row| row.to_string());
    fit_toy(&at("data.csv"), &at("model"), &["--device", "cpu"]).success();
    for (version, status, devices, said) in [
        (11_080, 0, 1, "the driver of NVIDIA's serves CUDA 11.8 and 12.0 is needed"),
        (13_000, 100, 0, "cuda:0: no device is detected"),
        (13_000, 0, 0, "cuda:0: there is no graphics processor of NVIDIA's"),
        (13_000, 0, 1, "cuda:0: the libraries of CUDA cannot be used"),
    ] {
        let (folder, _) = scratch();
        if driver(folder.path(), version, status, devices).is_none() {
            return;
        }
        // The libraries that would be opened next are none.
        for name in ["libnvJitLink.so.12", "libnvJitLink.so.13"] {
            std::fs::write(folder.path().join(name), "no library").unwrap();
        }
        let asked = ["predict", &at("model"), &at("data.csv"), "--device", "cuda"];
        run_with(folder.path(), &asked).fails(&[said]);
        let by_itself = run_with(folder.path(), &["predict", &at("model"), &at("data.csv"), "-v"]).success();
        assert!(by_itself.stderr.contains(said), "{}", by_itself.stderr);
    }
    let (folder, _) = scratch();
    if driver(folder.path(), 13_000, 0, 1).is_some() {
        let asked = ["predict", &at("model"), &at("data.csv"), "--device", "cuda:3"];
        run_with(folder.path(), &asked).fails(&["cuda:3: there is one device, cuda:0"]);
        let listed = run_with(folder.path(), &["doctor"]).success();
        listed.prints(&[
            "cuda:0: X, 1.0 GiB",
            "no graphics processor is used: cuda:0: the libraries of CUDA cannot be used",
        ]);
    }
}
