//! Extents: byte ranges of a sealed file, each of an object, a log entry, or a piece of a segment.

use std::ops::Range;

/// The random number that identifies a sealed file.
pub type Nonce = [u8; 16];

/// The checksum of bytes at a position of a file. Bytes from another file or position do not match it.
pub fn checksum(nonce: &Nonce, position: u64, bytes: &[u8]) -> u32 {
    let head = crc32c::crc32c_append(crc32c::crc32c(nonce), &position.to_le_bytes());
    crc32c::crc32c_append(head, bytes)
}

/// A range of bytes in the file, with their [`checksum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub position: u64,
    pub length: u64,
    pub checksum: u32,
}

impl Extent {
    /// An empty extent, to which [`Extent::extend`] adds bytes.
    pub fn at(nonce: &Nonce, position: u64) -> Extent {
        Extent { position, length: 0, checksum: checksum(nonce, position, b"") }
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
    }

    pub fn end(&self) -> u64 {
        self.position + self.length
    }

    pub fn range(&self) -> Range<u64> {
        self.position..self.end()
    }
}

/// The extents of a segment, in its order, where the segment's offsets start at 0 and have no gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    all: Vec<Extent>,
    /// The segment's offset at which each extent begins.
    offsets: Vec<u64>,
    length: u64,
}

impl Extents {
    /// Returns `None` and changes nothing if the length would be above `u64::MAX`.
    pub fn push(&mut self, extent: Extent) -> Option<()> {
        let length = self.length.checked_add(extent.length)?;
        self.offsets.push(self.length);
        self.all.push(extent);
        self.length = length;
        Some(())
    }

    /// Adds bytes to the segment, which are at `position` of the file.
    pub fn append(&mut self, nonce: &Nonce, position: u64, bytes: &[u8]) {
        match self.all.last_mut().filter(|last| last.end() == position) {
            Some(last) => {
                last.extend(bytes);
                self.length += bytes.len() as u64;
            }
            None => {
                let mut extent = Extent::at(nonce, position);
                extent.extend(bytes);
                let added = self.push(extent);
                debug_assert!(added.is_some(), "a file is shorter than u64::MAX");
            }
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Extent> {
        self.all.iter()
    }

    /// The ranges of the file that hold a range of the segment; `None` if the segment is shorter.
    pub fn locate(&self, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        if range.start > range.end || range.end > self.length {
            return None;
        }
        let mut parts = Vec::new();
        let first = self.offsets.partition_point(|offset| *offset <= range.start).saturating_sub(1);
        for (extent, offset) in self.all[first..].iter().zip(&self.offsets[first..]) {
            if *offset >= range.end {
                break;
            }
            let (from, to) = (range.start.max(*offset) - offset, range.end.min(offset + extent.length) - offset);
            if from < to {
                parts.push(extent.position + from..extent.position + to);
            }
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lead_to_the_bytes_that_were_appended() {
        let nonce = [7; 16];
        let (mut file, mut segment, mut extents) = (vec![0u8; 32], Vec::new(), Extents::default());
        for (number, gap) in [(5usize, 0usize), (3, 0), (9, 4), (1, 0), (20, 1)] {
            file.resize(file.len() + gap, 0xff);
            let bytes: Vec<u8> = (0..number).map(|byte| (segment.len() + byte) as u8).collect();
            extents.append(&nonce, file.len() as u64, &bytes);
            file.extend(&bytes);
            segment.extend(&bytes);
        }
        assert_eq!((extents.iter().len(), extents.length()), (3, segment.len() as u64));
        for start in 0..=segment.len() {
            for end in start..=segment.len() {
                let parts = extents.locate(&(start as u64..end as u64)).unwrap();
                let found: Vec<u8> =
                    parts.iter().flat_map(|part| &file[part.start as usize..part.end as usize]).copied().collect();
                assert_eq!(found, segment[start..end], "{start}..{end}");
            }
        }
        assert_eq!(extents.locate(&(0..segment.len() as u64 + 1)), None);
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 3..2;
        assert_eq!(extents.locate(&reversed), None);
        for extent in extents.iter() {
            let bytes = &file[extent.position as usize..extent.end() as usize];
            assert_eq!(extent.checksum, checksum(&nonce, extent.position, bytes));
        }
    }
}
