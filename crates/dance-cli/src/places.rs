//! Files that a command reads and files that it writes are never the same: by device and inode, so through links and `..` too.

use std::path::{Path, PathBuf};

use anyhow::bail;
use dance::whole_file::WholeFile;

/// Refuses outputs that are inputs, or one another, or that could not be written; each by the name the user gave.
pub(crate) fn check(inputs: &[Option<&Path>], outputs: &[Option<&Path>]) -> anyhow::Result<()> {
    let outputs: Vec<&Path> = outputs.iter().copied().flatten().collect();
    for (place, output) in outputs.iter().enumerate() {
        if *output == Path::new("-") {
            bail!("-: this is written to a file; name one");
        }
        for input in inputs.iter().copied().flatten() {
            // What a shell has put in the place of stdin is a file too.
            let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
            if is_same(input, output) {
                bail!(
                    "{}: would be overwritten, and it is read; name another file to write",
                    output.display()
                );
            }
        }
        if let Some(other) = outputs[..place].iter().find(|other| is_same(other, output)) {
            bail!(
                "{} and {} are the same file; give the two outputs different names",
                other.display(),
                output.display()
            );
        }
        WholeFile::check(output)?;
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    // Nothing is opened: a pipe whose reader comes and goes is broken.
    #[cfg(unix)]
    if let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) {
        use std::os::unix::fs::MetadataExt;
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    match (place_of(one), place_of(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// A file that is not there yet is known by its folder and name.
fn place_of(path: &Path) -> Option<PathBuf> {
    if let Ok(there) = path.canonicalize() {
        return Some(there);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}
