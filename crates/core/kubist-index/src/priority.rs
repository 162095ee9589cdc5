//! Priorities: a uniform 64-bit hash of a record's identity (FORMAT.md, Priorities).
//!
//! A sample of the fraction p contains the records whose priority is below p * 2^64. The same identity and
//! seed give the same priority on every machine, in every version and order of arrival, and for every stored
//! form of the values.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, downcast_dictionary_array};
use arrow_schema::{DataType, TimeUnit};
use half::f16;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// An inclusive range of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    pub first: u64,
    pub last: u64,
}

/// An exclusive upper bound on priorities in `0..=2^64`, where 2^64 admits every priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Threshold(u128);

impl Threshold {
    pub const NONE: Threshold = Threshold(0);
    pub const ALL: Threshold = Threshold(1 << 64);

    /// Clamps `value` to 2^64.
    pub fn new(value: u128) -> Threshold {
        Threshold(value.min(1 << 64))
    }

    /// The threshold of a fraction in [0, 1], rounded up to an integer.
    pub fn from_fraction(fraction: f64) -> Threshold {
        // The product with a power of two is exact, so only `ceil` rounds.
        Threshold::new((fraction.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0).ceil() as u128)
    }

    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// The largest `f64` fraction that is not above the threshold.
    pub fn to_fraction(self) -> f64 {
        let mut fraction = self.0 as f64 / 18_446_744_073_709_551_616.0;
        while Threshold::from_fraction(fraction) > self {
            fraction = fraction.next_down();
        }
        fraction
    }

    #[inline]
    pub fn admits(self, priority: u64) -> bool {
        (priority as u128) < self.0
    }
}

impl PriorityRange {
    pub const ALL: PriorityRange = PriorityRange { first: 0, last: u64::MAX };

    pub fn between(low: Threshold, high: Threshold) -> Option<PriorityRange> {
        (low < high).then(|| PriorityRange { first: low.0 as u64, last: (high.0 - 1) as u64 })
    }

    pub fn intersect(self, other: PriorityRange) -> Option<PriorityRange> {
        let range = PriorityRange { first: self.first.max(other.first), last: self.last.min(other.last) };
        (range.first <= range.last).then_some(range)
    }

    #[inline]
    pub fn holds(self, priority: u64) -> bool {
        self.first <= priority && priority <= self.last
    }

    pub fn meets(self, first: u64, last: u64) -> bool {
        self.first <= last && first <= self.last
    }

    pub fn is_all(self) -> bool {
        self == PriorityRange::ALL
    }
}

/// Relative weights are clamped to the range between these two.
pub const LEAST_WEIGHT: f32 = 1.0 / 1_048_576.0;
pub const MOST_WEIGHT: f32 = 1_048_576.0;

/// The lowest bits of a priority are its random group; weights do not change them.
const GROUP_BITS: u64 = (1 << 10) - 1;

const ALL_PRIORITIES: f64 = 18_446_744_073_709_551_616.0;

/// A relative weight in its stored form: clamped, and with 12 significant bits, so that it compresses. Inclusion
/// probabilities use the stored weight, so the rounding biases nothing.
pub fn stored_weight(relative: f64) -> f32 {
    let clamped = (relative as f32).clamp(LEAST_WEIGHT, MOST_WEIGHT);
    f32::from_bits((clamped.to_bits() + (1 << 11)) & !((1 << 12) - 1)).min(MOST_WEIGHT)
}

/// Turns uniform priorities u into priorities of rows with weights w: `u / (u + w)`, for u in [0, 1).
///
/// The row's priority is below f if `u < w f / (1 - f)`. So its inclusion probability in a sample of fraction f
/// is `min(1, w f / (1 - f))`, and samples stay nested (Poisson sampling with probability proportional to size,
/// with permanent random numbers: Brewer, Early and Joyce, Australian Journal of Statistics 14, 1972).
pub fn weigh(priorities: &mut [u64], weights: &[f32]) {
    for (priority, weight) in priorities.iter_mut().zip(weights) {
        // Each operation is monotone in the uniform priority, also after rounding.
        let fraction = 1.0 / (1.0 + f64::from(*weight) * ALL_PRIORITIES / *priority as f64);
        *priority = (fraction * ALL_PRIORITIES) as u64 & !GROUP_BITS | *priority & GROUP_BITS;
    }
}

