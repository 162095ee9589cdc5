//! Cancellable work over data in memory, with at most [`PIECE`] items between two checks.

use std::convert::Infallible;
use std::ops::Range;

pub trait Stop {
    type Stopped;

    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    fn look(&self) -> Result<(), Self::Stopped>;
}

pub struct Never;

impl Stop for Never {
    type Stopped = Infallible;

    fn look(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

pub const PIECE: usize = 65_536;

/// Divides `0..length` into ranges of at most [`PIECE`] items, with a check before each.
pub fn pieces<S: Stop>(length: usize, stop: &S) -> impl Iterator<Item = Result<Range<usize>, S::Stopped>> {
    let firsts = (0..length).step_by(PIECE);
    firsts.map(move |first| stop.look().map(|()| first..length.min(first + PIECE)))
}

pub struct Steps<'a, S> {
    stop: &'a S,
    left: usize,
}

impl<'a, S: Stop> Steps<'a, S> {
    pub fn new(stop: &'a S) -> Steps<'a, S> {
        Steps { stop, left: PIECE }
    }

    /// # Errors
    ///
    /// `Stopped` if the work was cancelled.
    pub fn step(&mut self, items: usize) -> Result<(), S::Stopped> {
        match self.left.checked_sub(items) {
            Some(left) => self.left = left,
            None => {
                self.stop.look()?;
                self.left = PIECE;
            }
        }
        Ok(())
    }
}

/// Sorts unstably; after an error, the order is undefined and there may be duplicates.
///
/// # Errors
///
/// `Stopped` if the work was cancelled.
pub fn sort<T: Copy + Ord, S: Stop>(items: &mut Vec<T>, stop: &S) -> Result<(), S::Stopped> {
    for piece in pieces(items.len(), stop) {
        items[piece?].sort_unstable();
    }
    let mut width = PIECE;
    while width < items.len() {
        // Sorted input, which is common, is not moved.
        let ordered = (width..items.len()).step_by(width).all(|middle| items[middle - 1] <= items[middle]);
        if ordered {
            return Ok(());
        }
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(left, right, &mut merged, stop)?;
        }
        *items = merged;
        width = width.saturating_mul(2);
    }
    Ok(())
}

fn merge<T: Copy + Ord, S: Stop>(
    mut left: &[T],
    mut right: &[T],
    into: &mut Vec<T>,
    stop: &S,
) -> Result<(), S::Stopped> {
    for piece in pieces(left.len() + right.len(), stop) {
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
    use std::cell::Cell;

    use super::*;

    struct Counted {
        looks: Cell<usize>,
        stop: usize,
    }

    impl Counted {
        fn until(stop: usize) -> Counted {
            Counted { looks: Cell::new(0), stop }
        }
    }

    impl Stop for Counted {
        type Stopped = ();

        fn look(&self) -> Result<(), ()> {
            self.looks.set(self.looks.get() + 1);
            if self.looks.get() >= self.stop { Err(()) } else { Ok(()) }
        }
    }

    fn numbers(count: usize) -> Vec<u64> {
        (0..count as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect()
    }

    #[test]
    fn it_sorts_as_the_standard_library_does() {
        for count in [0, 1, 2, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 17, 7 * PIECE + 1] {
            let mut items = numbers(count);
            let mut expected = items.clone();
            expected.sort_unstable();
            let Ok(()) = sort(&mut items, &Never);
            assert!(items == expected, "{count}");
            let Ok(()) = sort(&mut items, &Never);
            assert!(items == expected, "{count}, in order");
        }
    }

    #[test]
    fn it_stops_at_any_look_and_looks_after_each_piece() {
        let count = 5 * PIECE + 3;
        let unstopped = Counted::until(usize::MAX);
        sort(&mut numbers(count), &unstopped).unwrap();
        let all = unstopped.looks.get();
        assert!(all >= 6 * 4, "{all}");
        for stop in 1..=all {
            let counted = Counted::until(stop);
            assert!(sort(&mut numbers(count), &counted).is_err());
            assert_eq!(counted.looks.get(), stop);
        }
    }

    #[test]
    fn steps_look_once_a_piece() {
        let counted = Counted::until(4);
        let mut steps = Steps::new(&counted);
        let done = (0..100 * PIECE).take_while(|_| steps.step(1).is_ok()).count();
        assert!((3 * PIECE..=4 * (PIECE + 1)).contains(&done), "{done}");
    }
}
