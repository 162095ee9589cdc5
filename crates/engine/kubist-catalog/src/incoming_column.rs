//! Converts the values that a caller gives to stored values, in the same way for every binding.
//!
//! A value is stored unchanged or as an equal value of the column's type. Otherwise the error names the column, row and
//! value. Only two conversions round:
//!
//! - A column with an error bound takes the nearest float, unless it is infinite, or subnormal and not equal.
//! - A float in another unit becomes the nearest float in the column's unit, but an integer must give an integer.
//!
//! Data without a unit is taken to be in the column's unit. A column without a unit refuses data with a unit, because
//! the unit would be lost.

use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_cast::display::array_value_to_string;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field};
use half::f16;
use kubist_expr::Conversion;
use kubist_types::error::{Error, Result};
use kubist_types::metadata::{UNIT, unit_of};

const NO_UNITS: [&str; 5] = ["", "1", "-", "none", "dimensionless"];
const MOST_CHARACTERS: usize = 60;

pub struct IncomingColumn<'a> {
    pub field: &'a Field,
    pub values: &'a ArrayRef,
    pub first_row: usize,
    pub is_rounded: bool,
}

enum Way {
    /// Every value has an equal value in the stored type.
    Equal,
    /// Only some values have an equal one, which a round trip tests.
    IfEqual,
    /// The type is a narrower float.
    Narrower,
}

