//! Adaptive conformal inference (Gibbs and Candès, 2021): an error level α that is updated with every label.
//!
//! After every label, `α ← α + γ·(target - missed)`. Here γ is the step size, and `target` is the wanted share of
//! misses. `missed` is 1 if the set did not contain the label, and else 0. So a miss makes the next sets larger, and a
//! hit makes them slightly smaller. A set holds every label for α ≤ 0 and none for α ≥ 1, so α stays bounded. With at
//! most D points waiting for their labels, α leaves \[0, 1\] by at most γ(D+1). Hence after T labels, for any points in
//! any order,
//!
//! ```text
//! |misses/T - target| ≤ (1 + γ(D+1)) / (γT)
//! ```
//!
//! This bound needs no exchangeability and no assumption on the model. It holds on average over time, not for a single
//! point.
//!
//! ```
//! use dance::stream::Adaptive;
//! let mut level = Adaptive::new(0.1, 0.05)?;
//! level.learn(true); // the set missed its label
//! assert!((level.alpha() - 0.055).abs() < 1e-12); // 0.1 + 0.05·(0.1 - 1)
//! # Ok::<(), dance::Error>(())
//! ```

use crate::error::{Error, Result};

/// An adaptive error level α, computed from the number of labels so far and the number of misses among them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    target: f64,
    rate: f64,
    labels: usize,
    misses: usize,
}

impl Adaptive {
    /// Starts at the error level `target`, which is also the wanted share of misses. `rate` is the step size γ. Each is
    /// above 0 and below 1.
    pub fn new(target: f64, rate: f64) -> Result<Self> {
        for (name, value) in [("alpha", target), ("rate of adapting", rate)] {
            if !(value > 0.0 && value < 1.0) {
                return Err(Error::config(name, value, "between 0 and 1, such as 0.01"));
            }
        }
        Ok(Self { target, rate, labels: 0, misses: 0 })
    }

    /// Returns the current error level α. It may leave \[0, 1\]: a set holds every label at 0 or less, and none at 1 or
    /// more.
    pub fn alpha(&self) -> f64 {
        self.target + self.rate * (self.labels as f64 * self.target - self.misses as f64)
    }

    /// Continues an earlier run, which had this number of `labels` and of `misses` among them. More misses than labels
    /// are an error.
    pub fn resume(mut self, labels: usize, misses: usize) -> Result<Self> {
        if misses > labels {
            return Err(Error::Data(format!("{misses} of {labels} labels cannot have been missed")));
        }
        (self.labels, self.misses) = (labels, misses);
        Ok(self)
    }

    /// Updates α by one label; `missed` is true if the set did not contain the label.
    pub fn learn(&mut self, missed: bool) {
        self.labels += 1;
        self.misses += usize::from(missed);
    }

    /// Returns the number of labels so far, and the number of misses among them.
    pub fn counts(&self) -> (usize, usize) {
        (self.labels, self.misses)
    }

    /// Returns an upper bound on `|misses/T - target|` after the T labels so far. It assumes that at most `waiting`
    /// points waited for their labels at any time.
    pub fn bound(&self, waiting: usize) -> f64 {
        (1.0 + self.rate * (waiting + 1) as f64) / (self.rate * self.labels.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    /// Tests that the bound holds for arbitrary p-values of true labels, with and without delayed labels. A fixed level
    /// misses the target by far on these p-values.
    #[test]
    fn the_share_of_misses_approaches_the_target() {
        let mut random = Random::new(2, 3);
        for (target, rate, late) in [(0.1, 0.02, 0), (0.1, 0.05, 7), (0.3, 0.1, 0)] {
            let mut level = Adaptive::new(target, rate).unwrap();
            let (mut waiting, mut fixed) = (std::collections::VecDeque::new(), 0);
            for step in 0..4000 {
                // Uniform p-values first, then small ones, then large ones, then always just below the level.
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

    /// Tests that the level agrees with the update rule at every step, and after a resume.
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
