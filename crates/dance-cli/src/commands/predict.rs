//! `dance predict`: a prediction set for every row.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use dance::Dance;
use dance::data::io as files;
use dance::scores::EmptySets;
use dance::scores::threshold::smallest_alpha;
use serde_json::json;

mod adapt;
#[cfg(feature = "embed")]
mod embedded;
mod lines;
mod many;

use self::adapt::{Adapting, Settings};
use super::Outcome;
use crate::answers::{Answers, Include, Summary};
use crate::args::Shared;
use crate::bulk::{Bulk, Ended};
use crate::data::{Columns, check_there};
#[cfg(feature = "embed")]
use crate::encoding::OnTheFly;
use crate::output::{Destination, Format};
use crate::parse::{self, Alphas};
use crate::places;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = r#"Example:
  dance predict model.dance new.npz -o sets.parquet --alpha 0.05 --include probabilities,p-values
  echo '{"id": "a", "embedding": [0.1, …]}' | dance predict model.dance - -o -
  dance predict model.dance --images new/ -o sets.jsonl
  dance predict model.dance parts/ -o sets/ --resume

  zcat points.csv.gz | dance predict model.dance /dev/stdin --format csv -o sets.csv --alpha 0.1,0.05

Parquet is read and written in constant memory. Of a folder, a pattern or several names every file gets an output file of its own (Parquet,
unless -o 'sets/*.jsonl' says otherwise); one that cannot be read is told, the others go on, and the exit status is 1.

A row of .jsonl: {"row":0,"id":"a","prediction":"cat","probability":0.93,"set":["cat","fox"],"alpha":0.05,"novelty":0.41}
With --adapt RATE --state FILE the level goes on where the run before stopped; sets that wait for a label wait on.
`novelty` is a p-value for coming from where the calibration points come from, whatever the label; --novelty 0.01 adds `novel`.
With several levels each row has an answer for each, side by side. Labels and ids are numbers where they were numbers.
With --on-error report, a line of JSON lines that is no point is answered by {"row":17,"line":18,"error":…}, and so is a row of Parquet that is
null, has a null, NaN or another number of dimensions; in .parquet and .csv it has no answer and a column `error` says why. An answer has
an `id` if its line has.
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
    /// Embeddings; `-` is stdin. JSON lines (.jsonl, and `-` unless --format says otherwise) are answered one by one. Of a folder, a
    /// pattern or several names, every file is answered by itself
    #[arg(value_name = "DATA")]
    #[cfg_attr(feature = "embed", arg(required_unless_present_any = ["images", "texts"]))]
    #[cfg_attr(not(feature = "embed"), arg(required = true))]
    data: Vec<PathBuf>,
    /// Where sets go: .jsonl, .csv, .parquet, .npz; `-` is stdout. Of many files a folder (`sets`, 'sets/*.jsonl')
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Error levels: a set misses the true label in about this share of cases
    #[arg(long, value_name = "LEVEL,…", default_value = "0.1", value_parser = parse::alphas, allow_hyphen_values = true)]
    alpha: Alphas,
    /// Flag rows that are unlike anything seen (`novel`), with this share of false alarms
    #[arg(long, value_name = "LEVEL", value_parser = parse::alpha, allow_hyphen_values = true)]
    novelty: Option<f64>,
    /// Let the level follow what labels say, by this much after each (0.01, say): in the long run sets miss as many labels as asked for, whatever
    /// comes. JSON lines alone; a label is in the line of its point, or comes later as {"id": …, "label": …}
    #[arg(long, value_name = "RATE", value_parser = parse::alpha, allow_hyphen_values = true)]
    adapt: Option<f64>,
    /// Where the run of --adapt is kept, to go on from the next day: read where it exists, and written with the answers
    #[arg(long, value_name = "FILE", requires = "adapt")]
    state: Option<PathBuf>,
    /// What to add to each row
    #[arg(long, value_name = "WHAT,…", value_enum, value_delimiter = ',')]
    include: Vec<Include>,
    /// What becomes of a row (of Parquet or JSON lines) that is no point
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "HOW")]
    on_error: OnError,
    /// Of many files: leave those that a run before has answered, with the same model and options
    #[arg(long)]
    resume: bool,
    /// What becomes of empty sets
    #[arg(long, value_enum, default_value_t = Empty::Keep, value_name = "HOW")]
    empty: Empty,
    #[cfg(feature = "embed")]
    #[command(flatten)]
    embedding: OnTheFly,
}

