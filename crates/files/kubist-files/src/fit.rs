//! Matches a file's columns to the table's, and converts them.
//!
//! A table has one schema. A file with a missing column, an extra one or another type is refused with file
//! and column. A type that the table's type contains without loss is widened. Nothing is narrowed or rounded.

use std::path::Path;
use std::sync::Arc;

use crate::Input;
use crate::error::{Error, Result};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

const UNIT: &str = "unit";

/// The schema of a new table for all these files: the first one's, with every column wide enough for the
/// others. `types` overrides the found types.
///
/// # Errors
///
/// `Invalid` names the file and the column that do not match the others.
pub fn common(inputs: &[&Input], types: &[(String, DataType)]) -> Result<SchemaRef> {
    let Some((first, others)) = inputs.split_first() else {
        return Err(Error::invalid("no files were given"));
    };
    let mut fields: Vec<Field> = first.fields.iter().map(|field| field.as_ref().clone()).collect();
    let mut text = vec![!first.typed; fields.len()];
    for input in others {
        same_columns(input, &fields.iter().cloned().collect(), &format!("{} has", first.path.display()))?;
        for (field, text) in fields.iter_mut().zip(&mut text) {
            let Some((_, other)) = input.fields.find(field.name()) else {
                continue;
            };
            let from_text = *text || !input.typed;
            let Some(wide) = wider(field.data_type(), other.data_type(), from_text) else {
                return Err(Error::invalid(format!(
                    "{}: column {:?} is {}, but {} has it as {}",
                    input.path.display(),
                    field.name(),
                    other.data_type(),
                    first.path.display(),
                    field.data_type(),
                )));
            };
            *field = field.clone().with_data_type(wide).with_nullable(field.is_nullable() || other.is_nullable());
            *text &= !input.typed;
        }
    }
    for (column, data_type) in types {
        let Some(field) = fields.iter_mut().find(|field| field.name() == column) else {
            return Err(Error::invalid(format!("types: {column}: {} has no such column", first.path.display())));
        };
        *field = field.clone().with_data_type(data_type.clone());
    }
    let schema = settle(&fields);
    inputs.iter().try_for_each(|input| check(input, &schema))?;
    Ok(schema)
}

/// The columns of a file as a table can store them: a column without any value becomes text.
pub fn settled(input: &Input) -> SchemaRef {
    settle(&input.fields.iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>())
}

fn settle(fields: &[Field]) -> SchemaRef {
    let settled = |field: &Field| {
        let data_type = if field.data_type().is_null() { DataType::Utf8 } else { field.data_type().clone() };
        field.clone().with_data_type(data_type)
    };
    Arc::new(Schema::new(fields.iter().map(settled).collect::<Fields>()))
}

/// The narrower of two types that contains both. Types that were inferred from text may also widen from
/// integer to float, because the digits are read again.
fn wider(one: &DataType, other: &DataType, from_text: bool) -> Option<DataType> {
    if widens(other, one) {
        return Some(one.clone());
    }
    if widens(one, other) {
        return Some(other.clone());
    }
    let meet = |a: &DataType, b: &DataType| a.is_integer() && b.is_floating();
    (from_text && (meet(one, other) || meet(other, one)))
        .then(|| if one.is_floating() { one.clone() } else { other.clone() })
}

/// Checks that the file's columns match the table's.
///
/// # Errors
///
/// `Invalid` names the file and the column that do not match.
pub fn check(input: &Input, table: &Schema) -> Result<()> {
    same_columns(input, table.fields(), "the table has")?;
    for field in table.fields() {
        let Some((_, found)) = input.fields.find(field.name()) else {
            continue;
        };
        if input.typed && !widens(found.data_type(), field.data_type()) {
            return Err(Error::invalid(format!(
                "{}: column {:?} is {}, which does not fit the table's {} without loss",
                input.path.display(),
                field.name(),
                found.data_type(),
                field.data_type(),
            )));
        }
    }
    Ok(())
}

