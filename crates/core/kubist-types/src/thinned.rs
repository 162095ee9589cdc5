//! What is known of all records of a step of which only a sample was written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a writer says of a step that it thinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinned {
    /// Records with a priority below this fraction are there, and of the others only those that are
    /// kept always.
    pub below: f64,
    /// How many records there were.
    pub rows: u64,
    /// How many of them were kept whatever their priority.
    pub always: u64,
    /// What the values of the records that were kept took, before they were encoded.
    pub bytes: u64,
    /// Of columns of numbers: how many values there were, and their sum. A column that is not here
    /// has a sum that is not finite, or that a float does not hold exactly enough.
    pub sums: BTreeMap<String, ColumnSum>,
}

/// The sum of all values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSum {
    /// Values that are neither null nor NaN.
    pub values: u64,
    pub sum: f64,
}

impl Thinned {
    /// What two writers say of the same step, as one.
    pub fn join(mut self, other: &Thinned) -> Thinned {
        self.below = self.below.min(other.below);
        // A writer without records has no sums, and takes none away.
        match (self.rows, other.rows) {
            (_, 0) => {}
            (0, _) => self.sums = other.sums.clone(),
            _ => self.add_sums(&other.sums),
        }
        self.rows = self.rows.saturating_add(other.rows);
        self.always = self.always.saturating_add(other.always);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self
    }

    fn add_sums(&mut self, others: &BTreeMap<String, ColumnSum>) {
        self.sums.retain(|name, _| others.contains_key(name));
        for (name, sum) in &mut self.sums {
            let more = others[name];
            *sum = ColumnSum { values: sum.values.saturating_add(more.values), sum: sum.sum + more.sum };
        }
        self.sums.retain(|_, sum| sum.sum.is_finite());
    }
}
