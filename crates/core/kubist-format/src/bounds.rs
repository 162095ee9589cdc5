//! Compact bounds of zones (FORMAT.md, Bounds), rounded outwards to the steps of a scale, so that no value is
//! excluded. Rounding twice changes nothing.
//!
//! A writer chooses the scale that separates the most bounds. Its steps are equal in keys, or equal in values,
//! because keys of floats are far apart around zero. It may have separate first and last steps for outliers such
//! as NaN and -9999.

use kubist_index::order::Keyed;

use crate::bits;
use crate::wire::{Reader, UnexpectedEnd};

/// Scales with more bits than this always have steps of equal keys.
const MOST_FITTED_BITS: u32 = 10;
/// For floats, a scale of equal values must separate 5/4 times as many bounds, or twice as many if outliers lose
/// their order.
const GAIN: (usize, usize) = (5, 4);
const GAIN_OF_CUT_ENDS: (usize, usize) = (2, 1);
/// Outliers are searched in this fraction (1/`FAR_OFF`) of the bounds at either end.
const FAR_OFF: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Numbers with keys at the same distances as the values, or no numbers.
    #[default]
    Keys,
    F32,
    F64,
}

impl Values {
    fn of(self, key: u64) -> f64 {
        match self {
            Values::Keys => f64::NAN,
            Values::F32 => f32::from_key(key).into(),
            Values::F64 => f64::from_key(key),
        }
    }

    fn key(self, value: f64) -> u64 {
        match self {
            Values::F32 => (value as f32).key(),
            _ => value.key(),
        }
    }

