//! Compares predicates with the interpreter of `oracle`: every row of random tables of all types, and every verdict of
//! valid statistics.

use crate::oracle;
use crate::oracle::{Cell, Cond, Lit, Names, Rng, Table};
use arrow_array::{Array, BooleanArray, RecordBatch};
use kubist_expr::{ExprError, Nulls, Predicate, Value, Verdict, Zone, key_range, never};
use kubist_index::order;
use kubist_index::priority::{is_identity_type, priorities};
use std::cmp::Ordering;

pub fn zones(batch: &RecordBatch) -> Vec<Zone> {
    let zone = |array: &dyn Array| {
        let valid = |row: usize| array.logical_nulls().is_none_or(|nulls| nulls.is_valid(row));
        let keys = order::keys(array).expect("every type here has keys");
        let keys: Vec<u64> = (0..array.len()).filter(|row| valid(*row)).map(|row| keys[row]).collect();
        let nulls = match keys.len() {
            0 => Nulls::All,
            count if count == array.len() => Nulls::None,
            _ => Nulls::Some,
        };
        let (min, max) = (keys.iter().min().copied(), keys.iter().max().copied());
        Zone { min: min.unwrap_or(77), max: max.unwrap_or(7), nulls }
    };
    batch.columns().iter().map(|array| zone(array.as_ref())).collect()
}

fn values_hold_what_is_selected(predicate: &Predicate, table: &Table, found: &BooleanArray, sql: &str) {
    for (column, array) in table.batch.columns().iter().enumerate() {
        if !is_identity_type(array.data_type()) {
            continue;
        }
        let Some(values) = predicate.values_of(column, array.data_type()) else { continue };
        assert_eq!(values.null_count(), 0);
        let values = priorities(&[values.as_ref()], values.len(), 1);
        let rows = priorities(&[array.as_ref()], array.len(), 1);
        for (row, hash) in rows.iter().enumerate().filter(|(row, _)| found.value(*row)) {
            assert!(values.contains(hash), "row {row} of column {column}: {sql}");
        }
    }
}

fn check(seed: u64, table: &Table, cond: &Cond, decided: &mut [usize; 3]) {
    let sql = Names(&table.schema).sql(cond);
    let predicate = Predicate::parse(&sql, &table.schema).unwrap_or_else(|error| panic!("{seed}: {sql}\n{error}"));
    let again = Predicate::parse(&predicate.to_string(), &table.schema).unwrap();
    let rows = table.batch.num_rows();
    let expected: Vec<bool> =
        (0..rows).map(|row| oracle::answer(cond, &|column| table.cells[column][row].clone()) == Some(true)).collect();
    let beyond = oracle::went_beyond();
    let found = match predicate.evaluate(&table.batch, &never) {
        Err(ExprError::Overflow { .. }) if beyond => return,
        found => found.unwrap(),
    };
    assert_eq!(found.null_count(), 0);
    for (row, expected) in expected.into_iter().enumerate() {
        let cells = || -> Vec<String> {
            let columns = predicate.columns();
            columns.iter().map(|c| format!("{} = {:?}", table.schema.field(*c).name(), table.cells[*c][row])).collect()
        };
        assert_eq!(found.value(row), expected, "seed {seed}, row {row}: {sql}\n{:?}\n{predicate:?}", cells());
    }
    assert_eq!(again.evaluate(&table.batch, &never).unwrap(), found);
    let mut columns = predicate.columns();
    columns.reverse();
    assert_eq!(predicate.evaluate(&table.batch.project(&columns).unwrap(), &never).unwrap(), found, "{seed}: {sql}");

    values_hold_what_is_selected(&predicate, table, &found, &sql);

    let mut start = 0;
    while start < rows {
        let length = (1 + (seed as usize + start) % 7).min(rows - start);
        let part = table.batch.slice(start, length);
        let part_found = predicate.evaluate(&part, &never).unwrap();
        assert_eq!(part_found, found.slice(start, length), "{seed}: {sql}");
        let exact = zones(&part);
        let loose: Vec<Zone> = exact
            .iter()
            .map(|zone| match zone.nulls {
                Nulls::All => Zone { min: 3, max: 2, nulls: Nulls::Some },
                _ => Zone { min: zone.min.saturating_sub(9), max: zone.max.saturating_add(9), nulls: Nulls::Some },
            })
            .collect();
        for statistics in [&exact, &loose] {
            match predicate.verdict(&|column| statistics[column]) {
                Verdict::None => assert_eq!(part_found.true_count(), 0, "seed {seed} at {start}: {sql}"),
                Verdict::All => assert_eq!(part_found.true_count(), length, "seed {seed} at {start}: {sql}"),
                Verdict::Some => {}
            }
        }
        match predicate.verdict(&|column| exact[column]) {
            Verdict::None => decided[0] += 1,
            Verdict::Some => decided[1] += 1,
            Verdict::All => decided[2] += 1,
        }
        start += length;
    }
}

