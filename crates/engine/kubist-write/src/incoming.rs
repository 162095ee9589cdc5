//! Slices input batches to fit into memory, and copies them.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;
use kubist_index::plain;

use kubist_types::error::{Error, Result};

const SLICE_ROWS: usize = 1 << 18;
const SLICE_BYTES: usize = 64 << 20;

/// Copies the batch, because callers may reuse their buffers after `append`.
pub(crate) fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|array| {
        let data = array.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len()).map_err(Error::invalid)?;
        Ok(arrow_array::make_array(copy.freeze()))
    });
    RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?).map_err(Error::invalid)
}

pub(crate) fn slices(batch: &RecordBatch) -> Vec<Range<usize>> {
    let expand = |column: &&ArrayRef| {
        matches!(column.data_type(), DataType::Dictionary(_, _) | DataType::Utf8View | DataType::BinaryView)
    };
    let expanding: Vec<&ArrayRef> = batch.columns().iter().filter(expand).collect();
    let bytes = |rows: &Range<usize>| {
        let of_column = |column: &&ArrayRef| plain::bytes(&column.slice(rows.start, rows.len()));
        expanding.iter().map(of_column).fold(0, usize::saturating_add)
    };
    let mut slices = Vec::new();
    for first in (0..batch.num_rows()).step_by(SLICE_ROWS) {
        // A stack, so the last slice is checked next.
        let mut open = vec![first..batch.num_rows().min(first + SLICE_ROWS)];
        while let Some(rows) = open.pop() {
            if rows.len() == 1 || bytes(&rows) <= SLICE_BYTES {
                slices.push(rows);
            } else {
                let middle = rows.start + rows.len() / 2;
                open.extend([middle..rows.end, rows.start..middle]);
            }
        }
    }
    slices
}
