//! Splits ranges of an object into requests. Ranges with a small gap form one request, and a long range is split into
//! several, which run in parallel.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Maximum size of a request in bytes; several requests use several connections.
pub const REQUEST: u64 = 8 << 20;

/// The requests that together cover the ranges, without empty requests.
pub fn requests(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|range| range.start < range.end).collect();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => merged.push(range.clone()),
        }
    }
    let cut = |range: Range<u64>| {
        let count = (range.end - range.start).div_ceil(REQUEST);
        let length = (range.end - range.start).div_ceil(count);
        (0..count).map(move |index| {
            let start = range.start + index * length;
            start..(start + length).min(range.end)
        })
    };
    merged.into_iter().flat_map(cut).collect()
}

pub fn cut_out(range: &Range<u64>, requests: &[Range<u64>], answers: &[Bytes]) -> Option<Bytes> {
    let first = requests.partition_point(|request| request.end <= range.start);
    let within = |index: usize| {
        let (request, answer): (&Range<u64>, &Bytes) = (requests.get(index)?, answers.get(index)?);
        let start = range.start.max(request.start).checked_sub(request.start)? as usize;
        let end = (range.end.min(request.end)).checked_sub(request.start)? as usize;
        (start <= end && end <= answer.len()).then(|| answer.slice(start..end))
    };
    if range.start == range.end {
        return Some(Bytes::new());
    }
    if requests.get(first)?.end >= range.end {
        return within(first);
    }
    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
    let last = requests.partition_point(|request| request.start < range.end);
    for index in first..last {
        whole.extend_from_slice(&within(index)?);
    }
    Some(whole.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_cover_the_ranges_and_no_gap_that_is_too_long() {
        assert_eq!(requests(&[10..20, 25..30, 0..5, 40..41, 7..7], 5), [0..30, 40..41]);
        assert_eq!(requests(&[10..20, 25..30], 4), [10..20, 25..30]);
        assert_eq!(requests(&[3..3], 100), Vec::<Range<u64>>::new());
        let long = requests(&[5..5 + 3 * REQUEST + 1], 0);
        assert_eq!(long.len(), 4);
        assert!(long.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((long[0].start, long[3].end), (5, 6 + 3 * REQUEST));
    }

    #[test]
    fn what_was_asked_for_is_cut_out() {
        let bytes: Bytes = (0..=255).collect::<Vec<u8>>().into();
        let made = [0..100, 100..150, 200..256];
        let answers: Vec<Bytes> =
            made.iter().map(|range| bytes.slice(range.start as usize..range.end as usize)).collect();
        for range in [0..100, 5..9, 90..120, 0..150, 149..150, 200..256, 40..40] {
            let found = cut_out(&range, &made, &answers);
            assert_eq!(found, Some(bytes.slice(range.start as usize..range.end as usize)), "{range:?}");
        }
        let short = [answers[0].clone(), answers[1].slice(..20), answers[2].clone()];
        assert_eq!(cut_out(&(90..140), &made, &short), None);
        assert_eq!(cut_out(&(110..119), &made, &short), Some(bytes.slice(110..119)));
    }
}
