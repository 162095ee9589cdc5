//! A number literal keeps its decimal digits until it is compared with a column. Only then is `0.1` a 32-bit float, a
//! 64-bit float, an exact decimal or a position between two integers.

use arrow_buffer::i256;
use std::cmp::Ordering;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BinWidth {
    pub mantissa: i128,
    pub exponent: i32,
}

impl BinWidth {
    pub(crate) fn as_f64(self) -> f64 {
        let power = 10f64.powi(self.exponent.abs());
        if self.exponent < 0 { self.mantissa as f64 / power } else { self.mantissa as f64 * power }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Finite(Decimal),
    Infinite { negative: bool },
    NaN,
}

/// `digits * 10^exponent`, with a sign. The digits have no leading and trailing zeros, and zero has no digits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
    /// Written without point and exponent, so that arithmetic treats it as an integer.
    whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Floor {
    Below,
    /// `exact` means that the number equals the integer.
    At {
        floor: i256,
        exact: bool,
    },
    Above,
}

pub(crate) const MOST_WIDTH_DIGITS: usize = 15;
const WIDEST: i64 = 77;

impl Decimal {
    /// Reads `12`, `1.5`, `.5`, `5.`, `1e-5`, without a sign; `None` for other text.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, power) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if integer.len() + fraction.len() == 0 || !all_digits(integer) || !all_digits(fraction) {
            return None;
        }
        let shift = match power {
            None => 0,
            Some(power) => {
                let (sign, size) = match power.strip_prefix('-') {
                    Some(size) => (-1, size),
                    None => (1, power.strip_prefix('+').unwrap_or(power)),
                };
                if size.is_empty() || !all_digits(size) {
                    return None;
                }
                sign * size.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
            }
        };
        let digits = format!("{integer}{fraction}");
        let whole = power.is_none() && !mantissa.contains('.');
        Some(Decimal::normalised(false, &digits, shift - fraction.len() as i64, whole))
    }

    pub(crate) fn from_integer(value: i128) -> Decimal {
        Decimal::normalised(value < 0, &value.unsigned_abs().to_string(), 0, true)
    }

    fn normalised(negative: bool, digits: &str, exponent: i64, whole: bool) -> Decimal {
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        let exponent = exponent + (digits.len() - significant.len()) as i64;
        let exponent = if significant.is_empty() { 0 } else { exponent };
        Decimal { negative, digits: significant.to_owned(), exponent, whole }
    }

    pub(crate) fn digits(&self) -> usize {
        self.digits.len()
    }

    pub(crate) fn negated(self) -> Decimal {
        Decimal { negative: !self.negative, ..self }
    }

    /// Rounded to at most `most` digits, at least 1.
    pub(crate) fn rounded(&self, most: usize) -> Decimal {
        let Some((kept, rest)) = self.digits.split_at_checked(most).filter(|(_, rest)| !rest.is_empty()) else {
            return self.clone();
        };
        let up = rest.as_bytes()[0] >= b'5';
        let mut written: Vec<u8> = format!("0{kept}").into_bytes();
        let mut place = written.len() - 1;
        while up && written[place] == b'9' {
            written[place] = b'0';
            place -= 1;
        }
        written[place] += u8::from(up);
        let exponent = self.exponent.saturating_add(rest.len() as i64);
        let digits: String = written.into_iter().map(char::from).collect();
        Decimal { negative: self.negative, ..Decimal::normalised(false, &digits, exponent, false) }
    }

    pub(crate) fn times(&self, other: &Decimal) -> Decimal {
        let digits = |number: &Decimal| number.digits.bytes().rev().map(|digit| u32::from(digit - b'0')).collect();
        let (one, two): (Vec<u32>, Vec<u32>) = (digits(self), digits(other));
        // Each position sums at most 1,100 products of two digits, which fit in 32 bits.
        let mut places = vec![0u32; one.len() + two.len() + 1];
        for (i, a) in one.iter().enumerate() {
            for (j, b) in two.iter().enumerate() {
                places[i + j] += a * b;
            }
        }
        let mut carried = 0;
        let written = places.iter().map(|place| {
            let sum = place + carried;
            carried = sum / 10;
            char::from(b'0' + (sum % 10) as u8)
        });
        let mut written: Vec<char> = written.collect();
        written.reverse();
        let exponent = self.exponent.saturating_add(other.exponent);
        let whole = self.whole && other.whole;
        let product = Decimal::normalised(false, &String::from_iter(written), exponent, whole);
        Decimal { negative: self.negative != other.negative, ..product }
    }

    /// The exact sum; `None` beyond the digits of a 256-bit integer.
    pub(crate) fn plus(&self, other: &Decimal) -> Option<Decimal> {
        let exponent = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.exponent,
            (_, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let scaled = |number: &Decimal| match number.floor(-exponent) {
            Floor::At { floor, exact: true } => Some(floor),
            _ => None,
        };
        let sum = scaled(self)?.checked_add(scaled(other)?)?;
        let text = sum.to_string();
        let digits = text.trim_start_matches('-');
        Some(Decimal::normalised(sum.is_negative(), digits, exponent, self.whole && other.whole))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(crate) fn floor(&self, scale: i64) -> Floor {
        if self.is_zero() {
            return Floor::At { floor: i256::ZERO, exact: true };
        }
        let exponent = self.exponent.saturating_add(scale);
        let length = self.digits.len() as i64;
        let beyond = if self.negative { Floor::Below } else { Floor::Above };
        if exponent.saturating_add(length) > WIDEST {
            return beyond;
        }
        let (integer, exact) = if exponent >= 0 {
            (format!("{}{}", self.digits, "0".repeat(exponent as usize)), true)
        } else if length + exponent > 0 {
            (self.digits[..(length + exponent) as usize].to_owned(), false)
        } else {
            ("0".to_owned(), false)
        };
        let Some(magnitude) = i256::from_string(&integer) else { return beyond };
        let floor = match (self.negative, exact) {
            (false, _) => magnitude,
            (true, true) => magnitude.wrapping_neg(),
            (true, false) => magnitude.wrapping_neg().wrapping_sub(i256::ONE),
        };
        Floor::At { floor, exact }
    }

    /// The integer, if the number was written as one and fits.
    pub(crate) fn as_integer(&self) -> Option<i128> {
        match self.floor(0) {
            Floor::At { floor, exact: true } if self.whole => floor.to_i128(),
            _ => None,
        }
    }

    /// The bin width, if the number is positive and has few enough digits.
    pub(crate) fn as_width(&self) -> Option<BinWidth> {
        if self.negative
            || self.is_zero()
            || self.digits.len() > MOST_WIDTH_DIGITS
            || !(-300..=300).contains(&self.exponent)
        {
            return None;
        }
        let whole = match self.floor(0) {
            Floor::At { floor, exact: true } => floor.to_i128(),
            _ => None,
        };
        let width = match whole {
            Some(mantissa) => BinWidth { mantissa, exponent: 0 },
            None => BinWidth { mantissa: self.digits.parse().ok()?, exponent: self.exponent as i32 },
        };
        width.as_f64().is_finite().then_some(width)
    }

    /// The nearest double; infinity if the number is too large.
    pub(crate) fn as_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    pub(crate) fn compare(&self, other: &Decimal) -> Ordering {
        let sign = |number: &Decimal| match (number.is_zero(), number.negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        };
        let magnitude = |number: &Decimal| number.exponent.saturating_add(number.digits.len() as i64);
        sign(self).cmp(&sign(other)).then_with(|| {
            let larger = magnitude(self).cmp(&magnitude(other)).then_with(|| self.digits.cmp(&other.digits));
            if self.negative { larger.reverse() } else { larger }
        })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        match (self.is_zero(), self.exponent) {
            (true, _) => write!(f, "{sign}0"),
            (false, 0) => write!(f, "{sign}{}", self.digits),
            (false, 1..=40) => write!(f, "{sign}{}{}", self.digits, "0".repeat(self.exponent as usize)),
            (false, exponent) => write!(f, "{sign}{}e{exponent}", self.digits),
        }
    }
}

impl Number {
    /// A double that can have a fraction is converted through its shortest decimal text, a larger one exactly.
    pub(crate) fn from_f64(value: f64) -> Number {
        if value.is_nan() {
            return Number::NaN;
        }
        let negative = value.is_sign_negative();
        let size = value.abs();
        if size.is_infinite() {
            return Number::Infinite { negative };
        }
        let text = if size < 9_007_199_254_740_992.0 { format!("{size:e}") } else { format!("{size:.0}") };
        match Decimal::parse(&text) {
            Some(decimal) => Number::Finite(Decimal { negative, whole: false, ..decimal }),
            None => Number::NaN,
        }
    }

    pub(crate) fn negated(self) -> Number {
        match self {
            Number::Finite(decimal) => Number::Finite(decimal.negated()),
            Number::Infinite { negative } => Number::Infinite { negative: !negative },
            Number::NaN => Number::NaN,
        }
    }

    pub(crate) fn as_f64(&self) -> f64 {
        match self {
            Number::Finite(decimal) => decimal.as_f64(),
            Number::Infinite { negative: false } => f64::INFINITY,
            Number::Infinite { negative: true } => f64::NEG_INFINITY,
            Number::NaN => f64::NAN,
        }
    }

    /// The exact order of two numbers; `None` if one is NaN.
    pub(crate) fn compare(&self, other: &Number) -> Option<Ordering> {
        match (self, other) {
            (Number::NaN, _) | (_, Number::NaN) => None,
            (Number::Finite(left), Number::Finite(right)) => Some(left.compare(right)),
            (Number::Infinite { negative: a }, Number::Infinite { negative: b }) => Some(b.cmp(a)),
            (Number::Infinite { negative }, _) => Some(if *negative { Ordering::Less } else { Ordering::Greater }),
            (_, Number::Infinite { negative }) => Some(if *negative { Ordering::Greater } else { Ordering::Less }),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Finite(decimal) => decimal.fmt(f),
            Number::Infinite { negative: false } => f.write_str("inf"),
            Number::Infinite { negative: true } => f.write_str("-inf"),
            Number::NaN => f.write_str("nan"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(floor: i128, exact: bool) -> Floor {
        Floor::At { floor: i256::from_i128(floor), exact }
    }

    fn number(text: &str) -> Decimal {
        match text.strip_prefix('-') {
            Some(size) => Decimal { negative: true, ..Decimal::parse(size).unwrap() },
            None => Decimal::parse(text).unwrap(),
        }
    }

    #[test]
    fn floors_are_exact() {
        assert_eq!(number("2.5").floor(0), at(2, false));
        assert_eq!(number("-2.5").floor(0), at(-3, false));
        assert_eq!(number("-0.001").floor(0), at(-1, false));
        assert_eq!(number("2.50").floor(1), at(25, true));
        assert_eq!(number("1e3").floor(0), at(1000, true));
        assert_eq!(number("1e3").floor(-3), at(1, true));
        assert_eq!(number("0.000e99").floor(0), at(0, true));
        assert_eq!(number("1e77").floor(0), Floor::Above);
        assert_eq!(number("-1e999999999999999999999").floor(0), Floor::Below);
        assert_eq!(number("1e-999999999999999999999").floor(0), at(0, false));
    }

    #[test]
    fn products_are_exact() {
        assert_eq!(number("20").times(&number("0.000001")).to_string(), "2e-5");
        assert_eq!(number("-12.5").times(&number("8")).to_string(), "-100");
        assert_eq!(number("0").times(&number("8")).to_string(), "0");
        let sum = |one: &str, two: &str| number(one).plus(&number(two)).map(|sum| sum.to_string());
        assert_eq!(sum("273.15", "-0.15").as_deref(), Some("273"));
        assert_eq!(sum("-1e-3", "0").as_deref(), Some("-1e-3"));
        assert_eq!(sum("1e80", "1"), None);
        assert_eq!(number("19.996").rounded(4).to_string(), "20");
        assert_eq!(number("-0.12344").rounded(4).to_string(), "-1234e-4");
        let nines = number(&"9".repeat(30)).times(&number(&"9".repeat(30)));
        assert_eq!(nines.to_string(), format!("{}8{}1", "9".repeat(29), "0".repeat(29)));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", ".", "e5", "1e", "1e+", "1.2.3", "0x10", "1_000", "-1", "+1"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn doubles_come_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            let back = Number::from_f64(value).as_f64();
            prop_assert!(back == value || (back.is_nan() && value.is_nan()));
        }

        #[test]
        fn order_is_the_order_of_values(a in -2000i128..2000, b in -2000i128..2000, s in 0usize..4, t in 0usize..4) {
            let text = |n: i128, digits: usize| {
                let size = format!("{:0>5}", n.unsigned_abs());
                let (i, f) = size.split_at(size.len() - digits);
                format!("{}{i}.{f}", if n < 0 { "-" } else { "" })
            };
            let scaled = |n: i128, digits: usize| n * 10i128.pow(4 - digits as u32);
            let order = number(&text(a, s)).compare(&number(&text(b, t)));
            prop_assert_eq!(order, scaled(a, s).cmp(&scaled(b, t)));
        }
    }
}
