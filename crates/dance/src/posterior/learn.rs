//! Learns the settings of a stack from the fit points, by cross-fitting on two halves.
//!
//! One half serves as fit points and the other as calibration points, then the halves are exchanged. So the whitening
//! and the metric never use the points that are predicted, as with real calibration points. The log losses of the
//! predictions choose the shrinkage, priors, ridges and weights. The kernel on raw points is chosen by its
//! leave-one-out log loss instead, because the raw space is made without labels.

use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::machine::{Part, Rfm, RfmConfig};
use crate::numeric::linalg;
use crate::numeric::matrix::Matrix;
use crate::numeric::random::Random;
use crate::posterior::expert::{Expert, Nearest, Prototypes, TrainingSet};
use crate::posterior::maps::Link;
use crate::posterior::maps::Targets;
use crate::posterior::maps::{Center, Spaces};
use crate::posterior::ridge::{Ridge, RidgeSettings, WHOLE};
use crate::posterior::settings::{ExpertSettings, Space, StackSettings};
use crate::posterior::weights::{self, ConditionalLogit, StackWeights};
use crate::posterior::whitening::{Whitening, packed_columns, shrinkage};
use crate::scores::calibration::Clusters;

/// The largest number of fit points in each half when experts are cross-fitted: trained on one half, tested on the
/// other.
const HALF: usize = 2000;
/// The largest number of fit points on which kernels for raw points are compared.
const KERNEL_SAMPLE: usize = 600;
/// Kernel bandwidths that are compared, as multiples of the median distance between points.
const BANDWIDTHS: [f64; 3] = [1.0, 2.0, 4.0];
/// Kernel shapes that are compared: 0.5 is the Gaussian kernel, 1 the Laplace kernel.
const SHAPES: [f64; 2] = [0.5, 1.0];
/// Ridges that are compared for the kernel on raw points. A ridge is added to the diagonal of the kernel matrix.
const RIDGES: [f64; 4] = [1e-3, 1e-2, 1e-1, 1.0];
/// The softness s of the [link function](crate::posterior::maps) in all kernel ridge regressions.
const SOFTNESS: f64 = 0.05;
/// The smallest number of fit points that are divided into halves. With fewer points, [`Prototypes`] are the only
/// expert.
const MIN_POINTS: usize = 16;
/// The lower limit of squared distances in the nearest-neighbor expert, as a share of the median squared distance
/// between points.
const FLOOR: f64 = 1e-6;
/// The tag of the random stream that divides the fit points into halves.
const HALF_STREAM: u64 = 0x4a1f;

/// The inputs of [`learn`], which chooses the settings of a stack of experts.
#[derive(Clone, Copy)]
pub(crate) struct LearnInputs<'a> {
    pub(crate) device: &'a dyn Device,
    /// The fitted kernel machine, with the fit points.
    pub(crate) rfm: &'a Rfm,
    /// The configuration with which `rfm` was fitted.
    pub(crate) config: &'a RfmConfig,
    /// `true` if points are normalised to length 1. Then experts compare directions of points from their mean, except
    /// in the learned space.
    pub(crate) directed: bool,
    pub(crate) seed: u64,
    pub(crate) context: &'a Context<'a>,
}

