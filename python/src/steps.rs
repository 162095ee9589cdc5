//! Steps of a running simulation, for `kubist.mpi`. An interrupt ends a writer or leader; durable steps
//! stay.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubist::{Cancel, Result};
use kubist_insitu::{BudgetOptions, Failure, Patience, Report, Ring, Share, StepOptions, WhenFull};
use pyo3::prelude::*;

use crate::arrow::{Incoming, unreadable};
use crate::call::run;
use crate::error::failed;
use crate::process_bound::ProcessBound;

type Shared<T> = ProcessBound<Mutex<T>>;

/// A writer that a panic made unusable reports it, so a poisoned lock is ignored.
fn lock<T>(shared: &Shared<T>) -> Result<MutexGuard<'_, T>> {
    Ok(shared.get()?.lock().unwrap_or_else(PoisonError::into_inner))
}

pub fn run_with_timeout<T: Send>(
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

fn options(name: Option<String>, timeout: f64, queue: usize, opening: &Opening<'_>, cancel: &Cancel) -> StepOptions {
    StepOptions {
        name,
        timeout: Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX),
        queue: (queue > 0).then_some(queue),
        when_full: opening.keeping.when_full,
        tokens: true,
        budget: BudgetOptions {
            rows_per_step: opening.keeping.budget_rows_per_step,
            bytes_per_step: opening.keeping.budget_bytes_per_step,
            bytes: opening.keeping.budget_bytes,
            steps: opening.keeping.budget_steps,
            always_keep: opening.keeping.always_keep.clone(),
            persist_when: opening.keeping.persist_when.clone(),
            whole_paths: opening.keeping.whole_paths,
            shared: true,
        },
        cancel: cancel.clone(),
        ..StepOptions::default()
    }
}

/// Writes steps alone, or as a rank of a node.
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
        run_with_timeout(py, &self.cancel, timeout, |patience| work(&mut *lock(&self.writer)?, patience))
    }
}

/// The options have the form of `kubist.mpi`.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeepOptions {
    when_full: WhenFull,
    budget_rows_per_step: Option<u64>,
    budget_bytes_per_step: Option<u64>,
    budget_bytes: Option<u64>,
    budget_steps: Option<u64>,
    always_keep: Option<String>,
    persist_when: Option<String>,
    whole_paths: Option<bool>,
}

pub struct Opening<'a> {
    pub table: &'a ProcessBound<kubist::Table>,
    pub timeout: f64,
    pub keeping: KeepOptions,
}

impl Opening<'_> {
    pub fn writer(self, py: Python<'_>, name: Option<String>, queue: usize) -> PyResult<StepWriter> {
        let cancel = Cancel::default();
        let options = options(name, self.timeout, queue, &self, &cancel);
        let Opening { table, timeout, .. } = self;
        let opened = run_with_timeout(py, &cancel, timeout, |patience| {
            kubist_insitu::StepWriter::open(table.get()?, &options, patience)
        })?;
        let writer = ProcessBound::new(table.location(), Mutex::new(opened));
        Ok(StepWriter { writer, cancel, timeout })
    }

    pub fn attached(self, py: Python<'_>, ring: Ring, rank: u32) -> PyResult<StepWriter> {
        let cancel = Cancel::default();
        let options = options(None, self.timeout, 0, &self, &cancel);
        let Opening { table, timeout, .. } = self;
        let opened = run_with_timeout(py, &cancel, timeout, |_| {
            kubist_insitu::StepWriter::attach(table.get()?, ring, rank, &options)
        })?;
        let writer = ProcessBound::new(table.location(), Mutex::new(opened));
        Ok(StepWriter { writer, cancel, timeout })
    }

    pub fn leader(self, py: Python<'_>, ring: Ring, name: String, queue: usize, dedicated: bool) -> PyResult<Leader> {
        let cancel = Cancel::default();
        let options = StepOptions { dedicated, ..options(Some(name), self.timeout, queue, &self, &cancel) };
        let Opening { table, timeout, .. } = self;
        let started = run_with_timeout(py, &cancel, timeout, |patience| {
            kubist_insitu::Leader::start(table.get()?, ring, &options, patience)
        })?;
        let leader = ProcessBound::new(table.location(), Mutex::new(Some(started)));
        Ok(Leader { leader, cancel })
    }
}

pub fn shared(address: usize, bytes: u64, ranks: Option<u32>) -> kubist_insitu::Result<Ring> {
    let base = address as *mut u8;
    // SAFETY: `kubist.mpi` keeps the window as long as the objects that use it.
    match ranks {
        Some(ranks) => unsafe { Ring::make(base, bytes, ranks) },
        // SAFETY: see above.
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

    /// The rows must have all columns. Returns their number.
    fn put(&self, py: Python<'_>, data: &Incoming) -> PyResult<u64> {
        let mut rows = 0;
        while let Some(batch) = py.detach(|| data.next()) {
            let batch = batch.map_err(|error| unreadable(py, &error))?;
            self.call(py, self.timeout, |writer, patience| writer.put_batch(&batch, patience))?;
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    }

    /// Returns the number of rows, and whether they are durable.
    fn end(&self, py: Python<'_>) -> PyResult<(u64, bool)> {
        let Report { rows, durable, .. } =
            self.call(py, self.timeout, |writer, patience| writer.end(None, patience))?;
        Ok((rows, durable))
    }

    /// This writer's part of the joint decision on a step: values to add up, and values to take the maximum
    /// of.
    fn share(&self, py: Python<'_>) -> PyResult<(Vec<u64>, Vec<f64>)> {
        let Share { words, largest } = self.call(py, self.timeout, |writer, _| writer.share())?;
        Ok((words, largest))
    }

    /// Ends the step with the sum of all parts, and returns the number of stored rows.
    fn settle(&self, py: Python<'_>, words: Vec<u64>, largest: Vec<f64>) -> PyResult<u64> {
        let settled = |writer: &mut kubist_insitu::StepWriter, patience: &Patience<'_>| {
            writer.settle(&words, &largest, None, patience)
        };
        Ok(self.call(py, self.timeout, settled)?.rows)
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

/// Commits the steps that the ranks of a node write into their ring.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Leader {
    leader: Shared<Option<kubist_insitu::Leader>>,
    cancel: Cancel,
}

#[pymethods]
impl Leader {
    /// Waits until all ranks have closed and everything is durable.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        run_with_timeout(py, &self.cancel, timeout, |patience| match &mut *lock(&self.leader)? {
            Some(leader) => leader.close(patience),
            None => Ok(()),
        })
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        run_with_timeout(py, &Cancel::default(), 0.0, |_| {
            drop(lock(&self.leader)?.take());
            Ok::<(), Failure>(())
        })
    }
}

/// The part of a writer that cannot end its step.
#[pyfunction]
pub fn failed_share() -> (Vec<u64>, Vec<f64>) {
    let Share { words, largest } = Share::failed();
    (words, largest)
}

/// Reports to the leader of a ring that a rank left without closing.
#[pyfunction]
pub fn ring_leave(py: Python<'_>, address: usize, bytes: u64, rank: u32) -> PyResult<()> {
    let left = shared(address, bytes, None).and_then(|ring| ring.leave_unclosed(rank));
    left.map_err(|failure| failed(py, &failure))
}

#[pyfunction]
pub fn ring_bytes(ranks: u32, lane_bytes: u64) -> u64 {
    Ring::bytes_for(ranks, lane_bytes)
}
