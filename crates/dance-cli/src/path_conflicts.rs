//! Conflicts between the files that a command reads and those that it writes. Files are compared by device and inode,
//! which sees through links and `..`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use dance::whole_file::WholeFile;

/// Refuses an output that is an input or another output, or that cannot be written.
pub(crate) fn check(inputs: &[Option<&Path>], outputs: &[Option<&Path>]) -> anyhow::Result<()> {
    let outputs: Vec<&Path> = outputs.iter().copied().flatten().collect();
    for (place, output) in outputs.iter().enumerate() {
        if *output == Path::new("-") {
            bail!("-: this output cannot be stdout; name a file");
        }
        for input in inputs.iter().copied().flatten() {
            // A shell may have redirected stdin from a file.
            let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
            if is_same(input, output) {
                bail!("{}: would be overwritten, and it is read; name another file to write", output.display());
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
    // Files are not opened here, because opening and closing a pipe would break it.
    #[cfg(unix)]
    if let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) {
        use std::os::unix::fs::MetadataExt;
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    match (absolute(one), absolute(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Returns the absolute path; for a file that does not exist yet, that of its folder with its name.
fn absolute(path: &Path) -> Option<PathBuf> {
    if let Ok(existing) = path.canonicalize() {
        return Some(existing);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}
