//! A switch that stops a long call from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A switch that stops a long call from another thread.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    switch: Arc<AtomicBool>,
    outer: Option<Arc<AtomicBool>>,
}

impl Cancel {
    pub fn set(&self) {
        self.switch.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        let set = |switch: &Arc<AtomicBool>| switch.load(Ordering::Relaxed);
        set(&self.switch) || self.outer.as_ref().is_some_and(set)
    }

    /// `Err(Cancelled)` once it is set.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A switch of its own that this one also sets.
    pub fn linked(&self) -> Cancel {
        Cancel { switch: Arc::default(), outer: Some(self.switch.clone()) }
    }
}
