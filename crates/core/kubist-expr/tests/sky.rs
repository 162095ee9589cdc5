//! Functions of positions and shapes: values, types, units, mistakes and bounding boxes.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use kubist_expr::{Output, Predicate, never};
use kubist_index::order;
use std::sync::Arc;

fn rows() -> RecordBatch {
    let ra = Float64Array::from(vec![Some(359.5), Some(10.0), None, Some(0.0), Some(f64::NAN)]);
    let dec = Float64Array::from(vec![Some(0.0), Some(45.0), Some(0.0), Some(95.0), Some(0.0)]);
    let columns = [("ra", Arc::new(ra) as ArrayRef), ("dec", Arc::new(dec) as ArrayRef)];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn selected(sql: &str) -> Vec<usize> {
    let batch = rows();
    let found = Predicate::parse(sql, batch.schema_ref()).unwrap().evaluate(&batch, &never).unwrap();
    found.values().set_indices().collect()
}

#[test]
fn positions_are_computed_in_degrees() {
    assert_eq!(selected("separation(ra, dec, 0.5, 0) < 1.5"), [0]);
    assert_eq!(selected("separation(ra, dec, 0.5, 0) < 61arcmin"), [0]);
    assert_eq!(selected("NOT separation(ra, dec, 0.5, 0) < 1.5"), [1]);
    assert_eq!(selected("periodic(ra - 0.25, 360) <= 0.75"), [0, 3]);
    let batch = rows();
    let cells = Output::parse("healpix(ra, dec, 1)", batch.schema_ref()).unwrap().evaluate(&batch, &never).unwrap();
    let cells = cells.as_primitive::<Int64Type>();
    let expected = [Some(4), Some(0), None, None, None];
    assert_eq!(cells.iter().collect::<Vec<_>>(), expected);
    assert_eq!(Output::parse("separation(ra, dec, 0, 0)", batch.schema_ref()).unwrap().unit(), Some("deg"));
}

#[test]
fn points_without_a_position_are_in_no_shape_and_in_no_complement() {
    for (shape, inside) in
        [("in_sky_polygon(ra, dec, '350 -5, 5 -5, 5 5, 350 5')", vec![0]), ("in_moc(ra, dec, '0/4')", vec![0])]
    {
        assert_eq!(selected(shape), inside, "{shape}");
        assert_eq!(selected(&format!("NOT {shape}")), [1], "{shape}");
    }
    // In a plane, 95 is a number as others.
    let plane = "in_polygon(ra, dec, '-1 -1, 11 -1, 11 100, -1 100')";
    assert_eq!((selected(plane), selected(&format!("NOT {plane}"))), (vec![1, 3], vec![0]));
}

#[test]
fn shapes_have_bounding_boxes() {
    let batch = rows();
    let ends = |sql: &str, column: usize| {
        let predicate = Predicate::parse(sql, batch.schema_ref()).unwrap();
        let keys = predicate.keys_of(column);
        assert!(!keys.others, "{sql}");
        let number = |key| order::number(batch.column(column).data_type(), key);
        keys.numbers.map(|(low, high)| (number(low), number(high))).unwrap()
    };
    let near = |found: (f64, f64), low: f64, high: f64, slack: f64| {
        assert!((found.0 - low).abs() <= slack && (found.1 - high).abs() <= slack, "{found:?}");
    };
    near(ends("in_polygon(ra, dec, '1 2, 3 2, 3 5')", 0), 1.0, 3.0, 0.0);
    near(ends("in_polygon(ra, dec, '1 2, 3 2, 3 5')", 1), 2.0, 5.0, 0.0);
    near(ends("separation(ra, dec, 10, 20) <= 3", 1), 17.0, 23.0, 1e-9);
    near(ends("in_sky_polygon(ra, dec, '10 20, 14 20, 12 24')", 1), 20.0, 24.0, 2.0);
    near(ends("in_moc(ra, dec, '6/0')", 1), 0.0, 1.2, 2.0);
}

#[test]
fn mistakes_are_refused_by_name() {
    let schema = rows().schema();
    for (sql, mistake) in [
        ("healpix(ra, dec, 3) = 1", "a power of two"),
        ("healpix(ra, dec) = 1", "takes 3 operands"),
        ("healpix(ra, dec, ra) = 1", "a power of two"),
        ("periodic(ra, 0) < 1", "a period above 0"),
        ("separation(ra, dec, 1) < 1", "takes 4 operands"),
        ("in_polygon(ra, dec, '0 0, 1 1, 1 0, 0 1')", "crosses or touches itself"),
        ("in_polygon(ra, dec, ra)", "takes a text"),
        ("in_moc(ra, dec, '3/999')", "no cells of order 3"),
        ("in_sky_polygon(ra, dec, '0 0, 1 95, 2 0')", "latitude"),
    ] {
        let error = Predicate::parse(sql, &schema).unwrap_err().to_string();
        assert!(error.contains(mistake), "{sql}: {error}");
    }
}
