//! Notes of the unused ranges of segments, without live runs at the time of writing.

use std::ops::Range;

use crate::wire::{Reader, UnexpectedEnd, put_text};

#[derive(Clone, Debug, PartialEq)]
pub struct Holes {
    pub segment: String,
    pub ranges: Vec<Range<u64>>,
}

pub fn encode(holes: &[Holes]) -> Vec<u8> {
    let mut out = Vec::new();
    for Holes { segment, ranges } in holes {
        put_text(segment, &mut out);
        out.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
        for range in ranges {
            out.extend_from_slice(&range.start.to_le_bytes());
            out.extend_from_slice(&range.end.to_le_bytes());
        }
    }
    out
}

/// # Errors
///
/// [`UnexpectedEnd`] if the bytes end too soon.
pub fn decode(bytes: &[u8]) -> Result<Vec<Holes>, UnexpectedEnd> {
    let (mut reader, mut holes) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() {
        let segment = reader.text()?.to_string();
        let ranges =
            (0..reader.u32()?).map(|_| Ok(reader.u64()?..reader.u64()?)).collect::<Result<_, UnexpectedEnd>>()?;
        holes.push(Holes { segment, ranges });
    }
    Ok(holes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_no_part_of_it() {
        let holes = [
            Holes { segment: "ada-1".into(), ranges: vec![4096..8192, 1 << 40..(1 << 40) + 4096] },
            Holes { segment: "rewrite-2".into(), ranges: vec![] },
        ];
        let bytes = encode(&holes);
        assert_eq!(decode(&bytes), Ok(holes.to_vec()));
        assert_eq!(decode(&[]), Ok(vec![]));
        assert_eq!((1..bytes.len()).filter(|end| decode(&bytes[..*end]).is_ok()).count(), 1, "after the first");
    }
}
