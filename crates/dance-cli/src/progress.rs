//! Progress on stderr: a bar on a terminal, nothing in a pipe, and warnings unless `--quiet` is given. Warnings and the
//! trace of the search are kept for reports.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dance::{Evaluation, Event, Observer, shortened};
use dance_page::text::escape_controls;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Shared;
use dance_page::terminal::Terminal;

/// Prints a line on stderr. A closed stderr is not an error.
pub(crate) fn print_line(text: &str) {
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
        Self { bar, verbose: shared.verbose, quiet: shared.quiet, warnings: Mutex::default(), trace: Mutex::default() }
    }

    /// Prints a line, unless `--quiet` is given.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.print(text);
        }
    }

    /// Prints a line if `--verbose` is given.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.print(text);
        }
    }

    /// Prints a warning, unless `--quiet` is given, and keeps it for reports.
    pub(crate) fn warn(&self, text: &str) {
        self.note(&format!("warning: {text}"));
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// Shows a step without a length.
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

    /// Returns the warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the settings that the search has tried so far.
    pub(crate) fn trace(&self) -> Vec<Evaluation> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows a step with a length; `numbers` is the template of the counts.
    fn count(&self, step: &str, done: u64, of: u64, numbers: &str) {
        if let Ok(style) = ProgressStyle::with_template(&format!("{{msg}} {{bar:30}} {numbers}  {{eta}} left")) {
            self.bar.set_style(style);
        }
        self.bar.set_message(step.to_owned());
        self.bar.set_length(of);
        self.bar.set_position(done);
    }

    fn print(&self, text: &str) {
        if self.bar.is_hidden() {
            print_line(text);
        } else {
            self.bar.println(escape_controls(&shortened(text)));
        }
    }
}

/// Shows events of the library on the bar, and prints warnings and, with `--verbose`, details.
impl Observer for Progress {
    fn notice(&self, event: &Event) {
        match event {
            // The search for settings.
            Event::SearchBegins { evaluations, points, of } => {
                let sample = if points < of { format!("{points} of {of} points") } else { format!("{of} points") };
                self.count(&format!("searching on {sample}"), 0, *evaluations as u64, "{pos}/{len}");
                self.bar.tick();
            }
            Event::Evaluated(trial) => {
                self.bar.inc(1);
                self.trace.lock().unwrap_or_else(PoisonError::into_inner).push(*trial);
                self.detail(&format!(
                    "tried bandwidth {:.3}, shape {:.3} on {} points: accuracy {:.4} after {} rounds ({:.2} s)",
                    trial.bandwidth, trial.shape, trial.points, trial.quality.accuracy, trial.rounds, trial.seconds
                ));
            }
            Event::Confirming { candidates } => {
                self.bar.set_length(self.bar.position() + *candidates as u64);
                self.bar.set_message("confirming on all points");
            }
            Event::Refitting { points } => self.bar.set_message(format!("fitting all {points} points")),
            // Steps with a length.
            Event::Answered { done, of } => {
                let step = self.bar.message();
                self.count(&step, *done as u64, *of as u64, "{pos}/{len} points");
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
            // Lines.
            Event::Warning(text) => self.warn(text),
            Event::Memory { bytes } => {
                self.detail(&format!("the fit needs up to {} of memory", dance::human_bytes(*bytes)));
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
