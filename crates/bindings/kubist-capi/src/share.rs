//! Steps that several writers end together, within one budget; kubist_mpi_end_step uses them.

use std::ffi::c_char;

use kubist_insitu::{Failure, Result, Share, SHARE_LARGEST, SHARE_WORDS};

use crate::options::Ending;
use crate::status::{guarded, KubistStatus};
use crate::table::handle;
use crate::text::json;
use crate::writer::{report, KubistReport, KubistWriter};

/// Number of words in a writer's share of a step, to sum over all writers.
pub const KUBIST_SHARE_WORDS: u64 = 7436;
/// Number of values in a share, to combine by their maximum over all writers.
pub const KUBIST_SHARE_LARGEST: u64 = 8;

const _: () = assert!(KUBIST_SHARE_WORDS as usize == SHARE_WORDS && KUBIST_SHARE_LARGEST as usize == SHARE_LARGEST);

/// # Errors
///
/// `Invalid` if one is null.
///
/// # Safety
///
/// Each is null, or points to the number of values in the constants.
unsafe fn numbers<'a>(words: *const u64, largest: *const f64) -> Result<(&'a [u64], &'a [f64])> {
    if words.is_null() || largest.is_null() {
        return Err(Failure::invalid("the pointer to the share of a step is null"));
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { (std::slice::from_raw_parts(words, SHARE_WORDS), std::slice::from_raw_parts(largest, SHARE_LARGEST)) })
}

/// Returns this writer's share in the decision about the open step, which then accepts no more columns:
/// KUBIST_SHARE_WORDS words to sum over all writers, and KUBIST_SHARE_LARGEST values to combine by their
/// maximum. Also after an error, include the share: it informs the others that this writer cannot end the step.
#[no_mangle]
pub unsafe extern "C" fn kubist_step_share(
    writer: *const KubistWriter,
    words: *mut u64,
    largest: *mut f64,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        unsafe { numbers(words, largest) }?;
        let write = |share: &Share| {
            // SAFETY: they are not null, and point to enough values.
            unsafe {
                std::ptr::copy_nonoverlapping(share.words.as_ptr(), words, SHARE_WORDS);
                std::ptr::copy_nonoverlapping(share.largest.as_ptr(), largest, SHARE_LARGEST);
            }
        };
        write(&Share::failed());
        // SAFETY: as above.
        let writer = unsafe { handle("writer", writer) }?;
        write(&writer.call(writer.timeout, |writer, _| writer.share())?);
        Ok(())
    })
}

/// Ends the step with the combined shares of all writers; its rows within the budget are then durable or
/// queued. Options and report are those of kubist_end_step, with which to end the step after
/// KUBIST_STATUS_BUSY. If another writer cannot end the step, this returns KUBIST_STATUS_UNAVAILABLE and the
/// step stays open.
#[no_mangle]
pub unsafe extern "C" fn kubist_step_settle(
    writer: *const KubistWriter,
    words: *const u64,
    largest: *const f64,
    options: *const c_char,
    report: *mut KubistReport,
) -> KubistStatus {
    guarded!({
        // SAFETY: see lib.rs.
        let ((words, largest), writer) = unsafe { (numbers(words, largest)?, handle("writer", writer)?) };
        // SAFETY: as above.
        let options: Ending = unsafe { json("options", options) }?;
        // SAFETY: as above. An invalid report is refused before anything is written.
        unsafe { self::report(report, &Default::default()) }?;
        let done = writer.call(writer.timeout, |writer, patience| {
            writer.settle(words, largest, options.token.as_deref(), patience)
        })?;
        // SAFETY: as above.
        unsafe { self::report(report, &done) }
    })
}