fn same_columns(input: &Input, expected: &Fields, owner: &str) -> Result<()> {
    let path = input.path.display();
    if let Some(field) = expected.iter().find(|field| input.fields.find(field.name()).is_none()) {
        return Err(Error::invalid(format!(
            "{path}: column {:?} is missing ({owner} it as {})",
            field.name(),
            field.data_type()
        )));
    }
    if let Some(field) = input.fields.iter().find(|field| expected.find(field.name()).is_none()) {
        return Err(Error::invalid(format!(
            "{path}: {owner} no column {:?} ({}); read option columns chooses which to take",
            field.name(),
            field.data_type()
        )));
    }
    Ok(())
}

/// The table's columns with the file's units, so that the writer converts the values. Columns without a unit
/// in the file, and `stated` ones, are in the table's unit.
pub fn in_units_of(input: &Input, table: &Schema, stated: &[String]) -> SchemaRef {
    let own = |name: &String| input.fields.find(name).and_then(|(_, own)| own.metadata().get(UNIT));
    let measured = |field: &Arc<Field>| match own(field.name()).filter(|_| !stated.contains(field.name())) {
        Some(unit) => {
            Arc::new(field.as_ref().clone().with_metadata(field.metadata().clone().with(UNIT, unit.as_str())))
        }
        None => field.clone(),
    };
    Arc::new(Schema::new(table.fields().iter().map(measured).collect::<Fields>()))
}

/// Converts a batch to this schema. `first_row` counts from 1, for messages.
///
/// # Errors
///
/// `Invalid` names the file, the column and the value that does not fit.
pub fn fitted(path: &Path, batch: &RecordBatch, table: &SchemaRef, first_row: u64) -> Result<RecordBatch> {
    let columns = table.fields().iter().map(|field| column(path, batch, field, first_row));
    RecordBatch::try_new(table.clone(), columns.collect::<Result<_>>()?)
        .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
}

fn column(path: &Path, batch: &RecordBatch, field: &Field, first_row: u64) -> Result<ArrayRef> {
    let context = || format!("{}: column {:?}", path.display(), field.name());
    let found =
        batch.column_by_name(field.name()).ok_or_else(|| Error::invalid(format!("{} is missing", context())))?;
    let array = if found.data_type() == field.data_type() {
        found.clone()
    } else {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(found, field.data_type(), &options)
            .map_err(|error| Error::invalid(format!("{}: {error}", context())))?
    };
    if !field.is_nullable()
        && let Some(row) = array.logical_nulls().and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row)))
    {
        return Err(Error::invalid(format!(
            "{}, row {}: there is no value, and the table's column must have one",
            context(),
            first_row + row as u64
        )));
    }
    Ok(array)
}

/// Whether the type `to` contains every value of `from`.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let integer = |data_type: &DataType| data_type.is_integer();
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        (Dictionary(_, from), to) => widens(from, to),
        (from, Dictionary(_, to)) => widens(from, to),
        (from, to) if integer(from) && integer(to) => {
            let bits = |data_type: &DataType| data_type.primitive_width().unwrap_or(0);
            match (from.is_signed_integer(), to.is_signed_integer()) {
                (one, other) if one == other => bits(from) <= bits(to),
                (false, true) => bits(from) < bits(to),
                _ => false,
            }
        }
        (Int8 | UInt8, Float16 | Float32 | Float64) => true,
        (Int16 | UInt16, Float32 | Float64) => true,
        (Int32 | UInt32, Float64) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary | LargeBinary | BinaryView) => true,
        (Date32, Date64) => true,
        (Timestamp(from, zone), Timestamp(to, other)) => zone == other && finer(from, to),
        (Duration(from), Duration(to)) => finer(from, to),
        (Time32(from), Time32(to) | Time64(to)) | (Time64(from), Time64(to)) => finer(from, to),
        (
            Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s),
            Decimal32(q, t) | Decimal64(q, t) | Decimal128(q, t),
        )
        | (Decimal256(p, s), Decimal256(q, t))
        | (Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s), Decimal256(q, t)) => {
            t >= s && i16::from(*q) - i16::from(*t) >= i16::from(*p) - i16::from(*s)
        }
        _ => false,
    }
}

