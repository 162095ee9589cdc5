//! Steps that several writers end together, within one budget: what kubist_mpi_end_step is made of.

use std::ffi::c_char;

use kubist_insitu::{Failure, Result, Share, SHARE_LARGEST, SHARE_WORDS};

use crate::options::Ending;
use crate::status::{guarded, KubistStatus};
use crate::table::handle;
use crate::text::json;
use crate::writer::{report, KubistReport, KubistWriter};

/// Numbers of a writer's share in a step that are added up over all writers.
pub const KUBIST_SHARE_WORDS: u64 = 7436;
/// Numbers of which the largest counts.
pub const KUBIST_SHARE_LARGEST: u64 = 8;

const _: () = assert!(KUBIST_SHARE_WORDS as usize == SHARE_WORDS && KUBIST_SHARE_LARGEST as usize == SHARE_LARGEST);

/// The numbers at two pointers.
///
/// # Errors
///
/// `Invalid` if one is null.
///
/// # Safety
///
/// Each is null, or leads to as many as the constants say.
unsafe fn numbers<'a>(words: *const u64, largest: *const f64) -> Result<(&'a [u64], &'a [f64])> {
    if words.is_null() || largest.is_null() {
        return Err(Failure::invalid("the place for the share of a step is null"));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { (std::slice::from_raw_parts(words, SHARE_WORDS), std::slice::from_raw_parts(largest, SHARE_LARGEST)) })
}

/// This writer's share in what all writers of the step that is begun decide: KUBIST_SHARE_WORDS
/// numbers to be added up over all writers, and KUBIST_SHARE_LARGEST of which the largest count.
/// After a failure it is the share of a writer that cannot end the step, which is to be added too:
/// the others learn of it. The step stays begun, and takes no more columns.
#[no_mangle]
pub unsafe extern "C" fn kubist_step_share(
    writer: *const KubistWriter,
    words: *mut u64,
    largest: *mut f64,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        unsafe { numbers(words, largest) }?;
        let write = |share: &Share| {
            // SAFETY: they are not null, and lead to as many.
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

/// Ends the step by the sum of all writers' shares: what the budget keeps of it is durable, or
/// queued. Options and report are those of kubist_end_step, which also ends it after
/// KUBIST_STATUS_BUSY. If another writer cannot end the step, this returns
/// KUBIST_STATUS_UNAVAILABLE and it stays begun.
#[no_mangle]
pub unsafe extern "C" fn kubist_step_settle(
    writer: *const KubistWriter,
    words: *const u64,
    largest: *const f64,
    options: *const c_char,
    report: *mut KubistReport,
) -> KubistStatus {
    guarded!({
        // SAFETY: as the caller of the interface promises.
        let ((words, largest), writer) = unsafe { (numbers(words, largest)?, handle("writer", writer)?) };
        // SAFETY: as above.
        let options: Ending = unsafe { json("options", options) }?;
        // SAFETY: as above. A place that does not fit is refused before anything is written.
        unsafe { self::report(report, &Default::default()) }?;
        let done = writer.call(writer.timeout, |writer, patience| {
            writer.settle(words, largest, options.token.as_deref(), patience)
        })?;
        // SAFETY: as above.
        unsafe { self::report(report, &done) }
    })
}