    fn finite(self) -> (u64, u64) {
        match self {
            Values::Keys => (0, u64::MAX),
            Values::F32 => (f32::MIN.key(), f32::MAX.key()),
            Values::F64 => (f64::MIN.key(), f64::MAX.key()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Keys {
        shift: u32,
    },
    /// Steps of equal width in values.
    Even {
        values: Values,
        first: f64,
        width: f64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    base: u64,
    top: u64,
    /// The scale covers `low` to `high`; lower and higher keys have one step each.
    low: u64,
    high: u64,
    /// Maximum number of steps, and number of steps of the scale.
    steps: u64,
    inner: u64,
    scale: Scale,
}

impl Steps {
    /// A scale with at most 2^`most_bits` steps of equal keys, from the smallest to the largest bound.
    pub fn between(base: u64, top: u64, most_bits: u32) -> Steps {
        let shift = bits::width_of(top.wrapping_sub(base)).saturating_sub(most_bits);
        let steps = 1 << most_bits;
        Steps { base, top, low: base, high: top, steps, inner: steps, scale: Scale::Keys { shift } }
    }

    /// A scale with equally many steps, one for all keys below `low` and one for all above `high`; `None` if this is
    /// not possible.
    fn within(self, low: u64, high: u64, values: Values) -> Option<Steps> {
        if low < self.base || high > self.top || low >= high || self.steps < 4 {
            return None;
        }
        let inner = self.steps - u64::from(low > self.base) - u64::from(high < self.top);
        let scale = match values {
            Values::Keys => {
                let mut shift = bits::width_of(high - low).saturating_sub(bits::width_of(self.steps - 1));
                shift += u32::from((high - low) >> shift >= inner);
                Scale::Keys { shift }
            }
            _ => {
                let (first, last) = (values.of(low), values.of(high));
                let width = (last - first) / inner as f64;
                (width.is_finite() && width > 0.0).then_some(Scale::Even { values, first, width })?
            }
        };
        Some(Steps { low, high, inner, scale, ..self })
    }

    pub fn fitted(bounds: &[u64], (base, top): (u64, u64), most_bits: u32, values: Values) -> Steps {
        let whole = Steps::between(base, top, most_bits);
        if whole.scale == (Scale::Keys { shift: 0 }) || most_bits > MOST_FITTED_BITS {
            return whole;
        }
        let most = bounds.len().min(whole.steps as usize);
        let better = |(best, told): (Steps, usize), low: u64, high: u64, values: Values, gain: (usize, usize)| {
            let worth_it = |apart: usize| apart * gain.1 >= told * gain.0;
            let steps = whole.within(low, high, values).filter(|_| worth_it(most));
            let found = steps.map(|steps| (steps, distinct_steps(&steps, bounds)));
            found.filter(|(_, apart)| worth_it(*apart)).unwrap_or((best, told))
        };
        let mut best = (whole, distinct_steps(&whole, bounds));
        let (first, last) = values.finite();
        let ends = || bounds.iter().copied().filter(|end| (first..=last).contains(end));
        let found = match first <= base && top <= last {
            true => (Some(base), Some(top)),
            false => (ends().min(), ends().max()),
        };
        let (Some(low), Some(high)) = found else { return whole };
        if values != Values::Keys {
            best = better(best, low, high, values, GAIN);
        }
        if (low, high) != (base, top) {
            best = better(best, low, high, Values::Keys, GAIN);
        }
        if most * GAIN_OF_CUT_ENDS.1 >= best.1 * GAIN_OF_CUT_ENDS.0 {
            let mut ends: Vec<u64> = ends().collect();
            let (far, last) = (ends.len() / FAR_OFF, ends.len() - 1);
            let low = *ends.select_nth_unstable(far).1;
            let high = *ends.select_nth_unstable(last - far).1;
            for values in [Values::Keys, values] {
                best = better(best, low, high, values, GAIN_OF_CUT_ENDS);
            }
        }
        best.0
    }

    fn is_plain(&self) -> bool {
        self.low == self.base && self.high == self.top
    }

    fn before(&self) -> u64 {
        u64::from(self.low > self.base)
    }

    fn first_key(self, inner: u64) -> Option<u64> {
        let key = match self.scale {
            _ if inner == 0 => self.low,
            _ if inner >= self.inner => return None,
            Scale::Keys { shift } => u64::try_from(u128::from(self.low) + (u128::from(inner) << shift)).ok()?,
            Scale::Even { values, first, width } => values.key(first + width * inner as f64),
        };
        (key <= self.high).then_some(key)
    }

    /// For speed, the kind of scale is tested once.
    #[inline(always)]
    fn each_step(&self, bounds: &[u64], put: impl FnMut(u64)) {
        match self.scale {
            Scale::Keys { shift } => self.each(bounds, |bound| (bound - self.low) >> shift, put),
            Scale::Even { values: Values::F32, first, width } => {
                self.each_even(bounds, Values::F32, first, width, 2f64.powi(-22), put);
            }
            Scale::Even { values: _, first, width } => {
                self.each_even(bounds, Values::F64, first, width, 2f64.powi(-48), put);
            }
        }
    }

    /// The steps of a scale of equal values, which are rounded by at most this fraction of the largest.
    #[inline(always)]
    fn each_even(
        &self,
        bounds: &[u64],
        values: Values,
        first: f64,
        width: f64,
        rounded: f64,
        mut put: impl FnMut(u64),
    ) {
        const AT_ONCE: usize = 16;
        /// Marks a step that rounding may have changed.
        const UNSURE: u64 = u64::MAX;
        /// Adding this constant rounds a number to an integer in its lowest bits.
        const WHOLE: f64 = (3u64 << 51) as f64;
        let (low, high, before, most) = (self.low, self.high, self.before(), self.steps - 1);
        // Rounding does not matter far enough from both ends of the step.
        let last = first + width * (self.inner - 1) as f64;
        let sure = (first.abs() + last.abs() + width) / width * rounded;
        for some in bounds.chunks(AT_ONCE) {
            let mut steps = [UNSURE; AT_ONCE];
            for (step, bound) in steps.iter_mut().zip(some) {
                let at = (values.of(*bound) - first) / width;
                let whole = at - 0.5 + WHOLE;
                let beyond = at - (whole - WHOLE);
                let is_sure = (beyond > sure) & (beyond < 1.0 - sure);
                let inner = if is_sure { before + (whole.to_bits() & 0xffff_ffff) } else { UNSURE };
                let inner = if *bound < low { 0 } else { inner };
                *step = if *bound > high { most } else { inner };
            }
            for (step, bound) in steps.iter().zip(some) {
                put(match *step {
                    UNSURE => before + self.even_step(*bound, values, first, width),
                    step => step,
                });
            }
        }
    }

    #[inline(always)]
    fn each(&self, bounds: &[u64], inner: impl Fn(u64) -> u64, mut put: impl FnMut(u64)) {
        let (low, high, before, last) = (self.low, self.high, self.before(), self.steps - 1);
        for bound in bounds {
            put(match *bound {
                bound if bound < low => 0,
                bound if bound > high => last,
                bound => before + inner(bound),
            });
        }
    }

    #[inline(always)]
    fn even_step(&self, bound: u64, values: Values, first: f64, width: f64) -> u64 {
        let most = self.inner as u32 - 1;
        let mut inner = (((values.of(bound) - first) / width) as u32).min(most);
        let first_key = |inner: u32| values.key(first + width * f64::from(inner));
        while inner > 0 && first_key(inner) > bound {
            inner -= 1;
        }
        while inner < most && first_key(inner + 1) <= bound {
            inner += 1;
        }
        inner.into()
    }

    fn step_of(self, bound: u64) -> u64 {
        let mut found = 0;
        self.each_step(&[bound], |step| found = step);
        found
    }

    fn low(self, step: u64) -> u64 {
        let before = self.before();
        match () {
            () if step < before => self.base,
            () if self.high < self.top && step >= self.steps - 1 => self.high + 1,
            () => self.first_key(step - before).unwrap_or(self.high),
        }
    }

    fn high(self, step: u64) -> u64 {
        let before = self.before();
        match () {
            () if step < before => self.low - 1,
            () if step >= self.steps - 1 => self.top,
            () => self.first_key(step - before + 1).map_or(self.high, |next| next.saturating_sub(1).max(self.low)),
        }
    }

    pub fn rounded(self, min: u64, max: u64) -> (u64, u64) {
        (self.low(self.step_of(min)), self.high(self.step_of(max)))
    }

    fn put(self, out: &mut Vec<u8>) {
        put_number(self.base, out);
        put_number(self.top.wrapping_sub(self.base), out);
        if self.base == self.top {
            return;
        }
        let values = match self.scale {
            Scale::Even { values, .. } => values,
            Scale::Keys { .. } => Values::Keys,
        };
        let (below, above) = (self.low - self.base, self.top - self.high);
        out.push(values as u8 | u8::from(below > 0) << 2 | u8::from(above > 0) << 3);
        [below, above].into_iter().filter(|far| *far > 0).for_each(|far| put_number(far, out));
    }

    /// Reads the steps; bounds follow, unless all are equal.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEnd`] if the bytes end too soon or are invalid.
    pub fn read(reader: &mut Reader<'_>, most_bits: u32) -> Result<Steps, UnexpectedEnd> {
        let base = number(reader)?;
        let range = number(reader)?;
        let whole = Steps::between(base, base.checked_add(range).ok_or(UnexpectedEnd)?, most_bits);
        if range == 0 {
            return Ok(whole);
        }
        let flags = reader.u8()?;
        let values = match flags & 3 {
            0 => Values::Keys,
            1 => Values::F32,
            2 => Values::F64,
            _ => return Err(UnexpectedEnd),
        };
        let mut far = |bit: u8| if flags & bit != 0 { number(reader) } else { Ok(0) };
        let (below, above) = (far(4)?, far(8)?);
        if flags >= 16 || below > range || above > range {
            return Err(UnexpectedEnd);
        }
        match values == Values::Keys && below == 0 && above == 0 {
            true => Ok(whole),
            false => whole.within(base + below, whole.top - above, values).ok_or(UnexpectedEnd),
        }
    }
}

bits::vectorised! {
    fn distinct_steps(steps: &Steps, bounds: &[u64]) -> usize {
        let mut seen = [0u8; 1 << MOST_FITTED_BITS];
        steps.each_step(bounds, |step| seen[step as usize % seen.len()] = 1);
        // Sums are bytes as long as they cannot overflow.
        let mut sums = [0u8; 32];
        for some in seen.as_chunks::<32>().0 {
            sums.iter_mut().zip(some).for_each(|(sum, seen)| *sum += seen);
        }
        sums.iter().map(|sum| usize::from(*sum)).sum()
    }
}

bits::vectorised! {
    fn lows_and_spans(steps: &Steps, bounds: &[u64]) -> [Vec<u64>; 2] {
        let mut of_bounds = Vec::with_capacity(bounds.len());
        steps.each_step(bounds, |step| of_bounds.push(step));
        let (zones, _) = of_bounds.as_chunks::<2>();
        let lows = zones.iter().map(|[low, _]| *low).collect();
        [lows, zones.iter().map(|[low, high]| high.wrapping_sub(*low)).collect()]
    }
}

/// Appends the lower and upper bound of each zone, all within the steps.
pub fn put(bounds: &[u64], steps: Steps, out: &mut Vec<u8>) {
    steps.put(out);
    if steps.base == steps.top {
        return;
    }
    for values in lows_and_spans(&steps, bounds) {
        let width = bits::width_of(values.iter().fold(0, |used, value| used | value));
        out.push(width as u8);
        bits::pack(&values, 0, width, out);
    }
}

/// Skips the bounds of `zones` zones and checks that they are complete.
///
/// # Errors
///
/// [`UnexpectedEnd`] if the bytes end too soon or are invalid.
pub fn skip(reader: &mut Reader<'_>, zones: usize, most_bits: u32) -> Result<(), UnexpectedEnd> {
    let steps = Steps::read(reader, most_bits)?;
    if steps.base == steps.top {
        return Ok(());
    }
    for _ in 0..2 {
        let width = reader.u8()? as u32;
        reader.bytes(if width <= 64 { bits::packed_len(zones, width) } else { usize::MAX })?;
    }
    Ok(())
}

/// Reads the lower and upper bounds of `zones` zones.
///
/// # Errors
///
/// [`UnexpectedEnd`] if the bytes end too soon or are invalid.
pub fn read(reader: &mut Reader<'_>, zones: usize, most_bits: u32) -> Result<(Vec<u64>, Vec<u64>), UnexpectedEnd> {
    let steps = Steps::read(reader, most_bits)?;
    if steps.base == steps.top {
        return Ok((vec![steps.base; zones], vec![steps.base; zones]));
    }
    let mut unpacked = || {
        let width = reader.u8()? as u32;
        let bytes = reader.bytes(bits::packed_len(zones, width))?;
        let mut values: Vec<u64> = Vec::with_capacity(zones + 8);
        bits::unpack(bytes, width, 0..zones, 0, &mut values).ok_or(UnexpectedEnd)?;
        Ok(values)
    };
    let (mut low, mut high) = (unpacked()?, unpacked()?);
    high.iter_mut().zip(&low).for_each(|(high, low)| *high = low.wrapping_add(*high));
    match steps.scale {
        Scale::Keys { shift } if steps.is_plain() => of_even_keys(&mut low, &mut high, &steps, shift),
        Scale::Even { values: Values::F32, first, width } if steps.is_plain() => {
            of_even_floats(&mut low, &mut high, &steps, first, width);
        }
        _ => {
            low.iter_mut().for_each(|low| *low = steps.low(*low));
            high.iter_mut().for_each(|high| *high = steps.high(*high));
        }
    }
    Ok((low, high))
}

bits::vectorised! {
    /// [`Steps::low`] and [`Steps::high`] of many zones for plain steps of equal keys.
    fn of_even_keys(low: &mut [u64], high: &mut [u64], steps: &Steps, shift: u32) {
        let last = (steps.high - steps.low) >> shift;
        let first_key = |step: u64| if step > last { steps.high } else { steps.low + (step << shift) };
        low.iter_mut().for_each(|low| *low = first_key(*low));
        // The last step has no successor.
        high.iter_mut().for_each(|high| *high = if *high >= last { steps.top } else { first_key(*high + 1) - 1 });
    }
}

bits::vectorised! {
    fn of_even_floats(low: &mut [u64], high: &mut [u64], steps: &Steps, first: f64, width: f64) {
        let key = |step: u64| u64::from(((first + width * f64::from(step as u32)) as f32).key());
        let most = steps.inner;
        for low in low {
            let key = if *low == 0 { steps.low } else { key(*low) };
            *low = if (*low >= most) | (key > steps.high) { steps.high } else { key };
        }
        for high in high {
            let next = high.saturating_add(1);
            let key = key(next);
            let is_last = (next >= most) | (key > steps.high);
            *high = if is_last { steps.high } else { key.saturating_sub(1).max(steps.low) };
        }
    }
}

fn put_number(number: u64, out: &mut Vec<u8>) {
    let bytes = bits::width_of(number).div_ceil(8) as usize;
    out.push(bytes as u8);
    out.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

fn number(reader: &mut Reader<'_>) -> Result<u64, UnexpectedEnd> {
    let count = reader.u8()? as usize;
    let mut bytes = [0; 8];
    bytes.get_mut(..count).ok_or(UnexpectedEnd)?.copy_from_slice(reader.bytes(count)?);
    Ok(u64::from_le_bytes(bytes))
}
