//! NVIDIA's libraries. They are found, opened and kept open before their first use, because cudarc ends the program if
//! one is missing.
//!
//! The libraries are searched in the folder that `DANCE_CUDA` names, in the library folders of the system, and in
//! NVIDIA's packages in Python environments (`nvidia-cublas`, `nvidia-cusolver`, `nvidia-cuda-nvrtc`, which `torch` for
//! CUDA also installs). The environments are those of this process, of `VIRTUAL_ENV` or `CONDA_PREFIX`, and of the
//! Python on the path.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::queue;

/// The environment variable that names the folder to search first.
const FOLDER: &str = "DANCE_CUDA";
/// The oldest version of CUDA that the driver must support: 12.0, as NVIDIA encodes it.
const OLDEST: i32 = 12_000;

#[cfg(windows)]
const DRIVER: &str = "nvcuda.dll";
#[cfg(not(windows))]
const DRIVER: &str = "libcuda.so.1";

/// The major versions of CUDA, each with its oldest release and its libraries. A library comes after the libraries that
/// it needs.
#[cfg(windows)]
const VERSIONS: [(i32, &[&str]); 2] = [
    (13_000, &["cublasLt64_13.dll", "cublas64_13.dll", "cusparse64_12.dll", "cusolver64_12.dll", "nvrtc64_130_0.dll"]),
    (12_000, &["cublasLt64_12.dll", "cublas64_12.dll", "cusparse64_12.dll", "cusolver64_11.dll", "nvrtc64_120_0.dll"]),
];

#[cfg(not(windows))]
const VERSIONS: [(i32, &[&str]); 2] = [
    (
        13_000,
        &[
            "libnvJitLink.so.13",
            "libcublasLt.so.13",
            "libcublas.so.13",
            "libcusparse.so.12",
            "libcusolver.so.12",
            "libnvrtc.so.13",
        ],
    ),
    (
        12_000,
        &[
            "libnvJitLink.so.12",
            "libcublasLt.so.12",
            "libcublas.so.12",
            "libcusparse.so.12",
            "libcusolver.so.11",
            "libnvrtc.so.12",
        ],
    ),
];

/// Opens NVIDIA's driver; later calls return the first call's result. The error says why the driver cannot be used.
pub(super) fn driver() -> Result<(), String> {
    static OPENED: OnceLock<Result<(), String>> = OnceLock::new();
    OPENED.get_or_init(open_driver).clone()
}

/// Opens NVIDIA's driver and every library; later calls return the first call's result. The error says which of them
/// cannot be used, and why.
pub(super) fn all() -> Result<(), String> {
    static OPENED: OnceLock<Result<(), String>> = OnceLock::new();
    driver()?;
    OPENED.get_or_init(open_all).clone()
}

fn open_driver() -> Result<(), String> {
    open(DRIVER, &[]).map_err(|error| format!("there is no driver of NVIDIA's that can be used ({error})"))?;
    let version = queue::driver_version()?;
    if version < OLDEST {
        let words = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
        return Err(format!(
            "the driver of NVIDIA's serves CUDA {} and {} is needed: install a newer driver",
            words(version),
            words(OLDEST)
        ));
    }
    Ok(())
}

fn open_all() -> Result<(), String> {
    // With this setting cuBLAS rounds products to ten bits, and all rounding bounds would be wrong.
    if std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|value| value != "0") {
        return Err("NVIDIA_TF32_OVERRIDE is set, which makes matrix products too coarse: unset it".into());
    }
    let newest = queue::driver_version()?;
    let folders = python_folders();
    let mut problem = String::new();
    for (_, names) in VERSIONS.iter().filter(|(version, _)| *version <= newest) {
        let opened = names.iter().try_for_each(|name| open(name, &folders));
        match opened {
            Ok(()) => return Ok(()),
            Err(error) => problem = error,
        }
    }
    Err(format!(
        "the libraries of CUDA cannot be used ({problem}): install them, as `pip install nvidia-cublas nvidia-cusolver \
         nvidia-cuda-nvrtc` does, or set {FOLDER} to their folder"
    ))
}

/// Opens NVRTC, the compiler of GPU kernels, without the other libraries. A test compiles the kernels with it.
#[cfg(test)]
pub(super) fn compiler() -> Result<(), String> {
    let folders = python_folders();
    let names = VERSIONS.iter().filter_map(|(_, names)| names.last());
    names.map(|name| open(name, &folders)).reduce(Result::or).unwrap_or_else(|| Err("it has no name".into()))
}

/// Opens the library with the file name `name`. The folder that `DANCE_CUDA` names comes first, then the folders of the
/// system, then `folders`.
fn open(name: &str, folders: &[PathBuf]) -> Result<(), String> {
    if let Some(folder) = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
        let file = Path::new(&folder).join(name);
        if file.exists() {
            return queue::keep_open(&file);
        }
    }
    let by_name = queue::keep_open(Path::new(name));
    by_name.or_else(|error| {
        let files = folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file());
        let mut problem = error;
        for file in files {
            match queue::keep_open(&file) {
                Ok(()) => return Ok(()),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    })
}

/// Returns the library folders of NVIDIA's packages in all Python environments that are found.
fn python_folders() -> Vec<PathBuf> {
    let mut packages = of_process();
    for key in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        packages.extend(std::env::var_os(key).into_iter().flat_map(|root| in_environment(Path::new(&root))));
    }
    packages.extend(["python3", "python"].iter().find_map(|python| of_python(python)).into_iter().flatten());
    let mut folders = Vec::new();
    for package in packages {
        let parts = std::fs::read_dir(package.join("nvidia")).into_iter().flatten().flatten();
        let parts = parts.flat_map(|part| [part.path().join("lib"), part.path().join("bin")]);
        folders.extend(parts.filter(|folder| folder.is_dir()));
    }
    folders.sort(); // the system lists them in any order
    folders.dedup();
    folders
}

/// Returns the `site-packages` folders of Python from which this process has loaded libraries.
fn of_process() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| Some(Path::new(&line[line.find('/')?..])))
        .filter_map(|file| file.ancestors().find(|folder| folder.ends_with("site-packages")))
        .map(Path::to_owned)
        .collect();
    found.dedup();
    found
}

fn in_environment(root: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("site-packages"));
    folders.chain([root.join("Lib").join("site-packages")]).filter(|folder| folder.is_dir()).collect()
}

fn of_python(python: &str) -> Option<Vec<PathBuf>> {
    const ASK: &str = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    let answer = Command::new(python).args(["-c", ASK]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    Some(text.lines().map(PathBuf::from).collect())
}
