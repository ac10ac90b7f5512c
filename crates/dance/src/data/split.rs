//! Seeded splits of points into parts, the same in every version.
//!
//! [`uniform`] draws at random without regard to labels. All parts are exchangeable with each other and with new
//! points, as calibration and evaluation need. A rare class may be missing from a part, as it may be missing from new
//! points.
//!
//! [`stratified`] divides every class by the fractions. Rounding errors are carried from class to class, so that the
//! total of each part stays within one point of its share. Stratified parts compare settings with less variance, but
//! they are easier than new points, since they hold every class that is large enough:
//!
//! - A class with at least as many points as parts has a point in every part.
//! - A smaller class fills the parts in order and is missing from the later ones. The part that fits the kernel comes
//!   first, since the kernel machine has no output for a class without fit points.
//!
//! ```
//! let labels = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
//! assert_eq!(dance::data::split::uniform(10, &[0.4, 0.6], 7)?[0].len(), 4);
//! let parts = dance::data::split::stratified(&labels, &[0.4, 0.4, 0.2], 7)?;
//! assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
//! # Ok::<(), dance::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::numeric::random::Random;

/// The number that keeps the random draws of splits apart from draws for other purposes under one seed.
const PURPOSE: u64 = 0x5eed_5711;

/// Divides the rows `0..points` at random into parts. Part i gets the share `fractions[i]` of the rows; fractions are
/// positive and sum to 1. Returns the rows of each part, ascending.
pub fn uniform(points: usize, fractions: &[f64], seed: u64) -> Result<Vec<Vec<usize>>> {
    check(points, fractions)?;
    let mut rows: Vec<usize> = (0..points).collect();
    Random::new(seed, PURPOSE).shuffle(&mut rows);
    let (mut total, mut start) = (0.0, 0);
    let cut = |fraction: &f64| {
        total += fraction;
        let end = (total * points as f64).round() as usize;
        let part = rows[start..end.min(points)].to_vec();
        start = end;
        part
    };
    finished(fractions.iter().map(cut).collect(), fractions, points)
}

/// Divides rows at random into parts such that each group of rows stays in one part. `groups` holds the group of every
/// row. Returns the rows of each part, ascending.
///
/// Part i gets the share `fractions[i]` of the groups, not of the rows, so that the groups of a part are exchangeable
/// with new groups. Fractions are positive and sum to 1.
pub fn grouped(groups: &[u32], fractions: &[f64], seed: u64) -> Result<Vec<Vec<usize>>> {
    let count = groups.iter().max().map_or(0, |&last| last as usize + 1);
    let parts = uniform(count, fractions, seed)?;
    let mut part_of = vec![0; count];
    for (part, groups) in parts.iter().enumerate() {
        for &group in groups {
            part_of[group] = part;
        }
    }
    let mut rows = vec![Vec::new(); fractions.len()];
    for (row, &group) in groups.iter().enumerate() {
        rows[part_of[group as usize]].push(row);
    }
    Ok(rows)
}

/// Divides rows as [`grouped`] does, and keeps only one random row per group in the second part, which is for
/// calibration. Calibration points are then exchangeable with a point of a new group.
pub fn grouped_for_calibration(groups: &[u32], fractions: &[f64], seed: u64) -> Result<Vec<Vec<usize>>> {
    let mut parts = grouped(groups, fractions, seed)?;
    if let Some(calibration) = parts.get_mut(1) {
        let own: Vec<u32> = calibration.iter().map(|&row| groups[row]).collect();
        *calibration = one_of_each(&own, seed).iter().map(|&at| calibration[at]).collect();
    }
    Ok(parts)
}

/// Returns one random row of every group, ascending. `groups` holds the group of every row.
pub fn one_of_each(groups: &[u32], seed: u64) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..groups.len()).collect();
    Random::new(seed, PURPOSE).shuffle(&mut rows);
    let mut drawn = vec![None; groups.iter().max().map_or(0, |&last| last as usize + 1)];
    for row in rows {
        drawn[groups[row] as usize].get_or_insert(row);
    }
    let mut rows: Vec<usize> = drawn.into_iter().flatten().collect();
    rows.sort_unstable();
    rows
}

