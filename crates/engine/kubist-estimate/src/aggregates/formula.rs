//! Arithmetic over sums, counts, means and proportions, such as `sum(a * b) / sum(b)`.
//!
//! The terms are functions of totals, so the delta method gives the error of the formula. Derivatives are
//! central differences over 1 % of each term's standard error. A formula that rounds has no derivative; if
//! it rounds a smooth part, the interval of this part is mapped through the rounding.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kubist_expr::{ExprError, Expression, Smoothness, Steps, never, split, unquoted};
use kubist_population::Number;

use crate::aggregate::{Accumulator, Aggregate, AggregateValue, Bound, Pilot, Properties, Records, Rows, Shift, same};
use crate::aggregates::share::NO_CONDITION;
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::sums::{Spread, Sums};

pub const COMBINED: &str = "sum, count, mean (avg) and share";

const MOST_TERMS: usize = 32;
const STEP: f64 = 1e-2;
/// The step is relative to the value; rounding dominates smaller steps.
const LEAST_STEP: f64 = 1e-7;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Records,
    Count,
    Sum,
    Mean,
}

#[derive(Clone, Copy, Debug)]
struct Term {
    kind: Kind,
    argument: usize,
}

struct Linearization {
    value: f64,
    slopes: Vec<f64>,
    /// The derivative by the number of records, if this is known.
    of_number: f64,
}

#[derive(Clone, Debug)]
enum Way {
    Slopes,
    /// Derivatives of the smooth inner part, whose interval is mapped through the outer steps.
    Through(Expression, Steps),
    Unknown,
}

#[derive(Clone, Debug)]
struct Formula {
    expression: Expression,
    interval: Way,
    schema: SchemaRef,
    terms: Vec<Term>,
    arguments: usize,
}

/// Parses a formula of aggregates; `None` if the text has no aggregate.
pub fn bind(text: &str, schema: &Schema, is_aggregate: impl Fn(&str) -> bool) -> Result<Option<Bound>, String> {
    let (mut terms, mut arguments): (Vec<Term>, Vec<Expression>) = Default::default();
    // Equal arguments are read once.
    let mut written: Vec<&str> = Vec::new();
    let (mut rest, mut names, mut at) = (String::new(), Vec::new(), 0);
    let mut calls: Vec<Replaced> = Vec::new();
    while let Some((name, inner)) = next_call(text, at, &is_aggregate)? {
        if terms.len() == MOST_TERMS {
            return Err(format!("a formula has at most {MOST_TERMS} aggregates"));
        }
        let begin = name.start;
        let call = Call {
            name: text[name].to_ascii_lowercase(),
            arguments: split(&text[inner.clone()]).ok_or("an argument is missing")?,
            schema,
        };
        let kind = kind(&call)?;
        let mut argument = 0;
        if kind != Kind::Records {
            let bound = call.expressions(1)?;
            if call.name == "share" && !bound.iter().all(Expression::is_condition) {
                return Err(NO_CONDITION.into());
            }
            argument = written.iter().position(|known| *known == call.arguments[0]).unwrap_or(written.len());
            if argument == written.len() {
                written.push(call.arguments[0]);
                arguments.extend(bound);
            }
        }
        // Makes the name unique if a call occurs twice.
        let column = format!("{} {}", &text[begin..inner.end + 1], terms.len());
        rest.push_str(&text[at..begin]);
        let quoted = format!("\"{}\"", column.replace('"', "\"\""));
        calls.push(Replaced { call: begin..inner.end + 1, place: rest.len()..rest.len() + quoted.len() });
        rest.push_str(&quoted);
        let unit = match kind {
            Kind::Sum | Kind::Mean => arguments[argument].metadata(),
            Kind::Records | Kind::Count => HashMap::new(),
        };
        names.push(Field::new(column, DataType::Float64, true).with_metadata(unit));
        terms.push(Term { kind, argument });
        at = inner.end + 1;
    }
    if terms.is_empty() {
        return Ok(None);
    }
    rest.push_str(&text[at..]);
    let of_terms = Arc::new(Schema::new(names));
    let expression =
        Expression::parse(&rest, &of_terms).map_err(|mistake| in_terms_of(text, mistake, &rest, &calls))?;
    if expression.is_condition() {
        return Err("it is a condition, but an estimate needs a number".into());
    }
    let interval = match expression.smoothness() {
        Smoothness::Smooth => Way::Slopes,
        Smoothness::Stepped(inner, steps) => Way::Through(inner, steps),
        Smoothness::Broken => Way::Unknown,
    };
    let unit = expression.unit().map(str::to_owned);
    let formula = Formula { expression, interval, schema: of_terms, terms, arguments: arguments.len() };
    Ok(Some(Bound { unit, ..Bound::new(arguments, formula) }))
}

