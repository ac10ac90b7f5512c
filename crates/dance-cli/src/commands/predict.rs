//! `dance predict`: a prediction set for every row.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use dance::Dance;
use dance::data::io as files;
use dance::scores::EmptySets;
use dance::scores::calibration::smallest_alpha;
use serde_json::{Value, json};

mod adapt;
#[cfg(feature = "embed")]
mod embedded;
mod lines;
mod many;

use self::adapt::{Adapting, Settings};
use super::Outcome;
use crate::answers::{Answers, Include, LevelShares, NoveltyVerdict, Summary};
use crate::args::Shared;
use crate::bulk::{Bulk, FileCounts};
use crate::data::{Columns, FileFormat, LabelColumns, check_there};
#[cfg(feature = "embed")]
use crate::encoding::OnTheFly;
use crate::output::{Destination, Format};
use crate::parse::{self, Alphas};
use crate::path_conflicts;
use crate::plan::Plan;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = r#"Example:
  dance predict model.dance new.npz -o sets.parquet --alpha 0.05 --include probabilities,p-values
  echo '{"id": "a", "embedding": [0.1, …]}' | dance predict model.dance - -o -
  dance predict model.dance photos/ --embed -o sets.jsonl
  dance predict model.dance parts/ -o sets/ --resume
  zcat points.csv.gz | dance predict model.dance /dev/stdin --format csv -o sets.csv

A row of .jsonl:
  {"row":0,"id":"a","prediction":"cat","probability":0.93,"set":["cat"],"alpha":0.1,"novelty":0.41}
  prediction   most probable label of all, and its probability
  set          prediction set; with several levels, each row has one answer per level
  new_label    whether the set contains "a new label" too (models with --new-labels)
  novelty      p-value: small where the point is unlike all calibration points, whatever its label
  novel        whether novelty is at most the level of --novelty
Labels and ids keep their type: numbers stay numbers.

Lists (--include) have one entry per label of `set`, in its order: most conforming first. In .csv
a list is a JSON array; in .npz row i has set[set_offsets[i]:set_offsets[i+1]]. Neighbors are
points of the model, nearest first: their part (calibration or fit), their row in the file that
was given to fit or recalibrate, and their id.

Parquet is read and written in constant memory. For a folder, a pattern or several names, every
file gets an output file of its own (Parquet, or as in -o 'sets/*.jsonl'). A file that cannot be
read is reported, the others are still answered, and the exit status is 1.

With --on-error report, an invalid row of JSON lines or Parquet is answered by
{"row":17,"line":18,"error":…}; .parquet and .csv have a column `error`.

With --adapt RATE --state FILE the level continues from the last run, and sets of the last run
still wait for their labels."#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Empty {
    /// Leave empty sets empty, as in the paper
    Keep,
    /// Put the most probable label into empty sets
    Top1,
}

#[derive(Args, Debug)]
pub(crate) struct Predict {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings; `-` is stdin. JSON lines (.jsonl, and stdin without --format) are answered line by line. For a
    /// folder, a pattern or several names, every file is answered by itself
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// File to write: .jsonl, .csv, .parquet or .npz; `-` is stdout. For several files, a folder (`sets`,
    /// 'sets/*.jsonl')
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    /// Error levels: a set misses the true label in at most this share of cases [default: those given to `fit`]
    #[arg(long, value_name = "LEVEL,…", value_parser = parse::alphas, allow_hyphen_values = true)]
    alpha: Option<Alphas>,
    /// Flag novel rows (`novel`), which are unlike all calibration points, with this share of false alarms
    #[arg(long, value_name = "LEVEL", value_parser = parse::alpha, allow_hyphen_values = true)]
    novelty: Option<f64>,
    /// Adapt the level to the labels that arrive, by this much for each (such as 0.01). In the long run sets miss the
    /// wanted share of labels, whatever the data. Only for JSON lines; a label is in its point's line, or follows as
    /// {"id": …, "label": …}
    #[arg(long, value_name = "RATE", value_parser = parse::alpha, allow_hyphen_values = true)]
    adapt: Option<f64>,
    /// State of --adapt between runs: read where it exists, and written together with the answers
    #[arg(long, value_name = "FILE", requires = "adapt")]
    state: Option<PathBuf>,
    /// Lists to add to each row
    #[arg(long, value_name = "LIST,…", value_enum, value_delimiter = ',')]
    include: Vec<Include>,
    /// Treatment of invalid rows, in JSON lines and Parquet
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "HOW")]
    on_error: OnError,
    /// Skip files that an earlier run has answered, with the same model and options
    #[arg(long)]
    resume: bool,
    /// Treatment of empty sets
    #[arg(long, value_enum, default_value_t = Empty::Keep, value_name = "HOW")]
    empty: Empty,
    #[command(flatten)]
    files: LabelColumns,
    #[command(flatten)]
    format: FileFormat,
    #[cfg(feature = "embed")]
    #[command(flatten)]
    embedding: OnTheFly,
}

