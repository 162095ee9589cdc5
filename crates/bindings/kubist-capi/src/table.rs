//! Tables: made, opened, dropped, told who writes to them, taken back to a step.

use std::ffi::c_char;

use kubist::Table;
use kubist_insitu::{Failure, Level, Patience, Result, await_other_writers};

use crate::hooks::{Call, Hooks, KubistHooks};
use crate::log::tell;
use crate::options::{Altering, Create, Dropping, Optimizing, Own, Writers};
use crate::status::{KubistStatus, guarded};
use crate::text::{hand_out, json, set, text};

/// An open table. Threads may share it; each process opens its own.
pub struct KubistTable {
    pub(crate) table: Table,
    pub(crate) hooks: Hooks,
}

/// The handle behind a pointer; `what` names the argument.
///
/// # Safety
///
/// It is null, or was handed out and not closed.
pub unsafe fn handle<'a, T>(what: &str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{what} is null")))
}

/// Takes a handle back.
///
/// # Safety
///
/// As of [`handle`]; it is not used again.
pub unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: it was handed out by `hand_handle_out`.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Writes null to where a handle is wanted: after a failure there is none.
///
/// # Errors
///
/// `Invalid` if there is no place for it.
///
/// # Safety
///
/// `out` is null or can be written.
pub unsafe fn no_handle<T>(out: *mut *mut T) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { set(out, "the place for the handle", std::ptr::null_mut()) }
}

/// Hands a handle out, to a place that [`no_handle`] has looked at.
///
/// # Safety
///
/// `out` can be written.
pub unsafe fn hand_handle_out<T>(out: *mut *mut T, handle: T) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { set(out, "the place for the handle", Box::into_raw(Box::new(handle))) }
}

/// Makes a table at a location, a directory or cassandra://hosts/keyspace/table, or opens the
/// one that is there, if it agrees. Options: {"columns": {"x": "f64", ...}, "dimensions":
/// {"x": [0, 1], "y": null}, "identity": [...], ...}; docs/simulations.md lists them.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_create(
    location: *const c_char,
    options: *const c_char,
    table: *mut *mut KubistTable,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { no_handle(table) }?;
        // SAFETY: as above.
        let (location, options): (&str, Create) = unsafe { (text("location", location)?, json("options", options)?) };
        let (schema, options) = options.into_engine()?;
        let made = Table::create(location, schema, &options)?;
        let units = options.units.iter().map(|(column, unit)| (column.as_str(), unit.as_str()));
        tell(
            kubist::unit_notes(units).into_iter().map(|note| (Level::Warning, format!("{location}: {note}"))).collect(),
        );
        // SAFETY: as above.
        unsafe { hand_handle_out(table, KubistTable { table: made, hooks: Hooks::default() }) }
    })
}

/// Opens the table at a location.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_open(location: *const c_char, table: *mut *mut KubistTable) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { no_handle(table) }?;
        // SAFETY: as above.
        let opened = Table::open(unsafe { text("location", location) }?)?;
        // SAFETY: as above.
        unsafe { hand_handle_out(table, KubistTable { table: opened, hooks: Hooks::default() }) }
    })
}

/// Closes a table. Writers that were opened through it go on. Null is fine.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_close(table: *mut KubistTable) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { free(table) };
        Ok(())
    })
}

/// Deletes the table at a location. Options: {"force": true} although a writer is at work.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_drop(location: *const c_char, options: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (location, options): (&str, Dropping) = unsafe { (text("location", location)?, json("options", options)?) };
        Table::drop_at(location, options.force)?;
        Ok(())
    })
}

/// Sets the callbacks of the long calls through this table and what is opened through it
/// afterwards. They are called on threads that call Kubist, while they do. Null takes them away.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_set_hooks(table: *const KubistTable, hooks: *const KubistHooks) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { handle("table", table)?.hooks.set(hooks) }
    })
}

