//! `INTERVAL 3 DAY` and `EXTRACT(HOUR FROM t)`.

use super::{Parsed, Parser, Tree, call, leaf};
use crate::lex::Token;
use crate::number::{Decimal, Number};
use crate::syntax::Syntax;
use crate::value::Literal;

impl Parser<'_> {
    /// Parses the number and unit of `INTERVAL 3 DAY`, `INTERVAL '3 days'` or `INTERVAL '3' DAY`, which
    /// `negative` subtracts.
    pub(super) fn interval(&mut self, mut negative: bool) -> Parsed<Option<[Tree; 2]>> {
        let signed = matches!(self.ahead(1), Token::Symbol("-"));
        let is_interval = match self.ahead(1 + usize::from(signed)) {
            Token::Number(_) => true,
            Token::Text(_) => !signed,
            _ => false,
        };
        if !self.is_word(0, "INTERVAL") || !is_interval {
            return Ok(None);
        }
        self.next += 1 + usize::from(signed);
        negative ^= signed;
        let expected = "INTERVAL expects a number and a unit, as in INTERVAL 3 DAY or INTERVAL '3 days'";
        let (count, unit) = match self.peek() {
            Token::Number(number) => (Some(number.clone()), String::new()),
            Token::Text(text) => {
                let text = text.trim();
                let (count, unit) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                let digits = count.strip_prefix('-');
                negative ^= digits.is_some();
                (Decimal::parse(digits.unwrap_or(count)), unit.trim().to_owned())
            }
            _ => (None, String::new()),
        };
        let Some(count) = count else { return Err(self.here(expected)) };
        self.next += 1;
        let unit = match self.peek() {
            Token::Word(word) if unit.is_empty() => {
                let word = word.clone();
                self.next += 1;
                word
            }
            _ if unit.is_empty() => return Err(self.here(expected)),
            _ => unit,
        };
        let count = if negative { Number::Finite(count).negated() } else { Number::Finite(count) };
        Ok(Some([leaf(Syntax::Literal(Literal::Number(count))), leaf(Syntax::Literal(Literal::Text(unit.into())))]))
    }

    pub(super) fn extract(&mut self) -> Parsed {
        self.next += 1;
        self.expect("(")?;
        let part = match self.peek() {
            Token::Word(word) => word.as_str().into(),
            Token::Text(text) => text.clone(),
            _ => return Err(self.unexpected_but("EXTRACT expects a part of a time, as in EXTRACT(HOUR FROM t), ")),
        };
        self.next += 1;
        if !self.skip_word("FROM") {
            return Err(self.unexpected_but("EXTRACT expects FROM, "));
        }
        let operand = self.deeper(Self::disjunction)?;
        self.expect(")")?;
        call("date_part", vec![leaf(Syntax::Literal(Literal::Text(part))), operand])
    }
}