/// The probability that a row with this weight has a priority in the range; see [`weigh`].
pub fn inclusion(weight: f32, range: PriorityRange) -> f64 {
    let below = |end: u128| match end as f64 / ALL_PRIORITIES {
        all if all >= 1.0 => 1.0,
        fraction => (f64::from(weight) * fraction / (1.0 - fraction)).min(1.0),
    };
    below(range.last as u128 + 1) - below(range.first.into())
}

/// Tags that are hashed before values, so they must not change.
mod tag {
    pub const NULL: u8 = 0;
    pub const BOOLEAN: u8 = 1;
    pub const INTEGER: u8 = 2;
    pub const BIG_UNSIGNED: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const NAN: u8 = 5;
    pub const DECIMAL: u8 = 6;
    pub const TEXT: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const DATE: u8 = 9;
    pub const TIME: u8 = 10;
    pub const TIMESTAMP: u8 = 11;
    pub const DURATION: u8 = 12;
}

fn start(seed: u64) -> u64 {
    xxh3_64_with_seed(b"kubist priority 1", seed)
}

/// A stable 64-bit tag of a name, for ids.
pub fn name_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

#[inline]
fn fold(hash: &mut u64, part: &[u8]) {
    *hash = xxh3_64_with_seed(part, *hash);
}

/// Hashes a tag and eight bytes like [`fold`]: XXH3-64 of 9 to 16 bytes (specification 0.2, "Input of 9-16
/// bytes"). The library's general function takes several times as long, and most parts have this size.
#[inline]
fn fold_word(hash: &mut u64, tag: u8, word: u64) {
    // Pairs of words of the default secret, from its bytes 24 and 40.
    const FLIP_LOW: u64 = 0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb;
    const FLIP_HIGH: u64 = 0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8;
    let (seed, first_eight) = (*hash, tag as u64 | word << 8);
    let low = first_eight ^ FLIP_LOW.wrapping_add(seed);
    let high = word ^ FLIP_HIGH.wrapping_sub(seed);
    let product = low as u128 * high as u128;
    let mut mixed =
        9u64.wrapping_add(low.swap_bytes()).wrapping_add(high).wrapping_add(product as u64 ^ (product >> 64) as u64);
    mixed ^= mixed >> 37;
    mixed = mixed.wrapping_mul(0x1656_6791_9e37_79f9);
    *hash = mixed ^ (mixed >> 32);
}

#[inline]
fn fold_wide(hash: &mut u64, tag: u8, value: i128) {
    match i64::try_from(value) {
        Ok(small) => fold_word(hash, tag, small as u64),
        Err(_) => {
            let mut part = [0u8; 17];
            part[0] = tag;
            part[1..].copy_from_slice(&value.to_le_bytes());
            fold(hash, &part);
        }
    }
}

#[inline]
fn fold_float(hash: &mut u64, value: f64) {
    if value.is_nan() {
        fold(hash, &[tag::NAN]);
    } else {
        // Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
        fold_word(hash, tag::FLOAT, (value + 0.0).to_bits());
    }
}

fn fold_bytes(hash: &mut u64, tag: u8, bytes: &[u8], part: &mut Vec<u8>) {
    part.clear();
    part.push(tag);
    part.extend_from_slice(bytes);
    fold(hash, part);
}

/// Whether a column of this type can be in an identity: any scalar type.
pub fn is_identity_type(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_identity_type(values),
        Boolean
        | Int8
        | Int16
        | Int32
        | Int64
        | UInt8
        | UInt16
        | UInt32
        | UInt64
        | Float16
        | Float32
        | Float64
        | Decimal32(_, _)
        | Decimal64(_, _)
        | Decimal128(_, _)
        | Decimal256(_, _)
        | Utf8
        | LargeUtf8
        | Utf8View
        | Binary
        | LargeBinary
        | BinaryView
        | FixedSizeBinary(_)
        | Date32
        | Date64
        | Time32(_)
        | Time64(_)
        | Timestamp(_, _)
        | Duration(_) => true,
        _ => false,
    }
}

