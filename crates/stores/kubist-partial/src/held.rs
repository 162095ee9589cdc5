//! The copy's own store: its log of held pieces, and the segments with their bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kubist_store::{Error, LogOwner, Result, Segment, Store, StoreExt};

use crate::format::{Entry, HELD, HELD_SEGMENT, Wrong};
use crate::index::{Index, PIECE_BYTES, Piece};

/// The state that the log says.
#[derive(Debug, Default)]
pub struct Held {
    pub index: Index,
    pub manifest: Option<u64>,
    /// The queries that the copy is made for, and whether all their bytes are held.
    pub wanted: Vec<(Bytes, bool)>,
    read_to: u64,
}

impl Held {
    /// Reads the new entries of the log.
    ///
    /// # Errors
    ///
    /// `Damaged`; `Newer`; a storage error.
    pub fn catch_up(&mut self, store: &dyn Store) -> Result<()> {
        let tail = match store.read_log(HELD, self.read_to) {
            // A copy that was just begun.
            Err(Error::Missing { .. }) if self.read_to == 0 => return Ok(()),
            tail => tail?,
        };
        for entry in tail.entries {
            let bad = |wrong| explained(store, HELD, entry.position, wrong);
            self.apply(Entry::decode(&entry.bytes).map_err(bad)?);
        }
        self.read_to = tail.next;
        Ok(())
    }

    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Manifest(number) => self.manifest = Some(number),
            Entry::Wanted { is_held, query } => {
                self.wanted.retain(|(known, _)| *known != query);
                self.wanted.push((query.into(), is_held));
            }
            Entry::Held(pieces) => pieces.into_iter().for_each(|(segment, piece)| self.index.add(&segment, piece)),
            Entry::Forgotten { segment, range } => self.index.forget(&segment, &range),
        }
    }
}

pub fn explained(store: &dyn Store, name: &str, offset: u64, wrong: Wrong) -> Error {
    let file = format!("{}/{name}", store.location());
    match wrong {
        Wrong::Damaged => Error::Damaged { file, offset, what: "it is no part of a partial copy".into() },
        Wrong::Newer(found) => Error::Newer { file, found, known: crate::format::VERSION },
    }
}

/// The right to add pieces, which one process has.
pub struct Keeper {
    log: Box<dyn LogOwner>,
    segment: Box<dyn Segment>,
    held_in: Arc<str>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Keeper({:?})", self.held_in)
    }
}

impl Keeper {
    /// # Errors
    ///
    /// `Busy` while another process has it; `NoSpace`; a storage error.
    pub fn begin(store: &dyn Store, held: &mut Held) -> Result<Keeper> {
        let log = store.own_log(HELD)?;
        held.catch_up(store)?;
        let random = getrandom::u64().map_err(|error| Error::Io {
            operation: "name a segment of",
            file: store.location().into(),
            source: std::io::Error::other(error),
        })?;
        let name = format!("{HELD_SEGMENT}{random:016x}");
        let segment = store.create_segment(&name)?;
        Ok(Keeper { log, segment, held_in: name.into() })
    }

    /// # Errors
    ///
    /// `NoSpace`; a storage error. The keeper cannot be used afterwards.
    pub fn note(&mut self, held: &mut Held, entry: Entry) -> Result<()> {
        held.read_to = self.log.append(&entry.encode())?;
        held.apply(entry);
        Ok(())
    }

    /// Makes ranges of segments durable, then lists them.
    ///
    /// # Errors
    ///
    /// `NoSpace`; a storage error. The keeper cannot be used afterwards.
    pub fn keep(&mut self, held: &mut Held, arrived: &[(&str, Range<u64>, Bytes)]) -> Result<()> {
        let mut pieces = Vec::new();
        for (segment, range, bytes) in arrived {
            for (number, part) in bytes.chunks(PIECE_BYTES as usize).enumerate() {
                let start = range.start + number as u64 * PIECE_BYTES;
                let offset = self.segment.append(&[part])?;
                let range = start..start + part.len() as u64;
                let piece = Piece { range, held_in: self.held_in.clone(), offset, checksum: crc32c::crc32c(part) };
                pieces.push(((*segment).to_owned(), piece));
            }
        }
        let entry = Entry::Held(pieces);
        held.read_to = self.log.append_after(self.segment.as_mut(), &entry.encode())?;
        held.apply(entry);
        Ok(())
    }
}

/// Reads pieces and compares their checksums.
///
/// # Errors
///
/// `Damaged` names the file of the copy; a storage error.
pub fn read(store: &dyn Store, pieces: &[Piece]) -> Result<Vec<Bytes>> {
    let mut found = Vec::with_capacity(pieces.len());
    for of_segment in pieces.chunk_by(|one, next| one.held_in == next.held_in) {
        let place = |piece: &Piece| piece.offset..piece.offset + (piece.range.end - piece.range.start);
        let ranges: Vec<Range<u64>> = of_segment.iter().map(place).collect();
        let held_in = &of_segment[0].held_in;
        let bytes = store.read_watched(held_in, &ranges, &|_| {})?;
        for (piece, bytes) in of_segment.iter().zip(&bytes) {
            if crc32c::crc32c(bytes) != piece.checksum {
                let file = format!("{}/segments/{held_in}.seg", store.location());
                let what = "the checksum of a held piece is wrong (`kubist deepen` fetches it again)".into();
                return Err(Error::Damaged { file, offset: piece.offset, what });
            }
        }
        found.extend(bytes);
    }
    Ok(found)
}
