//! `dance predict --adapt`: the level follows what the labels say, which come with their points or later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::data::Classes;
use dance::stream::Adaptive;
use dance::whole_file::{self, WholeFile};
use serde::{Deserialize, Serialize};

use crate::answers::{Answer, Answers, Id, Summary};
use crate::replies::{Replies, Taker};
use crate::stream::Group;

/// A level at which every label is in every set.
const ALL: f64 = 1e-12;
/// Any level: the set will be emptied.
const ANY: f64 = 0.5;

/// Longest state: some million sets that wait for a label.
const LONGEST_STATE: u64 = 1 << 30;

/// A level that adapts, and the sets that wait for a label.
pub(super) struct Adapting {
    level: Adaptive,
    run: Run,
    /// Where the run is kept, to go on from.
    path: Option<PathBuf>,
}

/// What sets follow from: a state of anything else says nothing about them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// SHA-256 of the model file.
    pub(super) model: String,
    /// The share of labels that may be missed.
    pub(super) alpha: f64,
    /// How much the level follows.
    pub(super) adapt: f64,
    /// What becomes of empty sets.
    pub(super) empty: String,
}

/// What to go on from, beside the level.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    settings: Settings,
    /// Points that were answered.
    points: usize,
    /// Labels that came, and how many of them were missed: the level follows from those.
    labels: usize,
    misses: usize,
    /// Sets that wait for a label, by the id of the point as it was written.
    waiting: BTreeMap<String, Vec<String>>,
    /// The most that waited at a time.
    most: usize,
    /// Labels that the model does not know: no level could have held them.
    unknown: usize,
}

impl Adapting {
    /// At the begin, or where the run that is kept in a file stood.
    pub(super) fn new(settings: Settings, path: Option<&Path>) -> anyhow::Result<Self> {
        let level = Adaptive::new(settings.alpha, settings.adapt)?;
        let path = path.map(Path::to_owned);
        let Some(kept) = path.as_deref().filter(|path| path.exists()) else {
            let (waiting, none) = (BTreeMap::new(), 0);
            let run = Run {
                settings,
                points: none,
                labels: none,
                misses: none,
                waiting,
                most: none,
                unknown: none,
            };
            return Ok(Self { level, run, path });
        };
        let name = || kept.display().to_string();
        let run: Run =
            serde_json::from_slice(&whole_file::read(kept, LONGEST_STATE)?).with_context(|| {
                format!("{}: not the state of a level that adapts; delete it to begin anew", kept.display())
            })?;
        if let Some(other) = settings.other(&run.settings) {
            bail!(
                "{}: the state belongs to {other}; name another file, or delete it to begin anew",
                kept.display()
            );
        }
        let level = level.resume(run.labels, run.misses).with_context(name)?;
        Ok(Self { level, run, path })
    }

    /// Keeps the run where it is to be kept.
    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        (self.run.labels, self.run.misses) = self.level.counts();
        if let Some(path) = &self.path {
            WholeFile::write(path, serde_json::to_string(&self.run)?.as_bytes())?;
        }
        Ok(())
    }

    /// Answers points one after the other, each at the level that the labels before it have left.
    pub(super) fn answer<'a>(
        &mut self,
        answers: &Answers<'a>,
        group: &Group,
        summary: &mut Summary,
        name: &str,
        out: Taker<'_, 'a>,
    ) -> anyhow::Result<()> {
        let scored = answers.score(&group.points).with_context(|| name.to_owned())?;
        for (place, id) in group.ids.iter().enumerate() {
            let alpha = self.level.alpha();
            let usable = if alpha >= 1.0 { ANY } else { alpha.max(ALL) };
            let mut answer = answers.at(&scored, place, usable, group.first + place, id.clone())?;
            answer.alpha = alpha;
            if alpha >= 1.0 {
                answer.set.clear();
            }
            let set = names(&answer);
            self.run.points += 1;
            summary.add(std::slice::from_ref(&answer));
            out(Replies { answers: vec![answer], refused: Vec::new() })?;
            match (&group.labels[place], id) {
                (Some(label), _) => self.learn(answers, &set, label),
                (None, Some(id)) => {
                    self.run.waiting.insert(id.get().to_owned(), set);
                    self.run.most = self.run.most.max(self.run.waiting.len());
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Takes up a label that came later than its point; or says why not.
    pub(super) fn told(&mut self, answers: &Answers<'_>, id: &Id, label: &str) -> Result<(), String> {
        match self.run.waiting.remove(id.get()) {
            Some(set) => {
                self.learn(answers, &set, label);
                Ok(())
            }
            None => Err(format!("no point with the id {} waits for a label", id.get())),
        }
    }

    fn learn(&mut self, answers: &Answers<'_>, set: &[String], label: &str) {
        if Classes::new(answers.model.classes()).id(label).is_none() {
            self.run.unknown += 1;
            return;
        }
        self.level.learn(!set.iter().any(|name| name == label));
    }

    /// What is promised, in words.
    pub(super) fn guarantee(&self) -> String {
        let ((labels, misses), bound) = (self.level.counts(), self.level.bound(self.run.most));
        let unknown = match self.run.unknown {
            0 => String::new(),
            unknown => format!("; {unknown} labels that the model does not know aside"),
        };
        format!(
            "in the long run, whatever comes: of {labels} points whose labels came {misses} were missed, {:.4}, which is within {bound:.4} of what was \
             asked for{unknown}; nothing is promised for a single point",
            misses as f64 / labels.max(1) as f64
        )
    }
}

impl Settings {
    /// What a state of these settings belongs to instead; `None` if they are the same.
    fn other(&self, kept: &Self) -> Option<String> {
        let changed = [
            ("another model".to_owned(), self.model != kept.model),
            (format!("--alpha {}", kept.alpha), self.alpha.to_bits() != kept.alpha.to_bits()),
            (format!("--adapt {}", kept.adapt), self.adapt.to_bits() != kept.adapt.to_bits()),
            (format!("--empty {}", kept.empty), self.empty != kept.empty),
        ];
        changed.into_iter().find(|(_, changed)| *changed).map(|(words, _)| words)
    }
}

fn names(answer: &Answer<'_>) -> Vec<String> {
    answer.set.iter().map(ToString::to_string).collect()
}
