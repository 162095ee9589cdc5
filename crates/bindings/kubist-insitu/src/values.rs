//! A column's values in the solver's memory.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt8Array};
use arrow_buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::copies::Copies;
use crate::failure::{Failure, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    F32,
    F64,
    I32,
    I64,
    U8,
    /// One byte each; any value but 0 is true.
    Bool,
}

impl Kind {
    pub const ALL: [Kind; 6] = [Kind::F32, Kind::F64, Kind::I32, Kind::I64, Kind::U8, Kind::Bool];

    pub fn bytes(self) -> usize {
        match self {
            Kind::F32 | Kind::I32 => 4,
            Kind::F64 | Kind::I64 => 8,
            Kind::U8 | Kind::Bool => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::F32 => "f32",
            Kind::F64 => "f64",
            Kind::I32 => "i32",
            Kind::I64 => "i64",
            Kind::U8 => "u8",
            Kind::Bool => "bool",
        }
    }

    pub fn data_type(self) -> DataType {
        match self {
            Kind::F32 => DataType::Float32,
            Kind::F64 => DataType::Float64,
            Kind::I32 => DataType::Int32,
            Kind::I64 => DataType::Int64,
            Kind::U8 => DataType::UInt8,
            Kind::Bool => DataType::Boolean,
        }
    }

    pub fn of(data_type: &DataType) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.data_type() == *data_type)
    }

    pub fn array(self, buffer: Buffer) -> ArrayRef {
        let count = buffer.len() / self.bytes();
        match self {
            Kind::F32 => Arc::new(Float32Array::new(aligned(buffer, count), None)),
            Kind::F64 => Arc::new(Float64Array::new(aligned(buffer, count), None)),
            Kind::I32 => Arc::new(Int32Array::new(aligned(buffer, count), None)),
            Kind::I64 => Arc::new(Int64Array::new(aligned(buffer, count), None)),
            Kind::U8 => Arc::new(UInt8Array::new(ScalarBuffer::new(buffer, 0, count), None)),
            Kind::Bool => {
                let bits = BooleanBuffer::collect_bool(count, |row| buffer[row] != 0);
                Arc::new(BooleanArray::new(bits, None))
            }
        }
    }
}

fn aligned<T: arrow_buffer::ArrowNativeType>(buffer: Buffer, count: usize) -> ScalarBuffer<T> {
    match (buffer.as_ptr() as usize).is_multiple_of(align_of::<T>()) {
        true => ScalarBuffer::new(buffer, 0, count),
        false => ScalarBuffer::new(Buffer::from(buffer.as_slice()), 0, count),
    }
}

/// `stride` bytes apart, in the caller's memory.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    kind: Kind,
    first: *const u8,
    count: usize,
    stride: usize,
    owner: PhantomData<&'a u8>,
}

// SAFETY: the values are only read, and outlive this object.
unsafe impl Send for Values<'_> {}
// SAFETY: as above.
unsafe impl Sync for Values<'_> {}

impl Values<'_> {
    /// # Errors
    ///
    /// `Invalid` for a null pointer with values, a stride below the size of a value, or a count that exceeds
    /// the address space.
    ///
    /// # Safety
    ///
    /// All values are readable as long as this object lives.
    pub unsafe fn from_raw<'a>(kind: Kind, first: *const u8, count: u64, stride: u64) -> Result<Values<'a>> {
        let stride = match stride {
            0 => kind.bytes() as u64,
            stride => stride,
        };
        if count > 0 && first.is_null() {
            return Err(Failure::invalid(format!("the pointer to {count} values is null")));
        }
        if stride < kind.bytes() as u64 {
            let (bytes, kind) = (kind.bytes(), kind.name());
            return Err(Failure::invalid(format!(
                "a stride of {stride} bytes is smaller than a value of type {kind}, which has {bytes}"
            )));
        }
        if count.checked_mul(stride).is_none_or(|bytes| bytes > isize::MAX as u64) {
            return Err(Failure::invalid(format!(
                "{count} values at a stride of {stride} bytes exceed the address space, so no memory holds them"
            )));
        }
        Ok(Values { kind, first, count: count as usize, stride: stride as usize, owner: PhantomData })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.count * self.kind.bytes()
    }

    /// Copies from byte `from` of the contiguous values.
    pub fn copy(&self, from: usize, into: &mut [u8]) {
        debug_assert!(from + into.len() <= self.bytes());
        let width = self.kind.bytes();
        if self.stride == width {
            // SAFETY: the values are readable, and the range is within them.
            unsafe { std::ptr::copy_nonoverlapping(self.first.add(from), into.as_mut_ptr(), into.len()) };
            return;
        }
        let mut done = 0;
        while done < into.len() {
            let (row, inside) = ((from + done) / width, (from + done) % width);
            let some = (width - inside).min(into.len() - done);
            // SAFETY: as above, for part of a value.
            unsafe {
                let value = self.first.add(row * self.stride + inside);
                std::ptr::copy_nonoverlapping(value, into.as_mut_ptr().add(done), some);
            }
            done += some;
        }
    }

    /// A copy in memory from the pool.
    ///
    /// # Errors
    ///
    /// `Unavailable` if memory is short.
    pub fn to_array(&self, copies: &Copies) -> Result<ArrayRef> {
        let mut bytes = copies.take(self.bytes())?;
        if self.count > 0 && self.stride == self.kind.bytes() {
            // SAFETY: all values are readable and contiguous.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(self.first, self.bytes()) });
        } else {
            bytes.resize(self.bytes(), 0);
            self.copy(0, &mut bytes);
        }
        Ok(self.kind.array(copies.lend(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type};

    #[test]
    fn values_of_structs_are_picked_out() {
        let rows: [[f64; 3]; 4] = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [9.0, 10.0, 11.0]];
        // SAFETY: the second value in all four rows.
        let second = unsafe { Values::from_raw(Kind::F64, rows.as_ptr().cast::<u8>().add(8), 4, 24) }.unwrap();
        let array = second.to_array(&Copies::default()).unwrap();
        assert_eq!(array.as_primitive::<Float64Type>().values().to_vec(), [1.0, 4.0, 7.0, 10.0]);
        let mut pieces = vec![0; 32];
        pieces.chunks_mut(5).enumerate().for_each(|(n, piece)| second.copy(5 * n, piece));
        assert_eq!(&Kind::F64.array(pieces.into()), &array);
    }

    #[test]
    fn bytes_are_booleans_and_integers() {
        let bytes = [0u8, 1, 0, 255];
        // SAFETY: there are four bytes.
        let values = |kind| unsafe { Values::from_raw(kind, bytes.as_ptr(), 4, 0) }.unwrap();
        let flags = values(Kind::Bool).to_array(&Copies::default()).unwrap();
        assert_eq!(flags.as_boolean().iter().map(Option::unwrap).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(Kind::I32.array(vec![1u8, 0, 0, 0].into()).as_primitive::<Int32Type>().value(0), 1);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        // SAFETY: no value is read.
        let refused = |pointer, count, stride| unsafe { Values::from_raw(Kind::F64, pointer, count, stride) }.err();
        let value = 1.0f64;
        let here = (&raw const value).cast::<u8>();
        assert!(refused(std::ptr::null(), 3, 0).unwrap().message.contains("null"));
        assert!(refused(std::ptr::null(), 0, 0).is_none());
        assert!(refused(here, 1, 4).unwrap().message.contains("stride"));
        assert!(refused(here, u64::MAX, 0).unwrap().message.contains("memory"));
    }
}
