//! Any way of calibrating and combining, from parts that are already mapped.

use dance::backend::Cpu;
use dance::kernel::Kernel;
use dance::methods::dance::{Answers, Calibration, CalibrationMode, Combine, DanceConfig, Scorer};
use dance::{Matrix, Result};

use crate::reference::{Data, squared};

pub(crate) const MODES: [CalibrationMode; 3] =
    [CalibrationMode::Reuse, CalibrationMode::Disjoint, CalibrationMode::Exact];
pub(crate) const COMBINES: [Combine; 3] = [Combine::Union, Combine::Joint, Combine::Fuse];

/// A calibration and what it was made of.
#[derive(Debug)]
pub(crate) struct Calibrated {
    fit: (Matrix, Vec<u32>),
    classes: usize,
    scorer: Scorer,
    pub(crate) calibration: Calibration,
}

impl Calibrated {
    pub(crate) fn new(
        backend: &Cpu,
        fit: &Data,
        calibration: &Data,
        classes: usize,
        kernel: Kernel,
        config: &DanceConfig,
    ) -> Result<Self> {
        let fused = config.combine == Combine::Fuse;
        let own = fused.then(|| {
            let all = probabilities(fit, &calibration.points, classes);
            calibration
                .labels
                .iter()
                .enumerate()
                .map(|(row, &y)| all.row(row)[y as usize])
                .collect::<Vec<_>>()
        });
        let scorer =
            |data: &Data| Scorer::new(data.points.clone(), data.labels.clone(), classes, kernel, config);
        let (scorer, calibrated) = match config.calibration {
            CalibrationMode::Reuse => {
                let scorer = scorer(calibration)?;
                let calibrated = Calibration::reuse(backend, &scorer, own.as_deref(), config)?;
                (scorer, calibrated)
            }
            CalibrationMode::Disjoint => {
                let scorer = scorer(fit)?;
                let (points, labels) = (&calibration.points, &calibration.labels);
                let own = own.as_deref();
                let calibrated = Calibration::disjoint(backend, &scorer, points, labels, own, config)?;
                (scorer, calibrated)
            }
            CalibrationMode::Exact => {
                let both = if config.fit_neighbors { calibration.join(fit) } else { calibration.clone() };
                let n = calibration.len();
                let scorer = scorer(&both)?.for_bag(n);
                let neighbors = scorer.neighbors_of_first(backend, n)?;
                let outside = (&fit.points, &fit.labels[..]);
                let calibrated = Calibration::exact(backend, &scorer, neighbors, own, outside, config)?;
                (scorer, calibrated)
            }
        };
        Ok(Self { fit: (fit.points.clone(), fit.labels.clone()), classes, scorer, calibration: calibrated })
    }

    pub(crate) fn answer(&self, backend: &Cpu, queries: &Matrix) -> Answers {
        let fit = Data { points: self.fit.0.clone(), labels: self.fit.1.clone() };
        let fused = self.calibration.combine == Combine::Fuse;
        let probabilities = fused.then(|| probabilities(&fit, queries, self.classes));
        self.calibration.answer(backend, &self.scorer, queries, 0, probabilities.as_ref()).unwrap()
    }
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
