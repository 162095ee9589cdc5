//! Exact totals of a step that was written as a sample only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinned {
    /// The sample fraction: above it, only records that are always kept were written.
    pub below: f64,
    /// Number of records before sampling.
    pub rows: u64,
    /// Number of records kept regardless of their priority.
    pub always: u64,
    /// Bytes of the kept records' values before encoding.
    pub bytes: u64,
    /// Sums over all records by numeric column, except sums that are not finite or not exact enough as a float.
    pub sums: BTreeMap<String, ColumnSum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSum {
    /// Values that are neither null nor NaN.
    pub values: u64,
    pub sum: f64,
}

impl Thinned {
    pub fn join(mut self, other: &Thinned) -> Thinned {
        self.below = self.below.min(other.below);
        // A writer without records has no sums and must not remove the other's.
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
