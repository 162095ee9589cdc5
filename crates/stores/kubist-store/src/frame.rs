//! The frames of a log, and the distinction between a torn tail and damage.
//!
//! ```text
//! at position p:  length u32 | crc32c(payload) u32 | crc32c(p, length, the former) u32 | payload
//! ```
//!
//! The head has its own checksum, so a damaged length is never used. This checksum covers the position, so bytes from
//! another position or from an older log are never accepted as a frame.
//!
//! An owner starts an entry only after the previous one is durable, so only the last frame can be unfinished. Therefore
//! **nothing valid follows a torn frame**: if a valid frame follows, the broken frame is damage. The acknowledged
//! length (see `local/logs.rs`) decides the remaining cases.

use bytes::Bytes;

use crate::format::u32_at;
use crate::{BrokenEntry, LogEntry};

pub(crate) const FRAME_HEAD_BYTES: usize = 12;

/// Limit of the bytes that [`next_whole`] examines, as a multiple of the log's length.
const LOOKS: usize = 64;

/// Returns the frame of an entry; `None` if the payload is too long.
pub(crate) fn frame(position: u64, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok()?;
    let payload_checksum = crc32c::crc32c(payload);
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + payload.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&payload_checksum.to_le_bytes());
    frame.extend_from_slice(&head_checksum(position, &frame).to_le_bytes());
    frame.extend_from_slice(payload);
    Some(frame)
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    pub entries: Vec<LogEntry>,
    pub end: u64,
    pub rest: Rest,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// Bytes that an unfinished append may have left.
    Torn {
        bytes: u64,
    },
    /// Bytes that no unfinished append leaves.
    Damaged {
        what: String,
    },
}

