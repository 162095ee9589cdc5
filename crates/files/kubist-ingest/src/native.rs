//! The source for Parquet, Arrow, CSV and NPZ files, which do not say which columns are positions. Text is read in the
//! types of the table. A new table gets types that fit all files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use kubist::{Cancel, Metadata};
use kubist_files::{Input, fit, known_as};
use serde_json::Value;

use crate::error::Result;
use crate::report::Parts;
use crate::source::{Facts, IngestedSteps, Source, State, Step};

/// The longest delay of an interrupt while a file gives no rows.
const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum bytes of a file's metadata.
const MOST_BYTES: usize = 1 << 16;
pub const LABEL: &str = "rows";

pub struct Native {
    input: Input,
    facts: Facts,
    left_out: Parts,
    /// The column of time, if the user gives the time.
    lacking: Option<String>,
    cancel: Cancel,
    is_started: bool,
    rows: Option<Rows>,
    consumed: Arc<AtomicU64>,
}

struct Rows {
    schema: SchemaRef,
    batches: Receiver<kubist_files::Result<RecordBatch>>,
    next_row: u64,
}

impl Native {
    pub fn new(input: Input, has_time: bool, cancel: &Cancel) -> Native {
        let mut facts = Facts::new(&input.path, input.format());
        facts.schema = fit::storable_schema(&input);
        facts.bytes = input.bytes;
        let mut left_out = Parts::default();
        for (name, why) in &input.left_out {
            left_out.set(name, why.clone());
        }
        let said = input.metadata();
        if said.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MOST_BYTES {
            left_out.set("metadata", "they are too long for the metadata of a table".to_owned());
        } else if !said.is_empty() {
            let said = said.into_iter().map(|(name, value)| (name, Value::String(value)));
            facts.metadata = Metadata::from([(facts.format.clone(), Value::Object(said.collect()))]);
        }
        let lacking = has_time.then(|| "time".to_owned());
        let (cancel, consumed) = (cancel.clone(), Arc::default());
        Native { input, facts, left_out, lacking, cancel, is_started: false, rows: None, consumed }
    }

    /// The columns of the table and the file's other columns, without added columns that the file lacks.
    fn wanted(&self, state: &State) -> Schema {
        let is_here = |field: &Field| self.facts.schema.field_with_name(field.name()).is_ok();
        let may_lack = |name: &String| state.added.contains(name) || self.lacking.as_ref() == Some(name);
        let known = state.schema.fields().iter().filter(|field| is_here(field) || !may_lack(field.name()));
        let is_new = |field: &&Arc<Field>| state.schema.field_with_name(field.name()).is_err();
        let late = self.facts.schema.fields().iter().filter(is_new);
        Schema::new(known.chain(late).cloned().collect::<Vec<_>>())
    }
}

impl Source for Native {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn key(&self) -> Result<String> {
        Ok(known_as(&self.input.path)?)
    }

    fn left_out(&mut self) -> Result<Parts> {
        Ok(self.left_out.clone())
    }

    fn leave_out(&mut self, name: &str, why: &str) -> Result<()> {
        self.left_out.set(name, why.to_owned());
        Ok(())
    }

    fn joins(&mut self, _: &Metadata) -> Result<Metadata> {
        Ok(Metadata::new())
    }

    fn start(&mut self, _: &IngestedSteps) -> Result<()> {
        self.is_started = false;
        self.consumed.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        let part = self.input.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_first = !std::mem::replace(&mut self.is_started, true);
        Ok(is_first.then(|| Step { label: LABEL.to_owned(), part, ..Step::default() }))
    }

    fn begin(&mut self, state: &State) -> Result<()> {
        let wanted = self.wanted(state);
        let needed = state.needed.iter().filter(|name| self.lacking.as_ref() != Some(name));
        fit::check(&self.input, &wanted, &needed.cloned().collect::<Vec<_>>())?;
        let schema = fit::in_units_of(&self.input, &wanted, &[]);
        let batches = self.input.read(schema.fields(), self.consumed.clone());
        self.rows = Some(Rows { schema, batches, next_row: 1 });
        Ok(())
    }

    fn next_rows(&mut self, _: &mut State) -> Result<Option<RecordBatch>> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        loop {
            self.cancel.check()?;
            match rows.batches.recv_timeout(PATIENCE) {
                Ok(batch) => {
                    let batch = fit::fitted(&self.input.path, &batch?, &rows.schema, rows.next_row)?;
                    rows.next_row += batch.num_rows() as u64;
                    return Ok(Some(batch));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.rows = None;
                    return Ok(None);
                }
            }
        }
    }

    fn input(&self) -> Option<&Input> {
        Some(&self.input)
    }

    fn bytes_read(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed).min(self.input.bytes)
    }
}
