//! Derives scale, unit and label from a column's type and metadata.

use arrow_schema::{DataType, Field};

use kubist_expr::has_direction;
use kubist_types::steps::part;

use crate::classes::Kind;
use crate::error::Error;
use crate::points::{Points, extent, is_text};
use crate::spec::Projection;
use crate::ticks::Scale;

/// The scale of a column along an axis.
///
/// # Errors
///
/// [`Error::NotDrawable`] if its values are not numbers, dates or times.
pub fn scale(field: &Field) -> Result<Scale, Error> {
    let mut data_type = field.data_type();
    if let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    match data_type {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Ok(Scale::Calendar),
        DataType::Boolean | DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => Ok(Scale::Linear),
        data_type if data_type.is_numeric() => Ok(Scale::Linear),
        data_type => Err(Error::NotDrawable { column: field.name().clone(), data_type: data_type.clone() }),
    }
}

/// The scale of a column's values for colours; strings have one too, with a class per string.
///
/// # Errors
///
/// [`Error::NotDrawable`] as for [`scale`].
pub fn color_scale(field: &Field) -> Result<Scale, Error> {
    if is_text(field.data_type()) { Ok(Scale::Linear) } else { scale(field) }
}

/// The kind of a column's values for colours.
pub fn kind(field: &Field) -> Kind {
    match field.data_type() {
        DataType::Boolean => Kind::Truths,
        data_type if data_type.is_integer() => Kind::Whole,
        data_type if is_text(data_type) => Kind::Texts,
        _ => Kind::Measured,
    }
}

/// From its metadata; seconds for times.
pub fn unit(field: &Field) -> Option<String> {
    let unit = ["unit", "units"].into_iter().find_map(|key| field.metadata().get(key));
    match field.data_type() {
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => Some("s".to_string()),
        _ => unit.filter(|unit| !unit.trim().is_empty()).cloned(),
    }
}

/// The column's name with its unit.
pub fn label(field: &Field) -> String {
    match unit(field) {
        Some(unit) => format!("{} [{unit}]", field.name()),
        None => field.name().clone(),
    }
}

/// True if both axes should have the same scale: for two components of a vector, unless the plot would be
/// nearly a line.
pub fn suits_equal_aspect(x: &Field, y: &Field, points: &Points) -> bool {
    const MOST_UNEQUAL: f64 = 12.0;
    let span = |numbers: &[f64]| extent(numbers).map_or(0.0, |(low, high)| part(low, high, 2.0));
    let ratio = span(&points.x) / span(&points.y);
    same_unit(x, y) && (1.0 / MOST_UNEQUAL..=MOST_UNEQUAL).contains(&ratio)
}

/// The common unit of two columns, if a length has the same size along both axes. Angles on a sphere and
/// quantities without a direction have none.
pub fn scale_bar(x: &Field, y: &Field) -> Option<String> {
    const ANGLES: [&str; 13] = [
        "deg",
        "degree",
        "degrees",
        "°",
        "rad",
        "radian",
        "radians",
        "arcmin",
        "arcsec",
        "mas",
        "uas",
        "µas",
        "hourangle",
    ];
    let length = unit(x).filter(|one| unit(y).as_ref() == Some(one))?;
    let is_angle = ANGLES.contains(&length.trim().to_lowercase().as_str());
    (!is_angle && same_unit(x, y)).then_some(length)
}

/// The sky, if the axes are the table's positions on a sphere, in degrees.
pub fn projection(x: &Field, y: &Field, sphere: Option<&[String; 2]>) -> Projection {
    const DEGREES: [&str; 4] = ["deg", "degree", "degrees", "°"];
    let is_angle = |field: &Field| unit(field).is_none_or(|unit| DEGREES.contains(&unit.trim()));
    match sphere {
        Some([longitude, latitude]) if [longitude, latitude] == [x.name(), y.name()] && is_angle(x) && is_angle(y) => {
            Projection::Sky
        }
        _ => Projection::Plane,
    }
}

/// True for magnitudes, which are smaller for brighter objects; astronomers invert their axis.
pub fn is_magnitude(field: &Field) -> bool {
    unit(field).is_some_and(|unit| matches!(unit.trim(), "mag" | "magnitude" | "ABmag" | "STmag"))
}

/// True if two columns are components of the same vector, by units with a direction, or by names that differ only in x,
/// y, z or a digit. Two masses are not.
fn same_unit(x: &Field, y: &Field) -> bool {
    match (unit(x), unit(y)) {
        (Some(one), Some(other)) if one != other => return false,
        (Some(one), Some(_)) if has_direction(&one) => return true,
        _ => {}
    }
    if x.name().chars().count() != y.name().chars().count() {
        return false;
    }
    let differing: Vec<(char, char)> = x.name().chars().zip(y.name().chars()).filter(|(a, b)| a != b).collect();
    let component = |c: char| "xyzXYZ".contains(c) || c.is_ascii_digit();
    matches!(differing[..], [(one, other)] if component(one) && component(other))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn types_decide_the_scale() {
        let of = |data_type: DataType| scale(&Field::new("s", data_type, true));
        assert_eq!(of(DataType::Timestamp(TimeUnit::Millisecond, None)).unwrap(), Scale::Calendar);
        assert_eq!(of(DataType::Float32).unwrap(), Scale::Linear);
        assert_eq!(
            of(DataType::Utf8).unwrap_err().to_string(),
            "column \"s\" (Utf8) cannot be drawn: it must contain numbers, dates or times"
        );
    }

    #[test]
    fn components_share_a_unit() {
        let field = |name: &str| Field::new(name, DataType::Float32, true);
        for (one, other) in [("x", "y"), ("pos_x", "pos_z"), ("u_0", "u_1"), ("X", "Z"), ("ux", "uy")] {
            assert!(same_unit(&field(one), &field(other)), "{one} {other}");
        }
        for (one, other) in [("ra", "dec"), ("x", "time"), ("x", "t"), ("x", "x")] {
            assert!(!same_unit(&field(one), &field(other)), "{one} {other}");
        }
        let measured =
            |name: &str, unit: &str| field(name).with_metadata(HashMap::from([("unit".to_string(), unit.to_string())]));
        for unit in ["m", "deg", "m/s"] {
            assert!(same_unit(&measured("ra", unit), &measured("dec", unit)), "{unit}");
        }
        for unit in ["mag", "kg", "K"] {
            let (one, other) = (measured("bv", unit), measured("brightness", unit));
            assert!(!same_unit(&one, &other) && scale_bar(&one, &other).is_none(), "{unit}");
        }
        assert!(same_unit(&measured("x", "box"), &measured("y", "box")));
        let with = |name: &str, unit: &str| {
            let metadata = std::collections::HashMap::from([("unit".to_string(), unit.to_string())]);
            field(name).with_metadata(metadata)
        };
        assert!(same_unit(&with("east", "km"), &with("north", "km")));
        assert!(!same_unit(&with("x", "km"), &with("y", "s")));
        assert_eq!(label(&with("x", "mm")), "x [mm]");
        assert_eq!(scale_bar(&with("x", "mm"), &with("y", "mm")).as_deref(), Some("mm"));
        assert_eq!(scale_bar(&with("x", "mm"), &with("y", "m")), None);
        assert_eq!(scale_bar(&with("ra", "deg"), &with("dec", "deg")), None);
        assert_eq!(scale_bar(&field("x"), &field("y")), None);
    }
}
