//! The runner: the sets of any method at any α on one fit. The parts that methods share are computed once.

use super::case::{Parts, timed};
use super::method::Method;
use super::record::Seconds;
use crate::baselines::class_wise::{ClassCalibration, Cuts};
use crate::baselines::{conf_ot, confine::Confine, deep_knn::DeepKnn, ncp::Ncp};
use dance::data::class_ids;
use dance::device::Device;
use dance::evaluation::ProbabilityMetrics;
use dance::neighbors::{Index, Neighbors};
use dance::scores::{CalibrationScores, Cut, LabelCounts, RankedScore, Sets, SplitConformal, least_count};
use dance::{Context, Dance, Dataset, Error, Fitted, Matrix, PredictOptions, Result, Scored};

/// Neighbors that the baselines share: as many as any of them uses.
const NEIGHBORS: usize = 75;

/// One fit with its parts, and all that methods share on it.
pub(crate) struct Runner<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) context: &'a Context<'a>,
    pub(super) fitted: &'a Fitted,
    pub(super) parts: Parts<'a>,
    pub(super) seed: u64,
    pub(super) classes: usize,
    /// Calibration points, normalised.
    pub(crate) calibration_points: Matrix,
    /// Calibration points, mapped.
    pub(crate) index: Index,
    test_mapped: Matrix,
    /// Neighbors of every calibration point among the others.
    calibration_neighbors: Neighbors,
    /// Neighbors of every test point among the calibration points.
    test_neighbors: Neighbors,
    pub(super) calibration_probabilities: Matrix,
    test_probabilities: Matrix,
    /// The kernel machine's best label of every test point.
    best: Vec<u32>,
    /// The method that is prepared.
    ready: Option<(Method, Ready)>,
}

/// A method that is prepared for every α.
pub(super) struct Ready {
    pub(super) prepared: Prepared,
    /// The method's own class probabilities of the test points; `None` for the kernel machine's.
    pub(super) probabilities: Option<Matrix>,
    /// The method's own best labels; `None` for the kernel machine's.
    pub(super) best: Option<Vec<u32>>,
}

/// The part of a method that does not depend on α.
pub(super) enum Prepared {
    /// A method of the library, with the scored test points.
    Dance(Box<(Dance, Scored)>),
    /// One score for every label of every test point.
    Labels { calibration: CalibrationScores, test: Vec<Vec<f64>> },
    /// A score of class probabilities.
    Adapter { adapter: SplitConformal, score: RankedScore },
    /// Thresholds per class.
    ByClass { calibration: ClassCalibration, cuts: CutsAt },
    /// Counts of every label.
    Counted(LabelCounts),
    /// NCP, which is tuned for every α.
    Ncp,
}

/// A function that returns the thresholds of classes at an α, under a seed.
pub(super) type CutsAt = fn(&ClassCalibration, f64, u64) -> Result<Cuts>;

impl From<Prepared> for Ready {
    fn from(prepared: Prepared) -> Self {
        Self { prepared, probabilities: None, best: None }
    }
}

impl<'a> Runner<'a> {
    /// Computes the parts that methods share.
    pub(crate) fn new(
        device: &'a dyn Device,
        fitted: &'a Fitted,
        parts: Parts<'a>,
        seed: u64,
        seconds: &mut Seconds,
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let mut calibration_points = parts.calibration.embeddings.clone();
        fitted.normalizer.apply("calibration part", &mut calibration_points)?;
        let classifier = fitted.classifier(device, context)?;
        let calibration_mapped = classifier.transform(&parts.calibration.embeddings, context)?;
        let test_mapped = classifier.transform(&parts.test.embeddings, context)?;
        // Class probabilities: a class without fit points has probability 0.
        let (calibration, test) = timed(&mut seconds.probabilities, || {
            let classify = |part: &Matrix| classifier.classify(part, context);
            Ok((classify(&parts.calibration.embeddings)?, classify(&parts.test.embeddings)?))
        })?;
        let to = ids_in(parts.test, &fitted.classes);
        let all = |probabilities: &Matrix| spread(probabilities, &to, parts.test.classes.len());
        let (calibration_probabilities, test_probabilities) =
            (all(&calibration.probabilities), all(&test.probabilities));
        let best = test.labels.iter().map(|&label| to[label as usize]).collect();
        // Neighbors among the calibration points.
        let index = Index::open(device, calibration_mapped, context)?;
        let (calibration_neighbors, test_neighbors) = timed(&mut seconds.neighbors, || {
            let among = index.search_own(index.len(), NEIGHBORS, context)?;
            Ok((among, index.search(&test_mapped, NEIGHBORS, context)?))
        })?;
        Ok(Self {
            device,
            context,
            fitted,
            parts,
            seed,
            classes: parts.test.classes.len(),
            calibration_points,
            index,
            test_mapped,
            calibration_neighbors,
            test_neighbors,
            calibration_probabilities,
            test_probabilities,
            best,
            ready: None,
        })
    }