impl IncomingColumn<'_> {
    /// Returns the values in the stored type and the unit of `column`.
    ///
    /// # Errors
    ///
    /// `Invalid` names the column, the row and the value that cannot be stored.
    pub fn stored(&self, column: &Field, data_type: &DataType) -> Result<ArrayRef> {
        let values = self.plain()?;
        let stored = match self.conversion(column, [values.data_type(), data_type])? {
            None => self.cast(&values, column, data_type)?,
            Some(conversion) => self.converted(&values, &conversion, column, data_type)?,
        };
        if !column.is_nullable() && stored.null_count() > 0 {
            let row = (0..stored.len()).find(|row| stored.is_null(*row)).unwrap_or(0);
            return Err(Error::invalid(format!(
                "column {:?} must not be null, and is in row {} of the batch",
                column.name(),
                self.first_row + row
            )));
        }
        Ok(stored)
    }

    fn plain(&self) -> Result<ArrayRef> {
        match self.values.data_type() {
            DataType::Dictionary(_, plain) => strictly(self.values, plain).map_err(Error::invalid),
            _ => Ok(self.values.clone()),
        }
    }

    /// The conversion of units; `None` if they are equal.
    fn conversion(&self, column: &Field, types: [&DataType; 2]) -> Result<Option<Conversion>> {
        let unit = |field: &Field| field.metadata().get(UNIT).map(|unit| unit.trim().to_owned());
        let is_unit = |unit: &String| !NO_UNITS.contains(&unit.as_str());
        let given = unit_of(self.field).map(str::to_owned);
        let Some(given) = given.filter(is_unit) else { return Ok(None) };
        let refused = |here: &str, why: &str| {
            let name = column.name();
            Err(Error::invalid(format!("column {name:?} is in {given:?} in the data and {here} in the table: {why}")))
        };
        let Some(here) = unit(column).filter(is_unit) else {
            return refused("has no unit", "give the table's column its unit, or the data none");
        };
        let is_fixed = |data_type: &&&DataType| !(data_type.is_integer() || data_type.is_floating());
        match (Conversion::between(&given, &here), types.iter().find(is_fixed)) {
            (Ok(Some(_)), Some(fixed)) => {
                refused(&format!("in {here:?}"), &format!("values of the type {fixed} are not converted"))
            }
            (Ok(conversion), _) => Ok(conversion),
            (Err(why), _) => refused(&format!("in {here:?}"), &why),
        }
    }

    fn cast(&self, values: &ArrayRef, column: &Field, wanted: &DataType) -> Result<ArrayRef> {
        let found = values.data_type();
        if found == wanted {
            return Ok(values.clone());
        }
        match way(found, wanted) {
            Some(Way::Equal) => strictly(values, wanted).map_err(Error::invalid),
            Some(Way::IfEqual) => {
                let there = leniently(values, wanted)?;
                let back = leniently(&there, found)?;
                if back.to_data() == values.to_data() {
                    return Ok(there);
                }
                let differs = |row: &usize| back.slice(*row, 1).to_data() != values.slice(*row, 1).to_data();
                Err(self.refused(column, values, (0..values.len()).find(differs).unwrap_or(0)))
            }
            Some(Way::Narrower) => {
                let refused = if self.is_rounded { Refused::UnequalSmall } else { Refused::Unequal };
                self.nearest(column, values, wanted, &floats(values)?, |value| value, refused)
            }
            None => {
                let (name, found, wanted) = (column.name(), self.values.data_type(), column.data_type());
                Err(Error::invalid(format!(
                    "column {name:?} has the type {found} in the data and {wanted} in the table"
                )))
            }
        }
    }

    fn converted(
        &self,
        values: &ArrayRef,
        conversion: &Conversion,
        column: &Field,
        wanted: &DataType,
    ) -> Result<ArrayRef> {
        if wanted.is_floating() {
            let given = match values.data_type().is_integer() {
                true => self.cast(values, column, &DataType::Float64)?,
                false => values.clone(),
            };
            // With an offset (such as K to °C), a difference of larger numbers may be subnormal.
            let refused = if conversion.keeps_zero() { Refused::Small } else { Refused::Nothing };
            return self.nearest(column, values, wanted, &floats(&given)?, |value| conversion.of_float(value), refused);
        }
        let changed: Vec<Option<i128>> = match values.data_type().is_integer() {
            true => {
                let whole = strictly(values, &DataType::Decimal128(38, 0)).map_err(Error::kernel)?;
                let of = |value: Option<i128>| value.and_then(|value| conversion.of_integer(value));
                whole.as_primitive::<Decimal128Type>().iter().map(of).collect()
            }
            false => {
                let of = |value: Option<f64>| value.and_then(|value| conversion.integer_of_float(value));
                floats(values)?.iter().map(of).collect()
            }
        };
        let changed = PrimitiveArray::<Decimal128Type>::from(changed).with_precision_and_scale(38, 0);
        let stored = leniently(&(Arc::new(changed.map_err(Error::kernel)?) as ArrayRef), wanted)?;
        match (0..values.len()).find(|row| values.is_valid(*row) && stored.is_null(*row)) {
            None => Ok(stored),
            Some(row) => Err(self.refused(column, values, row)),
        }
    }

    fn nearest(
        &self,
        column: &Field,
        values: &ArrayRef,
        wanted: &DataType,
        given: &PrimitiveArray<Float64Type>,
        change: impl Fn(f64) -> f64,
        refused: Refused,
    ) -> Result<ArrayRef> {
        let stored = match wanted {
            DataType::Float16 => {
                nearest::<Float16Type>(given, change, refused, f16::from_f64, f16::to_f64, f16::MIN_POSITIVE.to_f64())
            }
            DataType::Float32 => {
                nearest::<Float32Type>(given, change, refused, |wide| wide as f32, f64::from, f32::MIN_POSITIVE.into())
            }
            _ => nearest::<Float64Type>(given, change, refused, |wide| wide, |stored| stored, f64::MIN_POSITIVE),
        };
        stored.map_err(|row| self.refused(column, values, row))
    }

    fn refused(&self, column: &Field, values: &ArrayRef, row: usize) -> Error {
        let unit = |field: &Field| field.metadata().get(UNIT).map_or(String::new(), |unit| format!(" {unit}"));
        let (given, stored) = (unit(self.field), unit(column));
        let (given, stored) = if given == stored { (String::new(), String::new()) } else { (given, stored) };
        let value = array_value_to_string(values, row).unwrap_or_default();
        let value: String = value.chars().take(MOST_CHARACTERS).collect();
        let among = if stored.is_empty() { String::new() } else { format!(" in{stored}") };
        let of_type = |data_type: &DataType| data_type.to_string().to_lowercase();
        // An integer in another unit has a fraction, such as 1500 mm in m.
        let wider = match (column.data_type(), self.values.data_type()) {
            (same, given) if same == given && given.is_integer() => Some(&DataType::Float64),
            (same, given) if same == given => None,
            (stored, given) => Some(given).filter(|given| is_contained(stored, given)),
        };
        let wider = wider.map_or(String::new(), |wider| {
            format!(
                ": a copy of the table holds it, with the type {} (copy_to(types=...), kubist copy --types)",
                of_type(wider)
            )
        });
        let wider = match self.values.data_type().is_floating() && column.data_type().is_floating() {
            true => format!("{wider}; or round the data to {} first", of_type(column.data_type())),
            false => wider,
        };
        Error::invalid(format!(
            "column {:?}, row {} of the batch: {value}{given} is no {} of the table{among}, and is not changed to one{wider}",
            column.name(),
            self.first_row + row,
            column.data_type()
        ))
    }
}

