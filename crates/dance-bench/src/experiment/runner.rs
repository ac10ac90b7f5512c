//! The sets of any method at any α, on one kernel: what methods share is computed once.

use super::case::{Parts, timed};
use super::method::Method;
use super::record::Seconds;
use crate::baselines::class_wise::{ClassCalibration, Cuts};
use crate::baselines::{conf_ot, confine::Confine, deep_knn::DeepKnn, ncp::Ncp};
use dance::data::Classes;
use dance::device::Device;
use dance::evaluation::ProbabilityMetrics;
use dance::neighbors::{Index, Neighbors};
use dance::scores::{self, Aps, LabelScores, Lac, NeighborScore, RankedScore, Raps, Saps, SplitConformal};
use dance::scores::{CalibrationScores, Cut, LabelCounts, Sets, least_count};
use dance::{Context, Dance, Dataset, Error, Fitted, Matrix, PredictOptions, Result, Scored};

/// Neighbors that the baselines share: as many as the one that looks at most.
const NEIGHBORS: usize = 75;

pub(crate) struct Runner<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) context: &'a Context<'a>,
    pub(super) fitted: &'a Fitted,
    pub(super) parts: Parts<'a>,
    pub(super) seed: u64,
    pub(super) classes: usize,
    pub(crate) calibration_points: Matrix,
    /// Calibration points, mapped.
    pub(crate) index: Index,
    test_mapped: Matrix,
    /// Of every calibration point among the others, and of the test points.
    calibration_neighbors: Neighbors,
    test_neighbors: Neighbors,
    pub(super) calibration_probabilities: Matrix,
    test_probabilities: Matrix,
    best: Vec<u32>,
    ready: Option<(Method, Ready)>,
}

/// What one method needs for every α.
pub(super) struct Ready {
    pub(super) prepared: Prepared,
    /// Of a method that has its own: class probabilities of the test points, and their best labels.
    pub(super) probabilities: Option<Matrix>,
    pub(super) best: Option<Vec<u32>>,
}

pub(super) enum Prepared {
    Dance(Box<(Dance, Scored)>),
    Labels { calibration: CalibrationScores, test: LabelScores },
    Adapter { adapter: SplitConformal, score: Box<dyn RankedScore> },
    ByClass { calibration: ClassCalibration, cuts: CutsAt },
    Counted(LabelCounts),
    Ncp,
}

/// What lets classes in, at an α and under a seed.
pub(super) type CutsAt = fn(&ClassCalibration, f64, u64) -> Result<Cuts>;

impl From<Prepared> for Ready {
    fn from(prepared: Prepared) -> Self {
        Self { prepared, probabilities: None, best: None }
    }
}

impl<'a> Runner<'a> {
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
        let (calibration, test) = timed(&mut seconds.probabilities, || {
            let of = |part: &Matrix| classifier.classify(part, context);
            Ok((of(&parts.calibration.embeddings)?, of(&parts.test.embeddings)?))
        })?;
        // A class that has no point among those that fitted the kernel has probability 0.
        let to = ids_in(parts.test, &fitted.classes);
        let all = |probabilities: &Matrix| spread(probabilities, &to, parts.test.classes.len());
        let (calibration_probabilities, test_probabilities) =
            (all(&calibration.probabilities), all(&test.probabilities));
        let best = test.labels.iter().map(|&label| to[label as usize]).collect();
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

    /// Why a method cannot run on this data.
    pub(crate) fn refusal(&self, method: Method) -> Option<String> {
        let needs = matches!(method, Method::ConfOtAps | Method::ConfOtRaps);
        (needs && self.parts.test.prototypes.is_none()).then(|| "needs prototypes".into())
    }

