//! The unit of a figure, from the units of the columns that it is of.
//!
//! An expression has the unit that its columns make: metres times metres are `m^2`.

use kubist_expr::Expression;

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

/// In which unit an aggregate of these arguments is.
pub fn of(rule: UnitRule, arguments: &[Expression]) -> Option<String> {
    let unit = |argument: usize| arguments.get(argument)?.unit().map(str::to_owned);
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