/// Which values are refused, in addition to infinite ones: `Small` refuses values that become subnormal.
#[derive(Clone, Copy)]
enum Refused {
    Nothing,
    Small,
    UnequalSmall,
    Unequal,
}

/// Converts to the nearest values; the error is the first row whose value does not fit.
fn nearest<T: ArrowPrimitiveType>(
    given: &PrimitiveArray<Float64Type>,
    change: impl Fn(f64) -> f64,
    refused: Refused,
    narrow: impl Fn(f64) -> T::Native,
    widen: impl Fn(T::Native) -> f64,
    smallest: f64,
) -> std::result::Result<ArrayRef, usize> {
    let mut stored = PrimitiveBuilder::<T>::with_capacity(given.len());
    for (row, value) in given.iter().enumerate() {
        let Some(value) = value else {
            stored.append_null();
            continue;
        };
        let changed = change(value);
        let nearest = narrow(changed);
        let kept = widen(nearest);
        let is_small = value != 0.0 && kept.abs() < smallest;
        let is_unequal = kept != changed && !changed.is_nan();
        let is_lost = match refused {
            Refused::Nothing => false,
            Refused::Small => is_small,
            Refused::UnequalSmall => is_small && is_unequal,
            Refused::Unequal => is_unequal,
        };
        if is_lost || (kept.is_infinite() && value.is_finite()) {
            return Err(row);
        }
        stored.append_value(nearest);
    }
    Ok(Arc::new(stored.finish()))
}

/// Whether `wide` has an equal value for each value of the number type `narrow`.
pub fn is_contained(narrow: &DataType, wide: &DataType) -> bool {
    let is_number = |data_type: &DataType| data_type.is_integer() || data_type.is_floating();
    is_number(narrow) && is_number(wide) && (narrow == wide || matches!(way(narrow, wide), Some(Way::Equal)))
}

/// Returns the values in a type that contains them.
///
/// # Errors
///
/// `Internal` if it does not.
pub fn wider(values: &ArrayRef, wide: &DataType) -> Result<ArrayRef> {
    if values.data_type() == wide { Ok(values.clone()) } else { strictly(values, wide).map_err(Error::kernel) }
}