    pub(crate) fn calibration_labels(&self) -> &'a [u32] {
        &self.parts.calibration.labels
    }

    /// Returns the reason why a method cannot run on this data; `None` if it can.
    pub(crate) fn refusal(&self, method: Method) -> Option<String> {
        let needs = matches!(method, Method::ConfOtAps | Method::ConfOtRaps);
        (needs && self.parts.test.prototypes.is_none()).then(|| "needs prototypes".into())
    }

    /// Prepares a method for every α.
    pub(crate) fn prepare(&mut self, method: Method, seconds: &mut Seconds) -> Result<()> {
        let ready = match method {
            Method::DeepKnn => self.deep_knn()?.into(),
            Method::Confine => self.confine()?.into(),
            Method::NcpRaps => Prepared::Ncp.into(),
            Method::ConfOtAps => self.conf_ot(RankedScore::Aps)?,
            Method::ConfOtRaps => self.conf_ot(RankedScore::RAPS)?,
            Method::Lac => self.adapter(RankedScore::Lac, true)?.into(),
            Method::Raps => self.adapter(RankedScore::RAPS, true)?.into(),
            Method::Saps => self.adapter(RankedScore::SAPS, true)?.into(),
            Method::ApsDeterministic => self.adapter(RankedScore::Aps, false)?.into(),
            Method::RapsDeterministic => self.adapter(RankedScore::RAPS, false)?.into(),
            Method::SapsDeterministic => self.adapter(RankedScore::SAPS, false)?.into(),
            Method::Aps => self.adapter(RankedScore::Aps, true)?.into(),
            Method::LogisticRegression => self.regression()?,
            Method::ClassWise
            | Method::Clustered
            | Method::Rc3p
            | Method::Pas
            | Method::InterpQ
            | Method::PasInterpQ => self.by_class(method)?.into(),
            Method::Fca => self.full_adaptation()?,
            Method::Dance
            | Method::KnnSet
            | Method::ClrSet
            | Method::DanceSplit
            | Method::Fuse
            | Method::Posterior
            | Method::PosteriorSplit => self.dance(method, seconds)?,
        };
        self.ready = Some((method, ready));
        Ok(())
    }

    /// Calibrates a method of the library and scores the test points.
    fn dance(&self, method: Method, seconds: &mut Seconds) -> Result<Ready> {
        let context = self.context;
        let mut fitted = self.fitted.clone();
        let config = method.dance(fitted.config.conformal);
        fitted.config.conformal = config.ok_or_else(|| Error::Data(format!("{method} has no settings")))?;
        let (mut calibrating, mut inferring) = (0.0, 0.0);
        let model = timed(&mut calibrating, || fitted.calibrate(self.device, self.parts.calibration, context))?;
        // The posterior is a classifier of its own; the other methods use the kernel machine's labels.
        let own = model.experts().is_some();
        let options = PredictOptions::default().best(own).probabilities(own);
        let mut scored = timed(&mut inferring, || model.score(&self.parts.test.embeddings, options, context))?;
        if method == Method::Dance {
            seconds.mix += calibrating;
            seconds.inference += inferring;
        }
        let classified = scored.classified.take();
        let to = ids_in(self.parts.test, model.classes());
        let mut ready = Ready::from(Prepared::Dance(Box::new((model, scored))));
        if let Some(classified) = classified {
            ready.best = Some(classified.labels.iter().map(|&label| to[label as usize]).collect());
            ready.probabilities = Some(spread(&classified.probabilities, &to, self.classes));
        }
        Ok(ready)
    }

    /// Returns the sets of the prepared method at one α, and its mix if it has one.
    pub(crate) fn sets(&self, method: Method, alpha: f64) -> Result<(Sets, Option<f64>)> {
        let ready = match &self.ready {
            Some((own, ready)) if *own == method => ready,
            _ => return Err(Error::Data(format!("{method} was not prepared"))),
        };
        let probabilities = ready.probabilities.as_ref().unwrap_or(&self.test_probabilities);
        // Class ids of the library's models are renamed to those of the data set.
        let sets = match &ready.prepared {
            Prepared::Dance(ready) => {
                let (model, scored) = &**ready;
                let prediction = model.predict(scored, &model.decide(alpha)?);
                let to = ids_in(self.parts.test, model.classes());
                let mix = prediction.decision.mix;
                return Ok((renamed(prediction.sets, &to), mix));
            }
            Prepared::Labels { calibration, test } => {
                let threshold = calibration.threshold(alpha)?.value;
                let set = |scores: &Vec<f64>| -> Vec<u32> {
                    (0u32..).zip(scores).filter(|(_, score)| **score <= threshold).map(|(label, _)| label).collect()
                };
                test.iter().map(set).collect()
            }
            Prepared::Adapter { adapter, score } => {
                let threshold = adapter.threshold(*score, alpha)?.value;
                adapter.sets(probabilities, &[(*score, threshold)], self.context).remove(0)
            }
            Prepared::ByClass { calibration, cuts } => {
                let cuts = cuts(calibration, alpha, self.seed)?;
                calibration.sets(probabilities, &cuts, self.context)
            }
            Prepared::Counted(counts) => {
                let least = least_count(alpha, counts.calibration_points());
                counts.sets(Cut::One(least), self.classes)
            }
            // The bandwidth and the penalty of NCP depend on α.
            Prepared::Ncp => {
                let ncp = Ncp::new(
                    self.index.points(),
                    self.calibration_labels(),
                    &self.calibration_probabilities,
                    self.calibration_neighbors.clone(),
                    self.seed,
                    self.context,
                )?;
                let setting = ncp.tune(self.device, alpha, self.context)?;
                ncp.sets(&self.test_neighbors, probabilities, setting, alpha, self.context)?
            }
        };
        Ok((sets, None))
    }

    /// Returns the labels behind a method's accuracy: its own, or the kernel machine's.
    pub(crate) fn best(&self) -> &[u32] {
        self.ready.as_ref().and_then(|(_, ready)| ready.best.as_deref()).unwrap_or(&self.best)
    }

    /// Returns the quality of the kernel machine's class probabilities.
    pub(crate) fn probability_metrics(&self) -> Result<ProbabilityMetrics> {
        ProbabilityMetrics::new(&self.test_probabilities, &self.parts.test.labels)
    }

    /// Returns the quality of the prepared method's own class probabilities, if it has any.
    pub(crate) fn own_probability_metrics(&self) -> Result<Option<ProbabilityMetrics>> {
        let own = self.ready.as_ref().and_then(|(_, ready)| ready.probabilities.as_ref());
        own.map(|own| ProbabilityMetrics::new(own, &self.parts.test.labels)).transpose()
    }

    /// Returns the kernel machine's largest class probability of every test point, which divides the points of every
    /// method.
    pub(crate) fn confidence(&self) -> Vec<f32> {
        let largest = |row: usize| self.test_probabilities.row(row).iter().copied().fold(0.0, f32::max);
        (0..self.test_probabilities.rows()).map(largest).collect()
    }

    /// Prepares a score of the kernel machine's class probabilities.
    fn adapter(&self, score: RankedScore, seeded: bool) -> Result<Prepared> {
        let seed = seeded.then_some(self.seed);
        let labels = self.calibration_labels();
        let adapter = SplitConformal::new(&self.calibration_probabilities, labels, seed, self.context)?;
        Ok(Prepared::Adapter { adapter, score })
    }

    /// Prepares the score of deep k-NN.
    fn deep_knn(&self) -> Result<Prepared> {
        let score_of = |neighbors| DeepKnn::default().scores(neighbors, self.calibration_labels(), self.classes);
        let (calibration, test) = (score_of(&self.calibration_neighbors), score_of(&self.test_neighbors));
        self.labels(&calibration, test)
    }

    /// Prepares the score of CONFINE.
    fn confine(&self) -> Result<Prepared> {
        let points = self.index.points();
        // A calibration point is not its own neighbor.
        let itself: Vec<_> = (0..points.rows() as u32).map(Some).collect();
        let score_of = |queries, skip| {
            let reference = (points, self.calibration_labels());
            Confine::default().scores(self.device, reference, self.classes, queries, skip, self.context)
        };
        let (calibration, test) = (score_of(points, Some(&itself))?, score_of(&self.test_mapped, None)?);
        self.labels(&calibration, test)
    }

    /// Prepares a score of every label: `calibration` of the calibration points, `test` of the test points.
    fn labels(&self, calibration: &[Vec<f64>], test: Vec<Vec<f64>>) -> Result<Prepared> {
        let own = self.calibration_labels().iter().enumerate();
        let own = own.map(|(row, &label)| calibration[row][label as usize]).collect();
        Ok(Prepared::Labels { calibration: CalibrationScores::new(own)?, test })
    }

    /// Prepares a score of the class probabilities of Conf-OT.
    fn conf_ot(&self, score: RankedScore) -> Result<Ready> {
        let Some(prototypes) = &self.parts.test.prototypes else {
            return Err(Error::Data("Conf-OT needs prototypes".into()));
        };
        // Points stay as the encoder made them, like the prototypes.
        let (calibration, test) = (&self.parts.calibration.embeddings, &self.parts.test.embeddings);
        let stacked = [calibration.as_slice(), test.as_slice()].concat();
        let stacked = Matrix::new(stacked, calibration.rows() + test.rows(), test.cols())?;
        let context = self.context;
        let logits = conf_ot::logits(self.device, &stacked, prototypes, context)?;
        let biases = conf_ot::biases(&logits, self.calibration_labels(), context);
        let all = conf_ot::probabilities(&logits, &biases, context)?;
        let cut = calibration.rows();
        let own = all.select(&(0..cut).collect::<Vec<_>>());
        let probabilities = all.select(&(cut..all.rows()).collect::<Vec<_>>());
        let adapter = SplitConformal::new(&own, self.calibration_labels(), Some(self.seed), context)?;
        let best = Some(largest_of(&probabilities));
        let prepared = Prepared::Adapter { adapter, score };
        Ok(Ready { prepared, probabilities: Some(probabilities), best })
    }
}

