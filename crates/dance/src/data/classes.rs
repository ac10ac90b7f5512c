//! Class names and their numbers: the one place where a name becomes a number.

use std::collections::HashMap;

/// Numbers of class names, by their place in a list.
#[derive(Clone, Debug)]
pub struct Classes<'a> {
    place: HashMap<&'a str, u32>,
}

impl<'a> Classes<'a> {
    /// The names in the order of their numbers.
    pub fn new(names: &'a [String]) -> Self {
        Self { place: names.iter().map(String::as_str).zip(0..).collect() }
    }

    /// The number of a name.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.place.get(name).copied()
    }

    /// The number of a name; a new name gets the next one.
    pub fn id_or_next(&mut self, name: &'a str) -> u32 {
        let next = self.place.len() as u32;
        *self.place.entry(name).or_insert(next)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }
}
