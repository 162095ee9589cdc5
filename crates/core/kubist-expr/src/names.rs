//! Lookup of columns by name, with suggestions. A text may name columns a hundred thousand times, so maps hold the
//! names, and all mentions of a column share one [`Column`].

use crate::bound::Column;
use crate::domain::value_type;
use crate::error::{ExprError, shortened};
use crate::near::nearest;
use crate::unit::{Unit, Units};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use kubist_index::order;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

const UNIT: &str = "unit";
/// Marks a unit as uncertain, because a plain number is a factor of the values.
const SCALED: &str = "unit of a multiple";

const MOST_REGULAR: usize = 64;

/// With more lookups than this, maps are built, which cost more than a search.
const SEARCHES: usize = 8;

const LISTED: usize = 20;

/// Without an exact match, letter case is ignored, unless several columns differ only by case.
///
/// # Errors
///
/// [`ExprError::UnknownColumn`] suggests a column; [`ExprError::AmbiguousColumn`].
pub fn column_index(schema: &Schema, name: &str) -> Result<usize, ExprError> {
    match schema.index_of(name) {
        Ok(index) => Ok(index),
        Err(_) => Ok(Names::new(schema).column(name, false)?.index),
    }
}

pub(crate) struct Names<'a> {
    schema: &'a Schema,
    exact: OnceCell<HashMap<&'a str, Vec<usize>>>,
    folded: OnceCell<HashMap<String, Vec<usize>>>,
    mentioned: RefCell<HashMap<usize, Arc<Column>>>,
    lookups: Cell<usize>,
    regular: Cell<usize>,
    pub(crate) units: Arc<Units>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Names<'a> {
        Names {
            schema,
            exact: OnceCell::new(),
            folded: OnceCell::new(),
            mentioned: RefCell::default(),
            lookups: Cell::default(),
            regular: Cell::default(),
            units: Arc::default(),
        }
    }

    /// Letter case is ignored unless `exactly` is set or a column has exactly that name.
    pub(crate) fn column(&self, name: &str, exactly: bool) -> Result<Arc<Column>, ExprError> {
        match &self.indices(name, exactly)[..] {
            [index] => Ok(self.at(*index)),
            [] => Err(unknown(self.schema, name, exactly)),
            several => {
                let names = several.iter().map(|index| format!("`{}`", self.schema.field(*index).name()));
                let names: Vec<String> = names.collect();
                Err(ExprError::AmbiguousColumn { name: shortened(name).into(), candidates: names.join(", ") })
            }
        }
    }

    /// Counts a regular expression, whose compiled form can be much larger than its text.
    pub(crate) fn count_regular(&self) -> Result<(), ExprError> {
        self.regular.set(self.regular.get() + 1);
        match self.regular.get() <= MOST_REGULAR {
            true => Ok(()),
            false => Err(ExprError::TooLarge { limit: format!("{MOST_REGULAR} regular expressions") }),
        }
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        !self.indices(name, false).is_empty()
    }

    fn indices(&self, name: &str, exactly: bool) -> Vec<usize> {
        let names = || self.schema.fields().iter().map(|field| field.name().as_str()).enumerate();
        let lookups = self.lookups.get();
        self.lookups.set(lookups + 1);
        if lookups < SEARCHES {
            let exact: Vec<usize> = names().filter(|(_, own)| *own == name).map(|(index, _)| index).collect();
            if exactly || !exact.is_empty() {
                return exact;
            }
            let folded = name.to_lowercase();
            return names().filter(|(_, own)| own.to_lowercase() == folded).map(|(index, _)| index).collect();
        }
        let exact = self.exact.get_or_init(|| by_name(names().map(|(index, own)| (own, index))));
        let indices = match exact.get(name) {
            None if !exactly => {
                let folded = || by_name(names().map(|(index, own)| (own.to_lowercase(), index)));
                self.folded.get_or_init(folded).get(&name.to_lowercase())
            }
            exact => exact,
        };
        indices.cloned().unwrap_or_default()
    }

    fn at(&self, index: usize) -> Arc<Column> {
        let make = || {
            let field = self.schema.field(index);
            let data_type = value_type(field.data_type()).clone();
            let numbers = order::number_keys(&data_type);
            let scaled = field.metadata().contains_key(SCALED);
            let unit = unit_of(field).map(|unit| Unit::new(unit, &self.units));
            let unit = unit.map(|unit| Arc::new(if scaled { unit.times_a_number() } else { unit }));
            Arc::new(Column { index, name: field.name().clone(), data_type, numbers, unit })
        };
        self.mentioned.borrow_mut().entry(index).or_insert_with(make).clone()
    }
}

