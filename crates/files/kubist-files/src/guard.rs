//! Turns panics of decoders into errors of the file, because a crafted or damaged file may trigger an assertion.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

pub fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    outcome.unwrap_or_else(|panic| {
        let why = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (None, Some(text)) => text.as_str(),
            (None, None) => "its decoder failed",
        };
        Err(Error::invalid(format!("{}: the file is damaged ({why})", path.display())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_names_the_file() {
        let outcome = guarded(Path::new("bad.arrow"), || -> Result<()> { panic!("index out of bounds") });
        assert_eq!(outcome.unwrap_err().to_string(), "bad.arrow: the file is damaged (index out of bounds)");
    }
}
