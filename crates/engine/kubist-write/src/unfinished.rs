//! Creation of a complete table: a copy, or the result of a salvage.
//!
//! The header is written last; until then there is a mark, and the table cannot be opened. A process that repeats the
//! work finds the mark and the log of the first process. If the log has no owner, that process has ended, because it
//! took the log before it set the mark. The incomplete objects are then removed.

use std::sync::Arc;

use kubist_store::Store;

use crate::writer::Writer;
use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_catalog::schema::TableSchema;
use kubist_format::header::{Header, encode_header};
use kubist_format::names::TABLE;
use kubist_format::names::UNFINISHED;
use kubist_types::error::{Error, Result};
use kubist_types::options::WriterOptions;

pub struct Unfinished {
    pub core: Arc<Core>,
    header: Vec<u8>,
    id: String,
}

impl Unfinished {
    /// Starts a table in an empty store, and takes the log of its one writer.
    ///
    /// # Errors
    ///
    /// `Exists` if the store is not empty; `Busy` while another process creates the table; a storage error.
    pub fn begin(
        store: Arc<dyn Store>,
        header: Header,
        schema: TableSchema,
        options: &WriterOptions,
    ) -> Result<(Unfinished, Writer)> {
        let taken = |why: &str| Error::Exists { location: store.location().into(), why: why.into() };
        let there = |name| store.get(name).map(|found| found.is_some()).map_err(store_error);
        if there(TABLE)? {
            return Err(taken("a table is there"));
        }
        let (bytes, id) = (encode_header(&header, &schema.user).map_err(Error::invalid)?, header.id.clone());
        let core = Core::with(store.clone(), header, schema)?;
        core.set_unfinished(true);
        let writer = Writer::open(core.clone(), options, None)?;
        if !store.put_if_absent(UNFINISHED, id.as_bytes()).map_err(store_error)? {
            return Err(taken(kubist_catalog::files::HALF_COPIED));
        }
        Ok((Unfinished { core, header: bytes, id }, writer))
    }

    /// Writes the header, after all contents are durable and the writer is closed.
    ///
    /// # Errors
    ///
    /// `Exists` if another process has removed the copy, or created a table there; a storage error.
    pub fn finish(self) -> Result<Arc<Core>> {
        let store = &self.core.store;
        let lost = || Error::Exists {
            location: store.location().into(),
            why: "somebody else has removed this copy, or made a table in its place".into(),
        };
        if store.get(UNFINISHED).map_err(store_error)?.is_none_or(|mark| mark != self.id.as_bytes())
            || !store.put_if_absent(TABLE, &self.header).map_err(store_error)?
        {
            return Err(lost());
        }
        self.core.set_unfinished(false);
        // A remaining mark has no effect next to a header.
        let _ = store.delete(UNFINISHED);
        Ok(self.core)
    }
}
