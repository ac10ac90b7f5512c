//! `dance monitor`: alarms if the distribution of a stream changes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{class_ids, io as files};
use dance::model::{Alarm, Monitor, StreamPart};
use dance::whole_file::{self, WholeFile};
use dance::{Dance, Matrix};
use dance_page::terminal;
use serde_json::json;

use super::Outcome;
use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabelColumns, Truth, check_there};
use crate::json_lines::{Next, Points};
use crate::parse;
use crate::path_conflicts;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  tail -F points.jsonl | dance monitor model.dance --exit-on-alarm
  dance monitor model.dance today.npz --with-labels --state monitor.json

Reads points in the order of their arrival: JSON lines on stdin, or a file. An alarm for the
inputs means that new points have another distribution than the calibration points. With
--with-labels, which needs a label for every point, an alarm for the labels means that labels depend
on points in another way than before. While nothing changes, the probability of any alarm in the
whole run is at most --false-alarm, however long the run. This needs calibration points that are a
random draw of the stream and not in it.

--state FILE is read where it exists and written after every batch, so that the next run
continues. Exit status: 0 with or without an alarm; with --exit-on-alarm, 1 at the first alarm.";

/// The longest state in bytes: 25 million points.
const LONGEST_STATE: u64 = 1 << 30;

#[derive(Args, Debug)]
pub(crate) struct MonitorStream {
    /// Model written by `dance fit`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings in the order of their arrival; `-` is stdin, in JSON lines without --format
    #[arg(value_name = "DATA", default_value = "-")]
    data: PathBuf,
    /// Monitor labels too; every line needs a `label`
    #[arg(long)]
    with_labels: bool,
    /// Probability of any alarm in the whole run while nothing changes
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = parse::alpha, allow_hyphen_values = true)]
    false_alarm: f64,
    /// State between runs
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Stop at the first alarm, with exit status 1
    #[arg(long)]
    exit_on_alarm: bool,
    #[command(flatten)]
    files: LabelColumns,
    #[command(flatten)]
    format: FileFormat,
}