fn way(found: &DataType, wanted: &DataType) -> Option<Way> {
    use DataType::*;
    let whole = |data_type: &DataType| data_type.is_integer() || data_type.is_decimal();
    Some(match (found, wanted) {
        (Null, _) => Way::Equal,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8) => Way::Equal,
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary | LargeBinary) => Way::Equal,
        (Binary | LargeBinary, FixedSizeBinary(_)) => Way::IfEqual,
        (Int8, Int16 | Int32 | Int64 | Float16 | Float32 | Float64) => Way::Equal,
        (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64 | Float16 | Float32 | Float64) => Way::Equal,
        (Int16, Int32 | Int64 | Float32 | Float64) => Way::Equal,
        (UInt16, UInt32 | UInt64 | Int32 | Int64 | Float32 | Float64) => Way::Equal,
        (Int32, Int64 | Float64) | (UInt32, UInt64 | Int64 | Float64) => Way::Equal,
        (Float16, Float32 | Float64) | (Float32, Float64) => Way::Equal,
        (Float64, Float32 | Float16) | (Float32, Float16) => Way::Narrower,
        (found, wanted) if found.is_integer() && wanted.is_floating() => Way::IfEqual,
        (found, wanted) if found.is_floating() && wanted.is_integer() => Way::IfEqual,
        (found, wanted) if whole(found) && whole(wanted) => Way::IfEqual,
        (Timestamp(_, zone), Timestamp(_, other)) if zone.is_some() == other.is_some() => Way::IfEqual,
        (Duration(_), Duration(_)) => Way::IfEqual,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => Way::IfEqual,
        (Date32 | Date64, Date32 | Date64) => Way::IfEqual,
        _ => return None,
    })
}

fn floats(values: &ArrayRef) -> Result<PrimitiveArray<Float64Type>> {
    let floats = strictly(values, &DataType::Float64).map_err(Error::kernel)?;
    Ok(floats.as_primitive::<Float64Type>().clone())
}

fn strictly(array: &ArrayRef, wanted: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    cast_with_options(array, wanted, &CastOptions { safe: false, ..CastOptions::default() })
}

