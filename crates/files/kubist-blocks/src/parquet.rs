//! Parquet: numeric columns along one axis, `row`, in pages with different numbers of rows.

use std::path::Path;

use kubist_files::Limits;
use kubist_files::columns::Columns;
use kubist_types::{Error, Result};

use crate::layout::{Dimension, FileFormat, Layout, Number, Packing, Storage, Variable};

const AXIS: &str = "row";

/// Opens a file. [`layout`] needs `with_pages`.
///
/// # Errors
///
/// `Invalid` if the footer is damaged or exceeds the limits.
pub fn open(path: &Path, with_pages: bool) -> Result<Columns> {
    Columns::open(path, with_pages, Limits::default()).map_err(Error::invalid)
}

/// # Errors
///
/// `Invalid` names the damaged part.
pub fn layout(columns: &Columns) -> Result<Layout> {
    let rows = columns.rows().map_err(Error::invalid)?;
    let (numbers, left_out) = columns.columns();
    let variable = |column: &kubist_files::columns::Column| -> Result<Option<Variable>> {
        let Some(number) = Number::of(&column.data_type) else { return Ok(None) };
        let table = columns.pages(column.leaf).map_err(Error::invalid)?;
        Ok(Some(Variable {
            name: column.name.clone(),
            dimensions: vec![0],
            number,
            big_endian: false,
            packing: Packing::default(),
            unit: column.unit.clone(),
            calendar: None,
            storage: Storage::Pages { leaf: column.leaf, table },
        }))
    };
    let variables = numbers.iter().filter_map(|column| variable(column).transpose()).collect::<Result<_>>()?;
    let dimensions = vec![Dimension { name: AXIS.into(), length: rows }];
    Ok(Layout { format: FileFormat::Parquet, dimensions, variables, left_out, bounds: Vec::new() })
}
