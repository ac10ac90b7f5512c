//! Points that are nearly the same: as given, in the metric that a model has learned, and across parts.
//!
//! Two points are near copies where their distance is at most a fifth of what the nearest point usually (in the median) is away, in the
//! same space: among the audited points, and for a copy of a model's point also among those of the model, which may be
//! denser. Chains of them are a group. A copy as given is the same thing twice. One in the learned metric differs in
//! nothing that the model looks at: to its neighbors it is the same point twice, and breaks the promise as the other does.
//!
//! With a model, its own points are looked at too. What the data has itself (equal numbers under the same id, or the same row where there are
//! no ids) is no copy, and is in the part that the model has it in.

use std::collections::BTreeSet;

use serde::Serialize;

use super::AuditOptions;
use crate::context::Context;
use crate::data::Dataset;
use crate::device::Device;
use crate::error::Result;
use crate::model::dance::Dance;
use crate::model::model_point::{ModelPoint, Whereabouts};
use crate::model::overlap::SeenAs;
use crate::neighbors::{Index, Neighbors};
use crate::numeric::matrix::Matrix;
use crate::stream::NOVELTY_NEIGHBORS;

/// Points nearer to each other than this share of the median distance to the nearest are copies.
const COPY: f64 = 0.2;

/// Where points are near copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    /// Only in the space as given, normalised to length 1.
    Given,
    /// Only in the metric that the model has learned.
    Learned,
    /// In both.
    Both,
}

/// A group of near copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copies {
    /// Its points in the data set, ascending.
    pub rows: Vec<u32>,
    /// Its points in the model, but for those that are in the data set themselves.
    pub model: Vec<ModelPoint>,
    /// Where it was found.
    pub space: Space,
    /// The parts it is in: what was said of its points, and `fit`, `calibration` and `new` by a model.
    pub parts: Vec<String>,
    /// Whether it lies across parts: what one part learns, another one knows.
    pub across: bool,
}

/// A point of the data set whose numbers the model has seen before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenPoint {
    /// Its place in the data set.
    pub row: usize,
    /// What it is there: the point itself, or the first of its copies.
    pub point: ModelPoint,
}

/// Finds groups of near copies, those across parts first, and what the model has seen. `near` are the neighbors of the points as
/// `given`.
pub(super) fn find(
    device: &dyn Device,
    data: &Dataset,
    (given, near): (&Matrix, &Neighbors),
    model: Option<&Dance>,
    options: AuditOptions<'_>,
    context: &Context<'_>,
) -> Result<(Vec<Copies>, Vec<SeenPoint>)> {
    let said = |row: usize| options.parts.map(|parts| parts[row].as_str());
    let mut groups = Groups::new(data.len());
    groups.link_all(near, limit(near), 0, GIVEN);
    let Some(model) = model else { return Ok((groups.finish(&[], said, |_| None), Vec::new())) };

    let mapped = model.classifier.transform(&data.embeddings, context)?;
    let learned = Index::open(device, mapped.clone(), context)?;
    let learned = learned.search_own(data.len(), NOVELTY_NEIGHBORS.min(data.len() - 1), context)?;
    groups.link_all(&learned, limit(&learned), 0, LEARNED);

    let known = Known::new(model, data)?;
    if let Some(normalised) = &known.normalised {
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
    for &(row, point) in &known.equal {
        groups.link(row, data.len() + point, GIVEN | LEARNED);
    }
    let own = |row: usize| Some(known.own[row].map_or(NEW, word));
    Ok((groups.finish(&known.points, said, own), known.seen))
}

/// How near copies are at most, squared.
fn limit(near: &Neighbors) -> f64 {
    let mut nearest: Vec<f64> =
        (0..near.len()).filter_map(|row| near.squared(row).first().copied()).collect();
    nearest.sort_unstable_by(f64::total_cmp);
    COPY * COPY * nearest.get(nearest.len() / 2).copied().unwrap_or(0.0)
}

/// Points of a model in the space that audits look at. One without a direction stays without.
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

/// Points of a part that nothing is said of.
const NEW: &str = "new";

fn word(part: SeenAs) -> &'static str {
    match part {
        SeenAs::FitPoint => "fit",
        SeenAs::CalibrationPoint => "calibration",
    }
}

/// What a model has beside the points of the data set.
struct Known {
    /// Points of the data set that it has, under whatever name.
    seen: Vec<SeenPoint>,
    /// In which part it has each of them itself.
    own: Vec<Option<SeenAs>>,
    /// Its other points: those that it keeps, then those that it knows by hash.
    points: Vec<ModelPoint>,
    /// The former, normalised; `None` where there are none.
    normalised: Option<Matrix>,
    /// Points of the data set, and points of the model that have the same numbers under another name.
    equal: Vec<(usize, usize)>,
}

