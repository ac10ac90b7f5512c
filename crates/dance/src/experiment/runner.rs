//! The sets of any method at any α, on one kernel: what methods share is computed once.

use super::case::{Parts, timed};
use super::method::Method;
use super::record::Seconds;
use crate::backend::Backend;
use crate::error::Result;
use crate::matrix::Matrix;
use crate::methods::adapter::Adapter;
use crate::methods::conf_ot;
use crate::methods::ncp::Ncp;
use crate::model::{Dance, Fitted};
use crate::neighbors::{Neighbors, Reference};
use crate::observe::Observer;
use crate::prediction::{PredictOptions, Scored};
use crate::rfm;
use crate::scores::aps::Aps;
use crate::scores::confine::Confine;
use crate::scores::deep_knn::DeepKnn;
use crate::scores::lac::Lac;
use crate::scores::ranked::RankedScore;
use crate::scores::raps::Raps;
use crate::scores::saps::Saps;
use crate::scores::{self, LabelScores, NeighborScore};
use crate::sets::{EmptySets, Sets};
use crate::threshold::CalibrationScores;

/// Neighbors that the baselines share: as many as the one that looks at most.
const NEIGHBORS: usize = 75;

pub(crate) struct Runner<'a> {
    backend: &'a dyn Backend,
    fitted: &'a Fitted,
    parts: Parts<'a>,
    seed: u64,
    classes: usize,
    pub(crate) calibration_points: Matrix,
    pub(crate) reference: Reference,
    test_mapped: Matrix,
    /// Of every calibration point among the others, and of the test points.
    calibration_neighbors: Neighbors,
    test_neighbors: Neighbors,
    calibration_probabilities: Matrix,
    test_probabilities: Matrix,
    best: Vec<u32>,
    /// The kernel with the validation points, once a method wants it.
    refitted: Option<Fitted>,
    prepared: Option<(Method, Prepared)>,
}

