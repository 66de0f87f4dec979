//! What a backend says of its settings by ParameterStatus.

use std::collections::HashMap;

/// Settings by which PostgreSQL reads a constant such as `'01/02/2020 12:00'` when it analyses a text.
const WAYS_OF_READING: [&str; 3] = ["DateStyle", "IntervalStyle", "TimeZone"];

#[derive(Default)]
pub(crate) struct Reported {
    pub(crate) values: HashMap<String, String>,
    /// How often one of [`WAYS_OF_READING`] became another.
    pub(crate) readings: u64,
}

impl Reported {
    pub(crate) fn note(&mut self, (name, value): (String, String)) {
        let is_way_of_reading = WAYS_OF_READING.contains(&name.as_str());
        if is_way_of_reading && self.values.get(&name).is_some_and(|before| *before != value) {
            self.readings += 1;
        }
        self.values.insert(name, value);
    }
}
