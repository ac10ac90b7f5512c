//! DANCE: `C_knn ∩ C_clr` (the paper, §3.3 and appendix A), in two ways of calibrating.
//!
//! - **reuse** (the paper's main tables): the calibration points are the reference, each searched leave-one-out. The mix is
//!   selected on a stratified 80/20 split of them, thresholds come from all. Heuristic.
//! - **disjoint** (the paper's appendix D): the points that fitted the kernel are the reference. A random half of the
//!   calibration points selects the mix (80/20 again), the other gives the thresholds: `P(y ∈ C) ≥ 1-α` in finite
//!   samples. The halves are not stratified, since that would make the threshold half differ from a test point in law.
//!   A fixed mix needs no selection, and all calibration points give thresholds.
//!
//! Cost: in either mode one search of all calibration points. In reuse mode the search runs over the two parts of the
//! 80/20 split by turns: the first answers for the selection, both merged for the thresholds.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::mix::{self, Mix, Trial, Tuning};
use crate::neighbors::{Neighbors, Reference};
use crate::random::Random;
use crate::scores::contrastive::Contrastive;
use crate::scores::paired::PairedScores;
use crate::scores::rank::{self, Rank};
use crate::scores::{self, NeighborScore};
use crate::sets::Sets;
use crate::split;
use crate::threshold::{CalibrationScores, Threshold};

/// Share of the points whose scores give thresholds while the mix is selected.
const THRESHOLD_SHARE: f64 = 0.8;
/// Below this many points no mix is selected; it is 0.
const LEAST_TUNING_POINTS: usize = 5;
/// The stream of random numbers that halves the calibration points.
const HALVES_PURPOSE: u64 = 0x4a1f;
/// Parts of the noise that breaks ties: calibration points, and points asked about later.
const CALIBRATION_PART: u64 = 0;
const QUERY_PART: u64 = 1;

/// Where neighbors come from, and so which guarantee holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalibrationMode {
    /// Among the calibration points themselves, leave-one-out.
    #[default]
    Reuse,
    /// Among the points that fitted the kernel.
    Disjoint,
}

impl CalibrationMode {
    /// The guarantee, in words for every output.
    pub fn guarantee(self) -> &'static str {
        match self {
            Self::Reuse => "heuristic: calibration points serve as each other's neighbors",
            Self::Disjoint => "P(label in set) >= 1 - alpha in finite samples, for exchangeable points",
        }
    }
}

/// Settings of the method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DanceConfig {
    /// Neighbors the rank score looks at.
    pub rank_neighbors: usize,
    /// Neighbors the contrastive score looks at.
    pub contrast_neighbors: usize,
    /// Temperature of the contrastive score.
    pub temperature: f64,
    /// Share of α that goes to the contrastive score.
    pub mix: Mix,
    /// Where neighbors come from.
    pub calibration: CalibrationMode,
    /// Width ε < 1 of the noise U(0,ε) that breaks ties of ranks; 0 leaves them.
    pub tie_noise: f64,
    /// Seed of the splits for the mix, and of the noise.
    pub seed: u64,
}

impl Default for DanceConfig {
    fn default() -> Self {
        Self {
            rank_neighbors: 100,
            contrast_neighbors: 50,
            temperature: 0.01,
            mix: Mix::Auto,
            calibration: CalibrationMode::Reuse,
            tie_noise: 0.0,
            seed: 0,
        }
    }
}

impl DanceConfig {
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in
            [("rank_neighbors", self.rank_neighbors), ("contrast_neighbors", self.contrast_neighbors)]
        {
            if value == 0 {
                return Err(Error::config(name, value, "at least 1"));
            }
        }
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(Error::config("temperature", self.temperature, "a positive number, such as 0.01"));
        }
        if !(0.0..1.0).contains(&self.tie_noise) {
            return Err(Error::config("tie_noise", self.tie_noise, "at least 0 and below 1"));
        }
        self.mix.check()
    }
}

