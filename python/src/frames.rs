//! Copies rows of a trajectory into arrays of frames, atoms and axes.

use std::cell::Cell;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{Array, Int32Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::arrow::Batch;
use crate::error::invalid;

/// Copies the rows of a batch with the columns frame, atom, and the three axes of each array. A frame's
/// slot is the position of its first atom in the arrays, and an atom's offset counts from there. Negative
/// values mark unwanted frames and atoms. Sets `filled` at each written position.
///
/// Returns the number of copied rows, and the first atom number out of range, at which copying stops.
#[pyfunction]
pub fn put_frames(
    py: Python<'_>,
    batch: &Batch,
    slot_of_frame: PyBuffer<i64>,
    place_of_atom: PyBuffer<i32>,
    filled: PyBuffer<u8>,
    arrays: Vec<PyBuffer<f32>>,
) -> PyResult<(u64, Option<i32>)> {
    let batch = &batch.0;
    let (frames, atoms) = (numbers(py, batch, 0)?, numbers(py, batch, 1)?);
    let (slot_of_frame, place_of_atom) = (cells(py, &slot_of_frame)?, cells(py, &place_of_atom)?);
    let filled = cells(py, &filled)?;
    let axes = (2..2 + 3 * arrays.len()).map(|column| floats(py, batch, column)).collect::<PyResult<Vec<_>>>()?;
    let arrays = arrays.iter().map(|array| cells(py, array)).collect::<PyResult<Vec<_>>>()?;
    if arrays.iter().any(|array| array.len() != 3 * filled.len()) {
        return Err(invalid(py, "an array of frames is not as long as its slots"));
    }
    let mut put = 0;
    for (row, (frame, atom)) in frames.values().iter().zip(atoms.values()).enumerate() {
        let Some(place) = usize::try_from(*atom).ok().and_then(|atom| place_of_atom.get(atom)) else {
            return Ok((put, Some(*atom)));
        };
        let slot = usize::try_from(*frame).ok().and_then(|frame| slot_of_frame.get(frame)).map_or(-1, Cell::get);
        if slot < 0 || place.get() < 0 {
            continue;
        }
        let slot = slot as usize + place.get() as usize;
        let Some(seen) = filled.get(slot) else { return Err(invalid(py, "a frame has a slot that is not there")) };
        seen.set(1);
        put += 1;
        for (array, axes) in arrays.iter().zip(axes.chunks_exact(3)) {
            array[3 * slot..3 * slot + 3].iter().zip(axes).for_each(|(cell, axis)| cell.set(axis[row]));
        }
    }
    Ok((put, None))
}

fn cells<'a, T: Element>(py: Python<'a>, buffer: &'a PyBuffer<T>) -> PyResult<&'a [Cell<T>]> {
    let writable = buffer.as_slice_ptr().filter(|_| !buffer.readonly());
    let slice = writable.ok_or_else(|| invalid(py, "an array of frames is read-only or not contiguous"))?;
    // SAFETY: the buffer view keeps this many values of the type alive, and the cells borrow it. Other code
    // can change them only with the interpreter lock, which is held here.
    Ok(unsafe { &*(slice.as_ptr() as *const [Cell<T>]) })
}

/// Accepts any integer type without nulls.
fn numbers(py: Python<'_>, batch: &RecordBatch, column: usize) -> PyResult<Int32Array> {
    let numbers = cast(batch.column(column), &DataType::Int32).map_err(|error| invalid(py, &error.to_string()))?;
    match numbers.null_count() {
        0 => Ok(numbers.as_primitive::<Int32Type>().clone()),
        _ => Err(invalid(py, "a row has no frame or atom, or one beyond 32 bits")),
    }
}

/// Accepts any type; null becomes NaN.
fn floats(py: Python<'_>, batch: &RecordBatch, column: usize) -> PyResult<ScalarBuffer<f32>> {
    let floats = cast(batch.column(column), &DataType::Float32).map_err(|error| invalid(py, &error.to_string()))?;
    let floats = floats.as_primitive::<Float32Type>();
    Ok(match floats.null_count() {
        0 => floats.values().clone(),
        _ => floats.iter().map(|value| value.unwrap_or(f32::NAN)).collect(),
    })
}
