//! Sizes, sums and subsets of rows, for budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::filter::filter;
use kubist::{ErrorKind, Thinned};
use kubist_catalog::schema::KEPT_BELOW;
use kubist_types::ColumnSum;

use crate::failure::{Failure, Result};
use crate::layout::Layout;

const MOST_WHOLE: i128 = 1 << 53;

fn internal(error: ArrowError) -> Failure {
    Failure::from(kubist::Error::internal(error))
}

fn width(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Boolean => Some(1),
        other => other.primitive_width().map(|bytes| bytes as u64),
    }
}

pub fn least_bytes(schema: &Schema) -> u64 {
    let columns = schema.fields().iter().filter(|field| field.name() != KEPT_BELOW);
    columns.filter_map(|field| width(field.data_type())).sum()
}

/// # Errors
///
/// `Unsupported` for types without a width or length.
pub fn bytes(batch: &RecordBatch) -> Result<Vec<u64>> {
    let mut all = vec![0; batch.num_rows()];
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let lengths: ArrayRef = match (width(field.data_type()), field.data_type()) {
            (Some(bytes), _) => {
                all.iter_mut().for_each(|row| *row += bytes);
                continue;
            }
            (None, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary) => lengths(array),
            (None, other) => {
                let message = format!(
                    "column {:?}: the size of type {other} is unknown, so a budget cannot include it",
                    field.name()
                );
                return Err(Failure::new(ErrorKind::Unsupported, message));
            }
        };
        let lengths = lengths.as_primitive::<Int64Type>();
        all.iter_mut().zip(lengths.values()).for_each(|(row, length)| *row += *length as u64);
    }
    Ok(all)
}

fn lengths(array: &ArrayRef) -> ArrayRef {
    let length = |row: usize| match array.data_type() {
        _ if array.is_null(row) => 0,
        DataType::Utf8 => array.as_string::<i32>().value(row).len(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).len(),
        DataType::Binary => array.as_binary::<i32>().value(row).len(),
        _ => array.as_binary::<i64>().value(row).len(),
    };
    Arc::new(arrow_array::Int64Array::from_iter_values((0..array.len()).map(|row| length(row) as i64)))
}

/// The kept rows, with a column of their thresholds.
///
/// # Errors
///
/// `Internal`.
pub fn taken(batch: &RecordBatch, kept: &BooleanArray, below: Vec<f64>) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|array| filter(array, kept).map_err(internal));
    let mut columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
    let options = RecordBatchOptions::new().with_row_count(Some(below.len()));
    fields.push(Arc::new(Field::new(KEPT_BELOW, DataType::Float64, true)));
    columns.push(Arc::new(Float64Array::from(below)));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(internal)
}

#[derive(Default)]
pub struct Sums(BTreeMap<String, Sum>);

struct Sum {
    values: u64,
    total: Total,
}

enum Total {
    Whole(i128),
    /// The sum and its compensation (Neumaier, ZAMM 54, 1974).
    Float(f64, f64),
}

impl Sums {
    /// # Errors
    ///
    /// `Internal`.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let (wanted, empty) = match field.data_type() {
                DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                    (DataType::Float64, Total::Float(0.0, 0.0))
                }
                DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                    (DataType::Int64, Total::Whole(0))
                }
                DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => (DataType::Int64, Total::Whole(0)),
                _ => continue,
            };
            let sum = self.0.entry(field.name().clone()).or_insert(Sum { values: 0, total: empty });
            let values = arrow_cast::cast(array, &wanted).map_err(internal)?;
            match &mut sum.total {
                Total::Whole(total) => {
                    for value in values.as_primitive::<Int64Type>().iter().flatten() {
                        (*total, sum.values) = (*total + i128::from(value), sum.values + 1);
                    }
                }
                Total::Float(total, lost) => {
                    let there = values.as_primitive::<Float64Type>().iter().flatten();
                    for value in there.filter(|value| !value.is_nan()) {
                        let next = *total + value;
                        *lost += match total.abs() >= value.abs() {
                            true => (*total - next) + value,
                            false => (value - next) + *total,
                        };
                        (*total, sum.values) = (next, sum.values + 1);
                    }
                }
            }
        }
        Ok(())
    }

    pub fn finish(self) -> BTreeMap<String, ColumnSum> {
        let held = |(name, sum): (String, Sum)| {
            let total = match sum.total {
                Total::Whole(total) => (total.abs() <= MOST_WHOLE).then_some(total as f64),
                Total::Float(total, lost) => Some(total + lost).filter(|sum| sum.is_finite()),
            };
            Some((name, ColumnSum { values: sum.values, sum: total? }))
        };
        self.0.into_iter().filter_map(held).collect()
    }
}

/// For a leader with the same columns.
pub fn words(thinned: &Thinned, layout: &Layout) -> Vec<u64> {
    let Thinned { below, rows, always, bytes, sums } = thinned;
    let mut words = vec![below.to_bits(), *rows, *always, *bytes];
    for (name, ColumnSum { values, sum }) in sums {
        if let Ok(column) = layout.schema().index_of(name) {
            words.extend([column as u64, *values, sum.to_bits()]);
        }
    }
    words
}

/// # Errors
///
/// `Internal`.
pub fn thinned(words: &[u64], layout: &mut Layout) -> Result<Thinned> {
    let garbled = || Failure::new(ErrorKind::Internal, "a rank sent invalid totals of a step");
    let (head, sums) = words.split_first_chunk::<4>().ok_or_else(garbled)?;
    let [below, rows, always, bytes] = *head;
    let mut thinned = Thinned { below: f64::from_bits(below), rows, always, bytes, sums: BTreeMap::new() };
    for [column, values, sum] in sums.as_chunks::<3>().0 {
        if *column >= layout.columns() as u64 {
            layout.refresh()?;
        }
        let name = layout.schema().fields().get(*column as usize).ok_or_else(garbled)?.name().clone();
        thinned.sums.insert(name, ColumnSum { values: *values, sum: f64::from_bits(*sum) });
    }
    Ok(thinned)
}
