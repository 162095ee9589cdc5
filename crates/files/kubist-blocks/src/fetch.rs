//! Reads the values of rectangles: finds their byte ranges in the file, reads neighbouring ranges together if this is
//! faster, and decodes them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_select::take::take;
use kubist_types::{Cancel, Error, Result};

use crate::decode;
use crate::layout::{Chunk, Layout, Storage, Variable};
use crate::model::{Piece, merged};
use crate::pages;
use crate::shape::{Rect, Tiling, positions, strides};
use crate::source::{Reads, Source};

pub const LONGEST_READ: u64 = 8 << 20;

enum At {
    File(u64),
    Chunk(u64),
    Fill(u64),
}

struct Part {
    rect: Rect,
    origin: Vec<u64>,
    dense: Vec<u64>,
    at: At,
}

pub struct Fetched<'a> {
    source: &'a Source,
    variable: &'a Variable,
    pieces: Vec<(u64, Vec<u8>)>,
    chunks: HashMap<u64, Vec<u8>>,
    /// Data that the library read, by the start of the rectangle.
    whole: HashMap<Vec<u64>, Vec<u8>>,
    /// Ascending ranges of rows, and the values of their pages.
    rows: Option<(Vec<Range<u64>>, ArrayRef)>,
}

pub enum FetchedValues<'a> {
    Stored(Cow<'a, [u8]>),
    Array(ArrayRef),
}

/// Calls `each` for every run along the trailing axes, with its first element in the dense array, its first element in
/// the rectangle, and its length.
fn runs(part: &Part, rect: &Rect, each: &mut dyn FnMut(u64, u64, u64)) {
    let (from, to) = (strides(&part.dense), strides(&rect.count));
    let last = rect.count.len() - 1;
    let mut axis = last;
    while axis > 0 && part.rect.count[axis] == part.dense[axis] && part.rect.count[axis] == rect.count[axis] {
        axis -= 1;
    }
    let length: u64 = part.rect.count[axis..].iter().product();
    part.rect.rows(axis, &mut |position| {
        let place = |origin: &[u64], strides: &[u64]| -> u64 {
            position.iter().zip(origin).zip(strides).map(|((at, origin), stride)| (at - origin) * stride).sum()
        };
        each(place(&part.origin, &from), place(&rect.start, &to), length);
    });
}

/// The parts of a rectangle. The error names a chunk that is shorter than its values.
fn parts(layout: &Layout, variable: &Variable, rect: &Rect) -> Result<Vec<Part>> {
    let shape = layout.shape(variable);
    let width = variable.number.bytes();
    Ok(match &variable.storage {
        Storage::Contiguous { offset } => {
            let origin = vec![0; shape.len()];
            vec![Part { rect: rect.clone(), origin, dense: shape, at: At::File(*offset) }]
        }
        Storage::Records { offset, stride } => (0..rect.count[0])
            .map(|record| {
                let record = rect.start[0] + record;
                let mut part = rect.clone();
                (part.start[0], part.count[0]) = (record, 1);
                let mut origin = vec![0; shape.len()];
                origin[0] = record;
                let mut dense = shape.clone();
                dense[0] = 1;
                Part { rect: part, origin, dense, at: At::File(offset + record * stride) }
            })
            .collect(),
        Storage::Chunks { shape: chunk, filters, fill, table } => {
            let tiling = Tiling::new(&shape, chunk, chunk)?;
            let of = |number: u64| {
                let own = tiling.chunk_rect(number);
                let at = match find(table, number) {
                    None => At::Fill(*fill),
                    Some(stored) if is_plain(stored, filters.len()) => {
                        let bytes = positions(chunk)? * width;
                        if stored.bytes < bytes {
                            return Err(Error::invalid(format!(
                                "chunk {number} of variable {:?} is too short",
                                variable.name
                            )));
                        }
                        At::File(stored.offset)
                    }
                    Some(_) => At::Chunk(number),
                };
                let part =
                    own.intersect(rect).unwrap_or(Rect { start: own.start.clone(), count: vec![0; shape.len()] });
                Ok(Part { rect: part, origin: own.start, dense: chunk.clone(), at })
            };
            tiling.chunks_over(rect).into_iter().map(of).collect::<Result<_>>()?
        }
        Storage::Library { .. } | Storage::Pages { .. } => Vec::new(),
    })
}

/// The byte ranges of a rectangle, ascending.
fn pieces(layout: &Layout, variable: &Variable, rect: &Rect) -> Result<Vec<Piece>> {
    if let Storage::Pages { table, .. } = &variable.storage {
        let mut pieces = pages::pieces(table, rect);
        pieces.sort_unstable_by_key(|piece| piece.offset);
        return Ok(pieces);
    }
    let width = variable.number.bytes();
    let mut pieces = Vec::new();
    for part in parts(layout, variable, rect)? {
        match (&part.at, &variable.storage) {
            (At::File(offset), _) => runs(&part, rect, &mut |from, _, length| {
                pieces.push(Piece { offset: offset + from * width, bytes: length * width });
            }),
            (At::Chunk(number), Storage::Chunks { table, .. }) => {
                pieces.extend(find(table, *number).map(|chunk| Piece { offset: chunk.offset, bytes: chunk.bytes }));
            }
            _ => {}
        }
    }
    pieces.sort_unstable_by_key(|piece| piece.offset);
    Ok(pieces)
}

