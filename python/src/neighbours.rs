//! Searches of neighbours in a snapshot, with streams as results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use kubist::Cancel;
use kubist_neighbours::{
    Clusters, CrossMatch, Length, Linking, Nearest, Pairs, Points, Results, SearchRequest, Searched, Temporary, Within,
    counts,
};
use pyo3::prelude::*;

use crate::arrow::{Incoming, unreadable};
use crate::call::run;
use crate::error::exception;
use crate::json::FromJson;
use crate::process_bound::ProcessBound;
use crate::stream::{BatchSource, Stream};
use crate::table::Snapshot;

struct Search {
    schema: SchemaRef,
    cancel: Cancel,
    fraction: f64,
    rows: AtomicU64,
    results: ProcessBound<Mutex<Open>>,
}

struct Open {
    results: Box<dyn Results>,
    closed: bool,
}

fn stream(location: &str, fraction: Option<f64>, results: Box<dyn Results>) -> Stream {
    let (schema, cancel) = (results.schema(), results.cancel());
    let results = ProcessBound::new(location, Mutex::new(Open { results, closed: false }));
    Stream(Arc::new(Search { schema, cancel, fraction: fraction.unwrap_or(1.0), rows: AtomicU64::new(0), results }))
}

impl BatchSource for Search {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let batch = run(py, &self.cancel, || {
            let mut open = self.results.get()?.lock().unwrap_or_else(PoisonError::into_inner);
            let batch = if open.closed { None } else { open.results.batch()? };
            open.closed = batch.is_none();
            Ok(batch)
        })?;
        self.rows.fetch_add(batch.as_ref().map_or(0, |batch| batch.num_rows() as u64), Ordering::Relaxed);
        Ok(batch)
    }

    fn rows(&self, _py: Python<'_>) -> PyResult<u64> {
        Ok(self.rows.load(Ordering::Relaxed))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let stats = run(py, &Cancel::default(), || {
            Ok(self.results.get()?.lock().unwrap_or_else(PoisonError::into_inner).results.stats())
        })?;
        let stats = kubist::Stats { rows_returned: self.rows.load(Ordering::Relaxed), ..stats };
        Ok(serde_json::to_string(&stats).expect("numbers are valid JSON"))
    }

    fn fraction(&self, _py: Python<'_>) -> PyResult<f64> {
        Ok(self.fraction)
    }

    /// Stops the search, also while another thread reads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.cancel.set();
        let results = self.results.get().map_err(|error| exception(py, error))?;
        py.detach(|| results.lock().unwrap_or_else(PoisonError::into_inner).closed = true);
        Ok(())
    }
}

fn whole(py: Python<'_>, parts: &[PyRef<'_, Incoming>]) -> PyResult<RecordBatch> {
    let mut batches = Vec::new();
    for part in parts {
        while let Some(batch) = part.next() {
            batches.push(batch.map_err(|error| unreadable(py, &error))?);
        }
    }
    let schema = parts.first().map(|part| part.schema_ref()).unwrap_or_else(|| Arc::new(arrow_schema::Schema::empty()));
    concat_batches(&schema, &batches).map_err(|error| unreadable(py, &error))
}

#[pyfunction]
#[pyo3(signature = (snapshot, asked, points, *, k, radius))]
pub fn nearest(
    py: Python<'_>,
    snapshot: &Snapshot,
    asked: FromJson<SearchRequest>,
    points: Vec<PyRef<'_, Incoming>>,
    k: usize,
    radius: Option<FromJson<Length>>,
) -> PyResult<Stream> {
    let (asked, cancel, points) = (asked.0, Cancel::default(), whole(py, &points)?);
    let results = run(py, &cancel, || {
        let searched = Searched::new(snapshot.bound().get()?, &asked, &cancel)?;
        let most = radius.map(|radius| searched.radius("radius", &radius.0)).transpose()?;
        Nearest::new(&searched, Points::new(&searched, &points)?, k, most)
    })?;
    Ok(stream(snapshot.bound().location(), asked.query.sample, Box::new(results)))
}

