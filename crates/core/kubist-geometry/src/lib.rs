//! Sets of points that a formula cannot express: polygons of a plane, and polygons and cells of the sky.
//!
//! Each set decides single points, and boxes of points as inside, outside or open. A decision holds for every
//! point in the box. All boundaries belong to their set.
//!
//! Positions on the sky are longitude and latitude, or right ascension and declination, in degrees. Longitudes
//! may have any turn. A latitude beyond ±90 is no position.

mod exact;
pub mod healpix;
mod moc;
mod numbers;
mod polygon;
pub mod sky;
mod sky_polygon;

pub use moc::Moc;
pub use polygon::Polygon;
pub use sky_polygon::SkyPolygon;

/// x and y, or longitude and latitude.
pub type Point = [f64; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Inside,
    Outside,
    Open,
}

/// A set of points, parsed from text.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Rings of corners, `0 0, 1 0, 1 1; 0.2 0.2, ...`. The first ring is the border, others are holes.
    Polygon(Polygon),
    /// Corners on the sky, joined by arcs of great circles.
    SkyPolygon(SkyPolygon),
    /// HEALPix cells, `order/cell,first-last order/...`.
    Moc(Moc),
}

impl Shape {
    /// Whether a point is in the set; `None` if it is no position.
    pub fn has(&self, point: Point) -> Option<bool> {
        match self {
            Shape::Polygon(polygon) => (!point[0].is_nan() && !point[1].is_nan()).then(|| polygon.has(point)),
            Shape::SkyPolygon(polygon) => sky::is_position(point).then(|| polygon.has(point)),
            Shape::Moc(moc) => sky::is_position(point).then(|| moc.has(point)),
        }
    }

    /// Decides the positions in a box, whose bounds may be infinite.
    pub fn place(&self, low: Point, high: Point) -> Place {
        match self {
            Shape::Polygon(polygon) => polygon.place(low, high),
            Shape::SkyPolygon(polygon) => polygon.place(low, high),
            Shape::Moc(moc) => moc.place(low, high),
        }
    }

    /// Whether a box may contain points that are no positions.
    pub fn is_beyond(&self, low: Point, high: Point) -> bool {
        match self {
            Shape::Polygon(_) => false,
            Shape::SkyPolygon(_) | Shape::Moc(_) => sky::is_beyond(low, high),
        }
    }

    /// The number of corners or ranges of cells.
    pub fn size(&self) -> usize {
        match self {
            Shape::Polygon(polygon) => polygon.size(),
            Shape::SkyPolygon(polygon) => polygon.size(),
            Shape::Moc(moc) => moc.size(),
        }
    }
}
