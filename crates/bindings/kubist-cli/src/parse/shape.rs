//! Parses regions in JSON.

use kubist::Region;

/// JSON, or the name of a file with it.
pub fn shape(text: &str) -> Result<Region, String> {
    let is_json = text.trim_start().starts_with('{');
    let json = if is_json {
        text.to_string()
    } else {
        std::fs::read_to_string(text).map_err(|error| format!("{text}: {error}"))?
    };
    serde_json::from_str(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_json_or_a_file() {
        let text = r#"{"sphere": {"center": {"x": 0, "y": 1}, "radius": "1 cm"}}"#;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("region.json");
        std::fs::write(&file, text).unwrap();
        assert_eq!(shape(file.to_str().unwrap()), shape(text));
        assert!(shape("{\"ball\": {}}").unwrap_err().contains("unknown variant `ball`"));
        assert!(shape("nothing.json").unwrap_err().contains("nothing.json"));
    }
}
