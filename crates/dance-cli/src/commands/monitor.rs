//! `dance monitor`: has the stream changed?

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use dance::data::{Classes, io as files};
use dance::model::{Alarm, Monitor, Watched};
use dance::whole_file::{self, WholeFile};
use dance::{Dance, Matrix};
use dance_page::terminal;
use serde_json::json;

use super::Outcome;
use crate::args::Shared;
use crate::data::{Columns, Truth, check_there};
use crate::parse;
use crate::places;
use crate::progress::Progress;
use crate::stream::{Next, Points};

pub(crate) const EXAMPLE: &str = "Example:
  tail -F points.jsonl | dance monitor model.dance --exit-on-alarm
  dance monitor model.dance today.npz --labelled --state monitor.json

Points in the order in which they came: JSON lines on stdin, or a file. An alarm says that points no longer come from where the
calibration points came from; with --labelled, which wants a label for every point, also that labels no longer follow the
points as they did. While nothing changes, the probability of an alarm in the whole run, however long, is at most --false-alarm.
Calibration points must be a random draw of what comes, and none of them may be in the stream.

--state FILE is read where it exists and written after every batch: the run goes on where it stood.
Exit status: 0 whether or not there was an alarm; with --exit-on-alarm 1 at once when there is one.";

/// Longest state: 25 million points.
const LONGEST_STATE: u64 = 1 << 30;

#[derive(Args, Debug)]
pub(crate) struct MonitorStream {
    /// A model that `dance fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Embeddings in the order in which they came; `-` is stdin, JSON lines unless --format says otherwise
    #[arg(value_name = "DATA", default_value = "-")]
    data: PathBuf,
    #[command(flatten)]
    columns: Columns,
    /// Watch labels too: lines have a `label`
    #[arg(long)]
    labelled: bool,
    /// Probability of an alarm, ever, while nothing changes
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = parse::alpha, allow_hyphen_values = true)]
    false_alarm: f64,
    /// Where the run is kept, to go on from
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Stop at an alarm, with exit status 1
    #[arg(long)]
    exit_on_alarm: bool,
}

