//! Whether a writing handle may continue.
//!
//! After a failed write or sync, the state on disk is unknown: the system may have dropped the bytes and marked them as
//! clean. A handle in a forked process refuses too, because two processes would write at the same position.

use crate::disk::Disk;
use crate::{Error, Result};

#[derive(Debug)]
pub(super) struct HandleHealth {
    file: String,
    process: u32,
    first_failure: Option<String>,
}

impl HandleHealth {
    pub fn new(disk: &dyn Disk, file: String) -> HandleHealth {
        HandleHealth { file, process: disk.process(), first_failure: None }
    }

    pub fn check(&self, disk: &dyn Disk) -> Result<()> {
        let refused = |cause: &str| Err(Error::Refused { file: self.file.clone(), cause: cause.to_owned() });
        if let Some(cause) = &self.first_failure {
            return refused(cause);
        }
        if !self.is_own(disk) {
            return refused("the process was forked, and the handle belongs to its parent");
        }
        Ok(())
    }

    pub fn is_own(&self, disk: &dyn Disk) -> bool {
        self.process == disk.process()
    }

    pub fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.first_failure.get_or_insert_with(|| error.to_string());
        }
        result
    }
}