#[pyfunction]
pub fn within(
    py: Python<'_>,
    snapshot: &Snapshot,
    asked: FromJson<SearchRequest>,
    points: Vec<PyRef<'_, Incoming>>,
    radius: FromJson<Length>,
) -> PyResult<Stream> {
    let (asked, cancel, points) = (asked.0, Cancel::default(), whole(py, &points)?);
    let results = run(py, &cancel, || {
        let searched = Searched::new(snapshot.bound().get()?, &asked, &cancel)?;
        let radius = searched.radius("radius", &radius.0)?;
        Within::new(&searched, Points::new(&searched, &points)?, radius)
    })?;
    Ok(stream(snapshot.bound().location(), asked.query.sample, Box::new(results)))
}

#[pyfunction]
pub fn pairs(
    py: Python<'_>,
    snapshot: &Snapshot,
    asked: FromJson<SearchRequest>,
    radius: FromJson<Length>,
) -> PyResult<Stream> {
    let (asked, cancel) = (asked.0, Cancel::default());
    let results = run(py, &cancel, || {
        let searched = Searched::new(snapshot.bound().get()?, &asked, &cancel)?;
        Pairs::new(&searched, searched.radius("radius", &radius.0)?)
    })?;
    Ok(stream(snapshot.bound().location(), asked.query.sample, Box::new(results)))
}

/// Rows with the labels of their clusters.
#[pyfunction]
#[pyo3(signature = (snapshot, asked, radius, *, least, members))]
pub fn clusters(
    py: Python<'_>,
    snapshot: &Snapshot,
    asked: FromJson<SearchRequest>,
    radius: FromJson<Length>,
    least: usize,
    members: u64,
) -> PyResult<Stream> {
    let (asked, cancel) = (asked.0, Cancel::default());
    let results = run(py, &cancel, || {
        let searched = Searched::new(snapshot.bound().get()?, &asked, &cancel)?;
        let radius = searched.radius("radius", &radius.0)?;
        Clusters::new(&searched, Linking { radius, least, least_members: members })
    })?;
    Ok(stream(snapshot.bound().location(), asked.query.sample, Box::new(results)))
}

/// Pairs of rows in bins of distance, as JSON.
#[pyfunction]
pub fn pair_counts(
    py: Python<'_>,
    snapshot: &Snapshot,
    asked: FromJson<SearchRequest>,
    edges: FromJson<Vec<Length>>,
) -> PyResult<String> {
    let cancel = Cancel::default();
    let counts = run(py, &cancel, || {
        let searched = Searched::new(snapshot.bound().get()?, &asked.0, &cancel)?;
        counts(&searched, &edges.0)
    })?;
    Ok(serde_json::to_string(&counts).expect("numbers are valid JSON"))
}

/// Matches with another table, or with data that becomes a temporary table.
#[pyfunction]
#[pyo3(signature = (snapshot, asked, other, data, asked_of_other, radius, *, best))]
#[expect(clippy::too_many_arguments, reason = "both tables")]
pub fn crossmatch(
    py: Python<'_>,
    snapshot: &Snapshot,
    asked: FromJson<SearchRequest>,
    other: Option<&Snapshot>,
    data: Vec<PyRef<'_, Incoming>>,
    asked_of_other: FromJson<SearchRequest>,
    radius: FromJson<Length>,
    best: Option<usize>,
) -> PyResult<Stream> {
    let (asked, theirs, cancel) = (asked.0, asked_of_other.0, Cancel::default());
    let mut temporary = None;
    if let Some(first) = data.first() {
        let names = theirs.sphere.as_ref().map(|names| names.to_vec()).or(theirs.on.clone()).unwrap_or_default();
        let schema = first.schema_ref();
        let mut table = run(py, &cancel, || Temporary::new(schema, &names, &cancel))?;
        for part in &data {
            while let Some(batch) = part.next() {
                let batch = batch.map_err(|error| unreadable(py, &error))?;
                run(py, &cancel, || table.append(&batch))?;
            }
        }
        temporary = Some(table);
    }
    let results = run(py, &cancel, || {
        let searched = Searched::new(snapshot.bound().get()?, &asked, &cancel)?;
        let radius = searched.radius("radius", &radius.0)?;
        let second = match (&mut temporary, other) {
            (Some(table), _) => table.snapshot()?,
            (None, Some(other)) => other.bound().get()?.clone(),
            (None, None) => return Err(kubist::Error::invalid("other: no data to match")),
        };
        let second = Searched::new(&second, &theirs, &cancel)?;
        Ok(CrossMatch::new(&searched, &second, radius, best)?.keeping(temporary.take()))
    })?;
    Ok(stream(snapshot.bound().location(), asked.query.sample, Box::new(results)))
}
