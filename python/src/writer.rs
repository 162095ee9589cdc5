//! Writers: append rows and commit them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use kubist::{Cancel, CommitOptions, Error, Result};
use pyo3::prelude::*;

use crate::arrow::{Incoming, unreadable};
use crate::call::{run, run_to_end};
use crate::error::exception;
use crate::process_bound::ProcessBound;

/// An interrupt ends the writer: pending rows are lost, commits stay.
#[pyclass(frozen, module = "kubist._kubist")]
pub struct Writer {
    name: String,
    cancel: Cancel,
    state: ProcessBound<Mutex<State>>,
}

struct State {
    writer: Option<kubist::Writer>,
    /// An append failed after some of its rows were added.
    torn: bool,
}

impl Writer {
    pub fn new(location: &str, writer: kubist::Writer, cancel: Cancel) -> Writer {
        let name = writer.name().to_owned();
        let state = State { writer: Some(writer), torn: false };
        Writer { name, cancel, state: ProcessBound::new(location, Mutex::new(state)) }
    }

    /// A writer that a panic made unusable reports it, so a poisoned lock is ignored.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        Ok(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Accesses the state without the interpreter lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> T + Send) -> PyResult<T> {
        py.detach(|| Ok(work(&mut *self.state()?))).map_err(|error| exception(py, error))
    }
}

#[pymethods]
impl Writer {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn pending_rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| state.writer.as_ref().map_or(0, kubist::Writer::pending_rows))
    }

    /// Adds `data` to the next commit. After an error some rows may have been added: see `tear`.
    fn append(&self, py: Python<'_>, data: &Incoming) -> PyResult<()> {
        // Reading may run Python code, so it stays on the caller's thread.
        let first = match py.detach(|| data.next()) {
            Some(first) => first,
            // Data without rows must also have the right columns.
            None => Ok(RecordBatch::new_empty(data.schema_ref())),
        };
        let mut next = Some(first);
        while let Some(batch) = next {
            let batch = batch.map_err(|error| unreadable(py, &error))?;
            run(py, &self.cancel, || self.state()?.open()?.append(&batch))?;
            next = py.detach(|| data.next());
        }
        Ok(())
    }

    /// Writes pending rows as runs of the next commit.
    fn lay_out(&self, py: Python<'_>) -> PyResult<()> {
        run(py, &self.cancel, || self.state()?.open()?.lay_out())
    }

    /// Makes the appended rows durable and visible, as a whole. Returns the commit as JSON.
    #[pyo3(signature = (*, step, token))]
    fn commit(&self, py: Python<'_>, step: Option<i64>, token: Option<String>) -> PyResult<String> {
        let options = CommitOptions { step, token };
        let ended = run_to_end(py, &self.cancel, || self.state()?.open()?.commit_as(&options), || {});
        if let Some(interrupt) = ended.interrupt {
            if ended.result.is_ok() {
                let note = "the commit completed before the interrupt: its rows are in the table";
                interrupt.value(py).call_method1("add_note", (note,))?;
            }
            return Err(interrupt);
        }
        Ok(serde_json::to_string(&ended.result?).expect("figures and names are valid JSON"))
    }

    /// `None` for an unused token.
    fn committed(&self, py: Python<'_>, token: &str) -> PyResult<Option<u64>> {
        run(py, &self.cancel, || self.state()?.open()?.committed(token))
    }

    /// The last step that this writer committed or abandoned.
    fn last_step(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, &self.cancel, || self.state()?.open()?.last_step())
    }

    /// Claims work that must enter the table once (such as a file), and replaces the previous claim.
    fn take_on(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        run(py, &self.cancel, || self.state()?.open()?.take_on(what))
    }

    fn give_back(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            if let Some(writer) = &mut state.writer {
                writer.give_back();
            }
        })
    }

    /// Declares that this writer has no rows for a step. Returns the commit as JSON.
    fn abandon(&self, py: Python<'_>, step: i64) -> PyResult<String> {
        let committed = run(py, &self.cancel, || self.state()?.open()?.abandon(step))?;
        Ok(serde_json::to_string(&committed).expect("figures and names are valid JSON"))
    }

    /// Marks an append that failed after some rows were added. The writer raises until they are discarded.
    fn tear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| state.torn = true)
    }

    /// Discards the rows since the last commit.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.torn = false;
            if let Some(writer) = &mut state.writer {
                writer.discard();
            }
        })
    }

    /// Discards pending rows and releases the writer's log.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| state.writer = None)
    }
}

impl State {
    fn open(&mut self) -> Result<&mut kubist::Writer> {
        if self.torn {
            return Err(Error::Refused(
                "the last append failed after some of its rows were added: call discard() first".into(),
            ));
        }
        match &mut self.writer {
            Some(writer) => Ok(writer),
            None => Err(Error::Refused("this writer is closed".into())),
        }
    }
}
