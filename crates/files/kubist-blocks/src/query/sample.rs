//! Selects the positions of a sample by their hash alone, before anything is read. In the code, a `place` is the linear
//! number of a position within its rectangle.
//!
//! A position is in a sample if its priority is below a threshold, so a sample contains every sample with a lower
//! threshold. If it has enough results, it has the results with the lowest priorities. In each block, only the
//! rectangle around the sampled positions is read.

use kubist_index::priority::{PriorityRange, Threshold, priorities};
use kubist_types::{Error, Result};

use super::{Cell, Execution, Placed};
use crate::fetch;
use crate::schedule::{self, Policy};
use crate::shape::{Rect, unravel};

/// If blocks have at least this many sampled positions on average, they are read completely.
const MANY: f64 = 64.0;
const TOGETHER: usize = 32;
/// Minimum number of results to estimate the selectivity.
const TRUSTED: u64 = 16;
/// The growth factor of the sample after fewer results.
const WIDER: f64 = 64.0;

/// The priority of an identity of integers, computed column by column as `priorities` in kubist-index does.
#[derive(Clone, Copy)]
struct Chain(u64);

impl Chain {
    fn new() -> Chain {
        Chain(priorities(&[], 1, 0)[0])
    }

    /// XXH3-64 of the tag and the eight bytes of a part. It works in registers, because storing bytes and loading them
    /// across word boundaries takes several times as long.
    #[inline(always)]
    fn with(self, part: u64) -> Chain {
        // The tag of integers. `LOW` combines words 24 and 32 of the specification's secret by xor, and `HIGH` words 40
        // and 48.
        const TAG: u64 = 2;
        const LOW: u64 = 0x6782_737b_ea42_39b9;
        const HIGH: u64 = 0xaf56_bc3b_0996_523a;
        let low = (TAG | part << 8) ^ LOW.wrapping_add(self.0);
        let high = part ^ HIGH.wrapping_sub(self.0);
        let product = u128::from(low) * u128::from(high);
        let folded = product as u64 ^ (product >> 64) as u64;
        let mixed = low.swap_bytes().wrapping_add(high).wrapping_add(folded).wrapping_add(9);
        let mixed = (mixed ^ mixed >> 37).wrapping_mul(0x1656_6791_9e37_79f9);
        Chain(mixed ^ mixed >> 32)
    }
}

/// Returns the places in a rectangle with priorities below the threshold.
///
/// # Errors
///
/// `Invalid` if there are more than 2^32 positions.
pub(super) fn chosen(rect: &Rect, below: Threshold) -> Result<Vec<u32>> {
    let mut places = Vec::new();
    countable(rect)?;
    let Some(range) = PriorityRange::between(Threshold::NONE, below) else { return Ok(places) };
    let (start, last) = (Chain::new(), rect.count.len() - 1);
    let mut place = 0;
    rect.rows(last, &mut |position| {
        let row = position[..last].iter().fold(start, |chain, at| chain.with(*at));
        for at in position[last]..position[last] + rect.count[last] {
            if row.with(at).0 <= range.last {
                places.push(place);
            }
            place += 1;
        }
    });
    Ok(places)
}

/// # Errors
///
/// `Invalid` if there are more than 2^32 positions.
pub(super) fn countable(rect: &Rect) -> Result<u32> {
    u32::try_from(rect.len()).map_err(|_| Error::invalid("a block has more than 2^32 positions"))
}

fn around(rect: &Rect, places: &[u32]) -> (Rect, Vec<u32>) {
    let positions: Vec<Vec<u64>> = places.iter().map(|place| unravel(u64::from(*place), &rect.count)).collect();
    let along = |axis: usize| {
        let (low, high) =
            positions.iter().fold((u64::MAX, 0), |(low, high), at| (low.min(at[axis]), high.max(at[axis])));
        (low, high - low + 1)
    };
    let (low, count): (Vec<u64>, Vec<u64>) = (0..rect.count.len()).map(along).unzip();
    let place = |at: &Vec<u64>| {
        let axes = at.iter().zip(&low).zip(&count);
        axes.fold(0, |place, ((at, low), count)| place * count + (at - low)) as u32
    };
    let places = positions.iter().map(place).collect();
    let start = rect.start.iter().zip(&low).map(|(start, low)| start + low).collect();
    (Rect { start, count }, places)
}

