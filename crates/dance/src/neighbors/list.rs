//! What a search returns.

/// The nearest reference points of every query, nearest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbors {
    /// Places per query.
    pub(super) stride: usize,
    pub(super) lengths: Vec<u32>,
    pub(super) ids: Vec<u32>,
    pub(super) squared: Vec<f64>,
}

impl Neighbors {
    /// Number of queries.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Reference indices of the neighbors of one query; fewer than asked for when the reference has fewer.
    pub fn ids(&self, query: usize) -> &[u32] {
        &self.ids[query * self.stride..][..self.lengths[query] as usize]
    }

    /// Squared distances of the neighbors of one query.
    pub fn squared(&self, query: usize) -> &[f64] {
        &self.squared[query * self.stride..][..self.lengths[query] as usize]
    }

    /// The neighbors among two disjoint parts of a reference, from the neighbors in each part. The rows of a part, in
    /// ascending order, say where its points are in the whole.
    pub fn merge(&self, rows: &[usize], other: &Self, other_rows: &[usize], k: usize) -> Self {
        let mut merged = Self::with_room(self.len(), k.min(rows.len() + other_rows.len()));
        let stride = merged.stride;
        for query in 0..self.len() {
            let one = self
                .squared(query)
                .iter()
                .copied()
                .zip(self.ids(query).iter().map(|&id| rows[id as usize] as u32));
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

    /// Reference indices of all queries, each with as many neighbors as any other; and that number.
    pub(crate) fn table(&self) -> (Vec<u32>, usize) {
        let columns = self.lengths.first().map_or(0, |&length| length as usize);
        ((0..self.len()).flat_map(|query| self.ids(query)).copied().collect(), columns)
    }

    /// The neighbors of some of the queries.
    pub fn select(&self, queries: &[usize]) -> Self {
        let mut selected = Self::with_room(queries.len(), self.stride);
        for (place, &query) in queries.iter().enumerate() {
            let (from, to) = (query * self.stride, place * self.stride);
            selected.ids[to..to + self.stride].copy_from_slice(&self.ids[from..from + self.stride]);
            selected.squared[to..to + self.stride].copy_from_slice(&self.squared[from..from + self.stride]);
            selected.lengths[place] = self.lengths[query];
        }
        selected
    }

    /// Appends further queries, asked of the same reference for as many neighbors.
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

    /// Where the neighbors of each query go.
    pub(super) fn places(&mut self) -> impl Iterator<Item = Places<'_>> {
        let stride = self.stride.max(1);
        let lists = self.ids.chunks_mut(stride).zip(self.squared.chunks_mut(stride));
        self.lengths.iter_mut().zip(lists).map(|(length, (ids, squared))| Places { length, ids, squared })
    }

    pub(super) fn with_room(queries: usize, stride: usize) -> Self {
        let room = queries * stride;
        Self { stride, lengths: vec![0; queries], ids: vec![0; room], squared: vec![0.0; room] }
    }
}

/// The order of neighbors: by distance, then by reference index.
fn nearer(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// Where the neighbors of one query go.
pub(super) struct Places<'a> {
    length: &'a mut u32,
    ids: &'a mut [u32],
    squared: &'a mut [f64],
}

impl Places<'_> {
    /// Nearest first, no more than there is room for.
    pub(super) fn fill(&mut self, pairs: &[(f64, u32)]) {
        *self.length = pairs.len() as u32;
        for ((id, squared), pair) in self.ids.iter_mut().zip(self.squared.iter_mut()).zip(pairs) {
            (*squared, *id) = *pair;
        }
    }
}

/// For every query, the points that have it within their reach.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reached {
    pub(super) lists: Vec<Vec<(u32, f64)>>,
}

impl Reached {
    /// Numbers, ascending, and squared distances of the points that reach one query.
    pub fn get(&self, query: usize) -> &[(u32, f64)] {
        &self.lists[query]
    }
}
