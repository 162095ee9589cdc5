//! Search: the properties of all entries as columns, built at the first search after a change.

use std::cmp::Ordering;
use std::collections::HashMap;

use kubist_types::Result;

use crate::condition::{self, Op, Test};
use crate::entry::{Names, Scalar};

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A condition, such as `Re > 2000 and tag = "final"`. Its names are `name`, `kind`, `owner`, `note`, `tag`,
    /// `location`, `reads`, and those of parameters; `param.x` is always the parameter x.
    pub condition: Option<String>,
    /// Words that must all be in the name, the tags, the notes, the owner, or texts of parameters; letter case is
    /// ignored.
    pub text: Option<String>,
}

/// Columns of the entries, in the order of their names.
pub(crate) struct Index {
    names: Vec<String>,
    /// By property: its values with their rows, in ascending order; rows may repeat.
    columns: HashMap<String, Vec<(u32, Scalar)>>,
    /// By entry, all its texts in lower case.
    texts: Vec<String>,
}

/// The rows for which a test is true, and the rows for which it is false. For others it is unknown.
struct Truth {
    yes: Vec<bool>,
    no: Vec<bool>,
}

impl Index {
    pub fn of(entries: &Names) -> Index {
        let mut index = Index { names: Vec::new(), columns: HashMap::new(), texts: Vec::new() };
        for (row, (name, entry)) in entries.iter().enumerate() {
            let row = u32::try_from(row).unwrap_or(u32::MAX);
            let mut put = |column: &str, value: Scalar| match index.columns.get_mut(column) {
                Some(values) => values.push((row, value)),
                None => drop(index.columns.insert(column.to_owned(), vec![(row, value)])),
            };
            let listed = entry.listed(name);
            let mut text = name.to_lowercase();
            let fields = [
                ("kind", listed.kind),
                ("owner", listed.owner),
                ("note", listed.note),
                ("tag", listed.tags),
                ("location", listed.locations),
            ];
            put("name", Scalar::Text(name.clone()));
            put("reads", Scalar::Number(listed.reads as f64));
            for (column, values) in fields {
                for value in values {
                    text.push('\n');
                    text.push_str(&value.to_lowercase());
                    put(column, Scalar::Text(value));
                }
            }
            for (column, values) in listed.params {
                let hidden = BUILT_IN.contains(&column.as_str()).then(|| format!("param.{column}"));
                for value in values {
                    if let Scalar::Text(value) = &value {
                        text.push('\n');
                        text.push_str(&value.to_lowercase());
                    }
                    put(hidden.as_deref().unwrap_or(&column), value);
                }
            }
            index.names.push(name.clone());
            index.texts.push(text);
        }
        index
    }

