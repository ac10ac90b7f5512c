//! `dance predict --adapt`: the level follows what the labels say, which come with their points or later.

use std::collections::HashMap;

use anyhow::Context;
use dance::conformal::Adaptive;
use dance::data::Classes;

use crate::answers::{Answer, Answers, Id, Summary};
use crate::replies::{Replies, Taker};
use crate::stream::Group;

/// A level at which every label is in every set.
const ALL: f64 = 1e-12;
/// Any level: the set will be emptied.
const ANY: f64 = 0.5;

/// A level that adapts, and the sets that wait for a label.
pub(super) struct Adapting {
    pub(super) level: Adaptive,
    /// By the id of the point, as it was written.
    waiting: HashMap<String, Vec<String>>,
    /// The most that waited at a time.
    most: usize,
    /// Labels that the model does not know: no level could have held them.
    unknown: usize,
}

impl Adapting {
    pub(super) fn new(level: Adaptive) -> Self {
        Self { level, waiting: HashMap::new(), most: 0, unknown: 0 }
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
            summary.add(std::slice::from_ref(&answer));
            out(Replies { answers: vec![answer], refused: Vec::new() })?;
            match (&group.labels[place], id) {
                (Some(label), _) => self.learn(answers, &set, label),
                (None, Some(id)) => {
                    self.waiting.insert(id.get().to_owned(), set);
                    self.most = self.most.max(self.waiting.len());
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Takes up a label that came later than its point; or says why not.
    pub(super) fn told(&mut self, answers: &Answers<'_>, id: &Id, label: &str) -> Result<(), String> {
        match self.waiting.remove(id.get()) {
            Some(set) => {
                self.learn(answers, &set, label);
                Ok(())
            }
            None => Err(format!("no point with the id {} waits for a label", id.get())),
        }
    }

    fn learn(&mut self, answers: &Answers<'_>, set: &[String], label: &str) {
        if Classes::new(answers.model.classes()).id(label).is_none() {
            self.unknown += 1;
            return;
        }
        self.level.learn(!set.iter().any(|name| name == label));
    }

    /// What is promised, in words.
    pub(super) fn guarantee(&self) -> String {
        let ((labels, misses), bound) = (self.level.counts(), self.level.bound(self.most));
        let unknown = match self.unknown {
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

fn names(answer: &Answer<'_>) -> Vec<String> {
    answer.set.iter().map(ToString::to_string).collect()
}