/// The values of `--on-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Stop. On stdout, the rows before are answered; a file is not written
    Stop,
    /// Answer the row with the reason and go on; the exit status is 1
    Report,
}

/// The results of a run, for its report.
struct Report {
    summary: Summary,
    shares: Vec<LevelShares>,
    novelty: NoveltyVerdict,
    guarantee: String,
    /// The numbers of answered and failed files, where DATA is several files.
    files: Option<FileCounts>,
}

impl Predict {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&self.format)
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        let plan = self.plan(shared)?;
        self.check_adapting()?;
        let destination = if plan.is_some() { None } else { Some(self.check(shared)?) };
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let empty = if self.empty == Empty::Top1 { EmptySets::Top1 } else { EmptySets::Keep };
        let alphas = Alphas::or_of(self.alpha.as_ref(), &model);
        let mut adapting = self.adapting(alphas.0[0])?;
        let levels = if adapting.is_some() { &alphas.0[..1] } else { &alphas.0 };
        let answers = Answers::new(&model, levels, &self.include, empty, &context)?.flagging(self.novelty);
        for warning in answers.warnings() {
            progress.warn(&warning);
        }
        self.check_novelty(&model, &progress);
        let (summary, files) =
            self.answer_all(&answers, plan.as_ref(), destination.as_ref(), &mut adapting, shared, &progress)?;
        progress.finish();

        let guarantee = adapting.as_ref().map_or_else(|| model.guarantee(), Adapting::guarantee);
        let novelty = summary.novelty_verdict(model.novelty_points());
        let report = Report { shares: summary.shares(), summary, novelty, guarantee, files };
        if report.novelty.beyond_chance {
            progress.warn(&report.novelty.text);
        }
        if shared.json && destination != Some(Destination::Stdout) {
            writeln!(io::stdout(), "{}", self.json(&report, &progress))?;
        }
        Ok(self.note(&report, &progress))
    }

    /// Answers the rows of several files, of pictures or texts, of JSON lines, or of one file.
    fn answer_all(
        &self,
        answers: &Answers<'_>,
        plan: Option<&Plan>,
        destination: Option<&Destination>,
        adapting: &mut Option<Adapting>,
        shared: &Shared,
        progress: &Progress,
    ) -> anyhow::Result<(Summary, Option<FileCounts>)> {
        let mut summary = Summary::new(answers, self.novelty);
        if let Some(plan) = plan {
            let bulk = self.bulk(answers, progress);
            let files = bulk.files(plan, &self.options()?, self.resume, &mut summary)?;
            return Ok((summary, Some(files)));
        }
        let Some(destination) = destination else { return Ok((summary, None)) };
        #[cfg(feature = "embed")]
        if self.embeds() {
            progress.begin("predicting");
            return Ok((self.embedded(answers, destination, shared.device, progress)?, None));
        }
        #[cfg(not(feature = "embed"))]
        let _ = shared;
        if self.streams() {
            return Ok((self.stream(answers, destination, adapting)?, None));
        }
        progress.begin("predicting");
        self.bulk(answers, progress).file(self.data(), destination, &mut summary)?;
        Ok((summary, None))
    }

    fn json(&self, report: &Report, progress: &Progress) -> Value {
        let Report { summary, shares, novelty, guarantee, files } = report;
        let level = |share: &LevelShares| json!({ "alpha": share.alpha, "size": share.size, "empty": share.empty });
        let files = files.as_ref().map(|FileCounts { answered, before, failed }| {
            let failed =
                failed.iter().map(|(file, error)| json!({ "file": file.display().to_string(), "error": error }));
            json!({ "answered": answered, "before": before, "failed": failed.collect::<Vec<_>>() })
        });
        json!({
            "output": self.output.display().to_string(),
            "rows": summary.rows,
            "bad_rows": summary.bad,
            "levels": shares.iter().map(level).collect::<Vec<_>>(),
            "guarantee": guarantee,
            "novelty": {
                "level": summary.novelty.level,
                "rows": summary.novelty.rows,
                "beyond_chance": novelty.beyond_chance,
            },
            "files": files,
            "warnings": progress.warnings(),
        })
    }

    /// Prints a summary on stderr, and returns the outcome: failed where a row or a file was not answered.
    fn note(&self, report: &Report, progress: &Progress) -> Outcome {
        let Report { summary, shares, novelty, guarantee, files } = report;
        for LevelShares { alpha, size, empty } in shares {
            progress.note(&format!(
                "{} rows at alpha {alpha}: {size:.2} labels per set, {:.1} % empty; guarantee: {guarantee}",
                summary.rows,
                100.0 * empty
            ));
        }
        if self.novelty.is_some() && !novelty.beyond_chance {
            progress.note(&novelty.text);
        }
        if let Some(FileCounts { answered, before, failed }) = files {
            let before = if *before > 0 { format!(", {before} skipped") } else { String::new() };
            progress.note(&format!("{answered} files answered{before}, {} failed", failed.len()));
            if !failed.is_empty() {
                return Outcome::CheckFailed;
            }
        }
        if summary.bad > 0 {
            let problem = if self.embeds() { "inputs could not be embedded" } else { "rows were invalid" };
            progress.warn(&format!("{} {problem}; their answers give the reasons", summary.bad));
            return Outcome::CheckFailed;
        }
        Outcome::Fine
    }

    /// Refuses `--adapt` for several levels and for anything but JSON lines.
    fn check_adapting(&self) -> anyhow::Result<()> {
        if self.adapt.is_some() && self.alpha.as_ref().is_some_and(|alphas| alphas.0.len() > 1) {
            bail!("--adapt needs one level; give one with --alpha");
        }
        if self.adapt.is_some() && (self.embeds() || self.data.len() > 1 || !self.streams()) {
            bail!("--adapt needs JSON lines, and {} has another format", self.data().display());
        }
        Ok(())
    }

    /// Returns the adaptive level; `None` without `--adapt`.
    fn adapting(&self, alpha: f64) -> anyhow::Result<Option<Adapting>> {
        let Some(adapt) = self.adapt else { return Ok(None) };
        let empty = self.empty.to_possible_value().map_or(String::new(), |word| word.get_name().into());
        let settings = Settings { model: self.model_hash()?, alpha, adapt, empty };
        Adapting::new(settings, self.state.as_deref()).map(Some)
    }

    /// Warns if the model has too few calibration points to flag any row at the level of `--novelty`.
    fn check_novelty(&self, model: &Dance, progress: &Progress) {
        let (Some(level), points) = (self.novelty, model.novelty_points()) else { return };
        let least = smallest_alpha(points);
        if level < least {
            progress.warn(&format!(
                "--novelty {level}: {points} calibration points need a level of at least {least:.3e}; no row is flagged"
            ));
        }
    }

    /// Returns the name of the data for messages.
    fn data(&self) -> &Path {
        self.data.first().map_or(Path::new("-"), PathBuf::as_path)
    }

    /// Returns whether pictures or texts are embedded first.
    #[cfg_attr(not(feature = "embed"), allow(clippy::unused_self))] // without the feature there is no such option
    fn embeds(&self) -> bool {
        #[cfg(feature = "embed")]
        return self.embedding.embed;
        #[cfg(not(feature = "embed"))]
        false
    }

    /// Returns whether DATA is JSON lines, which are answered as they arrive. Stdin is, unless `--format` names another
    /// format.
    fn streams(&self) -> bool {
        if self.embeds() {
            return false;
        }
        let by_name =
            if self.data() == Path::new("-") { Some(files::Format::Jsonl) } else { files::Format::of(self.data()) };
        self.columns().format.or(by_name) == Some(files::Format::Jsonl)
    }

    /// Refuses wrong options and files before anything is read, and returns the output.
    fn check(&self, shared: &Shared) -> anyhow::Result<Destination> {
        let destination = Destination::new(&self.output)?;
        if self.reports() {
            self.check_reports(&destination)?;
        }
        check_there(&self.model)?;
        check_there(self.data())?;
        if !self.streams() && !self.embeds() {
            self.columns().format_of(self.data())?;
        }
        let inputs = [Some(&*self.model), Some(self.data()), shared.config.as_deref()];
        let output = match &destination {
            Destination::File(path, _) => Some(&**path),
            Destination::Stdout => None,
        };
        path_conflicts::check(&inputs, &[output, self.state.as_deref()])?;
        Ok(destination)
    }

    /// Refuses `--on-error report` for formats that cannot report invalid rows.
    fn check_reports(&self, destination: &Destination) -> anyhow::Result<()> {
        let format = self.columns().format.or_else(|| files::Format::of(self.data()));
        if !self.embeds() && !self.streams() && format != Some(files::Format::Parquet) {
            bail!(
                "--on-error report is for JSON lines and Parquet; other files such as {} are read as a whole",
                self.data().display()
            );
        }
        let is_possible = match destination {
            Destination::Stdout | Destination::File(_, Format::Jsonl) => true,
            Destination::File(_, Format::Csv | Format::Parquet) => !self.embeds(),
            Destination::File(_, Format::Npz) => false,
        };
        if !is_possible {
            let formats = if self.embeds() { ".jsonl or `-`" } else { ".jsonl, .csv, .parquet or `-`" };
            bail!("{}: --on-error report needs an output in {formats}", self.output.display());
        }
        Ok(())
    }

    fn bulk<'b, 'a>(&'b self, answers: &'b Answers<'a>, progress: &'b Progress) -> Bulk<'b, 'a> {
        Bulk { answers, columns: self.columns(), progress, reports: self.reports() }
    }

    /// Returns whether an invalid row is answered with the reason.
    fn reports(&self) -> bool {
        self.on_error == OnError::Report
    }
}
