//! Cancellation of a long call from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubist_index::gradual::Stop;

use crate::error::{Error, Result};

/// Calls check the switch at least every few hundredths of a second of work.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Switch>);

#[derive(Default)]
struct Switch {
    set: AtomicBool,
    outer: Option<Cancel>,
    asks: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Cancel {
    /// A switch that is set once `asks` returns true. Every thread of a call runs `asks`, so it must be fast, and stay
    /// true.
    pub fn asking(asks: impl Fn() -> bool + Send + Sync + 'static) -> Cancel {
        Cancel(Arc::new(Switch { asks: Some(Box::new(asks)), ..Switch::default() }))
    }

    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        let Switch { set, outer, asks } = &*self.0;
        set.load(Ordering::Relaxed)
            || outer.as_ref().is_some_and(Cancel::is_set)
            || asks.as_ref().is_some_and(|asks| asks())
    }

    /// # Errors
    ///
    /// `Cancelled` if the switch is set.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Cancelled) } else { Ok(()) }
    }

    pub fn linked(&self) -> Cancel {
        Cancel(Arc::new(Switch { outer: Some(self.clone()), ..Switch::default() }))
    }
}

impl Stop for Cancel {
    type Stopped = Error;

    fn look(&self) -> Result<()> {
        self.check()
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Cancel").field(&self.0.set).finish()
    }
}
