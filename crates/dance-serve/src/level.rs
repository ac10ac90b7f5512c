//! Error levels: the hundredths from 0.01 to 0.50 at which a label is in a set, for the slider of the page and the
//! journal.

use std::collections::BTreeMap;

use dance::scores::Sets;
use dance::{Dance, Prediction, Scored};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of levels.
pub(crate) const LEVELS: usize = 50;

/// Returns the levels, ascending.
pub(crate) fn alphas() -> impl Iterator<Item = f64> {
    (1..=LEVELS).map(|hundredths| hundredths as f64 / 100.0)
}

/// Returns the level next to `alpha`, in hundredths.
pub(crate) fn nearest(alpha: f64) -> usize {
    ((alpha * 100.0).round() as usize).clamp(1, LEVELS)
}

/// The levels at which a label is in a set, one bit each. Sets mostly shrink as alpha grows: then the JSON is the
/// number of hundredths up to which the label is in (12: at 0.12 and below). Otherwise it is fifty digits, 1 for in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level(u64);

impl Level {
    /// Returns the level of a label that is in all sets up to this level, in hundredths.
    pub(crate) fn up_to(hundredths: usize) -> Self {
        Self((1 << hundredths.min(LEVELS)) - 1)
    }

    fn with(self, hundredths: usize) -> Self {
        Self(self.0 | 1 << (hundredths - 1))
    }

    /// Returns whether the label is in at this level, in hundredths.
    pub(crate) fn holds(self, hundredths: usize) -> bool {
        self.0 >> (hundredths - 1) & 1 == 1
    }

    /// Returns the largest level at which the label is in; 0 if there is none.
    pub(crate) fn highest(self) -> f64 {
        f64::from(u64::BITS - self.0.leading_zeros()) / 100.0
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
        enum Form {
            Number(usize),
            Digits(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(hundredths) if hundredths <= LEVELS => Ok(Self::up_to(hundredths)),
            Form::Digits(digits)
                if digits.len() == LEVELS && digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) =>
            {
                let places = (1..).zip(digits.bytes()).filter(|(_, digit)| *digit == b'1');
                Ok(places.fold(Self::default(), |level, (place, _)| level.with(place)))
            }
            _ => Err(D::Error::custom("a level is a number from 0 to 50 or fifty digits 0 and 1")),
        }
    }
}

/// Returns the class id that stands for a new label here: the one after the model's last.
pub(crate) fn new_label(model: &Dance) -> u32 {
    model.classes().len() as u32
}

/// Returns the sets of a prediction. A set that holds a new label has [its id](new_label) at the end.
pub(crate) fn with_new_label(model: &Dance, prediction: Prediction) -> Sets {
    let Some(new_labels) = prediction.new_label else { return prediction.sets };
    let sets = prediction.sets.iter().zip(new_labels);
    sets.map(|(set, new)| set.iter().copied().chain(new.then(|| new_label(model)))).collect()
}

/// Returns, for every scored point, the labels that are in its set at some level, with their levels. [The
/// id](new_label) of a new label is among them.
pub(crate) fn of_points(model: &Dance, scored: &Scored) -> dance::Result<Vec<BTreeMap<u32, Level>>> {
    let mut levels = vec![BTreeMap::<u32, Level>::new(); scored.len()];
    for (hundredths, alpha) in (1..).zip(alphas()) {
        let sets = with_new_label(model, model.predict(scored, &model.decide(alpha)?));
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
        assert_eq!([none, some, odd].map(Level::highest), [0.0, 0.03, 0.5]);
        assert!(some.holds(3) && !some.holds(4) && odd.holds(50) && !odd.holds(1));
    }

    #[test]
    fn an_alpha_is_its_nearest_level() {
        assert_eq!([0.0001, 0.1, 0.29, 0.5, 0.9].map(nearest), [1, 10, 29, 50, 50]);
    }
}
