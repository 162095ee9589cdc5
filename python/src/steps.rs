//! Steps of a running simulation: what `kubist.mpi` is made of.
//!
//! Neither a writer nor a leader survives an interrupt: what is durable stays.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubist::{Cancel, Result};
use kubist_insitu::{Failure, Patience, Report, Ring, StepOptions, WhenFull};
use pyo3::prelude::*;

use crate::arrow::{Incoming, unreadable};
use crate::call::run;
use crate::error::failed;
use crate::process_bound::ProcessBound;

/// A handle that threads share.
type Shared<T> = ProcessBound<Mutex<T>>;

/// A poisoned lock only means that a panic passed by: a writer that it left unfit says so.
fn lock<T>(shared: &Shared<T>) -> Result<MutexGuard<'_, T>> {
    Ok(shared.get()?.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Calls what may wait, until an interrupt or the timeout.
fn waiting<T: Send>(
    py: Python<'_>,
    cancel: &Cancel,
    timeout: f64,
    work: impl FnOnce(&Patience<'_>) -> kubist_insitu::Result<T> + Send,
) -> PyResult<T> {
    let done = run(py, cancel, || {
        let stopped = || cancel.is_set();
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
        Ok(work(&Patience::new(timeout, &stopped)))
    })?;
    done.map_err(|failure| failed(py, &failure))
}

/// Options of a writer of steps.
fn options(name: Option<String>, timeout: f64, queue: usize, fail: bool, cancel: &Cancel) -> StepOptions {
    StepOptions {
        name,
        timeout: Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX),
        queue: (queue > 0).then_some(queue),
        when_full: if fail { WhenFull::Fail } else { WhenFull::Block },
        tokens: true,
        cancel: cancel.clone(),
        ..StepOptions::default()
    }
}

/// Writes steps, on its own or as a rank of a node.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct StepWriter {
    writer: Shared<kubist_insitu::StepWriter>,
    cancel: Cancel,
    timeout: f64,
}

impl StepWriter {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        timeout: f64,
        work: impl FnOnce(&mut kubist_insitu::StepWriter, &Patience<'_>) -> kubist_insitu::Result<T> + Send,
    ) -> PyResult<T> {
        waiting(py, &self.cancel, timeout, |patience| work(&mut *lock(&self.writer)?, patience))
    }
}

/// How a table's steps are written.
pub struct Opening<'a> {
    pub table: &'a ProcessBound<kubist::Table>,
    pub timeout: f64,
    pub fail: bool,
}

impl Opening<'_> {
    pub fn writer(self, py: Python<'_>, name: Option<String>, queue: usize) -> PyResult<StepWriter> {
        let Opening { table, timeout, fail } = self;
        let cancel = Cancel::default();
        let options = options(name, timeout, queue, fail, &cancel);
        let opened = waiting(py, &cancel, timeout, |patience| {
            kubist_insitu::StepWriter::open(table.get()?, &options, patience)
        })?;
        let writer = ProcessBound::new(table.location(), Mutex::new(opened));
        Ok(StepWriter { writer, cancel, timeout })
    }

    pub fn attached(self, py: Python<'_>, ring: Ring, rank: u32) -> PyResult<StepWriter> {
        let Opening { table, timeout, fail } = self;
        let cancel = Cancel::default();
        let when_full = if fail { WhenFull::Fail } else { WhenFull::Block };
        let opened =
            waiting(py, &cancel, timeout, |_| kubist_insitu::StepWriter::attach(table.get()?, ring, rank, when_full))?;
        let writer = ProcessBound::new(table.location(), Mutex::new(opened));
        Ok(StepWriter { writer, cancel, timeout })
    }

    pub fn leader(self, py: Python<'_>, ring: Ring, name: String, queue: usize) -> PyResult<Leader> {
        let Opening { table, timeout, .. } = self;
        let cancel = Cancel::default();
        let options = options(Some(name), timeout, queue, false, &cancel);
        let started = waiting(py, &cancel, timeout, |patience| {
            kubist_insitu::Leader::start(table.get()?, ring, &options, patience)
        })?;
        let leader = ProcessBound::new(table.location(), Mutex::new(Some(started)));
        Ok(Leader { leader, cancel })
    }
}

/// Memory that processes share, by its address.
pub fn shared(address: usize, bytes: u64, ranks: Option<u32>) -> kubist_insitu::Result<Ring> {
    let base = address as *mut u8;
    // SAFETY: `kubist.mpi` keeps the window as long as what was opened with it.
    match ranks {
        Some(ranks) => unsafe { Ring::make(base, bytes, ranks) },
        // SAFETY: as above.
        None => unsafe { Ring::find(base, bytes) },
    }
}

#[pymethods]
impl StepWriter {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, self.timeout, |writer, _| Ok(writer.name().to_owned()))
    }

    fn begin(&self, py: Python<'_>, step: i64) -> PyResult<()> {
        self.call(py, self.timeout, |writer, _| writer.begin(step))
    }

    /// Copies rows that have all columns; how many.
    fn put(&self, py: Python<'_>, data: &Incoming) -> PyResult<u64> {
        let mut rows = 0;
        while let Some(batch) = py.detach(|| data.next()) {
            let batch = batch.map_err(|error| unreadable(py, &error))?;
            self.call(py, self.timeout, |writer, patience| writer.put_batch(&batch, patience))?;
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    }

    /// Rows, and whether they are durable.
    fn end(&self, py: Python<'_>) -> PyResult<(u64, bool)> {
        let Report { rows, durable, .. } =
            self.call(py, self.timeout, |writer, patience| writer.end(None, patience))?;
        Ok((rows, durable))
    }

    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, self.timeout, |writer, patience| writer.abandon(patience).map(drop))
    }

    fn wait(&self, py: Python<'_>, step: i64, timeout: f64) -> PyResult<()> {
        self.call(py, timeout, |writer, patience| writer.wait(step, patience))
    }

    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.call(py, timeout, kubist_insitu::StepWriter::close)
    }
}

/// Commits what the ranks of a node put into their ring.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Leader {
    leader: Shared<Option<kubist_insitu::Leader>>,
    cancel: Cancel,
}

#[pymethods]
impl Leader {
    /// Waits until all ranks have closed and everything is durable.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        waiting(py, &self.cancel, timeout, |patience| match &mut *lock(&self.leader)? {
            Some(leader) => leader.close(patience),
            None => Ok(()),
        })
    }

    /// Ends it at once.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        waiting(py, &Cancel::default(), 0.0, |_| {
            drop(lock(&self.leader)?.take());
            Ok::<(), Failure>(())
        })
    }
}

/// The bytes of memory for so many ranks.
#[pyfunction]
pub fn ring_bytes(ranks: u32, lane_bytes: u64) -> u64 {
    Ring::bytes_for(ranks, lane_bytes)
}