/// Parses `bytes` from a frame at `position`. They must extend to the log's end, because an incomplete frame counts as
/// torn. The entries share the memory of `bytes`.
pub(crate) fn frames(bytes: &Bytes, position: u64) -> Frames {
    let mut entries = Vec::new();
    let mut at = 0;
    loop {
        match frame_at(bytes, at, position) {
            Look::Whole { end } => {
                entries
                    .push(LogEntry { position: position + at as u64, bytes: bytes.slice(at + FRAME_HEAD_BYTES..end) });
                at = end;
            }
            look => {
                let end = position + at as u64;
                let rest = rest(bytes, at, position, look);
                return Frames { entries, end, rest };
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub entries: Vec<LogEntry>,
    pub broken: Vec<BrokenEntry>,
    pub end: u64,
}

/// As [`frames`], but continues after damaged frames.
pub(crate) fn pieces(bytes: &Bytes, position: u64) -> Pieces {
    let mut pieces = Pieces { entries: Vec::new(), broken: Vec::new(), end: position };
    let mut at = 0;
    loop {
        let Frames { entries, end, .. } = frames(&bytes.slice(at..), position + at as u64);
        if !entries.is_empty() || pieces.end == position {
            pieces.end = end;
        }
        pieces.entries.extend(entries);
        at = (end - position) as usize;
        if at == bytes.len() {
            return pieces;
        }
        let next = match frame_at(bytes, at, position) {
            Look::BadPayload { end } => end,
            _ => match next_whole(bytes, at + 1, position) {
                Next::Whole(later) => later,
                Next::None | Next::Unknown => bytes.len(),
            },
        };
        let next = next.min(bytes.len());
        let payload = bytes.slice((at + FRAME_HEAD_BYTES).min(next)..next);
        pieces.broken.push(BrokenEntry { position: position + at as u64, bytes: payload });
        at = next;
    }
}

enum Look {
    /// There are no bytes, or fewer than a head has.
    Short,
    BadHead,
    /// The payload, which should end at `end`, is too short or has a wrong checksum.
    BadPayload {
        end: usize,
    },
    Whole {
        end: usize,
    },
}

fn frame_at(bytes: &[u8], at: usize, position: u64) -> Look {
    let Some(head) = bytes.get(at..at + FRAME_HEAD_BYTES) else {
        return Look::Short;
    };
    if u32_at(head, 8) != head_checksum(position + at as u64, &head[..8]) {
        return Look::BadHead;
    }
    let payload_at = at + FRAME_HEAD_BYTES;
    let end = payload_at.saturating_add(u32_at(head, 0) as usize);
    match bytes.get(payload_at..end) {
        Some(payload) if crc32c::crc32c(payload) == u32_at(head, 4) => Look::Whole { end },
        _ => Look::BadPayload { end },
    }
}

enum Next {
    Whole(usize),
    None,
    /// The search ended, because it would examine too many bytes.
    Unknown,
}

/// Searches for a complete frame. Each intact head with a wrong payload costs the payload's length, so without
/// [`LOOKS`] a crafted log could make the search quadratic.
fn next_whole(bytes: &[u8], from: usize, position: u64) -> Next {
    let mut left = LOOKS.saturating_mul(bytes.len());
    for at in from..bytes.len() {
        match frame_at(bytes, at, position) {
            Look::Whole { .. } => return Next::Whole(at),
            Look::BadPayload { end } => match left.checked_sub(end.min(bytes.len()) - at) {
                Some(rest) => left = rest,
                None => return Next::Unknown,
            },
            Look::Short | Look::BadHead => {}
        }
    }
    Next::None
}

fn rest(bytes: &[u8], at: usize, position: u64, look: Look) -> Rest {
    let left = bytes.len() - at;
    if left == 0 {
        return Rest::Nothing;
    }
    let fault = match look {
        Look::BadPayload { end } if end < bytes.len() => Some("an entry's checksum is wrong"),
        Look::BadPayload { .. } | Look::Short | Look::Whole { .. } => None,
        Look::BadHead => match next_whole(bytes, at + 1, position) {
            Next::None => None,
            Next::Whole(_) | Next::Unknown => Some("the head of an entry is wrong"),
        },
    };
    match fault {
        Some(fault) => Rest::Damaged { what: format!("{fault}, and more entries follow") },
        None => Rest::Torn { bytes: left as u64 },
    }
}

fn head_checksum(position: u64, length_and_checksum: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.to_le_bytes()), length_and_checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 16;
    const PAYLOADS: [&[u8]; 4] = [b"first", b"", b"a third entry", b"z"];

    fn log() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut bounds = vec![0];
        for payload in PAYLOADS {
            bytes.extend(frame(START + bytes.len() as u64, payload).unwrap());
            bounds.push(bytes.len());
        }
        (bytes, bounds)
    }

    fn whole_before(bounds: &[usize], at: usize) -> usize {
        bounds.iter().filter(|&&bound| bound <= at).count() - 1
    }

    #[test]
    fn a_whole_log_is_read_back() {
        let (bytes, bounds) = log();
        let found = frames(&bytes.into(), START);
        assert_eq!(found.rest, Rest::Nothing);
        assert_eq!(found.end, START + bounds[4] as u64);
        let payloads: Vec<&[u8]> = found.entries.iter().map(|entry| &entry.bytes[..]).collect();
        assert_eq!(payloads, PAYLOADS);
    }

    #[test]
    fn a_log_cut_at_any_byte_is_torn_there() {
        let (bytes, bounds) = log();
        for length in 0..bytes.len() {
            let found = frames(&Bytes::copy_from_slice(&bytes[..length]), START);
            let whole = whole_before(&bounds, length);
            assert_eq!(found.entries.len(), whole, "cut to {length}");
            assert_eq!(found.end, START + bounds[whole] as u64, "cut to {length}");
            let torn = (length - bounds[whole]) as u64;
            let rest = if torn == 0 { Rest::Nothing } else { Rest::Torn { bytes: torn } };
            assert_eq!(found.rest, rest, "cut to {length}");
        }
    }

    #[test]
    fn a_flipped_bit_is_damage_before_the_last_entry_and_a_torn_tail_in_it() {
        let (bytes, bounds) = log();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = frames(&bad.into(), START);
            let whole = whole_before(&bounds, bit / 8);
            assert_eq!(found.entries.len(), whole, "bit {bit}");
            let last = whole == PAYLOADS.len() - 1;
            match found.rest {
                Rest::Torn { .. } => assert!(last, "bit {bit}"),
                Rest::Damaged { .. } => assert!(!last, "bit {bit}"),
                Rest::Nothing => panic!("bit {bit} went unnoticed"),
            }
        }
    }

    #[test]
    fn what_is_whole_behind_a_flipped_bit_is_found() {
        let (bytes, bounds) = log();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = pieces(&bad.into(), START);
            let hit = whole_before(&bounds, bit / 8);
            let whole: Vec<&[u8]> = found.entries.iter().map(|entry| &entry.bytes[..]).collect();
            let others: Vec<&[u8]> = (0..4).filter(|index| *index != hit).map(|index| PAYLOADS[index]).collect();
            assert_eq!(whole, others, "bit {bit}");
            let broken: Vec<u64> = found.broken.iter().map(|broken| broken.position).collect();
            assert_eq!(broken, [START + bounds[hit] as u64], "bit {bit}");
            assert_eq!(found.broken[0].bytes.len(), PAYLOADS[hit].len(), "bit {bit}");
        }
    }

    #[test]
    fn zeros_and_frames_of_another_position_are_no_frames() {
        let found = frames(&vec![0; 100].into(), START);
        assert_eq!((found.entries.len(), found.rest), (0, Rest::Torn { bytes: 100 }));
        let found = frames(&log().0.into(), START + 1);
        assert_eq!(found.entries.len(), 0);
    }
}
