//! Tables and pinned snapshots. Reports and descriptions are JSON.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubist::{
    Cancel, Compression, CopyOptions, Declared, Dimension, Domain, GridOptions, Location, Metadata, NewColumn,
    OptimizeOptions, Query, Replication, SnapshotToken, Strata, TableOptions, Value, VerifyOptions, WriterOptions,
};
use pyo3::prelude::*;

use crate::arrow::Schema;
use crate::call::{run, run_with_progress};
use crate::error::{exception, failed, invalid};
use crate::estimate::{EstimateRequest, Estimates, Figures, figures};
use crate::json::FromJson;
use crate::process_bound::ProcessBound;
use crate::query::{Refine, answer, request};
use crate::steps::{KeepOptions, Leader, Opening, StepWriter, run_with_timeout, shared};
use crate::stream::Stream;
use crate::value::End;
use crate::writer::Writer;

#[pyclass(frozen, module = "kubist._kubist")]
pub struct ReadOptimizer(ProcessBound<Mutex<Option<kubist_maintain::background::ReadOptimizer>>>);

#[pymethods]
impl ReadOptimizer {
    fn stop(&self, py: Python<'_>) {
        // A forked process has no thread to stop.
        if let Ok(optimizer) = self.0.get() {
            py.detach(|| drop(optimizer.lock().unwrap_or_else(PoisonError::into_inner).take()));
        }
    }
}

