//! How many points are among the first so many in one order and among the first so many in another.
//!
//! A Fenwick tree over the first order whose nodes hold places in the second, sorted. Cost: `log² n` per count, `n·log n` numbers.

/// See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dominance {
    /// Node j holds the second places of the `lowest bit of j` points up to the j-th.
    nodes: Vec<Vec<u32>>,
}

impl Dominance {
    /// From the values of every point in both orders.
    pub(super) fn new(points: impl ExactSizeIterator<Item = (f64, f64)>) -> Self {
        let points: Vec<(f64, f64)> = points.collect();
        let mut order: Vec<u32> = (0..points.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| points[a as usize].1.total_cmp(&points[b as usize].1));
        let mut second = vec![0u32; points.len()];
        for (place, &point) in (0..).zip(&order) {
            second[point as usize] = place;
        }
        order.sort_unstable_by(|&a, &b| points[a as usize].0.total_cmp(&points[b as usize].0));
        let mut nodes = vec![Vec::new(); points.len() + 1];
        for (first, &point) in (1..).zip(&order) {
            let mut node: usize = first;
            while node < nodes.len() {
                nodes[node].push(second[point as usize]);
                node += node & node.wrapping_neg();
            }
        }
        for node in &mut nodes {
            node.sort_unstable();
        }
        Self { nodes }
    }

    /// Points among the first `first` in the first order and the first `second` in the second.
    pub(super) fn count(&self, first: usize, second: usize) -> usize {
        let (mut node, mut total) = (first, 0);
        while node > 0 {
            total += self.nodes[node].partition_point(|&place| (place as usize) < second);
            node &= node - 1;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Random;

    #[test]
    fn counts_like_a_loop() {
        let mut random = Random::new(1, 1);
        for n in [0, 1, 2, 7, 64, 100] {
            let points: Vec<(f64, f64)> = (0..n).map(|_| (random.uniform(), random.uniform())).collect();
            let dominance = Dominance::new(points.iter().copied());
            let sorted = |which: fn(&(f64, f64)) -> f64| {
                let mut values: Vec<f64> = points.iter().map(which).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let (one, two) = (sorted(|point| point.0), sorted(|point| point.1));
            for first in 0..=n {
                for second in 0..=n {
                    let within = |value: f64, sorted: &[f64], count: usize| sorted[..count].contains(&value);
                    let expected = points
                        .iter()
                        .filter(|point| within(point.0, &one, first) && within(point.1, &two, second))
                        .count();
                    assert_eq!(dominance.count(first, second), expected, "{n} {first} {second}");
                }
            }
        }
    }
}
