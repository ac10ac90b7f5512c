//! How the fit part sets the stack.
//!
//! Experts set by one half of the fit points judge the other as they will judge the bag, both ways: so the space in which points of a
//! class scatter alike and the metric are those of points that they had not seen, and half the points set what the other half is
//! judged by, as with as many calibration points as fit points. γ, priors, ridges and weights come from the log losses of these halves;
//! the kernel of the regression on raw points, whose labels did not make the space, from its leave-one-out log loss.

use crate::context::{Context, Quiet};
use crate::device::Device;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::machine::{Part, Rfm, RfmConfig};
use crate::numeric::linalg;
use crate::numeric::random::Random;
use crate::posterior::class_offsets;
use crate::posterior::expert::{Expert, Support};
use crate::posterior::link::Told;
use crate::posterior::nearest::Nearest;
use crate::posterior::prototypes::Prototypes;
use crate::posterior::ridge::{Ridge, RidgeSettings, WHOLE};
use crate::posterior::settings::{ExpertSettings, Space, StackSettings};
use crate::posterior::shrinkage::shrinkage;
use crate::posterior::spaces::{Middle, Spaces};
use crate::posterior::weights::{Evidences, Weighted};
use crate::posterior::whitening::{Whitening, packed_columns};
use crate::posterior::wide::{Targets, Wide};
use crate::scores::by_class::Clusters;

/// Most points of a half.
const HALF: usize = 2000;
/// Most points on which kernels are compared.
const COMPARED: usize = 600;
/// Bandwidths that are tried, in median distances.
const BANDWIDTHS: [f64; 3] = [1.0, 2.0, 4.0];
/// The Gaussian kernel and the Laplace kernel.
const SHAPES: [f64; 2] = [0.5, 1.0];
/// Ridges that are tried.
const RIDGES: [f64; 4] = [1e-3, 1e-2, 1e-1, 1.0];
/// Up to about what outputs of regressions are told as they are.
const SOFTNESS: f64 = 0.05;
/// Fewer fit points than this are not halved: prototypes speak alone.
const LEAST: usize = 16;
/// Squared distances are held above this share of their median.
const FLOOR: f64 = 1e-6;
/// The stream of random numbers that makes halves and samples.
const HALF_PURPOSE: u64 = 0x4a1f;

/// Everything learning is told.
#[derive(Clone, Copy)]
pub(crate) struct Lesson<'a> {
    pub(crate) device: &'a dyn Device,
    /// The machine that was fitted: its points are the fit part.
    pub(crate) rfm: &'a Rfm,
    /// How it was fitted.
    pub(crate) config: &'a RfmConfig,
    /// Whether points have length 1, so that directions are all there is to see.
    pub(crate) directed: bool,
    pub(crate) seed: u64,
    pub(crate) context: &'a Context<'a>,
}

/// Sets the stack.
pub(crate) fn learn(lesson: Lesson<'_>) -> Result<StackSettings> {
    let Lesson { rfm, seed, context, .. } = lesson;
    let (labels, classes) = (&rfm.labels, rfm.beta.cols());
    let points = Middle::new(lesson.directed, &rfm.train).see(Wide::of(&rfm.train));
    let mut rows: Vec<usize> = (0..labels.len()).collect();
    Random::new(seed, HALF_PURPOSE).shuffle(&mut rows);
    if rows.len() < LEAST {
        let whitening = Whitening::new(&points, labels, classes, None, context);
        let alone = vec![prototypes_alone(&whitening)];
        let whitening = Some(whitening.map);
        let mut settings = StackSettings::new(alone, whitening, f64::NAN, Clusters::default(), seed);
        settings.centred = lesson.directed;
        return Ok(settings);
    }
    let raw = raw_kernel(&points, labels, classes, &rows, context)?;
    let (first, second) = rows.split_at(rows.len() / 2);
    let halves = [[first, second], [second, first]];
    let shrinkage = shrinkage(&points, labels, classes, halves, context)?;
    let whitening = Whitening::new(&points, labels, classes, Some(shrinkage), context);
    let mut candidates = Candidates::default();
    for half in halves {
        context.check()?;
        let half = half.map(|rows| rows[..rows.len().min(HALF)].to_vec());
        candidates.add(lesson, &half, raw, shrinkage)?;
    }
    let learned = Wide::of(&rfm.train).times(&packed_columns(&rfm.metric_root, context), context);
    let unit = |points: &Wide| median(points, &rows, context);
    let units = Units {
        raw: unit(&points),
        white: unit(&points.times(&packed_columns(&whitening.map, context), context)),
        learned: unit(&learned),
    };
    let (weighted, chosen, evidence) = candidates.choose(context);
    let scores = Evidences { tables: vec![&evidence], labels: &candidates.labels, context }.losses(&[1.0]);
    let clusters = Clusters::new(&scores, &candidates.labels, classes);
    let offsets = class_offsets::offsets(&evidence, &candidates.labels, second.len().min(HALF), classes);
    let mut experts = Vec::new();
    for (name, &weight) in chosen.iter().zip(&weighted.weights) {
        if weight > 0.0 {
            experts.push(name.settings(weight, &whitening, raw, rfm.kernel, units));
        }
    }
    if experts.is_empty() {
        experts.push(prototypes_alone(&whitening)); // labels that follow from nothing: nobody pays, and somebody must speak
    }
    let white = experts.iter().any(|expert: &ExpertSettings| expert.uses(Space::White));
    let whitening = white.then_some(whitening.map);
    let mut settings = StackSettings::new(experts, whitening, weighted.loss, clusters, seed);
    settings.centred = lesson.directed;
    settings.offsets = offsets;
    Ok(settings)
}