#[test]
fn every_row_gets_the_answer_of_the_rules() {
    let mut decided = [0; 3];
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let rows = rng.pick(&[1, 7, 64, 65, 200]);
        let table = oracle::table(&mut rng, rows);
        for _ in 0..40 {
            let depth = rng.pick(&[0, 0, 1, 2, 3]);
            let cond = oracle::condition(&mut rng, depth);
            check(seed, &table, &cond, &mut decided);
        }
    }
    assert!(decided[0] > decided[1] / 2 && decided[2] > decided[1] / 20, "{decided:?}");
}

#[test]
fn an_empty_batch_has_no_rows_to_select() {
    let mut rng = Rng(1);
    let table = oracle::table(&mut rng, 0);
    for _ in 0..300 {
        let sql = Names(&table.schema).sql(&oracle::condition(&mut rng, 2));
        let predicate = Predicate::parse(&sql, &table.schema).unwrap();
        assert_eq!(predicate.evaluate(&table.batch, &never).unwrap().len(), 0, "{sql}");
    }
}

fn value(literal: &Lit) -> Option<Value> {
    Some(match literal {
        Lit::Null => Value::Null,
        Lit::Bool(value) => Value::Bool(*value),
        Lit::Number(_, mantissa, 0) => Value::Int(*mantissa),
        // Only numbers that a double represents; others are literals of SQL only.
        Lit::Number(text, ..) => Value::Float(text.parse().ok().filter(|value: &f64| value.is_normal())?),
        Lit::Inf(negative) => Value::Float(if *negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Lit::NaN => Value::Float(f64::NAN),
        Lit::Text(text) => Value::Text(text.clone()),
        Lit::Bytes(bytes) => Value::Binary(bytes.clone()),
        Lit::Time(text, ..) => Value::Text((*text).to_owned()),
    })
}

#[test]
fn ranges_are_closed_and_their_keys_agree() {
    for seed in 0..400 {
        let mut rng = Rng(seed ^ 0xfeed);
        let table = oracle::table(&mut rng, 60);
        for (index, field) in table.schema.fields().iter().enumerate() {
            let sample = table.cells[index].iter().find(|cell| **cell != Cell::Null);
            let Some(sample) = sample else { continue };
            let end = |rng: &mut Rng| match rng.chance(25) {
                true => None,
                false => Some(oracle::literal(rng, sample)).filter(|literal| value(literal).is_some()),
            };
            let (low, high) = (end(&mut rng), end(&mut rng));
            let inside = |cell: &Cell| {
                let least = low.as_ref().map(|low| oracle::against(cell, low).map(Ordering::is_ge));
                let most = high.as_ref().map(|high| oracle::against(cell, high).map(Ordering::is_le));
                least.is_none_or(|is| is == Some(true)) && most.is_none_or(|is| is == Some(true))
            };
            let (low, high) = (low.as_ref().and_then(value), high.as_ref().and_then(value));
            let context = format!("seed {seed}: {} from {low:?} to {high:?}", field.name());
            let range = Predicate::range(&table.schema, field.name(), low.as_ref(), high.as_ref()).expect(&context);
            let found = range.evaluate(&table.batch, &never).unwrap();
            let written = Predicate::parse(&range.to_string(), &table.schema).expect(&context);
            assert_eq!(written.evaluate(&table.batch, &never).unwrap(), found, "{context}, as `{range}`");
            assert_eq!(range.is_always(), low.is_none() && high.is_none());
            let interval = key_range(field.data_type(), low.as_ref(), high.as_ref()).expect(&context);
            let keys = order::keys(table.batch.column(index)).unwrap();
            for (row, cell) in table.cells[index].iter().enumerate() {
                assert_eq!(found.value(row), inside(cell), "{context}, row {row}: {cell:?}");
                if *cell == Cell::Null {
                    continue;
                }
                let selected = interval.is_some_and(|(low, high)| (low..=high).contains(&keys[row]));
                if order::is_exact(field.data_type()) {
                    assert_eq!(selected, inside(cell), "{context}, {cell:?}, {interval:?}");
                } else {
                    assert!(selected || !inside(cell), "{context}, {cell:?}, {interval:?}");
                }
            }
        }
    }
}

#[test]
fn one_row_zones_of_exact_types_decide_comparisons() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let table = oracle::table(&mut rng, 1);
        let zones = zones(&table.batch);
        for (index, field) in table.schema.fields().iter().enumerate() {
            let Some(cell) = table.cells[index].first().filter(|cell| **cell != Cell::Null) else { continue };
            if !order::is_exact(field.data_type()) {
                continue;
            }
            let (low, high) = (oracle::literal(&mut rng, cell), oracle::literal(&mut rng, cell));
            let name = field.name();
            for sql in [
                format!("{name} < {}", low.sql()),
                format!("NOT {name} = {}", low.sql()),
                format!("{name} IN ({}, {})", low.sql(), high.sql()),
                format!("{name} NOT BETWEEN {} AND {}", low.sql(), high.sql()),
            ] {
                let predicate = Predicate::parse(&sql, &table.schema).unwrap();
                let found = predicate.evaluate(&table.batch, &never).unwrap().value(0);
                let expected = if found { Verdict::All } else { Verdict::None };
                assert_eq!(predicate.verdict(&|column| zones[column]), expected, "seed {seed}: {sql}, {cell:?}");
            }
        }
    }
}
