//! A conformal test martingale, which detects that a stream is no longer exchangeable with the calibration points. The
//! probability of a false alarm is bounded over a stream of any length.
//!
//! Every point has a score that does not depend on the calibration points or the stream. The p-value of a point is its
//! smoothed rank among n calibration points and the t points of the stream so far, the point itself included:
//! `p = (#{larger scores} + τ·#{equal scores}) / (n+t)`.
//! Here τ is uniform between 0 and 1, and the point's own score counts as equal. If all points are exchangeable, these
//! p-values are independent and uniform. Then the capital of a gambler who bets against uniform p-values is a
//! martingale. The capital starts at 1 and ever reaches 1/δ with probability at most δ (Ville's inequality).
//!
//! A bet multiplies its capital by `κ·p^(κ-1)` or by `κ·(1-p)^(κ-1)`; there is one bet of each kind for several
//! exponents κ. The first kind wins if scores grow, the second if they fall. The time of a change is unknown, so the
//! initial capital is released slowly: after t points `1/ln(e+t)` of it is still in reserve. So the delay in detecting
//! a change after t points grows with ln t, not with t.
//!
//! Each point costs a bisection, and moving the larger scores in memory by one entry. Each point of the stream takes 8
//! bytes of memory.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::numeric::random;
use crate::scores::calibration::CalibrationScores;

/// The exponents κ of the bets `κ·p^(κ-1)` on small p-values p. The bets on large p-values have these exponents too,
/// with 1-p in place of p.
const POWERS: [f64; 4] = [0.1, 0.3, 0.5, 0.8];
/// The number that keeps the random draws τ, which break ties, apart from draws for other purposes under one seed.
const TIE_PURPOSE: u64 = 0x7e57;
/// The upper limit of the capital, which prevents overflow.
const MOST: f64 = 1e100;
/// The smallest p-value in a bet. Smaller p-values are raised to it, so that a bet on p = 0 wins a finite amount.
const LEAST_P: f64 = 1e-9;

/// A test martingale: the capital of bets against the hypothesis that p-values are uniform. The [module](self) has the
/// formulas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Martingale {
    /// The scores of the calibration points and of the stream's points so far, ascending.
    pool: Vec<f64>,
    seed: u64,
    state: Bets,
}

/// The state of a test martingale. A program that stops can continue from this state and the scores of the calibration
/// points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bets {
    /// The scores of the stream's points, in order of arrival.
    scores: Vec<f64>,
    /// The capital of every bet: first of the bets on small p-values, then of those on large ones.
    capital: Vec<f64>,
    /// The largest total capital so far.
    largest: f64,
}

impl Martingale {
    /// Starts with capital 1. `calibration` holds the scores of the calibration points, which may be +∞ but not NaN.
    pub(crate) fn new(calibration: Vec<f64>, seed: u64) -> Result<Self> {
        let pool = CalibrationScores::new(calibration)?.sorted().to_vec();
        let state = Bets { scores: Vec::new(), capital: vec![0.0; 2 * POWERS.len()], largest: 1.0 };
        Ok(Self { pool, seed, state })
    }

    /// Continues from an earlier `state`. Returns an error if no martingale can have had this state.
    pub(crate) fn resume(mut self, state: Bets) -> Result<Self> {
        let valid = state.capital.len() == 2 * POWERS.len()
            && state.capital.iter().all(|capital| (0.0..=MOST).contains(capital))
            && state.largest >= 1.0
            && state.scores.iter().all(|score| !score.is_nan());
        if !valid {
            return Err(Error::Data(
                "the state was not written by a monitor, or is damaged; delete it to start again".into(),
            ));
        }
        self.pool.extend_from_slice(&state.scores);
        self.pool.sort_unstable_by(f64::total_cmp);
        self.state = state;
        Ok(self)
    }

    /// Returns the state, from which [`resume`](Self::resume) continues.
    pub(crate) fn state(&self) -> &Bets {
        &self.state
    }

    /// Returns the number of points of the stream so far.
    pub(crate) fn points(&self) -> usize {
        self.state.scores.len()
    }

    /// Returns the current capital: the sum of the capital of all bets and of the reserve that no bet has received yet.
    pub(crate) fn capital(&self) -> f64 {
        (reserve(self.points()) + self.state.capital.iter().sum::<f64>()).min(MOST)
    }

    /// Returns the largest capital so far. If it is at least 1/δ, for a chosen level δ, the test rejects
    /// exchangeability at this level.
    pub(crate) fn largest(&self) -> f64 {
        self.state.largest
    }

    /// Computes the p-value of the next point from its `score`, bets against it, and returns it. A score that is not
    /// finite counts as the largest one.
    pub(crate) fn bet(&mut self, score: f64) -> f64 {
        let score = if score.is_finite() { score } else { f64::MAX }; // JSON has no infinity
        let t = self.points();
        let below = self.pool.partition_point(|&other| other < score);
        let equal = self.pool[below..].partition_point(|&other| other <= score);
        let larger = self.pool.len() - below - equal;
        let tie = random::uniform_of(&[self.seed, TIE_PURPOSE, t as u64]);
        let p = (larger as f64 + tie * (equal + 1) as f64) / (self.pool.len() + 1) as f64;
        // Every bet gets its share of the capital that leaves the reserve, then is multiplied by its factor.
        let released = (reserve(t) - reserve(t + 1)) / (2 * POWERS.len()) as f64;
        for (at, capital) in self.state.capital.iter_mut().enumerate() {
            let (side, power) = (if at < POWERS.len() { p } else { 1.0 - p }, POWERS[at % POWERS.len()]);
            *capital = ((*capital + released) * factor(side, power)).min(MOST);
        }
        self.pool.insert(below, score);
        self.state.scores.push(score);
        self.state.largest = self.state.largest.max(self.capital());
        p
    }
}

