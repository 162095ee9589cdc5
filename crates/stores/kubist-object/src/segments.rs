//! Segments: objects `segments/NAME/PIECE`, one piece per sync, because an object cannot grow.
//!
//! The high bits of an offset are the number of the piece, and the low bits count the bytes in it, so a reader requests
//! its bytes directly, without a listing. A separate object reserves a segment's name (`segments/NAME/made`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use kubist_store::names::check_part;
use kubist_store::{Error, Request, Result, Segment, Watch};

use crate::client::Link;
use crate::failure::{is_absent, is_behind};
use crate::frame::Kind;
use crate::ranges::{cut_out, requests};
use crate::upload::Upload;

pub const FOLDER: &str = "segments";
const MADE: &str = "made";
/// Number of low bits, which count bytes in a piece: up to 1 TiB.
const PIECE_BITS: u32 = 40;
/// Larger reads first check the piece's length, because damaged data may request anything.
const MAX_SPECULATIVE_BYTES: u64 = 256 << 20;

fn piece_key(name: &str, piece: u64) -> String {
    format!("{FOLDER}/{name}/{piece:08}")
}

fn file(link: &Link, name: &str) -> String {
    link.file(&format!("{FOLDER}/{name}"))
}

/// The piece is `None` for the object that reserves the name.
pub fn of_key(key: &str) -> Option<(&str, Option<u64>)> {
    let (name, piece) = key.strip_prefix(FOLDER)?.strip_prefix('/')?.split_once('/')?;
    Some((name, piece.parse().ok()))
}

pub fn end(pieces: impl Iterator<Item = (u64, u64)>) -> u64 {
    pieces.max().map_or(0, |(piece, length)| (piece << PIECE_BITS) + length)
}

pub async fn create(link: &Link, name: &str) -> Result<Box<dyn Segment>> {
    check_part(name)?;
    match link.put_once(&format!("{FOLDER}/{name}/{MADE}"), Kind::Name, b"").await? {
        true => Ok(Box::new(Growing {
            link: link.clone(),
            name: name.into(),
            piece: 0,
            end: 0,
            upload: None,
            failed: None,
        })),
        false => Err(Error::Exists { file: file(link, name) }),
    }
}

pub async fn lengths(link: &Link, name: &str) -> Result<Option<(u64, u64)>> {
    check_part(name)?;
    let listed = link.list(&format!("{FOLDER}/{name}"), None, usize::MAX).await?;
    if listed.is_empty() {
        return Ok(None);
    }
    let pieces = listed.iter().filter_map(|(key, length)| Some((of_key(key)?.1?, *length)));
    Ok(Some((pieces.clone().map(|(_, length)| length).sum(), end(pieces))))
}

pub async fn delete(link: &Link, name: &str) -> Result<()> {
    check_part(name)?;
    // The reservation is deleted last, so an interrupted deletion can be repeated.
    let made = format!("{FOLDER}/{name}/{MADE}");
    let listed = link.list(&format!("{FOLDER}/{name}"), None, usize::MAX).await?;
    try_join_all(listed.iter().filter(|(key, _)| *key != made).map(|(key, _)| link.delete(key))).await?;
    link.delete(&made).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Whole,
    /// Only the part that the piece has, because a piece does not grow.
    UpToTheEnd,
}

pub async fn read(
    link: &Link,
    name: &str,
    ranges: &[Range<u64>],
    reach: Reach,
    watch: Watch<'_>,
) -> Result<Vec<Bytes>> {
    check_part(name)?;
    let mut pieces: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, range) in ranges.iter().enumerate() {
        let piece = range.start >> PIECE_BITS;
        if range.start > range.end || range.end > range.start && (range.end - 1) >> PIECE_BITS != piece {
            present(link, name).await?;
            return Err(damaged(link, name, range, "no piece of it has these bytes".into()));
        }
        pieces.entry(piece).or_default().push(index);
    }
    let read = pieces.iter().map(async |(piece, indices)| {
        let base = piece << PIECE_BITS;
        let within: Vec<Range<u64>> =
            indices.iter().map(|index| ranges[*index].start - base..ranges[*index].end - base).collect();
        read_piece(link, name, *piece, &within, reach, watch).await
    });
    let mut found = vec![Bytes::new(); ranges.len()];
    for ((_, indices), read) in pieces.iter().zip(join_all(read).await) {
        for (index, bytes) in indices.iter().zip(read?) {
            found[*index] = bytes;
        }
    }
    Ok(found)
}