/// What one method needs for every α.
enum Prepared {
    Dance(Box<(Dance, Scored)>),
    Labels { calibration: CalibrationScores, test: LabelScores },
    Adapter { adapter: Adapter, score: Box<dyn RankedScore> },
    ConfOt { adapter: Adapter, score: Box<dyn RankedScore>, probabilities: Matrix, best: Vec<u32> },
    Ncp,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        backend: &'a dyn Backend,
        fitted: &'a Fitted,
        parts: Parts<'a>,
        seed: u64,
        seconds: &mut Seconds,
    ) -> Result<Self> {
        let normalised = |matrix: &Matrix, origin: &str| -> Result<Matrix> {
            let mut points = matrix.clone();
            fitted.normalizer.apply(origin, &mut points)?;
            Ok(points)
        };
        let calibration_points = normalised(&parts.calibration.embeddings, "calibration part")?;
        let test_points = normalised(&parts.test.embeddings, "test part")?;
        let calibration_mapped = fitted.map(backend, &calibration_points)?;
        let test_mapped = fitted.map(backend, &test_points)?;
        let classes = fitted.classes.len();
        let (calibration_probabilities, test_probabilities, best) =
            timed(&mut seconds.probabilities, || {
                let centers = fitted.map(backend, &fitted.rfm.train)?;
                let outputs = |points| backend.predict(points, &centers, fitted.rfm.kernel, &fitted.rfm.beta);
                let (calibration, test) = (outputs(&calibration_mapped)?, outputs(&test_mapped)?);
                let best = largest_of(&test);
                let floor = fitted.config.floor(classes);
                Ok((rfm::probabilities(calibration, floor), rfm::probabilities(test, floor), best))
            })?;
        let reference = Reference::new(calibration_mapped);
        let (calibration_neighbors, test_neighbors) = timed(&mut seconds.neighbors, || {
            let itself: Vec<_> = (0..reference.len() as u32).map(Some).collect();
            let among = backend.neighbors(&reference, reference.points(), NEIGHBORS, Some(&itself))?;
            Ok((among, backend.neighbors(&reference, &test_mapped, NEIGHBORS, None)?))
        })?;
        Ok(Self {
            backend,
            fitted,
            parts,
            seed,
            classes,
            calibration_points,
            reference,
            test_mapped,
            calibration_neighbors,
            test_neighbors,
            calibration_probabilities,
            test_probabilities,
            best,
            refitted: None,
            prepared: None,
        })
    }

    pub(crate) fn calibration_labels(&self) -> &'a [u32] {
        &self.parts.calibration.labels
    }

    /// Why a method cannot run on this data.
    pub(crate) fn refusal(&self, method: Method) -> Option<String> {
        let needs = matches!(method, Method::ConfOtAps | Method::ConfOtRaps);
        (needs && self.parts.test.prototypes.is_none()).then(|| "needs prototypes".into())
    }

    /// Does what the sets of every α have in common.
    pub(crate) fn prepare(
        &mut self,
        method: Method,
        observer: &dyn Observer,
        seconds: &mut Seconds,
    ) -> Result<()> {
        let prepared = if let Some(config) = method.dance(self.fitted.config.dance) {
            let mut fitted = if method.refits() { self.refitted(observer)? } else { self.fitted.clone() };
            fitted.config.dance = config;
            let (mut calibrating, mut inferring) = (0.0, 0.0);
            let model =
                timed(&mut calibrating, || fitted.calibrate(self.backend, self.parts.calibration, observer))?;
            let options = PredictOptions { best: method.refits(), empty: EmptySets::Keep, support: 0 };
            let scored =
                timed(&mut inferring, || model.score(self.backend, &self.parts.test.embeddings, options))?;
            if method == Method::Dance {
                seconds.mix += calibrating;
                seconds.inference += inferring;
            }
            Prepared::Dance(Box::new((model, scored)))
        } else {
            match method {
                Method::DeepKnn => self.deep_knn()?,
                Method::Confine => self.confine()?,
                Method::NcpRaps => Prepared::Ncp,
                Method::ConfOtAps => self.conf_ot(Box::new(Aps))?,
                Method::ConfOtRaps => self.conf_ot(Box::new(Raps::default()))?,
                Method::Lac => self.adapter(Box::new(Lac), true)?,
                Method::Raps => self.adapter(Box::new(Raps::default()), true)?,
                Method::Saps => self.adapter(Box::new(Saps::default()), true)?,
                Method::ApsDeterministic => self.adapter(Box::new(Aps), false)?,
                Method::RapsDeterministic => self.adapter(Box::new(Raps::default()), false)?,
                Method::SapsDeterministic => self.adapter(Box::new(Saps::default()), false)?,
                _ => self.adapter(Box::new(Aps), true)?,
            }
        };
        self.prepared = Some((method, prepared));
        Ok(())
    }

    /// The sets of the prepared method at one α, and the mix where it has one.
    pub(crate) fn sets(&self, method: Method, alpha: f64) -> Result<(Sets, Option<f64>)> {
        let prepared = match &self.prepared {
            Some((ready, prepared)) if *ready == method => prepared,
            _ => return Err(crate::Error::Data(format!("{method} was not prepared"))),
        };
        match prepared {
            Prepared::Dance(ready) => {
                let prediction = ready.0.decide(&ready.1, alpha)?;
                Ok((prediction.sets, prediction.decision.mix))
            }
            Prepared::Labels { calibration, test } => {
                Ok((Sets::from_scores(test, calibration.threshold(alpha)?.value, self.classes), None))
            }
            Prepared::Adapter { adapter, score } => {
                let threshold = adapter.threshold(&**score, alpha)?.value;
                Ok((adapter.sets(&self.test_probabilities, &[(&**score, threshold)]).remove(0), None))
            }
            Prepared::ConfOt { adapter, score, probabilities, .. } => {
                let threshold = adapter.threshold(&**score, alpha)?.value;
                Ok((adapter.sets(probabilities, &[(&**score, threshold)]).remove(0), None))
            }
            Prepared::Ncp => {
                let ncp = Ncp::new(
                    &self.reference,
                    self.calibration_labels(),
                    &self.calibration_probabilities,
                    self.calibration_neighbors.clone(),
                    self.seed,
                )?;
                let setting = ncp.tune(self.backend, alpha)?;
                Ok((ncp.sets(&self.test_neighbors, &self.test_probabilities, setting, alpha)?, None))
            }
        }
    }

    /// The labels whose accuracy a method has: the kernel machine's, or the zero-shot classifier's.
    pub(crate) fn best(&self) -> &[u32] {
        match &self.prepared {
            Some((_, Prepared::ConfOt { best, .. })) => best,
            Some((_, Prepared::Dance(ready))) => {
                ready.1.best.as_ref().map_or(&self.best, |best| &best.labels)
            }
            _ => &self.best,
        }
    }

    fn refitted(&mut self, observer: &dyn Observer) -> Result<Fitted> {
        if let Some(fitted) = &self.refitted {
            return Ok(fitted.clone());
        }
        let fitted = self.fitted.refit(self.backend, self.parts.fit, observer)?;
        Ok(self.refitted.insert(fitted).clone())
    }

    fn adapter(&self, score: Box<dyn RankedScore>, seeded: bool) -> Result<Prepared> {
        let seed = seeded.then_some(self.seed);
        let adapter = Adapter::new(&self.calibration_probabilities, self.calibration_labels(), seed)?;
        Ok(Prepared::Adapter { adapter, score })
    }

    fn deep_knn(&self) -> Result<Prepared> {
        let score = DeepKnn::default();
        let of = |neighbors| {
            let scores: [&dyn NeighborScore; 1] = [&score];
            let [scores] = scores::of_neighbors(
                scores,
                neighbors,
                &self.reference,
                self.calibration_labels(),
                self.classes,
            );
            scores
        };
        let (calibration, test) =
            self.backend.threads().run(|| (of(&self.calibration_neighbors), of(&self.test_neighbors)));
        self.labels(&calibration, test)
    }

    fn confine(&self) -> Result<Prepared> {
        let points = self.reference.points();
        let itself: Vec<_> = (0..points.rows() as u32).map(Some).collect();
        let of = |queries, skip| {
            Confine::default().scores(points, self.calibration_labels(), self.classes, queries, skip)
        };
        let (calibration, test) =
            self.backend.threads().run(|| (of(points, Some(&itself)), of(&self.test_mapped, None)));
        self.labels(&calibration?, test?)
    }

    fn labels(&self, calibration: &LabelScores, test: LabelScores) -> Result<Prepared> {
        let own = self.calibration_labels().iter().enumerate();
        let own = own.map(|(row, &label)| calibration.get(row, label)).collect();
        Ok(Prepared::Labels { calibration: CalibrationScores::new(own)?, test })
    }

    fn conf_ot(&self, score: Box<dyn RankedScore>) -> Result<Prepared> {
        let Some(prototypes) = &self.parts.test.prototypes else {
            return Err(crate::Error::Data("Conf-OT needs prototypes".into()));
        };
        // As the encoder gave them: the text side knows nothing of our normalisation.
        let (calibration, test) = (&self.parts.calibration.embeddings, &self.parts.test.embeddings);
        let stacked = [calibration.as_slice(), test.as_slice()].concat();
        let stacked = Matrix::new(stacked, calibration.rows() + test.rows(), test.cols())?;
        let all = self.backend.threads().run(|| {
            let logits = conf_ot::logits(&stacked, prototypes)?;
            conf_ot::probabilities(&logits, &conf_ot::biases(&logits, self.calibration_labels()))
        })?;
        let cut = calibration.rows();
        let own = all.select(&(0..cut).collect::<Vec<_>>());
        let probabilities = all.select(&(cut..all.rows()).collect::<Vec<_>>());
        let adapter = Adapter::new(&own, self.calibration_labels(), Some(self.seed))?;
        let best = largest_of(&probabilities);
        Ok(Prepared::ConfOt { adapter, score, probabilities, best })
    }
}

/// The first label of the largest value of every row.
fn largest_of(values: &Matrix) -> Vec<u32> {
    (0..values.rows()).map(|row| rfm::largest(values.row(row)) as u32).collect()
}
