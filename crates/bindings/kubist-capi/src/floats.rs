//! Suppresses floating-point exceptions. Many solvers trap them (`feenableexcept`, `-ffpe-trap`, OpenFOAM by
//! default), but the engine's arithmetic with NaN and infinity raises them on valid data.
//!
//! Each call saves the floating-point environment and restores it at the end. The library's threads inherit the
//! quiet environment.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Space for `fenv_t`, which has 4 to 32 bytes depending on the platform.
#[repr(C, align(16))]
struct Environment([u8; 128]);

#[link(name = "m")]
extern "C" {
    fn feholdexcept(environment: *mut Environment) -> c_int;
    fn fesetenv(environment: *const Environment) -> c_int;
}

/// While it exists, floating-point exceptions on this thread neither trap nor set flags.
pub struct Quiet(Environment);

impl Quiet {
    pub fn now() -> Quiet {
        let mut environment = MaybeUninit::<Environment>::zeroed();
        // SAFETY: the buffer is large enough, and zeroed bytes are valid.
        unsafe {
            feholdexcept(environment.as_mut_ptr());
            Quiet(environment.assume_init())
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: `feholdexcept` wrote it on this thread; a call begins and ends on the same thread.
        unsafe { fesetenv(&self.0) };
    }
}
