//! Progress on stderr: a bar on a terminal, nothing in a pipe, warnings always unless the user wants quiet. What happened
//! is kept for reports.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dance::{Evaluation, Event, Observer, shortened};
use dance_page::text::escape_controls;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Shared;
use dance_page::terminal::Terminal;

/// A line on stderr. Nobody may be left to read it, which is no reason to stop.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(Terminal(std::io::stderr()), "{}", shortened(text));
}

pub(crate) struct Progress {
    bar: ProgressBar,
    verbose: bool,
    quiet: bool,
    warnings: Mutex<Vec<String>>,
    trace: Mutex<Vec<Evaluation>>,
}

impl Progress {
    pub(crate) fn new(shared: &Shared) -> Self {
        let bar = ProgressBar::hidden();
        if !shared.quiet {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Self {
            bar,
            verbose: shared.verbose,
            quiet: shared.quiet,
            warnings: Mutex::default(),
            trace: Mutex::default(),
        }
    }

    /// Something that ran and did not need an answer.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.say(text);
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        self.note(&format!("warning: {text}"));
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// A step without a length.
    pub(crate) fn begin(&self, step: &str) {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            self.bar.set_style(style);
        }
        self.bar.set_message(step.to_owned());
        self.bar.enable_steady_tick(Duration::from_millis(150));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// What was warned of so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Settings tried so far.
    pub(crate) fn trace(&self) -> Vec<Evaluation> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// So many of so many, with what they are counted in.
    fn count(&self, step: &str, done: u64, of: u64, numbers: &str) {
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{msg}} {{bar:30}} {numbers}  {{eta}} left"))
        {
            self.bar.set_style(style);
        }
        self.bar.set_message(step.to_owned());
        self.bar.set_length(of);
        self.bar.set_position(done);
    }

    fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            tell(text);
        } else {
            self.bar.println(escape_controls(&shortened(text)));
        }
    }
}

impl Observer for Progress {
    fn notice(&self, event: &Event) {
        match event {
            Event::SearchBegins { evaluations, points, of } => {
                if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}  {eta} left") {
                    self.bar.set_style(style);
                }
                self.bar.set_length(*evaluations as u64);
                let sample =
                    if points < of { format!("{points} of {of} points") } else { format!("{of} points") };
                self.bar.set_message(format!("searching on {sample}"));
                self.bar.tick();
            }
            Event::Evaluated(trial) => {
                self.bar.inc(1);
                self.trace.lock().unwrap_or_else(PoisonError::into_inner).push(*trial);
                self.detail(&format!(
                    "tried bandwidth {:.3}, shape {:.3} on {} points: accuracy {:.4} after {} rounds ({:.2} s)",
                    trial.bandwidth,
                    trial.shape,
                    trial.points,
                    trial.quality.accuracy,
                    trial.rounds,
                    trial.seconds
                ));
            }
            Event::Confirming { candidates } => {
                self.bar.set_length(self.bar.position() + *candidates as u64);
                self.bar.set_message("confirming on all points");
            }
            Event::Refitting { points } => self.bar.set_message(format!("fitting all {points} points")),
            Event::Answered { done, of } => {
                if let Ok(style) =
                    ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} points  {eta} left")
                {
                    self.bar.set_style(style);
                }
                self.bar.set_length(*of as u64);
                self.bar.set_position(*done as u64);
            }
            Event::Embedded { done, of } => {
                self.count("embedding", *done as u64, *of as u64, "{pos}/{len}  {per_sec}");
            }
            Event::Fetching { file, done, of } => {
                self.count(
                    &format!("fetching {file}"),
                    *done,
                    of.unwrap_or(*done),
                    "{bytes}/{total_bytes}  {bytes_per_sec}",
                );
            }
            Event::Warning(text) => self.warn(text),
            Event::Memory { bytes } => {
                self.detail(&format!("the fit will take up to {} of memory", dance::human_bytes(*bytes)));
            }
            _ => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