/// A call in the text of a formula, and the name of its column in the text that is parsed; in bytes.
struct Replaced {
    call: Range<usize>,
    place: Range<usize>,
}

/// The message of a mistake in `rest`, with the calls and positions of `text`.
fn in_terms_of(text: &str, mistake: ExprError, rest: &str, calls: &[Replaced]) -> String {
    let original = |position: usize| {
        let byte = rest.char_indices().nth(position - 1).map_or(rest.len(), |(byte, _)| byte);
        let byte = match calls.iter().rev().find(|call| call.place.start <= byte) {
            Some(Replaced { call, place }) if byte < place.end => call.start,
            Some(Replaced { call, place }) => byte - place.end + call.end,
            None => byte,
        };
        text[..byte].chars().count() + 1
    };
    let mistake = match mistake {
        ExprError::Syntax { position, message } => ExprError::Syntax { position: original(position), message },
        ExprError::NoValue { after, position } => ExprError::NoValue { after, position: original(position) },
        other => other,
    };
    calls.iter().fold(mistake.to_string(), |message, Replaced { call, place }| {
        message.replace(&rest[place.clone()], &text[call.clone()])
    })
}

fn kind(call: &Call) -> Result<Kind, String> {
    match call.name.as_str() {
        "count" if call.arguments.is_empty() || call.arguments == ["*"] => Ok(Kind::Records),
        "count" => call.takes(1..=1, "nothing, * or one argument").map(|()| Kind::Count),
        "sum" => call.takes(1..=1, "one argument").map(|()| Kind::Sum),
        "mean" | "avg" | "share" => call.takes(1..=1, "one argument").map(|()| Kind::Mean),
        name => Err(format!("{name} cannot be part of a formula: only {COMBINED} can")),
    }
}

/// Returns the ranges of the name and the arguments.
fn next_call(
    text: &str,
    at: usize,
    is_aggregate: &impl Fn(&str) -> bool,
) -> Result<Option<(Range<usize>, Range<usize>)>, String> {
    let mut word: Option<Range<usize>> = None;
    let mut letters = text[at..].char_indices().map(|(index, letter)| (at + index, letter));
    while let Some((index, letter)) = letters.next() {
        let end = index + letter.len_utf8();
        word = match (letter, word) {
            ('"' | '\'' | '`', _) => {
                letters.find(|(_, next)| *next == letter);
                None
            }
            ('(', Some(name)) if is_aggregate(&text[name.clone()]) => {
                let end = closing(text, index + 1).ok_or("a parenthesis is not closed")?;
                return Ok(Some((name, index + 1..end)));
            }
            (letter, word) if letter.is_whitespace() => word,
            (letter, Some(name)) if name.end == index && is_of_word(letter) => Some(name.start..end),
            (letter, _) if letter.is_alphabetic() || letter == '_' => Some(index..end),
            _ => None,
        };
    }
    Ok(None)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '.'
}

fn closing(text: &str, begin: usize) -> Option<usize> {
    let mut depth = 1;
    unquoted(&text[begin..]).find_map(|(index, letter)| {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        (depth == 0).then_some(begin + index)
    })
}

impl Formula {
    /// There is one feature for records, then sum and number of values for each argument.
    fn width(&self) -> usize {
        1 + 2 * self.arguments
    }

