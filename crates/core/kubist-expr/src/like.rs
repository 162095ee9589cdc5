//! Patterns of `LIKE`, `ILIKE` and `regexp_matches`.
//!
//! A pattern is split at its `%` into segments. The first segment matches the beginning, the last one the end, and each
//! other segment at its first occurrence after the previous one. This finds every possible match, without backtracking
//! or a compiled form that could grow. `ILIKE` compares characters by Unicode simple case folding.

use crate::error::ExprError;
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};

/// Called with an upper bound of the next steps.
pub(crate) type GoOn<'a> = dyn FnMut(usize) -> Result<(), ExprError> + 'a;

/// Limit of a pattern's bytes, because a search may compare it at each character.
const LONGEST: usize = 4096;

/// Limit of a compiled regular expression's bytes; matching time is proportional to this size times the text length.
const LARGEST: usize = 1 << 20;

const DEEPEST: u32 = 64;

const STARTS: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Like(Like),
    Expression(Regex),
}

#[derive(Clone, Debug)]
struct Like {
    /// Only the first and the last segment can be empty.
    segments: Vec<Segment>,
    ignore_case: bool,
}

#[derive(Clone, Debug)]
enum Segment {
    Bytes(Box<Finder<'static>>),
    /// A segment with `_`, or with case folding.
    Slots(Vec<Slot>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Char(char),
    Any,
}

impl Pattern {
    /// `%` is any text, `_` any character, and the character after `escape` stands for itself.
    pub(crate) fn new(pattern: &str, escape: Option<char>, ignore_case: bool) -> Result<Pattern, ExprError> {
        if pattern.len() > LONGEST {
            return Err(ExprError::TooLarge { limit: format!("{LONGEST} bytes of a pattern") });
        }
        let (mut segments, mut slots) = (Vec::new(), Vec::new());
        let mut chars = pattern.chars();
        while let Some(char) = chars.next() {
            let slot = match char {
                char if escape == Some(char) => match chars.next() {
                    Some(char) => Slot::Char(char),
                    None => {
                        let mistake = format!("a pattern cannot end with its escape character {char}");
                        return Err(ExprError::type_mistake(mistake));
                    }
                },
                '%' => {
                    if segments.is_empty() || !slots.is_empty() {
                        segments.push(std::mem::take(&mut slots));
                    }
                    continue;
                }
                '_' => Slot::Any,
                char => Slot::Char(char),
            };
            slots.push(slot);
        }
        segments.push(slots);
        let segments = segments.into_iter().map(|slots| Segment::new(slots, ignore_case)).collect();
        Ok(Pattern { kind: Kind::Like(Like { segments, ignore_case }) })
    }

    /// Matches anywhere in a text. DuckDB's `options`: `i` ignores case, `c` does not, `s` lets `.` match line
    /// ends, `m` lets `^` and `$` match at them, `l` takes the expression literally.
    pub(crate) fn of_expression(expression: &str, options: &str) -> Result<Pattern, ExprError> {
        if expression.len() > LONGEST {
            return Err(ExprError::TooLarge { limit: format!("{LONGEST} bytes of a pattern") });
        }
        let literal = regex::escape(expression);
        let mut builder = RegexBuilder::new(if options.contains('l') { &literal } else { expression });
        builder.size_limit(LARGEST).dfa_size_limit(LARGEST).nest_limit(DEEPEST);
        for option in options.chars() {
            match option {
                'i' => builder.case_insensitive(true),
                'c' => builder.case_insensitive(false),
                's' => builder.dot_matches_new_line(true),
                'm' | 'n' | 'p' => builder.multi_line(true),
                'l' => &mut builder,
                other => {
                    let mistake = format!("regexp_matches has no option '{other}'; the options are c, i, l, m and s");
                    return Err(ExprError::type_mistake(mistake));
                }
            };
        }
        let expression = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                ExprError::TooLarge { limit: format!("{} MiB of a compiled regular expression", LARGEST >> 20) }
            }
            error => ExprError::type_mistake(format!("regexp_matches: {error}")),
        })?;
        Ok(Pattern { kind: Kind::Expression(expression) })
    }

    /// `go_on` receives the amount of work at intervals and can cancel it.
    pub(crate) fn matches(&self, text: &str, go_on: &mut GoOn<'_>) -> Result<bool, ExprError> {
        match &self.kind {
            Kind::Like(like) => like.matches(text, go_on),
            Kind::Expression(expression) => {
                go_on(text.len())?;
                Ok(expression.is_match(text))
            }
        }
    }
}

impl Like {
    fn matches(&self, text: &str, go_on: &mut GoOn<'_>) -> Result<bool, ExprError> {
        let Some((first, others)) = self.segments.split_first() else { return Ok(text.is_empty()) };
        let Some(mut rest) = first.at_start(text, self.ignore_case) else { return Ok(false) };
        let Some((last, between)) = others.split_last() else { return Ok(rest.is_empty()) };
        for segment in between {
            match segment.behind(rest, self.ignore_case, go_on)? {
                Some(behind) => rest = behind,
                None => return Ok(false),
            }
        }
        Ok(last.at_end(rest, self.ignore_case))
    }
}

