//! FCA, full conformal adaptation of linear probes (Silva-Rodríguez and others, 2025): every query joins the labeled
//! points under each label in turn, the probe is adapted to all of them, and LAC scores decide. The
//! guarantee holds in finite samples, since all points, the query included, are treated alike.
//!
//! The probe is SS-Text, which has a closed form. For unit vectors v, a unit text prototype `t_k` of every class and
//! the temperature τ = 1/100:
//! ```text
//! μ_k = (1/τ)·Σ { v_i : y_i = k } + t_k      p(k|v) ∝ exp( cos(v, μ_k)/τ )
//! ```
//! Without prototypes, `t_k = 0` and centers are class means. Nothing else is fitted, so *all* labeled points are in
//! the bag, including those that fit the kernel machine for other methods.
//!
//! A query v with label l changes `μ_l` alone. So one exponential updates a point's probability, given its denominator
//! without class l: `cos(v_i, μ_l + v/τ) = (v_i·μ_l + v_i·v/τ) / ‖μ_l + v/τ‖`. A label costs n exponentials, and the
//! same counts serve every α. Logits are at most 100; exponentials of logits minus 100 neither overflow nor underflow.
//!
//! Cost: n·c exponentials and n·d products per query; memory 16·n·c bytes.
//!
//! ```
//! use dance::scores::{Cut, least_count};
//! use dance_bench::baselines::fca::Fca;
//! use dance::{Context, Matrix};
//! let context = Context::new(1)?;
//! let points = Matrix::new(vec![1.0, 0.1, 1.0, -0.1, 0.1, 1.0, -0.1, 1.0], 4, 2)?;
//! let probe = Fca::new(&points, &[0, 0, 1, 1], 2, None, &context)?;
//! let (counts, best) = probe.counts(&Matrix::new(vec![1.0, 0.0], 1, 2)?, &context)?;
//! assert_eq!((best, counts.sets(Cut::One(least_count(0.2, 4)), 2).get(0)), (vec![0], &[0][..]));
//! # Ok::<(), dance::Error>(())
//! ```

use dance::Context;
use dance::Matrix;
use dance::neighbors::squared_distance;
use dance::scores::{Counts, LabelCounts};
use dance::{Error, Result};

/// 1/τ, the value of CLIP.
const SCALE: f64 = 100.0;

/// A linear probe on labeled points, ready for queries to join.
pub struct Fca {
    points: Matrix,
    labels: Vec<u32>,
    /// The weight of a point in a center, where a prototype weighs 1.
    weight: f64,
    centers: Vec<Center>,
    /// For every point: its product with itself, and the exponential of its own class.
    own: Vec<(f64, f64)>,
    /// For every class and point: the product with the class's center, and the sum of the exponentials of all other
    /// classes.
    by_class: Vec<Vec<(f64, f64)>>,
}

/// The center of a class.
struct Center {
    values: Vec<f64>,
    squared: f64,
}

/// The products of a point with the centers.
struct Row {
    /// The product with itself: 1, but for rounding.
    squared: f64,
    products: Vec<f64>,
    exponentials: Vec<f64>,
    /// The sum of the exponentials.
    total: f64,
}

impl Fca {
    /// Adapts the probe to points with labels below `classes` and, if there are any, one prototype for each class.
    pub fn new(
        points: &Matrix,
        labels: &[u32],
        classes: usize,
        prototypes: Option<&Matrix>,
        context: &Context<'_>,
    ) -> Result<Self> {
        let agree = |what: &str, expected: usize, found: usize| {
            if expected == found {
                return Ok(());
            }
            Err(Error::Shape { what: what.into(), expected: expected.to_string(), found: found.to_string() })
        };
        agree("labels (one per point)", points.rows(), labels.len())?;
        // Centers are sums: prototypes first, then the points of every class.
        let mut centers = vec![vec![0.0; points.cols()]; classes];
        if let Some(prototypes) = prototypes {
            agree("prototypes (one per class)", classes, prototypes.rows())?;
            agree("dimensions of the prototypes", points.cols(), prototypes.cols())?;
            let prototypes = unit(prototypes);
            for (class, center) in centers.iter_mut().enumerate() {
                *center = prototypes.row(class).iter().map(|&value| f64::from(value)).collect();
            }
        }
        // Without prototypes the length of a center changes no cosine.
        let weight = if prototypes.is_some() { SCALE } else { 1.0 };
        let points = unit(points);
        for (row, &label) in labels.iter().enumerate() {
            let Some(center) = centers.get_mut(label as usize) else {
                let problem = format!("{label} is not below the number of classes, {classes}");
                return Err(Error::Label { origin: "labels of the probe".into(), row, problem });
            };
            for (sum, &value) in center.iter_mut().zip(points.row(row)) {
                *sum += weight * f64::from(value);
            }
        }
        let with_squared = |values: Vec<f64>| {
            let squared = values.iter().map(|value| value * value).sum();
            Center { values, squared }
        };
        let centers: Vec<Center> = centers.into_iter().map(with_squared).collect();
        // Every point keeps what a query does not change.
        let rows = context.map(points.rows(), |row| Row::new(points.row(row), &centers));
        let by_class = context.map(classes, |class| {
            rows.iter().map(|row| (row.products[class], others(&row.exponentials, row.total, class))).collect()
        });
        let each = rows.iter().zip(labels);
        let own = each.map(|(row, &label)| (row.squared, row.exponentials[label as usize])).collect();
        Ok(Self { points, labels: labels.to_vec(), weight, centers, own, by_class })
    }

