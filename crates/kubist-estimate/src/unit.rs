//! The unit of a figure, from the units of the columns that it is of.
//!
//! Columns alone have a unit that is known; of what an expression makes of them nothing is said.

use arrow_schema::Schema;
use kubist_expr::Expression;
use kubist_types::metadata::UNIT;

/// How the unit of an aggregate follows from those of its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitRule {
    /// It is a number without one: a count, a share, a correlation.
    #[default]
    Plain,
    /// That of the first argument.
    First,
    /// The square of the first argument's.
    Square,
    /// The product of both.
    Product,
    /// The first over the second.
    Quotient,
}

/// In which unit an aggregate of these arguments is; `visible` are the columns that they are
/// bound to.
pub fn of(rule: UnitRule, arguments: &[Expression], visible: &Schema) -> Option<String> {
    let unit = |argument: usize| {
        let column = arguments.get(argument)?.column()?;
        visible.fields().get(column)?.metadata().get(UNIT).cloned()
    };
    match rule {
        UnitRule::Plain => None,
        UnitRule::First => unit(0),
        UnitRule::Square => unit(0).map(|unit| squared(&unit)),
        UnitRule::Product => match (unit(0)?, unit(1)?) {
            (first, second) if first == second => Some(squared(&first)),
            (first, second) => Some(format!("{} {}", factor(&first), factor(&second))),
        },
        UnitRule::Quotient => match (unit(0)?, unit(1)?) {
            (first, second) if first == second => None,
            (first, second) => Some(format!("{}/{}", factor(&first), factor(&second))),
        },
    }
}

fn squared(unit: &str) -> String {
    format!("{}^2", factor(unit))
}

/// A unit that other signs may follow: one of several parts is put into parentheses.
fn factor(unit: &str) -> String {
    match unit.chars().all(char::is_alphabetic) {
        true => unit.into(),
        false => format!("({unit})"),
    }
}
