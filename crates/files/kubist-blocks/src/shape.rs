//! The division of an array into chunks and blocks, and rectangles of positions in it.
//!
//! A *chunk* is a rectangle that the file stores, and often compresses, as one piece. An array without chunks is one
//! chunk. A *block* is the unit of the index, which stores the bounds of its values. Each chunk is divided into blocks
//! of equal shape, so no block is in two chunks.
//!
//! Chunks are numbered from 0 with the last axis fastest. Block numbers count the blocks of the first chunk, then of
//! the next chunk, and so on. The array cuts off chunks at the end of an axis, so some of their blocks may be empty;
//! these have numbers too.

use kubist_types::{Error, Result};

const MOST_POSITIONS: u64 = 1 << 56;

/// A rectangle with any number of axes: `count` positions from `start` on, per axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rect {
    pub start: Vec<u64>,
    pub count: Vec<u64>,
}

impl Rect {
    pub fn whole(shape: &[u64]) -> Rect {
        Rect { start: vec![0; shape.len()], count: shape.to_vec() }
    }

    pub fn len(&self) -> u64 {
        self.count.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    /// Returns the common rectangle, or `None`.
    pub fn intersect(&self, other: &Rect) -> Option<Rect> {
        let mut both = self.clone();
        for axis in 0..self.start.len() {
            let start = self.start[axis].max(other.start[axis]);
            let end = (self.start[axis] + self.count[axis]).min(other.start[axis] + other.count[axis]);
            if end <= start {
                return None;
            }
            (both.start[axis], both.count[axis]) = (start, end - start);
        }
        Some(both)
    }

    fn cut(&self, axis: usize, at: u64) -> (Rect, Rect) {
        let (mut below, mut above) = (self.clone(), self.clone());
        below.count[axis] = at - self.start[axis];
        (above.start[axis], above.count[axis]) = (at, self.count[axis] - below.count[axis]);
        (below, above)
    }

    /// The rectangle on these axes only, in this order.
    pub fn project(&self, axes: &[usize]) -> Rect {
        let of = |values: &[u64]| axes.iter().map(|axis| values[*axis]).collect();
        Rect { start: of(&self.start), count: of(&self.count) }
    }

    /// Calls `each` with every combination of positions on the axes before `axis`, and with the start of the other
    /// axes. If `axis` is the number of axes, this is every position of the rectangle.
    pub fn rows(&self, axis: usize, each: &mut dyn FnMut(&[u64])) {
        if self.is_empty() {
            return;
        }
        let mut position = self.start.clone();
        loop {
            each(&position);
            let mut at = axis;
            loop {
                if at == 0 {
                    return;
                }
                at -= 1;
                position[at] += 1;
                if position[at] < self.start[at] + self.count[at] {
                    break;
                }
                position[at] = self.start[at];
            }
        }
    }
}

/// The distance of neighbours along each axis, in positions of the flattened array.
pub fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Number of positions in an array.
///
/// # Errors
///
/// `Invalid` if there are more than 2^56.
pub fn positions(shape: &[u64]) -> Result<u64> {
    let product = shape.iter().try_fold(1u64, |product, length| product.checked_mul(*length));
    match product {
        Some(product) if product <= MOST_POSITIONS && shape.iter().all(|length| *length <= MOST_POSITIONS) => {
            Ok(product)
        }
        _ => Err(Error::Invalid(format!("an array of shape {shape:?} is too large"))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    block: Vec<u64>,
    /// Number of chunks along each axis of the array.
    chunks: Vec<u64>,
    /// Number of blocks along each axis of a chunk.
    inner: Vec<u64>,
}

impl Tiling {
    /// Takes the shapes of the array, of a chunk and of a block, and shrinks a block that is larger than the chunk.
    ///
    /// # Errors
    ///
    /// `Invalid` if a length is zero, the shapes have different numbers of axes, or there are too many blocks.
    pub fn new(shape: &[u64], chunk: &[u64], block: &[u64]) -> Result<Tiling> {
        let odd = || {
            Error::Invalid(format!("chunks of {chunk:?} with blocks of {block:?} do not tile an array of {shape:?}"))
        };
        if chunk.len() != shape.len() || block.len() != shape.len() || chunk.contains(&0) || block.contains(&0) {
            return Err(odd());
        }
        positions(shape)?;
        let block: Vec<u64> = block.iter().zip(chunk).map(|(block, chunk)| *block.min(chunk)).collect();
        let ceil = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a.div_ceil(*b)).collect::<Vec<u64>>();
        let (chunks, inner) = (ceil(shape, chunk), ceil(chunk, &block));
        let total = chunks.iter().chain(&inner).try_fold(1u64, |all, next| all.checked_mul(*next));
        if total.is_none_or(|total| total > MOST_POSITIONS) {
            return Err(odd());
        }
        Ok(Tiling { shape: shape.to_vec(), chunk: chunk.to_vec(), block, chunks, inner })
    }

    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    pub fn block(&self) -> &[u64] {
        &self.block
    }

    pub fn chunks(&self) -> u64 {
        self.chunks.iter().product()
    }

    pub fn blocks_in_chunk(&self) -> u64 {
        self.inner.iter().product()
    }

    /// Number of blocks, including empty ones.
    pub fn blocks(&self) -> u64 {
        self.chunks() * self.blocks_in_chunk()
    }

    /// Number of blocks that are not empty.
    pub fn filled(&self) -> u64 {
        let along = |axis: usize| {
            let (length, chunk, block) = (self.shape[axis], self.chunk[axis], self.block[axis]);
            length / chunk * self.inner[axis] + (length % chunk).div_ceil(block)
        };
        (0..self.shape.len()).map(along).product()
    }

    pub fn chunk_of(&self, block: u64) -> u64 {
        block / self.blocks_in_chunk()
    }

    pub fn chunk_rect(&self, chunk: u64) -> Rect {
        let at = unravel(chunk, &self.chunks);
        let start: Vec<u64> = at.iter().zip(&self.chunk).map(|(at, length)| at * length).collect();
        self.clipped(start, &self.chunk)
    }

    /// The positions of a block; empty for some blocks in the last chunks.
    pub fn rect(&self, block: u64) -> Rect {
        let chunk = self.chunk_rect(self.chunk_of(block));
        let at = unravel(block % self.blocks_in_chunk(), &self.inner);
        let axes = 0..self.shape.len();
        let start: Vec<u64> = axes.clone().map(|axis| chunk.start[axis] + at[axis] * self.block[axis]).collect();
        let count = axes
            .map(|axis| (chunk.start[axis] + chunk.count[axis]).saturating_sub(start[axis]).min(self.block[axis]))
            .collect();
        Rect { start, count }
    }

    fn clipped(&self, start: Vec<u64>, length: &[u64]) -> Rect {
        let count = (0..start.len()).map(|axis| self.shape[axis].saturating_sub(start[axis]).min(length[axis]));
        Rect { count: count.collect(), start }
    }

    /// The chunks that overlap `rect`, which must not be empty, as a rectangle in the grid of chunks.
    fn spans(&self, rect: &Rect) -> Rect {
        let span = |axis: usize| {
            let first = rect.start[axis] / self.chunk[axis];
            let last = (rect.start[axis] + rect.count[axis] - 1) / self.chunk[axis];
            (first, last - first + 1)
        };
        let (start, count) = (0..self.shape.len()).map(span).unzip();
        Rect { start, count }
    }

    pub fn count_over(&self, rect: &Rect) -> u64 {
        if rect.is_empty() { 0 } else { self.spans(rect).len() }
    }

    /// The numbers of the chunks that overlap `rect`, ascending.
    pub fn chunks_over(&self, rect: &Rect) -> Vec<u64> {
        let mut found = Vec::new();
        if rect.is_empty() {
            return found;
        }
        let strides = strides(&self.chunks);
        self.spans(rect).rows(self.shape.len(), &mut |at| {
            found.push(at.iter().zip(&strides).map(|(at, stride)| at * stride).sum());
        });
        found
    }

    /// The numbers of a chunk's blocks that overlap `rect`, ascending.
    pub fn blocks_of(&self, chunk: u64, rect: &Rect) -> impl Iterator<Item = u64> {
        let mut found = Vec::new();
        let of = self.chunk_rect(chunk);
        if let Some(part) = of.intersect(rect) {
            let strides = strides(&self.inner);
            let span = |axis: usize| {
                let first = (part.start[axis] - of.start[axis]) / self.block[axis];
                let last = (part.start[axis] - of.start[axis] + part.count[axis] - 1) / self.block[axis];
                (first, last - first + 1)
            };
            let (start, count) = (0..self.shape.len()).map(span).unzip();
            Rect { start, count }.rows(self.shape.len(), &mut |at| {
                let inner: u64 = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
                found.push(chunk * self.blocks_in_chunk() + inner);
            });
        }
        found.into_iter()
    }

    /// The numbers of all blocks that overlap `rect`, ascending.
    pub fn blocks_over(&self, rect: &Rect) -> Vec<u64> {
        self.chunks_over(rect).into_iter().flat_map(|chunk| self.blocks_of(chunk, rect)).collect()
    }

    /// Splits a rectangle into two, between chunks, or between blocks if it is within one chunk. It cuts the axis with
    /// the most chunks (or blocks) near its middle. `None` if the rectangle is within one block, or empty.
    pub fn halves(&self, rect: &Rect) -> Option<(Rect, Rect)> {
        if rect.is_empty() {
            return None;
        }
        let chunks = self.spans(rect);
        let many = |pieces: &Rect| (0..pieces.count.len()).max_by_key(|axis| pieces.count[*axis]);
        let axis = many(&chunks)?;
        if chunks.count[axis] > 1 {
            return Some(rect.cut(axis, (chunks.start[axis] + chunks.count[axis] / 2) * self.chunk[axis]));
        }
        let origin: Vec<u64> = chunks.start.iter().zip(&self.chunk).map(|(at, length)| at * length).collect();
        let span = |axis: usize| {
            let first = (rect.start[axis] - origin[axis]) / self.block[axis];
            let last = (rect.start[axis] - origin[axis] + rect.count[axis] - 1) / self.block[axis];
            (first, last - first + 1)
        };
        let (start, count) = (0..self.shape.len()).map(span).unzip();
        let blocks = Rect { start, count };
        let axis = many(&blocks)?;
        let middle = origin[axis] + (blocks.start[axis] + blocks.count[axis] / 2) * self.block[axis];
        (blocks.count[axis] > 1).then(|| rect.cut(axis, middle))
    }
}

/// The position of a linear number in an array with these lengths.
pub fn unravel(mut number: u64, lengths: &[u64]) -> Vec<u64> {
    let mut at = vec![0; lengths.len()];
    for axis in (0..lengths.len()).rev() {
        at[axis] = number % lengths[axis].max(1);
        number /= lengths[axis].max(1);
    }
    at
}

/// Chooses the shape of a block with at most `bytes` bytes within a chunk. With `cubes`, it halves the longest axis
/// until the block fits, so all axes have similar lengths. Otherwise the last axes stay complete, so a block is
/// contiguous in the file.
pub fn block_shape(chunk: &[u64], element_bytes: u64, bytes: u64, cubes: bool) -> Vec<u64> {
    let most = (bytes / element_bytes).max(1);
    let mut block: Vec<u64> = chunk.iter().map(|length| (*length).max(1)).collect();
    let size = |block: &[u64]| block.iter().fold(1u64, |size, length| size.saturating_mul(*length));
    if cubes {
        while size(&block) > most {
            let Some(longest) = (0..block.len()).max_by_key(|axis| block[*axis]) else { break };
            block[longest] = block[longest].div_ceil(2);
        }
        return block;
    }
    for axis in 0..block.len() {
        let below = size(&block[axis + 1..]);
        if below.saturating_mul(block[axis]) <= most {
            break;
        }
        block[axis] = (most / below).clamp(1, block[axis]);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_tile_the_array(
            lengths in proptest::collection::vec((1u64..9, 1u64..5, 1u64..4), 1..4),
            corner in proptest::collection::vec((0u64..9, 1u64..9), 3),
        ) {
            let (shape, rest): (Vec<u64>, Vec<(u64, u64)>) = lengths.iter().map(|(a, b, c)| (*a, (*b, *c))).unzip();
            let (chunk, block): (Vec<u64>, Vec<u64>) = rest.into_iter().unzip();
            let tiling = Tiling::new(&shape, &chunk, &block).unwrap();
            let strides = strides(&shape);
            let mut owner = vec![None; positions(&shape).unwrap() as usize];
            for id in 0..tiling.blocks() {
                tiling.rect(id).rows(shape.len(), &mut |at| {
                    let index: u64 = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
                    assert_eq!(owner[index as usize].replace(id), None);
                });
            }
            prop_assert!(owner.iter().all(Option::is_some));
            let filled = (0..tiling.blocks()).filter(|block| !tiling.rect(*block).is_empty()).count();
            prop_assert_eq!(tiling.filled(), filled as u64);
            let part = Rect {
                start: shape.iter().zip(&corner).map(|(length, (start, _))| start % length).collect(),
                count: shape.iter().zip(&corner).map(|(length, (start, count))| (*count).min(length - start % length)).collect(),
            };
            let mut expected: Vec<u64> = Vec::new();
            part.rows(shape.len(), &mut |at| {
                let index: u64 = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
                expected.extend(owner[index as usize]);
            });
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(tiling.blocks_over(&part), expected.clone());
            prop_assert_eq!(tiling.count_over(&part), tiling.chunks_over(&part).len() as u64);
            let (mut open, mut leaves) = (vec![part.clone()], Vec::new());
            while let Some(rect) = open.pop() {
                match tiling.halves(&rect) {
                    Some((one, other)) => {
                        prop_assert_eq!(one.len() + other.len(), rect.len());
                        open.extend([one, other]);
                    }
                    None => leaves.extend(tiling.blocks_over(&rect)),
                }
            }
            leaves.sort_unstable();
            prop_assert_eq!(leaves, expected);
        }
    }

    #[test]
    fn blocks_fit_their_bytes() {
        assert_eq!(block_shape(&[100, 180, 360], 4, 64 << 10, false), [1, 45, 360]);
        assert_eq!(block_shape(&[100, 10, 10], 4, 64 << 10, false), [100, 10, 10]);
        assert_eq!(block_shape(&[1 << 20], 4, 64 << 10, false), [1 << 14]);
        assert_eq!(block_shape(&[64, 64, 64], 4, 16 << 10, true), [16, 16, 16]);
        assert_eq!(block_shape(&[2, 1 << 20], 8, 64 << 10, false), [1, 8192]);
    }

    #[test]
    fn hostile_shapes_are_errors() {
        assert!(Tiling::new(&[u64::MAX, 2], &[1, 1], &[1, 1]).is_err());
        assert!(Tiling::new(&[4], &[0], &[1]).is_err());
        assert!(Tiling::new(&[4, 4], &[2], &[1]).is_err());
    }
}
