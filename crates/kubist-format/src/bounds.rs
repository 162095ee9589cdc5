//! Bounds of zones, in few bits: between which two numbers the values of each zone lie.
//!
//! All zones of a run share a scale, of at most so many steps between the smallest and the
//! largest bound. Bounds are rounded outwards to its steps, so that no value is left out; the
//! smallest and the largest are exact. Rounding what is rounded changes nothing.

use crate::bits;
use crate::wire::{Reader, Short};

/// The steps that bounds are rounded to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    base: u64,
    top: u64,
    shift: u32,
}

impl Steps {
    /// At most 2^`most_bits` steps from the smallest to the largest bound.
    pub fn between(base: u64, top: u64, most_bits: u32) -> Steps {
        let shift = bits::width_of(top.wrapping_sub(base)).saturating_sub(most_bits);
        Steps { base, top, shift }
    }

    fn step_of(self, bound: u64) -> u64 {
        bound.wrapping_sub(self.base) >> self.shift
    }

    fn low(self, step: u64) -> u64 {
        self.base.wrapping_add(step << self.shift)
    }

    fn high(self, step: u64) -> u64 {
        let last = (step << self.shift) | ((1 << self.shift) - 1);
        self.base.saturating_add(last).min(self.top)
    }

    /// The bounds of a zone as they are stored.
    pub fn rounded(self, min: u64, max: u64) -> (u64, u64) {
        (self.low(self.step_of(min)), self.high(self.step_of(max)))
    }
}

/// Appends bounds: pairs of which none is smaller than the pair of `ends`, or larger.
pub fn put(
    bounds: impl Iterator<Item = (u64, u64)> + Clone,
    (base, top): (u64, u64),
    most_bits: u32,
    out: &mut Vec<u8>,
) {
    let steps = Steps::between(base, top, most_bits);
    put_number(base, out);
    put_number(top.wrapping_sub(base), out);
    if base == top {
        return;
    }
    let lows: Vec<u64> = bounds.clone().map(|(min, _)| steps.step_of(min)).collect();
    let spans: Vec<u64> = bounds.zip(&lows).map(|((_, max), low)| steps.step_of(max).wrapping_sub(*low)).collect();
    for values in [lows, spans] {
        let width = bits::width_of(values.iter().max().copied().unwrap_or(0));
        out.push(width as u8);
        bits::pack(&values, 0, width, out);
    }
}

/// Passes over the bounds of so many zones, which are long enough then.
///
/// # Errors
///
/// [`Short`] if the bytes end too soon.
pub fn skip(reader: &mut Reader<'_>, zones: usize) -> Result<(), Short> {
    number(reader)?;
    if number(reader)? == 0 {
        return Ok(());
    }
    for _ in 0..2 {
        let width = reader.u8()? as u32;
        reader.bytes(if width <= 64 { bits::packed_len(zones, width) } else { usize::MAX })?;
    }
    Ok(())
}

/// The bounds of so many zones: the lower ones and the upper ones.
///
/// # Errors
///
/// [`Short`] if the bytes end too soon.
pub fn read(reader: &mut Reader<'_>, zones: usize, most_bits: u32) -> Result<(Vec<u64>, Vec<u64>), Short> {
    let base = number(reader)?;
    let top = base.wrapping_add(number(reader)?);
    if base == top {
        return Ok((vec![base; zones], vec![base; zones]));
    }
    let steps = Steps::between(base, top, most_bits);
    let mut unpacked = || {
        let width = reader.u8()? as u32;
        let bytes = reader.bytes(bits::packed_len(zones, width))?;
        let mut values: Vec<u64> = Vec::with_capacity(zones + 8);
        bits::unpack(bytes, width, 0..zones, 0, &mut values).ok_or(Short)?;
        Ok(values)
    };
    let (mut low, mut high) = (unpacked()?, unpacked()?);
    for (low, high) in low.iter_mut().zip(&mut high) {
        (*low, *high) = (steps.low(*low), steps.high(low.wrapping_add(*high)));
    }
    Ok((low, high))
}

/// A number behind the count of its bytes.
fn put_number(number: u64, out: &mut Vec<u8>) {
    let bytes = bits::width_of(number).div_ceil(8) as usize;
    out.push(bytes as u8);
    out.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

fn number(reader: &mut Reader<'_>) -> Result<u64, Short> {
    let count = reader.u8()? as usize;
    let mut bytes = [0; 8];
    bytes.get_mut(..count).ok_or(Short)?.copy_from_slice(reader.bytes(count)?);
    Ok(u64::from_le_bytes(bytes))
}
