//! What can be estimated: `mean(ux)`, `p95(diameter)`, `histogram(x, 20)`, as text and
//! bound to a table's columns.

use arrow_schema::Schema;
use kubist_expr::Expression;
use kubist_index::priority::is_identity_type;

use kubist_types::error::{Error, Result};

/// Bins of a histogram in one direction, at most.
const MOST_BINS: f64 = 65_536.0;

/// One aggregate, bound.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// As it was asked for.
    pub name: String,
    pub kind: Kind,
    pub arguments: Vec<Expression>,
    /// Of `count_distinct`: the place of the column among those that are asked.
    pub column: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Of records, or of those whose argument is there.
    Count,
    Sum,
    Mean,
    /// The mean of a condition.
    Share,
    Variance,
    Std,
    Ratio,
    Covariance,
    Correlation,
    Quantile(f64),
    Min,
    Max,
    CountDistinct,
    /// Bins in each of one or two directions, and where the first begins and the last ends.
    Histogram(Vec<Bins>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    pub count: usize,
    pub range: Option<(f64, f64)>,
}

const KNOWN: &str = "count, sum, mean, share, variance, std, min, max, median, p95 (or any pNN), quantile(x, q), \
                     histogram(x, bins), histogram2d(x, y, bins_x, bins_y), count_distinct, ratio(a, b), cov(x, y), \
                     corr(x, y)";

impl Aggregate {
    /// Parses an aggregate and binds it to the columns of `schema`.
    pub fn parse(text: &str, schema: &Schema) -> Result<Aggregate> {
        let text = text.trim();
        let at_fault = |what: String| Error::invalid(format!("{text}: {what}"));
        let shape = || at_fault(format!("expected an aggregate like mean(x); known are {KNOWN}"));
        let (name, rest) = text.split_once('(').ok_or_else(shape)?;
        let inner = rest.strip_suffix(')').ok_or_else(shape)?;
        let mut arguments = split(inner).ok_or_else(shape)?;
        let mut word = name.trim().to_ascii_lowercase();
        if word == "count" {
            if let [only] = &mut arguments[..] {
                let distinct = only.get(..9).is_some_and(|head| head.eq_ignore_ascii_case("distinct "));
                if distinct {
                    *only = only[9..].trim();
                    word = "count_distinct".into();
                }
            }
        }
        let kind = kind(&word, &arguments).map_err(|what| match what {
            Wrong::Name => at_fault(format!("there is no aggregate {name:?}; known are {KNOWN}")),
            Wrong::Arguments(what) => at_fault(what),
        })?;
        let expressions = match kind {
            Kind::Histogram(ref bins) => bins.len(),
            Kind::Quantile(_) => 1,
            Kind::CountDistinct => 0,
            Kind::Count if arguments == ["*"] => 0,
            _ => arguments.len(),
        };
        let parse = |sql: &&str| Expression::parse(sql, schema).map_err(|error| at_fault(error.to_string()));
        let column = match kind {
            Kind::CountDistinct => Some(column(arguments[0], schema).map_err(at_fault)?),
            _ => None,
        };
        let arguments: Vec<Expression> = arguments[..expressions].iter().map(parse).collect::<Result<_>>()?;
        let kind = match (kind, &arguments[..]) {
            (Kind::Mean, [condition]) if condition.is_condition() => Kind::Share,
            (Kind::Share, [number]) if !number.is_condition() => {
                return Err(at_fault("share() is of a condition, like share(diameter > 2e-5)".into()));
            }
            (kind, _) => kind,
        };
        Ok(Aggregate { name: text.to_owned(), kind, arguments, column })
    }
}

/// Several aggregates in one text, between commas.
pub fn several(text: &str) -> Vec<&str> {
    split(text).filter(|parts| !parts.is_empty()).unwrap_or_else(|| vec![text])
}

enum Wrong {
    Name,
    Arguments(String),
}

