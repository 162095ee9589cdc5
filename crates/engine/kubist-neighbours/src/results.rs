//! Results as a stream of batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use kubist::{Cancel, Result, Stats};

use crate::searched::Searched;

/// Batches of a result.
pub trait Results: Send {
    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    ///
    /// The errors of [`kubist::Snapshot::query`] and of its stream.
    fn batch(&mut self) -> Result<Option<RecordBatch>>;

    /// The table that is searched.
    fn searched(&self) -> &Searched;

    /// The cost so far.
    fn stats(&self) -> Stats {
        self.searched().stats()
    }

    /// The switch that stops it.
    fn cancel(&self) -> Cancel {
        self.searched().cancel.clone()
    }
}