impl Execution<'_> {
    /// Restricts cells to their sampled positions; if all cells have many positions, they stay unchanged.
    pub(super) fn sampled(&self, cells: Vec<Placed>) -> Result<Vec<Placed>> {
        let Some(below) = self.below else { return Ok(cells) };
        let positions: f64 = cells.iter().map(|(_, _, cell)| cell.rect.len() as f64).sum();
        if below.to_fraction() * positions >= MANY * cells.len() as f64 {
            return Ok(cells);
        }
        let parts: Vec<&[Placed]> = cells.chunks(TOGETHER).collect();
        let choose = |part: usize| -> Result<Vec<Option<Placed>>> {
            parts[part].iter().map(|placed| self.narrowed(placed, below)).collect()
        };
        let (found, _) = schedule::run(parts.len(), self.options.workers, Policy::default(), self.cancel, &choose)?;
        Ok(found.into_iter().flatten().flatten().collect())
    }

    fn narrowed(&self, (at, extent, cell): &Placed, below: Threshold) -> Result<Option<Placed>> {
        let places = chosen(&cell.rect, below)?;
        if places.is_empty() {
            return Ok(None);
        }
        if cell.sorted.is_some() {
            return Ok(Some((*at, *extent, cell.clone())));
        }
        let (rect, places) = around(&cell.rect, &places);
        let layout = self.files.members[*at].layout();
        let variable = &layout.variables[self.grids[*at].driver];
        let extent = fetch::extent(layout, variable, &rect)?.unwrap_or((u64::MAX, u64::MAX));
        Ok(Some((*at, extent, Cell { rect, places: Some(places), ..cell.clone() })))
    }

    /// Returns the threshold that gives `limit` results if all positions match.
    pub(super) fn first_look(&self, limit: u64, cells: &[Placed]) -> Option<Threshold> {
        let positions: f64 = cells.iter().map(|(_, _, cell)| cell.rect.len() as f64).sum();
        self.no_more_than_requested(enough(limit) / positions.max(1.0))
    }

    /// Returns the threshold after a sample with too few results; `None` for the whole query.
    pub(super) fn next_look(&self, limit: u64, found: u64, cells: &[Placed]) -> Option<Threshold> {
        let share = self.below.map_or(1.0, Threshold::to_fraction);
        if found >= TRUSTED {
            let (wanted, found) = (enough(limit), found as f64);
            return self.no_more_than_requested(share * wanted / found * (1.0 + 4.0 / found.sqrt()));
        }
        let positions: f64 = cells.iter().map(|(_, _, cell)| cell.rect.len() as f64).sum();
        let in_a_block = share * WIDER * positions / (cells.len() as f64).max(1.0);
        // If most blocks are read anyway, all their positions are examined.
        if in_a_block > 1.0 { self.requested_threshold() } else { self.no_more_than_requested(share * WIDER) }
    }

    pub(super) fn requested_threshold(&self) -> Option<Threshold> {
        self.query.sample.map(Threshold::from_fraction)
    }

    fn no_more_than_requested(&self, share: f64) -> Option<Threshold> {
        let asked = self.requested_threshold();
        let look = (share < 0.5).then(|| Threshold::from_fraction(share));
        match (look, asked) {
            (Some(look), Some(asked)) => Some(look.min(asked)),
            (look, asked) => look.or(asked),
        }
    }
}

/// The expected number of results at which a random sample very rarely has fewer than `limit`.
fn enough(limit: u64) -> f64 {
    let limit = limit as f64;
    limit + 4.0 * limit.sqrt() + 16.0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, Int64Array};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_of_a_sample_are_those_of_low_priority(
            axes in proptest::collection::vec((0u64..1 << 40, 1u64..12), 1..4),
            share in 0.0..=1.0f64,
        ) {
            let (start, count): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
            let rect = Rect { start, count };
            let mut positions: Vec<Vec<u64>> = Vec::new();
            rect.rows(rect.count.len(), &mut |at| positions.push(at.to_vec()));
            let column = |axis: usize| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(positions.iter().map(|at| at[axis] as i64)))
            };
            let columns: Vec<ArrayRef> = (0..rect.count.len()).map(column).collect();
            let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
            let below = Threshold::from_fraction(share);
            let own = priorities(&columns, positions.len(), 0);
            let expected: Vec<u32> =
                own.iter().enumerate().filter(|(_, own)| below.admits(**own)).map(|(place, _)| place as u32).collect();
            let found = chosen(&rect, below).unwrap();
            prop_assert_eq!(&found, &expected);
            if !found.is_empty() {
                let (narrow, places) = around(&rect, &found);
                let at = |rect: &Rect, place: u32| -> Vec<u64> {
                    unravel(u64::from(place), &rect.count).iter().zip(&rect.start).map(|(at, start)| at + start).collect()
                };
                let before: Vec<Vec<u64>> = found.iter().map(|place| at(&rect, *place)).collect();
                let after: Vec<Vec<u64>> = places.iter().map(|place| at(&narrow, *place)).collect();
                prop_assert_eq!(before, after);
            }
        }
    }
}
