//! ONNX Runtime: the search for its library, which is opened once. Users install it; dance neither links nor downloads
//! it.
//!
//! The search order is: the file that the caller names, `ORT_DYLIB_PATH`, the folder of the program, the active Python
//! environment (`VIRTUAL_ENV`, `CONDA_PREFIX`), the Python on the path (`pip install onnxruntime` is the easiest
//! installation), and the system's library folders.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use dance::{Error, Result};

/// The hint of errors about the library.
const HELP: &str = "Get it with `pip install onnxruntime`, or set ORT_DYLIB_PATH to the library";

#[cfg(windows)]
const NAME: &str = "onnxruntime.dll";
#[cfg(target_vendor = "apple")]
const NAME: &str = "libonnxruntime.dylib";
#[cfg(not(any(windows, target_vendor = "apple")))]
const NAME: &str = "libonnxruntime.so";

/// Opens the library, unless it is open already, and returns its path.
pub fn open(named: Option<&Path>) -> Result<PathBuf> {
    static OPENED: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = opened.as_ref() {
        return Ok(path.clone());
    }
    let path = find(named)?;
    // The path is absolute, as the crate would search relative paths beside the program. A wrong library gives an error
    // here; if the crate searched for it lazily, it would panic or hang.
    let path = path.canonicalize().map_err(|error| Error::io(&path, error))?;
    let refused =
        |problem: String| Error::format(&path, format!("is no ONNX Runtime that can be used: {problem}. {HELP}"));
    let environment = ort::init_from(&path).map_err(|error| refused(error.to_string().replace('\n', " ")))?;
    environment.with_name("dance").with_telemetry(false).commit();
    *opened = Some(path.clone());
    Ok(path)
}

/// Searches for the library, and returns its path without opening it.
pub fn find(named: Option<&Path>) -> Result<PathBuf> {
    let from_environment = || std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or_else(from_environment) {
        // A named library is used, or refused by its name.
        return if path.is_dir() {
            in_folder(&path).ok_or_else(|| Error::format(&path, format!("holds no {NAME}. {HELP}")))
        } else if path.is_file() {
            Ok(path)
        } else {
            Err(Error::format(&path, format!("is not there; ONNX Runtime was to be opened from it. {HELP}")))
        };
    }
    let beside = std::env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
    let found = beside
        .and_then(|folder| in_folder(&folder))
        .or_else(|| {
            ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().find_map(|key| in_python(&PathBuf::from(std::env::var_os(key)?)))
        })
        .or_else(|| ["python3", "python"].iter().find_map(|python| of_python(python)))
        .or_else(|| system_folders().iter().find_map(|folder| in_folder(Path::new(folder))));
    found.ok_or_else(|| Error::Data(format!("ONNX Runtime, which runs encoders, is not on this machine. {HELP}")))
}

/// Returns the folders where systems keep libraries.
fn system_folders() -> &'static [&'static str] {
    if cfg!(windows) {
        &[]
    } else {
        &[
            "/usr/local/lib",
            "/usr/lib",
            "/usr/lib64",
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/opt/homebrew/lib",
        ]
    }
}

/// Finds the library in a folder, with or without a version in its name. The last by name is the newest.
fn in_folder(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let stem = NAME.split('.').next().unwrap_or(NAME);
    // The version stands behind the ending on Linux, before it on macOS.
    let of_macos = |name: &str| {
        name.starts_with(&format!("{stem}.")) && Path::new(name).extension().is_some_and(|end| end == "dylib")
    };
    let is = |name: &str| name == NAME || name.starts_with(&format!("{NAME}.")) || of_macos(name);
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| is(&name.to_string_lossy())))
        .collect();
    found.sort();
    found.pop()
}

/// Finds the library in a Python environment.
fn in_python(root: &Path) -> Option<PathBuf> {
    let package = Path::new("site-packages").join("onnxruntime").join("capi");
    if let Some(found) = in_folder(&root.join("Lib").join(&package)) {
        return Some(found);
    }
    let versions = std::fs::read_dir(root.join("lib")).ok()?.flatten().map(|entry| entry.path().join(&package));
    let mut folders: Vec<PathBuf> = versions.collect();
    folders.sort();
    folders.iter().rev().find_map(|folder| in_folder(folder))
}

/// Finds the library by a Python program, which locates the package without importing it.
fn of_python(python: &str) -> Option<PathBuf> {
    // An isolated interpreter runs no code of the current folder. The user's own packages are looked up all the same.
    const SCRIPT: &str = "import sys, site, importlib.util as u; sys.path.append(site.getusersitepackages()); \
                          s = u.find_spec('onnxruntime'); print(s.submodule_search_locations[0] if s else '')";
    let answer =
        Command::new(python).args(["-I", "-c", SCRIPT]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let folder = text.trim();
    if folder.is_empty() { None } else { in_folder(&Path::new(folder).join("capi")) }
}
