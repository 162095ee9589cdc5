//! Record batches through Arrow's C data interface, without copies.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_array::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{DataType, SchemaRef};
use jni_sys::jlong;

use crate::jvm::{Class, Env, Failure, Result, ended};

static OUT: AtomicI64 = AtomicI64::new(0);

pub fn out() -> i64 {
    OUT.load(Ordering::Relaxed)
}

/// Exports a batch as the address of a struct array, for `Native.release`.
pub fn hand_out(batch: RecordBatch) -> jlong {
    let array = Box::new(FFI_ArrowArray::new(&StructArray::from(batch).into_data()));
    OUT.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(array) as jlong
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_release(env: Env, _: Class, address: jlong) {
    ended(env, (), || {
        // SAFETY: `hand_out` created it, and `org.kubist.Batch` releases it once.
        drop(unsafe { Box::from_raw(address as *mut FFI_ArrowArray) });
        OUT.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    });
}

/// Marks an array as released; Java keeps its memory.
unsafe extern "C" fn released(array: *mut FFI_ArrowArray) {
    // `release` is the ninth of the ten words of `struct ArrowArray`. SAFETY: by the interface, the caller
    // passes an array.
    unsafe { array.cast::<*const c_void>().add(8).write(std::ptr::null()) };
}

/// The function that Java stores as `release` in arrays whose memory it keeps.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_releaser(_: Env, _: Class) -> jlong {
    released as *const () as jlong
}

/// Imports a struct array with these columns, and validates its values, because the program may be wrong.
///
/// # Errors
///
/// `Invalid` if it is null, has null rows, or has values of other types.
///
/// # Safety
///
/// The address is that of a struct array by Arrow's C data interface, which is valid until the batch is
/// dropped.
pub unsafe fn incoming(address: jlong, schema: &SchemaRef) -> Result<RecordBatch> {
    if address == 0 {
        return Err(Failure::invalid("the batch is null"));
    }
    let wrong = |error: arrow_schema::ArrowError| Failure::invalid(format!("the batch cannot be read: {error}"));
    let data_type = DataType::Struct(schema.fields().clone());
    // SAFETY: guaranteed by the caller. The array is moved out, and a released one is left.
    let data = unsafe { from_ffi_and_data_type(FFI_ArrowArray::from_raw(address as *mut _), data_type) };
    let data = data.map_err(wrong)?;
    data.validate_full().map_err(wrong)?;
    let columns = StructArray::from(data);
    if columns.null_count() > 0 {
        return Err(Failure::invalid("a batch has no null rows"));
    }
    RecordBatch::try_new(Arc::clone(schema), columns.columns().to_vec()).map_err(wrong)
}
