//! Has the world changed? The test martingales of `dance monitor` over the labels of the journal that came by chance.
//!
//! They may be looked at any number of times: while nothing changes, the probability of an alarm in the whole run is at most the one
//! asked for. A run is a model's: it is made of the labels that this very model file was asked about, in their order, each point once. So it
//! needs no file of its own: after a restart it follows from the journal, to the bit.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dance::data::Classes;
use dance::device::Device;
use dance::model::{Monitor, Watched};
use dance::{Context, Dance, Matrix};
use serde::Serialize;
use utoipa::ToSchema;

use crate::journal::{Entry, How, Journal, fingerprint};
use crate::served::Served;
use crate::telemetry;

/// Entries of a journal that are looked at together.
const BLOCK: usize = 1024;
/// A run is the same whenever it is made again.
const SEED: u64 = 0;

/// The model that is watched.
struct Model(Arc<Served>);

impl Deref for Model {
    type Target = Dance;

    fn deref(&self) -> &Dance {
        &self.0.model
    }
}

/// Watches the labels of the model that is served.
#[derive(Default)]
pub(crate) struct Watch {
    run: Mutex<Run>,
}

#[derive(Default)]
struct Run {
    monitor: Option<Monitor<Model>>,
    /// The model of the run.
    model: String,
    /// Why nothing is watched, where nothing is.
    failure: Option<String>,
    /// Points that were counted: a label that is corrected later is no other point.
    seen: HashSet<u64>,
    /// When an alarm was raised, in the order of the alarms.
    times: Vec<String>,
}

/// What has been seen of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Change {
    /// Points that came by chance and whose labels became known while this model was served.
    points: usize,
    /// The probability of an alarm in the whole run while nothing changes.
    false_alarm: f64,
    /// The capital that is an alarm.
    bound: f64,
    watched: Vec<Capital>,
    /// Why nothing is watched, where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// The capital of one who bets that something has changed: it grows while that is so.
#[derive(Serialize, ToSchema)]
struct Capital {
    /// `inputs`: points, whatever their labels. `labels`: the labels that points have, and with them coverage.
    #[schema(value_type = String)]
    what: Watched,
    now: f64,
    largest: f64,
    /// The point at which the capital reached the bound, from 0, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm: Option<Raised>,
}

/// An alarm.
#[derive(Serialize, ToSchema)]
struct Raised {
    point: usize,
    time: String,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up the run of a model, as far as the journal tells it; `serve` puts the model in its place meanwhile, and nothing is
    /// recorded.
    pub(crate) fn begin(
        &self,
        served: &Arc<Served>,
        journal: &Journal,
        false_alarm: f64,
        on: (&dyn Device, &Context<'_>),
        serve: impl FnOnce(),
    ) {
        let mut run = self.lock();
        serve();
        *run = Run { model: served.id.clone(), ..Run::default() };
        let open =
            |labelled| Monitor::new(Model(Arc::clone(served)), on.0, labelled, false_alarm, SEED, on.1);
        // Some models can only watch points: they do not keep what labels are compared with.
        match open(true).or_else(|_| open(false)) {
            Ok(monitor) => run.monitor = Some(monitor),
            Err(error) => run.failure = Some(error.to_string()),
        }
        let replayed = journal.replay(BLOCK, &mut |entries| run.take(entries, on.1));
        if let Err(error) = replayed {
            run.failure = Some(error);
        }
        run.count();
    }

    /// Takes up entries that `write` writes down, in the order in which they come to stand there.
    pub(crate) fn record(
        &self,
        entries: &[Entry<'_>],
        context: &Context<'_>,
        write: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut run = self.lock();
        write()?;
        let before = run.times.len();
        run.take(entries, context);
        for alarm in run.monitor.iter().flat_map(|monitor| &monitor.alarms()[before..]) {
            let what = telemetry::watched(alarm.watched);
            telemetry::event(
                "warning",
                &format!("{what} have changed: the monitor's alarm, at point {}", alarm.row),
            );
        }
        run.count();
        Ok(())
    }

    /// What has been seen.
    pub(crate) fn change(&self, false_alarm: f64) -> Change {
        let run = self.lock();
        let Some(monitor) = &run.monitor else {
            let failure = run.failure.clone();
            return Change { points: 0, false_alarm, bound: 1.0 / false_alarm, watched: Vec::new(), failure };
        };
        let raised = |what: Watched| {
            let place = monitor.alarms().iter().position(|alarm| alarm.watched == what)?;
            let time = run.times.get(place).cloned().unwrap_or_default();
            Some(Raised { point: monitor.alarms()[place].row, time })
        };
        let of = |(what, capital, largest): (Watched, f64, f64)| Capital {
            what,
            now: capital.min(f64::MAX),
            largest: largest.min(f64::MAX),
            alarm: raised(what),
        };
        Change {
            points: monitor.points(),
            false_alarm,
            bound: monitor.bound(),
            watched: monitor.capital().into_iter().map(of).collect(),
            failure: run.failure.clone(),
        }
    }
}

impl Run {
    /// Looks at those entries that belong to the run.
    fn take(&mut self, entries: &[Entry<'_>], context: &Context<'_>) {
        let Some(monitor) = &mut self.monitor else { return };
        let dimensions = monitor.model().fitted().dimensions();
        let own = |entry: &&Entry<'_>| {
            entry.how == How::Chance
                && entry.model == self.model
                && entry.embedding.len() == dimensions
                && self.seen.insert(fingerprint(&entry.embedding))
        };
        let own: Vec<&Entry<'_>> = entries.iter().filter(own).collect();
        if own.is_empty() {
            return;
        }
        let classes = Classes::new(monitor.model().classes());
        let labels: Vec<_> = own.iter().map(|entry| Some(classes.id(&entry.label))).collect();
        let values = own.iter().flat_map(|entry| entry.embedding.iter().copied()).collect();
        let first = monitor.points();
        let watched = Matrix::new(values, own.len(), dimensions)
            .and_then(|points| monitor.watch(&points, &labels, context));
        match watched {
            Ok(alarms) => {
                self.times.extend(alarms.iter().map(|alarm| own[alarm.row - first].time.to_string()));
            }
            // They were answered when they came, so this is no fault of theirs.
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// For Prometheus.
    fn count(&self) {
        let Some(monitor) = &self.monitor else { return };
        for (what, capital, _) in monitor.capital() {
            let alarm = monitor.alarms().iter().any(|alarm| alarm.watched == what);
            telemetry::monitor(what, monitor.points(), capital, alarm);
        }
    }
}
