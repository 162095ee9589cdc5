//! Tables: create, open, drop, declare writers, retract steps.

use std::ffi::c_char;

use kubist::Table;
use kubist_insitu::{await_other_writers, Failure, Level, Patience, Result};

use crate::hooks::{Call, Hooks, KubistHooks};
use crate::log::tell;
use crate::options::{Altering, Create, Dropping, Optimizing, Own, Writers};
use crate::status::{guarded, KubistStatus};
use crate::text::{hand_out, json, set, text};

/// An open table. Threads may share it; each process opens its own.
pub struct KubistTable {
    pub(crate) table: Table,
    pub(crate) hooks: Hooks,
}

/// # Safety
///
/// The pointer is null, or a handle that is not closed.
pub unsafe fn handle<'a, T>(what: &str, pointer: *const T) -> Result<&'a T> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{what} is null")))
}

/// # Safety
///
/// As [`handle`]; it is not used again.
pub unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: `hand_handle_out` created it.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Sets an output handle to null, which it stays after an error.
///
/// # Errors
///
/// `Invalid` if `out` is null.
///
/// # Safety
///
/// `out` is null or writable.
pub unsafe fn no_handle<T>(out: *mut *mut T) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { set(out, "the pointer to the handle", std::ptr::null_mut()) }
}

/// # Safety
///
/// [`no_handle`] has checked that `out` is writable.
pub unsafe fn hand_handle_out<T>(out: *mut *mut T, handle: T) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { set(out, "the pointer to the handle", Box::into_raw(Box::new(handle))) }
}

/// Creates a table at a location (a directory or cassandra://hosts/keyspace/table), or opens an existing one
/// with the same definition. docs/simulations.md lists the options: {"columns": {"x": "f64", ...},
/// "dimensions": {"x": [0, 1], "y": null}, "identity": [...], ...}.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_create(
    location: *const c_char,
    options: *const c_char,
    table: *mut *mut KubistTable,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { no_handle(table) }?;
        // SAFETY: as above.
        let (location, options): (&str, Create) = unsafe { (text("location", location)?, json("options", options)?) };
        let (schema, options) = options.into_engine()?;
        let made = Table::create(location, schema, &options)?;
        let units = options.units.iter().map(|(column, unit)| (column.as_str(), unit.as_str()));
        tell(
            kubist_expr::unit_notes(units)
                .into_iter()
                .map(|note| (Level::Warning, format!("{location}: {note}")))
                .collect(),
        );
        // SAFETY: as above.
        unsafe { hand_handle_out(table, KubistTable { table: made, hooks: Hooks::default() }) }
    })
}

/// Opens the table at a location.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_open(location: *const c_char, table: *mut *mut KubistTable) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { no_handle(table) }?;
        // SAFETY: as above.
        let opened = Table::open(unsafe { text("location", location) }?)?;
        // SAFETY: as above.
        unsafe { hand_handle_out(table, KubistTable { table: opened, hooks: Hooks::default() }) }
    })
}

/// Closes a table. Its writers continue.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_close(table: *mut KubistTable) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { free(table) };
        Ok(())
    })
}

/// Deletes the table at a location; {"force": true} also while a writer is active.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_drop(location: *const c_char, options: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (location, options): (&str, Dropping) = unsafe { (text("location", location)?, json("options", options)?) };
        Table::drop_at(location, options.force)?;
        Ok(())
    })
}

/// Sets the callbacks of long calls through this table and of handles opened through it afterwards. Null
/// removes them.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_set_hooks(table: *const KubistTable, hooks: *const KubistHooks) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { handle("table", table)?.hooks.set(hooks) }
    })
}

/// Declares the writers of each step: {"count": 4}, or {"names": ["rank-0", ...]}. Queries with "steps" see a
/// step once all its writers have ended or abandoned it. Repeated calls must declare the same. {"count": 2,
/// "after": 5} declares other writers for the steps after 5, when a solver restarts from a checkpoint with
/// another number of processes; retract the later steps first.
#[no_mangle]
pub unsafe extern "C" fn kubist_declare_writers(table: *const KubistTable, writers: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
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

/// Waits until no writer rank-0, rank-1, ... or node-0, ... is active except the caller's own, {"kind": "rank",
/// "count": 4}; up to "timeout_seconds", by default 60. A restarted solver calls it before it retracts steps,
/// so that the old writers have ended.
#[no_mangle]
pub unsafe extern "C" fn kubist_await_writers(table: *const KubistTable, own: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (table, own): (_, Own) = unsafe { (handle("table", table)?, json("own", own)?) };
        let (call, timeout) = (Call::default(), own.timeout()?);
        table.hooks.run(&call, || {
            let stopped = || call.is_stopped();
            await_other_writers(&table.table, &own.kind, own.count, &Patience::new(timeout, &stopped))
        })
    })
}

/// Retracts every step after `step`, of all writers, so that a restarted solver continues there. Stop the old
/// writers first. `rows`, if not null, receives the number of retracted rows.
#[no_mangle]
pub unsafe extern "C" fn kubist_retract_after(table: *const KubistTable, step: i64, rows: *mut u64) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let table = unsafe { handle("table", table) }?;
        let call = Call::default();
        let retracted = table.hooks.run(&call, || Ok(table.table.cancelled_by(&call.cancel()).retract(step)?))?;
        match rows.is_null() {
            true => Ok(()),
            // SAFETY: as above.
            false => unsafe { set(rows, "rows", retracted.rows) },
        }
    })
}

/// Changes settings: {"compression": "small", "strata": "windows", "shared": true}. Compression and strata
/// apply to new data (kubist_optimize with "recompress" rewrites the rest); "shared" lets several machines
/// write.
#[no_mangle]
pub unsafe extern "C" fn kubist_alter(table: *const KubistTable, settings: *const c_char) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let (table, settings): (_, Altering) = unsafe { (handle("table", table)?, json("settings", settings)?) };
        if let Some(compression) = settings.compression()? {
            table.table.set_compression(compression)?;
        }
        if let Some(strata) = settings.strata()? {
            table.table.set_strata(strata)?;
        }
        if settings.shared {
            table.table.share()?;
        }
        Ok(())
    })
}

/// Improves the layout, so that queries read less. Options: {"debt_share": 0.1, "replication": "none",
/// "recompress": true}. `report`, if not null, receives JSON.
#[no_mangle]
pub unsafe extern "C" fn kubist_optimize(
    table: *const KubistTable,
    options: *const c_char,
    report: *mut *mut c_char,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
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

/// Describes the table as JSON: columns, sizes, layout.
#[no_mangle]
pub unsafe extern "C" fn kubist_table_info(table: *const KubistTable, info: *mut *mut c_char) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let table = unsafe { handle("table", table) }?;
        let call = Call::default();
        let known = table.hooks.run(&call, || Ok(table.table.cancelled_by(&call.cancel()).snapshot()?.info()?))?;
        // SAFETY: as above.
        unsafe { hand_out(info, &known) }
    })
}

/// The last step that every declared writer has ended or abandoned; `found` is 0 if there is none.
#[no_mangle]
pub unsafe extern "C" fn kubist_last_step(table: *const KubistTable, step: *mut i64, found: *mut i32) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let last = unsafe { handle("table", table) }?.table.snapshot()?.complete_steps().last().copied();
        // SAFETY: as above.
        unsafe {
            set(step, "step", last.unwrap_or_default())?;
            set(found, "found", i32::from(last.is_some()))
        }
    })
}