/// Chooses the settings of a stack from the fit points: experts, weights, whitening map, clusters of classes and class
/// offsets.
pub(crate) fn learn(inputs: LearnInputs<'_>) -> Result<StackSettings> {
    let LearnInputs { rfm, seed, context, .. } = inputs;
    let (labels, classes) = (&rfm.labels, rfm.beta.cols());
    let points = Center::new(inputs.directed, &rfm.train).directions(Matrix::<f64>::from_f32(&rfm.train));
    let mut rows: Vec<usize> = (0..labels.len()).collect();
    Random::new(seed, HALF_STREAM).shuffle(&mut rows);
    // With too few points to halve, prototypes are the only expert.
    if rows.len() < MIN_POINTS {
        let whitening = Whitening::new(&points, labels, classes, None, context);
        let alone = vec![prototypes_alone(&whitening)];
        let whitening = Some(whitening.map);
        let mut settings = StackSettings::new(alone, whitening, f64::NAN, Clusters::default(), seed);
        settings.centred = inputs.directed;
        return Ok(settings);
    }
    // Cross-fit every candidate on two halves.
    let raw = raw_kernel(&points, labels, classes, &rows, context)?;
    let (first, second) = rows.split_at(rows.len() / 2);
    let halves = [[first, second], [second, first]];
    let shrinkage = shrinkage(&points, labels, classes, halves, context)?;
    let whitening = Whitening::new(&points, labels, classes, Some(shrinkage), context);
    let mut candidates = Candidates::default();
    for half in halves {
        context.check()?;
        let half = half.map(|rows| rows[..rows.len().min(HALF)].to_vec());
        candidates.add(inputs, &half, raw, shrinkage)?;
    }
    // Bandwidths and limits of distances follow from the median distances among all fit points.
    let learned = Matrix::<f64>::from_f32(&rfm.train).times(&packed_columns(&rfm.metric_root, context), context);
    let unit = |points: &Matrix<f64>| median(points, &rows, context);
    let medians = Medians {
        raw: unit(&points),
        white: unit(&points.times(&packed_columns(&whitening.map, context), context)),
        learned: unit(&learned),
    };
    // Choose the experts; their cross-fitted log posteriors give clusters and class offsets.
    let (weighted, chosen, log_posterior) = candidates.choose(context);
    let scores = ConditionalLogit { tables: vec![&log_posterior], labels: &candidates.labels, context }.losses(&[1.0]);
    let clusters = Clusters::new(&scores, &candidates.labels, classes);
    let offsets = weights::offsets(&log_posterior, &candidates.labels, second.len().min(HALF), classes);
    let mut experts = Vec::new();
    for (name, &weight) in chosen.iter().zip(&weighted.weights) {
        if weight > 0.0 {
            experts.push(name.settings(weight, &whitening, raw, rfm.kernel, medians));
        }
    }
    // No expert has a weight above 0 if labels do not depend on points.
    if experts.is_empty() {
        experts.push(prototypes_alone(&whitening));
    }
    let white = experts.iter().any(|expert: &ExpertSettings| expert.uses(Space::White));
    let whitening = white.then_some(whitening.map);
    let mut settings = StackSettings::new(experts, whitening, weighted.loss, clusters, seed);
    settings.centred = inputs.directed;
    settings.offsets = offsets;
    Ok(settings)
}

fn prototypes(whitening: &Whitening, weight: f64, prior: f64) -> ExpertSettings {
    ExpertSettings::Prototypes { weight, shrinkage: whitening.shrinkage, prior }
}

/// Returns the settings of [`Prototypes`] as the only expert of a stack.
fn prototypes_alone(whitening: &Whitening) -> ExpertSettings {
    prototypes(whitening, 1.0 / whitening.spread.max(1e-12), 1.0)
}

/// The median squared distance between fit points, in every space of the experts.
#[derive(Clone, Copy)]
struct Medians {
    raw: f64,
    white: f64,
    learned: f64,
}

/// The settings of kernel ridge regression on raw points. The bandwidth is a multiple of the median distance between
/// points.
#[derive(Clone, Copy, Debug)]
struct RawKernel {
    bandwidth: f64,
    shape: f64,
    ridge: f64,
}

/// Returns the median of the positive squared distances among a sample of the points: the first [`KERNEL_SAMPLE`] of
/// `rows`.
fn median(points: &Matrix<f64>, rows: &[usize], context: &Context<'_>) -> f64 {
    let sample = points.select(&rows[..rows.len().min(KERNEL_SAMPLE)]);
    let squared = Targets::new(&sample, context).squared(&sample, context);
    let mut all: Vec<f64> = squared.as_slice().iter().copied().filter(|&value| value > 0.0).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(1.0)
}

