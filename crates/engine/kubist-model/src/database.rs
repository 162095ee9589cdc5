//! What one node does: the time of a request by its size, and what is won by several at once.

use serde::{Deserialize, Serialize};

/// A straight line: milliseconds, and milliseconds for each element.
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

/// The time of one request, alone on its node: formula 6 (section VI a; thesis 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestTime {
    pub line: Line,
    /// The number of elements beyond which another line holds: Cassandra indexes large partitions.
    pub beyond: Option<(f64, Line)>,
}

impl RequestTime {
    /// In milliseconds.
    pub fn at(&self, elements: f64) -> f64 {
        match self.beyond {
            Some((bend, line)) if elements > bend => line.at(elements),
            _ => self.line.at(elements),
        }
    }
}

/// How many times as much a node does with several requests at once, at the number of
/// requests that is best for their size: formula 7 (section VI a; thesis 2.7). Of a cluster
/// whose nodes share one machine it can be less than 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    pub at_one_element: f64,
    pub per_ln_element: f64,
    /// The formula falls without end; below this it does not hold.
    pub least: f64,
}

impl Speedup {
    pub fn at(&self, elements: f64) -> f64 {
        (self.at_one_element + self.per_ln_element * elements.ln()).max(self.least)
    }
}
