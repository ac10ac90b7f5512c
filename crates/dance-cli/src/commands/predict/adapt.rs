//! `dance predict --adapt`: a level that adapts to labels, which arrive with their points or later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dance::stream::Adaptive;
use dance::whole_file::{self, WholeFile};
use serde::{Deserialize, Serialize};

use crate::answers::{Answer, Answers, Id, Summary};
use crate::json_lines::Group;
use crate::replies::{Replies, Taker};

/// The level used in place of 0 and below: every label is in the set.
const SMALLEST: f64 = 1e-12;
/// The level used in place of 1 and above; the set is emptied afterwards.
const PLACEHOLDER: f64 = 0.5;

/// The longest state in bytes: some million sets that wait for a label.
const LONGEST_STATE: u64 = 1 << 30;

/// An adaptive level, and the sets that wait for a label.
pub(super) struct Adapting {
    level: Adaptive,
    run: Run,
    /// The file of the state.
    path: Option<PathBuf>,
}

/// The settings that sets depend on. A state with other settings is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// SHA-256 of the model file.
    pub(super) model: String,
    /// The share of labels that may be missed.
    pub(super) alpha: f64,
    /// The change of the level for each label.
    pub(super) adapt: f64,
    /// The treatment of empty sets.
    pub(super) empty: String,
}

/// The state of a run, from which the next one continues.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    settings: Settings,
    /// Answered points.
    points: usize,
    /// Labels that arrived. The level follows from these and the misses.
    labels: usize,
    misses: usize,
    /// Sets that wait for a label, by the id of the point as JSON.
    waiting: BTreeMap<String, Vec<String>>,
    /// The most sets that waited at a time.
    most: usize,
    /// Labels that the model does not know, which no level can cover.
    unknown: usize,
}

impl Run {
    fn new(settings: Settings) -> Self {
        Self { settings, points: 0, labels: 0, misses: 0, waiting: BTreeMap::new(), most: 0, unknown: 0 }
    }
}

impl Adapting {
    /// Returns the level at its beginning, or as the state in a file left it.
    pub(super) fn new(settings: Settings, path: Option<&Path>) -> anyhow::Result<Self> {
        let level = Adaptive::new(settings.alpha, settings.adapt)?;
        let path = path.map(Path::to_owned);
        let Some(kept) = path.as_deref().filter(|path| path.exists()) else {
            return Ok(Self { level, run: Run::new(settings), path });
        };
        let name = kept.display();
        let run: Run = serde_json::from_slice(&whole_file::read(kept, LONGEST_STATE)?)
            .with_context(|| format!("{name}: not the state of an adaptive level; delete it to begin anew"))?;
        if let Some(other) = settings.other(&run.settings) {
            bail!("{name}: the state belongs to {other}; name another file, or delete it to begin anew");
        }
        let level = level.resume(run.labels, run.misses).with_context(|| name.to_string())?;
        Ok(Self { level, run, path })
    }

    /// Writes the state to its file, if there is one.
    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        (self.run.labels, self.run.misses) = self.level.counts();
        if let Some(path) = &self.path {
            WholeFile::write(path, serde_json::to_string(&self.run)?.as_bytes())?;
        }
        Ok(())
    }

    /// Answers points one after the other, each at the level that the labels before it determine.
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
            let usable = if alpha >= 1.0 { PLACEHOLDER } else { alpha.max(SMALLEST) };
            let mut answer = answers.at(&scored, place, usable, group.first + place, id.clone())?;
            answer.alpha = alpha;
            if alpha >= 1.0 {
                answer.set.clear();
            }
            let set = label_names(&answer);
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

    /// Takes a label that arrived after its point; returns the reason where no point waits for it.
    pub(super) fn take_label(&mut self, answers: &Answers<'_>, id: &Id, label: &str) -> Result<(), String> {
        match self.run.waiting.remove(id.get()) {
            Some(set) => {
                self.learn(answers, &set, label);
                Ok(())
            }
            None => Err(format!("no point with the id {} waits for a label", id.get())),
        }
    }

    fn learn(&mut self, answers: &Answers<'_>, set: &[String], label: &str) {
        if !answers.model.classes().iter().any(|class| class == label) {
            self.run.unknown += 1;
            return;
        }
        self.level.learn(!set.iter().any(|name| name == label));
    }

    /// Returns the guarantee of the adaptive level in words.
    pub(super) fn guarantee(&self) -> String {
        let ((labels, misses), bound) = (self.level.counts(), self.level.bound(self.run.most));
        let unknown = match self.run.unknown {
            0 => String::new(),
            unknown => format!(", not counting {unknown} labels that the model does not know"),
        };
        format!(
            "in the long run, whatever the data: {misses} of {labels} labels were missed ({:.4}), within {bound:.4} of \
             alpha{unknown}; there is no guarantee for a single point",
            misses as f64 / labels.max(1) as f64
        )
    }
}

impl Settings {
    /// Returns the first setting of a state that differs from these, in words; `None` if all are equal.
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

fn label_names(answer: &Answer<'_>) -> Vec<String> {
    answer.set.iter().map(ToString::to_string).collect()
}
