//! Shapes as SQL, in 64-bit floats in the units of the columns.

use std::collections::BTreeMap;

use kubist_expr::{ExprError, Meant};

use crate::columns::{Columns, Repeats, invalid, quoted};
use crate::{Cells, Cylinder, Direction, Ellipsoid, Frustum, HalfSpace, Length, Position, Region, Slab, Sphere};

type Result<T> = std::result::Result<T, ExprError>;

/// Images of a range on either side of zero, in periods.
const IMAGES: i32 = 2;

pub(crate) fn of(shape: &Region, columns: &Columns<'_>) -> Result<String> {
    match shape {
        Region::Sphere(sphere) => of_sphere(sphere, columns),
        Region::Ellipsoid(ellipsoid) => of_ellipsoid(ellipsoid, columns),
        Region::Cylinder(Cylinder { from, to, radius }) => of_frustum("cylinder", from, to, [radius, radius], columns),
        Region::Frustum(Frustum { from, to, radius_from, radius_to }) => {
            of_frustum("frustum", from, to, [radius_from, radius_to], columns)
        }
        Region::Slab(slab) => of_slab(slab, columns),
        Region::HalfSpace(half) => of_half_space(half, columns),
        Region::Polygon(polygon) => {
            let [x, y] = [&polygon.columns[0], &polygon.columns[1]].map(|name| columns.column(name));
            let (x, y) = (unperiodic("polygon", x?)?, unperiodic("polygon", y?)?);
            Ok(format!("in_polygon({x}, {y}, '{}')", rings("polygon", &polygon.coordinates)?))
        }
        Region::Cone(cone) => {
            let [ra, dec] = columns.on_sky(&cone.columns)?;
            let [ra0, dec0] = direction("cone", cone.center)?;
            if !(0.0..=180.0).contains(&cone.radius) {
                return Err(invalid(format!("cone: the radius is {}, and must be from 0 to 180 degrees", cone.radius)));
            }
            Ok(format!("separation({ra}, {dec}, {ra0}, {dec0}) <= {:?}", cone.radius))
        }
        Region::Band(band) => {
            let [ra, dec] = columns.on_sky(&band.columns)?;
            let [ra0, dec0] = direction("band", band.pole)?;
            let (low, high) = (band.low, band.high);
            if !(-90.0 <= low && low <= high && high <= 90.0) {
                return Err(invalid(format!("band: from {low} to {high}, and -90 <= low <= high <= 90 is needed")));
            }
            let (near, far) = (90.0 - high, 90.0 - low);
            Ok(format!("separation({ra}, {dec}, {ra0}, {dec0}) BETWEEN {near:?} AND {far:?}"))
        }
        Region::SkyPolygon(polygon) => {
            let [ra, dec] = columns.on_sky(&polygon.columns)?;
            Ok(format!("in_sky_polygon({ra}, {dec}, '{}')", rings("sky_polygon", &polygon.coordinates)?))
        }
        Region::Moc(moc) => {
            let [ra, dec] = columns.on_sky(&moc.columns)?;
            Ok(format!("in_moc({ra}, {dec}, '{}')", moc.cells.text().replace('\'', "''")))
        }
        _ => Err(invalid("this kind is no shape")),
    }
}

fn direction(what: &str, [longitude, latitude]: Direction) -> Result<[String; 2]> {
    if !longitude.is_finite() || !(-90.0..=90.0).contains(&latitude) {
        let at = format!("({longitude}, {latitude}) is no position on the sky: the latitude is from -90 to 90");
        return Err(invalid(format!("{what}: {at}")));
    }
    Ok([longitude, latitude].map(|number| format!("{number:?}")))
}

fn rings(what: &str, rings: &[Vec<[f64; 2]>]) -> Result<String> {
    if rings.is_empty() {
        return Err(invalid(format!("{what}: coordinates has no ring")));
    }
    let corner = |[x, y]: &[f64; 2]| format!("{x:?} {y:?}");
    let ring = |ring: &Vec<[f64; 2]>| ring.iter().map(corner).collect::<Vec<_>>().join(", ");
    Ok(rings.iter().map(ring).collect::<Vec<_>>().join("; "))
}

/// Refuses a column whose period only the region names; with a declared period, each image is a shape of its own.
fn unperiodic(what: &str, (name, repeats): (&str, Option<Repeats>)) -> Result<String> {
    match repeats {
        None | Some(Repeats { declared: Some(_), .. }) => Ok(quoted(name)),
        Some(Repeats { declared: None, .. }) => Err(invalid(format!(
            "{what}: {name} is periodic, which boxes, spheres and ellipsoids can be; write a union of copies"
        ))),
    }
}

