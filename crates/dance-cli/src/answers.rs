//! What the model says about each row, ready to be written.

use clap::ValueEnum;
use dance::conformal::Decision;
use dance::data::{Frame, Kind};
use dance::model;
use dance::scores::EmptySets;
use dance::stream::flagged_beyond_chance;
use dance::{Context, Dance, Matrix, PredictOptions, Scored, Table};
use serde_json::value::{RawValue, to_raw_value};

use crate::judged::level_warnings;
use crate::parse::Alphas;

/// Neighbors named for each label.
const SUPPORT: usize = 5;

/// What can be asked for beside the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Include {
    /// Of each label in the set: by the kernel machine, or by the posterior of combined evidence
    Probabilities,
    /// Of each label in the set: by each score, and by the combined one where there is one
    PValues,
    /// The points that speak for each label in the set: id, row and part of the data
    Neighbors,
}

/// An id as JSON has it, digit by digit.
pub(crate) type Id = Box<RawValue>;
/// One row at one level.
pub(crate) type Answer<'a> = model::Answer<'a, Id>;
/// A row that is no point.
pub(crate) type Refusal = model::Refusal<Id>;

/// Asks a model.
pub(crate) struct Answers<'a> {
    pub(crate) model: &'a Dance,
    pub(crate) context: &'a Context<'a>,
    /// One per level.
    decisions: Vec<Decision>,
    include: model::Include,
    options: PredictOptions,
    /// The level of false alarms at which rows are flagged, where that was asked for.
    novelty: Option<f64>,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(
        model: &'a Dance,
        alphas: &[f64],
        include: &[Include],
        empty: EmptySets,
        context: &'a Context<'a>,
    ) -> dance::Result<Self> {
        let wants = |what| include.contains(&what);
        let include = model::Include {
            probabilities: wants(Include::Probabilities),
            p_values: wants(Include::PValues),
            neighbors: wants(Include::Neighbors),
        };
        let options = PredictOptions::default()
            .empty(empty)
            .support(if include.neighbors { SUPPORT } else { 0 })
            .probabilities(include.probabilities);
        let decisions = alphas.iter().map(|&alpha| model.decide(alpha)).collect::<dance::Result<_>>()?;
        Ok(Self { model, context, decisions, include, options, novelty: None })
    }

    /// The same, flagging rows that are unlike anything seen at a level of false alarms.
    pub(crate) fn flagging(self, novelty: Option<f64>) -> Self {
        Self { novelty, ..self }
    }

    /// Answers for `queries`, whose first row is number `first`: of each row one per level, side by side.
    pub(crate) fn of(
        &self,
        queries: &Matrix,
        first: usize,
        ids: &[Option<Id>],
    ) -> dance::Result<Vec<Answer<'a>>> {
        let scored = self.score(queries)?;
        let of_level = |decision| self.of_level(&scored, decision, first, ids);
        let mut levels: Vec<_> =
            self.decisions.iter().map(|decision| of_level(decision).into_iter()).collect();
        let mut answers = Vec::with_capacity(queries.rows() * levels.len());
        for _ in 0..queries.rows() {
            answers.extend(levels.iter_mut().filter_map(Iterator::next));
        }
        Ok(answers)
    }

    /// What does not depend on the level.
    pub(crate) fn score(&self, queries: &Matrix) -> dance::Result<Scored> {
        self.model.score(queries, self.options, self.context)
    }

    /// The answer for one of the queries at a level of its own.
    pub(crate) fn at(
        &self,
        scored: &Scored,
        query: usize,
        alpha: f64,
        row: usize,
        id: Option<Id>,
    ) -> dance::Result<Answer<'a>> {
        let decision = self.model.decide(alpha)?;
        let mut answers = self.of_level(&scored.select(&[query]), &decision, row, &[id]);
        Ok(answers.swap_remove(0))
    }

    fn of_level(
        &self,
        scored: &Scored,
        decision: &Decision,
        first: usize,
        ids: &[Option<Id>],
    ) -> Vec<Answer<'a>> {
        let mut answers: Vec<Answer<'a>> = self.model.answers(scored, decision, self.include);
        for (row, answer) in answers.iter_mut().enumerate() {
            answer.row = first + row;
            answer.id = ids.get(row).cloned().flatten();
            answer.novel = self.novelty.and_then(|level| Some(answer.novelty? <= level));
        }
        answers
    }

    /// The same of points that may be refused: one whose numbers are so large that they overflow costs itself. `rows` and `ids` are
    /// those of the points.
    pub(crate) fn of_each(
        &self,
        queries: &Matrix,
        rows: &[usize],
        ids: &[Option<Id>],
    ) -> dance::Result<(Vec<Answer<'a>>, Vec<Refusal>)> {
        match self.of(queries, 0, ids) {
            Ok(mut found) => {
                for answer in &mut found {
                    answer.row = rows[answer.row];
                }
                Ok((found, Vec::new()))
            }
            Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) if rows.len() == 1 => {
                let error = "its numbers are too large for the model; scale the embeddings down".into();
                let id = ids.first().cloned().flatten();
                Ok((Vec::new(), vec![Refusal { row: rows[0], line: None, error, id }]))
            }
            Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) if !rows.is_empty() => {
                let half = rows.len() / 2;
                let part = |places: std::ops::Range<usize>| {
                    let (ids, rows) = (ids.get(places.clone()).unwrap_or_default(), &rows[places.clone()]);
                    self.of_each(&queries.select(&places.collect::<Vec<_>>()), rows, ids)
                };
                let (mut found, mut refused) = part(0..half)?;
                let (more, others) = part(half..rows.len())?;
                found.extend(more);
                refused.extend(others);
                Ok((found, refused))
            }
            Err(error) => Err(error),
        }
    }

    /// Answers as columns, with refusals where there can be any.
    pub(crate) fn frame(&self, answers: &[Answer<'_>], refused: Option<&[Refusal]>) -> Frame {
        self.model.frame(answers, refused, self.include, self.novelty.is_some())
    }

    /// What should be known about every set.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let each = self.decisions.iter().map(|decision| level_warnings(self.model, decision));
        if self.decisions.len() == 1 { each.flatten().collect() } else { with_levels(&self.decisions, each) }
    }
}

