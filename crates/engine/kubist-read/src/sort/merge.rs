//! Merges sorted runs.

use std::collections::VecDeque;

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;

use super::keys::Keys;
use super::scratch::{Block, BlockRange, Spilled};
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

pub(super) type Run = VecDeque<BlockRange>;

struct Cursor {
    left: Run,
    keys: Keys,
    row: usize,
    /// Index of the current block in `Merge::held`.
    held: usize,
}

impl Cursor {
    fn key(&self) -> &[u8] {
        self.keys.get(self.row)
    }
}

pub(super) struct Merge {
    /// A binary heap with the lowest key on top.
    cursors: Vec<Cursor>,
    /// The blocks that contain the next rows.
    held: Vec<Vec<ArrayRef>>,
    block_rows: usize,
    left: u64,
}

impl Merge {
    /// Merges into blocks of `block_rows` rows, at most `most` rows in total.
    pub fn new(spilled: &Spilled, runs: impl IntoIterator<Item = Run>, block_rows: usize, most: u64) -> Result<Merge> {
        let mut merge = Merge { cursors: Vec::new(), held: Vec::new(), block_rows, left: most };
        for left in runs {
            let mut cursor = Cursor { left, keys: Keys::default(), row: 0, held: 0 };
            if merge.load(spilled, &mut cursor)? {
                merge.cursors.push(cursor);
            }
        }
        for place in (0..merge.cursors.len() / 2).rev() {
            merge.sink(place);
        }
        Ok(merge)
    }

    /// The next block in order; `None` at the end.
    pub fn next(&mut self, spilled: &Spilled, cancel: &Cancel) -> Result<Option<Block>> {
        cancel.check()?;
        let (mut places, mut keys) = (Vec::new(), Keys::default());
        while places.len() < self.block_rows && self.left > 0 && !self.cursors.is_empty() {
            let top = &mut self.cursors[0];
            keys.push(top.key())?;
            places.push((top.held, top.row));
            self.left -= 1;
            top.row += 1;
            if top.row == top.keys.len() {
                let mut cursor = self.cursors.swap_remove(0);
                if self.load(spilled, &mut cursor)? {
                    self.cursors.push(cursor);
                    let last = self.cursors.len() - 1;
                    self.cursors.swap(0, last);
                }
            }
            self.sink(0);
        }
        if places.is_empty() {
            return Ok(None);
        }
        let columns = gather(&self.held, &places)?;
        self.let_go();
        Ok(Some(Block { columns, keys }))
    }

    /// Returns false at the end of the run.
    fn load(&mut self, spilled: &Spilled, cursor: &mut Cursor) -> Result<bool> {
        let Some(place) = cursor.left.pop_front() else { return Ok(false) };
        let Block { columns, keys } = spilled.read(place)?;
        (cursor.keys, cursor.row, cursor.held) = (keys, 0, self.held.len());
        self.held.push(columns);
        Ok(cursor.keys.len() > 0)
    }

    fn let_go(&mut self) {
        let held = self.cursors.iter_mut().enumerate().map(|(place, cursor)| {
            let columns = std::mem::take(&mut self.held[cursor.held]);
            cursor.held = place;
            columns
        });
        self.held = held.collect();
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|below| *below < self.cursors.len());
            let least = below.min_by(|one, other| self.cursors[*one].key().cmp(self.cursors[*other].key()));
            match least.filter(|least| self.cursors[*least].key() < self.cursors[place].key()) {
                Some(least) => {
                    self.cursors.swap(place, least);
                    place = least;
                }
                None => return,
            }
        }
    }
}

/// Each row is a block and its index there.
pub(super) fn gather(blocks: &[Vec<ArrayRef>], places: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
    let columns = blocks.first().map_or(0, Vec::len);
    let of_column = |column: usize| {
        let arrays: Vec<&dyn Array> = blocks.iter().map(|block| block[column].as_ref()).collect();
        interleave(&arrays, places).map_err(Error::kernel)
    };
    (0..columns).map(of_column).collect()
}
