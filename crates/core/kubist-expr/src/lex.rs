//! The lexer. Unsupported symbols are tokens too, so that the parser can name them.

use crate::error::{ExprError, shortened};
use crate::number::Decimal;
use crate::unit::Quantity;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    Quoted(String),
    Number(Decimal),
    /// A number with a unit, without a space between them.
    Quantity(Quantity),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Symbol(&'static str),
    End,
}

/// Sorted by length: the first match is the longest.
const SYMBOLS: &[&str] = &[
    "->>", "<=>", "!~*", "==", "=", "<>", "!=", "<=", ">=", "||", "::", "->", "&&", "!~", "~*", "<<", ">>", "<", ">",
    "+", "-", "*", "/", "%", "^", "(", ")", ",", ".", "~", "&", "|", "!", "[", "]", "{", "}", ":", ";", "?", "@", "#",
    "$",
];

/// Limit of digits in a number, more than any double or decimal needs. It bounds the conversion time of each comparison
/// with a column.
const MOST_DIGITS: usize = 1100;

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// Returns each token with its position in bytes.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, ExprError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.take_while(char::is_whitespace);
        let start = lexer.at;
        let token = lexer.token()?;
        let end = token == Token::End;
        tokens.push((token, start));
        if end {
            return Ok(tokens);
        }
    }
}

pub(crate) fn mistake(text: &str, at: usize, message: impl Into<String>) -> ExprError {
    let position = text.char_indices().take_while(|(index, _)| *index < at).count() + 1;
    ExprError::Syntax { position, message: message.into() }
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn token(&mut self) -> Result<Token, ExprError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if rest.starts_with("--") || rest.starts_with("/*") {
            return Err(ExprError::unsupported("a comment"));
        }
        let after = rest[first.len_utf8()..].chars().next();
        match first {
            '\'' => Ok(Token::Text(self.quoted('\'')?.into())),
            '"' | '`' => Ok(Token::Quoted(self.quoted(first)?)),
            '0'..='9' => self.number(),
            '.' if after.is_some_and(|c| c.is_ascii_digit()) => self.number(),
            _ if first.is_alphabetic() || first == '_' => self.word(),
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Ok(Token::Symbol(symbol))
                }
                None => Err(mistake(self.text, self.at, format!("unexpected character {first:?}"))),
            },
        }
    }

    fn word(&mut self) -> Result<Token, ExprError> {
        let start = self.at;
        let word = self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '$');
        if !self.rest().starts_with('\'') {
            return Ok(Token::Word(word.to_owned()));
        }
        match word {
            "x" | "X" => {
                let digits = self.quoted('\'')?;
                let bytes = hex(&digits)
                    .ok_or_else(|| mistake(self.text, start, "X'...' takes an even number of hexadecimal digits"))?;
                Ok(Token::Bytes(bytes.into()))
            }
            "e" | "E" | "n" | "N" | "b" | "B" | "r" | "R" | "u" | "U" => {
                Err(ExprError::unsupported(format!("the literal {word}'...'")))
            }
            _ => Ok(Token::Word(word.to_owned())),
        }
    }

    fn number(&mut self) -> Result<Token, ExprError> {
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit() || c == '.');
        let mark = self.at;
        if self.take_while(|c| c == 'e' || c == 'E').len() == 1 {
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            self.take_while(|c| c.is_ascii_digit());
        } else {
            self.at = mark;
        }
        // Letters directly after a number are its unit or a mistake, never a second word.
        self.take_while(|c| c.is_alphanumeric() || "_.°".contains(c));
        let text = &self.text[start..self.at];
        if let Some(date) = date_without_quotes(text, self.rest()) {
            let why = format!("{date} is a difference of numbers: a date is in quotes, '{date}'");
            return Err(mistake(self.text, start, why));
        }
        let Some(number) = Decimal::parse(text) else {
            // A unit consists of letters; an `e` may begin an exponent.
            let is_unit = |unit: &str| !unit.contains(|c: char| "_.".contains(c) || c.is_ascii_digit());
            let is_glued = |unit: &str| is_unit(unit) && !["e", "E"].contains(&unit);
            return match Quantity::parse(text).filter(|quantity| is_glued(&quantity.unit)) {
                Some(quantity) => Ok(Token::Quantity(quantity)),
                None => Err(mistake(self.text, start, format!("`{}` is not a number", shortened(text)))),
            };
        };
        if number.digits() > MOST_DIGITS {
            return Err(mistake(self.text, start, format!("a number of more than {MOST_DIGITS} digits")));
        }
        Ok(Token::Number(number))
    }

    fn quoted(&mut self, quote: char) -> Result<String, ExprError> {
        let start = self.at;
        let mut content = String::new();
        self.at += 1;
        loop {
            content.push_str(self.take_while(|c| c != quote));
            if self.rest().is_empty() {
                return Err(mistake(self.text, start, format!("the {quote} that opens here is never closed")));
            }
            self.at += 1;
            if !self.rest().starts_with(quote) {
                return Ok(content);
            }
            self.at += 1;
            content.push(quote);
        }
    }
}

fn date_without_quotes(number: &str, rest: &str) -> Option<String> {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (month, day) = (rest.get(..3)?.strip_prefix('-')?, rest.get(3..6)?.strip_prefix('-')?);
    let is_date = digits(number, 4) && digits(month, 2) && digits(day, 2);
    let ends = !rest[6..].starts_with(|next: char| next.is_alphanumeric() || "_.".contains(next));
    (is_date && ends).then(|| format!("{number}-{month}-{day}"))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) || digits.len() % 2 == 1 {
        return None;
    }
    digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