    /// Returns the sorted names of the entries that satisfy the search.
    ///
    /// # Errors
    ///
    /// `Invalid` for a wrong condition names the character.
    pub fn find(&self, wanted: &Search) -> Result<Vec<String>> {
        let truth = wanted.condition.as_deref().map(condition::parse).transpose()?.map(|test| self.truth(&test));
        let words: Vec<String> =
            wanted.text.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).collect();
        let has = |row: usize| {
            truth.as_ref().is_none_or(|truth| truth.yes[row])
                && words.iter().all(|word| self.texts[row].contains(word.as_str()))
        };
        Ok((0..self.names.len()).filter(|&row| has(row)).map(|row| self.names[row].clone()).collect())
    }

    fn column(&self, name: &str) -> &[(u32, Scalar)] {
        let plain = || name.strip_prefix("param.").filter(|plain| !BUILT_IN.contains(plain));
        let exact = self.columns.get(name).or_else(|| self.columns.get(plain()?));
        let ignoring_case =
            || self.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, column)| column);
        exact.or_else(ignoring_case).map_or(&[], Vec::as_slice)
    }

    /// True if one value of a property satisfies the test, false if values can be tested and none does.
    fn each(&self, name: &str, mut test: impl FnMut(&Scalar) -> Option<bool>) -> Truth {
        let mut truth = Truth { yes: vec![false; self.names.len()], no: vec![false; self.names.len()] };
        for (row, value) in self.column(name) {
            match test(value) {
                Some(true) => truth.yes[*row as usize] = true,
                Some(false) => truth.no[*row as usize] = true,
                None => {}
            }
        }
        truth.no.iter_mut().zip(&truth.yes).for_each(|(no, yes)| *no &= !yes);
        truth
    }

    fn truth(&self, test: &Test) -> Truth {
        match test {
            Test::Compare { name, op, value } => self.each(name, |found| compared(found, *op, value)),
            Test::In { name, values } => self.each(name, |found| {
                let mut results = values.iter().map(|value| compared(found, Op::Eq, value));
                results
                    .try_fold(None, |known, result| match result {
                        Some(true) => Err(Some(true)),
                        other => Ok(other.or(known)),
                    })
                    .unwrap_or_else(|yes| yes)
            }),
            Test::Like { name, pattern, ignore_case } => self.each(name, |found| match found {
                Scalar::Text(text) if *ignore_case => Some(like(&text.to_lowercase(), pattern)),
                Scalar::Text(text) => Some(like(text, pattern)),
                _ => None,
            }),
            Test::IsNull(name) => {
                let no = self.each(name, |_| Some(true)).yes;
                Truth { yes: no.iter().map(|no| !no).collect(), no }
            }
            Test::Not(test) => {
                let Truth { yes, no } = self.truth(test);
                Truth { yes: no, no: yes }
            }
            Test::And(tests) => self.joined(tests, |yes, other| yes & other, |no, other| no | other),
            Test::Or(tests) => self.joined(tests, |yes, other| yes | other, |no, other| no & other),
        }
    }

    fn joined(&self, tests: &[Test], yes: fn(bool, bool) -> bool, no: fn(bool, bool) -> bool) -> Truth {
        let mut truths = tests.iter().map(|test| self.truth(test));
        let first = truths.next().unwrap_or_else(|| self.each("", |_| None));
        truths.fold(first, |mut all, truth| {
            all.yes.iter_mut().zip(truth.yes).for_each(|(all, one)| *all = yes(*all, one));
            all.no.iter_mut().zip(truth.no).for_each(|(all, one)| *all = no(*all, one));
            all
        })
    }
}

/// Names of properties, which a parameter with the same name does not hide.
const BUILT_IN: [&str; 7] = ["name", "kind", "owner", "note", "tag", "location", "reads"];

/// Compares two values; `None` if their types differ.
fn compared(found: &Scalar, op: Op, value: &Scalar) -> Option<bool> {
    let order = match (found, value) {
        (Scalar::Number(found), Scalar::Number(value)) => found.partial_cmp(value)?,
        (Scalar::Text(found), Scalar::Text(value)) => found.cmp(value),
        (Scalar::Bool(found), Scalar::Bool(value)) => found.cmp(value),
        _ => return None,
    };
    Some(match op {
        Op::Eq => order == Ordering::Equal,
        Op::Ne => order != Ordering::Equal,
        Op::Lt => order == Ordering::Less,
        Op::Le => order != Ordering::Greater,
        Op::Gt => order == Ordering::Greater,
        Op::Ge => order != Ordering::Less,
    })
}

/// `LIKE`, in time proportional to the product of the lengths: after a failure, the last `%` takes one more character.
fn like(text: &str, pattern: &[char]) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut of, mut back) = (0, 0, None);
    while at < text.len() {
        match pattern.get(of) {
            Some('%') => {
                back = Some((of + 1, at));
                of += 1;
            }
            Some(&c) if c == '_' || c == text[at] => {
                at += 1;
                of += 1;
            }
            _ => match &mut back {
                None => return false,
                Some((after, from)) => {
                    *from += 1;
                    (of, at) = (*after, *from);
                }
            },
        }
    }
    pattern[of..].iter().all(|&c| c == '%')
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_have_any_characters_and_one() {
        let like = |text, pattern: &str| like(text, &pattern.chars().collect::<Vec<_>>());
        for (text, pattern) in
            [("", "%"), ("airway", "air%"), ("airway", "%w_y"), ("aab", "%ab"), ("ä", "_"), ("abc", "abc")]
        {
            assert!(like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("a", ""), ("airway", "air"), ("airway", "%x%"), ("", "_")] {
            assert!(!like(text, pattern), "{text} {pattern}");
        }
    }
}
