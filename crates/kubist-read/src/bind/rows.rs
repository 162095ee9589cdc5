//! What a bound query makes of rows: their priorities and coordinates, and batches of its
//! answer.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_index::cube::GridBox;
use kubist_index::order;
use kubist_index::priority::Threshold;

use crate::bind::BoundQuery;
use kubist_catalog::frame::Frame;
use kubist_format::zone_map::ZoneMap;
use kubist_types::error::{Error, Result};

impl BoundQuery {
    /// Priorities of rows, from their identity columns.
    pub fn priorities(&self, identity: &[ArrayRef], rows: usize) -> Result<Vec<u64>> {
        let identity: Vec<&dyn Array> = identity.iter().map(|array| array.as_ref()).collect();
        Ok(self.known_frame()?.priorities(&identity, rows))
    }

    /// Coordinates of rows, from their dimensions.
    pub fn coordinates(&self, dimensions: &[ArrayRef]) -> Result<Vec<Vec<u32>>> {
        let frame = self.known_frame()?;
        Ok(dimensions.iter().enumerate().map(|(d, array)| frame.coordinates(d, array.as_ref())).collect())
    }

    /// The box of coordinates around a zone's rows; `None` if one of them has no number.
    pub fn box_of_zone(&self, map: &ZoneMap, zone: usize) -> Option<GridBox> {
        let (frame, schema) = (self.frame.as_ref()?, &self.snapshot.view.schema);
        let mut around = frame.geometry.everything();
        for (d, column) in schema.dimensions.iter().enumerate() {
            let data_type = schema.stored.field(*column).data_type();
            let (zones, (first, last)) = (&map.columns[*column], order::number_keys(data_type));
            let (min, max) = (zones.min[zone], zones.max[zone]);
            if zones.nulls_of(zone) > 0 || min < first || max > last {
                return None;
            }
            let place = |key| frame.scales[d].coordinate(order::number(data_type, key), frame.geometry.bits());
            (around.low[d], around.high[d]) = (place(min), place(max));
        }
        Some(around)
    }

    fn known_frame(&self) -> Result<&Frame> {
        let location = || self.snapshot.core.store.location().to_string();
        self.frame
            .as_deref()
            .ok_or_else(|| Error::NotATable { location: location(), why: "its grid is missing".into() })
    }

    /// A batch of the answer from stored columns; `inclusion` is asked if there is a
    /// column of it.
    pub(crate) fn batch(
        &self,
        rows: usize,
        columns: Vec<ArrayRef>,
        inclusion: impl FnOnce() -> Float64Array,
    ) -> Result<RecordBatch> {
        let schema = &self.snapshot.view.schema;
        let columns = columns.into_iter().zip(&self.columns).map(|(array, column)| schema.to_user(*column, array));
        let mut columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        if self.inclusion.is_some() {
            columns.push(Arc::new(inclusion()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), columns, &options).map_err(Error::kernel)
    }

    /// The probability of a priority in the part of the query's range that lies below
    /// this one, or in all of it.
    pub(crate) fn probability(&self, below: Option<u64>) -> f64 {
        let Some(drawn) = self.drawn else { return 0.0 };
        let end = below.map_or(drawn.last as u128 + 1, u128::from);
        Threshold::new(end.saturating_sub(drawn.first as u128)).to_fraction()
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let schema = &self.snapshot.view.schema;
        let mut fields: Vec<_> = self.columns.iter().map(|column| schema.user_field(*column).clone()).collect();
        if let Some((name, nullable)) = &self.inclusion {
            fields.push(Arc::new(Field::new(name, DataType::Float64, *nullable)));
        }
        Arc::new(Schema::new_with_metadata(fields, schema.user.metadata().clone()))
    }
}
