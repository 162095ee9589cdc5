//! Records of which a sample can be read: what an estimate knows of a table, or of files of other programs.
//!
//! Each record has a priority, uniform in [0, 2^64): those with priorities in a range are a sample of all of them.
//! Records may share a priority, and then come together.
//!
//! An estimate (`kubist-estimate`) knows records by this trait alone; tables and files of other programs (`kubist-blocks`)
//! implement it.

pub mod seek;

use std::sync::Arc;
use std::time::Instant;

use arrow_array::ArrayRef;
use arrow_schema::{Schema, SchemaRef};
use kubist_index::priority::PriorityRange;
use kubist_types::{Cancel, Result, Stats, Thinned};

use seek::Seek;

/// What a scan is to bring.
#[derive(Clone, Default)]
pub struct Wanted {
    /// Stored columns, in the order of the answer.
    pub columns: Vec<usize>,
    pub priorities: bool,
}

/// Records that a scan found at one place.
pub struct Scanned {
    pub rows: usize,
    pub columns: Vec<ArrayRef>,
    /// If they were wanted.
    pub priorities: Vec<u64>,
    pub stats: Stats,
}

/// What a scan reads, and until when.
pub struct Scan {
    pub wanted: Wanted,
    pub range: PriorityRange,
    /// Places that can hold nothing better may be left out, and others come twice.
    pub seek: Option<Arc<Seek>>,
    pub deadline: Option<Instant>,
}

/// Steps of which only a sample was written, and the column that says of records whether they were kept whatever
/// their priority.
pub struct Kept {
    pub whole: Thinned,
    pub column: String,
}

/// How many records there are, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    pub rows: f64,
    /// Its standard error; 0 where it is exact.
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

/// The part of the square of figures' error that may come from the number of records.
pub const MOST_PART: f64 = 0.6;

/// What it is worth to know a number of records.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The standard error that figures will have which rest on it, as a share of them.
    pub error: f64,
    /// Records that are looked at for them, about, if the number is known.
    pub known: f64,
    /// And if it is not.
    pub unknown: f64,
}

impl Worth {
    /// Does a number serve that has an error of its own?
    pub fn serves(&self, number: Number) -> bool {
        let part = self.part(number).powi(2);
        part <= MOST_PART && self.known / (1.0 - part) <= self.unknown
    }

    /// The part of the figures' error that is the number's.
    pub fn part(&self, number: Number) -> f64 {
        if number.is_exact() { 0.0 } else { number.error / number.rows.max(1.0) / self.error }
    }
}

/// Parts of space of which it is known about how many records they have, and what these may be like.
pub struct Parcels {
    /// How many records each has, about.
    pub rows: Vec<f64>,
    /// The variance of that number for each record.
    pub variances: Vec<f64>,
    /// By column: [`LIKE`] values for each parcel, between the ends of what it holds.
    pub like: Vec<ArrayRef>,
    pub places: Arc<dyn Places>,
}

/// So many records stand for those of a parcel.
pub const LIKE: usize = 8;

/// Says in which parcel records lie.
pub trait Places: Send + Sync {
    /// The parcels of records, from the columns of [`Population::located_by`]; of some of them none.
    fn of(&self, columns: &[ArrayRef]) -> Vec<Option<u32>>;
}

/// Records of which a sample can be read.
pub trait Population: Clone + Send + Sync + 'static {
    /// The columns that aggregates, groups and conditions can name, with their units.
    fn visible(&self) -> Schema;

    /// The columns that scans bring: these may be more.
    fn stored(&self) -> &SchemaRef;

    /// The stored column of a visible one.
    fn place(&self, visible: usize) -> usize;

    /// The stored column that the user calls so.
    ///
    /// # Errors
    ///
    /// `Expression` says which columns there are.
    fn find(&self, name: &str) -> Result<usize>;

    /// The same records, of which these stored columns will be read.
    ///
    /// # Errors
    ///
    /// `Invalid`: they have no place in common.
    fn reading(&self, _columns: &[usize]) -> Result<Self> {
        Ok(self.clone())
    }

    /// What records of one priority belong to, so that one tells something of the other, as it is counted in
    /// messages: 30 "of `pid`", 30 "blocks".
    fn identity(&self) -> Option<String>;

    /// About how many records share a priority.
    ///
    /// # Errors
    ///
    /// `Invalid`: it cannot be said of these columns.
    fn together(&self) -> Result<f64> {
        Ok(1.0)
    }

    /// Whether all records are asked for: no condition, no box, no part.
    fn is_all(&self) -> bool;

    fn cancel(&self) -> Cancel;

    /// About how many records there are, whatever their priorities.
    ///
    /// # Errors
    ///
    /// A storage error, or damage.
    fn rough_rows(&self) -> Result<f64>;

    /// Exactly how many there are, and what that took, if at most so many have to be looked at.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline.
    fn counted(&self, most: u64, deadline: Option<Instant>) -> Result<Option<(u64, Stats)>>;

    /// About how many there are, if that is worth what it takes, and what it took.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline.
    fn number(&self, worth: &Worth, deadline: Option<Instant>) -> Result<(Option<Number>, Stats)> {
        let (rows, stats) = self.counted((worth.unknown - worth.known).max(0.0) as u64, deadline)?.unzip();
        Ok((rows.map(Number::exact), stats.unwrap_or_default()))
    }

    /// The stored columns that say in which parcel a record lies, if there may be parcels.
    fn located_by(&self) -> Option<Vec<usize>> {
        None
    }

    /// Parcels, with what these stored columns of theirs may hold, if that is known and takes no longer than to look at
    /// so many records of a sample.
    ///
    /// # Errors
    ///
    /// A storage error, or damage.
    fn parcels(&self, _columns: &[usize], _most: u64) -> Result<Option<Parcels>> {
        Ok(None)
    }

    /// Whether it is known that each record has a value of a stored column: neither null nor NaN.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline.
    fn is_complete(&self, column: usize, deadline: Option<Instant>) -> Result<bool>;

    /// Those of them that fulfil a condition too.
    ///
    /// # Errors
    ///
    /// `Expression`: the condition does not fit.
    fn narrowed(&self, filter: &str) -> Result<Self>;

    /// The condition that leaves some of the records of [`Population::frame`] out.
    fn filter(&self) -> Option<String>;

    /// The same records without that condition.
    ///
    /// # Errors
    ///
    /// As of what made them.
    fn frame(&self) -> Result<Self>;

    /// What is known of records that were not written.
    fn kept(&self) -> Option<Kept> {
        None
    }

    /// Reads records. `each` is done with what is found on the thread that has read it; `take` has its results in
    /// the order of places, as they come. The answer is what planning has cost; each place has costs of its own.
    ///
    /// # Errors
    ///
    /// A storage error, or damage; `Cancelled` after the deadline; what `each` and `take` report.
    fn scan<T: Send + 'static>(
        &self,
        scan: Scan,
        each: impl Fn(Scanned) -> Result<T> + Send + Sync + 'static,
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<Stats>;
}