/// Divides the rows of each class at random into parts. Part i gets the share `fractions[i]` of each class; fractions
/// are positive and sum to 1. `labels` holds the class of every row. Returns the rows of each part, ascending.
pub fn stratified(labels: &[u32], fractions: &[f64], seed: u64) -> Result<Vec<Vec<usize>>> {
    check(labels.len(), fractions)?;
    let classes = labels.iter().max().map_or(0, |&label| label as usize + 1);
    let mut members = vec![Vec::new(); classes];
    for (row, &label) in labels.iter().enumerate() {
        members[label as usize].push(row);
    }
    // Shuffle every class and give each part its number of points.
    let mut random = Random::new(seed, PURPOSE);
    let mut carry = vec![0.0; fractions.len()];
    let mut parts = vec![Vec::new(); fractions.len()];
    for mut members in members {
        random.shuffle(&mut members);
        let counts = deal(members.len(), fractions, &mut carry);
        let mut members = members.into_iter();
        for (part, count) in parts.iter_mut().zip(counts) {
            part.extend(members.by_ref().take(count));
        }
    }
    finished(parts, fractions, labels.len())
}

fn check(points: usize, fractions: &[f64]) -> Result<()> {
    let total: f64 = fractions.iter().sum();
    if fractions.is_empty() || fractions.iter().any(|&f| !(f > 0.0)) || (total - 1.0).abs() > 1e-9 {
        let given = fractions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        return Err(Error::config("split", given, "positive fractions that sum to 1, such as 0.4,0.4,0.2"));
    }
    if points < fractions.len() {
        return Err(Error::Data(format!("{points} points cannot be split into {} parts", fractions.len())));
    }
    Ok(())
}

/// Sorts the rows of every part, and returns an error if a part is empty. The error names the part's fraction and the
/// number of `points`.
fn finished(mut parts: Vec<Vec<usize>>, fractions: &[f64], points: usize) -> Result<Vec<Vec<usize>>> {
    if let Some(empty) = parts.iter().position(Vec::is_empty) {
        return Err(Error::Data(format!(
            "part {} of the split ({} of {points} points) would be empty; use more points or other fractions",
            empty + 1,
            fractions[empty]
        )));
    }
    for part in &mut parts {
        part.sort_unstable();
    }
    Ok(parts)
}

/// Returns the number of points that each part gets from a class with `size` points. `carry[i]` is the number of points
/// that rounding has withheld from part i in earlier classes. The function updates it.
fn deal(size: usize, fractions: &[f64], carry: &mut [f64]) -> Vec<usize> {
    let parts = fractions.len();
    let mut counts = vec![0; parts];
    if size < parts {
        counts[..size].fill(1);
    } else {
        let due: Vec<f64> = fractions.iter().zip(&*carry).map(|(f, owed)| f * size as f64 + owed).collect();
        for (count, due) in counts.iter_mut().zip(&due) {
            *count = due.floor().max(1.0) as usize;
        }
        // Correct the sum one point at a time, at the part farthest from its due number, or the earlier one on a tie.
        while counts.iter().sum::<usize>() < size {
            let poorest = argmax(parts, |part| due[part] - counts[part] as f64);
            counts[poorest] += 1;
        }
        while counts.iter().sum::<usize>() > size {
            let richest =
                argmax(
                    parts,
                    |part| {
                        if counts[part] > 1 { counts[part] as f64 - due[part] } else { f64::NEG_INFINITY }
                    },
                );
            counts[richest] -= 1;
        }
    }
    for ((owed, fraction), &count) in carry.iter_mut().zip(fractions).zip(&counts) {
        *owed += fraction * size as f64 - count as f64;
    }
    counts
}

