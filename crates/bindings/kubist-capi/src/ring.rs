//! Rings in memory that the processes of a node share; kubist_mpi.h uses them.

use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use kubist_insitu::{Leader, Patience, Result, Ring, StepWriter};

use crate::hooks::{Call, Hooks};
use crate::log::tell;
use crate::options::{patient, Writing};
use crate::status::{guarded, KubistStatus};
use crate::table::{free, hand_handle_out, handle, no_handle, KubistTable};
use crate::text::json;
use crate::writer::KubistWriter;

/// Bytes of memory for `ranks` ranks with `lane_bytes` bytes each; UINT64_MAX if that overflows.
#[no_mangle]
pub extern "C" fn kubist_ring_bytes(ranks: u32, lane_bytes: u64) -> u64 {
    Ring::bytes_for(ranks, lane_bytes)
}

/// Informs the leader that rank `rank` has ended, unless it has closed its writer. A process that is about to
/// lose the memory calls it.
#[no_mangle]
pub unsafe extern "C" fn kubist_ring_leave(memory: *mut c_void, bytes: u64, rank: u32) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { Ring::find(memory.cast(), bytes) }?.leave_unclosed(rank)
    })
}

/// Commits the steps that the ranks of a node write into their ring.
pub struct KubistLeader {
    leader: Mutex<Leader>,
    stop: Arc<AtomicBool>,
    hooks: Hooks,
}

/// Creates a ring in `bytes` bytes of memory and starts the threads that commit its steps. The memory must stay
/// valid until the leader is closed. Other ranks may use it once this function has returned. The threads call
/// only Kubist and have low priority, unless "dedicated" is true. Options are those of a writer; "queue" is the
/// number of steps that may wait for their commit.
#[no_mangle]
pub unsafe extern "C" fn kubist_leader_start(
    table: *const KubistTable,
    options: *const c_char,
    memory: *mut c_void,
    bytes: u64,
    ranks: u32,
    leader: *mut *mut KubistLeader,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { no_handle(leader) }?;
        // SAFETY: as above.
        let (table, options): (_, Writing) = unsafe { (handle("table", table)?, json("options", options)?) };
        // SAFETY: as above.
        let ring = unsafe { Ring::make(memory.cast(), bytes, ranks) }?;
        let (options, stop) = (options.into_engine()?, Arc::new(AtomicBool::new(false)));
        let call = Call::of(&stop);
        let started = table.hooks.run(&call, || {
            let stopped = || call.is_stopped();
            Leader::start(&table.table, ring, &options, &Patience::new(options.timeout, &stopped))
        })?;
        let made = KubistLeader { leader: Mutex::new(started), stop, hooks: table.hooks.clone() };
        // SAFETY: as above.
        unsafe { hand_handle_out(leader, made) }
    })
}

/// Waits until all ranks have closed their writers and everything is durable; after an error of the leader,
/// until all ranks have closed or ended.
#[no_mangle]
pub unsafe extern "C" fn kubist_leader_close(leader: *mut KubistLeader, timeout_seconds: f64) -> KubistStatus {
    guarded!({
        if leader.is_null() {
            return Ok(());
        }
        let timeout = patient(timeout_seconds);
        // SAFETY: see lib.rs.
        let KubistLeader { leader: slot, stop, hooks } = unsafe { handle("leader", leader) }?;
        let call = Call::of(stop);
        let closed: Result<()> = hooks.run(&call, || {
            let stopped = || call.is_stopped();
            slot.lock().unwrap_or_else(PoisonError::into_inner).close(&Patience::new(timeout, &stopped))
        });
        // Reported without the lock, because the callback may call Kubist.
        let events = slot.lock().unwrap_or_else(PoisonError::into_inner).take_events();
        tell(events);
        let goes_on = |failure: &kubist_insitu::Failure| {
            matches!(failure.kind, kubist::ErrorKind::Busy | kubist::ErrorKind::Cancelled)
        };
        if !closed.as_ref().is_err_and(goes_on) {
            // SAFETY: as above.
            unsafe { free(leader) };
        }
        closed
    })
}

/// Ends a leader immediately: ranks that still write get an error, and queued steps are dropped.
#[no_mangle]
pub unsafe extern "C" fn kubist_leader_abort(leader: *mut KubistLeader) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { free(leader) };
        Ok(())
    })
}

/// Opens a writer of rank `rank` that writes into the ring of a node. The memory must stay valid until it is
/// closed. Of a writer's options, "timeout_seconds", "when_full" and the budget apply. Ended steps are queued.
/// The leader commits a step once all ranks have ended or abandoned it, and stops with an error if a rank skips
/// it.
#[no_mangle]
pub unsafe extern "C" fn kubist_writer_attach(
    table: *const KubistTable,
    options: *const c_char,
    memory: *mut c_void,
    bytes: u64,
    rank: u32,
    writer: *mut *mut KubistWriter,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { no_handle(writer) }?;
        // SAFETY: as above.
        let (table, options): (_, Writing) = unsafe { (handle("table", table)?, json("options", options)?) };
        let options = options.into_engine()?;
        // SAFETY: as above.
        let ring = unsafe { Ring::find(memory.cast(), bytes) }?;
        let attached = StepWriter::attach(&table.table, ring, rank, &options)?;
        let stop = Arc::new(AtomicBool::new(false));
        let made = KubistWriter::new(attached, options.timeout, stop, table.hooks.clone());
        // SAFETY: as above.
        unsafe { hand_handle_out(writer, made) }
    })
}
