//! Every stored value is within the error bound, and rounding it again changes nothing.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray};
use arrow_schema::DataType;
use half::f16;
use kubist_index::accuracy::{Accuracy, NoAccuracy};
use proptest::prelude::*;

/// A value as an integer multiple of 2^-1074, which represents all finite floats.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Exact(Vec<u32>);

impl Exact {
    fn of(value: f64) -> Exact {
        let bits = value.abs().to_bits();
        let (field, digits) = (bits >> 52, bits & ((1 << 52) - 1));
        let (number, shift) = if field == 0 { (digits, 0) } else { (digits | 1 << 52, field - 1) };
        let mut words = vec![0u32; 70];
        let wide = u128::from(number) << (shift % 32);
        for word in 0..3 {
            words[(shift / 32) as usize + word] = (wide >> (32 * word)) as u32;
        }
        Exact(words.into_iter().rev().collect())
    }

    fn less(&self, other: &Exact) -> Exact {
        let (mut words, mut borrowed) = (self.0.clone(), false);
        for (word, less) in words.iter_mut().zip(&other.0).rev() {
            let (some, first) = word.overflowing_sub(*less);
            let (all, second) = some.overflowing_sub(borrowed as u32);
            (*word, borrowed) = (all, first || second);
        }
        Exact(words)
    }
}

fn distance(stored: f64, given: f64) -> f64 {
    let difference = (stored - given).abs();
    let (a, b) = (Exact::of(stored), Exact::of(given));
    assert!(stored == 0.0 || stored.is_sign_negative() == given.is_sign_negative(), "{given} became {stored}");
    let exact = if a > b { a.less(&b) } else { b.less(&a) };
    assert_eq!(Exact::of(difference), exact, "{given} became {stored}");
    difference
}

fn bounds() -> impl Strategy<Value = Accuracy> {
    let of_bits = |least: u64, above: u64| (least..above).prop_map(f64::from_bits);
    let one = 1f64.to_bits();
    prop_oneof![
        of_bits(1, f64::INFINITY.to_bits()).prop_map(|bound| Accuracy::absolute(bound).unwrap()),
        (-320f64..308.0).prop_map(|power| Accuracy::absolute(10f64.powf(power)).unwrap()),
        (-12f64..6.0).prop_map(|power| Accuracy::absolute(10f64.powf(power)).unwrap()),
        of_bits(1, one).prop_map(|bound| Accuracy::relative(bound).unwrap()),
        (-17f64..-0.001).prop_map(|power| Accuracy::relative(10f64.powf(power)).unwrap()),
    ]
}

fn bits_of_floats() -> impl Strategy<Value = u64> {
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        2.225_073_858_507_201e-308,
        1.0,
        1.5,
        0.1,
        -1e-6,
    ];
    prop_oneof![
        any::<u64>(),
        prop::sample::select(special.to_vec()).prop_map(f64::to_bits),
        (-1e3f64..1e3).prop_map(f64::to_bits),
        0u64..1 << 53,
    ]
}

fn rounded<T: ArrowPrimitiveType>(accuracy: Accuracy, values: &[T::Native]) -> Vec<T::Native> {
    let array: ArrayRef = Arc::new(PrimitiveArray::<T>::from_iter_values(values.iter().copied()));
    let stored = accuracy.round(&array);
    assert_eq!(stored.data_type(), array.data_type());
    let again = accuracy.round(&stored);
    let stored = stored.as_primitive::<T>().values().to_vec();
    assert_eq!(bytes::<T>(&stored), bytes::<T>(again.as_primitive::<T>().values()), "{accuracy}: {values:?}");
    for (value, stored) in values.iter().zip(&stored) {
        let alone: ArrayRef = Arc::new(PrimitiveArray::<T>::from_iter_values([*value]));
        let alone = accuracy.round(&alone);
        assert_eq!(bytes::<T>(alone.as_primitive::<T>().values()), bytes::<T>(&[*stored]));
    }
    stored
}

fn bytes<T: ArrowPrimitiveType>(values: &[T::Native]) -> Vec<u8> {
    PrimitiveArray::<T>::from_iter_values(values.iter().copied()).values().inner().as_slice().to_vec()
}

fn check_float(accuracy: Accuracy, given: f64, stored: f64) {
    if given == 0.0 || !given.is_finite() {
        assert_eq!(stored.to_bits(), given.to_bits(), "{given:e} became {stored:e}");
        return;
    }
    assert!(stored.is_finite(), "{given:e} became {stored:e}");
    match accuracy {
        Accuracy::Absolute(bound) => {
            assert!(distance(stored, given) <= bound, "{given:e} became {stored:e} by {accuracy}");
        }
        Accuracy::Relative(bound) => {
            // The product may be rounded down, so an exact comparison needs twice the digits.
            let distance = distance(stored, given);
            assert!(distance <= bound * given.abs(), "{given:e} became {stored:e} by {accuracy}");
            let quotient = distance / given.abs();
            assert!(quotient <= bound, "{given:e} became {stored:e} by {accuracy}: {quotient:e}");
        }
    }
}

