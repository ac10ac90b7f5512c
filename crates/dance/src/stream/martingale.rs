//! A test martingale: has the stream changed? An alarm that holds for the whole run, however long it is watched.
//!
//! Every point gets a score by a function that other points have fixed, and a smoothed rank among the calibration points and all
//! points of the stream so far: `p = (#{larger} + τ·#{equal}) / (n+t)`, τ uniform, the point counted among its equals. For
//! exchangeable points these p-values are independent and uniform, so whoever bets on them in a fair game gains nothing on
//! average: capital that started at 1 ever reaches 1/δ with probability at most δ (Ville).
//!
//! The bets are powers, `κ·p^(κ-1)` and the same of `1-p`, for several κ: points have become stranger, or less strange. Nobody knows when
//! a change will come, so money is laid out bit by bit: after t points `1/ln(e+t)` is still in reserve, and what is paid out at t bets
//! from then on. A late change costs the logarithm of the time before it, not the time.
//!
//! Cost: a bisection per point, and a copy of the scores behind its place. Memory: 8 bytes per point of the stream.
//!
//! ```
//! use dance::stream::Martingale;
//! let mut steady = Martingale::new((0..200).map(f64::from).collect(), 1)?;
//! let mut changed = steady.clone();
//! for t in 0..100u32 {
//!     steady.bet(f64::from(t * 37 % 200));
//!     changed.bet(f64::from(190 + t % 10));
//! }
//! assert!(steady.largest() < 20.0 && changed.largest() > 1e6);
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::numeric::random;
use crate::scores::threshold::CalibrationScores;

/// Exponents κ of the bets, of p and of 1-p.
const POWERS: [f64; 4] = [0.1, 0.3, 0.5, 0.8];
/// The stream of random numbers that breaks ties.
const TIE_PURPOSE: u64 = 0x7e57;
/// More than anyone asks for: capital stops here, before it overflows.
const MOST: f64 = 1e100;

/// A bet on p-values that are not uniform, and what it has won.
#[derive(Clone, Debug, PartialEq)]
pub struct Martingale {
    /// Scores of all points so far, ascending.
    pool: Vec<f64>,
    seed: u64,
    state: Bets,
}

/// What a martingale remembers beside its calibration scores: enough to go on from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bets {
    /// Scores of the points of the stream, in their order.
    scores: Vec<f64>,
    /// Capital of every bet.
    capital: Vec<f64>,
    /// The largest total so far.
    largest: f64,
}

impl Martingale {
    /// At the begin of a stream. Scores are numbers or +∞.
    pub fn new(calibration: Vec<f64>, seed: u64) -> Result<Self> {
        let pool = CalibrationScores::new(calibration)?.sorted().to_vec();
        let state = Bets { scores: Vec::new(), capital: vec![0.0; 2 * POWERS.len()], largest: 1.0 };
        Ok(Self { pool, seed, state })
    }

    /// Where it stood after some points of a stream.
    pub fn resume(mut self, state: Bets) -> Result<Self> {
        let sound = state.capital.len() == 2 * POWERS.len()
            && state.capital.iter().all(|capital| (0.0..=MOST).contains(capital))
            && state.largest >= 1.0
            && state.scores.iter().all(|score| !score.is_nan());
        if !sound {
            return Err(Error::Data(
                "the state is none that a monitor wrote; delete it to begin anew".into(),
            ));
        }
        self.pool.extend_from_slice(&state.scores);
        self.pool.sort_unstable_by(f64::total_cmp);
        self.state = state;
        Ok(self)
    }

    /// What to go on from.
    pub fn state(&self) -> &Bets {
        &self.state
    }

    /// Points of the stream.
    pub fn points(&self) -> usize {
        self.state.scores.len()
    }

    /// Capital now.
    pub fn capital(&self) -> f64 {
        (reserve(self.points()) + self.state.capital.iter().sum::<f64>()).min(MOST)
    }

    /// The largest capital so far: δ is ruled out once it reaches 1/δ.
    pub fn largest(&self) -> f64 {
        self.state.largest
    }

    /// Takes up the next point; returns its p-value. A score that is no finite number counts as the largest.
    pub fn bet(&mut self, score: f64) -> f64 {
        let score = if score.is_finite() { score } else { f64::MAX }; // which JSON can hold
        let t = self.points();
        let below = self.pool.partition_point(|&other| other < score);
        let equal = self.pool[below..].partition_point(|&other| other <= score);
        let larger = self.pool.len() - below - equal;
        let tie = random::uniform_of(&[self.seed, TIE_PURPOSE, t as u64]);
        let p = (larger as f64 + tie * (equal + 1) as f64) / (self.pool.len() + 1) as f64;
        let paid = (reserve(t) - reserve(t + 1)) / (2 * POWERS.len()) as f64;
        for (at, capital) in self.state.capital.iter_mut().enumerate() {
            let (side, power) = (if at < POWERS.len() { p } else { 1.0 - p }, POWERS[at % POWERS.len()]);
            // Away from 0, where a bet would win without end; that only makes it smaller.
            *capital = ((*capital + paid) * power * side.max(1e-9).powf(power - 1.0)).min(MOST);
        }
        self.pool.insert(below, score);
        self.state.scores.push(score);
        self.state.largest = self.state.largest.max(self.capital());
        p
    }
}

/// What is not laid out after `t` points.
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

    /// Over 1,000 runs of 300 points each, capital reaches 1/δ no more often than δ; and not because it never does.
    #[test]
    fn false_alarms_over_whole_runs_are_as_rare_as_asked() {
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
            assert!(alarms > 0, "{delta}: a martingale that never moves proves nothing");
        }
    }

    /// A fair game: the mean of one bet over a uniform p-value is its stake. By the integral of κ·p^(κ-1).
    #[test]
    fn bets_are_fair() {
        for power in POWERS {
            let steps = 2_000_000;
            let mean = (0..steps)
                .map(|at| power * ((f64::from(at) + 0.5) / f64::from(steps)).max(1e-9).powf(power - 1.0))
                .sum::<f64>()
                / f64::from(steps);
            assert!((0.7..=1.0 + 1e-9).contains(&mean), "{power}: {mean}");
        }
    }

    /// Changes are found in either direction, early and late, and p-values are those of the definition.
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
        assert!((0.25..=0.5).contains(&p), "one is larger, and itself: {p}");
    }

    #[test]
    fn goes_on_where_it_stood() {
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