/// Returns the kernel and the ridge of the best regression on raw points. The best one has the least log loss if all
/// other points predict each point.
fn raw_kernel(
    points: &Matrix<f64>,
    labels: &[u32],
    classes: usize,
    rows: &[usize],
    context: &Context<'_>,
) -> Result<RawKernel> {
    let rows = &rows[..rows.len().min(KERNEL_SAMPLE)];
    let (sample, n) = (points.select(rows), rows.len());
    let labels: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
    let squared = Targets::new(&sample, context).squared(&sample, context);
    let unit = median(points, rows, context);
    let mut best = (f64::INFINITY, RawKernel { bandwidth: 1.0, shape: 0.5, ridge: 0.1 });
    for shape in SHAPES {
        for bandwidth in BANDWIDTHS {
            context.check()?;
            let kernel = Kernel::new(bandwidth * unit.sqrt(), shape)?;
            let mut matrix = squared.clone();
            matrix.as_mut_slice().iter_mut().for_each(|value| *value = kernel.value(*value));
            let found = context.run(|| linalg::symmetric_eigen(linalg::row_major(matrix.as_slice(), n, n)));
            let Some((values, vectors)) = found else { continue };
            // One eigendecomposition gives the outputs for every ridge.
            for ridge in RIDGES {
                let inverse: Vec<f64> = values.iter().map(|value| 1.0 / (value.max(0.0) + ridge)).collect();
                // B = U·diag(inverse)·Uᵀ is the inverse of kernel plus ridge, with eigenvectors U. With one-hot labels
                // Y, the leave-one-out output of point i is Y_i - (BY)_i/B_ii.
                let mut rotated = Matrix::<f64>::zeros(classes, n);
                for (row, &label) in labels.iter().enumerate() {
                    for (at, sum) in rotated.row_mut(label as usize).iter_mut().enumerate() {
                        *sum += vectors[(row, at)] * inverse[at];
                    }
                }
                let scaled = Matrix::<f64>::from_fn(n, n, |row, at| vectors[(row, at)]);
                let mut outputs = scaled.times(&rotated.packed(context), context);
                let link = Link::new(SOFTNESS);
                for (row, &label) in labels.iter().enumerate() {
                    let own: f64 = (0..n).map(|at| vectors[(row, at)].powi(2) * inverse[at]).sum();
                    outputs.row_mut(row).iter_mut().for_each(|value| *value = -*value / own);
                    outputs.row_mut(row)[label as usize] += 1.0;
                    outputs.row_mut(row).iter_mut().for_each(|output| *output = link.apply(*output));
                }
                let loss = ConditionalLogit { tables: vec![&outputs], labels: &labels, context }.fit(&[0]).loss;
                if loss < best.0 {
                    best = (loss, RawKernel { bandwidth, shape, ridge });
                }
            }
        }
    }
    Ok(best.1)
}

/// An expert that may enter the stack, with the one setting in which candidates of its family differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Candidate {
    Prototypes { prior: f64 },
    Raw,
    White { ridge: f64 },
    Learned { ridge: f64 },
    Nearest,
}

impl Candidate {
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Raw, Self::Nearest];
        all.extend([0.25, 0.5, 1.0, 2.0, 4.0, 8.0].map(|prior| Self::Prototypes { prior }));
        all.extend([1e-2, 1e-1, 1.0].map(|ridge| Self::White { ridge }));
        all.extend([1e-3, 1e-2, 1e-1].map(|ridge| Self::Learned { ridge }));
        all
    }

    /// Returns the index of the candidate's family. Candidates of one family are the same expert with different
    /// settings.
    fn family(self) -> usize {
        match self {
            Self::Prototypes { .. } => 0,
            Self::Raw => 1,
            Self::White { .. } => 2,
            Self::Learned { .. } => 3,
            Self::Nearest => 4,
        }
    }

    /// Returns the settings of an expert that correspond to the candidate. The median squared distances in `medians`
    /// give the bandwidth of a kernel or the limits of distances.
    fn settings(
        self,
        weight: f64,
        whitening: &Whitening,
        raw: RawKernel,
        learned: Kernel,
        medians: Medians,
    ) -> ExpertSettings {
        let ridge = |space, bandwidth, shape, ridge| ExpertSettings::Ridge {
            weight,
            space,
            bandwidth,
            shape,
            ridge,
            softness: SOFTNESS,
        };
        match self {
            Self::Prototypes { prior } => prototypes(whitening, weight, prior),
            Self::Raw => ridge(Space::Raw, raw.bandwidth * medians.raw.sqrt(), raw.shape, raw.ridge),
            Self::White { ridge: rho } => ridge(Space::White, raw.bandwidth * medians.white.sqrt(), raw.shape, rho),
            Self::Learned { ridge: rho } => ridge(Space::Learned, learned.bandwidth(), learned.shape(), rho),
            Self::Nearest => {
                let [floor, ceiling] = range(medians.learned);
                ExpertSettings::Nearest { weight, floor, ceiling }
            }
        }
    }
}

/// Returns the floor and the ceiling to which the nearest-neighbor expert limits squared distances. `median` is the
/// median squared distance between points.
fn range(median: f64) -> [f64; 2] {
    [FLOOR * median, 2.0 * median]
}

/// Log posteriors of the fit points, one table per candidate. They are cross-fitted: experts trained without a half of
/// the points predict this half.
#[derive(Default)]
struct Candidates {
    tables: Vec<Matrix<f64>>,
    labels: Vec<u32>,
}