/// Returns the factor `κ·p^(κ-1)` by which a bet on the p-value p multiplies its capital; κ is `power`.
fn factor(p: f64, power: f64) -> f64 {
    power * p.max(LEAST_P).powf(power - 1.0)
}

/// Returns the share of the initial capital that no bet has received yet after `t` points.
fn reserve(t: usize) -> f64 {
    1.0 / (std::f64::consts::E + t as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    fn normal(random: &mut Random, n: usize, shift: f64) -> Vec<f64> {
        (0..n).map(|_| random.normal() + shift).collect()
    }

    /// Tests false alarms over 1,000 runs of 300 points each. The capital reaches 1/δ in some runs, and the share of
    /// these runs exceeds δ by no more than chance explains.
    #[test]
    fn false_alarms_over_whole_runs_are_no_more_than_delta() {
        let runs = 1000;
        for (delta, ties) in [(0.1, false), (0.02, false), (0.1, true)] {
            let mut alarms = 0;
            for run in 0..runs {
                let mut random = Random::new(run, 11);
                let round = |score: f64| if ties { score.round() } else { score };
                let calibration = normal(&mut random, 60, 0.0).into_iter().map(round).collect();
                let mut martingale = Martingale::new(calibration, run).unwrap();
                for score in normal(&mut random, 300, 0.0) {
                    martingale.bet(round(score));
                }
                alarms += usize::from(martingale.largest() >= 1.0 / delta);
            }
            let share = alarms as f64 / runs as f64;
            let band = 3.29 * (delta * (1.0 - delta) / runs as f64).sqrt();
            assert!(share <= delta + band, "{share} false alarms at {delta}");
            assert!(alarms > 0, "{delta}: no run reached it, so the test shows nothing");
        }
    }

    /// Tests that the mean factor over a uniform p is `∫κ·max(p,ε)^(κ-1) dp = 1 - (1-κ)·ε^κ`, where ε is [`LEAST_P`].
    /// It is below 1 only because of ε.
    #[test]
    fn bets_have_a_mean_factor_of_at_most_one() {
        for power in POWERS {
            // The midpoint rule in ln p from ε to 1; below ε the factor is constant.
            let steps = 100_000;
            let width = -LEAST_P.ln() / f64::from(steps);
            let above = (0..steps).map(|at| LEAST_P * ((f64::from(at) + 0.5) * width).exp());
            let mean = LEAST_P * factor(0.0, power) + above.map(|p| factor(p, power) * p * width).sum::<f64>();
            let expected = 1.0 - (1.0 - power) * LEAST_P.powf(power);
            assert!((mean - expected).abs() < 1e-6, "{power}: {mean}, not {expected}");
        }
    }

    /// Tests that changes in either direction are found, early and late, and that p-values agree with their definition.
    #[test]
    fn changes_are_found() {
        for (shift, before) in [(2.0, 0), (-2.0, 0), (2.0, 3000), (1.0, 500)] {
            let mut random = Random::new(5, 12);
            let mut martingale = Martingale::new(normal(&mut random, 500, 0.0), 3).unwrap();
            for score in normal(&mut random, before, 0.0) {
                martingale.bet(score);
            }
            assert!(martingale.largest() < 100.0, "{shift} {before}");
            for score in normal(&mut random, 200, shift) {
                martingale.bet(score);
            }
            assert!(martingale.largest() >= 100.0, "{shift} {before}: {}", martingale.largest());
        }
        let mut martingale = Martingale::new(vec![1.0, 2.0, 3.0], 0).unwrap();
        let p = martingale.bet(2.5);
        assert!((0.25..=0.5).contains(&p), "one score is larger, and the point is its own equal: {p}");
    }

    #[test]
    fn a_resumed_stream_continues_as_if_uninterrupted() {
        let mut random = Random::new(1, 13);
        let (calibration, stream) = (normal(&mut random, 40, 0.0), normal(&mut random, 60, 0.5));
        let mut whole = Martingale::new(calibration.clone(), 9).unwrap();
        for &score in &stream {
            whole.bet(score);
        }
        let mut first = Martingale::new(calibration.clone(), 9).unwrap();
        for &score in &stream[..25] {
            first.bet(score);
        }
        let text = serde_json::to_string(first.state()).unwrap();
        let state = serde_json::from_str(&text).unwrap();
        let mut second = Martingale::new(calibration.clone(), 9).unwrap().resume(state).unwrap();
        for &score in &stream[25..] {
            second.bet(score);
        }
        assert_eq!(second, whole);
        let wrong = Bets { capital: vec![-1.0; 8], ..whole.state().clone() };
        assert!(Martingale::new(calibration, 9).unwrap().resume(wrong).is_err());
    }
}
