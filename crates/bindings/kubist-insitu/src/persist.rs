//! The condition that decides whether a step is kept, on aggregates of all its records: `max(diameter) > 5e-5
//! AND count(deposited) >= 10`. All writers get the same result, because shares combine their maxima and
//! counts.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use kubist_expr::{Expression, Predicate, never};

use crate::failure::{Failure, Result};

pub const MOST: usize = 8;

#[derive(Debug)]
pub struct Persist {
    text: String,
    numbers: Vec<Number>,
    condition: Predicate,
    schema: Arc<Schema>,
}

#[derive(Debug)]
struct Number {
    what: What,
    /// `None` counts all records.
    of: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Max,
    Min,
    Count,
}

const NAMES: [(&str, What); 3] = [("max", What::Max), ("min", What::Min), ("count", What::Count)];

impl Persist {
    /// # Errors
    ///
    /// `Invalid` names the wrong part.
    pub fn new(text: &str, schema: &Schema) -> Result<Persist> {
        let wrong = |why: String| Failure::invalid(format!("persist_when {text:?}: {why}"));
        let (numbers, rest) = numbers(text).map_err(wrong)?;
        if numbers.is_empty() || numbers.len() > MOST {
            let found = numbers.len();
            return Err(wrong(format!(
                "it uses {found} aggregates, but must use 1 to {MOST} of max(x), min(x), count(), count(x)"
            )));
        }
        let mut fields = Vec::with_capacity(numbers.len());
        for (place, number) in numbers.iter().enumerate() {
            let mut field = Field::new(name(place), DataType::Float64, true);
            if let Some(of) = &number.of {
                let of = Expression::parse(of, schema).map_err(|error| wrong(error.to_string()))?;
                if number.what != What::Count {
                    field = field.with_metadata(of.metadata());
                }
            }
            fields.push(field);
        }
        let schema = Arc::new(Schema::new(fields));
        let condition = Predicate::parse(&rest, &schema).map_err(|error| wrong(error.to_string()))?;
        Ok(Persist { text: text.into(), numbers, condition, schema })
    }

    /// Adds records to `counts` and `largest`, which has minima as maxima of negated values.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn add(&self, batch: &RecordBatch, counts: &mut [u64], largest: &mut [f64]) -> Result<()> {
        for (place, Number { what, of }) in self.numbers.iter().enumerate() {
            let Some(of) = of else {
                counts[place] += batch.num_rows() as u64;
                continue;
            };
            let values = Expression::parse(of, &batch.schema()).and_then(|of| of.evaluate(batch, &never));
            let wrong = |error| Failure::invalid(format!("persist_when {:?}: {error}", self.text));
            let values = values.map_err(wrong)?;
            let is_condition = Expression::parse(of, &batch.schema()).is_ok_and(|of| of.is_condition());
            let there = values.iter().filter(|value| !value.is_nan());
            match what {
                What::Count => counts[place] += there.filter(|value| !is_condition || **value != 0.0).count() as u64,
                What::Max => largest[place] = there.fold(largest[place], |most, value| most.max(*value)),
                What::Min => largest[place] = there.fold(largest[place], |most, value| most.max(-value)),
            }
        }
        Ok(())
    }

    /// False if an aggregate has no value.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn holds(&self, counts: &[u64], largest: &[f64]) -> Result<bool> {
        let number = |(place, number): (usize, &Number)| match number.what {
            What::Count => Some(counts[place] as f64),
            _ if largest[place] == f64::NEG_INFINITY => None,
            What::Max => Some(largest[place]),
            What::Min => Some(-largest[place]),
        };
        let column = |place: usize| {
            let value = number((place, &self.numbers[place]));
            Arc::new(Float64Array::from(vec![value])) as _
        };
        let columns = (0..self.numbers.len()).map(column).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        let batch = batch.map_err(|error| Failure::from(kubist::Error::internal(error)))?;
        let held = self.condition.evaluate(&batch, &never);
        let held = held.map_err(|error| Failure::invalid(format!("persist_when {:?}: {error}", self.text)))?;
        Ok(held.iter().next().flatten().unwrap_or(false))
    }
}

fn name(number: usize) -> String {
    format!("number_{number}")
}

fn numbers(text: &str) -> std::result::Result<(Vec<Number>, String), String> {
    let (mut found, mut rest, mut left) = (Vec::new(), String::new(), text);
    while let Some(open) = left.find('(') {
        let before = left[..open].trim_end();
        let mut letters = before.char_indices().rev();
        let other = letters.find(|(_, letter)| !letter.is_ascii_alphanumeric() && *letter != '_');
        let word = other.map_or(0, |(place, letter)| place + letter.len_utf8());
        let what = NAMES.iter().find(|(name, _)| before[word..].eq_ignore_ascii_case(name));
        let Some((_, what)) = what else {
            rest.push_str(&left[..=open]);
            left = &left[open + 1..];
            continue;
        };
        let inside = &left[open + 1..];
        let close = closing(inside).ok_or("a parenthesis is not closed")?;
        let of = inside[..close].trim();
        if of.is_empty() && *what != What::Count {
            return Err(format!("{} of what?", &before[word..]));
        }
        rest.push_str(&before[..word]);
        rest.push_str(&name(found.len()));
        found.push(Number { what: *what, of: Some(of).filter(|of| !matches!(*of, "" | "*")).map(str::to_owned) });
        left = &inside[close + 1..];
    }
    rest.push_str(left);
    Ok((found, rest))
}

fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0u32, None);
    for (place, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(place),
            (None, ')') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, BooleanArray};

    fn batch() -> RecordBatch {
        let d: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN, -3.0]));
        let hot: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
        RecordBatch::try_from_iter([("d", d), ("hot", hot)]).unwrap()
    }

    fn holds(text: &str, batches: &[RecordBatch]) -> bool {
        let persist = Persist::new(text, &batch().schema()).unwrap();
        let (mut counts, mut largest) = (vec![0; MOST], vec![f64::NEG_INFINITY; MOST]);
        batches.iter().for_each(|batch| persist.add(batch, &mut counts, &mut largest).unwrap());
        persist.holds(&counts, &largest).unwrap()
    }

    #[test]
    fn numbers_of_all_records_decide() {
        for text in [
            "max(d) > 0.5",
            "min(d) = -3",
            "count() = 3",
            "count(d) = 2",
            "count(hot) = 2",
            "MAX(d*d) = 9 and (count(*) > 2)",
        ] {
            assert!(holds(text, &[batch()]), "{text}");
        }
        for text in ["max(d) > 1", "min(d) > -3", "count(d > 100) > 0"] {
            assert!(!holds(text, &[batch()]), "{text}");
        }
        assert!(holds("count() = 6", &[batch(), batch()]));
        // Minima and maxima of no records are unknown.
        assert!(!holds("max(d) > -1e300", &[]) && !holds("max(d) <= 1e300", &[]) && holds("count() = 0", &[]));
    }

    #[test]
    fn what_is_no_such_condition_is_refused() {
        for (text, word) in [
            ("d > 5", "max(x)"),
            ("max(d > 5", "not closed"),
            ("max() > 1", "of what"),
            ("max(nothing) > 1", "nothing"),
            ("max(d) + 1", "persist_when"),
            ("mean(d) > 1", "max(x)"),
            ("max(d) ≥ (5e-5)", "persist_when"),
        ] {
            let failure = Persist::new(text, &batch().schema()).unwrap_err();
            assert!(failure.message.contains(word), "{text}: {failure}");
        }
    }
}
