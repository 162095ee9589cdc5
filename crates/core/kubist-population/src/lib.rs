//! The trait [`Population`]: records that an estimate can sample.
//!
//! Each record has a priority, uniform in [0, 2^64). The records with priorities in a range are a uniform
//! sample. Records that share a priority are always sampled together.
//!
//! `kubist-estimate` reads records through this trait only. Tables implement it, and `kubist-blocks`
//! implements it for files of other programs.

pub mod seek;

use std::sync::Arc;
use std::time::Instant;

use arrow_array::ArrayRef;
use arrow_schema::{Schema, SchemaRef};
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Result, Stats, Thinned};

use seek::Seek;

/// The columns that a scan returns.
#[derive(Clone, Default)]
pub struct Wanted {
    /// Indices of stored columns, in the order of the result.
    pub columns: Vec<usize>,
    pub priorities: bool,
}

/// The records that a scan found in one unit of reading, such as a run.
pub struct Scanned {
    pub rows: usize,
    pub columns: Vec<ArrayRef>,
    /// Empty unless [`Wanted::priorities`] is set.
    pub priorities: Vec<u64>,
    pub stats: Stats,
}

/// The parameters of a scan.
pub struct Scan {
    pub wanted: Wanted,
    pub range: PriorityRange,
    /// Lets the scan skip zones that cannot improve the minimum or maximum. A zone may be scanned twice.
    pub seek: Option<Arc<Seek>>,
    pub deadline: Option<Instant>,
}

/// Steps that were written as a sample only.
///
/// `column` marks the records that were kept regardless of their priority.
pub struct Kept {
    pub whole: Thinned,
    pub column: String,
}

/// The number of records, exact or estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    pub rows: f64,
    /// The standard error; 0 if the number is exact.
    pub error: f64,
}

impl Number {
    pub fn exact(rows: u64) -> Number {
        Number { rows: rows as f64, error: 0.0 }
    }

    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }
}

/// The largest fraction of an estimate's variance that the number of records may contribute.
pub const MOST_PART: f64 = 0.6;

/// The benefit of knowing the number of records.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The relative standard error of the results that use the number.
    pub error: f64,
    /// Records that must be examined, approximately, if the number is known.
    pub known: f64,
    /// Records that must be examined, approximately, if the number is unknown.
    pub unknown: f64,
}

impl Worth {
    /// Returns whether an inexact number is precise enough to save reading.
    pub fn serves(&self, number: Number) -> bool {
        let part = self.part(number).powi(2);
        part <= MOST_PART && self.known / (1.0 - part) <= self.unknown
    }

    /// The number's fraction of the standard error of the results.
    pub fn part(&self, number: Number) -> f64 {
        if number.is_exact() { 0.0 } else { number.error / number.rows.max(1.0) / self.error }
    }
}

/// Regions of space with an estimated number of records and typical values of the columns.
pub struct Parcels {
    /// Estimated number of records of each region.
    pub rows: Vec<f64>,
    /// Variance of the number of records, per record.
    pub variances: Vec<f64>,
    /// For each column, [`LIKE`] representative values per region, between the region's minimum and maximum.
    pub like: Vec<ArrayRef>,
    pub places: Arc<dyn Places>,
}

/// The number of representative values for each region.
pub const LIKE: usize = 8;

/// Assigns records to regions.
pub trait Places: Send + Sync {
    /// The region of each record, from the columns of [`Population::located_by`]; `None` if no region
    /// contains it.
    fn of(&self, columns: &[ArrayRef]) -> Vec<Option<u32>>;
}

/// Records that can be sampled by priority.
pub trait Population: Clone + Send + Sync + 'static {
    /// The columns that aggregates, groups and conditions can name, with their units.
    fn visible(&self) -> Schema;

    /// The columns that scans can return. They include all visible columns.
    fn stored(&self) -> &SchemaRef;

    /// The index of the stored column of a visible column.
    fn place(&self, visible: usize) -> usize;

    /// The index of the stored column with this name.
    ///
    /// # Errors
    ///
    /// `Expression`, with a list of the columns.
    fn find(&self, name: &str) -> Result<usize>;

    /// The same records, prepared for reading these stored columns.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns cannot be read together.
    fn reading(&self, _columns: &[usize]) -> Result<Self> {
        Ok(self.clone())
    }

    /// The unit that records of one priority belong to, as messages name it: 30 "of `pid`", 30 "blocks". Such
    /// records are correlated.
    fn identity(&self) -> Option<String>;

    /// Mean number of records that share a priority.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot be computed for these columns.
    fn together(&self) -> Result<f64> {
        Ok(1.0)
    }

    /// Returns whether all records are selected: no condition, no box and no fraction.
    fn is_all(&self) -> bool;

    fn cancel(&self) -> Cancel;

    /// Estimated number of records of all priorities.
    ///
    /// # Errors
    ///
    /// A storage error, or damage.
    fn rough_rows(&self) -> Result<f64>;

    /// The exact number of records and the cost of counting, or `None` if counting must examine more than
    /// `most` records.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline.
    fn counted(&self, most: u64, deadline: Option<Instant>) -> Result<Option<(u64, Stats)>>;

    /// The number of records, if it is worth its cost, and that cost.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline.
    fn number(&self, worth: &Worth, deadline: Option<Instant>) -> Result<(Option<Number>, Stats)> {
        let (rows, stats) = self.counted((worth.unknown - worth.known).max(0.0) as u64, deadline)?.unzip();
        Ok((rows.map(Number::exact), stats.unwrap_or_default()))
    }

    /// The stored columns that locate a record in a region; `None` if there are no regions.
    fn located_by(&self) -> Option<Vec<usize>> {
        None
    }

    /// The regions with representative values of these stored columns. `None` if they are unknown, or if
    /// computing them costs more than examining `most` records.
    ///
    /// # Errors
    ///
    /// A storage error, or damage.
    fn parcels(&self, _columns: &[usize], _most: u64) -> Result<Option<Parcels>> {
        Ok(None)
    }

    /// Returns whether every value of a stored column is known to be neither null nor NaN.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline.
    fn is_complete(&self, column: usize, deadline: Option<Instant>) -> Result<bool>;

    /// The records that also fulfil a condition.
    ///
    /// # Errors
    ///
    /// `Expression` if the condition does not fit the columns.
    fn narrowed(&self, filter: &str) -> Result<Self>;

    /// The condition that selects these records from [`Population::frame`].
    fn filter(&self) -> Option<String>;

    /// The records without that condition.
    ///
    /// # Errors
    ///
    /// The errors of opening the population.
    fn frame(&self) -> Result<Self>;

    /// The totals of records that were not written; `None` if all were.
    fn kept(&self) -> Option<Kept> {
        None
    }

    /// Reads records. The reading threads call `each` on every part of the result. The calling thread passes
    /// the outcomes to `take`, in the order of the parts. Returns the cost of planning; each part has its own
    /// cost in [`Scanned`].
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline; errors of `each` and `take`.
    fn scan<T: Send + 'static>(
        &self,
        scan: Scan,
        each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<Stats>;
}
