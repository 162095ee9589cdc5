use std::collections::BTreeMap;

/// Metadata of a table or a column, by key.
pub type Metadata = BTreeMap<String, serde_json::Value>;

pub use kubist_region::{PERIOD, Period, SPHERE, sphere};

/// The key of a column's unit.
pub const UNIT: &str = "unit";
/// The key for units in xarray, netCDF and others.
const UNITS: &str = "units";

/// Returns the unit of a data column; `None` if it is blank.
pub fn unit_of(field: &arrow_schema::Field) -> Option<&str> {
    [UNIT, UNITS]
        .iter()
        .find_map(|key| field.metadata().get(*key))
        .map(|unit| unit.trim())
        .filter(|unit| !unit.is_empty())
}