/// Returns the class id of every name in `data`, which has all of them.
pub(crate) fn ids_in(data: &Dataset, names: &[String]) -> Vec<u32> {
    let classes = class_ids(&data.classes);
    names.iter().filter_map(|name| classes.get(name.as_str()).copied()).collect()
}

/// Returns sets with class ids replaced by `to[id]`.
pub(crate) fn renamed(sets: Sets, to: &[u32]) -> Sets {
    if to.is_sorted() && to.last().is_none_or(|&last| last as usize + 1 == to.len()) {
        return sets;
    }
    let renamed = |set: &[u32]| {
        let mut set: Vec<u32> = set.iter().map(|&label| to[label as usize]).collect();
        set.sort_unstable();
        set
    };
    sets.iter().map(renamed).collect()
}

/// Moves every column to its place in `to`, among `classes` columns; the others are 0.
pub(super) fn spread(columns: &Matrix, to: &[u32], classes: usize) -> Matrix {
    let mut all = Matrix::zeros(columns.rows(), classes);
    for row in 0..columns.rows() {
        let target = all.row_mut(row);
        for (&value, &place) in columns.row(row).iter().zip(to) {
            target[place as usize] = value;
        }
    }
    all
}

/// Returns the label of the largest value of every row, the first of equals.
pub(super) fn largest_of(values: &Matrix) -> Vec<u32> {
    let largest = |row: &[f32]| {
        let first = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
        (0..row.len()).fold(0, first) as u32
    };
    (0..values.rows()).map(|row| largest(values.row(row))).collect()
}