fn check_integer(accuracy: Accuracy, given: i128, stored: i128) {
    let distance = (stored - given).unsigned_abs();
    match accuracy {
        Accuracy::Absolute(bound) if bound < 1.0 => assert_eq!(distance, 0),
        Accuracy::Absolute(bound) if bound < 2f64.powi(100) => assert!(distance <= bound as u128, "{given}: {stored}"),
        Accuracy::Absolute(_) => {}
        Accuracy::Relative(bound) => {
            // A power of two, so that the product is a multiple of 2^-64.
            let power = 2f64.powi(bound.log2().floor() as i32);
            let power = if power > bound { power / 2.0 } else { power };
            match power < 2f64.powi(-64) {
                true => assert_eq!(distance, 0),
                false => {
                    let shift = -power.log2() as u32;
                    assert!(distance << shift <= given.unsigned_abs(), "{given} became {stored} by {accuracy}");
                }
            }
        }
    }
}

macro_rules! integers {
    ($accuracy:expr, $values:expr, $($T:ty: $native:ty),*) => {$(
        let mut values: Vec<$native> = $values.iter().map(|value| *value as $native).collect();
        values.extend([<$native>::MIN, <$native>::MAX, 0, 1, <$native>::MAX - 1, <$native>::MIN + 1]);
        for (given, stored) in values.iter().zip(rounded::<$T>($accuracy, &values)) {
            check_integer($accuracy, *given as i128, stored as i128);
        }
    )*};
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_float_moves_further_than_its_bound(
        accuracy in bounds(),
        bits in prop::collection::vec(bits_of_floats(), 1..20),
    ) {
        let values: Vec<f64> = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
        for (given, stored) in values.iter().zip(rounded::<Float64Type>(accuracy, &values)) {
            check_float(accuracy, *given, stored);
        }
        let by_value = values.iter().map(|value| *value as f32);
        let values: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits as u32)).chain(by_value).collect();
        for (given, stored) in values.iter().zip(rounded::<Float32Type>(accuracy, &values)) {
            check_float(accuracy, f64::from(*given), f64::from(stored));
            if let (Accuracy::Absolute(bound), true) = (accuracy, given.is_finite()) {
                prop_assert!((stored - given).abs() <= bound as f32);
            }
        }
        let values: Vec<f16> = bits.iter().map(|bits| f16::from_bits(*bits as u16)).collect();
        for (given, stored) in values.iter().zip(rounded::<Float16Type>(accuracy, &values)) {
            check_float(accuracy, f64::from(*given), f64::from(stored));
        }
    }

    #[test]
    fn no_integer_moves_further_than_its_bound(
        accuracy in bounds(),
        values in prop::collection::vec((any::<u64>(), 0u32..64), 1..20),
    ) {
        let values: Vec<u64> = values.into_iter().map(|(value, shift)| value >> shift).collect();
        integers!(
            accuracy, values, Int8Type: i8, Int16Type: i16, Int32Type: i32, Int64Type: i64,
            UInt8Type: u8, UInt16Type: u16, UInt32Type: u32, UInt64Type: u64
        );
    }

    /// Stored values must have few distinct bits, or nothing would be saved.
    #[test]
    fn absolute_bounds_give_multiples_of_their_step(bound in -9f64..3.0, value in -1e3f64..1e3) {
        let accuracy = Accuracy::absolute(10f64.powf(bound)).unwrap();
        let step = 2f64.powi(accuracy.step().expect("an absolute bound"));
        prop_assert!(step <= 2.0 * 10f64.powf(bound) && step > 10f64.powf(bound));
        let stored = rounded::<Float64Type>(accuracy, &[value])[0];
        prop_assert_eq!((stored / step).fract(), 0.0);
    }

    #[test]
    fn a_bound_is_read_as_it_is_written(accuracy in bounds()) {
        prop_assert_eq!(accuracy.to_string().parse::<Accuracy>(), Ok(accuracy));
    }
}

#[test]
fn a_bound_is_a_number_that_makes_sense() {
    assert_eq!("1e-6".parse(), Ok(Accuracy::Absolute(1e-6)));
    assert_eq!(" 1e-4 rel".parse(), Ok(Accuracy::Relative(1e-4)));
    assert_eq!(Accuracy::Relative(1e-4).to_string(), "1e-4 rel");
    for text in ["0", "-1", "nan", "inf"] {
        assert!(matches!(text.parse::<Accuracy>(), Err(NoAccuracy::Absolute(_))), "{text}");
    }
    for text in ["0 rel", "1 rel", "nan rel", "-0.1rel"] {
        assert!(matches!(text.parse::<Accuracy>(), Err(NoAccuracy::Relative(_))), "{text}");
    }
    for text in ["", "rel", "much", "1 um"] {
        assert!(matches!(text.parse::<Accuracy>(), Err(NoAccuracy::NoNumber(_))), "{text}");
    }
}

#[test]
fn what_is_no_number_and_what_is_null_stay() {
    let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.23), None, Some(f64::NAN)]));
    let stored = Accuracy::Absolute(0.1).round(&array);
    assert_eq!((stored.null_count(), stored.as_primitive::<Float64Type>().value(0)), (1, 1.25));
    assert!(Accuracy::suits(&DataType::Float16) && Accuracy::suits(&DataType::UInt64));
    assert!(!Accuracy::suits(&DataType::Utf8) && !Accuracy::suits(&DataType::Boolean));
}
