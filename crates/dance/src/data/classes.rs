//! Class names and their class ids.

use std::collections::HashMap;

/// A map from class names to class ids.
#[derive(Clone, Debug)]
pub struct Classes<'a> {
    place: HashMap<&'a str, u32>,
}

impl<'a> Classes<'a> {
    /// Creates the map. The id of a name is its index in `names`.
    pub fn new(names: &'a [String]) -> Self {
        Self { place: names.iter().map(String::as_str).zip(0..).collect() }
    }

    /// Returns the class id of a name; `None` for an unknown name.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.place.get(name).copied()
    }

    /// Returns the class id of a name; an unknown name is added with the next id.
    pub fn id_or_next(&mut self, name: &'a str) -> u32 {
        let next = self.place.len() as u32;
        *self.place.entry(name).or_insert(next)
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }
}
