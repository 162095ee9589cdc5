//! The plan of a query, its measured times, and the time that the scalability model predicts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubist_model::Prediction;
use kubist_store::{Chain, Store, StoreExt};
use serde::Serialize;

use kubist_catalog::snapshot::Snapshot;
use kubist_catalog::trace::Trace;
use kubist_model::Fitted;
use kubist_read::plan::{PlanOutline, Planner};
use kubist_read::request::{Request, RunOptions};
use kubist_read::stream::QueryStream;
use kubist_types::error::Result;
use kubist_types::stats::Stats;

/// Measurements of a query that was run, and whose rows were discarded.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The plan.
    pub plan: PlanOutline,
    /// Rows and bytes read and returned.
    pub stats: Stats,
    /// The sample fraction of the result.
    pub fraction: f64,
    /// The times of stages.
    pub stages: Stages,
    /// The requests, in the order of their responses.
    pub requests: Vec<RequestTimes>,
    /// Traffic of this handle since it was opened, including the opening; `None` for a store without a
    /// service.
    pub traffic: Option<HandleTraffic>,
    /// The prediction, if a model was given.
    pub predicted: Option<Predicted>,
}

/// Traffic between a handle and its service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HandleTraffic {
    /// Length of the longest chain of requests that were each sent after the previous response.
    pub round_trips: u64,
    /// Number of requests.
    pub requests: u64,
    /// Bytes received.
    pub bytes_read: u64,
    /// Bytes sent.
    pub bytes_written: u64,
    /// Blocks and objects from the local cache.
    pub cache_hits: u64,
    /// Blocks and objects that the service sent because the local cache lacked them.
    pub cache_misses: u64,
    /// Bytes from the local cache.
    pub cache_bytes: u64,
}

impl HandleTraffic {
    pub(crate) fn of(store: &dyn Store) -> Option<HandleTraffic> {
        let traffic = store.traffic()?;
        let cache = traffic.cache.unwrap_or_default();
        Some(HandleTraffic {
            round_trips: traffic.round_trips,
            requests: traffic.requests(),
            bytes_read: traffic.bytes_read,
            bytes_written: traffic.bytes_written,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_bytes: cache.bytes,
        })
    }
}

/// Times of the stages, where requests overlap, so sums over requests can exceed the time of the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Time until the first request for rows.
    pub planned_seconds: f64,
    /// Length of the longest chain of requests that were each sent after the previous response.
    pub round_trips: u64,
    /// Number of requests.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes from the local cache, without a request.
    pub bytes_cached: u64,
    /// Sum over requests: time in the queue before sending.
    pub queued_seconds: f64,
    /// Sum over requests: time between sending and response.
    pub store_seconds: f64,
    /// Sum over threads: time to decode rows.
    pub decoded_seconds: f64,
    /// Number of requests by host; empty for a directory.
    pub hosts: BTreeMap<String, u64>,
}

/// Times of a request, in seconds since the start of the query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestTimes {
    /// When the query needed it.
    pub asked: f64,
    /// When it was sent.
    pub sent: f64,
    /// When its bytes had arrived.
    pub answered: f64,
    /// When the rows of its task were decoded.
    pub decoded: f64,
    /// Received bytes.
    pub bytes: u64,
    /// The host; `None` for this machine.
    pub host: Option<String>,
}

/// The model's prediction for the requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Predicted time of the query.
    pub seconds: f64,
    /// Relative excess of the measured time: 0.1 means 10 % longer than predicted.
    pub error: f64,
    #[serde(flatten)]
    /// The terms of the prediction.
    pub prediction: Prediction,
}

/// A planned query that has read no row yet, and whose `Display` form shows the plan.
pub struct Plan {
    planner: Planner,
    outline: PlanOutline,
    /// The cost of planning.
    spent: Stats,
    store: Arc<dyn Store>,
    trace: Trace,
    begin: Instant,
    planned: Duration,
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outline.fmt(out)
    }
}

