//! Membership of values in a list, which one bit decides for most values.

use super::pack;
use crate::cell::Cell;
use arrow_buffer::{BooleanBuffer, i256};
use std::cmp::Ordering;

/// Lists of up to this length are compared value by value.
const FEW: usize = 8;
/// Bits of the hash filter per point: about one of 64 values outside the list passes.
const SIEVE_BITS: usize = 64;
/// Limit of bits in the hash filter, so that it stays in the processor's cache.
const MOST_SIEVE_BITS: usize = 1 << 17;

pub(super) enum ValueSet<T> {
    Few(Vec<T>),
    /// A bitmap with one bit for each integer from the smallest point to the largest.
    Near {
        least: T,
        greatest: T,
        bits: Vec<u64>,
    },
    /// A hash filter: the bit of a hash is set if a point has it.
    Far {
        points: Vec<T>,
        bits: Vec<u64>,
    },
}

impl<T: Cell> ValueSet<T> {
    pub(super) fn whole(points: &[i256], values: usize) -> ValueSet<T> {
        let cells = |points: &[i256]| points.iter().map(|point| T::from_whole(*point)).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return ValueSet::Few(Vec::new()) };
        let between = last.checked_sub(*first).and_then(|all| all.to_i128());
        // Building the bitmap must take no longer than testing the values.
        match between.and_then(|between| usize::try_from(between).ok()) {
            Some(between) if points.len() > FEW && between / 8 <= values => {
                let mut bits = vec![0; between / 64 + 1];
                let least = T::from_whole(*first);
                points.iter().for_each(|point| set(&mut bits, T::from_whole(*point).above(least)));
                ValueSet::Near { least, greatest: T::from_whole(*last), bits }
            }
            _ => ValueSet::any(cells(points)),
        }
    }

    pub(super) fn floats(points: &[f64]) -> ValueSet<T> {
        ValueSet::any(points.iter().map(|point| T::from_float(*point)).collect())
    }

    fn any(points: Vec<T>) -> ValueSet<T> {
        if points.len() <= FEW {
            return ValueSet::Few(points);
        }
        let size = (points.len().saturating_mul(SIEVE_BITS)).min(MOST_SIEVE_BITS).next_power_of_two();
        let mut bits = vec![0; size / 64];
        points.iter().for_each(|point| set(&mut bits, hash(*point, points[0], size)));
        ValueSet::Far { points, bits }
    }

    /// NaN is in neither result.
    pub(super) fn rows(&self, values: &[T], answer: bool) -> BooleanBuffer {
        match self {
            ValueSet::Few(points) => told(values, answer, |value| points.contains(&value)),
            ValueSet::Near { least, greatest, bits } => told(values, answer, |value| {
                (value >= *least) & (value <= *greatest) && is_set(bits, value.above(*least))
            }),
            ValueSet::Far { points, bits } => {
                let size = 64 * bits.len();
                let is_listed = |value: T| {
                    points.binary_search_by(|point| point.partial_cmp(&value).unwrap_or(Ordering::Less)).is_ok()
                };
                told(values, answer, |value| is_set(bits, hash(value, points[0], size)) && is_listed(value))
            }
        }
    }
}

#[inline(always)]
fn told<T: Cell>(values: &[T], answer: bool, found: impl Fn(T) -> bool) -> BooleanBuffer {
    match answer {
        true => pack(values, found),
        false => pack(values, |value| value.partial_cmp(&value).is_some() && !found(value)),
    }
}

#[inline(always)]
fn hash<T: Cell>(value: T, least: T, size: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((value.above(least) as u64).wrapping_mul(GOLDEN) >> (64 - size.trailing_zeros())) as usize
}

fn set(bits: &mut [u64], at: usize) {
    bits[at / 64] |= 1 << (at % 64);
}

#[inline(always)]
fn is_set(bits: &[u64], at: usize) -> bool {
    bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}