/// The byte range of the values; `None` if no value is stored, or if only the library knows it.
///
/// # Errors
///
/// `Invalid` if a chunk is shorter than its values.
pub fn extent(layout: &Layout, variable: &Variable, rect: &Rect) -> Result<Option<(u64, u64)>> {
    let pieces = pieces(layout, variable, rect)?;
    let end = pieces.iter().map(Piece::end).max();
    Ok(pieces.first().map(|piece| piece.offset).zip(end))
}

impl Source {
    fn damaged(&self, variable: &Variable, chunk: &Chunk, why: &str) -> Error {
        Error::Damaged {
            file: self.path().display().to_string(),
            offset: chunk.offset,
            what: format!("chunk {} of variable {:?}: {why}", chunk.number, variable.name),
        }
    }

    /// Reads rectangles. With `continues`, the first request starts where the last one ended.
    ///
    /// # Errors
    ///
    /// `Damaged` names the variable and the chunk; a storage error; `Cancelled`.
    pub fn fetch<'a>(
        &'a self,
        variable: &'a Variable,
        rects: &[Rect],
        gap: u64,
        continues: bool,
        reads: &Reads,
        cancel: &Cancel,
    ) -> Result<Fetched<'a>> {
        let mut fetched = Fetched {
            source: self,
            variable,
            pieces: Vec::new(),
            chunks: HashMap::new(),
            whole: HashMap::new(),
            rows: None,
        };
        let width = variable.number.bytes();
        if variable.needs_library().is_some() {
            for rect in rects {
                reads.by_library.fetch_add(1, Ordering::Relaxed);
                let read = self.library()?.read(self.path(), &variable.name, rect, rect.len() * width, cancel)?;
                fetched.whole.insert(rect.start.clone(), read);
            }
            return Ok(fetched);
        }
        let mut pieces = Vec::new();
        for rect in rects {
            pieces.extend(self::pieces(&self.layout, variable, rect)?);
        }
        pieces.sort_unstable_by_key(|piece| (piece.offset, piece.bytes));
        pieces.dedup();
        let requests = merged(&pieces, gap, u64::MAX);
        let calls = merged(&pieces, gap, LONGEST_READ);
        let count = requests.len() as u64 - u64::from(continues && !requests.is_empty());
        reads.requests.fetch_add(count, Ordering::Relaxed);
        for call in calls {
            cancel.check()?;
            reads.bytes.fetch_add(call.bytes, Ordering::Relaxed);
            fetched.pieces.push((call.offset, self.read(call.offset, call.bytes)?));
        }
        match &variable.storage {
            Storage::Pages { leaf, table } => {
                let ranges = ranges(rects);
                let first = fetched.pieces.first().map_or(0, |(offset, _)| *offset);
                let held = std::mem::take(&mut fetched.pieces);
                let read = self.columns()?.read(*leaf, &variable.data_type(), table, &ranges, held);
                let values = read.map_err(|error| Error::Damaged {
                    file: self.path().display().to_string(),
                    offset: first,
                    what: format!("pages of column {:?} from row {}: {error}", variable.name, ranges[0].start),
                })?;
                fetched.rows = Some((ranges, values));
            }
            _ => fetched.decode(rects)?,
        }
        Ok(fetched)
    }
}

