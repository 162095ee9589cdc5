//! The best request size, and the loss compared with an even distribution.

use serde::{Deserialize, Serialize};

use crate::balance::imbalance;
use crate::model::{Model, Prediction};

/// Number of sizes on a logarithmic grid, and of refinement steps around the best one.
const TRIED: u32 = 512;
const CLOSER: u32 = 60;
const MOST_NODES: u32 = 4096;

/// A query and the range of its request sizes, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    pub elements: f64,
    pub smallest: f64,
    pub largest: f64,
}

/// The best request size for a number of nodes (section VII, figures 9 and 10; thesis 2.21 and 2.22).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    pub nodes: u32,
    pub size: f64,
    pub predicted: Prediction,
    /// The best time on one node divided by the number of nodes, in milliseconds.
    pub ideal_ms: f64,
    /// Relative excess over the ideal time: 0.1 is 10 %.
    pub loss: f64,
    /// The part of the loss from imbalance; smaller requests cause the rest.
    pub imbalance: f64,
    /// Number of nodes from which a single client is the bottleneck.
    pub single_client_limit: Option<u32>,
}

pub fn advise(model: &Model, work: &Workload, nodes: u32) -> Advice {
    let size = best_size(model, work, nodes);
    let predicted = model.predict(work.elements, size, f64::from(nodes));
    let alone = model.predict(work.elements, best_size(model, work, 1), 1.0);
    let ideal_ms = alone.ms() / f64::from(nodes);
    Advice {
        nodes,
        size,
        predicted,
        ideal_ms,
        loss: predicted.ms() / ideal_ms - 1.0,
        imbalance: imbalance(predicted.requests, f64::from(nodes)),
        single_client_limit: model.single_client_limit(work.elements, size, MOST_NODES),
    }
}

fn best_size(model: &Model, work: &Workload, nodes: u32) -> f64 {
    let ms = |ln: f64| model.predict(work.elements, ln.exp(), f64::from(nodes)).ms();
    let (low, high) = (work.smallest.ln(), work.largest.min(work.elements).max(work.smallest).ln());
    let step = (high - low) / f64::from(TRIED);
    let tried = (0..=TRIED).map(|at| low + step * f64::from(at));
    let best = tried.min_by(|a, b| ms(*a).total_cmp(&ms(*b))).unwrap_or(low);
    // Ternary search; the function has one minimum.
    let (mut from, mut to) = ((best - step).max(low), (best + step).min(high));
    for _ in 0..CLOSER {
        let (a, b) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
        if ms(a) <= ms(b) { to = b } else { from = a }
    }
    let closer = (from + to) / 2.0;
    if ms(closer) <= ms(best) { closer.exp() } else { best.exp() }
}
