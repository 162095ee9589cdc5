//! Rows beyond memory: distributed over parts of space, in scratch files.
//!
//! A part is a cube; together the parts cover space and none contains another.
//! They are chosen from the first rows so that each gets a small share; a part
//! that outgrows memory all the same is split again before it is loaded. Part by
//! part, in key order, the rows then come back small enough to be sorted in
//! memory.

use std::sync::{Arc, Mutex};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_select::take::take_record_batch;
use kubist_index::cube::{CubeId, Geometry, MortonKey};
use kubist_store::Scratch;
use rayon::prelude::*;

use crate::error::{Error, Result, store_error};
use crate::frame::Frame;
use crate::options::Cancel;

/// A part wants no more than this share of the rows.
const PART_SHARE: usize = 24;
const MOST_PARTS: usize = 200;
const SAMPLED_KEYS: usize = 1 << 16;

pub struct Spill {
    scratch: Arc<dyn Scratch>,
    geometry: Geometry,
    /// Ascending.
    cubes: Vec<CubeId>,
    stored: Mutex<Vec<Stored>>,
}

/// The rows of one part so far.
#[derive(Clone, Default)]
struct Stored {
    rows: u64,
    /// Offset and length in the scratch space of batches as Arrow IPC streams.
    extents: Vec<(u64, u64)>,
}

impl Stored {
    fn bytes(&self) -> u64 {
        self.extents.iter().map(|(_, length)| length).sum()
    }
}

/// The rows of a commit inside one cube.
pub struct Part {
    pub cube: CubeId,
    pub rows: u64,
    source: Source,
}

enum Source {
    Memory(Vec<RecordBatch>),
    Scratch(Arc<dyn Scratch>, Vec<(u64, u64)>),
}

