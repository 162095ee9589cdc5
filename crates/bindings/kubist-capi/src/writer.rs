//! Writers: begin a step, put its columns, end it.

use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use kubist_insitu::{Failure, Kind, Patience, Report, Result, StepWriter, Values};

use crate::arrow::incoming;
use crate::hooks::{cancel, Call, Hooks};
use crate::log::tell;
use crate::options::{patient, seconds, Ending, Writing};
use crate::status::{guarded, KubistStatus};
use crate::table::{hand_handle_out, handle, no_handle, KubistTable};
use crate::text::{json, text};

/// The types of values.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubistType {
    F32 = 1,
    F64 = 2,
    I32 = 3,
    I64 = 4,
    U8 = 5,
    /// One byte each; any value but 0 is true.
    Bool = 6,
}

const TYPES: [(KubistType, Kind); 6] = [
    (KubistType::F32, Kind::F32),
    (KubistType::F64, Kind::F64),
    (KubistType::I32, Kind::I32),
    (KubistType::I64, Kind::I64),
    (KubistType::U8, Kind::U8),
    (KubistType::Bool, Kind::Bool),
];

/// A writer of steps. One step is open at a time.
pub struct KubistWriter {
    writer: Mutex<StepWriter>,
    pub(crate) timeout: Duration,
    stop: Arc<AtomicBool>,
    hooks: Hooks,
}

/// The outcome of a step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KubistReport {
    /// sizeof(KubistReport)
    pub size: u64,
    pub step: i64,
    pub rows: u64,
    /// Bytes written, if the step is durable.
    pub bytes: u64,
    /// Duration of the commit, if the step is durable.
    pub seconds: f64,
    /// 1: it survives a crash. 0: it is queued, and kubist_wait waits for it.
    pub durable: i32,
    /// 1: its token was already committed, so nothing was written.
    pub repeated: i32,
}

impl KubistWriter {
    pub(crate) fn new(writer: StepWriter, timeout: Duration, stop: Arc<AtomicBool>, hooks: Hooks) -> KubistWriter {
        KubistWriter { writer: Mutex::new(writer), timeout, stop, hooks }
    }

    /// A poisoned lock is usable, because a writer in an invalid state returns errors itself.
    fn lock(&self) -> MutexGuard<'_, StepWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn call<T: Send>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&mut StepWriter, &Patience<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let call = Call::of(&self.stop);
        let done = self.hooks.run(&call, || {
            let stopped = || call.is_stopped();
            let patience = Patience::new(timeout, &stopped);
            work(&mut self.lock(), &patience)
        });
        // Reported without the lock, because the callback may call Kubist.
        let events = self.lock().take_events();
        tell(events);
        done
    }
}

/// Opens a writer, and waits for another one of the same name. Options: {"name": "rank-3", "timeout_seconds":
/// 60, "queue": 2, ...}. Without a queue, a step is durable when it ends.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_open(
    table: *const KubistTable,
    options: *const c_char,
    writer: *mut *mut KubistWriter,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { no_handle(writer) }?;
        // SAFETY: as above.
        let (table, options): (_, Writing) = unsafe { (handle("table", table)?, json("options", options)?) };
        let mut options = options.into_engine()?;
        let stop = Arc::new(AtomicBool::new(false));
        // A callback cancels only the waiting call; queued steps are still committed.
        if options.queue.is_none() {
            options.cancel = cancel(&stop);
        }
        let call = Call::of(&stop);
        let opened = table.hooks.run(&call, || {
            let stopped = || call.is_stopped();
            StepWriter::open(&table.table, &options, &Patience::new(options.timeout, &stopped))
        })?;
        let made = KubistWriter::new(opened, options.timeout, stop, table.hooks.clone());
        // SAFETY: as above.
        unsafe { hand_handle_out(writer, made) }
    })
}

/// Begins a step. Step numbers must increase, which is checked here if steps are queued, otherwise at the end
/// of the step.
#[no_mangle]
pub unsafe extern "C" fn kubist_begin_step(writer: *const KubistWriter, step: i64) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let writer = unsafe { handle("writer", writer) }?;
        writer.call(writer.timeout, |writer, _| writer.begin(step))
    })
}

