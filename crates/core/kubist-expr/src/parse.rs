//! The parser, by recursive descent.
//!
//! The grammar, from the lowest precedence: `OR`, `AND`, `NOT`, comparisons (also `IN`, `BETWEEN`, `LIKE`,
//! `IS`), bit operations, `+ -`, `* / %`, unary `-`, `^` (right-associative: `-2^2` is -4), `::`. Time is
//! linear in the text. The tree is never higher than `MAX_HEIGHT`, so no walk over it, nor its destructor, can
//! overflow the stack; `AND`, `OR` and `IN` add width, not height.

mod times;

use crate::error::{ExprError, shortened};
use crate::lex::{Token, mistake, tokens};
use crate::moment::Moment;
use crate::number::Number;
use crate::syntax::{Op, Syntax};
use crate::types::{self, Unknown};
use crate::value::Literal;
use arrow_schema::DataType;

/// Limit of nesting, including chains of operators.
const MAX_HEIGHT: usize = 128;

/// Nested parentheses, calls and signs, which take some kB of stack each in an unoptimised build.
const MAX_DEPTH: usize = 64;

/// Maximum bytes of a text, because parsing and binding may take some hundred times its size in memory.
const MOST_BYTES: usize = 16 << 20;

const FOREIGN: &[&str] = &[
    "ALL",
    "ANY",
    "ARRAY",
    "AT",
    "COLLATE",
    "DISTINCT",
    "DIV",
    "EXISTS",
    "FILTER",
    "FROM",
    "GLOB",
    "GROUP",
    "HAVING",
    "ISNULL",
    "LIMIT",
    "MATCH",
    "NOTNULL",
    "ORDER",
    "OVER",
    "OVERLAPS",
    "REGEXP",
    "RLIKE",
    "ROW",
    "SELECT",
    "SIMILAR",
    "SOME",
    "STRUCT",
    "SYMMETRIC",
    "TRIM",
    "UNION",
    "WHERE",
];

const OF_CASE: &[&str] = &["WHEN", "THEN", "ELSE", "END"];

const RESERVED: &[&str] = &["AND", "BETWEEN", "ILIKE", "IN", "IS", "LIKE", "NOT", "OR"];

pub(crate) const ADD_INTERVAL: &str = "+ interval";

struct Tree {
    syntax: Box<Syntax>,
    height: usize,
}

/// Boxed results and errors keep the stack frames of the recursion small.
type Parsed<T = Tree> = Result<T, Box<ExprError>>;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

pub(crate) fn parse(text: &str) -> Result<Syntax, ExprError> {
    if text.len() > MOST_BYTES {
        return Err(ExprError::TooLarge { limit: format!("{} MiB of text", MOST_BYTES >> 20) });
    }
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0, depth: 0 };
    if parser.peek() == &Token::End {
        return Err(mistake(text, 0, "the expression is empty"));
    }
    let tree = parser.disjunction().map_err(|error| *error)?;
    match parser.peek() {
        Token::End => Ok(*tree.syntax),
        _ => Err(*parser.unexpected()),
    }
}

fn leaf(syntax: Syntax) -> Tree {
    Tree { syntax: Box::new(syntax), height: 1 }
}

fn over<const N: usize>(trees: [Tree; N], make: impl FnOnce([Box<Syntax>; N]) -> Syntax) -> Parsed {
    let height = 1 + trees.iter().map(|tree| tree.height).max().unwrap_or(0);
    if height > MAX_HEIGHT {
        return Err(ExprError::TooDeep { limit: MAX_HEIGHT }.into());
    }
    Ok(Tree { syntax: Box::new(make(trees.map(|tree| tree.syntax))), height })
}

fn over_all(trees: Vec<Tree>, make: impl FnOnce(Vec<Syntax>) -> Syntax) -> Parsed {
    let tallest = trees.iter().map(|tree| tree.height).max().unwrap_or(0);
    let tallest = Tree { height: tallest, ..leaf(Syntax::Literal(Literal::Null)) };
    over([tallest], |_| make(trees.into_iter().map(|tree| *tree.syntax).collect()))
}

fn negated_if(negated: bool, tree: Tree) -> Parsed {
    if negated { over([tree], |[operand]| Syntax::Not(operand)) } else { Ok(tree) }
}

