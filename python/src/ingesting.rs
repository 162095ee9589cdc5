//! Ingestion through `kubist-ingest`: formats that Python's libraries read are sources of its driver.
//!
//! The driver works on another thread, so that signals stop it. Formats give their facts, steps and batches
//! on the caller's thread.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use arrow_array::RecordBatch;
use kubist::store::stoppable;
use kubist::{Cancel, Metadata, WriterOptions};
use kubist_ingest::{
    Error, Facts, Host, IngestedSteps, Native, NewTable, Opened, Parts, Progress, Request, Result, Source, State, Step,
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::arrow::{Incoming, Schema, unreadable};
use crate::call::PATIENCE;
use crate::error::{exception, internal, invalid};
use crate::files::{File, unread};
use crate::table::{named, with_domains};
use crate::value::End;

type Domains = Vec<(String, String, End, End)>;

/// Options, as JSON.
#[derive(Deserialize)]
struct IngestRequest {
    location: String,
    table: String,
    files: Vec<String>,
    identity: Option<Vec<String>>,
    lookup: Vec<String>,
    capacity: Option<u32>,
    seed: Option<u64>,
    replication: Option<String>,
    compression: Option<String>,
    strata: Option<String>,
    weight: Option<String>,
    classes: Vec<String>,
    sphere: Option<[String; 2]>,
    units: Vec<(String, String)>,
    metadata: Metadata,
    shared: bool,
    columns: Option<Vec<String>>,
    types: Vec<(String, String)>,
    time: Option<f64>,
    has_topology: bool,
    strict: bool,
    skips_bad_rows: bool,
    again: bool,
    keep_going: bool,
    follows: bool,
    patience: Option<f64>,
    name: Option<String>,
    memory_bytes: Option<usize>,
    optimize: bool,
}

/// Returns the report, or the plan of a dry run, as JSON and as text.
#[pyfunction]
#[pyo3(signature = (host, asked, *, dimensions, accuracy, period, dry_run))]
pub fn ingest(
    py: Python<'_>,
    host: Py<PyAny>,
    asked: &str,
    dimensions: Domains,
    accuracy: Vec<(String, End)>,
    period: Option<Vec<(String, End)>>,
    dry_run: bool,
) -> PyResult<(String, String)> {
    let asked: IngestRequest = serde_json::from_str(asked).map_err(|error| invalid(py, &error.to_string()))?;
    let cancel = Cancel::default();
    let has_time = asked.time.is_some();
    let mut request = request(py, asked, dimensions, &cancel)?;
    request.new.accuracy = named(accuracy);
    request.new.period = period.map(named);
    let mut host = PythonHost { host, has_time, cancel: cancel.clone() };
    let (ended, interrupt) = beside_python(py, &cancel, || match dry_run {
        true => kubist_ingest::plan(&request, &mut host).map(|plan| (json(&plan), plan.lines())),
        false => kubist_ingest::ingest(&request, &mut host)
            .map(|report| (json(&report), report.lines()))
            .map_err(|failed| failed.error),
    });
    if let Some(interrupt) = interrupt {
        return Err(interrupt);
    }
    let (json, lines) = match ended {
        Ok(ended) => ended.map_err(|error| raised(py, error))?,
        Err(panic) => return Err(internal(py, &*panic)),
    };
    Ok((json, lines.join("\n")))
}

/// Folders with `is_whole` are one source.
#[pyfunction]
pub fn expanded(py: Python<'_>, paths: Vec<PathBuf>, is_whole: Py<PyAny>) -> PyResult<Vec<PathBuf>> {
    let absent = |path: &Path| {
        let missing = || py.import("kubist.ingesting.paths")?.getattr("missing")?.call1((path,));
        missing().map_or_else(|error| error, PyErr::from_value)
    };
    kubist_ingest::expanded(&paths, &mut |path: &Path| is_whole.call1(py, (path,))?.is_truthy(py), &absent)
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("figures and names are valid JSON")
}

fn request(py: Python<'_>, asked: IngestRequest, dimensions: Domains, cancel: &Cancel) -> PyResult<Request> {
    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        py: Python<'_>,
        text: Option<String>,
    ) -> PyResult<Option<T>> {
        text.map(|text| text.parse().map_err(|why: T::Err| invalid(py, &why.to_string()))).transpose()
    }
    let typed = |(column, name): (String, String)| match kubist_types::type_names::data_type(&name) {
        Ok(data_type) => Ok((column, data_type)),
        Err(why) => Err(invalid(py, &format!("types: {column}: {why}"))),
    };
    let types = asked.types.into_iter().map(typed).collect::<PyResult<_>>()?;
    let dimensions = with_domains(dimensions);
    let is_sampled = asked.weight.is_some() || !asked.classes.is_empty();
    let sampling = (asked.weight, asked.classes).try_into().map_err(|error| exception(py, error))?;
    let sampling = Some(sampling).filter(|_| is_sampled);
    Ok(Request {
        location: asked.location,
        table: asked.table,
        files: asked.files,
        new: NewTable {
            dimensions: dimensions.iter().map(|dimension| dimension.column.clone()).collect(),
            domains: Box::new(move |_| Ok(dimensions.clone())),
            identity: asked.identity,
            lookup: asked.lookup,
            capacity: asked.capacity,
            seed: asked.seed,
            replication: parsed(py, asked.replication)?,
            compression: parsed(py, asked.compression)?,
            strata: parsed(py, asked.strata)?,
            sampling,
            accuracy: Vec::new(),
            units: asked.units,
            sphere: asked.sphere,
            period: None,
            metadata: asked.metadata,
            shared: asked.shared,
        },
        columns: asked.columns,
        types,
        time: asked.time,
        has_topology: asked.has_topology,
        strict: asked.strict,
        skips_bad_rows: asked.skips_bad_rows,
        again: asked.again,
        keep_going: asked.keep_going,
        commit_rows: None,
        follow: asked.follows.then(|| asked.patience.map(std::time::Duration::from_secs_f64)),
        writer: WriterOptions {
            name: asked.name,
            memory_bytes: asked.memory_bytes,
            optimize: asked.optimize,
            cancel: cancel.clone(),
        },
    })
}

