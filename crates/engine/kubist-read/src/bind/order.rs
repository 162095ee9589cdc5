//! The order of a result: parses terms into columns and directions.

use arrow_schema::{DataType, Field};
use kubist_expr::Output as Parsed;
use kubist_index::order;

use super::outputs::{By, Computed, Output, is_name};
use super::place;
use kubist_catalog::schema::TableSchema;
use kubist_types::error::{Error, Result};
use kubist_types::query::QuerySpec;

const PRIORITY: &str = "priority";

/// Common names of time columns, the most likely first.
const TIMES: [&str; 8] = ["time", "t", "step", "timestep", "frame", "tick", "epoch", "date"];

pub(crate) struct Order {
    pub terms: Vec<Term>,
    /// If set, only this many rows, the first in this order.
    pub first: Option<u64>,
}

pub(crate) struct Term {
    pub by: By,
    pub descending: bool,
}

impl Order {
    /// The query's own order with its `limit`, or else `otherwise`, whose columns are added to `read`.
    pub(super) fn of(
        schema: &TableSchema,
        spec: &QuerySpec,
        outputs: &[Output],
        otherwise: Option<&[String]>,
        read: &mut Vec<usize>,
    ) -> Result<Option<Order>> {
        let (names, outputs, first) = match (&spec.order_by, otherwise) {
            (Some(names), _) => (&names[..], outputs, spec.limit),
            (None, Some(names)) => (names, &[][..], None),
            (None, None) => return Ok(None),
        };
        if first.is_some() && spec.inclusion.is_some() {
            return Err(Error::invalid(
                "inclusion: the first records of an order are no sample; ask without limit or without order_by",
            ));
        }
        if names.is_empty() {
            return Err(Error::invalid("order_by: it names no column"));
        }
        let mut terms: Vec<Term> = Vec::with_capacity(names.len());
        for text in names {
            let term = Term::parse(schema, text, outputs, read)?;
            if terms.iter().any(|other| other.by.is_same(&term.by)) {
                return Err(Error::invalid(format!("order_by: {text:?} is given twice")));
            }
            terms.push(term);
        }
        Ok(Some(Order { terms, first }))
    }
}

impl Term {
    /// Parses `diameter`, `diameter desc`, `"a name with spaces" asc`, `sqrt(x * x + y * y)` or `priority`.
    /// As in SQL, names of the result come before names of the table.
    fn parse(schema: &TableSchema, text: &str, outputs: &[Output], read: &mut Vec<usize>) -> Result<Term> {
        let is_column = schema.user.index_of(text).is_ok();
        let (name, descending) = match text.trim().rsplit_once(char::is_whitespace) {
            _ if is_column => (text, false),
            Some((name, last)) if last.eq_ignore_ascii_case("desc") => (name.trim(), true),
            Some((name, last)) if last.eq_ignore_ascii_case("asc") => (name.trim(), false),
            _ => (text.trim(), false),
        };
        let quoted = if is_column { None } else { ['"', '`'].into_iter().find_map(|quote| unquoted(name, quote)) };
        let bare = quoted.as_deref().unwrap_or(name);
        let by = match outputs.iter().find(|output| output.name() == bare) {
            Some(output) => output.by(),
            None => match schema.column(bare) {
                Ok(column) => By::Column(place(column, read)),
                Err(_) if quoted.is_none() && name.eq_ignore_ascii_case(PRIORITY) => By::Priority,
                Err(error) if quoted.is_some() || is_name(name) => {
                    return Err(Error::invalid(format!("order_by: {error}")));
                }
                Err(_) => {
                    let of = schema.conditional();
                    let parsed = Parsed::parse(name, &of)
                        .map_err(|mistake| Error::invalid(format!("order_by: {name}: {mistake}")))?;
                    By::Computed(Computed::new(schema, &of, parsed, read))
                }
            },
        };
        let data_type = match &by {
            By::Priority => return Ok(Term { by, descending }),
            By::Column(place) => schema.stored.field(read[*place]).data_type(),
            By::Computed(computed) => computed.data_type(),
        };
        match has_order(data_type) {
            true => Ok(Term { by, descending }),
            false => Err(Error::invalid(format!("order_by: column {name:?} of type {data_type} has no order"))),
        }
    }
}

fn unquoted(name: &str, quote: char) -> Option<String> {
    let inner = name.strip_prefix(quote)?.strip_suffix(quote)?;
    let doubled = [quote, quote].iter().collect::<String>();
    let plain = inner.replace(&doubled, "");
    (!plain.contains(quote)).then(|| inner.replace(&doubled, &quote.to_string()))
}

/// Trajectories one after another in time order: `by`, other identity columns of the trajectory, the time,
/// and identity columns of rows.
pub(crate) fn of_paths<'a>(schema: &'a TableSchema, by: usize) -> Vec<String> {
    let field = |column: &usize| schema.user_field(*column);
    let visible = schema.visible();
    let identity = schema.identity.iter().filter(|column| visible.contains(column));
    let time_among = |columns: &'a [usize]| {
        let named = |name: &&str| columns.iter().find(|column| is_named(field(column), name));
        TIMES.iter().find_map(named).or_else(|| columns.iter().find(|column| is_date(field(column))))
    };
    let time = time_among(&schema.dimensions).or_else(|| time_among(visible));
    let identity: Vec<&usize> = identity.collect();
    // If the identity lacks `by`, it identifies rows, not trajectories.
    let (of_path, of_record) = if identity.contains(&&by) { (identity, vec![]) } else { (vec![], identity) };
    let mut columns = vec![by];
    for column in of_path.into_iter().chain(time).chain(of_record) {
        if !columns.contains(column) && has_order(schema.stored.field(*column).data_type()) {
            columns.push(*column);
        }
    }
    columns.iter().map(|column| field(column).name().clone()).collect()
}

/// A one-letter name must match in case, because `T` is a temperature.
fn is_named(field: &Field, name: &str) -> bool {
    if name.len() == 1 { field.name() == name } else { field.name().eq_ignore_ascii_case(name) }
}

fn is_date(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

fn has_order(data_type: &DataType) -> bool {
    use DataType::*;
    order::is_exact(data_type)
        || matches!(
            data_type,
            Decimal128(..) | Decimal256(..) | Utf8 | LargeUtf8 | Binary | LargeBinary | FixedSizeBinary(_)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubled_quote_is_one() {
        assert_eq!(unquoted("\"a\"\"b\"", '"').as_deref(), Some("a\"b"));
        assert_eq!(unquoted("`a\"b`", '`').as_deref(), Some("a\"b"));
        assert_eq!(unquoted("\"a\"b\"", '"'), None);
        assert_eq!(unquoted("\"", '"'), None);
    }

    #[test]
    fn a_temperature_is_no_time() {
        let is = |column: &str, name: &str| is_named(&Field::new(column, DataType::Float64, true), name);
        assert!(is("t", "t") && is("Time", "time") && is("FRAME", "frame"));
        assert!(!is("T", "t") && !is("times", "time"));
    }
}
