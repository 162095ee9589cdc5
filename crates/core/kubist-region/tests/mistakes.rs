//! Mistakes are refused by name.

use arrow_schema::{DataType, Field, Schema};
use kubist_region::Region;
use serde_json::{Value, json};

fn error(value: Value) -> String {
    let schema = Schema::new(
        ["x", "y", "z", "ra", "dec"]
            .map(|name| Field::new(name, DataType::Float64, true))
            .into_iter()
            .chain([Field::new("name", DataType::Utf8, true)])
            .collect::<Vec<_>>(),
    );
    match serde_json::from_value::<Region>(value.clone()) {
        Err(error) => error.to_string(),
        Ok(region) => match region.predicate(&schema) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{value} is no mistake"),
        },
    }
}

#[test]
fn each_mistake_has_a_name() {
    let x = json!({"x": 0.0});
    for (value, mistake) in [
        (json!({"ball": {}}), "unknown variant `ball`"),
        (json!({"sphere": {"center": x, "radius": 1, "colour": 2}}), "unknown field `colour`"),
        (json!({"sphere": {"center": x}}), "missing field `radius`"),
        (json!({"sphere": {"center": x, "radius": -1}}), "is -1, and must not be negative"),
        (json!({"sphere": {"center": {}, "radius": 1}}), "names no column"),
        (json!({"sphere": {"center": {"w": 0}, "radius": 1}}), "no column"),
        (json!({"sphere": {"center": {"name": 0}, "radius": 1}}), "has no positions"),
        (json!({"sphere": {"center": {"x": "1 cm"}, "radius": 1}}), "has no unit"),
        (json!({"sphere": {"center": {"x": "far"}, "radius": 1}}), "is no number with a unit"),
        (json!({"ellipsoid": {"center": x, "radii": {"x": 0}}}), "the radius of x is 0"),
        (json!({"ellipsoid": {"center": x, "radii": {"y": 1}}}), "radii has no column"),
        (json!({"ellipsoid": {"center": x, "radii": {"x": 1, "y": 1}}}), "the same columns"),
        (json!({"cylinder": {"from": {"x": 0, "y": 0}, "to": {"x": 0, "y": 0}, "radius": 1}}), "the same point"),
        (json!({"cylinder": {"from": {"x": 0, "y": 0}, "to": {"x": 0, "z": 0}, "radius": 1}}), "the same columns"),
        (json!({"cylinder": {"from": {"x": 0}, "to": {"x": 1}, "radius": 1}}), "two or more"),
        (json!({"slab": {"normal": {"x": 1}, "low": 2, "high": 1}}), "the lower end 2 is above"),
        (json!({"slab": {"normal": {"x": 1}}}), "low, high or both"),
        (json!({"slab": {"normal": {"x": 0}, "low": 1}}), "the normal has no length"),
        (json!({"half_space": {"normal": {"x": 1}, "point": {"y": 1}}}), "point has no column"),
        (json!({"polygon": {"columns": ["x", "y"], "coordinates": []}}), "has no ring"),
        (
            json!({"polygon": {"columns": ["x", "y"], "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1]]]}}),
            "crosses or touches itself",
        ),
        (json!({"polygon": {"columns": ["x", "y"], "coordinates": [[[0, 0], [1, 1]]]}}), "2 different corners"),
        (json!({"cone": {"center": [0, 91], "radius": 1}}), "the latitude is from -90 to 90"),
        (json!({"cone": {"center": [0, 0], "radius": 181}}), "from 0 to 180 degrees"),
        (json!({"cone": {"center": [0, 0], "radius": -1}}), "from 0 to 180 degrees"),
        (json!({"cone": {"columns": ["x", "w"], "center": [0, 0], "radius": 1}}), "no column"),
        (json!({"band": {"pole": [0, 0], "low": 5, "high": -5}}), "low <= high"),
        (json!({"sky_polygon": {"coordinates": [[[0, 0], [120, 0], [240, 0]]]}}), "reaches"),
        (json!({"moc": {"cells": {"3": [768]}}}), "no cells of order 3"),
        (json!({"moc": {"cells": "' OR 1=1"}}), "cells"),
        (json!({"box": {"x": [2, 1]}}), "the lower end 2 is above the upper end 1"),
        (json!({"union": []}), "union of no regions"),
        (json!({"where": "x >"}), "expected a value"),
        (json!({"periodic": {"period": {}, "region": {"box": {"x": [0, 1]}}}}), "needs the period"),
        (json!({"periodic": {"period": {"x": 0}, "region": {"box": {"x": [0, 1]}}}}), "must be above 0"),
        (json!({"periodic": {"period": {"x": 5}, "region": {"box": {"x": [null, 1]}}}}), "needs two numbers"),
        (
            json!({"periodic": {"period": {"x": 5}, "region": {"sphere": {"center": x, "radius": 3}}}}),
            "above half of the period",
        ),
        (json!({"periodic": {"period": {"x": 5}, "region": {"slab": {"normal": {"x": 1}, "low": 0}}}}), "is periodic"),
        (
            json!({"periodic": {"period": {"ra": 24}, "region": {"cone": {"center": [0, 0], "radius": 1}}}}),
            "whose period is 360",
        ),
    ] {
        let found = error(value.clone());
        assert!(found.contains(mistake), "{value}: {found}");
    }
}