fn raised(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Table(error) => exception(py, error),
        Error::File(error) => unread(py, &error),
        Error::Busy(message) => exception(py, kubist::Error::Busy(message)),
        Error::Invalid(message) | Error::NoPositions(message) => invalid(py, &message),
        Error::Source { message, cause, .. } => match cause.downcast::<PyErr>() {
            // The cause is, for example, an interrupt.
            Ok(cause) if !cause.is_instance_of::<PyException>(py) => *cause,
            Ok(cause) if one_line(py, &cause) == message => *cause,
            Ok(cause) => {
                let error = invalid(py, &message);
                error.set_cause(py, Some(*cause));
                error
            }
            Err(_) => invalid(py, &message),
        },
    }
}

fn one_line(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.is_empty() {
        true => error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string()),
        false => text,
    }
}

/// An exception of the package about a file ends only that file.
fn failed(py: Python<'_>, error: PyErr) -> Error {
    let classes = py.import("kubist._errors");
    let is = |name: &str| {
        let class = classes.as_ref().ok().and_then(|module| module.getattr(name).ok());
        class.is_some_and(|class| error.matches(py, class).unwrap_or(false))
    };
    let is_of_file = is("InvalidInput") || is("Busy");
    Error::Source { message: one_line(py, &error), is_of_file, cause: Box::new(error) }
}