/// Labelled reference points, and the two scores over them.
#[derive(Clone, Debug)]
pub struct Scorer {
    reference: Reference,
    labels: Vec<u32>,
    classes: usize,
    rank: Rank,
    contrastive: Contrastive,
    tie_noise: f64,
    seed: u64,
}

impl Scorer {
    /// `points` are mapped; every label is below `classes`.
    pub fn new(
        points: Matrix,
        labels: Vec<u32>,
        classes: usize,
        kernel: Kernel,
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        check_labels("reference", &points, &labels, classes)?;
        if points.rows() == 0 {
            return Err(Error::Data("there are no reference points".into()));
        }
        Ok(Self {
            reference: Reference::new(points),
            labels,
            classes,
            rank: Rank { neighbors: config.rank_neighbors },
            contrastive: Contrastive {
                neighbors: config.contrast_neighbors,
                temperature: config.temperature,
                kernel,
            },
            tie_noise: config.tie_noise,
            seed: config.seed,
        })
    }

    /// Labels of the reference points.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The reference points, mapped.
    pub fn points(&self) -> &Matrix {
        self.reference.points()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    fn neighbor_count(&self) -> usize {
        self.rank.neighbors().max(self.contrastive.neighbors())
    }

    /// Neighbors and scores of mapped queries. `first_row` is the number of the first one, which with the seed decides
    /// the noise that breaks its ties.
    pub fn score(
        &self,
        backend: &dyn Backend,
        queries: &Matrix,
        first_row: usize,
    ) -> Result<(Neighbors, PairedScores)> {
        let neighbors = backend.neighbors(&self.reference, queries, self.neighbor_count(), None)?;
        let scores = self.score_neighbors(backend, &neighbors, QUERY_PART, |query| first_row + query);
        Ok((neighbors, scores))
    }

    fn score_neighbors(
        &self,
        backend: &dyn Backend,
        neighbors: &Neighbors,
        part: u64,
        row: impl Fn(usize) -> usize,
    ) -> PairedScores {
        let both: [&dyn NeighborScore; 2] = [&self.rank, &self.contrastive];
        let [mut rank, contrast] = backend
            .threads()
            .run(|| scores::of_neighbors(both, neighbors, &self.reference, &self.labels, self.classes));
        if self.tie_noise > 0.0 {
            rank.add_noise(|query, label| {
                rank::tie_noise(self.seed, self.tie_noise, part, row(query), label)
            });
        }
        PairedScores::join(&rank, &contrast)
    }

    /// The same scores over some of the reference points.
    fn part(&self, rows: &[usize]) -> Self {
        Self {
            reference: Reference::new(self.points().select(rows)),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
            ..*self
        }
    }
}

/// What calibration points say, for every α.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Rank scores of the true labels.
    pub rank: CalibrationScores,
    /// Contrastive scores of the true labels.
    pub contrast: CalibrationScores,
    /// What selects the mix; `None` when it is fixed.
    pub tuning: Option<Tuning>,
    /// The mix asked for.
    pub mix: Mix,
    /// The mode.
    pub mode: CalibrationMode,
}

/// Both thresholds for one α.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// α.
    pub alpha: f64,
    /// Share of α that goes to the contrastive score.
    pub mix: f64,
    /// Of the rank score.
    pub rank: Threshold,
    /// Of the contrastive score.
    pub contrast: Threshold,
    /// The grid the mix was selected from; empty when it was fixed.
    pub trials: Vec<Trial>,
}

impl Thresholds {
    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        let each = [("rank", &self.rank), ("contrastive", &self.contrast)];
        each.iter().filter_map(|(name, t)| Some(format!("{name} score: {}", t.warning()?))).collect()
    }

    /// The DANCE sets of scored queries.
    pub fn sets(&self, scores: &PairedScores, classes: usize) -> Sets {
        Sets::from_pairs(scores, self.rank.value, self.contrast.value, classes)
    }
}

