//! Handles that belong to one process.
//!
//! A fork copies memory but no threads, and shares locks on files. A copied
//! handle would wait for threads that are not there, and dropping it would let
//! go of what the parent still holds. So only the process that made a handle
//! may use or drop it.

use std::mem::ManuallyDrop;
use std::process;

use kubist::{Error, Result};

/// A handle that only the process that made it may use or drop.
pub struct ProcessBound<T> {
    location: String,
    process: u32,
    handle: ManuallyDrop<T>,
}

impl<T> ProcessBound<T> {
    pub fn new(location: &str, handle: T) -> ProcessBound<T> {
        let handle = ManuallyDrop::new(handle);
        ProcessBound { location: location.to_owned(), process: process::id(), handle }
    }

    pub fn location(&self) -> &str {
        &self.location
    }

    /// The handle, in the process that made it.
    pub fn get(&self) -> Result<&T> {
        if process::id() == self.process {
            Ok(&self.handle)
        } else {
            Err(Error::Forked { location: self.location.clone() })
        }
    }
}

impl<T> Drop for ProcessBound<T> {
    fn drop(&mut self) {
        if process::id() == self.process {
            // SAFETY: the handle is not used again after this, its only drop.
            unsafe { ManuallyDrop::drop(&mut self.handle) }
        }
    }
}
