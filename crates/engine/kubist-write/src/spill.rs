//! Distribution of many rows over parts of space, in memory or in scratch files.
//!
//! A part is a cube, chosen from the first rows. The parts cover space without overlap, and a part that becomes too
//! large is split again. The rows are then read part by part, in key order, and parts are small enough to sort several
//! in parallel.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_select::take::take_record_batch;
use kubist_index::cube::{CubeId, KEY_BITS, MortonKey};
use kubist_store::Scratch;
use rayon::prelude::*;

use crate::bucket::Places;
use kubist_catalog::error::store_error;
use kubist_catalog::frame::Frame;
use kubist_types::cancel::Cancel;
use kubist_types::error::{Error, Result};

/// Wanted rows per part, and maximum number of parts. In memory, a part fits in a cache; in scratch files, it is long.
const MEMORY_PARTS: (usize, usize) = (1 << 15, 1024);
const SCRATCH_PARTS: (usize, usize) = (1 << 18, 200);
const SAMPLED_KEYS: usize = 1 << 16;

pub struct Spill {
    frame: Arc<Frame>,
    scratch: Option<Arc<dyn Scratch>>,
    cubes: Vec<CubeId>,
    /// By the highest key bits: the last part that begins at or before them.
    parts: Vec<u32>,
    stored: Vec<Stored>,
}

/// Limit of key bits for this index; enough for 1024 parts.
const MOST_LEADING_BITS: u32 = 15;

#[derive(Clone, Default)]
struct Stored {
    rows: u64,
    bytes: u64,
    extents: Vec<Extent>,
}

#[derive(Clone)]
enum Extent {
    Memory(RecordBatch),
    /// Offset and length of an Arrow IPC stream in the scratch space.
    Scratch(u64, u64),
}

pub struct Part {
    pub cube: CubeId,
    pub rows: u64,
    pub bytes: u64,
    scratch: Option<Arc<dyn Scratch>>,
    extents: Vec<Extent>,
}

