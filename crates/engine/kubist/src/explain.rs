//! What a query did and how long each part of it took; and how long the scalability model
//! says that it should have.

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
use kubist_read::plan::{LogicalPlan, PlanOutline};
use kubist_read::request::{Request, RunOptions};
use kubist_read::stream::QueryStream;
use kubist_types::error::Result;
use kubist_types::stats::Stats;

/// A query that was run, and its answer thrown away.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What was about to be read.
    pub plan: PlanOutline,
    /// What it read and returned.
    pub stats: Stats,
    /// The fraction of the answer: the share of the records that it is.
    pub fraction: f64,
    /// Where its time went.
    pub stages: Stages,
    /// In the order in which they were answered.
    pub requests: Vec<RequestTimes>,
    /// What this handle has asked of a service since it was opened, the opening included; `None`
    /// where no service is asked.
    pub traffic: Option<HandleTraffic>,
    /// By a model that was handed in.
    pub predicted: Option<Predicted>,
}

/// What a handle has asked of a service since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HandleTraffic {
    /// The longest chain of requests of which each was sent after the one before was answered.
    pub round_trips: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
    /// Blocks and objects that the local cache had.
    pub cache_hits: u64,
    /// Those that it had not, and that were read from the service.
    pub cache_misses: u64,
    /// Bytes of the hits.
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

/// The time of each stage. Requests overlap, so that all of them together take longer than
/// the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Until the first rows were asked for.
    pub planned_seconds: f64,
    /// The longest chain of requests of which each was sent after the one before was answered.
    pub round_trips: u64,
    /// How many requests there were.
    pub requests: u64,
    /// Bytes that they brought.
    pub bytes: u64,
    /// Bytes that the local cache had; no request brought them.
    pub bytes_cached: u64,
    /// Of all requests: they waited for room among those on their way.
    pub queued_seconds: f64,
    /// Of all requests: from when they were sent to when they were answered.
    pub store_seconds: f64,
    /// Of all threads: they made rows of what was read.
    pub decoded_seconds: f64,
    /// Requests that each host answered; none for a directory.
    pub hosts: BTreeMap<String, u64>,
}

/// When a request was where, in seconds since the query began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestTimes {
    /// The query wanted it.
    pub asked: f64,
    /// There was room for it.
    pub sent: f64,
    /// Its bytes were there.
    pub answered: f64,
    /// The rows of the task that it was for were there.
    pub decoded: f64,
    /// Its bytes.
    pub bytes: u64,
    /// Who answered; `None`: this machine.
    pub host: Option<String>,
}

/// What the model says of the requests that the query made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// How long the query should have taken.
    pub seconds: f64,
    /// How much longer it took than predicted: 0.1 is 10 %.
    pub error: f64,
    #[serde(flatten)]
    /// The parts of that.
    pub prediction: Prediction,
}

/// A query that is planned, and of which no row was read yet. Printed, it says what is about
/// to be read.
pub struct Plan {
    logical: Arc<LogicalPlan>,
    outline: PlanOutline,
    store: Arc<dyn Store>,
    trace: Trace,
    begin: Instant,
    /// How long planning took.
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
        let logical = Arc::new(LogicalPlan::new(snapshot, &request)?);
        let outline = logical.outline()?;
        Ok(Plan { logical, outline, store: snapshot.core.store.clone(), trace, begin, planned: begin.elapsed() })
    }

    /// What is about to be read.
    pub fn outline(&self) -> &PlanOutline {
        &self.outline
    }

    /// Runs the query to its end and says where its time went. With a model also how long its
    /// requests should have taken.
    ///
    /// # Errors
    ///
    /// Those of reading: `Damaged`, `SnapshotExpired`, `Cancelled`, or what the store says.
    pub fn explain(self, fitted: Option<&Fitted>) -> Result<Explanation> {
        let Plan { logical, outline, store, trace, begin, planned } = self;
        let resumed = Instant::now();
        let mut stream = QueryStream::run(logical)?;
        for batch in &mut stream {
            batch?;
        }
        let (mut stats, fraction) = (stream.stats(), stream.fraction());
        // Whatever the caller did between the plan and the run does not count.
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
    // Few requests keep no node busy; none of them is shorter than when it is alone.
    let predicted = prediction.ms().max(model.request.at(size)) / 1e3;
    Predicted { seconds: predicted, error: seconds / predicted - 1.0, prediction }
}