/// What a row gets that is no point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// The end. On stdout, what came before it is answered; a file is not written
    Stop,
    /// An answer that says what is wrong; the others go on, and the exit status is 1
    Report,
}

impl Predict {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        let plan = self.plan(shared)?;
        self.check_adapting()?;
        let destination = if plan.is_some() { None } else { Some(self.check(shared)?) };
        let mut adapting = self.adapting()?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let empty = if self.empty == Empty::Top1 { EmptySets::Top1 } else { EmptySets::Keep };
        let answers =
            Answers::new(&model, &self.alpha.0, &self.include, empty, &context)?.flagging(self.novelty);
        for warning in answers.warnings() {
            progress.warn(&warning);
        }
        self.check_novelty(&model, &progress);
        let (mut summary, mut ended) = (Summary::new(&self.alpha, self.novelty), None);
        match (&plan, &destination) {
            (Some(plan), _) => {
                let bulk = self.bulk(&answers, &progress);
                ended = Some(bulk.files(plan, &self.options()?, self.resume, &mut summary)?);
            }
            #[cfg(feature = "embed")]
            (None, Some(destination)) if self.embeds() => {
                progress.begin("predicting");
                summary = self.embedded(&answers, destination, shared.device, &progress)?;
            }
            (None, Some(destination)) if self.streams() => {
                summary = self.stream(&answers, destination, &mut adapting)?;
            }
            (None, Some(destination)) => {
                progress.begin("predicting");
                summary = self.table(&answers, destination, &progress)?;
            }
            (None, None) => {}
        }
        progress.finish();
        let shares = summary.shares();
        let guarantee = adapting.as_ref().map_or_else(|| model.guarantee(), Adapting::guarantee);
        let novel = summary.novel(model.predictor().novelty_points());
        if let Some((words, true)) = &novel {
            progress.warn(words);
        }
        if shared.json && destination != Some(Destination::Stdout) {
            let mut report = json!({
                "output": self.output.display().to_string(),
                "rows": summary.rows,
                "bad_rows": summary.bad,
                "guarantee": guarantee,
                "novelty": { "level": summary.novel.0, "rows": summary.novel.1, "beyond_chance": novel.as_ref().map(|found| found.1) },
                "warnings": progress.warnings(),
            });
            if let Some(Ended { answered, before, failed }) = &ended {
                let failed = failed
                    .iter()
                    .map(|(file, error)| json!({ "file": file.display().to_string(), "error": error }));
                report["files"] =
                    json!({ "answered": answered, "before": before, "failed": failed.collect::<Vec<_>>() });
            }
            let level = |&(alpha, size, empty)| json!({ "alpha": alpha, "size": size, "empty": empty });
            if let ([only], Some(report)) = (&shares[..], report.as_object_mut()) {
                report.extend(level(only).as_object().cloned().unwrap_or_default());
            } else {
                report["levels"] = shares.iter().map(level).collect();
            }
            writeln!(io::stdout(), "{report}")?;
        }
        for (alpha, size, empty) in shares {
            progress.note(&format!(
                "{} rows at alpha {alpha}: {size:.2} labels a set, {:.1} % empty; guarantee: {guarantee}",
                summary.rows,
                100.0 * empty
            ));
        }
        if let (Some(_), Some((words, false))) = (self.novelty, novel) {
            progress.note(&words);
        }
        if let Some(Ended { answered, before, failed }) = &ended {
            let before = if *before > 0 { format!(", {before} were there") } else { String::new() };
            progress.note(&format!("{answered} files answered{before}, {} failed", failed.len()));
            if !failed.is_empty() {
                return Ok(Outcome::CheckFailed);
            }
        }
        if summary.bad > 0 {
            let what = if self.embeds() { "could not be embedded" } else { "rows were no points" };
            progress.warn(&format!("{} {what}; their answers say why", summary.bad));
            return Ok(Outcome::CheckFailed);
        }
        Ok(Outcome::Fine)
    }

    /// Refuses what no level can follow.
    fn check_adapting(&self) -> anyhow::Result<()> {
        if self.adapt.is_some() && self.alpha.0.len() > 1 {
            bail!("--adapt follows one level; give one with --alpha");
        }
        if self.adapt.is_some() && (self.embeds() || self.data.len() > 1 || !self.streams()) {
            bail!(
                "--adapt answers JSON lines one after the other; {} is no such file",
                self.data().display()
            );
        }
        Ok(())
    }

    /// The level that follows labels, where one is asked for.
    fn adapting(&self) -> anyhow::Result<Option<Adapting>> {
        let (Some(adapt), [alpha]) = (self.adapt, &self.alpha.0[..]) else { return Ok(None) };
        let empty = self.empty.to_possible_value().map_or(String::new(), |word| word.get_name().into());
        let settings = Settings { model: self.model_hash()?, alpha: *alpha, adapt, empty };
        Adapting::new(settings, self.state.as_deref()).map(Some)
    }

    /// Says what a level of false alarms cannot do for this model.
    fn check_novelty(&self, model: &Dance, progress: &Progress) {
        let (Some(level), points) = (self.novelty, model.predictor().novelty_points()) else { return };
        if points == 0 {
            progress.warn(
                "this model file is from before novelty, and its calibration points are not kept; no row can be flagged: calibrate again",
            );
        } else if level < smallest_alpha(points) {
            let least = smallest_alpha(points);
            progress.warn(&format!("{points} calibration points support no level of novelty below {least:.3e}: no row can be flagged"));
        }
    }

    /// What is answered, as the user called it.
    fn data(&self) -> &Path {
        #[cfg(feature = "embed")]
        if let Some((source, _)) = self.embedding.source() {
            return source;
        }
        self.data.first().map_or(Path::new("-"), PathBuf::as_path)
    }

    /// Whether pictures or texts are embedded first.
    fn embeds(&self) -> bool {
        self.data.is_empty()
    }

    /// Whether DATA is JSON lines, which are answered as they come; stdin is, unless something else is said.
    fn streams(&self) -> bool {
        if self.embeds() {
            return false;
        }
        let by_name = if self.data() == Path::new("-") {
            Some(files::Format::Jsonl)
        } else {
            files::Format::of(self.data())
        };
        self.columns.format.or(by_name) == Some(files::Format::Jsonl)
    }

    fn check(&self, shared: &Shared) -> anyhow::Result<Destination> {
        let destination = Destination::new(&self.output)?;
        if self.reports() {
            self.check_reports(&destination)?;
        }
        check_there(&self.model)?;
        check_there(self.data())?;
        if !self.streams() && !self.embeds() {
            self.columns.format_of(self.data())?;
        }
        let inputs = [Some(&*self.model), Some(self.data()), shared.config.as_deref()];
        let output = match &destination {
            Destination::File(path, _) => Some(&**path),
            Destination::Stdout => None,
        };
        places::check(&inputs, &[output, self.state.as_deref()])?;
        Ok(destination)
    }

    /// Whether there is a place for what is wrong with a row.
    fn check_reports(&self, destination: &Destination) -> anyhow::Result<()> {
        let format = self.columns.format.or_else(|| files::Format::of(self.data()));
        if !self.embeds() && !self.streams() && format != Some(files::Format::Parquet) {
            bail!(
                "--on-error report is for JSON lines and Parquet; {} is read whole or not at all",
                self.data().display()
            );
        }
        let place = match destination {
            Destination::Stdout | Destination::File(_, Format::Jsonl) => true,
            Destination::File(_, Format::Csv | Format::Parquet) => !self.embeds(),
            Destination::File(_, Format::Npz) => false,
        };
        if !place {
            let where_to = if self.embeds() { ".jsonl or `-`" } else { ".jsonl, .csv, .parquet or `-`" };
            bail!("{}: what is wrong with a row is reported in {where_to}", self.output.display());
        }
        Ok(())
    }

    /// All rows of a file.
    fn table(
        &self,
        answers: &Answers<'_>,
        destination: &Destination,
        progress: &Progress,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::new(&self.alpha, self.novelty);
        self.bulk(answers, progress).file(self.data(), destination, &mut summary)?;
        Ok(summary)
    }

    fn bulk<'b, 'a>(&'b self, answers: &'b Answers<'a>, progress: &'b Progress) -> Bulk<'b, 'a> {
        Bulk { answers, columns: &self.columns, progress, reports: self.reports() }
    }

    /// Whether a row that is no point is answered with its reason.
    fn reports(&self) -> bool {
        self.on_error == OnError::Report
    }
}
