//! Long passes over what is in memory, in pieces between which they can be cancelled.
//!
//! A sort of ten million records takes a second in which it could not be stopped; here the
//! work between two looks at the switch is bounded by [`PIECE`], whatever there is to do.

use std::ops::Range;

use crate::cancel::Cancel;
use crate::error::Result;

/// Items between two looks at the switch.
pub const PIECE: usize = 65_536;

/// `0..length` in pieces, before each of which the switch is looked at.
pub fn pieces(length: usize, cancel: &Cancel) -> impl Iterator<Item = Result<Range<usize>>> {
    let firsts = (0..length).step_by(PIECE);
    firsts.map(move |first| cancel.check().map(|()| first..length.min(first + PIECE)))
}

/// Sorts; equal items may change their order. After an error the items are in no order, and some
/// may be there twice.
///
/// # Errors
///
/// `Cancelled`.
pub fn sort<T: Copy + Ord>(items: &mut Vec<T>, cancel: &Cancel) -> Result<()> {
    for piece in pieces(items.len(), cancel) {
        items[piece?].sort_unstable();
    }
    let mut width = PIECE;
    while width < items.len() {
        // What is in order already, as most that comes window by window, is not moved.
        let ordered = (width..items.len()).step_by(width).all(|middle| items[middle - 1] <= items[middle]);
        if ordered {
            return Ok(());
        }
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(left, right, &mut merged, cancel)?;
        }
        *items = merged;
        width = width.saturating_mul(2);
    }
    Ok(())
}

/// Appends both sorted lists, sorted.
fn merge<T: Copy + Ord>(mut left: &[T], mut right: &[T], into: &mut Vec<T>, cancel: &Cancel) -> Result<()> {
    for piece in pieces(left.len() + right.len(), cancel) {
        for _ in piece? {
            match (left.split_first(), right.split_first()) {
                (Some((one, rest)), other) if other.is_none_or(|(other, _)| one <= other) => {
                    into.push(*one);
                    left = rest;
                }
                (_, Some((other, rest))) => {
                    into.push(*other);
                    right = rest;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Numbers without any order, some of them equal.
    fn numbers(count: usize) -> Vec<u64> {
        (0..count as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect()
    }

    #[test]
    fn it_sorts_as_the_standard_library_does() {
        for count in [0, 1, 2, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 17, 7 * PIECE + 1] {
            let mut items = numbers(count);
            let mut expected = items.clone();
            expected.sort_unstable();
            sort(&mut items, &Cancel::default()).unwrap();
            assert!(items == expected, "{count}");
            sort(&mut items, &Cancel::default()).unwrap();
            assert!(items == expected, "{count}, in order");
        }
    }

    #[test]
    fn it_stops_at_any_look_and_looks_after_each_piece() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = |stop: usize| {
            looks.store(0, Ordering::Relaxed);
            let seen = looks.clone();
            Cancel::asking(move || seen.fetch_add(1, Ordering::Relaxed) + 1 >= stop)
        };
        let count = 5 * PIECE + 3;
        sort(&mut numbers(count), &counted(usize::MAX)).unwrap();
        let all = looks.load(Ordering::Relaxed);
        // Six pieces are sorted, and merged three times.
        assert!(all >= 6 * 4, "{all}");
        for stop in 1..=all {
            assert!(sort(&mut numbers(count), &counted(stop)).is_err());
            assert_eq!(looks.load(Ordering::Relaxed), stop);
        }
    }
}
