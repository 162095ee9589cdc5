//! Requests thrown at random on nodes: balls into bins, heavily loaded.
//!
//! The exact law of the fullest of n bins has the leading term sqrt(2 m ln n / n) for n
//! large (Raab and Steger, 1998). The paper leaves the 2 out, and with it the formula meets
//! the mean of the fullest bin for the tens of nodes that a cluster has; the test compares
//! it with a simulation.

/// By which share the fullest node has more than its part of `keys` on `nodes`: formula 1
/// (section II; thesis 2.1).
pub fn imbalance(keys: f64, nodes: f64) -> f64 {
    (nodes.ln() * nodes / keys).sqrt()
}

/// Keys on the fullest of `nodes`: formula 5 (section VI; thesis 2.5). No fewer than one and
/// no more than all, where there are hardly more keys than nodes.
pub fn most_loaded(keys: f64, nodes: f64) -> f64 {
    (keys / nodes * (1.0 + imbalance(keys, nodes))).max(keys.min(1.0)).min(keys)
}
