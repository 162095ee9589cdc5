use std::collections::BTreeMap;

/// By key, of a table or a column.
pub type Metadata = BTreeMap<String, serde_json::Value>;

pub use kubist_region::{PERIOD, Period, SPHERE, sphere};

/// The key of a column's unit.
pub const UNIT: &str = "unit";
