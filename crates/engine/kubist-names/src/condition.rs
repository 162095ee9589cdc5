//! Conditions on entries: `Re > 2000 and tag = "final"`.
//!
//! The operators mean the same as in conditions on rows (Kleene's logic: a comparison with a missing property is
//! unknown, and so is its negation). The grammar is separate, because a text may be in double quotes, and because a
//! property may have several values: a test is true if one value satisfies it.

use std::iter::Peekable;
use std::str::CharIndices;

use kubist_types::{Error, Result};

use crate::entry::Scalar;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Compare {
        name: String,
        op: Op,
        value: Scalar,
    },
    In {
        name: String,
        values: Vec<Scalar>,
    },
    /// `%` stands for any characters, `_` for one.
    Like {
        name: String,
        pattern: Vec<char>,
        ignore_case: bool,
    },
    IsNull(String),
    Not(Box<Test>),
    And(Vec<Test>),
    Or(Vec<Test>),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name or keyword; quoted names are no keywords.
    Word(String),
    Quoted(String),
    Value(Scalar),
    Sign(&'static str),
}

const DEEPEST: usize = 64;
const LONGEST: usize = 64 << 10;

/// # Errors
///
/// `Invalid` names the character.
pub(crate) fn parse(text: &str) -> Result<Test> {
    if text.len() > LONGEST {
        return Err(Error::invalid(format!("the condition is longer than {LONGEST} bytes")));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, at: 0, end: text.chars().count() + 1 };
    let test = parser.any(0)?;
    match parser.at == parser.tokens.len() {
        true => Ok(test),
        false => Err(parser.wrong("expected `and`, `or` or the end")),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some(&(byte, c)) = chars.peek() {
        let position = text[..byte].chars().count() + 1;
        let wrong = |what: &str| Error::invalid(format!("at character {position} of the condition: {what}"));
        if c.is_whitespace() {
            chars.next();
            continue;
        }
        let token = match c {
            '\'' | '"' => Token::Value(Scalar::Text(quoted(&mut chars).ok_or_else(|| wrong("the text has no end"))?)),
            '`' => Token::Quoted(quoted(&mut chars).ok_or_else(|| wrong("the name has no end"))?),
            c if c.is_ascii_digit() || "+-.".contains(c) => {
                let mut before = ' ';
                let number = taken(&mut chars, |c| {
                    let goes_on = c.is_ascii_alphanumeric() || c == '.' || ("+-".contains(c) && " eE".contains(before));
                    before = c;
                    goes_on
                });
                match number.parse::<f64>() {
                    Ok(value) if value.is_finite() => Token::Value(Scalar::Number(value)),
                    _ => return Err(wrong(&format!("{number:?} is no number"))),
                }
            }
            c if c.is_alphabetic() || c == '_' => {
                Token::Word(taken(&mut chars, |c| c.is_alphanumeric() || "_.".contains(c)))
            }
            _ => {
                let signs = ["<=", ">=", "<>", "!=", "==", "=", "<", ">", "(", ")", ","];
                let sign = signs.into_iter().find(|sign| text[byte..].starts_with(sign));
                let sign = sign.ok_or_else(|| wrong(&format!("{c:?} is not understood")))?;
                sign.chars().for_each(|_| {
                    chars.next();
                });
                Token::Sign(sign)
            }
        };
        tokens.push((position, token));
    }
    Ok(tokens)
}

/// The text up to the next quote of the same kind; a doubled quote is one quote.
fn quoted(chars: &mut Peekable<CharIndices>) -> Option<String> {
    let (_, quote) = chars.next()?;
    let mut text = String::new();
    loop {
        let (_, c) = chars.next()?;
        if c == quote && chars.next_if(|&(_, next)| next == quote).is_none() {
            return Some(text);
        }
        text.push(c);
    }
}

fn taken(chars: &mut Peekable<CharIndices>, mut goes_on: impl FnMut(char) -> bool) -> String {
    let mut text = String::new();
    while let Some((_, c)) = chars.next_if(|&(_, c)| goes_on(c)) {
        text.push(c);
    }
    text
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    end: usize,
}

impl Parser {
    fn wrong(&self, what: &str) -> Error {
        let position = self.tokens.get(self.at).map_or(self.end, |(position, _)| *position);
        Error::invalid(format!("at character {position} of the condition: {what}"))
    }

    fn word(&mut self, keyword: &str) -> bool {
        let found =
            matches!(self.tokens.get(self.at), Some((_, Token::Word(word))) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some((_, Token::Sign(found))) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self, depth: usize) -> Result<Test> {
        let mut tests = vec![self.all(depth)?];
        while self.word("or") {
            tests.push(self.all(depth)?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::Or(tests) })
    }

    fn all(&mut self, depth: usize) -> Result<Test> {
        let mut tests = vec![self.one(depth)?];
        while self.word("and") {
            tests.push(self.one(depth)?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::And(tests) })
    }

    fn one(&mut self, depth: usize) -> Result<Test> {
        if depth == DEEPEST {
            return Err(self.wrong("the condition is nested too deeply"));
        }
        if self.word("not") {
            return Ok(Test::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.sign("(") {
            let test = self.any(depth + 1)?;
            return if self.sign(")") { Ok(test) } else { Err(self.wrong("expected `)`")) };
        }
        let name = match self.tokens.get(self.at) {
            Some((_, Token::Word(name) | Token::Quoted(name))) => name.clone(),
            _ => return Err(self.wrong("expected a name, such as tag, owner or a parameter")),
        };
        self.at += 1;
        self.test(name)
    }

    fn test(&mut self, name: String) -> Result<Test> {
        let ops = [
            ("=", Op::Eq),
            ("==", Op::Eq),
            ("<>", Op::Ne),
            ("!=", Op::Ne),
            ("<=", Op::Le),
            (">=", Op::Ge),
            ("<", Op::Lt),
            (">", Op::Gt),
        ];
        for (sign, op) in ops {
            if self.sign(sign) {
                return Ok(Test::Compare { name, op, value: self.value()? });
            }
        }
        if self.word("is") {
            let not = self.word("not");
            let null = Test::IsNull(name);
            return match (self.word("null"), not) {
                (false, _) => Err(self.wrong("expected `null`")),
                (true, false) => Ok(null),
                (true, true) => Ok(Test::Not(Box::new(null))),
            };
        }
        let not = self.word("not");
        let test = if self.word("in") {
            if !self.sign("(") {
                return Err(self.wrong("expected `(`"));
            }
            let mut values = vec![self.value()?];
            while self.sign(",") {
                values.push(self.value()?);
            }
            if !self.sign(")") {
                return Err(self.wrong("expected `,` or `)`"));
            }
            Test::In { name, values }
        } else {
            let ignore_case = self.word("ilike");
            if !ignore_case && !self.word("like") {
                return Err(self.wrong("expected an operator: = <> < <= > >=, in, like, ilike, is"));
            }
            match self.value()? {
                Scalar::Text(text) => {
                    let text = if ignore_case { text.to_lowercase() } else { text };
                    Test::Like { name, pattern: text.chars().collect(), ignore_case }
                }
                _ => return Err(self.wrong("expected a pattern in quotes before this")),
            }
        };
        Ok(if not { Test::Not(Box::new(test)) } else { test })
    }

    fn value(&mut self) -> Result<Scalar> {
        for (word, value) in [("true", true), ("false", false)] {
            if self.word(word) {
                return Ok(Scalar::Bool(value));
            }
        }
        match self.tokens.get(self.at) {
            Some((_, Token::Value(value))) => {
                self.at += 1;
                Ok(value.clone())
            }
            Some((_, Token::Word(word))) => {
                Err(self.wrong(&format!("expected a number or a text; write \"{word}\" for the text")))
            }
            _ => Err(self.wrong("expected a number or a text in quotes")),
        }
    }
}