    fn is_of_records(&self) -> bool {
        self.terms.iter().all(|term| term.kind == Kind::Records)
    }

    /// NaN if undefined.
    fn value(&self, at: &[f64]) -> Result<f64, ExprError> {
        let found = self.values(&self.expression, &[at.to_vec()])?;
        Ok(found.first().copied().unwrap_or(f64::NAN))
    }

    fn values(&self, of: &Expression, rows: &[Vec<f64>]) -> Result<Vec<f64>, ExprError> {
        let column = |term: usize| Arc::new(rows.iter().map(|row| row[term]).collect::<Float64Array>()) as ArrayRef;
        let columns = (0..self.terms.len()).map(column).collect();
        of.evaluate(&RecordBatch::try_new(self.schema.clone(), columns)?, &never)
    }
}

impl Aggregate for Formula {
    fn properties(&self) -> Properties {
        Properties {
            bell_curve: true,
            uses_number_of_records: true,
            follows_from_number_of_records: self.is_of_records(),
            unbounded: matches!(self.interval, Way::Unknown),
            takes_certain: true,
            ..Properties::default()
        }
    }

    fn features(&self, values: &[&[f64]], shifts: &[Shift], rows: usize) -> Option<Vec<Vec<f64>>> {
        let mut features = vec![vec![1.0; rows]];
        for (values, shift) in values.iter().zip(shifts) {
            let present = |value: &f64| !value.is_nan();
            features.push(values.iter().map(|value| if present(value) { shift.of(*value) } else { 0.0 }).collect());
            features.push(values.iter().map(|value| if present(value) { 1.0 } else { 0.0 }).collect());
        }
        Some(features)
    }

    fn accumulator(&self, pilot: &Pilot) -> Box<dyn Accumulator> {
        Box::new(Totals {
            formula: self.clone(),
            shifts: pilot.shifts.to_vec(),
            sums: Sums::new(self.width(), pilot.groups),
        })
    }
}

#[derive(Debug)]
struct Totals {
    formula: Formula,
    shifts: Vec<Shift>,
    sums: Sums,
}

impl Totals {
    fn terms(&self, sums: &Sums, conditions: &Conditions) -> Vec<Linearization> {
        let totals = sums.totals(conditions.p);
        let all = totals[0];
        // A known number turns totals into ratio estimates.
        let known = conditions.rows.filter(|_| conditions.p < 1.0 && all > 0.0);
        let by = known.map_or(1.0, |number| number.rows / all);
        let term = |term: &Term| {
            let mut slopes = vec![0.0; totals.len()];
            let (sum, present) = (1 + 2 * term.argument, 2 + 2 * term.argument);
            let Shift { by: shift, scale } = self.shifts.get(term.argument).copied().unwrap_or(Shift::NONE);
            let value = match term.kind {
                Kind::Records => {
                    slopes[0] = by;
                    conditions.rows.map_or(all, |number| number.rows)
                }
                Kind::Count => {
                    slopes[present] = by;
                    totals[present] * by
                }
                Kind::Sum => {
                    (slopes[sum], slopes[present]) = (by / scale, shift * by);
                    (totals[sum] / scale + shift * totals[present]) * by
                }
                Kind::Mean => {
                    let mean = totals[sum] / totals[present] / scale;
                    (slopes[sum], slopes[present]) = (1.0 / totals[present] / scale, -mean / totals[present]);
                    return Linearization { value: mean + shift, slopes, of_number: 0.0 };
                }
            };
            let of_number = known.map_or(0.0, |number| value / number.rows);
            if known.is_some() {
                slopes[0] -= value / all;
            }
            Linearization { value, slopes, of_number }
        };
        self.formula.terms.iter().map(term).collect()
    }

