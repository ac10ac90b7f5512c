//! Results of an experiment: one record for every data set, seed, method and α, and the values that belong to a fit as
//! a whole. `docs/results-schema.md` has the schema. Files are written whole or not at all.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ablate::AblationPoint;
use super::method::Method;
use super::picture::Picture;
use super::plan::Plan;
use dance::Evaluation;
use dance::evaluation::ProbabilityMetrics;
use dance::evaluation::breakdown::Breakdown;
use dance::evaluation::metrics::Metrics;
use dance::scores::Sets;
use dance::whole_file::{self, WholeFile};
use dance::{Error, Result};

/// The version of the schema.
pub const FORMAT: u32 = 2;

/// Bytes of the longest file that is read: some ten thousand cases.
const LONGEST: u64 = 1 << 28;

/// All results of a run: the contents of `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of the schema.
    pub format: u32,
    /// The settings.
    pub plan: Plan,
    /// One case per data set and seed.
    pub cases: Vec<Case>,
    /// Data sets that could not be used.
    pub failures: Vec<Failure>,
}

/// A data set that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The data set's name.
    pub data: String,
    /// The problem, in words.
    pub problem: String,
}

/// One data set under one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The data set's name.
    pub data: String,
    /// SHA-256 of its points and labels.
    pub data_hash: String,
    /// The seed.
    pub seed: u64,
    /// Points of the data set.
    pub points: usize,
    /// Dimensions.
    pub dimensions: usize,
    /// Classes.
    pub classes: usize,
    /// Points of the three parts: fit, calibration, test.
    pub parts: [usize; 3],
    /// Quality of the kernel machine's class probabilities on the test points.
    pub probabilities: ProbabilityMetrics,
    /// Quality of the class probabilities of methods that have their own.
    #[serde(default)]
    pub posteriors: Vec<Posterior>,
    /// Warnings of the split, the fit and the methods.
    pub warnings: Vec<String>,
    /// Seconds spent.
    pub seconds: Seconds,
    /// The search for bandwidth and shape.
    pub trace: Vec<Evaluation>,
    /// One record per method and α.
    pub records: Vec<Record>,
    /// Methods that cannot run on this data set, with reasons.
    pub skipped: Vec<Skipped>,
    /// Coverage and size at further levels.
    pub curve: Vec<CurvePoint>,
    /// Ablations.
    pub ablations: Vec<AblationPoint>,
    /// Principal components before and after the metric is learned; only for the first seed.
    pub picture: Option<Picture>,
}

/// Wall-clock seconds of the steps that methods share, and of DANCE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Tuning and fitting the kernel machine.
    pub fit: f64,
    /// Probabilities of calibration and test points.
    pub probabilities: f64,
    /// Neighbors of calibration and test points.
    pub neighbors: f64,
    /// Calibrating DANCE and selecting the mix over its grid, all α together.
    pub mix: f64,
    /// DANCE's sets of all test points, search included.
    pub inference: f64,
}

/// One method at one α.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The data set's name.
    pub data: String,
    /// The seed.
    pub seed: u64,
    /// The method.
    pub method: Method,
    /// The error level.
    pub alpha: f64,
    /// The quality of its sets.
    pub metrics: Metrics,
    /// The mix, where the method has one.
    pub mix: Option<f64>,
    /// The guarantee, in words.
    pub guarantee: String,
    /// Seconds for thresholds and sets, without the shared steps.
    pub seconds: f64,
    /// Number of sets of every size, from 0 up.
    pub sizes: Vec<usize>,
    /// `[covered, points]` of every class.
    pub class_coverage: Vec<[usize; 2]>,
    /// Coverage of parts of the points: by the kernel machine's confidence, by set size, by class frequency.
    #[serde(default)]
    pub breakdown: Breakdown,
}

/// The class probabilities of a method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Posterior {
    /// The method.
    pub method: Method,
    /// Their quality on the test points.
    pub metrics: ProbabilityMetrics,
}

/// A method that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The method.
    pub method: Method,
    /// The reason, in words.
    pub reason: String,
}

/// Coverage and size of a method at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The method.
    pub method: Method,
    /// The error level.
    pub alpha: f64,
    /// Share of sets with the true label.
    pub coverage: f64,
    /// Mean number of labels.
    pub size: f64,
}

/// Returns the number of sets of every size.
pub(crate) fn histogram(sets: &Sets) -> Vec<usize> {
    let mut sizes = Vec::new();
    for set in sets.iter() {
        if set.len() >= sizes.len() {
            sizes.resize(set.len() + 1, 0);
        }
        sizes[set.len()] += 1;
    }
    sizes
}

/// Returns `[covered, points]` of every class.
pub(crate) fn by_class(sets: &Sets, labels: &[u32], classes: usize) -> Vec<[usize; 2]> {
    let mut counts = vec![[0, 0]; classes];
    for (query, &label) in labels.iter().enumerate() {
        counts[label as usize][0] += usize::from(sets.contains(query, label));
        counts[label as usize][1] += 1;
    }
    counts
}

impl Results {
    /// Makes results without cases.
    pub fn new(plan: Plan) -> Self {
        Self { format: FORMAT, plan, cases: Vec::new(), failures: Vec::new() }
    }

    /// Returns all records, case by case.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.cases.iter().flat_map(|case| &case.records)
    }

    /// Returns the case of a data set and seed.
    pub fn case(&self, data: &str, hash: &str, seed: u64) -> Option<&Case> {
        self.cases.iter().find(|case| case.data == data && case.data_hash == hash && case.seed == seed)
    }

    /// Reads a results file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = whole_file::read(path, LONGEST)?;
        let damaged = |problem: String| {
            Error::format(
                path,
                format!("{problem}; choose another output directory, or remove the file to start again"),
            )
        };
        let results: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(format!("not results of this version: {error}")))?;
        if results.format != FORMAT {
            return Err(damaged(format!("has format {}, and this version reads {FORMAT}", results.format)));
        }
        Ok(results)
    }

    /// Writes a results file whole, or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self)
            .map_err(|error| Error::format(path, format!("could not be written as JSON: {error}")))?;
        WholeFile::write(path, text.as_bytes())
    }
}
