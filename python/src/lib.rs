//! The extension module `kubist._kubist`: the binding of the engine to Python.
//!
//! It passes calls, Arrow data and errors; the Python package `kubist` is the user's interface with names,
//! defaults and documentation. While the engine works, the interpreter lock is released, and a signal such
//! as Ctrl-C stops the call. Errors and panics of the engine become Python exceptions.

mod arrow;
mod call;
mod column;
#[cfg(feature = "command")]
mod command;
mod csv;
mod dictionary;
mod error;
mod estimate;
#[cfg(feature = "files")]
mod files;
mod frames;
mod from_numpy;
#[cfg(feature = "files")]
mod indexing;
#[cfg(feature = "files")]
mod ingesting;
mod json;
#[cfg(not(all(feature = "files", feature = "pictures", feature = "command")))]
mod left_out;
mod memory;
mod neighbours;
#[cfg(feature = "pictures")]
mod picture;
mod plain;
mod process_bound;
mod query;
mod shown;
mod steps;
mod stream;
mod sync;
mod table;
mod value;
mod whole;
mod wire;
mod writer;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: kubist_memory::Allocator = kubist_memory::Allocator;

#[pymodule]
mod _kubist {
    #[pymodule_export]
    use crate::arrow::{Batch, Batches, Incoming, Schema};
    #[pymodule_export]
    use crate::column::Column;
    #[cfg(feature = "command")]
    #[pymodule_export]
    use crate::command::{box_ranges, command};
    #[pymodule_export]
    use crate::csv::csv;
    #[pymodule_export]
    use crate::dictionary::{Dictionary, DictionaryRange};
    #[pymodule_export]
    use crate::estimate::{Estimates, Figures};
    #[cfg(feature = "files")]
    #[pymodule_export]
    use crate::files::{File, FileRows, fingerprint};
    #[pymodule_export]
    use crate::frames::put_frames;
    #[pymodule_export]
    use crate::from_numpy::{NumpyColumn, numpy_columns};
    #[cfg(feature = "files")]
    #[pymodule_export]
    use crate::indexing::Files;
    #[cfg(feature = "files")]
    #[pymodule_export]
    use crate::ingesting::{expanded, ingest};
    #[cfg(not(all(feature = "files", feature = "pictures", feature = "command")))]
    #[pymodule_export]
    use crate::left_out::absent;
    #[pymodule_export]
    use crate::memory::replay;
    #[pymodule_export]
    use crate::neighbours::{clusters, crossmatch, nearest, pair_counts, pairs, within};
    #[cfg(feature = "pictures")]
    #[pymodule_export]
    use crate::picture::{Picture, Scene};
    #[pymodule_export]
    use crate::query::Refine;
    #[pymodule_export]
    use crate::shown::{
        bin_in_words, bound_in_words, duration, figure, figure_of_texts, fraction, number, printable, printable_lines,
        seconds, size, terms, unit_notes, without_password,
    };
    #[pymodule_export]
    use crate::steps::{Leader, StepWriter, failed_share, ring_bytes, ring_leave};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::sync::{clone, deepen, sync};
    #[pymodule_export]
    use crate::table::{ReadOptimizer, Snapshot, Table};
    #[pymodule_export]
    use crate::whole::Whole;
    #[pymodule_export]
    use crate::wire::Wire;
    #[pymodule_export]
    use crate::writer::Writer;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init() {
        kubist_memory::keep();
    }
}
