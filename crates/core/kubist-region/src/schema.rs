//! The JSON Schema of regions.

use serde_json::{Map, Value, json};

const ABOUT: &str = "A region of space or of the sky, as docs/regions.md describes it: an object with one key, the kind. \
                     Lengths are numbers in the unit of their column, or text with a unit, such as `1 mm`. Angles are in \
                     degrees.";

/// References point to the schema itself as `#/components/schemas/Region`.
pub fn schema() -> Value {
    let region = || json!({"$ref": "#/components/schemas/Region"});
    let several = |about: &str| json!({"type": "array", "minItems": 1, "items": region(), "description": about});
    let numbers = json!({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}]}});
    let by_name = json!({"type": "object", "additionalProperties": {"anyOf": [
        {"type": "number"}, {"type": "string"}, {"type": "array", "items": {"type": "integer"}}
    ]}});
    let values = json!({"anyOf": [{"type": ["number", "string", "null"]}, numbers, by_name]});
    let shape = |about: &str| json!({"type": "object", "additionalProperties": values, "description": about});
    let mut kinds = Map::new();
    for (kind, about) in [
        ("sphere", "The points within `radius` of `center`, in any number of columns."),
        ("ellipsoid", "`center` and `radii` by column."),
        ("cylinder", "Around the axis `from` one point `to` another, with a `radius`."),
        ("frustum", "A cylinder whose radius changes: `radius_from`, `radius_to`."),
        ("slab", "`low` <= `normal` . point <= `high`; one of both may be missing."),
        ("half_space", "The side of the plane through `point` that `normal` points to."),
        ("polygon", "Two `columns`, and `coordinates`: the border, then holes, as in GeoJSON."),
        ("cone", "The positions on the sky within `radius` of `center`; `columns` are ra and dec by default."),
        ("sky_polygon", "`coordinates` of corners on the sky, which great circles join; `columns`."),
        ("band", "The latitudes from `low` to `high` relative to a `pole`; `columns`."),
        ("moc", "HEALPix `cells` in nested order: text such as 5/8-10,42, or lists by order; `columns`."),
    ] {
        kinds.insert(kind.into(), shape(about));
    }
    let end = json!({"type": ["number", "string", "boolean", "null"]});
    let range = json!({"type": "array", "minItems": 2, "maxItems": 2, "items": end});
    kinds.insert(
        "box".into(),
        json!({"type": "object", "additionalProperties": range, "description": "Closed ranges by column, all of which hold."}),
    );
    kinds.insert("where".into(), json!({"type": "string", "description": "An SQL condition."}));
    kinds.insert("union".into(), several("The positions in one of the regions."));
    kinds.insert("intersection".into(), several("The positions in all of the regions."));
    kinds.insert("difference".into(), several("The positions in the first region and in no other."));
    kinds.insert(
        "complement".into(),
        json!({"$ref": "#/components/schemas/Region", "description": "The positions outside."}),
    );
    kinds.insert(
        "periodic".into(),
        shape("A `region` of boxes, spheres and ellipsoids, in space that repeats after the `period` of a column."),
    );
    kinds["periodic"]["additionalProperties"] =
        json!({"anyOf": [region(), {"type": "object", "additionalProperties": {"type": "number"}}]});
    json!({
        "type": "object",
        "description": ABOUT,
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": kinds,
    })
}