pub(crate) fn images(name: &str, low: f64, high: f64, period: f64) -> String {
    let name = quoted(name);
    if high - low >= period {
        return format!("{name} >= -inf");
    }
    let first = (low / period).floor();
    let image = |image: i32| {
        let shift = (f64::from(image) - first) * period;
        format!("{name} BETWEEN {:?} AND {:?}", low + shift, high + shift)
    };
    // The first image begins in [0, period), and may end in the next period.
    (-IMAGES - 1..=IMAGES).map(image).collect::<Vec<_>>().join(" OR ")
}

/// Formats the difference from a coordinate, to the nearest image if the column is periodic.
fn difference(name: &str, from: f64, period: Option<f64>) -> String {
    let plain = format!("({}::float64 - ({from:?}))", quoted(name));
    match period {
        None => plain,
        Some(period) => format!("periodic({plain}, {period:?})"),
    }
}

fn length(what: &str, name: &str, length: &Length, columns: &Columns<'_>) -> Result<f64> {
    let found = columns.number(name, length, Meant::Distance)?;
    if found < 0.0 { Err(invalid(format!("{what} is {found}, and must not be negative"))) } else { Ok(found) }
}

/// Returns the period to measure with; `None` if all images of the points within the radius are elsewhere.
fn measured(what: &str, at: f64, radius: f64, (name, repeats): (&str, Option<Repeats>)) -> Result<Option<f64>> {
    let Some(Repeats { length, declared }) = repeats else { return Ok(None) };
    if radius > length / 2.0 {
        let why = format!("{what}: the radius {radius} is above half of the period {length} of {name}");
        return Err(invalid(why));
    }
    Ok(Some(length).filter(|_| declared.is_none_or(|period| !period.holds(at - radius, at + radius))))
}

fn of_sphere(Sphere { center, radius }: &Sphere, columns: &Columns<'_>) -> Result<String> {
    let center = columns.position("the center of the sphere", center)?;
    columns.check_units(center.iter().map(|(name, _)| &name[..]))?;
    let radius = length("the radius of the sphere", &center[0].0, radius, columns)?;
    let mut squares = Vec::new();
    for (name, at) in &center {
        let period = measured("sphere", *at, radius, columns.column(name)?)?;
        squares.push(format!("power({}, 2)", difference(name, *at, period)));
    }
    Ok(format!("{} <= {:?}", squares.join(" + "), radius.powf(2.0)))
}

fn of_ellipsoid(Ellipsoid { center, radii }: &Ellipsoid, columns: &Columns<'_>) -> Result<String> {
    let center = columns.position("the center of the ellipsoid", center)?;
    let mut of_columns = BTreeMap::new();
    for (name, radius) in radii {
        let name = columns.column(name)?.0.to_owned();
        let radius = length("a radius of the ellipsoid", &name, radius, columns)?;
        if radius == 0.0 {
            return Err(invalid(format!("ellipsoid: the radius of {name} is 0")));
        }
        of_columns.insert(name, radius);
    }
    if of_columns.len() != center.len() {
        return Err(invalid("ellipsoid: center and radii need the same columns"));
    }
    let mut squares = Vec::new();
    for (name, at) in &center {
        let Some(radius) = of_columns.get(name) else {
            return Err(invalid(format!("ellipsoid: radii has no column {name:?}")));
        };
        let period = measured("ellipsoid", *at, *radius, columns.column(name)?)?;
        squares.push(format!("power({} / {radius:?}, 2)", difference(name, *at, period)));
    }
    Ok(format!("{} <= 1", squares.join(" + ")))
}

fn combined(terms: &[(&str, f64, f64)]) -> String {
    let term = |(name, from, factor): &(&str, f64, f64)| match factor {
        1.0 => difference(name, *from, None),
        factor => format!("{} * ({factor:?})", difference(name, *from, None)),
    };
    terms.iter().filter(|(.., factor)| *factor != 0.0).map(term).collect::<Vec<_>>().join(" + ")
}

