//! Callbacks of long calls: may it go on, and how far is it.
//!
//! They are called on the caller's own thread only, while another does the work: a callback
//! may call MPI, or Fortran that knows nothing of threads.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubist::{workers, Cancel};
use kubist_insitu::{Failure, Result};

use crate::status::bug;

/// How often the callbacks are called.
const LOOK: Duration = Duration::from_millis(50);

/// Callbacks of long calls, each of which may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KubistHooks {
    /// sizeof(KubistHooks)
    pub size: u64,
    /// Handed to the callbacks.
    pub user: *mut c_void,
    /// Says with anything but 0 that the call is to stop: it returns KUBIST_STATUS_CANCELLED soon.
    pub cancelled: Option<unsafe extern "C" fn(user: *mut c_void) -> i32>,
    /// Is told how much is done, in rows, and how much there is to do, 0 where nobody knows.
    pub progress: Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64)>,
}

// SAFETY: they are only called, on threads that call Kubist, as the caller of
// kubist_table_set_hooks has been told.
unsafe impl Send for KubistHooks {}

/// The hooks of a table and of all that was opened through it.
#[derive(Clone, Default)]
pub struct Hooks(Arc<Mutex<Option<KubistHooks>>>);

/// How a call can be stopped and says how far it is.
#[derive(Default)]
pub struct Call {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Call {
    /// A call that others share the switch of; it is not set when the call begins.
    pub fn of(stop: &Arc<AtomicBool>) -> Call {
        stop.store(false, Ordering::Relaxed);
        Call { stop: stop.clone(), ..Call::default() }
    }

    /// A switch of the engine for this call.
    pub fn cancel(&self) -> Cancel {
        cancel(&self.stop)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Rows that came.
    pub fn add(&self, rows: u64) {
        self.done.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn tell(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

/// A switch of the engine that is set while this one is.
pub fn cancel(stop: &Arc<AtomicBool>) -> Cancel {
    let stop = stop.clone();
    Cancel::asking(move || stop.load(Ordering::Relaxed))
}

impl Hooks {
    /// Takes what this version knows of the struct, of which a newer program may have a larger one.
    ///
    /// # Safety
    ///
    /// `hooks` is null or leads to as many bytes as it says.
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
        // SAFETY: all of it is there.
        assign(Some(unsafe { *hooks }));
        Ok(())
    }

    fn get(&self) -> Option<KubistHooks> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, on another thread if there are callbacks to call meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the work; `Internal` if it panics: callers of other languages cannot take that.
    pub fn run<T: Send>(&self, call: &Call, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(hooks) = self.get() else {
            return catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(bug(&*panic)));
        };
        let answer = workers::beside(LOOK, work, || {
            // SAFETY: the caller of kubist_table_set_hooks gave functions of these types.
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