impl Candidates {
    /// Trains every candidate with the first half of `halves` as fit points and the second half as calibration points.
    /// Then appends the log posteriors of the second half to the candidate's table.
    fn add(&mut self, inputs: LearnInputs<'_>, halves: &[Vec<usize>; 2], raw: RawKernel, shrinkage: f64) -> Result<()> {
        let LearnInputs { device, rfm, config, seed, context, .. } = inputs;
        let classes = rfm.beta.cols();
        let [trained, held_out] = halves;
        let part = |rows: &[usize]| Part {
            embeddings: rfm.train.select(rows),
            labels: rows.iter().map(|&row| rfm.labels[row]).collect(),
        };
        let (trained, held_out) = (part(trained), part(held_out));
        // The whitening and the metric are computed from the first half alone.
        let center = Center::new(inputs.directed, &trained.embeddings);
        let directions = center.directions(Matrix::<f64>::from_f32(&trained.embeddings));
        let white = Whitening::new(&directions, &trained.labels, classes, Some(shrinkage), context);
        let root = if rfm.rounds == 0 {
            rfm.metric_root.clone()
        } else {
            let config = RfmConfig { rounds: rfm.rounds, ..*config };
            Rfm::fit(device, trained.clone(), None, classes, rfm.kernel, &config, &context.quiet())?.metric_root
        };
        // The held-out half takes the role of the calibration points.
        let spaces = Spaces::new(center, Some(&white.map), &root, context);
        let of = |part: &Part| spaces.map(&part.embeddings, context);
        let points = of(&trained).concat(&of(&held_out));
        let labels = [&trained.labels[..], &held_out.labels[..]].concat();
        let training = TrainingSet { points: &points, labels: &labels, fit: trained.labels.len(), classes };
        let every: Vec<usize> = (0..trained.labels.len()).collect();
        let unit = |space: Space| median(points.get(space), &every, context);
        let medians = Medians { raw: unit(Space::Raw), white: unit(Space::White), learned: unit(Space::Learned) };
        let candidates = Candidate::all();
        self.tables.resize_with(candidates.len(), Matrix::<f64>::default);
        for (table, candidate) in self.tables.iter_mut().zip(candidates) {
            context.check()?;
            let settings = candidate.settings(1.0, &white, raw, rfm.kernel, medians);
            let expert = open(&settings, &training, (WHOLE, seed), context)?;
            *table = std::mem::take(table).concat(expert.bag());
        }
        self.labels.extend_from_slice(&held_out.labels);
        Ok(())
    }

    /// Chooses the best candidate of every family, and weights these. Returns the weights, the chosen candidates, and
    /// the log posteriors of their stack.
    fn choose(&self, context: &Context<'_>) -> (StackWeights, Vec<Candidate>, Matrix<f64>) {
        let candidates = Candidate::all();
        let mut best: Vec<(f64, usize)> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let loss =
                ConditionalLogit { tables: vec![&self.tables[at]], labels: &self.labels, context }.fit(&[0]).loss;
            let family = candidate.family();
            if best.len() <= family {
                best.resize(family + 1, (f64::INFINITY, at));
            }
            if loss < best[family].0 {
                best[family] = (loss, at);
            }
        }
        let chosen: Vec<usize> = best.iter().map(|&(_, at)| at).collect();
        let tables = chosen.iter().map(|&at| &self.tables[at]).collect();
        let logit = ConditionalLogit { tables, labels: &self.labels, context };
        let weighted = logit.choose();
        let log_posterior = logit.weighted(&weighted.weights);
        (weighted, chosen.iter().map(|&at| candidates[at]).collect(), log_posterior)
    }
}

/// Trains the expert that `settings` describes. `landmarks` holds the largest number of points for which regression
/// uses no landmarks, and the seed that draws landmarks. Landmarks are the points that span a kernel.
pub(super) fn open(
    settings: &ExpertSettings,
    training: &TrainingSet<'_>,
    landmarks: (usize, u64),
    context: &Context<'_>,
) -> Result<Box<dyn Expert>> {
    Ok(match *settings {
        ExpertSettings::Prototypes { prior, .. } => Box::new(Prototypes::open(training, prior, context)),
        ExpertSettings::Ridge { space, bandwidth, shape, ridge, softness, .. } => {
            let (kernel, link) = (Kernel::new(bandwidth, shape)?, Link::new(softness));
            let settings = RidgeSettings { space, kernel, ridge, link };
            Box::new(Ridge::open(training, settings, landmarks, context)?)
        }
        ExpertSettings::Nearest { floor, ceiling, .. } => Box::new(Nearest::open(training, [floor, ceiling], context)),
    })
}
