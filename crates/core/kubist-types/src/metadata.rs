use std::collections::BTreeMap;

/// Metadata of a table or a column, by key.
pub type Metadata = BTreeMap<String, serde_json::Value>;

pub use kubist_region::{PERIOD, Period, SPHERE, sphere};

/// The key of a column's unit.
pub const UNIT: &str = "unit";