impl Calibration {
    /// Calibrates in **reuse** mode on the scorer's own reference points.
    pub fn reuse(backend: &dyn Backend, scorer: &Scorer, config: &DanceConfig) -> Result<Self> {
        config.check()?;
        let n = scorer.labels.len();
        if n < 2 {
            return Err(Error::Data(format!(
                "{n} calibration point has no neighbor among the others; at least 2 are needed"
            )));
        }
        let k = scorer.neighbor_count();
        let rows = canonical_order(scorer.points());
        let (neighbors, tuning) = match tuning_parts(&rows, &scorer.labels, config)? {
            None => {
                let itself: Vec<_> = (0..n as u32).map(Some).collect();
                (backend.neighbors(&scorer.reference, scorer.points(), k, Some(&itself))?, None)
            }
            Some([given, judged]) => {
                // One pass over all pairs: neighbors in either part, merged for the thresholds.
                let within = |rows: &[usize]| -> Result<(Scorer, Neighbors)> {
                    let part = scorer.part(rows);
                    let mut itself = vec![None; n];
                    for (place, &row) in rows.iter().enumerate() {
                        itself[row] = Some(place as u32);
                    }
                    let found = backend.neighbors(&part.reference, scorer.points(), k, Some(&itself))?;
                    Ok((part, found))
                };
                let (part, in_given) = within(&given)?;
                let (_, in_judged) = within(&judged)?;
                let merged = in_given.merge(&given, &in_judged, &judged, k);
                let scores = part.score_neighbors(backend, &in_given, CALIBRATION_PART, |row| row);
                (merged, Some(tuning(&scores, &scorer.labels, &given, &judged, scorer.classes)?))
            }
        };
        let scores = scorer.score_neighbors(backend, &neighbors, CALIBRATION_PART, |row| row);
        let (rank, contrast) = scores.of_labels(&scorer.labels);
        Self::new(rank, contrast, tuning, config)
    }

    /// Calibrates in **disjoint** mode: mapped calibration points against a scorer over other points.
    pub fn disjoint(
        backend: &dyn Backend,
        scorer: &Scorer,
        points: &Matrix,
        labels: &[u32],
        config: &DanceConfig,
    ) -> Result<Self> {
        config.check()?;
        check_labels("calibration", points, labels, scorer.classes)?;
        let neighbors = backend.neighbors(&scorer.reference, points, scorer.neighbor_count(), None)?;
        let scores = scorer.score_neighbors(backend, &neighbors, CALIBRATION_PART, |row| row);
        let (rank, contrast) = scores.of_labels(labels);
        let (selecting, thresholds) = match config.mix {
            Mix::Fixed(_) => (Vec::new(), (0..labels.len()).collect()),
            Mix::Auto => halves(canonical_order(points), config.seed)?,
        };
        let pick = |values: &[f64]| thresholds.iter().map(|&row| values[row]).collect();
        let tuning = match tuning_parts(&selecting, labels, config)? {
            None => None,
            Some([given, judged]) => Some(tuning(&scores, labels, &given, &judged, scorer.classes)?),
        };
        Self::new(pick(&rank), pick(&contrast), tuning, config)
    }

    fn new(rank: Vec<f64>, contrast: Vec<f64>, tuning: Option<Tuning>, config: &DanceConfig) -> Result<Self> {
        Ok(Self {
            rank: CalibrationScores::new(rank)?,
            contrast: CalibrationScores::new(contrast)?,
            tuning,
            mix: config.mix,
            mode: config.calibration,
        })
    }

    /// Both thresholds for `alpha`, the mix selected for it where that was asked for.
    pub fn thresholds(&self, alpha: f64) -> Result<Thresholds> {
        self.thresholds_with(alpha, self.mix)
    }