/// Casts; values that cannot be cast become null.
fn leniently(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    cast_with_options(array, wanted, &CastOptions { safe: true, ..CastOptions::default() }).map_err(Error::kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    use arrow_array::*;
    use arrow_schema::TimeUnit::*;

    fn field(data_type: &DataType, unit: Option<&str>) -> Field {
        let metadata: HashMap<String, String> = unit.map(|unit| (UNIT.into(), unit.into())).into_iter().collect();
        Field::new("x", data_type.clone(), true).with_metadata(metadata)
    }

    fn stored(values: ArrayRef, units: [Option<&str>; 2], wanted: &DataType) -> std::result::Result<ArrayRef, String> {
        rounded(values, units, wanted, false)
    }

    fn rounded(
        values: ArrayRef,
        units: [Option<&str>; 2],
        wanted: &DataType,
        is_rounded: bool,
    ) -> std::result::Result<ArrayRef, String> {
        let given =
            IncomingColumn { field: &field(values.data_type(), units[0]), values: &values, first_row: 100, is_rounded };
        given.stored(&field(wanted, units[1]), wanted).map_err(|error| error.to_string())
    }

    fn of(values: impl Array + 'static, wanted: &DataType) -> std::result::Result<ArrayRef, String> {
        stored(Arc::new(values), [None, None], wanted)
    }

    #[test]
    fn equal_values_are_taken_in_other_types() {
        use DataType::*;
        let same = |values: &dyn Array, wanted: &DataType| {
            let there = stored(values.slice(0, values.len()), [None, None], wanted).unwrap();
            assert_eq!(there.data_type(), wanted);
            assert_eq!(leniently(&there, values.data_type()).unwrap().to_data(), values.to_data(), "{wanted}");
        };
        for wanted in [Int8, Int64, UInt8, Float16, Float32, Float64, Decimal128(5, 1), Decimal32(5, 2), UInt64] {
            same(&Int32Array::from(vec![Some(0), None, Some(100)]), &wanted);
            same(&UInt64Array::from(vec![Some(0), None, Some(100)]), &wanted);
            if !wanted.is_decimal() {
                same(&Float64Array::from(vec![Some(0.0), None, Some(100.0)]), &wanted);
            }
        }
        let seconds = TimestampSecondArray::from(vec![Some(-1), None, Some(9_000_000_000)]);
        same(&seconds, &Timestamp(Nanosecond, None));
        same(&seconds.with_timezone("+02:00"), &Timestamp(Millisecond, Some("UTC".into())));
        same(&Date64Array::from(vec![-86_400_000, 0]), &Date32);
        same(&Time32SecondArray::from(vec![1, 2]), &Time64(Nanosecond));
        same(&BinaryArray::from(vec![&b"ab"[..], b"cd"]), &FixedSizeBinary(2));
        same(&StringViewArray::from(vec!["ab", "c"]), &LargeUtf8);
        assert_eq!(of(NullArray::new(2), &Float32).unwrap().null_count(), 2);
    }

    #[test]
    fn a_value_without_an_equal_one_is_refused_by_row_and_value() {
        use DataType::*;
        let refused = |values: ArrayRef, wanted: DataType, value: &str| {
            let error = stored(values, [None, None], &wanted).unwrap_err();
            assert!(error.starts_with(&format!("column \"x\", row 101 of the batch: {value}")), "{error}");
            assert!(error.contains(&format!(" is no {wanted} of the table")), "{error}");
        };
        refused(Arc::new(Int64Array::from(vec![1, 300])), UInt8, "300");
        refused(Arc::new(Int64Array::from(vec![1, -1])), UInt64, "-1");
        refused(Arc::new(Int64Array::from(vec![1, (1 << 53) + 1])), Float64, "9007199254740993");
        refused(Arc::new(UInt64Array::from(vec![1, u64::MAX])), Float64, "18446744073709551615");
        refused(Arc::new(Float64Array::from(vec![1.0, 1.5])), Int32, "1.5");
        refused(Arc::new(Float64Array::from(vec![1.0, f64::NAN])), Int32, "NaN");
        refused(Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001])), Timestamp(Microsecond, None), "1970");
        refused(Arc::new(TimestampSecondArray::from(vec![1, i64::MAX / 1000])), Timestamp(Nanosecond, None), "");
        refused(Arc::new(Date64Array::from(vec![0, 1])), Date32, "1970-01-01");
        refused(Arc::new(BinaryArray::from(vec![&b"ab"[..], b"c"])), FixedSizeBinary(2), "63");
        let cents = Decimal128Array::from(vec![100, 125]).with_precision_and_scale(5, 2).unwrap();
        refused(Arc::new(cents.clone()), Decimal128(5, 1), "1.25");
        refused(Arc::new(cents), Int8, "1.25");
        for (values, wanted) in [
            (Arc::new(BooleanArray::from(vec![true])) as ArrayRef, Int8),
            (Arc::new(StringArray::from(vec!["1"])), Int8),
            (Arc::new(TimestampSecondArray::from(vec![1])), Timestamp(Second, Some("UTC".into()))),
            (Arc::new(Date32Array::from(vec![1])), Timestamp(Second, None)),
        ] {
            assert!(stored(values, [None, None], &wanted).unwrap_err().contains("has the type"));
        }
    }

    #[test]
    fn a_float_is_not_rounded() {
        use DataType::*;
        let exact = vec![Some(0.5), None, Some(f64::INFINITY), Some(-0.0), Some(f64::from(f32::from_bits(3)))];
        assert_eq!(of(Float64Array::from(exact), &Float32).unwrap().null_count(), 1);
        assert!(of(Float64Array::from(vec![f64::NAN]), &Float16).is_ok());
        for (value, wanted) in [(0.1, Float32), (2460000.123, Float32), (16_777_217.0, Float32), (1e60, Float32)] {
            let error = of(Float64Array::from(vec![Some(0.5), None, Some(value)]), &wanted).unwrap_err();
            assert!(error.contains("row 102 of the batch") && error.contains("round the data to float32"), "{error}");
        }
        assert!(of(Float32Array::from(vec![0.1]), &Float16).is_err());
    }

    #[test]
    fn a_column_with_an_error_bound_takes_the_nearest_float() {
        use DataType::*;
        let of = |values: Float64Array, wanted: &DataType| rounded(Arc::new(values), [None, None], wanted, true);
        let singles = of(Float64Array::from(vec![0.1, f64::INFINITY, -0.0, f64::from(f32::from_bits(3))]), &Float32);
        let singles = singles.unwrap();
        assert_eq!(singles.as_primitive::<Float32Type>().values()[..], [0.1, f32::INFINITY, -0.0, f32::from_bits(3)]);
        assert!(
            of(Float64Array::from(vec![f64::NAN]), &Float16).unwrap().as_primitive::<Float16Type>().value(0).is_nan()
        );
        for (value, wanted) in [(1e60, Float32), (-3.5e38, Float32), (1e-60, Float32), (1e-42, Float32), (1e5, Float16)]
        {
            let error = of(Float64Array::from(vec![Some(0.5), None, Some(value)]), &wanted).unwrap_err();
            assert!(error.contains("row 102 of the batch"), "{value}: {error}");
        }
        assert!(of(Float64Array::from(vec![65_536.0]), &Float16).is_err());
    }

    #[test]
    fn another_unit_is_converted_or_refused() {
        use DataType::*;
        let of =
            |values: ArrayRef, from: &str, to: &str, wanted: &DataType| stored(values, [Some(from), Some(to)], wanted);
        let angles: ArrayRef = Arc::new(Float64Array::from(vec![Some(std::f64::consts::PI), None]));
        let degrees = of(angles.clone(), "rad", "deg", &Float64).unwrap();
        assert_eq!(degrees.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(180.0), None]);
        let degrees = of(angles, "rad", "deg", &Float32).unwrap();
        assert_eq!(degrees.as_primitive::<Float32Type>().value(0), 180.0);
        let kelvin = of(Arc::new(Float32Array::from(vec![20.0])), "degree_Celsius", "K", &Float32).unwrap();
        assert_eq!(kelvin.as_primitive::<Float32Type>().value(0), 293.15);
        let zero = of(Arc::new(Float64Array::from(vec![273.15])), "K", "degC", &Float64).unwrap();
        assert_eq!(zero.as_primitive::<Float64Type>().value(0), 0.0);
        let lengths: ArrayRef = Arc::new(Int16Array::from(vec![Some(2), None]));
        let millimetres = of(lengths.clone(), "m", "mm", &Int32).unwrap();
        assert_eq!(millimetres.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(2000), None]);
        assert_eq!(of(lengths.clone(), "m", "mm", &Float64).unwrap().as_primitive::<Float64Type>().value(0), 2000.0);
        let parts = of(Arc::new(Float64Array::from(vec![0.1])), "m", "mm", &Int32).unwrap();
        assert_eq!(parts.as_primitive::<Int32Type>().value(0), 100);
        for (values, from, to, wanted, why) in [
            (lengths.clone(), "m", "s", Float64, "is in \"m\" in the data and in \"s\" in the table: these are of"),
            (lengths.clone(), "mm", "m", Int64, "row 100 of the batch: 2 mm is no Int64 of the table in m"),
            (lengths.clone(), "m", "um", Int16, "row 100 of the batch: 2 m is no Int16"),
            (lengths.clone(), "m", "mag", Float64, "the unit `mag` is not known"),
            (Arc::new(Float64Array::from(vec![1e307])), "km", "mm", Float64, "row 100"),
            (Arc::new(Float64Array::from(vec![1e-306])), "mm", "km", Float64, "row 100"),
            (Arc::new(StringArray::from(vec!["1"])), "mm", "km", Utf8, "values of the type Utf8 are not converted"),
        ] {
            let error = of(values, from, to, &wanted).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(stored(lengths.clone(), [Some("m"), None], &Int16).unwrap_err().contains("has no unit in the table"));
        assert!(stored(lengths.clone(), [None, Some("m")], &Int16).is_ok());
        assert!(stored(lengths, [Some("1"), None], &Int16).is_ok());
    }
}