fn compression_of(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Compression>> {
    let parsed = name.map(str::parse::<Compression>).transpose();
    parsed.map_err(|error| exception(py, kubist::Error::Invalid(error.to_string())))
}

fn strata_of(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Strata>> {
    let parsed = name.map(str::parse::<Strata>).transpose();
    parsed.map_err(|error| exception(py, kubist::Error::Invalid(error.to_string())))
}

/// None is null.
pub fn named(values: Vec<(String, End)>) -> Vec<(String, Value)> {
    values.into_iter().map(|(column, value)| (column, value.0.unwrap_or(Value::Null))).collect()
}

fn policy(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Replication>> {
    let parsed = name.map(str::parse::<Replication>).transpose();
    parsed.map_err(|error| exception(py, kubist::Error::Invalid(error.to_string())))
}

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Table(ProcessBound<kubist::Table>);

#[pymethods]
impl Table {
    /// `dimensions`: column, kind of domain (`learned`, `linear`, `quantile`), lower and upper bound.
    /// `metadata`: a JSON object.
    #[staticmethod]
    #[pyo3(signature = (location, schema, *, dimensions, identity, lookup, capacity, seed, replication, compression, strata, weight, classes, least, accuracy, units, period, sphere, metadata, exist_ok, shared))]
    #[expect(clippy::too_many_arguments, reason = "keywords, all of them, in Python")]
    fn create(
        py: Python<'_>,
        location: &str,
        schema: &Schema,
        dimensions: Vec<(String, String, End, End)>,
        identity: Vec<String>,
        lookup: Vec<String>,
        capacity: Option<u32>,
        seed: u64,
        replication: Option<&str>,
        compression: Option<&str>,
        strata: Option<&str>,
        weight: Option<String>,
        classes: Vec<String>,
        least: Option<u32>,
        accuracy: Vec<(String, End)>,
        units: Vec<(String, String)>,
        period: Vec<(String, End)>,
        sphere: Option<[String; 2]>,
        metadata: &str,
        exist_ok: bool,
        shared: bool,
    ) -> PyResult<Table> {
        let (dimensions, metadata) = (with_domains(dimensions), from_json(py, metadata)?);
        let replication = policy(py, replication)?.unwrap_or_default();
        let compression = compression_of(py, compression)?.unwrap_or_default();
        let strata = strata_of(py, strata)?.unwrap_or_default();
        let options = TableOptions {
            dimensions,
            identity,
            lookup,
            capacity,
            seed,
            replication,
            compression,
            strata,
            sampling: (weight, classes, least).try_into().map_err(|error| exception(py, error))?,
            accuracy: named(accuracy),
            units,
            period: named(period),
            sphere,
            metadata,
            exist_ok,
            shared,
        };
        run(py, &Cancel::default(), || kubist::Table::create(location, schema.0.clone(), &options)).map(Table::new)
    }

    #[staticmethod]
    fn open(py: Python<'_>, location: &str) -> PyResult<Table> {
        run(py, &Cancel::default(), || kubist::Table::open(location)).map(Table::new)
    }

    fn fetch_missing(&self, py: Python<'_>, fetches: bool) -> PyResult<bool> {
        run(py, &Cancel::default(), || self.0.get()?.fetch_missing(fetches))
    }

    #[staticmethod]
    #[pyo3(signature = (location, *, force))]
    fn drop(py: Python<'_>, location: &str, force: bool) -> PyResult<String> {
        let cancel = Cancel::default();
        as_json(run(py, &cancel, || kubist::Table::drop_at(Location::from(location).cancelled_by(&cancel), force))?)
    }

    #[staticmethod]
    fn salvage(py: Python<'_>, location: &str, to: &str) -> PyResult<String> {
        let cancel = Cancel::default();
        as_json(run(py, &cancel, || kubist::Table::salvage(location, to, &cancel, &mut |_, _| {}))?)
    }

    /// `progress(done, total)` in rows.
    #[staticmethod]
    #[pyo3(signature = (path, to, *, progress))]
    fn unpack(py: Python<'_>, path: std::path::PathBuf, to: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let cancel = Cancel::default();
        let options = CopyOptions { cancel: cancel.clone(), ..CopyOptions::default() };
        as_json(run_with_progress(py, &cancel, progress, |tell| kubist::Table::unpack(&path, to, &options, tell))?)
    }

    fn location(&self) -> &str {
        self.0.location()
    }

    /// `split` is JSON.
    fn read_split(&self, py: Python<'_>, split: &str) -> PyResult<Stream> {
        let split: kubist::Split =
            serde_json::from_str(split).map_err(|error| invalid(py, &format!("not a split: {error}")))?;
        // Splits have no limit, so only the cancel switch of the query matters.
        let query = kubist::Request::default();
        let stream = run(py, &query.run.cancel, || self.0.get()?.cancelled_by(&query.run.cancel).read_split(&split))?;
        Ok(answer(self.0.location(), stream, &query))
    }

    /// `column` is a schema of one field; `default` is its value in existing rows.
    #[pyo3(signature = (column, *, default, unit, accuracy))]
    fn add_column(
        &self,
        py: Python<'_>,
        column: &Schema,
        default: End,
        unit: Option<String>,
        accuracy: End,
    ) -> PyResult<()> {
        let [field] = &column.0.fields()[..] else { return Err(invalid(py, "expected one column")) };
        let column = NewColumn {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            default: default.0.unwrap_or(Value::Null),
            unit,
            accuracy: accuracy.0,
        };
        let cancel = Cancel::default();
        run(py, &cancel, || self.0.get()?.cancelled_by(&cancel).add_column(&column))
    }

    /// In the form of the table's columns.
    fn accuracy(&self, py: Python<'_>, column: &str, bound: End) -> PyResult<String> {
        let bound = bound.0.unwrap_or(Value::Null);
        run(py, &Cancel::default(), || self.0.get()?.accuracy(column, &bound).map(|bound| bound.to_string()))
    }

    /// In the form of the description.
    fn period(&self, py: Python<'_>, column: &str, period: End) -> PyResult<String> {
        let period = period.0.unwrap_or(Value::Null);
        run(py, &Cancel::default(), || self.0.get()?.period(column, &period))
    }

    /// `values` is a JSON object; null removes a value.
    #[pyo3(signature = (values, *, column))]
    fn set_metadata(&self, py: Python<'_>, values: &str, column: Option<&str>) -> PyResult<()> {
        let values = from_json(py, values)?;
        run(py, &Cancel::default(), || self.0.get()?.set_metadata(column, &values))
    }

    /// Raises if this process may not use the handle.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.get().map(drop).map_err(|error| exception(py, error))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let snapshot = run(py, &Cancel::default(), || self.0.get()?.snapshot())?;
        Ok(Snapshot(ProcessBound::new(self.0.location(), snapshot)))
    }

    /// The result and its snapshot in one call, because each call waits for a thread.
    fn query(&self, py: Python<'_>, query: FromJson<Query>) -> PyResult<(Snapshot, Stream)> {
        let query = request(query.0, Cancel::default());
        let (snapshot, stream) = run(py, &query.run.cancel, || {
            let snapshot = self.0.get()?.snapshot()?;
            let stream = snapshot.query(&query)?;
            Ok((snapshot, stream))
        })?;
        let snapshot = Snapshot(ProcessBound::new(self.0.location(), snapshot));
        Ok((snapshot, answer(self.0.location(), stream, &query)))
    }

    fn at(&self, py: Python<'_>, token: &str) -> PyResult<Snapshot> {
        let cancel = Cancel::default();
        let snapshot = run(py, &cancel, || self.0.get()?.cancelled_by(&cancel).at(&token.parse::<SnapshotToken>()?))?;
        Ok(Snapshot(ProcessBound::new(self.0.location(), snapshot)))
    }

    #[pyo3(signature = (*, name, memory_bytes, optimize))]
    fn writer(
        &self,
        py: Python<'_>,
        name: Option<String>,
        memory_bytes: Option<usize>,
        optimize: bool,
    ) -> PyResult<Writer> {
        let cancel = Cancel::default();
        let options = WriterOptions { name, memory_bytes, optimize, cancel: cancel.clone() };
        let writer = run(py, &cancel, || self.0.get()?.writer(&options))?;
        Ok(Writer::new(self.0.location(), writer, cancel))
    }

    /// `queue` is the number of steps that may wait.
    #[pyo3(signature = (*, name, timeout, queue, keeping))]
    fn step_writer(
        &self,
        py: Python<'_>,
        name: Option<String>,
        timeout: f64,
        queue: usize,
        keeping: FromJson<KeepOptions>,
    ) -> PyResult<StepWriter> {
        Opening { table: &self.0, timeout, keeping: keeping.0 }.writer(py, name, queue)
    }

    /// A writer of steps through a ring in shared memory.
    #[pyo3(signature = (address, bytes, rank, *, timeout, keeping))]
    fn attach(
        &self,
        py: Python<'_>,
        address: usize,
        bytes: u64,
        rank: u32,
        timeout: f64,
        keeping: FromJson<KeepOptions>,
    ) -> PyResult<StepWriter> {
        let ring = shared(address, bytes, None).map_err(|failure| failed(py, &failure))?;
        Opening { table: &self.0, timeout, keeping: keeping.0 }.attached(py, ring, rank)
    }

    /// Creates such a ring, and commits its steps.
    #[pyo3(signature = (address, bytes, ranks, *, name, timeout, queue, dedicated))]
    #[expect(clippy::too_many_arguments, reason = "keywords, most of them, in Python")]
    fn leader(
        &self,
        py: Python<'_>,
        address: usize,
        bytes: u64,
        ranks: u32,
        name: String,
        timeout: f64,
        queue: usize,
        dedicated: bool,
    ) -> PyResult<Leader> {
        let ring = shared(address, bytes, Some(ranks)).map_err(|failure| failed(py, &failure))?;
        Opening { table: &self.0, timeout, keeping: KeepOptions::default() }.leader(py, ring, name, queue, dedicated)
    }

    /// `names` are the writers; without it, `count` different ones. With `after`, for the steps after it.
    #[pyo3(signature = (*, names, count, after))]
    fn declare_writers(
        &self,
        py: Python<'_>,
        names: Option<Vec<String>>,
        count: u64,
        after: Option<i64>,
    ) -> PyResult<()> {
        let declared = match names {
            Some(names) => Declared::Names(names.into_iter().collect()),
            None => Declared::Count(count),
        };
        run(py, &Cancel::default(), || match after {
            Some(after) => self.0.get()?.declare_writers_after(after, &declared),
            None => self.0.get()?.declare_writers(&declared),
        })
    }

    /// Waits until only the `count` writers of `kind` are active.
    #[pyo3(signature = (*, kind, count, timeout))]
    fn await_writers(&self, py: Python<'_>, kind: &str, count: u64, timeout: f64) -> PyResult<()> {
        run_with_timeout(py, &Cancel::default(), timeout, |patience| {
            kubist_insitu::await_other_writers(self.0.get()?, kind, count, patience)
        })
    }

    fn retract(&self, py: Python<'_>, step_after: i64) -> PyResult<String> {
        let cancel = Cancel::default();
        as_json(run(py, &cancel, || self.0.get()?.cancelled_by(&cancel).retract(step_after))?)
    }

    #[pyo3(signature = (*, debt_share, replication, recompress))]
    fn optimize(
        &self,
        py: Python<'_>,
        debt_share: f64,
        replication: Option<&str>,
        recompress: bool,
    ) -> PyResult<String> {
        let cancel = Cancel::default();
        let replication = policy(py, replication)?;
        let default = OptimizeOptions::default();
        let options = OptimizeOptions { debt_share, replication, recompress, cancel: cancel.clone(), ..default };
        as_json(run(py, &cancel, || self.0.get()?.optimize(&options, &mut |_, _| {}))?)
    }

    /// `progress(moved, left)` in rows.
    #[pyo3(signature = (*, dimensions, period, progress))]
    fn regrid(
        &self,
        py: Python<'_>,
        dimensions: Option<Vec<(String, String, End, End)>>,
        period: Vec<(String, End)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (dimensions, cancel) = (dimensions.map(with_domains), Cancel::default());
        let period = named(period);
        let options = GridOptions { dimensions, period, cancel: cancel.clone(), ..GridOptions::default() };
        as_json(run_with_progress(py, &cancel, progress, |tell| self.0.get()?.regrid(&options, tell))?)
    }

    /// Optimizes the regions where this process's queries are expensive.
    fn optimize_reads(&self, py: Python<'_>) -> PyResult<ReadOptimizer> {
        let optimizer = self.0.get().map(kubist::Table::optimize_reads).map_err(|error| exception(py, error))?;
        Ok(ReadOptimizer(ProcessBound::new(self.0.location(), Mutex::new(Some(optimizer)))))
    }

    #[pyo3(signature = (*, retention_seconds))]
    fn clean(&self, py: Python<'_>, retention_seconds: f64) -> PyResult<String> {
        let retention = Duration::try_from_secs_f64(retention_seconds)
            .map_err(|error| exception(py, kubist::Error::Invalid(format!("retention: {error}"))))?;
        as_json(run(py, &Cancel::default(), || self.0.get()?.clean(retention))?)
    }

    /// Applies to new runs.
    fn set_compression(&self, py: Python<'_>, compression: &str) -> PyResult<()> {
        let compression = compression_of(py, Some(compression))?.unwrap_or_default();
        run(py, &Cancel::default(), || self.0.get()?.set_compression(compression))
    }

    /// Applies to new runs.
    fn set_strata(&self, py: Python<'_>, strata: &str) -> PyResult<()> {
        let strata = strata_of(py, Some(strata))?.unwrap_or_default();
        run(py, &Cancel::default(), || self.0.get()?.set_strata(strata))
    }

    fn share(&self, py: Python<'_>) -> PyResult<()> {
        let cancel = Cancel::default();
        run(py, &cancel, || self.0.get()?.cancelled_by(&cancel).share())
    }

    /// `None` after the timeout.
    #[pyo3(signature = (seen, *, seconds, every))]
    fn wait(&self, py: Python<'_>, seen: &Snapshot, seconds: f64, every: f64) -> PyResult<Option<Snapshot>> {
        let cancel = Cancel::default();
        let every = Duration::try_from_secs_f64(every).unwrap_or(Duration::MAX / 4);
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4);
        let found = run(py, &cancel, || self.0.get()?.cancelled_by(&cancel).wait(seen.0.get()?, every, patience))?;
        Ok(found.map(|snapshot| Snapshot(ProcessBound::new(self.0.location(), snapshot))))
    }

    /// `deep` reads everything; `progress(done, total)` in bytes.
    #[pyo3(signature = (*, deep, progress))]
    fn verify(&self, py: Python<'_>, deep: bool, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let cancel = Cancel::default();
        let options = VerifyOptions { deep, cancel: cancel.clone() };
        as_json(run_with_progress(py, &cancel, progress, |tell| self.0.get()?.verify(&options, tell))?)
    }
}

fn from_json(py: Python<'_>, text: &str) -> PyResult<Metadata> {
    serde_json::from_str(text).map_err(|error| invalid(py, &format!("metadata: {error}")))
}

pub fn with_domains(dimensions: Vec<(String, String, End, End)>) -> Vec<Dimension> {
    let dimensions = dimensions.into_iter();
    dimensions.map(|(column, kind, low, high)| Dimension { column, domain: domain(&kind, low, high) }).collect()
}

fn as_json(report: impl serde::Serialize) -> PyResult<String> {
    Ok(serde_json::to_string(&report).expect("figures and names are valid JSON"))
}

impl Table {
    fn new(table: kubist::Table) -> Table {
        let location = table.location().to_owned();
        Table(ProcessBound::new(&location, table))
    }
}

fn domain(kind: &str, low: End, high: End) -> Domain {
    match (kind, low.0, high.0) {
        ("linear", Some(low), Some(high)) => Domain::Linear(low, high),
        ("quantile", ..) => Domain::Quantile,
        _ => Domain::Learned,
    }
}

#[pyclass(frozen, module = "kubist._kubist")]
pub struct Snapshot(ProcessBound<kubist::Snapshot>);

impl Snapshot {
    pub fn bound(&self) -> &ProcessBound<kubist::Snapshot> {
        &self.0
    }
}

#[pymethods]
impl Snapshot {
    fn location(&self) -> String {
        self.0.location().to_owned()
    }

    fn token(&self, py: Python<'_>) -> PyResult<String> {
        let snapshot = self.0.get().map_err(|error| exception(py, error))?;
        Ok(snapshot.token().to_string())
    }

    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        let snapshot = self.0.get().map_err(|error| exception(py, error))?;
        Ok(Schema(snapshot.schema()))
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<String> {
        as_json(self.0.get().map_err(|error| exception(py, error))?.metadata())
    }

    fn columns(&self, py: Python<'_>) -> PyResult<String> {
        as_json(self.0.get().map_err(|error| exception(py, error))?.columns())
    }

    /// `progress(done, total)` in rows.
    #[pyo3(signature = (location, *, dimensions, capacity, types, strata, period, progress))]
    #[expect(clippy::too_many_arguments, reason = "keywords, all of them, in Python")]
    fn copy_to(
        &self,
        py: Python<'_>,
        location: &str,
        dimensions: Option<Vec<(String, String, End, End)>>,
        capacity: Option<u32>,
        types: Vec<PyRef<'_, Schema>>,
        strata: Option<&str>,
        period: Vec<(String, End)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (dimensions, cancel) = (dimensions.map(with_domains), Cancel::default());
        let period = named(period);
        let columns = types.iter().flat_map(|column| column.0.fields());
        let types = columns.map(|field| (field.name().clone(), field.data_type().clone())).collect();
        let strata = strata_of(py, strata)?;
        let options = CopyOptions {
            dimensions,
            capacity,
            types,
            strata,
            period,
            cancel: cancel.clone(),
            ..CopyOptions::default()
        };
        as_json(run_with_progress(py, &cancel, progress, |tell| self.0.get()?.copy_to(location, &options, tell))?)
    }

    /// Protects snapshots since a time (milliseconds since 1970) from cleaning. Returns the name of the
    /// hold.
    fn hold(&self, py: Python<'_>, since: u64, seconds: f64) -> PyResult<String> {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|error| exception(py, kubist::Error::Invalid(format!("hold: {error}"))))?;
        run(py, &Cancel::default(), || self.0.get()?.hold(since, time))
    }

    fn release(&self, py: Python<'_>, hold: &str) -> PyResult<()> {
        run(py, &Cancel::default(), || self.0.get()?.release(hold))
    }

    /// `progress(done, total)` in rows.
    #[pyo3(signature = (path, *, progress))]
    fn pack(&self, py: Python<'_>, path: std::path::PathBuf, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let cancel = Cancel::default();
        let options = CopyOptions { cancel: cancel.clone(), ..CopyOptions::default() };
        as_json(run_with_progress(py, &cancel, progress, |tell| self.0.get()?.pack(&path, &options, tell))?)
    }

    fn at_step(&self, py: Python<'_>, step: i64) -> PyResult<Snapshot> {
        let snapshot = run(py, &Cancel::default(), || self.0.get()?.at_step(step))?;
        Ok(Snapshot(ProcessBound::new(self.0.location(), snapshot)))
    }

    /// Number of rows that any writer committed under a token.
    fn committed(&self, py: Python<'_>, token: &str) -> PyResult<Option<u64>> {
        run(py, &Cancel::default(), || Ok(self.0.get()?.committed(token)))
    }

    fn complete_steps(&self, py: Python<'_>) -> PyResult<Vec<i64>> {
        run(py, &Cancel::default(), || Ok(self.0.get()?.complete_steps()))
    }

    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        run(py, &Cancel::default(), || self.0.get()?.rows())
    }

    fn about(&self, py: Python<'_>) -> PyResult<String> {
        let about = run(py, &Cancel::default(), || self.0.get()?.about())?;
        Ok(serde_json::to_string(&about).expect("figures and names are valid JSON"))
    }

    fn info(&self, py: Python<'_>) -> PyResult<String> {
        let info = run(py, &Cancel::default(), || self.0.get()?.info())?;
        Ok(serde_json::to_string(&info).expect("figures and names are valid JSON"))
    }

    fn query(&self, py: Python<'_>, query: FromJson<Query>) -> PyResult<Stream> {
        let query = request(query.0, Cancel::default());
        let stream = run(py, &query.run.cancel, || self.0.get()?.query(&query))?;
        Ok(answer(self.0.location(), stream, &query))
    }

    /// The trajectories through the region of `through`, identified by the column `by`.
    fn trajectories(
        &self,
        py: Python<'_>,
        through: FromJson<Query>,
        by: &str,
        query: FromJson<Query>,
    ) -> PyResult<Stream> {
        let query = request(query.0, Cancel::default());
        let through = request(through.0, query.run.cancel.clone());
        let stream = run(py, &query.run.cancel, || self.0.get()?.trajectories(&through, by, &query))?;
        Ok(answer(self.0.location(), stream, &query))
    }

    /// The measured times of a query, and with a fitted model (JSON) also the predicted ones.
    fn explain(&self, py: Python<'_>, query: FromJson<Query>, fit: Option<&str>) -> PyResult<String> {
        let fitted: Option<kubist_model::Fitted> = fit
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| invalid(py, &format!("fit: not a file of `kubist model fit` ({error})")))?;
        let query = request(query.0, Cancel::default());
        let explanation = run(py, &query.run.cancel, || self.0.get()?.plan(&query)?.explain(fitted.as_ref()))?;
        as_json(&explanation)
    }

    fn splits(&self, py: Python<'_>, query: FromJson<Query>, parts: usize, by_host: bool) -> PyResult<Vec<String>> {
        let query = request(query.0, Cancel::default());
        let splits = run(py, &query.run.cancel, || match by_host {
            true => self.0.get()?.splits_by_host(&query, parts),
            false => self.0.get()?.splits(&query, parts),
        })?;
        splits.iter().map(as_json).collect()
    }

    /// The largest sample fraction of the query that a partial copy answers.
    fn held(&self, py: Python<'_>, query: FromJson<Query>) -> PyResult<f64> {
        let query = request(query.0, Cancel::default());
        run(py, &query.run.cancel, || self.0.get()?.held(&query))
    }

    fn count(&self, py: Python<'_>, query: FromJson<Query>) -> PyResult<u64> {
        let query = request(query.0, Cancel::default());
        run(py, &query.run.cancel, || self.0.get()?.count(&query))
    }

    fn estimate(&self, py: Python<'_>, request: FromJson<EstimateRequest>) -> PyResult<Figures> {
        let options = request.0.options(py)?;
        let cancel = options.run.cancel.clone();
        figures(py, &cancel, |tell| self.0.get()?.estimate(&options, tell))
    }

    fn estimates(&self, py: Python<'_>, request: FromJson<EstimateRequest>) -> PyResult<Estimates> {
        let options = request.0.options(py)?;
        let cancel = options.run.cancel.clone();
        let steps = run(py, &cancel, || self.0.get()?.estimates(&options))?;
        Ok(Estimates::new(self.0.location(), steps, cancel))
    }

    fn refine(&self, py: Python<'_>, query: FromJson<Query>, start: f64, factor: f64) -> PyResult<Refine> {
        let query = request(query.0, Cancel::default());
        let steps = run(py, &query.run.cancel, || self.0.get()?.refine(&query, start, factor))?;
        Ok(Refine::new(self.0.location(), steps, query))
    }
}