    /// Both thresholds under another mix than the one asked for. Auto without points to select it on is 0.
    pub fn thresholds_with(&self, alpha: f64, mix: Mix) -> Result<Thresholds> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::config("alpha", alpha, "between 0 and 1, such as 0.1"));
        }
        mix.check()?;
        let (mix, trials) = match (mix, &self.tuning) {
            (Mix::Fixed(mix), _) => (mix, Vec::new()),
            (Mix::Auto, Some(tuning)) => tuning.select(alpha)?,
            (Mix::Auto, None) => (0.0, Vec::new()),
        };
        let (rank_alpha, contrast_alpha) = mix::share(alpha, mix);
        Ok(Thresholds {
            alpha,
            mix,
            rank: self.rank.threshold(rank_alpha)?,
            contrast: self.contrast.threshold(contrast_alpha)?,
            trials,
        })
    }
}

fn check_labels(what: &str, points: &Matrix, labels: &[u32], classes: usize) -> Result<()> {
    if points.rows() != labels.len() {
        return Err(Error::Shape {
            what: format!("{what} labels (one a point)"),
            expected: points.rows().to_string(),
            found: labels.len().to_string(),
        });
    }
    match labels.iter().position(|&label| label as usize >= classes) {
        None => Ok(()),
        Some(row) => Err(Error::Label {
            origin: format!("{what} points"),
            row,
            problem: format!("{} is not below the number of classes, {classes}", labels[row]),
        }),
    }
}

/// Rows in an order that depends on the points alone, so that a seed draws the same points however they are listed.
fn canonical_order(points: &Matrix) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..points.rows()).collect();
    rows.sort_by(|&a, &b| {
        let pairs = points.row(a).iter().zip(points.row(b));
        pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

/// A random half to select the mix on, and the rest. The larger half gives thresholds.
fn halves(mut rows: Vec<usize>, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    if rows.len() < 2 {
        return Err(Error::Data(format!(
            "{} calibration point cannot be halved to select the mix; use more, or give a fixed mix",
            rows.len()
        )));
    }
    Random::new(seed, HALVES_PURPOSE).shuffle(&mut rows);
    let rest = rows.split_off(rows.len() / 2);
    Ok((rows, rest))
}

/// The 80/20 split on which the mix is selected: points that give thresholds, points whose sets are judged; ascending.
/// `None` when the mix is fixed or there are too few points.
fn tuning_parts(rows: &[usize], labels: &[u32], config: &DanceConfig) -> Result<Option<[Vec<usize>; 2]>> {
    if config.mix != Mix::Auto || rows.len() < LEAST_TUNING_POINTS {
        return Ok(None);
    }
    // Classes by their first appearance, so that their names do not change the split either.
    let mut place = HashMap::new();
    let classes: Vec<u32> = rows
        .iter()
        .map(|&row| {
            let next = place.len() as u32;
            *place.entry(labels[row]).or_insert(next)
        })
        .collect();
    let shares = [THRESHOLD_SHARE, 1.0 - THRESHOLD_SHARE];
    let parts = match split::stratified(&classes, &shares, config.seed) {
        // Only classes of one point: nothing to stratify.
        Err(Error::Data(_)) => split::stratified(&vec![0; rows.len()], &shares, config.seed)?,
        parts => parts?,
    };
    let in_order = |part: Vec<usize>| {
        let mut part: Vec<usize> = part.into_iter().map(|place| rows[place]).collect();
        part.sort_unstable();
        part
    };
    Ok(<[Vec<usize>; 2]>::try_from(parts).ok().map(|parts| parts.map(in_order)))
}

fn tuning(
    scores: &PairedScores,
    labels: &[u32],
    given: &[usize],
    judged: &[usize],
    classes: usize,
) -> Result<Tuning> {
    let pick = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<_>>();
    let (rank, contrast) = scores.select(given).of_labels(&pick(given));
    Ok(Tuning {
        rank: CalibrationScores::new(rank)?,
        contrast: CalibrationScores::new(contrast)?,
        scores: scores.select(judged),
        labels: pick(judged),
        classes,
    })
}
