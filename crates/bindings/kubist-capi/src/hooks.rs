//! Callbacks of long calls, for cancellation and progress. They run on the caller's thread while another thread
//! works, so they may call MPI, or Fortran code that is not thread-safe.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubist::Cancel;
use kubist_insitu::{Failure, Result};
use kubist_read::workers;

use crate::status::bug;

const LOOK: Duration = Duration::from_millis(50);

/// Callbacks of long calls. Each may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KubistHooks {
    /// sizeof(KubistHooks)
    pub size: u64,
    /// Passed to the callbacks.
    pub user: *mut c_void,
    /// A return value other than 0 stops the call, which returns KUBIST_STATUS_CANCELLED soon.
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// Receives the number of processed rows and the total, which is 0 if unknown.
    pub progress: Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64)>,
}

// SAFETY: the pointers are only used on threads that call Kubist, as documented in kubist_table_set_hooks.
unsafe impl Send for KubistHooks {}

#[derive(Clone, Default)]
pub struct Hooks(Arc<Mutex<Option<KubistHooks>>>);

#[derive(Default)]
pub struct Call {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Call {
    /// A call with a shared stop flag, which is cleared first.
    pub fn of(stop: &Arc<AtomicBool>) -> Call {
        stop.store(false, Ordering::Relaxed);
        Call { stop: stop.clone(), ..Call::default() }
    }

    pub fn cancel(&self) -> Cancel {
        cancel(&self.stop)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn add(&self, rows: u64) {
        self.done.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn tell(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

pub fn cancel(stop: &Arc<AtomicBool>) -> Cancel {
    let stop = stop.clone();
    Cancel::asking(move || stop.load(Ordering::Relaxed))
}

impl Hooks {
    /// Copies the fields that this version knows; the struct of a newer program may be larger.
    ///
    /// # Safety
    ///
    /// `hooks` is null or points to as many bytes as its size field states.
    pub unsafe fn set(&self, hooks: *const KubistHooks) -> Result<()> {
        let assign = |hooks| *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hooks;
        if hooks.is_null() {
            assign(None);
            return Ok(());
        }
        // SAFETY: the size is the first field of every version.
        let size = unsafe { hooks.cast::<u64>().read() };
        if size < size_of::<KubistHooks>() as u64 {
            let wanted = size_of::<KubistHooks>();
            return Err(Failure::invalid(format!("KubistHooks: size is {size}, and must be {wanted} at least")));
        }
        // SAFETY: the size check shows that all fields exist.
        assign(Some(unsafe { *hooks }));
        Ok(())
    }

    fn get(&self) -> Option<KubistHooks> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, on another thread if there are callbacks.
    ///
    /// # Errors
    ///
    /// The errors of `work`; `Internal` for its panic, which must not cross into another language.
    pub fn run<T: Send>(&self, call: &Call, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(hooks) = self.get() else {
            return catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(bug(&*panic)));
        };
        let answer = workers::beside(LOOK, work, || {
            // SAFETY: the caller of kubist_table_set_hooks provided functions with these types.
            unsafe {
                if let Some(progress) = hooks.progress {
                    progress(hooks.user, call.done.load(Ordering::Relaxed), call.total.load(Ordering::Relaxed));
                }
                if hooks.cancelled.is_some_and(|cancelled| cancelled(hooks.user) != 0) {
                    call.stop.store(true, Ordering::Relaxed);
                }
            }
        });
        answer.unwrap_or_else(|panic| Err(bug(&*panic)))
    }
}