fn prototypes(whitening: &Whitening, weight: f64, prior: f64) -> ExpertSettings {
    ExpertSettings::Prototypes { weight, shrinkage: whitening.shrinkage, prior, spread: 0.0, nothing: 0.0 }
}

fn prototypes_alone(whitening: &Whitening) -> ExpertSettings {
    prototypes(whitening, 1.0 / whitening.spread.max(1e-12), 1.0)
}

/// Median squared distances.
#[derive(Clone, Copy)]
struct Units {
    raw: f64,
    white: f64,
    learned: f64,
}

/// A kernel in units of the median distance, and a ridge.
#[derive(Clone, Copy, Debug)]
struct Relative {
    bandwidth: f64,
    shape: f64,
    ridge: f64,
}

/// The median squared distance among some of the points.
fn median(points: &Wide, rows: &[usize], context: &Context<'_>) -> f64 {
    let sample = points.select(&rows[..rows.len().min(COMPARED)]);
    let squared = Targets::new(&sample, context).squared(&sample, context);
    let mut all: Vec<f64> = squared.as_slice().iter().copied().filter(|&value| value > 0.0).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(1.0)
}

/// The kernel and ridge with the least leave-one-out log loss on raw points, whose labels did not make the space.
fn raw_kernel(
    points: &Wide,
    labels: &[u32],
    classes: usize,
    rows: &[usize],
    context: &Context<'_>,
) -> Result<Relative> {
    let rows = &rows[..rows.len().min(COMPARED)];
    let (sample, n) = (points.select(rows), rows.len());
    let labels: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
    let squared = Targets::new(&sample, context).squared(&sample, context);
    let unit = median(points, rows, context);
    let mut best = (f64::INFINITY, Relative { bandwidth: 1.0, shape: 0.5, ridge: 0.1 });
    for shape in SHAPES {
        for bandwidth in BANDWIDTHS {
            context.check()?;
            let kernel = Kernel::new(bandwidth * unit.sqrt(), shape)?;
            let mut matrix = squared.clone();
            matrix.as_mut_slice().iter_mut().for_each(|value| *value = kernel.value(*value));
            let found = context.run(|| linalg::symmetric_eigen(linalg::row_major(matrix.as_slice(), n, n)));
            let Some((values, vectors)) = found else { continue };
            for ridge in RIDGES {
                let inverse: Vec<f64> = values.iter().map(|value| 1.0 / (value.max(0.0) + ridge)).collect();
                // (BY)_i and B_ii, from U·diag·Uᵀ.
                let mut turned = Wide::zeros(classes, n);
                for (row, &label) in labels.iter().enumerate() {
                    for (at, sum) in turned.row_mut(label as usize).iter_mut().enumerate() {
                        *sum += vectors[(row, at)] * inverse[at];
                    }
                }
                let scaled = Wide::of_fn(n, n, |row, at| vectors[(row, at)]);
                let mut outputs = scaled.times(&turned.packed(context), context);
                let told = Told::new(SOFTNESS);
                for (row, &label) in labels.iter().enumerate() {
                    let own: f64 = (0..n).map(|at| vectors[(row, at)].powi(2) * inverse[at]).sum();
                    outputs.row_mut(row).iter_mut().for_each(|value| *value = -*value / own);
                    outputs.row_mut(row)[label as usize] += 1.0;
                    outputs.row_mut(row).iter_mut().for_each(|output| *output = told.of(*output));
                }
                let loss = Evidences { tables: vec![&outputs], labels: &labels, context }.fit(&[0]).loss;
                if loss < best.0 {
                    best = (loss, Relative { bandwidth, shape, ridge });
                }
            }
        }
    }
    Ok(best.1)
}

