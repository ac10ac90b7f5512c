//! Watching a stream: do points still come from where the calibration points came from, and their labels too?
//!
//! Two [martingales](crate::stream::Martingale). **Inputs**: the distance of a point to its 5th-nearest fit point, in mapped space.
//! **Labels**: one minus the kernel machine's probability of the true label. Both are fixed by the fit points alone, so calibration
//! points and the points of the stream are judged alike, and the false-alarm probability asked for holds for the whole run: with
//! labels each of the two has half of it. The p-values of a set would not do: they compare with calibration points that
//! stay the same, so they are no independent draws.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::dance::Dance;
use crate::conformal::Calibration;
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::neighbors::Index;
use crate::numeric::matrix::Matrix;
use crate::stream::{Bets, Martingale, NOVELTY_NEIGHBORS};

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Watched {
    /// Points, whatever their labels.
    Inputs,
    /// Labels, given their points.
    Labels,
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    /// What has changed.
    pub watched: Watched,
    /// The point at which capital reached its bound, from 0 on.
    pub row: usize,
}

/// What to go on from: bets, and what they were made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorState {
    /// SHA-256 of the points the model was fitted and calibrated on, and the seed.
    model: [String; 2],
    seed: u64,
    points: usize,
    inputs: Bets,
    labels: Option<Bets>,
    alarms: Vec<Alarm>,
}

/// Watches a stream of points for a change: of the points of a model that is borrowed (`&Dance`) or shared.
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
    /// At the begin of a stream. `false_alarm` is the probability of an alarm, ever, while nothing changes.
    pub fn new(
        model: M,
        device: &dyn Device,
        labelled: bool,
        false_alarm: f64,
        seed: u64,
        context: &Context<'_>,
    ) -> Result<Self> {
        if !(false_alarm > 0.0 && false_alarm < 1.0) {
            return Err(Error::config(
                "false alarm probability",
                false_alarm,
                "between 0 and 1, such as 0.01",
            ));
        }
        if model.overlap().fitted > 0 {
            context.warn(format!(
                "{} of the calibration points took part in the fit, so the stream looks stranger than they do: alarms mean little",
                model.overlap().fitted
            ));
        }
        let fit = Index::open(device, model.classifier.map(&model.fitted.rfm.train, context)?, context)?;
        let split = model.predictor.method().calibration() == Calibration::Split;
        if split && labelled {
            return Err(Error::Data(
                "a model with split calibration does not keep its calibration points, so labels cannot be compared with \
                 theirs; recalibrate it with full calibration"
                    .into(),
            ));
        }
        let mut neighbors = NOVELTY_NEIGHBORS.min(fit.len());
        let (distances, own) = if split {
            let known = model.predictor.novelty();
            neighbors = known.nth();
            (known.squared().to_vec(), None)
        } else {
            let mapped = model.classifier.map(&model.reference, context)?;
            let labels = &model.predictor.reference_labels()[..model.reference.rows()];
            let own =
                labelled.then(|| model.classifier.own_probabilities(&mapped, labels, context)).transpose()?;
            (distances(&fit, &mapped, neighbors, context)?, own)
        };
        let labels = own
            .map(|own| Martingale::new(own.iter().map(|&p| 1.0 - f64::from(p)).collect(), seed ^ 1))
            .transpose()?;
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

    /// Where it stood before.
    pub fn resume(mut self, state: MonitorState) -> Result<Self> {
        if state.model != self.model_hashes() || state.seed != self.seed {
            return Err(Error::Data(
                "the state belongs to another model or seed; name another file, or delete it to begin anew"
                    .into(),
            ));
        }
        if state.labels.is_some() != self.labels.is_some() {
            let (was, is) = if self.labels.is_some() { ("without", "with") } else { ("with", "without") };
            return Err(Error::Data(format!(
                "the state is of a run {was} labels, and this one is {is}; name another file, or delete it to begin anew"
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

    /// What to go on from.
    pub fn state(&self) -> MonitorState {
        MonitorState {
            model: self.model_hashes(),
            seed: self.seed,
            points: self.points,
            inputs: self.inputs.state().clone(),
            labels: self.labels.as_ref().map(|labels| labels.state().clone()),
            alarms: self.alarms.clone(),
        }
    }

    fn model_hashes(&self) -> [String; 2] {
        [self.model.fitted.data_hash.clone(), self.model.data_hash.clone()]
    }

    /// Takes up further points as they come from the encoder, in their order, with class ids where they are known: `Some(None)` is a
    /// label that the model does not know. Returns alarms that are new.
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

    /// Notes what reached its bound with the present point.
    fn alarm(&mut self) {
        let all = [(Watched::Inputs, Some(&self.inputs)), (Watched::Labels, self.labels.as_ref())];
        for (watched, martingale) in all {
            let known = self.alarms.iter().any(|alarm| alarm.watched == watched);
            if !known && martingale.is_some_and(|martingale| martingale.largest() >= self.bound()) {
                self.alarms.push(Alarm { watched, row: self.points });
            }
        }
    }

    /// The capital that is an alarm.
    pub fn bound(&self) -> f64 {
        (if self.labels.is_some() { 2.0 } else { 1.0 }) / self.false_alarm
    }

    /// The model whose points are watched.
    pub fn model(&self) -> &Dance {
        &self.model
    }

    /// Points so far.
    pub fn points(&self) -> usize {
        self.points
    }

    /// Alarms so far, at most one of each kind.
    pub fn alarms(&self) -> &[Alarm] {
        &self.alarms
    }

    /// What is watched, and the capital now and at its largest.
    pub fn capital(&self) -> Vec<(Watched, f64, f64)> {
        let of = |watched, martingale: &Martingale| (watched, martingale.capital(), martingale.largest());
        let labels = self.labels.as_ref().map(|labels| of(Watched::Labels, labels));
        [of(Watched::Inputs, &self.inputs)].into_iter().chain(labels).collect()
    }
}

/// Squared distances to the nearest fit point that counts.
fn distances(fit: &Index, mapped: &Matrix, neighbors: usize, context: &Context<'_>) -> Result<Vec<f64>> {
    let found = fit.search(mapped, neighbors, context)?;
    Ok((0..found.len()).map(|row| found.squared(row).last().copied().unwrap_or(f64::INFINITY)).collect())
}
