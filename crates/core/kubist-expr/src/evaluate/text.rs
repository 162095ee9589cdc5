//! Texts that are computed for each row.

use super::compute::vector;
use super::untold;
use crate::bound::{Choice, Text, TextCall, TextFunction};
use crate::cell::unsupported;
use crate::error::ExprError;
use crate::rows::Rows;
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use std::sync::Arc;

pub(crate) fn array(text: &Text, rows: &Rows<'_>) -> Result<ArrayRef, ExprError> {
    match text {
        Text::Column(column) => rows.array(column),
        Text::Call(call) => called(call, rows),
        Text::Null | Text::Literal(_) | Text::Choice(_) => {
            let mut found = vec![None; rows.count()];
            texts(text, rows, &mut |row, text| found[row] = text)?;
            Ok(built(found.into_iter()))
        }
    }
}

/// Many rows often have few distinct texts, so each text is stored once.
fn built(texts: impl Iterator<Item = Option<impl AsRef<str>>>) -> ArrayRef {
    let mut built = StringViewBuilder::new().with_deduplicate_strings();
    texts.for_each(|text| built.append_option(text));
    Arc::new(built.finish())
}

pub(crate) fn called(call: &TextCall, rows: &Rows<'_>) -> Result<ArrayRef, ExprError> {
    rows.go_on()?;
    let of = call.operands.iter().map(|operand| array(operand, rows)).collect::<Result<Vec<_>, _>>()?;
    let texts = of.iter().map(|array| strings(array.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let count = rows.count();
    Ok(match (call.function, texts.as_slice()) {
        (TextFunction::Coalesce, all) => built((0..count).map(|row| all.iter().find_map(|text| text(row)))),
        (TextFunction::NullIf, [one, other]) => {
            built((0..count).map(|row| one(row).filter(|text| other(row) != Some(*text))))
        }
        (TextFunction::Upper, [text]) => built((0..count).map(|row| text(row).map(|text| cased(text, upper)))),
        (TextFunction::Lower, [text]) => built((0..count).map(|row| text(row).map(|text| cased(text, lower)))),
        (TextFunction::Substring { start, length }, [text]) => {
            built((0..count).map(|row| text(row).map(|text| substring(text, start, length))))
        }
        _ => return Err(ExprError::Evaluation { message: format!("{:?} of {} texts", call.function, texts.len()) }),
    })
}

pub(super) type Strings<'a> = Box<dyn Fn(usize) -> Option<&'a str> + 'a>;

pub(super) fn strings(array: &dyn Array) -> Result<Strings<'_>, ExprError> {
    macro_rules! of {
        ($array:expr) => {{
            let array = $array;
            Ok(Box::new(move |row| array.is_valid(row).then(|| array.value(row))))
        }};
    }
    match array.data_type() {
        DataType::Utf8 => of!(array.as_string::<i32>()),
        DataType::LargeUtf8 => of!(array.as_string::<i64>()),
        DataType::Utf8View => of!(array.as_string_view()),
        other => Err(unsupported(other)),
    }
}

fn cased(text: &str, case: impl Fn(char) -> char) -> String {
    text.chars().map(case).collect()
}

/// The only character of a case mapping. As in DuckDB, mappings to several characters are not made.
fn single(mut mapped: impl Iterator<Item = char>, char: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(mapped), None) => mapped,
        _ => char,
    }
}

fn upper(char: char) -> char {
    // Unicode maps ẞ down to ß, but ß up to SS.
    if char == 'ß' { 'ẞ' } else { single(char.to_uppercase(), char) }
}

fn lower(char: char) -> char {
    if char == 'İ' { 'i' } else { single(char.to_lowercase(), char) }
}

/// `start` counts from 1, or from the end if negative. Positions before the text count as part of the length.
fn substring(text: &str, start: i64, length: Option<i64>) -> &str {
    let size = text.chars().count() as i64;
    let from = match start {
        1.. => start - 1,
        0 => -1,
        _ => size.saturating_add(start),
    };
    let upto = length.map_or(size, |length| from.saturating_add(length)).clamp(0, size);
    let from = from.clamp(0, upto);
    let at = |character: i64| text.char_indices().nth(character as usize).map_or(text.len(), |(at, _)| at);
    &text[at(from)..at(upto)]
}

fn chosen(choice: &Choice, rows: &Rows<'_>, put: &mut dyn FnMut(usize, Option<Arc<str>>)) -> Result<(), ExprError> {
    rows.go_on()?;
    let mut choose = || {
        let left = untold(&choice.whens, rows, &mut |takes, text| {
            let places: Vec<usize> = takes.set_indices().collect();
            rows.part(takes, |part| texts(text, part, &mut |row, text| put(places[row], text)))
        })?;
        let places: Vec<usize> = left.set_indices().collect();
        match places.is_empty() {
            true => Ok(()),
            false => rows.part(&left, |part| texts(&choice.otherwise, part, &mut |row, text| put(places[row], text))),
        }
    };
    match &choice.known {
        Some(number) => {
            let numbers = vector(number, rows)?;
            rows.knowing(number, numbers, choose)
        }
        None => choose(),
    }
}

fn texts(text: &Text, rows: &Rows<'_>, put: &mut dyn FnMut(usize, Option<Arc<str>>)) -> Result<(), ExprError> {
    match text {
        Text::Null => {}
        Text::Literal(text) => (0..rows.count()).for_each(|row| put(row, Some(text.clone()))),
        Text::Choice(choice) => chosen(choice, rows, put)?,
        Text::Column(_) | Text::Call(_) => {
            let array = array(text, rows)?;
            let texts = strings(array.as_ref())?;
            (0..rows.count()).for_each(|row| put(row, texts(row).map(Arc::from)));
        }
    }
    Ok(())
}