/// Computes one priority per row. `columns` are the identity columns in order, with types that [`is_identity_type`]
/// allows.
pub fn priorities(columns: &[&dyn Array], rows: usize, seed: u64) -> Vec<u64> {
    let mut hashes = vec![start(seed); rows];
    for column in columns {
        fold_column(*column, &mut hashes);
    }
    hashes
}

fn fold_each<T>(array: &dyn Array, hashes: &mut [u64], mut fold_value: impl FnMut(&mut u64, T::Native))
where
    T: ArrowPrimitiveType,
{
    let array = array.as_primitive::<T>();
    match array.nulls() {
        None => hashes.iter_mut().zip(array.values()).for_each(|(hash, value)| fold_value(hash, *value)),
        Some(nulls) => {
            for ((hash, value), valid) in hashes.iter_mut().zip(array.values()).zip(nulls) {
                if valid { fold_value(hash, *value) } else { fold(hash, &[tag::NULL]) }
            }
        }
    }
}

fn nanoseconds(unit: &TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Hashes a decimal without trailing zeros.
fn fold_decimal(hash: &mut u64, mut value: arrow_buffer::i256, mut scale: i32, part: &mut Vec<u8>) {
    let ten = arrow_buffer::i256::from_i128(10);
    if value == arrow_buffer::i256::ZERO {
        scale = 0;
    }
    while value != arrow_buffer::i256::ZERO && value.wrapping_rem(ten) == arrow_buffer::i256::ZERO {
        value = value.wrapping_div(ten);
        scale -= 1;
    }
    part.clear();
    part.push(tag::DECIMAL);
    part.extend_from_slice(&scale.to_le_bytes());
    part.extend_from_slice(&value.to_le_bytes());
    fold(hash, part);
}

fn fold_options<'a>(tag: u8, values: impl Iterator<Item = Option<&'a [u8]>>, hashes: &mut [u64]) {
    let mut part = Vec::new();
    for (hash, value) in hashes.iter_mut().zip(values) {
        match value {
            Some(bytes) => fold_bytes(hash, tag, bytes, &mut part),
            None => fold(hash, &[tag::NULL]),
        }
    }
}

