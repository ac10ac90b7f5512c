//! Baselines with class thresholds, full conformal adaptation, and logistic regression, prepared for a case.

use super::method::Method;
use super::regression::Regression;
use super::runner::{CutsAt, Prepared, Ready, Runner, ids_in, largest_of, spread};
use crate::baselines::class_wise::{ClassCalibration, ClassScore};
use crate::baselines::pas::{self, Pas};
use crate::baselines::{clustered, fca::Fca, rc3p};
use dance::Result;
use dance::scores::{RankedScore, SplitConformal};

/// The weight of the class thresholds in interpolated ones. The paper leaves it to the user; one half is the middle.
const BETWEEN: f64 = 0.5;

impl Runner<'_> {
    /// Prepares a method with class thresholds, on the kernel machine's probabilities.
    pub(super) fn by_class(&self, method: Method) -> Result<Prepared> {
        let pas = || Box::new(Pas::new(&self.parts.fit.class_counts()));
        let (score, cuts): (Box<dyn ClassScore>, CutsAt) = match method {
            Method::Clustered => (Box::new(RankedScore::Lac), clustered::cuts),
            Method::Rc3p => (Box::new(RankedScore::Aps), |own, alpha, _| rc3p::cuts(own, alpha)),
            Method::Pas => (pas(), |own, alpha, _| own.standard(alpha)),
            Method::InterpQ => (Box::new(RankedScore::Lac), |own, alpha, _| own.interpolated(alpha, BETWEEN, 1.0)),
            Method::PasInterpQ => (pas(), |own, alpha, _| own.interpolated(alpha, BETWEEN, pas::LARGEST)),
            _ => (Box::new(RankedScore::Lac), |own, alpha, _| own.class_wise(alpha)),
        };
        let (probabilities, labels) = (&self.calibration_probabilities, self.calibration_labels());
        let calibration = ClassCalibration::new(score, probabilities, labels, Some(self.seed), self.context)?;
        Ok(Prepared::ByClass { calibration, cuts })
    }

    /// Prepares FCA on all labeled points: it needs none to fit a classifier.
    pub(super) fn full_adaptation(&self) -> Result<Ready> {
        let (fit, calibration, test) = (self.parts.fit, self.parts.calibration, self.parts.test);
        let mut points = fit.embeddings.clone();
        points.append(&calibration.embeddings)?;
        let labels = [&fit.labels[..], &calibration.labels].concat();
        let probe = Fca::new(&points, &labels, self.classes, test.prototypes.as_ref(), self.context)?;
        let (counts, best) = probe.counts(&test.embeddings, self.context)?;
        Ok(Ready { prepared: Prepared::Counted(counts), probabilities: None, best: Some(best) })
    }

    /// Prepares LAC on the probabilities of a logistic regression, fitted on the points that fit the kernel machine.
    pub(super) fn regression(&self) -> Result<Ready> {
        let (fit, context) = (self.parts.fit, self.context);
        let (classes, labels) = fit.occurring_classes();
        let normalised = |origin: &str, points: &dance::Matrix| {
            let mut points = points.clone();
            self.fitted.normalizer.apply(origin, &mut points)?;
            Ok::<_, dance::Error>(points)
        };
        let points = normalised("kernel fit part", &fit.embeddings)?;
        let model = Regression::tuned(self.device, &points, &labels, classes.len(), self.seed, context)?;
        let to = ids_in(self.parts.test, &classes);
        let of = |points: &dance::Matrix| {
            Ok::<_, dance::Error>(spread(&model.probabilities(self.device, points, context)?, &to, self.classes))
        };
        let calibration = of(&self.calibration_points)?;
        let probabilities = of(&normalised("test part", &self.parts.test.embeddings)?)?;
        let adapter = SplitConformal::new(&calibration, self.calibration_labels(), Some(self.seed), context)?;
        let best = Some(largest_of(&probabilities));
        let prepared = Prepared::Adapter { adapter, score: RankedScore::Lac };
        Ok(Ready { prepared, probabilities: Some(probabilities), best })
    }
}
