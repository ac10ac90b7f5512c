//! What every expert can do: judge the points of the bag by all others, judge a query, and say what changes when the query joins.

use crate::context::Context;
use crate::posterior::link::Told;
use crate::posterior::settings::Space;
use crate::posterior::wide::Wide;

/// The same points in every space.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) raw: Wide,
    pub(super) white: Wide,
    pub(super) learned: Wide,
}

impl Block {
    pub(super) fn get(&self, space: Space) -> &Wide {
        match space {
            Space::Raw => &self.raw,
            Space::White => &self.white,
            Space::Learned => &self.learned,
        }
    }

    /// These points, then those of `below`.
    pub(super) fn above(self, below: &Self) -> Self {
        Self {
            raw: self.raw.above(&below.raw),
            white: self.white.above(&below.white),
            learned: self.learned.above(&below.learned),
        }
    }
}

/// Labelled points that speak: those that fitted the kernel, then the bag.
pub(super) struct Support<'a> {
    pub(super) points: &'a Block,
    pub(super) labels: &'a [u32],
    /// How many of them fitted the kernel.
    pub(super) fit: usize,
    pub(super) classes: usize,
}

impl Support<'_> {
    pub(super) fn bag_labels(&self) -> &[u32] {
        &self.labels[self.fit..]
    }
}

/// Evidence for every label, in units that the stack gives a weight.
pub(super) trait Expert: Send + Sync + std::fmt::Debug {
    /// Evidence of every point of the bag for every label, from all points but itself.
    fn bag(&self) -> &Wide;

    /// What it is told from, and how.
    fn outputs(&self) -> (&Wide, Told) {
        (self.bag(), Told::PLAIN)
    }

    /// Looks at queries.
    fn ask<'a>(&'a self, block: &Block, context: &Context<'_>) -> Box<dyn Asked + 'a>;
}

/// What an expert says about the queries of a block.
pub(super) trait Asked: Send + Sync {
    /// The query's own evidence for every label, from fit points and bag.
    fn evidence(&self, query: usize) -> &[f64];

    /// Adds `weight` times what changes in the evidence of a point of the bag whatever label the query carries.
    fn shift(&self, _query: usize, _point: usize, _weight: f64, _row: &mut [f64]) {}

    /// What such a change is made of, for all points; `None` where there is none.
    fn shifts(&self, _query: usize) -> Option<Shifts<'_>> {
        None
    }

    /// What changes beyond that in a point's evidence **for `label`** when the query carries it.
    fn join(&self, query: usize, point: usize, label: usize) -> f64;

    /// Adds `weight` times the same to the numbers of `points`, but for what [`shifts`](Self::shifts) holds of it; points of that label
    /// may get anything. Returns the largest number on the way, without the weight.
    fn gains(&self, _of: (usize, usize), _points: &[u32], _weight: f64, _sums: &mut [f32]) -> f64 {
        0.0
    }

    /// Adds `weight` times the least and the most that a gain is for any label but the point's, for all points, but for what
    /// [`shifts`](Self::shifts) holds of it.
    fn between(&self, _query: usize, _weight: f64, _least: &mut [f64], _most: &mut [f64]) {}
}

/// With an expert's [outputs](Expert::outputs) b of a point whose label is y, and f of the query: the output for z changes by
/// `shrunk·(b(z) - [z = y]) - joined·f(z)`, and that for the query's label by `joined` beyond it, which is the gain where outputs are told as
/// they are.
pub(super) struct Shifts<'a> {
    /// f.
    pub(super) outputs: &'a [f64],
    /// One number per point.
    pub(super) shrunk: &'a [f64],
    /// One number per point.
    pub(super) joined: &'a [f64],
}