impl Plan {
    pub(crate) fn new(snapshot: &Snapshot, request: Request) -> Result<Plan> {
        let (trace, begin) = (Trace::default(), Instant::now());
        let request = RunOptions { trace: Some(trace.clone()), ..request.run }.of(request.spec);
        let (mut planner, mut spent) = (Planner::new(snapshot, &request)?, Stats::default());
        let outline = planner.outline(&mut spent)?;
        let (store, planned) = (snapshot.core.store.clone(), begin.elapsed());
        Ok(Plan { planner, outline, spent, store, trace, begin, planned })
    }

    /// Returns the plan.
    pub fn outline(&self) -> &PlanOutline {
        &self.outline
    }

    /// Runs the query, discards its rows and measures each stage. With a model, it also predicts the time
    /// of the requests.
    ///
    /// # Errors
    ///
    /// `Damaged`, `SnapshotExpired`, `Cancelled`, or a storage error.
    pub fn explain(self, fitted: Option<&Fitted>) -> Result<Explanation> {
        let Plan { planner, outline, spent, store, trace, begin, planned } = self;
        let resumed = Instant::now();
        let mut stream = QueryStream::run(planner, spent)?;
        for batch in &mut stream {
            batch?;
        }
        let (mut stats, fraction) = (stream.stats(), stream.fraction());
        // Excludes the caller's time between planning and running.
        stats.seconds = (planned + resumed.elapsed()).as_secs_f64();
        let since = |moment: Instant| match moment.checked_duration_since(resumed) {
            Some(running) => (planned + running).as_secs_f64(),
            None => moment.saturating_duration_since(begin).as_secs_f64(),
        };
        Ok(explained(outline, stats, fraction, &trace, HandleTraffic::of(store.as_ref()), since, fitted))
    }
}

fn explained(
    plan: PlanOutline,
    stats: Stats,
    fraction: f64,
    trace: &Trace,
    traffic: Option<HandleTraffic>,
    since: impl Fn(Instant) -> f64,
    fitted: Option<&Fitted>,
) -> Explanation {
    let traced = trace.traced();
    let (cached, mut asked): (Vec<_>, Vec<_>) = traced.requests.iter().partition(|(request, _)| request.cached);
    asked.sort_by_key(|(request, _)| request.answered);
    let mut chain = Chain::default();
    asked.iter().for_each(|(request, _)| chain.push(request.sent, request.answered));
    let mut requests: Vec<RequestTimes> = Vec::with_capacity(asked.len());
    requests.extend(asked.iter().map(|(request, decoded)| RequestTimes {
        asked: since(request.asked),
        sent: since(request.sent),
        answered: since(request.answered),
        decoded: since(*decoded),
        bytes: request.bytes,
        host: request.host.clone(),
    }));
    let mut stages = Stages {
        planned_seconds: traced.planned.map_or(stats.seconds, &since),
        round_trips: chain.round_trips,
        requests: requests.len() as u64,
        bytes_cached: cached.iter().map(|(request, _)| request.bytes).sum(),
        decoded_seconds: traced.decoding.as_secs_f64(),
        ..Stages::default()
    };
    for request in &requests {
        stages.bytes += request.bytes;
        stages.queued_seconds += request.sent - request.asked;
        stages.store_seconds += request.answered - request.sent;
        if let Some(host) = &request.host {
            *stages.hosts.entry(host.clone()).or_default() += 1;
        }
    }
    let predicted = fitted.filter(|_| stages.bytes > 0).map(|fitted| predict(fitted, &stages, stats.seconds));
    Explanation { plan, stats, fraction, stages, requests, traffic, predicted }
}

fn predict(fitted: &Fitted, stages: &Stages, seconds: f64) -> Predicted {
    let model = &fitted.fit.model;
    let size = stages.bytes as f64 / stages.requests as f64;
    let prediction = model.predict_requests(stages.requests as f64, size, f64::from(fitted.fit.nodes));
    // Few requests do not keep a node busy, and none is faster than a single request alone.
    let predicted = prediction.ms().max(model.request.at(size)) / 1e3;
    Predicted { seconds: predicted, error: seconds / predicted - 1.0, prediction }
}
