//! Coverage within groups of points, which are formed by the largest class probability, by set size, and by class
//! frequency. A guarantee for all points together says nothing about each group.
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
use crate::numeric::counts_of;
use crate::scores::sets::Sets;

/// The number of groups by confidence (the largest class probability), and by class frequency.
const FIFTHS: usize = 5;
/// The names of the groups by confidence (the largest class probability) and by class frequency, from the lowest values
/// to the highest.
const NAMES: [&str; FIFTHS] = ["lowest", "low", "middle", "high", "highest"];
/// The names of the groups by set size.
const SIZES: [&str; STRATA.len() + 1] = ["0 or 1", "2 to 3", "4 to 10", "11 to 100", "over 100"];

/// The coverage and the mean set size in one group of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// The name of the group, such as `lowest` or `2 to 3`.
    pub name: String,
    /// The number of points in the group.
    pub points: usize,
    /// The share of the sets that hold the true label.
    pub coverage: f64,
    /// The mean number of labels in a set.
    pub size: f64,
}

/// Coverage and set size within groups of points. All points are divided in three ways; groups without points are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Five groups by the largest class probability of a point; empty if probabilities were not given.
    pub by_confidence: Vec<Portion>,
    /// Groups of points by the size of their sets.
    pub by_size: Vec<Portion>,
    /// Five groups by the frequency of a point's label, which is the number of points with this label.
    pub by_frequency: Vec<Portion>,
}

impl Breakdown {
    /// Compares prediction `sets` with the true `labels`, one per set. `confidence` holds the largest class probability
    /// of every point. Returns an error if the lists differ in length.
    pub fn new(sets: &Sets, labels: &[u32], confidence: Option<&[f32]>) -> Result<Self> {
        for (what, found) in
            [("labels (one per set)", Some(labels.len())), ("confidences (one per set)", confidence.map(<[f32]>::len))]
        {
            if let Some(found) = found.filter(|&found| found != sets.len()) {
                return Err(Error::Shape {
                    what: what.into(),
                    expected: sets.len().to_string(),
                    found: found.to_string(),
                });
            }
        }
        // The group of every point, in each of the three ways.
        let of_size = |row: usize| {
            let size = sets.get(row).len();
            STRATA.iter().position(|&largest| size <= largest).unwrap_or(STRATA.len())
        };
        let counts = counts_of(labels, labels.iter().max().map_or(0, |&last| last as usize + 1));
        let frequency: Vec<f64> = labels.iter().map(|&label| counts[label as usize] as f64).collect();
        let by_frequency = fifths(&frequency);
        let by_confidence = confidence.map(|all| fifths(&all.iter().map(|&p| f64::from(p)).collect::<Vec<_>>()));
        Ok(Self {
            by_confidence: by_confidence.map_or_else(Vec::new, |part| portions(sets, labels, &NAMES, |row| part[row])),
            by_size: portions(sets, labels, &SIZES, of_size),
            by_frequency: portions(sets, labels, &NAMES, |row| by_frequency[row]),
        })
    }
}

/// Divides values into five groups of similar numbers of values. Returns the group of every value, from 0 for the
/// lowest values to 4 for the highest. Equal values are in one group.
fn fifths(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let of = |value: &f64| {
        // The rank of the middle one of the values that equal this one.
        let below = sorted.partition_point(|other| other < value);
        let equal = sorted[below..].partition_point(|other| other <= value);
        (((2 * below + equal) * FIFTHS) / (2 * sorted.len()).max(1)).min(FIFTHS - 1)
    };
    values.iter().map(of).collect()
}

/// Returns the coverage and the mean set size of every group that has points. `part(row)` is the index in `names` of
/// the group to which the point in this row belongs.
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
        // Ten points with the set {0}; rows 3 and 7 have label 1, the others label 0.
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
