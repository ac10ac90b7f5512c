//! The sets of any method at any α, on one kernel: what methods share is computed once.

use super::case::{Parts, timed};
use super::method::Method;
use super::record::Seconds;
use dance::conformal::methods::{adapter::Adapter, conf_ot, ncp::Ncp};
use dance::conformal::scores::{
    self, Aps, Confine, DeepKnn, LabelScores, Lac, NeighborScore, RankedScore, Raps, Saps,
};
use dance::conformal::{CalibrationScores, ProbabilityMetrics, Sets};
use dance::data::Classes;
use dance::device::Device;
use dance::neighbors::{Index, Neighbors};
use dance::{Context, Dance, Dataset, Error, Fitted, Matrix, PredictOptions, Result, Scored};

/// Neighbors that the baselines share: as many as the one that looks at most.
const NEIGHBORS: usize = 75;

pub(crate) struct Runner<'a> {
    device: &'a dyn Device,
    context: &'a Context<'a>,
    fitted: &'a Fitted,
    parts: Parts<'a>,
    seed: u64,
    classes: usize,
    pub(crate) calibration_points: Matrix,
    /// Calibration points, mapped.
    pub(crate) index: Index,
    test_mapped: Matrix,
    /// Of every calibration point among the others, and of the test points.
    calibration_neighbors: Neighbors,
    test_neighbors: Neighbors,
    calibration_probabilities: Matrix,
    test_probabilities: Matrix,
    best: Vec<u32>,
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
    pub(crate) fn prepare(&mut self, method: Method, seconds: &mut Seconds) -> Result<()> {
        let context = self.context;
        let prepared = if let Some(config) = method.dance(self.fitted.config.dance) {
            let mut fitted = self.fitted.clone();
            fitted.config.dance = config;
            let (mut calibrating, mut inferring) = (0.0, 0.0);
            let model =
                timed(&mut calibrating, || fitted.calibrate(self.device, self.parts.calibration, context))?;
            let options = PredictOptions::default().best(false);
            let scored =
                timed(&mut inferring, || model.score(&self.parts.test.embeddings, options, context))?;
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
                Method::Aps => self.adapter(Box::new(Aps), true)?,
                Method::Dance
                | Method::KnnSet
                | Method::ClrSet
                | Method::DanceDisjoint
                | Method::ExactFuse
                | Method::ExactJoint
                | Method::ExactUnion
                | Method::ReuseFuse
                | Method::ReuseJoint
                | Method::DisjointFuse => return Err(Error::Data(format!("{method} has no settings"))),
            }
        };
        self.prepared = Some((method, prepared));
        Ok(())
    }

    /// The sets of the prepared method at one α, and the mix where it has one.
    pub(crate) fn sets(&self, method: Method, alpha: f64) -> Result<(Sets, Option<f64>)> {
        let prepared = match &self.prepared {
            Some((ready, prepared)) if *ready == method => prepared,
            _ => return Err(Error::Data(format!("{method} was not prepared"))),
        };
        match prepared {
            Prepared::Dance(ready) => {
                let (model, scored) = &**ready;
                let prediction = model.predict(scored, &model.decide(alpha)?);
                let to = ids_in(self.parts.test, model.classes());
                Ok((renamed(prediction.sets, &to), prediction.decision.mix))
            }
            Prepared::Labels { calibration, test } => {
                Ok((Sets::from_scores(test, calibration.threshold(alpha)?.value, self.classes), None))
            }
            Prepared::Adapter { adapter, score } => {
                let threshold = adapter.threshold(&**score, alpha)?.value;
                Ok((
                    adapter.sets(&self.test_probabilities, &[(&**score, threshold)], self.context).remove(0),
                    None,
                ))
            }
            Prepared::ConfOt { adapter, score, probabilities, .. } => {
                let threshold = adapter.threshold(&**score, alpha)?.value;
                Ok((adapter.sets(probabilities, &[(&**score, threshold)], self.context).remove(0), None))
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
                let sets =
                    ncp.sets(&self.test_neighbors, &self.test_probabilities, setting, alpha, self.context)?;
                Ok((sets, None))
            }
        }
    }

    /// The labels whose accuracy a method has: the kernel machine's, or the zero-shot classifier's.
    pub(crate) fn best(&self) -> &[u32] {
        match &self.prepared {
            Some((_, Prepared::ConfOt { best, .. })) => best,
            _ => &self.best,
        }
    }

    /// How good the kernel's class probabilities are.
    pub(crate) fn judge_probabilities(&self) -> Result<ProbabilityMetrics> {
        ProbabilityMetrics::new(&self.test_probabilities, &self.parts.test.labels)
    }

    fn adapter(&self, score: Box<dyn RankedScore>, seeded: bool) -> Result<Prepared> {
        let seed = seeded.then_some(self.seed);
        let labels = self.calibration_labels();
        let adapter = Adapter::new(&self.calibration_probabilities, labels, seed, self.context)?;
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

    fn conf_ot(&self, score: Box<dyn RankedScore>) -> Result<Prepared> {
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
        let adapter = Adapter::new(&own, self.calibration_labels(), Some(self.seed), context)?;
        let best = largest_of(&probabilities);
        Ok(Prepared::ConfOt { adapter, score, probabilities, best })
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
fn spread(columns: &Matrix, to: &[u32], classes: usize) -> Matrix {
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
fn largest_of(values: &Matrix) -> Vec<u32> {
    let largest = |row: &[f32]| {
        let first = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
        (0..row.len()).fold(0, first) as u32
    };
    (0..values.rows()).map(|row| largest(values.row(row))).collect()
}
