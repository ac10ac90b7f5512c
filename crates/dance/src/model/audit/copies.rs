//! Near copies: groups of points at tiny distances. Distances are computed in the given space (embeddings, scaled to
//! length 1), and with a model also in the metric that the model has learned.
//!
//! Two points are near copies if their distance is at most a fifth of the median distance from a point to its nearest
//! neighbor, in that space. A data point is compared with a point of a model too. Then the median is taken among the
//! data points and among the model's points, and the smaller median counts. Chains of near copies form a group. Copies
//! in the learned metric differ only in directions that the model ignores. Copies in either space violate
//! exchangeability if they lie in different parts of a split.
//!
//! A model point with the coordinates and the id of a data point (the row, if there are no ids) is that data point
//! itself. It is not a copy. The data point then belongs to the part of the model that holds it, such as its
//! calibration points.

use std::collections::BTreeSet;

use super::AuditOptions;
use crate::context::Context;
use crate::data::Dataset;
use crate::device::Device;
use crate::error::Result;
use crate::model::dance::Dance;
use crate::model::model_point::{Matches, ModelPoint};
use crate::model::overlap::ModelPart;
use crate::model::select::median;
use crate::neighbors::{Index, Neighbors};
use crate::numeric::matrix::Matrix;
use crate::scores::calibration::NOVELTY_NEIGHBORS;

/// The largest distance of two near copies, as a share of the median distance from a point to its nearest neighbor.
const COPY: f64 = 0.2;

/// A group of near copies, which are points at tiny distances from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// The rows in the data set of the group's data points, ascending.
    pub rows: Vec<u32>,
    /// The model's points in the group. Model points that are data points of the group themselves are left out.
    pub model: Vec<ModelPoint>,
    /// The space in which the group's points are near copies: `given` (the embeddings), `learned` (the model's metric)
    /// or `both`.
    pub space: &'static str,
    /// The names of the parts that hold the group's points: parts of the user's split ([`AuditOptions::parts`]) and
    /// parts of the model. The parts of the model are `fit`, `calibration` and, for points that it does not hold,
    /// `new`.
    pub parts: Vec<String>,
    /// True if the group's points lie in several parts of the user's split or of the model. Such parts are not
    /// independent of each other.
    pub across: bool,
}

/// The data points that a model holds: the row of each one, and the equal point of the model.
pub(super) type Seen = Vec<(usize, ModelPoint)>;

/// Finds groups of near copies, those with points in several parts first, and the data points that the model holds.
/// `given` holds the data points, scaled to length 1, and `near` the nearest neighbors of each data point.
pub(super) fn find(
    device: &dyn Device,
    data: &Dataset,
    (given, near): (&Matrix, &Neighbors),
    model: Option<&Dance>,
    options: AuditOptions<'_>,
    context: &Context<'_>,
) -> Result<(Vec<Copies>, Seen)> {
    let given_part = |row: usize| options.parts.map(|parts| parts[row].as_str());
    let mut groups = Groups::new(data.len());
    groups.link_all(near, limit(near), 0, GIVEN);
    let Some(model) = model else { return Ok((groups.finish(&[], given_part, |_| None), Vec::new())) };

    // Links between points of the data set in the learned metric.
    let mapped = model.classifier.transform(&data.embeddings, context)?;
    let learned = Index::open(device, mapped.clone(), context)?;
    let learned = learned.search_own(data.len(), NOVELTY_NEIGHBORS.min(data.len() - 1), context)?;
    groups.link_all(&learned, limit(&learned), 0, LEARNED);

    // Links to other points of the model, in both spaces.
    let points = ModelPoints::new(model, data)?;
    if let Some(normalised) = &points.normalised {
        let mut compare = |there: Matrix, here: &Matrix, near: &Neighbors, space: u8| {
            let count = NOVELTY_NEIGHBORS.min(there.rows());
            let there = Index::open(device, there, context)?;
            let among = there.search_own(there.len(), 1, context)?;
            let limit = limit(near).min(if there.len() > 1 { limit(&among) } else { f64::INFINITY });
            groups.link_all(&there.search(here, count, context)?, limit, data.len(), space);
            Ok(())
        };
        compare(as_given(model, normalised.clone()), given, near, GIVEN)?;
        compare(model.classifier.map(normalised, context)?, &mapped, &learned, LEARNED)?;
    }
    for &(row, point) in &points.equal {
        groups.link(row, data.len() + point, GIVEN | LEARNED);
    }
    let model_part = |row: usize| Some(points.own[row].map_or(NEW, part_name));
    Ok((groups.finish(&points.others, given_part, model_part), points.overlap))
}