    fn interval(&self, conditions: &Conditions) -> Interval {
        let sums = &*conditions.corrected(&self.sums);
        let terms = self.terms(sums, conditions);
        let at: Vec<f64> = terms.iter().map(|term| term.value).collect();
        let formula = &self.formula;
        let value = match formula.value(&at) {
            Ok(value) if !value.is_nan() => value,
            _ => return Interval::unknown(),
        };
        let is_known = conditions.rows.is_some_and(Number::is_exact);
        if conditions.p >= 1.0 || (formula.is_of_records() && is_known) {
            return Interval::exact(value);
        }
        let unbounded = Interval { value: Some(value), ..Interval::unknown() };
        match &formula.interval {
            Way::Slopes => self.by_slopes(&formula.expression, sums, &terms, conditions).unwrap_or(unbounded),
            Way::Through(inner, steps) => {
                let around = self.by_slopes(inner, sums, &terms, conditions).unwrap_or(unbounded);
                let (low, high) = steps.image(around.low, around.high);
                Interval { value: Some(value), low: low.min(value), high: high.max(value), ..around }
            }
            Way::Unknown => unbounded,
        }
    }

    /// Uses the delta method; `None` without a value.
    fn by_slopes(
        &self,
        of: &Expression,
        sums: &Sums,
        terms: &[Linearization],
        conditions: &Conditions,
    ) -> Option<Interval> {
        let at: Vec<f64> = terms.iter().map(|term| term.value).collect();
        let error_of_number = conditions.rows.map_or(0.0, |number| number.error);
        let step = |term: &Linearization| {
            let spread = sums.spread(conditions.p, &term.slopes).with_number(term.of_number * error_of_number);
            (STEP * spread.whole().0).max(LEAST_STEP * term.value.abs())
        };
        let steps: Vec<f64> = terms.iter().map(step).collect();
        let mut rows = vec![at.clone()];
        for (term, step) in steps.iter().enumerate() {
            for away in [-step, *step] {
                let mut row = at.clone();
                row[term] += away;
                rows.push(row);
            }
        }
        let found = self.formula.values(of, &rows).ok()?;
        let value = found[0];
        if value.is_nan() {
            return None;
        }
        let (mut slopes, mut of_number) = (vec![0.0; self.formula.width()], 0.0);
        for (term, told) in terms.iter().enumerate() {
            let slope = match steps[term] > 0.0 {
                true => (found[2 + 2 * term] - found[1 + 2 * term]) / (2.0 * steps[term]),
                false => 0.0,
            };
            slopes.iter_mut().zip(&told.slopes).for_each(|(all, of_total)| *all += slope * of_total);
            of_number += slope * told.of_number;
        }
        let spread = match slopes.iter().all(|slope| slope.is_finite()) {
            true => sums.spread(conditions.p, &slopes).with_number(of_number * error_of_number),
            false => Spread { error: f64::NAN, identities: f64::INFINITY, ..Spread::default() },
        };
        let interval = Interval::around(value, spread, conditions);
        // Only a function of the number of records alone is bounded by a constant sample.
        let is_known = self.formula.is_of_records() && conditions.rows.is_some();
        let constant = interval.constant && !is_known;
        Some(match constant {
            true => Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, ..interval },
            false => Interval { constant, ..interval },
        })
    }
}

impl Accumulator for Totals {
    fn add(&mut self, records: &Records, rows: Rows, priorities: Option<&[u64]>) {
        let priorities = priorities.expect("records of the certainty stratum come as totals");
        self.sums.add(&records.features, rows, priorities);
    }

    fn add_totals(&mut self, totals: &[f64]) {
        self.sums.add_totals(totals);
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        self.sums.merge(same::<Totals>(other).sums);
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(Totals { formula: self.formula.clone(), shifts: self.shifts.clone(), sums: self.sums.hollow() })
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        AggregateValue::new(self.interval(conditions), self.sums.records())
    }

    fn remark(&self, conditions: &Conditions) -> Option<String> {
        let at: Vec<f64> = self.terms(&self.sums, conditions).iter().map(|term| term.value).collect();
        self.formula.value(&at).err().map(|mistake| mistake.to_string())
    }

    fn numbers(&self) -> usize {
        self.sums.numbers()
    }
}
