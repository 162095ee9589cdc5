//! Record batches through Arrow's C interfaces, without copies.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use arrow_array::ffi::{from_ffi, FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use kubist::QueryStream;
use kubist_insitu::{Failure, Result};

use crate::floats::Quiet;
use crate::hooks::{Call, Hooks};

/// Imports a batch, and validates its values because the producer may be wrong.
///
/// # Errors
///
/// `Invalid` if it is not a struct array without null rows, or if values do not match their types.
///
/// # Safety
///
/// Both pointers are null or valid for Arrow's C data interface.
pub unsafe fn incoming(schema: *mut FFI_ArrowSchema, array: *mut FFI_ArrowArray) -> Result<RecordBatch> {
    if schema.is_null() || array.is_null() {
        return Err(Failure::invalid("schema and array must not be null"));
    }
    let wrong = |error: ArrowError| Failure::invalid(format!("the batch cannot be read: {error}"));
    // SAFETY: guaranteed by the caller. The array is moved out, which leaves a released one.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array), &*schema) }.map_err(wrong)?;
    data.validate_full().map_err(wrong)?;
    let array = arrow_array::make_array(data);
    let columns = array.as_any().downcast_ref::<StructArray>().filter(|columns| columns.null_count() == 0);
    let Some(columns) = columns else {
        let found = array.data_type();
        return Err(Failure::invalid(format!("a batch must be a struct of columns without null rows, found {found}")));
    };
    let schema = Arc::new(Schema::new(columns.fields().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(columns.len()));
    RecordBatch::try_new_with_options(schema, columns.columns().to_vec(), &options).map_err(wrong)
}

/// Arrow's C functions call it, so no panic may leave it.
struct Outgoing {
    schema: SchemaRef,
    /// `None` after an error; the stream then ends.
    stream: Option<QueryStream>,
    call: Call,
    hooks: Hooks,
}

impl Iterator for Outgoing {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _quiet = Quiet::now();
        let Outgoing { stream: slot, call, hooks, .. } = self;
        let stream = slot.as_mut()?;
        let next = hooks.run(call, || Ok(stream.next().transpose()?));
        match &next {
            Ok(Some(batch)) => call.add(batch.num_rows() as u64),
            Ok(None) => {}
            Err(_) => drop_quietly(slot.take()),
        }
        next.map_err(|failure| ArrowError::ExternalError(failure.message.replace('\0', " ").into())).transpose()
    }
}

impl RecordBatchReader for Outgoing {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        drop_quietly(self.stream.take());
    }
}

fn drop_quietly(stream: Option<QueryStream>) {
    let _quiet = Quiet::now();
    let _ = catch_unwind(AssertUnwindSafe(|| drop(stream)));
}

/// # Errors
///
/// `Invalid` if `out` is null.
///
/// # Safety
///
/// `out` is null or writable.
pub unsafe fn outgoing(out: *mut FFI_ArrowArrayStream, stream: QueryStream, call: Call, hooks: &Hooks) -> Result<()> {
    let schema = stream.schema();
    let outgoing = Outgoing { schema, stream: Some(stream), call, hooks: hooks.clone() };
    let stream = FFI_ArrowArrayStream::new(Box::new(outgoing));
    // SAFETY: guaranteed by the caller.
    unsafe { crate::text::set(out, "the pointer to the stream", stream) }
}