/// Returns the index of the part for which `value` is largest, the first one on a tie.
fn argmax(parts: usize, value: impl Fn(usize) -> f64) -> usize {
    (0..parts).rev().max_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_stay_whole_and_each_gives_one() {
        let groups: Vec<u32> = (0..60).map(|row| row % 12).collect();
        for seed in 0..20 {
            let parts = grouped(&groups, &[0.5, 0.25, 0.25], seed).unwrap();
            let own = |part: &Vec<usize>| {
                let mut own: Vec<u32> = part.iter().map(|&row| groups[row]).collect();
                own.sort_unstable();
                own.dedup();
                own
            };
            assert_eq!(parts.iter().map(|part| own(part).len()).collect::<Vec<_>>(), [6, 3, 3]);
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 60);
            let drawn = one_of_each(&groups, seed);
            let mut of: Vec<u32> = drawn.iter().map(|&row| groups[row]).collect();
            of.sort_unstable();
            assert_eq!(of, (0..12).collect::<Vec<u32>>());
        }
        let parts = grouped_for_calibration(&groups, &[0.5, 0.25, 0.25], 3).unwrap();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [30, 3, 15]);
        assert_eq!(parts[0], grouped(&groups, &[0.5, 0.25, 0.25], 3).unwrap()[0]);
        // Every row of a group is drawn about equally often.
        let mut times = [0; 4];
        (0..400).for_each(|seed| times[one_of_each(&[0; 4], seed)[0]] += 1);
        assert!(times.iter().all(|&times| (60..=140).contains(&times)), "{times:?}");
    }

    #[test]
    fn a_seed_means_the_same_split_for_years() {
        let labels: Vec<u32> = (0..12).map(|row| row % 2).collect();
        let parts = stratified(&labels, &[0.5, 0.25, 0.25], 1).unwrap();
        // From an independent program: PCG64 by its definition, the shuffle, and 3+2+1 then 3+1+2 points dealt.
        assert_eq!(parts, [vec![1, 2, 6, 7, 8, 9], vec![0, 10, 11], vec![3, 4, 5]]);
        assert_ne!(parts, stratified(&labels, &[0.5, 0.25, 0.25], 2).unwrap());
    }

    #[test]
    fn a_uniform_split_puts_every_row_anywhere_with_the_chance_of_the_part() {
        let parts = uniform(10, &[0.25, 0.5, 0.25], 3).unwrap();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [3, 5, 2]); // 2.5 → 3, 7.5 → 8
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        // Over 4000 seeds row 0 is in the first part 1200 times, ± 4.4 standard deviations of 29.
        let first = (0..4000).filter(|&seed| uniform(10, &[0.25, 0.5, 0.25], seed).unwrap()[0].contains(&0));
        assert!((first.count() as f64 - 1200.0).abs() < 4.4 * (4000.0f64 * 0.3 * 0.7).sqrt());
        assert!(matches!(uniform(1, &[0.5, 0.5], 0), Err(Error::Data(_))));
        assert!(matches!(uniform(3, &[0.9, 0.1], 0), Err(Error::Data(_))), "3·0.9 rounds to 3");
    }

    #[test]
    fn tiny_classes_fill_the_parts_in_order() {
        let parts = stratified(&[0, 0, 0, 0, 0, 0, 1, 2, 2], &[0.4, 0.4, 0.2], 3).unwrap();
        assert!(parts[0].contains(&6));
        assert_eq!(
            parts.iter().map(|part| part.iter().filter(|&&row| row >= 7).count()).collect::<Vec<_>>(),
            [1, 1, 0]
        );
    }

    #[test]
    fn refuses_what_cannot_be_split() {
        for fractions in [&[0.5, 0.4][..], &[1.5, -0.5], &[], &[0.5, f64::NAN]] {
            assert!(matches!(stratified(&[0, 1], fractions, 0), Err(Error::Config { .. })), "{fractions:?}");
        }
        assert!(matches!(stratified(&[0], &[0.5, 0.5], 0), Err(Error::Data(_))));
        assert!(matches!(stratified(&[0, 1], &[0.5, 0.5], 0), Err(Error::Data(_))));
    }

    proptest! {
        #[test]
        fn parts_are_a_stratified_partition(
            labels in prop::collection::vec(0u32..6, 30..300),
            weights in prop::collection::vec(1u32..10, 1..5),
            seed in any::<u64>(),
        ) {
            let total: u32 = weights.iter().sum();
            let fractions: Vec<f64> = weights.iter().map(|&w| f64::from(w) / f64::from(total)).collect();
            let parts = match stratified(&labels, &fractions, seed) {
                Ok(parts) => parts,
                Err(Error::Data(_)) => return Ok(()),
                Err(other) => panic!("{other}"),
            };
            let mut all: Vec<usize> = parts.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
            for class in 0..6 {
                let size = labels.iter().filter(|&&label| label == class).count();
                for (part, fraction) in parts.iter().zip(&fractions) {
                    let here = part.iter().filter(|&&row| labels[row] == class).count();
                    prop_assert!(size < fractions.len() || here > 0);
                    // Its share, to within what rounding can owe or what the one-point minimum can cost.
                    prop_assert!((here as f64 - fraction * size as f64).abs() <= fractions.len() as f64 + 1.0);
                }
            }
        }
    }
}