impl Spill {
    /// Chooses parts by the rows at hand.
    pub fn new(scratch: Box<dyn Scratch>, frame: &Frame, batches: &[RecordBatch]) -> Spill {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let step = rows.div_ceil(SAMPLED_KEYS).max(1);
        let sampled = batches.iter().map(|batch| {
            let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).step_by(step));
            take_record_batch(batch, &rows)
        });
        let mut keys: Vec<MortonKey> =
            sampled.filter_map(|batch| Some(frame.places(&batch.ok()?).keys)).flatten().collect();
        keys.sort_unstable();
        let geometry = frame.geometry;
        let mut cubes = vec![(CubeId::ROOT, keys.len())];
        loop {
            let splittable = |(_, (cube, count)): &(usize, &(CubeId, usize))| {
                cube.level() < geometry.deepest() && *count > keys.len() / PART_SHARE
            };
            let largest = cubes.iter().enumerate().filter(splittable).max_by_key(|(_, (_, count))| *count);
            let Some((place, (cube, _))) = largest else { break };
            if cubes.len() + (1 << geometry.dimensions()) > MOST_PARTS + 256 || cubes.len() > MOST_PARTS {
                break;
            }
            let count = |cube: CubeId| {
                keys.partition_point(|key| *key <= geometry.last_key(cube))
                    - keys.partition_point(|key| *key < cube.first_key())
            };
            let children: Vec<_> = geometry.children(*cube).map(|child| (child, count(child))).collect();
            cubes.splice(place..=place, children);
        }
        Spill::over(scratch.into(), geometry, cubes.into_iter().map(|(cube, _)| cube).collect())
    }

    fn over(scratch: Arc<dyn Scratch>, geometry: Geometry, cubes: Vec<CubeId>) -> Spill {
        let stored = Mutex::new(vec![Stored::default(); cubes.len()]);
        Spill { scratch, geometry, cubes, stored }
    }

    /// Distributes batches over the parts.
    pub fn add(&self, frame: &Frame, batches: Vec<RecordBatch>, cancel: &Cancel) -> Result<()> {
        let mut stored = self.stored.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A few batches at a time, so that their copies stay few.
        for few in batches.chunks(2 * rayon::current_num_threads()) {
            cancel.check()?;
            let distributed: Vec<Vec<(usize, u64, Vec<u8>)>> =
                few.par_iter().map(|batch| self.distribute(frame, batch)).collect::<Result<_>>()?;
            for (part, rows, bytes) in distributed.into_iter().flatten() {
                let offset = self.scratch.append(&bytes).map_err(store_error)?;
                stored[part].rows += rows;
                stored[part].extents.push((offset, bytes.len() as u64));
            }
        }
        Ok(())
    }

    /// One batch, part by part: the part, how many rows, and they themselves.
    fn distribute(&self, frame: &Frame, batch: &RecordBatch) -> Result<Vec<(usize, u64, Vec<u8>)>> {
        let keys = frame.places(batch).keys;
        let part_of = |key: &MortonKey| self.cubes.partition_point(|cube| cube.first_key() <= *key) - 1;
        let parts: Vec<u32> = keys.iter().map(|key| part_of(key) as u32).collect();
        let mut ends = vec![0usize; self.cubes.len() + 1];
        parts.iter().for_each(|part| ends[*part as usize + 1] += 1);
        for place in 1..ends.len() {
            ends[place] += ends[place - 1];
        }
        let mut next = ends.clone();
        let mut order = vec![0u32; parts.len()];
        for (row, part) in parts.iter().enumerate() {
            order[next[*part as usize]] = row as u32;
            next[*part as usize] += 1;
        }
        let sorted = take_record_batch(batch, &UInt32Array::from(order))?;
        let filled = (0..self.cubes.len()).filter(|part| ends[*part] < ends[part + 1]);
        filled
            .map(|part| {
                let rows = ends[part + 1] - ends[part];
                let slice = sorted.slice(ends[part], rows);
                let mut writer = StreamWriter::try_new(Vec::new(), &slice.schema())?;
                writer.write(&slice)?;
                Ok((part, rows as u64, writer.into_inner()?))
            })
            .collect()
    }

    /// The parts that hold rows, each small enough that its rows and `row_bytes`
    /// for each of them stay below `bound` (unless all lie on one grid point).
    pub fn into_parts(self, frame: &Frame, row_bytes: usize, bound: usize, cancel: &Cancel) -> Result<Vec<Part>> {
        let stored = self.stored.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut parts = Vec::new();
        for (cube, stored) in self.cubes.into_iter().zip(stored).filter(|(_, stored)| stored.rows > 0) {
            let large = stored.bytes() + stored.rows * row_bytes as u64 > bound as u64;
            if !large || cube.level() >= self.geometry.deepest() {
                let source = Source::Scratch(self.scratch.clone(), stored.extents);
                parts.push(Part { cube, rows: stored.rows, source });
                continue;
            }
            let split = Spill::over(self.scratch.clone(), self.geometry, self.geometry.children(cube).collect());
            for extent in stored.extents {
                split.add(frame, read(self.scratch.as_ref(), extent)?, cancel)?;
            }
            parts.extend(split.into_parts(frame, row_bytes, bound, cancel)?);
        }
        Ok(parts)
    }
}

impl Part {
    /// All rows of a commit that never left memory.
    pub fn in_memory(batches: Vec<RecordBatch>) -> Part {
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        Part { cube: CubeId::ROOT, rows, source: Source::Memory(batches) }
    }

    /// Its batches, in one group, or in several if they would exceed `bound`
    /// bytes (a part that could not be split further).
    pub fn load(self, bound: usize) -> impl Iterator<Item = Result<Vec<RecordBatch>>> {
        let (mut memory, scratch) = match self.source {
            Source::Memory(batches) => (Some(batches), None),
            Source::Scratch(scratch, extents) => (None, Some((scratch, extents.into_iter().peekable()))),
        };
        let mut scratch = scratch;
        std::iter::from_fn(move || {
            if let Some(batches) = memory.take() {
                return Some(Ok(batches));
            }
            let (scratch, extents) = scratch.as_mut()?;
            let (mut group, mut bytes) = (Vec::new(), 0);
            while let Some(extent) = extents.next_if(|(_, length)| bytes == 0 || bytes + length <= bound as u64) {
                bytes += extent.1;
                match read(scratch.as_ref(), extent) {
                    Ok(mut batches) => group.append(&mut batches),
                    Err(error) => return Some(Err(error)),
                }
            }
            (!group.is_empty()).then_some(Ok(group))
        })
    }
}

fn read(scratch: &dyn Scratch, (offset, length): (u64, u64)) -> Result<Vec<RecordBatch>> {
    let bytes = scratch.read(offset..offset + length).map_err(store_error)?;
    let reader = StreamReader::try_new(bytes.as_ref(), None)?;
    reader.map(|batch| batch.map_err(Error::from)).collect()
}
