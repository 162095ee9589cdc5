//! Random distribution of requests over nodes: balls into bins, heavily loaded.
//!
//! For m balls and large n, the excess of the fullest of n bins has the leading term sqrt(2 m ln n / n) (Raab and
//! Steger, 1998). The paper omits the factor 2. Its formula then matches the mean of the fullest bin for the tens of
//! nodes of a cluster, as a test shows by simulation.

/// The relative excess of the fullest node over the mean, for `keys` on `nodes`: formula 1 (section II; thesis 2.1).
pub fn imbalance(keys: f64, nodes: f64) -> f64 {
    (nodes.ln() * nodes / keys).sqrt()
}

/// Keys on the fullest of `nodes`, limited to between 1 and all keys: formula 5 (section VI; thesis 2.5).
pub fn most_loaded(keys: f64, nodes: f64) -> f64 {
    (keys / nodes * (1.0 + imbalance(keys, nodes))).max(keys.min(1.0)).min(keys)
}
