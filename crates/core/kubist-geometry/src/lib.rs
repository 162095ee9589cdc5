//! Regions that a formula cannot describe: polygons in a plane, polygons on the sky, and sets of HEALPix cells.
//!
//! A region tests single points, and whole boxes. A box is inside or outside if all its points are; otherwise it is
//! undecided, and its points must be tested one by one. A box may also be undecided because a decision would be
//! expensive. Points on the boundary are inside.
//!
//! A position on the sky is longitude and latitude, or right ascension and declination, in degrees. Longitudes that
//! differ by 360 degrees are the same. A latitude beyond ±90 is invalid: such a point is in no region.

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

/// The relation of a box to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    /// Every valid position in the box is in the region.
    Inside,
    /// No position in the box is in the region.
    Outside,
    /// The box may have positions inside and outside.
    Undecided,
}

/// A region. Each kind has a `parse` function for its text form.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `0 0, 1 0, 1 1; 0.2 0.2, ...`: rings of corners, separated by semicolons. The first ring is the border, the
    /// others are holes.
    Polygon(Polygon),
    /// The same text, with corners on the sky, joined by arcs of great circles.
    SkyPolygon(SkyPolygon),
    /// `5/8-10,42 6/4500`: cells 8 to 10 and 42 of HEALPix order 5, and cell 4500 of order 6 (a Multi-Order Coverage
    /// map of the IVOA).
    Moc(Moc),
}

impl Shape {
    /// Whether a point is in the region; `None` if its coordinates are invalid.
    pub fn has(&self, point: Point) -> Option<bool> {
        match self {
            Shape::Polygon(polygon) => (!point[0].is_nan() && !point[1].is_nan()).then(|| polygon.has(point)),
            Shape::SkyPolygon(polygon) => sky::is_position(point).then(|| polygon.has(point)),
            Shape::Moc(moc) => sky::is_position(point).then(|| moc.has(point)),
        }
    }

    /// Compares a box with the region. Bounds may be infinite. Invalid positions in the box do not count: see
    /// [`Shape::is_beyond`].
    pub fn containment(&self, low: Point, high: Point) -> Containment {
        match self {
            Shape::Polygon(polygon) => polygon.containment(low, high),
            Shape::SkyPolygon(polygon) => polygon.containment(low, high),
            Shape::Moc(moc) => moc.containment(low, high),
        }
    }

    /// Whether a box may contain invalid positions.
    pub fn is_beyond(&self, low: Point, high: Point) -> bool {
        match self {
            Shape::Polygon(_) => false,
            Shape::SkyPolygon(_) | Shape::Moc(_) => sky::is_beyond(low, high),
        }
    }

    /// The number of corners, or of ranges of cells: a measure of memory and time.
    pub fn size(&self) -> usize {
        match self {
            Shape::Polygon(polygon) => polygon.size(),
            Shape::SkyPolygon(polygon) => polygon.size(),
            Shape::Moc(moc) => moc.size(),
        }
    }
}
