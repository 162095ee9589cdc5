//! The `grid` object: the maps from values of the dimensions to coordinates.

use kubist_index::grid::Scale;

use crate::error::EntryError;

pub fn encode_grid(scales: &[Scale]) -> Vec<u8> {
    serde_json::to_vec_pretty(scales).expect("scales are plain data")
}

/// # Errors
///
/// [`EntryError`] if the bytes are invalid or from a newer version.
pub fn decode_grid(bytes: &[u8], dimensions: usize) -> Result<Vec<Scale>, EntryError> {
    let scales: Vec<Scale> = serde_json::from_slice(bytes).map_err(|error| EntryError::Bad(error.to_string()))?;
    if scales.len() != dimensions {
        return Err(EntryError::Bad(format!("it has {} scales for {dimensions} dimensions", scales.len())));
    }
    for scale in &scales {
        scale.check().map_err(|error| EntryError::Bad(error.to_string()))?;
    }
    Ok(scales)
}
