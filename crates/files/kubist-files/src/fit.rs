//! Matches the columns of a file to the columns of the table, and converts them.
//!
//! A new table has the columns of all its files, in types that can hold the values of every file. A missing column is
//! null, or an error if the table needs a value. Integers of any type fit into an integer column if their values do. No
//! other type is narrowed, and nothing is rounded.

use std::path::Path;
use std::sync::Arc;

use crate::Input;
use crate::error::{Error, Result};
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

pub(crate) const UNIT: &str = "unit";

/// The columns of a file, from any reader.
#[derive(Clone, Copy)]
pub struct FileColumns<'a> {
    pub path: &'a Path,
    pub fields: &'a Fields,
    /// True if an integer and a float in two files become a float. This is so for text, which has no types of its own.
    /// For other formats, the table checks each value.
    pub promotes: bool,
}

/// All columns in order of appearance, each wide enough for every file. If a file lacks a column, it may be null.
///
/// # Errors
///
/// `Invalid` names the file, and the column whose type does not fit the other files.
pub fn union(files: &[FileColumns<'_>]) -> Result<Vec<Field>> {
    struct Column<'a> {
        field: Field,
        promotes: bool,
        path: &'a Path,
    }
    let mut columns: Vec<Column<'_>> = Vec::new();
    for file in files {
        for field in file.fields {
            let Some(column) = columns.iter_mut().find(|column| column.field.name() == field.name()) else {
                columns.push(Column { field: field.as_ref().clone(), promotes: file.promotes, path: file.path });
                continue;
            };
            let (one, other) = (column.field.data_type(), field.data_type());
            let Some(wide) = wider(one, other, column.promotes || file.promotes) else {
                return Err(Error::invalid(format!(
                    "{}: column {:?} is {other}, but {} has it as {one}: read option types sets a type for all",
                    file.path.display(),
                    field.name(),
                    column.path.display(),
                )));
            };
            let is_nullable = column.field.is_nullable() || field.is_nullable();
            column.field = column.field.clone().with_data_type(wide).with_nullable(is_nullable);
            column.promotes &= file.promotes;
        }
    }
    let in_all = |name: &String| files.iter().all(|file| file.fields.find(name).is_some());
    let fields = columns.into_iter().map(|column| column.field);
    Ok(fields.map(|field| if in_all(field.name()) { field } else { field.with_nullable(true) }).collect())
}

/// The columns of a file, as [`storable_columns`] returns them.
pub fn storable_schema(input: &Input) -> SchemaRef {
    storable_columns(&input.fields.iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>())
}

/// The columns that a table can store. A column without any value becomes text.
pub fn storable_columns(fields: &[Field]) -> SchemaRef {
    let storable = |field: &Field| {
        let data_type = if field.data_type().is_null() { DataType::Utf8 } else { field.data_type().clone() };
        field.clone().with_data_type(data_type)
    };
    Arc::new(Schema::new(fields.iter().map(storable).collect::<Fields>()))
}

/// The narrowest type that contains both types. With `promotes`, an integer and a float become a float.
pub fn wider(one: &DataType, other: &DataType, promotes: bool) -> Option<DataType> {
    if widens(other, one) {
        return Some(one.clone());
    }
    if widens(one, other) {
        return Some(other.clone());
    }
    if one.is_integer() && other.is_integer() {
        // The types are a signed and an unsigned type of the same width, or a wider unsigned type.
        let bits = one.primitive_width().max(other.primitive_width());
        return match bits {
            Some(1) => Some(DataType::Int16),
            Some(2) => Some(DataType::Int32),
            // Whether 64 bits are enough depends on the values.
            _ => Some(DataType::Int64),
        };
    }
    let meet = |a: &DataType, b: &DataType| a.is_integer() && b.is_floating();
    (promotes && (meet(one, other) || meet(other, one))).then_some(DataType::Float64)
}

/// Checks a file against the table. Columns that only the file has are ignored.
///
/// # Errors
///
/// `Invalid` names the file and a column that has another type, or that the file lacks although it is
/// `needed` or must not be null.
pub fn check(input: &Input, table: &Schema, needed: &[String]) -> Result<()> {
    for field in table.fields() {
        let Some((_, found)) = input.fields.find(field.name()) else {
            if field.is_nullable() && !needed.contains(field.name()) {
                continue;
            }
            return Err(Error::invalid(format!(
                "{}: column {:?} is missing, and the table needs a value in it ({}); the file has {}",
                input.path.display(),
                field.name(),
                field.data_type(),
                names(&input.fields),
            )));
        };
        let (one, other) = (found.data_type(), field.data_type());
        if input.typed && !widens(one, other) && !(one.is_integer() && other.is_integer()) {
            let wider = match widens(other, one) && one.is_floating() {
                true => format!(": a copy of the table takes it, by kubist copy --types {}=float64", field.name()),
                false => String::new(),
            };
            return Err(Error::invalid(format!(
                "{}: column {:?} is {one}, which does not fit the table's {other} without loss{wider}",
                input.path.display(),
                field.name(),
            )));
        }
    }
    Ok(())
}

