//! Options of the method that `fit` and `recalibrate` share.

use clap::{Args, ValueEnum};
use dance::conformal::{ByClass, CalibrationMode, Combine, DanceConfig, Mix};
use dance::posterior::PosteriorScore;

use crate::parse;

/// Where neighbors come from, and so which guarantee holds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Mode {
    /// Among calibration and fit points, with the query counted in: coverage is guaranteed, with all the data at work
    Exact,
    /// Among the points that fitted the kernel: coverage is guaranteed, half of the calibration points are spent on tuning
    Disjoint,
    /// Among the calibration points themselves, as in the paper: a heuristic
    Reuse,
}

/// How the scores become one decision.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Combination {
    /// A posterior of several experts that learns from every label, calibration points included: for few labels and classes that are hard to tell apart
    Evidence,
    /// Rank, contrastive score and class probability, weighed up as evidence: small sets at little cost
    Fuse,
    /// Rank and contrastive score as one score
    Joint,
    /// Each score at its own share of alpha, as in the paper
    Union,
}

/// Which score of combined evidence is compared.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Score {
    /// The label's probability alone: the smallest sets
    Lac,
    /// The mass of all labels that are as probable, with a penalty on late ranks: larger sets where a point is hard, smaller where it is easy
    Raps,
    /// The largest probability and the label's rank
    Saps,
}

/// Whom the guarantee is for, where not for all points together.
#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
struct PromisedTo {
    /// Even out the difference between classes: those that are hard to tell apart do not pay for the others. The guarantee stays that for
    /// all points together. Exact mode, where one score decides: evidence, fuse, or `--mix 0` or `1`; evidence unless `--combine` says otherwise
    #[arg(long)]
    class_fair: bool,
    /// A guarantee for the labels of every cluster of classes that are about as hard (found by the fit points): between all together
    /// and `--per-class` in size. For the same scores as `--class-fair`
    #[arg(long)]
    clustered: bool,
    /// A guarantee for every class by itself. Costs size: below 1/alpha - 1 calibration points, a class is in every set. For the same
    /// scores as `--class-fair`
    #[arg(long)]
    per_class: bool,
}

impl PromisedTo {
    fn by_class(self) -> Option<ByClass> {
        let choices = [
            (self.class_fair, ByClass::Fair),
            (self.clustered, ByClass::Clusters),
            (self.per_class, ByClass::Each),
        ];
        choices.into_iter().find_map(|(chosen, by_class)| chosen.then_some(by_class))
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Prediction sets")]
pub(crate) struct Method {
    /// The paper's settings throughout: reuse, union, and for a fit no refit on the validation points. Options given beside it win
    #[arg(long)]
    pub(crate) paper: bool,
    /// Where neighbors come from, and so which guarantee holds [default of a fit: exact]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) calibration_mode: Option<Mode>,
    /// How the scores become one decision [default of a fit: fuse]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) combine: Option<Combination>,
    /// Which score of combined evidence is compared; raps and saps imply `--combine evidence` [default of a fit: lac]
    #[arg(long, value_enum, value_name = "SCORE")]
    pub(crate) score: Option<Score>,
    #[command(flatten)]
    promised: PromisedTo,
    /// Let sets hold "none of these": the guarantee then counts labels that no point of the model has. Exact mode
    #[arg(long)]
    pub(crate) unseen: bool,
    /// Exact mode: whether the points that fitted the kernel serve as neighbors too [default of a fit: true]
    #[arg(long, value_name = "true|false")]
    pub(crate) fit_neighbors: Option<bool>,
    /// Neighbors the rank score looks at [default of a fit: 100]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) rank_neighbors: Option<usize>,
    /// Neighbors the contrastive score looks at [default of a fit: 50]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    pub(crate) contrast_neighbors: Option<usize>,
    /// Temperature of the contrastive score [default of a fit: 0.01]
    #[arg(long, value_name = "X", value_parser = parse::positive, allow_hyphen_values = true)]
    pub(crate) temperature: Option<f64>,
    /// Union and joint: share of alpha for the contrastive score, `auto` or 0 (k-NN set) to 1 (CLR set) [default of a fit: auto]
    #[arg(long, value_name = "auto|X", value_parser = parse::mix)]
    pub(crate) mix: Option<Mix>,
}

impl Method {
    /// Refuses an option that the calibration at hand has no use for.
    pub(crate) fn check(&self, config: &DanceConfig) -> anyhow::Result<()> {
        if self.fit_neighbors.is_some() && config.calibration != CalibrationMode::Exact {
            anyhow::bail!(
                "--fit-neighbors is for --calibration-mode exact; in the other modes neighbors are fixed: the fit points in \
                 disjoint, the calibration points in reuse"
            );
        }
        Ok(())
    }

    /// `config` with what was given.
    pub(crate) fn apply(&self, config: DanceConfig, seed: u64) -> DanceConfig {
        let config = if self.paper { DanceConfig::paper() } else { config };
        // One score has no mix; one that the model had before is dropped, one that is asked for is refused.
        let fused = matches!(self.combine, Some(Combination::Fuse | Combination::Evidence));
        let by_class = self.promised.by_class();
        // What only combined evidence can do asks for it, and is dropped with it. A promise to classes asks for it where nothing is said
        // of how to combine: neither now, nor by a mix, nor by a model that has one or promises something to classes already.
        let ranked = matches!(self.score, Some(Score::Raps | Score::Saps));
        let unsaid = self.mix.is_none() && config.mix == Mix::Auto && config.by_class == ByClass::Together;
        let asks = ranked || (by_class.is_some() && unsaid);
        let combined = if asks { Combine::Evidence } else { config.combine };
        let kept = if self.combine.is_some() || self.calibration_mode.is_some() {
            ByClass::Together
        } else {
            config.by_class
        };
        let kept_score = if self.combine.is_some() { PosteriorScore::Lac } else { config.posterior_score };
        config
            .calibration(match self.calibration_mode {
                None => config.calibration,
                Some(Mode::Exact) => CalibrationMode::Exact,
                Some(Mode::Disjoint) => CalibrationMode::Disjoint,
                Some(Mode::Reuse) => CalibrationMode::Reuse,
            })
            .combine(match self.combine {
                None => combined,
                Some(Combination::Evidence) => Combine::Evidence,
                Some(Combination::Fuse) => Combine::Fuse,
                Some(Combination::Joint) => Combine::Joint,
                Some(Combination::Union) => Combine::Union,
            })
            .posterior_score(match self.score {
                None => kept_score,
                Some(Score::Lac) => PosteriorScore::Lac,
                Some(Score::Raps) => PosteriorScore::Raps,
                Some(Score::Saps) => PosteriorScore::Saps,
            })
            .by_class(by_class.unwrap_or(kept))
            .unseen(self.unseen || config.unseen)
            .fit_neighbors(self.fit_neighbors.unwrap_or(config.fit_neighbors))
            .rank_neighbors(self.rank_neighbors.unwrap_or(config.rank_neighbors))
            .contrast_neighbors(self.contrast_neighbors.unwrap_or(config.contrast_neighbors))
            .temperature(self.temperature.unwrap_or(config.temperature))
            .mix(self.mix.unwrap_or(if fused { Mix::Auto } else { config.mix }))
            .seed(seed)
    }
}