/// The ranges along one axis, ascending, with adjacent ranges joined.
fn ranges(rects: &[Rect]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = rects.iter().map(|rect| rect.start[0]..rect.start[0] + rect.count[0]).collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut ranges: Vec<Range<u64>> = Vec::with_capacity(all.len());
    for range in all {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    ranges
}

fn find(table: &[Chunk], number: u64) -> Option<&Chunk> {
    table.binary_search_by_key(&number, |chunk| chunk.number).ok().map(|at| &table[at])
}

fn is_plain(chunk: &Chunk, filters: usize) -> bool {
    (0..filters).all(|filter| chunk.skipped >> filter & 1 == 1)
}

impl Fetched<'_> {
    fn decode(&mut self, rects: &[Rect]) -> Result<()> {
        let Storage::Chunks { shape, filters, table, .. } = &self.variable.storage else { return Ok(()) };
        let width = self.variable.number.bytes();
        let raw = (positions(shape)? * width) as usize;
        for rect in rects {
            for part in parts(&self.source.layout, self.variable, rect)? {
                let At::Chunk(number) = part.at else { continue };
                if self.chunks.contains_key(&number) {
                    continue;
                }
                let Some(chunk) = find(table, number) else { continue };
                let stored = self.stored(chunk.offset, chunk.bytes)?;
                let decoded = decode::unfilter(stored, filters, chunk.skipped, width as usize, raw)
                    .map_err(|why| self.source.damaged(self.variable, chunk, &why))?;
                self.chunks.insert(number, decoded);
            }
        }
        if !filters.is_empty() && table.iter().all(|chunk| !is_plain(chunk, filters.len())) {
            self.pieces.clear();
        }
        Ok(())
    }

    fn stored(&self, offset: u64, bytes: u64) -> Result<&[u8]> {
        let after = self.pieces.partition_point(|(begin, _)| *begin <= offset);
        let found = after.checked_sub(1).and_then(|at| {
            let (begin, held) = &self.pieces[at];
            held.get((offset - begin) as usize..)?.get(..bytes as usize)
        });
        found.ok_or_else(|| Error::internal(format!("{bytes} bytes at {offset} were not read")))
    }

    /// The values of a fetched rectangle. They are not copied if they are contiguous.
    ///
    /// # Errors
    ///
    /// As for `fetch`.
    pub fn found(&self, rect: &Rect) -> Result<FetchedValues<'_>> {
        if let Some(bytes) = self.whole.get(&rect.start) {
            return Ok(FetchedValues::Stored(bytes.into()));
        }
        if let Some(values) = self.of_pages(rect)? {
            return Ok(FetchedValues::Array(values));
        }
        let parts = parts(&self.source.layout, self.variable, rect)?;
        if let [part] = &parts[..]
            && part.rect == *rect
            && let Some(bytes) = self.in_one_piece(part, rect)?
        {
            return Ok(FetchedValues::Stored(bytes.into()));
        }
        let mut out = vec![0; (rect.len() * self.variable.number.bytes()) as usize];
        for part in &parts {
            self.copy(part, rect, &mut out)?;
        }
        Ok(FetchedValues::Stored(out.into()))
    }

    /// # Errors
    ///
    /// As for `fetch`.
    pub fn array(&self, rect: &Rect) -> Result<ArrayRef> {
        Ok(match self.found(rect)? {
            FetchedValues::Stored(bytes) => decode::array(self.variable, &bytes),
            FetchedValues::Array(values) => values,
        })
    }

    /// # Errors
    ///
    /// As for `fetch`.
    pub fn at(&self, rect: &Rect, places: &[u32]) -> Result<ArrayRef> {
        match self.found(rect)? {
            FetchedValues::Stored(bytes) => {
                let width = self.variable.number.bytes() as usize;
                let mut cells = Vec::with_capacity(places.len() * width);
                places.iter().for_each(|at| cells.extend_from_slice(&bytes[*at as usize * width..][..width]));
                Ok(decode::array(self.variable, &cells))
            }
            FetchedValues::Array(values) => {
                take(&values, &UInt32Array::from(places.to_vec()), None).map_err(Error::kernel)
            }
        }
    }

    fn of_pages(&self, rect: &Rect) -> Result<Option<ArrayRef>> {
        let Some((ranges, values)) = &self.rows else { return Ok(None) };
        let mut before = 0;
        for range in ranges {
            if range.start <= rect.start[0] && rect.start[0] + rect.count[0] <= range.end {
                let first = before + (rect.start[0] - range.start);
                return Ok(Some(values.slice(first as usize, rect.count[0] as usize)));
            }
            before += range.end - range.start;
        }
        Err(Error::internal(format!("rows from {} on were not read", rect.start[0])))
    }

    fn in_one_piece(&self, part: &Part, rect: &Rect) -> Result<Option<&[u8]>> {
        let width = self.variable.number.bytes();
        let (mut count, mut first) = (0, 0);
        runs(part, rect, &mut |from, _, _| {
            count += 1;
            first = from;
        });
        if count != 1 {
            return Ok(None);
        }
        let bytes = rect.len() * width;
        match &part.at {
            At::File(offset) => self.stored(offset + first * width, bytes).map(Some),
            At::Chunk(number) => {
                let from = (first * width) as usize;
                Ok(self.chunks.get(number).and_then(|chunk| chunk.get(from..from + bytes as usize)))
            }
            At::Fill(_) => Ok(None),
        }
    }

    fn copy(&self, part: &Part, rect: &Rect, out: &mut [u8]) -> Result<()> {
        let width = self.variable.number.bytes() as usize;
        let mut outcome = Ok(());
        runs(part, rect, &mut |from, to, length| {
            let bytes = length as usize * width;
            let to = &mut out[to as usize * width..][..bytes];
            match &part.at {
                At::Fill(fill) => {
                    let value = decode::stored(self.variable, *fill);
                    to.chunks_exact_mut(width).for_each(|cell| cell.copy_from_slice(&value));
                }
                At::File(offset) => match self.stored(offset + from * width as u64, bytes as u64) {
                    Ok(stored) => to.copy_from_slice(stored),
                    Err(error) => outcome = Err(error),
                },
                At::Chunk(number) => {
                    let from = from as usize * width;
                    match self.chunks.get(number).and_then(|chunk| chunk.get(from..from + bytes)) {
                        Some(stored) => to.copy_from_slice(stored),
                        None => outcome = Err(Error::internal(format!("chunk {number} was not decoded"))),
                    }
                }
            }
        });
        outcome
    }
}
