//! Minimum and maximum. A sample bounds each on one side only; zone maps find the exact value.

use arrow_buffer::i256;

use kubist_population::seek::Extremum;

use crate::aggregate::{
    Accumulator, Aggregate, AggregateValue, Bound, Definition, Pilot, Properties, Records, Rows, same,
};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::own::{self, unit};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "min, max",
    documented: [
        "`min(x)`, `max(x)`",
        "",
        "exact, from the manifest and a few runs; with a `group_by`, or if time runs out, the sample bounds one side only",
    ],
    is_named: |name| matches!(name, "min" | "max"),
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        let extremum = if call.name == "min" { Extremum::Minimum } else { Extremum::Maximum };
        let arguments = call.expressions(1)?;
        let own = arguments[0].whole_type().map(own::of);
        let divisor = own.as_ref().map_or(1.0, unit);
        let bound = Bound::new(arguments, Extreme { extremum, divisor, seen: None, whole: None });
        Ok(match own {
            Some(own) if own::is_narrow(&own) => bound.of_wholes(own),
            Some(own) => bound.exact_in(own),
            None => bound,
        })
    },
};

#[derive(Clone, Debug)]
struct Extreme {
    extremum: Extremum,
    /// Number of units in 1; converts integers to values.
    divisor: f64,
    seen: Option<f64>,
    /// Used instead of `seen` for integer types.
    whole: Option<i128>,
}

impl Extreme {
    fn put(&mut self, value: f64) {
        let other = self.seen.unwrap_or(value);
        self.seen = Some(match self.extremum {
            Extremum::Minimum => other.min(value),
            Extremum::Maximum => other.max(value),
        });
    }

    fn put_whole(&mut self, value: i128) {
        let other = self.whole.unwrap_or(value);
        self.whole = Some(match self.extremum {
            Extremum::Minimum => other.min(value),
            Extremum::Maximum => other.max(value),
        });
    }
}

impl Aggregate for Extreme {
    fn properties(&self) -> Properties {
        Properties {
            lies_among_values: true,
            extremum: Some(self.extremum),
            unit: UnitRule::First,
            ..Properties::default()
        }
    }

    fn accumulator(&self, _pilot: &Pilot) -> Box<dyn Accumulator> {
        self.hollow()
    }
}

impl Accumulator for Extreme {
    fn add(&mut self, records: &Records, rows: Rows, _priorities: Option<&[u64]>) {
        if let Some(wholes) = records.wholes {
            return rows.filter_map(|row| wholes.get(row)).for_each(|value| self.put_whole(value));
        }
        rows.map(|row| records.features[0][row]).filter(|value| !value.is_nan()).for_each(|value| self.put(value));
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        let other = same::<Extreme>(other);
        other.seen.into_iter().for_each(|value| self.put(value));
        other.whole.into_iter().for_each(|value| self.put_whole(value));
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(Extreme { seen: None, whole: None, ..*self })
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<AggregateValue> {
        let seen = self.seen.or(self.whole.map(|whole| whole as f64 / self.divisor));
        let found = match (seen, self.extremum) {
            (None, _) => Interval::unknown(),
            (Some(value), _) if conditions.p >= 1.0 => Interval::exact(value),
            (Some(value), Extremum::Minimum) => Interval { low: f64::NEG_INFINITY, ..Interval::exact(value) },
            (Some(value), Extremum::Maximum) => Interval { high: f64::INFINITY, ..Interval::exact(value) },
        };
        let Some(whole) = self.whole.map(i256::from_i128) else { return AggregateValue::new(found, 0.0) };
        let end = |end: f64| end.is_finite().then_some(whole);
        AggregateValue::exactly(found, [Some(whole), end(found.low), end(found.high)], 0.0)
    }
}
