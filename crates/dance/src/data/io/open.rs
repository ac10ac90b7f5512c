//! Opening of files. A pipe is copied to a temporary file, since readers move back and forth in a file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use super::npy_header;
use crate::error::{Error, Result};

/// Opens a file; `-` is stdin. Returns an error if the first bytes belong to a format that does not have this
/// `extension`.
pub(super) fn open(path: &Path, extension: &str) -> Result<File> {
    let mut file = open_any(path)?;
    let path = display_path(path);
    let wrong = |problem: &str| Error::format(path, problem);
    if file.metadata().is_ok_and(|found| found.len() == 0) {
        return Err(wrong("is empty (0 bytes); its writer did not finish. Save it again"));
    }
    let mut head = Vec::new();
    file.by_ref().take(9).read_to_end(&mut head).map_err(|error| Error::io(path, error))?;
    file.rewind().map_err(|error| Error::io(path, error))?;
    // Compare the first bytes with those of known formats, and with those that the extension requires.
    let begins = sniff(&head);
    if begins.is_some_and(|(_, of)| of == extension) {
        return Ok(file);
    }
    let needed = match extension {
        "npy" => Some("does not begin as an .npy file does; save it with np.save(path, arr)"),
        "npz" => Some("does not begin as an .npz file does (a zip archive); save it with np.savez"),
        "parquet" if !head.starts_with(b"PAR1") => Some("does not begin as a Parquet file does (PAR1); save it again"),
        _ => None,
    };
    // The first 8 bytes of a safetensors file are a length, which may look like another format.
    let free = extension == "safetensors" && head.get(8) == Some(&b'{');
    match (begins, needed) {
        (Some((what, _)), _) if !free => Err(wrong(&format!(
            "should be .{extension} but begins like {what}; give it the right extension or save it again"
        ))),
        (None, Some(problem)) => Err(wrong(problem)),
        _ => Ok(file),
    }
}

/// Returns the path as messages show it: `stdin` in place of `-`.
pub(super) fn display_path(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("stdin") } else { path }
}

/// Opens a regular file, or a copy of a pipe.
fn open_any(path: &Path) -> Result<File> {
    if path == Path::new("-") {
        return spool(display_path(path), io::stdin().lock());
    }
    // Checked before the file is opened, since opening a pipe waits for its writer.
    let found = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
    if found.is_dir() {
        return Err(Error::format(path, "is a directory; name a file in it"));
    }
    let open = || File::open(path).map_err(|error| Error::io(path, error));
    if found.is_file() {
        open()
    } else if is_pipe(&found) {
        spool(path, open()?)
    } else {
        Err(Error::format(path, "is neither a regular file nor a pipe; save the data to one"))
    }
}

#[cfg(unix)]
fn is_pipe(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() || found.file_type().is_socket()
}

#[cfg(not(unix))]
fn is_pipe(_: &std::fs::Metadata) -> bool {
    false
}

/// Copies a stream to a temporary file without a name.
fn spool(path: &Path, mut from: impl Read) -> Result<File> {
    let mut copy = || {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut from, &mut file)?;
        file.rewind()?;
        Ok(file)
    };
    copy().map_err(|error| Error::io(path, error))
}

/// Returns the format of a file with these first bytes, as a description and an extension; `None` if it is unknown.
fn sniff(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const KNOWN: [(&[u8], &str, &str); 7] = [
        (npy_header::MAGIC, "a NumPy array (.npy)", "npy"),
        (b"PK\x03\x04", "a zip archive (.npz?)", "npz"),
        (b"PK\x05\x06", "an empty zip archive", "npz"),
        (b"PAR1\x15", "a Parquet file", "parquet"),
        (b"\x89HDF", "an HDF5 file", "h5"),
        (b"\x1f\x8b", "a gzip-compressed file", "gz"),
        (b"\x80\x04\x95", "a Python pickle", "pkl"),
    ];
    KNOWN.iter().find(|(magic, ..)| head.starts_with(magic)).map(|&(_, what, extension)| (what, extension))
}