    /// Returns the count of every label of every query, and the label that the probe predicts for it without joining.
    pub fn counts(&self, queries: &Matrix, context: &Context<'_>) -> Result<(LabelCounts, Vec<u32>)> {
        if queries.cols() != self.points.cols() {
            return Err(Error::Shape {
                what: "dimensions of the queries".into(),
                expected: self.points.cols().to_string(),
                found: queries.cols().to_string(),
            });
        }
        context.check()?;
        let queries = unit(queries);
        let answers = context.map(queries.rows(), |query| self.count(queries.row(query)));
        let mut counts = LabelCounts::new(self.labels.len());
        let mut best = Vec::with_capacity(answers.len());
        for (own, label) in answers {
            // Every class has a count of its own, so the count of all others is unused.
            counts.push((0u32..).zip(own.into_iter().map(Counts::One)), Counts::One(0));
            best.push(label);
        }
        Ok((counts, best))
    }

    /// Returns the count of every label of one query, and its nearest center.
    fn count(&self, query: &[f32]) -> (Vec<u32>, u32) {
        let own = Row::new(query, &self.centers);
        // Products come from distances, so that a copy of the query has exactly the query's own product.
        let product = |at: usize| (own.squared + self.own[at].0 - squared_distance(query, self.points.row(at))) / 2.0;
        let products: Vec<f64> = (0..self.labels.len()).map(product).collect();
        let count = |class: usize| self.count_label(class, &own, &products);
        let counts = (0..self.centers.len()).map(count).collect();
        let nearest = |best: usize, at: usize| {
            if own.exponentials[at] > own.exponentials[best] { at } else { best }
        };
        (counts, (0..self.centers.len()).fold(0, nearest) as u32)
    }

    /// Returns the number of points, the query included, that conform no better when the query carries `class`.
    fn count_label(&self, class: usize, own: &Row, products: &[f64]) -> u32 {
        let weight = self.weight;
        let squared = self.centers[class].squared + weight * (2.0 * own.products[class] + weight * own.squared);
        let length = squared.max(0.0).sqrt();
        // The exponential of the class after the query joined it.
        let joined = |with_center: f64, with_query: f64| exponential(with_center + weight * with_query, length);
        let share = |value: f64, all_others: f64, joined: f64| value / (all_others + joined);
        let new = joined(own.products[class], own.squared);
        let of_query = share(new, others(&own.exponentials, own.total, class), new);
        let mut count = 1;
        let points = self.labels.iter().zip(&self.own).zip(&self.by_class[class]).zip(products);
        for (((&label, &(_, own)), &(with_center, all_others)), &with_query) in points {
            let new = joined(with_center, with_query);
            let value = if label as usize == class { new } else { own };
            // LAC: the larger the probability, the smaller the score.
            count += u32::from(share(value, all_others, new) <= of_query);
        }
        count
    }
}

impl Row {
    fn new(point: &[f32], centers: &[Center]) -> Self {
        let product = |center: &Center| point.iter().zip(&center.values).map(|(&a, b)| f64::from(a) * b).sum::<f64>();
        let products: Vec<f64> = centers.iter().map(product).collect();
        let each = products.iter().zip(centers);
        let each = each.map(|(&product, center)| exponential(product, center.squared.sqrt()));
        let exponentials: Vec<f64> = each.collect();
        let squared = point.iter().map(|&value| f64::from(value).powi(2)).sum();
        Self { squared, products, total: exponentials.iter().sum(), exponentials }
    }
}

/// Returns `exp((cos - 1)/τ)` of a unit vector and a center, given their product and the center's length. The cosine
/// with a center of length 0 is 0.
fn exponential(product: f64, length: f64) -> f64 {
    let cosine = if length > 0.0 { product / length } else { 0.0 };
    (SCALE * (cosine - 1.0)).exp()
}

/// Returns the sum of all values but one. Where that one is most of the total, a difference would be mostly rounding,
/// so the others are added up.
fn others(values: &[f64], total: f64, but: usize) -> f64 {
    if values[but] <= total / 2.0 {
        return total - values[but];
    }
    values[..but].iter().sum::<f64>() + values[but + 1..].iter().sum::<f64>()
}

/// Returns rows of length 1; rows of zeros stay as they are.
fn unit(points: &Matrix) -> Matrix {
    let mut unit = points.clone();
    for row in 0..unit.rows() {
        let row = unit.row_mut(row);
        let length = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        for value in row {
            *value = (f64::from(*value) / length.max(f64::MIN_POSITIVE)) as f32;
        }
    }
    unit
}