fn damaged(link: &Link, name: &str, range: &Range<u64>, what: String) -> Error {
    Error::Damaged { file: file(link, name), offset: range.start, what }
}

async fn present(link: &Link, name: &str) -> Result<()> {
    match link.length(&format!("{FOLDER}/{name}/{MADE}")).await? {
        Some(_) => Ok(()),
        None => Err(Error::Missing { file: file(link, name) }),
    }
}

async fn read_piece(
    link: &Link,
    name: &str,
    piece: u64,
    ranges: &[Range<u64>],
    reach: Reach,
    watch: Watch<'_>,
) -> Result<Vec<Bytes>> {
    let key = piece_key(name, piece);
    let asked = Instant::now();
    let made = requests(ranges, link.latency.gap(link.location.parallel));
    let length = |request: &Range<u64>| request.end - request.start;
    let is_little = made
        .iter()
        .try_fold(0u64, |all, request| all.checked_add(length(request)))
        .is_some_and(|all| all <= MAX_SPECULATIVE_BYTES);
    let mut whole = None;
    if made.is_empty() || !is_little {
        whole = Some(piece_length(link, name, piece).await?);
    }
    let inside = |whole: u64| match ranges.iter().find(|range| range.end > whole && reach == Reach::Whole) {
        None => Ok(()),
        Some(range) => {
            let base = piece << PIECE_BITS;
            let what =
                format!("a read needs bytes up to {}, but the segment ends at byte {}", base + range.end, base + whole);
            Err(damaged(link, name, &(base + range.start..0), what))
        }
    };
    whole.map_or(Ok(()), inside)?;
    let answers = join_all(made.iter().map(|request| link.get_part(&key, request.clone()))).await;
    let mut bytes = Vec::with_capacity(answers.len());
    for answer in answers {
        match answer {
            Ok(part) => {
                let count = part.bytes.len() as u64;
                watch(Request {
                    asked,
                    sent: part.sent,
                    answered: part.answered,
                    bytes: count,
                    host: Some(link.host.to_string()),
                    cached: false,
                });
                whole = Some(part.whole);
                bytes.push(part.bytes);
            }
            Err(error) if is_absent(&error) || is_behind(&error) => {
                return Err(match inside(piece_length(link, name, piece).await?) {
                    Err(damage) => damage,
                    // The segment was created in between.
                    Ok(()) => link.failed("read", &key, error),
                });
            }
            Err(error) => return Err(link.failed("read", &key, error)),
        }
    }
    whole.map_or(Ok(()), inside)?;
    let end = whole.filter(|_| reach == Reach::UpToTheEnd).unwrap_or(u64::MAX);
    let cut = |range: &Range<u64>| {
        let short = || damaged(link, name, range, "the service returned fewer bytes than requested".into());
        cut_out(&(range.start.min(end)..range.end.min(end)), &made, &bytes).ok_or_else(short)
    };
    ranges.iter().map(cut).collect()
}

/// The length of a piece; 0 if the segment exists but the piece does not.
async fn piece_length(link: &Link, name: &str, piece: u64) -> Result<u64> {
    match link.length(&piece_key(name, piece)).await? {
        Some(length) => Ok(length),
        None => present(link, name).await.map(|()| 0),
    }
}

struct Growing {
    link: Link,
    name: String,
    piece: u64,
    end: u64,
    upload: Option<Upload>,
    failed: Option<String>,
}

impl Growing {
    fn unless_failed<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(cause) = &self.failed {
            return Err(Error::Refused { file: file(&self.link, &self.name), cause: cause.clone() });
        }
        let done = act(self);
        if let Err(error) = &done {
            self.failed = Some(error.to_string());
        }
        done
    }
}

impl Segment for Growing {
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        self.unless_failed(|segment| {
            if parts.iter().all(|part| part.is_empty()) {
                return Ok(segment.len());
            }
            let upload = segment
                .upload
                .get_or_insert_with(|| Upload::new(&segment.link, piece_key(&segment.name, segment.piece)));
            let offset = (segment.piece << PIECE_BITS) + upload.len();
            parts.iter().try_for_each(|part| upload.append(part))?;
            Ok(offset)
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.unless_failed(|segment| {
            let Some(upload) = segment.upload.take() else { return Ok(()) };
            let end = (segment.piece << PIECE_BITS) + upload.len();
            upload.finish()?;
            (segment.piece, segment.end) = (segment.piece + 1, end);
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.upload.as_ref().map_or(self.end, |upload| (self.piece << PIECE_BITS) + upload.len())
    }

    fn name(&self) -> &str {
        &self.name
    }
}
