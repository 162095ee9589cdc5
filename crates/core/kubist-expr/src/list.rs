//! Lists of expressions in one text: `x, atan2(y, x) AS phi`.

/// The parts between commas, or the whole text if [`split`] fails.
pub fn several(text: &str) -> Vec<&str> {
    split(text).filter(|parts| !parts.is_empty()).unwrap_or_else(|| vec![text])
}

/// Splits at commas outside parentheses and quotes; `None` if these are unbalanced or an argument is empty.
pub fn split(inner: &str) -> Option<Vec<&str>> {
    if inner.trim().is_empty() {
        return Some(vec![]);
    }
    let (mut depth, mut begin, mut parts) = (0i32, 0, Vec::new());
    for (index, letter) in unquoted(inner) {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inner[begin..index].trim());
                begin = index + 1;
            }
            '"' | '\'' | '`' => return None,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    parts.push(inner[begin..].trim());
    (depth == 0 && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

/// The characters outside quotes, and an unclosed quote itself.
pub fn unquoted(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut after = 0;
    text.char_indices().filter(move |(index, letter)| {
        if *index < after {
            return false;
        }
        let width = letter.len_utf8();
        match letter {
            '"' | '\'' | '`' => match text[index + width..].find(*letter) {
                Some(length) => {
                    after = index + width + length + width;
                    false
                }
                None => true,
            },
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_parentheses_and_quotes_separate_nothing() {
        let parts = split("x, atan2(y, (x)) AS phi , \"a,b\" desc, 'c,)'");
        assert_eq!(parts.unwrap(), ["x", "atan2(y, (x)) AS phi", "\"a,b\" desc", "'c,)'"]);
        assert_eq!(split(" ").unwrap(), Vec::<&str>::new());
        for text in ["a,,b", "a,", "f(a", "a)", "'a"] {
            assert_eq!(split(text), None, "{text}");
            assert_eq!(several(text), [text]);
        }
    }
}
