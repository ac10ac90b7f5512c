//! A bounded list of the points that can be among the k nearest of one query.
//!
//! One vectorised comparison refuses all values beyond `k-th smallest so far + slack`. The few that pass are appended
//! without a branch. When the list is full, a selection finds the new k-th smallest. On points in random order about
//! `k·log₂(n/k)` of n values pass. A list [`within`](Shortlist::within) a fixed threshold keeps everything that passes,
//! and grows.

use pulp::{Arch, Simd, WithSimd};

/// The largest number of values compared at once.
const LANES: usize = 16;

/// A list of candidates for one query.
pub(super) struct Shortlist {
    /// The number of nearest points.
    k: usize,
    /// The rounding bound: values up to the k-th smallest plus this are kept.
    slack: f32,
    /// Values above it cannot be among the k nearest.
    threshold: f32,
    /// The length at which the list is cut.
    full: usize,
    length: usize,
    /// Values and ids in numbers of the same order; `LANES` places more than `full`.
    entries: Vec<u64>,
}

impl Shortlist {
    /// Creates a list of all values up to the k-th smallest plus `slack`.
    pub(super) fn new(k: usize, slack: f32) -> Self {
        let full = 2 * k.max(LANES);
        Self { k, slack, threshold: f32::INFINITY, full, length: 0, entries: vec![0; full + LANES] }
    }

    /// Creates a list of all values up to `threshold`, however many.
    pub(super) fn within(threshold: f32) -> Self {
        Self { k: usize::MAX, threshold, ..Self::new(LANES, 0.0) }
    }

    /// Creates a list of all `n` points, for a query whose products may overflow.
    pub(super) fn all(n: usize) -> Self {
        Self {
            k: 0,
            slack: 0.0,
            threshold: f32::NEG_INFINITY,
            full: n,
            length: n,
            entries: (0..n as u64).collect(),
        }
    }

    /// Offers the points from `start` on, by their products with the query and their squared norms.
    pub(super) fn offer(&mut self, start: u32, products: &[f32], norms: &[f32]) {
        if self.threshold == f32::NEG_INFINITY {
            return;
        }
        Arch::new().dispatch(Offer { list: self, start, products, norms });
    }

    #[inline(always)]
    fn append(&mut self, first: u32, values: &[f32]) {
        let room = &mut self.entries[self.length..self.length + LANES];
        let mut taken = 0;
        for (&value, id) in values.iter().zip(first..) {
            // `taken` stays below the number of values read, so the place is always there.
            room[taken % LANES] = entry(value, id);
            taken += usize::from(value <= self.threshold);
        }
        self.length += taken;
        if self.length > self.full {
            self.cut();
        }
    }

    /// Finds the k-th smallest value and drops what lies beyond it by more than the slack.
    #[inline(never)]
    fn cut(&mut self) {
        if self.length <= self.k {
            if self.length > self.full {
                self.make_room(self.length);
            }
            return;
        }
        let kth = *self.entries[..self.length].select_nth_unstable(self.k - 1).1;
        self.threshold = value(kth) + self.slack;
        let mut kept = self.k;
        for place in self.k..self.length {
            if value(self.entries[place]) <= self.threshold {
                self.entries[kept] = self.entries[place];
                kept += 1;
            }
        }
        self.length = kept;
        // Many values within the slack: make room, so that the next call does not cut again.
        self.make_room(kept);
    }

    fn make_room(&mut self, kept: usize) {
        self.full = self.full.max(2 * kept);
        self.entries.resize(self.full + LANES, 0);
    }

    /// Returns the ids that remain, in no order.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = u32> + '_ {
        if self.threshold != f32::NEG_INFINITY {
            self.cut();
        }
        self.entries[..self.length].iter().map(|&entry| entry as u32) // the id is in the lower half
    }
}

struct Offer<'a> {
    list: &'a mut Shortlist,
    start: u32,
    products: &'a [f32],
    norms: &'a [f32],
}

impl WithSimd for Offer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { list, start, products, norms } = self;
        let (chunks, rest) = S::as_simd_f32s(products);
        let (norm_chunks, rest_norms) = S::as_simd_f32s(norms);
        let minus_two = simd.splat_f32s(-2.0);
        let mut first = start;
        for (&products, &norms) in chunks.iter().zip(norm_chunks) {
            let values = simd.mul_add_f32s(minus_two, products, norms);
            let within = simd.less_than_or_equal_f32s(values, simd.splat_f32s(list.threshold));
            if simd.first_true_m32s(within) < S::F32_LANES {
                let mut lanes = [f32::INFINITY; LANES];
                S::as_mut_simd_f32s(&mut lanes).0[0] = values;
                list.append(first, &lanes[..S::F32_LANES]);
            }
            first += S::F32_LANES as u32;
        }
        let mut lanes = [f32::INFINITY; LANES];
        for (value, (product, norm)) in lanes.iter_mut().zip(rest.iter().zip(rest_norms)) {
            *value = norm - 2.0 * product;
        }
        list.append(first, &lanes[..rest.len()]);
    }
}

/// Packs a float, as an integer of the same order, and the id into one number.
#[inline(always)]
fn entry(value: f32, id: u32) -> u64 {
    let bits = value.to_bits();
    let ordered = bits ^ (((bits as i32) >> 31) as u32 | 0x8000_0000);
    (u64::from(ordered) << 32) | u64::from(id)
}

#[inline(always)]
fn value(entry: u64) -> f32 {
    let ordered = (entry >> 32) as u32;
    f32::from_bits(ordered ^ ((!ordered as i32 >> 31) as u32 | 0x8000_0000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_order_like_their_values() {
        let values = [f32::NEG_INFINITY, -3.5, -1e-20, -0.0, 0.0, 1e-20, 2.0, 7e30, f32::INFINITY];
        for pair in values.windows(2) {
            assert!(entry(pair[0], 9) < entry(pair[1], 0));
        }
        for original in values {
            assert_eq!(value(entry(original, 77)).to_bits(), original.to_bits());
        }
    }

    #[test]
    fn keeps_what_lies_within_the_slack() {
        let norms: Vec<f32> = (0..1000).map(|i| ((i * 389) % 1000) as f32).collect();
        let mut list = Shortlist::new(10, 2.0);
        for start in (0..1000).step_by(77) {
            let end = (start + 77).min(1000);
            list.offer(start as u32, &vec![0.0; end - start], &norms[start..end]);
        }
        let mut kept: Vec<f32> = list.finish().map(|id| norms[id as usize]).collect();
        kept.sort_unstable_by(f32::total_cmp);
        assert_eq!(kept, (0..12).map(|i| i as f32).collect::<Vec<_>>());
    }

    #[test]
    fn keeps_everything_within_a_fixed_threshold() {
        let norms: Vec<f32> = (0..1000).map(|i| ((i * 389) % 1000) as f32).collect();
        let mut list = Shortlist::within(700.0);
        list.offer(0, &[0.0; 1000], &norms);
        let mut kept: Vec<f32> = list.finish().map(|id| norms[id as usize]).collect();
        kept.sort_unstable_by(f32::total_cmp);
        assert_eq!(kept, (0..=700).map(|i| i as f32).collect::<Vec<_>>());
    }
}