impl MonitorStream {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&self.format)
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        check_there(&self.model)?;
        check_there(&self.data)?;
        let inputs = [Some(&*self.model), Some(&*self.data), shared.config.as_deref()];
        path_conflicts::check(&inputs, &[self.state.as_deref()])?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let mut monitor =
            Monitor::new(&model, shared.device()?, self.with_labels, self.false_alarm, shared.seed, &context)?;
        if let Some(path) = self.state.as_deref().filter(|path| path.exists()) {
            let text = whole_file::read(path, LONGEST_STATE)?;
            monitor = monitor.resume(&text).with_context(|| path.display().to_string())?;
        }
        // An alarm of a run before this one is still an alarm.
        let mut alarmed = !monitor.alarms().is_empty();
        if !(alarmed && self.exit_on_alarm) {
            let mut take = |points: &Matrix, labels: &[Option<Option<u32>>]| -> anyhow::Result<bool> {
                let alarms = monitor.watch(points, labels, &context)?;
                if let Some(path) = &self.state {
                    WholeFile::write(path, monitor.state()?.as_bytes())?;
                }
                for alarm in &alarms {
                    print_alarm(alarm, shared.json, &progress)?;
                }
                alarmed |= !alarms.is_empty();
                Ok(alarms.is_empty() || !self.exit_on_alarm)
            };
            if self.streams() {
                self.stream(&model, &mut take)?;
            } else {
                self.table(&model, &progress, &mut take)?;
            }
        }
        self.report(&monitor, shared, &progress)?;
        Ok(if alarmed && self.exit_on_alarm { Outcome::CheckFailed } else { Outcome::Fine })
    }

    /// Returns whether DATA is JSON lines, which are read as they arrive. Stdin is, unless `--format` names another
    /// format.
    fn streams(&self) -> bool {
        let by_name =
            if self.data == Path::new("-") { Some(files::Format::Jsonl) } else { files::Format::of(&self.data) };
        self.columns().format.or(by_name) == Some(files::Format::Jsonl)
    }

    fn stream(&self, model: &Dance, take: Taker<'_>) -> anyhow::Result<()> {
        let (input, name): (Box<dyn Read>, String) = if self.data == Path::new("-") {
            (Box::new(io::stdin().lock()), "stdin".into())
        } else {
            let name = self.data.display().to_string();
            (Box::new(File::open(&self.data).with_context(|| name.clone())?), name)
        };
        let mut points = Points::new(input, name.clone(), self.columns().options(), model.fitted().point_shape());
        let known = class_ids(model.classes());
        loop {
            match points.next()? {
                Next::Points(group) => {
                    if let Some(place) = group.labels.iter().position(Option::is_none).filter(|_| self.with_labels) {
                        bail!("{name}: line {}: no label, which --with-labels needs", group.lines[place]);
                    }
                    let labels =
                        group.labels.iter().map(|label| label.as_ref().map(|label| known.get(label.as_str()).copied()));
                    if !take(&group.points, &labels.collect::<Vec<_>>())? {
                        return Ok(());
                    }
                }
                Next::Invalid(refusal) => {
                    bail!("{name}: line {}: {}", refusal.line.unwrap_or_default(), refusal.error)
                }
                Next::Label(label) => bail!("{name}: line {}: no embedding", label.line),
                Next::End => return Ok(()),
            }
        }
    }

    fn table(&self, model: &Dance, progress: &Progress, take: Taker<'_>) -> anyhow::Result<()> {
        let named = || self.data.display().to_string();
        if !self.with_labels {
            take(self.columns().points_for(&self.data, model)?.embeddings(), &[]).with_context(named)?;
            return Ok(());
        }
        let table = self.columns().table_for(&self.data, model, None, 0, progress)?;
        let truth = Truth::new(model, &table)?;
        let known = |&label: &u32| Some(Some(label).filter(|&label| (label as usize) < model.classes().len()));
        take(table.embeddings(), &truth.labels.iter().map(known).collect::<Vec<_>>()).with_context(named)?;
        Ok(())
    }

    fn report(&self, monitor: &Monitor<&Dance>, shared: &Shared, progress: &Progress) -> anyhow::Result<()> {
        let mut out = terminal::stdout(shared.json);
        let capital = monitor.capital();
        if shared.json {
            let capital = capital
                .iter()
                .map(|(watched, now, largest)| json!({ "watched": watched, "capital": now, "largest": largest }));
            let report = json!({
                "points": monitor.points(),
                "false_alarm": self.false_alarm,
                "bound": monitor.bound(),
                "capital": capital.collect::<Vec<_>>(),
                "alarms": monitor.alarms(),
                "warnings": progress.warnings(),
            });
            writeln!(out, "{report}")?;
            return Ok(());
        }
        let points = monitor.points();
        for (watched, now, largest) in capital {
            let alarm = monitor.alarms().iter().find(|alarm| alarm.watched == watched);
            let verdict = match alarm {
                Some(alarm) => format!("changed: alarm at point {}", alarm.row),
                None => "no sign of a change".into(),
            };
            writeln!(
                out,
                "{}: {verdict} ({points} points; test statistic {}, largest {}, alarm at {:.0})",
                word(watched),
                number(now),
                number(largest),
                monitor.bound()
            )?;
        }
        Ok(())
    }
}

/// Returns a number in few characters.
fn number(value: f64) -> String {
    if value < 1e6 { format!("{value:.3}") } else { format!("{value:.1e}") }
}

/// A function that takes points with their labels, where those are known, and returns whether to continue.
type Taker<'t> = &'t mut dyn FnMut(&Matrix, &[Option<Option<u32>>]) -> anyhow::Result<bool>;

fn word(watched: StreamPart) -> &'static str {
    match watched {
        StreamPart::Inputs => "inputs",
        StreamPart::Labels => "labels",
    }
}

/// Prints an alarm at once.
fn print_alarm(alarm: &Alarm, json: bool, progress: &Progress) -> anyhow::Result<()> {
    if json {
        writeln!(io::stdout(), "{}", json!({ "alarm": alarm.watched, "row": alarm.row }))?;
        io::stdout().flush()?;
    } else {
        progress.warn(&format!("{} have changed: alarm at point {} (counted from 0)", word(alarm.watched), alarm.row));
    }
    Ok(())
}
