//! Candidates: rows that may be chosen.

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use kubist_index::priority::{is_identity_type, priorities};
use kubist_types::{Cancel, Error, Result, Stats};

use crate::bind::BoundQuery;
use crate::execute::{Projection, Scanned};

pub(super) const BATCH_ROWS: usize = 65_536;
/// Any query may keep this many candidates in memory.
pub(super) const ALWAYS_HELD: u64 = 1 << 20;

/// Priority, tie-breaker, part, and row in the part.
pub(super) type Candidate = (u64, u64, u32, u32);

#[derive(Default)]
pub(super) struct Candidates {
    pub parts: Vec<Vec<ArrayRef>>,
    pub candidates: Vec<Candidate>,
    /// For inclusion probabilities: by sorted candidate, the first candidate that its cell leaves out.
    pub cutoffs: Vec<Option<Candidate>>,
    /// Number of rows in all parts, chosen or not.
    pub rows: usize,
    pub stats: Stats,
}

/// Columns of the result and its order, and for tie-breakers all hashable columns.
pub(super) fn wanted(query: &BoundQuery, with_ties: bool) -> Projection {
    let mut columns = query.read.clone();
    if with_ties {
        columns.extend(tie_columns(query));
    }
    Projection { columns, priorities: true, coded: vec![] }
}

fn tie_columns(query: &BoundQuery) -> impl Iterator<Item = usize> + '_ {
    let fields = query.snapshot.view.schema.stored.fields();
    (0..fields.len()).filter(|column| is_identity_type(fields[*column].data_type()))
}

impl Candidates {
    pub fn take(&mut self, query: &BoundQuery, mut scanned: Scanned, with_ties: bool) -> Vec<Candidate> {
        self.stats.add(&scanned.stats);
        let mut ties = vec![0; scanned.rows];
        if with_ties && scanned.rows > 0 {
            let of_ties = &scanned.columns[query.read.len()..][..tie_columns(query).count()];
            let columns: Vec<&dyn Array> = of_ties.iter().map(|array| array.as_ref()).collect();
            ties = priorities(&columns, scanned.rows, 0);
        }
        let part = self.parts.len() as u32;
        let rows = scanned.priorities.iter().zip(ties).enumerate();
        let candidates = rows.map(|(row, (priority, tie))| (*priority, tie, part, row as u32)).collect();
        scanned.columns.truncate(query.read.len());
        self.parts.push(scanned.columns);
        self.rows += scanned.rows;
        candidates
    }

    /// Keeps only the rows of candidates, in their order.
    pub fn compact(&mut self, cancel: &Cancel) -> Result<()> {
        let mut parts = Vec::with_capacity(self.candidates.len().div_ceil(BATCH_ROWS));
        for chosen in self.candidates.chunks_mut(BATCH_ROWS) {
            let part = parts.len() as u32;
            parts.push(gather(&self.parts, chosen, cancel)?);
            for (row, candidate) in chosen.iter_mut().enumerate() {
                (candidate.2, candidate.3) = (part, row as u32);
            }
        }
        self.parts = parts;
        self.rows = self.candidates.len();
        Ok(())
    }
}

/// Collects columns in the order of the candidates.
pub(super) fn gather(parts: &[Vec<ArrayRef>], candidates: &[Candidate], cancel: &Cancel) -> Result<Vec<ArrayRef>> {
    let mut used: Vec<u32> = candidates.iter().map(|(_, _, part, _)| *part).collect();
    used.sort_unstable();
    used.dedup();
    let place = |(_, _, part, row): &Candidate| (used.partition_point(|used| used < part), *row as usize);
    let places: Vec<(usize, usize)> = candidates.iter().map(place).collect();
    let columns = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|column| {
            cancel.check()?;
            let arrays: Vec<&dyn Array> = used.iter().map(|part| parts[*part as usize][column].as_ref()).collect();
            interleave(&arrays, &places).map_err(Error::kernel)
        })
        .collect()
}
