//! The change monitor: the test martingales of `dance monitor` over the random labels of the journal.
//!
//! While nothing changes, the probability that an alarm is ever raised is at most the one that was set, however often
//! one looks. A run of the monitor belongs to one model file: it has the labels that came while that file was served,
//! in their order, each point once. The journal has all of them, so a restart makes the same run again, to the bit.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dance::data::Classes;
use dance::device::Device;
use dance::model::{Monitor, StreamPart};
use dance::{Context, Dance, Matrix};
use serde::Serialize;
use utoipa::ToSchema;

use crate::journal::{Entry, Journal, Provenance, hash_of};
use crate::served::ServedModel;
use crate::settings::FALSE_ALARM;
use crate::telemetry;

/// The entries of a journal that are replayed together.
const BLOCK: usize = 1024;
/// The seed of every run, so that a run is the same after a restart.
const SEED: u64 = 0;

/// The model that is monitored.
struct Model(Arc<ServedModel>);

impl Deref for Model {
    type Target = Dance;

    fn deref(&self) -> &Dance {
        &self.0.model
    }
}

/// The change monitor of the served model.
#[derive(Default)]
pub(crate) struct ChangeMonitor {
    run: Mutex<Run>,
}

#[derive(Default)]
struct Run {
    monitor: Option<Monitor<Model>>,
    /// The hash of the model.
    model: String,
    /// The reason for which there is no monitor, or the last error of the monitor.
    failure: Option<String>,
    /// The hashes of the points of the run. A corrected label does not count again.
    points: HashSet<u64>,
    /// The times of the alarms, in their order.
    alarm_times: Vec<String>,
}

/// The evidence of a change in a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct Change {
    /// The number of random points whose labels became known while this model was served.
    points: usize,
    /// The probability of an alarm in the whole run while nothing changes.
    false_alarm: f64,
    /// The capital that raises an alarm.
    bound: f64,
    watched: Vec<Capital>,
    /// The reason for which there is no monitor, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// The capital of a bet on a change, which begins with 1 and grows while there is a change.
#[derive(Serialize, ToSchema)]
struct Capital {
    /// `inputs`: points, whatever their labels. `labels`: labels given their points, and with them coverage.
    #[schema(value_type = String)]
    what: StreamPart,
    now: f64,
    largest: f64,
    /// The alarm, if the capital has reached the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm: Option<Alarm>,
}

/// An alarm.
#[derive(Serialize, ToSchema)]
struct Alarm {
    /// The point of the run that raised it, from 0.
    point: usize,
    time: String,
}

impl ChangeMonitor {
    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the run of a model and replays the journal. `serve` puts the model into its slot; no label is recorded
    /// until the replay is done.
    pub(crate) fn begin(
        &self,
        served: &Arc<ServedModel>,
        journal: &Journal,
        on: (&dyn Device, &Context<'_>),
        serve: impl FnOnce(),
    ) {
        let mut run = self.lock();
        serve();
        *run = Run { model: served.name.hash.clone(), ..Run::default() };
        let open = |with_labels| Monitor::new(Model(Arc::clone(served)), on.0, with_labels, FALSE_ALARM, SEED, on.1);
        // With split calibration the model does not keep its calibration points, so only inputs are monitored.
        match open(true).or_else(|_| open(false)) {
            Ok(monitor) => run.monitor = Some(monitor),
            Err(error) => run.failure = Some(error.to_string()),
        }
        if let Err(error) = journal.replay(BLOCK, &mut |entries| run.add(entries, on.1)) {
            run.failure = Some(error);
        }
        run.export();
    }

    /// Writes entries by `write` and adds them to the run, in the same order as in the journal.
    pub(crate) fn record(
        &self,
        entries: &[Entry<'_>],
        context: &Context<'_>,
        write: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut run = self.lock();
        write()?;
        let before = run.alarm_times.len();
        run.add(entries, context);
        for alarm in run.monitor.iter().flat_map(|monitor| &monitor.alarms()[before..]) {
            let name = telemetry::martingale_name(alarm.watched);
            let text = format!("alarm of the change monitor: {name} have changed, at point {}", alarm.row);
            telemetry::event("warning", &text);
        }
        run.export();
        Ok(())
    }

    /// Returns the present state of the run.
    pub(crate) fn report(&self) -> Change {
        let false_alarm = FALSE_ALARM;
        let run = self.lock();
        let Some(monitor) = &run.monitor else {
            let failure = run.failure.clone();
            return Change { points: 0, false_alarm, bound: 1.0 / false_alarm, watched: Vec::new(), failure };
        };
        let alarm = |what: StreamPart| {
            let place = monitor.alarms().iter().position(|alarm| alarm.watched == what)?;
            let time = run.alarm_times.get(place).cloned().unwrap_or_default();
            Some(Alarm { point: monitor.alarms()[place].row, time })
        };
        // JSON has no infinity, so the capital is cut.
        let capital = |(what, now, largest): (StreamPart, f64, f64)| Capital {
            what,
            now: now.min(f64::MAX),
            largest: largest.min(f64::MAX),
            alarm: alarm(what),
        };
        Change {
            points: monitor.points(),
            false_alarm,
            bound: monitor.bound(),
            watched: monitor.capital().into_iter().map(capital).collect(),
            failure: run.failure.clone(),
        }
    }
}

impl Run {
    /// Adds those entries that belong to the run.
    fn add(&mut self, entries: &[Entry<'_>], context: &Context<'_>) {
        let Some(monitor) = &mut self.monitor else { return };
        let dimensions = monitor.model().fitted().dimensions();
        let belongs = |entry: &&Entry<'_>| {
            entry.provenance == Provenance::Random
                && entry.model == self.model
                && entry.embedding.len() == dimensions
                && self.points.insert(hash_of(&entry.embedding))
        };
        let own: Vec<&Entry<'_>> = entries.iter().filter(belongs).collect();
        if own.is_empty() {
            return;
        }
        let classes = Classes::new(monitor.model().classes());
        let labels: Vec<_> = own.iter().map(|entry| Some(classes.id(&entry.label_name()))).collect();
        let values = own.iter().flat_map(|entry| entry.embedding.iter().copied()).collect();
        let first = monitor.points();
        let alarms =
            Matrix::new(values, own.len(), dimensions).and_then(|points| monitor.watch(&points, &labels, context));
        match alarms {
            Ok(alarms) => {
                self.alarm_times.extend(alarms.iter().map(|alarm| own[alarm.row - first].time.to_string()));
            }
            // These points had answers before, so the client cannot be at fault. The labels stay recorded.
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Sets the metrics of the run.
    fn export(&self) {
        let Some(monitor) = &self.monitor else { return };
        for (what, capital, _) in monitor.capital() {
            let has_alarm = monitor.alarms().iter().any(|alarm| alarm.watched == what);
            telemetry::drift(what, monitor.points(), capital, has_alarm);
        }
    }
}
