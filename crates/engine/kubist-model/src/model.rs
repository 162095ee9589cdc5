//! A query's time from client, nodes and results, and the limit of a single client.

use serde::{Deserialize, Serialize};

use crate::balance::most_loaded;
use crate::database::{Line, RequestTime, Speedup};

/// Constants of the model for one cluster and one client. An element is a record or a byte, depending on the fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Formula 6.
    pub request: RequestTime,
    /// Formula 7.
    pub speedup: Speedup,
    /// Client time per request in milliseconds: `time_msg` of formula 3.
    pub send_ms: f64,
    /// Client time per result: the last term of formula 2.
    pub fetch: Line,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    Sending,
    Nodes,
    Fetching,
}

/// The predicted cost of a query; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub requests: f64,
    pub most_loaded: f64,
    pub sending_ms: f64,
    pub nodes_ms: f64,
    pub fetching_ms: f64,
}

impl Prediction {
    /// Formula 2 (section VI; thesis 2.2).
    pub fn ms(&self) -> f64 {
        self.sending_ms.max(self.nodes_ms).max(self.fetching_ms)
    }

    pub fn bound(&self) -> Bound {
        match self.ms() {
            ms if ms == self.nodes_ms => Bound::Nodes,
            ms if ms == self.sending_ms => Bound::Sending,
            _ => Bound::Fetching,
        }
    }
}

impl Model {
    /// The constants of sections VI and V B, for two Xeon L5630 per node. An element is a record of about 46 bytes.
    pub const AS_PRINTED: Model = Model {
        request: RequestTime {
            line: Line { ms: 1.163, ms_per_element: 0.0387 },
            beyond: Some((1425.0, Line { ms: 0.773, ms_per_element: 0.0439 })),
        },
        speedup: Speedup { at_one_element: 12.562, per_ln_element: -1.084, least: 1.0 },
        send_ms: 0.019,
        fetch: Line { ms: 0.0, ms_per_element: 0.0 },
    };

    /// The time of a node for a request of `size` elements under parallel load, in milliseconds: formula 8 (section VI
    /// a; thesis 2.8).
    pub fn node_ms(&self, size: f64) -> f64 {
        self.request.at(size) / self.speedup.at(size)
    }

    pub fn predict_requests(&self, requests: f64, size: f64, nodes: f64) -> Prediction {
        let most_loaded = most_loaded(requests, nodes);
        Prediction {
            requests,
            most_loaded,
            // Formulas 3 and 4 (section VI; thesis 2.3, 2.4).
            sending_ms: requests * self.send_ms,
            nodes_ms: most_loaded * self.node_ms(size),
            fetching_ms: requests * self.fetch.at(size),
        }
    }

    pub fn predict(&self, elements: f64, size: f64, nodes: f64) -> Prediction {
        self.predict_requests(elements / size, size, nodes)
    }

    /// The smallest number of nodes, up to `most`, for which the client and not the nodes is the bottleneck (section
    /// VII, figure 11; thesis figure 2.23).
    pub fn single_client_limit(&self, elements: f64, size: f64, most: u32) -> Option<u32> {
        (1..=most).find(|nodes| self.predict(elements, size, f64::from(*nodes)).bound() != Bound::Nodes)
    }
}

/// A client that selects every request's replica. While the nodes serve their requests, it must select and send the
/// same number of new ones (section VII; thesis 2.12).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaSelection {
    pub in_flight: f64,
    /// Their times under this load, in milliseconds.
    pub request_ms: f64,
}

impl ReplicaSelection {
    /// The fraction of the client's time spent on sending; the rest is for selection.
    pub fn share_sending(&self, send_ms: f64, nodes: f64) -> f64 {
        nodes * self.in_flight * send_ms / self.request_ms
    }

    /// The largest number of nodes that the client can keep busy if it spends the fraction `share` of its time on
    /// selection.
    pub fn most_nodes(&self, send_ms: f64, share: f64) -> f64 {
        (1.0 - share) * self.request_ms / (self.in_flight * send_ms)
    }
}