/// An expert that may speak.
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

    /// Candidates of one family are settings of one expert.
    fn family(self) -> usize {
        match self {
            Self::Prototypes { .. } => 0,
            Self::Raw => 1,
            Self::White { .. } => 2,
            Self::Learned { .. } => 3,
            Self::Nearest => 4,
        }
    }

    /// As the model keeps it.
    fn settings(
        self,
        weight: f64,
        whitening: &Whitening,
        raw: Relative,
        learned: Kernel,
        units: Units,
    ) -> ExpertSettings {
        let (shape, relative) = (raw.shape, raw.bandwidth);
        match self {
            Self::Prototypes { prior } => prototypes(whitening, weight, prior),
            Self::Raw => ExpertSettings::Ridge {
                weight,
                space: Space::Raw,
                bandwidth: relative * units.raw.sqrt(),
                shape,
                ridge: raw.ridge,
                softness: SOFTNESS,
            },
            Self::White { ridge } => ExpertSettings::Ridge {
                weight,
                space: Space::White,
                bandwidth: relative * units.white.sqrt(),
                shape,
                ridge,
                softness: SOFTNESS,
            },
            Self::Learned { ridge } => ExpertSettings::Ridge {
                weight,
                space: Space::Learned,
                bandwidth: learned.bandwidth(),
                shape: learned.shape(),
                ridge,
                softness: SOFTNESS,
            },
            Self::Nearest => {
                let [floor, ceiling] = range(units.learned);
                ExpertSettings::Nearest { weight, floor, ceiling }
            }
        }
    }
}

/// Between what squared distances are held whose median is `unit`.
fn range(unit: f64) -> [f64; 2] {
    [FLOOR * unit, 2.0 * unit]
}

/// Evidence of fit points by experts that had not seen them.
#[derive(Default)]
struct Candidates {
    tables: Vec<Wide>,
    labels: Vec<u32>,
}

impl Candidates {
    /// Sets every candidate by one half, which judges the other.
    fn add(
        &mut self,
        lesson: Lesson<'_>,
        halves: &[Vec<usize>; 2],
        raw: Relative,
        shrinkage: f64,
    ) -> Result<()> {
        let Lesson { device, rfm, config, seed, context, .. } = lesson;
        let classes = rfm.beta.cols();
        let [taught, judged] = halves;
        let part = |rows: &[usize]| Part {
            embeddings: rfm.train.select(rows),
            labels: rows.iter().map(|&row| rfm.labels[row]).collect(),
        };
        let (taught, judged) = (part(taught), part(judged));
        let middle = Middle::new(lesson.directed, &taught.embeddings);
        let seen = middle.see(Wide::of(&taught.embeddings));
        let white = Whitening::new(&seen, &taught.labels, classes, Some(shrinkage), context);
        let root = if rfm.rounds == 0 {
            rfm.metric_root.clone()
        } else {
            let config = RfmConfig { rounds: rfm.rounds, ..*config };
            let quiet = Quiet(context.observer());
            let context = context.with_observer(&quiet);
            Rfm::fit(device, taught.clone(), classes, rfm.kernel, &config, &context)?.metric_root
        };
        let spaces = Spaces::new(middle, Some(&white.map), &root, context);
        let of = |part: &Part| spaces.block(&part.embeddings, context);
        let points = of(&taught).above(&of(&judged));
        let labels = [&taught.labels[..], &judged.labels[..]].concat();
        let support = Support { points: &points, labels: &labels, fit: taught.labels.len(), classes };
        let every: Vec<usize> = (0..taught.labels.len()).collect();
        let unit = |space: Space| median(points.get(space), &every, context);
        let units = Units { raw: unit(Space::Raw), white: unit(Space::White), learned: unit(Space::Learned) };
        let candidates = Candidate::all();
        self.tables.resize_with(candidates.len(), Wide::default);
        for (table, candidate) in self.tables.iter_mut().zip(candidates) {
            context.check()?;
            let settings = candidate.settings(1.0, &white, raw, rfm.kernel, units);
            let expert = open(&settings, &support, (WHOLE, seed), context)?;
            *table = std::mem::take(table).above(expert.bag());
        }
        self.labels.extend_from_slice(&judged.labels);
        Ok(())
    }

    /// The best setting of each family, the weights of those that pay, and the evidence about the points that they give.
    fn choose(&self, context: &Context<'_>) -> (Weighted, Vec<Candidate>, Wide) {
        let candidates = Candidate::all();
        let mut best: Vec<(f64, usize)> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let loss =
                Evidences { tables: vec![&self.tables[at]], labels: &self.labels, context }.fit(&[0]).loss;
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
        let evidences = Evidences { tables, labels: &self.labels, context };
        let weighted = evidences.choose();
        let evidence = evidences.weighted(&weighted.weights);
        (weighted, chosen.iter().map(|&at| candidates[at]).collect(), evidence)
    }
}

/// Opens an expert on labelled points.
pub(super) fn open(
    settings: &ExpertSettings,
    support: &Support<'_>,
    landmarks: (usize, u64),
    context: &Context<'_>,
) -> Result<Box<dyn Expert>> {
    Ok(match *settings {
        ExpertSettings::Prototypes { prior, spread, nothing, .. } => {
            Box::new(Prototypes::open(support, prior, [spread, nothing], context))
        }
        ExpertSettings::Ridge { space, bandwidth, shape, ridge, softness, .. } => {
            let (kernel, told) = (Kernel::new(bandwidth, shape)?, Told::new(softness));
            let settings = RidgeSettings { space, kernel, ridge, told };
            Box::new(Ridge::open(support, settings, landmarks, context)?)
        }
        ExpertSettings::Nearest { floor, ceiling, .. } => {
            Box::new(Nearest::open(support, [floor, ceiling], context))
        }
    })
}
