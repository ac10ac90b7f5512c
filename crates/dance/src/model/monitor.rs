//! Monitoring of a stream: tests whether its points and labels are exchangeable with the calibration points.
//!
//! Two test martingales bet against exchangeability, and their capital grows only if exchangeability fails. One ranks
//! **inputs** by the distance of a point to its 5th-nearest fit point under the learned metric. The other one ranks
//! **labels** by one minus the kernel machine's probability of the true label. Both scores follow from the fit points
//! alone, so calibration points and points of the stream are scored alike. The probability of a false alarm is bounded
//! over the whole stream; if labels are monitored, each martingale gets half of it. P-values of prediction sets would
//! not do, since they all use the same calibration points and are not independent.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::dance::Dance;
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::method::Calibration;
use crate::neighbors::Index;
use crate::numeric::matrix::Matrix;
use crate::scores::calibration::NOVELTY_NEIGHBORS;
use crate::stream::{Bets, Martingale};

/// The part of a stream in which a monitor looks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamPart {
    /// The points, without regard to their labels.
    Inputs,
    /// The labels, in relation to their points.
    Labels,
}

/// An alarm: the capital of a test martingale has reached [`Monitor::bound`], so the stream has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    /// The part of the stream that has changed.
    pub watched: StreamPart,
    /// The index of the point, counted from 0 in the stream, at which the capital reached the bound.
    pub row: usize,
}

/// The state of a monitor. A program that stops can continue from this state and the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MonitorState {
    /// The SHA-256 of the model's fit points, and that of its calibration points, in hexadecimal.
    model: [String; 2],
    seed: u64,
    points: usize,
    inputs: Bets,
    labels: Option<Bets>,
    alarms: Vec<Alarm>,
}

/// A monitor, which detects a change in a stream of points. The type M is a borrowed (`&Dance`) or a shared
/// (`Arc<Dance>`) model.
#[derive(Clone, Debug)]
pub struct Monitor<M> {
    model: M,
    fit: Index,
    neighbors: usize,
    inputs: Martingale,
    labels: Option<Martingale>,
    false_alarm: f64,
    points: usize,
    alarms: Vec<Alarm>,
    seed: u64,
}

impl<M: Deref<Target = Dance>> Monitor<M> {
    /// Starts to monitor a stream of points. `false_alarm` is the largest probability that a stream without change ever
    /// raises an alarm. If `with_labels` is true, labels are monitored too.
    pub fn new(
        model: M,
        device: &dyn Device,
        with_labels: bool,
        false_alarm: f64,
        seed: u64,
        context: &Context<'_>,
    ) -> Result<Self> {
        if !(false_alarm > 0.0 && false_alarm < 1.0) {
            return Err(Error::config("false alarm probability", false_alarm, "between 0 and 1, such as 0.01"));
        }
        let in_fit = model.calibration_points_in_fit();
        if in_fit > 0 {
            context.warn(format!(
                "{in_fit} of the calibration points took part in the fit, so their scores are smaller than those of \
                 new points: alarms mean little"
            ));
        }
        let fit = Index::open(device, model.classifier.map(&model.fitted.rfm.train, context)?, context)?;
        let split = model.calibration() == Calibration::Split;
        if split && with_labels {
            return Err(Error::Data(
                "a model with split calibration does not keep its calibration points, so labels cannot be compared \
                 with theirs; recalibrate it with full calibration"
                    .into(),
            ));
        }
        // Split calibration keeps the distances of the calibration points, the others keep the points.
        let mut neighbors = NOVELTY_NEIGHBORS.min(fit.len());
        let (distances, own) = if split {
            let known = model.predictor.novelty();
            neighbors = known.nth();
            (known.squared().to_vec(), None)
        } else {
            let mapped = model.classifier.map(&model.reference, context)?;
            let labels = &model.reference_labels()[..model.reference.rows()];
            let own = with_labels.then(|| model.classifier.own_probabilities(&mapped, labels, context)).transpose()?;
            (distances(&fit, &mapped, neighbors, context)?, own)
        };
        // The labels are scored by the probability of the true label.
        let labels =
            own.map(|own| Martingale::new(own.iter().map(|&p| 1.0 - f64::from(p)).collect(), seed ^ 1)).transpose()?;
        Ok(Self {
            model,
            fit,
            neighbors,
            inputs: Martingale::new(distances, seed)?,
            labels,
            false_alarm,
            points: 0,
            alarms: Vec::new(),
            seed,
        })
    }