fn kind(word: &str, arguments: &[&str]) -> std::result::Result<Kind, Wrong> {
    let count = arguments.len();
    let takes = |least: usize, most: usize, what: &str| match (least..=most).contains(&count) {
        true => Ok(()),
        false => Err(Wrong::Arguments(format!("{word} takes {what}, found {count} arguments"))),
    };
    let number = |place: usize| {
        let text = arguments[place];
        text.parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .ok_or_else(|| Wrong::Arguments(format!("{text:?} is no number")))
    };
    let bins = |place: usize, range: Option<(f64, f64)>| {
        let bins = number(place)?;
        if !(bins >= 1.0 && bins <= MOST_BINS && bins.fract() == 0.0) {
            return Err(Wrong::Arguments(format!("a histogram has 1 to {MOST_BINS} bins, found {bins}")));
        }
        if range.is_some_and(|(low, high)| low >= high) {
            return Err(Wrong::Arguments("the lower end must be below the upper end".into()));
        }
        Ok(Bins { count: bins as usize, range })
    };
    let simple = |kind: Kind| takes(1, 1, "one argument").map(|()| kind);
    let double = |kind: Kind| takes(2, 2, "two arguments").map(|()| kind);
    match word {
        "count" => takes(0, 1, "nothing, * or one argument").map(|()| Kind::Count),
        "sum" => simple(Kind::Sum),
        "mean" | "avg" => simple(Kind::Mean),
        "share" => simple(Kind::Share),
        "variance" | "var" => simple(Kind::Variance),
        "std" | "stddev" => simple(Kind::Std),
        "min" => simple(Kind::Min),
        "max" => simple(Kind::Max),
        "median" => simple(Kind::Quantile(0.5)),
        "count_distinct" => simple(Kind::CountDistinct),
        "ratio" => double(Kind::Ratio),
        "cov" | "covariance" => double(Kind::Covariance),
        "corr" | "correlation" => double(Kind::Correlation),
        "quantile" => {
            takes(2, 2, "a value and a share, like quantile(x, 0.95)")?;
            let share = number(1)?;
            match (0.0..=1.0).contains(&share) {
                true => Ok(Kind::Quantile(share)),
                false => Err(Wrong::Arguments(format!("the share must be in [0, 1], found {share}"))),
            }
        }
        "histogram" => {
            takes(1, 4, "a value, a number of bins, and perhaps a lower and an upper end")?;
            if count == 3 {
                return Err(Wrong::Arguments("give both ends, or none".into()));
            }
            let range = if count == 4 { Some((number(2)?, number(3)?)) } else { None };
            let made = if count == 1 { Bins { count: 20, range } } else { bins(1, range)? };
            Ok(Kind::Histogram(vec![made]))
        }
        "histogram2d" => {
            takes(2, 8, "two values, two numbers of bins, and perhaps the ends of both")?;
            let (x, y) = match count {
                2 => return Ok(Kind::Histogram(vec![Bins { count: 32, range: None }; 2])),
                4 => (None, None),
                8 => (Some((number(4)?, number(5)?)), Some((number(6)?, number(7)?))),
                _ => {
                    return Err(Wrong::Arguments(
                        "give histogram2d(x, y, bins_x, bins_y), and all ends or none".into(),
                    ));
                }
            };
            let both = vec![bins(2, x)?, bins(3, y)?];
            match (both[0].count * both[1].count) as f64 <= MOST_BINS {
                true => Ok(Kind::Histogram(both)),
                false => Err(Wrong::Arguments(format!("a histogram has at most {MOST_BINS} bins in all"))),
            }
        }
        _ => {
            let percent = word.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
            match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
                Some(percent) => simple(Kind::Quantile(percent / 100.0)),
                None => Err(Wrong::Name),
            }
        }
    }
}

/// The place of a column whose values can be told apart.
fn column(name: &str, schema: &Schema) -> std::result::Result<usize, String> {
    let plain = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    let (place, field) = schema.fields().find(plain).ok_or_else(|| {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("there is no column {plain:?}; there are {}", names.join(", "))
    })?;
    match is_identity_type(field.data_type()) {
        true => Ok(place),
        false => Err(format!("column {plain:?} is of type {}, whose values cannot be told apart", field.data_type())),
    }
}

/// Arguments between commas that are in no parentheses and no quotes; `None` if those do
/// not match.
fn split(inner: &str) -> Option<Vec<&str>> {
    if inner.trim().is_empty() {
        return Some(vec![]);
    }
    let (mut depth, mut quote, mut begin, mut parts) = (0i32, None, 0, Vec::new());
    for (place, letter) in inner.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(inner[begin..place].trim());
                begin = place + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    parts.push(inner[begin..].trim());
    (depth == 0 && quote.is_none() && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("x", DataType::Float32, true),
            Field::new("n", DataType::Int64, true),
            Field::new("on", DataType::Boolean, true),
            Field::new("name", DataType::Utf8, true),
        ])
    }

    fn kind(text: &str) -> Kind {
        Aggregate::parse(text, &schema()).unwrap().kind
    }

    fn refused(text: &str) -> String {
        Aggregate::parse(text, &schema()).unwrap_err().to_string()
    }

    #[test]
    fn aggregates_are_understood() {
        for (text, expected) in [
            ("count()", Kind::Count),
            ("count(*)", Kind::Count),
            ("COUNT(x)", Kind::Count),
            ("avg(x)", Kind::Mean),
            (" mean( sqrt(x*x + n) ) ", Kind::Mean),
            ("mean(on)", Kind::Share),
            ("share(x > 2 AND name = 'a,(b')", Kind::Share),
            ("p99.9(x)", Kind::Quantile(0.9990000000000001)),
            ("quantile(greatest(x, n), 0.25)", Kind::Quantile(0.25)),
            ("count(distinct name)", Kind::CountDistinct),
            ("ratio(n * x, n)", Kind::Ratio),
            ("histogram(x, 5, 0, 1)", Kind::Histogram(vec![Bins { count: 5, range: Some((0.0, 1.0)) }])),
            (
                "histogram2d(x, n, 4, 8)",
                Kind::Histogram(vec![Bins { count: 4, range: None }, Bins { count: 8, range: None }]),
            ),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert_eq!(Aggregate::parse("count(*)", &schema()).unwrap().arguments.len(), 0);
        assert_eq!(Aggregate::parse("count(x)", &schema()).unwrap().arguments.len(), 1);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("x", "expected an aggregate like mean(x)"),
            ("mode(x)", "there is no aggregate \"mode\"; known are count, sum"),
            ("mean(name)", "column `name` of type Utf8 is no number"),
            ("mean(speed)", "no column `speed`"),
            ("mean(x, n)", "takes one argument, found 2"),
            ("mean()", "found 0"),
            ("quantile(x, 1.5)", "must be in [0, 1]"),
            ("quantile(x, high)", "is no number"),
            ("p101(x)", "no aggregate"),
            ("histogram(x, 0)", "1 to 65536 bins"),
            ("histogram(x, 10, 1, 0)", "lower end must be below"),
            ("count_distinct(speed)", "no column \"speed\""),
            ("share(x)", "of a condition"),
            ("mean(x))", "expected an aggregate"),
            ("mean((x)", "expected an aggregate"),
        ] {
            let message = refused(text);
            assert!(message.contains(part) && message.starts_with(text), "{text}: {message}");
        }
    }
}