fn names(fields: &Fields) -> String {
    fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
}

/// The table's columns with the file's units, so that the writer converts the values. Columns that have no unit in the
/// file, and the columns in `stated`, have the table's unit.
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

/// Converts a batch to the table's columns. Missing columns are null. `first_row` counts from 1, for messages.
///
/// # Errors
///
/// `Invalid` names the file, the column and the value that does not fit.
pub fn fitted(path: &Path, batch: &RecordBatch, table: &SchemaRef, first_row: u64) -> Result<RecordBatch> {
    let columns =
        table.fields().iter().map(|field| column(path, batch, field, first_row)).collect::<Result<Vec<_>>>()?;
    let typed =
        |(field, column): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(column.data_type().clone());
    let schema = Schema::new(table.fields().iter().zip(&columns).map(typed).collect::<Fields>());
    RecordBatch::try_new(Arc::new(schema), columns)
        .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
}

fn column(path: &Path, batch: &RecordBatch, field: &Field, first_row: u64) -> Result<ArrayRef> {
    let context = || format!("{}: column {:?}", path.display(), field.name());
    let Some(found) = batch.column_by_name(field.name()) else {
        if field.is_nullable() {
            return Ok(new_null_array(field.data_type(), batch.num_rows()));
        }
        return Err(Error::invalid(format!("{} is missing", context())));
    };
    let array =
        if found.data_type() == field.data_type() || found.data_type().is_integer() && field.data_type().is_integer() {
            // The table decides whether an integer fits, and reports its row.
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
    use arrow_array::Int32Array;

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
        let inputs = inputs.each_ref().map(Input::columns);
        let schema = storable_columns(&union(&inputs).unwrap());
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, [DataType::Int64, DataType::Float64, DataType::Utf8]);
    }

    #[test]
    fn a_new_table_has_the_columns_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = [csv(folder.path(), "a.csv", "x,u\n1,2\n"), csv(folder.path(), "b.csv", "v,x\n0.5,2\n")];
        let schema = storable_columns(&union(&inputs.each_ref().map(Input::columns)).unwrap());
        let fields: Vec<_> = schema.fields().iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
        assert_eq!(fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["x", "u", "v"]);
        assert!(fields[1].1 && fields[2].1);
        use DataType::*;
        for (one, other, both) in
            [(UInt32, UInt64, UInt64), (Int32, UInt32, Int64), (UInt8, Int8, Int16), (Int8, UInt64, Int64)]
        {
            assert_eq!(wider(&one, &other, false), Some(both.clone()), "{one} and {other}");
            assert_eq!(wider(&other, &one, false), Some(both), "{other} and {one}");
        }
    }

    #[test]
    fn drift_names_file_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let table =
            Schema::new(vec![Field::new("pid", DataType::Int32, false), Field::new("x", DataType::Float32, true)]);
        let needed = |input: &Input, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            check(input, &table, &names)
        };
        let message = |input: &Input, names: &[&str]| needed(input, names).unwrap_err().to_string();
        let input = csv(folder.path(), "a.csv", "pid\n1\n");
        assert!(needed(&input, &[]).is_ok(), "null where the table may have it");
        assert!(message(&input, &["x"]).contains("a.csv: column \"x\" is missing"));
        let input = csv(folder.path(), "a.csv", "x,y\n1,2\n");
        assert!(message(&input, &[]).contains("a.csv: column \"pid\" is missing"));
        let mut input = csv(folder.path(), "a.csv", "pid,x,y\n1,hello,2\n");
        assert!(needed(&input, &[]).is_ok(), "text is judged value by value");
        input.typed = true;
        assert!(message(&input, &[]).contains("column \"x\" is Utf8, which does not fit the table's Float32"));
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
        assert_eq!(fit["pid"].as_ref(), &Int32Array::from(vec![1, 2]) as &dyn Array);
        assert_eq!(fit["x"].data_type(), &DataType::Float64);
        let error = fitted(path, &batch(Int32Array::from(vec![Some(1), None])), &table, 101).unwrap_err().to_string();
        assert!(error.contains("a.parquet: column \"pid\", row 102: there is no value"), "{error}");
    }
}
