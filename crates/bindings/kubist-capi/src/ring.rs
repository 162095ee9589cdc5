//! Rings in memory that the processes of a node share: what kubist_mpi.h is made of.

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

/// The bytes of memory for `ranks` ranks with room for `lane_bytes` bytes of each; UINT64_MAX if
/// they are more than that.
#[no_mangle]
pub extern "C" fn kubist_ring_bytes(ranks: u32, lane_bytes: u64) -> u64 {
    Ring::bytes_for(ranks, lane_bytes)
}

/// Tells the leader of a ring that its rank `rank` comes no more, unless it has closed its writer: for a
/// process that is about to lose the memory.
#[no_mangle]
pub unsafe extern "C" fn kubist_ring_leave(memory: *mut c_void, bytes: u64, rank: u32) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { Ring::find(memory.cast(), bytes) }?.leave_unclosed(rank)
    })
}

/// Commits what the ranks of a node put into their ring.
pub struct KubistLeader {
    leader: Mutex<Leader>,
    stop: Arc<AtomicBool>,
    hooks: Hooks,
}

/// Makes a ring in `bytes` bytes of memory, which must stay until the leader is closed, and
/// starts the threads that commit what comes: they are of low priority, unless "dedicated" is true,
/// and call nothing but Kubist. Options are those of a writer; "queue" is how many steps may wait to be committed.
/// The other ranks may look at the memory once this has returned.
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
        // SAFETY: as the caller of the interface promises.
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

/// Waits until all ranks have closed their writers and everything is durable; if something has stopped the
/// leader, until all ranks have closed or ended. After
/// KUBIST_STATUS_BUSY and KUBIST_STATUS_CANCELLED it goes on, and can be closed again; otherwise
/// the handle is gone. A timeout below 0 is one of 0. Null is fine.
#[no_mangle]
pub unsafe extern "C" fn kubist_leader_close(leader: *mut KubistLeader, timeout_seconds: f64) -> KubistStatus {
    guarded!({
        if leader.is_null() {
            return Ok(());
        }
        let timeout = patient(timeout_seconds);
        // SAFETY: as the caller of the interface promises.
        let KubistLeader { leader: slot, stop, hooks } = unsafe { handle("leader", leader) }?;
        let call = Call::of(stop);
        let closed: Result<()> = hooks.run(&call, || {
            let stopped = || call.is_stopped();
            slot.lock().unwrap_or_else(PoisonError::into_inner).close(&Patience::new(timeout, &stopped))
        });
        // Told once the lock is free: who listens may call back.
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

/// Ends a leader at once: ranks that still write are told, and what is queued is dropped. Null
/// is fine.
#[no_mangle]
pub unsafe extern "C" fn kubist_leader_abort(leader: *mut KubistLeader) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { free(leader) };
        Ok(())
    })
}

/// Opens a writer that puts into the ring of a node, as its rank `rank`; the memory must stay until
/// it is closed. Options are those of a writer, of which "timeout_seconds", "when_full" and those of
/// a budget count.
/// A step that ended is queued: kubist_wait waits for the leader, which commits a step once all
/// ranks ended or abandoned it, and stops if one passes it by.
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
        // SAFETY: as the caller of the interface promises.
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