fn with_levels(decisions: &[Decision], warnings: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let name = |(decision, all): (&Decision, Vec<String>)| {
        let alpha = decision.alpha;
        all.into_iter().map(move |warning| format!("alpha {alpha}: {warning}")).collect::<Vec<_>>()
    };
    decisions.iter().zip(warnings).flat_map(name).collect()
}

/// The ids of a table as JSON has them: integers stay integers.
pub(crate) fn ids_of(table: &Table) -> Vec<Option<Id>> {
    table.ids.iter().flatten().map(|id| written(id, table.id_kind)).collect()
}

/// An id as JSON has it.
pub(crate) fn written(id: &str, kind: Kind) -> Option<Id> {
    to_raw_value(&kind.value(id)).ok()
}

/// What there is to say about all rows.
pub(crate) struct Summary {
    pub(crate) bad: usize,
    pub(crate) rows: usize,
    /// Labels and empty sets of every level.
    pub(crate) levels: Vec<(f64, usize, usize)>,
    /// The level of false alarms, and how many rows are unlike anything seen at it; `None` where the model cannot say.
    pub(crate) novel: (f64, Option<usize>),
}

/// The level of false alarms where none was asked for: rows are counted at it, and not flagged.
const NOVELTY: f64 = 0.01;

impl Summary {
    pub(crate) fn new(alphas: &Alphas, novelty: Option<f64>) -> Self {
        let levels = alphas.0.iter().map(|&alpha| (alpha, 0, 0)).collect();
        Self { bad: 0, rows: 0, levels, novel: (novelty.unwrap_or(NOVELTY), None) }
    }

    /// The same levels, and nothing counted.
    pub(crate) fn empty(&self) -> Self {
        let levels = self.levels.iter().map(|&(alpha, ..)| (alpha, 0, 0)).collect();
        Self { bad: 0, rows: 0, levels, novel: (self.novel.0, None) }
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.bad += other.bad;
        self.rows += other.rows;
        for (own, other) in self.levels.iter_mut().zip(&other.levels) {
            *own = (own.0, own.1 + other.1, own.2 + other.2);
        }
        if let Some(novel) = other.novel.1 {
            *self.novel.1.get_or_insert_default() += novel;
        }
    }

    pub(crate) fn add(&mut self, answers: &[Answer<'_>]) {
        self.rows += answers.len() / self.levels.len();
        for row in answers.chunks(self.levels.len()) {
            if let Some(novelty) = row[0].novelty {
                *self.novel.1.get_or_insert_default() += usize::from(novelty <= self.novel.0);
            }
            for ((_, labels, empty), answer) in self.levels.iter_mut().zip(row) {
                *labels += answer.set.len();
                *empty += usize::from(answer.set.is_empty());
            }
        }
    }

    /// Level, labels per set and share of empty sets.
    pub(crate) fn shares(&self) -> Vec<(f64, f64, f64)> {
        let rows = self.rows.max(1) as f64;
        self.levels
            .iter()
            .map(|&(alpha, labels, empty)| (alpha, labels as f64 / rows, empty as f64 / rows))
            .collect()
    }

    /// How many rows are unlike anything seen; in words, and whether there are more than chance explains.
    pub(crate) fn novel(&self, calibration_points: usize) -> Option<(String, bool)> {
        let (level, Some(novel)) = self.novel else { return None };
        let beyond = flagged_beyond_chance(novel, self.rows, level, calibration_points);
        let effect = if beyond {
            ": more than chance explains, so these rows do not come from where the calibration points come from, and the guarantee \
             should not be relied on"
        } else {
            ""
        };
        let expected = level * self.rows as f64;
        let rows = self.rows;
        Some((
            format!(
                "{novel} of {rows} rows are unlike anything seen (novelty <= {level}; about {expected:.0} by chance){effect}"
            ),
            beyond,
        ))
    }
}
