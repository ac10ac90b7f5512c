//! Predictors of the methods dance and [`fuse`](MethodName::Fuse) for tests, from points that are already mapped.

use crate::Context;
use crate::conformal::{
    Calibration, ConformalConfig, Decider, MethodName, PredictOptions, Predictor, QueryBlock, Scored, Setup,
};
use crate::device::Cpu;
use crate::kernel::Kernel;
use crate::machine::{Classified, Part};
use crate::method::Method;
use crate::scores::CalibrationScores;
use crate::{Matrix, Result};

use super::reference::{Data, squared};

/// The methods that the tests calibrate, each with the roles of calibration points that it allows.
pub(crate) const WAYS: [(Calibration, MethodName); 3] = [
    (Calibration::Reuse, MethodName::Dance),
    (Calibration::Split, MethodName::Dance),
    (Calibration::Full, MethodName::Fuse),
];

pub(crate) fn part(data: &Data) -> Part {
    Part { embeddings: data.points.clone(), labels: data.labels.clone() }
}

/// A predictor under test, with the fit points from which the tests' own classifier computes probabilities.
#[derive(Debug)]
pub(crate) struct Calibrated {
    fit: Data,
    classes: usize,
    pub(crate) predictor: Predictor,
}

impl Calibrated {
    pub(crate) fn new(
        context: &Context<'_>,
        fit: &Data,
        calibration: &Data,
        classes: usize,
        kernel: Kernel,
        config: &ConformalConfig,
    ) -> Result<Self> {
        let setup = Setup { device: &Cpu, classes, kernel, context };
        let predictor = match config.method()? {
            Method::Dance(method) => Predictor::dance(method, part(calibration), || Ok(part(fit)), setup)?,
            Method::Fuse(method) => {
                let all = probabilities(fit, &calibration.points, classes);
                let own = calibration.labels.iter().enumerate().map(|(row, &y)| all.row(row)[y as usize]);
                Predictor::fuse(method, part(calibration), &part(fit), own.collect(), setup)?
            }
            Method::Posterior(_) => panic!("the method posterior needs a fitted machine"),
        };
        Ok(Self { fit: fit.clone(), classes, predictor })
    }

    pub(crate) fn score(&self, context: &Context<'_>, queries: &Matrix) -> Scored {
        let classify = || {
            let probabilities = probabilities(&self.fit, queries, self.classes);
            Ok(Classified { labels: vec![0; queries.rows()], probabilities })
        };
        score(&self.predictor, context, queries, &classify)
    }
}

/// Returns the rank scores and the contrastive scores of the calibration points' own labels; `None` for methods other
/// than dance.
pub(crate) fn calibration_scores(predictor: &Predictor) -> Option<[&CalibrationScores; 2]> {
    match predictor.decider() {
        Decider::Thresholds(thresholds) => Some([&thresholds.rank, &thresholds.contrast]),
        Decider::Bag(_) | Decider::Posterior(_) => None,
    }
}

/// Scores queries with a predictor under test. The queries are already mapped, and `classify` returns their class
/// probabilities.
pub(crate) fn score(
    predictor: &Predictor,
    context: &Context<'_>,
    queries: &Matrix,
    classify: &dyn Fn() -> Result<Classified>,
) -> Scored {
    let block = QueryBlock { normalised: queries, mapped: queries, classify };
    predictor.score(block, PredictOptions::default().best(false), context).unwrap()
}

/// Returns class probabilities by a plain classifier that knows only the fit points. The probability of a class is
/// proportional to `exp(-d)`, with the squared distance d to its nearest point.
pub(crate) fn probabilities(fit: &Data, queries: &Matrix, classes: usize) -> Matrix {
    let mut all: Matrix = Matrix::zeros(queries.rows(), classes);
    for query in 0..queries.rows() {
        let row = all.row_mut(query);
        for (at, &label) in fit.labels.iter().enumerate() {
            let near = (-squared(fit.points.row(at), queries.row(query))).exp() as f32;
            row[label as usize] = row[label as usize].max(near);
        }
        let sum: f32 = row.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        for value in row {
            *value /= sum;
        }
    }
    all
}
