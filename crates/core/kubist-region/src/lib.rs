//! Regions of space and of the sky, as all interfaces describe them.
//!
//! A [`Region`] has a JSON form: an object with one key, the kind. [`Region::predicate`] makes it a condition of
//! kubist-expr, so queries prune and decide it like any other condition.
//!
//! ```json
//! {"difference": [{"sphere": {"center": {"x": 0, "y": 0, "z": 0}, "radius": 2}},
//!                 {"box": {"z": [null, 0]}}]}
//! ```
//!
//! Numbers are in the units of their columns, and angles in degrees. Boundaries belong to their region. A row
//! with a coordinate that is null or NaN is in no region and in no complement.
//!
//! A column whose metadata have a [`Period`] repeats: a region there contains the images of its points.

mod columns;
mod condition;
mod formula;
mod images;
mod period;
mod schema;

pub use images::wrapped;
pub use period::{NoPeriod, PERIOD, Period, SPHERE, sphere};
pub use schema::schema;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A number in the column's unit, or text with a unit, such as `1 mm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Length {
    Number(f64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum End {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

pub type Position = BTreeMap<String, Length>;

/// Longitude and latitude in degrees.
pub type Direction = [f64; 2];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkyColumns(pub [String; 2]);

impl Default for SkyColumns {
    fn default() -> SkyColumns {
        SkyColumns(["ra".into(), "dec".into()])
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// Closed ranges by column, which must all hold.
    Box(BTreeMap<String, [Option<End>; 2]>),
    Sphere(Sphere),
    Ellipsoid(Ellipsoid),
    Cylinder(Cylinder),
    Frustum(Frustum),
    Slab(Slab),
    HalfSpace(HalfSpace),
    Polygon(Polygon),
    Cone(Cone),
    SkyPolygon(SkyPolygon),
    Band(Band),
    Moc(Moc),
    Where(String),
    Union(Vec<Region>),
    Intersection(Vec<Region>),
    /// The first without all others.
    Difference(Vec<Region>),
    Complement(Box<Region>),
    Periodic(Periodic),
}

/// The points within a distance, in any number of columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sphere {
    pub center: Position,
    pub radius: Length,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ellipsoid {
    pub center: Position,
    pub radii: Position,
}

/// The points within a distance of the axis between two points, between two planes across it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cylinder {
    pub from: Position,
    pub to: Position,
    pub radius: Length,
}

/// A cylinder with a linearly changing radius; a radius of 0 gives a cone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frustum {
    pub from: Position,
    pub to: Position,
    pub radius_from: Length,
    pub radius_to: Length,
}

/// The points whose product with a vector is in a closed range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slab {
    pub normal: BTreeMap<String, f64>,
    #[serde(default)]
    pub low: Option<f64>,
    #[serde(default)]
    pub high: Option<f64>,
}

/// The side of the plane through a point that its normal points to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfSpace {
    pub normal: BTreeMap<String, f64>,
    pub point: Position,
}

/// A polygon of two columns: its border, then its holes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polygon {
    pub columns: [String; 2],
    pub coordinates: Vec<Vec<[f64; 2]>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cone {
    #[serde(default)]
    pub columns: SkyColumns,
    pub center: Direction,
    pub radius: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkyPolygon {
    #[serde(default)]
    pub columns: SkyColumns,
    pub coordinates: Vec<Vec<Direction>>,
}

/// The positions between two latitudes relative to a pole: around a great circle for -5 and 5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    #[serde(default)]
    pub columns: SkyColumns,
    pub pole: Direction,
    pub low: f64,
    pub high: f64,
}

/// HEALPix cells in nested order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moc {
    #[serde(default)]
    pub columns: SkyColumns,
    pub cells: Cells,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cells {
    /// `5/8-10,42 6/4500`
    Text(String),
    Lists(BTreeMap<String, Vec<u64>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Periodic {
    pub period: BTreeMap<String, f64>,
    pub region: Box<Region>,
}
