//! `dance predict`: a prediction set for every row.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use dance::Dance;
use dance::conformal::EmptySets;
use dance::data::Normalize;
use dance::model::Answer;
use dance::whole_file::WholeFile;
use serde_json::{Value, json};

use super::Outcome;
use crate::answers::{self, Answers, Include};
use crate::args::Shared;
use crate::data::{Columns, check_there};
use crate::output::{Destination, Format, write_frame};
use crate::parse;
use crate::places;
use crate::progress::Progress;
use crate::stream::{BadLine, Group, Next, Points};

pub(crate) const EXAMPLE: &str = r#"Example:
  dance predict model.dance new.npz -o sets.parquet --alpha 0.05 --include probabilities,p-values
  echo '{"id": "a", "embedding": [0.1, …]}' | dance predict model.dance - -o -

A row of .jsonl: {"row":0,"id":"a","prediction":"cat","probability":0.93,"set":["cat","fox"],"alpha":0.05}
With --on-error report, a line that is no point is answered by {"row":17,"line":18,"error":…}. An answer has an `id` if its line has.
`prediction` is the most probable label of the set, or of all labels where the set is empty; `probability` is its own.
Lists beside `set` (--include) have one entry per label of the set, in its order: most conforming first. In .csv a list is a
JSON array; in .npz row i has set[set_offsets[i]:set_offsets[i+1]]. Neighbors are points of the model, nearest first, each with
the part it comes from (calibration or fit), its row in the file that was given to fit or recalibrate, and its id."#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Empty {
    /// Leave them empty, as in the paper
    Keep,
    /// Put the most probable label in
    Top1,
}

#[derive(Args, Debug)]
pub(crate) struct Predict {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings; `-` or .jsonl: JSON lines, answered one by one
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Where sets go: .jsonl, .csv, .parquet, .npz; `-` is stdout
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Error level: a set misses the true label in about this share of cases
    #[arg(long, value_name = "LEVEL", default_value_t = 0.1, value_parser = parse::alpha, allow_hyphen_values = true)]
    alpha: f64,
    /// What to add to each row
    #[arg(long, value_name = "WHAT,…", value_enum, value_delimiter = ',')]
    include: Vec<Include>,
    /// What becomes of a line (of JSON lines) that is no point
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "HOW")]
    on_error: OnError,
    /// What becomes of empty sets
    #[arg(long, value_enum, default_value_t = Empty::Keep, value_name = "HOW")]
    empty: Empty,
}

/// What a line gets that is no point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// The end. On stdout, what came before it is answered; a file is not written
    Stop,
    /// An answer that says what is wrong; the others go on, and the exit status is 1
    Report,
}

/// What there is to say about all rows.
#[derive(Default)]
struct Summary {
    bad: usize,
    rows: usize,
    labels: usize,
    empty: usize,
}

