//! The best size of requests, and what is lost against nodes that share the work evenly.

use serde::{Deserialize, Serialize};

use crate::balance::imbalance;
use crate::model::{Model, Prediction};

/// Sizes tried, evenly on a logarithmic scale, before the best is closed in on.
const TRIED: u32 = 512;
const CLOSER: u32 = 60;
/// The most nodes for which a limit is searched.
const MOST_NODES: u32 = 4096;

/// A query and the sizes that its requests may have, all in the model's elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    pub elements: f64,
    pub smallest: f64,
    pub largest: f64,
}

/// The best for one number of nodes (section VII, figures 9 and 10; thesis 2.21 and 2.22).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    pub nodes: u32,
    /// Elements of a request.
    pub size: f64,
    pub predicted: Prediction,
    /// The best time on one node, shared evenly by all, in milliseconds.
    pub ideal_ms: f64,
    /// How much longer than that it takes: 0.1 is 10 %.
    pub loss: f64,
    /// The part of it by uneven spreading; the rest is what smaller requests cost.
    pub imbalance: f64,
    /// The number of nodes from which one client cannot send enough requests of this size.
    pub single_client_limit: Option<u32>,
}

/// The best size of requests for `nodes`.
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
    // Thirds of what is left: the function has one minimum.
    let (mut from, mut to) = ((best - step).max(low), (best + step).min(high));
    for _ in 0..CLOSER {
        let (a, b) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
        if ms(a) <= ms(b) { to = b } else { from = a }
    }
    let closer = (from + to) / 2.0;
    if ms(closer) <= ms(best) { closer.exp() } else { best.exp() }
}
