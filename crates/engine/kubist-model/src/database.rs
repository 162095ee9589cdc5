//! Performance of a single node: request time by size, and speedup by parallel requests.

use serde::{Deserialize, Serialize};

/// A linear function: milliseconds, and milliseconds for each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub ms: f64,
    pub ms_per_element: f64,
}

impl Line {
    pub fn at(&self, elements: f64) -> f64 {
        self.ms + self.ms_per_element * elements
    }
}

/// The time of a single request on an idle node: formula 6 (section VI a; thesis 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestTime {
    pub line: Line,
    /// Number of elements above which another line holds; Cassandra indexes large partitions.
    pub beyond: Option<(f64, Line)>,
}

impl RequestTime {
    pub fn at(&self, elements: f64) -> f64 {
        match self.beyond {
            Some((bend, line)) if elements > bend => line.at(elements),
            _ => self.line.at(elements),
        }
    }
}

/// The speedup of a node by parallel requests, at the best number of requests for their size: formula 7 (section VI a;
/// thesis 2.7). It can be below 1 if the nodes share one machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    pub at_one_element: f64,
    pub per_ln_element: f64,
    /// The lower limit, because the formula falls without bound.
    pub least: f64,
}

impl Speedup {
    pub fn at(&self, elements: f64) -> f64 {
        (self.at_one_element + self.per_ln_element * elements.ln()).max(self.least)
    }
}