impl MonitorStream {
    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<Outcome> {
        check_there(&self.model)?;
        check_there(&self.data)?;
        let inputs = [Some(&*self.model), Some(&*self.data), shared.config.as_deref()];
        places::check(&inputs, &[self.state.as_deref()])?;
        let progress = Progress::new(shared);
        let context = shared.context(&progress)?;
        let model = Dance::load(shared.device()?, &self.model, &context)?;
        let mut monitor =
            Monitor::new(&model, shared.device()?, self.labelled, self.false_alarm, shared.seed, &context)?;
        if let Some(path) = self.state.as_deref().filter(|path| path.exists()) {
            let text = whole_file::read(path, LONGEST_STATE)?;
            let state = serde_json::from_slice(&text).with_context(|| {
                format!("{}: not the state of a monitor; delete it to begin anew", path.display())
            })?;
            monitor = monitor.resume(state).with_context(|| path.display().to_string())?;
        }
        // An alarm of a run before this one is still an alarm.
        let mut alarmed = !monitor.alarms().is_empty();
        if !(alarmed && self.exit_on_alarm) {
            let mut take = |points: &Matrix, labels: &[Option<Option<u32>>]| -> anyhow::Result<bool> {
                let alarms = monitor.watch(points, labels, &context)?;
                if let Some(path) = &self.state {
                    WholeFile::write(path, serde_json::to_string(&monitor.state())?.as_bytes())?;
                }
                for alarm in &alarms {
                    tell(alarm, shared.json, &progress)?;
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

    /// Whether DATA is JSON lines, which are taken up as they come; stdin is, unless something else is said.
    fn streams(&self) -> bool {
        let by_name = if self.data == Path::new("-") {
            Some(files::Format::Jsonl)
        } else {
            files::Format::of(&self.data)
        };
        self.columns.format.or(by_name) == Some(files::Format::Jsonl)
    }

    fn stream(&self, model: &Dance, take: Taker<'_>) -> anyhow::Result<()> {
        let (input, name): (Box<dyn Read>, String) = if self.data == Path::new("-") {
            (Box::new(io::stdin().lock()), "stdin".into())
        } else {
            let name = self.data.display().to_string();
            (Box::new(File::open(&self.data).with_context(|| name.clone())?), name)
        };
        let mut points = Points::new(input, name.clone(), self.columns.keys(), model.fitted().point_shape());
        let known = Classes::new(model.classes());
        loop {
            match points.next()? {
                Next::Points(group) => {
                    if let Some(place) =
                        group.labels.iter().position(Option::is_none).filter(|_| self.labelled)
                    {
                        bail!("{name}: line {}: no label, and --labelled watches them", group.lines[place]);
                    }
                    let labels = group.labels.iter().map(|label| label.as_ref().map(|label| known.id(label)));
                    if !take(&group.points, &labels.collect::<Vec<_>>())? {
                        return Ok(());
                    }
                }
                Next::Bad(bad) => bail!("{name}: line {}: {}", bad.line.unwrap_or_default(), bad.error),
                Next::Told(told) => bail!("{name}: line {}: no embedding", told.line),
                Next::End => return Ok(()),
            }
        }
    }

    fn table(&self, model: &Dance, progress: &Progress, take: Taker<'_>) -> anyhow::Result<()> {
        let named = || self.data.display().to_string();
        if !self.labelled {
            take(self.columns.points_for(&self.data, model)?.embeddings(), &[]).with_context(named)?;
            return Ok(());
        }
        let table = self.columns.table_for(&self.data, model, None, 0, progress)?;
        let truth = Truth::new(model, &table)?;
        let known =
            |&label: &u32| Some(Some(label).filter(|&label| (label as usize) < model.classes().len()));
        take(table.embeddings(), &truth.labels.iter().map(known).collect::<Vec<_>>()).with_context(named)?;
        Ok(())
    }

    fn report(&self, monitor: &Monitor<&Dance>, shared: &Shared, progress: &Progress) -> anyhow::Result<()> {
        let mut out = terminal::stdout(shared.json);
        let capital = monitor.capital();
        if shared.json {
            let of = |&(watched, now, largest): &(Watched, f64, f64)| json!({ "watched": watched, "capital": now, "largest": largest });
            let report = json!({
                "points": monitor.points(),
                "false_alarm": self.false_alarm,
                "bound": monitor.bound(),
                "capital": capital.iter().map(of).collect::<Vec<_>>(),
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
                "{}: {verdict} ({points} points; evidence {}, at most {}, an alarm at {:.0})",
                word(watched),
                number(now),
                number(largest),
                monitor.bound()
            )?;
        }
        Ok(())
    }
}

/// Short, however large.
fn number(value: f64) -> String {
    if value < 1e6 { format!("{value:.3}") } else { format!("{value:.1e}") }
}

/// Takes up points with their labels, where those are known; returns whether to go on.
type Taker<'t> = &'t mut dyn FnMut(&Matrix, &[Option<Option<u32>>]) -> anyhow::Result<bool>;

fn word(watched: Watched) -> &'static str {
    match watched {
        Watched::Inputs => "inputs",
        Watched::Labels => "labels",
    }
}

/// Says at once that there is an alarm.
fn tell(alarm: &Alarm, json: bool, progress: &Progress) -> anyhow::Result<()> {
    if json {
        writeln!(io::stdout(), "{}", json!({ "alarm": alarm.watched, "row": alarm.row }))?;
        io::stdout().flush()?;
    } else {
        progress.warn(&format!(
            "{} have changed: alarm at point {} (counted from 0)",
            word(alarm.watched),
            alarm.row
        ));
    }
    Ok(())
}
