//! Numbers in the text of a shape.

use crate::Point;

/// Rings of points: `x y, x y, ...; x y, ...`.
pub(crate) fn rings(text: &str) -> Result<Vec<Vec<Point>>, String> {
    text.split(';').map(ring).collect()
}

fn ring(text: &str) -> Result<Vec<Point>, String> {
    text.split(',').map(point).collect()
}

fn point(text: &str) -> Result<Point, String> {
    let wrong = || format!("{:?} is no point: write two numbers, as in '0 0, 1 0, 1 1'", shortened(text.trim()));
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(x)), Some(Ok(y)), None) if x.is_finite() && y.is_finite() => Ok([x, y]),
        _ => Err(wrong()),
    }
}

pub(crate) fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 { text.into() } else { text.chars().take(40).chain("...".chars()).collect() }
}