type Job = Box<dyn FnOnce(Python<'_>) + Send>;

thread_local! {
    /// Runs jobs on the thread that called [`ingest`].
    static CALLER: RefCell<Option<Sender<Job>>> = const { RefCell::new(None) };
}

/// Runs `drive` on another thread, and its Python calls on this one, because libraries such as pyproj keep
/// data per thread, which a thread that Python did not start loses between two calls. A signal sets
/// `cancel`, and its exception is returned.
fn beside_python<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    drive: impl FnOnce() -> T + Send,
) -> (std::thread::Result<T>, Option<PyErr>) {
    let (sender, jobs) = channel::<Job>();
    let switch = cancel.clone();
    py.detach(move || {
        let mut interrupt = None;
        let ended = std::thread::scope(|scope| {
            let driver = scope.spawn(move || {
                CALLER.set(Some(sender));
                stoppable(move || switch.is_set(), drive)
            });
            loop {
                match jobs.recv_timeout(PATIENCE) {
                    Ok(job) => Python::attach(job),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) if interrupt.is_some() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(raised) = Python::attach(|py| py.check_signals()) {
                            cancel.set();
                            interrupt = Some(raised);
                        }
                    }
                }
            }
            driver.join()
        });
        (ended, interrupt)
    })
}

/// Calls Python on the thread that called [`ingest`], and translates exceptions.
fn call<T: Send>(work: impl FnOnce(Python<'_>) -> PyResult<T> + Send) -> Result<T> {
    let (sender, receiver) = channel();
    let job: Box<dyn FnOnce(Python<'_>) + Send + '_> = Box::new(move |py| {
        let _ = sender.send(work(py).map_err(|error| failed(py, error)));
    });
    // SAFETY: the borrows of the job live until it has run or is dropped, because `recv` returns only then
    // and this function waits for it.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce(Python<'_>) + Send + '_>, Job>(job) };
    let caller = CALLER.with_borrow(Option::clone).ok_or(kubist::Error::Cancelled)?;
    caller.send(job).map_err(|_| kubist::Error::Cancelled)?;
    receiver.recv().map_err(|_| kubist::Error::Cancelled)?
}

/// A Python object `kubist.ingesting.opening.Files`.
struct PythonHost {
    host: Py<PyAny>,
    has_time: bool,
    cancel: Cancel,
}

impl Host for PythonHost {
    fn look(&mut self, keep_going: bool, takes_parts: bool) -> Result<Vec<Opened>> {
        call(|py| {
            let mut opened = Vec::new();
            for item in self.host.bind(py).call_method1("look", (keep_going, takes_parts))?.try_iter()? {
                let (path, source): (PathBuf, Bound<'_, PyAny>) = item?.extract()?;
                opened.push(if source.is_instance_of::<PyException>() {
                    let error = PyErr::from_value(source);
                    let message = one_line(py, &error);
                    Opened::Failed(path, Error::Source { message, is_of_file: true, cause: Box::new(error) })
                } else {
                    let file = source.getattr("file")?;
                    let source: Box<dyn Source> = match file.cast::<File>() {
                        Ok(file) => {
                            let mut native = Native::new(file.get().0.clone(), self.has_time, &self.cancel);
                            for (name, why) in source.call_method0("left_out")?.extract::<Vec<(String, String)>>()? {
                                native.leave_out(&name, &why).map_err(|error| raised(py, error))?;
                            }
                            Box::new(native)
                        }
                        Err(_) => Box::new(PythonSource::new(source)?),
                    };
                    Opened::Source(source)
                });
            }
            Ok(opened)
        })
    }

    fn progress(&mut self, at: &Progress<'_>) -> Result<()> {
        let name = at.path.file_name().unwrap_or_default().to_string_lossy();
        let arguments = (at.rows, name.as_ref(), at.label, at.fraction, at.is_committing);
        call(|py| self.host.bind(py).call_method1("progress", arguments).map(drop))
    }
}

/// `kubist.ingesting.source.Reading`: a file that a Python library reads.
struct PythonSource {
    source: Py<PyAny>,
    facts: Facts,
    rows: Option<Incoming>,
}

/// Facts of a source, as JSON.
#[derive(Deserialize)]
struct Told {
    path: PathBuf,
    format: String,
    dimensions: Vec<String>,
    identity: Vec<String>,
    lookup: Vec<String>,
    capacity: Option<u32>,
    period: std::collections::BTreeMap<String, f64>,
    metadata: Metadata,
    rows: Option<u64>,
    times: Vec<f64>,
    in_order: bool,
    numbers_frames: bool,
    joins: bool,
    notes: Vec<String>,
}

impl PythonSource {
    fn new(source: Bound<'_, PyAny>) -> PyResult<PythonSource> {
        let py = source.py();
        let (told, schema, domains): (String, Bound<'_, PyAny>, Domains) = source.call_method0("facts")?.extract()?;
        let told: Told = serde_json::from_str(&told).map_err(|error| invalid(py, &error.to_string()))?;
        let facts = Facts {
            path: told.path,
            format: told.format,
            schema: Schema::new(&schema)?.0,
            dimensions: told.dimensions,
            identity: told.identity,
            lookup: told.lookup,
            domains: with_domains(domains).into_iter().map(|given| (given.column, given.domain)).collect(),
            capacity: told.capacity,
            period: told.period,
            metadata: told.metadata,
            rows: told.rows,
            bytes: 0,
            times: told.times,
            in_order: told.in_order,
            numbers_frames: told.numbers_frames,
            joins: told.joins,
            notes: told.notes,
        };
        Ok(PythonSource { source: source.unbind(), facts, rows: None })
    }

    fn ask<T: Send + for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>>(&self, method: &str) -> Result<T> {
        call(|py| self.source.bind(py).call_method0(method)?.extract::<T>().map_err(Into::into))
    }
}

impl Source for PythonSource {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn key(&self) -> Result<String> {
        self.ask("key")
    }

    fn left_out(&mut self) -> Result<Parts> {
        self.ask("left_out").map(kubist_ingest::Ordered)
    }

    fn leave_out(&mut self, name: &str, why: &str) -> Result<()> {
        call(|py| self.source.bind(py).call_method1("leave_out", (name, why)).map(drop))
    }

    fn joins(&mut self, metadata: &Metadata) -> Result<Metadata> {
        call(|py| {
            let changed: String = self.source.bind(py).call_method1("joins", (json(metadata),))?.extract()?;
            serde_json::from_str(&changed).map_err(|error| invalid(py, &error.to_string()))
        })
    }

    fn start(&mut self, known: &IngestedSteps) -> Result<()> {
        call(|py| self.source.bind(py).call_method1("start", (KnownSteps(known.clone()),)).map(drop))
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        type Told = (String, Option<f64>, String, Option<i64>);
        let step: Option<Told> = self.ask("next_step")?;
        Ok(step.map(|(label, time, part, number)| Step { label, time, part, number }))
    }

    fn begin(&mut self, state: &State) -> Result<()> {
        self.rows = None;
        let arguments = (state.next_frame, Schema(state.schema.clone()), state.added.clone(), state.needed.clone());
        call(|py| self.source.bind(py).call_method1("begin", arguments).map(drop))
    }

    fn next_rows(&mut self, state: &mut State) -> Result<Option<RecordBatch>> {
        let mut rows = match self.rows.take() {
            None => None,
            Some(rows) => rows.next().map(|batch| (batch, rows)),
        };
        if rows.is_none() {
            let next: Option<(Incoming, i64)> = call(|py| {
                let (table, next_frame): (Option<Bound<'_, PyAny>>, i64) =
                    self.source.bind(py).call_method0("next_rows")?.extract()?;
                state.next_frame = next_frame;
                table.map(|table| Ok((Incoming::new(&table)?, next_frame))).transpose()
            })?;
            let Some((incoming, _)) = next else { return Ok(None) };
            let first = incoming.next().unwrap_or_else(|| Ok(RecordBatch::new_empty(incoming.schema_ref())));
            rows = Some((first, incoming));
        }
        let Some((batch, rest)) = rows else { return Ok(None) };
        self.rows = Some(rest);
        match batch {
            Ok(batch) => Ok(Some(batch)),
            Err(error) => call(|py| Err(unreadable(py, &error))),
        }
    }
}

#[pyclass(frozen, module = "kubist._kubist")]
struct KnownSteps(IngestedSteps);

#[pymethods]
impl KnownSteps {
    /// The number of rows committed under a label.
    fn __call__(&self, label: &str) -> Option<u64> {
        self.0.rows(label)
    }
}
