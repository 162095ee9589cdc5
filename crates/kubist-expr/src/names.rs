//! Finding a column by the name that a user wrote, and saying which ones there
//! are if there is none.

use crate::error::ExprError;
use arrow_schema::Schema;

/// Column names that an error lists before it only counts.
const LISTED: usize = 20;

/// The place of the column called `name`; ignoring case only if not `exactly`
/// and if no column has that very name.
pub(crate) fn find(schema: &Schema, name: &str, exactly: bool) -> Result<usize, ExprError> {
    let lower = name.to_lowercase();
    let places = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let fields = schema.fields().iter().enumerate();
        fields.filter(|(_, field)| fits(field.name())).map(|(index, _)| index).collect()
    };
    let mut found = places(&|candidate| candidate == name);
    if found.is_empty() && !exactly {
        found = places(&|candidate| candidate.to_lowercase() == lower);
    }
    match found.as_slice() {
        [index] => Ok(*index),
        [] => Err(unknown(schema, name, exactly)),
        several => {
            let names: Vec<String> = several.iter().map(|index| format!("`{}`", schema.field(*index).name())).collect();
            Err(ExprError::AmbiguousColumn { name: name.to_owned(), candidates: names.join(", ") })
        }
    }
}

fn unknown(schema: &Schema, name: &str, quoted: bool) -> ExprError {
    let lower = name.to_lowercase();
    let mut near: Vec<(usize, &str)> = schema
        .fields()
        .iter()
        .map(|field| (distance(&lower, &field.name().to_lowercase()), field.name().as_str()))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 4)
        .collect();
    near.sort_unstable();
    near.truncate(3);
    let near: Vec<String> = near.iter().map(|(_, name)| format!("`{name}`")).collect();
    let hint = match (near.as_slice(), quoted) {
        ([], true) => "; a text takes single quotes".to_owned(),
        ([], false) => String::new(),
        (near, _) => format!("; did you mean {}?", near.join(" or ")),
    };
    let names: Vec<String> = schema.fields().iter().take(LISTED).map(|field| format!("`{}`", field.name())).collect();
    let more = schema.fields().len().saturating_sub(LISTED);
    let available = match (names.len(), more) {
        (0, _) => "there are no columns".to_owned(),
        (_, 0) => format!("the columns are {}", names.join(", ")),
        (_, more) => format!("the columns are {} and {more} more", names.join(", ")),
    };
    ExprError::UnknownColumn { name: name.to_owned(), hint, available }
}

/// How many characters must change, appear or go to make one name the other
/// (Levenshtein); far for names that are too long to compare.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().max(b.len()) > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
