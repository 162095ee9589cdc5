//! The columns that a condition compares with constants.

use std::collections::BTreeSet;

use crate::error::ExprError;
use crate::parse::parse;
use crate::syntax::{Op, Syntax};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub ranges: BTreeSet<String>,
    pub values: BTreeSet<String>,
}

impl Limits {
    /// Returns the columns that `=`, `IN`, `<`, `<=`, `>`, `>=` and `BETWEEN` limit directly, outside of
    /// computations.
    ///
    /// # Errors
    ///
    /// Fails if the text is no expression.
    pub fn of(condition: &str) -> Result<Limits, ExprError> {
        let mut limits = Limits::default();
        limits.add(&parse(condition)?);
        Ok(limits)
    }

    fn add(&mut self, syntax: &Syntax) {
        match syntax {
            Syntax::And(all) | Syntax::Or(all) => all.iter().for_each(|one| self.add(one)),
            Syntax::Not(one) => self.add(one),
            Syntax::Compare { op, left, right } => {
                let into = match op {
                    Op::Eq => &mut self.values,
                    Op::Lt | Op::Le | Op::Gt | Op::Ge => &mut self.ranges,
                    Op::Ne => return,
                };
                into.extend([left, right].into_iter().filter_map(|side| column(side)));
            }
            Syntax::Between { operand, .. } => self.ranges.extend(column(operand)),
            Syntax::In { operand, .. } => self.values.extend(column(operand)),
            _ => {}
        }
    }
}

fn column(syntax: &Syntax) -> Option<String> {
    match syntax {
        Syntax::Column { name, .. } => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_conditions_are_found() {
        let condition =
            "\"a\" = 3 and b <> 4 and (c <= 2 or d between 1 and 2) and e in (1, 2) and not (5 > f) and sqrt(g) < 2";
        let names = |text: &str| text.split(' ').map(str::to_string).collect();
        let limits = Limits::of(condition).expect("it is a condition");
        assert_eq!(limits, Limits { ranges: names("c d f"), values: names("a e") });
        assert!(Limits::of("a =").is_err());
    }
}
