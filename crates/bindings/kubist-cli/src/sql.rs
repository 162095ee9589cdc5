//! `kubist sql`: runs SQL on tables with Polars or DuckDB.
//!
//! A child process, `python3 -m kubist._sql_command`, runs the query and sends its result as an Arrow stream on its
//! standard output. This command writes the result in the formats of `kubist query`. Ctrl-C kills the child process.

use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use kubist::{Cancel, Metadata};
use serde_json::json;

use crate::answer::{Delivery, Shown};
use crate::args;
use crate::external::{ended, errors_of, package};
use crate::failure::{Failure, Result};
use crate::output::{print_json, remark, remark_raw};
use kubist_types::human;

/// The interval at which a wait checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(20);

pub fn run(command: &args::Sql, cancel: &Cancel) -> Result<()> {
    let begin = Instant::now();
    let delivery = Delivery::new(&command.output, None)?;
    let (python, module) = package("SQL", "kubist._sql_command")?;
    let others = command.others.iter().map(|(name, location)| (name.clone(), json!(location)));
    let asked = json!({
        "table": &*command.table,
        "query": command.query,
        "engine": command.engine.name(),
        "tables": others.collect::<serde_json::Map<_, _>>(),
    });
    let mut started = Command::new(&python);
    started.args(["-m", &module, &asked.to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = started.spawn().map_err(|error| Failure::io(&python, &error))?;
    let errors = errors_of(&mut child);
    let mut running = Running { child: Some((child, errors)) };
    let (schema, receiver) = match running.begin(cancel)? {
        Some(begun) => begun,
        None => return Err(running.failure()),
    };
    let mut rows = 0;
    let mut batches = std::iter::from_fn(|| {
        let batch = running.next(&receiver, cancel).transpose()?;
        rows += batch.as_ref().map_or(0, RecordBatch::num_rows);
        Some(batch)
    });
    let shown = delivery.write(&schema, &mut batches, &Metadata::default(), cancel)?;
    let seconds = begin.elapsed().as_secs_f64();
    match shown {
        Shown::First(most) => remark(&format!("the first {most} rows; -o FILE writes all")),
        Shown::All if !command.output.json => {
            remark(&format!("{} in {}", human::counted(rows as u64, "row"), human::duration(seconds)))
        }
        Shown::All => {
            let cost = json!({ "rows_returned": rows, "seconds": seconds });
            match command.output.path() {
                Some(_) => print_json(&cost)?,
                None => remark_raw(&cost.to_string()),
            }
        }
    }
    Ok(())
}

/// A message from the thread that reads the Arrow stream.
enum Sent {
    Schema(SchemaRef),
    Batch(RecordBatch),
}

/// The child process, which is killed on drop.
struct Running {
    /// With the thread that reads its standard error; `None` once the process has ended.
    child: Option<(Child, JoinHandle<String>)>,
}

impl Running {
    /// Starts to read the result and waits for its columns. Returns `None` if the process sent no valid stream.
    fn begin(&mut self, cancel: &Cancel) -> Result<Option<(SchemaRef, Receiver<Result<Sent, ArrowError>>)>> {
        let Some(output) = self.child.as_mut().and_then(|(child, _)| child.stdout.take()) else { return Ok(None) };
        let (sender, receiver) = sync_channel(2);
        // A separate thread reads, because a blocked read would not notice Ctrl-C.
        std::thread::spawn(move || match StreamReader::try_new(BufReader::new(output), None) {
            Err(error) => drop(sender.send(Err(error))),
            Ok(reader) => {
                let _ = sender.send(Ok(Sent::Schema(reader.schema())));
                let _ = reader.map(|batch| batch.map(Sent::Batch)).try_for_each(|batch| sender.send(batch));
            }
        });
        match wait(&receiver, cancel)? {
            Some(Ok(Sent::Schema(schema))) => Ok(Some((schema, receiver))),
            _ => Ok(None),
        }
    }

    /// Returns the next batch, or `None` if the process ended successfully.
    fn next(&mut self, receiver: &Receiver<Result<Sent, ArrowError>>, cancel: &Cancel) -> Result<Option<RecordBatch>> {
        match wait(receiver, cancel)? {
            Some(Ok(Sent::Batch(batch))) => Ok(Some(batch)),
            Some(_) => Err(self.failure()),
            None => {
                let failure = self.failure();
                if failure.message.is_empty() { Ok(None) } else { Err(failure) }
            }
        }
    }

    /// Waits for the end of the process and returns its error; the message is empty after success.
    fn failure(&mut self) -> Failure {
        match self.child.take() {
            Some((child, errors)) => ended(child, errors, "the Python package could not run this query"),
            None => Failure::usage(""),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.child.take() {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Waits for the next message; `None` at the end of the stream.
fn wait<T>(receiver: &Receiver<T>, cancel: &Cancel) -> Result<Option<T>> {
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(sent) => return Ok(Some(sent)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if cancel.is_set() => return Err(Failure::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
