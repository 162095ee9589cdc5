use std::collections::BTreeMap;

pub type Metadata = BTreeMap<String, serde_json::Value>;

/// The key of a column's unit.
pub const UNIT: &str = "unit";
