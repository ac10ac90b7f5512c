//! The input files that DATA names: one file, several files, a folder or a pattern.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::data::io::Format;

/// One of several input files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    /// The path below the folder that the user named.
    pub(crate) below: PathBuf,
}

/// Returns the files, sorted by name, where `data` is several names, a folder or a pattern; `None` for a single file.
///
/// A folder is searched with its subfolders for files with a known extension. Names that begin with a dot or an
/// underscore are skipped, as Spark does. A pattern (`parts/*.parquet`) is for shells that do not expand it, or cannot
/// pass as many names.
pub(crate) fn several(data: &[PathBuf]) -> anyhow::Result<Option<Vec<InputFile>>> {
    if let [one] = data
        && !one.is_dir()
        && (one.exists() || !is_pattern(one))
    {
        return Ok(None);
    }
    let mut all = Vec::new();
    for path in data {
        let before = all.len();
        if path.is_dir() {
            walk(path, Path::new(""), &mut all)?;
            if all.len() == before {
                bail!("{}: is a directory without a file that can be read ({})", path.display(), extensions());
            }
        } else if path.exists() || !is_pattern(path) {
            let below = path.file_name().map(PathBuf::from).unwrap_or_default();
            all.push(InputFile { path: path.clone(), below });
        } else {
            matching(path, &mut all)?;
            if all.len() == before {
                bail!("{}: no file matches this pattern", path.display());
            }
        }
    }
    all.sort();
    all.dedup();
    Ok(Some(all))
}

fn extensions() -> String {
    dance::data::io::EXTENSIONS.map(|extension| format!(".{extension}")).join(", ")
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_pattern(path: &Path) -> bool {
    name_of(path).contains(['*', '?'])
}

fn entries(folder: &Path) -> anyhow::Result<Vec<std::fs::DirEntry>> {
    let read = || std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>();
    read().with_context(|| folder.display().to_string())
}

fn walk(folder: &Path, below: &Path, all: &mut Vec<InputFile>) -> anyhow::Result<()> {
    for entry in entries(folder)? {
        let (path, name) = (entry.path(), entry.file_name());
        if name.to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        // Links to folders are not followed, because they can be circular; links to files are.
        if entry.file_type().with_context(|| path.display().to_string())?.is_dir() {
            walk(&path, &below.join(&name), all)?;
        } else if path.is_file() && Format::of(&path).is_some() {
            all.push(InputFile { below: below.join(&name), path });
        }
    }
    Ok(())
}

fn matching(pattern: &Path, all: &mut Vec<InputFile>) -> anyhow::Result<()> {
    let folder = pattern.parent().filter(|folder| !folder.as_os_str().is_empty());
    let wanted: Vec<char> = name_of(pattern).chars().collect();
    for entry in entries(folder.unwrap_or(Path::new(".")))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let hidden = name.starts_with(['.', '_']) && !wanted.starts_with(&['_']) && !wanted.starts_with(&['.']);
        if !hidden && entry.path().is_file() && fits(&wanted, &name.chars().collect::<Vec<_>>()) {
            let path = folder.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name));
            all.push(InputFile { path, below: name.into() });
        }
    }
    Ok(())
}

/// Returns whether a name matches a pattern: `*` is any characters, `?` is one. It takes at most the product of both
/// lengths, because only the last star is tried again.
fn fits(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[of] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((place, begin)) = star else { return false };
                star = Some((place, begin + 1));
                at = place + 1;
                of = begin + 1;
            }
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        let fits =
            |pattern: &str, name: &str| fits(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>());
        assert!(fits("*.parquet", "part-1.parquet") && fits("part-?.*", "part-1.parquet") && fits("*", "é"));
        assert!(fits("a*b*c", "a-bb-b-c") && fits("a**", "a"));
        assert!(!fits("*.parquet", "part-1.csv") && !fits("?", "") && !fits("a*b", "a-b-c") && !fits("a", "ab"));
    }

    #[test]
    fn folders_are_searched_for_files_that_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["b.parquet", "a/day=2/x.parquet", "a/day=1/x.npz", "_SUCCESS", ".hidden.csv", "notes.md"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "").unwrap();
        }
        let below = |data: &[PathBuf]| -> Vec<String> {
            let files = several(data).unwrap().unwrap();
            files.iter().map(|file| file.below.display().to_string()).collect()
        };
        assert_eq!(below(&[folder.path().into()]), ["a/day=1/x.npz", "a/day=2/x.parquet", "b.parquet"]);
        assert_eq!(below(&[at("*.parquet")]), ["b.parquet"]);
        assert_eq!(below(&[at("b.parquet"), at("b.parquet")]), ["b.parquet"]);
        assert_eq!(several(&[at("b.parquet")]).unwrap(), None);
        assert_eq!(several(&["-".into()]).unwrap(), None);
        assert!(several(&[at("*.csv")]).unwrap_err().to_string().contains("no file matches this pattern"));
    }
}
