//! Safe text for terminals and messages.
//!
//! Names, units, metadata, values and files come from untrusted sources, and some characters control a terminal
//! or reorder the text around them. Every interface passes text for people through [`printable`] and locations
//! through [`without_password`]. Output for programs (JSON, CSV, Arrow) is unchanged.

use std::borrow::Cow;

/// Escapes control characters (also line ends), invisible characters, and marks that change the text's direction.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match acts(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Escapes several lines of Kubist's own text, but not their line ends.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    match text.contains(|character| acts(character) && character != '\n') {
        true => Cow::Owned(text.split('\n').map(printable).collect::<Vec<_>>().join("\n")),
        false => Cow::Borrowed(text),
    }
}

fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

const SECRETS: [&str; 2] = ["token", "password"];

/// Returns a location for messages, without its password and token.
pub fn without_password(location: &str) -> String {
    // Path libraries may replace `//` by `/`.
    let split = location.split_once("://").or_else(|| location.split_once(":/"));
    let named = |scheme: &str| !scheme.contains('/') && scheme != "file";
    let Some((scheme, rest)) = split.filter(|(scheme, _)| named(scheme)) else {
        return location.into();
    };
    let slashes = &location[scheme.len()..location.len() - rest.len()];
    // The last @ ends the password.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (format!("{}@", login.split(':').next().unwrap_or_default()), rest),
        None => (String::new(), rest),
    };
    let mut shown = String::new();
    for part in rest.split_inclusive(['?', '&', '#']) {
        match part.split_once('=') {
            Some((key, value)) if SECRETS.contains(&key) => {
                let end = if value.ends_with(['?', '&', '#']) { &value[value.len() - 1..] } else { "" };
                shown += &format!("{key}=...{end}");
            }
            _ => shown += part,
        }
    }
    format!("{scheme}{slashes}{login}{shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (location, shown) in [
            ("cassandra://ada:se:cr@et@h/k/t", "cassandra://ada@h/k/t"),
            ("cassandra://ada:se/cr?et@h/k/t", "cassandra://ada@h/k/t"),
            ("cassandra://ada@h/k/t", "cassandra://ada@h/k/t"),
            ("cassandra://h/k/t", "cassandra://h/k/t"),
            ("http://ada:secret@h:80/?table=run", "http://ada@h:80/?table=run"),
            ("http://h/?token=secret&table=run", "http://h/?token=...&table=run"),
            ("http://h/?table=run#token=secret", "http://h/?table=run#token=..."),
            ("ssh://ada:secret@h/run", "ssh://ada@h/run"),
            ("://ada:secret@h", "://ada@h"),
            ("cassandra:/ada:secret@h/k/t", "cassandra:/ada@h/k/t"),
            ("/data/a:b@c", "/data/a:b@c"),
            ("/data/a:/b:c@d", "/data/a:/b:c@d"),
            ("file:///data/a:b@c", "file:///data/a:b@c"),
        ] {
            assert_eq!(without_password(location), shown);
        }
    }

    #[test]
    fn what_acts_is_escaped() {
        assert_eq!(printable("\x1b[31mred\x07\r\n"), "\\u{1b}[31mred\\u{7}\\r\\n");
        assert_eq!(printable("a\u{9b}b\u{202e}c\u{200b}\x7f"), "a\\u{9b}b\\u{202e}c\\u{200b}\\u{7f}");
        assert_eq!(printable("µm, größe, 温度 ✓"), "µm, größe, 温度 ✓");
        assert_eq!(printable_lines("one\ntwo\x1b]0;x\x07\n"), "one\ntwo\\u{1b}]0;x\\u{7}\n");
    }
}
