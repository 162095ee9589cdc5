//! Records of a trajectory brought to their places in arrays of frames, atoms and axes.

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

/// Puts records in their places. The batch has the columns frame, atom and then, for each of the arrays,
/// those of its three axes. A frame's slot is where its first atom stands, among all atoms of all
/// frames that are wanted; the place of an atom is counted from there; what is not wanted has
/// negative ones. Slots that get a record are set in `filled`.
///
/// Says how many records were put, and the first atom that there is none of, if any; nothing is put
/// behind it.
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
    // SAFETY: the view keeps so many values of the type in place, and is borrowed as long as the cells.
    // They may be changed elsewhere while the interpreter lock is not held, which it is meanwhile.
    Ok(unsafe { &*(slice.as_ptr() as *const [Cell<T>]) })
}

/// A column of frames or atoms, of whatever type; without nulls.
fn numbers(py: Python<'_>, batch: &RecordBatch, column: usize) -> PyResult<Int32Array> {
    let numbers = cast(batch.column(column), &DataType::Int32).map_err(|error| invalid(py, &error.to_string()))?;
    match numbers.null_count() {
        0 => Ok(numbers.as_primitive::<Int32Type>().clone()),
        _ => Err(invalid(py, "a record has no frame or atom, or one beyond 32 bits")),
    }
}

/// A column of positions, velocities or forces, of whatever type; NaN for null.
fn floats(py: Python<'_>, batch: &RecordBatch, column: usize) -> PyResult<ScalarBuffer<f32>> {
    let floats = cast(batch.column(column), &DataType::Float32).map_err(|error| invalid(py, &error.to_string()))?;
    let floats = floats.as_primitive::<Float32Type>();
    Ok(match floats.null_count() {
        0 => floats.values().clone(),
        _ => floats.iter().map(|value| value.unwrap_or(f32::NAN)).collect(),
    })
}
