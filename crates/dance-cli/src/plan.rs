//! The plan for several input files: an output file for each, and the files that an earlier run has answered.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use dance::whole_file::WholeFile;
use serde_json::Value;

use crate::inputs::InputFile;
use crate::output::{Destination, Format};

/// The file in an output folder that holds the options of its answers. Readers of folders skip names with an
/// underscore.
const NOTE: &str = "_dance.json";

pub(crate) struct Plan {
    folder: PathBuf,
    files: Vec<(PathBuf, Destination)>,
}

impl Plan {
    /// Returns the plan for an output folder, or for a folder and a name with a star that stands for the name of each
    /// input: `sets/*.jsonl`. Without a name, Parquet is written. No output may be one of the inputs or of the `others`
    /// that are read.
    pub(crate) fn new(inputs: Vec<InputFile>, output: &Path, others: &[Option<&Path>]) -> anyhow::Result<Self> {
        let (folder, template) = Self::folder_and_template(output)?;
        // Answers of an earlier run are not inputs, where the output folder is inside a folder that is read.
        let own = folder.canonicalize().ok();
        let (mut read, mut files) = (HashSet::new(), Vec::new());
        let mut taken: HashMap<PathBuf, PathBuf> = HashMap::new();
        for InputFile { path, below } in inputs {
            let place = path.canonicalize().with_context(|| path.display().to_string())?;
            let root = place.ancestors().nth(below.components().count());
            if own.as_deref().is_some_and(|own| {
                place.starts_with(own) && root.is_some_and(|root| root != own && own.starts_with(root))
            }) {
                continue;
            }
            read.insert(place);
            let stem = below.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let out = folder.join(below.with_file_name(template.replacen('*', &stem, 1)));
            if let Some(other) = taken.insert(out.clone(), path.clone()) {
                bail!(
                    "{} and {} would both be answered in {}; rename one",
                    other.display(),
                    path.display(),
                    out.display()
                );
            }
            files.push((path, Destination::new(&out)?));
        }

        // An output that exists must not be a file that is read.
        read.extend(others.iter().flatten().filter_map(|path| path.canonicalize().ok()));
        if let Some(out) = taken.keys().find(|out| out.canonicalize().is_ok_and(|out| read.contains(&out))) {
            bail!("{}: would be overwritten, and it is read; name another folder to write", out.display());
        }
        Ok(Self { folder, files })
    }

    /// Divides `output` into a folder and a name with one star.
    fn folder_and_template(output: &Path) -> anyhow::Result<(PathBuf, String)> {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (folder, template) = if name.contains('*') {
            (output.parent().unwrap_or(Path::new("")).to_owned(), name)
        } else {
            (output.to_owned(), "*.parquet".to_owned())
        };
        if output == Path::new("-") || folder.is_file() || Format::is_known(&folder) {
            bail!(
                "{}: several files are answered into a folder; name one with -o, such as sets or 'sets/*.jsonl'",
                output.display()
            );
        }
        if template.matches('*').count() != 1 {
            bail!("{}: needs exactly one star, which stands for the name of the input", output.display());
        }
        Ok((folder, template))
    }

    /// Creates the folder with a note of the options, and returns the files that are left and the number of finished
    /// files. With `resume`, a folder with the same options is continued: an output is finished if it is newer than the
    /// note and than its input.
    pub(crate) fn begin(&self, options: &Value, resume: bool) -> anyhow::Result<(Vec<&(PathBuf, Destination)>, usize)> {
        let note = self.folder.join(NOTE);
        let old = std::fs::read_to_string(&note).ok();
        if !resume || old.is_none() {
            std::fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
            WholeFile::write(&note, format!("{options:#}\n").as_bytes())?;
            return Ok((self.files.iter().collect(), 0));
        }
        if old.and_then(|text| serde_json::from_str::<Value>(&text).ok()).as_ref() != Some(options) {
            bail!(
                "{}: holds answers of another model or of other options (see {NOTE}); leave out --resume, or name \
                 another folder",
                self.folder.display()
            );
        }
        let begun = modified(&note);
        let finished = |(input, destination): &&(PathBuf, Destination)| match destination {
            Destination::File(path, _) => modified(path)
                .is_some_and(|time| Some(time) >= begun && modified(input).is_none_or(|input| time >= input)),
            Destination::Stdout => false,
        };
        let left: Vec<_> = self.files.iter().filter(|file| !finished(file)).collect();
        let count = self.files.len() - left.len();
        Ok((left, count))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}
