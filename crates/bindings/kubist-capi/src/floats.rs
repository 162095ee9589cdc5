//! Floating-point exceptions. Solvers have them end the program (`feenableexcept`, `-ffpe-trap`,
//! OpenFOAM by default), and what the engine computes with NaN and infinity raises them on sound data.
//!
//! Each call computes with the environment held, and the caller gets his back. Threads begin with
//! the environment of who starts them, so those of the library are quiet too.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Room for `fenv_t`: 4 to 32 bytes, by platform.
#[repr(C, align(16))]
struct Environment([u8; 128]);

#[link(name = "m")]
extern "C" {
    fn feholdexcept(environment: *mut Environment) -> c_int;
    fn fesetenv(environment: *const Environment) -> c_int;
}

/// While it lives, this thread's floating-point exceptions interrupt nothing, and leave no trace.
pub struct Quiet(Environment);

impl Quiet {
    pub fn now() -> Quiet {
        let mut environment = MaybeUninit::<Environment>::zeroed();
        // SAFETY: there is room for what it writes, and zeros are bytes.
        unsafe {
            feholdexcept(environment.as_mut_ptr());
            Quiet(environment.assume_init())
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: what `feholdexcept` wrote, on this thread: a call begins and ends on the same.
        unsafe { fesetenv(&self.0) };
    }
}
