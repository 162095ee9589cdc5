//! The trait [`Population`]: records that an estimate can sample.
//!
//! Each record has a priority, uniform in [0, 2^64), so the records in a range of priorities are a uniform
//! sample. Records that share a priority are always sampled together. Tables implement the trait, and
//! `kubist-blocks` implements it for files of other programs.

pub mod seek;

use std::sync::Arc;
use std::time::Instant;

use arrow_array::ArrayRef;
use arrow_schema::{Schema, SchemaRef};
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Result, Stats, Thinned};

use seek::Seek;

#[derive(Clone, Default)]
pub struct Projection {
    /// Stored columns, in the order of the result.
    pub columns: Vec<usize>,
    pub priorities: bool,
    /// Columns whose texts may come as a dictionary, if they have few different values.
    pub coded: Vec<usize>,
}

pub struct Scanned {
    pub rows: usize,
    pub columns: Vec<ArrayRef>,
    /// Empty unless [`Projection::priorities`] is set.
    pub priorities: Vec<u64>,
    pub stats: Stats,
}

pub struct Scan {
    pub wanted: Projection,
    pub range: PriorityRange,
    /// Lets the scan skip zones that cannot improve the minimum or maximum; it may scan a zone twice.
    pub seek: Option<Arc<Seek>>,
    pub deadline: Option<Instant>,
}

/// The subsampled steps. `column` marks the records that were written regardless of their priority.
pub struct SampledStep {
    pub whole: Thinned,
    pub column: String,
}

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

/// The largest fraction of an estimate's variance that may come from the number of records.
pub const MOST_PART: f64 = 0.6;

/// The benefit of counting the records before they are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The relative standard error that the results should have.
    pub error: f64,
    /// Approximate records to examine if their total is counted first.
    pub known: f64,
    /// Approximate records to examine without that count.
    pub unknown: f64,
}

impl Worth {
    /// Whether this number is precise enough to reduce the records to examine, even if it is not exact.
    pub fn serves(&self, number: Number) -> bool {
        let part = self.part(number).powi(2);
        part <= MOST_PART && self.known / (1.0 - part) <= self.unknown
    }

    /// The number's error as a fraction of the results' standard error.
    pub fn part(&self, number: Number) -> f64 {
        if number.is_exact() { 0.0 } else { number.error / number.rows.max(1.0) / self.error }
    }
}

/// Regions of space, each with an estimated number of records and typical values of columns.
pub struct Subregions {
    pub rows: Vec<f64>,
    /// The variance of each number, per record.
    pub variances: Vec<f64>,
    /// For each column, [`REPRESENTATIVES`] representative values per region, between its minimum and maximum.
    pub representatives: Vec<ArrayRef>,
    pub locator: Arc<dyn SubregionLocator>,
}

pub const REPRESENTATIVES: usize = 8;

pub trait SubregionLocator: Send + Sync {
    /// The region of each record, from the columns of [`Population::located_by`]; `None` outside all regions.
    fn of(&self, columns: &[ArrayRef]) -> Vec<Option<u32>>;
}

pub trait Population: Clone + Send + Sync + 'static {
    /// The columns that expressions can name, with their units.
    fn visible(&self) -> Schema;

    /// The columns that can be read, including all visible ones.
    fn stored(&self) -> &SchemaRef;

    /// The stored index of a visible column.
    fn place(&self, visible: usize) -> usize;

    /// Index of a stored column.
    ///
    /// # Errors
    ///
    /// `Expression`, with a list of the columns.
    fn find(&self, name: &str) -> Result<usize>;

    /// The same records, prepared to read these stored columns.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns cannot be read together.
    fn reading(&self, _columns: &[usize]) -> Result<Self> {
        Ok(self.clone())
    }

    /// The group of records that share a priority, as messages print it after a number: "of `pid`" or "blocks".
    fn identity(&self) -> Option<String>;

    /// The mean number of records that share a priority.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot be computed for these columns.
    fn cluster_size(&self) -> Result<f64> {
        Ok(1.0)
    }

    /// Whether there is no condition, no box and no sample fraction.
    fn is_all(&self) -> bool;

    fn cancel(&self) -> Cancel;

    /// # Errors
    ///
    /// A storage error, or damage.
    fn rough_rows(&self) -> Result<f64>;

    /// The exact number of records and the cost, or `None` if counting must examine more than `most` records.
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

    /// The stored column with the relative weights of records, or `None` if their priorities are uniform. A
    /// record's probability to be in a range of priorities is `kubist_index::priority::inclusion`.
    fn weight(&self) -> Option<usize> {
        None
    }

    /// Stored columns that locate a record in a region, if there are regions.
    fn located_by(&self) -> Option<Vec<usize>> {
        None
    }

    /// The regions of the records; `None` if they are unknown, or cost more than examining `most` records.
    ///
    /// # Errors
    ///
    /// A storage error, or damage.
    fn subregions(&self, _columns: &[usize], _most: u64) -> Result<Option<Subregions>> {
        Ok(None)
    }

    /// Whether a stored column has no null and no NaN.
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

    /// All records, without that condition.
    ///
    /// # Errors
    ///
    /// The errors of opening the population.
    fn frame(&self) -> Result<Self>;

    /// Totals of subsampled steps, or `None` if all records were written.
    fn kept(&self) -> Option<SampledStep> {
        None
    }

    /// Reads the records in parts. Reading threads call `each` on every part, and the calling thread passes the
    /// results to `take` in order. Returns the cost of planning; each [`Scanned`] has the cost of its part.
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
