//! What a kernel machine says of points that it has not seen, where those are fit points: machines fitted on some of them judge the
//! others. In a metric that their labels made, fit points lie too well to say how hard they are.

use super::fitted::Fitted;
use crate::conformal::Difficulty;
use crate::context::{Context, Quiet};
use crate::data::split;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::{Classifier, Part, Rfm, RfmConfig};
use crate::numeric::random::Random;

/// Most points of a half that fit its machine.
const MOST: usize = 4000;
/// Fewer fit points than this are not halved: all are taken to be as hard.
const LEAST: usize = 16;
/// The stream of random numbers that says which points of a large half fit its machine.
const HALF_PURPOSE: u64 = 0xd1ff;

impl Fitted {
    /// A machine with the same settings that `part` of the points alone made.
    pub(super) fn fitted_apart(
        &self,
        part: Part,
        device: &dyn Device,
        context: &Context<'_>,
    ) -> Result<Classifier> {
        let config = RfmConfig { rounds: self.rfm.rounds, ..self.config.rfm };
        let quiet = Quiet(context.observer());
        let context = &context.with_observer(&quiet);
        let rfm = Rfm::fit(device, part, self.classes.len(), self.rfm.kernel, &config, context)?;
        Classifier::open(device, &rfm, &self.normalizer, self.scale, context)
    }

    /// How hard fit points are: each half of them judged by a machine that the other half made. Cost: two fits on half of the points,
    /// and of no more than [`MOST`].
    pub(super) fn difficulty(&self, device: &dyn Device, context: &Context<'_>) -> Result<Difficulty> {
        let all = Part { embeddings: self.rfm.train.clone(), labels: self.rfm.labels.clone() };
        let (n, seed) = (all.labels.len(), self.config.conformal.seed);
        if n < LEAST {
            return Ok(Difficulty::default());
        }
        let shares = [0.5, 0.5];
        let mut halves = match split::stratified(&all.labels, &shares, seed) {
            // Only classes of one point: nothing to stratify.
            Err(Error::Data(_)) => split::uniform(n, &shares, seed)?,
            halves => halves?,
        };
        let mut random = Random::new(seed, HALF_PURPOSE);
        for half in &mut halves {
            random.shuffle(half);
        }
        let mut probabilities = vec![0.0; n];
        for (taught, judged) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
            context.check()?;
            let taught = all.select(&taught[..taught.len().min(MOST)]);
            let classifier = self.fitted_apart(taught, device, context)?;
            let part = all.select(judged);
            let mapped = classifier.map(&part.embeddings, context)?;
            let own = classifier.own_probabilities(&mapped, &part.labels, context)?;
            judged.iter().zip(own).for_each(|(&row, own)| probabilities[row] = own);
        }
        Ok(Difficulty::new(probabilities, &all.labels, self.classes.len()))
    }
}