impl Segment {
    fn new(slots: Vec<Slot>, ignore_case: bool) -> Segment {
        if ignore_case || slots.contains(&Slot::Any) {
            let folded = |slot| match slot {
                Slot::Char(char) if ignore_case => Slot::Char(fold(char)),
                same => same,
            };
            return Segment::Slots(slots.into_iter().map(folded).collect());
        }
        let chars = slots.iter().filter_map(|slot| match slot {
            Slot::Char(char) => Some(*char),
            Slot::Any => None,
        });
        Segment::Bytes(Box::new(Finder::new(&chars.collect::<String>()).into_owned()))
    }

    fn at_start<'t>(&self, text: &'t str, ignore_case: bool) -> Option<&'t str> {
        match self {
            Segment::Bytes(finder) => {
                let needle = finder.needle();
                text.as_bytes().starts_with(needle).then(|| &text[needle.len()..])
            }
            Segment::Slots(slots) => {
                let mut chars = text.chars();
                let fits = slots.iter().all(|slot| chars.next().is_some_and(|char| slot.is(char, ignore_case)));
                fits.then_some(chars.as_str())
            }
        }
    }

    fn at_end(&self, text: &str, ignore_case: bool) -> bool {
        match self {
            Segment::Bytes(finder) => text.as_bytes().ends_with(finder.needle()),
            Segment::Slots(slots) => {
                let mut chars = text.chars().rev();
                slots.iter().rev().all(|slot| chars.next().is_some_and(|char| slot.is(char, ignore_case)))
            }
        }
    }

    fn behind<'t>(&self, text: &'t str, ignore_case: bool, go_on: &mut GoOn<'_>) -> Result<Option<&'t str>, ExprError> {
        match self {
            Segment::Bytes(finder) => {
                go_on(text.len())?;
                Ok(finder.find(text.as_bytes()).map(|start| &text[start + finder.needle().len()..]))
            }
            Segment::Slots(slots) => {
                let starts = text.char_indices().map(|(start, _)| start).chain([text.len()]);
                for (number, start) in starts.enumerate() {
                    if number % STARTS == 0 {
                        go_on(STARTS * slots.len())?;
                    }
                    let behind = self.at_start(&text[start..], ignore_case);
                    if behind.is_some() {
                        return Ok(behind);
                    }
                }
                Ok(None)
            }
        }
    }
}

impl Slot {
    fn is(self, char: char, ignore_case: bool) -> bool {
        match self {
            Slot::Any => true,
            Slot::Char(wanted) => wanted == char || (ignore_case && wanted == fold(char)),
        }
    }
}

fn fold(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_lowercase();
    }
    // The Turkish dotless i has the upper case I, but is not equal to i.
    if char == 'ı' {
        return char;
    }
    let one = |chars: &mut dyn Iterator<Item = char>| chars.next().filter(|_| chars.next().is_none());
    let upper = one(&mut char.to_uppercase()).unwrap_or(char);
    one(&mut upper.to_lowercase()).unwrap_or(upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Scalar, StringArray};
    use arrow_string::like::{ilike, like};
    use proptest::prelude::*;

    fn by_arrow(text: &str, pattern: &str, ignore_case: bool) -> bool {
        let texts = StringArray::from(vec![text]);
        let pattern = Scalar::new(StringArray::from(vec![pattern]));
        let found = if ignore_case { ilike(&texts, &pattern) } else { like(&texts, &pattern) };
        found.unwrap().value(0)
    }

    fn agrees(text: &str, pattern: &str) {
        for ignore_case in [false, true] {
            // Arrow takes a last escape character as it is; it is an error here.
            let Ok(prepared) = Pattern::new(pattern, Some('\\'), ignore_case) else { return };
            let found = prepared.matches(text, &mut |_| Ok(())).unwrap();
            assert_eq!(found, by_arrow(text, pattern, ignore_case), "{text:?} like {pattern:?}, {ignore_case}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn it_is_what_arrow_finds(text in "[aAbéÉſsKk\\\\%_\n]{0,8}", pattern in "[aAbéÉsSkK%%_\\\\]{0,8}") {
            agrees(&text, &pattern);
        }
    }

    #[test]
    fn characters_fold_as_in_regular_expressions() {
        let cased = ('\u{80}'..=char::MAX).filter(|c| c.to_lowercase().ne([*c]) || c.to_uppercase().ne([*c]));
        let (mut known, mut unknown) = (0, 0);
        for char in cased {
            let text = char.to_string();
            let variants = || char.to_lowercase().chain(char.to_uppercase()).filter(|other| *other != char);
            // The standard library may have a newer Unicode version, with new characters.
            if !variants().any(|other| by_arrow(&text, &other.to_string(), true)) {
                unknown += 1;
                continue;
            }
            known += 1;
            assert!(by_arrow(&text, &fold(char).to_string(), true), "{char:?} folds to {:?}", fold(char));
            variants().for_each(|other| agrees(&text, &other.to_string()));
        }
        assert!(known > 2000 && unknown < known / 20, "{known} known, {unknown} not");
    }
}
