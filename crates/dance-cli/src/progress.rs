//! Progress on stderr: a bar on a terminal, nothing in a pipe, warnings always.

use dance::observe::{Event, Observer};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Shared;

pub(crate) struct Progress {
    bar: ProgressBar,
    verbose: bool,
    quiet: bool,
}

impl Progress {
    pub(crate) fn new(shared: &Shared) -> Self {
        let bar = ProgressBar::hidden();
        if !shared.quiet {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Self { bar, verbose: shared.verbose, quiet: shared.quiet }
    }

    fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
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
                if self.verbose {
                    self.say(&format!(
                        "tried bandwidth {:.3}, shape {:.3} on {} points: accuracy {:.4} after {} rounds ({:.2} s)",
                        trial.bandwidth, trial.shape, trial.points, trial.score.accuracy, trial.rounds, trial.seconds
                    ));
                }
            }
            Event::Confirming { candidates } => {
                self.bar.set_length(self.bar.position() + *candidates as u64);
                self.bar.set_message("confirming on all points");
            }
            Event::Refitting { points } => self.bar.set_message(format!("fitting all {points} points")),
            Event::Warning(text) if !self.quiet => self.say(&format!("warning: {text}")),
            Event::Memory { bytes } if self.verbose => {
                self.say(&format!("the fit will take up to {} of memory", dance::error::human_bytes(*bytes)));
            }
            _ => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