fn fold_column(array: &dyn Array, hashes: &mut [u64]) {
    use arrow_buffer::i256;
    use tag::*;
    let mut part = Vec::new();
    macro_rules! integers {
        ($T:ty, $tag:expr, $factor:expr) => {{
            let factor: i128 = $factor;
            fold_each::<$T>(array, hashes, |hash, value| fold_wide(hash, $tag, value as i128 * factor))
        }};
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            for (hash, value) in hashes.iter_mut().zip(values) {
                match value {
                    Some(value) => fold(hash, &[BOOLEAN, value as u8]),
                    None => fold(hash, &[NULL]),
                }
            }
        }
        DataType::Int8 => integers!(Int8Type, INTEGER, 1),
        DataType::Int16 => integers!(Int16Type, INTEGER, 1),
        DataType::Int32 => fold_each::<Int32Type>(array, hashes, |h, v| fold_word(h, INTEGER, v as i64 as u64)),
        DataType::Int64 => fold_each::<Int64Type>(array, hashes, |h, v| fold_word(h, INTEGER, v as u64)),
        DataType::UInt8 => integers!(UInt8Type, INTEGER, 1),
        DataType::UInt16 => integers!(UInt16Type, INTEGER, 1),
        DataType::UInt32 => integers!(UInt32Type, INTEGER, 1),
        DataType::UInt64 => fold_each::<UInt64Type>(array, hashes, |hash, value| {
            fold_word(hash, if value > i64::MAX as u64 { BIG_UNSIGNED } else { INTEGER }, value)
        }),
        DataType::Float16 => fold_each::<Float16Type>(array, hashes, |h, v: f16| fold_float(h, v.to_f64())),
        DataType::Float32 => fold_each::<Float32Type>(array, hashes, |h, v| fold_float(h, v as f64)),
        DataType::Float64 => fold_each::<Float64Type>(array, hashes, fold_float),
        DataType::Decimal32(_, scale) => fold_each::<Decimal32Type>(array, hashes, |hash, value| {
            fold_decimal(hash, i256::from_i128(value.into()), *scale as i32, &mut part)
        }),
        DataType::Decimal64(_, scale) => fold_each::<Decimal64Type>(array, hashes, |hash, value| {
            fold_decimal(hash, i256::from_i128(value.into()), *scale as i32, &mut part)
        }),
        DataType::Decimal128(_, scale) => fold_each::<Decimal128Type>(array, hashes, |hash, value| {
            fold_decimal(hash, i256::from_i128(value), *scale as i32, &mut part)
        }),
        DataType::Decimal256(_, scale) => fold_each::<Decimal256Type>(array, hashes, |hash, value| {
            fold_decimal(hash, value, *scale as i32, &mut part)
        }),
        DataType::Date32 => integers!(Date32Type, DATE, 86_400_000),
        DataType::Date64 => integers!(Date64Type, DATE, 1),
        DataType::Time32(TimeUnit::Second) => integers!(Time32SecondType, TIME, 1_000_000_000),
        DataType::Time32(_) => integers!(Time32MillisecondType, TIME, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondType, TIME, 1_000),
        DataType::Time64(_) => integers!(Time64NanosecondType, TIME, 1),
        DataType::Timestamp(unit, _) => {
            let factor = nanoseconds(unit);
            let values = array.to_data();
            let values = &values.buffers()[0].typed_data::<i64>()[array.offset()..];
            for (row, (hash, value)) in hashes.iter_mut().zip(values).enumerate() {
                match array.is_null(row) {
                    true => fold(hash, &[NULL]),
                    false => fold_wide(hash, TIMESTAMP, *value as i128 * factor),
                }
            }
        }
        DataType::Duration(TimeUnit::Second) => integers!(DurationSecondType, DURATION, 1_000_000_000),
        DataType::Duration(TimeUnit::Millisecond) => integers!(DurationMillisecondType, DURATION, 1_000_000),
        DataType::Duration(TimeUnit::Microsecond) => integers!(DurationMicrosecondType, DURATION, 1_000),
        DataType::Duration(TimeUnit::Nanosecond) => integers!(DurationNanosecondType, DURATION, 1),
        DataType::Utf8 => fold_options(TEXT, array.as_string::<i32>().iter().map(|v| v.map(str::as_bytes)), hashes),
        DataType::LargeUtf8 => {
            fold_options(TEXT, array.as_string::<i64>().iter().map(|v| v.map(str::as_bytes)), hashes)
        }
        DataType::Utf8View => fold_options(TEXT, array.as_string_view().iter().map(|v| v.map(str::as_bytes)), hashes),
        DataType::Binary => fold_options(BINARY, array.as_binary::<i32>().iter(), hashes),
        DataType::LargeBinary => fold_options(BINARY, array.as_binary::<i64>().iter(), hashes),
        DataType::BinaryView => fold_options(BINARY, array.as_binary_view().iter(), hashes),
        DataType::FixedSizeBinary(_) => fold_options(BINARY, array.as_fixed_size_binary().iter(), hashes),
        DataType::Dictionary(_, _) => fold_dictionary(array, hashes),
        other => unreachable!("{other} was refused as an identity when the table was made"),
    }
}

