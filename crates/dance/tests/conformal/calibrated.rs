//! Any way of calibrating and combining, from parts that are already mapped.

use dance::Context;
use dance::conformal::{
    Answers, ByClass, Calibration, ConformalConfig, Difficulty, MethodName, Predictor, Setup,
};
use dance::device::Cpu;
use dance::kernel::Kernel;
use dance::machine::Part;
use dance::{Matrix, Result};

use crate::reference::{Data, squared};

pub(crate) const MODES: [Calibration; 3] = [Calibration::Reuse, Calibration::Split, Calibration::Full];
pub(crate) const COMBINES: [MethodName; 3] = [MethodName::Dance, MethodName::Joint, MethodName::Fuse];

/// A predictor and what it was made of.
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
        let fair = config.by_class == ByClass::Balanced;
        let own = (config.method == MethodName::Fuse || fair).then(|| {
            let all = probabilities(fit, &calibration.points, classes);
            let own = calibration.labels.iter().enumerate().map(|(row, &y)| all.row(row)[y as usize]);
            own.collect::<Vec<_>>()
        });
        let part = |data: &Data| Part { embeddings: data.points.clone(), labels: data.labels.clone() };
        let setup = Setup { device: &Cpu, classes, kernel, config, context };
        let predictor = match config.calibration {
            Calibration::Reuse => Predictor::reuse(part(calibration), own.as_deref(), setup)?,
            Calibration::Split => Predictor::disjoint(part(fit), &part(calibration), own.as_deref(), setup)?,
            Calibration::Full if fair || config.by_class == ByClass::Clusters => {
                let difficulty = difficulty(fit, classes);
                Predictor::exact_by_class(part(calibration), &part(fit), own, difficulty, setup)?
            }
            Calibration::Full => Predictor::exact(part(calibration), &part(fit), own, setup)?,
        };
        Ok(Self { fit: fit.clone(), classes, predictor })
    }

    pub(crate) fn answer(&self, context: &Context<'_>, queries: &Matrix) -> Answers {
        let asks = self.predictor.asks_probabilities();
        let probabilities = asks.then(|| probabilities(&self.fit, queries, self.classes));
        self.predictor.answer(queries, probabilities.as_ref(), context).unwrap()
    }
}

/// How hard fit points are to the classifier below when it knows the other half of them.
fn difficulty(fit: &Data, classes: usize) -> Difficulty {
    let halves = [fit.range(0..fit.len() / 2), fit.range(fit.len() / 2..fit.len())];
    let judge = |judged: &Data, by: &Data| {
        let all = probabilities(by, &judged.points, classes);
        let own = judged.labels.iter().enumerate().map(|(row, &label)| all.row(row)[label as usize]);
        own.collect::<Vec<_>>()
    };
    let own = [judge(&halves[0], &halves[1]), judge(&halves[1], &halves[0])].concat();
    Difficulty::new(own, &fit.labels, classes)
}

/// A plain classifier that knows only the fit points: softmax of the distance to each class's nearest.
fn probabilities(fit: &Data, queries: &Matrix, classes: usize) -> Matrix {
    let mut all = Matrix::zeros(queries.rows(), classes);
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
