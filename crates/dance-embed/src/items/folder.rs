//! Folders of pictures: one sub-folder per class, or all pictures in one folder.

use std::fs;
use std::path::{Path, PathBuf};

use dance::{Error, Result};

use super::{Content, Items, Modality};

/// The endings of picture files.
const ENDINGS: [&str; 12] = ["jpg", "jpeg", "jpe", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm", "pbm"];

/// The deepest level of sub-folders. It ends links that lead back into their own folder.
const DEEPEST: usize = 32;

/// Reads a folder. Sub-folders are classes.
pub(super) fn read(folder: &Path) -> Result<Items> {
    let (mut pictures, mut folders, mut ignored) = (Vec::new(), Vec::new(), 0);
    for path in sorted(folder)? {
        if path.is_dir() {
            folders.push(path);
        } else if is_picture(&path) {
            pictures.push(path);
        } else {
            ignored += 1;
        }
    }
    let mut items = Items {
        origin: folder.display().to_string(),
        modality: Modality::Pictures,
        contents: Vec::new(),
        ids: Vec::new(),
        labels: None,
        ignored: 0,
    };
    // The pictures of a class may lie at any depth.
    let mut labels = Vec::new();
    for class in folders {
        let mut of_class = Vec::new();
        collect(&class, 0, &mut of_class, &mut ignored)?;
        let name = class.file_name().unwrap_or_default().to_string_lossy().into_owned();
        labels.extend(of_class.iter().map(|_| name.clone()));
        pictures.extend(of_class);
    }
    if labels.len() < pictures.len() && !labels.is_empty() {
        return Err(Error::format(
            folder,
            "has pictures by itself and in sub-folders; sub-folders are classes, so move each picture into one, or \
             all out of them",
        ));
    }
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).to_string_lossy().replace('\\', "/");
    items.ids = pictures.iter().map(name).collect();
    items.labels = (!labels.is_empty()).then_some(labels);
    items.contents = pictures.into_iter().map(Content::File).collect();
    items.ignored = ignored;
    Ok(items)
}

/// Collects the pictures of a folder and its sub-folders, and counts other files.
fn collect(folder: &Path, depth: usize, pictures: &mut Vec<PathBuf>, ignored: &mut usize) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::format(
            folder,
            format!("lies more than {DEEPEST} folders deep; a link may lead back into its own folder"),
        ));
    }
    for path in sorted(folder)? {
        if path.is_dir() {
            collect(&path, depth + 1, pictures, ignored)?;
        } else if is_picture(&path) {
            pictures.push(path);
        } else {
            *ignored += 1;
        }
    }
    Ok(())
}

/// Returns the entries of a folder without hidden files, sorted by name.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let wrong = |error| Error::io(folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    ENDINGS.contains(&ending.as_str())
}
