//! Images of ranges and shapes in a table whose columns have periods: shifted by multiples of the periods.
//!
//! Spheres and ellipsoids measure the distance to the nearest image instead. Slabs and half spaces are
//! unbounded, in the coordinates of the stored values.

use std::collections::BTreeMap;

use arrow_schema::Schema;
use kubist_expr::{ExprError, Meant, Predicate, column_index};

use crate::columns::{Columns, Repeats, invalid, quoted};
use crate::{Cylinder, Frustum, Length, Period, Polygon, Position, Region};

const MOST_IMAGES: usize = 64;

type Result<T> = std::result::Result<T, ExprError>;

/// Selects a closed range and its images; `None` if the column has no period, or the range has no other image.
///
/// # Errors
///
/// [`ExprError`] if there is no such column.
pub fn wrapped(schema: &Schema, column: &str, low: f64, high: f64) -> Result<Option<Predicate>> {
    let index = column_index(schema, column)?;
    let Some(period) = Period::of(schema.field(index)) else { return Ok(None) };
    Columns::new(schema).wrapped(index, &period, low, high)
}

impl Columns<'_> {
    pub(crate) fn wrapped(&self, index: usize, period: &Period, low: f64, high: f64) -> Result<Option<Predicate>> {
        if period.holds(low, high) {
            return Ok(None);
        }
        if !(high - low).is_finite() {
            return Err(invalid(format!("{low} to {high} is no range of a column with a period")));
        }
        let name = quoted(self.schema.field(index).name());
        if high - low >= period.length() {
            return Predicate::parse(&format!("{name} >= -inf"), &self.plain).map(Some);
        }
        let image = |shift: f64| format!("{name} BETWEEN {:?} AND {:?}", low + shift, high + shift);
        let images = period.shifts(low, high).map(image).collect::<Vec<_>>().join(" OR ");
        Predicate::parse(&images, &self.plain).map(Some)
    }

    /// The images of a bounded shape that meet the intervals of the values; `None` if the shape has no other image.
    pub(crate) fn images(&self, shape: &Region) -> Result<Option<Vec<Region>>> {
        let shifts = match shape {
            Region::Cylinder(Cylinder { from, to, radius }) => self.shifts_of_axis(from, to, &[radius])?,
            Region::Frustum(Frustum { from, to, radius_from, radius_to }) => {
                self.shifts_of_axis(from, to, &[radius_from, radius_to])?
            }
            Region::Polygon(polygon) => self.shifts_of_polygon(polygon)?,
            _ => return Ok(None),
        };
        let mut images = vec![BTreeMap::new()];
        for (name, shifts) in shifts {
            let of_image = |image: &BTreeMap<String, f64>| {
                let moved = |shift: &f64| {
                    let mut image = image.clone();
                    image.insert(name.clone(), *shift);
                    image
                };
                shifts.iter().map(moved).collect::<Vec<_>>()
            };
            images = images.iter().flat_map(of_image).collect();
            if images.len() > MOST_IMAGES {
                return Err(invalid(format!("a shape is at most {MOST_IMAGES} periods large, also along {name}")));
            }
        }
        if images.iter().all(|image| image.values().all(|shift| *shift == 0.0)) {
            return Ok(None);
        }
        images.iter().map(|image| self.moved(shape, image)).collect::<Result<_>>().map(Some)
    }

    fn declared(&self, name: &str) -> Result<Option<(String, Period)>> {
        let (name, repeats) = self.column(name)?;
        Ok(match repeats {
            Some(Repeats { declared: Some(period), .. }) => Some((name.to_owned(), period)),
            _ => None,
        })
    }

    fn shifts_of_axis(&self, from: &Position, to: &Position, radii: &[&Length]) -> Result<Vec<(String, Vec<f64>)>> {
        let mut found = Vec::new();
        for (name, begin) in from {
            let Some(end) = to.get(name) else { continue };
            let Some((name, period)) = self.declared(name)? else { continue };
            let (begin, end) = (self.number(&name, begin, Meant::Value)?, self.number(&name, end, Meant::Value)?);
            let mut widest = 0f64;
            for radius in radii {
                widest = widest.max(self.number(&name, radius, Meant::Distance)?);
            }
            let shifts = period.shifts(begin.min(end) - widest, begin.max(end) + widest);
            found.push((name, shifts.take(MOST_IMAGES + 1).collect()));
        }
        Ok(found)
    }

    fn shifts_of_polygon(&self, polygon: &Polygon) -> Result<Vec<(String, Vec<f64>)>> {
        let mut found = Vec::new();
        for (axis, name) in polygon.columns.iter().enumerate() {
            let Some((name, period)) = self.declared(name)? else { continue };
            let corners = || polygon.coordinates.iter().flatten().map(|corner| corner[axis]);
            let (low, high) = (corners().fold(f64::INFINITY, f64::min), corners().fold(f64::NEG_INFINITY, f64::max));
            if low.is_finite() && high.is_finite() {
                found.push((name, period.shifts(low, high).take(MOST_IMAGES + 1).collect()));
            }
        }
        Ok(found)
    }

    fn moved(&self, shape: &Region, image: &BTreeMap<String, f64>) -> Result<Region> {
        let shift = |name: &str| Ok::<_, ExprError>(image.get(self.column(name)?.0).copied().unwrap_or(0.0));
        let position = |position: &Position| {
            let coordinate = |(name, length): (&String, &Length)| {
                let at = self.number(name, length, Meant::Value)? + shift(name)?;
                Ok((name.clone(), Length::Number(at)))
            };
            position.iter().map(coordinate).collect::<Result<Position>>()
        };
        Ok(match shape {
            Region::Cylinder(Cylinder { from, to, radius }) => {
                let (from, to) = (position(from)?, position(to)?);
                Region::Cylinder(Cylinder { from, to, radius: radius.clone() })
            }
            Region::Frustum(frustum) => {
                let (from, to) = (position(&frustum.from)?, position(&frustum.to)?);
                Region::Frustum(Frustum { from, to, ..frustum.clone() })
            }
            Region::Polygon(Polygon { columns, coordinates }) => {
                let by = [shift(&columns[0])?, shift(&columns[1])?];
                let corner = |[x, y]: &[f64; 2]| [x + by[0], y + by[1]];
                let ring = |ring: &Vec<[f64; 2]>| ring.iter().map(corner).collect();
                let coordinates = coordinates.iter().map(ring).collect();
                Region::Polygon(Polygon { columns: columns.clone(), coordinates })
            }
            other => other.clone(),
        })
    }
}