impl Summary {
    fn add(&mut self, answers: &[Answer<'_>]) {
        self.rows += answers.len();
        self.labels += answers.iter().map(|answer| answer.set.len()).sum::<usize>();
        self.empty += answers.iter().filter(|answer| answer.set.is_empty()).count();
    }
}

impl Predict {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        let destination = self.check(shared)?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device(), &self.model, &context)?;
        let empty = if self.empty == Empty::Top1 { EmptySets::Top1 } else { EmptySets::Keep };
        let answers = Answers::new(&model, self.alpha, &self.include, empty, &context)?;
        for warning in answers.warnings() {
            progress.warn(&warning);
        }
        let summary = if self.streams() {
            self.stream(&answers, &destination)?
        } else {
            progress.begin("predicting");
            self.table(&answers, &destination)?
        };
        progress.finish();
        let (rows, guarantee) = (summary.rows.max(1) as f64, model.guarantee());
        let (size, empty) = (summary.labels as f64 / rows, summary.empty as f64 / rows);
        if shared.json && destination != Destination::Stdout {
            let report = json!({
                "output": self.output.display().to_string(),
                "rows": summary.rows,
                "alpha": self.alpha,
                "size": size,
                "empty": empty,
                "bad_lines": summary.bad,
                "guarantee": guarantee,
                "warnings": progress.warnings(),
            });
            writeln!(io::stdout(), "{report}")?;
        }
        progress.note(&format!(
            "{} rows at alpha {}: {size:.2} labels a set, {:.1} % empty; guarantee: {guarantee}",
            summary.rows,
            self.alpha,
            100.0 * empty
        ));
        if summary.bad > 0 {
            progress.warn(&format!("{} lines were no points; their answers say why", summary.bad));
            return Ok(Outcome::CheckFailed);
        }
        Ok(Outcome::Fine)
    }

    fn streams(&self) -> bool {
        let extension = self.data.extension().unwrap_or_default();
        self.data == Path::new("-") || extension == "jsonl" || extension == "ndjson"
    }

    fn check(&self, shared: &Shared) -> anyhow::Result<Destination> {
        let destination = Destination::new(&self.output)?;
        if self.on_error == OnError::Report && !self.streams() {
            bail!("--on-error report is for JSON lines; {} is read whole or not at all", self.data.display());
        }
        check_there(&self.model)?;
        if !self.streams() {
            self.columns.check(&self.data)?;
        } else if matches!(&destination, Destination::File(_, format) if *format != Format::Jsonl) {
            bail!("{}: JSON lines are answered as JSON lines; use .jsonl or `-`", self.output.display());
        } else if self.data != Path::new("-") {
            check_there(&self.data)?;
        }
        if let Destination::File(path, _) = &destination {
            let inputs = [
                Some(&*self.model),
                Some(&self.data),
                self.columns.labels.as_deref(),
                shared.config.as_deref(),
            ];
            places::check(&inputs, &[Some(path)])?;
        }
        Ok(destination)
    }

    /// All rows of a file.
    fn table(&self, answers: &Answers<'_>, destination: &Destination) -> anyhow::Result<Summary> {
        let table = self.columns.table(&self.data)?;
        let ids = table.ids.iter().flatten().map(|id| Some(Value::from(id.as_str()))).collect();
        let found =
            answers.of(table.embeddings(), 0, ids).with_context(|| self.data.display().to_string())?;
        let mut summary = Summary::default();
        summary.add(&found);
        match destination {
            Destination::Stdout => write_lines(&mut io::stdout().lock(), &found)?,
            Destination::File(path, Format::Jsonl) => {
                let mut file = WholeFile::create(path)?;
                write_lines(&mut file, &found).with_context(|| path.display().to_string())?;
                file.commit()?;
            }
            Destination::File(path, format) => {
                let notes = vec![("guarantee", answers.model.guarantee())];
                write_frame(path, *format, &answers::frame(&found, notes))?;
            }
        }
        Ok(summary)
    }

    /// Lines in, lines out.
    fn stream(&self, answers: &Answers<'_>, destination: &Destination) -> anyhow::Result<Summary> {
        let input: Box<dyn Read> = if self.data == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.data).with_context(|| self.data.display().to_string())?)
        };
        let name = if self.data == Path::new("-") { "stdin".into() } else { self.data.display().to_string() };
        let dimensions = answers.model.fitted().dimensions();
        let directed = answers.model.fitted().config.normalize == Normalize::L2;
        let mut points = Points::new(input, name.clone(), dimensions, directed);
        let mut summary = Summary::default();
        let mut each = |out: &mut dyn Write| -> anyhow::Result<()> {
            loop {
                match points.next()? {
                    Next::Points(group) => self.answer(answers, group, &mut summary, &name, out)?,
                    Next::Bad(bad) => self.refuse(bad, &mut summary, &name, out)?,
                    Next::End => return Ok(()),
                }
                out.flush()?; // whoever waits for the answer has it now
            }
        };
        match destination {
            Destination::Stdout => each(&mut io::stdout().lock())?,
            Destination::File(path, _) => {
                let mut file = WholeFile::create(path)?;
                each(&mut file)?;
                file.commit()?;
            }
        }
        Ok(summary)
    }

    /// Answers points that arrived together. Where one of them cannot be answered (numbers so large that they overflow), each is
    /// asked by itself, so that the others are.
    fn answer(
        &self,
        answers: &Answers<'_>,
        group: Group,
        summary: &mut Summary,
        name: &str,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        match answers.of(&group.points, group.first, group.ids.clone()) {
            Ok(found) => {
                summary.add(&found);
                return Ok(write_lines(out, &found)?);
            }
            Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) => {}
            Err(error) => return Err(error).with_context(|| name.to_owned()),
        }
        for (place, id) in group.ids.into_iter().enumerate() {
            let (row, line) = (group.first + place, group.lines[place]);
            match answers.of(&group.points.select(&[place]), row, vec![id.clone()]) {
                Ok(found) => {
                    summary.add(&found);
                    write_lines(out, &found)?;
                }
                Err(dance::Error::NotFinite { .. } | dance::Error::Data(_)) => {
                    let problem = "its numbers are too large for the model; scale the embeddings down".into();
                    self.refuse(BadLine { row, line, id, problem }, summary, name, out)?;
                }
                Err(error) => return Err(error).with_context(|| format!("{name}: line {line}")),
            }
        }
        Ok(())
    }

    /// Says what is wrong with a line: in its answer, or by ending here.
    fn refuse(
        &self,
        bad: BadLine,
        summary: &mut Summary,
        name: &str,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let BadLine { row, line, id, problem } = bad;
        if self.on_error == OnError::Stop {
            out.flush()?;
            bail!("{name}: line {line}: {problem} (--on-error report goes on behind it)");
        }
        summary.bad += 1;
        let mut answer = json!({ "row": row, "line": line, "error": problem });
        if let Some(id) = id {
            answer["id"] = id;
        }
        Ok(writeln!(out, "{answer}")?)
    }
}

fn write_lines(out: &mut dyn Write, answers: &[Answer<'_>]) -> io::Result<()> {
    let mut text = Vec::new();
    for answer in answers {
        text.clear();
        serde_json::to_writer(&mut text, answer)?;
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}
