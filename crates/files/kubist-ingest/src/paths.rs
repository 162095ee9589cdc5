//! Expands paths, folders and patterns to files.

use std::cmp::Ordering;
use std::path::{Component, Path, PathBuf};

/// Expands folders and patterns to files. A folder with `is_whole` is one source. The contents of other folders, and
/// the matches of a pattern such as `step_*.parquet`, are in natural order: step_9 before step_10.
///
/// # Errors
///
/// The first path that does not exist and is no pattern, or a folder that cannot be read.
pub fn expanded<E>(
    paths: &[PathBuf],
    is_whole: &mut dyn FnMut(&Path) -> Result<bool, E>,
    absent: &dyn Fn(&Path) -> E,
) -> Result<Vec<PathBuf>, E> {
    let mut files = Vec::new();
    for path in paths {
        let found = match path.exists() {
            true => vec![path.clone()],
            false if is_pattern(path) => matches(path),
            false => return Err(absent(path)),
        };
        for found in found {
            if found.is_dir() && !is_whole(&found)? {
                files.extend(sorted(entries(&found)));
            } else {
                files.push(found);
            }
        }
    }
    Ok(files)
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Files without rows that Spark and Arrow write into folders of Parquet.
const MARKS: [&str; 3] = ["_SUCCESS", "_metadata", "_common_metadata"];

/// The files of a folder that are not hidden.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| !name(path).starts_with('.') && !MARKS.contains(&name(path).as_str())).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn matches(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy();
        let Component::Normal(part) = component else {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let wanted: Vec<char> = text.chars().collect();
        let below = |path: &PathBuf| match is_pattern(Path::new(part)) {
            false => vec![path.join(part)],
            true => entries(path)
                .into_iter()
                .filter(|entry| is_match(&wanted, &name(entry).chars().collect::<Vec<_>>()))
                .map(|entry| path.join(entry.file_name().unwrap_or_default()))
                .collect(),
        };
        found = found.iter().flat_map(below).filter(|path| path.exists()).collect();
    }
    sorted(found)
}

/// Whether a name matches a pattern with `*`, `?`, `[abc]`, `[a-z]` and `[!a]`.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], _) => name.is_empty(),
        (['*', rest @ ..], _) => (0..=name.len()).any(|skipped| is_match(rest, &name[skipped..])),
        (['?', rest @ ..], [_, after @ ..]) => is_match(rest, after),
        (['[', class @ ..], [first, after @ ..]) => {
            // A bracket at the beginning is a member of the class.
            let negated = class.first() == Some(&'!');
            let class = &class[usize::from(negated)..];
            match class.iter().skip(1).position(|character| *character == ']').map(|end| end + 1) {
                Some(end) => is_member(&class[..end], *first) != negated && is_match(&class[end + 1..], after),
                None => *first == '[' && is_match(&pattern[1..], after),
            }
        }
        ([one, rest @ ..], [first, after @ ..]) => one == first && is_match(rest, after),
        _ => false,
    }
}

fn is_member(class: &[char], character: char) -> bool {
    match class {
        [low, '-', high, rest @ ..] => (*low..=*high).contains(&character) || is_member(rest, character),
        [one, rest @ ..] => *one == character || is_member(rest, character),
        [] => false,
    }
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by(|one, other| natural(&one.to_string_lossy(), &other.to_string_lossy()));
    paths
}

/// Compares names, and consecutive digits as one number.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (parts(one), parts(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => {
                let is_number = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
                let digits = |part: &str| part.trim_start_matches('0').len();
                let order = match is_number(a) && is_number(b) {
                    true => {
                        digits(a).cmp(&digits(b)).then_with(|| a.trim_start_matches('0').cmp(b.trim_start_matches('0')))
                    }
                    false => a.cmp(b),
                };
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_same = |character: char| character.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|character| !is_same(character)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_folders_come_in_natural_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["s_10.csv", "s_9.csv", "s_1.txt", ".s_2.csv", "_SUCCESS", "whole/a", "sub/s_3.csv"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |path: &str| {
            let mut is_whole = |path: &Path| Ok(path.ends_with("whole"));
            let absent = |path: &Path| name(path);
            let files = expanded(&[folder.path().join(path)], &mut is_whole, &absent)?;
            Ok::<_, String>(files.iter().map(|file| name(file)).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(found("s_*.csv").unwrap(), "s_9.csv s_10.csv");
        assert_eq!(found("s_?.[ct][!s]*").unwrap(), "s_1.txt");
        assert_eq!(found("*/s_[0-9].csv").unwrap(), "s_3.csv");
        assert_eq!(found("whole").unwrap(), "whole");
        assert_eq!(found("").unwrap(), "s_1.txt s_9.csv s_10.csv sub whole");
        assert_eq!(found("sub").unwrap(), "s_3.csv");
        assert_eq!(found("none_*").unwrap(), "");
        assert_eq!(found("none").unwrap_err(), "none");
    }
}
