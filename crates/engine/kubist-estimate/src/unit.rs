//! The unit of a figure, derived from the units of its columns: metres times metres are `m^2`.

use kubist_expr::Expression;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitRule {
    #[default]
    Plain,
    First,
    Square,
    Product,
    Quotient,
}

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

fn factor(unit: &str) -> String {
    match unit.chars().all(char::is_alphabetic) {
        true => unit.into(),
        false => format!("({unit})"),
    }
}