/// Copies a column of the step: `count` values of `type`, a KubistType, at a distance of `stride` bytes; 0
/// means contiguous.
#[no_mangle]
pub unsafe extern "C" fn kubist_put(
    writer: *const KubistWriter,
    column: *const c_char,
    r#type: i32,
    values: *const c_void,
    count: u64,
    stride: u64,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (writer, column) = unsafe { (handle("writer", writer)?, text("column", column)?) };
        let kind = TYPES.iter().find(|(number, _)| *number as i32 == r#type).map(|(_, kind)| *kind);
        let kind =
            kind.ok_or_else(|| Failure::invalid(format!("column {column:?}: {} is not a KubistType", r#type)))?;
        let named = |failure: Failure| Failure { message: format!("column {column:?}: {failure}"), ..failure };
        // SAFETY: as above.
        let values = unsafe { Values::from_raw(kind, values.cast(), count, stride) }.map_err(named)?;
        writer.call(writer.timeout, |writer, patience| writer.put(column, values, patience))
    })
}

/// Adds rows with all columns: a struct array of Arrow's C data interface, which the writer owns afterwards,
/// also after an error, unless a pointer is null. The caller keeps the schema.
#[no_mangle]
pub unsafe extern "C" fn kubist_put_arrow(
    writer: *const KubistWriter,
    schema: *mut FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (batch, writer) = unsafe { (incoming(schema, array)?, handle("writer", writer)?) };
        writer.call(writer.timeout, |writer, patience| writer.put_batch(&batch, patience))
    })
}

/// Writes the fields that this version knows; the struct of a newer program may be larger.
///
/// # Safety
///
/// `out` is null or points to as many bytes as its size field states.
pub(crate) unsafe fn report(out: *mut KubistReport, of: &Report) -> Result<()> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: the size is the first field of every version.
    let size = unsafe { out.cast::<u64>().read() };
    if size < size_of::<KubistReport>() as u64 {
        let wanted = size_of::<KubistReport>();
        return Err(Failure::invalid(format!("KubistReport: size is {size}, and must be {wanted} at least")));
    }
    let whole = KubistReport {
        size,
        step: of.step,
        rows: of.rows,
        bytes: of.bytes,
        seconds: of.seconds,
        durable: i32::from(of.durable),
        repeated: i32::from(of.repeated),
    };
    // SAFETY: the size check shows that all fields exist.
    unsafe { out.write(whole) };
    Ok(())
}

/// Ends the step, which is then durable or queued. If a column is missing, or the queue is full, the step stays
/// open; after another error the table has none of it. Options: {"token": "..."} names the commit, so that a
/// second attempt counts once. `report` may be null.
#[no_mangle]
pub unsafe extern "C" fn kubist_end_step(
    writer: *const KubistWriter,
    options: *const c_char,
    report: *mut KubistReport,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (writer, options): (_, Ending) = unsafe { (handle("writer", writer)?, json("options", options)?) };
        // SAFETY: as above. An invalid report is refused before anything is written.
        unsafe { self::report(report, &Report::default()) }?;
        let done = writer.call(writer.timeout, |writer, patience| writer.end(options.token.as_deref(), patience))?;
        // SAFETY: as above.
        unsafe { self::report(report, &done) }
    })
}

/// Discards the rows of the step, and records in the table that this writer has none for it.
#[no_mangle]
pub unsafe extern "C" fn kubist_abandon_step(writer: *const KubistWriter) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let writer = unsafe { handle("writer", writer) }?;
        writer.call(writer.timeout, |writer, patience| writer.abandon(patience).map(drop))
    })
}

/// Waits until all ended steps up to `step` are durable; INT64_MAX waits for all.
#[no_mangle]
pub unsafe extern "C" fn kubist_wait(writer: *const KubistWriter, step: i64, timeout_seconds: f64) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let writer = unsafe { handle("writer", writer) }?;
        let timeout = seconds("timeout_seconds", timeout_seconds)?;
        writer.call(timeout, |writer, patience| writer.wait(step, patience))
    })
}

/// Waits for queued steps, and closes the writer; an open step is discarded.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_close(writer: *mut KubistWriter, timeout_seconds: f64) -> KubistStatus {
    guarded!({
        if writer.is_null() {
            return Ok(());
        }
        let timeout = patient(timeout_seconds);
        // SAFETY: see lib.rs.
        let closed = unsafe { handle("writer", writer) }?.call(timeout, StepWriter::close);
        let goes_on =
            |failure: &Failure| matches!(failure.kind, kubist::ErrorKind::Busy | kubist::ErrorKind::Cancelled);
        if !closed.as_ref().is_err_and(goes_on) {
            // SAFETY: as above.
            unsafe { crate::table::free(writer) };
        }
        closed
    })
}

/// Closes the writer immediately: queued steps are dropped, as if the process had ended.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_abort(writer: *mut KubistWriter) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { crate::table::free(writer) };
        Ok(())
    })
}