/// Returns the largest squared distance of two near copies, from the nearest neighbors `near` of every point. The
/// distance is a fifth of the median distance to the nearest neighbor.
fn limit(near: &Neighbors) -> f64 {
    let nearest = (0..near.len()).filter_map(|row| near.squared(row).first().copied()).collect();
    COPY * COPY * median(nearest).unwrap_or(0.0)
}

/// Undoes the model's normalisation of `points`, and then scales each point to length 1. A point of length 0 is not
/// scaled.
fn as_given(model: &Dance, mut points: Matrix) -> Matrix {
    model.fitted.normalizer.undo(&mut points);
    for row in 0..points.rows() {
        let values = points.row_mut(row);
        let norm = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        for value in values.iter_mut().filter(|_| norm > 0.0) {
            *value = (f64::from(*value) / norm) as f32;
        }
    }
    points
}

/// The part name for data points that the model does not hold.
const NEW: &str = "new";

/// Returns the name of a part of a model: `fit` or `calibration`.
fn part_name(part: ModelPart) -> &'static str {
    match part {
        ModelPart::FitPoint => "fit",
        ModelPart::CalibrationPoint => "calibration",
    }
}

/// The points of a model, and the data points that they equal.
struct ModelPoints {
    /// The data points that the model holds, each with a point of the model. This point is the data point itself, or
    /// the first copy of it if the model holds only copies.
    overlap: Seen,
    /// For each data point, the part of the model that holds this point itself, by id or row; `None` if no part holds
    /// it.
    own: Vec<Option<ModelPart>>,
    /// The model's points that are not data points themselves. Points that the model keeps come first, then points of
    /// which it keeps only a hash.
    others: Vec<ModelPoint>,
    /// The coordinates, normalised, of the points at the beginning of `others` that the model keeps; `None` if there
    /// are none.
    normalised: Option<Matrix>,
    /// Pairs of equal points: the row of a data point, and the index of a model point in `others`.
    equal: Vec<(usize, usize)>,
}

impl ModelPoints {
    fn new(model: &Dance, data: &Dataset) -> Result<Self> {
        let (parts, kept) = model.kept_points();
        let matches = model.find_points((&data.embeddings).into())?;
        // An equal point with the same id or row is the data point itself.
        let (mut overlap, mut taken) = (Vec::new(), vec![false; kept.len()]);
        let mut itself: Vec<Option<&ModelPoint>> = Vec::with_capacity(data.len());
        for (row, Matches { kept: places, hashed }) in matches.iter().enumerate() {
            let place = places.iter().copied().find(|&place| kept[place].has_name_of(data, row));
            let point = match place {
                Some(place) => Some(&kept[place]),
                None => hashed.iter().find(|point| point.has_name_of(data, row)),
            };
            if let Some(place) = place {
                taken[place] = true;
            }
            let first = point.or_else(|| places.first().map(|&place| &kept[place])).or(hashed.first());
            overlap.extend(first.map(|point| (row, point.clone())));
            itself.push(point);
        }
        // All other equal points are copies.
        let unnamed: Vec<usize> = (0..kept.len()).filter(|&place| !taken[place]).collect();
        let mut others: Vec<ModelPoint> = unnamed.iter().map(|&place| kept[place].clone()).collect();
        let mut equal = Vec::new();
        for (row, Matches { kept: places, hashed }) in matches.iter().enumerate() {
            let equals = places.iter().filter_map(|place| unnamed.binary_search(place).ok());
            equal.extend(equals.map(|point| (row, point)));
            for point in hashed {
                if itself[row].is_none_or(|itself| !std::ptr::eq(itself, point)) {
                    equal.push((row, others.len()));
                    others.push(point.clone());
                }
            }
        }
        let mut all = Matrix::with_columns(model.fitted.dimensions());
        for part in parts {
            all.append(part)?;
        }
        let normalised = (!unnamed.is_empty()).then(|| all.select(&unnamed));
        let own = itself.iter().map(|point| point.map(|point| point.part)).collect();
        Ok(Self { overlap, own, others, normalised, equal })
    }
}