fn call(name: &str, operands: Vec<Tree>) -> Parsed {
    over_all(operands, |operands| Syntax::Call { name: name.to_owned(), operands })
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> &Token {
        self.tokens.get(self.next + count).map_or(&Token::End, |(token, _)| token)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(next) if *next == symbol)
    }

    fn is_word(&self, count: usize, word: &str) -> bool {
        matches!(self.ahead(count), Token::Word(next) if next.eq_ignore_ascii_case(word))
    }

    fn skip_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.next += usize::from(found);
        found
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.skip_symbol(symbol) { Ok(()) } else { Err(self.unexpected_but(&format!("expected `{symbol}`, "))) }
    }

    fn here(&self, message: impl Into<String>) -> Box<ExprError> {
        let at = self.tokens.get(self.next).map_or(self.text.len(), |(_, at)| *at);
        Box::new(mistake(self.text, at, message))
    }

    fn unexpected(&self) -> Box<ExprError> {
        self.unexpected_but("")
    }

    fn unexpected_but(&self, expected: &str) -> Box<ExprError> {
        let found = match self.peek() {
            Token::End => "the end".to_owned(),
            Token::Word(word) => {
                let upper = word.to_ascii_uppercase();
                if FOREIGN.contains(&upper.as_str()) {
                    return ExprError::unsupported(upper).into();
                }
                let before = self.next.checked_sub(1).and_then(|at| self.tokens.get(at));
                let may_be_unit = expected.is_empty() && !RESERVED.contains(&upper.as_str());
                if let (true, Some((Token::Number(number), _))) = (may_be_unit, before) {
                    let number = number.to_string();
                    let (number, unit) = (shortened(&number), shortened(word));
                    let hint = format!("write `{number}{unit}` or `'{number} {unit}'` for a value with a unit");
                    return self.here(format!("`{unit}` is not expected after {number}; {hint}"));
                }
                format!("`{}`", shortened(word))
            }
            Token::Quoted(name) => format!("\"{}\"", shortened(name)),
            Token::Number(number) => format!("the number {}", shortened(&number.to_string())),
            Token::Quantity(quantity) => format!("the quantity {quantity}"),
            Token::Text(text) => format!("the text '{}'", shortened(text)),
            Token::Bytes(_) => "X'...'".to_owned(),
            Token::Symbol("&&") => return ExprError::unsupported_but("`&&`", "write AND").into(),
            Token::Symbol("||") => {
                return ExprError::unsupported_but("`||`", "write OR; texts cannot be joined").into();
            }
            Token::Symbol("!") => return ExprError::unsupported_but("`!`", "write NOT").into(),
            Token::Symbol(symbol @ ("(" | ")" | "," | "." | ";")) => format!("`{symbol}`"),
            Token::Symbol(symbol) if expected.is_empty() && operator(symbol).is_none() => {
                return ExprError::unsupported(format!("`{symbol}`")).into();
            }
            Token::Symbol(symbol) => format!("`{symbol}`"),
        };
        self.here(match expected {
            "" => format!("{found} is not expected here"),
            _ => format!("{expected}found {found}"),
        })
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == MAX_DEPTH {
            return Err(ExprError::TooDeep { limit: MAX_DEPTH }.into());
        }
        self.depth += 1;
        let tree = parse(self);
        self.depth -= 1;
        tree
    }

    fn disjunction(&mut self) -> Parsed {
        let first = self.conjunction()?;
        if !self.is_word(0, "OR") {
            return Ok(first);
        }
        let mut trees = vec![first];
        while self.skip_word("OR") {
            trees.push(self.conjunction()?);
        }
        over_all(trees, Syntax::Or)
    }

    fn conjunction(&mut self) -> Parsed {
        let first = self.negation()?;
        if !self.is_word(0, "AND") {
            return Ok(first);
        }
        let mut trees = vec![first];
        while self.skip_word("AND") {
            trees.push(self.negation()?);
        }
        over_all(trees, Syntax::And)
    }

    fn negation(&mut self) -> Parsed {
        if !self.skip_word("NOT") {
            return self.comparison();
        }
        let operand = self.deeper(Self::negation)?;
        negated_if(true, operand)
    }

    fn comparison(&mut self) -> Parsed {
        let mut left = self.bits()?;
        let mut compared = false;
        loop {
            let negated =
                self.is_word(0, "NOT") && ["IN", "BETWEEN", "LIKE", "ILIKE"].iter().any(|word| self.is_word(1, word));
            self.next += usize::from(negated);
            if let Some(op) = self.comparison_operator() {
                if compared {
                    return Err(self.here("comparisons do not chain: write `a < x AND x < b`"));
                }
                self.next += 1;
                compared = true;
                let right = self.bits()?;
                left = over([left, right], |[left, right]| Syntax::Compare { op, left, right })?;
            } else if self.skip_word("BETWEEN") {
                let low = self.bits()?;
                if !self.skip_word("AND") {
                    return Err(self.unexpected_but("BETWEEN expects AND, "));
                }
                let high = self.bits()?;
                let between = over([left, low, high], |[operand, low, high]| Syntax::Between { operand, low, high })?;
                left = negated_if(negated, between)?;
            } else if self.skip_word("IN") {
                left = negated_if(negated, self.list(left)?)?;
            } else if self.is_word(0, "LIKE") || self.is_word(0, "ILIKE") {
                let ignore_case = self.is_word(0, "ILIKE");
                self.next += 1;
                let pattern = self.bits()?;
                let escape = self.escape()?;
                let like =
                    over([left, pattern], |[operand, pattern]| Syntax::Like { operand, pattern, escape, ignore_case })?;
                left = negated_if(negated, like)?;
            } else if self.skip_word("IS") {
                left = self.is(left)?;
            } else {
                return Ok(left);
            }
        }
    }

    fn comparison_operator(&self) -> Option<Op> {
        match self.peek() {
            Token::Symbol(symbol) => operator(symbol),
            _ => None,
        }
    }

    fn list(&mut self, operand: Tree) -> Parsed {
        self.expect("(")?;
        let mut trees = vec![operand];
        loop {
            trees.push(self.deeper(Self::bits)?);
            if !self.skip_symbol(",") {
                break;
            }
        }
        self.expect(")")?;
        over_all(trees, |mut items| {
            let operand = Box::new(items.remove(0));
            Syntax::In { operand, items }
        })
    }

    fn is(&mut self, operand: Tree) -> Parsed {
        let negated = self.skip_word("NOT");
        let truth = if self.skip_word("NULL") {
            let test = over([operand], |[operand]| Syntax::IsNull(operand))?;
            return negated_if(negated, test);
        } else if self.skip_word("TRUE") {
            Some(true)
        } else if self.skip_word("FALSE") {
            Some(false)
        } else if self.skip_word("UNKNOWN") {
            None
        } else if self.is_word(0, "DISTINCT") {
            return Err(ExprError::unsupported("IS DISTINCT FROM").into());
        } else {
            return Err(self.unexpected_but("IS expects NULL, TRUE, FALSE or UNKNOWN, "));
        };
        let test = over([operand], |[operand]| Syntax::IsTruth { operand, truth })?;
        negated_if(negated, test)
    }

    fn escape(&mut self) -> Parsed<Option<char>> {
        if !self.skip_word("ESCAPE") {
            return Ok(None);
        }
        let text = match self.peek() {
            Token::Text(text) => text.clone(),
            _ => return Err(self.unexpected_but("ESCAPE expects one character in quotes, ")),
        };
        let mut chars = text.chars();
        let (escape, None) = (chars.next(), chars.next()) else {
            return Err(self.here("ESCAPE takes one character, as in LIKE 'a\\_%' ESCAPE '\\'"));
        };
        self.next += 1;
        Ok(escape)
    }

    fn bits(&mut self) -> Parsed {
        let mut left = self.sum()?;
        while let Token::Symbol(symbol @ ("&" | "|" | "<<" | ">>")) = *self.peek() {
            self.next += 1;
            let right = self.sum()?;
            left = call(symbol, vec![left, right])?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Token::Symbol(symbol @ ("+" | "-")) = *self.peek() {
            self.next += 1;
            left = match self.interval(symbol == "-")? {
                Some([count, unit]) => call(ADD_INTERVAL, vec![left, count, unit])?,
                None => {
                    let right = self.product()?;
                    call(symbol, vec![left, right])?
                }
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        while let Token::Symbol(symbol @ ("*" | "/" | "%")) = *self.peek() {
            self.next += 1;
            let right = self.signed()?;
            left = call(symbol, vec![left, right])?;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed {
        if self.skip_symbol("-") {
            let operand = self.deeper(Self::signed)?;
            call("negate", vec![operand])
        } else if self.skip_symbol("~") {
            // As in DuckDB, `~` binds less tightly than arithmetic.
            let operand = self.deeper(Self::sum)?;
            call("~", vec![operand])
        } else if self.skip_symbol("+") {
            self.deeper(Self::signed)
        } else {
            self.power()
        }
    }

    fn power(&mut self) -> Parsed {
        let base = self.converted()?;
        if !self.skip_symbol("^") {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        call("power", vec![base, exponent])
    }

    fn converted(&mut self) -> Parsed {
        let mut tree = self.primary()?;
        while self.skip_symbol("::") {
            let to = self.data_type()?;
            tree = over([tree], |[operand]| Syntax::Cast { operand, to })?;
        }
        Ok(tree)
    }

    fn cast(&mut self) -> Parsed {
        self.next += 1;
        self.expect("(")?;
        let operand = self.deeper(Self::disjunction)?;
        if !self.skip_word("AS") {
            return Err(self.unexpected_but("CAST expects AS and a type, "));
        }
        let to = self.data_type()?;
        self.expect(")")?;
        over([operand], |[operand]| Syntax::Cast { operand, to })
    }

    fn data_type(&mut self) -> Parsed<DataType> {
        let Token::Word(word) = self.peek() else { return Err(self.unexpected_but("expected a type, ")) };
        let mut name = word.to_ascii_lowercase();
        let found = self.next;
        self.next += 1;
        if name == "double" && self.skip_word("PRECISION") {
            name = "float64".to_owned();
        }
        for (words, suffix) in [(["WITH", "TIME", "ZONE"], "tz"), (["WITHOUT", "TIME", "ZONE"], "")] {
            if (0..3).all(|index| self.is_word(index, words[index])) {
                self.next += 3;
                name.push_str(suffix);
            }
        }
        types::named(&name).map_err(|error| match error {
            Unknown::Type => {
                self.next = found;
                self.here(format!("there is no type `{}`; the types are {}", shortened(&name), types::LISTED))
            }
            Unknown::But(hint) => ExprError::unsupported_but(format!("the type `{name}`"), hint).into(),
        })
    }

    fn case(&mut self) -> Parsed {
        self.next += 1;
        let mut trees = Vec::new();
        let with_operand = !self.is_word(0, "WHEN");
        if with_operand {
            trees.push(self.deeper(Self::disjunction)?);
        }
        let first = trees.len();
        while self.skip_word("WHEN") {
            trees.push(self.deeper(Self::disjunction)?);
            if !self.skip_word("THEN") {
                return Err(self.unexpected_but("WHEN expects THEN, "));
            }
            trees.push(self.deeper(Self::disjunction)?);
        }
        if trees.len() == first {
            return Err(self.unexpected_but("CASE expects WHEN, "));
        }
        let with_otherwise = self.skip_word("ELSE");
        if with_otherwise {
            trees.push(self.deeper(Self::disjunction)?);
        }
        if !self.skip_word("END") {
            return Err(self.unexpected_but("CASE expects WHEN, ELSE or END, "));
        }
        over_all(trees, |mut parts| {
            let otherwise = if with_otherwise { parts.pop().map(Box::new) } else { None };
            let mut parts = parts.into_iter();
            let operand = if with_operand { parts.next().map(Box::new) } else { None };
            let mut whens = Vec::with_capacity(parts.len() / 2);
            while let (Some(when), Some(then)) = (parts.next(), parts.next()) {
                whens.push((when, then));
            }
            Syntax::Case { operand, whens, otherwise }
        })
    }

    fn primary(&mut self) -> Parsed {
        match self.peek() {
            Token::Symbol("(") => {
                self.next += 1;
                let tree = self.deeper(Self::disjunction)?;
                if self.is_symbol(",") {
                    return Err(ExprError::unsupported("a row value `(a, b)`").into());
                }
                self.expect(")")?;
                Ok(tree)
            }
            Token::Number(_) | Token::Quantity(_) | Token::Text(_) | Token::Bytes(_) => {
                let literal = match self.advance() {
                    Token::Number(number) => Literal::Number(Number::Finite(number)),
                    Token::Quantity(quantity) => Literal::Quantity(quantity),
                    Token::Text(text) => Literal::Text(text),
                    Token::Bytes(bytes) => Literal::Binary(bytes),
                    _ => Literal::Null,
                };
                Ok(leaf(Syntax::Literal(literal)))
            }
            Token::Quoted(_) => self.name(),
            Token::Word(word) => {
                let upper = word.to_ascii_uppercase();
                self.word(&upper)
            }
            _ => Err(self.no_value()),
        }
    }

    fn no_value(&self) -> Box<ExprError> {
        let before = self.next.checked_sub(1).and_then(|before| self.tokens.get(before));
        let after = match before {
            Some((Token::Symbol(symbol), _)) if *symbol != "(" && *symbol != "," && *symbol != ")" => *symbol,
            _ => return self.unexpected(),
        };
        match *self.here("") {
            ExprError::Syntax { position, .. } => ExprError::NoValue { after: after.to_owned(), position }.into(),
            other => other.into(),
        }
    }

    fn word(&mut self, upper: &str) -> Parsed {
        let constant = match upper {
            "TRUE" => Some(Literal::Bool(true)),
            "FALSE" => Some(Literal::Bool(false)),
            "NULL" => Some(Literal::Null),
            _ => None,
        };
        if let Some(literal) = constant {
            self.next += 1;
            return Ok(leaf(Syntax::Literal(literal)));
        }
        if RESERVED.contains(&upper) {
            return Err(self.unexpected());
        }
        // A column can have the name of an unsupported keyword, so the next token decides.
        let named = match self.ahead(1) {
            Token::Symbol("(" | "[") => false,
            Token::Symbol(_) | Token::End => true,
            Token::Word(next) => {
                let next = next.to_ascii_uppercase();
                RESERVED.contains(&next.as_str()) || (upper != "CASE" && OF_CASE.contains(&next.as_str()))
            }
            _ => false,
        };
        if FOREIGN.contains(&upper) && !named {
            return Err(ExprError::unsupported(upper).into());
        }
        if let ("INTERVAL", Token::Text(_) | Token::Number(_)) = (upper, self.ahead(1)) {
            let what = "an INTERVAL that is not added to a time";
            return Err(ExprError::unsupported_but(what, "write t + INTERVAL 1 DAY").into());
        }
        match self.ahead(1) {
            _ if upper == "CASE" && !named => self.case(),
            Token::Symbol("(") if upper == "CAST" => self.cast(),
            Token::Symbol("(") if upper == "EXTRACT" => self.extract(),
            Token::Text(text) if matches!(upper, "DATE" | "TIME" | "TIMESTAMP") => {
                let text = text.clone();
                let moment = Moment::parse(&text).filter(|moment| moment.of_day == (upper == "TIME"));
                let Some(moment) = moment else {
                    return Err(self.here(format!("{upper} '{}' is no ISO 8601 date or time", shortened(&text))));
                };
                self.next += 2;
                Ok(leaf(Syntax::Literal(Literal::Moment { moment, text })))
            }
            Token::Symbol("(") => self.function(),
            _ => self.name(),
        }
    }

    fn function(&mut self) -> Parsed {
        let Token::Word(name) = self.advance() else { return Err(self.unexpected()) };
        self.expect("(")?;
        let mut operands = Vec::new();
        if !self.is_symbol(")") {
            loop {
                if self.is_symbol("*") || self.is_word(0, "DISTINCT") {
                    return Err(ExprError::unsupported(format!("the aggregate `{}`", shortened(&name))).into());
                }
                operands.push(self.deeper(Self::disjunction)?);
                if !self.skip_symbol(",") {
                    break;
                }
            }
        }
        self.expect(")")?;
        if self.is_word(0, "OVER") || self.is_word(0, "FILTER") {
            return Err(self.unexpected());
        }
        call(&name, operands)
    }

    fn name(&mut self) -> Parsed {
        let mut name = String::new();
        let mut quoted = false;
        loop {
            match self.advance() {
                Token::Word(part) => name.push_str(&part),
                Token::Quoted(part) => {
                    name.push_str(&part);
                    quoted = true;
                }
                _ => {
                    self.next -= 1;
                    return Err(self.unexpected_but("expected a name after `.`, "));
                }
            }
            if !self.skip_symbol(".") {
                return Ok(leaf(Syntax::Column { name, quoted }));
            }
            name.push('.');
        }
    }
}

fn operator(symbol: &str) -> Option<Op> {
    Some(match symbol {
        "=" | "==" => Op::Eq,
        "<>" | "!=" => Op::Ne,
        "<" => Op::Lt,
        "<=" => Op::Le,
        ">" => Op::Gt,
        ">=" => Op::Ge,
        _ => return None,
    })
}
