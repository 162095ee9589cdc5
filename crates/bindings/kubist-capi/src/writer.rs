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
    /// A byte each; anything but 0 is true.
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

/// A writer of steps. One step is begun at a time.
pub struct KubistWriter {
    writer: Mutex<StepWriter>,
    pub(crate) timeout: Duration,
    stop: Arc<AtomicBool>,
    hooks: Hooks,
}

/// What became of a step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KubistReport {
    /// sizeof(KubistReport)
    pub size: u64,
    pub step: i64,
    pub rows: u64,
    /// Written, where the step is durable.
    pub bytes: u64,
    /// That the commit took, where the step is durable.
    pub seconds: f64,
    /// 1: it survives a crash. 0: it is queued, and kubist_wait waits for it.
    pub durable: i32,
    /// 1: its token was known: it had been written before, and was not again.
    pub repeated: i32,
}

impl KubistWriter {
    pub(crate) fn new(writer: StepWriter, timeout: Duration, stop: Arc<AtomicBool>, hooks: Hooks) -> KubistWriter {
        KubistWriter { writer: Mutex::new(writer), timeout, stop, hooks }
    }

    /// A poisoned lock only means that a panic passed by: a writer that it left unfit says so.
    fn lock(&self) -> MutexGuard<'_, StepWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the writer, and tells what has happened meanwhile.
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
        // Told once the lock is free: who listens may call back.
        let events = self.lock().take_events();
        tell(events);
        done
    }
}

/// Opens a writer. Options: {"name": "rank-3", "timeout_seconds": 60, "queue": 2, ...}; without
/// a queue a step is durable when it ends. Another writer of the name is waited for.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_open(
    table: *const KubistTable,
    options: *const c_char,
    writer: *mut *mut KubistWriter,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { no_handle(writer) }?;
        // SAFETY: as above.
        let (table, options): (_, Writing) = unsafe { (handle("table", table)?, json("options", options)?) };
        let mut options = options.into_engine()?;
        let stop = Arc::new(AtomicBool::new(false));
        // What is queued is committed, whatever a callback says of a call that waits.
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

/// Begins a step. Steps go up: a lower one is refused here where steps are queued, otherwise when
/// it ends.
#[no_mangle]
pub unsafe extern "C" fn kubist_begin_step(writer: *const KubistWriter, step: i64) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let writer = unsafe { handle("writer", writer) }?;
        writer.call(writer.timeout, |writer, _| writer.begin(step))
    })
}

/// Copies a column of the step: `count` values of `type`, a KubistType, which begin `stride`
/// bytes apart; 0 says that they lie side by side. When it returns the memory may be reused.
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
        // SAFETY: as the caller of the interface promises.
        let (writer, column) = unsafe { (handle("writer", writer)?, text("column", column)?) };
        let kind = TYPES.iter().find(|(number, _)| *number as i32 == r#type).map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| Failure::invalid(format!("column {column:?}: {} is no KubistType", r#type)))?;
        let named = |failure: Failure| Failure { message: format!("column {column:?}: {failure}"), ..failure };
        // SAFETY: as above.
        let values = unsafe { Values::from_raw(kind, values.cast(), count, stride) }.map_err(named)?;
        writer.call(writer.timeout, |writer, patience| writer.put(column, values, patience))
    })
}

/// Takes rows that have all columns, a struct array of Arrow's C data interface. The array is
/// taken over, also where it is refused, unless a pointer is null; the schema stays the caller's.
#[no_mangle]
pub unsafe extern "C" fn kubist_put_arrow(
    writer: *const KubistWriter,
    schema: *mut FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (batch, writer) = unsafe { (incoming(schema, array)?, handle("writer", writer)?) };
        writer.call(writer.timeout, |writer, patience| writer.put_batch(&batch, patience))
    })
}

/// Writes the report that this version knows; a newer program may have room for more.
///
/// # Safety
///
/// `out` is null or leads to as many bytes as it says.
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
    // SAFETY: all of it is there.
    unsafe { out.write(whole) };
    Ok(())
}

/// Ends the step: it is durable, or queued. While a column is missing, or the queue is full, it
/// stays begun; after another failure nothing of it is in the table. Options: {"token": "..."}
/// names the commit, so that a second attempt counts once. `report` may be null.
#[no_mangle]
pub unsafe extern "C" fn kubist_end_step(
    writer: *const KubistWriter,
    options: *const c_char,
    report: *mut KubistReport,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (writer, options): (_, Ending) = unsafe { (handle("writer", writer)?, json("options", options)?) };
        // SAFETY: as above. A place that does not fit is refused before anything is written.
        unsafe { self::report(report, &Report::default()) }?;
        let done = writer.call(writer.timeout, |writer, patience| writer.end(options.token.as_deref(), patience))?;
        // SAFETY: as above.
        unsafe { self::report(report, &done) }
    })
}

/// Forgets what was put in the step, and says in the table that this writer has nothing for it.
#[no_mangle]
pub unsafe extern "C" fn kubist_abandon_step(writer: *const KubistWriter) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let writer = unsafe { handle("writer", writer) }?;
        writer.call(writer.timeout, |writer, patience| writer.abandon(patience).map(drop))
    })
}

/// Waits until all steps up to `step` that were ended are durable; INT64_MAX waits for all.
#[no_mangle]
pub unsafe extern "C" fn kubist_wait(writer: *const KubistWriter, step: i64, timeout_seconds: f64) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let writer = unsafe { handle("writer", writer) }?;
        let timeout = seconds("timeout_seconds", timeout_seconds)?;
        writer.call(timeout, |writer, patience| writer.wait(step, patience))
    })
}

/// Waits for what is queued, and closes the writer; a step that is begun is forgotten. After
/// KUBIST_STATUS_BUSY and KUBIST_STATUS_CANCELLED it goes on, and can be closed again; otherwise
/// the handle is gone. A timeout below 0 is one of 0. Null is fine.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_close(writer: *mut KubistWriter, timeout_seconds: f64) -> KubistStatus {
    guarded!({
        if writer.is_null() {
            return Ok(());
        }
        let timeout = patient(timeout_seconds);
        // SAFETY: as the caller of the interface promises.
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

/// Closes the writer at once: what is queued is dropped, as if the process had ended. Null is fine.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_abort(writer: *mut KubistWriter) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { crate::table::free(writer) };
        Ok(())
    })
}