/// Says which writers a step is to be of: questions with "steps" see it once all of them ended
/// or abandoned it. {"count": 4}, or {"names": ["rank-0", ...]}; said once, or again the same.
/// {"count": 2, "after": 5} says it anew of the steps after 5: a solver goes on from its checkpoint
/// with another number of processes. Later steps are taken back before.
#[no_mangle]
pub unsafe extern "C" fn kubist_declare_writers(table: *const KubistTable, writers: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (table, writers): (_, Writers) = unsafe { (handle("table", table)?, json("writers", writers)?) };
        let after = writers.after;
        let declared = writers.declared()?;
        match after {
            Some(after) => table.table.declare_writers_after(after, &declared)?,
            None => table.table.declare_writers(&declared)?,
        }
        Ok(())
    })
}

/// Waits until none of the writers rank-0, rank-1, ... and node-0, ... is at work but the caller's own,
/// {"kind": "rank", "count": 4}: before a solver that starts again with fewer of them takes steps
/// back, those of the old attempt have ended. At most for "timeout_seconds", 60.
#[no_mangle]
pub unsafe extern "C" fn kubist_await_writers(table: *const KubistTable, own: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (table, own): (_, Own) = unsafe { (handle("table", table)?, json("own", own)?) };
        let (call, timeout) = (Call::default(), own.timeout()?);
        table.hooks.run(&call, || {
            let stopped = || call.is_stopped();
            await_other_writers(&table.table, &own.kind, own.count, &Patience::new(timeout, &stopped))
        })
    })
}

/// Takes back every step after `step`, of all writers: a solver that starts again from a
/// checkpoint goes on from there. Stop the writers of the old attempt first. `rows`, if it is
/// not null, is told how many rows went.
#[no_mangle]
pub unsafe extern "C" fn kubist_retract_after(table: *const KubistTable, step: i64, rows: *mut u64) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let table = unsafe { handle("table", table) }?;
        let call = Call::default();
        let retracted = table.hooks.run(&call, || Ok(table.table.retract(step, &call.cancel())?))?;
        match rows.is_null() {
            true => Ok(()),
            // SAFETY: as above.
            false => unsafe { set(rows, "rows", retracted.rows) },
        }
    })
}

/// Changes settings of the table, {"compression": "small", "shared": true}: the compression of what is
/// written from now on (kubist_optimize with "recompress" rewrites the rest), and whether several machines write to it.
#[no_mangle]
pub unsafe extern "C" fn kubist_alter(table: *const KubistTable, settings: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (table, settings): (_, Altering) = unsafe { (handle("table", table)?, json("settings", settings)?) };
        if let Some(compression) = settings.compression()? {
            table.table.set_compression(compression)?;
        }
        if settings.shared {
            table.table.share()?;
        }
        Ok(())
    })
}

/// Improves the layout, so that questions read less. Options: {"debt_share": 0.1, "replication":
/// "none", "recompress": true}. `report`, if it is not null, is given JSON, for kubist_string_free.
#[no_mangle]
pub unsafe extern "C" fn kubist_optimize(
    table: *const KubistTable,
    options: *const c_char,
    report: *mut *mut c_char,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let (table, options): (_, Optimizing) = unsafe { (handle("table", table)?, json("options", options)?) };
        let call = Call::default();
        let mut options = options.into_engine()?;
        options.cancel = call.cancel();
        let optimized = table.hooks.run(&call, || {
            Ok(table.table.optimize(&options, &mut |done, left| call.tell(done, done.saturating_add(left)))?)
        })?;
        match report.is_null() {
            true => Ok(()),
            // SAFETY: as above.
            false => unsafe { hand_out(report, &optimized) },
        }
    })
}

/// What the table is and holds, as JSON, for kubist_string_free.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_info(table: *const KubistTable, info: *mut *mut c_char) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let table = unsafe { handle("table", table) }?;
        let call = Call::default();
        let known = table.hooks.run(&call, || Ok(table.table.snapshot()?.info_with(&call.cancel())?))?;
        // SAFETY: as above.
        unsafe { hand_out(info, &known) }
    })
}

/// The last step that every declared writer ended or abandoned. `found` is 0 if there is none.
#[no_mangle]
pub unsafe extern "C" fn kubist_last_step(table: *const KubistTable, step: *mut i64, found: *mut i32) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let last = unsafe { handle("table", table) }?.table.snapshot()?.complete_steps().last().copied();
        // SAFETY: as above.
        unsafe {
            set(step, "step", last.unwrap_or_default())?;
            set(found, "found", i32::from(last.is_some()))
        }
    })
}
