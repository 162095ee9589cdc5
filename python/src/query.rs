//! Results of queries, single or refined.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use kubist::{Cancel, Query, QueryStream, Request, RunOptions, Stats};
use pyo3::prelude::*;

use crate::call::{PATIENCE, run};
use crate::error::exception;
use crate::process_bound::ProcessBound;
use crate::stream::{BatchSource, Stream};

pub fn request(spec: Query, cancel: Cancel) -> Request {
    RunOptions { cancel, ..RunOptions::default() }.of(spec)
}

struct EngineSource {
    schema: SchemaRef,
    cancel: Cancel,
    state: ProcessBound<Mutex<State>>,
}

/// The statistics outlive the stream, which is dropped at its end.
struct State {
    stream: Option<QueryStream>,
    first: Option<RecordBatch>,
    /// The fraction is unknown before the first batch.
    unsettled: bool,
    stats: Stats,
    fraction: f64,
}

pub fn answer(location: &str, stream: QueryStream, query: &Request) -> Stream {
    let schema = stream.schema();
    let state = State {
        stats: stream.stats(),
        fraction: stream.fraction(),
        stream: Some(stream),
        first: None,
        unsettled: query.spec.limit.is_some(),
    };
    let state = ProcessBound::new(location, Mutex::new(state));
    Stream(Arc::new(EngineSource { schema, cancel: query.run.cancel.clone(), state }))
}

impl EngineSource {
    /// Works without the interpreter lock. The state is consistent after every statement, so a poisoned
    /// lock is ignored.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> T + Send) -> PyResult<T> {
        py.detach(|| Ok(work(&mut self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))))
            .map_err(|error| exception(py, error))
    }
}

impl BatchSource for EngineSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            let answer = self.with(py, State::next_within_patience)?;
            if let Some(answer) = answer.map_err(|error| exception(py, error))? {
                return Ok(answer);
            }
            if let Err(interrupt) = py.check_signals() {
                self.cancel.set();
                self.with(py, State::finish)?;
                return Err(interrupt);
            }
        }
    }

    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| state.stats_now().rows_returned)
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let stats = self.with(py, |state| state.stats_now())?;
        Ok(serde_json::to_string(&stats).expect("numbers are valid JSON"))
    }

    fn fraction(&self, py: Python<'_>) -> PyResult<f64> {
        if self.with(py, |state| state.unsettled)? {
            let first = self.next(py)?;
            self.with(py, |state| state.first = first)?;
        }
        self.with(py, |state| state.fraction)
    }

    /// Does not set the cancel switch, which all steps of a refinement share.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, State::finish)
    }
}

impl State {
    fn stats_now(&self) -> Stats {
        self.stream.as_ref().map_or(self.stats, QueryStream::stats)
    }

    fn next_within_patience(&mut self) -> kubist::Result<Option<Option<RecordBatch>>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(Some(first)));
        }
        let Some(stream) = &mut self.stream else {
            return Ok(Some(None));
        };
        let answer = stream.next_within(PATIENCE);
        if !matches!(answer, Ok(None)) {
            self.fraction = stream.fraction();
            self.unsettled = false;
        }
        if matches!(answer, Ok(Some(None)) | Err(_)) {
            self.finish();
        }
        answer
    }

    fn finish(&mut self) {
        self.stats = self.stats_now();
        self.first = None;
        self.stream = None;
    }
}

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Refine {
    steps: ProcessBound<Mutex<kubist_read::refine::Refine>>,
    query: Request,
}

impl Refine {
    pub fn new(location: &str, steps: kubist_read::refine::Refine, query: Request) -> Refine {
        Refine { steps: ProcessBound::new(location, Mutex::new(steps)), query }
    }
}

#[pymethods]
impl Refine {
    /// `None` after the last.
    fn next_step(&self, py: Python<'_>) -> PyResult<Option<Stream>> {
        let step = run(py, &self.query.run.cancel, || {
            let steps = self.steps.get()?;
            steps.lock().unwrap_or_else(PoisonError::into_inner).next().transpose()
        })?;
        Ok(step.map(|stream| answer(self.steps.location(), stream, &self.query)))
    }
}
