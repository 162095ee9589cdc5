//! NumPy's `.npy`: one array, which is named after its file and has the axes `dim0`, `dim1`, ...

use std::io::Read;
use std::path::Path;

use kubist_files::NpyHeader;

use crate::layout::{Dimension, FileFormat, Layout, Number, Packing, Storage, Variable};

/// # Errors
///
/// The message names the fault of the header.
pub fn layout(path: &Path, reader: &mut dyn Read) -> Result<Layout, String> {
    let header = NpyHeader::read(reader)?;
    let data_type = &header.element.data_type;
    let number = Number::of(data_type)
        .ok_or_else(|| format!("arrays of type {data_type} cannot be indexed: only numbers can"))?;
    if header.shape.is_empty() {
        return Err("it is a single value".into());
    }
    let axes = header.shape.len();
    let name = |axis: usize| format!("dim{axis}");
    // Fortran order stores the same bytes with reversed axes.
    let order: Vec<usize> = if header.fortran_order { (0..axes).rev().collect() } else { (0..axes).collect() };
    let dimensions = order.iter().map(|axis| Dimension { name: name(*axis), length: header.shape[*axis] }).collect();
    let stem = path.file_stem().map_or_else(|| "array".into(), |stem| stem.to_string_lossy().into_owned());
    let variable = Variable {
        name: stem,
        dimensions: (0..axes).collect(),
        number,
        big_endian: header.element.is_big_endian(),
        packing: Packing::default(),
        unit: None,
        calendar: None,
        storage: Storage::Contiguous { offset: header.bytes },
    };
    Ok(Layout {
        format: FileFormat::Npy,
        dimensions,
        variables: vec![variable],
        left_out: Vec::new(),
        bounds: Vec::new(),
    })
}
