//! A query's time, from the times of client, nodes and answers, and where one client ends.

use serde::{Deserialize, Serialize};

use crate::balance::most_loaded;
use crate::database::{Line, RequestTime, Speedup};

/// The constants of the model, of one cluster and one client. What an element is, records or
/// bytes, is up to who fitted them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Formula 6.
    pub request: RequestTime,
    /// Formula 7.
    pub speedup: Speedup,
    /// What the client spends on a request: `time_msg` of formula 3, in milliseconds.
    pub send_ms: f64,
    /// What the client spends on an answer: the last term of formula 2.
    pub fetch: Line,
}

/// What decides a query's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The client cannot send fast enough.
    Sending,
    /// The node that has most to do.
    Nodes,
    /// The client cannot take answers fast enough.
    Fetching,
}

/// What a query costs by the model; times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub requests: f64,
    /// Requests of the node that has most.
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
    /// The constants as printed in section VI and V B, of two Xeon L5630 a node: an element
    /// is a record of about 46 bytes.
    pub const AS_PRINTED: Model = Model {
        request: RequestTime {
            line: Line { ms: 1.163, ms_per_element: 0.0387 },
            beyond: Some((1425.0, Line { ms: 0.773, ms_per_element: 0.0439 })),
        },
        speedup: Speedup { at_one_element: 12.562, per_ln_element: -1.084, least: 1.0 },
        send_ms: 0.019,
        fetch: Line { ms: 0.0, ms_per_element: 0.0 },
    };

    /// What a node needs for a request of `size` elements if it always has several, in
    /// milliseconds: formula 8 (section VI a; thesis 2.8).
    pub fn node_ms(&self, size: f64) -> f64 {
        self.request.at(size) / self.speedup.at(size)
    }

    /// A query of `requests` requests of `size` elements each.
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

    /// A query of `elements` elements, in requests of `size` each.
    pub fn predict(&self, elements: f64, size: f64, nodes: f64) -> Prediction {
        self.predict_requests(elements / size, size, nodes)
    }

    /// From how many nodes on one client, and not the nodes, decides the time of such a
    /// query (section VII, figure 11; thesis figure 2.23); `None`: not up to `most`.
    pub fn single_client_limit(&self, elements: f64, size: f64, most: u32) -> Option<u32> {
        (1..=most).find(|nodes| self.predict(elements, size, f64::from(*nodes)).bound() != Bound::Nodes)
    }
}

/// A client that chooses the replica of each request must send as many as all nodes work on
/// at once in the time in which they are served, and choose too (section VII; thesis 2.12).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaSelection {
    /// Requests that a node works on at once.
    pub in_flight: f64,
    /// How long each of them takes then, in milliseconds.
    pub request_ms: f64,
}

impl ReplicaSelection {
    /// Which share of a client's time goes into sending; what is left of 1 is for choosing.
    pub fn share_sending(&self, send_ms: f64, nodes: f64) -> f64 {
        nodes * self.in_flight * send_ms / self.request_ms
    }

    /// The most nodes that a client can keep busy while it has `share` of its time left to
    /// choose.
    pub fn most_nodes(&self, send_ms: f64, share: f64) -> f64 {
        (1.0 - share) * self.request_ms / (self.in_flight * send_ms)
    }
}
