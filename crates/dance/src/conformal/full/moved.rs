//! The change of levels when some points get new scores. The level of a score is the number of scores that are at least
//! as large.

/// The old and the new scores of the points whose score changed. The two lists are sorted separately, in ascending
/// order.
#[derive(Clone, Debug, Default)]
pub(super) struct MovedScores {
    from: Vec<f64>,
    to: Vec<f64>,
}

impl MovedScores {
    /// Replaces the lists by new ones. Each of the `moves` is the old and the new score of a point, and is skipped if
    /// the two are equal.
    pub(super) fn fill(&mut self, moves: impl Iterator<Item = (f64, f64)>) {
        self.from.clear();
        self.to.clear();
        for (from, to) in moves.filter(|(from, to)| from != to) {
            self.from.push(from);
            self.to.push(to);
        }
        self.from.sort_unstable_by(f64::total_cmp);
        self.to.sort_unstable_by(f64::total_cmp);
    }

    /// Returns the change of the [level](self) of `score`: the number of new scores that are at least `score`, less the
    /// number of such old scores.
    pub(super) fn growth(&self, score: f64) -> i64 {
        at_least(&self.to, score) - at_least(&self.from, score)
    }

    /// Returns the largest absolute change of the [level](self) of any score. The change is a step function of the
    /// score, so only the old and the new scores are tried.
    pub(super) fn largest(&self) -> u64 {
        let steps = self.from.iter().chain(&self.to);
        steps.map(|&score| self.growth(score).unsigned_abs()).max().unwrap_or(0)
    }
}

fn at_least(sorted: &[f64], score: f64) -> i64 {
    (sorted.len() - sorted.partition_point(|&other| other < score)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_difference_of_the_counts_before_and_after() {
        let (before, after) = ([1.0, 2.0, 2.0, 5.0, f64::INFINITY], [1.0, 3.0, 0.5, f64::INFINITY, 4.0]);
        let mut moved = MovedScores::default();
        moved.fill(before.into_iter().zip(after));
        let count = |scores: &[f64], at: f64| scores.iter().filter(|&&score| score >= at).count() as i64;
        let growths: Vec<i64> = [0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 4.5, 5.0, f64::INFINITY]
            .into_iter()
            .inspect(|&at| assert_eq!(moved.growth(at), count(&after, at) - count(&before, at), "{at}"))
            .map(|at| moved.growth(at))
            .collect();
        assert_eq!(moved.largest() as i64, growths.iter().map(|growth| growth.abs()).max().unwrap());
    }
}
