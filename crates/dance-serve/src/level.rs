//! At which error levels a label is in a set: what the slider of the page and the journal need of a point, whatever the model
//! combines. Levels are the hundredths from 0.01 to 0.50.

use dance::{Dance, Scored};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// How many levels there are.
pub(crate) const LEVELS: usize = 50;

/// The levels, ascending.
pub(crate) fn alphas() -> impl Iterator<Item = f64> {
    (1..=LEVELS).map(|hundredths| hundredths as f64 / 100.0)
}

/// The level next to `alpha`, as hundredths.
pub(crate) fn nearest(alpha: f64) -> usize {
    ((alpha * 100.0).round() as usize).clamp(1, LEVELS)
}

/// At which levels a label is in a set. Sets mostly shrink as alpha grows: then it is written as the number of hundredths up to which
/// the label is in (12: at 0.12 and below), and otherwise as fifty digits, 1 for in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level(u64);

impl Level {
    /// In at every level up to this one, in hundredths.
    pub(crate) fn up_to(hundredths: usize) -> Self {
        Self((1 << hundredths.min(LEVELS)) - 1)
    }

    fn with(self, hundredths: usize) -> Self {
        Self(self.0 | 1 << (hundredths - 1))
    }

    /// Whether the label is in at this level, in hundredths.
    pub(crate) fn holds(self, hundredths: usize) -> bool {
        self.0 >> (hundredths - 1) & 1 == 1
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hundredths = self.0.trailing_ones();
        if *self == Self::up_to(hundredths as usize) {
            return serializer.serialize_u32(hundredths);
        }
        let digits: String = (1..=LEVELS).map(|level| if self.holds(level) { '1' } else { '0' }).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(usize),
            Digits(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(hundredths) if hundredths <= LEVELS => Ok(Self::up_to(hundredths)),
            Written::Digits(digits)
                if digits.len() == LEVELS && digits.bytes().all(|d| matches!(d, b'0' | b'1')) =>
            {
                let places = (1..).zip(digits.bytes()).filter(|(_, digit)| *digit == b'1');
                Ok(places.fold(Self::default(), |level, (place, _)| level.with(place)))
            }
            _ => Err(D::Error::custom("a level is a number from 0 to 50 or fifty digits 0 and 1")),
        }
    }
}

/// The labels of every scored point that are in its set at some level, with those levels.
pub(crate) fn of_points(model: &Dance, scored: &Scored) -> dance::Result<Vec<BTreeMap<u32, Level>>> {
    let mut levels = vec![BTreeMap::<u32, Level>::new(); scored.len()];
    for (hundredths, alpha) in (1..).zip(alphas()) {
        let sets = model.predict(scored, &model.decide(alpha)?).sets;
        for (set, levels) in sets.iter().zip(&mut levels) {
            for &label in set {
                let level = levels.entry(label).or_default();
                *level = level.with(hundredths);
            }
        }
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_written_short_and_read_again() {
        let none = Level::default();
        let some = none.with(1).with(2).with(3);
        let odd = none.with(2).with(50);
        assert_eq!(serde_json::to_string(&[none, some, Level::up_to(50)]).unwrap(), "[0,3,50]");
        let digits = format!("\"01{}1\"", "0".repeat(47));
        assert_eq!(serde_json::to_string(&odd).unwrap(), digits);
        for level in [none, some, odd, Level::up_to(50)] {
            let text = serde_json::to_string(&level).unwrap();
            assert_eq!(serde_json::from_str::<Level>(&text).unwrap(), level);
        }
        for wrong in ["51", "-1", "\"01\"", "null", "1.5"] {
            assert!(serde_json::from_str::<Level>(wrong).is_err(), "{wrong}");
        }
        assert!(some.holds(3) && !some.holds(4) && odd.holds(50) && !odd.holds(1));
    }

    #[test]
    fn an_alpha_is_its_nearest_level() {
        assert_eq!([0.0001, 0.1, 0.29, 0.5, 0.9].map(nearest), [1, 10, 29, 50, 50]);
    }
}
