//! Computed result columns and their names.

use crate::error::ExprError;
use crate::expression::Expression;
use crate::grouping::Grouping;
use crate::lex::{Token, tokens};
use crate::types::HUGE;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Schema};
use std::sync::Arc;

/// Returns the expression and the name in `expression AS name`, if the text gives one.
pub fn named(text: &str) -> (&str, Option<String>) {
    let tokens = tokens(text).unwrap_or_default();
    let depth = tokens.iter().fold(0, |depth, (token, _)| match token {
        Token::Symbol("(") => depth + 1,
        Token::Symbol(")") => depth - 1,
        _ => depth,
    });
    match tokens.as_slice() {
        [_, .., (Token::Word(word), at), (Token::Word(name) | Token::Quoted(name), _), (Token::End, _)]
            if depth == 0 && word.eq_ignore_ascii_case("as") =>
        {
            (text[..*at].trim(), Some(name.clone()))
        }
        _ => (text.trim(), None),
    }
}

#[derive(Clone, Debug)]
pub struct Output {
    values: Grouping,
    data_type: DataType,
    unit: Option<String>,
}

impl Output {
    /// # Errors
    ///
    /// [`ExprError`] names the mistake, or the column that does not fit.
    pub fn parse(sql: &str, schema: &Schema) -> Result<Output, ExprError> {
        let values = Grouping::parse(sql, schema)?;
        let data_type = match values.data_type() {
            _ if values.is_plain_integer() => DataType::Int64,
            DataType::Utf8View => DataType::Utf8,
            other => other.clone(),
        };
        let unit = Expression::parse(sql, schema).ok().and_then(|number| number.unit().map(str::to_owned));
        Ok(Output { values, data_type, unit })
    }

    /// The type of the column or cast, or 64 bits for other computed integers.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub fn unit(&self) -> Option<&str> {
        self.unit.as_deref()
    }

    pub fn columns(&self) -> Vec<usize> {
        self.values.columns()
    }

    pub fn column(&self) -> Option<usize> {
        self.values.column()
    }

    /// Returns one value per row, as [`Grouping::evaluate`] computes it, in the type of the column.
    ///
    /// # Errors
    ///
    /// The errors of [`Grouping::evaluate`]; [`ExprError::Overflow`] also for an integer beyond 64 bits.
    pub fn evaluate(&self, batch: &RecordBatch, stopped: &dyn Fn() -> bool) -> Result<ArrayRef, ExprError> {
        let values = self.values.evaluate(batch, stopped)?;
        match (&self.data_type, values.data_type()) {
            (DataType::Int64, found) if *found == HUGE => in_64_bits(values.as_ref()),
            (DataType::Utf8, DataType::Utf8View) => plain_text(values.as_ref()),
            _ => Ok(values),
        }
    }
}

fn in_64_bits(values: &dyn Array) -> Result<ArrayRef, ExprError> {
    let short = |value: i128| {
        i64::try_from(value).map_err(|_| ExprError::Overflow {
            message: format!("{value} does not fit 64 bits; CAST(... AS int128) returns larger integers"),
        })
    };
    let values = values.as_primitive::<Decimal128Type>().iter().map(|value| value.map(short).transpose());
    Ok(Arc::new(values.collect::<Result<Int64Array, ExprError>>()?))
}

fn plain_text(values: &dyn Array) -> Result<ArrayRef, ExprError> {
    let values = values.as_string_view();
    let bytes: usize = values.iter().flatten().map(str::len).sum();
    if i32::try_from(bytes).is_err() {
        return Err(ExprError::TooLarge { limit: "2 GiB of computed text in one batch".into() });
    }
    Ok(Arc::new(values.iter().collect::<StringArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, UInt64Array};
    use arrow_schema::Field;
    use std::collections::HashMap;

    fn rows() -> RecordBatch {
        let metre = HashMap::from([("unit".to_owned(), "m".to_owned())]);
        let schema = Schema::new(vec![
            Field::new("x", DataType::Float32, true).with_metadata(metre),
            Field::new("id", DataType::UInt64, true),
            Field::new("name", DataType::Utf8, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Float32Array::from(vec![Some(1.5), None])),
            Arc::new(UInt64Array::from(vec![7, u64::MAX])),
            Arc::new(StringArray::from(vec![Some("a"), None])),
        ];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    fn values(sql: &str) -> Result<ArrayRef, ExprError> {
        let batch = rows();
        let output = Output::parse(sql, &batch.schema())?;
        let values = output.evaluate(&batch, &|| false)?;
        assert_eq!(values.data_type(), output.data_type(), "{sql}");
        Ok(values)
    }

    #[test]
    fn a_name_follows_as() {
        let is = |text, expression, name: Option<&str>| assert_eq!(named(text), (expression, name.map(str::to_owned)));
        is("sqrt(x) AS speed", "sqrt(x)", Some("speed"));
        is(" x as \"a \"\"b\"\"\" ", "x", Some("a \"b\""));
        is("CAST(x AS int32)", "CAST(x AS int32)", None);
        is("CAST(x AS int32) as n", "CAST(x AS int32)", Some("n"));
        is("mean(x as m", "mean(x as m", None);
        is("as", "as", None);
        is("'x as y'", "'x as y'", None);
    }

    #[test]
    fn values_have_the_type_of_the_column() {
        assert_eq!(values("id % 10").unwrap().as_ref(), &Int64Array::from(vec![7, 5]) as &dyn Array);
        assert_eq!(values("x * 2").unwrap().as_ref(), &Float32Array::from(vec![Some(3.0), None]) as &dyn Array);
        let upper = StringArray::from(vec![Some("A"), None]);
        assert_eq!(values("upper(name)").unwrap().as_ref(), &upper as &dyn Array);
        assert_eq!(values("x > 1").unwrap().data_type(), &DataType::Boolean);
        assert_eq!(values("CAST(id AS int128)").unwrap().data_type(), &HUGE);
        let message = values("id + 1").unwrap_err().to_string();
        assert!(message.contains("18446744073709551616 does not fit 64 bits"), "{message}");
    }

    #[test]
    fn numbers_keep_their_unit() {
        let schema = rows().schema();
        let unit = |sql| Output::parse(sql, &schema).unwrap().unit().map(str::to_owned);
        assert_eq!(unit("abs(x)").as_deref(), Some("m"));
        assert_eq!((unit("upper(name)"), unit("x * 1e6")), (None, None));
    }
}
