//! The smallest and the largest value. A sample bounds them on one side only; zone maps say
//! where to look for them.

use crate::aggregate::{Accumulator, Aggregate, Bound, Definition, End, Found, Pilot, Properties, Records, Rows, same};
use crate::call::Call;
use crate::interval::{Conditions, Interval};
use crate::unit::UnitRule;

pub const DEFINITION: Definition = Definition {
    listed: "min, max",
    documented: [
        "`min(x)`, `max(x)`",
        "",
        "exact: zone maps say where to look; with a `group_by`, or without time, what the sample saw is one end",
    ],
    is_named: |name| matches!(name, "min" | "max"),
    bind: |call: &Call| {
        call.takes(1..=1, "one argument")?;
        let end = if call.name == "min" { End::Least } else { End::Most };
        Ok(Bound::new(call.expressions(1)?, Extreme { end, seen: None }))
    },
};

/// The aggregate, and its accumulator.
#[derive(Clone, Debug)]
struct Extreme {
    end: End,
    seen: Option<f64>,
}

impl Extreme {
    fn put(&mut self, value: f64) {
        let other = self.seen.unwrap_or(value);
        self.seen = Some(match self.end {
            End::Least => other.min(value),
            End::Most => other.max(value),
        });
    }
}

impl Aggregate for Extreme {
    fn properties(&self) -> Properties {
        Properties { lies_among_values: true, end: Some(self.end), unit: UnitRule::First, ..Properties::default() }
    }

    fn accumulator(&self, _pilot: &Pilot) -> Box<dyn Accumulator> {
        self.hollow()
    }
}

impl Accumulator for Extreme {
    fn add(&mut self, records: &Records, rows: Rows, _priorities: Option<&[u64]>) {
        // NaN is neither.
        rows.map(|row| records.features[0][row]).filter(|value| !value.is_nan()).for_each(|value| self.put(value));
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) {
        if let Some(value) = same::<Extreme>(other).seen {
            self.put(value);
        }
    }

    fn hollow(&self) -> Box<dyn Accumulator> {
        Box::new(Extreme { end: self.end, seen: None })
    }

    fn figures(&mut self, conditions: &Conditions) -> Vec<Found> {
        let found = match (self.seen, self.end) {
            (None, _) => Interval::unknown(),
            (Some(value), _) if conditions.p >= 1.0 => Interval::exact(value),
            (Some(value), End::Least) => Interval { low: f64::NEG_INFINITY, ..Interval::exact(value) },
            (Some(value), End::Most) => Interval { high: f64::INFINITY, ..Interval::exact(value) },
        };
        Found::new(found, 0.0)
    }
}