fn of_frustum(
    what: &str,
    from: &Position,
    to: &Position,
    radii: [&Length; 2],
    columns: &Columns<'_>,
) -> Result<String> {
    let from = columns.position(&format!("the beginning of the {what}"), from)?;
    let to: BTreeMap<String, f64> = columns.position(&format!("the end of the {what}"), to)?.into_iter().collect();
    columns.check_units(from.iter().map(|(name, _)| &name[..]))?;
    let ends = from.iter().map(|(name, at)| to.get(name).map(|end| (&name[..], *at, end - at)));
    let axis: Option<Vec<(&str, f64, f64)>> = ends.collect();
    let axis = axis.filter(|axis| axis.len() == to.len() && axis.len() > 1);
    let Some(mut axis) = axis else {
        return Err(invalid(format!("{what}: from and to need the same columns, two or more")));
    };
    for (name, ..) in &axis {
        unperiodic(what, columns.column(name)?)?;
    }
    let long = axis.iter().map(|(.., along)| along * along).sum::<f64>().sqrt();
    if !(long > 0.0 && long.is_finite()) {
        return Err(invalid(format!("{what}: from and to are the same point")));
    }
    let name = axis[0].0;
    let [first, last] = radii.map(|radius| length(&format!("a radius of the {what}"), name, radius, columns));
    let (first, last) = (first?, last?);
    axis.iter_mut().for_each(|(.., along)| *along /= long);
    let along = combined(&axis);
    // The square of the distance from the axis is the sum of the squares of these products.
    let mut squares = Vec::new();
    for (place, (one, of_one, along_one)) in axis.iter().enumerate() {
        for (other, of_other, along_other) in &axis[place + 1..] {
            let product = combined(&[(one, *of_one, *along_other), (other, *of_other, -along_one)]);
            if !product.is_empty() {
                squares.push(format!("power({product}, 2)"));
            }
        }
    }
    let most = match first == last {
        true => format!("{:?}", first.powf(2.0)),
        false => format!("power({first:?} + ({along}) * ({:?}), 2)", (last - first) / long),
    };
    Ok(format!("({along}) BETWEEN 0 AND {long:?} AND {} <= {most}", squares.join(" + ")))
}

fn normal(what: &str, normal: &BTreeMap<String, f64>, columns: &Columns<'_>) -> Result<Vec<(String, f64)>> {
    let factor = |(name, factor): (&String, &f64)| {
        let name = unperiodic(what, columns.column(name)?).and(columns.column(name))?.0.to_owned();
        match factor.is_finite() {
            true => Ok((name, *factor)),
            false => Err(invalid(format!("{what}: the normal is {factor} along {name}"))),
        }
    };
    let found: Vec<(String, f64)> = normal.iter().map(factor).collect::<Result<_>>()?;
    if found.iter().all(|(_, factor)| *factor == 0.0) {
        return Err(invalid(format!("{what}: the normal has no length")));
    }
    columns.check_units(found.iter().filter(|(_, factor)| *factor != 0.0).map(|(name, _)| &name[..]))?;
    Ok(found)
}

fn of_slab(slab: &Slab, columns: &Columns<'_>) -> Result<String> {
    let normal = normal("slab", &slab.normal, columns)?;
    let terms: Vec<(&str, f64, f64)> = normal.iter().map(|(name, factor)| (&name[..], 0.0, *factor)).collect();
    let sum = combined(&terms);
    match (slab.low, slab.high) {
        (Some(low), Some(high)) if !(low <= high) => {
            Err(invalid(format!("slab: the lower end {low} is above the upper end {high}")))
        }
        (Some(low), Some(high)) => Ok(format!("({sum}) BETWEEN {low:?} AND {high:?}")),
        (Some(low), None) if !low.is_nan() => Ok(format!("{sum} >= {low:?}")),
        (None, Some(high)) if !high.is_nan() => Ok(format!("{sum} <= {high:?}")),
        _ => Err(invalid("slab: low, high or both are needed")),
    }
}

fn of_half_space(HalfSpace { normal: given, point }: &HalfSpace, columns: &Columns<'_>) -> Result<String> {
    let normal = normal("half_space", given, columns)?;
    let point: BTreeMap<String, f64> = columns.position("the point of the half space", point)?.into_iter().collect();
    let mut terms = Vec::new();
    for (name, factor) in &normal {
        match (point.get(name), *factor == 0.0) {
            (Some(at), _) => terms.push((&name[..], *at, *factor)),
            (None, true) => {}
            (None, false) => return Err(invalid(format!("half_space: point has no column {name:?}"))),
        }
    }
    Ok(format!("{} >= 0", combined(&terms)))
}

impl Cells {
    pub(crate) fn text(&self) -> String {
        match self {
            Cells::Text(text) => text.clone(),
            Cells::Lists(lists) => {
                let list = |(order, cells): (&String, &Vec<u64>)| {
                    let cells = cells.iter().map(u64::to_string).collect::<Vec<_>>();
                    format!("{order}/{}", cells.join(","))
                };
                lists.iter().map(list).collect::<Vec<_>>().join(" ")
            }
        }
    }
}
