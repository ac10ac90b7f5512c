//! A level that follows what the labels say: adaptive conformal inference (Gibbs and Candès, 2021).
//!
//! After every label `α ← α + γ·(target - missed)`, so that α follows from how many labels came and how many were missed: a miss makes the
//! next sets larger, a hit a little smaller. Where α is 0 or less a set holds every label, where it is 1 or more none, so α cannot run away: with at most D points waiting for their labels it stays within γ(D+1) of 0 and 1. Since α is a sum
//! of the misses, after T labels, whatever the points and in whatever order,
//!
//! ```text
//! |misses/T - target| ≤ (1 + γ(D+1)) / (γT)
//! ```
//!
//! No source, no exchangeability, nothing about the model; and nothing about any one point, either: it is a promise about the long run.
//!
//! ```
//! use dance::stream::Adaptive;
//! let mut level = Adaptive::new(0.1, 0.05)?;
//! level.learn(true);
//! assert!((level.alpha() - 0.055).abs() < 1e-12); // 0.1 + 0.05·(0.1 - 1)
//! # Ok::<(), dance::Error>(())
//! ```

use crate::error::{Error, Result};

/// The level of the next set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    target: f64,
    rate: f64,
    labels: usize,
    misses: usize,
}

impl Adaptive {
    /// Begins at the `target`; `rate` is γ.
    pub fn new(target: f64, rate: f64) -> Result<Self> {
        for (name, value) in [("alpha", target), ("rate of adapting", rate)] {
            if !(value > 0.0 && value < 1.0) {
                return Err(Error::config(name, value, "between 0 and 1, such as 0.01"));
            }
        }
        Ok(Self { target, rate, labels: 0, misses: 0 })
    }

    /// The level now: at 0 or less a set holds every label, at 1 or more none.
    pub fn alpha(&self) -> f64 {
        self.target + self.rate * (self.labels as f64 * self.target - self.misses as f64)
    }

    /// Where it stood after so many labels, of which so many were missed.
    pub fn resume(mut self, labels: usize, misses: usize) -> Result<Self> {
        if misses > labels {
            return Err(Error::Data(format!("{misses} of {labels} labels cannot have been missed")));
        }
        (self.labels, self.misses) = (labels, misses);
        Ok(self)
    }

    /// Takes up whether a set missed the label of its point.
    pub fn learn(&mut self, missed: bool) {
        self.labels += 1;
        self.misses += usize::from(missed);
    }

    /// Labels so far, and how many of them were missed.
    pub fn counts(&self) -> (usize, usize) {
        (self.labels, self.misses)
    }

    /// How far the share of misses is from the target at most, where at most so many points waited for their labels at a time.
    pub fn bound(&self, waiting: usize) -> f64 {
        (1.0 + self.rate * (waiting + 1) as f64) / (self.rate * self.labels.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// p-values of true labels from anywhere, told at once and told late: the bound holds, and a fixed level is far off.
    #[test]
    fn misses_are_as_many_as_asked_for_in_the_long_run() {
        let mut random = Random::new(2, 3);
        for (target, rate, late) in [(0.1, 0.02, 0), (0.1, 0.05, 7), (0.3, 0.1, 0)] {
            let mut level = Adaptive::new(target, rate).unwrap();
            let (mut waiting, mut fixed) = (std::collections::VecDeque::new(), 0);
            for step in 0..4000 {
                // Uniform at first, then all small, then all large, then as the level would not have it.
                let p = match step / 1000 {
                    0 => random.uniform(),
                    1 => 0.05 * random.uniform(),
                    2 => 0.9 + 0.1 * random.uniform(),
                    _ => (level.alpha() - 0.01).clamp(0.0, 1.0),
                };
                let missed = level.alpha() >= 1.0 || (level.alpha() > 0.0 && p <= level.alpha());
                fixed += usize::from(p <= target);
                waiting.push_back(missed);
                if waiting.len() > late {
                    level.learn(waiting.pop_front().unwrap());
                }
            }
            let (labels, misses) = level.counts();
            let off = (misses as f64 / labels as f64 - target).abs();
            assert!(off <= level.bound(late + 1), "{off} > {}", level.bound(late + 1));
            assert!((fixed as f64 / 4000.0 - target).abs() > 5.0 * level.bound(late + 1));
        }
    }

    /// The rule, step by step; and the same from the middle on.
    #[test]
    fn the_level_is_the_sum_of_its_steps() {
        let mut random = Random::new(4, 3);
        let (mut level, mut alpha) = (Adaptive::new(0.1, 0.05).unwrap(), 0.1);
        for _ in 0..500 {
            let missed = random.uniform() < 0.3;
            level.learn(missed);
            alpha += 0.05 * (0.1 - f64::from(u8::from(missed)));
            assert!((level.alpha() - alpha).abs() < 1e-12);
            let (labels, misses) = level.counts();
            assert_eq!(Adaptive::new(0.1, 0.05).unwrap().resume(labels, misses).unwrap(), level);
        }
        assert!(level.resume(3, 4).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for (target, rate) in [(0.0, 0.1), (1.0, 0.1), (0.1, 0.0), (0.1, 1.5), (f64::NAN, 0.1)] {
            assert!(Adaptive::new(target, rate).is_err());
        }
    }
}
