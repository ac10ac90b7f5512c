//! Answers: the model's output for each row, ready to be written.

use clap::ValueEnum;
use dance::conformal::Decision;
use dance::data::Kind;
use dance::scores::EmptySets;
use dance::stream::flagged_beyond_chance;
use dance::{Context, Dance, Matrix, PredictOptions, Scored, Table};
use dance_page::answers;
use dance_page::frame::Frame;
use serde_json::value::{RawValue, to_raw_value};

use crate::evaluation::level_warnings;

/// Neighbors listed for each label of a set.
const SUPPORT: usize = 5;

/// The values of `--include`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Include {
    /// Probability of each label in the set
    Probabilities,
    /// P-value of each label in the set; with the method dance also the p-values of its two scores
    PValues,
    /// Nearest points that carry each label of the set: id, row and part of the data
    Neighbors,
}

/// An id as JSON text, so that no digit of a number is lost.
pub(crate) type Id = Box<RawValue>;
/// The answer for one row at one level.
pub(crate) type Answer<'a> = answers::Answer<'a, Id>;
/// The reason why a row is not a valid point.
pub(crate) type Refusal = answers::Refusal<Id>;

/// A model with the options for its answers.
pub(crate) struct Answers<'a> {
    pub(crate) model: &'a Dance,
    pub(crate) context: &'a Context<'a>,
    /// One decision per level.
    decisions: Vec<Decision>,
    include: answers::Include,
    options: PredictOptions,
    /// The level of false alarms at which rows are flagged as novel; `None` where no flag is wanted.
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
        let wants = |list| include.contains(&list);
        let include = answers::Include {
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

    /// Flags novel rows at a level of false alarms.
    pub(crate) fn flagging(self, novelty: Option<f64>) -> Self {
        Self { novelty, ..self }
    }

    /// Returns the answers for `queries`, whose first row is number `first`: one per level for each row, side by side.
    pub(crate) fn of(&self, queries: &Matrix, first: usize, ids: &[Option<Id>]) -> dance::Result<Vec<Answer<'a>>> {
        let scored = self.score(queries)?;
        let of_level = |decision| self.of_level(&scored, decision, first, ids);
        let mut levels: Vec<_> = self.decisions.iter().map(|decision| of_level(decision).into_iter()).collect();
        let mut answers = Vec::with_capacity(queries.rows() * levels.len());
        for _ in 0..queries.rows() {
            answers.extend(levels.iter_mut().filter_map(Iterator::next));
        }
        Ok(answers)
    }

    /// Computes everything about `queries` that does not depend on the level.
    pub(crate) fn score(&self, queries: &Matrix) -> dance::Result<Scored> {
        self.model.score(queries, self.options, self.context)
    }

    /// Returns the answer for one of the scored queries at a level of its own.
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

    fn of_level(&self, scored: &Scored, decision: &Decision, first: usize, ids: &[Option<Id>]) -> Vec<Answer<'a>> {
        let mut answers: Vec<Answer<'a>> = answers::answers(self.model, scored, decision, self.include);
        for (row, answer) in answers.iter_mut().enumerate() {
            answer.row = first + row;
            answer.id = ids.get(row).cloned().flatten();
            answer.novel = self.novelty.map(|level| answer.novelty <= level);
        }
        answers
    }

    /// Returns the answers for points with the numbers `rows`. A point whose numbers overflow in the model is refused
    /// alone: where a block fails, its halves are tried.
    pub(crate) fn of_each(
        &self,
        queries: &Matrix,
        rows: &[usize],
        ids: &[Option<Id>],
    ) -> dance::Result<(Vec<Answer<'a>>, Vec<Refusal>)> {
        match self.of(queries, 0, ids) {
            Ok(mut answers) => {
                for answer in &mut answers {
                    answer.row = rows[answer.row];
                }
                Ok((answers, Vec::new()))
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
                let (mut answers, mut refused) = part(0..half)?;
                let (more_answers, more_refused) = part(half..rows.len())?;
                answers.extend(more_answers);
                refused.extend(more_refused);
                Ok((answers, refused))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns answers as columns, with a column `error` where a list of refusals is given.
    pub(crate) fn frame(&self, answers: &[Answer<'_>], refused: Option<&[Refusal]>) -> Frame {
        answers::columns(self.model, answers, refused, self.include, self.novelty.is_some())
    }

    /// Returns the warnings about all levels.
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

/// Returns the ids of a table as JSON; integers stay integers.
pub(crate) fn ids_of(table: &Table) -> Vec<Option<Id>> {
    table.ids.iter().flatten().map(|id| id_as_json(id, table.id_kind)).collect()
}

/// Returns one id as JSON.
pub(crate) fn id_as_json(id: &str, kind: Kind) -> Option<Id> {
    to_raw_value(&kind.value(id)).ok()
}

/// Counts over all rows of a prediction.
pub(crate) struct Summary {
    /// Refused rows.
    pub(crate) bad: usize,
    /// Answered rows.
    pub(crate) rows: usize,
    levels: Vec<LevelCounts>,
    pub(crate) novelty: NoveltyCount,
}

/// Labels and empty sets at one level.
#[derive(Clone, Copy)]
struct LevelCounts {
    alpha: f64,
    labels: usize,
    empty: usize,
}

/// Mean set size and share of empty sets at one level.
#[derive(Clone, Copy)]
pub(crate) struct LevelShares {
    pub(crate) alpha: f64,
    pub(crate) size: f64,
    pub(crate) empty: f64,
}

/// The number of novel rows at a level of false alarms.
#[derive(Clone, Copy)]
pub(crate) struct NoveltyCount {
    pub(crate) level: f64,
    pub(crate) rows: usize,
}

/// The novelty of all rows: a sentence, and whether it is more than chance explains.
pub(crate) struct NoveltyVerdict {
    pub(crate) text: String,
    pub(crate) beyond_chance: bool,
}

/// The level of false alarms at which novel rows are counted where no level was given.
const NOVELTY: f64 = 0.01;

impl Summary {
    pub(crate) fn new(answers: &Answers<'_>, novelty: Option<f64>) -> Self {
        let alphas = answers.decisions.iter().map(|decision| decision.alpha);
        let levels = alphas.map(|alpha| LevelCounts { alpha, labels: 0, empty: 0 }).collect();
        Self { bad: 0, rows: 0, levels, novelty: NoveltyCount { level: novelty.unwrap_or(NOVELTY), rows: 0 } }
    }

    /// Returns a summary with the same levels and zero counts.
    pub(crate) fn empty(&self) -> Self {
        let zero = |level: &LevelCounts| LevelCounts { labels: 0, empty: 0, ..*level };
        let novelty = NoveltyCount { rows: 0, ..self.novelty };
        Self { bad: 0, rows: 0, levels: self.levels.iter().map(zero).collect(), novelty }
    }

    /// Adds the counts of another summary with the same levels.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.bad += other.bad;
        self.rows += other.rows;
        for (own, other) in self.levels.iter_mut().zip(&other.levels) {
            own.labels += other.labels;
            own.empty += other.empty;
        }
        self.novelty.rows += other.novelty.rows;
    }

    pub(crate) fn add(&mut self, answers: &[Answer<'_>]) {
        self.rows += answers.len() / self.levels.len();
        for row in answers.chunks(self.levels.len()) {
            self.novelty.rows += usize::from(row[0].novelty <= self.novelty.level);
            for (level, answer) in self.levels.iter_mut().zip(row) {
                level.labels += answer.set.len();
                level.empty += usize::from(answer.set.is_empty());
            }
        }
    }

    /// Returns the mean set size and the share of empty sets at every level.
    pub(crate) fn shares(&self) -> Vec<LevelShares> {
        let rows = self.rows.max(1) as f64;
        let share = |level: &LevelCounts| LevelShares {
            alpha: level.alpha,
            size: level.labels as f64 / rows,
            empty: level.empty as f64 / rows,
        };
        self.levels.iter().map(share).collect()
    }

    /// Compares the number of novel rows with the number expected by chance.
    pub(crate) fn novelty_verdict(&self, calibration_points: usize) -> NoveltyVerdict {
        let (NoveltyCount { level, rows: novel }, rows) = (self.novelty, self.rows);
        let beyond_chance = flagged_beyond_chance(novel, rows, level, calibration_points);
        let effect = if beyond_chance {
            ": more than chance explains. The rows come from another distribution than the calibration points, and the \
             guarantee should not be relied on"
        } else {
            ""
        };
        let expected = level * rows as f64;
        let text = format!(
            "{novel} of {rows} rows are novel (novelty <= {level}; about {expected:.0} are expected by chance){effect}"
        );
        NoveltyVerdict { text, beyond_chance }
    }
}
