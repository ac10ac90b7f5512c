//! Results of neighbor searches.

/// The nearest reference points of every query, nearest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbors {
    /// The number of entries per query in `ids` and `squared`. A query may have fewer neighbors, as `lengths` holds.
    pub(super) stride: usize,
    pub(super) lengths: Vec<u32>,
    pub(super) ids: Vec<u32>,
    pub(super) squared: Vec<f64>,
}

impl Neighbors {
    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns the reference indices of a query's neighbors, nearest first. They are fewer than wanted if the reference
    /// has fewer points.
    pub fn ids(&self, query: usize) -> &[u32] {
        &self.ids[query * self.stride..][..self.lengths[query] as usize]
    }

    /// Returns the squared distances of a query's neighbors.
    pub fn squared(&self, query: usize) -> &[f64] {
        &self.squared[query * self.stride..][..self.lengths[query] as usize]
    }

    /// Merges the neighbors of the same queries in two disjoint parts of a reference into their `k` neighbors in the
    /// whole reference. `rows` and `other_rows`, both ascending, are the indices of the parts' points in the whole.
    pub fn merge(&self, rows: &[usize], other: &Self, other_rows: &[usize], k: usize) -> Self {
        let mut merged = Self::with_capacity(self.len(), k.min(rows.len() + other_rows.len()));
        let stride = merged.stride;
        for query in 0..self.len() {
            let one =
                self.squared(query).iter().copied().zip(self.ids(query).iter().map(|&id| rows[id as usize] as u32));
            let two = other.squared(query).iter().copied();
            let two = two.zip(other.ids(query).iter().map(|&id| other_rows[id as usize] as u32));
            let (mut one, mut two) = (one.peekable(), two.peekable());
            for place in 0..stride {
                let first = match (one.peek(), two.peek()) {
                    (Some(a), Some(b)) => nearer(a, b).is_le(),
                    (a, _) => a.is_some(),
                };
                let Some((squared, id)) = (if first { one.next() } else { two.next() }) else { break };
                merged.squared[query * stride + place] = squared;
                merged.ids[query * stride + place] = id;
                merged.lengths[query] += 1;
            }
        }
        merged
    }

    /// Returns the reference indices of all neighbors, query after query, and the number of neighbors per query, which
    /// must be the same for all.
    pub(crate) fn table(&self) -> (Vec<u32>, usize) {
        let columns = self.lengths.first().map_or(0, |&length| length as usize);
        ((0..self.len()).flat_map(|query| self.ids(query)).copied().collect(), columns)
    }

    /// Returns the neighbors of some of the queries.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::with_capacity(queries.len(), self.stride);
        for (place, &query) in queries.iter().enumerate() {
            let (from, to) = (query * self.stride, place * self.stride);
            selected.ids[to..to + self.stride].copy_from_slice(&self.ids[from..from + self.stride]);
            selected.squared[to..to + self.stride].copy_from_slice(&self.squared[from..from + self.stride]);
            selected.lengths[place] = self.lengths[query];
        }
        selected
    }

    /// Appends further queries with the same reference and number of neighbors.
    pub fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        debug_assert!(other.is_empty() || other.stride == self.stride);
        self.lengths.extend_from_slice(&other.lengths);
        self.ids.extend_from_slice(&other.ids);
        self.squared.extend_from_slice(&other.squared);
    }

    /// Returns the slots of every query, to be filled with its neighbors.
    pub(super) fn slots(&mut self) -> impl Iterator<Item = NeighborSlots<'_>> {
        let stride = self.stride.max(1);
        let lists = self.ids.chunks_mut(stride).zip(self.squared.chunks_mut(stride));
        self.lengths.iter_mut().zip(lists).map(|(length, (ids, squared))| NeighborSlots { length, ids, squared })
    }

    /// Creates empty lists of at most `stride` neighbors.
    pub(super) fn with_capacity(queries: usize, stride: usize) -> Self {
        let slots = queries * stride;
        Self { stride, lengths: vec![0; queries], ids: vec![0; slots], squared: vec![0.0; slots] }
    }
}

/// Compares neighbors by distance, then by reference index.
fn nearer(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// The slots for one query's neighbors.
pub(super) struct NeighborSlots<'a> {
    length: &'a mut u32,
    ids: &'a mut [u32],
    squared: &'a mut [f64],
}

impl NeighborSlots<'_> {
    /// Writes the neighbors, nearest first and at most as many as there are slots.
    pub(super) fn fill(&mut self, pairs: &[(f64, u32)]) {
        *self.length = pairs.len() as u32;
        for ((id, squared), pair) in self.ids.iter_mut().zip(self.squared.iter_mut()).zip(pairs) {
            (*squared, *id) = *pair;
        }
    }
}

/// The reverse neighbors of queries: for every query, the points that have it within their reach, a squared distance
/// per point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReverseNeighbors {
    pub(super) lists: Vec<Vec<(u32, f64)>>,
}

impl ReverseNeighbors {
    /// Returns the indices (ascending) and squared distances of the reverse neighbors of one query.
    pub fn get(&self, query: usize) -> &[(u32, f64)] {
        &self.lists[query]
    }
}
