//! What is answered into what: one output file for every input file, and what of it was done before.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use dance::whole_file::WholeFile;
use serde_json::Value;

use crate::inputs::Found;
use crate::output::{Destination, Format};

/// What a folder of answers is of. Readers of folders pass over names that begin with an underscore.
const NOTE: &str = "_dance.json";

pub(crate) struct Plan {
    folder: PathBuf,
    files: Vec<(PathBuf, Destination)>,
}

impl Plan {
    /// `output` is a folder, or a folder and a name with a star that stands for the name of each input: `sets/*.jsonl`. Without a
    /// name Parquet is written. None of the outputs is one of the inputs or of the `others` that are read.
    pub(crate) fn new(found: Vec<Found>, output: &Path, others: &[Option<&Path>]) -> anyhow::Result<Self> {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (folder, template) = if name.contains('*') {
            (output.parent().unwrap_or(Path::new("")).to_owned(), name)
        } else {
            (output.to_owned(), "*.parquet".to_owned())
        };
        if output == Path::new("-") || folder.is_file() || Format::is_known(&folder) {
            bail!(
                "{}: several files are answered into a folder, each by itself; name one with -o, such as sets or 'sets/*.jsonl'",
                output.display()
            );
        }
        if template.matches('*').count() != 1 {
            bail!("{}: one star stands for the name of the input", output.display());
        }
        // Answers of a run before are not read, where the folder for them is in a folder that is read.
        let own = folder.canonicalize().ok();
        let (mut inputs, mut files) = (HashSet::new(), Vec::new());
        let mut taken: HashMap<PathBuf, PathBuf> = HashMap::new();
        for Found { path, below } in found {
            let place = path.canonicalize().with_context(|| path.display().to_string())?;
            let root = place.ancestors().nth(below.components().count());
            if own.as_deref().is_some_and(|own| {
                place.starts_with(own) && root.is_some_and(|root| root != own && own.starts_with(root))
            }) {
                continue;
            }
            inputs.insert(place);
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
        inputs.extend(others.iter().flatten().filter_map(|path| path.canonicalize().ok()));
        if let Some(out) = taken.keys().find(|out| out.canonicalize().is_ok_and(|out| inputs.contains(&out)))
        {
            bail!("{}: would be overwritten, and it is read; name another folder to write", out.display());
        }
        Ok(Self { folder, files })
    }

    /// Makes the folder and says in it what it is of, unless `resume` finds that it is of just that. The files that are left to
    /// do, and how many are done: those that are newer than the beginning of the first run and than their input.
    pub(crate) fn begin(
        &self,
        of: &Value,
        resume: bool,
    ) -> anyhow::Result<(Vec<&(PathBuf, Destination)>, usize)> {
        let note = self.folder.join(NOTE);
        let there = std::fs::read_to_string(&note).ok();
        if !resume || there.is_none() {
            std::fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
            WholeFile::write(&note, format!("{of:#}\n").as_bytes())?;
            return Ok((self.files.iter().collect(), 0));
        }
        if there.and_then(|text| serde_json::from_str::<Value>(&text).ok()).as_ref() != Some(of) {
            bail!(
                "{}: holds answers of another model or of other options ({NOTE} says which); leave out --resume, or name another folder",
                self.folder.display()
            );
        }
        let begun = modified(&note);
        let done = |(input, destination): &&(PathBuf, Destination)| match destination {
            Destination::File(path, _) => modified(path)
                .is_some_and(|time| Some(time) >= begun && modified(input).is_none_or(|input| time >= input)),
            Destination::Stdout => false,
        };
        let left: Vec<_> = self.files.iter().filter(|file| !done(file)).collect();
        let done = self.files.len() - left.len();
        Ok((left, done))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|found| found.modified()).ok()
}
