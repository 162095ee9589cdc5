//! Handles that only their own process can use.
//!
//! A fork copies memory but no threads, and shares file locks. A copied handle would wait for threads that
//! do not exist, and dropping it would release the parent's locks.

use std::mem::ManuallyDrop;
use std::process;

use kubist::{Error, Result};

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

    /// Fails in another process.
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
            // SAFETY: this is the only drop, and the handle is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.handle) }
        }
    }
}
