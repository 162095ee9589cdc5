//! Floats that are multiples of a power of two, stored as integers, which omits the bits of the exponent. The
//! conversion is one exact multiplication.
//!
//! One distinct value of a page may be no multiple, such as an occasional NaN or -0. It gets an integer above
//! all others.

use kubist_index::order::Keyed;

use crate::bits::Word;

const AT_ONCE: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<W> {
    /// The exponent of the power of two whose multiples values are.
    pub(crate) power: i32,
    /// The stored key of the exceptional value, and the bits of the value.
    pub(crate) odd: Option<(W, W)>,
}

pub(super) struct Multiples<W> {
    /// Rows of the exception have an arbitrary key.
    pub(super) keys: Vec<W>,
    pub(super) odd: Option<Exception<W>>,
}

pub(super) struct Exception<W> {
    pub(super) key: W,
    pub(super) rows: Vec<usize>,
}

/// Whether the power of two and its reciprocal are normal floats of this width.
pub(super) fn is_step<W: Word>(power: i32) -> bool {
    let most = if W::BITS == 32 { f32::MAX_EXP } else { f64::MAX_EXP } - 3;
    power.abs() <= most
}

fn single(power: i32) -> f32 {
    f32::from_bits(((power + f32::MAX_EXP - 1) as u32) << (f32::MANTISSA_DIGITS - 1))
}

fn double(power: i32) -> f64 {
    f64::from_bits(((power + f64::MAX_EXP - 1) as u64) << (f64::MANTISSA_DIGITS - 1))
}

/// Floats as integer multiples of 2^`power`; `None` if more than one distinct value is no multiple.
#[inline(always)]
pub(super) fn whole_numbers<W: Word>(keys: &[W], power: i32) -> Option<Multiples<W>> {
    if !is_step::<W>(power) {
        return None;
    }
    match W::BITS {
        32 => {
            let (step, steps) = (single(power), single(-power));
            let to = |key: u64| ((f32::from_key(key) * steps) as i32).key();
            convert(keys, to, |key| (i32::from_key(key) as f32 * step).key())
        }
        _ => {
            let (step, steps) = (double(power), double(-power));
            let to = |key: u64| ((f64::from_key(key) * steps) as i64).key();
            convert(keys, to, |key| (i64::from_key(key) as f64 * step).key())
        }
    }
}

/// Converts the keys of floats by `to`. A key that `back` does not restore is an exception.
#[inline(always)]
fn convert<W: Word>(keys: &[W], to: impl Fn(u64) -> u64, back: impl Fn(u64) -> u64) -> Option<Multiples<W>> {
    let mut whole = Multiples { keys: Vec::with_capacity(keys.len()), odd: None };
    for some in keys.chunks(AT_ONCE) {
        let first = whole.keys.len();
        whole.keys.extend(some.iter().map(|key| W::truncate(to((*key).into()))));
        let is_same = |(key, whole): (&W, &W)| Into::<u64>::into(*key) == back((*whole).into());
        // Almost always true, and tested without a branch per key.
        if some.iter().zip(&whole.keys[first..]).fold(true, |all, pair| all & is_same(pair)) {
            continue;
        }
        for (row, key) in some.iter().enumerate() {
            if !is_same((key, &whole.keys[first + row])) {
                let odd = whole.odd.get_or_insert_with(|| Exception { key: *key, rows: Vec::new() });
                if odd.key != *key {
                    return None;
                }
                odd.rows.push(first + row);
            }
        }
    }
    if let Some(odd) = &whole.odd {
        let is_odd = |row: &usize| odd.rows.binary_search(row).is_ok();
        let other = whole.keys[(0..keys.len()).find(|row| !is_odd(row))?];
        odd.rows.iter().for_each(|row| whole.keys[*row] = other);
    }
    Some(whole)
}

pub(super) fn bits_of_float<W: Word>(key: W) -> W {
    W::truncate(match W::BITS {
        32 => f32::from_key(key.into()).bits(),
        _ => f64::from_key(key.into()).bits(),
    })
}

#[inline(always)]
pub(crate) fn floats<W: Word>(words: &mut [W], shift: u32, steps: Steps<W>) {
    match W::BITS {
        32 => {
            let step = single(steps.power);
            each(words, steps.odd, |word| (i32::from_key(word << shift) as f32 * step).bits());
        }
        _ => {
            let step = double(steps.power);
            each(words, steps.odd, |word| (i64::from_key(word << shift) as f64 * step).bits());
        }
    }
}

#[inline(always)]
fn each<W: Word>(words: &mut [W], odd: Option<(W, W)>, bits: impl Fn(u64) -> u64) {
    match odd {
        None => words.iter_mut().for_each(|word| *word = W::truncate(bits((*word).into()))),
        Some((key, value)) => words.iter_mut().for_each(|word| {
            *word = if *word == key { value } else { W::truncate(bits((*word).into())) };
        }),
    }
}
