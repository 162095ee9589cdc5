//! Polygons on the sky, whose edges are arcs of great circles.
//!
//! The gnomonic projection from a centre maps great circles to straight lines, so a polygon within half a sky
//! is a polygon of a plane.

use crate::numbers::rings;
use crate::polygon::Polygon;
use crate::sky::{is_position, position, separation, separations, vector};
use crate::{Containment, Point};

/// Degrees from the centre to the farthest corner.
const MOST_RADIUS: f64 = 89.0;
/// Boxes that reach farther from the centre are undecided.
const MOST_REACH: f64 = 89.5;
/// Upper bound of a projection's rounding error, relative to the distance from the centre.
const SLACK: f64 = 1e-12;

#[derive(Clone, Debug)]
pub struct SkyPolygon {
    centre: Point,
    /// Degrees from the centre to the farthest corner, and more than the rounding error.
    radius: f64,
    /// Unit vectors to the centre, east and north.
    axes: [[f64; 3]; 3],
    plane: Polygon,
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl SkyPolygon {
    /// Reads rings of corners: `10 -5, 20 -5, 15 5; ...`.
    ///
    /// # Errors
    ///
    /// A text that names the mistake.
    pub fn parse(text: &str) -> Result<SkyPolygon, String> {
        SkyPolygon::new(&rings(text)?)
    }

    /// The first ring is the border, others are holes.
    ///
    /// # Errors
    ///
    /// A text that names the mistake: those of [`Polygon::new`], a latitude beyond ±90, a corner farther than
    /// 89 degrees from the corners' centre.
    pub fn new(rings: &[Vec<Point>]) -> Result<SkyPolygon, String> {
        let corners = || rings.iter().flatten();
        if let Some(corner) = corners().find(|corner| !is_position(**corner)) {
            return Err(format!(
                "({}, {}) is no position on the sky: the latitude is from -90 to 90",
                corner[0], corner[1]
            ));
        }
        let border = rings.first().map_or(&[][..], |ring| &ring[..]);
        let sum = border.iter().map(|corner| vector(*corner)).fold([0.0; 3], |sum, v| [0, 1, 2].map(|d| sum[d] + v[d]));
        let centre = position(sum);
        let radius = corners().map(|corner| separation(*corner, centre)).fold(0.0, f64::max);
        if radius > MOST_RADIUS || dot(sum, sum) < 1e-12 {
            return Err(format!(
                "the polygon on the sky reaches {radius:.1} degrees from its centre, and at most {MOST_RADIUS} are possible: \
                 split it, or take the complement of a smaller one"
            ));
        }
        let ((sine, cosine), (z, ring)) = (centre[0].to_radians().sin_cos(), centre[1].to_radians().sin_cos());
        let axes = [vector(centre), [-sine, cosine, 0.0], [-z * cosine, -z * sine, ring]];
        let project = |corner: &Point| project(&axes, *corner).unwrap_or([f64::NAN; 2]);
        let projected: Vec<Vec<Point>> = rings.iter().map(|ring| ring.iter().map(project).collect()).collect();
        let plane = Polygon::new(&projected)
            .map_err(|why| format!("{why} (in the plane that touches the sky at the centre)"))?;
        Ok(SkyPolygon { centre, radius: radius + 1e-9, axes, plane })
    }

    pub fn size(&self) -> usize {
        self.plane.size()
    }

    /// Whether a position is inside or, but for rounding, on an edge.
    pub fn has(&self, position: Point) -> bool {
        project(&self.axes, position).is_some_and(|point| self.plane.has(point))
    }

    pub fn containment(&self, low: Point, high: Point) -> Containment {
        if separations(low, high, self.centre).0 > self.radius {
            return Containment::Outside;
        }
        let low = [low[0], low[1].max(-90.0)];
        let high = [high[0], high[1].min(90.0)];
        let middle = [low[0] / 2.0 + high[0] / 2.0, low[1] / 2.0 + high[1] / 2.0];
        if !is_position(middle) {
            return Containment::Undecided;
        }
        let reach = separations(low, high, middle).1;
        let farthest = separation(middle, self.centre) + reach;
        let Some(at) = project(&self.axes, middle).filter(|_| farthest < MOST_REACH) else {
            return Containment::Undecided;
        };
        // The projection stretches a length by at most this factor.
        let around = reach.to_radians() / farthest.to_radians().cos().powi(2);
        let around = around * (1.0 + SLACK) + SLACK * (1.0 + at[0].abs() + at[1].abs());
        self.plane.containment(at.map(|one| one - around), at.map(|one| one + around))
    }
}

/// The point of the plane that touches the sky at the centre; `None` for the other half of the sky.
fn project(axes: &[[f64; 3]; 3], position: Point) -> Option<Point> {
    let to = vector(position);
    let height = dot(axes[0], to);
    (height > 1e-3).then(|| [dot(axes[1], to) / height, dot(axes[2], to) / height])
}