/// Hashes a dictionary column. The last hash for each dictionary entry is used again if the hash before it is the same,
/// as always in the first column.
fn fold_dictionary(array: &dyn Array, hashes: &mut [u64]) {
    downcast_dictionary_array!(
        array => {
            let values = array.values();
            let mut last: Vec<Option<(u64, u64)>> = vec![None; values.len()];
            for (hash, key) in hashes.iter_mut().zip(array.keys_iter()) {
                match key {
                    Some(key) => match last[key] {
                        Some((before, after)) if before == *hash => *hash = after,
                        _ => {
                            let before = *hash;
                            fold_column(values.slice(key, 1).as_ref(), std::slice::from_mut(hash));
                            last[key] = Some((before, *hash));
                        }
                    },
                    None => fold(hash, &[tag::NULL]),
                }
            }
        }
        other => unreachable!("{other} is no dictionary")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn one(array: impl Array, seed: u64) -> u64 {
        priorities(&[&array], 1, seed)[0]
    }

    /// These values must never change: stored tables depend on them.
    #[test]
    fn vectors() {
        let int = Int32Array::from(vec![42]);
        let time = Float32Array::from(vec![0.25]);
        let text = StringArray::from(vec!["droplet"]);
        let null = Int64Array::from(vec![None::<i64>]);
        let found = [
            priorities(&[], 1, 0)[0],
            priorities(&[&int], 1, 0)[0],
            priorities(&[&int], 1, 1)[0],
            priorities(&[&int, &time], 1, 0)[0],
            priorities(&[&time, &int], 1, 0)[0],
            priorities(&[&text], 1, 7)[0],
            priorities(&[&null], 1, 0)[0],
            one(BooleanArray::from(vec![true]), 0),
            one(UInt64Array::from(vec![u64::MAX]), 0),
            one(Float64Array::from(vec![f64::NAN]), 0),
            one(BinaryArray::from(vec![b"droplet".as_slice()]), 7),
            one(Date32Array::from(vec![19_000]), 0),
            one(TimestampSecondArray::from(vec![1_700_000_000]), 0),
            one(Decimal128Array::from(vec![12_300]).with_precision_and_scale(10, 2).unwrap(), 0),
        ];
        let expected: Vec<u64> = include_str!("../vectors/priorities.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap())
            .collect();
        assert_eq!(
            found.map(|hash| format!("{hash:016x}")).to_vec(),
            expected.iter().map(|h| format!("{h:016x}")).collect::<Vec<_>>()
        );
    }

    #[test]
    fn equal_values_of_other_types_are_equal() {
        let same = |arrays: Vec<ArrayRef>| {
            let found: Vec<u64> = arrays.iter().map(|array| one(array.clone(), 3)).collect();
            assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{arrays:?}");
            found[0]
        };
        let seven = same(vec![
            Arc::new(Int8Array::from(vec![7])),
            Arc::new(UInt16Array::from(vec![7])),
            Arc::new(Int32Array::from(vec![7])),
            Arc::new(UInt64Array::from(vec![7])),
            Arc::new(Int64Array::from(vec![7])),
            Arc::new(DictionaryArray::<Int8Type>::new(vec![0].into(), Arc::new(Int16Array::from(vec![7])))),
        ]);
        let floats = same(vec![
            Arc::new(Float32Array::from(vec![7.5])),
            Arc::new(Float64Array::from(vec![7.5])),
            Arc::new(Float16Array::from(vec![f16::from_f32(7.5)])),
        ]);
        same(vec![Arc::new(Float32Array::from(vec![-0.0])), Arc::new(Float64Array::from(vec![0.0]))]);
        same(vec![
            Arc::new(Float32Array::from(vec![-f32::NAN])),
            Arc::new(Float64Array::from(vec![f64::from_bits(0x7ff8_0000_0000_1234)])),
        ]);
        same(vec![
            Arc::new(StringArray::from(vec!["a"])),
            Arc::new(LargeStringArray::from(vec!["a"])),
            Arc::new(StringViewArray::from(vec!["a"])),
            Arc::new(vec!["a"].into_iter().collect::<DictionaryArray<Int32Type>>()),
        ]);
        same(vec![
            Arc::new(TimestampSecondArray::from(vec![5])),
            Arc::new(TimestampNanosecondArray::from(vec![5_000_000_000])),
            Arc::new(TimestampMillisecondArray::from(vec![5_000]).with_timezone("UTC")),
        ]);
        same(vec![Arc::new(Date32Array::from(vec![2])), Arc::new(Date64Array::from(vec![2 * 86_400_000]))]);
        let decimal = |value, scale| Decimal128Array::from(vec![value]).with_precision_and_scale(20, scale).unwrap();
        same(vec![Arc::new(decimal(1230, 3)), Arc::new(decimal(123, 2)), Arc::new(decimal(12300, 4))]);
        same(vec![
            Arc::new(Int32Array::from(vec![None::<i32>])),
            Arc::new(StringArray::from(vec![None::<&str>])),
            Arc::new(TimestampSecondArray::from(vec![None::<i64>])),
        ]);
        assert_ne!(seven, floats);
        assert_ne!(one(StringArray::from(vec!["a"]), 0), one(BinaryArray::from(vec![b"a".as_slice()]), 0));
    }

    proptest! {
        #[test]
        fn words_hash_as_the_library_does(seed in any::<u64>(), tag in any::<u8>(), word in any::<u64>()) {
            let mut part = vec![tag];
            part.extend(word.to_le_bytes());
            let (mut one, mut other) = (seed, seed);
            fold_word(&mut one, tag, word);
            fold(&mut other, &part);
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn slices_hash_their_own_rows() {
        let times = TimestampMicrosecondArray::from(vec![Some(1), None, Some(3), Some(4)]);
        let whole = priorities(&[&times], 4, 0);
        assert_eq!(priorities(&[&times.slice(1, 3)], 3, 0), whole[1..]);
    }

    #[test]
    fn priorities_are_uniform() {
        let ids = Int64Array::from_iter_values(0..200_000);
        let steps = Float32Array::from_iter_values((0..200_000).map(|i| (i % 7) as f32));
        for columns in [vec![&ids as &dyn Array], vec![&steps, &ids]] {
            let mut counts = [0f64; 256];
            for priority in priorities(&columns, 200_000, 11) {
                counts[(priority >> 56) as usize] += 1.0;
            }
            let expected = 200_000.0 / 256.0;
            let chi_square: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
            // 255 degrees of freedom: mean 255, standard deviation 22.6.
            assert!((170.0..360.0).contains(&chi_square), "{chi_square}");
        }
    }

    proptest! {
        #[test]
        fn fractions_round_down_to_their_threshold(priority in any::<u64>(), fraction in 0.0..=1.0f64) {
            let threshold = Threshold::new(priority as u128);
            prop_assert!(Threshold::from_fraction(threshold.to_fraction()) <= threshold);
            let exact = Threshold::from_fraction(fraction);
            prop_assert!((exact.to_fraction() - fraction).abs() <= fraction * 1e-15 + 1e-18);
            prop_assert!(Threshold::ALL.admits(priority) && !Threshold::NONE.admits(priority));
        }
    }

    proptest! {
        #[test]
        fn a_weighed_priority_is_below_a_fraction_if_the_uniform_one_is(
            priority in any::<u64>(), other in any::<u64>(), size in -30.0..30.0f64, fraction in 1e-6..0.999f64,
        ) {
            let weight = stored_weight(size.exp2());
            prop_assert!((LEAST_WEIGHT..=MOST_WEIGHT).contains(&weight));
            if size.abs() < 19.0 {
                prop_assert!((f64::from(weight) / size.exp2() - 1.0).abs() < 1.0 / 4096.0);
            }
            let mut both = [priority, other];
            weigh(&mut both, &[weight, weight]);
            // Random groups stay, and so does the order of rows with equal weights.
            prop_assert_eq!(both[0] & GROUP_BITS, priority & GROUP_BITS);
            prop_assert!((both[0] >> 10 <= both[1] >> 10) == (priority <= other) || both[0] >> 10 == both[1] >> 10);
            let range = PriorityRange::between(Threshold::NONE, Threshold::from_fraction(fraction)).unwrap();
            let chance = inclusion(weight, range);
            let uniform = priority as f64 / ALL_PRIORITIES;
            if (uniform - chance).abs() > 1e-9 * chance {
                prop_assert_eq!(range.holds(both[0]), uniform < chance);
            }
        }
    }
}
