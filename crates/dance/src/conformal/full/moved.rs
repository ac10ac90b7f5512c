//! How one score's counts grow when some of the points have moved.

/// Scores that moved: where they were and where they are, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    from: Vec<f64>,
    to: Vec<f64>,
}

impl Moved {
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

    /// By how much `N(score)` grows.
    pub(super) fn growth(&self, score: f64) -> i64 {
        at_least(&self.to, score) - at_least(&self.from, score)
    }

    /// The largest growth or loss anywhere: a step function is extreme at its steps.
    pub(super) fn largest(&self) -> u64 {
        let steps = self.from.iter().chain(&self.to);
        steps.map(|&score| self.growth(score).unsigned_abs()).max().unwrap_or(0)
    }
}

fn at_least(sorted: &[f64], score: f64) -> i64 {
    (sorted.len() - sorted.partition_point(|&other| other < score)) as i64
}

/// The least number below `end` that passes, or `end`; all above it pass too.
pub(super) fn least_where(end: usize, passes: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = usize::midpoint(low, high);
        if passes(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_difference_of_the_counts_before_and_after() {
        let (before, after) = ([1.0, 2.0, 2.0, 5.0, f64::INFINITY], [1.0, 3.0, 0.5, f64::INFINITY, 4.0]);
        let mut moved = Moved::default();
        moved.fill(before.into_iter().zip(after));
        let count = |scores: &[f64], at: f64| scores.iter().filter(|&&score| score >= at).count() as i64;
        let growths: Vec<i64> = [0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 4.5, 5.0, f64::INFINITY]
            .into_iter()
            .inspect(|&at| assert_eq!(moved.growth(at), count(&after, at) - count(&before, at), "{at}"))
            .map(|at| moved.growth(at))
            .collect();
        assert_eq!(moved.largest() as i64, growths.iter().map(|growth| growth.abs()).max().unwrap());
        assert_eq!(least_where(7, |number| number >= 3), 3);
        assert_eq!(least_where(7, |_| false), 7);
    }
}