impl Known {
    fn new(model: &Dance, data: &Dataset) -> Result<Self> {
        let (parts, kept) = model.kept();
        let whereabouts = model.whereabouts((&data.embeddings).into())?;
        let (mut seen, mut taken) = (Vec::new(), vec![false; kept.len()]);
        let mut itself: Vec<Option<&ModelPoint>> = Vec::with_capacity(data.len());
        for (row, Whereabouts { kept: places, hashed }) in whereabouts.iter().enumerate() {
            let place = places.iter().copied().find(|&place| kept[place].is_called(data, row));
            let point = match place {
                Some(place) => Some(&kept[place]),
                None => hashed.iter().find(|point| point.is_called(data, row)),
            };
            if let Some(place) = place {
                taken[place] = true;
            }
            let known = point.or_else(|| places.first().map(|&place| &kept[place])).or(hashed.first());
            seen.extend(known.map(|point| SeenPoint { row, point: point.clone() }));
            itself.push(point);
        }
        let others: Vec<usize> = (0..kept.len()).filter(|&place| !taken[place]).collect();
        let mut points: Vec<ModelPoint> = others.iter().map(|&place| kept[place].clone()).collect();
        let mut equal = Vec::new();
        for (row, Whereabouts { kept: places, hashed }) in whereabouts.iter().enumerate() {
            let others = places.iter().filter_map(|place| others.binary_search(place).ok());
            equal.extend(others.map(|point| (row, point)));
            for point in hashed {
                if itself[row].is_none_or(|itself| !std::ptr::eq(itself, point)) {
                    equal.push((row, points.len()));
                    points.push(point.clone());
                }
            }
        }
        let mut all = Matrix::with_columns(model.fitted.dimensions());
        for part in parts {
            all.append(part)?;
        }
        let normalised = (!others.is_empty()).then(|| all.select(&others));
        let own = itself.iter().map(|point| point.map(|point| point.part)).collect();
        Ok(Self { seen, own, points, normalised, equal })
    }
}

/// Spaces as bits, so that those of a group add up.
const GIVEN: u8 = 1;
const LEARNED: u8 = 2;

/// Points of the data set, and after them those of the model, that are chained by short distances.
struct Groups {
    /// Points of the data set.
    own: usize,
    /// A point of the same group, the first of it in the end.
    root: Vec<usize>,
    /// Of the first point of a group, in which spaces there are links.
    spaces: Vec<u8>,
}

impl Groups {
    fn new(own: usize) -> Self {
        Self { own, root: (0..own).collect(), spaces: vec![0; own] }
    }

    /// Links every query with those of its neighbors that are near enough; neighbors are counted from `first` on.
    fn link_all(&mut self, near: &Neighbors, limit: f64, first: usize, space: u8) {
        for row in 0..near.len() {
            for (&id, &squared) in near.ids(row).iter().zip(near.squared(row)) {
                if squared <= limit {
                    self.link(row, first + id as usize, space);
                }
            }
        }
    }

    fn link(&mut self, one: usize, other: usize, space: u8) {
        let known = self.root.len();
        self.root.extend(known..=other);
        self.spaces.resize(self.root.len(), 0);
        let (a, b) = (self.first(one), self.first(other));
        self.root[a.max(b)] = a.min(b);
        self.spaces[a.min(b)] |= self.spaces[a.max(b)] | space;
    }

    /// The first point of a group.
    fn first(&mut self, mut at: usize) -> usize {
        while self.root[at] != at {
            self.root[at] = self.root[self.root[at]];
            at = self.root[at];
        }
        at
    }

    /// All groups of several points, those across parts first. Of every point of the data set, `said` is the part by what the user says
    /// and `known` by what the model knows.
    fn finish<'a>(
        mut self,
        model: &[ModelPoint],
        said: impl Fn(usize) -> Option<&'a str>,
        known: impl Fn(usize) -> Option<&'a str>,
    ) -> Vec<Copies> {
        let mut groups = vec![(Vec::new(), Vec::new()); self.own];
        for point in 0..self.root.len() {
            let first = self.first(point);
            // Every link begins at a point of the data set, so the first of a group is one; others of the model are alone.
            match (groups.get_mut(first), point.checked_sub(self.own)) {
                (Some((rows, _)), None) => rows.push(point as u32),
                (Some((_, others)), Some(other)) => others.push(model[other].clone()),
                (None, _) => {}
            }
        }
        let of = |(first, (rows, model)): (usize, (Vec<u32>, Vec<ModelPoint>))| {
            let own = rows.iter().map(|&row| row as usize);
            let by_said: BTreeSet<&str> = own.clone().filter_map(&said).collect();
            let there = model.iter().map(|point: &ModelPoint| word(point.part));
            let by_known: BTreeSet<&str> = own.filter_map(&known).chain(there).collect();
            Copies {
                space: match self.spaces[first] {
                    LEARNED => Space::Learned,
                    GIVEN => Space::Given,
                    _ => Space::Both,
                },
                across: by_said.len() > 1 || by_known.len() > 1,
                parts: by_said.iter().chain(&by_known).map(|&part| part.to_owned()).collect(),
                rows,
                model,
            }
        };
        let several =
            |(_, (rows, model)): &(usize, (Vec<u32>, Vec<ModelPoint>))| rows.len() + model.len() > 1;
        let mut found: Vec<Copies> = groups.into_iter().enumerate().filter(several).map(of).collect();
        found.sort_by_key(|group| !group.across); // stable
        found
    }
}