pub(crate) fn unit_of(field: &Field) -> Option<&str> {
    match field.data_type() {
        DataType::Duration(_) => counted_in(field.data_type()),
        // An empty unit or `1` means plain numbers.
        _ => field.metadata().get(UNIT).map(|unit| unit.trim()).filter(|unit| !matches!(*unit, "" | "1")),
    }
}

pub(crate) fn metadata_of(unit: &Unit) -> HashMap<String, String> {
    let key = if unit.scaled { [UNIT, SCALED].as_slice() } else { &[UNIT] };
    key.iter().map(|key| ((*key).to_owned(), unit.name.to_string())).collect()
}

pub(crate) fn counted_in(data_type: &DataType) -> Option<&'static str> {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    match data_type {
        Date32 => Some("day"),
        Date64 => Some("ms"),
        Duration(unit) | Timestamp(unit, _) | Time32(unit) | Time64(unit) => Some(match unit {
            TimeUnit::Second => "s",
            TimeUnit::Millisecond => "ms",
            TimeUnit::Microsecond => "us",
            TimeUnit::Nanosecond => "ns",
        }),
        _ => None,
    }
}

fn by_name<K: std::hash::Hash + Eq>(names: impl Iterator<Item = (K, usize)>) -> HashMap<K, Vec<usize>> {
    let mut indices: HashMap<K, Vec<usize>> = HashMap::new();
    names.for_each(|(name, index)| indices.entry(name).or_default().push(index));
    indices
}

pub(crate) const NO_CLOCK: &str =
    "; expressions read no clock: write the time, such as TIMESTAMP '2026-01-31T12:00:00' - INTERVAL 1 DAY";

/// Whether SQL has this lower-case name for the current time.
pub(crate) fn needs_clock(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "now",
        "today",
        "current_timestamp",
        "current_date",
        "current_time",
        "localtimestamp",
        "localtime",
        "get_current_timestamp",
        "get_current_time",
        "transaction_timestamp",
        "getdate",
        "sysdate",
    ];
    NAMES.contains(&name)
}

fn unknown(schema: &Schema, name: &str, quoted: bool) -> ExprError {
    if !quoted && needs_clock(&name.to_ascii_lowercase()) {
        return ExprError::Unsupported { construct: format!("`{}`", shortened(name)), hint: NO_CLOCK.to_owned() };
    }
    let near = nearest(name, schema.fields().iter().map(|field| field.name().as_str()));
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
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
    ExprError::UnknownColumn { name: shortened(name).into(), hint, available }
}

/// Adds a hint, if the text contains a column name that needs quotes, such as `B-V`.
pub(crate) fn with_hint(error: ExprError, text: &str, schema: &Schema) -> ExprError {
    let ExprError::UnknownColumn { name, hint, available } = &error else { return error };
    let is_word = |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || "_.".contains(letter));
    let text = text.to_lowercase();
    let columns = schema.fields().iter().map(|field| field.name());
    let mut meant = columns.filter(|column| !is_word(column) && column.contains(name));
    match meant.find(|column| text.contains(&column.to_lowercase())) {
        Some(column) => ExprError::UnknownColumn {
            name: name.clone(),
            hint: format!("; `{column}` is a column: write \"{column}\""),
            available: format!("there are {} columns", schema.fields().len()),
        },
        None if hint.is_empty() && text.contains('=') && schema.fields().iter().any(|field| is_text(field)) => {
            let hint = format!("; a text takes single quotes: '{name}'");
            ExprError::UnknownColumn { name: name.clone(), hint, available: available.clone() }
        }
        None => error,
    }
}

fn is_text(field: &Field) -> bool {
    matches!(value_type(field.data_type()), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_of_fingers_and_beginnings_are_near() {
        let names = ["diameter", "mag", "classification", "kind", "id", "count_distinct"];
        let near = |name: &str| nearest(name, names.into_iter());
        assert_eq!(near("diametr"), ["diameter"]);
        assert_eq!(near("mga"), ["mag"]);
        assert_eq!(near("class"), ["classification"]);
        assert_eq!(near("KIDN"), ["kind"]);
        assert_eq!(near("distinct"), ["count_distinct"]);
        assert_eq!(near("countdist"), ["count_distinct"]);
        assert!(near("speed").is_empty() && near("cl").is_empty());
    }
}