    /// Continues from the `state` of an earlier monitor, the JSON that [`state`](Self::state) returned. Returns an
    /// error unless that monitor had this model and seed and agrees in whether labels are monitored.
    pub fn resume(mut self, state: &[u8]) -> Result<Self> {
        let state: MonitorState = serde_json::from_slice(state)
            .map_err(|error| Error::Data(format!("not the state of a monitor; delete it to begin anew: {error}")))?;
        if state.model != self.model_hashes() || state.seed != self.seed {
            return Err(Error::Data(
                "the state belongs to another model or seed; name another file, or delete it to begin anew".into(),
            ));
        }
        if state.labels.is_some() != self.labels.is_some() {
            let (was, is) = if self.labels.is_some() { ("without", "with") } else { ("with", "without") };
            return Err(Error::Data(format!(
                "the state is of a run {was} labels, and this one is {is}; name another file, or delete it to begin \
                 anew"
            )));
        }
        self.inputs = self.inputs.resume(state.inputs)?;
        self.labels = match (self.labels, state.labels) {
            (Some(labels), Some(bets)) => Some(labels.resume(bets)?),
            _ => None,
        };
        (self.points, self.alarms) = (state.points, state.alarms);
        Ok(self)
    }

    /// Returns the state of the monitor as JSON, from which [`resume`](Self::resume) continues.
    pub fn state(&self) -> Result<String> {
        let state = MonitorState {
            model: self.model_hashes(),
            seed: self.seed,
            points: self.points,
            inputs: self.inputs.state().clone(),
            labels: self.labels.as_ref().map(|labels| labels.state().clone()),
            alarms: self.alarms.clone(),
        };
        serde_json::to_string(&state).map_err(|error| Error::Data(format!("the state cannot be written: {error}")))
    }

    fn model_hashes(&self) -> [String; 2] {
        [self.model.fitted.data_hash.clone(), self.model.data_hash.clone()]
    }

    /// Tests the next points of the stream and returns new alarms. Points are embeddings as the encoder returns them.
    /// `labels` holds one entry per point: `Some(Some(id))` for a class id, `Some(None)` for a label that the model
    /// does not have, `None` for a point without a label.
    pub fn watch(
        &mut self,
        points: &Matrix,
        labels: &[Option<Option<u32>>],
        context: &Context<'_>,
    ) -> Result<Vec<Alarm>> {
        let mapped = self.model.classifier.map_queries(points.into(), context)?;
        let far = distances(&self.fit, &mapped, self.neighbors, context)?;
        let classified = match &self.labels {
            Some(_) => Some(self.model.classifier.classify_mapped(&mapped, context)?),
            None => None,
        };
        let before = self.alarms.len();
        for (row, far) in far.into_iter().enumerate() {
            self.inputs.bet(far);
            if let (Some(martingale), Some(classified), Some(Some(label))) =
                (&mut self.labels, &classified, labels.get(row))
            {
                let own = label.map_or(0.0, |label| classified.probability(row, label));
                martingale.bet(1.0 - f64::from(own));
            }
            self.alarm();
            self.points += 1;
        }
        Ok(self.alarms[before..].to_vec())
    }

    /// Adds an alarm for every martingale whose capital reaches [`bound`](Self::bound) for the first time at the
    /// present point.
    fn alarm(&mut self) {
        let all = [(StreamPart::Inputs, Some(&self.inputs)), (StreamPart::Labels, self.labels.as_ref())];
        for (watched, martingale) in all {
            let known = self.alarms.iter().any(|alarm| alarm.watched == watched);
            if !known && martingale.is_some_and(|martingale| martingale.largest() >= self.bound()) {
                self.alarms.push(Alarm { watched, row: self.points });
            }
        }
    }

    /// Returns the capital at which a test martingale, which bets against exchangeability, raises an alarm.
    pub fn bound(&self) -> f64 {
        (if self.labels.is_some() { 2.0 } else { 1.0 }) / self.false_alarm
    }

    /// Returns the model with whose calibration points the stream is compared.
    pub fn model(&self) -> &Dance {
        &self.model
    }

    /// Returns the number of points of the stream so far.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Returns all alarms so far. There is at most one for inputs and one for labels.
    pub fn alarms(&self) -> &[Alarm] {
        &self.alarms
    }

    /// Returns each monitored part of the stream with two numbers: the current capital of its martingale, and the
    /// largest capital so far.
    pub fn capital(&self) -> Vec<(StreamPart, f64, f64)> {
        let of = |watched, martingale: &Martingale| (watched, martingale.capital(), martingale.largest());
        let labels = self.labels.as_ref().map(|labels| of(StreamPart::Labels, labels));
        [of(StreamPart::Inputs, &self.inputs)].into_iter().chain(labels).collect()
    }
}

/// Returns the squared distance of every point in `mapped` to its k-th nearest fit point, where k is `neighbors`.
fn distances(fit: &Index, mapped: &Matrix, neighbors: usize, context: &Context<'_>) -> Result<Vec<f64>> {
    let found = fit.search(mapped, neighbors, context)?;
    Ok((0..found.len()).map(|row| found.squared(row).last().copied().unwrap_or(f64::INFINITY)).collect())
}
