//! Coverage where it may differ: among points the classifier is sure of and those it is not, small sets and large ones, rare classes
//! and frequent ones. What holds on average need not hold in each.
//!
//! ```
//! use dance::scores::Sets;
//! use dance::evaluation::breakdown::Breakdown;
//! let sets = Sets::from_iter([vec![0], vec![0, 1], vec![]]);
//! let found = Breakdown::new(&sets, &[0, 1, 1], None)?;
//! let sizes: Vec<_> = found.by_size.iter().map(|part| (part.name.as_str(), part.points, part.coverage)).collect();
//! assert_eq!(sizes, [("0 or 1", 2, 0.5), ("2 to 3", 1, 1.0)]);
//! # Ok::<(), dance::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::evaluation::metrics::STRATA;
use crate::scores::sets::Sets;

/// Parts by confidence and by frequency.
const FIFTHS: usize = 5;
/// Their names, from the least.
const NAMES: [&str; FIFTHS] = ["lowest", "low", "middle", "high", "highest"];
/// Set sizes of each stratum.
const SIZES: [&str; STRATA.len() + 1] = ["0 or 1", "2 to 3", "4 to 10", "11 to 100", "over 100"];

/// Some of the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// Which they are.
    pub name: String,
    /// How many.
    pub points: usize,
    /// Share of their sets with the true label.
    pub coverage: f64,
    /// Mean number of labels.
    pub size: f64,
}

/// See the [module](self). Portions without points are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Fifths by the largest class probability; empty where it is not known.
    pub by_confidence: Vec<Portion>,
    /// By set size.
    pub by_size: Vec<Portion>,
    /// Fifths by how many of these points carry the label.
    pub by_frequency: Vec<Portion>,
}

impl Breakdown {
    /// Judges `sets` by the true `labels`; `confidence` is the largest class probability of every point.
    pub fn new(sets: &Sets, labels: &[u32], confidence: Option<&[f32]>) -> Result<Self> {
        for (what, found) in [
            ("labels (one a set)", Some(labels.len())),
            ("confidences (one a set)", confidence.map(<[f32]>::len)),
        ] {
            if let Some(found) = found.filter(|&found| found != sets.len()) {
                return Err(Error::Shape {
                    what: what.into(),
                    expected: sets.len().to_string(),
                    found: found.to_string(),
                });
            }
        }
        let of_size = |row: usize| {
            let size = sets.get(row).len();
            STRATA.iter().position(|&largest| size <= largest).unwrap_or(STRATA.len())
        };
        let mut counts = vec![0usize; labels.iter().max().map_or(0, |&last| last as usize + 1)];
        for &label in labels {
            counts[label as usize] += 1;
        }
        let frequency: Vec<f64> = labels.iter().map(|&label| counts[label as usize] as f64).collect();
        let by_frequency = fifths(&frequency);
        let by_confidence =
            confidence.map(|all| fifths(&all.iter().map(|&p| f64::from(p)).collect::<Vec<_>>()));
        Ok(Self {
            by_confidence: by_confidence
                .map_or_else(Vec::new, |part| portions(sets, labels, &NAMES, |row| part[row])),
            by_size: portions(sets, labels, &SIZES, of_size),
            by_frequency: portions(sets, labels, &NAMES, |row| by_frequency[row]),
        })
    }
}

/// The fifth that every value is in; equal values are in the same one.
fn fifths(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let of = |value: &f64| {
        // By the middle of those that are equal.
        let below = sorted.partition_point(|other| other < value);
        let equal = sorted[below..].partition_point(|other| other <= value);
        (((2 * below + equal) * FIFTHS) / (2 * sorted.len()).max(1)).min(FIFTHS - 1)
    };
    values.iter().map(of).collect()
}

fn portions(sets: &Sets, labels: &[u32], names: &[&str], part: impl Fn(usize) -> usize) -> Vec<Portion> {
    let mut sums = vec![[0usize; 3]; names.len()];
    for (row, &label) in labels.iter().enumerate() {
        let [points, hits, size] = &mut sums[part(row)];
        *points += 1;
        *hits += usize::from(sets.contains(row, label));
        *size += sets.get(row).len();
    }
    let of = |(&name, [points, hits, size]): (&&str, [usize; 3])| Portion {
        name: name.into(),
        points,
        coverage: hits as f64 / points as f64,
        size: size as f64 / points as f64,
    };
    names.iter().zip(sums).filter(|(_, sums)| sums[0] > 0).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Ten points, sets of one label that is right for even rows; class 0 has eight of them.
        let sets = Sets::from_iter(vec![[0]; 10]);
        let labels: Vec<u32> = (0..10).map(|row| u32::from(row == 3 || row == 7)).collect();
        let confidence: Vec<f32> = (0..10).map(|row| row as f32 / 10.0).collect();
        let found = Breakdown::new(&sets, &labels, Some(&confidence)).unwrap();
        let points: Vec<_> = found.by_confidence.iter().map(|part| (part.points, part.coverage)).collect();
        assert_eq!(points, [(2, 1.0), (2, 0.5), (2, 1.0), (2, 0.5), (2, 1.0)]);
        let rare: Vec<_> =
            found.by_frequency.iter().map(|part| (part.name.as_str(), part.points, part.coverage)).collect();
        assert_eq!(rare, [("lowest", 2, 0.0), ("high", 8, 1.0)]);
        assert!(Breakdown::new(&sets, &labels[1..], None).is_err());
        assert!(Breakdown::new(&sets, &labels, Some(&confidence[1..])).is_err());
    }
}