/// The bit that marks a link between near copies in the given space. A group has the bits of all its links.
const GIVEN: u8 = 1;
/// The bit that marks a link between near copies in the learned metric.
const LEARNED: u8 = 2;

/// Groups of points that links connect, as a union-find structure. Data points have the first indices, and model points
/// the next ones.
struct Groups {
    /// The number of data points.
    own: usize,
    /// For each point, the index of an earlier point of the same group, or its own index if it is the first of its
    /// group.
    root: Vec<usize>,
    /// The bits [`GIVEN`] and [`LEARNED`] of each group's links, at the index of the group's first point.
    spaces: Vec<u8>,
}

impl Groups {
    fn new(own: usize) -> Self {
        Self { own, root: (0..own).collect(), spaces: vec![0; own] }
    }

    /// Links every data point with its neighbors up to the squared distance `limit`. The index of a neighbor is its id
    /// in `near` plus `first`. `space` is [`GIVEN`] or [`LEARNED`].
    fn link_all(&mut self, near: &Neighbors, limit: f64, first: usize, space: u8) {
        for row in 0..near.len() {
            for (&id, &squared) in near.ids(row).iter().zip(near.squared(row)) {
                if squared <= limit {
                    self.link(row, first + id as usize, space);
                }
            }
        }
    }

    /// Unites the groups of two points, given by their indices. `space` has the bits [`GIVEN`] and [`LEARNED`] of this
    /// link.
    fn link(&mut self, one: usize, other: usize, space: u8) {
        let known = self.root.len();
        self.root.extend(known..=other);
        self.spaces.resize(self.root.len(), 0);
        let (a, b) = (self.first(one), self.first(other));
        self.root[a.max(b)] = a.min(b);
        self.spaces[a.min(b)] |= self.spaces[a.max(b)] | space;
    }

    /// Returns the index of the first point in the group of the point with index `at`.
    fn first(&mut self, mut at: usize) -> usize {
        while self.root[at] != at {
            self.root[at] = self.root[self.root[at]];
            at = self.root[at];
        }
        at
    }

    /// Returns all groups of two or more points, those with points in several parts first. `given_part` and
    /// `model_part` return the name of the part that holds a data row, in the user's split and in the model. `model`
    /// holds the model points.
    fn finish<'a>(
        mut self,
        model: &[ModelPoint],
        given_part: impl Fn(usize) -> Option<&'a str>,
        model_part: impl Fn(usize) -> Option<&'a str>,
    ) -> Vec<Copies> {
        let mut groups = vec![(Vec::new(), Vec::new()); self.own];
        for point in 0..self.root.len() {
            let first = self.first(point);
            // Every link begins at a data point, so a linked group begins with a data point. Model points without a
            // link are dropped.
            match (groups.get_mut(first), point.checked_sub(self.own)) {
                (Some((rows, _)), None) => rows.push(point as u32),
                (Some((_, others)), Some(other)) => others.push(model[other].clone()),
                (None, _) => {}
            }
        }
        let group = |(first, (rows, model)): (usize, (Vec<u32>, Vec<ModelPoint>))| {
            let own = rows.iter().map(|&row| row as usize);
            let given: BTreeSet<&str> = own.clone().filter_map(&given_part).collect();
            let others = model.iter().map(|point: &ModelPoint| part_name(point.part));
            let by_model: BTreeSet<&str> = own.filter_map(&model_part).chain(others).collect();
            Copies {
                space: match self.spaces[first] {
                    LEARNED => "learned",
                    GIVEN => "given",
                    _ => "both",
                },
                across: given.len() > 1 || by_model.len() > 1,
                parts: given.iter().chain(&by_model).map(|&part| part.to_owned()).collect(),
                rows,
                model,
            }
        };
        let several = |(_, (rows, model)): &(usize, (Vec<u32>, Vec<ModelPoint>))| rows.len() + model.len() > 1;
        let mut found: Vec<Copies> = groups.into_iter().enumerate().filter(several).map(group).collect();
        found.sort_by_key(|group| !group.across); // stable
        found
    }
}