impl Spill {
    pub fn new(scratch: Option<Arc<dyn Scratch>>, frame: &Arc<Frame>, batches: &[RecordBatch]) -> Spill {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let step = rows.div_ceil(SAMPLED_KEYS).max(1);
        let sampled = batches.iter().map(|batch| {
            let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).step_by(step));
            take_record_batch(batch, &rows)
        });
        let mut keys: Vec<MortonKey> = sampled.filter_map(|batch| Some(frame.keys(&batch.ok()?))).flatten().collect();
        keys.sort_unstable();
        let geometry = frame.geometry;
        let (part_rows, most_parts) = if scratch.is_none() { MEMORY_PARTS } else { SCRATCH_PARTS };
        let wanted = (keys.len() * part_rows / rows.max(1)).max(keys.len() / most_parts);
        let mut cubes = vec![(geometry.root(), keys.len())];
        loop {
            let splittable =
                |(_, (cube, count)): &(usize, &(CubeId, usize))| cube.level() < geometry.deepest() && *count > wanted;
            let largest = cubes.iter().enumerate().filter(splittable).max_by_key(|(_, (_, count))| *count);
            let Some((index, (cube, _))) = largest else { break };
            if cubes.len() + (1 << geometry.dimensions()) > most_parts + 256 || cubes.len() > most_parts {
                break;
            }
            let count = |cube: CubeId| {
                keys.partition_point(|key| *key <= geometry.last_key(cube))
                    - keys.partition_point(|key| *key < cube.first_key())
            };
            let children: Vec<_> = geometry.children(*cube).map(|child| (child, count(child))).collect();
            cubes.splice(index..=index, children);
        }
        Spill::over(scratch, frame.clone(), cubes.into_iter().map(|(cube, _)| cube).collect())
    }

    fn over(scratch: Option<Arc<dyn Scratch>>, frame: Arc<Frame>, cubes: Vec<CubeId>) -> Spill {
        let stored = vec![Stored::default(); cubes.len()];
        let leading_bits = (cubes.len().ilog2() + 5).min(MOST_LEADING_BITS);
        let mut parts = Vec::with_capacity(1 << leading_bits);
        let mut part = 0;
        for leading in 0..1u128 << leading_bits {
            while part + 1 < cubes.len() && cubes[part + 1].first_key() <= leading << (KEY_BITS - leading_bits) {
                part += 1;
            }
            parts.push(part as u32);
        }
        Spill { frame, scratch, cubes, parts, stored }
    }

    pub fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    fn part_of(&self, key: MortonKey) -> usize {
        let leading = (key >> (KEY_BITS - self.parts.len().ilog2())) as usize;
        let first = self.parts[leading] as usize;
        let last = self.parts.get(leading + 1).map_or(self.cubes.len() - 1, |next| *next as usize);
        first + self.cubes[first + 1..=last].partition_point(|cube| cube.first_key() <= key)
    }

    /// # Errors
    ///
    /// `Cancelled`; `Internal` if Arrow fails; `NoSpace` and other storage errors of the scratch space.
    pub fn add(&mut self, batches: Vec<RecordBatch>, cancel: &Cancel) -> Result<()> {
        // A few at a time, to limit the memory of copies.
        let mut batches = batches.into_iter();
        loop {
            cancel.check()?;
            let few: Vec<RecordBatch> = batches.by_ref().take(2 * rayon::current_num_threads()).collect();
            if few.is_empty() {
                return Ok(());
            }
            let distributed: Vec<Vec<(usize, Stored)>> =
                few.into_par_iter().map(|batch| self.distribute(&batch, cancel)).collect::<Result<_>>()?;
            for (part, mut more) in distributed.into_iter().flatten() {
                let part = &mut self.stored[part];
                part.rows += more.rows;
                part.bytes += more.bytes;
                part.extents.append(&mut more.extents);
            }
        }
    }

    fn distribute(&self, batch: &RecordBatch, cancel: &Cancel) -> Result<Vec<(usize, Stored)>> {
        let keys = self.frame.keys(batch);
        let parts: Vec<u32> = keys.iter().map(|key| self.part_of(*key) as u32).collect();
        let mut ends = vec![0usize; self.cubes.len() + 1];
        parts.iter().for_each(|part| ends[*part as usize + 1] += 1);
        for index in 1..ends.len() {
            ends[index] += ends[index - 1];
        }
        let mut next = ends.clone();
        let place = |part: &u32| {
            let next = &mut next[*part as usize];
            *next += 1;
            *next as u32 - 1
        };
        let places = Places(parts.iter().map(place).collect());
        let sorted = places.scatter_batches(std::slice::from_ref(batch), cancel)?;
        let filled = (0..self.cubes.len()).filter(|part| ends[*part] < ends[part + 1]);
        filled
            .map(|part| {
                let rows = ends[part + 1] - ends[part];
                let slice = sorted.slice(ends[part], rows);
                let (rows, bytes) = (rows as u64, batch_bytes(&slice) as u64);
                let extent = match &self.scratch {
                    None => Extent::Memory(slice),
                    Some(scratch) => {
                        let mut writer = StreamWriter::try_new(Vec::new(), &slice.schema()).map_err(Error::kernel)?;
                        writer.write(&slice).map_err(Error::kernel)?;
                        let bytes = writer.into_inner().map_err(Error::kernel)?;
                        Extent::Scratch(scratch.append(&bytes).map_err(store_error)?, bytes.len() as u64)
                    }
                };
                Ok((part, Stored { rows, bytes, extents: vec![extent] }))
            })
            .collect()
    }

    /// Returns the parts that have rows. With `row_bytes` more for each row, a part takes at most `bound` bytes.
    /// Several parts have the same cube if all its rows are at one grid point.
    ///
    /// # Errors
    ///
    /// `Cancelled`; `Internal` if Arrow fails; a storage error of the scratch space.
    pub fn into_parts(self, row_bytes: usize, bound: usize, cancel: &Cancel) -> Result<Vec<Part>> {
        let (mut parts, geometry) = (Vec::new(), self.frame.geometry);
        for (cube, stored) in self.cubes.into_iter().zip(self.stored).filter(|(_, stored)| stored.rows > 0) {
            let of_rows = |rows: u64, bytes: u64| bytes + rows * row_bytes as u64;
            let scratch = self.scratch.clone();
            if of_rows(stored.rows, stored.bytes) <= bound as u64 {
                let Stored { rows, bytes, extents } = stored;
                parts.push(Part { cube, rows, bytes, scratch, extents });
                continue;
            }
            if cube.level() >= geometry.deepest() {
                let share = of_rows(stored.rows, stored.bytes).div_ceil(bound.max(1) as u64).max(1) as usize;
                let each = stored.extents.len().div_ceil(share).max(1);
                let pieces = stored.extents.len().div_ceil(each) as u64;
                for extents in stored.extents.chunks(each) {
                    let (rows, bytes, extents) = (stored.rows / pieces, stored.bytes / pieces, extents.to_vec());
                    parts.push(Part { cube, rows, bytes, scratch: scratch.clone(), extents });
                }
                continue;
            }
            let mut split = Spill::over(scratch.clone(), self.frame.clone(), geometry.children(cube).collect());
            for extent in stored.extents {
                split.add(read(scratch.as_deref(), extent)?, cancel)?;
            }
            parts.extend(split.into_parts(row_bytes, bound, cancel)?);
        }
        Ok(parts)
    }
}

impl Part {
    pub fn whole(frame: &Frame, batches: Vec<RecordBatch>) -> Part {
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let bytes = batches.iter().map(|batch| batch_bytes(batch) as u64).sum();
        let extents = batches.into_iter().map(Extent::Memory).collect();
        Part { cube: frame.geometry.root(), rows, bytes, scratch: None, extents }
    }

    /// # Errors
    ///
    /// A storage error of the scratch space.
    pub fn load(self) -> Result<Vec<RecordBatch>> {
        let batches = self.extents.into_iter().map(|extent| read(self.scratch.as_deref(), extent));
        Ok(batches.collect::<Result<Vec<_>>>()?.concat())
    }
}

fn read(scratch: Option<&dyn Scratch>, extent: Extent) -> Result<Vec<RecordBatch>> {
    let (offset, length, scratch) = match (extent, scratch) {
        (Extent::Memory(batch), _) => return Ok(vec![batch]),
        (Extent::Scratch(offset, length), Some(scratch)) => (offset, length, scratch),
        (Extent::Scratch(..), None) => unreachable!("extents lie in the scratch space of their spill"),
    };
    let mut buffer = Buffer::from(scratch.read(offset..offset + length).map_err(store_error)?);
    // The decoder's arrays are slices of the buffer.
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    while let Some(batch) = decoder.decode(&mut buffer).map_err(Error::kernel)? {
        batches.push(batch);
    }
    Ok(batches)
}

pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}
