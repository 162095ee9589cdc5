//! Conditions of any shape: deep, long, and nested in every way that the grammar allows. Each gets a result or
//! an error in bounded time and memory. A row matches the condition or its negation, or the condition is
//! unknown for it.

use std::path::Path;

use kubist::{ErrorKind, Query, Snapshot, Table};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{Attack, FINE, Outcome, Verdict, set};

struct Expressions {
    snapshot: Snapshot,
    rows: u64,
}

pub fn prepare(folder: &Path) -> Box<dyn Attack> {
    let at = folder.join("altered");
    set::copied(&set::newest().join("altered/table"), &at);
    let snapshot = Table::open(at.to_str().expect("UTF-8")).and_then(|table| table.snapshot()).expect("a golden table");
    let rows = snapshot.rows().expect("a count");
    Box::new(Expressions { snapshot, rows })
}

fn one<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of.choose(random).copied().expect("not empty")
}

fn number(random: &mut StdRng, depth: u32) -> String {
    let leaf = depth == 0 || random.random_ratio(1, 3);
    match random.random_range(0..if leaf { 3 } else { 7 }) {
        0 => one(random, &["pid", "x", "y", "age", "heat", "nothing"]).into(),
        1 => {
            one(random, &["0", "-1", "1e308", "1e-320", "0.5", "170141183460469231731687303715884105727", "nan", "inf"])
                .into()
        }
        2 => random.random_range(-1000..1000).to_string(),
        3 => format!(
            "({} {} {})",
            number(random, depth - 1),
            one(random, &["+", "-", "*", "/", "%", "^"]),
            number(random, depth - 1)
        ),
        4 => format!("-({})", number(random, depth - 1)),
        5 => format!("{}({})", one(random, &["abs", "sqrt", "floor", "ln", "exp", "sin"]), number(random, depth - 1)),
        _ => format!(
            "{}({}, {})",
            one(random, &["least", "greatest", "power"]),
            number(random, depth - 1),
            number(random, depth - 1)
        ),
    }
}

fn condition(random: &mut StdRng, depth: u32) -> String {
    let leaf = depth == 0 || random.random_ratio(1, 4);
    match random.random_range(0..if leaf { 6 } else { 12 }) {
        0 => format!("{} {} {}", number(random, 2), one(random, &["<", "<=", "=", "<>", ">", ">="]), number(random, 2)),
        1 => one(random, &["flag", "TRUE", "FALSE", "flag IS NULL", "x IS NOT NULL", "isnan(age)"]).into(),
        2 => format!("name {} '{}'", one(random, &["LIKE", "ILIKE", "NOT LIKE"]), pattern(random, 12)),
        3 => format!(
            "pid IN ({})",
            (0..random.random_range(1..30))
                .map(|_| random.random_range(-5..600).to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
        4 => format!("kind = '{}'", one(random, &["water", "", "''", "oil"])),
        5 => format!("{} BETWEEN {} AND {}", number(random, 1), number(random, 1), number(random, 1)),
        6 => format!(
            "({}) IN ({}, {})",
            condition(random, depth - 1),
            condition(random, depth - 1),
            one(random, &["TRUE", "FALSE", "flag"])
        ),
        7 => format!(
            "({}) {} ({})",
            condition(random, depth - 1),
            one(random, &["=", "<>", "AND", "OR"]),
            condition(random, depth - 1)
        ),
        8 => format!("NOT ({})", condition(random, depth - 1)),
        9 => format!(
            "({}) IS {}",
            condition(random, depth - 1),
            one(random, &["TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT UNKNOWN"])
        ),
        _ => format!(
            "({}) {} ({})",
            condition(random, depth - 1),
            one(random, &["AND", "OR"]),
            condition(random, depth - 1)
        ),
    }
}

fn pattern(random: &mut StdRng, length: usize) -> String {
    (0..random.random_range(0..=length))
        .map(|_| one(random, &["%", "_", "d", "r", "o", " ", "1", "\\%", "''", "é"]))
        .collect()
}

fn shape(random: &mut StdRng) -> String {
    let levels = *[5, 20, 30, 45, 60, 100, 1000, 20_000].choose(random).expect("depths");
    let nest = |start: &str, step: &dyn Fn(&str, usize) -> String| {
        let mut text = start.to_string();
        for level in 0..levels {
            if text.len() > 200_000 {
                break;
            }
            text = step(&text, level);
        }
        text
    };
    match random.random_range(0..12) {
        0 => format!("flag{}", " IN (flag, TRUE)".repeat(levels.min(2000))),
        1 => nest("flag", &|text, level| format!("({text}) = (pid > {level})")),
        2 => nest("flag", &|text, level| format!("({text}) <> (x > {level})")),
        3 => nest("flag", &|text, _| format!("({text}) IN (flag, ({text}))")),
        4 => nest("pid > 1", &|text, _| format!("({text})")),
        5 => nest("pid", &|text, level| format!("least({text}, {level})")) + " > 1",
        6 => format!("name LIKE '{}'", "%a".repeat(levels)),
        7 => format!(
            "name LIKE '{}' OR name ILIKE '{}z'",
            pattern(random, levels.min(5000)),
            "%_%".repeat(levels.min(5000))
        ),
        8 => vec!["pid = 1"; levels].join(one(random, &[" AND ", " OR "])),
        9 => format!("pid IN ({})", (0..levels).map(|n| n.to_string()).collect::<Vec<_>>().join(",")),
        10 => format!("x > {}1{}", "abs(".repeat(levels), ")".repeat(levels)),
        _ => nest("flag", &|text, level| {
            format!(
                "({text}) IS {} = (age {} 0.{level})",
                one(&mut rand::SeedableRng::seed_from_u64(level as u64), &["TRUE", "UNKNOWN"]),
                "<"
            )
        }),
    }
}

fn words(random: &mut StdRng) -> String {
    let words = [
        "pid", "flag", "name", "(", ")", ",", "IN", "NOT", "AND", "=", "<", "LIKE", "'%'", "1", "-", "IS", "NULL",
        "BETWEEN", "least", "\"", "'", "\u{0}", "X'", "--",
    ];
    (0..random.random_range(0..60)).map(|_| one(random, &words)).collect::<Vec<_>>().join(" ")
}

impl Attack for Expressions {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        let text = match random.random_range(0..10) {
            0..=2 => shape(random),
            3 => words(random),
            _ => condition(random, 4),
        };
        let count = |text: String| self.snapshot.count(&Query { filter: Some(text), ..Query::default() });
        let parts = [text.clone(), format!("NOT ({text})"), format!("({text}) IS UNKNOWN")];
        let told = |what: String| {
            let shown: String = text.chars().take(300).collect();
            format!("{what} of {shown}")
        };
        let mut rows = 0;
        for part in parts {
            match count(part) {
                Ok(found) => rows += found,
                Err(error) if error.kind() == ErrorKind::InvalidInput => return FINE,
                Err(error) => return (Outcome::Wrong, told(format!("another error: {error}"))),
            }
        }
        match rows == self.rows {
            true => FINE,
            false => (Outcome::Wrong, told(format!("{rows} rows are true, false or unknown instead of {}", self.rows))),
        }
    }
}