fn finer(from: &TimeUnit, to: &TimeUnit) -> bool {
    let rank = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    rank(from) <= rank(to)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, Int64Array};

    use super::*;
    use crate::Options;

    #[test]
    fn only_lossless_types_widen() {
        use DataType::*;
        let second = Timestamp(TimeUnit::Second, None);
        let nano = Timestamp(TimeUnit::Nanosecond, None);
        for (from, to) in [
            (Int8, Int64),
            (UInt8, Int16),
            (UInt32, UInt64),
            (Int16, Float32),
            (Int32, Float64),
            (Float16, Float64),
            (Utf8, LargeUtf8),
            (Dictionary(Box::new(Int32), Box::new(Utf8)), Utf8),
            (second.clone(), nano.clone()),
            (Decimal128(5, 2), Decimal128(8, 3)),
            (Null, Float32),
        ] {
            assert!(widens(&from, &to), "{from} to {to}");
        }
        for (from, to) in [
            (Int64, Int32),
            (UInt64, Int64),
            (Int8, UInt64),
            (Int32, Float32),
            (Int64, Float64),
            (Float64, Float32),
            (Float32, Int64),
            (Utf8, Int64),
            (nano, second),
            (Decimal128(5, 2), Decimal128(5, 3)),
            (Boolean, Int8),
        ] {
            assert!(!widens(&from, &to), "{from} to {to}");
        }
    }

    fn csv(folder: &Path, name: &str, text: &str) -> Input {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        Input::inspect(&path, &Options::default()).unwrap()
    }

    #[test]
    fn text_files_meet_in_the_wider_type() {
        let folder = tempfile::tempdir().unwrap();
        let inputs =
            [csv(folder.path(), "a.csv", "pid,u,note\n1,0,\n"), csv(folder.path(), "b.csv", "note,pid,u\nhit,2,0.5\n")];
        let inputs = inputs.each_ref();
        let schema = common(&inputs, &[]).unwrap();
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, [DataType::Int64, DataType::Float64, DataType::Utf8]);
        let schema = common(&inputs, &[("u".to_string(), DataType::Float32)]).unwrap();
        assert_eq!(schema.field(1).data_type(), &DataType::Float32);
    }

    #[test]
    fn drift_names_file_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let table =
            Schema::new(vec![Field::new("pid", DataType::Int32, false), Field::new("x", DataType::Float32, true)]);
        let message = |input: &Input| check(input, &table).unwrap_err().to_string();
        let input = csv(folder.path(), "a.csv", "pid\n1\n");
        assert!(message(&input).ends_with("a.csv: column \"x\" is missing (the table has it as Float32)"));
        let input = csv(folder.path(), "a.csv", "pid,x,y\n1,2,3\n");
        assert!(message(&input).contains("a.csv: the table has no column \"y\" (Int64); read option columns"));
        let input = csv(folder.path(), "a.csv", "pid,x\n1,hello\n");
        assert!(check(&input, &table).is_ok(), "text is judged value by value");
        let mut input = input;
        input.typed = true;
        assert!(message(&input).contains("column \"pid\" is Int64, which does not fit the table's Int32"));
    }

    #[test]
    fn batches_are_reordered_widened_and_checked_for_missing_values() {
        let table: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("x", DataType::Float64, true),
            Field::new("pid", DataType::Int64, false),
        ]));
        let batch = |pid: Int32Array| {
            let x: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
            RecordBatch::try_from_iter_with_nullable([("pid", Arc::new(pid) as ArrayRef, true), ("x", x, true)])
                .unwrap()
        };
        let path = Path::new("a.parquet");
        let fit = fitted(path, &batch(Int32Array::from(vec![1, 2])), &table, 1).unwrap();
        assert_eq!(fit.schema(), table);
        assert_eq!(fit["pid"].as_ref(), &Int64Array::from(vec![1, 2]) as &dyn Array);
        let error = fitted(path, &batch(Int32Array::from(vec![Some(1), None])), &table, 101).unwrap_err().to_string();
        assert!(error.contains("a.parquet: column \"pid\", row 102: there is no value"), "{error}");
    }
}