    /// Does what the sets of every α have in common.
    pub(crate) fn prepare(&mut self, method: Method, seconds: &mut Seconds) -> Result<()> {
        let ready = match method {
            Method::DeepKnn => self.deep_knn()?.into(),
            Method::Confine => self.confine()?.into(),
            Method::NcpRaps => Prepared::Ncp.into(),
            Method::ConfOtAps => self.conf_ot(Box::new(Aps))?,
            Method::ConfOtRaps => self.conf_ot(Box::new(Raps::default()))?,
            Method::Lac => self.adapter(Box::new(Lac), true)?.into(),
            Method::Raps => self.adapter(Box::new(Raps::default()), true)?.into(),
            Method::Saps => self.adapter(Box::new(Saps::default()), true)?.into(),
            Method::ApsDeterministic => self.adapter(Box::new(Aps), false)?.into(),
            Method::RapsDeterministic => self.adapter(Box::new(Raps::default()), false)?.into(),
            Method::SapsDeterministic => self.adapter(Box::new(Saps::default()), false)?.into(),
            Method::Aps => self.adapter(Box::new(Aps), true)?.into(),
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

    /// DANCE under the settings of `method`.
    fn dance(&self, method: Method, seconds: &mut Seconds) -> Result<Ready> {
        let context = self.context;
        let mut fitted = self.fitted.clone();
        let config = method.dance(fitted.config.conformal);
        fitted.config.conformal = config.ok_or_else(|| Error::Data(format!("{method} has no settings")))?;
        let (mut calibrating, mut inferring) = (0.0, 0.0);
        let model =
            timed(&mut calibrating, || fitted.calibrate(self.device, self.parts.calibration, context))?;
        // Combined evidence classifies too; other sets go with the kernel machine's labels.
        let own = model.stack().is_some();
        let options = PredictOptions::default().best(own).probabilities(own);
        let mut scored =
            timed(&mut inferring, || model.score(&self.parts.test.embeddings, options, context))?;
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

    /// The sets of the prepared method at one α, and the mix where it has one.
    pub(crate) fn sets(&self, method: Method, alpha: f64) -> Result<(Sets, Option<f64>)> {
        let ready = match &self.ready {
            Some((own, ready)) if *own == method => ready,
            _ => return Err(Error::Data(format!("{method} was not prepared"))),
        };
        let probabilities = ready.probabilities.as_ref().unwrap_or(&self.test_probabilities);
        let sets = match &ready.prepared {
            Prepared::Dance(ready) => {
                let (model, scored) = &**ready;
                let prediction = model.predict(scored, &model.decide(alpha)?);
                let to = ids_in(self.parts.test, model.classes());
                return Ok((renamed(prediction.sets, &to), prediction.decision.mix));
            }
            Prepared::Labels { calibration, test } => {
                Sets::from_scores(test, calibration.threshold(alpha)?.value, self.classes)
            }
            Prepared::Adapter { adapter, score } => {
                let threshold = adapter.threshold(&**score, alpha)?.value;
                adapter.sets(probabilities, &[(&**score, threshold)], self.context).remove(0)
            }
            Prepared::ByClass { calibration, cuts } => {
                let cuts = cuts(calibration, alpha, self.seed)?;
                calibration.sets(probabilities, &cuts, self.context)
            }
            Prepared::Counted(counts) => {
                let least = least_count(alpha, counts.calibration_points());
                counts.sets(Cut::One(least), self.classes)
            }
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

    /// The labels whose accuracy a method has: the kernel machine's, or its own.
    pub(crate) fn best(&self) -> &[u32] {
        self.ready.as_ref().and_then(|(_, ready)| ready.best.as_deref()).unwrap_or(&self.best)
    }

    /// How good the kernel's class probabilities are.
    pub(crate) fn judge_probabilities(&self) -> Result<ProbabilityMetrics> {
        ProbabilityMetrics::new(&self.test_probabilities, &self.parts.test.labels)
    }

    /// How good those of the prepared method are, where it has its own.
    pub(crate) fn judge_posterior(&self) -> Result<Option<ProbabilityMetrics>> {
        let own = self.ready.as_ref().and_then(|(_, ready)| ready.probabilities.as_ref());
        own.map(|own| ProbabilityMetrics::new(own, &self.parts.test.labels)).transpose()
    }

    /// The kernel's largest class probability of every test point: by it all methods are judged on the same points.
    pub(crate) fn confidence(&self) -> Vec<f32> {
        let largest = |row: usize| self.test_probabilities.row(row).iter().copied().fold(0.0, f32::max);
        (0..self.test_probabilities.rows()).map(largest).collect()
    }

    fn adapter(&self, score: Box<dyn RankedScore>, seeded: bool) -> Result<Prepared> {
        let seed = seeded.then_some(self.seed);
        let labels = self.calibration_labels();
        let adapter = SplitConformal::new(&self.calibration_probabilities, labels, seed, self.context)?;
        Ok(Prepared::Adapter { adapter, score })
    }

    fn deep_knn(&self) -> Result<Prepared> {
        let score = DeepKnn::default();
        let of = |neighbors| {
            let scores: [&dyn NeighborScore; 1] = [&score];
            let (points, labels) = (self.index.points(), self.calibration_labels());
            let [scores] =
                scores::of_neighbors(scores, neighbors, points, labels, self.classes, self.context);
            scores
        };
        let (calibration, test) = (of(&self.calibration_neighbors), of(&self.test_neighbors));
        self.labels(&calibration, test)
    }

    fn confine(&self) -> Result<Prepared> {
        let points = self.index.points();
        let itself: Vec<_> = (0..points.rows() as u32).map(Some).collect();
        let of = |queries, skip| {
            let reference = (points, self.calibration_labels());
            Confine::default().scores(self.device, reference, self.classes, queries, skip, self.context)
        };
        let (calibration, test) = (of(points, Some(&itself))?, of(&self.test_mapped, None)?);
        self.labels(&calibration, test)
    }

    fn labels(&self, calibration: &LabelScores, test: LabelScores) -> Result<Prepared> {
        let own = self.calibration_labels().iter().enumerate();
        let own = own.map(|(row, &label)| calibration.get(row, label)).collect();
        Ok(Prepared::Labels { calibration: CalibrationScores::new(own)?, test })
    }

    fn conf_ot(&self, score: Box<dyn RankedScore>) -> Result<Ready> {
        let Some(prototypes) = &self.parts.test.prototypes else {
            return Err(Error::Data("Conf-OT needs prototypes".into()));
        };
        // As the encoder gave them: the text side knows nothing of our normalisation.
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

/// For each of the names, its number among the classes of `data`, which has them all.
pub(crate) fn ids_in(data: &Dataset, names: &[String]) -> Vec<u32> {
    let classes = Classes::new(&data.classes);
    names.iter().filter_map(|name| classes.id(name)).collect()
}

/// Sets with other numbers for their labels.
pub(crate) fn renamed(mut sets: Sets, to: &[u32]) -> Sets {
    if to.is_sorted() && to.last().is_none_or(|&last| last as usize + 1 == to.len()) {
        return sets;
    }
    for row in 0..sets.len() {
        let set = &mut sets.labels[sets.offsets[row]..sets.offsets[row + 1]];
        for label in set.iter_mut() {
            *label = to[*label as usize];
        }
        set.sort_unstable();
    }
    sets
}

/// Columns moved to where `to` says, among `classes`; 0 elsewhere.
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

/// The first label of the largest value of every row.
pub(super) fn largest_of(values: &Matrix) -> Vec<u32> {
    let largest = |row: &[f32]| {
        let first = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
        (0..row.len()).fold(0, first) as u32
    };
    (0..values.rows()).map(|row| largest(values.row(row))).collect()
}
